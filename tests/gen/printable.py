#!/usr/bin/env python3
"""Prints the rows of val__hidden[] in llmrun.c: ranges of characters beyond ASCII that repr() escapes, from Python 3.11 (Unicode 14.0).
    python3 tests/gen/printable.py > rows.txt        # rows.txt takes the place of the rows in llmrun.c"""
rows, first = [], None
for c in range(0x7F, 0x110001):
    hidden = c < 0x110000 and not chr(c).isprintable()
    if hidden and first is None:
        first = c
    if not hidden and first is not None:
        rows.append("{0x%x,0x%x}," % (first, c - 1))
        first = None
line = "   "
for row in rows:
    if len(line) + len(row) + 1 > 150:
        print(line)
        line = "   "
    line += " " + row
print(line)
