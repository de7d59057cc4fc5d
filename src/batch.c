/* ===== [batch] files of requests, one per line =====
 * Reads lines ahead, plans their order, asks the schedule, writes each answer as it ends. Lines and tokens read ahead are
 * bounded, however long the files are; short files are read whole.
 *   The plan: requests with a common prefix run one after the other, in the depth-first order of the trie of their tokens. So
 * every common prefix is computed once, and its blocks are kept only while later requests need them. Groups keep the order of
 * the file. A lower priority number comes first.
 *   A bad line becomes one record with an error. A line is answered once: whole, or not at all.
 *   Ordered results: a file is sorted when the last line is answered, so that a killed run loses nothing. On a stream
 * finished records wait in memory for those of earlier lines, and reading stops one window ahead of the first missing record.
 * Public: batch_defaults, batch_fields, batch_check, batch_export, batch_run.
 * Opens: batch_job, batch_opts. */

typedef struct {
    const char *order;                                /* plan, input */
    int         n_parallel;                           /* sequences in flight */
    bool        fixed;                                /* static batches, for comparison */
    bool        ordered;                              /* results in the order of the input */
    int         window;                               /* lines read ahead */
    uint64_t    line_bytes;                           /* longest line */
    const char *fields;                               /* what records hold beyond OpenAI's shape; NULL: nothing */
    float       cost;                                 /* of an hour of this machine, 0: not given */
    const char *shard;                                /* I/N, NULL: all of the file */
    const char *prompt;                               /* the template of prompts; NULL: lines are requests */
    const char *input;                                /* the form of the files, as table_form_of() takes it */
    const char *id_column;                            /* the column with the custom_id, NULL: custom_id */
    bool        dry;                                  /* the lines are read, and a sample of them runs for an estimate */
} batch_opts;

static const batch_opts batch_defaults = {.order = "plan", .n_parallel = 32, .window = 1024, .line_bytes = 16 << 20};

enum {
    BATCH_TOKENS = 16 << 20,                          /* tokens of prompts read ahead */
    BATCH_SAMPLE = 64,                                /* lines that a dry run measures at most, */
    BATCH_SAMPLE_LEAST = 8,                           /* and at least; else as many as run at a time */
    BATCH_SHOWN = 20,                                 /* wrong lines that it shows */
};
#define BATCH_SHOW_S 0.25                             /* seconds between two progress lines on a terminal */
#define BATCH_LOG_S 10.0                              /* and in a file or a pipe */

/* What is written: records as they are, or in a form of [forms]. Numbers, floats and NumPy's file of
 * floats are of vectors: a row for each text, in the order of the input. */
typedef enum { BATCH_RECORDS, BATCH_FORMS, BATCH_NUMBERS, BATCH_FLOATS, BATCH_NPY } batch_form;

enum { BATCH_PASSED = 256 };                          /* columns that are named to go through to the records */

/* Which columns of the input do. */
typedef struct {
    bool  all;
    bytes name[BATCH_PASSED];                         /* [n] */
    int   n;
} batch_pass;

/* What a run takes from the command line. */
typedef struct batch_job {
    const char *const *path;                          /* [n_paths] "-": standard input */
    int              n_paths;
    const char      *model_name;
    const gen_opts  *gen;
    const samp_opts *samp;
    uint64_t         seed;
    bool             own_seeds;                       /* a line without a seed has one of its own */
    bool             special;                         /* control tokens in prompts */
    int              bos;                             /* whether raw prompts get a start token, as for tok_start() */
    bool             json;                            /* the summary's form */
    batch_form       form;
    forms_spec      *forms;                           /* of BATCH_FORMS; columns that go through are added to it */
    out_t           *file;                            /* where they go when the run ends; NULL: with the results, at once */
    unsigned         fields;                          /* batch_fields() */
    batch_pass       pass;                            /* the same */
    table_template   prompt;                          /* without parts: lines are requests; the caller drops it */
    const chat      *chat;                            /* the model's template; NULL: there is none, as no_chat says */
    err_t            no_chat;
    bool             wrap;                            /* a plain line is the message of a user */
    str             *report;                          /* what a dry run has found */
    const embed_opts *embed;                          /* how vectors are made; NULL: none are */
    bool             vectors;                         /* lines ask for vectors; else for answers, but where their url does */
    const constrain_spec *hold;                       /* the constraint of lines that have none of their own; NULL: none */
    constrain_cache *holds;
} batch_job;

typedef struct {                                      /* the files of a run, one after the other */
    const char *const *path;                          /* [n] */
    int                n;                             /* files */
    int                i;                             /* path[i] is being read */
    uint64_t           line_bytes;
    lines_in          *in;                            /* NULL: the next file has not been opened */
    bool               known;                         /* the first line of this file has been seen */
    bool               json;                          /* its lines are JSON */
    bool               rows;                          /* it is CSV or TSV: its lines are rows of `table` */
    table_in           table;
    const batch_opts  *o;
    const struct batch_job *job;
    uint64_t           size;                          /* bytes of all files; 0 where one is no regular file */
    uint64_t           done;                          /* bytes of those that were read */
} batch_input;

typedef struct batch_line {
    ask_ready   a;
    double      t_read;
    uint64_t    no;                                   /* number of the line in its file, from 1 */
    results_line is;                                  /* which one, by its bytes */
    int         file;
    uint64_t    turn;                                 /* number of the line among those of all files, from 1 */
    uint64_t    first;                                /* the smallest turn of its group */
    int         place;                                /* place in the walk */
    int         keep;                                 /* positions that later lines share */
    int         n_asked;                              /* prompts whose completions have been asked for */
    int         n_ended;                              /* completions that have ended */
    gen_answer *answer;                               /* [a.q.n] NULL: none has been asked for */
    struct batch_line *next;                          /* in batch_work.begun */
} batch_line;

typedef struct {
    engine          *eng;
    const batch_opts *o;
    const batch_job *job;
    batch_input      in;
    results         *out;
    ask_env          env;
    sched           *sc;
    lines_shard      shard;
    batch_line     **line;                            /* [first, n) lines read and not yet begun */
    size_t           first;                           /* in `line` */
    size_t           n;                               /* after the last one in `line` */
    size_t           tokens;                          /* of their prompts */
    batch_line      *open;                            /* begun; some of its prompts have not been asked for */
    batch_line      *begun;                           /* in the schedule */
    bool             over;                            /* the last file has ended */
    bool             settled;                         /* the resumed results hold answers to its lines alone */
    table_values     values;                          /* where they are in the prompt */
    table_row        row;                             /* the cells of the line that is being read */
    str              rec;                             /* the record that is being written */
    bool             headed;                          /* the beginning of a stream of BATCH_FORMS is written */
    str             *held;                            /* [window] records that wait for an earlier line's; NULL: none do */
    bool            *ready;                           /* [window] the line has ended; its record may be empty */
    uint64_t         written;                         /* lines whose records are written, where they wait for each other */
    long long        n_read;                          /* lines read */
    long long        n_ok;                            /* of these, answered */
    long long        n_bad;                           /* with errors */
    long long        n_before;                        /* answered before */
    long long        n_other;                         /* left to other shards */
    long long        n_prompt;                        /* tokens of prompts, for each completion */
    long long        n_gen;                           /* tokens of answers */
    long long        n_most;                          /* tokens that the good lines of a dry run may take for answers */
    long long        n_wanted;                        /* the most tokens that the lines read so far may take */
    long long        n_cut;                           /* texts that were cut to the model's limit */
    long long        n_rows;                          /* of vectors */
    long long        n_unfinished;                    /* completions that have ended before their constraint was met */
    long long        n_looped;                        /* that have ended because they repeated themselves */
    long long        n_good;                          /* lines that a dry run has found good */
    long long        n_shortest, n_longest;           /* tokens of their shortest and longest prompts */
    long long        n_begun;                         /* raw prompts that begin with the start token themselves */
    double           t0;                              /* clock_now() when the run began */
    double           t_shown;                         /* when progress was shown */
    long long        shown_prefill;                   /* tokens that were computed then */
    long long        shown_written;                   /* tokens that were written then */
} batch_work;

