#!/usr/bin/env python3
"""How the rates of llmrun grow with its threads, as Markdown or CSV.

    make bench-threads MODEL="1b.gguf 8b.gguf" [THREADS="--only decode,depth8000 --rounds 5"]
    python3 tests/bench/threads.py --model 1b.gguf --model 8b.gguf --threads 1,2,4,8,16,all

  prefill     a prompt of 512 tokens
  decode      32 tokens
  seq8        32 tokens for each of 8 sequences
  seq32       the same for 32
  depth8000   32 tokens behind 8,000 others

all stands for the CPUs of this process. Threads that are more than the CPUs of this process are left out: the table says how many CPUs there are. A round runs every test with every
number of threads, so that slow changes of the machine meet all of them alike; the table has the medians of the rounds. `speedup` is the
rate over that of the fewest threads. `waiting` is the share of a step that the leading thread waits at barriers, `attention` the share of
attention. depth8000 reads its 8,000 tokens once for each number of threads and repeats the rest. A model of any shape is made by
a script such as synth_gguf.py. As everywhere, only a quiet machine gives figures worth keeping.
"""
import argparse, csv, json, os, re, statistics, subprocess, sys

import peer, results
from peer import Failed

TESTS = {                                             # name: options of --bench; whether the rounds are repetitions inside one run
    "prefill": (["-p", "512", "-n", "0"], False),
    "decode": (["-p", "0", "-n", "32"], False),
    "seq8": (["-p", "0", "-n", "32", "-npl", "8"], False),
    "seq32": (["-p", "0", "-n", "32", "-npl", "32"], False),
    "depth8000": (["-p", "0", "-n", "32", "-d", "8000"], True),
}
COLUMNS = ["model", "test", "threads", "tokens/s", "speedup", "waiting %", "attention %", "read GB/s", "sweep GB/s"]


def bench(o, model, test, threads, repetitions):
    """One run of --bench: its row, and the shares of the stages in its table on standard error."""
    args = [o.llmrun, "--bench", "-m", model, *TESTS[test][0], "-t", str(threads), "-r", str(repetitions), "-v", "--format", "json"]
    r = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if r.returncode:
        raise Failed("%s: exit %d: %s" % (" ".join(args), r.returncode, r.stderr.strip()[-200:]))
    row = peer.rows(r.stdout, o.llmrun)
    stages = {name.strip(): (share, waits) for name, share, waits in re.findall(r"^  (\S.*?) +[\d.]+ +([\d.]+)% +([\d.]+)%$", r.stderr, re.M)}
    if "all" not in stages or "attention" not in stages:
        raise Failed("%s: no table of stages on its standard error" % " ".join(args))
    return {"rate": row["avg_ts"], "waiting": float(stages["all"][1]), "attention": float(stages["attention"][0]),
            "read": row["read_gbs"], "sweep": row["sweep_gbs"], "name": row["model_type"]}


def cpus(o, model):
    """Threads that llmrun chooses: the CPUs that this process may use."""
    r = peer.run(o.llmrun, "--bench", "-m", model, "-p", "1", "-n", "0", "-t", "0", "-r", "1", "--no-warmup", "--format", "json")
    return peer.rows(r, o.llmrun)["n_threads"]


def measure(o, counts):
    """{(model, test, threads): samples}"""
    got = {}
    for n in range(o.rounds):
        for model in o.model:
            for test in o.only:
                inside = TESTS[test][1]
                for t in counts if not inside or n == 0 else []:
                    print("round %d of %d: %s, %s, %d threads" % (n + 1, o.rounds, os.path.basename(model), test, t), file=sys.stderr, flush=True)
                    got.setdefault((model, test, t), []).append(bench(o, model, test, t, o.rounds if inside else 1))
    return got


def table(o, counts, got):
    for model in o.model:
        for test in o.only:
            first = None
            for t in counts:
                mid = {key: statistics.median(s[key] for s in got[model, test, t]) for key in ("rate", "waiting", "attention", "read", "sweep")}
                first = first or mid["rate"]
                yield [got[model, test, t][0]["name"], test, str(t), "%.2f" % mid["rate"], "%.2f" % (mid["rate"] / first), "%.1f" % mid["waiting"],
                       "%.1f" % mid["attention"], "%.1f" % mid["read"], "%.1f" % mid["sweep"]]


def numbers(text):
    return {part if part == "all" else int(part) for part in text.split(",") if part}


def names(text):
    chosen = text.split(",")
    if set(chosen) - set(TESTS):
        raise argparse.ArgumentTypeError("expected some of %s" % ", ".join(TESTS))
    return chosen


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(results.ROOT, "llmrun"))
    ap.add_argument("--model", action="append", required=True, help="may be given several times")
    ap.add_argument("--threads", type=numbers, default=numbers("1,2,4,8,16,all"), help="numbers of threads (1,2,4,8,16,all)")
    ap.add_argument("--only", type=names, default=list(TESTS), help="tests (%s)" % ",".join(TESTS))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--format", choices=["md", "csv"], default="md")
    o = ap.parse_args()
    try:
        have, start = cpus(o, o.model[0]), peer.cpu_time()
        asked = sorted({have if t == "all" else t for t in o.threads})
        counts = [t for t in asked if t <= have]
        if not counts:
            raise Failed("%d CPUs here, and --threads asks for more only" % have)
        rows = list(table(o, counts, measure(o, counts)))
    except Failed as e:
        print("threads.py: %s" % e, file=sys.stderr)
        sys.exit(2)
    if o.format == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([COLUMNS] + rows)
    else:
        left = [str(t) for t in asked if t > have]
        print("%d CPUs%s. %s\n" % (have, ", so that %s threads are left out" % ", ".join(left) if left else "", peer.meanwhile(start)))
        print("| %s |\n|%s" % (" | ".join(COLUMNS), "---|" * len(COLUMNS)))
        for row in rows:
            print("| %s |" % " | ".join(row))


if __name__ == "__main__":
    main()
