/* ===== [req] one line of a batch file =====
 * Bytes to a request, an answer to bytes. A line is an envelope of OpenAI's Batch API, the bare body of one, or, in a file of
 * plain text, the prompt itself. The body changes a copy of the command's gen_request, which says too whether the lines ask
 * for answers or for vectors. An answer becomes one record on one line, its keys always in the same order and without blanks.
 * [val] parses a line.
 *
 * Invariants:
 * - Text is any bytes. A record is valid UTF-8: U+FFFD replaces other bytes, and the exact bytes are beside them,
 *   as base64 for a text and as numbers for a token.
 * - A key that would change the answer is honoured, or an error names it. null means that a key is not given.
 *   What a body says replaces what the command said; a logit_bias replaces all of the command's.
 * - A bad line sets e and its short name in req.fault, and the run goes on. Out of memory ends it.
 *
 * To add a body key: 1 its field in gen_request or req; 2 a reader of its kind where there is none; 3 a row in req_keys; 4 its
 * row in the lists of t_req.c, which hold every key against values of every kind; 5 [sched] or another section reads the field.
 * Public: req_list_keys, req_read, req_read_adapters, req_read_text, req_read_id, req_drop, req_drop_input, req_print,
 * req_print_body, req_print_logprobs, req_print_error.
 * Opens: req, req_adapter, req_form, req_origin, req_prompt, req_times. */

enum {
    REQ_MEMORY = 64 << 20,                            /* bytes of the parsed values of a line beyond 8 for each of its bytes */
    REQ_N = 128,                                      /* completions of a prompt at most */
    REQ_STOPS = 16,                                   /* stop strings at most */
    REQ_LORAS = 256,                                  /* adapters at most */
    REQ_TOP = 20,                                     /* alternatives of a token at most */
    REQ_CHOICES = 2048,                               /* completions of all prompts of a line */
};

/* What is wrong with a line, as the error of a record names it. */
static const char req_bad_json[] = "invalid_json_line";
static const char req_invalid[] = "invalid_request", req_unsupported[] = "unsupported";

static const char req_url[] = "/v1/completions", req_chat_url[] = "/v1/chat/completions", req_embed_url[] = "/v1/embeddings";

/* A prompt: text, or token ids in place of it. */
typedef struct {
    bytes   text;
    tok_ids ids;                                      /* where n > 0: each below n_vocab */
    tok_span *data;                                   /* [n_data] owned: parts of the text that hold no control token, in order */
    size_t    n_data;
} req_prompt;

/* An adapter that a body names. */
typedef struct {
    bytes name;                                       /* owned; none: the number counts */
    int   id;                                         /* in the order of --lora, from 0 */
    float scale;                                      /* NAN: that of the command */
} req_adapter;

/* How the lines of a file are read. */
typedef struct {
    const gen_request *base;                          /* what the command asks for, copied with its pointers; a body changes it */
    int32_t            n_vocab;
    bool               json;                          /* a line is JSON; else it is the prompt, */
    bool               wrap;                          /* or the message of a user */
    const constrain_spec *hold;                       /* the command's constraint, which a body replaces; NULL: none */
    const embed_opts  *embed;                         /* vectors of lines whose url asks for them; NULL: none are */
} req_form;

typedef struct {
    bytes       custom_id;                            /* owned, as all that follows */
    bool        has_id;
    bool        chat;                                 /* the prompt is made of input; answers in the chat shape */
    req_prompt *prompt;                               /* [n_prompt] at least one; of a chat one, and it is empty */
    int         n_prompt;
    int         n;                                    /* completions of all prompts, in their order */
    gen_request ask;                                  /* the command's, changed by the body; the caller adds each prompt */
    samp_bias  *bias;                                 /* owned: ask.samp.bias where the body has biases */
    bytes      *stop;                                 /* [n_stop] owned: ask.gen.stop where the body has any; none is empty */
    int         n_stop;
    tok_ids     stop_ids;                             /* ask.gen.stop_ids where the body has any */
    req_adapter *adapter;                             /* [n_adapter] owned: in place of the command's, where the body names any */
    int         n_adapter;
    bool        adapts;                               /* it does, or says that there is none */
    bool        legacy;                               /* the tools are functions of OpenAI's older form, and so are the calls */
    int         priority;                             /* lower runs earlier; 0 where not given */
    bool        base64;                               /* vectors are written so */
    int         dims;                                 /* values that they should have; 0: as the model's */
    chat_input  input;                                /* what the template reads; empty where this is no chat */
    bytes       call_name;                            /* of the function that must be called; empty: any */
    constrain_spec hold;                              /* the command's constraint or the body's; the caller compiles it */
    bytes       hold_text;                            /* owned: its text, where the body has it */
    bool        many_calls;                           /* an answer may have more than one call */
    bytes       passed;                               /* owned: columns of the input, a JSON object for the record; or empty */
    str         warnings;                             /* what is kept in another way than it was asked for, a line each */
    const char *fault;                                /* one of the three above; NULL: none */
} req;

/* What a record may hold beyond OpenAI's shape. */
enum { REQ_PROMPT = 1, REQ_SEED = 2, REQ_LOGPROB = 4, REQ_TIMES = 8 };

/* Seconds since the line was read; not finite where there are none. */
typedef struct {
    double queued;                                    /* until reading the prompt began */
    double first;                                     /* until the first token */
    double total;                                     /* until the last token */
} req_times;

typedef struct {
    uint64_t    line;                                 /* in the input file, from 1 */
    const char *file;                                 /* that file, where there are several; else NULL */
    const char *fingerprint;                          /* of model and settings; results__fingerprint() */
    digest      digest;                               /* results_line.is */
    const char *model_name;                           /* as the answers name it */
    int64_t     created;                              /* seconds since 1970 */
    const char *id;                                   /* of the answer, after the prefix of its shape; NULL: the line's number */
    int         n_prompt;                             /* tokens of the prompts */
    int         n_cached;                             /* those that were found in the cache */
    unsigned    fields;                               /* REQ_PROMPT and so on */
    const tok_ids *ids;                               /* [n_prompt] of prompts that were given as ids; NULL: req has them */
    req_times   times;
} req_origin;

/* Frees what the template of a chat reads. */
static void req_drop_input(req *q) {
    chat_input_drop(&q->input);
    q->input = (chat_input){.choice = q->input.choice};
}

static void req__free(bytes own) { mem_free((void *)(uintptr_t)own.p); }

/* Frees what a request owns; it is then an empty one. */
static void req_drop(req *q) {
    req__free(q->custom_id);
    for (int i = 0; i < q->n_prompt; i++) {
        req__free(q->prompt[i].text);
        tok_ids_drop(&q->prompt[i].ids);
        mem_free(q->prompt[i].data);
    }
    mem_free(q->prompt);
    for (int i = 0; i < q->n_stop; i++) req__free(q->stop[i]);
    for (int i = 0; i < q->n_adapter; i++) req__free(q->adapter[i].name);
    mem_free_all(q->stop, q->bias, q->adapter);
    req__free(q->call_name);
    req__free(q->hold_text);
    req__free(q->passed);
    str_drop(&q->warnings);
    tok_ids_drop(&q->stop_ids);
    req_drop_input(q);
    *q = (req){0};
}

/* --- reading --- */

typedef struct {                                      /* a line that is being read */
    req     *q;
    bytes    line;                                    /* all its bytes */
    bytes    body;                                    /* those of its body */
    const char *held;                                 /* the key that gave a constraint; NULL: none has */
    const embed_opts *embed;                          /* req_form.embed */
    int32_t  n_vocab;
    int      top;                                     /* top_logprobs; -1: not given */
    int64_t  max;                                     /* max_tokens or max_completion_tokens; -1: not given */
    val      call;                                    /* the name of the function that must be called; VAL_UNDEF: any */
    val      allowed;                                 /* the tools that may be called; VAL_UNDEF: all */
    const char *tools_key;                            /* the key that gave tools; NULL: none has */
    const char *choice_key;                           /* the key that said which call is made; NULL: none has */
    bool     ok;
    err_t   *e;
} req_in;

/* Shapes of a body; ANY: those with an answer. */
enum { REQ_COMPLETION = 1, REQ_CHAT = 2, REQ_ANY = 3, REQ_EMBED = 4, REQ_ALL = 7 };

typedef struct req_key {
    const char *name;
    unsigned    where;                                /* the shapes it belongs to */
    bool      (*take)(req_in *r, const struct req_key *k, val v);
    size_t      at;                                   /* offset in req, where it sets one int or float */
    double      lo;                                   /* the lowest value of a number */
    double      hi;                                   /* the highest */
} req_key;

