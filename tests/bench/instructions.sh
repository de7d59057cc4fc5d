#!/bin/sh
# instructions.sh OWN PLUGIN [PEER] - instructions a weight and column of products on ARM with i8mm, under qemu-user with a plugin that counts
# them, as Markdown: 1024 x 512 weights times one column and 128. The difference of two runs and one: the start does not count.
count() { qemu-aarch64 -cpu max -plugin "$plugin" "$@" 2>&1 > /dev/null | awk '$1 == "instructions" { print $2 }'; }
own=$1 plugin=$2 peer=$3
echo '| weights | columns | llmrun | llama.cpp | ratio |'
echo '|---|---|---|---|---|'
for type in q4_K q6_K q4_0 q8_0; do
    for t in 1 128; do
        a=$(($(count "$own" $type 1024 512 $t 2 i8mm) - $(count "$own" $type 1024 512 $t 1 i8mm))) b=0
        [ -z "$peer" ] || b=$(($(count "$peer" $type 1024 512 $t 2) - $(count "$peer" $type 1024 512 $t 1)))
        awk -v type=$type -v t=$t -v a=$a -v b=$b 'BEGIN { n = 1024 * 512 * t; printf "| %s | %d | %.4f | %s | %s |\n", type, t, a / n, b ? sprintf("%.4f", b / n) : "", b ? sprintf("%.2f", a / b) : "" }'
    done
done
