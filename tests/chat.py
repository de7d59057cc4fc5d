#!/usr/bin/env python3
"""Tests of chats: messages, templates, thinking, ends of answers, through the command.

    python3 tests/chat.py ./llmrun [WORD ...]      cases whose name holds one of the words, else all

The models are made here: each says what a chain of tokens lets it say (script.py).
"""
import json, os, pty, re, select, subprocess, sys, tempfile, time
import script
from hostile import STR
from kit import ENV, SLOW, Skip, case, check, one_line, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(HERE, "llmrun")
TMP = tempfile.mkdtemp(prefix="llmrun-chat-")
GREEDY = ("--temp", "0")


def same(got, want, what):
    check(got == want, "%s: got %r, want %r" % (what, got, want))


def tmp(name, data=None):
    path = os.path.join(TMP, name)
    if data is not None:
        with open(path, "w" if isinstance(data, str) else "wb") as f:
            f.write(data)
    return path


class Done:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    def __repr__(self):
        return "exit %d, stdout %r, stderr %r" % (self.rc, self.out[:300], self.err[:300])


def run(*args, inp=None, timeout=60):
    """The command. inp: bytes for standard input, None is /dev/null."""
    p = subprocess.run([BIN, *args], input=inp, stdin=subprocess.DEVNULL if inp is None else None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV,
                       timeout=timeout * SLOW)
    return Done(p.returncode, p.stdout, p.stderr)


def good(*args, **kw):
    r = run(*args, **kw)
    check(r.rc == 0, "%s: %r" % (" ".join(args), r))
    return r.out.decode()


def refused(words, *args, code=2, **kw):
    """One line on stderr that holds the words, this exit code, nothing on stdout."""
    r = run(*args, **kw)
    check(r.rc == code and one_line(r.err) and words.encode() in r.err and not r.out, "%s: want exit %d and %r, got %r" % (" ".join(args), code, words, r))


def in_terminal(*args):
    """What the command prints where standard input and output are a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(BIN, [BIN, *args], ENV)
    seen, until = b"", time.time() + 60 * SLOW
    while time.time() < until and select.select([fd], [], [], 60 * SLOW)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(fd)
    check(os.waitpid(pid, 0)[1] == 0, "failed in a terminal: %r" % seen)
    return seen.replace(b"\r\n", b"\n").decode()


# --- models ---

SIMPLE = ("{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
          "{% if add_generation_prompt %}<|assistant|>{% endif %}")
THINKS = ("{% for m in messages %}<|{{ m['role'] }}|>{% if m['reasoning_content'] %}<think>\n{{ m['reasoning_content'] }}\n</think>\n\n{% endif %}"
          "{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not enable_thinking %}"
          "<think>\n\n</think>\n\n{% endif %}{% endif %}")
OPENS = THINKS.replace("{% if add_generation_prompt %}<|assistant|>", "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")


def model(name, chains, template, **kw):
    path = tmp(name + ".gguf")
    return path if os.path.exists(path) else script.write(path, chains, template, **kw)


def thinker(name="thinker", template=THINKS):
    return model(name, [["<|assistant|>", "<think>", "\n", "hm", " so", "\n", "</think>", "Hello", " you", "<|end|>"], ["\n", "hm"], ["so", "</think>"]], template)


def steady(name, template):
    """Thinks in five tokens, each with one follower."""
    return model(name, [["<|assistant|>", "<think>", "first", " second", " third", " fourth", "</think>", "Hello", " you", "<|end|>"],
                        ["<think>\n", "first"], ["\n</think>\n\n", "Hello"]], template)


def chat(path, *args, **kw):
    return good("-m", path, "--chat", *GREEDY, *args, **kw)


def rendered(path, *args):
    """The prompt as text and as ids."""
    text = chat(path, "-n", "0", "--echo", *args)
    ids = chat(path, "-n", "0", "--echo", "--ids", *args)
    return text, ids.split()


# --- one answer ---

@case
def chat_answer():
    """--chat with -p, -f and a pipe asks the same; the answer ends at the template's mark"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    same(chat(m, "-p", "Hi"), "Hello you", "-p")
    same(chat(m, "-f", tmp("hi", "Hi")), "Hello you", "-f")
    same(chat(m, inp=b"Hi"), "Hello you", "a pipe")
    text, ids = rendered(m, "-p", "Hi")
    same(text, "<s><|user|>Hi<|end|><|assistant|>", "the prompt")
    same(chat(m, "-n", "0", "--echo", "-p", "A", inp=b"B"), "<s><|user|>A\nB<|end|><|assistant|>", "-p and a pipe")


