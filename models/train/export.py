"""A checkpoint as GGUF: matrices in F16 (or F32), norms in F32, tokenizer and chat template inside; and a model from such a file.
A checkpoint of head.py becomes a file with the draft head alone, without tokenizer: the model's with which it runs.

    python3 export.py run/target.pt ../pip-f16.gguf --name Pip
    python3 export.py run/head.pt ../pip-head-f16.gguf --name "Pip's draft head"
"""
import argparse
import os

import gguf
import numpy as np
import torch

from tokenizer import CONTROL, EOT, IM_END, PRE, Tokenizer
from model import EPS, Config, Model, load, n_params

HERE = os.path.dirname(os.path.abspath(__file__))
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
KINDS = {"f16": (np.float16, gguf.LlamaFileType.MOSTLY_F16), "f32": (np.float32, gguf.LlamaFileType.ALL_F32)}
ARCH = "qwen3"


def of_block(blk, i):
    q, k, v = blk.qkv.split((blk.d_q, blk.d_kv, blk.d_kv))
    gate, up = blk.gate_up.chunk(2)
    for name, value in (("attn_norm", blk.attn_norm), ("attn_q", q), ("attn_k", k), ("attn_v", v),
                        ("attn_q_norm", blk.q_norm), ("attn_k_norm", blk.k_norm), ("attn_output", blk.out),
                        ("ffn_norm", blk.ffn_norm), ("ffn_gate", gate), ("ffn_up", up), ("ffn_down", blk.down)):
        yield f"blk.{i}.{name}.weight", value, value.dim() == 2


def tensors(model):
    """(name in the file, view of the parameter, is a matrix)"""
    yield "token_embd.weight", model.embd, True
    for i, blk in enumerate(model.blocks):
        yield from of_block(blk, i)
    yield "output_norm.weight", model.out_norm, False


def head_tensors(head):
    """The same of a draft head, the layer behind the last."""
    i = head.cfg.n_layer
    yield from of_block(head.block, i)
    for name, value in ("eh_proj", head.proj), ("enorm", head.token_norm), ("hnorm", head.state_norm), ("shared_head_norm", head.out_norm):
        yield f"blk.{i}.nextn.{name}.weight", value, value.dim() == 2


def hparams(cfg):
    """What the file says of the model's shape, in its order, after the name of the architecture."""
    return {
        "context_length": cfg.n_ctx, "embedding_length": cfg.n_embd, "block_count": cfg.n_layer,
        "feed_forward_length": cfg.n_ff, "attention.head_count": cfg.n_head, "attention.head_count_kv": cfg.n_head_kv,
        "attention.key_length": cfg.head_dim, "attention.value_length": cfg.head_dim,
        "attention.layer_norm_rms_epsilon": EPS, "rope.freq_base": cfg.rope_base, "vocab_size": cfg.n_vocab}


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


def write(model, keys, weights, path, name, about, kind, tok=None):
    dtype, file_type = KINDS[kind]
    w = gguf.GGUFWriter(path, ARCH)
    w.add_type(gguf.GGUFType.MODEL)
    w.add_name(name)
    w.add_description(about)
    w.add_author("the llmrun project")
    w.add_license("mit")
    w.add_languages(["en"])
    w.add_size_label(f"{n_params(model) / 1e6:.2g}M")
    w.add_file_type(file_type)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in keys.items():
        (w.add_float32 if isinstance(value, float) else w.add_uint32)(f"{ARCH}.{key}", value)
    if tok:
        write_tokenizer(w, tok)
    for key, value, is_matrix in weights:
        w.add_tensor(key, value.detach().float().cpu().numpy().astype(dtype if is_matrix else np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def export(model, tok, path, name, kind="f16"):
    write(model, hparams(model.cfg), tensors(model), path, name, "A small model of a small world: stories, questions, sums, lists and "
          "records. Trained from scratch on text that models/train/world.py writes.", kind, tok)


def export_head(state, path, name, kind="f16"):
    import head                                       # here, since that imports this
    one = head.Head(Config(**state["cfg"]))
    one.load_state_dict(state["head"])
    keys = dict(hparams(one.cfg), block_count=one.cfg.n_layer + 1, nextn_predict_layers=1)
    write(one, keys, head_tensors(one), path, name, "The draft head (NextN, multi-token prediction) of a small model of this author: "
          "it guesses that model's next tokens.", kind)


class Mismatch(ValueError):
    """A file that is not what export() wrote of such a model."""


@torch.no_grad()
def fill(model, tok, path):
    """Weights from a file that export() wrote of a model of the same Config and vocabulary."""
    def expect(found, expected, what):
        if found != expected:
            raise Mismatch(f"{path}: {what}: {found}, expected {expected}")

    def value(key):
        return r.get_field(key).contents() if r.get_field(key) else None

    r = gguf.GGUFReader(path)
    expect(value("general.architecture"), ARCH, "architecture")
    for key, want in hparams(model.cfg).items():
        expect(value(f"{ARCH}.{key}"), float(np.float32(want)) if isinstance(want, float) else want, key)
    expect(value("tokenizer.ggml.tokens") == tok.tokens, True, "the tokens are the tokenizer's")
    have = {t.name: t.data for t in r.tensors}
    expect(set(have), {name for name, _, _ in tensors(model)}, "names of tensors")
    for name, view, _ in tensors(model):
        expect(have[name].dtype in (np.float16, np.float32), True, f"{name} is F16 or F32")
        expect(have[name].shape, tuple(view.shape), name)
        view.copy_(torch.from_numpy(have[name].astype(np.float32)))


def blend(model, tok, others):
    """Moves the weights towards those of files of the same shape: others are (path, share), the rest of 1 is the model's own."""
    own = 1 - sum(share for _, share in others)
    mean = {key: own * value for key, value in model.state_dict().items()}
    one = Model(model.cfg)
    for path, share in others:
        fill(one, tok, path)
        for key, value in one.state_dict().items():
            mean[key] += share * value
    model.load_state_dict(mean)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("checkpoint")
    ap.add_argument("out", help="GGUF file, or a checkpoint for use where it ends in .pt")
    ap.add_argument("--name", default="Pip")
    ap.add_argument("--type", choices=KINDS, default="f16")
    ap.add_argument("--tokenizer", default=os.path.join(HERE, "tokenizer.json"))
    ap.add_argument("--blend", nargs=2, action="append", metavar=("GGUF", "SHARE"), default=[],
                    help="so much of the weights of this file in the mean; may be given several times")
    args = ap.parse_args()
    state = torch.load(args.checkpoint, map_location="cpu", weights_only=False)
    if "head" in state:
        export_head(state, args.out + ".tmp", args.name, args.type)
        return os.replace(args.out + ".tmp", args.out)
    model, tok = load(args.checkpoint), Tokenizer.load(args.tokenizer)
    blend(model, tok, [(path, float(share)) for path, share in args.blend])
    if args.out.endswith(".pt"):
        torch.save({"cfg": vars(model.cfg), "model": model.state_dict()}, args.out + ".tmp")
    else:
        export(model, tok, args.out + ".tmp", args.name, args.type)
    os.replace(args.out + ".tmp", args.out)


if __name__ == "__main__":
    main()
