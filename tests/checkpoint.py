"""Folders of checkpoints as transformers has them, tiny and made of random numbers, with the standard library alone.

FAMILIES gives for each name config.json and the tensors; write() writes a folder. Widths are as small as the formats allow. The
names and shapes are those of published files; tests/gen/import_peer.py holds llama.cpp's converter against what becomes of them.
"""
import functools
import json
import os
import random
import struct
import zlib

D, H, KV, HD, F, V, L = 64, 4, 2, 16, 96, 272, 2     # width, heads, key heads, values of a head, feed-forward, tokens, layers


# --- numbers ---------------------------------------------------------------------------------------------------------
def f32(values):
    return struct.pack("<%df" % len(values), *values)


def f16(values):
    return struct.pack("<%de" % len(values), *values)


def bf16(values):
    """Rounded to the nearest, ties to even."""
    bits = struct.unpack("<%dI" % len(values), f32(values))
    return struct.pack("<%dH" % len(values), *((b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits))


PACK = {"F32": f32, "F16": f16, "BF16": bf16}


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def draw(rng, shape, scale=0.2, center=0.0):
    return [center + scale * (2 * rng.random() - 1) for _ in range(count(shape))]


def raw(rng, dtype, n):
    """Numbers of experts, pairs of FP4 codes, powers of two near 1, FP8 codes of small numbers; floats."""
    if dtype == "I64":
        return struct.pack("<%dq" % n, *(rng.randrange(E) for _ in range(n)))
    if dtype in PACK:
        return PACK[dtype](draw(rng, (n,)))
    low, high = {"I8": (0, 256), "F8_E8M0": (120, 125), "F8_E4M3": (0x20, 0x40)}[dtype]
    return bytes(rng.randrange(low, high) | (rng.randrange(2) << 7 if dtype == "F8_E4M3" else 0) for _ in range(n))


# --- files -----------------------------------------------------------------------------------------------------------
def safetensors(tensors, metadata=True):
    """The bytes of a file; tensors: name -> (dtype, shape, bytes)."""
    head, at = {"__metadata__": {"format": "pt"}} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values())


def put(folder, name, what):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(what if isinstance(what, bytes) else json.dumps(what).encode())


