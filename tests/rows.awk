# The program with more rows in its tables, for tests:  awk -f tests/rows.awk tests/invented.rows FILE
# In the file of rows, "@ LINE" is a line of the program; the lines below it are added after that line.
# FILE is what single.awk prints with lines=1: its #line directives say where a line comes from.
FNR == NR && /^@ / { after = substr($0, 3); next }
FNR == NR          { rows[after] = rows[after] $0 "\n"; next }
FNR == 1           { file = "\"llmrun.c\"" }
/^#line /          { at = $2 - 1; file = $3; print; next }
                   { print; at++ }
$0 in rows         { printf "%s", rows[$0]; delete rows[$0]; added = 1 }
added && !/\\$/    { printf "#line %d %s\n", at + 1, file; added = 0 }      # not inside a macro
END                { for (r in rows) { print "rows.awk: the program has no line: " r > "/dev/stderr"; exit 1 } }
