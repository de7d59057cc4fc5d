#!/usr/bin/env python3
"""What each weight type costs: size, perplexity, divergence from the unquantised model, exact answers. Markdown on stdout.

    make quality [MODEL=models/pip-f16.gguf] [LLAMA_CPP=DIR]
    make quality MODEL=smollm2 [QUALITY="--types Q4_0,Q4_K_M"]        # or gemma3: the public models of `make real`, in REAL
    python3 tests/bench/quality.py --types Q4_K_M,Q4_0 --how plain,calibrated

Every type is made from --model three ways: plain, with an importance matrix, and calibrated (which has the matrix too). With
LLAMA_CPP, a folder below which llama-quantize lies, that program makes its file as well, from the same model and the same importance
matrix, and the figures of its file stand beside ours: all files are judged by llmrun, on the same text, against the same base.
  The text is the test split of models/train/world.py; importance matrix and calibration see the train split only. --text and
--train-text name files in their place, for other models. A public model is quantised as published (--published names a copy at hand): it is
dequantised, and small factors on its channels, which change nothing that it computes, take its weights off the grid of that type (outliers.py
--off-grid). Its text and its train text are two parts of fidelity.py's. The base keeps every log-probability (--kl-top-k 0).
  Answers are the one-hop questions of models/train/judge.py, --tasks prompts of each kind; 0 leaves them out.
  What was measured is kept in --cache under digests of model, text and the program that made the file, so that a run which was
stopped goes on; --any-build takes files of other builds of llmrun for this one's.
"""
import argparse, hashlib, json, os, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRAIN = os.path.join(ROOT, "models", "train")
FLOATS = ["F32", "BF16"]                               # measured plain only: nothing is searched
TYPES = ["BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4",
         "Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS", "Q2_K", "Q2_K_S", "Q2_0", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS",
         "TQ2_0", "TQ1_0", "IQ1_M", "IQ1_S", "Q1_0"]
HOWS = ["plain", "imatrix", "calibrated"]
PEER_HOWS = ["plain", "imatrix"]
PUBLIC = ["smollm2", "gemma3"]
WINDOW = 512


