#!/usr/bin/env python3
"""Decoding with guesses against plain decoding, in llmrun and in llama.cpp's programs, as Markdown.

    python3 tests/gen/inflate.py models/pip-f16.gguf --like 1.1b -o big-f16.gguf && ./llmrun -m big-f16.gguf --quantize Q4_K_M -o big.gguf
    make bench-spec HEAD=qwen35-2b-head.gguf [PEERS=...]
    make bench-spec HEAD=models/pip-head-q4_k_m.gguf MODEL=models/pip-q4_k_m.gguf
    make bench-spec MODEL=big.gguf [DRAFT=models/pip-draft-q8_0.gguf] [PEERS=path/to/llama.cpp/build/bin] [SPEC="--rounds 3"]
    python3 tests/bench/spec.py --model big.gguf --draft models/pip-draft-q8_0.gguf --only stories,copies,noise

  stories  beginnings of stories of models/train/world.py, continued at temperature 0.5; and greedy, the same greedily.
  copies   text that repeats its prompt, greedy: Pip copies nothing at length when it is asked to, but falls into repetition when
           it must not end. The prompt is a document of its world and what it said after it, up to there; what follows goes round.
  loops    the same after documents that it goes on from now in one way, now in another.
  noise    the beginnings of stories at temperature 3 with every other sampler off, where nobody can guess.
  heads    the same at temperature 1, for a model with a draft head (--head): as many guesses as pay, one, two and three; beside
           llama.cpp's draft-mtp. tests/gen/shapes.py qwen35-2b-head makes a head that is right about as often as trained ones are,
           qwen35-2b-never one that never is. A head in a file of its own goes with --model, at temperature 0.5; how often it is right is
           then counted in float64 too (accepted.py), and where llmrun's tokens a step are not within 2 % of it, the run ends with exit 1.

Prompts are taken in turn, and each is run in every way before the next one, forwards and backwards by turns, so that what is compared
lies within seconds. A round is all prompts; its rate is its tokens over its seconds, the first token of an answer left out: it
comes from the prompt. Texts go on when they would end, so that all have the same length. Ratios are made within a round; what stands
in the tables are medians over the rounds, of tokens and guesses means.
  llmrun must give the same ids in every way and every round: where it does not, the run ends with exit 1. The peers' texts are
compared and counted. llmrun is run afresh for each answer, and "whole run" holds its seconds from start to end, loading among them,
against those of the plain run. A server of llama.cpp stays up, one for each of its ways, and is asked in turn; a peer's
example programs are run where the folder has them. --draft-n lists how many tokens llama.cpp drafts, since it does not choose, and after
which probability it may end.
"""
import argparse, contextlib, http.client, json, os, re, shlex, statistics, subprocess, sys, time
from collections import namedtuple

import batch, peer, results
from peer import Failed

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "models", "train"), os.path.join(ROOT, "tests", "gen")]
import inflate, world

med = statistics.median
PLAIN = "plain"
LEAD = 150                      # tokens of repetition in the prompts of copies and loops
HIGH_BYTES = range(128, 259)    # Pip's tokens of the bytes from 0x80 on, or those of shapes.py: the server answers 500 in place of text that is
                                # no UTF-8


class Differs(Exception):
    """llmrun's text is not what it was without guesses, or its guesses are not as often right as a count says."""


# --- loads ---

class Load:
    """Prompts, what guesses in llmrun and in llama.cpp, and how they are continued: options by the names of both commands."""

    def __init__(self, name, prompts, new, own, theirs, **sampling):
        self.name, self.prompts, self.new, self.own, self.theirs = name, prompts, new, own, theirs
        self.sampling = sampling

    def args(self, i):
        told = [x for k, v in self.sampling.items() for x in ("--" + k.replace("_", "-"), str(v))]
        return ["--raw", "-p", self.prompts[i], "-n", str(self.new), "-s", str(i + 1)] + told + ["--ignore-eos"]

    def body(self, i):
        told = {{"temp": "temperature"}.get(k, k): v for k, v in self.sampling.items()}
        banned = [[token, False] for token in HIGH_BYTES if self.sampling["temp"] >= 1]
        return {"prompt": self.prompts[i], "n_predict": self.new, "seed": i + 1, "ignore_eos": True, "cache_prompt": False,
                "logit_bias": banned, "return_tokens": True, **told}


