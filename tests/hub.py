#!/usr/bin/env python3
"""Models by name: downloads from a hub, its cache, models that are here.

    python3 tests/hub.py ./llmrun [WORD ...]     cases whose name holds a word, else all

The hub is a server of this script, with a second one for what it redirects to. Both do what a case tells them: they drop connections, lie, redirect, are slow.
What must hold whatever they do: a file that is not the one of the list is never called a model. Nothing here reaches another machine. The case `oracle` compares
the cache with Hugging Face's own package (huggingface_hub of PyPI), where that is installed.
"""
import hashlib, http.server, json, os, re, resource, shutil, signal, socket, socketserver, ssl, subprocess, sys, tempfile, threading, time, urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checkpoint
import hostile
import kit
from kit import SLOW, Skip, begin, case, check, finish, one_line, read, refused, same

ARGS = kit.arguments("llmrun")
BIN, HERE = os.path.abspath(ARGS.llmrun), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TMP, tmp, put = kit.scratch("hub")
DATA = os.path.join(HERE, "tests", "data", "tiny")
MODEL, OTHER = read(os.path.join(DATA, "llama.gguf")), read(os.path.join(DATA, "qwen2.gguf"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_" + "t" * 34
REPO = "some.owner/A_model-GGUF"
FOLDER = "models--some.owner--A_model-GGUF"
SAYS = ("-p", "Once upon", "--raw", "-n", "4", "--temp", "0", "-t", "1")
PLAIN_ENV = {k: v for k, v in kit.ENV.items() if not k.startswith(("HF_", "HUGGING", "XDG_", "SSL_", "CURL_", "REQUESTS_")) and not k.lower().endswith("_proxy")}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def git(data):
    """The name that git gives a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def log_message(self, *args):
        pass

    def do_GET(self):
        hub = self.server.hub
        with hub.lock:
            hub.seen.append((self.server.name, self.command, self.path, dict(self.headers)))
        try:
            hub.answer(self)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_HEAD = do_GET

    def say(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in fields:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):            # a client that ends a connection is no error of this suite
        pass


class Hub:
    """A hub on a free port, and the host to which it redirects. Its attributes say what it does."""

    def __init__(self, files=None, tls=None):
        self.files = {"model-Q4_K_M.gguf": MODEL} if files is None else files
        self.commit, self.token, self.seen, self.lock = COMMIT, None, [], threading.Lock()
        self.small = set()                               # files that git has itself: named by SHA-1, sent by the hub
        self.listed = None                               # entries of the list in place of those of the files
        self.page = 1000                                 # entries of a page
        self.next_to = "here"                            # where the next page is: here, relative, other
        self.redirect = "other"                          # how a file is sent: other (302 to the other host), relative (307), none
        self.status = {}                                 # the beginning of a path: (status, fields) in place of an answer
        self.drops = []                                  # of each answer in turn: bytes after which the connection ends
        self.ranges = True                               # False: ranges are ignored
        self.sends = None                                # what is sent in place of a file
        self.lies = {}                                   # the same by the name of the file
        self.slow = 0                                    # seconds between pieces of 4096 bytes
        self.fields = None                               # a function that changes the fields of a file's answer
        self.sent = 0                                    # bytes of files that were sent
        self.servers = {}
        for name in "hub", "other":
            s = Threads(("127.0.0.1", 0), Handler)
            if tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*tls)
                s.socket = context.wrap_socket(s.socket, server_side=True)
            s.hub, s.name = self, name
            threading.Thread(target=s.serve_forever, args=(0.02,), daemon=True).start()
            self.servers[name] = s
        self.scheme = "https" if tls else "http"
        self.url = {name: "%s://127.0.0.1:%d" % (self.scheme, s.server_address[1]) for name, s in self.servers.items()}

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        for s in self.servers.values():
            s.shutdown()
            s.server_close()

    def entries(self):
        if self.listed is not None:
            return self.listed
        rows = [{"type": "directory", "oid": "1" * 40, "size": 0, "path": "folder"}]
        for path, data in self.files.items():
            row = {"type": "file", "oid": git(data) if path in self.small else "2" * 40, "size": len(data), "path": path}
            rows.append(row if path in self.small else dict(row, lfs={"oid": sha(data), "size": len(data), "pointerSize": 135}))
        return rows + [{"type": "file", "oid": "3" * 40, "size": 11, "path": ".gitattributes"}]

    def answer(self, h):
        path, _, query = h.path.partition("?")
        for begins, (status, fields) in self.status.items():
            if path.startswith(begins):
                return h.say(status, b'{"error":"no"}', **fields)
        if self.token and h.server.name == "hub" and h.headers.get("Authorization") != "Bearer " + self.token:
            return h.say(401, b'{"error":"Invalid username or password."}')
        if path.startswith("/api/models/"):
            return self.list(h, path, urllib.parse.parse_qs(query))
        m = re.match(r"/[^/]+/[^/]+/resolve/main/(.*)$", path)
        name = urllib.parse.unquote(m.group(1) if m else path.partition("/bytes/")[2])
        if name not in self.files:
            return h.say(404, b'{"error":"Entry not found"}', **({"X_Repo_Commit": self.commit} if m else {}))
        data, small = self.files[name], name in self.small
        if m and self.redirect != "none":
            to = "/bytes/" + urllib.parse.quote(name)
            status, to = (302, self.url["other"] + to + "?signature=1") if self.redirect == "other" and not small else (307, to)
            return h.say(status, b"Redirecting", Location=to, X_Repo_Commit=self.commit, X_Linked_Etag='"%s"' % (git(data) if small else sha(data)),
                         X_Linked_Size=str(len(data)))
        fields = {"X_Repo_Commit": self.commit} if m or small else {}
        self.file(h, self.lies.get(name, data), dict(fields, ETag='"%s"' % git(data)) if small else fields)

    def list(self, h, path, query):
        rows, at = self.entries(), int(query.get("cursor", ["0"])[0])
        if isinstance(rows, bytes):
            return h.say(200, rows, Content_Type="application/json")
        fields = {"Content_Type": "application/json"}
        if at + self.page < len(rows):
            to = "%s?recursive=true&cursor=%d" % (path, at + self.page)
            to = {"here": self.url["hub"] + to, "other": self.url["other"] + to, "relative": to}[self.next_to]
            fields["Link"] = '<%s>; rel="next"' % to
        h.say(200, json.dumps(rows[at:at + self.page]).encode(), **fields)

    def file(self, h, data, fields):
        data = data if self.sends is None else self.sends
        m = re.match(r"bytes=(\d+)-$", h.headers.get("Range", "")) if self.ranges else None
        first = int(m.group(1)) if m else 0
        if first and first >= len(data):
            return h.say(416, b"", Content_Range="bytes */%d" % len(data))
        body = data[first:]
        if m:
            fields["Content_Range"] = "bytes %d-%d/%d" % (first, len(data) - 1, len(data))
        fields["Content_Length"] = str(len(body))
        if self.fields:
            self.fields(fields, first)
        h.send_response(206 if m else 200)
        for name, value in fields.items():
            h.send_header(name.replace("_", "-"), value)
        h.end_headers()
        if h.command == "HEAD":
            return
        with self.lock:
            most = self.drops.pop(0) if self.drops else len(body)
        for at in range(0, min(most, len(body)), 4096):
            piece = body[at:min(at + 4096, most)]
            with self.lock:
                self.sent += len(piece)                  # before the client has it, which may end then
            h.wfile.write(piece)
            if self.slow:
                h.wfile.flush()
                time.sleep(self.slow)
        if most < len(body) or int(fields["Content_Length"]) != len(body):
            h.close_connection = True

    def asked(self, server=None):
        """(method, path, fields) of what was asked of a server."""
        return [(m, p, f) for s, m, p, f in self.seen if server in (None, s)]


class Home:
    """A new folder for HF_HOME."""

    def __init__(self):
        self.path = tempfile.mkdtemp(dir=TMP)
        self.hub = os.path.join(self.path, "hub")
        self.repo = os.path.join(self.hub, FOLDER)

    def env(self, hub=None, **more):
        own = {"HOME": self.path, "HF_HOME": self.path, "HF_ENDPOINT": hub.url["hub"] if hub else "http://127.0.0.1:9", "HF_HUB_DOWNLOAD_TIMEOUT": "5"}
        return {**PLAIN_ENV, **own, **more}

    def begin(self, hub, *args, env=None, **kw):
        return begin([BIN, *args], env=self.env(hub, **(env or {})), **kw)

    def run(self, hub, *args, env=None, **kw):
        return finish(self.begin(hub, *args, env=env, **kw))

    def blob(self, data, more=""):
        return os.path.join(self.repo, "blobs", sha(data) + more)

    def link(self, name="model-Q4_K_M.gguf", commit=COMMIT):
        return os.path.join(self.repo, "snapshots", commit, name)

    def ref(self):
        return read(os.path.join(self.repo, "refs", "main")).decode()

    def stored(self, data):
        """The name of the blob of a small file."""
        return os.path.join(self.repo, "blobs", git(data))

    def named(self):
        """{path in a snapshot: bytes} of what is called a file of a model."""
        found = {}
        for folder, _, names in os.walk(os.path.join(self.repo, "snapshots")):
            for name in names:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, os.path.join(self.repo, "snapshots")).partition("/")[2]] = read(path)
        return found

    def blobs(self):
        folder = os.path.join(self.repo, "blobs")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def library():
    """A case that downloads is skipped where libcurl is missing."""
    out = finish(begin([BIN, "--version"], env=PLAIN_ENV)).out.decode()
    m = re.search(r"^libcurl +(.*)$", out, re.M)
    check(m, "--version says nothing of libcurl: %r" % out)
    if not m.group(1).startswith("libcurl/"):
        raise Skip("no libcurl here: " + m.group(1))


def download(f):
    def run():
        library()
        f()
    run.__name__, run.__doc__ = f.__name__, f.__doc__
    return case(run)


def text_of(model):
    put("text.gguf", model)
    r = finish(begin([BIN, "-q", "-m", tmp("text.gguf"), *SAYS], env=PLAIN_ENV))
    check(r.rc == 0, repr(r))
    return r.out


def good(r, model=MODEL):
    """The run has answered with this model."""
    check(r.rc == 0, repr(r))
    same(r.out, text_of(model), "text")


def whole(home, model=MODEL, name="model-Q4_K_M.gguf", commit=COMMIT):
    """The cache has the model under its name, as Hugging Face's tools write it, and nothing is left beside it."""
    same(read(home.link(name, commit)), model, "the file of the snapshot")
    same(os.readlink(home.link(name, commit)), "../" * name.count("/") + "../../blobs/" + sha(model), "the link")
    same(home.ref(), commit, "refs/main")
    check(not [b for b in home.blobs() if len(b) not in (40, 64)], "left behind: %r" % home.blobs())


def nothing_wrong(home, *models):
    """Whatever has a name is one of these models."""
    for name, data in home.named().items():
        check(data in models, "%s is wrong" % name)
    for b in home.blobs():
        name = {40: git, 64: sha}.get(len(b), lambda data: b)
        check(name(read(os.path.join(home.repo, "blobs", b))) == b, "blob %s is wrong" % b)


def fails(r, rc, word, home, *models):
    check(r.rc == rc, "want exit %d, got %r" % (rc, r))
    check(one_line(r.err.splitlines(True)[-1]) and re.search(word.encode(), r.err), "want %r in %r" % (word, r.err))
    same(r.out, b"", "stdout")
    nothing_wrong(home, *models)


@download
def once():
    """A model is downloaded once, runs, and runs again without a request; the cache has the layout of Hugging Face's tools."""
    home = Home()
    with Hub() as hub:
        r = home.run(hub, "-hf", REPO, *SAYS)
        good(r)
        check(b"downloads model-Q4_K_M.gguf" in r.err, repr(r))
        whole(home)
        paths = [p for _, p, _ in hub.asked("hub")]
        same(paths, ["/api/models/%s/tree/main?recursive=true" % REPO, "/%s/resolve/main/model-Q4_K_M.gguf" % REPO], "requests")
        same(hub.sent, len(MODEL), "bytes")
        n = len(hub.seen)
        for args in (("-hf", REPO), ("-hf", REPO + ":Q4_K_M"), ("-hf", REPO + ":q4_k_m"), ("-m", "hf:" + REPO), ("-m", REPO), ("-m", REPO + ":Q4_K_M"),
                     ("-hf", "https://huggingface.co/" + REPO), ("-hf", "hf.co/" + REPO + ":Q4_K_M"), ("-hf", REPO + ":model-Q4_K_M.gguf"),
                     ("--hf-repo", REPO, "--hf-file", "model-Q4_K_M.gguf"), ("-m", "hf:" + REPO + ":Q4_K_M", "--offline")):
            r = home.run(hub, "-q", *args, *SAYS)
            good(r)
            same(r.err, b"", "stderr")
        same(len(hub.seen), n, "requests of runs from the cache")


@download
def quiet():
    """-q downloads without a word; without it two lines say what is downloaded."""
    with Hub() as hub:
        home = Home()
        same(home.run(hub, "-q", "-hf", REPO, *SAYS).err, b"", "stderr under -q")
        r = Home().run(hub, "-hf", REPO, *SAYS)
        check(b"\r" not in r.err and b"\x1b" not in r.err, "a progress line where there is no terminal: %r" % r.err)


@download
def order():
    """OWNER/NAME is the first of Q4_K_M, Q4_0, Q5_K_M, Q6_K, Q8_0, F16 that exists, else the models that exist are the error."""
    usual = ["Q4_K_M", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "F16"]
    for i in range(len(usual)):
        home = Home()
        files = {"a.b-%s.gguf" % q: MODEL if q == usual[i] else OTHER for q in reversed(usual[i:])}
        files.update({"mmproj-a.b-Q4_K_M.gguf": OTHER, "BF16/a.b-BF16.gguf": OTHER, "a.b-Q4_K_S.gguf": OTHER, "imatrix-Q4_K_M.gguf": OTHER, "a.b-Q4_0_4_4.gguf": OTHER})
        with Hub(files) as hub:
            good(home.run(hub, "-hf", REPO, *SAYS))
            same(list(home.named()), ["a.b-%s.gguf" % usual[i]], "downloaded")
    with Hub({"a-Q3_K_S.gguf": MODEL, "sub/b.gguf": MODEL, "mmproj-a-F16.gguf": OTHER}) as hub:
        home = Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 2, "one of Q3_K_S, sub/b.gguf$", home)
        fails(home.run(hub, "-hf", REPO + ":Q4_K_M", *SAYS), 2, "no model Q4_K_M, expected one of Q3_K_S, sub/b.gguf$", home)
        good(home.run(hub, "-hf", REPO + ":b.gguf", *SAYS))
        same(list(home.named()), ["sub/b.gguf"], "downloaded")
    with Hub({"model.safetensors": MODEL}) as hub:
        fails(Home().run(hub, "-hf", REPO, *SAYS), 2, "neither a GGUF file nor config.json, a tokenizer and safetensors among its 2 files", Home())


@download
def files():
    """A file by its path, a quant in a folder's name, names that a URL escapes; two files of one name are refused."""
    odd = "Fold er/mod\u00e9l #1%2B?-Q8_0.gguf"
    with Hub({odd: MODEL, "Q6_K/x-00001-of-00001.gguf": OTHER, "a/same.gguf": MODEL, "b/same.gguf": OTHER}) as hub:
        home = Home()
        good(home.run(hub, "-hf", REPO + ":Q8_0", *SAYS))
        whole(home, MODEL, odd)
        good(home.run(hub, "-hf", REPO + ":Q6_K", *SAYS), OTHER)
        fails(home.run(hub, "-hf", REPO + ":same.gguf", *SAYS), 2, "2 files are called same.gguf", home, MODEL, OTHER)
        good(home.run(hub, "-hf", REPO, "-hff", "b/same.gguf", *SAYS), OTHER)
        fails(home.run(hub, "-hf", REPO + ":none.gguf", *SAYS), 2, "no model none.gguf, expected one of", home, MODEL, OTHER)


@case
def names():
    """What is no OWNER/NAME is refused before anything is asked; a missing file with such a name gets a line that says -hf."""
    with Hub() as hub:
        home = Home()
        for name in ("a", "a/b/c", "/b", "a/", "a//b", "../b", "a/..", "a--b/c", "a/b..c", "-a/b", "a/b-", "a b/c", "a/b:", "a/b:../x.gguf", "a/b:/x.gguf", "a/b\n:x",
                     "a/" + "b" * 100, "a/b:x\x1b.gguf", "a\u202e/b"):
            refused(home.run(hub, "-hf", name, *SAYS), 2, "no name of a hub", repr(name))
        refused(home.run(hub, "-hf", REPO, "-hff", "../x.gguf", *SAYS), 2, "no path in a repository", "--hf-file")
        refused(home.run(hub, "-hf", REPO + ":Q4_0", "-hff", "x.gguf", *SAYS), 2, "found --hf-file too", "both")
        refused(home.run(hub, "-hf", REPO, "-m", "x.gguf", *SAYS), 2, "both name a model", "-m and -hf")
        refused(home.run(hub, "-m", "owner/name", *SAYS), 2, "-hf owner/name downloads", "a name of a hub")
        refused(home.run(hub, "-m", "name", *SAYS), 2, "no such file, expected the path", "another name")
        refused(home.run(hub, "-m", "owner/name.gguf", *SAYS), 2, "No such file", "a file")
        same(hub.seen, [], "requests")


@download
def split():
    """All parts of a split model are downloaded, in their folder; a list without one of them is refused, and so is a part alone."""
    parts = [p.bytes() for p in hostile.split_parts()]
    named = {"Q4_K_M/spm-Q4_K_M-%05d-of-00003.gguf" % (i + 1): p for i, p in enumerate(parts)}
    with Hub(named) as hub:
        home = Home()
        r = home.run(hub, "-hf", REPO, "--inspect", "--json")
        check(r.rc == 0 and json.loads(r.out)["parts"] == 3, repr(r))
        same(home.named(), named, "parts")
        n = len(hub.seen)
        check(home.run(hub, "-hf", REPO, "--inspect").rc == 0, "from the cache")
        same(len(hub.seen), n, "requests")
        os.unlink(home.link("Q4_K_M/spm-Q4_K_M-00002-of-00003.gguf"))
        sent = hub.sent
        check(home.run(hub, "-hf", REPO, "--inspect").rc == 0, "a link that is missing is made again")
        same((home.named(), hub.sent), (named, sent), "without a byte")
        fails(home.run(hub, "-hf", REPO + ":spm-Q4_K_M-00002-of-00003.gguf", "--inspect"), 2, "later part", home, *parts)
    del named["Q4_K_M/spm-Q4_K_M-00002-of-00003.gguf"]
    with Hub(named) as hub:
        home = Home()
        fails(home.run(hub, "-hf", REPO, "--inspect"), 2, "first of 3 parts, and the list lacks one", home)
        same(hub.sent, 0, "bytes")


@download
def moved():
    """A repository that changes between two parts of a model is not mixed."""
    parts = [p.bytes() for p in hostile.split_parts(2)]
    with Hub({"x-Q4_0-%05d-of-00002.gguf" % (i + 1): p for i, p in enumerate(parts)}) as hub:
        home, answer = Home(), hub.answer

        def other(h):
            if "00002-of" in h.path:
                hub.commit = "f" * 40
            answer(h)

        hub.answer = other
        fails(home.run(hub, "-hf", REPO, "--inspect"), 3, "it has changed during the download", home, *parts)
        check(not os.path.exists(os.path.join(home.repo, "refs", "main")), "a commit was written")
        hub.commit = "f" * 40
        sent = hub.sent
        check(home.run(hub, "-hf", REPO, "--inspect").rc == 0, "again")
        same((home.ref(), hub.sent), ("f" * 40, sent), "commit, bytes")


@download
def pages():
    """A list of several pages, named by relative and absolute links, is read whole; a page on another host comes without the token."""
    files = {"%04d.txt" % i: b"x" for i in range(40)}
    files["zz-Q4_K_M.gguf"] = MODEL
    for to in "here", "relative", "other":
        with Hub(files) as hub:
            hub.page, hub.next_to = 7, to
            home = Home()
            r = home.run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN": TOKEN})
            good(r)
            for _, path, fields in hub.asked("other"):
                check("Authorization" not in fields, "the token went to another host: " + path)
    with Hub(files) as hub:
        hub.list = lambda h, path, query: h.say(200, b"[]", Link='<%s>; rel="next"' % h.path)
        fails(Home().run(hub, "-hf", REPO, *SAYS), 2, "more than 200 pages", Home())


@download
def redirects():
    """Redirects of 301 to 308, absolute and relative, are followed; the token goes to the hub alone; endless and foreign ones are refused."""
    for how in "other", "relative", "none":
        with Hub() as hub:
            hub.redirect, hub.token = how, TOKEN
            home = Home()
            good(home.run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN": TOKEN}))
            whole(home)
            check(all(f.get("Authorization") == "Bearer " + TOKEN for _, _, f in hub.asked("hub")), "the hub got no token")
            check(not any("Authorization" in f for _, _, f in hub.asked("other")), "the token went to another host")
            check(bool(hub.asked("other")) == (how == "other"), "which host")
    for status in 301, 302, 303, 307, 308:
        with Hub() as hub:
            hub.redirect, home = "none", Home()
            hub.status = {"/api/models/" + REPO: (status, {"Location": "/api/models/new/name/tree/main?recursive=true"}),
                          "/%s/resolve" % REPO: (status, {"Location": "../../../../new/name/resolve/main/model-Q4_K_M.gguf"})}
            good(home.run(hub, "-hf", REPO, *SAYS))
            whole(home)
    with Hub() as hub:
        fields = {"Location": "/%s/resolve/main/model-Q4_K_M.gguf" % REPO}
        hub.status = {"/%s/resolve" % REPO: (302, fields)}
        fails(Home().run(hub, "-hf", REPO, *SAYS), 2, "redirects more than 10 times", Home())
        for to in "ftp://127.0.0.1/x", "file:///etc/passwd", "gopher://x/":
            fields["Location"] = to
            home = Home()
            fails(home.run(hub, "-hf", REPO, *SAYS), 2, "redirects to %s, expected" % re.escape(to), home)
        del fields["Location"]
        fails(Home().run(hub, "-hf", REPO, *SAYS), 2, "redirects to nowhere", Home())
        hub.status = {"/%s/resolve" % REPO: (302, {"Location": "http://user:pass@127.0.0.1:%d/bytes/model-Q4_K_M.gguf" % hub.servers["hub"].server_address[1],
                                                   "X_Repo_Commit": COMMIT})}
        good(Home().run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN": TOKEN}))
        check(hub.asked("hub")[-1][2].get("Authorization") != "Bearer " + TOKEN, "the token went to a host with a user's name")


@download
def tokens():
    """The token is that of -hft, of HF_TOKEN, or of the file of Hugging Face's tools; one that is no token is refused."""
    with Hub() as hub:
        hub.token = TOKEN
        home = Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 2, "no such public repository \\(401\\).* HF_TOKEN", home)
        fails(home.run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN": "hf_wrong"}), 2, "refuses the token of HF_TOKEN", home)
        for args, env in ((("-hft", TOKEN), {}), ((), {"HF_TOKEN": TOKEN}), ((), {"HUGGING_FACE_HUB_TOKEN": TOKEN}), (("-hft", TOKEN), {"HF_TOKEN": "hf_wrong"})):
            good(Home().run(hub, "-hf", REPO, *args, *SAYS, env=env))
        with open(os.path.join(home.path, "token"), "w") as f:
            f.write(TOKEN + "\n")
        fails(home.run(hub, "-hf", REPO, *SAYS, env={"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}), 2, "401", home)
        good(home.run(hub, "-hf", REPO, *SAYS))
        home = Home()
        put("token", (TOKEN + "\n").encode())
        good(home.run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN_PATH": tmp("token")}))
        n = len(hub.seen)
        for bad in "hf_a\r\nX: y", "hf_a b", "hf_\u00e9", "x" * 5000:
            fails(Home().run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN": bad}), 2, "HF_TOKEN: ", Home())
        same(len(hub.seen), n, "requests with a bad token")


@download
def refusals():
    """401, 403, 404, 429 and 5xx are one line each that says what to do, for the list and for the file."""
    rows = [(401, {}, 2, "401.*token in HF_TOKEN"), (403, {}, 2, "gives no access \\(403\\): accept its terms at http://.*/%s" % REPO), (404, {}, 2, "\\(404\\): expected another name"),
            (429, {}, 3, "\\(429\\): run the command again later"), (429, {"Retry_After": "17"}, 3, "again in 17 s; with a token in HF_TOKEN"), (418, {}, 3, "answers 418")]
    for where in "/api/models/", "/%s/resolve/" % REPO:
        for status, fields, rc, word in rows:
            with Hub() as hub:
                hub.status, home = {where: (status, fields)}, Home()
                fails(home.run(hub, "-hf", REPO, *SAYS), rc, word, home)
    for status, word in (403, "to which .* redirects, answers 403"), (416, "another size|answers 416"), (500, "answers 500"):
        for where in "/bytes/", "/api/models/":
            with Hub() as hub:
                hub.status, home = {where: (status, {})}, Home()
                fails(home.run(hub, "-hf", REPO, *SAYS), 2 if where == "/api/models/" and status == 403 or where == "/bytes/" and status == 416 else 3,
                      "gives no access" if where == "/api/models/" and status == 403 else word, home)
    with Hub() as hub:
        hub.status, home = {"/api/models/": (503, {})}, Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 3, "answers 503", home)
        check(len(hub.seen) > 1, "503 is asked again")
    home = Home()
    fails(home.run(None, "-hf", REPO, *SAYS), 3, "cannot connect", home)
    fails(home.run(None, "-hf", REPO, *SAYS, env={"HF_ENDPOINT": "http://no.such.host.invalid"}), 3, "no such host", home)
    for bad in "ftp://x", "huggingface.co", "http://", "http://a b":
        fails(home.run(None, "-hf", REPO, *SAYS, env={"HF_ENDPOINT": bad}), 2, "HF_ENDPOINT", home)


@download
def drops():
    """A connection that ends early is made again from where it was: no byte is sent twice, in one run and over several."""
    for how in "other", "none":
        with Hub() as hub:
            hub.redirect, hub.drops, home = how, [1, 10000, 0, 5, 20000, 4096], Home()
            good(home.run(hub, "-hf", REPO, *SAYS))
            whole(home)
            same(hub.sent, len(MODEL), "bytes that were sent")
    with Hub() as hub:
        hub.drops, home = [10000] + [0] * 5, Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 3, "run the command again", home)
        same(home.blobs(), [sha(MODEL) + ".incomplete"], "what is kept")
        same(read(home.blob(MODEL, ".incomplete")), MODEL[:10000], "kept")
        hub.drops = []
        r = home.run(hub, "-hf", REPO, *SAYS)
        good(r)
        check(b"that are missing" in r.err, repr(r))
        whole(home)
        same(hub.sent, len(MODEL), "bytes that were sent")


@download
def killed():
    """A run that is interrupted leaves what it has, and the next one goes on there; its own process for the download ends with it."""
    for sig, rc in (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9):
        with Hub() as hub:
            hub.slow, home = 0.05, Home()
            p = home.begin(hub, "-hf", REPO, *SAYS)
            while hub.sent < 20000 and p.poll() is None:
                time.sleep(0.01)
            p.send_signal(sig)
            same(finish(p).rc, rc, "exit")
            same(home.named(), {}, "names")
            before = hub.sent
            time.sleep(0.3)
            check(hub.sent < len(MODEL) and hub.sent - before < 20000, "the download goes on without the run: %d, %d" % (before, hub.sent))
            have = os.path.getsize(home.blob(MODEL, ".incomplete"))
            same(read(home.blob(MODEL, ".incomplete")), MODEL[:have], "kept")
            hub.slow = 0
            good(home.run(hub, "-hf", REPO, *SAYS))
            whole(home)
            same(hub.asked("other")[-1][2].get("Range"), "bytes=%d-" % have, "the range of the second run")


@download
def no_ranges():
    """A server that ignores ranges is noticed: the file begins anew and is right."""
    with Hub() as hub:
        hub.ranges, hub.drops, home = False, [10000], Home()
        good(home.run(hub, "-hf", REPO, *SAYS))
        whole(home)
        same(hub.sent, len(MODEL) + 10000, "bytes")


@download
def changed():
    """A file that changed while it was continued is noticed, whatever tells: its sum, its size, the place that the answer names."""
    other = bytes(len(MODEL))
    with Hub() as hub:                                   # what is here is the beginning of another file
        home = Home()
        os.makedirs(os.path.join(home.repo, "blobs"))
        for begin_ in other[:10000], other, other + b"x", MODEL[:10000]:
            with open(home.blob(MODEL, ".incomplete"), "wb") as f:
                f.write(begin_)
            good(home.run(hub, "-hf", REPO, *SAYS))
            whole(home)
            shutil.rmtree(os.path.join(home.repo, "snapshots"))
            os.unlink(home.blob(MODEL))
    for sends, word in (other, "SHA-256"), (MODEL[:-1], "another size|ended after"), (MODEL + b"x", "another size|more bytes"), (b"", "ended after|another size"):
        for have in 0, 10000:
            with Hub() as hub:
                hub.sends, home = sends, Home()
                if have:
                    os.makedirs(os.path.join(home.repo, "blobs"))
                    with open(home.blob(MODEL, ".incomplete"), "wb") as f:
                        f.write(MODEL[:have])
                r = home.run(hub, "-hf", REPO, *SAYS)
                check(r.rc in (2, 3), repr(r))
                fails(r, r.rc, word, home)
                same(home.named(), {}, "names")
                hub.sends = None
                good(home.run(hub, "-hf", REPO, *SAYS))
                whole(home)


@download
def lies():
    """Lengths and ranges that are not true are noticed, and nothing wrong gets a name."""
    def longer(f, first): f["Content_Length"] = str(int(f["Content_Length"]) + 100)
    def shorter(f, first): f["Content_Length"] = str(int(f["Content_Length"]) - 100)
    def moved_(f, first): f.update({"Content_Range": "bytes 0-9/%d" % len(MODEL)} if first else {})
    def total(f, first): f.update({"Content_Range": "bytes %d-9/9" % first} if first else {})
    def huge(f, first): f.update({"Content_Range": "bytes 99999999999999999999999-/99999999999999999999999999"} if first else {})
    def none(f, first): f.pop("Content_Range", None)
    def gzip(f, first): f["Content_Encoding"] = "gzip"
    for lie in longer, shorter, moved_, total, huge, none, gzip:
        with Hub() as hub:
            hub.fields, hub.drops, home = lie, [10000], Home()
            r = home.run(hub, "-hf", REPO, *SAYS)
            if r.rc == 0:
                whole(home)
            else:
                check(r.rc in (2, 3), repr(r))
                fails(r, r.rc, "expected|run the command again|ended after", home)
                same(home.named(), {}, lie.__name__)


@download
def lists():
    """Lists that a hub must not send are refused whole, before a byte of a file is asked for."""
    entry = {"type": "file", "oid": "2" * 40, "size": len(MODEL), "path": "model-Q4_K_M.gguf", "lfs": {"oid": sha(MODEL), "size": len(MODEL)}}
    lfs = dict(entry["lfs"])
    rows = [([dict(entry, path=p)], "expected a path inside") for p in ("../m-Q4_K_M.gguf", "/etc/m-Q4_K_M.gguf", "a/../../m-Q4_K_M.gguf", "a//m-Q4_K_M.gguf", "./m-Q4_K_M.gguf", "",
                                                                      "m\n-Q4_K_M.gguf", "m\x1b[2J-Q4_K_M.gguf", "m\u202e-Q4_K_M.gguf", "m\u0000-Q4_K_M.gguf", "x" * 2000 + "-Q4_K_M.gguf",
                                                                      "a/..", 5, None, ["x"], {})]
    rows += [([dict(entry, lfs=dict(lfs, size=s))], "no size of") for s in (-1, 1.5, 1e30, "7", None, 1 << 63, 10 ** 40)]
    rows += [([dict(entry, lfs=dict(lfs, oid=s))], "no SHA-256 of") for s in ("", "../" * 21 + "x", sha(MODEL)[:-1], sha(MODEL).upper(), sha(MODEL)[:-1] + "/", 5, None)]
    rows += [([dict(entry, lfs=None, oid=o)], "no sum of") for o in ("", "2" * 39, "G" * 40, None, 7)]
    rows += [([entry, entry], "twice"), ({"error": "x"}, "no list of files"), ([[]], "no object"), (["x"], "no object")]
    rows += [(b, "no list of files") for b in (b"", b"[", b"<html>", b"[}", b"[" * 300 + b"]" * 300, b'[{"type":"file"}] x', b'[{"path":"\xff')]
    with Hub() as hub:
        for listed, word in rows:
            hub.listed, home = listed if isinstance(listed, (list, bytes)) else json.dumps(listed).encode(), Home()
            fails(home.run(hub, "-hf", REPO, *SAYS), 2, word, home)
        hub.listed, home = b"[" + b" " * (33 << 20) + b"]", Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 2, "an answer of more than", home)
        same(hub.sent, 0, "bytes of files")
        hub.listed, home = [dict(entry, extra=[1, {"a": "]"}], path="model-Q4_K_M.gguf")], Home()
        good(home.run(hub, "-hf", REPO, *SAYS))
        hub.commit, home = "../../../../../../tmp/x", Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 2, "names no commit", home, MODEL)


@download
def together():
    """Two runs that begin at once share one download."""
    with Hub() as hub:
        hub.slow, home = 0.02, Home()
        both = [home.begin(hub, "-hf", REPO, *SAYS) for _ in range(3)]
        ends = [finish(p) for p in both]
        for r in ends:
            good(r)
        whole(home)
        same(hub.sent, len(MODEL), "bytes that were sent")
        check(any(b"another run downloads" in r.err for r in ends), repr(ends))


@download
def full():
    """A disk without space is said before a byte is asked for; one that becomes full, or a file size limit, is exit 3, and what is here is kept."""
    entry = {"type": "file", "oid": "2" * 40, "size": 1 << 60, "path": "model-Q4_K_M.gguf", "lfs": {"oid": sha(MODEL), "size": 1 << 60}}
    with Hub() as hub:
        hub.listed, home = [entry], Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 3, "no space: needs", home)
        same(hub.sent, 0, "bytes")
    with Hub() as hub:
        home = Home()
        r = home.run(hub, "-hf", REPO, *SAYS, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
        fails(r, 3, "cannot write", home)
        have = read(home.blob(MODEL, ".incomplete"))
        check(have and MODEL.startswith(have), "what is kept")
        good(home.run(hub, "-hf", REPO, *SAYS))
        whole(home)
    home = Home()
    os.makedirs(home.hub)
    with Hub() as hub:
        for make in (lambda: os.chmod(home.hub, 0o500), lambda: (os.rmdir(home.hub), open(home.hub, "w").close())):
            make()
            if os.access(home.hub, os.W_OK) and os.path.isdir(home.hub):
                continue                                 # nothing is forbidden to root
            r = home.run(hub, "-hf", REPO, *SAYS)
            check(r.rc in (2, 3) and b"HF_HOME names another folder" in r.err, repr(r))


@download
def offline():
    """--offline and HF_HUB_OFFLINE connect to nothing; a hub that cannot be reached leaves OWNER/NAME what is here."""
    with Hub({"m-Q8_0.gguf": MODEL}) as hub:
        home = Home()
        for args, env in (("--offline",), {}), ((), {"HF_HUB_OFFLINE": "1"}), ((), {"HF_HUB_OFFLINE": "true"}):
            fails(home.run(hub, "-hf", REPO, *args, *SAYS, env=env), 2, "is not in the cache", home)
        same(hub.seen, [], "requests")
        good(home.run(hub, "-hf", REPO, *SAYS))
        n = len(hub.seen)
        good(home.run(hub, "-hf", REPO, "--offline", *SAYS))
        good(home.run(hub, "-hf", REPO + ":Q8_0", *SAYS))
        fails(home.run(hub, "-hf", REPO + ":Q4_0", "--offline", *SAYS), 2, "is not in the cache", home, MODEL)
        same(len(hub.seen), n, "requests")
    r = home.run(None, "-hf", REPO, *SAYS)
    good(r)
    check(b"cannot connect" in r.err and b"runs m-Q8_0.gguf, which is here" in r.err, repr(r))


@download
def newer():
    """After the repository has changed, what is here still runs; a file that stayed the same is not downloaded again."""
    with Hub({"m-Q4_K_M.gguf": MODEL, "m-Q8_0.gguf": OTHER}) as hub:
        home = Home()
        good(home.run(hub, "-hf", REPO, *SAYS))
        hub.commit = "b" * 40
        good(home.run(hub, "-hf", REPO + ":Q8_0", *SAYS), OTHER)
        n = len(hub.seen)
        good(home.run(hub, "-hf", REPO, *SAYS))
        same(len(hub.seen), n, "requests")
        same(home.ref(), "b" * 40, "refs/main")
        hub.files["again-Q4_K_M.gguf"] = hub.files.pop("m-Q4_K_M.gguf")
        sent = hub.sent
        good(home.run(hub, "-hf", REPO + ":again-Q4_K_M.gguf", *SAYS))
        same(hub.sent, sent, "bytes of a file whose blob is here")


# --- checkpoints -----------------------------------------------------------------------------------------------------
ALIEN = {"pytorch_model.bin": b"x" * 999, "consolidated.safetensors": b"y" * 999, "onnx/model.safetensors": b"z" * 999, "vocab.json": b"{}", "original/config.json": b"{}",
         "training_args.json": b"{}"}


def files_of(folder):
    return {os.path.relpath(os.path.join(d, f), folder): read(os.path.join(d, f)) for d, _, names in os.walk(folder) for f in names}


def checkpoint_of(name="llama", **how):
    """A folder of a checkpoint, and its files."""
    folder = tempfile.mkdtemp(dir=TMP)
    checkpoint.write(folder, name, "F16", **how)
    return folder, files_of(folder)


def of_folder(folder):
    """What the run of a folder prints."""
    r = finish(begin([BIN, "-q", "-m", folder, *SAYS], env=PLAIN_ENV))
    check(r.rc == 0, "%s: %r" % (folder, r))
    return r.out


def hub_of(files, **more):
    """A hub that has git store what is small, as published ones do."""
    hub = Hub(dict(files, **more))
    hub.small = {path for path in hub.files if not path.endswith((".safetensors", ".gguf", ".bin"))}
    return hub


def has(home, files, commit=COMMIT):
    """The cache has all files of the checkpoint as Hugging Face's tools write them, nothing else, and no other file of the repository."""
    same(home.named(), files, "files of the snapshot")
    for path, data in files.items():
        blob = sha(data) if path.endswith(".safetensors") else git(data)
        same(os.readlink(home.link(path, commit)), "../" * path.count("/") + "../../blobs/" + blob, "the link of " + path)
    same(home.ref(), commit, "refs/main")
    same(sorted(home.blobs()), sorted({sha(d) if p.endswith(".safetensors") else git(d) for p, d in files.items()}), "blobs")


def is_no_model(home):
    """Nothing is called a model yet."""
    same(json.loads(home.run(None, "--models", "--json").out), [], "--models")
    refused(home.run(None, "-hf", REPO, "--offline", *SAYS), 2, "is not in the cache", "--offline")
    refused(home.run(None, "-m", REPO, *SAYS), 2, "-hf", "-m")


@download
def checkpoints():
    """A repository without GGUF files: its checkpoint is downloaded once, in the layout of Hugging Face's tools, and runs as its folder does."""
    folder, files = checkpoint_of(shards=3)
    want, home = of_folder(folder), Home()
    with hub_of(files, **ALIEN) as hub:
        r = home.run(hub, "-hf", REPO, *SAYS)
        same((r.rc, r.out), (0, want), "text")
        same(re.findall(rb"downloads (\S+),", r.err), [b"model-0000%d-of-00003.safetensors" % i for i in (1, 2, 3)], "what is said")
        has(home, files)
        same(hub.sent, sum(map(len, files.values())), "bytes")
        asked = [p.rpartition("/")[2] for _, p, _ in hub.asked("hub") if "/resolve/" in p]
        same((sorted(asked), asked[-1]), (sorted(files), "config.json"), "requests")
        n = len(hub.seen)
        for args in (("-hf", REPO), ("-hf", REPO + ":safetensors"), ("-m", "hf:" + REPO), ("-m", REPO), ("-m", REPO + ":safetensors"), ("-hf", REPO, "--offline")):
            r = home.run(hub, "-q", *args, *SAYS)
            same((r.rc, r.out, r.err), (0, want, b""), repr(args))
        refused(home.run(hub, "-hf", REPO + ":Q4_K_M", "--offline", *SAYS), 2, "is not in the cache", "a quant")
        same(len(hub.seen), n, "requests of runs from the cache")
        refused(home.run(hub, "-hf", REPO + ":Q4_K_M", *SAYS), 2, "no GGUF file, expected %s alone, which runs its safetensors" % REPO, "a quant")
        made = tmp("made.gguf")
        check(home.run(hub, "-hf", REPO, "--quantize", "F16", "-o", made).rc == 0, "--quantize")
        report = json.loads(home.run(hub, "-m", made, "--inspect", "--json").out)
        same([k["value"] for k in report["metadata"] if k["key"] == "general.name"], ["A_model-GGUF"], "the name in the file is that of the repository")
    for how in "relative", "none":
        with hub_of(files) as hub:
            home, hub.redirect, hub.token = Home(), how, TOKEN
            same(home.run(hub, "-hf", REPO, *SAYS, env={"HF_TOKEN": TOKEN}).out, want, how)
            has(home, files)


@download
def checkpoint_files():
    """One file of weights without an index, a pooling in a folder of its own, one beside GGUF files, a draft; what is not whole is refused before a file is asked for."""
    folder, files = checkpoint_of("bert")
    home = Home()
    with hub_of(files, **ALIEN) as hub:
        r = home.run(hub, "-hf", REPO, "--embed", "-p", "the cat sat.")
        same((r.rc, r.out), (0, finish(begin([BIN, "-m", folder, "--embed", "-p", "the cat sat."], env=PLAIN_ENV)).out), "vector")
        has(home, files)
    folder, files = checkpoint_of()
    want = of_folder(folder)
    home = Home()
    with hub_of(files, **{"m-Q4_K_M.gguf": MODEL}) as hub:
        good(home.run(hub, "-hf", REPO, *SAYS))
        same(list(home.named()), ["m-Q4_K_M.gguf"], "files")
        same(home.run(hub, "-q", "-hf", REPO + ":safetensors", *SAYS).out, want, "the checkpoint")
        good(home.run(hub, "-hf", REPO, *SAYS))
    for first in ":Q8_0", ":safetensors":                  # the same model, whatever came first
        home = Home()
        with hub_of(files, **{"m-Q8_0.gguf": MODEL}) as hub:
            for more in first, ":Q8_0", "", ":safetensors", "":
                r = home.run(hub, "-q", "-hf", REPO + more, *SAYS)
                same((r.rc, r.out), (0, want if more == ":safetensors" else text_of(MODEL)), "%s, first %s" % (more, first))
            good(home.run(hub, "-hf", REPO, *SAYS))
            good(home.run(hub, "-hf", REPO, "--offline", *SAYS))
            good(home.run(None, "-hf", REPO, *SAYS))
    home = Home()
    with hub_of(files) as hub:
        r = home.run(hub, "-q", "-m", folder, "-hfd", REPO, *SAYS)
        same((r.rc, r.out), (0, want), "a draft")
    rest = {k: v for k, v in files.items() if k != "model.safetensors"}
    for listed, word in (({k: v for k, v in files.items() if k != "config.json"}, "neither a GGUF file nor config.json"), (rest, "neither a GGUF file"),
                         ({k: v for k, v in files.items() if k != "tokenizer.json"}, "neither a GGUF file"), (dict(rest, **{"a/model.safetensors": b"x"}), "neither a GGUF"),
                         (dict(rest, **{"a.safetensors": b"x", "b.safetensors": b"y"}), "2 safetensors files, expected model.safetensors or an index"),
                         (dict(rest, **{"model-00001-of-00002.safetensors": b"x"}), "expected model-00002-of-00002.safetensors too")):
        with hub_of(listed) as hub:
            home = Home()
            fails(home.run(hub, "-hf", REPO, *SAYS), 2, word, home, *files.values())
            check(not any("safetensors" in p for _, p, _ in hub.asked()), "weights were asked for")
            is_no_model(home)


@download
def checkpoint_tokenizers():
    """Whatever file the tokens of a family are in, it is downloaded: the run is that of the folder, --models lists the checkpoint, --rm-model removes it."""
    for name in "t5", "rwkv7", "plamo2":
        folder = tempfile.mkdtemp(dir=TMP)
        checkpoint.write_vocabulary(folder, name)
        files, home = files_of(folder), Home()
        want = of_folder(folder)
        with hub_of(files, **ALIEN) as hub:
            for args in ("-hf", REPO), ("-hf", REPO, "--offline"):
                r = home.run(hub, "-q", *args, *SAYS)
                same((r.rc, r.out), (0, want), name)
            has(home, files)
        same([m["name"] for m in json.loads(home.run(None, "--models", "--json").out)], [REPO + ":safetensors"], name)
        same(home.run(None, "--rm-model", REPO + ":safetensors", "--yes").rc, 0, name)
        check(not os.path.exists(home.repo), "%s: files are left: %r" % (name, home.blobs()))


@download
def checkpoint_changed():
    """A repository that changes between its list and the requests: a file that is here from before gets no name in the new snapshot."""
    folder, files = checkpoint_of()
    for how in "relative", "none":
        with hub_of(files) as hub:
            home, hub.redirect, new = Home(), how, "e" * 40
            same(home.run(hub, "-hf", REPO, *SAYS).rc, 0, "the first run")
            shutil.rmtree(os.path.join(home.repo, "snapshots"))
            listed = hub.list
            def list_(*args):
                listed(*args)
                hub.commit, hub.files = new, dict(files, **{"tokenizer.json": files["tokenizer.json"] + b" "})
            hub.list, sent = list_, hub.sent
            refused(home.run(hub, "-hf", REPO, *SAYS), 3, "tokenizer.json has changed since its list was read", how)
            check(not os.path.exists(home.link("tokenizer.json", new)) and not os.path.exists(home.link("config.json", new)), "names in the new snapshot")
            same(hub.sent, sent, "bytes")


@download
def checkpoint_drops():
    """Connections that end early, in runs that end early: the next run goes on there, no byte is sent twice, and nothing is called a model before all of it is here."""
    folder, files = checkpoint_of(shards=2)
    total = sum(map(len, files.values()))
    want = of_folder(folder)
    with hub_of(files) as hub:
        hub.drops, home = [1, 100, 0, 5, 2000, 4096, 17, 30000, 0, 0, 9], Home()
        same(home.run(hub, "-q", "-hf", REPO, *SAYS).out, want, "text")
        has(home, files)
        same(hub.sent, total, "bytes that were sent")
    with hub_of(files) as hub:
        home, had = Home(), 0
        for stop in 0, 3, len(files) - 1:                  # so many files are here after a run, and a part of the next
            hub.drops, had = [1 << 30] * (stop - had) + [50] + [0] * 5, stop
            fails(home.run(hub, "-hf", REPO, *SAYS), 3, "run the command again", home, *files.values())
            same(len(home.named()), stop, "files that have their names")
            is_no_model(home)
        hub.drops = []
        same(home.run(hub, "-q", "-hf", REPO, *SAYS).out, want, "text")
        has(home, files)
        same(hub.sent, total, "bytes that were sent")


@download
def checkpoint_killed():
    """A run that is killed leaves no model, whatever it had; several runs at once share one download."""
    folder, files = checkpoint_of(shards=2)
    total = sum(map(len, files.values()))
    want = of_folder(folder)
    with hub_of(files) as hub:
        hub.slow, home = 0.02, Home()
        for part in 0.2, 0.7:
            p = home.begin(hub, "-hf", REPO, *SAYS)
            while hub.sent < part * total and p.poll() is None:
                time.sleep(0.005)
            p.send_signal(signal.SIGKILL)
            same(finish(p).rc, -9, "exit")
            nothing_wrong(home, *files.values())
            is_no_model(home)
        hub.slow = 0
        same(home.run(hub, "-q", "-hf", REPO, *SAYS).out, want, "text")
        has(home, files)
        check(hub.sent <= total + 2 * (1 << 16), "%d bytes were sent, of %d" % (hub.sent, total))
    with hub_of(files) as hub:
        hub.slow, home = 0.004, Home()
        for r in [finish(p) for p in [home.begin(hub, "-q", "-hf", REPO, *SAYS) for _ in range(3)]]:
            same((r.rc, r.out), (0, want), "text")
        has(home, files)
        same(hub.sent, total, "bytes that were sent")


@download
def checkpoint_lies():
    """A wrong byte in any file, another size, a refusal, a full disk: one line, and no model; what was right is kept."""
    folder, files = checkpoint_of(shards=2)
    want = of_folder(folder)
    order = sorted(files, key=lambda path: (path == "config.json", path.endswith(".safetensors"), path))     # that of the download
    for path, data in files.items():
        for sends, word in (data[:-1] + bytes([data[-1] ^ 1]), "SHA-256 of" if path.endswith(".safetensors") else "SHA-1 of"), (data[:-1], "ended after|another size"), \
                           (data + b" ", "more bytes|another size"):
            if word.startswith(("ended", "more")) and path not in ("config.json", "model-00002-of-00002.safetensors"):
                continue
            with hub_of(files) as hub:
                hub.lies, home = {path: sends}, Home()
                r = home.run(hub, "-hf", REPO, *SAYS)
                fails(r, r.rc, word, home, *files.values())
                check(r.rc in (2, 3) and path not in home.named() and "config.json" not in home.named(), "%s: %r" % (path, r))
                hub.lies, before = {}, hub.sent
                same(home.run(hub, "-q", "-hf", REPO, *SAYS).out, want, "text after %s was wrong" % path)
                has(home, files)
                check(hub.sent - before <= sum(len(files[p]) for p in order[order.index(path):]), "what was right is sent again")
    with hub_of(files) as hub:
        for where in "tokenizer.json", "model-00002", "config.json":
            for status, rc, word in ((401, 2, "401"), (403, 2, "403"), (404, 2, "404"), (429, 3, "429"), (500, 3, "answers 500"))[:5 if "0" in where else 4]:
                hub.status, home = {"/%s/resolve/main/%s" % (REPO, where): (status, {})}, Home()
                fails(home.run(hub, "-hf", REPO, *SAYS), rc, word, home, *files.values())
                check("config.json" not in home.named(), "config.json has its name")
        hub.status, home = {}, Home()
        limit = max(map(len, files.values())) - 5000
        fails(home.run(hub, "-hf", REPO, *SAYS, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))), 3, "cannot write", home, *files.values())
        same(home.run(hub, "-q", "-hf", REPO, *SAYS).out, want, "text after a full disk")
        has(home, files)
        huge = [dict(e, lfs=dict(e["lfs"], size=1 << 60), size=1 << 60) if e["path"].endswith("2.safetensors") else e for e in hub.entries()]
        hub.listed, home = huge, Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 3, "no space: needs", home, *files.values())
        check(not any(p.endswith(".safetensors") for p in home.named()), "weights were downloaded")


@download
def checkpoint_indexes():
    """An index that names files elsewhere or that the list lacks is refused before weights are asked for; a repository that changes meanwhile is not mixed."""
    folder, files = checkpoint_of(shards=2)
    index = "model.safetensors.index.json"
    for where, word in (("../x.safetensors", "expected one of its folder"), ("/etc/x.safetensors", "expected one of its folder"), ("a/x.safetensors", "expected one of its folder"),
                        ("gone.safetensors", "its index names gone.safetensors, which its list lacks"), (None, "names no file"), ("x\x1b.safetensors", "its list lacks")):
        bad = json.dumps({"weight_map": {"t": where} if where else {}}).encode()
        with hub_of(dict(files, **{index: bad})) as hub:
            home = Home()
            fails(home.run(hub, "-hf", REPO, *SAYS), 2, word, home, bad, *files.values())
            check(not any(p.endswith(".safetensors") for _, p, _ in hub.asked()), "weights were asked for")
            is_no_model(home)
    for text in b"{", b"[1", b"<html>":
        with hub_of(dict(files, **{index: text})) as hub:
            home = Home()
            fails(home.run(hub, "-hf", REPO, *SAYS), 2, "is not JSON", home, text, *files.values())
    with hub_of(files) as hub:
        home, answer = Home(), hub.answer

        def other(h):
            if "00002-of" in h.path:
                hub.commit = "f" * 40
            answer(h)

        hub.answer = other
        fails(home.run(hub, "-hf", REPO, *SAYS), 3, "it has changed during the download", home, *files.values())
        is_no_model(home)
        hub.commit, sent = "f" * 40, hub.sent
        check(home.run(hub, "-hf", REPO, *SAYS).rc == 0, "again")
        same((home.ref(), hub.sent - sent), ("f" * 40, len(files["config.json"])), "commit, bytes")


@case
def checkpoints_here():
    """Checkpoints of the cache and of LLMRUN_MODELS are listed, found by name and removed; a part of one that other tools left is none, and -hf completes it."""
    folder, files = checkpoint_of(shards=2)
    want = of_folder(folder)
    size = sum(len(d) for p, d in files.items() if p.endswith(".safetensors") or p == "tokenizer.json")
    for less in ("config.json",), ("tokenizer.json",), ("model-00002-of-00002.safetensors",), tuple(p for p in files if p != "config.json"):
        home = Home()
        fill(home, {p: d for p, d in files.items() if p not in less})
        is_no_model(home)
        fill(home, {p: d for p, d in files.items() if p in less})
        same(home.run(None, "-q", "-hf", REPO, *SAYS).out, want, "completed")
    home = Home()
    fill(home, files)
    os.unlink(home.blob(files["model-00001-of-00002.safetensors"]))
    is_no_model(home)
    home = Home()
    fill(home, dict(files, **{"m-Q8_0.gguf": MODEL, "LICENSE": b"x"}))
    fill(home, files, "a" * 40)
    models = tempfile.mkdtemp(dir=TMP)
    shutil.copytree(folder, os.path.join(models, "sub", "one"))
    with open(os.path.join(models, "sub", "one", "notes.txt"), "w") as f:
        f.write("mine")
    env = {"LLMRUN_MODELS": models}
    rows = json.loads(home.run(None, "--models", "--json", env=env).out)
    same([(r["name"], r["architecture"], r["type"]) for r in rows],
         [("sub/one", "llama", "F16"), (REPO + ":Q8_0", "llama", rows[1]["type"]), (REPO + ":safetensors", "llama", "F16")], "rows")
    same([r["bytes"] for r in rows], [size, len(MODEL), size], "bytes")
    text = home.run(None, "--models", env=env)
    check(text.rc == 0 and text.err == b"" and re.search(rb"^sub/one +\S+ \S+ +F16 +llama$", text.out, re.M), repr(text))
    for name in "sub/one", REPO + ":safetensors":
        same(home.run(None, "-q", "-m", name, *SAYS, env=env).out, want, name)
    same(home.run(None, "--rm-model", REPO + ":safetensors", "--yes").rc, 0, "exit")
    same(sorted(home.named()), ["LICENSE", "m-Q8_0.gguf"], "what stays")
    same(len(home.blobs()), 2, "blobs")
    same(home.run(None, "--rm-model", "sub/one", "--yes", env=env).rc, 0, "exit")
    same(files_of(models), {"sub/one/notes.txt": b"mine"}, "what stays of the folder")


@case
def library_missing():
    """Without libcurl one line names the package, and what is in the cache runs."""
    folder = tmp("nolib")
    os.makedirs(folder, exist_ok=True)
    for name in "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4", "libcurl.so":
        put("nolib/" + name, b"no library")
    env, home = {"LD_LIBRARY_PATH": folder}, Home()
    r = home.run(None, "-hf", REPO, *SAYS, env=env)
    check(r.rc == 2 and one_line(r.err) and (b"libcurl4" in r.err or b"HUB=0" in r.err), repr(r))
    fill(home, {"m-Q4_K_M.gguf": MODEL})
    good(home.run(None, "-hf", REPO, *SAYS, env=env))


def fill(home, files, commit=COMMIT, repo=FOLDER):
    """Puts files into the cache, as Hugging Face's tools do."""
    base = os.path.join(home.hub, repo)
    for name, data in files.items():
        small = not name.endswith((".gguf", ".safetensors"))
        blob, link = os.path.join(base, "blobs", git(data) if small else sha(data)), os.path.join(base, "snapshots", commit, name)
        for path in blob, link:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(blob, "wb") as f:
            f.write(data)
        if not os.path.lexists(link):
            os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
    os.makedirs(os.path.join(base, "refs"), exist_ok=True)
    with open(os.path.join(base, "refs", "main"), "w") as f:
        f.write(commit)


@case
def places():
    """The cache is where Hugging Face's tools have it: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or the home folder; a link to another disk is followed."""
    x = tempfile.mkdtemp(dir=TMP)
    home = Home()
    for env, hub in (({"HF_HUB_CACHE": x + "/a"}, x + "/a"), ({"HUGGINGFACE_HUB_CACHE": x + "/b"}, x + "/b"), ({"HF_HOME": x + "/c"}, x + "/c/hub"),
                     ({"HF_HOME": "", "XDG_CACHE_HOME": x + "/d"}, x + "/d/huggingface/hub"), ({"HF_HOME": ""}, home.path + "/.cache/huggingface/hub"),
                     ({"HF_HUB_CACHE": "~/e"}, home.path + "/e")):
        home.hub = hub
        fill(home, {"m-Q4_K_M.gguf": MODEL})
        good(home.run(None, "-hf", REPO, "--offline", *SAYS, env=env))
        os.rename(os.path.join(hub, FOLDER), os.path.join(hub, "elsewhere"))
        os.symlink("elsewhere", os.path.join(hub, FOLDER))
        good(home.run(None, "-hf", REPO, "--offline", *SAYS, env=env))
        refused(home.run(None, "-hf", "other/name", "--offline", *SAYS, env=env), 2, re.escape("(%s)" % hub), "the place in the message")
    refused(home.run(None, "-hf", "other/name", *SAYS, env={"HF_HOME": "", "HOME": ""}), 2, "HOME is not set|libcurl|HUB=0", "no home")


@case
def models():
    """--models lists the cache and the folder of LLMRUN_MODELS: name, size, type, architecture; -m takes every name that it prints."""
    home = Home()
    r = home.run(None, "--models")
    check(r.rc == 0 and r.out == b"" and b"no models are here" in r.err, repr(r))
    parts = {"spm-Q4_K_M-%05d-of-00003.gguf" % (i + 1): p.bytes() for i, p in enumerate(hostile.split_parts())}
    fill(home, {"m-Q4_K_M.gguf": MODEL, "m-Q8_0.gguf": OTHER, "mmproj-m.gguf": OTHER, "other.gguf": MODEL, "README.md": b"x"})
    fill(home, {"m-Q4_K_M.gguf": OTHER, "old-Q6_K.gguf": MODEL}, "a" * 40)
    with open(os.path.join(home.repo, "refs", "main"), "w") as f:
        f.write(COMMIT)
    fill(home, {"bad-Q4_0.gguf": b"GGUF"}, repo="models--x--bad")
    fill(home, {"d.gguf": MODEL}, repo="datasets--x--d")
    folder = tempfile.mkdtemp(dir=TMP)
    for name, data in {"one.gguf": MODEL, "sub/two.gguf": OTHER, "readme.txt": b"x", **{"sub/" + k: v for k, v in parts.items()}}.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    env = {"LLMRUN_MODELS": folder}
    r = home.run(None, "--models", "--json", env=env)
    check(r.rc == 0, repr(r))
    rows = json.loads(r.out)
    mine = [REPO + x for x in (":Q4_K_M", ":Q6_K", ":Q8_0", ":other.gguf")]
    same([row["name"] for row in rows], ["one", "sub/spm-Q4_K_M", "sub/two", *mine, "x/bad:Q4_0"], "names")
    same({row["name"]: row["bytes"] for row in rows}["sub/spm-Q4_K_M"], sum(map(len, parts.values())), "bytes of a split model")
    same(rows[-1]["architecture"], None, "a broken file")
    check("GGUF" in rows[-1]["problem"] or "file" in rows[-1]["problem"], rows[-1]["problem"])
    same([row["architecture"] for row in rows[:1] + rows[3:5]], ["llama"] * 3, "architectures")
    text = home.run(None, "--models", env=env)
    lines = text.out.decode().splitlines()
    same([line.split()[0] for line in lines], [row["name"] for row in rows], "names of the text")
    check(re.match(r"one +\d+(\.\d+)? (KiB|MiB) +\S.* +llama$", lines[0]) and text.err.count(b"\n") == 1, repr(text))
    for row in rows[:-1]:
        for name in [row["name"]] + [row["name"] + ".gguf"] * (row["name"] == "sub/two"):
            r = home.run(None, "-q", "-m", name, "--inspect", "--json", env=env)
            check(r.rc == 0, "%s: %r" % (name, r))
            same(os.path.realpath(json.loads(r.out)["file"]), os.path.realpath(row["path"]), name)
    good(home.run(None, "-m", "one", *SAYS, env=env))
    good(home.run(None, "-m", REPO, *SAYS, env=env))
    good(home.run(None, "-m", "one", "-md", "one", *SAYS, env=env))
    refused(home.run(None, "--bench", "-m", "one", "-m", "hf:a/b", "-p", "1", "--offline", env=env), 2, "a/b: is not in the cache", "--bench")
    refused(home.run(None, "-m", "three", *SAYS, env=env), 2, "a name that --models lists", "no such name")


@case
def removes():
    """--rm-model removes one model after asking, with blobs that nothing else links to; the folder of a repository goes with its last file."""
    home = Home()
    fill(home, {"m-Q4_K_M.gguf": MODEL, "m-Q8_0.gguf": OTHER, "same-Q6_K.gguf": MODEL, "README.md": b"x"})
    fill(home, {"m-Q4_K_M.gguf": MODEL}, "a" * 40)
    refused(home.run(None, "--rm-model", REPO + ":Q4_K_M"), 2, "expected --yes", "no terminal")
    refused(home.run(None, "--rm-model", REPO, "--yes"), 2, "3 models are here, expected one of", "several")
    refused(home.run(None, "--rm-model", "x/y", "--yes"), 2, "no such model is here", "none")
    same(len(home.blobs()), 3, "blobs")
    same(home.run(None, "--rm-model", REPO + ":Q4_K_M", "--yes").rc, 0, "exit")
    same(sorted(home.named()), ["README.md", "m-Q8_0.gguf", "same-Q6_K.gguf"], "what stays")
    same(len(home.blobs()), 3, "a blob that another name has stays")
    same(home.run(None, "--rm-model", REPO + ":Q6_K", "--yes").rc, 0, "exit")
    same(len(home.blobs()), 2, "a blob without a name goes")
    same(home.run(None, "--rm-model", REPO, "--yes").rc, 0, "the only one")
    same(sorted(home.named()), ["README.md"], "what stays")
    fill(home, {"d-Q4_0.gguf": MODEL}, repo="models--x--y")
    for answer, rc in (b"n\n", 1), (b"\n", 1), (b"\x04", 1), (b"y\n", 0):
        same(asked(home, answer), rc, "the answer %r" % answer)
        same(os.path.isdir(os.path.join(home.hub, "models--x--y")), rc == 1, "the folder")
    folder = tempfile.mkdtemp(dir=TMP)
    for name in "a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf":
        with open(os.path.join(folder, name), "wb") as f:
            f.write(MODEL)
    same(home.run(None, "--rm-model", "b", "--yes", env={"LLMRUN_MODELS": folder}).rc, 0, "exit")
    same(os.listdir(folder), ["a.gguf"], "the folder of models")


def asked(home, answer):
    """The exit code of --rm-model on a terminal, which answers so."""
    pid, fd = kit.fork_terminal()
    if pid == 0:
        os.execve(BIN, [BIN, "--rm-model", "x/y:Q4_0"], home.env())
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(fd, 1000)
    check(b"Remove x/y:Q4_0 (" in seen, repr(seen))
    os.write(fd, answer)
    status = os.waitpid(pid, 0)[1]
    os.close(fd)
    return os.waitstatus_to_exitcode(status)


@download
def bar():
    """On a terminal a bar shows how far the download is, its rate and the time left, and is gone at the end."""
    with Hub() as hub:
        hub.slow, home = 0.04, Home()
        pid, fd = kit.fork_terminal()
        if pid == 0:
            os.execve(BIN, [BIN, "-hf", REPO, *SAYS, "--no-stdin"], home.env(hub, COLUMNS="120"))
        seen = b""
        while True:
            try:
                piece = os.read(fd, 1000)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "exit: %r" % seen)
        os.close(fd)
        check(re.search(rb"\rmodel-Q4_K_M.gguf \[#+-+\] +\d+% [0-9.]+ KiB of [0-9.]+ KiB, [0-9.]+ (KiB|bytes)/s, 0:0\d left", seen), repr(seen))
        check(seen.rindex(b"\r\x1b[K") > seen.rindex(b"% "), "the bar stays: %r" % seen)


