#!/usr/bin/env python3
"""Checks tests/data/tiny without torch: a float64 forward pass in numpy, written from the file format alone.

    python3 tests/tiny_check.py [-k NAME]         golden logits, guesses of draft heads and greedy texts are what the GGUF
                                                  files say (NMSE < 1e-9)
    python3 tests/tiny_check.py --act8            how far 8-bit activations alone move the quantised models (mean KL)
    python3 tests/tiny_check.py --kv16            the same for keys and values kept in f16
    python3 tests/tiny_check.py --faults          how far each wrong reading of a file moves the logits (float models);
                                                  every one must cost 30 times what the test allows

The readings are those of tests/tiny_read*.py; needs numpy, and gguf for the block formats.
"""
import argparse
import os
import sys

import numpy as np

from tiny_read import File, Model, kls, nmse
import tiny_read_decoders
import tiny_read_gemma
import tiny_read_latent
import tiny_read_parallel
import tiny_read_pooled
import tiny_read_quirks
import tiny_read_recurrent
import tiny_read_rwkv
import tiny_read_ssm
import tiny_read_streams

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tiny")
READERS = {}                    # general.architecture -> its reading, where that is not Model
for family in (tiny_read_decoders, tiny_read_quirks, tiny_read_latent, tiny_read_pooled, tiny_read_parallel, tiny_read_recurrent, tiny_read_streams,
               tiny_read_ssm, tiny_read_rwkv, tiny_read_gemma):
    READERS.update(family.READERS)


# --- the runs -------------------------------------------------------------------------------------------------------
def manifest(only):
    """The models that the program reads, and those that it does not read yet."""
    lists = [os.path.join(DATA, n + ".txt") for n in ("manifest", "pending")]
    for line in [line for path in lists if os.path.exists(path) for line in open(path)]:
        r = dict(zip("name file ids logits greedy n V first step rows metric limit".split(), line.split()))
        if only not in r["name"]:
            continue
        for k in ("n", "V", "first", "step", "rows"):
            r[k] = int(r[k])
        r["ids"] = [int(i) for i in open(os.path.join(DATA, r["ids"])).read().split()]
        r["want"] = np.fromfile(os.path.join(DATA, r["logits"]), "<f4").astype(float).reshape(r["rows"], r["V"])
        assert len(r["ids"]) == r["n"] and r["first"] + (r["rows"] - 1) * r["step"] == r["n"] - 1
        yield r


def reader(f):
    return READERS.get(f.meta["general.architecture"], Model)


def read(path, **kw):
    f = File(path)
    return reader(f)(f, **kw)


def run(r, **kw):
    return read(os.path.join(DATA, r["file"]), **kw).logits(r["ids"])[r["first"]::r["step"]]


def greedy_holds(r):
    want = [int(i) for i in open(os.path.join(DATA, r["greedy"])).read().split()]
    m, seq = read(os.path.join(DATA, r["file"])), list(r["ids"])
    for _ in want:
        seq.append(int(m.logits(seq)[-1].argmax()))
    return seq[r["n"]:] == want


GUESSES = 3                     # guesses in a row


