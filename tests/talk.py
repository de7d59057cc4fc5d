#!/usr/bin/env python3
"""Tests of conversations (-i): in a terminal, which a pseudo-terminal stands for, and in a pipe.

    python3 tests/talk.py ./llmrun [WORD ...]      cases whose name holds one of the words, else all

Nothing here waits for a time to pass: a test waits for what the terminal shows. LLMRUN_SLOW=N stretches every limit N times.
"""
import ctypes, fcntl, json, os, random, re, select, signal, struct, subprocess, sys, termios, time
import script
from kit import ENV, SLOW, Skip, begin, case, check, finish, fork_terminal, new_folder, one_line, open_terminal, refused, same, short, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(HERE, "llmrun")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
TMP = new_folder("talk")
HOME = os.path.join(TMP, "home")
HISTORY = os.path.join(HOME, ".local", "state", "llmrun", "history")
OWN = dict({k: v for k, v in ENV.items() if not k.startswith(("XDG_", "EDITOR", "VISUAL", "EDITRC"))}, HOME=HOME, TERM="xterm")
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
os.mkdir(HOME)


def tmp(name):
    return os.path.join(TMP, name)


def says(name, *chains, **kw):
    """A model whose answers are these chains of tokens."""
    path = tmp(name + ".gguf")
    if not os.path.exists(path):
        script.write(path, [["<|assistant|>", *c] for c in chains], kw.pop("template", TEMPLATE), **kw)
    return path


def hello():
    return says("hello", ["Hello", " you", "<|end|>"])


def endless():
    """Its answer goes on until it is ended, or a million tokens."""
    return says("endless", ["la", " la", " lo", " la"], context=1 << 20)


def run(*args, inp=b"", env=None, timeout=60):
    p = begin([BIN, *args], stdin=subprocess.PIPE, env=dict(OWN, **(env or {})))
    return finish(p, timeout, inp)


def talk(model, *lines, args=(), rc=0):
    """A conversation of these lines in a pipe."""
    r = run("-m", model, "-i", *args, inp=b"".join((x if isinstance(x, bytes) else x.encode()) + b"\n" for x in lines))
    check(r.rc == rc, "want exit %d, got %r" % (rc, r))
    return r


TURN = re.compile(rb"^llmrun: turn (\d+): (\d+) tokens? kept, (\d+) read in [\d.]+ s, (\d+) written", re.M)


def turns(err):
    """(tokens kept, read, written) of every turn."""
    found = [tuple(map(int, m)) for m in TURN.findall(err)]
    same([x[0] for x in found], list(range(1, len(found) + 1)), "numbers of turns")
    return [x[1:] for x in found]


def saved(path):
    with open(path, "rb") as f:
        return json.loads(f.read().decode("utf-8", "surrogateescape"))["messages"]


def lines_of(out):
    check(out.endswith(b"\n"), "no newline at the end of %s" % short(out))
    return out[:-1].split(b"\n")


class Person:
    """The command on a terminal of its own, which also sends it signals for keys."""

    def __init__(self, *args, rows=24, columns=80, **env):
        self.pid, self.fd = fork_terminal()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(BIN, [BIN, *args], dict(OWN, **env))
        self.seen = b""

    def more(self, limit):
        """Reads on; False: the program has ended."""
        if not select.select([self.fd], [], [], max(0, limit - time.monotonic()))[0]:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError("nothing more after %r" % self.seen[-400:])
        try:
            part = os.read(self.fd, 65536)
        except OSError:
            part = b""
        self.seen += part
        return bool(part)

    def until(self, word):
        """Waits for the word; returns what came before it."""
        limit = time.monotonic() + 60 * SLOW
        while word not in self.seen:
            check(self.more(limit), "ended before %r: %r" % (word, self.seen[-400:]))
        before, _, self.seen = self.seen.partition(word)
        return before

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def say(self, text):
        """Types a line at the prompt and waits for the end of its turn; returns what the terminal shows."""
        self.type(text + "\r")
        return self.until(b"written") + self.prompt()

    def prompt(self):
        """Waits for the prompt of the next message."""
        return self.until(b"\n") + self.until(b"> ")

    def end(self):
        """Waits for the end of the program; its exit code."""
        limit = time.monotonic() + 60 * SLOW
        while self.more(limit):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def edits():
    """A case that needs libedit."""
    for name in "libedit.so.2", "libedit.so.0":
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise Skip("no libedit")


def both():
    """Environments with and without line editing."""
    try:
        edits()
        return [{}, {"TERM": "dumb"}]
    except Skip:
        return [{"TERM": "dumb"}]


# --- in a pipe ---

@case
def talk_in_a_pipe():
    """standard input that is no terminal is a message a line: no prompt, no colour, on stdout answers with a newline each"""
    r = talk(hello(), "a", "b", "", "c")
    same(r.out, b"Hello you\n" * 3, "answers")
    check(b"\x1b" not in r.err and b"> " not in r.err and len(turns(r.err)) == 3, repr(r.err))
    r = run("-m", hello(), "-i", "-q", inp=b"a\nb")
    same([r.rc, r.out, r.err], [0, b"Hello you\n" * 2, b""], "-q, no newline at the end")
    same(run("-m", hello(), "-i", "-q", inp=b"").out, b"", "nothing")


@case
def talk_joins_lines():
    """a backslash at the end of a line and triple quotes join lines to one message; quotes keep a slash from being a command"""
    path = tmp("joined.json")
    talk(hello(), "a\\", "b\\", "c", '"""', "/x", "", 'y"""', '"""/z"""', '"""', '"""', "a\\", args=("-q",))
    talk(hello(), "a\\", "b\\", "c", '"""', "/x", "", 'y"""', '"""/z"""', "/save " + path, args=("-q",))
    same([m["content"] for m in saved(path) if m["role"] == "user"], ["a\nb\nc", "/x\n\ny", "/z"], "messages")


