"""The server: every endpoint, streams, errors, clients that leave or are slow, and that a request has the text of the same line in a batch.
    python3 tests/serve.py ./llmrun [WORD ...]"""
import atexit, base64, http.client, json, os, queue, random, re, shutil, signal, socket, struct, subprocess, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kit
import script
from kit import SLOW, Skip, begin, case, check, finish, records, same, short

ARGS = kit.arguments("llmrun")
BIN, HERE = os.path.abspath(ARGS.llmrun), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TMP, tmp, put = kit.scratch("serve")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
LLAMA = os.path.join(HERE, "tests", "data", "tiny", "llama.gguf")
ENCODERS = os.path.join(HERE, "tests", "data", "encoders")
USER = [{"role": "user", "content": "Who are you?"}]


RUNNING = set()                                         # servers that are killed when the suite ends before they do
atexit.register(lambda: [p.kill() for p in RUNNING if p.poll() is None])


class Server:
    """A server on a free port, and what it writes to stderr."""

    def __init__(self, model, *args, where="0", env=None):
        self.p = begin([BIN, "-m", model, "--serve", where, *args], env=dict(kit.ENV, **(env or {})))
        RUNNING.add(self.p)
        self.lines, self.port = [], None
        said = queue.Queue()
        self.reader = threading.Thread(target=self.read, args=(said,), daemon=True)
        self.reader.start()
        while self.port is None:
            try:
                line = said.get(timeout=60 * SLOW)
            except queue.Empty:
                self.p.kill()
                raise AssertionError("no address: %r" % self.lines)
            check(line is not None, "the server ended: %r" % self.lines)
            m = re.match(r"llmrun: listening on (?:http://.*:(\d+)|unix:(.*))$", line)
            if m:
                self.port = int(m.group(1) or 0)

    def read(self, said):
        for line in self.p.stderr:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
            said.put(self.lines[-1])
        said.put(None)

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            rc = self.p.wait(timeout=60 * SLOW)
        except subprocess.TimeoutExpired:
            self.p.kill()
            raise
        self.reader.join(5)
        for f in (self.p.stdout, self.p.stderr):
            f.close()
        check(kind or rc == 0, "exit %r: %r" % (rc, self.lines[-3:]))

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60 * SLOW)

    def send(self, path, body=None, method=None, headers=None, c=None):
        """(status, header, body) of one request; the body parsed where it is JSON."""
        own = c or self.connect()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own.request(method or ("GET" if body is None else "POST"), path, data,
                    {**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})})
        r = own.getresponse()
        text = r.read()
        if not c:
            own.close()
        return r.status, r.headers, text if not (r.headers["Content-Type"] or "").startswith("application/json") else json.loads(text) if text else None

    def ok(self, path, body=None, **kw):
        status, _, answer = self.send(path, body, **kw)
        check(status == 200, "%s: %r %s" % (path, status, short(answer)))
        return answer

    def events(self, path, body, **kw):
        """The events of a stream: (name or None, data as text); comments have the name ':'."""
        c = self.connect()
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **kw})
        r = c.getresponse()
        text = r.read()
        c.close()
        check(r.status == 200 and r.headers["Content-Type"].startswith("text/event-stream"), "%s: %d %r" % (path, r.status, text[:400]))
        return parse(text)

    def metric(self, name):
        return float(re.search(r"^llmrun_%s (\S+)$" % re.escape(name), self.ok("/metrics").decode(), re.M).group(1))

    def until(self, ok, what):
        end = time.time() + 120 * SLOW
        while not ok():
            check(time.time() < end, "not within 120 s: " + what)
            time.sleep(0.01)


def parse(text):
    found = []
    for event in text.decode("utf-8").split("\n\n"):     # a cut character would not decode
        name, data = None, []
        for line in event.split("\n"):
            if line.startswith(":"):
                name = ":"
            elif line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
        if name or data:
            found.append((name, "\n".join(data)))
    return found


def chunks(events):
    check(events[-1] == (None, "[DONE]"), "the end of a stream: %r" % (events[-1],))
    return [json.loads(data) for name, data in events[:-1] if name != ":"]


