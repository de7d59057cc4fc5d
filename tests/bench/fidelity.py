#!/usr/bin/env python3
"""What the program's own arithmetic costs: a file of weights beside the same weights in float32, and caches beside float32 ones. Markdown on stdout.

    make fidelity                                            # public models in ~/.cache/llmrun-real, or REAL=DIR (make real has the packages)
    make fidelity PEER=../llama.cpp/build/bin                # llama-perplexity runs beside it
    make fidelity FIDELITY="--models smollm2 --types Q4_1,Q8_0 --windows 2"
    python3 tests/bench/fidelity.py --model smollm2=my/smollm2.gguf --keep --types published

Each type is made from the model in float32 (a published file that is quantised is dequantised first), and each file is dequantised again: the
text is run once with these weights in float32, whose products round nothing, and once with the file, and the distributions are
compared. So the rounding of weights is in both; what is left is that of activations. Caches are float32 in both. For a cache type
(f16 ...) the weights are float32 in both. With --peer the same is done with llama-perplexity, against its own float32 run: same files, same
text, same windows, no flash attention (with it where the cache is not float32, since llama.cpp wants it there).
  Columns: mean KL divergence, its 99th percentile, the part of the positions with the same most likely token, and the ratio of
the perplexities; then the mean over llama.cpp's. Mean of 1e-6 and less is below what a base of llama.cpp can tell, which has 16 bits for
a log-probability.
  Models: smollm2 (SmolLM2 135M Instruct, Q4_1 as published), gemma3 (Gemma 3 270M, Q4_K_M), pip (models/pip-f16.gguf), planted (pip
with channels of activations as far above the others as in the public models; outliers.py). Rows whose length is no multiple of
256, as in smollm2 and gemma3, have no K types: a mixture takes Q5_0 or Q8_0 there, as llama.cpp does.
  The text: 24 windows of English, tables, code and stories from this repository; --text names another. --keep keeps bases and files in
--cache, so that a row of another build takes seconds; the base is then that of the first build. Figures of llama.cpp are always kept.
"""
import argparse, importlib.util, json, os, re, shutil, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [TESTS, os.path.join(ROOT, "models", "train")]
import world                                           # noqa: E402
from quality import Failed, digest, head, line, run, say, write_whole     # noqa: E402

TYPES = ["published", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_1", "Q5_0", "Q4_K_M", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4"]
CACHES = ["f16", "bf16", "q8_0", "q4_0"]
MODELS = ["smollm2", "gemma3", "pip", "planted"]
WINDOW, WINDOWS = 512, 8
TOP_K = 4096                                           # tokens of a distribution that a base keeps of a vocabulary too large to keep


# --- text ---

def pieces(text, size):
    """The text in parts of about so many bytes, cut before a line."""
    part, n = [], 0
    for row in text.splitlines(keepends=True):
        part.append(row)
        n += len(row)
        if n >= size:
            yield "".join(part)
            part, n = [], 0


def write_text(path, size=60000):
    """English, tables, code and stories in turn, so that few windows have some of each. Nothing in it looks like a special token."""
    def read(*names):
        return "".join(open(os.path.join(ROOT, n), encoding="utf-8").read() for n in names)
    kinds = [read("README.md", "tests/README.md", "tests/bench/NOTES.md"), read("models/train/model.py", "models/train/tokenizer.py", "models/train/train.py"),
             read("models/README.md", "tests/bench/RESULTS.md"), "\n\n".join(world.document((1 << 30) + seed, "test").text for seed in range(60))]
    turns = zip(*(pieces(re.sub(r"<\|?\w+\|?>", "", k), 900) for k in kinds))
    return write_whole(path, "\n".join(p for turn in turns for p in turn).encode()[:size].decode(errors="ignore").encode())


def write_stories(path):
    """The world that Pip knows, from the split that no training run has seen."""
    return write_whole(path, "\n\n".join(world.document((1 << 30) + seed, "test").text for seed in range(220)).encode())


# --- figures ---

class Figures(dict):
    """kld, p99, same (0 to 1), ratio, base: of one program for one file."""


def of_llmrun(text):
    got = json.loads(text)
    return Figures(kld=got["kld"]["mean"], p99=got["kld"]["p99"], same=got["same_top"], ratio=got["ratio"], base=got["base_perplexity"])


