/* ===== [forms] records as tables, texts and lists =====
 * Writes records of [req] in other forms: CSV or TSV, with a row for each completion and one for a line with an error; the texts
 * of the answers alone; a JSON list. Where answers are objects of a schema, a table has a column for each of its keys.
 *   The names of columns differ: a column of the input that is called like another one becomes input.NAME, a key answer.NAME.
 * Public: forms_named, forms_drop, forms_add, forms_add_keys, forms_head, forms_put, forms_tail, forms_learn.
 * Opens: forms_spec. */

typedef enum { FORMS_CSV, FORMS_TSV, FORMS_TEXT, FORMS_LIST } forms_kind;

typedef struct {                                      /* names of columns */
    str   *at;                                        /* [n] */
    size_t n;
} forms_names;

typedef struct {
    forms_kind  kind;
    bool        files;                                /* records name the files of their lines */
    bool        parts;                                /* columns for what a chat's answer has beside its content */
    bool        zero;                                 /* a NUL ends each text, not a newline */
    unsigned    fields;                               /* REQ_PROMPT and so on */
    forms_names passed;                               /* columns of the input */
    forms_names keys;                                 /* of the answers, which are objects; none: an answer is a text */
} forms_spec;

/* The form of answers that a name means, that of --format or of a file's ending, in any case. Returns the name as it stands here,
 * NULL: there is none. */
static const char *forms_named(const char *name, forms_kind *kind) {
    static const struct {
        const char *name;
        forms_kind  kind;
    } rows[] = {{"csv", FORMS_CSV}, {"tsv", FORMS_TSV}, {"txt", FORMS_TEXT}, {"text", FORMS_TEXT}, {"json", FORMS_LIST}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcasecmp(rows[i].name, name) == 0) return *kind = rows[i].kind, rows[i].name;
    return NULL;
}

static void forms__drop_names(forms_names *l) {
    for (size_t i = 0; i < l->n; i++) str_drop(&l->at[i]);
    mem_free(l->at);
    *l = (forms_names){0};
}

/* Frees the names of columns. */
static void forms_drop(forms_spec *f) {
    forms__drop_names(&f->passed);
    forms__drop_names(&f->keys);
}

static void forms__push(forms_names *l, bytes name) {
    str s = {0};
    str_add(&s, "", 0);
    str_cat(&s, name);
    MEM_PUSH(l->at, l->n, s);
}

static bool forms__has(const forms_names *l, bytes name) {
    for (size_t i = 0; i < l->n; i++)
        if (bytes_eq(str_bytes(&l->at[i]), name)) return true;
    return false;
}

/* Adds the names of an object's members that are not there yet. */
static void forms__add_members(forms_names *l, bytes object) {
    bytes key = {0}, value;
    while (bytes_cut_member(&object, &key, &value)) {
        str name = {0};
        if (str_unquote(&name, key, true) && !forms__has(l, str_bytes(&name))) forms__push(l, str_bytes(&name));
        str_drop(&name);
    }
}

/* Adds a column of the input. */
static void forms_add(forms_spec *f, bytes name) { forms__push(&f->passed, name); }

/* The schema that a local reference names, "#/$defs/NAME"; empty: it is none, or names nothing. */
static bytes forms__definition(bytes schema, bytes ref) {
    static const char *const lists[] = {"$defs", "definitions"};
    str   path = {0};
    bytes found = {0};
    if (str_unquote(&path, ref, true))
        for (size_t i = 0; i < 2; i++) {
            char begin[32];
            snprintf(begin, sizeof begin, "#/%s/", lists[i]);
            if (bytes_begins(str_bytes(&path), bytes_of(begin)))
                found = bytes_member(bytes_member(schema, lists[i]), path.p + strlen(begin));
        }
    str_drop(&path);
    return found;
}

/* Adds a column for each key of the object that a JSON Schema describes at its top level; none where it describes no object. */
static void forms_add_keys(forms_spec *f, bytes schema) {
    bytes at = schema;
    for (int i = 0; i < 8 && bytes_member(at, "$ref").n; i++) at = forms__definition(schema, bytes_member(at, "$ref"));
    forms__add_members(&f->keys, bytes_member(at, "properties"));
}

