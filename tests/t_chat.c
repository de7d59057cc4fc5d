/* Tests of [chat]: what is learned of templates, where control tokens come from, answers sorted into parts at every cut. */
#include "program.h"
#include "check.h"
#include "t_calls.h"
#include "t_tok.h"

/* --- the reader --- */

typedef struct {
    str part[CHAT_CHANNELS];
} t_chat_parts;

static void t_chat_take(void *ctx, chat_channel channel, bytes part) {
    t_chat_parts *p = ctx;
    str_add(&p->part[channel], part.p, part.n);
}

static void t_chat_parts_drop(t_chat_parts *p) {
    for (int i = 0; i < CHAT_CHANNELS; i++) str_drop(&p->part[i]);
}

/* A form with the marks of a row. */
static chat_form t_chat_form(const chat__mark *m, const char *lead) {
    chat_form f = {.mark = m};
    str_put(&f.open, m ? m->open : ""), str_put(&f.end, m ? m->end : ""), str_put(&f.lead, lead);
    return f;
}

static void t_chat_form_drop(chat_form *f) { str_drop(&f->open), str_drop(&f->end), str_drop(&f->lead); }

/* Feeds the text up to each of the cuts, then all of it. The parts have to be these, in what is given out and in the answer. */
static void t_chat_feed(const chat_form *f, bool thinking, const char *text, const size_t *cut, int n_cuts,
                        const char *content, const char *thought) {
    const chat_prompt p = {.form = f, .thinking = thinking};
    chat_reader      *r = chat_reader_new(&p, val_undef(NULL));
    t_chat_parts      got = {0};
    chat_answer       a;
    for (int i = 0; i < n_cuts; i++) chat_reader_feed(r, (bytes){(const uint8_t *)text, cut[i]}, false, t_chat_take, &got);
    chat_reader_feed(r, bytes_of(text), true, t_chat_take, &got);
    chat_reader_feed(r, bytes_of(text), true, t_chat_take, &got);                     /* no more comes */
    chat_reader_finish(r, &a);
    const char *what[] = {got.part[CHAT_CONTENT].p ? got.part[CHAT_CONTENT].p : "",
                          got.part[CHAT_THINKING].p ? got.part[CHAT_THINKING].p : "", a.content.p, a.thinking.p};
    CHECKF(!strcmp(what[0], content) && !strcmp(what[2], content),
           "\"%s\" cut at %zu: content \"%s\" and \"%s\", want \"%s\"", text, n_cuts ? cut[0] : 0, what[0], what[2], content);
    CHECKF(!strcmp(what[1], thought) && !strcmp(what[3], thought),
           "\"%s\" cut at %zu: thinking \"%s\" and \"%s\", want \"%s\"", text, n_cuts ? cut[0] : 0, what[1], what[3],
           thought);
    t_chat_parts_drop(&got);
    chat_answer_drop(&a);
}

/* The same for no cut, each cut, each two cuts near each other, and a byte at a time. */
static void t_chat_cuts(const chat_form *f, bool thinking, const char *text, const char *content, const char *thought) {
    size_t all[512];
    for (size_t i = 0; i <= strlen(text); i++) {
        t_chat_feed(f, thinking, text, &i, 1, content, thought);
        t_chat_feed(f, thinking, text, (size_t[]){i / 2, i}, 2, content, thought);
        all[i] = i;
    }
    t_chat_feed(f, thinking, text, all, (int)strlen(text) + 1, content, thought);
    t_chat_feed(f, thinking, text, NULL, 0, content, thought);
}

/* Every row of the table, with and without heads, tails and parts. */
static void t_chat_rows(void) {
    for (int i = 0; i < CHAT_MARKS; i++) {
        const chat__mark *m = &chat__marks[i];
        chat_form         f = t_chat_form(m, "");
        str               text = {0}, body = {0};
        str_fmt(&body, "%s%sSo it is.\n\nEnd%s", m->next ? m->next : "", m->heads[0] ? m->heads[0] : "\n\n",
                m->tail ? m->tail : "");
        str_fmt(&text, "%s\nlet me see \n\n1 < 2\n%s%s", m->open, m->end, body.p);
        t_chat_cuts(&f, false, text.p, "So it is.\n\nEnd", "let me see \n\n1 < 2");
        t_chat_cuts(&f, true, text.p + strlen(m->open), "So it is.\n\nEnd", "let me see \n\n1 < 2");
        str_clear(&text), str_fmt(&text, "\n%s%s", m->open, m->end);
        t_chat_cuts(&f, false, text.p, "", "");
        str_clear(&text), str_fmt(&text, "%s%sSo", m->heads[0] ? m->heads[0] : "", m->heads[0] ? "" : " ");
        t_chat_cuts(&f, false, text.p, m->heads[0] ? "So" : " So", "");
        str_clear(&text), str_fmt(&text, "%sno end of it  %.3s", m->open, m->end);
        t_chat_cuts(&f, false, text.p, "", text.p + strlen(m->open));
        str_drop(&text), str_drop(&body);
        t_chat_form_drop(&f);
    }
}

