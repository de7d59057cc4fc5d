#!/usr/bin/env python3
"""The tokenizers bert, t5 and gemma4 beside those of transformers and tokenizers: vocabularies trained here, and those of a
folder, on random texts.
    make tokens                                    # PYTHON needs transformers, tokenizers, sentencepiece and gguf
    python3 tests/tokens.py build/test/judge --texts 3000 --seed 2 --peers ../llama.cpp/models
A line for each vocabulary: texts, texts with the same tokens, and for t5 how many differ from SentencePiece's own tokens,
which normalise without regard for grapheme clusters. --peers: a folder with ggml-vocab-NAME.gguf, .inp and .out; vocabularies
of other kinds are passed over.
Exit 1 if a text has other tokens."""
import argparse, glob, io, json, os, random, re, subprocess, sys, tempfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import BertWordPieceTokenizer, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, T5Tokenizer, XLMRobertaTokenizer

SPACE = "\u2581"
SCRIPTS = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "áàâäãåāéèêëíìîïóòôöúùûüñçßøæœłđşığžčř",
           "ÁÀÉÈÍÓÚÑÇØŁĐŞİĞŽČ", "абвгдеёжзийклмнопрстуфхцчшщ",
           "АБВГДЕЁЖЗИЙ", "αβγδεζηθικλμνξοπρστυφχψως", "ΑΒΓΔΕΖΗΆΈΉ", "אבגדהוזחטיכלמנסעפצקרשתךםןףץ",
           "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئ", "अआइईकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह",
           "กขคงจฉชซญดตถทธนบปผฝพฟมยรลวศสหอ", "中文字日本語国学生大人小水火山川田東京北上下左右", "あいうえおかきくけこさしすせそたちつてとがぎぐ", "アイウエオカキクケコサシスセソガギグパピプ",
           "한국어안녕하세요가나다라마바사", "აბგდევზთიკლმ",
           "აბգդեզէըթժ"]
MARKS = ["\u0301\u0300\u0308\u0323\u0327\u0302", "\u05b0\u05b4\u05bc", "\u064b\u064e\u0650\u0651\u0670",
         "\u093e\u093f\u0940\u0941\u0947\u094d\u0902\u093c", "\u0e31\u0e34\u0e35\u0e48\u0e49", "\u3099\u309a",
         "\u200d\ufe0f\u20e3\U0001f3fd"]
ODD = ["\t", "\n", "\r\n", "\r", "\x00", "\x01", "\x1b", "\x7f", "\x85", "\xa0", "\xad", "\u1680", "\u180e", "\u200b", "\u200c",
       "\u200e", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\ufffd", "\ue000", "\u0378", "\U000e0041",
       "\U0010fffd", "\u2581", "\ufb01", "\u2163", "\u00bd", "\u00b2", "\u210c", "\u3392", "\uff21", "\uff76\uff9e", "\u2126",
       "\u212b", "\u1e9e", "\u0130", "\u01c5", "\u0132", "\ufdfa", "\ufb1d", "\u0958", "\u2adc", "\U0001d15e",
       "\uf900", "\U0002f800", "\u3007", "\u3005", "\u30fb", "\U00020000", "\U0002b920", "\U0002b820", "\u1100\u1161\u11a8",
       "\u0600a", "\U0001f1e9\U0001f1ea", "e\u0301", "e\u0302\u0301", "1\ufe0f\u20e3",
       "\U0001f468\u200d\U0001f469\u200d\U0001f467",
       "\U0001f600", "\U0001f44d\U0001f3fd", "\u2764\ufe0f"]
PUNCT = ("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u00a1\u00ab\u00b7\u00bf\u2014\u2018\u2019\u201c\u2026"
         "\u20ac\u00a3\u00a9\u00d7\u2192\u3001\u3002\uff0c\u300c\u061f\u0964\u2260")
WORDS = ["the", "of", "and", "tokenizer", "Internationalization", "don't", "U.S.A.", "3.14159", "2026-11-23", "user@example.com",
         "https://example.com/a?b=c", "naïve", "Straße", "ΟΔΟΣ", "İstanbul", "ПРИВЕТ", "今日は", "안녕하세요", "नमस्ते",
         "مرحبا", "สวัสดี", "C++", "#hashtag", "x=y+1;", "don’t", "…", "--", "a_b_c", "ﬁnal"]


