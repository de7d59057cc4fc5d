#!/usr/bin/env python3
"""Stored measurements: tests/bench/results/*.csv, and tests/bench/RESULTS.md made from them.

    python3 tests/bench/results.py            write RESULTS.md
    python3 tests/bench/results.py --check    exit 1 if RESULTS.md is not what the CSV files give

One row of a CSV file is one figure of one command. The bench scripts append rows (--csv FOLDER); nothing else edits them. An empty cell
means "not recorded". `commit` is the commit that was measured; for rows before 2026-11-22 08:00 it is the commit that recorded the figure.
"""
import argparse, csv, datetime, os, shlex, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.path.join(HERE, "results")
PAGE = os.path.join(HERE, "RESULTS.md")
OWN, PEERS = "llmrun", ("llama.cpp", "ik_llama.cpp")

COMMON = "date machine commit set model type".split()
FIELDS = {
    # tokens_s, least, most: median and range over the rounds; ratio: llmrun's rate over this row's, median within the rounds
    "speed": COMMON + "test depth sequences program options tokens_s least most rounds ratio ratio_least ratio_most command note".split(),
    # ratio: to the same program without guesses
    "speculation": COMMON + "load program guesses options tokens_s ratio ratio_least ratio_most rounds prompts command note".split(),
    "acceptance": COMMON + "guesses acceptance speedup rounds command note".split(),
    "batch": COMMON + "load program slots prompt_tokens new_tokens shared_tokens seconds ratio rounds command note".split(),
    "quality": COMMON + "mib ppl answers program method kld command note".split(),
    "other": "date machine commit model type what program value unit rounds command note".split(),
    "machines": ["machine", "description"],
}


# --- rows ---

def path_of(kind, folder=FOLDER):
    return os.path.join(folder, kind + ".csv")


def read(kind, folder=FOLDER):
    """The rows of one kind, in the order in which they were appended."""
    if not os.path.exists(path_of(kind, folder)):
        return []
    with open(path_of(kind, folder), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    if rows and list(rows[0]) != FIELDS[kind]:
        raise ValueError("%s: columns %s, expected %s" % (path_of(kind, folder), ",".join(rows[0]), ",".join(FIELDS[kind])))
    return rows


def number(x):
    """Four digits are all that a measurement has."""
    return str(x) if not isinstance(x, float) else "%.0f" % x if abs(x) >= 1e4 else "%.4g" % x


def append(kind, rows, folder=FOLDER):
    """Adds rows at the end of a file, which is made when it is not there."""
    unknown = {k for r in rows for k in r} - set(FIELDS[kind])
    if unknown:
        raise ValueError("%s has no column %s" % (kind, ", ".join(sorted(unknown))))
    os.makedirs(folder, exist_ok=True)
    new = not os.path.exists(path_of(kind, folder))
    with open(path_of(kind, folder), "a", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, FIELDS[kind], restval="", lineterminator="\n")
        if new:
            out.writeheader()
        out.writerows({k: number(v) for k, v in r.items()} for r in rows)


def commit():
    """The commit of the working tree, with a plus where it has changes."""
    git = ["git", "-C", ROOT]
    try:
        name = subprocess.run(git + ["rev-parse", "--short=7", "HEAD"], capture_output=True, text=True).stdout.strip()
        changed = subprocess.run(git + ["status", "--porcelain", "--", "llmrun.c", "ggml_kernels.h", "src", "Makefile"], capture_output=True, text=True).stdout
    except OSError:
        return ""
    return name + ("+" if changed.strip() else "")


def command_line(name, argv, leave=("--llmrun", "--peer", "--peers", "--csv", "--set", "--machine", "--name", "--peer-name")):
    """The command as a row has it: without the places of this machine and without where the rows go."""
    kept, skip = [], False
    for word in argv:
        if not skip and word not in leave:
            kept.append(os.path.basename(word) if "/" in word else word)
        skip = not skip and word in leave
    return " ".join([name] + [shlex.quote(w) for w in kept])


def cpu_field(name):
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.split(":")[0].strip() == name)
    except (OSError, StopIteration):
        return ""


