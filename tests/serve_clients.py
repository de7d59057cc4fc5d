"""The server as clients see it: openai, anthropic, litellm and langchain-openai, as PyPI has them, against ./llmrun --serve.
    python3 tests/serve_clients.py ./llmrun [WORD ...]
    python3 tests/serve_clients.py ./llmrun --install build/clients     installs them into a virtual environment first (make serve-clients)
A case whose package is missing is skipped."""
import importlib, json, os, re, subprocess, sys, threading, warnings

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = ["openai", "anthropic", "litellm", "langchain-openai"]

sys.path.insert(0, os.path.join(HERE, "tests"))
import kit
if "--install" in sys.argv:
    kit.install(PACKAGES)
import script
from kit import Skip, SLOW, begin, case, check, same

ARGS = kit.arguments("llmrun")
BIN = os.path.abspath(ARGS.llmrun)
TMP, tmp, put = kit.scratch("clients")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
ENCODER = os.path.join(HERE, "tests", "data", "encoders", "bert.gguf")
ASK = [{"role": "user", "content": "Hi"}]
KEY = "a key of tests"
for name in [n for n in os.environ if n.startswith(("OPENAI_", "ANTHROPIC_")) or n.lower().endswith("_proxy")]:
    del os.environ[name]

# What the model says: the last token of the prompt chooses. With tools it calls one, after a result it answers.
SAYS = [["<|assistant|>", "<think>", "\nHm", ", hm", ".\n", "</think>", "\n\n", "Hello", " \u00e9", " you", "!", "<|end|>"],
        ["<|calls|>", "I look", ". ", "<tool_call>", "\n", '{"name": "weather"', ', "arguments": {"place": "', "Ulm", '"}}', "\n</tool_call>", "<|end|>"],
        ["<|result|>", "It is", " dry", ".", "<|end|>"], ['{"name": "', "weather", '", "arguments": ', '{"place": "Ulm"}', "}", "\n</tool_call>"]]
TEMPLATE = ("{%- for m in messages %}<|{{ m.role }}|>{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content or '' }}"
            "{%- for c in m.tool_calls or [] %}<tool_call>\n{{ (c.function or c) | tojson }}\n</tool_call>{% endfor %}<|end|>"
            "{%- endfor %}{% if tools %}<|system|>{{ tools | tojson }}<|end|>{% endif %}"
            "{%- if add_generation_prompt %}{% if messages[-1].role == 'tool' %}<|result|>{% elif tools %}<|calls|>{% else %}<|assistant|>{% endif %}{% endif %}")
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a place", "parameters": PLACE}}
FLAT = {"type": "function", "name": "weather", "description": "The weather of a place", "parameters": PLACE, "strict": True}
OWN = {"name": "weather", "description": "The weather of a place", "input_schema": PLACE}
THOUGHT, SAID = "Hm, hm.", "Hello \u00e9 you!"


class Server:
    """A server, started when it is first asked for."""
    running = {}

    def __init__(self, model, *args):
        self.p = begin([BIN, "-m", model, "--serve", "0", "--temp", "0", *args])
        for line in self.p.stderr:
            found = re.match(rb"llmrun: listening on http://127.0.0.1:(\d+)", line)
            if found:
                break
        else:
            raise AssertionError("the server ended")
        self.url = "http://127.0.0.1:%d" % int(found.group(1))
        threading.Thread(target=self.p.stderr.read, daemon=True).start()

    @classmethod
    def of(cls, kind):
        if kind not in cls.running:
            talker = lambda: script.write(tmp("talker.gguf"), SAYS, TEMPLATE, control=[*script.CONTROL, "<|calls|>", "<|result|>"], context=4096)
            cls.running[kind] = {"talker": lambda: cls(talker()), "pip": lambda: cls(PIP), "encoder": lambda: cls(ENCODER),
                                 "locked": lambda: cls(PIP, "--api-key", KEY)}[kind]()
        return cls.running[kind]

    @classmethod
    def stop(cls):
        for server in cls.running.values():
            server.p.terminate()
        for kind, server in cls.running.items():
            same(server.p.wait(30 * SLOW), 0, "the exit code of " + kind)


def package(name):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"   # litellm looks for prices on the network
    warnings.simplefilter("ignore")
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Skip("no package %s" % name)


def openai(kind="talker", **kw):
    return package("openai").OpenAI(base_url=Server.of(kind).url + "/v1", **{"api_key": "none", "max_retries": 0, **kw})


