#!/usr/bin/env python3
"""The command with layers on an NVIDIA GPU, which tests/fake_cuda.c plays: the same bytes as without one, or with --same off its own; what is said
when it cannot be used.

    python3 tests/cuda.py build/test/fake [WORD ...]     cases whose name holds a word, else all

The folder has libcuda.so.1, which runs the kernels on the CPU; llmrun, with the image that it takes; bare, the program without kernels.
"""
import collections, os, shutil, struct, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from kit import ENV, SLOW, begin, case, check, done, equal, finish, jsonl, one_line, records, refused, same, sanitized, scratch, some, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = os.path.join(HERE, "tests", "data", "tiny")
SMALL = os.path.join(TINY, "llama.gguf")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
TMP, tmp, put = scratch("cuda")
FAKE = os.path.abspath(sys.argv[1])
PROGRAM, BARE = os.path.join(FAKE, "llmrun"), os.path.join(FAKE, "bare")
TEXT = "Tom was a cat. Tom liked milk. The cat sat on the mat, and the dog ran away. "
SHORT = "-m", SMALL, "-p", "Hello", "-n", "2", "--temp", "0", "--ignore-eos", "--same", "on", "-q", "--no-stdin"
LAYERS = "all", "1"
CALLS = collections.Counter()          # runs, and calls of the driver


def run(*args, binary=PROGRAM, folder=FAKE, timeout=120, **fake):
    """A run; fake: of FAKE_CUDA_DEVICES and others, the last word in small letters. In .calls the number of calls of the driver."""
    handle, counts = tempfile.mkstemp(dir=TMP)
    os.close(handle)
    env = {k: v for k, v in ENV.items() if not k.startswith("FAKE_CUDA_")}
    env.update({"FAKE_CUDA_" + k.upper(): str(v) for k, v in fake.items()}, LD_LIBRARY_PATH=folder, FAKE_CUDA_COUNT=counts)
    r = finish(begin([binary, *args], env=env), timeout)
    with open(counts) as f:
        r.calls = int(f.read() or 0)
    os.unlink(counts)
    CALLS.update(runs=1, calls=r.calls)
    return r


def models():
    with open(os.path.join(TINY, "manifest.txt")) as f:
        return [os.path.join(TINY, name) for name in sorted({line.split()[1] for line in f if "invented" not in line})]


