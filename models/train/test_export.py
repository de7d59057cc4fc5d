#!/usr/bin/env python3
"""Tests of export.py, and of what train.py begins with:  python3 models/train/test_export.py

Needs torch and gguf; without them the suite counts as skipped.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import gguf
    import torch

    import export
    import train
    from model import SIZES, Config, Model
    from tokenizer import Tokenizer
except ImportError as e:
    print(f"export: 0 passed, 0 failed, 1 skipped ({e})")
    sys.exit(0)

TOKENS = os.path.join(train.HERE, "tokenizer.json")
SHIPPED = os.path.join(train.HERE, "..", "pip-f16.gguf")


def content(path):
    with open(path, "rb") as f:
        return f.read()


def noisy(cfg, seed):
    """A model with no two weights alike, norms included."""
    model, gen = Model(cfg), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 1, generator=gen)
    return model


def trainer(*more):
    words = ["--size", "draft", "--tokenizer", TOKENS, "--out", "/dev/null", "--no-compile", *more]
    return train.Trainer(train.options().parse_args(words), train.Team(0, 1))


def test_round_trip(folder, tok):
    """What a file holds is what is written of the model that began with it, to the byte."""
    for kind in export.KINDS:
        first, again = os.path.join(folder, "first.gguf"), os.path.join(folder, "again.gguf")
        export.export(noisy(SIZES["draft"], 3), tok, first, "A name", kind)
        began = trainer("--init", first)
        assert began.step == began.tokens == 0 and not any(v.any() for v in began.muon.state()) and not began.adam.state
        export.export(began.model, tok, again, "A name", kind)
        assert content(again) == content(first), kind


def test_shipped(folder, tok):
    """The file of this repository is one that export.py writes."""
    model, again = Model(SIZES["target"]), os.path.join(folder, "again.gguf")
    export.fill(model, tok, SHIPPED)
    export.export(model, tok, again, "Pip")
    assert content(again) == content(SHIPPED)


def test_refused(folder, tok):
    """Nothing is taken from a file of another model."""
    path, cfg = os.path.join(folder, "other.gguf"), SIZES["draft"]

    def words(file, model=None, tokens=tok):
        try:
            export.fill(model or noisy(cfg, 5), tokens, file)
        except export.Mismatch as e:
            return str(e)
        return ""

    export.export(noisy(cfg, 4), tok, path, "Other")
    assert words(path) == ""
    assert "embedding_length: 64, expected 256" in words(path, Model(SIZES["target"]))
    assert "attention.head_count: 2, expected 1" in words(path, Model(Config(**{**vars(cfg), "n_head": 1})))
    swapped = Tokenizer.load(TOKENS)
    swapped.tokens[5], swapped.tokens[6] = swapped.tokens[6], swapped.tokens[5]
    assert "tokens" in words(path, tokens=swapped)
    w = gguf.GGUFWriter(path, "llama")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    assert "architecture: llama, expected qwen3" in words(path)


def main():
    """Every test, with the count that tests/run.sh adds up."""
    torch.set_num_threads(1)
    tok, failed = Tokenizer.load(TOKENS), 0
    todo = (test_round_trip, test_shipped, test_refused)
    for test in todo:
        try:
            with tempfile.TemporaryDirectory() as folder:
                test(folder, tok)
        except AssertionError as e:
            failed += 1
            print("FAIL ", test.__name__, e)
    print(f"export: {len(todo) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
