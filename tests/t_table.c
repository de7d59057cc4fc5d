/* CSV and TSV by RFC 4180, rows of JSON and text, templates of prompts. */
#include "program.h"
#include "check.h"

static lines_in *ttab_open(const void *p, size_t n, uint64_t most) {
    err_t e = {0};
    int   fd = memfd_create("FILE", MFD_CLOEXEC);
    ASSERT(fd >= 0 && (!n || write(fd, p, n) == (ssize_t)n) && lseek(fd, 0, SEEK_SET) == 0);
    lines_in *in = lines_from_fd(fd, false, "FILE", most, &e);
    ASSERT(in);
    return in;
}

/* Every byte that is no printable character as <hh>. */
static void ttab_say(str *s, bytes b) {
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] < 0x20 || b.p[i] >= 0x7f) str_fmt(s, "<%02x>", b.p[i]);
        else str_add(s, &b.p[i], 1);
}

/* All rows of a text: "NUMBER@LINE[cell|cell]" with the names first, or the errors. */
static str ttab_rows(table_form form, const void *p, size_t n, uint64_t most) {
    lines_in *in = ttab_open(p, n, most);
    table_in  t;
    table_row row = {0};
    bytes     raw;
    err_t     e = {0};
    lines_got got;
    str       s = {0};
    table_init(&t, form);
    str_put(&s, "");
    while ((got = table_next(&t, in, true, &raw, &e)) == LINES_LINE) {
        err_t why = {0};
        str_fmt(&s, "%s%llu@%llu", s.n ? " " : "", (unsigned long long)t.n_rows, (unsigned long long)t.line);
        if (!table_cells(&t, raw, &row, &why)) str_fmt(&s, "{%s}", why.text);
        for (size_t i = 0; i < row.n; i++) {
            str_put(&s, i ? "|" : "[");
            ttab_say(&s, table_value(&row, i));
        }
        if (row.n) str_put(&s, "]");
    }
    if (got == LINES_FAILED) str_fmt(&s, "%s!%s", s.n ? " " : "", e.text);
    table_row_drop(&row);
    table_drop(&t);
    lines_close(in);
    return s;
}

static const struct {
    table_form  form;
    const char *text, *rows;
} ttab_files[] = {
    {TABLE_CSV, "a,b\n1,2\n", "1@2[1|2]"},
    {TABLE_CSV, "\xef\xbb\xbf\"a\",b\r\n1,2\r\n\r\n3,", "1@2[1|2] 2@4[3|]"},
    {TABLE_CSV, "a,b\n\"x, \"\"y\"\"\r\nz\",2\n,\n", "1@2[x, \"y\"<0d><0a>z|2] 2@4[|]"},
    {TABLE_CSV, "a,b\n5\" disk,it\"s\n", "1@2[5\" disk|it\"s]"},
    {TABLE_CSV, "a\n\"\"\n\"\"\"\"\n\"\n\"\n", "1@2[] 2@3[\"] 3@4[<0a>]"},
    {TABLE_CSV, "a,b\n1\n1,2,3\n4,5", "1@2{line 2: found 1 cell, expected 2 (a, b)} "
                                      "2@3{line 3: found 3 cells, expected 2 (a, b)} 3@4[4|5]"},
    {TABLE_CSV, "a,b\n\"1\"x,2\n3,4\n", "1@2{line 2: cell 1 has text behind its closing quote, expected a comma} 2@3[3|4]"},
    {TABLE_CSV, "a,b\n1,\"2\n3,4\n", "1@2{line 2: the quote that opens cell 2 is not closed}"},
    {TABLE_CSV, "a,b\n\"1\n\n\",\"2\n3,4", "1@2{line 4: the quote that opens cell 2 is not closed}"},
    {TABLE_CSV, "a,b\r1,2\r", "!FILE: names of columns: line 1: cell 2 holds a carriage return outside quotes, expected lines that "
                              "end with LF or CR LF"},
    {TABLE_CSV, "a,b,a\n1,2,3\n", "!FILE: line 1: two columns are named 'a', expected different names"},
    {TABLE_CSV, ",,x\n1,2,3\n", "1@2[1|2|3]"},
    {TABLE_CSV, "", ""},
    {TABLE_CSV, "a,b\n", ""},
    {TABLE_TSV, "a\tb,c\n1,2\t\"3\t4\"\n", "1@2[1,2|3<09>4]"},
    {TABLE_TSV, "a\tb\n\t\n\"x\"y\tz\n", "1@2[|] 2@3{line 3: cell 1 has text behind its closing quote, expected a tab}"},
};

