#!/usr/bin/env python3
"""llmrun --bench and a peer's llama-bench in turn, the same tests, and the ratios as Markdown.

    make bench-peer PEER=path/to/llama-bench MODEL=model.gguf [BENCH="-p 512 -n 128"]
    python3 tests/bench/peer.py --peer path/to/llama-bench --model model.gguf -p 512 -n 128 -pg 512,128 -d 0,4096 --rounds 5

For every test the programs alternate: llmrun, peer, llmrun, peer, ..., llmrun. Each run times one repetition after its own warm-up, so
a round lies within seconds. A peer's run is compared with the mean of the two runs of llmrun around it; the table holds medians over
the rounds, and beside each the read bandwidth that llmrun's sweeps measured right before and after.
  A peer that was not built for this machine's instructions is refused, unless --foreign is given: it would be slow for the wrong
reason. What cannot be found out is reported, and so are other processes that use the machine meanwhile.
  --csv FOLDER appends the figures to FOLDER/speed.csv (tests/bench/results), --set names them.
  --own and --theirs pass further options, such as --own="--cpu avx2" or --theirs="-rtr 1".
"""
import argparse, ctypes, json, os, re, resource, shlex, shutil, signal, statistics, subprocess, sys, time

import results

HERE = os.path.dirname(os.path.abspath(__file__))
FEATURES = {"avx2": "avx2", "fma": "fma", "f16c": "f16c", "avx_vnni": "avx_vnni", "avx512": "avx512f", "avx512_vbmi": "avx512vbmi",
            "avx512_vnni": "avx512_vnni", "avx512_bf16": "avx512_bf16"}            # ggml_cpu_has_*, and the flag of /proc/cpuinfo
NEEDED = ("avx2", "fma", "f16c", "avx512", "avx512_vnni")                         # what decides the speed of its kernels


class Failed(Exception):
    pass


def run(*args, merge=False):
    """Its standard output; merge: with its standard error."""
    r = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merge else subprocess.PIPE)
    if r.returncode:
        said = (r.stdout if merge else r.stderr).decode(errors="replace").strip().splitlines() or ["exit %d" % r.returncode]
        raise Failed("%s: %s" % (" ".join(args), said[-1][:200]))
    return r.stdout.decode(errors="replace")


def rows(text, who):
    try:
        found = json.loads(text)
    except ValueError:
        raise Failed("%s: no JSON on its standard output" % who)
    if len(found) != 1 or not found[0].get("avg_ts"):
        raise Failed("%s: expected one test, found %d" % (who, len(found)))
    return found[0]


# --- what the peer was built for ---

def machine_flags():
    try:
        with open("/proc/cpuinfo") as f:
            return set(next(line for line in f if line.startswith("flags")).split(":")[1].split())
    except (OSError, StopIteration):
        return set()


def libraries(peer):
    try:
        found = re.findall(r"=> (\S*libggml\S*)", run("ldd", peer))
    except (Failed, OSError):
        return []
    return sorted(found, key=lambda path: "cpu" not in path)


def built_for(peer):
    """{feature: whether the peer's kernels use it}, asked of its library or seen in its instructions; {} when neither can tell."""
    for path in libraries(peer):
        try:
            lib = ctypes.CDLL(path)
        except OSError:
            continue
        asked = {name: bool(getattr(lib, "ggml_cpu_has_" + name)()) for name in FEATURES if hasattr(lib, "ggml_cpu_has_" + name)}
        if asked:
            return asked
    if not shutil.which("objdump"):
        return {}
    with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", peer], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        seen = {"vpdpbusd": "avx512_vnni", "vfmadd": "fma", "vcvtph2ps": "f16c", "zmm": "avx512", "vpmaddubsw": "avx2"}
        found = {}
        for line in p.stdout:
            for word, name in seen.items():
                if word.encode() in line and (name != "avx512_vnni" or b"zmm" in line or b"{" in line):
                    found[name] = True
    return {name: name in found for name in NEEDED} if found else {}


