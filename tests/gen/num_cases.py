#!/usr/bin/env python3
"""Random numbers beside random bounds and divisors, with what Python's fractions say of them.
    python3 tests/gen/num_cases.py [--seed N] [--cases N] > tests/data/golden/num.txt

Lines: a condition (< <= > >= = and a number; "m" and a divisor; "i" integers; "p" integers in one form), then numbers of JSON with + or - before them."""
import random, sys
from fractions import Fraction

ARGS = dict(zip(sys.argv[1::2], sys.argv[2::2]))
RND = random.Random(int(ARGS.get("--seed", 25)))


def plain(value):
    """The text of a decimal fraction without exponent."""
    sign, value, places = "-" if value < 0 else "", abs(value), 0
    while value.denominator != 1:
        value, places = value * 10, places + 1
    digits = str(value.numerator).rjust(places + 1, "0")
    return sign + (digits[:-places] + "." + digits[-places:] if places else digits)


def spelled(text):
    """Another text of the same value."""
    k = RND.randrange(6)
    if k == 0:
        return text + ("0" * RND.randint(1, 3) if "." in text else "." + "0" * RND.randint(1, 3))
    if k == 1 and Fraction(text) == 0:
        return text[1:] if text[0] == "-" else "-" + text
    if k == 2:
        e = RND.randint(-8, 8)
        return plain(Fraction(text) / Fraction(10) ** e) + RND.choice("eE") + RND.choice(["%d", "%+d", "%+03d"]) % e
    if k == 3:
        return text + RND.choice(["e0", "E-0", "e+00"])
    return text


def a_number():
    k = RND.randrange(8)
    if k == 0:
        return RND.choice(["0", "1", "-1", "10", "0.1", "-0.5", "100", "9.99", "1e3", "2.5e-3", "1e400", "-1e-400", "0e9", "-0"])
    size = RND.choice([1, 1, 2, 2, 3, 5, 9, 20])
    digits = "".join(RND.choice("0123456789" if RND.random() < 0.7 else "09") for _ in range(size))
    at = RND.randint(0, size)
    text = (digits[:at].lstrip("0") or "0") + ("." + digits[at:] if at < size else "")
    return RND.choice(["", "", "-"]) + text + (RND.choice(["e", "E"]) + str(RND.randint(-30, 30)) if RND.random() < 0.1 else "")


def near(text):
    """Numbers around one."""
    value = Fraction(text)
    unit = Fraction(1, 10 ** RND.choice([0, 1, 1, 2, 3, 5])) if RND.random() < 0.8 else Fraction(10) ** RND.randint(1, 4)
    return plain(value + RND.choice([0, 0, unit, -unit, 10 * unit, -value, -2 * value]))


def show(condition, truth, numbers):
    print(condition)
    for n in sorted(set(numbers)):
        print("+-"[not truth(Fraction(n), n)] + n)


def one():
    k = RND.randrange(7)
    bound = a_number()
    value = Fraction(bound)
    numbers = [spelled(near(bound)) if abs(value) < 10 ** 40 and (value == 0 or abs(value) > Fraction(1, 10 ** 40)) else a_number() for _ in range(8)] + [bound] + [a_number() for _ in range(5)]
    if k < 5:
        op, truth = [("<", lambda x, _: x < value), ("<=", lambda x, _: x <= value), (">", lambda x, _: x > value), (">=", lambda x, _: x >= value), ("=", lambda x, _: x == value)][k]
        show(op + " " + bound, truth, numbers)
        return
    if k == 5:
        divisor = RND.choice(["0.01", "0.1", "2", "3", "7", "10", "100", "0.5", "1e-4", "2.5", "1e3", "0.25", "12.34", "1.1", "64", "999", "1e-10", "300", "0.003", "1e6", "1024", "1", "1e-2", "75e1"])
        value = Fraction(divisor)
        numbers = [spelled(plain(value * RND.choice([0, 1, -1, 3, RND.randint(-10 ** 6, 10 ** 6), RND.randint(0, 10 ** 20)]))) for _ in range(6)] + [spelled(plain(Fraction(n))) for n in numbers[-5:]]
        show("m " + divisor, lambda x, _: (x / value).denominator == 1, numbers)
        return
    numbers += [spelled(str(RND.randint(-1000, 1000))) for _ in range(4)] + ["-0", "0", "-0.0", "1.0", "1e2"]
    if RND.random() < 0.5:
        show("i", lambda x, _: x.denominator == 1, numbers)
    else:
        show("p", lambda x, text: text == str(x), [n for n in numbers if "e" not in n.lower()])


print("# python3 tests/gen/num_cases.py, with Python %s" % sys.version.split()[0])
for _ in range(int(ARGS.get("--cases", 700))):
    one()
