#!/usr/bin/env python3
"""Tests of chats: messages, templates, thinking, ends of answers, through the command.

    python3 tests/chat.py ./llmrun [WORD ...]      cases whose name holds one of the words, else all

The models are made here: each says what a chain of tokens lets it say (script.py).
"""
import base64, csv, datetime, glob, io, json, os, re, resource, select, subprocess, sys, time
import script
from hostile import STR
from kit import ENV, SLOW, Skip, begin, case, check, done, equal, finish, fork_terminal, jsonl, new_folder, one_line, records, same, short, some, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(HERE, "llmrun")
TMP = new_folder("chat")
GREEDY = ("--temp", "0")


def tmp(name, data=None):
    path = os.path.join(TMP, name)
    if data is not None:
        with open(path, "w" if isinstance(data, str) else "wb") as f:
            f.write(data)
    return path


def run(*args, inp=None, timeout=60, **kw):
    """The command. inp: bytes for standard input, None is /dev/null."""
    return finish(begin([BIN, *args], stdin=subprocess.DEVNULL if inp is None else subprocess.PIPE, **kw), timeout, inp)


def good(*args, **kw):
    return done(run(*args, **kw), args).decode()


def refused(words, *args, code=2, **kw):
    """One line on stderr that holds the words, this exit code, nothing on stdout."""
    r = run(*args, **kw)
    check(r.rc == code and one_line(r.err) and words.encode() in r.err and not r.out,
          "%s: want exit %d and %r, got %r" % (" ".join(args), code, words, r))


def in_terminal(*args):
    """What the command prints where standard input and output are a terminal."""
    pid, fd = fork_terminal()
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
OPENS = THINKS.replace("{% if add_generation_prompt %}<|assistant|>",
                       "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")


def model(name, chains, template, **kw):
    path = tmp(name + ".gguf")
    return path if os.path.exists(path) else script.write(path, chains, template, **kw)


def thinker(name="thinker", template=THINKS):
    return model(name, [["<|assistant|>", "<think>", "\n", "hm", " so", "\n", "</think>", "Hello", " you", "<|end|>"],
                        ["\n", "hm"], ["so", "</think>"]], template)


def steady(name, template):
    """Thinks in five tokens, each with one follower."""
    return model(name, [["<|assistant|>", "<think>", "first", " second", " third", " fourth", "</think>", "Hello",
                         " you", "<|end|>"],
                        ["<think>\n", "first"], ["\n</think>\n\n", "Hello"]], template)


def chat(path, *args, **kw):
    return good("-m", path, "--chat", *GREEDY, *args, **kw)


def as_printed(answer):
    """What a run prints of the answer to a message."""
    return answer if answer.endswith("\n") else answer + "\n"


def rendered(path, *args):
    """The prompt as text and as ids."""
    text = chat(path, "-n", "0", "--echo", *args)
    ids = chat(path, "-n", "0", "--echo", "--ids", *args)
    return text, ids.split()


# --- templates: --render ---

OWN_TEMPLATES = os.path.join(HERE, "tests", "data", "templates")
EXAMPLES = os.path.join(os.path.abspath(os.environ.get("SHARED") or os.path.join(HERE, "..", "shared")), "data", "templates")
MADE = datetime.date(2026, 1, 2)       # the day on which the examples were made


def templates_days(text):
    """The text, and the text with the day of its making, in each form that templates write, replaced by today and by tomorrow: midnight may pass."""
    yield text
    for day in (datetime.date.today(), datetime.date.today() + datetime.timedelta(1)):
        out = text
        for form in ("%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d %b %Y"):
            out = out.replace(MADE.strftime(form), day.strftime(form))
        yield out


def templates_render(template, variables, *args, **kw):
    """--render of a template with variables; the result of the run."""
    path = tmp("render.jinja", template)
    return run("--render", "--chat-template-file", path, "-f",
               tmp("render.json", json.dumps({"messages": [], **variables})), *args, **kw)


def templates_refused(template, code, words, **kw):
    r = templates_render(template, {}, **kw)
    check(r.rc == code and one_line(r.err) and re.search(words, r.err.decode()) and not r.out,
          "%s: want exit %d and %r, got %r" % (template[:80], code, words, r))


@case
def templates_examples():
    """templates of models render the examples byte for byte"""
    own, shared = (sorted(glob.glob(os.path.join(folder, "*.json"))) for folder in (OWN_TEMPLATES, EXAMPLES))
    for path in own + shared:
        with open(path[:-5] + ".txt", encoding="utf-8", newline="") as f:
            want = list(templates_days(f.read()))
        got = good("--render", "--chat-template-file", path.rsplit(".ctx", 1)[0] + ".jinja", "-f", path)
        check(got in want, "%s: got %r" % (os.path.basename(path), got[:300]))
    check(len(own) == 2 and (not shared or len(shared) >= 40), "%d and %d examples" % (len(own), len(shared)))


@case
def templates_input():
    """--render reads a list or an object, a file or standard input, and writes exact bytes; without a template it says what is missing"""
    path = tmp("list.jinja", "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{{ x }}")
    messages = [{"role": "user", "content": "h\u00e9\n{{ x }}\0"}]
    same(good("--render", "--chat-template-file", path, inp=json.dumps(messages).encode()), "[user:h\u00e9\n{{ x }}\0]", "a list")
    same(good("--render", "--chat-template-file", path, "-f",
              tmp("in.json", json.dumps({"messages": messages, "x": 1.0}))), "[user:h\u00e9\n{{ x }}\0]1.0", "an object")
    r = run("--render", "--chat-template-file", path, inp=b'[{"role": "user", "content": "\xff\xc3("}]')
    same(r.out, b"[user:\xff\xc3(]", "bytes that are no UTF-8")
    r = run("--render", "--chat-template-file", path, "-v", "-o", tmp("out"), inp=json.dumps(messages).encode())
    check(r.rc == 0 and not r.out and re.search(rb"parsed in [0-9.]+ ms.* rendered in [0-9.]+ ms", r.err), "-v: %r" % r)
    refused("expected", "--render", "--chat-template-file", path, inp=b"[{")
    refused("expected a list of messages", "--render", "--chat-template-file", path, inp=b"1")
    refused("no template given", "--render", inp=b"[]")
    refused("No such file", "--render", "--chat-template-file", tmp("none"), inp=b"[]")


@case
def templates_wrong():
    """a template that is wrong, or that fails, ends with one line that names file and line, and exit 2"""
    for template, words in (("\n{{ x", "render.jinja:2: .*expected '}}'"),
                            ("a\n\n{% if x %}", "render.jinja:3: .*'endif'"), ("{% include 'x' %}", ":1: .*'include'.*refused"),
                            ("{% import 'x' as y %}", "'import'"), ("{% extends 'x' %}", "'extends'"),
                            ("\n{{ x|uppr }}", ":2: .*'uppr'.*upper"), ("{{ 1 // 0 }}", ":1: .*zero"),
                            ("{{ a.b }}", ":1: a is undefined"),
                            ("{{ raise_exception('no \x1b[31m\n way') }}", ":1: .*no .* way"),
                            ("{{ ''.__class__.x }}", "undefined")):
        templates_refused(template, 2, words)


@case
def templates_hostile():
    """a template that spends steps, memory, text, calls or levels ends with one line and exit 3, on a stack of 256 KiB"""
    def small():
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10))
    for template, words in (("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                             "steps"), ("{{ 'x' * 1000000000000 }}", "64 MiB"),
                            ("{% set x = 'x' * 1000000 %}{% for a in range(99) %}{{ x }}{% endfor %}", "16 MiB"),
                            ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "200 levels"),
                            ("{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}", "1000 levels"),
                            ("{% if 1 %}" * 100000, "1000 levels"), ("{% for x in 'a' %}" * 2000, "1000 levels"),
                            ("{{ " + "not " * 100000 + "1 }}", "1000 levels"),
                            ("{{ " + "1 if 0 else " * 50000 + "1 }}", "1000 levels")):
        templates_refused(template, 3, "render.jinja:1: .*" + words, preexec_fn=small)
    r = templates_render("{{ " + "(" * 990 + "1" + ")" * 990 + " }}{% macro a(n) %}{{ a(n - 1) if n else 'end' }}{% endmacro %}{{ a(199) }}", {}, preexec_fn=small)
    same((r.rc, r.out), (0, b"1end"), "what is within the limits")


# --- one answer ---