def each(f, items):
    """f of every item, two at a time: most of a run is one thread's."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(f, items))


def alike(*args, layers=LAYERS, **fake):
    """Runs without and with layers on the GPU: the same exit code, text and errors. The last run."""
    args += "--same", "on"
    want = run(*args, "-ngl", "0", "-q", "-t", "2")
    check(want.rc == 0 and want.calls == 0, "%s: %r, %d calls" % (" ".join(args), want, want.calls))
    for n in layers:
        got = run(*args, "-ngl", n, "-q", "-t", "2", **fake)
        same((got.rc, got.out, got.err), (want.rc, want.out, want.err), "%s -ngl %s" % (" ".join(args), n))
        check(got.calls > 0, "%s -ngl %s: no call of the driver" % (" ".join(args), n))
    return got


def alike_lines(lines, *args, model=SMALL, layers=LAYERS, **fake):
    """The same for a file of lines."""
    args = "-m", model, "--batch", put("in%d.jsonl" % hash((args, model)), jsonl(lines)), "-q", "-t", "2", "--same", "on", *args
    want = run(*args, "-ngl", "0")
    for n in layers:
        got = run(*args, "-ngl", n, **fake)
        same((want.rc, got.rc), (0, 0), "%s -ngl %s: %r" % (" ".join(args), n, got))
        equal(records(got.out), records(want.out), "%s -ngl %s" % (" ".join(args), n))


# --- what is said where a GPU cannot be used ---

def folder_with(name, make):
    """A folder with another libcuda.so.1."""
    os.makedirs(tmp(name), exist_ok=True)
    make(os.path.join(tmp(name), "libcuda.so.1"))
    return tmp(name)


def missing():
    """What makes a GPU unusable: the program, the folder of the driver, its settings, a word of the message."""
    broken = folder_with("broken", lambda path: open(path, "w").close())
    other = folder_with("other", lambda path: shutil.copy(subprocess.check_output(["sh", "-c", "ldd $0 | awk '/libpcre2/ { print $3 }'", PROGRAM]).decode().strip(), path))
    return [(BARE, FAKE, {}, "this program was built without CUDA kernels"),
            (PROGRAM, broken, {}, r"there is no NVIDIA driver \(.*libcuda"),
            (PROGRAM, other, {}, "the NVIDIA driver is too old: it has no cu"),
            (PROGRAM, FAKE, {"driver": 11020}, r"the NVIDIA driver is too old: it has CUDA 11\.2, at least 11\.4 is needed"),
            (PROGRAM, FAKE, {"fail": "1:34"}, "libcuda.so.1 here is the stub library of the CUDA toolkit, not a driver"),
            (PROGRAM, FAKE, {"devices": 0}, "there is no NVIDIA GPU")]


def unusable():
    """The same, and what is wrong with a device that --list-devices shows."""
    return missing() + [(PROGRAM, FAKE, {"cc": 75}, r"GPU 0 \(Fake GPU 0\) has compute capability 7\.5, at least 8\.0 is needed")]


@case
def listed():
    """--list-devices: a line for each device, or why there is none"""
    r = run("--list-devices", devices=2, memory=3 << 30, cc=86)
    same((r.rc, r.err), (0, b""), "two devices")
    same(r.out, b"0  Fake GPU 0, compute capability 8.6, 3.0 GiB, 3.0 GiB free\n1  Fake GPU 1, compute capability 8.6, 3.0 GiB, 3.0 GiB free\n", "two devices")
    same(run("--list-devices", cc=70).rc, 0, "a device that is too old is listed")
    for binary, folder, fake, word in missing():
        refused(run("--list-devices", binary=binary, folder=folder, **fake), 3, word, "--list-devices")
    last = run("--list-devices").calls
    for n in range(1, last + 1):
        refused(run("--list-devices", fail=n), 3, "cu[A-Z][A-Za-z]*: error 719, unspecified launch failure", "call %d" % n)
    refused(run("--list-devices", "-p", "x"), 2, "--prompt has no effect|-p has no effect", "--list-devices -p")


@case
def explicit():
    """-ngl N that cannot be met: exit 3, one line that says why"""
    for binary, folder, fake, word in unusable():
        for n in "all", "1", "99":
            refused(run(*SHORT, "-ngl", n, binary=binary, folder=folder, **fake), 3, word, "-ngl " + n)
    refused(run(*SHORT, "-ngl", "all", "--device", "2", devices=2), 3, "there is no GPU 2: the last of 2 is number 1", "--device")
    refused(run(*SHORT, "-ngl", "all", memory=1 << 16), 3, "memory of the GPU is short by .* MiB: 2 layers and their cache take", "little memory")
    for value, word in ("x", "-ngl: expected N, auto or all, found 'x'"), ("-3", "-ngl: -3 is out of range"), ("1.5", "-ngl: expected a whole number, found '1.5'"):
        refused(run(*SHORT, "-ngl", value), 2, word, "-ngl " + value)
    refused(run(*SHORT, "--device", "gpu"), 2, "--device: expected N or auto, found .gpu.", "--device gpu")


@case
def silent():
    """-ngl auto, the default, without a GPU: what the CPU writes and not a word; a line under -v"""
    args = SHORT[:-2] + ("--no-stdin",)
    want = run(*args, "-ngl", "0")
    check(want.rc == 0 and want.out and want.calls == 0, "%r" % want)
    for binary, folder, fake, word in unusable():
        for extra in [], ["-ngl", "auto"], ["-ngl", "-1"], ["-ngl", "0"]:
            got = run(*args, "-q", *extra, binary=binary, folder=folder, **fake)
            same((got.rc, got.out, got.err), (0, want.out, b""), "%s %s" % (word, extra))
        said = run(*args, "-v", binary=binary, folder=folder, **fake).err.decode()
        check(sum("GPU" in line for line in said.splitlines()) == 1 or word in said, "-v: %s" % said)


# --- the same bytes ---

def texts_of(path):
    alike("-m", path, "-p", "Hello world, this is a test", "--logits", "-", layers=["all"])
    alike("-m", path, "-p", "Hello world", "-n", "3", "--temp", "0.9", "--seed", "3", "--ignore-eos")


@case
def tiny():
    """every tiny model gives the same logits and the same text"""
    each(texts_of, some(models()))


LINES = [{"prompt": TEXT[:40] + TEXT[i:i + 3 * i], "max_tokens": 4 + i, "temperature": 0.7 * (i % 3), "seed": i, "n": 1 + i % 2, "logprobs": 2} for i in range(6)]


@case
def batch():
    """files of lines: shared beginnings, several answers to a prompt, a cache that is too small for all of them"""
    for name in some(["llama", "llama_q4_k_m", "gpt-oss", "gemma3", "qwen35", "lfm2", "qwen3moe_q8_0"], 3):
        path = os.path.join(TINY, name + ".gguf")
        alike_lines(LINES, "-np", "6", model=path)
        alike_lines(LINES, "-np", "6", "--kv-block-size", "4", "--kv-blocks", "60", model=path)


@case
def cache_types():
    """types of the cache, sizes of its blocks, chunks of a prompt, threads"""
    for k, v in ("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("q8_0", "q8_0"), ("q8_0", "q4_0"), ("q4_0", "f16"):
        alike("-m", os.path.join(TINY, "qwen3_q8_0.gguf"), "-p", TEXT, "-n", "4", "--temp", "0", "--ignore-eos", "-ctk", k, "-ctv", v, "-b", "7")
    alike("-m", os.path.join(TINY, "llama_window.gguf"), "-p", TEXT, "-n", "8", "--temp", "0", "--ignore-eos", "--kv-block-size", "4")
    alike("-m", SMALL, "--score", "-p", TEXT)


@case
def far():
    """a prompt of more positions than one segment of attention has"""
    alike("-m", PIP, "-p", TEXT * 25, "-n", "2", "--temp", "0", "--ignore-eos", "-c", "1000", layers=["1"])


@case
def behind():
    """steps of one row behind more positions than the model was trained with, of which a prompt cache holds the beginning"""
    args = "-m", SMALL, "-p", TEXT * 60, "-n", "5", "--temp", "0", "--ignore-eos", "-q", "-c", "5000", "--prompt-cache", tmp("behind"), "--prompt-cache-all", "--same", "on"
    want = run(*args, "-ngl", "0")
    check(want.rc == 0, repr(want))
    for layers in "all", "1":
        got = run(*args, "--prompt-cache-ro", "-b", "1", "--no-lookup", "-ngl", layers)
        same((got.rc, got.out, got.err), (0, want.out, want.err), "-ngl " + layers)


@case
def guesses():
    """speculative decoding, by lookup and with a draft model"""
    for name in "llama", "qwen35":
        path = os.path.join(TINY, name + ".gguf")
        args = "-m", path, "-p", TEXT, "-n", "12", "--temp", "0", "--ignore-eos"
        for extra in ["--no-lookup"], ["--lookup"], ["-md", path, "--draft-max", "3"]:
            alike(*args, *extra)


@case
def kept():
    """a prompt cache on disk: written with layers on the GPU or without, it holds the same bytes, and either run reads it"""
    args = "-m", SMALL, "-p", TEXT, "-n", "3", "--temp", "0", "--ignore-eos", "-q", "--same", "on", "--prompt-cache"
    made = {}
    for n in "0", "all", "1":
        r = run(*args, tmp("kept." + n), "-ngl", n)
        with open(tmp("kept." + n), "rb") as f:
            made[n] = r.rc, r.out, r.err, f.read()
        same(made[n], made["0"], "-ngl " + n)
    for n, of in ("0", "all"), ("all", "0"), ("1", "all"), ("all", "1"):
        r = run(*args, tmp("kept." + of), "-ngl", n)
        same((r.rc, r.out, r.err), made["0"][:3], "-ngl %s reads what -ngl %s wrote" % (n, of))


@case
def embedded():
    """vectors of texts: of encoders, and of decoders"""
    folder = os.path.join(HERE, "tests", "data", "encoders")
    for path in some([os.path.join(folder, name + ".gguf") for name in ("bert", "gemma-embedding", "nomic-bert-moe")] + [SMALL], 2):
        want = run("-m", path, "--embed", "-p", TEXT, "--pooling", "mean", "-q", "-ngl", "0")
        got = run("-m", path, "--embed", "-p", TEXT, "--pooling", "mean", "-q", "-ngl", "auto", "--same", "on")
        same((got.rc, got.out, got.err), (0, want.out, want.err), path)


@case
def apart():
    """the device's memory is touched by its own work alone"""
    for name in some(["llama", "gpt-oss", "qwen35"], 3):
        path = os.path.join(TINY, name + ".gguf")
        alike("-m", path, "-p", TEXT, "-n", "4", "--temp", "0.9", "--seed", "3", "--ignore-eos", apart=1)
        alike_lines(LINES, "-np", "6", "--kv-block-size", "4", "--kv-blocks", "60", model=path, apart=1)