# --- ways: what runs a prompt of a load, and what it tells ---

# decode seconds of n tokens (the first one not among them); all seconds; ids or None; what the guesses did
Run = namedtuple("Run", "n seconds whole ids guessed accepted steps said n_prompt")


def find(pattern, text, default=None):
    """The groups of the first match as numbers."""
    m = re.search(pattern, text)
    return [float(g) for g in m.groups()] if m else default


def last(text):
    return (text.strip().splitlines() or ["nothing said"])[-1][:200]


class Own:
    """llmrun, afresh for each prompt."""

    SOURCES = {"draft": "a draft model", "both": "a draft model and the text", "lookup": "the text", "head": "a draft head",
               "head 1": "a draft head, 1", "head 2": "a draft head, 2", "head 3": "a draft head, 3"}

    def __init__(self, o, source=None):
        self.o, self.own, self.plain = o, True, source is None
        self.name = PLAIN if self.plain else self.SOURCES[source]
        self.args = [o.llmrun, "-m", o.model, "--ids", "-v", "-c", str(o.context), *batch.threads(o), *shlex.split(o.own)]
        self.args += ["-md", o.draft] * (source in ("draft", "both")) + ["--no-lookup"] * (source not in ("both", "lookup"))
        head, _, n = (source or "").partition(" ")
        if o.beside and head == "head":
            self.args += ["-md", o.beside]
        else:
            self.args += ["--no-head"] * (head != "head")
        self.args += ["--draft-max", n, "--draft-min", n] if n else []

    def run(self, load, i):
        args = self.args + load.args(i)
        t0 = time.perf_counter()
        r = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        whole = time.perf_counter() - t0
        n, seconds = find(r"generated +(\d+) tokens in ([\d.]+) s", r.stderr, (0, 0))
        if r.returncode or n < 2 or not seconds:
            raise Failed("%s: exit %d: %s" % (" ".join(map(shlex.quote, args)), r.returncode, last(r.stderr)))
        (said,) = find(r"speculation +([\d.]+)x ", r.stderr, (0,))
        _, steps = find(r"speculation [^\n]*?(\d+) tokens in (\d+) steps", r.stderr, (0, n - 1))
        found = [find(source + r" +(\d+) guessed, (\d+) accepted", r.stderr, (0, 0)) for source in ("draft", "head", "lookup")]
        return Run(n - 1, seconds, whole, [int(x) for x in r.stdout.split()], sum(g for g, _ in found), sum(a for _, a in found), steps, said,
                   find(r"prompt +(\d+) tokens", r.stderr)[0])


    def text(self, prompt, n):
        """What n greedy tokens say, which may end within a character."""
        args = [x for x in self.args if x != "--ids"] + ["-q", "--raw", "-p", prompt, "-n", str(n), "--temp", "0", "--ignore-eos"]
        r = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True)
        if r.returncode:
            raise Failed("%s: exit %d: %s" % (args[0], r.returncode, last(r.stderr.decode(errors="replace"))))
        return r.stdout.decode(errors="ignore")


    def ids(self, prompt):
        return [int(x) for x in peer.run(self.o.llmrun, "-m", self.o.model, "-q", "--tokenize", "--special", "-p", prompt).split()]