def number(text, pattern):
    """What llama-perplexity prints behind a name."""
    found = re.search(pattern + r"\s*[:=]\s*(-?[\d.]+)", text)
    if not found:
        raise Failed("llama-perplexity prints no " + pattern)
    return float(found.group(1))


def of_peer(text, base):
    """What llama-perplexity --kl-divergence prints; base: the perplexity in floats, since the one that it prints is of rounded and cut log-probabilities."""
    return Figures(kld=number(text, r"Mean\s+KLD"), p99=number(text, r"99\.0%\s+KLD"), same=number(text, "Same top p") / 100,
                   ratio=number(text, r"Mean PPL\(Q\)") / base, base=base)


def row(model, what, ours, theirs, peer):
    def figures(f):
        return ["%.6f" % f["kld"] if f["kld"] == 0 or f["kld"] >= 1e-5 else "%.1e" % f["kld"], "%.5f" % f["p99"], "%.2f %%" % (100 * f["same"]), "%.5f" % f["ratio"]] if f else ["-"] * 4
    over = ["%.2f" % (ours["kld"] / theirs["kld"]) if theirs["kld"] >= 1e-5 else "-"] if theirs else ["-"]
    return line([model, what, *figures(ours), *(figures(theirs) + over if peer else [])])


def header(peer):
    own = ["mean KL", "99 %", "same top", "perplexity"]
    return head(["model", "weights or cache", *own, *(["llama.cpp: " + own[0], *own[1:], "KL, ours / theirs"] if peer else [])])


# --- runs ---

