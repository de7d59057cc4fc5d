#!/usr/bin/env python3
"""A fresh set of measurements in a given time: llmrun and its peers in turn, appended to tests/bench/results/.

    make results PEERS=path/to/llama.cpp/build/bin [IK=path/to/ik_llama.cpp/build/bin] MODEL_DIR=DIR [MINUTES=15] [RESULTS="--types Q4_K_M,Q8_0"]
    python3 tests/bench/measure.py --peers DIR --model-dir DIR --minutes 15 --parts types,sequences,depth,acceptance

MODEL_DIR holds TYPE.gguf (Q4_K_M.gguf ...), all of one model. What is not there is made: models/pip-f16.gguf inflated to 1.1B
parameters (tests/gen/inflate.py) and quantised, some 0.4 to 2.2 GB a type; give the folder of the last run again to skip that.

  types       prefill of 512 and decode of 32 tokens of every type, llmrun, llama.cpp and ik_llama.cpp one after the other
  sequences   1 to 32 sequences of Q4_K_M side by side, against llama-batched-bench
  depth       decode of 32 tokens behind 0 to 4,096, Q4_K_M
  acceptance  decode with guesses that are right by a given chance (llmrun alone, Pip's draft model)

Each part runs once, whatever the time; while time is left, further rounds of types, sequences and depth follow. A figure is the median of its rounds, with
the least and the most; the ratio is the median of those within the rounds. One round of all takes some 15 minutes on two CPUs; fewer --types leave time for more.
"""
import argparse, os, shlex, signal, statistics, subprocess, sys, time

import peer, results
from peer import Failed

TYPES = "Q4_K_M,Q8_0,Q6_K,Q5_K_M,Q4_0,Q3_K_M,Q2_K,IQ4_XS,MXFP4,F16,BF16"
INFLATED = "Pip inflated to 1.1B"
COUNTS = (1, 2, 4, 8, 16, 32)
DEPTHS = (0, 1024, 2048, 4096)
med = statistics.median


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- models ---

def quantised(o, kind):
    """The file of a type in MODEL_DIR, made where it is missing."""
    path = os.path.join(o.model_dir, kind + ".gguf")
    if os.path.exists(path):
        return path
    base = os.path.join(o.model_dir, "F16.gguf")
    if not os.path.exists(base):
        say("making %s" % base)
        subprocess.run([sys.executable, os.path.join(results.ROOT, "tests", "gen", "inflate.py"), os.path.join(results.ROOT, "models", "pip-f16.gguf"),
                        "--like", "1.1b", "-o", base + ".part"], check=True)
        os.replace(base + ".part", base)
    if kind != "F16":
        say("making %s" % path)
        peer.run(o.llmrun, "-q", "-m", base, "--quantize", kind, "-o", path)
    return path


# --- one measurement of one program ---

def threads(o):
    return ["-t", str(o.threads)] if o.threads else []


def own_bench(o, model, test):
    return peer.rows(peer.run(o.llmrun, "--bench", "-q", "-m", model, *test, "-r", "1", "-o", "json", *threads(o)), "llmrun")["avg_ts"]


def their_bench(o, program, model, test):
    return peer.rows(peer.run(program, "-m", model, *test, "-r", "1", "-o", "json", *threads(o)), program)["avg_ts"]


LAYOUTS = ([], ["-rtr", "1"])
better = {}                                            # (model, prefill or decode): which of ik_llama.cpp's layouts was faster the first time


def ik_bench(o, model, test):
    """The better of its two layouts, as its users would choose: both are tried once, then the better one is kept."""
    run = lambda layout: their_bench(o, os.path.join(o.ik, "llama-bench"), model, test + LAYOUTS[layout])
    key = model, test[:4] == ["-p", "0", "-n", "32"]
    if key in better:
        return run(better[key])
    rates = [run(0), run(1)]
    better[key] = int(rates[1] > rates[0])
    return max(rates)


def batched(o, model, n):
    program = argparse.Namespace(peers=o.peers, model=model, depth=8, new=32, threads=o.threads, theirs_bench="")
    import batch
    return batch.their_decode(program, n)


# --- what is compared: rates of each program, a list with a figure for each round ---

class Test:
    """One test of one model file: who runs it, and what came of it."""

    def __init__(self, kind, name, depth, sequences, runs):
        self.kind, self.name, self.depth, self.sequences = kind, name, depth, sequences
        self.runs, self.rates = runs, {program: [] for program in runs}

    def round(self):
        for program, run in self.runs.items():
            try:
                self.rates[program].append(run())
            except Failed as why:                      # such as a type that a peer does not know
                say("%s %s, %s: %s" % (self.kind, self.name, program, why))
                self.rates[program].append(None)
        say("%s %s x%d @ d%d: %s" % (self.kind, self.name, self.sequences, self.depth,
                                     ", ".join("%s %s" % (p, "-" if r[-1] is None else "%.1f" % r[-1]) for p, r in self.rates.items())))

    def rounds(self):
        """Rounds that every program has run."""
        return min(map(len, self.rates.values()))

    def rows(self, common):
        whole = self.rounds()
        own = self.rates[results.OWN][:whole]
        for program, rates in self.rates.items():
            rates = rates[:whole]
            good = [r for r in rates if r]
            if not good:
                continue
            row = dict(common, type=self.kind, test=self.name, depth=self.depth, sequences=self.sequences, program=program, tokens_s=float(med(good)),
                       least=float(min(good)), most=float(max(good)), rounds=len(good))
            ratio = [a / b for a, b in zip(own, rates) if a and b]
            if program != results.OWN and ratio:
                row.update(ratio="%.2f" % med(ratio), ratio_least="%.2f" % min(ratio), ratio_most="%.2f" % max(ratio))
            if program == "ik_llama.cpp":
                row["note"] = "ik_llama.cpp: the better of plain and -rtr 1"
            yield row