def anthropic(kind="talker", **kw):
    return package("anthropic").Anthropic(base_url=Server.of(kind).url, **{"api_key": "none", "max_retries": 0, **kw})


def raises(kind, call, *words):
    """The call fails with this class, and all words are in its text."""
    try:
        call()
    except kind as e:
        check(all(w in str(e) for w in words), "want %r in %s" % (words, e))
        return e
    raise AssertionError("no %s" % kind.__name__)


# --- openai ---

@case
def openai_models():
    """the list of models and each of them; another is a 404"""
    c, o = openai(), package("openai")
    names = [m.id for m in c.models.list()]
    same(names, ["talker.gguf"], "names")
    same(c.models.retrieve(names[0]).id, names[0], "retrieved")
    same(raises(o.NotFoundError, lambda: c.models.retrieve("none")).code, "model_not_found", "another")


@case
def openai_chat():
    """an answer with thinking, whole and streamed, is the same; the usage comes where it was asked for"""
    c = openai()
    whole = c.chat.completions.create(model="m", messages=ASK)
    m = whole.choices[0].message
    same((m.content, m.reasoning_content, whole.choices[0].finish_reason), (SAID, THOUGHT, "stop"), "whole")
    for usage in False, True:
        kw = {"stream_options": {"include_usage": True}} if usage else {}
        chunks = list(c.chat.completions.create(model="m", messages=ASK, stream=True, **kw))
        deltas = [ch.choices[0].delta for ch in chunks if ch.choices]
        same("".join(d.content or "" for d in deltas), SAID, "content")
        same("".join(getattr(d, "reasoning_content", None) or "" for d in deltas), THOUGHT, "thinking")
        same([d.role for d in deltas if d.role], ["assistant"], "roles")
        same([ch.choices[0].finish_reason for ch in chunks if ch.choices and ch.choices[0].finish_reason], ["stop"], "ends")
        same([len(ch.choices) for ch in chunks].count(0), int(usage), "chunks without a choice")
        if usage:
            same(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens, "tokens")


@case
def openai_tools():
    """a call and its result, whole, streamed and through the accumulator of the client"""
    c = openai()
    whole = c.chat.completions.create(model="m", messages=ASK, tools=[TOOL])
    call = whole.choices[0].message.tool_calls[0]
    same((call.function.name, json.loads(call.function.arguments), whole.choices[0].finish_reason), ("weather", {"place": "Ulm"}, "tool_calls"), "whole")
    pieces = [d.tool_calls[0] for d in (ch.choices[0].delta for ch in c.chat.completions.create(model="m", messages=ASK, tools=[TOOL], stream=True)) if d.tool_calls]
    same([(p.index, bool(p.id), p.function.name) for p in pieces], [(0, i == 0, None if i else "weather") for i in range(len(pieces))], "pieces")
    same("".join(p.function.arguments for p in pieces), call.function.arguments, "arguments")
    with c.chat.completions.stream(model="m", messages=ASK, tools=[TOOL]) as s:
        for _ in s:
            pass
        final = s.get_final_completion().choices[0]
    same((final.message.content, final.message.tool_calls[0].function.arguments, final.finish_reason), ("I look. ", call.function.arguments, "tool_calls"), "accumulated")
    after = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}, {"role": "tool", "tool_call_id": call.id, "content": "dry"}]
    same(c.chat.completions.create(model="m", messages=after, tools=[TOOL]).choices[0].message.content, "It is dry.", "after the result")
    forced = c.chat.completions.create(model="m", messages=ASK, tools=[TOOL], tool_choice={"type": "function", "function": {"name": "weather"}})
    same(json.loads(forced.choices[0].message.tool_calls[0].function.arguments), {"place": "Ulm"}, "forced")