/* Marks that stand where they mean nothing, and answers that are only like one. */
static void t_chat_plain(void) {
    chat_form think = t_chat_form(&chat__marks[4], ""), none = t_chat_form(NULL, ""), blank = t_chat_form(NULL, " "),
              lead = t_chat_form(NULL, "<|say|>\n");
    EQ_STR(chat__marks[4].open, "<think>");
    t_chat_cuts(&think, false, "A <think> in a text </think>.", "A <think> in a text </think>.", "");
    t_chat_cuts(&think, false, "  \n<thin ice", "  \n<thin ice", "");
    t_chat_cuts(&think, false, "<think>a</think>b<think>c</think>", "b<think>c</think>", "a");
    t_chat_cuts(&think, false, "  ", "  ", "");
    t_chat_cuts(&think, false, "", "", "");
    t_chat_cuts(&none, false, " <think>a</think> \n", " <think>a</think> \n", "");
    t_chat_cuts(&blank, false, "  two", " two", "");
    t_chat_cuts(&blank, false, "one", "one", "");
    t_chat_cuts(&lead, false, "<|say|>\nHello", "Hello", "");
    t_chat_cuts(&lead, false, "<|say|>Hello", "<|say|>Hello", "");
    t_chat_cuts(&lead, false, "<|sa", "<|sa", "");
    t_chat_form_drop(&think), t_chat_form_drop(&none), t_chat_form_drop(&blank), t_chat_form_drop(&lead);
}

/* --- input --- */

/* What is wrong with messages, named. */
static void t_chat_input(void) {
    static const struct { const char *json, *error; } rows[] = {
        {"[{\"role\":\"user\",\"content\":\"a\"}]", ""},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]}", ""},
        {"[{\"role\":\"user\",\"content\":null},{\"role\":\"tool\"}]", ""},
        {"[]", "messages is empty, expected at least one"},
        {"7", "f: found int, expected a list of messages"},
        {"{}", "f: the object has no \"messages\""},
        {"{\"messages\":{}}", "\"messages\" is no list of objects"},
        {"[1]", "\"messages\" is no list of objects"},
        {"[{\"content\":\"a\"}]", "messages[0]: role is missing, expected a text"},
        {"[{\"role\":\"user\"},{\"role\":3}]", "messages[1]: role is int, expected a text"},
        {"[{\"role\":\"user\",\"content\":{}}]", "messages[0]: content is dict, expected a text or a list of parts"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]",
         "messages[0]: content: part 0 is of type image_url, expected text"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "part 0 of type text has"},
        {"[{\"role\":\"user\",\"content\":[7]}]", "part 0 is of type int, expected text"},
        {"[{\"role\":", "f: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        chat_input in;
        err_t      e = {0};
        const bool ok = chat_input_json(&in, bytes_of(rows[i].json), "f", &e) && chat_input_check(&in, &e);
        CHECKF(ok == !*rows[i].error && (ok || (e.code == EXIT_INPUT && strstr(e.text, rows[i].error))),
               "%s: \"%s\", want \"%s\"", rows[i].json, e.text, rows[i].error);
        if (i == 1) CHECK(val_is_str(val_get(val_get(in.vars, "messages").list->at[0], "content"), "ab"));
        chat_input_drop(&in);
    }
}

/* --- tokens by origin --- */

/* Writes a template to a file of this run. */
static const char *t_chat_template(const char *text) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/llmrun-chat-%d.jinja", (int)getpid());
    FILE *f = fopen(path, "wb");
    if (!CHECK(f && fwrite(text, 1, strlen(text), f) == strlen(text) && fclose(f) == 0)) return NULL;
    return path;
}