@case
def chat_raw():
    """without --chat a pipe, and with --no-chat everything is raw"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    same(good("-m", m, *GREEDY, "-n", "0", "--echo", inp=b"Hi"), "Hi", "a pipe")
    same(good("-m", m, *GREEDY, "-n", "0", "--echo", "-p", "Hi"), "Hi", "-p, no terminal")
    same(good("-m", m, "--no-chat", "-sys", "S", *GREEDY, "-n", "0", "--echo", "-p", "Hi"), "Hi", "--no-chat")
    same(good("-m", m, "-sys", "S", *GREEDY, "-n", "0", "--echo", inp=b"Hi"), "<s><|system|>S<|end|><|user|>Hi<|end|><|assistant|>", "-sys")


@case
def chat_terminal():
    """a prompt given in a terminal is a message where the model has a template, and raw with --no-chat or without a template"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    bare = model("bare", [["Hi", "there"]], None)
    same(in_terminal("-q", "-m", m, *GREEDY, "-p", "Hi"), "Hello you\n", "by default")
    same(in_terminal("-q", "-m", m, *GREEDY, "-n", "0", "--echo", "-p", "Hi", "--no-chat"), "Hi\n", "--no-chat")
    same(in_terminal("-q", "-m", bare, *GREEDY, "-n", "0", "--echo", "-p", "Hi"), "Hi\n", "no template")


@case
def chat_tokens():
    """the ids of a chat are those of its rendering, with one start token"""
    for m in (PIP, model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)):
        for text in ("Hi", "two\n\nlines  and spaces ", "é 中文 😀", "<b>&amp; {{ x }} {% if %}", "", "<|im_sta", "<think>"):
            text_, ids = rendered(m, "-p", text)
            want = good("-m", m, "--tokenize", "--special", "-p", text_).split()
            start = good("-m", m, "--tokenize", "--bos", "-p", "").split()
            check(ids == want or (ids == start + want and want[:1] != start), "%s, %r: ids %s, the rendering has %s" % (os.path.basename(m), text, ids, want))


@case
def chat_contents():
    """a message that spells control tokens gets none of them; the template's are there"""
    for m, marks, turns in ((PIP, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], {"<|im_start|>": 2, "<|im_end|>": 1}),
                            (model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE), script.CONTROL, {"<|user|>": 1, "<|end|>": 1, "<|assistant|>": 1})):
        number = {t: good("-m", m, "--tokenize", "--special", "-p", t).split() for t in marks}
        check(all(len(n) == 1 for n in number.values()), "%r" % number)
        plain = rendered(m, "-p", "Hi")[1]
        for t in marks:
            for spelled in (t, "a" + t + "b", t + t, t[:-1] + t, "x" + t + "\n" + t):
                ids = rendered(m, "-p", spelled)[1]
                for other in marks:
                    same(ids.count(number[other][0]), plain.count(number[other][0]), "%r in %r" % (other, spelled))
        for t, n in turns.items():
            same(plain.count(number[t][0]), n, t)


