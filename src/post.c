/* ===== [post] bodies of requests of OpenAI's and Anthropic's APIs =====
 * A body of any shape becomes a line that [req] reads, so that what a request may say is one table; what the answer has to know
 * of it beside that stays in a `post`. Bytes in, bytes out: no sockets, no threads, no model.
 *   Invariants: values that this section does not have to understand are copied as the body writes them: numbers keep their
 * digits. Each shape's rows of post_keys say which keys are taken, renamed, ignored or refused; all others are [req]'s.
 *   To add a key of a body: a row of post_keys; TAKEN needs a reader in post__chat_of_responses() or post__chat_of_messages().
 * Public: post_shape, post_tool, post, post_seal, post_read, post_drop.
 * Opens: post, post_tool. */

typedef enum { POST_COMPLETION, POST_CHAT, POST_EMBED, POST_RERANK, POST_RESPONSES, POST_MESSAGES, POST_SHAPES } post_shape;

typedef struct {                                      /* a tool whose name in the prompt is made of two */
    str    full;                                      /* in the prompt */
    size_t n_space;                                   /* bytes of the namespace at its beginning */
    size_t n_join;                                    /* bytes between that and the tool's own name */
} post_tool;

typedef struct {
    post_shape   shape;
    bool         stream;                              /* the body asks for events */
    bool         usage;                               /* and for one with the tokens */
    const char  *fault;                               /* what is wrong with the body, as req.fault names it; NULL: nothing */
    str          query;                               /* POST_RERANK: the text that the inputs are held against */
    str          documents;                           /* its documents where they go back: a JSON list of strings */
    int          top_n;                               /* best documents that are wanted; 0: all */
    bool         bare;                                /* the answer is the list alone, as text-embeddings-inference gives it */
    str          echo;                                /* POST_RESPONSES: members of the body that go back, a comma after each */
    bool         sealed;                              /* reasoning.encrypted_content is wanted */
    post_tool   *tool;                                /* [n_tool] of namespaces */
    size_t       n_tool;
} post;

/* Frees what it owns; it is then an empty one. */
static void post_drop(post *p) {
    for (size_t i = 0; i < p->n_tool; i++) str_drop(&p->tool[i].full);
    mem_free(p->tool);
    str_drop_all(&p->query, &p->documents, &p->echo);
    *p = (post){0};
}

static const char post_seal[] = "llmrun:";            /* before thinking that goes to a client to come back */

/* --- JSON as text. bytes_is_json() has passed all of it, so a value's bytes can be copied as they are. --- */

static bytes post__member(bytes object, const char *name) {
    const bytes v = object.n && object.p[0] == '{' ? bytes_trim(bytes_member(object, name)) : (bytes){0};
    return bytes_is(v, "null") ? (bytes){0} : v;
}

static bool post__is_list(bytes v) { return v.n && v.p[0] == '['; }
static bool post__is_object(bytes v) { return v.n && v.p[0] == '{'; }
static bool post__is_string(bytes v) { return v.n && v.p[0] == '"'; }

/* What is between the quotes of a string, with its escapes. */
static bytes post__inside(bytes v) { return post__is_string(v) ? bytes_slice(v, 1, v.n - 1) : (bytes){0}; }

/* Whether the value is this string, which has no character that needs an escape. */
static bool post__is(bytes v, const char *text) {
    str        s = {0};
    bytes      in = post__inside(v);
    const bool escapes = in.n && in.n <= 6 * strlen(text) && memchr(in.p, '\\', in.n);
    if (escapes && str_unquote(&s, v, false)) in = str_bytes(&s);
    const bool same = post__is_string(v) && bytes_is(in, text);
    str_drop(&s);
    return same;
}

static const char *post__kind(bytes v) {
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
} post__shown;

static post__shown post__show(bytes v) {
    post__shown s;
    str         text = {0}, seen = {0};
    if (!str_unquote(&text, v, false)) str_put(&text, post__kind(v));
    str_visible_line(&seen, (bytes){(const uint8_t *)text.p, (size_t)utf8_head(str_bytes(&text), 40)});
    snprintf(s.text, sizeof s.text, "%.47s", seen.p ? seen.p : "");
    str_drop_all(&text, &seen);
    return s;
}

typedef enum {
    POST_TAKEN,                                       /* read here */
    POST_RENAMED,                                     /* copied under the name in `as` */
    POST_IGNORED,                                     /* changes nothing here; the log says so */
    POST_NEVER,                                       /* refused unless it is null, false, 0 or `as`, which is what is expected */
} post__way;

#define POST_IN(shape) (1u << (shape))
enum {
    POST_OWN = POST_IN(POST_CHAT) | POST_IN(POST_COMPLETION) | POST_IN(POST_EMBED),
    POST_CR = POST_IN(POST_CHAT) | POST_IN(POST_RESPONSES),
    POST_R = POST_IN(POST_RESPONSES),
    POST_M = POST_IN(POST_MESSAGES),
    POST_K = POST_IN(POST_RERANK),
    POST_ANY = POST_IN(POST_SHAPES) - 1
};

