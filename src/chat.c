/* ===== [chat] messages to tokens, an answer to its parts =====
 * Which chat template a model has; the tokens of a prompt from messages; the text of an answer sorted into
 * content, thinking and calls. What ends an answer and what marks thinking is learned from the template: it
 * renders a few known conversations, and the text around their known contents shows it. Where a rendering does
 * not show the marks of thinking, a row of chat__marks does.
 * Invariants:
 * - Each byte of a rendering is the template's or a message's, and a control token has no byte of a message.
 *   Roles of chat__roles count as the template's.
 * - What a reader gives does not depend on how the text of the answer was cut.
 * - What was learned is kept with the template, from its first prompt on. chat_open() renders nothing.
 * To add a way in which models mark thinking: 1 a row of chat__marks, which counts where the template holds its open or end mark,
 * its first head and `next`; the first such row counts, so one with heads stands before one with the same marks and none; 2 a
 * template in tests/data/templates and its row in t_chat_learned() of tests/t_chat.c, which no test misses. "chat_rows" takes
 * every row. To add a variable that switches thinking: a row of chat__switches.
 * Public: chat_opts, chat_defaults, chat_open, chat_free, chat_think, chat_digest, chat_fingerprint, chat_has_template,
 * chat_input_begin, chat_input_drop, chat_input_json, chat_input_tools, chat_input_check, chat_add, chat_add_answer,
 * chat_render, chat_learn_all, chat_make_prompt, chat_warning, chat_prompt_drop, chat_ask, chat_hold, chat_choice,
 * chat_channel, chat_reader_new, chat_reader_free, chat_reader_watch, chat_reader_feed, chat_reader_call, chat_piece,
 * chat_reader_answer, chat_reader_finish, chat_answer_drop, chat_finish_name, chat_put_function, chat_put_calls.
 * Opens: chat.o, chat_opts, chat_input, chat_prompt, chat_answer, chat_piece. */

typedef struct {
    const char *template_file;                        /* in place of the model's template */
    const char *kwargs;                               /* a JSON object of variables for the template */
    const char *system;                               /* a system message */
    const char *messages;                             /* a file with messages */
    const char *tools;                                /* a file with tools */
    int         on;                                   /* -1: as act__chats() decides; 0 --raw; 1 --chat */
    int         think_words;                          /* bits of --think, in the order of its words */
    int         think;                                /* -1: as the template does; 0 off; 1 on */
    bool        think_show;
    int64_t     think_budget;                         /* tokens; -1: no bound */
} chat_opts;

static const chat_opts chat_defaults = {.on = -1, .think = -1, .think_budget = -1};

enum { CHAT_FILE_MAX = 1 << 30 };                     /* bytes of a file with messages, tools or a template */

/* --- tables --- */

/* Roles of messages that are no text of a user. */
static const char *const chat__roles[] = {
    "system",  "user",          "assistant",   "tool",         "developer", "function", "ipython",
    "model",   "observation",   "tools",       "tool_response", "tool_result", "tool_results", "document",
    "context", "environment",   "platform",    "human",        "gpt",       "chatbot"};

/* What --think off and on set where the template reads it, as JSON; NULL: nothing. */
static const struct {
    const char *name, *off, *on;
} chat__switches[] = {
    {"enable_thinking", "false", "true"},             /* Qwen3, GLM, SmolLM3, DeepSeek V3.1, Gemma 4, Command R7B */
    {"thinking", "false", "true"},                    /* Granite, DeepSeek V3.1, Kimi */
    {"reasoning", "false", "true"},                   /* Command A */
    {"thinking_budget", "0", NULL},                   /* Seed-OSS */
};

/* Values of reasoning_effort, the least first: --think off sets the first that the template has, else the last,
 * which gpt-oss takes. */
static const char *const chat__efforts[] = {"none", "minimal", "low"};

/* Special tokens as variables of a template. */
static const struct {
    const char *name, *key;
} chat__specials[] = {
    {"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"},
};

enum { CHAT_HEADS = 2 };

/* How models mark the parts of an answer. A row counts where the template holds its marks; of several the first
 * does. */
typedef struct {
    const char *open, *end;                           /* around thinking */
    const char *close;                                /* ends thinking and begins content */
    const char *heads[CHAT_HEADS];                    /* may be before content */
    const char *tail;                                 /* ends content; NULL: the answer's end does */
    const char *next;                                 /* is between two parts of an answer; NULL: thinking comes first and once */
} chat__mark;

static const chat__mark chat__marks[] = { /* open, end, close, heads, tail, next */
    {"<|channel|>analysis<|message|>", "<|end|>", "<|end|><|start|>assistant<|channel|>final<|message|>",
     {"<|channel|>final<|message|>", "<|channel|>commentary<|message|>"}, "<|end|>", "<|start|>assistant"}, /* gpt-oss */
    {"<|think|>", "<|end|>", "<|end|><|begin|>assistant<|content|>", {"<|content|>", NULL}, "<|end|>",
     "<|begin|>assistant"}, /* Solar Open */
    {"<think>", "</think>", "</think><response>", {"<response>", NULL}, "</response>", NULL}, /* Granite 3.3 */
    {"<think>", "</think>", "\n</think>\n<answer>\n", {"<answer>", NULL}, "</answer>", NULL}, /* Hunyuan */
    {"<think>", "</think>", "\n</think>\n\n", {NULL, NULL}, NULL, NULL},
    {"<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>", {"<|START_RESPONSE|>", NULL}, NULL,
     NULL}, /* Command */
    {"<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|><|START_TEXT|>", {"<|START_TEXT|>", NULL}, NULL, NULL},
    {"<|channel>thought", "<channel|>", "\n<channel|>", {NULL, NULL}, NULL, NULL}, /* Gemma 4 */
    {"[THINK]", "[/THINK]", "[/THINK]", {NULL, NULL}, NULL, NULL}, /* Magistral */
    {"<seed:think>", "</seed:think>", "</seed:think>", {NULL, NULL}, NULL, NULL},
    {"<|inner_prefix|>", "<|inner_suffix|>", "<|inner_suffix|>", {NULL, NULL}, NULL, NULL}, /* Apertus */
    {"<think:opensource>", "</think:opensource>", "</think:opensource>", {NULL, NULL}, NULL, NULL}, /* Hunyuan 3 */
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", "\n[BEGIN FINAL RESPONSE]\n", {NULL, NULL}, NULL,
     NULL}, /* Apriel */
    {"<thought>", "</thought>", "\n</thought>\n\n", {NULL, NULL}, NULL, NULL},
    {"◁think▷", "◁/think▷", "◁/think▷", {NULL, NULL}, NULL, NULL}, /* Kimi */
};
enum { CHAT_MARKS = sizeof chat__marks / sizeof *chat__marks };

/* --- a template and what was learned of it --- */

typedef struct {
    jinja            *t;                              /* NULL: it does not exist, or e says why it cannot be read */
    err_t             e;
    bytes             source;
    char              name[PATH_MAX + 64];            /* in messages */
    bool              learned;                        /* what follows is known */
    bool              learned_calls;                  /* `calls` is */
    bool              typed;                          /* contents have to be lists of parts */
    bool              hides_tools;                    /* the template prints no tools */
    calls_form       *calls;                          /* NULL: the template writes none, or in no known form */
    const char       *think_key;                      /* of thinking in a message; NULL: the template shows none */
    const chat__mark *mark;                           /* NULL: none of the table */
    str               open;                           /* before thinking */
    str               end;                            /* after it */
    str               close;                          /* ends thinking and begins content, see chat__mark */
    str               lead;                           /* is before content */
    str               stop[2];                        /* texts that end an answer */
    bytes             stops[2];                       /* [n_stops] the same */
    int               n_stops;
    tok_ids           ends, call_ends;                /* end tokens; those of a conversation with tools or calls */
    tok_ids           shown, call_shown;              /* control tokens of the marks; the same */
    tok_ids           closing;                        /* tokens of `close` */
} chat_form;

typedef struct {
    const gguf_file *g;                               /* NULL: no model */
    const tok_vocab *v;                               /* NULL: no tokens are asked for */
    chat_opts        o;
    chat_form       *form[2];                         /* the template; the one for tools, which may be missing */
    str              file;                            /* text of template_file */
} chat;

static void chat__form_free(chat_form *f) {
    if (!f) return;
    jinja_free(f->t);
    calls_form_free(f->calls);
    str_drop_all(&f->open, &f->end, &f->close, &f->lead, &f->stop[0], &f->stop[1]);
    tok_ids *const own[] = {&f->ends, &f->call_ends, &f->shown, &f->call_shown, &f->closing};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) tok_ids_drop(own[i]);
    mem_free(f);
}

/* Frees the templates and what was learned of them; NULL is none. */
static void chat_free(chat *c) {
    if (!c) return;
    for (int i = 0; i < 2; i++) chat__form_free(c->form[i]);
    str_drop(&c->file);
    mem_free(c);
}

static chat_form *chat__form_new(bytes source, const char *file, const char *what) {
    chat_form *f = mem_new(1, sizeof *f);
    f->source = source;
    snprintf(f->name, sizeof f->name, "%s%s%s", file, *what ? ": " : "", what);
    f->t = jinja_parse(source, f->name, &f->e);
    return f;
}

static const char chat__key[] = "tokenizer.chat_template";

/* Whether the file has a template. */
static bool chat_has_template(const gguf_file *g) {
    const gguf_kv *kv = g ? gguf_find(g, chat__key) : NULL;
    return kv && kv->type == GGUF_STR;
}

/* The templates of the model file. */
static bool chat__from_model(chat *c, err_t *e) {
    static const char *const keys[2] = {chat__key, "tokenizer.chat_template.tool_use"};
    for (int i = 0; i < 2; i++) {
        bytes source;
        if (gguf_get_str(c->g, keys[i], &source, e) == 1) c->form[i] = chat__form_new(source, c->g->path, keys[i]);
        if (e->code) return false;
    }
    return c->form[0] ||
           err_set(e, EXIT_INPUT, "%s: no %s, expected one for messages (--chat-template-file FILE gives another)",
                   c->g->path, chat__key);
}

/* The template of o, else the model's. g NULL: there is no model; v NULL: no prompts are made. Both outlive the
 * chat. NULL: e says why. */
static chat *chat_open(const gguf_file *g, const tok_vocab *v, const chat_opts *o, err_t *e) {
    chat *c = mem_new(1, sizeof *c);
    *c = (chat){.g = g, .v = v, .o = *o};
    bool ok = true;
    if (o->template_file) ok = str_read_file(&c->file, o->template_file, 0, CHAT_FILE_MAX, "less", e);
    else if (!g) ok = err_set(e, EXIT_INPUT, "no template given, expected -m FILE or --chat-template-file FILE");
    else ok = chat__from_model(c, e);
    if (ok && o->template_file) c->form[0] = chat__form_new(str_bytes(&c->file), o->template_file, "");
    if (ok && !c->form[0]->t) *e = c->form[0]->e;
    if (!e->code) return c;
    chat_free(c);
    return NULL;
}