/* --- tables --- */

static const char *const forms__times[] = {"queued_s", "first_token_s", "total_s"};

/* Whether a table may have a column of this name beside those of the input and the keys. */
static bool forms__own(bytes name) {
    static const char *const names[] = {
        "line", "file", "custom_id", "index", "text", "finish_reason", "prompt_tokens", "completion_tokens", "error", "prompt",
        "seed", "logprob", "queued_s", "first_token_s", "total_s", "reasoning_content", "tool_calls"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bytes_is(name, names[i])) return true;
    return false;
}

/* A row that is being written. */
typedef struct {
    const forms_spec *f;
    str         *out;
    bool         more;                                /* the next cell is not the first one */
} forms_row;

/* Begins a cell. */
static void forms__next(forms_row *w) {
    if (w->more) str_put(w->out, w->f->kind == FORMS_TSV ? "\t" : ",");
    w->more = true;
}

/* One cell, in quotes where it must be. */
static void forms__cell(forms_row *w, bytes b) {
    bool quote = false;
    forms__next(w);
    for (size_t i = 0; i < b.n; i++) quote = quote || memchr(w->f->kind == FORMS_TSV ? "\t\"\r\n" : ",\"\r\n", b.p[i], 4);
    if (quote) str_csv_quoted(w->out, b);
    else str_utf8(w->out, b);
}

static void forms__name(forms_row *w, const char *name) { forms__cell(w, bytes_of(name)); }

/* A JSON value: a string without its quotes, null and nothing as an empty cell, anything else as it is. */
static void forms__json(forms_row *w, bytes value) {
    str s = {0};
    value = bytes_trim(value);
    if (str_unquote(&s, value, false)) value = str_bytes(&s);
    else if (bytes_is(value, "null")) value = (bytes){0};
    forms__cell(w, value);
    str_drop(&s);
}

/* The name of a column that may be there already. */
static void forms__renamed(forms_row *w, const char *prefix, bytes name, bool taken) {
    str s = {0};
    if (taken) str_put(&s, prefix);
    str_cat(&s, name);
    forms__cell(w, str_bytes(&s));
    str_drop(&s);
}

static void forms__table_head(const forms_spec *f, str *out) {
    forms_row w = {.f = f, .out = out};
    forms__name(&w, "line");
    if (f->files) forms__name(&w, "file");
    forms__name(&w, "custom_id");
    forms__name(&w, "index");
    for (size_t i = 0; i < f->passed.n; i++) {
        const bytes name = str_bytes(&f->passed.at[i]);
        forms__renamed(&w, "input.", name, forms__own(name) || forms__has(&f->keys, name));
    }
    for (size_t i = 0; i < f->keys.n; i++)
        forms__renamed(&w, "answer.", str_bytes(&f->keys.at[i]), forms__own(str_bytes(&f->keys.at[i])));
    if (!f->keys.n) forms__name(&w, "text");
    forms__name(&w, "finish_reason");
    forms__name(&w, "prompt_tokens");
    forms__name(&w, "completion_tokens");
    forms__name(&w, "error");
    if (f->fields & REQ_PROMPT) forms__name(&w, "prompt");
    if (f->fields & REQ_SEED) forms__name(&w, "seed");
    if (f->fields & REQ_LOGPROB) forms__name(&w, "logprob");
    for (int i = 0; i < 3 && f->fields & REQ_TIMES; i++) forms__name(&w, forms__times[i]);
    if (f->parts) forms__name(&w, "reasoning_content"), forms__name(&w, "tool_calls");
    str_put(out, "\n");
}

static bool forms__is_number(bytes b) { return b.n && (isdigit(b.p[0]) || b.p[0] == '-'); }

/* A record, taken apart. */
typedef struct {
    bytes line, file, custom_id, error, prompt, seed, times, fields;   /* JSON values; empty: not there */
    bytes usage;
    bytes choices;                                    /* the list */
    long long n;                                      /* completions */
} forms_record;

