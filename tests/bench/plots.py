#!/usr/bin/env python3
"""Pictures of the stored measurements: tests/bench/plots/*.svg from tests/bench/results/*.csv. Standard library only.

    make plots                                   draw all, and write RESULTS.md
    python3 tests/bench/plots.py --check         exit 1 if a picture is not what the results give
    python3 tests/bench/plots.py --only types    draw some

Each picture shows the newest rows of its kind on each machine. The canvas is as wide as a README shows it, with a white background, so that it can be
read on dark pages too.
"""
import argparse, math, os, sys
from xml.sax.saxutils import escape

import results

FOLDER = os.path.join(results.HERE, "plots")
WIDTH = 840
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
INK, SOFT, GRID = "#1c2128", "#57606a", "#e1e4e8"
COLOR = {"llmrun": "#0969c8", "llama.cpp": "#e08600", "ik_llama.cpp": "#2f9e6e"}
PROGRAMS = list(COLOR)


# --- text and canvas ---

WIDE, NARROW = set("mwMW@%"), set("iljtfrI.,:;'|!()[] ")


def text_width(text, size):
    """Pixels, rather too many: the fonts differ from reader to reader."""
    return size * sum(0.95 if c in WIDE else 0.36 if c in NARROW else 0.72 if c.isupper() else 0.62 for c in text)


def place(x):
    """A coordinate: two digits, no zeros behind."""
    return ("%.2f" % x).rstrip("0").rstrip(".")


class Canvas:
    def __init__(self, height, title, subtitle):
        self.height, self.title, self.parts = height, title, []
        self.text(24, 34, title, 18, weight="bold")
        self.text(24, 56, subtitle, 13, fill=SOFT)

    def text(self, x, y, text, size=13, anchor="start", fill=INK, weight=None, turn=0):
        extra = (' font-weight="%s"' % weight if weight else "") + (' transform="rotate(%s %s %s)"' % (turn, place(x), place(y)) if turn else "")
        self.parts.append('<text x="%s" y="%s" font-size="%s" text-anchor="%s" fill="%s"%s>%s</text>' % (place(x), place(y), place(size), anchor, fill, extra, escape(text)))

    def line(self, x1, y1, x2, y2, color=GRID, width=1, dash=None):
        self.parts.append('<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"%s/>' % (
            place(x1), place(y1), place(x2), place(y2), color, place(width), ' stroke-dasharray="%s"' % dash if dash else ""))

    def rect(self, x, y, w, h, color, round=0):
        self.parts.append('<rect x="%s" y="%s" width="%s" height="%s" rx="%s" fill="%s"/>' % (place(x), place(y), place(w), place(h), place(round), color))

    def dot(self, x, y, r, fill, stroke="#ffffff", width=1.2):
        self.parts.append('<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="%s"/>' % (place(x), place(y), place(r), fill, stroke, place(width)))

    def path(self, points, color, width=2.4, dash=None):
        self.parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"%s/>' % (
            " ".join("%s,%s" % (place(x), place(y)) for x, y in points), color, place(width), ' stroke-dasharray="%s"' % dash if dash else ""))

    def caption(self, text):
        """The last lines, broken where they are too long."""
        lines, line = [], ""
        for word in text.split():
            if line and text_width(line + " " + word, 12) > WIDTH - 60:
                lines.append(line)
                line = word
            else:
                line = (line + " " + word).strip()
        for i, line in enumerate(lines + [line]):
            self.text(24, self.height - 16 - 17 * (len(lines) - i), line, 12, fill=SOFT)

    def legend(self, x, y, entries):
        """(word, color, hollow) side by side."""
        for word, color, hollow in entries:
            self.dot(x + 6, y - 4, 5.2, "#ffffff" if hollow else color, color, 2)
            self.text(x + 16, y, word, 13)
            x += 16 + text_width(word, 13) + 18

    def svg(self):
        head = '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="%s" role="img">' % (
            WIDTH, self.height, WIDTH, self.height, FONT)
        card = '<rect x="0.5" y="0.5" width="%d" height="%d" rx="8" fill="#ffffff" stroke="#d0d7de"/>' % (WIDTH - 1, self.height - 1)
        return "\n".join([head, "<title>%s</title>" % escape(self.title), card] + self.parts + ["</svg>"]) + "\n"


# --- scales ---

