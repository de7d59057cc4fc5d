"""llama.cpp's own tests of its server (tools/server/tests) against ./llmrun --serve. A wrapper maps llama-server's options.
    python3 tests/serve_peer.py ./llmrun PEER [WORD ...] [--install DIR]      PEER: llama.cpp's source; words: parts of names of tests (make serve-peer PEER=...)
Needs pytest, requests, openai and aiohttp, which --install puts into a virtual environment, and the model stories260K.gguf (SHARED/data); skipped without them.
A test that fails is about another feature (OTHERS, or an option without a counterpart), needs a file that is not here, or is answered in another way on purpose
(DIFFERENT); one that is none of these is a fault. Left out are files about what --serve does not have at all: LoRA, slots, routing between models, MCP, pictures, infill,
/completion's ignore_eos, resuming of streams; and cases marked slow, which load large models from the network."""
import json, os, re, shutil, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.path.abspath(os.environ.get("SHARED", os.path.join(HERE, "..", "shared")))
STORIES = os.path.join(SHARED, "data", "stories260K.gguf")
ENCODERS = os.path.join(HERE, "tests", "data", "encoders")
PACKAGES = ["pytest", "requests", "openai", "aiohttp"]
FILES = ["test_basic", "test_chat_completion", "test_compat_anthropic", "test_compat_oai_responses", "test_completion", "test_ctx_shift", "test_embedding", "test_rerank",
         "test_security", "test_template", "test_tokenize", "test_tool_call"]
CHATML = ("{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}{%- endfor -%}"
          "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}")

OTHERS = [                                              # a pattern of "FILE TEST[PARAMETERS]", what it is about
    (r"test_completion test_(?!completion_with_openai_library$|completion_stream_with_openai)|test_ctx_shift test_(?!ctx_shift_disabled_stream)|correct_api_key(_anthropic_header)?$",
     "/completion, and /completions without /v1: llama.cpp's own shape"),
    (r"test_chat_completion\[|test_chat_completion_stream\[|_with_openai_library$", "the text that llama.cpp's random numbers draw, and its build as the fingerprint"),
    (r"test_server_(props|slots)|static_assets", "/props, /slots, files of its page"),
    (r"test_chat_template$|assistant_prefill|vllm_compat|verbose_debug", "__verbose in answers"),
    (r"test_apply_chat_template$", "a template by its name in llama.cpp"),
    (r"timings_per_token|return_progress|llama_telemetry", "timings and progress in chunks"),
    (r"token_count$", "/chat/completions/input_tokens"),
    (r"vision|local_media", "pictures"),
    (r"mixed_input\[input[37]", "token ids and texts mixed in one prompt"),
    (r"pooling_none$", "/embeddings without /v1: llama.cpp's own shape"),
    (r"cors_o", "origins: any without an option, localhost for all of loopback"),
]
NEEDS = [
    (r"embedding_usage", "the vocabulary of bge-small"),
    (r"rerank_usage|test_rerank$|rerank_tei_format$", "the reranker jina-reranker-v1-tiny-en"),
]
DIFFERENT = [
    (r"test_logprobs_stream", "the content of the first chunk is \"\", as in OpenAI's streams, and not null"),
    (r"context_size_exceeded", "a prompt that is too long: type and code of the error are OpenAI's"),
    (r"incorrect_api_key", "a wrong key: type and code of the error are OpenAI's"),
    (r"access_public_endpoint\[/models", "the list of models needs the key"),
    (r"invalid_chat_completion_req\[messages7\]", "two answers in a row are taken where the template takes them"),
    (r"tool_result_with_image", "a picture in the result of a tool is left out, which the text says"),
    (r"anthropic_empty_messages", "a conversation without messages is refused, as Anthropic's servers do"),
    (r"pooling_none_oai", "--pooling none: a vector for each token, not an error"),
    (r"prompt_too_long$", "other words for a text that is too long to embed"),
]

