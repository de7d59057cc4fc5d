#!/usr/bin/env python3
"""Tests of checkpoints by running the command on folders of safetensors.

    python3 tests/import.py ./llmrun [WORD ...]     cases whose name holds a word, else all

checkpoint.py makes the folders, quantised.py matrices of quantised ones with the weights that each library gives. That files equal those of
llama.cpp's converter is shown by tests/gen/import_peer.py, which records digests of them in data/golden/import.json; here the digests are
compared.
"""
import argparse, hashlib, json, os, random, shutil, struct, sys, zlib
import checkpoint as c
from kit import begin, case, check, done, finish, new_folder, refused, same, walk
from quantised import MAKERS, gpt_oss

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(HERE, "tests", "data", "golden", "import.json")
TMP = new_folder("import")
O = None                               # options of this script
TEXT = "the cat and the thing in the morning"


def tmp(name):
    return os.path.join(TMP, name)


def run(*args, timeout=60):
    return finish(begin([O.binary, *args, "-q"]), timeout)


def good(*args, **kw):
    return done(run(*args, **kw), args)


def folder(name, *args, **kw):
    path = tmp("%s-%d" % (name, len(os.listdir(TMP))))
    c.write(path, name, *args, **kw)
    return path


def convert(path, kind):
    out = tmp("out-%d.gguf" % len(os.listdir(TMP)))
    good("-m", path, "--quantize", kind, "-o", out)
    return out


def logits(model, text=TEXT):
    out = tmp("logits.f32")
    good("-m", model, "--logits", out, "--raw", "-p", text)
    with open(out, "rb") as f:
        return f.read()


def dump(model, tensor):
    return good("-m", model, "--dump-tensor", tensor)


def report(model):
    return json.loads(good("-m", model, "--inspect", "--json"))


def keys_of(model):
    return {k["key"]: k.get("value") for k in report(model)["metadata"]}


def types(model):
    return {t["name"]: t["type"] for t in report(model)["tensors"]}


def read_file(path):
    """Keys and tensors of a GGUF file."""
    import gguf_digest
    with open(path, "rb") as f:
        return gguf_digest.read(f.read())


def digest(path):
    """Of names, shapes, types and values of all tensors, and of the keys that are not about the file."""
    import gguf_digest
    return gguf_digest.digest(path)


# --- folders as they are ---------------------------------------------------------------------------------------------
RUNS = ["llama", "llama_bias", "llama_tied", "mixtral", "qwen2", "qwen3moe", "gemma2", "phi3", "gpt2", "internlm2", "baichuan", "chatglm", "gpt_oss",
        "falcon", "gptneox", "phi2", "stablelm", "phimoe", "mpt", "command-r", "deepseek2", "plm", "arctic", "deepseek32", "glm-dsa", "deepseek4", "kimi-linear", "mimo2", "step35",
        "exaone-moe", "exaone4", "minimax-m3", "qwen4exp", "openelm", "grok", "grok_1", "bitnet", "bitnet_2b4t", "laguna", "smallthinker", "grovemoe", "nanbeige", "maincoder", "deci", "deci_7b", "bailingmoe2", "sarvam", "talkie",
        "hunyuan_vl", "mistral4", "plamo2", "plamo3", "rwkv7", "rwkv7_own", "rwkv7_joined", "arwkv7", "rwkv6", "rwkv6qwen2"]
TEXTS = ["dream", "llada", "llada-moe", "t5", "t5_gated"]      # their logits are not those of tokens in turn


@case
def runs_as_its_file():
    """A folder gives the logits of the GGUF file that --quantize auto makes of it, to the bit"""
    for name in RUNS:
        path = folder(name)
        same(logits(path), logits(convert(path, "auto")), name)


@case
def answers_as_its_file():
    """A folder of a model that answers a text as a whole gives the answers of its file; that of T5's encoder its vectors"""
    def answer(model):
        return good("-m", model, "--raw", "-p", TEXT, "-n", "6", "--temp", "0", "--seed", "1")
    for name in TEXTS:
        path = folder(name)
        same(answer(path), answer(convert(path, "auto")), name)
    path = folder("t5encoder")
    same(good("-m", path, "--embed", "-p", TEXT), good("-m", convert(path, "auto"), "--embed", "-p", TEXT), "t5encoder")


@case
def floats_are_equal():
    """F16 and F32 folders give the logits of their files, and so does a folder in shards"""
    for dtype in ("F16", "F32"):
        path = folder("llama", dtype)
        want = logits(convert(path, "auto"))
        same(logits(path), want, dtype)
        same(set(t for n, t in types(path).items() if n.endswith("attn_q.weight")), {dtype.lower()}, dtype)
        same(logits(folder("llama", dtype, shards=3)), want, "%s in shards" % dtype)


@case
def equals_the_converter():
    """What is written is what llama.cpp's converter wrote for the same folder: tensors, shapes, values, keys"""
    with open(GOLDEN) as f:
        golden = json.load(f)
    for name, want in golden.items():
        same(digest(convert(folder(name), "BF16")), want, name)


