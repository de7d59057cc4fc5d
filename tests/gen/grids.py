#!/usr/bin/env python3
"""The IQ grids as C tables for src/kernels/unpack.h:  python3 tests/gen/grids.py > grids.txt

Source: the point sets in the `gguf` package (pip install gguf), gguf/quants.py. They are facts of the file
format: an IQ code is an index into them. One uint16_t per point, first weight in the lowest bits:
2 bits a weight for the 8-weight grids (levels 0 1 2), 4 bits a weight for the 4-weight grids (levels 0..7).
What a level is worth is written beside each unpacker.
"""
import numpy as np
from gguf import quants

PER_LINE = 18


def rows(cls, bits):
    """The grid of one type as level numbers packed in uint16."""
    cls.init_grid()
    n, width = cls.grid_shape
    values = cls.grid.reshape(n, width)
    level = {float(v): i for i, v in enumerate(cls.grid_map)}
    return [sum(level[float(v)] << (bits * j) for j, v in enumerate(row)) for row in values]


def check_signs():
    """The 128 sign patterns of IQ2_XXS are the 7-bit number with its parity on top, so C computes them."""
    want = [i | (bin(i).count("1") & 1) << 7 for i in range(128)]
    assert list(np.frombuffer(quants.IQ2_XXS.ksigns, dtype=np.uint8)) == want


def main():
    check_signs()
    for name, cls, bits in [("iq1", quants.IQ1_S, 2), ("iq2_xxs", quants.IQ2_XXS, 2), ("iq2_xs", quants.IQ2_XS, 2),
                            ("iq2_s", quants.IQ2_S, 2), ("iq3_xxs", quants.IQ3_XXS, 4), ("iq3_s", quants.IQ3_S, 4)]:
        codes = rows(cls, bits)
        print(f"static const uint16_t k__grid_{name}[{len(codes)}] = {{")
        for i in range(0, len(codes), PER_LINE):
            print("    " + ",".join(f"0x{c:04x}" for c in codes[i:i + PER_LINE]) + ",")
        print("};")


main()