class Slot:
    """A server of llama.cpp that stays up, one slot."""

    def __init__(self, o, name, *args):
        self.own, self.plain, self.name = False, name == PLAIN, "server: " + name
        self.server = batch.Server(o, 1, o.context)
        self.server.args += args

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *why):
        self.server.__exit__(*why)

    def run(self, load, i):
        t0 = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=3600)
        try:
            connection.request("POST", "/completion", json.dumps(load.body(i)), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        whole = time.perf_counter() - t0
        if answer.status != 200:
            raise Failed("%s: status %d: %s" % (self.name, answer.status, data[:200].decode(errors="replace")))
        r = json.loads(data)
        t, n = r["timings"], r["tokens_predicted"] - 1
        accepted = t.get("draft_n_accepted", 0)
        return Run(n, t["predicted_ms"] / 1000, whole, r["tokens"], t.get("draft_n", 0), accepted, n - accepted, 0, r["tokens_evaluated"])


class Example(contextlib.nullcontext):
    """One of llama.cpp's example programs, afresh for each prompt."""

    def __init__(self, o, program, name, first, *args):
        super().__init__(self)
        self.own, self.plain, self.name, self.first = False, False, "%s: %s" % (program, name), first
        self.args = [os.path.join(o.peers, program), "-m", o.model, "-c", str(o.context), *batch.threads(o), *shlex.split(o.theirs_example), *args]

    def told(self, load, i):
        """What it says when it ends. Its log is written by a thread that may end before the last line: such a run is made again."""
        for _ in range(10):
            r = subprocess.run(self.args + load.args(i), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            text = r.stdout.decode(errors="replace")
            if r.returncode or re.search(r"\baccept +=", text):
                break
        if r.returncode or not re.search(r"\baccept +=", text):
            raise Failed("%s: exit %d: %s" % (self.name, r.returncode, last(text)))
        return text

    def run(self, load, i):
        text = self.told(load, i)
        (n_prompt,), (n, seconds) = find(r"encoded +(\d+) tokens", text), find(r"decoded +(\d+) tokens in +([\d.]+) seconds", text)
        (guessed,), (accepted,) = (find(r"n_%s += +(\d+)" % what, text) for what in ("drafted", "accept"))
        n -= self.first
        return Run(n, max(seconds, 1e-3), 0, None, guessed, accepted, n - accepted, 0, n_prompt)


def drafting(o, k, p):
    return ["-md", o.draft, "--spec-type", "draft-simple", "--spec-draft-n-max", str(int(k)), "--spec-draft-p-min", str(p)]


def their_ways(o, load):
    """Plain decoding, and what guesses for this load. An example that counts the first token says so."""
    yield Slot(o, PLAIN)
    drafts, ngrams, examples = (load.theirs.get(k, ()) for k in ("drafts", "ngrams", "examples"))
    for k in load.theirs.get("heads", ()):
        yield Slot(o, "draft-mtp, n %d" % k, "--spec-type", "draft-mtp", "--spec-draft-n-max", str(k))
    for k, p in drafts:
        name = "n %d" % k + (", p %g" % p if p else "")
        yield Slot(o, "draft, " + name, *drafting(o, k, p))
        if examples and not p and has(o, "llama-speculative-simple"):           # which aborts where a draft ends at once
            yield Example(o, "llama-speculative-simple", name, False, *drafting(o, k, p))
    for n, m in ngrams:
        yield Slot(o, "ngram-simple, %d, %d" % (n, m), "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", str(n),
                   "--spec-ngram-simple-size-m", str(m))
    if ngrams and examples:
        yield Slot(o, "ngram-cache", "--spec-type", "ngram-cache")
        if has(o, "llama-lookup"):
            yield Example(o, "llama-lookup", "n 16", True, "--spec-draft-n-max", "16", "-lcd", os.devnull)


def has(o, program):
    return o.examples and os.access(os.path.join(o.peers, program), os.X_OK)


# --- prompts ---

def story_prompts(o):
    return [world.story_prompt(seed) for seed in range(o.seed, o.seed + o.prompts)]


# Documents of the test split after which Pip, greedy and without an end token, comes to say the same again and again, or nearly so.
COPIES = ("list", 7), ("list", 12), ("sum", 11), ("sum", 2), ("sum", 3)
LOOPS = ("list", 8), ("sum", 1), ("record", 2), ("record", 4), ("sum", 10)


def repeating(o, documents):
    """Those documents with LEAD tokens of what the model makes of them: what follows repeats what stands there."""
    plain = Own(o)
    return [begun + plain.text(begun, LEAD) for kind, seed in documents[:o.prompts] for begun in [world.document(seed, "test", kind).text]]


def make_loads(o):
    begun, copied, looped = story_prompts(o), *(repeating(o, d) if name in o.only else [] for name, d in (("copies", COPIES), ("loops", LOOPS)))
    few = dict(drafts=o.draft_n[:1], ngrams=o.ngrams[:1])
    return {
        "stories": Load("stories, temperature 0.5", begun, o.new, ("draft", "both"), dict(drafts=o.draft_n, examples=True), temp=0.5),
        "greedy": Load("stories, greedy", begun, o.new, ("draft", "both"), dict(drafts=o.draft_n, examples=True), temp=0),
        "copies": Load("copies, greedy", copied, o.new, ("lookup",), dict(ngrams=o.ngrams, examples=True), temp=0),
        "loops": Load("loops, greedy", looped, o.new, ("lookup",), dict(ngrams=o.ngrams, examples=True), temp=0),
        "heads": Load("temperature %g" % o.temp, begun, o.new, ("head", "head 1", "head 2", "head 3"), dict(heads=(1, 2, 3)), temp=o.temp,
                      top_k=0, top_p=1, min_p=0),
        "noise": Load("temperature 3", begun, o.new, ("both", "lookup"), few, temp=3, top_k=0, top_p=1, min_p=0),
    }


def repeated(prompt, answer, run=8):
    """The tokens of the answer that lie in runs of tokens which stand in the prompt."""
    known, text = {tuple(prompt[i:i + run]) for i in range(len(prompt) - run + 1)}, prompt[1 - run:] + answer
    covered = {i + k for i in range(len(text) - run + 1) if tuple(text[i:i + run]) in known for k in range(run)}
    return sum(i >= len(text) - len(answer) for i in covered)


# --- rounds ---

class Rounds:
    """What the ways of one load did: runs[way][round][prompt]."""

    def __init__(self, o, load, ways):
        self.load, self.ways, self.runs, self.first = load, ways, {w: [] for w in ways}, {}
        for r in range(o.rounds):
            now = [w for w in ways if w.own or r < o.peer_rounds]
            for w in now:
                self.runs[w].append([])
            for i in range(len(load.prompts)):
                for w in now if (r + i) % 2 == 0 else now[::-1]:
                    self.take(w, i)
            batch.say("%s, round %d of %d: %s" % (load.name, r + 1, o.rounds, ", ".join("%s %.1f" % (w.name, self.rates(w)[-1]) for w in now)))

    def take(self, way, i):
        run = way.run(self.load, i)
        if way.own:
            self.hold(way, i, run)
        else:
            time.sleep(0.3)                           # its workers spin for a moment after the last token
        self.runs[way][-1].append(run)

    def hold(self, way, i, run):
        """Every run of llmrun gives the ids that the first one gave."""
        ids = self.first.setdefault(i, run.ids)
        if ids != run.ids:
            at = next((k for k, (a, b) in enumerate(zip(ids, run.ids)) if a != b), min(len(ids), len(run.ids)))
            raise Differs("%s, prompt %d (%r): with guesses from %s the text differs from token %d on" % (
                self.load.name, i, self.load.prompts[i][:60], way.name, at))

    def plain(self, own):
        return next(w for w in self.ways if w.own == own and w.plain)

    def rates(self, way):
        return [sum(x.n for x in runs) / sum(x.seconds for x in runs) for runs in self.runs[way] if runs]

    def best(self, own):
        """The way with the highest rate, plain decoding among them."""
        return max((w for w in self.ways if w.own == own), key=lambda w: med(self.rates(w)))

    def ratios(self, a, b):
        return [x / y for x, y in zip(self.rates(a), self.rates(b))]

    def total(self, way, field):
        """Of a round, on average."""
        return sum(getattr(x, field) for runs in self.runs[way] for x in runs) / len(self.runs[way])

    def label(self):
        """The load's name, and for copies and loops how much of the answers repeats their prompts."""
        if self.load.theirs.get("drafts") or self.load.theirs.get("heads"):
            return self.load.name
        got = [(repeated(self.ways[0].ids(prompt), self.first[i]), len(self.first[i])) for i, prompt in enumerate(self.load.prompts)]
        return "%s, %.0f %% in runs of 8 from the prompt" % (self.load.name, 100 * sum(a for a, _ in got) / sum(n for _, n in got))

    def same(self, way):
        """How many of the first round's texts are those of the same program's plain decoding."""
        pairs = [(a.ids, b.ids) for a, b in zip(self.runs[way][0], self.runs[self.plain(way.own)][0])]
        return "-" if any(a is None for a, _ in pairs) else "%d of %d" % (sum(a == b for a, b in pairs), len(pairs))


HEADS = {
    "guess": ("Guesses against plain decoding of the same program",
              "| load | guesses from | tokens | plain t/s | t/s | ratio | least to most | whole run | it says | guessed | accepted | of them | tokens a step | same text |"),
    "peers": ("llmrun beside llama.cpp: tokens/s, and llmrun's over llama.cpp's within a round",
              "| load | llmrun plain | llama.cpp plain | ratio | llmrun's best | llama.cpp's best | ratio | least to most | greedy texts equal |"),
}


def head(name):
    title, columns = HEADS[name]
    print("\n%s\n\n%s\n%s" % (title, columns, re.sub(r"[^|]+", "---", columns)), flush=True)


def guess_rows(r):
    label = r.label()
    for w in r.ways:
        if w.plain:
            continue
        plain = r.plain(w.own)
        ratio = r.ratios(w, plain)
        whole = "%.2f" % med(p / x for p, x in zip(*([sum(x.whole for x in runs) for runs in r.runs[v]] for v in (plain, w)))) if w.own else "-"
        said = [x.said for runs in r.runs[w] for x in runs if x.said]
        guessed, accepted = r.total(w, "guessed"), r.total(w, "accepted")
        yield "| %s | %s%s | %.0f | %.1f | %.1f | %.2f | %.2f to %.2f | %s | %s | %.0f | %.0f | %s | %.2f | %s |" % (
            label, "" if w.own else "llama.cpp's ", w.name, r.total(w, "n"), med(r.rates(plain)), med(r.rates(w)), med(ratio), min(ratio), max(ratio),
            whole, "%.2f" % med(said) if said else "-", guessed, accepted, "%.1f %%" % (100 * accepted / guessed) if guessed else "-",
            r.total(w, "n") / max(1, r.total(w, "steps")), r.same(w))


def peer_row(r):
    (a, b), (x, y) = ((f(True), f(False)) for f in (r.plain, r.best))
    ratio, equal = r.ratios(x, y), "-"
    if r.load.sampling["temp"] == 0:
        pairs = [(p.ids, q.ids) for p, q in zip(r.runs[a][0], r.runs[b][0])]
        equal = "%d of %d" % (sum(p == q for p, q in pairs), len(pairs))
    return "| %s | %.1f | %.1f | %.2f | %.1f (%s) | %.1f (%s) | %.2f | %.2f to %.2f | %s |" % (
        r.load.name, med(r.rates(a)), med(r.rates(b)), med(r.ratios(a, b)), med(r.rates(x)), x.name, med(r.rates(y)), y.name,
        med(ratio), min(ratio), max(ratio), equal)


def measure_load(o, load):
    own = [Own(o)] + [Own(o, source) for source in load.own]
    with contextlib.ExitStack() as up:
        ways = own + [up.enter_context(w) for w in their_ways(o, load)] if o.peers else own
        if o.peers:
            lengths = {w.name: w.run(load, 0).n_prompt for w in ways if w.plain}          # warms both up, too
            if len(set(lengths.values())) != 1:
                raise Failed("the prompt has different numbers of tokens: %s" % lengths)
        return Rounds(o, load, ways)


def csv_rows(o, r):
    """The same figures as rows of speculation.csv."""
    common = dict(results.here(o.machine, o.set, o.name or os.path.basename(o.model), results.command_line("make bench-spec", sys.argv[1:])),
                  load=r.load.name, prompts=len(r.load.prompts))
    for w in r.ways:
        row = dict(common, program=results.OWN if w.own else "llama.cpp", guesses="none" if w.plain else w.name, options=o.own if w.own else "",
                   tokens_s=med(r.rates(w)), rounds=len(r.rates(w)))
        if not w.plain:
            ratio = r.ratios(w, r.plain(w.own))
            row.update(ratio="%.2f" % med(ratio), ratio_least="%.2f" % min(ratio), ratio_most="%.2f" % max(ratio))
        yield row


def count(o, r):
    """Tokens a step with one, two and three guesses of a head in a file of its own, beside those of a float64 reading of both files."""
    import accepted                                   # here, since it needs numpy
    ids = lambda text: [int(x) for x in peer.run(o.llmrun, "-m", o.model, "-q", "--tokenize", "--bos", "--special", "-p", text).split()]   # noqa: E731
    model = accepted.read(o.model, o.beside)
    ends = [ids(x)[-1] for x in ("<|endoftext|>", "<|im_end|>")]
    texts = [accepted.Text(model, ids(prompt), r.first[i], i + 1, o.temp, ends) for i, prompt in enumerate(r.load.prompts)]
    print("\nTokens a step, llmrun's and those of a count in float64 over the same texts\n\n| guesses | llmrun | float64 | ratio |\n|---|---|---|---|")
    far = []
    for w in r.ways:
        n = int((w.args + ["0"])[w.args.index("--draft-max") + 1]) if "--draft-max" in w.args else 0
        if n:
            own, want = r.total(w, "n") / r.total(w, "steps"), sum(len(r.first[i]) - 1 for i in r.first) / sum(t.steps(n) for t in texts)
            print("| %d | %.3f | %.3f | %.3f |" % (n, own, want, own / want), flush=True)
            far += [n] * (abs(own / want - 1) > 0.02)
    if far:
        raise Differs("tokens a step with %s guesses are not within 2 %% of the count" % ", ".join(map(str, far)))


def measure(o):
    loads, rows = make_loads(o), []
    head("guess")
    for name in o.only:
        rounds = measure_load(o, loads[name])
        print("\n".join(guess_rows(rounds)), flush=True)
        if o.beside:
            count(o, rounds)
        if o.csv:
            results.know(o.machine, o.csv)
            results.append("speculation", list(csv_rows(o, rounds)), o.csv)
        if o.peers:
            rows.append(peer_row(rounds))
    if rows:
        head("peers")
        print("\n".join(rows))


# --- what is asked for ---

def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    ap.add_argument("--model", help="the target: inflated, see above")
    ap.add_argument("--head", help="a model with a draft head, for the load heads alone; or a file with the head of --model")
    ap.add_argument("--draft", default=os.path.join(ROOT, "models", "pip-draft-q8_0.gguf"))
    ap.add_argument("--peers", default="", help="folder with llama-server and, where they were built, llama-speculative-simple and llama-lookup")
    ap.add_argument("--only", default="stories,greedy,copies,loops,noise", help="what to measure, with commas between (all)")
    ap.add_argument("--threads", "-t", type=int, default=0, help="threads of all; by itself each takes its own default")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--peer-rounds", type=int, default=5, help="in how many of the rounds llama.cpp takes part (5)")
    ap.add_argument("--prompts", type=int, default=5, help="prompts a load (5)")
    ap.add_argument("--new", type=int, default=200, help="tokens an answer (200)")
    ap.add_argument("--context", type=int, default=512, help="tokens of context (512)")
    ap.add_argument("--draft-n", default="3,8,16,16:0.5",
                    help="tokens that llama.cpp drafts, and the probability that ends a draft, a way for each (3,8,16,16:0.5)")
    ap.add_argument("--ngrams", default="3:8,12:48", help="llama.cpp's ngram-simple: tokens looked up and taken (3:8,12:48)")
    ap.add_argument("--no-examples", dest="examples", action="store_false", help="of llama.cpp the server alone")
    ap.add_argument("--seed", type=int, default=0, help="of the prompts")
    peer.further_options(ap, theirs="llama-server", given="--skip-chat-parsing")
    ap.add_argument("--theirs-example", default="", help="further options for llama.cpp's examples")
    peer.csv_options(ap, "speculation")
    o = ap.parse_args()
    o.temp, o.beside = 1, None
    if o.head:
        alone, o.only = not any(name.startswith("blk.0.") for name in inflate.File(o.head).tensors), "heads"
        if alone:
            o.temp, o.beside = 0.5, o.head
        else:
            o.model = o.head
    if not o.model:
        ap.error("expected --model or --head")
    try:
        o.only, o.ngrams = o.only.split(","), [tuple(map(int, x.split(":"))) for x in o.ngrams.split(",") if x]
        o.draft_n = [(float(k), float(p or 0)) for x in o.draft_n.split(",") if x for k, _, p in [x.partition(":")]]
    except ValueError as e:
        ap.error(str(e))
    least = min([o.rounds, o.peer_rounds, o.prompts, o.new - 1, o.context] + [k for k, _ in o.draft_n])
    if set(o.only) - {"stories", "greedy", "copies", "loops", "noise", "heads"} or least < 1 or any(len(x) != 2 for x in o.ngrams):
        ap.error("expected --only stories,greedy,copies,loops,noise,heads, positive numbers, 2 new tokens or more, pairs of numbers in --ngrams")
    return o


def work(o, judged):
    print("%s, draft %s; %s; medians of %d rounds of %d prompts" % (
        os.path.basename(o.model), "head" if o.head else os.path.basename(o.draft), peer.run(o.llmrun, "--version").splitlines()[0], o.rounds, o.prompts))
    if judged:
        print(judged)
    measure(o)


def main():
    try:
        return peer.run_beside("spec.py", options(), work)
    except Differs as why:
        print("spec.py: %s" % why, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