def byte_chars():
    """The character that stands for each byte in a vocabulary of GPT-2's kind."""
    plain = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def bpe(pre=None, n=V, **model):
    """tokenizer.json: 256 bytes, a few merges, a control token and one of the user."""
    chars = byte_chars()
    vocab = {chars[b]: i for i, b in enumerate(range(256))}
    merges = ["t h", "th e", "i n", "\u0120 the", "a n", "an d", "\u0120 and", "o n", "e r", "\u0120 in", "in g"]
    for m in merges:
        vocab["".join(m.split(" "))] = len(vocab)
    added = [dict(id=len(vocab) + i, content=c, special=s, single_word=False, lstrip=False, rstrip=False, normalized=False)
             for i, (c, s) in enumerate([("<|start|>", True), ("<|end|>", True), ("<tool>", False)])]
    return {"version": "1.0", "added_tokens": added, "normalizer": None, "post_processor": None,
            "pre_tokenizer": pre or {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel"}, "model": dict({"type": "BPE", "vocab": vocab, "merges": merges}, **model)}


def word_piece(n=V):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(c) for c in range(97, 123)] + ["##" + chr(c) for c in range(97, 123)]
    words += ["the", "cat", "sat", "##ing", "on", "mat", ".", ",", "!"]
    vocab = {w: i for i, w in enumerate(words)}
    added = [dict(id=i, content=words[i], special=True, normalized=False) for i in range(5)]
    return {"added_tokens": added, "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##"},
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "post_processor": {"type": "TemplateProcessing",
                               "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                          {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                               "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                        {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                                        {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                               "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                                                  "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}}


BPE_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|start|>", "eos_token": "<|end|>",
              "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"}
BERT_CONFIG = {"tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]",
               "mask_token": "[MASK]", "do_lower_case": True}


# --- families --------------------------------------------------------------------------------------------------------
def layers(rows, front="model.layers.%d.", n=L):
    return [(front % i + name, shape) for i in range(n) for name, shape in rows]


def base(cls, kind, **more):
    return dict(dict(architectures=[cls], model_type=kind, hidden_size=D, intermediate_size=F, num_attention_heads=H, num_key_value_heads=KV,
                     num_hidden_layers=L, vocab_size=V, max_position_embeddings=128, rms_norm_eps=1e-5, rope_theta=10000.0,
                     hidden_act="silu", tie_word_embeddings=False, bos_token_id=267, eos_token_id=268), **more)


ATTN = [("self_attn.q_proj.weight", (H * HD, D)), ("self_attn.k_proj.weight", (KV * HD, D)), ("self_attn.v_proj.weight", (KV * HD, D)), ("self_attn.o_proj.weight", (D, H * HD))]
FULL = [(n, (H * HD, D) if "o_proj" not in n else s) for n, s in ATTN]
BIAS = [("self_attn.q_proj.bias", (H * HD,)), ("self_attn.k_proj.bias", (KV * HD,)), ("self_attn.v_proj.bias", (KV * HD,))]
MLP = [("mlp.gate_proj.weight", (F, D)), ("mlp.up_proj.weight", (F, D)), ("mlp.down_proj.weight", (D, F))]
NORMS = [("input_layernorm.weight", (D,)), ("post_attention_layernorm.weight", (D,))]
NORM_BIAS = [("input_layernorm.bias", (D,)), ("post_attention_layernorm.bias", (D,))]
TOP = [("model.embed_tokens.weight", (V, D)), ("model.norm.weight", (D,)), ("lm_head.weight", (V, D))]
E, FE = 4, 32


def experts(front, names=("gate_proj", "up_proj", "down_proj")):
    rows = []
    for i in range(E):
        rows += [("%s.%d.%s.weight" % (front, i, n), (D, FE) if k == 2 else (FE, D)) for k, n in enumerate(names)]
    return rows


LATENT = [("self_attn.q_a_proj.weight", (32, D)), ("self_attn.q_a_layernorm.weight", (32,)), ("self_attn.q_b_proj.weight", (H * 24, 32)),
          ("self_attn.kv_a_proj_with_mqa.weight", (40, D)), ("self_attn.kv_a_layernorm.weight", (32,)), ("self_attn.kv_b_proj.weight", (H * 28, 32)),
          ("self_attn.o_proj.weight", (D, H * 12))]
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
LONG = dict(type="longrope", long_factor=[1.0 + i / 4 for i in range(HD // 2)], short_factor=[1.0 + i / 16 for i in range(HD // 2)])

SPARSE = [("mlp.gate.weight", (E, D))] + experts("mlp.experts")
SHARED = [("mlp.shared_experts.gate_proj.weight", (FE, D)), ("mlp.shared_experts.up_proj.weight", (FE, D)), ("mlp.shared_experts.down_proj.weight", (D, FE))]
SPARSE_ONE = SPARSE + [(n.replace("experts", "expert"), s) for n, s in SHARED] + [("mlp.shared_expert_gate.weight", (1, D))]
HEADS = [("self_attn.q_norm.weight", (HD,)), ("self_attn.k_norm.weight", (HD,))]
AHEAD = [("eh_proj.weight", (D, 2 * D)), ("enorm.weight", (D,)), ("hnorm.weight", (D,))]
INDEX = [("self_attn.indexer.wq_b.weight", (2 * 16, 32)), ("self_attn.indexer.wk.weight", (16, D)), ("self_attn.indexer.k_norm.weight", (16,)),
         ("self_attn.indexer.k_norm.bias", (16,)), ("self_attn.indexer.weights_proj.weight", (2, D))]
DEEP = dict(n_routed_experts=E, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=FE, n_group=1, topk_group=1, first_k_dense_replace=1, q_lora_rank=32,
            kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, norm_topk_prob=True, routed_scaling_factor=2.5, scoring_func="sigmoid",
            num_key_value_heads=H, index_n_heads=2, index_head_dim=16, index_topk=128, num_nextn_predict_layers=1)
CHOICE = [("mlp.gate.e_score_correction_bias", (E,))]
PLAIN_LATENT = [("self_attn.q_proj.weight", (H * 24, D))] + LATENT[3:]
KDA = [("self_attn.%s_proj.weight" % n, (H * HD, D)) for n in "qkv"] + [("self_attn.%s_conv1d.weight" % n, (H * HD, 1, 4)) for n in "qkv"] + [
    ("self_attn.A_log", (1, 1, H, 1)), ("self_attn.dt_bias", (H * HD,)), ("self_attn.f_a_proj.weight", (HD, D)), ("self_attn.f_b_proj.weight", (H * HD, HD)),
    ("self_attn.b_proj.weight", (H, D)), ("self_attn.g_a_proj.weight", (HD, D)), ("self_attn.g_b_proj.weight", (H * HD, HD)), ("self_attn.o_norm.weight", (HD,)),
    ("self_attn.o_proj.weight", (D, H * HD))]
SHARED_MIX = [(n.replace("mlp.", "block_sparse_moe."), s) for n, s in SHARED]
MIX = [("block_sparse_moe.gate.weight", (E, D))] + experts("block_sparse_moe.experts", ("w1", "w3", "w2"))


def hyper(front):
    """Hyper-connections of three streams; what a block adds to each of them comes last."""
    return [(front + "hc_norm.weight", (3 * D,)), (front + "input_mix_weight_down.weight", (32, 3 * D)), (front + "input_mix_weight_up.weight", (3 * D, 32)),
            (front + "block_inject_weight.weight", (3, 3 * D))]


def v4_hyper(name):
    """Hyper-connections of two streams of DeepSeek V4."""
    return [("hc_%s_fn" % name, (8, 2 * D), "F32"), ("hc_%s_base" % name, (8,), "F32"), ("hc_%s_scale" % name, (3,), "F32")]


def v4_groups(front, size, wide, n):
    return [(front + "ape", (size, wide), "F32"), (front + "wkv.weight", (wide, D)), (front + "wgate.weight", (wide, D)), (front + "norm.weight", (n,))]


def v4_scaled(name, rows, cols):
    return [(name + ".weight", (rows, cols), "F8_E4M3"), (name + ".scale", (-(-rows // 128), -(-cols // 128)), "F8_E8M0")]


def v4(i):
    """A layer of DeepSeek V4 as it is published: FP8 with a scale for each block of 128 x 128, FP4 with one for 32 values."""
    rows = v4_hyper("attn") + v4_hyper("ffn") + v4_scaled("attn.wq_a", 32, D) + v4_scaled("attn.wq_b", H * HD, 32) + v4_scaled("attn.wkv", HD, D) + [
        ("attn.attn_sink", (H,), "F32"), ("attn.q_norm.weight", (32,)), ("attn.kv_norm.weight", (HD,)), ("attn.wo_a.weight", (2 * 32, H * HD // 2)),
        ("attn_norm.weight", (D,)), ("ffn_norm.weight", (D,)), ("ffn.gate.weight", (E, D))] + v4_scaled("attn.wo_b", D, 2 * 32)
    rows += v4_groups("attn.compressor.", *((4, 2 * HD, HD) if i else (8, HD, HD)))
    rows += [("ffn.gate.bias", (E,), "F32")] + v4_groups("attn.indexer.compressor.", 4, 32, 16) + v4_scaled("attn.indexer.wq_b", 2 * 16, 32) + [
        ("attn.indexer.weights_proj.weight", (2, D))] if i else [("ffn.gate.tid2eid", (V, 2), "I64")]
    for n, r, w in (("w1", FE, D), ("w3", FE, D), ("w2", D, FE)):
        rows += v4_scaled("ffn.shared_experts." + n, r, w)
        for e in range(E):
            rows += [("ffn.experts.%d.%s.weight" % (e, n), (r, w // 2), "I8"), ("ffn.experts.%d.%s.scale" % (e, n), (r, w // 32), "F8_E8M0")]
    return [("layers.%d.%s" % (i, row[0]), *row[1:]) for row in rows]


def at(i, rows, front="model.layers.%d."):
    """Tensors of layer i alone."""
    return [(front % i + n, s) for n, s in rows]


def mimo(kv):
    return [("self_attn.q_proj.weight", (H * HD, D)), ("self_attn.k_proj.weight", (kv * HD, D)), ("self_attn.v_proj.weight", (kv * 12, D)),
            ("self_attn.o_proj.weight", (D, H * 12))]


def step(heads, kv):
    return [("self_attn.q_proj.weight", (heads * HD, D)), ("self_attn.k_proj.weight", (kv * HD, D)), ("self_attn.v_proj.weight", (kv * HD, D)),
            ("self_attn.o_proj.weight", (D, heads * HD)), ("self_attn.g_proj.weight", (heads, D))] + HEADS


def openelm(i, heads, kv, ff):
    return at(i, [("attn.qkv_proj.weight", ((heads + 2 * kv) * HD, D)), ("attn.q_norm.weight", (HD,)), ("attn.k_norm.weight", (HD,)),
                  ("attn.out_proj.weight", (D, heads * HD)), ("attn_norm.weight", (D,)), ("ffn_norm.weight", (D,)), ("ffn.proj_1.weight", (2 * ff, D)),
                  ("ffn.proj_2.weight", (D, ff))], "transformer.layers.%d.")


def t5_block(side, i, gated):
    front, last = "%s.block.%d.layer." % (side, i), 2 if side == "decoder" else 1
    rows = [("0.SelfAttention.%s.weight" % n, (H * HD, D) if n != "o" else (D, H * HD)) for n in "qkvo"] + [("0.layer_norm.weight", (D,))]
    rows += [("0.SelfAttention.relative_attention_bias.weight", (8, H))] if not i else []
    if last == 2:
        rows += [("1.EncDecAttention.%s.weight" % n, (H * HD, D) if n != "o" else (D, H * HD)) for n in "qkvo"] + [("1.layer_norm.weight", (D,))]
    rows += [("%d.DenseReluDense.%s.weight" % (last, n), (F, D)) for n in (("wi_0", "wi_1") if gated else ("wi",))]
    return [(front + n, s) for n, s in rows + [("%d.DenseReluDense.wo.weight" % last, (D, F)), ("%d.layer_norm.weight" % last, (D,))]]


def t5(cls, gated, sides=("encoder", "decoder")):
    config = dict(architectures=[cls], model_type="t5", d_model=D, d_ff=F, d_kv=HD, num_heads=H, num_layers=L, num_decoder_layers=L, vocab_size=V,
                  n_positions=128, layer_norm_epsilon=1e-6, relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0,
                  feed_forward_proj="gated-gelu" if gated else "relu", pad_token_id=0, eos_token_id=1, tie_word_embeddings=not gated)
    rows = [("shared.weight", (V, D))] + [r for side in sides for i in range(L) for r in t5_block(side, i, gated)]
    rows += [(side + ".final_layer_norm.weight", (D,)) for side in sides] + ([("lm_head.weight", (V, D))] if gated and len(sides) == 2 else [])
    return config, rows


def rwkv7(i):
    """Layer i in the names of the library fla."""
    lora = [("attn.%s_lora.lora.%s" % (n, e), s) for n, r, bias in (("w", 16, 1), ("a", 16, 1), ("g", 24, 0), ("v", 8, 1)) if n != "v" or i
            for e, s in [("0.weight", (r, D)), ("2.weight", (D, r))] + ([("2.bias", (D,))] if bias else [])]
    norms = [("%s_norm.%s" % (n, e), (D,)) for n in (("pre", "attn", "ffn") if not i else ("attn", "ffn")) for e in ("weight", "bias")]
    return at(i, norms + [("attn.x_%s" % n, (1, 1, D)) for n in "rwkvag"] + lora + [("attn.k_k", (D,)), ("attn.k_a", (D,)), ("attn.r_k", (H, HD))] +
              [("attn.%s_proj.weight" % n, (D, D)) for n in "rkvo"] + [("attn.g_norm.weight", (D,)), ("attn.g_norm.bias", (D,)), ("ffn.x_k", (D,)),
                                                                       ("ffn.key.weight", (F, D)), ("ffn.value.weight", (D, F))])


def rwkv7_own(i, ffn=True, front="model.blocks.%d."):
    """Layer i in the names of RWKV's authors."""
    rows = [("ln%d.%s" % (n, e), (D,)) for n in (1, 2) for e in ("weight", "bias")] if ffn else []
    rows += [("attention.x_%s" % n, (1, 1, D)) for n in "rwkvag"]
    for n, r in (("w", 16), ("a", 16), ("v", 8), ("g", 24)):
        rows += [("attention.%s1" % n, (D, r)), ("attention.%s2" % n, (r, D))] + ([("attention.%s0" % n, (1, 1, D))] if n != "g" else [])
    rows += [("attention.k_k", (1, 1, D)), ("attention.k_a", (1, 1, D)), ("attention.r_k", (H, HD))]
    rows += [("attention.%s.weight" % n, (D, D)) for n in ("receptance", "key", "value", "output")]
    rows += [("attention.ln_x.weight", (D,)), ("attention.ln_x.bias", (D,))]
    rows += [("feed_forward.x_k", (1, 1, D)), ("feed_forward.key.weight", (F, D)), ("feed_forward.value.weight", (D, F))] if ffn else []
    return at(i, [(n.replace("attention", "self_attn.time_mixer") if not ffn else n, s) for n, s in rows], front)


def rwkv6(i):
    rows = [("ln%d.%s" % (n, e), (D,)) for n in (1, 2) for e in ("weight", "bias")] + ([("pre_ln.weight", (D,)), ("pre_ln.bias", (D,))] if not i else [])
    rows += [("attention.time_maa_%s" % n, (1, 1, D)) for n in "xwkvrg"] + [("attention.time_maa_w1", (D, 5 * 32)), ("attention.time_maa_w2", (5, 32, D))]
    rows += [("attention.time_decay", (1, 1, D)), ("attention.time_decay_w1", (D, 64)), ("attention.time_decay_w2", (64, D)), ("attention.time_faaaa", (H, HD))]
    rows += [("attention.%s.weight" % n, (D, D)) for n in ("receptance", "key", "value", "gate", "output")]
    rows += [("attention.ln_x.weight", (D,)), ("attention.ln_x.bias", (D,)), ("feed_forward.time_maa_k", (1, 1, D)), ("feed_forward.time_maa_r", (1, 1, D))]
    return at(i, rows + [("feed_forward.key.weight", (F, D)), ("feed_forward.value.weight", (D, F)), ("feed_forward.receptance.weight", (D, D))], "rwkv.blocks.%d.")


def rwkv6qwen2(i):
    rows = [("self_attn.time_maa_%s" % n, (1, 1, D)) for n in "xwkvrg"] + [("self_attn.time_maa_w1", (D, 5 * 32)), ("self_attn.time_maa_w2", (5, 32, D))]
    rows += [("self_attn.time_decay", (1, 1, D)), ("self_attn.time_decay_w1", (D, 64)), ("self_attn.time_decay_w2", (64, D)), ("self_attn.gate.weight", (D, D))]
    return at(i, rows + ATTN + BIAS + MLP + NORMS)


FAMILIES = {
    "llama": (base("LlamaForCausalLM", "llama"), TOP + layers(ATTN + MLP + NORMS)),
    "llama_bias": (base("LlamaForCausalLM", "llama", attention_bias=True, rope_scaling=LLAMA3, head_dim=HD),
                   TOP + layers(ATTN + BIAS + [("self_attn.o_proj.bias", (D,))] + MLP + NORMS)),
    "llama_tied": (base("LlamaForCausalLM", "llama", tie_word_embeddings=True), TOP[:2] + layers(ATTN + MLP + NORMS)),
    "mixtral": (base("MixtralForCausalLM", "mixtral", num_local_experts=E, num_experts_per_tok=2, intermediate_size=FE),
                TOP + layers(ATTN + NORMS + [("block_sparse_moe.gate.weight", (E, D))] + experts("block_sparse_moe.experts", ("w1", "w3", "w2")))),
    "mistral": (base("MistralForCausalLM", "mistral", sliding_window=None, head_dim=HD), TOP + layers(ATTN + MLP + NORMS)),
    "qwen2": (base("Qwen2ForCausalLM", "qwen2"), TOP + layers(ATTN + BIAS + MLP + NORMS)),
    "qwen2_yarn": (base("Qwen2ForCausalLM", "qwen2", rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32)),
                   TOP + layers(ATTN + BIAS + MLP + NORMS)),
    "qwen3": (base("Qwen3ForCausalLM", "qwen3", head_dim=HD),
              TOP + layers(ATTN + MLP + NORMS + [("self_attn.q_norm.weight", (HD,)), ("self_attn.k_norm.weight", (HD,))])),
    "qwen3moe": (base("Qwen3MoeForCausalLM", "qwen3_moe", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE,
                      norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
                 TOP + layers(ATTN + NORMS + [("self_attn.q_norm.weight", (HD,)), ("self_attn.k_norm.weight", (HD,)), ("mlp.gate.weight", (E, D))] +
                              experts("mlp.experts"))),
    "qwen2moe": (base("Qwen2MoeForCausalLM", "qwen2_moe", num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE,
                      shared_expert_intermediate_size=F, decoder_sparse_step=1, norm_topk_prob=False),
                 TOP + layers(ATTN + BIAS + NORMS + [("mlp.gate.weight", (E, D)), ("mlp.shared_expert_gate.weight", (1, D))] +
                              [(n.replace("mlp.", "mlp.shared_expert."), s) for n, s in MLP] + experts("mlp.experts"))),
    "gemma2": (base("Gemma2ForCausalLM", "gemma2", head_dim=HD, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, sliding_window=8,
                    hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=HD),
               TOP[:2] + layers(ATTN + MLP + NORMS + [("pre_feedforward_layernorm.weight", (D,)), ("post_feedforward_layernorm.weight", (D,))])),
    "phi3": (base("Phi3ForCausalLM", "phi3", original_max_position_embeddings=64, rope_scaling=LONG, sliding_window=16, pad_token_id=0,
                  num_key_value_heads=H),
             TOP + layers(NORMS + [("self_attn.qkv_proj.weight", (3 * D, D)), ("self_attn.o_proj.weight", (D, D)),
                                   ("mlp.gate_up_proj.weight", (2 * F, D)), ("mlp.down_proj.weight", (D, F))])),
    "gpt2": (dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_embd=D, n_head=H, n_layer=L, n_positions=128, n_ctx=128, vocab_size=V,
                  layer_norm_epsilon=1e-5, bos_token_id=267, eos_token_id=268),
             [("wte.weight", (V, D)), ("wpe.weight", (128, D)), ("ln_f.weight", (D,)), ("ln_f.bias", (D,))] +
             layers([("attn.c_attn.weight", (D, 3 * D)), ("attn.c_attn.bias", (3 * D,)), ("attn.c_proj.weight", (D, D)), ("attn.c_proj.bias", (D,)),
                     ("mlp.c_fc.weight", (D, 4 * D)), ("mlp.c_fc.bias", (4 * D,)), ("mlp.c_proj.weight", (4 * D, D)), ("mlp.c_proj.bias", (D,)),
                     ("ln_1.weight", (D,)), ("ln_1.bias", (D,)), ("ln_2.weight", (D,)), ("ln_2.bias", (D,))], "h.%d.")),
    "bloom": (dict(architectures=["BloomForCausalLM"], model_type="bloom", hidden_size=D, n_head=H, n_layer=L, vocab_size=V, seq_length=128,
                   layer_norm_epsilon=1e-5),
              [("word_embeddings.weight", (V, D)), ("word_embeddings_layernorm.weight", (D,)), ("word_embeddings_layernorm.bias", (D,)),
               ("ln_f.weight", (D,)), ("ln_f.bias", (D,))] +
              layers([("self_attention.query_key_value.weight", (3 * D, D)), ("self_attention.query_key_value.bias", (3 * D,)),
                      ("self_attention.dense.weight", (D, D)), ("self_attention.dense.bias", (D,)), ("mlp.dense_h_to_4h.weight", (4 * D, D)),
                      ("mlp.dense_h_to_4h.bias", (4 * D,)), ("mlp.dense_4h_to_h.weight", (D, 4 * D)), ("mlp.dense_4h_to_h.bias", (D,))] +
                     NORMS + NORM_BIAS, "h.%d.")),
    "internlm2": (base("InternLM2ForCausalLM", "internlm2"),
                  [("model.tok_embeddings.weight", (V, D)), ("model.norm.weight", (D,)), ("output.weight", (V, D))] +
                  layers([("attention.wqkv.weight", ((H + 2 * KV) * HD, D)), ("attention.wo.weight", (D, D)), ("attention_norm.weight", (D,)),
                          ("ffn_norm.weight", (D,)), ("feed_forward.w1.weight", (F, D)), ("feed_forward.w2.weight", (D, F)), ("feed_forward.w3.weight", (F, D))])),
    "baichuan": (base("BaichuanForCausalLM", "baichuan", num_key_value_heads=H),
                 TOP + layers([("self_attn.W_pack.weight", (3 * D, D)), ("self_attn.o_proj.weight", (D, D))] + MLP + NORMS)),
    "xverse": (base("XverseForCausalLM", "xverse", num_key_value_heads=H), TOP + layers(FULL + MLP + NORMS)),
    "minicpm": (base("MiniCPMForCausalLM", "minicpm", scale_emb=12, scale_depth=1.4, dim_model_base=32), TOP + layers(ATTN + MLP + NORMS)),
    "orion": (base("OrionForCausalLM", "orion", num_key_value_heads=H),
              TOP + [("model.norm.bias", (D,))] + layers(FULL + MLP + NORMS + NORM_BIAS)),
    "exaone": (dict(base("ExaoneForCausalLM", "exaone", activation_function="silu", rope_scaling=LLAMA3), layer_norm_epsilon=1e-5),
               [("transformer.wte.weight", (V, D)), ("transformer.ln_f.weight", (D,)), ("lm_head.weight", (V, D))] +
               layers([("attn.attention.q_proj.weight", (D, D)), ("attn.attention.k_proj.weight", (KV * HD, D)), ("attn.attention.v_proj.weight", (KV * HD, D)),
                       ("attn.attention.out_proj.weight", (D, D)), ("mlp.c_fc_0.weight", (F, D)), ("mlp.c_fc_1.weight", (F, D)), ("mlp.c_proj.weight", (D, F)),
                       ("ln_1.weight", (D,)), ("ln_2.weight", (D,))], "transformer.h.%d.")),
    "deepseek": (base("DeepseekForCausalLM", "deepseek", n_routed_experts=E, n_shared_experts=2, num_experts_per_tok=2, moe_intermediate_size=FE,
                      first_k_dense_replace=1, num_key_value_heads=H),
                 TOP + layers(FULL + MLP + NORMS, n=1) +
                 [("model.layers.1." + n, s) for n, s in FULL + NORMS + [("mlp.gate.weight", (E, D))] + experts("mlp.experts") +
                  [("mlp.shared_experts.gate_proj.weight", (2 * FE, D)), ("mlp.shared_experts.up_proj.weight", (2 * FE, D)),
                   ("mlp.shared_experts.down_proj.weight", (D, 2 * FE))]]),
    "refact": (dict(architectures=["GPTRefactForCausalLM"], model_type="gpt_refact", n_embd=96, n_head=H, n_layer=L, n_positions=128, vocab_size=V,
                    layer_norm_epsilon=1e-5),
               [("transformer.wte.weight", (V, 96)), ("lm_head.weight", (V, 96)), ("transformer.ln_f.weight", (96,))] +
               layers([("attn.q.weight", (96, 96)), ("attn.kv.weight", (48, 96)), ("attn.c_proj.weight", (96, 96)), ("mlp.gate_up_proj.weight", (512, 96)),
                       ("mlp.c_proj.weight", (96, 256)), ("ln_1.weight", (96,)), ("ln_2.weight", (96,))], "transformer.h.%d.")),
    "qwen2vl": (base("Qwen2VLForConditionalGeneration", "qwen2_vl", rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3]),
                     vision_config=dict(depth=1)),
                TOP + layers(ATTN + BIAS + MLP + NORMS) + [("visual.patch_embed.proj.weight", (8, 8))]),
    "ernie4_5": (base("Ernie4_5_ForCausalLM", "ernie4_5", head_dim=HD), TOP + layers(ATTN + MLP + NORMS)),
    "pangu": (base("PanguEmbeddedForCausalLM", "PanguEmbedded", tie_word_embeddings=True), TOP + layers(ATTN + BIAS + [("self_attn.o_proj.bias", (D,))] + MLP + NORMS)),
    "chatglm": (dict(architectures=["ChatGLMModel"], model_type="chatglm", hidden_size=D, num_attention_heads=H, multi_query_group_num=KV, num_layers=L,
                     ffn_hidden_size=F, padded_vocab_size=V, vocab_size=V, seq_length=128, layernorm_epsilon=1e-5, rope_ratio=2),
                [("transformer.embedding.word_embeddings.weight", (V, D)), ("transformer.encoder.final_layernorm.weight", (D,)),
                 ("transformer.output_layer.weight", (V, D)), ("transformer.rotary_pos_emb.inv_freq", (HD // 4,))] +
                layers(NORMS + [("self_attention.query_key_value.weight", ((H + 2 * KV) * HD, D)), ("self_attention.query_key_value.bias", ((H + 2 * KV) * HD,)),
                                ("self_attention.dense.weight", (D, D)), ("mlp.dense_h_to_4h.weight", (2 * F, D)), ("mlp.dense_4h_to_h.weight", (D, F))],
                       "transformer.encoder.layers.%d.")),
    "gpt_oss": (base("GptOssForCausalLM", "gpt_oss", head_dim=HD, num_local_experts=E, num_experts_per_tok=2, sliding_window=8, intermediate_size=FE,
                     layer_types=["sliding_attention", "full_attention"],
                     rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64)),
                TOP + layers(ATTN + BIAS + [("self_attn.o_proj.bias", (D,)), ("self_attn.sinks", (H,))] + NORMS +
                             [("mlp.router.weight", (E, D)), ("mlp.router.bias", (E,)), ("mlp.experts.gate_up_proj", (E, D, 2 * FE)),
                              ("mlp.experts.gate_up_proj_bias", (E, 2 * FE)), ("mlp.experts.down_proj", (E, FE, D)), ("mlp.experts.down_proj_bias", (E, D))])),
    "falcon": (dict(architectures=["FalconForCausalLM"], model_type="falcon", hidden_size=D, num_attention_heads=H, num_kv_heads=KV, num_hidden_layers=L,
                    vocab_size=V, layer_norm_epsilon=1e-5, new_decoder_architecture=True, parallel_attn=True, bias=False, alibi=False),
               [("transformer.word_embeddings.weight", (V, D)), ("transformer.ln_f.weight", (D,)), ("transformer.ln_f.bias", (D,)), ("lm_head.weight", (V, D))] +
               layers([("self_attention.query_key_value.weight", ((H + 2 * KV) * HD, D)), ("self_attention.dense.weight", (D, D)),
                       ("mlp.dense_h_to_4h.weight", (4 * D, D)), ("mlp.dense_4h_to_h.weight", (D, 4 * D))] +
                      [("%s.%s" % (n, e), (D,)) for n in ("ln_attn", "ln_mlp") for e in ("weight", "bias")], "transformer.h.%d.")),
    "gptneox": (dict(base("GPTNeoXForCausalLM", "gpt_neox", rotary_pct=0.25, rotary_emb_base=10000, layer_norm_eps=1e-5, use_parallel_residual=True)),
                [("gpt_neox.embed_in.weight", (V, D)), ("gpt_neox.final_layer_norm.weight", (D,)), ("gpt_neox.final_layer_norm.bias", (D,)), ("embed_out.weight", (V, D))] +
                layers(NORMS + NORM_BIAS + [("attention.query_key_value.weight", (3 * D, D)), ("attention.query_key_value.bias", (3 * D,)),
                                            ("attention.dense.weight", (D, D)), ("attention.dense.bias", (D,)), ("mlp.dense_h_to_4h.weight", (F, D)),
                                            ("mlp.dense_h_to_4h.bias", (F,)), ("mlp.dense_4h_to_h.weight", (D, F)), ("mlp.dense_4h_to_h.bias", (D,))],
                       "gpt_neox.layers.%d.")),
    "phi2": (base("PhiForCausalLM", "phi", partial_rotary_factor=0.5, layer_norm_eps=1e-5, num_key_value_heads=H, intermediate_size=4 * D),
             [("model.embed_tokens.weight", (V, D)), ("model.final_layernorm.weight", (D,)), ("model.final_layernorm.bias", (D,)), ("lm_head.weight", (V, D)),
              ("lm_head.bias", (V,))] +
             layers([("self_attn.%s.%s" % (n, e), (D, D) if e == "weight" else (D,)) for n in ("q_proj", "k_proj", "v_proj", "dense") for e in ("weight", "bias")] +
                    [("mlp.fc1.weight", (4 * D, D)), ("mlp.fc1.bias", (4 * D,)), ("mlp.fc2.weight", (D, 4 * D)), ("mlp.fc2.bias", (D,))] +
                    NORMS[:1] + NORM_BIAS[:1])),
    "stablelm": (base("StableLmForCausalLM", "stablelm", partial_rotary_factor=0.25, layer_norm_eps=1e-5, use_qkv_bias=True),
                 TOP + [("model.norm.bias", (D,))] +
                 layers(ATTN + BIAS + MLP + NORMS + NORM_BIAS)),
    "phimoe": (base("PhiMoEForCausalLM", "phimoe", num_local_experts=E, num_experts_per_tok=2, intermediate_size=FE, original_max_position_embeddings=64,
                    rope_scaling=LONG, sliding_window=16, attention_bias=True, lm_head_bias=True),
               TOP + [("model.norm.bias", (D,)), ("lm_head.bias", (V,))] +
               layers(ATTN + BIAS + [("self_attn.o_proj.bias", (D,))] + NORMS + NORM_BIAS + [("block_sparse_moe.gate.weight", (E, D))] +
                      experts("block_sparse_moe.experts", ("w1", "w3", "w2")))),
    "mpt": (dict(architectures=["MPTForCausalLM"], model_type="mpt", d_model=D, n_heads=H, n_layers=L, max_seq_len=128, vocab_size=V,
                 attn_config=dict(alibi=True, alibi_bias_max=8, clip_qkv=6.0)),
            [("transformer.wte.weight", (V, D)), ("transformer.norm_f.weight", (D,))] +
            layers([("attn.Wqkv.weight", (3 * D, D)), ("attn.out_proj.weight", (D, D)), ("ffn.up_proj.weight", (4 * D, D)), ("ffn.down_proj.weight", (D, 4 * D)),
                    ("norm_1.weight", (D,)), ("norm_2.weight", (D,))], "transformer.blocks.%d.")),
    "command-r": (dict(base("CohereForCausalLM", "cohere", logit_scale=0.0625, layer_norm_eps=1e-5, model_max_length=256, tie_word_embeddings=True)),
                  TOP[:2] + layers(ATTN + MLP + NORMS[:1])),
    "deepseek2": (base("DeepseekV3ForCausalLM", "deepseek_v3", n_routed_experts=E, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=FE, n_group=2,
                       topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
                       norm_topk_prob=True, routed_scaling_factor=2.5, scoring_func="sigmoid", num_key_value_heads=H,
                       rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1)),
                  TOP + layers(LATENT + MLP + NORMS, n=1) +
                  [("model.layers.1." + n, s) for n, s in LATENT + NORMS + [("mlp.gate.weight", (E, D)), ("mlp.gate.e_score_correction_bias", (E,))] +
                   experts("mlp.experts") + [("mlp.shared_experts.gate_proj.weight", (FE, D)), ("mlp.shared_experts.up_proj.weight", (FE, D)),
                                             ("mlp.shared_experts.down_proj.weight", (D, FE))]]),
    "dream": (base("DreamModel", "Dream", mask_token_id=266), TOP + layers(ATTN + BIAS + MLP + NORMS)),
    "llada": (dict(architectures=["LLaDAModelLM"], model_type="llada", d_model=D, n_heads=H, n_kv_heads=KV, n_layers=L, mlp_hidden_size=F, vocab_size=V,
                   max_sequence_length=128, rms_norm_eps=1e-5, rope_theta=500000.0, mask_token_id=266, eos_token_id=268),
              [("model.transformer.wte.weight", (V, D)), ("model.transformer.ln_f.weight", (D,)), ("model.transformer.ff_out.weight", (V, D))] +
              layers([("q_proj.weight", (D, D)), ("k_proj.weight", (KV * HD, D)), ("v_proj.weight", (KV * HD, D)), ("attn_out.weight", (D, D)), ("attn_norm.weight", (D,)),
                      ("ff_norm.weight", (D,)), ("ff_proj.weight", (F, D)), ("up_proj.weight", (F, D)), ("ff_out.weight", (D, F))], "model.transformer.blocks.%d.")),
    "llada-moe": (base("LLaDAMoEModelLM", "llada", head_dim=HD, num_experts=E, num_experts_per_tok=2, expert_intermediate_size=FE, mask_token_id=266),
                  TOP + layers(ATTN + NORMS + HEADS + SPARSE)),
    "plm": (base("PLMForCausalLM", "plm", num_key_value_heads=H, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12, q_lora_rank=None),
            TOP[:2] + layers(PLAIN_LATENT + MLP[1:] + NORMS)),
    "arctic": (base("ArcticForCausalLM", "arctic", num_local_experts=E, num_experts_per_tok=2, intermediate_size=FE),
               TOP + layers(ATTN + NORMS + MIX + [("residual_layernorm.weight", (D,))] + [("residual_mlp.w%d.weight" % n, (D, D)) for n in (1, 2, 3)])),
    "deepseek32": (base("DeepseekV32ForCausalLM", "deepseek_v32", **DEEP),
                   TOP + at(0, LATENT + INDEX + MLP + NORMS) + at(1, LATENT + INDEX + NORMS + SPARSE + CHOICE + SHARED) +
                   at(2, LATENT + INDEX + NORMS + SPARSE + CHOICE + SHARED + AHEAD + [("shared_head.norm.weight", (D,))])),
    "glm-dsa": (base("GlmMoeDsaForCausalLM", "glm_moe_dsa", **dict(DEEP, indexer_types=["full", "full"])),
                TOP + at(0, LATENT + INDEX + MLP + NORMS) + at(1, LATENT + INDEX + NORMS + SPARSE + CHOICE + SHARED) +
                at(2, LATENT + INDEX + NORMS + SPARSE + CHOICE + SHARED + AHEAD + [("shared_head.norm.weight", (D,))])),
    "deepseek4": (base("DeepseekV4ForCausalLM", "deepseek_v4", num_key_value_heads=1, head_dim=HD, qk_rope_head_dim=8, q_lora_rank=32, o_lora_rank=32, o_groups=2,
                       sliding_window=8, compress_ratios=[8, 4, 0], compress_rope_theta=40000.0, hc_mult=2, hc_sinkhorn_iters=3, hc_eps=1e-6, num_hash_layers=1,
                       rope_scaling=dict(type="yarn", factor=4, original_max_position_embeddings=64, beta_fast=32, beta_slow=1), n_routed_experts=E, n_shared_experts=1,
                       num_experts_per_tok=2, moe_intermediate_size=FE, scoring_func="sqrtsoftplus", norm_topk_prob=True, routed_scaling_factor=1.5, swiglu_limit=7.0,
                       index_n_heads=2, index_head_dim=16, index_topk=3, num_nextn_predict_layers=1,
                       quantization_config=dict(quant_method="fp8", fmt="e4m3", scale_fmt="ue8m0", weight_block_size=[128, 128])),
                  [("embed.weight", (V, D)), ("norm.weight", (D,)), ("head.weight", (V, D)), ("hc_head_fn", (2, 2 * D), "F32"), ("hc_head_base", (2,), "F32"),
                   ("hc_head_scale", (1,), "F32")] + v4(0) + v4(1) + [("mtp.0.enorm.weight", (D,))] +
                  [("mtp.0.attn.wkv" + n[8:], s, t) for n, s, t in v4_scaled("attn.wkv", HD, D)]),
    "kimi-linear": (base("KimiLinearForCausalLM", "kimi_linear", head_dim=HD, num_key_value_heads=H, kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=16,
                         qk_rope_head_dim=8, v_head_dim=12, mla_use_nope=True, num_experts=E, num_experts_per_token=2, num_shared_experts=1,
                         moe_intermediate_size=FE, moe_router_activation_func="sigmoid", moe_renormalize=True, routed_scaling_factor=2.446, first_k_dense_replace=1, topk_group=1,
                         linear_attn_config=dict(kda_layers=[1], full_attn_layers=[2], num_heads=H, head_dim=HD, short_conv_kernel_size=4)),
                    TOP + at(0, KDA + MLP + NORMS) +
                    at(1, PLAIN_LATENT + NORMS + MIX + [("block_sparse_moe.gate.e_score_correction_bias", (E,))] + SHARED_MIX)),
    "mimo2": (dict(base("MiMoV2FlashForCausalLM", "mimo_v2", head_dim=HD, v_head_dim=12, swa_head_dim=HD, swa_v_head_dim=12, swa_num_attention_heads=H,
                        swa_num_key_value_heads=4, hybrid_layer_pattern=[0, 1], moe_layer_freq=[0, 1], n_routed_experts=E, num_experts_per_tok=2,
                        moe_intermediate_size=FE, sliding_window=8, swa_rope_theta=5000.0, partial_rotary_factor=0.5, topk_method="noaux_tc", n_group=1, topk_group=1,
                        scoring_func="sigmoid", norm_topk_prob=True, layernorm_epsilon=1e-5, attention_value_scale=0.707)),
              TOP + at(0, mimo(KV) + MLP + NORMS) + at(1, mimo(4) + [("self_attn.attention_sink_bias", (H,))] + NORMS + SPARSE + CHOICE) +
              layers(mimo(4) + [("self_attn.attention_sink_bias", (H,))] + MLP + AHEAD + [("input_layernorm.weight", (D,)), ("pre_mlp_layernorm.weight", (D,)),
                                                                                           ("final_layernorm.weight", (D,))], "model.mtp.layers.%d.", 3)),
    "step35": (base("Step3p5ForCausalLM", "step3p5", head_dim=HD, num_attention_groups=KV, num_nextn_predict_layers=1, sliding_window=8,
                    layer_types=["full_attention", "sliding_attention", "sliding_attention"], partial_rotary_factors=[0.5, 1.0, 1.0],
                    attention_other_setting=dict(num_attention_heads=6, num_attention_groups=3), moe_num_experts=E, moe_top_k=2, moe_intermediate_size=FE,
                    share_expert_dim=FE, moe_layers_enum="1", moe_router_scaling_factor=3.0, norm_expert_weight=True, moe_router_activation="sigmoid",
                    rope_theta=[50000.0, 10000.0, 10000.0], swiglu_limits=[0.0, 7.0, 0.0], swiglu_limits_shared=[0.0, 16.0, 0.0], rope_scaling=LLAMA3),
               TOP + at(0, step(H, KV) + MLP + NORMS) +
               at(1, step(6, 3) + NORMS + [("moe.gate.weight", (E, D)), ("moe.router_bias", (E,)), ("moe.gate_proj.weight", (E, FE, D)), ("moe.up_proj.weight", (E, FE, D)),
                                           ("moe.down_proj.weight", (E, D, FE)), ("share_expert.gate_proj.weight", (FE, D)), ("share_expert.up_proj.weight", (FE, D)),
                                           ("share_expert.down_proj.weight", (D, FE))]) +
               at(2, step(6, 3) + MLP + NORMS + AHEAD + [("transformer.shared_head.norm.weight", (D,)), ("transformer.shared_head.output.weight", (V, D))])),
    "exaone-moe": (base("ExaoneMoEForCausalLM", "exaone_moe", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE, num_shared_experts=1,
                        first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, n_group=1, topk_group=1, scoring_func="sigmoid", sliding_window=8,
                        layer_types=["sliding_attention", "full_attention"], num_nextn_predict_layers=1),
                   TOP + at(0, ATTN + HEADS + MLP + NORMS) + at(1, ATTN + HEADS + NORMS + SPARSE + [("mlp.e_score_correction_bias", (E,))] + SHARED) +
                   layers(ATTN + HEADS + MLP + NORMS, "mtp.layers.%d.", 1) +
                   [("mtp.fc.weight", (D, 2 * D)), ("mtp.norm.weight", (D,)), ("mtp.pre_fc_norm_embedding.weight", (D,)), ("mtp.pre_fc_norm_hidden.weight", (D,))]),
    "exaone4": (dict(architectures=["Exaone4_5_ForConditionalGeneration"], model_type="exaone4_5", vision_config=dict(depth=1), text_config=dict(
                    base("", "exaone4_5_text", head_dim=HD, sliding_window=8, layer_types=["sliding_attention", "full_attention"], num_nextn_predict_layers=2,
                         mtp_share_layers=True))),
                TOP + layers(ATTN + HEADS + MLP + NORMS[1:] + [("post_feedforward_layernorm.weight", (D,))]) +
                layers(ATTN + HEADS + MLP + NORMS[1:] + [("post_feedforward_layernorm.weight", (D,))], "mtp.layers.%d.", 1) +
                [("mtp.fc.weight", (D, 2 * D)), ("mtp.norm.weight", (D,)), ("mtp.pre_fc_norm_embedding.weight", (D,)), ("mtp.pre_fc_norm_hidden.weight", (D,))]),
    "minimax-m3": (base("MiniMaxM3SparseForCausalLM", "minimax_m3", head_dim=HD, rotary_dim=8, intermediate_size=FE, dense_intermediate_size=F, num_local_experts=E,
                        num_experts_per_tok=2, n_shared_experts=1, routed_scaling_factor=2.0, scoring_func="sigmoid", moe_layer_freq=[0, 1],
                        sparse_attention_config=dict(sparse_num_index_heads=2, sparse_index_dim=HD, sparse_topk_blocks=32, sparse_block_size=4, sparse_local_block=1,
                                                     sparse_attention_freq=[0, 1])),
                   TOP + at(0, ATTN + HEADS + MLP + NORMS) +
                   at(1, ATTN + HEADS + NORMS + MIX + SHARED_MIX + [("block_sparse_moe.e_score_correction_bias", (E,)), ("self_attn.index_q_proj.weight", (2 * HD, D)),
                                                                   ("self_attn.index_k_proj.weight", (HD, D)), ("self_attn.index_q_norm.weight", (HD,)),
                                                                   ("self_attn.index_k_norm.weight", (HD,))])),
    "qwen4exp": (dict(architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", vision_config=dict(depth=1), text_config=dict(
                     base("", "qwen4_exp_text", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE, shared_expert_intermediate_size=FE,
                          layer_types=["linear_attention", "full_attention"], linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16,
                          linear_num_key_heads=2, linear_num_value_heads=4, hc_count=3, hc_lowrank=32, output_gate_type="sigmoid", ple_layer_ids=[1],
                          ple_embed_dim=64, ple_conv_kernel_size=4, ngram_size=3, heads_per_ngram=1, ngram_vocab_size_base=30, split_ngram_parts=4,
                          indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=8, indexer_compress_ratio=4,
                          rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])))),
                 [("model.language_model.embed_tokens.weight", (V, D)), ("lm_head.weight", (V, D)), ("mtp.fc_hidden.weight", (D, D)),
                  ("model.visual.patch_embed.proj.weight", (D, 12))] +
                 [("model.language_model." + n, s) for n, s in hyper("hyper_connection_mixer.")[:3]] +
                 layers(hyper("attn_hyper_connection.") + hyper("mlp_hyper_connection.") + SPARSE_ONE, "model.language_model.layers.%d.") +
                 at(0, [("linear_attn.in_proj_qkv.weight", (128, D)), ("linear_attn.in_proj_z.weight", (64, D)), ("linear_attn.in_proj_a.weight", (4, D)),
                        ("linear_attn.in_proj_b.weight", (4, D)), ("linear_attn.conv1d.weight", (128, 1, 4)), ("linear_attn.A_log", (4,)),
                        ("linear_attn.dt_bias", (4,)), ("linear_attn.norm.weight", (16,)), ("linear_attn.out_proj.weight", (D, 64)),
                        ("ple.key_proj.weight", (3 * D, 64)), ("ple.value_proj.weight", (D, 64)), ("ple.conv1d.weight", (3 * D, 1, 4))] +
                    [("ple.norm_%s.weight" % n, (3 * D,)) for n in ("key", "query", "conv")] +
                    [("ple.ple_embedding.ngram_embedding.shard_%d.weight" % i, (32, 32)) for i in (2, 0, 3, 1)], "model.language_model.layers.%d.") +
                 at(1, [("self_attn.q_proj.weight", (2 * H * HD, D))] + ATTN[1:] + HEADS +
                    [("self_attn.indexer.index_qk_proj.weight", (3 * 16, D)), ("self_attn.indexer.q_layernorm.weight", (16,)),
                     ("self_attn.indexer.k_layernorm.weight", (16,))], "model.language_model.layers.%d.")),
    "openelm": (dict(architectures=["OpenELMForCausalLM"], model_type="openelm", model_dim=D, head_dim=HD, num_transformer_layers=2, num_query_heads=[4, 6],
                     num_kv_heads=[2, 3], ffn_multipliers=[0.5, 1.7], ffn_dim_divisor=32, max_context_length=128, rope_freq_constant=10000, vocab_size=V),
                [("transformer.token_embeddings.weight", (V, D)), ("transformer.norm.weight", (D,))] + openelm(0, 4, 2, 32) + openelm(1, 6, 3, 128)),
    "grok": (base("Grok1ForCausalLM", "grok", head_dim=HD, num_local_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE, embedding_multiplier_scale=8.0,
                  output_multiplier_scale=0.5, attn_temperature_len=64, attn_logit_softcapping=30.0, router_logit_softcapping=30.0, final_logit_softcapping=50.0,
                  rope_type="original", scaling_factor=16.0, extrapolation_factor=1.0, attn_factor=1.0, beta_fast=8, beta_slow=1, original_max_position_embeddings=64),
             TOP[:1] + layers(ATTN + MLP + MIX + [(n + ".weight", (D,)) for n in ("pre_attn_norm", "post_attn_norm", "pre_moe_norm", "post_moe_norm")]) + TOP[1:]),
    "grok_1": (base("GrokForCausalLM", "grok-1", head_dim=HD, num_local_experts=E, num_experts_per_tok=2, intermediate_size=FE, embedding_multiplier_scale=8.0,
                    output_multiplier_scale=0.5),
               [("transformer.in_out_embed.weight", (V, D)), ("transformer.rms_norm.weight", (D,))] +
               layers([("rms_norm.weight", (D,))] + [("rms_norm_%d.weight" % i, (D,)) for i in (1, 2, 3)] + [("router.weight", (E, D))] +
                      [("multi_head_attention.%s.weight" % n, (s * HD, D)) for n, s in (("query", H), ("key", KV), ("value", KV))] +
                      [("multi_head_attention.linear.weight", (D, H * HD))] +
                      [("moe.%d.%s.weight" % (i, n), (D, FE) if n == "linear_1" else (FE, D)) for i in range(E) for n in ("linear", "linear_v", "linear_1")],
                      "transformer.decoder_layer.%d.")),
    "bitnet": (base("BitnetForCausalLM", "llama", num_key_value_heads=H),
               TOP[:2] + layers(FULL + MLP + NORMS + [("self_attn.inner_attn_ln.weight", (D,)), ("mlp.ffn_layernorm.weight", (F,))])),
    "bitnet_2b4t": (base("BitNetForCausalLM", "bitnet", hidden_act="relu2", rope_theta=500000.0),
                    TOP + layers(ATTN + MLP + NORMS + [("self_attn.attn_sub_norm.weight", (D,)), ("mlp.ffn_sub_norm.weight", (F,))])),
    "laguna": (base("LagunaForCausalLM", "laguna", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE, shared_expert_intermediate_size=FE,
                    num_attention_heads_per_layer=[4, 6], sliding_window=8, layer_types=["full_attention", "sliding_attention"], mlp_layer_types=["dense", "sparse"],
                    moe_routed_scaling_factor=2.5, gating=True, rope_parameters=dict(
                        full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0,
                                            attention_factor=1.0, partial_rotary_factor=0.5),
                        sliding_attention=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))),
               TOP + at(0, step(4, KV) + MLP + NORMS) +
               at(1, step(6, KV) + NORMS + SPARSE + [("mlp.experts.e_score_correction_bias", (E,))] + [(n.replace("experts", "expert"), s) for n, s in SHARED])),
    "smallthinker": (base("SmallThinkerForCausalLM", "smallthinker", head_dim=HD, moe_num_primary_experts=E, moe_num_active_primary_experts=2, moe_ffn_hidden_size=FE,
                          moe_primary_router_apply_softmax=False, sliding_window_layout=[0, 1], sliding_window_size=8, rope_layout=[0, 1]),
                     TOP + layers(ATTN + NORMS + [("block_sparse_moe.primary_router.weight", (E, D))] + experts("block_sparse_moe.experts", ("gate", "up", "down")))),
    "grovemoe": (base("GroveMoeForCausalLM", "grove_moe", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE),
                 TOP + layers(ATTN + NORMS + HEADS + SPARSE + [("mlp.chunk_experts.%d.%s_proj.weight" % (i, n), (D, HD) if n == "down" else (HD, D))
                                                               for i in range(E // 2) for n in ("gate", "up", "down")])),
    "nanbeige": (base("NanbeigeForCausalLM", "nanbeige", num_loops=2, skip_loop_final_norm=True, head_dim=HD), TOP + layers(ATTN + MLP + NORMS)),
    "maincoder": (base("MaincoderForCausalLM", "maincoder", head_dim=HD), TOP + layers(ATTN + MLP + NORMS + HEADS)),
    "deci": (base("DeciLMForCausalLM", "nemotron-nas", num_key_value_heads=None, rope_scaling=LLAMA3,
                  block_configs=[dict(attention=dict(n_heads_in_group=2, no_op=False, replace_with_linear=False), ffn=dict(ffn_mult=1.5)),
                                 dict(attention=dict(n_heads_in_group=None, no_op=True, replace_with_linear=False), ffn=dict(ffn_mult=3.5)),
                                 dict(attention=dict(n_heads_in_group=None, no_op=True, replace_with_linear=True), ffn=dict(ffn_mult=1.5)),
                                 dict(attention=dict(n_heads_in_group=4, no_op=False, replace_with_linear=False), ffn=dict(ffn_mult=1.5))], num_hidden_layers=4),
             TOP + [r for i, (kv, ff) in enumerate(((2, 256), (0, 256), (0, 256), (1, 256)))
                    for r in at(i, [(n, s) if "k_proj" not in n and "v_proj" not in n else (n, (kv * HD, D)) for n, s in (ATTN if kv else [])] +
                                ([("self_attn.linear_attn.weight", (D, D))] if i == 2 else []) + (NORMS if i != 1 else NORMS[1:]) +
                                [("mlp.gate_proj.weight", (ff, D)), ("mlp.up_proj.weight", (ff, D)), ("mlp.down_proj.weight", (D, ff))])]),
    "deci_7b": (base("DeciLMForCausalLM", "deci", num_key_value_heads=None, num_key_value_heads_per_layer=[2, 1]),
                TOP + [r for i, kv in enumerate((2, 1)) for r in at(i, [(n, s if "q_proj" in n or "o_proj" in n else (kv * HD, D)) for n, s in ATTN] + MLP + NORMS)]),
    "sarvam": (base("SarvamMoEForCausalLM", "sarvam_moe", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE, num_shared_experts=1,
                    first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, n_group=2, topk_group=1,
                    score_function="sigmoid", num_nextn_predict_layers=0),
               [("model.word_embeddings.weight", (V, D))] + TOP[1:] + [
                   r for i in range(2) for r in at(i, [("attention.query_key_value.weight", ((H + 2 * KV) * HD, D)), ("attention.dense.weight", (D, H * HD)),
                                                       ("attention.query_layernorm.weight", (HD,)), ("attention.key_layernorm.weight", (HD,))] + NORMS +
                                                   (MLP if not i else SPARSE + [("mlp.gate.expert_bias", (E,))] + SHARED))]),
    "bailingmoe2": (base("BailingMoeV2ForCausalLM", "bailing_moe_v2", head_dim=HD, num_experts=E, num_experts_per_tok=2, moe_intermediate_size=FE, num_shared_experts=1,
                         first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, n_group=2, topk_group=1, score_function="sigmoid",
                         partial_rotary_factor=0.5, num_nextn_predict_layers=1),
                    [("model.word_embeddings.weight", (V, D))] + TOP[1:] + [
                        r for i in range(3) for r in at(i, [("attention.query_key_value.weight", ((H + 2 * KV) * HD, D)), ("attention.dense.weight", (D, H * HD)),
                                                            ("attention.query_layernorm.weight", (HD,)), ("attention.key_layernorm.weight", (HD,))] + NORMS +
                                                        (MLP if not i else SPARSE + [("mlp.gate.expert_bias", (E,))] + SHARED) +
                                                        (AHEAD + [("final_layernorm.weight", (D,))] if i == 2 else []))]),
    "talkie": (base("TalkieForCausalLM", "talkie", head_dim=HD, num_key_value_heads=H),
               [("model.embed.weight", (V, D)), ("lm_head", (V, D)), ("lm_head_gain.w_g", (1,))] +
               layers([("attn.attn_%s.weight" % n, (D, D)) for n in ("query", "key", "value", "resid")] +
                      [("attn.head_gain.head_g", (H,)), ("attn_gain.a_g", (1,)), ("mlp_gain.a_g", (1,)), ("embed_skip.a_g", (1,)), ("mlp.mlp_gate.weight", (F, D)),
                       ("mlp.mlp_linear.weight", (F, D)), ("mlp.mlp_resid.weight", (D, F))], "model.blocks.%d.")),
    "hunyuan_vl": (base("HunYuanVLForConditionalGeneration", "hunyuan_vl", head_dim=HD, tie_word_embeddings=True, rope_theta=10000.0,
                        rope_scaling=dict(type="xdrope", alpha=1000.0, factor=1.0, xdrope_section=[2, 2, 2, 2]), vision_config=dict(depth=1)),
                   TOP[:2] + layers(ATTN + MLP + NORMS + [("self_attn.query_layernorm.weight", (HD,)), ("self_attn.key_layernorm.weight", (HD,))])),
    "mistral4": (dict(architectures=["Mistral3ForConditionalGeneration"], model_type="mistral3", vision_config=dict(depth=1), text_config=dict(
                     base("", "mistral4", **{k: v for k, v in DEEP.items() if k[:5] not in ("index", "num_n", "scori")}),
                     first_k_dense_replace=0, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32, mscale=1.0,
                                                                  mscale_all_dim=1.0, beta_fast=32.0, beta_slow=1.0))),
                 [("language_model." + n, s) for n, s in TOP + layers(LATENT + NORMS + SHARED + [("mlp.gate.weight", (E, D)), ("mlp.experts.gate_up_proj", (E, 2 * FE, D)),
                                                                                                 ("mlp.experts.down_proj", (E, D, FE))])]),
    "plamo2": (dict(architectures=["Plamo2ForCausalLM"], model_type="plamo2", hidden_size=D, num_hidden_layers=2, num_attention_heads=H, num_key_value_heads=KV,
                    hidden_size_per_head=HD, mamba_num_heads=4, mamba_d_state=8, mamba_d_conv=4, mamba_step=2, intermediate_size=F, max_position_embeddings=128,
                    rms_norm_eps=1e-6, vocab_size=V),
               TOP[:2] + at(0, [("mixer.in_proj.weight", (2 * 4 * HD, D)), ("mixer.conv1d.weight", (4 * HD, 1, 4)), ("mixer.bcdt_proj.weight", (64 + 16, 4 * HD)),
                                ("mixer.dt_proj.weight", (4, 64)), ("mixer.dt_bias", (4,)), ("mixer.A_log", (4,)), ("mixer.D", (4,)), ("mixer.dt_norm_weight", (64,)),
                                ("mixer.B_norm_weight", (8,)), ("mixer.C_norm_weight", (8,)), ("mixer.out_proj.weight", (D, 4 * HD))], "model.layers.layers.%d.") +
               at(1, [("mixer.qkv_proj.weight", ((H + 2 * KV) * HD, D)), ("mixer.o_proj.weight", (D, H * HD)), ("mixer.q_weight", (H, HD)), ("mixer.k_weight", (KV, HD))],
                  "model.layers.layers.%d.") +
               layers([(n + "_norm.weight", (D,)) for n in ("pre_mixer", "post_mixer", "pre_mlp", "post_mlp")] +
                      [("mlp.gate_up_proj.weight", (2 * F, D)), ("mlp.down_proj.weight", (D, F))], "model.layers.layers.%d.")),
    "plamo3": (base("Plamo3ForCausalLM", "plamo3", head_dim=HD, window_size=8, sliding_window_pattern=2),
               TOP[:2] + layers([("mixer.qkv_proj.weight", ((H + 2 * KV) * HD, D)), ("mixer.o_proj.weight", (D, H * HD)), ("mixer.q_norm.weight", (HD,)),
                                 ("mixer.k_norm.weight", (HD,))] + [(n + "_norm.weight", (D,)) for n in ("pre_mixer", "post_mixer", "pre_mlp", "post_mlp")] +
                                [("mlp.gate_up_proj.weight", (2 * F, D)), ("mlp.down_proj.weight", (D, F))], "model.layers.layers.%d.")),
    "rwkv7": (dict(architectures=["RWKV7ForCausalLM"], model_type="rwkv7", hidden_size=D, num_hidden_layers=L, head_dim=HD, norm_eps=1e-5, intermediate_size=F,
                   decay_low_rank_dim=16, a_low_rank_dim=16, v_low_rank_dim=8, gate_low_rank_dim=24, vocab_size=V),
              [("model.embeddings.weight", (V, D)), ("model.norm.weight", (D,)), ("model.norm.bias", (D,)), ("lm_head.weight", (V, D))] + rwkv7(0) + rwkv7(1)),
    "rwkv7_own": (dict(architectures=["Rwkv7ForCausalLM"], model_type="rwkv7", hidden_size=D, num_hidden_layers=L, head_size=HD, layer_norm_epsilon=1e-5,
                       intermediate_size=None, lora_rank_decay=16, lora_rank_iclr=16, lora_rank_value_residual_mix=8, lora_rank_gate=24, vocab_size=V),
                  [("model.embeddings.weight", (V, D)), ("model.ln_out.weight", (D,)), ("model.ln_out.bias", (D,)), ("model.pre_ln.weight", (D,)),
                   ("model.pre_ln.bias", (D,)), ("head.weight", (V, D))] +
                  [(n, (4 * D, D) if n.endswith("forward.key.weight") else (D, 4 * D) if n.endswith("forward.value.weight") else s) for i in range(L) for n, s in rwkv7_own(i)]),
    "rwkv7_joined": (dict(architectures=["Rwkv7ForCausalLM"], model_type="rwkv7", hidden_size=D, num_hidden_layers=L, head_size=HD, layer_norm_epsilon=1e-5,
                          intermediate_size=None, lora_rank_decay=16, lora_rank_iclr=16, lora_rank_value_residual_mix=8, lora_rank_gate=24, vocab_size=V),
                     [("model.embeddings.weight", (V, D)), ("model.ln_out.weight", (D,)), ("model.ln_out.bias", (D,)), ("model.pre_ln.weight", (D,)),
                      ("model.pre_ln.bias", (D,)), ("head.weight", (V, D))] +
                     [(n.replace("x_r", "x_x"), (6, 1, 1, D) if n.endswith("x_r") else (4 * D, D) if n.endswith("forward.key.weight") else
                       (D, 4 * D) if n.endswith("forward.value.weight") else s)
                      for i in range(L) for n, s in rwkv7_own(i) if not n.endswith(tuple("attention.x_" + c for c in "wkvag"))]),
    "arwkv7": (dict(base("RwkvHybridForCausalLM", "rwkv_hybrid", head_size=HD, wkv_version=7, wkv_has_gate=True)),
               TOP + [(n, tuple({16: 64, 8: 32, 24: 128}.get(d, d) if "_mixer." in n and n[-2:] in "w1w2a1a2v1v2g1g2" else d for d in s))
                      for i in range(L) for n, s in rwkv7_own(i, False, "model.layers.%d.") + at(i, MLP + NORMS)]),
    "rwkv6": (dict(architectures=["Rwkv6ForCausalLM"], model_type="rwkv6", hidden_size=D, num_hidden_layers=L, head_size=HD, layer_norm_epsilon=1e-5, rescale_every=1,
                   intermediate_size=F, vocab_size=V),
              [("rwkv.embeddings.weight", (V, D)), ("rwkv.ln_out.weight", (D,)), ("rwkv.ln_out.bias", (D,)), ("head.weight", (V, D))] + rwkv6(0) + rwkv6(1)),
    "rwkv6qwen2": (base("RWKV6Qwen2ForCausalLM", "rwkv6qwen2"), TOP + rwkv6qwen2(0) + rwkv6qwen2(1)),
    "t5": t5("T5ForConditionalGeneration", False),
    "t5_gated": t5("T5ForConditionalGeneration", True),
    "t5encoder": t5("T5EncoderModel", False, ("encoder",)),
    "bert": (dict(architectures=["BertModel"], model_type="bert", hidden_size=D, intermediate_size=F, num_attention_heads=H, num_hidden_layers=L,
                  vocab_size=V, max_position_embeddings=128, layer_norm_eps=1e-12, type_vocab_size=2, pad_token_id=0, hidden_act="gelu"),
             [("embeddings.word_embeddings.weight", (V, D)), ("embeddings.position_embeddings.weight", (128, D)),
              ("embeddings.token_type_embeddings.weight", (2, D)), ("embeddings.LayerNorm.weight", (D,)), ("embeddings.LayerNorm.bias", (D,)),
              ("pooler.dense.weight", (D, D)), ("pooler.dense.bias", (D,))] +
             layers([("attention.self.%s.%s" % (n, e), (D, D) if e == "weight" else (D,)) for n in ("query", "key", "value") for e in ("weight", "bias")] +
                    [("attention.output.dense.weight", (D, D)), ("attention.output.dense.bias", (D,)), ("attention.output.LayerNorm.weight", (D,)),
                     ("attention.output.LayerNorm.bias", (D,)), ("intermediate.dense.weight", (F, D)), ("intermediate.dense.bias", (F,)),
                     ("output.dense.weight", (D, F)), ("output.dense.bias", (D,)), ("output.LayerNorm.weight", (D,)), ("output.LayerNorm.bias", (D,))],
                    "encoder.layer.%d.")),
}


def config_of(name):
    return json.loads(json.dumps(FAMILIES[name][0]))


@functools.cache
def drawn(name, dtype):
    rng, out = random.Random(zlib.crc32(name.encode())), {}
    for tensor, shape, *own in FAMILIES[name][1]:
        if own:
            out[tensor] = (own[0], shape, raw(rng, own[0], count(shape)))
            continue
        gain = "norm" in tensor.lower() and tensor.endswith("weight") or ".ln" in tensor and tensor.endswith("weight") or tensor.endswith((".a_g", ".w_g", "head_g"))
        values = draw(rng, shape, 0.3 if gain else 0.2, 1.0 if gain else 0.0)
        out[tensor] = (dtype, shape, PACK[dtype](values))
    return out


def tensors_of(name, dtype="BF16"):
    """name -> (dtype, shape, bytes), in the order of FAMILIES."""
    return dict(drawn(name, dtype))


def tokenizer(name):
    """Further files of the folder."""
    if name == "bert":
        return {"tokenizer.json": word_piece(), "tokenizer_config.json": BERT_CONFIG,
                "modules.json": [{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}],
                "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}}
    if name in ("rwkv7", "rwkv7_own", "rwkv7_joined", "rwkv6"):
        words = [bytes([b]) for b in range(256)] + [b"the", b"in", b" the", b"an", b"\n\n", b"it's", b'"\'', "\u00e9".encode(), b"\xff\xfe", b"\\n"]
        lines = ["%d %r %d" % (i + 1, w if any(c > 127 for c in w) and len(w) != 2 or w[0] > 240 else w.decode("utf-8", "strict") if w[0] < 128 or len(w) == 2 else w, len(w))
                 for i, w in enumerate(words)]
        return {"rwkv_vocab_v20230424.txt": "".join(line + "\n" for line in lines).encode()}
    if name in ("plamo2", "plamo3"):
        rows = [["<|plamo:unk|>", 0.0, "UNKNOWN"], ["<|plamo:bos|>", 0.0, "CONTROL"], ["<|plamo:eos|>", 0.0, "CONTROL"], ["<|plamo:pad|>", 0.0, "CONTROL"],
                ["<|plamo:op|>", 0.0, "NORMAL"]] + [["<0x%02X>" % b, 0.0, "BYTE"] for b in range(256)]
        rows += [[w, -1.0 - i / 4, "NORMAL"] for i, w in enumerate(("the", "in", " the", "an"))]
        return {"tokenizer.jsonl": "".join(json.dumps(r) + "\n" for r in rows).encode(),
                **({"chat_template.jinja": b"{{ messages[0].content }}!"} if name == "plamo3" else {}),
                "tokenizer_config.json": {**({"chat_template": "{{ messages[0].content }}?"} if name == "plamo3" else {}), "bos_token": "<|plamo:bos|>", "eos_token": "<|plamo:eos|>", "pad_token": "<|plamo:pad|>", "unk_token": "<|plamo:unk|>"}}
    return {"tokenizer.json": bpe(), "tokenizer_config.json": BPE_CONFIG,
            "generation_config.json": {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "eos_token_id": [268]}}


# --- vocabularies of SentencePiece ------------------------------------------------------------------------------------
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def proto(*fields):
    """A protocol buffer of (number, value): bytes, a float or a whole number."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            out += varint(number << 3) + varint(value)
    return out


def sentencepiece(unigram=False):
    """tokenizer.model: unknown, control, 256 bytes and a few words; of T5's kind padding, the end, unknown and words."""
    words = ["\u2581", "t", "h", "e", "th", "the", "\u2581the", "c", "a", "ca"]
    if unigram:
        pieces = [(b"<pad>", 0.0, 3), (b"</s>", 0.0, 3), (b"<unk>", 0.0, 2)]
    else:
        pieces = [(b"<unk>", 0.0, 2), (b"<s>", 0.0, 3), (b"</s>", 0.0, 3)] + [(b"<0x%02X>" % b, 0.0, 6) for b in range(256)]
    pieces += [(w.encode(), float(-i), 1) for i, w in enumerate(words)]
    ids = ((40, 2), (41, 0xFFFFFFFFFFFFFFFF), (42, 1), (43, 0)) if unigram else ((35, 1),)
    return (b"".join(proto((1, proto((1, t), (2, s), (3, k)))) for t, s, k in pieces) + proto((2, proto((3, 1 if unigram else 2), *ids))) +
            proto((3, proto((3, 1), (4, int(unigram))))))


VOCABULARIES = ["t5", "rwkv7", "rwkv6", "plamo2", "plamo3", "arctic", "bitnet"]


def write_vocabulary(folder, name):
    """The folder of a family with the vocabulary that its files on the hub have."""
    write(folder, name)
    if name in ("t5", "arctic", "bitnet"):
        for file in ("tokenizer.json", "tokenizer_config.json"):
            os.remove(os.path.join(folder, file))
        put(folder, "spiece.model" if name == "t5" else "tokenizer.model", sentencepiece(name == "t5"))
        put(folder, "added_tokens.json", {"<more>": 270})
    if name == "arctic":
        put(folder, "tokenizer_config.json", {"unk_token": "<unk>", "added_tokens_decoder": {
            "0": {"content": "<unk>", "special": True}, "267": {"content": "<|begin|>", "special": True}, "268": {"content": "<tool>", "special": False}}})


def write(folder, name, dtype="BF16", shards=1, tensors=None, config=None):
    """Writes the folder of a family; in several shards with an index."""
    os.makedirs(folder, exist_ok=True)
    tensors = tensors_of(name, dtype) if tensors is None else tensors
    put(folder, "config.json", config or dict(config_of(name), torch_dtype={"F32": "float32", "F16": "float16"}.get(dtype, "bfloat16")))
    for file, what in tokenizer(name).items():
        put(folder, file, what)
    if shards == 1:
        put(folder, "model.safetensors", safetensors(tensors))
        return
    where, items = {}, list(tensors.items())
    for i in range(shards):
        file = "model-%05d-of-%05d.safetensors" % (i + 1, shards)
        part = dict(items[i * len(items) // shards:(i + 1) * len(items) // shards])
        put(folder, file, safetensors(part))
        where.update({t: file for t in part})
    put(folder, "model.safetensors.index.json", {"metadata": {"total_size": sum(len(t[2]) for t in tensors.values())}, "weight_map": where})