/* A copy of a text as bytes; never NULL. */
static bytes req__own(val_str text) {
    str s = {0};
    str_add(&s, "", 0);
    val_utf8(text, &s);
    return str_bytes(&s);
}

/* The beginning of a text, for a message. */
typedef struct {
    char text[128];
} req_shown;

static req_shown req__show(val_str of) {
    req_shown s;
    bytes     b = req__own(val_sub(of, 0, of.n < 101 ? of.n : 101));
    for (size_t i = 0; i < b.n; i++)
        if (!b.p[i]) ((uint8_t *)(uintptr_t)b.p)[i] = '?';
    snprintf(s.text, sizeof s.text, "%.100s%s", (const char *)b.p, b.n > 100 ? "..." : "");
    req__free(b);
    return s;
}

static unsigned req__shape(const req *q) { return q->ask.embeds ? REQ_EMBED : q->chat ? REQ_CHAT : REQ_COMPLETION; }

static const char *req__url(unsigned shape) {
    return shape & REQ_EMBED ? req_embed_url : shape & REQ_CHAT ? req_chat_url : req_url;
}

static const char *req__kind(val v) {
    static const char *const kinds[VAL_KINDS] = {[VAL_NONE] = "null",      [VAL_INT] = "a number", [VAL_BIG] = "a number",
                                                 [VAL_FLOAT] = "a number", [VAL_STR] = "a string", [VAL_LIST] = "a list",
                                                 [VAL_DICT] = "an object"};
    if (v.kind == VAL_BOOL) return v.b ? "true" : "false";
    if (v.kind == VAL_LIST && !v.list->n) return "an empty list";
    return kinds[v.kind] ? kinds[v.kind] : "nothing";
}

/* Sets the error of the key `name`. */
__attribute__((format(printf, 3, 4))) static bool req__bad(const req_in *r, const char *name, const char *fmt, ...) {
    char    why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return err_set(r->e, EXIT_INPUT, "%s: %s", name, why);
}

static bool req__not(const req_in *r, const char *name, val v, const char *expected) {
    return req__bad(r, name, "found %s, expected %s", req__kind(v), expected);
}

static bool req__is_number(val v) { return v.kind == VAL_INT || v.kind == VAL_BIG || v.kind == VAL_FLOAT; }

static bool req__number(const req_in *r, const req_key *k, val v, double *x) {
    *x = v.kind == VAL_INT ? (double)v.i : v.kind == VAL_FLOAT ? v.f : 0;
    if (!req__is_number(v)) return req__not(r, k->name, v, "a number");
    if (v.kind == VAL_BIG) return req__bad(r, k->name, "a number beyond 64 bits, expected %.10g to %.10g", k->lo, k->hi);
    if (*x >= k->lo && *x <= k->hi) return true;
    return req__bad(r, k->name, "%.10g is out of range, expected %.10g to %.10g", *x, k->lo, k->hi);
}

/* 3.0 is a whole number too: JSON has one kind of numbers. */
static bool req__whole(const req_in *r, const req_key *k, val v, int64_t *n) {
    double x;
    *n = 0;
    if (!req__number(r, k, v, &x)) return false;
    if (v.kind == VAL_INT) return *n = v.i, true;
    if (x != floor(x)) return req__bad(r, k->name, "found %.10g, expected a whole number", x);
    if (x == 0x1p63) return req__bad(r, k->name, "found %.10g, expected a whole number below 2^63", x);
    return *n = (int64_t)x, true;
}

static bool req__take_int(req_in *r, const req_key *k, val v) {
    int64_t n;
    return req__whole(r, k, v, &n) && (*(int *)((char *)r->q + k->at) = (int)n, true);
}

static bool req__take_float(req_in *r, const req_key *k, val v) {
    double x;
    return req__number(r, k, v, &x) && (*(float *)((char *)r->q + k->at) = (float)x, true);
}

static bool req__take_bool(req_in *r, const req_key *k, val v) {
    if (v.kind != VAL_BOOL) return req__not(r, k->name, v, "true or false");
    *(bool *)((char *)r->q + k->at) = v.b;
    return true;
}

/* Both names of the limit may be given if they agree. */
static bool req__take_max(req_in *r, const req_key *k, val v) {
    int64_t n;
    if (!req__whole(r, k, v, &n)) return false;
    if (r->max >= 0 && r->max != n)
        return req__bad(r, k->name, "%lld beside another limit of %lld, expected one", (long long)n, (long long)r->max);
    return r->q->ask.gen.n_predict = r->max = n, true;
}

static bool req__take_seed(req_in *r, const req_key *k, val v) {
    int64_t n;
    if (!req__whole(r, k, v, &n)) return false;
    r->q->ask.seed = (uint64_t)n;
    return true;
}

static bool req__add_stop(req_in *r, const req_key *k, val v) {
    if (v.kind != VAL_STR) return req__not(r, k->name, v, "a string or a list of strings");
    if (!v.s.n) return req__bad(r, k->name, "an empty string, expected text");
    r->q->stop[r->q->n_stop++] = req__own(v.s);
    return true;
}

static bool req__take_stop(req_in *r, const req_key *k, val v) {
    const bool   list = v.kind == VAL_LIST;
    const size_t n = list ? v.list->n : 1;
    if (n > REQ_STOPS) return req__bad(r, k->name, "%zu strings, expected at most %d", n, REQ_STOPS);
    r->q->ask.gen.stop = r->q->stop = mem_new(n, sizeof *r->q->stop);
    for (size_t i = 0; i < n; i++)
        if (!req__add_stop(r, k, list ? v.list->at[i] : v)) return false;
    r->q->ask.gen.n_stop = r->q->n_stop;
    return true;
}

/* One adapter: its name, or as llama.cpp's server has it an object with its number; here with its name too. */
static bool req__add_lora(req_in *r, const req_key *k, val v, bool listed) {
    const bool    by_name = v.kind == VAL_STR, object = v.kind == VAL_DICT;
    const val     none = val_undef("lora"), name = by_name ? v : object ? val_get(v, "name") : none;
    const val     id = object ? val_get(v, "id") : none, x = object ? val_get(v, "scale") : none;
    const req_key id_key = {.name = "lora.id", .lo = 0, .hi = INT32_MAX}, x_key = {.name = "lora.scale", .lo = -1e6, .hi = 1e6};
    req_adapter   a = {.scale = NAN};
    int64_t       n = 0;
    double        scale = 0;
    if (!by_name && (!object || !listed))
        return req__not(r, k->name, v, "a name, or a list of names and of objects with id and scale");
    if (name.kind != VAL_STR && !req__is_number(id)) return req__bad(r, k->name, "found no name and no id, expected one of them");
    if (name.kind != VAL_STR && !req__whole(r, &id_key, id, &n)) return false;
    if (x.kind != VAL_UNDEF && !req__number(r, &x_key, x, &scale)) return false;
    if (x.kind != VAL_UNDEF) a.scale = (float)scale;
    a.id = (int)n;
    if (name.kind == VAL_STR) a.name = req__own(name.s);
    r->q->adapter[r->q->n_adapter++] = a;
    return true;
}

/* Adapters in place of all of --lora; an empty list: none. */
static bool req__take_lora(req_in *r, const req_key *k, val v) {
    const bool   list = v.kind == VAL_LIST;
    const size_t n = list ? v.list->n : 1;
    if (n > REQ_LORAS) return req__bad(r, k->name, "%zu adapters, expected at most %d", n, REQ_LORAS);
    r->q->adapter = mem_new(n, sizeof *r->q->adapter);
    r->q->adapts = true;
    for (size_t i = 0; i < n; i++)
        if (!req__add_lora(r, k, list ? v.list->at[i] : v, list)) return false;
    return true;
}

static bool req__take_ids(const req_in *r, const req_key *k, const val_list *list, tok_ids *out) {
    const req_key id_key = {.name = k->name, .lo = 0, .hi = r->n_vocab - 1};
    for (size_t i = 0; i < list->n; i++) {
        const val one = list->at[i];
        int64_t   id;
        if (!req__is_number(one)) return req__not(r, k->name, one, "token ids alone in this list");
        if (r->q->ask.embeds && one.kind == VAL_INT && one.i >= r->n_vocab)
            return req__bad(r, k->name, "%lld is out of range, expected 0 to %d: token ids of another tokenizer? (LangChain: "
                            "check_embedding_ctx_length=False sends text)", (long long)one.i, r->n_vocab - 1);
        if (!req__whole(r, &id_key, one, &id)) return false;
        tok_ids_add(out, (int32_t)id);
    }
    return true;
}

