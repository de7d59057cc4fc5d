#!/usr/bin/env python3
"""Models that tests/gen/inflate.py makes larger: the same logits, the same texts, zeros that stay zeros.

    python3 tests/inflate.py ./llmrun [WORD ...]      cases whose name holds one of the words, else all

One line per case, then a count. LLMRUN_SLOW=N stretches every time limit N times.
"""
import array, os, shutil, subprocess, sys
from kit import CASES, case, check, new_folder

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "tests", "gen"))
import inflate                                                   # noqa: E402  (the tool, not this file)

TOOL = inflate.__file__
PIP = os.path.join(HERE, "models", "pip-f16.gguf")
TINY = os.path.join(HERE, "tests", "data", "tiny")
BIN = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(HERE, "llmrun")
SLOW = float(os.environ.get("LLMRUN_SLOW") or 1)
TMP = new_folder("inflate")
ALL = ["--embd", "512", "--heads", "8", "--ff", "1536", "--layers", "8"]         # twice the width, two layers more
PROMPTS = ["Once upon a time", "Question: What is 7 plus 5?\nAnswer:", "Tom gave the red book to Ann. Then Ann",
           "<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n"]
# Sums over more channels add in another order, gains and epsilon are rounded again: some roundings (2^-24) in each layer.
# Largest measured: 2.3 * 2^-20 of the largest logit (tiny qwen3, whose queries are small beside the epsilon), Pip 0.4.
LIMIT = 2.0 ** -18


def tmp(name):
    return os.path.join(TMP, name)


def tiny(name):
    return os.path.join(TINY, name + ".gguf")


def done(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120 * SLOW)


def llmrun(*args):
    p = done(BIN, *args)
    check(p.returncode == 0, "%s: exit %d: %s" % (" ".join(args), p.returncode, p.stderr.decode()))
    return p.stdout


def grown(model, name, *how):
    """The path of an inflated model, made when it is not there yet."""
    path = tmp(name + ".gguf")
    if not os.path.exists(path):
        p = done(sys.executable, TOOL, model, *how, "-o", path)
        check(p.returncode == 0, p.stderr.decode())
    return path


def floats(raw):
    a = array.array("f", raw)
    if sys.byteorder == "big":
        a.byteswap()
    return a


def logits(model, text):
    return floats(llmrun("-m", model, "-p", text, "--logits", "-", "-q"))


def apart(model, other, text="Tom gave the red book to Ann. Then Ann went to the mill."):
    """The largest difference of two logits, as a share of the largest logit; 0: the same bits."""
    a, b = logits(model, text), logits(other, text)
    check(len(a) == len(b) > 0 and all(x == x for x in b), "logits are missing or not numbers")
    return max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, a))


def greedy(model, text, n):
    """Cache of f32: one that rounds makes 2^-9 of a value on its edge out of 2^-20, and of a near tie another word."""
    return llmrun("-m", model, "-p", text, "-e", "--temp", "0", "-n", str(n), "--ignore-eos", "--ids", "-q",
                  "-ctk", "f32", "-ctv", "f32").split()


@case
def logits_stay():
    for model, name, how in [
            (PIP, "all", ALL), (PIP, "odd", ["--embd", "300", "--ff", "777", "--layers", "7"]),
            (tiny("llama"), "llama", ["--embd", "96", "--heads", "6", "--ff", "90", "--layers", "5"]),
            (tiny("llama_bias"), "bias", ["--embd", "96", "--heads", "8", "--ff", "90", "--layers", "2"]),
            (tiny("qwen2_bf16"), "bf16", ["--embd", "200", "--heads", "12", "--kv-heads", "3", "--layers", "4"]),
            (tiny("qwen3"), "qwen3", ["--embd", "256", "--layers", "3"])]:
        d = apart(model, grown(model, name, *how))
        check(d <= LIMIT, "%s: logits %.1e apart" % (name, d))


@case
def logits_stay_to_the_bit_where_no_row_of_the_stream_grows():
    for model, name, how in [(PIP, "bits", ["--heads", "12", "--kv-heads", "3", "--ff", "1024", "--layers", "9"]),
                             (tiny("llama_rope3"), "bits3", ["--heads", "8", "--layers", "6"])]:
        check(apart(model, grown(model, name, *how)) == 0, name + ": other bits")


@case
def greedy_texts_stay():
    big = grown(PIP, "all", *ALL)
    for p in PROMPTS:
        a, b = greedy(PIP, p, 200), greedy(big, p, 200)
        check(len(a) == 200, "%r: %d tokens" % (p, len(a)))
        check(a == b, "%r: texts part at token %d" % (p, next((i for i in range(200) if a[i:i + 1] != b[i:i + 1]), 200)))


