#!/usr/bin/env python3
"""Tests of the command: streams, exit codes, signals, damaged and special files.

    python3 tests/cli.py ./llmrun [WORD ...]      cases whose name holds one of the words, else all

Some cases need the shared data (env SHARED, else ../shared beside the repository). One line per case, then a count.
LLMRUN_SLOW=N stretches every time limit N times, for builds under a sanitizer.
"""
import array, base64, csv, fcntl, gzip, json, math, os, pty, re, resource, select, shutil, signal, struct, subprocess, sys, termios, threading, time
import kit, script
from kit import ENV, SLOW, Skip, begin, case, check, done, finish, fork_terminal, levels, new_folder, one_line, open_terminal, same, until_caught, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("SHARED") or os.path.join(HERE, "..", "shared")
DATA = os.path.join(os.path.abspath(SHARED), "data")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
STORIES = os.path.join(DATA, "stories260K.gguf")
VOCABS = ["llama-spm", "llama-bpe", "qwen2", "gpt-2", "starcoder", "deepseek-llm"]
BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(HERE, "llmrun")
TMP = new_folder("cli")


def float_model():
    """A small model in F32: the shared one, else the draft model in this repository, converted."""
    if os.path.exists(STORIES):
        return STORIES
    path = os.path.join(TMP, "model.gguf")
    draft = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
    subprocess.run([BIN, "-q", "-m", draft, "--quantize", "F32", "--allow-requantize", "-o", path], check=True, env=ENV, stdin=subprocess.DEVNULL)
    return path


MODEL = float_model()


def model():
    return MODEL


def stories():
    """A case that expects the output of this model."""
    if not os.path.exists(STORIES):
        raise Skip("no " + STORIES)


def vocab(name):
    path = os.path.join(DATA, "vocab", name + ".gguf")
    if not os.path.exists(path):
        raise Skip("no " + path)
    return path


def vocabs():
    """The shared vocabularies, or the one in this repository."""
    shared = [os.path.join(DATA, "vocab", name + ".gguf") for name in VOCABS]
    return shared if all(map(os.path.exists, shared)) else [PIP]


def some_vocab():
    """A vocabulary with all bytes, where any will do."""
    path = os.path.join(DATA, "vocab", "gpt-2.gguf")
    return path if os.path.exists(path) else PIP


def tmp(name):
    return os.path.join(TMP, name)


def start(*args, **kw):
    return begin([BIN, *args], **kw)


def run(*args, inp=b"", env=None, timeout=60, **kw):
    """The command with these arguments. inp: bytes for stdin, b"" is /dev/null."""
    if inp:
        kw["stdin"] = subprocess.PIPE
    return finish(start(*args, env={**ENV, **(env or {})}, **kw), timeout, inp)


def good(*args, **kw):
    return done(run(*args, **kw), args)


def refused(r, rc, word, what):
    kit.refused(r, rc, re.escape(word), what)


GREEDY = ("--temp", "0")
SMALL = os.path.join(HERE, "tests", "data", "tiny", "llama.gguf")
ENDLESS = ("--temp", "0", "-n", "100000000", "-c", "64", "--context-shift", "--ignore-eos")


# --- what needs no model ---

@case
def version_and_lists():
    """--version, --help and --list write to stdout and nothing to stderr"""
    for args in (["--version"], ["--help"], ["-h"], ["--help", "sampling"], *(["--help", "--format", x] for x in ("md", "man", "bash", "zsh", "fish")), *(["--list", x] for x in ("types", "archs", "cpu", "pre", "quants", "tool-calls", "options")),
                 ["--list", "types", "--format", "md"], ["--list", "options", "--format=md"]):
        r = run(*args)
        check(r.rc == 0 and r.out.endswith(b"\n") and not r.err, "%s: %r" % (args, r))
    check(b"q4_K" in good("--list", "types"), "no q4_K in --list types")
    check(b"llama" in good("--list", "archs"), "no llama in --list archs")
    listed = good("--list", "cpu")
    check(b"scalar" in listed, "no scalar in --list cpu")
    tiles = re.search(rb"^avx512(_bf16)? +runs here, chosen$", listed, re.M)
    check(bool(tiles) == bool(re.search(rb"^tiles +[68] columns, by a trial$", listed, re.M)), "tiles of --list cpu")
    check(b"qwen2" in good("--list", "pre"), "no qwen2 in --list pre")
    check(b"deepseek-v3.1" in good("--list", "tool-calls"), "no deepseek-v3.1 in --list tool-calls")


@case
def options_in_help():
    """every spelling of --list options is in --help and in the Markdown table"""
    names = good("--list", "options").decode().split()
    text, md = good("--help").decode(), good("--help", "--format", "md").decode()
    check(len(names) > 60 and len(set(names)) == len(names), "%d names" % len(names))
    for name in names:
        check(re.search(r"(?m)^  (-\S+, )*%s(,| |$)" % re.escape(name), text), name + " is not in --help")
        check("`%s`" % name in md, name + " is not in the table")
    for name in "-fa", "--no-mmap", "--mlock", "-tb", "--no-warmup", "--no-display-prompt", "--log-file":
        check(name in text.split("that change nothing here")[1].split(), name + " is not among the options that change nothing")


@case
def usage_errors():
    """a wrong command line: exit 2, one line that names what is wrong, nothing on stdout"""
    for args, word in (
        (["--tempp", "1"], "unknown option --tempp (did you mean --temp?)"),
        (["--bench"], "no model given"),
        (["-d", "4096"], "-d has no effect on generation, only on --bench"),
        (["--batch"], "--batch: expected FILE"),
        (["--chatter"], "unknown option --chatter"),
        (["--control-vector", "f"], "--control-vector is an option of llama.cpp that llmrun does not have"),
        (["-m", "x", "-p", "a", "--grammar", "x", "--regex", "y"], "--grammar and --regex both give a constraint, expected one"),
        (["-jf", "x", "-j", "y", "--match"], "--json-schema and --json-schema-file both give a constraint, expected one"),
        (["--match"], "no constraint given, expected --grammar, --grammar-file, --json-schema, --json-schema-file, --regex or --choice"),
        (["--mask", "-m", "x"], "no constraint given, expected --grammar"),
        (["--match", "--close", "--regex", "x"], "--close has no effect on --match"),
        (["-m", "x", "--score", "-p", "a", "--temp", "0"], "--temp has no effect on --score, only on generation, --interactive, --batch and --serve"),
        (["-m", "x", "-p", "a", "--", "-n", "5"], "unexpected argument '-n'"),
        (["--temp"], "--temp: expected X after it"),
        (["--temp", "hot"], "--temp: expected a number, found 'hot'"),
        (["--temp", "0,5"], "--temp: expected a number, found '0,5'"),
        (["--temp", "nan"], "--temp"),
        (["-n", "1e3"], "-n: expected a whole number"),
        (["--mirostat-lr", "101"], "--mirostat-lr: 101 is out of range, expected 0 to 100"),
        (["--threads=-2"], "--threads: -2 is out of range, expected -1 to 1024"),
        (["--seed", "99999999999999999999999"], "out of range"),
        (["--cpu", "turbo"], "expected auto, scalar, avx2, avx_vnni, avx512, avx512_bf16 or avx512_amx"),
        (["-ctk", "q2_K"], "-ctk: expected f32, f16"),
        (["--quiet=1"], "--quiet takes no value"),
        (["--list", "cats"], "--list: expected types, archs"),
        (["--inspect", "--score"], "two actions"),
        (["-m", "x", "-p", "a", "--samplers", "top_k;nonsense"], "nonsense"),
        (["-m", "x", "-p", "a", "-l", "x"], "--logit-bias"),
        (["hello"], "unexpected argument 'hello'"),
        (["-m", "owner/name", "-p", "x"], "owner/name: no such file and no model that is here; -hf owner/name downloads the one of a hub"),
        (["-m", "name", "-p", "x"], "name: no such file, expected the path of a GGUF file or a name that --models lists (--help models says"),
        (["-m", "owner/name.gguf", "-p", "x"], "owner/name.gguf: cannot open: No such file or directory"),
        (["-m", "x", "-p", "a", "--stop", ""], "--stop: found an empty text"),
        (["-m", "x", "--no-stdin"], "no prompt given, expected -p TEXT or -f FILE"),
        (["-m", "x", "--no-stdin", "-f", "-"], "--no-stdin and --file - disagree"),
        (["-m", "x", "--no-stdin", "--batch", "-"], "--no-stdin and --batch - disagree"),
        (["-p", "a"], "no model given"),
        ([], "no model given"),
        (["-m", "x"], "no prompt given"),
        (["-m", "/nonexistent/x.gguf", "-p", "a"], "/nonexistent/x.gguf"),
        (["--\x1b[31m\n"], "unknown option --\\x1b[31m\\x0a"),
    ):
        kw = {"preexec_fn": lambda: os.close(0)} if args == ["-m", "x"] else {}
        refused(run(*args, **kw), 2, word, " ".join(args))
        refused(run("-q", *args, **kw), 2, word, "-q " + " ".join(args))