def guesses(r, **kw):
    """The draft head's guesses at three places of the prompt, [3 * GUESSES, V]; None: the model has no head, or its reading has none."""
    m = read(os.path.join(DATA, r["file"]), **kw)
    if not any(".nextn.eh_proj." in name for name in m.w) or not m.guesses:
        return None
    return np.concatenate([m.guesses(r["ids"][:at + GUESSES], GUESSES) for at in (1, r["n"] // 3, r["n"] - GUESSES)])


def beside(name, r, **kw):
    """The same for the draft head of data/tiny/beside that has this name, beside the model of row r."""
    head, model = tiny_read_gemma.Assistant(File(os.path.join(DATA, "beside", name + ".gguf")), **kw), read(os.path.join(DATA, r["file"]))
    return np.concatenate([head.guesses(model, r["ids"][:at + GUESSES], GUESSES) for at in (1, r["n"] // 3, r["n"] - GUESSES)])


def golden_guesses(r):
    return np.fromfile(os.path.join(DATA, r["name"] + ".guess"), "<f4").astype(float).reshape(-1, r["V"])


def check(r):
    e, own = nmse(run(r), r["want"]), guesses(r)
    ahead = 0 if own is None else nmse(own, golden_guesses(r))
    ok = e < 1e-9 and ahead < 1e-9 and (r["greedy"] == "-" or greedy_holds(r))
    print("%-24s nmse %.1e %s%s%s" % (r["name"], e, "" if r["greedy"] == "-" else "greedy ",
                                      "" if own is None else "guesses %.1e " % ahead, "ok" if ok else "FAIL"))
    return ok


def check_rounding(r, **kw):
    got = run(r, **kw)
    each = kls(got, r["want"])
    print("%-24s nmse %.1e  kl %.1e, median %.1e" % (r["name"], nmse(got, r["want"]), each.mean(), np.median(each)))
    return True


def check_faults(r, seen):
    ok = True
    for fault in reader(File(os.path.join(DATA, r["file"]))).FAULTS:
        e = nmse(run(r, fault=fault), r["want"])
        if e < 1e-9:                    # this model has nothing to misread there
            continue
        seen.add(fault)
        loud = not e <= 30 * float(r["limit"])                  # not a number is loud
        print("%-24s %-22s nmse %.1e%s" % (r["name"], fault, e, "" if loud else "  TOO QUIET"))
        ok &= loud
    return ok & check_guess_faults(r)


def check_guess_faults(r):
    ok = True
    for fault in read(os.path.join(DATA, r["file"])).GUESS_FAULTS if guesses(r) is not None else ():
        e = nmse(guesses(r, fault=fault), golden_guesses(r))
        loud = not e <= 30 * 1e-6
        print("%-24s %-22s nmse %.1e%s" % (r["name"], fault, e, "" if loud else "  TOO QUIET"))
        ok &= loud
    return ok


def none_unseen(seen):
    """Whether each fault moves the logits of one model at least."""
    unseen = {fault for cls in [Model, *READERS.values()] for fault in cls.FAULTS} - seen
    for fault in sorted(unseen):
        print("no model has what this misreads: " + fault)
    return not unseen


def check_beside(name, r, faults):
    """A draft head in a file of its own."""
    want = np.fromfile(os.path.join(DATA, "beside", name + ".guess"), "<f4").astype(float).reshape(-1, r["V"])
    e = nmse(beside(name, r), want)
    print("%-24s guesses %.1e %s" % (name, e, "ok" if e < 1e-9 else "FAIL"))
    loud = [not nmse(beside(name, r, fault=f), want) <= 30 * 1e-6 or print("%s: TOO QUIET: %s" % (name, f)) for f in tiny_read_gemma.Assistant.GUESS_FAULTS
            if faults]
    return e < 1e-9 and all(loud)


BESIDE = {"gemma4-assistant": "gemma4", "gemma4-assistant_far": "gemma4_far"}      # heads in files of their own, and their models


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("-k", default="", metavar="NAME", help="only models whose name has this in it")
    for flag in ("--act8", "--kv16", "--faults"):
        a.add_argument(flag, action="store_true")
    a = a.parse_args()
    seen = set()
    each = (lambda r: check_faults(r, seen)) if a.faults else check                   # noqa: E731
    if a.act8 or a.kv16:
        each = lambda r: check_rounding(r, act8=a.act8, kv16=a.kv16)            # noqa: E731
    kinds = {"kl", "kl-median"} if a.act8 else {"nmse"} if a.faults else {"kl", "kl-median", "nmse"}
    results = [each(r) for r in manifest(a.k) if r["metric"] in kinds]
    if not (a.act8 or a.kv16):
        models = {r["name"]: r for r in manifest("")}
        results += [check_beside(name, models[of], a.faults) for name, of in BESIDE.items() if a.k in name]
    sys.exit(0 if results and all(results) and (a.k or not a.faults or none_unseen(seen)) else 1)


if __name__ == "__main__":
    main()