static forms_record forms__read(bytes record) {
    forms_record r = {0};
    bytes        key = {0}, value, response = {0}, item;
    const struct {
        const char *name;
        bytes      *to;
    } members[] = {{"line", &r.line},     {"file", &r.file}, {"custom_id", &r.custom_id},
                   {"response", &response}, {"error", &r.error}, {"prompt", &r.prompt},
                   {"seed", &r.seed},     {"times", &r.times}, {"fields", &r.fields}};
    while (bytes_cut_member(&record, &key, &value))
        for (size_t i = 0; key.n > 2 && i < sizeof members / sizeof *members; i++)
            if (bytes_is((bytes){key.p + 1, key.n - 2}, members[i].name)) *members[i].to = value;
    const bytes body = bytes_member(response, "body");
    r.usage = bytes_member(body, "usage");
    r.choices = bytes_member(body, "choices");
    for (bytes rest = r.choices; bytes_cut_item(&rest, &item);) r.n++;
    return r;
}

/* The prompt of completion i: a text, or numbers of tokens with blanks between them. */
static void forms__prompt(forms_row *w, const forms_record *r, long long i) {
    bytes     rest = r->prompt, item = rest, one;
    long long n = 0, k = 0;
    if (bytes_cut_item(&rest, &one) && !forms__is_number(one)) {       /* several prompts, each with as many completions */
        for (rest = r->prompt; bytes_cut_item(&rest, &one);) n++;
        for (rest = r->prompt; k++ <= i / max_i64(r->n / n, 1) && bytes_cut_item(&rest, &item);) {}
    }
    rest = item;
    if (!bytes_cut_item(&rest, &one)) {
        forms__json(w, item);
        return;
    }
    forms__next(w);
    str_cat(w->out, one);
    while (bytes_cut_item(&rest, &one)) str_put(w->out, " "), str_cat(w->out, one);
}

/* The columns that were asked for by name, of completion i; choice empty: the line has an error. */
static void forms__fields(forms_row *w, const forms_record *r, bytes choice, long long i) {
    const forms_spec             *f = w->f;
    if (f->fields & REQ_PROMPT) forms__prompt(w, r, i);
    if (f->fields & REQ_SEED) {
        forms__next(w);
        const uint64_t seed = forms__is_number(r->seed) ? (uint64_t)strtoll((const char *)r->seed.p, NULL, 10) : 0;
        if (forms__is_number(r->seed)) str_fmt(w->out, "%lld", (long long)(seed + (uint64_t)i));
    }
    if (f->fields & REQ_LOGPROB) forms__json(w, bytes_member(choice, "logprob"));
    for (int k = 0; k < 3 && f->fields & REQ_TIMES; k++) forms__json(w, bytes_member(r->times, forms__times[k]));
    if (!f->parts) return;
    const bytes message = bytes_member(choice, "message");
    forms__json(w, bytes_member(message, "reasoning_content"));
    forms__json(w, bytes_member(message, "tool_calls"));
}

static bytes forms__content(bytes choice) {
    const bytes message = bytes_member(choice, "message");
    return message.n ? bytes_member(message, "content") : bytes_member(choice, "text");
}

/* The text of an answer, *known: it has one. Returns the JSON object that the text is; empty: it is none. */
static bytes forms__object(bytes choice, str *text, bool *known) {
    *known = str_unquote(text, forms__content(choice), false);
    const bytes object = *known ? bytes_trim(str_bytes(text)) : (bytes){0};
    return object.n && object.p[0] == '{' && bytes_is_json(object) ? object : (bytes){0};
}

/* The columns of an answer. False: it is not the object whose keys are columns; *text has what it is. */
static bool forms__answer(forms_row *w, bytes choice, str *text) {
    const forms_spec *f = w->f;
    bool              known;
    const bytes       object = forms__object(choice, text, &known);
    if (!f->keys.n) forms__cell(w, known ? str_bytes(text) : (bytes){0});
    for (size_t i = 0; i < f->keys.n; i++) forms__json(w, bytes_member(object, f->keys.at[i].p));
    return object.n || !f->keys.n;
}

