/* ===== [calls] tool calls =====
 * How models write calls of tools, and how an answer's text becomes calls again. A form is data: a row of
 * calls_rows has the texts around calls, the pattern of one call and the pattern of one parameter; one reader
 * walks the pattern. Which form a model uses is learned from its template: a conversation with known calls is
 * rendered, and the row that reads them back from the rendering is the form. White space around names and values
 * is taken from the rendering.
 * Invariants: text that is no whole call stays content, byte for byte. Work, nesting and sizes are bounded: an
 * answer is a stranger's text. A reader says yes, no, or that the text ends before the answer is known;
 * calls_safe depends on these three.
 *
 * To add a form:
 *   1. A row of calls_rows. The first row that reads a rendering back counts: one that others read too stands before them.
 *   2. In tests/t_calls.c an answer in tcall_answers, without which "calls rows" fails, and a template in tcall_templates,
 *      which no test misses. Then `build/test/tests calls`.
 *   3. The README's list of forms: `tests/readme.py ./llmrun README.md --write`.
 * Public: calls_form, calls_render, calls_learn, calls_form_free, calls_form_name, calls_list, calls_marks,
 * calls_begin, calls_safe, calls_read, calls_live, calls_live_drop, calls_watch, calls_text_arguments, calls_no_content,
 * calls_tools_name, calls_call, call_list, call_list_add, call_list_drop, calls_want, calls_hold.
 * Opens: calls_call, call_list, calls_live, calls_want. */

typedef struct {                                      /* one call; the three texts are one allocation */
    bytes name;                                       /* of the tool */
    bytes arguments;                                  /* a JSON object */
    bytes id;
} calls_call;

typedef struct {
    calls_call *at;
    size_t      n;
} call_list;

/* Calls of an answer that is being written and keeps to calls_hold(). */
typedef struct {
    call_list calls;                                  /* whole ones */
    bool      open;                                   /* one more has begun: */
    str       name, id;                               /* its name and its id, */
    size_t    args_at;                                /* and where the JSON object of its arguments begins in the text */
} calls_live;

enum {
    CALLS_NAME = 256,                                 /* bytes of a name, an id or a key at most */
    CALLS_DEEP = 50,                                  /* loose values inside each other at most */
    CALLS_GAP = 64,                                   /* bytes that %_ may skip */
    CALLS_LESSON = 256 << 10,                         /* bytes of a rendering that is learned from, at most */
    CALLS_LEARN_WORK = 64 << 20,                      /* bytes that learning reads, at most: under a second */
};

enum {                                                /* flags of a row */
    CALLS_BARE = 1,                                   /* no text opens a call: it begins and ends a line, and its tool is known */
    CALLS_NINE = 2,                                   /* ids that are made have nine letters and digits */
    CALLS_NEST = 4,                                   /* a value may be parameters again */
};

/* `open` and `close` are around all calls, `sep` between two; ';' may be missing there. Any white space may be
 * around literal text and where that has white space. Slots of `call`: %n name; %o JSON object with name,
 * arguments and id; %a arguments as JSON; %p parameters, each as in `param`;
 * %y arguments as in Python, in round brackets; %g arguments in {}, with bare keys and strings between two
 * `param`; %i id; %x number;
 * %( %) begin and end of an id; %_ a few bytes without meaning. Slots of `param`: %k key; %v value; %t "true"
 * where the value is a string, "false" where it is JSON. */
typedef struct {
    const char *name;                                 /* of the form; NULL: another way to write the form of the row above */
    const char *open;
    const char *call;
    const char *sep;
    const char *close;
    const char *param;
    const char *lead;                                 /* text that may be before a call and belongs to it; "": it is learned */
    const char *hint;                                 /* text in a template that renders no calls; NULL: the opening */
    int         flags;
} calls_row;

#define CALLS_DS "<\xef\xbd\x9ctool\xe2\x96\x81"          /* tokens of DeepSeek: U+FF5C and U+2581 */
#define CALLS_DE "\xef\xbd\x9c>"
#define CALLS_ML "\xef\xbd\x9c" "DSML\xef\xbd\x9c"
#define CALLS_M3 "]<]minimax[>["

static const calls_row calls_rows[] = { /* name, open, call, sep, close, param, lead, hint, flags */
    {"tool_call-parameters", "", "<tool_call>\n<function=%n>\n%p</function>\n</tool_call>", "", "",
     "<parameter=%k>\n%v\n</parameter>\n", "", "<parameter=", 0},
    {NULL, "", "<function=%n>\n%p</function>\n</tool_call>", "", "", "<parameter=%k>\n%v\n</parameter>\n", "", NULL, 0},
    {"seed", "", "<seed:tool_call>\n<function=%n>\n%p</function>\n</seed:tool_call>", "", "",
     "<parameter=%k>%v</parameter>\n", "", NULL, 0},
    {"tool_call-keys", "", "<tool_call>%n\n%p</tool_call>", "", "",
     "<arg_key>%k</arg_key>\n<arg_value>%v</arg_value>\n", "", "<arg_key>", 0},
    {"hunyuan", "<tool_calls:opensource>\n",
     "<tool_call:opensource>%n<tool_sep:opensource>\n%p</tool_call:opensource>\n", "", "</tool_calls:opensource>",
     "<arg_key:opensource>%k</arg_key:opensource>\n<arg_value:opensource>%v</arg_value:opensource>\n", "", NULL, 0},
    {"hunyuan-json", "<tool_calls>", "<tool_call>%_<tool_sep>%n\n```json\n%a\n```</tool_call>", "", "</tool_calls>",
     "", "", NULL, 0},
    {NULL, "<tool_calls>", "<tool_call>%n\n```json\n%a\n```</tool_call>", "", "</tool_calls>", "", "", NULL, 0},
    {"tool_call", "", "<tool_call>\n%o\n</tool_call>", "", "", "", "", NULL, 0},
    {NULL, "<tool_call>[", "%o", ",", "]</tool_call>", "", "", NULL, 0},
    {"tool_calls-list", "<tool_calls>[", "%o", ",", "]</tool_calls>", "", "", NULL, 0},
    {"mistral", "", "[TOOL_CALLS]%n[CALL_ID]%i[ARGS]%a", "", "", "", "", NULL, CALLS_NINE},
    {NULL, "", "[TOOL_CALLS]%n[ARGS]%a", "", "", "", "", NULL, CALLS_NINE},
    {NULL, "[TOOL_CALLS][", "%o", ",", "]", "", "", NULL, CALLS_NINE},
    {"deepseek-r1", CALLS_DS "calls\xe2\x96\x81" "begin" CALLS_DE,
     CALLS_DS "call\xe2\x96\x81" "begin" CALLS_DE "function" CALLS_DS "sep" CALLS_DE "%n\n```json\n%a\n```"
     CALLS_DS "call\xe2\x96\x81" "end" CALLS_DE,
     "", CALLS_DS "calls\xe2\x96\x81" "end" CALLS_DE, "", "", NULL, 0},
    {"deepseek-v3.1", CALLS_DS "calls\xe2\x96\x81" "begin" CALLS_DE,
     CALLS_DS "call\xe2\x96\x81" "begin" CALLS_DE "%n" CALLS_DS "sep" CALLS_DE "%a"
     CALLS_DS "call\xe2\x96\x81" "end" CALLS_DE,
     "", CALLS_DS "calls\xe2\x96\x81" "end" CALLS_DE, "", "", NULL, 0},
    {"deepseek-v3.2", "<" CALLS_ML "function_calls>\n",
     "<" CALLS_ML "invoke name=\"%n\">\n%p</" CALLS_ML "invoke>\n", "", "</" CALLS_ML "function_calls>",
     "<" CALLS_ML "parameter name=\"%k\" string=\"%t\">%v</" CALLS_ML "parameter>\n", "", NULL, 0},
    {"deepseek-v4", "<" CALLS_ML "tool_calls>\n", "<" CALLS_ML "invoke name=\"%n\">\n%p</" CALLS_ML "invoke>\n", "",
     "</" CALLS_ML "tool_calls>",
     "<" CALLS_ML "parameter name=\"%k\" string=\"%t\">%v</" CALLS_ML "parameter>\n", "", NULL, 0},
    {"step3", "<\xef\xbd\x9ctool_calls_begin" CALLS_DE,
     "<\xef\xbd\x9ctool_call_begin" CALLS_DE "function<\xef\xbd\x9ctool_sep" CALLS_DE
     "<steptml:invoke name=\"%n\">%p</steptml:invoke><\xef\xbd\x9ctool_call_end" CALLS_DE,
     "", "<\xef\xbd\x9ctool_calls_end" CALLS_DE, "<steptml:parameter name=\"%k\">%v</steptml:parameter>", "", NULL, 0},
    {"kimi", "<|tool_calls_section_begin|>",
     "<|tool_call_begin|>%(functions.%n:%x%)<|tool_call_argument_begin|>%a<|tool_call_end|>", "",
     "<|tool_calls_section_end|>", "", "", NULL, 0},
    {NULL, "<|tool_calls_section_begin|>",
     "<|tool_call_begin|>%(%n:%x%)<|tool_call_argument_begin|>%a<|tool_call_end|>", "",
     "<|tool_calls_section_end|>", "", "", NULL, 0},
    {NULL, "<|tool_calls_section_begin|>",
     "<|tool_call_begin|>%(%n%)<|tool_call_argument_begin|>%a<|tool_call_end|>", "",
     "<|tool_calls_section_end|>", "", "", NULL, 0},
    {"command-r7b", "<|START_ACTION|>[", "%o", ",", "]<|END_ACTION|>", "", "", NULL, 0},
    {"command-r", "Action:\n```json\n[", "%o", ",", "]\n```", "", "", NULL, 0},
    {"gpt-oss", "", "<|channel|>commentary to=functions.%n%_<|message|>%a<|call|>", "", "", "",
     "<|start|>assistant", NULL, 0},
    {NULL, "", " to=functions.%n%_<|message|>%a<|call|>", "", "", "", "<|start|>assistant", NULL, 0},
    {NULL, "", "<|channel|>analysis to=functions.%n%_<|message|>%a<|call|>", "", "", "", "<|start|>assistant", NULL, 0},
    {"gemma", "", "<|tool_call>call:%n%g<tool_call|>", "", "", "<|\"|>", "", NULL, 0},
    {"functiongemma", "", "<start_function_call>call:%n%g<end_function_call>", "", "", "<escape>", "", NULL, 0},
    {"lfm2", "<|tool_call_start|>[", "%n%y", ",", "]<|tool_call_end|>", "", "", "List of tools: ", 0},
    {NULL, "<|tool_call_start|>[", "%o", ",", "]<|tool_call_end|>", "", "", NULL, 0},
    {"minicpm3", "<|tool_call_start|>\n```python\n", "%n%y\n", "", "```\n<|tool_call_end|>", "", "", NULL, 0},
    {"olmo3", "<function_calls>\n", "%n%y\n", "", "</function_calls>", "", "", NULL, 0},
    {"minimax-m2", "<minimax:tool_call>\n", "<invoke name=\"%n\">\n%p</invoke>\n", "", "</minimax:tool_call>",
     "<parameter name=\"%k\">%v</parameter>\n", "", NULL, 0},
    {"minimax-m3", CALLS_M3 "<tool_call>\n", CALLS_M3 "<invoke name=\"%n\">%p" CALLS_M3 "</invoke>\n", "",
     CALLS_M3 "</tool_call>",
     CALLS_M3 "<%k>%v" CALLS_M3 "</%k>", "", NULL, CALLS_NEST},
    {"minicpm", "", "<function name=\"%n\">%p</function>", "", "", "<param name=\"%k\">%v</param>", "", NULL, 0},
    {"phi-4", "<|tool_call|>[", "%o", ",", "]<|/tool_call|>", "", "", NULL, 0},
    {"granite", "<|tool_call|>[", "%o", ",", "]", "", "", "<|tool_call|>", 0},
    {"nemotron", "<TOOLCALL>[", "%o", ",", "]</TOOLCALL>", "", "", NULL, 0},
    {"apertus", "<|tools_prefix|>[", "{\"%n\": %a}", ",", "]<|tools_suffix|>", "", "", NULL, 0},
    {"solar", "<|tool_calls|>", "<|tool_call:begin|>%i<|tool_call:name|>%n<|tool_call:args|>%a<|tool_call:end|>",
     "", "<|calls|>", "", "", NULL, 0},
    {"internlm", "", "<|action_start|><|plugin|>\n%o<|action_end|>", "", "", "", "", NULL, 0},
    {"gigachat", "", "<|function_call|>%o", "", "", "", "", NULL, 0},
    {"gigachat-role", "", "function call<|role_sep|>\n%o", "", "", "", "<|message_sep|>\n\n", NULL, 0},
    {"mcp", "",
     "<use_mcp_tool>\n<server_name>%_</server_name>\n<tool_name>%n</tool_name>\n"
     "<arguments>\n%a\n</arguments>\n</use_mcp_tool>",
     "", "", "", "", NULL, 0},
    {"functools", "functools[", "%o", ",", "]", "", "", NULL, 0},
    {"functions", "", "functions.%n:\n%a", "", "", "", "", NULL, 0},
    {"function-tag", "", "<function=%n>%a</function>", "", "", "", "", NULL, 0},
    {"functionary", "", ">>>%n\n%a", "", "", "", "", NULL, 0},
    {NULL, "", "%n\n%a", "", "", "", "", NULL, CALLS_BARE},
    {"functionary-v2", "", "<|recipient|>%n\n<|content|>%a<|stop|>", "", "", "", "<|from|>assistant\n", NULL, 0},
    {"llama", "", "%o", ";", "", "", "", NULL, CALLS_BARE},
    {NULL, "<|python_tag|>", "%o", ";", "", "", "", NULL, 0},
    {"json-in-tags", "", "<TAG>%o</TAG>", "", "", "", "", NULL, 0},                 /* any tags: see calls__learn_tags() */
    {"json-list", "[", "%o", ",", "]", "", "", NULL, CALLS_BARE},
    {"python-list", "[", "%n%y", ",", "]", "", "", NULL, CALLS_BARE},
    {NULL, "<|python_start|>[", "%n%y", ",", "]<|python_end|>", "", "", NULL, 0},
    {"llama4", "<|python_start|><|python_end|>", "%o", ";", "", "", "", NULL, 0},
    {NULL, "<|python_end|>", "%o", ";", "", "", "", NULL, 0},
    {NULL, "<|python_start|>", "%o", ";", "<|python_end|>", "", "", NULL, 0},
    {NULL, "<|python_start|>[", "%n%y", ",", "]<|python_end|>", "", "", NULL, 0},
    {NULL, "", "%o", ";", "", "", "", NULL, CALLS_BARE},
    {NULL, "[", "%n%y", ",", "]", "", "", NULL, CALLS_BARE},
};

struct calls_form {
    const calls_row *row;                             /* [n_rows] the form's row and its other ways */
    int              n_rows;
    str              lead;                            /* white space before a call that belongs to it */
    str              value_lead;                      /* white space before the value of a parameter */
    str              value_tail;                      /* white space after it */
    str              begin;                           /* text before the name */
    str              middle;                          /* text from the name to the arguments */
    str              inner;                           /* from an id before the name to the name */
    bool             named;                           /* the name comes after `begin` */
    bool             after_text;                     /* a call that no text opens may be after text in a line */
    int              raw_quote;                       /* around Python strings that the template does not escape; 0: none */
    bool             text_arguments;                  /* the template takes arguments as JSON text */
    const char      *no_content;                      /* JSON of a content without text beside calls; "": the key is missing */
    const char      *tools_name;                      /* the template's variable for tools */
    bool             first[256];                      /* bytes that may begin a call */
    uint64_t         work;                            /* of learning: bytes read */
    calls_row        own;                             /* a row that the template alone has; its texts: */
    str              own_text[3];
};
typedef struct calls_form calls_form;

/* --- the cursor: yes, no, or the text ends first --- */

typedef struct {                                      /* of one call in the text; a place is 0 where it is not known */
    size_t at;                                        /* of its group */
    size_t name_at;                                   /* of its name */
    size_t name_end;                                  /* after its name */
    size_t args_at;                                   /* of its arguments */
    bytes  value;                                     /* of its last parameter, with the white space around it */
    bool   opened;                                    /* the text around all calls is there */
    bool   bare;                                      /* no text opens the call */
} calls_place;

