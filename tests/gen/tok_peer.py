#!/usr/bin/env python3
"""Ids of llama-tokenize for random texts in small vocabularies of kinds that no other library knows:
    python3 tests/gen/tok_peer.py LLAMA_CPP_BIN     (needs the package gguf)
writes tests/data/tok/plamo2.gguf, tests/data/tok/kimi-k2.gguf and tests/data/tok_peer.txt, whose form is that of tok_oracle.txt.

plamo2: every byte, and pieces of texts with random scores, some of them equal, some worse than any; none is -1000, which llama.cpp
takes for the end of its list. kimi-k2: ranks without merges. llama.cpp
does not merge at all there; its ids are those of the ranks, merged here as tiktoken does (the pair whose token has the lowest id first), and words
cut by the pattern of the model's tiktoken file; so this kind has no peer, and the ids are of this script."""
import os
import random
import subprocess
import sys
import tempfile

import gguf
import regex
import tok_oracle

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
TEXTS = 60
KIMI = next(k[3][0] for k in tok_oracle.KINDS if k[1] == "kimi-k2")


def write(path, model, pre, tokens, types, scores=None):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    if scores:
        w.add_token_scores(scores)
    w.add_token_types(types)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file()
    w.close()


def pieces(rng, texts, n, longest):
    """Parts of texts, of whole characters."""
    some = set()
    while len(some) < n:
        t = rng.choice(texts)
        at, size = rng.randrange(len(t)), rng.randint(1, longest)
        if t[at:at + size].strip("\0\ufeff"):
            some.add(t[at:at + size].replace("\0", ""))
    return sorted(some)


def plamo2(path, rng, texts):
    special = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>", "<|plamo:op|>"]
    parts = pieces(rng, texts, 500, 7)
    scores = [rng.choice([-1.0, -2.0, -3.5, -rng.random() * 9, -999.0, -1e3 * rng.random(), -2500.0]) for _ in parts]
    tokens = special + ["<0x%02X>" % b for b in range(256)] + parts
    write(path, "plamo2", "default", tokens, [2] + [3] * 4 + [6] * 256 + [1] * len(parts), [0.0] * 261 + scores)


def letters(data):
    """Characters for bytes, as gpt2 has them."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    more = {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in keep)}
    return "".join(chr(b) if b in keep else more[b] for b in data)


def kimi(path, rng, texts):
    """Returns the ids of a text."""
    ranks = [bytes([b]) for b in range(256)]
    while len(ranks) < 700:                                  # a token is two tokens, so that it can be merged
        t = rng.choice(texts).encode()
        at = rng.randrange(max(len(t) - 1, 1))
        a, b = (next((t[p:p + n] for n in range(12, 0, -1) if t[p:p + n] in ranks), b"") for p in (at, at))
        b = next((t[at + len(a):at + len(a) + n] for n in range(rng.randint(1, 6), 0, -1) if t[at + len(a):at + len(a) + n] in ranks), b"")
        if a and b and a + b not in ranks and len(a + b) < 16:
            ranks.append(a + b)
    write(path, "gpt2", "kimi-k2", [letters(r) for r in ranks], [1] * len(ranks))
    number = {r: i for i, r in enumerate(ranks)}

    def word(w):
        if w in number:
            return [number[w]]
        parts = [w[i:i + 1] for i in range(len(w))]
        while True:
            best = min((number.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1)) if len(parts) > 1 else (1 << 30, 0)
            if best[0] == 1 << 30:
                return [number[p] for p in parts]
            parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]

    def ids(text):
        out, at = [], 0
        for m in regex.finditer(KIMI, text, flags=regex.V1):
            out += (word(text[at:m.start()].encode()) if m.start() > at else []) + word(m.group().encode())
            at = m.end()
        return out + (word(text[at:].encode()) if at < len(text) else [])
    return ids


def main(peer):
    rng = random.Random(11)
    texts = [tok_oracle.text(rng).replace("\0", "\x01") for _ in range(TEXTS - 2)] + ["\ufeffBOM \ufeff", "\U0001f468\u200d\U0001f469 \x7f"]
    out = [f"# python3 tests/gen/tok_peer.py: texts, then for each vocabulary the ids of llama-tokenize; of kimi-k2, those of the script"]
    out += ["T " + t.encode().hex() for t in texts]
    path = os.path.join(DATA, "tok", "plamo2.gguf")
    plamo2(path, rng, texts)
    out.append("V tests/data/tok/plamo2.gguf plamo2")
    for t in texts:
        with tempfile.NamedTemporaryFile("wb", suffix=".txt") as f:
            f.write(t.encode()), f.flush()
            r = subprocess.run([os.path.join(peer, "llama-tokenize"), "-m", path, "-f", f.name, "--ids", "--no-bos", "--no-parse-special", "--no-escape",
                                "--log-disable"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        out.append("I " + r.stdout.decode().strip().strip("[]").replace(",", ""))
    path = os.path.join(DATA, "tok", "kimi-k2.gguf")
    ids = kimi(path, rng, texts)
    out.append("V tests/data/tok/kimi-k2.gguf kimi-k2")
    out += ["I " + " ".join(map(str, ids(t))) for t in texts]
    with open(os.path.join(DATA, "tok_peer.txt"), "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
