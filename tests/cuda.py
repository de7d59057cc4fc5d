#!/usr/bin/env python3
"""The command with layers on an NVIDIA GPU, which tests/fake_cuda.c plays: the same bytes as without one, or with --same off
its own; what is said when it cannot be used.

    python3 tests/cuda.py build/test/fake [WORD ...]     cases whose name holds a word, else all

The folder has libcuda.so.1, which runs the kernels on the CPU; llmrun, with the image that it takes; bare, the program
without kernels.
"""
import collections, json, os, re, shutil, struct, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
import script
from kit import (ENV, SLOW, begin, case, check, done, equal, finish, jsonl, one_line, records, refused, same, sanitized, scratch,
                 some, walk)

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = os.path.join(HERE, "tests", "data", "tiny")
SMALL = os.path.join(TINY, "llama.gguf")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
TMP, tmp, put = scratch("cuda")
FAKE = os.path.abspath(sys.argv[1])
PROGRAM, BARE = os.path.join(FAKE, "llmrun"), os.path.join(FAKE, "bare")
TEXT = "Tom was a cat. Tom liked milk. The cat sat on the mat, and the dog ran away. "
# gated delta nets, short convolutions; Mamba-2, beside attention and alone; Mamba; Kimi delta attention; RWKV
RECURRENT = ("qwen35", "qwen35_even", "qwen3next", "qwen35moe", "lfm2", "lfm2_tap4", "lfm2moe", "nemotron_h_moe", "granitehybrid",
             "falcon-h1", "plamo2", "jamba", "mamba_falcon", "kimi-linear", "rwkv7", "arwkv7", "rwkv6", "rwkv6qwen2")
# attention to positions that indexers choose has no kernels, nor have streams with hyper-connections
INDEXED = ("deepseek32", "glm-dsa", "minimax-m3", "qwen4exp", "qwen4exp_odd", "qwen4exp_plain", "qwen4exp_q8_0", "deepseek4", "deepseek4_odd",
           "deepseek4_q8_0")
SHORT = "-m", SMALL, "-p", "Hello", "-n", "2", "--temp", "0", "--ignore-eos", "--same", "on", "-q", "--no-stdin"
LAYERS = "all", "1"
CALLS = collections.Counter()          # runs, and calls of the driver


def run(*args, binary=PROGRAM, folder=FAKE, timeout=120, inp=None, **fake):
    """A run; fake: of FAKE_CUDA_DEVICES and others, the last word in small letters. In .calls the number of calls of the
    driver, in .down that of bytes that came down from the GPU."""
    handle, counts = tempfile.mkstemp(dir=TMP)
    os.close(handle)
    env = {k: v for k, v in ENV.items() if not k.startswith("FAKE_CUDA_")}
    env.update({"FAKE_CUDA_" + k.upper(): str(v) for k, v in fake.items()}, FAKE_CUDA_COUNT=counts)
    if folder:
        env["LLMRUN_LIBCUDA"] = os.path.join(folder, "libcuda.so.1")
    r = finish(begin([binary, *args], env=env, stdin=subprocess.PIPE if inp else subprocess.DEVNULL), timeout, inp)
    with open(counts) as f:
        r.calls, r.down = map(int, (f.read() or "0 0").split())
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
    """The same for a file of lines. The last run."""
    args = "-m", model, "--batch", put("in%d.jsonl" % hash((args, model)), jsonl(lines)), "-q", "-t", "2", "--same", "on", *args
    want = run(*args, "-ngl", "0")
    for n in layers:
        got = run(*args, "-ngl", n, **fake)
        same((want.rc, got.rc), (0, 0), "%s -ngl %s: %r" % (" ".join(args), n, got))
        equal(records(got.out), records(want.out), "%s -ngl %s" % (" ".join(args), n))
    return got


# --- what is said where a GPU cannot be used ---

def folder_with(name, make):
    """A folder with another libcuda.so.1."""
    os.makedirs(tmp(name), exist_ok=True)
    make(os.path.join(tmp(name), "libcuda.so.1"))
    return tmp(name)