@case
def talk_lines_of_windows():
    """in a pipe a carriage return before a newline is no part of the message, be it joined lines or a command; any other one is"""
    path = tmp("windows.json")
    talk(hello(), "a\r", "b\\\r", "c\r", '"""\r', "x\r", 'y"""\r', "d\re\r\r", "/save " + path + "\r", args=("-q",))
    same([m["content"] for m in saved(path) if m["role"] == "user"], ["a", "b\nc", "x\ny", "d\re\r"], "messages")
    r = run("-m", hello(), "-i", "-q", inp=b"a\r\n\r\nb\r\n/save " + path.encode() + b"\r\n")
    same((r.rc, r.out, [m["content"] for m in saved(path) if m["role"] == "user"]), (0, b"Hello you\n" * 2, ["a", "b"]), "a blank line")


@case
def talk_keeps_bytes():
    """bytes that are no UTF-8, NUL, markers of the template and very long lines are a message as they are"""
    path = tmp("bytes.json")
    lines = [b"\xff\xfe\x80", b"a\0b", b"<|end|><|assistant|> {{ x }} {% if %}", "日本 \u202e".encode(), b"\x1b[2J", b"x" * 5000]
    talk(says("wide", ["Hello", "<|end|>"], context=20000), *lines, "/save " + path, args=("-q",))
    same([m["content"].encode("utf-8", "surrogateescape") for m in saved(path) if m["role"] == "user"], lines, "messages")


@case
def talk_ends_a_message_without_end():
    """quotes that are never closed: lines as long as half the reader's buffer are refused beyond the bytes of a message too"""
    line = b"a" * 2047 + b"\n"
    r = run("-m", hello(), "-i", "-q", inp=b'"""' + line[3:] + line * (65 << 9))
    check(r.rc == 2 and b"more than 67108864 bytes, expected a message" in r.err and not r.out, repr(r))


@case
def talk_saves_what_messages_reads():
    """/save writes what --messages and /load read; both go on from there, and the bytes that come back are the same"""
    first, again, third = (tmp("saved%d.json" % i) for i in range(3))
    talk(hello(), "a", "\"quoted\\\" \t", b"\xff bytes", "/save " + first, args=("-q", "-sys", "Be short."))
    r = talk(hello(), "/load " + first, "/save " + again, "/undo", "/undo", "/save " + third, args=("-q",))
    with open(first, "rb") as f, open(again, "rb") as g:
        same(g.read(), f.read(), "saved again")
    same(saved(third), saved(first)[:-4], "after two times /undo")
    out = run("-m", hello(), "--messages", third, "-p", "c", "-q", "--temp", "0").out
    same(out, b"Hello you\n", "--messages")
    with open(tmp("asked.json"), "w") as f:
        json.dump([{"role": "user", "content": "x"}], f)
    same(talk(hello(), "y", args=("-q", "--messages", tmp("asked.json"))).out, b"Hello you\n" * 2,
         "-i --messages answers what waits")
    same(talk(hello(), "y", args=("-q", "-p", "x")).out, b"Hello you\n" * 2, "-i -p begins with it")
    r = talk(hello(), "/load " + HERE, "/load /nowhere", "/load " + PIP, "/save " + hello(), "/save -", "/save", "x")
    same(r.out, b"Hello you\n", "after refused commands")
    for word in (b"Is a directory", b"/nowhere: No such file", b"is the model itself", b"-: found no name",
                 b"/save: expected FILE"):
        check(word in r.err, "no %r in %r" % (word, r.err))


@case
def talk_commands():
    """/help lists every command; /clear, /undo, /system, /set, /show, /read, /exit do what it says; an unknown one is named"""
    help_ = talk(hello(), "/help", args=("-q",)).err.decode()
    names = re.findall(r"^  (/\w+)", help_, re.M)
    every = "/help /exit /clear /undo /shift /regen /edit /system /set /show /think /read /save /load /stats"
    same(sorted(names), sorted(every.split()), "commands")
    check("(also /bye and /quit)" in help_ and "(also /?)" in help_, help_)
    for name in "/bye", "/quit":
        same(talk(hello(), "/?", name, "a", args=("-q",)).err.decode(), help_, name)
    path = tmp("commands.json")
    with open(tmp("text.txt"), "w") as f:
        f.write("from a file")
    r = talk(hello(), "a", "/clear", "/system Be kind.", "b", "c", "/undo", "/read " + tmp("text.txt"), "d",
             "/set temp 0.5", "/set top_k=3", "/set parameter min_p 0.25", "/set num_predict 9", "/set num_ctx 9", "/set seed 7", "/set seed", "/set system Be brief.", "/system",
             "/system Be kind.", "/set", "/show", "/show prompt",
             "/stats", "/unda", "/set nothing 3", "/set temp hot", "/help me", "/save " + path, "/exit", "e")
    same(r.out, b"Hello you\n" * 4, "answers")
    answer = {"role": "assistant", "content": "Hello you"}
    same(saved(path), [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "b"}, answer,
                       {"role": "user", "content": "from a file\nd"}, answer], "saved")
    check(re.search(r"\n  temp +0.5\n  top-k +3\n  min-p +0.25\n  predict +9\n/set: fixed parameter num_ctx .*\n  seed +7\n  seed +7\nthe system message is set\nthe system message:\nBe brief.\n",
                    r.err.decode()), "what /set says: %s" % r.err.decode())
    for word in (r"taken back: c",
                 r"\[system\] Be kind.\n\[user\] b\n\[assistant\] Hello you\n",
                 r"<\|system\|>Be kind.<\|end\|><\|user\|>b<\|end\|>",
                 r"unknown command /unda \(/undo\?", r"unknown parameter nothing",
                 r"--temp: expected a number, found 'hot'", r"/help: expected nothing", r"kept +\d+ tokens from the cache"):
        check(re.search(word, r.err.decode()), "no %r in %s" % (word, r.err.decode()))