/* Keys of bodies; those that are in no row of their shape are [req]'s. */
static const struct post_key {
    const char *name;
    unsigned    shapes;
    post__way   way;
    const char *as;
} post_keys[] = {
    {"stream", POST_ANY, POST_TAKEN, NULL},
    {"stream_options", POST_OWN | POST_R, POST_TAKEN, NULL},
    {"user", POST_OWN | POST_R | POST_K, POST_IGNORED, NULL},
    {"metadata", POST_OWN | POST_M, POST_IGNORED, NULL},
    {"metadata", POST_R, POST_TAKEN, NULL},
    {"store", POST_OWN, POST_IGNORED, NULL},
    {"service_tier", POST_OWN | POST_R | POST_M, POST_IGNORED, NULL},
    {"verbosity", POST_OWN, POST_IGNORED, NULL},
    {"prompt_cache_key", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"prompt_cache_retention", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"prompt_cache_options", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"safety_identifier", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"client_metadata", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"include", POST_OWN, POST_IGNORED, NULL},
    {"cache_prompt", POST_OWN, POST_IGNORED, NULL},   /* this and what follows: llama.cpp's, without a use here */
    {"id_slot", POST_OWN, POST_IGNORED, NULL},
    {"timings_per_token", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"return_progress", POST_OWN | POST_R, POST_IGNORED, NULL},
    {"n_predict", POST_IN(POST_CHAT) | POST_IN(POST_COMPLETION), POST_RENAMED, "max_tokens"},
    /* Responses */
    {"include", POST_R, POST_TAKEN, NULL},
    {"input", POST_R, POST_TAKEN, NULL},
    {"instructions", POST_R, POST_TAKEN, NULL},
    {"tools", POST_R | POST_M, POST_TAKEN, NULL},
    {"tool_choice", POST_R | POST_M, POST_TAKEN, NULL},
    {"text", POST_R, POST_TAKEN, NULL},
    {"reasoning", POST_R, POST_TAKEN, NULL},
    {"max_output_tokens", POST_R, POST_RENAMED, "max_completion_tokens"},
    {"max_tool_calls", POST_R, POST_IGNORED, NULL},
    {"truncation", POST_R, POST_NEVER, "disabled"},
    {"store", POST_R, POST_NEVER, "none: the server keeps no responses"},
    {"background", POST_R, POST_NEVER, "none: the server keeps no responses"},
    {"previous_response_id", POST_R, POST_NEVER, "none: the server keeps no responses, so input has the whole conversation"},
    {"conversation", POST_R, POST_NEVER, "none: the server keeps no conversations, so input has all of it"},
    {"prompt", POST_R, POST_NEVER, "none: the server keeps no prompt templates"},
    {"top_logprobs", POST_R, POST_NEVER, "none: answers of this endpoint have no logprobs"},
    {"n", POST_R | POST_M, POST_NEVER, "none: a request has one answer here"},
    /* Messages */
    {"messages", POST_R, POST_NEVER, "none: the conversation is in input"},
    {"messages", POST_M, POST_TAKEN, NULL},
    {"system", POST_M, POST_TAKEN, NULL},
    {"stop_sequences", POST_M, POST_RENAMED, "stop"},
    {"thinking", POST_M, POST_TAKEN, NULL},
    {"output_config", POST_M, POST_TAKEN, NULL},
    {"output_format", POST_M, POST_TAKEN, NULL},
    {"context_management", POST_M, POST_IGNORED, NULL},
    {"cache_control", POST_M, POST_IGNORED, NULL},
    {"betas", POST_M, POST_IGNORED, NULL},
    {"container", POST_M, POST_IGNORED, NULL},
    {"inference_geo", POST_M, POST_IGNORED, NULL},
    {"speed", POST_M, POST_IGNORED, NULL},
    {"mcp_servers", POST_M, POST_IGNORED, NULL},
    {"anthropic_version", POST_M, POST_IGNORED, NULL},
    /* rerank */
    {"query", POST_K, POST_TAKEN, NULL},
    {"documents", POST_K, POST_TAKEN, NULL},
    {"texts", POST_K, POST_TAKEN, NULL},              /* as text-embeddings-inference has it, with the next three */
    {"return_text", POST_K, POST_TAKEN, NULL},
    {"raw_scores", POST_K, POST_IGNORED, NULL},
    {"truncate", POST_K, POST_NEVER, "false: a pair that is too long is an error"},
    {"top_n", POST_K, POST_TAKEN, NULL},
    {"return_documents", POST_K, POST_TAKEN, NULL},
    {"max_chunks_per_doc", POST_K, POST_IGNORED, NULL},
    {"max_tokens_per_doc", POST_K, POST_IGNORED, NULL},
};
enum { POST_KEYS = sizeof post_keys / sizeof *post_keys };

typedef struct {                                      /* a body that is being read */
    post  *p;
    err_t *e;
    bytes  got[POST_KEYS];                            /* values of the keys that are read here; empty: not given, or null */
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
} post_in;

static void post__in_drop(post_in *in) {
    str_drop_all(&in->rest, &in->system, &in->messages, &in->tools, &in->skipped, &in->ignored, &in->text, &in->thought,
                 &in->calls);
}

__attribute__((format(printf, 3, 4))) static bool post__bad(post_in *in, const char *fault, const char *fmt, ...) {
    char    why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    in->p->fault = fault;
    return err_set(in->e, EXIT_INPUT, "%s", why);
}

/* The value of a key that is read here. */
static bytes post__got(const post_in *in, const char *name) {
    for (int i = 0; i < POST_KEYS; i++)
        if (in->got[i].n && strcmp(post_keys[i].name, name) == 0) return in->got[i];
    return (bytes){0};
}

/* One more name for a line of the log, which stays short. */
static void post__list_add(str *list, const char *name) {
    if (list->n < 300) str_fmt(list, "%s%s", list->n ? ", " : "", name);
    else if (!bytes_ends(str_bytes(list), bytes_of("..."))) str_put(list, ", ...");
}

/* The row of a key, given with its quotes; NULL: the shape has none. */
static const struct post_key *post__key(bytes key, post_shape shape) {
    str                    name = {0};
    const struct post_key *found = NULL;
    const bool             some = key.n < 256 && str_unquote(&name, key, false);
    for (int i = 0; some && i < POST_KEYS && !found; i++)
        if ((post_keys[i].shapes & POST_IN(shape)) && bytes_is(str_bytes(&name), post_keys[i].name)) found = &post_keys[i];
    str_drop(&name);
    return found;
}

