"""Streams of --serve beside those of llama-server, as Markdown.
    python3 tests/bench/serve.py --llmrun ./llmrun --peers ../llama.cpp/build/bin --model MODEL [--streams 64] [--tokens 64] [--only llmrun]
        tokens a second, time to the first token, time between tokens: each stream has a prompt of its own, of 50 to 3,000 words; all begin at once
    ... --long 4000 --streams 8
        the longest pause of streams while another client's prompt of so many words is read, beside the time of two steps of 256 rows of a prompt
    ... --slow 200 --streams 8 --rounds 5
        the rate of streams beside so many connections that send nothing or a byte a second, and beside streams that nobody reads: its ratio to the rate alone
The rounds of the two programs alternate."""
import argparse, http.client, json, os, random, re, signal, socket, subprocess, sys, threading, time

import batch

WORDS = ["time", "water", "people", "house", "light", "story", "garden", "river", "music", "paper"]


def prompts(n, least, most, seed=1):
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(int(least * (most / least) ** (i / max(n - 1, 1))))) for i in range(n)]


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


def end(server):
    server.send_signal(signal.SIGTERM)
    server.wait()


class Stream:
    """A completion as a stream."""

    def __init__(self, port, text, tokens, **more):
        self.c = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)
        self.t0 = time.monotonic()
        self.times, self.made, self.read = [], 0, 0      # when pieces came; tokens of the answer and of the prompt
        body = {"prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}, **more}
        self.c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})

    def run(self):
        """Reads all of it. It ends early where the connection is shut down."""
        try:
            for line in self.c.getresponse():
                if not line.startswith(b"data: {"):
                    continue
                now, event = time.monotonic(), json.loads(line[6:])
                usage = event.get("usage") or {}
                self.made, self.read = usage.get("completion_tokens", self.made), usage.get("prompt_tokens", self.read)
                if event.get("choices") and event["choices"][0].get("text"):
                    self.times.append(now)
        except (OSError, ValueError, http.client.HTTPException):
            pass
        return self

    def stop(self):
        self.c.sock.shutdown(socket.SHUT_RDWR)

    def first(self):
        return self.times[0] - self.t0 if self.times else float("nan")

    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]


def all_at_once(port, texts, tokens):
    """(streams that have ended, tokens a second)."""
    t0 = time.monotonic()
    streams = [Stream(port, t, tokens) for t in texts]
    threads = [threading.Thread(target=s.run) for s in streams]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return streams, sum(s.made for s in streams) / (time.monotonic() - t0)


def rate(a, texts):
    """Tokens a second of such streams, one round after the other for some seconds."""
    made, t0 = 0, time.monotonic()
    while time.monotonic() - t0 < a.seconds:
        made += sum(s.made for s in all_at_once(a.port, texts, a.tokens)[0])
    return made / (time.monotonic() - t0)


def many(a, programs):
    print("| program | tokens/s | first token p50 | p95 | between tokens p50 | p95 |\n|---|--:|--:|--:|--:|--:|")
    rows = {name: [] for name in programs}
    for _ in range(a.rounds):
        for name in rows:
            server = begin(programs[name], a.port)
            try:
                rows[name].append(all_at_once(a.port, prompts(a.streams, a.least, a.most), a.tokens))
            finally:
                end(server)
    for name, got in rows.items():
        first, between = [s.first() for r in got for s in r[0]], [x for r in got for s in r[0] for x in s.gaps()]
        print("| %s | %.1f | %.2f s | %.2f s | %.3f s | %.3f s |" % (name, at([r[1] for r in got], 0.5), at(first, 0.5), at(first, 0.95), at(between, 0.5), at(between, 0.95)))


