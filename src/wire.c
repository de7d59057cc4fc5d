/* ===== [wire] answers in the shapes of OpenAI's and Anthropic's APIs =====
 * Answers out, as bytes: no sockets, no threads, no model. An answer goes out as one JSON object or as a stream of events
 * (server-sent events), piece by piece as it is made. The state of an answer is a `wire`, which one thread uses at a time.
 *   Invariants: whatever pieces a text comes in, no event ends inside a character, and the pieces joined are the text of the
 * whole answer. An event has a key "error" only where it is an error: clients look for that key.
 *   To add a kind of error: a row of wire_errors.
 * Public: wire_part, wire_usage, wire_origin, wire, wire_drop, wire_param, wire_begin, wire_text, wire_call, wire_logprobs,
 * wire_finish, wire_end, wire_fail, wire_alive, wire_whole, wire_count, wire_error, wire_status, wire_is_messages.
 * Opens: wire, wire_usage, wire_origin. */

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

typedef struct {
    post         p;                                   /* what the body asks for */
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
    post_drop(&w->p);
    mem_free_all(w->choice, w->item);
    str_drop_all(&w->id, &w->name, &w->fingerprint, &w->stop);
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

/* The key that an error of [req] or of post_read() is about, empty where it names none: what is before its colon, or the unknown
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

static void wire__error_object(post_shape shape, const struct wire_error *row, bytes param, const char *message, str *out) {
    jw j = jw_tight(out);
    jw_open(&j, NULL, '{');
    if (shape == POST_MESSAGES) jw_str(&j, "type", "error");
    jw_open(&j, "error", '{');
    if (shape == POST_MESSAGES) jw_str(&j, "type", row->anthropic), jw_str(&j, "message", message);
    else wire__error_members(row, param, message, &j);
    jw_close(&j, '}');
    jw_close(&j, '}');
}

/* The body of an error. name: a row of wire_errors; NULL: the first with this status. */
static void wire_error(post_shape shape, const char *name, int status, bytes param, const char *message, str *out) {
    wire__error_object(shape, wire__error_row(name, status), param, message, out);
}

/* --- answers --- */

static bool wire__names_events(const wire *w) { return w->p.shape == POST_RESPONSES || w->p.shape == POST_MESSAGES; }

/* Begins an event; its JSON object is open. */
static jw wire__event(wire *w, const char *name, str *out) {
    if (wire__names_events(w)) str_fmt(out, "event: %s\n", name);
    str_put(out, "data: ");
    jw j = jw_tight(out);
    jw_open(&j, NULL, '{');
    if (wire__names_events(w)) jw_str(&j, "type", name);
    if (w->p.shape == POST_RESPONSES) jw_fmt(&j, "sequence_number", "%llu", (unsigned long long)w->sequence++);
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
    if (w->p.usage) jw_fmt(j, "usage", "null");
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
    for (size_t i = 0; i < w->p.n_tool; i++) {
        const post_tool *t = &w->p.tool[i];
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
        if (it->part == WIRE_THINKING && w->p.sealed && !begun) {
            jw_key(j, "encrypted_content");
            str_fmt(j->to, "\"%s", post_seal);
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
    if (w->p.echo.n) jw_key(j, NULL), str_add(j->to, w->p.echo.p, w->p.echo.n - 1);
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
        if (w->p.stream && w->p.shape == POST_RESPONSES) wire__item_delta(w, i, rest, out);
        else if (w->p.stream) wire__block_delta(w, i, rest, out);
    }
    it->state = state;
    if (w->p.stream && w->p.shape == POST_RESPONSES) wire__item_done(w, i, out);
    else if (w->p.stream) wire__block_stop(w, i, out);
    str_drop(&buf);
}

/* Begins an item. The texts are of a call. */
static void wire__open(wire *w, wire_part part, bytes id, bytes name, str *out) {
    wire__close(w, "completed", out);
    MEM_PUSH(w->item, w->n_item, (wire_item){.part = part, .state = "in_progress"});
    wire_item *it = &w->item[w->n_item - 1];
    str_set(&it->id, id), str_set(&it->name, name);
    str_add(&it->text, "", 0);
    if (!w->p.stream) return;
    if (w->p.shape == POST_RESPONSES) {
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
    if (some.n && w->p.stream && w->p.shape == POST_RESPONSES) wire__item_delta(w, w->n_item - 1, some, out);
    else if (some.n && w->p.stream) wire__block_delta(w, w->n_item - 1, some, out);
    str_drop(&buf);
}

/* --- a stream: begin; text, call and logprobs of each choice as they come, then its finish; end. fail ends it at any time, alive
 * may come at any time. Without w->p.stream nothing is written but what wire_whole() writes. --- */

/* Begins an answer to a request that post_read() and req_read() have read. What o points to is copied. */
static void wire_begin(wire *w, const req *q, const wire_origin *o, str *out) {
    str_put(&w->id, o->id), str_put(&w->name, o->model_name), str_put(&w->fingerprint, o->fingerprint);
    w->created = o->created;
    w->chat = q->chat;
    w->legacy = q->legacy;
    w->many_calls = q->many_calls;
    w->tokens.prompt = o->n_prompt;
    w->choice = mem_new((size_t)q->n, sizeof *w->choice);
    w->n_choice = q->n;
    if (!w->p.stream) return;
    if (w->p.shape == POST_RESPONSES) {
        wire__response_event(w, "response.created", "in_progress", out);
        wire__response_event(w, "response.in_progress", "in_progress", out);
    } else if (w->p.shape == POST_MESSAGES) {
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
    if (some.n && w->p.stream) wire__chat_text(w, choice, part, some, out);
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
    if ((some.n || name.n) && w->p.stream) wire__chat_call(w, choice, index, id, name, some, out);
    str_drop(&buf);
}

/* The logprobs of tokens from .. to (excluded) of a choice, which go out with its next piece. */
static void wire_logprobs(wire *w, int choice, const req *q, const gen_answer *a, int from, int to, const tok_vocab *v,
                          str *out) {
    wire_choice *c = &w->choice[choice];
    if (!w->p.stream || wire__names_events(w) || !q->ask.logprobs || from >= to) return;
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
    for (int part = WIRE_THINKING; part >= 0 && w->p.stream; part--) {
        const bytes rest = wire__chars(&c->held[part], (bytes){0}, true, &buf);
        if (rest.n) wire__chat_text(w, choice, (wire_part)part, rest, out);
    }
    if (c->n_calls && strcmp(name, "stop") == 0) name = w->legacy ? "function_call" : "tool_calls";
    if (w->p.stream) {
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
    if (!w->p.stream) return;
    if (w->p.shape == POST_RESPONSES) {
        const char *state = wire__is_cut(w) ? "incomplete" : "completed";
        char        name[32];
        snprintf(name, sizeof name, "response.%s", state);
        wire__response_event(w, name, state, out);
    } else if (w->p.shape == POST_MESSAGES) {
        jw j = wire__event(w, "message_delta", out);
        jw_open(&j, "delta", '{');
        wire__put_stop_reason(w, &j);
        jw_close(&j, '}');
        wire__put_messages_usage(w, &j);
        wire__event_end(&j);
        j = wire__event(w, "message_stop", out);
        wire__event_end(&j);
    } else {
        if (w->p.usage) wire__chat_usage(w, out);
        str_put(out, "data: [DONE]\n\n");
    }
}

/* An error ends the stream. name: a row of wire_errors. */
static void wire_fail(wire *w, const char *name, const char *message, str *out) {
    const struct wire_error *row = wire__error_row(name, 0);
    if (w->p.shape == POST_RESPONSES && w->id.n) {
        for (size_t i = 0; i < w->n_item; i++)
            if (strcmp(w->item[i].state, "in_progress") == 0) w->item[i].state = "incomplete";
        jw j = wire__event(w, "response.failed", out);
        wire__put_response(w, "failed", row, message, "response", &j);
        wire__event_end(&j);
        return;
    }
    if (wire__names_events(w)) str_put(out, "event: error\n");
    str_put(out, "data: ");
    wire__error_object(w->p.shape, row, (bytes){0}, message, out);
    str_put(out, "\n\n");
}

/* A sign that the server is at work, before a prompt is read whole. */
static void wire_alive(wire *w, str *out) {
    if (w->p.shape == POST_RESPONSES) wire__response_event(w, "response.in_progress", "in_progress", out);
    else if (w->p.shape == POST_MESSAGES) {
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
    bytes        *document = mem_new((size_t)q->n, sizeof *document), rest = str_bytes(&w->p.documents);
    for (int i = 0; i < q->n && bytes_cut_item(&rest, &document[i]); i++) {}
    for (int i = 0; i < q->n; i++) best[i] = (wire__scored){a[i].n_vec ? (double)a[i].vec[0] : 0, i};
    qsort(best, (size_t)q->n, sizeof *best, wire__by_score);
    const bool bare = w->p.bare;
    if (!bare) {
        jw_open(j, NULL, '{');
        jw_fmt(j, "id", "\"rank-%s\"", w->id.p);
        jw_str(j, "object", "list");
        jw_text(j, "model", str_bytes(&w->name));
        jw_open(j, "usage", '{');
        jw_fmt(j, "prompt_tokens", "%d", o->n_prompt);
        jw_fmt(j, "total_tokens", "%d", o->n_prompt);
        jw_close(j, '}');
    }
    jw_open(j, bare ? NULL : "results", '[');
    for (int i = 0; i < (w->p.top_n ? min_int(w->p.top_n, q->n) : q->n); i++) {
        jw_open(j, NULL, '{');
        jw_fmt(j, "index", "%d", best[i].index);
        jw_number(j, bare ? "score" : "relevance_score", 9, best[i].score);
        if (w->p.documents.n) {
            if (!bare) jw_open(j, "document", '{');
            jw_key(j, "text");
            str_json_copy(j->to, document[best[i].index], false);
            if (!bare) jw_close(j, '}');
        }
        jw_close(j, '}');
    }
    jw_close(j, ']');
    if (!bare) jw_close(j, '}');
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
    if (w->p.shape == POST_RESPONSES) wire__put_response(w, wire__is_cut(w) ? "incomplete" : "completed", NULL, NULL, NULL, &j);
    else if (w->p.shape == POST_MESSAGES) wire__put_message(w, false, NULL, &j);
    else if (w->p.shape == POST_RERANK) wire__put_ranks(w, q, a, o, &j);
    else req_print_body(q, a, said, o, v, NULL, &j);
}

/* The body that answers count_tokens. */
static void wire_count(int n_tokens, str *out) {
    jw j = jw_tight(out);
    jw_open(&j, NULL, '{');
    jw_fmt(&j, "input_tokens", "%d", n_tokens);
    jw_close(&j, '}');
}
