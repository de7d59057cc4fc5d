"""llama.cpp's own tests of its server (tools/server/tests) against ./llmrun --serve: those about what SERVE has. A wrapper maps llama-server's options.
    python3 tests/serve_peer.py ./llmrun PEER [WORD ...]      PEER: llama.cpp's source; words: parts of names of tests (make serve-peer PEER=...)
Needs pytest, requests, openai, aiohttp and the model stories260K.gguf (SHARED/data); skipped without them. A test that cannot hold here has its reason below;
one that fails and has none is a fault."""
import json, os, re, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STORIES = os.path.join(os.environ.get("SHARED", os.path.join(HERE, "..", "shared")), "data", "stories260K.gguf")
FILES = ["test_basic", "test_chat_completion", "test_compat_anthropic", "test_compat_oai_responses", "test_completion", "test_security", "test_template", "test_tokenize"]
CHATML = ("{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}{%- endfor -%}"
          "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}")

REASONS = [                                             # a pattern of "FILE TEST[PARAMETERS]", why it cannot pass
    (r"test_completion test_(completion\[|completion_stream\[|completion_stream_vs|consistent|different|nocache|json_prompt|completion_with_tokens|completion_parallel|completion_unified|"
     r"completion_response_fields|n_probs|logit_bias|cancel_request|completion_prompt_cache)", "POST /completion, llama.cpp's own shape"),
    (r"test_security test_correct_api_key", "/completions has llama.cpp's own shape there, and OpenAI's here"),
    (r"test_chat_completion test_chat_completion\[|test_(chat_completion|completion|completion_stream|responses)_with_openai_library$|test_responses_stream_with_openai",
     "a text that llama.cpp's random numbers draw, and its build as the fingerprint"),
    (r"test_load_split_model|library_stops|multimodal_model|with_reasoning_model|jpeg|vision", "a model from the network, or one that reads pictures"),
    (r"test_server_(props|slots|model_aliases)|test_no_ui|static_assets|cors_proxy|tools_enabled", "/props, /slots, tags, --no-ui, files of its page, its proxy: llama.cpp's own"),
    (r"test_chat_completion_stream\[|test_logprobs_stream", "the content of the first chunk is \"\", as in OpenAI's streams, and not null"),
    (r"test_chat_template$|verbose_debug", "__verbose: llama.cpp's own"),
    (r"prefill|vllm_compat|apply_chat_template|thinking_history|test_template ", "a template by its name in llama.cpp, or of its models/templates"),
    (r"test_completion_with_json_schema", "json_schema in the body: llama.cpp's own; response_format has it"),
    (r"invalid_chat_completion_req\[messages7\]", "two answers in a row, which the template takes"),
    (r"timings_per_token|return_progress|llama_telemetry", "timings and progress in chunks: llama.cpp's own"),
    (r"context_size_exceeded", "the type of the error is OpenAI's (invalid_request_error, code context_length_exceeded)"),
    (r"incorrect_api_key", "the same (invalid_request_error, code invalid_api_key)"),
    (r"token_count$", "POST /chat/completions/input_tokens: llama.cpp's own"),
    (r"tool_result_with_image", "pictures in the result of a tool are left out, and the text says so"),
    (r"anthropic_empty_messages", "a conversation without messages is refused, as Anthropic's servers do"),
    (r"test_access_public_endpoints|models\]", "the list of models needs the key; only /health is open"),
    (r"cors_options|localhost|127\.0\.0\.1|::1|evil|mydomain", "an answer to OPTIONS is 204, and only the origin of --cors is let in"),
]

PLUGIN = """
import sys, types
sys.modules.setdefault("wget", types.ModuleType("wget"))
import pytest

def pytest_configure(config):
    import utils
    utils.ServerPreset.load_all = staticmethod(lambda: None)

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or report.failed or report.skipped:
        import json, os
        why = str(call.excinfo.value).split("\\n")[0] if call.excinfo else ""
        with open(os.environ["PEER_RESULTS"], "a") as f:
            f.write(json.dumps([item.nodeid, report.outcome, why]) + "\\n")
"""