static void batch__line_free(batch_line *l) {
    for (int i = 0; l->answer && i < l->a.q.n; i++) gen_answer_drop(&l->answer[i]);
    mem_free(l->answer);
    ask_drop(&l->a);
    mem_free(l);
}

/* Reads what --batch-fields says into `fields`, bits of REQ_PROMPT and so on, and `pass`: "prompt,seed", and names of columns
 * or all, where prompts are made of columns. */
static bool batch_fields(const batch_opts *o, batch_job *job, err_t *e) {
    static const char *const names[] = {"prompt", "seed", "logprob", "times"};
    const char *text = o->fields;
    while (text && *text) {
        const bytes name = {(const uint8_t *)text, strcspn(text, ",")};
        unsigned    bit = 0;
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
            if (bytes_is(name, names[i])) bit = 1u << i;
        if (!bit && !o->prompt)
            return err_set(e, EXIT_INPUT,
                           "--batch-fields: found '%.*s', expected some of prompt, seed, logprob and times, "
                           "with commas between them (beside --prompt-template names of columns, or all)",
                           (int)min_size(name.n, 100), text);
        job->fields |= bit;
        if (!bit && bytes_is(name, "all")) job->pass.all = true;
        else if (!bit && job->pass.n == BATCH_PASSED)
            return err_set(e, EXIT_INPUT, "--batch-fields: more than %d columns, expected fewer, or all", BATCH_PASSED);
        else if (!bit) job->pass.name[job->pass.n++] = name;
        text += name.n + (text[name.n] == ',');
    }
    return true;
}

/* --- lines in --- */

