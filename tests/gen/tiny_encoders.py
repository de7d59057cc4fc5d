#!/usr/bin/env python3
"""Tiny random encoders as GGUF, with their hidden states and embeddings in float64, for --embed.

    python3 tests/gen/tiny_encoders.py [--out DIR] [NAME ...]      # tests/data/encoders, or DIR; only models whose name starts so

Needs torch, transformers, gguf, numpy. The oracle is the class of transformers, run as tests/gen/tiny_oracle.py says; for nomic-bert-moe
jina-bert-v2 and neo-bert, which transformers lacks, it is tests/tiny_read_encoders.py, and a line says so. Files are as the converters write them.

embed.txt has a line for each model that embeds: NAME FILE CASES GOLDEN POOLING WIDTH LIMIT. CASES: a text of token ids on each line, as they enter the
model. GOLDEN: float32; for each text a hidden state of WIDTH values for each token (behind the final norm where there is one), then three
embeddings of length 1: mean, cls, last. POOLING: what the file says, `-` for nothing. LIMIT: of 1 - cosine; float models are held to 1e-10, since the two forms of GELU are only 5e-9 apart.
A line `rank NAME FILE CASES GOLDEN N LIMIT` is a model with a classifier: GOLDEN has N scores for each text, LIMIT is of their differences.
texts.jsonl has texts and the ids that transformers' tokenizers give to them for a model's vocabulary, with what begins and ends a text.
"""
import json
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import tiny_llama                                               # noqa: E402
from gguf import GGUFWriter, PoolingType, RopeScalingType       # noqa: E402
from tiny_base import N_VOCAB, Weights, add_bpe_vocab, add_spm_vocab, arguments, f32, pairs_to_halves, write_tensors     # noqa: E402
from tiny_read import File                                      # noqa: E402
from tiny_read_encoders import Encoder                          # noqa: E402
sys.path.pop(1)                                                 # torch looks for a module of the name of tests/cuda.py

