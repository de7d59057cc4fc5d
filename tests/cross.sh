#!/bin/sh
# cross.sh NATIVE EMULATOR FOLDER: programs for another processor, in FOLDER, run by an emulator. Its kernels give the same bits at every
# level of a processor with smmla and of one without, and the same story comes out as from this machine's program.
passed=0 failed=0
check() { # what, command...
    what=$1
    shift
    if out=$("$@" 2>&1 < /dev/null); then passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$what" "$out"
    fi
}
story="-m models/pip-q4_k_m.gguf --raw -p Once -n 24 --temp 0 -q -t 1"
same() {
    want=$($1 $story) && got=$($2 $story) && [ -n "$want" ] && [ "$want" = "$got" ] && return
    printf 'here:  %s\nthere: %s\n' "$want" "$got"
    return 1
}
check "levels, with smmla" $2 -cpu max "$3/levels" scalar neon i8mm
check "levels, without" $2 -cpu cortex-a76 "$3/levels" scalar neon
check "story" same "$1" "$2 -cpu max $3/llmrun"
check "story at the scalar level" same "$1" "$2 -cpu cortex-a53 $3/llmrun"
check "level names" sh -c "$2 -cpu cortex-a76 $3/llmrun --list cpu | grep -q 'neon'"
echo "cross: $passed passed, $failed failed"
[ $failed = 0 ]
