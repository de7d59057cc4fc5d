#!/usr/bin/env python3
"""What an NVIDIA GPU gives: its limits, texts against the CPU's, rates, and a peer's in turn, as Markdown.

    make bench-gpu [MODELS="a.gguf b.gguf"] [PEER=path/to/llama-bench] [GPU="--minutes 25"]
    python3 tests/bench/gpu.py ./llmrun --model a.gguf --peer path/to/llama-bench

First what the machine can do (copies of its own memory and bf16 products, where torch is installed), then
  texts      every tiny model of tests/data/tiny with -ngl 1 and all against -ngl 0, prompts of one step and of several
  checks     compute-sanitizer's memcheck and racecheck on three of them, where that program is found
  rates      --bench of each model with all layers on the GPU; `share` is what decoding moves, the file once for each token, of the copy rate
  peer       llama-bench with the same tests, one run of each program after the other; `ratio`: llmrun's rate over the peer's
Exit 1: a text differs, or a check found something. Rates do not change the exit code. What --minutes does not leave time for is left out and
named.
"""
import argparse, glob, os, shutil, subprocess, sys, time

from peer import Failed, rows, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TINY = os.path.join(ROOT, "tests", "data", "tiny")
TEXT = "Tom was a cat. Tom liked milk. The cat sat on the mat, and the dog ran away. "
TESTS = {                              # name: options of both programs, further ones of llmrun: with such a test the peer is left out
    "pp512": (["-p", "512", "-n", "0"], []),
    "pp2048": (["-p", "2048", "-n", "0"], []),
    "tg64": (["-p", "0", "-n", "64"], []),
    "tg32, depth 16000": (["-p", "0", "-n", "32", "-d", "16000"], []),
    "tg32, 8 sequences": (["-p", "0", "-n", "32"], ["-npl", "8"]),
    "tg32, 64 sequences": (["-p", "0", "-n", "32"], ["-npl", "64"]),
}


class Clock:
    def __init__(self, minutes):
        self.end, self.skipped = time.monotonic() + 60 * minutes, []

    def over(self, what):
        if time.monotonic() < self.end:
            return False
        self.skipped.append(what)
        return True


def table(head, lines):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print(flush=True)


# --- limits ---

def limits(device):
    """Prints the rates of copies within the device's memory and of bf16 products. Bytes a second of the first; None: torch is not here."""
    try:
        import torch
        gpu = torch.device("cuda", device)
        a = torch.empty(1 << 30, dtype=torch.uint8, device=gpu)
        m = torch.randn(8192, 8192, dtype=torch.bfloat16, device=gpu)
    except Exception as e:
        print("no limits: %s\n" % str(e).splitlines()[0])
        return None

    def best(work, n):
        times = []
        for _ in range(n):
            torch.cuda.synchronize(gpu)
            t = time.perf_counter()
            work()
            torch.cuda.synchronize(gpu)
            times.append(time.perf_counter() - t)
        return min(times)

    b = torch.empty_like(a)
    copy, product = 2 * a.numel() / best(lambda: b.copy_(a), 30), 2 * 8192 ** 3 / best(lambda: m @ m, 30)
    del a, b, m
    torch.cuda.empty_cache()
    print("copies %.2f TB/s (read and written), bf16 products %.0f TFLOP/s\n" % (copy / 1e12, product / 1e12), flush=True)
    return copy


# --- texts ---

def text(binary, model, layers, prompt, tokens, device):
    r = subprocess.run([binary, "-m", model, "-p", prompt, "-n", str(tokens), "--temp", "0", "--ignore-eos", "-q", "--no-stdin", "--same", "on", "-ngl", layers,
                        "--device", str(device)], stdin=subprocess.DEVNULL, capture_output=True)
    return r.returncode, r.stdout if r.returncode == 0 else r.stderr


