#!/bin/sh
# hardened.sh PROGRAM: whether it was built as the Makefile asks (HARDEN), one line for each thing that is missing.
program=$1 bad=0
what=$(readelf -hldsnW "$program" 2> /dev/null) || { echo "hardened: skipped, no readelf here"; exit 0; }

has() { # pattern, what is missing without it
    printf '%s\n' "$what" | grep -Eq -- "$1" || { echo "hardened: $program lacks $2"; bad=1; }
}

lacks() { # pattern, what the program has with it
    printf '%s\n' "$what" | grep -Eq -- "$1" && { echo "hardened: $program has $2"; bad=1; }
}

has 'Type: +DYN' 'a position that changes from run to run (PIE)'
has 'GNU_RELRO' 'tables that become read-only (RELRO)'
has 'BIND_NOW|Flags:.* NOW' 'addresses that are all found at the start (BIND_NOW)'
has 'GNU_STACK +([^ ]+ +){5}RW ' 'a stack that is not executable'
has '__stack_chk_fail' 'checked stack frames'
has '_chk(@|$| )' 'checked copies (FORTIFY)'
lacks '\((RPATH|RUNPATH)\)' 'folders of libraries of its own (RPATH, RUNPATH)'
lacks '\(NEEDED\).*/' 'a library by a path, not by its soname (NEEDED)'
lacks '\(TEXTREL\)|FLAGS\).*TEXTREL' 'addresses that are written into code (TEXTREL)'
lacks ' (LOAD|GNU_STACK) .* RWE ' 'memory that is both writable and executable'
case $(printf '%s\n' "$what" | grep Machine:) in
    *X86-64*)
        has 'x86 feature:.*IBT' 'marked targets of indirect calls (IBT)'
        has 'x86 feature:.*SHSTK' 'the mark for a shadow stack (SHSTK)' ;;
esac
exit $bad