static void t_table_files(void) {
    for (size_t i = 0; i < sizeof ttab_files / sizeof *ttab_files; i++) {
        str s = ttab_rows(ttab_files[i].form, ttab_files[i].text, strlen(ttab_files[i].text), 1 << 20);
        EQ_STR(s.p, ttab_files[i].rows);
        str_drop(&s);
    }
}

/* NULs, and rows beyond the bound: in one line, and by a quote that takes in the lines that follow. */
static void t_table_hostile(void) {
    static const char nul[] = "a,b\n1,\0\n3,4\n", head[] = "a\0,b\n1,2\n";
    str s = ttab_rows(TABLE_CSV, nul, sizeof nul - 1, 1 << 20);
    EQ_STR(s.p, "1@2{line 2: cell 2 holds a NUL byte, expected UTF-8} 2@3[3|4]");
    str_drop(&s);
    s = ttab_rows(TABLE_CSV, head, sizeof head - 1, 1 << 20);
    EQ_STR(s.p, "!FILE: names of columns: line 1: cell 1 holds a NUL byte, expected UTF-8");
    str_drop(&s);
    s = ttab_rows(TABLE_CSV, "PK\x03\x04,b\n", 7, 1 << 20);
    EQ_STR(s.p, "!FILE: is a zip file (or a PyTorch one, which is zip), expected a text file of rows");
    str_drop(&s);
    str big = {0};
    str_put(&big, "a\n1\n");
    for (int i = 0; i < 300; i++) str_put(&big, "0123456789");
    s = ttab_rows(TABLE_CSV, big.p, big.n, 2999);
    EQ_STR(s.p, "1@2[1] !FILE: line 3: a row of more than 2999 bytes begins here (--batch-line bounds a row)");
    str_drop(&s);
    str_clear(&big);
    str_put(&big, "a\n1\n\"");
    for (int i = 0; i < 1000; i++) str_put(&big, "0123456789\n");
    s = ttab_rows(TABLE_CSV, big.p, big.n, 2999);
    EQ_STR(s.p, "1@2[1] !FILE: line 3: a row of more than 2999 bytes begins here, expected a quote that closes its cell "
                "(--batch-line bounds a row)");
    str_drop(&s);
    str_clear(&big);
    str_put(&big, "a,b\n");
    for (int i = 0; i < 100000; i++) str_put(&big, "\"\",");
    s = ttab_rows(TABLE_CSV, big.p, big.n, 1 << 20);
    EQ_STR(s.p, "1@2{line 2: found 100001 cells, expected 2 (a, b)}");
    str_drop(&s);
    str_drop(&big);
}

/* What str_csv() writes is read as it was, whatever the cells hold, from a pipe that gives a byte at a time too. */
static void t_table_there_and_back(void) {
    static const char *const parts[] = {"\"", ",", "\n", "\r\n", "x", " ", "\t", "\xc3\xa9", "\"\""};
    str      text = {0}, want = {0};
    uint64_t x = 7;
    str_put(&text, "c1,c2,c3\n");
    for (int row = 0, line = 2; row < 200; row++) {
        str_fmt(&want, "%s%d@%d", row ? " " : "", row + 1, line);
        for (int col = 0; col < 3; col++) {
            str cell = {0};
            str_put(&cell, col ? "" : "k");
            for (uint64_t n = (x = rng_mix(x + 1)) % 6; n; n--) str_put(&cell, parts[(x = rng_mix(x)) % 9]);
            if (col) str_put(&text, ",");
            str_csv(&text, str_bytes(&cell));
            for (size_t i = 0; i < cell.n; i++) line += cell.p[i] == '\n';
            str_put(&want, col ? "|" : "[");
            ttab_say(&want, str_bytes(&cell));
            str_drop(&cell);
        }
        str_put(&text, "\n");
        str_put(&want, "]");
        line++;
    }
    str got = ttab_rows(TABLE_CSV, text.p, text.n, 1 << 20);
    EQ_STR(got.p, want.p);
    str_drop_all(&text, &want, &got);
}