# --- --same off ---

QUANTISED = os.path.join(TINY, "qwen3_q8_0.gguf")
FLOATS = "llama", "llama_f16", "qwen2_bf16", "llama_moe", "gpt-oss", "qwen35", "gemma3n"


def logits(path, *args):
    r = run("-m", path, "-p", TEXT, "--logits", "-", "-q", *args)
    check(r.rc == 0 and r.out, "%s %s: %r" % (path, " ".join(args), r))
    return r.out, struct.unpack("<%df" % (len(r.out) // 4), r.out)


@case
def near():
    """--same off: logits near the CPU's, and others; the same ones for chunks of any size, on a part of the layers too"""
    for name in some(FLOATS, 4):
        path = os.path.join(TINY, name + ".gguf")
        exact, want = logits(path, "-ngl", "0", "--same", "off")
        for layers in "all", "1":
            text, got = logits(path, "-ngl", layers, "--same", "off")
            same(len(got), len(want), name)
            # roundings of 2^-16 of a product, and of bf16 values that fall to the other side, through two layers
            worst, most = max(abs(a - b) for a, b in zip(got, want)), max(abs(x) for x in want)
            check(worst <= 0.02 * most, "%s -ngl %s: logits are %g off, of %g" % (name, layers, worst, most))
            check(text != exact or layers == "1", "%s: no tensor core was used" % name)     # the last layer of gemma3n stays on the CPU
            for chunk in "1", "7", "20":
                same(logits(path, "-ngl", layers, "--same", "off", "-b", chunk)[0], text, "%s -ngl %s -b %s" % (name, layers, chunk))


@case
def own():
    """--same off: a text is the same alone and in a batch, with guesses and without, and with a prompt cache of its own"""
    for name in some(FLOATS, 3):
        path = os.path.join(TINY, name + ".gguf")
        args = "-m", path, "-ngl", "all", "--same", "off", "-q"
        lines = put("own.jsonl", jsonl(LINES))
        all_of = [records(run(*args, "--batch", lines, *more).out) for more in (["-np", "1"], ["-np", "6"], ["-np", "6", "-b", "9", "--kv-block-size", "4", "--kv-blocks", "60"])]
        check(len(all_of[0]) == len(LINES), "%s: %d records" % (name, len(all_of[0])))
        for got in all_of[1:]:
            equal(got, all_of[0], name)
        args += "-p", TEXT, "-n", "12", "--temp", "0", "--ignore-eos"
        want = run(*args, "--no-lookup")
        for extra in ["--lookup"], ["-md", path, "--draft-max", "3"], ["-b", "5"], ["--prompt-cache", tmp("own." + name)], ["--prompt-cache", tmp("own." + name)]:
            got = run(*args, *extra)
            same((got.rc, got.out, got.err), (0, want.out, b""), "%s %s" % (name, " ".join(extra)))


@case
def chosen():
    """--same auto: off for a model of floats, on for a quantised one; -v says which"""
    for path, off in (SMALL, True), (os.path.join(TINY, "llama_f16.gguf"), True), (QUANTISED, False):
        made = {word: logits(path, "-ngl", "all", "--same", word)[0] for word in ("on", "off", "auto")}
        same(made["on"], logits(path, "-ngl", "0")[0], path)
        same(made["auto"], made["off" if off else "on"], path)
        said = run("-m", path, "-p", "Hello", "-n", "1", "-v", "-ngl", "all").err.decode()
        check(("floats by tensor cores (--same auto)" in said) == off and ("the bits of the CPU (--same auto)" in said) != off, said)
    refused(run("-m", SMALL, "-p", "Hello", "--same", "maybe"), 2, "--same: .*maybe", "--same maybe")


@case
def apart_on_disk():
    """--same off: a prompt cache is used by the same layers on a GPU of the same kind alone; others make it anew"""
    args = "-m", SMALL, "-p", TEXT, "-n", "3", "--temp", "0", "--ignore-eos", "--prompt-cache", tmp("apart"), "--prompt-cache-ro"
    ways = {"cpu": (["-ngl", "0"], {}), "on": (["-ngl", "all", "--same", "on"], {}), "off": (["-ngl", "all", "--same", "off"], {}),
            "part": (["-ngl", "1", "--same", "off"], {}), "other": (["-ngl", "all", "--same", "off"], {"cc": 86})}
    groups = {"cpu": 0, "on": 0, "off": 1, "part": 2, "other": 3}
    for maker in ways:
        if os.path.exists(tmp("apart")):
            os.unlink(tmp("apart"))
        r = run(*args[:-1], "-q", *ways[maker][0], **ways[maker][1])
        check(r.rc == 0, repr(r))
        for reader in ways:
            r = run(*args, *ways[reader][0], **ways[reader][1])
            check((b"it is not used" in r.err) == (groups[maker] != groups[reader]), "%s reads what %s wrote: %r" % (reader, maker, r))


@case
def resumed():
    """results of a batch name --same where it is given: --resume goes on with the same word alone"""
    args = "-m", SMALL, "--batch", put("resumed.jsonl", jsonl(LINES[:1])), "-o", tmp("resumed.out"), "-q", "-ngl", "all", "--same"
    same(run(*args, "off").rc, 0, "--same off")
    refused(run(*args, "on", "--resume"), 2, "was made with same off, this run has on", "--resume --same on")
    same(run(*args, "off", "--resume").rc, 0, "--resume --same off")


# --- when a call fails ---

@case
def fails():
    """whichever call of the driver fails: exit 3 and one line; where auto opens the device, the CPU's text"""
    want = run(*SHORT, "-ngl", "0")
    last = run(*SHORT, "-ngl", "all").calls
    check(last > 100, "%d calls" % last)
    each(lambda n: refused_or_told(run(*SHORT, "-ngl", "all", fail=n), want, n), some(range(1, last + 1), 11))
    silent = 0
    for n in range(1, 40):
        r = run(*SHORT, "-ngl", "auto", fail=n)
        silent += r.rc == 0
        if r.rc == 0:
            same((r.out, r.err), (want.out, b""), "auto, call %d" % n)
        else:
            refused_or_told(r, want, n)
    check(5 < silent < 39, "auto: %d of the first calls" % silent)


def refused_or_told(r, want, n):
    """Exit 3, one line that names a call of the driver, and no more than the beginning of the text."""
    same(r.rc, 3, "call %d: %r" % (n, r))
    check(one_line(r.err) and b"error 719, unspecified launch failure" in r.err, "call %d: %r" % (n, r))
    check(want.out.startswith(r.out), "call %d: %r" % (n, r))


@case
def little_memory():
    """auto with little memory takes fewer layers or none, -ngl all says how much it lacks"""
    want = run(*SHORT, "-ngl", "0")
    states = collections.Counter()
    for memory in [1 << n for n in range(14, 31, 2)]:
        r = run(*SHORT, "-ngl", "auto", memory=memory)
        same((r.rc, r.out, r.err), (0, want.out, b""), "%d bytes" % memory)
        r = run(*SHORT, "-ngl", "all", memory=memory)
        states[r.rc] += 1
        check(r.rc in (0, 3), "%d bytes: %r" % (memory, r))
        if r.rc:
            refused(r, 3, "memory of the GPU is short by .* MiB: .* layers and their cache take", "%d bytes" % memory)
    check(states[0] and states[3], "exit codes: %r" % states)


def main():
    return walk("cuda", sys.argv[2:], TMP, lambda: print("%(runs)d runs, %(calls)d calls of the driver" % CALLS))


sys.exit(main())
