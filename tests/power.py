#!/usr/bin/env python3
"""A loss of power at every moment of a run: what was on disk is there, files are the old or the new ones, and --resume goes on.

    python3 tests/power.py ./llmrun build/test/disturb.so [--trials N] [--seed N] [WORD ...]     cases whose name holds a word, else all

As SQLite is tested. tests/disturb.c writes down what a run does to its files: opens, writes, cuts, renames, flushes. A disk that is modelled here does
the same; after each call of the record it loses power, N times (4), with another choice of what was not yet flushed:
  a file      all of it, nothing, up to any byte, any of its sectors of 512 bytes; the rest reads as zeros, or is missing
  a folder    the names of a beginning of the calls, or of any of them: a file may be missing, a rename not done
What a flush of the file (of the folder) was about is always there. At the end of a run that is all.
"""
import os, random, sys
from kit import PASSING, Place, arguments, case, check, jsonl, read, records, same, scratch, short

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(HERE, "tests", "data", "tiny", "llama.gguf")
FOLDER, tmp, put = scratch("power")
PLACE, RECORD = Place(FOLDER), tmp("record")
SECTOR = 512
O = None
RNG = random.Random()
STATES = [0]


# --- the disk ---

class Inode:
    """A file: the bytes on disk, and the calls since its last flush, (place, bytes) or (size, None)."""

    def __init__(self, data=b""):
        self.disk, self.calls = data, []

    @staticmethod
    def done(data, calls):
        data = bytearray(data)
        for at, new in calls:
            if new is None:
                data = data[:at] + bytes(max(0, at - len(data)))
            else:
                data += bytes(max(0, at - len(data)))
                data[at:at + len(new)] = new
        return bytes(data)

    def flush(self):
        self.disk, self.calls = self.done(self.disk, self.calls), []

    def lost(self):
        """What is there after a loss of power."""
        how, whole = RNG.randrange(5), self.done(self.disk, self.calls)
        if how == 0 or not self.calls:
            return self.disk
        if how == 1:
            return whole
        if how == 2:                                     # up to any byte
            k = RNG.randrange(len(self.calls))
            at, new = self.calls[k]
            return self.done(self.disk, self.calls[:k] + [(at, new and new[:RNG.randrange(len(new) + 1)])])
        cut = any(new is None for _, new in self.calls)
        size = RNG.choice((len(whole), len(self.disk), RNG.randint(0, len(whole)))) if how == 3 else len(whole)
        size = size if cut else max(size, len(self.disk))
        data, chance = bytearray(self.disk[:size] + bytes(max(0, size - len(self.disk)))), RNG.choice((0, 0.2, 0.5, 0.8))
        for at, new in self.calls:
            for s in range(at // SECTOR, (at + len(new) - 1) // SECTOR + 1) if new else ():
                if RNG.random() < chance:
                    data[s * SECTOR:(s + 1) * SECTOR] = whole[s * SECTOR:(s + 1) * SECTOR][:max(0, size - s * SECTOR)]
        return bytes(data[:size])


class Disk:
    """A folder: the names on disk, and the calls since its last flush, {name: Inode or None}."""

    def __init__(self, files):
        self.names = {name: Inode(data) for name, data in files.items()}
        self.disk, self.calls, self.open = dict(self.names), [], {}

    def name(self, call):
        self.calls.append(call)
        for name, inode in call.items():
            self.names[name] = inode
            if inode is None:
                del self.names[name]

    def play(self, op, *a):
        if op == "open":
            fd, created, cut, path = a
            name = None if path == os.path.realpath(PLACE.path) else os.path.basename(path)
            if name and created:
                self.name({name: Inode()})
            self.open[fd] = self.names[name] if name else self
            if name and cut:
                self.names[name].calls.append((0, None))
        elif op == "dup":
            self.open[a[1]] = self.open[a[0]]
        elif op == "close":
            del self.open[a[0]]
        elif op == "write":
            self.open[a[0]].calls.append((a[1], a[2]))
        elif op == "cut":
            self.open[a[0]].calls.append((a[1], None))
        elif op == "fsync":
            self.open[a[0]].flush()
        elif op == "rename":
            self.name({a[0]: None, a[1]: self.names[a[0]]})
        elif op == "unlink":
            self.name({a[0]: None})

    def flush(self):
        self.disk, self.calls = dict(self.names), []

    def lost(self):
        """{name: Inode} after a loss of power."""
        names, n = dict(self.disk), len(self.calls)
        some = range(n) if RNG.random() < 0.3 else range(RNG.randint(0, n)) if RNG.random() < 0.7 else [k for k in range(n) if RNG.random() < 0.5]
        for k in some:
            names.update(self.calls[k])
        return {name: inode for name, inode in names.items() if inode is not None}

    def kept(self):
        """{name: bytes} that are there in any case."""
        return {name: inode.disk for name, inode in self.disk.items()}


def recorded():
    """The calls of the last run."""
    data, at, ops = read(RECORD), 0, []
    while at < len(data):
        end = data.index(b"\n", at)
        op, _, rest = data[at:end].decode().partition(" ")
        at = end + 1
        if op == "open":
            fd, created, cut, path = rest.split(" ", 3)
            ops.append((op, int(fd), created == "1", cut == "1", path))
        elif op == "write":
            fd, where, n = map(int, rest.split())
            ops.append((op, fd, where, data[at:at + n]))
            at += n
        elif op in ("rename", "unlink"):
            ops.append((op, *map(os.path.basename, rest.split("\t"))))
        else:
            ops.append((op, *map(int, rest.split())))
    return ops


# --- runs ---

def record(args, has, rc=0, **env):
    """Runs a command in a folder with these files: (its calls, the files that it leaves)."""
    PLACE.prepare(has)
    r = PLACE.run(args, DISTURB_UNDER=PLACE.path, DISTURB_RECORD=RECORD, **env)
    check(r.rc == rc, "undisturbed: %r" % r)
    return recorded(), PLACE.files()


def losses(ops, has, trials):
    """(number of calls done, files that are there, files that are there in any case), after each call."""
    disk = Disk(has)
    for k, op in enumerate([("begin",), *ops]):
        disk.play(*op)
        for _ in range(trials):
            STATES[0] += 1
            names = disk.lost()
            yield k, {name: inode.lost() for name, inode in names.items()}, {name: inode.disk for name, inode in names.items()}
    disk_kept = disk.kept()
    now = {name: inode.done(inode.disk, inode.calls) for name, inode in disk.names.items()}
    same(sorted(disk_kept), sorted(now), "names on disk when the run has ended")
    for name in now:
        check(disk_kept[name] == now[name], "%s: not on disk when the run has ended: %s of %s" % (name, short(disk_kept[name]), short(now[name])))


# --- results ---

LINES = [{"custom_id": "line %d" % i, "prompt": text, "max_tokens": 6 + 5 * i, "temperature": 0, "logprobs": 1} for i, text in enumerate(("Hello", "Two and", "Three", "a"))]
BATCH = ("-m", MODEL, "--batch", "in.jsonl", "-s", "1")
OUT = (*BATCH, "-o", "out.jsonl")


def lines_of(data):
    return [line for line in data.split(b"\n") if line]


def plain(data):
    return sorted(PASSING.sub(rb"\g<1>0", line) for line in lines_of(data))


def resumed(args, has, want, sure, what, more=()):
    """Goes on after a loss of power: every record once and the same, those on disk untouched, each file of results of whole lines."""
    PLACE.prepare(has)
    r = PLACE.run(args)
    left = {name: short(data) for name, data in has.items() if name != "in.jsonl"}
    check(r.rc == 0, "%s: %r, files %s" % (what, r, left))
    now = PLACE.files()
    for name in want:
        if name.endswith(".stale"):
            continue
        same(plain(now[name]), plain(want[name]), "%s, %s, files %s" % (what, name, left))
    records(now["out.jsonl" if "out.jsonl" in now else "out.csv.jsonl"])
    final = {line for name in now if ".jsonl" in name for line in lines_of(now[name])}
    for line in sure:
        check(line in final, "%s: a record that was on disk is gone or made again: %s, files %s" % (what, short(line), left))
    check(set(now) <= set(want) | set(more), "%s: left behind: %s" % (what, sorted(set(now) - set(want))))
    return now


def sure_of(disk, names, of):
    """The records on disk that are still to be there at the end: whole lines, of those that a whole run leaves."""
    good = {PASSING.sub(rb"\g<1>0", line) for data in of.values() for line in lines_of(data)}
    found = set()
    for name in names:
        data = disk.get(name, b"")
        found |= {line for line in data.split(b"\n")[:-1] if PASSING.sub(rb"\g<1>0", line) in good}
    return found


def crash(args, has, trials=None, names=("out.jsonl",), again=False):
    """Loses power at every moment of a run, and resumes. again: loses power once more while it is resumed."""
    ops, want = record(args, has)
    on = args if "--resume" in args else (*args, "--resume")
    for k, state, disk in losses(ops, has, trials or O.trials):
        what = "after call %d (%s %s)" % (k, ops[k - 1][0] if k else "none", ops[k - 1][-1] if k and isinstance(ops[k - 1][-1], str) else "")
        sure = sure_of(disk, names, want)
        if again:
            twice, _ = record(on, state)
            every = list(losses(twice, state, 1))
            j, state, disk = RNG.choice(every)
            sure = {line for line in sure if line in {x for name in names for x in lines_of(disk.get(name, b""))}} | sure_of(disk, names, want)
            what += ", then after call %d of %d" % (j, len(twice))
        resumed(on, state, want, sure, what)


@case
def batch():
    """a file of results, begun"""
    crash(OUT, {"in.jsonl": jsonl(LINES)})


@case
def batch_twice():
    """power is lost again while that is resumed"""
    crash(OUT, {"in.jsonl": jsonl(LINES)}, trials=1, again=True)


def edited():
    """The results of lines of which one is another one by now, with a FILE.stale of earlier runs."""
    old = {"in.jsonl": jsonl([dict(LINES[0], prompt="old"), LINES[1], dict(LINES[2], prompt="old too"), LINES[3]])}
    _, has = record(OUT, old)
    other = lines_of(has["out.jsonl"])[0].replace(b'"custom_id":"line 0"', b'"custom_id":"earlier"')
    return dict(has, **{"in.jsonl": jsonl(LINES), "out.jsonl.stale": other + b"\n"}), other


@case
def stale():
    """records that answer no line move to FILE.stale, which has some, and are nowhere lost"""
    has, earlier = edited()
    ops, want = record((*OUT, "--resume"), has)
    gone = set(lines_of(want["out.jsonl.stale"]))
    check(len(gone) == 3 and earlier in gone, "three stale records")
    for k, state, disk in losses(ops, has, O.trials):
        what = "after call %d (%s)" % (k, ops[k - 1][0] if k else "none")
        now = resumed((*OUT, "--resume"), state, want, sure_of(disk, ("out.jsonl",), want), what)
        same(set(lines_of(now["out.jsonl.stale"])), gone, what + ": FILE.stale")


@case
def retried():
    """lines with an error run again"""
    bad = [LINES[0], dict(LINES[1], prompt=7), LINES[2], dict(LINES[3], max_tokens="x")]
    _, has = record(OUT, {"in.jsonl": jsonl(bad)}, rc=1)
    PLACE.prepare(has)
    args = (*OUT, "--resume", "--retry-errors")
    ops, want = record(args, has, rc=1)
    for k, state, disk in losses(ops, has, O.trials):
        PLACE.prepare(state)
        r = PLACE.run(args)
        check(r.rc == 1, "after call %d: %r" % (k, r))
        same(plain(PLACE.files()["out.jsonl"]), plain(want["out.jsonl"]), "after call %d" % k)


@case
def ordered():
    """a file that is sorted at its end"""
    crash((*OUT, "--ordered"), {"in.jsonl": jsonl(LINES)}, trials=1)


@case
def table():
    """a table, made of records"""
    crash((*BATCH, "-o", "out.csv"), {"in.jsonl": jsonl(LINES)}, names=("out.csv.jsonl",))


@case
def full():
    """the disk is full: what the message calls complete is on disk"""
    has = {"in.jsonl": jsonl(LINES)}
    _, want = record(OUT, has)
    sizes = [len(want["out.jsonl.llmrun"])]
    for line in want["out.jsonl"].splitlines(keepends=True):
        sizes.append(sizes[-1] + len(line))
    for n in range(1, len(sizes)):
        PLACE.prepare(has)
        r = PLACE.run(OUT, DISTURB_UNDER=PLACE.path, DISTURB_RECORD=RECORD, DISTURB_SPACE=str(sizes[n] - 1))
        check(r.rc == 3 and b"No space left on device; %d results are complete" % (n - 1) in r.err, "%r" % r)
        disk = Disk(has)
        for op in recorded():
            disk.play(*op)
        same(len(lines_of(disk.kept()["out.jsonl"])), n - 1, "records on disk")
        state = disk.kept()
        resumed((*OUT, "--resume"), state, want, lines_of(state["out.jsonl"]), "full after %d" % (n - 1))


# --- files that are replaced as a whole ---

TEXT = b"the quick brown fox jumps over the lazy dog. " * 4


def replaced(args, has, name, trials=None, usable=None):
    """Loses power at every moment of a run that writes this file: it is the old or the new one. usable: a command that goes on with it."""
    ops, want = record(args, has)
    seen = set()
    for k, state, _ in losses(ops, has, trials or 5 * O.trials):
        got = state.get(name)
        check(got in (has.get(name), want[name]), "after call %d (%s): %s is neither the old nor the new file: %s" % (k, ops[k - 1][0] if k else "none", name, short(got)))
        check({n for n in state if n.startswith(name + ".tmp") or n in {**has, **want}} == set(state), "left behind: %s" % sorted(state))
        seen.add(got == want[name])
    same(seen, {False, True}, "both are seen")
    if usable:
        PLACE.prepare(want)
        before = PLACE.run(usable)
        for data in (has.get(name), want[name]):
            PLACE.prepare({**want, name: data} if data else {n: d for n, d in want.items() if n != name})
            r = PLACE.run(usable)
            same((r.rc, r.out), (before.rc, before.out), "with that file")


GREEDY = ("-m", MODEL, "--raw", "-f", "text", "--temp", "0", "-n", "6")


@case
def model():
    """a quantized model, in place of an older one"""
    replaced(("-m", MODEL, "--quantize", "q4_0", "-o", "q.gguf"), {"q.gguf": b"GGUF old"}, "q.gguf")


@case
def new_model():
    """a quantized model, new"""
    replaced(("-m", MODEL, "--quantize", "q8_0", "-o", "q.gguf"), {}, "q.gguf")


@case
def imatrix():
    """an importance matrix"""
    replaced(("-m", MODEL, "--imatrix-out", "im.gguf", "-f", "text", "-c", "32"), {"text": TEXT}, "im.gguf")


@case
def prompt_cache():
    """a prompt cache that is replaced"""
    args = (*GREEDY, "--prompt-cache", "pc.gguf")
    _, has = record(args, {"text": TEXT[:80]})
    replaced(args, dict(has, text=TEXT), "pc.gguf", usable=args)


@case
def lookup_cache():
    """a lookup cache that is replaced"""
    args = (*GREEDY, "--lookup", "--lookup-cache", "lc.gguf")
    _, has = record(args, {"text": TEXT[:80]})
    replaced(args, dict(has, text=TEXT), "lc.gguf", usable=args)


@case
def kept_text():
    """answers, tables and logits in a file are on disk when the run has ended"""
    for args, has in ((("-m", MODEL, "--raw", "-p", "Hello", "--no-stdin", "--temp", "0", "-n", "6", "-o", "out"), {}),
                      (("-m", MODEL, "--raw", "-p", "Hello", "--no-stdin", "--temp", "0", "-n", "6", "-o", "out"), {"out": b"old"}),
                      (("-m", MODEL, "--raw", "-p", "Hello", "--no-stdin", "--logits", "out"), {}),
                      (("-m", MODEL, "--embed", "--batch", "in.txt", "-o", "out.npy"), {"in.txt": b"one\ntwo\n"})):
        ops, _ = record(args, has)
        for _ in losses(ops, has, 1):
            pass


@case
def damaged_caches():
    """a cache with sectors that read as zeros is refused or used in part: the text is the same"""
    for option, name in (("--prompt-cache", "pc.gguf"), ("--lookup-cache", "lc.gguf")):
        args = (*GREEDY, "--lookup", option, name)
        _, has = record(args, {"text": TEXT})
        PLACE.prepare({"text": TEXT})
        want = PLACE.run((*GREEDY, "--lookup"))
        n = (len(has[name]) + SECTOR - 1) // SECTOR
        for _ in range(20 * O.trials):
            data, lost = bytearray(has[name]), RNG.sample(range(n), RNG.randint(1, min(n, 4)))
            for s in lost:
                data[s * SECTOR:(s + 1) * SECTOR] = bytes(len(data[s * SECTOR:(s + 1) * SECTOR]))
            PLACE.prepare({"text": TEXT, name: bytes(data)})
            r = PLACE.run(args)
            check((r.rc, r.out, r.err) == (0, want.out, b""), "%s without sectors %s: %r" % (name, lost, r))


if __name__ == "__main__":
    O = arguments("binary", "library", trials=4, seed=1)
    RNG.seed(O.seed)
    sys.exit(PLACE.walk("power", O, lambda: print("%d losses of power" % STATES[0])))