PLUGIN = """
import os, sys, types
sys.modules.setdefault("wget", types.ModuleType("wget"))
import pytest

HINT = os.path.join(os.environ["PEER_TMP"], "hint")

def pytest_configure(config):
    import utils
    utils.ServerPreset.load_all = staticmethod(lambda: None)

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or report.failed or report.skipped:
        import json
        hint = open(HINT).read() if os.path.exists(HINT) else ""
        if hint:
            os.unlink(HINT)
        why = str(call.excinfo.value).split("\\n")[0] if call.excinfo else ""
        with open(os.environ["PEER_RESULTS"], "a") as f:
            f.write(json.dumps([item.nodeid, report.outcome, why, hint]) + "\\n")
"""


FLAGS = {"--temp": "--temp", "--seed": "--seed", "--alias": "--alias", "--n-predict": "-n", "--api-key": "--api-key", "--threads": "-t", "-ctk": "-ctk", "-ctv": "-ctv",
         "--cors-origins": "--cors", "--pooling": "--pooling"}   # that have a value, and what llmrun calls them
DROPPED = {"--hf-repo", "--batch-size", "--ubatch-size", "-fa", "--chat-template", "--reasoning-format"}     # that have one, and are of no use here
BARE = {"--context-shift": ["--context-shift"], "--no-slots": [], "--jinja": [], "--no-jinja": [], "--offline": [], "--embedding": [], "--reranking": [], "--cont-batching": [],
        "--kv-unified": [], "--verbose": ["-v"], "--metrics": []}
MODELS = {"bert-bge-small": "modern-bert.gguf", "jina-reranker": "modern-bert_rank.gguf"}        # by a part of their names; else stories260K


def long_encoder(name, to):
    """Writes an encoder of the tests with a context of 2048 tokens: it has no table of positions."""
    with open(os.path.join(ENCODERS, name), "rb") as f:
        data = f.read()
    key = b"modern-bert.context_length" + struct.pack("<I", 4)
    at = data.index(key) + len(key)
    with open(to, "wb") as f:
        f.write(data[:at] + struct.pack("<I", 2048) + data[at + 4:])


def no(why):
    """Ends the wrapper, and tells the plugin why."""
    with open(os.path.join(os.environ["PEER_TMP"], "hint"), "w") as f:
        f.write(why)
    sys.exit(why)