/* A word of --think, for a chat that is open. */
static bool chat_think(chat *c, const char *word, err_t *e) {
    if (strcmp(word, "on") == 0 || strcmp(word, "off") == 0) c->o.think = word[1] == 'n';
    else if (strcmp(word, "show") == 0 || strcmp(word, "hide") == 0) c->o.think_show = *word == 's';
    else return err_set(e, EXIT_INPUT, "'%.40s', expected on, off, show or hide", word);
    return true;
}

/* A digest of the templates and what is given to them. */
static digest chat_digest(const chat *c) {
    const bytes texts[] = {c->form[0] ? c->form[0]->source : (bytes){0}, c->form[1] ? c->form[1]->source : (bytes){0},
                           bytes_of(c->o.kwargs ? c->o.kwargs : ""), bytes_of(c->o.system ? c->o.system : "")};
    str         all = {0};
    str_fmt(&all, "%d %lld %d %d", c->o.think, (long long)c->o.think_budget, c->o.kwargs != NULL, c->o.system != NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) str_fmt(&all, " %zu ", texts[i].n), str_cat(&all, texts[i]);
    const digest d = bytes_digest((bytes){0}, str_bytes(&all));
    str_drop(&all);
    return d;
}

/* A hash of the same, as earlier versions wrote it into headers of results. */
static uint64_t chat_fingerprint(const chat *c) {
    uint64_t h = rng_mix((uint64_t)(c->o.think + 1) << 32 ^ (uint64_t)c->o.think_budget);
    for (int i = 0; i < 2; i++) h = rng_mix(h ^ (c->form[i] ? bytes_hash(7, c->form[i]->source) : 0));
    const char *const texts[] = {c->o.kwargs, c->o.system};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        h = rng_mix(h ^ (texts[i] ? bytes_hash(8 + i, bytes_of(texts[i])) : 0));
    return h;
}

/* --- input: variables of a template --- */

typedef enum { CHAT_CALL_AUTO, CHAT_CALL_NONE, CHAT_CALL_REQUIRED } chat_choice;

/* Not to be moved: its values point into it. Its memory has no limit but that of the machine, so that what is
 * added never fails. */
typedef struct {
    val_env     env;
    val         vars;                                 /* a dict; "messages" is a list */
    chat_choice choice;                               /* whether the answer may call tools, or begins with a call */
    bytes       call_name;                            /* of the tool of a required call; empty: any */
    val         allowed;                              /* the tools that may be called, a list; undefined: all of them */
    bool        one_call;                             /* the answer has one call at most */
    bool        continues;                            /* the answer goes on with the text of the last message */
} chat_input;

/* An input without messages; chat_input_drop() frees it. */
static void chat_input_begin(chat_input *in) {
    *in = (chat_input){0};
    val_env_init(&in->env, 0, 0, NULL);
    in->vars = val_dict_new(&in->env);
    val_put(&in->env, in->vars.dict, "messages", val_list_new(&in->env));
}

/* Frees all values of an input. */
static void chat_input_drop(chat_input *in) { val_env_drop(&in->env); }

/* A role as the template's if it is a known one, else as it is. */
static val chat__role(val_env *env, val role) {
    for (size_t i = 0; role.kind == VAL_STR && i < sizeof chat__roles / sizeof *chat__roles; i++)
        if (val_is_str(role, chat__roles[i])) return val_str_of(env, chat__roles[i]);
    return role;
}

/* Adds a message; its content is a person's or a model's. */
static void chat_add(chat_input *in, const char *role, bytes content) {
    val_env *env = &in->env;
    val      m = val_dict_new(env);
    val_put(env, m.dict, "role", chat__role(env, val_text(env, bytes_of(role), true)));
    val_put(env, m.dict, "content", val_text(env, content, true));
    val_list_add(env, val_get(in->vars, "messages").list, m);
}

typedef struct {
    bytes json;
    val   v;
} chat__reading;

static void chat__read_json(val_env *env, void *arg) {
    chat__reading *r = arg;
    r->v = val_json_read(env, r->json, VAL_JSON_INPUT);
}

/* JSON as a value of env. */
static bool chat__json(val_env *env, bytes json, const char *file, val *out, err_t *e) {
    chat__reading r = {.json = bytes_unmarked(json)};
    env->file = file;
    const bool ok = val_run(env, chat__read_json, &r, e);
    env->file = NULL;
    *out = r.v;
    return ok;
}

static bool chat__is_list_of_objects(val v) {
    bool ok = v.kind == VAL_LIST;
    for (size_t i = 0; ok && i < v.list->n; i++) ok = v.list->at[i].kind == VAL_DICT;
    return ok;
}

/* Reads what --render takes: a list of messages, or an object with messages and other variables. Drop the input
 * on an error too. */
static bool chat_input_json(chat_input *in, bytes json, const char *file, err_t *e) {
    val v;
    chat_input_begin(in);
    if (!chat__json(&in->env, json, file, &v, e)) return false;
    if (v.kind == VAL_LIST) val_put(&in->env, in->vars.dict, "messages", v);
    else if (v.kind == VAL_DICT) in->vars = v;
    else return err_set(e, EXIT_INPUT, "%s: found %s, expected a list of messages, or an object with \"messages\"",
                        file, val_kind_name(v));
    const val messages = val_get(in->vars, "messages");
    if (messages.kind == VAL_UNDEF)
        return err_set(e, EXIT_INPUT, "%s: the object has no \"messages\", expected a list of them", file);
    return chat__is_list_of_objects(messages) ||
           err_set(e, EXIT_INPUT, "%s: \"messages\" is no list of objects, expected one", file);
}

/* Reads the tools of --tools: a list, or an object that has one as "tools". */
static bool chat_input_tools(chat_input *in, bytes json, const char *file, err_t *e) {
    val v;
    if (!chat__json(&in->env, json, file, &v, e)) return false;
    if (v.kind == VAL_DICT && val_get(v, "tools").kind == VAL_LIST) v = val_get(v, "tools");
    if (!chat__is_list_of_objects(v))
        return err_set(e, EXIT_INPUT, "%s: found %s, expected a list of tools, which are objects", file, val_kind_name(v));
    val_put(&in->env, in->vars.dict, "tools", v);
    return true;
}

/* A content as one text: parts of type text are joined. */
static bool chat__join_parts(val_env *env, val *content, size_t at, err_t *e) {
    val_buf *b = val_buf_new(env);
    for (size_t i = 0; i < content->list->n; i++) {
        const val  part = content->list->at[i], type = val_get(part, "type"), text = val_get(part, "text");
        const bool plain = part.kind == VAL_STR;
        if (!plain && !val_is_str(type, "text"))
            return err_set(e, EXIT_INPUT, "messages[%zu]: content: part %zu is of type %s, expected text", at, i,
                           type.kind == VAL_STR ? val_quote(type.s).p : val_kind_name(part));
        if (!plain && text.kind != VAL_STR)
            return err_set(e, EXIT_INPUT, "messages[%zu]: content: part %zu of type text has %s as text, expected a text", at, i,
                           val_kind_name(text));
        val_buf_add(env, b, plain ? part.s : text.s);
    }
    *content = val_str_view(val_buf_str(b));
    return true;
}

static bool chat__check_message(val_env *env, val m, size_t at, err_t *e) {
    if (m.kind != VAL_DICT) return err_set(e, EXIT_INPUT, "messages[%zu] is %s, expected an object", at, val_kind_name(m));
    const val role = val_get(m, "role");
    val       content = val_get(m, "content");
    if (role.kind != VAL_STR)
        return err_set(e, EXIT_INPUT, "messages[%zu]: role is %s, expected a text", at,
                       role.kind == VAL_UNDEF ? "missing" : val_kind_name(role));
    val_put(env, m.dict, "role", chat__role(env, role));
    if (content.kind == VAL_LIST) {
        if (!chat__join_parts(env, &content, at, e)) return false;
        val_put(env, m.dict, "content", content);
    }
    return content.kind == VAL_STR || content.kind == VAL_NONE || content.kind == VAL_UNDEF ||
           err_set(e, EXIT_INPUT, "messages[%zu]: content is %s, expected a text or a list of parts", at,
                   val_kind_name(content));
}

/* Checks the messages that a prompt is made of, and joins the parts of their contents. */
static bool chat_input_check(chat_input *in, err_t *e) {
    const val messages = val_get(in->vars, "messages");
    if (messages.kind != VAL_LIST) return err_set(e, EXIT_INPUT, "messages is %s, expected a list", val_kind_name(messages));
    if (!messages.list->n) return err_set(e, EXIT_INPUT, "messages is empty, expected at least one");
    for (size_t i = 0; i < messages.list->n; i++)
        if (!chat__check_message(&in->env, messages.list->at[i], i, e)) return false;
    return true;
}

/* --- rendering --- */

static bool chat__holds(bytes b, const char *what) { return b.n && memmem(b.p, b.n, what, strlen(what)); }

/* JSON of the program's own. */
static val chat__own_json(val_env *env, const char *json) { return val_json_read(env, bytes_of(json), 0); }

/* Sets a variable that is not set. */
static void chat__default(val_env *env, val_dict *vars, const char *name, val v) {
    if (val_get(val_of_dict(vars), name).kind == VAL_UNDEF) val_put(env, vars, name, v);
}

/* The text of token `id` in the file. */
static bool chat__token_text(const gguf_file *g, uint64_t id, bytes *out) {
    const gguf_kv *kv = gguf_find(g, "tokenizer.ggml.tokens");
    if (!kv || kv->type != GGUF_ARR || kv->elem != GGUF_STR || id >= kv->count) return false;
    gguf_strs it = gguf_strs_of(g, kv);
    for (uint64_t i = 0; i <= id; i++)
        if (!gguf_strs_next(&it, out)) return false;
    return true;
}

/* A special token's text; false: the model has none. */
static bool chat__special(const chat *c, const char *name, bytes *out) {
    char     key[64];
    uint64_t id;
    err_t    none = {0};
    if (!c->g) return false;
    if (c->v && strcmp(name, "bos") == 0) return tok_bos(c->v) >= 0 && (*out = tok_text(c->v, tok_bos(c->v))).n;
    if (c->v && strcmp(name, "eos") == 0) return tok_eos(c->v) >= 0 && (*out = tok_text(c->v, tok_eos(c->v))).n;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    return gguf_get_u64(c->g, key, 0, UINT32_MAX, &id, &none) == 1 && chat__token_text(c->g, id, out);
}

/* The special tokens of the model, as the template's own text. A message file may have them too: the same text is
 * then the model's. */
static void chat__add_specials(val_env *env, const chat *c, val_dict *vars) {
    for (size_t i = 0; i < sizeof chat__specials / sizeof *chat__specials; i++) {
        bytes text;
        if (!chat__special(c, chat__specials[i].key, &text)) continue;
        const val own = val_text(env, text, false), given = val_get(val_of_dict(vars), chat__specials[i].name);
        if (given.kind == VAL_UNDEF || (given.kind == VAL_STR && val_str_eq(given.s, own.s)))
            val_put(env, vars, chat__specials[i].name, own);
    }
}