static bool batch__is_file(const char *path) {
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether it can be read once: standard input, a pipe or a device. */
static bool batch__is_stream(const char *path) {
    struct stat st;
    return strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* Opens every regular file once, so that a missing one is an error before the first line is answered. */
static bool batch__input_init(batch_input *in, const batch_job *job, const batch_opts *o, err_t *e) {
    bool sized = true;
    *in = (batch_input){.path = job->path, .n = job->n_paths, .line_bytes = o->line_bytes, .o = o, .job = job};
    for (int i = 0; i < in->n; i++) {
        if (batch__is_stream(in->path[i])) sized = false;
        else {
            lines_in *one = lines_open(in->path[i], o->line_bytes, e);
            if (!one) return false;
            in->size += one->size;
            lines_close(one);
        }
    }
    if (!sized) in->size = 0;
    return true;
}

/* Whether a line opens a JSON array of objects, or of anything on later lines. A prompt may begin with a bracket. */
static bool batch__opens_array(bytes line, size_t i) {
    if (line.p[i] != '[') return false;
    for (i++; i < line.n && isspace(line.p[i]);) i++;
    return i == line.n || line.p[i] == '{';
}

/* Whether the columns that the options name are among those of the file. */
static bool batch__has_columns(const batch_input *in, const table_row *columns, err_t *e) {
    const batch_pass *pass = &in->job->pass;
    const char       *option = NULL;
    bytes             name = {0};
    str               names = {0};
    for (size_t i = 0; !option && i < in->job->prompt.n; i++) {
        const table_part *p = &in->job->prompt.part[i];
        if (p->column && !table_find(columns, name = p->text)) option = "--prompt-template";
    }
    if (in->o->id_column && !option && !table_find(columns, name = bytes_of(in->o->id_column))) option = "--id-column";
    for (int i = 0; !option && in->rows && i < pass->n; i++)
        if (!table_find(columns, name = pass->name[i])) option = "--batch-fields";
    if (!option) return true;
    table_names(columns, &names);
    err_set(e, EXIT_INPUT, "%s: no column '%.*s' in %s, expected one of %.300s", option, utf8_head(name, 100),
            (const char *)name.p, in->in->name, names.p);
    str_drop(&names);
    return false;
}

/* The same of the first line of JSON, where it is an object; one that is none is an error of its line. */
static bool batch__first_object(const batch_input *in, bytes line, err_t *e) {
    table_row row = {0};
    err_t     none = {0};
    const bool ok = !table_object(line, &row, &none) || batch__has_columns(in, &row, e);
    table_row_drop(&row);
    return ok;
}

/* Finds the kind of a file by its first line that is not blank. False: it has no lines of requests. */
static bool batch__kind(batch_input *in, bytes line, uint64_t no, err_t *e) {
    const table_form form = table_form_of(in->o->input, in->path[in->i]);
    const char      *kind = no == 1 && !in->rows ? bytes_kind(line) : NULL;
    size_t           i = 0;
    in->known = true;
    if (in->rows) return batch__has_columns(in, &in->table.head, e);
    while (i < line.n && isspace(line.p[i])) i++;
    in->json = form == TABLE_JSONL || (form == TABLE_AUTO && line.p[i] == '{');
    if (kind)
        return err_set(e, EXIT_INPUT, "%s: is %s, expected a text file with a request on each line", in->in->name, kind);
    if (in->job->prompt.n && in->json && !batch__first_object(in, line, e)) return false;
    return form == TABLE_TEXT || !batch__opens_array(line, i) ||
           err_set(e, EXIT_INPUT,
                   "%s: is a JSON array, expected JSON Lines: each object on a line of its own (jq -c '.[]' makes them)",
                   in->in->name);
}

/* Opens file in->i. */
static bool batch__open_file(batch_input *in, err_t *e) {
    const table_form form = table_form_of(in->o->input, in->path[in->i]);
    in->rows = form == TABLE_CSV || form == TABLE_TSV;
    table_drop(&in->table);
    table_init(&in->table, form);
    if (in->rows && !in->job->prompt.n)
        return err_set(e, EXIT_INPUT,
                       "%s: is a file of columns, expected --prompt-template 'text with {COLUMN}', which makes a prompt of "
                       "each row (--input-format text reads it line by line)",
                       in->path[in->i]);
    return (in->in = lines_open(in->path[in->i], in->line_bytes, e)) != NULL;
}

static bool batch__blank(bytes line) {
    for (size_t i = 0; i < line.n; i++)
        if (!strchr(" \t\r\v\f", line.p[i]) || !line.p[i]) return false;
    return true;
}

/* The next line that is not blank, of whichever file. */
static lines_got batch__next(batch_input *in, bool wait, bytes *line, uint64_t *no, err_t *e) {
    for (; in->i < in->n; in->i++) {
        lines_got got = LINES_LINE;
        if (!in->in && !batch__open_file(in, e)) return LINES_FAILED;
        while (got == LINES_LINE) {
            got = in->rows ? table_next(&in->table, in->in, wait, line, e) : lines_next(in->in, wait, line, no, e);
            if (in->rows) *no = in->table.n_rows;
            if (got == LINES_LINE && !in->rows && batch__blank(*line)) continue;
            if (got == LINES_LINE && !in->known && !batch__kind(in, *line, *no, e)) return LINES_FAILED;
            if (got != LINES_END) return got;
        }
        in->done += in->in->size;
        lines_close(in->in);
        in->in = NULL;
        in->known = false;
    }
    return LINES_END;
}

static void batch__input_drop(batch_input *in) {
    lines_close(in->in);
    table_drop(&in->table);
    in->in = NULL;
}

/* Whether regular files begin like files of requests; asked before the results are begun. */
static bool batch_check(const batch_job *job, const batch_opts *o, err_t *e) {
    for (int i = 0; i < job->n_paths && !e->code; i++) {
        batch_input in = {.path = &job->path[i], .n = 1, .line_bytes = o->line_bytes, .o = o, .job = job};
        bytes       line;
        uint64_t    no;
        if (batch__is_stream(job->path[i])) continue;
        batch__next(&in, true, &line, &no, e);
        batch__input_drop(&in);
    }
    return !e->code;
}

/* Number of a file in the results, where there are several; 0 where there is one. */
static uint64_t batch__file_key(const batch_input *in, int file) { return in->n > 1 ? results_file(in->path[file]) : 0; }

static req_origin batch__origin(const batch_work *b, const batch_line *l) {
    return (req_origin){.line = l->no, .digest = l->is.is, .file = b->in.n > 1 ? b->in.path[l->file] : NULL,
                        .model_name = b->job->model_name, .fingerprint = b->out->fingerprint.p,
                        .created = (int64_t)time(NULL), .fields = b->job->fields, .ids = l->a.ids};
}

/* Writes records up to the first line whose record is missing; all: those after it too. */
static bool batch__release(batch_work *b, bool all, err_t *e) {
    const uint64_t window = (uint64_t)b->o->window, read = (uint64_t)b->n_read;
    bool           ok = true;
    for (; ok && b->written < read && (all || b->ready[b->written % window]); b->written++) {
        str *held = &b->held[b->written % window];
        if (held->n) ok = results_put(b->out, str_bytes(held), e);
        str_drop(held);
        b->ready[b->written % window] = false;
    }
    return ok;
}

/* Whether records are written in another form as they come. */
static bool batch__converts(const batch_job *job) { return job->form == BATCH_FORMS && !job->file; }

/* Begins a stream of records in another form. */
static bool batch__head(batch_work *b, err_t *e) {
    str  head = {0};
    bool ok = true;
    if (b->headed) return true;
    forms_head(b->job->forms, &head);
    if (head.n && (ok = results_put(b->out, str_bytes(&head), e))) b->out->n_new--;
    str_drop(&head);
    return b->headed = ok;
}

/* Writes b->rec in another form. */
static bool batch__convert(batch_work *b, err_t *e) {
    str form = {0};
    if (!batch__head(b, e)) return false;
    forms_put(b->job->forms, str_bytes(&b->rec), false, &form);
    str_drop(&b->rec);
    b->rec = form;
    return true;
}

/* A line has ended; its record, if there is one, is in b->rec. */
static bool batch__put(batch_work *b, uint64_t turn, err_t *e) {
    if (b->rec.n && batch__converts(b->job) && !batch__convert(b, e)) return false;
    if (b->held) {
        const size_t at = (size_t)((turn - 1) % (uint64_t)b->o->window);
        b->held[at] = b->rec;
        b->ready[at] = true;
        b->rec = (str){0};
        return batch__release(b, false, e);
    }
    const bool ok = !b->rec.n || results_put(b->out, str_bytes(&b->rec), e);
    str_clear(&b->rec);
    return ok;
}

/* Whether another line may be read. */
static bool batch__has_place(const batch_work *b) {
    if (b->held && (uint64_t)b->n_read - b->written >= (uint64_t)b->o->window) return false;
    return b->n - b->first < (size_t)b->o->window && b->tokens < BATCH_TOKENS;
}

/* The rows of a line with an error, which keep the others in their places: empty lines, or NaN. */
static void batch__no_vectors(batch_work *b, const batch_line *l, const char *why) {
    const int   rows = max_int(l->a.q.n, 1), width = embed_width(&b->eng->m, b->job->embed);
    const float none = NAN;
    log_warn("%s: line %llu: %s", b->in.path[l->file], (unsigned long long)l->no, why);
    b->n_rows += rows;
    for (int i = 0; i < rows; i++) {
        if (b->job->form == BATCH_NUMBERS) str_put(&b->rec, "\n");
        for (int k = 0; k < width && b->job->form >= BATCH_FLOATS; k++) str_add(&b->rec, &none, sizeof none);
    }
}

static void batch__vectors(batch_work *b, const batch_line *l) {
    for (int i = 0; i < l->a.q.n; i++) {
        const gen_answer *a = &l->answer[i];
        b->n_rows += a->n_vec;
        if (b->job->form == BATCH_NUMBERS) embed_put_text(a->vec, a->n_vec, a->width, &b->rec);
        else str_add(&b->rec, a->vec, (size_t)a->n_vec * (size_t)a->width * sizeof *a->vec);
    }
}

static bool batch__fail(batch_work *b, const batch_line *l, const char *code, const char *why, err_t *e) {
    const req_origin o = batch__origin(b, l);
    b->n_bad++;
    if (b->job->form == BATCH_FORMS ? b->job->forms->kind == FORMS_TEXT : b->o->dry && b->n_bad <= BATCH_SHOWN)
        log_warn("%s: line %llu: %s", b->in.path[l->file], (unsigned long long)l->no, why);
    if (b->job->form >= BATCH_NUMBERS) batch__no_vectors(b, l, why);
    else req_print_error(&l->a.q, &o, code, why, &b->rec);
    return batch__put(b, l->turn, e);
}

/* Lines that a dry run measures. */
static size_t batch__sample(const batch_work *b) {
    return (size_t)max_int(min_int(b->o->n_parallel, BATCH_SAMPLE), BATCH_SAMPLE_LEAST);
}

/* A dry run keeps a sample in which each of the lines so far is as likely as another one. */
static void batch__pick(batch_work *b, batch_line *l) {
    const uint64_t place = (uint64_t)b->n_good++;
    const size_t   most = batch__sample(b);
    b->n_longest = max_i64(b->n_longest, (long long)l->a.n_ids);
    b->n_shortest = place ? min_i64(b->n_shortest, (long long)l->a.n_ids) : (long long)l->a.n_ids;
    l->keep = INT_MAX;
    if (place < most) {
        MEM_PUSH(b->line, b->n, l);
        return;
    }
    const uint64_t at = rng_mix(place) % (place + 1);
    if (at < most) {
        batch_line *out = b->line[at];
        b->line[at] = l;
        l = out;
    }
    batch__line_free(l);
}

/* The most tokens that the answers to a line may have. */
static long long batch__most(const batch_work *b, const batch_line *l) {
    const int64_t most = l->a.q.ask.embeds ? 0 : l->a.q.ask.gen.n_predict;
    return (most >= 0 && most < b->eng->n_ctx ? most : b->eng->n_ctx) * l->a.q.n;
}

static void batch__queue(batch_work *b, batch_line *l) {
    l->keep = INT_MAX;
    b->n_wanted += batch__most(b, l) + (long long)l->a.n_ids;
    b->n_most += batch__most(b, l);
    b->n_prompt += (long long)l->a.n_ids * l->a.q.ask.n;
    if (b->o->dry) batch__pick(b, l);
    else {
        b->tokens += l->a.n_ids;
        MEM_PUSH(b->line, b->n, l);
    }
}

/* The first message of a chat as far as a group of lines goes by it. */
static bytes batch__first_message(const req *q, str *own) {
    const val text = val_get(val_get(q->input.vars, "messages").list->at[0], "content");
    str_add(own, "", 0);
    if (text.kind == VAL_STR) val_utf8(val_sub(text.s, 0, text.s.n < LINES_ALIKE ? text.s.n : LINES_ALIKE), own);
    return str_bytes(own);
}

/* Whether a line is of this shard; its first prompt decides, or all of a bad line. */
static bool batch__is_mine(batch_work *b, const req *q, bytes line, bool bad) {
    str   own = {0};
    bytes key = line;
    if (!b->o->shard) return true;
    if (!bad && q->chat) key = batch__first_message(q, &own);
    else if (!bad && q->prompt[0].ids.n)
        key = (bytes){(const uint8_t *)q->prompt[0].ids.id, q->prompt[0].ids.n * sizeof *q->prompt[0].ids.id};
    else if (!bad) key = q->prompt[0].text;
    const bool mine = lines_shard_is_mine(&b->shard, key);
    str_drop(&own);
    return mine;
}

/* Whether an earlier line has the same custom_id. To be asked once for each line. */
static bool batch__is_twice(batch_work *b, const batch_line *l) {
    return l->a.q.has_id && !results_add_id(b->out, batch__file_key(&b->in, l->file), l->a.q.custom_id);
}

/* Whether a line is answered by the results that are resumed. */
static bool batch__has(batch_work *b, const batch_line *l, bool twice) {
    return results_use_old(b->out, batch__file_key(&b->in, l->file), l->no, l->is, l->a.q.has_id && !twice);
}

/* The seed of a line whose body has none. */
static uint64_t batch__seed(const batch_work *b, const batch_line *l) {
    const uint64_t file = b->in.n > 1 ? max_u64(bytes_hash(0, bytes_of(b->in.path[l->file])), 1) : 0;
    if (!b->job->own_seeds) return b->job->seed;
    return rng_mix(b->job->seed ^ l->no ^ file) >> 1; /* -s takes 63 bits */
}

/* Which line it is, for its record; the head of one that is too long stands for it. The digest of a row has as its key that of
 * the names of the columns, in hex. */
static results_line batch__which(const batch_input *in, bytes line, bool is_long) {
    return (results_line){bytes_digest(bytes_of(in->rows ? in->table.digest : ""), line),
                          bytes_hash(in->rows && !is_long ? in->table.hash : 0, line)};
}

/* The cells of a line of a file with --prompt-template. False: it has none, why is set and row is empty. */
static bool batch__cells(const batch_input *in, bytes line, table_row *row, err_t *why) {
    if (in->rows) return table_cells(&in->table, line, row, why);
    if (in->json) return table_object(line, row, why);
    return table_text(line, row), true;
}

/* What --id-column names, else the column custom_id. */
static bytes batch__row_id(const batch_input *in, const table_row *row) {
    const table_cell *c = table_find(row, bytes_of(in->o->id_column ? in->o->id_column : "custom_id"));
    return c ? table_value(row, (size_t)(c - row->cell)) : (bytes){0};
}

/* The columns that go through to the record, as a JSON object; empty: none do. */
static void batch__passed(const batch_pass *pass, const table_row *row, str *out) {
    jw w = jw_tight(out);
    if (!row->n || (!pass->all && !pass->n)) return;
    jw_open(&w, NULL, '{');
    for (size_t i = 0; pass->all && i < row->n; i++) {
        if (table_find(row, table_name(row, i)) != &row->cell[i]) continue;
        jw_member(&w, table_name(row, i));
        table_json(row, &row->cell[i], out);
        w.more = true;
    }
    for (int i = 0; !pass->all && i < pass->n; i++) {
        const table_cell *c = table_find(row, pass->name[i]);
        jw_member(&w, pass->name[i]);
        if (c) table_json(row, c, out);
        else str_put(out, "null");
        w.more = true;
    }
    jw_close(&w, '}');
}

/* The first row with columns names those that go through, where all do. */
static void batch__columns(const batch_work *b) {
    const table_row *row = b->in.rows ? &b->in.table.head : &b->row;
    forms_spec      *f = b->job->forms;
    for (size_t i = 0; f && b->job->pass.all && !b->headed && f->passed.n < row->n; i++) forms_add(f, table_name(row, i));
}

/* Reads a line of a file with --prompt-template, as req_read() reads a request. */
static bool batch__read_row(batch_work *b, req *q, bytes line, const req_form *form, err_t *why) {
    str        text = {0}, passed = {0};
    const bool ok = batch__cells(&b->in, line, &b->row, why) && table_fill(&b->job->prompt, &b->row, &text, &b->values, why);
    batch__columns(b);
    batch__passed(&b->job->pass, &b->row, &passed);
    req_read_text(q, str_bytes(&text), ok, batch__row_id(&b->in, &b->row), form);
    q->passed = str_bytes(&passed);
    if (ok && !q->chat) {
        req_prompt *p = q->prompt;
        p->data = mem_new(b->values.n, sizeof *p->data);
        for (; p->n_data < b->values.n; p->n_data++)
            p->data[p->n_data] = (tok_span){b->values.at[p->n_data][0], b->values.at[p->n_data][1]};
    }
    str_drop(&text);
    return ok;
}

/* Whether the output has places for texts alone: a table, or nothing but texts. */
static bool batch__writes_texts(const batch_work *b) {
    return b->job->form == BATCH_FORMS && b->job->forms->kind != FORMS_LIST;
}

/* Takes in a line: it waits to be begun, or its error is written. False: writing failed. */
static bool batch__take(batch_work *b, bytes line, uint64_t no, err_t *e) {
    batch_line *l = mem_new(1, sizeof *l);
    const char *code = NULL;
    err_t       why = {0};
    bool        ok = true;
    *l = (batch_line){.t_read = clock_now(), .no = no, .file = b->in.i, .turn = (uint64_t)b->n_read,
                      .is = batch__which(&b->in, line, false)};
    gen_request base = gen_ask(NULL, b->job->gen, b->job->samp, batch__seed(b, l));
    if (b->job->vectors) base.embeds = true, base.embed = *b->job->embed;
    const req_form form = {.base = &base, .n_vocab = b->eng->m.hp.n_vocab, .json = b->in.json, .wrap = b->job->wrap,
                           .hold = b->job->hold, .embed = batch__writes_texts(b) ? NULL : b->job->embed};
    if (b->job->prompt.n ? !batch__read_row(b, &l->a.q, line, &form, &why) : !req_read(&l->a.q, line, &form, &why))
        code = l->a.q.fault ? l->a.q.fault : req_invalid;
    const bool twice = batch__is_twice(b, l);
    if (twice)
        code = "duplicate_custom_id", why.code = 0, err_set(&why, EXIT_INPUT, "an earlier line has the same custom_id");
    const bool mine = batch__is_mine(b, &l->a.q, line, code != NULL);
    const bool before = batch__has(b, l, twice);
    b->n_other += !mine;
    b->n_before += mine && before;
    if (mine && !before) {
        if (!code) code = ask_make(&b->env, &l->a, &why);
        b->n_cut += l->a.n_cut;
        b->n_begun += l->a.n_begun;
        if (!code) return batch__queue(b, l), true;
        ok = batch__fail(b, l, code, why.text, e);
    } else ok = batch__put(b, l->turn, e);
    batch__line_free(l);
    return ok;
}

/* The same for a line that is too long to be read, of which there is the head. */
static bool batch__take_long(batch_work *b, bytes head, uint64_t no, err_t *e) {
    batch_line       l = {.no = no, .file = b->in.i, .turn = (uint64_t)b->n_read,
                           .is = batch__which(&b->in, head, true)};
    const bytes      key = {(const uint8_t *)&no, sizeof no};
    char             why[128];
    req_read_id(&l.a.q, head);
    const bool twice = batch__is_twice(b, &l);
    const bool mine = batch__is_mine(b, &l.a.q, key, true), before = batch__has(b, &l, twice);
    snprintf(why, sizeof why, "a line of more than %llu bytes (--batch-line)", (unsigned long long)b->o->line_bytes);
    b->n_other += !mine;
    b->n_before += mine && before;
    const bool ok = mine && !before ? batch__fail(b, &l, "line_too_long", why, e) : batch__put(b, l.turn, e);
    req_drop(&l.a.q);
    return ok;
}

/* Reads ahead until the window is full. wait: the caller has nothing else to do. False: an error in e, or the
 * output is closed. */
static bool batch__refill(batch_work *b, bool wait, err_t *e) {
    const size_t had = b->n;
    while (!b->over && !g_interrupt && batch__has_place(b)) {
        bytes           line;
        uint64_t        no;
        const lines_got got = batch__next(&b->in, wait && b->n == had, &line, &no, e);
        if (got == LINES_FAILED) return false;
        if (got == LINES_LATER) break;
        if (got == LINES_END) {
            b->over = true;
            break;
        }
        b->n_read++;
        if (got == LINES_LONG ? !batch__take_long(b, line, no, e) : !batch__take(b, line, no, e)) return false;
    }
    return true;
}

/* --- the results that a run goes on with --- */

/* A line is asked for as batch__take() does it, without reading more of it than its custom_id. */
static void batch__claim(batch_work *b, const batch_input *in, bytes line, uint64_t no, bool is_long) {
    const uint64_t file = batch__file_key(in, in->i);
    req            q = {0};
    err_t          none = {0};
    if (in->job->prompt.n && !is_long) {
        batch__cells(in, line, &b->row, &none);
        req_read_text(&q, (bytes){0}, false, batch__row_id(in, &b->row), NULL);
    } else if (in->json || is_long) req_read_id(&q, line);
    const bool first = q.has_id && results_add_id(b->out, file, q.custom_id);
    results_use_old(b->out, file, no, batch__which(in, line, is_long), first);
    req_drop(&q);
}

/* Files that can be read twice are read to their ends before the first line is answered: what answers none of
 * their lines is moved to FILE.stale now, with a warning. Else that is done after the last line. */
static bool batch__settle(batch_work *b, err_t *e) {
    batch_input again = b->in;                        /* nothing of it has been read */
    bytes       line;
    uint64_t    no;
    lines_got   got;
    if (!b->out->n_old) return true;
    for (int i = 0; i < again.n; i++)
        if (!batch__is_file(again.path[i])) return true;
    while ((got = batch__next(&again, true, &line, &no, e)) == LINES_LINE || got == LINES_LONG) {
        if (g_interrupt) break;
        batch__claim(b, &again, line, no, got == LINES_LONG);
    }
    batch__input_drop(&again);
    results_reset_ids(b->out);
    b->settled = got == LINES_END && results_move_stale(b->out, e);
    return b->settled;
}

/* --- the plan --- */

static int batch__alike(const tok_ids *x, const tok_ids *y) {
    size_t n = 0;
    while (n < x->n && n < y->n && x->id[n] == y->id[n]) n++;
    return (int)n;
}

static int batch__by_tokens(const void *pa, const void *pb) {
    const batch_line *x = *(batch_line *const *)pa, *y = *(batch_line *const *)pb;
    const tok_ids    *xi = &x->a.ids[0], *yi = &y->a.ids[0];
    const size_t      n = (size_t)batch__alike(xi, yi);
    if (x->a.q.priority != y->a.q.priority) return x->a.q.priority < y->a.q.priority ? -1 : 1;
    if (n < xi->n && n < yi->n) return xi->id[n] < yi->id[n] ? -1 : 1;
    if (xi->n != yi->n) return xi->n < yi->n ? -1 : 1;
    return x->turn < y->turn ? -1 : x->turn > y->turn;
}

static int batch__by_turn(const void *pa, const void *pb) {
    const batch_line *x = *(batch_line *const *)pa, *y = *(batch_line *const *)pb;
    if (x->a.q.priority != y->a.q.priority) return x->a.q.priority < y->a.q.priority ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->place - y->place;
}

/* Orders the lines that wait. Lines whose prompts share a block are a group. */
static void batch__plan(batch_work *b) {
    const size_t n = b->n - b->first;
    const int    block = b->eng->kv->opts.block;
    batch_line **l = b->line;
    if (n) memmove(l, l + b->first, n * sizeof *l);
    b->first = 0;
    b->n = n;
    if (!n || strcmp(b->o->order, "plan") != 0) return;
    const bool all = b->eng->kept != NULL;            /* a file keeps the prompts for the next run */
    qsort(l, n, sizeof *l, batch__by_tokens);
    for (size_t i = 0, end; i < n; i = end) {
        uint64_t first = l[i]->turn;
        l[i]->keep = all ? INT_MAX : 0;
        for (end = i + 1; end < n && l[end]->a.q.priority == l[i]->a.q.priority; end++) {
            const int same = batch__alike(&l[end - 1]->a.ids[0], &l[end]->a.ids[0]);
            if (same < block) break;
            const int keep = (same + block - 1) / block * block;
            l[end - 1]->keep = max_int(l[end - 1]->keep, keep);
            l[end]->keep = all ? INT_MAX : b->over ? 0 : keep;        /* lines not read yet may share it */
            first = min_u64(first, l[end]->turn);
        }
        for (size_t k = i; k < end; k++) l[k]->first = first, l[k]->place = (int)k;
    }
    qsort(l, n, sizeof *l, batch__by_turn);
}

/* --- answers out --- */

/* Asks for the completions of a line's next prompt. */
static bool batch__ask(batch_work *b, batch_line *l, err_t *e) {
    gen_request r = ask_request(&l->a, l->n_asked++, l);
    r.keep = l->a.q.n_prompt > 1 ? INT_MAX : l->keep;
    r.logprobs = r.logprobs || b->job->fields & REQ_LOGPROB;
    if (!l->answer) {
        l->answer = mem_new((size_t)l->a.q.n, sizeof *l->answer);
        l->next = b->begun;
        b->begun = l;
    }
    return sched_add(b->sc, &r, e) != NULL;
}

/* Times of a line: when reading its first prompt began, the first token of any completion, the last one of all. */
static req_times batch__times(const batch_line *l) {
    req_times t = {(double)INFINITY, (double)INFINITY, (double)INFINITY};
    double    last = 0;
    for (int i = 0; l->answer && i < l->a.q.n; i++) {
        const gen_answer *a = &l->answer[i];
        if (a->t_start > 0) t.queued = fmin(t.queued, a->t_start - l->t_read);
        if (a->n_tok) t.first = fmin(t.first, a->t_first - l->t_read);
        if (a->t_last > 0) last = fmax(last, a->t_last - l->t_read);
    }
    if (last > 0) t.total = last;
    return t;
}

/* The answers where no token is wanted: empty texts. */
static void batch__answer_nothing(batch_line *l) {
    l->answer = mem_new((size_t)l->a.q.n, sizeof *l->answer);
    for (int i = 0; i < l->a.q.n; i++) l->answer[i].finish = GEN_LENGTH, str_put(&l->answer[i].text, "");
}

/* Writes the record of a line: the texts of its completions, or their first error. */
static bool batch__record(batch_work *b, batch_line *l, const req_origin *o, err_t *e) {
    for (int i = 0; i < l->a.q.n; i++) {
        err_t *why = &l->answer[i].err;
        if (!why->code) continue;
        ask_hide_paths(&b->env, why);
        return batch__fail(b, l, ask_error_code(why), why->text, e);
    }
    chat_answer *said = ask_parts(&l->a, l->answer);
    b->n_ok++;
    if (b->job->form >= BATCH_NUMBERS) batch__vectors(b, l);
    else req_print(&l->a.q, l->answer, said, o, b->eng->v, &b->rec);
    for (int i = 0; said && i < l->a.q.n; i++) chat_answer_drop(&said[i]);
    mem_free(said);
    return batch__put(b, l->turn, e);
}

/* Writes a line's record and frees the line. */
static bool batch__answer(batch_work *b, batch_line *l, err_t *e) {
    req_origin o = batch__origin(b, l);
    o.n_prompt = (int)l->a.n_ids;
    o.times = batch__times(l);
    for (int i = 0; i < l->a.q.n; i++) {
        const gen_answer *a = &l->answer[i];
        if (a->finish == GEN_FAILED) continue;
        if (i % l->a.q.ask.n == 0) o.n_cached += a->n_cached;
        b->n_gen += a->n_tok;
        b->n_unfinished += a->unfinished;
        b->n_looped += a->finish == GEN_LOOPED;
    }
    const bool   ok = batch__record(b, l, &o, e);
    batch_line **at = &b->begun;
    while (*at && *at != l) at = &(*at)->next;
    if (*at) *at = l->next;
    batch__line_free(l);
    return ok;
}

/* The line that waits longest begins: it becomes b->open, or its error is written; after an interrupt neither. False: writing
 * failed. */
static bool batch__open(batch_work *b, err_t *e) {
    batch_line *l = b->line[b->first++];
    err_t       why = {0};
    b->tokens -= l->a.n_ids;
    if (ask_hold(&b->env, &l->a, &why)) return b->open = l, true;
    const bool ok = g_interrupt || batch__fail(b, l, ask_error_code(&why), why.text, e);
    batch__line_free(l);
    return ok;
}

/* Gives lines to the schedule as long as it has room. */
static bool batch__feed(batch_work *b, err_t *e) {
    while (sched_has_room(b->sc) && !g_interrupt) {
        if (!b->open && b->first == b->n) return true;
        if (!b->open && !batch__open(b, e)) return false;
        if (!b->open) continue;
        batch_line *l = b->open;
        if (!l->a.q.ask.embeds && l->a.q.ask.gen.n_predict == 0) {
            b->open = NULL;
            batch__answer_nothing(l);
            if (!batch__answer(b, l, e)) return false;
            continue;
        }
        if (!batch__ask(b, l, e)) return false;
        if (l->n_asked == l->a.q.n_prompt) b->open = NULL;
    }
    return true;
}

static bool batch__collect(batch_work *b, err_t *e) {
    for (gen_answer a; sched_take(b->sc, &a);) {
        batch_line *l = a.owner;
        l->answer[a.index] = a;
        if (++l->n_ended == l->a.q.n && !batch__answer(b, l, e)) return false;
    }
    return true;
}

/* --- progress and summary --- */

/* Seconds until the end, by the lines done so far; -1: not known. */
static double batch__left(const batch_work *b, double now) {
    const double done = (double)(b->n_ok + b->n_bad), had = (double)(b->n_before + b->n_other);
    double       all = (double)b->n_read - had;
    const uint64_t at = b->in.done + (b->in.in ? b->in.in->at : 0);
    if (!b->over && (!b->in.size || !at)) return -1;
    if (!b->over) all *= (double)b->in.size / (double)at;
    return done > 0 ? (now - b->t0) * (all - done) / done : -1;
}

static void batch__progress(batch_work *b) {
    const double       now = clock_now(), gone = now - b->t_shown;
    const bool         tty = progress_on();
    const sched_stats *st = &b->sc->st;
    if (g_log_level < LOG_NORMAL || gone < (tty ? BATCH_SHOW_S : BATCH_LOG_S)) return;
    const double left = batch__left(b, now), seen = (double)(st->prefill + st->cached);
    const size_t waiting = b->n - b->first + (size_t)b->sc->n_waiting;
    char eta[32] = "";
    if (left >= 0) snprintf(eta, sizeof eta, " | %.0f:%02d left", floor(left / 60), (int)fmod(left, 60));
    char line[256];
    snprintf(line, sizeof line, "%lld done, %d running, %zu waiting%s | %.0f tokens/s read, %.0f written | %.0f %% shared%s",
             b->n_ok + b->n_bad, b->sc->n_run, waiting, b->over ? "" : "+", (double)(st->prefill - b->shown_prefill) / gone,
             (double)(st->written - b->shown_written) / gone, seen > 0 ? 100 * (double)st->cached / seen : 0.0, eta);
    if (tty) progress_show("%s", line);
    else log_warn("%s", line);
    b->t_shown = now;
    b->shown_prefill = st->prefill;
    b->shown_written = st->written;
}

typedef struct {                                      /* one figure of the summary */
    const char *name;
    double      v;
} batch_figure;

/* Seconds at three percentiles; null where nothing was timed. */
static void batch__percentiles_json(jw *w, const char *key, const hist *h) {
    static const struct {
        const char *key;
        double      at;
    } rows[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}};
    jw_open(w, key, '{');
    for (int i = 0; i < 3; i++) jw_number(w, rows[i].key, 6, h->all ? hist_at(h, rows[i].at) : (double)NAN);
    jw_close(w, '}');
}

/* The same as text; nothing where nothing was timed. */
static void batch__percentiles(str *s, const char *words, const hist *h) {
    if (h->all)
        str_fmt(s, "llmrun: %-11s %.3f s, %.3f, %.3f (p50, p95, p99)\n", words, hist_at(h, 0.5), hist_at(h, 0.95),
                hist_at(h, 0.99));
}

typedef struct {                                      /* of a run that has ended */
    double seconds;
    double unused;                                    /* part of the slots of cache blocks that held no token */
    double cost;                                      /* of the run; 0: not known */
    double million;                                   /* of a million tokens */
    long long n_prompt, n_gen;                        /* tokens of prompts and of answers; of a run that was interrupted those
                                                       * that it has read and written */
    int    blocks;                                    /* of the cache, at the peak */
} batch_totals;

static void batch__summary_json(const batch_work *b, const batch_totals *t, str *s) {
    const sched_stats *st = &b->sc->st;
    const spec        *sp = b->sc->guesser;
    const kv_cache    *kv = b->eng->kv;
    const batch_figure figures[] = {
        {"requests", (double)(b->n_ok + b->n_bad)}, {"answered", (double)b->n_ok}, {"errors", (double)b->n_bad},
        {"answered_before", (double)b->n_before}, {"other_shards", (double)b->n_other}, {"seconds", t->seconds},
        {"unfinished", (double)b->n_unfinished},
        {"prompt_tokens", (double)t->n_prompt}, {"shared_tokens", (double)st->cached},
        {"computed_prompt_tokens", (double)st->prefill}, {"completion_tokens", (double)t->n_gen},
        {"requests_per_s", (double)(b->n_ok + b->n_bad) / t->seconds},
        {"prompt_tokens_per_s", (double)t->n_prompt / t->seconds}, {"completion_tokens_per_s", (double)t->n_gen / t->seconds},
        {"steps", (double)st->steps}, {"steps_s", st->busy_s}, {"kv_blocks_peak", (double)t->blocks},
        {"kv_block_tokens", (double)kv->opts.block}, {"kv_bytes_peak", (double)kv_bytes_peak(kv)}, {"kv_unused", t->unused},
        {"preemptions", (double)st->preempted}, {"seed", (double)b->job->seed}, {"decode_steps", (double)st->decode},
        {"draft_guessed", (double)spec_guessed(sp, SPEC_DRAFT)}, {"draft_accepted", (double)spec_accepted(sp, SPEC_DRAFT)},
        {"head_guessed", (double)spec_guessed(sp, SPEC_HEAD)}, {"head_accepted", (double)spec_accepted(sp, SPEC_HEAD)},
        {"lookup_guessed", (double)spec_guessed(sp, SPEC_LOOKUP)},
        {"lookup_accepted", (double)spec_accepted(sp, SPEC_LOOKUP)},
        {"forced_guessed", (double)spec_guessed(sp, SPEC_FORCED)},
        {"forced_accepted", (double)spec_accepted(sp, SPEC_FORCED)},
        {"speculation_speedup", spec_speedup(sp)},
    };
    jw w = jw_loose(s);
    jw_open(&w, NULL, '{');
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) jw_number(&w, figures[i].name, 12, figures[i].v);
    if (t->cost > 0) jw_number(&w, "cost", 6, t->cost);
    if (t->million > 0) jw_number(&w, "cost_per_million_tokens", 6, t->million);
    batch__percentiles_json(&w, "ttft_s", &st->ttft);
    batch__percentiles_json(&w, "tpot_s", &st->tpot);
    batch__percentiles_json(&w, "itl_s", &st->itl);
    batch__percentiles_json(&w, "e2e_s", &st->e2e);
    str_put(s, "}\n");
}

