/* [req]: requests that are read from lines of a batch file; records, byte for byte. Vocabularies come from tok_mem.h through
 * t_tok.c. jansson says whether a record is JSON. */
#include "program.h"
#include "check.h"

#define TR_HINT " (--prompt-template makes prompts of any objects; metadata may hold what goes along)"
#include "t_tok.h"
#include "own_jansson.h"

enum { TR_VOCAB = 1000 };

enum { TR_SEED = 77 };

/* Reads a line with the command's defaults and a seed. */
static bool tr__req(req *q, bytes line, bool json, err_t *e) {
    const gen_request base = gen_ask(NULL, &gen_defaults, &samp_defaults, TR_SEED);
    const req_form    form = {&base, TR_VOCAB, json, false, NULL, NULL};
    return req_read(q, line, &form, e);
}

static void tr__text(str *s, const char *name, bytes b) {
    str_fmt(s, " %s=", name);
    str_json(s, b);
}

typedef struct {
    val  v;
    str *out;
} tr_json;

static void tr__json(val_env *env, void *ctx) {
    tr_json *j = ctx;
    val_buf *b = val_buf_new(env);
    val_json_write(env, b, j->v, NULL);
    val_utf8(val_buf_str(b), j->out);
}

static void tr__value(str *s, req *q, const char *before, val v) {
    err_t   e = {0};
    tr_json j = {v, s};
    str_put(s, before);
    CHECKF(val_run(&q->input.env, tr__json, &j, &e), "%s", e.text);
}

/* What the template of a chat reads, as JSON. */
static void tr__chat(str *s, req *q) {
    tr__value(s, q, " chat=", q->input.vars);
    if (q->input.choice) str_put(s, q->input.choice == CHAT_CALL_NONE ? " no call" : " a call");
    if (q->call_name.n) tr__text(s, "of", q->call_name);
    if (q->input.allowed.kind) tr__value(s, q, " of ", q->input.allowed);
    if (!q->many_calls) str_put(s, " one call");
    if (q->legacy) str_put(s, " function");
    if (q->input.continues) str_put(s, " continues");
}

/* A request's differences from the defaults as text; an error as its name and message. */
static str tr__tell(req *q, bool ok, const err_t *e) {
    const gen_request *r = &q->ask;
    const samp_opts *o = &r->samp, *d = &samp_defaults;
    str              s = {0};
    str_put(&s, ok ? "ok" : q->fault ? q->fault : "no fault");
    if (!ok) str_fmt(&s, ": %s", e->text);
    if (q->has_id) tr__text(&s, "id", q->custom_id);
    if (!ok) return s;
    if (q->chat) tr__chat(&s, q);
    for (int k = 0; k < q->n_prompt; k++) {
        const req_prompt *p = &q->prompt[k];
        if (p->text.p) tr__text(&s, "prompt", p->text);
        for (size_t i = 0; i < p->ids.n; i++) str_fmt(&s, "%s%d", i ? "," : " ids=", p->ids.id[i]);
    }
    if (q->n != 1) str_fmt(&s, " n=%d", q->n);
    if (r->gen.n_predict != -1) str_fmt(&s, " max=%lld", (long long)r->gen.n_predict);
    if (r->seed != TR_SEED) str_fmt(&s, " seed=%llu", (unsigned long long)r->seed);
    for (int i = 0; i < r->gen.n_stop; i++) tr__text(&s, "stop", r->gen.stop[i]);
    if (r->gen.stop && !r->gen.n_stop) str_put(&s, " stop=none");
    if (r->logprobs) str_fmt(&s, " logprobs=%d", r->top);
    if (r->gen.ignore_eos) str_fmt(&s, " ignore_eos=%d", r->gen.ignore_eos);
    if (r->gen.n_least) str_fmt(&s, " least=%d", r->gen.n_least);
    for (size_t i = 0; i < q->stop_ids.n; i++) str_fmt(&s, "%s%d", i ? "," : " stop_ids=", q->stop_ids.id[i]);
    CHECK(!q->stop_ids.n || r->gen.stop_ids == &q->stop_ids);
    if (r->gen.special_out) str_put(&s, " special");
    if (q->priority) str_fmt(&s, " priority=%d", q->priority);
    if (q->adapts) str_put(&s, " lora");
    for (int i = 0; i < q->n_adapter; i++) {
        const req_adapter *a = &q->adapter[i];
        if (a->name.p) tr__text(&s, "", a->name);
        else str_fmt(&s, " %d", a->id);
        if (!isnan(a->scale)) str_fmt(&s, ":%g", (double)a->scale);
    }
    if (o->temp != d->temp) str_fmt(&s, " temp=%g", (double)o->temp);
    if (o->top_p != d->top_p) str_fmt(&s, " top_p=%g", (double)o->top_p);
    if (o->top_k != d->top_k) str_fmt(&s, " top_k=%d", o->top_k);
    if (o->min_p != d->min_p) str_fmt(&s, " min_p=%g", (double)o->min_p);
    if (o->presence_penalty != d->presence_penalty) str_fmt(&s, " presence=%g", (double)o->presence_penalty);
    if (o->frequency_penalty != d->frequency_penalty) str_fmt(&s, " frequency=%g", (double)o->frequency_penalty);
    if (o->repeat_penalty != d->repeat_penalty) str_fmt(&s, " repetition=%g", (double)o->repeat_penalty);
    for (int i = 0; i < o->n_bias; i++) str_fmt(&s, " bias=%d:%g", o->bias[i].id, (double)o->bias[i].bias);
    return s;
}

static void tr__read(bytes line, bool json, const char *want) {
    req   q;
    err_t e = {0};
    bool  ok = tr__req(&q, line, json, &e);
    str   got = tr__tell(&q, ok, &e);
    CHECKF(strcmp(got.p, want) == 0, "%.200s\n      got  %s\n      want %s", (const char *)line.p, got.p, want);
    CHECK(ok ? !e.code && !q.fault : (e.code == EXIT_INPUT || e.code == EXIT_RESOURCE) && q.fault);
    str_drop(&got);
    req_drop(&q);
}

typedef struct {
    const char *line, *want;
} tr_row;

static void tr__rows(const tr_row *row, size_t n) {
    for (size_t i = 0; i < n; i++) tr__read(bytes_of(row[i].line), true, row[i].want);
}
#define TR_ROWS(r) tr__rows(r, sizeof r / sizeof *r)

/* --- what is read --- */

static void t_req_shapes(void) {
    static const tr_row rows[] = {
        {"{\"prompt\":\"Hi\"}", "ok prompt=\"Hi\""},
        {" { \"prompt\" : \"Hi\" } ", "ok prompt=\"Hi\""},
        {"{\"prompt\":\"\"}", "ok prompt=\"\""},
        {"{\"custom_id\":\"a\",\"prompt\":\"Hi\"}", "ok id=\"a\" prompt=\"Hi\""},
        {"{\"prompt\":\"Hi\",\"custom_id\":\"\"}", "ok id=\"\" prompt=\"Hi\""},
        {"{\"custom_id\":null,\"prompt\":\"Hi\"}", "ok prompt=\"Hi\""},
        {"{\"custom_id\":\"r-1\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"model\":\"m\",\"prompt\":\"Hi\",\"max_tokens\":64}}",
         "ok id=\"r-1\" prompt=\"Hi\" max=64"},
        {"{\"body\":{\"prompt\":\"Hi\"},\"url\":\"/v1/completions\",\"method\":\"POST\"}", "ok prompt=\"Hi\""},
        {"{\"prompt\":[5]}", "ok ids=5"},
        {"{\"prompt\":[0,999,3.0]}", "ok ids=0,999,3"},
        {"{\"prompt\":[[7,8]]}", "ok ids=7,8"},
        {"{\"prompt\":[\"one\"]}", "ok prompt=\"one\""},
        {"{\"prompt\":[\"one\",\"\",\"one\"],\"n\":2}", "ok prompt=\"one\" prompt=\"\" prompt=\"one\" n=6"},
        {"{\"prompt\":[[7,8],[9]]}", "ok ids=7,8 ids=9 n=2"},
        {"{\"n\":2,\"prompt\":[[7],\"two\"]}", "ok ids=7 prompt=\"two\" n=4"},
        {"{\"prompt\":\"a\\u0000b\\n\"}", "ok prompt=\"a\\u0000b\\n\""},
        {"{\"custom_id\":\"\\u00e9\\ud83d\\ude00\",\"prompt\":\"\\\"\\\\\\/\\b\"}",
         "ok id=\"é😀\" prompt=\"\\\"\\\\/\\u0008\""},
        {"{\"prompt\":\"Hi\",\"messages\":null}", "ok prompt=\"Hi\""},
        {"{\"custom_id\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
         "ok id=\"a\" chat={\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
         "{\"role\":\"assistant\",\"content\":null},{\"role\":\"user\",\"content\":[]},{\"role\":\"tool\"}],\"logprobs\":true,\"top_logprobs\":3,"
         "\"chat_template_kwargs\":{\"enable_thinking\":false}}}",
         "ok id=\"a\" chat={\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": null}, {\"role\": \"user\", \"content\": \"\"}, "
         "{\"role\": \"tool\"}], \"enable_thinking\": false} logprobs=3"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"none\",\"parallel_tool_calls\":false}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]} no call one call"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"required\"}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]} a call"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]} a call of=\"f\""},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}}}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}, {\"type\": \"function\", \"function\": {\"name\": \"g\"}}]} of [{\"type\": \"function\", \"function\": {\"name\": \"g\"}}]"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":\"function\",\"name\":\"g\"}]}}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}, {\"type\": \"function\", \"function\": {\"name\": \"g\"}}]} a call of [{\"type\": \"function\", \"function\": {\"name\": \"g\"}}]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a \"},{\"type\":\"text\",\"text\":\"b\"}],\"x\":123456789012345678901234567890}],\"n\":2,"
         "\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"k\":[null,1.0]}}",
         "ok chat={\"messages\": [{\"role\": \"user\", \"content\": \"a b\", \"x\": 123456789012345678901234567890}], \"reasoning_effort\": \"low\", \"k\": [null, 1.0]} n=2"},
    };
    TR_ROWS(rows);
}

