#!/usr/bin/env python3
"""Every call for memory and for files is made to fail, one run each: a failure has its exit code and one line, and what is kept is whole.

    python3 tests/failures.py ./llmrun build/test/disturb.so [--step N] [--first K] [WORD ...]     cases whose name holds a word, else all

A case is a command, undisturbed at first; then with each N-th of its calls (20; 1: all, as make test-all has it), from the K-th on, disturbed as
tests/disturb.c tells. What must hold:
  part, signal   nothing is different: the rest is read or written, the call is made again
  space          not a call, but the disk is full after so many bytes: as others
  others         either nothing is different, or the exit code is 2 or 3 and standard error has one line; standard output is a beginning of what it was to be,
                 a file is the old or the new one, a file of results has whole records, and nothing else is left behind
A batch whose run failed is resumed, and answers every line once; lines for which memory ended have an error that says so, and run again.
"""
import os, sys
from kit import PASSING, Place, arguments, case, check, jsonl, one_line, read, same, scratch, short
import script

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(HERE, "tests", "data", "tiny", "llama.gguf")
FOLDER, tmp, put = scratch("failures")
PLACE = Place(FOLDER)
SAY = tmp("say")
CACHES = ("pc.gguf", "lc.gguf")                          # which may stay as they are where they cannot be read or replaced
KINDS = ("memory", "file", "signal", "part", "page")
TEXT = b"the quick brown fox jumps over the lazy dog. " * 4
O = None


def files():
    """{name: bytes} of the folder of a run, without what differs from run to run."""
    return {name: PASSING.sub(rb"\g<1>0", data) for name, data in PLACE.files().items()}


def disturbed(args, inp, fail=None, **more):
    """A run whose calls come by; (what it did, the name of the call that failed)."""
    for path in SAY, PLACE.count:
        if os.path.exists(path):
            os.unlink(path)
    env = dict(DISTURB_SAY=SAY, DISTURB_COUNT=PLACE.count, **({"DISTURB_FAIL": fail} if fail else {}), **more)
    r = PLACE.run(args, inp, **env)
    return r, read(SAY).decode() if os.path.exists(SAY) else ""


def whole_lines(data, of, what):
    """Every line is one of those of the whole file, each once at most."""
    check(data.endswith(b"\n") or not data, "%s: a line is cut: %s" % (what, short(data)))
    lines, all_lines = data.split(b"\n")[:-1], of.split(b"\n")
    check(len(set(lines)) == len(lines) and set(lines) <= set(all_lines), "%s: lines of no whole run: %s" % (what, short(data)))


def kept(name, got, old, new, what):
    """A file of a failed run is the old or the new one; of results, whole lines; text that is written as it comes, a beginning."""
    if got in (old, new):
        return
    check(got is not None, "%s: %s is lost" % (what, name))
    if name.endswith(".jsonl"):
        whole_lines(got, (old or b"") + (new or b""), what + ": " + name)
    else:
        check(not name.endswith((".gguf", ".llmrun")) and (new or b"").startswith(got), "%s: %s is neither the old nor the new file" % (what, name))


def usable(args, inp, want, what):
    """A cache that a failed run has left serves the same command."""
    r = PLACE.run(args, inp)
    check((r.rc, r.out) == (want.rc, want.out), "%s: with what it left: %r" % (what, r))


def judge(kind, call, r, want, had, after, late, turns, again, what):
    """Whether a disturbed run did what it may."""
    now = files()
    differ = sorted(n for n in {**now, **after} if now.get(n) != after.get(n))
    left = [n for n in now if n not in after and n not in had]
    calm = (r.rc, r.out, r.err) == (want.rc, want.out, want.err)
    if kind in ("part", "signal"):
        check(calm and not differ, "%s: want no difference, got %r, files %s" % (what, r, differ))
    check(not left or call == "unlink" or late, "%s: left behind: %s" % (what, left))
    if calm and all(n in left or (n in CACHES and now.get(n) == had.get(n)) for n in differ):
        return
    lines = r.err.splitlines(keepends=True)
    no_room = r.rc == 1 and b'"code":"out_of_room","message":"out of memory' in now.get("out.jsonl", b"")
    check(r.rc == 3 or (r.rc == 2 and kind != "memory") or (r.rc == 1 and turns) or no_room, "%s: want no difference, exit 2 or 3, got %r; files that differ: %s"
          % (what, r, differ))
    check(all(map(one_line, lines)) and len(lines) in range(1, 2 + turns), "%s: want one line on stderr, got %r" % (what, r))
    check(kind != "page" or b": I/O error while it was read" in r.err, "%s: want an I/O error, got %r" % (what, r))
    check(want.out.startswith(r.out) or (turns and all(line in want.out for line in r.out.splitlines())), "%s: stdout is no beginning of %s: %s, exit %d: %s"
          % (what, short(want.out), short(r.out), r.rc, short(r.err)))
    for name in sorted({**after, **had}):
        if no_room and name == "out.jsonl":
            same(now[name].count(b"\n"), after[name].count(b"\n"), what + ": records")
        elif name in CACHES and now.get(name) not in (had.get(name), after.get(name)):
            again()
        else:
            kept(name, now.get(name), had.get(name), after.get(name), what)