def word(rng):
    pool = rng.choice(SCRIPTS)
    out = ""
    for _ in range(min(rng.randint(1, 9), rng.randint(1, 9))):
        out += rng.choice(pool)
        if rng.random() < .06:
            out += "".join(rng.choice(rng.choice(MARKS)) for _ in range(rng.randint(1, 3)))
    return out


def text(rng, some):
    """One text: words of the training texts and new ones, digits, punctuation, odd characters, any character, a long word."""
    out = ""
    for _ in range(rng.randint(1, 16)):
        kind = rng.random()
        if kind < .35: out += rng.choice(some)
        elif kind < .5: out += word(rng)
        elif kind < .6: out += rng.choice(WORDS)
        elif kind < .68: out += "".join(rng.choice(PUNCT) for _ in range(rng.randint(1, 3)))
        elif kind < .78: out += "".join(rng.choice(ODD) for _ in range(rng.randint(1, 2)))
        elif kind < .82: out += str(rng.randint(0, 10 ** rng.randint(1, 12)))
        elif kind < .86:
            out += "".join(chr(rng.choice((rng.randint(1, 0xd7ff), rng.randint(0xe000, 0x1ffff), rng.randint(0x80, 0x600))))
                           for _ in range(rng.randint(1, 4)))
        elif kind < .87: out += word(rng) * rng.randint(8, 60)
        if rng.random() < .6: out += " " * rng.choice((1, 1, 1, 1, 2, 3))
    return out


def corpus(rng):
    some = [word(rng) for _ in range(1500)] + WORDS * 5
    return some, [" ".join(some[min(int(rng.expovariate(1 / 300)), len(some) - 1)] for _ in range(12)) for _ in range(4000)]


def random_texts(rng, some, n):
    """n texts as bytes; one in eight has bytes that are not UTF-8."""
    out = []
    for i in range(n):
        b = bytearray(text(rng, some).encode())
        for _ in range(rng.randint(1, 3) if i % 8 == 7 and b else 0):
            at = rng.randrange(len(b) + 1)
            b[at:at + rng.randint(0, 1)] = bytes([rng.choice((0xff, 0xc3, 0xe2, 0xf0, 0x80, 0xed, 0xc0))])
        out.append(bytes(b))
    return out


# --- files as the converters write them ---

def writer(path, model):
    w = gguf.GGUFWriter(path, "bert")
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre("default")
    return w


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def write_bert(path, tokens, lower, strip):
    special = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    phantom = [t if t in special else t[2:] if t.startswith("##") else SPACE + t for t in tokens]
    w = writer(path, "bert")
    w.add_token_type_count(2)
    w.add_token_list(phantom)
    w.add_token_types([3 if t in special else 1 for t in tokens])
    w.add_unk_token_id(1), w.add_sep_token_id(3), w.add_pad_token_id(0), w.add_mask_token_id(4)
    w.add_uint32("tokenizer.ggml.cls_token_id", 2)
    w.add_bool("tokenizer.ggml.normalizer.lowercase", lower)
    if strip is not None:
        w.add_bool("tokenizer.ggml.normalizer.strip_accents", strip)
    finish(w)


def write_t5(path, tokens, scores, types, charsmap, ids):
    w = writer(path, "t5")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(types)
    w.add_add_space_prefix(True)
    w.add_remove_extra_whitespaces(True)
    if charsmap:
        w.add_precompiled_charsmap(charsmap)
    w.add_unk_token_id(ids["unk"]), w.add_eos_token_id(ids["eos"]), w.add_pad_token_id(ids["pad"])
    if "bos" in ids:
        w.add_bos_token_id(ids["bos"])
    finish(w)


# --- vocabularies ---

def train_bert(lines, lower, strip, size):
    t = BertWordPieceTokenizer(lowercase=lower, strip_accents=strip)
    t.train_from_iterator(lines, vocab_size=size, min_frequency=2, show_progress=False,
                          special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return sorted(t.get_vocab(), key=t.get_vocab().get)


def bert_oracle(tokens, lower, strip, unk="[UNK]"):
    t = BertTokenizer(vocab={x: i for i, x in enumerate(tokens)}, do_lower_case=lower, strip_accents=strip)
    return lambda s: t.encode(s, add_special_tokens=False)


def train_unigram(lines, size, coverage=.995, **more):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=size,
                                             model_type="unigram", hard_vocab_limit=False, character_coverage=coverage,
                                             minloglevel=2, num_threads=1, **more)
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(out.getvalue())
    return m