static bool req__take_stop_ids(req_in *r, const req_key *k, val v) {
    r->q->ask.gen.stop_ids = &r->q->stop_ids;
    return v.kind == VAL_LIST ? req__take_ids(r, k, v.list, &r->q->stop_ids) : req__not(r, k->name, v, "a list of token ids");
}

/* true: control tokens are left out of the text. */
static bool req__take_skip(req_in *r, const req_key *k, val v) {
    r->q->ask.gen.special_out = v.kind == VAL_BOOL && !v.b;
    return v.kind == VAL_BOOL || req__not(r, k->name, v, "true or false");
}

/* In a completion the number of alternatives, 0 for the tokens alone; in a chat true or false, and top_logprobs
 * is the number. */
static bool req__take_logprobs(req_in *r, const req_key *k, val v) {
    req *q = r->q;
    if (!q->chat) return req__take_int(r, k, v) && (q->ask.logprobs = true);
    if (v.kind != VAL_BOOL) return req__not(r, k->name, v, "true or false");
    q->ask.logprobs = v.b;
    return true;
}

static bool req__take_top(req_in *r, const req_key *k, val v) {
    int64_t n;
    return req__whole(r, k, v, &n) && (r->top = (int)n, true);
}

/* The decimal digits of a token id without leading zeros, so that no two keys are one token. */
static bool req__token_key(val_str text, int32_t n_vocab, int32_t *id) {
    int64_t x = 0;
    for (uint32_t i = 0; i < text.n; i++) {
        const val_chr c = VAL_CHAR(text.p[i]);
        if (c < '0' || c > '9' || (i && !x) || (x = 10 * x + (int64_t)(c - '0')) >= n_vocab) return false;
    }
    *id = (int32_t)x;
    return text.n > 0;
}

/* A bias is added to the logit as it is. -100 and 100, which mean never and always to OpenAI, act like that on
 * the logits of real models. */
static bool req__take_bias(req_in *r, const req_key *k, val v) {
    req *q = r->q;
    if (v.kind != VAL_DICT) return req__not(r, k->name, v, "an object of token ids and biases");
    q->bias = mem_new(v.dict->n, sizeof *q->bias);
    q->ask.samp.bias = q->bias;
    q->ask.samp.n_bias = 0;
    for (size_t i = 0; i < v.dict->n; i++) {
        const val_pair *at = &v.dict->at[i];
        samp_bias      *b = &q->bias[q->ask.samp.n_bias++];
        double          x;
        if (!req__token_key(at->key.s, r->n_vocab, &b->id))
            return req__bad(r, k->name, "found '%s', expected token ids from 0 to %d", req__show(at->key.s).text,
                            r->n_vocab - 1);
        if (!req__number(r, k, at->value, &x)) return false;
        b->bias = (float)x;
    }
    return true;
}

/* Text or token ids. */
static bool req__one_prompt(req_in *r, const req_key *k, val v) {
    req_prompt *p = &r->q->prompt[r->q->n_prompt++];
    if (v.kind == VAL_LIST && !v.list->n) return req__bad(r, k->name, "an empty list, expected text or token ids");
    if (v.kind == VAL_LIST) return req__take_ids(r, k, v.list, &p->ids);
    if (v.kind != VAL_STR) return req__not(r, k->name, v, "text or a list of token ids");
    p->text = req__own(v.s);
    return true;
}

/* One prompt, or a list of prompts, each with its own completions. */
static bool req__take_prompt(req_in *r, const req_key *k, val v) {
    const bool   many = v.kind == VAL_LIST && v.list->n && !req__is_number(v.list->at[0]);
    const size_t n = many ? v.list->n : 1;
    bool         ok = true;
    if (n > REQ_CHOICES) return req__bad(r, k->name, "a list of %zu prompts, expected at most %d", n, REQ_CHOICES);
    r->q->prompt = mem_new(n, sizeof *r->q->prompt);
    for (size_t i = 0; ok && i < n; i++) ok = req__one_prompt(r, k, many ? v.list->at[i] : v);
    return ok;
}

/* --- keys of a chat: what the template reads --- */

static void req__set_var(req_in *r, val name, val v) { val_dict_set(&r->q->input.env, r->q->input.vars.dict, name, v); }

/* A variable of the template under the key's own name. */
static bool req__take_var(req_in *r, const req_key *k, val v) {
    req__set_var(r, val_str_of(&r->q->input.env, k->name), v);
    return true;
}

static bool req__take_messages(req_in *r, const req_key *k, val v) {
    if (v.kind != VAL_LIST || !v.list->n) return req__not(r, k->name, v, "a list of at least one message");
    return req__take_var(r, k, v);
}

static bool req__take_effort(req_in *r, const req_key *k, val v) {
    return v.kind == VAL_STR ? req__take_var(r, k, v) : req__not(r, k->name, v, "a string");
}

/* Variables of the template under names of their own. */
static bool req__take_kwargs(req_in *r, const req_key *k, val v) {
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt"};
    if (v.kind != VAL_DICT) return req__not(r, k->name, v, "an object");
    for (size_t i = 0; i < v.dict->n; i++) {
        for (size_t t = 0; t < sizeof taken / sizeof *taken; t++)
            if (val_is_str(v.dict->at[i].key, taken[t]))
                return req__bad(r, k->name, "found %s, which the body itself decides", taken[t]);
        req__set_var(r, v.dict->at[i].key, v.dict->at[i].value);
    }
    return true;
}

/* Whether the template continues the text of the last message. */
static bool req__take_continue(req_in *r, const req_key *k, val v) {
    return v.kind == VAL_BOOL ? (r->q->input.continues = v.b, true) : req__not(r, k->name, v, "true or false");
}

static bool req__take_opening(req_in *r, const req_key *k, val v) {
    return v.kind == VAL_BOOL ? req__take_var(r, k, v) : req__not(r, k->name, v, "true or false");
}

/* Number i of the tools: an object with the name of a function, by itself or as the member `function`. */
static bool req__check_tool(req_in *r, const req_key *k, val tool, size_t i) {
    const val f = val_get(tool, "function"), name = val_get(f.kind == VAL_DICT ? f : tool, "name");
    if (tool.kind != VAL_DICT) return req__not(r, k->name, tool, "objects alone in this list");
    if (name.kind == VAL_STR && name.s.n) return true;
    return req__bad(r, k->name, "number %zu has %s as its function's name, expected a text", i,
                    name.kind == VAL_STR ? "an empty text" : req__kind(name));
}

/* A list of tools that is not empty. what: their name. */
static bool req__check_tools(req_in *r, const req_key *k, val v, const char *what) {
    if (v.kind != VAL_LIST) return req__not(r, k->name, v, what);
    for (size_t i = 0; i < v.list->n; i++)
        if (!req__check_tool(r, k, v.list->at[i], i)) return false;
    if (!v.list->n) return true;
    if (!r->q->chat) return req__bad(r, k->name, "belongs to %s, expected none in a body for %s", req_chat_url, req_url);
    if (r->tools_key) return req__bad(r, k->name, "beside %s, expected one of them", r->tools_key);
    r->tools_key = k->name;
    return true;
}

/* An empty list changes nothing. */
static bool req__take_tools(req_in *r, const req_key *k, val v) {
    return req__check_tools(r, k, v, "a list of tools") && (!v.list->n || req__take_var(r, k, v));
}

/* The older form of tools: their functions. An answer has one call. */
static bool req__take_functions(req_in *r, const req_key *k, val v) {
    val_env  *env = &r->q->input.env;
    const val list = val_list_new(env);
    if (!req__check_tools(r, k, v, "a list of functions") || !v.list->n) return !r->e->code;
    for (size_t i = 0; i < v.list->n; i++) {
        const val tool = val_dict_new(env);
        val_put(env, tool.dict, "type", val_str_of(env, "function"));
        val_put(env, tool.dict, "function", v.list->at[i]);
        val_list_add(env, list.list, tool);
    }
    req__set_var(r, val_str_of(env, "tools"), list);
    r->q->legacy = true;
    return true;
}