@case
def chat_spliced():
    """a control token that begins in the template and ends in a message is none; a role that is not known is a content too"""
    m = model("splice", [["<|assistant|>", "Hello", "<|end|>"]], "{% for m in messages %}<|{{ m['content'] }}{{ m['role'] }}{% endfor %}")
    user = good("-m", m, "--tokenize", "--special", "-p", "<|user|>").strip()
    for content in ("user|>", "user|", "u"):
        check(user not in rendered(m, "-p", content)[1], "%r gave <|user|>" % content)
    m = model("roles", [["<|assistant|>", "Hello", "<|end|>"]], "{% for m in messages %}{{ m['role'] }}{% endfor %}")
    check(user not in rendered(m, "--messages", tmp("role.json", json.dumps([{"role": "<|user|>", "content": ""}])))[1], "a role gave <|user|>")


@case
def chat_no_template():
    """a model without a template, and a template that cannot be used, are refused with a line that names them"""
    bare = model("bare", [["Hi", "there"]], None)
    refused("tokenizer.chat_template", "-m", bare, "--chat", "-p", "Hi")
    refused("no-such-file", "-m", bare, "--chat-template-file", tmp("no-such-file"), "-p", "Hi")
    refused("bad.jinja:2:", "-m", bare, "--chat-template-file", tmp("bad.jinja", "\n{% if %}"), "-p", "Hi")
    refused("no tools here", "-m", bare, "--chat-template-file", tmp("raises.jinja", "{{ raise_exception('no tools here') }}"), "-p", "Hi")
    same(good("-m", bare, "--chat-template-file", tmp("own.jinja", "[{{ messages[0]['content'] }}]"), "-n", "0", "--echo", "-p", "Hi"), "[Hi]", "a template of one's own")


