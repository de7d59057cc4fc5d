"""The server and clients that are hostile, broken or slow, on plain sockets: what is no request, what could be read in two ways, what ends early or never.
    python3 tests/serve_raw.py ./llmrun [WORD ...]"""
import http.client, json, os, random, re, select, socket, stat, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kit
import serve
from serve import BIN, LLAMA, TMP, Server
from kit import SLOW, begin, case, check, finish, same, short

kit.CASES.clear()                                        # those of serve.py, whose Server this suite uses
HOST = "Host: localhost\r\n"
BODY = json.dumps({"prompt": "a", "max_tokens": 3, "seed": 1, "ignore_eos": True})
GET = "GET /health HTTP/1.1\r\n" + HOST + "\r\n"


def post(body=BODY, path="/v1/completions", more="", length=None):
    return "POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (
        path, HOST, more, len(body) if length is None else length, body)


def chunked(pieces, more="", path="/v1/completions"):
    return "POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\n%sTransfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n" % (
        path, HOST, more, "".join("%x\r\n%s\r\n" % (len(p), p) for p in pieces))


def connect(s, receives=None):
    c = socket.socket()
    if receives:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    c.settimeout(60 * SLOW)
    c.connect(("127.0.0.1", s.port))
    return c


def read_all(c):
    """What comes up to the end of the connection. A connection that is reset has ended, too."""
    got = b""
    try:
        while part := c.recv(65536):
            got += part
    except ConnectionError:
        pass
    return got


def read_answer(c, rest=b""):
    """(status, fields, body, what follows) of one answer that has a length or chunks."""
    while b"\r\n\r\n" not in rest:
        part = c.recv(65536)
        check(part, "the connection ended: %r" % rest[-200:])
        rest += part
    head, _, rest = rest.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    check(re.fullmatch(r"HTTP/1\.1 \d\d\d [A-Za-z ]+", lines[0]), "no status line: %r" % lines[0])
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    status, body = int(lines[0][9:12]), b""

    def need(n):
        nonlocal rest
        while len(rest) < n:
            part = c.recv(65536)
            check(part, "the connection ended inside an answer")
            rest += part

    if "content-length" in fields:
        n = int(fields["content-length"])
        need(n)
        return status, fields, rest[:n], rest[n:]
    while fields.get("transfer-encoding") == "chunked":
        while b"\r\n" not in rest:
            need(len(rest) + 1)
        size, _, rest = rest.partition(b"\r\n")
        n = int(size, 16)
        need(n + 2)
        body, rest = body + rest[:n], rest[n + 2:]
        if not n:
            break
    return status, fields, body, rest


def alone(s, text):
    """All that the server says to these bytes, after which the client sends nothing and waits for the end."""
    c = connect(s)
    try:
        c.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
    except ConnectionError:
        pass
    got = read_all(c)
    c.close()
    return got


def descriptors(s):
    return len(os.listdir("/proc/%d/fd" % s.p.pid))


def steady(s, what):
    """No request is left of what was done before."""
    s.until(lambda: s.metric("requests_running") == 0 and s.metric("requests_waiting") == 0, what + ": requests are left")


def text_of(body):
    return json.loads(body)["choices"][0]["text"]


