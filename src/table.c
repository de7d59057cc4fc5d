/* ===== [table] CSV and TSV, prompts made of columns =====
 * Reads rows of CSV (RFC 4180) and TSV. A cell in quotes may hold separators, line breaks and doubled quotes; a quote inside a
 * bare cell is a character. The first row names the columns. A row is also made of the members of a JSON object, or of a line of
 * text, whose one column is called text.
 *   A template is a text with names of columns in braces; {{ and }} are braces.
 *   Invariant: memory is bounded by the longest row, which is bounded like a line of [lines].
 * Public: table_form_of, table_init, table_drop, table_next, table_cells, table_object, table_text, table_row_drop, table_name,
 * table_value, table_find, table_names, table_json, table_template_read, table_template_drop, table_fill,
 * table_values_drop.
 * Opens: table_in, table_row, table_template, table_part, table_values. */

typedef enum { TABLE_AUTO, TABLE_JSONL, TABLE_CSV, TABLE_TSV, TABLE_TEXT } table_form;

/* A value of a row. */
typedef struct {
    size_t at, n;                                     /* in table_row.text */
    size_t name_at, name_n;                           /* its name there, where the row has no head */
    bytes  json;                                      /* as the object has it; none in CSV and TSV */
} table_cell;

/* The values of one row. */
typedef struct table_row {
    str         text;
    table_cell *cell;                                 /* [n] */
    size_t      n;
    const struct table_row *head;                     /* the row that has their names; NULL: each has its own */
} table_row;

typedef struct {
    uint8_t   sep;                                    /* between two cells: a comma or a tab */
    table_row head;                                   /* the names of the columns; n 0: not read yet */
    char      digest[33];                             /* of the bytes of that row, in hex */
    uint64_t  hash;                                   /* of the same: bytes_hash(0, row), for results of earlier versions */
    str       row;                                    /* lines of a row whose quotes are still open */
    bool      open;                                   /* there are such lines */
    int       state;                                  /* after these */
    uint64_t  line;                                   /* number of the line where the last row begins */
    uint64_t  n_rows;                                 /* rows so far, without the names */
} table_in;

/* The form of a file: as `word` says (NULL: nothing), else by its name. */
static table_form table_form_of(const char *word, const char *path) {
    static const char *const words[] = {[TABLE_JSONL] = "jsonl", [TABLE_CSV] = "csv", [TABLE_TSV] = "tsv", [TABLE_TEXT] = "text"};
    const char *dot = strrchr(str_base_name(path), '.');
    for (int i = TABLE_JSONL; word && i <= TABLE_TEXT; i++)
        if (strcmp(word, words[i]) == 0) return (table_form)i;
    for (int i = TABLE_CSV; dot && i <= TABLE_TSV; i++)
        if (strcasecmp(dot + 1, words[i]) == 0) return (table_form)i;
    return TABLE_AUTO;
}

/* A reader of rows, of TABLE_CSV or TABLE_TSV. */
static void table_init(table_in *t, table_form form) { *t = (table_in){.sep = form == TABLE_TSV ? '\t' : ','}; }

/* Frees the values of a row, which is then an empty one. */
static void table_row_drop(table_row *r) {
    str_drop(&r->text);
    mem_free(r->cell);
    *r = (table_row){0};
}

/* Frees what the reader owns. */
static void table_drop(table_in *t) {
    table_row_drop(&t->head);
    str_drop(&t->row);
}

/* --- rows --- */

/* Where the reader of cells is: before a cell; in one without quotes; in quotes; behind a quote that closes them unless another
 * one follows; in text behind quotes, which is an error. */
enum { TABLE_BEFORE, TABLE_BARE, TABLE_QUOTED, TABLE_CLOSED, TABLE_BEHIND };

static int table__step(int state, uint8_t c, uint8_t sep) {
    if (state == TABLE_QUOTED) return c == '"' ? TABLE_CLOSED : TABLE_QUOTED;
    if (c == sep) return TABLE_BEFORE;
    if (state == TABLE_BEFORE) return c == '"' ? TABLE_QUOTED : TABLE_BARE;
    if (state == TABLE_CLOSED) return c == '"' ? TABLE_QUOTED : TABLE_BEHIND;
    return state;
}

