/* [wire]: bodies of each API and the chats that they become, recorded requests of clients, streams event by event, whole answers,
 * errors. */
#include "program.h"
#include "check.h"
#include "tok_mem.h"

/* What a body becomes: the body inside the envelope, else "! " and the error; then "# " and each note. */
static str tw_read(wire *w, post_shape shape, bytes body) {
    str   line = {0}, notes = {0}, out = {0};
    err_t e = {0};
    bytes note;
    str_put(&out, "");
    if (post_read(&w->p, shape, body, &line, &notes, &e)) {
        const bytes inner = bytes_member(str_bytes(&line), "body");
        str_cat(&out, inner.n ? inner : str_bytes(&line));
        CHECKF(!e.code && !w->p.fault, "%s", e.text);
    } else {
        str_fmt(&out, "! %s", e.text);
        CHECKF(e.code == EXIT_INPUT && w->p.fault, "code %d", e.code);
    }
    for (bytes rest = str_bytes(&notes); bytes_cut_line(&rest, &note);) str_fmt(&out, " # %.*s", (int)note.n, (const char *)note.p);
    str_drop_all(&line, &notes);
    return out;
}

#define TW_USER "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TW_IN "\"input\":\"hi\""

static void t_wire_bodies(void) {
    static const struct { post_shape shape; const char *body, *want; } rows[] = {
        /* the shapes that [req] reads itself */
        {POST_CHAT, "{" TW_USER ",\"temperature\":1e-1,\"seed\":12345678901234567890123}", "{" TW_USER ",\"temperature\":1e-1,\"seed\":12345678901234567890123}"},
        {POST_CHAT, " { \"stream\" : true , \"messages\" : [ ] , \"stream_options\":{\"include_usage\":true} }\n", "{\"messages\":[ ]}"},
        {POST_CHAT, "{\"stream\":1}", "! stream: found a number, expected true or false"},
        {POST_CHAT, "{\"stream\":true,\"stream_options\":[]}", "! stream_options: found a list, expected an object"},
        {POST_CHAT, "{\"user\":\"u\",\"metadata\":{},\"store\":true,\"client_metadata\":{},\"include\":[],\"x\":1}", "{\"x\":1} # ignored: user, metadata, store, client_metadata, include"},
        {POST_COMPLETION, "{\"prompt\":\"a\",\"n_predict\":5,\"cache_prompt\":true}", "{\"prompt\":\"a\",\"max_tokens\":5} # ignored: cache_prompt"},
        {POST_CHAT, "{\"user\":null,\"str\\u0065am\":false}", "{}"},
        {POST_CHAT, "no json", "no json"},
        {POST_CHAT, "", "! the body is empty, expected a JSON object"},
        {POST_CHAT, "[1]", "[1]"},
        {POST_EMBED, "{\"input\":\"a\",\"stream\":true}", "! stream: true, expected false: vectors and scores come as one object"},
        {POST_COMPLETION, "{\"prompt\":\"a\",\"suffix\":null}", "{\"prompt\":\"a\",\"suffix\":null}"},
        /* rerank */
        {POST_RERANK, "{\"model\":\"m\",\"query\":\"q\\u0041\",\"documents\":[\"a\",{\"text\":\"b\"}],\"top_n\":1}", "{\"input\":[\"a\",\"b\"],\"model\":\"m\"}"},
        {POST_RERANK, "{\"query\":\"q\",\"texts\":[\"a\"]}", "{\"input\":[\"a\"]}"},
        {POST_RERANK, "{\"documents\":[\"a\"]}", "! query: found nothing, expected a text"},
        {POST_RERANK, "{\"query\":\"q\",\"documents\":\"a\"}", "! documents: found a string, expected a list of texts"},
        {POST_RERANK, "{\"query\":\"q\",\"documents\":[1]}", "! documents[0]: found a number, expected a text"},
        {POST_RERANK, "{\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":0}", "! top_n: found 0, expected a number of documents from 1"},
        {POST_RERANK, "{\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":\"1\"}", "! top_n: found a string, expected a number of documents from 1"},
        /* Responses */
        {POST_RESPONSES, "{" TW_IN "}", "{" TW_USER "}"},
        {POST_RESPONSES, "{" TW_IN ",\"instructions\":\"do \\\"x\\\"\",\"max_output_tokens\":5,\"model\":\"m\",\"top_p\":0.50}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"do \\\"x\\\"\"},{\"role\":\"user\",\"content\":\"hi\"}],\"max_completion_tokens\":5,\"model\":\"m\",\"top_p\":0.50}"},
        {POST_RESPONSES, "{\"instructions\":\"a\",\"input\":[{\"role\":\"developer\",\"content\":\"b\"},{\"role\":\"system\",\"content\":[{\"type\":\"input_text\",\"text\":\"c\"}]},"
                         "{\"role\":\"user\",\"content\":\"d\"},{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"e\"},\"f\"]},{\"role\":\"developer\",\"content\":\"g\"}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"a\\n\\nb\\n\\nc\"},{\"role\":\"user\",\"content\":\"d\\ne\\nf\"},{\"role\":\"system\",\"content\":\"g\"}]}"},
        {POST_RESPONSES, "{" TW_IN ",\"store\":false,\"previous_response_id\":null,\"background\":false,\"truncation\":\"disabled\",\"service_tier\":\"auto\"}",
         "{" TW_USER "} # ignored: service_tier"},
        {POST_RESPONSES, "{" TW_IN ",\"store\":true}", "! store: found true, expected none: the server keeps no responses"},
        {POST_RESPONSES, "{" TW_IN ",\"previous_response_id\":\"resp_1\"}",
         "! previous_response_id: found resp_1, expected none: the server keeps no responses, so input has the whole conversation"},
        {POST_RESPONSES, "{" TW_IN ",\"truncation\":\"auto\"}", "! truncation: found auto, expected disabled"},
        {POST_RESPONSES, "{" TW_IN ",\"messages\":[]}", "! messages: found a list, expected none: the conversation is in input"},
        {POST_RESPONSES, "{" TW_IN ",\"n\":2}", "! n: found a number, expected none: a request has one answer here"},
        {POST_RESPONSES, "{\"input\":7}", "! input: found a number, expected a text or a list of items"},
        {POST_RESPONSES, "{}", "! input: found nothing, expected a text or a list of items"},
        {POST_RESPONSES, "{\"input\":[7]}", "! input[0]: found a number, expected an object"},
        {POST_RESPONSES, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":\"x\"}]}]}", "! input[0][0]: found a part of type input_image, expected text"},
        {POST_RESPONSES, "{\"input\":[{\"role\":\"owner\",\"content\":\"x\"}]}", "! input[0]: role is owner, expected user, assistant, system or developer"},
        {POST_RESPONSES, "{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}",
         "! input[0]: found an item of type item_reference, expected message, function_call, function_call_output or reasoning"},
        {POST_RESPONSES, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":\"{}\"}]}", "! input[0]: a call without a name"},
        {POST_RESPONSES, "{" TW_IN ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"n\":1.50},\"strict\":true},{\"type\":\"web_search\"}],"
                         "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}}",
         "{" TW_USER ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"n\":1.50},\"strict\":true}}],"
         "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}} # left out: web_search"},
        {POST_RESPONSES, "{" TW_IN ",\"tools\":[{\"type\":\"function\"}]}", "! tools[0].name: found nothing, expected the name of a function"},
        {POST_RESPONSES, "{" TW_IN ",\"tools\":[{}]}", "! tools[0].type: found nothing, expected function"},
        {POST_RESPONSES, "{" TW_IN ",\"tools\":{}}", "! tools: found an object, expected a list"},
        {POST_RESPONSES, "{" TW_IN ",\"tools\":[{\"type\":\"custom\",\"name\":\"x\"}],\"tool_choice\":\"auto\"}", "{" TW_USER "} # left out: custom"},
        {POST_RESPONSES, "{" TW_IN ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"strict\":true,\"schema\":{\"maximum\":1.00}},\"verbosity\":\"low\"}}",
         "{" TW_USER ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"maximum\":1.00}}}} # ignored: text.verbosity"},
        {POST_RESPONSES, "{" TW_IN ",\"text\":{\"format\":{\"type\":\"json_object\"}}}", "{" TW_USER ",\"response_format\":{\"type\":\"json_object\"}}"},
        {POST_RESPONSES, "{" TW_IN ",\"text\":{\"format\":{\"type\":\"json_schema\"}}}", "! text.format.schema: found nothing, expected a JSON Schema"},
        {POST_RESPONSES, "{" TW_IN ",\"reasoning\":{\"effort\":\"high\",\"summary\":\"auto\"}}", "{" TW_USER ",\"reasoning_effort\":\"high\"} # ignored: reasoning.summary"},
        /* Messages */
        {POST_MESSAGES, "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stop_sequences\":[\"a\"],\"top_k\":3,\"seed\":4}",
         "{" TW_USER ",\"max_tokens\":5,\"stop\":[\"a\"],\"top_k\":3,\"seed\":4}"},
        {POST_MESSAGES, "{\"system\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]},{\"role\":\"system\",\"content\":\"d\"}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\\nc\\nd\"}]}"},
        {POST_MESSAGES, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}],\"continue_final_message\":true}"},
        {POST_MESSAGES, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":\"d\"}}]}]}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"d\"}]}"},
        {POST_MESSAGES, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{}}]}]}",
         "! messages[0].content[0]: found a block of type image, expected text, tool_use, tool_result or thinking"},
        {POST_MESSAGES, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", "! messages[0].content[0]: found nothing as text, expected a string"},
        {POST_MESSAGES, "{\"messages\":[{\"role\":\"owner\",\"content\":\"a\"}]}", "! messages[0].role: found owner, expected user or assistant"},
        {POST_MESSAGES, "{\"messages\":[{\"role\":\"user\"}]}", "! messages[0].content: found nothing, expected a text or a list of blocks"},
        {POST_MESSAGES, "{\"messages\":\"a\"}", "! messages: found a string, expected a list"},
        {POST_MESSAGES, "{" TW_USER ",\"system\":7}", "! system: found a number, expected a text or a list of blocks"},
        {POST_MESSAGES, "{" TW_USER ",\"tools\":[{\"name\":\"f\",\"input_schema\":{\"a\":[1.0]}}],\"tool_choice\":{\"type\":\"any\"}}",
         "{" TW_USER ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"a\":[1.0]}}}],\"tool_choice\":\"required\"}"},
        {POST_MESSAGES, "{" TW_USER ",\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\",\"disable_parallel_tool_use\":true}}",
         "{" TW_USER ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}],\"parallel_tool_calls\":false,"
         "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}"},
        {POST_MESSAGES, "{" TW_USER ",\"tool_choice\":{\"type\":\"none\"}}", "{" TW_USER ",\"tool_choice\":\"none\"}"},
        {POST_MESSAGES, "{" TW_USER ",\"tool_choice\":{\"type\":\"some\"}}", "! tool_choice.type: found some, expected auto, any, tool or none"},
        {POST_MESSAGES, "{" TW_USER ",\"thinking\":{\"type\":\"disabled\"}}", "{" TW_USER ",\"chat_template_kwargs\":{\"enable_thinking\":false}}"},
        {POST_MESSAGES, "{" TW_USER ",\"thinking\":{\"type\":\"adaptive\"},\"context_management\":{},\"betas\":[\"x\"],\"metadata\":{}}",
         "{" TW_USER "} # ignored: context_management, betas, metadata, thinking"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wire w = {0};
        str  got = tw_read(&w, rows[i].shape, bytes_of(rows[i].body));
        EQ_STR(got.p, rows[i].want);
        wire_drop(&w);
        str_drop(&got);
    }
    wire w = {0};
    str  got = tw_read(&w, POST_RERANK, bytes_of("{\"query\":\"q\\u0041\\n\",\"documents\":[\"a\",{\"text\":\"b\"}],\"top_n\":1,\"return_documents\":true}"));
    EQ_STR(w.p.query.p, "qA\n");
    CHECK(w.p.top_n == 1 && bytes_is(str_bytes(&w.p.documents), "[\"a\",\"b\"]"));
    wire_drop(&w), str_drop(&got);
    got = tw_read(&w, POST_CHAT, bytes_of("{\"stream\":true,\"stream_options\":{\"include_usage\":true}}"));
    CHECK(w.p.stream && w.p.usage);
    wire_drop(&w), str_drop(&got);
}

