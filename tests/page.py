"""The page of the server, src/page.c: what its policy lets run is what is in it, it is small, and it loads nothing from elsewhere.
    python3 tests/page.py src/page.c            holds the digests of the policy against script and style; --write puts them there
    python3 tests/page.py src/page.c --html     prints the page"""
import ast
import base64
import hashlib
import re
import sys

MOST = 30 * 1024                                      # bytes of the page


def literal(source, name):
    """The text of a string of the C source that is made of literals."""
    text = re.search(r"static const char %s\[\] =\n(.*?\");\n\n?" % name, source + "\n", re.S).group(1)
    return "".join(ast.literal_eval(line.strip()) for line in text.split("\n") if line.strip())


def digest(html, tag):
    text = re.search(r"<%s>(.*?)</%s>" % (tag, tag), html, re.S).group(1)
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def faults(source):
    html, fields = literal(source, "page_html"), literal(source, "page_fields")
    found = ["%s-src: found %s, expected %s" % (tag, re.search(tag + r"-src ([^;\r]*)", fields).group(1), digest(html, tag))
             for tag in ("script", "style") if "%s-src %s" % (tag, digest(html, tag)) not in fields]
    if len(html.encode()) > MOST:
        found.append("%d bytes, expected at most %d" % (len(html.encode()), MOST))
    if html.count("<script") != 1 or html.count("<style") != 1 or re.search(r"\son\w+=|style=", html):
        found.append("code or style outside of its element, which the policy does not let run")
    if re.search(r"https?://|//[a-z]|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", html):
        found.append("something from elsewhere, or text that becomes HTML")
    return found


def main():
    path = sys.argv[1]
    source = open(path, encoding="utf-8").read()
    if "--html" in sys.argv:
        print(literal(source, "page_html"), end="")
        return
    if "--write" in sys.argv:
        html = literal(source, "page_html")
        for tag in ("script", "style"):
            source = re.sub(r"%s-src 'sha256-[^']*'" % tag, "%s-src %s" % (tag, digest(html, tag)), source)
        open(path, "w", encoding="utf-8").write(source)
    found = faults(source)
    for fault in found:
        print("%s: %s" % (path, fault))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