def wrapper(argv):
    """What llama-server's command line is for llmrun. An option without a counterpart ends it: the case is about another feature."""
    model, own, value, template, i = STORIES, [], {"--host": "127.0.0.1", "--port": "8080", "--parallel": "1"}, os.path.join(os.environ["PEER_TMP"], "chatml.jinja"), 0
    while i < len(argv):
        name = argv[i]
        i += 1
        if name in BARE:
            own += BARE[name]
            continue
        given = argv[i] if i < len(argv) else ""
        i += 1
        if name in FLAGS:
            own += [FLAGS[name], given]
        elif name in ("--host", "--port", "--parallel", "--ctx-size"):
            value[name] = given
        elif name == "--hf-file":
            model = next((os.path.join(os.environ["PEER_TMP"], f) for part, f in MODELS.items() if part in given), STORIES)
            if model == STORIES and "stories260K" not in given:
                no("needs a model: " + given)
        elif name == "--chat-template-file":
            template = given if os.path.exists(given) else os.path.join(SHARED, "data", "templates", os.path.basename(given))
            if not os.path.exists(template):
                no("needs a template: " + os.path.basename(given))
        elif name == "--reasoning":
            own += ["--think", "off" if given == "off" else "on"]
        elif name not in DROPPED:
            no("option: " + name)
        if name == "--hf-repo" and not any(part in given for part in ("stories260K", "ggml-org/models")):
            no("needs a model: " + given)
    if "--ctx-size" in value and model == STORIES:
        own += ["-c", str(max(int(value["--ctx-size"]) // int(value["--parallel"]), 1))]
    if model.endswith("rank.gguf"):
        own += ["--pooling", "rank"]
    if model == STORIES:
        own += ["--chat-template-file", template]
    own = [x for k, x in enumerate(own) if model == STORIES or x not in ("--temp", "--seed", "-n") and (not k or own[k - 1] not in ("--temp", "--seed", "-n"))]
    return [os.environ["PEER_LLMRUN"], "-m", model, *own, "-np", value["--parallel"], "--serve", "%s:%s" % (value["--host"], value["--port"])]


def main():
    if os.environ.get("PEER_LLMRUN"):
        command = wrapper(sys.argv[1:])
        os.execv(command[0], command)
    if "--install" in sys.argv:
        import kit
        kit.install(PACKAGES)
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    llmrun, peer, words = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    tests = next((p for p in (os.path.join(peer, "tools", "server", "tests"), peer) if os.path.exists(os.path.join(p, "utils.py"))), None)
    missing = [m for m in PACKAGES if subprocess.run([sys.executable, "-c", "import " + m], stderr=subprocess.DEVNULL).returncode]
    if not tests or missing or not os.path.exists(STORIES):
        print("serve_peer: skipped: %s" % ("no tools/server/tests in %s" % peer if not tests else "no package %s" % ", ".join(missing) if missing else "no " + STORIES))
        return 0
    tmp = tempfile.mkdtemp(prefix="llmrun-peer-")
    try:
        for name, text in ("peer_plugin.py", PLUGIN), ("chatml.jinja", CHATML), ("server", "#!/bin/sh\nexec %s %s \"$@\"\n" % (sys.executable, os.path.abspath(__file__))):
            with open(os.path.join(tmp, name), "w") as f:
                f.write(text)
        os.chmod(os.path.join(tmp, "server"), 0o700)
        for name in MODELS.values():
            long_encoder(name, os.path.join(tmp, name))
        env = dict(os.environ, PEER_LLMRUN=llmrun, PEER_TMP=tmp, PEER_RESULTS=os.path.join(tmp, "results"), LLAMA_SERVER_BIN_PATH=os.path.join(tmp, "server"),
                   PYTHONPATH=tmp + os.pathsep + tests, PORT="8139", PYTHONDONTWRITEBYTECODE="1", SHARED=SHARED)
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "peer_plugin", "-p", "no:cacheprovider", "--tb=no", "-m", "not slow",
                              *(["-k", " or ".join(words)] if words else []), *["unit/%s.py" % f for f in FILES]], cwd=tests, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not os.path.exists(env["PEER_RESULTS"]):
            print(run.stdout.decode("utf-8", "replace")[-2000:])
            return 1
        with open(env["PEER_RESULTS"]) as f:
            results = [json.loads(line) for line in f]
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return judge(results)


def judge(results):
    counts, passed, faults = {}, 0, 0
    kinds = ("different", DIFFERENT), ("other", OTHERS), ("needs", NEEDS)
    for name, outcome, why, hint in results:
        short = name.split("unit/", 1)[-1].replace(".py::", " ")
        row = next(((kind, reason) for kind, rows in kinds for pattern, reason in rows if re.search(pattern, short)), None)
        if hint.startswith("needs "):
            row = "needs", hint[6:]
        elif hint:
            row = "other", hint
        if outcome == "passed":
            passed += 1
        elif outcome == "failed" and row:
            counts[row] = counts.get(row, 0) + 1
        elif outcome == "failed":
            faults += 1
            print("FAIL  %s: %s" % (short, why[:200]))
    total = {kind: 0 for kind, _ in kinds}
    for kind, title in ("different", "answered in another way"), ("other", "about another feature"), ("needs", "needs what is not here"):
        for (k, reason), n in counts.items():
            if k == kind:
                total[kind] += n
                print("%s: %d: %s" % (title, n, reason))
    ours = passed + faults + total["different"]
    print("serve_peer: %d of %d cases about features of --serve pass (%.0f %%): %d are answered in another way, %d fail; %d are about other features, %d need files that are not here" % (
        passed, ours, 100.0 * passed / max(ours, 1), total["different"], faults, total["other"], total["needs"]))
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
