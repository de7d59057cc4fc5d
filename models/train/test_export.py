#!/usr/bin/env python3
"""Tests of export.py, of what train.py begins with and of what mend.py learns from:  python3 models/train/test_export.py

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
    import head
    import mend
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


def test_head(folder, tok):
    """Guesses of a draft head, three in a row, are those that a float64 reading of its file makes."""
    sys.path.append(os.path.join(train.HERE, "..", "..", "tests", "bench"))
    import accepted
    cfg, gen = SIZES["draft"], torch.Generator().manual_seed(6)
    model, one, files = noisy(cfg, 5), head.Head(cfg), [os.path.join(folder, name) for name in ("model.gguf", "head.gguf")]
    with torch.no_grad():
        for p in one.parameters():
            p.normal_(0, 1, generator=gen)
    export.export(model, tok, files[0], "A name", "f32")
    export.export_head({"cfg": vars(cfg), "head": one.state_dict()}, files[1], "A head", "f32")
    ids = torch.randint(0, cfg.n_vocab, (1, 40), generator=gen)
    first, state, rope = [], model.hidden(ids), (model.cos[:40], model.sin[:40])
    want = accepted.read(*files).guesses(ids[0].tolist(), 3)
    for depth in (1, 2, 3):
        state = one.guess(torch.nn.functional.embedding(ids, model.embd), head.back(state, 1, 1), rope, first, head.masks(0 * ids, depth))
        got = (state[0, 36 + depth] @ model.embd.T).detach().double().numpy()
        assert abs(got - want[depth - 1]).max() < 1e-3 * abs(want).max(), depth


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


def test_blend(folder, tok):
    """The mean of three models, each with its share."""
    models, paths = [noisy(SIZES["draft"], seed) for seed in (6, 7, 8)], [os.path.join(folder, f"{i}.gguf") for i in range(3)]
    for model, path in zip(models, paths):
        export.export(model, tok, path, "One")
        export.fill(model, tok, path)                 # as the file rounds it
    want = {key: 0.5 * value + 0.3 * models[1].state_dict()[key] + 0.2 * models[2].state_dict()[key] for key, value in models[0].state_dict().items()}
    export.blend(models[0], tok, [(paths[1], 0.3), (paths[2], 0.2)])
    assert all(torch.allclose(value, want[key], atol=1e-6) for key, value in models[0].state_dict().items())


@torch.no_grad()
def test_mend(folder, tok):
    """Sentences that share a row are as likely as each alone; what is compared is what demands the same."""
    model, mender = noisy(SIZES["draft"], 9), mend.Mender(tok, 0, 1, 0)
    before = "Tim was in the barn. Sally was in the garden. A red ball was in the barn."
    mender.add(before, [" Tim picked up the red ball. He", " Sally picked up the red ball. She", " Tim felt happy. He", " Tim went to the garden.",
                        " Sally went to the pond.", " He zzyx it.", " Tim went to"])
    mender.add("Tim was in the barn.", [" Tim picked up the red ball. Then", " Tim went to the garden. He"])
    (ids, ways), = mender.groups                      # of the second place nothing is learnt: all can be true
    assert tok.decode(ids) == "<|endoftext|>" + before
    assert [(tok.decode(way), advantage) for way, advantage in ways] == [(" Tim picked up the red ball.", 0.5), (" Sally picked up the red ball.", -0.5),
                                                                    (" He zzyx it.", -mend.LEAST)]
    more = (tok.encode("Tim"), [(tok.encode(" sat. Then he"), -0.25), (tok.encode(" sat"), 0.75), (tok.encode(" ran"), 0.1)])
    want = 0
    for ids, ways in (mender.groups[0], more):
        for way, advantage in ways:
            logp = torch.log_softmax(model(torch.tensor([ids + way]))[0] / mend.TEMP, -1)
            want -= advantage / mend.WAYS * sum(logp[len(ids) - 1 + i, t] for i, t in enumerate(way)) / 2
    assert abs(float(mend.loss(model, [mender.groups[0], more]) / want) - 1) < 1e-5


def main():
    """Every test, with the count that tests/run.sh adds up."""
    torch.set_num_threads(1)
    tok, failed = Tokenizer.load(TOKENS), 0
    todo = (test_round_trip, test_head, test_shipped, test_refused, test_blend, test_mend)
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