def machine():
    """A short name for this machine; --machine gives another where it is already taken by a different one."""
    vendor, flags = cpu_field("vendor_id"), cpu_field("flags").split()
    name = {"GenuineIntel": "intel", "AuthenticAMD": "zen4" if "avx512_bf16" in flags else "amd"}.get(vendor, os.uname().machine)
    return name if "avx512f" in flags or vendor not in ("GenuineIntel",) else name + "-avx2"


def know(name, folder=FOLDER):
    """Describes a machine that has no row yet."""
    if any(r["machine"] == name for r in read("machines", folder)):
        return
    words = "%d CPUs, %s, %d GiB" % (os.cpu_count(), cpu_field("model name") or os.uname().machine,
                                     round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30))
    append("machines", [{"machine": name, "description": words}], folder)


def here(machine, name, model, command):
    """The cells that all rows of one command share."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "machine": machine, "commit": commit(), "set": name,
            "model": model, "command": command}


# --- the page ---

def spread(r, value, least, most):
    if not r[value]:
        return ""
    same = not r[least] or r[least] == r[most]
    return r[value] if same else "%s (%s to %s)" % (r[value], r[least], r[most])


def cell(text):
    return str(text).replace("|", "\\|").replace("<", "\\<")


def table(columns, rows):
    out = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return out + ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows]


def newest_first(rows):
    """By date; rows of one date stay in their order."""
    return sorted(rows, key=lambda r: r["date"], reverse=True)


def code(text):
    return "`%s`" % text if text else ""


def joined(rows):
    """Rows of several programs for one test side by side: {program: row}. A program that comes again begins a new line."""
    lines, of = [], {}
    for r in rows:
        same = of.setdefault(tuple(r[k] for k in COMMON + ["test", "depth", "sequences"]), [])
        line = same[-1] if same and r["program"] not in same[-1] else None
        if line is None:
            line = {}
            same.append(line)
            lines.append(line)
        line[r["program"]] = r
    return lines


def test_name(r):
    return r["test"] + (" x%s" % r["sequences"] if r["sequences"] != "1" else "") + (" @ d%s" % r["depth"] if r["depth"] != "0" else "")


def speed_line(line):
    first = next(iter(line.values()))
    cells = [first["date"], first["machine"], first["commit"], first["model"], first["type"], test_name(first)]
    for program in (OWN,) + PEERS:
        r = line.get(program)
        if r:
            rate = spread(r, "tokens_s", "least", "most")
            cells.append(rate + (", " + code(r["options"]) if r["options"] else ""))
        else:
            cells.append("")
        if program != OWN:
            cells.append(spread(r, "ratio", "ratio_least", "ratio_most") if r else "")
    notes = []
    for r in line.values():
        if r["note"] and r["note"] not in notes:
            notes.append(r["note"])
    return cells + [first["rounds"], code(first["command"]), "; ".join(notes)]


def speed(rows):
    head = ["date", "machine", "commit", "model", "type", "test", "llmrun, tokens/s", "llama.cpp", "ratio", "ik_llama.cpp", "ratio", "rounds", "command", "note"]
    return table(head, map(speed_line, joined(newest_first(rows))))


def plain(kind, columns):
    """A table whose cells are the CSV's, under other names where a pair says so."""
    def make(rows):
        pick = [c if isinstance(c, tuple) else (c, c.replace("_", " ")) for c in columns]
        return table([name for _, name in pick],
                     ([code(r[key]) if key == "command" else r[key] for key, _ in pick] for r in newest_first(rows)))
    return make


def guesses(rows):
    head = ["date", "machine", "commit", "model", "load", "program", "guesses from", "how", "tokens/s", "ratio to none", "rounds", "prompts", "command", "note"]
    return table(head, ([r["date"], r["machine"], r["commit"], "%s %s" % (r["model"], r["type"]), r["load"], r["program"], r["guesses"], r["options"],
                         r["tokens_s"], spread(r, "ratio", "ratio_least", "ratio_most") or
                         ("%s to %s" % (r["ratio_least"], r["ratio_most"]) if r["ratio_least"] else ""),
                         r["rounds"], r["prompts"], code(r["command"]), r["note"]] for r in newest_first(rows)))