static void t_req_keys(void) {
    static const tr_row rows[] = {
        {"{\"prompt\":\"\",\"temperature\":0,\"top_p\":0.5,\"top_k\":-1,\"min_p\":0.25}",
         "ok prompt=\"\" temp=0 top_p=0.5 top_k=-1 min_p=0.25"},
        {"{\"prompt\":\"\",\"presence_penalty\":-1.5,\"frequency_penalty\":2,\"repetition_penalty\":1.25}",
         "ok prompt=\"\" presence=-1.5 frequency=2 repetition=1.25"},
        {"{\"prompt\":\"\",\"max_tokens\":0}", "ok prompt=\"\" max=0"},
        {"{\"prompt\":\"\",\"max_tokens\":9223372036854775807}", "ok prompt=\"\" max=9223372036854775807"},
        {"{\"prompt\":\"\",\"max_tokens\":16,\"max_completion_tokens\":16.0}", "ok prompt=\"\" max=16"},
        {"{\"prompt\":\"\",\"max_tokens\":16,\"max_completion_tokens\":null}", "ok prompt=\"\" max=16"},
        {"{\"prompt\":\"\",\"max_completion_tokens\":1e2}", "ok prompt=\"\" max=100"},
        {"{\"prompt\":\"\",\"seed\":0}", "ok prompt=\"\" seed=0"},
        {"{\"prompt\":\"\",\"seed\":-1}", "ok prompt=\"\" seed=18446744073709551615"},
        {"{\"prompt\":\"\",\"seed\":9223372036854775807}", "ok prompt=\"\" seed=9223372036854775807"},
        {"{\"prompt\":\"\",\"seed\":-9223372036854775808}", "ok prompt=\"\" seed=9223372036854775808"},
        {"{\"prompt\":\"\",\"stop\":\"a\"}", "ok prompt=\"\" stop=\"a\""},
        {"{\"prompt\":\"\",\"stop\":[\"a\",\"b\\u0000\"]}", "ok prompt=\"\" stop=\"a\" stop=\"b\\u0000\""},
        {"{\"prompt\":\"\",\"stop\":[]}", "ok prompt=\"\" stop=none"},
        {"{\"prompt\":\"\",\"n\":128,\"priority\":-5,\"ignore_eos\":true}", "ok prompt=\"\" n=128 ignore_eos=1 priority=-5"},
        {"{\"prompt\":\"\",\"ignore_eos\":false}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"min_tokens\":3,\"max_tokens\":3,\"stop_token_ids\":[0,999,7.0]}",
         "ok prompt=\"\" max=3 least=3 stop_ids=0,999,7"},
        {"{\"prompt\":\"\",\"lora\":\"one\"}", "ok prompt=\"\" lora =\"one\""},
        {"{\"prompt\":\"\",\"lora\":[]}", "ok prompt=\"\" lora"},
        {"{\"prompt\":\"\",\"lora\":null}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"lora\":[\"one\",{\"id\":1,\"scale\":-0.5},{\"name\":\"two\",\"scale\":2},{\"id\":2}]}",
         "ok prompt=\"\" lora =\"one\" 1:-0.5 =\"two\":2 2"},
        {"{\"prompt\":\"\",\"min_tokens\":3,\"stop_token_ids\":[],\"skip_special_tokens\":false}",
         "ok prompt=\"\" least=3 special"},
        {"{\"prompt\":\"\",\"skip_special_tokens\":true,\"verbosity\":\"low\",\"prompt_cache_key\":\"k\",\"prompt_cache_retention\":\"24h\",\"safety_identifier\":\"x\"}",
         "ok prompt=\"\""},
        {"{\"messages\":[{\"role\":\"user\"}],\"modalities\":[\"text\"],\"functions\":[],\"continue_final_message\":false}",
         "ok chat={\"messages\": [{\"role\": \"user\"}]}"},
        {"{\"messages\":[{\"role\":\"user\"}],\"continue_final_message\":true,\"add_generation_prompt\":false}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"add_generation_prompt\": false} continues"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"function_call\":\"auto\"}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]} one call function"},
        {"{\"messages\":[{\"role\":\"user\"}],\"function_call\":{\"name\":\"f\"},\"functions\":[{\"name\":\"f\"}]}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]} a call of=\"f\" one call function"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"function_call\":\"none\"}",
         "ok chat={\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]} no call one call function"},
        {"{\"prompt\":\"\",\"logprobs\":0}", "ok prompt=\"\" logprobs=0"},
        {"{\"prompt\":\"\",\"logprobs\":20}", "ok prompt=\"\" logprobs=20"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"0\":-100,\"999\":2.5}}", "ok prompt=\"\" bias=0:-100 bias=999:2.5"},
        {"{\"prompt\":\"\",\"logit_bias\":{}}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"text\"}}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"model\":\"m\",\"user\":\"u\",\"metadata\":{\"a\":[1]},\"stream\":false}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"store\":true,\"service_tier\":\"auto\",\"echo\":false,\"best_of\":1}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"tools\":[],\"tool_choice\":\"none\"}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"tool_choice\":\"auto\"}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"suffix\":null,\"top_logprobs\":null,\"stream_options\":null,\"grammar\":null,\"tools\":null}",
         "ok prompt=\"\""},
    };
    TR_ROWS(rows);
}

/* A body's keys replace the command's settings; settings without a key stay. Biases and stop strings are replaced as a whole. */
static void t_req_base(void) {
    static const samp_bias own[] = {{3, 1}};
    const bytes            stops[] = {bytes_of("X"), bytes_of("Y")};
    gen_request            base = gen_ask(NULL, &gen_defaults, &samp_defaults, 5);
    req                    q;
    err_t                  e = {0};
    base.samp.bias = own, base.samp.n_bias = 1, base.samp.temp = 2;
    base.gen = (gen_opts){.n_predict = 9, .ignore_eos = true, .stop = stops, .n_stop = 2};
    const req_form form = {&base, TR_VOCAB, true, false, NULL, NULL}, plain = {&base, TR_VOCAB, false, false, NULL, NULL};
    CHECK(req_read(&q, bytes_of("{\"prompt\":\"\",\"top_k\":7}"), &form, &e));
    CHECK(q.ask.samp.bias == own && q.ask.samp.n_bias == 1 && q.ask.samp.temp == 2 && q.ask.samp.top_k == 7);
    CHECK(q.ask.gen.n_predict == 9 && q.ask.gen.ignore_eos && q.ask.gen.stop == stops && q.ask.gen.n_stop == 2);
    CHECK(q.ask.seed == 5 && q.ask.n == 1 && !q.ask.logprobs);
    req_drop(&q);
    CHECK(req_read(&q, bytes_of("{\"prompt\":\"\",\"logit_bias\":{},\"seed\":6,\"ignore_eos\":false,\"stop\":\"Z\",\"max_tokens\":0,\"n\":3,\"logprobs\":2}"), &form, &e));
    EQ_INT(q.ask.samp.n_bias, 0);
    CHECK(q.ask.gen.n_predict == 0 && !q.ask.gen.ignore_eos && q.ask.gen.n_stop == 1 && bytes_is(q.ask.gen.stop[0], "Z"));
    CHECK(q.ask.seed == 6 && q.ask.n == 3 && q.ask.logprobs && q.ask.top == 2);
    req_drop(&q);
    CHECK(req_read(&q, bytes_of("plain"), &plain, &e));
    CHECK(q.ask.samp.bias == own && q.ask.samp.temp == 2 && q.ask.gen.stop == stops);
    req_drop(&q);
}

static void t_req_plain(void) {
    static const uint8_t odd[] = {0, '{', 0xff, '"', 0xc3};
    req                  q;
    err_t                e = {0};
    tr__read(bytes_of("Once upon a time"), false, "ok prompt=\"Once upon a time\"");
    tr__read(bytes_of("{\"prompt\":1}"), false, "ok prompt=\"{\\\"prompt\\\":1}\"");
    tr__read((bytes){NULL, 0}, false, "ok prompt=\"\"");
    CHECK(tr__req(&q, (bytes){odd, sizeof odd}, false, &e));
    CHECK(bytes_eq(q.prompt[0].text, (bytes){odd, sizeof odd}) && q.prompt[0].text.p != odd);
    req_drop(&q);
}

