#!/bin/sh
# run.sh BINARY BUILD-FOLDER [STRESS-BINARY]: every suite, two at a time, then one line that counts them all; with a program built for
# stress the suites that it is for. BUILD-FOLDER/log/NAME.txt keeps what each suite prints.
bin=$1 build=$2 stress=${3:-} log=$2/log py=${PYTHON:-python3}
rm -rf "$log"
mkdir -p "$log"

suite() { # name, command...
    name=$1
    shift
    "$@" > "$log/$name.txt" 2>&1 || { echo "$name" >> "$log/failed"; echo "$name failed:"; }
    flock "$log" cat "$log/$name.txt"
}

python_suite() { # name, script, argument...
    name=$1
    shift
    ! command -v "$py" > /dev/null || suite "$name" "$py" "$@"
}

stress_lanes() {
    {
        suite unit env LLMRUN_STRESS=1 "$build/tests"
        suite unit-all env LLMRUN_ALL=1 "$build/tests" fwd
        suite kernels-all env LLMRUN_ALL=1 "$build/kernel_tests" "float exp"
        python_suite spec-all tests/spec.py "$bin" --all chi_square
        python_suite batch-same tests/batch.py "$bin" --stress "$stress" invariance
        python_suite spec-same tests/spec.py "$bin" --stress "$stress" kept
    } &
    {
        python_suite batch tests/batch.py "$stress"
        python_suite spec tests/spec.py "$stress"
    } &
}

# Two lanes that take about the same time.
lanes() {
    {
        suite unit "$build/tests"
        python_suite cli tests/cli.py "$bin"
        python_suite hostile tests/hostile.py "$bin" ${LLMRUN_SLOW:+--no-limit}
        [ -n "${LLMRUN_SLOW:-}" ] || python_suite inflate tests/inflate.py "$bin"
        [ -n "${LLMRUN_SLOW:-}" ] || python_suite world models/train/test_world.py
        [ -n "${LLMRUN_SLOW:-}" ] || python_suite remote tests/remote.py "$bin" "$build/remote"
    } &
    {
        suite kernels "$build/kernel_tests"
        suite corpus "$build/replay"
        python_suite spec tests/spec.py "$bin"
        python_suite batch tests/batch.py "$bin"
        [ -n "${LLMRUN_SLOW:-}" ] || python_suite export models/train/test_export.py
    } &
}

if [ -n "$stress" ]; then stress_lanes; else lanes; fi
wait

# every suite ends with "NAME: N passed, N failed[, N skipped]"; a suite that died has another last line
for f in "$log"/*.txt; do tail -n 1 "$f"; done | awk -v failed="$(cat "$log/failed" 2> /dev/null)" '
    match($0, /[0-9]+ passed/)  { p += substr($0, RSTART) + 0; good++ }
    match($0, /[0-9]+ failed/)  { f += substr($0, RSTART) + 0 }
    match($0, /[0-9]+ skipped/) { s += substr($0, RSTART) + 0 }
    END {
        f += NR - good
        if (failed != "" && !f) f = 1
        printf "%d passed, %d failed, %d skipped\n", p, f, s
        exit f > 0
    }'