/* {"mode":"auto" or "required","tools":[TOOL, ...]}, which may be in an object under allowed_tools. */
static bool req__take_allowed(req_in *r, const req_key *k, val v) {
    chat_input *in = &r->q->input;
    const val   inner = val_get(v, "allowed_tools"), o = inner.kind == VAL_DICT ? inner : v, mode = val_get(o, "mode");
    in->choice = val_is_str(mode, "required") ? CHAT_CALL_REQUIRED : CHAT_CALL_AUTO;
    r->allowed = val_get(o, "tools");
    if (r->allowed.kind != VAL_LIST || !r->allowed.list->n)
        return req__bad(r, k->name, "allowed_tools without tools, expected a list of at least one");
    return in->choice == CHAT_CALL_REQUIRED || mode.kind == VAL_UNDEF || val_is_str(mode, "auto") ||
           req__bad(r, k->name, "allowed_tools: mode is %s, expected auto or required",
                    mode.kind == VAL_STR ? req__show(mode.s).text : req__kind(mode));
}

/* none, auto, required, {"type":"function","function":{"name":NAME}}, or {"type":"allowed_tools", ...} */
static bool req__take_choice(req_in *r, const req_key *k, val v) {
    chat_input *in = &r->q->input;
    if (r->choice_key) return req__bad(r, k->name, "beside %s, expected one of them", r->choice_key);
    r->choice_key = k->name;
    if (val_is_str(v, "auto")) return true;
    in->choice = val_is_str(v, "none") ? CHAT_CALL_NONE : CHAT_CALL_REQUIRED;
    if (in->choice == CHAT_CALL_NONE) return true;
    if (v.kind != VAL_STR && v.kind != VAL_DICT) return req__not(r, k->name, v, "none, auto, required or an object");
    if (!r->q->chat)
        return req__bad(r, k->name, "belongs to %s, expected none or auto in a body for %s", req_chat_url, req_url);
    if (val_is_str(v, "required")) return true;
    if (val_is_str(val_get(v, "type"), "allowed_tools")) return req__take_allowed(r, k, v);
    if (v.kind == VAL_STR)
        return req__bad(r, k->name, "found '%s', expected none, auto, required or an object", req__show(v.s).text);
    r->call = val_get(val_get(v, "function"), "name");
    return (val_is_str(val_get(v, "type"), "function") && r->call.kind == VAL_STR) ||
           req__bad(r, k->name, "found an object, expected one with type function and the function's name, or allowed_tools");
}

/* The older form of tool_choice: none, auto or {"name":NAME}. */
static bool req__take_function_call(req_in *r, const req_key *k, val v) {
    if (v.kind == VAL_STR && !val_is_str(v, "auto") && !val_is_str(v, "none"))
        return req__bad(r, k->name, "found '%s', expected none, auto or an object", req__show(v.s).text);
    if (v.kind != VAL_DICT) return req__take_choice(r, k, v);
    if (r->choice_key) return req__bad(r, k->name, "beside %s, expected one of them", r->choice_key);
    r->choice_key = k->name;
    r->q->input.choice = CHAT_CALL_REQUIRED;
    r->call = val_get(v, "name");
    return r->call.kind == VAL_STR || req__bad(r, k->name, "found an object, expected one with the function's name");
}

/* --- constraints --- */

/* A body has one constraint at most, which replaces the command's. text: owned by q from now on. */
static bool req__hold(req_in *r, const char *name, constrain_kind kind, bytes text) {
    req *q = r->q;
    if (r->held) {
        req__free(text);
        return req__bad(r, name, "a second constraint beside %s, expected one", r->held);
    }
    r->held = name;
    q->hold.kind = kind;
    q->hold.text = q->hold_text = text;
    q->hold.path = name;
    return true;
}

static bool req__hold_text(req_in *r, const char *name, constrain_kind kind, val v) {
    return v.kind == VAL_STR ? req__hold(r, name, kind, req__own(v.s)) : req__not(r, name, v, "a string");
}

static bool req__hold_object(req_in *r, const char *name) {
    return req__hold(r, name, CONSTRAIN_OBJECT, req__own((val_str){0}));
}

/* A schema is taken as the line has it, so that its numbers keep their digits and errors name its bytes. Or it is
 * a string. */
static bool req__hold_schema(req_in *r, const char *name, val v, bytes raw) {
    str text = {0};
    if (v.kind == VAL_STR) return req__hold_text(r, name, CONSTRAIN_SCHEMA, v);
    if (v.kind != VAL_DICT && v.kind != VAL_BOOL) return req__not(r, name, v, "a schema: an object, true or false");
    str_put(&text, "");
    str_add(&text, raw.p, raw.n);
    return req__hold(r, name, CONSTRAIN_SCHEMA, str_bytes(&text));
}

/* A list of texts, written as --choice has them. */
static bool req__hold_choice(req_in *r, const char *name, val v) {
    str text = {0};
    str_put(&text, "");
    bool ok = (v.kind == VAL_LIST && v.list->n) || req__not(r, name, v, "a list of at least one string");
    for (size_t i = 0; ok && i < v.list->n; i++) {
        const val one = v.list->at[i];
        if (!(ok = one.kind == VAL_STR || req__not(r, name, one, "strings alone in this list"))) break;
        const bytes b = req__own(one.s);
        if (i) str_put(&text, "|");
        for (size_t k = 0; k < b.n; k++) {
            if (b.p[k] == '|' || b.p[k] == '\\') str_put(&text, "\\");
            str_add(&text, b.p + k, 1);
        }
        req__free(b);
    }
    if (ok) return req__hold(r, name, CONSTRAIN_CHOICE, str_bytes(&text));
    str_drop(&text);
    return false;
}

static bool req__take_grammar(req_in *r, const req_key *k, val v) { return req__hold_text(r, k->name, CONSTRAIN_GBNF, v); }

static bool req__take_regex(req_in *r, const req_key *k, val v) { return req__hold_text(r, k->name, CONSTRAIN_REGEX, v); }

static bool req__take_choice_of(req_in *r, const req_key *k, val v) { return req__hold_choice(r, k->name, v); }

static bool req__take_schema(req_in *r, const req_key *k, val v) {
    return req__hold_schema(r, k->name, v, bytes_member(r->body, k->name));
}

/* {"type":"json_schema","json_schema":{"schema":SCHEMA}}; name, description and strict change nothing: a schema
 * is always held. */
static bool req__take_json_schema(req_in *r, const req_key *k, val v) {
    static const char *const names[] = {"schema", "name", "description", "strict"};
    const val                form = val_get(v, "json_schema");
    if (form.kind != VAL_DICT)
        return req__bad(r, k->name, "type json_schema without json_schema, expected an object of that name");
    for (size_t i = 0; i < form.dict->n; i++) {
        size_t n = 0;
        while (n < 4 && !val_is_str(form.dict->at[i].key, names[n])) n++;
        if (n == 4) return req__bad(r, k->name, "unknown key '%s' in json_schema", req__show(form.dict->at[i].key.s).text);
    }
    const bytes raw = bytes_member(bytes_member(bytes_member(r->body, k->name), "json_schema"), "schema");
    return req__hold_schema(r, k->name, val_get(form, "schema"), raw);
}

/* {"type":"text"}: no constraint; {"type":"json_object"}, with a schema as llama.cpp has it; or a schema as OpenAI has it. */
static bool req__take_format(req_in *r, const req_key *k, val v) {
    const val type = val_get(v, "type"), schema = val_get(v, "schema");
    if (v.kind != VAL_DICT || type.kind != VAL_STR) return req__not(r, k->name, v, "an object with a type");
    if (val_is_str(type, "text")) return r->q->hold.kind = r->held ? r->q->hold.kind : CONSTRAIN_NONE, true;
    if (val_is_str(type, "json_schema")) return req__take_json_schema(r, k, v);
    if (!val_is_str(type, "json_object"))
        return req__bad(r, k->name, "found type '%s', expected text, json_object or json_schema", req__show(type.s).text);
    if (schema.kind == VAL_UNDEF || schema.kind == VAL_NONE) return req__hold_object(r, k->name);
    return req__hold_schema(r, k->name, schema, bytes_member(bytes_member(r->body, k->name), "schema"));
}

/* What vLLM calls structured_outputs: an object with one of these keys. */
static bool req__take_structured(req_in *r, const req_key *k, val v) {
    if (v.kind != VAL_DICT) return req__not(r, k->name, v, "an object");
    for (size_t i = 0; i < v.dict->n; i++) {
        const val key = v.dict->at[i].key, one = v.dict->at[i].value;
        bool      ok;
        if (one.kind == VAL_NONE) continue;
        if (val_is_str(key, "json"))
            ok = req__hold_schema(r, k->name, one, bytes_member(bytes_member(r->body, k->name), "json"));
        else if (val_is_str(key, "regex")) ok = req__hold_text(r, k->name, CONSTRAIN_REGEX, one);
        else if (val_is_str(key, "grammar")) ok = req__hold_text(r, k->name, CONSTRAIN_GBNF, one);
        else if (val_is_str(key, "choice")) ok = req__hold_choice(r, k->name, one);
        else if (val_is_str(key, "json_object") && one.kind == VAL_BOOL) ok = !one.b || req__hold_object(r, k->name);
        else ok = req__bad(r, k->name, "found '%s', expected json, regex, grammar, choice or json_object",
                           req__show(key.s).text);
        if (!ok) return false;
    }
    return true;
}