static void chat__add_kwargs(val_env *env, const chat *c, val_dict *vars) {
    if (!c->o.kwargs) return;
    env->file = "--chat-template-kwargs";
    const val more = val_json_read(env, bytes_of(c->o.kwargs), VAL_JSON_INPUT);
    if (more.kind != VAL_DICT) val_fail(env, EXIT_INPUT, "found %s, expected an object", val_kind_name(more));
    env->file = NULL;
    for (size_t i = 0; i < more.dict->n; i++) {
        bool      found;
        const val_pair *p = &more.dict->at[i];
        val_dict_get(vars, p->key, &found);
        if (!found) val_dict_set(env, vars, p->key, p->value);
    }
}

/* Whether the template has this short word as a string of its code. */
static bool chat__quotes(const chat_form *f, const char *word) {
    char quoted[2][16];
    snprintf(quoted[0], sizeof *quoted, "'%s'", word);
    snprintf(quoted[1], sizeof *quoted, "\"%s\"", word);
    return chat__holds(f->source, quoted[0]) || chat__holds(f->source, quoted[1]);
}

/* The least effort that the template names. */
static const char *chat__least_effort(const chat_form *f) {
    enum { N = sizeof chat__efforts / sizeof *chat__efforts };
    int i = 0;
    while (i < N - 1 && !chat__quotes(f, chat__efforts[i])) i++;
    return chat__efforts[i];
}

static void chat__add_switches(val_env *env, const chat *c, const chat_form *f, val_dict *vars) {
    if (c->o.think < 0) return;
    for (size_t i = 0; i < sizeof chat__switches / sizeof *chat__switches; i++) {
        const char *to = c->o.think ? chat__switches[i].on : chat__switches[i].off;
        if (to) chat__default(env, vars, chat__switches[i].name, chat__own_json(env, to));
    }
    if (!c->o.think) chat__default(env, vars, "reasoning_effort", val_str_of(env, chat__least_effort(f)));
}

/* One rendering: a template, its variables, the function that makes them. */
typedef struct chat__job {
    const chat       *c;
    const chat_form  *f;
    const chat_input *in;
    void (*fill)(val_env *env, const struct chat__job *j, val_dict *vars);
    const void       *arg;
    val               vars;
} chat__job;

static void chat__vars(val_env *env, void *arg) {
    chat__job *j = arg;
    j->vars = val_dict_new(env);
    j->fill(env, j, j->vars.dict);
    chat__add_specials(env, j->c, j->vars.dict);
    chat__add_kwargs(env, j->c, j->vars.dict);
    chat__add_switches(env, j->c, j->f, j->vars.dict);
}

static bool chat__run_template(chat__job *j, jinja_text *out, err_t *e) {
    val_env env;
    if (!j->f->t) return *e = j->f->e, false;
    val_env_init(&env, 0, 0, NULL);
    const bool ok = val_run(&env, chat__vars, j, e) && jinja_render(j->f->t, j->vars, out, e);
    val_env_drop(&env);
    return ok;
}

/* The tools that an answer may call; undefined: none. */
static val chat__tools(const chat_input *in) {
    const val tools = val_get(in->vars, "tools");
    return tools.kind == VAL_LIST && tools.list->n && in->choice != CHAT_CALL_NONE ? tools : val_undef("tools");
}

/* The template for an input. */
static chat_form *chat__form(const chat *c, const chat_input *in) {
    return c->form[chat__tools(in).kind == VAL_LIST && c->form[1]];
}

/* Sets all that `from` has. */
static void chat__put_all(val_env *env, val_dict *to, const val_dict *from) {
    for (size_t i = 0; i < from->n; i++)
        if (!from->at[i].gone) val_dict_set(env, to, from->at[i].key, from->at[i].value);
}

static void chat__fill_given(val_env *env, const chat__job *j, val_dict *vars) { chat__put_all(env, vars, j->arg); }

/* The text of an input as it stands, with the variables that it lacks: bos_token, eos_token and others of the
 * model, and those of the options. */
static bool chat_render(const chat *c, const chat_input *in, jinja_text *out, err_t *e) {
    chat__job j = {.c = c, .f = chat__form(c, in), .in = in, .fill = chat__fill_given, .arg = in->vars.dict};
    return chat__run_template(&j, out, e);
}

/* --- learning from known conversations --- */

/* Contents that no template writes. */
static const char chat__asked[] = "Qk3asked", chat__said[] = "Qk3said", chat__more[] = "Qk3more",
    chat__thought[] = "Qk3thought";
static const char chat__result[] = "Qk3result";
static const char chat__tool[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"qk3name\",\"description\":\"qk3about\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"qk3key\":{\"type\":\"string\"}},\"required\":[\"qk3key\"]}}}]";
static const char chat__value[] = "Qk3value", chat__arguments[] = "{\"qk3key\": \"Qk3value\"}";

typedef struct {
    const char *role, *content, *thinking;            /* thinking NULL: none */
    int         calls;                                /* it has so many calls of the same tool */
} chat__turn;

typedef struct {
    const chat__turn *turn;
    int               n;
    bool              prompt, typed, tools;
    bool              text_args;                      /* arguments of calls are JSON texts, else objects */
    const char       *think_key;
} chat__known;

/* A content, as a list of one part where the template takes no other. */
static val chat__content(val_env *env, val text, bool typed) {
    val part, list;
    if (!typed) return text;
    part = val_dict_new(env);
    list = val_list_new(env);
    val_put(env, part.dict, "type", val_str_of(env, "text"));
    val_put(env, part.dict, "text", text);
    val_list_add(env, list.list, part);
    return list;
}

/* Sets the content of a message that has calls and no text. */
static void chat__put_no_content(val_env *env, const chat_form *f, val_dict *m) {
    const char *json = f->calls ? calls_no_content(f->calls) : "\"\"";
    if (strcmp(json, "\"\"") == 0) val_put(env, m, "content", chat__content(env, val_str_of(env, ""), f->typed));
    else if (*json) val_put(env, m, "content", chat__own_json(env, json));
    else val_dict_del(m, val_str_of(env, "content"));
}

static val chat__known_calls(val_env *env, const chat__known *k, int n) {
    const val list = val_list_new(env);
    for (int i = 0; i < n; i++) {
        const val call = chat__own_json(env, i ? "{\"id\":\"call00001\",\"type\":\"function\"}"
                                               : "{\"id\":\"call00000\",\"type\":\"function\"}"),
                  function = chat__own_json(env, "{\"name\":\"qk3name\"}");
        val_put(env, function.dict, "arguments",
                k->text_args ? val_str_of(env, chat__arguments) : chat__own_json(env, chat__arguments));
        val_put(env, call.dict, "function", function);
        val_list_add(env, list.list, call);
    }
    return list;
}

static void chat__fill_known(val_env *env, const chat__job *j, val_dict *vars) {
    const chat__known *k = j->arg;
    const val          messages = val_list_new(env);
    for (int i = 0; i < k->n; i++) {
        const val m = val_dict_new(env);
        val_put(env, m.dict, "role", val_str_of(env, k->turn[i].role));
        val_put(env, m.dict, "content", chat__content(env, val_str_of(env, k->turn[i].content), k->typed));
        if (k->turn[i].calls) chat__put_no_content(env, j->f, m.dict);
        if (k->turn[i].thinking) val_put(env, m.dict, k->think_key, val_str_of(env, k->turn[i].thinking));
        if (k->turn[i].calls) val_put(env, m.dict, "tool_calls", chat__known_calls(env, k, k->turn[i].calls));
        if (k->turn[i].content == chat__result) {
            val_put(env, m.dict, "tool_call_id", val_str_of(env, "call00000"));
            val_put(env, m.dict, "name", val_str_of(env, "qk3name"));
        }
        val_list_add(env, messages.list, m);
    }
    if (k->tools) val_put(env, vars, "tools", chat__own_json(env, chat__tool));
    if (k->tools && j->f->calls) val_put(env, vars, calls_tools_name(j->f->calls), chat__own_json(env, chat__tool));
    val_put(env, vars, "messages", messages);
    val_put(env, vars, "add_generation_prompt", val_bool(k->prompt));
}

/* What the learner works on. e is set where a limit is spent; a template that refuses a conversation is no error. */
typedef struct {
    const chat *c;
    chat_form  *f;
    err_t      *e;
    long long   steps;
    str         prompt;                               /* a question and what begins an answer */
    str         last;                                 /* the same with an answer */
    str         past;                                 /* with one more question */
} chat__learner;

enum {
    CHAT_LEARN_STEPS = 2000000,                       /* of all renderings of a learner; templates of models take some 50,000 */
    CHAT_LEARN_BYTES = 1 << 20,                       /* of one rendering */
};

/* Counts what a rendering took, which ended with e. False: a limit is spent. */
static bool chat__count(chat__learner *l, const jinja_text *text, const err_t *e) {
    if (e->code == EXIT_RESOURCE && !l->e->code) *l->e = *e;
    if ((l->steps += text->steps) > CHAT_LEARN_STEPS)
        err_set(l->e, EXIT_RESOURCE, "%s: conversations of a few words take more than %d steps, expected less",
                l->f->name, CHAT_LEARN_STEPS);
    if (text->text.n > CHAT_LEARN_BYTES)
        err_set(l->e, EXIT_RESOURCE, "%s: a conversation of a few words becomes %zu bytes, expected at most %d",
                l->f->name, text->text.n, CHAT_LEARN_BYTES);
    return !l->e->code;
}

/* Renders a known conversation. False: the template refuses it. */
static bool chat__try_known(chat__learner *l, const chat__known *k, str *out) {
    chat__job  j = {.c = l->c, .f = l->f, .fill = chat__fill_known, .arg = k};
    jinja_text text = {0};
    err_t      e = {0};
    str_clear(out);
    bool       ok = !l->e->code && chat__run_template(&j, &text, &e);
    ok = chat__count(l, &text, &e) && ok;
    if (ok) str_add(out, text.text.p, text.text.n);
    jinja_text_drop(&text);
    return ok;
}

/* The same without tools. */
static bool chat__try(chat__learner *l, const chat__turn *turn, int n, bool prompt, const char *think_key, str *out) {
    const chat__known k = {.turn = turn, .n = n, .prompt = prompt, .typed = l->f->typed, .think_key = think_key};
    return chat__try_known(l, &k, out);
}

/* Where the last `what` is in s, s->n: nowhere. */
static size_t chat__last(const str *s, const char *what) {
    const size_t n = strlen(what);
    for (size_t i = s->n >= n ? s->n - n + 1 : 0; i > 0; i--)
        if (memcmp(s->p + i - 1, what, n) == 0) return i - 1;
    return s->n;
}

static bytes chat__trim_start(bytes b) {
    while (b.n && isspace(b.p[0])) b.p++, b.n--;
    return b;
}

static bytes chat__trim_end(bytes b) {
    while (b.n && isspace(b.p[b.n - 1])) b.n--;
    return b;
}

static bytes chat__trim(bytes b) { return chat__trim_start(chat__trim_end(b)); }

static bytes chat__range(const str *s, size_t from, size_t to) {
    return (bytes){(const uint8_t *)s->p + from, to > from ? to - from : 0};
}

/* The control tokens of a text, in its order; with `first` the one before any other text, if there is one. */
static void chat__controls(const tok_vocab *v, bytes text, bool first, const tok_ids *but, tok_ids *out) {
    tok_ids ids = {0};
    err_t   none = {0};
    if (v && text.n) tok_encode(v, text, TOK_SPECIAL | TOK_MIDDLE, &ids, &none);
    for (size_t i = 0; i < ids.n; i++) {
        const bool control = tok_is_control(v, ids.id[i]);
        if (control && !tok_ids_has(but, ids.id[i]) && !tok_ids_has(out, ids.id[i])) tok_ids_add(out, ids.id[i]);
        if (first && (control || chat__trim(tok_piece(v, ids.id[i])).n)) break;
    }
    tok_ids_drop(&ids);
}

/* Whether contents have to be lists of parts: those that are texts do not show. */
static void chat__learn_contents(chat__learner *l) {
    const chat__turn turn = {"user", chat__asked, NULL, 0};
    for (int typed = 0; typed < 2; typed++) {
        l->f->typed = typed;
        if (chat__try(l, &turn, 1, true, NULL, &l->prompt) && chat__last(&l->prompt, chat__asked) < l->prompt.n) return;
    }
    l->f->typed = false;
    chat__try(l, &turn, 1, true, NULL, &l->prompt);
}

/* Whether the template has the marks of a row. */
static bool chat__has_mark(const chat__learner *l, const chat__mark *m) {
    const bytes t = l->f->source;
    return (chat__holds(t, m->open) || chat__holds(t, m->end)) && (!m->heads[0] || chat__holds(t, m->heads[0])) &&
           (!m->next || chat__holds(t, m->next));
}

/* Whether a text is one token. */
static bool chat__is_token(const tok_vocab *v, const char *text) {
    tok_ids ids = {0};
    err_t   none = {0};
    const bool is = v && tok_encode(v, bytes_of(text), TOK_SPECIAL | TOK_MIDDLE, &ids, &none) && ids.n == 1;
    tok_ids_drop(&ids);
    return is;
}

/* The row whose marks the template has, or else the vocabulary as tokens; NULL: none. */
static const chat__mark *chat__find_mark(const chat__learner *l) {
    for (int i = 0; i < CHAT_MARKS; i++)
        if (chat__has_mark(l, &chat__marks[i])) return &chat__marks[i];
    for (int i = 0; i < CHAT_MARKS; i++)
        if (!chat__marks[i].heads[0] && chat__is_token(l->c->v, chat__marks[i].open) &&
            chat__is_token(l->c->v, chat__marks[i].end))
            return &chat__marks[i];
    return NULL;
}

/* A message with thinking, rendered: what is before and after it. False: the template does not show it. */
static bool chat__show_thinking(chat__learner *l, str *text, size_t *at, size_t *to) {
    static const char *const keys[] = {"reasoning_content", "reasoning", "thinking"};
    const chat__turn         turn[] = {{"user", chat__asked, NULL, 0}, {"assistant", chat__said, chat__thought, 0}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!chat__try(l, turn, 2, false, keys[i], text)) continue;
        *at = chat__last(text, chat__thought);
        *to = chat__last(text, chat__said);
        if (*at < *to && *to < text->n) return l->f->think_key = keys[i], true;
    }
    return false;
}

