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
    for tensor, shape in FAMILIES[name][1]:
        gain = "norm" in tensor.lower() and tensor.endswith("weight") or ".ln_" in tensor and tensor.endswith("weight")
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
    return {"tokenizer.json": bpe(), "tokenizer_config.json": BPE_CONFIG,
            "generation_config.json": {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "eos_token_id": [268]}}


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