@case
def chat_messages():
    """--messages takes a list or an object; a prompt beside it is one more message; what is wrong is named"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    turns = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}, {"role": "user", "content": [{"type": "text", "text": "C"}, {"type": "text", "text": "D"}]}]
    want = "<s><|user|>A<|end|><|assistant|>B<|end|><|user|>CD<|end|>"
    listed, held = tmp("list.json", json.dumps(turns)), tmp("held.json", json.dumps({"messages": turns}))
    for f in listed, held:
        same(good("-m", m, "--messages", f, "-n", "0", "--echo"), want + "<|assistant|>", "messages")
        same(good("-m", m, "--messages", f), "Hello you", "the answer")
    same(good("-m", m, "--messages", listed, "-p", "E", "-n", "0", "--echo"), want + "<|user|>E<|end|><|assistant|>", "and a prompt")
    same(good("-m", m, "--messages", listed, "-sys", "S", "-n", "0", "--echo"), "<s><|system|>S<|end|>" + want[3:] + "<|assistant|>", "and a system message")
    for bad, words in (("[{", "bad.json: "), ("7", "expected a list of messages"), ('[{"role":1}]', "role is int"), ('[{"content":"a"}]', "role is missing"), ("[]", "messages is empty"),
                       ('[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]', "type image_url"), 
                       ('[{"role":"user","content":3}]', "content is int")):
        refused(words, "-m", m, "--messages", tmp("bad.json", bad))
    refused("levels", "-m", m, "--messages", tmp("deep.json", "[" * 5000), code=3)
    refused("nowhere.json", "-m", m, "--messages", tmp("nowhere.json"))
    refused("--no-chat and --messages disagree", "-m", m, "--no-chat", "--messages", listed)


@case
def chat_variables():
    """variables of --chat-template-kwargs, of the model, and of the object of messages; what is no object is refused"""
    t = tmp("vars.jinja", "{{ bos_token }}|{{ eos_token }}|{{ x }}|{{ y }}|{{ messages[0]['content'] }}")
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    show = ("-m", m, "--chat-template-file", t, "-n", "0", "--echo")
    same(good(*show, "--chat-template-kwargs", '{"x": 1.5, "y": [true]}', "-p", "Hi"), "<s>|<|end|>|1.5|[True]|Hi", "kwargs")
    same(good(*show, "--chat-template-kwargs", '{"x": 1, "y": 2}', "--messages", tmp("x.json", '{"messages":[{"role":"user","content":"Hi"}],"x":7}')), "<s>|<|end|>|7|2|Hi", "an object's own")
    for bad in "[1]", "{", "x":
        refused("--chat-template-kwargs", *show, "--chat-template-kwargs", bad, "-p", "Hi")


@case
def chat_templates_by_name():
    """the template for tools is used where tools are given, the other one without them"""
    named = (("tokenizer.chat_template.tool_use", STR, "tools: {{ tools | length }} {{ messages[0]['content'] }}"),)
    m = model("named", [["<|assistant|>", "Hello", "<|end|>"]], "plain: {{ messages[0]['content'] }}", kv=named)
    tools = tmp("tools.json", json.dumps([{"type": "function", "function": {"name": "f", "parameters": {}}}]))
    same(rendered(m, "-p", "Hi")[0], "plain: Hi", "no tools")
    same(rendered(m, "-p", "Hi", "--tools", tools)[0], "tools: 1 Hi", "tools")
    same(rendered(m, "-p", "Hi", "--tools", tmp("none.json", "[]"))[0], "plain: Hi", "an empty list of tools")
    refused("tools", "-m", m, "-p", "Hi", "--tools", tmp("bad-tools.json", "3"))


@case
def chat_ends():
    """what the template puts behind an answer ends it: a control token that the file does not mark as an end, a next turn, a text"""
    stop = script.CONTROL + ["<|stop7|>"]
    m = model("stop7", [["<|assistant|>", "Hello", " you", "<|stop7|>", "junk", "<|end|>"]], SIMPLE.replace("<|end|>", "<|stop7|>"), control=stop)
    same(chat(m, "-p", "Hi"), "Hello you", "its own end")
    same(good("-m", m, *GREEDY, "-p", "<|assistant|>"), "Hello youjunk", "raw")
    m = model("turns", [["<|assistant|>", "Hello", " you", "<|user|>", "junk", "<|end|>"]], SIMPLE.replace("<|end|>", ""))
    same(chat(m, "-p", "Hi"), "Hello you", "the next turn")
    words = "{% for m in messages %}{{ '\\n\\n### ' + m['role'] }}:\n{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}{{ '\\n\\n### assistant:\\n' }}{% endif %}"
    m = model("words", [["assistant:\n", "Hello", " you", "\n\n### user:", "\nmore", "<|end|>"]], words)
    same(chat(m, "-p", "Hi"), "Hello you", "a text")
    same(chat(m, "-p", "Hi", "--stop", "you"), "Hello ", "and a text of --stop")
    r = run("-m", m, "--chat", *GREEDY, "-p", "Hi", "--json")
    same(json.loads(r.out)["finish_reason"], "stop", "finish_reason")


@case
def chat_thinking():
    """standard output has the answer alone; --think show puts thinking on stderr; JSON has it as reasoning_content"""
    for m, label in ((steady("closed", THINKS), "the model opens"), (steady("open", OPENS), "the prompt opens")):
        hidden, shown = (run("-m", m, "--chat", *GREEDY, "-p", "Hi", *more) for more in ((), ("--think", "show")))
        same(hidden.out, b"Hello you", label)
        same(shown.out, b"Hello you", label + ", shown")
        check(b"first second third fourth\n" in shown.err and b"second" not in hidden.err and b"\x1b" not in shown.err, "%s: %r, %r" % (label, hidden.err, shown.err))
        a = json.loads(chat(m, "-p", "Hi", "--json"))
        same((a["text"], a["reasoning_content"]), ("Hello you", "first second third fourth"), label + ", JSON")
    check("reasoning_content" not in json.loads(chat(model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE), "-p", "Hi", "--json")), "no thinking")
    refused("on and off disagree", "-m", m, "-p", "Hi", "--think", "on", "--think", "off")
    refused("on, off, show or hide", "-m", m, "-p", "Hi", "--think", "loud")


@case
def chat_think_switch():
    """--think off and on set the template's variable, and an empty thinking at the end of a prompt is closed"""
    m = steady("open", OPENS)
    check(rendered(m, "-p", "Hi")[0].endswith("<|assistant|><think>\n"), "as the template does")
    check(rendered(m, "-p", "Hi", "--think", "on")[0].endswith("<|assistant|><think>\n"), "on")
    check(rendered(m, "-p", "Hi", "--think", "off")[0].endswith("<|assistant|><think>\n\n</think>\n\n"), "off")
    r = run("-m", m, "--chat", *GREEDY, "-n", "4", "-p", "Hi", "--think", "off", "--think", "show")
    check(r.rc == 0 and b"second" not in r.err, "%r" % r)