@case
def chat_answer():
    """--chat with -p, -f and a pipe asks the same; the answer ends at the template's mark"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    same(chat(m, "-p", "Hi"), "Hello you\n", "-p")
    same(chat(m, "-f", tmp("hi", "Hi")), "Hello you\n", "-f")
    same(chat(m, inp=b"Hi"), "Hello you\n", "a pipe")
    text, ids = rendered(m, "-p", "Hi")
    same(text, "<s><|user|>Hi<|end|><|assistant|>", "the prompt")
    same(chat(m, "-n", "0", "--echo", "-p", "A", inp=b"B"), "<s><|user|>A\nB<|end|><|assistant|>", "-p and a pipe")


@case
def chat_by_default():
    """a model with a template gets a message from -p, -f, a pipe and a line of a batch; --raw under each of its names continues the text, and so does a model without one"""
    m, bare = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE), model("bare", [["Hi", "there"]], None)
    asked, hi = "<s><|user|>Hi<|end|><|assistant|>", tmp("hi", "Hi")
    lines = tmp("hi.txt", "Hi\n" * 2)
    for how, kw in (("-p", "Hi"), {}), (("-f", hi), {}), ((), {"inp": b"Hi"}):
        show = ("-n", "0", "--echo", *how)
        same(good("-m", m, *show, **kw), asked, "%s, a message" % (how,))
        same(good("-m", m, *GREEDY, *how, **kw), "Hello you\n", "%s, its answer" % (how,))
        for raw in ("--raw", "--no-chat", "-no-cnv", "--no-conversation"):
            same(good("-m", m, *show, raw, **kw), "Hi", "%s %s" % (how, raw))
        same(good("-m", bare, *show, **kw), "Hi", "%s, no template" % (how,))
        for chat_ in ("--chat", "-cnv", "--conversation", "-st", "--single-turn", "--jinja"):
            same(good("-m", m, *show, chat_, **kw), asked, "%s %s" % (how, chat_))
            refused("tokenizer.chat_template", "-m", bare, *show, chat_, **kw)
    same(good("-m", m, "--raw", "-sys", "S", *GREEDY, "-n", "0", "--echo", "-p", "Hi"), "Hi", "--raw -sys")
    same(good("-m", m, "-sys", "S", *GREEDY, "-n", "0", "--echo", inp=b"Hi"),
         "<s><|system|>S<|end|><|user|>Hi<|end|><|assistant|>", "-sys")
    shapes = lambda path, *args: [r.body["object"] for _, r in sorted(records(run(
        "-m", path, "--batch", lines, "-n", "2", "-q", *args).out).items())]
    same(shapes(m), ["chat.completion"] * 2, "lines")
    same(shapes(m, "--raw"), ["text_completion"] * 2, "lines, --raw")
    same(shapes(bare), ["text_completion"] * 2, "lines, no template")
    got = lines_out(m, [{"prompt": "Hi", "max_tokens": 2}])
    same(got[1].body["object"], "text_completion", "a body with a prompt")
    for action in ("--score", "--tokenize", "--embed"):
        same(run("-m", m, action, "-p", "Hi", "-q").out, run("-m", m, action, "-p", "Hi", "-q", "--raw").out, action + " is raw")


@case
def chat_ends_with_a_newline():
    """the answer to a message ends with one newline, its own where it has one, and an empty one is an empty line; a raw continuation is exact bytes; -n 0 writes nothing"""
    for i, (said, want) in enumerate((("Hello", "Hello\n"), ("Hello\n", "Hello\n"), ("Hello\n\n", "Hello\n\n"), ("", "\n"))):
        m = model("newline%d" % i, [["<|assistant|>", *([said] if said else []), "<|end|>"]], SIMPLE)
        same(good("-m", m, *GREEDY, "-p", "Hi", "-q"), want, "%r in a pipe" % said)
        good("-m", m, *GREEDY, "-p", "Hi", "-q", "-o", tmp("said.txt"))
        same(open(tmp("said.txt")).read(), want, "%r in a file" % said)
        same(good("-m", m, *GREEDY, "--raw", "-p", "<|assistant|>", "-q"), said, "%r raw" % said)
        same(good("-m", m, *GREEDY, "-p", "Hi", "-q", "-n", "0"), "", "%r, -n 0" % said)


@case
def chat_loop_stop():
    """an answer without a bound ends where 512 tokens repeat, one line says so, and its finish reason is length; --loop-stop N, off; the same place alone, in a batch, with guesses, threads, a shifted context"""
    m = model("loop", [["<|assistant|>", "Hello", " you", " la", " lo", " li", " la"]], SIMPLE, context=4096)
    ask = ("-m", m, "-p", "Hi", "--json", *GREEDY)
    def tokens(*args):
        r = run(*ask, *args)
        a = json.loads(r.out)
        same((r.rc, a["finish_reason"]), (0, "length"), " ".join(args))
        return a["completion_tokens"], b"ends in a loop" in r.err, r.err
    n, said, err = tokens()
    same((n, said), (2 + 3 + 512, True), "by default")
    check(b"llmrun: the answer ends in a loop: its last 512 tokens repeat with a period of 3 (--loop-stop off goes on)\n" in err, repr(err))
    for args, want in (("--loop-stop", "7"), (2 + 3 + 7, True)), (("--loop-stop", "auto"), (517, True)), (("-n", "700"), (700, False)), \
                      (("-n", "700", "--loop-stop", "20"), (25, True)), (("-n", "700", "--loop-stop", "off"), (700, False)), (("-n", "517"), (517, False)):
        same(tokens(*args)[:2], want, " ".join(args))
    n, said, _ = tokens("--loop-stop", "off")
    check(n > 4000 and not said, "off: %d tokens" % n)
    for args in ("--no-lookup", "-t", "1"), ("--lookup", "-t", "2"), ("--draft-min", "5"), ("-b", "1"), ("-c", "100", "--context-shift"):
        same(tokens(*args)[:2], (517, True), " ".join(args))
    refused("--loop-stop", "-m", m, "-p", "Hi", "--loop-stop", "never")
    refused("out of range", "-m", m, "-p", "Hi", "--loop-stop", "-1")
    lines = [{"messages": ASK}, {"messages": ASK, "max_tokens": 600}, {"messages": ASK, "n": 2}, {"prompt": " la", "temperature": 0}]
    for args in (), ("-np", "1", "--no-lookup"), ("-t", "2", "--kv-block-size", "4", "--kv-blocks", "300"):
        r = run("-m", m, "--batch", tmp("loops.jsonl", jsonl(lines)), *GREEDY, *args)
        check(r.rc == 0 and b"llmrun: 4 answers end in a loop (--loop-stop off goes on)\n" in r.err, repr(r))
        got = [(c["finish_reason"], x.body["usage"]["completion_tokens"]) for _, x in sorted(records(r.out).items()) for c in x.body["choices"]]
        same(got, [("length", 517), ("length", 600), ("length", 2 * 517), ("length", 2 * 517), ("length", 515)], " ".join(args))


@case
def chat_of_several_parts():
    """-p, then the files of -f, a blank line between; standard input after them; -sysf is -sys with the text of a file, less one newline at its end"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    show = ("-m", m, "-n", "0", "--echo")
    a, b = tmp("a.txt", "A\n"), tmp("b.txt", "B")
    user = "<s><|user|>%s<|end|><|assistant|>"
    same(good(*show, "-f", b, "-p", "ask", "-f", a), user % "ask\n\nB\n\nA\n", "-p and two files")
    same(good(*show, "-p", "ask", "-f", a, "-f", b, inp=b"in"), user % "ask\n\nA\n\nB\n\nin", "and standard input")
    same(good(*show, "--raw", "-f", a, "-f", b, inp=b"in"), "A\n\nB", "files alone")
    for text, want in ("S", "S"), ("S\n", "S"), ("S\n\n", "S\n"), ("", ""):
        same(good(*show, "-p", "Hi", "-sysf", tmp("sys.txt", text)), good(*show, "-p", "Hi", "-sys", want), "-sysf %r" % text)
    refused("sys.txt: byte 1 is a NUL", *show, "-p", "Hi", "-sysf", tmp("sys.txt", b"S\0x"))
    refused("no-such-file", *show, "-p", "Hi", "--system-prompt-file", tmp("no-such-file"))
    refused("both give a system message", *show, "-p", "Hi", "-sys", "x", "-sysf", a)
    refused("is the system message itself", *show, "-p", "Hi", "-sysf", a, "-o", a)


@case
def chat_terminal():
    """a prompt given in a terminal is a message where the model has a template, and raw with --raw or without a template"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    bare = model("bare", [["Hi", "there"]], None)
    same(in_terminal("-q", "-m", m, *GREEDY, "-p", "Hi"), "Hello you\n", "by default")
    same(in_terminal("-q", "-m", m, *GREEDY, "-n", "0", "--echo", "-p", "Hi", "--raw"), "Hi\n", "--raw")
    same(in_terminal("-q", "-m", bare, *GREEDY, "-n", "0", "--echo", "-p", "Hi"), "Hi\n", "no template")


@case
def chat_tokens():
    """the ids of a chat are those of its rendering, with one start token, whether the template writes it or not"""
    answer = [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]]
    for m in (PIP, model("simple", answer, SIMPLE), model("silent", answer, SIMPLE.replace("{{ bos_token }}", ""))):
        for text in ("Hi", "two\n\nlines  and spaces ", "é 中文 😀", "<b>&amp; {{ x }} {% if %}", "", "<|im_sta", "<think>"):
            text_, ids = rendered(m, "-p", text)
            want = good("-m", m, "--tokenize", "--special", "-p", text_).split()
            start = good("-m", m, "--tokenize", "--bos", "-p", "").split()
            check(ids.count(start[0]) == 1, "%s, %r: start tokens in %s" % (os.path.basename(m), text, ids))
            check(ids == want or (ids == start + want and want[:1] != start),
                  "%s, %r: ids %s, the rendering has %s" % (os.path.basename(m), text, ids, want))


@case
def chat_contents():
    """a message that spells control tokens gets none of them; the template's are there"""
    for m, marks, turns in ((PIP, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], {"<|im_start|>": 2, "<|im_end|>": 1}),
                            (model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE),
                             script.CONTROL, {"<|user|>": 1, "<|end|>": 1, "<|assistant|>": 1})):
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
    m = model("splice", [["<|assistant|>", "Hello", "<|end|>"]],
              "{% for m in messages %}<|{{ m['content'] }}{{ m['role'] }}{% endfor %}")
    user = good("-m", m, "--tokenize", "--special", "-p", "<|user|>").strip()
    for content in ("user|>", "user|", "u"):
        check(user not in rendered(m, "-p", content)[1], "%r gave <|user|>" % content)
    m = model("roles", [["<|assistant|>", "Hello", "<|end|>"]], "{% for m in messages %}{{ m['role'] }}{% endfor %}")
    check(user not in rendered(m, "--messages",
                               tmp("role.json", json.dumps([{"role": "<|user|>", "content": ""}])))[1], "a role gave <|user|>")


@case
def chat_no_template():
    """a model without a template, and a template that cannot be used, are refused with a line that names them"""
    bare = model("bare", [["Hi", "there"]], None)
    refused("tokenizer.chat_template", "-m", bare, "--chat", "-p", "Hi")
    refused("no-such-file", "-m", bare, "--chat-template-file", tmp("no-such-file"), "-p", "Hi")
    refused("bad.jinja:2:", "-m", bare, "--chat-template-file", tmp("bad.jinja", "\n{% if %}"), "-p", "Hi")
    refused("no tools here", "-m", bare, "--chat-template-file",
            tmp("raises.jinja", "{{ raise_exception('no tools here') }}"), "-p", "Hi")
    broken = model("broken", [["Hi", "there", "<|end|>"]], "\n{% if %}")
    for args in ("-p", "Hi"), ("-f", tmp("hi", "Hi")):
        refused("chat_template:2:", "-m", broken, *args)
        refused("(--raw continues texts without the template)", "-m", broken, *args)
        same(good("-m", broken, "--raw", *GREEDY, *args), "there", "--raw")
    check(b"--raw" not in run("-m", broken, "--chat", "-p", "Hi").err, "--chat names --raw")
    got = lines_out(broken, [{"prompt": "Hi", "max_tokens": 1}, {"messages": ASK}], rc=1)
    check(got[1].body and "chat_template:2:" in got[2].error["message"], "lines: %r" % got)
    got = lines_out(broken, b"Hi\n", rc=1)
    check("chat_template:2:" in got[1].error["message"], "a line of text: %r" % got)
    same(good("-m", bare, "--chat-template-file", tmp("own.jinja", "[{{ messages[0]['content'] }}]"), "-n", "0",
              "--echo", "-p", "Hi"), "[Hi]", "a template of one's own")


