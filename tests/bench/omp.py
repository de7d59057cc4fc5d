#!/usr/bin/env python3
"""The team of threads of llmrun beside OpenMP's: the same steps, quiet and beside spinning processes, as Markdown.

    make bench-omp MODEL=big.gguf [OMP="--rounds 5 --spinners 0,1 --new 48"]
    python3 tests/bench/omp.py --build build/omp      (the text of the two programs, for make)

The OpenMP programs are llmrun.c with the team of [pool] replaced by tests/bench/omp.h: a parallel region a job, OpenMP's barriers between
stages, static and dynamic shares. Each is run with OMP_WAIT_POLICY=active, passive and unset. All ways are run in turn, forwards and
backwards by turns; a run reads a prompt and continues it without guesses, and all must give the same text. Ratios to llmrun's own
team are made within a round; the table holds medians over the rounds.
  --loops measures actions that are one plain parallel loop instead: quantising, an importance matrix, packing the weights as the model is opened.
"""
import argparse, os, re, statistics, subprocess, sys, tempfile, time

import shared_cpu

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "models", "train"))
import world

med = statistics.median
BEGIN, POOL = "typedef struct pool pool;\n", '#include "src/pool.c"\n'


def build(folder):
    """llmrun.c with another team, once for each kind of shares."""
    root, pool = (open(os.path.join(ROOT, *path)).read() for path in (["llmrun.c"], ["src", "pool.c"]))
    for kind, define in ("static", "#define OMP_STATIC 1\n"), ("dynamic", ""):
        team = pool[:pool.index(BEGIN)] + define + '#include "%s"\n' % os.path.join(HERE, "omp.h")
        with open(os.path.join(folder, kind + ".c"), "w") as f:
            f.write(root.replace(POOL, team))


class Way:
    """A program and the wait policy that it runs under."""

    def __init__(self, name, program, policy=None):
        self.name, self.program = name, program
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        if policy:
            self.env["OMP_WAIT_POLICY"] = policy

    def run(self, o, prompt):
        """(tokens/s of the prompt, tokens/s of the answer, the answer)"""
        args = [self.program, "-m", o.model, "--no-chat", "-p", prompt, "-n", str(o.new), "--temp", "0", "--ignore-eos", "--no-lookup"]
        args += ["-t", str(o.threads)] * bool(o.threads)
        r = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=self.env)
        rates = re.findall(r"(?:prompt|generated) .*\(([\d.]+) tokens/s\)", r.stderr)
        if r.returncode or len(rates) != 2:
            sys.exit("omp.py: %s: exit %d: %s" % (self.name, r.returncode, r.stderr.strip()[-300:]))
        return float(rates[0]), float(rates[1]), r.stdout


def loops(o, folder):
    """What is a plain parallel loop, or little else: name and options."""
    text = os.path.join(folder, "text")
    with open(text, "w") as f:
        f.write("\n".join(world.document(i, "train", "story").text for i in range(20)))
    made = os.path.join(folder, "made")
    return (("--quantize Q4_K_M", ["--quantize", "Q4_K_M", "-o", made + ".gguf"]), ("--imatrix-out", ["--imatrix-out", made + ".imatrix", "-f", text]),
            ("--repack on, one token", ["--repack", "on", "--no-chat", "-p", "Once", "-n", "1", "--no-lookup"]))


def measure_loops(o, ways, spinners):
    with tempfile.TemporaryDirectory() as folder, shared_cpu.Spinners(spinners):
        for name, args in loops(o, folder):
            got = {w: [] for w in ways}
            for i in range(o.rounds):
                for w in ways if i % 2 == 0 else ways[::-1]:
                    t0 = time.perf_counter()
                    subprocess.run([w.program, "-q", "-m", o.model, *args], env=w.env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                    got[w].append(time.perf_counter() - t0)
            for w in ways:
                print("| %d | %s | %s | %.3f | %.2f |" % (spinners, name, w.name, med(got[w]), med(a / b for a, b in zip(got[w], got[ways[0]]))), flush=True)


def measure(o, ways, spinners):
    prompt = " ".join(world.document(i, "train", "story").text for i in range(40))[:o.prompt]
    got = {w: [] for w in ways}
    with shared_cpu.Spinners(spinners):
        for i in range(o.rounds):
            for w in ways if i % 2 == 0 else ways[::-1]:
                got[w].append(w.run(o, prompt))
    if len({text for runs in got.values() for _, _, text in runs}) != 1:
        sys.exit("omp.py: the texts differ")
    for w in ways:
        row = ["%.1f | %.2f" % (med(r[k] for r in got[w]), med(r[k] / own[k] for r, own in zip(got[w], got[ways[0]]))) for k in (0, 1)]
        print("| %d | %s | %s |" % (spinners, w.name, " | ".join(row)), flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--build", metavar="FOLDER", help="write static.c and dynamic.c there and do nothing else")
    ap.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    ap.add_argument("--folder", default=os.path.join(ROOT, "build", "omp"), help="of the programs static and dynamic")
    ap.add_argument("--model", default=os.path.join(ROOT, "models", "pip-q4_k_m.gguf"))
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--spinners", default="0,1", help="processes that use a CPU meanwhile (0,1)")
    ap.add_argument("--prompt", type=int, default=1000, help="characters of the prompt (1000)")
    ap.add_argument("--new", type=int, default=64, help="tokens of the answer (64)")
    ap.add_argument("--threads", "-t", type=int, default=0)
    ap.add_argument("--loops", action="store_true", help="time plain parallel loops instead of steps")
    o = ap.parse_args()
    if o.build:
        return build(o.build)
    ways = [Way("own team", o.llmrun)] + [
        Way("OpenMP, %s shares, waiting %s" % (kind, policy or "by default"), os.path.join(o.folder, kind), policy)
        for kind in ("static", "dynamic") for policy in ("active", "passive", None)]
    print("%s, %d rounds, a prompt of %d characters, %d new tokens\n" % (os.path.basename(o.model), o.rounds, o.prompt, o.new))
    print("| spinning processes | what | team | seconds | to own |\n|---|---|---|---|---|" if o.loops else
          "| spinning processes | team | prefill t/s | to own | decode t/s | to own |\n|---|---|---|---|---|---|")
    for spinners in map(int, o.spinners.split(",")):
        (measure_loops if o.loops else measure)(o, ways, spinners)


if __name__ == "__main__":
    sys.exit(main())