typedef struct {
    const calls_form *f;
    bytes       t;                                    /* the answer */
    bool        ended;                                /* no byte follows */
    bool        more;                                 /* the text ended where a byte was needed */
    bool        tired;                                /* the work is spent: nothing else is tried */
    size_t      work;                                 /* bytes and values read */
    size_t      most_work;                            /* of them, at most */
    size_t      blank_from;                           /* where the white space begins that was skipped last */
    size_t      blank_to;                             /* after it */
    val         tools;                                /* their list, or undefined */
    str         name;                                 /* of the call that is read */
    str         id;                                   /* its id; empty: it has none */
    str         args;                                 /* its arguments as JSON */
    call_list  *out;                                  /* NULL: calls are found and not kept */
    size_t      id_at;                                /* where the id begins */
    calls_place place;                                /* of the group and the call that are read */
    bytes       watch;                                /* learning: the name of the known call */
    calls_place seen;                                 /* learning: where it was found */
    bool        found;                                /* learning: it was */
    bool        strict;                               /* learning: JSON must be JSON */
    uint64_t    salt;                                 /* of ids that are made */
    calls_live *live;                                 /* calls that are being written; NULL: the caller does not want them */
    int         n_ways;                               /* ways in which the text may go on, of all calls, */
    int         n_open;                               /* and of the one that is written */
} calls_cur;

static bool calls__has(calls_cur *c, size_t at) {
    if (at < c->t.n) return true;
    c->more = true;
    return false;
}

static bool calls__is(calls_cur *c, size_t at, uint8_t b) { return calls__has(c, at) && c->t.p[at] == b; }

/* After the white space at t[at]. The end of the last run is kept, so that an answer of newlines is not read
 * again from each of them. */
static size_t calls__skip(calls_cur *c, size_t at) {
    if (at < c->blank_from || at >= c->blank_to) {
        c->blank_from = c->blank_to = at;
        while (c->blank_to < c->t.n && bytes_is_blank(c->t.p[c->blank_to])) c->blank_to++;
    }
    return c->blank_to;
}

static bool calls__worked(calls_cur *c, size_t n) {
    c->work += n;
    if (c->work > c->most_work) c->tired = true;
    return !c->tired;
}

static bool calls__between_tags(bytes lit, size_t k) {
    return k && (lit.p[k] == '<' || lit.p[k] == '[') && (lit.p[k - 1] == '>' || lit.p[k - 1] == ']');
}

/* The text `lit` at *at. White space of `lit` stands for any white space, and tags and brackets may have some
 * between them. */
static bool calls__lit(calls_cur *c, bytes lit, size_t *at) {
    size_t i = *at;
    for (size_t k = 0; k < lit.n; k++) {
        const uint8_t b = lit.p[k];
        if (bytes_is_blank(b) || calls__between_tags(lit, k)) i = calls__skip(c, i);
        if (bytes_is_blank(b)) continue;
        if (!calls__is(c, i, b)) return false;
        i++;
    }
    *at = i;
    return true;
}

static bool calls__word(calls_cur *c, const char *word, size_t *at) { return calls__lit(c, bytes_of(word), at); }

static bool calls__blank(bytes b) { return bytes_trim(b).n == 0; }

/* The first `find` in the answer from `at` on; SIZE_MAX: none. As bytes_find(), but its work is bounded. */
static size_t calls__seek(calls_cur *c, size_t at, bytes find) {
    const size_t i = bytes_find(c->t, at, find);
    return calls__worked(c, (i == SIZE_MAX ? c->t.n : i) - at + 1) ? i : SIZE_MAX;
}

/* The first `find` in the answer that begins within n bytes of `at`. */
static size_t calls__near(calls_cur *c, size_t at, size_t n, bytes find) {
    const size_t most = at + min_size(n + find.n, c->t.n - at), i = bytes_find((bytes){c->t.p, most}, at, find);
    if (i == SIZE_MAX && most == c->t.n) c->more = true;
    return i;
}

/* --- JSON, and loose values: Python literals, and objects with bare keys. They become JSON. --- */

/* What scan() reads at t[*at]. */
static bool calls__scan(calls_cur *c, bool (*scan)(bytes_scan *s), size_t *at) {
    bytes_scan s = {.t = c->t, .at = *at, .most = c->tired ? 0 : c->most_work - c->work};
    const bool ok = scan(&s);
    c->more |= s.more;
    if (!calls__worked(c, s.work) || !ok) return false;
    *at = s.at;
    return true;
}

/* Appends the JSON text with control characters of its strings as escapes. */
static void calls__json_put(str *s, bytes json) {
    bool in = false;
    for (size_t i = 0; i < json.n; i++) {
        const uint8_t b = json.p[i];
        if (in && b < 0x20) {
            str_fmt(s, "\\u%04x", b);
            continue;
        }
        str_add(s, &b, 1);
        if (b == '"') in = !in;
        if (in && b == '\\' && i + 1 < json.n) str_add(s, &json.p[++i], 1);
    }
}

static bool calls__loose(calls_cur *c, const char *quote, size_t *at, str *out, int deep);  /* values hold values */

/* The length of the escape at t[i] (its backslash), which is appended; 0: it goes on after the text. */
static size_t calls__escape(bytes t, size_t i, str *out) {
    static const char from[] = "abfnrtv0", to[] = "\a\b\f\n\r\t\v";
    if (i + 1 >= t.n) return 0;
    const uint8_t b = t.p[i + 1];
    const char   *p = memchr(from, b, 8);
    const int     digits = b == 'x' ? 2 : b == 'u' ? 4 : b == 'U' ? 8 : 0;
    size_t        at = i + 2;
    uint64_t      v;
    if (digits && at + (size_t)digits > t.n) return 0;
    if (digits && bytes_hex(t.p + at, digits, &v) && v <= 0x10ffff) {
        if (b != 'u') return str_char(out, v >= 0xd800 && v < 0xe000 ? 0xfffd : (uint32_t)v), 2 + (size_t)digits;
        str_char(out, bytes_utf16(t, &at, false));
        return at - i;
    }
    if (b == '\n') return 2;
    if (p) str_add(out, to + (p - from), 1);
    else if (b == '\\' || b == '\'' || b == '"') str_add(out, &b, 1);
    else str_add(out, &t.p[i], 2);
    return 2;
}

/* Whether a value can end before t[i]: a comma, a colon or a closing bracket follows; between arguments a comma
 * and the next name. */
static bool calls__value_ends(calls_cur *c, size_t i, bool argument) {
    i = calls__skip(c, i);
    if (!calls__has(c, i)) return false;
    if (!argument) return memchr(",:]})", c->t.p[i], 5) != NULL;
    if (c->t.p[i] != ',') return c->t.p[i] == ')';
    i = calls__skip(c, i + 1);
    const size_t from = i;
    while (i < c->t.n && (isalnum(c->t.p[i]) || c->t.p[i] == '_')) i++;
    return i > from && calls__is(c, calls__skip(c, i), '=');
}

/* A string in single or double quotes. One that the template writes without escapes ends at the first quote that
 * can be its last. */
static bool calls__loose_string(calls_cur *c, size_t *at, str *out, bool argument) {
    const uint8_t q = c->t.p[*at];
    const bool    raw = c->f && q == c->f->raw_quote;
    str           s = {0};
    size_t        i = *at + 1;
    bool          ok = false;
    while (calls__has(c, i) && !(ok = c->t.p[i] == q && (!raw || calls__value_ends(c, i + 1, argument)))) {
        const size_t n = c->t.p[i] == '\\' && !raw ? calls__escape(c->t, i, &s) : 1;
        if (!n) c->more = true;
        if (!n || !calls__worked(c, 1)) break;
        if (n == 1) str_add(&s, &c->t.p[i], 1);
        i += n;
    }
    if (ok) str_json_exact(out, str_bytes(&s)), *at = i + 1;
    str_drop(&s);
    return ok;
}

/* A string between two texts `quote`. It ends at the first one that a value can end with. */
static bool calls__loose_marked(calls_cur *c, bytes quote, size_t *at, str *out) {
    size_t i = *at + quote.n;
    for (size_t end = i; (end = calls__seek(c, end, quote)) != SIZE_MAX; end++) {
        if (!calls__value_ends(c, end + quote.n, false)) continue;
        str_json_exact(out, bytes_slice(c->t, i, end));
        *at = end + quote.n;
        return true;
    }
    c->more = true;
    return false;
}

static bool calls__loose_word(calls_cur *c, size_t *at, str *out) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}, {"true", "true"},
                                           {"false", "false"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (calls__word(c, words[i][0], at)) return str_put(out, words[i][1]), true;
    return false;
}

static bool calls__in_python(uint8_t b) { return isalnum(b) || b == '_' || b >= 0x80; }
static bool calls__in_bare_key(uint8_t b) { return !memchr(":,{}[]\"'<> \n\t\r", b, 15); }

/* A key: a name where '=' follows, else a string or text up to the colon. */
static bool calls__loose_key(calls_cur *c, const char *quote, uint8_t colon, size_t *at, str *out) {
    const size_t from = *at;
    const bool   python = colon == '=';
    size_t       i = from, q = from;
    if (!python && (c->t.p[i] == '"' || c->t.p[i] == '\'')) return calls__loose_string(c, at, out, false);
    if (*quote && calls__word(c, quote, &q)) return calls__loose_marked(c, bytes_of(quote), at, out);
    while (calls__has(c, i) && i - from < CALLS_NAME && (python ? calls__in_python : calls__in_bare_key)(c->t.p[i])) i++;
    if (i == c->t.n || i == from) return false;
    str_json_exact(out, bytes_slice(c->t, from, i));
    *at = i;
    return true;
}

/* The entries of a list (colon 0), of an object (':') or of the arguments of a call ('='), up to the closing bracket. */
static bool calls__loose_entries(calls_cur *c, const char *quote, uint8_t close, uint8_t colon, size_t *at,
                                 str *out, int deep) {
    size_t i = calls__skip(c, *at);
    for (bool first = true; !calls__is(c, i, close); first = false) {
        if (!first && !calls__is(c, i, ',')) return false;
        i = calls__skip(c, i + !first);
        if (!first && colon != '=' && calls__is(c, i, close)) break;
        if (!first) str_put(out, ", ");
        if (!calls__has(c, i) || (colon && !calls__loose_key(c, quote, colon, &i, out))) return false;
        if (colon) {
            i = calls__skip(c, i);
            if (!calls__is(c, i, colon)) return false;
            i = calls__skip(c, i + 1);
            str_put(out, ": ");
        }
        if (!calls__loose(c, quote, &i, out, deep)) return false;
        i = calls__skip(c, i);
    }
    *at = i + 1;
    return true;
}

/* One value, appended as JSON. quote: what is around strings, "" for none. deep: values around it; 0: an argument
 * of a call. */
static bool calls__loose(calls_cur *c, const char *quote, size_t *at, str *out, int deep) {
    if (deep > CALLS_DEEP || !calls__has(c, *at) || !calls__worked(c, 1)) return false;
    const uint8_t b = c->t.p[*at];
    const size_t  from = *at;
    size_t        q = from;
    if (*quote && calls__word(c, quote, &q)) return calls__loose_marked(c, bytes_of(quote), at, out);
    if (b == '"' || b == '\'') return calls__loose_string(c, at, out, !deep);
    if (b == '{' || b == '[' || b == '(') {
        const uint8_t close = b == '{' ? '}' : b == '[' ? ']' : ')';
        str_put(out, close == '}' ? "{" : "[");
        ++*at;
        if (!calls__loose_entries(c, quote, close, close == '}' ? ':' : 0, at, out, deep + 1)) return false;
        str_put(out, close == '}' ? "}" : "]");
        return true;
    }
    if (b != '-' && !isdigit(b)) return calls__loose_word(c, at, out);
    if (!calls__scan(c, bytes_scan_number, at)) return false;
    str_cat(out, bytes_slice(c->t, from, *at));
    return true;
}

/* JSON, or else a loose value: appended as JSON. */
static bool calls__any_json(calls_cur *c, size_t *at, str *out) {
    const size_t from = *at, n = out->n;
    if (calls__scan(c, bytes_scan_json, at)) return calls__json_put(out, bytes_slice(c->t, from, *at)), true;
    if (c->strict || c->more || c->tired || !calls__has(c, from) || c->t.p[from] != '{') return false;
    if (calls__loose(c, "", at, out, 1)) return true;
    out->n = n;
    return false;
}

/* --- types of parameters, from the list of tools --- */

static bool calls__same(val v, bytes text) {
    str s = {0};
    if (v.kind != VAL_STR) return false;
    val_utf8(v.s, &s);
    const bool same = bytes_eq(str_bytes(&s), text);
    str_drop(&s);
    return same;
}

/* An entry of an object by a name from the answer; undefined: there is none. */
static val calls__entry(val object, bytes name) {
    for (size_t i = 0; object.kind == VAL_DICT && i < object.dict->n; i++)
        if (!object.dict->at[i].gone && calls__same(object.dict->at[i].key, name)) return object.dict->at[i].value;
    return val_undef(NULL);
}

/* The tool's description, which may be in an object under "function"; undefined: no tool has this name. */
static val calls__tool(val tools, bytes name) {
    for (size_t i = 0; tools.kind == VAL_LIST && i < tools.list->n; i++) {
        const val f = val_get(tools.list->at[i], "function"), tool = f.kind == VAL_DICT ? f : tools.list->at[i];
        if (calls__same(val_get(tool, "name"), name)) return tool;
    }
    return val_undef(NULL);
}

/* Names of types: those of JSON Schema, whatever the case, and those of other vendors and of Python; "": any. */
static const char *const calls__types[][2] = {
    {"string", "string"}, {"number", "number"}, {"integer", "integer"}, {"boolean", "boolean"}, {"array", "array"},
    {"object", "object"}, {"null", "null"},     {"any", ""},            {"type_unspecified", ""}, {"str", "string"},
    {"float", "number"},  {"double", "number"}, {"int", "integer"},     {"bool", "boolean"},    {"list", "array"},
    {"tuple", "array"},   {"dict", "object"},   {"none", "null"}};

/* A type's name as JSON Schema has it, "" for any; NULL: it is none. */
static const char *calls__type_name(val v) {
    str  s = {0};
    int  i = 0;
    const int n = sizeof calls__types / sizeof *calls__types;
    if (v.kind != VAL_STR) return NULL;
    val_utf8(v.s, &s);
    str_put(&s, "");
    while (i < n && strcasecmp(s.p, calls__types[i][0]) != 0) i++;
    if (i < n && strlen(s.p) != s.n) i = n;
    str_drop(&s);
    return i < n ? calls__types[i][1] : NULL;
}

static bool calls__is_type(val v, const char *name) {
    const char *is = calls__type_name(v);
    return is && strcmp(is, name) == 0;
}

/* What a schema says of a value: nothing, a string, no string, a list, an object. */
enum { CALLS_ANY, CALLS_STRING, CALLS_OTHER, CALLS_LIST, CALLS_OBJECT };

/* The type that all of a list have but those that are null: types or, with key, schemas. */
static int calls__type_of_all(val list, const char *key) {
    int type = -1;
    for (size_t i = 0; i < list.list->n; i++) {
        const val t = key ? val_get(list.list->at[i], key) : list.list->at[i];
        if (calls__is_type(t, "null")) continue;
        const int is = calls__is_type(t, "string") ? CALLS_STRING
                       : calls__is_type(t, "") || (key && t.kind != VAL_STR) ? CALLS_ANY : CALLS_OTHER;
        type = type < 0 || is == type ? is : CALLS_ANY;
    }
    return type < 0 ? CALLS_ANY : type;
}

static int calls__type(val schema) {
    const val type = val_get(schema, "type"), any = val_get(schema, "anyOf"), one = val_get(schema, "oneOf");
    const val names = val_get(schema, "enum");
    if (calls__is_type(type, "string")) return CALLS_STRING;
    if (calls__is_type(type, "array")) return CALLS_LIST;
    if (calls__is_type(type, "object")) return CALLS_OBJECT;
    if (calls__is_type(type, "")) return CALLS_ANY;
    if (type.kind == VAL_STR) return CALLS_OTHER;
    if (type.kind == VAL_LIST) return calls__type_of_all(type, NULL);
    if (any.kind == VAL_LIST) return calls__type_of_all(any, "type");
    if (one.kind == VAL_LIST) return calls__type_of_all(one, "type");
    for (size_t i = 0; names.kind == VAL_LIST && i < names.list->n; i++)
        if (names.list->at[i].kind != VAL_STR) return CALLS_ANY;
    return names.kind == VAL_LIST && names.list->n ? CALLS_STRING : CALLS_ANY;
}