/* Template, row, and the text or the error. */
static const struct {
    const char *form, *row, *text;
} ttab_fills[] = {
    {"Say {a}!", "{\"a\":\"x\"}", "Say x!"},
    {"{a}{b}{a}", "{\"a\": 1.50 , \"b\":null}", "1.501.50"},
    {"{{{a}}} {{b}}", "{\"a\":[1, {\"c\":\"\\u00e9\"}],\"b\":true}", "{[1, {\"c\":\"\\u00e9\"}]} {b}"},
    {"{a b}", "{\"a b\":\"\\u00e9\\n\"}", "\xc3\xa9\n"},
    {"{a}", "{\"a\":1,\"a\":2}", "2"},
    {"no column", "{}", "no column"},
    {"{}", "{\"\":\"x\"}", "x"},
    {"{c}", "{\"a\":1,\"b\":2}", "! --prompt-template: no column 'c', expected one of a, b"},
    {"{a}", "[1]", "! the line is no JSON object"},
    {"{a}", "{\"a\":01}", "! the line is no JSON object"},
    {"{a}", "{\"a\":\"\\ud800\"}", "! member 1 of the line has a string that is no JSON"},
    {"{a", "{}", "! --prompt-template: byte 0: found '{' alone, expected {COLUMN}, or {{ for a brace"},
    {"x}", "{}", "! --prompt-template: byte 1: found '}' alone, expected {COLUMN}, or }} for a brace"},
    {"{a{b}}", "{}", "! --prompt-template: byte 0: found '{' alone, expected {COLUMN}, or {{ for a brace"},
    {"", "{}", "! --prompt-template: found an empty text, expected a prompt with {COLUMN}"},
};

static void t_table_fill(void) {
    for (size_t i = 0; i < sizeof ttab_fills / sizeof *ttab_fills; i++) {
        table_template form;
        table_row      row = {0};
        err_t          e = {0};
        str            out = {0};
        table_values   values = {0};
        if (!table_template_read(&form, ttab_fills[i].form, &e) || !table_object(bytes_of(ttab_fills[i].row), &row, &e) ||
            !table_fill(&form, &row, &out, &values, &e)) {
            str_clear(&out);
            str_fmt(&out, "! %s", e.text);
        }
        EQ_STR(out.p, ttab_fills[i].text);
        for (size_t k = 0; k < values.n; k++) CHECK(values.at[k][0] < values.at[k][1] && values.at[k][1] <= out.n);
        if (!i) CHECK(values.n == 1 && values.at[0][0] == 4 && values.at[0][1] == 5);
        if (i == 1) EQ_INT(values.n, 2);
        table_values_drop(&values);
        str_drop(&out);
        table_row_drop(&row);
        table_template_drop(&form);
    }
}

/* A member goes through as it is written, a cell as a string. */
static void t_table_json(void) {
    static const char line[] = "{\"n\": 1e5 ,\"s\":\"a\\/b\",\"o\":{\"x\":[ ]},\"u\":\"\xff\"}";
    table_row row = {0};
    err_t     e = {0};
    str       out = {0};
    CHECK(table_object(bytes_of(line), &row, &e));
    for (size_t i = 0; i < row.n; i++) table_json(&row, &row.cell[i], &out), str_put(&out, ";");
    EQ_STR(out.p, "1e5;\"a\\/b\";{\"x\":[ ]};\"\xef\xbf\xbd\";");
    str_clear(&out);
    table_text(bytes_of("a \"line\""), &row);
    CHECK(row.n == 1 && bytes_is(table_name(&row, 0), "text"));
    table_json(&row, &row.cell[0], &out);
    EQ_STR(out.p, "\"a \\\"line\\\"\"");
    str_drop(&out);
    table_row_drop(&row);
}

static void t_table_forms(void) {
    EQ_INT(table_form_of(NULL, "a/b.c/x.csv"), TABLE_CSV);
    EQ_INT(table_form_of(NULL, "x.TSV"), TABLE_TSV);
    EQ_INT(table_form_of(NULL, "a.csv/x"), TABLE_AUTO);
    EQ_INT(table_form_of(NULL, "-"), TABLE_AUTO);
    EQ_INT(table_form_of("text", "x.csv"), TABLE_TEXT);
    EQ_INT(table_form_of("tsv", "x.csv"), TABLE_TSV);
    EQ_INT(table_form_of("jsonl", "x"), TABLE_JSONL);
}

static const t_case t_table_cases[] = {
    {"table files", "quotes, line breaks in cells, marks and endings of lines, rows that are no rows", t_table_files},
    {"table hostile", "NULs, rows without end and rows of many cells are errors that name the line", t_table_hostile},
    {"table there and back", "what is written as CSV is read as it was", t_table_there_and_back},
    {"table fill", "templates: columns, braces, values of every kind of JSON, and what is refused", t_table_fill},
    {"table json", "values go through to records as they are written", t_table_json},
    {"table forms", "the form of a file by an option and by its name", t_table_forms},
};
static const t_suite t_table_suite = SUITE(t_table_cases);
