/* ===== [wire] the shapes of OpenAI's and Anthropic's APIs =====
 * Bodies of requests in, answers out, as bytes: no sockets, no threads, no model. A body of any shape becomes a line that
 * [req] reads, so that what a request may say is one table; an answer goes out as one JSON object or as a stream of events
 * (server-sent events), piece by piece as it is made. The state of an answer is a `wire`, which one thread uses at a time.
 *
 * Invariants:
 * - Values that this section does not have to understand are copied as the body writes them: numbers keep their digits.
 * - Whatever pieces a text comes in, no event ends inside a character, and the pieces joined are the text of the whole answer.
 * - An event has a key "error" only where it is an error: clients look for that key.
 * - Each shape's rows of wire_keys say which keys are taken, renamed, ignored or refused; all others are [req]'s.
 *
 * To add a key of a body: a row of wire_keys; TAKEN needs a reader in wire__chat_of_responses() or wire__chat_of_messages().
 * To add a kind of error: a row of wire_errors.
 * Public: wire_shape, wire_part, wire_usage, wire_origin, wire, wire_read, wire_drop, wire_param, wire_begin, wire_text,
 * wire_call, wire_logprobs, wire_finish, wire_end, wire_fail, wire_alive, wire_whole, wire_count, wire_error, wire_status,
 * wire_is_messages.
 * Opens: wire, wire_usage, wire_origin. */

typedef enum { WIRE_COMPLETION, WIRE_CHAT, WIRE_EMBED, WIRE_RERANK, WIRE_RESPONSES, WIRE_MESSAGES, WIRE_SHAPES } wire_shape;

/* The parts of an answer that are text; calls are the third. */
typedef enum { WIRE_CONTENT, WIRE_THINKING, WIRE_CALLS, WIRE_PARTS } wire_part;

/* Tokens. */
typedef struct {
    int prompt;                                       /* of all prompts */
    int cached;                                       /* of these, found in the cache */
    int made;                                         /* of all answers */
    int thought;                                      /* of these, thinking */
} wire_usage;

typedef struct {
    const char *id;                                   /* of the answer: letters and digits; the shape's prefix comes before it */
    const char *model_name;                           /* in answers */
    const char *fingerprint;                          /* of model and settings */
    int64_t     created;                              /* seconds since 1970 */
    int         n_prompt;                             /* tokens of the prompts, where they are known when the stream begins */
} wire_origin;

typedef struct {                                      /* one completion of a stream */
    str  held[WIRE_PARTS];                            /* bytes of a character that has not ended */
    str  logprobs;                                    /* that go out with the next piece; empty: none */
    bool begun;                                       /* the role has gone out */
    int  n_calls;                                     /* calls that have begun */
} wire_choice;

typedef struct {                                      /* a part of an answer of Responses or Messages: an item, or a block */
    wire_part   part;
    const char *state;                                /* in_progress, completed or incomplete */
    str         text;                                 /* content, thinking or arguments so far */
    str         id, name;                             /* of a call */
} wire_item;

typedef struct {                                      /* a tool whose name in the prompt is made of two */
    str    full;                                      /* in the prompt */
    size_t n_space;                                   /* bytes of the namespace at its beginning */
    size_t n_join;                                    /* bytes between that and the tool's own name */
} wire_tool;

typedef struct {
    wire_shape   shape;
    bool         stream;                              /* the body asks for events */
    bool         usage;                               /* and for one with the tokens */
    const char  *fault;                               /* what is wrong with the body, a row of wire_errors; NULL: nothing */
    /* of the body */
    str          query;                               /* WIRE_RERANK: the text that the inputs are held against */
    str          documents;                           /* JSON: the documents as the body has them, where they go back */
    int          top_n;                               /* best documents that are wanted; 0: all */
    str          echo;                                /* WIRE_RESPONSES: members of the body that go back, a comma after each */
    bool         sealed;                              /* reasoning.encrypted_content is wanted */
    wire_tool   *tool;                                /* [n_tool] of namespaces */
    size_t       n_tool;
    /* of the answer */
    bool         chat;                                /* choices are messages, else texts */
    bool         legacy;                              /* calls in OpenAI's older form */
    bool         many_calls;                          /* more than one call goes out */
    str          id;
    str          name;                                /* of the model */
    str          fingerprint;
    int64_t      created;
    wire_choice *choice;                              /* [n_choice] */
    int          n_choice;
    wire_item   *item;                                /* [n_item] of Responses and Messages; the last one may be open */
    size_t       n_item;
    uint64_t     sequence;                            /* number of the next event of Responses */
    gen_finish   why;                                 /* why the answer ended */
    str          stop;                                /* the stop text that ended it; empty: none of the body's */
    wire_usage   tokens;
} wire;

static void wire__item_drop(wire_item *i) { str_drop_all(&i->text, &i->id, &i->name); }

/* Frees what it owns; it is then an empty one. */
static void wire_drop(wire *w) {
    for (int i = 0; i < w->n_choice; i++) {
        for (int k = 0; k < WIRE_PARTS; k++) str_drop(&w->choice[i].held[k]);
        str_drop(&w->choice[i].logprobs);
    }
    for (size_t i = 0; i < w->n_item; i++) wire__item_drop(&w->item[i]);
    for (size_t i = 0; i < w->n_tool; i++) str_drop(&w->tool[i].full);
    mem_free_all(w->choice, w->item, w->tool);
    str_drop_all(&w->query, &w->documents, &w->echo, &w->id, &w->name, &w->fingerprint, &w->stop);
    *w = (wire){0};
}

/* --- errors --- */