@case
def what_was_added_is_really_there():
    """Had the new layers, heads and channels nothing to do, nothing above would prove much: a weight among their zeros shows."""
    path = grown(PIP, "all", *ALL)
    f = inflate.File(path)
    for name, row, col, cols in [("blk.3.ffn_down.weight", 7, 11, 1536),        # of a layer that adds nothing
                                 ("blk.3.attn_output.weight", 7, 11, 512),
                                 ("blk.0.ffn_down.weight", 300, 5, 1536),       # into a new channel
                                 ("token_embd.weight", 0, 300, 512)]:
        kind, at = f.tensors[name][1], f.base + f.tensors[name][2] + 2 * (row * cols + col)
        check(kind == 1 and bytes(f.b[at:at + 2]) == b"\0\0", name + ": no zero there")
        shutil.copy(path, tmp("spoilt.gguf"))
        with open(tmp("spoilt.gguf"), "r+b") as g:
            g.seek(at)
            g.write(b"\0\x50")                                                   # 32.0
        check(apart(path, tmp("spoilt.gguf"), "Once upon a time, Tom") > 16 * LIMIT, name + ": 32 in place of 0 changes nothing")


def quantised(model, name, *how):
    if not os.path.exists(tmp(name)):
        llmrun("-m", model, "--quantize", "Q4_K_M", *how, "-o", tmp(name), "-q")
    return tmp(name)


def tensor(model, name):
    return floats(llmrun("-m", model, "--dump-tensor", name, "-q"))


@case
def quantised_zeros_stay_and_the_rest_is_the_models():
    small, big = quantised(PIP, "small.q4", "--pure"), quantised(grown(PIP, "all", *ALL), "all.q4", "--pure")
    for name, source, rows, cols, new_rows, new_cols in [
            ("token_embd.weight", "token_embd.weight", 3072, 256, 3072, 512), ("blk.0.attn_q.weight", "blk.0.attn_q.weight", 256, 256, 512, 512),
            ("blk.4.ffn_down.weight", "blk.3.ffn_down.weight", 256, 768, 512, 1536), ("blk.3.attn_output.weight", None, 0, 0, 512, 512)]:
        b, a = tensor(big, name), tensor(small, source) if source else []
        check(len(b) == new_rows * new_cols and len(a) == rows * cols, name + ": shape")
        for r in range(new_rows):
            row = b[r * new_cols:(r + 1) * new_cols]
            n = cols if r < rows else 0
            check(row[:n] == a[r * cols:r * cols + n] if n else True, "%s: row %d is rounded otherwise" % (name, r))
            check(not any(row[n:]), "%s: row %d: a zero is gone" % (name, r))
    q = tensor(big, "blk.3.attn_q.weight")
    check(sum(1 for v in q if v) > len(q) // 2, "a layer that adds nothing computes with nothing")


@case
def quantised_logits_stay():
    """As far as rounding lets them (8e-7 measured): an activation on the edge between two of 255 steps may fall to either side."""
    d = apart(quantised(PIP, "small.q4", "--pure"), quantised(grown(PIP, "all", *ALL), "all.q4", "--pure"))
    check(d < 0.01, "pure Q4_K: logits %.1e apart" % d)


@case
def quantised_mixture_keeps_zeros():
    big = quantised(grown(PIP, "all", *ALL), "mix.q4")
    check(not any(tensor(big, "blk.3.ffn_down.weight")) and not any(tensor(big, "blk.3.attn_output.weight")), "a zero is gone")
    check(len(greedy(big, PROMPTS[0], 20)) == 20, "no text")


@case
def same_seed_same_bytes():
    def content(name, *how):
        with open(grown(tiny("qwen3"), name, "--layers", "4", "--embd", "64", *how), "rb") as f:
            return f.read()
    check(content("s1", "--seed", "7") == content("s2", "--seed", "7"), "the same seed, other bytes")
    check(content("s1") != content("s3", "--seed", "8"), "another seed, the same bytes")
    check(apart(tmp("s1.gguf"), tmp("s3.gguf")) == 0, "the seed changes the function")


@case
def what_cannot_be_inflated_is_refused():
    for model, how, word in [
            (os.path.join(HERE, "models", "pip-q4_k_m.gguf"), ["--layers", "8"], "its type"), (tiny("llama_moe"), ["--embd", "64"], "experts"),
            (tiny("qwen3moe"), [], "architecture"), (PIP, ["--embd", "128"], "--embd 128: the model has 256"),
            (PIP, ["--layers", "5"], "--layers 5"), (PIP, ["--heads", "6", "--kv-heads", "4"], "groups"),
            (PIP, ["--kv-heads", "4"], "heads a group"), (__file__, [], "GGUF")]:
        p = done(sys.executable, TOOL, model, *how, "-o", tmp("no.gguf"))
        err = p.stderr.decode()
        check(p.returncode == 1 and word in err and err.count("\n") == 1, "%s %s: exit %d, %r" % (model, how, p.returncode, err))
        check(not os.path.exists(tmp("no.gguf")), "a file all the same")


def main():
    words, failed, ran = sys.argv[2:], 0, 0
    for f in CASES:
        if words and not any(w in f.__name__ for w in words):
            continue
        ran += 1
        try:
            f()
            print("ok   " + f.__name__)
        except (AssertionError, subprocess.TimeoutExpired) as e:
            failed += 1
            print("FAIL %s: %s" % (f.__name__, e))
    shutil.rmtree(TMP, ignore_errors=True)
    print("inflate: %d passed, %d failed" % (ran - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