@case
def chat_messages():
    """--messages takes a list or an object; a prompt beside it is one more message; what is wrong is named"""
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    turns = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"},
             {"role": "user", "content": [{"type": "text", "text": "C"}, {"type": "text", "text": "D"}]}]
    want = "<s><|user|>A<|end|><|assistant|>B<|end|><|user|>CD<|end|>"
    listed, held = tmp("list.json", json.dumps(turns)), tmp("held.json", json.dumps({"messages": turns}))
    for f in listed, held, tmp("marked.json", "\ufeff" + json.dumps(turns)):
        same(good("-m", m, "--messages", f, "-n", "0", "--echo"), want + "<|assistant|>", "messages")
        same(good("-m", m, "--messages", f), "Hello you\n", "the answer")
    same(good("-m", m, "--messages", listed, "-p", "E", "-n", "0", "--echo"), want + "<|user|>E<|end|><|assistant|>",
         "and a prompt")
    same(good("-m", m, "--messages", listed, "-sys", "S", "-n", "0", "--echo"),
         "<s><|system|>S<|end|>" + want[3:] + "<|assistant|>", "and a system message")
    for bad, words in (("[{", "bad.json: "), ("7", "expected a list of messages"), ('[{"role":1}]', "role is int"),
                       ('[{"content":"a"}]', "role is missing"), ("[]", "messages is empty"),
                       ('[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]', "type image_url"), 
                       ('[{"role":"user","content":3}]', "content is int")):
        refused(words, "-m", m, "--messages", tmp("bad.json", bad))
    refused("levels", "-m", m, "--messages", tmp("deep.json", "[" * 5000), code=3)
    refused("nowhere.json", "-m", m, "--messages", tmp("nowhere.json"))
    refused("--raw and --messages disagree", "-m", m, "--raw", "--messages", listed)


@case
def chat_variables():
    """variables of --chat-template-kwargs, of the model, and of the object of messages; what is no object is refused"""
    t = tmp("vars.jinja", "{{ bos_token }}|{{ eos_token }}|{{ x }}|{{ y }}|{{ messages[0]['content'] }}")
    m = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE)
    show = ("-m", m, "--chat-template-file", t, "-n", "0", "--echo")
    same(good(*show, "--chat-template-kwargs", '{"x": 1.5, "y": [true]}', "-p", "Hi"), "<s>|<|end|>|1.5|[True]|Hi", "kwargs")
    same(good(*show, "--chat-template-kwargs", '{"x": 1, "y": 2}', "--messages",
              tmp("x.json", '{"messages":[{"role":"user","content":"Hi"}],"x":7}')), "<s>|<|end|>|7|2|Hi", "an object's own")
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
    m = model("stop7", [["<|assistant|>", "Hello", " you", "<|stop7|>", "junk", "<|end|>"]],
              SIMPLE.replace("<|end|>", "<|stop7|>"), control=stop)
    same(chat(m, "-p", "Hi"), "Hello you\n", "its own end")
    same(good("-m", m, "--raw", *GREEDY, "-p", "<|assistant|>"), "Hello youjunk", "raw")
    m = model("turns", [["<|assistant|>", "Hello", " you", "<|user|>", "junk", "<|end|>"]], SIMPLE.replace("<|end|>", ""))
    same(chat(m, "-p", "Hi"), "Hello you\n", "the next turn")
    words = "{% for m in messages %}{{ '\\n\\n### ' + m['role'] }}:\n{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}{{ '\\n\\n### assistant:\\n' }}{% endif %}"
    m = model("words", [["assistant:\n", "Hello", " you", "\n\n### user:", "\nmore", "<|end|>"]], words)
    same(chat(m, "-p", "Hi"), "Hello you\n", "a text")
    same(chat(m, "-p", "Hi", "--stop", "you"), "Hello \n", "and a text of --stop")
    r = run("-m", m, "--chat", *GREEDY, "-p", "Hi", "--json")
    same(json.loads(r.out)["finish_reason"], "stop", "finish_reason")


@case
def chat_thinking():
    """standard output has the answer alone; --think show puts thinking on stderr; JSON has it as reasoning_content"""
    for m, label in ((steady("closed", THINKS), "the model opens"), (steady("open", OPENS), "the prompt opens")):
        hidden, shown = (run("-m", m, "--chat", *GREEDY, "-p", "Hi", *more) for more in ((), ("--think", "show")))
        same(hidden.out, b"Hello you\n", label)
        same(shown.out, b"Hello you\n", label + ", shown")
        check(b"first second third fourth\n" in shown.err and b"second" not in hidden.err
              and b"\x1b" not in shown.err, "%s: %r, %r" % (label, hidden.err, shown.err))
        a = json.loads(chat(m, "-p", "Hi", "--json"))
        same((a["text"], a["reasoning_content"]), ("Hello you", "first second third fourth"), label + ", JSON")
    check("reasoning_content" not in json.loads(chat(model("simple",
                                                           [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]],
                                                           SIMPLE), "-p", "Hi", "--json")), "no thinking")
    seen = in_terminal("-q", "-m", m, "--chat", *GREEDY, "-p", "Hi", "--think", "show")
    check("\x1b[2m" in seen and seen.replace("\x1b[2m", "").replace("\x1b[0m",
                                                                    "") == "first second third fourth\nHello you\n",
                                                                    "dimmed in a terminal: %r" % seen)
    plain = in_terminal("-q", "-m", m, "--chat", *GREEDY, "-p", "Hi")
    same(plain, "Hello you\n", "a terminal, hidden")
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
TOOLS = [{"type": "function", "function": {"name": "look", "description": "looks",
                                           "parameters": {"type": "object", "properties": {"where": {"type": "string"}}}}}]


@case
def chat_calls():
    """calls of tools are objects on lines of their own, tool_calls in JSON; without tools they are content"""
    said = '\n<tool_call>\n{"name": "look", "arguments": {"where": "here"}}\n</tool_call>'
    m = model("calls", [["<|assistant|>", "Well", said, "<|end|>"]], CALLS)
    tools = tmp("look.json", json.dumps(TOOLS))
    same(chat(m, "-p", "Hi", "--tools", tools), 'Well\n{"name":"look","arguments":{"where": "here"}}\n', "text")
    same(chat(m, "-p", "Hi"), "Well" + said + "\n", "no tools")
    a = json.loads(chat(m, "-p", "Hi", "--tools", tools, "--json"))
    call = a["tool_calls"][0]
    same((a["text"], a["finish_reason"], call["type"], call["function"]["name"],
          json.loads(call["function"]["arguments"])), ("Well", "tool_calls", "function", "look", {"where": "here"}), "JSON")
    acts = model("calls-act", [["<|assistant|>", said.replace('"here"', '"h\u202ee\u009bre"'), "<|end|>"]], CALLS)
    same(chat(acts, "-p", "Hi", "--tools", tools), '{"name":"look","arguments":{"where": "h\\u202ee\\u009bre"}}\n', "characters that act on a terminal")
    turns = [{"role": "user", "content": "Hi"},
             {"role": "assistant", "content": "Well", "tool_calls": a["tool_calls"]}, {"role": "tool", "content": "nothing"}]
    past = rendered(m, "--messages", tmp("called.json", json.dumps({"messages": turns, "tools": TOOLS})))[0]
    check("<|assistant|>Well" + said + "<|end|><|tool|>nothing" in past, "the past is not what was said: %r" % past)


@case
def chat_calls_sent_back():
    """a message with calls and without content, as OpenAI's clients send it back, renders as one whose content is the empty text: its call is there, no error, None or null; the older function_call too"""
    paths = [p for folder in (OWN_TEMPLATES, EXAMPLES) for p in sorted(glob.glob(os.path.join(folder, "*.jinja")))]
    paths += [tmp("writes-none.jinja", CALLS),                                   # writes None for null
              tmp("adds.jinja", CALLS.replace("{{ m['content'] }}", "{{ '' + m['content'] }}")),          # fails on null
              tmp("only-null.jinja", CALLS.replace("{% for c in m.tool_calls or [] %}", "{% for c in m.tool_calls if m['content'] is none %}")
                  .replace("{{ m['content'] }}", "{{ m['content'] or '' }}"))]     # writes calls beside null alone
    path, n = model("wide", [["<|assistant|>", "Hello", "<|end|>"]], SIMPLE, context=16384), 0
    call = {"name": "look", "arguments": json.dumps({"where": "Qxplace"})}
    ask = lambda message, result: {"tools": TOOLS, "messages": [{"role": "user", "content": "Hi"}, dict(message, role="assistant"),
                                                                dict(result, content="42")]}
    for template in paths:
        name = os.path.basename(template)
        new = {"tool_calls": [{"id": "call00000", "type": "function", "function": call}]}
        result = {"role": "tool", "tool_call_id": "call00000", "name": "look"}
        chats = [ask(dict(new, content=""), result), ask(new, result), ask(dict(new, content=None), result),
                 ask({"content": None, "function_call": call}, {"role": "function", "name": "look"})]
        runs = [run("-m", path, "--chat", "--chat-template-file", template, "-n", "0", "--echo", "--messages",
                    tmp("back.json", json.dumps(c))) for c in chats]
        if b"must alternate" in runs[0].err:          # a template without tools
            continue
        for r in runs:
            check(r.rc == 0 and r.out == runs[0].out, "%s: %r, not as with an empty text: %r" % (name, r, runs[0]))
        check(not re.search("None|null", runs[0].out.decode().split("Hi")[-1].split("42")[0]), "%s: %r" % (name, runs[0].out))
        n += b"Qxplace" in runs[0].out
        check(os.path.dirname(template) == EXAMPLES or b"Qxplace" in runs[0].out, "%s: no call: %r" % (name, runs[0]))
    check(n >= (13 if len(paths) > 5 else 5), "%d of %d templates show the call" % (n, len(paths)))