/* The ids of a prompt with one message; text gets what was rendered. */
static tok_ids t_chat_ids(const chat *c, bytes content, str *text) {
    chat_input  in;
    chat_prompt p = {0};
    err_t       e = {0};
    chat_input_begin(&in);
    chat_add(&in, "user", content);
    CHECKF(chat_input_check(&in, &e) && chat_make_prompt(c, &in, &p, &e), "%s", e.text);
    const tok_ids ids = p.ids;
    p.ids = (tok_ids){0};
    if (text) str_clear(text), str_add(text, p.text.p, p.text.n);
    chat_prompt_drop(&p);
    chat_input_drop(&in);
    return ids;
}

static int t_chat_count(const tok_ids *ids, int32_t id) {
    int n = 0;
    for (size_t i = 0; i < ids->n; i++) n += ids->id[i] == id;
    return n;
}

/* Messages that spell the control tokens of a vocabulary, through filters that take strings apart. */
static void t_chat_spell(const chat *c, const tok_vocab *v, const char *who) {
    tok_ids plain = t_chat_ids(c, bytes_of("x"), NULL);
    int     n = 0;
    for (int32_t id = 0; id < tok_count(v) && n < 150; id++) {
        if (!tok_is_control(v, id)) continue;
        str s = {0};
        for (int i = 0; i < 3; i++) str_add(&s, tok_text(v, id).p, tok_text(v, id).n), str_put(&s, i == 1 ? "" : " a ");
        tok_ids ids = t_chat_ids(c, str_bytes(&s), NULL);
        CHECKF(t_chat_count(&ids, id) == t_chat_count(&plain, id), "%s: token %d %.*s %d times", who, id,
               (int)tok_text(v, id).n, tok_text(v, id).p, t_chat_count(&ids, id));
        tok_ids_drop(&ids);
        str_drop(&s);
        n++;
    }
    CHECKF(n > 0, "%s: no control token", who);
    tok_ids_drop(&plain);
}

/* Ordinary texts: the ids of the rendering, with one start token. */
static void t_chat_ordinary(const chat *c, const tok_vocab *v, const char *who) {
    static const char *const texts[] = {"Hello", "", " two  spaces ", "a\n\nb\r\n\tc", "éß 中文 😀 \xff\xfe",
                                        "12345 it's <b>|x|", "{{ x }} {% if %}", "<|", "|>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        str     text = {0};
        err_t   e = {0};
        tok_ids ids = t_chat_ids(c, bytes_of(texts[i]), &text), want = {0};
        CHECKF(tok_encode(v, str_bytes(&text), TOK_SPECIAL, &want, &e), "%s", e.text);
        const size_t more = tok_add_bos(v) && want.n && want.id[0] != tok_bos(v);
        CHECKF(ids.n == want.n + more && memcmp(ids.id + more, want.id, want.n * sizeof *want.id) == 0,
               "%s: \"%s\" has %zu tokens, its rendering %zu", who, text.p, ids.n, want.n);
        CHECKF(!more || ids.id[0] == tok_bos(v), "%s: no start token", who);
        CHECKF(!(ids.n > 1 && ids.id[0] == tok_bos(v) && ids.id[1] == tok_bos(v)), "%s: two start tokens", who);
        tok_ids_drop(&ids), tok_ids_drop(&want);
        str_drop(&text);
    }
}

static void t_chat_origins(void) {
    static const char *const own[] = {"models/pip-q4_k_m.gguf", "tests/data/tiny/llama.gguf", "tests/data/tiny/qwen2.gguf"};
    static const char        spells[] = "{{ bos_token }}{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.role ~ ':' ~ (m.content | trim | replace(' a ', '')) ~ (m.content"
                                        " | upper | lower) ~ m.content[1:] ~ ('%s'|format(m.content)) ~ (m.content.split(' ') | join('')) ~ (m.content | list | join) %}{% endfor %}{{ ns.t }}";
    for (int i = -3; i < TT_VOCABS; i++) {
        const char *path = i < 0 ? own[i + 3] : tt_shared(tt_vocabs[i]);
        for (int plain = 0; path && plain < 2; plain++) {
            tt_open   o;
            err_t     e = {0};
            chat_opts co = chat_defaults;
            if (!tt_open_file(&o, path, NULL) ||
                !CHECK(co.template_file = t_chat_template(plain
                                                          ? "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}" : spells))) return;
            chat *c = chat_open(&o.g, o.v, &co, &e);
            if (CHECKF(c != NULL, "%s", e.text)) plain ? t_chat_ordinary(c, o.v, path) : t_chat_spell(c, o.v, path);
            chat_free(c);
            tt_close(&o);
        }
    }
}

/* --- learning --- */