@case
def bitnet_2b4t():
    """transformers' BitNet has relu squared: its logits in float64 (gen/import_peer.py); its matrices are rounded where the config says so"""
    with open(os.path.join(HERE, "tests", "data", "golden", "import_bitnet.f32"), "rb") as f:
        raw = f.read()
    want = struct.unpack("<%df" % (len(raw) // 4), raw)
    raw = logits(folder("bitnet_2b4t", "F32"))
    got = struct.unpack("<%df" % (len(raw) // 4), raw)
    same(len(got), len(want), "logits")
    error = sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)
    same(error <= 1e-6, True, "nmse %g, at most 1e-6" % error)
    for mode, n in (("offline", None), ("online", 3)):
        path = tmp("bitnet_" + mode)
        config = dict(c.config_of("bitnet_2b4t"), quantization_config={"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": mode})
        c.write(path, "bitnet_2b4t", "F32", config=config)
        values = set(struct.unpack("<%df" % (c.F * c.D), dump(path, "blk.0.ffn_up.weight")))
        same(len(values) == 3, n == 3, "%s: %d values" % (mode, len(values)))
    path = tmp("bitnet_silu")
    c.write(path, "bitnet_2b4t", "F32", config=dict(c.config_of("bitnet_2b4t"), hidden_act="silu"))
    same(report(path)["architecture"], "bitnet", "with SiLU")


@case
def centred_biases():
    """Sarvam's biases of experts are stored less their mean; llama.cpp's converter takes it in the type of the tensor"""
    raw = c.tensors_of("sarvam", "F32")["model.layers.1.mlp.gate.expert_bias"][2]
    values = struct.unpack("<%df" % c.E, raw)
    mean, = struct.unpack("<f", c.f32([sum(values) / c.E]))
    same(dump(convert(folder("sarvam", "F32"), "F32"), "blk.1.exp_probs_b.bias"), c.f32([x - mean for x in values]), "biases")


@case
def norms_of_heads():
    """StableLM's norms of each head become rows of one tensor, which the converter cannot do"""
    values = {(part, i): [1 + (i + k) / 64 for k in range(c.HD)] for part, n in (("q", c.H), ("k", c.KV)) for i in range(n)}
    more = {"model.layers.%d.self_attn.%s_layernorm.norms.%d.weight" % (layer, part, i): ("F32", (c.HD,), c.f32(v))
            for layer in range(c.L) for (part, i), v in values.items()}
    path = folder("stablelm", tensors=dict(c.tensors_of("stablelm"), **more))
    for part, n in (("q", c.H), ("k", c.KV)):
        same(dump(path, "blk.1.attn_%s_norm.weight" % part), b"".join(c.f32(values[part, i]) for i in range(n)), part)
    same(logits(path), logits(convert(path, "auto")), "logits")


@case
def streams():
    """A model in parts, --dry-run and threads change no byte of what is written"""
    path = folder("mixtral")
    with open(convert(path, "Q8_0"), "rb") as f:
        want = f.read()
    for threads in ("1", "3"):
        out = tmp("t%s.gguf" % threads)
        good("-m", path, "--quantize", "Q8_0", "-o", out, "-t", threads)
        with open(out, "rb") as f:
            same(f.read(), want, threads + " threads")
    check("ffn_gate_exps" in good("-m", path, "--quantize", "Q8_0", "--dry-run").decode(), "--dry-run lists no experts")


@case
def encoder():
    """A folder of an encoder gives vectors, pooled as modules.json says, equal to those of its file"""
    path = folder("bert", "F32")
    want = good("-m", convert(path, "F32"), "--embed", "-p", "the cat sat on the mat.")
    same(good("-m", path, "--embed", "-p", "the cat sat on the mat."), want, "vector")
    same(keys_of(path)["bert.pooling_type"], 1, "pooling")


@case
def labels():
    """All labels of a classifier are written, in the order of the config"""
    names = ["kind %d" % i for i in range(150)]
    tensors = dict(c.tensors_of("bert"), **{"classifier.weight": ("F32", (150, c.D), b"\0" * 600 * c.D), "classifier.bias": ("F32", (150,), b"\0" * 600)})
    config = dict(c.config_of("bert"), architectures=["BertForSequenceClassification"], id2label={str(i): n for i, n in enumerate(names)})
    keys, _ = read_file(convert(folder("bert", tensors=tensors, config=config), "F32"))
    same(keys["bert.classifier.output_labels"][1], b"8 150 " + b"\0".join(n.encode() for n in names), "labels")


@case
def metadata():
    """Tokens, special tokens, the chat template and sampling defaults of the folder are keys of the file"""
    keys = keys_of(folder("llama"))
    same(keys["tokenizer.ggml.pre"], "gpt-2", "pre-tokenizer")
    same(keys["tokenizer.ggml.bos_token_id"], 267, "start token")
    same(keys["tokenizer.ggml.eos_token_id"], 268, "end token")
    check(abs(keys["general.sampling.temp"] - 0.7) < 1e-6, "temperature")
    path = folder("llama")
    check("user: Hi" in good("-m", path, "--render", "-f", put_json("m.json", [{"role": "user", "content": "Hi"}])).decode(), "template")
    same(good("-m", path, "--tokenize", "-p", "the<tool>").split(), [b"257", b"269"], "a token of the user")


def put_json(name, what):
    c.put(TMP, name, what)
    return tmp(name)


PRES = [({"type": "ByteLevel", "use_regex": True}, {}, "gpt-2"),
        ({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "use_regex": True}]}, {}, "starcoder"),
        ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", {}, "qwen2"),
        ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", {"ignore_merges": True}, "llama-bpe"),
        ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", {}, "glm4")]


@case
def pre_tokenizers():
    """The pre-tokenizer is found by its rules; one that is not known is refused"""
    for pre, more, want in PRES + [("[a-c]+", {}, None)]:
        path = folder("llama")
        if isinstance(pre, str):
            pre = {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": pre}, "behavior": "Isolated", "invert": False},
                                                         {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}
        c.put(path, "tokenizer.json", c.bpe(pre, **more))
        if want:
            same(keys_of(path)["tokenizer.ggml.pre"], want, want)
        else:
            refused(run("-m", path, "--inspect"), 2, "pre-tokenizer", "an unknown pre-tokenizer")


@case
def sentencepiece_model():
    """tokenizer.model is read: pieces, scores, types, and ids of the config beyond them"""
    path = folder("llama")
    os.remove(os.path.join(path, "tokenizer.json"))
    c.put(path, "tokenizer.model", c.sentencepiece())
    c.put(path, "tokenizer_config.json", {"add_bos_token": True})
    same(good("-m", path, "--tokenize", "-p", "the thea").split(), [b"265", b"265", b"267"], "tokens")
    same(keys_of(path)["tokenizer.ggml.model"], "llama", "model")


@case
def sentencepiece_json():
    """SentencePiece in tokenizer.json: ranks of merges are scores, so a text gets the tokens that its merges give"""
    path = folder("llama")
    words = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + ["\u2581", "a", "b", "c", "bc", "ab", "abc"]
    c.put(path, "tokenizer.json", {"added_tokens": [dict(id=i, content=words[i], special=True) for i in range(3)], "pre_tokenizer": None,
                                   "decoder": {"type": "Sequence"},
                                   "model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "vocab": {w: i for i, w in enumerate(words)},
                                             "merges": ["b c", "a b", "a bc"]}})
    c.put(path, "tokenizer_config.json", {"add_prefix_space": False})
    same(good("-m", path, "--tokenize", "-p", "abab").split(), [b"264", b"264"], "two merges")
    same(good("-m", path, "--tokenize", "-p", "abc").split(), [b"265"], "the first merge wins")


# --- quantised checkpoints -------------------------------------------------------------------------------------------
def quantised(name):
    """A llama folder whose ffn_up matrices are quantised, and the weights of each."""
    rng = random.Random(zlib.crc32(name.encode()))
    tensors, want, config = c.tensors_of("llama"), {}, c.config_of("llama")
    for i in range(c.L):
        base = "model.layers.%d.mlp.up_proj" % i
        del tensors[base + ".weight"]
        parts, more, rows = MAKERS[name][0](rng, c.F, c.D)
        tensors.update({base + "." + n: t for n, t in parts.items()})
        want["blk.%d.ffn_up.weight" % i] = rows
        config["quantization_config"] = more
    return folder("llama", tensors=tensors, config=config), want


@case
def quantised_to_the_bit():
    """GPTQ, AWQ, FP8, bitsandbytes, compressed-tensors, MXFP4 and NVFP4 become F32 as each library computes them, to the bit"""
    for name in MAKERS:
        path, want = quantised(name)
        out = convert(path, "F32")
        for tensor, rows in want.items():
            same(dump(out, tensor), c.f32([x for r in rows for x in r]), "%s, %s" % (name, tensor))


@case
def quantised_auto():
    """auto keeps what a GGUF type holds exactly: values are those of F32, to the bit; the folder runs as its file"""
    for name, (_, kind) in MAKERS.items():
        path, want = quantised(name)
        out = convert(path, "auto")
        got = types(out)["blk.0.ffn_up.weight"]
        check(kind is None or got == kind, "%s: type %s, expected %s" % (name, got, kind))
        if got in ("q4_0", "q4_1", "q8_0", "mxfp4"):       # adding 0 makes 0 of -0, which GGUF's MXFP4 does not have
            same(dump(out, "blk.0.ffn_up.weight"), c.f32([x + 0.0 for r in want["blk.0.ffn_up.weight"] for x in r]), name)
        same(logits(path), logits(out), name)


@case
def experts_in_blocks():
    """gpt-oss as published: MXFP4 blocks of experts keep codes and scales, even rows are gates, odd ones ups"""
    tensors, want = gpt_oss(random.Random(5), c.tensors_of("gpt_oss"), c.L, c.E, c.FE, c.D)
    path = folder("gpt_oss", tensors=tensors, config=dict(c.config_of("gpt_oss"), quantization_config=dict(quant_method="mxfp4")))
    exact, kept = convert(path, "F32"), convert(path, "auto")
    for name, experts in want.items():
        values = [x for e in experts for r in e for x in r]
        same(types(kept)[name], "mxfp4", name)
        same(dump(exact, name), c.f32(values), name + " in F32")
        same(dump(kept, name), c.f32([x + 0.0 for x in values]), name)        # GGUF's MXFP4 has no -0
    same(logits(path), logits(kept), "logits")


@case
def tables_and_scales():
    """DeepSeek V4 as published: experts keep FP4 codes and scales, FP8 its values, lists of experts become numbers of 32 bits; draft heads are left out;
    the config that frameworks write gives the same keys"""
    t = c.tensors_of("deepseek4")
    path = folder("deepseek4")
    kept, exact = convert(path, "auto"), convert(path, "F32")
    _, tensors = read_file(kept)
    ids = struct.unpack("<%dq" % (2 * c.V), t["layers.0.ffn.gate.tid2eid"][2])
    same(tensors["blk.0.ffn_gate_tid2eid.weight"][1:], ((2, c.V), struct.pack("<%di" % len(ids), *ids)), "lists of experts")
    fp4 = [s * x for s in (1, -1) for x in (0, .5, 1, 1.5, 2, 3, 4, 6)]
    for name, of in (("gate", "w1"), ("down", "w2"), ("up", "w3")):
        want = []
        for e in range(c.E):
            _, shape, codes = t["layers.1.ffn.experts.%d.%s.weight" % (e, of)]
            scales = t["layers.1.ffn.experts.%d.%s.scale" % (e, of)][2]
            want += [fp4[codes[i // 2] >> i % 2 * 4 & 15] * 2.0 ** (scales[i // 32] - 127) + 0.0 for i in range(2 * shape[0] * shape[1])]
        name = "blk.1.ffn_%s_exps.weight" % name
        same(types(kept)[name], "mxfp4", name)
        same(dump(kept, name), c.f32(want), name)
    codes, scale = t["layers.1.attn.wq_b.weight"][2], t["layers.1.attn.wq_b.scale"][2][0]
    want = [(-1 if b & 128 else 1) * (1 + (b & 7) / 8) * 2.0 ** ((b >> 3 & 15) - 7 + scale - 127) for b in codes]
    same(dump(exact, "blk.1.attn_q_b.weight"), c.f32(want), "FP8")
    check(not any(n.startswith("blk.2.") for n in types(kept)), "no draft head")
    def own(path):
        return {k: v for k, v in keys_of(path).items() if k.startswith("deepseek4.")}
    config, keys = c.config_of("deepseek4"), own(path)
    for k in ("compress_ratios", "num_hash_layers", "qk_rope_head_dim", "rope_scaling", "compress_rope_theta"):
        del config[k]
    yarn = dict(rope_type="yarn", rope_theta=40000.0, factor=4, original_max_position_embeddings=64, beta_fast=32, beta_slow=1, partial_rotary_factor=0.5)
    config.update(layer_types=["heavily_compressed_attention", "compressed_sparse_attention"], mlp_layer_types=["hash_moe", "moe"], partial_rotary_factor=0.5,
                  compress_rates=dict(compressed_sparse_attention=4, heavily_compressed_attention=8),
                  rope_parameters=dict(main=dict(rope_type="default", rope_theta=config.get("rope_theta", 10000.0), partial_rotary_factor=0.5), compress=yarn))
    same(own(folder("deepseek4", config=config)), keys, "keys")
    for k, v in (("scoring_func", "sigmoid"), ("compress_ratios", [8, 5]), ("compress_ratios", [8]), ("o_groups", 3), ("hc_mult", 3), ("num_hash_layers", 2)):
        broken(folder("deepseek4", config=dict(c.config_of("deepseek4"), **{k: v})), "", "%s %r" % (k, v))
    for n, tensor in (("layers.0.ffn.gate.tid2eid", ("I64", (c.V, 2), struct.pack("<%dq" % (2 * c.V), *[1 << 32] * (2 * c.V)))),
                      ("layers.0.ffn.gate.tid2eid", ("I64", (c.V, 2), struct.pack("<%dq" % (2 * c.V), *[c.E] * (2 * c.V)))),
                      ("layers.0.ffn.gate.tid2eid", ("F32", (c.V, 2), bytes(8 * c.V))), ("layers.1.ffn.experts.0.w1.scale", ("F8_E8M0", (c.FE, 1), bytes(c.FE)))):
        broken(folder("deepseek4", tensors=dict(t, **{n: tensor})), "", "%s of %s" % (n, tensor[0]))


@case
def nvfp4_factors():
    """NVFP4 keeps the factor of weights and that of activations beside the matrix"""
    path, _ = quantised("nvfp4_modelopt")
    _, tensors = read_file(convert(path, "auto"))
    same(tensors["blk.0.ffn_up.scale"][1:], ((1,), c.f32([0.0123])), "scale")
    same(tensors["blk.0.ffn_up.input_scale"][1:], ((1,), c.f32([0.5])), "input_scale")


# --- hostile folders -------------------------------------------------------------------------------------------------
def headed(text, data=b"", length=None):
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one(dtype="F32", shape=(2,), offsets=(0, 8), data=b"\0" * 8, name="t"):
    return headed({name: {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}, data)


HEADERS = {                             # model.safetensors: bytes, a word of the refusal
    "empty": (b"", "empty"), "short": (b"\1\2\3", "header"), "no_header": (struct.pack("<Q", 0), "JSON"), "huge": (headed(b"{}", length=1 << 40), "header"),
    "huge64": (headed(b"{}", length=(1 << 64) - 1), "header"), "over_100_mb": (headed(b"{}", length=(100 << 20) + 1), "header"), "beyond": (headed(b"{}", length=3), "header"),
    "not_json": (headed(b"{]"), "JSON"), "list": (headed(b"[]"), "JSON"), "number": (headed(b"12"), "JSON"), "deep": (headed(b"[" * 100000), "JSON"),
    "text_after": (headed(b'{} "a"'), "JSON"), "cut": (one()[:-4], "range"), "gap_before": (one(offsets=(8, 16), data=b"\0" * 16), "gap"),
    "rest": (one(data=b"\0" * 12), "bytes"), "dtype": (one(dtype="F31"), "dtype"), "dtype_number": (headed({"t": {"dtype": 3, "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8), "dtype"),
    "no_dtype": (headed({"t": {"shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8), "dtype"), "no_shape": (headed({"t": {"dtype": "F32", "data_offsets": [0, 8]}}, b"\0" * 8), "shape"),
    "no_offsets": (headed({"t": {"dtype": "F32", "shape": [2]}}, b"\0" * 8), "data_offsets"), "negative": (one(shape=(-2,)), "shape"), "fraction": (one(shape=(2.5,)), "shape"),
    "shape_text": (headed({"t": {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]}}, b"\0" * 8), "shape"), "many_dims": (one(shape=(1, 1, 1, 1, 1, 1, 2)), "shape"),
    "wraps": (one(shape=(1 << 62, 8)), "below 2"), "wraps64": (one(shape=(1 << 63, 2)), "shape"), "digits": (one(shape=(10 ** 30,)), "shape"), "product": (one(shape=(1 << 21, 1 << 21, 1 << 21)), "below 2"),
    "backwards": (one(offsets=(8, 0)), "data_offsets"), "outside": (one(offsets=(0, 16)), "data_offsets"), "far": (one(offsets=(1 << 62, (1 << 62) + 8)), "data_offsets"),
    "three_offsets": (headed({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, b"\0" * 8), "data_offsets"), "one_offset": (headed({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}, b"\0" * 8), "data_offsets"),
    "too_few": (one(shape=(3,)), "bytes"), "too_many": (one(shape=(1,)), "bytes"), "empty_name": (one(name=""), "named"), "long_name": (one(name="x" * 600), "named"), "nul_name": (one(name="a\0b"), "named"),
    "entry_number": (headed({"t": 5}), "dtype"), "entry_list": (headed({"t": []}), "dtype"), "html": (b"<!DOCTYPE html><html>" + b" " * 99, ""), "lfs": (b"version https://git-lfs.github.com/spec/v1\n" + b" " * 99, ""),
    "gzip": (b"\x1f\x8b\x08\0" + b"\xff" * 99, ""), "zip": (b"PK\3\4" + b"\xff" * 99, ""),
    "overlap": (headed({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, b"\0" * 12), "overlap"),
    "same_place": (headed({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8), "overlap"),
    "gap": (headed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}}, b"\0" * 12), "gap"),
    "twice": (headed(b'{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', b"\0" * 8), "twice"),
    "no_tensors": (headed(b"{}"), "tensor"), "only_metadata": (headed(b'{"__metadata__":{}}'), "tensor"),
}
CONFIGS = {                             # changes of config.json: a member and its value; a word of the refusal
    "no_class": (("architectures", []), "architectures"), "class_number": (("architectures", [3]), "architectures"), "class_unknown": (("architectures", ["NoModel"]), "NoModel"),
    "no_layers": (("num_hidden_layers", 0), "layers"), "minus_layers": (("num_hidden_layers", -3), "layers"), "many_layers": (("num_hidden_layers", 1 << 30), "layers"), "layers_text": (("num_hidden_layers", "2"), "layers"),
    "more_layers": (("num_hidden_layers", 3), "blk.2"), "fewer_layers": (("num_hidden_layers", 1), "layer 1"), "no_heads": (("num_attention_heads", 0), "heads"), "odd_heads": (("num_attention_heads", 7), ""),
    "many_heads": (("num_attention_heads", 1 << 30), ""), "wide": (("hidden_size", 128), ""), "narrow": (("hidden_size", 32), ""), "no_width": (("hidden_size", None), "width"), "ff": (("intermediate_size", 97), ""),
    "ff_fraction": (("intermediate_size", 96.5), ""), "small_vocab": (("vocab_size", 10), "vocab_size"), "huge_vocab": (("vocab_size", 1 << 30), ""), "eps_text": (("rms_norm_eps", "x"), ""), "eps_minus": (("rms_norm_eps", -1), ""),
    "eps_huge": (("rms_norm_eps", 1e300), ""), "ctx_minus": (("max_position_embeddings", -1), ""), "kv_heads": (("num_key_value_heads", 3), ""), "head_dim": (("head_dim", 8), ""), "base_minus": (("rope_theta", -5), ""),
    "experts": (("num_local_experts", 4), ""), "many_experts": (("num_local_experts", 1 << 20), ""),
}
FILES = {                               # a file of the folder, what is in it; a word of the refusal
    "config_gone": ("config.json", None, "config.json"), "config_list": ("config.json", [], ""), "config_text": ("config.json", b"not json", "JSON"), "config_empty": ("config.json", b"", "JSON"),
    "config_deep": ("config.json", b'{"a":' * 5000, "JSON"), "config_nul": ("config.json", b"{\0}", "JSON"), "tokenizer_gone": ("tokenizer.json", None, "tokenizer"), "tokenizer_text": ("tokenizer.json", b"{", "JSON"),
    "tokenizer_empty": ("tokenizer.json", {}, ""), "tokenizer_type": ("tokenizer.json", dict(c.bpe(), model={"type": "Huh"}), "BPE"), "id_minus": ("tokenizer.json", dict(c.bpe(), model={"type": "BPE", "vocab": {"a": -1}, "merges": []}), "id"),
    "id_huge": ("tokenizer.json", dict(c.bpe(), model={"type": "BPE", "vocab": {"a": 1 << 40}, "merges": []}), "id"), "id_twice": ("tokenizer.json", dict(c.bpe(), model={"type": "BPE", "vocab": {"a": 1, "b": 1}, "merges": []}), "same id"),
    "id_text": ("tokenizer.json", dict(c.bpe(), model={"type": "BPE", "vocab": {"a": "1"}, "merges": []}), "id"), "merge_one": ("tokenizer.json", c.bpe(merges=[["a"]]), "merge"), "merge_number": ("tokenizer.json", c.bpe(merges=[7]), "merge"),
    "merge_three": ("tokenizer.json", c.bpe(merges=[["a", "b", "c"]]), "merge"), "added_minus": ("tokenizer.json", dict(c.bpe(), added_tokens=[{"id": -4, "content": "x"}]), "added"), "added_bare": ("tokenizer.json", dict(c.bpe(), added_tokens=[{}]), "added"),
    "long_token": ("tokenizer.json", c.bpe(vocab={"x" * 5000: 0}), "token"), "tokenizer_config": ("tokenizer_config.json", b"[", "JSON"), "generation": ("generation_config.json", b"}", "JSON"),
    "index_list": ("model.safetensors.index.json", [], "index"), "index_empty": ("model.safetensors.index.json", {"weight_map": {}}, "names no file"), "index_up": ("model.safetensors.index.json", {"weight_map": {"t": "../x.safetensors"}}, "folder"),
    "index_absolute": ("model.safetensors.index.json", {"weight_map": {"t": "/etc/x.safetensors"}}, "folder"), "index_hidden": ("model.safetensors.index.json", {"weight_map": {"t": ".x.safetensors"}}, "folder"), "index_number": ("model.safetensors.index.json", {"weight_map": {"t": 5}}, "folder"),
    "index_other": ("model.safetensors.index.json", {"weight_map": {"t": "passwd"}}, "folder"), "index_gone": ("model.safetensors.index.json", {"weight_map": {"t": "gone.safetensors"}}, "gone"), "index_less": ("model.safetensors.index.json", {"weight_map": {"lm_head.weight": "model.safetensors"}}, "expected"),
    "index_more": ("model.safetensors.index.json", {"weight_map": {"none": "model.safetensors"}}, "missing"), "weights_gone": ("model.safetensors", None, "safetensors"),
}


def broken(path, word, what):
    """Inspecting it, running it and writing a file of it are refused with one line each; nothing is left."""
    out = tmp("never.gguf")
    r = run("-m", path, "--quantize", "Q8_0", "-o", out, timeout=20)
    refused(r, 2, word, what)
    check(not os.path.exists(out), what + ": a file was written")


@case
def hostile_headers():
    """Headers of safetensors files that lie, overlap, wrap or are none are refused"""
    for what, (data, word) in HEADERS.items():
        path = folder("llama")
        c.put(path, "model.safetensors", data)
        broken(path, word, what)
        shutil.rmtree(path)


@case
def hostile_configs():
    """A config that is not that of the tensors is refused"""
    for what, ((member, value), word) in CONFIGS.items():
        path = folder("llama", config=dict(c.config_of("llama"), **{member: value}))
        broken(path, word, what)
        shutil.rmtree(path)
    long = dict(c.config_of("llama"), num_hidden_layers=4096, layer_types=["full_attention"] * 6000)
    broken(folder("llama", config=long), "bytes for 4096 layers", "many layers in a long config")
    broken(folder("t5", config=dict(c.config_of("t5"), num_decoder_layers=1)), "expected one below 1", "fewer layers of a decoder")
    for n in (8, 3):
        broken(folder("falcon", config=dict(c.config_of("falcon"), num_kv_heads=n)), "groups", "4 heads in %d groups" % n)


@case
def hostile_files():
    """Files of a folder that are missing, cut or made up are refused"""
    for what, (name, data, word) in FILES.items():
        path = folder("llama")
        if data is None:
            os.remove(os.path.join(path, name))
        else:
            c.put(path, name, data)
        broken(path, word, what)
        shutil.rmtree(path)


@case
def hostile_tensors():
    """A tensor too many, too few, of another shape, twice in two shards, in the wrong shard, and parts of quantised matrices"""
    tensors = c.tensors_of("llama")
    some = "model.layers.0.mlp.up_proj"
    parts, more, _ = MAKERS["gptq_4"][0](random.Random(1), c.F, c.D)
    cases = {"more": (dict(tensors, **{"model.layers.0.extra.weight": ("F32", (1,), b"\0" * 4)}), "extra"), "alien": (dict(tensors, foo=("F32", (1,), b"\0" * 4)), "foo"),
             "fewer": ({n: t for n, t in tensors.items() if n != some + ".weight"}, "ffn_up"), "shape": (dict(tensors, **{some + ".weight": ("BF16", (c.F, c.D // 2), b"\0" * c.F * c.D)}), "ffn_up"),
             "integers": (dict(tensors, **{"model.norm.weight": ("I64", (c.D // 2,), b"\0" * 4 * c.D)}), "model.norm"), "no_rows": (dict(tensors, **{some + ".weight": ("BF16", (0, c.D), b"")}), some),
             "scalar": (dict(tensors, **{some + ".weight": ("BF16", (), b"\0\0")}), ""), "five": (dict(tensors, **{some + ".weight": ("BF16", (1, 1, 1, c.F, c.D), b"\0" * 2 * c.F * c.D)}), ""),
             "scales_alone": (dict(tensors, **{some + ".scales": parts["scales"]}), "scales")}
    for part in ("qzeros", "scales"):
        cases["no_" + part] = (dict({n: t for n, t in tensors.items() if n != some + ".weight"}, **{some + "." + n: t for n, t in parts.items() if n != part}), part)
    bad = dict(parts, g_idx=("I32", (c.D,), struct.pack("<%di" % c.D, *([99] * c.D))))
    cases["group"] = (dict({n: t for n, t in tensors.items() if n != some + ".weight"}, **{some + "." + n: t for n, t in bad.items()}), "group")
    for what, (t, word) in cases.items():
        path = folder("llama", tensors=t, config=dict(c.config_of("llama"), quantization_config=more))
        broken(path, word, what)
        shutil.rmtree(path)
    qkv, t = "model.layers.0.self_attn.qkv_proj.weight", c.tensors_of("mimo2")
    t.update({qkv: ("F8_E4M3", (c.D, c.D), b"\x38" * (c.D * c.D)), qkv + "_scale_inv": ("F32", (1, 1), c.f32([1]))})
    more = dict(c.config_of("mimo2"), quantization_config=dict(quant_method="fp8", weight_block_size=[128, 128]))
    broken(folder("mimo2", tensors=t, config=more), "several devices", "joined rows of several devices")
    path = folder("llama", shards=2)
    os.remove(os.path.join(path, "model-00002-of-00002.safetensors"))
    broken(path, "00002", "a missing shard")
    os.remove(os.path.join(path, "model.safetensors.index.json"))
    broken(path, "00002", "a missing shard without an index")
    path = folder("llama", shards=2)
    with open(os.path.join(path, "model-00001-of-00002.safetensors"), "rb") as f:
        c.put(path, "model-00002-of-00002.safetensors", f.read())
    broken(path, "twice", "a tensor in two shards")
    path = folder("mixtral", tensors={n: t for n, t in c.tensors_of("mixtral").items() if "experts.2.w1" not in n})
    broken(path, "expected number 2", "a missing expert")


@case
def hostile_kinds():
    """A pipe, a folder and a link to nothing in place of a file are refused at once; links to files are followed"""
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        for what, make in (("a pipe", os.mkfifo), ("a folder", os.mkdir), ("a link", lambda p: os.symlink("nowhere", p))):
            path = folder("llama")
            os.remove(os.path.join(path, name))
            make(os.path.join(path, name))
            broken(path, "", "%s as %s" % (what, name))
    path, store = folder("llama"), tmp("store")
    os.mkdir(store)
    for name in os.listdir(path):
        os.rename(os.path.join(path, name), os.path.join(store, name))
        os.symlink("../store/" + name, os.path.join(path, name))
    same(logits(path), logits(folder("llama")), "links")
    refused(run("-m", TMP, "--inspect"), 2, "config.json", "a folder that is none")


@case
def hostile_sentencepiece():
    """tokenizer.model cut or changed at every place is refused or read, and never more"""
    data, path = c.sentencepiece(), folder("llama")
    os.remove(os.path.join(path, "tokenizer.json"))
    rng = random.Random(7)
    for i in range(40):
        bad = bytearray(data[:rng.randrange(len(data))] if i % 2 else data)
        for _ in range(3):
            if bad:
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        c.put(path, "tokenizer.model", bytes(bad))
        r = run("-m", path, "--inspect")
        check(r.rc in (0, 2), "change %d: exit %d" % (i, r.rc))


@case
def hostile_lists():
    """RWKV's and PLaMo's lists of tokens, cut or changed at every place, are refused or read, and never more"""
    rng = random.Random(8)
    for name, file in (("rwkv7", "rwkv_vocab_v20230424.txt"), ("plamo2", "tokenizer.jsonl")):
        path = folder(name)
        with open(os.path.join(path, file), "rb") as f:
            data = f.read()
        for i in range(24):
            bad = bytearray(data[:rng.randrange(len(data))] if i % 2 else data)
            for _ in range(3):
                if bad:
                    bad[rng.randrange(len(bad))] = rng.choice(b"\\'\"x0[] \n\xff\0")
            c.put(path, file, bytes(bad))
            r = run("-m", path, "--inspect")
            check(r.rc in (0, 2), "%s, change %d: exit %d %s" % (name, i, r.rc, r.err))


@case
def hostile_members():
    """Configs of all families with members of another kind or size: refused, or read where the member does not matter"""
    values = [0, -1, 3, 1 << 31, 1 << 62, 1e300, 0.3, None, True, "x", [], [1], [[]], [1 << 40, -5], {}, {"a": []}]
    rng = random.Random(9)
    for name in c.FAMILIES:
        config, path = c.config_of(name), folder(name)
        members = [m for m in config if m not in ("architectures", "model_type")]
        for _ in range(2):
            member, value = rng.choice(members), rng.choice(values)
            c.put(path, "config.json", dict(config, **{member: value}))
            r = run("-m", path, "--inspect")
            check(r.rc in (0, 2), "%s, %s = %r: exit %d %s" % (name, member, value, r.rc, r.err))
        shutil.rmtree(path)


@case
def draft_heads():
    """Draft heads that the config names and the folder has not, as frameworks save it, are not taken; those that it has are"""
    for name in ("exaone-moe", "exaone4", "mimo2", "deepseek32", "step35", "bailingmoe2"):
        tensors = {n: t for n, t in c.tensors_of(name).items() if not (n.startswith(("mtp.", "model.mtp.", "model.layers.2.")))}
        path, arch = folder(name, tensors=tensors), c.FAMILIES[name][0]
        check(keys_of(folder(name))[name + ".nextn_predict_layers"] > 0, name)
        keys = keys_of(path)
        same(keys[name + ".block_count"], arch.get("text_config", arch)["num_hidden_layers"], name)
        check(not keys.get(name + ".nextn_predict_layers"), name)
        same(logits(path), logits(convert(path, "auto")), name)


@case
def plamo_heads():
    """PLaMo's query heads, of which each fifth reads one key head, stand by key head in the file; the converter knows the sizes of one model alone"""
    h, d, n = 10, 40, 4                 # heads, width, values of a head
    config = dict(architectures=["PlamoForCausalLM"], model_type="plamo", hidden_size=d, intermediate_size=32, num_attention_heads=h, num_key_value_heads=h,
                  n_shared_head=2, num_hidden_layers=1, vocab_size=c.V, rms_norm_eps=1e-6)
    shapes = {"self_attn.q_proj": (h * n, d), "self_attn.k_proj": (5 * n, d), "self_attn.v_proj": (5 * n, d), "self_attn.o_proj": (d, h * n), "mlp.gate_proj": (32, d),
              "mlp.up_proj": (32, d), "mlp.down_proj": (d, 32), "norm": (d,)}
    shapes = {"model.layers.layers.0.%s.weight" % k: s for k, s in shapes.items()}
    shapes.update({"model.embed_tokens.weight": (c.V, d), "model.norm.weight": (d,), "lm_head.weight": (c.V, d)})
    rng = random.Random(3)
    values = {k: c.draw(rng, s) for k, s in shapes.items()}
    path = folder("llama", tensors={k: ("F32", s, c.f32(values[k])) for k, s in shapes.items()}, config=config)
    order = [k * 5 + g for g in range(5) for k in range(h // 5)]
    q, o = values["model.layers.layers.0.self_attn.q_proj.weight"], values["model.layers.layers.0.self_attn.o_proj.weight"]
    out = convert(path, "F32")
    same(dump(out, "blk.0.attn_q.weight"), c.f32([x for g in order for x in q[g * n * d:(g + 1) * n * d]]), "queries")
    same(dump(out, "blk.0.attn_output.weight"), c.f32([o[r * h * n + g * n + i] for r in range(d) for g in order for i in range(n)]), "output")
    same(logits(path), logits(out), "logits")


def main():
    global O
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("words", nargs="*")
    O = p.parse_args()
    O.binary = os.path.abspath(O.binary)
    return walk("import", O.words, TMP)


if __name__ == "__main__":
    sys.exit(main())