@case
def chat_developer():
    """the role developer is system where a template does not name it, and stays where it does"""
    turns = lambda role: json.dumps([{"role": role, "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    names = SIMPLE.replace("{{ bos_token }}", "{% if messages[0].role == 'developer' %}dev {% endif %}")
    for name, template, want in (("simple", SIMPLE, "<|system|>Be brief."), ("names", names, "dev <|developer|>Be brief.")):
        m = model("developer-" + name, [["<|assistant|>", "Hello", "<|end|>"]], template)
        text = rendered(m, "--messages", tmp("dev.json", turns("developer")))[0]
        check(want in text, "%s: %r" % (name, text))
        if name == "simple":
            same(text, rendered(m, "--messages", tmp("dev.json", turns("system")))[0], "as system")


@case
def chat_cut_thinking():
    """an answer that ends inside its thinking has no content, and a line says so"""
    m = steady("open", OPENS)
    r = run("-m", m, "--chat", *GREEDY, "-p", "Hi", "-n", "2")
    check(r.rc == 0 and r.out == b"\n" and b"inside its thinking" in r.err, "%r" % r)


@case
def chat_repeatable():
    """one answer is the same for any number of threads, with and without guesses, sampled or not"""
    for sampled in (GREEDY, ("-s", "5")):
        got = {good("-m", PIP, "--chat", "-p", "Who has the red ball?", "-n", "24", *sampled, *more)
               for more in (("-t", "1"), ("-t", "2"), ("--no-lookup",), ("--draft-min", "3"),
                            ("-md", DRAFT, "--draft-min", "2"), ("-ub", "3"))}
        same(len(got), 1, "%r" % got)


@case
def chat_learning_is_bounded():
    """a template that makes too much of a few words: exit 3 and one line that says how much"""
    for template, words in (("{% for m in messages %}{{ m.content }}{% endfor %}{% for i in range(14) %}{{ 'x' * 1000000 }}{% endfor %}", b"becomes 1400"),
                            ("{% for i in range(9999) %}{% for j in range(60) %}{% endfor %}{% endfor %}{{ messages[0].content }}", b"more than 2000000 steps")):
        r = run("-m", PIP, "--chat", "--chat-template-file", tmp("much.jinja", template), "-p", "Hi")
        check(r.rc == 3 and one_line(r.err) and words in r.err and not r.out, "%r" % r)


# --- calls in the words of models' templates ---

SHARED = os.environ.get("SHARED", os.path.join(HERE, "..", "shared"))
LOOK = {"where": "a \"b\" it's <c> \u00e9\U0001f600", "deep": 3}
DEEP = [{"type": "function", "function": {"name": "look", "description": "looks",
                                          "parameters": {"type": "object", "required": ["where"], "properties": {
    "where": {"type": "string", "description": "a place"}, "deep": {"type": "integer", "description": "steps"}}}}}]
TAG = r"(</s>|<[|\uff5c][^<>]*[|\uff5c]>|<[^<>|\uff5c]+[|]>|\[[A-Z_]+\])"


def said_by(template, name):
    """What a template writes for a call, behind its prompt: (last piece of the prompt, pieces of the answer, the token that ends it), or None where the prompt does not lead to it."""
    ask = {"role": "user", "content": "Question"}
    call = {"role": "assistant", "content": "",
            "tool_calls": [{"id": "abcdefgh1", "type": "function", "function": {"name": "look", "arguments": LOOK}}]}
    texts = []
    for messages, prompt in (([ask], True), ([ask, call], False)):
        given = tmp("given.json", json.dumps({"messages": messages, "tools": DEEP, "add_generation_prompt": prompt,
                                              "bos_token": "<s>", "eos_token": "</s>"}))
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
    paths, n = [p for folder in (OWN_TEMPLATES, os.path.join(SHARED, "data", "templates"))
                for p in sorted(glob.glob(os.path.join(folder, "*.jinja")))], 0
    tools = tmp("deep.json", json.dumps(DEEP))
    for path in paths:
        name = os.path.basename(path)
        said = said_by(path, name)
        if not said:
            continue
        last, pieces = said
        tags = list(dict.fromkeys(t for t in [last, *pieces] if re.fullmatch(TAG, t)))
        end = pieces[-1] if re.fullmatch(TAG, pieces[-1]) else "</s>"
        chain = [last, *pieces, *([end] if end != pieces[-1] else [])]
        m = model("models-" + name, [chain], open(path).read(),
                  control=["<s>", "</s>", *(t for t in tags if t != "</s>")], end=end, context=8192)
        a = json.loads(good("-m", m, "--chat", *GREEDY, "-p", "Question", "--tools", tools, "--json", "-n", "64"))
        same([(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in a.get("tool_calls") or []],
             [("look", LOOK)], "%s: %r from %r" % (name, a.get("text"), pieces))
        same((a["finish_reason"], a["text"]), ("tool_calls", ""), name)
        n += 1
    check(n >= (10 if len(paths) > 2 else 2), "%d of %d templates were tried" % (n, len(paths)))


# --- chat lines of batch files ---

TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a place",
                                         "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}
ASK = [{"role": "user", "content": "Hi"}]
# Tokens that say what each answer of the model below is; the template's last tokens choose the answer.
ANSWERS = [["<|assistant|>", "<think>", "\nHm", ", hm", ".\n", "</think>", "\n\n", "Hello", " there", " you", "!", "<|end|>"],
           ["<|assistant|>", "Good", " day", "!", "<|end|>"],
           ["<|calls|>", "<tool_call>", "\n", '{"name": "weather"', ', "arguments": {"place": "', "Ulm", '"}}',
            "\n</tool_call>", "<|end|>"],
           ["<|calls|>", "I look", ". ", "<tool_call>"], ["\n</tool_call>", "\n<tool_call>", "\n"],
           ["<0x22>", "weather", '", "arguments": ', '{"place": "Ulm"}', "}", "\n</tool_call>"], ["<0x20>", '{"place": "Ulm"}']]
CHATML = ("{%- for m in messages %}<|{{ m.role }}|>"
          "{%- if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content or '' }}"
          "{%- for c in m.tool_calls or [] %}<tool_call>\n{{ (c.function or c) | tojson }}\n</tool_call>{% endfor %}<|end|>"
          "{%- endfor %}{% if tools %}<|tool|>{{ tools | tojson }}<|end|>{% endif %}"
          "{%- if add_generation_prompt %}{% if tools %}<|calls|>{% else %}<|assistant|>{% endif %}{% endif %}")


def chatty(answers=None, template=CHATML, **kw):
    """A model that answers so."""
    return script.write(tmp("chatty.gguf"), answers or ANSWERS, template, control=[*script.CONTROL, "<|calls|>"], **kw)


def lines_out(model, lines, *args, rc=0):
    """The records of a file of these lines."""
    path = tmp("chat.jsonl", lines if isinstance(lines, bytes) else jsonl(lines))
    r = run("-m", model, "--batch", path, "-q", *args)
    check(r.rc == rc, "%s: want exit %d, got %r" % (" ".join(args), rc, r))
    return records(r.out)


def said(record, i=0):
    return record.body["choices"][i]["message"]


def shape(r, ask, where):
    """A record has the form of OpenAI's chat completion, and its parts agree with each other and with the body."""
    n = ask.get("n", 1)
    same(list(r.body), ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"], where + "keys of the body")
    same((r.body["id"], r.body["object"]), ("chatcmpl-%d" % r.no, "chat.completion"), where + "kind")
    same([c["index"] for c in r.body["choices"]], list(range(n)), where + "choices")
    use = r.body["usage"]
    same(use["total_tokens"], use["prompt_tokens"] + use["completion_tokens"], where + "total")
    check(0 <= use["prompt_tokens_details"]["cached_tokens"] <= n * use["prompt_tokens"], where + repr(use))
    for c in r.body["choices"]:
        m, lp = c["message"], c["logprobs"]
        same([k for k in c if k != "bytes"], ["index", "message", "logprobs", "finish_reason"], where + "keys of a choice")
        same([k for k in m if k not in ("reasoning_content", "tool_calls")], ["role", "content", "refusal"],
             where + "keys of a message")
        same((m["role"], m["refusal"]), ("assistant", None), where + "message")
        calls = m.get("tool_calls", [])
        check(isinstance(m["content"], str) or (m["content"] is None and calls), where + "content %r" % m["content"])
        check(m.get("reasoning_content", "x") and ("tool_calls" not in m or calls), where + "an empty part")
        check(c["finish_reason"] in (("tool_calls", "length") if calls else ("stop", "length")), where + c["finish_reason"])
        for call in calls:
            same((list(call), call["type"], list(call["function"])),
                 (["id", "type", "function"], "function", ["name", "arguments"]), where + "a call")
            check(call["id"] and isinstance(json.loads(call["function"]["arguments"]), dict), where + "a call: %r" % call)
        same(len({call["id"] for call in calls}), len(calls), where + "ids of calls")
        same(lp is not None, bool(ask.get("logprobs")), where + "logprobs")
        for t in lp["content"] if lp else []:
            same(list(t), ["token", "logprob", "bytes", "top_logprobs"], where + "a token")
            same([list(x) for x in t["top_logprobs"]], [["token", "logprob", "bytes"]] * ask.get("top_logprobs", 0),
                 where + "alternatives")
            for x in (t, *t["top_logprobs"]):
                same(bytes(x["bytes"]).decode("utf-8", "replace"), x["token"], where + "bytes of a token")
                check(x["logprob"] <= 1e-6, where + "a logprob %r" % x["logprob"])
        if lp:
            same(list(lp), ["content", "refusal"], where + "keys of logprobs")


@case
def batch_shape():
    """chat lines answer in the form of OpenAI's chat completions: contents, thinking, calls, log-probabilities with bytes, several choices"""
    model, body = chatty(), {"messages": ASK, "temperature": 1}
    asks = [body, dict(body, n=5, seed=3), dict(body, logprobs=True, seed=1),
            dict(body, logprobs=True, top_logprobs=4, n=2), dict(body, tools=[TOOL], n=6, seed=2),
            dict(body, max_completion_tokens=3, logprobs=True), dict(body, logprobs=False, top_logprobs=0),
            dict(body, max_tokens=0)]
    lines = [a if i % 2 else {"custom_id": "c%d" % i, "method": "POST", "url": "/v1/chat/completions",
                              "body": dict(a, model="m")} for i, a in enumerate(asks)]
    got = lines_out(model, lines)
    same(sorted(got), list(range(1, len(lines) + 1)), "lines")
    for no, r in got.items():
        check(r.error is None, "line %d: %r" % (no, r.error))
        shape(r, asks[no - 1], "line %d: " % no)
        for c in r.body["choices"]:
            if c["logprobs"] and c["finish_reason"] == "stop":
                whole = "".join(t["token"] for t in c["logprobs"]["content"])
                check(whole in ("<think>\nHm, hm.\n</think>\n\nHello there you!", "Good day!"),
                      "tokens of line %d: %r" % (no, whole))
    kinds = {(m["content"], m.get("reasoning_content")) for r in got.values() for m in (c["message"] for c in r.body["choices"])}
    check({("Hello there you!", "Hm, hm."), ("Good day!", None)} <= kinds, "answers: %r" % kinds)
    calls = [c["message"] for c in got[5].body["choices"]]
    check(all(x["function"] == {"name": "weather", "arguments": '{"place": "Ulm"}'} for m in calls
              for x in m["tool_calls"]), "calls: %r" % calls)
    check(any(m["content"] is None for m in calls) and any(m["content"] for m in calls)
          and any(len(m["tool_calls"]) > 1 for m in calls), "kinds of answers with calls: %r" % calls)


@case
def batch_equals_messages():
    """a chat line says what --messages says with the same seed, to the byte; with one and two threads, with guesses and without, alone and with others"""
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who <|end|> are \u00e9 you?"},
            {"role": "assistant", "content": "Pip."},
            {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "where?"}]}]
    template = tmp("pip.jinja", b"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")
    for model, more in ((chatty(), ()), (PIP, ("--chat-template-file", template))):
        lines = [{"messages": m, "seed": s, "max_tokens": 40, "temperature": 1} for s in range(3) for m in (talk, ASK, talk[:2])]
        want = []
        for i, line in enumerate(lines):
            path = tmp("messages.json", json.dumps(line["messages"]))
            want.append(good("-m", model, "--messages", path, "-s", str(line["seed"]), "-n", "40", "--temp", "1",
                             "-q", "-t", str(1 + i % 2), *more))
        draft = ["-md " + DRAFT] if model == PIP else []
        for args in some(["-t 1", "-t 2 -np 3", "-t 2 --no-lookup", "-t 1 --lookup", "-np 1 --batch-order input", *draft]):
            got = lines_out(model, lines, *args.split(), *more)
            same([as_printed(said(r)["content"]) for _, r in sorted(got.items())], want, "%s of %s" % (args, os.path.basename(model)))


@case
def batch_prompt_is_render():
    """the prompt of a chat line is what --render prints for its messages, its tools and the variables of its body"""
    show = "{{ messages | tojson }} {{ tools is defined and tools }} {{ enable_thinking is defined and enable_thinking }} {{ reasoning_effort | default('none') }} {{ big | default(0) }} {{ add_generation_prompt }}"
    model = chatty(template=show + CHATML)
    big = 10**30
    for body in ({"messages": ASK}, {"messages": ASK, "tools": [TOOL]},
                 {"messages": ASK, "tools": [TOOL], "tool_choice": "auto"}, {"messages": ASK, "reasoning_effort": "high"},
                 {"messages": ASK, "chat_template_kwargs": {"enable_thinking": True, "big": big}},
                 {"messages": [dict(ASK[0], extra={"a": [1.5, None, big]})]},
                 {"messages": [{"role": "user", "content": "\ufffd\U0001f600\u0000{{ 1 }}"},
                               {"role": "assistant", "content": "",
                                "tool_calls": [{"id": "x", "type": "function",
                                                "function": {"name": "f", "arguments": {"a": big}}}]},
                               {"role": "tool", "content": "5", "tool_call_id": "x"}]}):
        r = run("-m", model, "--batch", tmp("one.jsonl", jsonl([dict(body, max_tokens=1)])), "-q", "--batch-fields", "prompt")
        check(r.rc == 0, repr(r))
        variables = {k: v for k, v in body.items() if k in ("messages", "tools", "reasoning_effort")}
        path = tmp("render.json", json.dumps(dict(variables, **body.get("chat_template_kwargs", {}), add_generation_prompt=True)))
        same(json.loads(r.out)["prompt"], good("--render", "-m", model, "-f", path, "-q"), short(body))


@case
def batch_keys():
    """every key of a chat body changes its answer, and null changes nothing"""
    model, body = chatty(), {"messages": ASK, "temperature": 1, "seed": 4}
    one = lambda **more: next(iter(lines_out(model, [dict(body, **more)]).values()))
    base = one()
    for more in ({"max_tokens": None, "max_completion_tokens": None, "n": None, "stop": None, "logprobs": None,
                  "top_logprobs": None, "tools": None, "tool_choice": None, "parallel_tool_calls": None,
                  "chat_template_kwargs": None, "reasoning_effort": None, "response_format": None, "grammar": None},
                  {"tools": [], "tool_choice": "none", "parallel_tool_calls": True, "chat_template_kwargs": {}},
                 {"response_format": {"type": "text"}, "model": "x", "user": "u", "metadata": {}, "store": False,
                  "service_tier": "auto", "stream": False}):
        same(one(**more).body["choices"], base.body["choices"], short(more))
    by_seed = {s: said(one(seed=s)) for s in range(8)}
    same(len({m["content"] for m in by_seed.values()}), 2, "answers of eight seeds")
    same([c["message"] for c in one(n=8, seed=0).body["choices"]], [by_seed[s] for s in range(8)],
         "n draws with seeds that follow each other")
    thinks = next(s for s, m in by_seed.items() if "reasoning_content" in m)
    cut = one(seed=thinks, max_completion_tokens=3)
    same((said(cut), cut.body["choices"][0]["finish_reason"], cut.body["usage"]["completion_tokens"]),
         ({"role": "assistant", "content": "", "reasoning_content": "Hm, hm", "refusal": None}, "length", 3),
         "max_completion_tokens")
    stop = one(seed=thinks, stop=[" you", "nothing"])
    same((said(stop)["content"], stop.body["choices"][0]["finish_reason"]), ("Hello there", "stop"), "stop")
    good_id = good("-m", model, "--tokenize", "-p", "Good").split()[0]
    check(all("reasoning_content" in said(one(seed=s, logit_bias={good_id: -100})) for s in range(5)), "logit_bias")


@case
def batch_calls():
    """tools and tool_choice: none leaves the tools out, required and a named function begin with a call, parallel_tool_calls false keeps one"""
    model, body = chatty(), {"messages": ASK, "temperature": 1,
                             "tools": [TOOL, {"type": "function", "function": {"name": "other"}}]}
    one = lambda rc=0, **more: next(iter(lines_out(model, [dict(body, **more)], rc=rc).values()))
    for s in range(6):
        auto, none, must, named, single = (one(seed=s, **x)
                                           for x in ({}, {"tool_choice": "none"}, {"tool_choice": "required"},
                                                     {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
                                                                      {"parallel_tool_calls": False}))
        same(said(none), said(one(seed=s, tools=[])), "tool_choice none is no tools")
        check(said(must)["tool_calls"] and not said(must)["content"]
              and must.body["choices"][0]["finish_reason"] == "tool_calls", "required: %r" % must.body)
        same(said(named)["tool_calls"][0]["function"]["name"], "weather", "a named function")
        same((said(single)["content"], [c["function"] for c in said(single)["tool_calls"]]),
             (said(auto)["content"], [said(auto)["tool_calls"][0]["function"]]), "one call")
    cut = one(tool_choice={"type": "function", "function": {"name": "other"}}, max_tokens=1, temperature=0, rc=1)
    same((said(cut), cut.body["choices"][0]["finish_reason"]),
         ({"role": "assistant", "content": '<tool_call>\n{"name": "other", "arguments": \n', "refusal": None}, "length"),
         "a call that is cut stays content")


@case
def batch_functions():
    """OpenAI's older functions and function_call: the prompt and the call of tools and tool_choice, in the older form, one call at most; sent back they are calls of the past"""
    model, fn = chatty(), TOOL["function"]
    one = lambda **more: next(iter(lines_out(model, [dict({"messages": ASK, "temperature": 1}, **more)]).values()))
    for s in range(6):
        for old, new in (({}, {}), ({"function_call": "none"}, {"tool_choice": "none"}), ({"function_call": "auto"}, {"tool_choice": "auto"}),
                         ({"function_call": {"name": "weather"}}, {"tool_choice": {"type": "function", "function": {"name": "weather"}}})):
            a, b = one(seed=s, functions=[fn], **old), one(seed=s, tools=[TOOL], parallel_tool_calls=False, **new)
            calls = said(b).pop("tool_calls", None)
            finish = b.body["choices"][0]["finish_reason"]
            want = dict(said(b), **({"function_call": calls[0]["function"]} if calls else {}))
            same((said(a), a.body["choices"][0]["finish_reason"], a.body["usage"]["prompt_tokens"]),
                 (want, "function_call" if calls else finish, b.body["usage"]["prompt_tokens"]), "seed %d, %r" % (s, old))
    check(calls and calls[0]["function"] == {"name": "weather", "arguments": '{"place": "Ulm"}'}, "a call: %r" % calls)
    tokens = lambda message, result: one(messages=[*ASK, message, result], functions=[fn], max_tokens=1).body["usage"]["prompt_tokens"]
    same(tokens(dict(said(a)), {"role": "function", "name": "weather", "content": "hot"}),
         tokens({"role": "assistant", "content": "", "tool_calls": [{"id": "call00000", "type": "function", "function": said(a)["function_call"]}]},
                {"role": "tool", "content": "hot"}), "sent back")


@case
def batch_continues():
    """continue_final_message: the prompt ends with the text of the last message, and the answer goes on with it, as the template alone would have it; add_generation_prompt as the template takes it"""
    model = chatty([["<|assistant|>", "Good", " day", "!", "<|end|>"], ["<think>", "Hm", ", hm", "</think>", "So", "<|end|>"],
                    ["\n\n", "So"]], context=16384)
    lines = lambda text, **more: dict({"messages": [*ASK, {"role": "assistant", "content": text}], "continue_final_message": True}, **more)
    prompt = lambda line, *args: json.loads(good("-m", model, "--batch", tmp("cont.jsonl", jsonl([dict(line, max_tokens=1)])), "-q",
                                                 "--batch-fields", "prompt", *args))["prompt"]
    frame = "<|user|>Hi<|end|><|assistant|>"
    for text in "Good", "Good ", "d", "<|end|>", "\u00e9\U0001f600 <b", "a\nGood":
        same(prompt(lines(text)), frame + text, "%r" % text)
    for text in "Good", "end", "|":
        same(prompt(lines(text, messages=[*ASK, {"role": "assistant", "content": [{"type": "text", "text": text}]}],
                          add_generation_prompt=False)), frame + text, "%r in parts" % text)
    same(prompt({"messages": ASK, "add_generation_prompt": False}), "<|user|>Hi<|end|>", "add_generation_prompt false")
    same(prompt({"messages": ASK, "add_generation_prompt": True}), frame, "add_generation_prompt true")
    got = lines_out(model, [lines("Good"), lines("Good", regex=" day."), lines("Good", n=2), lines("", max_tokens=2), lines(None),
                            lines("Good", messages=[*ASK, {"role": "user", "content": "Good"}])], rc=1)
    same([said(got[no])["content"] for no in (1, 2, 3, 6)], [" day!"] * 4, "answers")
    for no in 4, 5:
        check("has no text" in got[no].error["message"], "no text: %r" % got[no].error)
    m = steady("open", OPENS)
    got = lines_out(m, [lines("<think>first", temperature=0), lines("<think>first</think>Hello", temperature=0)])
    same([(said(got[no]).get("reasoning_content"), said(got[no])["content"]) for no in (1, 2)],
         [("second third fourth", "Hello you"), (None, " you")], "inside and behind thinking")
    n = 0
    for template in [p for folder in (OWN_TEMPLATES, EXAMPLES) for p in sorted(glob.glob(os.path.join(folder, "*.jinja")))]:
        text = prompt(lines("Qx is 7"), "--chat-template-file", template)
        check(text.endswith("Qx is 7") and text.count("Qx is 7") == 1, "%s: %r" % (template, text))
        n += 1
    check(n >= 2, "%d templates" % n)
    trims = chatty([["<|assistant|>", "Good", " day", "<|end|>"]], template=CHATML.replace("{{ m.content or '' }}", "{{ (m.content or '') | trim | replace('x', 'y') }}"))
    got = lines_out(trims, [lines("Good  "), lines("x")], rc=1)
    check(said(got[1])["content"] == " day" and "as it is" in got[2].error["message"], "templates that change texts: %r" % got)


@case
def batch_other_keys():
    """keys of OpenAI that change nothing change nothing; skip_special_tokens false keeps control tokens in the text; stop_token_ids and min_tokens of a chat"""
    body = {"messages": ASK, "temperature": 1, "seed": 4}
    odd = chatty([["<|assistant|>", "Good", "<|system|>", " day", "!", "<|end|>"], ["!", "!"]])
    ids = {t: int(good("-m", odd, "--tokenize", "--special", "-p", t).split()[-1]) for t in ("!", "<|system|>")}
    more = [{}, {"verbosity": "low", "prompt_cache_key": "k", "prompt_cache_retention": "24h", "safety_identifier": "u", "modalities": ["text"]},
            {"skip_special_tokens": True}, {"skip_special_tokens": False}, {"stop_token_ids": [ids["!"]]},
            {"stop_token_ids": [ids["<|system|>"]]}, {"min_tokens": 9}, {"min_tokens": 9, "ignore_eos": True, "max_tokens": 12}]
    for args in ("-np", "1", "--no-lookup"), ("-np", "8", "-t", "2"):
        got = lines_out(odd, [dict(body, **m) for m in more], *args)
        texts = [said(got[no])["content"] for no in range(1, 9)]
        short = [t.rstrip("!") for t in texts]
        same(short, ["Good day"] * 3 + ["Good<|system|> day", "Good day", "Good"] + ["Good day"] * 2, "texts")
        same((texts[4], texts[5]), ("Good day", "Good"), "stop tokens")
        used = [got[no].body["usage"]["completion_tokens"] for no in (7, 8)]
        check(used[0] >= 9 and used[1] == 12, "min_tokens: %r" % used)
    bad = lines_out(odd, [dict(body, modalities=["text", "audio"])], rc=1)[1].error
    same((bad["code"], "audio" in bad["message"]), ("unsupported", True), "modalities")


KEEPS = [{"type": "function", "function": {"name": "look",
                                           "parameters": {"type": "object",
                                                          "properties": {"where": {"type": "string", "maxLength": 6},
                                                                         "n": {"type": "integer", "minimum": 1, "maximum": 5},
          "unit": {"enum": ["m", "km"]}}, "required": ["where", "n"], "additionalProperties": False}}},
         {"type": "function", "function": {"name": "put_2",
                                           "parameters": {"type": "object",
                                                          "properties": {"on": {"type": "boolean"},
                                                                         "tags": {"type": "array", "items": {"enum": ["a", "b", 7]}, "maxItems": 2}}}}}]
CHATML_XML = CHATML.replace("<tool_call>\n{{ (c.function or c) | tojson }}\n</tool_call>",
                            "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>")
CHOICES = [{"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "put_2"}}},
           {"tool_choice": "required", "parallel_tool_calls": False}, {"tool_choice": "auto"}, {"tool_choice": "none"}]


@case
def batch_calls_keep_schemas():
    """a model that draws at random: its calls are of the tools, as tool_choice wants them, with arguments that python3-jsonschema finds valid; as JSON and as tagged parameters"""
    try:
        import jsonschema
    except ImportError:
        raise Skip("no python3-jsonschema")
    valid = {t["function"]["name"]: jsonschema.Draft202012Validator(t["function"]["parameters"]) for t in KEEPS}
    for name, template in ("json", CHATML), ("xml", CHATML_XML):
        path = tmp("keeps-%s.jinja" % name, template)
        lines = [dict({"custom_id": "%d-%d" % (k, s), "messages": ASK, "tools": KEEPS, "seed": s, "temperature": 1.5,
                       "max_tokens": 60}, **c) for k, c in enumerate(CHOICES) for s in range(4)]
        kinds, texts = [0] * len(CHOICES), []
        for args in ("-np", "8"), ("-np", "1", "--threads", "1"):
            got = lines_out(PIP, lines, "--chat", "--chat-template-file", path, "--close", *args)
            texts.append({r.whole["custom_id"]: r.body["choices"][0] for r in got.values()})
        same({k: (r["message"]["content"], r["finish_reason"]) for k, r in texts[0].items()},
             {k: (r["message"]["content"], r["finish_reason"]) for k, r in texts[1].items()}, "alone and together")
        for key, r in texts[0].items():
            kind, calls = int(key.split("-")[0]), r["message"].get("tool_calls") or []
            if kind < 3:
                check(calls and not r["message"]["content"], "%s %s: no call: %r" % (name, key, r))
            check(kind != 4 or not calls, "%s %s: a call with tool_choice none" % (name, key))
            check(kind != 2 or len(calls) == 1, "%s %s: more than one call" % (name, key))
            for c in calls:
                tool, args = c["function"]["name"], json.loads(c["function"]["arguments"])
                check(tool in valid and (kind != 1 or tool == "put_2"), "%s %s: a call of %s" % (name, key, tool))
                check(valid[tool].is_valid(args), "%s %s: %s of %r" % (name, key, tool, args))
            kinds[kind] += len(calls)
        check(all(kinds[:3]), "%s: calls of each kind: %r" % (name, kinds))


REMOTE = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"a": {"$ref": "http://example.com/a"}, "b": {"type": "string"}}}}}