/* A plain line as a user's message: its bytes are an input's, whatever they look like. */
static void t_req_wrapped(void) {
    static const uint8_t odd[] = "{\"prompt\":\"<s>\xff\"}";
    const gen_request    base = gen_ask(NULL, &gen_defaults, &samp_defaults, TR_SEED);
    const req_form       form = {&base, TR_VOCAB, false, true, NULL, NULL};
    const bytes          line = {odd, sizeof odd - 1};
    req                  q;
    err_t                e = {0};
    str                  text = {0};
    CHECK(req_read(&q, line, &form, &e) && q.chat && q.n_prompt == 1 && q.n == 1 && !q.prompt[0].text.n);
    const val_list *messages = val_get(q.input.vars, "messages").list;
    const val       content = val_get(messages->at[0], "content");
    CHECK(messages->n == 1 && val_is_str(val_get(messages->at[0], "role"), "user") && content.kind == VAL_STR);
    for (uint32_t i = 0; i < content.s.n; i++) CHECK(content.s.p[i] & VAL_INPUT);
    val_utf8(content.s, &text);
    CHECK(bytes_eq(str_bytes(&text), line));
    str_drop(&text);
    req_drop(&q);
}

/* --- what is refused --- */

static void t_req_refuses(void) {
    static const tr_row rows[] = {
        {"{}", "invalid_request: the body has no prompt"},
        {"[]", "invalid_request: the line: found an empty list, expected an object"},
        {"{\"custom_id\":\"a\"}", "invalid_request: the body has no prompt id=\"a\""},
        {"{\"custom_id\":7,\"prompt\":\"\"}", "invalid_request: custom_id: found a number, expected a string id=\"7\""},
        {"{\"custom_id\":\"a\",\"promt\":\"x\"}", "invalid_request: unknown key 'promt' in the body" TR_HINT " id=\"a\""},
        {"{\"prompt\":\"x\",\"best_of\":2}", "invalid_request: best_of: 2 is out of range, expected 1 to 1"},
        {"{\"prompt\":\"x\",\"Temperature\":0}", "invalid_request: unknown key 'Temperature' in the body" TR_HINT},
        {"{\"prompt\":\"x\",\"\":1}", "invalid_request: unknown key '' in the body" TR_HINT},
        {"{\"method\":\"GET\",\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{}}",
         "invalid_request: method: found 'GET', expected POST id=\"a\""},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"\"}}",
         "invalid_request: method: found nothing, expected POST id=\"a\""},
        {"{\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"x\"}}",
         "unsupported: url: /v1/embeddings in a run that writes texts, expected --embed"},
        {"\"a\"", "invalid_request: the line: found a string, expected an object"},
        {"1", "invalid_request: the line: found a number, expected an object"},
        {"{\"prompt\\u0000\":\"a\"}", "invalid_request: unknown key 'prompt?' in the body" TR_HINT},
        {"{\"prompt\":\"\",\"seed\":99999999999999999999}",
         "invalid_request: seed: a number beyond 64 bits, expected -9.223372037e+18 to 9.223372037e+18"},
        {"{\"prompt\":\"\",\"temperature\":1e400}",
         "invalid_request: temperature: inf is out of range, expected -1000000 to 1000000"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\\u0000\",\"body\":{\"prompt\":\"x\"}}",
         "invalid_request: url: found '/v1/completions?', expected /v1/completions or /v1/chat/completions"},
        {"{\"method\":\"POST\",\"body\":{\"prompt\":\"x\"}}",
         "invalid_request: url: found nothing, expected /v1/completions or /v1/chat/completions"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\"}", "invalid_request: body: found nothing, expected an object"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":\"x\"}",
         "invalid_request: body: found a string, expected an object"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\",\"custom_id\":\"a\"}}",
         "invalid_request: unknown key 'custom_id' in the body" TR_HINT},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"},\"prompt\":\"y\"}",
         "invalid_request: unknown key 'prompt' beside custom_id, method, url and body"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"messages\":[]}}",
         "invalid_request: messages: belongs to /v1/chat/completions, found in a body for /v1/completions"},
        {"{\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"prompt\":\"x\"}}",
         "invalid_request: prompt: belongs to /v1/completions, found in a body for /v1/chat/completions"},
        {"{\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{}}", "invalid_request: the body has no messages"},
        {"{\"prompt\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"y\"}]}",
         "invalid_request: prompt: belongs to /v1/completions, found in a body for /v1/chat/completions"},
        {"{\"prompt\":\"x\",\"top_logprobs\":2}",
         "invalid_request: top_logprobs: belongs to /v1/chat/completions, found in a body for /v1/completions"},
        {"{\"prompt\":\"x\",\"chat_template_kwargs\":{}}",
         "invalid_request: chat_template_kwargs: belongs to /v1/chat/completions, found in a body for /v1/completions"},
        {"{\"messages\":[]}", "invalid_request: messages: found an empty list, expected a list of at least one message"},
        {"{\"messages\":[\"x\"]}", "invalid_request: messages[0] is str, expected an object"},
        {"{\"messages\":[{\"content\":\"x\"}]}", "invalid_request: messages[0]: role is missing, expected a text"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}",
         "invalid_request: messages[0]: content is int, expected a text or a list of parts"},
        {"{\"messages\":[{\"role\":\"user\"}],\"top_logprobs\":2}",
         "invalid_request: top_logprobs: alone, expected \"logprobs\":true beside it"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\",\"image_url\":{}}]}]}",
         "invalid_request: messages[0]: content: part 1 is of type image_url, expected text"},
        {"{\"messages\":[{\"role\":\"user\"}],\"chat_template_kwargs\":{\"a\":1,\"messages\":[]}}",
         "invalid_request: chat_template_kwargs: found messages, which the body itself decides"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"x\"}",
         "invalid_request: tool_choice: found 'x', expected none, auto, required or an object"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}}",
         "invalid_request: tool_choice: found 'g', expected the name of one of the tools"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"type\":\"function\"}}",
         "invalid_request: tool_choice: found an object, expected one with type function and the function's name, or allowed_tools"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\"}}",
         "invalid_request: tool_choice: allowed_tools without tools, expected a list of at least one"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"none\",\"tools\":[{\"name\":\"g\"}]}}",
         "invalid_request: tool_choice: allowed_tools: mode is none, expected auto or required"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":3,\"tools\":[{\"name\":\"g\"}]}}",
         "invalid_request: tool_choice: allowed_tools: mode is a number, expected auto or required"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"name\":\"h\"}]}}",
         "invalid_request: tool_choice: found 'h', expected the name of one of the tools"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[5]}}",
         "invalid_request: tool_choice: found nothing, expected the name of one of the tools"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tool_choice\":\"required\"}",
         "invalid_request: tool_choice: a call without tools, expected tools beside it"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{}]}",
         "invalid_request: tools: number 0 has nothing as its function's name, expected a text"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"name\":\"f\"},{\"type\":\"function\",\"function\":{\"name\":3}}]}",
         "invalid_request: tools: number 1 has a number as its function's name, expected a text"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]}",
         "invalid_request: tools: number 0 has an empty text as its function's name, expected a text"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":null}]}",
         "invalid_request: functions: number 0 has null as its function's name, expected a text"},
        {"{\"messages\":[{\"role\":\"user\"}],\"tools\":[5]}",
         "invalid_request: tools: found a number, expected objects alone in this list"},
        {"{\"messages\":[{\"role\":\"user\"}],\"parallel_tool_calls\":1}",
         "invalid_request: parallel_tool_calls: found a number, expected true or false"},
        {"{\"messages\":[{\"role\":\"user\"}],\"reasoning_effort\":1}",
         "invalid_request: reasoning_effort: found a number, expected a string"},
        {"{\"prompt\":\"\",\"min_tokens\":4,\"max_tokens\":3}",
         "invalid_request: min_tokens: 4 is above the limit of 3 tokens"},
        {"{\"prompt\":\"\",\"min_tokens\":-1}", "invalid_request: min_tokens: -1 is out of range, expected 0 to 2147483647"},
        {"{\"prompt\":\"\",\"lora\":{\"id\":0}}",
         "invalid_request: lora: found an object, expected a name, or a list of names and of objects with id and scale"},
        {"{\"prompt\":\"\",\"lora\":[{\"scale\":1}]}",
         "invalid_request: lora: found no name and no id, expected one of them"},
        {"{\"prompt\":\"\",\"lora\":[{\"id\":-1}]}",
         "invalid_request: lora.id: -1 is out of range, expected 0 to 2147483647"},
        {"{\"prompt\":\"\",\"lora\":[{\"id\":0,\"scale\":1e9}]}",
         "invalid_request: lora.scale: 1000000000 is out of range, expected -1000000 to 1000000"},
        {"{\"prompt\":\"\",\"stop_token_ids\":[1000]}",
         "invalid_request: stop_token_ids: 1000 is out of range, expected 0 to 999"},
        {"{\"prompt\":\"\",\"stop_token_ids\":[\"a\"]}",
         "invalid_request: stop_token_ids: found a string, expected token ids alone in this list"},
        {"{\"prompt\":\"\",\"stop_token_ids\":5}",
         "invalid_request: stop_token_ids: found a number, expected a list of token ids"},
        {"{\"messages\":[{\"role\":\"user\"}],\"modalities\":[\"text\",\"audio\"]}",
         "unsupported: modalities: found 'audio', expected text alone"},
        {"{\"messages\":[{\"role\":\"user\"}],\"modalities\":\"text\"}",
         "invalid_request: modalities: found a string, expected a list with text alone"},
        {"{\"messages\":[{\"role\":\"user\"}],\"modalities\":[1]}",
         "invalid_request: modalities: found a number, expected text"},
        {"{\"messages\":[{\"role\":\"user\"}],\"continue_final_message\":true,\"add_generation_prompt\":true}",
         "invalid_request: continue_final_message: beside add_generation_prompt true, expected one of them"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"tools\":[{\"name\":\"f\"}]}",
         "invalid_request: tools: beside functions, expected one of them"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"function_call\":\"auto\",\"tool_choice\":\"auto\"}",
         "invalid_request: tool_choice: beside function_call, expected one of them"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"function_call\":\"required\"}",
         "invalid_request: function_call: found 'required', expected none, auto or an object"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"function_call\":{\"name\":\"g\"}}",
         "invalid_request: function_call: found 'g', expected the name of one of the tools"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[{\"name\":\"f\"}],\"function_call\":{}}",
         "invalid_request: function_call: found an object, expected one with the function's name"},
        {"{\"messages\":[{\"role\":\"user\"}],\"function_call\":{\"name\":\"f\"}}",
         "invalid_request: function_call: a call without tools, expected tools beside it"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":[\"f\"]}",
         "invalid_request: functions: found a string, expected objects alone in this list"},
        {"{\"messages\":[{\"role\":\"user\"}],\"functions\":{}}",
         "invalid_request: functions: found an object, expected a list of functions"},
        {"{\"prompt\":[]}", "invalid_request: prompt: an empty list, expected text or token ids"},
        {"{\"prompt\":[[]]}", "invalid_request: prompt: an empty list, expected text or token ids"},
        {"{\"prompt\":[\"a\",5]}", "invalid_request: prompt: found a number, expected text or a list of token ids"},
        {"{\"prompt\":[[1],[]]}", "invalid_request: prompt: an empty list, expected text or token ids"},
        {"{\"prompt\":[1000]}", "invalid_request: prompt: 1000 is out of range, expected 0 to 999"},
        {"{\"prompt\":[-1]}", "invalid_request: prompt: -1 is out of range, expected 0 to 999"},
        {"{\"prompt\":[1.5]}", "invalid_request: prompt: found 1.5, expected a whole number"},
        {"{\"prompt\":[1,\"a\"]}", "invalid_request: prompt: found a string, expected token ids alone in this list"},
        {"{\"prompt\":[[[1]]]}", "invalid_request: prompt: found a list, expected token ids alone in this list"},
        {"{\"prompt\":[null]}", "invalid_request: prompt: found null, expected text or a list of token ids"},
        {"{\"prompt\":\"\",\"max_tokens\":16,\"max_completion_tokens\":17}",
         "invalid_request: max_completion_tokens: 17 beside another limit of 16, expected one"},
        {"{\"prompt\":\"\",\"max_tokens\":-1}",
         "invalid_request: max_tokens: -1 is out of range, expected 0 to 9.223372037e+18"},
        {"{\"prompt\":\"\",\"max_tokens\":1e19}",
         "invalid_request: max_tokens: 1e+19 is out of range, expected 0 to 9.223372037e+18"},
        {"{\"prompt\":\"\",\"max_tokens\":9223372036854775808.0}",
         "invalid_request: max_tokens: found 9.223372037e+18, expected a whole number below 2^63"},
        {"{\"prompt\":\"\",\"temperature\":\"NaN\"}", "invalid_request: temperature: found a string, expected a number"},
        {"{\"prompt\":\"\",\"temperature\":-2e6}",
         "invalid_request: temperature: -2000000 is out of range, expected -1000000 to 1000000"},
        {"{\"prompt\":\"\",\"stop\":\"\"}", "invalid_request: stop: an empty string, expected text"},
        {"{\"prompt\":\"\",\"stop\":[\"a\",\"\"]}", "invalid_request: stop: an empty string, expected text"},
        {"{\"prompt\":\"\",\"stop\":[\"a\",null]}",
         "invalid_request: stop: found null, expected a string or a list of strings"},
        {"{\"prompt\":\"\",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]}",
         "invalid_request: stop: 17 strings, expected at most 16"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"1000\":1}}",
         "invalid_request: logit_bias: found '1000', expected token ids from 0 to 999"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"01\":1}}",
         "invalid_request: logit_bias: found '01', expected token ids from 0 to 999"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"-1\":1}}",
         "invalid_request: logit_bias: found '-1', expected token ids from 0 to 999"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"\":1}}",
         "invalid_request: logit_bias: found '', expected token ids from 0 to 999"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"99999999999999999999\":1}}",
         "invalid_request: logit_bias: found '99999999999999999999', expected token ids from 0 to 999"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"4294967297\":1}}",
         "invalid_request: logit_bias: found '4294967297', expected token ids from 0 to 999"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"1\":\"x\"}}", "invalid_request: logit_bias: found a string, expected a number"},
        {"{\"prompt\":\"\",\"logit_bias\":{\"1\":1e39}}",
         "invalid_request: logit_bias: 1e+39 is out of range, expected -1e+30 to 1e+30"},
        {"{\"prompt\":\"\",\"stream\":true}",
         "unsupported: stream: true, expected false: the answer to a line is one record of new text"},
        {"{\"prompt\":\"\",\"echo\":true}",
         "unsupported: echo: true, expected false: the answer to a line is one record of new text"},
        {"{\"prompt\":\"\",\"tools\":[{\"name\":\"f\"}]}",
         "invalid_request: tools: belongs to /v1/chat/completions, expected none in a body for /v1/completions"},
        {"{\"prompt\":\"\",\"tools\":{}}", "invalid_request: tools: found an object, expected a list of tools"},
        {"{\"prompt\":\"\",\"tool_choice\":\"required\"}",
         "invalid_request: tool_choice: belongs to /v1/chat/completions, expected none or auto in a body for /v1/completions"},
        {"{\"prompt\":\"\",\"tool_choice\":{}}",
         "invalid_request: tool_choice: belongs to /v1/chat/completions, expected none or auto in a body for /v1/completions"},
        {"{\"prompt\":\"\",\"tool_choice\":1}",
         "invalid_request: tool_choice: found a number, expected none, auto, required or an object"},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"text\\u0000\"}}",
         "invalid_request: response_format: found type 'text?', expected text, json_object or json_schema"},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"json_schema\"}}",
         "invalid_request: response_format: type json_schema without json_schema, expected an object of that name"},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}}",
         "invalid_request: response_format: found nothing, expected a schema: an object, true or false"},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"scheme\":{}}}}",
         "invalid_request: response_format: unknown key 'scheme' in json_schema"},
        {"{\"prompt\":\"\",\"grammar\":\"x\",\"regex\":\"x\"}",
         "invalid_request: regex: a second constraint beside grammar, expected one"},
        {"{\"prompt\":\"\",\"structured_outputs\":{\"regex\":\"x\",\"choice\":[\"a\"]}}",
         "invalid_request: structured_outputs: a second constraint beside structured_outputs, expected one"},
        {"{\"prompt\":\"\",\"structured_outputs\":{\"rgx\":\"x\"}}",
         "invalid_request: structured_outputs: found 'rgx', expected json, regex, grammar, choice or json_object"},
        {"{\"prompt\":\"\",\"guided_choice\":[]}",
         "invalid_request: guided_choice: found an empty list, expected a list of at least one string"},
        {"{\"prompt\":\"\",\"guided_choice\":[\"a\",1]}",
         "invalid_request: guided_choice: found a number, expected strings alone in this list"},
        {"{\"prompt\":\"\",\"response_format\":{}}",
         "invalid_request: response_format: found an object, expected an object with a type"},
    };
    TR_ROWS(rows);
}