@case
def talk_unreadable():
    """standard input that cannot be read is an error, not the end of the conversation"""
    folder = os.open(TMP, os.O_RDONLY)
    r = finish(begin([BIN, "-m", hello(), "-i", "-q"], stdin=folder, env=OWN))
    os.close(folder)
    refused(r, 2, "standard input: cannot read: Is a directory", "a folder")


@case
def talk_needs_a_template():
    """-i without a chat template, or with a broken one, is exit 2; a message that the template refuses is taken back: exit 1"""
    bare = says("bare", ["Hello", "<|end|>"], template=None)
    r = run("-m", bare, "-i", inp=b"a\n")
    check(r.rc == 2 and one_line(r.err) and b"tokenizer.chat_template" in r.err and not r.out, repr(r))
    r = run("-m", hello(), "-i", "--no-chat", inp=b"a\n")
    check(r.rc == 2 and one_line(r.err) and b"disagree" in r.err and not r.out, repr(r))
    strict = says("strict", ["Hello", "<|end|>"],
                  template="{% if messages[-1].content == 'bad' %}{{ raise_exception('no\x1b[2J bad words') }}{% endif %}"
                   + TEMPLATE)
    r = talk(strict, "a", "bad", "b", "/save " + tmp("strict.json"), rc=1)
    same(r.out, b"Hello\n" * 2, "answers")
    same([m["content"] for m in saved(tmp("strict.json"))], ["a", "Hello", "b", "Hello"], "the message is taken back")
    check(b"bad words" in r.err and b"\x1b" not in r.err and b"1 message got no answer" in r.err, repr(r.err))


# --- turns ---

def questions(n):
    names = ["Pip", "Mia", "a dog", "the sea", "Ben", "a red ball"]
    return ["Tell me about %s, please." % names[i % len(names)] if i % 2 else "What is %d and %d?" % (i, i + 1) for i in range(n)]


@case
def talk_reads_only_what_is_new():
    """twenty turns with the shipped model, whose template leaves the past alone: each reads its new tokens and at most 32 more"""
    for way in (("--no-lookup",), ("--lookup", "--draft-min", "8"), ("-md", DRAFT, "--draft-min", "3")):
        r = talk(PIP, *questions(20), args=("-n", "6", "-s", "1", "--temp", "0", *way))
        found = turns(r.err)
        same(len(found), 20, "turns")
        for k in range(1, 20):
            kept, read, _ = found[k]
            before = sum(found[k - 1])
            check(read <= kept + read - before + 32, "%s: turn %d: %d kept, %d read, %d before it"
                  % (way, k + 1, kept, read, before))
        check(found[19][0] > 200, "turn 20 keeps %d tokens" % found[19][0])


@case
def talk_is_the_same_messages():
    """turn k of a conversation is what --messages gives for its messages and seed, with any threads and guesses"""
    path, asked = tmp("turns.json"), questions(8)
    args = ("-n", "24", "-s", "7", "-q")
    ways = [("-t", "1", "--no-lookup"), ("-t", "2", "--lookup"), ("-t", "1", "-md", DRAFT), ("-t", "2", "-b", "7", "--no-lookup")]
    found = [talk(PIP, *asked, "/save " + path, args=(*args, *way)).out for way in ways]
    for way, out in zip(ways, found):
        same(out, found[0], " ".join(way))
    messages = saved(path)
    lines = lambda text: text if text.endswith("\n") else text + "\n"
    same("".join(lines(m["content"]) for m in messages if m["role"] == "assistant").encode(), found[0], "answers in the file")
    for k in range(8):
        one = tmp("turn.json")
        with open(one, "w") as f:
            json.dump(messages[:2 * k + 1], f)
        same(run("-m", PIP, "--messages", one, *args, *ways[k % len(ways)]).out.decode(), lines(messages[2 * k + 1]["content"]),
             "turn %d" % (k + 1))


def in_batch(*bodies, model=PIP, args=()):
    """The texts of the choices that a batch file of these bodies gets."""
    r = run("-m", model, "--batch", "-", "-q", *args, inp=b"".join(json.dumps(b).encode() + b"\n" for b in bodies))
    found = sorted((json.loads(line) for line in r.out.splitlines()), key=lambda x: x["line"])
    if found and found[0]["error"] and found[0]["error"]["code"] == "unsupported":
        raise Skip(found[0]["error"]["message"])
    check(r.rc == 0, repr(r))
    return [[c["message"]["content"] for c in x["response"]["body"]["choices"]] for x in found]


@case
def talk_is_a_batch_line():
    """turn k of a conversation is what a batch line with the same messages and seed gets, and /regen its next choices"""
    path, asked = tmp("batched.json"), questions(6)
    out = talk(PIP, *asked, "/save " + path, "/regen", "/regen", args=("-n", "24", "-s", "9", "-q")).out
    messages = saved(path)
    bodies = [{"messages": messages[:2 * k + 1], "max_tokens": 24, "seed": 9, "n": 3 if k == 5 else 1} for k in range(6)]
    same("".join(text + "\n" for texts in in_batch(*bodies) for text in texts).encode(), out, "answers")