/* --- recorded requests: files of tests/data/serve, shapes of clients with words of our own --- */

static bool tw_file(const char *name, str *out) {
    char  path[300];
    err_t e = {0};
    snprintf(path, sizeof path, "tests/data/serve/%s", name);
    return CHECKF(str_read_file(out, path, 0, 1 << 20, "less", &e), "%s", e.text);
}

static bool tw_req(const str *body, post_shape shape, req *q, str *notes) {
    const gen_request base = gen_ask(NULL, &gen_defaults, &samp_defaults, 0);
    const req_form    form = {&base, 1000, true, false, NULL, NULL};
    wire w = {0};
    str               line = {0};
    err_t             e = {0};
    const bool ok = post_read(&w.p, shape, str_bytes(body), &line, notes, &e) && req_read(q, str_bytes(&line), &form, &e);
    CHECKF(ok, "%s: %s", line.n ? line.p : "", e.text);
    wire_drop(&w);
    str_drop(&line);
    return ok;
}

static void tw_json(val_env *env, void *arg) {
    calls__writing *w = arg;
    val_buf        *b = val_buf_new(env);
    val_json_write(env, b, w->v, NULL);
    val_utf8(val_buf_str(b), w->out);
}

static void tw_write(val v, str *out) {
    val_env        env;
    calls__writing w = {v, out};
    err_t          e = {0};
    val_env_init(&env, 0, 0, NULL);
    CHECK(val_run(&env, tw_json, &w, &e));
    val_env_drop(&env);
    str_put(out, "");
}