@case
def batch_calls_refused():
    """a tool whose schema cannot be held: with tool_choice auto its arguments are any object, with a warning in the record that names the tool and the place, alone and beside others; a call that is required is an error; "strict": false says nothing"""
    free = dict(REMOTE, function=dict(REMOTE["function"], strict=False))
    line = lambda name, tools, **more: dict({"custom_id": name, "messages": ASK, "tools": tools, "seed": 2}, **more)
    lines = [line("auto", [REMOTE]), line("beside", [TOOL, REMOTE]), line("again", [TOOL, REMOTE], seed=3),
             line("must", [REMOTE], tool_choice="required"), line("free", [free]), line("fine", [TOOL])]
    texts = []
    for args in ("-np", "1"), ("-np", "6"):
        got = {r.whole["custom_id"]: r for r in lines_out(chatty(), lines, *args, rc=1).values()}
        for name in "auto", "beside", "again":
            same(len(got[name].whole["warnings"]), 1, name)
            for word in "parameters of the tool f", "/properties/a", "the arguments of this tool are any JSON object":
                check(word in got[name].whole["warnings"][0], "%s: %r" % (name, got[name].whole["warnings"]))
        check("parameters of the tool f" in str(got["must"].error), "required: %r" % got["must"].error)
        for name in "must", "free", "fine":
            check("warnings" not in got[name].whole, "%s: %r" % (name, got[name].whole))
        check(got["free"].body["choices"], "strict false: %r" % got["free"])
        texts.append({k: (r.body and r.body["choices"], r.whole.get("warnings")) for k, r in got.items()})
    same(texts[0], texts[1], "alone and together")
    late = {"type": "function", "function": {"name": "late", "parameters": {                # what tags cannot write
        "type": "object", "properties": {"a": {"type": "string"}}, "not": {"additionalProperties": {"type": "integer"}}}}}
    found = lines_out(PIP, [line("late", [TOOL, late], max_tokens=4)], "--chat-template-file", tmp("late.jinja", CHATML_XML))[1].whole
    same([w.startswith("parameters of the tool late: ") for w in found["warnings"]], [True], "late: %r" % found["warnings"])