/* float or base64. */
static bool req__take_encoding(req_in *r, const req_key *k, val v) {
    r->q->base64 = val_is_str(v, "base64");
    if (r->q->base64 || val_is_str(v, "float")) return true;
    if (v.kind != VAL_STR) return req__not(r, k->name, v, "float or base64");
    return req__bad(r, k->name, "found '%s', expected float or base64", req__show(v.s).text);
}

/* stream and echo. */
static bool req__take_false(req_in *r, const req_key *k, val v) {
    if (v.kind != VAL_BOOL) return req__not(r, k->name, v, "true or false");
    if (!v.b) return true;
    r->q->fault = req_unsupported;
    return req__bad(r, k->name, "true, expected false: the answer to a line is one record of new text");
}

/* Text is the only one. */
static bool req__take_modalities(req_in *r, const req_key *k, val v) {
    if (v.kind != VAL_LIST) return req__not(r, k->name, v, "a list with text alone");
    for (size_t i = 0; i < v.list->n; i++) {
        const val one = v.list->at[i];
        if (val_is_str(one, "text")) continue;
        if (one.kind != VAL_STR) return req__not(r, k->name, one, "text");
        r->q->fault = req_unsupported;
        return req__bad(r, k->name, "found '%s', expected text alone", req__show(one.s).text);
    }
    return true;
}

/* A number that changes nothing within its bounds. */
static bool req__take_bounded(req_in *r, const req_key *k, val v) {
    int64_t n;
    return req__whole(r, k, v, &n);
}

static bool req__take_nothing(req_in *r, const req_key *k, val v) {
    (void)r, (void)k, (void)v;
    return true;
}

#define REQ_AT(f) offsetof(req, f)
static const req_key req_keys[] = {
    /* name                  shapes          reader                where                           lowest     highest */
    {"prompt",                REQ_COMPLETION, req__take_prompt,     0,                              0,         0},
    {"messages",              REQ_CHAT,       req__take_messages,   0,                              0,         0},
    {"input",                 REQ_EMBED,      req__take_prompt,     0,                              0,         0},
    {"encoding_format",       REQ_EMBED,      req__take_encoding,   0,                              0,         0},
    {"dimensions",            REQ_EMBED,      req__take_int,        REQ_AT(dims),                   1,         INT32_MAX},
    {"max_tokens",            REQ_ANY,        req__take_max,        0,                              0,         0x1p63},
    {"max_completion_tokens", REQ_ANY,        req__take_max,        0,                              0,         0x1p63},
    {"seed",                  REQ_ANY,        req__take_seed,       0,                              -0x1p63,   0x1p63},
    {"stop",                  REQ_ANY,        req__take_stop,       0,                              0,         0},
    {"n",                     REQ_ANY,        req__take_int,        REQ_AT(ask.n),                  1,         REQ_N},
    {"logprobs",              REQ_ANY,        req__take_logprobs,   REQ_AT(ask.top),                0,         REQ_TOP},
    {"top_logprobs",          REQ_CHAT,       req__take_top,        0,                              0,         REQ_TOP},
    {"logit_bias",            REQ_ANY,        req__take_bias,       0,                              -1e30,     1e30},
    {"ignore_eos",            REQ_ANY,        req__take_bool,       REQ_AT(ask.gen.ignore_eos),     0,         0},
    {"min_tokens",            REQ_ANY,        req__take_int,        REQ_AT(ask.gen.n_least),        0,         INT32_MAX},
    {"stop_token_ids",        REQ_ANY,        req__take_stop_ids,   0,                              0,         0},
    {"skip_special_tokens",   REQ_ANY,        req__take_skip,       0,                              0,         0},
    {"priority",              REQ_ANY,        req__take_int,        REQ_AT(priority),               INT32_MIN, INT32_MAX},
    {"lora",                  REQ_ALL,        req__take_lora,       0,                              0,         0},
    {"response_format",       REQ_ANY,        req__take_format,     0,                              0,         0},
    {"grammar",               REQ_ANY,        req__take_grammar,    0,                              0,         0},
    {"regex",                 REQ_ANY,        req__take_regex,      0,                              0,         0},
    {"structured_outputs",    REQ_ANY,        req__take_structured, 0,                              0,         0},
    {"json_schema",           REQ_ANY,        req__take_schema,     0,                              0,         0},
    {"guided_json",           REQ_ANY,        req__take_schema,     0,                              0,         0},
    {"guided_regex",          REQ_ANY,        req__take_regex,      0,                              0,         0},
    {"guided_choice",         REQ_ANY,        req__take_choice_of,  0,                              0,         0},
    {"guided_grammar",        REQ_ANY,        req__take_grammar,    0,                              0,         0},
    {"tools",                 REQ_ANY,        req__take_tools,      0,                              0,         0},
    {"tool_choice",           REQ_ANY,        req__take_choice,     0,                              0,         0},
    {"functions",             REQ_CHAT,       req__take_functions,  0,                              0,         0},
    {"function_call",         REQ_CHAT,       req__take_function_call, 0,                           0,         0},
    {"parallel_tool_calls",   REQ_CHAT,       req__take_bool,       REQ_AT(many_calls),             0,         0},
    {"reasoning_effort",      REQ_CHAT,       req__take_effort,     0,                              0,         0},
    {"chat_template_kwargs",  REQ_CHAT,       req__take_kwargs,     0,                              0,         0},
    {"add_generation_prompt", REQ_CHAT,       req__take_opening,    0,                              0,         0},
    {"continue_final_message", REQ_CHAT,      req__take_continue,   0,                              0,         0},
    {"modalities",            REQ_CHAT,       req__take_modalities, 0,                              0,         0},
    {"model",                 REQ_ALL,        req__take_nothing,    0,                              0,         0},
    {"user",                  REQ_ALL,        req__take_nothing,    0,                              0,         0},
    {"metadata",              REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"store",                 REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"service_tier",          REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"verbosity",             REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"prompt_cache_key",      REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"prompt_cache_retention", REQ_ANY,       req__take_nothing,    0,                              0,         0},
    {"safety_identifier",     REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"stream",                REQ_ANY,        req__take_false,      0,                              0,         0},
    {"echo",                  REQ_ANY,        req__take_false,      0,                              0,         0},
    {"best_of",               REQ_ANY,        req__take_bounded,    0,                              1,         1},
};
#undef REQ_AT

/* The keys of bodies that change an answer, or, with idle, those that are taken and change nothing. */
static void req_list_keys(bool idle, str *out) {
    for (size_t i = 0; i < sizeof req_keys / sizeof *req_keys; i++) {
        const bool ignored = req_keys[i].take == req__take_nothing || req_keys[i].take == req__take_false ||
                             req_keys[i].take == req__take_bounded || req_keys[i].take == req__take_modalities;
        if (ignored == idle) str_fmt(out, "%s%s", out->n ? ", " : "", req_keys[i].name);
    }
    for (int i = 0; i < SAMP_PARAMS && !idle; i++)
        if (samp_params[i].json) str_fmt(out, ", %s", samp_params[i].json);
}

/* A parameter of the sampler. */
static bool req__take_param(req_in *r, const samp_param *p, val v) {
    const req_key k = {.name = p->json, .at = offsetof(req, ask.samp) + p->at, .lo = p->lo, .hi = p->hi};
    return p->whole ? req__take_int(r, &k, v) : req__take_float(r, &k, v);
}

static bool req__key(req_in *r, val name, val v) {
    const req_key *k = req_keys, *end = req_keys + sizeof req_keys / sizeof *req_keys;
    const unsigned shape = req__shape(r->q);
    if (v.kind == VAL_NONE) return true;
    for (int i = 0; i < SAMP_PARAMS && shape != REQ_EMBED; i++)
        if (samp_params[i].json && val_is_str(name, samp_params[i].json)) return req__take_param(r, &samp_params[i], v);
    while (k < end && !val_is_str(name, k->name)) k++;
    if (k == end) return err_set(r->e, EXIT_INPUT,
                       "unknown key '%s' in the body (--prompt-template makes prompts of any objects; metadata may hold what "
                       "goes along)",
                       req__show(name.s).text);
    if (!(k->where & shape))
        return req__bad(r, k->name, "belongs to %s, found in a body for %s", req__url(k->where), req__url(shape));
    return k->take(r, k, v);
}

