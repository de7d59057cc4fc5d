# export.awk - C text in which other objects see what is static at file scope, so that a test may look inside and be compiled alone:
#     awk -v header=OUT.h -f tests/export.awk FILE > OUT.c
# OUT.c is FILE with its functions and data external. OUT.h is what others include: types, macros, functions without their bodies, data without
# values, no comments. A body may change and OUT.h stays the same, so what includes it need not be compiled again.
# Exported is what begins its line with "static", or with an attribute and "static"; words="static|OTHER": or with another word. What a macro
# writes stays static, and each object that uses it has its own. inlines=keep: inline functions stay static as well.
# FILE may be what single.awk prints with lines=1: compilers of OUT.c name the line of the source.

# A line without comments. in_comment: one goes on; in `bare` strings are empty.
function strip(s,    out, t) {
    for (out = bare = "";; s = substr(s, RSTART + RLENGTH)) {
        if (in_comment && !match(s, /\*\//)) break
        if (in_comment) { in_comment = 0; continue }
        if (!match(s, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) { out = out s; bare = bare s; break }
        t = substr(s, 1, RSTART - 1)
        out = out t
        bare = bare t
        t = substr(s, RSTART, RLENGTH)
        if (t == "//") break
        if (t == "/*") { in_comment = 1; continue }
        out = out t
        bare = bare "\"\""
    }
    sub(/[ \t]+$/, "", out)
    sub(/[ \t]+$/, "", bare)
    return out
}

# Whether the braces of a text without strings are balanced.
function balanced(s) { return gsub(/[{]/, "", s) == gsub(/[}]/, "", s) }

# --- data in a header ---

# Cuts s at each comma outside brackets, up to its semicolon: declarators in part[1 .. n], the values after their = in value[1 .. n].
function cut(s, part, value,    n, depth, t, to) {
    n = 1
    depth = to = 0
    part[n] = value[n] = ""
    while (match(s, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|[][(){},;=]/)) {
        t = substr(s, 1, RSTART - 1)
        if (to) value[n] = value[n] t
        else part[n] = part[n] t
        t = substr(s, RSTART, RLENGTH)
        s = substr(s, RSTART + RLENGTH)
        if (t ~ /^[[({]$/) depth++
        if (t ~ /^[])}]$/) depth--
        if (t == ";" && !depth) break
        if (t == "," && !depth) { n++; to = 0; part[n] = value[n] = "" }
        else if (t == "=" && !depth && !to) to = 1
        else if (to) value[n] = value[n] t
        else part[n] = part[n] t
    }
    return n
}

# A declarator: its name, and what stands before and after it.
function take(s) {
    before = name = ""
    if (match(s, /.*[}]/)) { before = substr(s, 1, RLENGTH); s = substr(s, RLENGTH + 1) }
    while (match(s, /[A-Za-z_][A-Za-z_0-9]*/) && substr(s, RSTART + RLENGTH) ~ /^[ \t\n]*[A-Za-z_(*]/) {
        before = before substr(s, 1, RSTART + RLENGTH - 1)
        s = substr(s, RSTART + RLENGTH)
    }
    before = before substr(s, 1, RSTART - 1)
    name = substr(s, RSTART, RLENGTH)
    behind = substr(s, RSTART + RLENGTH)
    gsub(/[ \t\n]+$/, "", behind)
}

# Declarations without values. The compiler counts the elements of an array whose value says how many there are.
function declare(s,    part, value, n, i, base, out) {
    n = cut(s, part, value)
    for (i = 1; i <= n; i++) {
        take(i > 1 ? base part[i] : part[i])
        if (i == 1) {                      # what all declarators share
            if (!match(before, /.*[}]/)) match(before, /^[^*(]*/)
            base = substr(before, 1, RLENGTH)
        }
        if (behind ~ /^\[\]/ && value[i] != "") {
            if (value[i] !~ /^[ \t\n]*[{]/) value[i] = "{" value[i] "}"
            out = out "extern __typeof__((" before behind ")" value[i] ") " name ";"
        } else if (i > 1 && base ~ /[}]/) { sub(/;$/, "," substr(before, length(base) + 1) name behind ";", out) }
        else out = out "extern " before name behind ";"
    }
    return out
}

# --- lines ---

function to_header(s) { if (header != "" && s !~ /^[ \t]*$/) print s > header }

BEGIN {
    if (words == "") words = "static"
    exported = "^(__attribute__\\(\\(.*\\)\\) )?(" words ") "
    if (header != "") print "#pragma once" > header
}

{ line = strip($0) }

/^#line / { print; next }

# Directives stand in both, wherever they are.
/^[ \t]*#/ || directive {
    directive = /\\$/
    print
    if (holding) held = held "\n" $0
    else to_header(line)
    next
}

# A declaration of data, up to its semicolon.
holding {
    print
    held = held "\n" line
    shape = shape bare
    if (bare ~ /;$/ && balanced(shape)) { holding = 0; to_header(declare(held)) }
    next
}

# The parameters of a function, up to its body or its semicolon; then the body, up to a brace at the beginning of a line.
heading {
    print
    if (bare ~ /[{]/) { skipping = !balanced(bare); sub(/ *[{].*/, ";", line) }
    if (bare ~ /[{;]/) heading = 0
    to_header(line)
    next
}
skipping {
    print
    if (/^[}]/) skipping = 0
    next
}

$0 ~ exported && !(inlines == "keep" && $0 ~ exported "inline ") {
    t = $0
    match(t, "(" words ") +")
    t = substr(t, 1, RSTART - 1) substr(t, RSTART + RLENGTH)
    match(line, "(" words ") +")
    line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
    shape = bare
    gsub(/__attribute__\(\([^{]*\)\) |_Alignas\([^)]*\)/, "", shape)
    sub("^(" words ") ", "", shape)
    if (shape ~ /^[^={;[]*[A-Za-z0-9_]\(/) {
        sub(/^inline /, "extern inline ", t)
        sub(/^inline /, "", line)
        heading = bare !~ /[{;]/
        skipping = bare ~ /[{]/ && !balanced(bare)
        sub(/ *[{].*/, ";", line)
        to_header(line)
    } else {
        held = line
        shape = bare
        holding = !(bare ~ /;$/ && balanced(bare))
        if (!holding) to_header(declare(held))
    }
    print t
    next
}

{ print; to_header(line) }

END { if (holding || skipping || heading) { print "export.awk: " FILENAME " ends inside a declaration" > "/dev/stderr"; exit 1 } }