@case
def batch_calls_of_others():
    """schemas in the words of other vendors are held as they are meant; a tool without parameters is called without arguments; allowed_tools leaves the prompt as it is, and the others are not called"""
    upper = {"type": "function", "function": {"name": "look", "parameters": {"type": "OBJECT", "required": None, "additionalProperties": False, "properties": {
        "n": {"type": "INTEGER", "minimum": 1, "maximum": 5}, "x": {"type": "any", "enum": ["p"]},
        "s": {"type": "STRING", "nullable": True, "enum": ["q", "r"]}}}}}
    bare = {"type": "function", "function": {"name": "now"}}
    name = lambda t: {"type": "function", "function": {"name": t["function"]["name"]}}
    allow = lambda mode, *tools: {"tool_choice": {"type": "allowed_tools",
                                                  "allowed_tools": {"mode": mode, "tools": [name(t) for t in tools]}}}
    flat = {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}}
    base = {"messages": ASK, "tools": [upper, bare, TOOL], "temperature": 1.5, "max_tokens": 60}
    must = {"tool_choice": "required"}
    for form, template in ("json", CHATML), ("xml", CHATML_XML):
        path = tmp("others-%s.jinja" % form, template)
        lines = [dict(base, custom_id="%d-%d" % (k, s), seed=s, **more) for s in range(4)
                 for k, more in enumerate((must, allow("required", upper), allow("required", bare, upper), flat,
                                           allow("auto", bare)))]
        got, sizes, calls = lines_out(PIP, lines, "--chat", "--chat-template-file", path, "--close"), set(), set()
        for r in got.values():
            kind = int(r.whole["custom_id"].split("-")[0])
            check("warnings" not in r.whole, repr(r.whole))
            if kind == 4:
                sizes.add(r.body["usage"]["prompt_tokens"])
            for c in said(r).get("tool_calls", []):
                tool, a = c["function"]["name"], json.loads(c["function"]["arguments"])
                check(kind == 0 or tool in (("look",), ("look", "now"), ("now",), ("now",))[kind - 1], "%s: %r of %d" % (form, tool, kind))
                check(tool != "now" or a == {}, "%s: %r" % (form, c))
                check(tool != "look" or (set(a) <= {"n", "x", "s"} and a.get("n", 1) in (1, 2, 3, 4, 5) and a.get("x", "p") == "p"
                                         and a.get("s") in ("q", "r", None)), "%s: %r" % (form, c))
                calls.add((kind, tool))
        check({(1, "look"), (3, "now")} <= calls, "%s: calls of %r" % (form, calls))
        alone = lines_out(PIP, [dict(base, max_tokens=1)], "--chat", "--chat-template-file", path)[1]
        same(sizes, {alone.body["usage"]["prompt_tokens"]}, "%s: tokens of the prompt" % form)