@case
def openai_more_of_chat():
    """several answers, logprobs, stop texts, a schema that the client parses"""
    c = openai("pip")
    two = c.chat.completions.create(model="m", messages=ASK, n=2, seed=1, temperature=1, max_tokens=8, logprobs=True, top_logprobs=2)
    same([ch.index for ch in two.choices], [0, 1], "choices")
    for i in 0, 1:
        chunks = c.chat.completions.create(model="m", messages=ASK, n=2, seed=1, temperature=1, max_tokens=8, logprobs=True, top_logprobs=2, stream=True)
        mine = [ch.choices[0] for ch in chunks if ch.choices[0].index == i]
        same("".join(m.delta.content or "" for m in mine), two.choices[i].message.content, "choice %d" % i)
        got = [t.model_dump() for m in mine if m.logprobs for t in m.logprobs.content]
        same(got, [t.model_dump() for t in two.choices[i].logprobs.content], "logprobs of choice %d" % i)
    text = c.chat.completions.create(model="m", messages=ASK, max_tokens=20).choices[0].message.content
    word = text.split()[1]
    stopped = c.chat.completions.create(model="m", messages=ASK, max_tokens=20, stop=[word]).choices[0]
    same((stopped.message.content, stopped.finish_reason), (text[:text.index(word)], "stop"), "stopped")
    pydantic = package("pydantic")
    form = pydantic.create_model("Form", name=(str, ...), n=(int, ...))
    parsed = c.chat.completions.parse(model="m", messages=ASK, response_format=form, max_tokens=200).choices[0].message.parsed
    check(isinstance(parsed, form), "%r" % parsed)


@case
def openai_completions():
    """a text that goes on, whole and streamed; several prompts; logprobs of the older form"""
    c = openai("pip")
    kw = dict(model="m", prompt="Once upon a time", max_tokens=12, logprobs=1)
    whole = c.completions.create(**kw)
    chunks = list(c.completions.create(**kw, stream=True))
    same("".join(ch.choices[0].text for ch in chunks), whole.choices[0].text, "text")
    joined = [t for ch in chunks if ch.choices[0].logprobs for t in ch.choices[0].logprobs.tokens]
    same(joined, whole.choices[0].logprobs.tokens, "tokens")
    same([ch.index for ch in c.completions.create(model="m", prompt=["a", "b"], max_tokens=2).choices], [0, 1], "prompts")


@case
def openai_embeddings():
    """vectors as floats and, as the client asks by itself, in base64; token ids beyond the vocabulary are refused"""
    c, o = openai("encoder"), package("openai")
    own = c.embeddings.create(model="m", input=["a text", "another"])
    floats = c.embeddings.create(model="m", input=["a text", "another"], encoding_format="float")
    same([len(d.embedding) for d in own.data], [len(d.embedding) for d in floats.data], "width")
    check(all(abs(x - y) < 1e-6 for a, b in zip(own.data, floats.data) for x, y in zip(a.embedding, b.embedding)), "base64 is the floats")
    raises(o.BadRequestError, lambda: c.embeddings.create(model="m", input=[[99999999]]), "check_embedding_ctx_length")


@case
def openai_errors():
    """each error has its class, its code and its parameter"""
    c, o = openai("pip"), package("openai")
    e = raises(o.BadRequestError, lambda: c.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 2000}]))
    same(e.code, "context_length_exceeded", "code")
    e = raises(o.BadRequestError, lambda: c.chat.completions.create(model="m", messages=ASK, max_tokens=-5))
    same((e.param, e.type), ("max_tokens", "invalid_request_error"), "parameter")
    raises(o.BadRequestError, lambda: c.chat.completions.create(model="m", messages=ASK, extra_body={"frob": 1}), "frob")
    raises(o.AuthenticationError, lambda: openai("locked").models.list())
    same(len(list(openai("locked", api_key=KEY).models.list())), 1, "with the key")


# --- Responses ---

@case
def responses_text():
    """a response, whole, as events and through the accumulator; what is kept on servers is refused"""
    c, o = openai(), package("openai")
    whole = c.responses.create(model="m", input="Hi", instructions="Be short.", store=False)
    same((whole.output_text, [i.type for i in whole.output], whole.status), (SAID, ["reasoning", "message"], "completed"), "whole")
    kinds = [e.type for e in c.responses.create(model="m", input="Hi", stream=True)]
    same((kinds[0], kinds[1], kinds[-1]), ("response.created", "response.in_progress", "response.completed"), "events")
    with c.responses.stream(model="m", input="Hi") as s:
        for _ in s:
            pass
        final = s.get_final_response()
    same((final.output_text, final.usage.output_tokens), (SAID, whole.usage.output_tokens), "accumulated")
    raises(o.BadRequestError, lambda: c.responses.create(model="m", input="Hi", previous_response_id="resp_1"), "previous_response_id")
    raises(o.BadRequestError, lambda: c.responses.create(model="m", input="Hi", store=True), "store")
    short = c.responses.create(model="m", input="Hi", max_output_tokens=3)
    same((short.status, short.incomplete_details.reason), ("incomplete", "max_output_tokens"), "cut")
    e = raises(o.BadRequestError, lambda: c.responses.create(model="m", input="word " * 9000))
    same(e.code, "context_length_exceeded", "code")


