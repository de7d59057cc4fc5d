"""Many requests, some of them broken and some of whose clients leave: memory and descriptors of the server stay level.
    python3 tests/serve_soak.py ./llmrun --requests 10000"""
import json, os, random, socket, sys, threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kit

args, sys.argv = sys.argv, [sys.argv[0], sys.argv[1]]
import serve  # noqa: its server and its bodies

REQUESTS = int(args[args.index("--requests") + 1]) if "--requests" in args else 10000
BROKEN = [b"", b"GET / HTTP/9\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{\"a\"",
          b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /v1/models HTTP/1.1\r\n\r\n",
          b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"messages\":[]}"]


def state(pid):
    """Bytes in memory, and open descriptors."""
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/%d/fd" % pid))


def main():
    requests, rng = serve.bodies(200, 7), random.Random(3)
    with serve.Server(serve.PIP, "-np", "16", "--queue", "100000") as s:
        def one(i):
            path, body = requests[i % len(requests)]
            if i % 10 == 3:
                with socket.create_connection(("127.0.0.1", s.port), timeout=60 * kit.SLOW) as c:
                    c.sendall(BROKEN[i // 10 % len(BROKEN)])
            elif i % 10 == 7:
                serve.leave(s, path, body)
            elif i % 2:
                s.events(path, {**body, "max_tokens": 4, "stream": True})
            else:
                s.ok(path, {**body, "max_tokens": 4})
        rows = []
        for part in range(10):
            numbers = list(range(part * REQUESTS // 10, (part + 1) * REQUESTS // 10))
            rng.shuffle(numbers)
            serve.at_once(16, numbers, one)
            s.until(lambda: s.metric("requests_running") == 0 and s.metric("kv_blocks_used") == 0, "all have ended")
            rows.append(state(s.p.pid))
            print("%6d requests: %.1f MiB, %d descriptors" % (numbers and max(numbers) + 1, rows[-1][0] / 2 ** 20, rows[-1][1]), flush=True)
        (early, fds), (late, late_fds) = rows[2], rows[-1]
        ok = late <= early * 1.05 + (2 << 20) and late_fds <= fds + 2
        print("soak: %d requests, memory %+.1f MiB since the third tenth, descriptors %+d: %s" % (REQUESTS, (late - early) / 2 ** 20, late_fds - fds, "level" if ok else "GROWING"))
        return int(not ok)


if __name__ == "__main__":
    sys.exit(main())