@case
def chat_think_budget():
    """thinking ends after so many tokens; with and without guesses, for any number of threads, the same"""
    for name, template in ("closed", THINKS), ("open", OPENS):
        m = steady(name, template)
        for n, want in ((0, ""), (1, "first"), (2, "first second"), (3, "first second third"), (9, "first second third fourth")):
            got = set()
            for more in (("-t", "1"), ("-t", "2"), ("--no-lookup",), ("--draft-min", "4"), ("-md", m, "--draft-min", "3")):
                a = json.loads(chat(m, "-p", "Hi", "--json", "--think-budget", str(n), *more))
                got.add((a["text"], a.get("reasoning_content", ""), str(a["tokens"])))
            same(len(got), 1, "%s, %d tokens: %r" % (name, n, got))
            same(got.pop()[:2], ("Hello you", want), "%s, %d tokens" % (name, n))


CALLS = ("{{ bos_token }}{% if tools %}<|system|>{{ tools | tojson }}<|end|>{% endif %}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}"
         "{% for c in m.tool_calls or [] %}{{ '\\n<tool_call>\\n' + {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}<|end|>{% endfor %}"
         "{% if add_generation_prompt %}<|assistant|>{% endif %}")
TOOLS = [{"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type": "object", "properties": {"where": {"type": "string"}}}}}]


@case
def chat_calls():
    """calls of tools are objects on lines of their own, tool_calls in JSON; without tools they are content"""
    said = '\n<tool_call>\n{"name": "look", "arguments": {"where": "here"}}\n</tool_call>'
    m = model("calls", [["<|assistant|>", "Well", said, "<|end|>"]], CALLS)
    tools = tmp("look.json", json.dumps(TOOLS))
    same(chat(m, "-p", "Hi", "--tools", tools), 'Well\n{"name":"look","arguments":{"where": "here"}}\n', "text")
    same(chat(m, "-p", "Hi"), "Well" + said, "no tools")
    a = json.loads(chat(m, "-p", "Hi", "--tools", tools, "--json"))
    call = a["tool_calls"][0]
    same((a["text"], a["finish_reason"], call["type"], call["function"]["name"], json.loads(call["function"]["arguments"])), ("Well", "tool_calls", "function", "look", {"where": "here"}), "JSON")
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well", "tool_calls": a["tool_calls"]}, {"role": "tool", "content": "nothing"}]
    past = rendered(m, "--messages", tmp("called.json", json.dumps({"messages": turns, "tools": TOOLS})))[0]
    check("<|assistant|>Well" + said + "<|end|><|tool|>nothing" in past, "the past is not what was said: %r" % past)


@case
def chat_cut_thinking():
    """an answer that ends inside its thinking has no content, and a line says so"""
    m = steady("open", OPENS)
    r = run("-m", m, "--chat", *GREEDY, "-p", "Hi", "-n", "2")
    check(r.rc == 0 and r.out == b"" and b"inside its thinking" in r.err, "%r" % r)