@case
def chat_tools_unseen():
    """tools that the template never prints: one line on standard error, a warning in the record; not where it prints them, nor without tools"""
    m, tools = model("simple", [["<|assistant|>", "Hello", " you", "<|end|>", "junk"]], SIMPLE), tmp("look.json", json.dumps(TOOLS))
    seen = model("sees", [["<|assistant|>", "Hello", "<|end|>"]], CALLS)
    for path, args, want in (m, ("--tools", tools), 1), (m, (), 0), (seen, ("--tools", tools), 0):
        r = run("-m", path, "--chat", *GREEDY, "-p", "Hi", *args)
        same((r.rc, r.err.count(b"the template of this model does not print them")), (0, want), "%r %r" % (args, r))
    lines = [{"messages": ASK, "tools": [TOOL]}, {"messages": ASK}, {"messages": ASK, "tools": [TOOL], "tool_choice": "none"}]
    got = lines_out(m, lines)
    same([bool(got[no].whole.get("warnings")) for no in (1, 2, 3)], [True, False, False], "records")
    check("does not print them" in got[1].whole["warnings"][0] and got[1].body["choices"], repr(got[1].whole))
    check(not any("warnings" in r.whole for r in lines_out(seen, lines).values()), "a template that prints tools")


@case
def chat_constraint_behind_thinking():
    """a constraint begins behind the thinking of a template, and behind the text of --grammar-after; thinking may be missing"""
    thinks, plain = steady("thinks", THINKS), steady("open", OPENS)
    a = json.loads(chat(thinks, "-p", "Hi", "--choice", "Hello you|Hello", "--json"))
    check(a["text"] in ("Hello you", "Hello") and a["reasoning_content"], "behind thinking: %r" % a)
    a = json.loads(chat(plain, "-p", "Hi", "--regex", "Hello [a-z]{3}", "--json"))
    same((a["text"], a["reasoning_content"]), ("Hello you", "first second third fourth"), "inside of thinking")
    a = json.loads(chat(plain, "-p", "Hi", "--regex", "[0-9]{3}", "--json"))
    check(re.fullmatch("[0-9]{3}", a["text"]) and a["reasoning_content"].startswith("first"), "against the model: %r" % a)
    text = good("-m", plain, "-p", "<|assistant|>", "--special", *GREEDY, "--no-chat", "-n", "40", "--grammar-after",
                " fourth", "--regex", "[xyz]{2}")
    check(re.fullmatch(r"(.|\n)* fourth[xyz]{2}\n?", text), "behind a text: %r" % text)


@case
def chat_closed_thinking():
    """where thinking is off, or its budget is 0, or the prompt ends behind it, a constraint begins at once, though the model would open a thought"""
    eager = model("eager", [["<|assistant|>", "<think>", " so", " so"], ["\n\n", "<think>"], ["</think>", "Yes", "<|end|>"]], THINKS)
    off = ["-p", "Hi", "--choice", "Yes|No", "--json", "-n", "8"]
    said = lambda *more: json.loads(chat(eager, *off, *more))
    for more in (("--think", "off"), ("--chat-template-kwargs", '{"enable_thinking":false}'), ("--think-budget", "0")):
        a = said(*more)
        check(a["text"] in ("Yes", "No") and not a.get("reasoning_content"), "%s: %r" % (more, a))
    check(chat(eager, "-p", "Hi", "--think", "off", "-n", "3", "--json").count("so"), "without a constraint the model may think")


@case
def chat_stop_behind_thinking():
    """stop texts are not looked for in thinking, its marks and the blanks after it; with and without a constraint, a bound, guesses"""
    marked = model("marked", [["<|assistant|>", "<think>", "one", " two", "</think>", "\n\n", "Hello", " twin", " you", "<|end|>"]], THINKS)
    for more in ((), ("--think-budget", "50"), ("--regex", "Hello twin you"), ("--lookup",)):
        for stops, text in (((" tw",), "Hello"), (("think",), "Hello twin you"), (("\n",), "Hello twin you"), (("one", " you"), "Hello twin")):
            a = json.loads(run("-m", marked, "--chat", *GREEDY, "-p", "Hi", "--json", "-n", "30", *more,
                               *(x for s in stops for x in ("--stop", s))).out)
            same((a["text"], a["reasoning_content"]), (text, "one two"), "%s, stops %s" % (more, stops))


