#!/usr/bin/env python3
"""Ids of the tokenizers library (the reference of the field) for random texts: one kind of pattern of tok_pres each.
    SHARED=../shared python3 tests/gen/tok_oracle.py > tests/data/tok_oracle.txt
    python3 tests/gen/tok_oracle.py --words > tests/data/tok_words.txt
needs the packages tokenizers and gguf, the second one transformers and sentencepiece too: it writes small vocabularies of bert, t5 and gemma4 into
tests/data/tok and the ids that transformers gives to random texts (see tests/tokens.py). The patterns are those of the models' tokenizer.json; patterns of models whose
vocabulary is not in ../shared run over that of llama-bpe, which tests the cutting all the same."""
import os, random, sys
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers as P

ABBR = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = ABBR + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN2 = ABBR + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES


def cased(tail, but=""):
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + but + "]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + but + "]"
    head = r"[^\r\n\p{L}\p{N}]?"
    return head + upper + "*" + lower + "+" + tail + "|" + head + upper + "+" + lower + "*" + tail + "|"


GPT4O = cased(ABBR + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
SCRIPT = "[\u0800-\u9fa5\uac00-\ud7ff]+"
CASES = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-"
    "\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-"
    "\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-"
    "\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-"
    "\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
# vocabulary, pre, ignore_merges, patterns
DIGITS = P.Digits(individual_digits=True)
KINDS = [
    ("llama-bpe", "llama-bpe", True, [LLAMA3]),
    ("qwen2", "qwen2", False, [QWEN2]),
    ("gpt-2", "gpt-2", False, [GPT2]),
    ("starcoder", "starcoder", False, [DIGITS, GPT2]),
    ("deepseek-llm", "deepseek-llm", False, [r"[\r\n]", r"\s?[" + CASES + "]+", "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", SCRIPT, DIGITS]),
    ("llama-bpe", "glm4", False, [LLAMA3]),
    ("llama-bpe", "qwen35", False, [ABBR + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES]),
    ("llama-bpe", "gpt-4o", False, [GPT4O]),
    ("llama-bpe", "granite-embed-multi-97m", True, [GPT4O]),
    ("llama-bpe", "tekken", True, [cased("") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES]),
    ("llama-bpe", "kimi-k2", False,
        [r"[\p{Han}]+|" + cased(ABBR + "?", r"&&[^\p{Han}]") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES]),
    ("llama-bpe", "deepseek-v3", False, [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u30ff]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + SPACES]),
    ("llama-bpe", "deepseek-coder", False, [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", SCRIPT, DIGITS]),
    ("llama-bpe", "superbpe", False, [r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    ("llama-bpe", "seed-coder", False,
        [ABBR + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + SPACES]),
    ("llama-bpe", "falcon", False, [r"[\p{P}$+<=>^~|`]+", GPT2, r"[0-9][0-9][0-9]"]),
    ("llama-bpe", "exaone-moe", False,
        [ABBR + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"]),
    ("llama-bpe", "tiny_aya", False, [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]),
    ("llama-bpe", "bailingmoe", False,
        [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"]),
    ("llama-bpe", "jais-2", False, [ABBR + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        + "".join(r"\s{%d}(?!\S)|" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"\s{1,2}(?!\S)|\s{1}"]),
    ("llama-bpe", "laguna", False, [r"[^\n]+|[\n]+", QWEN2]),
    ("llama-bpe", "minicpm5", True,
        [r"\p{N}{1,3}", ABBR + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES]),
    ("llama-bpe", "chameleon", False, [r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", DIGITS,
        r"[\p{P}!-/:-@\[-`{-~]", GPT2]),
]
POOLS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", " \t\n\r\xa0\u3000\u2028\x85\u180e\u200b\x0b\x0c\x1c",
    "0123456789", "'\".,;:!?-_/\\()[]{}<>|@#$%^&*+=~`",
    "\xe1\xe9\xed\xf3\xfa\xf1\xe7\xdf\xf8\xe5\xc0\xd6\u017fK\u0131\u0130\u0391\u03b1\u03b2\u03a9\u0436\u042f"
    "\u0446\u05e9\u05dc\u05d5\u05dd\u0645\u0631\u062d\u0628\u0627\u0915\u092e\u0932\u0947\u093f\u0e44\u0e17"
    "\u0e22\u4e2d\u6587\u5b57\u65e5\u672c\u8a9e\u3072\u3089\u30ab\u30ca\ud55c\uad6d\uc5b4\u3000\u3002\u3001"
    "\u300c\u300d\u3005\u3007\u2e80\u337f\u01c5\u02b0\u02c8",
    "\u0301\u0308\u064b\u0e31\u20dd\U0001f600\U0001f468\u200d\U0001f469\ufe0f\U0001f1e9\xbd\xb2\u2160\u0663"
    "\u096b\U0001d7d8\U00010400\ue000\U0010fffd\u0378\x00\x01\x7f\ufffd\xad",
]
WORDS = [
    "'s", "'S", "'LL", "'\u017f", "'re", "don't", "I'll", "  ", "   \n\n", "\r\n", "hello", "World", "HTTPServer",
    "camelCase", "1234567", "\uff13\uff14", "x=1;", "\n    return", "</div>", "http://a.b/c?d=e", "\u2026",
    "\u2014\u2014", "\xbfQu\xe9?", "\u01c5ungla", "\xe9t\xe9", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3002", "\u3042\u308a\u304c\u3068\u3046",
    "\uc548\ub155\ud558\uc138\uc694", "\U0001f917\U0001f917", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0131",
    "\u0130", "\ufb01", "\u2163", "\xb2", "\xbd123", "a b c", "1 2", " 3", "+1", "\t\t", "\u3000\u4e2d", "E = mc\xb2",
    "_foo_bar", "'", "''s", "\u2019s",
]


def load(name):
    r = GGUFReader(os.path.join(os.environ.get("SHARED", "../shared"), "data/vocab", name + ".gguf"))
    array = lambda key: [r.fields["tokenizer.ggml." + key].parts[i] for i in r.fields["tokenizer.ggml." + key].data]
    tokens = [bytes(t).decode() for t in array("tokens")]
    return tokens, [int(t[0]) for t in array("token_type")], [tuple(bytes(m).decode().split(" ", 1)) for m in array("merges")]


def build(vocab, whole, steps):
    tokens, types, merges = vocab
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens) if types[i] == 1}, merges, ignore_merges=whole))
    split = lambda s: P.Split(Regex(s), "isolated", False) if isinstance(s, str) else s
    t.pre_tokenizer = P.Sequence([split(s) for s in steps] + [P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.add_tokens([AddedToken(x, normalized=False, special=False) for i, x in enumerate(tokens) if types[i] == 4])
    ids = {x: i for i, x in enumerate(tokens)}        # the library numbers added tokens itself
    return lambda text: [ids[k] for k in t.encode(text, add_special_tokens=False).tokens]


def text(rng):
    out = ""
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        if kind < .45: out += rng.choice(WORDS)
        elif kind < .6: out += " "
        else:
            pool = rng.choice(POOLS)
            out += "".join(rng.choice(pool) for _ in range(rng.randint(1, 5)))
    return out


# A small character map: a tenth of the rules of nmt_nfkc, and more.
RULES = [("\t", " "), ("\n", " "), ("\r", " "), ("\xa0", " "), ("\u3000", " "), ("\u2028", " "), ("\u200b", ""), ("\ufeff", ""), ("\xad", ""), ("\x01", ""), ("\ufb01", "fi"), ("\u2026", "..."),
         ("\xbd", "1\u20442"), ("\u2581", " "), ("\uff21", "A"), ("\u2163", "IV"), ("\uff76\uff9e", "\u30ac"), ("\uff76", "\u30ab"), ("e\u0301", "\xe9"), ("e\u0302", "\xea"), ("e\u0302\u0301", "\u1ebf"),
         ("a\u0308", "\xe4"), ("\u1100\u1161\u11a8", "\uac01"), ("\u0958", "\u0915\u093c"), ("\ufdfa", "\u0635\u0644\u0649"), ("A", "a"), ("\u0130", "i"), ("\U0001f600", ":)")]


def words():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    import tempfile, tokens
    rng = random.Random(7)
    some, lines = tokens.corpus(rng)
    texts = tokens.random_texts(rng, some, 60)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False) as f:
        for a, b in RULES: f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
    answers = {}
    for name, lower, size in (("bert", True, 600), ("bert-cased", False, 700)):
        path = f"tests/data/tok/{name}.gguf"
        vocabulary = tokens.train_bert(lines, lower, None, size)
        tokens.write_bert(path, vocabulary, lower, None)
        answers[path] = tokens.bert_oracle(vocabulary, lower, None)
    for name, size in (("t5", 700), ("xlm-roberta", 600)):
        path = f"tests/data/tok/{name}.gguf"
        proto = tokens.train_unigram(lines, size, coverage=.98, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_tsv=f.name)
        answers[path] = tokens.unigram(name, proto, path)[0]
    os.unlink(f.name)
    raw, raw_path = tokens.train_raw(lines, 500), "tests/data/tok/gemma4.gguf"
    tokens.write_raw(raw_path, *raw)
    print("# python3 tests/gen/tok_oracle.py --words > tests/data/tok_words.txt")
    print("# T: a text in hex. V: a vocabulary. I: the ids that transformers, and tokenizers for gemma4, give to each text in turn; invalid bytes are U+FFFD, and bytes for gemma4.")
    for t in texts: print("T", t.hex())
    for path, encode in answers.items():
        print("V", path, "-")
        for t in texts: print("I", *encode(t.decode("utf-8", "replace")))
    print("V", raw_path, "-")
    encode = tokens.raw_oracle(*raw)
    for t in texts: print("I", *encode(t))


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
    texts = [text(rng) for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 24)]
    print("# SHARED=../shared python3 tests/gen/tok_oracle.py > tests/data/tok_oracle.txt")
    print("# T: a text in hex. V: a vocabulary of ../shared/data/vocab and a pre-tokenizer. I: the ids of each text in turn.")
    for t in texts: print("T", t.encode().hex())
    vocab = {}
    for name, pre, whole, steps in KINDS:
        if name not in vocab: vocab[name] = load(name)
        encode = build(vocab[name], whole, steps)
        print("V", name, pre)
        for t in texts: print("I", *encode(t))


if __name__ == "__main__":
    words() if sys.argv[1:] == ["--words"] else main()