def quality(rows):
    """One line a file's type: a column for each program and method."""
    ways = [(OWN, "plain"), (OWN, "imatrix"), (OWN, "calibrated"), ("llama.cpp", "plain"), ("llama.cpp", "imatrix")]
    lines = {}
    for r in newest_first(rows):
        lines.setdefault((r["date"], r["commit"], r["model"], r["type"], r["mib"], r["command"]), {})[r["program"], r["method"]] = r
    out = []
    for (date, made, model, kind, mib, command), of in lines.items():
        judged = next((r for r in of.values() if r["ppl"]), {"ppl": "", "answers": ""})
        out.append([date, made, model, kind, mib, judged["ppl"], judged["answers"]] + [of[w]["kld"] if w in of else "" for w in ways] + [code(command)])
    head = ["date", "commit", "model", "type", "MiB", "PPL", "answers %"] + ["KLD %s, %s" % w for w in ways] + ["command"]
    return table(head, out)


SECTIONS = [
    ("speed", "Prefill and decode", "`pp512` is the prefill of 512 tokens, `tg32` the decode of 32; `x8`: 8 sequences side by side, the rate is of all together; "
     "`@ d3500`: behind 3,500 tokens. Behind a rate stands its range over the rounds. A ratio is llmrun's rate over the peer's, made within each round; where no "
     "range stands behind it, none was recorded.", speed),
    ("speculation", "Speculative decoding", "Rates of decoding, the first token of an answer left out. The ratio is to the same program without guesses.", guesses),
    ("acceptance", "What acceptance a draft must reach", "Decode with a fixed number of guesses a step, each right with the given chance if those before it are; the draft's own steps "
     "are counted.", plain("acceptance", ["date", "machine", "commit", "model", "type", ("guesses", "guesses a step"), ("acceptance", "acceptance, %"), ("speedup", "speed-up"),
                                          "command", "note"])),
    ("batch", "Files of prompts", "Seconds from start to end; the ratio is to llmrun's seconds on the same file.", plain("batch", [
        "date", "machine", "commit", "model", "type", "load", "program", "slots", "prompt_tokens", "new_tokens", "shared_tokens", "seconds", "ratio", "rounds", "command", "note"])),
    ("quality", "What quantisation costs", "Mean KL divergence (KLD) from the unquantised model on held-out text, for a plain file, one made with an importance matrix and one calibrated; "
     "PPL and answers (exact one-hop answers) are of the calibrated file. All files are judged by llmrun.", quality),
    ("other", "Start, memory, shared CPUs, OpenMP", "", plain("other", ["date", "machine", "commit", "model", "type", "what", "program", "value", "unit", "rounds", "command", "note"])),
]

HEAD = """# Results

One row is one measurement with its date, machine, commit and command. The file is made by `make plots` from the CSV files in `tests/bench/results/`, to which
`make results` and the bench scripts (`--csv`) append; pictures of the newest rows are in `tests/bench/plots/`. The lab book with what was tried and
dropped is [NOTES.md](NOTES.md).

- `rounds` says how often the programs ran in turn. **One round is one measurement**: it has no range, and on these shared machines
  another day may differ by a tenth or two. An empty cell was not recorded.
- Rates of different dates are not comparable with each other: the machines are virtual and their memory bandwidth changes. Ratios within a row are.
- `commit` is what was measured; in rows up to 2026-11-22 08:00 it is the commit that recorded the figure.
- Peers are llama.cpp and ik_llama.cpp of August 2026, built with native flags, with the same number of threads (two).
"""


def page(folder=FOLDER):
    out = [HEAD]
    out += ["| machine | what it is |", "|---|---|"] + ["| %s | %s |" % (r["machine"], r["description"]) for r in read("machines", folder)]
    for kind, title, words, make in SECTIONS:
        out += ["", "## " + title, ""] + ([words, ""] if words else []) + make(read(kind, folder))
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--check", action="store_true", help="compare, write nothing")
    o = ap.parse_args()
    new = page()
    if not o.check:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(new)
        return 0
    with open(PAGE, encoding="utf-8") as f:
        if f.read() == new:
            return 0
    print("RESULTS.md: not what tests/bench/results/ gives (make plots refreshes it)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