/* What each file's conversation becomes, its number of tools, and the notes. */
static void t_wire_recorded(void) {
    static const struct { const char *name; post_shape shape; size_t tools; const char *messages, *notes; } rows[] = {
        {"codex.json", POST_RESPONSES, 4,
         "[{\"role\": \"system\", \"content\": \"You change files in a folder.\\nBe short.\\n\\n<permissions>Files may be read.</permissions>\"}, "
         "{\"role\": \"user\", \"content\": \"<environment_context>\\n  <cwd>/src</cwd>\\n</environment_context>\\nWhat is in the folder?\"}]",
         "ignored: service_tier, prompt_cache_key, client_metadata, text.verbosity, reasoning.summary\nleft out: custom, web_search, local_shell, image_generation\n"},
        {"codex_turn.json", POST_RESPONSES, 4,
         "[{\"role\": \"system\", \"content\": \"You change files in a folder.\\nBe short.\"}, {\"role\": \"user\", \"content\": \"What is in the folder?\"}, "
         "{\"role\": \"assistant\", \"content\": null, \"reasoning_content\": \"I look.\", \"tool_calls\": [{\"type\": \"function\", \"id\": \"call_abc123def\", \"function\": "
         "{\"name\": \"shell\", \"arguments\": \"{\\\"command\\\":[\\\"ls\\\"]}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call_abc123def\", \"content\": \"main.c\\nREADME\"}, "
         "{\"role\": \"assistant\", \"content\": \"Two files.\", \"reasoning_content\": \"Two files.\"}, {\"role\": \"user\", \"content\": \"Keep a note of that.\"}, "
         "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", \"id\": \"call_2\", \"function\": {\"name\": \"mcp__notes__keep\", \"arguments\": "
         "\"{\\\"text\\\":\\\"two files\\\"}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call_2\", \"content\": \"kept\\nas 7\"}, "
         "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", \"id\": \"call_3\", \"function\": {\"name\": \"apply_patch\", \"arguments\": "
         "\"{\\\"input\\\":\\\"*** Begin Patch\\\\n*** End Patch\\\"}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call_3\", \"content\": \"done\"}, "
         "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", \"id\": \"call_4\", \"function\": {\"name\": \"local_shell\", \"arguments\": "
         "\"{\\\"type\\\": \\\"exec\\\", \\\"command\\\": [\\\"pwd\\\"]}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call_4\", \"content\": \"/src\"}, {\"role\": \"user\", \"content\": \"Go on.\"}]",
         "ignored: prompt_cache_key\nleft out: web_search_call, custom, web_search, local_shell, image_generation\n"},
        {"claude_code.json", POST_MESSAGES, 3,
         "[{\"role\": \"system\", \"content\": \"x-anthropic-billing-header: cc_version=2.1.0.abc; cc_entrypoint=cli; cch=00000;\\n\\nYou are an assistant for code.\\n\\nFiles are in /src.\"}, "
         "{\"role\": \"user\", \"content\": \"<system-reminder>\\nToday is a day.\\n</system-reminder>\\nWhat does main do?\"}]",
         "ignored: metadata, context_management, thinking, output_config.effort\nleft out: web_search_20250305\n"},
        {"claude_code_turn.json", POST_MESSAGES, 3,
         "[{\"role\": \"system\", \"content\": \"You are an assistant for code.\"}, {\"role\": \"user\", \"content\": \"What does main do?\"}, {\"role\": \"assistant\", \"content\": \"I look.\", "
         "\"reasoning_content\": \"I read it.\", \"tool_calls\": [{\"type\": \"function\", \"id\": \"toolu_01A\", \"function\": {\"name\": \"Read\", \"arguments\": "
         "\"{\\\"file_path\\\": \\\"/src/main.c\\\", \\\"offset\\\": 1.0}\"}}, {\"type\": \"function\", \"id\": \"toolu_01B\", \"function\": {\"name\": \"Bash\", \"arguments\": \"{}\"}}]}, "
         "{\"role\": \"tool\", \"tool_call_id\": \"toolu_01A\", \"content\": \"int main(void)\\n[image left out]\"}, {\"role\": \"tool\", \"tool_call_id\": \"toolu_01B\", \"content\": \"Error: no command\"}, "
         "{\"role\": \"user\", \"content\": \"Go on.\\nThe user likes short answers.\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", \"id\": \"toolu_01C\", "
         "\"function\": {\"name\": \"Todo\", \"arguments\": \"{\\\"todos\\\": []}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"toolu_01C\", \"content\": \"\"}, "
         "{\"role\": \"tool\", \"tool_call_id\": \"toolu_01D\", \"content\": \"\"}]",
         "ignored: metadata, thinking\nleft out: image, web_search_20250305\n"},
        {"claude_code_title.json", POST_MESSAGES, 0,
         "[{\"role\": \"system\", \"content\": \"x-anthropic-billing-header: cc_version=2.1.0.abc; cc_entrypoint=cli; cch=00000;\\n\\nGive the talk a title.\"}, "
         "{\"role\": \"user\", \"content\": \"A talk about files.\"}]", "ignored: metadata\n"},
        {"claude_code_count.json", POST_MESSAGES, 3, "[{\"role\": \"user\", \"content\": \"foo\"}]", "ignored: thinking\nleft out: web_search_20250305\n"},
        {"openwebui.json", POST_CHAT, 0, "[{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": \"Hello\"}]", "ignored: user, metadata\n"},
        {"continue_gpt5.json", POST_RESPONSES, 0,
         "[{\"role\": \"system\", \"content\": \"Be short.\"}, {\"role\": \"user\", \"content\": \"Hello\"}, {\"role\": \"assistant\", \"content\": \"Hi\"}, {\"role\": \"user\", \"content\": \"More\"}]", ""},
        {"langchain_tools.json", POST_CHAT, 1, NULL, ""},
        {"continue_fim.json", POST_COMPLETION, 0, NULL, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str body = {0}, notes = {0}, got = {0};
        req q = {0};
        if (!tw_file(rows[i].name, &body)) continue;
        str_put(&notes, "");
        if (rows[i].shape == POST_COMPLETION) {       /* suffix: null is not given */
            wire w = {0};
            got = tw_read(&w, rows[i].shape, str_bytes(&body));
            CHECKF(w.p.stream && strstr(got.p, "\"suffix\":null"), "%s", got.p);
            wire_drop(&w);
        } else if (tw_req(&body, rows[i].shape, &q, &notes)) {
            const val tools = val_get(q.input.vars, "tools");
            if (rows[i].messages) {
                tw_write(val_get(q.input.vars, "messages"), &got);
                EQ_STR(got.p, rows[i].messages);
            }
            EQ_INT(tools.kind == VAL_LIST ? tools.list->n : 0, rows[i].tools);
            EQ_STR(notes.p, rows[i].notes);
            CHECK((q.hold.kind == CONSTRAIN_SCHEMA) == (strcmp(rows[i].name, "claude_code_title.json") == 0));
        }
        req_drop(&q);
        str_drop_all(&body, &notes, &got);
    }
}

/* --- streams --- */

typedef struct {
    wire w;
    req  q;
    str  out;
} tw_stream;

static const wire_origin tw_origin = {.id = "ID", .model_name = "m", .fingerprint = "fp", .created = 7, .n_prompt = 9};
static const wire_usage  tw_usage = {.prompt = 9, .cached = 4, .made = 5, .thought = 2};

static void tw_begin(tw_stream *s, post_shape shape, const char *body) {
    *s = (tw_stream){.q = {.chat = shape != POST_COMPLETION, .n = 1, .n_prompt = 1, .many_calls = true, .ask = {.n = 1}}};
    str got = tw_read(&s->w, shape, bytes_of(body));
    CHECKF(*got.p != '!', "%s", got.p);
    str_drop(&got);
    str_put(&s->out, "");
    wire_begin(&s->w, &s->q, &tw_origin, &s->out);
}

static void tw_drop(tw_stream *s) {
    wire_drop(&s->w);
    str_drop(&s->out);
}

/* A word of what is sent: T thinking, C content, F the beginning of a call NAME, A arguments, . the end by an end token, L by length,
 * S by a stop text, E an error, W alive. */
static void tw_say(tw_stream *s, const char *const *words, int n) {
    int call = -1;
    for (int i = 0; i < n; i++) {
        const bytes text = bytes_of(words[i] + 1);
        char        id[24];
        switch (words[i][0]) {
        case 'T': wire_text(&s->w, 0, WIRE_THINKING, text, &s->out); break;
        case 'C': wire_text(&s->w, 0, WIRE_CONTENT, text, &s->out); break;
        case 'F':
            snprintf(id, sizeof id, "call_%d", ++call);
            wire_call(&s->w, 0, call, bytes_of(id), text, (bytes){0}, &s->out);
            break;
        case 'A': wire_call(&s->w, 0, call, (bytes){0}, (bytes){0}, text, &s->out); break;
        case 'E': wire_fail(&s->w, "out_of_room", words[i] + 1, &s->out); return;
        case 'W': wire_alive(&s->w, &s->out); break;
        default:
            wire_finish(&s->w, 0, words[i][0] == '.' ? GEN_END_TOKEN : words[i][0] == 'L' ? GEN_LENGTH : GEN_STOP_TEXT, text, &s->out);
            wire_end(&s->w, &tw_usage, &s->out);
        }
    }
}

#define TW_SAY(s, ...) tw_say(s, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

#define TW_CHUNK(rest) "data: {\"id\":\"chatcmpl-ID\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[" rest "}\n\n"
#define TW_DELTA(delta, finish) TW_CHUNK("{\"index\":0,\"delta\":{" delta "},\"logprobs\":null,\"finish_reason\":" finish "}]")
#define TW_TEXT(text, finish) "data: {\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[" \
                              "{\"index\":0,\"text\":\"" text "\",\"logprobs\":null,\"finish_reason\":" finish "}]}\n\n"
#define TW_ROLE TW_DELTA("\"role\":\"assistant\",\"content\":\"\"", "null")

static void t_wire_chunks(void) {
    tw_stream s;
    tw_begin(&s, POST_CHAT, "{\"stream\":true}");
    TW_SAY(&s, "W", "THm", "CA\n", "C\xc3", "C\xa9", "C", "Flook", "A{\"a\":", "A1}", ".");
    EQ_STR(s.out.p, ": reading\n\n" TW_ROLE TW_DELTA("\"reasoning_content\":\"Hm\"", "null") TW_DELTA("\"content\":\"A\\n\"", "null")
           TW_DELTA("\"content\":\"\xc3\xa9\"", "null")
           TW_DELTA("\"tool_calls\":[{\"index\":0,\"id\":\"call_0\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"\"}}]", "null")
           TW_DELTA("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\":\"}}]", "null")
           TW_DELTA("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]", "null")
           TW_DELTA("", "\"tool_calls\"") "data: [DONE]\n\n");
    tw_drop(&s);
    tw_begin(&s, POST_CHAT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    TW_SAY(&s, "C\xf0\x9f", "L");                     /* a character that never ends */
    EQ_STR(s.out.p, TW_CHUNK("{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null")
           TW_CHUNK("{\"index\":0,\"delta\":{\"content\":\"\xef\xbf\xbd\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null")
           TW_CHUNK("{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":null")
           TW_CHUNK("],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,\"total_tokens\":14,\"prompt_tokens_details\":{\"cached_tokens\":4}}") "data: [DONE]\n\n");
    tw_drop(&s);
    tw_begin(&s, POST_COMPLETION, "{\"stream\":true}");
    TW_SAY(&s, "Ca", "Cb", "Sx");
    EQ_STR(s.out.p, TW_TEXT("a", "null") TW_TEXT("b", "null") TW_TEXT("", "\"stop\"") "data: [DONE]\n\n");
    tw_drop(&s);
    tw_begin(&s, POST_CHAT, "{\"stream\":true}");
    TW_SAY(&s, "Ca", "Eno \"room\"");
    EQ_STR(s.out.p, TW_ROLE TW_DELTA("\"content\":\"a\"", "null")
           "data: {\"error\":{\"message\":\"no \\\"room\\\"\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n");
    tw_drop(&s);
    tw_begin(&s, POST_CHAT, "{\"stream\":true}");
    s.w.legacy = true, s.w.many_calls = false;
    TW_SAY(&s, "Flook", "A{}", "Fmore", "A{}", ".");
    EQ_STR(s.out.p, TW_ROLE TW_DELTA("\"function_call\":{\"name\":\"look\",\"arguments\":\"\"}", "null") TW_DELTA("\"function_call\":{\"arguments\":\"{}\"}", "null")
           TW_DELTA("", "\"function_call\"") "data: [DONE]\n\n");
    tw_drop(&s);
}

/* Logprobs go out with the next piece, and joined they are those of the whole answer. */
static void t_wire_logprobs(void) {
    gen_token        tok[] = {{1, -0.5f, 1}, {1, -1, 2}, {1, -2, 2}};
    char             text[] = "ab";
    const gen_answer a = {.text = {.p = text, .n = 2}, .finish = GEN_LENGTH, .tok = tok, .n_tok = 3};
    tm_kv            none[] = {{0}};
    str              mem = tm_tiny_file(&tm_tinies[0], none);
    gguf_file        g;
    err_t            e = {0};
    CHECK(gguf_parse(&g, (const uint8_t *)mem.p, mem.n, "t", &e));
    tok_vocab *v = tok_load(&g, NULL, &e);
    tw_stream  s;
    tw_begin(&s, POST_COMPLETION, "{\"stream\":true}");
    s.q.ask.logprobs = true;
    wire_logprobs(&s.w, 0, &s.q, &a, 0, 1, v, &s.out);
    TW_SAY(&s, "Ca");
    wire_logprobs(&s.w, 0, &s.q, &a, 1, 2, v, &s.out);
    wire_logprobs(&s.w, 0, &s.q, &a, 2, 3, v, &s.out);
    TW_SAY(&s, "Cb", "L");
#define TW_LP(text, lp, at, finish) "data: {\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"text\":\"" text \
        "\",\"logprobs\":{\"tokens\":[\"<s>\"],\"token_logprobs\":[" lp "],\"top_logprobs\":null,\"text_offset\":[" at "],\"bytes\":[[60,115,62]]},\"finish_reason\":" finish "}]}\n\n"
    EQ_STR(s.out.p, TW_LP("a", "-0.5", "0", "null") TW_LP("", "-1", "1", "null") TW_LP("b", "-2", "2", "null") TW_TEXT("", "\"length\"") "data: [DONE]\n\n");
    tw_drop(&s);
    tok_free(v);
    gguf_close(&g);
    str_drop(&mem);
}

/* The names of events, and the whole text of some. */
static void tw_names(bytes stream, str *out) {
    bytes line;
    str_put(out, "");
    while (bytes_cut_line(&stream, &line))
        if (bytes_begins(line, bytes_of("event: "))) str_fmt(out, "%.*s ", (int)line.n - 7, (const char *)line.p + 7);
}

/* Events of a stream: each has its name inside, numbers rise by one, and the data is one line of JSON. Returns how many. */
static int tw_events(bytes stream, bool numbers) {
    bytes line;
    int   n = 0;
    while (bytes_cut_line(&stream, &line)) {
        const bytes name = bytes_slice(line, 7, line.n);
        bytes       data, blank;
        str         type = {0};
        if (!CHECK(bytes_begins(line, bytes_of("event: ")) && bytes_cut_line(&stream, &data) && bytes_cut_line(&stream, &blank) && !blank.n)) return n;
        if (!CHECK(bytes_begins(data, bytes_of("data: ")))) return n;
        data = bytes_slice(data, 6, data.n);
        CHECKF(bytes_is_json(data), "%.*s", (int)data.n, (const char *)data.p);
        str_unquote(&type, bytes_member(data, "type"), true);
        CHECK(bytes_eq(str_bytes(&type), name));
        if (numbers) EQ_INT(atoi((const char *)bytes_member(data, "sequence_number").p), n);
        CHECK(!bytes_member(data, "error").n || bytes_is(name, "error"));
        str_drop(&type);
        n++;
    }
    return n;
}

/* The data of the event number i of this name. */
static bytes tw_event(const str *stream, const char *name, int i) {
    bytes rest = str_bytes(stream), line;
    while (bytes_cut_line(&rest, &line))
        if (bytes_begins(line, bytes_of("event: ")) && bytes_is(bytes_slice(line, 7, line.n), name) && i-- == 0)
            return bytes_cut_line(&rest, &line) ? bytes_slice(line, 6, line.n) : (bytes){0};
    return (bytes){0};
}

#define TW_IS(b, want) do { str got_ = {0}; str_put(&got_, ""); str_cat(&got_, b); EQ_STR(got_.p, want); str_drop(&got_); } while (0)

static void t_wire_responses(void) {
    tw_stream s;
    str       names = {0};
    tw_begin(&s, POST_RESPONSES, "{\"stream\":true," TW_IN ",\"temperature\":0.5,\"tools\":[ {\"type\":\"function\",\n\"name\":\"look\"},{\"type\":\"namespace\",\"name\":\"ns\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}],"
                                 "\"include\":[\"reasoning.encrypted_content\"]}");
    TW_SAY(&s, "W", "TH", "Tm", "CHe", "Cy\"", "Flook", "A{", "A}", "Fns__f", "A{}", ".");
    tw_names(str_bytes(&s.out), &names);
    EQ_STR(names.p, "response.created response.in_progress response.in_progress "
           "response.output_item.added response.content_part.added response.reasoning_text.delta response.reasoning_text.delta response.reasoning_text.done response.content_part.done "
           "response.output_item.done "
           "response.output_item.added response.content_part.added response.output_text.delta response.output_text.delta response.output_text.done response.content_part.done "
           "response.output_item.done "
           "response.output_item.added response.function_call_arguments.delta response.function_call_arguments.delta response.function_call_arguments.done response.output_item.done "
           "response.output_item.added response.function_call_arguments.delta response.function_call_arguments.done response.output_item.done response.completed ");
    EQ_INT(tw_events(str_bytes(&s.out), true), 27);
    TW_IS(tw_event(&s.out, "response.created", 0),
          "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_ID\",\"object\":\"response\",\"created_at\":7,\"status\":\"in_progress\",\"background\":false,"
          "\"error\":null,\"incomplete_details\":null,\"model\":\"m\",\"output\":[],\"previous_response_id\":null,\"store\":false,\"usage\":null,\"instructions\":null,"
          "\"max_output_tokens\":null,\"metadata\":{},\"parallel_tool_calls\":true,\"temperature\":0.5,\"tool_choice\":\"auto\",\"tools\":[ {\"type\":\"function\",\"name\":\"look\"},"
          "{\"type\":\"namespace\",\"name\":\"ns\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}],\"top_p\":null,\"reasoning\":null,"
          "\"text\":{\"format\":{\"type\":\"text\"}},\"truncation\":\"disabled\"}}");
    TW_IS(tw_event(&s.out, "response.output_item.added", 0), "{\"type\":\"response.output_item.added\",\"sequence_number\":3,\"output_index\":0,\"item\":{\"id\":\"rs_ID_0\","
          "\"type\":\"reasoning\",\"status\":\"in_progress\",\"summary\":[],\"content\":[]}}");
    TW_IS(tw_event(&s.out, "response.reasoning_text.delta", 1), "{\"type\":\"response.reasoning_text.delta\",\"sequence_number\":6,\"item_id\":\"rs_ID_0\",\"output_index\":0,"
          "\"content_index\":0,\"delta\":\"m\"}");
    TW_IS(tw_event(&s.out, "response.output_item.done", 0), "{\"type\":\"response.output_item.done\",\"sequence_number\":9,\"output_index\":0,\"item\":{\"id\":\"rs_ID_0\","
          "\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Hm\"}],\"encrypted_content\":\"llmrun:SG0=\"}}");
    TW_IS(tw_event(&s.out, "response.content_part.added", 1), "{\"type\":\"response.content_part.added\",\"sequence_number\":11,\"item_id\":\"msg_ID_1\",\"output_index\":1,"
          "\"content_index\":0,\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],\"logprobs\":[]}}");
    TW_IS(tw_event(&s.out, "response.output_text.done", 0), "{\"type\":\"response.output_text.done\",\"sequence_number\":14,\"item_id\":\"msg_ID_1\",\"output_index\":1,"
          "\"content_index\":0,\"text\":\"Hey\\\"\",\"logprobs\":[]}");
    TW_IS(tw_event(&s.out, "response.function_call_arguments.done", 1), "{\"type\":\"response.function_call_arguments.done\",\"sequence_number\":24,\"item_id\":\"fc_ID_3\","
          "\"output_index\":3,\"name\":\"f\",\"namespace\":\"ns\",\"arguments\":\"{}\"}");
    TW_IS(bytes_member(tw_event(&s.out, "response.output_item.done", 2), "item"),
          "{\"id\":\"fc_ID_2\",\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"call_0\",\"name\":\"look\",\"arguments\":\"{}\"}");
    const bytes done = bytes_member(tw_event(&s.out, "response.completed", 0), "response");
    TW_IS(bytes_member(done, "usage"), "{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":4,\"cache_write_tokens\":0},\"output_tokens\":5,\"output_tokens_details\":{\"reasoning_tokens\":2},\"total_tokens\":14}");
    TW_IS(bytes_member(done, "status"), "\"completed\"");
    CHECK(bytes_find(bytes_member(done, "output"), 0, bytes_member(tw_event(&s.out, "response.output_item.done", 1), "item")) != SIZE_MAX);
    tw_drop(&s);
    str_clear(&names);
    tw_begin(&s, POST_RESPONSES, "{\"stream\":true," TW_IN "}");
    TW_SAY(&s, "Ca", "L");
    tw_names(str_bytes(&s.out), &names);
    EQ_STR(names.p, "response.created response.in_progress response.output_item.added response.content_part.added response.output_text.delta response.output_text.done "
           "response.content_part.done response.output_item.done response.incomplete ");
    TW_IS(bytes_member(bytes_member(tw_event(&s.out, "response.incomplete", 0), "response"), "incomplete_details"), "{\"reason\":\"max_output_tokens\"}");
    TW_IS(bytes_member(bytes_member(tw_event(&s.out, "response.output_item.done", 0), "item"), "status"), "\"incomplete\"");
    tw_drop(&s);
    tw_begin(&s, POST_RESPONSES, "{\"stream\":true," TW_IN "}");
    TW_SAY(&s, "Ca", "Ex");
    EQ_INT(tw_events(str_bytes(&s.out), true), 6);
    TW_IS(bytes_member(bytes_member(tw_event(&s.out, "response.failed", 0), "response"), "error"), "{\"code\":\"server_error\",\"message\":\"x\"}");
    tw_drop(&s);
    str_drop(&names);
}

/* The signature of a thinking block with this text. */
static const char *tw_signature(const char *text) {
    static char  out[40];
    const digest d = bytes_digest((bytes){0}, bytes_of(text));
    snprintf(out, sizeof out, "%016llx%016llx", (unsigned long long)d.a, (unsigned long long)d.b);
    return out;
}

static void t_wire_messages(void) {
    tw_stream s;
    str       want = {0};
    tw_begin(&s, POST_MESSAGES, "{\"stream\":true," TW_USER "}");
    TW_SAY(&s, "W", "THm", "CHe", "Cy", "Flook", "A{\"a\"", "A:1}", ".");
    str_fmt(&want,
           "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_ID\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],"
           "\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":9,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0}}}\n\n"
           "event: ping\ndata: {\"type\":\"ping\"}\n\n"
           "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"
           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm\"}}\n\n"
           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"%s\"}}\n\n"
           "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
           "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"He\"}}\n\n"
           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"y\"}}\n\n"
           "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
           "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_0\",\"name\":\"look\",\"input\":{}}}\n\n"
           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\"\"}}\n\n"
           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\":1}\"}}\n\n"
           "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n"
           "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},"
           "\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,\"output_tokens\":5}}\n\n"
           "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", tw_signature("Hm"));
    EQ_STR(s.out.p, want.p);
    str_drop(&want);
    tw_drop(&s);
    static const struct { const char *end, *want; } ends[] = {
        {".", "{\"stop_reason\":\"end_turn\",\"stop_sequence\":null}"}, {"L", "{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null}"},
        {"SEND\"", "{\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\\\"\"}"}, {"S", "{\"stop_reason\":\"end_turn\",\"stop_sequence\":null}"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        tw_begin(&s, POST_MESSAGES, "{\"stream\":true," TW_USER "}");
        TW_SAY(&s, "Ca", ends[i].end);
        TW_IS(bytes_member(tw_event(&s.out, "message_delta", 0), "delta"), ends[i].want);
        tw_drop(&s);
    }
    tw_begin(&s, POST_MESSAGES, "{\"stream\":true," TW_USER "}");
    TW_SAY(&s, "Ca", "Ex");
    TW_IS(tw_event(&s.out, "error", 0), "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}");
    tw_drop(&s);
}

/* The texts of all deltas, joined; their keys come one after the other in each kind of stream. */
static void tw_joined(bytes stream, str *out) {
    static const char *const keys[] = {"reasoning_content", "content", "text", "delta", "thinking", "partial_json", "arguments"};
    bytes line;
    str_put(out, "");
    while (bytes_cut_line(&stream, &line)) {
        if (!bytes_begins(line, bytes_of("data: {"))) continue;
        const bytes data = bytes_slice(line, 6, line.n);
        bytes       choices = bytes_member(data, "choices"), delta = bytes_member(data, "delta");
        if (choices.n) choices = bytes_slice(choices, 1, choices.n), delta = bytes_member(bytes_cut_json(&choices), "delta");
        if (delta.n && delta.p[0] == '"') str_unquote(out, delta, true);
        bytes calls = bytes_member(delta, "tool_calls");
        if (calls.n) calls = bytes_slice(calls, 1, calls.n), delta = bytes_member(bytes_cut_json(&calls), "function");
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) str_unquote(out, bytes_member(delta, keys[i]), true);
    }
}

