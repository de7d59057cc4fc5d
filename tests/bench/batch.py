#!/usr/bin/env python3
"""llmrun --batch beside llama.cpp's batched benchmark and its server under the same load, as Markdown.

    make bench-file PEERS=path/to/llama.cpp/build/bin MODEL=model.gguf [BATCH="--rounds 3"]
    python3 tests/bench/batch.py --peers path/to/llama.cpp/build/bin --model model.gguf --only decode,mixed,shared,static

  decode   tokens a second of N sequences side by side: llama-batched-bench and llmrun --bench -npl, in turn.
  mixed    a file of 200 prompts of 20 to 200 random tokens, 20 to 150 new tokens each.
  shared   64 questions over one document of 1,000 tokens, 32 new tokens each.
  static   lengths drawn from 10 to 500 tokens, evenly and by their logarithm: continuous batching against --batch-static, where
           the rows of a group run until its last line ends; llmrun alone. `leaving` is kinder to groups: each is a run of its
           own, whose steps become smaller as its lines end. Beside it the share of the cache's memory that is allocated and
           unused while continuous batching runs.

The server is driven by as many clients as it has slots, over connections that stay open; the prompts are the same token ids, greedy,
without an end token, so that both programs compute the same number of tokens, which is checked. It is started afresh for every run
and not timed until it answers; llmrun is timed from its start to its end, the loading of the model among it. --slots may list several
numbers, because a server that shares no prefix between its slots is fastest with few: each is a row.
  Runs alternate within a round, and the tables hold medians over the rounds. --scale 0.1 takes a tenth of the lines, to see
whether everything works. Measure on a quiet machine.
"""
import argparse, http.client, json, math, os, queue, random, re, shlex, socket, statistics, subprocess, sys, tempfile, threading, time

import peer, results
from peer import Failed

HERE = os.path.dirname(os.path.abspath(__file__))
med = statistics.median


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# --- loads: lists of (prompt ids, new tokens) ---

class Load:
    def __init__(self, name, lines):
        self.name, self.lines = name, lines
        self.n_prompt, self.n_new = sum(len(p) for p, _ in lines), sum(n for _, n in lines)
        self.longest = max(len(p) + n for p, n in lines)