/* A body's constraint as the caller compiles it: kind, key, text. A schema has the bytes of the line; what a body says replaces the command's. */
static void t_req_constraints(void) {
    static const struct {
        const char    *line;
        constrain_kind kind;
        const char    *path, *text;
    } rows[] = {
        {"{\"prompt\":\"\"}", CONSTRAIN_REGEX, "--regex", "own"},
        {"{\"prompt\":\"\",\"grammar\":null}", CONSTRAIN_REGEX, "--regex", "own"},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"text\"}}", CONSTRAIN_NONE, NULL, NULL},
        {"{\"prompt\":\"\",\"grammar\":\"root ::= \\\"x\\\"\"}", CONSTRAIN_GBNF, "grammar", "root ::= \"x\""},
        {"{\"prompt\":\"\",\"grammar\":\"x\",\"response_format\":{\"type\":\"text\"}}", CONSTRAIN_GBNF, "grammar", "x"},
        {"{\"prompt\":\"\",\"regex\":\"\"}", CONSTRAIN_REGEX, "regex", ""},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"json_object\"}}", CONSTRAIN_OBJECT, "response_format", ""},
        {"{\"prompt\":\"}\\\"\", \"response_\\u0066ormat\" : {\"json_schema\":{\"strict\":true,\"schema\" : {\"minimum\": 1.50 },\"name\":\"x\"},\"type\":\"json_schema\"}}",
         CONSTRAIN_SCHEMA, "response_format", "{\"minimum\": 1.50 }"},
        {"{\"prompt\":\"\",\"response_format\":{\"type\":\"json_object\",\"schema\":{\"a\":[{}]}}}", CONSTRAIN_SCHEMA,
         "response_format", "{\"a\":[{}]}"},
        {"{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"guided_json\":{\"x\":1},\"prompt\":\"\"},\"custom_id\":\"a\"}", CONSTRAIN_SCHEMA, "guided_json", "{\"x\":1}"},
        {"{\"prompt\":\"\",\"guided_json\":\"{}\"}", CONSTRAIN_SCHEMA, "guided_json", "{}"},
        {"{\"prompt\":\"\",\"json_schema\":{\"x\":1}}", CONSTRAIN_SCHEMA, "json_schema", "{\"x\":1}"},
        {"{\"prompt\":\"\",\"guided_regex\":\"a+\"}", CONSTRAIN_REGEX, "guided_regex", "a+"},
        {"{\"prompt\":\"\",\"guided_grammar\":\"g\"}", CONSTRAIN_GBNF, "guided_grammar", "g"},
        {"{\"prompt\":\"\",\"guided_choice\":[\"a|b\",\"c\\\\\",\"\"]}", CONSTRAIN_CHOICE, "guided_choice", "a\\|b|c\\\\|"},
        {"{\"prompt\":\"\",\"structured_outputs\":{\"json\":true,\"regex\":null}}", CONSTRAIN_SCHEMA, "structured_outputs",
         "true"},
        {"{\"prompt\":\"\",\"structured_outputs\":{\"json_object\":true}}", CONSTRAIN_OBJECT, "structured_outputs", ""},
        {"{\"prompt\":\"\",\"structured_outputs\":{\"choice\":[\"y\"]}}", CONSTRAIN_CHOICE, "structured_outputs", "y"},
    };
    const gen_request    base = gen_ask(NULL, &gen_defaults, &samp_defaults, 1);
    const constrain_spec own = {.kind = CONSTRAIN_REGEX, .text = bytes_of("own"), .path = "--regex", .close = true,
                                .form = {.order = 1}};
    const req_form       form = {&base, TR_VOCAB, true, false, &own, NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        req   q;
        err_t e = {0};
        const bool ok = req_read(&q, bytes_of(rows[i].line), &form, &e);
        CHECKF(ok, "%s: %s", rows[i].line, e.text);
        if (ok) {
            EQ_INT(q.hold.kind, rows[i].kind);
            if (rows[i].kind != CONSTRAIN_NONE) EQ_STR(q.hold.path, rows[i].path);
            if (rows[i].kind != CONSTRAIN_NONE)
                CHECKF(bytes_is(q.hold.text, rows[i].text), "%s: '%.*s'", rows[i].line, (int)q.hold.text.n, q.hold.text.p);
            CHECK(q.hold.close && q.hold.form.order == 1);
        }
        req_drop(&q);
    }
}

