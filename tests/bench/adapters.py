#!/usr/bin/env python3
"""What adapters (LoRA) cost: rates of a model with and without them, as Markdown.

    make bench-adapters [MODEL=model.gguf] [ADAPTERS="--rank 16 --type f16 --rounds 5"]
    python3 tests/bench/adapters.py --llmrun ./llmrun --model model.gguf --only decode
    python3 tests/bench/adapters.py --model model.gguf --make folder --count 8

  decode       32 tokens of one sequence with one adapter
  seq8         32 tokens for each of 8 sequences, each with an adapter of its own
  prefill512   a prompt of 512 tokens with one adapter

An adapter has random values, and a pair of matrices of --rank for each matrix of the layers (attention and feed-forward). A ratio is
the rate with adapters over the rate without: --bench --lora runs each step both ways, one right after the other. A round is a run of the
program. --make writes the adapters to a folder and measures nothing. As everywhere, only a quiet machine gives figures worth keeping.
"""
import argparse, mmap, os, random, statistics, struct, sys, tempfile

import batch, peer
from peer import Failed

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import gguf_digest                                    # noqa: E402: tests/ is on the path from here on

med = statistics.median
TESTS = {                                             # name: options of --bench, repetitions in one run, adapters
    "decode": (["-p", "0", "-n", "32"], 3, 1),
    "seq8": (["-p", "0", "-n", "32", "-npl", "8"], 1, 8),
    "prefill512": (["-p", "512", "-n", "0"], 1, 1),
}
PARTS = "attn_q attn_k attn_v attn_qkv attn_output ffn_gate ffn_up ffn_down ffn_gate_exps ffn_up_exps ffn_down_exps".split()
TYPES = {"f32": (0, 4, b"\xff\xff\x7f\x80", b"\0\0\0\x3c"), "f16": (1, 2, b"\xff\x83", b"\0\x20"), "bf16": (30, 2, b"\x7f\x80", b"\0\x3c")}
#       name: number in GGUF, bytes of a value, which bits of it are random, those that are set: 2^-7 to 2^-6 of both signs


def shapes(path):
    """The architecture of a model file, and its tensors: (name, dimensions)."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        r = gguf_digest.Reader(data)
        if r.take(4) != b"GGUF":
            raise Failed("%s is no GGUF file" % path)
        r.number("I")
        n_tensors, arch, found = r.number("Q"), None, []
        for _ in range(r.number("Q")):
            name, kind = r.text(), r.number("I")
            value = r.value(kind)
            arch = value if name == b"general.architecture" else arch
        for _ in range(n_tensors):
            name, dims = r.text().decode(), r.number("I")
            found.append((name, [r.number("Q") for _ in range(dims)]))
            r.take(12)
    return arch, found


def values(rng, kind, n):
    _, size, random_bits, set_bits = TYPES[kind]
    bits = int.from_bytes(rng.randbytes(n * size), "little") & int.from_bytes(random_bits * n, "little")
    return (bits | int.from_bytes(set_bits * n, "little")).to_bytes(n * size, "little")


def write(path, model, rank, kind, seed):
    """An adapter for all matrices of the model's layers."""
    def text(s):
        return struct.pack("<Q", len(s)) + s
    arch, tensors = shapes(model)
    keys = [(b"general.architecture", 8, text(arch)), (b"general.type", 8, text(b"adapter")), (b"adapter.type", 8, text(b"lora")),
            (b"adapter.lora.alpha", 6, struct.pack("<f", rank / 64))]
    rng, pairs, at = random.Random(seed), [], 0
    for name, (n_in, n_out, *stack) in ((n, d) for n, d in tensors if n.endswith(".weight") and n.split(".")[-2] in PARTS):
        pairs += [(name + ".lora_a", [n_in, rank, *stack]), (name + ".lora_b", [rank, n_out, *stack])]
    if not pairs:
        raise Failed("%s: no matrices of attention or feed-forward" % model)
    with open(path, "wb") as out:
        head = b"GGUF" + struct.pack("<IQQ", 3, len(pairs), len(keys)) + b"".join(text(k) + struct.pack("<I", t) + v for k, t, v in keys)
        counts = []
        for name, dims in pairs:
            n = 1
            for d in dims:
                n *= d
            head += text(name.encode()) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, TYPES[kind][0], at)
            at += (n * TYPES[kind][1] + 31) // 32 * 32
            counts.append(n)
        out.write(head + b"\0" * (-len(head) % 32))
        for n in counts:
            raw = values(rng, kind, n)
            out.write(raw + b"\0" * (-len(raw) % 32))


def make(o, folder, count):
    paths = [os.path.join(folder, "adapter%d.gguf" % i) for i in range(count)]
    for i, path in enumerate(paths):
        write(path, o.model, o.rank, o.type, i)
    return paths


def rate(o, options, repetitions, adapters):
    """Tokens/s with adapters, and how much that is of the rate without."""
    loras = [x for path in adapters for x in ("--lora", path)]
    row = peer.rows(peer.run(o.llmrun, "--bench", "-q", "-m", o.model, *loras, *options, "-r", str(repetitions), "-o", "json", *batch.threads(o)), o.llmrun)
    return row["avg_ts"], row["speedup"]


def measure(o, paths):
    found = {name: [] for name in o.only}
    for i in range(o.rounds):
        for name in o.only:
            options, repetitions, n = TESTS[name]
            found[name].append(rate(o, options, repetitions, paths[:n]))
            print("%s, round %d: %.2f t/s, %.3f" % (name, i + 1, *found[name][-1]), file=sys.stderr, flush=True)
    print("| test | adapters | tokens/s | without | ratio | least | most |\n|---|---|---|---|---|---|---|")
    for name, rates in found.items():
        ratio = [b for _, b in rates]
        print("| %s | %d of rank %d, %s | %.2f | %.2f | %.3f | %.3f | %.3f |" % (name, TESTS[name][2], o.rank, o.type, med(a for a, _ in rates),
                                                                             med(a / b for a, b in rates), med(ratio), min(ratio), max(ratio)))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default="./llmrun")
    ap.add_argument("--model", required=True)
    ap.add_argument("--rank", type=int, default=16)
    ap.add_argument("--type", choices=TYPES, default="f16", help="of the adapters' numbers in their files")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--threads", type=int)
    ap.add_argument("--only", type=lambda text: text.split(","), default=["decode", "seq8"])
    ap.add_argument("--make", metavar="FOLDER", help="write --count adapters there")
    ap.add_argument("--count", type=int, default=1)
    o = ap.parse_args()
    if [name for name in o.only if name not in TESTS]:
        ap.error("--only: expected some of %s" % ",".join(TESTS))
    try:
        if o.make:
            os.makedirs(o.make, exist_ok=True)
            print("\n".join(make(o, o.make, o.count)))
            return 0
        with tempfile.TemporaryDirectory(prefix="llmrun-adapters-") as folder:
            measure(o, make(o, folder, max(TESTS[name][2] for name in o.only)))
    except Failed as e:
        print("adapters.py: %s" % e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