def unigram(kind, proto, path):
    """Writes the vocabulary and returns transformers' answer and SentencePiece's."""
    pieces = [(p.piece, p.score, p.type) for p in proto.pieces]
    charsmap = proto.normalizer_spec.precompiled_charsmap
    # ids as in fairseq: <s> <pad> </s> <unk>, the other tokens, <mask>
    if kind == "xlm-roberta":
        rest = [p for p in pieces if p[0] not in ("<s>", "</s>", "<pad>", "<unk>")]
        pieces = [("<s>", 0., 3), ("<pad>", 0., 3), ("</s>", 0., 3), ("<unk>", 0., 2)] + rest + [("<mask>", 0., 3)]
        ids = dict(bos=0, pad=1, eos=2, unk=3)
        make = lambda v, c: XLMRobertaTokenizer(vocab=v, _spm_precompiled_charsmap=c)
    else:
        ids = {name: next(i for i, p in enumerate(pieces) if p[0] == piece)
               for name, piece in (("pad", "<pad>"), ("eos", "</s>"), ("unk", "<unk>"))}
        make = lambda v, c: T5Tokenizer(vocab=v, _spm_precompiled_charsmap=c, extra_ids=0)
    write_t5(path, [p[0] for p in pieces], [p[1] for p in pieces], [p[2] for p in pieces], charsmap, ids)
    t = make([(p[0], p[1]) for p in pieces], charsmap or None)
    sp = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    place = {p[0]: i for i, p in enumerate(pieces)}
    return (lambda s: t.encode(s, add_special_tokens=False),
            lambda s: [ids["unk"] if i == sp.unk_id() else place[sp.id_to_piece(i)] for i in sp.encode(s)])


def train_raw(lines, size):
    """gemma4: tokens with U+2581 for a space, merges between characters, runs of newlines, a token for each byte. Returns tokens
    and merges."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Replace(" ", SPACE)
    # shorter words train faster
    t.pre_tokenizer = pre_tokenizers.Split(Regex("[^" + SPACE + "]" + SPACE), "merged_with_previous")
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False,
                                                     special_tokens=["<pad>", "<eos>", "<bos>", "<unk>"]))
    runs = ["\n" * i for i in range(1, 9)]
    merges = [("\n" * i, "\n" * j) for i in range(1, 8) for j in range(1, 9 - i)]
    merges += [tuple(m) for m in json.loads(t.to_str())["model"]["merges"]]
    learnt = [x for x in sorted(t.get_vocab(), key=t.get_vocab().get) if x not in runs]
    return learnt[:4] + ["<0x%02X>" % b for b in range(256)] + runs + learnt[4:], merges


def write_raw(path, tokens, merges):
    w = writer(path, "gemma4")
    w.add_token_list(tokens)
    w.add_token_types([3, 3, 3, 2] + [6] * 256 + [1] * (len(tokens) - 260))
    # newlines: the converter of the peers loses them
    w.add_token_merges([a + " " + b for a, b in merges if a[0] != "\n"])
    w.add_pad_token_id(0), w.add_eos_token_id(1), w.add_bos_token_id(2), w.add_unk_token_id(3)
    finish(w)


def raw_oracle(tokens, merges):
    """Of bytes: an invalid byte is a byte token here, which the library cannot say; the texts between them are the library's."""
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", SPACE)

    def encode(text):
        out = []
        for i, part in enumerate(re.split("([\udc80-\udcff])", text.decode("utf-8", "surrogateescape"))):
            out += ([4 + b for b in part.encode("utf-8", "surrogateescape")] if i % 2
                    else t.encode(part, add_special_tokens=False).ids)
        return out
    return encode


# --- llmrun's tokens ---