/* As many completions as prompts times n, up to a bound. */
static void t_req_choices(void) {
    for (int n = REQ_N - 1; n <= REQ_N; n++)
        for (int prompts = REQ_CHOICES / REQ_N; prompts <= REQ_CHOICES / REQ_N + 1; prompts++) {
            str   line = {0};
            req   q;
            err_t e = {0};
            str_fmt(&line, "{\"n\":%d,\"prompt\":[", n);
            for (int i = 0; i < prompts; i++) str_put(&line, i ? ",\"a\"" : "\"a\"");
            str_put(&line, "]}");
            const bool ok = tr__req(&q, str_bytes(&line), true, &e);
            CHECKF(ok == (n * prompts <= REQ_CHOICES), "%d of %d: %s", n, prompts, e.text);
            if (ok) EQ_INT(q.n, n * prompts);
            if (ok) EQ_INT(q.ask.n, n);
            req_drop(&q);
            str_drop(&line);
        }
}

/* What is no JSON is named with its place. */
static void t_req_bad_json(void) {
    static const char *const rows[] = {
        "", " ", "{", "}", "x", "{\"prompt\":}", "{\"prompt\":\"a\"", "{\"prompt\":\"a}", "{prompt:\"a\"}", "{'prompt':'a'}",
        "{\"prompt\":\"a\",}", "{\"prompt\":\"a\"}}", "{\"prompt\":\"a\"} x", "{\"prompt\":\"\\ud800\"}",
        "{\"prompt\":\"\\udc00\"}",
        "{\"prompt\":\"\\ud800\\u0041\"}", "{\"prompt\":\"\\x41\"}", "{\"prompt\":\"\\u12\"}", "{\"prompt\":\"a\tb\"}",
        "{\"n\":NaN}", "{\"n\":Infinity}",
        "{\"n\":01}", "{\"n\":+1}", "{\"n\":.5}", "{\"prompt\":\"a\",\"prompt\":\"b\"}",
        "{\"prompt\":TRUE}", "{\"prompt\":\"a\"}{\"prompt\":\"b\"}", "nul", "\xef\xbb\xbf{\"prompt\":\"a\"}",
        "{\"prompt\":\xff}", "\xff", "{\"\xff\":1,\"\xff\":2}", "{\"prompt\":\"\xff\"", "\\udbff\\udf80",
        "{\"prompt\":\"\xff\\udbff\"}",
        "{\"prompt\":\"\xff\\\xff\"}", "/* c */{\"prompt\":\"a\"}", "{\"prompt\":\"\xff\\\\udbff\\udf80\"}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        req   q;
        err_t e = {0};
        bool  ok = tr__req(&q, bytes_of(rows[i]), true, &e);
        CHECKF(!ok && q.fault == req_bad_json && e.code == EXIT_INPUT && strncmp(e.text, "JSON, byte ", 11) == 0,
               "%s: %s: %s", rows[i], q.fault ? q.fault : "ok", e.text);
        CHECKF(strtoul(e.text + 11, NULL, 10) <= strlen(rows[i]) + 1, "%s: %s", rows[i], e.text);
        req_drop(&q);
    }
}

/* A line that the parser refuses keeps its custom_id as far as the line has the shape of an object. */
static void t_req_refused_id(void) {
    static const tr_row rows[] = {
        {"{\"custom_id\":\"a\",\"prompt\":\"x\",\"seed\":99999999999999999999}",
         "invalid_request: seed: a number beyond 64 bits, expected -9.223372037e+18 to 9.223372037e+18 id=\"a\""},
        {"{\"seed\":1e400,\"custom_id\":\"a\"}",
         "invalid_request: seed: inf is out of range, expected -9.223372037e+18 to 9.223372037e+18 id=\"a\""},
        {"{\"body\":{\"custom_id\":\"no\",\"seed\":-9223372036854775809},\"custom_id\":\"\\u0061\\\"\"}",
         "invalid_request: method: found nothing, expected POST id=\"a\\\"\""},
        {"{\"prompt\":1,\"prompt\":2 , \"custom\\u005fid\" : \"a\" }",
         "invalid_json_line: JSON, byte 20: the key 'prompt' stands twice in one object id=\"a\""},
        {"{\"x\":[{\"a\":\"]}\\\"\"}],\"custom_id\":\"a\",\"custom_id\":\"b\"}",
         "invalid_json_line: JSON, byte 47: the key 'custom_id' stands twice in one object id=\"b\""},
        {"{\"custom_id\":\"a\",\"prompt\":\"x\",}",
         "invalid_json_line: JSON, byte 31: found '}', expected a key in quotes id=\"a\""},
        {"{\"custom_id\":\"\xff\",\"seed\":1e400}",
         "invalid_request: seed: inf is out of range, expected -9.223372037e+18 to 9.223372037e+18 id=\"\xef\xbf\xbd\""},
        {"{\"custom_id\":-7.5,\"seed\":1e400}", "invalid_request: custom_id: found a number, expected a string id=\"-7.5\""},
        {"{\"custom_id\":\"a", "invalid_json_line: JSON, byte 16: found the end, expected a quote that ends the string"},
        {"[\"custom_id\",1e400]", "invalid_request: the line: found a list, expected an object"},
    };
    TR_ROWS(rows);
    str deep = {0};
    str_put(&deep, "{\"custom_id\":\"a\",\"user\":");
    for (int i = 0; i < 1001; i++) str_put(&deep, "[");
    for (int i = 0; i < 1001; i++) str_put(&deep, "]");
    str_put(&deep, "}");
    tr__read(str_bytes(&deep), true, "invalid_json_line: JSON, byte 1024: more than 1000 levels id=\"a\"");
    str_drop(&deep);
}

