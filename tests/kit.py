"""Helpers of the scripts that test the command: cases, processes, records of a batch, checks."""
import argparse, base64, collections, json, os, pty, random, re, shutil, subprocess, sys, tempfile, time, warnings

CASES = []
SLOW = float(os.environ.get("LLMRUN_SLOW") or 1)         # stretches every time limit, for builds under a sanitizer
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("LLMRUN_MODEL", "LC_", "LANG"))}
ENV["CUDA_VISIBLE_DEVICES"] = ""                         # no test depends on a GPU of this machine


class Skip(Exception):
    """Raised where the machine lacks something that a case needs."""


def case(f):
    CASES.append(f)
    return f


def arguments(*programs, **numbers):
    """The command line of a suite: its programs, words of the names of cases, and options that take a number, with their defaults."""
    p = argparse.ArgumentParser()
    for program in programs:
        p.add_argument(program)
    p.add_argument("words", nargs="*")
    for name, default in numbers.items():
        p.add_argument("--" + name, type=int, default=default)
    return p.parse_intermixed_args()


def walk(name, words, folder, after=None):
    """Runs the cases whose name holds one of the words, else all, but none whose name holds a word after a ^; a line each, what `after` prints, a count.
    Removes the folder. 1: a case failed."""
    counts = collections.Counter()
    out = [w[1:] for w in words if w.startswith("^")]
    words = [w for w in words if not w.startswith("^")]
    for f in CASES:
        if words and not any(w in f.__name__ for w in words) or any(w in f.__name__ for w in out):
            continue
        t0, state, why = time.time(), "ok", f.__doc__
        try:
            f()
        except Skip as e:
            state, why = "skip", str(e)
        except Exception as e:                         # of any kind: the other cases run
            state, why = "FAIL", "%s (%s: %s)" % (f.__doc__, type(e).__name__, e)
        counts[state] += 1
        print("%-4s  %s: %s (%.1f s)" % (state, f.__name__, why, time.time() - t0), flush=True)
    if after:
        after()
    shutil.rmtree(folder, ignore_errors=True)
    print("%s: %d passed, %d failed, %d skipped" % (name, counts["ok"], counts["FAIL"], counts["skip"]))
    return int(counts["FAIL"] > 0)


def new_folder(name):
    """A new folder for temporary files, of this user alone. Its name is random in two letters only: the names that tempfile gives sometimes hold a word that a test
    counts in messages."""
    while True:
        path = os.path.join(tempfile.gettempdir(), "llmrun-%s-%s" % (name, "".join(random.SystemRandom().choices("xz", k=12))))
        try:
            os.mkdir(path, 0o700)
            return path
        except FileExistsError:
            pass