/* A member of the body that [req] reads. name: a JSON string. */
static void post__rest(post_in *in, bytes name, bytes value) {
    str_put(&in->rest, ",");
    str_cat(&in->rest, name);
    str_put(&in->rest, ":");
    str_cat(&in->rest, value);
}

static void post__rest_as(post_in *in, const char *name, bytes value) {
    str key = {0};
    str_json(&key, bytes_of(name));
    post__rest(in, str_bytes(&key), value);
    str_drop(&key);
}

/* Sorts the members of a body by the table. */
static bool post__members(post_in *in, bytes body) {
    bytes key = {0}, value;
    while (bytes_cut_member(&body, &key, &value)) {
        const struct post_key *k = post__key(key, in->p->shape);
        value = bytes_trim(value);
        if (!k) post__rest(in, key, value);
        else if (bytes_is(value, "null")) continue;
        else if (k->way == POST_TAKEN) in->got[k - post_keys] = value;
        else if (k->way == POST_RENAMED) post__rest_as(in, k->as, value);
        else if (k->way == POST_IGNORED) post__list_add(&in->ignored, k->name);
        else if (!bytes_is(value, "false") && !bytes_is(value, "0") && !post__is(value, k->as))
            return post__bad(in, req_unsupported, "%s: found %s, expected %s", k->name,
                             post__is_string(value) ? post__show(value).text : post__kind(value), k->as);
    }
    return true;
}

/* stream and stream_options. */
static bool post__stream_of(post_in *in) {
    const bytes stream = post__got(in, "stream"), options = post__got(in, "stream_options");
    const bytes usage = post__member(options, "include_usage");
    in->p->stream = bytes_is(stream, "true");
    in->p->usage = in->p->stream && bytes_is(usage, "true");
    if (stream.n && !in->p->stream && !bytes_is(stream, "false"))
        return post__bad(in, req_invalid, "stream: found %s, expected true or false", post__kind(stream));
    if (options.n && !post__is_object(options))
        return post__bad(in, req_invalid, "stream_options: found %s, expected an object", post__kind(options));
    if (in->p->stream && (in->p->shape == POST_EMBED || in->p->shape == POST_RERANK))
        return post__bad(in, req_unsupported, "stream: true, expected false: vectors and scores come as one object");
    return true;
}

/* --- conversations: turns of a user and of the assistant, which become messages of a chat --- */

static void post__message(post_in *in, const char *role, bytes members) {
    str_fmt(&in->messages, "%s{\"role\":\"%s\"", in->messages.n ? "," : "", role);
    str_cat(&in->messages, members);
    str_put(&in->messages, "}");
}

/* Appends a member whose value is a string with this inside. */
static void post__put_string(str *s, const char *name, bytes inside) {
    str_fmt(s, ",\"%s\":\"", name);
    str_cat(s, inside);
    str_put(s, "\"");
}

/* The turn is over and becomes a message. Several parts of one role in a row are one turn, as Anthropic's servers have it: many
 * templates want user and assistant to alternate. */
static void post__end_turn(post_in *in) {
    str m = {0};
    if (in->role == 'u') post__put_string(&m, "content", str_bytes(&in->text));
    else if (in->role == 'a') {
        if (in->has_text || !in->calls.n) post__put_string(&m, "content", str_bytes(&in->text));
        else str_put(&m, ",\"content\":null");
        if (in->thought.n) post__put_string(&m, "reasoning_content", str_bytes(&in->thought));
        if (in->calls.n) str_put(&m, ",\"tool_calls\":["), str_cat(&m, str_bytes(&in->calls)), str_put(&m, "]");
    }
    if (in->role) post__message(in, in->role == 'u' ? "user" : "assistant", str_bytes(&m));
    in->role = 0;
    in->has_text = false;
    str_clear(&in->text), str_clear(&in->thought), str_clear(&in->calls);
    str_drop(&m);
}

static void post__turn(post_in *in, char role) {
    if (in->role != role) post__end_turn(in);
    in->role = role;
}

static void post__join(str *to, bytes inside, const char *between) {
    if (to->n && inside.n) str_put(to, between);
    str_cat(to, inside);
}

static void post__say(post_in *in, char role, bytes inside) {
    post__turn(in, role);
    post__join(&in->text, inside, "\\n");
    in->has_text = in->has_text || inside.n;
}

/* A call of the assistant's turn. id, name: insides of strings; arguments: JSON that becomes a string, or with `inside` what is
 * inside of one. */
static void post__say_call(post_in *in, bytes id, bytes name, bytes arguments, bool inside) {
    post__turn(in, 'a');
    str_put(&in->calls, in->calls.n ? ",{\"type\":\"function\"" : "{\"type\":\"function\"");
    if (id.n) post__put_string(&in->calls, "id", id);
    str_put(&in->calls, ",\"function\":{\"name\":\"");
    str_cat(&in->calls, name);
    str_put(&in->calls, "\",\"arguments\":");
    if (inside) str_put(&in->calls, "\""), str_cat(&in->calls, arguments), str_put(&in->calls, "\"");
    else str_json_exact(&in->calls, arguments);
    str_put(&in->calls, "}}");
}

/* What a tool gave back. */
static void post__say_result(post_in *in, bytes id, bytes inside) {
    str m = {0};
    post__end_turn(in);
    if (id.n) post__put_string(&m, "tool_call_id", id);
    post__put_string(&m, "content", inside);
    post__message(in, "tool", str_bytes(&m));
    str_drop(&m);
}

/* A part of the system message. One is made of all that come before the conversation: many templates take one alone, at the
 * beginning. */
static void post__say_system(post_in *in, bytes inside) {
    post__join(&in->system, inside, "\\n\\n");
    in->has_system = true;
}