@case
def talk_with_states_and_windows():
    """a model with a state or windows: each turn keeps the prompt before it up to its last border; texts as by --messages"""
    form, path = tmp("form.jinja"), tmp("family.json")
    with open(form, "w") as f:
        f.write(TEMPLATE)
    args = ("--chat-template-file", form, "--temp", "0", "-q")
    for name in "qwen35", "qwen35_near", "lfm2", "gemma3", "gpt-oss", "gemma4", "llama4":
        model = os.path.join(HERE, "tests", "data", "tiny", name + ".gguf")
        r = talk(model, "What is the length of this first message?", "And of the second?", "The third asks too.",
                 "/save " + path, args=(*args[:-1], "-n", "8"))
        found, messages = turns(r.err), saved(path)
        for (before, after, _), (kept, _, _) in zip(found, found[1:]):
            check(kept >= (before + after) // 32 * 32 > 0, "%s: keeps %d tokens after a prompt of %d"
                  % (name, kept, before + after))
        for k in 0, 2, 4:
            with open(path, "w", errors="surrogateescape") as f:
                json.dump(messages[:k + 1], f, ensure_ascii=False)
            same(run("-m", model, "--messages", path, "-n", "8", *args).out,
                 messages[k + 1]["content"].encode(errors="surrogateescape") + b"\n", "%s, turn %d" % (name, k // 2 + 1))


@case
def talk_regen_draws_anew():
    """/regen draws with the next seed: the answers are those that seeds S, S + 1, S + 2 give in one command"""
    r = talk(PIP, "Tell me a story.", "/regen", "/regen", args=("-n", "16", "-s", "3", "-q"))
    want = b"".join(run("-m", PIP, "--chat", "-p", "Tell me a story.", "--no-stdin", "-n", "16", "-s", str(s),
                        "-q").out for s in (3, 4, 5))
    same(r.out, want, "answers")


@case
def talk_regen_loses_nothing():
    """a /regen that fails leaves the conversation as it was; after /load, /undo and /clear the run's seed draws again"""
    small, path = says("small", ["Hello", " you", "<|end|>"], context=64), tmp("regen.json")
    r = talk(small, "a", "/system " + "x" * 80, "/regen", "/save " + path)
    same([m["content"] for m in saved(path)][1:], ["a", "Hello you"], "conversation: %r" % r.err)
    check(b"the conversation is as before\n" in r.err, repr(r.err))
    asked, args = tmp("asked.json"), ("-n", "12", "-s", "1", "--temp", "1.5", "-q")
    with open(asked, "w") as f:
        json.dump([{"role": "user", "content": "hi"}], f)
    want = run("-m", PIP, "--messages", asked, "--no-stdin", *args).out
    for more in (), ("hi", "/regen"):
        same(lines_of(talk(PIP, *more, "/load " + asked, args=args).out)[-1], want.rstrip(b"\n"), "/load after %s"
             % " ".join(more))
    same(lines_of(talk(PIP, "hi", "/regen", "/clear", "hi", args=args).out)[-1], want.rstrip(b"\n"), "after /clear")


@case
def talk_cuts_between_characters():
    """what is shown of a long message ends at a whole character"""
    r = talk(hello(), "x" + "\u00e9" * 150, "/undo", "/" + "\u00e9" * 150, args=("-q",))
    r.err.decode()
    check("taken back: x" + "\u00e9" * 99 + " ...\n" in r.err.decode()
          and "unknown command /" + "\u00e9" * 49 + " (" in r.err.decode(), repr(r.err))


@case
def talk_sets_beside_the_context():
    """/set works where another parameter is the length of the context (-1), and takes -1 itself"""
    r = talk(hello(), "/set temp 1", "/set repeat-last-n -1", "a",
             args=("--temp", "0", "--dry-penalty-last-n", "-1", "--dry-multiplier", "1", "-q"))
    same([r.out, b"not known" in r.err], [b"Hello you\n", False], "with -1: %r" % r.err)


@case
def talk_in_a_full_context():
    """a conversation that has no room left says so and what helps; it stays, without the message that has no answer"""
    small = says("small", ["Hello", " you", "<|end|>"], context=64)
    r = talk(small, "a" * 20, "b" * 20, "c" * 20, "/undo", "d", "/save " + tmp("full.json"), rc=1)
    same(r.out, b"Hello you\n" * 3, "answers")
    full = rb"the conversation has \d+ tokens, the context holds 64: /shift .*, /undo .*, /clear .*; the message is taken back\n"
    check(re.search(full, r.err), repr(r.err))
    same([m["content"] for m in saved(tmp("full.json"))], ["a" * 20, "Hello you", "d", "Hello you"], "conversation")
    r = talk(says("little", ["la", " la", " lo", " la"], context=64), "a", "/save " + tmp("full.json"))
    check(b"the context is full at 64 tokens: /shift" in r.err and len(saved(tmp("full.json"))) == 2, repr(r.err))


@case
def talk_shifts():
    """/shift drops the oldest turns, never the last one and no system message, and sends the message that found no room"""
    model, path = says("shifts", ["Hello", " you", "<|end|>"], context=144), tmp("shifted.json")
    asked = [c * 20 for c in "abcdef"]
    r = talk(model, "/system S", *asked, "/shift", "/save " + path)
    dropped = re.search(rb"(\d) turns dropped; the conversation has (\d+) tokens, the context holds 144\n", r.err)
    check(r.err.count(b"the message is taken back") == 1 and dropped and 0 < int(dropped[2]) <= 72, repr(r.err))
    messages, n = saved(path), int(dropped[1])
    same([m["role"] for m in messages], ["system"] + ["user", "assistant"] * (6 - n), "roles")
    same([m["content"] for m in messages if m["role"] == "user"], asked[n:], "messages that are left")
    same(talk(model, "a", "/shift", "b", "/save " + path, args=("-q",)).err.decode().split("\n")[0].split(";")[0], "0 turns dropped", "early")
    same([m["content"] for m in saved(path)], ["a", "Hello you", "b", "Hello you"], "with room")
    r = talk(model, "a", "b" * 180, "/shift", "/undo", "/shift", "/save " + path, rc=1)
    check(b"1 turn dropped, the last one stays; " in r.err and r.err.count(b"the message is taken back") == 2 and b"there is no turn to drop" in r.err, repr(r.err))
    same(saved(path), [], "after a message that is too long, and /undo")


@case
def talk_thinks():
    """/think show writes the thinking of an answer to stderr; the answer alone is on stdout and in the conversation"""
    template = TEMPLATE.replace("{{ m.content }}",
                                "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}")
    model = says("thinks", ["<think>", "hm", "</think>", "Yes", "<|end|>"],
                 ["<think>", "hm", "</think>", "Yes", "<|end|>"], template=template)
    r = talk(model, "a", "/think show", "b", "/think hide", "c", "/think maybe", "/save " + tmp("thinks.json"), args=("-q",))
    same(r.out, b"Yes\n" * 3, "answers")
    same(r.err, b"hm\n'maybe', expected on, off, show or hide\n6 messages saved to %s (--messages reads it)\n"
         % os.fsencode(tmp("thinks.json")), "stderr")
    same([m.get("reasoning_content") for m in saved(tmp("thinks.json")) if m["role"] == "assistant"], ["hm"] * 3,
         "thinking in the file")


@case
def talk_calls_tools():
    """after an answer that calls tools each message is the result of one call; the model is asked again when all are there"""
    template = ("{% for m in messages %}<|{{ m.role }}|>{% for c in m.tool_calls or [] %}<tool_call>"
                "{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}</tool_call>{% endfor %}"
                "{{ m.content or '' }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
    call = '<tool_call>{"name": "%s", "arguments": {"x": 1}}</tool_call>'
    model = tmp("calls.gguf")
    script.write(model, [["<|assistant|>", call % "add", call % "mul", "<|end|>"]], template)
    with open(tmp("tools.json"), "w") as f:
        takes = {"type": "object", "properties": {"x": {"type": "integer"}}}
        json.dump([{"type": "function", "function": {"name": n, "parameters": takes}} for n in ("add", "mul")], f)
    r = talk(model, "compute", "2", "3", "/undo", "/save " + tmp("calls.json"), "compute", "4",
             "/save " + tmp("calls.json"), args=("--tools", tmp("tools.json")))
    same([len(turns(r.err)), r.err.count(b"what add gives back"), r.err.count(b"what mul gives back")], [3, 3, 2],
         "turns and remarks")
    messages = saved(tmp("calls.json"))
    same([m["role"] for m in messages], ["user", "assistant", "tool"], "roles")
    first = messages[1]["tool_calls"][0]
    same([messages[2][x] for x in ("content", "name", "tool_call_id")], ["4", "add", first["id"]], "the result")
    with open(tmp("asked.json"), "w") as f:
        json.dump(messages[:1], f)
    r = talk(model, "/load " + tmp("asked.json"), args=("--tools", tmp("tools.json"), "-q"))
    same(r.out.count(b'"name":'), 2, "calls after /load of a file without tools: %r" % r.out)


# --- in a terminal ---

@case
def talk_begins_alone():
    """-m MODEL alone in a terminal begins to talk where the model has a chat template; Ctrl-D ends with 0"""
    for env in both():
        p = Person("-m", hello(), **env)
        check(b"/help lists commands" in p.until(b"> "), "no greeting")
        check(b"Hello you\r\n" in p.say("hi"), "no answer")
        p.type("\x04")
        same(p.end(), 0, "exit code")
    p = Person("-m", says("bare", ["Hello", "<|end|>"], template=None))
    p.until(b"no prompt given: bare.gguf has no chat template and continues texts, expected -p TEXT, -f FILE or text on standard input\r\n")
    same(p.end(), 2, "without a template")
    p = Person("-m", hello(), "--no-chat")
    p.until(b"no prompt given")
    same(p.end(), 2, "--no-chat")


@case
def talk_takes_a_paste():
    """pasted lines are one message: marked by the terminal, or lines that arrive at once; none of them is a command"""
    for env in both():
        path, p = tmp("paste.json"), Person("-m", hello(), "-i", **env)
        p.until(b"> ")
        p.type("\x1b[200~/exit\rtwo words\r\tthree\x1b[201~\r")
        p.until(b"written"), p.prompt()
        p.type("one\rtwo\r\rthree\r")
        p.until(b"written"), p.prompt()
        p.type("typed \\\r")
        p.until(b"| ")
        p.say("lines")
        p.type(b"\x1b[200~/\xff\xc3 \x1b[31m\xf0\x9f\x1b[201~ x\r")
        p.until(b"unknown command")
        p.prompt()
        p.type(b"\x1b[200~\xff\xc3 \x1b[31m\xf0\x9f\x1b[201~ x\r")
        p.until(b"written"), p.prompt()
        p.type("/save %s\r" % path)
        p.until(b"saved to"), p.prompt()
        p.type("\x04")
        same(p.end(), 0, "exit code")
        same([m["content"].encode("utf-8", "surrogateescape") for m in saved(path) if m["role"] == "user"],
             [b"/exit\ntwo words\n\tthree", b"one\ntwo\n\nthree", b"typed \nlines", b"\xff\xc3 \x1b[31m\xf0\x9f x"], "messages")


@case
def talk_edits_lines():
    """keys of an edited line: a character of several bytes is one, words and lines are deleted, a tab is text"""
    edits()
    path, p = tmp("edited_line.json"), Person("-m", hello(), "-i")
    p.until(b"> ")
    for keys in ("wöörld\x7f\x7f\x7f\x7f日本\x7fx", "gone\x15one two\x17three", "a\tb", "bd\x1b[Dc\x05e\x01a"):
        p.type(keys + "\r")
        p.until(b"written"), p.prompt()
    p.type("/save %s\r" % path)
    p.until(b"saved to"), p.prompt()
    p.type("\x04")
    same(p.end(), 0, "exit code")
    same([m["content"] for m in saved(path) if m["role"] == "user"], ["wö日x", "one three", "a\tb", "abcde"], "messages")


@case
def talk_wraps_words():
    """on a terminal lines of an answer end between words, as the window's width has it; the conversation and a pipe have the text as it is"""
    words = ["alpha", " beta", " gamma", " delta", " epsilon", " zeta", " eta"]
    model, path, text = says("words", [*words, "<|end|>"]), tmp("words.json"), b"alpha beta gamma delta epsilon zeta eta"
    same(talk(model, "a", args=("-q",)).out, text + b"\n", "in a pipe")
    p = Person("-m", model, "-i", "-q", columns=30, TERM="dumb")
    p.until(b"> "), p.type("a\r"), p.until(b"a\r\n")
    same(p.until(b"\r\n> "), b"alpha beta gamma delta\r\nepsilon zeta eta", "30 columns")
    fcntl.ioctl(p.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    p.type("/help\r"), p.until(b"p\r\n")
    lines = p.until(b"\r\n> ").decode().split("\r\n")
    check(max(map(len, lines)) < 60 and "".join(lines).count("/") > 15 and any(x.startswith(" " * 27) for x in lines), "/help in 60 columns: %r" % lines)
    fcntl.ioctl(p.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 24, 0, 0))
    p.type("/regen\r"), p.until(b"n\r\n")
    same(p.until(b"\r\n> "), b"alpha beta gamma delta\r\nepsilon zeta eta", "24 columns")
    fcntl.ioctl(p.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 0, 0, 0))
    p.type("/regen\r"), p.until(b"n\r\n")
    same(p.until(b"\r\n> "), text, "a terminal that does not say its width")
    p.type("/save %s\r" % path), p.until(b"saved to"), p.prompt(), p.type("\x04")
    same([p.end(), saved(path)[1]["content"]], [0, text.decode()], "exit code, message")
    p = Person("-m", model, "-i", "-q", "--regex", "[a-z ]*", columns=30, TERM="dumb")
    p.until(b"> "), p.type("a\r"), p.until(b"a\r\n")
    same(p.until(b"\r\n> "), text, "under a constraint")
    p.type("\x04"), p.end()


@case
def talk_shows_who_speaks():
    """what is typed is bold and the line of statistics dim, the answer is neither; not with NO_COLOR or on a dumb terminal"""
    for env in both():
        p = Person("-m", hello(), "-i", **env)
        first = p.until(b"> ")
        shown = p.say("hi")
        if env:
            check(b"\x1b" not in first + shown, "a dumb terminal: %r" % shown)
        else:
            check(first.count(b"\x1b[1m") == 1, repr(first))
            check(re.search(rb"hi.*\x1b\[0m.*\x1b\[2mllmrun: turn 1: ", shown, re.S) and b"\x1b[2mHello" not in shown, repr(shown))
        p.type("\x04")
        same(p.end(), 0, "exit code")
    p = Person("-m", hello(), "-i", NO_COLOR="1")
    seen = p.until(b"> ") + p.say("hi")
    check(not re.search(rb"\x1b\[[0-9;]*m", seen), "NO_COLOR: %r" % seen)
    p.type("\x04"), p.end()


@case
def talk_is_stopped():
    """Ctrl-Z, each time: what the shell writes after it is not bold, and the message goes on behind it"""
    p = Person("-m", hello(), "-i")
    p.until(b"> ")
    for part in b"one", b" two":
        p.type(part)
        p.until(part[-2:])
        os.kill(p.pid, signal.SIGTSTP)
        p.until(b"\x1b[0m")
        os.kill(p.pid, signal.SIGCONT)
        p.until(b"\x1b[1m")
    p.type(b"\r")
    check(b"Hello you" in p.until(b"written") + p.prompt(), "no answer")
    p.type("/undo\r")
    p.until(b"taken back: one two"), p.prompt(), p.type("\x04")
    same(p.end(), 0, "exit code")


@case
def talk_completes_commands():
    """Tab completes a command, a parameter of /set and a word of /think; it shows what is possible, and is text in a message"""
    edits()
    path, p = tmp("completed.json"), Person("-m", hello(), "-i", "-q")
    p.until(b"> ")
    p.type("/sy\tBe kind.\r")
    p.until(b"the system message is set"), p.prompt()
    p.type("/set parameter min\t0.5\r")
    check(re.search(rb"min-p +0.5\r\n", p.prompt()), "no value of min-p")
    p.type("/s\t\t")
    p.until(b"/shift  /system  /set  /show  /save  /stats\r\n")
    p.type("\x15/think o\t\t")
    p.until(b"on  off\r\n")
    p.type("\x15/nothing\t!\r")
    p.until(b"unknown command /nothing!"), p.prompt()
    p.type("a\tb\r")
    p.until(b"Hello you"), p.prompt()
    p.type("/sav\t%s\r" % path)
    p.until(b"saved to"), p.prompt()
    p.type("/b\t\r")
    same(p.end(), 0, "exit code")
    same([m["content"] for m in saved(path)], ["Be kind.", "a\tb", "Hello you"], "messages")


@case
def talk_keeps_a_history():
    """the arrow keys bring earlier messages back, those of earlier runs too; the file has mode 0600, whatever it was before"""
    edits()
    if os.path.exists(HISTORY):
        os.unlink(HISTORY)
    p = Person("-m", hello(), "-i")
    p.until(b"> ")
    p.say("first message"), p.say("second ünïcode \\\\ message")
    p.type("\x1b[A\x1b[A!\r")
    p.until(b"written"), p.prompt(), p.type("\x04")
    same(p.end(), 0, "exit code")
    same(oct(os.stat(HISTORY).st_mode & 0o7777), "0o600", "mode")
    same(oct(os.stat(os.path.dirname(HISTORY)).st_mode & 0o7777), "0o700", "mode of the folder")
    os.chmod(HISTORY, 0o644)
    p = Person("-m", hello(), "-i")
    p.until(b"> ")
    p.type("\x1b[A\x1b[A\r")
    p.until(b"written"), p.prompt(), p.type("\x04")
    same(p.end(), 0, "exit code")
    same(oct(os.stat(HISTORY).st_mode & 0o7777), "0o600", "mode")
    with open(HISTORY, encoding="utf-8") as f:
        same(f.read(), "first message\nsecond ünïcode \\\\\\\\ message\nfirst message!\nsecond ünïcode \\\\\\\\ message\n",
             "history")


@case
def talk_keeps_long_lines():
    """keys of the history lose no line: none longer than what libedit keeps, none after the newest entry or a cut one"""
    edits()
    os.makedirs(os.path.dirname(HISTORY), mode=0o700, exist_ok=True)
    for keys in "\x1b[A\x1b[B", "\x1bOA\x1bOB", "\x10\x0e", "\x12\x07", "\x1b[B":
        with open(HISTORY, "w") as f:
            f.write("earlier\ncut")
        p = Person("-m", hello(), "-i")
        p.until(b"> ")
        long = "0123456789" * (2 if keys == "\x1b[B" else 150)
        for part in long, keys, "\r":
            p.type(part)
        p.until(b"written"), p.prompt(), p.type("\x04")
        same(p.end(), 0, "exit code")
        with open(HISTORY) as f:
            same(f.read().split("\n"), ["earlier", "cut", long, ""], "history after %r" % keys)


@case
def talk_has_no_commands_of_libedit():
    """the key of libedit's own commands does nothing; an open quote in one would end the program"""
    edits()
    p = Person("-m", hello(), "-i")
    p.until(b"> ")
    p.type("\x1bx"), p.type('"\r')
    check(b"Hello you" in p.until(b"written") + p.prompt(), "no answer")
    p.type("\x04")
    same(p.end(), 0, "exit code")


@case
def talk_ends_in_a_paste():
    """a paste without its end is a message when the input ends"""
    p = Person("-m", hello(), "-i", TERM="dumb")
    p.until(b"> ")
    p.type("\x1b[200~a\r")
    p.until(b"a\r\n"), p.type("\x04")
    check(b"Hello you" in p.until(b"written"), "no answer")
    p.until(b"seed"), p.end()


@case
def talk_without_a_history():
    """a history that cannot be kept is no error: no home, a folder in its place, a place where nothing can be written"""
    edits()
    other = tmp("state")
    os.makedirs(os.path.join(other, "llmrun", "history"))
    for env in ({"HOME": ""}, {"XDG_STATE_HOME": other}, {"XDG_STATE_HOME": "/dev/null"}, {"HOME": "/proc"}):
        p = Person("-m", hello(), "-i", **env)
        p.until(b"> ")
        check(b"Hello you\r\n" in p.say("hi"), "no answer: %r" % env)
        p.type("\x04")
        same(p.end(), 0, "exit code: %r" % env)


@case
def talk_with_any_history():
    """a history of any bytes does no harm, and one that has grown long loses its oldest entries"""
    edits()
    state = tmp("grown")
    path = os.path.join(state, "llmrun", "history")
    os.makedirs(os.path.dirname(path))
    rng = random.Random(1)
    for content in (rng.randbytes(100000), b"", b"no newline", b"\\" * 999 + b"\n", b"%d long entry\n" * 700000
                    % tuple(range(700000))):
        with open(path, "wb") as f:
            f.write(content)
        p = Person("-m", hello(), "-i", XDG_STATE_HOME=state)
        p.until(b"> ")
        p.type("\x1b[A" * 5 + "\x1b[B" * 9 + "new\r")
        p.until(b"written"), p.prompt(), p.type("\x04")
        same(p.end(), 0, "exit code")
    with open(path, "rb") as f:
        lines = f.read().split(b"\n")
    same([len(lines), lines[-3], lines[-2]], [1002, b"699999 long entry", b"new"], "what is kept of a long one")


@case
def talk_is_interrupted():
    """Ctrl-C ends the answer, which stays; at a prompt it drops the text, at an empty one it ends the program with 130"""
    for env in both():
        path, p = tmp("interrupted.json"), Person("-m", endless(), "-i", "--loop-stop", "off", **env)
        p.until(b"> ")
        p.type("sing\r")
        p.until(b" lo la lo la")
        p.type("\x03")
        p.until(b"written"), p.prompt()
        if "TERM" not in env:
            p.type("not this")
            p.until(b"not this")
            p.type("\x03")
            p.prompt()
        p.type("/save %s\r" % path)
        p.until(b"saved to"), p.prompt()
        messages = saved(path)
        same([m["role"] for m in messages], ["user", "assistant"], "roles")
        check(messages[1]["content"].startswith("la la lo la lo"), "the answer: %s" % short(messages[1]["content"]))
        p.type("\x03")
        same(p.end(), 130, "exit code")


@case
def talk_is_interrupted_early():
    """Ctrl-C while a long message is read takes the message back; the next one gets the answer that it always has"""
    with open(tmp("long.txt"), "w") as f:
        f.write("word " * 400000)
    p = Person("-m", says("patient", ["Hello", " you", "<|end|>"], context=1 << 22), "-i", TERM="dumb")
    p.until(b"> ")
    p.type("/read %s\r" % tmp("long.txt"))
    p.until(b"come before"), p.prompt()
    p.type("and now?\r")
    p.until(b"reading the prompt")
    p.type("\x03")
    p.until(b"interrupted before the first token; the message is taken back"), p.prompt()
    check(b"Hello you\r\n" in p.say("hi"), "no answer")
    p.type("\x04")
    same(p.end(), 0, "exit code")


@case
def talk_in_a_pipe_is_interrupted():
    """a signal ends a conversation in a pipe, during an answer and while a message is waited for: 130 and 143"""
    for model, word in ((hello(), b"Hello you\n"), (endless(), b" lo la")):
        for sig, rc in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            p = subprocess.Popen([BIN, "-m", model, "-i", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env=OWN)
            p.stdin.write(b"a\n"), p.stdin.flush()
            seen = b""
            while word not in seen:
                seen += os.read(p.stdout.fileno(), 4096)
            p.send_signal(sig)
            same([finish(p).rc, seen[:2]], [rc, word[:2] if word[:1] != b" " else b"la"], "exit code")


@case
def talk_leaves_the_terminal_alone():
    """the settings of the terminal are as before: at the end, and after SIGTERM at a prompt (exit 143)"""
    for env in both():
        p = Person("-m", hello(), "-i", **env)
        p.until(b"> ")
        p.type("abc")
        p.until(b"abc")
        os.kill(p.pid, signal.SIGTERM)
        same(p.end(), 143, "exit code")
    edits()
    leader, follower = open_terminal()
    before = termios.tcgetattr(follower)
    for last in (b"\x04", None):
        p = subprocess.Popen([BIN, "-m", hello(), "-i"], stdin=follower, stdout=follower, stderr=follower, env=OWN)
        seen = b""
        while b"\x1b[?2004h> " not in seen:
            seen += os.read(leader, 4096)
        check(termios.tcgetattr(follower) != before, "the line is not edited")
        if last:
            os.write(leader, last)
        else:
            p.send_signal(signal.SIGTERM)
        p.wait(timeout=60 * SLOW)
        same(termios.tcgetattr(follower), before, "settings")
    os.close(leader), os.close(follower)


@case
def talk_follows_the_window():
    """a window of another size: the line that is edited is drawn again, and goes on"""
    edits()
    p = Person("-m", hello(), "-i", columns=60)
    p.until(b"> ")
    p.type("resi")
    p.until(b"resi")
    fcntl.ioctl(p.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 30, 0, 0))
    p.until(b"> resi")
    p.type("zed\r")
    p.until(b"written"), p.prompt()
    p.type("\x1b[A")
    p.until(b"resized")
    p.type("\x03")
    p.prompt()
    p.type("\x03")
    same(p.end(), 130, "exit code")


@case
def talk_cannot_be_steered():
    """what a model says cannot steer the terminal: control characters and bytes of no character are written as \\\\xHH"""
    evil = ["\x1b]0;title\a", "\x1b[2J", "\u009b31m", "\r", "\u202e", "tab\t", "line\n", "é", "<0xFF>", "<0xC3>"]
    model = says("evil", [*evil, "<|end|>"])
    exact = "".join(evil[:8]).encode() + b"\xff\xc3"
    same(talk(model, "a", args=("-q",)).out, exact + b"\n", "in a pipe")
    p = Person("-m", model, "-i", "-q", TERM="dumb")
    p.until(b"> ")
    p.type("a\r")
    p.until(b"a\r\n")
    want = (b"\\x1b]0;title\\x07\\x1b[2J\\xc2\\x9b31m\\x0d\\xe2\\x80\\xaetab\tline\r\n" + "é".encode() + b"\\xff\\xc3")
    same(p.until(b"\r\n> "), want, "on a terminal")
    p.type("/show\r")
    check(b"\x1b" not in p.until(b"\r\n> "), "/show")
    p.type("\x04")
    same(p.end(), 0, "exit code")


@case
def talk_opens_an_editor():
    """/edit sends what the editor of the environment saves; one that fails or saves nothing sends nothing"""
    editor, path = tmp("editor.sh"), tmp("edited.json")
    with open(editor, "w") as f:
        f.write('#!/bin/sh\ntest "$1" != fail || exit 3\ntest "$1" != empty || { : > "$2"; exit; }\n'
                'printf "%s\\n/second line\\n" "$(cat "$2")" > "$2"\n')
    os.chmod(editor, 0o755)
    for way, want in (("good", ["begun\n/second line"]), ("empty", []), ("fail", [])):
        p = Person("-m", hello(), "-i", EDITOR=editor + " " + way, TERM="dumb", TMPDIR=TMP)
        p.until(b"> ")
        p.type("/edit begun\r")
        p.until({"good": b"written", "empty": b"begun", "fail": b"the editor failed"}[way]), p.prompt()
        p.type("/save %s\r" % path)
        p.until(b"saved to"), p.prompt()
        p.type("\x04")
        same(p.end(), 0, "exit code")
        same([m["content"] for m in saved(path) if m["role"] == "user"], want, way)
    check(not [x for x in os.listdir(TMP) if x.startswith("llmrun-")], "a temporary file is left")


@case
def talk_leaves_the_editor_free():
    """the editor of /edit is not in the sandbox, where it could start nothing; the conversation is"""
    editor, path = tmp("free.sh"), tmp("free.json")
    with open(editor, "w") as f:
        f.write('#!/bin/sh\ngrep -E "^(Seccomp|NoNewPrivs):" /proc/self/status > "$1"\n')
    os.chmod(editor, 0o755)
    own = [x.split() for x in open("/proc/self/status") if x.startswith(("Seccomp:", "NoNewPrivs:"))]
    p = Person("-m", hello(), "-i", "-v", EDITOR=editor, TERM="dumb", TMPDIR=TMP)
    holds = p.until(b"> ").decode()
    check("sandbox     " in holds, holds)
    if "seccomp" in holds:
        with open("/proc/%d/status" % p.pid) as f:
            check("Seccomp:\t2" in f.read(), "the conversation is not in the sandbox")
    p.type("/edit begun\r"), p.until(b"written"), p.prompt()
    p.type("/save %s\r" % path), p.until(b"saved to"), p.prompt()
    p.type("\x04")
    same(p.end(), 0, "exit code")
    same([[x.split() for x in m["content"].splitlines()] for m in saved(path) if m["role"] == "user"], [own], "status of the editor")


@case
def talk_is_ended_in_an_editor():
    """a second SIGTERM while the editor runs ends the program and removes the editor's file, which nobody else may read"""
    editor = tmp("waits.sh")
    with open(editor, "w") as f:
        f.write('#!/bin/sh\nls -l "$1" | cut -c1-10\ncat > /dev/null\n')
    os.chmod(editor, 0o755)
    p = Person("-m", hello(), "-i", EDITOR=editor, TERM="dumb", TMPDIR=TMP)
    p.until(b"> ")
    p.type("/edit begun\r")
    p.until(b"-rw-------")
    same(len([x for x in os.listdir(TMP) if x.startswith("llmrun-")]), 1, "files of the editor")
    limit = time.monotonic() + 60 * SLOW
    while True:
        os.kill(p.pid, signal.SIGTERM)
        if select.select([p.fd], [], [], 0.05)[0] and not p.more(limit):
            break
    os.close(p.fd)
    same(os.waitstatus_to_exitcode(os.waitpid(p.pid, 0)[1]), 143, "exit code")
    check(not [x for x in os.listdir(TMP) if x.startswith("llmrun-")], "the editor's file is left")


if __name__ == "__main__":
    sys.exit(walk("talk", sys.argv[2:], TMP))