/* An answer cut at each byte gives the same texts. */
static void t_wire_cuts(void) {
    static const char think[] = "H\xc3\xa9m\xff \xe2\x82", say[] = "\xe6\xbc\xa2\xf0\x9f\x98\x80.\xf0\x9f", args[] = "{\"a\":\"\xc3\xa9\"}";
    static const char want[] = "H\xc3\xa9m\xef\xbf\xbd \xef\xbf\xbd\xe6\xbc\xa2\xf0\x9f\x98\x80.\xef\xbf\xbd{\"a\":\"\xc3\xa9\"}";
    static const post_shape shapes[] = {POST_CHAT, POST_RESPONSES, POST_MESSAGES};
    for (size_t k = 0; k < 3; k++)
        for (size_t step = 1; step < 12; step++) {
            tw_stream s;
            str       got = {0};
            tw_begin(&s, shapes[k], k == 1 ? "{\"stream\":true," TW_IN "}" : "{\"stream\":true," TW_USER "}");
            for (size_t i = 0; i < strlen(think); i += step) wire_text(&s.w, 0, WIRE_THINKING, (bytes){(const uint8_t *)think + i, min_size(step, strlen(think) - i)}, &s.out);
            if (k == 0) str_cat(&s.w.choice[0].held[WIRE_CONTENT], (bytes){0});
            for (size_t i = 0; i < strlen(say); i += step) wire_text(&s.w, 0, WIRE_CONTENT, (bytes){(const uint8_t *)say + i, min_size(step, strlen(say) - i)}, &s.out);
            for (size_t i = 0; i < strlen(args); i += step)
                wire_call(&s.w, 0, 0, i ? (bytes){0} : bytes_of("x"), i ? (bytes){0} : bytes_of("f"), (bytes){(const uint8_t *)args + i, min_size(step, strlen(args) - i)}, &s.out);
            TW_SAY(&s, ".");
            tw_joined(str_bytes(&s.out), &got);
            if (k) EQ_STR(got.p, want);
            else CHECKF(strstr(got.p, "\xe6\xbc\xa2\xf0\x9f\x98\x80.") && got.n == strlen(want), "%s", got.p);
            CHECK(utf8_whole(str_bytes(&s.out)));
            tw_drop(&s);
            str_drop(&got);
        }
}

