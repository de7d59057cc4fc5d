"""Chi-square: how probable counts are that should follow a distribution."""
import math
from kit import check


def survival(x, freedom):
    """The chance that chi-square of so many degrees of freedom exceeds x: the incomplete gamma function, by its series or
    its fraction."""
    a, x = freedom / 2, x / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, 10000):
            term *= x / (a + n)
            total += term
            if term < total * 1e-16:
                break
        return 1 - scale * total
    b, c, d = x + 1 - a, 1e300, 1 / (x + 1 - a)
    h = d
    for n in range(1, 10000):
        b, step = b + 2, n * (a - n)
        d, c = 1 / (b + step * d), b + step / c
        h *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return scale * h


def fit(seen, expected):
    """p of these counts where {cell: expectation} are all cells there are; those that expect less than 5 are one, with the
    rarest other if need be."""
    if any(expected.get(cell, 0) <= 0 for cell in seen):
        return 0.0
    cells, rare = [], [0.0, 0]
    for cell, e in sorted(expected.items(), key=lambda x: x[1]):
        if e < 5 or 0 < rare[0] < 5:
            rare = [rare[0] + e, rare[1] + seen.get(cell, 0)]
        else:
            cells.append((e, seen.get(cell, 0)))
    cells += [rare] if rare[0] else []
    check(len(cells) > 2, "%d cells" % len(cells))
    return survival(sum((n - e) ** 2 / e for e, n in cells), len(cells) - 1)


def softmax(logits, keep):
    top = sorted(range(len(logits)), key=lambda i: -logits[i])[:keep or None]
    most = logits[top[0]]
    w = {i: math.exp(logits[i] - most) for i in top}
    total = math.fsum(w.values())
    return {i: x / total for i, x in w.items()}