def missing():
    """What makes a GPU unusable: the program, the folder of the driver, its settings, a word of the message."""
    broken = folder_with("broken", lambda path: open(path, "w").close())
    library = subprocess.check_output(["sh", "-c", "ldd $0 | awk '/libpcre2/ { print $3 }'", PROGRAM]).decode().strip()
    other = folder_with("other", lambda path: shutil.copy(library, path))
    no_driver = [(PROGRAM, None, {}, r"there is no NVIDIA driver \(no /dev/nvidiactl\)")]
    if any(map(os.path.exists, ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"))):
        no_driver = []
    return no_driver + [
            (BARE, FAKE, {}, "this program was built without CUDA kernels"),
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
    same(r.out, b"0  Fake GPU 0, compute capability 8.6, 3.0 GiB, 3.0 GiB free\n"
                b"1  Fake GPU 1, compute capability 8.6, 3.0 GiB, 3.0 GiB free\n", "two devices")
    same(run("--list-devices", cc=70).rc, 0, "a device that is too old is listed")
    for binary, folder, fake, word in missing():
        refused(run("--list-devices", binary=binary, folder=folder, **fake), 3, word, "--list-devices")
    last = run("--list-devices").calls
    for n in range(1, last + 1):
        refused(run("--list-devices", fail=n), 3, "cu[A-Z][A-Za-z]*: error 719, unspecified launch failure", "call %d" % n)
    for path in "build/test/fake/libcuda.so.1", "libcuda.so.1", "":
        refused(finish(begin([PROGRAM, "--list-devices"], env={**ENV, "LLMRUN_LIBCUDA": path}, stdin=subprocess.DEVNULL), 60), 2,
                "LLMRUN_LIBCUDA: found %s, expected an absolute path" % path, "LLMRUN_LIBCUDA=" + path)
    refused(run("--list-devices", "-p", "x"), 2, "--prompt has no effect|-p has no effect", "--list-devices -p")


@case
def explicit():
    """-ngl N that cannot be met: exit 3, one line that says why"""
    for binary, folder, fake, word in unusable():
        for n in "all", "1", "99":
            refused(run(*SHORT, "-ngl", n, binary=binary, folder=folder, **fake), 3, word, "-ngl " + n)
    refused(run(*SHORT, "-ngl", "all", "--device", "2", devices=2), 3, "there is no GPU 2: the last of 2 is number 1", "--device")
    refused(run(*SHORT, "-ngl", "all", memory=1 << 16), 3,
            "memory of the GPU is short by .* MiB: 2 layers and their cache take", "little memory")
    for value, word in ("x", "-ngl: expected N, auto or all, found 'x'"), ("-3", "-ngl: -3 is out of range"), \
            ("1.5", "-ngl: expected a whole number, found '1.5'"):
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
    where, lacks = on_gpus("-m", path, "-p", "Hello", "-n", "1", "-ngl", "all")
    whole = len(where) == 1 and where[0][0] == 1 and where[0][1] == where[0][2] and not lacks
    check(whole or os.path.basename(path)[:-5] in INDEXED, "%s: layers %r on the GPU" % (path, where))
    alike("-m", path, "-p", "Hello world, this is a test", "--logits", "-", layers=["all"])
    alike("-m", path, "-p", "Hello world", "-n", "3", "--temp", "0.9", "--seed", "3", "--ignore-eos")


@case
def tiny():
    """every tiny model without indexers runs there as a whole; all give the same logits and the same text"""
    each(texts_of, some(models()))


LINES = [{"prompt": TEXT[:40] + TEXT[i:i + 3 * i], "max_tokens": 4 + i, "temperature": 0.7 * (i % 3), "seed": i,
          "n": 1 + i % 2, "logprobs": 2} for i in range(6)]


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
        alike("-m", os.path.join(TINY, "qwen3_q8_0.gguf"), "-p", TEXT, "-n", "4", "--temp", "0", "--ignore-eos", "-ctk",
              k, "-ctv", v, "-b", "7")
    alike("-m", os.path.join(TINY, "qwen3_q8_0.gguf"), "-p", TEXT, "-n", "4", "--temp", "0", "--ignore-eos", "-ctk",
          "q8_0", "-ctv", "q8_0")
    alike("-m", os.path.join(TINY, "llama_window.gguf"), "-p", TEXT, "-n", "8", "--temp", "0", "--ignore-eos",
          "--kv-block-size", "4")
    alike("-m", SMALL, "--score", "-p", TEXT)


@case
def far():
    """a prompt of more positions than one segment of attention has"""
    alike("-m", PIP, "--raw", "-p", TEXT * 25, "-n", "2", "--temp", "0", "--ignore-eos", "-c", "1000", layers=["1"])


@case
def after():
    """steps of one row after more positions than the model was trained with, of which a prompt cache holds the beginning"""
    args = ("-m", SMALL, "-p", TEXT * 60, "-n", "5", "--temp", "0", "--ignore-eos", "-q", "-c", "5000", "--prompt-cache",
            tmp("after"), "--prompt-cache-all", "--same", "on")
    want = run(*args, "-ngl", "0")
    check(want.rc == 0, repr(want))
    for layers in "all", "1":
        got = run(*args, "--prompt-cache-ro", "-b", "1", "--no-lookup", "-ngl", layers)
        same((got.rc, got.out, got.err), (0, want.out, want.err), "-ngl " + layers)


@case
def guesses():
    """speculative decoding, by lookup and with a draft model"""
    for name in "llama", "qwen35", "lfm2":
        path = os.path.join(TINY, name + ".gguf")
        args = "-m", path, "-p", TEXT, "-n", "12", "--temp", "0", "--ignore-eos"
        for extra in ["--no-lookup"], ["--lookup"], ["-md", path, "--draft-max", "3"]:
            alike(*args, *extra)


GREEDY = "--temp", "0", "--no-lookup"
NEEDS_LOGITS = {"temperature": 0.7}, {"presence_penalty": 1}, {"frequency_penalty": 1}, {"logit_bias": {"7": 1}}, \
    {"logprobs": 1}, {"grammar": "root ::= [a-z ]*"}
OPTIONS_THAT_DO = ["--repeat-penalty", "1.3"], ["--dry-multiplier", "1"], ["--xtc-probability", "0.5"], \
    ["--typical", "0.9"], ["--dynatemp-range", "0.5"], \
    ["--samplers", "top_k"]
NEEDS_NONE = {}, {"top_p": 0.5}, {"stop": "zzz", "n": 2}
OPTIONS_THAT_DO_NOT = ["--top-k", "5", "--min-p", "0.1", "--top-nsigma", "1"], ["--mirostat", "1"], \
    ["--samplers", "temperature;penalties", "--repeat-penalty", "1.3"]


def lines_down(lines, *args):
    """Runs lines without and with all layers on the GPU: the same records. Bytes that came down."""
    lines = [{"prompt": "Hello", "max_tokens": 4, "temperature": 0, "seed": 5, **line} for line in lines]
    return alike_lines(lines, "--no-lookup", *args, layers=["all"]).down


@case
def ids():
    """largest logits come down as numbers of 4 bytes, logits where they are needed; lines of both kinds give the same answers"""
    logits = lines_down([{"temperature": 0.7, "max_tokens": 1}])
    check(logits > 400 and logits % 4 == 0, "%d bytes" % logits)
    for line, args in [(line, []) for line in NEEDS_NONE] + [({}, args) for args in OPTIONS_THAT_DO_NOT]:
        n = lines_down([line], *args)
        check(0 < n <= 4 * 4 * line.get("n", 1) and n % 4 == 0, "%r %r: %d bytes" % (line, args, n))
    for line, args in [(line, []) for line in NEEDS_LOGITS] + [({}, args) for args in OPTIONS_THAT_DO]:
        n = lines_down([line], *args)
        check(0 < n <= 4 * logits and n % logits == 0, "%r %r: %d bytes" % (line, args, n))
    both = lines_down([{"max_tokens": 2 + i, "prompt": TEXT[:9 + i], **line} for i,
                       line in enumerate((*NEEDS_LOGITS, *NEEDS_NONE))], "-np", "16")
    check(both > logits and both % logits, "%d bytes" % both)
    same(run("-m", SMALL, "-p", TEXT, "-n", "9", *GREEDY, "-q", "-ngl", "all", "-b", "7").down, 9 * 4, "a prompt in chunks")


@case
def ids_guessed():
    """rows that verify guesses bring down numbers alone too, and are as often right"""
    path = script.write(tmp("round.gguf"), [["a", "b", "c", "d", "e", "f", "a"]])
    for extra in ["--lookup"], ["-md", path, "--draft-max", "3"]:
        got = alike("-m", path, "-p", "abcdefabcdef", "-n", "30", "--temp", "0", *extra, layers=["all"])
        check(got.out.endswith(b"abcdefabcdefabcdefabcdefabcdef") and 4 * 30 <= got.down < 4 * 60,
              "%r: %d bytes" % (extra, got.down))


@case
def ids_banned():
    """where the largest logit's token may not be picked, or a logit is not finite, the logits come after all"""
    path = script.write(tmp("end.gguf"), [["a", "b", "c", "<|end|>"]])
    args = "-p", "a", "-n", "6", *GREEDY
    n = alike("-m", path, *args, layers=["all"]).down
    same(n, 3 * 4, "up to the end")
    check(alike("-m", path, *args, "--ignore-eos", layers=["all"]).down > 6 * 4, "no end is picked")
    mute = script.write(tmp("mute.gguf"), [["a", "b", "c"]],
                        kv=[("tokenizer.ggml.suppress_tokens", script.ARR, (script.I32, [264]))])
    check(alike("-m", mute, *args, layers=["all"]).down > 6 * 4, "a banned token is not picked")
    with open(path, "rb") as f:
        data = f.read()
    norm = struct.pack("<256f", *[0.25] * 256)
    check(data.count(norm) == 1, "the weights of the last norm")
    bad = put("bad.gguf", data.replace(norm, struct.pack("<256f", *[0.25] * 9, float("inf"), *[0.25] * 246)))
    want, got = (run("-m", bad, *args, "-q", "-ngl", layers) for layers in ("0", "all"))
    refused(got, 2, "hold a NaN or an infinity", "a weight that is infinite")
    same((got.rc, got.out, got.err), (want.rc, want.out, want.err), "a weight that is infinite")


@case
def kept():
    """a prompt cache on disk: written with layers on the GPU or without, it holds the same bytes, and either run reads it"""
    for name in "llama", "qwen35", "lfm2":
        args = ("-m", os.path.join(TINY, name + ".gguf"), "-p", TEXT, "-n", "3", "--temp", "0", "--ignore-eos", "-q", "--same",
                "on", "--prompt-cache")
        made = {}
        for n in "0", "all", "1":
            r = run(*args, tmp(name + n), "-ngl", n)
            with open(tmp(name + n), "rb") as f:
                made[n] = r.rc, r.out, r.err, f.read()
            same(made[n], made["0"], "%s, -ngl %s" % (name, n))
        for n, of in ("0", "all"), ("all", "0"), ("1", "all"), ("all", "1"):
            r = run(*args, tmp(name + of), "-ngl", n)
            same((r.rc, r.out, r.err), made["0"][:3], "%s, -ngl %s reads what -ngl %s wrote" % (name, n, of))


# --- recurrent states ---

def on_gpus(*args, **fake):
    """Layers that run on GPUs, of how many: what -v says; the last word before it, of a layer that cannot."""
    said = run(*args, "-v", **fake).err.decode()
    return [tuple(map(int, m)) for m in re.findall(r"^llmrun: GPU \d+ +layers (\d+) to (\d+) of (\d+)", said,
                                                   re.M)], "without a kernel" in said


@case
def states():
    """layers with recurrent states run on the GPU, where their slots are few too; lines part within blocks and after them"""
    each(lambda name: alike("-m", os.path.join(TINY, name + ".gguf"), "-p", TEXT, "-n", "20", "--temp", "0", "--ignore-eos", "-b", "17"),
         some(RECURRENT, 3))
    for name in some(("qwen35", "lfm2moe", "granitehybrid", "rwkv7"), 2):
        path = os.path.join(TINY, name + ".gguf")
        for extra in ["--state-mem", "64K"], ["-b", "3"], ["--lookup", "--draft-max", "5"]:
            alike_lines(LINES, "-np", "6", "--kv-block-size", "4", *extra, model=path)


@case
def heads():
    """a draft head runs on the GPU with the last layers: it guesses what it guesses on the CPU, for one text and for several"""
    said = lambda r: re.findall(rb"head +(\d+ guessed, \d+ accepted)", r.err)
    for name in "qwen35_near", "qwen35moe_mtp", "deepseek2_v3", "mimo2", "step35":
        path = os.path.join(TINY, name + ".gguf")
        args = "-m", path, "--raw", "-p", TEXT, "-n", "16", "--temp", "0", "--ignore-eos", "--no-lookup", "--draft-max", "3", "--draft-min", "3", "-v"
        want = run(*args, "--ids", "-ngl", "0", "-t", "1", "-b", "17")
        check(want.rc == 0 and said(want), repr(want))
        for n, fake in [("all", {}), ("1", {})] + [("all", dict(devices=2, memory=least(*args[:6], "1") - 4096))] * (name == "qwen35_near"):
            got = run(*args, "--ids", "-ngl", n, "-t", "1", "-b", "17", "--same", "on", **fake)
            same((got.rc, got.out, said(got)), (0, want.out, said(want)), "%s -ngl %s %r" % (name, n, fake))
            check(got.calls > 0, "%s -ngl %s: no call of the driver" % (name, n))
        alike_lines(LINES, "-np", "6", "--kv-block-size", "4", "--draft-max", "4", "--draft-min", "4", model=path, layers=["all"])


@case
def assistants():
    """an assistant runs on the GPU that has the keys and values which it reads, or on the CPU where that has them"""
    said = lambda r: re.findall(rb"head +(\d+ guessed, \d+ accepted)", r.err)
    for of, head in ("gemma4", "gemma4-assistant"), ("gemma4_far", "gemma4-assistant_far"):
        pair = "-m", os.path.join(TINY, of + ".gguf"), "-md", os.path.join(TINY, "beside", head + ".gguf")
        args = *pair, "--raw", "-p", TEXT, "-n", "16", "--temp", "0", "--ignore-eos", "--no-lookup", "--draft-max", "3", "--draft-min", "3", "-v"
        want = run(*args, "--ids", "-ngl", "0", "-t", "1", "-b", "17")
        check(want.rc == 0 and said(want), repr(want))
        for n in "all", "1":
            got = run(*args, "--ids", "-ngl", n, "-t", "1", "-b", "17", "--same", "on")
            same((got.rc, got.out, said(got)), (0, want.out, said(want)), "%s -ngl %s" % (of, n))
            check(got.calls > 0, "%s -ngl %s: no call of the driver" % (of, n))
        alike_lines(LINES, "-np", "6", "--kv-block-size", "4", "--draft-max", "4", "--draft-min", "4", *pair[2:], model=pair[1], layers=["all"])


@case
def conversation():
    """a conversation whose messages are taken back and asked again"""
    lines = b"Hello there\n/regen\nWhat is that?\nAnd what is this?\n/regen\n"
    form = put("form.jinja", b"{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>")
    for name in some(("qwen35", "lfm2", "llama"), 2):
        args = ("-m", os.path.join(TINY, name + ".gguf"), "-i", "--chat-template-file", form, "-n", "6", "-s", "3", "-q",
                "--same", "on")
        want = run(*args, "-ngl", "0", inp=lines)
        check(want.rc == 0 and want.out, repr(want))
        for n in LAYERS:
            got = run(*args, "-ngl", n, inp=lines)
            same((got.rc, got.out, got.err), (0, want.out, want.err), "%s -ngl %s" % (name, n))
            check(got.calls > 0, "%s -ngl %s: no call of the driver" % (name, n))


def least(*args):
    """Bytes of memory, multiples of 4 KiB, that a GPU needs to hold all layers."""
    low, high = 0, 1 << 15
    while high - low > 1:
        half = (low + high) // 2
        low, high = (half, high) if run(*args, "-ngl", "all", memory=half << 12).rc else (low, half)
    return high << 12


@case
def several():
    """layers on two GPUs, of two and of three, each with the states, keys and values of its own"""
    for name in some(("qwen35", "lfm2", "qwen3next"), 2):
        args = "-m", os.path.join(TINY, name + ".gguf"), "-p", TEXT, "-n", "6", "--temp", "0", "--ignore-eos", "--same", "on"
        want, memory = run(*args, "-ngl", "0", "-q"), least(*args[:5], "1") - 4096
        for devices in 2, 3:
            where, _ = on_gpus(*args, "-ngl", "all", devices=devices, memory=memory)
            check(len(where) == 2 and where[0][0] == 1 and where[1][1] == where[1][2],
                  "%s: layers %r on %d GPUs" % (name, where, devices))
            got = run(*args, "-ngl", "all", "-q", devices=devices, memory=memory)
            same((got.rc, got.out, got.err), (0, want.out, want.err), "%s on %d GPUs" % (name, devices))


@case
def embedded():
    """vectors of texts: of encoders, and of decoders"""
    folder = os.path.join(HERE, "tests", "data", "encoders")
    for path in some([os.path.join(folder, name + ".gguf") for name in ("bert", "gemma-embedding", "nomic-bert-moe")]
                     + [SMALL], 2):
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
FLOATS = "llama", "llama_f16", "qwen2_bf16", "llama_moe", "gpt-oss", "qwen35", "gemma3n", "deepseek2", "falcon-h1"


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
            check(text != exact or layers == "1",
                  "%s: no tensor core was used" % name)     # the last layer of gemma3n stays on the CPU
            for chunk in "1", "7", "20":
                same(logits(path, "-ngl", layers, "--same", "off", "-b", chunk)[0], text,
                     "%s -ngl %s -b %s" % (name, layers, chunk))


@case
def own():
    """--same off: a text is the same alone and in a batch, with guesses and without, and with a prompt cache of its own"""
    for name in some(FLOATS, 3):
        path = os.path.join(TINY, name + ".gguf")
        args = "-m", path, "-ngl", "all", "--same", "off", "-q"
        lines = put("own.jsonl", jsonl(LINES))
        all_of = [records(run(*args, "--batch", lines, *more).out)
                  for more in (["-np", "1"], ["-np", "6"], ["-np", "6", "-b", "9", "--kv-block-size", "4", "--kv-blocks", "60"])]
        check(len(all_of[0]) == len(LINES), "%s: %d records" % (name, len(all_of[0])))
        for got in all_of[1:]:
            equal(got, all_of[0], name)
        args += "-p", TEXT, "-n", "12", "--temp", "0", "--ignore-eos"
        want = run(*args, "--no-lookup")
        for extra in ["--lookup"], ["-md", path, "--draft-max", "3"], ["-b", "5"], \
                ["--prompt-cache", tmp("own." + name)], ["--prompt-cache", tmp("own." + name)]:
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
        check(("floats by tensor cores (--same auto)" in said) == off
              and ("the bits of the CPU (--same auto)" in said) != off, said)
    refused(run("-m", SMALL, "-p", "Hello", "--same", "maybe"), 2, "--same: .*maybe", "--same maybe")


@case
def apart_on_disk():
    """--same off: a prompt cache is used by the same layers on a GPU of the same kind alone; others make it anew"""
    args = "-m", SMALL, "-p", TEXT, "-n", "3", "--temp", "0", "--ignore-eos", "--prompt-cache", tmp("apart"), "--prompt-cache-ro"
    ways = {"cpu": (["-ngl", "0"], {}), "on": (["-ngl", "all", "--same", "on"], {}),
            "off": (["-ngl", "all", "--same", "off"], {}),
            "part": (["-ngl", "1", "--same", "off"], {}), "other": (["-ngl", "all", "--same", "off"], {"cc": 86})}
    groups = {"cpu": 0, "on": 0, "off": 1, "part": 2, "other": 3}
    for maker in ways:
        if os.path.exists(tmp("apart")):
            os.unlink(tmp("apart"))
        r = run(*args[:-1], "-q", *ways[maker][0], **ways[maker][1])
        check(r.rc == 0, repr(r))
        for reader in ways:
            r = run(*args, *ways[reader][0], **ways[reader][1])
            check((b"it is ignored" in r.err) == (groups[maker] != groups[reader]),
                  "%s reads what %s wrote: %r" % (reader, maker, r))


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
def fails_of_states():
    """the same where layers have recurrent states"""
    args = "-m", os.path.join(TINY, "qwen35.gguf"), *SHORT[2:]
    want, last = run(*args, "-ngl", "0"), run(*args, "-ngl", "all").calls
    each(lambda n: refused_or_told(run(*args, "-ngl", "all", fail=n), want, n), some(range(1, last + 1, 3), 11))


@case
def little_memory():
    """auto with little memory takes fewer layers or none, -ngl all says how much it lacks"""
    for model in SMALL, os.path.join(TINY, "qwen35.gguf"):
        args, codes = ("-m", model, *SHORT[2:]), collections.Counter()
        want = run(*args, "-ngl", "0")
        for memory in [1 << n for n in range(14, 31, 2)]:
            r = run(*args, "-ngl", "auto", memory=memory)
            same((r.rc, r.out, r.err), (0, want.out, b""), "%d bytes" % memory)
            r = run(*args, "-ngl", "all", memory=memory)
            codes[r.rc] += 1
            check(r.rc in (0, 3), "%d bytes: %r" % (memory, r))
            if r.rc:
                refused(r, 3, "memory of the GPU is short by .* MiB: .* layers and their cache take", "%d bytes" % memory)
        check(codes[0] and codes[3], "exit codes: %r" % codes)


def need(*args):
    """MiB that all layers and their cache would take on a GPU."""
    r = run(*args, "-ngl", "all", memory=1 << 16)
    return float(re.search(r"their cache take ([\d.]+)", r.err.decode()).group(1))


@case
def counted():
    """what layers take on a GPU has the states of as many sequences as run at once, or of those that --state-mem allows"""
    path = os.path.join(TINY, "qwen35.gguf")
    state = json.loads(run("-m", path, "--inspect", "--json").out)["memory"]["state_per_sequence"] / (1 << 20)
    args = "-m", path, "--batch", put("counted.jsonl", jsonl(LINES)), "-q", "-c", "64", "-np"
    few, many, bounded = need(*args, "4"), need(*args, "400"), need(*args, "400", "--state-mem", "%dK" % (state * 1024 * 10 + 1))
    check(many - few > 396 * state - 0.2, "%.1f MiB for 4 lines, %.1f for 400, with a state of %.3f" % (few, many, state))
    check(abs(many - bounded - 392 * state) < 0.2,
          "%.1f MiB for 400 lines, %.1f with ten states of %.3f" % (many, bounded, state))


def main():
    return walk("cuda", sys.argv[2:], TMP, lambda: print("%(runs)d runs, %(calls)d calls of the driver" % CALLS))


sys.exit(main())
