#!/bin/sh
# cross.sh NATIVE FOREIGN: the same story from a program for another processor, run by an emulator, as from this machine's.
ask='-m models/pip-q4_k_m.gguf --raw -p Once -n 24 --temp 0 -q -t 1'
want=$($1 $ask < /dev/null) && got=$($2 $ask < /dev/null) && [ -n "$want" ] && [ "$want" = "$got" ] && {
    echo "cross: 1 passed, 0 failed"
    exit 0
}
printf 'here:  %s\nthere: %s\n' "$want" "$got"
echo "cross: 0 passed, 1 failed"
exit 1
