# sections.awk - the contents on the first page stay true.
#     awk -f tests/sections.awk llmrun.c ggml_kernels.h
# The first comment of a file lists its sections below a line that says SECTIONS, up to the next empty line:
#      *   [base] (die log err)  what it owns     <- k
# In brackets stand further prefixes of the section's functions; after the arrow, the sections it may use ("all": any above it).
# A banner ends with what other sections may use, up to the end of its comment:
#      * Public: kv_new, kv_free, kv_rows.        functions (all of them), and other names of the section; words without its prefix are text
#      * Opens: kv_opts, kv_cache.opts. */        structs whose fields, or the fields, that other sections may use
# A field that only structs of other sections have is used by mistake where none of these structs opens it.
# A .h file has sections without layers: its list is held against its banners, and the names after Public: must exist.
# A section is a file that the root includes, #include "src/kv.c", in the order of the list, or a part of the root itself.
# And what a reader relies on: no line over 130 columns, a sentence above each public function, no two functions that one underscore tells apart.
# One line per fault, FILE:LINE: what is wrong, exit 1 if any. Functions of more than 80 lines are listed.
# summary=1: a last line counts the sections and the arrows that the text has, those that lead upward, and sections on a circle of arrows.

function fault(where, what) { printf "%s: %s\n", where, what; bad = 1 }

function here() { return FILENAME ":" FNR }