/* The text of a part of a content; empty: the part has none. */
static bytes post__part_text(bytes part, bytes type) {
    if (post__is_string(part)) return part;
    return post__member(part, post__is(type, "refusal") ? "refusal" : post__is(type, "thinking") ? "thinking" : "text");
}

/* Says in the text that a part of this type is left out. */
static void post__leave_out(post_in *in, bytes type, str *out) {
    str note = {0}, json = {0};
    str_fmt(&note, "[%s left out]", post__show(type).text);
    str_json(&json, str_bytes(&note));
    post__join(out, post__inside(str_bytes(&json)), "\\n");
    post__list_add(&in->skipped, post__show(type).text);
    str_drop_all(&note, &json);
}

/* The text of a content: a string, or a list of parts of these types, joined by newlines and appended as the inside of a
 * string. pictures: others are left out, else they are an error. where: the content, in messages. */
static bool post__content(post_in *in, bytes v, const char *where, bool pictures, str *out) {
    static const char types[] = "text input_text output_text refusal reasoning_text summary_text thinking";
    bytes             part;
    str_add(out, "", 0);
    if (!v.n) return true;
    if (post__is_string(v)) return str_cat(out, post__inside(v)), true;
    if (!post__is_list(v))
        return post__bad(in, req_invalid, "%s: found %s, expected a string or a list of parts", where, post__kind(v));
    for (size_t i = 0; bytes_cut_item(&v, &part); i++) {
        const bytes type = post__member(part, "type"), text = post__part_text(part, type);
        const bool  other = type.n && !bytes_among(post__inside(type), types);
        if (other && !pictures)
            return post__bad(in, req_unsupported, "%s[%zu]: found a part of type %s, expected text", where, i,
                             post__show(type).text);
        if (!other && !post__is_string(text))
            return post__bad(in, req_invalid, "%s[%zu]: found %s as text, expected a string", where, i, post__kind(text));
        if (other) post__leave_out(in, type, out);
        else post__join(out, post__inside(text), "\\n");
    }
    return true;
}

/* A tool, as chat completions have it. name: the inside of a string; schema: empty where there is none. */
static void post__tool(post_in *in, bytes name, bytes description, bytes schema, bytes strict) {
    str *s = &in->tools;
    str_put(s, s->n ? ",{\"type\":\"function\",\"function\":{\"name\":\"" : "{\"type\":\"function\",\"function\":{\"name\":\"");
    str_cat(s, name);
    str_put(s, "\"");
    if (post__is_string(description)) str_put(s, ",\"description\":"), str_cat(s, description);
    if (schema.n) str_put(s, ",\"parameters\":"), str_cat(s, schema);
    if (strict.n) str_put(s, ",\"strict\":"), str_cat(s, strict);
    str_put(s, "}}");
}

static bool post__tool_name(post_in *in, bytes tool, size_t i, bytes *name) {
    const bytes v = post__member(tool, "name");
    *name = post__inside(v);
    return name->n || post__bad(in, req_invalid, "tools[%zu].name: found %s, expected the name of a function", i,
                                v.n ? post__kind(v) : "nothing");
}

/* --- Responses --- */

/* The name in the prompt of a tool of a namespace. Both are insides of strings. */
static void post__full_name(bytes space, bytes name, str *out) {
    str_cat(out, space);
    if (space.n && !bytes_ends(space, bytes_of("__"))) str_put(out, "__");
    str_cat(out, name);
}

/* Appends what the inside of a string stands for. */
static void post__unquote(bytes inside, str *out) {
    str json = {0};
    str_put(&json, "\""), str_cat(&json, inside), str_put(&json, "\"");
    str_unquote(out, str_bytes(&json), false);
    str_drop(&json);
}

/* What the answer has to know of a tool of a namespace. Both are insides of strings. */
static void post__note_tool(post *p, bytes space, bytes full) {
    str own = {0};
    MEM_PUSH(p->tool, p->n_tool, (post_tool){0});
    post_tool *t = &p->tool[p->n_tool - 1];
    post__unquote(space, &own);
    post__unquote(full, &t->full);
    t->n_space = own.n;
    t->n_join = bytes_ends(space, bytes_of("__")) ? 0 : 2;
    str_drop(&own);
}

static bool post__function(post_in *in, bytes tool, size_t i, bytes space) {
    str   full = {0};
    bytes name;
    if (!post__tool_name(in, tool, i, &name)) return false;
    post__full_name(space, name, &full);
    post__tool(in, str_bytes(&full), post__member(tool, "description"), post__member(tool, "parameters"),
               post__member(tool, "strict"));
    if (space.n) post__note_tool(in->p, space, str_bytes(&full));
    str_drop(&full);
    return true;
}

/* Functions, and those of namespaces; tools that a server of OpenAI runs, or that are no functions, are left out. */
static bool post__tools(post_in *in, bytes list) {
    bytes tool, rest = list;
    if (list.n && !post__is_list(list)) return post__bad(in, req_invalid, "tools: found %s, expected a list", post__kind(list));
    for (size_t i = 0; bytes_cut_item(&rest, &tool); i++) {
        const bytes type = post__member(tool, "type");
        if (!post__is_object(tool)) return post__bad(in, req_invalid, "tools[%zu]: found %s, expected an object", i,
                                                     post__kind(tool));
        if (post__is(type, "namespace")) {
            const bytes space = post__inside(post__member(tool, "name"));
            bytes       inner = post__member(tool, "tools"), one;
            while (bytes_cut_item(&inner, &one))
                if (post__is(post__member(one, "type"), "function")) {
                    if (!post__function(in, one, i, space)) return false;
                } else post__list_add(&in->skipped, post__show(post__member(one, "type")).text);
        } else if (post__is(type, "function")) {
            if (!post__function(in, tool, i, (bytes){0})) return false;
        } else if (type.n) post__list_add(&in->skipped, post__show(type).text);
        else return post__bad(in, req_invalid, "tools[%zu].type: found nothing, expected function", i);
    }
    return true;
}