static const struct wire_error {
    const char *name;                                 /* in this program */
    int         status;
    const char *openai;                               /* OpenAI's type */
    const char *code;                                 /* OpenAI's code; NULL: none */
    const char *anthropic;                            /* Anthropic's type */
} wire_errors[] = {
    {req_bad_json, 400, "invalid_request_error", NULL, "invalid_request_error"},
    {req_invalid, 400, "invalid_request_error", NULL, "invalid_request_error"},
    {req_unsupported, 400, "invalid_request_error", "unsupported_value", "invalid_request_error"},
    {"context_length_exceeded", 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error"},
    {"invalid_api_key", 401, "invalid_request_error", "invalid_api_key", "authentication_error"},
    {"forbidden", 403, "invalid_request_error", NULL, "permission_error"},
    {"not_found", 404, "invalid_request_error", NULL, "not_found_error"},
    {"model_not_found", 404, "invalid_request_error", "model_not_found", "not_found_error"},
    {"method_not_allowed", 405, "invalid_request_error", NULL, "invalid_request_error"},
    {"timeout", 408, "invalid_request_error", NULL, "timeout_error"},
    {"too_large", 413, "invalid_request_error", NULL, "request_too_large"},
    {"target_too_long", 414, "invalid_request_error", NULL, "invalid_request_error"},
    {"media_type", 415, "invalid_request_error", NULL, "invalid_request_error"},
    {"misdirected", 421, "invalid_request_error", NULL, "permission_error"},
    {"fields_too_large", 431, "invalid_request_error", NULL, "request_too_large"},
    {"rate_limit_exceeded", 429, "rate_limit_exceeded", "rate_limit_exceeded", "rate_limit_error"},
    {"server_error", 500, "server_error", NULL, "api_error"},
    {"not_supported_by_model", 501, "invalid_request_error", "unsupported_model", "invalid_request_error"},
    {"out_of_room", 503, "server_error", NULL, "overloaded_error"},
    {"overloaded", 503, "server_error", NULL, "overloaded_error"},
    {"version", 505, "invalid_request_error", NULL, "invalid_request_error"},
    {"quota", 507, "server_error", "insufficient_storage", "api_error"},
};

/* The row of an error; name NULL: the first with this status, else that of a server error. */
static const struct wire_error *wire__error_row(const char *name, int status) {
    const size_t n = sizeof wire_errors / sizeof *wire_errors;
    for (size_t i = 0; i < n; i++)
        if (name ? strcmp(wire_errors[i].name, name) == 0 : wire_errors[i].status == status) return &wire_errors[i];
    return status >= 400 && status < 500 ? wire__error_row(req_invalid, 0) : wire__error_row("server_error", 0);
}

/* The HTTP status of an error by its name, a row of wire_errors. */
static int wire_status(const char *name) { return wire__error_row(name, 0)->status; }

/* Whether errors of this path have Anthropic's shape. */
static bool wire_is_messages(bytes path) {
    if (bytes_begins(path, bytes_of("/v1/"))) path = bytes_slice(path, 3, path.n);
    const bytes one = bytes_of("/messages");
    return bytes_begins(path, one) && (path.n == one.n || path.p[one.n] == '/' || path.p[one.n] == '?');
}

/* The key that an error of [req] or of wire_read() is about, empty where it names none: what is before its colon, or the unknown
 * key that it names. */
static bytes wire_param(const err_t *e) {
    static const char unknown[] = "unknown key '";
    const char       *from = e->text, *end = strchr(e->text, ':');
    if (strncmp(from, unknown, strlen(unknown)) == 0) from += strlen(unknown), end = strchr(from, '\'');
    size_t n = 0;
    if (end)
        while (from + n < end && (isalnum((uint8_t)from[n]) || strchr("_.[]", from[n]))) n++;
    return end && from + n == end ? (bytes){(const uint8_t *)from, n} : (bytes){0};
}

static void wire__error_members(const struct wire_error *row, bytes param, const char *message, jw *j) {
    jw_str(j, "message", message);
    jw_str(j, "type", row->openai);
    jw_maybe(j, "param", param, param.n > 0);
    jw_maybe(j, "code", bytes_of(row->code ? row->code : ""), row->code != NULL);
}

static void wire__error_object(wire_shape shape, const struct wire_error *row, bytes param, const char *message, str *out) {
    jw j = jw_tight(out);
    jw_open(&j, NULL, '{');
    if (shape == WIRE_MESSAGES) jw_str(&j, "type", "error");
    jw_open(&j, "error", '{');
    if (shape == WIRE_MESSAGES) jw_str(&j, "type", row->anthropic), jw_str(&j, "message", message);
    else wire__error_members(row, param, message, &j);
    jw_close(&j, '}');
    jw_close(&j, '}');
}

/* The body of an error. name: a row of wire_errors; NULL: the first with this status. */
static void wire_error(wire_shape shape, const char *name, int status, bytes param, const char *message, str *out) {
    wire__error_object(shape, wire__error_row(name, status), param, message, out);
}

/* --- bodies: JSON as text. bytes_is_json() has passed all of it, so a value's bytes can be copied as they are. --- */

static bytes wire__member(bytes object, const char *name) {
    const bytes v = object.n && object.p[0] == '{' ? bytes_trim(bytes_member(object, name)) : (bytes){0};
    return bytes_is(v, "null") ? (bytes){0} : v;
}

static bool wire__is_list(bytes v) { return v.n && v.p[0] == '['; }
static bool wire__is_object(bytes v) { return v.n && v.p[0] == '{'; }
static bool wire__is_string(bytes v) { return v.n && v.p[0] == '"'; }

/* What is between the quotes of a string, with its escapes. */
static bytes wire__inside(bytes v) { return wire__is_string(v) ? bytes_slice(v, 1, v.n - 1) : (bytes){0}; }

/* Whether the value is this string, which has no character that needs an escape. */
static bool wire__is(bytes v, const char *text) {
    str        s = {0};
    bytes      in = wire__inside(v);
    const bool escapes = in.n && in.n <= 6 * strlen(text) && memchr(in.p, '\\', in.n);
    if (escapes && str_unquote(&s, v, false)) in = str_bytes(&s);
    const bool same = wire__is_string(v) && bytes_is(in, text);
    str_drop(&s);
    return same;
}

static const char *wire__kind(bytes v) {
    if (!v.n) return "nothing";
    switch (v.p[0]) {
    case '{': return "an object";
    case '[': return "a list";
    case '"': return "a string";
    case 't': return "true";
    case 'f': return "false";
    case 'n': return "null";
    default: return "a number";
    }
}

/* A string for a message. */
typedef struct {
    char text[48];
} wire__shown;

static wire__shown wire__show(bytes v) {
    wire__shown s;
    str         text = {0}, seen = {0};
    if (!str_unquote(&text, v, false)) str_put(&text, wire__kind(v));
    str_visible_line(&seen, (bytes){(const uint8_t *)text.p, (size_t)utf8_head(str_bytes(&text), 40)});
    snprintf(s.text, sizeof s.text, "%.47s", seen.p ? seen.p : "");
    str_drop_all(&text, &seen);
    return s;
}

typedef enum {
    WIRE_TAKEN,                                       /* read here */
    WIRE_RENAMED,                                     /* copied under the name in `as` */
    WIRE_IGNORED,                                     /* changes nothing here; the log says so */
    WIRE_NEVER,                                       /* refused unless it is null, false, 0 or `as`, which is what is expected */
} wire__way;

#define WIRE_IN(shape) (1u << (shape))
enum {
    WIRE_OWN = WIRE_IN(WIRE_CHAT) | WIRE_IN(WIRE_COMPLETION) | WIRE_IN(WIRE_EMBED),
    WIRE_CR = WIRE_IN(WIRE_CHAT) | WIRE_IN(WIRE_RESPONSES),
    WIRE_R = WIRE_IN(WIRE_RESPONSES),
    WIRE_M = WIRE_IN(WIRE_MESSAGES),
    WIRE_K = WIRE_IN(WIRE_RERANK),
    WIRE_ANY = WIRE_IN(WIRE_SHAPES) - 1
};

/* Keys of bodies; those that are in no row of their shape are [req]'s. */
static const struct wire_key {
    const char *name;
    unsigned    shapes;
    wire__way   way;
    const char *as;
} wire_keys[] = {
    {"stream", WIRE_ANY, WIRE_TAKEN, NULL},
    {"stream_options", WIRE_OWN | WIRE_R, WIRE_TAKEN, NULL},
    {"user", WIRE_OWN | WIRE_R | WIRE_K, WIRE_IGNORED, NULL},
    {"metadata", WIRE_OWN | WIRE_M, WIRE_IGNORED, NULL},
    {"metadata", WIRE_R, WIRE_TAKEN, NULL},
    {"store", WIRE_OWN, WIRE_IGNORED, NULL},
    {"service_tier", WIRE_OWN | WIRE_R | WIRE_M, WIRE_IGNORED, NULL},
    {"verbosity", WIRE_OWN, WIRE_IGNORED, NULL},
    {"prompt_cache_key", WIRE_OWN | WIRE_R, WIRE_IGNORED, NULL},
    {"prompt_cache_retention", WIRE_OWN | WIRE_R, WIRE_IGNORED, NULL},
    {"prompt_cache_options", WIRE_OWN | WIRE_R, WIRE_IGNORED, NULL},
    {"safety_identifier", WIRE_OWN | WIRE_R, WIRE_IGNORED, NULL},
    {"client_metadata", WIRE_OWN | WIRE_R, WIRE_IGNORED, NULL},
    {"include", WIRE_OWN, WIRE_IGNORED, NULL},
    {"cache_prompt", WIRE_OWN, WIRE_IGNORED, NULL},   /* this and what follows: llama.cpp's, without a use here */
    {"id_slot", WIRE_OWN, WIRE_IGNORED, NULL},
    {"timings_per_token", WIRE_OWN | WIRE_R, WIRE_IGNORED, NULL},
    {"return_progress", WIRE_OWN, WIRE_IGNORED, NULL},
    /* Responses */
    {"include", WIRE_R, WIRE_TAKEN, NULL},
    {"input", WIRE_R, WIRE_TAKEN, NULL},
    {"instructions", WIRE_R, WIRE_TAKEN, NULL},
    {"tools", WIRE_R | WIRE_M, WIRE_TAKEN, NULL},
    {"tool_choice", WIRE_R | WIRE_M, WIRE_TAKEN, NULL},
    {"text", WIRE_R, WIRE_TAKEN, NULL},
    {"reasoning", WIRE_R, WIRE_TAKEN, NULL},
    {"max_output_tokens", WIRE_R, WIRE_RENAMED, "max_completion_tokens"},
    {"max_tool_calls", WIRE_R, WIRE_IGNORED, NULL},
    {"truncation", WIRE_R, WIRE_NEVER, "disabled"},
    {"store", WIRE_R, WIRE_NEVER, "none: the server keeps no responses"},
    {"background", WIRE_R, WIRE_NEVER, "none: the server keeps no responses"},
    {"previous_response_id", WIRE_R, WIRE_NEVER, "none: the server keeps no responses, so input has the whole conversation"},
    {"conversation", WIRE_R, WIRE_NEVER, "none: the server keeps no conversations, so input has all of it"},
    {"prompt", WIRE_R, WIRE_NEVER, "none: the server keeps no prompt templates"},
    {"top_logprobs", WIRE_R, WIRE_NEVER, "none: answers of this endpoint have no logprobs"},
    {"n", WIRE_R | WIRE_M, WIRE_NEVER, "none: a request has one answer here"},
    /* Messages */
    {"messages", WIRE_R, WIRE_NEVER, "none: the conversation is in input"},
    {"messages", WIRE_M, WIRE_TAKEN, NULL},
    {"system", WIRE_M, WIRE_TAKEN, NULL},
    {"stop_sequences", WIRE_M, WIRE_RENAMED, "stop"},
    {"thinking", WIRE_M, WIRE_TAKEN, NULL},
    {"output_config", WIRE_M, WIRE_TAKEN, NULL},
    {"output_format", WIRE_M, WIRE_TAKEN, NULL},
    {"context_management", WIRE_M, WIRE_IGNORED, NULL},
    {"cache_control", WIRE_M, WIRE_IGNORED, NULL},
    {"betas", WIRE_M, WIRE_IGNORED, NULL},
    {"container", WIRE_M, WIRE_IGNORED, NULL},
    {"inference_geo", WIRE_M, WIRE_IGNORED, NULL},
    {"speed", WIRE_M, WIRE_IGNORED, NULL},
    {"mcp_servers", WIRE_M, WIRE_IGNORED, NULL},
    {"anthropic_version", WIRE_M, WIRE_IGNORED, NULL},
    /* rerank */
    {"query", WIRE_K, WIRE_TAKEN, NULL},
    {"documents", WIRE_K, WIRE_TAKEN, NULL},
    {"texts", WIRE_K, WIRE_TAKEN, NULL},              /* what text-embeddings-inference calls them */
    {"top_n", WIRE_K, WIRE_TAKEN, NULL},
    {"return_documents", WIRE_K, WIRE_TAKEN, NULL},
    {"max_chunks_per_doc", WIRE_K, WIRE_IGNORED, NULL},
    {"max_tokens_per_doc", WIRE_K, WIRE_IGNORED, NULL},
};
enum { WIRE_KEYS = sizeof wire_keys / sizeof *wire_keys };

typedef struct {                                      /* a body that is being read */
    wire  *w;
    err_t *e;
    bytes  got[WIRE_KEYS];                            /* values of the keys that are read here; empty: not given, or null */
    str    rest;                                      /* members of the chat's body, each with a comma before it */
    str    system;                                    /* the system message: the inside of a JSON string */
    str    messages;                                  /* other messages, with commas between them */
    str    tools;                                     /* the same of tools */
    str    skipped;                                   /* tools and items that are left out, for the log */
    str    ignored;                                   /* keys that are, for the log */
    bool   has_system;
    char   role;                                      /* of the turn that is being read: u, a; 0: none */
    str    text, thought;                             /* of it: insides of JSON strings */
    str    calls;                                     /* of it: items */
    bool   has_text;
} wire_in;

static void wire__in_drop(wire_in *in) {
    str_drop_all(&in->rest, &in->system, &in->messages, &in->tools, &in->skipped, &in->ignored, &in->text, &in->thought,
                 &in->calls);
}

__attribute__((format(printf, 3, 4))) static bool wire__bad(wire_in *in, const char *fault, const char *fmt, ...) {
    char    why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    in->w->fault = fault;
    return err_set(in->e, EXIT_INPUT, "%s", why);
}

/* The value of a key that is read here. */
static bytes wire__got(const wire_in *in, const char *name) {
    for (int i = 0; i < WIRE_KEYS; i++)
        if (in->got[i].n && strcmp(wire_keys[i].name, name) == 0) return in->got[i];
    return (bytes){0};
}

/* One more name for a line of the log, which stays short. */
static void wire__list_add(str *list, const char *name) {
    if (list->n < 300) str_fmt(list, "%s%s", list->n ? ", " : "", name);
    else if (!bytes_ends(str_bytes(list), bytes_of("..."))) str_put(list, ", ...");
}

/* The row of a key, given with its quotes; NULL: the shape has none. */
static const struct wire_key *wire__key(bytes key, wire_shape shape) {
    str                    name = {0};
    const struct wire_key *found = NULL;
    const bool             some = key.n < 256 && str_unquote(&name, key, false);
    for (int i = 0; some && i < WIRE_KEYS && !found; i++)
        if ((wire_keys[i].shapes & WIRE_IN(shape)) && bytes_is(str_bytes(&name), wire_keys[i].name)) found = &wire_keys[i];
    str_drop(&name);
    return found;
}

/* A member of the body that [req] reads. name: a JSON string. */
static void wire__rest(wire_in *in, bytes name, bytes value) {
    str_put(&in->rest, ",");
    str_cat(&in->rest, name);
    str_put(&in->rest, ":");
    str_cat(&in->rest, value);
}

static void wire__rest_as(wire_in *in, const char *name, bytes value) {
    str key = {0};
    str_json(&key, bytes_of(name));
    wire__rest(in, str_bytes(&key), value);
    str_drop(&key);
}

/* Sorts the members of a body by the table. */
static bool wire__members(wire_in *in, bytes body) {
    bytes key = {0}, value;
    while (bytes_cut_member(&body, &key, &value)) {
        const struct wire_key *k = wire__key(key, in->w->shape);
        value = bytes_trim(value);
        if (!k) wire__rest(in, key, value);
        else if (bytes_is(value, "null")) continue;
        else if (k->way == WIRE_TAKEN) in->got[k - wire_keys] = value;
        else if (k->way == WIRE_RENAMED) wire__rest_as(in, k->as, value);
        else if (k->way == WIRE_IGNORED) wire__list_add(&in->ignored, k->name);
        else if (!bytes_is(value, "false") && !bytes_is(value, "0") && !wire__is(value, k->as))
            return wire__bad(in, req_unsupported, "%s: found %s, expected %s", k->name,
                             wire__is_string(value) ? wire__show(value).text : wire__kind(value), k->as);
    }
    return true;
}

/* stream and stream_options. */
static bool wire__stream_of(wire_in *in) {
    const bytes stream = wire__got(in, "stream"), options = wire__got(in, "stream_options");
    const bytes usage = wire__member(options, "include_usage");
    in->w->stream = bytes_is(stream, "true");
    in->w->usage = in->w->stream && bytes_is(usage, "true");
    if (stream.n && !in->w->stream && !bytes_is(stream, "false"))
        return wire__bad(in, req_invalid, "stream: found %s, expected true or false", wire__kind(stream));
    if (options.n && !wire__is_object(options))
        return wire__bad(in, req_invalid, "stream_options: found %s, expected an object", wire__kind(options));
    if (in->w->stream && (in->w->shape == WIRE_EMBED || in->w->shape == WIRE_RERANK))
        return wire__bad(in, req_unsupported, "stream: true, expected false: vectors and scores come as one object");
    return true;
}

/* --- conversations: turns of a user and of the assistant, which become messages of a chat --- */

static void wire__message(wire_in *in, const char *role, bytes members) {
    str_fmt(&in->messages, "%s{\"role\":\"%s\"", in->messages.n ? "," : "", role);
    str_cat(&in->messages, members);
    str_put(&in->messages, "}");
}

/* Appends a member whose value is a string with this inside. */
static void wire__put_string(str *s, const char *name, bytes inside) {
    str_fmt(s, ",\"%s\":\"", name);
    str_cat(s, inside);
    str_put(s, "\"");
}

/* The turn is over and becomes a message. Several parts of one role in a row are one turn, as Anthropic's servers have it: many
 * templates want user and assistant to alternate. */
static void wire__end_turn(wire_in *in) {
    str m = {0};
    if (in->role == 'u') wire__put_string(&m, "content", str_bytes(&in->text));
    else if (in->role == 'a') {
        if (in->has_text || !in->calls.n) wire__put_string(&m, "content", str_bytes(&in->text));
        else str_put(&m, ",\"content\":null");
        if (in->thought.n) wire__put_string(&m, "reasoning_content", str_bytes(&in->thought));
        if (in->calls.n) str_put(&m, ",\"tool_calls\":["), str_cat(&m, str_bytes(&in->calls)), str_put(&m, "]");
    }
    if (in->role) wire__message(in, in->role == 'u' ? "user" : "assistant", str_bytes(&m));
    in->role = 0;
    in->has_text = false;
    str_clear(&in->text), str_clear(&in->thought), str_clear(&in->calls);
    str_drop(&m);
}

static void wire__turn(wire_in *in, char role) {
    if (in->role != role) wire__end_turn(in);
    in->role = role;
}

static void wire__join(str *to, bytes inside, const char *between) {
    if (to->n && inside.n) str_put(to, between);
    str_cat(to, inside);
}

static void wire__say(wire_in *in, char role, bytes inside) {
    wire__turn(in, role);
    wire__join(&in->text, inside, "\\n");
    in->has_text = in->has_text || inside.n;
}

/* A call of the assistant's turn. id, name: insides of strings; arguments: JSON that becomes a string, or with `inside` what is
 * inside of one. */
static void wire__say_call(wire_in *in, bytes id, bytes name, bytes arguments, bool inside) {
    wire__turn(in, 'a');
    str_put(&in->calls, in->calls.n ? ",{\"type\":\"function\"" : "{\"type\":\"function\"");
    if (id.n) wire__put_string(&in->calls, "id", id);
    str_put(&in->calls, ",\"function\":{\"name\":\"");
    str_cat(&in->calls, name);
    str_put(&in->calls, "\",\"arguments\":");
    if (inside) str_put(&in->calls, "\""), str_cat(&in->calls, arguments), str_put(&in->calls, "\"");
    else str_json_exact(&in->calls, arguments);
    str_put(&in->calls, "}}");
}

/* What a tool gave back. */
static void wire__say_result(wire_in *in, bytes id, bytes inside) {
    str m = {0};
    wire__end_turn(in);
    if (id.n) wire__put_string(&m, "tool_call_id", id);
    wire__put_string(&m, "content", inside);
    wire__message(in, "tool", str_bytes(&m));
    str_drop(&m);
}

/* A part of the system message. One is made of all that come before the conversation: many templates take one alone, at the
 * beginning. */
static void wire__say_system(wire_in *in, bytes inside) {
    wire__join(&in->system, inside, "\\n\\n");
    in->has_system = true;
}

/* The text of a part of a content; empty: the part has none. */
static bytes wire__part_text(bytes part, bytes type) {
    if (wire__is_string(part)) return part;
    return wire__member(part, wire__is(type, "refusal") ? "refusal" : wire__is(type, "thinking") ? "thinking" : "text");
}

/* Says in the text that a part of this type is left out. */
static void wire__leave_out(wire_in *in, bytes type, str *out) {
    str note = {0}, json = {0};
    str_fmt(&note, "[%s left out]", wire__show(type).text);
    str_json(&json, str_bytes(&note));
    wire__join(out, wire__inside(str_bytes(&json)), "\\n");
    wire__list_add(&in->skipped, wire__show(type).text);
    str_drop_all(&note, &json);
}

/* The text of a content: a string, or a list of parts of these types, joined by newlines and appended as the inside of a
 * string. pictures: others are left out, else they are an error. where: the content, in messages. */
static bool wire__content(wire_in *in, bytes v, const char *where, bool pictures, str *out) {
    static const char types[] = "text input_text output_text refusal reasoning_text summary_text thinking";
    bytes             part;
    str_add(out, "", 0);
    if (!v.n) return true;
    if (wire__is_string(v)) return str_cat(out, wire__inside(v)), true;
    if (!wire__is_list(v))
        return wire__bad(in, req_invalid, "%s: found %s, expected a string or a list of parts", where, wire__kind(v));
    for (size_t i = 0; bytes_cut_item(&v, &part); i++) {
        const bytes type = wire__member(part, "type"), text = wire__part_text(part, type);
        const bool  other = type.n && !bytes_among(wire__inside(type), types);
        if (other && !pictures)
            return wire__bad(in, req_unsupported, "%s[%zu]: found a part of type %s, expected text", where, i,
                             wire__show(type).text);
        if (!other && !wire__is_string(text))
            return wire__bad(in, req_invalid, "%s[%zu]: found %s as text, expected a string", where, i, wire__kind(text));
        if (other) wire__leave_out(in, type, out);
        else wire__join(out, wire__inside(text), "\\n");
    }
    return true;
}

/* A tool, as chat completions have it. name: the inside of a string; schema: empty where there is none. */
static void wire__tool(wire_in *in, bytes name, bytes description, bytes schema, bytes strict) {
    str *s = &in->tools;
    str_put(s, s->n ? ",{\"type\":\"function\",\"function\":{\"name\":\"" : "{\"type\":\"function\",\"function\":{\"name\":\"");
    str_cat(s, name);
    str_put(s, "\"");
    if (wire__is_string(description)) str_put(s, ",\"description\":"), str_cat(s, description);
    if (schema.n) str_put(s, ",\"parameters\":"), str_cat(s, schema);
    if (strict.n) str_put(s, ",\"strict\":"), str_cat(s, strict);
    str_put(s, "}}");
}

static bool wire__tool_name(wire_in *in, bytes tool, size_t i, bytes *name) {
    const bytes v = wire__member(tool, "name");
    *name = wire__inside(v);
    return name->n || wire__bad(in, req_invalid, "tools[%zu].name: found %s, expected the name of a function", i,
                                v.n ? wire__kind(v) : "nothing");
}

/* --- Responses --- */

/* The name in the prompt of a tool of a namespace. Both are insides of strings. */
static void wire__full_name(bytes space, bytes name, str *out) {
    str_cat(out, space);
    if (space.n && !bytes_ends(space, bytes_of("__"))) str_put(out, "__");
    str_cat(out, name);
}

/* Appends what the inside of a string stands for. */
static void wire__unquote(bytes inside, str *out) {
    str json = {0};
    str_put(&json, "\""), str_cat(&json, inside), str_put(&json, "\"");
    str_unquote(out, str_bytes(&json), false);
    str_drop(&json);
}

/* What the answer has to know of a tool of a namespace. Both are insides of strings. */
static void wire__note_tool(wire *w, bytes space, bytes full) {
    str own = {0};
    MEM_PUSH(w->tool, w->n_tool, (wire_tool){0});
    wire_tool *t = &w->tool[w->n_tool - 1];
    wire__unquote(space, &own);
    wire__unquote(full, &t->full);
    t->n_space = own.n;
    t->n_join = bytes_ends(space, bytes_of("__")) ? 0 : 2;
    str_drop(&own);
}

static bool wire__function(wire_in *in, bytes tool, size_t i, bytes space) {
    str   full = {0};
    bytes name;
    if (!wire__tool_name(in, tool, i, &name)) return false;
    wire__full_name(space, name, &full);
    wire__tool(in, str_bytes(&full), wire__member(tool, "description"), wire__member(tool, "parameters"),
               wire__member(tool, "strict"));
    if (space.n) wire__note_tool(in->w, space, str_bytes(&full));
    str_drop(&full);
    return true;
}

/* Functions, and those of namespaces; tools that a server of OpenAI runs, or that are no functions, are left out. */
static bool wire__tools(wire_in *in, bytes list) {
    bytes tool, rest = list;
    if (list.n && !wire__is_list(list)) return wire__bad(in, req_invalid, "tools: found %s, expected a list", wire__kind(list));
    for (size_t i = 0; bytes_cut_item(&rest, &tool); i++) {
        const bytes type = wire__member(tool, "type");
        if (!wire__is_object(tool)) return wire__bad(in, req_invalid, "tools[%zu]: found %s, expected an object", i,
                                                     wire__kind(tool));
        if (wire__is(type, "namespace")) {
            const bytes space = wire__inside(wire__member(tool, "name"));
            bytes       inner = wire__member(tool, "tools"), one;
            while (bytes_cut_item(&inner, &one))
                if (wire__is(wire__member(one, "type"), "function")) {
                    if (!wire__function(in, one, i, space)) return false;
                } else wire__list_add(&in->skipped, wire__show(wire__member(one, "type")).text);
        } else if (wire__is(type, "function")) {
            if (!wire__function(in, tool, i, (bytes){0})) return false;
        } else if (type.n) wire__list_add(&in->skipped, wire__show(type).text);
        else return wire__bad(in, req_invalid, "tools[%zu].type: found nothing, expected function", i);
    }
    return true;
}

static void wire__choose(wire_in *in, bytes name) {
    str choice = {0};
    str_put(&choice, "{\"type\":\"function\",\"function\":{\"name\":\"");
    str_cat(&choice, name);
    str_put(&choice, "\"}}");
    wire__rest_as(in, "tool_choice", str_bytes(&choice));
    str_drop(&choice);
}

/* Words, {"type":"function","name":NAME}, {"type":"allowed_tools",...}: [req] reads the latter as they are. */
static bool wire__tool_choice(wire_in *in, bytes v) {
    const bytes type = wire__member(v, "type");
    str         full = {0};
    if (!v.n || (!in->tools.n && wire__is(v, "auto"))) return true;
    if (wire__is(type, "function") && wire__is_string(wire__member(v, "name"))) {
        wire__full_name(wire__inside(wire__member(v, "namespace")), wire__inside(wire__member(v, "name")), &full);
        wire__choose(in, str_bytes(&full));
        str_drop(&full);
    } else wire__rest_as(in, "tool_choice", v);
    return true;
}

/* text.format becomes response_format. */
static bool wire__text_format(wire_in *in, bytes v) {
    const bytes format = wire__member(v, "format"), schema = wire__member(format, "schema");
    str         out = {0};
    if (v.n && !wire__is_object(v)) return wire__bad(in, req_invalid, "text: found %s, expected an object", wire__kind(v));
    if (wire__member(v, "verbosity").n) wire__list_add(&in->ignored, "text.verbosity");
    if (!format.n) return true;
    if (!wire__is(wire__member(format, "type"), "json_schema")) return wire__rest_as(in, "response_format", format), true;
    if (!schema.n) return wire__bad(in, req_invalid, "text.format.schema: found nothing, expected a JSON Schema");
    str_put(&out, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
    str_cat(&out, schema);
    str_put(&out, "}}");
    wire__rest_as(in, "response_format", str_bytes(&out));
    str_drop(&out);
    return true;
}

static bool wire__reasoning(wire_in *in, bytes v) {
    const bytes effort = wire__member(v, "effort");
    if (v.n && !wire__is_object(v)) return wire__bad(in, req_invalid, "reasoning: found %s, expected an object", wire__kind(v));
    if (wire__is(effort, "none")) wire__rest_as(in, "chat_template_kwargs", bytes_of("{\"enable_thinking\":false}"));
    if (effort.n) wire__rest_as(in, "reasoning_effort", effort);
    if (wire__member(v, "summary").n || wire__member(v, "generate_summary").n) wire__list_add(&in->ignored, "reasoning.summary");
    return true;
}

static const char wire__seal[] = "llmrun:";           /* before thinking that goes to a client to come back */

/* Thinking that comes back: its text, or what this server sealed. */
static bool wire__item_reasoning(wire_in *in, bytes item, const char *where) {
    const bytes sealed = wire__inside(wire__member(item, "encrypted_content"));
    bytes       content = wire__member(item, "content");
    str         text = {0};
    bool        ok = true;
    if (!content.n && bytes_begins(sealed, bytes_of(wire__seal))) {
        str plain = {0}, json = {0};
        str_unbase64(&plain, bytes_slice(sealed, strlen(wire__seal), sealed.n));
        str_json(&json, str_bytes(&plain));
        str_cat(&text, wire__inside(str_bytes(&json)));
        str_drop_all(&plain, &json);
    } else ok = wire__content(in, content.n ? content : wire__member(item, "summary"), where, false, &text);
    if (ok && text.n) {
        wire__turn(in, 'a');
        if (in->calls.n || in->has_text) wire__end_turn(in), in->role = 'a';
        wire__join(&in->thought, str_bytes(&text), "\\n");
    }
    str_drop(&text);
    return ok;
}

static bool wire__item_message(wire_in *in, bytes item, const char *where) {
    const bytes role = wire__member(item, "role");
    str         text = {0};
    bool        ok = wire__content(in, wire__member(item, "content"), where, false, &text);
    const bool  system = wire__is(role, "system") || wire__is(role, "developer");
    if (ok && wire__is(role, "user")) wire__say(in, 'u', str_bytes(&text));
    else if (ok && wire__is(role, "assistant")) wire__say(in, 'a', str_bytes(&text));
    else if (ok && system && !in->messages.n && !in->role) wire__say_system(in, str_bytes(&text));
    else if (ok && system) {
        str m = {0};
        wire__end_turn(in);
        wire__put_string(&m, "content", str_bytes(&text));
        wire__message(in, "system", str_bytes(&m));
        str_drop(&m);
    } else if (ok)
        ok = wire__bad(in, req_invalid, "%s: role is %s, expected user, assistant, system or developer", where,
                       wire__show(role).text);
    str_drop(&text);
    return ok;
}

static bool wire__item_call(wire_in *in, bytes item, const char *where, const char *arguments) {
    const bytes id = wire__inside(wire__member(item, "call_id")), given = wire__member(item, arguments);
    const bytes name = wire__inside(wire__member(item, "name")), space = wire__inside(wire__member(item, "namespace"));
    str         full = {0}, wrapped = {0};
    wire__full_name(space, name.n ? name : bytes_of("local_shell"), &full);
    if (strcmp(arguments, "input") == 0) {            /* a call with free text */
        str_put(&wrapped, "{\"input\":"), str_cat(&wrapped, given.n ? given : bytes_of("\"\"")), str_put(&wrapped, "}");
        wire__say_call(in, id, str_bytes(&full), str_bytes(&wrapped), false);
    } else if (wire__is_string(given)) wire__say_call(in, id, str_bytes(&full), wire__inside(given), true);
    else wire__say_call(in, id, str_bytes(&full), given.n ? given : bytes_of("{}"), false);
    str_drop_all(&full, &wrapped);
    return name.n || strcmp(arguments, "action") == 0 || wire__bad(in, req_invalid, "%s: a call without a name", where);
}

static bool wire__item_output(wire_in *in, bytes item, const char *where) {
    str        text = {0};
    const bool ok = wire__content(in, wire__member(item, "output"), where, true, &text);
    if (ok) wire__say_result(in, wire__inside(wire__member(item, "call_id")), str_bytes(&text));
    str_drop(&text);
    return ok;
}

/* One item of input. */
static bool wire__item_in(wire_in *in, bytes item, size_t i) {
    static const char hosted[] = "web_search_call file_search_call image_generation_call code_interpreter_call computer_call "
                                 "computer_call_output mcp_call mcp_list_tools mcp_approval_request mcp_approval_response "
                                 "compaction compaction_summary ghost_snapshot tool_search_call tool_search_output";
    const bytes type = wire__member(item, "type"), word = wire__inside(type);
    char        where[40];
    snprintf(where, sizeof where, "input[%zu]", i);
    if (!wire__is_object(item)) return wire__bad(in, req_invalid, "%s: found %s, expected an object", where, wire__kind(item));
    if (!type.n || wire__is(type, "message")) return wire__item_message(in, item, where);
    if (wire__is(type, "function_call")) return wire__item_call(in, item, where, "arguments");
    if (wire__is(type, "custom_tool_call")) return wire__item_call(in, item, where, "input");
    if (wire__is(type, "local_shell_call")) return wire__item_call(in, item, where, "action");
    if (bytes_among(word, "function_call_output custom_tool_call_output local_shell_call_output"))
        return wire__item_output(in, item, where);
    if (wire__is(type, "reasoning")) return wire__item_reasoning(in, item, where);
    if (bytes_among(word, hosted)) return wire__list_add(&in->skipped, wire__show(type).text), true;
    return wire__bad(in, req_unsupported,
                     "%s: found an item of type %s, expected message, function_call, function_call_output or "
                     "reasoning", where, wire__show(type).text);
}

/* Members of the response that repeat the request. */
static void wire__echo(wire_in *in, bytes body) {
    static const struct { const char *name, *none; } keys[] = {
        {"instructions", "null"}, {"max_output_tokens", "null"}, {"metadata", "{}"}, {"parallel_tool_calls", "true"},
        {"temperature", "null"}, {"tool_choice", "\"auto\""}, {"tools", "[]"}, {"top_p", "null"}, {"reasoning", "null"},
        {"text", "{\"format\":{\"type\":\"text\"}}"}, {"truncation", "\"disabled\""}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const bytes v = wire__member(body, keys[i].name);
        str         one = {0};
        str_json_copy(&one, v.n ? v : bytes_of(keys[i].none), false);
        str_fmt(&in->w->echo, "\"%s\":", keys[i].name);
        for (size_t k = 0; k < one.n; k++)            /* an event is one line, and strings have no newline */
            if (one.p[k] != '\n' && one.p[k] != '\r') str_add(&in->w->echo, &one.p[k], 1);
        str_put(&in->w->echo, ",");
        str_drop(&one);
    }
}

static bool wire__chat_of_responses(wire_in *in, bytes body) {
    bytes       input = wire__got(in, "input"), item, included = wire__got(in, "include");
    const bytes instructions = wire__got(in, "instructions");
    str         text = {0};
    bool        ok = wire__content(in, instructions, "instructions", false, &text);
    if (ok && text.n) wire__say_system(in, str_bytes(&text));
    str_drop(&text);
    if (!ok) return false;
    while (bytes_cut_item(&included, &item)) {
        in->w->sealed = in->w->sealed || wire__is(item, "reasoning.encrypted_content");
        if (!wire__is(item, "reasoning.encrypted_content")) wire__list_add(&in->ignored, "include");
    }
    if (wire__is_string(input)) wire__say(in, 'u', wire__inside(input));
    else if (!wire__is_list(input))
        return wire__bad(in, req_invalid, "input: found %s, expected a text or a list of items", wire__kind(input));
    for (size_t i = 0; wire__is_list(input) || (i && input.n); i++) {
        if (!bytes_cut_item(&input, &item)) break;
        if (!wire__item_in(in, item, i)) return false;
    }
    wire__echo(in, body);
    return wire__tools(in, wire__got(in, "tools")) && wire__tool_choice(in, wire__got(in, "tool_choice")) &&
           wire__text_format(in, wire__got(in, "text")) && wire__reasoning(in, wire__got(in, "reasoning"));
}

/* --- Messages --- */

/* A text of the system prompt. Claude Code's first one has five characters that are new in each request, and so no prefix of two
 * prompts would be the same. */
static void wire__system_text(wire_in *in, bytes inside) {
    static const char head[] = "x-anthropic-billing-header:";
    str               own = {0};
    str_cat(&own, inside);
    size_t at = bytes_begins(inside, bytes_of(head)) ? bytes_find(inside, 0, bytes_of("cch=")) : SIZE_MAX;
    if (at != SIZE_MAX)
        for (at += 4; at < own.n && isalnum((uint8_t)own.p[at]); at++) own.p[at] = '0';
    wire__say_system(in, str_bytes(&own));
    str_drop(&own);
}

static bool wire__system(wire_in *in, bytes v) {
    bytes part;
    if (wire__is_string(v)) return wire__system_text(in, wire__inside(v)), true;
    if (v.n && !wire__is_list(v)) return wire__bad(in, req_invalid, "system: found %s, expected a text or a list of blocks",
                                                   wire__kind(v));
    for (size_t i = 0; bytes_cut_item(&v, &part); i++) {
        const bytes text = wire__member(part, "text");
        if (!wire__is_string(text)) return wire__bad(in, req_invalid, "system[%zu]: found %s as text, expected a string", i,
                                                     wire__kind(text));
        wire__system_text(in, wire__inside(text));
    }
    return true;
}

static bool wire__block_result(wire_in *in, bytes block, const char *where) {
    str        text = {0};
    const bool failed = bytes_is(wire__member(block, "is_error"), "true");
    if (failed) str_put(&text, "Error:");
    str rest = {0};
    const bool ok = wire__content(in, wire__member(block, "content"), where, true, &rest);
    wire__join(&text, str_bytes(&rest), " ");
    if (ok) wire__say_result(in, wire__inside(wire__member(block, "tool_use_id")), str_bytes(&text));
    str_drop_all(&text, &rest);
    return ok;
}

/* A block of a turn; results come before the rest of a turn. */
static bool wire__block(wire_in *in, char role, bytes block, const char *where, bool given_back) {
    static const char hosted[] = "server_tool_use web_search_tool_result web_fetch_tool_result code_execution_tool_result "
                                 "bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result "
                                 "mcp_tool_use mcp_tool_result container_upload compaction";
    const bytes type = wire__member(block, "type"), word = wire__inside(type);
    if (wire__is_string(block)) return given_back || (wire__say(in, role, wire__inside(block)), true);
    if (given_back != wire__is(type, "tool_result")) return true;
    if (given_back) return wire__block_result(in, block, where);
    if (wire__is(type, "redacted_thinking")) return true;
    if (wire__is(type, "thinking")) {
        wire__turn(in, role);
        if (role == 'a') wire__join(&in->thought, wire__inside(wire__member(block, "thinking")), "\\n");
        return true;
    }
    if (wire__is(type, "tool_use")) {
        const bytes input = wire__member(block, "input"), name = wire__inside(wire__member(block, "name"));
        if (!name.n) return wire__bad(in, req_invalid, "%s: a tool_use without a name", where);
        return wire__say_call(in, wire__inside(wire__member(block, "id")), name, input.n ? input : bytes_of("{}"), false), true;
    }
    if (bytes_among(word, hosted)) return wire__list_add(&in->skipped, wire__show(type).text), true;
    const bytes source = wire__member(block, "source");
    const bool  document = wire__is(type, "document") && wire__is(wire__member(source, "type"), "text");
    const bytes text = wire__member(document ? source : block, document ? "data" : "text");
    if (!document && !wire__is(type, "text"))
        return wire__bad(in, req_unsupported, "%s: found a block of type %s, expected text, tool_use, tool_result or thinking",
                         where,
                         type.n ? wire__show(type).text : "nothing");
    if (!wire__is_string(text)) return wire__bad(in, req_invalid, "%s: found %s as text, expected a string", where,
                                                 wire__kind(text));
    return wire__say(in, role, wire__inside(text)), true;
}

static bool wire__turn_in(wire_in *in, bytes message, size_t i) {
    const bytes role = wire__member(message, "role"), content = wire__member(message, "content");
    const char  who = wire__is(role, "assistant") ? 'a' : 'u';
    char        where[64];
    if (!wire__is_object(message)) return wire__bad(in, req_invalid, "messages[%zu]: found %s, expected an object", i,
                                                    wire__kind(message));
    if (who == 'u' && !wire__is(role, "user") && !wire__is(role, "system"))
        return wire__bad(in, req_invalid, "messages[%zu].role: found %s, expected user or assistant", i, wire__show(role).text);
    if (wire__is_string(content)) return wire__say(in, who, wire__inside(content)), true;
    if (!wire__is_list(content))
        return wire__bad(in, req_invalid, "messages[%zu].content: found %s, expected a text or a list of blocks", i,
                         wire__kind(content));
    for (int given_back = 1; given_back >= 0; given_back--) {
        bytes rest = content, block;
        for (size_t k = 0; bytes_cut_item(&rest, &block); k++) {
            snprintf(where, sizeof where, "messages[%zu].content[%zu]", i, k);
            if (!wire__block(in, who, block, where, given_back)) return false;
        }
    }
    return true;
}

/* Tools with a schema of their own; those that Anthropic's servers or models know are left out. */
static bool wire__messages_tools(wire_in *in, bytes list) {
    bytes tool, name;
    if (list.n && !wire__is_list(list)) return wire__bad(in, req_invalid, "tools: found %s, expected a list", wire__kind(list));
    for (size_t i = 0; bytes_cut_item(&list, &tool); i++) {
        const bytes type = wire__member(tool, "type"), schema = wire__member(tool, "input_schema");
        if (!wire__is_object(tool)) return wire__bad(in, req_invalid, "tools[%zu]: found %s, expected an object", i,
                                                     wire__kind(tool));
        if (type.n && !wire__is(type, "custom")) wire__list_add(&in->skipped, wire__show(type).text);
        else if (!wire__tool_name(in, tool, i, &name)) return false;
        else wire__tool(in, name, wire__member(tool, "description"), schema, (bytes){0});
    }
    return true;
}

/* {"type":"auto", "any", "none" or "tool", with a name}; disable_parallel_tool_use. */
static bool wire__messages_choice(wire_in *in, bytes v) {
    const bytes type = wire__member(v, "type");
    if (!v.n) return true;
    if (bytes_is(wire__member(v, "disable_parallel_tool_use"), "true"))
        wire__rest_as(in, "parallel_tool_calls", bytes_of("false"));
    if (wire__is(type, "auto")) return true;
    if (wire__is(type, "none")) return wire__rest_as(in, "tool_choice", bytes_of("\"none\"")), true;
    if (wire__is(type, "any")) return wire__rest_as(in, "tool_choice", bytes_of("\"required\"")), true;
    if (wire__is(type, "tool")) return wire__choose(in, wire__inside(wire__member(v, "name"))), true;
    return wire__bad(in, req_invalid, "tool_choice.type: found %s, expected auto, any, tool or none",
                     type.n ? wire__show(type).text : "nothing");
}

/* A schema of the answer, in output_config.format or, as it was called before, output_format. */
static bool wire__messages_format(wire_in *in) {
    const bytes config = wire__got(in, "output_config"), inner = wire__member(config, "format");
    const bytes format = inner.n ? inner : wire__got(in, "output_format"), schema = wire__member(format, "schema");
    str         out = {0};
    if (wire__member(config, "effort").n) wire__list_add(&in->ignored, "output_config.effort");
    if (!format.n) return true;
    if (!wire__is(wire__member(format, "type"), "json_schema") || !schema.n)
        return wire__bad(in, req_invalid, "output_config.format: found %s, expected type json_schema and a schema",
                         wire__show(wire__member(format, "type")).text);
    str_put(&out, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
    str_cat(&out, schema);
    str_put(&out, "}}");
    wire__rest_as(in, "response_format", str_bytes(&out));
    str_drop(&out);
    return true;
}

static bool wire__chat_of_messages(wire_in *in) {
    bytes       list = wire__got(in, "messages"), message;
    const bytes thinking = wire__member(wire__got(in, "thinking"), "type");
    if (!wire__is_list(list)) return wire__bad(in, req_invalid, "messages: found %s, expected a list", wire__kind(list));
    if (!wire__system(in, wire__got(in, "system"))) return false;
    for (size_t i = 0; bytes_cut_item(&list, &message); i++)
        if (!wire__turn_in(in, message, i)) return false;
    if (wire__is(thinking, "disabled")) wire__rest_as(in, "chat_template_kwargs", bytes_of("{\"enable_thinking\":false}"));
    else if (thinking.n) wire__list_add(&in->ignored, "thinking");
    if (in->role == 'a' && in->has_text && !in->calls.n) wire__rest_as(in, "continue_final_message", bytes_of("true"));
    return wire__messages_tools(in, wire__got(in, "tools")) && wire__messages_choice(in, wire__got(in, "tool_choice")) &&
           wire__messages_format(in);
}

/* --- rerank --- */

static bool wire__inputs_of_rerank(wire_in *in, str *out) {
    wire       *w = in->w;
    const bytes query = wire__got(in, "query"), top = wire__got(in, "top_n"), given = wire__got(in, "documents");
    bytes       list = given.n ? given : wire__got(in, "texts"), one;
    const bytes all = list;
    if (!wire__is_string(query)) return wire__bad(in, req_invalid, "query: found %s, expected a text", wire__kind(query));
    if (!wire__is_list(list)) return wire__bad(in, req_invalid, "documents: found %s, expected a list of texts",
                                               wire__kind(list));
    str_unquote(&w->query, query, false);
    str_put(out, "\"input\":[");
    for (size_t i = 0; bytes_cut_item(&list, &one); i++) {
        const bytes text = wire__is_object(one) ? wire__member(one, "text") : one;
        if (!wire__is_string(text)) return wire__bad(in, req_invalid, "documents[%zu]: found %s, expected a text", i,
                                                     wire__kind(text));
        if (i) str_put(out, ",");
        str_cat(out, text);
    }
    str_put(out, "]");
    if (bytes_is(wire__got(in, "return_documents"), "true")) str_cat(&w->documents, all);
    if (top.n) {
        char         digits[16] = "";
        memcpy(digits, top.p, min_size(top.n, sizeof digits - 1));
        const long n = strtol(digits, NULL, 10);
        if (n < 1 || top.n > 9 || strspn(digits, "0123456789") != top.n)
            return wire__bad(in, req_invalid, "top_n: found %s, expected a number of documents from 1",
                             isdigit(top.p[0]) ? digits : wire__kind(top));
        w->top_n = (int)n;
    }
    return true;
}

/* --- all of a body --- */

static void wire__notes(const wire_in *in, str *notes) {
    if (in->ignored.n) str_fmt(notes, "ignored: %s\n", in->ignored.p);
    if (in->skipped.n) str_fmt(notes, "left out: %s\n", in->skipped.p);
}

static bool wire__body(wire_in *in, bytes body, str *out) {
    wire *w = in->w;
    if (!wire__members(in, body) || !wire__stream_of(in)) return false;
    str_put(out, "{");
    if (w->shape == WIRE_RERANK && !wire__inputs_of_rerank(in, out)) return false;
    if (w->shape == WIRE_RESPONSES && !wire__chat_of_responses(in, body)) return false;
    if (w->shape == WIRE_MESSAGES && !wire__chat_of_messages(in)) return false;
    if (w->shape == WIRE_RESPONSES || w->shape == WIRE_MESSAGES) {
        wire__end_turn(in);
        str_put(out, "\"messages\":[");
        if (in->has_system) {
            str_put(out, "{\"role\":\"system\"");
            wire__put_string(out, "content", str_bytes(&in->system));
            str_put(out, in->messages.n ? "}," : "}");
        }
        str_cat(out, str_bytes(&in->messages));
        str_put(out, "]");
        if (in->tools.n) str_put(out, ",\"tools\":["), str_cat(out, str_bytes(&in->tools)), str_put(out, "]");
    }
    const bytes rest = str_bytes(&in->rest);
    if (rest.n) str_cat(out, out->p[out->n - 1] == '{' ? bytes_slice(rest, 1, rest.n) : rest);
    str_put(out, "}");
    return true;
}

/* Reads the body of a request of this shape. *line becomes what req_read() takes: an envelope of OpenAI's Batch API with the
 * body of a chat completion, a completion or an embedding; what is no JSON object stays as it is, for req_read() to refuse.
 * notes: what is ignored and what is left out, a line each. False: e says why, and w->fault names the kind. The caller drops
 * *w in either case. */
static bool wire_read(wire *w, wire_shape shape, bytes body, str *line, str *notes, err_t *e) {
    static const char *const urls[WIRE_SHAPES] = {[WIRE_COMPLETION] = req_url,  [WIRE_CHAT] = req_chat_url,
                                                  [WIRE_EMBED] = req_embed_url, [WIRE_RERANK] = req_embed_url,
                                                  [WIRE_RESPONSES] = req_chat_url, [WIRE_MESSAGES] = req_chat_url};
    wire_in in = {.w = w, .e = e};
    str     out = {0};
    *w = (wire){.shape = shape};
    body = bytes_trim(body);
    if (!wire__is_object(body) || !bytes_is_json(body)) {
        if (body.n) return str_cat(line, body), true;
        w->fault = req_bad_json;
        return err_set(e, EXIT_INPUT, "the body is empty, expected a JSON object");
    }
    const bool ok = wire__body(&in, body, &out);
    if (ok) {
        str_fmt(line, "{\"method\":\"POST\",\"url\":\"%s\",\"body\":", urls[shape]);
        str_cat(line, str_bytes(&out));
        str_put(line, "}");
        wire__notes(&in, notes);
    }
    wire__in_drop(&in);
    str_drop(&out);
    return ok;
}

/* --- answers --- */

static bool wire__names_events(const wire *w) { return w->shape == WIRE_RESPONSES || w->shape == WIRE_MESSAGES; }

/* Begins an event; its JSON object is open. */
static jw wire__event(wire *w, const char *name, str *out) {
    if (wire__names_events(w)) str_fmt(out, "event: %s\n", name);
    str_put(out, "data: ");
    jw j = jw_tight(out);
    jw_open(&j, NULL, '{');
    if (wire__names_events(w)) jw_str(&j, "type", name);
    if (w->shape == WIRE_RESPONSES) jw_fmt(&j, "sequence_number", "%llu", (unsigned long long)w->sequence++);
    return j;
}

static void wire__event_end(jw *j) {
    jw_close(j, '}');
    str_put(j->to, "\n\n");
}

/* What waits and this text, as far as they are whole characters; the rest waits. all: nothing follows. *buf holds what is
 * returned. */
static bytes wire__chars(str *held, bytes text, bool all, str *buf) {
    str_set(buf, str_bytes(held));
    str_cat(buf, text);
    size_t n = buf->n;
    for (size_t k = 1; !all && k <= 3 && k <= buf->n; k++)
        if (utf8_incomplete((const uint8_t *)buf->p + buf->n - k, k)) {
            n = buf->n - k;
            break;
        }
    str_set(held, (bytes){(const uint8_t *)buf->p + n, buf->n - n});
    return (bytes){(const uint8_t *)buf->p, n};
}

/* --- chunks of chat completions and completions --- */

static jw wire__chunk(wire *w, str *out) {
    jw j = wire__event(w, "", out);
    jw_fmt(&j, "id", "\"%s-%s\"", w->chat ? "chatcmpl" : "cmpl", w->id.p);
    jw_str(&j, "object", w->chat ? "chat.completion.chunk" : "text_completion");
    jw_fmt(&j, "created", "%lld", (long long)w->created);
    jw_text(&j, "model", str_bytes(&w->name));
    jw_text(&j, "system_fingerprint", str_bytes(&w->fingerprint));
    jw_open(&j, "choices", '[');
    return j;
}

/* A chunk of one choice, inside of its delta, or of the choice where that is a text. */
static jw wire__choice_begin(wire *w, int choice, str *out) {
    jw j = wire__chunk(w, out);
    jw_open(&j, NULL, '{');
    jw_fmt(&j, "index", "%d", choice);
    if (w->chat) jw_open(&j, "delta", '{');
    return j;
}

static void wire__choice_end(wire *w, int choice, const char *finish, jw *j) {
    wire_choice *c = &w->choice[choice];
    if (w->chat) jw_close(j, '}');
    jw_fmt(j, "logprobs", "%s", c->logprobs.n ? c->logprobs.p : "null");
    str_clear(&c->logprobs);
    jw_maybe(j, "finish_reason", bytes_of(finish ? finish : ""), finish != NULL);
    jw_close(j, '}');
    jw_close(j, ']');
    if (w->usage) jw_fmt(j, "usage", "null");
    wire__event_end(j);
}

/* The chunk with the role, once. */
static void wire__role(wire *w, int choice, str *out) {
    wire_choice *c = &w->choice[choice];
    str          logprobs = c->logprobs;
    if (c->begun || !w->chat) return;
    c->begun = true;
    c->logprobs = (str){0};
    jw j = wire__choice_begin(w, choice, out);
    jw_str(&j, "role", "assistant");
    jw_str(&j, "content", "");
    wire__choice_end(w, choice, NULL, &j);
    c->logprobs = logprobs;
}

static void wire__chat_text(wire *w, int choice, wire_part part, bytes text, str *out) {
    wire__role(w, choice, out);
    jw j = wire__choice_begin(w, choice, out);
    jw_text(&j, !w->chat ? "text" : part == WIRE_THINKING ? "reasoning_content" : "content", text);
    wire__choice_end(w, choice, NULL, &j);
}

static void wire__chat_call(wire *w, int choice, int index, bytes id, bytes name, bytes arguments, str *out) {
    wire__role(w, choice, out);
    jw j = wire__choice_begin(w, choice, out);
    if (w->legacy) jw_open(&j, "function_call", '{');
    else {
        jw_open(&j, "tool_calls", '[');
        jw_open(&j, NULL, '{');
        jw_fmt(&j, "index", "%d", index);
        if (name.n) jw_text(&j, "id", id), jw_str(&j, "type", "function");
        jw_open(&j, "function", '{');
    }
    if (name.n) jw_text(&j, "name", name);
    jw_text(&j, "arguments", arguments);
    jw_close(&j, '}');
    if (!w->legacy) jw_close(&j, '}'), jw_close(&j, ']');
    wire__choice_end(w, choice, NULL, &j);
}

static void wire__chat_usage(wire *w, str *out) {
    const wire_usage *u = &w->tokens;
    jw                j = wire__chunk(w, out);
    jw_close(&j, ']');
    jw_open(&j, "usage", '{');
    jw_fmt(&j, "prompt_tokens", "%d", u->prompt);
    jw_fmt(&j, "completion_tokens", "%d", u->made);
    jw_fmt(&j, "total_tokens", "%d", u->prompt + u->made);
    jw_open(&j, "prompt_tokens_details", '{');
    jw_fmt(&j, "cached_tokens", "%d", u->cached);
    jw_close(&j, '}');
    jw_close(&j, '}');
    wire__event_end(&j);
}

/* --- items of Responses --- */

static const char *const wire__item_ids[WIRE_PARTS] = {[WIRE_CONTENT] = "msg", [WIRE_THINKING] = "rs", [WIRE_CALLS] = "fc"};

static void wire__put_item_id(const wire *w, size_t i, const char *key, jw *j) {
    jw_fmt(j, key, "\"%s_%s_%zu\"", wire__item_ids[w->item[i].part], w->id.p, i);
}

static void wire__put_output_text(bytes text, const char *key, jw *j) {
    jw_open(j, key, '{');
    jw_str(j, "type", "output_text");
    jw_text(j, "text", text);
    jw_fmt(j, "annotations", "[]");
    jw_fmt(j, "logprobs", "[]");
    jw_close(j, '}');
}

static void wire__put_reasoning_text(bytes text, const char *key, jw *j) {
    jw_open(j, key, '{');
    jw_str(j, "type", "reasoning_text");
    jw_text(j, "text", text);
    jw_close(j, '}');
}

static void wire__put_part(const wire_item *it, bytes text, const char *key, jw *j) {
    if (it->part == WIRE_THINKING) wire__put_reasoning_text(text, key, j);
    else wire__put_output_text(text, key, j);
}

/* The tool's own name, and its namespace where it has one. */
static void wire__put_tool_name(const wire *w, bytes full, jw *j) {
    for (size_t i = 0; i < w->n_tool; i++) {
        const wire_tool *t = &w->tool[i];
        const bytes      name = str_bytes(&t->full);
        if (!bytes_eq(name, full)) continue;
        jw_text(j, "name", bytes_slice(name, t->n_space + t->n_join, name.n));
        jw_text(j, "namespace", bytes_slice(name, 0, t->n_space));
        return;
    }
    jw_text(j, "name", full);
}

/* An item; begun: as it is announced, without its text. */
static void wire__put_item(const wire *w, size_t i, bool begun, const char *key, jw *j) {
    const wire_item *it = &w->item[i];
    const bytes      text = str_bytes(&it->text);
    jw_open(j, key, '{');
    wire__put_item_id(w, i, "id", j);
    if (it->part == WIRE_CALLS) {
        jw_str(j, "type", "function_call");
        jw_str(j, "status", it->state);
        jw_text(j, "call_id", str_bytes(&it->id));
        wire__put_tool_name(w, str_bytes(&it->name), j);
        jw_text(j, "arguments", begun ? (bytes){0} : text);
    } else {
        jw_str(j, "type", it->part == WIRE_THINKING ? "reasoning" : "message");
        jw_str(j, "status", it->state);
        if (it->part == WIRE_THINKING) jw_fmt(j, "summary", "[]");
        else jw_str(j, "role", "assistant");
        jw_open(j, "content", '[');
        if (!begun) wire__put_part(it, text, NULL, j);
        jw_close(j, ']');
        if (it->part == WIRE_THINKING && w->sealed && !begun) {
            jw_key(j, "encrypted_content");
            str_fmt(j->to, "\"%s", wire__seal);
            str_base64(j->to, text);
            str_put(j->to, "\"");
        }
    }
    jw_close(j, '}');
}

/* The places of an event of item i. */
static jw wire__item_event(wire *w, size_t i, const char *name, bool in_part, str *out) {
    jw j = wire__event(w, name, out);
    wire__put_item_id(w, i, "item_id", &j);
    jw_fmt(&j, "output_index", "%zu", i);
    if (in_part) jw_fmt(&j, "content_index", "0");
    return j;
}

static void wire__item_added(wire *w, size_t i, str *out) {
    const wire_item *it = &w->item[i];
    jw               j = wire__event(w, "response.output_item.added", out);
    jw_fmt(&j, "output_index", "%zu", i);
    wire__put_item(w, i, true, "item", &j);
    wire__event_end(&j);
    if (it->part == WIRE_CALLS) return;
    j = wire__item_event(w, i, "response.content_part.added", true, out);
    wire__put_part(it, (bytes){0}, "part", &j);
    wire__event_end(&j);
}

static void wire__item_delta(wire *w, size_t i, bytes text, str *out) {
    static const char *const names[WIRE_PARTS] = {[WIRE_CONTENT] = "response.output_text.delta",
                                                  [WIRE_THINKING] = "response.reasoning_text.delta",
                                                  [WIRE_CALLS] = "response.function_call_arguments.delta"};
    const wire_part part = w->item[i].part;
    jw              j = wire__item_event(w, i, names[part], part != WIRE_CALLS, out);
    jw_text(&j, "delta", text);
    if (part == WIRE_CONTENT) jw_fmt(&j, "logprobs", "[]");
    wire__event_end(&j);
}

static void wire__item_done(wire *w, size_t i, str *out) {
    static const char *const names[WIRE_PARTS] = {[WIRE_CONTENT] = "response.output_text.done",
                                                  [WIRE_THINKING] = "response.reasoning_text.done",
                                                  [WIRE_CALLS] = "response.function_call_arguments.done"};
    const wire_item *it = &w->item[i];
    const bytes      text = str_bytes(&it->text);
    jw               j = wire__item_event(w, i, names[it->part], it->part != WIRE_CALLS, out);
    if (it->part == WIRE_CALLS) wire__put_tool_name(w, str_bytes(&it->name), &j);
    jw_text(&j, it->part == WIRE_CALLS ? "arguments" : "text", text);
    if (it->part == WIRE_CONTENT) jw_fmt(&j, "logprobs", "[]");
    wire__event_end(&j);
    if (it->part != WIRE_CALLS) {
        j = wire__item_event(w, i, "response.content_part.done", true, out);
        wire__put_part(it, text, "part", &j);
        wire__event_end(&j);
    }
    j = wire__event(w, "response.output_item.done", out);
    jw_fmt(&j, "output_index", "%zu", i);
    wire__put_item(w, i, false, "item", &j);
    wire__event_end(&j);
}

static bool wire__is_cut(const wire *w) { return w->why == GEN_LENGTH || w->why == GEN_CONTEXT || w->why == GEN_LOOPED; }

/* The response so far. error: a row of wire_errors; NULL: none. */
static void wire__put_response(const wire *w, const char *state, const struct wire_error *error, const char *message,
                               const char *key,
                               jw *j) {
    const wire_usage *u = &w->tokens;
    const bool        over = strcmp(state, "in_progress") != 0;
    jw_open(j, key, '{');
    jw_fmt(j, "id", "\"resp_%s\"", w->id.p);
    jw_str(j, "object", "response");
    jw_fmt(j, "created_at", "%lld", (long long)w->created);
    jw_str(j, "status", state);
    jw_fmt(j, "background", "false");
    if (error) {
        jw_open(j, "error", '{');
        jw_str(j, "code", error->code ? error->code : error->openai);
        jw_str(j, "message", message);
        jw_close(j, '}');
    } else jw_fmt(j, "error", "null");
    jw_fmt(j, "incomplete_details", strcmp(state, "incomplete") ? "null" : "{\"reason\":\"max_output_tokens\"}");
    jw_text(j, "model", str_bytes(&w->name));
    jw_open(j, "output", '[');
    for (size_t i = 0; over && i < w->n_item; i++) wire__put_item(w, i, false, NULL, j);
    jw_close(j, ']');
    jw_fmt(j, "previous_response_id", "null");
    jw_fmt(j, "store", "false");
    jw_key(j, "usage");
    j->more = false;
    if (over && !error) {
        jw_open(j, NULL, '{');
        jw_fmt(j, "input_tokens", "%d", u->prompt);
        jw_fmt(j, "input_tokens_details", "{\"cached_tokens\":%d,\"cache_write_tokens\":0}", u->cached);
        jw_fmt(j, "output_tokens", "%d", u->made);
        jw_fmt(j, "output_tokens_details", "{\"reasoning_tokens\":%d}", u->thought);
        jw_fmt(j, "total_tokens", "%d", u->prompt + u->made);
        jw_close(j, '}');
    } else str_put(j->to, "null");
    j->more = true;
    if (w->echo.n) jw_key(j, NULL), str_add(j->to, w->echo.p, w->echo.n - 1);
    jw_close(j, '}');
}

static void wire__response_event(wire *w, const char *name, const char *state, str *out) {
    jw j = wire__event(w, name, out);
    wire__put_response(w, state, NULL, NULL, "response", &j);
    wire__event_end(&j);
}

/* --- blocks of Messages --- */

static void wire__put_messages_usage(const wire *w, jw *j) {
    const wire_usage *u = &w->tokens;
    jw_open(j, "usage", '{');
    jw_fmt(j, "input_tokens", "%d", u->prompt - u->cached);
    jw_fmt(j, "cache_creation_input_tokens", "0");
    jw_fmt(j, "cache_read_input_tokens", "%d", u->cached);
    jw_fmt(j, "output_tokens", "%d", u->made);
    jw_close(j, '}');
}

/* What a client gives back with thinking; this server takes any. */
static void wire__put_signature(const wire_item *it, const char *key, jw *j) {
    const digest d = bytes_digest((bytes){0}, str_bytes(&it->text));
    jw_fmt(j, key, "\"%016llx%016llx\"", (unsigned long long)d.a, (unsigned long long)d.b);
}

/* A block; begun: as it is announced. */
static void wire__put_block(const wire_item *it, bool begun, const char *key, jw *j) {
    const bytes text = begun ? (bytes){0} : str_bytes(&it->text);
    jw_open(j, key, '{');
    jw_str(j, "type", it->part == WIRE_CALLS ? "tool_use" : it->part == WIRE_THINKING ? "thinking" : "text");
    if (it->part == WIRE_CALLS) {
        jw_text(j, "id", str_bytes(&it->id));
        jw_text(j, "name", str_bytes(&it->name));
        jw_key(j, "input");
        if (!text.n || !bytes_is_json(text)) str_put(j->to, "{}");
        else str_json_copy(j->to, text, false);
    } else if (it->part == WIRE_THINKING) {
        jw_text(j, "thinking", text);
        if (begun) jw_str(j, "signature", "");
        else wire__put_signature(it, "signature", j);
    } else jw_text(j, "text", text);
    jw_close(j, '}');
}

static jw wire__block_event(wire *w, size_t i, const char *name, str *out) {
    jw j = wire__event(w, name, out);
    jw_fmt(&j, "index", "%zu", i);
    return j;
}

static void wire__block_delta(wire *w, size_t i, bytes text, str *out) {
    static const char *const names[WIRE_PARTS][2] = {[WIRE_CONTENT] = {"text_delta", "text"},
                                                     [WIRE_THINKING] = {"thinking_delta", "thinking"},
                                                     [WIRE_CALLS] = {"input_json_delta", "partial_json"}};
    const wire_part part = w->item[i].part;
    jw              j = wire__block_event(w, i, "content_block_delta", out);
    jw_open(&j, "delta", '{');
    jw_str(&j, "type", names[part][0]);
    jw_text(&j, names[part][1], text);
    jw_close(&j, '}');
    wire__event_end(&j);
}

static void wire__block_stop(wire *w, size_t i, str *out) {
    if (w->item[i].part == WIRE_THINKING) {
        jw j = wire__block_event(w, i, "content_block_delta", out);
        jw_open(&j, "delta", '{');
        jw_str(&j, "type", "signature_delta");
        wire__put_signature(&w->item[i], "signature", &j);
        jw_close(&j, '}');
        wire__event_end(&j);
    }
    jw j = wire__block_event(w, i, "content_block_stop", out);
    wire__event_end(&j);
}

static void wire__put_stop_reason(const wire *w, jw *j) {
    bool calls = false;
    for (size_t i = 0; i < w->n_item; i++) calls = calls || w->item[i].part == WIRE_CALLS;
    const char *reason = wire__is_cut(w) ? "max_tokens" : w->stop.n ? "stop_sequence" : calls ? "tool_use" : "end_turn";
    jw_str(j, "stop_reason", reason);
    jw_maybe(j, "stop_sequence", str_bytes(&w->stop), strcmp(reason, "stop_sequence") == 0);
}

/* The message; begun: as the first event has it. */
static void wire__put_message(const wire *w, bool begun, const char *key, jw *j) {
    jw_open(j, key, '{');
    jw_fmt(j, "id", "\"msg_%s\"", w->id.p);
    jw_str(j, "type", "message");
    jw_str(j, "role", "assistant");
    jw_text(j, "model", str_bytes(&w->name));
    jw_open(j, "content", '[');
    for (size_t i = 0; !begun && i < w->n_item; i++) wire__put_block(&w->item[i], false, NULL, j);
    jw_close(j, ']');
    if (begun) jw_fmt(j, "stop_reason", "null"), jw_fmt(j, "stop_sequence", "null");
    else wire__put_stop_reason(w, j);
    wire__put_messages_usage(w, j);
    jw_close(j, '}');
}

/* --- items and blocks alike --- */

/* Ends the open item; state: how. */
static void wire__close(wire *w, const char *state, str *out) {
    wire_item *it = w->n_item ? &w->item[w->n_item - 1] : NULL;
    str        buf = {0};
    if (!it || strcmp(it->state, "in_progress") != 0) return;
    const size_t i = w->n_item - 1;
    const bytes  rest = wire__chars(&w->choice[0].held[it->part], (bytes){0}, true, &buf);
    if (rest.n) {
        str_utf8(&it->text, rest);
        if (w->stream && w->shape == WIRE_RESPONSES) wire__item_delta(w, i, rest, out);
        else if (w->stream) wire__block_delta(w, i, rest, out);
    }
    it->state = state;
    if (w->stream && w->shape == WIRE_RESPONSES) wire__item_done(w, i, out);
    else if (w->stream) wire__block_stop(w, i, out);
    str_drop(&buf);
}

/* Begins an item. The texts are of a call. */
static void wire__open(wire *w, wire_part part, bytes id, bytes name, str *out) {
    wire__close(w, "completed", out);
    MEM_PUSH(w->item, w->n_item, (wire_item){.part = part, .state = "in_progress"});
    wire_item *it = &w->item[w->n_item - 1];
    str_set(&it->id, id), str_set(&it->name, name);
    str_add(&it->text, "", 0);
    if (!w->stream) return;
    if (w->shape == WIRE_RESPONSES) {
        wire__item_added(w, w->n_item - 1, out);
        return;
    }
    jw j = wire__block_event(w, w->n_item - 1, "content_block_start", out);
    wire__put_block(it, true, "content_block", &j);
    wire__event_end(&j);
}

/* Adds text to the open item. */
static void wire__add(wire *w, bytes text, str *out) {
    wire_item  *it = &w->item[w->n_item - 1];
    str         buf = {0};
    const bytes some = wire__chars(&w->choice[0].held[it->part], text, false, &buf);
    str_utf8(&it->text, some);
    if (some.n && w->stream && w->shape == WIRE_RESPONSES) wire__item_delta(w, w->n_item - 1, some, out);
    else if (some.n && w->stream) wire__block_delta(w, w->n_item - 1, some, out);
    str_drop(&buf);
}

/* --- a stream: begin; text, call and logprobs of each choice as they come, then its finish; end. fail ends it at any time, alive
 * may come at any time. Without w->stream nothing is written but what wire_whole() writes. --- */

/* Begins an answer to a request that wire_read() and req_read() have read. What o points to is copied. */
static void wire_begin(wire *w, const req *q, const wire_origin *o, str *out) {
    str_put(&w->id, o->id), str_put(&w->name, o->model_name), str_put(&w->fingerprint, o->fingerprint);
    w->created = o->created;
    w->chat = q->chat;
    w->legacy = q->legacy;
    w->many_calls = q->many_calls;
    w->tokens.prompt = o->n_prompt;
    w->choice = mem_new((size_t)q->n, sizeof *w->choice);
    w->n_choice = q->n;
    if (!w->stream) return;
    if (w->shape == WIRE_RESPONSES) {
        wire__response_event(w, "response.created", "in_progress", out);
        wire__response_event(w, "response.in_progress", "in_progress", out);
    } else if (w->shape == WIRE_MESSAGES) {
        jw j = wire__event(w, "message_start", out);
        wire__put_message(w, true, "message", &j);
        wire__event_end(&j);
    }
}

/* More text of a choice, cut anywhere. */
static void wire_text(wire *w, int choice, wire_part part, bytes text, str *out) {
    wire_choice *c = &w->choice[choice];
    if (!text.n) return;
    if (wire__names_events(w)) {
        const wire_item *it = w->n_item ? &w->item[w->n_item - 1] : NULL;
        if (!it || it->part != part || strcmp(it->state, "in_progress") != 0) wire__open(w, part, (bytes){0}, (bytes){0}, out);
        wire__add(w, text, out);
        return;
    }
    str         buf = {0};
    const bytes some = wire__chars(&c->held[part], text, false, &buf);
    if (some.n && w->stream) wire__chat_text(w, choice, part, some, out);
    str_drop(&buf);
}

/* More of the arguments of call `index` of a choice, cut anywhere; index: from 0, rising. name: where the call begins, then with
 * its id; else empty. */
static void wire_call(wire *w, int choice, int index, bytes id, bytes name, bytes arguments, str *out) {
    wire_choice *c = &w->choice[choice];
    if (!w->many_calls && index > 0) return;
    c->n_calls = max_int(c->n_calls, index + 1);
    if (wire__names_events(w)) {
        if (name.n) wire__open(w, WIRE_CALLS, id, name, out);
        wire__add(w, arguments, out);
        return;
    }
    str         buf = {0};
    const bytes some = wire__chars(&c->held[WIRE_CALLS], arguments, false, &buf);
    if ((some.n || name.n) && w->stream) wire__chat_call(w, choice, index, id, name, some, out);
    str_drop(&buf);
}

/* The logprobs of tokens from .. to (excluded) of a choice, which go out with its next piece. */
static void wire_logprobs(wire *w, int choice, const req *q, const gen_answer *a, int from, int to, const tok_vocab *v,
                          str *out) {
    wire_choice *c = &w->choice[choice];
    if (!w->stream || wire__names_events(w) || !q->ask.logprobs || from >= to) return;
    if (c->logprobs.n) wire__chat_text(w, choice, WIRE_CONTENT, (bytes){0}, out);
    str one = {0};
    jw  j = jw_tight(&one);
    req_print_logprobs(q, a, from, to, v, &j);
    const size_t key = strlen("\"logprobs\":");
    str_add(&c->logprobs, one.p + key, one.n - key);
    str_drop(&one);
}

/* A choice has ended. stop: the text of the body that ended it; empty: none did. */
static void wire_finish(wire *w, int choice, gen_finish why, bytes stop, str *out) {
    wire_choice *c = &w->choice[choice];
    const char  *name = gen_finish_names[why] ? gen_finish_names[why] : "stop";
    str          buf = {0};
    w->why = why;
    str_set(&w->stop, stop);
    if (wire__names_events(w)) {
        wire__close(w, wire__is_cut(w) ? "incomplete" : "completed", out);
        return;
    }
    for (int part = WIRE_THINKING; part >= 0 && w->stream; part--) {
        const bytes rest = wire__chars(&c->held[part], (bytes){0}, true, &buf);
        if (rest.n) wire__chat_text(w, choice, (wire_part)part, rest, out);
    }
    if (c->n_calls && strcmp(name, "stop") == 0) name = w->legacy ? "function_call" : "tool_calls";
    if (w->stream) {
        wire__role(w, choice, out);
        jw j = wire__choice_begin(w, choice, out);
        if (!w->chat) jw_str(&j, "text", "");
        wire__choice_end(w, choice, name, &j);
    }
    str_drop(&buf);
}

/* All choices have ended. */
static void wire_end(wire *w, const wire_usage *u, str *out) {
    w->tokens = *u;
    if (!w->stream) return;
    if (w->shape == WIRE_RESPONSES) {
        const char *state = wire__is_cut(w) ? "incomplete" : "completed";
        char        name[32];
        snprintf(name, sizeof name, "response.%s", state);
        wire__response_event(w, name, state, out);
    } else if (w->shape == WIRE_MESSAGES) {
        jw j = wire__event(w, "message_delta", out);
        jw_open(&j, "delta", '{');
        wire__put_stop_reason(w, &j);
        jw_close(&j, '}');
        wire__put_messages_usage(w, &j);
        wire__event_end(&j);
        j = wire__event(w, "message_stop", out);
        wire__event_end(&j);
    } else {
        if (w->usage) wire__chat_usage(w, out);
        str_put(out, "data: [DONE]\n\n");
    }
}

/* An error ends the stream. name: a row of wire_errors. */
static void wire_fail(wire *w, const char *name, const char *message, str *out) {
    const struct wire_error *row = wire__error_row(name, 0);
    if (w->shape == WIRE_RESPONSES && w->id.n) {
        for (size_t i = 0; i < w->n_item; i++)
            if (strcmp(w->item[i].state, "in_progress") == 0) w->item[i].state = "incomplete";
        jw j = wire__event(w, "response.failed", out);
        wire__put_response(w, "failed", row, message, "response", &j);
        wire__event_end(&j);
        return;
    }
    if (wire__names_events(w)) str_put(out, "event: error\n");
    str_put(out, "data: ");
    wire__error_object(w->shape, row, (bytes){0}, message, out);
    str_put(out, "\n\n");
}

/* A sign that the server is at work, before a prompt is read whole. */
static void wire_alive(wire *w, str *out) {
    if (w->shape == WIRE_RESPONSES) wire__response_event(w, "response.in_progress", "in_progress", out);
    else if (w->shape == WIRE_MESSAGES) {
        jw j = wire__event(w, "ping", out);
        wire__event_end(&j);
    } else str_put(out, ": reading\n\n");
}

/* --- whole answers --- */

typedef struct {
    double score;
    int    index;
} wire__scored;

static int wire__by_score(const void *pa, const void *pb) {
    const wire__scored *a = pa, *b = pb;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return a->index - b->index;
}

static void wire__put_ranks(const wire *w, const req *q, const gen_answer *a, const req_origin *o, jw *j) {
    wire__scored *best = mem_new((size_t)q->n, sizeof *best);
    bytes        *document = mem_new((size_t)q->n, sizeof *document), rest = str_bytes(&w->documents);
    for (int i = 0; i < q->n && bytes_cut_item(&rest, &document[i]); i++) {}
    for (int i = 0; i < q->n; i++) best[i] = (wire__scored){a[i].n_vec ? (double)a[i].vec[0] : 0, i};
    qsort(best, (size_t)q->n, sizeof *best, wire__by_score);
    jw_open(j, NULL, '{');
    jw_fmt(j, "id", "\"rank-%s\"", w->id.p);
    jw_str(j, "object", "list");
    jw_text(j, "model", str_bytes(&w->name));
    jw_open(j, "usage", '{');
    jw_fmt(j, "prompt_tokens", "%d", o->n_prompt);
    jw_fmt(j, "total_tokens", "%d", o->n_prompt);
    jw_close(j, '}');
    jw_open(j, "results", '[');
    for (int i = 0; i < (w->top_n ? min_int(w->top_n, q->n) : q->n); i++) {
        jw_open(j, NULL, '{');
        jw_fmt(j, "index", "%d", best[i].index);
        jw_number(j, "relevance_score", 9, best[i].score);
        if (w->documents.n) {
            const bytes d = document[best[i].index];
            jw_open(j, "document", '{');
            jw_key(j, "text");
            str_json_copy(j->to, wire__is_object(d) ? wire__member(d, "text") : d, false);
            jw_close(j, '}');
        }
        jw_close(j, '}');
    }
    jw_close(j, ']');
    jw_close(j, '}');
    mem_free_all(best, document);
}

/* The parts of an answer become items or blocks. */
static void wire__sort(wire *w, const chat_answer *said) {
    str none = {0};
    wire_text(w, 0, WIRE_THINKING, str_bytes(&said->thinking), &none);
    wire_text(w, 0, WIRE_CONTENT, str_bytes(&said->content), &none);
    for (size_t i = 0; i < said->calls.n; i++)
        wire_call(w, 0, (int)i, said->calls.at[i].id, said->calls.at[i].name, said->calls.at[i].arguments, &none);
    str_drop(&none);
}

/* The object that answers a request without a stream, after wire_begin(). a: [q->n] the answers, whole; said: [q->n] their parts
 * for chats, else NULL; stop: as in wire_finish(). For OpenAI's older shapes it is req_print_body(). */
static void wire_whole(wire *w, const req *q, const gen_answer *a, const chat_answer *said, const req_origin *o,
                       const wire_usage *u,
                       bytes stop, const tok_vocab *v, str *out) {
    jw j = jw_tight(out);
    if (wire__names_events(w)) {
        str none = {0};
        wire__sort(w, said);
        wire_finish(w, 0, a->finish, stop, &none);
        wire_end(w, u, &none);
        str_drop(&none);
    }
    if (w->shape == WIRE_RESPONSES) wire__put_response(w, wire__is_cut(w) ? "incomplete" : "completed", NULL, NULL, NULL, &j);
    else if (w->shape == WIRE_MESSAGES) wire__put_message(w, false, NULL, &j);
    else if (w->shape == WIRE_RERANK) wire__put_ranks(w, q, a, o, &j);
    else req_print_body(q, a, said, o, v, NULL, &j);
}

/* The body that answers count_tokens. */
static void wire_count(int n_tokens, str *out) {
    jw j = jw_tight(out);
    jw_open(&j, NULL, '{');
    jw_fmt(&j, "input_tokens", "%d", n_tokens);
    jw_close(&j, '}');
}