/* The tool of this name; VAL_UNDEF: there is none, and e says so. */
static val req__tool(req_in *r, val name) {
    const val tools = val_get(r->q->input.vars, "tools");
    for (size_t i = 0; tools.kind == VAL_LIST && i < tools.list->n; i++) {
        const val f = val_get(tools.list->at[i], "function"), known = val_get(f.kind == VAL_DICT ? f : tools.list->at[i], "name");
        if (known.kind == VAL_STR && name.kind == VAL_STR && val_str_eq(known.s, name.s)) return tools.list->at[i];
    }
    if (name.kind == VAL_STR)
        req__bad(r, r->choice_key, "found '%s', expected the name of one of the tools", req__show(name.s).text);
    else req__not(r, r->choice_key, name, "the name of one of the tools");
    return val_undef(NULL);
}

/* Those of the tools that may be called. */
static bool req__check_allowed(req_in *r) {
    val_env  *env = &r->q->input.env;
    const val list = val_list_new(env);
    for (size_t i = 0; i < r->allowed.list->n; i++) {
        const val one = r->allowed.list->at[i], f = val_get(one, "function");
        const val tool = req__tool(r, val_get(f.kind == VAL_DICT ? f : one, "name"));
        if (tool.kind == VAL_UNDEF) return false;
        val_list_add(env, list.list, tool);
    }
    r->q->input.allowed = list;
    return true;
}

/* A call that must be made is of one of the tools, and so are those that may be made. */
static bool req__check_choice(req_in *r) {
    const val tools = val_get(r->q->input.vars, "tools");
    if (r->allowed.kind == VAL_LIST && !req__check_allowed(r)) return false;
    if (r->q->input.choice != CHAT_CALL_REQUIRED) return true;
    if (tools.kind != VAL_LIST) return req__bad(r, r->choice_key, "a call without tools, expected tools beside it");
    if (r->call.kind == VAL_UNDEF) return true;
    if (req__tool(r, r->call).kind == VAL_UNDEF) return false;
    return r->q->input.call_name = r->q->call_name = req__own(r->call.s), true;
}

/* Checks the keys against each other, once all are read. */
static bool req__whole_body(req_in *r) {
    req *q = r->q;
    if (r->top >= 0) q->ask.top = r->top;
    q->many_calls = q->many_calls && !q->legacy;
    q->input.one_call = !q->many_calls;
    if (q->ask.gen.n_predict >= 0 && q->ask.gen.n_least > q->ask.gen.n_predict)
        return req__bad(r, "min_tokens", "%d is above the limit of %lld tokens", q->ask.gen.n_least,
                        (long long)q->ask.gen.n_predict);
    const val opening = val_get(q->input.vars, "add_generation_prompt");
    if (q->input.continues && opening.kind == VAL_BOOL && opening.b)
        return req__bad(r, "continue_final_message", "beside add_generation_prompt true, expected one of them");
    if (r->top > 0 && !q->ask.logprobs) return req__bad(r, "top_logprobs", "alone, expected \"logprobs\":true beside it");
    if (q->chat && val_get(q->input.vars, "messages").kind != VAL_LIST)
        return err_set(r->e, EXIT_INPUT, "the body has no messages");
    if (!q->chat && !q->n_prompt) return err_set(r->e, EXIT_INPUT, "the body has no %s", q->ask.embeds ? "input" : "prompt");
    if (q->chat) q->prompt = mem_new(q->n_prompt = 1, sizeof *q->prompt);
    if (q->ask.n * q->n_prompt > REQ_CHOICES)
        return req__bad(r, "n", "%d of each of %d prompts, expected at most %d in all", q->ask.n, q->n_prompt, REQ_CHOICES);
    q->n = q->ask.n * q->n_prompt;
    return !q->chat || req__check_choice(r);
}

/* bare: the body is the whole line, and custom_id may be in it. */
static bool req__body(req_in *r, const val_dict *body, bool bare) {
    for (size_t i = 0; i < body->n; i++) {
        if (bare && val_is_str(body->at[i].key, "custom_id")) continue;
        if (!req__key(r, body->at[i].key, body->at[i].value)) return false;
    }
    return req__whole_body(r);
}

/* Looks for custom_id among the keys of the object and sets it where it is a string, or to the digits of a number. */
static void req__find_id(req *q, bytes line) {
    const bytes id = bytes_member(line, "custom_id");
    str         text = {0};
    str_add(&text, "", 0);
    q->has_id = str_unquote(&text, id, true);
    if (!q->has_id && id.n && (isdigit(id.p[0]) || id.p[0] == '-')) str_add(&text, id.p, id.n), q->has_id = true;
    if (q->has_id) q->custom_id = str_bytes(&text);
    else str_drop(&text);
}

static bool req__custom_id(req_in *r, val v) {
    if (v.kind == VAL_UNDEF || v.kind == VAL_NONE) return true;
    if (v.kind != VAL_STR) {
        req__find_id(r->q, r->line);
        return req__not(r, "custom_id", v, "a string");
    }
    r->q->custom_id = req__own(v.s);
    return r->q->has_id = true;
}

/* The value of an envelope's key, which has to be one of two strings; returns which, or -1. */
static int req__choice(const req_in *r, val v, const char *name, const char *a, const char *b) {
    if (val_is_str(v, a)) return 0;
    if (b && val_is_str(v, b)) return 1;
    const char *or = b ? " or " : "", *other = b ? b : "";
    if (v.kind == VAL_STR) req__bad(r, name, "found '%s', expected %s%s%s", req__show(v.s).text, a, or, other);
    else req__bad(r, name, "found %s, expected %s%s%s", req__kind(v), a, or, other);
    return -1;
}

/* The url decides between a prompt, a chat and, where the run makes both, a vector. */
static bool req__url_of(req_in *r, val url) {
    req *q = r->q;
    if (q->ask.embeds) return req__choice(r, url, "url", req_embed_url, NULL) == 0;
    if (val_is_str(url, req_embed_url) && r->embed) {
        q->ask.embed = *r->embed;
        return q->ask.embeds = true;
    }
    if (val_is_str(url, req_embed_url)) {
        q->fault = req_unsupported;
        return req__bad(r, "url", "%s in a run that writes texts, expected --embed", req_embed_url);
    }
    const int shape = req__choice(r, url, "url", req_url, req_chat_url);
    q->chat = shape == 1;
    return shape >= 0;
}

static bool req__envelope(req_in *r, val line) {
    static const char *const names[] = {"custom_id", "method", "url", "body"};
    const val                body = val_get(line, "body");
    for (size_t k = 0; k < line.dict->n; k++) {
        const val name = line.dict->at[k].key;
        size_t    i = 0;
        while (i < 4 && !val_is_str(name, names[i])) i++;
        if (i == 4)
            return err_set(r->e, EXIT_INPUT, "unknown key '%s' beside custom_id, method, url and body",
                           req__show(name.s).text);
    }
    if (req__choice(r, val_get(line, "method"), "method", "POST", NULL) < 0) return false;
    if (!req__url_of(r, val_get(line, "url"))) return false;
    r->body = bytes_member(r->line, "body");
    return body.kind == VAL_DICT ? req__body(r, body.dict, false) : req__not(r, "body", body, "an object");
}

static bool req__object(req_in *r, val line) {
    static const char *const marks[] = {"method", "url", "body"};
    if (line.kind != VAL_DICT) return req__not(r, "the line", line, "an object");
    if (!req__custom_id(r, val_get(line, "custom_id"))) return false;
    for (size_t i = 0; i < 3; i++)
        if (val_get(line, marks[i]).kind != VAL_UNDEF) return req__envelope(r, line);
    const val messages = val_get(line, "messages");
    r->q->chat = !r->q->ask.embeds && messages.kind != VAL_UNDEF && messages.kind != VAL_NONE;
    r->body = r->line;
    return req__body(r, line.dict, true);
}

/* The custom_id that req_read() would find in a line of JSON, without reading the rest. q is dropped by the caller. */
static void req_read_id(req *q, bytes line) {
    *q = (req){0};
    req__find_id(q, line);
}

/* --- a line --- */

/* Parses the line and reads it. */
static void req__parse(val_env *env, void *ctx) {
    req_in *r = ctx;
    r->q->fault = req_bad_json;
    const val line = val_json_read(env, r->line, VAL_JSON_INPUT | VAL_JSON_STRICT);
    r->q->fault = req_invalid;
    r->q->input.vars = val_dict_new(env);
    r->ok = req__object(r, line);
}