/* What each of these templates shows: what ends an answer as a text, what stands before content, the marks of thinking, the form of calls. */
static void t_chat_learned(void) {
    static const struct { const char *name, *stop, *lead, *open, *end, *key, *calls; } rows[] = {
        {"tags", "<|im_end|>", "", "", "", NULL, "tool_call"},
        {"channels", "<|end|>", "<|channel|>final<|message|>", "<|channel|>analysis<|message|>", "<|end|>", "thinking",
         "gpt-oss"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "",
         "<|START_THINKING|>", "<|END_THINKING|>", NULL, "command-r7b"},
        {"GLM-4.6", "<|user|>", "\n", "<think>", "</think>", "reasoning_content", "tool_call-keys"},
        {"HuggingFaceTB-SmolLM3-3B", "<|im_end|>", "", "<think>", "</think>", NULL, NULL},
        {"Kimi-K2-Instruct", "<|im_end|>", "", "", "", NULL, "kimi"},
        {"LFM2-8B-A1B", "<|im_end|>", "", "", "", NULL, "lfm2"},
        {"Mistral-Small-3.2-24B-Instruct-2506", "</s>", "", "", "", NULL, "mistral"},
        {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "<|im_end|>", "", "", "", NULL, "tool_call"},
        {"Qwen-Qwen2.5-7B-Instruct", "<|im_end|>", "", "", "", NULL, "tool_call"},
        {"Qwen-Qwen3-0.6B", "<|im_end|>", "", "<think>", "</think>", "reasoning_content", "tool_call"},
        {"Qwen3-Coder", "<|im_end|>", "", "", "", NULL, "tool_call-parameters"},
        {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "<｜end▁of▁sentence｜>", "", "<think>", "</think>", NULL, "deepseek-r1"},
        {"deepseek-ai-DeepSeek-V3.1", "<｜end▁of▁sentence｜>", "", "<think>", "</think>", NULL, "deepseek-v3.1"},
        {"google-gemma-2-2b-it", "<end_of_turn>", "", "", "", NULL, NULL},
        {"google-gemma-4-31B-it", "<turn|>", "", "<|channel>thought", "<channel|>", NULL, "gemma"},
        {"ibm-granite-granite-3.3-2B-Instruct", "<|end_of_text|>", "", "<think>", "</think>", NULL, "granite"},
        {"meta-llama-Llama-3.1-8B-Instruct", "<|eot_id|>", "", "", "", NULL, "llama"},
        {"meta-llama-Llama-3.2-3B-Instruct", "<|eot_id|>", "", "", "", NULL, "llama"},
        {"microsoft-Phi-3.5-mini-instruct", "<|end|>", "", "", "", NULL, NULL},
        {"mistralai-Mistral-Nemo-Instruct-2407", "</s>", "", "", "", NULL, "mistral"},
        {"openai-gpt-oss-120b", "<|return|>", "<|channel|>final<|message|>", "<|channel|>analysis<|message|>", "<|end|>",
         "thinking", "gpt-oss"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t     e = {0};
        chat_opts o = chat_defaults;
        o.template_file = t_template_file(rows[i].name);
        o.kwargs = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}";
        if (!o.template_file) continue;
        chat *c = chat_open(NULL, NULL, &o, &e);
        if (!CHECKF(c && chat__learn(c, c->form[0], true, &e), "%s: %s", rows[i].name, e.text)) continue;
        const chat_form *f = c->form[0];
        CHECKF(f->n_stops && bytes_begins(f->stops[0], bytes_of(rows[i].stop)), "%s: ends with \"%.*s\"", rows[i].name,
               f->n_stops ? (int)f->stops[0].n : 0, f->n_stops ? (const char *)f->stops[0].p : "");
        CHECKF(bytes_is(str_bytes(&f->lead), rows[i].lead), "%s: begins with \"%.*s\"", rows[i].name, (int)f->lead.n,
               f->lead.n ? f->lead.p : "");
        CHECKF(bytes_is(str_bytes(&f->open), rows[i].open) && bytes_is(str_bytes(&f->end), rows[i].end),
               "%s: \"%s\" and \"%s\"", rows[i].name, f->open.n ? f->open.p : "", f->end.n ? f->end.p : "");
        CHECKF(rows[i].key ? f->think_key && !strcmp(f->think_key, rows[i].key) : !f->think_key, "%s: thinking is in %s",
               rows[i].name, f->think_key ? f->think_key : "nothing");
        CHECKF(rows[i].calls ? f->calls && !strcmp(calls_form_name(f->calls), rows[i].calls) : !f->calls,
               "%s: calls are %s", rows[i].name, f->calls ? calls_form_name(f->calls) : "none");
        chat_free(c);
    }
}

