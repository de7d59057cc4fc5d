#!/usr/bin/env python3
"""The guesses of draft heads (NextN) in tests/data/tiny: NAME.guess of every model of the manifest that has a head.

    python3 tests/gen/tiny_guesses.py

No class of transformers has a draft head, so the values are those of the float64 reading in tests/tiny_read_recurrent.py: logits [9, V] as
little-endian float32, three guesses in a row after 1 token, a third and all but three of the prompt. Needs numpy.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tiny_check import DATA, guesses, manifest                  # noqa: E402

for r in manifest(""):
    if r["metric"] != "nmse":
        continue
    own = guesses(r)
    if own is not None:
        own.astype("<f4").tofile(os.path.join(DATA, r["name"] + ".guess"))
        print("%-24s logits sd %.2f" % (r["name"], own.std()))