/* The tag that ends a text: <...> or [...]; empty: another text does. */
static bytes chat__last_tag(bytes b) {
    const uint8_t open = !b.n ? 0 : b.p[b.n - 1] == '>' ? '<' : b.p[b.n - 1] == ']' ? '[' : 0;
    const uint8_t *p = open ? memrchr(b.p, open, b.n) : NULL;
    return p ? (bytes){p, (size_t)(b.p + b.n - p)} : (bytes){0};
}

/* The marks that the template itself writes, where no row has them. */
static void chat__learn_marks(chat__learner *l, const str *text, size_t at, size_t to) {
    const bytes before = chat__range(text, 0, at), close = chat__range(text, at + strlen(chat__thought), to);
    const bytes prompt = str_bytes(&l->prompt);
    bytes       open = {0}, end = chat__trim(close);
    if (bytes_begins(before, prompt)) open = chat__trim((bytes){before.p + prompt.n, before.n - prompt.n});
    if (!open.n) open = chat__last_tag(chat__trim_end(before));
    if (!open.n || !end.n || open.n > GEN_MARK || end.n > GEN_MARK) return;
    str_set(&l->f->open, open);
    str_set(&l->f->end, end);
    str_set(&l->f->close, close);
}

/* How thinking is marked. */
static void chat__learn_thinking(chat__learner *l) {
    chat_form *f = l->f;
    str        text = {0};
    size_t     at = 0, to = 0;
    const bool shown = chat__show_thinking(l, &text, &at, &to);
    f->mark = chat__find_mark(l);
    if (shown && f->mark) {                           /* a row has to agree with the rendering */
        if (!bytes_begins(chat__trim_start(chat__range(&text, at + strlen(chat__thought), to)),
                          bytes_of(f->mark->end))) f->mark = NULL;
        else str_set(&f->close, chat__range(&text, at + strlen(chat__thought), to));
    }
    if (f->mark) {
        str_set(&f->open, bytes_of(f->mark->open));
        str_set(&f->end, bytes_of(f->mark->end));
        if (!f->close.n) str_set(&f->close, bytes_of(f->mark->close));
    } else if (shown) chat__learn_marks(l, &text, at, to);
    str_drop(&text);
}

/* What is between the beginning of an answer and its content, thinking left out. */
static void chat__learn_lead(chat__learner *l) {
    const str *const texts[] = {&l->past, &l->last};
    const bytes      open = str_bytes(&l->f->open), end = str_bytes(&l->f->end);
    bytes            begin = chat__trim_end(str_bytes(&l->prompt));
    if (open.n && bytes_ends(begin, open)) begin.n -= open.n;
    else begin = str_bytes(&l->prompt);
    for (size_t i = 0; i < 2; i++) {
        const bytes before = chat__range(texts[i], 0, chat__last(texts[i], chat__said));
        if (before.n == texts[i]->n || !bytes_begins(before, begin)) continue;
        bytes lead = {before.p + begin.n, before.n - begin.n};
        for (const uint8_t *p; end.n && (p = memmem(lead.p, lead.n, end.p, end.n));)
            lead.n -= (size_t)(p + end.n - lead.p), lead.p = p + end.n;
        str_set(&l->f->lead, lead);
        return;
    }
}

/* The control tokens of the marks, which are part of an answer's text. */
static void chat__learn_shown(chat__learner *l) {
    chat_form        *f = l->f;
    const chat__mark *m = f->mark;
    const bytes       own[] = {str_bytes(&f->open), str_bytes(&f->end), str_bytes(&f->close), str_bytes(&f->lead)};
    const char *const rows[] = {m ? m->heads[0] : NULL, m ? m->heads[1] : NULL, m ? m->tail : NULL, m ? m->next : NULL};
    for (size_t i = 0; i < 4; i++) {
        chat__controls(l->c->v, own[i], false, NULL, &f->shown);
        if (rows[i]) chat__controls(l->c->v, bytes_of(rows[i]), false, NULL, &f->shown);
    }
}

/* What the template puts after an answer. Control tokens become end tokens; a text without them ends the answer
 * as a text. */
static void chat__learn_ends(chat__learner *l) {
    chat_form   *f = l->f;
    const size_t said = strlen(chat__said), last = chat__last(&l->last, chat__said), past = chat__last(&l->past, chat__said);
    const bytes  after[2] = {last < l->last.n ? chat__range(&l->last, last + said, l->last.n) : (bytes){0},
                              past < l->past.n ? chat__range(&l->past, past + said,
                                                             chat__last(&l->past, chat__more)) : (bytes){0}};
    chat__controls(l->c->v, after[0], false, &f->shown, &f->ends);
    chat__controls(l->c->v, after[1], true, &f->shown, &f->ends);
    for (int i = 0; i < 2 && !f->ends.n; i++) {
        const bytes text = chat__trim_end(after[i]);
        if (!text.n || (f->n_stops && memmem(text.p, text.n, f->stops[0].p, f->stops[0].n))) continue;
        str_set(&f->stop[f->n_stops], text);
        f->stops[f->n_stops] = str_bytes(&f->stop[f->n_stops]);
        f->n_stops++;
    }
}

/* --- learning from known calls --- */

/* A question, an answer with n calls, and a result where `result` is set. */
static bool chat__try_calls(chat__learner *l, int n, bool result, str *out) {
    const chat__turn  turn[] = {{"user", chat__asked, NULL, 0}, {"assistant", "", NULL, n}, {"tool", chat__result, NULL, 0}};
    const chat__known k = {.turn = turn, .n = result ? 3 : 2, .typed = l->f->typed, .tools = true,
                           .text_args = calls_text_arguments(l->f->calls)};
    return chat__try_known(l, &k, out) && chat__last(out, chat__value) < out->n;
}

/* What ends an answer with calls. Tokens between two calls are not its end. */
static void chat__learn_call_ends(chat__learner *l) {
    chat_form   *f = l->f;
    const size_t n_value = strlen(chat__value);
    str          text = {0};
    tok_ids      inside = {0};
    for (size_t i = 0; i < f->call_shown.n; i++) tok_ids_add(&inside, f->call_shown.id[i]);
    if (chat__try_calls(l, 2, false, &text)) {
        const size_t last = chat__last(&text, chat__value);
        str          before = {0};
        str_add(&before, text.p, last);
        const size_t first = chat__last(&before, chat__value);
        if (first < last) chat__controls(l->c->v, chat__range(&text, first + n_value, last), false, NULL, &inside);
        str_drop(&before);
    }
    if (chat__try_calls(l, 1, true, &text)) {
        const size_t at = chat__last(&text, chat__value) + n_value, to = chat__last(&text, chat__result);
        tok_ids      all = {0};
        if (to < text.n && to > at) chat__controls(l->c->v, chat__range(&text, at, to), false, &inside, &all);
        if (all.n && !tok_ids_has(&f->call_ends, all.id[0])) tok_ids_add(&f->call_ends, all.id[0]);
        tok_ids_drop(&all);
    }
    tok_ids_drop(&inside);
    str_drop(&text);
}

/* The control tokens that calls are written with are part of an answer's text. */
static void chat__learn_call_marks(chat__learner *l) {
    static const chat__turn turn = {"user", chat__asked, NULL, 0};
    str                     text = {0};
    tok_ids                 but = {0};
    for (size_t i = 0; i < l->f->call_ends.n; i++) tok_ids_add(&but, l->f->call_ends.id[i]);
    calls_marks(l->f->calls, &text);
    chat__controls(l->c->v, str_bytes(&text), false, &but, &l->f->call_shown);
    if (chat__try(l, &turn, 1, true, NULL, &text))
        chat__controls(l->c->v, str_bytes(&text), false, NULL, &but);   /* these begin turns */
    if (chat__try_calls(l, 2, false, &text) || chat__try_calls(l, 1, false, &text)) {
        const size_t asked = chat__last(&text, chat__asked);
        chat__controls(l->c->v, chat__range(&text, asked < text.n ? asked : 0, text.n), false, &but, &l->f->call_shown);
    }
    tok_ids_drop(&but);
    str_drop(&text);
}