def bench_test(o, kind, name, options, depth=0):
    model = quantised(o, kind)
    at = ["-d", str(depth)] if depth else []
    runs = {results.OWN: lambda: own_bench(o, model, options + at)}
    if o.peers:
        runs["llama.cpp"] = lambda: their_bench(o, os.path.join(o.peers, "llama-bench"), model, options + at)
    if o.ik:
        runs["ik_llama.cpp"] = lambda: ik_bench(o, model, options + at)
    return Test(kind, name, depth, 1, runs)


def make_types(o):
    return [bench_test(o, kind, name, options) for kind in o.types
            for name, options in (("pp512", ["-p", "512", "-n", "0"]), ("tg32", ["-p", "0", "-n", "32"]))]


def make_depth(o):
    return [bench_test(o, "Q4_K_M", "tg32", ["-p", "0", "-n", "32"], d) for d in DEPTHS]


def make_sequences(o):
    model, out = quantised(o, "Q4_K_M"), []
    for n in COUNTS:
        runs = {results.OWN: lambda n=n: own_bench(o, model, ["-p", "0", "-n", "32", "-d", "8", "-npl", str(n)])}
        if o.peers:
            runs["llama.cpp"] = lambda n=n: batched(o, model, n)
        out.append(Test("Q4_K_M", "tg32", 8, n, runs))
    return out


MAKE = {"types": make_types, "sequences": make_sequences, "depth": make_depth}


def acceptance(o, command):
    """Rows of --bench with guesses; the draft's vocabulary must be the model's, so Pip's draft fits what was inflated."""
    options = ["-p", "0", "-n", "64", "-r", "1", "--draft-max", "1-16*2", "--acceptance", "0,50,70,80,90,100"]
    draft = os.path.join(results.ROOT, "models", "pip-draft-q8_0.gguf")
    import json
    found = json.loads(peer.run(o.llmrun, "--bench", "-q", "-m", quantised(o, "Q4_K_M"), "-md", draft, *options, "-o", "json", *threads(o)))
    common = results.here(o.machine, "acceptance", o.name, "llmrun --bench -md DRAFT " + " ".join(options))
    results.append("acceptance", [dict(common, type="Q4_K_M", guesses=r["n_draft"], acceptance=round(100 * r["acceptance"]), speedup="%.2f" % r["speedup"], rounds=1)
                                  for r in found if r["n_draft"]], o.csv)


def run_rounds(o, parts):
    """A round of every part, then more of them until the time has passed; what was measured is written even if the run is stopped."""
    command = "make results" + (" RESULTS=%s" % shlex.quote(o.extra) if o.extra else "")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    end = time.monotonic() + 60 * o.minutes
    try:
        if "acceptance" in o.parts:
            acceptance(o, command)
        every = [test for tests in parts.values() for test in tests]
        while every:
            for test in every:
                if test.rounds() and time.monotonic() >= end:
                    every = []
                    break
                test.round()
    except KeyboardInterrupt:
        say("stopped: what was measured is kept")
    for name, tests in parts.items():
        common = results.here(o.machine, name, o.name, command)
        results.append("speed", [row for test in tests for row in test.rows(common)], o.csv)


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(results.ROOT, "llmrun"))
    ap.add_argument("--peers", default="", help="folder with llama.cpp's llama-bench and llama-batched-bench")
    ap.add_argument("--ik", default="", help="folder with ik_llama.cpp's llama-bench")
    ap.add_argument("--model-dir", required=True)
    ap.add_argument("--name", default=INFLATED, help="of the model, in the rows (%s)" % INFLATED)
    ap.add_argument("--minutes", type=float, default=15)
    ap.add_argument("--types", default=TYPES)
    ap.add_argument("--parts", default="types,sequences,depth,acceptance")
    ap.add_argument("--machine", default=results.machine(), help="name in machines.csv (%(default)s)")
    ap.add_argument("--csv", default=results.FOLDER, help="folder of the rows")
    ap.add_argument("--threads", "-t", type=int, default=0, help="threads of all programs; by itself each takes its own default")
    ap.add_argument("--foreign", action="store_true", help="run a peer that was not built for this machine")
    o = ap.parse_args()
    o.types, o.parts, o.extra = o.types.split(","), o.parts.split(","), os.environ.get("RESULTS", "")
    if set(o.parts) - set(MAKE) - {"acceptance"}:
        ap.error("--parts: expected %s, acceptance" % ", ".join(MAKE))
    return o


def main():
    o = options()
    os.makedirs(o.model_dir, exist_ok=True)
    try:
        for folder in filter(None, (o.peers, o.ik)):
            say("%s: %s" % (folder, peer.judge(os.path.join(folder, "llama-bench"), o.foreign)))
        parts = {name: MAKE[name](o) for name in MAKE if name in o.parts}
        results.know(o.machine, o.csv)
        run_rounds(o, parts)
    except (Failed, OSError, subprocess.CalledProcessError) as why:
        print("measure.py: %s" % why, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