def texts(binary, device, clock):
    bad = n = 0
    for model in sorted(glob.glob(os.path.join(TINY, "*.gguf"))):
        if clock.over("texts from %s on" % os.path.basename(model)):
            break
        for prompt, tokens in (("Hello", 12), (TEXT * 2, 6)):
            want = text(binary, model, "0", prompt, tokens, device)
            for layers in ("1", "all"):
                got = text(binary, model, layers, prompt, tokens, device)
                n += 1
                if got != want:
                    bad += 1
                    print("- %s, -ngl %s: %r instead of %r" % (os.path.basename(model), layers, got[1][:80], want[1][:80]))
    print("texts: %d runs, %d differ\n" % (n, bad), flush=True)
    return bad


def checks(binary, device, clock):
    tool, bad = shutil.which("compute-sanitizer"), 0
    if not tool:
        print("checks: no compute-sanitizer here\n")
        return 0
    for name in ("llama_q4_k_m", "gemma3", "qwen3moe"):
        for kind in ("memcheck", "racecheck"):
            model = os.path.join(TINY, name + ".gguf")
            if not os.path.exists(model) or clock.over("%s of %s" % (kind, name)):
                continue
            r = subprocess.run([tool, "--tool", kind, "--error-exitcode", "99", binary, "-m", model, "-p", TEXT, "-n", "4", "--temp", "0", "-q", "--no-stdin",
                                "-ngl", "all", "--device", str(device)], stdin=subprocess.DEVNULL, capture_output=True)
            bad += r.returncode != 0
            print("- %s of %s: %s" % (kind, name, "clean" if r.returncode == 0 else r.stdout.decode(errors="replace").strip().splitlines()[-1]), flush=True)
    print()
    return bad


# --- rates ---

def rate(program, options):
    return rows(run(program, *options), program)["avg_ts"]


def rates(binary, model, peer, device, copy, clock):
    size, lines = os.path.getsize(model), []
    for name, (both, own) in TESTS.items():
        if clock.over("%s of %s" % (name, os.path.basename(model))):
            continue
        try:
            mine = rate(binary, ["-m", model, "--bench", "-r", "3", "--format", "json", "-q", "-ngl", "all", "--device", str(device)] + both + own)
            theirs = rate(peer, ["-m", model, "-r", "3", "-o", "json", "-ngl", "99"] + both) if peer and not own else None
        except Failed as e:
            lines.append([name, str(e)] + ["-"] * 3)
            continue
        share = "%.0f %%" % (100 * mine * size / copy) if copy and name.startswith("tg") and not own else "-"
        lines.append([name, "%.0f" % mine, share, "%.0f" % theirs if theirs else "-", "%.2f" % (mine / theirs) if theirs else "-"])
    print("%s, %.2f GB\n" % (os.path.basename(model), size / 1e9))
    table(["test", "tokens/s", "share", "peer, tokens/s", "ratio"], lines)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("binary")
    p.add_argument("--model", action="append", default=[])
    p.add_argument("--peer", help="llama-bench of a CUDA build")
    p.add_argument("--device", type=int, default=0)
    p.add_argument("--minutes", type=float, default=28)
    o = p.parse_args()
    o.binary = os.path.abspath(o.binary)
    clock = Clock(o.minutes)
    listed = subprocess.run([o.binary, "--list-devices"], capture_output=True)
    if listed.returncode:
        sys.exit(listed.stderr.decode(errors="replace").strip())
    driver = shutil.which("nvidia-smi")
    print("%s, %s; %s%s\n" % (time.strftime("%Y-%m-%d", time.gmtime()), run(o.binary, "--version").splitlines()[0],
                              listed.stdout.decode(errors="replace").splitlines()[o.device],
                              "; driver " + run(driver, "--query-gpu=driver_version", "--format=csv,noheader").split()[0] if driver else ""), flush=True)
    copy = limits(o.device)
    bad = texts(o.binary, o.device, clock) + checks(o.binary, o.device, clock)
    for model in o.model:
        rates(o.binary, model, o.peer, o.device, copy, clock)
    for what in clock.skipped:
        print("- no time was left for %s" % what)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
