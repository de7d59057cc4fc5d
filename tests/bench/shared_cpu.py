#!/usr/bin/env python3
"""Decoding with guesses and without, in pairs, while another process uses a CPU: does guessing cost, and is the reported speed-up true?

    python3 tests/bench/shared_cpu.py --model models/pip-q4_k_m.gguf
    python3 tests/bench/shared_cpu.py --model big.gguf --draft models/pip-draft-q8_0.gguf --new 200
    make bench-shared MODEL=big.gguf [DRAFT=models/pip-draft-q8_0.gguf] [SHARED_CPU="--pairs 20 --spinners 1"]

A pair is one run with guesses and one without, of one prompt and seed, in turn first and second, with the same text. Each pair has a ratio
of the tokens per second that both report. The table has a row for each of several temperatures: medians of rates and ratios, how many runs
reported a speed-up, and how far those were from the measured ratio. big.gguf: see tests/bench/spec.py.
  Exit 1: a text differs, the median ratio is below --least, or a reported speed-up is further than --off from the median ratio.
"""
import argparse, os, re, signal, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "models", "train"))
import world

med = statistics.median


class Run:
    """One answer: its text, its rate, the speed-up that it reports (None: it reports none) and why not."""

    def __init__(self, args):
        r = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        n = re.search(r"generated +(\d+) tokens in [\d.]+ s \(([\d.]+) tokens/s\)", r.stderr)
        if r.returncode or not n:
            sys.exit("shared_cpu.py: exit %d: %s" % (r.returncode, r.stderr.strip()[-300:]))
        said, why = re.search(r"speculation ([\d.]+)x", r.stderr), re.search(r"not measurable: (.*)", r.stderr)
        self.text, self.rate = r.stdout, float(n.group(2))
        self.said, self.why = float(said.group(1)) if said else None, why.group(1) if why else None


class Spinners:
    """So many processes that do nothing but use a CPU."""

    def __init__(self, n):
        self.n = n

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))       # so that none is left behind
        self.all = [subprocess.Popen(["bash", "-c", "while :; do :; done"], start_new_session=True) for _ in range(self.n)]

    def __exit__(self, *_):
        for p in self.all:
            p.kill()
            p.wait()


def pairs(o, temp):
    """Pairs of runs (guesses, plain) at a temperature."""
    guesses = ["-md", o.draft] if o.draft else []
    for i in range(o.pairs):
        args = [o.llmrun, "-m", o.model, "--raw", "-p", world.story_prompt(o.seed + i), "-n", str(o.new), "--temp", str(temp), "-s", str(i + 1), "--ignore-eos", "-v"]
        args += ["-t", str(o.threads)] * bool(o.threads) + o.own.split()
        ways = [args + guesses, args + ["--no-lookup"]]
        got = [Run(w) for w in (ways if i % 2 == 0 else ways[::-1])]
        a, b = got if i % 2 == 0 else got[::-1]
        print("pair %d: %.1f and %.1f tokens/s, %.3f; reported %s" % (i + 1, a.rate, b.rate, a.rate / b.rate, a.said or a.why or "-"), file=sys.stderr, flush=True)
        yield a, b


def measure(o, temp):
    """Prints the row of a temperature; what is wrong with it."""
    runs = list(pairs(o, temp))
    ratios = [a.rate / b.rate for a, b in runs]
    ratio, said = med(ratios), [a.said for a, _ in runs if a.said]
    whys = sorted({a.why or "too short" for a, _ in runs if not a.said})
    low, high = statistics.quantiles(ratios, n=4)[::2] if len(ratios) > 1 else ratios * 2
    print("| %g | %.1f | %.1f | %.3f | %.2f to %.2f | %d of %d | %s | %s |" % (
        temp, med(b.rate for _, b in runs), med(a.rate for a, _ in runs), ratio, low, high, len(said), len(runs),
        "%.2f to %.2f" % (min(said), max(said)) if said else "-", "; ".join(whys) or "-"), flush=True)
    if any(a.text != b.text for a, b in runs):
        yield "temperature %g: a text differs" % temp
    if ratio < o.least:
        yield "temperature %g: the median ratio is %.3f" % (temp, ratio)
    if any(abs(x / ratio - 1) > o.off for x in said):
        yield "temperature %g: a reported speed-up is further than %.0f %% from the ratio" % (temp, 100 * o.off)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    ap.add_argument("--model", default=os.path.join(ROOT, "models", "pip-q4_k_m.gguf"))
    ap.add_argument("--draft", default="", help="draft model; without one, lookup alone")
    ap.add_argument("--pairs", type=int, default=20)
    ap.add_argument("--spinners", type=int, default=1, help="processes that use a CPU meanwhile (1)")
    ap.add_argument("--new", type=int, default=400, help="tokens an answer (400)")
    ap.add_argument("--temps", default="0.5", help="temperatures, with commas between (0.5)")
    ap.add_argument("--threads", "-t", type=int, default=0)
    ap.add_argument("--seed", type=int, default=0, help="of the prompts")
    ap.add_argument("--least", type=float, default=0.98, help="median ratio below which the exit code is 1 (0.98)")
    ap.add_argument("--off", type=float, default=0.10, help="how far a reported speed-up may be from the median ratio (0.10)")
    ap.add_argument("--own", default="", help="further options for llmrun")
    o = ap.parse_args()
    print("%s%s, %d pairs of %d tokens beside %d spinning process%s\n" % (
        os.path.basename(o.model), ", draft " + os.path.basename(o.draft) if o.draft else "", o.pairs, o.new, o.spinners, "" if o.spinners == 1 else "es"))
    print("| temperature | plain t/s | with guesses | ratio | quartiles | reported in | reported | why not |\n|---|---|---|---|---|---|---|---|")
    wrong = []
    with Spinners(o.spinners):
        for temp in map(float, o.temps.split(",")):
            wrong += measure(o, temp)
    print("".join("\nshared_cpu.py: %s" % w for w in wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