/* Whether a schema says that a value may be null. */
static bool calls__nullable(val schema) {
    static const char *const keys[] = {"anyOf", "oneOf"};
    const val type = val_get(schema, "type"), flag = val_get(schema, "nullable"), names = val_get(schema, "enum");
    bool      is = calls__is_type(type, "null") || (flag.kind == VAL_BOOL && flag.b);
    for (size_t i = 0; type.kind == VAL_LIST && i < type.list->n; i++) is = is || calls__is_type(type.list->at[i], "null");
    for (size_t i = 0; names.kind == VAL_LIST && i < names.list->n; i++) is = is || names.list->at[i].kind == VAL_NONE;
    for (int k = 0; k < 2; k++) {
        const val some = val_get(schema, keys[k]);
        for (size_t i = 0; some.kind == VAL_LIST && i < some.list->n && !is; i++)
            is = calls__is_type(val_get(some.list->at[i], "type"), "null");
    }
    return is;
}

/* --- schemas of parameters as they are meant --- */

static bool calls__is_one(val key, const char *const *names) {
    while (*names && !val_is_str(key, *names)) names++;
    return *names != NULL;
}

static val calls__meant(val_env *env, val schema);    /* schemas hold schemas */

/* A list or a dict of schemas, or one of them. */
static val calls__meant_all(val_env *env, val v) {
    const val copy = v.kind == VAL_LIST ? val_list_new(env) : val_dict_new(env);
    for (size_t i = 0; v.kind == VAL_LIST && i < v.list->n; i++)
        val_list_add(env, copy.list, calls__meant(env, v.list->at[i]));
    for (size_t i = 0; v.kind == VAL_DICT && i < v.dict->n; i++)
        if (!v.dict->at[i].gone) val_dict_set(env, copy.dict, v.dict->at[i].key, calls__meant(env, v.dict->at[i].value));
    return v.kind == VAL_LIST || v.kind == VAL_DICT ? copy : v;
}

/* A type, or a list of them; undefined: any. A name that is none stays, and the schema is refused. */
static val calls__meant_type(val_env *env, val type) {
    const char *name = calls__type_name(type);
    if (type.kind == VAL_STR) return name ? *name ? val_str_of(env, name) : val_undef(NULL) : type;
    if (type.kind != VAL_LIST) return type;
    const val list = val_list_new(env);
    for (size_t i = 0; i < type.list->n; i++) {
        const val one = calls__meant_type(env, type.list->at[i]);
        if (one.kind == VAL_UNDEF) return one;
        val_list_add(env, list.list, one);
    }
    return list;
}

/* OpenAPI's nullable: null is one more type, and one more of the values. */
static void calls__add_null(val_env *env, val schema) {
    static const char *const keys[] = {"type", "enum"};
    for (int i = 0; i < 2; i++) {
        const val old = val_get(schema, keys[i]), list = val_list_new(env);
        bool      has = old.kind != VAL_LIST && (i || old.kind != VAL_STR);
        if (old.kind == VAL_STR) val_list_add(env, list.list, old);
        for (size_t k = 0; old.kind == VAL_LIST && k < old.list->n; k++) {
            has = has || (i ? old.list->at[k].kind == VAL_NONE : val_is_str(old.list->at[k], "null"));
            val_list_add(env, list.list, old.list->at[k]);
        }
        val_list_add(env, list.list, i ? val_none() : val_str_of(env, "null"));
        if (!has) val_put(env, schema.dict, keys[i], list);
    }
}

/* A schema as JSON Schema writes it: types under its names; a keyword that is null is not given. */
static val calls__meant(val_env *env, val schema) {
    static const char *const maps[] = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", NULL};
    static const char *const subs[] = {"items", "prefixItems", "additionalItems", "additionalProperties", "contains",
        "propertyNames", "unevaluatedItems", "unevaluatedProperties", "anyOf", "oneOf", "allOf", "not", "if", "then",
        "else", NULL};
    static const char *const values[] = {"const", "default", "example", NULL};
    if (schema.kind != VAL_DICT) return schema;
    const val all = val_dict_new(env);
    for (size_t i = 0; i < schema.dict->n; i++) {
        const val_pair *p = &schema.dict->at[i];
        val             v = p->value;
        if (p->gone || (v.kind == VAL_NONE && !calls__is_one(p->key, values))) continue;
        if (val_is_str(p->key, "type")) v = calls__meant_type(env, v);
        else if (calls__is_one(p->key, maps)) v = calls__meant_all(env, v);
        else if (calls__is_one(p->key, subs)) v = v.kind == VAL_LIST ? calls__meant_all(env, v) : calls__meant(env, v);
        if (v.kind != VAL_UNDEF) val_dict_set(env, all.dict, p->key, v);
    }
    const val flag = val_get(all, "nullable");
    if (flag.kind == VAL_BOOL && flag.b) calls__add_null(env, all);
    return all;
}

/* --- one call: a walk along its pattern --- */

static bool calls__name_byte(uint8_t b) { return b > ' ' && b != 0x7f && !memchr("<>\"'{}()[],=`", b, 13); }

/* A name, or an id: up to what cannot be part of one, or to the last `next` in it. */
static bool calls__name(calls_cur *c, bytes next, size_t *at, str *out) {
    size_t i = calls__skip(c, *at), from = i;
    while (i < c->t.n && i - from <= CALLS_NAME && calls__name_byte(c->t.p[i])) i++;
    if (i == c->t.n) c->more = true;
    if (next.n && calls__name_byte(next.p[0]))
        for (size_t k = i; k-- > from;)
            if (i - k >= next.n && memcmp(c->t.p + k, next.p, next.n) == 0) {
                i = k;
                break;
            }
    if (i == from || i - from > CALLS_NAME) return false;
    str_set(out, bytes_slice(c->t, from, i));
    *at = i;
    return true;
}

/* Sets arguments from JSON text: an object, a string that holds one, or nothing. */
static bool calls__set_arguments(calls_cur *c, bytes json) {
    str  inner = {0};
    bool ok = json.n && json.p[0] == '{';
    json = bytes_trim(json);
    if (ok) str_set(&c->args, json);
    else if (json.n && json.p[0] == '"') {
        str_unquote(&inner, json, false);
        const bytes b = bytes_trim(str_bytes(&inner));
        ok = b.n == 0 || (b.p[0] == '{' && bytes_is_json(b));
        if (ok && b.n) str_clear(&c->args), calls__json_put(&c->args, b);
    } else ok = bytes_is(json, "null");
    if (ok && !c->args.n) str_put(&c->args, "{}");
    str_drop(&inner);
    return ok;
}

static bool calls__arguments(calls_cur *c, size_t *at) {
    str json = {0};
    *at = calls__skip(c, *at);
    c->place.args_at = *at;
    const bool ok = calls__any_json(c, at, &json) && calls__set_arguments(c, str_bytes(&json));
    str_drop(&json);
    return ok;
}

static bool calls__one_of(bytes b, const char *const *names) {
    for (; *names; names++)
        if (bytes_is(b, *names)) return true;
    return false;
}

/* Keys of a call that is a JSON object. */
static const char *const calls__names[] = {"\"name\"", "\"tool_name\"", "\"function\"", "\"function_name\"", NULL};
static const char *const calls__args[] = {"\"arguments\"", "\"parameters\"", "\"args\"", NULL};
static const char *const calls__ids[] = {"\"id\"", "\"tool_call_id\"", "\"call_id\"", "\"type\"", NULL};

/* Whether the object at `at` begins with a key of a call: other objects need not be read to their ends. */
static bool calls__begins_object(calls_cur *c, size_t at) {
    const char *const *const keys[] = {calls__names, calls__args, calls__ids};
    at = calls__skip(c, at + 1);
    for (int i = 0; i < 3; i++)
        for (const char *const *key = keys[i]; *key; key++)
            if (calls__word(c, *key, &(size_t){at})) return true;
    return false;
}

/* Sets name, arguments and id from a JSON object, which may be in another one under "function". Returns whether
 * it is a call; strict: without other keys. */
static bool calls__from_object(calls_cur *c, bytes json, bool strict, int deep) {
    bytes key = {0}, value;
    bool  named = false, ok = true, has = false;
    while (ok && bytes_cut_member(&json, &key, &value) && value.n) {
        if (bytes_is(key, "\"function\"") && value.p[0] == '{') return !deep && calls__from_object(c, value, strict, 1);
        if (calls__one_of(key, calls__names) && value.p[0] == '"')
            named = true, str_clear(&c->name), str_unquote(&c->name, value, false);
        else if (calls__one_of(key, calls__args)) has = true, ok = calls__set_arguments(c, value);
        else if (bytes_is(key, "\"type\"")) continue;
        else if (calls__one_of(key, calls__ids)) {
            str_clear(&c->id);
            if (value.p[0] == '"') str_unquote(&c->id, value, false);
            else str_cat(&c->id, bytes_trim(value));
        } else if (strict) return false;
    }
    if (!has && !strict) str_put(&c->args, "{}");
    return ok && named && (has || !strict) && c->name.n && c->name.n <= CALLS_NAME && c->id.n <= CALLS_NAME;
}

/* The text of an object that has not ended, at t[at]: its name, its id, and where its arguments begin. */
static void calls__part_of_object(calls_cur *c, size_t at) {
    for (int deep = 0; calls__is(c, at, deep >= 0 ? '{' : ',');) {
        size_t from = at = calls__skip(c, at + 1);
        if (!calls__scan(c, bytes_scan_json, &at)) return;
        const bytes key = bytes_slice(c->t, from, at);
        if (!calls__is(c, at = calls__skip(c, at), ':')) return;
        from = at = calls__skip(c, at + 1);
        const bool inner = bytes_is(key, "\"function\"") && calls__is(c, at, '{');
        if (inner && deep++ <= 0) continue;
        deep = -1;
        if (calls__one_of(key, calls__args)) {
            if (c->name.n) c->place.args_at = at;
            return;
        }
        if (!calls__scan(c, bytes_scan_json, &at)) return;
        const bytes value = bytes_slice(c->t, from, at);
        str *const  to = calls__one_of(key, calls__names) ? &c->name : bytes_is(key, "\"type\"") ? NULL
                       : calls__one_of(key, calls__ids) ? &c->id : NULL;
        if (to) str_clear(to);
        if (to && !str_unquote(to, value, false)) str_cat(to, value);
        at = calls__skip(c, at);
    }
}

static bool calls__object(calls_cur *c, const calls_row *r, size_t *at) {
    const bool   strict = r->flags & CALLS_BARE;
    str          json = {0};
    const size_t from = *at = calls__skip(c, *at);
    bool ok = calls__is(c, *at, '{') && (!strict || calls__begins_object(c, *at)) && calls__any_json(c, at, &json);
    if (!ok && c->more && c->live) calls__part_of_object(c, from);
    ok = ok && calls__from_object(c, str_bytes(&json), strict, 0);
    str_drop(&json);
    return ok;
}

/* Python arguments with their brackets. */
static bool calls__python(calls_cur *c, size_t *at) {
    size_t i = calls__skip(c, *at);
    if (!calls__is(c, i, '(')) return false;
    c->place.args_at = i++;
    str_put(&c->args, "{");
    if (!calls__loose_entries(c, "", ')', '=', &i, &c->args, 0)) return false;
    str_put(&c->args, "}");
    *at = i;
    return true;
}

/* --- tagged parameters --- */

/* The literal text at *p of a pattern, up to its next slot, and that slot (0: the end). */
static bytes calls__segment(const char **p, char *slot) {
    const char *from = *p, *to = strchrnul(from, '%');
    *slot = *to ? to[1] : 0;
    *p = *to ? to + 2 : to;
    return (bytes){(const uint8_t *)from, (size_t)(to - from)};
}

typedef struct {                                      /* the pattern of parameters around one value */
    bytes before;                                     /* the key */
    bytes between;                                    /* the key and the value, or the flag */
    bytes flag;                                       /* after the flag */
    bytes after[2];                                   /* the value, with the key between them where has_key */
    bool  has_flag;                                   /* %t */
    bool  has_key;                                    /* the key again */
} calls_param;

static calls_param calls__param_of(const calls_row *r) {
    calls_param p = {0};
    const char *s = r->param;
    char        slot;
    p.before = calls__segment(&s, &slot);
    p.between = calls__segment(&s, &slot);
    if ((p.has_flag = slot == 't')) p.flag = calls__segment(&s, &slot);
    p.after[0] = calls__segment(&s, &slot);
    if ((p.has_key = slot == 'k')) p.after[1] = calls__segment(&s, &slot);
    return p;
}

/* Appends the text after the value of a parameter. */
static void calls__after_value(const calls_param *p, bytes key, str *out) {
    str_cat(out, p->after[0]);
    if (p->has_key) str_cat(out, key), str_cat(out, p->after[1]);
}

/* A value's text, appended as JSON by its type. */
static void calls__typed(bytes raw, int type, str *out) {
    const bytes b = bytes_trim(raw);
    if (type != CALLS_STRING && bytes_is_json(b)) {
        calls__json_put(out, b);
        return;
    }
    if (!b.n && type >= CALLS_LIST) {
        str_put(out, type == CALLS_LIST ? "[]" : "{}");
        return;
    }
    if (type >= CALLS_OTHER) {
        calls_cur    c = {.t = b, .ended = true, .most_work = 4 * raw.n + 1000};
        const size_t n = out->n;
        size_t       at = 0;
        if (calls__loose(&c, "", &at, out, 1) && at == b.n) return;
        out->n = n;
    }
    str_json_exact(out, raw);
}

static bool calls__parameters(calls_cur *c, const calls_row *r, val schema, bytes tail, size_t *at, str *out,
                              int deep);             /* parameters hold parameters */

/* Whether a parameter begins at *at; then *at is at its key. */
static bool calls__opens_parameter(calls_cur *c, const calls_param *p, size_t *at) {
    size_t i = *at;
    if (!calls__lit(c, p->before, &i)) return false;
    if (p->has_key && (!calls__has(c, i) || c->t.p[i] == '/')) return false;
    *at = i;
    return true;
}

/* Parameters inside a value: an object or a list. */
static bool calls__nested(calls_cur *c, const calls_row *r, val schema, bytes raw, str *out, int deep) {
    const calls_param p = calls__param_of(r);
    calls_cur         inner = {.f = c->f, .t = raw, .ended = true, .most_work = c->most_work - c->work};
    str               text = {0};
    size_t            at = 0;
    if (deep > 16 || !calls__opens_parameter(&inner, &p, &at)) return false;
    at = 0;
    const bool ok = calls__parameters(&inner, r, schema, (bytes){0}, &at, &text, deep + 1) && at == raw.n;
    if (ok) str_cat(out, str_bytes(&text));
    calls__worked(c, inner.work + raw.n);
    str_drop(&text);
    return ok;
}

/* The text inside of <![CDATA[ ]]>, where the value is that and nothing else. */
static bytes calls__cdata(bytes v) {
    const bytes open = bytes_of("<![CDATA["), close = bytes_of("]]>"), b = bytes_trim(v);
    const bool  is = b.n >= open.n + close.n && bytes_begins(b, open) && bytes_ends(b, close);
    return is ? bytes_slice(b, open.n, b.n - close.n) : v;
}

static void calls__value(calls_cur *c, const calls_row *r, val schema, bytes raw, const bool *is_string, str *out, int deep) {
    const bytes lead = str_bytes(&c->f->value_lead), tail = str_bytes(&c->f->value_tail);
    bytes       v = raw;
    if (bytes_begins(v, lead)) v = bytes_slice(v, lead.n, v.n);
    if (bytes_ends(v, tail)) v.n -= tail.n;
    v = calls__cdata(v);
    if ((r->flags & CALLS_NEST) && calls__nested(c, r, schema, v, out, deep)) return;
    if (!is_string && bytes_is(bytes_trim(v), "null") && calls__nullable(schema)) return str_put(out, "null");
    calls__typed(v, is_string ? *is_string ? CALLS_STRING : CALLS_ANY : calls__type(schema), out);
}

/* Where the value that begins at `from` ends: before the text `after` that another parameter or `tail` follows.
 * *next: after that text. */
static bool calls__value_end(calls_cur *c, const calls_param *p, bytes after, bytes tail, size_t from, size_t *end,
                             size_t *next) {
    const bytes core = bytes_trim(after);
    for (size_t i = from; (i = calls__seek(c, i, core)) != SIZE_MAX; i++) {
        size_t   a = calls__skip(c, i + core.n), b = a;
        const bool more = c->more;
        c->more = false;
        *end = i, *next = i + core.n;
        if ((a == c->t.n && c->ended) || calls__opens_parameter(c, p, &a) || (tail.n && calls__lit(c, tail, &b)))
            return c->more = more, true;
        if (c->more && !c->ended) return false;
        c->more = more;
    }
    c->more = true;
    return false;
}