/* Takes in a line. LINES_LINE: the row ends with it, and *row has its bytes; LINES_LATER: it goes on. */
static lines_got table__line(table_in *t, const lines_in *in, bytes line, uint64_t no, bytes *row, err_t *e) {
    const bool goes_on = t->open;
    if (!goes_on) str_clear(&t->row), t->line = no, t->state = TABLE_BEFORE;
    if (in->n_bytes > in->most - min_u64(t->row.n, in->most)) {
        err_set(e, EXIT_INPUT, "%s: line %llu: a row of more than %llu bytes begins here%s (--batch-line bounds a row)", in->name,
                (unsigned long long)t->line, (unsigned long long)in->most,
                t->state == TABLE_QUOTED ? ", expected a quote that closes its cell" : "");
        return LINES_FAILED;
    }
    for (size_t i = 0; i < line.n; i++) t->state = table__step(t->state, line.p[i], t->sep);
    t->open = t->state == TABLE_QUOTED && in->complete;
    if (goes_on || t->open) str_cat(&t->row, line);
    if (t->open) str_put(&t->row, line.p[line.n] == '\r' ? "\r\n" : "\n");
    *row = goes_on ? str_bytes(&t->row) : line;
    return t->open ? LINES_LATER : LINES_LINE;
}

/* The next row, as table_next() gives it, or the names. */
static lines_got table__row(table_in *t, lines_in *in, bool wait, bytes *row, err_t *e) {
    bytes    line;
    uint64_t no;
    for (;;) {
        lines_got got = lines_next(in, wait, &line, &no, e);
        if (got == LINES_END && t->open) return t->open = false, *row = str_bytes(&t->row), LINES_LINE;
        if (got != LINES_LINE && got != LINES_LONG) return got;
        if (!line.n && !t->open) continue;
        if ((got = table__line(t, in, line, no, row, e)) != LINES_LATER) return got;
    }
}

/* Splits a row. False: e says what is wrong with it. */
static bool table__split(const table_in *t, bytes row, table_row *to, err_t *e) {
    int      state = TABLE_BEFORE;
    uint64_t line = t->line, opened = line;
    str_clear(&to->text);
    to->n = 0;
    for (size_t i = 0, from = 0; i <= row.n; i++) {
        const uint8_t c = i < row.n ? row.p[i] : t->sep;
        const int     was = state;
        const unsigned long long column = to->n + 1;
        if (i == row.n && state == TABLE_QUOTED)
            return err_set(e, EXIT_INPUT, "line %llu: the quote that opens cell %llu is not closed", (unsigned long long)opened,
                           column);
        state = table__step(state, c, t->sep);
        if (i < row.n && !c)
            return err_set(e, EXIT_INPUT, "line %llu: cell %llu holds a NUL byte, expected UTF-8",
                           (unsigned long long)line, column);
        if (c == '\r' && was != TABLE_QUOTED)
            return err_set(e, EXIT_INPUT, "line %llu: cell %llu holds a carriage return outside quotes, expected lines that end "
                           "with LF or CR LF", (unsigned long long)line, column);
        if (state == TABLE_BEHIND)
            return err_set(e, EXIT_INPUT, "line %llu: cell %llu has text behind its closing quote, expected %s",
                           (unsigned long long)line, column, t->sep == ',' ? "a comma" : "a tab");
        line += c == '\n';
        if (state == TABLE_QUOTED && was == TABLE_BEFORE) opened = line;
        if (state == TABLE_BARE || (state == TABLE_QUOTED && was != TABLE_BEFORE)) str_add(&to->text, &c, 1);
        if (state != TABLE_BEFORE) continue;
        MEM_PUSH(to->cell, to->n, (table_cell){.at = from, .n = to->text.n - from});
        from = to->text.n;
    }
    return true;
}

/* Bytes of a text; an empty text has no memory. */
static bytes table__slice(const str *s, size_t at, size_t n) {
    return (bytes){(const uint8_t *)(s->p ? s->p + at : ""), n};
}

/* The value of cell i, without quotes; of a JSON object: text as it is, null as nothing, anything else as JSON. */
static bytes table_value(const table_row *r, size_t i) { return table__slice(&r->text, r->cell[i].at, r->cell[i].n); }

/* The name of its column. */
static bytes table_name(const table_row *r, size_t i) {
    return r->head ? table_value(r->head, i) : table__slice(&r->text, r->cell[i].name_at, r->cell[i].name_n);
}

