#!/bin/sh
# run.sh BINARY BUILD-FOLDER [STRESS-BINARY]: every suite, three at a time, then one line that counts them all; with a program built for
# stress the suites that it is for; with FUZZERS, a list of names, these and the suites that read hostile files.
# BUILD-FOLDER/log/NAME.txt (log-stress) keeps what each suite prints, NAME.cpu its CPU time.
bin=$1 build=$2 stress=${3:-} log=$2/log${3:+-stress} py=${PYTHON:-python3}
rm -rf "$log"
mkdir -p "$log"

suite() { # name, command...
    name=$1
    shift
    (
        rc=0
        "$@" > "$log/$name.txt" 2>&1 || rc=1
        times > "$log/$name.cpu"                        # of this subshell, then of what it ran: user, system
        exit $rc
    ) || { echo "$name" >> "$log/failed"; echo "$name failed:"; }
    flock "$log" cat "$log/$name.txt"
}

python_suite() { # name, script, argument...
    name=$1
    shift
    ! command -v "$py" > /dev/null || suite "$name" "$py" "$@"
}

# Unit tests under LLMRUN_STRESS: of sections whose tests ask for it (t_stress).
# The suites, one command a line, roughly the longest first.
stress_suites() {
    cat << 'END'
python_suite batch tests/batch.py "$stress" ^invariance
suite unit env LLMRUN_STRESS=1 "$build/tests" engine eval fwd gen sched store
python_suite spec tests/spec.py "$stress"
suite unit-all env LLMRUN_ALL=1 "$build/tests" fwd
python_suite batch-same tests/batch.py "$bin" --stress "$stress" invariance
python_suite structure tests/structure.py "$bin" one_text --stress "$stress"
python_suite hard-all tests/hard.py "$bin" --all alone together
python_suite spec-all tests/spec.py "$bin" --all chi_square
python_suite spec-same tests/spec.py "$bin" --stress "$stress" kept
python_suite failures-all tests/failures.py "$bin" "$build/disturb.so" --step "${FAILURES:-7}"
python_suite power-all tests/power.py "$bin" "$build/disturb.so" --trials 20
suite kernels-all env LLMRUN_ALL=1 "$build/kernel_tests" "float exp"
END
}

attack_suites() {
    cat << 'END'
suite unit "$build/tests"
python_suite hostile tests/hostile.py "$bin" --no-limit
suite corpus "$build/replay"
END
    for f in $FUZZERS; do echo "suite fuzz-$f sh tests/fuzz.sh $build/$f"; done
}

suites() {
    cat << 'END'
python_suite batch tests/batch.py "$bin"
python_suite spec tests/spec.py "$bin"
suite unit "$build/tests"
python_suite hostile tests/hostile.py "$bin" ${LLMRUN_SLOW:+--no-limit}
python_suite cli tests/cli.py "$bin"
python_suite cuda tests/cuda.py "$build/fake"
python_suite answers tests/answers.py "$bin" --answers "${ANSWERS:-1000}"
suite kernels "$build/kernel_tests"
python_suite chat tests/chat.py "$bin"
python_suite structure tests/structure.py "$bin"
python_suite hard tests/hard.py "$bin"
python_suite talk tests/talk.py "$bin"
python_suite serve tests/serve.py "$bin"
python_suite serve_raw tests/serve_raw.py "$bin"
python_suite embed tests/embed.py "$bin"
python_suite hub tests/hub.py "$bin"
python_suite import tests/import.py "$bin"
python_suite lora tests/lora.py "$bin"
python_suite rule tests/rule.py "$build/judge" --tokens 150000
suite corpus "$build/replay"
END
    [ -n "${LLMRUN_SLOW:-}" ] || cat << 'END'
python_suite failures tests/failures.py "$bin" "$build/disturb.so"
python_suite power tests/power.py "$bin" "$build/disturb.so"
python_suite remote tests/remote.py "$bin" "$build/remote"
python_suite values tests/values.py "$bin"
python_suite inflate tests/inflate.py "$bin"
python_suite fidelity tests/bench/fidelity.py --self-test --llmrun "$bin"
python_suite world models/train/test_world.py
python_suite export models/train/test_export.py
END
}

# Prints the first line of a file and removes it; several lanes take lines in turn.
take() {
    flock "$log" sh -c 'head -n 1 "$0"; sed -i 1d "$0"' "$1"
}

lane() {
    while line=$(take "$todo") && [ -n "$line" ]; do eval "$line"; done
}

# Some suites wait for programs more than they compute: three lanes keep two CPUs busy.
todo=$log/todo
if [ -n "$stress" ]; then stress_suites; elif [ -n "${FUZZERS:-}" ]; then attack_suites; else suites; fi > "$todo"
lane & lane & lane &
wait

awk -F '[ms ]' 'FNR == 2 { sub(/.*\//, "", FILENAME); sub(/\.cpu/, "", FILENAME); printf "%s%s %.1f", n++ ? ", " : "CPU seconds: ", FILENAME, 60 * ($1 + $4) + $2 + $5 }
    END { print "" }' "$log"/*.cpu

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