/* The key of a parameter: up to `stop`, without it. *at: after the key. */
static bool calls__key(calls_cur *c, bytes stop, size_t *at, bytes *key) {
    size_t n = 0;
    while (n < stop.n && !bytes_is_blank(stop.p[n])) n++;
    const size_t end = calls__near(c, *at, CALLS_NAME, (bytes){stop.p, n});
    if (end == SIZE_MAX) return false;
    *key = bytes_trim(bytes_slice(c->t, *at, end));
    *at = end;
    return key->n && !memchr(key->p, '\n', key->n);
}

/* The key and the value of one parameter, appended; *at is after the text before its key. list: the key is "item"
 * and not wanted. */
static bool calls__parameter(calls_cur *c, const calls_row *r, val schema, bytes tail, bool list, size_t *at,
                             str *out, int deep) {
    const calls_param p = calls__param_of(r);
    const bytes       between = bytes_trim(p.between);
    bytes             key;
    str               after = {0};
    size_t            i = *at, end, next;
    bool              flag = false;
    if (!calls__key(c, between, &i, &key) || !calls__lit(c, between, &i) || (list && !bytes_is(key, "item"))) return false;
    if (p.has_flag) {
        flag = calls__word(c, "true", &i);
        if ((!flag && !calls__word(c, "false", &i)) || !calls__lit(c, p.flag, &i)) return false;
    }
    calls__after_value(&p, key, &after);
    const bool ok = calls__value_end(c, &p, str_bytes(&after), tail, i, &end, &next);
    str_drop(&after);
    if (!ok) return false;
    if (deep == 0) c->place.value = bytes_slice(c->t, i, end);
    if (out->p[out->n - 1] != '{' && out->p[out->n - 1] != '[') str_put(out, ", ");
    if (!list) str_json_exact(out, key), str_put(out, ": ");
    calls__value(c, r, list ? val_get(schema, "items") : calls__entry(val_get(schema, "properties"), key),
                 bytes_slice(c->t, i, end), p.has_flag ? &flag : NULL, out, deep);
    *at = next;
    return true;
}

/* All parameters, appended as an object; inside others a list where the first is called "item" and the schema
 * does not say object. */
static bool calls__parameters(calls_cur *c, const calls_row *r, val schema, bytes tail, size_t *at, str *out, int deep) {
    const calls_param p = calls__param_of(r);
    size_t            i = calls__skip(c, *at), k = i, first = i;
    bytes             key = {0};
    const bool list = deep && !val_is_str(val_get(schema, "type"), "object") && calls__opens_parameter(c, &p, &first) &&
                      calls__key(c, bytes_trim(p.between), &first, &key) && bytes_is(key, "item");
    c->place.args_at = i;
    str_put(out, list ? "[" : "{");
    for (; calls__opens_parameter(c, &p, &k); k = i = calls__skip(c, k))
        if (!calls__parameter(c, r, schema, tail, list, &k, out, deep)) return false;
    str_put(out, list ? "]" : "}");
    *at = i;
    return true;
}

static bool calls__opens(calls_cur *c, size_t at);    /* what ends a call may be missing where the next one begins */

/* The text after a call. It may be missing, whole or in part, where the answer ends, and where the next call begins. */
static bool calls__tail(calls_cur *c, bytes lit, size_t *at) {
    size_t     i = calls__skip(c, *at);
    const bool more = c->more;
    c->more = false;
    const bool ok = calls__lit(c, lit, &i), cut = c->more;
    c->more = more || cut;
    if (ok) *at = i;
    else if (cut && c->ended) *at = c->t.n;
    return ok || (cut ? c->ended : calls__opens(c, calls__skip(c, *at)));
}

static bytes calls__first_tag(bytes lit) {
    const uint8_t *end = lit.n ? memchr(lit.p, '>', lit.n) : NULL;
    return end ? (bytes){lit.p, (size_t)(end - lit.p) + 1} : lit;
}

/* After parameters the first tag must be whole: without it parameters may be missing. */
static bool calls__tail_of_parameters(calls_cur *c, bytes lit, size_t *at) {
    const bytes first = calls__first_tag(lit);
    size_t      i = calls__skip(c, *at);
    if (!calls__lit(c, first, &i)) return false;
    *at = i;
    lit = bytes_trim((bytes){lit.p + first.n, lit.n - first.n});
    return !lit.n || calls__tail(c, lit, at);
}

/* Up to `next`, which follows within a line and a few bytes. */
static bool calls__gap(calls_cur *c, bytes next, size_t *at) {
    const size_t to = calls__near(c, *at, CALLS_GAP, next);
    if (to == SIZE_MAX || memchr(c->t.p + *at, '\n', to - *at)) return false;
    *at = to;
    return true;
}

/* What is at a slot. next: the literal text after it. */
static bool calls__slot(calls_cur *c, const calls_row *r, char slot, bytes next, size_t *at) {
    switch (slot) {
    case 'n':
        c->place.name_at = calls__skip(c, *at);
        if (!calls__name(c, next, at, &c->name)) return false;
        c->place.name_end = *at;
        return true;
    case 'i': return calls__name(c, next, at, &c->id);
    case 'x':
        while (*at < c->t.n && isdigit(c->t.p[*at])) ++*at;
        return true;
    case 'o': return calls__object(c, r, at);
    case 'a': return calls__arguments(c, at);
    case 'y': return calls__python(c, at);
    case 'g':
        *at = c->place.args_at = calls__skip(c, *at);
        return calls__is(c, *at, '{') && calls__loose(c, r->param, at, &c->args, 1);
    case 'p': return calls__parameters(c, r, val_get(calls__tool(c->tools, str_bytes(&c->name)), "parameters"),
                                       calls__first_tag(next), at, &c->args, 0);
    case '(': return c->id_at = *at, true;
    case ')': return str_set(&c->id, bytes_slice(c->t, c->id_at, *at)), true;
    case '_': return calls__gap(c, next, at);
    }
    return false;
}

/* One call in the way of row r. */
static bool calls__call(calls_cur *c, const calls_row *r, size_t *at) {
    const char *s = r->call, *peek;
    char        slot = 0, before, after;
    size_t      i = *at;
    str_clear(&c->name), str_clear(&c->id), str_clear(&c->args);
    c->place = (calls_place){.at = c->place.at, .opened = c->place.opened, .bare = c->place.bare};
    for (bool first = true; *s || first; first = false) {
        before = slot;
        const bytes lit = calls__segment(&s, &slot);
        if (!slot && before) {
            const bytes tail = bytes_trim(lit);
            if (tail.n && !(before == 'p' ? calls__tail_of_parameters : calls__tail)(c, tail, &i)) return false;
            break;
        }
        if (lit.n && !first) i = calls__skip(c, i);
        if (!calls__lit(c, lit, &i)) return false;
        peek = s;
        const bytes next = slot ? bytes_trim(calls__segment(&peek, &after)) : (bytes){0};
        if (!calls__slot(c, r, slot, next, &i)) return false;
    }
    *at = i;
    return c->name.n > 0;
}

/* Letters and digits that depend on the salt and the call's number alone: the id is known before the call is written. */
static void calls__make_id(const calls_cur *c, size_t number, str *out) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t          h = rng_mix(c->salt ^ rng_mix(number + 1));
    if (!(c->f->row->flags & CALLS_NINE)) str_put(out, "call_");
    for (int i = 0; i < 9; i++, h /= 62) str_add(out, &digits[h % 62], 1);
}

/* Adds a call, whose texts are copied. */
static void call_list_add(call_list *l, bytes name, bytes arguments, bytes id) {
    str all = {0};
    str_cat(&all, name), str_cat(&all, arguments), str_cat(&all, id);
    const uint8_t *p = (const uint8_t *)all.p;
    const size_t   n = name.n, a = arguments.n;
    MEM_PUSH(l->at, l->n, (calls_call){{p, n}, {p + n, a}, {p + n + a, id.n}});
}

static void calls__add(calls_cur *c) {
    call_list *l = c->out;
    if (c->watch.n && !c->found && bytes_eq(str_bytes(&c->name), c->watch)) c->found = true, c->seen = c->place;
    if (!l) return;
    if (!c->id.n) calls__make_id(c, l->n, &c->id);
    call_list_add(l, str_bytes(&c->name), str_bytes(&c->args), str_bytes(&c->id));
}

static void calls__shorten(call_list *l, size_t n) {
    while (l && l->n > n) mem_free((void *)(uintptr_t)l->at[--l->n].name.p);
}

/* Frees the calls of a list, which is then an empty one. */
static void call_list_drop(call_list *l) {
    calls__shorten(l, 0);
    mem_free(l->at);
    *l = (call_list){0};
}

/* --- many calls --- */

/* Whether two ways have the same text around all calls. */
static bool calls__same_around(const calls_row *a, const calls_row *b) {
    return a->flags == b->flags && strcmp(a->open, b->open) == 0;
}

/* The text ends inside a call that may be written in the way of r. It is known where this is the only way with a tool of the
 * list, and its arguments are the text of a JSON object. Where an id may follow them, the call has to end first. */
static void calls__note_open(calls_cur *c, const calls_row *r) {
    calls_live  *l = c->live;
    const size_t at = c->place.args_at;
    const bool   late = (r->flags & CALLS_NINE) && strstr(r->call, "%o");
    const bool   json = strstr(r->call, "%o") || strstr(r->call, "%a");
    const bool   object = at && at < c->t.n && c->t.p[at] == '{';
    if (at && calls__tool(c->tools, str_bytes(&c->name)).kind == VAL_UNDEF) return;      /* another way has the tool's name */
    if (c->n_ways) return;                            /* what is known is of the first way */
    l->open = !c->n_open++ && json && object && !late && (c->place.opened || !*r->open);
    if (!l->open) return;
    str_set(&l->name, str_bytes(&c->name));
    str_set(&l->id, str_bytes(&c->id));
    l->args_at = at;
}

/* One call in any way of the form that has the same text around all calls. */
static bool calls__one(calls_cur *c, const calls_row *open, size_t *at) {
    c->n_open = 0;
    if (c->live && !c->n_ways) c->live->open = false;
    for (int i = 0; i < c->f->n_rows && !c->tired; i++) {
        const calls_row *r = &c->f->row[i];
        size_t           to = *at;
        if (!calls__same_around(r, open)) continue;
        const bool more = c->more;
        c->more = false;
        const bool ok = calls__call(c, r, &to);
        if (c->live && c->more && !ok) calls__note_open(c, r);
        c->more |= more;
        if (!ok) continue;
        if ((r->flags & CALLS_BARE) && c->tools.kind == VAL_LIST &&
            calls__tool(c->tools, str_bytes(&c->name)).kind == VAL_UNDEF) continue;
        c->n_ways += c->n_open;                       /* an earlier way may still become this call */
        *at = to;
        return true;
    }
    return false;
}

/* Calls with `sep` between them; *at: after the last one. cut: the answer ends in one more. */
static bool calls__some(calls_cur *c, const calls_row *r, size_t *at, bool *cut) {
    size_t n = 0, i = *at;
    for (;; n++) {
        const bool more = c->more;
        i = calls__skip(c, *at);
        if (n && *r->sep) {
            if (!calls__word(c, r->sep, &i) && *r->sep == ',') break;
            i = calls__skip(c, i);
        }
        if (!n) i = *r->open ? i : *at;
        c->more = false;
        const bool ok = calls__one(c, r, &i);
        *cut = c->more && c->ended;
        c->more |= more;
        if (!ok) break;
        calls__add(c);
        *at = i;
    }
    return n > 0;
}

/* Whether the text that opens all calls may be missing: a call's own text is clear enough. */
static bool calls__open_is_optional(const calls_row *r) { return *r->open && strcspn(r->call, "%") > 7; }

/* All calls that begin at *at, with the text around them. */
static bool calls__group(calls_cur *c, const calls_row *r, size_t *at) {
    const size_t had = c->out ? c->out->n : 0;
    size_t       i = *at, k = *at;
    bool         cut = false;
    const bool   opened = calls__word(c, r->open, &i);
    if (!opened && !calls__open_is_optional(r)) return false;
    if (!opened) i = *at;
    c->place.opened = opened;
    if (!calls__some(c, r, &i, &cut)) return false;
    k = i;
    if (opened && *r->close && !calls__tail(c, bytes_of(r->close), &k) && !(cut && c->ended) && !calls__open_is_optional(r))
        return calls__shorten(c->out, c->live ? c->out->n : had), false;
    *at = k;
    return true;
}

/* Whether only white space or a token that is written as a tag is before t[at] in its line. */
static bool calls__begins_line(bytes t, size_t at) {
    while (at > 0 && bytes_is_blank(t.p[at - 1]) && t.p[at - 1] != '\n') at--;
    return at == 0 || t.p[at - 1] == '\n' || (at > 1 && t.p[at - 1] == '>' && t.p[at - 2] == '|');
}

/* Whether a line ends at `at`, or a token that is written as a tag or another call follows. */
static bool calls__ends_line(calls_cur *c, size_t at) {
    while (calls__has(c, at) && bytes_is_blank(c->t.p[at]) && c->t.p[at] != '\n') at++;
    return at == c->t.n || c->t.p[at] == '\n' || c->t.p[at] == '<' || calls__opens(c, at);
}

/* The text may be calls in one way more. Those of the first one are kept, from number `had` on. */
static void calls__note_way(calls_cur *c, size_t had) {
    if (!c->n_ways++) c->live->calls = *c->out, *c->out = (call_list){0};
    else calls__shorten(c->out, had), c->live->open = false;
}

/* Calls at *at in any way of the form, with the text before them that belongs to them. */
static bool calls__calls(calls_cur *c, size_t *at) {
    const size_t had = c->out ? c->out->n : 0;
    const bytes  lead[2] = {c->f->lead.n ? str_bytes(&c->f->lead) : bytes_of(c->f->row->lead), {0}};
    for (int l = lead[0].n ? 0 : 1; l < 2; l++) {
        size_t from = *at;
        for (size_t k = 0; k < lead[l].n; k++, from++)
            if (!calls__is(c, from, lead[l].p[k])) break;
        if (from - *at < lead[l].n) continue;
        c->place.at = from;
        for (int i = 0; i < c->f->n_rows && !c->tired; i++) {
            const calls_row *r = &c->f->row[i];
            const bool       bare = r->flags & CALLS_BARE;
            size_t           to = from;
            c->place.bare = bare;
            if ((i && calls__same_around(r, &r[-1])) ||
                (bare && !c->f->after_text && !calls__begins_line(c->t, from))) continue;
            const bool more = c->more;
            c->more = false;
            const bool ok = calls__group(c, r, &to) && (!bare || calls__ends_line(c, to));
            if (c->live && (ok || c->more)) calls__note_way(c, had);
            c->more |= more;
            if (ok) return *at = to, true;
            calls__shorten(c->out, had);
        }
    }
    return false;
}

/* Whether the first text of any way is at t[at]. */
static bool calls__opens(calls_cur *c, size_t at) {
    if (at < c->t.n && !c->f->first[c->t.p[at]]) return false;
    for (int i = 0; i < c->f->n_rows; i++) {
        const calls_row *r = &c->f->row[i];
        const size_t     n = strcspn(r->call, "%");
        size_t           a = at, b = at;
        if (*r->open && calls__word(c, r->open, &a)) return true;
        if (n && calls__lit(c, (bytes){(const uint8_t *)r->call, n}, &b)) return true;
    }
    return false;
}

/* --- forms --- */

/* Sets the row and the bytes that may begin a call. */
static void calls__set_row(calls_form *f, const calls_row *row) {
    const calls_row *end = row == &f->own ? row + 1 : calls_rows + sizeof calls_rows / sizeof *calls_rows;
    memset(f->first, 0, sizeof f->first);
    f->row = row;
    for (f->n_rows = 1; row + f->n_rows < end && !row[f->n_rows].name;) f->n_rows++;
    for (int i = 0; i < f->n_rows; i++) {
        const calls_row *r = &row[i];
        const char *begin = *r->open ? r->open : r->call;
        for (int b = 0; b < 256 && strncmp(begin, "%n", 2) == 0; b++) f->first[b] |= calls__name_byte((uint8_t)b);
        f->first[(uint8_t)(*begin == '%' ? '{' : *begin)] = true;
        if (calls__open_is_optional(r)) f->first[(uint8_t)*r->call] = true;
        if (!*r->open && bytes_is_blank((uint8_t)*r->call)) f->first[(uint8_t)r->call[1]] = true;
        if (*r->lead) f->first[(uint8_t)*r->lead] = true;
    }
    if (f->lead.n) f->first[(uint8_t)f->lead.p[0]] = true;
}