@download
def certificates():
    """A certificate that nobody vouches for is one line; SSL_CERT_FILE names who does; from TLS nothing leads to plain HTTP."""
    if not shutil.which("openssl"):
        raise Skip("no openssl")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp("key.pem"), "-out", tmp("cert.pem"), "-days", "30000", "-subj",
                           "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True)
    if made.returncode:
        raise Skip("openssl makes no certificate: %r" % made.stderr[-100:])
    with Hub(tls=(tmp("cert.pem"), tmp("key.pem"))) as hub, Hub() as plain:
        home = Home()
        fails(home.run(hub, "-hf", REPO, *SAYS), 2, "its certificate is not trusted", home)
        good(home.run(hub, "-hf", REPO, *SAYS, env={"SSL_CERT_FILE": tmp("cert.pem")}))
        whole(home)
        hub.status, home = {"/%s/resolve" % REPO: (302, {"Location": plain.url["other"] + "/bytes/model-Q4_K_M.gguf", "X_Repo_Commit": COMMIT})}, Home()
        fails(home.run(hub, "-hf", REPO, *SAYS, env={"SSL_CERT_FILE": tmp("cert.pem")}), 2, "expected an address of https", home)
        same(plain.seen, [], "requests without TLS")


@download
def as_files():
    """With -hf the chat, the sampling of the file and drafts are those of -m."""
    pip = read(os.path.join(HERE, "models", "pip-q4_k_m.gguf"))
    head = read(os.path.join(HERE, "models", "pip-draft-q8_0.gguf"))
    with Hub({"pip-Q4_K_M.gguf": pip, "draft-Q8_0.gguf": head}) as hub:
        home = Home()
        args = ("-p", "Who are you?", "-n", "12", "--seed", "3", "--json", "-t", "1")
        want = home.run(None, "-q", "-m", os.path.join(HERE, "models", "pip-q4_k_m.gguf"), *args)
        got = home.run(hub, "-q", "-hf", REPO, "-hfd", REPO + ":Q8_0", *args)
        check(want.rc == 0 and got.rc == 0, "%r %r" % (want, got))
        a, b = json.loads(want.out), json.loads(got.out)
        same(*[[c.get("text") or c.get("message") for c in x["choices"]] if "choices" in x else x.get("text") or x.get("message") for x in (b, a)], "answers")
        p = begin([BIN, "-q", "-hf", REPO, "--batch", "-", "-t", "1", "-n", "3"], env=home.env(None), stdin=subprocess.PIPE)
        r = finish(p, inp=b'{"prompt":"Once"}\n')
        check(r.rc == 0 and b'"finish_reason"' in r.out, repr(r))