def nice_step(most, n):
    """A step of 1, 2 or 5 times a power of ten, of which about n make `most`."""
    raw = most / n
    power = 10.0 ** math.floor(math.log10(raw))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= raw * 0.999)


class Linear:
    """0 .. most on first .. last pixels; most is rounded up to a tick."""

    def __init__(self, most, first, last, n=5):
        step = nice_step(most, n)
        self.n = math.ceil(most / step - 1e-9)
        self.most, self.first, self.last = self.n * step, first, last
        self.ticks = [(i * step, "%g" % (i * step)) for i in range(self.n + 1)]

    def __call__(self, v):
        return self.first + (self.last - self.first) * v / self.most


class Log:
    """least .. most, base 2 or 10, on first .. last pixels; ticks are (value, word)."""

    def __init__(self, least, most, first, last, ticks):
        self.least, self.first, self.last, self.ticks = least, first, last, ticks
        self.span = math.log(most / least)

    def __call__(self, v):
        return self.first + (self.last - self.first) * math.log(v / self.least) / self.span


def y_axis(c, scale, left, right, label):
    for v, word in scale.ticks:
        c.line(left, scale(v), right, scale(v))
        c.text(left - 8, scale(v) + 4.5, word, 12.5, "end", SOFT)
    if label:
        c.text(left - 8, scale.last - 14, label, 12.5, "start" if left < 60 else "middle", SOFT)


def x_axis(c, scale, bottom, label):
    c.line(scale.first, bottom, scale.last, bottom, "#8c959f")
    for v, word in scale.ticks:
        c.line(scale(v), bottom, scale(v), bottom + 5, "#8c959f")
        c.text(scale(v), bottom + 20, word, 12.5, "middle", SOFT)
    c.text((scale.first + scale.last) / 2, bottom + 41, label, 13, "middle", SOFT)


def apart(wanted, gap):
    """Heights at least `gap` from each other, each as near to what it wants as a pass down and one up bring it."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    at = [wanted[i] for i in order]
    for _ in range(60):
        for i in range(len(at) - 1):
            short = gap - (at[i + 1] - at[i])
            if short > 1e-6:
                at[i] -= short / 2
                at[i + 1] += short / 2
    out = [0.0] * len(wanted)
    for i, y in zip(order, at):
        out[i] = y
    return out


# --- rows ---

def newest(rows, name, enough=lambda rows: True):
    """{machine: the rows of its newest set of that name}, a set being what one command or one sitting measured."""
    sets = {}
    for r in rows:
        if r["set"] == name:
            sets.setdefault((r["machine"], r["date"], r["commit"], r["model"]), []).append(r)
    found = {}
    for key, of in sets.items():                       # later rows of the file are newer
        if enough(of) and (key[0] not in found or key[1] >= found[key[0]][0]["date"]):
            found[key[0]] = of
    return found


def value(r, key):
    return float(r[key])


def describe(rows):
    """Machine, date, rounds, as a caption tells them."""
    r = rows[0]
    machine = {m["machine"]: m["description"] for m in results.read("machines")}.get(r["machine"], r["machine"])
    counts = sorted({x.get("rounds", "") for x in rows})
    words = {"1": "one round", "": "rounds not recorded"}
    rounds = "; ".join(words.get(n, "medians of %s rounds" % n) for n in counts if n or len(counts) == 1)
    return "%s. %s, commit %s, %s." % (machine.split(";")[0], r["date"], r["commit"], rounds)


def only(rows):
    """The pictures of one machine show the newest one."""
    return max(rows.values(), key=lambda of: of[0]["date"])


# --- pictures ---

TYPE_ORDER = ["BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4", "Q3_K_M", "IQ3_S", "IQ3_XXS", "Q2_K", "IQ2_XS", "IQ2_XXS"]


def types():
    """Bars for each type: prefill on the left, decode on the right, three programs."""
    chosen = newest(results.read("speed"), "types", lambda of: len({r["program"] for r in of}) > 1)
    rows = chosen.get("intel") or only(chosen)
    of = {(r["type"], r["test"][:2], r["program"]): value(r, "tokens_s") for r in rows}
    names = sorted({r["type"] for r in rows}, key=lambda t: TYPE_ORDER.index(t) if t in TYPE_ORDER else 99)
    programs = [p for p in PROGRAMS if any(r["program"] == p for r in rows)]
    tests = {r["test"][:2]: r["test"] for r in rows}
    bar, gap = 9, 9
    pitch = bar * len(programs) + gap
    top, height = 124, 124 + pitch * len(names) + 92
    c = Canvas(height, "Tokens per second by weight type", "%s. Longer is faster." % rows[0]["model"])
    c.legend(24, 84, [(p, COLOR[p], False) for p in programs])
    for test, left, right, what in (("pp", 92, 436, "prefill of %s tokens"), ("tg", 474, 794, "decode of %s tokens")):
        if test not in tests:
            continue
        scale = Linear(max(v for (_, t, _), v in of.items() if t == test), left, right)
        for v, word in scale.ticks:
            c.line(scale(v), top - 8, scale(v), height - 86)
            c.text(scale(v), height - 68, word, 12.5, "middle", SOFT)
        c.text(left, top - 16, (what % tests[test][2:]) + ", tokens/s", 13, weight="bold")
        for i, name in enumerate(names):
            y = top + i * pitch
            if test == "pp":
                c.text(left - 8, y + bar * len(programs) / 2 + 4.5, name, 13, "end")
            for k, p in enumerate(programs):
                v = of.get((name, test, p))
                if v is None:
                    continue
                c.rect(left, y + k * bar, scale(v) - left, bar - 1, COLOR[p], 1)
            own = of.get((name, test, "llmrun"))
            if own:
                c.text(scale(own) + 5, y + bar * 0.5 + 4, (("%.0f" if test == "pp" else "%.1f") % own), 11.5, fill=COLOR["llmrun"])
        c.line(left, top - 8, left, height - 86, "#8c959f")
    c.caption(describe(rows) + " ik_llama.cpp: the better of plain and -rtr 1.")
    return c.svg()


def curves(c, lines, x, y, right, ink=None):
    """Lines with dots and their names behind the last one, in the line's color or in `ink`."""
    ends = apart([y(points[-1][1]) for _, _, points in lines], 17)
    for (name, color, points), end in zip(lines, ends):
        c.path([(x(a), y(b)) for a, b in points], color)
        for a, b in points:
            c.dot(x(a), y(b), 4, color)
        c.text(right + 10, end + 4.5, name, 13, fill=ink or color, weight=None if ink else "bold")