/* Sets begin and middle from the row. */
static void calls__begin_of_row(calls_form *f) {
    const calls_row *r = f->row;
    const char      *s = r->call;
    char             slot;
    str_put(&f->begin, r->open);
    while (*s) {
        const bytes lit = calls__segment(&s, &slot);
        str_cat(&f->begin, lit);
        if (slot == 'o') str_put(&f->begin, "{\"name\": \""), str_put(&f->middle, "\", \"arguments\": ");
        if (slot == '(') continue;
        f->named = slot == 'n' || slot == 'o';
        if (slot == 'n') {
            str_cat(&f->middle, calls__segment(&s, &slot));
            str_put(&f->middle, slot == 'y' ? "(" : slot == 'g' ? "{" : "");
        }
        break;
    }
}

/* Sets white space around values: the row's. */
static void calls__spaces_of_row(calls_form *f) {
    const calls_param p = calls__param_of(f->row);
    const bytes       before = p.has_flag ? p.flag : p.between, core = bytes_trim(before), after = p.after[0];
    size_t            n = 0;
    while (n < after.n && bytes_is_blank(after.p[n])) n++;
    str_set(&f->value_tail, (bytes){after.p, n});
    n = core.n ? (size_t)(core.p + core.n - before.p) : before.n;
    str_set(&f->value_lead, bytes_slice(before, n, before.n));
}

/* Sets what a row says of a form. */
static void calls__take_row(calls_form *f, const calls_row *row) {
    calls__set_row(f, row);
    calls__spaces_of_row(f);
    str_clear(&f->begin), str_clear(&f->middle), str_clear(&f->inner);
    calls__begin_of_row(f);
}

static calls_cur calls__cursor(const calls_form *f, bytes text, bool ended, val tools, call_list *out) {
    return (calls_cur){.f = f, .t = text, .ended = ended, .tools = tools, .out = out, .most_work = 64 * text.n + 4096};
}

static void calls__cursor_drop(calls_cur *c) {
    str_drop(&c->name), str_drop(&c->id), str_drop(&c->args);
}

/* Reads a finished answer: its calls, and the text without them. White space alone beside a call is no content.
 * tools: their list, for the types of parameters; or undefined. salt: what ids are made of that the answer does not have. */
static void calls_read(const calls_form *f, bytes text, val tools, uint64_t salt, str *content, call_list *out) {
    calls_cur c = calls__cursor(f, text, true, tools, out);
    size_t    from = 0, i = 0;
    *out = (call_list){0};
    c.salt = salt;
    while (i < text.n && !c.tired) {
        size_t to = i;
        if (!f->first[text.p[i]] || !calls__calls(&c, &to)) {
            i++;
            continue;
        }
        if (!calls__blank(bytes_slice(text, from, i))) str_cat(content, bytes_slice(text, from, i));
        from = i = to;
    }
    if (!out->n || !calls__blank(bytes_slice(text, from, text.n))) str_cat(content, bytes_slice(text, from, text.n));
    calls__cursor_drop(&c);
}

/* How many first bytes of an answer that grows are content, whatever follows. from: 0, or what this returned for
 * a shorter text. */
static size_t calls_safe(const calls_form *f, bytes text, size_t from) {
    calls_cur c = calls__cursor(f, text, false, val_undef(NULL), NULL);
    size_t    i = from, to;
    for (; i < text.n; i++) {
        if (!f->first[text.p[i]]) continue;
        c.more = false, to = i;
        if (calls__calls(&c, &to) || c.more || c.tired) break;
    }
    calls__cursor_drop(&c);
    return calls__blank((bytes){text.p, i}) ? 0 : i;
}

/* Frees what is known of calls that are being written. */
static void calls_live_drop(calls_live *l) {
    call_list_drop(&l->calls);
    str_drop_all(&l->name, &l->id);
    *l = (calls_live){0};
}

/* The calls of an answer that grows and keeps to calls_hold(), from byte `from` on, which calls_safe() has returned: what is in
 * *out will be in what calls_read() finds, if the answer does not end inside of a call. tools: their list; salt: as there. */
static void calls_watch(const calls_form *f, bytes text, size_t from, val tools, uint64_t salt, calls_live *out) {
    call_list calls = {0};
    calls_cur c = calls__cursor(f, text, false, tools, &calls);
    size_t    to = from;
    *out = (calls_live){0};
    c.salt = salt, c.live = out;
    for (size_t i = from; i < text.n && !c.tired; i++) {
        if (!f->first[text.p[i]]) continue;
        c.more = false, c.n_ways = 0, to = i;
        if (calls__calls(&c, &to) || c.more) break;
    }
    if (c.n_ways != 1 || c.tired) calls_live_drop(out);
    if (out->open && !out->id.n) calls__make_id(&c, out->calls.n, &out->id);
    call_list_drop(&calls);
    calls__cursor_drop(&c);
}

/* The text that opens a call, "" where a call can begin anywhere. */
static bytes calls__opening(const calls_form *f) {
    const char *s = *f->row->open ? f->row->open : f->row->call;
    if (f->row->flags & CALLS_BARE) return (bytes){0};
    return bytes_trim((bytes){(const uint8_t *)s, strcspn(s, "%")});
}

/* All texts that the form's calls are written with, one after the other, for a search of control tokens. */
static void calls_marks(const calls_form *f, str *out) {
    for (int i = 0; i < f->n_rows; i++) {
        const calls_row *r = &f->row[i];
        const char      *parts[] = {r->lead, r->open, r->call, r->param, r->sep, r->close};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            for (char slot = 1; slot;) str_cat(out, calls__segment(&parts[k], &slot));
    }
}

/* Appends a pattern as people read it; param: what stands for its parameters. */
static void calls__show(const char *pattern, const char *param, str *out) {
    static const char *const shown[128] = {
        ['n'] = "NAME", ['o'] = "{\"name\": NAME, \"arguments\": {...}}", ['a'] = "{...}", ['g'] = "{KEY:VALUE,...}",
        ['y'] = "(KEY=VALUE, ...)", ['i'] = "ID", ['x'] = "NUMBER", ['k'] = "KEY", ['v'] = "VALUE", ['t'] = "true|false",
        ['_'] = "..."};
    char slot;
    while (*pattern) {
        const bytes lit = calls__segment(&pattern, &slot);
        for (size_t i = 0; i < lit.n; i++)
            if (lit.p[i] == '\n') str_put(out, "\\n");
            else str_add(out, &lit.p[i], 1);
        if (slot == 'p') calls__show(param, "", out);
        else if (shown[(int)slot]) str_put(out, shown[(int)slot]);
    }
}

/* The forms, one a line: the name and how one call is written. */
static void calls_list(str *out) {
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++) {
        const calls_row *r = &calls_rows[i];
        if (!r->name) continue;
        str_fmt(out, "%-22s", r->name);
        calls__show(r->open, "", out);
        calls__show(r->call, r->param, out);
        calls__show(r->close, "", out);
        str_put(out, "\n");
    }
}

static void calls__write(jinja_text *out, bytes b, bool input) {
    str_cat(&out->text, b);
    val_spans_add(&out->from, out->text.n, input);
}

/* What an answer begins with that must call `name` (empty: any tool), appended. The name is a message's, all else
 * the template's. */
static void calls_begin(const calls_form *f, bytes name, jinja_text *out) {
    calls__write(out, str_bytes(&f->begin), false);
    if (!name.n || !f->named) return;
    calls__write(out, name, true);
    calls__write(out, str_bytes(&f->middle), false);
}

/* The name of a form, as calls_list() has it. */
static const char *calls_form_name(const calls_form *f) { return f->row->name; }

/* Whether the template takes the arguments of a call as a JSON text and not as an object. */
static bool calls_text_arguments(const calls_form *f) { return f->text_arguments; }

/* The content beside calls that has no text, as the template takes it: JSON, "" where the key has to be missing. Some
 * templates write calls only where it is null. */
static const char *calls_no_content(const calls_form *f) { return f->no_content; }

/* The variable in which the template looks for tools. */
static const char *calls_tools_name(const calls_form *f) { return f->tools_name; }

/* Frees a form; NULL is none. */
static void calls_form_free(calls_form *f) {
    if (!f) return;
    for (int i = 0; i < 3; i++) str_drop(&f->own_text[i]);
    str *const own[] = {&f->lead, &f->value_lead, &f->value_tail, &f->begin, &f->middle, &f->inner};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) str_drop(own[i]);
    mem_free(f);
}

/* --- an automaton of answers with calls --- */

typedef struct {                                      /* what an answer may call */
    val          tools;                               /* a list */
    bytes        only;                                /* the tool that has to be called; empty: any */
    bool         required;                            /* the answer goes on after calls_begin(); else it is text up to a call */
    bool         many;                                /* several calls may come */
    const bool  *loose;                               /* [tools] the arguments of the tool are any JSON object; NULL: of none */
    size_t       failed;                              /* set by calls_hold(): the tool that an error is about; SIZE_MAX: none */
    json_form    json;                                /* of arguments */
    const bytes *ends;                                /* [n_ends] texts of end tokens, which are no part of an answer */
    size_t       n_ends;
} calls_want;

enum {
    CALLS_INK = 1 << 16,                              /* bytes of all texts that begin calls, at most */
};

typedef struct {                                      /* a byte of a call */
    uint8_t  byte;                                    /* no white space outside of strings; 0: not known */
    bool     blanks;                                  /* white space may be before it */
    uint32_t before;                                  /* 1 + the byte before it, in calls__builder.ink; 0: none */
} calls__ink;

typedef struct {                                      /* where text is being added to the automaton */
    int32_t  at;                                      /* state */
    bool     blanks;                                  /* white space may be before what comes next */
    bool     quoted;                                  /* inside of a JSON string */
    bool     trigger;                                 /* the next byte ends a text that begins a call */
    uint32_t ink;                                     /* 1 + the last byte of the call so far, with the text around all calls */
} calls__pen;

typedef struct {                                      /* a text that begins a call */
    size_t  at;                                       /* of its first byte in calls__builder.text */
    size_t  n;                                        /* bytes */
    int32_t state;                                    /* after it */
} calls__trigger;

typedef struct {
    str         name;                                 /* as text */
    str         quoted;                               /* as the inside of a JSON string */
    size_t      at;                                   /* in the list of tools */
    bool        loose;                                /* its arguments are any object */
    val         schema;                               /* of its arguments, as it was given */
    schema_doc *doc;                                  /* of its arguments; of loose ones the names and the kinds of values */
    json_rules *rules;                                /* of doc */
    int32_t     arguments;                            /* a rule: a JSON object; -1: not built yet */
} calls__tool_held;

typedef struct {
    const calls_form *f;
    calls_want       *w;
    constrain        *c;                              /* keeps what the automaton needs */
    gram             *g;
    err_t            *e;
    lang_pool        *langs;
    calls__tool_held *tool;
    size_t            n_tools;
    const calls_row  *row;                            /* that is being added */
    calls__ink       *ink;                            /* [n_ink] all bytes of calls: a tree */
    size_t            n_ink;
    calls__trigger   *trigger;                        /* [n_triggers] */
    size_t            n_triggers;
    calls__ink       *text;                           /* [n_text] their bytes */
    size_t            n_text;
    int32_t           blanks;                         /* a rule: constrain_blanks() */
    int32_t           from;                           /* where the answer begins */
    int32_t           over;                           /* where it ends */
    str               begin;                          /* what is before it, as calls_begin() writes it, without white space */
    bool              begun;                          /* the state after `begin` was found */
} calls__builder;

static void calls__ink_add(calls__builder *b, calls__pen *p, uint8_t byte, bool blanks) {
    b->ink = mem_reserve(b->ink, b->n_ink, UINT32_MAX, sizeof *b->ink);
    b->ink[b->n_ink] = (calls__ink){byte, blanks, p->ink};
    p->ink = (uint32_t)++b->n_ink;
}

/* --- its texts --- */

/* What is at the pen begins a call. */
static void calls__add_trigger(calls__builder *b, calls__pen *p) {
    p->trigger = false;
    if (b->w->required) return;
    size_t n = 0;
    for (uint32_t i = p->ink; i; i = b->ink[i - 1].before) n++;
    if (b->n_text + n > CALLS_INK) {
        err_set(b->e, EXIT_RESOURCE, "the texts that begin calls of %zu tools have more than %d bytes", b->n_tools,
                CALLS_INK);
        return;
    }
    b->trigger = mem_reserve(b->trigger, b->n_triggers, UINT32_MAX, sizeof *b->trigger);
    b->trigger[b->n_triggers++] = (calls__trigger){b->n_text, n, p->at};
    b->n_text += n;
    for (uint32_t i = p->ink; i; i = b->ink[i - 1].before) b->text[b->trigger[b->n_triggers - 1].at + --n] = b->ink[i - 1];
}

/* The answer begins at the pen if what is before it ends there. */
static void calls__may_begin(calls__builder *b, const calls__pen *p) {
    size_t k = b->begin.n;
    if (!b->w->required) return;
    for (uint32_t i = p->ink; i; i = b->ink[i - 1].before) {
        if (bytes_is_blank(b->ink[i - 1].byte)) continue;
        if (!k || (uint8_t)b->begin.p[--k] != b->ink[i - 1].byte) return;
    }
    if (k) return;
    gram_eps(b->g, b->from, p->at);
    b->begun = true;
}

/* The white space that may be at the pen. */
static void calls__put_blanks(calls__builder *b, calls__pen *p) {
    if (!p->blanks) return;
    const int32_t to = gram_state(b->g);
    gram_call(b->g, p->at, b->blanks, to);
    p->at = to;
    p->blanks = false;
}

/* One byte. A control token may spell it, with others. */
static void calls__put_byte(calls__builder *b, calls__pen *p, uint8_t byte) {
    calls__ink_add(b, p, byte, p->blanks);
    calls__put_blanks(b, p);
    const int32_t to = gram_state(b->g);
    gram_free_state(b->g, p->at);
    gram_byte(b->g, p->at, byte, byte, to);
    p->at = to;
    if (p->trigger) calls__add_trigger(b, p);
}

static void calls__put_text(calls__builder *b, calls__pen *p, bytes text) {
    for (size_t i = 0; i < text.n; i++) calls__put_byte(b, p, text.p[i]);
}

/* Text of a pattern: its white space stands for any, and some may be between tags, as calls__lit() reads it. */
static void calls__put_lit(calls__builder *b, calls__pen *p, bytes lit) {
    for (size_t k = 0; k < lit.n; k++) {
        p->blanks |= bytes_is_blank(lit.p[k]) || calls__between_tags(lit, k);
        if (!bytes_is_blank(lit.p[k])) calls__put_byte(b, p, lit.p[k]);
    }
}

/* A part of a JSON object: white space may be where JSON lets it be. */
static void calls__put_json(calls__builder *b, calls__pen *p, bytes lit) {
    for (size_t k = 0; k < lit.n; k++) {
        const uint8_t c = lit.p[k];
        if (bytes_is_blank(c) && !p->quoted) {
            p->blanks = true;
            continue;
        }
        calls__put_byte(b, p, c);
        if (p->quoted && c == '\\' && k + 1 < lit.n) calls__put_byte(b, p, lit.p[++k]);
        else if (c == '"') p->quoted = !p->quoted;
        p->blanks |= !p->quoted && memchr("{,:", c, 3);
    }
}

/* min to max characters of the ranges. */
static void calls__put_chars(calls__builder *b, calls__pen *p, const gram_range *r, size_t n, uint64_t min, uint64_t max) {
    const int32_t one = gram_rule(b->g, NULL), to = gram_state(b->g);
    lang_chars(b->g, gram_begin(b->g, one), r, n, gram_end(b->g, one));
    gram_repeat(b->g, p->at, one, min, max, to);
    p->at = to;
    calls__ink_add(b, p, 0, false);                   /* what is there is not known */
}

/* --- values --- */

/* All texts without `stop` in them. */
static const lang *calls__without(calls__builder *b, bytes stop) {
    str pattern = {0};
    for (size_t i = 0; i < stop.n; i++) {
        if (stop.p[i] < 0x80) str_fmt(&pattern, "\\x%02x", stop.p[i]);
        else str_add(&pattern, &stop.p[i], 1);
    }
    const lang *l = lang_not(b->langs, lang_regex(b->langs, str_bytes(&pattern), true, b->e));
    str_drop(&pattern);
    return l;
}

/* The strings of a shape as they are, without quotes, as far as none of the texts `stop` is in them. */
static bool calls__put_raw(calls__builder *b, int32_t from, const schema_shape *s, const bytes *stop, size_t n_stop,
                           int32_t to) {
    const lang *l = s->string ? s->string : lang_none(b->langs);
    for (size_t i = 0; i < n_stop; i++)
        if (stop[i].n) l = lang_and(b->langs, l, calls__without(b, stop[i]));
    if (lang_over(b->langs))
        return err_set(b->e, EXIT_RESOURCE, "at %s: the texts of this parameter need too many states", s->at);
    lang_emit(b->g, from, l, to);
    return true;
}