def wrapper(argv):
    """What llama-server's command line is for llmrun."""
    own, host, port, slots, ctx, i = ["-m", STORIES], "127.0.0.1", "8080", 1, None, 0
    value = {"--temp": "--temp", "--seed": "--seed", "--alias": "--alias", "--n-predict": "-n", "--api-key": "--api-key", "--threads": "-t", "-ctk": "-ctk", "-ctv": "-ctv",
             "--chat-template-file": "--chat-template-file", "--cors-origins": "--cors"}
    template = False
    while i < len(argv):
        name, given = argv[i], argv[i + 1] if i + 1 < len(argv) else ""
        if name in value:
            own += [value[name], given]
            template |= name == "--chat-template-file"
        elif name == "--host":
            host = given
        elif name == "--port":
            port = given
        elif name == "--parallel":
            slots = int(given)
        elif name == "--ctx-size":
            ctx = int(given)
        elif name == "--context-shift":
            own.append("--context-shift")
        elif name in ("--hf-repo",) and "stories260K" not in given or name in ("--lora", "--mmproj-url", "--models-dir", "--model-draft"):
            sys.exit("no such model here")
        i += 1 + (name.startswith("-") and not given.startswith("--") and bool(given) and name not in ("--context-shift", "--no-slots", "--slots", "--jinja", "--no-jinja", "--metrics",
                  "--offline", "--embedding", "--reranking", "--cont-batching", "--kv-unified", "--verbose", "--no-ui"))
    if ctx:
        own += ["-c", str(max(ctx // slots, 1))]
    if not template:
        path = os.path.join(os.environ["PEER_TMP"], "chatml.jinja")
        own += ["--chat-template-file", path]
    return [os.environ["PEER_LLMRUN"], *own, "-np", str(slots), "--serve", "%s:%s" % (host, port)]


def main():
    if os.environ.get("PEER_LLMRUN"):
        command = wrapper(sys.argv[1:])
        os.execv(command[0], command)
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    llmrun, peer, words = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    tests = next((p for p in (os.path.join(peer, "tools", "server", "tests"), peer) if os.path.exists(os.path.join(p, "utils.py"))), None)
    missing = [m for m in ("pytest", "requests", "openai", "aiohttp") if subprocess.run([sys.executable, "-c", "import " + m], stderr=subprocess.DEVNULL).returncode]
    if not tests or missing or not os.path.exists(STORIES):
        print("serve_peer: skipped: %s" % ("no tools/server/tests in %s" % peer if not tests else "no package %s" % ", ".join(missing) if missing else "no " + STORIES))
        return 0
    tmp = tempfile.mkdtemp(prefix="llmrun-peer-")
    try:
        for name, text in ("peer_plugin.py", PLUGIN), ("chatml.jinja", CHATML), ("server", "#!/bin/sh\nexec %s %s \"$@\"\n" % (sys.executable, os.path.abspath(__file__))):
            with open(os.path.join(tmp, name), "w") as f:
                f.write(text)
        os.chmod(os.path.join(tmp, "server"), 0o700)
        env = dict(os.environ, PEER_LLMRUN=llmrun, PEER_TMP=tmp, PEER_RESULTS=os.path.join(tmp, "results"), LLAMA_SERVER_BIN_PATH=os.path.join(tmp, "server"),
                   PYTHONPATH=tmp + os.pathsep + tests, PORT="8139", PYTHONDONTWRITEBYTECODE="1")
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "peer_plugin", "-p", "no:cacheprovider", "--tb=no",
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
    passed, failed, faults = 0, 0, 0
    for name, outcome, why in results:
        short = name.split("unit/", 1)[-1].replace(".py::", " ")
        reason = next((r for r in REASONS if re.search(r[0], short)), None)
        if outcome == "passed":
            passed += 1
        elif outcome == "failed" and reason:
            failed += 1
        elif outcome == "failed":
            faults += 1
            print("FAIL  %s: %s" % (short, why[:200]))
    for pattern, why in REASONS:
        first = lambda short: next((p for p, _ in REASONS if re.search(p, short)), None)
        n = sum(1 for name, outcome, _ in results if outcome == "failed" and pattern == first(name.split("unit/", 1)[-1].replace(".py::", " ")))
        if n:
            print("not   %d: %s" % (n, why))
    print("serve_peer: %d passed, %d failed, %d cannot hold here" % (passed, faults, failed))
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