/* Renders a conversation of [calls]. */
static bool chat__render_given(void *ctx, val vars, jinja_text *out, err_t *e) {
    chat__learner *l = ctx;
    chat__job      j = {.c = l->c, .f = l->f, .fill = chat__fill_given, .arg = vars.dict};
    const bool     ok = !l->e->code && chat__run_template(&j, out, e);
    return chat__count(l, out, e) && ok;
}

/* Whether the template prints tools: a question with them becomes another text. */
static void chat__learn_tools(chat__learner *l) {
    static const chat__turn turn = {"user", chat__asked, NULL, 0};
    chat__known             k = {.turn = &turn, .n = 1, .prompt = true, .typed = l->f->typed, .tools = true};
    str                     with = {0}, without = {0};
    l->f->hides_tools = chat__try_known(l, &k, &with) && (k.tools = false, chat__try_known(l, &k, &without)) &&
                        bytes_eq(str_bytes(&with), str_bytes(&without));
    str_drop_all(&with, &without);
}

/* Learns what conversations with tools need beside. */
static void chat__learn_calls(chat__learner *l) {
    chat_form *f = l->f;
    f->calls = calls_learn(chat__render_given, l);
    chat__learn_tools(l);
    for (size_t i = 0; i < f->ends.n; i++) tok_ids_add(&f->call_ends, f->ends.id[i]);
    for (size_t i = 0; i < f->shown.n; i++) tok_ids_add(&f->call_shown, f->shown.id[i]);
    if (l->f->calls) chat__learn_call_ends(l);
    if (l->f->calls) chat__learn_call_marks(l);
    l->f->learned_calls = !l->e->code;
}

/* What was learned, for -v. */
static void chat__describe(const chat__learner *l) {
    const chat_form *f = l->f;
    const tok_ids   *ends = f->learned_calls ? &f->call_ends : &f->ends, *shown = f->learned_calls ? &f->call_shown : &f->shown;
    str              s = {0};
    if (g_log_level < LOG_VERBOSE) return;
    str_put(&s, "an answer ends at");
    for (size_t i = 0; i < ends->n; i++) str_put(&s, " "), str_json(&s, tok_text(l->c->v, ends->id[i]));
    for (int i = 0; i < f->n_stops; i++) str_put(&s, " "), str_json(&s, f->stops[i]);
    if (!ends->n && !f->n_stops) str_put(&s, " the end tokens of the vocabulary");
    if (f->lead.n) str_put(&s, ", begins with "), str_json(&s, str_bytes(&f->lead));
    if (f->open.n)
        str_put(&s, ", thinking is between "), str_json(&s, str_bytes(&f->open)), str_put(&s, " and "),
            str_json(&s, str_bytes(&f->end));
    if (f->think_key) str_fmt(&s, " and is read from %s", f->think_key);
    if (f->typed) str_put(&s, ", contents are lists of parts");
    if (f->calls) str_fmt(&s, ", calls are of the form %s", calls_form_name(f->calls));
    else if (f->learned_calls) str_put(&s, ", calls are of no known form");
    for (size_t i = 0; i < shown->n; i++) str_put(&s, i ? " " : ", shown "), str_json(&s, tok_text(l->c->v, shown->id[i]));
    log_info("template    %s", s.p);
    str_drop(&s);
}

/* Learns what all prompts and answers need. */
static void chat__learn_plain(chat__learner *l) {
    static const chat__turn turn[] = {{"user", chat__asked, NULL, 0}, {"assistant", chat__said, NULL, 0},
                                      {"user", chat__more, NULL, 0}};
    err_t                   none = {0};
    str_put(&l->prompt, ""), str_put(&l->last, ""), str_put(&l->past, "");
    chat__learn_contents(l);
    chat__try(l, turn, 2, false, NULL, &l->last);
    chat__try(l, turn, 3, false, NULL, &l->past);
    chat__learn_thinking(l);
    chat__learn_lead(l);
    chat__learn_shown(l);
    chat__learn_ends(l);
    if (l->f->close.n && l->c->v)
        tok_encode(l->c->v, str_bytes(&l->f->close), TOK_SPECIAL | TOK_MIDDLE, &l->f->closing, &none);
    l->f->learned = !l->e->code;
    str_drop_all(&l->prompt, &l->last, &l->past);
}

/* Learns what is not known yet. calls: the conversation has tools or calls. False: a limit of templates is spent. */
static bool chat__learn(const chat *c, chat_form *f, bool calls, err_t *e) {
    chat__learner l = {.c = c, .f = f, .e = e};
    const bool    all = f->learned && (f->learned_calls || !calls);
    if (!f->t) return *e = f->e, false;
    if (!f->learned) chat__learn_plain(&l);
    if (calls && !f->learned_calls && !e->code) chat__learn_calls(&l);
    if (!all && !e->code) chat__describe(&l);
    return !e->code;
}

/* Learns all that any conversation needs, so that threads which read answers meet no change. What cannot be learned is an error
 * of the prompts that need it. */
static void chat_learn_all(const chat *c) {
    for (int i = 0; i < 2; i++) {
        err_t none = {0};
        if (c->form[i]) chat__learn(c, c->form[i], true, &none);
    }
}

/* --- prompts --- */

typedef struct {
    tok_ids          ids;
    str              text;                            /* what was rendered */
    str              begin;                           /* its end, where that begins an answer that has to call */
    bool             thinking;                        /* it ends inside the thinking of the answer */
    bool             thought;                         /* it ends after that thinking */
    bool             hides_tools;                     /* it has tools, and the template does not print them */
    bool             calls;                           /* the conversation has tools or calls */
    bool             continues;                       /* it ends inside the text of the last message */
    const chat_form *form;
    bytes           *stops;                           /* owned: of the request that chat_ask() completed */
    calls_want       want;                            /* what chat_hold() asked for, */
    bool            *loose;                           /* owned: of `want`; NULL: all schemas are kept, */
    int              n_eased;                         /* how often less was asked for; */
    uint64_t         salt;                            /* of the ids of calls; it depends on the text */
    const tok_vocab *v;                               /* its vocabulary, */
    str              key;                             /* and all that it depends on */
} chat_prompt;

/* Frees what a prompt owns. */
static void chat_prompt_drop(chat_prompt *p) {
    tok_ids_drop(&p->ids);
    str_drop_all(&p->text, &p->begin, &p->key);
    mem_free_all(p->stops, p->loose);
    *p = (chat_prompt){0};
}

/* The id of a call of the older form, which has none. Mistral's templates take ids of nine letters and digits alone. */
static const char chat__function_id[] = "call00000";

/* A dict with the same entries. */
static val chat__copy(val_env *env, val dict) {
    const val copy = val_dict_new(env);
    chat__put_all(env, copy.dict, dict.dict);
    return copy;
}

typedef struct {
    val_str json;
    val     v;
} chat__arguments_job;

static void chat__parse_arguments(val_env *env, void *arg) {
    chat__arguments_job *j = arg;
    j->v = val_json_parse(env, j->json);
}

/* Arguments of a call as the template takes them: as a JSON text, or as an object. What is no JSON stays as it is. */
static val chat__fit_arguments(val_env *env, const chat_form *f, val v) {
    err_t none = {0};
    if (calls_text_arguments(f->calls) && v.kind == VAL_DICT) {
        val_buf *b = val_buf_new(env);
        val_json_write(env, b, v, NULL);
        return val_str_view(val_buf_str(b));
    }
    if (calls_text_arguments(f->calls) || v.kind != VAL_STR) return v;
    chat__arguments_job j = {.json = v.s};
    return val_run(env, chat__parse_arguments, &j, &none) && j.v.kind == VAL_DICT ? j.v : v;
}

/* The calls of a message: copies with such arguments. */
static val chat__fit_calls(val_env *env, const chat_form *f, val calls) {
    const val list = val_list_new(env);
    for (size_t i = 0; i < calls.list->n; i++) {
        val       call = calls.list->at[i], function = val_get(call, "function");
        const val arguments = val_get(function, "arguments");
        if (arguments.kind == VAL_STR || arguments.kind == VAL_DICT) {
            call = chat__copy(env, call);
            function = chat__copy(env, function);
            val_put(env, function.dict, "arguments", chat__fit_arguments(env, f, arguments));
            val_put(env, call.dict, "function", function);
        }
        val_list_add(env, list.list, call);
    }
    return list;
}

/* A call of the older form, as the list of calls that templates know. Its id is one that all of them take. */
static val chat__call_of_function(val_env *env, val function) {
    const val list = val_list_new(env), call = val_dict_new(env);
    val_put(env, call.dict, "id", val_str_of(env, chat__function_id));
    val_put(env, call.dict, "type", val_str_of(env, "function"));
    val_put(env, call.dict, "function", function);
    val_list_add(env, list.list, call);
    return list;
}

/* A role as the template knows it: developer is system where the template does not name it. */
static val chat__fit_role(val_env *env, const chat_form *f, val role) {
    if (val_is_str(role, "developer") && !chat__quotes(f, "developer")) return val_str_of(env, "system");
    return role;
}

/* A message as the template needs it; its content is a text, null or missing. The last two are the empty text, since
 * many templates would write None, or what the template takes beside calls. */
static val chat__fit_message(val_env *env, const chat_form *f, val m) {
    static const char own[] = "reasoning_content";
    const val copy = chat__copy(env, m), thought = val_get(m, own), function = val_get(m, "function_call");
    val       content = val_get(m, "content"), calls = val_get(m, "tool_calls");
    if (content.kind != VAL_STR) content = val_str_of(env, "");
    val_put(env, copy.dict, "role", chat__fit_role(env, f, val_get(m, "role")));
    val_put(env, copy.dict, "content", chat__content(env, content, f->typed));
    if (f->think_key && strcmp(f->think_key, own) != 0 && thought.kind == VAL_STR && val_get(m, f->think_key).kind == VAL_UNDEF)
        val_put(env, copy.dict, f->think_key, thought);
    if (f->calls && calls.kind != VAL_LIST && function.kind == VAL_DICT) {
        calls = chat__call_of_function(env, function);
        val_dict_del(copy.dict, val_str_of(env, "function_call"));
    }
    if (f->calls && calls.kind == VAL_LIST && calls.list->n) {
        val_put(env, copy.dict, "tool_calls", chat__fit_calls(env, f, calls));
        if (!content.s.n) chat__put_no_content(env, f, copy.dict);
    }
    if (val_is_str(val_get(m, "role"), "function")) {  /* what gives back the result of a call of the older form */
        val_put(env, copy.dict, "role", val_str_of(env, "tool"));
        chat__default(env, copy.dict, "tool_call_id", val_str_of(env, chat__function_id));
    }
    return copy;
}

