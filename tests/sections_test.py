#!/usr/bin/env python3
"""sections.awk finds each kind of fault in a small program, and none in that program itself.

    python3 tests/sections_test.py            exit 1 and one line for each fault that is not found
"""
import os, subprocess, sys, tempfile

AWK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sections.awk")
HEADER = """/* k.h
 * SECTIONS  [fmt] blocks
 */
/* ===== [fmt] blocks =====
 * Public: k_size. */
typedef struct { int bits; } k_type;
/* The bytes of a block. */
K_PUBLIC int k_size(int n);
K_PUBLIC int k_size(int n) { return n; }
static int k__bits(int n) { return n * 8; }
"""
PROGRAM = """/* small.c
 *
 * SECTIONS, lowest layer first.
 *   [k]     the header
 *   [base]  (str) texts
 *   [kv]    cache    <- k base
 *   [cli]   (main)   <- all
 */
/* ===== [k] =====
 * Public: k_size. */
#include "k.h"

/* ===== [base] texts =====
 * Public: str_add, str_get_last.
 * Opens: str. */
typedef struct { char *p; int n; } str;
/* Appends a character; there is room for it. */
static void str_add(str *s, int c) { s->p[s->n++] = (char)c; }

/* The character that
 * was added last. */
static int str_get_last(const str *s) { return s->p[s->n - 1]; }

/* ===== [kv] cache =====
 * Public: kv_cache, kv_open, kv_list.
 * Opens: kv_cache.used, kv_list. */
typedef struct kv_cache {
    int used, blocks[4];
    struct { int depth; } tree;
    void (*evict)(int block);
} kv_cache;
static const struct { const char *label; } kv_list[] = {{"a"}};
static int kv__find(const kv_cache *c) { return c->blocks[0] + c->tree.depth; }
/* Opens nothing. Returns what is there. */
__attribute__((unused))
static int kv_open(kv_cache *c, str *s, k_type *t) {
    struct { int here; } local = {t->bits};
    str_add(s, 1);
    c->evict(kv__find(c));
    return str_get_last(s) + k_size(local.here);
}

/* ===== [cli] main =====
 * Public: main. */
static int cli__run(kv_cache *c, str *s) {
    k_type t = {.bits = s->n};
    return kv_open(c, s, &t) + c->used + kv_list[0].label[0];
}
int main(void) { return cli__run(0, 0); }
"""
FAULTS = (                                            # what is replaced, by what, words of the message
    ("[kv]    cache    <-", "[kw]    cache    <-", "number 3 is [kw] in the contents, [kv] among the banners"),
    ("<- k base", "<- k", "[kv] uses str of [base], and its arrow does not lead there"),
    ("(str) texts", "(str) texts <- k", "[base]'s arrow leads to [k], which it does not use"),
    ("kv_open(c, s, &t) +", "kv_open(c, s, &t) + kv__find(c) +", "kv__find is private to [kv], used in [cli]"),
    ("Public: str_add, str_get_last.", "Public: str_get_last.", "str_add() is public by its name, and the banner of [base] does not list it"),
    ("Public: str_add, ", "Public: str_add, str_drop, ", "[base]'s banner lists str_drop, which is not there"),
    ("str_get_last.\n", "str_get_*.\n", "small.c:14: the banner lists str_get_*: names only"),
    ("str_get_last.\n", "str_get_last,\n * str_*.\n", "small.c:15: the banner lists str_*: names only"),
    ("/* Appends a character; there is room for it. */\n", "", "str_add() is public, and no sentence stands above it"),
    ("/* Appends a character; there is room for it. */\n", "/* Appends a character; there is room for it. */\n\n", "str_add() is public, and no sentence stands above it"),
    ("/* Appends a character; there is room for it. */\n", "/* --- to append a character. --- */\n", "str_add() is public, and no sentence stands above it"),
    ("/* Appends a character; there is room for it. */\n", "/* Appends. */\n", "str_add() is public, and no sentence stands above it"),
    ("was added last. */", "was added last */", "str_get_last() is public, and no sentence stands above it"),
    ("static int kv__find", "static int kv__open(void) { return 0; }\nstatic int kv__find", "kv__open() differs from kv_open() by one underscore"),
    ("return str_get_last(s) +", "return str_get_last(s) +" + " " * 100, "a line of 148 columns, of at most 130"),
    ("static int kv__find", "static int kv__early(void) { return cli__run(0, 0); }\nstatic int kv__find", "[kv] uses cli__run of [cli], which stands above it"),
    ("return kv_open(c, s, &t) +", "return", "kv_open() is public by its name, and no other section uses it"),
    ("c->used +", "c->blocks[0] +", "[cli] uses the field blocks, which no section opens: kv_cache"),
    ("c->used +", "c->tree.used +", "[cli] uses the field tree, which no section opens: kv_cache"),
    ("c->used +", "(c->evict(0), 1) +", "[cli] uses the field evict, which no section opens: kv_cache"),
    (", kv_list. */", ". */", "[cli] uses the field label, which no section opens: kv_list"),
    ("Opens: str. */", "*/", "uses the field n, which no section opens: str"),
    ("kv_cache.used,", "kv_cache.unused,", "[kv]'s banner opens kv_cache.unused, which is not there"),
    ("Opens: str. */", "Opens: str, bytes. */", "[base]'s banner opens bytes, which is not there"),
    ("static void str_add", "static void text_add(void) {}\nstatic void str_add", "text_add() stands in [base] and does not carry its prefix"),
    ("static void str_add", "static int str__later(void);\nstatic void str_add", "str__later() is announced before it exists"),
    ("str_add(s, 1);", "str_add(s, _mm_popcnt_u32(1));", "_mm_popcnt_u32 is a machine's name"),
    ("#include", "#if __AVX2__\n#endif\n#include", "#if on __AVX2__"),
    ("str_add(s, 1);", "str_add(s, 1);\n" * 80, "note: kv_open() has 8"),
)

