#!/usr/bin/env python3
"""A terminal session as a picture (SVG): the commands run for real, in a pseudo-terminal, and the picture is what a terminal shows at the end.

    python3 tests/gen/terminal.py -o tests/bench/plots/chat.svg --size 84x22 --title "llmrun" \\
        --show "llmrun -m SmolLM2-135M-Instruct.gguf" --type "What is the capital of France?" --type /bye -- ./llmrun -m FILE --temp 0

--show: the command as the picture has it. --type: a line that the person types, after the program has been quiet for a while; several.
Needs pyte (a terminal emulator; pip).
"""
import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from xml.sax.saxutils import escape

import pyte

WIDTH, HEIGHT, EDGE, BAR, FONT = 8.4, 18, 16, 30, 14                           # of a character; of the picture's margin, title and text; pixels
PAPER, INK, SOFT = "#0d1117", "#e6edf3", "#8b949e"
COLORS = {"black": "#484f58", "red": "#ff7b72", "green": "#3fb950", "brown": "#d29922", "yellow": "#d29922", "blue": "#58a6ff", "magenta": "#bc8cff",
          "cyan": "#39c5cf", "white": "#b1bac4"}


class Screen(pyte.Screen):
    """pyte knows no faint text (SGR 2): here it is text in the colour "faint"."""

    def select_graphic_rendition(self, *attrs, **kw):
        super().select_graphic_rendition(*attrs, **kw)
        for a in attrs:
            if a == 2:
                self.cursor.attrs = self.cursor.attrs._replace(fg="faint")
            elif a == 22 and self.cursor.attrs.fg == "faint":
                self.cursor.attrs = self.cursor.attrs._replace(fg="default")


def session(command, typed, columns, rows, quiet, first):
    """Runs the command in a terminal of this size; the screen at its end. `first` stands above, as a shell's line."""
    screen = Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    stream.feed(("\033[32m$\033[0m " + first + "\r\n").encode())
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = dict(os.environ, TERM="xterm-256color", COLUMNS=str(columns), LINES=str(rows))
    env.pop("NO_COLOR", None)
    run = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
    os.close(theirs)
    waiting, last = list(typed), time.monotonic()
    while run.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                got = os.read(ours, 65536)
            except OSError:
                break
            if not got:
                break
            stream.feed(got)
            last = time.monotonic()
        elif waiting and time.monotonic() - last > quiet:
            os.write(ours, waiting.pop(0).encode() + b"\r")
            last = time.monotonic()
    return screen, run.wait()


def runs(line, columns):
    """Neighbours of one look, as (column, text, look)."""
    out = []
    for x in range(columns):
        c = line[x]
        look = (c.fg, c.bold)
        if not c.data:                                                         # the second half of a wide character
            continue
        if out and out[-1][2] == look:
            out[-1][1] += c.data
        else:
            out.append([x, c.data, look])
    return [(x, text.rstrip() if i + 1 == len(out) else text, look) for i, (x, text, look) in enumerate(out) if text.strip()]


def colour(fg):
    if fg == "default":
        return INK
    if fg == "faint":
        return SOFT
    return COLORS.get(fg.replace("bright", ""), "#" + fg if len(fg) == 6 and all(c in "0123456789abcdef" for c in fg) else INK)


def picture(screen, title):
    """The screen down to its last line with text."""
    rows = max((y + 1 for y in range(screen.lines) if screen.display[y].strip()), default=1)
    w, h = 2 * EDGE + WIDTH * screen.columns, BAR + 2 * EDGE + HEIGHT * rows
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">' % (w, h, w, h),
           "<title>%s</title>" % escape(title),
           '<rect width="%g" height="%g" rx="8" fill="%s"/>' % (w, h, PAPER)]
    out += ['<circle cx="%d" cy="15" r="5" fill="%s"/>' % (18 + 18 * i, c) for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    out.append('<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="%d" xml:space="preserve">' % FONT)
    for y in range(rows):
        for x, text, (fg, bold) in runs(screen.buffer[y], screen.columns):
            indent = len(text) - len(text.lstrip())
            text = text.lstrip()
            out.append('<text x="%g" y="%g" textLength="%g" fill="%s"%s>%s</text>' % (
                EDGE + WIDTH * (x + indent), BAR + EDGE + HEIGHT * (y + 0.75), WIDTH * len(text.rstrip()), colour(fg),
                ' font-weight="bold"' if bold else "", escape(text.rstrip())))
    return "\n".join(out + ["</g>", "</svg>", ""])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--size", default="84x24", help="columns x rows (84x24)")
    p.add_argument("--title", default="a terminal")
    p.add_argument("--show", required=True)
    p.add_argument("--type", action="append", default=[])
    p.add_argument("--quiet", type=float, default=2.0, help="seconds without output before a line is typed (2)")
    p.add_argument("command", nargs="+")
    o = p.parse_args()
    columns, rows = (int(n) for n in o.size.split("x"))
    screen, rc = session(o.command, o.type, columns, rows, o.quiet, o.show)
    with open(o.output, "w", encoding="utf-8") as f:
        f.write(picture(screen, o.title))
    sys.exit(rc)


if __name__ == "__main__":
    main()