static void post__choose(post_in *in, bytes name) {
    str choice = {0};
    str_put(&choice, "{\"type\":\"function\",\"function\":{\"name\":\"");
    str_cat(&choice, name);
    str_put(&choice, "\"}}");
    post__rest_as(in, "tool_choice", str_bytes(&choice));
    str_drop(&choice);
}

/* Words, {"type":"function","name":NAME}, {"type":"allowed_tools",...}: [req] reads the latter as they are. */
static bool post__tool_choice(post_in *in, bytes v) {
    const bytes type = post__member(v, "type");
    str         full = {0};
    if (!v.n || (!in->tools.n && post__is(v, "auto"))) return true;
    if (post__is(type, "function") && post__is_string(post__member(v, "name"))) {
        post__full_name(post__inside(post__member(v, "namespace")), post__inside(post__member(v, "name")), &full);
        post__choose(in, str_bytes(&full));
        str_drop(&full);
    } else post__rest_as(in, "tool_choice", v);
    return true;
}

/* text.format becomes response_format. */
static bool post__text_format(post_in *in, bytes v) {
    const bytes format = post__member(v, "format"), schema = post__member(format, "schema");
    str         out = {0};
    if (v.n && !post__is_object(v)) return post__bad(in, req_invalid, "text: found %s, expected an object", post__kind(v));
    if (post__member(v, "verbosity").n) post__list_add(&in->ignored, "text.verbosity");
    if (!format.n) return true;
    if (!post__is(post__member(format, "type"), "json_schema")) return post__rest_as(in, "response_format", format), true;
    if (!schema.n) return post__bad(in, req_invalid, "text.format.schema: found nothing, expected a JSON Schema");
    str_put(&out, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
    str_cat(&out, schema);
    str_put(&out, "}}");
    post__rest_as(in, "response_format", str_bytes(&out));
    str_drop(&out);
    return true;
}

static bool post__reasoning(post_in *in, bytes v) {
    const bytes effort = post__member(v, "effort");
    if (v.n && !post__is_object(v)) return post__bad(in, req_invalid, "reasoning: found %s, expected an object", post__kind(v));
    if (post__is(effort, "none")) post__rest_as(in, "chat_template_kwargs", bytes_of("{\"enable_thinking\":false}"));
    if (effort.n) post__rest_as(in, "reasoning_effort", effort);
    if (post__member(v, "summary").n || post__member(v, "generate_summary").n) post__list_add(&in->ignored, "reasoning.summary");
    return true;
}

/* Thinking that comes back: its text, or what this server sealed. */
static bool post__item_reasoning(post_in *in, bytes item, const char *where) {
    const bytes sealed = post__inside(post__member(item, "encrypted_content"));
    bytes       content = post__member(item, "content");
    str         text = {0};
    bool        ok = true;
    if (!content.n && bytes_begins(sealed, bytes_of(post_seal))) {
        str plain = {0}, json = {0};
        str_unbase64(&plain, bytes_slice(sealed, strlen(post_seal), sealed.n));
        str_json(&json, str_bytes(&plain));
        str_cat(&text, post__inside(str_bytes(&json)));
        str_drop_all(&plain, &json);
    } else ok = post__content(in, content.n ? content : post__member(item, "summary"), where, false, &text);
    if (ok && text.n) {
        post__turn(in, 'a');
        if (in->calls.n || in->has_text) post__end_turn(in), in->role = 'a';
        post__join(&in->thought, str_bytes(&text), "\\n");
    }
    str_drop(&text);
    return ok;
}

static bool post__item_message(post_in *in, bytes item, const char *where) {
    const bytes role = post__member(item, "role");
    str         text = {0};
    bool        ok = post__content(in, post__member(item, "content"), where, false, &text);
    const bool  system = post__is(role, "system") || post__is(role, "developer");
    if (ok && post__is(role, "user")) post__say(in, 'u', str_bytes(&text));
    else if (ok && post__is(role, "assistant")) post__say(in, 'a', str_bytes(&text));
    else if (ok && system && !in->messages.n && !in->role) post__say_system(in, str_bytes(&text));
    else if (ok && system) {
        str m = {0};
        post__end_turn(in);
        post__put_string(&m, "content", str_bytes(&text));
        post__message(in, "system", str_bytes(&m));
        str_drop(&m);
    } else if (ok)
        ok = post__bad(in, req_invalid, "%s: role is %s, expected user, assistant, system or developer", where,
                       post__show(role).text);
    str_drop(&text);
    return ok;
}

static bool post__item_call(post_in *in, bytes item, const char *where, const char *arguments) {
    const bytes id = post__inside(post__member(item, "call_id")), given = post__member(item, arguments);
    const bytes name = post__inside(post__member(item, "name")), space = post__inside(post__member(item, "namespace"));
    str         full = {0}, wrapped = {0};
    post__full_name(space, name.n ? name : bytes_of("local_shell"), &full);
    if (strcmp(arguments, "input") == 0) {            /* a call with free text */
        str_put(&wrapped, "{\"input\":"), str_cat(&wrapped, given.n ? given : bytes_of("\"\"")), str_put(&wrapped, "}");
        post__say_call(in, id, str_bytes(&full), str_bytes(&wrapped), false);
    } else if (post__is_string(given)) post__say_call(in, id, str_bytes(&full), post__inside(given), true);
    else post__say_call(in, id, str_bytes(&full), given.n ? given : bytes_of("{}"), false);
    str_drop_all(&full, &wrapped);
    return name.n || strcmp(arguments, "action") == 0 || post__bad(in, req_invalid, "%s: a call without a name", where);
}

static bool post__item_output(post_in *in, bytes item, const char *where) {
    str        text = {0};
    const bool ok = post__content(in, post__member(item, "output"), where, true, &text);
    if (ok) post__say_result(in, post__inside(post__member(item, "call_id")), str_bytes(&text));
    str_drop(&text);
    return ok;
}

/* One item of input. */
static bool post__item_in(post_in *in, bytes item, size_t i) {
    static const char hosted[] = "web_search_call file_search_call image_generation_call code_interpreter_call computer_call "
                                 "computer_call_output mcp_call mcp_list_tools mcp_approval_request mcp_approval_response "
                                 "compaction compaction_summary ghost_snapshot tool_search_call tool_search_output";
    const bytes type = post__member(item, "type"), word = post__inside(type);
    char        where[40];
    snprintf(where, sizeof where, "input[%zu]", i);
    if (!post__is_object(item)) return post__bad(in, req_invalid, "%s: found %s, expected an object", where, post__kind(item));
    if (!type.n || post__is(type, "message")) return post__item_message(in, item, where);
    if (post__is(type, "function_call")) return post__item_call(in, item, where, "arguments");
    if (post__is(type, "custom_tool_call")) return post__item_call(in, item, where, "input");
    if (post__is(type, "local_shell_call")) return post__item_call(in, item, where, "action");
    if (bytes_among(word, "function_call_output custom_tool_call_output local_shell_call_output"))
        return post__item_output(in, item, where);
    if (post__is(type, "reasoning")) return post__item_reasoning(in, item, where);
    if (bytes_among(word, hosted)) return post__list_add(&in->skipped, post__show(type).text), true;
    return post__bad(in, req_unsupported,
                     "%s: found an item of type %s, expected message, function_call, function_call_output or "
                     "reasoning", where, post__show(type).text);
}

/* Members of the response that repeat the request. */
static void post__echo(post_in *in, bytes body) {
    static const struct { const char *name, *none; } keys[] = {
        {"instructions", "null"}, {"max_output_tokens", "null"}, {"metadata", "{}"}, {"parallel_tool_calls", "true"},
        {"temperature", "null"}, {"tool_choice", "\"auto\""}, {"tools", "[]"}, {"top_p", "null"}, {"reasoning", "null"},
        {"text", "{\"format\":{\"type\":\"text\"}}"}, {"truncation", "\"disabled\""}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const bytes v = post__member(body, keys[i].name);
        str         one = {0};
        str_json_copy(&one, v.n ? v : bytes_of(keys[i].none), false);
        str_fmt(&in->p->echo, "\"%s\":", keys[i].name);
        for (size_t k = 0; k < one.n; k++)            /* an event is one line, and strings have no newline */
            if (one.p[k] != '\n' && one.p[k] != '\r') str_add(&in->p->echo, &one.p[k], 1);
        str_put(&in->p->echo, ",");
        str_drop(&one);
    }
}

static bool post__chat_of_responses(post_in *in, bytes body) {
    bytes       input = post__got(in, "input"), item, included = post__got(in, "include");
    const bytes instructions = post__got(in, "instructions");
    str         text = {0};
    bool        ok = post__content(in, instructions, "instructions", false, &text);
    if (ok && text.n) post__say_system(in, str_bytes(&text));
    str_drop(&text);
    if (!ok) return false;
    while (bytes_cut_item(&included, &item)) {
        in->p->sealed = in->p->sealed || post__is(item, "reasoning.encrypted_content");
        if (!post__is(item, "reasoning.encrypted_content")) post__list_add(&in->ignored, "include");
    }
    if (post__is_string(input)) post__say(in, 'u', post__inside(input));
    else if (!post__is_list(input))
        return post__bad(in, req_invalid, "input: found %s, expected a text or a list of items", post__kind(input));
    for (size_t i = 0; post__is_list(input) || (i && input.n); i++) {
        if (!bytes_cut_item(&input, &item)) break;
        if (!post__item_in(in, item, i)) return false;
    }
    post__echo(in, body);
    return post__tools(in, post__got(in, "tools")) && post__tool_choice(in, post__got(in, "tool_choice")) &&
           post__text_format(in, post__got(in, "text")) && post__reasoning(in, post__got(in, "reasoning"));
}

/* --- Messages --- */

/* A text of the system prompt. Claude Code's first one has five characters that are new in each request, and so no prefix of two
 * prompts would be the same. */
static void post__system_text(post_in *in, bytes inside) {
    static const char head[] = "x-anthropic-billing-header:";
    str               own = {0};
    str_cat(&own, inside);
    size_t at = bytes_begins(inside, bytes_of(head)) ? bytes_find(inside, 0, bytes_of("cch=")) : SIZE_MAX;
    if (at != SIZE_MAX)
        for (at += 4; at < own.n && isalnum((uint8_t)own.p[at]); at++) own.p[at] = '0';
    post__say_system(in, str_bytes(&own));
    str_drop(&own);
}

static bool post__system(post_in *in, bytes v) {
    bytes part;
    if (post__is_string(v)) return post__system_text(in, post__inside(v)), true;
    if (v.n && !post__is_list(v)) return post__bad(in, req_invalid, "system: found %s, expected a text or a list of blocks",
                                                   post__kind(v));
    for (size_t i = 0; bytes_cut_item(&v, &part); i++) {
        const bytes text = post__member(part, "text");
        if (!post__is_string(text)) return post__bad(in, req_invalid, "system[%zu]: found %s as text, expected a string", i,
                                                     post__kind(text));
        post__system_text(in, post__inside(text));
    }
    return true;
}

static bool post__block_result(post_in *in, bytes block, const char *where) {
    str        text = {0};
    const bool failed = bytes_is(post__member(block, "is_error"), "true");
    if (failed) str_put(&text, "Error:");
    str rest = {0};
    const bool ok = post__content(in, post__member(block, "content"), where, true, &rest);
    post__join(&text, str_bytes(&rest), " ");
    if (ok) post__say_result(in, post__inside(post__member(block, "tool_use_id")), str_bytes(&text));
    str_drop_all(&text, &rest);
    return ok;
}

/* A block of a turn; results come before the rest of a turn. */
static bool post__block(post_in *in, char role, bytes block, const char *where, bool given_back) {
    static const char hosted[] = "server_tool_use web_search_tool_result web_fetch_tool_result code_execution_tool_result "
                                 "bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result "
                                 "mcp_tool_use mcp_tool_result container_upload compaction";
    const bytes type = post__member(block, "type"), word = post__inside(type);
    if (post__is_string(block)) return given_back || (post__say(in, role, post__inside(block)), true);
    if (given_back != post__is(type, "tool_result")) return true;
    if (given_back) return post__block_result(in, block, where);
    if (post__is(type, "redacted_thinking")) return true;
    if (post__is(type, "thinking")) {
        post__turn(in, role);
        if (role == 'a') post__join(&in->thought, post__inside(post__member(block, "thinking")), "\\n");
        return true;
    }
    if (post__is(type, "tool_use")) {
        const bytes input = post__member(block, "input"), name = post__inside(post__member(block, "name"));
        if (!name.n) return post__bad(in, req_invalid, "%s: a tool_use without a name", where);
        return post__say_call(in, post__inside(post__member(block, "id")), name, input.n ? input : bytes_of("{}"), false), true;
    }
    if (bytes_among(word, hosted)) return post__list_add(&in->skipped, post__show(type).text), true;
    const bytes source = post__member(block, "source");
    const bool  document = post__is(type, "document") && post__is(post__member(source, "type"), "text");
    const bytes text = post__member(document ? source : block, document ? "data" : "text");
    if (!document && !post__is(type, "text"))
        return post__bad(in, req_unsupported, "%s: found a block of type %s, expected text, tool_use, tool_result or thinking",
                         where,
                         type.n ? post__show(type).text : "nothing");
    if (!post__is_string(text)) return post__bad(in, req_invalid, "%s: found %s as text, expected a string", where,
                                                 post__kind(text));
    return post__say(in, role, post__inside(text)), true;
}

static bool post__turn_in(post_in *in, bytes message, size_t i) {
    const bytes role = post__member(message, "role"), content = post__member(message, "content");
    const char  who = post__is(role, "assistant") ? 'a' : 'u';
    char        where[64];
    if (!post__is_object(message)) return post__bad(in, req_invalid, "messages[%zu]: found %s, expected an object", i,
                                                    post__kind(message));
    if (who == 'u' && !post__is(role, "user") && !post__is(role, "system"))
        return post__bad(in, req_invalid, "messages[%zu].role: found %s, expected user or assistant", i, post__show(role).text);
    if (post__is_string(content)) return post__say(in, who, post__inside(content)), true;
    if (!post__is_list(content))
        return post__bad(in, req_invalid, "messages[%zu].content: found %s, expected a text or a list of blocks", i,
                         post__kind(content));
    for (int given_back = 1; given_back >= 0; given_back--) {
        bytes rest = content, block;
        for (size_t k = 0; bytes_cut_item(&rest, &block); k++) {
            snprintf(where, sizeof where, "messages[%zu].content[%zu]", i, k);
            if (!post__block(in, who, block, where, given_back)) return false;
        }
    }
    return true;
}

/* Tools with a schema of their own; those that Anthropic's servers or models know are left out. */
static bool post__messages_tools(post_in *in, bytes list) {
    bytes tool, name;
    if (list.n && !post__is_list(list)) return post__bad(in, req_invalid, "tools: found %s, expected a list", post__kind(list));
    for (size_t i = 0; bytes_cut_item(&list, &tool); i++) {
        const bytes type = post__member(tool, "type"), schema = post__member(tool, "input_schema");
        if (!post__is_object(tool)) return post__bad(in, req_invalid, "tools[%zu]: found %s, expected an object", i,
                                                     post__kind(tool));
        if (type.n && !post__is(type, "custom")) post__list_add(&in->skipped, post__show(type).text);
        else if (!post__tool_name(in, tool, i, &name)) return false;
        else post__tool(in, name, post__member(tool, "description"), schema, (bytes){0});
    }
    return true;
}

/* {"type":"auto", "any", "none" or "tool", with a name}; disable_parallel_tool_use. */
static bool post__messages_choice(post_in *in, bytes v) {
    const bytes type = post__member(v, "type");
    if (!v.n) return true;
    if (bytes_is(post__member(v, "disable_parallel_tool_use"), "true"))
        post__rest_as(in, "parallel_tool_calls", bytes_of("false"));
    if (post__is(type, "auto")) return true;
    if (post__is(type, "none")) return post__rest_as(in, "tool_choice", bytes_of("\"none\"")), true;
    if (post__is(type, "any")) return post__rest_as(in, "tool_choice", bytes_of("\"required\"")), true;
    if (post__is(type, "tool")) return post__choose(in, post__inside(post__member(v, "name"))), true;
    return post__bad(in, req_invalid, "tool_choice.type: found %s, expected auto, any, tool or none",
                     type.n ? post__show(type).text : "nothing");
}

/* A schema of the answer, in output_config.format or, as it was called before, output_format. */
static bool post__messages_format(post_in *in) {
    const bytes config = post__got(in, "output_config"), inner = post__member(config, "format");
    const bytes format = inner.n ? inner : post__got(in, "output_format"), schema = post__member(format, "schema");
    str         out = {0};
    if (post__member(config, "effort").n) post__list_add(&in->ignored, "output_config.effort");
    if (!format.n) return true;
    if (!post__is(post__member(format, "type"), "json_schema") || !schema.n)
        return post__bad(in, req_invalid, "output_config.format: found %s, expected type json_schema and a schema",
                         post__show(post__member(format, "type")).text);
    str_put(&out, "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":");
    str_cat(&out, schema);
    str_put(&out, "}}");
    post__rest_as(in, "response_format", str_bytes(&out));
    str_drop(&out);
    return true;
}

static bool post__chat_of_messages(post_in *in) {
    bytes       list = post__got(in, "messages"), message;
    const bytes thinking = post__member(post__got(in, "thinking"), "type");
    if (!post__is_list(list)) return post__bad(in, req_invalid, "messages: found %s, expected a list", post__kind(list));
    if (!post__system(in, post__got(in, "system"))) return false;
    for (size_t i = 0; bytes_cut_item(&list, &message); i++)
        if (!post__turn_in(in, message, i)) return false;
    if (post__is(thinking, "disabled")) post__rest_as(in, "chat_template_kwargs", bytes_of("{\"enable_thinking\":false}"));
    else if (thinking.n) post__list_add(&in->ignored, "thinking");
    if (in->role == 'a' && in->has_text && !in->calls.n) post__rest_as(in, "continue_final_message", bytes_of("true"));
    return post__messages_tools(in, post__got(in, "tools")) && post__messages_choice(in, post__got(in, "tool_choice")) &&
           post__messages_format(in);
}

/* --- rerank --- */

static bool post__inputs_of_rerank(post_in *in, str *out) {
    post       *p = in->p;
    const bytes query = post__got(in, "query"), top = post__got(in, "top_n"), given = post__got(in, "documents");
    bytes       list = given.n ? given : post__got(in, "texts"), one;
    if (!post__is_string(query)) return post__bad(in, req_invalid, "query: found %s, expected a text", post__kind(query));
    if (!post__is_list(list)) return post__bad(in, req_invalid, "documents: found %s, expected a list of texts",
                                               post__kind(list));
    str_unquote(&p->query, query, false);
    str_put(out, "\"input\":");
    const size_t from = out->n;
    str_put(out, "[");
    for (size_t i = 0; bytes_cut_item(&list, &one); i++) {
        const bytes text = post__is_object(one) ? post__member(one, "text") : one;
        if (!post__is_string(text)) return post__bad(in, req_invalid, "documents[%zu]: found %s, expected a text", i,
                                                     post__kind(text));
        if (i) str_put(out, ",");
        str_cat(out, text);
    }
    str_put(out, "]");
    p->bare = !given.n;
    if (bytes_is(post__got(in, p->bare ? "return_text" : "return_documents"), "true"))
        str_cat(&p->documents, bytes_slice(str_bytes(out), from, out->n));
    if (top.n) {
        char         digits[16] = "";
        memcpy(digits, top.p, min_size(top.n, sizeof digits - 1));
        const long n = strtol(digits, NULL, 10);
        if (n < 1 || top.n > 9 || strspn(digits, "0123456789") != top.n)
            return post__bad(in, req_invalid, "top_n: found %s, expected a number of documents from 1",
                             isdigit(top.p[0]) ? digits : post__kind(top));
        p->top_n = (int)n;
    }
    return true;
}

/* --- all of a body --- */

static void post__notes(const post_in *in, str *notes) {
    if (in->ignored.n) str_fmt(notes, "ignored: %s\n", in->ignored.p);
    if (in->skipped.n) str_fmt(notes, "left out: %s\n", in->skipped.p);
}

static bool post__body(post_in *in, bytes body, str *out) {
    post *p = in->p;
    if (!post__members(in, body) || !post__stream_of(in)) return false;
    str_put(out, "{");
    if (p->shape == POST_RERANK && !post__inputs_of_rerank(in, out)) return false;
    if (p->shape == POST_RESPONSES && !post__chat_of_responses(in, body)) return false;
    if (p->shape == POST_MESSAGES && !post__chat_of_messages(in)) return false;
    if (p->shape == POST_RESPONSES || p->shape == POST_MESSAGES) {
        post__end_turn(in);
        str_put(out, "\"messages\":[");
        if (in->has_system) {
            str_put(out, "{\"role\":\"system\"");
            post__put_string(out, "content", str_bytes(&in->system));
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
 * notes: what is ignored and what is left out, a line each. False: e says why, and p->fault names the kind. The caller drops
 * *p in either case. */
static bool post_read(post *p, post_shape shape, bytes body, str *line, str *notes, err_t *e) {
    static const char *const urls[POST_SHAPES] = {[POST_COMPLETION] = req_url,  [POST_CHAT] = req_chat_url,
                                                  [POST_EMBED] = req_embed_url, [POST_RERANK] = req_embed_url,
                                                  [POST_RESPONSES] = req_chat_url, [POST_MESSAGES] = req_chat_url};
    post_in in = {.p = p, .e = e};
    str     out = {0};
    *p = (post){.shape = shape};
    body = bytes_trim(body);
    if (!post__is_object(body) || !bytes_is_json(body)) {
        if (body.n) return str_cat(line, body), true;
        p->fault = req_bad_json;
        return err_set(e, EXIT_INPUT, "the body is empty, expected a JSON object");
    }
    const bool ok = post__body(&in, body, &out);
    if (ok) {
        str_fmt(line, "{\"method\":\"POST\",\"url\":\"%s\",\"body\":", urls[shape]);
        str_cat(line, str_bytes(&out));
        str_put(line, "}");
        post__notes(&in, notes);
    }
    post__in_drop(&in);
    str_drop(&out);
    return ok;
}