def in_window(columns, *args):
    """Output of a command on a terminal with this many columns."""
    master, slave = open_terminal()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    p = start(*args, stdout=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(master)
    same((p.wait(20 * SLOW), p.communicate()[1]), (0, b""), " ".join(args))
    return text.decode().replace("\r\n", "\n")


@case
def help_fits_the_window():
    """--help is wrapped to the window's width, to 80 columns in a pipe; -h is one screen of 24 lines"""
    for columns, most in ((60, 60), (100, 100), (300, 120)):
        widest = max(len(line) for line in in_window(columns, "--help").splitlines())
        check(most - 15 < widest <= most, "%d columns in a window of %d" % (widest, columns))
    check(max(len(line) for line in good("--help").decode().splitlines()) <= 80, "a line of more than 80 columns in a pipe")
    brief = in_window(80, "-h").splitlines()
    check(10 < len(brief) < 24 and max(map(len, brief)) <= 80, "-h has %d lines" % len(brief))
    more = " ".join(brief[-6:])
    check("--help TOPIC" in more and "sampling" in more and "limits" in more, "-h does not say how to get more: %r" % more)


@case
def help_topics():
    """--help TOPIC prints one group, --help NAME one option, a wrong topic gets a suggestion; --help names every exit code"""
    sampling = good("--help", "sampling").decode()
    check("--top-k" in sampling and "--batch-order" not in sampling and sampling == good("--help=sampling").decode() == good("-h", "sampling").decode(), sampling[:80])
    check("--top-k" in good("--help", "top-k").decode(), "--help top-k")
    keys = re.search(r"Keys in the body of a line: (.*)\. Keys that change nothing[^:]*: (.*)\.$", " ".join(good("--help", "batch").decode().split()))
    check(keys and all(k in keys.group(1).split(", ") for k in ("messages", "min_tokens", "function_call", "temperature"))
          and "verbosity" in keys.group(2).split(", ") and not set(keys.group(1).split(", ")) & set(keys.group(2).split(", ")),
          "keys of a line: %r" % (keys and keys.groups(),))
    refused(run("--help", "smapling"), 2, "no topic smapling (did you mean sampling?)", "a wrong topic")
    refused(run("--help", "sampling", "--format", "man"), 2, "a topic has no form man", "a topic as a man page")
    models, chat = good("--help", "models").decode(), good("--help", "chat").decode()
    check("huggingface.co" in models and good("--list", "archs").decode() in models and "--system-prompt" in chat and "Ctrl-C" in chat, "texts of topics")
    text = good("--help").decode()
    check(re.search(r"(?m)^Topics:\n  models +Models", text), "--help does not list its topics")
    for code in "0", "1", "2", "3", "130, 143":
        check(re.search(r"(?m)^  %s  +[a-z]" % code, text), "--help does not name exit code " + code)


@case
def help_man_page():
    """the man page has no warning of groff or mandoc, and shows the options"""
    path = tmp("llmrun.1")
    same(good("--help", "--format", "man", "-o", path), b"", "stdout")
    tools = [t for t in (["groff", "-man", "-ww", "-Tutf8"], ["mandoc", "-T", "lint", "-W", "warning"]) if shutil.which(t[0])]
    if not tools:
        raise Skip("neither groff nor mandoc")
    for tool in tools:
        r = subprocess.run([*tool, path], capture_output=True, timeout=60, env=dict(ENV, LC_ALL="C.UTF-8"))
        check(r.returncode == 0 and not r.stderr and (tool[0] == "groff" or not r.stdout), "%s: %r %r" % (tool[0], r.stdout[:300], r.stderr[:300]))


def in_bash(words):
    """What bash completes the last of these words to."""
    path = tmp("complete.bash")
    good("--help", "--format", "bash", "-o", path)
    script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _llmrun; printf "%s\\n" "${COMPREPLY[@]}"'
    r = subprocess.run(["bash", "--norc", "-c", script, path, *words], capture_output=True, timeout=60, cwd=os.path.join(HERE, "models"))
    check(r.returncode == 0 and not r.stderr, repr(r))
    return r.stdout.decode().split()


def in_fish(words):
    path = tmp("complete.fish")
    good("--help", "--format", "fish", "-o", path)
    r = subprocess.run(["fish", "--no-config", "-c", 'source "%s"; complete -C "%s"' % (path, " ".join(words))], capture_output=True, timeout=60,
                       cwd=os.path.join(HERE, "models"), env=dict(ENV, HOME=TMP))
    check(r.returncode == 0 and not r.stderr, repr(r))
    return [line.split("\t")[0] for line in r.stdout.decode().splitlines()]


def in_zsh(words):
    """zsh completes in a terminal only: types the words and a tab, and returns the command line."""
    folder = tmp("zsh")
    os.makedirs(folder, exist_ok=True)
    good("--help", "--format", "zsh", "-o", os.path.join(folder, "_llmrun"))
    pid, fd = fork_terminal()
    if pid == 0:
        os.chdir(os.path.join(HERE, "models"))
        os.execvpe("zsh", ["zsh", "-f", "-i"], dict(ENV, TERM="dumb", HOME=TMP, PS1="", LC_ALL="C.UTF-8"))
    end, seen = time.monotonic() + 30 * SLOW, b""

    def until(mark):
        nonlocal seen
        while mark not in seen and time.monotonic() < end:
            if select.select([fd], [], [], 0.2)[0]:
                seen += os.read(fd, 4096)
        check(mark in seen, "zsh: no %r in %r" % (mark, seen[-300:]))
    os.write(fd, b"unsetopt zle_bracketed_paste; LISTMAX=10000; fpath=(%s $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n" % folder.encode())
    until(b"ready\r\n")
    seen = b""
    os.write(fd, " ".join(words).encode() + b"\t\x01: \x05; echo do''ne\n")   # complete, make it a comment, run the line
    until(b"done\r\n")
    os.close(fd)
    os.waitpid(pid, 0)
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", seen).decode("utf-8", "replace").replace("\r", " ").split()


@case
def help_completions():
    """completions of bash, zsh and fish, each run in its shell: names of options, words of an option, topics, files"""
    cases = ((["llmrun", "--quanti"], "--quantize"), (["llmrun", "--help", "specu"], "speculation"), (["llmrun", "-m", "pip-dr"], "pip-draft-q8_0.gguf"),
             (["llmrun", "--batch", "READ"], "README.md"), (["llmrun", "--list", "ty"], "types"), (["llmrun", "--cache-type-k", "bf"], "bf16"),
             (["llmrun", "--quantize", "Q4_K_S"], "Q4_K_S"), (["llmrun", "--repetit"], "--repetitions"))
    shells = [("bash", in_bash), *((name, f) for name, f in (("zsh", in_zsh), ("fish", in_fish)) if shutil.which(name))]
    for name, complete in shells:
        for words, want in cases[:4] if name == "zsh" else cases:    # zsh begins slowly
            got = complete(words)
            check(any(x.rstrip("=") == want for x in got), "%s: %s: want %s, got %r" % (name, " ".join(words), want, got[:20]))
    check(in_bash(["llmrun", "-n", ""]) == in_bash(["llmrun", "-m", "READ"]) == [] and in_bash(["llmrun", "--list", "=", "ar"]) == ["archs"], "bash: values")


@case
def install_and_uninstall():
    """make install puts the program, its man page and the completions under DESTDIR and PREFIX, make uninstall removes every file of them"""
    if not shutil.which("make") or not os.path.exists(os.path.join(HERE, "llmrun")):
        raise Skip("no make, or no ./llmrun")
    folder, want = tmp("root"), {"bin/llmrun", "share/man/man1/llmrun.1", "share/bash-completion/completions/llmrun",
                                 "share/zsh/site-functions/_llmrun", "share/fish/vendor_completions.d/llmrun.fish"}
    for target, left in ("install", want), ("uninstall", set()):
        r = subprocess.run(["make", "-s", "-o", "llmrun", target, "DESTDIR=" + folder, "PREFIX=/opt/x"], cwd=HERE, capture_output=True, timeout=60 * SLOW, env=ENV)
        check(r.returncode == 0, repr(r.stderr))
        found = {os.path.relpath(os.path.join(at, name), os.path.join(folder, "opt/x")) for at, _, names in os.walk(folder) for name in names}
        same(found, left, target)
        for name in left:
            check(os.path.getsize(os.path.join(folder, "opt/x", name)) > 1000, name + " is empty")


@case
def commit_of_the_build():
    """--version and the rows of --bench carry the same commit"""
    commit = re.match(rb"llmrun [0-9.]+ \(commit ([0-9a-z-]+)\)\n", good("--version"))
    check(commit, "no commit in --version")
    rows = json.loads(good("--bench", "-m", SMALL, "-p", "4", "-n", "0", "-r", "1", "-q", "-o", "json"))
    same(rows[0]["build_commit"], commit.group(1).decode(), "build_commit")


@case
def echo_of_the_prompt():
    """--echo writes the prompt's bytes before the answer, with --ids its tokens; the answer is the same"""
    args = ("-m", SMALL, "-n", "8", *GREEDY, "-q")
    same(good(*args, "--raw", "-p", "Once", "--echo"), b"Once" + good(*args, "--raw", "-p", "Once"), "-p")
    same(good(*args, "--raw", "-p", "Once", "--echo", inp=b" up\xffon\n"), b"Once\n up\xffon\n" + good(*args, "--raw", "-p", "Once", inp=b" up\xffon\n"), "-p and standard input")
    prompt, ids = good("-m", SMALL, "--tokenize", "--bos", "-p", "Once").split(), good(*args, "-p", "Once", "--ids").split()
    same(good(*args, "--raw", "-p", "Once", "--ids", "--echo").split(), prompt + ids, "--ids")
    refused(run(*args, "--raw", "-p", "Once", "--echo", "--json"), 2, "--echo and --json disagree", "--echo --json")


@case
def bench_form_by_extension():
    """--bench -o FILE.csv, .md, .json and .jsonl have the form of the extension"""
    for extension, begins in ("csv", b"build_commit,"), ("md", b"| model"), ("json", b"["), ("jsonl", b'{"build_commit"'):
        path = tmp("form." + extension)
        good("--bench", "-m", SMALL, "-p", "4", "-n", "0", "-r", "1", "-q", "-o", path)
        with open(path, "rb") as f:
            check(f.read().startswith(begins), extension)
    refused(run("--bench", "-m", SMALL, "-p", "4", "-n", "0", "-r", "1", "-o", "sql"), 2, "-o sql", "a form that is not written")
    same(run("--bench", "-m", SMALL, "-p", "4", "-n", "0", "-r", "1", "-fa", "0,1", "-mmp", "1,0").rc, 0, "lists of switches that change nothing")


@case
def options_of_llama_cpp():
    """options of llama.cpp without effect here are accepted with one line on stderr, none under -q; the answer is the same"""
    args = ("-m", model(), "--raw", "-p", "Once", "-n5", *GREEDY)
    want = good(*args)
    r = run(*args, "-fa", "on", "--no-mmap", "-tb", "4", "--log-file", tmp("log"), "--simple-io")
    same((r.rc, r.out), (0, want), "answer")
    check(r.err.startswith(b"llmrun: -fa, --no-mmap, -tb, --log-file and --simple-io change nothing here"), repr(r))
    same(run(*args, "-q", "--mlock").err, b"", "stderr with -q")
    check(not os.path.exists(tmp("log")), "a log was written")


@case
def more_threads_than_cpus():
    """-t above the number of usable CPUs gives a warning on stderr"""
    r = run("-m", SMALL, "-p", "Once", "-n", "1", "-t", str(len(os.sched_getaffinity(0)) + 1), *GREEDY)
    check(r.rc == 0 and b" threads share " in r.err, repr(r))
    check(b"share" not in run("-m", SMALL, "-p", "Once", "-n", "1", "-t", "1", *GREEDY).err, "one thread")


@case
def environment():
    """LLMRUN_MODEL is the default model; -m overrides it; an empty value counts as none"""
    good("-p", "a", "-n", "1", env={"LLMRUN_MODEL": model()})
    good("-p", "a", "-n", "1", "-m", model(), env={"LLMRUN_MODEL": "/nonexistent"})
    refused(run("-p", "a", env={"LLMRUN_MODEL": "/nonexistent"}), 2, "/nonexistent", "LLMRUN_MODEL")
    refused(run("-p", "a", env={"LLMRUN_MODEL": ""}), 2, "no model given", "LLMRUN_MODEL empty")


# --- generation ---

@case
def greedy_story():
    """200 greedy tokens from the start token, byte for byte, at every level with 1 and 2 threads"""
    stories()
    with open(os.path.join(DATA, "stories260K.greedy.txt"), "rb") if model() else None as f:
        want = f.read()
    for level in levels(BIN):
        for threads in "1", "2":
            got = good("-m", MODEL, "--raw", "-p", "", "-n", "200", *GREEDY, "--cpu", level, "-t", threads)
            same(got, want, "%s, %s threads" % (level, threads))


@case
def answer_only():
    """stdout has the answer alone; stderr has the seed, and nothing under -q"""
    r = run("-m", model(), "--raw", "-p", "Once upon", "-n", "8", *GREEDY)
    check(r.rc == 0 and r.out and b"Once upon" not in r.out and b"seed" in r.err, repr(r))
    q = run("-m", MODEL, "--raw", "-p", "Once upon", "-n", "8", *GREEDY, "-q")
    check(q.rc == 0 and q.out == r.out and q.err == b"", repr(q))
    check(b"\x1b" not in r.err and b"\r" not in r.err, "colour or progress in a pipe: %r" % r.err)
    none = run("-m", MODEL, "--raw", "-p", "Once upon", "-n", "0")
    check(none.rc == 0 and none.out == b"", repr(none))


@case
def seeds():
    """equal seeds give equal texts, different seeds different ones; a random seed is printed and gives the text again"""
    args = ("-m", model(), "--raw", "-p", "Once", "-n", "60", "--temp", "1.2")
    a, b, c = (good(*args, "-s", s) for s in ("7", "7", "8"))
    same(a, b, "seed 7 twice")
    check(a != c, "seeds 7 and 8 give the same text")
    drawn = run(*args)
    seed = re.search(rb"seed\s+(\d+)", drawn.err)
    check(drawn.rc == 0 and seed, repr(drawn))
    same(good(*args, "--seed", seed.group(1).decode()), drawn.out, "the drawn seed again")


@case
def same_tokens():
    """threads, prefill chunk, cache block, context and level do not change the text"""
    base = ("-m", model(), "--raw", "-p", "Once upon a time, there was a little dog who liked to play", "-n", "100", "-s", "3", "-q")
    want = good(*base)
    for more in (["-t", "1"], ["-t", "2"], ["-b", "1"], ["-b", "7"], ["-ub", "512"], ["--kv-block-size", "1"], ["--kv-block-size", "7"], ["--kv-block-size", "512"],
                 ["-c", "0"], ["-c", "300"], *(["--cpu", x] for x in levels(BIN))):
        same(good(*base, *more), want, " ".join(more))


@case
def ids_and_text():
    """--ids is one line of ids, which decode to the text"""
    args = ("-m", model(), "--raw", "-p", "Once upon", "-n", "40", *GREEDY)
    text, ids = good(*args), good(*args, "--ids")
    check(re.fullmatch(rb"\d+( \d+)*\n", ids), repr(ids))
    check(len(ids.split()) <= 40, "%d ids" % len(ids.split()))
    back = good("-m", MODEL, "--detokenize", inp=ids)
    check(back == text or b" " + back == text, "%r and %r" % (back, text))


@case
def stop_texts():
    """--stop and -r end the text before the stop string, wherever its tokens begin; -e reads escapes in it"""
    args = ("-m", model(), "--raw", "-p", "Once upon a time", "-n", "150", *GREEDY)
    text = good(*args).decode()
    for stop in (".", "the", text[20:31], text[5:6], "\n"):
        for flag in "--stop", "-r", "--reverse-prompt":
            want = text.split(stop)[0] if stop in text else text
            same(good(*args, flag, stop).decode(), want, "%s %r" % (flag, stop))
    same(good(*args, "--stop", "zebra", "--stop", ".").decode(), text.split(".")[0], "two stops")
    same(good(*args, "--stop", "never said").decode(), text, "a stop that does not come")
    if "\n" in text:
        same(good(*args, "-e", "--stop", "\\n").decode(), text.split("\n")[0], "-e --stop \\n")


@case
def biased():
    """--logit-bias decides, and an id beyond the vocabulary is refused"""
    same(good("-m", model(), "--raw", "-p", "a", "-n", "3", *GREEDY, "--ids", "-l", "300+1000"), b"300 300 300\n", "bias")
    beyond = str(n_vocab())
    refused(run("-m", MODEL, "--raw", "-p", "a", "-n", "3", "-l", beyond + "+1"), 2, beyond, "bias of an unknown token")


@case
def full_context():
    """a full context ends the answer with a message, or shifts; a prompt that does not fit is refused"""
    r = run("-m", model(), "--raw", "-p", "Once", "-c", "16", *GREEDY, "--ignore-eos", "--ids")
    check(r.rc == 0 and b"context is full" in r.err and 10 < len(r.out.split()) <= 16, repr(r))
    r = run("-m", MODEL, "--raw", "-p", "Once", "-c", "16", *GREEDY, "--ignore-eos", "--ids", "--context-shift", "-n", "100")
    check(r.rc == 0 and len(r.out.split()) == 100, repr(r))
    r = run("-m", MODEL, "--raw", "-p", "Once", "-c", "16", *GREEDY, "--ignore-eos", "--ids", "--context-shift", "--keep", "2", "-n", "100")
    check(r.rc == 0 and len(r.out.split()) == 100, repr(r))
    refused(run("-m", MODEL, "--raw", "-p", "Once upon a time " * 20, "-c", "16"), 2, "context", "a long prompt")
    refused(run("-m", MODEL, "--raw", "-p", "Once", "--kv-mem", "1"), 3, "KV cache", "--kv-mem 1")
    refused(run("-m", os.path.join(TINY, "qwen35.gguf"), "-p", "Once", "--state-mem", "1"), 3, "recurrent states", "--state-mem 1")


@case
def output_file():
    """-o FILE holds what stdout would; the model itself is never overwritten"""
    args = ("-m", model(), "--raw", "-p", "Once", "-n", "20", *GREEDY)
    want, path = good(*args), tmp("out.txt")
    with open(path, "wb") as f:
        f.write(b"x" * 10000)
    same(good(*args, "-o", path), b"", "stdout with -o")
    same(open(path, "rb").read(), want, "-o")
    same(good(*args, "-o", "-"), want, "-o -")
    copy = tmp("own.gguf")
    shutil.copy(MODEL, copy)
    before = open(copy, "rb").read()
    for extra in (["-o", copy, "-n", "5"], ["--logits", copy]):
        refused(run("-m", copy, "--raw", "-p", "Once", *extra), 2, "is the model itself", "output onto the model")
        check(open(copy, "rb").read() == before, "the model was harmed")
    refused(run(*args, "-o", "/nonexistent/x"), 2, "/nonexistent/x", "-o into nowhere")


@case
def files_are_named_as_written():
    """an error about a file to write names the path that was given, not the temporary one"""
    path, words = tmp("no-such-folder/x"), ("a b c d e f g h i j k l m n o p q r s t",)
    for args in (["-p", "a", "-n", "1", "-o", path], ["--quantize", "Q8_0", "--allow-requantize", "-o", path], ["--imatrix-out", path, "-f", long_text()],
                 ["-p", "a", "-n", "1", "--prompt-cache", path], ["-p", "a", "-n", "1", "--lookup-cache", path], ["--logits", path, "-p", "a"],
                 ["--perplexity", "-c", "8", "-p", *words, "--kl-divergence-base", path], ["--batch", long_text(), "-n", "1", "-o", path]):
        r = run("-m", PIP, "-q", *args)
        check(r.rc == 2 and one_line(r.err) and r.err.startswith(b"llmrun: " + path.encode() + b": "), "%s: %r" % (" ".join(args), r))


@case
def new_files_of_runs_that_fail():
    """a run that fails before its answer begins creates no -o file and does not change an existing one"""
    broken, batch = tmp("broken.gguf"), tmp("no.jsonl")
    with open(PIP, "rb") as f:
        whole = f.read()
    with open(broken, "wb") as f:
        f.write(whole.replace(b"tokenizer.ggml.model", b"tokenizer.ggml.m0del"))
    for args in (["-m", PIP, "-f", "/nonexistent"], ["-m", broken, "-p", "a"], ["-m", broken, "--tokenize", "-p", "a"], ["-m", PIP, "--detokenize", "-p", "x"],
                 ["-m", PIP, "-p", "a b c d e f g h i j", "-c", "2"], ["-m", PIP, "--dump-tensor", "none"], ["--merge", "/nonexistent"],
                 ["-m", PIP, "--perplexity", "-p", "a"], ["-m", PIP, "-p", "a", "-l", "99999999+1"]):
        new, old = tmp("new.out"), tmp("old.out")
        with open(old, "wb") as f:
            f.write(b"before")
        for path in new, old:
            r = run(*args, "-o", path)
            check(r.rc == 2 and r.out == b"", "%s: %r" % (" ".join(args), r))
        check(not os.path.exists(new), "%s: left an empty file" % " ".join(args))
        same(open(old, "rb").read(), b"before", " ".join(args))
    new = tmp("new.logits")
    refused(run("-m", PIP, "--logits", new, "-f", "/nonexistent"), 2, "/nonexistent", "--logits")
    check(not os.path.exists(new), "--logits left an empty file")
    p = start("-m", PIP, "-o", new, stdin=subprocess.PIPE)
    while not os.path.exists(new):
        check(p.poll() is None, "ended early")
        time.sleep(0.01)
    p.send_signal(signal.SIGTERM)
    same(finish(p).rc, 143, "a signal while the prompt is read")
    check(not os.path.exists(new), "the signal left an empty file")


# --- a terminal ---

class Terminal:
    """The command with stderr on a terminal of so many columns (out=True: stdout too, and nothing in `out`)."""

    def __init__(self, *args, columns=80, out=False, stdin=subprocess.DEVNULL):
        self.columns = columns
        self.end, follower = open_terminal()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.p = subprocess.Popen([BIN, *args], stdin=stdin, stdout=follower if out else subprocess.PIPE, stderr=follower, env=ENV)
        os.close(follower)
        self.seen = b""

    def more(self):
        """The next output; nothing at the end."""
        try:
            part = os.read(self.end, 65536)
        except OSError:
            part = b""
        self.seen += part
        return part

    def until(self, word):
        while word not in self.seen and self.more():
            pass
        check(word in self.seen, "no %r in %r" % (word, self.seen[-300:]))

    def finish(self):
        while self.more():
            pass
        self.out = self.p.stdout.read() if self.p.stdout else b""
        os.close(self.end)
        self.rc = self.p.wait(timeout=60 * SLOW)
        return self

    def drawn(self):
        """The progress lines."""
        return [x.decode() for x in re.findall(rb"\r([^\r\n]+?)\x1b\[K", self.seen)]

    def left(self):
        """The lines on the terminal at the end."""
        lines = [""]
        for c in re.findall(r"\x1b\[K|.", self.seen.decode("utf-8", "replace"), re.S):
            if c == "\n":
                lines.append("")
            elif c in ("\r", "\x1b[K"):
                lines[-1] = "" if c == "\x1b[K" else lines[-1]
            else:
                lines[-1] += c
        return [x for x in lines if x]


def long_text():
    path = tmp("long.txt")
    if not os.path.exists(path):
        with open(path, "w") as f:
            f.write("Once upon a time there was a little dog who liked to play. " * 30)
    return path


def long_jobs():
    """(arguments, how their progress line begins)"""
    text, gone = long_text(), tmp("job.gguf")
    base = ("-m", PIP)
    quantize = (*base, "--quantize", "Q8_0", "--allow-requantize", "-o", gone)
    return ((("--score", *base, "-f", text), "running the prompt: "),
            (("--perplexity", *base, "-f", text, "-c", "64", "--chunks", "2"), "reading the text: "),
            (("--imatrix-out", tmp("job.imatrix"), *base, "-f", text, "-c", "64", "--chunks", "1"), "reading the text: "),
            ((*base, "-f", text, "-n", "1"), "reading the prompt: "),
            ((*base, "--raw", "-p", "a", "-n", "1", "--repack", "on"), "packing the weights: "),
            (quantize, "quantising: "),
            ((*base, "--quantize", "Q4_K_M", "--allow-requantize", "-o", gone, "--calibrate", text, "-c", "64", "--chunks", "1", "--tensor-type", "attn_q=q8_0"),
             "calibrating: "))


@case
def answers_cannot_steer():
    """control characters and bytes of no character in an answer are written as \\xHH on a terminal, as they are elsewhere"""
    for byte in (b"\x1b", b"\x07", b"\x9b", b"\x7f"):
        with open(tmp("byte.txt"), "wb") as f:
            f.write(byte)
        args = ("-m", PIP, "--raw", "-p", "Once", "-n", "3", "-q", "-l", good("-m", PIP, "--tokenize", "-f", tmp("byte.txt")).decode().strip() + "+1000")
        same(good(*args), 3 * byte, "in a pipe")
        same(Terminal(*args, out=True).finish().seen, 3 * (b"\\x%02x" % byte[0]) + b"\r\n", "on a terminal")


# --- bytes that act on a terminal ---

ACTS = "\x1b]0;own\x07\x1b[31m\x7f\b\u009b2J\u0085\u202edc\u2066b\u200f\u061ca\ufeff"
ACTS_BYTES = ACTS.encode() + b"\x9b31m\xff"
STAYS = "\u00e9 \u65e5 \U0001f468\u200d\U0001f469 e\u0301"     # a joined emoji and a combining mark


def acting(data):
    """What in these bytes acts on a terminal: control characters but newline and tab, characters that turn the direction, bytes of no character."""
    data = re.sub(rb"\r([^\r\n\x1b]*)\x1b\[K|\r\n|\x1b\[[02]m", rb"\1\n", data)   # progress lines, line ends of the terminal, dim and plain
    text = data.decode("utf-8", "surrogateescape")
    return sorted({c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c < "\xa0" or c in "\u061c\u200e\u200f\ufeff" or "\u202a" <= c <= "\u202e" or
                   "\u2066" <= c <= "\u2069" or "\udc80" <= c <= "\udcff"})


def visible(name):
    """A name as messages show it."""
    return "".join("".join("\\x%02x" % b for b in os.fsencode(c)) if acting(os.fsencode(c)) or c in "\n\t" else c for c in name)


def acting_model():
    """A model that says what acts, and whose name, keys, template and file name hold it."""
    path = tmp("m" + os.fsdecode(ACTS_BYTES) + "\n.gguf")
    if not os.path.exists(path):
        script.write(path, [["<0x6F>", ACTS, "<0x9B>", "<0xC2>", "<0x9A>", STAYS, "<|end|>"]], "{{ messages[0].content }}" + ACTS + "{{ raise_exception(x) if x }}",
                     kv=[("general.author", script.STR, ACTS_BYTES), ("acts." + ACTS, script.STR, "x"), ("general.tags", script.ARR, (script.STR, [ACTS]))])
    return path


def acting_runs():
    """(arguments, standard input) of runs that say something of names and texts of others"""
    m, text, listed, messages = acting_model(), tmp("acts.txt"), tmp("acts.json"), json.dumps([{"role": "user", "content": ACTS}]).encode()
    with open(text, "wb") as f:
        f.write(ACTS_BYTES + b"go")
    with open(listed, "wb") as f:
        f.write(messages)
    name = tmp("none" + os.fsdecode(ACTS_BYTES))
    base, answer = ("-m", m), ("--raw", "-p", "go", "--temp", "0", "-s", "1")
    rows = b"a,b\n" + b'"' + ACTS_BYTES.replace(b'"', b"") + b'",2\n'
    return [((*base, "--inspect"), b""), ((*base, "--inspect", "--json"), b""), ((*base, *answer, "-v"), b""), ((*base, *answer, "--format", "json"), b""),
            ((*base, *answer, "--echo", "-f", text), b""), ((*base, "--tokenize", "--format", "json", "-f", text), b""), ((*base, "--score", "-f", text, "--format", "json"), b""),
            ((*base, "--render", "-f", "-"), messages), ((*base, "--render", "-f", "-"), b'{"messages":[{"content":"a"}],"x":%s}' % json.dumps(ACTS).encode()),
            ((*base, "--messages", listed, "-n", "3", "-s", "1"), b""), ((*base, "--quantize", "Q8_0", "--allow-requantize", "--dry-run", "-o", tmp("q.gguf")), b""),
            ((*base, *answer, "-o", name + "/x"), b""), *[((*base, "--raw", "-p", "go" * 40, "-n", "3", "-s", "1", "--prompt-cache", name + ".cache"), b"")] * 2,
            ((*base, "--dump-tensor", ACTS), b""), ((*base, "--imatrix-out", name + ".imatrix", "-f", long_text(), "-c", "64", "--chunks", "1"), b""),
            (("-m", name, "-p", "x"), b""), (("--" + ACTS,), b""), ((*base, *answer, "--samplers", ACTS), b""), (("--match", "--regex", "(" + ACTS), b"x"),
            (("--match", "--grammar", "root ::= " + ACTS), b"x"), (("--match", "--json-schema", json.dumps({"$ref": ACTS})), b"x"),
            (("--match", "--json-schema", json.dumps({"pattern": "(" + ACTS}, ensure_ascii=False)), b"x"),
            ((*base, "-i", "-n", "3", "-s", "1", "--temp", "0", "--think", "show"), ("/system " + ACTS + "\n/system\ngo\n/" + ACTS + "\n/read " + ACTS + "\n/regen\n").encode()),
            ((*base, "--batch", "-", "-n", "3", "-s", "1", "--batch-fields", "prompt"), messages[1:-1] + b"\n" + b'{"prompt":"go","custom_id":%s}\n' % json.dumps(ACTS, ensure_ascii=False).encode()),
            ((*base, "--batch", "-", "--input-format", "csv", "--prompt-template", "{a}", "--batch-fields", "all", "-n", "3", "-s", "1", "--format", "csv"), rows),
            ((*base, "--batch", "-", "--input-format", "csv", "--prompt-template", "{a}", "--batch-fields", "all", "-n", "3", "-s", "1", "--format", "text"), rows),
            ((*base, "--batch", "-", "--input-format", "jsonl", "--prompt-template", "{a}", "--batch-fields", "all", "-n", "3", "-s", "1", "--format", "tsv"),
             b'{"a":"go","b":{"c":%s}}\n' % json.dumps(ACTS, ensure_ascii=False).encode()),
            ((*base, "--batch", name), b""), (("--merge", name), b"")]


@case
def messages_steer_nothing():
    """no byte on standard error acts on a terminal, whatever names of files, models, templates, lines and options hold"""
    for args, inp in acting_runs():
        r = run(*args, inp=inp)
        check(r.rc in (0, 1, 2) and (r.err or not r.rc), "%r: %r" % (args, r))
        same(acting(r.err), [], "%r: standard error %s" % (args, r.err[-300:]))
        check(not {"json", "--json"} & set(args) or acting(r.out) == [], "%r: JSON %r" % (args, r.out[:300]))


@case
def terminal_is_steered_by_nothing():
    """no byte on a terminal acts on it, whatever is written there: answers, prompts, tables, records, what a model holds"""
    for args, inp in acting_runs():
        with open(tmp("acts.in"), "wb") as f:
            f.write(inp)
        with open(tmp("acts.in"), "rb") as f:
            t = Terminal(*args, out=True, stdin=f).finish()
        check(t.rc in (0, 1, 2) and t.seen, "%r: exit %d: %r" % (args, t.rc, t.seen[-300:]))
        same(acting(t.seen), [], "%r: the terminal %r" % (args, t.seen[-300:]))


@case
def answers_stay_exact():
    """in a pipe an answer, a rendered prompt, CSV and --detokenize are exact bytes; on a terminal joined emoji and combining marks stay"""
    m = acting_model()
    args = ("-m", m, "--raw", "-p", "go", "--temp", "0", "-s", "1", "-q")
    exact = ACTS.encode() + b"\x9b\xc2\x9a" + STAYS.encode()
    same(good(*args), exact, "an answer")
    check(STAYS.encode() in Terminal(*args, out=True).finish().seen, "an answer on a terminal")
    with open(tmp("exact.txt"), "wb") as f:
        f.write(exact)
    same(good("-m", m, "--detokenize", "-p", good("-m", m, "--tokenize", "--special", "-f", tmp("exact.txt")).decode()), exact, "--detokenize")
    same(good("-m", m, "--render", "-f", "-", inp=json.dumps([{"role": "user", "content": ACTS}]).encode()), 2 * ACTS.encode(), "--render")
    lines = good("-m", m, "--batch", "-", "--raw", "-n", "1", "-s", "1", "-q", "--format", "csv", inp=b"go\n")
    check(ACTS.encode() in lines, "CSV: %r" % lines)


@case
def json_hides_nothing():
    """JSON escapes what acts on a terminal and U+2028, in answers, records, columns that go through and lists; it says the same"""
    m, more = acting_model(), ACTS + "\u2028"
    args, line = ("-m", m, "-n", "1", "-s", "1", "--temp", "0", "-q"), b'{"p":"go","more":{"x":[%s]},"custom_id":%s}\n' % ((json.dumps(more, ensure_ascii=False).encode(),) * 2)
    one = json.loads(good(*args, "--raw", "-p", "go", "--format", "json"))
    same(one["text"], ACTS, "an answer")
    record = good(*args, "--batch", "-", "--input-format", "jsonl", "--prompt-template", "{p}", "--batch-fields", "all", inp=line)
    check(acting(record) == [] and "\u2028".encode() not in record, repr(record))
    same([json.loads(record)[k] for k in ("custom_id", "fields")], [more, {"p": "go", "more": {"x": [more]}, "custom_id": more}], "a record")
    raw = good(*args, "--batch", "-", "--input-format", "jsonl", "--prompt-template", "{p}", "--batch-fields", "more", inp=b'{"p":"go","more":["\x01\\\\\\"\xff\xc2\x9b"]}\n')
    same(json.loads(raw)["fields"], {"more": ["\x01\\\"\ufffd\x9b"]}, "a column with bytes that JSON has not")
    good("-m", m, "-i", "-n", "1", "-s", "1", "-q", inp=("/system %s\ngo\n/save %s\n" % (ACTS, tmp("saved.json"))).encode())
    with open(tmp("saved.json"), "rb") as f:
        saved = f.read().replace(b"\x9b", b"")        # the answer, which stays as it is
    check(acting(saved) == [] and json.loads(saved)["messages"][0] == {"role": "system", "content": ACTS}, "a conversation that is saved: %r" % saved)


@case
def progress_fits():
    """a long run shows one progress line on a terminal, redrawn in place, cut to the window's width, and removed at the end"""
    for args, word in long_jobs():
        for columns in (10, 36, 200):
            t = Terminal(*args, columns=columns).finish()
            check(t.rc == 0, "%s: exit %d: %r" % (" ".join(args), t.rc, t.seen[-300:]))
            drawn = t.drawn()
            check(any(x.startswith(word[:columns - 1]) for x in drawn), "%s at %d columns: %r" % (" ".join(args), columns, t.seen[:500]))
            check(all(len(x) < columns for x in drawn), "wider than %d: %r" % (columns, drawn))
            check(not any(x.startswith(word[:columns - 1]) for x in t.left()), "left on the terminal: %r" % t.left())


@case
def progress_only_on_a_terminal():
    """a pipe gets no progress line, and -q none on a terminal either"""
    for args, word in long_jobs():
        r = run(*args)
        check(r.rc == 0 and b"\r" not in r.err and b"\x1b" not in r.err, "%s: %r" % (" ".join(args), r.err))
        t = Terminal("-q", *args).finish()
        check(t.rc == 0 and t.seen == b"", "-q %s: %r" % (" ".join(args), t.seen))


@case
def progress_and_answer():
    """the progress line is removed before the answer is written to the same terminal"""
    want = good("-m", PIP, "-f", long_text(), "-n", "8", *GREEDY).decode().replace("\n", "")
    t = Terminal("-m", PIP, "-f", long_text(), "-n", "8", *GREEDY, out=True).finish()
    check(t.drawn() and want in "".join(t.left()), "%r not in %r" % (want, t.left()))


@case
def no_floats_on_a_terminal():
    """raw floats are refused on a terminal and written to files and pipes"""
    for args in ("--dump-tensor", "output_norm.weight"), ("--logits", "-", "-p", "a"), ("--embed", "-p", "a", "-o", "/dev/stdout"):
        t = Terminal("-m", PIP, *args, out=True).finish()
        check(t.rc == 2 and re.fullmatch(rb"llmrun: %s: raw floats are not written to a terminal, expected [^\n]*\r\n" % args[0].encode(), t.seen), repr(t.seen))
        check(len(good("-m", PIP, *args)) % 4 == 0, "a pipe")


@case
def interrupted_progress():
    """an interrupt removes the progress line and names what is not written; an old file stays"""
    text = tmp("endless.txt")
    with open(text, "w") as f:
        f.write("Once upon a time there was a little dog who liked to play. " * 60000)
    matrix = tmp("int%s.imatrix" % ACTS)
    for args, word, file, state in (
        (("--imatrix-out", matrix, "-m", PIP, "-f", text), "reading the text", matrix, "not written"),
        (("--perplexity", "-m", PIP, "-f", text), "reading the text", "the output", "not written"),
        (("--perplexity", "-m", PIP, "-f", text, "--kl-divergence-base", tmp("int.base")), "reading the text", tmp("int.base"), "not written"),
        (("--score", "-m", PIP, "-f", text, "-c", "4000000", "-o", tmp("int.scores")), "running the prompt", tmp("int.scores"), "not complete"),
    ):
        for times in (1, 2):
            t = Terminal(*args, columns=400)
            t.until(word.encode())
            for _ in range(times):
                t.p.send_signal(signal.SIGINT)
            t.finish()
            left = t.left()
            same(t.rc, 130, " ".join(args))
            same(left[-1], "llmrun: interrupted: %s is %s" % (visible(file), state), " ".join(args))
            check(not any(x.startswith(word) for x in left), repr(left))
            check(state == "not complete" or not os.path.exists(file), file + " is there")


# --- JSON ---

ANSWER = ["model", "text", "finish_reason", "tokens", "prompt_tokens", "cached_tokens", "completion_tokens", "seed", "times"]
TIMES = ["load_s", "first_token_s", "prompt_s", "prompt_tokens_per_s", "generation_s", "generation_tokens_per_s"]


def exact(x):
    """The bytes of a text in JSON."""
    check(("bytes" in x) == ("\ufffd" in x["text"]), "bytes where text says it all, or none where it does not: %r" % x)
    return base64.b64decode(x["bytes"], validate=True) if "bytes" in x else x["text"].encode()


def answer(*args):
    r = run("-m", PIP, "--json", *args)
    check(r.rc == 0 and r.out.count(b"\n") == 1, repr(r))
    return json.loads(r.out)


@case
def json_answer():
    """--json: one object with the text, its ids, why it ended, the seed and the times"""
    args = ("--raw", "-p", "Once upon a time", "-n", "12", "-s", "7")
    a = answer(*args)
    same(list(a), ANSWER, "keys")
    same(list(a["times"]), TIMES, "times")
    same(a["model"], "pip-q4_k_m.gguf", "model")
    same(exact(a), good("-m", PIP, *args), "text")
    same(a["tokens"], [int(x) for x in good("-m", PIP, *args, "--ids").split()], "ids")
    same([a["finish_reason"], a["completion_tokens"], a["seed"]], ["length", 12, 7], "length")
    check(a["prompt_tokens"] == len(good("-m", PIP, "--tokenize", "--bos", "-p", args[2]).split()), "prompt tokens")
    check(all(x > 0 for x in a["times"].values()), repr(a["times"]))
    drawn = answer("--raw", "-p", "Once", "-n", "30", "--temp", "1.5")
    same(answer("--raw", "-p", "Once", "-n", "30", "--temp", "1.5", "-s", str(drawn["seed"]))["text"], drawn["text"], "the drawn seed again")
    stop = answer(*args, "--stop", a["text"][4:6])
    same([stop["finish_reason"], stop["text"]], ["stop", a["text"].split(a["text"][4:6])[0]], "a stop text")
    one = answer("--raw", "-p", "Once", "-n", "1")
    same([one["times"]["generation_s"], one["times"]["generation_tokens_per_s"]], [None, None], "times of a single token")
    none = answer("--raw", "-p", "Once", "-n", "5", "-l", "0+1000")
    same([none["text"], none["tokens"], none["finish_reason"], none["times"]["first_token_s"]], ["", [], "stop", None], "an end at once")
    path = tmp("answer.json")
    same(good("-m", PIP, *args, "--json", "-o", path), b"", "stdout with -o")
    same(json.load(open(path))["text"], a["text"], "-o")


@case
def json_answer_of_bytes():
    """an answer that is not UTF-8 has U+FFFD in its text and the exact bytes beside it"""
    args = ("--raw", "-p", "Once", "-n", "1", "-l", "233+1000")
    a = answer(*args)
    same([a["text"], exact(a)], ["\ufffd", b"\xe6"], "half a character")
    same(exact(a), good("-m", PIP, *args), "text")


@case
def json_answer_interrupted():
    """an interrupted run writes one complete object with the text so far"""
    p = start("-m", PIP, "--raw", "-p", "Once", "--json", *ENDLESS)
    until_caught(p, signal.SIGINT)
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    r = finish(p)
    same(r.rc, 130, "exit code")
    if r.out:                                         # else the signal came before the run had begun
        a = json.loads(r.out)
        same([a["finish_reason"], len(a["tokens"])], [None, a["completion_tokens"]], "interrupted")


@case
def json_score():
    """--score --json: the tokens with their texts, their count and the sum of what --score prints"""
    text = "Once upon a time, 日本.\n\"x\""
    args = ("-m", PIP, "--score", "-p", text)
    lines, a = [x.split() for x in good(*args).splitlines()], json.loads(good(*args, "--json"))
    same(list(a), ["model", "tokens", "count", "total"], "keys")
    same([(t["index"], t["id"]) for t in a["tokens"][1:]], [(int(x[0]), int(x[1])) for x in lines], "indices and ids")
    same([b"%.9g" % t["logprob"] for t in a["tokens"][1:]], [x[2] for x in lines], "log-probabilities")
    same([a["tokens"][0]["logprob"], a["tokens"][0]["control"], a["count"]], [None, True, len(lines) + 1], "the start token")
    same(b"".join(exact(t) for t in a["tokens"][1:]), text.encode(), "texts")
    check(abs(a["total"] - sum(t["logprob"] for t in a["tokens"][1:])) < 1e-6, "total %r" % a["total"])


@case
def json_tokens():
    """--tokenize --json: ids, and the bytes of each"""
    for text in ("Once upon 日本\n", "", "a" * 40000):
        path = tmp("tokens.txt")
        with open(path, "w") as f:
            f.write(text)
        args = ("-m", PIP, "--tokenize", "-f", path)
        a = json.loads(good(*args, "--json"))
        same(list(a), ["count", "ids", "pieces"], "keys")
        same([a["ids"], a["count"]], [[int(x) for x in good(*args).split()], len(a["ids"])], "ids")
        same([x["id"] for x in a["pieces"]], a["ids"], "ids of the pieces")
        same(b"".join(exact(x) for x in a["pieces"]), text.encode(), "pieces")
    special = json.loads(good("-m", PIP, "--tokenize", "--special", "--json", "-p", "<|im_end|>a"))["pieces"]
    same([x.get("control") for x in special], [True, None], "control tokens")


# --- what is said about a run ---

@case
def empty_answers():
    """an empty answer gets a message with the reason, and a note that the prompt of a chat model was raw"""
    raw = b"; the model has a chat template, and the prompt was raw, without it\n"
    for more, word in ((["-l", "0+1000"], b'llmrun: the answer is empty: end token 0 "<|endoftext|>" came first' + raw),
                       (["-l", "2+1000"], b'llmrun: the answer is empty: end token 2 "<|im_end|>" came first' + raw),
                       (["-l", "263+1000", "--stop", " a"], b"llmrun: the answer is empty: a stop text came first" + raw)):
        r = run("-m", PIP, "--raw", "-p", "Once", "-n", "3", *more)
        check(r.rc == 0 and r.out.strip() == b"" and word in r.err, "%s: %r" % (more, r))
    for more in (["-n", "0"], ["-n", "3"], ["-n", "3", "-l", "0+1000", "-q"]):
        check(b"empty" not in run("-m", PIP, "--raw", "-p", "Once", *more).err, " ".join(more))
    bare = tmp("bare.gguf")
    with open(PIP, "rb") as f, open(bare, "wb") as g:
        g.write(f.read().replace(b"tokenizer.chat_template", b"tokenizer.chat_temp1ate"))
    check(run("-m", bare, "--raw", "-p", "Once", "-l", "0+1000").err.startswith(b'llmrun: the answer is empty: end token 0 "<|endoftext|>" came first\n'), "no template")


@case
def verbose_run():
    """-v: architecture, context, cache, threads and level, the chain, the layout of the weights, why it ended"""
    args = ("-m", PIP, "--raw", "-p", "Once", "-n", "3", "-v", "-t", "2", "-c", "64", "-ctk", "q8_0", "-ctv", "f16")
    err = run(*args).err.decode()
    for line in (r"model .*pip-q4_k_m\.gguf: qwen3, 6 layers, a context of 64 tokens \(trained with 512\)", r"cache +keys q8_0, values f16, blocks of \d+ tokens",
                 r"threads +2, \w+ kernels(, tiles of [68] columns)?, up to \d+ rows in a step", r"sampling +top_k, top_p, min_p, temperature, then a random draw",
                 r"layout +all weights as in the file", r"ended by +3 tokens, as many as -n allows"):
        check(re.search("(?m)^llmrun: " + line, err), "no %r in %s" % (line, err))
    for more, line in ((["--repack", "on", "--cpu", "avx2"], r"layout +\d+\.\d MiB of weights packed, the others as in the file"), (["--temp", "0"], "sampling +the likeliest token"),
                       (["--mirostat", "2"], "sampling +mirostat 2, then a random draw"), (["-l", "0+1000"], 'ended by +end token 0 "<\\|endoftext\\|>"'),
                       (["-n", "-1", "-c", "8", "--ignore-eos"], "ended by +the context is full"), (["-l", "263+1000", "--stop", "a"], "ended by +a stop text")):
        if "avx2" not in more or "avx2" in levels(BIN):
            err = run(*args, *more).err.decode()
            check(re.search("(?m)^llmrun: %s$" % line, err), "no %r in %s" % (line, err))


@case
def read_ahead():
    """--read-ahead changes no text"""
    for name in ("qwen3moe_q8_0", "llama_moe_q4_0", "deepseek2_q8_0", "gemma4_moe_q8_0"):
        path = os.path.join(TINY, name + ".gguf")
        args = ("-m", path, "--raw", "-p", "the and a then", "-n", "12", "--temp", "0", "--ids", "--ignore-eos")
        want = good(*args, "--read-ahead", "off")
        for more in ([], ["--repack", "on"], ["--repack", "on", "-t", "2"]):
            same(good(*args, "--read-ahead", "on", *more), want, "%s with %s" % (name, more))


@case
def foreign_types():
    """types of ik_llama.cpp and bitnet.cpp: dumped, made into others and inspected as others are"""
    for name, weight in (("t_ik", "blk.1.ffn_down.weight"), ("t_i2_s", "blk.0.attn_q.weight")):
        path, out = os.path.join(TINY, name + ".gguf"), tmp(name + "-f32.gguf")
        good("--quantize", "F32", "--allow-requantize", "-m", path, "-o", out)
        for t in (weight, "blk.0.ffn_up.weight"):
            same(good("-m", path, "--dump-tensor", t), good("-m", out, "--dump-tensor", t), "%s of %s" % (t, name))
        types = {t["name"]: t["type"] for t in json.loads(good("--inspect", "-m", path, "--json"))["tensors"]}
        check(types[weight].startswith("i"), repr(types[weight]))
        a, b = ([float(x.split()[2]) for x in good("-m", f, "--raw", "-p", "the and", "--score").decode().splitlines()] for f in (path, out))
        check(len(a) == len(b) > 1 and all(abs(x - y) < 0.2 for x, y in zip(a, b)), "%s: %s, %s" % (name, a, b))


@case
def summaries_without_samples():
    """a phase that did not run has no line of 0.000 s"""
    for more in (["-n", "0"], ["-n", "1"], ["-l", "0+1000"]):
        err = run("-m", PIP, "--raw", "-p", "Once", *more).err
        check(b" 0.000 s" not in err and b"generated " in err, repr(err))
    lines = tmp("bad.jsonl")
    with open(lines, "w") as f:
        f.write('{"prompt": 5}\n')
    r = run("-m", PIP, "--batch", lines)
    check(r.rc == 1 and b"0.000" not in r.err and b"first token" not in r.err, repr(r))
    r = run("-m", PIP, "--batch", lines, "--json")
    same(json.loads(r.err.splitlines()[0])["ttft_s"], {"p50": None, "p95": None, "p99": None}, "--json")


# --- prompts ---

def tokens(*args, **kw):
    return good("-m", some_vocab(), "--tokenize", *args, **kw)


@case
def prompt_sources():
    """-p, -f FILE, -f -, stdin and a FIFO give the same bytes; bytes that are no text too"""
    path = tmp("prompt.txt")
    for text in (b"Hello world", b" lead", b"trail \n", b"\n", b"\xff\xfe\xc3(", "h\u00e9llo \u4e16\u754c \U0001f600".encode()):
        with open(path, "wb") as f:
            f.write(text)
        want = tokens(inp=text)
        same(tokens("-f", path), want, "-f of %r" % text)
        same(tokens("-f", "-", inp=text), want, "-f - of %r" % text)
        same(tokens("-p", os.fsdecode(text)), want, "-p of %r" % text)
    with open(path, "wb") as f:
        f.write(b"a\0b")
    same(tokens("-f", path), tokens(inp=b"a\0b"), "a NUL")
    check(len(tokens(inp=b"a\0b").split()) >= 3, "a NUL ends the prompt")
    fifo = tmp("prompt.fifo")
    os.mkfifo(fifo)
    threading.Thread(target=lambda: open(fifo, "wb").write(b"Hello world"), daemon=True).start()
    same(tokens("-f", fifo), tokens("-p", "Hello world"), "-f FIFO")


@case
def stdin_appended():
    """with -p, stdin follows on a new line; an empty, closed or terminal stdin adds nothing; -f leaves stdin alone"""
    alone = tokens("-p", "Explain")
    same(tokens("-p", "Explain", inp=b"a diff\n"), tokens(inp=b"Explain\na diff\n"), "-p and stdin")
    same(tokens("-p", "", inp=b"x"), tokens(inp=b"\nx"), "-p '' and stdin")
    check(alone != tokens(inp=b"Explain\n"), "the newline does not show")
    same(tokens("-p", "Explain", preexec_fn=lambda: os.close(0)), alone, "-p and a closed stdin")
    with open(os.devnull, "wb") as f:
        same(tokens("-p", "Explain", stdin=f), alone, "-p and a stdin that cannot be read")
    leader, follower = open_terminal()
    same(tokens("-p", "Explain", stdin=follower), alone, "-p at a terminal")
    path = tmp("f.txt")
    with open(path, "wb") as f:
        f.write(b"from the file")
    same(tokens("-f", path, inp=b"not this"), tokens(inp=b"from the file"), "-f and stdin")
    refused(run("-m", some_vocab(), "--tokenize", stdin=follower), 2, "no prompt given", "a terminal and no prompt")
    refused(run("-m", some_vocab(), "--tokenize", "-f", "-", stdin=follower), 2, "terminal", "-f - at a terminal")
    os.close(leader), os.close(follower)
    refused(run("-m", some_vocab(), "--tokenize", preexec_fn=lambda: os.close(0)), 2, "no prompt given", "closed stdin and no prompt")
    same(tokens(), b"\n", "an empty stdin is an empty prompt")


@case
def stdin_is_announced():
    """a message says what stdin adds to -p and that the run waits for it; --no-stdin does not read it, as in a while-read loop"""
    args = ("-m", PIP, "--raw", "-p", "Once upon", "-n", "4", *GREEDY)
    r = run(*args, inp=b"a time")
    check(r.rc == 0 and b"llmrun: 6 bytes of standard input appended to the prompt\n" in r.err, repr(r))
    check(b"llmrun: 1 byte of standard input" in run(*args, inp=b"x").err, "one byte")
    check(b"standard input" not in run(*args).err, "nothing on stdin")
    same(run("-q", *args, inp=b"a time").err, b"", "-q")
    alone = run(*args, "--no-stdin", inp=b"a time")
    check(alone.rc == 0 and alone.out == run(*args).out and b"standard input" not in alone.err, repr(alone))
    script = "while read x; do %s -q -m %s --raw -p \"$x\" -n 0 --no-stdin; echo \"[$x]\"; done" % (BIN, PIP)
    p = subprocess.run(["sh", "-c", script], input=b"one\ntwo\nthree\n", stdout=subprocess.PIPE, timeout=60 * SLOW)
    same(p.stdout, b"[one]\n[two]\n[three]\n", "a loop over three lines")
    for more, word in (args, b"--no-stdin leaves it alone"), (args[:3] + args[5:], b"waiting for the end of standard input\n"), \
                      (("-m", PIP, "--batch", "-", "-n", "1"), b"waiting for standard input\n"), (("-m", PIP, "-i"), b"waiting for a message on standard input\n"):
        p = start(*more, stdin=subprocess.PIPE)
        line = p.stderr.readline()
        check(line.startswith(b"llmrun: waiting for ") and line.endswith(word if word.endswith(b"\n") else word + b")\n"), "%s: %r" % (" ".join(more), line))
        r = finish(p)
        same(r.rc, 0, " ".join(more))


@case
def literal_newlines():
    """a backslash and an n in a text give a note, unless -e or --no-escape is given"""
    args = ("-m", PIP, "-n", "1", "--no-stdin")
    for more, word in (["--raw", "-p", "a\\nb"], b"--prompt"), (["--raw", "-p", "a", "--stop", "\\n"], b"--stop"), (["--raw", "-p", "a", "--dry-sequence-breaker", "\\n"], b"--dry-sequence-breaker"):
        note = b"llmrun: " + word + b": \\n stays a backslash and an n (-e reads it as a newline"
        check(note in run(*args, *more).err, "%s: no note" % " ".join(more))
        for flag in "-e", "--no-escape", "-q":
            check(note not in run(*args, *more, flag).err, "%s %s: a note" % (" ".join(more), flag))
    check(b"stays" not in run(*args, "--raw", "-p", "a\nb").err, "a note about a newline")


@case
def prompt_files_that_are_none():
    """-f of a missing file, a directory, 2 GiB of nothing: exit 2"""
    refused(run("-m", model(), "-f", "/nonexistent"), 2, "/nonexistent", "-f missing")
    refused(run("-m", MODEL, "-f", TMP), 2, TMP, "-f of a directory")
    huge = tmp("huge.txt")
    with open(huge, "wb") as f:
        f.truncate(2 << 30)
    refused(run("-m", MODEL, "-f", huge), 2, huge, "-f of 2 GiB")
    with open(huge, "rb") as f:
        refused(run("-m", MODEL, stdin=f), 2, "standard input", "2 GiB on stdin")


@case
def escapes_are_off():
    """a backslash is a backslash, unless -e"""
    same(tokens("-p", "a\\nb"), tokens(inp=b"a\\nb"), "plain")
    same(tokens("-e", "-p", "a\\nb\\x41"), tokens(inp=b"a\nbA"), "-e")


@case
def long_argument():
    """100 KB of -p arrive whole, and not in quadratic time"""
    text = ("many words " * 10000)[:100000]
    same(tokens("-p", text), tokens(inp=text.encode()), "100 KB")
    same(tokens("-p", "x" * 100000), tokens(inp=b"x" * 100000), "100 KB of one letter")


@case
def start_token():
    """--bos and --special are off by default in --tokenize; an empty prompt is the start token alone"""
    spm = os.path.join(DATA, "vocab", "llama-spm.gguf")
    for path, start, spelt in ((spm, b"1", "<s>"), (PIP, b"0", "<|endoftext|>")):
        if not os.path.exists(path):
            continue
        plain, bos = (good("-m", path, "--tokenize", *x, "-p", "hi").split() for x in ([], ["--bos"]))
        same(bos, [start] + plain, "--bos")
        check(start not in good("-m", path, "--tokenize", "-p", spelt).split(), "a control token was parsed")
        check(start in good("-m", path, "--tokenize", "--special", "-p", spelt).split(), "--special does not parse")
    spelt = good("-m", MODEL, "--detokenize", "--special", "-p", good("-m", MODEL, "--tokenize", "--bos", "-p", "").split()[0].decode()).decode()
    lines = good("-m", model(), "--score", "-p", "Once upon").splitlines()
    n = len(good("-m", MODEL, "--tokenize", "-p", "Once upon").split())
    same(len(lines), n, "tokens scored behind a start token")
    same(good("-m", MODEL, "--raw", "-p", "", "-n", "5", *GREEDY), good("-m", MODEL, "--raw", "-n", "5", *GREEDY), "an empty prompt")
    same(good("-m", MODEL, "--score", "-p", ""), b"", "a score of the start token alone")
    raw = good("-m", MODEL, "--score", "-p", spelt, "--no-special").splitlines()
    check(len(raw) > len(good("-m", MODEL, "--score", "-p", spelt).splitlines()), "--no-special parses")


@case
def start_token_once():
    """a raw prompt that is written with the start token gets no second one, which one line says; --no-bos: none is added"""
    spelt = good("-m", MODEL, "--detokenize", "--special", "-p", good("-m", MODEL, "--tokenize", "--bos", "-p", "").split()[0].decode()).decode()
    note = b"the prompt begins with the start token %s, which is not added a second time" % spelt.encode()
    same(good("-m", MODEL, "--tokenize", "--bos", "--special", "-p", spelt + "Once"), good("-m", MODEL, "--tokenize", "--bos", "-p", "Once"), "--bos")
    for action in (["--score"], ["--perplexity", "-c", "8"], ["--logits", tmp("once.f32")], ["-n", "4", "--ids", "--no-chat", *GREEDY]):
        text = "Once upon a time there was a dog and a cat and a bird in a tree by the sea"
        one, two = run("-m", MODEL, *action, "-p", text), run("-m", MODEL, *action, "-p", spelt + text)
        check(one.rc == 0 and note not in one.err and two.rc == 0 and two.err.count(note) == 1, repr((one, two)))
        if action[0] != "--perplexity": same(one.out, two.out, " ".join(action))        # its tokens count the mark in the text
        bare, same_text = run("-m", MODEL, *action, "--no-bos", "-p", text), run("-m", MODEL, *action, "--no-bos", "-p", spelt + text)
        check(bare.rc == 0 and bare.out != one.out or action[0] == "--logits", "--no-bos changes nothing: " + " ".join(action))
        check(same_text.rc == 0 and note not in same_text.err, "--no-bos: " + repr(same_text))
    matrix = lambda name, *more: good("-m", MODEL, "--imatrix-out", tmp(name), "-c", "8", "-p", text, *more) or open(tmp(name), "rb").read()
    same(matrix("with.gguf", "--bos"), matrix("as.gguf"), "--imatrix-out, as the model says")
    check(matrix("bare.gguf", "--no-bos") != matrix("as.gguf"), "--no-bos changes no importance matrix")
    scored = lambda *more: [line.split()[1] for line in good("-m", MODEL, "--score", "-p", "Once upon", *more).splitlines()]
    same(scored("--no-bos"), scored()[1:], "tokens scored without a start token")
    refused(run("-m", MODEL, "--raw", "--no-bos", "-p", "", "-n", "1"), 2, "the prompt is empty and no start token is added", "no tokens at all")


@case
def evaluation_keeps_escapes():
    """-e leaves files and the texts of --perplexity and --imatrix-out alone"""
    text = "Once \\n upon \\t a \\x41 time there was a dog and a cat and a bird in a tree by the sea"
    path = tmp("escapes.txt")
    with open(path, "w") as f: f.write(text)
    for at in (["-p", text], ["-f", path]):
        same(good("-m", MODEL, "--perplexity", "-c", "8", "-e", *at), good("-m", MODEL, "--perplexity", "-c", "8", *at), "--perplexity " + at[0])
        check(b"stays a backslash" not in run("-m", MODEL, "--perplexity", "-c", "8", *at).err, "a note about escapes")
        for more in ([], ["-e"]): good("-m", MODEL, "--imatrix-out", tmp("escapes%d.gguf" % len(more)), "-c", "8", *more, *at)
        same(open(tmp("escapes0.gguf"), "rb").read(), open(tmp("escapes1.gguf"), "rb").read(), "--imatrix-out " + at[0])
    same(tokens("-e", "-f", path), tokens("-f", path), "a file")


@case
def round_trip():
    """detokenise(tokenise(x)) = x for any bytes, on every vocabulary; SentencePiece takes U+2581 for a space"""
    texts = [b"", b"Hello world", b" a", b"a ", b"  ", b"\n\n\t x", bytes(range(256)), bytes(range(255, -1, -1)), b"\xf0\x9f\x98", b"\xe2\x96\x81x",
             "h\u00e9llo \u4e16\u754c \U0001f600\u200d\U0001f600".encode(), b"<s></s><|endoftext|>", os.urandom(3000), b"a\0b", b"\r\n" * 9]
    whole = {"llama-spm.gguf", "gpt-2.gguf", os.path.basename(PIP)}
    for path in vocabs():
        name = os.path.basename(path)
        for text in texts if name in whole else texts[6::3]:
            ids = good("-m", path, "--tokenize", inp=text) if text else b"\n"
            check(re.fullmatch(rb"(\d+( \d+)*)?\n", ids), "%s: not a line of ids: %r" % (name, ids[:80]))
            want = text.replace("\u2581".encode(), b" ") if name == "llama-spm.gguf" else text
            same(good("-m", path, "--detokenize", inp=ids), want, "%s: %r" % (name, text[:40]))
    one, two = good("-m", some_vocab(), "--tokenize", "-p", "Hello").strip(), good("-m", some_vocab(), "--tokenize", "-p", " world").strip()
    spelt = (one + b" " + two).replace(b" ", b", ").decode()
    same(good("-m", some_vocab(), "--detokenize", "-p", spelt), b"Hello world", "ids in -p, with commas")
    same(good("-m", some_vocab(), "--detokenize", "-p", one.decode(), inp=two), b"Hello", "ids in -p leave stdin alone")


@case
def suites():
    """ids equal those of the published suites, through the command"""
    for name in VOCABS:
        path = vocab(name)
        base = os.path.join(DATA, "vocab", name)
        texts = open(base + ".inp", "rb").read().split(b"\n__ggml_vocab_test__\n")
        wants = open(base + ".out", "rb").read().split(b"\n")
        for text, want in list(zip(texts, wants))[::6]:
            same(good("-m", path, "--tokenize", inp=text).split(), want.split(), "%s: %r" % (name, text[:40]))


@case
def bad_ids():
    """--detokenize refuses ids outside the vocabulary"""
    for text, word in (("50257", "out of range"), ("-1", "expected a token id"), ("12x", "expected a token id"), ("99999999999999999999", "out of range"), ("1;2", "expected a token id")):
        refused(run("-m", some_vocab(), "--detokenize", "-p", text), 2, word, text)
    same(good("-m", some_vocab(), "--detokenize", "-p", " \n"), b"", "no ids")


# --- numbers out ---

PROMPT = "Once upon a time, there was a little girl named Lily. She loved to play"


def logits(*more):
    path = tmp("logits.f32")
    same(good("-m", model(), "-p", PROMPT, "--logits", path, "-q", *more), b"", "stdout of --logits")
    return open(path, "rb").read()


@case
def logits_file():
    """--logits writes [tokens][vocabulary] float32, the same for every thread count, chunk, block and level"""
    want = logits()
    n = len(good("-m", MODEL, "--tokenize", "--bos", "-p", PROMPT).split())
    same(len(want), n * n_vocab() * 4, "size")
    for more in (["-t", "1"], ["-t", "2"], ["-b", "1"], ["-b", "7"], ["-b", "512"], ["--kv-block-size", "2"], ["-c", "0"], *(["--cpu", x] for x in levels(BIN))):
        check(logits(*more) == want, " ".join(more) + " changes the logits")
    check(good("-m", MODEL, "-p", PROMPT, "--logits", "-") == want, "--logits - differs")
    refused(run("-m", MODEL, "-p", PROMPT, "--logits", "/nonexistent/x"), 2, "/nonexistent/x", "--logits into nowhere")


@case
def blas():
    """--blas gives the same logits except for their last bits, or an error with the reason"""
    exact = ("-ctk", "f32", "-ctv", "f32")             # a cache that rounds would magnify last bits
    want = array.array("f", logits(*exact))
    r = run("-m", MODEL, "-p", PROMPT, "--logits", tmp("blas.f32"), "-q", "--blas", *exact)
    if r.rc:
        refused(r, 2, "--blas", "--blas")
        raise Skip("no OpenBLAS")
    got = array.array("f", open(tmp("blas.f32"), "rb").read())
    same(len(got), len(want), "size")
    err = sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)
    check(err <= 1e-9, "NMSE %g" % err)