def sequences():
    """Rate of all sequences together against how many there are, a panel for each machine."""
    chosen = newest(results.read("speed"), "sequences", lambda of: len({r["program"] for r in of}) > 1)
    machines = [m for m in ("intel", "zen4") if m in chosen] + sorted(set(chosen) - {"intel", "zen4"})
    c = Canvas(452, "Decoding many sequences side by side", "Tokens per second of all sequences together, Q4_K_M of 1.1 or 1.0 billion parameters.")
    most = max(value(r, "tokens_s") for m in machines for r in chosen[m])
    width = (WIDTH - 64) / len(machines)
    for i, m in enumerate(machines):
        rows, left = chosen[m], 64 + width * i
        right = left + width - 130
        y = Linear(most, 330, 110)
        counts = sorted({int(r["sequences"]) for r in rows})
        x = Log(1, max(counts), left, right, [(n, str(n)) for n in counts])
        y_axis(c, y, left, right, None)
        c.text(left, 92, {"intel": "Intel Xeon (AVX-512)", "zen4": "AMD EPYC (Zen 4)"}.get(m, m) + ", " + rows[0]["date"], 13, weight="bold")
        x_axis(c, x, 330, "sequences")
        curves(c, [(p, COLOR[p], sorted((int(r["sequences"]), value(r, "tokens_s")) for r in rows if r["program"] == p))
                   for p in PROGRAMS if any(r["program"] == p for r in rows)], x, y, right)
    c.caption(" ".join(describe(chosen[m]) for m in machines) + " llama.cpp by llama-batched-bench.")
    return c.svg()