OUT = os.path.join(HERE, "..", "data", "encoders")
MODULES = ["models.%s.modeling_%s" % (m, m) for m in ("t5", "umt5", "bert", "xlm_roberta", "nomic_bert", "modernbert", "gemma3", "qwen3", "jina_embeddings_v3", "eurobert")]
IGNORED = "pooler."
W = 16                                                          # window: eight positions on either side
LENGTHS = (1, 2, 33, 70)                                        # around a tile of 32
BORDERS = (1, 2, W // 2, W // 2 + 1, W // 2 + 2, W + 1, W + 2, 41, 70)

# --- the models -----------------------------------------------------------------------------------------------------
# embd, layers, heads, kv, hd, ff: sizes; sharp: its square is the standard deviation of the attention scores; act, down: what stands before the activation is multiplied by,
# and what follows it; fn: the activation; limit: of 1 - cosine; bias: matrices with one; every: of so
# many layers the first (modern-bert) or the last (gemma) sees all positions
BASE = dict(embd=16, layers=3, heads=2, ff=32, eps=1e-12, theta=10000.0, type="F32", bias=(), sharp=1.5, act=2.0, down=2.0, ctx=96, types=2, moe=None, lengths=LENGTHS, limit="1e-10",
            pooling="mean", vocab="bert", dense=0, labels=())
QKV = ("attn_q", "attn_k", "attn_v")
BERT = dict(arch="bert", bias=QKV + ("attn_output", "ffn_up", "ffn_down"), pooling="cls")
NOMIC = dict(arch="nomic-bert", theta=1000.0)
MOE = dict(arch="nomic-bert-moe", layers=4, ff=16, eps=1e-5, bias=("attn_qkv", "attn_output", "ffn_up", "ffn_down"), moe=dict(experts=4, used=2, every=2), vocab="t5")
JINA = dict(arch="jina-bert-v2", layers=2, embd=24, heads=3, bias=QKV + ("attn_output", "ffn_down"))
MODERN = dict(arch="modern-bert", layers=4, eps=1e-5, theta=160000.0, theta_swa=10000.0, types=0, vocab="bpe", lengths=BORDERS, pooling="cls", fn="gelu", every=3)
GEMMA = dict(arch="gemma-embedding", layers=7, kv=1, ff=16, eps=1e-6, theta=1000000.0, theta_swa=10000.0, types=0, vocab="spm", lengths=BORDERS, every=6)
JINA3 = dict(arch="jina-bert-v3", layers=2, eps=1e-5, theta=20000.0, types=1, vocab="t5", bias=("attn_qkv", "attn_output", "ffn_up", "ffn_down"))
EURO = dict(arch="eurobert", layers=2, kv=1, eps=1e-5, theta=250000.0, types=0, vocab="euro")
NEO = dict(arch="neo-bert", layers=2, eps=1e-6, types=0, pooling="cls")
T5 = dict(arch="t5encoder", layers=2, eps=1e-6, types=0, vocab="t5", ctx=512, buckets=16, hd=12, sharp=0.8, lengths=(1, 2, 33, 150))
CALM = dict(type="Q8_0", embd=32, layers=2, ff=32, limit="1e-3", sharp=0.8, act=1.0, down=1.0)
MODELS = {
    "bert": dict(BERT),
    "bert_t5": dict(BERT, layers=1, vocab="t5", pooling="mean", eps=1e-5),                       # xlm-roberta
    "nomic-bert": dict(NOMIC),
    "nomic-bert-moe": dict(MOE),
    "jina-bert-v2": dict(JINA),
    "jina-bert-v2_split": dict(JINA, layers=1, split=True),
    "jina-bert-v2_code": dict(JINA, code=True, vocab="code"),
    "jina-bert-v2_code_split": dict(JINA, layers=1, code=True, split=True, vocab="code"),
    "modern-bert": dict(MODERN),
    "modern-bert_silu": dict(MODERN, layers=2, fn="silu", pooling="mean", every=2),
    "gemma-embedding": dict(GEMMA),
    "gemma-embedding_dense": dict(GEMMA, layers=2, every=2, dense=24),
    "jina-bert-v3": dict(JINA3),
    "eurobert": dict(EURO),
    "llama-embed": dict(EURO, arch="llama-embed", vocab="llama"),
    "neo-bert": dict(NEO),
    "t5encoder": dict(T5),
    "t5encoder_gated": dict(T5, gated=True, every_layer=True, lengths=(1, 40)),
    "t5encoder_q8_0": dict(T5, **dict(CALM, hd=16, gated=True)),
    "bert_q8_0": dict(BERT, **CALM),
    "nomic-bert_q8_0": dict(NOMIC, **CALM),
    "nomic-bert-moe_q8_0": dict(MOE, **dict(CALM, lengths=(1, 2, 24))),
    "jina-bert-v2_q8_0": dict(JINA, **dict(CALM, heads=4)),
    "modern-bert_q8_0": dict(MODERN, **dict(CALM, every=2)),
    "gemma-embedding_q8_0": dict(GEMMA, **dict(CALM, every=2)),
    "neo-bert_q8_0": dict(NEO, **CALM),
}
PLAIN = ("eurobert", "llama-embed", "neo-bert", "t5encoder")                  # norms before halves, RMS norms without a bias
RANKERS = {
    "bert_rank": dict(BERT, layers=1, vocab="t5", eps=1e-5, types=1, labels=("LABEL_0",), cls="XLMRobertaForSequenceClassification"),
    "modern-bert_rank": dict(MODERN, layers=2, lengths=(2, 20, 41), labels=("no", "yes"), cls="ModernBertForSequenceClassification"),
}
DECODERS = {"qwen3": dict(pooling="-", lengths=(1, 33, 70), limit="1e-10"), "qwen3_q8_0": dict(pooling="mean", lengths=(1, 40), limit="1e-3")}     # files of tiny_models.py


def spec_of(name):
    s = dict(BASE, name=name)
    s.update((MODELS | RANKERS)[name])
    s["eps"], s["seed"] = f32(s["eps"]), zlib.crc32(name.encode())
    s.setdefault("hd", s["embd"] // s["heads"])
    s.setdefault("kv", s["heads"])
    return s


# --- vocabularies ---------------------------------------------------------------------------------------------------
def bert_tokens():
    letters, marks = "abcdefghijklmnopqrstuvwxyz0123456789", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["\u2581" + c for c in letters + marks] + list(letters)
    words += [a + b for a in "aeiou" for b in "nrstlmdgc"] + ["\u2581" + a + b for a in "thsmbwcdfprl" for b in "aeiouh"]
    tokens = special + words[:N_VOCAB - 5]
    tokens += ["\u2581[unused%d]" % i for i in range(N_VOCAB - len(tokens))]
    assert len(tokens) == len(set(tokens)) == N_VOCAB
    return tokens


def add_bert_vocab(g):
    g.add_tokenizer_model("bert")
    g.add_tokenizer_pre("default")
    g.add_token_list(bert_tokens())
    g.add_token_types([3] * 5 + [1] * (N_VOCAB - 5))
    g.add_pad_token_id(0), g.add_unk_token_id(1), g.add_sep_token_id(3), g.add_mask_token_id(4), g.add_uint32("tokenizer.ggml.cls_token_id", 2)
    g.add_bos_token_id(2), g.add_eos_token_id(3)
    g.add_add_bos_token(True), g.add_add_eos_token(True), g.add_add_sep_token(False)


def t5_tokens():
    """Texts, scores and types."""
    letters = "etaoinsrhldcumfpgwybvkxjqz.,'-!?0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ:;()éüñ"
    words = ["\u2581"] + list(letters) + ["\u2581" + c for c in letters[:40]] + [a + b for a in "thesaonri" for b in "eaniosthr" if a != b] + ["\u2581the", "\u2581and", "ing", "\u2581of"]
    tokens = ["<s>", "<pad>", "</s>", "<unk>"] + list(dict.fromkeys(words))[:N_VOCAB - 5]
    tokens += ["[PAD%d]" % i for i in range(N_VOCAB - 1 - len(tokens))] + ["<mask>"]
    n = sum(t.startswith("[PAD") for t in tokens)
    assert len(tokens) == len(set(tokens)) == N_VOCAB
    scores = [0.0] * 4 + [-2.0 - .01 * i for i in range(N_VOCAB - 5 - n)] + [-10000.0] * n + [0.0]
    return tokens, scores, [3, 3, 3, 2] + [1] * (N_VOCAB - 5 - n) + [5] * n + [3]


def add_t5_vocab(g):
    tokens, scores, types = t5_tokens()
    g.add_tokenizer_model("t5")
    g.add_tokenizer_pre("default")
    g.add_token_list(tokens)
    g.add_token_scores(scores)
    g.add_token_types(types)
    g.add_add_space_prefix(True), g.add_remove_extra_whitespaces(True)
    g.add_bos_token_id(0), g.add_pad_token_id(1), g.add_eos_token_id(2), g.add_unk_token_id(3), g.add_sep_token_id(2), g.add_mask_token_id(N_VOCAB - 1)
    g.add_add_bos_token(True), g.add_add_eos_token(True)


# kind of vocabulary -> how it is written, ids that begin and end a text, the ids between them
VOCABS = {
    "bert": (add_bert_vocab, 2, 3, (5, N_VOCAB)),
    "t5": (add_t5_vocab, 0, 2, (4, 180)),
    "bpe": (lambda g: add_bpe_vocab(g, "modern-bert", True), N_VOCAB - 4, N_VOCAB - 2, (0, N_VOCAB - 4)),
    "code": (lambda g: add_bpe_vocab(g, "jina-v2-code", True), N_VOCAB - 4, N_VOCAB - 2, (0, N_VOCAB - 4)),
    "spm": (lambda g: add_spm_vocab(g, True), 1, 2, (3, N_VOCAB)),
    "euro": (lambda g: add_bpe_vocab(g, "llama-bpe", True), N_VOCAB - 4, N_VOCAB - 2, (0, N_VOCAB - 4)),
    "llama": (lambda g: add_bpe_vocab(g, "llama-bpe", True), N_VOCAB - 4, N_VOCAB - 2, (0, N_VOCAB - 4)),
}


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def norm(w, s, name, n, mean=1.0):
    w.vector(name + ".weight", n, mean, 0.2)
    if s["arch"] not in ("modern-bert", "gemma-embedding", "t5") + PLAIN:
        w.vector(name + ".bias", n, 0.0, 0.2)


def draw_t5(w, s, half="enc"):
    """An encoder, or the decoder of t5: the framework shares the table of distances between the layers unless each has its own."""
    D, q, out = s["embd"], s["heads"] * s["hd"], s.get("layers_" + half, s["layers"])
    for i in range(out):
        b = "%s.blk.%d." % (half, i)
        norm(w, s, b + "attn_norm", D)
        if not i or s.get("every_layer"):
            w.fixed(b + "attn_rel_b.weight", (1.5 * w.rng.standard_normal((s["buckets"], s["heads"]))).astype(np.float32))
        for cross in ("", "cross_")[:1 + (half == "dec")]:
            if cross:
                norm(w, s, b + "cross_attn_norm", D)
            for part, rows, cols, gain in (("q", q, D, s["sharp"]), ("k", q, D, s["sharp"]), ("v", q, D, 1), ("o", D, q, 1)):
                w.matrix(b + cross + "attn_" + part, rows, cols, gain=gain)
        norm(w, s, b + "ffn_norm", D)
        for part, rows, cols in (("gate", s["ff"], D), ("up", s["ff"], D), ("down", D, s["ff"]))[not s.get("gated"):]:
            w.matrix(b + "ffn_" + part, rows, cols, gain=s["act"])
    norm(w, s, half + ".output_norm", D)


def draw(w, s):
    D = s["embd"]
    if s["arch"] == "t5encoder":
        w.matrix("token_embd", N_VOCAB, D, gain=np.sqrt(D))
        draw_t5(w, s)
        return
    w.matrix("token_embd", N_VOCAB, D, gain=1.0)
    if s["types"]:
        w.matrix("token_types", s["types"], D, gain=1.0, plain=True)
    if s["arch"] == "bert":
        w.matrix("position_embd", s["ctx"], D, gain=1.0, plain=True)
    if s["arch"] not in ("gemma-embedding",) + PLAIN:
        norm(w, s, "token_embd_norm", D)
    for i in range(s["layers"]):
        draw_attention(w, s, i, "blk.%d." % i)
        draw_ffn(w, s, i, "blk.%d." % i)
    if s["arch"] in ("modern-bert", "gemma-embedding") + PLAIN:
        norm(w, s, "enc.output_norm" if s["arch"] == "neo-bert" else "output_norm", D)
    if s["dense"]:
        w.matrix("dense_2", s["dense"], D, gain=1.0)
        w.matrix("dense_3", D, s["dense"], gain=1.0)
    if s["labels"]:
        draw_head(w, s, D)


def draw_head(w, s, D):
    """What makes scores of a text: a matrix, in bert with a bias, in modern-bert with a norm behind it, and one row for each label."""
    w.matrix("cls", D, D)
    if s["arch"] == "bert":
        w.vector("cls.bias", D, 0.0, 0.4)
    else:
        norm(w, s, "cls.norm", D)
    w.matrix("cls.output", len(s["labels"]), D)
    w.vector("cls.output.bias", len(s["labels"]), 0.0, 0.4)


def draw_attention(w, s, i, b):
    D, q, kv = s["embd"], s["heads"] * s["hd"], s["kv"] * s["hd"]
    if s["arch"] in ("gemma-embedding",) + PLAIN or s["arch"] == "modern-bert" and i:
        norm(w, s, b + "attn_norm", D)
    if s["arch"] in ("bert", "jina-bert-v2", "gemma-embedding", "eurobert", "llama-embed"):
        w.matrix(b + "attn_q", q, D, gain=s["sharp"])
        w.matrix(b + "attn_k", kv, D, gain=s["sharp"])
        w.matrix(b + "attn_v", kv, D)
    else:
        w.matrix(b + "attn_qkv", q + 2 * kv, D, gain=s["sharp"])
    if s["arch"] == "gemma-embedding":
        norm(w, s, b + "attn_q_norm", s["hd"], s["sharp"])
        norm(w, s, b + "attn_k_norm", s["hd"], s["sharp"])
    if s.get("code"):
        norm(w, s, b + "attn_q_norm", q, s["sharp"])
        norm(w, s, b + "attn_k_norm", kv, s["sharp"])
        norm(w, s, b + "attn_norm_2", D)
    w.matrix(b + "attn_output", D, q)
    before = dict.fromkeys(("modern-bert",) + PLAIN, "ffn_norm")
    norm(w, s, b + (before | {"gemma-embedding": "post_attention_norm"}).get(s["arch"], "attn_output_norm"), D)


def draw_ffn(w, s, i, b):
    D, F, moe, act = s["embd"], s["ff"], s["moe"], s["act"]
    if moe and i % moe["every"] == 1:
        w.matrix(b + "ffn_gate_inp", moe["experts"], D, gain=2.0, plain=True)
        w.matrix(b + "ffn_up_exps", moe["experts"], F, D, gain=act)
        w.matrix(b + "ffn_down_exps", moe["experts"], D, F, gain=s["down"])
    else:
        if s["arch"] in ("nomic-bert", "gemma-embedding", "eurobert", "llama-embed") or s.get("split"):
            w.matrix(b + "ffn_gate", F, D, gain=act)
        joined = s["arch"] in ("modern-bert", "neo-bert") or s["arch"] == "jina-bert-v2" and not s.get("split")
        w.matrix(b + "ffn_up", F * (2 if joined else 1), D, gain=act)
        w.matrix(b + "ffn_down", D, F, gain=s["down"])
    if s["arch"] == "gemma-embedding":
        norm(w, s, b + "ffn_norm", D)
        norm(w, s, b + "post_ffw_norm", D)
    elif s["arch"] not in ("modern-bert",) + PLAIN:
        norm(w, s, b + "layer_output_norm", D)


# --- keys, as the converters write them -----------------------------------------------------------------------------
def write_keys(g, s):
    g.add_block_count(s["layers"])
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_feed_forward_length(s["ff"])
    g.add_head_count(s["heads"])
    g.add_file_type(7 if s["type"] == "Q8_0" else 0)
    if s["labels"]:
        g.add_classifier_output_labels(s["labels"])
    else:
        g.add_pooling_type({"mean": PoolingType.MEAN, "cls": PoolingType.CLS}[s["pooling"]])
    if s["arch"] == "gemma-embedding":
        write_gemma_keys(g, s)
    else:
        (g.add_layer_norm_rms_eps if s["arch"] in PLAIN else g.add_layer_norm_eps)(s["eps"])
        if s["arch"] != "t5encoder":
            g.add_causal_attention(False)
    if s["arch"] in ("eurobert", "llama-embed"):
        g.add_head_count_kv(s["kv"])
    if s["arch"] == "t5encoder":
        write_t5_keys(g, s)
    if s["arch"] in ("eurobert", "neo-bert"):
        g.add_rope_scaling_type(RopeScalingType.NONE)
    if s["types"]:
        g.add_token_type_count(s["types"])
    if s["arch"].startswith("nomic") or s["arch"] in ("modern-bert", "jina-bert-v3") + PLAIN[:3]:
        g.add_rope_freq_base(s["theta"])
    if s["moe"]:
        g.add_moe_every_n_layers(s["moe"]["every"])
        g.add_expert_count(s["moe"]["experts"])
        g.add_expert_used_count(s["moe"]["used"])
    if s["arch"] == "modern-bert":
        g.add_layer_norm_rms_eps(s["eps"])
        g.add_rope_freq_base_swa(s["theta_swa"])
        g.add_sliding_window(W)
        g.add_sliding_window_pattern(s["every"])
        g.add_rope_scaling_type(RopeScalingType.NONE)
        g.add_vocab_size(N_VOCAB)
        g.add_string("modern-bert.hidden_activation", s["fn"])


def write_t5_keys(g, s):
    g.add_key_length(s["hd"])
    g.add_value_length(s["hd"])
    g.add_layer_norm_eps(s["eps"])
    g.add_relative_attn_buckets_count(s["buckets"])


def write_gemma_keys(g, s):
    g.add_layer_norm_rms_eps(s["eps"])
    g.add_head_count_kv(s["kv"])
    g.add_key_length(s["hd"])
    g.add_value_length(s["hd"])
    g.add_rope_freq_base(s["theta"])
    g.add_sliding_window(W)
    if s["every"] != 6:
        g.add_sliding_window_pattern(s["every"])
    if s["dense"]:
        for name, a, b in (("dense_2", s["embd"], s["dense"]), ("dense_3", s["dense"], s["embd"])):
            g.add_uint32("gemma-embedding.%s_feat_in" % name, a)
            g.add_uint32("gemma-embedding.%s_feat_out" % name, b)


def write_gguf(s, path):
    w = Weights(s)
    draw(w, s)
    g = GGUFWriter(path, s["arch"])
    g.add_name("tiny " + s["name"])
    g.add_description("random weights; made by tests/gen/tiny_encoders.py %s" % s["name"])
    write_keys(g, s)
    VOCABS[s["vocab"]][0](g)
    write_tensors(g, w)
    return w


# --- the framework's names ------------------------------------------------------------------------------------------
CLASSES = {"bert": "BertModel", "nomic-bert": "NomicBertModel", "modern-bert": "ModernBertModel", "gemma-embedding": "Gemma3TextModel", "jina-bert-v3": "JinaEmbeddingsV3Model",
           "eurobert": "EuroBertModel", "llama-embed": "EuroBertModel", "t5encoder": "T5EncoderModel"}
TOP = {
    "bert": {"token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings", "position_embd": "embeddings.position_embeddings", "token_embd_norm": "embeddings.LayerNorm"},
    "nomic-bert": {"token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm"},
    "modern-bert": {"token_embd": "embeddings.tok_embeddings", "token_embd_norm": "embeddings.norm", "output_norm": "final_norm"},
    "gemma-embedding": {"token_embd": "embed_tokens", "output_norm": "norm"},
}
TOP["jina-bert-v3"], TOP["eurobert"] = TOP["nomic-bert"], TOP["gemma-embedding"]
LAYER = {
    "bert": ("encoder.layer.", {"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
                                "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}),
    "nomic-bert": ("layers.", {"attn_output": "self_attn.o_proj", "attn_output_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
                               "layer_output_norm": "post_mlp_layernorm"}),
    "modern-bert": ("layers.", {"attn_norm": "attn_norm", "attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_norm": "mlp_norm", "ffn_up": "mlp.Wi", "ffn_down": "mlp.Wo"}),
    "gemma-embedding": ("layers.", {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
                                    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                                    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "post_ffw_norm": "post_feedforward_layernorm"}),
}


LAYER["jina-bert-v3"] = ("layers.", dict(LAYER["nomic-bert"][1], ffn_up="mlp.fc1", ffn_down="mlp.fc2"))
LAYER["eurobert"] = ("layers.", dict(LAYER["gemma-embedding"][1], ffn_norm="post_attention_layernorm"))
HEADS = {
    "bert": {"cls": "classifier.dense", "cls.output": "classifier.out_proj"},
    "modern-bert": {"cls": "head.dense", "cls.norm": "head.norm", "cls.output": "classifier"},
}


def hf_class(s):
    return s.get("cls", "UM" * bool(s.get("every_layer")) + CLASSES[s["arch"]])


T5_NAMES = {"attn_norm": "0.layer_norm", "attn_rel_b": "0.SelfAttention.relative_attention_bias", "cross_attn_norm": "1.layer_norm"}
T5_NAMES.update({"attn_" + c: "0.SelfAttention." + c for c in "qkvo"} | {"cross_attn_" + c: "1.EncDecAttention." + c for c in "qkvo"})
T5_FFN = {"ffn_norm": "layer_norm", "ffn_gate": "DenseReluDense.wi_0", "ffn_up": "DenseReluDense.wi", "ffn_down": "DenseReluDense.wo"}


def t5_config(s):
    return dict(vocab_size=N_VOCAB, d_model=s["embd"], d_kv=s["hd"], d_ff=s["ff"], num_layers=s["layers"], num_heads=s["heads"], relative_attention_num_buckets=s["buckets"],
                layer_norm_epsilon=s["eps"], feed_forward_proj="gated-gelu" if s.get("gated") else "relu", dropout_rate=0.0)


def t5_state(s, value):
    """Where each layer has a table of its own, the framework has UMT5, whose names are the same."""
    out = {}
    for name, v in value.items():
        stem = name.removesuffix(".weight")
        half, part = {"enc": "encoder", "dec": "decoder"}.get(stem[:3]), stem.split(".")[-1]
        if part in T5_FFN:
            last = "2." if half == "decoder" else "1."
            to = last + (T5_FFN[part] + "_1" if part == "ffn_up" and s.get("gated") else T5_FFN[part])
        else:
            to = T5_NAMES.get(part)
        name = "%s.block.%s.layer.%s" % (half, stem.split(".")[2], to) if to else half + ".final_layer_norm" if half else {"token_embd": "shared", "output": "lm_head"}[stem]
        out[name + ".weight"] = v
    for half in ("encoder", "decoder")[:1 + (s["arch"] == "t5")]:
        out[half + ".embed_tokens.weight"] = out["shared.weight"]
    return out


def hf_config(s):
    if s["arch"].startswith("t5"):
        return t5_config(s)
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"], intermediate_size=s["ff"], max_position_embeddings=s["ctx"], pad_token_id=0)
    local, whole = dict(rope_type="default", rope_theta=s.get("theta_swa")), dict(rope_type="default", rope_theta=s["theta"])
    kinds = ["full_attention" if i % s.get("every", 1) == (0 if s["arch"] == "modern-bert" else s["every"] - 1) else "sliding_attention" for i in range(s["layers"])] if "every" in s else None
    if s["arch"] in ("bert", "nomic-bert", "jina-bert-v3"):
        c.update(type_vocab_size=s["types"], layer_norm_eps=s["eps"], hidden_act="silu" if s["arch"] == "nomic-bert" else "gelu")
    if s["labels"]:
        c.update(num_labels=len(s["labels"]), classifier_pooling="mean")
    if hf_class(s).startswith("XLM"):
        c.update(pad_token_id=1, max_position_embeddings=s["ctx"] + 2)
    if s["arch"] in ("nomic-bert", "jina-bert-v3", "eurobert", "llama-embed"):
        c.update(rope_parameters=whole, rms_norm_eps=s["eps"], num_key_value_heads=s["kv"], bos_token_id=None, eos_token_id=None, mask_token_id=1)
    if s["arch"] == "modern-bert":
        c.update(norm_eps=s["eps"], hidden_activation=s["fn"], local_attention=W, layer_types=kinds, rope_parameters={"full_attention": whole, "sliding_attention": local})
    if s["arch"] == "gemma-embedding":
        c.update(rms_norm_eps=s["eps"], num_key_value_heads=s["kv"], head_dim=s["hd"], query_pre_attn_scalar=s["hd"], sliding_window=W, use_bidirectional_attention=True, layer_types=kinds,
                 hidden_activation="gelu_pytorch_tanh", rope_parameters={"full_attention": whole, "sliding_attention": local})
    return c


def hf_state(s, value):
    if s["arch"].startswith("t5"):
        return t5_state(s, value)
    a, out = "eurobert" if s["arch"] == "llama-embed" else s["arch"], {}
    for name, v in value.items():
        stem, end = name.rsplit(".", 1)
        if stem.startswith("dense_"):
            continue
        if s["arch"] == "llama-embed" and stem.endswith(("attn_q", "attn_k")):
            v = pairs_to_halves(v, s["heads"] if stem.endswith("q") else s["kv"])
        v = v.astype(np.float64) - 1 if a == "gemma-embedding" and stem.endswith("norm") else v
        if stem in HEADS.get(a, {}):
            out[HEADS[a][stem] + "." + end] = v
            continue
        if stem == "position_embd" and s["labels"]:
            v = np.vstack([np.zeros((2, v.shape[1])), v])               # the framework counts positions from 2 on
        prefix, names = ("", TOP[a]) if not stem.startswith("blk.") else (LAYER[a][0] + stem.split(".")[1] + ".", LAYER[a][1])
        part = stem.split(".")[-1]
        if a in ("nomic-bert", "jina-bert-v3") and part == "attn_qkv":
            for c, x in zip("qkv", np.split(v, 3)):
                out["%sself_attn.%s_proj.%s" % (prefix, c, end)] = x
        else:
            out[prefix + names[part] + "." + end] = v
    body = {"XLMRobertaForSequenceClassification": "roberta.", "ModernBertForSequenceClassification": "model."}.get(s.get("cls"), "")
    return {k if k.startswith(("classifier", "head.")) else body + k: v for k, v in out.items()}


# --- the same as on the hub, for tests/gen/tiny_convert.py -----------------------------------------------------------
PUBLISHED = ["bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v2_code", "modern-bert", "gemma-embedding"]
UNTOLD = ("context_length",)                                    # the converter knows what nomic's models were trained for
NOMIC_NAMES = {"token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "emb_ln", "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj",
               "attn_output_norm": "norm1", "layer_output_norm": "norm2", "ffn_down": "mlp.fc2", "ffn_gate": "mlp.fc12", "ffn_gate_inp": "mlp.router.layer"}
JINA_NAMES = dict(LAYER["bert"][1], ffn_up="mlp.gated_layers", ffn_down="mlp.wo", layer_output_norm="mlp.layernorm")
CODE_NAMES = dict(JINA_NAMES, ffn_up="mlp.up_gated_layer", ffn_down="mlp.down_layer", layer_output_norm="layer_norm_2", attn_norm_2="layer_norm_1", attn_q_norm="attention.self.layer_norm_q",
                  attn_k_norm="attention.self.layer_norm_k")


def nomic_checkpoint(s, value):
    moe, out = s["moe"], {}
    config = dict(n_embd=s["embd"], n_head=s["heads"], n_inner=s["ff"], n_layer=s["layers"], vocab_size=N_VOCAB, layer_norm_epsilon=s["eps"], rotary_emb_base=s["theta"], rotary_emb_fraction=1.0,
                  rotary_emb_interleaved=False, rotary_emb_scale_base=None, prenorm=False, causal=False, type_vocab_size=s["types"], activation_function="gelu" if moe else "swiglu",
                  qkv_proj_bias=bool(moe), mlp_fc1_bias=bool(moe), mlp_fc2_bias=bool(moe), n_positions=2048 if moe else 8192, max_trained_positions=2048)
    if moe:
        config.update(moe_every_n_layers=moe["every"], num_experts=moe["experts"], moe_top_k=moe["used"], pad_token_id=1)
    for name, v in value.items():
        stem, end = name.rsplit(".", 1)
        part, prefix = stem.split(".")[-1], "encoder.layers.%s." % stem.split(".")[1] if stem.startswith("blk.") else ""
        if part == "ffn_up_exps":
            out[prefix + "mlp.experts.mlp.w1"] = v.reshape(-1, s["embd"])
        elif part == "ffn_down_exps":
            out[prefix + "mlp.experts.mlp.w2"] = v.transpose(0, 2, 1).reshape(-1, s["embd"])
        else:
            known = dict(NOMIC_NAMES, ffn_up="mlp.fc1" if moe else "mlp.fc11")
            out["%s%s.%s" % (prefix, known[part], end)] = v
    return "NomicBertModel", config, out


def checkpoint(s, value):
    """The class, the config and the tensors of a model as its authors publish such models."""
    if s["arch"].startswith("nomic"):
        return nomic_checkpoint(s, value)
    if s["arch"] == "jina-bert-v2":
        config = dict(hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"], intermediate_size=s["ff"], max_position_embeddings=s["ctx"], layer_norm_eps=s["eps"],
                      type_vocab_size=s["types"], vocab_size=N_VOCAB, feed_forward_type="geglu", position_embedding_type="alibi")
        out = {}
        for name, v in value.items():
            stem, end = name.rsplit(".", 1)
            names = CODE_NAMES if s.get("code") else JINA_NAMES
            known = "encoder.layer.%s.%s" % (stem.split(".")[1], names[stem.split(".")[-1]]) if stem.startswith("blk.") else TOP["bert"][stem]
            out[known + "." + end] = v
        return "JinaBertModel", config, out
    config = hf_config(s)
    if s["arch"] == "modern-bert":
        config.pop("layer_types"), config.pop("rope_parameters")
        config.update(global_rope_theta=s["theta"], local_rope_theta=s["theta_swa"], global_attn_every_n_layers=s["every"], layer_norm_eps=s["eps"])
    if s["arch"] == "gemma-embedding":
        config.pop("rope_parameters")
        config.update(rope_theta=s["theta"])
    return hf_class(s), config, hf_state(s, value)


# --- the oracles ----------------------------------------------------------------------------------------------------
def framework(family, s, value):
    """A function of ids that returns the hidden states of transformers, or its scores."""
    import torch
    from tiny_oracle import OnlyDouble, Oracle, everything_double

    class Hidden(Oracle):
        def load(self, state, ignored):
            if self.model.get_output_embeddings() is not None:
                return super().load(state, ignored)
            state = {k: torch.from_numpy(np.ascontiguousarray(v, np.float64)) for k, v in state.items()}
            missing, extra = self.model.load_state_dict(state, strict=False)
            assert not extra and all(n.startswith(ignored) for n in missing), (missing, extra)

    o = Hidden(family, s, value)
    body = o.model if s["arch"] == "t5encoder" or o.model.get_output_embeddings() is None else o.model.model

    def hidden(ids):
        with everything_double(o.modules), torch.no_grad(), OnlyDouble():
            out = body(input_ids=torch.tensor([ids]))
            return (out.logits if s.get("labels") else out.last_hidden_state)[0].numpy()
    return hidden


def draw_cases(s, reading):
    """Texts of s["lengths"] tokens with those that begin and end a text; in a mixture of experts any tokens, none with a choice near a tie."""
    _, first, last, (lo, hi) = VOCABS[s["vocab"]]
    rng, cases = np.random.default_rng(s["seed"] + 1), []
    for n in s["lengths"]:
        for _ in range(5000):
            ids = [int(i) for i in rng.integers(lo, hi, n)]
            if not s["moe"]:
                ids = ([first] + ids[:n - 2] + [last])[:n]
            reading.hidden(ids)
            if all(g.min() > (0.004 if s["limit"] == "1e-10" else 0.02) for g in reading.gaps):
                break
        else:
            raise SystemExit("%s: no text of %d tokens without a near tie" % (s["name"], n))
        cases.append(ids)
    return cases


def write_cases(out, name, cases, hidden, vectors):
    with open(os.path.join(out, name + ".cases"), "w") as f:
        f.writelines(" ".join(map(str, ids)) + "\n" for ids in cases)
    rows = []
    for ids in cases:
        h = hidden(ids)
        rows += list(h) + vectors(h)
    np.array(rows).astype("<f4").tofile(os.path.join(out, name + ".f32"))


def build(name, out):
    s, path = spec_of(name), os.path.join(out, name + ".gguf")
    w = write_gguf(s, path)
    reading = Encoder(File(path))
    cases = draw_cases(s, reading)
    if s["arch"] in CLASSES:
        hidden = framework(sys.modules[__name__], s, w.value)
        apart = max(np.abs(hidden(ids) - reading.hidden(ids)).max() for ids in cases)
        assert apart < 1e-10, "%s: the readings differ by %g" % (name, apart)
        by = "transformers; numpy %.0e apart" % apart
    else:
        hidden, by = reading.hidden, "numpy alone"
    write_cases(out, name, cases, hidden, reading.vectors)
    print("%-24s %7d bytes  %s" % (name, os.path.getsize(path), by))
    return "%s %s.gguf %s.cases %s.f32 %s %d %s\n" % (name, name, name, name, s["pooling"], s["embd"], s["limit"])


def build_ranker(name, out):
    s, path = spec_of(name), os.path.join(out, name + ".gguf")
    w = write_gguf(s, path)
    reading = Encoder(File(path))
    cases = draw_cases(s, reading)
    scores = framework(sys.modules[__name__], s, w.value)
    apart = max(np.abs(scores(ids) - reading.scores(reading.hidden(ids))).max() for ids in cases)
    assert apart < 1e-10, "%s: the readings differ by %g" % (name, apart)
    write_cases(out, name, cases, lambda ids: [scores(ids)], lambda rows: [])
    print("%-24s %7d bytes  transformers; numpy %.0e apart" % (name, os.path.getsize(path), apart))
    return "rank %s %s.gguf %s.cases %s.f32 %d 1e-5\n" % (name, name, name, name, len(s["labels"]))


def build_decoder(name, out):
    """A model of tiny_models.py, pooled: its file is there already."""
    import tiny_models
    d, s = DECODERS[name], tiny_models.spec_of(tiny_llama, name)
    w = Weights(s)
    tiny_llama.draw(w, s)
    hidden, rng = framework(tiny_llama, s, w.value), np.random.default_rng(s["seed"] + 2)
    cases = [[int(i) for i in rng.integers(0, N_VOCAB - 4, n)] for n in d["lengths"]]
    unit = lambda v: v / np.linalg.norm(v)
    write_cases(out, "embed_" + name, cases, hidden, lambda h: [unit(h.mean(0)), unit(h[0]), unit(h[-1])])
    print("%-24s transformers" % ("embed_" + name))
    return "embed_%s ../tiny/%s.gguf embed_%s.cases embed_%s.f32 %s %d %s\n" % (name, name, name, name, d["pooling"], s["embd"], d["limit"])


TEXTS = ["The cat sat on the mat.", "", "Na\u00efve CAF\u00c9s \u4e2d don't!", "  spaces   and\ttabs\n", "the other thing is " + "so " * 8 + "near", "\u3042 42,000 \U0001f600"]


def write_texts(out):
    from transformers import BertTokenizer, XLMRobertaTokenizer
    bert = [t if i < 5 else t[1:] if t[0] == "\u2581" else "##" + t for i, t in enumerate(bert_tokens())]
    tokens, scores, _ = t5_tokens()
    of = {"bert.gguf": BertTokenizer(vocab={t: i for i, t in enumerate(bert)}), "nomic-bert-moe.gguf": XLMRobertaTokenizer(vocab=list(zip(tokens, scores)))}
    with open(os.path.join(out, "texts.jsonl"), "w") as f:
        f.writelines(json.dumps(dict(model=model, text=text, ids=t.encode(text))) + "\n" for model, t in of.items() for text in TEXTS)


def main():
    a = arguments(__doc__, OUT)
    listed = os.path.join(a.out, "embed.txt")
    rows = {r.split()[r.startswith("rank ")]: r for r in open(listed)} if os.path.exists(listed) else {}
    for name in list(MODELS) + list(RANKERS):
        if not a.names or name.startswith(tuple(a.names)):
            rows[name] = (build if name in MODELS else build_ranker)(name, a.out)
    for name in DECODERS:
        if not a.names or ("embed_" + name).startswith(tuple(a.names)):
            rows["embed_" + name] = build_decoder(name, a.out)
    if not a.names:
        write_texts(a.out)
    with open(listed, "w") as f:
        f.writelines(rows[n] for n in list(MODELS) + ["embed_" + d for d in DECODERS] + list(RANKERS) if n in rows)


if __name__ == "__main__":
    main()
