"""The server's page in a browser: chromium without a window, driven over its debugging pipe, against a server of this script that says what a case wants.
    python3 tests/serve_page.py src/page.c [WORD ...]
Skipped where no chromium is installed (Debian: chromium). With --program ./llmrun one more case talks to a real server."""
import http.server, json, os, re, shutil, subprocess, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
PROGRAM = None
if "--program" in sys.argv:
    at = sys.argv.index("--program")
    PROGRAM = sys.argv[at + 1]
    del sys.argv[at:at + 2]
import kit
import page
from kit import Skip, SLOW, case, check, same

ARGS = kit.arguments("source")
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TMP, tmp, put = kit.scratch("page")
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Browser:
    """One page. Commands and answers are JSON, each ended by a NUL."""

    def __init__(self):
        if not CHROMIUM:
            raise Skip("no chromium")
        to, write = os.pipe()
        read, back = os.pipe()
        self.p = subprocess.Popen(["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to, back), "sh", CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                                   "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir=" + tmp("profile"), "about:blank"],
                                  pass_fds=(to, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(to), os.close(back)
        self.write, self.read, self.rest, self.n, self.session, self.said = write, os.fdopen(read, "rb", 0), b"", 0, None, []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log":
            self(domain + ".enable")

    def __call__(self, method, **params):
        self.n += 1
        ask = {"id": self.n, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.write, json.dumps(ask).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = self.read.read(65536)
                check(part, "the browser has ended")
                self.rest += part
            one, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.n:
                check("error" not in answer, "%s: %r" % (method, answer.get("error")))
                return answer["result"]
            if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown") and answer["params"].get("entry", {}).get("level") != "verbose":
                self.said.append(answer["params"])

    def run(self, code):
        r = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        check("exceptionDetails" not in r, "%s: %r" % (code, r.get("exceptionDetails")))
        return r["result"].get("value")

    def until(self, code, what):
        end = time.time() + 30 * SLOW
        while not self.run(code):
            check(time.time() < end, "not within 30 s: " + what)
            time.sleep(0.02)

    def open(self, url):
        self("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href.startsWith(%s)" % json.dumps(url), "the page")

    def say(self, text):
        self.run("document.getElementById('text').value = %s; document.getElementById('form').requestSubmit()" % json.dumps(text))

    def articles(self):
        return self.run("[...document.querySelectorAll('article')].map(a => [a.className, a.textContent])")

    def close(self):
        self.p.terminate()
        self.p.wait(30 * SLOW)
        os.close(self.write), self.read.close()


class Fake:
    """A server of the page, which answers a chat with these pieces: texts, (thinking,), an error as a dict; None: it waits until the client has gone."""

    def __init__(self, *pieces, status=200):
        fake, source = self, open(ARGS.source, encoding="utf-8").read()
        fake.bodies, fake.left, fake.pieces, fake.status = [], threading.Event(), pieces, status
        html, fields = page.literal(source, "page_html").encode(), page.literal(source, "page_fields")

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, kind, body, more=""):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                for line in more.split("\r\n")[:-1]:
                    self.send_header(*line.split(": ", 1))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if self.path == "/":
                    self.answer(200, "text/html; charset=utf-8", html, fields)
                else:
                    self.answer(200, "application/json", b'{"data":[{"id":"a <b>model</b>"}]}')

            def do_POST(self):
                fake.bodies.append((self.path, dict(self.headers), json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                if fake.status != 200:
                    return self.answer(fake.status, "application/json", b'{"error":{"message":"no <i>such</i> thing"}}')
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                put = lambda o: (self.wfile.write(("data: %s\n\n" % json.dumps(o)).encode()), self.wfile.flush())
                try:
                    self.wfile.write(b": reading\n\n")
                    put({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
                    for piece in fake.pieces:
                        while piece is None:
                            self.wfile.write(b": reading\n\n")
                            self.wfile.flush()
                            time.sleep(0.05)
                        put(piece if isinstance(piece, dict) else {"choices": [{"index": 0, "delta": {"reasoning_content": piece[0]} if isinstance(piece, tuple) else {"content": piece}}]})
                    put({"choices": [], "usage": {"completion_tokens": 3}})
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    fake.left.set()

        self.s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.s.daemon_threads = True
        threading.Thread(target=self.s.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d/" % self.s.server_port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.shutdown()
        self.s.server_close()


BROWSER = []


def browser():
    if not BROWSER:
        BROWSER.append(Browser())
    BROWSER[0].said.clear()
    return BROWSER[0]


STATE = "document.getElementById('state').textContent"


@case
def policy():
    """the policy names what is in the page, which is small and loads nothing"""
    same(page.faults(open(ARGS.source, encoding="utf-8").read()), [], "faults")


@case
def conversation():
    """texts come as they are, thinking in a fold, the second turn has the first, settings and the key go along"""
    b = browser()
    with Fake(("Hm <b>",), "A <b>bold</b>", " & \u00e9\n", "end") as f:
        b.open(f.url)
        b.until("document.getElementById('model').textContent !== 'llmrun'", "the model's name")
        same(b.run("document.getElementById('model').textContent + document.title"), "a <b>model</b>" * 2, "name")
        b.run("document.getElementById('temperature').value = '0.5'; document.getElementById('seed').value = '7';"
              "document.getElementById('system').value = 'Be short.'; document.getElementById('key').value = 'secret'")
        b.say("Hi <script>alert(1)</script>")
        b.until(STATE + ".includes('3 tokens')", "the end")
        same(b.articles(), [["user", "Hi <script>alert(1)</script>"], ["assistant", "ThinkingHm <b>A <b>bold</b> & \u00e9\nend"]], "articles")
        same(b.run("[document.querySelectorAll('article b, article script').length, document.querySelectorAll('article details').length]"), [0, 1], "elements")
        b.say("More")
        b.until("document.querySelectorAll('article').length === 4 && %s.includes('3 tokens')" % STATE, "the second end")
        path, headers, body = f.bodies[1]
        same((path, headers["Authorization"]), ("/v1/chat/completions", "Bearer secret"), "head")
        same({k: v for k, v in body.items() if k != "messages"}, {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0.5, "seed": 7}, "settings")
        same([(m["role"], m["content"]) for m in body["messages"]], [("system", "Be short."), ("user", "Hi <script>alert(1)</script>"), ("assistant", "A <b>bold</b> & \u00e9\nend"),
                                                                 ("user", "More")], "messages")
        b.run("document.getElementById('clear').click()")
        same(b.articles(), [], "after New")
    same(b.said, [], "messages of the browser")


@case
def stop():
    """Stop ends the request, what came stays, and the next turn has it"""
    b = browser()
    with Fake("Some", None) as f:
        b.open(f.url)
        b.say("Hi")
        b.until("document.querySelectorAll('article').length === 2", "the first piece")
        same(b.run("document.getElementById('send').textContent"), "Stop", "the button")
        b.run("document.getElementById('send').click()")
        b.until(STATE + " === 'stopped'", "the stop")
        check(f.left.wait(30 * SLOW), "the server does not see that the client left")
        same((b.run("document.getElementById('send').textContent"), b.articles()[-1]), ("Send", ["assistant", "Some"]), "after it")
        f.pieces = ("Again",)
        b.say("More")
        b.until(STATE + ".includes('3 tokens')", "the end")
        same([m["content"] for m in f.bodies[1][2]["messages"]], ["Hi", "Some", "More"], "messages")
    same(b.said, [], "messages of the browser")


@case
def errors():
    """an error is shown as text, before the stream and inside of it, and the message can be sent again"""
    b = browser()
    with Fake(status=400) as f:
        b.open(f.url)
        b.say("Hi")
        b.until("!!document.querySelector('article.error')", "the error")
        same((b.articles()[-1], b.run("document.getElementById('text').value")), (["error", "no <i>such</i> thing"], "Hi"), "refused")
    with Fake("A", {"error": {"message": "out of room"}}) as f:
        b.open(f.url)
        b.say("Hi")
        b.until("!!document.querySelector('article.error')", "the error")
        same(b.articles()[1:], [["assistant", "A"], ["error", "out of room"]], "in the stream")


@case
def real_server():
    """the page of a real server, and an answer of its model"""
    if not PROGRAM:
        raise Skip("no --program")
    b = browser()
    p = kit.begin([PROGRAM, "-m", os.path.join(HERE, "models", "pip-q4_k_m.gguf"), "--serve", "0"])
    try:
        url = re.match(rb"llmrun: listening on (\S+)", p.stderr.readline()).group(1).decode() + "/"
        b.open(url)
        b.say("Who are you?")
        b.until(STATE + ".includes('tokens/s')", "an answer")
        check(len(b.articles()) == 2 and b.articles()[1][1], "%r" % b.articles())
    finally:
        p.terminate()
        same(p.wait(30 * SLOW), 0, "exit code")
    same(b.said, [], "messages of the browser")


def end():
    for b in BROWSER:
        b.close()


if __name__ == "__main__":
    sys.exit(kit.walk("serve_page", ARGS.words, TMP, end))