def depth():
    """Decode rate against the tokens that the cache holds already."""
    rows = newest(results.read("speed"), "depth", lambda of: len({r["depth"] for r in of if r["test"].startswith("tg")}) > 2)
    if not rows:
        return None
    rows = [r for r in only(rows) if r["test"].startswith("tg")]
    c = Canvas(440, "Decode behind a long context", "Tokens per second of one sequence, %s %s." % (rows[0]["model"], rows[0]["type"]))
    left, right, bottom = 64, WIDTH - 140, 330
    deep = sorted({int(r["depth"]) for r in rows})
    y = Linear(max(value(r, "tokens_s") for r in rows), bottom, 100)
    x = Linear(max(deep), left, right, 8)
    x.most, x.ticks = max(deep), [(d, format(d, ",")) for d in deep if d in (0,) or d >= max(deep) / 8]
    y_axis(c, y, left, right, None)
    c.text(left, 84, "tokens/s", 13, fill=SOFT)
    x_axis(c, x, bottom, "tokens in the cache before the first new one")
    curves(c, [(p, COLOR[p], sorted((int(r["depth"]), value(r, "tokens_s")) for r in rows if r["program"] == p))
               for p in PROGRAMS if any(r["program"] == p for r in rows)], x, y, right)
    c.caption(describe(rows))
    return c.svg()


METHODS = [("llmrun", "calibrated", "llmrun, calibrated", "#0969c8", False), ("llmrun", "imatrix", "llmrun, importance matrix", "#6cb0f0", False),
           ("llmrun", "plain", "llmrun, plain", "#6cb0f0", True), ("llama.cpp", "imatrix", "llama.cpp, importance matrix", "#e08600", False),
           ("llama.cpp", "plain", "llama.cpp, plain", "#e08600", True)]


def free_left(word, at, dots, size):
    """Whether a word left of the place `at` hides no dot and no line between dots of one name."""
    x0, x1, y0, y1 = at[0] - 10 - text_width(word, size), at[0] - 6, at[1] - 10, at[1] + 10
    return all(not (x0 < p[0][0] < x1 and min(b for _, b in p) < y1 and max(b for _, b in p) > y0) for p in dots.values())


def name_dots(c, dots, named, bottom, size=12):
    """Names of dots ({name: [(x, y)]}, all dots of a name have one x). They hang slanted below the lowest dot, where a falling curve leaves room;
    where neighbours reach much lower, or the axis is near, a name stands left of its dot if that is free."""
    names = sorted(named, key=lambda k: dots[k][0][0])
    low = {k: max(dots[k], key=lambda p: p[1]) for k in names}
    hull = {k: max(low[j][1] for j in names if -26 < low[j][0] - low[k][0] < 14) for k in names}
    beside = {k for k in names if (hull[k] - low[k][1] > 30 or bottom - low[k][1] < 40) and free_left(k, low[k], dots, size)}
    for k in sorted(beside):
        c.text(low[k][0] - 9, low[k][1] + 4, k, size, "end")
    names = [k for k in names if k not in beside]
    for k, x in zip(names, apart([low[k][0] for k in names], size * 1.6)):
        top = max(low[j][1] for j in names if -26 < low[j][0] - low[k][0] < 14) + 9
        c.line(low[k][0], low[k][1] + 4, x, top, "#b6bec7", 1)
        c.text(x + 3, top + 9, k, size, "end", turn=-45)


def powers(least, most):
    return [(10.0 ** e, "%g" % 10.0 ** e) for e in range(-5, 2) if least <= 10.0 ** e <= most]


def files_panel(c, files, x, y, top, named):
    """A dot for each file of `files` ({type: (MiB, rows)}) inside a panel; the dots of a type joined, the types in `named` written below."""
    y_axis(c, y, x.first, x.last, None)
    x_axis(c, x, y.first, "file size, MiB (F16: 10.6)")
    c.text(x.first, top, "mean KL divergence from F16, nats", 13, fill=SOFT)
    at = {k: [(x(mib), y(value(r, "kld"))) for r in rows] for k, (mib, rows) in files.items()}
    for points in at.values():
        c.line(points[0][0], min(p[1] for p in points), points[0][0], max(p[1] for p in points), "#b6bec7", 1.2)
    name_dots(c, at, named, y.first)
    for program, method, _, color, hollow in METHODS[::-1]:
        for k, (mib, rows) in files.items():
            for r in rows:
                if (r["program"], r["method"]) == (program, method):
                    c.dot(x(mib), y(value(r, "kld")), 4.4, "#ffffff" if hollow else color, color if hollow else "#ffffff", 1.7 if hollow else 0.9)