# [kv] in a file of its own: what is replaced there, by what, words of the message.
IN_FILE = (
    ("", "", ""),
    ("/* ===== [kv] cache", "\n/* ===== [kv] cache", "src/kv.c:2: a section is a file of its name and begins with its banner"),
    ("str_add(s, 1);", "str_add(s, _mm_popcnt_u32(1));", "src/kv.c:15: _mm_popcnt_u32 is a machine's name"),
    ("return str_get_last(s) + k_size(local.here);\n}", "return str_get_last(s) + k_size(local.here);", "the section before it ends inside a declaration"),
)


# The same in the header.
IN_HEADER = (
    ("static int k__bits", "static int k__size", "k__size() differs from k_size() by one underscore"),
    ("static int k__bits(int n)", "K_CUDA_KERNEL(k__size)(int n)", "k__size() differs from k_size() by one underscore"),
    ("/* The bytes of a block. */\n", "", "k_size() is public, and no sentence stands above it"),
    ("k_size. */", "k_*. */", "k.h:5: the banner lists k_*: names only"),
    ("The bytes of a block.", "The bytes of a block; " + "é" * 101 + ".", ""),
    ("The bytes of a block.", "The bytes of a block; " + "é" * 102 + ".", "k.h:7: a line of 131 columns, of at most 130"),
)
SUMMARY = "small.c: 4 sections, 5 arrows, 0 upward, 0 on a circle; k.h: 1 sections\n"


def said(program, folder, header=HEADER, options=()):
    """The exit code and the lines of sections.awk."""
    paths = [os.path.join(folder, name) for name in ("small.c", "k.h")]
    for path, text in zip(paths, (program, header)):
        with open(path, "w") as f:
            f.write(text)
    r = subprocess.run(["awk", *options, "-f", AWK, *paths], capture_output=True, text=True)
    return r.returncode, r.stdout + r.stderr


def cut(folder, old, new):
    """PROGRAM with [kv] as src/kv.c; returns the root."""
    start, end = PROGRAM.index("/* ===== [kv]"), PROGRAM.index("/* ===== [cli]")
    os.makedirs(os.path.join(folder, "src"), exist_ok=True)
    with open(os.path.join(folder, "src", "kv.c"), "w") as f:
        f.write(PROGRAM[start:end].replace(old, new, 1))
    with open(os.path.join(folder, "src", "cli.c"), "w") as f:
        f.write(PROGRAM[end:])
    return PROGRAM[:start] + '#include "src/kv.c"\n#include "src/cli.c"\n'


def faults(folder):
    if said(PROGRAM, folder) != (0, ""):
        yield "the program without a fault: %s" % said(PROGRAM, folder)[1]
    for old, new, message in FAULTS:
        code, text = said(PROGRAM.replace(old, new, 1), folder)
        if PROGRAM.count(old) < 1:
            yield "not in the program: %s" % old
        elif message not in text or (not message and text) or code != bool(message and "note: " not in message):
            yield "%r for %r: expected %r, found exit %d, %r" % (new[:60], old, message, code, text)
    for old, new, message in IN_HEADER:
        code, text = said(PROGRAM, folder, HEADER.replace(old, new, 1))
        if HEADER.count(old) < 1 or message not in text or code != bool(message) or (not message and text):
            yield "%r for %r in the header: expected %r, found exit %d, %r" % (new[:60], old, message, code, text)
    code, text = said(PROGRAM, folder, options=("-v", "summary=1"))
    if (code, "".join(text.split(folder + "/"))) != (0, SUMMARY):
        yield "the summary: found exit %d, %r" % (code, text)
    up = PROGRAM.replace("static int kv__find", "static int cli__run(kv_cache *c, str *s);   /* below */\nstatic int kv__up(void) { return cli__run(0, 0); }\nstatic int kv__find")
    text = said(up, folder, options=("-v", "summary=1"))[1]
    if "6 arrows, 1 upward, 2 on a circle" not in text:
        yield "an arrow upward: found %r" % text
    for old, new, message in IN_FILE:
        code, text = said(cut(folder, old, new), folder)
        if message not in text or code != bool(message) or (not message and text):
            yield "%r for %r in a section's file: expected %r, found exit %d, %r" % (new[:60], old, message, code, text)


def main():
    with tempfile.TemporaryDirectory(prefix="llmrun-sections-") as folder:
        wrong = list(faults(folder))
    for w in wrong:
        print("sections_test.py: " + w)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