static void batch__summary_text(const batch_work *b, const batch_totals *t, str *s) {
    const sched_stats *st = &b->sc->st;
    const spec        *sp = b->sc->guesser;
    const kv_cache    *kv = b->eng->kv;
    str_fmt(s, "llmrun: requests    %lld in %.2f s (%.2f/s): %lld answered, %lld error%s", b->n_ok + b->n_bad, t->seconds,
            (double)(b->n_ok + b->n_bad) / t->seconds, b->n_ok, b->n_bad, b->n_bad == 1 ? "" : "s");
    if (b->n_unfinished) str_fmt(s, ", %lld unfinished", b->n_unfinished);
    if (b->n_before) str_fmt(s, ", %lld answered before", b->n_before);
    if (b->n_other) str_fmt(s, ", %lld left to other shards", b->n_other);
    str_fmt(s, "\nllmrun: prompts     %lld tokens (%.1f tokens/s), %lld of them shared and not computed again\n",
            t->n_prompt, (double)t->n_prompt / t->seconds, st->cached);
    if (!b->job->vectors)
        str_fmt(s, "llmrun: generated   %lld tokens (%.1f tokens/s) in %lld steps\n", t->n_gen,
                (double)t->n_gen / t->seconds, st->steps);
    spec_report(sp, s);
    spec_report_forced(sp, t->n_gen, s);
    constrain_report_all(b->job->holds, s);
    batch__percentiles(s, "first token", &st->ttft);
    batch__percentiles(s, "per token", &st->tpot);
    batch__percentiles(s, "next token", &st->itl);
    batch__percentiles(s, "request", &st->e2e);
    str_fmt(s,
            "llmrun: cache       %d block%s of %d tokens at the peak (%.1f MiB), %.1f %% of it unused, %lld preemption%s\n",
            t->blocks, t->blocks == 1 ? "" : "s", kv->opts.block, (double)kv_bytes_peak(kv) / 1048576, 100 * t->unused,
            st->preempted, st->preempted == 1 ? "" : "s");
    if (t->cost > 0)
        str_fmt(s, "llmrun: cost        %.4g for this run, %.4g for a million tokens read or written\n", t->cost, t->million);
    if (!b->job->vectors)
        str_fmt(s, "llmrun: seed        %llu%s\n", (unsigned long long)b->job->seed,
                b->job->own_seeds ? ", drawn; each line has its own, made of it (--batch-fields seed), for --seed" : "");
}