@case
def responses_tools():
    """a call and its result; foreign tools are left out"""
    c = openai()
    tools = [FLAT, {"type": "web_search"}, {"type": "custom", "name": "apply_patch"}]
    whole = c.responses.create(model="m", input="Hi", tools=tools)
    call = next(i for i in whole.output if i.type == "function_call")
    same((call.name, json.loads(call.arguments)), ("weather", {"place": "Ulm"}), "whole")
    with c.responses.stream(model="m", input="Hi", tools=[FLAT]) as s:
        deltas = [e.delta for e in s if e.type == "response.function_call_arguments.delta"]
        final = s.get_final_response()
    same("".join(deltas), next(i for i in final.output if i.type == "function_call").arguments, "pieces")
    items = [{"role": "user", "content": "Hi"}, *[i.model_dump(exclude_none=True) for i in whole.output], {"type": "function_call_output", "call_id": call.call_id, "output": "dry"}]
    same(c.responses.create(model="m", input=items, tools=tools).output_text, "It is dry.", "after the result")


@case
def responses_schema():
    """a schema that the client parses"""
    pydantic = package("pydantic")
    form = pydantic.create_model("Form", name=(str, ...), n=(int, ...))
    r = openai("pip").responses.parse(model="m", input="Hi", text_format=form, max_output_tokens=200)
    check(isinstance(r.output_parsed, form), "%r" % r.output_parsed)


# --- anthropic ---

@case
def messages_text():
    """a message with thinking, whole and through the accumulator; stop texts, the bound, tokens counted"""
    c = anthropic()
    kw = dict(model="m", max_tokens=100, messages=ASK, system=[{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}])
    whole = c.messages.create(**kw)
    same([(b.type, getattr(b, "text", None) or b.thinking) for b in whole.content], [("thinking", THOUGHT), ("text", SAID)], "whole")
    same(whole.stop_reason, "end_turn", "reason")
    with c.messages.stream(**kw) as s:
        text = "".join(s.text_stream)
        final = s.get_final_message()
    same((text, final.content[0].thinking, final.usage.output_tokens, final.stop_reason), (SAID, THOUGHT, whole.usage.output_tokens, "end_turn"), "accumulated")
    same(c.messages.create(**{**kw, "max_tokens": 3}).stop_reason, "max_tokens", "cut")
    stopped = c.messages.create(**kw, stop_sequences=[" you"])
    same((stopped.stop_reason, stopped.stop_sequence, stopped.content[-1].text), ("stop_sequence", " you", "Hello \u00e9"), "stopped")
    n = c.messages.count_tokens(model="m", messages=ASK, system="Be short.").input_tokens
    check(0 < n < 100, "%d tokens" % n)


@case
def messages_tools():
    """a call and its result, streamed and whole"""
    c = anthropic()
    kw = dict(model="m", max_tokens=100, tools=[OWN, {"type": "web_search_20250305", "name": "web_search"}])
    whole = c.messages.create(messages=ASK, **kw)
    call = whole.content[-1]
    same((whole.stop_reason, call.type, call.name, call.input), ("tool_use", "tool_use", "weather", {"place": "Ulm"}), "whole")
    with c.messages.stream(messages=ASK, **kw) as s:
        pieces = [e.delta.partial_json for e in s if e.type == "content_block_delta" and e.delta.type == "input_json_delta"]
        final = s.get_final_message()
    same((json.loads("".join(pieces)), final.content[-1].input), (call.input, call.input), "streamed")
    after = [*ASK, {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in whole.content]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "dry"}]}]}]
    same(c.messages.create(messages=after, **kw).content[-1].text, "It is dry.", "after the result")
    same(c.messages.create(messages=ASK, tool_choice={"type": "any"}, **kw).content[-1].input, {"place": "Ulm"}, "forced")


@case
def messages_errors():
    """errors have Anthropic's shape"""
    c, a = anthropic("pip"), package("anthropic")
    e = raises(a.BadRequestError, lambda: c.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "word " * 2000}]))
    same(e.body["error"]["type"], "invalid_request_error", "type")
    raises(a.AuthenticationError, lambda: anthropic("locked").messages.create(model="m", max_tokens=5, messages=ASK), "authentication_error")
    same(anthropic("locked", api_key=KEY).messages.create(model="m", max_tokens=1, messages=ASK).role, "assistant", "with x-api-key")
    same(anthropic("locked", api_key=None, auth_token=KEY).messages.create(model="m", max_tokens=1, messages=ASK).role, "assistant", "with a bearer")


