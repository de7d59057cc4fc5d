#!/usr/bin/env python3
"""Seeds of fuzz_weights.c:  python3 tests/gen/weights_seeds.py  writes tests/corpus/weights/TYPE for every type with golden blocks (tests/data/golden/fmt_TYPE.bin):
the type's number, a byte for rows of one block, the blocks. Needs gguf."""
import glob
import os
import re

from gguf import GGMLQuantizationType as T

HERE = os.path.dirname(os.path.abspath(__file__))
FOREIGN = dict(i2_s=36, q6_0=133, iq2_k=137, iq3_k=138, iq4_k=139, iq5_k=140, iq6_k=141, iq4_ks=144, iq2_ks=145, iq4_kss=146, iq5_ks=152,
               iq2_kt=153, iq3_kt=154, iq4_kt=155, iq3_ks=156, iq2_kl=157, iq1_kt=158, q1_0=41, q2_0=42)

for path in sorted(glob.glob(os.path.join(HERE, "../data/golden/fmt_*.bin"))):
    name = os.path.basename(path)[4:-4]
    line, _, data = open(path, "rb").read().partition(b"\n")
    found = re.search(rb"(\d+) (?:blocks|rows) of (\d+) bytes", line)
    if not found:
        continue
    kind = FOREIGN[name] if name in FOREIGN else T[name.upper()].value
    with open(os.path.join(HERE, "../corpus/weights", name), "wb") as f:
        f.write(bytes([kind, 0]) + data[:int(found[1]) * int(found[2])])