static void batch__summary(const batch_work *b) {
    const sched_stats *st = &b->sc->st;
    batch_totals       t = {.seconds = clock_now() - b->t0, .n_prompt = b->n_prompt, .n_gen = b->n_gen};
    str                s = {0};
    if (g_interrupt) t.n_prompt = st->prefill + st->cached, t.n_gen = st->written;
    const long long tokens = t.n_prompt + t.n_gen;
    t.unused = st->slots > 0 ? st->waste / st->slots : 0;
    t.cost = (double)b->o->cost * t.seconds / 3600;
    t.million = tokens ? t.cost * 1e6 / (double)tokens : 0;
    kv_held(b->eng->kv, &t.blocks);
    (b->job->json ? batch__summary_json : batch__summary_text)(b, &t, &s);
    if (g_log_level >= LOG_NORMAL) log_text(str_bytes(&s));
    str_drop(&s);
}

/* --- the run --- */

static void batch__loop(batch_work *b, err_t *e) {
    while (!g_interrupt) {
        const bool idle = sched_idle(b->sc) && !b->open && b->first == b->n;
        const bool low = b->n - b->first <= (size_t)b->o->window / 2;
        if (idle && b->over) return;
        if (!b->over && low) {
            const size_t had = b->n - b->first;
            if (!batch__refill(b, idle, e)) return;
            if (b->n - b->first > had || b->over) batch__plan(b);
        }
        if (!batch__feed(b, e) || (!sched_step(b->sc, b->n_wanted, e) && e->code) || !batch__collect(b, e)) return;
        batch__progress(b);
    }
}