def words(rng, vocab, n):
    """Random ordinary tokens: none of the first ones, where vocabularies keep control tokens and single bytes."""
    low = min(1000, vocab // 2)
    return [rng.randrange(low, vocab) for _ in range(n)]


def mixed(o, rng):
    n = max(2, round(200 * o.scale))
    return Load("%d mixed prompts" % n, [(words(rng, o.vocab, rng.randint(20, 200)), rng.randint(20, 150)) for _ in range(n)])


def shared(o, rng):
    n, document = max(2, round(64 * o.scale)), words(rng, o.vocab, 1000)
    return Load("%d questions over one document" % n, [(document + words(rng, o.vocab, rng.randint(8, 24)), 32) for _ in range(n)])


def drawn(o, rng, form):
    """Prompts and answers of 10 to 500 tokens, even or log-even."""
    n = max(4, round(128 * o.scale))
    length = {"even": lambda: rng.randint(10, 500), "log": lambda: round(math.exp(rng.uniform(math.log(10), math.log(500))))}[form]
    return Load("%d lines, %s lengths" % (n, form), [(words(rng, o.vocab, length()), length()) for _ in range(n)])


# --- llmrun ---

def record(line, load, path):
    """The line number of an answer, which must have as many tokens as were asked for."""
    r = json.loads(line.decode("utf-8", "replace"))
    no = int(r["id"].split("_")[2])
    if r["error"] or not r["response"]:
        raise Failed("llmrun: line %d of %s: %s" % (no, path, r["error"]))
    use = r["response"]["body"]["usage"]
    prompt, new = load.lines[no - 1]
    if (use["prompt_tokens"], use["completion_tokens"]) != (len(prompt), new):
        raise Failed("llmrun: line %d of %s: %d and %d tokens, expected %d and %d" % (no, path, use["prompt_tokens"], use["completion_tokens"], len(prompt), new))
    return no


def own_run(o, load, folder, *args):
    """Runs the load: seconds from start to end, and what the run tells of itself."""
    path, out = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
    with open(path, "w") as f:
        for prompt, n in load.lines:
            f.write(json.dumps({"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True}) + "\n")
    for old in out, out + ".llmrun":
        if os.path.exists(old):
            os.unlink(old)
    args = [o.llmrun, "--batch", path, "-o", out, "--format", "json", "-m", o.model, "-np", str(o.parallel), *args] + threads(o) + shlex.split(o.own)
    t0 = time.perf_counter()
    r = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True)
    took = time.perf_counter() - t0
    told = [json.loads(line) for line in r.stderr.splitlines() if line.startswith(b"{")]
    if r.returncode or len(told) != 1:
        raise Failed("%s: exit %d: %s" % (" ".join(args), r.returncode, r.stderr.decode(errors="replace")[-200:]))
    with open(out, "rb") as f:
        answered = sorted(record(line, load, path) for line in f)
    if answered != list(range(1, len(load.lines) + 1)):
        raise Failed("llmrun: %d answers to %d lines" % (len(answered), len(load.lines)))
    return took, told[0]


def threads(o):
    return ["-t", str(o.threads)] if o.threads else []


# --- the server ---

def healthy(p, port, seconds):
    """Waits until the server p answers at /health. False: it has ended, or has not answered within so many seconds."""
    deadline = time.time() + seconds
    while time.time() < deadline and p.poll() is None:
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            c.request("GET", "/health")
            if c.getresponse().status == 200:
                return True
        except OSError:
            pass
        time.sleep(0.1)
    return False


class Server:
    """llama-server with so many slots, each long enough for the load's longest line; ready when it is entered."""

    def __init__(self, o, slots, longest):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        each = -(-(longest + 8) // 256) * 256
        self.args = [os.path.join(o.peers, "llama-server"), "-m", o.model, "--host", "127.0.0.1", "--port", str(self.port), "-np", str(slots),
                     "-c", str(slots * each)] + threads(o) + shlex.split(o.theirs)

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.p = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        if healthy(self.p, self.port, 300):
            return self
        if self.p.poll() is not None:
            raise Failed("%s: ended with %d: %s" % (self.args[0], self.p.returncode, self.tail()))
        self.__exit__()
        raise Failed("%s: not ready after 300 s" % self.args[0])

    def __exit__(self, *_):
        self.p.terminate()
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()

    def tail(self):
        self.log.seek(0)
        return (self.log.read().decode(errors="replace").strip().splitlines() or ["nothing said"])[-1][:200]


# What the server says, with status 500, of an answer whose text it cannot read itself: all of it has been computed by then.
UNREADABLE = b"does not match the expected"


def ask(connection, prompt, n):
    """Tokens that the server took from its cache; None: it did not say, see UNREADABLE."""
    body = {"prompt": prompt, "n_predict": n, "temperature": 0, "ignore_eos": True, "cache_prompt": True, "stream": False}
    connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status == 500 and UNREADABLE in data:
        return None
    if answer.status != 200:
        raise Failed("the server: status %d: %s" % (answer.status, data[:200].decode(errors="replace")))
    r = json.loads(data)
    if (r["tokens_evaluated"], r["tokens_predicted"]) != (len(prompt), n):
        raise Failed("the server: %d and %d tokens, expected %d and %d" % (r["tokens_evaluated"], r["tokens_predicted"], len(prompt), n))
    return r["timings"].get("cache_n", 0)


def client(server, todo, cached, wrong):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=3600)
    try:
        while not wrong:
            cached.append(ask(connection, *todo.get_nowait()))
    except queue.Empty:
        pass
    except (Failed, OSError, ValueError, KeyError, http.client.HTTPException) as e:
        wrong.append(e)
    connection.close()


def their_run(o, load, slots):
    """Seconds from the first request to the last answer, tokens that the server took from its cache."""
    todo, cached, wrong = queue.Queue(), [], []
    for line in load.lines:
        todo.put(line)
    with Server(o, slots, load.longest) as server:
        clients = [threading.Thread(target=client, args=(server, todo, cached, wrong)) for _ in range(slots)]
        t0 = time.perf_counter()
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        took = time.perf_counter() - t0
        if wrong:
            raise Failed("%s; it said: %s" % (wrong[0], server.tail()))
    unread = cached.count(None)
    if unread:
        say("%d of %d answers were computed and not sent: the server could not read their text" % (unread, len(cached)))
    return took, sum(c or 0 for c in cached)


def csv_rows(o, load, slots, own, theirs, ratio):
    """The same figures as rows of batch.csv."""
    common = dict(results.here(o.machine, o.set, o.name or os.path.basename(o.model), results.command_line("make bench-file", sys.argv[1:])),
                  load=load.name, prompt_tokens=load.n_prompt, new_tokens=load.n_new, rounds=o.rounds)
    yield dict(common, program=results.OWN, slots=o.parallel, seconds=med(x for x, _ in own), shared_tokens=round(med(s["shared_tokens"] for _, s in own)))
    yield dict(common, program="llama-server", slots=slots, seconds=med(x for x, _ in theirs), shared_tokens=round(med(c for _, c in theirs)), ratio="%.2f" % ratio)


def load_rows(o, load, folder):
    """A row for each number of slots: llmrun, server, llmrun; the server is held against the mean of its neighbours."""
    own, theirs = [own_run(o, load, folder)], {n: [] for n in o.slots}
    own_of = {n: [] for n in o.slots}
    for i in range(o.rounds):
        for slots in o.slots:
            theirs[slots].append(their_run(o, load, slots))
            own.append(own_run(o, load, folder))
            own_of[slots].append((own[-2][0] + own[-1][0]) / 2)
            say("%s, round %d of %d, %d slots: %.1f and %.1f s" % (load.name, i + 1, o.rounds, slots, own[-1][0], theirs[slots][-1][0]))
    for slots in o.slots:
        ratio = [t / a for (t, _), a in zip(theirs[slots], own_of[slots])]
        if o.csv:
            results.know(o.machine, o.csv)
            results.append("batch", list(csv_rows(o, load, slots, own, theirs[slots], med(ratio))), o.csv)
        a, t = med(x for x, _ in own), med(x for x, _ in theirs[slots])
        yield "| %s | %d | %d | %d | %.1f | %.0f | %d | %.1f | %.0f | %d | %.2f | %.2f to %.2f |" % (
            load.name, load.n_prompt, load.n_new, slots, a, (load.n_prompt + load.n_new) / a, med(s["shared_tokens"] for _, s in own), t,
            (load.n_prompt + load.n_new) / t, med(c for _, c in theirs[slots]), med(ratio), min(ratio), max(ratio))


# --- decode ---

def their_decode(o, n):
    """Its log is written by a thread that may end before the last row: such a run is made again."""
    args = [os.path.join(o.peers, "llama-batched-bench"), "-m", o.model, "-npp", str(o.depth), "-ntg", str(o.new), "-npl", str(n),
            "-c", str(n * (o.depth + o.new + 8)), "--output-format", "jsonl", *threads(o), *shlex.split(o.theirs_bench)]
    for _ in range(10):
        found = [json.loads(line) for line in peer.run(*args).splitlines() if line.startswith("{")]
        if len(found) == 1 and found[0]["pl"] == n and found[0]["tg"] == o.new:
            return found[0]["speed_tg"]
    raise Failed("llama-batched-bench: expected one row for %d sequences" % n)


def own_decode(o, n):
    text = peer.run(o.llmrun, "--bench", "-q", "-m", o.model, "-p", "0", "-n", str(o.new), "-d", str(o.depth), "-npl", str(n), "-r", "1", "-o", "json",
                    *threads(o), *shlex.split(o.own_bench))
    return peer.rows(text, "llmrun")["avg_ts"]


def decode_rows(o):
    for n in o.sequences:
        own, theirs = [own_decode(o, n)], []
        for i in range(o.rounds):
            theirs.append(their_decode(o, n))
            own.append(own_decode(o, n))
            say("decode x%d, round %d of %d: %.1f and %.1f t/s" % (n, i + 1, o.rounds, own[-1], theirs[-1]))
        ratio = [(a + b) / 2 / t for a, t, b in zip(own, theirs, own[1:])]
        yield "| %d | %.1f | %.1f | %.2f | %.2f to %.2f |" % (n, med(own), med(theirs), med(ratio), min(ratio), max(ratio))


# --- static against continuous ---

def leaving(o, load, folder):
    """Seconds of the load in groups of as many lines as run side by side, each group a run of its own."""
    groups = [load.lines[i:i + o.parallel] for i in range(0, len(load.lines), o.parallel)]
    return sum(own_run(o, Load("group", lines), folder)[1]["seconds"] for lines in groups)


def static_rows(o, load, folder):
    own, times = [], {"static": [], "leaving": []}
    for i in range(o.rounds):
        own.append(own_run(o, load, folder)[1])
        times["static"].append(own_run(o, load, folder, "--batch-static", "--batch-order", "input")[1]["seconds"])
        times["leaving"].append(leaving(o, load, folder))
        say("%s, round %d of %d: continuous %.1f s, %s" % (load.name, i + 1, o.rounds, own[-1]["seconds"], ", ".join("%s %.1f s" % (k, t[-1]) for k, t in times.items())))
    columns = ["%.1f | %.2f" % (med(t), med(x / s["seconds"] for x, s in zip(t, own))) for t in times.values()]
    yield "| %s | %d | %d | %d | %.1f | %s | %.1f %% |" % (load.name, load.n_prompt, load.n_new, o.parallel, med(s["seconds"] for s in own), " | ".join(columns),
                                                         100 * med(s["kv_unused"] for s in own))


# --- what is printed ---

TABLES = {
    "decode": ("Decode, %(new)d tokens a sequence after %(depth)d", "| sequences | llmrun t/s | peer t/s | ratio | least to most |"),
    "loads": ("Files of prompts; `%(parallel)d` sequences of llmrun at most; t/s counts prompt and new tokens",
              "| load | prompt tokens | new tokens | slots | llmrun s | t/s | of the prompts cached | server s | t/s | of the prompts cached | ratio | least to most |"),
    "static": ("Continuous against static batching, llmrun alone", "| load | prompt tokens | new tokens | group | continuous s | static s | ratio | leaving s | ratio | cache unused |"),
}


def table(o, name, rows):
    title, head = TABLES[name]
    print("\n%s\n\n%s\n%s" % (title % vars(o), head, re.sub(r"[^|]+", "---", head)), flush=True)
    for row in rows:
        print(row, flush=True)


def measure(o, folder):
    rng = random.Random(o.seed)
    loads = {"mixed": mixed(o, rng), "shared": shared(o, rng)}
    lengths = [drawn(o, rng, form) for form in ("even", "log")]
    if "decode" in o.only:
        table(o, "decode", decode_rows(o))
    wanted = [loads[name] for name in loads if name in o.only]
    if wanted:
        table(o, "loads", (row for load in wanted for row in load_rows(o, load, folder)))
    if "static" in o.only:
        table(o, "static", (row for load in lengths for row in static_rows(o, load, folder)))


def vocabulary(o):
    """Tokens that both programs know, asked of the file."""
    return json.loads(peer.run(o.llmrun, "--inspect", "--json", "-m", o.model))["vocabulary"]["tokens"]


def options():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "llmrun"))
    ap.add_argument("--peers", default="", help="folder with llama-server and llama-batched-bench; static needs none")
    ap.add_argument("--model", required=True)
    ap.add_argument("--only", default="decode,mixed,shared,static", help="what to measure, with commas between (all)")
    ap.add_argument("--threads", "-t", type=int, default=0, help="threads of both; by itself each takes its own default")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--parallel", "-np", type=int, default=32, help="most sequences of llmrun (32)")
    ap.add_argument("--slots", default="32", help="slots of the server, a row for each (32)")
    ap.add_argument("--sequences", default="1,8,32", help="decode: sequences side by side (1,8,32)")
    ap.add_argument("--depth", type=int, default=64, help="decode: tokens before (64)")
    ap.add_argument("--new", type=int, default=64, help="decode: tokens a sequence (64)")
    ap.add_argument("--scale", type=float, default=1.0, help="share of the lines to run (1)")
    ap.add_argument("--seed", type=int, default=1)
    peer.further_options(ap, "llmrun --batch", "llama-server", "--cache-reuse 64 --skip-chat-parsing")
    ap.add_argument("--own-bench", default="", help="further options for llmrun --bench")
    ap.add_argument("--theirs-bench", default="", help="further options for llama-batched-bench")
    peer.csv_options(ap, "batch")
    o = ap.parse_args()
    try:
        o.only, o.slots, o.sequences = o.only.split(","), peer.expand(o.slots), peer.expand(o.sequences)
    except ValueError as e:
        ap.error(str(e))
    if set(o.only) - {"decode", "mixed", "shared", "static"} or o.rounds < 1 or not 0 < o.scale <= 10 or min(o.slots + o.sequences + [o.parallel]) < 1:
        ap.error("expected --only decode,mixed,shared,static, positive numbers, a scale of at most 10")
    if not o.peers and set(o.only) - {"static"}:
        ap.error("--peers: expected a folder with llama-server and llama-batched-bench")
    return o


def work(o, judged):
    o.vocab = vocabulary(o)
    version = peer.run(o.llmrun, "--version").splitlines()[0]
    print("%s; %s; medians of %d rounds" % (os.path.basename(o.model), version, o.rounds))
    if judged:
        print(judged)
    with tempfile.TemporaryDirectory(prefix="llmrun-batch-") as folder:
        measure(o, folder)


if __name__ == "__main__":
    sys.exit(peer.run_beside("batch.py", options(), work))
