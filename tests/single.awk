# single.awk - a root file with its sections in place of their #include lines, as one file:
#     awk -f tests/single.awk llmrun.c                      the program, kernels inside
#     awk -v lines=1 -f tests/single.awk ggml_kernels.h     compilers name the section's file and line
#     awk -v list=1 -f tests/single.awk llmrun.c            the names of the root and its sections; kernels=0: without the kernels
# Only a line #include "src/..." or #include "ggml_kernels.h" is replaced; kernels=0 leaves the latter.

function put(file, depth,    line, part, n) {
    if (list) print file
    else if (lines && depth) printf "#line 1 \"%s\"\n", file
    while ((n = (getline line < file)) > 0) {
        at[depth]++
        if (line ~ /^#include "(src\/|ggml_kernels)/ && !(kernels == "0" && line ~ /ggml_kernels/)) {
            split(line, part, "\"")
            at[depth + 1] = 0
            put(part[2], depth + 1)
            if (lines && !list) printf "#line %d \"%s\"\n", at[depth] + 1, file
        } else if (!list) print line
    }
    if (n < 0) { print "single.awk: cannot read " file > "/dev/stderr"; exit 1 }
    close(file)
}

BEGIN { put(ARGV[1], 0) }