/* The system message of the options, where the messages begin without one; NULL: none is needed. */
static const char *chat__own_system(const chat *c, val messages) {
    const val role = messages.list->n ? val_get(messages.list->at[0], "role") : val_none();
    return val_is_str(role, "system") || val_is_str(role, "developer") ? NULL : c->o.system;
}

static void chat__fill_prompt(val_env *env, const chat__job *j, val_dict *vars) {
    const val   given = val_get(j->in->vars, "messages"), messages = val_list_new(env);
    const char *system = chat__own_system(j->c, given);
    chat__put_all(env, vars, j->in->vars.dict);
    if (system) {
        const val m = val_dict_new(env);
        val_put(env, m.dict, "role", val_str_of(env, "system"));
        val_put(env, m.dict, "content", chat__content(env, val_text(env, bytes_of(system), true), j->f->typed));
        val_list_add(env, messages.list, m);
    }
    for (size_t i = 0; i < given.list->n; i++)
        val_list_add(env, messages.list, chat__fit_message(env, j->f, given.list->at[i]));
    val_put(env, vars, "messages", messages);
    chat__default(env, vars, "add_generation_prompt", val_bool(!j->in->continues));
    if (j->in->choice == CHAT_CALL_NONE) val_dict_del(vars, val_str_of(env, "tools"));
    else if (j->f->calls && chat__tools(j->in).kind == VAL_LIST)
        chat__default(env, vars, calls_tools_name(j->f->calls), chat__tools(j->in));
}

/* The tokens of a rendering, with one start token where the model needs it. */
static bool chat__tokens(const tok_vocab *v, const jinja_text *text, tok_ids *out, err_t *e) {
    tok_span *span = mem_new(text->from.n, sizeof *span);
    size_t    n = 0, at = 0, twice = 0;
    for (size_t i = 0; i < text->from.n; at = text->from.at[i++].end)
        if (text->from.at[i].input && text->from.at[i].end > at) span[n++] = (tok_span){at, text->from.at[i].end};
    const unsigned begin = tok_add_bos(v) || !text->text.n ? TOK_BOS : 0;
    const bool     ok = tok_encode_spans(v, str_bytes(&text->text), span, n, TOK_SPECIAL | begin, out, e);
    while (ok && tok_bos(v) >= 0 && out->n > twice + 1 && out->id[twice] == tok_bos(v) &&
           out->id[twice + 1] == tok_bos(v)) twice++;
    if (twice) memmove(out->id, out->id + twice, (out->n -= twice) * sizeof *out->id);
    mem_free(span);
    return ok;
}

/* Whether the template ends its text with the mark that opens thinking. */
static bool chat__ends_inside(const chat_form *f, const jinja_text *text) {
    const size_t n = text->from.n;
    const bytes  all = str_bytes(&text->text), open = str_bytes(&f->open), seen = chat__trim_end(all);
    const size_t own = n > 1 ? text->from.at[n - 2].end : 0;                  /* where the last run of bytes begins */
    return open.n && n && !text->from.at[n - 1].input && bytes_ends(seen, open) && seen.n - open.n >= own;
}

/* Whether the template ends its text with a mark that closes thinking, and perhaps what begins an answer after it. */
static bool chat__ends_behind(const chat_form *f, const jinja_text *text) {
    const size_t n = text->from.n;
    const bytes  seen = chat__trim_end(str_bytes(&text->text)), marks[] = {str_bytes(&f->end), chat__trim(str_bytes(&f->close))};
    bool         behind = false;
    for (size_t i = 0; i < 2; i++) behind |= marks[i].n && bytes_ends(seen, marks[i]);
    return behind && n && !text->from.at[n - 1].input;
}

/* Whether a conversation has tools or calls. */
static bool chat__has_calls(const chat_input *in) {
    const val messages = val_get(in->vars, "messages");
    bool      any = chat__tools(in).kind == VAL_LIST;
    for (size_t i = 0; !any && i < messages.list->n; i++)
        any = val_get(messages.list->at[i], "tool_calls").kind == VAL_LIST ||
              val_get(messages.list->at[i], "function_call").kind == VAL_DICT;
    return any;
}

/* Begins an answer that has to call a tool; thinking is closed before. */
static bool chat__begin_call(const chat_input *in, chat_prompt *p, jinja_text *text, err_t *e) {
    const chat_form *f = p->form;
    if (in->choice != CHAT_CALL_REQUIRED) return true;
    if (chat__tools(in).kind != VAL_LIST) return err_set(e, EXIT_INPUT, "a call is required, and no tools are given");
    if (!f->calls) return err_set(e, EXIT_INPUT, "a call is required, and %s writes calls in no known form", f->name);
    if (p->thinking) str_add(&text->text, f->close.p, f->close.n);
    const size_t at = text->text.n;
    calls_begin(f->calls, in->call_name, text);
    str_add(&p->begin, text->text.p + at, text->text.n - at);
    p->thinking = false;
    return true;
}

/* Whether the tools of a conversation are nowhere in its text, which is then the same without them. */
static bool chat__hides_tools(const chat__job *j, const jinja_text *text) {
    chat_input bare = *j->in;
    chat__job  without = {.c = j->c, .f = j->f, .in = &bare, .fill = j->fill};
    jinja_text other = {0};
    err_t      none = {0};
    if (chat__tools(j->in).kind != VAL_LIST || !j->f->hides_tools) return false;
    bare.choice = CHAT_CALL_NONE;
    const bool hides = chat__run_template(&without, &other, &none) && bytes_eq(str_bytes(&other.text), str_bytes(&text->text));
    jinja_text_drop(&other);
    return hides;
}

/* What a person should know of a prompt; NULL: nothing. */
static const char *chat_warning(const chat_prompt *p) {
    return p->hides_tools ? "tools: the template of this model does not print them, so the model does not know of them" : NULL;
}

static void chat__reversed(bytes b, str *out) {
    str_clear(out);
    for (size_t i = b.n; i > 0; i--) str_add(out, &b.p[i - 1], 1);
}

/* Where the last `what` begins in a run of bytes of messages; SIZE_MAX: nowhere. The texts are searched reversed, in a time
 * in proportion. */
static size_t chat__last_input(const jinja_text *text, bytes what) {
    str    back = {0}, run = {0};
    size_t found = SIZE_MAX;
    chat__reversed(what, &back);
    for (size_t i = text->from.n; i > 0 && found == SIZE_MAX; i--) {
        const size_t from = i > 1 ? text->from.at[i - 2].end : 0, to = text->from.at[i - 1].end;
        if (!text->from.at[i - 1].input || to - from < what.n) continue;
        chat__reversed(chat__range(&text->text, from, to), &run);
        const size_t at = bytes_find(str_bytes(&run), 0, str_bytes(&back));
        if (at != SIZE_MAX) found = to - at - what.n;
    }
    str_drop_all(&back, &run);
    return found;
}

/* Cuts a rendering after the text of the last message. The white space at that text's end stays where the template
 * keeps it. */
static bool chat__cut(const chat_input *in, chat_prompt *p, jinja_text *text, err_t *e) {
    const val_list *messages = val_get(in->vars, "messages").list;
    const val       content = val_get(messages->at[messages->n - 1], "content");
    str             own = {0};
    str_put(&own, "");
    if (content.kind == VAL_STR) val_utf8(content.s, &own);
    const bytes all = chat__trim_start(str_bytes(&own)), ink = chat__trim_end(all);
    const size_t at = ink.n ? chat__last_input(text, ink) : SIZE_MAX;
    const bool   whole = at != SIZE_MAX && bytes_begins(chat__range(&text->text, at, text->text.n), all);
    const char  *open = p->form->open.p, *end = p->form->end.p;
    if (!ink.n) err_set(e, EXIT_INPUT, "continue_final_message: the last message has no text");
    else if (at == SIZE_MAX)
        err_set(e, EXIT_INPUT, "continue_final_message: %s does not write the last message as it is", p->form->name);
    else {
        text->text.n = at + (whole ? all.n : ink.n);
        for (size_t i = 0; i < text->from.n; i++) text->from.at[i].end = min_size(text->from.at[i].end, text->text.n);
        const size_t begun = p->form->open.n ? chat__last(&own, open) : own.n, ended = begun < own.n ? chat__last(&own, end) : 0;
        p->thinking = begun < own.n && (ended == own.n || ended < begun);
        p->continues = true;
    }
    str_drop(&own);
    return !e->code;
}

/* The prompt for an input that chat_input_check() has passed: rendered, with what begins an answer. */
static bool chat_make_prompt(const chat *c, const chat_input *in, chat_prompt *out, err_t *e) {
    chat_form *f = chat__form(c, in);
    chat__job  j = {.c = c, .f = f, .in = in, .fill = chat__fill_prompt};
    jinja_text text = {0};
    *out = (chat_prompt){.form = f, .calls = chat__has_calls(in)};
    bool ok = chat__learn(c, f, out->calls, e) && chat__run_template(&j, &text, e);
    out->thinking = ok && chat__ends_inside(f, &text);
    out->thought = ok && chat__ends_behind(f, &text);
    out->hides_tools = ok && chat__hides_tools(&j, &text);
    ok = ok && (!in->continues || chat__cut(in, out, &text, e));
    ok = ok && chat__begin_call(in, out, &text, e) && chat__tokens(c->v, &text, &out->ids, e);
    if (ok) out->salt = bytes_hash(1, str_bytes(&text.text)), out->text = text.text, text.text = (str){0};
    jinja_text_drop(&text);
    return ok;
}

/* Completes a request for the answer to a prompt: what ends it, which control tokens are text, how long it may
 * think. p keeps the joined list of stop texts, and so outlives the answer. */
static void chat_ask(const chat *c, chat_prompt *p, gen_request *r) {
    const chat_form *f = p->form;
    gen_opts        *o = &r->gen;
    const int        n = o->n_stop;
    mem_free(p->stops);
    p->stops = mem_new((size_t)(n + f->n_stops), sizeof *p->stops);
    for (int i = 0; i < n; i++) p->stops[i] = o->stop[i];
    for (int i = 0; i < f->n_stops; i++) p->stops[n + i] = f->stops[i];
    o->stop = p->stops;
    o->n_stop = n + f->n_stops;
    o->n_late = n;
    o->ends = p->calls ? &f->call_ends : &f->ends;
    o->shown = p->calls ? &f->call_shown : &f->shown;
    o->think = (gen_think){.most = c->o.think_budget, .inside = p->thinking,
                           .anywhere = f->mark && f->mark->next, .open = str_bytes(&f->open),
                           .end = str_bytes(&f->end), .close = c->o.think_budget < 0 || !f->closing.n ? NULL : &f->closing};
}

/* --- constraints --- */