class Judge:
    def __init__(self, program, vocabulary):
        self.p = subprocess.Popen([program, vocabulary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, text):
        self.p.stdin.write(b"tokens %d\n%s\n" % (len(text), text))
        self.p.stdin.flush()
        line = self.p.stdout.readline().decode().strip()
        return line if line.startswith("error") or not self.p else [int(x) for x in line.split()]

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def replaced(text):
    """What a normalising tokenizer reads."""
    return text.decode("utf-8", "replace")


def compare(name, program, path, texts, oracle, other=None, reads=replaced):
    judge, same, apart, shown = Judge(program, path), 0, 0, 0
    for t in texts:
        s = reads(t)
        got, want = judge(t), oracle(s)
        same += got == want
        if other and got == want: apart += other(s) != want
        if got != want and shown < 5:
            shown += 1
            print(f"  {name}: {t!r}\n    got  {got}\n    want {want}")
    judge.close()
    print(f"{name}: {len(texts)} texts, {same} with the same tokens"
          + (f"; of these SentencePiece has other tokens for {apart}" if other else ""), flush=True)
    return same == len(texts)


def trained(program, folder, n, rng):
    some, lines = corpus(rng)
    texts, ok = random_texts(rng, some, n), True
    for name, lower, strip, size in (("bert uncased", True, None, 2000), ("bert cased", False, None, 2500),
                                     ("bert lower, accents stay", True, False, 900)):
        tokens, path = train_bert(lines, lower, strip, size), os.path.join(folder, "v.gguf")
        write_bert(path, tokens, lower, strip)
        ok &= compare(name, program, path, texts, bert_oracle(tokens, lower, strip))
    for name, kind, size, more in (("t5, nmt_nfkc", "t5", 2000, {}), ("xlm-roberta, nmt_nfkc", "xlm-roberta", 1500, {}),
                                   ("t5, nmt_nfkc_cf", "t5", 1200, dict(normalization_rule_name="nmt_nfkc_cf")),
                                   ("t5, no map", "t5", 1500, dict(normalization_rule_name="identity"))):
        path = os.path.join(folder, "v.gguf")
        proto = train_unigram(lines, size, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **more)
        ok &= compare(name, program, path, texts, *unigram(kind, proto, path))
    for size in 700, 3000:
        tokens, merges = train_raw(lines, size)
        write_raw(path, tokens, merges)
        ok &= compare("gemma4, %d tokens" % len(tokens), program, path, texts, raw_oracle(tokens, merges), reads=bytes)
    return ok


def strings(reader, key):
    field = reader.fields["tokenizer.ggml." + key]
    return [bytes(field.parts[i]).decode() for i in field.data]


def peer(program, path, n, rng):
    """A vocabulary of the peers: its own texts, then random ones beside a BertTokenizer made of it."""
    r = gguf.GGUFReader(path)
    model = bytes(r.fields["tokenizer.ggml.model"].parts[-1]).decode()
    if model not in ("bert", "t5"):
        return True
    name, ok = os.path.basename(path)[11:-5], True
    if os.path.exists(path + ".inp"):
        judge = Judge(program, path)
        texts = open(path + ".inp", encoding="utf-8", newline="").read().split("\n__ggml_vocab_test__\n")
        lines = open(path + ".out").read().split("\n")
        same = [judge(t.encode()) == [int(x) for x in want.split()] for t, want in zip(texts, lines)]
        print(f"{name}: {len(same)} texts of its own, {sum(same)} with the same tokens")
        ok = all(same)
        judge.close()
    if model == "bert":
        types = [int(r.fields["tokenizer.ggml.token_type"].parts[i][0]) for i in r.fields["tokenizer.ggml.token_type"].data]
        tokens = [t if t[:1] == "[" and t[-1:] == "]" and types[i] != 1 else t[1:] if t.startswith(SPACE) else t
                  if types[i] != 1 else "##" + t for i, t in enumerate(strings(r, "tokens"))]
        some = [t.replace("##", "") for t in rng.sample(tokens, 3000) if t[0] != "["]       # [UNK] in a text would be a token
        ok &= compare(name, program, path, random_texts(rng, some, n), bert_oracle(tokens, True, None))
    return ok


def main():
    a = argparse.ArgumentParser()
    a.add_argument("judge")
    a.add_argument("--texts", type=int, default=3000)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--peers")
    o = a.parse_args()
    rng = random.Random(o.seed)
    with tempfile.TemporaryDirectory() as folder:
        ok = trained(o.judge, folder, o.texts, rng)
    for path in sorted(glob.glob(os.path.join(o.peers, "ggml-vocab-*.gguf"))) if o.peers else []:
        ok &= peer(o.judge, path, o.texts, rng)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