/* --- calls --- */

/* A chat with a template and the vocabulary that ships here. */
typedef struct {
    tt_open    o;
    chat      *c;
    chat_input in;
} t_chat_open;

/* False: the template is not there, or a check has failed. */
static bool t_chat_begin(t_chat_open *x, const char *name, const char *asked) {
    err_t     e = {0};
    chat_opts o = chat_defaults;
    o.template_file = t_template_file(name);
    o.kwargs = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}";
    if (!o.template_file || !tt_open_file(&x->o, tt_shipped, NULL)) return false;
    x->c = chat_open(&x->o.g, x->o.v, &o, &e);
    chat_input_begin(&x->in);
    chat_add(&x->in, "user", bytes_of(asked));
    static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"looks\",\"parameters\":{\"type\":\"object\",\"properties\":"
                                "{\"where\":{\"type\":\"string\",\"description\":\"a place\"}},\"required\":[\"where\"]}}}]";
    return CHECKF(x->c && chat_input_tools(&x->in, bytes_of(tools), "tools", &e) && chat_input_check(&x->in, &e), "%s: %s",
                  name, e.text);
}

static void t_chat_end(t_chat_open *x) {
    chat_input_drop(&x->in);
    chat_free(x->c);
    tt_close(&x->o);
}

/* The answer that a reader makes of a text, given at once. */
static chat_answer t_chat_read(t_chat_open *x, const chat_prompt *p, const char *raw) {
    chat_answer  a;
    chat_reader *r = chat_reader_new(p, val_get(x->in.vars, "tools"));
    chat_reader_feed(r, bytes_of(raw), true, NULL, NULL);
    chat_reader_finish(r, &a);
    return a;
}

