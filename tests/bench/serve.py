"""Streams of --serve beside those of llama-server: tokens a second, time to the first token, time between tokens, as Markdown.
    python3 tests/bench/serve.py --llmrun ./llmrun --peers ../llama.cpp/build/bin --model MODEL [--streams 64] [--tokens 64] [--only llmrun]
Each stream has a prompt of its own, of 50 to 3,000 words; all begin at once. The rounds of the two programs alternate."""
import argparse, http.client, json, os, random, signal, subprocess, sys, threading, time

import batch


def prompts(n, least, most):
    rng = random.Random(1)
    words = ["time", "water", "people", "house", "light", "story", "garden", "river", "music", "paper"]
    return [" ".join(rng.choice(words) for _ in range(int(least * (most / least) ** (i / max(n - 1, 1))))) for i in range(n)]


def at(times, share):
    times = sorted(times)
    return times[min(int(len(times) * share), len(times) - 1)] if times else float("nan")


def begin(command, port):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if batch.healthy(p, port, 600):
        return p
    if p.poll() is not None:
        sys.exit("%s ended with %d" % (command[0], p.returncode))
    sys.exit("%s does not answer" % command[0])


def one_round(port, texts, tokens):
    """(tokens a second, seconds to first tokens, seconds between tokens) of streams that begin at once."""
    first, between, count, lock = [], [], [0], threading.Lock()

    def run(text):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)
        body = {"prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        t0 = last = time.monotonic()
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        own, made, started = [], 0, None
        for line in c.getresponse():
            if not line.startswith(b"data: {"):
                continue
            now, event = time.monotonic(), json.loads(line[6:])
            made = (event.get("usage") or {}).get("completion_tokens", made)
            if event["choices"] and event["choices"][0].get("text"):
                if started is None:
                    started = now - t0
                else:
                    own.append(now - last)
                last = now
        with lock:
            first.append(started if started is not None else float("nan"))
            between.extend(own)
            count[0] += made
    t0 = time.monotonic()
    threads = [threading.Thread(target=run, args=(t,)) for t in texts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return count[0] / (time.monotonic() - t0), first, between


def main():
    p = argparse.ArgumentParser()
    for name, kind, default in (("llmrun", str, "./llmrun"), ("peers", str, ""), ("model", str, None), ("streams", int, 64), ("tokens", int, 64), ("least", int, 50),
                                ("most", int, 3000), ("rounds", int, 3), ("threads", int, 0), ("port", int, 18080), ("only", str, "")):
        p.add_argument("--" + name, type=kind, default=default)
    a = p.parse_args()
    texts = prompts(a.streams, a.least, a.most)
    context = 2 * a.most + a.tokens + 64
    threads = ["-t", str(a.threads or os.cpu_count())]
    programs = {"llmrun": [a.llmrun, "-m", a.model, "--serve", str(a.port), "-np", str(a.streams), "-c", str(context), "-q", *threads]}
    if a.peers:
        programs["llama-server"] = [os.path.join(a.peers, "llama-server"), "-m", a.model, "--port", str(a.port), "-np", str(a.streams),
                                    "-c", str(context * a.streams), *threads]
    print("| program | tokens/s | first token p50 | p95 | between tokens p50 | p95 |\n|---|--:|--:|--:|--:|--:|")
    rows = {name: [] for name in programs if not a.only or name == a.only}
    for _ in range(a.rounds):
        for name in rows:
            server = begin(programs[name], a.port)
            try:
                rows[name].append(one_round(a.port, texts, a.tokens))
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait()
    for name, got in rows.items():
        first, between = [x for r in got for x in r[1]], [x for r in got for x in r[2]]
        print("| %s | %.1f | %.2f s | %.2f s | %.3f s | %.3f s |" % (name, sorted(r[0] for r in got)[len(got) // 2], at(first, 0.5), at(first, 0.95), at(between, 0.5), at(between, 0.95)))


if __name__ == "__main__":
    main()