/* --- parameters: members of an object that are not written as JSON --- */

/* The value of one parameter: JSON, or raw, which is a string without quotes that has none of the texts `stop` in it. */
static bool calls__put_value(calls__builder *b, int32_t from, const calls__tool_held *t, schema_conj value,
                             bool raw, const bytes *stop, size_t n_stop, int32_t to) {
    if (!raw) return json_rules_value(t->rules, from, value, to, b->e);
    const schema_shape *s = schema_shape_of(t->doc, value, b->e);
    return s && calls__put_raw(b, from, s, stop, n_stop, to);
}

/* null beside a raw value, where the schema allows it. */
static bool calls__put_null(calls__builder *b, int32_t from, const calls__tool_held *t, schema_conj value, int32_t to) {
    const schema_shape *s = schema_shape_of(t->doc, value, b->e);
    if (s && s->null) gram_text(b->g, from, bytes_of("null"), to);
    return s != NULL;
}

static void calls__put_exact(calls__builder *b, calls__pen *p, bytes text) {
    const int32_t to = gram_state(b->g);
    if (!text.n) return;
    gram_text(b->g, p->at, text, to);
    p->at = to;
}

/* A value between its white space, with the flag before it where the row has one. */
static bool calls__put_tagged_value(calls__builder *b, calls__pen *p, const calls__tool_held *t,
                                    const schema_prop *m, const calls_param *in, bool raw, const bytes *stop, size_t n_stop) {
    const calls__pen at = *p;
    const int32_t    to = gram_state(b->g);
    bool             ok = true;
    for (int flag = 0; ok && flag < (in->has_flag ? 2 : 1); flag++) {
        const int32_t end = gram_state(b->g);
        *p = at;
        if (in->has_flag)
            calls__put_text(b, p, bytes_of(flag ? "true" : "false")), calls__put_lit(b, p, bytes_trim(in->flag));
        p->blanks = false;
        calls__put_exact(b, p, str_bytes(&b->f->value_lead));
        ok = calls__put_value(b, p->at, t, m->value, in->has_flag ? flag : raw, stop, n_stop, end) &&
             (!raw || in->has_flag || calls__put_null(b, p->at, t, m->value, end));
        p->at = end;
        calls__put_exact(b, p, str_bytes(&b->f->value_tail));
        gram_eps(b->g, p->at, to);
    }
    *p = at;
    p->at = to, p->blanks = false;
    return ok;
}

/* <key>value</key>, as the row's `param` has it. */
static bool calls__put_tagged(calls__builder *b, calls__pen *p, const calls__tool_held *t, const schema_prop *m) {
    const calls_param in = calls__param_of(b->row);
    const val         type = calls__entry(val_get(t->schema, "properties"), m->name);
    str               after = {0};
    calls__after_value(&in, m->name, &after);
    const bytes stop[] = {bytes_trim(str_bytes(&after)), bytes_of("<![CDATA["),
                          b->row->flags & CALLS_NEST ? bytes_trim(in.before) : (bytes){0}};
    calls__put_lit(b, p, in.before);
    calls__put_text(b, p, m->name);
    calls__put_lit(b, p, bytes_trim(in.between));
    const bool ok = calls__put_tagged_value(b, p, t, m, &in, calls__type(type) == CALLS_STRING, stop, 3);
    calls__put_text(b, p, stop[0]);                   /* the reader looks for just this text */
    str_drop(&after);
    return ok;
}

/* key=value or key:value; a string is between two texts `mark`, where there is one. */
static bool calls__put_keyed(calls__builder *b, const char *colon, bytes mark, calls__pen *p, const calls__tool_held *t,
                             const schema_prop *m) {
    const bool    raw = mark.n && calls__type(calls__entry(val_get(t->schema, "properties"), m->name)) == CALLS_STRING;
    const int32_t to = gram_state(b->g);
    calls__put_text(b, p, m->name);
    calls__put_text(b, p, bytes_of(colon));
    const int32_t from = p->at, end = gram_state(b->g);
    if (raw) calls__put_text(b, p, mark);
    const bool ok = calls__put_value(b, p->at, t, m->value, raw, &mark, 1, to) &&
                    (!raw || calls__put_null(b, from, t, m->value, end));
    p->at = to;
    if (raw) calls__put_text(b, p, mark);
    gram_eps(b->g, p->at, end);
    p->at = end;
    return ok;
}

static bool calls__in_tagged(uint8_t b) { return b > ' ' && !memchr("<>\"", b, 3); }

/* Whether the form can write the name of a parameter. */
static bool calls__writes(char slot, bytes name) {
    bool (*in)(uint8_t b) = slot == 'y' ? calls__in_python : slot == 'g' ? calls__in_bare_key : calls__in_tagged;
    bool ok = name.n && name.n < CALLS_NAME;
    for (size_t i = 0; ok && i < name.n; i++) ok = in(name.p[i]);
    return ok;
}

/* A rule for one parameter; -1: an error. */
static int32_t calls__member(calls__builder *b, char slot, const calls__tool_held *t, const schema_prop *m) {
    const int32_t rule = gram_rule(b->g, NULL);
    calls__pen    p = {.at = gram_begin(b->g, rule)};
    const bool    ok = slot == 'p'   ? calls__put_tagged(b, &p, t, m)
                       : slot == 'y' ? calls__put_keyed(b, "=", (bytes){0}, &p, t, m)
                                     : calls__put_keyed(b, ":", bytes_of(b->row->param), &p, t, m);
    gram_eps(b->g, p.at, gram_end(b->g, rule));
    return ok ? rule : -1;
}

/* From before to after one parameter. */
static void calls__put_member(calls__builder *b, char slot, const int32_t *now, const int32_t *next, size_t n, int32_t rule,
                              bool required) {
    for (size_t i = 0; i < n; i++) {
        calls__pen p = {.at = now[i], .blanks = i > 0 || slot == 'p'};
        if (!required) gram_eps(b->g, now[i], next[i]);
        if (rule < 0) continue;
        if (i > 0 && slot != 'p') calls__put_text(b, &p, bytes_of(",")), p.blanks = true;
        calls__put_blanks(b, &p);
        gram_call(b->g, p.at, rule, next[min_size(i + 1, n - 1)]);
    }
}

enum { CALLS_COUNTED = 1000 };                        /* parameters of a tool whose number is bounded, at most */

/* The parameters of one alternative of the tool's schema, in its order. */
static bool calls__put_object(calls__builder *b, char slot, const calls__tool_held *t, const schema_object *o, int32_t from,
                              int32_t to) {
    size_t n_required = 0;
    for (size_t i = 0; i < o->n_prop; i++) n_required += o->prop[i].required;
    const bool counted = o->min > n_required || o->max < o->n_prop;
    if (o->n_some)
        return err_set(b->e, EXIT_INPUT, "at %s: conditions on further members are not supported in calls of the form %s",
                       o->at, b->f->row->name);
    if (counted && o->n_prop > CALLS_COUNTED)
        return err_set(b->e, EXIT_RESOURCE, "at %s: a bounded number of %zu parameters, expected at most %d", o->at,
                       o->n_prop, CALLS_COUNTED);
    const size_t n = counted ? o->n_prop + 1 : 2;     /* numbers of parameters, or none and some */
    int32_t     *at = mem_new((o->n_prop + 1) * n, sizeof *at);     /* [o->n_prop + 1][n] states before a parameter, by the
                                                                     * number of those that came */
    bool         ok = true;
    for (size_t i = 0; i < (o->n_prop + 1) * n; i++) at[i] = gram_state(b->g);
    gram_eps(b->g, from, at[0]);
    for (size_t i = 0; ok && i < o->n_prop; i++) {
        const schema_prop *m = &o->prop[i];
        const bool         none = m->value == SCHEMA_FALSE || !calls__writes(slot, m->name);
        const int32_t      rule = none ? -1 : calls__member(b, slot, t, m);
        ok = none || rule >= 0;
        calls__put_member(b, slot, at + i * n, at + (i + 1) * n, n, rule, m->required);
    }
    for (size_t i = 0; i < n; i++)
        if (!counted || (i >= o->min && i <= o->max)) gram_eps(b->g, at[o->n_prop * n + i], to);
    mem_free(at);
    return ok;
}

/* All parameters, with the brackets around them. */
static bool calls__put_parameters(calls__builder *b, char slot, const calls__tool_held *t, calls__pen *p) {
    static const char brackets[] = "p  y()g{}";
    const char       *pair = strchr(brackets, slot) + 1;
    const int32_t     to = gram_state(b->g);
    if (slot != 'p') calls__put_byte(b, p, (uint8_t)pair[0]);
    calls__may_begin(b, p);
    p->blanks = false;
    const schema_shape *s = schema_shape_of(t->doc, schema_root(t->doc), b->e);
    bool                ok = s != NULL;
    for (size_t i = 0; ok && i < s->n_object; i++) ok = calls__put_object(b, slot, t, &s->object[i], p->at, to);
    p->at = to;
    calls__ink_add(b, p, 0, false);
    if (slot != 'p') calls__put_byte(b, p, (uint8_t)pair[1]);
    p->blanks = true;
    return ok;
}

/* --- calls --- */

/* The tool's arguments as a JSON object. */
static bool calls__put_arguments(calls__builder *b, calls__tool_held *t, calls__pen *p) {
    const int32_t to = gram_state(b->g);
    bool          ok = true;
    calls__put_blanks(b, p);
    if (t->arguments < 0) {
        t->arguments = gram_rule(b->g, t->name.p);
        const int32_t from = gram_begin(b->g, t->arguments), end = gram_end(b->g, t->arguments);
        if (!t->loose) ok = json_rules_value(t->rules, from, schema_root(t->doc), end, b->e);
        else json_any(b->g, from, true, &b->w->json, end);
    }
    gram_call(b->g, p->at, t->arguments, to);
    calls__ink_add(b, p, 0, false);
    p->at = to;
    p->blanks = true;
    return ok;
}

/* Whether the text begins with what ends an answer. */
static bool calls__ends(const calls__builder *b, bytes text) {
    const bytes t = bytes_trim(text);
    for (size_t i = 0; i < b->w->n_ends; i++)
        if (b->w->ends[i].n && bytes_begins(t, b->w->ends[i])) return true;
    return false;
}

