"""What the scripts that look at the command from outside have in common: cases, and what they check."""
CASES = []


class Skip(Exception):
    """The machine lacks something that a case needs."""


def case(f):
    CASES.append(f)
    return f


def check(ok, why):
    if not ok:
        raise AssertionError(why)


def one_line(err):
    return err.count(b"\n") == 1 and err.startswith(b"llmrun: ") and err.endswith(b"\n")