/* The cell of this name; NULL: there is none. The last of several counts, as in JSON. */
static const table_cell *table_find(const table_row *r, bytes name) {
    for (size_t i = r->n; i-- > 0;)
        if (bytes_eq(table_name(r, i), name)) return &r->cell[i];
    return NULL;
}

/* Appends the names of the columns, "id, review", as far as a message shows them. */
static void table_names(const table_row *r, str *out) {
    enum { MOST = 300 };
    const size_t begin = out->n;
    for (size_t i = 0; i < r->n; i++) {
        const bytes name = table_name(r, i);
        if (out->n - begin > MOST) {
            str_fmt(out, " and %zu more", r->n - i);
            return;
        }
        if (i) str_put(out, ", ");
        str_utf8(out, (bytes){name.p, (size_t)utf8_head(name, MOST)});
    }
    str_put(out, "");
}

/* Reads the names of the columns. */
static bool table__head(table_in *t, const char *file, bytes row, err_t *e) {
    const char *kind = bytes_kind(row);
    err_t       why = {0};
    if (kind) return err_set(e, EXIT_INPUT, "%s: is %s, expected a text file of rows", file, kind);
    t->head.head = &t->head;
    const digest d = bytes_digest((bytes){0}, row);
    snprintf(t->digest, sizeof t->digest, "%016llx%016llx", (unsigned long long)d.a, (unsigned long long)d.b);
    t->hash = bytes_hash(0, row);
    if (!table__split(t, row, &t->head, &why))
        return err_set(e, EXIT_INPUT, "%s: names of columns: %.400s", file, why.text);
    for (size_t i = 0; i < t->head.n; i++) {
        const bytes name = table_name(&t->head, i);
        if (name.n && table_find(&t->head, name) != &t->head.cell[i])
            return err_set(e, EXIT_INPUT, "%s: line %llu: two columns are named '%.*s', expected different names", file,
                           (unsigned long long)t->line, utf8_head(name, 100), (const char *)name.p);
    }
    return true;
}

/* The next row behind the names, which the first call reads. *row: as it stands in the file, without the ending of its last
 * line, valid until the next call; t->n_rows is its number, t->line the line where it begins. Lines without a byte between rows
 * are none. LINES_FAILED: e is set. Otherwise as lines_next(). */
static lines_got table_next(table_in *t, lines_in *in, bool wait, bytes *row, err_t *e) {
    lines_got got = table__row(t, in, wait, row, e);
    if (got == LINES_LINE && !t->head.n) {
        if (!table__head(t, in->name, *row, e)) return LINES_FAILED;
        got = table__row(t, in, wait, row, e);
    }
    t->n_rows += got == LINES_LINE;
    return got;
}

/* Splits a row into as many cells as there are columns. False: e says what is wrong with it. */
static bool table_cells(const table_in *t, bytes row, table_row *to, err_t *e) {
    str names = {0};
    to->head = &t->head;
    const bool ok = table__split(t, row, to, e);
    if (ok && to->n == t->head.n) return true;
    if (ok) {
        table_names(&t->head, &names);
        err_set(e, EXIT_INPUT, "line %llu: found %zu cell%s, expected %zu (%.300s)", (unsigned long long)t->line, to->n,
                to->n == 1 ? "" : "s", t->head.n, names.p);
    }
    str_drop(&names);
    to->n = 0;
    return false;
}

/* The members of a JSON object. Their `json` is valid as long as the line. False: the line is no object. */
static bool table_object(bytes line, table_row *to, err_t *e) {
    bytes rest = bytes_trim(line), key = {0}, value;
    str_clear(&to->text);
    to->n = 0;
    to->head = NULL;
    if (!rest.n || rest.p[0] != '{' || !bytes_is_json(rest)) return err_set(e, EXIT_INPUT, "the line is no JSON object");
    while (bytes_cut_member(&rest, &key, &value)) {
        table_cell c = {.json = bytes_trim(value), .name_at = to->text.n};
        bool       ok = str_unquote(&to->text, key, true);
        c.name_n = to->text.n - c.name_at;
        c.at = to->text.n;
        if (c.json.p[0] == '"') ok = ok && str_unquote(&to->text, c.json, true);
        else if (!bytes_is(c.json, "null")) str_cat(&to->text, c.json);
        c.n = to->text.n - c.at;
        if (!ok) return to->n = 0, err_set(e, EXIT_INPUT, "member %zu of the line has a string that is no JSON", to->n + 1);
        MEM_PUSH(to->cell, to->n, c);
    }
    return true;
}