static void calls__put_id(calls__builder *b, calls__pen *p) {
    static const gram_range nine[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    static const gram_range any[] = {{'-', '-'}, {'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    if (b->f->row->flags & CALLS_NINE) calls__put_chars(b, p, nine, 3, 9, 9);
    else calls__put_chars(b, p, any, 5, 1, 40);
}

/* A few bytes without meaning and the text `next` after them: what the template writes there, or a few characters
 * of a line without tags. */
static void calls__put_gap(calls__builder *b, calls__pen *p, bytes next, bytes learned, bool named) {
    static const gram_range blank[] = {{' ', ' '}}, line[] = {{' ', ';'}, {'=', '~'}};
    const int32_t           to = gram_state(b->g), after = gram_state(b->g);
    calls__pen              other = *p;
    if (named) {
        gram_eps(b->g, other.at, after);
        calls__put_chars(b, &other, blank, 1, 1, 1);  /* what follows the name directly would be of it */
    }
    calls__put_chars(b, &other, line, 2, 0, CALLS_GAP / 2);
    gram_eps(b->g, other.at, after);
    other.at = after;
    calls__put_text(b, &other, bytes_trim(next));     /* the reader looks for just this text */
    gram_eps(b->g, other.at, to);
    if (bytes_find(learned, 0, bytes_trim(next)) != SIZE_MAX) {
        p->blanks = bytes_is_blank(learned.p[0]);
        calls__put_text(b, p, bytes_trim(learned));
        calls__may_begin(b, p);
        gram_eps(b->g, p->at, to);
    } else calls__ink_add(b, p, 0, false);
    p->at = to;
    p->blanks = false;
}

/* --- one call --- */

/* Whether a call is one only where a tool's name follows: what is before it may be in any text. */
static bool calls__by_name(const calls_row *r) {
    const char  *first = *r->open ? r->open : r->call;
    const size_t n = strcspn(first, "%");
    return (r->flags & CALLS_BARE) || !(memchr(first, '<', n) || memchr(first, '[', n));
}

/* How the form writes a call as an object: up to the name, between id and name where an id comes first, from the
 * name to the arguments. */
typedef struct {
    bytes before, inner, middle;
    int   deep;                                       /* brackets that are open at the arguments */
} calls__object_parts;

static int calls__depth(bytes json) {
    int  deep = 0;
    bool in = false;
    for (size_t i = 0; i < json.n; i++) {
        if (json.p[i] == '"') in = !in;
        if (!in) deep += (json.p[i] == '{') - (json.p[i] == '}');
    }
    return deep;
}

static calls__object_parts calls__parts(const calls_form *f) {
    const bytes  begin = str_bytes(&f->begin), middle = bytes_trim(str_bytes(&f->middle));
    const size_t at = bytes_find(begin, 0, bytes_of("{"));
    const bool   learned = at != SIZE_MAX && middle.n && middle.p[middle.n - 1] == ':' && (f->named || f->inner.n);
    calls__object_parts o = {bytes_of("{\"name\": \""), {0}, bytes_of("\", \"arguments\": "), 1};
    if (!learned) return o;
    str all = {0};
    o = (calls__object_parts){{begin.p + at, begin.n - at}, f->named ? (bytes){0} : str_bytes(&f->inner),
                              str_bytes(&f->middle), 0};
    str_cat(&all, o.before), str_cat(&all, o.inner), str_cat(&all, o.middle);
    o.deep = calls__depth(str_bytes(&all));
    str_drop(&all);
    return o;
}

/* The object of a call from the name on. */
static bool calls__close_object(calls__builder *b, calls__tool_held *t, calls__pen *p) {
    const calls__object_parts o = calls__parts(b->f);
    calls__put_json(b, p, str_bytes(&t->quoted));
    p->trigger = calls__by_name(b->row);              /* the quote after the name begins the call */
    calls__put_json(b, p, o.middle);
    calls__may_begin(b, p);
    if (!calls__put_arguments(b, t, p)) return false;
    for (int i = 1; i < o.deep; i++) calls__put_byte(b, p, '}'), p->blanks = true;
    if (b->f->row->flags & CALLS_NINE) {
        const int32_t end = gram_state(b->g);
        gram_eps(b->g, p->at, end);
        calls__put_json(b, p, bytes_of(", \"id\": \""));
        calls__put_id(b, p);
        calls__put_json(b, p, bytes_of("\""));
        gram_eps(b->g, p->at, end);
        p->at = end, p->blanks = true;
    }
    calls__put_byte(b, p, '}');
    p->blanks = true;
    return true;
}

/* A walk along the pattern of a call: s is after `slot`, lit is the text before it. */
typedef struct {
    const char *s;
    char        slot;
    bytes       lit;
} calls__walk;

static calls__walk calls__walk_next(calls__walk w) {
    w.lit = calls__segment(&w.s, &w.slot);
    return w;
}

/* A slot that does not depend on the tool, with the text after it where the slot needs it. */
static calls__walk calls__put_plain(calls__builder *b, calls__pen *p, calls__walk w, bool named) {
    static const gram_range digits[] = {{'0', '9'}};
    if (w.slot == 'i') calls__put_id(b, p);
    if (w.slot == 'x') calls__put_chars(b, p, digits, 1, 1, 6);
    if (w.slot != '_') return calls__walk_next(w);
    const bytes  before = bytes_trim(w.lit), begin = str_bytes(&b->f->begin);
    const size_t at = bytes_find(begin, 0, before);
    bytes        learned = {0};                       /* what the form's template writes there; empty: unknown */
    w = calls__walk_next(w);
    if (b->row == b->f->row && named) learned = str_bytes(&b->f->middle);
    else if (b->row == b->f->row && at != SIZE_MAX) learned = bytes_slice(begin, at + before.n, begin.n);
    calls__put_gap(b, p, w.lit, learned, named);
    w.lit = (bytes){0};
    return w;
}

/* The name of a tool. Where that begins the call, the next byte or the name does. */
static void calls__put_name(calls__builder *b, calls__pen *p, const calls__tool_held *t, calls__walk next) {
    const bool ink = bytes_trim(next.lit).n || next.slot == 'y' || next.slot == 'g';
    calls__put_text(b, p, str_bytes(&t->name));
    if (!calls__by_name(b->row)) return;
    if (ink) p->trigger = true;
    else if (!(b->row->flags & CALLS_BARE)) calls__add_trigger(b, p);
}

/* The call of one tool, from the slot that names it on. */
static bool calls__put_named(calls__builder *b, calls__walk w, calls__tool_held *t, calls__pen *p, int32_t to) {
    bool ok = true;
    for (bool first = true; ok; first = false) {
        if (!first) {
            if (!w.slot && calls__ends(b, w.lit)) return gram_eps(b->g, p->at, b->over), true;
            calls__put_lit(b, p, w.lit);
            calls__may_begin(b, p);
        }
        if (!w.slot) break;
        if (w.slot == 'n') calls__put_name(b, p, t, calls__walk_next(w));
        else if (w.slot == 'o') ok = calls__close_object(b, t, p);
        else if (w.slot == 'a') ok = calls__put_arguments(b, t, p);
        else if (strchr("pyg", w.slot)) ok = calls__put_parameters(b, w.slot, t, p);
        w = strchr("noapyg", w.slot) ? calls__walk_next(w) : calls__put_plain(b, p, w, true);
    }
    gram_eps(b->g, p->at, to);
    return ok;
}

/* An error is about this tool, and names it. */
static void calls__blame(const calls__builder *b, const calls__tool_held *t) {
    const err_t why = *b->e;
    b->w->failed = t->at;
    if (bytes_begins(bytes_of(why.text), bytes_of("parameters of the tool"))) return;
    b->e->code = 0;
    err_set(b->e, why.code, "parameters of the tool %.80s: %.500s", t->name.p, why.text);
}

/* A call of any tool. The pen knows what is before it. */
static bool calls__put_call(calls__builder *b, calls__pen *p, int32_t to) {
    const calls__object_parts o = calls__parts(b->f);
    calls__walk               w = calls__walk_next((calls__walk){.s = b->row->call});
    bool                      ok = true;
    calls__put_lit(b, p, w.lit);
    if (!calls__by_name(b->row)) calls__add_trigger(b, p);
    while (w.slot != 'n' && w.slot != 'o') {
        calls__may_begin(b, p);
        w = calls__put_plain(b, p, w, false);
        calls__put_lit(b, p, w.lit);
    }
    if (w.slot == 'o') calls__put_json(b, p, o.before);
    calls__may_begin(b, p);
    if (w.slot == 'o' && o.inner.n) {
        calls__put_id(b, p);
        calls__put_json(b, p, o.inner);
    }
    for (size_t i = 0; ok && i < b->n_tools; i++) {
        calls__pen one = *p;
        ok = calls__put_named(b, w, &b->tool[i], &one, to);
        if (!ok) calls__blame(b, &b->tool[i]);
    }
    return ok;
}

/* All calls in the way of one row: the text around them, and what is between two. */
static bool calls__put_row(calls__builder *b, const calls_row *r) {
    const int32_t call = gram_state(b->g), after = gram_state(b->g);
    calls__pen    open = {.at = gram_state(b->g)}, next = {.at = after, .blanks = true}, close = next;
    b->row = r;
    calls__put_lit(b, &open, bytes_of(r->open));
    gram_eps(b->g, open.at, call);
    open.at = call, open.blanks = true;
    if (!*r->open || !*r->call || r->call[0] == '%') calls__may_begin(b, &open);
    const bool ok = calls__put_call(b, &open, after);
    if (!calls__ends(b, bytes_of(r->close))) calls__put_lit(b, &close, bytes_of(r->close));
    gram_eps(b->g, *r->close && close.at != after ? close.at : after, b->over);
    if (b->w->many) {
        if (strcmp(r->sep, ";") == 0) gram_call(b->g, after, b->blanks, call);
        calls__put_lit(b, &next, bytes_of(r->sep));
        calls__put_blanks(b, &next);
        gram_eps(b->g, next.at, call);
    }
    return ok;
}

/* --- text before a call: any, up to the first text that begins one. The automaton of Aho and Corasick, with
 * white space where it may be. --- */

typedef struct {                                      /* places in the builder's `text`: what they are before may come next */
    size_t  from;                                     /* of the first in `places` */
    size_t  n;                                        /* how many */
    int32_t state;
} calls__seen;

typedef struct {
    calls__builder *b;
    uint32_t       *ends;                             /* [n_text] 1 + the text whose last byte this is, else 0 */
    uint32_t       *first;                            /* [n_first] where a text begins */
    size_t          n_first;
    uint32_t       *places;
    size_t          n_places;
    calls__seen    *seen;
    size_t          n_seen;
    hmap            index;                            /* of seen */
} calls__search;

enum { CALLS_SEEN = 1 << 17 };                        /* states of a search at most */

/* Whether the text t of a call begins with the text i. */
static bool calls__starts_with(const calls__builder *b, size_t t, size_t i) {
    const calls__trigger *x = &b->trigger[t], *y = &b->trigger[i];
    bool                  is = x->n >= y->n;
    for (size_t k = 0; is && k < y->n; k++) is = b->text[x->at + k].byte == b->text[y->at + k].byte;
    return is;
}

/* Whether another text begins the call t, or the same one does. */
static bool calls__covered(const calls__builder *b, size_t t) {
    bool covered = false;
    for (size_t i = 0; !covered && i < b->n_triggers; i++)
        covered = i != t && calls__starts_with(b, t, i) && (b->trigger[i].n < b->trigger[t].n || i < t);
    return covered;
}

/* The state after the text t: there go on all calls that begin with it. */
static int32_t calls__after_trigger(calls__builder *b, size_t t) {
    const int32_t state = gram_state(b->g);
    for (size_t i = 0; i < b->n_triggers; i++) {
        const calls__trigger *o = &b->trigger[i];
        calls__pen            p = {.at = state};
        if (!calls__starts_with(b, i, t)) continue;
        for (size_t k = o->at + b->trigger[t].n; k < o->at + o->n; k++)
            p.blanks = b->text[k].blanks, calls__put_byte(b, &p, b->text[k].byte);
        gram_eps(b->g, p.at, o->state);
    }
    return state;
}

/* The place in `seen` of the last n places, sorted; they are dropped where it is known. */
static size_t calls__seen_of(calls__search *s, size_t n) {
    const bytes key = {n ? (const uint8_t *)(s->places + s->n_places - n) : NULL, n * sizeof *s->places};
    hmap_entry *en = hmap_add(&s->index, bytes_hash(s->index.seed, key) | 1, bytes_hash(~s->index.seed, key));
    if ((uint32_t)en->b) return s->n_places -= n, (size_t)(uint32_t)en->b - 1;
    MEM_PUSH(s->seen, s->n_seen, (calls__seen){s->n_places - n, n, gram_state(s->b->g)});
    en->b |= s->n_seen;
    return s->n_seen - 1;
}

/* Adds a place to the last n, which stay sorted. Returns their number. */
static size_t calls__place_add(calls__search *s, size_t n, uint32_t place) {
    s->places = mem_reserve(s->places, s->n_places, UINT32_MAX, sizeof *s->places);
    size_t i = s->n_places, least = s->n_places - n;
    while (i > least && s->places[i - 1] > place) i--;
    if (i > least && s->places[i - 1] == place) return n;
    memmove(s->places + i + 1, s->places + i, (s->n_places - i) * sizeof *s->places);
    s->places[i] = place;
    s->n_places++;
    return n + 1;
}

/* The state after a byte. */
static int32_t calls__search_step(calls__search *s, size_t at, uint8_t c, const int32_t *after) {
    const calls__seen now = s->seen[at];
    size_t            n = 0;
    for (size_t i = 0; i < now.n + s->n_first; i++) {
        const uint32_t   place = i < now.n ? s->places[now.from + i] : s->first[i - now.n];
        const calls__ink k = s->b->text[place];
        if (k.byte == c && s->ends[place]) return s->n_places -= n, after[s->ends[place] - 1];
        if (k.byte == c) n = calls__place_add(s, n, place + 1);
        else if (i < now.n && k.blanks && bytes_is_blank(c)) n = calls__place_add(s, n, place);
    }
    const size_t next = calls__seen_of(s, n);
    return s->seen[next].state;
}

/* The edges of a state. */
static void calls__search_edges(calls__search *s, size_t at, const int32_t *after) {
    const int32_t state = s->seen[at].state;
    int32_t       go[256];
    for (int c = 0; c < 256; c++) go[c] = calls__search_step(s, at, (uint8_t)c, after);
    for (int c = 0, end; c < 256; c = end) {
        for (end = c + 1; end < 256 && go[end] == go[c]; end++) {}
        gram_byte(s->b->g, state, (uint8_t)c, (uint8_t)(end - 1), go[c]);
    }
    gram_free_state(s->b->g, state);
    gram_eps(s->b->g, state, s->b->over);
}

/* Any text up to a call, from the builder's first state. */
static bool calls__put_search(calls__builder *b) {
    calls__search s = {.b = b};
    int32_t      *after = mem_new(b->n_triggers, sizeof *after);
    hmap_init(&s.index, ~(uint64_t)UINT32_MAX);
    s.ends = mem_new(b->n_text, sizeof *s.ends);
    s.first = mem_new(b->n_triggers, sizeof *s.first);
    for (size_t t = 0; t < b->n_triggers; t++) {
        const calls__trigger *k = &b->trigger[t];
        if (!k->n || calls__covered(b, t)) continue;
        after[t] = calls__after_trigger(b, t);
        s.first[s.n_first++] = (uint32_t)k->at;
        s.ends[k->at + k->n - 1] = (uint32_t)t + 1;
    }
    calls__seen_of(&s, 0);                            /* nothing of a call was seen: the first state */
    gram_eps(b->g, b->from, s.seen[0].state);
    for (size_t i = 0; i < s.n_seen && s.n_seen < CALLS_SEEN; i++) calls__search_edges(&s, i, after);
    const bool ok = s.n_seen < CALLS_SEEN ||
                    err_set(b->e, EXIT_RESOURCE, "the calls of %zu tools begin in too many ways", b->n_tools);
    hmap_drop(&s.index);
    void *own[] = {after, s.ends, s.first, s.places, s.seen};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    return ok;
}

/* Any text. */
static void calls__put_any(calls__builder *b) {
    const int32_t any = gram_state(b->g);
    gram_free_state(b->g, any);
    gram_byte(b->g, any, 0, 255, any);
    gram_eps(b->g, b->from, any);
    gram_eps(b->g, any, b->over);
}

/* --- all of it --- */

typedef struct {
    val  v;
    str *out;
} calls__writing;

static void calls__write_json(val_env *env, void *arg) {
    const calls__writing *w = arg;
    val_buf              *buf = val_buf_new(env);
    val_json_write(env, buf, w->v, NULL);
    val_utf8(val_buf_str(buf), w->out);
}

/* The schema of arguments, which are an object whatever else it says; without one there are none. */
static void calls__schema_of(val_env *env, void *arg) {
    calls__writing *w = arg;
    const val       all = w->v.kind == VAL_DICT ? calls__meant(env, w->v) : val_dict_new(env), type = val_get(all, "type");
    bool            object = val_is_str(type, "object") || type.kind == VAL_UNDEF;
    for (size_t i = 0; type.kind == VAL_LIST && i < type.list->n; i++)
        object = object || val_is_str(type.list->at[i], "object");
    if (object) val_put(env, all.dict, "type", val_str_of(env, "object"));
    if (w->v.kind != VAL_DICT) val_put(env, all.dict, "additionalProperties", val_bool(false));
    w->v = all;
    calls__write_json(env, w);
}

/* The names of a tool's parameters, and which of them are strings. */
static void calls__loosened(val_env *env, void *arg) {
    calls__writing *w = arg;
    const val       all = val_dict_new(env), props = val_dict_new(env), given = val_get(w->v, "properties");
    for (size_t i = 0; given.kind == VAL_DICT && i < given.dict->n; i++) {
        const val_pair *p = &given.dict->at[i];
        const val       one = val_dict_new(env), types = val_list_new(env);
        if (p->gone) continue;
        val_list_add(env, types.list, val_str_of(env, "string"));
        if (calls__nullable(p->value)) val_list_add(env, types.list, val_str_of(env, "null"));
        if (calls__type(p->value) == CALLS_STRING) val_put(env, one.dict, "type", types);
        val_dict_set(env, props.dict, p->key, one);
    }
    val_put(env, all.dict, "type", val_str_of(env, "object"));
    val_put(env, all.dict, "properties", props);
    w->v = all;
    calls__write_json(env, w);
}

/* The schema of a tool's arguments. */
static bool calls__open_schema(calls__builder *b, calls__tool_held *t) {
    str            path = {0}, text = {0};
    val_env        env;
    calls__writing w = {t->schema, &text};
    val_env_init(&env, 0, 0, NULL);
    str_fmt(&path, "parameters of the tool %.80s", t->name.p);
    if (val_run(&env, t->loose ? calls__loosened : calls__schema_of, &w, b->e))
        t->doc = constrain_schema_open(b->c, str_bytes(&text), path.p, b->e);
    if (t->doc) t->rules = json_rules_new(b->g, t->doc, &b->w->json);
    val_env_drop(&env);
    str_drop_all(&path, &text);
    return t->doc != NULL;
}

/* Adds a tool that may be called. */
static bool calls__add_tool(calls__builder *b, val tool, size_t at) {
    const val         name = val_get(tool, "name"), strict = val_get(tool, "strict");
    calls__tool_held *t = &b->tool[b->n_tools];
    if (name.kind != VAL_STR) return true;
    val_utf8(name.s, &t->name);
    bool skip = !t->name.n || t->name.n > CALLS_NAME || (b->w->only.n && !bytes_eq(b->w->only, str_bytes(&t->name)));
    for (size_t i = 0; i < b->n_tools && !skip; i++) skip = bytes_eq(str_bytes(&t->name), str_bytes(&b->tool[i].name));
    if (skip) return str_drop(&t->name), true;
    b->n_tools++;
    str_json_exact(&t->quoted, str_bytes(&t->name));
    t->quoted.n -= 2;
    memmove(t->quoted.p, t->quoted.p + 1, t->quoted.n);
    t->at = at, t->schema = val_get(tool, "parameters"), t->arguments = -1;
    t->loose = (strict.kind == VAL_BOOL && !strict.b) || (b->w->loose && b->w->loose[at]);
    return calls__open_schema(b, t) || (b->w->failed = at, false);
}

static bool calls__add_tools(calls__builder *b) {
    const val_list *l = b->w->tools.list;
    bool            ok = true;
    b->tool = mem_new(l->n, sizeof *b->tool);
    for (size_t i = 0; ok && i < l->n; i++) {
        const val f = val_get(l->at[i], "function");
        ok = calls__add_tool(b, f.kind == VAL_DICT ? f : l->at[i], i);
    }
    return ok;
}

static void calls__builder_drop(calls__builder *b) {
    for (size_t i = 0; i < b->n_tools; i++) {
        str_drop(&b->tool[i].name), str_drop(&b->tool[i].quoted);
        if (b->tool[i].rules) json_rules_free(b->tool[i].rules);
    }
    mem_free(b->tool), mem_free(b->ink), mem_free(b->trigger), mem_free(b->text);
    str_drop(&b->begin);
}

/* Builds the answers with calls of the form between two states of g. False: e says why, w->failed which tool it is
 * about. What follows calls_begin() in a way that no row has is any text. */
static bool calls_hold(const calls_form *f, calls_want *w, constrain *c, gram *g, int32_t from, int32_t to, err_t *e) {
    calls__builder b = {.f = f, .w = w, .c = c, .g = g, .e = e, .langs = constrain_langs(c),
                        .from = from, .over = to};
    jinja_text begin = {0};
    w->failed = SIZE_MAX;
    b.text = mem_new(CALLS_INK, sizeof *b.text);
    b.blanks = gram_rule(g, NULL);
    constrain_blanks(g, gram_begin(g, b.blanks), gram_end(g, b.blanks));
    if (w->required) calls_begin(f, w->only, &begin);
    for (size_t i = 0; i < begin.text.n; i++)
        if (!bytes_is_blank((uint8_t)begin.text.p[i])) str_add(&b.begin, begin.text.p + i, 1);
    jinja_text_drop(&begin);
    bool ok = calls__add_tools(&b);
    for (int i = 0; ok && i < f->n_rows; i++) ok = calls__put_row(&b, &f->row[i]);
    if (ok && !w->required) ok = calls__put_search(&b);
    else if (ok && !b.begun) {
        log_info("calls       the template begins calls in a way of its own: answers that have to call are not "
                 "constrained to the form %s", f->row->name);
        calls__put_any(&b);
    }
    if (ok && f->raw_quote == '"')
        log_info("calls       strings of the form %s are read without escapes: those with quotes or backslashes may "
                 "differ from what their schema asks for", f->row->name);
    calls__builder_drop(&b);
    return ok && !e->code;
}

/* --- learning: conversations with a known call are rendered, and rows read them --- */

typedef bool (*calls_render)(void *ctx, val vars, jinja_text *out, err_t *e);

#define CALLS_KNOWN "qxfind"                          /* the known call: its tool, texts and id appear nowhere else */
#define CALLS_TEXT  "qxcontent"
#define CALLS_PLAIN "{\"role\": \"assistant\", \"content\": \"" CALLS_TEXT "\"}"
#define CALLS_ID    "qxid00001"
#define CALLS_ID2   "functions." CALLS_KNOWN ":0"      /* some templates write the id in place of the name */
#define CALLS_TOOL                                                                                                     \
    "{\"type\": \"function\", \"function\": {\"name\": \"qxtool\", \"description\": \"qxdescription\", \"parameters\": "   \
    "{\"type\": \"object\", \"properties\": {\"qxkey\": {\"type\": \"string\", \"description\": \"qxdescription\"}}, "   \
    "\"required\": [\"qxkey\"]}}}"
#define CALLS_ARGS  "{\"qxtext\": \"qxvalue\", \"qxnumber\": 17}"

typedef struct {
    calls_render render;
    void        *ctx;
    const char  *tools_name;
    const char  *content;                             /* JSON; "": the message has none */
    bool         text;                                /* arguments as a JSON string */
    const char  *id;
} calls_lesson;

/* Renders a conversation of the user's message and, unless it is empty, this one (JSON), with a list of tools where tools
 * is true. Returns whether the template took it. */
static bool calls__render_messages(const calls_lesson *l, bool tools, const char *message, str *out) {
    str        json = {0};
    jw         w = jw_loose(&json);
    val_env    env;
    jinja_text text = {0};
    err_t      e = {0};
    jw_open(&w, NULL, '{');
    jw_open(&w, "messages", '[');
    jw_fmt(&w, NULL, "{\"role\": \"user\", \"content\": \"qxuser\"}");
    if (*message) jw_fmt(&w, NULL, "%s", message);
    jw_close(&w, ']');
    jw_bool(&w, "add_generation_prompt", !*message);
    if (tools) jw_fmt(&w, l->tools_name, "[" CALLS_TOOL "]");
    jw_close(&w, '}');
    val_env_init(&env, 0, 0, NULL);
    const bool ok = l->render(l->ctx, val_json_read(&env, str_bytes(&json), false), &text, &e);
    val_env_drop(&env);
    str_clear(out);
    const bool fits = ok && text.text.n <= CALLS_LESSON;
    if (fits) str_cat(out, str_bytes(&text.text));
    jinja_text_drop(&text);
    str_drop(&json);
    return fits;
}

/* Renders the known call with these arguments (JSON) and this content. */
static bool calls__render_call(const calls_lesson *l, const char *content, const char *arguments, str *out) {
    str message = {0};
    jw  w = jw_loose(&message);
    jw_open(&w, NULL, '{');
    jw_str(&w, "role", "assistant");
    if (*content) jw_fmt(&w, "content", "%s", content);
    jw_open(&w, "tool_calls", '[');
    jw_open(&w, NULL, '{');
    jw_str(&w, "id", l->id);
    jw_str(&w, "type", "function");
    jw_open(&w, "function", '{');
    jw_str(&w, "name", CALLS_KNOWN);
    if (l->text) jw_str(&w, "arguments", arguments);
    else jw_fmt(&w, "arguments", "%s", arguments);
    str_put(&message, "}}]}");
    const bool ok = calls__render_messages(l, true, message.p, out);
    str_drop(&message);
    return ok;
}

/* Whether the arguments are those of the known call, but for white space. */
static bool calls__known(bytes json) {
    bytes key = {0}, value;
    str   text = {0};
    int   n = 0;
    while (bytes_cut_member(&json, &key, &value)) {
        str_clear(&text);
        if (value.n && value.p[0] == '"') str_unquote(&text, value, false);
        if (bytes_is(key, "\"qxtext\"") && bytes_is(bytes_trim(str_bytes(&text)), "qxvalue")) n |= 1;
        else if (bytes_is(key, "\"qxnumber\"") && bytes_is(bytes_trim(value), "17")) n |= 2;
        else n |= 4;
    }
    str_drop(&text);
    return n == 3;
}

/* Looks for the known call in text[from] and after, which is read as an answer of its own, with one form. */
static bool calls__find_known(calls_form *f, bytes text, size_t from, calls_place *p) {
    const bytes t = bytes_slice(text, from, text.n);
    call_list   calls = {0};
    calls_cur   c = calls__cursor(f, t, true, val_undef(NULL), &calls);
    bool        ok = false;
    if ((f->work += t.n) > CALLS_LEARN_WORK) return false;
    c.watch = bytes_of(CALLS_KNOWN), c.strict = true;
    for (size_t i = 0, to; i < t.n && !c.found && !c.tired; i = max_size(to, i + 1)) {
        to = i;
        if (f->first[t.p[i]]) calls__calls(&c, &to);
    }
    for (size_t i = 0; i < calls.n && c.found && !ok; i++)
        ok = bytes_eq(calls.at[i].name, c.watch) && calls__known(calls.at[i].arguments);
    *p = c.seen;
    p->at += from, p->name_at += from, p->name_end += from, p->args_at += p->args_at ? from : 0;
    f->work += c.work;
    calls__cursor_drop(&c);
    call_list_drop(&calls);
    return ok;
}

/* Where text and plain begin to differ; not inside of a tag. */
static size_t calls__differ(bytes text, bytes plain) {
    size_t same = 0;
    while (same < text.n && same < plain.n && text.p[same] == plain.p[same]) same++;
    for (size_t i = same; i > 0 && same - i < CALLS_GAP && !strchr("> \n]", text.p[i - 1]); i--)
        if (text.p[i - 1] == '<' || text.p[i - 1] == '[') return i - 1;
    return same;
}

/* The row that reads the rendering back. `plain` is the rendering of the same conversation without a call: what
 * differs is searched first, then all, since instructions may hold examples; first with the text that is around
 * all calls. */
static bool calls__match(calls_form *f, bytes text, bytes plain, calls_place *p) {
    const size_t n = sizeof calls_rows / sizeof *calls_rows, differ = calls__differ(text, plain);
    if (bytes_find(text, 0, bytes_of(CALLS_KNOWN)) == SIZE_MAX) return false;
    for (size_t i = 0; i < 4 * n; i++) {
        const calls_row *r = &calls_rows[i % n];
        const bool       all = i >= 2 * n, opened = i / n % 2 == 0;
        if (!r->name || (all && (r->flags & CALLS_BARE))) continue;
        calls__set_row(f, r);
        if (!calls__find_known(f, text, all ? 0 : differ, p) || (opened && *r->open && !p->opened)) continue;
        if (!p->bare || calls__blank(bytes_slice(text, differ, p->at))) return true;
    }
    return false;
}

/* The tag <...> or [...] at the beginning of b, or at its end; empty: there is none. */
static bytes calls__tag(bytes b, bool at_end) {
    static const char open[] = "<[", close[] = ">]";
    const char *kind = b.n ? memchr(at_end ? close : open, b.p[at_end ? b.n - 1 : 0], 2) : NULL;
    for (size_t n = 2; kind && n <= b.n && n <= CALLS_GAP; n++) {
        const uint8_t c = at_end ? b.p[b.n - n] : b.p[n - 1];
        if (c == (uint8_t)(at_end ? open[kind - close] : close[kind - open]))
            return n > 2 ? (bytes){at_end ? b.p + b.n - n : b.p, n} : (bytes){0};
        if (bytes_is_blank(c) || memchr("%<>{}\"", c, 6)) break;
    }
    return (bytes){0};
}

/* Where a JSON object that is the known call begins in text from `at` on; SIZE_MAX: nowhere. *end: after it. */
static size_t calls__known_object(calls_form *f, bytes text, size_t at, size_t *end) {
    calls_cur c = calls__cursor(f, text, true, val_undef(NULL), NULL);
    size_t    i = at;
    bool      ok = false;
    if ((f->work += text.n) > CALLS_LEARN_WORK) return SIZE_MAX;
    for (; i < text.n && !ok && !c.tired; i += !ok) {
        *end = i;
        str_clear(&c.name), str_clear(&c.args), str_clear(&c.id);
        ok = text.p[i] == '{' && calls__scan(&c, bytes_scan_json, end) &&
             calls__from_object(&c, bytes_slice(text, i, *end), false, 0) && bytes_is(str_bytes(&c.name), CALLS_KNOWN) &&
             calls__known(str_bytes(&c.args));
    }
    f->work += c.work;
    calls__cursor_drop(&c);
    return ok ? i : SIZE_MAX;
}

/* A JSON object, or a list of them, between tags that no row has: they become a row of the form. The tag after it
 * is part of the form unless it ends other messages too. */
static bool calls__learn_tags(calls_form *f, bytes text, bytes plain, calls_place *p) {
    const size_t differ = calls__differ(text, plain);
    size_t       end = 0;
    const size_t at = calls__known_object(f, text, differ, &end);
    if (at == SIZE_MAX) return false;
    bytes      before = bytes_trim(bytes_slice(text, differ, at)), after = bytes_trim(bytes_slice(text, end, text.n));
    const bool list = before.n && before.p[before.n - 1] == '[' && after.n && after.p[0] == ']';
    if (list) before = bytes_trim((bytes){before.p, before.n - 1}), after = bytes_trim((bytes){after.p + 1, after.n - 1});
    const bytes open = calls__tag(before, true), next = calls__tag(after, false);
    const bytes close = bytes_find(plain, differ, next) == SIZE_MAX ? next : (bytes){0};
    if (!open.n) return false;
    for (int i = 0; i < 3; i++) str_clear(&f->own_text[i]), str_put(&f->own_text[i], "");
    str_cat(&f->own_text[list ? 0 : 1], open);
    str_put(&f->own_text[list ? 0 : 1], list ? "[" : "%o");
    if (list) str_put(&f->own_text[1], "%o"), str_put(&f->own_text[2], "]");
    str_cat(&f->own_text[list ? 2 : 1], close);
    f->own = (calls_row){.name = "json-in-tags", .open = f->own_text[0].p, .call = f->own_text[1].p,
                         .sep = list ? "," : "", .close = f->own_text[2].p, .param = "", .lead = ""};
    calls__set_row(f, &f->own);
    return calls__find_known(f, text, differ, p);
}

/* Sets begin and middle from the rendering: the text up to the name, and from there to the arguments. An id ends
 * them, since it is new in each call. */
static void calls__begin_of_text(calls_form *f, bytes text, size_t from, const calls_place *p) {
    const size_t name = bytes_find(text, p->at, bytes_of(CALLS_KNOWN)), end = name + strlen(CALLS_KNOWN);
    const size_t id = bytes_find(text, p->at, bytes_of(CALLS_ID));
    const size_t value = bytes_find(text, p->at, bytes_of("qxvalue")), brace = bytes_find(text, end, bytes_of("{"));
    size_t       args = p->args_at >= end ? p->args_at : brace;
    if (name == SIZE_MAX || args == SIZE_MAX || value < name) return;
    if (args == brace && args > end && text.p[args - 1] == '"') args--;
    if (strstr(f->row->call, "%y") || strstr(f->row->call, "%g")) args++;
    f->named = id > name;
    str_set(&f->begin, bytes_slice(text, from, min_size(id, name)));
    if (id < name) str_set(&f->inner, bytes_slice(text, id + strlen(CALLS_ID), name));
    str_set(&f->middle, bytes_slice(text, end, id > name && id < args ? id : args));
}

/* The white space between content and a call, which belongs to the call; else what is before a call without content. */
static void calls__learn_lead(calls_form *f, const calls_lesson *l, bytes text, size_t from, size_t at) {
    const size_t n = strlen(CALLS_TEXT);
    str          with = {0};
    calls_place  p;
    str_set(&f->lead, bytes_slice(text, from, at));
    if (calls__render_call(l, "\"" CALLS_TEXT "\"", CALLS_ARGS, &with)) {
        const size_t end = bytes_find(str_bytes(&with), 0, bytes_of(CALLS_TEXT)) + n;
        if (end >= n && calls__find_known(f, str_bytes(&with), end, &p) &&
            calls__blank(bytes_slice(str_bytes(&with), end, p.at))) {
            str_set(&f->lead, bytes_slice(str_bytes(&with), end, p.at));
            f->after_text = bytes_find(str_bytes(&f->lead), 0, bytes_of("\n")) == SIZE_MAX;
        }
    }
    str_drop(&with);
}

/* Whether the template writes strings of Python arguments without escapes. */
static void calls__learn_quote(calls_form *f, const calls_lesson *l) {
    str text = {0};
    if (strstr(f->row->call, "%y") && calls__render_call(l, l->content, "{\"qxtext\": \"qx'\\\\x\"}", &text)) {
        const size_t at = bytes_find(str_bytes(&text), 0, bytes_of("qx'\\x"));
        if (at != SIZE_MAX && at > 0 && (text.p[at - 1] == '\'' || text.p[at - 1] == '"')) f->raw_quote = text.p[at - 1];
    }
    str_drop(&text);
}

/* One conversation: whether a row reads its call back; then all else about the form is learned. */
static bool calls__learn_from(calls_form *f, const calls_lesson *l) {
    str         text = {0}, plain = {0};
    calls_place p;
    const bool  rendered = calls__render_call(l, l->content, CALLS_ARGS, &text);
    if (rendered) calls__render_messages(l, true, CALLS_PLAIN, &plain);
    const bytes t = str_bytes(&text), without = str_bytes(&plain);
    const bool  known = rendered && (calls__match(f, t, without, &p) || calls__learn_tags(f, t, without, &p));
    if (known) {
        f->text_arguments = l->text;
        if (strcmp(l->content, "\"" CALLS_TEXT "\"") != 0) f->no_content = l->content;
        f->tools_name = l->tools_name;
        calls__take_row(f, f->row);
        const bytes core = bytes_trim(p.value);
        if (core.n) {
            const size_t lead = (size_t)(core.p - p.value.p);
            str_set(&f->value_lead, bytes_slice(p.value, 0, lead));
            str_set(&f->value_tail, bytes_slice(p.value, lead + core.n, p.value.n));
        }
        const size_t least = *f->row->lead ? p.at : calls__differ(t, without);
        size_t       from = p.at;                     /* where the white space before the call begins */
        while (from > least && bytes_is_blank(t.p[from - 1])) from--;
        calls__begin_of_text(f, t, from, &p);
        if (!*f->row->lead) calls__learn_lead(f, l, t, from, p.at);
        calls__learn_quote(f, l);
        calls__set_row(f, f->row);
    }
    const bool id = rendered && strcmp(l->id, CALLS_ID) == 0 && bytes_find(t, 0, bytes_of(CALLS_ID)) != SIZE_MAX;
    str_drop(&text);
    str_drop(&plain);
    if (known || !id) return known;
    calls_lesson other = *l;
    other.id = CALLS_ID2;
    return calls__learn_from(f, &other);
}

/* A template that renders no calls: the row whose text is in what the template says about tools. */
static bool calls__learn_from_words(calls_form *f, const calls_lesson *l) {
    str        with = {0}, without = {0};
    bool       known = false;
    const bool ok = calls__render_messages(l, true, "", &with) && calls__render_messages(l, false, "", &without);
    for (size_t i = 0; ok && i < sizeof calls_rows / sizeof *calls_rows && !known; i++) {
        if (!calls_rows[i].name) continue;
        calls__set_row(f, &calls_rows[i]);
        const bytes hint = f->row->hint ? bytes_of(f->row->hint) : calls__opening(f);
        known = hint.n > 4 && bytes_find(str_bytes(&with), 0, hint) != SIZE_MAX &&
                bytes_find(str_bytes(&without), 0, hint) == SIZE_MAX;
    }
    if (known) f->tools_name = l->tools_name, calls__take_row(f, f->row);
    str_drop(&with);
    str_drop(&without);
    return known;
}

/* Finds how a template writes calls. NULL: it has none, or none of a form in the table. */
static calls_form *calls_learn(calls_render render, void *ctx) {
    static const char *const names[] = {"tools", "xml_tools"}, *const contents[] = {"\"\"", "null", "", "\"" CALLS_TEXT "\""};
    calls_form  *f = mem_new(1, sizeof *f);
    calls_lesson l = {.render = render, .ctx = ctx, .tools_name = names[0], .id = CALLS_ID};
    f->no_content = contents[0];
    for (int text = 0; text < 2; text++)
        for (int i = 0; i < 4; i++) {
            l.content = contents[i], l.text = text;
            if (calls__learn_from(f, &l)) return f;
        }
    for (int i = 0; i < 2; i++) {
        l.tools_name = names[i];
        if (calls__learn_from_words(f, &l)) return f;
    }
    calls_form_free(f);
    return NULL;
}