def judge(peer, foreign):
    has, flags = built_for(peer), machine_flags()
    if not has:
        return "what it was built for cannot be found out"
    missing = [name for name in NEEDED if FEATURES[name] in flags and name in has and not has[name]]
    if missing and not foreign:
        raise Failed("%s was built without %s, which this machine has; build it natively, or say --foreign" % (peer, ", ".join(missing)))
    names = " ".join(name for name in FEATURES if has.get(name)) or "no vectors"
    return "%s: %s" % ("NOT NATIVE" if missing else "native", names)


def cpu_time():
    """Seconds of CPU: there were, taken by anybody, taken by the programs that were run from here."""
    try:
        with open("/proc/stat") as f:
            v = [int(x) / os.sysconf("SC_CLK_TCK") for x in f.readline().split()[1:9]]
    except (OSError, ValueError):
        v = [0] * 8
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(v), sum(v) - v[3] - v[4], own.ru_utime + own.ru_stime


def meanwhile(start):
    """A sentence about the CPU time that other processes took since then; "": next to none."""
    every, busy, own = (y - x for x, y in zip(start, cpu_time()))
    busy -= own + time.process_time()
    return "Others took %.0f %% of the CPUs meanwhile: only a quiet machine tells." % (100 * busy / every) if every and busy > 0.02 * every else ""


def run_beside(script, o, work):
    """The exit code of a script that runs work(o, judged) beside a server of llama.cpp: 2 and a line on standard error where a program failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))               # so that no server is left behind
    start = cpu_time()
    try:
        native = judge(os.path.join(o.peers, "llama-server"), o.foreign) if o.peers else None
        work(o, "\n- peer: %s; server options: %s" % (native, o.theirs or "none") if native else "")
    except (Failed, OSError) as why:
        print("%s: %s" % (script, why), file=sys.stderr)
        return 2
    others = meanwhile(start)
    if others:
        print("\n" + others)
    return 0


# --- tests ---

def expand(text):
    return [v for part in (text or "").split(",") if part for v in [int(part)]]


def tests(o):
    """The options that make one test each, in llama-bench's order."""
    for depth in expand(o.d):
        at = ["-d", str(depth)] if depth else []       # older peers do not know the option
        for p in expand(o.p):
            if p:
                yield ["-p", str(p), "-n", "0"] + at
        for n in expand(o.n):
            if n:
                yield ["-p", "0", "-n", str(n)] + at
        for pg in o.pg:
            yield ["-p", "0", "-n", "0", "-pg", pg] + at


def label(r):
    parts = (["pp%d" % r["n_prompt"]] if r["n_prompt"] else []) + (["tg%d" % r["n_gen"]] if r["n_gen"] else [])
    return "+".join(parts) + (" @ d%d" % r["n_depth"] if r.get("n_depth") else "")


def measure(o, test):
    """Rounds of both programs: rows of llmrun, one more than rows of the peer between them."""
    same = test + shlex.split(o.both) + (["-t", str(o.threads)] if o.threads else []) + ["-r", "1", "-o", "json"]
    own = [o.llmrun, "--bench", "-q", "-m", o.model] + same + shlex.split(o.own)
    theirs = [o.peer, "-m", o.model] + same + shlex.split(o.theirs)
    ours, peers = [rows(run(*own), "llmrun")], []
    for i in range(o.rounds):
        peers.append(rows(run(*theirs), "the peer"))
        ours.append(rows(run(*own), "llmrun"))
        print("%s, round %d of %d: %.2f and %.2f t/s" % (label(ours[0]), i + 1, o.rounds, ours[-1]["avg_ts"], peers[-1]["avg_ts"]), file=sys.stderr)
    if peers[0]["n_threads"] != ours[0]["n_threads"]:
        raise Failed("llmrun ran %d threads, the peer %d: say --threads" % (ours[0]["n_threads"], peers[0]["n_threads"]))
    return ours, peers


def line(ours, peers):
    med, pairs = statistics.median, list(zip(ours, peers, ours[1:]))
    ratio = [(a["avg_ts"] + b["avg_ts"]) / 2 / p["avg_ts"] for a, p, b in pairs]
    between = [(a["sweep_gbs"] + b["sweep_gbs"]) / 2 for a, _, b in pairs]
    return "| %s | %.2f | %.2f | %.2f | %.2f to %.2f | %.1f | %.1f | %.1f %% |" % (
        label(ours[0]), med(r["avg_ts"] for r in ours), med(p["avg_ts"] for p in peers), med(ratio), min(ratio), max(ratio),
        med(r["sweep_gbs"] for r in ours), med(between), 100 * med(r["read_share"] for r in ours))


