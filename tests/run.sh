#!/bin/sh
# run.sh BINARY BUILD-FOLDER: every suite, then one line that counts them all.
bin=$1 build=$2 log=$2/log.txt
: > "$log"
status=0

suite() { # name, command...
    name=$1
    shift
    "$@" > "$build/suite.txt" 2>&1 || { status=1; echo "$name failed:"; }
    cat "$build/suite.txt"
    tail -n 1 "$build/suite.txt" >> "$log"
}

suite kernels "$build/kernel_tests"
suite unit "$build/tests"
suite corpus "$build/replay"
if command -v "${PYTHON:-python3}" > /dev/null; then
    suite cli "${PYTHON:-python3}" tests/cli.py "$bin"
    suite batch "${PYTHON:-python3}" tests/batch.py "$bin"
    suite spec "${PYTHON:-python3}" tests/spec.py "$bin"
    suite hostile "${PYTHON:-python3}" tests/hostile.py "$bin" ${LLMRUN_SLOW:+--no-limit}
    [ -n "${LLMRUN_SLOW:-}" ] || suite inflate "${PYTHON:-python3}" tests/inflate.py "$bin"
    [ -n "${LLMRUN_SLOW:-}" ] || suite world "${PYTHON:-python3}" models/train/test_world.py
    [ -n "${LLMRUN_SLOW:-}" ] || suite export "${PYTHON:-python3}" models/train/test_export.py
fi

# every suite ends with "NAME: N passed, N failed[, N skipped]"; a suite that died has another last line
awk -v status=$status '
    match($0, /[0-9]+ passed/)  { p += substr($0, RSTART) + 0; good++ }
    match($0, /[0-9]+ failed/)  { f += substr($0, RSTART) + 0 }
    match($0, /[0-9]+ skipped/) { s += substr($0, RSTART) + 0 }
    END {
        f += NR - good
        if (status && !f) f = 1
        printf "%d passed, %d failed, %d skipped\n", p, f, s
        exit f > 0
    }' "$log"
