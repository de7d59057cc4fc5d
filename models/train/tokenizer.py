"""Byte-level BPE of the little world: learn the merges, encode and decode text, keep both in one JSON file.

    python3 tokenizer.py --train tokenizer.json          learn 3,072 tokens from the train split
    python3 tokenizer.py --encode "Hello" tokenizer.json print the ids of a text

A GGUF reader sees it as tokenizer.ggml.model = gpt2 with pre = qwen2: a regular expression cuts the text into words, digits
one by one and punctuation; each piece is spelled in bytes; learned pairs are joined, the earliest learned first.
Ids: the control tokens, then the 256 bytes in byte order, then one token for each merge in the order learned.
"""
import argparse
import collections
import heapq
import json
import sys

import regex

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
EOT, IM_START, IM_END = range(3)
N_VOCAB = 3072
PRE = "qwen2"
PRE_PATTERN = regex.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTROL_PATTERN = regex.compile("(" + "|".join(regex.escape(c) for c in CONTROL) + ")")


def byte_letters():
    """The letter that stands for each byte in a gpt2 vocabulary: printable Latin-1 stands for itself, the rest follows from 256."""
    shown = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    letters, spare = [], 256
    for byte in range(256):
        if byte in shown:
            letters.append(chr(byte))
        else:
            letters.append(chr(spare))
            spare += 1
    return letters


LETTERS = byte_letters()
BYTE_OF = {letter: byte for byte, letter in enumerate(LETTERS)}


def spell(piece):
    return "".join(LETTERS[b] for b in piece.encode("utf-8"))


def learn(texts, n_vocab=N_VOCAB):
    """The merges of the most frequent neighbours, one by one; a tie goes to the pair that sorts first, so that the
    result depends on the texts alone."""
    counts = collections.Counter()
    for text in texts:
        for part in CONTROL_PATTERN.split(text):
            if part not in CONTROL:
                counts.update(PRE_PATTERN.findall(part))
    words = [list(spell(w)) for w in counts]
    freqs = list(counts.values())
    pair_count, pair_words = collections.Counter(), collections.defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pair_count[pair] += freqs[i]
            pair_words[pair].add(i)
    heap = [(-n, pair) for pair, n in pair_count.items()]
    heapq.heapify(heap)
    merges, known = [], set(LETTERS)
    while len(CONTROL) + 256 + len(merges) < n_vocab:
        if not heap:
            raise SystemExit(f"the text gives only {len(merges)} merges: train on more of it")
        n, pair = heapq.heappop(heap)
        if pair_count[pair] != -n or n == 0:
            continue                                  # an outdated entry: the current count has its own
        joined = pair[0] + pair[1]
        if joined in known:                           # a second spelling of a known token would need a second id
            pair_count[pair] = 0
            continue
        known.add(joined)
        merges.append(pair)
        touched = set()
        for i in pair_words.pop(pair):
            old = words[i]
            new = join(old, pair, joined)
            for p in zip(old, old[1:]):
                pair_count[p] -= freqs[i]
                touched.add(p)
            for p in zip(new, new[1:]):
                pair_count[p] += freqs[i]
                pair_words[p].add(i)
                touched.add(p)
            words[i] = new
        for p in touched:
            if pair_count[p] > 0 and p != pair:
                heapq.heappush(heap, (-pair_count[p], p))
    return merges


def join(symbols, pair, joined):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            out.append(joined)
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.tokens = list(CONTROL) + LETTERS + [a + b for a, b in self.merges]
        self.id_of = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.cache = {}
        if len(self.id_of) != len(self.tokens):
            raise SystemExit("two tokens are spelled alike")

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as f:
            return cls(json.load(f)["merges"])

    def save(self, path):
        head = {"model": "gpt2", "pre": PRE, "control": CONTROL, "merges": self.merges}
        with open(path, "w", encoding="utf-8") as f:
            json.dump(head, f, ensure_ascii=True, indent=None, separators=(",", ":"))
            f.write("\n")

    def piece(self, text):
        """Ids of one pre-token."""
        ids = self.cache.get(text)
        if ids is None:
            symbols = list(spell(text))
            while len(symbols) > 1:
                best = min(zip(symbols, symbols[1:]), key=lambda p: self.rank.get(p, 1 << 30))
                if best not in self.rank:
                    break
                symbols = join(symbols, best, best[0] + best[1])
            ids = self.cache[text] = [self.id_of[s] for s in symbols]
        return ids

    def encode(self, text):
        """Ids of a text; control tokens in it are recognised."""
        return [i for _, _, ids in self.pieces(text) for i in ids]

    def pieces(self, text):
        """(first character, character after the last, ids) of each pre-token and control token, in order."""
        at = 0
        for part in CONTROL_PATTERN.split(text):
            if part in CONTROL:
                yield at, at + len(part), (self.id_of[part],)
            else:
                for m in PRE_PATTERN.finditer(part):
                    yield at + m.start(), at + m.end(), self.piece(m.group())
            at += len(part)

    def decode(self, ids):
        out = []
        for i in ids:
            if i < len(CONTROL):
                out.append(CONTROL[i].encode())
            else:
                out.append(bytes(BYTE_OF[c] for c in self.tokens[i]))
        return b"".join(out).decode("utf-8", errors="replace")


def training_texts(n_docs):
    import world
    for seed in range(n_docs):
        yield world.document(seed).text


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("file", help="the tokenizer's JSON file")
    ap.add_argument("--train", action="store_true", help="learn the merges and write FILE")
    ap.add_argument("--docs", type=int, default=30000, help="documents to learn from (default %(default)s)")
    ap.add_argument("--encode", metavar="TEXT", help="print the ids of TEXT")
    args = ap.parse_args()
    if args.train:
        Tokenizer(learn(training_texts(args.docs))).save(args.file)
    tok = Tokenizer.load(args.file)
    if args.encode is not None:
        print(*tok.encode(args.encode))
    else:
        sizes = [len(t) for t in tok.tokens[len(CONTROL) + 256:]]
        print(f"{len(tok.tokens)} tokens, {sum(sizes) / len(sizes):.2f} bytes per merged token, the longest "
              f"{max(sizes)}", file=sys.stderr)


if __name__ == "__main__":
    main()