BAD_CHAT = [  # a line, what its error says
    ({"messages": "hello"}, "messages"), ({"messages": []}, "messages"), ({"messages": ["x"]}, r"messages\[0\]"),
    ({"messages": [{"content": "x"}]}, "role"), ({"messages": [{"role": 5, "content": "x"}]}, "role"),
    ({"messages": [{"role": "user", "content": 5}]}, "content"),
    ({"messages": [{"role": "user", "content": {"a": 1}}]}, "content"),
    ({"messages": [*ASK, {"role": None, "content": "x"}]}, r"messages\[1\].*role"),
    ({"messages": [{"role": "user",
                    "content": [{"type": "text", "text": "x"},
                                {"type": "image_url", "image_url": {"url": "data:"}}]}]}, "image_url"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input_audio"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "text"),
    ({"messages": ASK, "prompt": "x"}, "prompt"), ({"messages": ASK, "frobnicate": 1}, "frobnicate"),
    ({"messages": ASK, "logprobs": 3}, "logprobs"), ({"messages": ASK, "top_logprobs": 3}, "top_logprobs"),
    ({"messages": ASK, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"messages": ASK, "n": 129}, r"\bn\b"),
    ({"messages": ASK, "max_tokens": 2, "max_completion_tokens": 3}, "max_completion_tokens"),
    ({"messages": ASK, "tools": {}}, "tools"), ({"messages": ASK, "tools": ["x"]}, "tools"),
    ({"messages": ASK, "tools": [{}]}, "number 0 has nothing"), ({"messages": ASK, "tools": [TOOL, {"name": 3}]}, "number 1 has a number"),
    ({"messages": ASK, "tool_choice": "required"}, "tool_choice"),
    ({"messages": ASK, "tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
    ({"messages": ASK, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "no"}}}, "'no'"),
    ({"messages": ASK, "tools": [TOOL], "tool_choice": {"type": "x"}}, "tool_choice"),
    ({"messages": ASK, "parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"messages": ASK, "reasoning_effort": 3}, "reasoning_effort"),
    ({"messages": ASK, "chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"messages": ASK, "chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
    ({"messages": ASK, "response_format": {"type": "json_schema"}}, "response_format"),
    ({"messages": ASK, "grammar": "root ::= x"}, "grammar"),
    ({"messages": ASK, "stream": True}, "stream"),
    ({"messages": [{"role": "user", "content": "word " * 3000}]}, "context"),
    ({"messages": [{"role": "user", "content": "raise"}]}, "as the template says"),
    (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "surrogate"),
    (b'{"messages":[{"role":"user","role":"user","content":"x"}]}', "twice"),
    (b'{"messages":[{"role":"user","content":"x"}', "JSON"),
    (b'{"messages":' + b"[" * 1500 + b"]" * 1500 + b"}", "levels"),
    (b'{"messages":[{"role":"user","content":"x","deep":' + b"[" * 990 + b"]" * 990 + b"}]}", None),
    ({"custom_id": "p", "method": "POST", "url": "/v1/completions", "body": {"messages": ASK}}, "messages"),
    ({"custom_id": "q", "method": "POST", "url": "/v1/chat/completions", "body": {"prompt": "x"}}, "prompt"),
]


@case
def batch_errors():
    """what is wrong with a chat line is one error record that names it; the lines beside it are answered, and the run ends with exit 1"""
    model = chatty(template="{% for m in messages %}{% if m.content == 'raise' %}{{ raise_exception('as the template says') }}{% endif %}{% endfor %}" + CHATML)
    fine = {"messages": ASK, "seed": 1}
    lines = [x for line, _ in BAD_CHAT for x in (line, fine)]
    want = next(iter(lines_out(model, [fine]).values())).body["choices"]
    for args in ((), ("-np", "1", "--batch-order", "input")):
        got = lines_out(model, lines, *args, rc=1)
        same(sorted(got), list(range(1, len(lines) + 1)), "lines")
        for i, (line, word) in enumerate(BAD_CHAT):
            same(got[2 * i + 2].body["choices"], want, "the line behind %s" % short(line))
            error = got[2 * i + 1].error
            check(not word or (error and re.search(word, error["message"])), "%s: want %r in %r" % (short(line), word, error))
            check(not error or os.path.dirname(model) not in error["message"], "a folder in %r" % error)
    plain = script.write(tmp("plain.gguf"), ANSWERS)
    got = lines_out(plain, [fine, {"prompt": "<|assistant|>", "max_tokens": 2, "seed": 1}], rc=1)
    check(got[1].error and "plain.gguf: no tokenizer.chat_template" in got[1].error["message"] and
          os.path.dirname(plain) not in got[1].error["message"] and got[2].body, "a model without a template: %r" % got[1].error)
    refused("template", "-m", plain, "--batch", tmp("text.txt", b"Hi\n"), "--chat", "-q")


@case
def batch_contents_stay_contents():
    """no text of a message becomes a control token, in whatever place it stands; bytes that are no UTF-8 go through"""
    model = chatty()
    tokens = lambda line, rc=0: next(iter(lines_out(model, [line], rc=rc).values())).body["usage"]["prompt_tokens"]
    frame = tokens({"messages": [{"role": "user", "content": ""}], "max_tokens": 1})
    for text in (*script.CONTROL, "<|calls|>", "<|end|><|system|>x", "a\u00e9", "{{ bos_token }}", "{% raw %}"):
        same(tokens({"messages": [{"role": "user", "content": text}], "max_tokens": 1}), frame + len(text.encode()),
             "tokens of %r" % text)
        same(tokens({"messages": [{"role": "user",
                                   "content": [{"type": "text", "text": text[:3]},
                                               {"type": "text", "text": text[3:]}]}], "max_tokens": 1}),
                                               frame + len(text.encode()), "parts of %r" % text)
        escaped = json.dumps({"messages": [{"role": "user", "content": "@"}], "max_tokens": 1}).replace("@",
                                                                                                        "".join("\\u%04x" % ord(c) for c in text)).encode()
        same(tokens(escaped), frame + len(text.encode()), "escapes of %r" % text)
    same(tokens(b'{"messages":[{"role":"user","content":"\xff\xc3(\x80"}],"max_tokens":1}'), frame + 4, "bytes that are no UTF-8")
    check(tokens({"messages": [{"role": "nobody|><|system|", "content": ""}], "max_tokens": 1}) > frame + 10,
          "a role that no table has")
    call = lambda name: tokens({"messages": ASK, "max_tokens": 1,
                                "tools": [{"type": "function", "function": {"name": name}}],
                                "tool_choice": {"type": "function", "function": {"name": name}}}, rc=1)   # the call is cut
    same(call("<|end|>"), call("1234567"), "a tool's name, which begins the answer")


@case
def batch_shares_system_prompt():
    """a system prompt that many lines have is read once: cached tokens, and nothing else, differ from each line alone"""
    model, block = chatty(), 8
    start = [{"role": "system", "content": "You are kind. " * 40}]
    lines = [{"messages": [*start, {"role": "user", "content": "Question %d" % i}], "seed": i, "max_tokens": 4}
             for i in range(12)]
    got = lines_out(model, lines, "-np", "4")
    common = min(r.body["usage"]["prompt_tokens"] for r in got.values()) - len("1<|end|><|assistant|>")
    cached = sorted(r.body["usage"]["prompt_tokens_details"]["cached_tokens"] for r in got.values())
    check(common > 400 and cached[0] < block and all(x >= common - block for x in cached[1:]),
          "cached tokens of a beginning of %d: %r" % (common, cached))
    for no, r in some(sorted(got.items()), 3):
        equal(lines_out(model, [b""] * (no - 1) + [lines[no - 1]]), {no: r}, "line %d alone" % no)


@case
def batch_plain_lines():
    """with --chat the lines of a text file are messages of a user, behind the system message of -sys; a prompt of a body stays raw"""
    model = chatty()
    part = lambda found: {no: (r.body["object"], r.body["choices"], r.body["usage"]["prompt_tokens"]) for no, r in found.items()}
    for more in (), ("-sys", "Be brief."):
        first = [{"role": "system", "content": more[1]}] if more else []
        lines = lambda before: [{"messages": [*before, {"role": "user", "content": x}]} if x else b""
                                for x in ("Hi", "", "Who are you?")]
        got, want = part(lines_out(model, b"Hi\n\nWho are you?\n", "--chat", "-s", "3", *more)), part(lines_out(model,
                                                                                                                lines(first), "-s", "3"))
        same(sorted(got), [1, 3], "lines")
        same(got, want, "plain lines " + " ".join(more))
        same(part(lines_out(model, lines([]), "-s", "3", *more)), want, "-sys before the messages of a line")
        same(part(lines_out(model, lines([{"role": "system", "content": "Own."}]), "-s", "3", *more)),
             part(lines_out(model, lines([{"role": "system", "content": "Own."}]), "-s", "3")), "a system message of its own")
    raw = lines_out(model, [{"prompt": "Hi", "max_tokens": 2}], "--chat")
    same((raw[1].body["object"], raw[1].body["usage"]["prompt_tokens"]), ("text_completion", 3), "a prompt with --chat")


@case
def batch_resumes_chat():
    """chat lines are resumed behind every record and merged; with another template, other variables or another system message --resume is refused"""
    model, out = chatty(), tmp("resumed.jsonl")
    lines = [{"custom_id": "c%d" % i, "messages": [{"role": "user", "content": "Q %d" % i}], "seed": i,
              **({"tools": [TOOL]} if i % 3 == 0 else {"messages": 5} if i == 4 else {})} for i in range(8)]
    path = tmp("resume.jsonl", jsonl(lines))
    args = ("-m", model, "--batch", path, "-o", out, "-q")
    same(run(*args).rc, 1, "exit code")
    with open(out, "rb") as f:
        whole = f.read()
    ends = [0] + [i + 1 for i, c in enumerate(whole) if c == 10]
    for end in some(ends + [e - 9 for e in ends[1:]]):
        with open(out, "wb") as f:
            f.write(whole[:end])
        check(run(*args, "--resume", "-t", "1").rc == 1, "resumed behind byte %d" % end)
        with open(out, "rb") as f:
            equal(records(f.read()), records(whole), "resumed behind byte %d" % end)
    merged = run("--merge", out)
    equal(records(merged.out), records(whole), "merged")
    template = tmp("other.jinja", CHATML + " ")
    for more in (("--chat-template-file", template), ("--chat-template-kwargs", '{"a": 1}'), ("-sys", "Be brief."),
                 ("-sysf", tmp("brief.txt", "Be brief.\n")), ("--think", "off"), ("--think-budget", "5"), ("--chat",), ("--raw",),
                 ("--loop-stop", "9")):
        refused({"-sys": "system-prompt", "-sysf": "system-prompt", "--chat-template-file": "chat-template"}.get(more[0], more[0][2:]),
                *args, "--resume", *more)
    brief = ("-m", model, "--batch", path, "-o", tmp("brief.jsonl"), "-q")
    same(run(*brief, "-sys", "Be brief.").rc, 1, "-sys")
    with open(tmp("brief.jsonl"), "rb") as f:
        whole = f.read()
    same(run(*brief, "-sysf", tmp("brief.txt"), "--resume").rc, 1, "the same from a file")
    with open(tmp("brief.jsonl"), "rb") as f:
        same(f.read(), whole, "-sys, resumed with -sysf")


@case
def batch_csv_of_chat():
    """CSV of chat lines: contents as text, and columns for thinking and calls"""
    model = chatty()
    path = tmp("csv.jsonl", jsonl([{"messages": ASK, "n": 4, "temperature": 1, "seed": 1},
                                   {"messages": ASK, "tools": [TOOL], "seed": 2}, {"prompt": "x", "max_tokens": 0},
                                   {"messages": 1}]))
    r = run("-m", model, "--batch", path, "--format", "csv", "-q")
    want = records(run("-m", model, "--batch", path, "-q").out)
    rows = sorted(csv.DictReader(io.StringIO(r.out.decode(), newline="")), key=lambda x: (int(x["line"]), x["index"]))
    same(list(rows[0])[-2:], ["reasoning_content", "tool_calls"], "the last columns")
    messages = [(c["message"], c["finish_reason"]) for no in (1, 2) for c in want[no].body["choices"]]
    same([(x["text"], x["reasoning_content"], x["tool_calls"] and json.loads(x["tool_calls"]), x["finish_reason"])
          for x in rows[:5]],
         [(m["content"] or "", m.get("reasoning_content", ""), m.get("tool_calls", ""), finish) for m,
          finish in messages], "rows")
    check(rows[6]["error"] and rows[5]["text"] == "", "other rows: %r" % rows[5:])


@case
def batch_bytes_of_chat():
    """an answer that is no UTF-8 has its bytes beside it"""
    model = chatty([["<|assistant|>", "ab", "<0xFF>", "c", "<|end|>"]])
    c = lines_out(model, [{"messages": ASK, "logprobs": True}])[1].body["choices"][0]
    same((c["message"]["content"], base64.b64decode(c["bytes"])), ("ab\ufffdc", b"ab\xffc"), "content and bytes")
    same([t["bytes"] for t in c["logprobs"]["content"]], [list(b"ab"), [255], [99]], "bytes of tokens")


def main():
    if not os.access(BIN, os.X_OK):
        sys.exit("usage: chat.py BINARY [WORD ...]: cannot run %s" % BIN)
    sys.exit(walk("chat", sys.argv[2:], TMP))


main()