def step_of(kind):
    """Each call of a kind that has few, a part of them where it has hundreds."""
    return 1 if kind == "page" else -(-O.step // 5) if kind in ("part", "signal") else O.step


def fail(args, has=None, inp=None, rc=0, resume=None, turns=0):
    """Disturbs a command in a folder with these files. resume: options with which a failed run goes on to the files of a whole one; turns: messages, each of which may
    have a line of its own. Returns the number of runs."""
    has = has or {}
    PLACE.prepare(has)
    had = files()
    want, _ = disturbed(args, inp)
    check(want.rc == rc and (not want.err or rc), "undisturbed: %r" % want)
    after, counts = files(), dict(line.split() for line in read(PLACE.count).decode().splitlines())
    written = sum(len(after[name]) for name in after if after[name] != had.get(name))
    bad = []
    runs = [(kind, k, late) for kind in KINDS for late in (("", "+") if kind in ("memory", "file", "part") else ("",))
            for k in range(O.first, int(counts[kind]) + 1, step_of(kind) * (5 if late and O.step == 1 else 1))]
    runs += [("space", k, "") for k in range(0, written, 1 + written * min(O.step, 20) // 400)]
    for kind, k, late in runs:
        PLACE.prepare(has)
        if kind == "space":
            r, call = disturbed(args, inp, None, DISTURB_UNDER=PLACE.path, DISTURB_SPACE=str(k))
        else:
            r, call = disturbed(args, inp, "%s:%d%s" % (kind, k, late))
        what = "%s:%d%s (%s)" % (kind, k, late, call)
        try:
            judge(kind, call, r, want, had, after, late, turns, lambda: usable(args, inp, want, what), what)
            if resume and files() != after:
                again = PLACE.run(resume, inp)
                check(again.rc == rc, "%s, resumed: %r" % (what, again))
                same(sorted(files()["out.jsonl"].splitlines()), sorted(after["out.jsonl"].splitlines()), what + ", resumed: records")
        except AssertionError as e:
            bad.append(str(e))
    for why in bad[:O.show]:
        print("      " + why)
    check(not bad, "%d of %d runs, first %s" % (len(bad), len(runs), bad[:1]))
    return len(runs)


TOTAL = [0]


def action(f):
    """A case that adds up its runs."""
    def counted():
        TOTAL[0] += f()
    counted.__name__, counted.__doc__ = f.__name__, f.__doc__
    return case(counted)


LINES = [{"prompt": "Hello", "max_tokens": 4, "temperature": 0}, {"custom_id": "b", "prompt": "Two and", "max_tokens": 5, "temperature": 0, "logprobs": 1}]
BATCH = ("-m", MODEL, "--batch", "in.jsonl", "-o", "out.jsonl", "-s", "1")
GREEDY = ("--temp", "0", "-n", "6")


def made(args, has, *names):
    """The files of these names that a run leaves."""
    PLACE.prepare(has)
    r = PLACE.run(args)
    check(r.rc == 0, "%r" % r)
    return {name: read(os.path.join(PLACE.path, name)) for name in names}


@action
def text():
    """text on standard output"""
    return fail(("-m", MODEL, "--raw", "-p", "Hello", "--no-stdin", *GREEDY))


@action
def chat():
    """two turns of a conversation from a pipe"""
    model = script.write(tmp("hello.gguf"), [["<|assistant|>", "Hello", " you", "<|end|>"]],
                         "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
    return fail(("-m", model, "-i", "--temp", "0"), inp=b"Hi\nAnd you?\n", turns=2)


@action
def schema():
    """an answer under a schema, to a file that was there"""
    return fail(("-m", MODEL, "--raw", "-p", "x", "--no-stdin", "--json-schema", '{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}',
                 "--temp", "0", "-n", "40", "-o", "answer"), {"answer": b"old\n"})


@action
def batch():
    """a file of lines, one of them wrong"""
    return fail(BATCH, {"in.jsonl": jsonl([*LINES, b"{bad"])}, rc=1, resume=(*BATCH, "--resume", "--retry-errors"))


@action
def resume():
    """a file of results of which a record is there, one answers no line and one is torn"""
    has = {"in.jsonl": jsonl([LINES[0], {"prompt": "old", "max_tokens": 3, "temperature": 0}])}
    has.update(made(BATCH, has, "out.jsonl", "out.jsonl.llmrun"))
    lines = has["out.jsonl"].splitlines(keepends=True)
    check(len(lines) == 2, "two records")
    has["out.jsonl"] += lines[0][:100]
    has["in.jsonl"] = jsonl(LINES)
    return fail((*BATCH, "--resume"), has, resume=(*BATCH, "--resume", "--retry-errors"))


@action
def merge():
    """two files of results become one table"""
    has = {"in.jsonl": jsonl(LINES)}
    whole = made(BATCH, has, "out.jsonl")["out.jsonl"].splitlines(keepends=True)
    return fail(("--merge", "a.jsonl", "b.jsonl", "-o", "out.csv"), {"a.jsonl": whole[0], "b.jsonl": whole[1]})


@action
def threads():
    """text, by three threads"""
    return fail(("-m", MODEL, "--raw", "-p", "Hello", "--no-stdin", "-t", "3", *GREEDY))


@action
def embed():
    """a vector"""
    return fail(("-m", MODEL, "--embed", "-p", "Hello", "--no-stdin"))


@action
def quantize():
    """a model in another type, where an older file was"""
    return fail(("-m", MODEL, "--quantize", "q4_0", "-o", "q.gguf"), {"q.gguf": b"GGUF old"})


@action
def imatrix():
    """an importance matrix"""
    return fail(("-m", MODEL, "--imatrix-out", "im.gguf", "-f", "text", "-c", "32"), {"text": TEXT})


@action
def perplexity():
    """the perplexity of a text"""
    return fail(("-m", MODEL, "--perplexity", "-f", "text", "-c", "32"), {"text": TEXT})


@action
def inspect():
    """what a model file holds"""
    return fail(("-m", MODEL, "--inspect"))


@action
def cache_save():
    """a prompt cache is made"""
    return fail(("-m", MODEL, "--raw", "-f", "text", "--prompt-cache", "pc.gguf", *GREEDY), {"text": TEXT})


@action
def cache_load():
    """a prompt cache is used and replaced"""
    args = ("-m", MODEL, "--raw", "-f", "text", "--prompt-cache", "pc.gguf", *GREEDY)
    has = {"text": TEXT[:80]}
    has.update(made(args, has, "pc.gguf"))
    has["text"] = TEXT
    return fail(args, has)


@action
def lookup():
    """guesses of a lookup cache, which is replaced"""
    args = ("-m", MODEL, "--raw", "-f", "text", "--lookup", "--lookup-cache", "lc.gguf", *GREEDY)
    has = {"text": TEXT[:80]}
    has.update(made(args, has, "lc.gguf"))
    has["text"] = TEXT
    return fail(args, has)


@case
def stopped():
    """a signal that arrives when a file has just been created: the file is removed"""
    for args in (("-m", MODEL, "--raw", "-p", "Hello", "-o", "out.txt", *GREEDY), ("-m", MODEL, "--quantize", "Q8_0", "-o", "out.gguf"),
                 ("-m", MODEL, "--imatrix-out", "out.gguf", "-f", "text", "-c", "32")):
        PLACE.prepare({"text": TEXT})
        r = PLACE.run(args, DISTURB_STOP="1")
        same((r.rc, list(files())), (143, ["text"]), args)


if __name__ == "__main__":
    O = arguments("binary", "library", step=20, first=1, show=5)
    sys.exit(PLACE.walk("failures", O, lambda: print("%d runs" % TOTAL[0])))