def scratch(name):
    """A new folder for a suite; a function from a name to its path there, one that also writes a file of it."""
    folder = new_folder(name)

    def tmp(name):
        return os.path.join(folder, name)

    def put(name, data):
        with open(tmp(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else jsonl(data))
        return tmp(name)

    return folder, tmp, put


def sanitized():
    return SLOW > 1


def some(items, step=5):
    """All of them, or under a sanitizer, which takes twenty times as long, every fifth."""
    items = list(items)
    return items[::step] if sanitized() else items


def read(path):
    with open(path, "rb") as f:
        return f.read()


# --- checks ---

def check(ok, why):
    if not ok:
        raise AssertionError(why)


def short(x):
    r = repr(x)
    return r if len(r) < 240 else r[:160] + " ... " + r[-70:]


def same(got, want, what):
    if got != want:
        raise AssertionError("%s: got %s, want %s" % (what, short(got), short(want)))


def one_line(err):
    return err.count(b"\n") == 1 and err.startswith(b"llmrun: ") and err.endswith(b"\n")


def refused(r, rc, word, what):
    """A failure: this exit code, one line that holds the word, nothing on stdout."""
    check(r.rc == rc, "%s: want exit %d, got %r" % (what, rc, r))
    check(one_line(r.err), "%s: want one line on stderr, got %r" % (what, r.err))
    check(re.search(word.encode(), r.err), "%s: want %r in %r" % (what, word, r.err))
    same(r.out, b"", what + ": stdout")


# --- processes ---

def open_terminal():
    """A pseudo-terminal: the end of its person, and that of programs. A case that needs one is skipped where there is none."""
    try:
        return pty.openpty()
    except OSError as e:
        raise Skip("no pseudo-terminal: %s" % e)


def fork_terminal():
    """A child process on a terminal of its own: (its pid, 0 in the child; the end of its person)."""
    for fd in open_terminal():
        os.close(fd)
    return pty.fork()



class Done:
    def __init__(self, rc, out, err, usage=None):
        self.rc, self.out, self.err, self.usage = rc, out, err, usage

    def __repr__(self):
        return "exit %d, stdout %s, stderr %r" % (self.rc, short(self.out), self.err[-400:])


def begin(command, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("env", ENV)
    return subprocess.Popen(command, stderr=subprocess.PIPE, **kw)


def threads_of(pid):
    """States of the threads of a process, where the system shows them."""
    try:
        folder, rows = "/proc/%d/task" % pid, []
        for thread in os.listdir(folder):
            with open(os.path.join(folder, thread, "stat")) as f:
                field = f.read().rpartition(")")[2].split()
            rows.append("%s after %.1f s" % (field[0], (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK")))
        return "%d threads, %s" % (len(rows), ", ".join(rows))
    except OSError:
        return "gone by now"


def catches(p, sig):
    """Whether a process handles a signal by now; True where the system does not tell."""
    try:
        with open("/proc/%d/status" % p.pid) as f:
            return bool(int(re.search(r"^SigCgt:\s*([0-9a-f]+)", f.read(), re.M).group(1), 16) >> (sig - 1) & 1)
    except (OSError, AttributeError):
        return True


def install(packages):
    """--install DIR of the command line: goes on in a virtual environment there that has the packages, where they can be had."""
    at, name = sys.argv.index("--install"), os.path.basename(sys.argv[0]).removesuffix(".py")
    folder = sys.argv[at + 1]
    python, whole = os.path.join(folder, "bin", "python"), os.path.join(folder, "whole")
    if not os.path.exists(whole):
        for command in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]):
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                print("%s: skipped: %s did not work" % (name, " ".join(command[:5])))
                sys.exit(0)
        open(whole, "w").close()
    os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:at], *sys.argv[at + 2:]])


def until_caught(p, sig):
    """Waits until a process handles a signal, or has ended."""
    while p.poll() is None and not catches(p, sig):
        time.sleep(0.005)


def finish(p, timeout=60, inp=None):
    try:
        out, err = p.communicate(inp, timeout=timeout * SLOW)
    except subprocess.TimeoutExpired:
        state = threads_of(p.pid)
        p.kill()
        p.communicate()
        raise AssertionError("still running after %g s: %s" % (timeout * SLOW, state))
    return Done(p.returncode, out or b"", err or b"")


def done(r, args):
    """What a run with these arguments has written: it succeeded."""
    check(r.rc == 0, "%s: %r" % (" ".join(args), r))
    return r.out


def levels(binary):
    """The CPU levels of this machine."""
    listed = done(finish(begin([binary, "--list", "cpu"])), ["--list", "cpu"])
    return [line.split()[0] for line in listed.decode().splitlines() if "runs here" in line]