/* Every key with a value of every kind and at both ends of its range. */
static void t_req_kinds(void) {
    static const struct {
        char        kind;
        const char *text;
    } values[] = {{'o', "{\"type\":\"text\"}"}, {'l', "[\"x\"]"}, {'s', "\"x\""}, {'w', "1"}, {'r', "0.5"}, {'t', "true"},
                  {'f', "false"}, {'z', "null"}};
    static const struct {
        const char *name, *takes;                     /* the kinds it takes besides null */
    } keys[] = {
        {"prompt", "ls"}, {"messages", ""}, {"input", ""}, {"encoding_format", ""}, {"dimensions", ""},
        {"max_tokens", "w"}, {"max_completion_tokens", "w"}, {"seed", "w"}, {"stop", "ls"}, {"n", "w"},
        {"logprobs", "w"}, {"top_logprobs", ""}, {"logit_bias", ""}, {"ignore_eos", "tf"},
        {"min_tokens", "w"}, {"stop_token_ids", ""}, {"skip_special_tokens", "tf"}, {"priority", "w"}, {"lora", "ls"}, {"response_format", "o"}, {"grammar", "s"}, {"regex", "s"}, {"structured_outputs", ""},
        {"json_schema", "ostf"}, {"guided_json", "ostf"}, {"guided_regex", "s"},
        {"guided_choice", "l"}, {"guided_grammar", "s"}, {"tools", ""}, {"tool_choice", ""}, {"functions", ""},
        {"function_call", ""}, {"parallel_tool_calls", ""}, {"reasoning_effort", ""}, {"chat_template_kwargs", ""},
        {"add_generation_prompt", ""}, {"continue_final_message", ""}, {"modalities", ""}, {"model", "olswrtf"},
        {"user", "olswrtf"}, {"metadata", "olswrtf"}, {"store", "olswrtf"}, {"service_tier", "olswrtf"},
        {"verbosity", "olswrtf"}, {"prompt_cache_key", "olswrtf"}, {"prompt_cache_retention", "olswrtf"},
        {"safety_identifier", "olswrtf"}, {"stream", "f"},
        {"echo", "f"}, {"best_of", "w"},
        /* of the sampler */
        {"temperature", "wr"}, {"top_p", "wr"}, {"top_k", "w"}, {"min_p", "wr"}, {"presence_penalty", "wr"},
        {"frequency_penalty", "wr"},
        {"repetition_penalty", "wr"},
    };
    enum { KEYS = sizeof keys / sizeof *keys };
    size_t own = sizeof req_keys / sizeof *req_keys, more = 0;
    for (int i = 0; i < SAMP_PARAMS; i++) more += samp_params[i].json != NULL;
    EQ_INT(KEYS, own + more);
    for (size_t k = 0; k < KEYS; k++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            char  line[200];
            req   q;
            err_t e = {0};
            if (k < own) EQ_STR(req_keys[k].name, keys[k].name);
            snprintf(line, sizeof line, "{%s\"%s\":%s}", k ? "\"prompt\":\"\"," : "", keys[k].name, values[i].text);
            bool want = values[i].kind == 'z' ? k != 0 : strchr(keys[k].takes, values[i].kind) != NULL;
            bool ok = tr__req(&q, bytes_of(line), true, &e);
            CHECKF(ok == want, "%s: %s", line, ok ? "was taken" : e.text);
            bool named = strstr(e.text, keys[k].name) || strcmp(keys[k].name, "messages") == 0;
            CHECKF(ok || named, "%s: %s", line, e.text);
            req_drop(&q);
        }
}

static bool tr__takes(const char *name, double x) {
    char  line[200];
    req   q;
    err_t e = {0};
    if (strcmp(name, "logit_bias") == 0) snprintf(line, sizeof line, "{\"prompt\":\"\",\"%s\":{\"5\":%.17g}}", name, x);
    else snprintf(line, sizeof line, "{\"prompt\":\"\",\"%s\":%.17g}", name, x);
    bool ok = tr__req(&q, bytes_of(line), true, &e);
    if (!ok)
        CHECKF(strstr(e.text, name) && (strstr(e.text, "out of range") || strstr(e.text, "whole number")), "%s: %s", line,
               e.text);
    else if (strncmp(name, "max", 3) && strcmp(name, "seed"))
        CHECKF(samp_check(&q.ask.samp, TR_VOCAB, &e), "%s: %s", line, e.text);
    req_drop(&q);
    return ok;
}

static void t_req_ranges(void) {
    for (size_t k = 0; k < sizeof req_keys / sizeof *req_keys; k++) {
        const req_key *key = &req_keys[k];
        const double   step = key->take == req__take_float ? 1e-4 : 1, far = 1e300;
        if (key->lo >= key->hi || !(key->where & REQ_COMPLETION)) continue;
        CHECKF(tr__takes(key->name, key->lo), "%s: %g", key->name, key->lo);
        CHECKF(!tr__takes(key->name, -far) && !tr__takes(key->name, far), "%s: %g", key->name, far);
        if (key->hi < 0x1p63) CHECKF(tr__takes(key->name, key->hi), "%s: %g", key->name, key->hi);
        if (key->hi < 1e15) CHECKF(!tr__takes(key->name, key->hi + step), "%s: above %g", key->name, key->hi);
        if (key->lo > -1e15) CHECKF(!tr__takes(key->name, key->lo - step), "%s: below %g", key->name, key->lo);
    }
}

/* --- any bytes, there and back --- */

/* A JSON string of these very bytes, UTF-8 or not: what a line of a batch file may hold. */
static void tr__raw(str *s, bytes b) {
    str_put(s, "\"");
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] < 0x20 || b.p[i] == '"' || b.p[i] == '\\') str_fmt(s, "\\u%04x", b.p[i]);
        else str_add(s, &b.p[i], 1);
    }
    str_put(s, "\"");
}

/* id, prompt and a stop string of one text, as it is in the line; must come back as it is. */
static void tr__there_and_back(bytes text) {
    str   line = {0};
    req   q;
    err_t e = {0};
    if (!text.n) return;                              /* no stop string is empty */
    str_put(&line, "{\"custom_id\":");
    tr__raw(&line, text);
    str_put(&line, ",\"prompt\":");
    tr__raw(&line, text);
    str_put(&line, ",\"stop\":");
    tr__raw(&line, text);
    str_put(&line, "}");
    CHECK(!memchr(line.p, '\n', line.n));
    bool ok = tr__req(&q, str_bytes(&line), true, &e);
    CHECKF(ok && bytes_eq(q.custom_id, text) && bytes_eq(q.prompt[0].text, text) && q.ask.gen.n_stop == 1 &&
           bytes_eq(q.ask.gen.stop[0], text),
           "%zu bytes, %02x %02x ...: %s", text.n, text.p[0], text.n > 1 ? text.p[1] : 0, e.text);
    req_drop(&q);
    str_drop(&line);
}

static void t_req_bytes(void) {
    static const uint8_t near[] = {0xf4, 0x8f, 0xbe, 0xbf, 0xbd, 0x80, 0xc0, 0xff, 'u', 'd', 'b', 'f', '\\', '"', 0, 0xc3,
                                   0xa9, '\n'};
    uint8_t              all[256], two[2], some[40];
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    tr__there_and_back((bytes){all, 256});
    for (int i = 0; i < 256 * 256; i++) {
        two[0] = (uint8_t)(i >> 8), two[1] = (uint8_t)i;
        tr__there_and_back((bytes){two, 2});
    }
    for (uint64_t i = 0; i < 20000; i++) {            /* mostly the bytes of the characters that stand for bytes */
        const size_t n = 1 + rng_at(5, 0, i, 99) % sizeof some;
        for (size_t k = 0; k < n; k++) some[k] = near[rng_at(5, 0, i, k) % sizeof near];
        tr__there_and_back((bytes){some, n});
    }
}

