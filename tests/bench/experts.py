#!/usr/bin/env python3
"""A model of experts that is larger than memory, with and without --read-ahead.

    python3 tests/bench/experts.py LLMRUN [--limit 4096] [--times 1.5] [--layers N] [--gen 16] [--keep FILE]

Writes a file of `times` the limit (MiB) in the shape of Qwen3 30B-A3B with fewer layers (2048 wide, 128 experts of 768, 8 used, Q4_K; random weights),
makes a cgroup with that limit (version 2, or 1), runs there `--bench` with --read-ahead off and on in turn, each with no page of the file in
memory, and compares the tokens of a text. Needs the right to make a cgroup and room on disk; says so and exits 0 where either is missing.
Fails where a run is killed, where a text differs, or where reading ahead is less than twice as fast."""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

D, HEADS, KV, HD, E, USED, FF, VOCAB = 2048, 32, 4, 128, 128, 8, 768, 4096
Q4_K, F32 = 12, 0


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def kv(key, kind, value):
    return text(key) + struct.pack("<I", kind) + (text(value) if kind == 8 else struct.pack("<f" if kind == 6 else "<I", value))


def texts(key, values):
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def tensors(layers):
    """name, dimensions, type"""
    yield "token_embd.weight", (D, VOCAB), Q4_K
    for i in range(layers):
        b = f"blk.{i}."
        for name, n in (("attn_norm", D), ("ffn_norm", D), ("attn_q_norm", HD), ("attn_k_norm", HD)):
            yield b + name + ".weight", (n,), F32
        for name, n_in, n_out in (("attn_q", D, HEADS * HD), ("attn_k", D, KV * HD), ("attn_v", D, KV * HD), ("attn_output", HEADS * HD, D)):
            yield b + name + ".weight", (n_in, n_out), Q4_K
        yield b + "ffn_gate_inp.weight", (D, E), F32
        for name, n_in, n_out in (("gate", D, FF), ("up", D, FF), ("down", FF, D)):
            yield b + f"ffn_{name}_exps.weight", (n_in, n_out, E), Q4_K
    yield "output_norm.weight", (D,), F32


def size(dims, kind):
    n = int(np.prod(dims, dtype=np.int64))
    return n // 256 * 144 if kind == Q4_K else 4 * n


def write_head(f, layers):
    a = "qwen3moe."
    chars = [chr(c) for c in range(33, 33 + VOCAB * 3) if chr(c).isprintable() and not 0xd800 <= c < 0xe000][:VOCAB - 258]
    tokens = ["<unk>", "<s>"] + ["<0x%02X>" % i for i in range(256)] + chars
    keys = [kv("general.architecture", 8, "qwen3moe"), kv(a + "block_count", 4, layers), kv(a + "context_length", 4, 4096),
            kv(a + "embedding_length", 4, D), kv(a + "feed_forward_length", 4, FF), kv(a + "attention.head_count", 4, HEADS),
            kv(a + "attention.head_count_kv", 4, KV), kv(a + "attention.key_length", 4, HD), kv(a + "attention.value_length", 4, HD),
            kv(a + "attention.layer_norm_rms_epsilon", 6, 1e-6), kv(a + "rope.freq_base", 6, 1e6), kv(a + "expert_count", 4, E),
            kv(a + "expert_used_count", 4, USED), kv(a + "expert_feed_forward_length", 4, FF), kv("tokenizer.ggml.model", 8, "llama"),
            texts("tokenizer.ggml.tokens", tokens)]
    head, at = struct.pack("<4sIQQ", b"GGUF", 3, len(list(tensors(layers))), len(keys)) + b"".join(keys), 0
    for name, dims, kind in tensors(layers):
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind, at)
        at += (size(dims, kind) + 31) // 32 * 32
    f.write(head + bytes(-len(head) % 32))


