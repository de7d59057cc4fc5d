#!/usr/bin/env python3
"""Prints the tables of characters of section [val], val__packed[] of src/val.c, from Python's own answers (Unicode 14.0).
    python3 tests/gen/unicode.py > rows.txt                                 # rows.txt takes the place of the rows in src/val.c
    python3 tests/gen/unicode.py --sums > tests/data/golden/unicode.txt     # what t_filter.c holds every character against
and the tables of section [tok], tok__packed[], from the answers of the package tokenizers to a text of each character:
    python3 tests/gen/unicode.py --bert > rows.txt
    python3 tests/gen/unicode.py --bert-sums > tests/data/golden/bert.txt   # what t_tok.c holds every character against

and the general categories and the lower case of section [lang], lang__packed[] and lang__cases[], from the modules unicodedata and re:
    python3 tests/gen/unicode.py --categories > rows.txt
    python3 tests/gen/unicode.py --categories-sum                           # what t_lang.c holds the categories of all characters against

A row is a list of numbers in base64 VLQ: six bits a character, the lowest five first, 32 marks that more follow. Each table is a list of ranges, sorted:
a set has (gap, length, step) with step 0 for 1 and 1 for 2; a map has (gap, length, step, delta) and the delta's sign in its lowest bit; a list of
longer forms has (gap, count, characters)."""
import sys, unicodedata

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ALL = range(0x110000)
WIDTH = 119


def vlq(n):
    out = ""
    while n >= 32:
        out += DIGITS[n & 31 | 32]
        n >>= 5
    return out + DIGITS[n]


def ranges(points):
    """Points (code point -> delta) as (first, last, step, delta), the longest range first at each place."""
    keys, out, i = sorted(points), [], 0
    while i < len(keys):
        best = (-1, 1)
        for step in (1, 2):
            j = i
            while j + 1 < len(keys) and keys[j + 1] - keys[j] == step and points[keys[j + 1]] == points[keys[i]]:
                j += 1
            best = max(best, (j, -step))
        j, step = best[0], -best[1]
        out.append((keys[i], keys[j], step if j > i else 1, points[keys[i]]))
        i = j + 1
    return out