/* The beginning of NumPy's file, which has the number of its rows: none at first, and all of them at the end. */
static bool batch__npy(batch_work *b, err_t *e) {
    str head = {0};
    if (b->job->form != BATCH_NPY) return true;
    embed_put_npy(b->n_rows, embed_width(&b->eng->m, b->job->embed), &head);
    const bool ok = results_put_head(b->out, str_bytes(&head), e);
    str_drop(&head);
    return ok;
}

/* Records that are written in another form. */
typedef struct {
    const forms_spec *f;
    out_t            *out;
    str               text;                           /* of the record that is being written */
    bool              more;                           /* a record is written */
} batch_export_to;

static bool batch__export_one(void *ctx, bytes record, err_t *e) {
    batch_export_to *w = ctx;
    str_clear(&w->text);
    forms_put(w->f, record, !w->more, &w->text);
    w->more = true;
    return out_put(w->out, w->text.p, w->text.n) && !e->code;
}

/* Writes the records of n files in another form, in the order of their inputs, which `names` begins. False: as results_each(). */
static bool batch_export(const forms_spec *f, const char *const *path, int n, const char *const *names, int n_names, out_t *out,
                         err_t *e) {
    batch_export_to w = {.f = f, .out = out};
    forms_head(f, &w.text);
    bool ok = out_begin(out, e) && out_put(out, w.text.p, w.text.n) &&
              results_each(path, n, names, n_names, batch__export_one, &w, e);
    str_clear(&w.text);
    forms_tail(f, &w.text);
    ok = ok && out_put(out, w.text.p, w.text.n);
    str_drop(&w.text);
    return ok;
}