def csv_rows(o, ours, peers):
    """The same figures as rows of speed.csv."""
    ratio = [(a["avg_ts"] + b["avg_ts"]) / 2 / p["avg_ts"] for a, p, b in zip(ours, peers, ours[1:])]
    a, command = ours[0], results.command_line("make bench-peer", sys.argv[1:])
    test = label(dict(a, n_depth=0))
    common = dict(results.here(o.machine, o.set, o.name or a["model_type"], command), type=a["model_type"].split()[-1], test=test,
                  depth=a["n_depth"], sequences=1, rounds=o.rounds)
    for program, found, options in ((results.OWN, ours, o.own), (o.peer_name, peers, o.theirs)):
        rates = [r["avg_ts"] for r in found]
        yield dict(common, program=program, options=options, tokens_s=statistics.median(rates), least=min(rates), most=max(rates),
                   **({} if program == results.OWN else {"ratio": "%.2f" % statistics.median(ratio), "ratio_least": "%.2f" % min(ratio),
                                                         "ratio_most": "%.2f" % max(ratio)}))


def further_options(ap, own="llmrun", theirs="the peer", given=""):
    """Options that are passed on to both programs; given: those that the peer gets by default."""
    ap.add_argument("--own", default="", help="further options for " + own)
    ap.add_argument("--theirs", default=given, help="further options for %s%s" % (theirs, " (%s)" % given if given else ""))
    ap.add_argument("--foreign", action="store_true", help="run a peer that was not built for this machine")


def csv_options(ap, kind):
    """Options of the bench scripts that store their figures."""
    ap.add_argument("--csv", metavar="FOLDER", help="append the figures to FOLDER/%s.csv, such as tests/bench/results" % kind)
    ap.add_argument("--set", default="peer", help="with --csv: what the rows belong to (peer)")
    ap.add_argument("--machine", default=results.machine(), help="with --csv: name of this machine (%(default)s)")
    ap.add_argument("--name", default="", help="with --csv: name of the model (what the file says)")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "llmrun"))
    ap.add_argument("--peer", required=True, help="a llama-bench")
    ap.add_argument("--model", required=True)
    ap.add_argument("-p", default="512", help="prefill tests, tokens with commas between; 0: none (512)")
    ap.add_argument("-n", default="128", help="decode tests (128)")
    ap.add_argument("-pg", action="append", default=[], metavar="P,N", help="prefill and decode")
    ap.add_argument("-d", default="0", help="depths (0)")
    ap.add_argument("--threads", "-t", type=int, default=0, help="threads of both; by itself each takes its own default")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--both", default="", help="further options for both")
    further_options(ap)
    ap.add_argument("--peer-name", default="llama.cpp", help="with --csv: what the peer is called (llama.cpp)")
    csv_options(ap, "speed")
    o = ap.parse_args()
    if o.rounds < 1:
        ap.error("--rounds: expected 1 or more")
    try:
        native = judge(o.peer, o.foreign)
        lines, first, start = [], None, cpu_time()
        for test in tests(o):
            ours, peers = measure(o, test)
            first = first or (ours[0], peers[0])
            lines.append(line(ours, peers))
            if o.csv:
                results.know(o.machine, o.csv)
                results.append("speed", list(csv_rows(o, ours, peers)), o.csv)
        if not first:
            raise Failed("no test: expected -p, -n or -pg")
    except (Failed, OSError) as why:
        print("peer.py: %s" % why, file=sys.stderr)
        return 2
    a, b = first
    others = meanwhile(start)
    print("%s, %d threads; %s, %s; medians of %d rounds\n" % (a["cpu_info"], a["n_threads"], os.path.basename(o.model), a["model_type"], o.rounds))
    print("- llmrun %s, %s" % (a["build_commit"], a["cpu_level"]))
    print("- peer: build %s (%s), backends %s; %s" % (b.get("build_commit"), b.get("build_number"), b.get("backends"), native))
    if others:
        print("- " + others)
    print("\n| test | llmrun t/s | peer t/s | ratio | least to most | sweep beside llmrun, GB/s | beside the peer | llmrun of sweep |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