def long_prompt(a, programs):
    print("%d streams, then a prompt of %d words" % (a.streams, a.long))
    print("| program | two steps of 256 rows | longest gap | p95 | gap before it | its first token |\n|---|--:|--:|--:|--:|--:|")
    for name, command in programs.items():
        server = begin(command, a.port)
        try:
            alone = Stream(a.port, prompts(1, a.alone, a.alone, 2)[0], 1).run()
            steps = 512 * alone.first() / alone.read
            streams = [Stream(a.port, t, 100000) for t in prompts(a.streams, 20, 20)]
            threads = [threading.Thread(target=s.run) for s in streams]
            for t in threads:
                t.start()
            while any(t.is_alive() and len(s.times) < 12 for s, t in zip(streams, threads)):
                time.sleep(0.05)
            ended = sum(not t.is_alive() for t in threads)       # with an error
            t0 = time.monotonic()
            long = Stream(a.port, prompts(1, a.long, a.long, 3)[0], 1).run()
            t1 = time.monotonic()
            time.sleep(2 * steps)                        # the gap in which it has ended, too
            for s, t in zip(streams, threads):
                if t.is_alive():
                    s.stop()
                t.join()
        finally:
            end(server)
        during = [y - x for s in streams for x, y in zip(s.times, s.times[1:]) if y > t0 and x < t1]
        before = [y - x for s in streams for x, y in zip(s.times[2:], s.times[3:]) if y <= t0]
        print("| %s | %.2f s | %.2f s | %.2f s | %.3f s | %.1f s of %d tokens |%s" % (
            name, steps, max(during, default=float("nan")), at(during, 0.95), at(before, 0.5), long.first(), long.read, " %d streams had ended with an error" % ended if ended else ""), flush=True)


def paused(port):
    """Streams of llmrun that wait for their readers."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/metrics")
    found = re.search(rb"^llmrun_requests_paused (\d+)", c.getresponse().read(), re.M)
    return int(found.group(1)) if found else 0


def slow_clients(a, programs):
    print("%d streams of %d tokens, %d slow connections, two streams that nobody reads" % (a.streams, a.tokens, a.slow))
    print("| program | alone | beside slow connections | and beside streams that nobody reads |\n|---|--:|--:|--:|")
    for name, command in programs.items():
        server, rates = begin(command, a.port), [[], [], []]
        texts, head = prompts(a.streams, 10, 10), b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
        try:
            rate(a, texts)
            for _ in range(a.rounds):
                rates[0].append(rate(a, texts))
                idle, stop = [socket.create_connection(("127.0.0.1", a.port)) for _ in range(a.slow)], threading.Event()
                for c in idle[a.slow // 2:]:
                    c.sendall(head)

                def dribble():
                    while not stop.wait(1):
                        for c in idle[a.slow // 2:]:
                            try:
                                c.sendall(b"x")
                            except OSError:
                                pass
                thread = threading.Thread(target=dribble, daemon=True)
                thread.start()
                rates[1].append(rate(a, texts))
                if name == "llmrun":
                    deaf = [Stream(a.port, "Once", 480, n=8, logprobs=20, temperature=1) for _ in range(2)]
                    until = time.monotonic() + 60
                    while paused(a.port) < 2:
                        if time.monotonic() > until:
                            sys.exit("streams that nobody reads are not paused")
                        time.sleep(0.05)
                    rates[2].append(rate(a, texts))
                    for s in deaf:
                        s.stop()
                stop.set()
                thread.join()
                for c in idle:
                    c.close()
        finally:
            end(server)
        ratios = ["%.3f (%.3f to %.3f)" % (at(r, 0.5), min(r), max(r)) for r in ([y / x for x, y in zip(rates[0], b)] for b in rates[1:]) if r]
        print("| %s | %.1f tokens/s | %s |" % (name, at(rates[0], 0.5), " | ".join(ratios + ["" for _ in range(2 - len(ratios))])), flush=True)


def main():
    p = argparse.ArgumentParser()
    for name, kind, default in (("llmrun", str, "./llmrun"), ("peers", str, ""), ("model", str, None), ("streams", int, 64), ("tokens", int, 64), ("least", int, 50),
                                ("most", int, 3000), ("rounds", int, 3), ("threads", int, 0), ("port", int, 18080), ("only", str, ""), ("long", int, 0), ("alone", int, 768), ("slow", int, 0), ("seconds", float, 3)):
        p.add_argument("--" + name, type=kind, default=default)
    a = p.parse_args()
    context = 2 * a.most + a.tokens + 64 if not a.long else 2 * a.long
    slots = a.streams + (1 if a.long else 16 if a.slow else 0)
    threads = ["-t", str(a.threads or os.cpu_count())]
    programs = {"llmrun": [a.llmrun, "-m", a.model, "--serve", str(a.port), "-np", str(slots), *([] if a.slow else ["-c", str(context)]), "-q", *threads]}
    if a.peers:
        programs["llama-server"] = [os.path.join(a.peers, "llama-server"), "-m", a.model, "--port", str(a.port), "-np", str(slots),
                                    "-c", str((512 if a.slow else context) * slots), *threads]
    programs = {name: c for name, c in programs.items() if not a.only or name == a.only}
    (long_prompt if a.long else slow_clients if a.slow else many)(a, programs)


if __name__ == "__main__":
    main()