/* Writes the file of another form. After an interrupt too; another one stops it. */
static void batch__export_file(batch_work *b, err_t *e) {
    const int sig = g_interrupt;
    g_interrupt = 0;
    const bool ok = batch_export(b->job->forms, &b->out->name, 1, b->in.path, b->in.n, b->job->file, e);
    if (!ok && !e->code && g_interrupt)
        log_warn("interrupted: %s is not complete, --resume writes it from the records of %s", b->job->file->name, b->out->name);
    if (!g_interrupt) g_interrupt = sig;
}

/* Completes the results. A run that was interrupted writes the records that are finished. */
static void batch__end(batch_work *b, err_t *e) {
    const bool done = b->over && !g_interrupt;
    if (b->held) batch__release(b, true, e);
    if (e->code || b->out->why || !batch__npy(b, e)) return;
    if (done && !b->settled && !results_move_stale(b->out, e)) return;
    if (done && b->o->ordered && b->out->resumable && !results_sort(b->out, b->in.path, b->in.n, e)) return;
    if (b->job->file) batch__export_file(b, e);
    else if (done && batch__converts(b->job) && batch__head(b, e)) {
        forms_tail(b->job->forms, &b->rec);
        if (b->rec.n) results_put(b->out, str_bytes(&b->rec), e);
    }
}