@download
def oracle():
    """Hugging Face's package finds what was downloaded here, and what it has written runs here (skipped without huggingface_hub)."""
    try:
        import huggingface_hub as hf
    except ImportError:
        raise Skip("no huggingface_hub")
    parts = {"sub/spm-Q8_0-%05d-of-00003.gguf" % (i + 1): p.bytes() for i, p in enumerate(hostile.split_parts())}
    with Hub({"model-Q4_K_M.gguf": MODEL, **parts}) as hub:
        home, other = Home(), Home()
        good(home.run(hub, "-hf", REPO, *SAYS))
        check(home.run(hub, "-hf", REPO + ":Q8_0", "--inspect").rc == 0, "split")
        folder = hf.snapshot_download(REPO, cache_dir=home.hub, local_files_only=True)
        for name, data in {"model-Q4_K_M.gguf": MODEL, **parts}.items():
            same(read(os.path.join(folder, name)), data, name)
            same(os.path.realpath(hf.hf_hub_download(REPO, name, cache_dir=home.hub, local_files_only=True)), os.path.realpath(home.blob(data)), name)
        info = hf.scan_cache_dir(home.hub)
        same([(r.repo_id, r.nb_files, len(r.refs)) for r in info.repos] + list(info.warnings), [(REPO, 4, 1)], "its view of the cache")
        script = ("import sys; from huggingface_hub import hf_hub_download\n"
                  "for name in sys.argv[2:]: hf_hub_download(sys.argv[1], name)")
        r = finish(begin([sys.executable, "-c", script, REPO, "model-Q4_K_M.gguf", *parts], env=other.env(hub, HF_HUB_DISABLE_XET="1")))
        check(r.rc == 0, repr(r))
        good(other.run(None, "-hf", REPO, *SAYS))
        check(other.run(None, "-hf", REPO + ":Q8_0", "--inspect", "--offline").rc == 0, "split")
        same(sorted(os.path.relpath(os.path.join(d, f), other.repo) for d, _, fs in os.walk(other.repo) for f in fs if "trees" not in d),
             sorted(os.path.relpath(os.path.join(d, f), home.repo) for d, _, fs in os.walk(home.repo) for f in fs), "files of both caches")