/* What the template reads stays in q->input, for a chat alone. */
static bool req__json(req_in *r) {
    req *q = r->q;
    val_env_init(&q->input.env, REQ_MEMORY + 8 * (uint64_t)r->line.n, 0, NULL);
    val_run(&q->input.env, req__parse, r, r->e);
    if (q->fault == req_bad_json) req__find_id(q, r->line);
    q->input.env.most = 0;                            /* what is added to a line that was read does not fail */
    if (!r->ok || !q->chat) req_drop_input(q);
    return r->ok;
}

/* A plain line, as the prompt itself or as the message of a user. */
static void req__plain(req *q, bytes line, bool wrap) {
    q->prompt = mem_new(q->n_prompt = 1, sizeof *q->prompt);
    q->chat = wrap;
    if (!wrap) {
        str s = {0};
        str_add(&s, line.p, line.n);
        q->prompt->text = str_bytes(&s);
        return;
    }
    chat_input_begin(&q->input);
    chat_add(&q->input, "user", line);
}

/* A text that is the prompt, or the message of a user, of a line with this custom_id; empty: it has none. good: the text is
 * one; else the line has an error, and form may be NULL. *q need not hold anything before; the caller drops it. */
static void req_read_text(req *q, bytes text, bool good, bytes custom_id, const req_form *form) {
    str id = {0};
    *q = (req){.n = 1, .many_calls = true, .has_id = custom_id.n > 0};
    if (form) q->ask = *form->base;
    if (form && form->hold) q->hold = *form->hold;
    if (q->has_id) str_cat(&id, custom_id), q->custom_id = str_bytes(&id);
    if (good) req__plain(q, text, form->wrap);
}

/* Reads a list of adapters alone. */
static void req__parse_adapters(val_env *env, void *ctx) {
    static const req_key key = {.name = "lora"};
    req_in   *r = ctx;
    const val list = val_json_read(env, r->line, VAL_JSON_INPUT | VAL_JSON_STRICT);
    r->ok = list.kind == VAL_LIST ? req__take_lora(r, &key, list) : req__not(r, "the body", list, "a list of adapters");
}

/* The adapters of a body that is the value of a request's key lora, as a list. *q need not hold anything before, has these alone,
 * and is dropped by the caller in either case. False: e says why. */
static bool req_read_adapters(req *q, bytes list, err_t *e) {
    req_in  r = {.q = q, .line = list, .e = e};
    val_env env;
    *q = (req){0};
    val_env_init(&env, REQ_MEMORY + 8 * (uint64_t)list.n, 0, NULL);
    val_run(&env, req__parse_adapters, &r, e);
    val_env_drop(&env);
    return r.ok;
}

/* A line without its ending. *q need not hold anything before, holds custom_id wherever one could be read, and is
 * dropped by the caller in either case. False: e says why. */
static bool req_read(req *q, bytes line, const req_form *form, err_t *e) {
    req_in r = {.q = q, .line = line, .embed = form->embed, .n_vocab = form->n_vocab, .top = -1, .max = -1, .e = e};
    *q = (req){.n = 1, .ask = *form->base, .many_calls = true};
    if (form->hold) q->hold = *form->hold;
    if (!form->json) return req__plain(q, line, form->wrap), true;
    if (!req__json(&r)) return false;
    q->fault = NULL;
    return !q->chat || chat_input_check(&q->input, e) || (q->fault = req_invalid, false);
}

/* --- writing --- */

/* Begins a record. */
static void req__print_id(const req_origin *o, bytes custom_id, bool has_id, jw *w) {
    const unsigned long long line = o->line, a = o->digest.a, b = o->digest.b;
    jw_open(w, NULL, '{');
    jw_fmt(w, "id", "\"batch_req_%llu_%016llx%016llx\"", line, a, b);
    jw_maybe(w, "custom_id", custom_id, has_id);
    jw_fmt(w, "line", "%llu", line);
    if (o->file) jw_str(w, "file", o->file);
}

/* Other servers write -9999 too where JSON has no infinity. */
static double req__finite(float lp) { return isfinite(lp) ? (double)lp : -9999.0; }

static void req__print_lp(jw *w, const char *key, float lp) { jw_number(w, key, 9, req__finite(lp)); }

/* Control tokens are spelled as the vocabulary spells them. */
static bytes req__spell(const tok_vocab *v, int32_t id) {
    return tok_is_control(v, id) ? tok_text(v, id) : tok_piece(v, id);
}

/* The alternatives of one token as an object of texts, the picked one last where it is not among them. Keys are
 * unique: of tokens with the same text the likeliest is written. */
static void req__print_tops(const gen_answer *a, int i, const tok_vocab *v, jw *w) {
    const int      top = a->top;
    const int32_t *id = a->top_id + (size_t)i * (size_t)top;
    size_t         begin[REQ_TOP + 1];                /* of the keys, in the text */
    str           *out = w->to;
    int            n = 0;
    jw_open(w, NULL, '{');
    for (int k = 0; k <= top; k++) {
        const int32_t one = k < top ? id[k] : a->tok[i].id;
        const size_t  before = out->n;
        if (one < 0) continue;
        jw_key(w, NULL);
        begin[n] = out->n;
        str_json(out, req__spell(v, one));
        const size_t len = out->n - begin[n];
        bool         twice = false;
        for (int j = 0; j < n && !twice; j++) twice = memcmp(out->p + begin[j], out->p + begin[n], len) == 0;
        if (twice) {
            out->n = before;
            continue;
        }
        n++;
        str_fmt(out, ":%.9g", req__finite(k < top ? a->top_lp[(size_t)i * (size_t)top + (size_t)k] : a->tok[i].lp));
    }
    jw_close(w, '}');
}

static void req__print_bytes(bytes b, const char *key, jw *w) {
    jw_open(w, key, '[');
    for (size_t i = 0; i < b.n; i++) jw_fmt(w, NULL, "%d", b.p[i]);
    jw_close(w, ']');
}

/* The legacy form. text_offset counts bytes of this answer's text, from 0. */
static void req__print_legacy(const gen_answer *a, int from, int n, const tok_vocab *v, jw *w) {
    jw_open(w, "logprobs", '{');
    jw_open(w, "tokens", '[');
    for (int i = from; i < n; i++) jw_text(w, NULL, req__spell(v, a->tok[i].id));
    jw_close(w, ']');
    jw_open(w, "token_logprobs", '[');
    for (int i = from; i < n; i++) req__print_lp(w, NULL, a->tok[i].lp);
    jw_close(w, ']');
    if (a->top) {
        jw_open(w, "top_logprobs", '[');
        for (int i = from; i < n; i++) req__print_tops(a, i, v, w);
        jw_close(w, ']');
    } else jw_fmt(w, "top_logprobs", "null");
    jw_open(w, "text_offset", '[');
    for (int i = from; i < n; i++) jw_fmt(w, NULL, "%zu", i ? min_size(a->tok[i - 1].end, a->text.n) : 0);
    jw_close(w, ']');
    jw_open(w, "bytes", '[');
    for (int i = from; i < n; i++) req__print_bytes(req__spell(v, a->tok[i].id), NULL, w);
    jw_close(w, ']');
    jw_close(w, '}');
}

/* An object with token, logprob and bytes, which stays open. */
static void req__print_token(int32_t id, float lp, const tok_vocab *v, jw *w) {
    const bytes b = req__spell(v, id);
    jw_open(w, NULL, '{');
    jw_text(w, "token", b);
    req__print_lp(w, "logprob", lp);
    req__print_bytes(b, "bytes", w);
}

static void req__print_content(const gen_answer *a, int from, int n, const tok_vocab *v, jw *w) {
    jw_open(w, "logprobs", '{');
    jw_open(w, "content", '[');
    for (int i = from; i < n; i++) {
        req__print_token(a->tok[i].id, a->tok[i].lp, v, w);
        jw_open(w, "top_logprobs", '[');
        for (int k = 0; k < a->top; k++) {
            const size_t at = (size_t)i * (size_t)a->top + (size_t)k;
            if (a->top_id[at] < 0) break;
            req__print_token(a->top_id[at], a->top_lp[at], v, w);
            jw_close(w, '}');
        }
        jw_close(w, ']');
        jw_close(w, '}');
    }
    jw_close(w, ']');
    jw_fmt(w, "refusal", "null");
    jw_close(w, '}');
}

