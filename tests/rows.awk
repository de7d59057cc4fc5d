# The program with more rows in its tables, for tests:  awk -f tests/rows.awk tests/invented.rows llmrun.c
# In the file of rows, "@ LINE" is a line of the program; the lines below it are added after that line.
FNR == NR && /^@ / { after = substr($0, 3); next }
FNR == NR          { rows[after] = rows[after] $0 "\n"; next }
FNR == 1           { print "#line 1 \"llmrun.c\"" }
                   { print }
$0 in rows         { printf "%s#line %d\n", rows[$0], FNR + 1; delete rows[$0] }
END                { for (r in rows) { print "rows.awk: llmrun.c has no line: " r > "/dev/stderr"; exit 1 } }
