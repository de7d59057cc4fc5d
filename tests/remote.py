#!/usr/bin/env python3
"""The command with its device in another process beside the plain program: the same bytes.

    python3 tests/remote.py ./llmrun build/test/remote [WORD ...]     cases whose name holds a word, else all

tests/remote.c runs each step in a process that shares no memory with the program. There, weights are unreadable and blocks
of the cache have no memory: what reaches past [dev] ends the run. Weights are packed by the program itself,
so all runs have --repack off.
"""
import collections, os, signal, struct, sys
from kit import ENV, begin, case, check, equal, finish, jsonl, records, same, scratch, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "tests", "gen"))
import inflate

PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
TINY = os.path.join(HERE, "tests", "data", "tiny")
WINDOW = os.path.join(TINY, "llama_window.gguf")
ENCODERS = os.path.join(HERE, "tests", "data", "encoders")
TMP, tmp, put = scratch("remote")
PLAIN, REMOTE = map(os.path.abspath, sys.argv[1:3])
TEXT = "Tom was a cat. Tom liked milk. The cat sat on the mat, and the dog ran away. "
ONCE = "--raw", "-p", "Once upon a time", "-n", "60", "--temp", "0.6", "--seed", "5"
TEN_LINES = [{"prompt": TEXT * (1 + i % 3) + "x" * i, "max_tokens": 8 + 5 * i, "temperature": 0.7 * (i % 3), "seed": i,
              "n": 1 + i % 2, "logprobs": 2} for i in range(10)]
SENT = collections.Counter()           # messages that devices received, by kind


def run(binary, *args, repack="off"):
    """A run, and in .sent the messages that its device has received."""
    counts = tmp("counts")
    r = finish(begin([binary, "-q", "--repack", repack, "-t", "2", *args], env={**ENV, "LLMRUN_REMOTE": counts}))
    r.sent = {}
    if binary == REMOTE:
        with open(counts) as f:
            r.sent = {kind: int(n) for kind, n in map(str.split, f)}
        SENT.update(r.sent)
        os.unlink(counts)
    return r


def both(*args):
    """Runs both programs and compares exit code, text and errors. Gives the remote one's run."""
    want, got = run(PLAIN, *args), run(REMOTE, *args)
    same((got.rc, got.out, got.err), (want.rc, want.out, want.err), " ".join(args))
    check(want.rc == 0 and got.sent["step"] > 0, "%s: %r, messages %r" % (" ".join(args), got, got.sent))
    return got


def both_batch(lines, *args, model=PIP):
    """The same for a file of lines."""
    args = "-m", model, "--batch", put("in.jsonl", jsonl(lines)), *args
    want, got = run(PLAIN, *args), run(REMOTE, *args)
    same((want.rc, got.rc), (0, 0), "%s: %r" % (" ".join(args), got))
    equal(records(got.out), records(want.out), " ".join(args))
    return got


@case
def models():
    """every tiny model gives the same logits and the same text, without its draft head"""
    with open(os.path.join(TINY, "manifest.txt")) as f:
        names = sorted({line.split()[1] for line in f if "invented" not in line})
    for name in names:
        both("-m", os.path.join(TINY, name), "-p", "Hello world, this is a test", "--logits", "-")
        both("-m", os.path.join(TINY, name), "-p", "Hello world", "-n", "12", "--temp", "0.9", "--seed", "3", "--ignore-eos", "--no-head")


@case
def text():
    """a story: threads, chunks of a prompt, formats of the cache, options of RoPE, a level of the CPU"""
    for extra in [], ["-t", "1"], ["-b", "3"], ["-ctk", "q8_0", "-ctv", "q4_0"], \
            ["--rope-scaling", "yarn", "--rope-scale", "2"], ["--cpu", "scalar"]:
        both("-m", PIP, *ONCE, *extra)
    both("-m", PIP, "--score", "-p", TEXT * 8)
    both("-m", PIP, "--perplexity", "-f", put("text", TEXT.encode() * 12), "-c", "128")
    both("-m", WINDOW, "-p", TEXT, "-n", "100", "--temp", "0", "--ignore-eos", "--kv-block-size", "4")
    # the context chooses the factors of RoPE
    both("-m", os.path.join(TINY, "phi3.gguf"), "-p", "Hello", "--logits", "-", "-c", "40")


@case
def batch():
    """a file of lines: a shared beginning, several answers to a prompt"""
    got = both_batch(TEN_LINES)
    check(got.sent["copy"] > 0, "no block was copied: %r" % got.sent)


@case
def preempted():
    """a cache that is too small for all sequences: they are given up and read again"""
    calm, tight = both_batch(TEN_LINES, "-np", "8"), both_batch(TEN_LINES, "-np", "8", "--kv-blocks", "12")
    check(tight.sent["step"] > calm.sent["step"], "steps: %d, %d with a small cache" % (calm.sent["step"], tight.sent["step"]))


def with_windows(*windows):
    """A copy of Pip whose layers have these windows; 0: none."""
    f, name = inflate.File(PIP), b"qwen3.attention.sliding_window"
    data, n_keys = bytes(f.b), struct.unpack_from("<Q", f.b, 16)[0]
    key = struct.pack("<Q", len(name)) + name + struct.pack("<IIQ%dI" % len(windows), inflate.ARRAY, inflate.U32,
                                                            len(windows), *windows)
    head = data[:16] + struct.pack("<Q", n_keys + 1) + key + data[24:f.at]
    return put("windows.gguf", head + bytes(-len(head) % f.align()) + data[f.base:])