def joined(stream, chat):
    """The choices of an answer that came in chunks, in the shape of one that came whole."""
    choices = {}
    for chunk in stream:
        for c in chunk["choices"]:
            to = choices.setdefault(c["index"], {"text": "", "finish": None, "logprobs": [], "calls": {}, "thinking": ""})
            check(to["finish"] is None, "a chunk after the last one")
            delta = c["delta"] if chat else c
            to["text"] += delta.get("content") or "" if chat else delta["text"]
            to["thinking"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or []:
                if "id" in call:
                    check(call["index"] not in to["calls"] and call["type"] == "function", "a call begins twice")
                    to["calls"][call["index"]] = {"id": call["id"], "name": call["function"]["name"], "arguments": ""}
                to["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
            if c["logprobs"]:
                to["logprobs"] += c["logprobs"]["content"] if chat else list(zip(c["logprobs"]["tokens"], c["logprobs"]["token_logprobs"]))
            to["finish"] = c["finish_reason"]
    return [choices[i] for i in sorted(choices)]


def whole(choices, chat):
    """The same of an answer that came whole."""
    out = []
    for c in choices:
        m = c["message"] if chat else {}
        lp = c["logprobs"]
        out.append({"text": (m["content"] or "") if chat else c["text"], "finish": c["finish_reason"], "thinking": m.get("reasoning_content", ""),
                    "calls": {i: {"id": t["id"], **t["function"]} for i, t in enumerate(m.get("tool_calls", []))},
                    "logprobs": [] if not lp else lp["content"] if chat else list(zip(lp["tokens"], lp["token_logprobs"]))})
    return out


# --- endpoints ---

@case
def endpoints():
    """each endpoint answers in its shape, with and without /v1, and to HEAD where it answers GET"""
    with Server(PIP, "--temp", "0") as s:
        for path in "/health", "/v1/health":
            same(s.ok(path), {"status": "ok"}, path)
        models = s.ok("/v1/models")
        same(models, s.ok("/models"), "without /v1")
        one = models["data"][0]
        same((models["object"], one["id"], one["object"], one["max_model_len"], one["meta"]["n_vocab"]), ("list", "pip-q4_k_m.gguf", "model", 512, 3072), "models")
        same(s.ok("/v1/models/pip-q4_k_m.gguf"), one, "one model")
        same((s.send("/v1/models/other")[0], s.send("/v1/models/other")[2]["error"]["code"]), (404, "model_not_found"), "another model")
        chat = s.ok("/v1/chat/completions", {"messages": USER, "max_tokens": 20})
        same((chat["object"], chat["model"], chat["choices"][0]["message"]["content"]), ("chat.completion", "pip-q4_k_m.gguf", "I am Pip, a small model made for llmrun."), "chat")
        same(chat["choices"], s.ok("/chat/completions", {"messages": USER, "max_tokens": 20, "model": "gpt-4"})["choices"], "without /v1")
        text = s.ok("/v1/completions", {"prompt": ["Once", "Two"], "max_tokens": 3, "n": 2})
        same((text["object"], [c["index"] for c in text["choices"]]), ("text_completion", [0, 1, 2, 3]), "completions")
        message = s.ok("/v1/messages?beta=true", {"max_tokens": 20, "messages": USER})
        same((message["type"], message["role"], message["content"], message["stop_reason"]),
             ("message", "assistant", [{"type": "text", "text": chat["choices"][0]["message"]["content"]}], "end_turn"), "messages")
        count = s.ok("/v1/messages/count_tokens", {"messages": USER})["input_tokens"]
        same(count, chat["usage"]["prompt_tokens"], "count_tokens")
        response = s.ok("/v1/responses", {"input": "Who are you?"})
        same((response["object"], response["status"], response["output"][0]["content"][0]["text"]),
             ("response", "completed", chat["choices"][0]["message"]["content"]), "responses")
        ids = s.ok("/tokenize", {"content": "Hello there"})["tokens"]
        same(s.ok("/detokenize", {"tokens": ids})["content"], "Hello there", "tokens and back")
        pieces = s.ok("/tokenize", {"content": "Hello there", "with_pieces": True})["tokens"]
        same(([p["id"] for p in pieces], "".join(p["piece"] for p in pieces)), (ids, "Hello there"), "pieces")
        prompt = s.ok("/apply-template", {"messages": USER})["prompt"]
        same(prompt, "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n", "apply-template")
        same(len(s.ok("/tokenize", {"content": prompt, "add_special": True})["tokens"]), count, "tokens of the prompt")
        vector = s.ok("/v1/embeddings", {"input": "hello", "encoding_format": "base64"})["data"][0]["embedding"]
        same(len(base64.b64decode(vector)), 4 * one["meta"]["n_embd"], "a vector")
        status, headers, body = s.send("/v1/models", method="HEAD")
        same((status, body, int(headers["Content-Length"]) > 50), (200, None, True), "HEAD")
        status, headers, page = s.send("/")
        check(status == 200 and headers["Content-Type"].startswith("text/html") and "default-src 'none'" in headers["Content-Security-Policy"] and b"<script" in page, "the page")
        text = s.ok("/metrics").decode()
        for line in text.splitlines():
            check(re.fullmatch(r"# (HELP|TYPE) llmrun_\S+ .*|llmrun_[a-z_]+(\{[a-z]+=\"[^\"]+\"\})? \S+", line), "a line of figures: %r" % line)
        check(s.metric("generated_tokens_total") > 20 and s.metric("time_to_first_token_seconds_count") >= 5, text)


@case
def alias():
    """--alias is the model's name in every answer; unknown names of models are taken"""
    with Server(PIP, "--alias", "gpt-5") as s:
        same(s.ok("/v1/models")["data"][0]["id"], "gpt-5", "the list")
        for path, body in (("/v1/chat/completions", {"messages": USER}), ("/v1/completions", {"prompt": "a"}), ("/v1/responses", {"input": "Hi"}),
                           ("/v1/messages", {"messages": USER, "max_tokens": 2}), ("/v1/embeddings", {"input": "a"})):
            more = {} if "embed" in path or "messages" in path else {"max_output_tokens" if "responses" in path else "max_tokens": 2}
            same(s.ok(path, {**body, **more, "model": "whatever"})["model"], "gpt-5", path)


@case
def kept_alive():
    """a connection serves request after request, pipelined ones in order"""
    with Server(PIP) as s:
        c = s.connect()
        for i in range(5):
            same(s.send("/health", c=c)[0], 200, "request %d" % i)
            same(s.send("/v1/completions", {"prompt": "a", "max_tokens": 2}, c=c)[0], 200, "request %d" % i)
        c.close()


# --- the same text as in a batch ---

def bodies(n, seed):
    """Requests of many kinds: (path, body)."""
    rng, out = random.Random(seed), []
    texts = ["Once upon a time", "The moon", "Tell me a story.", "A cat", "In the garden", "Two friends"]
    for i in range(n):
        b = {"seed": rng.randrange(1 << 30), "max_tokens": rng.choice([1, 3, 12, 24]), "temperature": rng.choice([0, 0.8, 1.5])}
        chat = rng.random() < 0.5
        start = " ".join(rng.choice(texts) for _ in range(rng.choice([1, 1, 2, 8])))
        b.update({"messages": [{"role": "user", "content": start}]} if chat else {"prompt": start})
        if rng.random() < 0.2:
            b["n"] = rng.randrange(2, 4)
        if rng.random() < 0.3:
            b["stop"] = rng.choice([[" the"], ["a", " and"], "\n"])
        if rng.random() < 0.3:
            b.update({"logprobs": True, "top_logprobs": 2} if chat else {"logprobs": 2})
        kind = rng.random()
        if kind < 0.1:
            b["regex"] = "[a-z ]{3,20}\\."
        elif kind < 0.2:
            b["response_format"] = {"type": "json_object"}
        elif kind < 0.25:
            b["logit_bias"] = {"7": -5}
        out.append(("/v1/chat/completions" if chat else "/v1/completions", b))
    return out


def in_batch(model, requests, *args):
    lines = [{"custom_id": str(i), "method": "POST", "url": path, "body": b} for i, (path, b) in enumerate(requests)]
    r = finish(begin([BIN, "-m", model, "--batch", put("in.jsonl", lines), "-q", *args]), timeout=300)
    check(r.rc in (0, 1), repr(r))
    found = records(r.out)
    return [found[i + 1] for i in range(len(requests))]


def at_once(n, jobs, work):
    """Does the jobs on n threads; the first error is raised."""
    todo, errors = queue.Queue(), []
    for j in jobs:
        todo.put(j)

    def run():
        while not errors:
            try:
                j = todo.get_nowait()
            except queue.Empty:
                return
            try:
                work(j)
            except Exception as e:                       # noqa: the thread's error is raised by the case
                errors.append(e)
    threads = [threading.Thread(target=run) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0] if isinstance(errors[0], (AssertionError, OSError, ValueError, KeyError)) else AssertionError(repr(errors[0]))


def leave(s, path, body):
    """A client that reads the beginning of an answer, or nothing, and goes."""
    data = json.dumps({**body, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW) as c:
        c.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
        if body["seed"] % 2:
            c.recv(100)


@case
def same_text():
    """a request has the text, the logprobs and the end of the same line of a batch: in any order, 1 to 64 at once, streamed and not, beside clients that leave"""
    requests = bodies(40 if kit.sanitized() else 500, 1)
    want = in_batch(PIP, requests)
    rng = random.Random(2)
    with Server(PIP, "-np", "24", "--queue", "1000", "--connections", "200") as s:
        def ask(job):
            i, stream = job
            path, body = requests[i]
            chat = "messages" in body
            if stream == "leave":
                return leave(s, path, body)
            if want[i].error:
                status, _, answer = s.send(path, body)
                return same((status // 100, answer["error"]["message"]), (4, want[i].error["message"]), "request %d" % i)
            expected = whole(want[i].body["choices"], chat)
            if stream:
                got = chunks(s.events(path, {**body, "stream": True, "stream_options": {"include_usage": True}}))
                usage = got[-1]["usage"]
                got = joined(got, chat)
            else:
                answer = s.ok(path, body)
                got, usage = whole(answer["choices"], chat), answer["usage"]
            same(got, expected, "request %d %s" % (i, "streamed" if stream else "whole"))
            same([usage[k] for k in ("prompt_tokens", "completion_tokens")], [want[i].body["usage"][k] for k in ("prompt_tokens", "completion_tokens")], "usage")
        jobs = [(i, rng.random() < 0.5) for i in range(len(requests))]
        rng.shuffle(jobs)
        leaving = [(i, "leave") for i in rng.sample(range(len(requests)), len(requests) // 10)]
        few, some = len(jobs) // 12, len(jobs) // 3
        for n, part in (1, jobs[:few]), (8, jobs[few:some]), (64, jobs[some:] + leaving):
            rng.shuffle(part)
            at_once(n, part, ask)
        s.until(lambda: s.metric("requests_running") == 0 and s.metric("kv_blocks_used") == 0, "all have ended")


@case
def same_text_of_bytes():
    """answers that are no UTF-8: what a stream joins to is the text of the whole answer"""
    requests = [("/v1/completions", {"prompt": "ab%d" % i, "max_tokens": 40, "temperature": 2, "seed": i}) for i in range(8)]
    want = in_batch(LLAMA, requests)
    with Server(LLAMA) as s:
        for i, (path, body) in enumerate(requests):
            got = joined(chunks(s.events(path, {**body, "stream": True})), False)
            same(got[0]["text"], want[i].body["choices"][0]["text"], "request %d" % i)
            same(s.ok(path, body)["choices"], want[i].body["choices"], "request %d, whole" % i)


# --- streams ---

@case
def stream_shape():
    """chunks of a chat: the role first, finish_reason in the last one alone, usage in a chunk of its own and only where it is asked for, no key error"""
    with Server(PIP, "--temp", "0") as s:
        body = {"messages": USER, "max_tokens": 20, "stream": True}
        got = chunks(s.events("/v1/chat/completions", body))
        same(got[0]["choices"][0]["delta"], {"role": "assistant", "content": ""}, "the first chunk")
        same([c["choices"][0]["finish_reason"] for c in got], [None] * (len(got) - 1) + ["stop"], "finish_reason")
        same(got[-1]["choices"][0]["delta"], {}, "the last chunk")
        check(all("usage" not in c and "error" not in c and c["id"] == got[0]["id"] for c in got), "keys of chunks")
        same("".join(c["choices"][0]["delta"].get("content") or "" for c in got), "I am Pip, a small model made for llmrun.", "the text")
        asked = chunks(s.events("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}))
        same((asked[-1]["choices"], asked[-1]["usage"]["total_tokens"]), ([], 24), "usage")
        check(all(c["usage"] is None for c in asked[:-1]), "usage before the end")
        two = joined(chunks(s.events("/v1/completions", {"prompt": ["Once", "A cat"], "n": 2, "seed": 1, "max_tokens": 5, "temperature": 1, "stream": True})), False)
        same(len(two), 4, "choices")
        events = s.events("/v1/messages", {"messages": USER, "max_tokens": 20, "stream": True})
        same([n for n, _ in events if n not in ("content_block_delta", "ping")],
             ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"], "events of messages")
        events = s.events("/v1/responses", {"input": "Who are you?", "stream": True})
        data = [json.loads(d) for _, d in events]
        same([d["sequence_number"] for d in data], list(range(len(data))), "numbers of events")
        same((data[0]["type"], data[-1]["type"], [n for n, _ in events]), ("response.created", "response.completed", [d["type"] for d in data]), "events of responses")


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}


def caller():
    """A model that thinks, answers, and calls a tool where it has one."""
    chains = [["<|assistant|>", "<think>", "\nHm", ".\n", "</think>", "\n\n", "Hello", " you", "!", "<|end|>"],
              ["<|calls|>", "<tool_call>", "\n", '{"name": "weather"', ', "arguments": {"place": "', "Ulm", '"}}', "\n</tool_call>", "<|end|>"]]
    template = ("{%- for m in messages %}<|{{ m.role }}|>{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content or '' }}"
                "{%- for c in m.tool_calls or [] %}<tool_call>\n{{ (c.function or c) | tojson }}\n</tool_call>{% endfor %}<|end|>{%- endfor %}"
                "{% if tools %}<|tool|>{{ tools | tojson }}<|end|>{% endif %}"
                "{%- if add_generation_prompt %}{% if tools %}<|calls|>{% else %}<|assistant|>{% endif %}{% endif %}")
    path = tmp("caller.gguf")
    return path if os.path.exists(path) else script.write(path, chains, template, control=[*script.CONTROL, "<|calls|>"])


@case
def calls_and_thinking():
    """tool calls and thinking in all shapes, streamed and whole; an answer without tools does not depend on one with tools before it"""
    requests = [("/v1/chat/completions", {"messages": USER, "seed": 1}), ("/v1/chat/completions", {"messages": USER, "tools": [TOOL], "seed": 1})]
    want = in_batch(caller(), requests)
    same(want[1].body["choices"][0]["finish_reason"], "tool_calls", "a call in a batch")
    with Server(caller()) as s:
        for _ in range(2):
            for i, (path, body) in enumerate(requests):
                expected = whole(want[i].body["choices"], True)
                got = joined(chunks(s.events(path, {**body, "stream": True})), True)
                for a in (got, whole(s.ok(path, body)["choices"], True)):
                    for c in a + expected:
                        for call in c["calls"].values():
                            call.pop("id", None)
                    same(a, expected, "request %d" % i)
        message = s.ok("/v1/messages", {"messages": USER, "max_tokens": 60, "tools": [{"name": "weather", "input_schema": TOOL["function"]["parameters"]}]})
        same((message["stop_reason"], [b["type"] for b in message["content"]], message["content"][-1]["input"]), ("tool_use", ["tool_use"], {"place": "Ulm"}), "messages")
        thought = s.ok("/v1/messages", {"messages": USER, "max_tokens": 60})
        same([b["type"] for b in thought["content"]], ["thinking", "text"], "thinking in messages")
        response = s.ok("/v1/responses", {"input": "Hi", "tools": [{"type": "function", "name": "weather", "parameters": TOOL["function"]["parameters"]}, {"type": "web_search"}]})
        same([(o["type"], o.get("name"), o.get("arguments")) for o in response["output"]], [("function_call", "weather", '{"place": "Ulm"}')], "responses")
        check(response["usage"]["output_tokens"] > 0, "usage")
        s.until(lambda: any("web_search" in line for line in s.lines), "a note of what is left out")


# --- vectors and scores ---

@case
def vectors():
    """/v1/embeddings gives the vectors of --embed, of an encoder and beside answers of a decoder; ids of another tokenizer and other dimensions are refused"""
    bert = os.path.join(ENCODERS, "bert.gguf")
    for model, args in ((bert, ()), (PIP, ("-ctk", "f16", "-ctv", "f16"))):
        texts = ["hello", "a cat", "hello world " * 5]
        r = finish(begin([BIN, "-m", model, "--embed", "--batch", put("texts.jsonl", [{"input": texts}]), "-q", *args]))
        want = [d["embedding"] for d in records(r.out)[1].body["data"]]
        with Server(model, *args) as s:
            def ask(i):
                if model == PIP and i % 2:
                    return s.ok("/v1/completions", {"prompt": "Once", "max_tokens": 10})
                got = s.ok("/v1/embeddings", {"input": texts})
                same([d["embedding"] for d in got["data"]], want, "vectors")
                same((got["object"], [d["index"] for d in got["data"]], got["usage"]["prompt_tokens"] > 3), ("list", [0, 1, 2], True), "the shape")
            at_once(6, range(12), ask)
            floats = base64.b64decode(s.ok("/v1/embeddings", {"input": texts[0], "encoding_format": "base64"})["data"][0]["embedding"])
            same(list(struct.unpack("<%df" % len(want[0]), floats)), [struct.unpack("<f", struct.pack("<f", x))[0] for x in want[0]], "base64")
            for body, word in (({"input": [99999999]}, "another tokenizer"), ({"input": "a", "dimensions": 3}, "dimensions"), ({"input": "a", "stream": True}, "stream")):
                status, _, answer = s.send("/v1/embeddings", body)
                check(status == 400 and word in answer["error"]["message"], "%r: %d %r" % (body, status, answer))
            if model == bert:
                same(s.send("/v1/chat/completions", {"messages": USER})[0], 501, "answers of an encoder")


@case
def scores():
    """/v1/rerank: documents by their score, best first, top_n of them; the score is that of the pair's tokens"""
    model = os.path.join(ENCODERS, "bert_rank.gguf")
    docs = ["a cat sat", "the sun", "dogs and cats", "a"]
    with Server(model, "--pooling", "rank") as s:
        got = s.ok("/v1/rerank", {"query": "cats", "documents": docs, "return_documents": True})["results"]
        scored = [r["relevance_score"] for r in got]
        same((sorted(r["index"] for r in got), scored), ([0, 1, 2, 3], sorted(scored, reverse=True)), "order")
        check(all(r["document"]["text"] == docs[r["index"]] for r in got), "documents")
        same(s.ok("/rerank", {"query": "cats", "documents": docs, "top_n": 2})["results"], [{k: r[k] for k in ("index", "relevance_score")} for r in got[:2]], "top_n")
        bare = s.ok("/rerank", {"query": "cats", "texts": docs, "return_text": True})
        same(bare, [{"index": r["index"], "score": r["relevance_score"], "text": r["document"]["text"]} for r in got], "as text-embeddings-inference has it")
        ids = [s.ok("/tokenize", {"content": x})["tokens"] for x in ("cats", docs[0])]
        start, end = 0, 2                                # <s> and </s> of this vocabulary
        pair = [start, *ids[0], end, end, *ids[1], end]  # as XLM-RoBERTa reads two texts
        r = finish(begin([BIN, "-m", model, "--embed", "--pooling", "rank", "--batch", put("pair.jsonl", [{"input": pair}]), "-q"]))
        want = records(r.out)[1].body["data"][0]["embedding"][0]
        same(next(x["relevance_score"] for x in got if x["index"] == 0), want, "the score of a pair")
        same(s.send("/v1/embeddings", {"input": "a"})[0], 501, "vectors of a reranker")


# --- files and batches ---

def upload(s, name, data, purpose="batch"):
    mark = b"----llmrun-test"
    body = (b"--" + mark + b"\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose.encode() + b"\r\n--" + mark +
            b"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name.encode() + b"\"\r\nContent-Type: application/jsonl\r\n\r\n" +
            data + b"\r\n--" + mark + b"--\r\n")
    return s.ok("/v1/files", body, headers={"Content-Type": "multipart/form-data; boundary=" + mark.decode()})


@case
def batches():
    """a batch over HTTP: the answers are those of --batch with the lines' seeds, beside requests; a restart goes on with it"""
    folder = tmp("files")
    requests = [(path, {**b, "max_tokens": 5}) for path, b in bodies(60, 5) if path == "/v1/completions"]
    lines = [{"custom_id": "c%d" % i, "method": "POST", "url": path, "body": b} for i, (path, b) in enumerate(requests)] + [{"custom_id": "bad", "method": "POST", "url": "/v1/completions", "body": {"prompt": 5}}]
    want = in_batch(PIP, requests)
    with Server(PIP, "--files", folder) as s:
        sent = upload(s, "in.jsonl", kit.jsonl(lines))
        same((sent["object"], sent["purpose"], sent["bytes"]), ("file", "batch", len(kit.jsonl(lines))), "the file")
        same(s.ok("/v1/files/%s/content" % sent["id"]), kit.jsonl(lines), "its bytes")
        batch = s.ok("/v1/batches", {"input_file_id": sent["id"], "endpoint": "/v1/completions", "completion_window": "24h"})
        at_once(4, range(8), lambda i: same(s.ok(*requests[0])["choices"], want[0].body["choices"], "a request beside it"))
    with Server(PIP, "--files", folder) as s:
        s.until(lambda: s.ok("/v1/batches/" + batch["id"])["status"] == "completed", "the batch ends")
        done = s.ok("/v1/batches/" + batch["id"])
        same(done["request_counts"], {"total": len(lines), "completed": len(requests), "failed": 1}, "counts")
        out = [json.loads(x) for x in s.ok("/v1/files/%s/content" % done["output_file_id"]).splitlines()]
        got = {r["custom_id"]: r["response"]["body"]["choices"] for r in out}
        same(len(out), len(requests), "records")
        for i, w in enumerate(want):
            same(got["c%d" % i], w.body["choices"], "line %d" % i)
        bad = json.loads(s.ok("/v1/files/%s/content" % done["error_file_id"]))
        same((bad["custom_id"], "prompt" in bad["error"]["message"]), ("bad", True), "the wrong line")
        same(s.ok("/v1/files/" + sent["id"], method="DELETE")["deleted"], True, "removed")
        same(s.send("/v1/files/" + sent["id"])[0], 404, "it is gone")
    with Server(PIP) as s:
        same((s.send("/v1/files")[0], s.send("/v1/batches")[0]), (404, 404), "without --files")


# --- errors ---

@case
def errors():
    """what is wrong has its status and names the key, in the API's own shape; nothing names a folder of the machine"""
    with Server(PIP) as s:
        json_type = {"Content-Type": "application/json"}
        for method, path, body, headers, status, word in (
                ("GET", "/nope", None, {}, 404, "no such path"), ("GET", "/v1/chat/completions", None, {}, 405, "expected POST"),
                ("POST", "/health", b"{}", json_type, 405, "expected GET"), ("DELETE", "/v1/models", None, {}, 405, "expected"),
                ("POST", "/v1/completions", b"{}", {"Content-Type": "text/plain"}, 415, "Content-Type: found text/plain"),
                ("POST", "/v1/completions", b"{}", {}, 415, "Content-Type: found nothing"),
                ("POST", "/v1/completions", b"", json_type, 400, "empty"), ("POST", "/v1/completions", b"[]", json_type, 400, "object"),
                ("POST", "/v1/completions", b'{"prompt":', json_type, 400, "JSON|expected"),
                ("POST", "/v1/completions", b'{"prompt":"a","frobnicate":1}', json_type, 400, "frobnicate"),
                ("POST", "/v1/completions", b'{"prompt":"a","temperature":"x"}', json_type, 400, "temperature"),
                ("POST", "/v1/completions", b'{"prompt":"a","stream":1}', json_type, 400, "stream"),
                ("POST", "/v1/completions", b'{"prompt":"a","grammar":"root ::= x"}', json_type, 400, "grammar"),
                ("POST", "/v1/chat/completions", b'{"messages":[{"role":"user"}],"tools":[{}]}', json_type, 400, "tools"),
                ("POST", "/v1/responses", b'{"input":"a","previous_response_id":"x"}', json_type, 400, "previous_response_id"),
                ("POST", "/v1/messages", b'{"messages":"x","max_tokens":3}', json_type, 400, "messages"),
                ("POST", "/tokenize", b'{"content":5}', json_type, 400, "content"), ("POST", "/detokenize", b'{"tokens":[99999999]}', json_type, 400, "tokens"),
                ("POST", "/apply-template", b'{"prompt":"a"}', json_type, 400, "prompt|messages"),
                ("POST", "/v1/rerank", b'{"query":"a","documents":["b"]}', json_type, 501, "classifier")):
            got, h, answer = s.send(path, body, method=method, headers=headers if body is not None else None) if body is None else raw(s, method, path, body, headers)
            what = "%s %s %r: %d %s" % (method, path, body, got, short(answer))
            check(got == status and re.search(word, json.dumps(answer)), what)
            e = answer["error"]
            check(answer.get("type") == "error" and set(e) == {"type", "message"} if "/messages" in path else set(e) == {"message", "type", "param", "code"}, what)
            check(os.path.dirname(PIP) not in json.dumps(answer), what)
        long = {"prompt": "word " * 3000}
        got, _, answer = s.send("/v1/completions", long)
        same((got, answer["error"]["code"]), (400, "context_length_exceeded"), "a long prompt")
        got, _, answer = s.send("/v1/responses", {"input": "word " * 3000, "stream": True})
        same((got, answer["error"]["code"]), (400, "context_length_exceeded"), "a long prompt of responses")
        same(s.send("/v1/completions", {"prompt": "a", "max_tokens": 2})[0], 200, "after all of them")


@case
def adapters():
    """/lora-adapters lists adapters and sets the scales of requests that name none; texts are those of a run with these scales"""
    folder = os.path.join(HERE, "tests", "data", "lora")
    files = [os.path.join(folder, n + ".gguf") for n in ("llama_all", "llama_qv")]
    ask = {"prompt": "Once upon a time there was", "max_tokens": 8, "temperature": 0, "logprobs": 2}

    def own(*scales):
        """The choices of a run with these scales."""
        loras = [x for f, k in zip(files, scales) for x in ("--lora", "%s=%g" % (f, k))]
        return in_batch(LLAMA, [("/v1/completions", ask)], *loras)[0].body["choices"]

    with Server(LLAMA, "--lora", files[0], "--lora", files[1] + "=0.5") as s:
        text = lambda **more: s.ok("/v1/completions", {**ask, **more})["choices"]
        listed = lambda: [(a["id"], a["name"], a["path"], a["scale"]) for a in s.ok("/lora-adapters")]
        rows = lambda *scales: [(i, n, n + ".gguf", k) for i, (n, k) in enumerate(zip(("llama_all", "llama_qv"), scales))]
        same(listed(), rows(1, 0.5), "listed")
        same(s.ok("/v1/lora-adapters"), s.ok("/lora-adapters"), "with /v1")
        same(text(), own(1, 0.5), "before")
        same(s.ok("/lora-adapters", [{"id": 1, "scale": -0.25}]), {"success": True}, "set")
        same((listed(), text()), (rows(0, -0.25), own(0, -0.25)), "one of them")
        same(text(lora=[{"id": 0, "scale": 2}]), own(2, 0), "a request that names one")
        same(text(lora="llama_qv"), own(0, 0.5), "named without a scale: that of the command")
        same(text(lora=[]), own(), "a request that wants none")
        before = listed()
        for body, word in ([{"id": 2, "scale": 1}], "number 2"), ([{"id": 0, "scale": "x"}], "lora.scale"), ({"id": 0}, "a list"), ([{}], "no id"), ([{"id": 0, "scale": 1e9}], "range"):
            status, _, answer = s.send("/lora-adapters", body)
            check(status == 400 and word in answer["error"]["message"], "%r: %d %s" % (body, status, short(answer)))
        same(listed(), before, "after what was refused")
        s.ok("/lora-adapters", [{"name": "llama_all"}])
        same((listed(), text()), (rows(1, 0), own(1, 0)), "by its name, without a scale")
        s.ok("/lora-adapters", [])
        same((listed(), text()), (rows(0, 0), own()), "none")
        status, headers, _ = s.send("/lora-adapters", method="DELETE")
        same((status, headers["Allow"]), (405, "GET, HEAD, POST"), "another method")
    with Server(LLAMA, "--lora", files[0] + "=0.5", "--lora", files[1] + "=0", "--lora-init-without-apply") as s:
        same([a["scale"] for a in s.ok("/lora-adapters")], [0, 0], "not applied")
        got = [s.ok("/v1/completions", {**ask, **more})["choices"] for more in ({}, {"lora": "llama_all"}, {"lora": "llama_qv"})]
        same(got, [own(), own(0.5), own(0, 1)], "without them, and by name with the scale of the command, or 1")
        s.ok("/lora-adapters", [{"id": 0}])
        same([a["scale"] for a in s.ok("/lora-adapters")], [0.5, 0], "set without a scale")
    with Server(LLAMA) as s:
        same((s.ok("/lora-adapters"), s.ok("/lora-adapters", [])), ([], {"success": True}), "no adapters")
        check("no adapter is loaded" in s.send("/lora-adapters", [{"id": 0}])[2]["error"]["message"], "an adapter that is not there")


def raw(s, method, path, body, headers):
    c = s.connect()
    c.request(method, path, body, headers)
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, r.headers, json.loads(text)


@case
def keys():
    """a key is needed where one is set: as Bearer, as x-api-key, from a file or the environment; /health needs none; without one a strange Host is refused"""
    put("keys.txt", b"# keys\nfirst-key\n\n  second-key\n")
    for args, env, good in ((("--api-key", "sesame"), {}, ["sesame"]), (("--api-key-file", tmp("keys.txt")), {}, ["first-key", "second-key"]),
                            ((), {"LLMRUN_API_KEY": "from env"}, ["from env"])):
        with Server(PIP, *args, env=env) as s:
            same(s.send("/health")[0], 200, "/health")
            for key in good:
                for h in {"Authorization": "Bearer " + key}, {"authorization": "bearer  " + key}, {"x-api-key": key}:
                    same(s.send("/v1/models", headers=h)[0], 200, "%r" % h)
            for h in {}, {"Authorization": "Bearer " + good[0][:-1]}, {"Authorization": "Bearer " + good[0] + "x"}, {"Authorization": good[0]}, {"x-api-key": ""}:
                status, headers, answer = s.send("/v1/models", headers=h)
                same((status, headers["WWW-Authenticate"], answer["error"]["code"]), (401, "Bearer", "invalid_api_key"), "%r" % h)
            same(s.send("/v1/models", headers={"Host": "evil.example", "x-api-key": good[0]})[0], 200, "a name beside a key")
    with Server(PIP) as s:
        for host, want in (("evil.example", 421), ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("10.1.2.3", 200), ("localhost.evil.example", 421)):
            same(s.send("/v1/models", headers={"Host": host})[0], want, host)


@case
def cors():
    """--cors: a page of that origin may ask, others get no such header"""
    with Server(PIP, "--cors", "http://localhost:3000", "--api-key", "k") as s:
        c = s.connect()
        c.request("OPTIONS", "/v1/chat/completions", headers={"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST",
                                                                   "Access-Control-Request-Headers": "authorization,x-stainless-os"})
        r = c.getresponse()
        r.read()
        same((r.status, r.headers["Access-Control-Allow-Origin"]), (204, "http://localhost:3000"), "preflight")
        same(r.headers["Access-Control-Allow-Headers"], "authorization,x-stainless-os", "headers")
        same(s.send("/v1/models", headers={"x-api-key": "k"})[1]["Access-Control-Allow-Origin"], "http://localhost:3000", "an answer")
        same(s.send("/v1/models")[1]["Access-Control-Allow-Origin"], "http://localhost:3000", "an error")
        with socket.create_connection(("127.0.0.1", s.port), timeout=60 * SLOW) as c:
            c.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            got = c.recv(4096)
        check(got.startswith(b"HTTP/1.1 400 ") and b"\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n" in got, "what is no request: %r" % got)
    with Server(PIP) as s:
        same(s.send("/v1/models")[1]["Access-Control-Allow-Origin"], None, "without --cors")
        same(s.send("/v1/models", method="OPTIONS")[0], 405, "preflight without --cors")


@case
def limits():
    """--max-body: 413; --queue: 503 with Retry-After; --request-timeout: 503, or an error in the stream"""
    long = {"prompt": "a", "max_tokens": 190000, "ignore_eos": True, "stream": True}
    with Server(LLAMA, "-c", "200000", "--max-body", "2000", "--queue", "1", "-np", "1") as s:
        same(s.send("/v1/completions", {"prompt": "x" * 3000})[0], 413, "a long body")
        first = s.connect()
        first.request("POST", "/v1/completions", json.dumps(long), {"Content-Type": "application/json"})
        answer = first.getresponse()
        answer.read(1)
        second = s.connect()
        second.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}), {"Content-Type": "application/json"})
        s.until(lambda: s.metric("requests_waiting") >= 1, "one waits")
        status, headers, body = s.send("/v1/completions", {"prompt": "b", "max_tokens": 1})
        same((status, headers["Retry-After"]), (503, "1"), "one too many: %r" % body)
        first.close()
        same(second.getresponse().status, 200, "the one that waited")
        second.close()
    with Server(LLAMA, "--request-timeout", "1", "-c", "200000", "--repack", "off") as s:
        endless = {"prompt": "a", "max_tokens": 190000, "ignore_eos": True}
        status, headers, body = s.send("/v1/completions", endless)
        check(status == 503 and "timeout" in body["error"]["message"] and headers["Retry-After"], "%d %r" % (status, body))
        events = s.events("/v1/completions", {**endless, "stream": True})
        check("timeout" in json.loads(events[-1][1])["error"]["message"], "the end of a stream: %r" % (events[-1],))
        s.until(lambda: s.metric("requests_running") == 0, "both are freed")
        same(s.metric('requests_total{outcome="timeout"}'), 2.0, "figures")


# --- clients that leave, clients that are slow ---

@case
def clients_leave():
    """a client that goes away frees its sequence, before its turn, while its prompt is read and while its answer is made"""
    with Server(LLAMA, "-c", "100000", "-np", "2") as s:
        for i in range(12):
            leave(s, "/v1/completions", {"prompt": "a" * (1 + 999 * (i % 3)), "max_tokens": 90000, "ignore_eos": True, "seed": i})
        s.until(lambda: s.metric("requests_running") == 0 and s.metric("requests_waiting") == 0 and s.metric("kv_blocks_used") == 0, "nothing runs")
        same(s.ok("/v1/completions", {"prompt": "a", "max_tokens": 3})["usage"]["completion_tokens"], 3, "another request")
        same(s.metric('requests_total{outcome="left"}'), 12.0, "figures")


@case
def slow_readers():
    """a client that reads nothing: its sequence waits, others have its place, and after --stall it is freed"""
    with Server(LLAMA, "-c", "200000", "-np", "2", "--stall", "2") as s:
        slow = []
        for i in range(2):
            c = socket.socket()
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect(("127.0.0.1", s.port))
            body = json.dumps({"prompt": "a", "max_tokens": 190000, "ignore_eos": True, "stream": True, "logprobs": 5, "seed": i}).encode()
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            slow.append(c)
        s.until(lambda: s.metric("requests_running") == 2, "both run")
        for i in range(6):
            same(s.ok("/v1/completions", {"prompt": "b%d" % i, "max_tokens": 5, "ignore_eos": True})["usage"]["completion_tokens"], 5, "request %d" % i)
        s.until(lambda: s.metric("requests_running") == 0 and s.metric("requests_waiting") == 0 and s.metric("kv_blocks_used") == 0,
                "the slow ones are freed")
        for c in slow:
            c.close()


# --- the end ---

@case
def shrinks():
    """a model file that shrinks while it is served: exit 3 and one line; no thread blocks the signals of its own faults, all but one block the others"""
    path = tmp("shrink.gguf")
    shutil.copy(PIP, path)
    s = Server(path, "-t", "2")
    s.ok("/v1/completions", {"prompt": "Once", "max_tokens": 2})
    tasks = "/proc/%d/task" % s.p.pid
    blocked = [int(re.search(r"^SigBlk:\s*(\S+)", open("%s/%s/status" % (tasks, t)).read(), re.M).group(1), 16) for t in os.listdir(tasks)]
    check(len(blocked) >= 4, "its threads: %r" % blocked)      # of requests, of connections, of the pool, and the first
    for one in signal.SIGBUS, signal.SIGSEGV:
        check(not any(b >> one - 1 & 1 for b in blocked), "%s: %r" % (one, blocked))
    same(sum(b >> signal.SIGTERM - 1 & 1 for b in blocked), len(blocked) - 1, "threads that SIGTERM does not interrupt")
    os.truncate(path, 100)
    try:
        s.ok("/v1/completions", {"prompt": "Twice", "max_tokens": 2})
        check(False, "an answer")
    except (http.client.HTTPException, OSError):
        pass
    same(s.p.wait(timeout=60 * SLOW), 3, "exit")
    s.reader.join(60 * SLOW)
    said = s.lines[-1]
    check(said.startswith("llmrun: ") and path in said and "became shorter" in said, said)
    for f in (s.p.stdout, s.p.stderr):
        f.close()


@case
def drain():
    """SIGTERM: a running answer ends whole, nothing more is taken, exit 0; --drain 0 ends it with an error; a second signal ends at once"""
    body = {"prompt": "Once", "max_tokens": 60, "ignore_eos": True, "stream": True, "seed": 3}
    want = in_batch(PIP, [("/v1/completions", {k: v for k, v in body.items() if k != "stream"})])[0]
    with Server(PIP, "--drain", "30") as s:
        c = s.connect()
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        s.p.send_signal(signal.SIGTERM)
        got = joined(chunks(parse(r.read())), False)
        same(got[0]["text"], want.body["choices"][0]["text"], "the answer")
        same(s.p.wait(timeout=60 * SLOW), 0, "exit")
        s.reader.join(60 * SLOW)
        check(any("shutting down" in line for line in s.lines), "a line: %r" % s.lines)
    for n, rc in (1, 0), (2, 128 + signal.SIGTERM):
        s = Server(LLAMA, "-c", "200000", "--drain", "0" if n == 1 else "30")
        c = s.connect()
        c.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 190000, "ignore_eos": True, "stream": True}), {"Content-Type": "application/json"})
        r = c.getresponse()
        r.read(100)
        s.p.send_signal(signal.SIGTERM)
        if n == 2:
            s.until(lambda: any("shutting down" in line for line in s.lines), "it drains")
            s.p.send_signal(signal.SIGTERM)
        same(s.p.wait(timeout=60 * SLOW), rc, "exit after %d signals" % n)
        if n == 1:
            check(b'"error"' in r.read(), "an error ends the stream")
        for f in (s.p.stdout, s.p.stderr):
            f.close()


@case
def starts():
    """where it listens: a free port, a Unix socket, a stale one; what cannot be is one line and exit 2"""
    path = tmp("s")
    with Server(PIP, where="unix:" + path) as s:
        same(os.stat(path).st_mode & 0o777, 0o600, "the mode of the socket")
        for host in b"localhost", b"any.name":
            c = socket.socket(socket.AF_UNIX)
            c.connect(path)
            c.sendall(b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
            got = b""
            while more := c.recv(4096):
                got += more
            check(b" 200 " in got and b'"ok"' in got, repr(got))
            c.close()
        r = finish(begin([BIN, "-m", PIP, "--serve", "unix:" + path]))
        kit.refused(r, 2, "another server", "a socket in use")
    check(not os.path.exists(path), "the socket stays")
    with Server(PIP) as s:
        kit.refused(finish(begin([BIN, "-m", PIP, "--serve", str(s.port)])), 2, "in use", "a port in use")
    for args, word in ((("--serve", "0.0.0.0:0"), "--api-key"), (("--serve", "nonsense"), "expected"), (("--serve", "99999"), "65535"),
                       (("--serve", "0", "--api-key", ""), "empty key"), (("--serve", "0", "--api-key-file", tmp("none")), "none"),
                       (("--serve", "0", "--no-api-key", "--api-key", "k"), "disagree"), (("--serve", "0", "-p", "x"), "-p has no effect on --serve")):
        kit.refused(finish(begin([BIN, "-m", PIP, *args]), timeout=30), 2, word, " ".join(args))
    kit.refused(finish(begin([BIN, "-m", tmp("no.gguf"), "--serve", "0"])), 2, "no.gguf", "a model that is not there")
    with Server(PIP, "--no-api-key", where="0.0.0.0:0") as s:
        same(s.send("/v1/models")[0], 200, "other machines without a key")


@case
def loading():
    """while the model is being loaded /health is 503, other paths are 503 with Retry-After"""
    path, pipe = tmp("loading"), tmp("pipe")
    os.mkfifo(pipe)                                      # a template that comes when the test gives it

    def ask(what):
        end = time.time() + 60 * SLOW
        while not os.path.exists(path):
            check(time.time() < end and p.poll() is None, "no socket")
            time.sleep(0.01)
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(60 * SLOW)
        c.connect(path)
        c.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % what)
        got = b""
        while more := c.recv(4096):
            got += more
        c.close()
        return got

    p = begin([BIN, "-m", LLAMA, "--serve", "unix:" + path, "--chat-template-file", pipe])
    RUNNING.add(p)
    for what in b"/health", b"/v1/models":
        got = ask(what)
        check(got.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: " in got and b"the model is being loaded" in got, "%r: %r" % (what, got))
    check(ask(b"/").startswith(b"HTTP/1.1 200 "), "the page")
    with open(pipe, "wb") as f:
        f.write(b"{% for m in messages %}{{ m.content }}{% endfor %}")
    line = b""
    while b"listening" not in line:
        line = p.stderr.readline()
        check(line, "no address")
    check(ask(b"/health").startswith(b"HTTP/1.1 200 ") and ask(b"/v1/models").startswith(b"HTTP/1.1 200 "), "when it is loaded")
    p.send_signal(signal.SIGTERM)
    same(p.wait(timeout=60 * SLOW), 0, "exit")
    for f in (p.stdout, p.stderr):
        f.close()


@case
def log():
    """-v: a line for each request, never contents"""
    with Server(PIP, "-v", "--temp", "0") as s:
        s.ok("/v1/chat/completions", {"messages": [{"role": "user", "content": "secret words"}], "max_tokens": 3})
        s.until(lambda: any("POST /chat/completions 200" in line for line in s.lines), "a line of the request")
        check(not any("secret" in line for line in s.lines), "contents in the log")


if __name__ == "__main__":
    sys.exit(kit.walk("serve", ARGS.words, TMP))