@case
def blas_guesses():
    """--blas makes no guesses, which would change the text: the default is off, a draft or --lookup beside it is refused"""
    args = "-m", MODEL, "--raw", "-p", PROMPT, "-n", "4", "--blas"
    for more in (["-md", MODEL], ["--lookup"], ["-md", MODEL, "--lookup"], ["-md", MODEL, "--no-lookup"]):
        refused(run(*args, *more), 2, "--blas: found " + ("--model-draft" if "-md" in more else "--lookup"), " ".join(more))
    for more in [], ["--no-lookup"]:
        r = run(*args, *more)
        check(r.rc == 0 or b"OpenBLAS" in r.err or b"libopenblas" in r.err or b"BLAS=0" in r.err, "%s: %r" % (" ".join(more), r))


@case
def f16_as_bf16():
    """--f16-as-bf16 gives the logits of a BF16 file made of the model, at every level, and not those of F16"""
    made = tmp("made-bf16.gguf")
    good("--quantize", "BF16", "-m", GUESSER, "-o", made)
    want = good("-m", made, "-p", PROMPT, "--logits", "-")
    for level in levels(BIN):
        same(good("-m", GUESSER, "--f16-as-bf16", "-p", PROMPT, "--logits", "-", "--cpu", level) == want, True, "as BF16 at level " + level)
    check(good("-m", GUESSER, "-p", PROMPT, "--logits", "-") != want, "the option changes nothing")
    kept = tmp("bf16.cache")
    good("-m", GUESSER, "--raw", "-p", PROMPT, "-n", "1", "--prompt-cache", kept)
    check(b"layout differs" in run("-m", GUESSER, "--raw", "-p", PROMPT, "-n", "1", "--f16-as-bf16", "--prompt-cache", kept).err, "a cache of F16 is taken")