class Fidelity:
    def __init__(self, o):
        self.o, self.bin = o, os.path.abspath(o.llmrun)
        os.makedirs(o.cache, exist_ok=True)
        self.peer = os.path.join(os.path.abspath(o.peer), "llama-perplexity") if o.peer else None
        if self.peer and not os.path.exists(self.peer):
            raise SystemExit("no llama-perplexity in " + o.peer)
        self.peer_id = digest(self.peer) if self.peer else ""
        self.named = dict(m.split("=", 1) for m in o.model)
        self.mine = o.text or write_text(self.at("text.txt"))
        self.passing = []                              # files to remove

    def at(self, name):
        return os.path.join(self.o.cache, name)

    def llmrun(self, *args):
        return run(self.bin, "-q", "-t", str(self.o.threads), *args)

    def kept(self, name, make):
        """A file in the cache: there, or made; removed at the end of its row unless --keep."""
        path = self.at(name)
        if not os.path.exists(path):
            make(path + ".part")
            os.replace(path + ".part", path)
        if not self.o.keep and path not in self.passing:
            self.passing.append(path)
        return path

    def clear(self, since=0):
        for path in self.passing[since:]:
            if os.path.exists(path):
                os.unlink(path)
        del self.passing[since:]

    # --- models ---

    def published(self, name):
        """The file that a model comes as."""
        if name in self.named:
            return self.named[name]
        if name in ("pip", "planted"):
            return os.path.join(ROOT, "models", "pip-f16.gguf")
        if name not in ("smollm2", "gemma3"):
            raise Failed("no such model; --model NAME=FILE gives one")
        import real
        real.O = argparse.Namespace(cache=self.o.real, binary=self.bin, peer=None)
        try:
            return real.MODELS[name]()
        except (real.Skip, AssertionError) as why:
            raise Failed(str(why))
        finally:
            shutil.rmtree(real.TMP, ignore_errors=True)

    def enter(self, name):
        """Sets the model of the rows that follow: file, float32 weights, text."""
        self.name, self.file = name, self.published(name)
        self.text = self.mine if self.o.text or name not in ("pip", "planted") else write_stories(self.at("stories.txt"))
        self.plain = self.in_floats(self.file)
        if name == "planted":
            try:
                import outliers
            except ImportError as why:
                raise Failed(str(why))
            plain = self.plain
            # Pip's ffn_down has outliers as large as the public models' by itself
            self.plain = self.kept("planted-%s.gguf" % digest(outliers.__file__, plain), lambda to: outliers.plant(plain, to, ["attn", "attn_out", "ffn"]))
        self.plain_id = digest(self.plain)
        self.text_id = "%s-%d-%d" % (digest(self.text), self.o.ctx, self.o.windows)
        info = json.loads(self.llmrun("--inspect", "--json", "-m", self.plain))
        self.top_k = 0 if info["vocabulary"]["tokens"] <= 65536 else TOP_K

    def in_floats(self, path):
        return self.kept("f32-%s.gguf" % digest(path), lambda to: self.llmrun("--quantize", "F32", "--allow-requantize", "-m", path, "-o", to))

    def of_type(self, kind):
        if kind == "published":
            return self.file if self.name != "pip" else os.path.join(ROOT, "models", "pip-q4_k_m.gguf")
        return self.kept("made-%s-%s.gguf" % (kind, self.plain_id), lambda to: self.llmrun("--quantize", kind, "-m", self.plain, "-o", to))

    # --- distributions ---

    def base(self, plain, key):
        def make(to):
            self.llmrun("-m", plain, "-f", self.text, "--perplexity", "-c", str(self.o.ctx), "--chunks", str(self.o.windows),
                        "-ctk", "f32", "-ctv", "f32", "--kl-divergence-base", to, "--kl-top-k", str(self.top_k))
        return self.kept("base-%s-%s" % (key, self.text_id), make)

    def ours(self, plain, key, model, k="f32", v="f32"):
        return of_llmrun(self.llmrun("-m", model, "--kl-divergence", self.base(plain, key), "-ctk", k, "-ctv", v, "--json"))

    def ask_peer(self, *args):
        r = subprocess.run([self.peer, "-t", str(self.o.threads), "-c", str(self.o.ctx), "--chunks", str(self.o.windows), *args],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        text = (r.stdout + r.stderr).decode(errors="replace")
        if r.returncode:
            raise Failed("llama-perplexity: exit %d, %s" % (r.returncode, text.strip().splitlines()[-1][:160] if text.strip() else ""))
        return text

    def theirs(self, plain, key, model, model_id, k="f32", v="f32"):
        path = self.at("peer-%s-%s-%s-%s-%s.json" % (model_id, k, v, self.text_id, self.peer_id))
        if not os.path.exists(path):
            whole = self.at("peer-floats-%s-%s-%s" % (key, self.text_id, self.peer_id))

            def make(to):
                text = self.ask_peer("-m", plain, "-f", self.text, "--kl-divergence-base", to, "-ctk", "f32", "-ctv", "f32", "-fa", "off")
                write_whole(whole + ".json", json.dumps(number(text, "Final estimate: PPL")).encode())
            base = self.kept("peer-base-%s-%s-%s" % (key, self.text_id, self.peer_id), make)
            with open(whole + ".json") as f:
                ppl = json.load(f)
            flash = "off" if (k, v) == ("f32", "f32") else "on"
            got = of_peer(self.ask_peer("-m", model, "--kl-divergence", "--kl-divergence-base", base, "-ctk", k, "-ctv", v, "-fa", flash), ppl)
            write_whole(path, json.dumps(got).encode())
        with open(path) as f:
            return Figures(json.load(f))

    def compare(self, what, plain, key, model, model_id, k="f32", v="f32"):
        t0 = time.time()
        theirs = self.theirs(plain, key, model, model_id, k, v) if self.peer else None
        ours = self.ours(plain, key, model, k, v)
        print(row(self.name, what, ours, theirs, self.peer), flush=True)
        say("  %s %s: %.1f s, perplexity in floats %.4f%s" % (self.name, what, time.time() - t0, ours["base"], ", llama.cpp %.4f" % theirs["base"] if theirs else ""))
        if theirs and abs(ours["base"] / theirs["base"] - 1) > 1e-3:
            say("  the programs do not agree in floats: not the same tokens, or an error")
        return ours

    def weights(self, kind):
        if self.name == "planted" and kind == "published":
            return
        mark = len(self.passing)
        model = self.of_type(kind)
        key = digest(model)
        self.compare(kind if kind != "published" else "as published", self.in_floats(model), key, model, key)
        self.clear(mark)

    def caches(self, kinds):
        mark = len(self.passing)
        for kind in kinds:
            self.compare("cache " + kind, self.plain, self.plain_id, self.plain, self.plain_id, kind, kind)
        self.clear(mark)


SAMPLE = """Mean PPL(Q)                   :  15.101000 ±   0.250000
Mean PPL(base)                :  15.036000 ±   0.250000
Mean PPL(Q)/PPL(base)         :   1.004323 ±   0.000500
Mean    KLD:   0.004277 ±   0.000031
Maximum KLD:   1.100000
99.9%   KLD:   0.081000
99.0%   KLD:   0.027413
Same top p: 96.933 ± 0.100 %
"""


def self_test(o):
    """The script on Pip and two short windows: floats beside themselves give 0, 8 bits do not; outliers do not change what a model computes;
    what llama-perplexity prints is read."""
    with tempfile.TemporaryDirectory() as folder:
        o.cache, o.windows, o.ctx, o.peer, o.keep = folder, 2, 128, None, True
        f, seen = Fidelity(o), {}
        names = ["pip"] + ["planted"] * (importlib.util.find_spec("numpy") is not None)
        for name in names:
            f.enter(name)
            for kind in "F32", "Q8_0":
                f.weights(kind)
                model = f.of_type(kind)
                seen[name, kind] = f.ours(f.in_floats(model), digest(model), model)
            f.caches(["q8_0"])
    for name in names:
        floats, q8 = seen[name, "F32"], seen[name, "Q8_0"]
        assert floats["kld"] == 0 and floats["same"] == 1 and floats["ratio"] == 1, floats
        assert 0 < q8["kld"] < 0.01 and 0.9 < q8["same"] <= 1 and q8["p99"] > q8["kld"], q8
    if "planted" in names:
        assert abs(seen["planted", "F32"]["base"] / seen["pip", "F32"]["base"] - 1) < 1e-4, seen
    got = of_peer(SAMPLE, 15.1)
    assert got == dict(kld=0.004277, p99=0.027413, same=0.96933, ratio=15.101 / 15.1, base=15.1), got
    assert number("Final estimate: PPL = 39.7914 +/- 2.1", "Final estimate: PPL") == 39.7914
    assert row("m", "Q", got, got, True).count("|") == header(True)[0].count("|") == row("m", "Q", got, None, True).count("|")
    print("fidelity: %d passed, 0 failed, %d skipped" % (len(names) + 1, 2 - len(names)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    p.add_argument("--peer", default=os.environ.get("PEER"), help="folder with llama-perplexity")
    p.add_argument("--models", default=",".join(MODELS), help="by comma (default %(default)s)")
    p.add_argument("--model", action="append", default=[], metavar="NAME=FILE", help="a file for a model, or a model of yours; may be given several times")
    p.add_argument("--types", default=",".join(TYPES), help="by comma, empty: none (default %(default)s)")
    p.add_argument("--caches", default=",".join(CACHES), help="by comma, empty: none (default %(default)s)")
    p.add_argument("--windows", type=int, default=WINDOWS, help="windows of the text (default %(default)s)")
    p.add_argument("--ctx", type=int, default=WINDOW, help="tokens of a window (default %(default)s)")
    p.add_argument("--text", help="a text in place of the repository's, for all models")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--cache", default=os.path.join(ROOT, "build", "fidelity"))
    p.add_argument("--real", default=os.environ.get("REAL") or os.path.expanduser("~/.cache/llmrun-real"), help="folder of the public models (default %(default)s)")
    p.add_argument("--keep", action="store_true", help="keep bases and made files")
    p.add_argument("--self-test", action="store_true")
    o = p.parse_args()
    if o.self_test:
        return self_test(o)
    f, failed = Fidelity(o), []
    models = o.models.split(",") if o.models else []
    print("%d windows of %d tokens, %s threads.\n" % (o.windows, o.ctx, o.threads))
    print("\n".join(header(f.peer)), flush=True)
    for name in models:
        try:
            f.enter(name)
            for kind in filter(None, o.types.split(",")):
                try:
                    f.weights(kind)
                except Failed as why:
                    failed.append("%s, %s: %s" % (name, kind, why))
            f.caches(list(filter(None, o.caches.split(","))))
        except Failed as why:
            failed.append("%s: %s" % (name, why))
        f.clear()
    if failed:
        print("\nNot measured:\n" + "\n".join("* " + x for x in failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