def code_set(test):
    at, out = 0, ""
    for lo, hi, step, _ in ranges({c: 0 for c in ALL if test(chr(c))}):
        out += vlq(lo - at) + vlq((hi - lo) // step * 2 + step - 1)
        at = hi
    return out


def code_map(pairs):
    at, out = 0, ""
    for lo, hi, step, delta in ranges({c: ord(to) - c for c, to in pairs.items() if len(to) == 1}):
        out += vlq(lo - at) + vlq((hi - lo) // step * 2 + step - 1) + vlq(abs(delta) * 2 + (delta < 0))
        at = hi
    return out


def code_long(pairs):
    at, out = 0, ""
    for c, to in sorted(pairs.items()):
        if len(to) > 1:
            out += vlq(c - at) + vlq(len(to)) + "".join(vlq(ord(x)) for x in to)
            at = c
    return out


def differ(form, base):
    return {c: form(chr(c)) for c in ALL if form(chr(c)) != base(chr(c))}


def ignorable(c):
    """Case-ignorable, read from how Python writes a final sigma: behind such a character, and only if a letter stands before it."""
    return ("A" + c + "\u03a3").lower()[-1] == "\u03c2" and (c + "\u03a3").lower()[-1] != "\u03c2"


def same(c):
    return c


def sums():
    """A line for each method: its name, and the FNV-1a hash (64 bits) of its answers for all characters below U+20000 and every 61st above, as UTF-8 of what the
    method makes of `1X1`, X and AX, or as the digits 0 and 1."""
    for name in ("upper", "lower", "title", "capitalize"):
        h = 0xcbf29ce484222325
        for c in ALL:
            if 0xd800 <= c < 0xe000 or (c >= 0x20000 and c % 61):
                continue
            for text in ("1" + chr(c) + "1", chr(c), "A" + chr(c)):
                got = getattr(text, name)()
                for b in (got if isinstance(got, str) else str(int(got))).encode():
                    h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
        print(name, f"{h:016x}")


def asked(answer):
    """What a normaliser makes of each character, where it is not the character."""
    made = {c: answer.normalize_str("a" + chr(c) + "b")[1:-1] for c in ALL if not 0xd800 <= c < 0xe000}
    return {c: to for c, to in made.items() if to != chr(c)}


def bert():
    from tokenizers import normalizers, pre_tokenizers
    step = lambda **on: asked(normalizers.BertNormalizer(**{**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False), **on}))
    clean, han, bare, lower = step(clean_text=True), step(handle_chinese_chars=True), step(strip_accents=True), step(lowercase=True)
    words = pre_tokenizers.BertPreTokenizer()
    bare = {c: to for c, to in bare.items() if not 0xac00 <= c < 0xd7a4}               # syllables of Hangul are taken apart by arithmetic
    print_rows("TOK", [("IS_DROPPED", code_set(lambda c: clean.get(ord(c), c) == "")), ("IS_HAN", code_set(lambda c: ord(c) in han)),
                       ("IS_PUNCT", code_set(lambda c: not 0xd800 <= ord(c) < 0xe000
                                             and len(words.pre_tokenize_str("a" + c + "b")) == 3)),
                       ("IS_MARK", code_set(lambda c: bare.get(ord(c), c) == "")), ("TO_BARE", code_map(bare)), ("TO_LOWER", code_map(lower)),
                       ("BARE_LONG", code_long(bare)), ("LOWER_LONG", code_long(lower))])


def bert_sums():
    """A line for each kind of vocabulary: the FNV-1a hash (64 bits) of the words, a newline after each, that BERT makes of A, X and \xc9 in one, for every
    character X below U+20000 but U+2581, and every 61st above."""
    from tokenizers import normalizers, pre_tokenizers
    words = pre_tokenizers.BertPreTokenizer()
    for name, lower, strip in (("uncased", True, True), ("cased", False, False), ("lower", True, False), ("bare", False, True)):
        h, form = 0xcbf29ce484222325, normalizers.BertNormalizer(lowercase=lower, strip_accents=strip)
        for c in ALL:
            if 0xd800 <= c < 0xe000 or c == 0x2581 or (c >= 0x20000 and c % 61):
                continue
            for word, _ in words.pre_tokenize_str(form.normalize_str("A" + chr(c) + "\xc9")):
                for b in word.encode() + b"\n":
                    h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
        print(name, f"{h:016x}")


CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()     # all but Cs and Cn


def categories():
    import _sre
    lower = {c: chr(_sre.unicode_tolower(c)) for c in ALL if _sre.unicode_tolower(c) != c}
    print_rows("LANG", [(c.upper(), code_set(lambda x: unicodedata.category(x) == c)) for c in CATEGORIES] + [("TO_LOWER", code_map(lower))])
    cases = sorted((a, b) for a, bs in __import__("re._casefix", fromlist=["x"])._EXTRA_CASES.items() for b in bs)
    print("    " + ", ".join("{0x%x, 0x%x}" % pair for pair in cases))


def categories_sum():
    """The FNV-1a hash (64 bits) of the number of each character's category, from 0; 255: none of them."""
    h = 0xcbf29ce484222325
    for c in ALL:
        name = unicodedata.category(chr(c))
        h = (h ^ (CATEGORIES.index(name) if name in CATEGORIES else 255)) * 0x100000001b3 & 0xffffffffffffffff
    print(f"{h:016x}")


def print_rows(prefix, rows):
    for name, text in rows:
        lines = [text[i:i + WIDTH] for i in range(0, len(text), WIDTH)]
        head = f"    [{prefix}_{name}] ="
        one = f'{head} "{text}",'
        print(one if len(one) <= 130 else head + "\n        " + "\n        ".join(f'"{line}"' for line in lines) + ",")
    print(sum(len(text) for _, text in rows), "characters", file=sys.stderr)


def main():
    forms = {"UPPER": (str.upper, same), "LOWER": (str.lower, same), "TITLE": (str.title, str.upper)}
    rows = [("IS_ALPHA", code_set(str.isalpha)), ("IS_LOWER", code_set(str.islower)), ("IS_UPPER", code_set(str.isupper)),
            ("IS_TITLE", code_set(lambda c: c.istitle() and not c.isupper())), ("IS_SPACE", code_set(str.isspace)),
            ("IS_DECIMAL", code_set(str.isdecimal)), ("IS_DIGIT", code_set(lambda c: c.isdigit() and not c.isdecimal())),
            ("IS_NUMERIC", code_set(lambda c: c.isnumeric() and not c.isdigit())), ("IS_IGNORABLE", code_set(ignorable)),
            ("IS_HIDDEN", code_set(lambda c: not c.isprintable()))]
    for name, (form, base) in forms.items():
        rows.append(("TO_" + name, code_map(differ(form, base))))
    for name, (form, base) in forms.items():
        rows.append((name + "_LONG", code_long(differ(form, base))))
    print_rows("VAL", rows)


if __name__ == "__main__":
    {"--sums": sums, "--bert": bert, "--bert-sums": bert_sums, "--categories": categories, "--categories-sum": categories_sum}.get(" ".join(sys.argv[1:]), main)()
