"""A checkpoint as GGUF: matrices in F16 (or F32), norms in F32, tokenizer and chat template inside.

    python3 export.py run/target.pt ../pip-f16.gguf --name Pip
"""
import argparse
import os

import gguf
import numpy as np

import train
from tokenizer import CONTROL, EOT, IM_END, PRE, Tokenizer
from model import EPS, n_params

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
KINDS = {"f16": (np.float16, gguf.LlamaFileType.MOSTLY_F16), "f32": (np.float32, gguf.LlamaFileType.ALL_F32)}


def tensors(model):
    """(name in the file, array, is a matrix)"""
    yield "token_embd.weight", model.embd, True
    for i, blk in enumerate(model.blocks):
        q, k, v = blk.qkv.split((blk.d_q, blk.d_kv, blk.d_kv))
        gate, up = blk.gate_up.chunk(2)
        for name, value in (("attn_norm", blk.attn_norm), ("attn_q", q), ("attn_k", k), ("attn_v", v),
                            ("attn_q_norm", blk.q_norm), ("attn_k_norm", blk.k_norm), ("attn_output", blk.out),
                            ("ffn_norm", blk.ffn_norm), ("ffn_gate", gate), ("ffn_up", up), ("ffn_down", blk.down)):
            yield f"blk.{i}.{name}.weight", value, value.dim() == 2
    yield "output_norm.weight", model.out_norm, False


def write_hparams(w, cfg):
    w.add_context_length(cfg.n_ctx)
    w.add_embedding_length(cfg.n_embd)
    w.add_block_count(cfg.n_layer)
    w.add_feed_forward_length(cfg.n_ff)
    w.add_head_count(cfg.n_head)
    w.add_head_count_kv(cfg.n_head_kv)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    w.add_layer_norm_rms_eps(EPS)
    w.add_rope_freq_base(cfg.rope_base)
    w.add_vocab_size(cfg.n_vocab)


def write_tokenizer(w, tok):
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(PRE)
    w.add_token_list(tok.tokens)
    w.add_token_types([gguf.TokenType.CONTROL if t in CONTROL else gguf.TokenType.NORMAL for t in tok.tokens])
    w.add_token_merges([" ".join(m) for m in tok.merges])
    w.add_bos_token_id(EOT)
    w.add_eos_token_id(EOT)
    w.add_eot_token_id(IM_END)
    w.add_pad_token_id(EOT)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_chat_template(CHAT_TEMPLATE)


def export(model, tok, path, name, kind="f16"):
    dtype, file_type = KINDS[kind]
    w = gguf.GGUFWriter(path, "qwen3")
    w.add_type(gguf.GGUFType.MODEL)
    w.add_name(name)
    w.add_description("A small model of a small world: stories, questions, sums, lists and records. "
                      "Trained from scratch on text that models/train/world.py writes.")
    w.add_author("the llmrun project")
    w.add_license("mit")
    w.add_languages(["en"])
    w.add_size_label(f"{n_params(model) / 1e6:.2g}M")
    w.add_file_type(file_type)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    write_hparams(w, model.cfg)
    write_tokenizer(w, tok)
    for key, value, is_matrix in tensors(model):
        w.add_tensor(key, value.float().numpy().astype(dtype if is_matrix else np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("checkpoint")
    ap.add_argument("out")
    ap.add_argument("--name", default="Pip")
    ap.add_argument("--type", choices=KINDS, default="f16")
    ap.add_argument("--tokenizer", default=os.path.join(HERE, "tokenizer.json"))
    args = ap.parse_args()
    export(train.load(args.checkpoint), Tokenizer.load(args.tokenizer), args.out + ".tmp", args.name, args.type)
    os.replace(args.out + ".tmp", args.out)


if __name__ == "__main__":
    main()