/* The row of completion i; choice empty: that of an error. Tokens are those of all completions, and stand in the first row. */
static void forms__table_row(const forms_spec *f, const forms_record *r, bytes choice, long long i, str *out) {
    forms_row w = {.f = f, .out = out};
    str       text = {0}, why = {0};
    forms__json(&w, r->line);
    if (f->files) forms__json(&w, r->file);
    forms__json(&w, r->custom_id);
    forms__next(&w);
    if (choice.n) str_fmt(out, "%lld", i);
    for (size_t k = 0; k < f->passed.n; k++) forms__json(&w, bytes_member(r->fields, f->passed.at[k].p));
    const bool object = forms__answer(&w, choice, &text);
    forms__json(&w, bytes_member(choice, "finish_reason"));
    forms__json(&w, i ? (bytes){0} : bytes_member(r->usage, "prompt_tokens"));
    forms__json(&w, i ? (bytes){0} : bytes_member(r->usage, "completion_tokens"));
    if (!choice.n && str_unquote(&why, bytes_member(r->error, "code"), false)) {
        str_put(&why, ": ");
        str_unquote(&why, bytes_member(r->error, "message"), false);
    } else if (choice.n && !object) {
        str_put(&why, "no object: ");
        str_cat(&why, str_bytes(&text));
    }
    forms__cell(&w, str_bytes(&why));
    forms__fields(&w, r, choice, i);
    str_put(out, "\n");
    str_drop_all(&text, &why);
}

/* --- texts --- */

/* The exact bytes of an answer; its calls where it has nothing else. */
static void forms__text(const forms_spec *f, bytes choice, str *out) {
    const bytes exact = bytes_member(choice, "bytes");
    str         text = {0};
    str_put(&text, "");
    if (exact.n) str_unbase64(&text, exact);
    else if (!str_unquote(&text, forms__content(choice), false))
        str_cat(&text, bytes_member(bytes_member(choice, "message"), "tool_calls"));
    str_cat(out, str_bytes(&text));
    str_add(out, f->zero ? "" : "\n", 1);
    str_drop(&text);
}

/* Appends what stands before the first record. */
static void forms_head(const forms_spec *f, str *out) {
    if (f->kind == FORMS_LIST) str_put(out, "[");
    else if (f->kind != FORMS_TEXT) forms__table_head(f, out);
}

/* Appends a record, which is the first one or not. A line with an error is a row with its reason, or an empty text. */
static void forms_put(const forms_spec *f, bytes record, bool first, str *out) {
    const bytes  whole = bytes_trim(record);
    forms_record r = {0};
    bytes        choice = {0};
    if (f->kind == FORMS_LIST) str_put(out, first ? "\n" : ",\n"), str_cat(out, whole);
    if (f->kind == FORMS_LIST) return;
    r = forms__read(whole);
    for (long long i = 0; i < max_i64(r.n, 1); i++) {
        bytes_cut_item(&r.choices, &choice);
        if (f->kind == FORMS_TEXT) forms__text(f, choice, out);
        else forms__table_row(f, &r, choice, i, out);
    }
}

/* Appends what stands behind the last record. */
static void forms_tail(const forms_spec *f, str *out) { str_put(out, f->kind == FORMS_LIST ? "\n]\n" : ""); }

/* Adds the columns that a record has, for a table of records of which nothing is known. *texts: whether some answer is no
 * object; all answers have to be objects for their keys to be columns. */
static void forms_learn(forms_spec *f, bytes record, bool *texts) {
    static const char *const asked[] = {"prompt", "seed", "logprob", "times"};
    const bytes  whole = bytes_trim(record);
    forms_record r = forms__read(whole);
    bytes        choice;
    f->files = f->files || r.file.n;
    for (unsigned i = 0; i < 4; i++)
        if (bytes_member(whole, asked[i]).n) f->fields |= 1u << i;
    forms__add_members(&f->passed, r.fields);
    while (bytes_cut_item(&r.choices, &choice)) {
        str         text = {0};
        bool        known;
        const bytes object = forms__object(choice, &text, &known), message = bytes_member(choice, "message");
        f->parts = f->parts || bytes_member(message, "tool_calls").n || bytes_member(message, "reasoning_content").n;
        if (bytes_member(choice, "logprob").n) f->fields |= REQ_LOGPROB;
        if (object.n) forms__add_members(&f->keys, object);
        else *texts = true;
        str_drop(&text);
    }
    if (*texts) forms__drop_names(&f->keys);
}
