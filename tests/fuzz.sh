#!/bin/sh
# fuzz.sh BUILD-FOLDER/NAME: the fuzzer NAME for FUZZ_SECONDS with FUZZ_SEED (0: any), from tests/corpus/NAME and what earlier runs have kept in BUILD-FOLDER/corpus-NAME.
# BUILD-FOLDER/NAME-* is what it found, NAME.log what it printed.
name=${1##*/} kept=${1%/*}/corpus-${1##*/}
mkdir -p "$kept"
if "$1" -max_total_time="$FUZZ_SECONDS" -seed="${FUZZ_SEED:-0}" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 -artifact_prefix="$1-" \
    "$kept" "tests/corpus/$name" > "$1.log" 2>&1; then
    echo "fuzz $name: 1 passed, 0 failed, in $(sed -n 's/.*executed_units: *//p' "$1.log") runs"
else
    tail -n 40 "$1.log"
    echo "fuzz $name: 0 passed, 1 failed"
    exit 1
fi