/* --- whole answers --- */

static void t_wire_whole(void) {
    calls_call        calls[] = {{.name = bytes_of("ns__f"), .arguments = bytes_of("{\"a\": 1}"), .id = bytes_of("x")}};
    char              content[] = "a,b", thought[] = "Hm\n\xff";
    const chat_answer said = {.content = {content, 3, 0}, .thinking = {thought, 4, 0}, .calls = {calls, 1}};
    const gen_answer  a = {.finish = GEN_END_TOKEN, .n_tok = 5};
    const req_origin  o = {.id = "ID", .fingerprint = "fp", .model_name = "m", .created = 7, .n_prompt = 9, .n_cached = 4};
    tw_stream         s;
    tw_begin(&s, POST_RESPONSES, "{" TW_IN ",\"tools\":[{\"type\":\"namespace\",\"name\":\"ns__\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}]}");
    wire_whole(&s.w, &s.q, &a, &said, &o, &tw_usage, (bytes){0}, NULL, &s.out);
    TW_IS(bytes_member(str_bytes(&s.out), "output"),
          "[{\"id\":\"rs_ID_0\",\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Hm\\n\xef\xbf\xbd\"}]},"
          "{\"id\":\"msg_ID_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"a,b\",\"annotations\":[],\"logprobs\":[]}]},"
          "{\"id\":\"fc_ID_2\",\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"x\",\"name\":\"f\",\"namespace\":\"ns__\",\"arguments\":\"{\\\"a\\\": 1}\"}]");
    TW_IS(bytes_member(str_bytes(&s.out), "status"), "\"completed\"");
    CHECK(bytes_is_json(str_bytes(&s.out)));
    tw_drop(&s);
    tw_begin(&s, POST_MESSAGES, "{" TW_USER "}");
    wire_whole(&s.w, &s.q, &a, &said, &o, &tw_usage, (bytes){0}, NULL, &s.out);
    str want = {0};
    str_fmt(&want, "[{\"type\":\"thinking\",\"thinking\":\"Hm\\n\xef\xbf\xbd\",\"signature\":\"%s\"},{\"type\":\"text\",\"text\":\"a,b\"},"
            "{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"ns__f\",\"input\":{\"a\": 1}}]", tw_signature("Hm\n\xef\xbf\xbd"));
    TW_IS(bytes_member(str_bytes(&s.out), "content"), want.p);
    str_drop(&want);
    TW_IS(bytes_member(str_bytes(&s.out), "stop_reason"), "\"tool_use\"");
    TW_IS(bytes_member(str_bytes(&s.out), "usage"), "{\"input_tokens\":5,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,\"output_tokens\":5}");
    tw_drop(&s);
    tw_begin(&s, POST_CHAT, "{" TW_USER "}");         /* as in a record of a batch */
    str record = {0}, again = {0};
    req_print(&s.q, &a, &said, &o, NULL, &record);
    wire_whole(&s.w, &s.q, &a, &said, &o, &tw_usage, (bytes){0}, NULL, &s.out);
    TW_IS(bytes_member(bytes_member(str_bytes(&record), "response"), "body"), s.out.p);
    CHECK(strstr(s.out.p, "\"id\":\"chatcmpl-ID\""));
    tw_drop(&s);
    str_drop_all(&record, &again);

    float      scores[] = {-1, 2.5f, 0.25f};
    gen_answer vec[3];
    for (int i = 0; i < 3; i++) vec[i] = (gen_answer){.finish = GEN_EMBEDDED, .vec = &scores[i], .n_vec = 1, .width = 1};
    tw_begin(&s, POST_RERANK, "{\"query\":\"q\",\"documents\":[\"a\",{\"text\":\"b\"},\"c\"],\"top_n\":2,\"return_documents\":true}");
    s.q.n = 3;
    wire_whole(&s.w, &s.q, vec, NULL, &o, &tw_usage, (bytes){0}, NULL, &s.out);
    EQ_STR(s.out.p, "{\"id\":\"rank-ID\",\"object\":\"list\",\"model\":\"m\",\"usage\":{\"prompt_tokens\":9,\"total_tokens\":9},\"results\":["
           "{\"index\":1,\"relevance_score\":2.5,\"document\":{\"text\":\"b\"}},{\"index\":2,\"relevance_score\":0.25,\"document\":{\"text\":\"c\"}}]}");
    tw_drop(&s);
}