class Failed(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(*args):
    """stdout of a command; the first line on stderr that speaks of a failure is why it failed."""
    r = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if r.returncode:
        lines = (r.stderr or r.stdout).decode(errors="replace").strip().splitlines() or ["exit %d" % r.returncode]
        raise Failed(next((x for x in lines if "error" in x.lower() or "fail" in x.lower()), lines[-1])[:160])
    return r.stdout.decode()


def digest(*paths):
    h = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            for part in iter(lambda: f.read(1 << 20), b""):
                h.update(part)
    return h.hexdigest()[:12]


def write_whole(path, data):
    with open(path + ".part", "wb") as f:
        f.write(data)
    os.replace(path + ".part", path)
    return path


def write_documents(path, split, n):
    """n documents of the world that no training run has seen (its seeds begin at 0), one after the other."""
    if not os.path.exists(path):
        sys.path.insert(0, TRAIN)
        import world
        write_whole(path, "".join("<|endoftext|>" + world.document((1 << 30) + seed, split).text for seed in range(n)).encode())
    return path


class Bench:
    def __init__(self, o):
        self.o, self.bin, self.failed = o, os.path.abspath(o.llmrun), []
        os.makedirs(o.cache, exist_ok=True)
        if o.model in PUBLIC:
            self.enter_public(o)
        self.peer = self.find_peer(os.environ.get("LLAMA_CPP"))
        self.text = o.text or write_documents(self.at("test-%d.txt" % o.documents), "test", o.documents)
        self.train = o.train_text or write_documents(self.at("train-%d.txt" % o.train_documents), "train", o.train_documents)
        self.model_id, self.build = digest(o.model), digest(self.bin)
        self.text_id = digest(self.text) + ("" if o.chunks < 0 else "-%d" % o.chunks)
        self.peer_id = digest(*self.peer[1]) if self.peer else ""
        self.weights = json.loads(self.llmrun("--inspect", "--json", "-m", o.model))["parameters"]

    def enter_public(self, o):
        """The model in float32, off its grid, and its texts."""
        import fidelity, outliers
        source, text, train = o.published or fidelity.public(o.model, fidelity.REAL, self.bin), self.at("text.txt"), self.at("train.txt")
        plain, o.model = self.at("f32.gguf"), self.at("%s-%s.gguf" % (o.model, digest(source, outliers.__file__)))
        if o.model not in PUBLIC and not os.path.exists(o.model):
            self.llmrun("--quantize", "F32", "--allow-requantize", "-m", source, "-o", plain)
            outliers.plant(plain, o.model + ".part", off_grid=True)
            os.replace(o.model + ".part", o.model)
            os.unlink(plain)
        o.text, o.train_text = o.text or fidelity.write_text(text, 24000), o.train_text or fidelity.write_text(train, 24000, 60000)
        o.tasks = 0

    @staticmethod
    def find_peer(folder):
        """llama-quantize and the libraries that do its work."""
        found = {}
        for at, _, names in os.walk(folder or "/nonexistent"):
            for name in names:
                if name == "llama-quantize" or name.startswith(("libggml-base.so", "libllama.so")):
                    found.setdefault(name, os.path.join(at, name))
        if folder and "llama-quantize" not in found:
            raise SystemExit("no llama-quantize below LLAMA_CPP=" + folder)
        return (found["llama-quantize"], sorted(found.values())) if folder else None

    def at(self, name):
        return os.path.join(self.o.cache, name)

    def llmrun(self, *args):
        return run(self.bin, "-q", "-t", str(self.o.threads), *args)

    def kept(self, name, make):
        """What make() gives, or gave once."""
        path = self.at(name + ".json")
        if os.path.exists(path):
            with open(path, "rb") as f:
                return json.load(f)
        data = make()
        write_whole(path, json.dumps(data).encode())
        return data

    # --- shared inputs ---

    def base(self):
        path = self.at("base-%s-%s.gguf" % (self.model_id, self.text_id))
        if not os.path.exists(path):
            say("base")
            self.llmrun("-m", self.o.model, "-f", self.text, "--perplexity", "-c", str(WINDOW), "--chunks", str(self.o.chunks),
                        "--kl-divergence-base", path, "--kl-top-k", "0")
        return path

    def imatrix(self):
        path = self.at("imatrix-%s-%s.gguf" % (self.model_id, digest(self.train)))
        if not os.path.exists(path):
            say("importance matrix")
            self.llmrun("-m", self.o.model, "-f", self.train, "-c", str(WINDOW), "--imatrix-out", path)
        return path

    # --- files ---

    def make_ours(self, kind, how, path):
        more = {"plain": [], "imatrix": ["--imatrix", self.imatrix()] if how == "imatrix" else [],
                "calibrated": ["--imatrix", self.imatrix(), "--calibrate", self.train] if how == "calibrated" else []}[how]
        self.llmrun("--quantize", kind, "-m", self.o.model, "-o", path, *more)

    def make_theirs(self, kind, how, path):
        more = ["--imatrix", self.imatrix()] if how == "imatrix" else []
        run(self.peer[0], *more, self.o.model, path, kind, str(self.o.threads))

    def judge(self, path):
        """Figures of a file, kept by what is in it."""
        tasks = self.o.tasks if os.path.exists(os.path.join(TRAIN, "judge.py")) else 0
        file_id = digest(path)

        def figures():
            kl = json.loads(self.llmrun("-m", path, "--kl-divergence", self.base(), "--json"))
            tensors = json.loads(self.llmrun("--inspect", "--json", "-m", path))["tensors"]
            return {"mib": os.path.getsize(path) / 2 ** 20, "bits": 8 * sum(t["bytes"] for t in tensors) / self.weights,
                    "ppl": kl["perplexity"], "ppl_error": kl["perplexity_error"], "kld": kl["kld"]["mean"], "kld_error": kl["kld"]["error"],
                    "p99": kl["kld"]["p99"], "same": 100 * kl["same_top"], "ln": kl["ln_ratio"], "rms_dp": 100 * kl["dp"]["rms"]}

        def answers():
            score = json.loads(run(sys.executable, os.path.join(TRAIN, "judge.py"), "--llmrun", self.bin, "--model", path, "--n", str(tasks),
                                   "--stories", "0", "--format", "json", "--jobs", str(self.o.threads)))
            return {"answers": 100 * score["one_hop"]}

        got = self.kept("kl-%s-%s-%s" % (self.model_id, self.text_id, file_id), figures)
        return {**got, **(self.kept("tasks-%d-%s" % (tasks, file_id), answers) if tasks else {"answers": None})}

    def other_build(self, name, maker_id):
        """--any-build: what another build made of this, measured."""
        head, tail = name.split(maker_id)
        found = [x for x in os.listdir(self.o.cache) if x.startswith(head) and x.endswith(tail + ".json")]
        return max(found, key=lambda x: os.path.getmtime(self.at(x)))[:-5] if found else name

    def row(self, kind, how, theirs=False):
        """Figures of a type made one way; None where the program refuses."""
        maker_id = self.peer_id if theirs else self.build
        inputs = {"plain": "", "imatrix": digest(self.train), "calibrated": digest(self.train)}[how]
        name = "made-%s-%s-%s-%s-%s-%s" % (self.model_id, kind, how, inputs, "theirs" if theirs else "ours", maker_id)
        name += "-%s-%d" % (self.text_id, self.o.tasks)
        if self.o.any_build and not theirs and not os.path.exists(self.at(name + ".json")):
            name = self.other_build(name, maker_id)

        def make():
            if how != "plain":
                self.imatrix()                         # its time is nobody's
            t0, path = time.time(), self.at("%s-%s-%d.gguf" % (kind, how, os.getpid()))
            try:
                (self.make_theirs if theirs else self.make_ours)(kind, how, path)
                seconds = time.time() - t0
                return {**self.judge(path), "seconds": seconds}
            finally:
                if os.path.exists(path):
                    os.unlink(path)
        try:
            got = self.kept(name, make)
        except Failed as why:
            self.failed.append("%s, %s%s: %s" % (kind, how, " (llama.cpp)" if theirs else "", why))
            say("  " + self.failed[-1])
            return None
        say("  %-8s %-10s %-9s KLD %.5f  PPL %.4f  %.1f s" % (kind, how, "llama.cpp" if theirs else "llmrun", got["kld"], got["ppl"], got["seconds"]))
        return got


# --- tables ---

def cell(r, key, form):
    return form % r[key] if r and r.get(key) is not None else "-"


def share(a, b):
    return "%.3f" % (a["kld"] / b["kld"]) if a and b and b["kld"] > 0 else "-"


def figures(r):
    return [cell(r, "mib", "%.2f"), cell(r, "bits", "%.2f"), cell(r, "ppl", "%.4f"), cell(r, "kld", "%.5f"), cell(r, "kld_error", "%.5f"),
            cell(r, "same", "%.2f"), cell(r, "answers", "%.1f")]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def head(names):
    return [line(names), "|" + "---|" * len(names)]


def long_table(rows, peer):
    """A row for each file; with a peer its file of the same kind on the right."""
    names = ["type", "made", "MiB", "bits", "PPL", "KLD", "±", "same top %", "answers %"]
    out = head(names + (["llama.cpp: MiB", "PPL", "KLD", "same top %", "answers %", "KLD, ours / theirs"] if peer else []))
    for kind, how, ours, theirs in rows:
        right = figures(theirs)
        out.append(line([kind, how, *figures(ours), *([right[0], right[2], right[3], right[5], right[6], share(ours, theirs)] if peer else [])]))
    return out


def short_table(rows, peer):
    """A row for each type: the calibrated file (the plain one where nothing is searched), and the divergence of each file."""
    by = {}
    for kind, how, ours, theirs in rows:
        mine, other = by.setdefault(kind, ({}, {}))
        mine[how], other[how] = ours, theirs
    out = head(["type", "MiB", "PPL", "answers %", *("KLD, " + h for h in HOWS), *("llama.cpp: " + h for h in PEER_HOWS if peer)])
    for kind, (mine, other) in by.items():
        best = mine.get("calibrated") or mine.get("plain")
        out.append(line([kind, cell(best, "mib", "%.2f"), cell(best, "ppl", "%.4f"), cell(best, "answers", "%.1f"),
                         *(cell(mine.get(h), "kld", "%.5f") for h in HOWS), *(cell(other.get(h), "kld", "%.5f") for h in PEER_HOWS if peer)]))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    p.add_argument("--model", default=os.path.join(ROOT, "models", "pip-f16.gguf"), help="F16, BF16 or F32, or one of %s (default %%(default)s)" % ", ".join(PUBLIC))
    p.add_argument("--published", metavar="FILE", help="the file of a public model")
    p.add_argument("--types", default=",".join(TYPES), help="by comma (default all)")
    p.add_argument("--how", default=",".join(HOWS), help="by comma: " + " ".join(HOWS))
    p.add_argument("--cache", default=os.path.join(ROOT, "build", "quality"))
    p.add_argument("--documents", type=int, default=320, help="of the test split (default %(default)s: about 40,000 tokens)")
    p.add_argument("--train-documents", type=int, default=500, help="for importance matrix and calibration (default %(default)s)")
    p.add_argument("--text", help="file in place of the test split")
    p.add_argument("--train-text", help="file in place of the train split")
    p.add_argument("--chunks", type=int, default=-1, help="windows of the text to score, -1: all")
    p.add_argument("--tasks", type=int, default=8, help="prompts of each task, 0: none (default %(default)s)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--any-build", action="store_true", help="take what other builds of llmrun made, where it was measured")
    o = p.parse_args()
    if o.model not in PUBLIC and not os.path.exists(o.model):
        raise SystemExit("no model %s (--model, or MODEL= with make)" % o.model)
    hows, kinds = o.how.split(","), o.types.split(",")
    if set(hows) - set(HOWS):
        raise SystemExit("--how: expected of " + " ".join(HOWS))
    b = Bench(o)
    whole, rows = b.judge(o.model), []
    for kind in kinds:
        for how in hows:
            if how != "plain" and kind in FLOATS:
                continue
            theirs = b.row(kind, how, theirs=True) if b.peer and how in PEER_HOWS else None
            rows.append((kind, how, b.row(kind, how), theirs))
    rows.sort(key=lambda r: kinds.index(r[0]))
    print("%s, %.2f M weights, judged on %s: perplexity %.4f ± %.4f, one-hop answers %s.\n" % (
        os.path.basename(o.model), b.weights / 1e6, os.path.basename(b.text), whole["ppl"], whole["ppl_error"], cell(whole, "answers", "%.1f %%")))
    print("\n".join(long_table(rows, b.peer)))
    print("\n" + "\n".join(short_table(rows, b.peer)))
    if b.failed:
        print("\nNot made:\n" + "\n".join("* " + x for x in b.failed))


if __name__ == "__main__":
    main()
