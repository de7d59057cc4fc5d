#!/usr/bin/env python3
"""Two versions of llmrun in turn on the same model: the ratios of their rates, as Markdown or CSV.

    make bench-versions BEFORE=COMMIT [AFTER=COMMIT] [MODEL=model.gguf] [VERSIONS="--only decode,seq8 --rounds 5"]
    python3 tests/bench/versions.py --before COMMIT --after ./llmrun --model model.gguf --minutes 4
    make bench-versions BEFORE=COMMIT MODEL=model.gguf VERSIONS="--steps 1,2,4,8 --rounds 5"

A version is a program or a commit. A commit is built with `make` in build/versions/COMMIT and kept there.

  prefill512, prefill32     a prompt of 512 or 32 tokens
  decode                    32 tokens
  seq8, seq32               32 tokens for each of 8 or 32 sequences
  depth3500, depth16000     16 tokens behind 3,500 or 16,000 others
  batch                     64 prompts over one document of 1,000 tokens, 32 new tokens each, from the start to the end of the program
  shipped                   256 tokens of models/pip-q4_k_m.gguf

  --steps N,N,..            instead of all these: the time of a step with a row of each of N sequences, in ms; --steps alone: 1 to 64. A run of a
                            version measures all N. A mark stands at each N that gives fewer tokens a second than a smaller N does.

A round runs each test with both versions, one right after the other; every other round begins with the second version. A ratio is the rate after over
the rate before within one round: above 1 is faster. The table has the medians of the rounds. After --minutes no further round begins a
test that has been run. It also says whether the answers of `batch` are the same. Timings do not change the exit code; 2: a version
does not build or run. As everywhere, only a quiet machine gives figures worth keeping.
"""
import argparse, json, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time

import batch, peer, results
from peer import Failed

med = statistics.median
SHIPPED = os.path.join(results.ROOT, "models", "pip-q4_k_m.gguf")
BENCHES = {                                           # name: options of --bench, repetitions in one run
    "prefill512": (["-p", "512", "-n", "0"], 1),
    "prefill32": (["-p", "32", "-n", "0"], 3),
    "decode": (["-p", "0", "-n", "32"], 3),
    "seq8": (["-p", "0", "-n", "32", "-npl", "8"], 1),
    "seq32": (["-p", "0", "-n", "32", "-npl", "32"], 1),
    "depth3500": (["-p", "0", "-n", "16", "-d", "3500"], 3),
    "depth16000": (["-p", "0", "-n", "16", "-d", "16000"], 3),
    "shipped": (["-p", "0", "-n", "256", "-m", SHIPPED], 3),
}
TESTS = [name for name in BENCHES if name != "shipped"] + ["batch", "shipped"]
STEPS, STEP_TOKENS = "1,2,3,4,5,6,7,8,12,16,24,32,48,64", 8                  # sequences side by side; tokens of each


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- versions ---

def built(commit):
    """The program of a commit, built where it is missing."""
    folder = os.path.join(results.ROOT, "build", "versions", commit)
    program = os.path.join(folder, "llmrun")
    if not os.path.exists(program):
        say("building %s" % commit)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with subprocess.Popen(["git", "-C", results.ROOT, "archive", commit], stdout=subprocess.PIPE) as source:
            subprocess.run(["tar", "-x", "-C", folder], stdin=source.stdout, check=True)
        peer.run("make", "-C", folder, "COMMIT=" + commit, "llmrun")
    return program


def version(text):
    """The program that --before or --after means."""
    if os.path.isfile(text) and os.access(text, os.X_OK):
        return os.path.abspath(text)
    try:
        commit = peer.run("git", "-C", results.ROOT, "rev-parse", "--verify", "--short=10", text + "^{commit}").strip()
    except Failed:
        raise Failed("%s is neither a program nor a commit" % text)
    return built(commit)


# --- one run of one version: its rate in tokens/s, its peak in bytes (None: unknown) ---

def bench_run(o, name):
    options, repetitions = BENCHES[name]
    model = [] if "-m" in options else ["-m", o.model]
    row = peer.rows(peer.run(o.llmrun, "--bench", "-q", *model, *options, "-r", str(repetitions), "-o", "json", *batch.threads(o)), o.llmrun)
    return row["avg_ts"], row.get("peak_rss")