class Place:
    """A folder in which the command runs beside a library, build/test/disturb.so, whose settings are variables of the environment."""

    def __init__(self, folder):
        self.folder, self.path, self.count = folder, os.path.join(folder, "place"), os.path.join(folder, "count")

    def prepare(self, has):
        """These files, {name: bytes}, and no others."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.mkdir(self.path)
        for name, data in has.items():
            with open(os.path.join(self.path, name), "wb") as f:
                f.write(data)

    def files(self):
        return {name: read(os.path.join(self.path, name)) for name in sorted(os.listdir(self.path))}

    def run(self, args, inp=None, **env):
        p = begin([self.binary, "-q", "-t", "1", *args], cwd=self.path, stdin=subprocess.DEVNULL if inp is None else subprocess.PIPE,
                  env=dict(ENV, LD_PRELOAD=self.library, **env))
        return finish(p, 60, inp)

    def walk(self, name, options, after):
        """As walk(), with the program and the library of the command line. Where the library is not loaded, no case runs."""
        self.binary, self.library = map(os.path.abspath, (options.binary, options.library))
        self.prepare({})
        self.run(("--version",), DISTURB_COUNT=self.count)
        if os.path.exists(self.count):
            return walk(name, options.words, self.folder, after)
        shutil.rmtree(self.folder, ignore_errors=True)
        print("%s: 0 passed, 0 failed, %d skipped" % (name, len(CASES)))
        return 0


def validator(schema):
    """A check of JSON values by the package jsonschema; a test that needs it is skipped without it."""
    try:
        warnings.simplefilter("ignore")
        import jsonschema
    except ImportError:
        raise Skip("no python3-jsonschema")
    return jsonschema.Draft202012Validator(schema)


# --- files of lines and their records ---

def jsonl(lines):
    """The bytes of a file: bytes stand as they are, anything else as JSON."""
    return b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines)


RECORD = re.compile(rb'\{"id":"batch_req_(\d+)_([0-9a-f]{32})","custom_id":(null|"(?:[^"\\]|\\.)*"),"line":\1(?:,"file":"(?:[^"\\]|\\.)*")?,"response":'
                    rb'(null|\{"status_code":200,"request_id":"req_\d+","body":\{.*\}\}),"error":(null|\{"code":"[a-z0-9_]+","message":"(?:[^"\\]|\\.)*"\})'
                    rb'(?:,"warnings":\["(?:[^"\\]|\\.)*"(?:,"(?:[^"\\]|\\.)*")*\])?(?:,"(?:prompt|fields)":.*)?\}', re.S)
PASSING = re.compile(rb'("(?:created|cached_tokens)":|"system_fingerprint":"llmrun-[0-9a-f]+-)[-0-9a-z]+')


def text_of(choice):
    """The exact bytes of a completion: those beside a text that is not UTF-8 become this text where each bad part is one U+FFFD."""
    if "bytes" not in choice:
        return choice["text"].encode()
    exact = base64.b64decode(choice["bytes"], validate=True)
    same(choice["text"], exact.decode("utf-8", "replace"), "text beside bytes")
    return exact


class Record:
    """One record: no, hash, id (None or bytes), error (None or a dict), body (None or a dict), plain: its bytes, less what may differ."""

    def __init__(self, line):
        m = RECORD.fullmatch(line)
        check(m, "not a record: %s" % short(line))
        try:
            self.whole = json.loads(line.decode("utf-8"))
        except ValueError as e:
            raise AssertionError("a record that is no JSON (%s): %s" % (e, short(line)))
        self.no, self.hash, self.id = int(m.group(1)), m.group(2), self.whole["custom_id"]
        self.error, answer = self.whole["error"], self.whole["response"]
        check((self.error is None) != (answer is None), "an answer or an error, not both: %s" % short(line))
        self.body, self.line = answer and answer["body"], line
        self.plain = PASSING.sub(rb"\g<1>0", line)

    def texts(self):
        return [text_of(c) for c in self.body["choices"]]


def records(data, torn=False):
    """{line number: record}: every record is complete and there once. torn: an incomplete one may follow the last newline."""
    lines = data.split(b"\n")
    tail = lines.pop()
    check(torn or tail == b"", "a torn last record: %s" % short(tail))
    found = {}
    for line in lines:
        r = Record(line)
        check(r.no not in found, "line %d is answered twice" % r.no)
        found[r.no] = r
    return found


def plain(found):
    return {no: r.plain for no, r in found.items()}


def equal(got, want, what):
    """Checks that two sets of records answer the same lines with the same bytes."""
    got, want = plain(got), plain(want)
    same(sorted(got), sorted(want), what + ": lines answered")
    for no in sorted(want):
        if got[no] != want[no]:
            at = next(i for i, (a, b) in enumerate(zip(got[no] + b"\0", want[no] + b"\1")) if a != b)
            raise AssertionError("%s: line %d differs at byte %d: got ...%r, want ...%r" % (what, no, at, got[no][max(0, at - 60):at + 60], want[no][max(0, at - 60):at + 60]))