/* The texts of the tokens that end an answer. */
static bytes *chat__end_texts(const chat_prompt *p, size_t *n) {
    bytes *at = NULL;
    *n = 0;
    for (int32_t id = 0; id < tok_count(p->v); id++) {
        if (!tok_is_eog(p->v, id) && !tok_ids_has(&p->form->call_ends, id)) continue;
        at = mem_reserve(at, *n, UINT32_MAX, sizeof *at);
        at[(*n)++] = tok_text(p->v, id);
    }
    return at;
}

static bool chat__fill_calls(void *ctx, constrain *c, gram *g, int32_t from, int32_t to, err_t *e) {
    chat_prompt *p = ctx;
    calls_want   w = p->want;
    bytes       *ends = chat__end_texts(p, &w.n_ends);
    w.ends = ends;
    const bool ok = calls_hold(p->form->calls, &w, c, g, from, to, e);
    p->want.failed = w.failed;
    mem_free(ends);
    return ok;
}

enum { CHAT_EASED = 64 };                             /* tools of which a schema is not kept, before none is */

/* A tool whose schema cannot be kept takes any object where no call is required; in the end all tools do. */
static bool chat__ease(void *ctx, const err_t *why, str *notes) {
    chat_prompt  *p = ctx;
    const size_t  n = p->want.tools.list->n, from = notes->n, bad = p->want.failed;
    const bool    one = bad < n && p->n_eased < CHAT_EASED && !(p->loose && p->loose[bad]);
    if (p->want.required || p->n_eased > CHAT_EASED) return false;
    if (!p->loose) p->want.loose = p->loose = mem_new(n, sizeof *p->loose);
    for (size_t i = 0; i < n; i++) p->loose[i] = p->loose[i] || !one || i == bad;
    p->n_eased = one ? p->n_eased + 1 : CHAT_EASED + 1;
    str_fmt(notes, "%s: the arguments of %s are any JSON object", why->text + (strncmp(why->text, "tools: ", 7) == 0 ? 7 : 0),
            one ? "this tool" : "all tools");
    for (size_t i = from; i < notes->n; i++)
        if (notes->p[i] == '\n') notes->p[i] = ' ';
    str_put(notes, "\n");
    return true;
}

static void chat__write_tools(val_env *env, void *arg) {
    chat_prompt *p = arg;
    val_buf     *b = val_buf_new(env);
    val_json_write(env, b, p->want.tools, NULL);
    val_utf8(val_buf_str(b), &p->key);
}

/* Makes the constraint that an answer with calls keeps to. */
static bool chat__hold_calls(const chat *c, const chat_input *in, chat_prompt *p, constrain_spec *o, err_t *e) {
    val_env env;
    p->v = c->v;
    p->want = (calls_want){.tools = in->allowed.kind == VAL_LIST ? in->allowed : chat__tools(in), .only = in->call_name,
                           .required = in->choice == CHAT_CALL_REQUIRED, .many = !in->one_call, .json = o->form};
    str_clear(&p->key);
    str_fmt(&p->key, "%p %d %d %zu ", (const void *)p->form, p->want.required, p->want.many, p->want.only.n);
    str_add(&p->key, p->want.only.p, p->want.only.n);
    val_env_init(&env, 0, 0, NULL);
    const bool ok = val_run(&env, chat__write_tools, p, e);
    val_env_drop(&env);
    o->kind = CONSTRAIN_CALLS;
    o->text = str_bytes(&p->key);
    o->path = "tools";
    o->fill = chat__fill_calls;
    o->ease = chat__ease;
    o->ctx = p;
    return ok;
}

/* What is after the end of thinking, without white space. */
static bytes chat__think_tail(const chat_form *f) {
    const bytes close = str_bytes(&f->close), end = str_bytes(&f->end);
    const uint8_t *at = close.n && end.n ? memmem(close.p, close.n, end.p, end.n) : NULL;
    return at ? chat__trim((bytes){at + end.n, (size_t)(close.p + close.n - at) - end.n}) : (bytes){0};
}

/* Whether an answer may not think: the prompt ends behind thinking, or it is switched off, or there are no tokens for it. */
static bool chat__silent(const chat *c, const chat_input *in, const chat_prompt *p) {
    if (p->thinking) return false;
    if (p->thought || c->o.think_budget == 0) return true;
    for (size_t i = 0; i < sizeof chat__switches / sizeof *chat__switches; i++) {
        const val v = val_get(in->vars, chat__switches[i].name);
        if (v.kind != VAL_UNDEF) return !val_truth(v);
    }
    return c->o.think == 0;
}

/* Completes the constraint of the answer to a prompt: it begins after the thinking, at once where there is none; where
 * tools may be called and *o is none, calls become one. p and in live until it is compiled. */
static bool chat_hold(const chat *c, const chat_input *in, chat_prompt *p, constrain_spec *o, err_t *e) {
    const chat_form *f = p->form;
    const bool       calls = f->calls && chat__tools(in).kind == VAL_LIST &&
                             (o->kind == CONSTRAIN_NONE || in->choice == CHAT_CALL_REQUIRED);
    if (calls && !chat__hold_calls(c, in, p, o, e)) return false;
    o->think = (constrain_think){0};
    if (p->continues && !p->thinking) return true;
    if (o->kind == CONSTRAIN_NONE || (calls && in->choice == CHAT_CALL_REQUIRED)) return true;
    if (f->open.n && f->end.n && !chat__silent(c, in, p))
        o->think = (constrain_think){.open = str_bytes(&f->open), .end = str_bytes(&f->end), .inside = p->thinking};
    if (!calls) o->think.lead = chat__trim(str_bytes(&f->lead)), o->think.tail = chat__think_tail(f);
    return true;
}

/* --- answers --- */

typedef enum { CHAT_CONTENT, CHAT_THINKING, CHAT_CALLS, CHAT_CHANNELS } chat_channel;

typedef struct {
    str       content, thinking;
    call_list calls;
} chat_answer;

/* A piece of a call while it is written; the texts live until the reader is fed again. */
typedef struct {
    int   index;                                      /* of the call, from 0 */
    bytes id, name;                                   /* where the call begins; else empty */
    bytes arguments;                                  /* further bytes of them */
} chat_piece;

/* Frees the parts of an answer. */
static void chat_answer_drop(chat_answer *a) {
    str_drop_all(&a->content, &a->thinking);
    call_list_drop(&a->calls);
}

/* Why an answer ended, as the field's servers call it; NULL: it is not complete. */
static const char *chat_finish_name(const chat_answer *a, gen_finish finish) {
    const char *name = gen_finish_names[finish];
    return name && a->calls.n && strcmp(name, "stop") == 0 ? "tool_calls" : name;
}

static void chat__put_call(const calls_call *call, const char *key, jw *w) {
    jw_open(w, key, '{');
    jw_text(w, "name", call->name);
    jw_text(w, "arguments", call->arguments);
    jw_close(w, '}');
}

/* The first call in OpenAI's older form: as a function. There is one at least. */
static void chat_put_function(const call_list *l, const char *key, jw *w) { chat__put_call(l->at, key, w); }

/* Calls as a list in OpenAI's form. */
static void chat_put_calls(const call_list *l, const char *key, jw *w) {
    jw_open(w, key, '[');
    for (size_t i = 0; i < l->n; i++) {
        jw_open(w, NULL, '{');
        jw_text(w, "id", l->at[i].id);
        jw_str(w, "type", "function");
        chat__put_call(&l->at[i], "function", w);
        jw_close(w, '}');
    }
    jw_close(w, ']');
}

typedef struct {                                      /* a call that is given out piece by piece */
    str    id, name, args;                            /* the arguments as far as they are known */
    size_t given;                                     /* bytes of them that chat_reader_call() has given, */
    bool   named;                                     /* and whether it has given the name */
} chat__call;

typedef struct {                                      /* calls that are being written */
    chat__call *call;                                 /* [n] those that have begun */
    size_t      n;
    bool        in;                                   /* inside the arguments of the last one: */
    size_t      at;                                   /* bytes of the body that have been read, */
    int         deep;                                 /* brackets that are open there, */
    bool        quoted, escaped;                      /* inside a string, after a backslash */
} chat__watch;

typedef struct {
    const chat_form  *f;
    const calls_form *calls;                          /* NULL: the answer has none */
    val               tools;
    enum { CHAT_AT_START, CHAT_IN_THINKING, CHAT_IN_BODY } at;
    bool              begun;                          /* a part of the answer has ended */
    bool              over;                           /* all of it has been read */
    bool              thinks;                         /* this part of thinking has text */
    str               text;                           /* what the prompt has of the answer, and the answer */
    size_t            n_raw;                          /* bytes of the answer in `text` */
    size_t            n;                              /* bytes of `text` that have been sorted */
    str               body;                           /* content and calls */
    size_t            safe;                           /* bytes of `body` that are content */
    size_t            put[2];                         /* [channel] bytes of the answer's parts that have been given out */
    uint64_t          salt;                           /* of ids of calls */
    bool              held;                           /* the answer keeps to what chat_hold() asked for */
    bool              watched;                        /* chat_reader_call() gives calls while they are written */
    chat__watch       watch;
    chat_answer       a;
} chat_reader;

/* A reader of the answer to a prompt. tools: those that it may call, undefined where there are none; they outlive
 * the reader. */
static chat_reader *chat_reader_new(const chat_prompt *p, val tools) {
    chat_reader *r = mem_new(1, sizeof *r);
    *r = (chat_reader){.f = p->form, .tools = tools, .salt = p->salt, .held = p->want.tools.kind == VAL_LIST,
                       .at = p->thinking ? CHAT_IN_THINKING : p->continues ? CHAT_IN_BODY : CHAT_AT_START};
    if (tools.kind == VAL_LIST && tools.list->n) r->calls = p->form->calls;
    str_add(&r->text, p->begin.p, p->begin.n);
    str_put(&r->body, "");
    str_put(&r->a.content, "");
    str_put(&r->a.thinking, "");
    return r;
}

/* Frees the reader and its answer; NULL is none. */
static void chat_reader_free(chat_reader *r) {
    if (!r) return;
    chat_answer_drop(&r->a);
    for (size_t i = 0; i < r->watch.n; i++) str_drop_all(&r->watch.call[i].id, &r->watch.call[i].name, &r->watch.call[i].args);
    mem_free(r->watch.call);
    str_drop_all(&r->text, &r->body);
    mem_free(r);
}

/* From its first text on, the reader gives calls while they are written, see chat_reader_call(). An answer that ends inside a
 * call of which pieces were given then has that call, unfinished, and its text is no content. */
static void chat_reader_watch(chat_reader *r) { r->watched = true; }

/* Bytes of the longest end of b that begins the mark and is not all of it. */
static size_t chat__partial(bytes b, bytes mark) {
    size_t n = mark.n ? min_size(mark.n - 1, b.n) : 0;
    while (n && memcmp(b.p + b.n - n, mark.p, n) != 0) n--;
    return n;
}