def batch_run(o, load, answers):
    """answers: a list that gets the texts of this run, in the order of the lines."""
    with tempfile.TemporaryDirectory(prefix="llmrun-versions-") as folder:
        seconds, _ = batch.own_run(o, load, folder)
        with open(os.path.join(folder, "out.jsonl"), "rb") as f:
            found = [json.loads(line.decode("utf-8", "replace")) for line in f]
    answers.append([r["response"]["body"]["choices"][0]["text"] for r in sorted(found, key=lambda r: int(r["id"].split("_")[2]))])
    return (load.n_prompt + load.n_new) / seconds, None


class Test:
    """One test, its rates and peaks: a pair (before, after) for each round."""

    def __init__(self, name, run):
        self.name, self.run, self.rates, self.peaks = name, run, [], []

    def round(self, versions):
        found = [None, None]
        for i in (0, 1) if len(self.rates) % 2 == 0 else (1, 0):
            found[i] = self.run(versions[i])
        self.rates.append(tuple(rate for rate, _ in found))
        self.peaks.append(tuple(peak for _, peak in found))
        a, b = self.rates[-1]
        say("%s, round %d: %.2f and %.2f t/s, %.3f" % (self.name, len(self.rates), a, b, b / a))

    def figures(self):
        """Medians of the rates, median, least and most of the ratios, largest peaks in MiB."""
        ratio = [b / a for a, b in self.rates]
        peak = [max(p) / 2**20 if None not in p else None for p in zip(*self.peaks)]
        return [self.name, len(ratio)] + [med(r) for r in zip(*self.rates)] + [med(ratio), min(ratio), max(ratio)] + peak


def step_run(o):
    """Milliseconds of a step for each number of rows."""
    text = peer.run(o.llmrun, "--bench", "-q", "-m", o.model, "-p", "0", "-n", str(STEP_TOKENS), "-npl", ",".join(map(str, o.steps)), "-r", "1", "-o", "json",
                    *batch.threads(o))
    rates = [row["avg_ts"] for row in json.loads(text)]
    if len(rates) != len(o.steps):
        raise Failed("%s: expected %d tests, found %d" % (o.llmrun, len(o.steps), len(rates)))
    return [1e3 * n / rate for n, rate in zip(o.steps, rates)]


def tests(o, answers):
    if "batch" in o.only:
        o.vocab = batch.vocabulary(argparse.Namespace(llmrun=o.versions[0], model=o.model))
        load = batch.shared(o, random.Random(1))
    for name in o.only:
        yield Test(name, (lambda v, name=name: bench_run(v, name)) if name != "batch" else (lambda v: batch_run(v, load, answers)))


def measure(o, every):
    """Rounds of every test, until there are enough of them or the time has passed."""
    versions = [argparse.Namespace(llmrun=v, model=o.model, threads=o.threads, parallel=32, own="-c 2048") for v in o.versions]
    end = time.monotonic() + 60 * o.minutes if o.minutes else float("inf")
    try:
        for i in range(o.rounds):
            for test in every:
                if i and time.monotonic() >= end:
                    return
                test.round(versions)
    except KeyboardInterrupt:
        say("stopped: whole rounds are kept")


def measure_steps(o):
    """[round][version][number of rows]: milliseconds of a step."""
    versions = [argparse.Namespace(llmrun=v, model=o.model, threads=o.threads, steps=o.steps) for v in o.versions]
    end, found = time.monotonic() + 60 * o.minutes if o.minutes else float("inf"), []
    try:
        while len(found) < o.rounds and (not found or time.monotonic() < end):
            order, pair = (0, 1) if len(found) % 2 == 0 else (1, 0), [None, None]
            for i in order:
                pair[i] = step_run(versions[i])
            found.append(pair)
            say("round %d: %s" % (len(found), " ".join("%d: %.3f" % (n, b / a) for n, a, b in zip(o.steps, *pair))))
    except KeyboardInterrupt:
        say("stopped: whole rounds are kept")
    return found


# --- what is printed ---