def write(path, layers):
    rng = np.random.default_rng(1)
    with open(path, "wb") as f:
        write_head(f, layers)
        for name, dims, kind in tensors(layers):
            if kind == F32:
                w = rng.standard_normal(dims[::-1]).astype(np.float32)
                f.write((np.ones(dims, np.float32) if len(dims) == 1 else w * np.float32(4 / np.sqrt(D))).tobytes())
                continue
            n = size(dims, kind) // 144
            d = np.float16(1 / (np.sqrt(dims[0]) * 5.4 * 32))
            while n:                                        # codes and scales at random; the minimum is the mean of codes, 7.5
                some = min(n, 1 << 16)
                b = rng.integers(0, 256, (some, 144), dtype=np.uint8)
                b[:, 0:2] = np.frombuffer(d.tobytes(), np.uint8)
                b[:, 2:4] = np.frombuffer(np.float16(d * 7.5).tobytes(), np.uint8)
                b[:, 8:12] = b[:, 4:8]                      # minima equal to the scales
                b[:, 12:16] = (b[:, 12:16] & 15) * 17
                f.write(b.tobytes())
                n -= some


class Group:
    """A cgroup with a limit of memory; None in .path: none can be made."""

    def __init__(self, mib):
        name = "llmrun-experts-%d" % os.getpid()
        self.path = None
        for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            path = os.path.join(root, name)
            try:
                os.mkdir(path)
                if not os.path.exists(os.path.join(path, limit)):       # no cgroup, a plain folder
                    raise OSError
                with open(os.path.join(path, limit), "w") as f:
                    f.write(str(mib << 20))
                self.path = path
                return
            except OSError:
                if os.path.isdir(path):
                    os.rmdir(path)

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as f:
            f.write(str(os.getpid()))

    def run(self, *command):
        return subprocess.run(command, preexec_fn=self.enter, capture_output=True, text=True)

    def close(self):
        if self.path:
            os.rmdir(self.path)


def forget(path):
    """Drops the file's pages from memory."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("llmrun")
    p.add_argument("--limit", type=int, default=4096)
    p.add_argument("--times", type=float, default=1.5)
    p.add_argument("--gen", type=int, default=16)
    p.add_argument("--prompt", type=int, default=0)
    p.add_argument("--folder", default=os.environ.get("TMPDIR", "/var/tmp"))
    p.add_argument("--keep", metavar="FILE", help="use this file, made where it is missing, and keep it")
    a = p.parse_args()
    each = sum(size(d, k) for _, d, k in tensors(2)) - sum(size(d, k) for _, d, k in tensors(1))
    layers = max(1, round(a.limit * (1 << 20) * a.times / each))
    need = layers * each + (64 << 20)
    group = Group(a.limit)
    if not group.path or shutil.disk_usage(a.folder).free < need * 1.2:
        print("skipped: no cgroup can be made here" if not group.path else "skipped: no room on disk")
        group.close()
        return 0
    path, ok = a.keep or tempfile.mktemp(".gguf", "experts-", a.folder), True
    try:
        if not os.path.exists(path):
            write(path, layers)
        print(f"{os.path.getsize(path) / 2**20:.0f} MiB, {layers} layers, limit {a.limit} MiB")
        rate, text = {}, {}
        for how in ("off", "on"):
            forget(path)
            r = group.run(a.llmrun, "--bench", "-m", path, "-p", str(a.prompt), "-n", str(a.gen), "-r", "1", "--read-ahead", how, "--format", "json")
            read = re.findall(r"([\d.]+) MiB read from disk", r.stderr)
            if r.returncode:
                print(f"--read-ahead {how}: exit {r.returncode}: {r.stderr.strip()}")
                ok = False
                continue
            rate[how] = [row["avg_ts"] for row in json.loads(r.stdout)]
            print(f"--read-ahead {how}: {', '.join('%.2f' % x for x in rate[how])} tokens/s, {', '.join(read)} MiB read", flush=True)
        for how in ("off", "on"):
            r = group.run(a.llmrun, "-m", path, "--raw", "-p", "abc", "-n", "4", "--temp", "0", "--ids", "--ignore-eos", "-q", "--read-ahead", how)
            text[how] = r.stdout
            ok &= r.returncode == 0
        ok &= text["off"] == text["on"] and len(text["on"]) > 4
        print("texts are equal" if text["off"] == text["on"] else "texts differ")
        if len(rate) == 2:
            gain = [b / x for x, b in zip(rate["off"], rate["on"])]
            print("gain", ", ".join("%.2fx" % g for g in gain))
            ok &= min(gain) >= 2
    finally:
        if not a.keep and os.path.exists(path):
            os.remove(path)
        group.close()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