@case
def groups():
    """a model with two windows: three groups of the cache, each with blocks and tables of its own"""
    model = with_windows(0, 24, 100, 24, 0, 100)
    one, three = both("-m", PIP, *ONCE), both("-m", model, *ONCE)
    same((one.sent["free"], three.sent["free"]), (1, 3), "groups whose blocks were given back")
    both("-m", model, "--raw", "-p", TEXT * 4, "-n", "60", "--temp", "0", "--ignore-eos", "--kv-block-size", "4", "-ctk", "q8_0")
    both_batch(TEN_LINES, "-np", "8", "--kv-blocks", "30", "--kv-block-size", "8", model=model)


@case
def guesses():
    """speculative decoding with n-gram lookup and with a draft model, which is a second plan on the device"""
    plain = both("-m", PIP, *ONCE, "--no-lookup")
    for extra in ["--lookup"], ["-md", DRAFT]:
        got = both("-m", PIP, *ONCE, *extra)
        same(got.out, plain.out, "text with %s" % extra[0])
    check(got.sent["plan"] > plain.sent["plan"], "no plan of a draft model: %r" % got.sent)
    both_batch(TEN_LINES, "-md", DRAFT)


@case
def embeddings():
    """vectors of texts: of encoders, whose rows see all rows, and of decoders, dense, with windows and with states"""
    encoders = [os.path.join(ENCODERS, name + ".gguf")
                for name in ("bert", "gemma-embedding", "jina-bert-v2", "modern-bert", "nomic-bert-moe")]
    for path in encoders + [os.path.join(TINY, name + ".gguf") for name in ("llama_window", "qwen35", "lfm2", "gemma3n")]:
        both("-m", path, "--embed", "-p", "The cat sat on the mat", "--pooling", "mean")
        both("-m", path, "--embed", "-p", "The cat sat on the mat", "--pooling", "none")
    both("-m", PIP, "--embed", "-p", TEXT * 4, "-b", "7", "--pooling", "last")
    lines = [{"input": TEXT[:20 + 7 * i]} for i in range(8)]
    for path in PIP, encoders[0]:
        both_batch(lines, "--embed", "-np", "4", model=path)


@case
def states():
    """hybrid models: text, batches that share their beginnings, guesses that are taken back"""
    lines = [{"prompt": TEXT[:48] + TEXT[i:i + 3 * i], "max_tokens": 10 + 3 * i, "temperature": 0.7 * (i % 3),
              "seed": i, "n": 1 + i % 3} for i in range(8)]
    for name in "qwen35", "lfm2":
        model = os.path.join(TINY, name + ".gguf")
        args = "-m", model, "--raw", "-p", TEXT, "-n", "60", "--temp", "0", "--ignore-eos"
        plain = both(*args, "--no-lookup")
        for extra in ["--lookup"], ["-md", model], ["-md", model, "--draft-max", "3", "-b", "5"]:
            same(both(*args, *extra).out, plain.out, "%s: text with %s" % (name, extra))
        same(plain.sent["free"], 2, "%s: groups, of keys and values and of states" % name)
        for extra in ["-np", "8"], ["-np", "8", "--kv-block-size", "4", "--lookup"], \
                ["-np", "4", "--kv-block-size", "4", "--state-mem", "64K"]:
            got = both_batch(lines, *extra, model=model)
            check(got.sent["copy"] > 0, "%s, %s: no state was copied: %r" % (name, extra, got.sent))


@case
def prompt_cache():
    """blocks kept on disk, of one group and of three: both programs write the same file, and read it"""
    for model in PIP, with_windows(0, 24, 100, 24, 0, 100):
        for turn in range(2):
            made = []
            for binary in PLAIN, REMOTE:
                kept = tmp("%s.%s" % (os.path.basename(binary), os.path.basename(model)))
                r = run(binary, "-m", model, "--raw", "-p", TEXT * 4, "-n", "20", "--temp", "0", "--prompt-cache", kept)
                with open(kept, "rb") as f:
                    made.append((r.rc, r.out, f.read()))
            same(made[1], made[0], "%s, turn %d" % (model, turn))
            check(r.sent[("read", "write")[turn]] > 0, "turn %d: %r" % (turn, r.sent))


@case
def benchmark():
    """the benchmark fills blocks with zeros ahead of its steps"""
    r = run(REMOTE, "-m", PIP, "--bench", "--no-warmup", "-r", "1", "-p", "16", "-n", "4")
    check(r.rc == 0 and r.sent["clear"] > 0, "%r, messages %r" % (r, r.sent))


@case
def hidden():
    """weights are unreadable to the program: packing them between two tokens ends the run by a signal"""
    args = "-m", PIP, "--raw", "-p", "Once", "-n", "300", "--ignore-eos"
    same(run(PLAIN, *args, repack="auto").rc, 0, "the plain program")
    same(run(REMOTE, *args, repack="auto").rc, -signal.SIGSEGV, "the remote one")


def main():
    return walk("remote", sys.argv[3:], TMP, lambda: print("messages: " + ", ".join("%s %d" % kind for kind in SENT.items())))


sys.exit(main())