/* --- a dry run --- */

/* Tokens of all good lines or of a sample: of prompts, and of answers at most. */
typedef struct {
    long long prompts, most;
} batch_load;

/* What the lines are, and what answering them will take: the sample's time for each token of a prompt or an answer. */
static void batch__report(const batch_work *b, batch_load all, batch_load part, double seconds, str *s) {
    const double    made = part.most ? (double)b->n_gen / (double)part.most * (double)all.most : 0;
    const double    done = (double)(part.prompts + b->n_gen), time = done > 0 ? seconds * ((double)all.prompts + made) / done : 0;
    const double    cost = (double)b->o->cost * time / 3600;
    jw              w = jw_loose(s);
    if (b->job->json) {
        const batch_figure figures[] = {
            {"requests", (double)b->n_good}, {"errors", (double)b->n_bad}, {"other_shards", (double)b->n_other},
            {"prompt_tokens", (double)all.prompts}, {"shortest_prompt", (double)b->n_shortest},
            {"longest_prompt", (double)b->n_longest}, {"completion_tokens_at_most", (double)all.most},
            {"completion_tokens_estimate", made}, {"sample_requests", (double)b->n_ok}, {"sample_s", seconds},
            {"seconds_estimate", time}};
        jw_open(&w, NULL, '{');
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) jw_number(&w, figures[i].name, 12, figures[i].v);
        if (b->o->cost > 0) jw_number(&w, "cost_estimate", 6, cost);
        str_put(s, "}\n");
        return;
    }
    str_fmt(s, "lines       %lld to answer, %lld wrong", b->n_good, b->n_bad);
    if (b->n_other) str_fmt(s, ", %lld left to other shards", b->n_other);
    str_fmt(s, "\nprompts     %lld tokens (%lld to %lld)\n", all.prompts, b->n_shortest, b->n_longest);
    if (!b->job->vectors) str_fmt(s, "answers     about %.0f tokens, at most %lld\n", made, all.most);
    str_fmt(s, "time        about %.0f:%02d:%02d (%lld line%s took %.2f s)\n", floor(time / 3600), (int)fmod(time / 60, 60),
            (int)fmod(time, 60), b->n_ok, b->n_ok == 1 ? "" : "s", seconds);
    if (b->o->cost > 0) str_fmt(s, "price       about %.4g\n", cost);
}

/* Reads all lines, answers a sample of the good ones and reports. Records go to b->out, which is no file of the user. */
static void batch__dry(batch_work *b, err_t *e) {
    bytes     line;
    uint64_t  no;
    lines_got got;
    while (!g_interrupt && (got = batch__next(&b->in, true, &line, &no, e)) != LINES_END && got != LINES_FAILED) {
        if (got == LINES_LATER) continue;
        b->n_read++;
        if (got == LINES_LONG ? !batch__take_long(b, line, no, e) : !batch__take(b, line, no, e)) return;
    }
    const batch_load all = {b->n_prompt, b->n_most};
    const long long  n_bad = b->n_bad;
    const double     t0 = clock_now();
    batch_load       part = {0};
    if (b->n_bad > BATCH_SHOWN) log_warn("and %lld more lines", b->n_bad - BATCH_SHOWN);
    for (size_t i = 0; i < b->n; i++) {
        part.prompts += (long long)b->line[i]->a.n_ids * b->line[i]->a.q.ask.n;
        part.most += batch__most(b, b->line[i]);
        b->tokens += b->line[i]->a.n_ids;
    }
    b->over = true;
    batch__plan(b);
    if (!e->code) batch__loop(b, e);
    if (e->code || g_interrupt) return;
    if (b->n_bad > n_bad) log_warn("%lld lines of the sample could not be answered", b->n_bad - n_bad);
    b->n_bad = n_bad;
    batch__report(b, all, part, clock_now() - t0, b->job->report);
}

/* Answers the lines of the files of job in `out`; guesser: NULL, or one for as many sequences. A dry run only reports. Returns
 * the number of records with an error, -1 with e set; e unset: the reader has gone, or an interrupt. *n_cut: answers that have
 * ended before their constraint was met. */
static long long batch_run(engine *eng, spec *guesser, results *out, const batch_opts *o, const batch_job *job,
                           long long *n_cut, err_t *e) {
    batch_work b = {.eng = eng, .o = o, .job = job, .out = out, .t0 = clock_now()};
    const int  n_seqs = min_int(o->n_parallel, max_int(eng->n_batch / 2, 1));
    const sched_opts so = {.n_seqs = n_seqs, .fixed = o->fixed, .stress = LLMRUN_STRESS};
    b.env = (ask_env){.eng = eng, .chat = job->chat, .no_chat = &job->no_chat, .holds = job->holds, .embed = job->embed,
                      .special = job->special, .bos = job->bos, .keep_text = job->fields & REQ_PROMPT};
    b.t_shown = b.t0;
    if ((o->shard && !lines_shard_parse(o->shard, &b.shard, e)) || !batch__input_init(&b.in, job, o, e) ||
        !(b.sc = sched_new(eng, guesser, &so, e))) goto done;
    const bool texts = job->form >= BATCH_NUMBERS || (batch__converts(job) && job->forms->kind == FORMS_TEXT);
    if ((o->ordered || texts) && !out->resumable) {
        b.held = mem_new((size_t)o->window, sizeof *b.held);
        b.ready = mem_new((size_t)o->window, sizeof *b.ready);
    }
    if (o->dry) {
        batch__dry(&b, e);
        progress_clear();
        goto done;
    }
    if (batch__npy(&b, e) && batch__settle(&b, e)) batch__loop(&b, e);
    batch__end(&b, e);
    progress_clear();
    *n_cut = b.n_unfinished;
    if (b.n_looped)
        log_warn("%lld answer%s in a loop (--loop-stop off goes on)", b.n_looped, b.n_looped == 1 ? " ends" : "s end");
    if (b.n_cut)
        log_warn("%lld text%s cut to %d tokens (--truncate)", b.n_cut, b.n_cut == 1 ? " is" : "s are", job->embed->limit);
    if (b.n_begun)
        log_warn("%lld prompt%s with the start token, which is not added a second time", b.n_begun,
                 b.n_begun == 1 ? " begins" : "s begin");
    if (!out->why && (b.n_read || !e->code)) batch__summary(&b);
    if (g_interrupt && out->resumable)
        log_warn("%s: %lld lines are answered; --resume goes on with the others", out->name, b.n_before + b.n_ok + b.n_bad);
done:
    if (b.open && !b.open->answer) batch__line_free(b.open);
    for (batch_line *l = b.begun, *next; l; l = next) {
        next = l->next;
        batch__line_free(l);
    }
    for (size_t i = b.first; i < b.n; i++) batch__line_free(b.line[i]);
    sched_free(b.sc);
    batch__input_drop(&b.in);
    table_row_drop(&b.row);
    table_values_drop(&b.values);
    lines_shard_drop(&b.shard);
    for (int i = 0; b.held && i < o->window; i++) str_drop(&b.held[i]);
    mem_free_all(b.held, b.ready, b.line);
    str_drop(&b.rec);
    return e->code || g_interrupt || out->why ? -1 : b.n_bad;
}
