#!/usr/bin/env python3
"""Importance matrices that llama.cpp gathers from the tiny models, in both of its forms, and what it says of them.

    python3 tests/gen/golden_imatrix.py /path/to/llama-imatrix

Writes tests/data/golden/imatrix.txt (the text), imatrix_NAME.gguf, imatrix_llama.dat and imatrix_stats.txt (what
--show-statistics prints of each: a line for each tensor, then one for each layer). Made with llama.cpp of August 2026; the keys and values of its run are kept in f16, so it agrees with exact sums to about 1e-3.
"""
import os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data")
GOLD = os.path.join(DATA, "golden")
TEXT = " ".join("The %s fox number %d jumps over %d lazy dogs, and %s." % (c, i, i * i % 17, w)
                for i, (c, w) in enumerate(zip("red blue green grey brown black white pink".split(),
                                               "they sleep;nobody minds;it rains;we laugh;all is well;birds sing;time flies;so be it".split(";"))))
CHUNK, CHUNKS = 32, 12


def rows_of(tool, name):
    """The rows of its two tables as cells; blanks and signs of percent taken off."""
    out = subprocess.run([tool, "-m", os.path.join(DATA, "tiny", "llama.gguf"), "--in-file", name, "--show-statistics"], check=True,
                         cwd=GOLD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    lines = [re.sub(r"^[\d.]+ I ", "", line).replace("%", "").split("\t") for line in out.splitlines()]
    return [[c.strip() for c in cells] for cells in lines if re.fullmatch(r" *(-|\d+)", cells[0]) and len(cells) in (13, 4)]


def statistics(tool, name):
    """It may end before it has printed everything: ask until both layers are there."""
    for _ in range(50):
        rows = rows_of(tool, name)
        if sum(len(cells) == 4 for cells in rows) == 2:
            return rows
    raise SystemExit(name + ": the tables stay incomplete")


def main(tool):
    text = os.path.join(GOLD, "imatrix.txt")
    with open(text, "w") as f:
        f.write(TEXT)
    for model, form in (("llama", "gguf"), ("llama_moe", "gguf"), ("llama", "dat")):
        out = os.path.join(GOLD, "imatrix_%s.%s" % (model, form))
        subprocess.run([tool, "-m", os.path.join(DATA, "tiny", model + ".gguf"), "-f", "imatrix.txt", "-o", os.path.abspath(out),
                        "--output-format", form, "-c", str(CHUNK), "-b", str(CHUNK), "--chunks", str(CHUNKS), "--no-ppl",
                        "--process-output", "-ngl", "0", "-t", "2"], check=True, cwd=GOLD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(out, os.path.getsize(out))
    with open(os.path.join(GOLD, "imatrix_stats.txt"), "w") as f:
        for name in "imatrix_llama.gguf", "imatrix_llama_moe.gguf", "imatrix_llama.dat":
            f.writelines(" ".join([name] + cells) + "\n" for cells in statistics(tool, name))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