/* The logprobs of tokens from .. to (excluded) of an answer, as the shape of the request has them; null where none are wanted. */
static void req_print_logprobs(const req *q, const gen_answer *a, int from, int to, const tok_vocab *v, jw *w) {
    if (!q->ask.logprobs) jw_fmt(w, "logprobs", "null");
    else if (q->chat) req__print_content(a, from, to, v, w);
    else req__print_legacy(a, from, to, v, w);
}

/* The calls of an answer; the first one where the body wants one at most. */
static void req__print_calls(const req *q, const chat_answer *said, const char *key, jw *w) {
    call_list calls = said->calls;
    if (!q->many_calls) calls.n = 1;
    chat_put_calls(&calls, key, w);
}

static void req__print_message(const req *q, const chat_answer *said, jw *w) {
    jw_open(w, "message", '{');
    jw_str(w, "role", "assistant");
    jw_maybe(w, "content", str_bytes(&said->content), said->content.n || !said->calls.n);
    if (said->thinking.n) jw_text(w, "reasoning_content", str_bytes(&said->thinking));
    if (said->calls.n && q->legacy) chat_put_function(&said->calls, "function_call", w);
    else if (said->calls.n) req__print_calls(q, said, "tool_calls", w);
    jw_fmt(w, "refusal", "null");
    jw_close(w, '}');
}

static const char *req__finish(const req *q, const gen_answer *a, const chat_answer *said) {
    const char *name = said ? chat_finish_name(said, a->finish) : gen_finish_names[a->finish];
    return q->legacy && name && strcmp(name, "tool_calls") == 0 ? "function_call" : name;
}

/* said: the parts of the answer to a chat, else NULL. */
static void req__print_choice(const req *q, const gen_answer *a, const chat_answer *said, int index, unsigned fields,
                              const tok_vocab *v, jw *w) {
    const bytes text = str_bytes(said ? &said->content : &a->text);
    jw_open(w, NULL, '{');
    jw_fmt(w, "index", "%d", index);
    if (said) req__print_message(q, said, w);
    else jw_text(w, "text", text);
    jw_bytes(w, text);
    req_print_logprobs(q, a, 0, q->ask.logprobs ? gen_visible_tokens(a) : 0, v, w);
    jw_fmt(w, "finish_reason", "\"%s\"", req__finish(q, a, said));
    if (fields & REQ_LOGPROB) req__print_lp(w, "logprob", (float)gen_answer_logprob(a));
    jw_close(w, '}');
}

/* The ids of prompt i, which may have moved to o. */
static const tok_ids *req__ids(const req *q, const req_origin *o, int i) {
    return o->ids && o->ids[i].n ? &o->ids[i] : &q->prompt[i].ids;
}

static void req__print_prompt(const req *q, const req_origin *o, jw *w) {
    if (!q->n_prompt) jw_fmt(w, "prompt", "null");
    if (q->n_prompt > 1) jw_open(w, "prompt", '[');
    for (int i = 0; i < q->n_prompt; i++) {
        const tok_ids *ids = req__ids(q, o, i);
        const char    *key = q->n_prompt > 1 ? NULL : "prompt";
        if (q->prompt[i].text.p) jw_text(w, key, q->prompt[i].text);
        else if (!ids->n) jw_fmt(w, key, "null");
        else {
            jw_open(w, key, '[');
            for (size_t k = 0; k < ids->n; k++) jw_fmt(w, NULL, "%d", ids->id[k]);
            jw_close(w, ']');
        }
    }
    if (q->n_prompt > 1) jw_close(w, ']');
}

static void req__print_seconds(jw *w, const char *key, double x) {
    if (isfinite(x)) jw_fmt(w, key, "%.6f", x);
    else jw_fmt(w, key, "null");
}

/* The further fields that were asked for, and the end of the record. A seed is written as a body may have it, below 2^63. */
static void req__print_fields(const req *q, const req_origin *o, bool answered, jw *w) {
    bytes warnings = str_bytes(&q->warnings), one;
    if (warnings.n) {
        jw_open(w, "warnings", '[');
        while (bytes_cut_line(&warnings, &one)) jw_text(w, NULL, one);
        jw_close(w, ']');
    }
    if (o->fields & REQ_PROMPT) req__print_prompt(q, o, w);
    if (o->fields & REQ_SEED && answered) jw_fmt(w, "seed", "%lld", (long long)q->ask.seed);
    if (o->fields & REQ_TIMES && answered) {
        jw_open(w, "times", '{');
        req__print_seconds(w, "queued_s", o->times.queued);
        req__print_seconds(w, "first_token_s", o->times.first);
        req__print_seconds(w, "total_s", o->times.total);
        jw_close(w, '}');
    }
    if (q->passed.n) jw_key(w, "fields"), str_cat(w->to, q->passed);
    jw_close(w, '}');
    str_put(w->to, "\n");
}

/* The beginning of a body with an answer, up to its choices or vectors. */
static void req__print_head(const req *q, const req_origin *o, jw *w) {
    static const struct { unsigned shape; const char *id, *object; } kinds[] = {
        {REQ_COMPLETION, "cmpl", "text_completion"}, {REQ_CHAT, "chatcmpl", "chat.completion"}, {REQ_EMBED, "embd", "list"}};
    const unsigned long long line = o->line;
    size_t                   k = 0;
    while (kinds[k].shape != req__shape(q)) k++;
    if (o->id) jw_fmt(w, "id", "\"%s-%s\"", kinds[k].id, o->id);
    else jw_fmt(w, "id", "\"%s-%llu\"", kinds[k].id, line);
    jw_str(w, "object", kinds[k].object);
    jw_fmt(w, "created", "%lld", (long long)o->created);
    jw_str(w, "model", o->model_name);
    jw_str(w, "system_fingerprint", o->fingerprint);
}

/* The end of a body with an answer; made: tokens of all completions, -1: there are none. */
static void req__print_tail(const req_origin *o, long long made, jw *w) {
    jw_open(w, "usage", '{');
    jw_fmt(w, "prompt_tokens", "%d", o->n_prompt);
    if (made >= 0) jw_fmt(w, "completion_tokens", "%lld", made);
    jw_fmt(w, "total_tokens", "%lld", o->n_prompt + (made >= 0 ? made : 0));
    if (made >= 0) {
        jw_open(w, "prompt_tokens_details", '{');
        jw_fmt(w, "cached_tokens", "%d", o->n_cached);
        jw_close(w, '}');
    }
    jw_close(w, '}');
}

/* The object that answers a request, as OpenAI's servers send it. a: [q->n] the completions, or the texts as vectors; said:
 * [q->n] their parts, for a chat alone; NULL: the answers are texts. */
static void req_print_body(const req *q, const gen_answer *a, const chat_answer *said, const req_origin *o, const tok_vocab *v,
                           const char *key, jw *w) {
    long long made = q->ask.embeds ? -1 : 0;
    jw_open(w, key, '{');
    req__print_head(q, o, w);
    jw_open(w, q->ask.embeds ? "data" : "choices", '[');
    for (int i = 0; i < q->n && q->ask.embeds; i++)
        embed_put_object(a[i].vec, a[i].n_vec, a[i].width, embed_each(&q->ask.embed), q->base64, i, w);
    for (int i = 0; i < q->n && !q->ask.embeds; i++) {
        req__print_choice(q, &a[i], said ? &said[i] : NULL, i, o->fields, v, w);
        made += a[i].n_tok;
    }
    jw_close(w, ']');
    req__print_tail(o, made, w);
    jw_close(w, '}');
}

/* The whole record of a line, with its newline. The answers are those of req_print_body(). */
static void req_print(const req *q, const gen_answer *a, const chat_answer *said, const req_origin *o, const tok_vocab *v,
                      str *out) {
    const unsigned long long line = o->line;
    jw                       w = jw_tight(out);
    req__print_id(o, q->custom_id, q->has_id, &w);
    jw_open(&w, "response", '{');
    jw_fmt(&w, "status_code", "200");
    jw_fmt(&w, "request_id", "\"req_%llu\"", line);
    req_print_body(q, a, said, o, v, "body", &w);
    jw_close(&w, '}');
    jw_fmt(&w, "error", "null");
    req__print_fields(q, o, true, &w);
}

/* The record of a line that failed. */
static void req_print_error(const req *q, const req_origin *o, const char *code, const char *message, str *out) {
    jw w = jw_tight(out);
    req__print_id(o, q->custom_id, q->has_id, &w);
    jw_fmt(&w, "response", "null");
    jw_open(&w, "error", '{');
    jw_str(&w, "code", code);
    jw_str(&w, "message", message);
    jw_close(&w, '}');
    req__print_fields(q, o, false, &w);
}