@case
def coding_agents():
    """the recorded requests of Codex and Claude Code are answered, whole and as they are"""
    import urllib.request
    url = Server.of("talker").url
    for name, path in (("codex", "/v1/responses"), ("codex_turn", "/v1/responses"), ("claude_code", "/v1/messages?beta=true"), ("claude_code_turn", "/v1/messages?beta=true"),
                       ("claude_code_title", "/v1/messages?beta=true"), ("claude_code_count", "/v1/messages/count_tokens?beta=true"), ("openwebui", "/chat/completions"),
                       ("continue_gpt5", "/v1/responses"), ("continue_fim", "/v1/completions"), ("langchain_tools", "/v1/chat/completions")):
        with open(os.path.join(HERE, "tests", "data", "serve", name + ".json"), encoding="utf-8") as f:
            body = json.load(f)
        for stream in {False, bool(body.get("stream"))}:
            body["stream"] = stream
            if "count" in name:
                del body["stream"]
            ask = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json", "anthropic-beta": "x", "User-Agent": "test"})
            with urllib.request.urlopen(ask) as r:
                text = r.read().decode()
            last = [line for line in text.split("\n") if line][-1]
            check(("[DONE]" in last or "message_stop" in last or "response.completed" in last or "response.incomplete" in last) if stream else json.loads(text),
                  "%s: %s" % (name, last[:200]))


# --- others ---

@case
def litellm_calls():
    """litellm as OpenAI's and as Anthropic's client: text, stream, tools"""
    lite = package("litellm")
    lite.suppress_debug_info = True
    url = Server.of("talker").url
    for kw in dict(model="openai/m", api_base=url + "/v1", api_key="none"), dict(model="anthropic/m", api_base=url, api_key="none", max_tokens=100):
        r = lite.completion(messages=ASK, **kw)
        same((r.choices[0].message.content, r.choices[0].message.reasoning_content), (SAID, THOUGHT), kw["model"])
        text = "".join(ch.choices[0].delta.content or "" for ch in lite.completion(messages=ASK, stream=True, stream_options={"include_usage": True}, **kw) if ch.choices)
        same(text, SAID, kw["model"] + " streamed")
        r = lite.completion(messages=ASK, tools=[TOOL], **kw)
        same(json.loads(r.choices[0].message.tool_calls[0].function.arguments), {"place": "Ulm"}, kw["model"] + " calls")


@case
def langchain_calls():
    """langchain-openai: text, stream, tools, structured output, Responses, embeddings"""
    lang = package("langchain_openai")
    made = lambda kind, **kw: lang.ChatOpenAI(model="m", base_url=Server.of(kind).url + "/v1", api_key="none", max_retries=0, **kw)
    chat = made("talker")
    same(chat.invoke("Hi").content, SAID, "text")
    same("".join(c.content for c in chat.stream("Hi")), SAID, "stream")
    same([(t["name"], t["args"]) for t in chat.bind_tools([TOOL]).invoke("Hi").tool_calls], [("weather", {"place": "Ulm"})], "calls")
    whole = None
    for c in chat.bind_tools([TOOL]).stream("Hi"):
        whole = c if whole is None else whole + c
    same([(t["name"], t["args"]) for t in whole.tool_calls], [("weather", {"place": "Ulm"})], "calls of a stream")
    form = made("pip", max_tokens=200).with_structured_output({"title": "Form", "description": "d", **PLACE}, method="json_schema")
    check(isinstance(form.invoke("Hi")["place"], str), "structured")
    same(made("talker", use_responses_api=True).invoke("Hi").text, SAID, "Responses")
    vectors = lambda check_: lang.OpenAIEmbeddings(model="m", base_url=Server.of("encoder").url + "/v1", api_key="none", max_retries=0, check_embedding_ctx_length=check_)
    same(len(vectors(False).embed_documents(["a", "b"])), 2, "vectors")


if __name__ == "__main__":
    try:
        code = kit.walk("serve_clients", ARGS.words, TMP, Server.stop)
    finally:
        for server in Server.running.values():
            if server.p.poll() is None:
                server.p.kill()
    sys.exit(code)