# One line without its comments, strings emptied. noted: there was a comment on it.
function code(s,    out, t) {
    noted = quiet
    for (out = "";; s = substr(s, RSTART + RLENGTH)) {
        if (quiet && !match(s, /\*\//)) return out
        if (quiet) { quiet = 0; continue }
        if (!match(s, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) return out s
        t = substr(s, RSTART, RLENGTH)
        out = out substr(s, 1, RSTART - 1) (t ~ /^\// ? " " : "\"\"")
        if (t ~ /^\//) noted = 1
        if (t == "//") return out
        quiet = t == "/*"
    }
}

# --- what a reader relies on ---

BEGIN { wide = length("\303\251") }         # 2 where awk counts bytes, and a character is as many columns as it has bytes without 10xxxxxx

function columns(s) {
    if (wide == 2) gsub("[\200-\277]", "", s)
    return length(s)
}

# Notes what comment stands on the lines right above the next one; bare: the line without comments. A directive keeps it.
function comment_line(s, bare) {
    if (columns(s) > 130) fault(here(), "a line of " columns(s) " columns, of at most 130")
    if (s ~ /^[ \t]*#/) return
    if (bare !~ /^[ \t]*$/ || !noted) { above = ""; return }
    above = above " " s
}

# Whether the comment above is a sentence: a few words and a stop. A heading or a banner is none.
function sentence(s) { return s !~ /\/\* *(---|===)/ && s ~ /[A-Za-z0-9_"')\]] +[^ *]+ +[^ *]/ && s ~ /[.!?][)"]?[ \t]*\*\/ *$/ }

# A function that others may use, whose text or declaration begins after the comment `said`. Functions of one line each that
# follow each other share the sentence of the first.
function explained(fn, where, said,    ok) {
    ok = fn == "main" || sentence(said) || where == shares
    if (!ok) fault(where, fn "() is public, and no sentence stands above it")
    shares = ok && where == here() ? FILENAME ":" FNR + 1 : ""
}

# Two functions of a file of which one is the other with an underscore less.
function alike(    fn, other) {
    for (fn in defined_at) {
        other = fn
        if (sub(/__/, "_", other) && (other in defined_at)) fault(defined_at[fn], fn "() differs from " other "() by one underscore")
    }
}

# A line of a banner between Public: and Opens:, of which a * would say less than it seems to.
function names_only(s) {
    if (s ~ /Public:/) in_public = 1
    if (in_public && match(s, /[A-Za-z0-9_]+_\*[^\/]/) && s !~ /Opens:.*_\*/) fault(here(), "the banner lists " substr(s, RSTART, RLENGTH - 1) ": names only")
    if (s ~ /Opens:|\*\//) in_public = 0
}

# --- the list on the first page ---

function listed(s) {                       # every [name] opens an entry, which may go on over several lines
    while (match(s, /\[[a-z0-9_]+\]/)) {
        if (n_list) entry[list[n_list]] = entry[list[n_list]] substr(s, 1, RSTART - 1)
        list[++n_list] = substr(s, RSTART + 1, RLENGTH - 2)
        listed_at[list[n_list]] = here()
        s = substr(s, RSTART + RLENGTH)
    }
    if (n_list) entry[list[n_list]] = entry[list[n_list]] s " "
}

function own_prefix(p, r) {
    if (p in prefix) fault(listed_at[r], "[" r "] and [" prefix[p] "] both own the prefix " p "_")
    prefix[p] = r
}

function read_list(    i, j, n, r, part, w) {
    for (i = 1; i <= n_list; i++) {
        r = list[i]
        own_prefix(r, r)
        if (match(entry[r], /^ *\([^)]*\)/)) {
            n = split(substr(entry[r], RSTART, RLENGTH), part, /[ ()]+/)
            for (j = 1; j <= n; j++) if (part[j] != "") own_prefix(part[j], r)
        }
        if (!match(entry[r], /<-/)) continue
        n = split(substr(entry[r], RSTART + 2), w, /[ .*\/]+/)
        for (j = 1; j <= n; j++) {
            if (w[j] == "all") every[r] = 1
            else if (w[j] in prefix && prefix[w[j]] == w[j]) may[r, w[j]] = 1
            else if (w[j] != "") fault(listed_at[r], "[" r "]'s arrow leads to " w[j] ", which is not a section above it")
        }
    }
}

# --- definitions at file scope ---

function define(w) { if (w != "" && section != "") owner[w] = section }

function owned(w,    p) {                  # whether the name carries a prefix of the section
    for (p in prefix) if (prefix[p] == section && (w == p || index(w, p "_") == 1)) return 1
    return 0
}

# The function that a declaration without its body declares, "" when it declares something else.
function declares(h,    name) {
    gsub(/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)/, "", h)
    if (match(h, /^ *K_CUDA_(KERNEL|WIDE)\([A-Za-z0-9_]+\)/)) {
        name = substr(h, 1, RLENGTH - 1)
        sub(/.*\(/, "", name)
        return name
    }
    if (h ~ /=/ || h ~ /^ *typedef/ || !match(h, /[A-Za-z_][A-Za-z0-9_]* *\(/)) return ""
    if (substr(h, 1, RSTART - 1) !~ /[a-z]/ || substr(h, 1, RSTART - 1) ~ /[[{]/) return ""
    if (substr(h, RSTART + RLENGTH, 1) == "*") return ""
    name = substr(h, RSTART, RLENGTH - 1)
    sub(/ +$/, "", name)
    return name
}

function opened() {                        # the first brace of something
    fn = declares(head)
    fn_at = head_at
    fn_line = head_line
    define(fn)
    if (fn != "") { defined_at[fn] = fn_at; is_function[fn] = 1 }
    if (fn != "" && fn !~ /__/ && layers && section != "") explained(fn, fn_at, head_above)
    if (fn != "" && !owned(fn) && layers && section != "") fault(fn_at, fn "() stands in [" section "] and does not carry its prefix")
    if (fn != "" && fn !~ /__/) public_at[section, fn] = fn_at
    in_enum = head ~ /enum *[A-Za-z_0-9]* *$/
    if (in_struct) {                       # what follows is the initialiser of a struct without a name: the variable names it
        tag = head
        sub(/.*[{][}] */, "", tag)
        sub(/ *[=\[].*/, "", tag)
        fields(tag)
    }
    in_struct = head ~ /(struct|union) *[A-Za-z_0-9]* *$/
    tag = ""
    if (in_struct && match(head, /(struct|union) +[A-Za-z_0-9]+ *$/)) { tag = substr(head, RSTART); gsub(/^[a-z]+ +| +$/, "", tag) }
    body = ""
}

# Every name that the declarations of a struct's body end with.
function fields(type,    i, j, n, m, part, name, d) {
    n = split(body, part, ";")
    for (i = 1; i <= n; i++) {
        d = part[i]
        gsub(/\[[^]]*\]|: *[0-9]+/, "", d)
        if (match(d, /\(\* *[A-Za-z_0-9]+/)) d = substr(d, RSTART, RLENGTH)             # a pointer to a function
        m = split(d, name, ",")
        for (j = 1; j <= m; j++)
            if (match(name[j], /[A-Za-z_][A-Za-z0-9_]* *$/)) { d = substr(name[j], RSTART); sub(/ +$/, "", d); add_field(d, type) }
    }
    in_struct = 0
}

function add_field(name, type) {
    if (type == "") type = "a struct without a name in [" section "]"
    gsub(/ /, "_", type)
    if (!((name, type) in has)) with[name] = with[name] " " type
    has[name, type] = 1
    fields_of[type] = section
    if (!layers) opens[type] = 1
}

function shut(    i, n, part) {            # its last brace
    if (fn != "" && FNR - fn_line >= 80) printf "%s: note: %s() has %d lines\n", fn_at, fn, FNR - fn_line + 1
    n = in_enum ? split(body, part, ",") : 0
    for (i = 1; i <= n; i++) if (match(part[i], /[A-Za-z_][A-Za-z0-9_]*/)) define(substr(part[i], RSTART, RLENGTH))
    head = fn != "" ? "" : head "{}"
    fn = ""
    in_enum = 0
}

function declared(    i, n, part) {        # a semicolon outside braces
    if (declares(head) != "") {
        if (!layers && head ~ /K_PUBLIC/) explained(declares(head), head_at, head_above)
        if (layers && !noted) fault(here(), declares(head) "() is announced before it exists, and the line does not say why")
    } else {
        gsub(/\[[^]]*\]|=.*|__attribute__/, "", head)
        if (match(head, /\(\* *[A-Za-z_0-9]+/)) head = substr(head, RSTART, RLENGTH)      # a pointer to a function
        while (gsub(/\([^()]*\)/, "", head)) { }                                        # parameters
        n = split(head, part, ",")
        for (i = 1; i <= n; i++) { sub(/ +$/, "", part[i]); if (match(part[i], /[A-Za-z_][A-Za-z0-9_]*$/)) define(substr(part[i], RSTART)) }
        sub(/ +$/, "", part[1])
        if (in_struct && match(part[1], /[A-Za-z_][A-Za-z0-9_]*$/)) tag = substr(part[1], RSTART)      # what the type is called
    }
    if (in_struct) fields(tag)
    head = ""
}

function keep(s) {                         # text on its way into a declaration or an enum
    if (depth) { if (in_enum || in_struct) body = body s; return }
    if (head ~ /^ *$/) { head = ""; head_at = here(); head_line = FNR; head_above = above }
    head = head s
}

function walk(s,    c, chunk) {
    while (match(s, /[{};]/)) {
        c = substr(s, RSTART, 1)
        chunk = substr(s, 1, RSTART - 1)
        keep(chunk)
        s = substr(s, RSTART + 1)
        if (c == "{") { if (!depth++) opened(); else if (fn != "" && chunk ~ /struct *[A-Za-z_0-9]* *$/) { in_struct = depth; body = "" } }
        else if (c == "}") { if (!--depth) shut(); else if (fn != "" && in_struct > depth) fields("") }
        else if (!depth) declared()
        if (depth && in_struct) keep(";")
    }
    keep(s " ")
}

# --- the names a line uses ---

function uses(s,    w, gap, r) {
    while (match(s, /[A-Za-z0-9_]+/)) {
        w = substr(s, RSTART, RLENGTH)
        gap = substr(s, 1, RSTART - 1)
        s = substr(s, RSTART + RLENGTH)
        if (w ~ /^(_mm|__m[0-9]|__builtin_(ia32|cpu)|__(AVX|SSE|FMA|F16C|ARM)|immintrin|arm_neon)/)
            fault(here(), w " is a machine's name; those stay in ggml_kernels.h")
        if (w ~ /^[0-9]/) continue
        if (gap ~ /(^|[^.])(\.|->) *$/) { use_field(w); continue }
        r = w in owner ? owner[w] : w ~ /^[kK]_/ ? "k" : ""               # [k] is the header, whose names begin so
        if (r == "" && s ~ /^ *\(/ && !((section, w) in called)) called[section, w] = here()
        if (r == "" || r == section || section == "") continue
        used[section, r] = elsewhere[w] = 1
        if (w ~ /[a-z0-9]__/ && !told[w, here()]++) fault(here(), w " is private to [" r "], used in [" section "]")
        if (!((section, r) in may) && !(section in every) && !told[section, r]++)
            fault(here(), "[" section "] uses " w " of [" r "], and its arrow does not lead there")
    }
}

function use_field(w,    i, n, part, type) {
    n = split(with[w], part, " ")
    for (i = 1; i <= n; i++) {
        type = part[i]
        if (fields_of[type] == section || (type in opens) || ((type "." w) in opens)) return
    }
    if (n && section != "" && !told[section, w]++) fault(here(), "[" section "] uses the field " w ", which no section opens:" with[w])
}

# --- what a banner says that others may use ---

function banner(s,    n, i, w, kind, p) {
    gsub(/Public:/, " %public ", s)
    gsub(/Opens:/, " %opens ", s)
    gsub(/[A-Za-z0-9_]+_\*[^\/]/, " ", s)              # names_only() has refused it
    n = split(s, w, /[^A-Za-z0-9_.%]+/)
    for (i = 1; i <= n; i++) {
        sub(/\.+$/, "", w[i])
        if (w[i] ~ /^%/) kind = w[i]
        else if (kind == "%opens" && w[i] ~ /[a-z]/) { opens[w[i]] = here(); opened_by[w[i]] = section }
        else if (section == "k") continue
        else if (kind == "%public" && layers && owned(w[i])) listed_name[section, w[i]] = here()
        else if (kind == "%public" && !layers && w[i] ~ /^k_/) { sub(/\..*/, "", w[i]); listed_name[section, w[i]] = here() }
    }
}

function banners_hold(    i, n, p) {
    for (i in listed_name) {
        split(i, p, SUBSEP)
        if (!(p[2] in owner)) fault(listed_name[i], "[" p[1] "]'s banner lists " p[2] ", which is not there")
    }
    for (i in opened_by) {
        n = split(i, p, ".")
        if (fields_of[p[1]] != opened_by[i] || (n > 1 && !((p[2], p[1]) in has))) fault(opens[i], "[" opened_by[i] "]'s banner opens " i ", which is not there")
    }
    for (i in public_at) {
        split(i, p, SUBSEP)
        if (!(i in listed_name)) fault(public_at[i], p[2] "() is public by its name, and the banner of [" p[1] "] does not list it")
        else if (!(p[2] in elsewhere) && p[2] != "main") fault(public_at[i], p[2] "() is public by its name, and no other section uses it")
    }
}

function conditional(s,    n, i, part) {   # #if and its kin
    n = split(s, part, /[^A-Za-z_0-9]+/)
    for (i = 1; i <= n; i++)
        if (part[i] ~ /^[A-Za-z_]/ && part[i] !~ /^(if|ifdef|ifndef|elif|defined|LLMRUN_BLAS|LLMRUN_EDIT|LLMRUN_HUB|LLMRUN_CUDA|LLMRUN_SANDBOX|LLMRUN_STRESS|LLMRUN_NO_MAIN|_GNU_SOURCE|__APPLE__)$/)
            fault(here(), "#if on " part[i])
}

# --- a file ---

# The files are read one after the other: roots, each before its sections. Headers come first: their structs are open to everybody.
BEGIN {
    n_roots = ARGC - 1
    for (i = 1; i <= n_roots; i++) root[i] = ARGV[i]
    if (n_roots == 2 && root[2] ~ /\.h$/) { t = root[1]; root[1] = root[2]; root[2] = t }
    for (i = ARGC = 1; i <= n_roots; i++) {
        ARGV[ARGC++] = root[i]
        folder = root[i]
        if (!sub(/[^\/]*$/, "", folder)) folder = ""
        while ((getline t < root[i]) > 0) {
            if (t !~ /^#include "src\// || t ~ /"src\/darwin\.h"/) continue     # no section: it stands for headers of a system
            split(t, part, "\"")
            if (!((folder part[2]) in is_section)) is_section[ARGV[ARGC++] = folder part[2]] = 1      # some are included once for each width
        }
        close(root[i])
    }
}

function begin() {
    file = FILENAME
    layers = file !~ /\.h$/
    first = 1
    quiet = depth = n_list = n_seen = listing = more = 0
    head = section = fn = in_enum = ""
    split("", entry); split("", prefix); split("", owner); split("", may); split("", every); split("", used)
    split("", public_at); split("", listed_name); split("", elsewhere);
    split("", defined_at); split("", is_function); split("", called)
    above = ""
    in_struct = in_public = 0
}

function end(    i, j) {
    if (file == "") return
    if (!n_list) fault(file ":1", "the first comment lists no sections")
    for (i = 1; i <= n_list || i <= n_seen; i++)
        if (list[i] != seen[i] || i > n_list || i > n_seen) {
            fault(i <= n_seen ? seen_at[i] : listed_at[list[i]], "number " i " is " (i <= n_list ? "[" list[i] "]" : "nothing") \
                  " in the contents, " (i <= n_seen ? "[" seen[i] "]" : "nothing") " among the banners")
            break
        }
    for (i = 1; i <= n_list && layers; i++)
        for (j = 1; j <= n_list; j++)
            if ((list[i], list[j]) in may && !((list[i], list[j]) in used))
                fault(listed_at[list[i]], "[" list[i] "]'s arrow leads to [" list[j] "], which it does not use")
    alike()
    if (!layers) { counts = counts "; " file ": " n_seen " sections"; return }
    banners_hold()
    count_arrows()
}

# Arrows are what the sections use, as the text says. A function that is called above its section makes one that leads upward.
function count_arrows(    i, p, at, n, up, circle, left, again, inner) {
    for (i = 1; i <= n_seen; i++) at[seen[i]] = i
    for (i in called) {
        split(i, p, SUBSEP)
        if (!(p[2] in is_function) || owner[p[2]] == p[1] || !(p[1] in at)) continue
        used[p[1], owner[p[2]]] = 1
        fault(called[i], "[" p[1] "] uses " p[2] " of [" owner[p[2]] "], which stands above it")
    }
    for (i in used) { split(i, p, SUBSEP); n++; up += at[p[2]] >= at[p[1]] }
    for (i = 1; i <= n_seen; i++) left[seen[i]] = 1
    do {                                   # sections that use nothing which is left are on no circle
        again = 0
        split("", inner)
        for (i in used) { split(i, p, SUBSEP); if ((p[1] in left) && (p[2] in left)) inner[p[1]] = 1 }
        for (i in left) if (!(i in inner)) { delete left[i]; again = 1 }
    } while (again)
    for (i in left) circle++
    counts = file ": " n_seen " sections, " n " arrows, " up + 0 " upward, " circle + 0 " on a circle" counts
}

FNR == 1 && !(FILENAME in is_section) { end(); begin() }
FNR == 1 && FILENAME in is_section {
    section = ""                           # its banner names it
    if (depth || quiet || more) fault(here(), "the section before it ends inside a declaration or a comment")
}

first && /SECTIONS/   { listing = 1 }
first && /^ \*[ \t]*$/      { listing = 0 }
first && listing            { t = $0; sub(/^ \*/, "", t); sub(/.*(SECTIONS)|\*\//, "", t); listed(t) }
first && /\*\//             { first = 0; read_list() }
/^\/\* =====/ && !/^\/\* =====+ \[[a-z0-9_]+\]/ { fault(here(), "a banner without a [name]") }
/^\/\* =====+ \[[a-z0-9_]+\]/ {
    match($0, /\[[a-z0-9_]+\]/)
    section = substr($0, RSTART + 1, RLENGTH - 2)
    seen[++n_seen] = section
    seen_at[n_seen] = here()
    if (FILENAME in is_section && (FNR > 1 || FILENAME !~ "/" section "\\.[ch]$")) fault(here(), "a section is a file of its name and begins with its banner")
    in_banner = 1
    banner_text = ""
}
in_banner {
    names_only($0)
    banner_text = banner_text " " $0
    if (/\*\//) { banner(banner_text); in_banner = 0 }
}

{
    t = code($0)
    pre = more || t ~ /^[ \t]*#/
    if (!pre) walk(t)
    else if (!more && layers && t ~ /^[ \t]*# *(if|elif)/) conditional(t)
    else if (!more && match(t, /^[ \t]*# *define +[A-Za-z_0-9]+/)) { w = substr(t, 1, RLENGTH); sub(/.* /, "", w); define(w) }
    if (layers) uses(t)
    comment_line($0, t)
    more = pre && $0 ~ /\\$/
}

END { end(); if (summary) print counts; exit bad }
