# sections.awk - the contents on the first page stay true.
#     awk -f tests/sections.awk llmrun.c ggml_kernels.h
# The first comment of a file lists its sections below a line that says SECTIONS, up to the next empty line:
#      *   [base] (die log err)  what it owns     <- k
# In brackets stand further prefixes of the section's functions; after the arrow, the sections it may use ("all": any above it).
# A .h file has sections without layers: only its list is held against its banners. One line per fault, exit 1 if any.

function fault(line, what) { printf "%s:%d: %s\n", file, line, what; bad = 1 }

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

# --- the list on the first page ---

function listed(s) {                       # every [name] opens an entry, which may go on over several lines
    while (match(s, /\[[a-z0-9_]+\]/)) {
        if (n_list) entry[list[n_list]] = entry[list[n_list]] substr(s, 1, RSTART - 1)
        list[++n_list] = substr(s, RSTART + 1, RLENGTH - 2)
        listed_at[list[n_list]] = FNR
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

# The function that a declaration without its body declares, "" when it declares something else.
function declares(h,    name) {
    gsub(/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)/, "", h)
    if (h ~ /=/ || h ~ /^ *typedef/ || !match(h, /[A-Za-z_][A-Za-z0-9_]* *\(/)) return ""
    if (substr(h, 1, RSTART - 1) !~ /[a-z]/ || substr(h, 1, RSTART - 1) ~ /[[{]/) return ""
    if (substr(h, RSTART + RLENGTH, 1) == "*") return ""
    name = substr(h, RSTART, RLENGTH - 1)
    sub(/ +$/, "", name)
    return name
}

function opened(    p, ok) {               # the first brace of something
    fn = declares(head)
    fn_at = head_at
    define(fn)
    for (p in prefix) if (prefix[p] == section && (fn == p || index(fn, p "_") == 1)) ok = 1
    if (fn != "" && !ok && layers && section != "") fault(fn_at, fn "() stands in [" section "] and does not carry its prefix")
    in_enum = head ~ /enum *[A-Za-z_0-9]* *$/
    body = ""
}

function shut(    i, n, part) {            # its last brace
    if (fn != "" && FNR - fn_at >= 80) printf "%s:%d: note: %s() has %d lines\n", file, fn_at, fn, FNR - fn_at + 1
    n = in_enum ? split(body, part, ",") : 0
    for (i = 1; i <= n; i++) if (match(part[i], /[A-Za-z_][A-Za-z0-9_]*/)) define(substr(part[i], RSTART, RLENGTH))
    head = fn != "" ? "" : head "{}"
    fn = ""
    in_enum = 0
}

function declared(    i, n, part) {        # a semicolon outside braces
    if (declares(head) != "") {
        if (layers && !noted) fault(FNR, declares(head) "() is announced before it exists, and the line does not say why")
    } else {
        gsub(/\[[^]]*\]|=.*|__attribute__/, "", head)
        if (match(head, /\(\* *[A-Za-z_0-9]+/)) head = substr(head, RSTART, RLENGTH)      # a pointer to a function
        while (gsub(/\([^()]*\)/, "", head)) { }                                        # parameters
        n = split(head, part, ",")
        for (i = 1; i <= n; i++) { sub(/ +$/, "", part[i]); if (match(part[i], /[A-Za-z_][A-Za-z0-9_]*$/)) define(substr(part[i], RSTART)) }
    }
    head = ""
}

function keep(s) {                         # text on its way into a declaration or an enum
    if (depth) { if (in_enum) body = body s; return }
    if (head ~ /^ *$/) { head = ""; head_at = FNR }
    head = head s
}

function walk(s,    c) {
    while (match(s, /[{};]/)) {
        c = substr(s, RSTART, 1)
        keep(substr(s, 1, RSTART - 1))
        s = substr(s, RSTART + 1)
        if (c == "{") { if (!depth++) opened() }
        else if (c == "}") { if (!--depth) shut() }
        else if (!depth) declared()
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
            fault(FNR, w " is a machine's name; those stay in ggml_kernels.h")
        if (w ~ /^[0-9]/ || gap ~ /(^|[^.])(\.|->) *$/) continue          # a number; a field of something
        r = w in owner ? owner[w] : w ~ /^[kK]_/ ? "k" : ""               # [k] is the header, whose names begin so
        if (r == "" || r == section || section == "") continue
        used[section, r] = 1
        if (w ~ /[a-z0-9]__/ && !told[w, FNR]++) fault(FNR, w " is private to [" r "], used in [" section "]")
        if (!((section, r) in may) && !(section in every) && !told[section, r]++)
            fault(FNR, "[" section "] uses " w " of [" r "], and its arrow does not lead there")
    }
}

function conditional(s,    n, i, part) {   # #if and its kin
    n = split(s, part, /[^A-Za-z_0-9]+/)
    for (i = 1; i <= n; i++)
        if (part[i] ~ /^[A-Za-z_]/ && part[i] !~ /^(if|ifdef|ifndef|elif|defined|LLMRUN_BLAS|LLMRUN_COMMIT|LLMRUN_NO_MAIN|_GNU_SOURCE)$/)
            fault(FNR, "#if on " part[i])
}

# --- a file ---

function begin() {
    file = FILENAME
    layers = file !~ /\.h$/
    first = 1
    quiet = depth = n_list = n_seen = listing = more = 0
    head = section = fn = in_enum = ""
    split("", entry); split("", prefix); split("", owner); split("", may); split("", every); split("", used)
}

function end(    i, j) {
    if (file == "") return
    if (!n_list) fault(1, "the first comment lists no sections")
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
}

FNR == 1 { end(); begin() }

first && /SECTIONS/   { listing = 1 }
first && /^ \*[ \t]*$/      { listing = 0 }
first && listing            { t = $0; sub(/^ \*/, "", t); sub(/.*(SECTIONS)|\*\//, "", t); listed(t) }
first && /\*\//             { first = 0; read_list() }
/^\/\* =====/ && !/^\/\* =====+ \[[a-z0-9_]+\]/ { fault(FNR, "a banner without a [name]") }
/^\/\* =====+ \[[a-z0-9_]+\]/ {
    match($0, /\[[a-z0-9_]+\]/)
    section = substr($0, RSTART + 1, RLENGTH - 2)
    seen[++n_seen] = section
    seen_at[n_seen] = FNR
}

{
    t = code($0)
    pre = more || t ~ /^[ \t]*#/
    if (!pre) walk(t)
    else if (!more && layers && t ~ /^[ \t]*# *(if|elif)/) conditional(t)
    else if (!more && match(t, /^[ \t]*# *define +[A-Za-z_0-9]+/)) { w = substr(t, 1, RLENGTH); sub(/.* /, "", w); define(w) }
    if (layers) uses(t)
    more = pre && $0 ~ /\\$/
}

END { end(); exit bad }