def quality():
    """Size against divergence: all types, and below the middle sizes alone, where most files lie close together."""
    rows = only(newest(results.read("quality"), "quality"))
    rows = [r for r in rows if value(r, "kld") > 5e-5]
    files = {}
    for r in rows:
        files.setdefault(r["type"], (value(r, "mib"), []))[1].append(r)
    least, most = 2.55, 4.5                             # MiB of the lower panel
    middle = {k: f for k, f in files.items() if least < f[0] < most}
    c = Canvas(910, "What a weight type costs: file size against KL divergence",
               "%s, judged on held-out text. Lower is nearer to the F16 model, further left is smaller." % rows[0]["model"])
    c.legend(24, 84, [(w, color, hollow) for _, _, w, color, hollow in METHODS[:3]])
    c.legend(24, 106, [(w, color, hollow) for _, _, w, color, hollow in METHODS[3:]])
    left, right = 78, WIDTH - 28
    x = Log(1.25, 6, left, right, [(v, "%g" % v) for v in (1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5)])
    y = Log(1e-4, 12, 440, 150, powers(1e-4, 12))
    c.rect(x(least), 146, x(most) - x(least), 294, "#f2f6fb")
    c.text(x(most) - 8, 166, "enlarged below", 12.5, "end", SOFT)
    files_panel(c, files, x, y, 138, [k for k in files if k not in middle])
    x = Log(least, most, left, right, [(v / 10, "%g" % (v / 10)) for v in range(26, 46, 2)])
    y = Log(2e-4, 0.022, 812, 520, powers(2e-4, 0.022))
    c.rect(left, 520, right - left, 292, "#f2f6fb")
    files_panel(c, middle, x, y, 510, list(middle))
    c.caption("Model of 5.5 million parameters, %s, commit %s; all files, llama.cpp's too, judged by llmrun on some 40,000 tokens." % (rows[0]["date"], rows[0]["commit"]))
    return c.svg()


def acceptance():
    """Speed-up against how often a guess is right, a line for each number of guesses a step."""
    rows = only(newest(results.read("acceptance"), "acceptance"))
    c = Canvas(440, "Speculative decoding: what a draft must reach", "Speed-up over plain decoding, %s %s, steps of the draft model counted." % (rows[0]["model"], rows[0]["type"]))
    left, right, bottom = 64, WIDTH - 150, 340
    shades = ["#9ecbff", "#62a8f0", "#2b83dd", "#0a5cb0", "#0b3d78"]
    counts = sorted({int(r["guesses"]) for r in rows})
    y = Linear(max(value(r, "speedup") for r in rows), bottom, 100, 7)
    x = Linear(100, left, right, 10)
    x.ticks = [(v, "%g %%" % v) for v, _ in x.ticks if v % 20 == 0]
    y.ticks = [(v, word + "x") for v, word in y.ticks]
    y_axis(c, y, left, right, None)
    c.text(left, 84, "speed-up", 13, fill=SOFT)
    x_axis(c, x, bottom, "chance that a guess is right if those before it are")
    c.line(left, y(1), right, y(1), "#57606a", 1.4, "5 4")
    c.text(right - 8, y(1) + 16, "plain decoding", 12.5, "end", fill=SOFT)
    curves(c, [("%d guess%s a step" % (k, "es" if k > 1 else ""), shades[min(i, 4)], sorted((value(r, "acceptance"), value(r, "speedup")) for r in rows if int(r["guesses"]) == k))
               for i, k in enumerate(counts)], x, y, right, INK)
    c.caption(describe(rows) + " llmrun --bench --draft-max 1-16*2 --acceptance 0,50,70,80,90,100 -md DRAFT repeats it.")
    return c.svg()


PICTURES = {"types": types, "sequences": sequences, "depth": depth, "quality": quality, "acceptance": acceptance}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only", default=",".join(PICTURES), help="names with commas between (all)")
    ap.add_argument("--check", action="store_true", help="compare, write nothing")
    ap.add_argument("-o", default=FOLDER, help="folder of the pictures")
    o = ap.parse_args()
    stale = 0
    os.makedirs(o.o, exist_ok=True)
    for name in o.only.split(","):
        picture, path = PICTURES[name](), os.path.join(o.o, name + ".svg")
        if picture is None:
            print("plots.py: %s: no rows to draw yet" % name, file=sys.stderr)
            continue
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if o.check and old != picture:
            print("%s: not what tests/bench/results/ gives (make plots refreshes it)" % path)
            stale = 1
        elif not o.check:
            with open(path, "w", encoding="utf-8") as f:
                f.write(picture)
    return stale


if __name__ == "__main__":
    sys.exit(main())
