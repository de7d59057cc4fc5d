#!/bin/sh
# debian.sh SUITE [MIRROR]: builds with gcc and clang of another Debian, each warning an error, in a minimal system that debootstrap
# installs to build/debian-SUITE, and holds the text of both programs against this machine's ./llmrun. gcc's build is the README's first
# command: as root, without sudo and with empty package lists. clang's has no optimisation, for its warnings. Needs root.
suite=$1 mirror=${2:-http://deb.debian.org/debian} root=build/debian-$1
need=gcc,clang,make,gawk,libc6-dev,libpcre2-dev
ask='-m models/pip-q4_k_m.gguf --raw -p Once -n 24 --temp 0 -q'
passed=0 failed=0

check() { # name, command...
    name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "debian $suite: $name failed"; fi
}

same() { inside "./llmrun --version" && [ "$(inside "./llmrun $ask")" = "$(./llmrun $ask < /dev/null)" ]; }

first() { # the README's first command
    cp /etc/resolv.conf "$root/etc/" && inside "export WERROR=-Werror && rm -rf /var/lib/apt/lists/* && $(sed -n '/^## Two commands/,${/^```sh$/{n;p;q}}' README.md)" > "$root.log" 2>&1 \
        || { tail -n 20 "$root.log"; return 1; }
}

clang() { inside "make -s clean && make -s -j2 CC=clang CFLAGS=-O0 WERROR=-Werror"; }

inside() { chroot "$root" sh -c "cd /llmrun && $1" < /dev/null; }

if [ ! -e "$root/installed" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include="$need" "$suite" "$root" "$mirror" > "$root.log" 2>&1 || { tail -n 5 "$root.log"; exit 1; }
    : > "$root/installed"
fi
rm -rf "$root/llmrun"
mkdir "$root/llmrun"
cp -r llmrun.c ggml_kernels.h Makefile models src tests "$root/llmrun/"
check "the README's first command, with gcc" first
check "gcc's text" same
check clang clang
check "clang's text" same
echo "debian $suite: $passed passed, $failed failed"
[ "$failed" = 0 ]