@case
def scores():
    """--score lines are the log-probabilities that --logits gives"""
    raw = array.array("f", logits())
    ids = [int(x) for x in good("-m", MODEL, "--tokenize", "--bos", "-p", PROMPT).split()]
    lines = good("-m", MODEL, "--score", "-p", PROMPT).decode().splitlines()
    n = n_vocab()
    same(len(lines), len(ids) - 1, "lines")
    for i, line in enumerate(lines):
        at, token, lp = line.split()
        row = raw[i * n:(i + 1) * n]
        top = max(row)
        want = row[ids[i + 1]] - top - math.log(sum(math.exp(x - top) for x in row))
        same((int(at), int(token)), (i + 1, ids[i + 1]), "line %d" % i)
        check(abs(float(lp) - want) < 1e-6 and float(lp) <= 0, "line %d: %s, want %.9g" % (i, lp, want))


# --- what a model is worth ---

STORY = tmp("story.txt")


def n_vocab():
    return inspect(MODEL)["vocabulary"]["tokens"]


def story():
    """A text of some 1,200 tokens, written by the model."""
    if not os.path.exists(STORY):
        told = b"".join(good("-m", model(), "-q", "--raw", "-p", "Once upon a time", "-n", "300", "-s", str(s), "--ignore-eos") + b"\n" for s in range(4))
        open(STORY, "wb").write(told)
    return STORY


def perplexity(*more):
    return json.loads(good("-m", model(), "-q", "--perplexity", "-f", story(), "--json", *more))