/* What may be where a part of an answer begins. Returns their number. */
static int chat__beginnings(const chat_form *f, bytes out[CHAT_HEADS + 3]) {
    const bytes lead = chat__trim_start(str_bytes(&f->lead));
    int         n = 0;
    out[n++] = str_bytes(&f->open);
    out[n++] = lead;
    out[n++] = bytes_of(f->mark && f->mark->next ? f->mark->next : "");
    for (int i = 0; i < CHAT_HEADS; i++) out[n++] = bytes_of(f->mark && f->mark->heads[i] ? f->mark->heads[i] : "");
    return n;
}

/* At the beginning of a part: finds out which it is. False: more text is needed. */
static bool chat__read_start(chat_reader *r, bytes rest, bool ended) {
    bytes       mark[CHAT_HEADS + 3];
    const bytes lead = str_bytes(&r->f->lead), ink = chat__trim_start(rest);
    const int   n = chat__beginnings(r->f, mark);
    const bool  channels = r->f->mark && r->f->mark->next, blank = lead.n && !chat__trim(lead).n;
    int         best = -1;
    bool        wait = false;
    for (int i = 0; i < n; i++) {
        if (!mark[i].n) continue;
        if (bytes_begins(ink, mark[i]) && (best < 0 || mark[i].n > mark[best].n)) best = i;
        wait = wait || (ink.n < mark[i].n && bytes_begins(mark[i], ink));
    }
    wait = wait || (blank && rest.n < lead.n && bytes_begins(lead, rest));
    if (wait && best < 0 && !ended) return false;
    if (best >= 0) r->n += rest.n - ink.n + mark[best].n;
    else if (r->begun && !channels) r->n += rest.n - ink.n;
    else if (!r->begun && blank && bytes_begins(rest, lead)) r->n += lead.n;
    if (best != 2) r->at = best == 0 ? CHAT_IN_THINKING : CHAT_IN_BODY;
    return true;
}

/* In a part that ends with `end`, which may be empty: adds what certainly belongs to it. True: it has ended. */
static bool chat__read_part(chat_reader *r, bytes rest, bytes end, bool trim, bool ended, str *out) {
    const uint8_t *p = end.n && rest.n ? memmem(rest.p, rest.n, end.p, end.n) : NULL;
    const size_t   n = p ? (size_t)(p - rest.p) : rest.n - (ended ? 0 : chat__partial(rest, end));
    const bytes    all = {rest.p, n}, some = trim ? chat__trim_end(all) : all;
    str_add(out, some.p, some.n);
    r->n += p ? n + end.n : some.n;
    if (p) r->at = CHAT_AT_START, r->begun = true;
    return p != NULL;
}

static bool chat__read_thinking(chat_reader *r, bytes rest, bool ended) {
    const bytes  ink = chat__trim_start(rest), end = str_bytes(&r->f->end);
    const size_t had = r->a.thinking.n;
    const bool   fresh = !r->thinks;
    str          some = {0};
    if (fresh) r->n += rest.n - ink.n;                /* blanks before and after thinking are not a part of it */
    const bool over = chat__read_part(r, fresh ? ink : rest, end, true, ended, &some);
    if (fresh && had && some.n) str_put(&r->a.thinking, "\n");
    str_add(&r->a.thinking, some.p, some.n);
    r->thinks = !over && (r->thinks || some.n);
    str_drop(&some);
    return over;
}

/* Sorts the next bytes. False: there are none, or more text is needed. */
static bool chat__read_step(chat_reader *r, bool ended) {
    const bytes rest = chat__range(&r->text, r->n, r->text.n);
    if (!rest.n) return false;
    switch (r->at) {
    case CHAT_AT_START: return chat__read_start(r, rest, ended);
    case CHAT_IN_THINKING: return chat__read_thinking(r, rest, ended);
    default: return chat__read_part(r, rest, bytes_of(r->f->mark && r->f->mark->tail ? r->f->mark->tail : ""),
                                    false, ended, &r->body);
    }
}

/* The content so far. */
static void chat__read_safe(chat_reader *r) {
    str *content = &r->a.content;
    r->safe = r->calls ? calls_safe(r->calls, str_bytes(&r->body), r->safe) : r->body.n;
    str_add(content, r->body.p + content->n, r->safe - content->n);
}

static chat__call *chat__call_new(chat_reader *r, bytes id, bytes name) {
    chat__watch *w = &r->watch;
    MEM_PUSH(w->call, w->n, (chat__call){0});
    str_cat(&w->call[w->n - 1].id, id), str_cat(&w->call[w->n - 1].name, name);
    return &w->call[w->n - 1];
}

/* Inside the arguments of a call, which are a JSON object: reads up to its end. They become what calls_read() makes of them. */
static void chat__read_arguments(chat_reader *r) {
    chat__watch *w = &r->watch;
    str         *out = w->in ? &w->call[w->n - 1].args : NULL;
    while (w->in && w->at < r->body.n) {
        const uint8_t c = (uint8_t)r->body.p[w->at++];
        if (w->quoted && !w->escaped && c < 0x20) {
            str_fmt(out, "\\u%04x", c);
            continue;
        }
        str_add(out, &c, 1);
        if (w->escaped) w->escaped = false;
        else if (c == '"') w->quoted = !w->quoted;
        else if (w->quoted) w->escaped = c == '\\';
        else if (c == '{' || c == '[') w->deep++;
        else if ((c == '}' || c == ']') && --w->deep == 0) w->in = false;
    }
}

/* Looks for calls that have begun or ended. */
static void chat__read_calls(chat_reader *r) {
    chat__watch *w = &r->watch;
    calls_live   now;
    if (!w->in && r->safe < r->body.n) {
        calls_watch(r->calls, str_bytes(&r->body), r->safe, r->tools, r->salt, &now);
        for (size_t i = w->n; i < now.calls.n; i++)
            str_cat(&chat__call_new(r, now.calls.at[i].id, now.calls.at[i].name)->args, now.calls.at[i].arguments);
        if (now.open && now.calls.n == w->n) {
            chat__call_new(r, str_bytes(&now.id), str_bytes(&now.name));
            w->in = true, w->at = now.args_at, w->deep = 0, w->quoted = w->escaped = false;
        }
        calls_live_drop(&now);
    }
    chat__read_arguments(r);
}

/* The answer has ended: its content and its calls. */
static void chat__end_body(chat_reader *r) {
    chat__watch *w = &r->watch;
    call_list    calls = {0};
    str          content = {0};
    calls_read(r->calls, str_bytes(&r->body), r->tools, r->salt, &content, &calls);
    if (w->in || calls.n < w->n) {                    /* it ended inside a call */
        for (size_t i = 0; i < w->n; i++)
            call_list_add(&r->a.calls, str_bytes(&w->call[i].name), str_bytes(&w->call[i].args), str_bytes(&w->call[i].id));
        call_list_drop(&calls);
    } else {
        str_set(&r->a.content, str_bytes(&content));
        r->a.calls = calls;
    }
    for (size_t i = 0; r->watched && i < calls.n; i++) {
        chat__call *c = i < w->n ? &w->call[i] : chat__call_new(r, calls.at[i].id, calls.at[i].name);
        if (bytes_begins(calls.at[i].arguments, str_bytes(&c->args))) str_set(&c->args, calls.at[i].arguments);
    }
    str_drop(&content);
}

/* Content is what can be no part of a call; once the answer has ended, what is none. */
static void chat__read_body(chat_reader *r, bool ended) {
    const bool watches = r->watched && r->calls && r->held;
    if (watches && r->watch.in) chat__read_arguments(r);
    else if (watches || !ended || !r->calls) chat__read_safe(r);
    if (watches && !r->watch.in) chat__read_calls(r);
    if (ended && r->calls) chat__end_body(r);
}

/* The calls of an answer as text: an object a line. */
static void chat__show_calls(const call_list *l, str *out) {
    for (size_t i = 0; i < l->n; i++) {
        jw w = jw_tight(out);
        jw_open(&w, NULL, '{');
        jw_text(&w, "name", l->at[i].name);
        jw_key(&w, "arguments");
        str_json_copy(out, l->at[i].arguments, false);
        jw_close(&w, '}');
        str_put(out, "\n");
    }
}

/* Sorts the text of an answer, given from its beginning; ended: it is all of it. put gets what is certain by now,
 * in pieces, and calls as a JSON object a line; NULL: nobody does. */
static void chat_reader_feed(chat_reader *r, bytes raw, bool ended,
                             void (*put)(void *ctx, chat_channel channel, bytes text), void *ctx) {
    str *const parts[2] = {[CHAT_CONTENT] = &r->a.content, [CHAT_THINKING] = &r->a.thinking};
    str        calls = {0};
    if (r->over) return;
    str_add(&r->text, raw.p + r->n_raw, raw.n - r->n_raw);
    r->n_raw = raw.n;
    while (chat__read_step(r, ended)) {}
    chat__read_body(r, ended);
    for (int i = 1; put && i >= 0; i--) {
        const size_t from = r->put[i];
        r->put[i] = parts[i]->n;
        if (parts[i]->n > from) put(ctx, (chat_channel)i, chat__range(parts[i], from, parts[i]->n));
    }
    chat__show_calls(&r->a.calls, &calls);
    if (put && calls.n) put(ctx, CHAT_CALLS, str_bytes(&calls));
    str_drop(&calls);
    r->over = ended;
}

/* The next piece of a call that has been written since; the reader is one of chat_reader_watch(). False: there is none.
 * The first piece of each call has its name, and the arguments of all its pieces, joined, are those of the answer. Arguments that
 * are JSON come as they are written, where the answer is held to its form; other calls come whole. */
static bool chat_reader_call(chat_reader *r, chat_piece *out) {
    for (size_t i = 0; r->watched && i < r->watch.n; i++) {
        chat__call *c = &r->watch.call[i];
        if (c->named && c->given == c->args.n) continue;
        *out = (chat_piece){.index = (int)i, .arguments = chat__range(&c->args, c->given, c->args.n)};
        if (!c->named) out->id = str_bytes(&c->id), out->name = str_bytes(&c->name);
        c->named = true, c->given = c->args.n;
        return true;
    }
    return false;
}

/* The answer of a reader that has been fed all of the text. */
static const chat_answer *chat_reader_answer(const chat_reader *r) { return &r->a; }

/* Moves it to *out, which the caller drops, and frees the reader. */
static void chat_reader_finish(chat_reader *r, chat_answer *out) {
    *out = r->a;
    r->a = (chat_answer){0};
    chat_reader_free(r);
}

/* An answer as the assistant's message, for the next turn. */
static void chat_add_answer(chat_input *in, const chat_answer *a) {
    chat_add(in, "assistant", str_bytes(&a->content));
    const val_list *messages = val_get(in->vars, "messages").list;
    val_dict       *m = messages->at[messages->n - 1].dict;
    str             calls = {0};
    jw              w = jw_tight(&calls);
    if (a->thinking.n) val_put(&in->env, m, "reasoning_content", val_text(&in->env, str_bytes(&a->thinking), true));
    if (!a->calls.n) return;
    chat_put_calls(&a->calls, NULL, &w);
    val_put(&in->env, m, "tool_calls", val_json_read(&in->env, str_bytes(&calls), VAL_JSON_INPUT));
    str_drop(&calls);
}