/* The characters that stand for bytes, as themselves and escaped, in lines that are UTF-8 and in lines that are not. */
static void t_req_escape_bytes(void) {
    static const struct {
        const char *prompt, *want;
    } rows[] = {
        {"\xf4\x8f\xbe\x80", "\xf4\x8f\xbe\x80"},
        {"\xf4\x8f\xbe\x80\xff", "\xf4\x8f\xbe\x80\xff"},
        {"\\udbff\\udf80", "\xf4\x8f\xbe\x80"},
        {"\\udbff\\udf80\xff", "\xf4\x8f\xbe\x80\xff"},
        {"\xff\\uDBFF\\uDfFf", "\xff\xf4\x8f\xbf\xbf"},
        {"\xff\\udbff\\udfbf\\udbff\\udfc0", "\xff\xf4\x8f\xbe\xbf\xf4\x8f\xbf\x80"},
        {"\xff\\udbff\\udf7f", "\xff\xf4\x8f\xbd\xbf"},
        {"\xff\\\\udbff\\\\udf80", "\xff\\udbff\\udf80"},
        {"\xff\\\\\\udbff\\udf80", "\xff\\\xf4\x8f\xbe\x80"},
        {"\xff\\\\u0041\\u0041", "\xff\\u0041\x41"},
        {"\xff\\ud83d\\ude00", "\xff\xf0\x9f\x98\x80"},
        {"\xf4\x8f\xbe", "\xf4\x8f\xbe"},
        {"\xed\xa0\x80", "\xed\xa0\x80"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char  line[200];
        req   q;
        err_t e = {0};
        snprintf(line, sizeof line, "{\"prompt\":\"%s\"}", rows[i].prompt);
        CHECKF(tr__req(&q, bytes_of(line), true, &e) && bytes_is(q.prompt[0].text, rows[i].want), "row %zu: %s", i, e.text);
        req_drop(&q);
    }
    for (int c = 0x10ff7e; c <= 0x10ffff; c++) {      /* every one, both ways of writing it */
        char   escaped[64], plain[8] = {0};
        req    q;
        err_t  e = {0};
        plain[0] = (char)0xf4, plain[1] = (char)0x8f, plain[2] = (char)(0x80 | (c >> 6 & 0x3f)),
        plain[3] = (char)(0x80 | (c & 0x3f));
        snprintf(escaped, sizeof escaped, "{\"prompt\":\"\\udbff\\u%04x\",\"user\":\"\xff\"}",
                 (unsigned)(0xdc00 | (c & 0x3ff)));
        CHECKF(tr__req(&q, bytes_of(escaped), true, &e) &&
               bytes_is(q.prompt[0].text, plain), "U+%X: %s", (unsigned)c, e.text);
        req_drop(&q);
        tr__there_and_back(bytes_of(plain));
    }
    tr__read(bytes_of("{\"custom_id\":\"a\xff\",\"k\xfe\":1}"), true,
             "invalid_request: unknown key 'k\xfe' in the body" TR_HINT " id=\"a\xef\xbf\xbd\"");
    tr__read(bytes_of("{\"user\":\"\xff\xff\xff\xff\",}"), true,
             "invalid_json_line: JSON, byte 16: found '}', expected a key in quotes");
}

/* --- bounds --- */

static void tr__repeat(str *s, const char *text, int n) {
    for (int i = 0; i < n; i++) str_put(s, text);
}

static void t_req_bounds(void) {
    static const struct {
        const char *head, *each;
        int         n;
        const char *middle, *back, *tail, *want;
    } rows[] = {
        {"{\"prompt\":\"\",\"user\":", "[", VAL_DEPTH_MAX - 1, "", "]", "}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"user\":", "[", VAL_DEPTH_MAX, "", "]", "}",
         "invalid_json_line: JSON, byte 1020: more than 1000 levels"},
        {"{\"prompt\":\"\",\"user\":", "{\"a\":", VAL_DEPTH_MAX - 1, "1", "}", "}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"user\":", "[", 100000, "", "", "", "invalid_json_line: JSON, byte 1020: more than 1000 levels"},
        {"{\"prompt\":\"\",\"user\":\"", "[", 2000, "", "", "\"}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"user\":\"", "\\\"[{", 2000, "", "", "\"}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"user\":[", "[],", 100000, "[]", "", "]}", "ok prompt=\"\""},
        {"{\"prompt\":\"\",\"user\":[", "[],", 1 << 20, "[]", "", "]}",
         "invalid_json_line: the memory of 88 MiB for values is spent"},
        {"", "]", 1000, "", "", "", "invalid_json_line: JSON, byte 1: found ']', expected a value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str line = {0};
        str_put(&line, rows[i].head);
        tr__repeat(&line, rows[i].each, rows[i].n);
        str_put(&line, rows[i].middle);
        tr__repeat(&line, rows[i].back, rows[i].n);
        str_put(&line, rows[i].tail);
        tr__read(str_bytes(&line), true, rows[i].want);
        str_drop(&line);
    }
}

/* --- records --- */

static const char tr_head[] = "{\"id\":\"batch_req_3_000000000000000000000000deadbeef\",\"custom_id\":", tr_line[] = ",\"line\":3";

/* The record's one line, which is JSON. */
static void tr__record(const str *got, const char *custom_id, const char *want, const char *what) {
    str all = {0};
    str_put(&all, tr_head);
    str_put(&all, custom_id);
    str_put(&all, tr_line);
    str_put(&all, want);
    str_put(&all, "\n");
    CHECKF(got->n == all.n && memcmp(got->p, all.p, all.n) == 0, "%s\n      got  %s      want %s", what, got->p, all.p);
    CHECK(memchr(got->p, '\n', got->n) == got->p + got->n - 1);
    json_t *v = json_loadb(got->p, got->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    CHECKF(v != NULL, "%s: not JSON", what);
    json_decref(v);
    str_drop(&all);
}

#define BAD "\xef\xbf\xbd"
#define TR_BODY(id, object) ",\"response\":{\"status_code\":200,\"request_id\":\"req_3\",\"body\":{\"id\":\"" id "-3\",\"object\":\"" object \
                            "\",\"created\":1700000000,\"model\":\"m\\\"1\",\"system_fingerprint\":\"f\",\"choices\":["
#define TR_USAGE(made, all) "],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":" made ",\"total_tokens\":" all \
                            ",\"prompt_tokens_details\":{\"cached_tokens\":4}}}},\"error\":null}"

static void t_req_prints(void) {
    static const req_origin origin = {.line = 3, .digest = {0, 0xdeadbeef}, .fingerprint = "f", .model_name = "m\"1",
                                      .created = 1700000000, .n_prompt = 9, .n_cached = 4};
    tt_open o;
    if (!tt_open_tiny(&o, &tm_tinies[0], NULL)) return;
    const int32_t ff = 3 + 255, bos = 1;              /* the byte tokens of this vocabulary stand behind three others */
    int32_t       ab = 0;
    while (!bytes_is(tok_piece(o.v, ab), "ab")) ab++;
    CHECK(bytes_is(tok_piece(o.v, ff), "\xff") && tok_is_control(o.v, bos));
    gen_token    tok[] = {{ab, -0.5f, 2}, {ff, -INFINITY, 3}, {bos, -1e-9f, 3}, {ab, -2.25f, 7}};
    int32_t      top_id[] = {ab, ff, ff, ab, bos, -1, ff, ff};
    float        top_lp[] = {-0.5f, -1.5f, -0.25f, -3.0f, -1e-9f, 0, -0.125f, -4.0f};
    char         cut[] = "ab\xff" "a", two[] = "two\nlines", abba[] = "abba";   /* a stop string cut off what came after the first one */
    gen_answer   with[2] = {{.text = {.p = cut, .n = 4}, .finish = GEN_STOP_TEXT, .tok = tok, .n_tok = 4, .top_id = top_id,
                             .top_lp = top_lp},
                            {.text = {.p = two, .n = strlen(two)}, .finish = GEN_LENGTH}};
    const chat_answer said[2] = {{.content = with[0].text}, {.content = with[1].text}};
    const struct {
        const char *what;
        bool        chat, logprobs;
        int         top, n;
        const char *want;
    } rows[] = {
        {"one", false, false, 0, 1,
         TR_BODY("cmpl", "text_completion") "{\"index\":0,\"text\":\"ab" BAD "a\",\"bytes\":\"YWL/YQ==\",\"logprobs\":null,\"finish_reason\":\"stop\"}" TR_USAGE("4", "13")},
        {"two", false, false, 0, 2,
         TR_BODY("cmpl", "text_completion") "{\"index\":0,\"text\":\"ab" BAD "a\",\"bytes\":\"YWL/YQ==\",\"logprobs\":null,\"finish_reason\":\"stop\"},"
         "{\"index\":1,\"text\":\"two\\nlines\",\"logprobs\":null,\"finish_reason\":\"length\"}" TR_USAGE("4", "13")},
        {"tokens alone", false, true, 0, 2,
         TR_BODY("cmpl", "text_completion") "{\"index\":0,\"text\":\"ab" BAD "a\",\"bytes\":\"YWL/YQ==\",\"logprobs\":{\"tokens\":[\"ab\",\"" BAD "\",\"<s>\",\"ab\"],"
         "\"token_logprobs\":[-0.5,-9999,-9.99999972e-10,-2.25],\"top_logprobs\":null,\"text_offset\":[0,2,3,3],\"bytes\":[[97,98],[255],[60,115,62],[97,98]]},\"finish_reason\":\"stop\"},"
         "{\"index\":1,\"text\":\"two\\nlines\",\"logprobs\":{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":null,\"text_offset\":[],\"bytes\":[]},"
         "\"finish_reason\":\"length\"}" TR_USAGE("4", "13")},
        {"two alternatives", false, true, 2, 2,
         TR_BODY("cmpl", "text_completion") "{\"index\":0,\"text\":\"ab" BAD "a\",\"bytes\":\"YWL/YQ==\",\"logprobs\":{\"tokens\":[\"ab\",\"" BAD "\",\"<s>\",\"ab\"],"
         "\"token_logprobs\":[-0.5,-9999,-9.99999972e-10,-2.25],\"top_logprobs\":[{\"ab\":-0.5,\"" BAD "\":-1.5},{\"" BAD "\":-0.25,\"ab\":-3},"
         "{\"<s>\":-9.99999972e-10},{\"" BAD "\":-0.125,\"ab\":-2.25}],\"text_offset\":[0,2,3,3],\"bytes\":[[97,98],[255],[60,115,62],[97,98]]},\"finish_reason\":\"stop\"},"
         "{\"index\":1,\"text\":\"two\\nlines\",\"logprobs\":{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],\"text_offset\":[],\"bytes\":[]},"
         "\"finish_reason\":\"length\"}" TR_USAGE("4", "13")},
        {"chat", true, false, 0, 1,
         TR_BODY("chatcmpl", "chat.completion") "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"ab" BAD "a\",\"refusal\":null},\"bytes\":\"YWL/YQ==\",\"logprobs\":null,"
         "\"finish_reason\":\"stop\"}" TR_USAGE("4", "13")},
        {"chat with alternatives", true, true, 2, 1,
         TR_BODY("chatcmpl", "chat.completion") "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"ab" BAD "a\",\"refusal\":null},\"bytes\":\"YWL/YQ==\",\"logprobs\":{\"content\":["
         "{\"token\":\"ab\",\"logprob\":-0.5,\"bytes\":[97,98],\"top_logprobs\":[{\"token\":\"ab\",\"logprob\":-0.5,\"bytes\":[97,98]},"
         "{\"token\":\"" BAD "\",\"logprob\":-1.5,\"bytes\":[255]}]},"
         "{\"token\":\"" BAD "\",\"logprob\":-9999,\"bytes\":[255],\"top_logprobs\":[{\"token\":\"" BAD "\",\"logprob\":-0.25,\"bytes\":[255]},"
         "{\"token\":\"ab\",\"logprob\":-3,\"bytes\":[97,98]}]},"
         "{\"token\":\"<s>\",\"logprob\":-9.99999972e-10,\"bytes\":[60,115,62],\"top_logprobs\":[{\"token\":\"<s>\",\"logprob\":-9.99999972e-10,"
         "\"bytes\":[60,115,62]}]},"
         "{\"token\":\"ab\",\"logprob\":-2.25,\"bytes\":[97,98],\"top_logprobs\":[{\"token\":\"" BAD "\",\"logprob\":-0.125,\"bytes\":[255]},"
         "{\"token\":\"" BAD "\",\"logprob\":-4,\"bytes\":[255]}]}"
         "],\"refusal\":null},\"finish_reason\":\"stop\"}" TR_USAGE("4", "13")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const req q = {.custom_id = bytes_of("r\"1"), .has_id = true, .chat = rows[i].chat, .n = rows[i].n,
                       .ask = {.n = rows[i].n, .logprobs = rows[i].logprobs, .top = rows[i].top}};
        with[0].top = with[1].top = rows[i].top;
        str       out = {0};
        req_print(&q, with, rows[i].chat ? said : NULL, &origin, o.v, &out);
        tr__record(&out, "\"r\\\"1\"", rows[i].want, rows[i].what);
        str_drop(&out);
    }
    const req q = {.n = 2, .ask = {.n = 2, .logprobs = true}};
    gen_token plain[] = {{ab, -0.5f, 2}, {ab, NAN, 4}};
    with[0] = (gen_answer){.text = {.p = abba, .n = 4}, .finish = GEN_END_TOKEN, .tok = plain, .n_tok = 2};   /* UTF-8: no bytes beside it */
    with[1].top = 0;
    str out = {0};
    req_print(&q, with, NULL, &origin, o.v, &out);
    tr__record(&out, "null",
               TR_BODY("cmpl", "text_completion") "{\"index\":0,\"text\":\"abba\",\"logprobs\":{\"tokens\":[\"ab\",\"ab\"],"
               "\"token_logprobs\":[-0.5,-9999],\"top_logprobs\":null,\"text_offset\":[0,2],\"bytes\":[[97,98],[97,98]]},\"finish_reason\":\"stop\"},"
               "{\"index\":1,\"text\":\"two\\nlines\",\"logprobs\":{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":null,\"text_offset\":[],\"bytes\":[]},"
               "\"finish_reason\":\"length\"}" TR_USAGE("2", "11"), "plain");
    str_drop(&out);
    tt_close(&o);
}

/* What a chat's answer has beside its content. */
static void t_req_prints_parts(void) {
    static const req_origin origin = {.line = 3, .digest = {0, 0xdeadbeef}, .fingerprint = "f", .model_name = "m\"1",
                                      .created = 1700000000, .n_prompt = 9, .n_cached = 4};
    calls_call       calls[] = {{.name = bytes_of("f"), .arguments = bytes_of("{\"a\": 1}"), .id = bytes_of("x")},
                                {.name = bytes_of("g\""), .arguments = bytes_of("{}"), .id = bytes_of("y")}};
    char             content[] = "a,b", thought[] = "Hm\n\xff";
    const str        text = {content, 3, 0}, thinking = {thought, 4, 0};
    const gen_answer a[1] = {{.finish = GEN_END_TOKEN, .n_tok = 4}}, cut[1] = {{.finish = GEN_LENGTH, .n_tok = 4}};
    const char *const first = "{\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}",
               *const second = "{\"id\":\"y\",\"type\":\"function\",\"function\":{\"name\":\"g\\\"\",\"arguments\":\"{}\"}}";
    const struct {
        chat_answer       said;
        const gen_answer *a;
        bool              many;
        const char       *message, *call, *more, *finish;
    } rows[] = {
        {{.content = text}, a, true, "\"a,b\"", "", "", "stop"},
        {{.content = {0}}, a, true, "\"\"", "", "", "stop"},
        {{.content = text, .thinking = thinking}, cut, true, "\"a,b\",\"reasoning_content\":\"Hm\\n" BAD "\"", "", "", "length"},
        {{.calls = {.at = calls, .n = 1}}, a, true, "null", first, "", "tool_calls"},
        {{.content = text, .calls = {.at = calls, .n = 2}}, cut, true, "\"a,b\"", first, second, "length"},
        {{.calls = {.at = calls, .n = 2}}, a, false, "null", first, "", "tool_calls"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const req q = {.chat = true, .n = 1, .n_prompt = 1, .ask = {.n = 1}, .many_calls = rows[i].many};
        str       out = {0}, want = {0};
        req_print(&q, rows[i].a, &rows[i].said, &origin, NULL, &out);
        str_fmt(&want, "%s{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":%s",
                TR_BODY("chatcmpl", "chat.completion"), rows[i].message);
        if (*rows[i].call) str_fmt(&want, ",\"tool_calls\":[%s%s%s]", rows[i].call, *rows[i].more ? "," : "", rows[i].more);
        str_fmt(&want, ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}%s", rows[i].finish,
                TR_USAGE("4", "13"));
        tr__record(&out, "null", want.p, rows[i].finish);
        str_drop(&out);
        str_drop(&want);
    }
}

static void t_req_prints_error(void) {
    static const req_origin origin = {.line = 3, .digest = {0, 0xdeadbeef}};
    const req               nobody = {0}, odd = {.custom_id = bytes_of("\xff"), .has_id = true};
    str                     out = {0};
    req_print_error(&nobody, &origin, req_bad_json, "a \"b\"\n\xff", &out);
    tr__record(&out, "null",
               ",\"response\":null,\"error\":{\"code\":\"invalid_json_line\",\"message\":\"a \\\"b\\\"\\n\xef\xbf\xbd\"}}",
               "no id");
    str_clear(&out);
    req_print_error(&odd, &origin, req_invalid, "m", &out);
    tr__record(&out, "\"" BAD "\"",
               ",\"response\":null,\"error\":{\"code\":\"invalid_request\",\"message\":\"m\"}}", "any id");
    str_clear(&out);
    req_origin of = origin;
    of.file = "a\"b";
    req_print_error(&nobody, &of, req_invalid, "m", &out);
    tr__record(&out, "null",
               ",\"file\":\"a\\\"b\",\"response\":null,\"error\":{\"code\":\"invalid_request\",\"message\":\"m\"}}",
                   "a file");
    str_drop(&out);
}

static const t_case t_req_cases[] = {
    {"req shapes", "envelopes and bare bodies are one request", t_req_shapes},
    {"req keys", "every key of a body lands in its field", t_req_keys},
    {"req base", "what a body does not say stays as the command said it", t_req_base},
    {"req plain", "a line of plain text is its bytes", t_req_plain},
    {"req wrapped", "a line of plain text is the message of a user, where a chat is asked for", t_req_wrapped},
    {"req refuses", "a line that cannot be run says why, and whose it is", t_req_refuses},
    {"req bad json", "what is no JSON is told with its place", t_req_bad_json},
    {"req refused id", "a line that the parser refuses keeps its custom_id", t_req_refused_id},
    {"req kinds", "every key refuses values of every other kind and is named", t_req_kinds},
    {"req constraints", "a body's constraint: its kind, its key, its text", t_req_constraints},
    {"req choices", "a list of prompts has as many choices, times n, up to a bound", t_req_choices},
    {"req ranges", "both ends of a range are in it, what is beyond is not", t_req_ranges},
    {"req bytes", "any bytes in a string come back", t_req_bytes},
    {"req escape", "the characters that stand for bytes stand for themselves too", t_req_escape_bytes},
    {"req bounds", "depth and number of values are bounded before the parser runs", t_req_bounds},
    {"req prints", "records of both shapes, to the byte", t_req_prints},
    {"req prints parts", "thinking and calls of a chat's answer", t_req_prints_parts},
    {"req prints error", "the record of a line that failed", t_req_prints_error},
};
static const t_suite t_req_suite = SUITE(t_req_cases);