@case
def perplexities():
    """--perplexity equals that of --score for each window, for all sizes of steps"""
    ids = [int(x) for x in good("-m", model(), "--tokenize", "--bos", "-f", story()).split()]
    want = perplexity("-c", "64")
    nll = []
    for at in range(0, len(ids) - 63, 3 * 64):
        text = good("-m", MODEL, "--detokenize", "-p", " ".join(map(str, ids[at + 1:at + 64])))
        lines = [x.split() for x in good("-m", MODEL, "--score", "-f", "-", inp=text).decode().splitlines()]
        if [int(x[1]) for x in lines] == ids[at + 1:at + 64]:           # a window that does not end inside a word comes back as it was
            nll.append((at // 64, -sum(float(x[2]) for x in lines[32:]) / 31))
    check(len(nll) > 2, "only %d windows came back" % len(nll))
    r = run("-m", MODEL, "--perplexity", "-f", story(), "-c", "64")
    running = [math.log(float(x)) for x in re.findall(r"\[\d+\]([0-9.]+),", r.err.decode())]
    same(len(running), len(ids) // 64, "windows told")
    check(r.err.decode().splitlines()[1][-1] == "," and r.err.decode().splitlines()[2].startswith("llmrun: "), "the figures stand in a line of their own")
    for i, x in nll:
        got = running[i] * (i + 1) - (running[i - 1] * i if i else 0)
        check(abs(got - x) < 1e-4 * (i + 2), "window %d: %.6f, --score says %.6f" % (i, got, x))
    check(re.fullmatch(rb"Final estimate: PPL = \d+\.\d{4} \+/- \d+\.\d{5}\n", r.out), repr(r.out))
    check(abs(float(r.out.split()[4]) - want["perplexity"]) < 1e-4, "text and JSON differ")
    same((want["windows"], want["scored"], want["n_ctx"], want["stride"]), (len(ids) // 64, len(ids) // 64 * 31, 64, 0), "counts")
    for more in (["-t", "1"], ["-t", "2", "-b", "7"], ["-b", "2048"], ["--kv-block-size", "2"], ["--kv-blocks", "2"], *(["--cpu", x] for x in levels(BIN))):
        same(perplexity("-c", "64", *more), want, "perplexity with " + " ".join(more))
    same(perplexity("-c", "64", "--chunks", "3")["scored"], 93, "scored in three windows")
    strided = perplexity("-c", "64", "--ppl-stride", "16")
    same((strided["stride"], strided["windows"]), (16, (len(ids) - 64 + 15) // 16), "strided windows")
    same(strided["scored"], 16 * strided["windows"], "strided positions")
    short = ("-p", "Once upon a time", "--no-stdin", "-c", str(len(good("-m", MODEL, "--tokenize", "--bos", "-p", "Once upon a time").split())))
    check(b"at least the %d of one chunk, and one more (-c N)" % int(short[-1]) in run("-m", MODEL, "--perplexity", *short, "--ppl-stride", "2").err, "one strided window")
    check(0.7 < strided["perplexity"] / want["perplexity"] < 1.3, "strided %r, else %r" % (strided, want))
    long = run("-m", MODEL, "--perplexity", "-f", story(), "-q")
    check(long.rc == 0 and abs(float(long.out.split()[4]) - perplexity("-c", "512")["perplexity"]) < 1e-4, "the context is 512 by itself: %r" % long)


@case
def perplexity_refusals():
    """--perplexity and --kl-divergence refuse what they cannot do, with the reason"""
    base = tmp("refuse.base")
    before = open(model(), "rb").read(), open(story(), "rb").read()
    good("-m", model(), "-q", "--perplexity", "-f", story(), "-c", "64", "--chunks", "1", "--kl-divergence-base", base)
    for args, word in ((["--perplexity", "-p", "too short"], "at least the 512 of one chunk"), (["--perplexity", "-f", story(), "-c", "3"], "at least 4"),
                       (["--perplexity", "-f", story(), "--chunks", "0"], "--chunks"), (["--perplexity", "-f", story(), "--ppl-stride", "512"], "--ppl-stride"),
                       (["--perplexity", "-f", story(), "--format", "md"], "has no form md"), (["--perplexity", "--score", "-p", "x"], "two actions"),
                       (["--perplexity"], "0 tokens|1 tokens"), (["-p", "x", "--kl-divergence-base", base], "--perplexity"),
                       (["--perplexity", "-f", story(), "--ppl-stride", "8", "--kl-divergence-base", base], "--ppl-stride"),
                       (["--perplexity", "-f", story(), "--kl-divergence-base", story()], "is the prompt itself"),
                       (["--perplexity", "-f", story(), "--kl-divergence-base", MODEL], "is the model itself"),
                       (["--perplexity", "-f", story(), "--kl-divergence-base", tmp("x.out"), "-o", tmp("x.out")], "is the output itself"),
                       (["--perplexity", "-f", story(), "--kl-divergence-base", "/nonexistent/x"], "/nonexistent/x"),
                       (["--kl-divergence", base, "-o", base], "is the base itself"),
                       (["--kl-divergence", base, "-c", "64"], "-c has no effect on --kl-divergence"), (["--kl-divergence", MODEL], "not a file of --kl-divergence-base"),
                       (["--kl-divergence", "/nonexistent"], "/nonexistent"), (["--kl-divergence", story()], "not a GGUF file")):
        r = run("-m", MODEL, "-q", *args)
        check(r.rc == 2 and one_line(r.err) and re.search(word.encode(), r.err) and not r.out, "%s: %r" % (" ".join(args), r))
    same((open(MODEL, "rb").read(), open(story(), "rb").read()), before, "model and text")
    other = os.path.join(HERE, "tests", "data", "tiny", "qwen2.gguf")
    refused(run("-m", other, "--kl-divergence", base, "-q"), 2, "a vocabulary of %d tokens" % n_vocab(), "another vocabulary")
    refused(run("-m", MODEL, "-q", "--perplexity", "-f", story(), "-c", "64", "--kv-blocks", "1"), 3, "KV cache", "no room")


@case
def divergences():
    """a base: a model has divergence 0 from itself, a rounded cache a small one, the same in every run and for every k"""
    base, whole = tmp("own.base"), tmp("whole.base")
    text = ("-m", model(), "-q", "--perplexity", "-f", story(), "-c", "64")
    same(good(*text, "--kl-divergence-base", base), good(*text), "stdout beside a base")
    good(*text, "--save-all-logits", whole, "--kl-top-k", "0")
    check(os.path.getsize(base) < os.path.getsize(whole), "the base is not smaller")
    own = json.loads(good("-m", MODEL, "-q", "--kl-divergence", base, "--json"))
    same((own["kld"]["mean"], own["kld"]["max"], own["dp"]["rms"], own["same_top"], own["ln_ratio"]), (0, 0, 0, 1, 0), "the model against itself")
    check(abs(own["perplexity"] - perplexity("-c", "64")["perplexity"]) < 1e-5, "its perplexity")
    rough = ("-m", MODEL, "-q", "-ctk", "q8_0", "-ctv", "q4_0", "--json", "--kl-divergence")
    want = json.loads(good(*rough, base))
    check(1e-4 < want["kld"]["mean"] < 0.2 and want["kld"]["p99"] > want["kld"]["median"] > 0 and want["same_top"] < 1, repr(want))
    for more in (["-t", "1"], ["-b", "5"], *(["--cpu", x] for x in levels(BIN))):
        same(json.loads(good(*rough, base, *more)), want, "divergence with " + " ".join(more))
    exact = json.loads(good(*rough, whole))
    check(0 <= exact["kld"]["mean"] - want["kld"]["mean"] < 1e-5, "k cuts off %.9g" % (exact["kld"]["mean"] - want["kld"]["mean"]))
    same(exact["dp"], want["dp"], "delta p")
    same(json.loads(good(*rough, base, "--chunks", "2"))["scored"], 62, "scored in two windows")
    r = run("-m", MODEL, "-ctk", "q8_0", "-ctv", "q4_0", "--kl-divergence", base)
    check(r.rc == 0 and b"Mean    KLD: %10.6f" % want["kld"]["mean"] in r.out and b"Same top p:" in r.out, repr(r))
    same(len(re.findall(rb"(?m)^ +\d+ .*%$", r.err)), want["windows"], "a line for each window")


@case
def bases_are_whole():
    """a full disk, a signal or an interrupt leaves no new base and does not change an old one"""
    at = tmp("bases")
    os.mkdir(at)
    path = os.path.join(at, "x.base")
    args = ("-m", model(), "-q", "--perplexity", "-f", story(), "-c", "64", "--kl-divergence-base", path)
    open(path, "wb").write(b"an old one")
    r = run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
    refused(r, 3, "cannot write", "a file that may not grow")
    same((os.listdir(at), open(path, "rb").read()), (["x.base"], b"an old one"), "what is left")
    long = tmp("long.txt")
    open(long, "wb").write(open(story(), "rb").read() * 100)
    for sig, code in (signal.SIGINT, 130), (signal.SIGTERM, 143):
        p = start("-m", MODEL, "-f", long, "-q", "-t", "1", "--perplexity", "-c", "64", "-b", "64", "--kl-divergence-base", path)
        deadline = time.time() + 20 * SLOW
        while len(os.listdir(at)) < 2 and p.poll() is None and time.time() < deadline:
            time.sleep(0.01)
        p.send_signal(sig)
        r = finish(p)
        check(r.rc == code and not r.out, "after %s: %r" % (sig.name, r))
        same((os.listdir(at), open(path, "rb").read()), (["x.base"], b"an old one"), "what %s leaves" % sig.name)
    good(*args)
    same(os.listdir(at), ["x.base"], "what a good run leaves")
    whole = open(path, "rb").read()
    for what, data in (("cut", whole[:-100]), ("another length", whole + bytes(64)), ("a token out of range", whole.replace(b"tokens", b"tokenz")),
                       ("a record", whole[:-3000] + b"\xff" * 600 + whole[-2400:])):
        open(path, "wb").write(data)
        r = run("-m", MODEL, "-q", "--kl-divergence", path)
        if what == "another length":
            check(r.rc in (0, 2), repr(r))
        else:
            refused(r, 2, "x.base", what)


def inspect(path):
    return json.loads(good("-m", path, "--inspect", "--json"))


@case
def inspect_model():
    """--inspect lists the content of the file, as text and as consistent JSON"""
    text, info = good("-m", model(), "--inspect").decode(), inspect(MODEL)
    arch, n_params, n_words = ("llama", 292800, 512) if MODEL == STORIES else ("qwen3", 381568, 3072)
    for word in (arch, str(n_params), "%d tokens" % n_words, "token_embd.weight", "general.architecture", "f32", "verdict"):
        check(word in text, "no %r in --inspect" % word)
    same((info["architecture"], info["parameters"]), (arch, n_params), "architecture, parameters")
    same(info["parameters"], sum(math.prod(t["shape"]) for t in info["tensors"]), "parameters")
    same(info["bytes"], os.path.getsize(MODEL), "bytes")
    same(info["hyperparameters"]["context_length"], 512, "context")
    same(info["vocabulary"]["tokens"], n_words, "vocabulary")
    same(sum(t["tensors"] for t in info["types"]), len(info["tensors"]), "tensors by type")
    same((info["runs"], info["vocabulary_only"], info["problem"]), (True, False, None), "verdict")
    data = open(MODEL, "rb").read()
    for t in info["tensors"][:3]:
        check(good("-m", MODEL, "--dump-tensor", t["name"]) == data[t["offset"]:t["offset"] + t["bytes"]], "--dump-tensor " + t["name"])
    r = run("-m", MODEL, "--dump-tensor", "blk.0.attn_q.weigth")
    refused(r, 2, "did you mean blk.0.attn_q.weight?", "a tensor that is not there")
    refused(run("-m", MODEL, "--dump-tensor", ""), 2, "no tensor", "a tensor without a name")


@case
def inspect_for_people():
    """--inspect shows texts unchanged and marks those that it cuts"""
    text = good("-m", PIP, "--inspect").decode()
    for line in ("tokenizer.ggml.tokens +string x 3072 +\\[.*\"Ā\".*, \\.\\.\\. 3066 more\\]", "general.languages +string x 1 +\\[\"en\"\\]",
                 "tokenizer.chat_template .* message\\['role'\\] .*\"\\.\\.\\. \\(\\d+ bytes\\)"):
        check(re.search("(?m)^  %s$" % line, text), "no %r in %s" % (line, text))
    quoted = tmp("quoted.gguf")
    with open(PIP, "rb") as f, open(quoted, "wb") as g:
        g.write(f.read().replace(b"the llmrun project", b'a "b" \\c \xe6\x97\xa5 \x1bdefg'))
    check('"a "b" \\c 日 \\x1bdefg"' in good("-m", quoted, "--inspect").decode(), "escapes in --inspect")


@case
def inspect_by_key():
    """--inspect --json: metadata as a list and by key; an array that is cut says so"""
    info = inspect(PIP)
    rows, by_key = info["metadata"], info["metadata_by_key"]
    same([r["key"] for r in rows], list(by_key), "keys")
    for r in rows:
        same(r.get("cut", False), r.get("count", 0) > 16, r["key"])
        want = {"of": r["of"], "count": r["count"], "first": r["value"]} if "cut" in r else r["value"]
        same(by_key[r["key"]], want, r["key"])
    same(by_key["tokenizer.ggml.tokens"]["count"], 3072, "tokens")


@case
def files_of_other_kinds():
    """a download cut short, a packed file, a web page: each is named"""
    with open(PIP, "rb") as f:
        whole = f.read()
    for name, data, word in (("cut", whole[:100000], "the file ends at 100000 bytes, its tensors need 3532896, expected a whole file"),
                             ("gz", gzip.compress(whole[:1000]), "is a gzip file"), ("zip", b"PK\3\4" + b"\0" * 60, "is a zip file"),
                             ("html", b"<!DOCTYPE html><html>", "is an HTML page"), ("lfs", b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer")):
        path = tmp("kind." + name)
        with open(path, "wb") as f:
            f.write(data)
        refused(run("-m", path, "-p", "a"), 2, "%s: %s" % (path, word), name)


@case
def batches_of_other_kinds():
    """a packed file, a model and a JSON array are refused as a batch by their names; text that only looks like one is not"""
    objects = '{"prompt": "a", "max_tokens": 1}'
    for name, data, word in (("gz", gzip.compress(objects.encode()), "is a gzip file"), ("zip", b"PK\3\4" + b"\0" * 60, "is a zip file"), ("gguf", open(PIP, "rb").read(4096), "is a GGUF file"),
                             ("array", ("[%s, %s]" % (objects, objects)).encode(), "is a JSON array, expected JSON Lines"),
                             ("lines of an array", ("\n[\n%s,\n%s\n]\n" % (objects, objects)).encode(), "is a JSON array, expected JSON Lines")):
        path = tmp("kind.jsonl")
        with open(path, "wb") as f:
            f.write(data)
        refused(run("-m", PIP, "-q", "--batch", path), 2, word, name)
        new = tmp("kind.out")
        refused(run("-m", PIP, "-q", "--batch", path, "-o", new), 2, word, name)
        check(not os.path.exists(new), name + ": an empty file of results is left")
        refused(run("-m", PIP, "-q", "--batch", "-", inp=data), 2, "standard input: " + word, name + " on stdin")
    for text in "[1, 2", "GGUF is a format\n", "PK\n", "[INST] hello":
        r = run("-m", PIP, "-q", "--batch", "-", "-n", "1", inp=text.encode())
        check(r.rc == 0 and len(r.out.splitlines()) == 1, "%r: %r" % (text, r))


@case
def inspect_states():
    """--inspect prints the bytes of recurrent states, the same as a run allocates; a model without such layers has no such line"""
    log = 16                           # positions that a state can take back
    delta, conv = 4 * ((4 - 1 + log) * 64 + log * 2 * 4 + 4 * 8 * 8), 4 * (3 - 1 + log) * 32     # inputs, gates and sums of a layer; inputs alone
    for name, n, text in ("qwen35", 2 * delta, b"12.50 KiB"), ("lfm2", 2 * conv, b"4.50 KiB"), ("llama", 0, None):
        path = os.path.join(TINY, name + ".gguf")
        memory, head = inspect(path)["memory"], good("-m", path, "--inspect")
        same((memory["state_per_sequence"], memory["state_per_snapshot"]), (n, n), name)
        same(b"recurrent state" in head, n > 0, "%s: the state in the text" % name)
        if n:
            check(b"; recurrent state %s per sequence, %s per snapshot\n" % (text, text) in head, "%s: %r" % (name, head[:1500]))
            refused(run("-m", path, "-p", "Once", "--state-mem", "1"), 3, "at least one of %d bytes" % n, "%s: --state-mem 1" % name)


@case
def inspect_vocabulary():
    """a file without tensors is valid: exit 0, and reported as a vocabulary"""
    for name in VOCABS:
        info = inspect(vocab(name))
        same((info["runs"], info["vocabulary_only"], info["parameters"], info["tensors"]), (False, True, 0, []), name)
        check(b"vocabulary alone" in good("-m", vocab(name), "--inspect"), name)
        r = run("-m", vocab(name), "-p", "hi", "-n", "1")
        check(r.rc == 2 and one_line(r.err) and not r.out, "%s runs: %r" % (name, r))


def patched(name, old, new):
    path = tmp(name)
    data = open(model(), "rb").read()
    check(data.count(old) >= 1 and len(old) == len(new), "nothing to patch")
    with open(path, "wb") as f:
        f.write(data.replace(old, new, 1))
    return path


@case
def inspect_what_cannot_run():
    """an unknown architecture is printed in full, then exit 2 and one line; a broken file prints nothing"""
    arch = inspect(MODEL)["architecture"]
    other = arch.replace(arch[1], "x")
    named = lambda name: struct.pack("<Q", len(name)) + name.encode()
    path = patched("arch.gguf", named(arch), named(other))
    r = run("-m", path, "--inspect")
    check(r.rc == 2 and one_line(r.err) and other.encode() in r.err and b"token_embd.weight" in r.out and b"does not run" in r.out, repr(r))
    r = run("-m", path, "--inspect", "--json")
    info = json.loads(r.out)
    check(r.rc == 2 and info["runs"] is False and other in info["problem"], repr(r))
    same(good("-m", path, "--tokenize", "-p", "hi"), good("-m", MODEL, "--tokenize", "-p", "hi"), "tokenise on an unknown architecture")
    refused(run("-m", path, "-p", "hi"), 2, other, "run an unknown architecture")
    path = patched("tensor.gguf", b"blk.2.ffn_up.weight", b"blk.2.ffn_xx.weight")
    r = run("-m", path, "--inspect")
    check(r.rc == 2 and one_line(r.err) and b"ffn_up" in r.err and r.out, repr(r))
    data = open(MODEL, "rb").read()
    for n in (0, 3, 4, 24, 1000, 14000, len(data) - 1):
        path = tmp("cut.gguf")
        with open(path, "wb") as f:
            f.write(data[:n])
        for action in (["--inspect"], ["--inspect", "--json"], ["-p", "hi"], ["--tokenize", "-p", "hi"]):
            refused(run("-m", path, *action), 2, path, "%d bytes, %s" % (n, action[0]))


@case
def terminal_escapes():
    """names in a model file cannot steer the terminal"""
    name = inspect(MODEL)["name"].encode()
    evil = b"ti\x1b[31m\r\xc2\x9b"[:len(name)].ljust(len(name), b"\xff")
    path = patched("esc.gguf", struct.pack("<Q", len(name)) + name, struct.pack("<Q", len(name)) + evil)
    r = run("-m", path, "--inspect")
    check(r.rc == 0 and not set(r.out) & {0x1b, 0x0d, 0x07} and b"\xc2\x9b" not in r.out, repr(r.out[:300]))
    check(inspect(path)["name"].startswith("ti\x1b[31m"), "JSON loses the bytes")


# --- streams and signals ---

ACTIONS = (["-p", "Once", "-n", "50"], ["--tokenize", "-p", "Once"], ["--detokenize", "-p", "400 401"], ["--inspect"], ["--inspect", "--json"],
           ["--dump-tensor", "token_embd.weight"], ["--score", "-p", PROMPT], ["--logits", "-", "-p", PROMPT], ["--perplexity", "-c", "8", "-p", PROMPT])


@case
def full_disk():
    """every action that writes to a full device ends with exit 3 and one line"""
    for action in [*(["-m", model(), "-q", *a] for a in ACTIONS), ["--help"], ["--version"], ["--list", "types"]]:
        with open("/dev/full", "wb") as full:
            r = run(*action, stdout=full)
        check(r.rc == 3 and one_line(r.err) and b"No space" in r.err, "%s: %r" % (action, r))
    for flag in ("-o", "--logits"):
        r = run("-m", MODEL, "-q", "--raw", "-p", PROMPT, flag, "/dev/full")
        check(r.rc == 3 and one_line(r.err), "%s /dev/full: %r" % (flag, r))


@case
def file_size_limit():
    """a file that may not grow further ends with exit 3, not with a signal"""
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    r = run("-m", model(), "-q", "-p", PROMPT, "--logits", tmp("short.f32"), preexec_fn=limit)
    check(r.rc == 3 and one_line(r.err), repr(r))


@case
def closed_stdout():
    """a stdout that the parent closed is a failed write (exit 3), and no file lands on its number"""
    for action in ACTIONS[:4] + (["--dump-tensor", "token_embd.weight"],):
        before = open(model(), "rb").read()
        r = run("-m", MODEL, "-q", *action, preexec_fn=lambda: os.close(1), stdout=None)
        check(r.rc == 3 and one_line(r.err), "%s: %r" % (action, r))
        check(open(MODEL, "rb").read() == before, "the model was written to")
    r = subprocess.run([BIN, "-m", MODEL, "--raw", "-p", "Once", "-n", "5"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENV, preexec_fn=lambda: os.close(2))
    check(r.returncode == 0 and r.stdout, "closed stderr: %r" % r)


@case
def reader_leaves():
    """a reader that closes the pipe (| head) ends the run without a message, exit 0"""
    p = start("-m", model(), "--raw", "-p", "Once", *ENDLESS, "-q")
    got = p.stdout.read(10)
    p.stdout.close()
    p.wait(20 * SLOW)
    check(len(got) == 10 and p.returncode == 0, "exit %d" % p.returncode)
    same(p.stderr.read(), b"", "stderr")
    p.stderr.close()
    for action in (["--inspect"], ["--dump-tensor", "token_embd.weight"], ["--logits", "-", "-p", PROMPT * 5], ["--score", "-p", PROMPT * 5]):
        p = start("-m", MODEL, "-q", *action)
        p.stdout.close()
        p.wait(20 * SLOW)
        same((p.returncode, p.stderr.read()), (0, b""), action[0])
        p.stderr.close()
    shell = subprocess.run(["sh", "-c", '"$0" -m "$1" -p Once --temp 0 -n 100000000 -c 64 --context-shift --ignore-eos | head -c 10', BIN, MODEL],
                           stdin=subprocess.DEVNULL, capture_output=True, env=ENV, timeout=30 * SLOW)
    same(len(shell.stdout), 10, "| head -c 10")
    check(b"llmrun: cannot" not in shell.stderr and b"Broken" not in shell.stderr, repr(shell.stderr))


def read_some(p, n):
    """n bytes of a running answer."""
    data = b""
    while len(data) < n:
        more = os.read(p.stdout.fileno(), n - len(data))
        if not more:
            raise AssertionError("the run ended by itself: %r" % finish(p))
        data += more
    return data


@case
def interrupted():
    """SIGINT ends a run with 130, SIGTERM with 143; what was written is a beginning of the text"""
    want = good("-m", model(), "--raw", "-p", "Once", "-n", "400", *ENDLESS[:2], *ENDLESS[4:])
    for sig, code in (signal.SIGINT, 130), (signal.SIGTERM, 143):
        p = start("-m", MODEL, "--raw", "-p", "Once", *ENDLESS)
        data = read_some(p, 200)
        p.send_signal(sig)
        r = finish(p)
        same(r.rc, code, "exit after %s" % sig.name)
        check(want.startswith((data + r.out)[:len(want)]), "the text changed")
        check(b"bug" not in r.err, repr(r.err))
    p = start("-m", MODEL, "-f", "-", *ENDLESS[:4], "-n", "5", stdin=subprocess.PIPE)
    until_caught(p, signal.SIGINT)
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)                      # while it waits for a prompt that never ends
    same(finish(p).rc, 130, "SIGINT while reading stdin")


@case
def interrupted_prefill():
    """SIGINT while a long prompt is read ends with 130, before the prompt is read"""
    p = start("-m", model(), "-f", "-", "-b", "4", "-n", "1", "-c", "60000", "-q", stdin=subprocess.PIPE)
    p.stdin.write(b"Once upon a time there was a dog. " * 3000)
    p.stdin.close()
    p.stdin = None
    until_caught(p, signal.SIGINT)
    time.sleep(0.2)
    check(p.poll() is None, "the prompt was read already: %r" % p.poll())
    p.send_signal(signal.SIGINT)
    same(finish(p).rc, 130, "exit code")


@case
def second_signal():
    """a run that is blocked (its reader is asleep) ends at the second signal"""
    for first, second, code in ((signal.SIGINT, signal.SIGINT, 130), (signal.SIGTERM, signal.SIGTERM, 143), (signal.SIGINT, signal.SIGTERM, 143)):
        p = start("-m", model(), "--dump-tensor", "token_embd.weight")   # 128 KiB into a pipe of 64
        until_caught(p, first)
        time.sleep(0.3)
        check(p.poll() is None, "the pipe took it all")
        p.send_signal(first)
        p.wait(60 * SLOW)
        check(p.returncode == (130 if first == signal.SIGINT else 143), "exit %s" % p.returncode)
        p.stdout.close(), p.stderr.close()
        r, w = os.pipe()
        fcntl.fcntl(w, 1031, 4096)                    # F_SETPIPE_SZ: a small pipe, nearly full: soon the run sleeps in a write
        os.write(w, b"x" * 4000)
        p = start("-m", MODEL, "--raw", "-p", "Once", *ENDLESS, stdout=w)
        os.close(w)
        deadline, asleep = time.time() + 20 * SLOW, b""
        while time.time() < deadline and b"pipe" not in asleep:
            time.sleep(0.02)
            asleep = open("/proc/%d/wchan" % p.pid, "rb").read()
        if b"pipe" not in asleep:
            p.kill(), p.communicate()
            raise Skip("cannot see where a process sleeps")
        p.send_signal(first)
        time.sleep(0.3)
        check(p.poll() is None, "ended at the first signal, in the middle of a write")
        p.send_signal(second)
        p.wait(60 * SLOW)
        same(p.returncode, code, "exit after the second signal")
        os.close(r), p.stderr.close()


# --- the machine around it ---

@case
def locales():
    """decimal commas and dotless i of the environment change nothing"""
    args = ("-m", model(), "--raw", "-p", "Once", "-n", "20", "-s", "1", "--temp", "0.75", "--top-p", "0.5", "-q")
    want, report = good(*args), good("-m", MODEL, "--inspect", "--json")
    for name in ("de_DE.UTF-8", "tr_TR.UTF-8", "C", "POSIX", "xx_YY"):
        env = {"LC_ALL": name, "LANG": name, "LC_NUMERIC": name}
        same(good(*args, env=env), want, name)
        check(good("-m", MODEL, "--inspect", "--json", env=env) == report, "--inspect in " + name)


@case
def keys_that_llama_cpp_does_not_read():
    """a key that llama.cpp does not read for this architecture counts, and one line says so; a value that changes nothing is not named"""
    args = ("--logits", "-", "-p", "Once upon a time in a land far away")
    before = run("-m", made("peer.gguf", lambda f, h: None), *args)
    check(b"counts here" not in before.err, repr(before.err))
    for key, kind, value, other in (("attention.scale", "F32", 0.5, True), ("logit_scale", "F32", 2.0, True), ("residual_scale", "F32", 0.5, True),
                                    ("embedding_scale", "F32", 3.0, True), ("attention.sliding_window", "U32", 3, True), ("attn_logit_softcapping", "F32", 1.0, True),
                                    ("attention.scale", "F32", 32 ** -0.5, False), ("attention.sliding_window", "U32", 0, False), ("logit_scale", "F32", 0.0, False),
                                    ("rope.scaling.yarn_beta_fast", "F32", 32.0, False), ("expert_gating_func", "U32", 1, False)):
        path = made("peer.gguf", lambda f, h: f.set("llama." + key, getattr(h, kind), value))
        r = run("-m", path, *args)
        line = ("%s: llama.%s counts here; llama.cpp does not read it for llama" % (path, key)).encode()
        check(r.rc == 0 and (r.out != before.out) == other and r.err.count(line) == other and r.err.count(b"counts here") == other, "%s = %s: %r" % (key, value, r.err))
        same(run("-q", "-m", path, *args).err, b"", "-q")
    for name in "granite", "glm4moe_air", "deepseek2-ocr", "deepseek2_v3", "mistral4", "bailingmoe2":
        r = run("-m", os.path.join(HERE, "tests", "data", "tiny", name + ".gguf"), *args[:2], "-p", "a")
        check(r.rc == 0 and b"counts here" not in r.err, "%s reads its keys: %r" % (name, r.err))


@case
def models_that_are_none():
    """a directory, a FIFO, a device, an empty or unreadable file as the model: exit 2 at once"""
    fifo, empty, text, secret = tmp("m.fifo"), tmp("empty.gguf"), tmp("text.gguf"), tmp("secret.gguf")
    os.mkfifo(fifo)
    open(empty, "wb").close()
    with open(text, "wb") as f:
        f.write(b"This is not a model.\n" * 100)
    shutil.copy(model(), secret)
    os.chmod(secret, 0)
    paths = [TMP, fifo, "/dev/zero", "/dev/null", empty, text, "", "/proc/self/mem", tmp("missing.gguf")]
    if os.geteuid() != 0:
        paths.append(secret)
    for path in paths:
        for action in (["--inspect"], ["-p", "hi"], ["--tokenize", "-p", "hi"]):
            refused(run("-m", path, *action), 2, os.path.basename(path) if path else "model", "%r as model" % path)


@case
def sparse_file():
    """8 GiB of zeros after a GGUF header: refused"""
    path = tmp("sparse.gguf")
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 1 << 40))
        f.truncate(8 << 30)
    refused(run("-m", path, "--inspect"), 2, path, "a sparse file")


@case
def truncated_while_running():
    """a model file that shrinks during the run: exit 3 and one line, no signal, no endless run"""
    for size in (0, 100, 200000, 700000):
        path = tmp("shrink.gguf")
        shutil.copy(model(), path)
        p = start("-m", path, "--raw", "-p", "Once", *ENDLESS, "-q")
        read_some(p, 50)
        os.truncate(path, size)
        r = finish(p)
        check(r.rc == 3 and one_line(r.err) and path.encode() in r.err, "cut to %d: exit %d, %r" % (size, r.rc, r.err))


@case
def replaced_while_running():
    """a model file that is replaced by rename or removed: the run continues correctly"""
    args = ("--raw", "-p", "Once", "-n", "1000", "-c", "64", "--context-shift", "--ignore-eos", *GREEDY, "-q")
    want = good("-m", model(), *args)
    for new in (b"not a model at all", None):
        path = tmp("replace.gguf")
        shutil.copy(MODEL, path)
        p = start("-m", path, *args)
        data = read_some(p, 20)
        if new is None:
            os.unlink(path)
        else:
            with open(path + ".new", "wb") as f:
                f.write(new)
            os.rename(path + ".new", path)
        r = finish(p, 60)
        check(r.rc == 0 and data + r.out == want, "exit %d, %r" % (r.rc, r.err))


@case
def every_tiny_model():
    """each tiny model of the tests runs from the command line, with one text at every level, chunk and thread count"""
    tiny = os.path.join(HERE, "tests", "data", "tiny")
    with open(os.path.join(tiny, "manifest.txt")) as f:
        names = sorted({line.split()[1] for line in f if "invented" not in line})
    check(len(names) >= 30, names)
    for name in names:
        args = ("-m", os.path.join(tiny, name), "-p", "the cat and the hat", "-n", "8", *GREEDY, "--ids", "--ignore-eos", "-q")
        want = good(*args)
        check(len(want.split()) == 8, "%s: %r" % (name, want))
        for more in (["-t", "1", "-b", "1"], ["--cpu", "scalar", "-b", "3"], ["--cpu", levels(BIN)[-1], "--kv-block-size", "1"]):
            check(good(*args, *more) == want, "%s with %r" % (name, more))


def put(name, data):
    with open(tmp(name), "wb") as f:
        f.write(data)
    return tmp(name)


WHOLE = ["pairs/t5.gguf", "pairs/t5_gated.gguf", "pairs/t5_umt5.gguf", "pairs/t5_q8_0.gguf", "diffuse/dream.gguf", "diffuse/llada.gguf", "diffuse/llada-moe.gguf"]


def whole(name):
    return os.path.join(HERE, "tests", "data", name)


@case
def texts_read_as_a_whole():
    """an encoder-decoder and models that decode by diffusion: one text at every level and thread count, and the same in a batch of lines"""
    prompts = ["the cat and the hat", "so", "the other thing is near the sand " * 3]
    lines = put("whole.jsonl", "".join(json.dumps(dict(prompt=p, max_tokens=9, seed=3, temperature=0.8)) + "\n" for p in prompts).encode())
    for name in WHOLE:
        base = ("-m", whole(name), "-s", "3", "--temp", "0.8", "-n", "9", "--raw", "-q")
        texts = [good(*base, "-p", p) for p in prompts]
        for more in (["-t", "1", "-b", "1"], ["--cpu", "scalar"], ["--cpu", levels(BIN)[-1], "--kv-block-size", "1"], ["--no-lookup"]):
            check(good(*base, "-p", prompts[0], *more) == texts[0], "%s with %r" % (name, more))
        for more in ([], ["-np", "1"], ["-np", "2", "-t", "2"], ["-np", "1", "-n", "2"]):     # the last: logits for two masks a step
            records = sorted((json.loads(r) for r in good("-q", "-m", whole(name), "--batch", lines, "--raw", *more).splitlines()), key=lambda r: r["line"])
            choices = [r["response"]["body"]["choices"][0] for r in records]
            got = [base64.b64decode(c["bytes"]) if "bytes" in c else c["text"].encode() for c in choices]
            check(got == [t.removesuffix(b"\n") if t.endswith(b"\n") and not g.endswith(b"\n") else t for t, g in zip(texts, got)], "%s: a batch with %r: %r, alone %r" % (name, more, got, texts))


@case
def texts_read_as_a_whole_refuse():
    """what makes no sense for a model that reads its text as a whole is refused with one line"""
    for name in ("pairs/t5.gguf", "diffuse/dream.gguf"):
        m = ("-m", whole(name), "--raw", "-p", "the hat", "-n", "4")
        for args, word in ((["--context-shift"], "no shift"), (["--prompt-cache", tmp("whole.kv")], "expected none")):
            refused(run(*m, *args), 2, word, "%s %r" % (name, args))
        for action in (["--score", "-p", "the hat"], ["--perplexity", "-c", "64", "-f", put("hat.txt", b"the hat " * 400)], ["--imatrix-out", tmp("whole.dat"), "-c", "64", "-f", tmp("hat.txt")]):
            refused(run("-m", whole(name), *action), 2, "as a whole", "%s %s" % (name, action))
    m = ("-m", whole("diffuse/llada.gguf"), "--raw", "-p", "the hat", "-n", "4")
    refused(run(*m, "--grammar", 'root ::= "a"'), 2, "diffusion", "a constraint")
    refused(run(*m, "--diffusion-eps", "0.1", "--diffusion-block-length", "4"), 2, "expected one of them", "both schedules")
    refused(run(*m, "--diffusion-algorithm", "5"), 2, "--diffusion-algorithm", "an unknown algorithm")


def made(name, change):
    """A tiny llama model by hostile.py, changed."""
    import hostile
    f = hostile.SPM.copy()
    change(f, hostile)
    with open(tmp(name), "wb") as out:
        out.write(f.bytes())
    return tmp(name)


@case
def partners():
    """an option without the option that it needs gives one line, and the answer is the same; with it, or with -q, there is none"""
    base = ("-m", MODEL, "--raw", "-p", "Once", "-n", "4", "-s", "1")
    want = good(*base, "-q")
    kept = tmp("partners.kv")
    for option, partner in (["--prompt-cache-ro"], ["--prompt-cache", kept]), (["--keep", "1"], ["--context-shift"]), (["--mirostat-lr", "0.2"], ["--mirostat", "2"]), \
            (["--xtc-threshold", "0.2"], ["--xtc-probability", "0.5"]), (["--draft-max", "3", "--no-lookup", "--no-head"], ["--model-draft", MODEL]), (["--repeat-last-n", "9"], ["--presence-penalty", "1"]):
        alone, both, quiet = run(*base, *option), run(*base, *option, *partner), run(*base, *option, "-q")
        line = b"llmrun: %s has no effect without " % option[0].encode()
        check(alone.err.count(line) == 1 and partner[0].encode() in alone.err, repr(alone.err))
        check(both.rc == 0 and line not in both.err and not quiet.err, repr((both, quiet)))
        same((alone.rc, alone.out), (0, want), option[0])


@case
def model_recommends():
    """general.sampling.* of a file are the defaults of the command line; suppressed tokens are never picked"""
    plain = made("plain.gguf", lambda f, h: None)
    cold = made("cold.gguf", lambda f, h: f.set("general.sampling.temp", h.F32, 0.0))
    args = ("--raw", "-p", "a", "-n", "20", "--ids", "--ignore-eos", "-q")
    greedy = good("-m", plain, *args, "--temp", "0")
    check(good("-m", cold, *args) == greedy, "the file's temperature is not used")
    check(good("-m", cold, *args, "--temp", "5", "-s", "1") != greedy, "the command line does not win")
    first = int(greedy.split()[0])
    mute = made("mute.gguf", lambda f, h: f.set("tokenizer.ggml.suppress_tokens", h.ARR, (h.I32, [first])))
    check(str(first).encode() not in good("-m", mute, *args, "--temp", "0").split(), "a suppressed token was picked")
    refused(run("-m", made("loud.gguf", lambda f, h: f.set("tokenizer.ggml.suppress_tokens", h.ARR, (h.I32, [1 << 30]))), "-p", "a"), 2, "suppress_tokens", "a bad id")
    for k, t, v in (("penalty_last_n", "I32", -1), ("top_k", "I32", -1), ("temp", "I32", 1)):
        good("-m", made("odd.gguf", lambda f, h: f.set("general.sampling." + k, getattr(h, t), v)), *args)
    refused(run("-m", made("hot.gguf", lambda f, h: f.set("general.sampling.top_k", h.STR, "many")), "-p", "a"), 2, "general.sampling.top_k", "a bad setting")


@case
def matrix_scales():
    """NAME.scale multiplies a matrix's product; NAME.input_scale and data that are no weights are ignored"""
    def halved(f, h):
        import struct
        t = f.tensor("blk.0.attn_q.weight")
        n = len(t["data"]) // 4
        t["data"] = struct.pack("<%df" % n, *(0.5 * x for x in struct.unpack("<%df" % n, t["data"])))
        f.add("blk.0.attn_q.scale", [1], h.T_F32, struct.pack("<f", 2.0))
        f.add("blk.0.attn_q.input_scale", [1], h.T_F32, struct.pack("<f", 7.0))
        f.add("notes", [3], h.T_I8, b"abc")
    plain, same = made("plain.gguf", lambda f, h: None), made("scaled.gguf", halved)
    both = [good("-m", m, "-p", "a b c d", "--logits", "-", "-q") for m in (plain, same)]
    check(both[0] == both[1] and both[0], "2 x (0.5 w) is not w")
    def doubled(f, h):
        import struct
        t = f.tensor("token_embd.weight")
        n = len(t["data"]) // 4
        t["data"] = struct.pack("<%df" % n, *(0.5 * x for x in struct.unpack("<%df" % n, t["data"])))
        f.add("token_embd.scale", [1], h.T_F32, struct.pack("<f", 2.0))
    check(good("-m", made("embd.gguf", doubled), "-p", "a b c d", "--logits", "-", "-q") == both[0], "the scale of the embedding")
    refused(run("-m", made("wide.gguf", lambda f, h: f.add("blk.0.attn_q.scale", [2], h.T_F32, bytes(8))), "-p", "a"), 2, "attn_q.scale", "two scales")
    refused(run("-m", made("clamp.gguf", lambda f, h: f.set("llama.attention.clamp_kqv", h.F32, 8.0)), "-p", "a"), 2, "clamp_kqv", "a step we do not know")


@case
def context_of_longrope():
    """factors of LongRoPE follow the context of the run: the long ones where it is larger than the one before the extension, as it is without -c"""
    phi3 = os.path.join(HERE, "tests", "data", "tiny", "phi3.gguf")               # trained with 256 positions, 40 before its extension
    of = lambda *more: good("-m", phi3, "-p", "the cat and the hat", "--logits", "-", "-q", *more)
    check(of() == of("-c", "41") == of("-c", "256") != of("-c", "40") == of("-c", "20"), "the set of factors")
    text, base = tmp("longrope.txt"), tmp("longrope.base")
    with open(text, "w") as f:
        f.write("the cat and the hat and the hen " * 60)
    good("-m", phi3, "--perplexity", "-c", "32", "-f", text, "--kl-divergence-base", base, "-q")
    check(re.search(rb"(?m)^Maximum KLD: +-?0\.0+$", good("-m", phi3, "--kl-divergence", base, "-q")), "a model differs from itself")
    p, kept = ("-m", phi3, "-p", "the hen and the cat in", "-n", "12", "--temp", "0", "--ids", "-q", "--kv-block-size", "4"), ("--prompt-cache", tmp("longrope.cache"))
    for first, then in ("38", "200"), ("200", "38"):
        good(*p, "-c", first, *kept)
        same(good(*p, "-c", then, *kept), good(*p, "-c", then), "-c %s from the prompt cache of -c %s" % (then, first))
    lines, out = tmp("longrope.jsonl"), tmp("longrope.out")
    with open(lines, "w") as f:
        f.write('{"prompt":"a b c","max_tokens":2}\n')
    args = ("-m", phi3, "--batch", lines, "-o", out, "--kv-blocks", "3", "--kv-block-size", "8", "-s", "1", "-q")
    good(*args, "-c", "32")
    refused(run(*args, "-c", "48", "--resume"), 2, "rope-set", "--resume with the other factors")
    err = run("-m", phi3, "-md", phi3, "-p", "the hen and the cat in", "-c", "38", "-n", "20", "--ignore-eos", "--temp", "0", "--draft-min", "3", "-v").err
    check(re.search(rb"draft +\d+ guessed, \d+ accepted \(100\.0 %\)", err), "the model as its own draft: %r" % err)


@case
def learned_positions():
    """a context larger than the positions that a model has learned is refused in one line, by each action that runs steps"""
    gpt2, text = os.path.join(HERE, "tests", "data", "tiny", "gpt2.gguf"), tmp("learned.txt")
    with open(text, "w") as f:
        f.write("the cat and the hat " * 40)
    good("-m", gpt2, "-p", "a", "-n", "200", "--ignore-eos", "-c", "96", "-q")
    for args in (["-p", "a", "-n", "1"], ["--perplexity", "-f", text], ["--imatrix-out", tmp("learned.im"), "-f", text], ["--quantize", "Q4_0", "-o", tmp("learned.gguf"), "--calibrate", text, "-q"]):
        refused(run("-m", gpt2, *args, "-c", "97"), 2, "expected at most 96", args[0])
    refused(run("-m", MODEL, "-p", "a", "-n", "1", "--model-draft", gpt2), 2, "", "a draft with fewer positions")


@case
def long_context_small_file():
    """a file that claims a context of 2^28 gets no memory for it before it is used"""
    if sanitized():
        raise Skip("a sanitizer wants the address space for itself")
    far = made("far.gguf", lambda f, h: f.set("llama.context_length", h.U32, 1 << 28))
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
    r = run("-m", far, "-p", "a", "-n", "5", "-c", "0", "--temp", "0", "--ignore-eos", "-t", "4", preexec_fn=limit)
    check(r.rc == 0, repr(r))


@case
def bounded_window():
    """a cache bounded to little more than a window still reads any prompt, in smaller steps, to the same text"""
    args = ("-m", os.path.join(HERE, "tests", "data", "tiny", "llama_window.gguf"), "-p", "the cat and " * 12, "-n", "6", *GREEDY, "--ids", "--ignore-eos", "-q")
    want = good(*args)
    for more in (["--kv-blocks", "3"], ["--kv-blocks", "5", "--kv-block-size", "8"], ["--kv-blocks", "40", "--kv-block-size", "1"]):
        check(good(*args, *more) == want, repr(more))


@case
def prompt_cache():
    """a second run reads the last token alone and gives the same answer, and so does a batch; a file of another kind stays"""
    def answered(*args):
        r = run(*args)
        check(r.rc == 0, repr((args, r)))
        return r

    text = "Once upon a time there was a little girl named Lily who lived in a small house by the sea with her mother and a dog."
    args = ["-m", model(), "--raw", "-p", text, "-n", "30", "--temp", "0"]
    plain, kept = answered(*args), tmp("kept.gguf")
    came = re.compile(rb"(?m)^llmrun: prompt .* after (\d+) from .*, generated ")
    first = answered(*args, "--prompt-cache", kept)
    second = answered(*args, "--prompt-cache", kept)
    same(first.out, plain.out, "the text beside a new file")
    same(second.out, plain.out, "the text out of the file")
    check(not came.search(first.err), repr(first))
    check(int(came.search(second.err).group(1)) >= 20 and re.search(rb"prompt +1 token in", second.err), repr(second))
    lines = tmp("kept.txt")
    with open(lines, "w") as f:
        f.write(text + "\n")
    record = json.loads(answered("-m", model(), "--raw", "--batch", lines, "-n", "30", "--temp", "0", "--prompt-cache", kept).out)["response"]["body"]
    same(record["choices"][0]["text"].encode(), plain.out, "the answer of a batch")
    same(record["usage"]["prompt_tokens_details"]["cached_tokens"], record["usage"]["prompt_tokens"] - 1, "tokens that a batch is spared")
    with open(kept, "rb") as f:
        was = f.read()
    more = answered("-m", model(), "--raw", "-p", text + " They went to the park.", "-n", "40", "--temp", "0", "--prompt-cache", kept, "--prompt-cache-ro")
    check(came.search(more.err), repr(more))
    with open(kept, "rb") as f:
        same(f.read(), was, "a file that is only read")
    other = answered(*args, "--prompt-cache", kept, "-ctk", "q8_0")
    check(b"layout differs" in other.err and b"written anew" in other.err and not came.search(other.err), repr(other))
    check(came.search(answered(*args, "--prompt-cache", kept, "-ctk", "q8_0").err), "what was made anew is not used")
    blas = run(*args, "--prompt-cache", kept, "-ctk", "q8_0", "--blas")
    check(blas.rc == 2 or b"layout differs" in blas.err, repr(blas))   # its last bits are its own
    for name, data in [("text", b"these are words"), ("model", open(model(), "rb").read()), ("half", was[:len(was) // 2])]:
        foreign = tmp("foreign-" + name)
        with open(foreign, "wb") as f:
            f.write(data)
        got = answered(*args, "--prompt-cache", foreign)
        same(got.out, plain.out, "the text beside a foreign file, " + name)
        check(b"left as it is" in got.err, repr(got))
        with open(foreign, "rb") as f:
            same(f.read(), data, "a foreign file, " + name)
    same([n for n in os.listdir(TMP) if ".tmp." in n], [], "what is left beside the files")


@case
def files_keep_their_mode():
    """a file that a run replaces keeps its mode, through a link too; a new one has that of any new file"""
    mode, umask = lambda path: os.stat(path).st_mode & 0o7777, lambda: os.umask(0o027)
    link = tmp("mode.link")
    args = {"--prompt-cache": lambda i, path: ("-p", "Once upon a time there was a girl %d, who lived by the sea with a dog and a cat and a hen" % i,
                                               "-n", "20", "--prompt-cache", path),
            "--lookup-cache": lambda i, path: ("-p", "Once %d" % i, "-n", "20", "--lookup-cache", path),
            "--quantize": lambda i, path: ("--quantize", "Q8_0", "-o", path)}
    for name, of in args.items():
        path = tmp("mode" + name)
        ask = lambda i, to: good("-m", model(), *of(i, to), "-q", preexec_fn=umask)
        ask(0, path)
        same(mode(path), 0o640, name + ", a new file")
        for i, want in enumerate((0o600, 0o604, 0o644), 1):
            os.chmod(path, want)
            was = os.stat(path).st_ino
            os.path.lexists(link) and os.unlink(link)
            os.symlink(path, link)
            ask(i, link if want == 0o604 else path)
            check(os.stat(path).st_ino != was, name + ": not written anew")
            same(mode(path), want, "%s, %o" % (name, want))


@case
def prompt_cache_refused():
    """a cache file that cannot be written is reported before the answer"""
    m, p = model(), ["-m", model(), "--raw", "-p", "Once", "-n", "4"]
    refused(run(*p, "--prompt-cache", tmp("no/such/folder")), 2, "No such file", "a folder that is not there")
    refused(run(*p, "--prompt-cache", TMP), 2, "a directory", "a directory")
    refused(run(*p, "--prompt-cache", "/dev/null"), 2, "a device", "a device")
    refused(run(*p, "--prompt-cache", ""), 2, "no name", "no name")
    own = tmp("own.gguf")
    shutil.copy(m, own)
    refused(run("-m", own, "--raw", "-p", "Once", "-n", "4", "--prompt-cache", own), 2, "the model itself", "the model")
    kept = tmp("both.gguf")
    good("-m", m, "--raw", "-p", "Once upon a time there was a little girl", "-n", "40", "--prompt-cache", kept)
    with open(kept, "rb") as f:
        was = f.read()
    refused(run(*p, "--prompt-cache", kept, "-o", kept), 2, "the prompt cache itself", "one file for two")
    with open(tmp("both.txt"), "w") as f:
        f.write("Once\n")
    refused(run("-m", m, "--batch", tmp("both.txt"), "-n", "4", "--prompt-cache", kept, "-o", kept), 2, "prompt cache itself", "one file for a batch's two")
    with open(kept, "rb") as f:
        same(f.read(), was, "a file that was refused as output")
    refused(run("-m", m, "--score", "-p", "Once", "--prompt-cache", kept), 2, "--prompt-cache has no effect on --score", "--score")


@case
def stops_inside_characters():
    """--ids prints no token of a stop string, even where its character spans two tokens"""
    stories()
    wild = ("--logit-bias", "198+1000", "--logit-bias", "172+1000", "--temp", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--stop", "\u00e9")
    for seed in range(1, 13):
        args = ("-m", model(), "--raw", "-p", "Once", "-n", "12", *wild, "-s", str(seed), "-q")
        text, ids = good(*args), good(*args, "--ids").split()
        check(len(ids) == len(text), "seed %d: %r and %r" % (seed, text, ids))


@case
def outputs_are_kept():
    """a file named for the answer keeps its bytes until there is an answer, and is never the prompt or the model"""
    keep, m = tmp("keep"), model()
    for args, code in ((("-m", m, "-p", "hello there", "-c", "1"), 2), (("-m", "/nowhere.gguf", "-p", "x"), 2), (("-m", m, "--dump-tensor", "nope"), 2)):
        with open(keep, "w") as f:
            f.write("precious")
        r = run(*args, "-o", keep)
        check(r.rc == code and open(keep).read() == "precious", repr((args, r)))
    with open(keep, "w") as f:
        f.write("Once upon")
    r = run("-m", m, "-f", keep, "-o", keep, "-n", "3")
    check(r.rc == 2 and b"prompt itself" in r.err and open(keep).read() == "Once upon", repr(r))


@case
def two_at_once():
    """two processes on one model, each with two threads, give the same text as one"""
    args = ("-m", model(), "--raw", "-p", "Once", "-n", "150", *GREEDY, "-q", "-t", "2")
    want = good(*args)
    both = [start(*args), start(*args)]
    for p in both:
        r = finish(p, 60)
        check(r.rc == 0 and r.out == want, repr(r))


def sanitized():
    with open(BIN, "rb") as f:
        return b"__asan_init" in f.read() or b"__tsan_init" in f.read()


@case
def little_memory():
    """under any `ulimit -v`: the right text, or exit 3 and one line"""
    if sanitized():
        raise Skip("a sanitizer wants the address space for itself")
    want, short, served = good("-m", model(), "--raw", "-p", "Once", "-n", "20", *GREEDY, "-q"), 0, 0
    for mib in (6, 8, 10, 12, 16, 24, 32, 48, 64, 128, 256, 1024):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
        r = run("-m", MODEL, "--raw", "-p", "Once", "-n", "20", *GREEDY, "-q", "-t", "1", preexec_fn=limit)
        if r.rc == 127 or b"shared libraries" in r.err:
            continue                                  # the dynamic linker had no room
        if r.rc < 0 and mib << 20 < os.path.getsize(BIN):
            continue                                  # nor had the system, to map the program
        if r.rc == 0:
            served += 1
            same(r.out, want, "%d MiB" % mib)
        else:
            short += 1
            check(r.rc == 3 and one_line(r.err), "%d MiB: %r" % (mib, r))
    check(served > 0, "no limit was enough")


def kernel_has():
    """What of the sandbox this kernel has, and this build uses: words of its line of --version."""
    line = re.search(rb"(?m)^sandbox   (.*)$", good("--version")).group(1).decode()
    status = dict(x.split(":", 1) for x in open("/proc/self/status").read().splitlines() if ":" in x)
    if line.startswith("left out") or "Seccomp" not in status:
        raise Skip("no sandbox here: " + line)
    return line


def inside(*args):
    """What /proc says of a run that has printed its line of the sandbox and waits for standard input."""
    p = subprocess.Popen([BIN, *args, "-v"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV)
    try:
        for line in p.stderr:
            if b"sandbox  " in line:
                with open("/proc/%d/status" % p.pid) as f:
                    return dict(x.split(":\t", 1) for x in f.read().splitlines() if ":\t" in x)
        raise AssertionError("no line of the sandbox: %s" % (args,))
    finally:
        p.kill()
        p.communicate()


@case
def sandbox_line():
    """--version and -v say in one line what of the sandbox holds; --no-sandbox turns it off"""
    holds = kernel_has()
    check(re.fullmatch(r"(landlock \d+, )?seccomp|landlock \d+|none: .*", holds), holds)
    same(re.search(rb"(?m)^sandbox   .*$", good("--version", "--no-sandbox")).group(0), b"sandbox   off (--no-sandbox)", "--version")
    for more, said in ([], holds), (["--no-sandbox"], "off (--no-sandbox)"):
        r = run("-m", SMALL, "--raw", "-p", "x", "-n", "2", *GREEDY, "-v", *more)
        same(re.findall(r"sandbox .*", r.err.decode()), ["sandbox     " + said], "-v " + str(more))
        r = run("-m", SMALL, "--raw", "-p", "x", "-n", "2", *GREEDY, *more)
        check(r.rc == 0 and b"sandbox" not in r.err, repr(r))


@case
def sandbox_every_action():
    """every action enters the sandbox before it reads a file: a filter and no new privileges, unless --no-sandbox is given"""
    holds, own = kernel_has(), dict(x.split(":", 1) for x in open("/proc/self/status").read().splitlines() if ":" in x)
    waits = (["-m", SMALL, "--raw"], ["-m", SMALL, "--tokenize"], ["-m", SMALL, "--detokenize"], ["--render", "-m", SMALL],
             ["--match", "--regex", "x"], ["-m", SMALL, "--score"], ["-m", SMALL, "--perplexity"], ["-m", SMALL, "--embed"],
             ["-m", SMALL, "--logits", tmp("box.f32")], ["-m", SMALL, "--imatrix-out", tmp("box.gguf")],
             ["-m", SMALL, "--batch", "-"], ["-m", SMALL, "--embed", "--batch", "-"])
    for args in waits:
        status = inside(*args)
        if "seccomp" in holds:
            same(status["Seccomp"], "2", str(args))
        same(status["NoNewPrivs"], "0" if holds.startswith("none") else "1", str(args))
        status = inside(*args, "--no-sandbox")
        same((status["Seccomp"], status["NoNewPrivs"]), (own["Seccomp"].strip(), own["NoNewPrivs"].strip()), str(args))
    ends = (["-m", SMALL, "--inspect"], ["-m", SMALL, "--dump-tensor", "output_norm.weight", "-o", tmp("box.norm")],
            ["-m", SMALL, "--quantize", "Q8_0", "-o", tmp("box.q8")], ["--list", "archs"], ["--version"], ["--help"], ["-h"],
            ["-m", SMALL, "--bench", "-p", "4", "-n", "2", "-r", "1"], ["--merge", tmp("box.none")], ["--list-devices"],
            ["--show-statistics", "--in-file", tmp("box.none")], ["-m", SMALL, "--mask", "--regex", "x", "-p", "x"])
    for args in ends:
        r = run(*args, "-v")
        same(re.findall(r"sandbox     .*", r.err.decode()), ["sandbox     " + holds], "%s: %r" % (args, r))


@case
def sandbox_names():
    """links, folders, pipes by /dev/fd, files that are replaced: what the command line names is there, whatever leads to it"""
    kernel_has()
    box, far = folder("box"), folder("far")
    want = good("-m", SMALL, "--raw", "-p", "Once", "-n", "4", *GREEDY, "-q")
    os.symlink(SMALL, os.path.join(box, "model.gguf"))
    os.symlink("Once", os.path.join(box, "link"))
    with open(os.path.join(box, "Once"), "w") as f:
        f.write("Once")
    run_in = lambda *args: run(*args, "-n", "4", *GREEDY, "-q", "--raw", cwd=box)
    same(run_in("-m", "model.gguf", "-f", "link").out, want, "links")
    same(run_in("-m", "./model.gguf", "-f", os.path.join(box, "..", "box", "Once")).out, want, "paths")
    r = finish(begin(["sh", "-c", '"$0" -m "$1" --raw -f /dev/fd/7 -n 4 --temp 0 -q 7<"$2"', BIN, SMALL, os.path.join(box, "Once")]), 60)
    same(r.out, want, "/dev/fd of a file")
    r = finish(begin(["sh", "-c", 'printf Once | "$0" -m "$1" --raw -f /dev/stdin -n 4 --temp 0 -q -o /dev/stdout | cat', BIN, SMALL]), 60)
    same(r.out, want, "/dev/stdin and /dev/stdout")
    os.symlink(os.path.join(far, "out"), os.path.join(box, "out"))
    with open(os.path.join(far, "out"), "w") as f:
        f.write("old")
    same(run_in("-m", SMALL, "-p", "Once", "-o", "out").rc, 0, "-o to a link")
    with open(os.path.join(far, "out"), "rb") as f:
        same(f.read(), want, "-o to a link")
    for _ in range(2):
        kept = run_in("-m", SMALL, "-p", "Once upon a time", "--kv-block-size", "2", "--prompt-cache", "cache", "--lookup-cache", "words")
        same((kept.rc, kept.err), (0, b""), "caches")
    check({"cache", "words"} <= set(os.listdir(box)), str(os.listdir(box)))


@case
def sandbox_time():
    """the local time of a template has the zone that TZ names, by a rule or in a file anywhere"""
    kernel_has()
    zone, template = tmp("zone"), tmp("zone.jinja")
    with open(template, "w") as f:
        f.write("{{ strftime_now('%d %H') }}")
    with open(zone, "wb") as f:
        f.write(b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lBB", 9 * 3600, 0, 0) + b"QQQ\0")
    tokyo = [("Asia/Tokyo", 9)] if os.path.exists("/usr/share/zoneinfo/Asia/Tokyo") else []
    for tz, hours in [("RRR-3", 3), (":" + zone, 9), *tokyo]:
        then = lambda: time.strftime("%d %H", time.gmtime(time.time() + 3600 * hours)).encode()
        before = then()
        said = good("--render", "-m", SMALL, "--chat-template-file", template, "-f", "-", "-q",
                    inp=b'[{"role":"user","content":"a"}]', env={"TZ": tz})
        check(said.strip() in (before, then()), "TZ=%s: %r" % (tz, said))


@case
def sandbox_outputs():
    """-o -, -o /dev/null, and -o /dev/stdout where that is a file, also a removed one"""
    kernel_has()
    requests, here = tmp("outputs.jsonl"), folder("outputs")
    with open(requests, "w") as f:
        f.write('{"prompt":"Once","max_tokens":2}\n')
    for to in "-", "/dev/null":
        r = run("-m", SMALL, "--batch", requests, "-o", to, "-q", cwd=here)
        check(r.rc == 0 and bool(r.out) == (to == "-"), repr(r))
    for act in ["-p", "Once", "-n", "2", "--raw"], ["--batch", requests], ["--batch", requests, "--format", "csv"]:
        for removed in False, True:
            with open(tmp("stdout"), "w+b") as f:
                if removed:
                    os.unlink(tmp("stdout"))
                p = subprocess.run([BIN, "-m", SMALL, *act, "-o", "/dev/stdout", "-q"], stdin=subprocess.DEVNULL, stdout=f,
                                   stderr=subprocess.PIPE, env=ENV)
                f.seek(0)
                check(p.returncode == 0 and f.read(), "%s removed %s: %r" % (act, removed, p))
                same([n for n in os.listdir("/dev") if n.startswith("stdout.")], [], "files beside /dev/stdout")


@case
def libraries_from_elsewhere():
    """no library comes from the current folder, though LD_LIBRARY_PATH has an empty or relative one"""
    here = folder("libraries")
    for name in "libedit.so.2", "libedit.so.0", "libedit.so", "libopenblas.so.0", "libopenblas.so", "libcuda.so.1":
        open(os.path.join(here, name), "w").close()   # what finds one of these finds no library
    want = good("--version")
    for path in ":", ".", ":/nowhere", "/nowhere::/nowhere", "../libraries":
        same(run("--version", cwd=here, env={"LD_LIBRARY_PATH": path}).out, want, "LD_LIBRARY_PATH=" + path)


@case
def few_descriptors():
    """`ulimit -n 4` is enough for one model"""
    if sanitized():
        raise Skip("a sanitizer opens files of its own")
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
    r = run("-m", model(), "--raw", "-p", "Once", "-n", "5", *GREEDY, "-q", preexec_fn=limit, close_fds=True)
    check(r.rc == 0 or (r.rc in (2, 3) and one_line(r.err)), repr(r))
    want = good("-m", model(), "--raw", "-p", "Once", "-n", "5", *GREEDY, "-q")
    if "landlock" in good("--version").decode():
        r = run("-m", model(), "--raw", "-p", "Once", "-n", "5", *GREEDY, preexec_fn=limit, close_fds=True)
        check(b"Landlock is not used: Too many open files" in r.err, repr(r))
    for n in range(5, 16):                            # the sandbox needs some for a while, and does without
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
        r = run("-m", model(), "--raw", "-p", "Once", "-n", "5", *GREEDY, "-q", preexec_fn=limit, close_fds=True)
        same((r.rc, r.out, r.err), (0, want, b""), "%d descriptors" % n)


# --- quantising ---

def holding(directory):
    return sorted(os.listdir(directory))


TINY = os.path.join(HERE, "tests", "data", "tiny")


def folder(name):
    path = tmp(name)
    os.makedirs(path)
    return path


@case
def quantize_copy():
    """COPY reproduces every tiny model, the vocabularies and the story model byte for byte, also through a link"""
    where = folder("copy")
    out = os.path.join(where, "out.gguf")
    files = [os.path.join(TINY, f) for f in sorted(os.listdir(TINY)) if f.endswith(".gguf")] + vocabs() + [model()]
    for path in files:
        r = run("--quantize", "COPY", "-m", path, "-o", out)
        check(r.rc == 0 and not r.out and one_line(r.err), "%s: %r" % (path, r))
        with open(path, "rb") as a, open(out, "rb") as b:
            check(a.read() == b.read(), path + " is not the same")
    os.symlink("out.gguf", os.path.join(where, "link"))
    good("--quantize", "copy", "-m", MODEL, "-o", os.path.join(where, "link"), "-q")
    check(os.path.islink(os.path.join(where, "link")), "the link is gone")
    same(holding(where), ["link", "out.gguf"], "left behind")


@case
def quantize_runs():
    """quantised files run: F32 gives the same story, every other type gives a text, sizes shrink with the bits"""
    out, sizes = tmp("q.gguf"), []
    want = good("-m", model(), "--raw", "-p", "", "-n", "200", *GREEDY)
    for kind in "F32", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0":
        r = run("--quantize", kind, "-m", MODEL, "-o", out)
        check(r.rc == 0 and not r.out and r.err.count(b"\n") <= 2, repr(r))
        got = good("-m", out, "--raw", "-p", "", "-n", "200" if kind == "F32" else "8", *GREEDY)
        check(got and (kind != "F32" or got == want), kind + " tells another story")
        sizes.append(os.path.getsize(out))
    check(sizes == sorted(sizes, reverse=True), "sizes: %r" % sizes)
    for level, threads in ("scalar", "1"), (levels(BIN)[-1], "3"):
        good("--quantize", "Q4_0", "-m", MODEL, "-o", tmp("q2.gguf"), "-q", "--cpu", level, "-t", threads)
        with open(out, "rb") as a, open(tmp("q2.gguf"), "rb") as b:
            check(a.read() == b.read(), "%s, %s threads: another file" % (level, threads))
    again = run("--quantize", "F16", "-m", out, "-o", tmp("q2.gguf"))
    refused(again, 2, "_0 already, expected a float type (--allow-requantize", "again")
    good("--quantize", "F16", "-m", out, "-o", tmp("q2.gguf"), "--allow-requantize")


@case
def quantize_split():
    """a model in parts becomes one file, without the keys of parts"""
    names = [tmp("part-%05d-of-00002.gguf" % (i + 1)) for i in range(2)]
    text = lambda t: struct.pack("<Q", len(t)) + t
    for no, name in enumerate(names):
        kv = [text(b"general.name") + struct.pack("<I", 8) + text(b"whole")] if no == 0 else []
        kv += [text(k) + struct.pack("<IH", 2, v) for k, v in ((b"split.no", no), (b"split.count", 2), (b"split.tensors.count", 2))]
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(kv)) + b"".join(kv) + text(b"t%d.weight" % no) + struct.pack("<IQQIQ", 2, 32, 2, 0, 0)
        with open(name, "wb") as f:
            f.write(head + b"\0" * (-len(head) % 32) + struct.pack("<64f", *range(no, 64 + no)))
    good("--quantize", "COPY", "-m", names[0], "-o", tmp("whole.gguf"))
    data = open(tmp("whole.gguf"), "rb").read()
    check(b"split." not in data and b"general.name" in data and data.endswith(struct.pack("<64f", *range(1, 65))), "not whole")
    same(good("--dump-tensor", "t0.weight", "-m", tmp("whole.gguf")), struct.pack("<64f", *range(64)), "t0")
    good("--quantize", "Q8_0", "-m", names[0], "-o", tmp("whole.gguf"))
    check(b'"type":"q8_0","shape":[32,2]' in run("--inspect", "--json", "-m", tmp("whole.gguf")).out, "no q8_0")


@case
def quantize_dry_run():
    """--dry-run prints the new type of each tensor and writes nothing; --list quants lists the file types"""
    stories()
    out = tmp("dry.gguf")
    r = run("--quantize", "Q4_K_M", "-m", model(), "-o", out, "--dry-run", "--tensor-type", "attn_q=q8_0", "--tensor-type=attn_k=f16")
    lines = r.out.decode().splitlines()
    check(r.rc == 0 and not os.path.exists(out) and len(lines) == 50, repr(r))
    row = {line.split()[0]: line for line in lines[1:-1]}
    for name, to in ("blk.0.attn_q.weight", "q8_0"), ("blk.4.attn_k.weight", "f16"), ("blk.1.attn_norm.weight", "f32"), ("output.weight", "q8_0"):
        check(re.search(r" f32 +%s " % to, row[name]), row[name])
    check("fallback" in row["blk.0.ffn_down.weight"] and "48 tensors" in lines[-1] and b"36 of 48" not in r.err, repr(r))
    names = [line.split()[0] for line in good("--list", "quants").decode().splitlines()]
    for name in ("Q4_K_M", "IQ2_XXS", "MXFP4_MOE", "COPY", "F32"):
        check(name in names, name + " is not listed")
    for name in names:
        good("--quantize", name.lower(), "-m", MODEL, "--dry-run", "-q")


@case
def quantize_refused():
    """wrong requests: one line, the exit code, no new file, and an old file is unchanged"""
    where = folder("refused")
    out = os.path.join(where, "out.gguf")
    for args, code, word in (
        (["--quantize", "Q4_K_M", "-m", model()], 2, "expected -o FILE"),
        (["--quantize", "Q4_K_M", "-m", MODEL, "-o", "-"], 2, "expected -o FILE"),
        (["--quantize", "Q4_K_XXL", "-m", MODEL, "-o", out], 2, "unknown type 'Q4_K_XXL' (--list quants)"),
        (["--quantize", "Q4KM", "-m", MODEL, "-o", out], 2, "unknown type 'Q4KM' (did you mean Q4_K_M?)"),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", out, "--tensor-type", "zebra=q4_0"], 2, "'zebra=q4_0' matches no tensor of "),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", out, "--tensor-type", "attn_norm=q4_0"], 2, "'attn_norm=q4_0' has no effect: "),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", out, "--tensor-type", "attn=q4_0", "--tensor-type", "attn_q=q8_0"], 2, "'attn_q=q8_0' has no effect: "),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", out, "--tensor-type", "token_embd=q4_0", "--token-embedding-type", "q8_0"], 2, "'token_embd=q4_0' has no effect: "),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", MODEL], 2, "is the model itself"),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", where], 2, "is a directory, expected a file"),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", "/dev/null"], 2, "is a device, expected a file"),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", os.path.join(where, "none", "x")], 2, "cannot create: No such file"),
        (["--quantize", "Q8_0", "-m", MODEL, "-o", out, "--tensor-type", "x"], 2, "expected PATTERN=TYPE"),
        (["--quantize", "Q8_0", "--inspect", "-m", MODEL], 2, "two actions"),
        (["--quantize", "Q8_0", "-m", "/nonexistent", "-o", out], 2, "/nonexistent"),
    ):
        refused(run("-q", *args), code, word, " ".join(args))
        same(holding(where), [], "left behind by " + " ".join(args))
    nan = tmp("nan.gguf")
    data = bytearray(open(MODEL, "rb").read())
    t = inspect(MODEL)["tensors"][-1] if MODEL == STORIES else next(t for t in inspect(MODEL)["tensors"] if t["name"] == "blk.2.ffn_up.weight")
    last = slice(t["offset"] + t["bytes"] - 4, t["offset"] + t["bytes"])
    data[last] = struct.pack("<f", float("nan"))
    open(nan, "wb").write(data)
    refused(run("-q", "--quantize", "F16", "-m", nan, "-o", out), 2, "holds nan in row", "NaN")
    same(holding(where), [], "left behind by NaN")
    data[last] = struct.pack("<f", 1e30)
    open(nan, "wb").write(data)
    for kind in "F16", "Q8_0", "Q4_0":
        refused(run("-q", "--quantize", kind, "--pure", "-m", nan, "-o", out), 2, "holds 1e+30 in row", "huge")
    same(holding(where), [], "left behind by a huge weight")
    text = calibration()
    for option in "--calibrate", "--imatrix":
        refused(run("-q", "--quantize", "Q4_0", "-m", MODEL, "-o", text, option, text), 2, "itself, expected another file", "over what " + option + " reads")
    check(os.path.getsize(text) > 1000, "the text is gone")
    r = run("-q", "--quantize", "Q4_0", "-m", MODEL, "-o", os.path.join(where, "none", "x"), "--calibrate", text, "-c", "128")
    refused(r, 2, "cannot create", "a name that cannot be written")


@case
def quantize_full_disk():
    """a full disk: exit 3, one line, no file is left, the old file is unchanged"""
    where = folder("full")
    out = os.path.join(where, "out.gguf")
    open(out, "wb").write(b"old")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
    for kind in "COPY", "F16":
        refused(run("-q", "--quantize", kind, "-m", model(), "-o", out, preexec_fn=limit), 3, "out.gguf: cannot write: File too large", kind)
        same((holding(where), open(out, "rb").read()), (["out.gguf"], b"old"), "after " + kind)
    path, made = large("full_large.gguf"), tmp("full_made.gguf")           # the one tensor, in many slices
    for threads in "1", "2":
        check(run("-q", "--quantize", "Q8_0", "-m", path, "-o", made, "-t", threads).rc == 0, "with space")
        size = os.path.getsize(made)
        for most in size // 2, size - 100, size - 1:
            limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            r = run("-q", "--quantize", "Q8_0", "-m", path, "-o", out, "-t", threads, preexec_fn=limit)
            refused(r, 3, "out.gguf: cannot write: File too large", "%d of %d bytes" % (most, size))
            same((holding(where), open(out, "rb").read()), (["out.gguf"], b"old"), "after %d of %d bytes" % (most, size))
    os.unlink(path), os.unlink(made)


def large(name, rows=40000):
    """A model file of one f16 tensor, 256 x rows, of small positive numbers."""
    path, dims = tmp(name), (256, rows)
    text = lambda t: struct.pack("<Q", len(t)) + t
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    head += text(b"t.weight") + struct.pack("<IQQIQ", 2, *dims, 1, 0)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + os.urandom(dims[0] * dims[1] * 2).translate(bytes(i % 60 for i in range(256))))
    return path


@case
def quantize_interrupted():
    """SIGINT, SIGTERM, twice SIGTERM, a model file that shrinks: the exit code, one line, no file is left"""
    where, path = folder("stopped"), large("large%s.gguf" % os.fsdecode(ACTS_BYTES))
    out = os.path.join(where, "out.gguf")
    for signals, code in ((signal.SIGINT,), 130), ((signal.SIGTERM,), 143), ((signal.SIGTERM, signal.SIGTERM), 143), ((), 3):
        p = start("--quantize", "Q2_K", "-m", path, "-o", out, "-t", "1")
        end = time.time() + 20 * SLOW
        while not holding(where) and p.poll() is None and time.time() < end:
            time.sleep(0.01)
        same((len(holding(where)), p.poll()), (1, None), "files and end while it runs")
        for s in signals:
            p.send_signal(s)
        if not signals:
            os.truncate(path, 4096)
        r = finish(p)
        same(r.rc, code, "exit after %r: %r" % (signals, r))
        check(r.err.count(b"\n") <= 1 and (len(signals) > 1 or one_line(r.err)) and acting(r.err) == [], repr(r))
        check(signals or visible(path) in r.err.decode(), "the file that shrank: %r" % r)
        same(holding(where), [], "left behind")


def calibration():
    """A text that the model writes."""
    path = tmp("calib.txt")
    if not os.path.exists(path):
        with open(path, "wb") as f:
            for seed in range(4):
                f.write(good("-m", model(), "--raw", "-p", "", "-n", "400", "-s", str(seed), "-q", "-t", "1") + b"\n")
    return path


@case
def imatrix_out():
    """an importance matrix does not depend on threads or batches, and its sums are right"""
    m, text, a, b = model(), calibration(), tmp("a.im"), tmp("b.im")
    n = b"%d tensors" % (7 * inspect(m)["hyperparameters"]["block_count"])
    r = run("-m", m, "-f", text, "--imatrix-out", a, "-c", "128", "-t", "1")
    check(r.rc == 0 and r.out == b"" and n in r.err, repr(r))
    good("-m", m, "-f", text, "--imatrix-out", b, "-c", "128", "-t", "3", "-b", "50", "-q")
    same(open(a, "rb").read() == open(b, "rb").read(), True, "equal files")
    r = run("-m", m, "-p", "", "--in-file", a, "--in-file", a, "--imatrix-out", b, "-c", "128")
    check(r.rc == 0 and n in r.err, repr(r))
    one = array.array("f", good("-m", a, "--dump-tensor", "blk.0.attn_q.weight.counts"))[0]
    two = array.array("f", good("-m", b, "--dump-tensor", "blk.0.attn_q.weight.counts"))[0]
    same(two, 2 * one, "counts of a matrix added to itself")
    good("-m", m, "-p", "", "--in-file", a, "--in-file", a, "--imatrix-out", b, "-q")
    check(b" chunks of 128 tokens" in good("--show-statistics", "--in-file", b), "the chunks of the files that were added")


@case
def imatrix_of_stacks():
    """a file of the older form has one count for a stack of experts; it is added to others in any order"""
    stack = os.path.join(HERE, "tests", "data", "tiny", "qwen3moe.gguf")
    text, new, old, made = calibration(), tmp("stack.im"), tmp("stack.dat"), [tmp("stack%d.im" % i) for i in range(2)]
    good("-m", stack, "-f", text, "--imatrix-out", new, "-c", "64", "--chunks", "2", "-q")
    name = b"blk.0.ffn_down_exps.weight"
    n = len(good("-m", new, "--dump-tensor", name.decode() + ".in_sum2")) // 4
    with open(old, "wb") as f:
        f.write(struct.pack("<ii", 1, len(name)) + name + struct.pack("<ii", 1, n) + array.array("f", [1.0] * n).tobytes() + struct.pack("<ii", 1, 1) + b"b")
    for i, files in enumerate(((new, old), (old, new))):
        good("-m", stack, "-p", "", *(x for f in files for x in ("--in-file", f)), "--imatrix-out", made[i], "-q")
    sums = [good("-m", x, "--dump-tensor", name.decode() + part) for x in made for part in (".in_sum2", ".counts")]
    same(sums[:2], sums[2:], "sums and counts in either order")


@case
def draft_head_tools():
    """a draft head in --imatrix-out, whose sums are those of normed inputs, in --calibrate, which says that it leaves it, and in --inspect"""
    for name in "qwen35_mtp", "qwen35moe_mtp":
        m, text, a, b, out = os.path.join(HERE, "tests", "data", "tiny", name + ".gguf"), calibration(), tmp("head.im"), tmp("head2.im"), tmp("head.gguf")
        head, floats = "blk.2.nextn.eh_proj.weight", lambda *args: array.array("f", good(*args))
        good("-m", m, "-f", text, "--imatrix-out", a, "-c", "64", "--chunks", "3", "-q")
        good("-m", m, "-f", text, "--imatrix-out", b, "-c", "64", "--chunks", "3", "-q", "-b", "10", "-t", "3")
        same(open(a, "rb").read() == open(b, "rb").read(), True, "equal files for steps of 64 and of 10 rows")
        sums, n = floats("-m", a, "--dump-tensor", head + ".in_sum2"), floats("-m", a, "--dump-tensor", head + ".counts")[0]
        same((len(sums), n), (64, 3 * 64), "channels and rows of " + head)
        for half, norm, rows in (0, "enorm", n), (1, "hnorm", n - 3):               # the first row of a text has no state before it
            gain = floats("-m", m, "--dump-tensor", "blk.2.nextn.%s.weight" % norm)
            mean = sum(x / g / g for x, g in zip(sums[32 * half:], gain)) / 32 / rows
            check(0.9 < mean <= 1, "%s: a mean square of %g, expected 1 but for the epsilon" % (norm, mean))
        r = run("-m", m, "--quantize", "Q8_0", "--calibrate", text, "-c", "64", "--chunks", "1", "-o", out)
        check(r.rc == 0 and b"matrices of the draft head are rounded plainly" in r.err, repr(r))
        same(good("-m", out, "--inspect").decode().count("draft head       layer 2 (NextN)"), 1, "the head in --inspect")
        plain = tmp("plain.gguf")
        good("-m", m, "--quantize", "Q8_0", "-o", plain, "-q")
        for t in "eh_proj", "enorm":
            same(*(good("-m", x, "--dump-tensor", "blk.2.nextn.%s.weight" % t) for x in (out, plain)), t + " with --calibrate and without")
        args = ("--raw", "-p", "Once", "-n", "30", "--temp", "0", "--ids", "-q")
        same(good("-m", out, *args), good("-m", out, *args, "--no-head"), "the text with a quantised head and without it")


@case
def output_matrix_of_tied_embeddings():
    """--output-tensor-type and --leave-output-tensor count for embeddings that are the output matrix too, in a mixture and without one"""
    f16, out = os.path.join(HERE, "models", "pip-f16.gguf"), tmp("tied.gguf")
    for quant, more, want in (("Q4_K_M", ("--output-tensor-type", "q8_0"), "q8_0"), ("Q4_K_M", ("--output-tensor-type", "q8_0", "--pure"), "q8_0"), ("Q4_K_M", ("--leave-output-tensor",), "f16"),
                              ("Q4_K_M", ("--output-tensor-type", "q8_0", "--token-embedding-type", "q5_K"), "q5_K"), ("COPY", ("--output-tensor-type", "q8_0"), "q8_0")):
        table = good("-m", f16, "--quantize", quant, *more, "-o", out, "--dry-run").decode()
        line = next(x for x in table.splitlines() if "token_embd.weight" in x)
        same(line.split()[5], want, "%s %s" % (quant, " ".join(more)))


def record(line, text="t", custom_id=None):
    """A line of batch results as llmrun writes it."""
    return json.dumps({"id": "batch_req_%d_%016x" % (line, line * 0x9e3779b97f4a7c15 % 2 ** 64), "custom_id": custom_id,
                       "response": {"status_code": 200, "request_id": "req_%d" % line, "body": {"text": text}}, "error": None},
                      separators=(",", ":")).encode() + b"\n"


@case
def merge():
    """--merge puts results of several files back into the order of the input, each line once, and says what is missing; needs no model"""
    lines = [record(i, "text %d \u20ac" % i, "id-%d" % i if i % 3 else None) for i in range(1, 101)]
    names = [tmp("part%d.jsonl" % i) for i in range(3)]
    for i, name in enumerate(names):
        open(name, "wb").write(b"".join(sorted(lines[i::3])))
    r = run("--merge", *names)
    same((r.rc, r.out, r.err), (0, b"".join(lines), b""), "three parts")
    out = tmp("all.jsonl")
    same(good("--merge", names[2], "-o", out, names[0], names[1], names[0]), b"", "-o between the files, one of them twice")
    same(open(out, "rb").read(), b"".join(lines), "the same")
    same(good("--merge=" + names[1], "--merge", names[0], "--merge", names[2]), b"".join(lines), "an option for each")
    r = run("--merge", *names[:2])
    same((r.rc, r.out), (0, b"".join(line for i, line in enumerate(lines) if i % 3 < 2)), "two parts")
    check(one_line(r.err) and b"33 of the lines 1 to 100 have no result" in r.err, r.err)
    same(run("--merge", *names[:2], "-q").err, b"", "-q")
    odd = tmp("odd.jsonl")
    open(odd, "wb").write(record(5, "text 5 \u20ac", "id-5") + record(6)[:-20])
    r = run("--merge", *names, odd)
    same((r.rc, r.out), (0, b"".join(lines)), "an equal result of a line is merged, a torn last one is left out")
    check(b"last line is incomplete" in r.err and r.err.count(b"\n") == 1, r.err)
    open(odd, "wb").write(record(4, "other"))
    refused(run("--merge", *names, odd), 2, "two records of line 4 have different answers", "two answers of one line")
    refused(run("--merge"), 2, "expected FILE", "no file")
    refused(run("--merge", tmp("absent.jsonl")), 2, "No such file", "absent")
    refused(run("--merge", TMP), 2, "is a directory", "a folder")
    refused(run("--merge", "-", inp=lines[0]), 2, "no regular file", "a pipe")
    refused(run(names[0], "--merge", names[1]), 2, "unexpected argument", "a file before the option")
    refused(run("--merge", names[0], "--bench"), 2, "two actions", "two actions")
    refused(run("--merge", names[0], "--format", "md"), 2, "no form md", "a form")
    refused(run("--merge", names[0], "-o", names[0]), 2, "input itself", "over itself")
    same(open(names[0], "rb").read(), b"".join(sorted(lines[0::3])), "the input is as it was")
    open(odd, "wb").write(lines[0] + b'{"id": "batch_7"}\n')
    refused(run("--merge", odd, "-o", out), 2, "byte %d: line 2 is no record" % len(lines[0]), "a line of something else")
    same(open(out, "rb").read(), b"".join(lines), "the output keeps its bytes until there are others")
    check(run("--merge", *names, "-o", "/dev/full").rc == 3, "a full disk")
    p = start("--merge", *names * 200)
    p.stdout.close()
    p.stdout = None
    r = finish(p)
    same((r.rc, r.err), (0, b""), "a reader who left")


@case
def statistics():
    """--show-statistics prints one importance matrix in three forms, and needs no model"""
    gold = os.path.join(HERE, "tests", "data", "golden")
    for name, n, layers in ("imatrix_llama.gguf", 15, 2), ("imatrix_llama.dat", 15, 2), ("imatrix_llama_moe.gguf", 16, 2):
        ask = ("--show-statistics", "--in-file", os.path.join(gold, name))
        text, rows = good(*ask).decode(), list(csv.DictReader(good(*ask, "--format", "csv").decode().splitlines()))
        data = json.loads(good(*ask, "--json"))
        same(text.count("\n"), n + layers + 5, "lines of " + name)
        same((len(rows), len(data["tensors"]), len(data["layers"])), (n, n, layers), "rows of " + name)
        same((data["datasets"], data["chunks"]), (["imatrix.txt"], 12), "where it is from")
        for a, b, line in zip(rows, data["tensors"], text.splitlines()[3:]):
            same({k: v if k == "name" else float(v) for k, v in a.items()}, b, "a row of CSV and JSON")
            check("%.2f" % b["sum"] in line.split() and "%.4f" % b["cosine"] in line.split(), line)
    refused(run("--show-statistics"), 2, "expected one", "no matrix")
    refused(run(*ask, "--in-file", ask[2]), 2, "expected one", "two matrices")
    refused(run("--show-statistics", "--in-file", model()), 2, "importance matrix" if MODEL == STORIES else "expected imatrix", "a model")
    copy = tmp("copy.im")
    shutil.copy(ask[2], copy)
    refused(run("--show-statistics", "--in-file", copy, "-o", copy), 2, "matrix itself", "over itself")
    same(open(copy, "rb").read() == open(ask[2], "rb").read(), True, "the matrix is as it was")
    good(*ask, "-o", tmp("stats.txt"))
    same(open(tmp("stats.txt")).read(), text, "-o")


@case
def imatrix_refused():
    """files that are no importance matrix, and runs that cannot make one, are refused with one line"""
    m, text, bad = model(), calibration(), tmp("bad.im")
    refused(run("-m", m, "-p", "Too short.", "--imatrix-out", bad, "-q"), 2, "chunk", "a short text")
    refused(run("-m", m, "-f", text, "--imatrix-out", bad, "--chunks", "0", "-q"), 2, "--chunks", "no chunks")
    refused(run("-m", m, "-f", text, "--imatrix-out", m, "-c", "64", "-q"), 2, "model itself", "over the model")
    refused(run("-m", m, "-f", text, "--imatrix-out", text, "-c", "64", "-q"), 2, "prompt itself", "over the text")
    for name in "-", "":
        refused(run("-m", m, "-f", text, "--imatrix-out", name, "-c", "64", "-q"), 2, "expected a file to write", repr(name))
    refused(run("-m", m, "-f", text, "--imatrix-out", bad, "--in-file", "/nonexistent", "-q"), 2, "/nonexistent", "nothing to add")
    for name, words in (tmp("none/bad.im"), "cannot create"), (tmp("dangling"), "link to nothing"):
        if words != "cannot create":
            os.symlink(bad, name)
        refused(run("-m", m, "-p", "Too short.", "--imatrix-out", name, "-q"), 2, words, "a name that cannot be written is told before the run")
    check(not os.path.exists(bad), "a refused run leaves a file")
    for data in (b"", b"GGUF", b"\1\0\0\0\2", struct.pack("<4i", 1, 1, 65, 0) + b"\0" * 8):
        open(bad, "wb").write(data)
        refused(run("-m", m, "--quantize", "Q4_0", "--imatrix", bad, "-o", tmp("refused.gguf"), "-q"), 2, bad, "a bad matrix")
    refused(run("-m", m, "--quantize", "Q4_0", "--imatrix", m, "-o", tmp("refused.gguf"), "-q"), 2, m, "a model for a matrix")
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    for begins in b"", b"GGUF\3\0\0\0":
        with open(bad, "wb") as f:
            f.write(begins)
            f.truncate((4 << 30) + 1)
        for args in ("--quantize", "Q4_0", "--imatrix", bad, "-o", tmp("refused.gguf")), ("-f", text, "--imatrix-out", tmp("more.im"), "--in-file", bad):
            r = run("-m", m, *args, "-q", **({} if sanitized() else {"preexec_fn": limit}))
            refused(r, 2, bad + ": more than 4294967296 bytes, expected an importance matrix", "a file of 4 GiB")
    os.unlink(bad)
    check(not os.path.exists(tmp("refused.gguf")), "a refused run leaves a file")


def floats(*args):
    return array.array("f", good(*args))


@case
def calibrate_memory():
    """a text that needs too much memory is refused before the run, with the number of chunks that fit"""
    if sanitized():
        raise Skip("a sanitizer wants the address space for itself")
    out, long = tmp("small.gguf"), tmp("long.txt")
    open(long, "wb").write(open(calibration(), "rb").read() * 16)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (90 << 20, 90 << 20))
    ask = ("-m", model(), "--quantize", "Q4_0", "--pure", "-q", "-o", out, "--calibrate", long, "-c", "128", "-t", "1")
    r = run(*ask, preexec_fn=limit)
    refused(r, 3, "are free, expected at most --chunks ", "a text too long for the memory")
    check(not os.path.exists(out), "a refused run leaves a file")
    good(*ask, "--chunks", r.err.split()[-1].decode(), preexec_fn=limit)


@case
def quantize_calibrated():
    """--calibrate gives the same file for any threads, of the same size, nearer to the model than plain rounding"""
    stories()
    m, text = model(), calibration()
    plain, weighed, one, two = tmp("plain.gguf"), tmp("weighed.gguf"), tmp("one.gguf"), tmp("two.gguf")
    quant = ("-m", m, "--quantize", "Q4_0", "--pure", "-q", "-o")
    good(*quant, plain)
    good("-m", m, "-f", text, "--imatrix-out", tmp("w.im"), "-c", "128", "-q")
    good(*quant, weighed, "--imatrix", tmp("w.im"))
    good(*quant, one, "--calibrate", text, "-c", "128", "-t", "1")
    good(*quant, two, "--calibrate", text, "-c", "128", "-t", "3")
    same(open(one, "rb").read() == open(two, "rb").read(), True, "equal files")
    same(os.path.getsize(one), os.path.getsize(plain), "size")
    ask = ("-p", "Once upon a time, there was a little girl named Lily. She loved to play outside in the park with her dog.", "--logits", "-", "-q")
    want = floats("-m", m, *ask)
    far = lambda f: sum((a - b) ** 2 for a, b in zip(want, floats("-m", f, *ask)))
    p, w, c = far(plain), far(weighed), far(one)
    check(c < 0.8 * min(p, w), "squared distance of the logits: plain %g, weighed %g, calibrated %g" % (p, w, c))
    good(*quant, two, "--calibrate", text, "-c", "50", "--chunks", "9")
    refused(run(*quant, tmp("no.gguf"), "--calibrate", tmp("none.txt")), 2, "none.txt", "no text")
    open(tmp("short.txt"), "w").write("A short text.")
    refused(run(*quant, tmp("no.gguf"), "--calibrate", tmp("short.txt")), 2, "of one chunk", "a short text")
    data = bytearray(open(m, "rb").read())
    at = next(t["offset"] for t in json.loads(good("-m", m, "--inspect", "--json"))["tensors"] if t["name"] == "blk.2.ffn_up.weight")
    data[at + 4000:at + 4004] = struct.pack("<f", math.nan)
    open(tmp("nan.gguf"), "wb").write(data)
    refused(run("-m", tmp("nan.gguf"), *quant[2:], tmp("no.gguf"), "--calibrate", text, "-c", "128"), 2, "weights of tensor blk.2.ffn_up.weight", "a NaN")
    data[at + 4000:at + 4004] = struct.pack("<f", 1e30)
    open(tmp("nan.gguf"), "wb").write(data)
    refused(run("-m", tmp("nan.gguf"), *quant[2:], tmp("no.gguf"), "--calibrate", text, "-c", "128"), 2, "too large for q4_0", "a huge weight")
    check(not os.path.exists(tmp("no.gguf")), "a refused run leaves a file")
    aside = made("aside.gguf", lambda f, h: f.add("blk.0.attn_rot_embd.weight", [32, 2, 2, 2], h.T_F32, struct.pack("<256f", *range(256))))
    args = ("-m", aside, "--quantize", "Q8_0", "--pure", "-q", "-o")
    good(*args, one)
    good(*args, two, "--calibrate", text, "-c", "64")
    same(*(good("-m", x, "--dump-tensor", "blk.0.attn_rot_embd.weight") for x in (two, one)), "a tensor that no step reads")


# --- --bench: timings are whatever they are, everything around them is not ---

BENCH_KEYS = ("build_commit build_number cpu_info gpu_info backends model_filename model_type model_size model_n_params n_batch n_ubatch "
              "n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers n_cpu_moe split_mode main_gpu no_kv_offload flash_attn devices "
              "tensor_split tensor_buft_overrides load_mode embeddings no_op_offload no_host fit_target fit_min_ctx n_prompt n_gen n_depth "
              "test_time avg_ns stddev_ns avg_ts stddev_ts").split()      # those of llama-bench, in its order
BENCH_OWN = ("cpu_level n_parallel ttft_ms read_gbs sweep_gbs read_share int8_gops int8_peak_gops float_gops float_peak_gops bf16_gops "
             "bf16_peak_gops peak_share peak_rss others_share repack n_draft acceptance draft_model tokens_per_step speedup").split()
GUESSER = os.path.join(HERE, "tests", "data", "tiny", "llama_f16.gguf")
PIP_DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
QUICK = ("--bench", "-m", SMALL, "-p", "8", "-n", "4", "-r", "1")


@case
def bench_table():
    """--bench prints llama-bench's columns and further ones, a column for each varied setting, a row for each test; -v prints times of stages, -q nothing"""
    r = run(*QUICK, "-pg", "4,2", "-d", "0,5", "-npl", "1,3", "-ctk", "q8_0", "-t", "2", "-v")
    check(r.rc == 0, repr(r))
    lines = r.out.decode().splitlines()
    table = [[c.strip() for c in x.strip("|").split("|")] for x in lines if x.startswith("|")]
    same(table[0], ["model", "size", "params", "backend", "threads", "type_k", "test", "t/s", "ttft ms", "read GB/s", "sweep GB/s", "of sweep",
                    "Gop/s", "of peak", "peak MiB"], "columns")
    want = [x + at for at in ("", " @ d5") for x in ("pp8", "tg4", "tg4 x3", "pp4+tg2", "pp4+tg2 x3")]
    same([row[6] for row in table[2:]], want, "tests")
    check(all(len(row) == 15 and row[4:6] == ["2", "q8_0"] and re.fullmatch(r"\d+\.\d\d \u00b1 0\.00", row[7]) for row in table[2:]), repr(table[2:]))
    check(all(x == "-" * (len(x) - 1) + ":" or set(x) == {"-"} for x in table[1]), repr(table[1]))
    check(lines[-1].startswith("build: llmrun "), lines[-1])
    for word in b"attention", b"ffn", b"waiting", b"sampling":
        check(r.err.count(word) == 10, "%d times %r in %r" % (r.err.count(word), word, r.err[:300]))
    r = run(*QUICK, "-n", "0", "-q")
    check(r.rc == 0 and r.err == b"" and b"pp8" in r.out and b"type_k" not in r.out, repr(r))


@case
def bench_guesses():
    """decode tests with guesses follow those without: further columns, tokens a step by the acceptance rate, -v with the draft's stages"""
    args = (*QUICK[:3], "-p", "0", "-n", "12", "-r", "1", "--draft-max", "0,1,4", "--acceptance", "0,100", "-npl", "3,1")
    r = run(*args, "-md", GUESSER, "-v")
    check(r.rc == 0, repr(r))
    table = [[c.strip() for c in x.strip("|").split("|")] for x in r.out.decode().splitlines() if x.startswith("|")]
    same(table[0][5:9], ["test", "t/s", "speedup", "tok/step"], "columns")
    same([(row[5], row[8]) for row in table[2:]],
         [("tg12 x3", "1.00"), ("tg12", "1.00"), ("tg12 k1 a0", "1.00"), ("tg12 k1 a100", "2.00"), ("tg12 k4 a0", "1.00"), ("tg12 k4 a100", "4.00")], "tests")
    check(table[2][7] == table[3][7] == "1.00" and all(float(row[7]) > 0 for row in table[4:]), repr(table))
    same(re.findall(r"tg12 (k\d a\d+): (\d+) steps of the draft", r.err.decode()),
         [("k1 a0", "11"), ("k1 a100", "6"), ("k4 a0", "38"), ("k4 a100", "9")], "steps of the draft")
    for more, draft in ((), ""), (("-md", GUESSER), GUESSER):
        found = json.loads(good(*args, *more, "-d", "5", "-t", "1,2", "-ctk", "q8_0", "-q", "-o", "json"))
        same(len(found), 12, "rows")
        for x in found:
            k, a = x["n_draft"], x["acceptance"]
            check((k, a) in ((0, 0.0), (1, 0.0), (1, 1.0), (4, 0.0), (4, 1.0)), repr(x))
            same((x["draft_model"], x["tokens_per_step"], x["n_gen"], x["n_depth"]), (draft if k else "", 4.0 if k == 4 and a else 1.0 + a, 12, 5),
                 "k %d" % k)
            check(x["speedup"] > 0 and (k and x["n_parallel"] == 1 or x["speedup"] == 1), repr(x))
            check(abs(x["samples_ts"][0] - 12e9 * x["n_parallel"] / x["samples_ns"][0]) < 1e-4 * x["samples_ts"][0], repr(x))
        at = lambda r, k, a: next(x for x in r if (x["n_draft"], x["acceptance"]) == (k, a))
        byte = lambda x: x["read_gbs"] * x["avg_ns"]      # what the steps read: their number decides
        check(3 < byte(at(found, 4, 0.0)) / byte(at(found, 4, 1.0)), "steps that are read")


@case
def bench_forms():
    """JSON, JSONL and CSV hold the keys of llama-bench in its order, then further ones, with the right values; lists multiply; -o FILE"""
    import csv
    args = ("--bench", "-m", SMALL, "-m", SMALL, "-p", "8", "-n", "2", "-npl", "2", "-t", "1,2", "-ub", "4", "-r", "2", "-q")
    path = tmp("bench.csv")
    same(good(*args, "-o", path, "--format", "csv"), b"", "stdout with -o FILE")
    with open(path, newline="") as f:
        head, *rows = list(csv.reader(f))
    same(head, BENCH_KEYS + BENCH_OWN, "keys of CSV")
    same([len(row) for row in rows], [len(head)] * 8, "values in a row")
    check(all(line.startswith('"') and line.endswith('"') for line in open(path).read().splitlines()[1:]), "values without quotes")
    same([(row[head.index("n_threads")], row[head.index("n_prompt")]) for row in rows[:4]], [("1", "8"), ("1", "0"), ("2", "8"), ("2", "0")], "the order of tests")
    found = json.loads(good(*args[:5], *QUICK[3:], "-o", "json", "-r", "3", "--cpu", ",".join(levels(BIN))))
    same(len(found), 4 * len(levels(BIN)), "objects")
    for r in found:
        same(list(r), BENCH_KEYS + BENCH_OWN + ["samples_ns", "samples_ts"], "keys of JSON")
        same([r[k] for k in ("backends", "model_filename", "model_type", "n_batch", "n_ubatch", "type_k", "n_parallel")],
             ["CPU", SMALL, "llama 0.1M mostly f32", 2048, 512, "bf16", 1], "words")
        same(r["model_n_params"], 63216, "parameters")
        same((len(r["samples_ns"]), len(r["samples_ts"])), (3, 3), "samples")
        for name, n in (("ns", 1), ("ts", 1e-6)):
            mean = sum(r["samples_" + name]) / 3
            sd = math.sqrt(sum((x - mean) ** 2 for x in r["samples_" + name]) / 2)
            check(abs(r["avg_" + name] - mean) <= 1e-5 * mean + n and abs(r["stddev_" + name] - sd) <= 1e-3 * sd + 1e-5 * mean + n, "%r" % r)
        check(abs(r["samples_ts"][0] - (r["n_prompt"] + r["n_gen"]) * 1e9 / r["samples_ns"][0]) < 1e-4 * r["samples_ts"][0], "%r" % r)
        check(0 < round(r["ttft_ms"] * 1e6) <= r["avg_ns"] + 1 and all(r[k] > 0 for k in ("read_gbs", "sweep_gbs", "float_gops", "int8_peak_gops", "float_peak_gops", "bf16_peak_gops", "peak_rss")), "%r" % r)
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", r["test_time"]), r["test_time"])
    same([r["cpu_level"] for r in found[::2]], 2 * levels(BIN), "levels, models before them")
    lines = good(*QUICK, "-o", "jsonl", "--no-warmup").decode().splitlines()
    same([list(json.loads(x)) for x in lines], [list(found[0])] * 2, "JSONL")


@case
def quality():
    """--quality: each type's file has the figures of --quantize and --kl-divergence, as a table of three forms and a picture; temporary files go, by a signal too"""
    import xml.etree.ElementTree as ET
    where, text, f16 = folder("quality"), tmp("quality.txt"), os.path.join(HERE, "models", "pip-f16.gguf")
    with open(text, "w") as f:
        f.write("Once upon a time there was a small boat. It sailed to the sea and met a whale. " * 20)
    env = {"TMPDIR": where}
    ask = ("-m", f16, "-f", text, "-c", "64", "--chunks", "2", "--kl-top-k", "0")
    picture, base = tmp("quality.svg"), tmp("quality.base")
    got = json.loads(good("--quality", "Q8_0,q4_k_m", *ask, "--json", "-q", "--plot", picture, env=env))
    same([x["type"] for x in got], ["model", "Q8_0", "q4_k_m"], "rows")
    good(*ask, "--perplexity", "--kl-divergence-base", base, "-q")
    for row in got[1:]:
        made = tmp("quality.gguf")
        good("--quantize", row["type"], "-m", f16, "-o", made, "-q")
        kl = json.loads(good("-m", made, "--kl-divergence", base, "--json", "-q"))
        same([row[k] for k in ("ppl", "ppl_error", "kld", "kld_error", "kld_p99", "same_top")],
             [kl["perplexity"], kl["perplexity_error"], kl["kld"]["mean"], kl["kld"]["error"], kl["kld"]["p99"], kl["same_top"]], row["type"])
        same("%.6g" % row["mib"], "%.6g" % (os.path.getsize(made) / 2 ** 20), "size")
        same((got[0]["ppl"], got[0]["kld"], got[0]["same_top"]), (kl["base_perplexity"], 0, 1), "the model's own row")
    check(got[1]["kld"] < got[2]["kld"] and got[1]["bits"] > got[2]["bits"], repr(got))
    svg = open(picture).read()
    check(all(x in svg for x in ("Q8_0", "q4_k_m", "KL divergence", "Size, MiB", "quality.txt")), svg)
    ET.fromstring(svg)
    same(os.listdir(where), [], "temporary files")
    for name, head in ("q.md", b"| type |"), ("q.csv", b"type,mib,bits,ppl,"), ("q.json", b"[\n{"):
        good("--quality", "Q4_0", *ask, "-q", "-o", tmp(name))
        check(open(tmp(name), "rb").read().startswith(head), name)
    for types, word in (("Q8_0,zebra", "--quality: unknown type 'zebra'"), ("Q4_K_X", "did you mean Q4_K"), (",", "unknown type")):
        refused(run("--quality", types, *ask, "-q"), 2, word, types)
    refused(run("--quality", "Q8_0", *ask, "-q", "--plot", "q.png"), 2, "SVG", "a picture of another kind")
    refused(run("--quality", "Q8_0", *ask, "-q", env={"TMPDIR": tmp("nowhere")}), 2, "nowhere/llmrun-quality", "no folder")
    long = tmp("quality.long")
    with open(long, "w") as f:
        f.write("Once upon a time there was a small boat. It sailed to the sea. " * 4000)
    for sig in signal.SIGINT, signal.SIGTERM:
        p = start("--quality", ",".join(["Q4_K_M"] * 50), "-m", f16, "-f", long, "-c", "512", "-q", env={**ENV, **env})
        while not os.listdir(where) and p.poll() is None:
            time.sleep(0.01)
        p.send_signal(sig)
        same((finish(p).rc, os.listdir(where)), (128 + sig, []), "after signal %d" % sig)


@case
def given_twice():
    """an option that takes effect once and is given again with another value: one line says that the last one counts; lists and equal values say nothing"""
    ask = ("-m", SMALL, "-p", "a", "--no-chat", "--temp", "0")
    for more, word in ((("-n", "1", "-n", "2"), b"-n is given more than once: the last one counts"),
                       (("-n", "1", "--predict=2"), b"--predict replaces -n: the last one counts"),
                       (("-n", "2", "--chat", "--no-chat"), b"--no-chat replaces --chat: the last one counts"),
                       (("-n", "2", "-p", "b", "-p", "a"), b"-p is given more than once")):
        r = run(*ask, *more)
        check(r.rc == 0 and r.err.count(word) == 1, "%r: %r" % (more, r))
        same(r.out, good(*ask, "-n", "2", "-q"), "the answer of %r" % (more,))
        check(not run(*ask, *more, "-q").err, "-q")
    for more in ("-n", "2", "-n", "2"), ("-n", "2", "--stop", "x", "--stop", "y"), ("-n", "2", "--echo", "--echo"):
        check(b"last one counts" not in run(*ask, *more).err, repr(more))


@case
def bench_plot():
    """--plot FILE is well-formed SVG with each test's name and rate, whatever the names of files; it never replaces the model or the output"""
    import xml.etree.ElementTree as ET
    texts = lambda path: ["".join(x.itertext()) for x in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    path = tmp("bench.svg")
    rows = json.loads(good(*QUICK, "-r", "2", "-q", "-o", "json", "--plot", path))
    found, digits = texts(path), lambda v: "%.2f" % v if v < 100 else "%.1f" % v if v < 1000 else "%.0f" % v
    for name, r in zip(("pp8", "tg4"), rows):
        same(found[found.index(name) + 1], "%s \u00b1 %s" % (digits(r["avg_ts"]), digits(r["stddev_ts"])), name)
    strange = tmp("a<b&\x01\".gguf")
    shutil.copy(SMALL, strange)
    good("--bench", "-m", SMALL, "-m", strange, "-p", "0", "-n", "2", "-npl", "1,2,4", "-r", "1", "-q", "--plot", path)
    check({"tg2, llama.gguf", 'tg2, a<b&?".gguf', "1", "2", "4"} <= set(texts(path)), repr(texts(path)))
    refused(run(*QUICK, "--plot", SMALL), 2, "is the model itself", "--plot onto the model")
    refused(run(*QUICK, "--plot", "-"), 2, "expected a file to write", "--plot -")
    for name in "a.png", "b/rates.PDF", "c.jpeg":
        refused(run(*QUICK, "--plot", name), 2, "SVG, expected a name such as", name)
    refused(run(*QUICK, "-o", path, "--format", "csv", "--plot", path), 2, "is the output itself", "--plot onto the output")
    new = [tmp("new.csv"), tmp("new.svg")]
    refused(run(*QUICK, "-c", "7", "-o", new[0], "--format", "csv", "--plot", new[1]), 2, "the context holds 7", "a run that fails early")
    check(not any(map(os.path.exists, new)), "empty files were left behind")
    refused(run("-m", SMALL, "-p", "x", "--plot", path), 2, "only on --bench", "--plot without --bench")


@case
def bench_refused():
    """--bench refuses what it cannot measure before the first test: files, bounds, levels, memory; weights that are NaN"""
    refused(run(*QUICK, "-m", tmp("none.gguf")), 2, "none.gguf", "a model that is not there")
    refused(run(*QUICK, "-c", "7"), 2, "a test takes 8 tokens, the context holds 7", "-c below a test")
    refused(run(*QUICK, "-d", "200000", "-c", "0"), 2, "the context holds", "beyond the model's context, which -c 0 keeps to")
    refused(run(*QUICK, "--kv-mem", "1"), 3, "KV cache", "--kv-mem 1")
    refused(run(*QUICK, "-d", "16000000", "-npl", "512"), 3, "this machine has", "more memory than there is")
    refused(run(*QUICK, "--cpu", "mmx"), 2, "--cpu: expected", "a level that is none")
    refused(run(*QUICK, "-p", "x"), 2, "-p: expected a whole number", "-p that is no number")
    refused(run("--bench", "-p", "8"), 2, "no model given", "no model")
    refused(run("--acceptance", "50", "-m", SMALL, "-p", "x"), 2, "--acceptance has no effect on generation", "--acceptance without --bench")
    refused(run(*QUICK, "-o", "/nonexistent/x"), 2, "/nonexistent/x", "-o into nowhere")
    copy = tmp("bench.gguf")
    shutil.copy(SMALL, copy)
    refused(run("--bench", "-m", SMALL, "-m", copy, "-o", copy), 2, "is the model itself", "-o onto a model")
    four = ("--draft-max", "4")
    for args, word in (
        (("--draft-max", "65"), "--draft-max: 65 is out of range, expected 0 to 64"),
        (("--draft-max", "0,-1"), "--draft-max: -1 is out of range"),
        ((*four, "--acceptance", "101"), "--acceptance: 101 is out of range, expected 0 to 100"),
        (("--acceptance", "50"), "--acceptance: no test has guesses"),
        (("-md", GUESSER), "--model-draft: no test has guesses"),
        ((*four, "-md", tmp("none.gguf")), "none.gguf"),
        ((*four, "-md", __file__), "cli.py"),
        ((*four, "-md", PIP_DRAFT), "not the vocabulary of"),
        ((*four, "-md", copy, "-o", copy), "is the model itself"),
    ):
        refused(run(*QUICK, *args), 2, word, " ".join(args))
    refused(run(*QUICK[:5], "-n", "0", *four), 2, "--draft-max: no test has guesses", "guesses without decode")
    same(open(copy, "rb").read(), open(SMALL, "rb").read(), "the model")
    data = bytearray(open(SMALL, "rb").read())
    at = next(t["offset"] for t in json.loads(good("-m", SMALL, "--inspect", "--json"))["tensors"] if t["name"] == "output_norm.weight")
    data[at:at + 4] = struct.pack("<f", math.nan)
    open(copy, "wb").write(data)
    refused(run("--bench", "-m", copy, "-p", "4", "-n", "2", "-r", "1", "-q", "-o", "json"), 2, "NaN", "a norm that is no number")


@case
def bench_interrupted():
    """SIGINT ends a benchmark with exit 130 and a complete table; a model file that shrinks ends it with exit 3"""
    for sig, rc in (signal.SIGINT, 130), (None, 3):
        path = tmp("cut.gguf")
        shutil.copy(SMALL, path)
        p = start("--bench", "-m", path, "-p", "4", "-n", "100000", "-r", "1", "-o", "json", "-q")
        seen = b""
        while b"samples_ts" not in seen:              # the first test has ended, the second takes very long
            seen += os.read(p.stdout.fileno(), 65536)
        time.sleep(0.3)
        if sig:
            p.send_signal(sig)
        else:
            os.truncate(path, 0)
        r = finish(p, 60)
        same(r.rc, rc, "exit code after %s" % (sig or "truncation"))
        if sig:
            same([x["n_prompt"] for x in json.loads(seen + r.out)], [4], "what had been measured")
            check(b"\n" not in r.err, repr(r))


@case
def granitemoe_dense():
    """a granitemoe file without experts has the logits of the same model by the name granite"""
    import hostile
    want = good("-m", os.path.join(TINY, "granite.gguf"), "--logits", "-", "-p", "the hen", "-q")
    for count, used in ((None, None), (0, None), (0, 0)):
        model = tmp("dense.gguf")
        with open(model, "wb") as f:
            f.write(hostile.dense_granite(count, used))
        check(good("-m", model, "--logits", "-", "-p", "the hen", "-q") == want, "experts %s, used %s" % (count, used))


@case
def bench_peer():
    """tests/bench/peer.py runs both programs in turn and prints their ratio; a peer that fails is reported"""
    fake, none = tmp("llama-bench"), tmp("no-bench")
    for path, text in ((fake, '#!/bin/sh\nexec "%s" --bench -q "$@"\n' % BIN), (none, "#!/bin/sh\necho broken >&2; exit 1\n")):
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)
    peer = lambda *a: subprocess.run([sys.executable, os.path.join(HERE, "tests", "bench", "peer.py"), "--llmrun", BIN, "--model", SMALL, "-p", "8", "-n", "0",
                                      "-pg", "4,2", "--rounds", "1", "-t", "1", *a], capture_output=True, timeout=300 * SLOW)
    r = peer("--peer", fake)
    check(r.returncode == 0, r.stderr.decode())
    out = r.stdout.decode()
    check("backends CPU" in out and "| pp8 |" in out and "| pp4+tg2 |" in out and "cannot be found out" in out, out)
    for line in out.splitlines():
        if line.startswith("| pp"):
            own, other, ratio = (float(x) for x in line.split("|")[2:5])
            check(own > 0 and other > 0 and ratio > 0, line)
    r = peer("--peer", none)
    check(r.returncode == 2 and b"broken" in r.stderr, repr(r))


@case
def numa():
    """--numa and LLMRUN_TOPOLOGY: the same text on made-up nodes with more threads than CPUs, a line for each node, a word where nothing changes"""
    def run(topology, *args, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("LLMRUN_TOPOLOGY", "OMP_NUM_THREADS")}
        if topology:
            env["LLMRUN_TOPOLOGY"] = topology
        return subprocess.run([BIN, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=300 * SLOW)
    text = ["-m", SMALL, "--raw", "-p", "Once upon a time", "-n", "8", "--temp", "0", "--repack", "on"]
    want = run(None, *text, "-t", "1")
    same(want.returncode, 0, want.stderr)
    for topology, threads in ("2x8", 16), ("4x4", 16), ("3x1", 5):
        r = run(topology, *text, "-t", str(threads), "-v", "--numa", "distribute")
        same((r.returncode, r.stdout), (0, want.stdout), r.stderr)
    for word in b"5 (1 on node 0, 2 on node 1, 2 on node 2)", b"up to":
        check(word in r.stderr, r.stderr)
    for how in "off", "interleave", "auto":
        same(run("2x8", *text, "-t", "6", "--numa", how).stdout, want.stdout, how)
    r = run("1x8", *text, "--numa", "distribute")
    same((r.returncode, r.stdout), (0, want.stdout), r.stderr)
    check(b"--numa distribute changes nothing: this process has one memory node" in r.stderr, r.stderr)
    r = run("2y8", *text)
    same((r.returncode, r.stdout), (0, want.stdout), r.stderr)
    check(b"memory nodes are not used: LLMRUN_TOPOLOGY: '2y8', expected nodes and CPUs" in r.stderr, r.stderr)
    same(run(None, *text, "--numa", "isolate").returncode, 2, "another word")
    listed = run("2x8", "--list", "cpu", "-t", "1").stdout.decode()
    check(re.search(r"^node 0   8 CPUs, \d+ thread", listed, re.M) and "node 1   8 CPUs" in listed, listed)


@case
def bench_threads():
    """tests/bench/threads.py has a row for each test and number of threads that this machine has CPUs for, and names the others"""
    threads = lambda *a: subprocess.run([sys.executable, os.path.join(HERE, "tests", "bench", "threads.py"), "--llmrun", BIN, "--model", SMALL, "--only", "decode",
                                         "--rounds", "1", *a], capture_output=True, text=True, timeout=300 * SLOW)
    r = threads("--threads", "1,99999,1")
    same(r.returncode, 0, r.stderr)
    check("99999 threads are left out" in r.stdout, r.stdout)
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in r.stdout.splitlines() if "| decode |" in line]
    check(len(rows) == 1 and rows[0][1:3] == ["decode", "1"] and float(rows[0][3]) > 0 and rows[0][4] == "1.00", r.stdout)
    r = threads("--threads", "99999")
    check(r.returncode == 2 and "asks for more only" in r.stderr, repr(r))


@case
def bench_results():
    """tests/bench/measure.py appends a row for each program with ratios, and RESULTS.md and its pictures are made from such rows"""
    import csv
    folder, models, out = tmp("peers"), tmp("models"), tmp("rows")
    for path in folder, models:
        os.mkdir(path)
    fake = os.path.join(folder, "llama-bench")
    with open(fake, "w") as f:
        f.write('#!/bin/sh\nexec "%s" --bench -q "$@"\n' % BIN)
    os.chmod(fake, 0o755)
    shutil.copy(SMALL, os.path.join(models, "Q4_K_M.gguf"))
    bench = os.path.join(HERE, "tests", "bench")
    r = subprocess.run([sys.executable, os.path.join(bench, "measure.py"), "--llmrun", BIN, "--peers", folder, "--model-dir", models, "--minutes", "0", "--types", "Q4_K_M",
                        "--parts", "types", "--csv", out, "--machine", "here", "--foreign"], stdin=subprocess.DEVNULL, capture_output=True)
    same(r.returncode, 0, r.stderr[-300:])
    with open(os.path.join(out, "speed.csv"), newline="") as f:
        rows = list(csv.DictReader(f))
    same([(x["test"], x["program"], x["rounds"], x["machine"]) for x in rows], [(t, p, "1", "here") for t in ("pp512", "tg32") for p in ("llmrun", "llama.cpp")], "rows")
    for own, theirs in zip(rows[::2], rows[1::2]):
        check(own["ratio"] == "" and abs(float(theirs["ratio"]) - float(own["tokens_s"]) / float(theirs["tokens_s"])) < 0.01 * float(theirs["ratio"]) + 0.006, repr(theirs))
    made = "import sys; sys.path.insert(0, sys.argv[1]); import results; print(results.page(sys.argv[2]))"
    page = subprocess.run([sys.executable, "-c", made, bench, out], capture_output=True, text=True)
    check("| here | " in page.stdout and "| pp512 | " in page.stdout, page.stdout + page.stderr)
    for script in "results.py", "plots.py":
        same(subprocess.run([sys.executable, os.path.join(bench, script), "--check"], capture_output=True).stdout, b"", script)



def main():
    if not os.access(BIN, os.X_OK):
        sys.exit("usage: cli.py BINARY [WORD ...]: cannot run %s" % BIN)
    sys.exit(walk("cli", sys.argv[2:], TMP))


main()
