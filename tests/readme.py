#!/usr/bin/env python3
"""The README holds what the program prints, and the repository holds what it should.

    tests/readme.py ./llmrun README.md            exit 1 and one line per fault
    tests/readme.py ./llmrun README.md --write    put the program's words into the README

A block of the README that stands between `<!-- BEGIN llmrun --list types -->` and `<!-- END -->`, each on a line of its own,
is the stdout of that command, a run of llmrun or of make; a fence (```) just inside the markers stays outside the comparison.
A block of `<!-- BEGIN console -->` holds commands, each behind `$ `, and what each writes to stdout below it; they run in one shell, in an empty folder
beside which `models` lies. Options are not listed here: --help and the man page have them.
Beside that: no file names an absolute path of somebody's machine, and the top of the repository holds the expected files and no others.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

TOP = {"llmrun.c", "ggml_kernels.h", "Makefile", "README.md", "LICENSE", "src", "tests", ".ci", ".clang-format", ".gitignore", ".git-blame-ignore-revs"}
TOP_MAY = {"models", ".github", ".gitattributes"}
BEGIN, END = re.compile(r"<!-- BEGIN (.+?) -->"), "<!-- END -->"
# A path as it stands in text: not the tail of a longer path, of a URL or of a variable.
ABSOLUTE = re.compile(rb"(?<![\w.~/})-])/(?:work|root|home)(?:/[\w.-]+|(?![\w.-]))")


def commands(lines):
    """The commands of a console block, each with the lines it is continued on: a line that ends within quotes or with a backslash."""
    out = []
    for line in lines:
        if out and open_ended(out[-1]):
            out[-1] += "\n" + line
        elif line.startswith("$ "):
            out.append(line[2:])
    return out


def open_ended(text):
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return text.endswith("\\")


def replay(binary, lines):
    """A console block as its commands make it."""
    mark = "llmrun-readme-mark"
    script = "".join("%s\nprintf '%%s' %s\n" % (c, mark) for c in commands(lines))
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models"), os.path.join(folder, "models"))
        os.mkdir(os.path.join(folder, "bin"))
        os.symlink(binary, os.path.join(folder, "bin", "llmrun"))
        env = {k: v for k, v in os.environ.items() if k != "LLMRUN_MODEL"}
        env["PATH"] = os.path.join(folder, "bin") + ":" + env.get("PATH", "/usr/bin:/bin")
        run = subprocess.run(["sh", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    parts = run.stdout.decode("utf-8", "replace").split(mark)
    if len(parts) != len(commands(lines)) + 1:
        raise ValueError("the shell ended early: %s" % run.stderr.decode("utf-8", "replace").strip()[-300:])
    out = []
    for command, text in zip(commands(lines), parts):
        out += ("$ " + command).split("\n") + (text.rstrip("\n").split("\n") if text.strip("\n") else [])
    return out


def printed(binary, command):
    """What a command of the README prints; the program's name stands for the binary under test."""
    words = shlex.split(command)
    if not words or words[0] not in ("llmrun", "make"):
        raise ValueError("a block holds a run of llmrun or make")
    if words[0] == "llmrun":
        words[0] = binary
    run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if run.returncode:
        raise ValueError("exit %d: %s" % (run.returncode, run.stderr.decode("utf-8", "replace").strip()))
    return run.stdout.decode("utf-8").rstrip("\n").split("\n")


def first_difference(have, want, at):
    for i, (a, b) in enumerate(zip(have + [None] * len(want), want + [None] * len(have))):
        if a != b:
            said = [repr(line) if line is not None else "nothing more" for line in (a, b)]
            return at + i, "has %s, the program prints %s" % tuple(said)
    return None


def blocks(lines, binary, fault):
    """The README's lines with every block as the program prints it; tells where it differed."""
    out, i, n = [], 0, 0
    while i < len(lines):
        out.append(lines[i])
        begin = BEGIN.fullmatch(lines[i].strip())
        i += 1
        if not begin:
            if lines[i - 1].strip() == END:
                fault(i, "END without a BEGIN")
            continue
        n += 1
        start = end = i
        while end < len(lines) and lines[end].strip() != END:
            if BEGIN.fullmatch(lines[end].strip()):
                break
            end += 1
        if end == len(lines) or lines[end].strip() != END:
            fault(i, "BEGIN %s without an END" % begin.group(1))
            continue
        have = lines[start:end]
        fenced = len(have) >= 2 and have[0].startswith("```") and have[-1].strip() == "```"
        head, tail = (have[:1], have[-1:]) if fenced else ([], [])
        try:
            inside = have[1:-1] if fenced else have
            want = replay(binary, inside) if begin.group(1) == "console" else printed(binary, begin.group(1))
        except (ValueError, OSError, subprocess.TimeoutExpired) as why:
            fault(i, "%s: %s" % (begin.group(1), why))
            want = have[1:-1] if fenced else have
        differs = first_difference(have[1:-1] if fenced else have, want, start + 1 + len(head))
        if differs:
            fault(differs[0], "%s: %s (--write refreshes it)" % (begin.group(1), differs[1]))
        out += head + want + tail
        i = end
        out.append(lines[i])
        i += 1
    return out, n


def files(root):
    """Files that are tracked or would be, None outside a repository."""
    git = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        run = subprocess.run(git, capture_output=True, timeout=60)
    except OSError:
        return None
    return sorted(set(run.stdout.decode().split("\0")) - {""}) if run.returncode == 0 else None


def look_around(root, names, say):
    for name in names:
        path = os.path.join(root, name)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open(path, "rb") as f:
            text = f.read()
        for m in ABSOLUTE.finditer(text):
            say("%s:%d: an absolute path: %s" % (name, text.count(b"\n", 0, m.start()) + 1, m.group().decode()))
    top = {name.split("/")[0] for name in names if os.path.lexists(os.path.join(root, name))}
    for name in sorted(top - TOP - TOP_MAY):
        say("%s: not among the files that the top of the repository holds" % name)
    for name in sorted(TOP - top):
        say("%s: missing at the top of the repository" % name)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("binary")
    ap.add_argument("readme")
    ap.add_argument("--write", action="store_true", help="put what the program prints into the README")
    o = ap.parse_args()
    faults = []

    with open(o.readme, encoding="utf-8", newline="") as f:
        old = f.read()
    stale = []
    new, n = blocks(old.split("\n"), os.path.abspath(o.binary),
                    lambda line, what: stale.append("%s:%d: %s" % (o.readme, line, what)))
    new = "\n".join(new)
    if o.write:
        if new != old:
            with open(o.readme, "w", encoding="utf-8", newline="") as f:
                f.write(new)
        stale = [s for s in stale if "--write" not in s]
    if n == 0:
        stale.append("%s:1: no block of the program's own words" % o.readme)
    faults += stale

    root = os.path.dirname(os.path.abspath(o.readme))
    names = files(root)
    if names is None:
        print("readme.py: not a git repository, its files are not looked at", file=sys.stderr)
    else:
        look_around(root, names, faults.append)
    for line in faults:
        print(line)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
