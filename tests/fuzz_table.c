/* Fuzzes tables: the input as CSV and TSV under two bounds, as a row of JSON, and as a template that this row fills. Cells written as CSV
 * are read as they were, and a refusal has an error text. */
#include "program.h"

static lines_in *ftab_lines(bytes b, uint64_t most) {
    err_t e = {0};
    int   fd = memfd_create("FILE", MFD_CLOEXEC);
    ASSERT(fd >= 0 && (!b.n || write(fd, b.p, b.n) == (ssize_t)b.n) && lseek(fd, 0, SEEK_SET) == 0);
    lines_in *in = lines_from_fd(fd, false, "FILE", most, &e);
    ASSERT(in);
    return in;
}

/* Writes a row as CSV below names, and reads it. */
static void ftab_again(const table_row *row) {
    str       text = {0};
    table_in  t;
    table_row got = {0};
    bytes     raw;
    err_t     e = {0};
    bool      same = true;
    for (size_t i = 0; i < row->n; i++) str_fmt(&text, "%sc%zu", i ? "," : "", i);
    str_put(&text, "\n");
    for (size_t i = 0; i < row->n; i++) {
        same = same && utf8_whole(table_value(row, i));
        if (i) str_put(&text, ",");
        str_csv_quoted(&text, table_value(row, i));
    }
    lines_in *in = ftab_lines(str_bytes(&text), 1 << 30);
    table_init(&t, TABLE_CSV);
    ASSERT(table_next(&t, in, true, &raw, &e) == LINES_LINE && table_cells(&t, raw, &got, &e) && got.n == row->n);
    for (size_t i = 0; same && i < row->n; i++) ASSERT(bytes_eq(table_value(row, i), table_value(&got, i)));
    table_row_drop(&got);
    table_drop(&t);
    lines_close(in);
    str_drop(&text);
}

static void ftab_rows(bytes b, table_form form, uint64_t most) {
    lines_in *in = ftab_lines(b, most);
    table_in  t;
    table_row row = {0};
    bytes     raw;
    err_t     e = {0};
    lines_got got;
    uint64_t  last = 0;
    table_init(&t, form);
    /* a row that the end of the file leaves open may have the ending of its last line beyond the bound */
    while ((got = table_next(&t, in, true, &raw, &e)) == LINES_LINE) {
        err_t why = {0};
        ASSERT(raw.n <= most + 2 && t.n_rows == ++last && t.line > last);
        const bool ok = table_cells(&t, raw, &row, &why);
        ASSERT(ok == !why.code && row.n == (ok ? t.head.n : 0) && (ok || why.text[0]));
        if (ok) ftab_again(&row);
    }
    ASSERT(got == LINES_END ? !e.code : got == LINES_FAILED && e.code == EXIT_INPUT && !strncmp(e.text, "FILE: ", 6));
    table_row_drop(&row);
    table_drop(&t);
    lines_close(in);
}

static void ftab_fill(bytes b) {
    table_template form = {0};
    table_row      row = {0};
    err_t          e = {0};
    str            text = {0}, out = {0};
    table_values   values = {0};
    const uint8_t *end = b.n ? memchr(b.p, '\n', b.n) : NULL;
    str_add(&text, b.p, end ? (size_t)(end - b.p) : b.n);
    if (end && table_object((bytes){end + 1, b.n - text.n - 1}, &row, &e) && table_template_read(&form, text.p, &e))
        table_fill(&form, &row, &out, &values, &e);
    table_values_drop(&values);
    for (size_t i = 0; i < row.n; i++) {
        str json = {0};
        table_json(&row, &row.cell[i], &json);
        ASSERT(bytes_is_json(str_bytes(&json)) && utf8_whole(str_bytes(&json)));
        str_drop(&json);
    }
    ASSERT(!end || out.p || e.text[0]);
    str_drop_all(&text, &out);
    table_row_drop(&row);
    table_template_drop(&form);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const bytes b = {data, n};
    g_log_level = LOG_QUIET;
    ftab_rows(b, TABLE_CSV, 1 << 20);
    ftab_rows(b, TABLE_CSV, 20);
    ftab_rows(b, TABLE_TSV, 1 << 20);
    ftab_fill(b);
    return 0;
}