static void t_wire_errors(void) {
    static const struct { post_shape shape; const char *name; int status; const char *param, *want; } rows[] = {
        {POST_CHAT, req_invalid, 0, "seed", "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":\"seed\",\"code\":null}}"},
        {POST_CHAT, "context_length_exceeded", 0, "", "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"context_length_exceeded\"}}"},
        {POST_CHAT, NULL, 413, "", "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}"},
        {POST_MESSAGES, NULL, 413, "", "{\"type\":\"error\",\"error\":{\"type\":\"request_too_large\",\"message\":\"m\"}}"},
        {POST_MESSAGES, "overloaded", 0, "", "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}"},
        {POST_CHAT, NULL, 499, "", "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}"},
        {POST_CHAT, NULL, 599, "", "{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":null}}"},
        {POST_RESPONSES, "not such", 0, "", "{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":null}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str out = {0};
        wire_error(rows[i].shape, rows[i].name, rows[i].status, bytes_of(rows[i].param), "m", &out);
        EQ_STR(out.p, rows[i].want);
        str_drop(&out);
    }
    EQ_INT(wire_status("context_length_exceeded"), 400);
    EQ_INT(wire_status("out_of_room"), 503);
    static const struct { const char *text, *param; } params[] = {
        {"seed: found a string, expected a number", "seed"}, {"messages[3].content[1]: no", "messages[3].content[1]"}, {"the body has no prompt", ""},
        {"unknown key 'x_1' in the body (why: so)", "x_1"}, {"unknown key 'a b' in it", ""}, {"no: at all", "no"}, {"a b: c", ""}};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        err_t e = {0};
        err_set(&e, EXIT_INPUT, "%s", params[i].text);
        TW_IS(wire_param(&e), params[i].param);
    }
    static const struct { const char *path; bool is; } paths[] = {
        {"/v1/messages", true}, {"/messages?beta=true", true}, {"/v1/messages/count_tokens", true}, {"/v1/messagesx", false}, {"/v1/chat/completions", false}, {"", false}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) CHECKF(wire_is_messages(bytes_of(paths[i].path)) == paths[i].is, "%s", paths[i].path);
}

static const t_case t_wire_cases[] = {
    {"wire bodies", "bodies of each API become bodies that a batch file may have, or an error names the key", t_wire_bodies},
    {"wire recorded", "requests as clients send them: conversation, tools, what is left out", t_wire_recorded},
    {"wire chunks", "chunks of chats and completions, byte for byte", t_wire_chunks},
    {"wire logprobs", "logprobs of a stream go out with the next piece", t_wire_logprobs},
    {"wire responses", "events of Responses: their order, numbers, ids and items", t_wire_responses},
    {"wire messages", "events of Messages, byte for byte", t_wire_messages},
    {"wire cuts", "a stream has the same texts whatever the pieces", t_wire_cuts},
    {"wire whole", "answers without a stream", t_wire_whole},
    {"wire errors", "errors in the shape of each API", t_wire_errors},
};
static const t_suite t_wire_suite = SUITE(t_wire_cases);