SMUGGLES = [
    # status, what is sent: something that two servers could read in two ways, and behind it a request that must not be answered
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Content-Length: 0, 44\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Content-Length: +0\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Content-Length : 0\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    (501, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    (501, "POST /v1/completions HTTP/1.1\r\n" + HOST + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.0\r\n" + HOST + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "X: y\r\n Content-Length: 44\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "X: y\rContent-Length: 44\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "X: y\nContent-Length: 44\r\n\r\n"),
    (400, "POST /v1/completions HTTP/1.1\r\n" + HOST + "X: \0\r\n\r\n"),
    (400, "GET /health HTTP/1.1\r\n" + HOST + HOST + "\r\n"),
    (400, "GET /health HTTP/1.1\r\n\r\n"),
    (400, "GET http://example.org/health HTTP/1.1\r\n" + HOST + "\r\n"),
    (400, "GET /health HTTP/1.1\n" + HOST + "\r\n"),
    (400, "GET /health\r\n\r\n"),
    (400, "GET /health HTTP/1.1\r\n" + HOST + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    (400, "GET /%00 HTTP/1.1\r\n" + HOST + "\r\n"),
    (400, "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"),
    (505, "GET /health HTTP/2.0\r\n" + HOST + "\r\n"),
    (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (501, "CONNECT localhost:80 HTTP/1.1\r\n" + HOST + "\r\n"),
    (501, "TRACE / HTTP/1.1\r\n" + HOST + "\r\n"),
    (414, "GET /" + "a" * 9000 + " HTTP/1.1\r\n" + HOST + "\r\n"),
    (431, "GET /health HTTP/1.1\r\n" + HOST + "X: y\r\n" * 200 + "\r\n"),
    (431, "GET /health HTTP/1.1\r\n" + HOST + "X: " + "y" * 70000 + "\r\n\r\n"),
    (413, post(length=17 << 20, body="")),
    (413, chunked([]).replace("0\r\n\r\n", "1100000\r\n")),
    (417, post(more="Expect: tea\r\n")),
    (400, chunked(["x"]).replace("1\r\nx", "1 \r\nx")),
    (400, chunked(["x"]).replace("1\r\nx", "0x1\r\nx")),
    (400, chunked(["x"]).replace("1\r\nx\r\n", "1\r\nxyz")),
]


@case
def smuggles():
    """What is no request, or could be read as two, has one answer, an error in the API's shape, and nothing behind it is read"""
    with Server(LLAMA) as s:
        for want, text in SMUGGLES:
            got = alone(s, text + GET)
            check(got.startswith(b"HTTP/1.1 %d " % want), "%r: %s" % (text[:120], short(got)))
            check(got.count(b"HTTP/1.1 ") == 1, "%r: more than one answer: %s" % (text[:120], short(got)))
            head, _, body = got.partition(b"\r\n\r\n")
            check(b"\r\nConnection: close" in head, "%r: the connection stays" % text[:120])
            error = json.loads(body)["error"]
            check(error["message"] and set(error) == {"message", "type", "param", "code"}, short(error))
        got = alone(s, post(path="/v1/messages", more="Content-Length: 1\r\n"))
        same(json.loads(got.partition(b"\r\n\r\n")[2])["type"], "error", "the shape of Anthropic's errors")


@case
def pieces():
    """A request that comes byte by byte, in chunks, or with others in one piece has the answer that it has alone"""
    with Server(LLAMA) as s:
        want = text_of(read_answer_of(s, post()))
        for text in (chunked([BODY]), chunked(list(BODY)), post(more="Expect: 100-continue\r\n"), post(path="http://localhost/v1/completions"),
                     post().replace("/v1/comp", "/%76%31/comp"), "\r\n" + post()):
            same(text_of(read_answer_of(s, text)), want, text[:60])
        c = connect(s)
        for byte in post().encode():
            c.sendall(bytes([byte]))
        same(text_of(read_answer(c)[2]), want, "byte by byte")
        c.sendall((post() + GET + chunked([BODY[:5], BODY[5:]]) + GET + "GET /v1/models HTTP/1.1\r\n" + HOST + "Connection: close\r\n\r\n" + GET).encode())
        rest, seen = b"", []
        for _ in range(5):
            status, fields, body, rest = read_answer(c, rest)
            seen.append((status, json.loads(body)))
        same([x for x, _ in seen], [200] * 5, "pipelined")
        same([seen[i][1]["choices"][0]["text"] for i in (0, 2)], [want, want], "pipelined texts")
        same([seen[i][1] for i in (1, 3)], [{"status": "ok"}] * 2, "pipelined, between them")
        same(rest + read_all(c), b"", "what follows Connection: close")
        c.close()


def read_answer_of(s, text):
    c = connect(s)
    c.sendall(text.encode())
    status, _, body, rest = read_answer(c)
    if status == 100:
        status, _, body, rest = read_answer(c, rest)
    c.close()
    check(status == 200 and not rest, "%d %s %r" % (status, short(body), rest))
    return body


@case
def old_clients():
    """HTTP/1.0: answers end with the connection, streams have no chunks, keep-alive where it is asked for"""
    with Server(LLAMA) as s:
        old = post().replace("HTTP/1.1", "HTTP/1.0")
        got = alone(s, old)
        check(b"Connection: close\r\n" in got and b"chunked" not in got, short(got))
        want = text_of(got.partition(b"\r\n\r\n")[2])
        stream = json.dumps({**json.loads(BODY), "stream": True})
        got = alone(s, post(stream).replace("HTTP/1.1", "HTTP/1.0"))
        head, _, body = got.partition(b"\r\n\r\n")
        check(b"Transfer-Encoding" not in head and body.endswith(b"data: [DONE]\n\n"), short(got))
        texts = [json.loads(x[6:])["choices"] for x in body.decode().split("\n\n") if x.startswith("data: {")]
        same("".join(x[0]["text"] for x in texts if x), want, "a stream")
        c = connect(s)
        for _ in range(2):
            c.sendall(post(more="Connection: keep-alive\r\n").replace("HTTP/1.1", "HTTP/1.0").encode())
            status, fields, body, _ = read_answer(c)
            same((status, fields["connection"], text_of(body)), (200, "keep-alive", want), "keep-alive")
        c.close()


class OverUnix(http.client.HTTPConnection):
    """A connection to a Unix socket: the kernel takes the same bytes of an answer that is not read, whatever the time."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60 * SLOW)
        self.path = path

    def connect(self):
        self.sock = connect_path(self.path)


def connect_path(path):
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(60 * SLOW)
    c.connect(path)
    return c


@case
def slow_clients():
    """Connections that send nothing, a byte now and then, half a request, or read nothing of their streams: others have the steps, tokens and texts that they have alone; a stream that nobody reads gets no more tokens, and is whole when it is read at last"""
    path = os.path.join(TMP, "slow")
    long = [("/v1/completions", {"prompt": "a", "max_tokens": 9000, "ignore_eos": True, "logprobs": 20, "seed": i}) for i in range(2)]
    want = serve.in_batch(LLAMA, long, "-c", "10000")
    with Server(LLAMA, "-c", "10000", "-np", "4", "-t", "1", "--stall", "1000000", "--no-lookup", where="unix:" + path) as s:
        s.connect = lambda: OverUnix(path)
        names = ["generated_tokens_total", "steps_total", "prompt_tokens_total"]

        def figures():
            text = s.ok("/metrics").decode()
            return [float(re.search("^llmrun_%s (.*)$" % name, text, re.M).group(1)) for name in names]

        def others(what):
            """Texts of some requests, one after the other; tokens, steps and tokens of prompts of theirs."""
            before, texts = figures(), []
            for i in range(8):
                body = {"prompt": "abcdefgh"[i], "max_tokens": 5 + i, "seed": i, "temperature": 1, "ignore_eos": True}
                texts.append(s.ok("/v1/completions", body)["choices"][0]["text"])
            s.until(lambda: figures()[0] - before[0] >= sum(range(5, 13)), what + ": the tokens are counted")
            s.until(lambda: figures()[1] - before[1] >= (alone[1][1] if alone else 1), what + ": the steps are counted")
            return texts, [a - b for a, b in zip(figures(), before)]

        alone = None
        others("the first time")                         # beginnings of prompts are in the cache from here on
        alone = others("alone")
        same(alone[1][:2], [68.0, 68.0], "tokens, and a step for each")
        idle, stop = [connect_path(path) for _ in range(40)], threading.Event()
        for i, c in enumerate(idle[20:]):
            c.sendall(post()[:len(post()) * i // 20].encode())

        def dribble():
            at = 0
            while not stop.wait(0.01):
                for c in idle[:10]:
                    c.sendall((post()[:48] + "X" * 60000)[at:at + 1].encode())
                at += 1

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            same(others("slow senders"), alone, "beside slow senders")
            readers = [connect_path(path) for _ in long]
            for c, (to, body) in zip(readers, long):
                c.sendall(post(json.dumps({**body, "stream": True}), path=to).encode())
            s.until(lambda: s.metric("requests_paused") == 2, "both streams wait for their readers")
            made = figures()[0] - 3 * alone[1][0]
            check(made < 16000, "%d tokens were made for readers that read nothing" % made)
            for _ in range(2):
                same(others("slow readers"), alone, "beside slow readers")
            same(s.metric("requests_paused"), 2.0, "they still wait")
            for c, w in zip(readers, want):
                status, _, body, _ = read_answer(c)
                got = serve.joined(serve.chunks(serve.parse(body)), False)
                same((status, got), (200, serve.whole(w.body["choices"], False)), "a stream that is read late")
        finally:
            stop.set()
            thread.join()
        for c in idle + readers:
            c.close()
        steady(s, "slow clients")


@case
def half_open():
    """A client that closes its side before its answer is whole has gone: its sequence is freed, and the next client is answered"""
    with Server(LLAMA, "-np", "1") as s:
        long = json.dumps({"prompt": "a", "max_tokens": 100000, "ignore_eos": True, "stream": True})
        for how in (socket.SHUT_WR, socket.SHUT_RDWR, None):
            before = s.metric('requests_total{outcome="left"}')
            c = connect(s)
            c.sendall(post(long).encode())
            read_some = c.recv(100)
            check(read_some.startswith(b"HTTP/1.1 200"), short(read_some))
            if how is None:
                c.close()
            else:
                c.shutdown(how)
            s.until(lambda: s.metric('requests_total{outcome="left"}') > before, "the client has left")
            steady(s, "a client that closed its side")
            check(read_answer_of(s, post()), "the next client")


@case
def places():
    """With all connections taken by clients that send nothing, another one gets a place within seconds"""
    with Server(LLAMA, "--connections", "4") as s:
        idle = [connect(s) for _ in range(4)]
        idle[0].sendall(post()[:30].encode())
        check(read_answer_of(s, post()), "a client beside them")
        closed = select.select(idle, [], [], 60 * SLOW)[0]
        same([c.recv(100) for c in closed], [b""] * len(closed), "what those get that made space")
        for c in idle:
            c.close()


@case
def noise():
    """Requests changed at random: every answer is one, the server lives, and no descriptor and no request is left"""
    with Server(LLAMA, "--max-body", "10K") as s:
        check(read_answer_of(s, post()), "before")
        steady(s, "before")
        time.sleep(0.1)
        r, before = random.Random(7), descriptors(s)
        good = [post(), chunked([BODY]), GET, post(path="/v1/chat/completions", body='{"messages":[{"role":"user","content":"a"}],"max_tokens":2}'),
                post(path="/tokenize", body='{"content":"a b"}'), post(more="Expect: 100-continue\r\n")]
        parts = ["\r\n", "\0", "\n", ":", " ", "chunked", "Content-Length: 5\r\n", "0\r\n\r\n", "\xff", "%", "HTTP/1.1", "{", '"', "9" * 30]
        for i in range(60 if kit.sanitized() else 300):
            text = "".join(r.choice(good) for _ in range(r.randint(1, 3)))
            for _ in range(r.randint(0, 4)):
                at, n = r.randrange(len(text)), r.choice((0, 1, 1, 5, 50))
                text = text[:at] + r.choice(parts) * r.randint(0, 2) + text[at + n:]
            c = connect(s)
            try:
                c.sendall(text.encode("latin-1"))
                if r.random() < 0.3:
                    c.close()
                    continue
                c.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            got = read_all(c)
            c.close()
            check(not got or re.match(rb"HTTP/1\.1 [1-5]\d\d ", got), "%r: %s" % (text[:200], short(got)))
        steady(s, "after noise")
        check(read_answer_of(s, post()), "after")
        s.until(lambda: descriptors(s) <= before + 1, "descriptors: %d before, %d after" % (before, descriptors(s)))


@case
def unix():
    """A Unix socket: mode 0600, a stale one is replaced, a live one and a file are left alone, and it goes with the server"""
    path = os.path.join(TMP, "s")

    def ask():
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(60 * SLOW)
        c.connect(path)
        c.sendall(GET.encode())
        return read_answer(c)[0]

    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()
    with Server(LLAMA, where="unix:" + path):
        same(ask(), 200, "health")
        same(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode")
        r = finish(begin([BIN, "-m", LLAMA, "--serve", "unix:" + path]))
        check(r.rc == 2 and b"another server listens there" in r.err, repr(r))
        same(ask(), 200, "health, after another server was refused")
    check(not os.path.exists(path), "the socket is left")
    with open(path, "w") as f:
        f.write("mine")
    r = finish(begin([BIN, "-m", LLAMA, "--serve", "unix:" + path]))
    check(r.rc == 2 and b"is no socket" in r.err, repr(r))
    with open(path) as f:
        same(f.read(), "mine", "the file")


@case
def uploads():
    """An upload waits in the folder and not in memory, and is whole; of one whose client leaves nothing stays"""
    folder = os.path.join(TMP, "uploads")

    def own():
        with open("/proc/%d/status" % s.p.pid) as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1)) << 10

    def waiting():
        """Bodies in files that have no name."""
        fds, n = "/proc/%d/fd" % s.p.pid, 0
        for fd in os.listdir(fds):
            try:
                n += os.readlink(os.path.join(fds, fd)).endswith(".form.tmp (deleted)")
            except FileNotFoundError:
                pass
        return n

    with Server(LLAMA, "--files", folder, "--max-body", "64M") as s:
        data = b"".join(b'{"line":%d,"x":"%s"}\n' % (i, b"y" * 1000) for i in range(40000))
        form = (b"--X\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--X\r\nContent-Disposition: form-data; name=\"file\"; "
                b"filename=\"a\"\r\n\r\n" + data + b"\r\n--X--\r\n")
        head = b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=X\r\nContent-Length: %d\r\n\r\n" % len(form)
        serve.upload(s, "small", b"{}\n")
        before, had = own(), len(os.listdir(folder))
        cut = connect(s)
        cut.sendall(head + form[:len(form) // 2])
        whole = connect(s)
        whole.sendall(head + form[:-1])
        same(waiting(), 2, "bodies in files")
        if not kit.sanitized():
            check(own() - before < 4 << 20, "%d bytes more in memory for two bodies of %d" % (own() - before, len(form)))
        whole.sendall(form[-1:])
        status, _, body, _ = read_answer(whole)
        same((status, json.loads(body)["bytes"]), (200, len(data)), "the file")
        check(s.send("/v1/files/%s/content" % json.loads(body)["id"])[2] == data, "its bytes")
        cut.close()
        whole.close()
        s.until(lambda: len(os.listdir(folder)) == had + 2, "files: %r" % os.listdir(folder))
        s.until(lambda: waiting() == 0, "no body is left that nobody sends any more")


def kill(s):
    s.p.kill()
    s.p.wait()
    s.reader.join(5)
    for f in (s.p.stdout, s.p.stderr):
        f.close()


@case
def killed():
    """A server that is killed again and again while it answers a batch loses nothing and answers no line twice; the texts are those of --batch"""
    folder, r = os.path.join(TMP, "killed"), random.Random(3)
    lines = [{"custom_id": "line %d" % i, "method": "POST", "url": "/v1/completions",
              "body": {"prompt": "abc"[:1 + i % 3], "max_tokens": 5 + i % 30, "seed": i, "ignore_eos": True}} for i in range(60)]
    lines[7]["body"] = {"prompt": 7}
    args = ("--files", folder, "-np", "4")
    s = Server(LLAMA, *args)
    name = serve.upload(s, "in.jsonl", kit.jsonl(lines))["id"]
    batch = s.ok("/v1/batches", {"input_file_id": name, "endpoint": "/v1/completions", "completion_window": "24h"})["id"]
    kill(s)
    kills, state = 0, "validating"
    while state != "completed" and kills < 12:
        s = Server(LLAMA, *args)
        end = time.time() + 0.1 * r.random()
        while (state := s.ok("/v1/batches/" + batch)["status"]) != "completed" and time.time() < end:
            pass
        kill(s)
        kills += 1
    with Server(LLAMA, *args) as s:
        s.until(lambda: s.ok("/v1/batches/" + batch)["status"] == "completed", "the batch is completed")
        state = s.ok("/v1/batches/" + batch)
        same(state["request_counts"], {"total": 60, "completed": 59, "failed": 1}, "counts")
        good, bad = (kit.records(s.send("/v1/files/%s/content" % state[k])[2]) for k in ("output_file_id", "error_file_id"))
    same(sorted(good) + sorted(bad), [i for i in range(1, 61) if i != 8] + [8], "lines")
    with open(os.path.join(TMP, "killed.jsonl"), "wb") as f:
        f.write(kit.jsonl(lines))
    want = kit.records(finish(begin([BIN, "-m", LLAMA, "--batch", f.name, "-q"])).out)
    same({no: x.texts() for no, x in good.items()}, {no: x.texts() for no, x in want.items() if no != 8}, "texts")
    same(bad[8].error, want[8].error, "the error")
    for f in os.listdir(folder):
        same(stat.S_IMODE(os.stat(os.path.join(folder, f)).st_mode), 0o600, f)
        check(not f.endswith(".tmp"), f)


@case
def forms():
    """Uploads that are no forms, or come from a page of another server, are refused; those of this server's own are not"""
    form = ("--X\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
            "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{}\r\n--X--\r\n")
    rows = [(200, "multipart/form-data; boundary=X", form, {}),
            (200, "multipart/form-data; boundary=X", form, {"Origin": "http://HOST"}),
            (403, "multipart/form-data; boundary=X", form, {"Origin": "http://example.org"}),
            (403, "multipart/form-data; boundary=X", form, {"Origin": "null"}),
            (415, "application/json", "{}", {}),
            (400, "multipart/form-data; boundary=Y", form, {}),
            (400, "multipart/form-data; boundary=X", form[:-10], {}),
            (400, "multipart/form-data; boundary=X", form.replace("purpose", "file"), {}),
            (507, "multipart/form-data; boundary=X", form.replace("{}", "x" * 50000), {})]
    with Server(LLAMA, "--files", os.path.join(TMP, "forms"), "--files-max", "40K") as s:
        for want, kind, body, more in rows:
            more = {k: v.replace("HOST", "127.0.0.1:%d" % s.port) for k, v in more.items()}
            status, _, answer = s.send("/v1/files", body.encode(), headers={"Content-Type": kind, **more})
            check(status == want, "%s %s: %d %s, want %d" % (kind, more, status, short(answer), want))
        status, _, answer = s.send("/v1/batches", b"{}", headers={"Content-Type": "text/plain"})
        same(status, 415, "a batch that a page sends as text")
        same(len(s.ok("/v1/files")["data"]), 2, "files")


if __name__ == "__main__":
    sys.exit(kit.walk("serve_raw", serve.ARGS.words, TMP))