COLUMNS = ("test", "rounds", "before t/s", "after t/s", "ratio", "least", "most", "before MiB", "after MiB")
FORMS = ("%s", "%d", "%.2f", "%.2f", "%.3f", "%.3f", "%.3f", "%.1f", "%.1f")


STEP_COLUMNS = ("rows", "rounds", "before ms", "after ms", "ratio", "least", "most", "before t/s", "after t/s", "falls")
STEP_FORMS = ("%d", "%d", "%.2f", "%.2f", "%.3f", "%.3f", "%.3f", "%.1f", "%.1f", "%s")


def step_figures(o, found):
    """For each number of rows: medians, ratios of the rates (above 1: faster), whether fewer rows gave more tokens a second after the change."""
    best = 0
    for i, n in enumerate(o.steps):
        before, after = [r[0][i] for r in found], [r[1][i] for r in found]
        ratio, rate = [a / b for a, b in zip(before, after)], 1e3 * n / med(after)
        yield [n, len(found), med(before), med(after), med(ratio), min(ratio), max(ratio), 1e3 * n / med(before), rate, "by %.1f %%" % (100 - 100 * rate / best) if rate < best else ""]
        best = max(best, rate)


def show(form, columns, forms, figures):
    rows = [[f % x if x is not None else "" for f, x in zip(forms, row)] for row in figures]
    if form == "csv":
        rows, before, between, after = [[c.replace(" ", "_").replace("/", "_") for c in columns]] + rows, "", ",", ""
    else:
        rows, before, between, after = [columns, ["---"] * len(columns)] + rows, "| ", " | ", " |"
    for row in rows:
        print(before + between.join(row) + after)


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--before", required=True, metavar="VERSION", help="a commit or a program")
    ap.add_argument("--after", default=os.path.join(results.ROOT, "llmrun"), metavar="VERSION", help="a commit or a program (./llmrun)")
    ap.add_argument("--model", default=SHIPPED)
    ap.add_argument("--only", default=",".join(TESTS), help="tests, with commas between (all)")
    ap.add_argument("--steps", nargs="?", const=STEPS, metavar="N,N", help="the time of a step with so many rows, in place of the tests (%s)" % STEPS)
    ap.add_argument("--rounds", type=int, default=10)
    ap.add_argument("--minutes", type=float, default=0, help="begin no further run after so many minutes, but each test once; 0: no limit (0)")
    ap.add_argument("--threads", "-t", type=int, default=0, help="threads of both; without it each takes its own default")
    ap.add_argument("--scale", type=float, default=1.0, help="share of the lines of batch (1)")
    ap.add_argument("--format", choices=("md", "csv"), default="md")
    o = ap.parse_args()
    o.only = o.only.split(",")
    if set(o.only) - set(TESTS) or o.rounds < 1 or not 0 < o.scale <= 10:
        ap.error("expected --only %s, one round or more, a scale above 0 and of at most 10" % ",".join(TESTS))
    if o.steps:
        if not all(n.isdigit() and 1 <= int(n) <= 512 for n in o.steps.split(",")):
            ap.error("expected --steps with numbers from 1 to 512")
        o.steps = sorted({int(n) for n in o.steps.split(",")})
    return o


def main():
    o = options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        o.versions, answers = [version(o.before), version(o.after)], []
        start = peer.cpu_time()
        if o.steps:
            table = (STEP_COLUMNS, STEP_FORMS, list(step_figures(o, measure_steps(o))))
        else:
            every = list(tests(o, answers))
            measure(o, every)
            table = (COLUMNS, FORMS, [test.figures() for test in every if test.rates])
        names = [peer.run(v, "--version").splitlines()[0] for v in o.versions]
    except (Failed, OSError, subprocess.CalledProcessError) as why:
        print("versions.py: %s" % why, file=sys.stderr)
        return 2
    if o.format == "md":
        print("%s; before: %s; after: %s\n" % (os.path.basename(o.model), *names))
    show(o.format, *table)
    notes = [peer.meanwhile(start)] + ["The answers of batch %s." % ("are the same" if all(a == answers[0] for a in answers) else "DIFFER")] * bool(answers)
    print("".join("\n" + n for n in notes if n), file=sys.stdout if o.format == "md" else sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