@case
def chat_repeatable():
    """one answer is the same for any number of threads, with and without guesses, sampled or not"""
    for sampled in (GREEDY, ("-s", "5")):
        got = {good("-m", PIP, "--chat", "-p", "Who has the red ball?", "-n", "24", *sampled, *more)
               for more in (("-t", "1"), ("-t", "2"), ("--no-lookup",), ("--draft-min", "3"), ("-md", DRAFT, "--draft-min", "2"), ("-ub", "3"))}
        same(len(got), 1, "%r" % got)


# --- calls in the words of models' templates ---

SHARED = os.environ.get("SHARED", os.path.join(HERE, "..", "shared"))
LOOK = {"where": "a \"b\" it's <c> \u00e9\U0001f600", "deep": 3}
DEEP = [{"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type": "object", "required": ["where"], "properties": {
    "where": {"type": "string", "description": "a place"}, "deep": {"type": "integer", "description": "steps"}}}}}]
TAG = r"(</s>|<[|\uff5c][^<>]*[|\uff5c]>|<[^<>|\uff5c]+[|]>|\[[A-Z_]+\])"


def said_by(template, name):
    """What a template writes for a call, behind its prompt: (last piece of the prompt, pieces of the answer, the token that ends it), or None where the prompt does not lead to it."""
    ask = {"role": "user", "content": "Question"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefgh1", "type": "function", "function": {"name": "look", "arguments": LOOK}}]}
    texts = []
    for messages, prompt in (([ask], True), ([ask, call], False)):
        given = tmp("given.json", json.dumps({"messages": messages, "tools": DEEP, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}))
        r = run("--render", "--chat-template-file", template, "-f", given)
        texts.append(r.out.decode() if r.rc == 0 else None)
    if None in texts or not texts[1].startswith(texts[0]):
        return None
    last = [t for t in re.split(TAG, texts[0]) if t][-1]
    pieces = [t for t in re.split(TAG, texts[1][len(texts[0]):]) if t]
    while len(pieces) > 1 and not re.fullmatch(TAG, pieces[-1]):
        pieces.pop()
    if not pieces or not any("look" in t for t in pieces):
        return None
    return (last if re.fullmatch(TAG, last) else "<0x%02X>" % last.encode()[-1]), pieces


@case
def calls_models():
    """a model that says what its own template writes for a call: the call comes back as it was, and nothing else"""
    folder, n = os.path.join(SHARED, "data", "templates"), 0
    names = sorted(f[:-6] for f in os.listdir(folder) if f.endswith(".jinja")) if os.path.isdir(folder) else []
    if not names:
        raise Skip("no shared templates")
    tools = tmp("deep.json", json.dumps(DEEP))
    for name in names:
        path = os.path.join(folder, name + ".jinja")
        said = said_by(path, name)
        if not said:
            continue
        last, pieces = said
        tags = list(dict.fromkeys(t for t in [last, *pieces] if re.fullmatch(TAG, t)))
        end = pieces[-1] if re.fullmatch(TAG, pieces[-1]) else "</s>"
        chain = [last, *pieces, *([end] if end != pieces[-1] else [])]
        m = model("models-" + name, [chain], open(path).read(), control=["<s>", "</s>", *(t for t in tags if t != "</s>")], end=end, context=8192)
        a = json.loads(good("-m", m, "--chat", *GREEDY, "-p", "Question", "--tools", tools, "--json", "-n", "64"))
        same([(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in a.get("tool_calls") or []], [("look", LOOK)], "%s: %r from %r" % (name, a.get("text"), pieces))
        same((a["finish_reason"], a["text"]), ("tool_calls", ""), name)
        n += 1
    check(n >= 10, "%d templates were tried, want 10 or more" % n)


def main():
    if not os.access(BIN, os.X_OK):
        sys.exit("usage: chat.py BINARY [WORD ...]: cannot run %s" % BIN)
    sys.exit(walk("chat", sys.argv[2:], TMP))


main()