@download
def checkpoint_oracle():
    """The same of checkpoints: what transformers would load from the cache is what is here, and the other way round (skipped without huggingface_hub)."""
    try:
        import huggingface_hub as hf
    except ImportError:
        raise Skip("no huggingface_hub")
    folder, files = checkpoint_of(shards=2)
    with hub_of(files) as hub:
        home, other = Home(), Home()
        want = home.run(hub, "-q", "-hf", REPO, *SAYS).out
        same(files_of(hf.snapshot_download(REPO, cache_dir=home.hub, local_files_only=True)), files, "its view of the folder")
        info = hf.scan_cache_dir(home.hub)
        same([(r.repo_id, r.nb_files, len(r.refs)) for r in info.repos] + list(info.warnings), [(REPO, len(files), 1)], "its view of the cache")
        script = "import sys; from huggingface_hub import hf_hub_download\nfor name in sys.argv[2:]: hf_hub_download(sys.argv[1], name)"
        r = finish(begin([sys.executable, "-c", script, REPO, *files], env=other.env(hub, HF_HUB_DISABLE_XET="1")))
        check(r.rc == 0, repr(r))
        same(other.run(None, "-q", "-hf", REPO, *SAYS).out, want, "text")
        same(sorted(other.blobs()), sorted(home.blobs()), "blobs of both caches")


sys.exit(kit.walk("hub", ARGS.words, TMP))