/* A line of text as a row of one column. */
static void table_text(bytes line, table_row *to) {
    to->head = NULL;
    to->n = 0;
    str_clear(&to->text);
    str_put(&to->text, "text");
    str_cat(&to->text, line);
    MEM_PUSH(to->cell, to->n, (table_cell){.at = 4, .n = line.n, .name_n = 4});
}

/* Writes a cell as JSON: a member of an object as it is, with the escapes of str_json(), else a string. */
static void table_json(const table_row *r, const table_cell *c, str *out) {
    if (c->json.n) str_json_copy(out, c->json, false);
    else str_json(out, table__slice(&r->text, c->at, c->n));
}

/* --- templates --- */

typedef struct {
    bytes text;                                       /* in table_template.text */
    bool  column;                                     /* it is the name of a column, else it stands as it is */
} table_part;

typedef struct {
    str         text;
    table_part *part;                                 /* [n] */
    size_t      n;
} table_template;

/* Frees the parts. */
static void table_template_drop(table_template *t) {
    str_drop(&t->text);
    mem_free(t->part);
    *t = (table_template){0};
}

static void table__part(table_template *t, size_t from, size_t to, bool column) {
    if (to > from || column) MEM_PUSH(t->part, t->n, (table_part){bytes_slice(str_bytes(&t->text), from, to), column});
}

/* Reads a template. False: e is set. */
static bool table_template_read(table_template *t, const char *text, err_t *e) {
    size_t from = 0, i = 0;
    *t = (table_template){0};
    str_put(&t->text, text);
    for (const char *p = t->text.p; p[i]; i++) {
        if (p[i] != '{' && p[i] != '}') continue;
        if (p[i + 1] == p[i]) {
            table__part(t, from, ++i, false);
            from = i + 1;
            continue;
        }
        const size_t n = p[i] == '{' ? strcspn(p + i + 1, "{}") : 0;
        if (p[i] == '}' || p[i + 1 + n] != '}')
            return err_set(e, EXIT_INPUT, "--prompt-template: byte %zu: found '%c' alone, expected {COLUMN}, or %c%c for a brace",
                           i, p[i], p[i], p[i]);
        table__part(t, from, i, false);
        table__part(t, i + 1, i + 1 + n, true);
        from = i + n + 2;
        i = from - 1;
    }
    table__part(t, from, i, false);
    return t->n || err_set(e, EXIT_INPUT, "--prompt-template: found an empty text, expected a prompt with {COLUMN}");
}

/* Where the values are in a filled template. */
typedef struct {
    size_t (*at)[2];                                  /* [n] first byte of a value, and the byte behind it; none is empty */
    size_t n;
} table_values;

/* Frees the list of places, which is then an empty one. */
static void table_values_drop(table_values *l) {
    mem_free(l->at);
    *l = (table_values){0};
}

/* Appends the template with the values of the row to `out`, which is empty, and their places to `values`, unless it is NULL.
 * False: it names a column that the row has not, and e is set. */
static bool table_fill(const table_template *t, const table_row *r, str *out, table_values *values, err_t *e) {
    str names = {0};
    if (values) values->n = 0;
    str_put(out, "");
    for (size_t i = 0; i < t->n; i++) {
        const table_part *p = &t->part[i];
        const table_cell *c = p->column ? table_find(r, p->text) : NULL;
        if (p->column && !c) {
            table_names(r, &names);
            err_set(e, EXIT_INPUT, "--prompt-template: no column '%.*s', expected one of %.300s", utf8_head(p->text, 100),
                    (const char *)p->text.p, names.p);
            str_drop(&names);
            return false;
        }
        const size_t from = out->n;
        str_cat(out, c ? table__slice(&r->text, c->at, c->n) : p->text);
        if (!c || !values || out->n == from) continue;
        values->at = mem_reserve(values->at, values->n, UINT64_MAX, sizeof *values->at);
        values->at[values->n][0] = from;
        values->at[values->n++][1] = out->n;
    }
    return true;
}