/* An answer that has to call begins with its call: prompt and reader agree. Without tools it cannot, and tool_choice none takes them away. */
static void t_chat_required(void) {
    static const struct { const char *name, *rest; } rows[] = {
        {"tags", "{\"where\": \"here\"}}\n</tool_call>"}, {"channels", "{\"where\": \"here\"}"},
        {"Qwen-Qwen2.5-7B-Instruct", "{\"where\": \"here\"}}\n</tool_call>"},
        {"Qwen-Qwen3-0.6B", "{\"where\": \"here\"}}\n</tool_call>"},
        {"Mistral-Small-3.2-24B-Instruct-2506", "abcdef123[ARGS]{\"where\": \"here\"}"},
        {"openai-gpt-oss-120b", "{\"where\": \"here\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t_chat_open x = {0};
        chat_prompt auto_, p;
        err_t       e = {0};
        if (!t_chat_begin(&x, rows[i].name, "Where?")) continue;
        CHECK(chat_make_prompt(x.c, &x.in, &auto_, &e) && !auto_.begin.n);
        x.in.choice = CHAT_CALL_REQUIRED;
        x.in.call_name = bytes_of("look");
        if (CHECKF(chat_make_prompt(x.c, &x.in, &p, &e), "%s: %s", rows[i].name, e.text)) {
            CHECKF(p.begin.n && bytes_ends(str_bytes(&p.text), str_bytes(&p.begin)) &&
                   bytes_begins(str_bytes(&p.text), str_bytes(&auto_.text)), "%s: the prompt ends with \"%s\"", rows[i].name,
                   p.begin.p ? p.begin.p : "");
            chat_answer a = t_chat_read(&x, &p, rows[i].rest);
            CHECKF(a.calls.n == 1 && bytes_is(a.calls.at[0].name, "look"),
                   "%s: \"%s\" + \"%s\" has %zu calls, content \"%s\"", rows[i].name, p.begin.p, rows[i].rest, a.calls.n,
                   a.content.p);
            chat_answer_drop(&a);
        }
        chat_prompt_drop(&p);
        x.in.choice = CHAT_CALL_NONE;
        CHECK(chat_make_prompt(x.c, &x.in, &p, &e) && !strstr(p.text.p, "looks"));
        chat_prompt_drop(&p);
        x.in.choice = CHAT_CALL_REQUIRED;
        val_dict_del(x.in.vars.dict, val_str_of(&x.in.env, "tools"));
        CHECKF(!chat_make_prompt(x.c, &x.in, &p, &e) && e.code == EXIT_INPUT && strstr(e.text, "no tools"), "%s", e.text);
        chat_prompt_drop(&p), chat_prompt_drop(&auto_);
        t_chat_end(&x);
    }
}

/* Answers in channels: thinking, content and calls in parts. */
static void t_chat_channels_of(const char *name) {
    static const struct { const char *raw, *content, *thinking, *call; } rows[] = {
        {"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hello", "Hello", "hm", NULL},
        {"<|channel|>final<|message|>Hello", "Hello", "", NULL},
        {"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.look "
         "json<|message|>{\"where\": 1}", "I look.", "hm", "look"},
        {"<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=functions.look<|channel|>commentary json<|message|>{\"where\": 1}", "", "hm", "look"},
        {" to=functions.look<|channel|>commentary json<|message|>{\"where\": 1}", "", "", "look"},
        {"<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"where\": 1}", "", "", "look"},
        {"<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>analysis<|message|>two", "", "one\ntwo", NULL},
    };
    t_chat_open x = {0};
    chat_prompt p;
    err_t       e = {0};
    if (!t_chat_begin(&x, name, "Where?")) return;
    CHECKF(chat_make_prompt(x.c, &x.in, &p, &e), "%s", e.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        chat_answer a = t_chat_read(&x, &p, rows[i].raw);
        CHECKF(!strcmp(a.content.p, rows[i].content) && !strcmp(a.thinking.p, rows[i].thinking),
               "%s: content \"%s\", thinking \"%s\"", rows[i].raw, a.content.p, a.thinking.p);
        CHECKF(rows[i].call ? a.calls.n == 1 && bytes_is(a.calls.at[0].name, rows[i].call) : !a.calls.n, "%s: %zu calls",
               rows[i].raw, a.calls.n);
        chat_answer_drop(&a);
        for (size_t cut = 0; cut <= strlen(rows[i].raw); cut++) {
            t_chat_parts got = {0};
            chat_reader *r = chat_reader_new(&p, val_get(x.in.vars, "tools"));
            chat_reader_feed(r, (bytes){(const uint8_t *)rows[i].raw, cut}, false, t_chat_take, &got);
            chat_reader_feed(r, bytes_of(rows[i].raw), true, t_chat_take, &got);
            chat_reader_finish(r, &a);
            const bool content = bytes_is(str_bytes(&got.part[CHAT_CONTENT]), rows[i].content) &&
                                 !strcmp(a.content.p, rows[i].content);
            CHECKF(content && bytes_is(str_bytes(&got.part[CHAT_THINKING]), rows[i].thinking) &&
                   a.calls.n == (rows[i].call != NULL) && !got.part[CHAT_CALLS].n == !rows[i].call,
                   "%s, cut at %zu: content \"%s\"", rows[i].raw, cut, a.content.p);
            chat_answer_drop(&a);
            t_chat_parts_drop(&got);
        }
    }
    chat_prompt_drop(&p);
    t_chat_end(&x);
}

static void t_chat_channels(void) {
    t_chat_channels_of("channels");
    t_chat_channels_of("openai-gpt-oss-120b");
}

/* An answer that becomes a message again is rendered as the model wrote it, so that the next turn reads only what is new. */
static void t_chat_past(void) {
    static const struct { const char *name, *raw, *end; } rows[] = {
        {"tags", "It is here.\n\n- so \n", "<|im_end|>"},
        {"tags", "Well.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"here\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"look\", \"arguments\": "
                 "{\"where\": \"there\"}}\n</tool_call>", "<|im_end|>"},
        {"channels", "<|channel|>final<|message|>It is here.", "<|end|>"},
        {"Qwen-Qwen2.5-7B-Instruct", "It is here.\n\n- so \n", "<|im_end|>"},
        {"Qwen-Qwen2.5-7B-Instruct",
         "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"here\"}}\n</tool_call>", "<|im_end|>"},
        {"Qwen-Qwen2.5-7B-Instruct",
         "Well.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"here\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"look\", \"arguments\": "
                                     "{\"where\": \"there\"}}\n</tool_call>", "<|im_end|>"},
        {"meta-llama-Llama-3.2-3B-Instruct", "It is here.", "<|eot_id|>"},
        {"openai-gpt-oss-120b", "<|channel|>final<|message|>It is here.", "<|end|>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t_chat_open x = {0};
        chat_prompt p, next;
        err_t       e = {0};
        str         want = {0};
        if (!t_chat_begin(&x, rows[i].name, "Where?")) continue;
        const bool  calls = strstr(rows[i].raw, "tool_call");
        CHECKF(chat_make_prompt(x.c, &x.in, &p, &e), "%s", e.text);
        chat_answer a = t_chat_read(&x, &p, rows[i].raw);
        chat_add_answer(&x.in, &a);
        chat_add(&x.in, calls ? "tool" : "user", bytes_of("More?"));
        CHECKF(chat_input_check(&x.in, &e) && chat_make_prompt(x.c, &x.in, &next, &e), "%s", e.text);
        str_fmt(&want, "%s%s%s", p.text.p, rows[i].raw, rows[i].end);
        CHECKF(bytes_begins(str_bytes(&next.text), str_bytes(&want)), "%s: \"%s\" does not begin with \"%s\"",
               rows[i].name, next.text.p + (p.text.n > 60 ? p.text.n - 60 : 0),
               want.p + (p.text.n > 60 ? p.text.n - 60 : 0));
        chat_answer_drop(&a);
        chat_prompt_drop(&p), chat_prompt_drop(&next);
        str_drop(&want);
        t_chat_end(&x);
    }
}

/* What a reader that watches gives of an answer: content and thinking, each call as "N ID NAME ARGUMENTS", joined from its pieces. */
typedef struct {
    t_chat_parts parts;
    str          id[4], name[4], args[4];
    int          n_calls, n_pieces;
} t_chat_stream;

static void t_chat_pieces(chat_reader *r, t_chat_stream *s) {
    for (chat_piece p; chat_reader_call(r, &p);) {
        if (!CHECK(p.index < 4 && (p.name.n > 0) == (p.index == s->n_calls) && p.index >= s->n_calls - 1)) return;
        s->n_calls = p.index + 1, s->n_pieces++;
        str_cat(&s->id[p.index], p.id), str_cat(&s->name[p.index], p.name), str_cat(&s->args[p.index], p.arguments);
    }
}

static void t_chat_stream_drop(t_chat_stream *s) {
    t_chat_parts_drop(&s->parts);
    for (int i = 0; i < 4; i++) str_drop_all(&s->id[i], &s->name[i], &s->args[i]);
}

static void t_chat_give(chat_reader *r, bytes raw, bool ended, t_chat_stream *s) {
    chat_reader_feed(r, raw, ended, t_chat_take, &s->parts);
    t_chat_pieces(r, s);
}

/* Calls while they are written: the pieces are the answer's calls whatever the cuts, JSON arguments come before their call ends, and an
 * answer that ends inside a call has it, unfinished. */
static void t_chat_watched(void) {
    static const struct { const char *name, *raw, *content, *calls; bool pieces, cut; } rows[] = {
        {"Qwen-Qwen2.5-7B-Instruct", "Well.\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"h\\n{\u00e9\"}}\n</tool_call>",
         "Well.", "look {\"where\": \"h\\n{\u00e9\"};", true, false},
        {"Qwen-Qwen2.5-7B-Instruct", "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"here\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"look\", "
         "\"arguments\": {\"where\": [1, \"}\"]}}\n</tool_call>", "", "look {\"where\": \"here\"};look {\"where\": [1, \"}\"]};", true, false},
        {"Qwen-Qwen2.5-7B-Instruct", "A <b> <tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"the", "A <b> ",
         "look {\"where\": \"the;", true, true},
        {"Qwen-Qwen2.5-7B-Instruct", "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"where\": \"here\"}", "", "look {\"where\": \"here\"};", true, true},
        {"Qwen-Qwen2.5-7B-Instruct", "A <tool_call>\n{\"name\": \"lo", "A <tool_call>\n{\"name\": \"lo", "", false, true},
        {"Qwen-Qwen2.5-7B-Instruct", "No <tool_call is one.", "No <tool_call is one.", "", false, false},
        {"Qwen3-Coder", "I look.\n\n<tool_call>\n<function=look>\n<parameter=where>\nhere\n</parameter>\n</function>\n</tool_call>", "I look.",
         "look {\"where\": \"here\"};", false, false},
        {"openai-gpt-oss-120b", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.look "
         "<|constrain|>json<|message|>{\"where\": \"here\"}", "", "look {\"where\": \"here\"};", true, false},
        {"meta-llama-Llama-3.1-8B-Instruct", "{\"name\": \"look\", \"parameters\": {\"where\": \"here\"}}", "", "look {\"where\": \"here\"};", true, false},
        {"mistralai-Mistral-Nemo-Instruct-2407", "[TOOL_CALLS][{\"name\": \"look\", \"arguments\": {\"where\": \"here\"}, \"id\": \"abcdefgh1\"}]", "",
         "look {\"where\": \"here\"};", false, false},
        {"deepseek-ai-DeepSeek-V3.1", "<\xef\xbd\x9ctool\xe2\x96\x81" "calls\xe2\x96\x81" "begin\xef\xbd\x9c><\xef\xbd\x9ctool\xe2\x96\x81" "call\xe2\x96\x81" "begin\xef\xbd\x9c>look"
         "<\xef\xbd\x9ctool\xe2\x96\x81" "sep\xef\xbd\x9c>{\"where\": \"here\"}<\xef\xbd\x9ctool\xe2\x96\x81" "call\xe2\x96\x81" "end\xef\xbd\x9c>"
         "<\xef\xbd\x9ctool\xe2\x96\x81" "calls\xe2\x96\x81" "end\xef\xbd\x9c>", "", "look {\"where\": \"here\"};", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t_chat_open    x = {0};
        chat_prompt    p;
        constrain_spec hold = {0};
        err_t          e = {0};
        const size_t   n = strlen(rows[i].raw);
        if (!t_chat_begin(&x, rows[i].name, "Where?")) continue;
        CHECKF(chat_make_prompt(x.c, &x.in, &p, &e) && chat_hold(x.c, &x.in, &p, &hold, &e), "%s: %s", rows[i].name, e.text);
        for (size_t cut = 0; cut <= n + 1; cut++) {   /* the last one: at each byte */
            t_chat_stream s = {0};
            chat_answer   a;
            chat_reader  *r = chat_reader_new(&p, val_get(x.in.vars, "tools"));
            str           calls = {0}, want = {0};
            chat_reader_watch(r);
            for (size_t k = cut > n ? 0 : cut; k < (cut > n ? n : cut + 1); k++) t_chat_give(r, (bytes){(const uint8_t *)rows[i].raw, k}, false, &s);
            const int before = s.n_pieces;
            t_chat_give(r, bytes_of(rows[i].raw), true, &s);
            t_chat_give(r, bytes_of(rows[i].raw), true, &s);
            chat_reader_finish(r, &a);
            str_put(&calls, ""), str_put(&want, "");
            for (int k = 0; k < s.n_calls; k++) str_fmt(&calls, "%s %s;", s.name[k].p, s.args[k].p);
            for (size_t k = 0; k < a.calls.n; k++) {
                const calls_call c = a.calls.at[k];
                str_fmt(&want, "%.*s %.*s;", (int)c.name.n, (const char *)c.name.p, (int)c.arguments.n, (const char *)c.arguments.p);
                if (k < (size_t)s.n_calls) EQ_MEM(s.id[k].p, c.id.p, c.id.n);
            }
            EQ_STR(calls.p, rows[i].calls);
            EQ_STR(want.p, rows[i].calls);
            CHECKF(bytes_is(str_bytes(&s.parts.part[CHAT_CONTENT]), rows[i].content) && !strcmp(a.content.p, rows[i].content),
                   "%s, cut at %zu: content \"%s\", given \"%s\"", rows[i].raw, cut, a.content.p,
                   s.parts.part[CHAT_CONTENT].n ? s.parts.part[CHAT_CONTENT].p : "");
            if (cut > n) CHECKF((before > 1) == rows[i].pieces, "%s: %d pieces before the end", rows[i].raw, before);
            str_drop_all(&calls, &want);
            chat_answer_drop(&a);
            t_chat_stream_drop(&s);
        }
        chat_prompt_drop(&p);
        t_chat_end(&x);
    }
}

static const t_case t_chat_cases[] = {
    {"chat_watched", "calls are given while they are written, the same ones whatever the cuts", t_chat_watched},
    {"chat_required", "an answer that has to call begins with the call", t_chat_required},
    {"chat_channels", "parts of an answer in channels", t_chat_channels},
    {"chat_past", "an answer is rendered as it was written", t_chat_past},
    {"chat_learned", "what templates show of themselves", t_chat_learned},
    {"chat_origins", "messages that spell control tokens give none, ordinary ones the ids of their rendering",
     t_chat_origins},
    {"chat_rows", "each way to mark thinking is read back, at every cut", t_chat_rows},
    {"chat_plain", "what is no mark is content, at every cut", t_chat_plain},
    {"chat_input", "what is wrong with messages is named", t_chat_input},
};
static const t_suite t_chat_suite = SUITE(t_chat_cases);
