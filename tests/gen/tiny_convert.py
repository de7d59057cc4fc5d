#!/usr/bin/env python3
"""Are the tiny models what llama.cpp's converter makes of the framework's models?

    python3 tests/gen/tiny_convert.py PEER [NAME ...]       # PEER: a folder of llama.cpp; models whose name starts so, or all that can

Builds the framework's model from the weights of a tiny file, saves it as a checkpoint, runs the converter of PEER on that and compares keys
and tensors with the file in tests/data/tiny. So names, layouts, orders and what is folded into weights are those of real files. Only
families with a function hub_config(s) take part: what configs on the hub tell beside what the framework saves, None for a file of another
form than today's; or with a function checkpoint(s, value) that returns the class, the config and the tensors as they are on the hub. Quantised models do not. What only our file has is told and allowed. Needs torch, transformers, gguf, numpy and what the converter needs.
"""
import json
import os
import pathlib
import sys
import tempfile

import numpy as np
import torch                                                    # noqa: F401  before tests/cuda.py is on the path, whose name it looks for

HERE = os.path.dirname(os.path.abspath(__file__))
PEER = sys.argv[1] if len(sys.argv) > 1 else sys.exit(__doc__)
sys.path[:0] = [os.path.join(PEER, "gguf-py"), PEER, HERE, os.path.join(HERE, "..")]            # the converter needs a gguf of its age
import tiny_encoders                                            # noqa: E402
import tiny_models                                              # noqa: E402
from tiny_base import N_VOCAB, Weights                          # noqa: E402
from tiny_read import File                                      # noqa: E402

OF_THE_VOCABULARY = ("general.", "tokenizer.")


def save_checkpoint(family, s, folder):
    from tiny_oracle import Oracle
    w = Weights(s)
    family.draw(w, s)
    model = Oracle(family, s, w.value).model
    model.config.architectures = [type(model).__name__]
    model.float().save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    vocabulary = {"model": {"vocab": {str(i): i for i in range(N_VOCAB)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    return config["architectures"][0]


def save_published(family, s, folder):
    """The same for a model whose files on the hub have other names than the framework."""
    from safetensors.numpy import save_file
    w = Weights(s)
    family.draw(w, s)
    class_name, config, tensors = family.checkpoint(s, w.value)
    save_file({k: np.ascontiguousarray(v, np.float32) for k, v in tensors.items()}, str(folder / "model.safetensors"))
    pooling = dict(pooling_mode_mean_tokens=s["pooling"] == "mean", pooling_mode_cls_token=s["pooling"] == "cls")
    (folder / "pooling").mkdir()
    for path, what in (("config.json", dict(config, architectures=[class_name])), ("pooling/config.json", pooling),
                       ("modules.json", [dict(type="sentence_transformers.models.Pooling", path="pooling")]),
                       ("tokenizer.json", dict(model=dict(type="Unigram" if s["vocab"] == "t5" else "WordPiece", vocab={str(i): i for i in range(N_VOCAB)}), added_tokens=[]))):
        (folder / path).write_text(json.dumps(what))
    return class_name


def publish(folder, more):
    """Gives the config the members that those on the hub have, and takes those that they have not, which are `...`. Returns the former."""
    config = dict(json.loads((folder / "config.json").read_text()), **more)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))
    return {k: v for k, v in more.items() if v is not ...}


def converter_of(class_name):
    """The converter's class, which reads config.json alone where transformers would add what it has not: experts of Nemotron-H."""
    import conversion
    import conversion.base
    import transformers
    conversion.base.AutoConfig = None if class_name == "NemotronHForCausalLM" else transformers.AutoConfig
    return conversion.get_model_class(class_name)


def convert(folder, class_name, more, out):
    import conversion
    import gguf
    cls = converter_of(class_name)
    cls.no_mtp = True
    for c in (cls, conversion.get_model_class("LlamaForCausalLM")):             # the latter does the work of others
        c.set_vocab = lambda self: None
    cls(folder, gguf.LlamaFileType.ALL_F32, out, hparams=dict(cls.load_hparams(folder, False), **more)).write()


def joined(tensors):
    """Gate and up of experts as one tensor."""
    tensors = dict(tensors)
    for name in [n for n in tensors if n.endswith("ffn_gate_exps.weight")]:
        up = name.replace("gate", "up")
        tensors[name.replace("gate", "gate_up")] = np.concatenate([tensors.pop(name), tensors.pop(up)], axis=1)
    return tensors


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind in "US" or b.dtype.kind in "US":
        return a.shape == b.shape and (a == b).all()
    return np.allclose(a.astype(float), b.astype(float), rtol=1e-6, atol=1e-7)


def differences(ours, theirs, ignored):
    keys = [{k: v for k, v in f.meta.items() if not k.startswith(OF_THE_VOCABULARY) and not k.endswith(ignored)} for f in (ours, theirs)]
    for a, b in (keys, [joined(f.tensors) for f in (ours, theirs)]):
        for name in sorted(set(a) | set(b)):
            if name not in b:
                print("    only ours: " + name)
            elif name not in a or not same(a[name], b[name]):
                yield name


def compare(family, s):
    name = s["name"]
    with tempfile.TemporaryDirectory() as tmp:
        folder, out = pathlib.Path(tmp) / "model", pathlib.Path(tmp) / "converted.gguf"
        folder.mkdir()
        if hasattr(family, "checkpoint"):
            convert(folder, save_published(family, s, folder), {}, out)
        else:
            class_name = save_checkpoint(family, s, folder)
            convert(folder, class_name, publish(folder, family.hub_config(s)), out)
        ours = File(os.path.join(getattr(family, "OUT", tiny_models.OUT), name + ".gguf"))
        wrong = list(differences(ours, File(str(out)), getattr(family, "UNTOLD", ())))
    print("%-20s %3d tensors %s" % (name, len(ours.tensors), "differs: " + ", ".join(wrong) if wrong else "ok"), flush=True)
    return not wrong


def main(names):
    specs = [(f, tiny_models.spec_of(f, n)) for f in tiny_models.FAMILIES if hasattr(f, "hub_config") for n in f.MODELS
             if not names or n.startswith(tuple(names))]
    specs = [(f, s) for f, s in specs if s["metric"] == "nmse" and f.hub_config(s) is not None]
    specs += [(tiny_encoders, tiny_encoders.spec_of(n)) for n in tiny_encoders.PUBLISHED if not names or n.startswith(tuple(names))]
    return all([compare(f, s) for f, s in specs])


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[2:]) else 1)
