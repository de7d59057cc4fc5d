/* ===== [act] the actions of the command =====
 * Reads the prompt, opens the output and runs one action. An action is a row of act_table: what it needs, the check of its
 * options, the reader of its prompt, and the function that runs it.
 * Invariants: stdout carries the answer and nothing else, and whatever was written is flushed and checked before exit 0; no file
 * is written that the run reads; after an interrupt one line names a result that is missing or not complete.
 * To add an action: 1 its name in cli_act; 2 a row of cli_opts of kind OPT_ACT, and its bit in the rows of the options that it
 * takes; 3 a function here; 4 a row of act_table, of act_needs where it may do more than others,
 * and of act_files for a new option that names a file.
 * Public: act_finish, act_run, act_signals, act_streams, act_lost. */

enum { ACT_PROMPT_MAX = 1 << 30 };                    /* bytes of prompt from -p, -f and standard input together */

/* --- prompt --- */

static const char act_stdin[] = "standard input";

/* Prints a note when nothing has arrived for a second. True: it was printed. */
static bool act__say_waiting(int fd, bool appends) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 1000) != 0) return false;
    log_warn("waiting for the end of standard input%s",
             appends ? ", which is appended to the prompt (--no-stdin leaves it alone)" : "");
    return true;
}

/* Appends all of standard input, which is fd. */
static bool act__read_stdin(int fd, str *out, err_t *e) {
    struct stat st;
    const bool  appends = out->n > 0, huge = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > ACT_PROMPT_MAX;
    bool        noted = false;
    for (ssize_t got = 1; got > 0;) {
        if (huge || out->n > ACT_PROMPT_MAX)
            return err_set(e, EXIT_INPUT, "%s: more than %d bytes, expected a prompt", act_stdin, ACT_PROMPT_MAX);
        if (!noted) noted = act__say_waiting(fd, appends);
        got = str_read(out, fd, 65536, act_stdin, e);
    }
    return !e->code;
}

static bool act__read_file(const char *path, str *out, err_t *e) {
    return str_read_file(out, path, 0, ACT_PROMPT_MAX, "a prompt", e);
}

/* Whether the text is one to measure a model on: escapes in it are part of it. */
static bool act__measures(const config *c) { return (ON_EVAL | ON(IMATRIX)) >> c->action & 1; }

/* A note where a backslash and an n were likely meant as a newline. */
static void act__note_escapes(const config *c) {
    const char *where = c->prompt && !act__measures(c) && strstr(c->prompt, "\\n") ? "--prompt" : NULL;
    for (int i = 0; i < c->stop.n; i++)
        if (!where && strstr(c->stop.v[i], "\\n")) where = "--stop";
    for (int i = 0; i < c->breakers.n; i++)
        if (!where && strstr(c->breakers.v[i], "\\n")) where = "--dry-sequence-breaker";
    if (where && !c->escape && !cli_given(c, "--no-escape"))
        log_warn("%s: \\n stays a backslash and an n (-e reads it as a newline, --no-escape removes this note)", where);
}

/* A note for each option that is given without the one it needs. */
static void act__note_partners(const config *c) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        str         lacks = {0};
        const bytes name = c->given[i] ? cli_typed(c->given[i]) : (bytes){0};
        if (cli_lacks(c, i, &lacks)) log_warn("%.*s has no effect without %s", (int)name.n, name.p, lacks.p);
        str_drop(&lacks);
    }
}

/* Whether one of the files of -f is standard input. */
static bool act__names_stdin(const config *c) {
    for (int i = 0; i < c->files.n; i++)
        if (strcmp(c->files.v[i], "-") == 0) return true;
    return false;
}

/* Whether there is a prompt; a terminal is never read. */
static bool act__prompt_exists(const config *c, int in, err_t *e) {
    bool open_in = fcntl(in, F_GETFL) != -1 && (fcntl(in, F_GETFL) & O_ACCMODE) != O_WRONLY;
    if (act__names_stdin(c) && isatty(in))
        return err_set(e, EXIT_INPUT, "--file -: standard input is a terminal, expected a file or a pipe");
    if (c->prompt || c->files.n || c->chat.messages || (open_in && !isatty(in) && !c->no_stdin)) return true;
    if (c->no_stdin)
        return err_set(e, EXIT_INPUT, "no prompt given, expected -p TEXT or -f FILE (--no-stdin leaves standard input alone)");
    return err_set(e, EXIT_INPUT, "no prompt given, expected -p TEXT, -f FILE or text on standard input");
}

/* Ends a text that is not empty with a blank line. */
static void act__blank_line(str *out) {
    while (out->n && !bytes_ends(str_bytes(out), bytes_of("\n\n"))) str_put(out, "\n");
}

/* Appends standard input to the prompt, unless it is empty: after a newline, or after a blank line where files are before it. */
static bool act__append_stdin(const config *c, int in, str *out, err_t *e) {
    const size_t own = out->n;
    if (c->files.n) act__blank_line(out);
    else str_put(out, "\n");
    const size_t from = out->n;
    if (!act__read_stdin(in, out, e)) return false;
    const size_t more = out->n - from;
    if (more) log_warn("%zu byte%s of standard input appended to the prompt", more, more == 1 ? "" : "s");
    else out->p[out->n = own] = 0;
    return true;
}

/* Appends the files of -f, a blank line before each that follows some text. */
static bool act__append_files(const config *c, int in, str *out, err_t *e) {
    for (int i = 0; i < c->files.n && !e->code; i++) {
        const char *path = c->files.v[i];
        act__blank_line(out);
        if (strcmp(path, "-") == 0) act__read_stdin(in, out, e);
        else act__read_file(path, out, e);
    }
    if (!e->code && out->n > ACT_PROMPT_MAX)
        err_set(e, EXIT_INPUT, "--file: more than %d bytes in all, expected a prompt", ACT_PROMPT_MAX);
    return !e->code;
}

/* The prompt, byte for byte: -p TEXT and the files of -f; after -p also standard input, where it is not a terminal, not empty
 * and not one of the files (`alone` and --no-stdin: it is not read). Without -p and -f it is standard input. */
static bool act__prompt(const config *c, int in, bool alone, str *out, err_t *e) {
    const bool in_reads = !isatty(in);
    str_add(out, "", 0);
    if (!c->prompt && !c->files.n) return in_reads ? act__read_stdin(in, out, e) : true;
    if (c->prompt && c->escape && !act__measures(c)) cli_unescape(c->prompt, out);
    else if (c->prompt) str_put(out, c->prompt);
    if (!act__append_files(c, in, out, e)) return false;
    return !c->prompt || alone || c->no_stdin || !in_reads || act__names_stdin(c) || act__append_stdin(c, in, out, e);
}

/* --- streams and signals --- */

static volatile sig_atomic_t act__graceful;           /* the run checks g_interrupt */
static char                  act_lost[4096];         /* printed after an interrupt: which result is not complete; "": none */

/* The first signal asks a run to stop at the next token, a server to take no more requests. The second one ends the program at
 * once, and so does the first where no run checks for it. */
static void act__on_signal(int sig) {
    if (serve_stop()) return;
    if (g_interrupt || !act__graceful) {
        progress_clear();
        term_restore();
        out_sweep();
        if (act_lost[0] && write(STDERR_FILENO, act_lost, strlen(act_lost)) < 0) {}
        _exit(128 + sig);
    }
    g_interrupt = sig;
}

/* Prepares the line for an interrupt: the result in `file` (NULL: stdout) is in this state. act__kept() removes it. */
static void act__may_lose(const char *file, const char *state) {
    if (g_log_level < LOG_NORMAL) return;
    const bool named = file && strcmp(file, "-") != 0;
    char line[1024];
    snprintf(line, sizeof line, "llmrun: interrupted: %.900s is %s", named ? file : "the output", state);
    const size_t n = utf8_visible((const uint8_t *)line, strlen(line), true, act_lost, sizeof act_lost - 2);
    strcpy(act_lost + n, "\n");
}

static void act__kept(void) { act_lost[0] = 0; }

/* SA_RESTART: an interrupted write of the answer is completed. */
static void act_signals(void) {
    struct sigaction stop = {.sa_handler = act__on_signal, .sa_flags = SA_RESTART}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);                /* a closed pipe is a failed write, without a message */
    sigaction(SIGXFSZ, &ignore, NULL);                /* a file too long for its limit is a failed write */
}

/* Opens /dev/null for each of the descriptors 0 to 2 that the parent has closed, so that no model file gets its number: standard
 * input for writing and standard output for reading, so that using them fails. */
static void act_streams(void) {
    static const int way[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF && open("/dev/null", way[fd]) != fd) _exit(EXIT_RESOURCE);
}

static bool act__same(const struct stat *a, const char *path) {
    struct stat b;
    return S_ISREG(a->st_mode) && stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool act__same_file(int fd, const char *path) {
    struct stat a;
    return fstat(fd, &a) == 0 && act__same(&a, path);
}

/* Whether a file that will be written is not the file `from` (NULL: none), which is read; errors call it `what`. */
static bool act__apart(const char *path, const char *from, const char *what, err_t *e) {
    struct stat a;
    const bool  same = from && strcmp(from, "-") != 0 && stat(path, &a) == 0 && act__same(&a, from);
    return !same || err_set(e, EXIT_INPUT, "%s: is the %s itself, expected another file to write", path, what);
}

/* The files that options name, by the field of config with the name. */
static const struct act_file {
    size_t      at;
    bool        list;                                 /* a cli_list, else one name */
    uint32_t    read, written;                        /* the actions, as ON(...) bits; written: created or replaced too */
    const char *what;                                 /* in errors, of one that is read */
} act_files[] = {
    {AT(model),              false, ON_ALL,         0,                         "model"},
    {AT(models),             true,  ON_ALL,         0,                         "model"},
    {AT(spec.draft),         false, ON_ALL,         0,                         "model"},
    {AT(bench.draft),        false, ON_ALL,         0,                         "model"},
    {AT(files),              true,  ON_ALL,         0,                         "prompt"},
    {AT(inputs),             true,  ON(MERGE),      0,                         "input"},
    {AT(batch_files),        true,  ON_ALL,         0,                         "batch file"},
    {AT(kv.cache),           false, ON_ALL,         ON_ANSWER,                 "prompt cache"},
    {AT(spec.cache),         false, ON_ALL,         ON_ANSWER,                 "lookup cache"},
    {AT(lora_files),         true,  ON_ALL,         0,                         "adapter"},
    {AT(imatrix),            false, ON_ALL,         0,                         "importance matrix"},
    {AT(in_files),           true,  ON_ALL,         0,                         "importance matrix"},
    {AT(calibrate),          false, ON_ALL,         0,                         "text"},
    {AT(chat.messages),      false, ON_ALL,         0,                         "messages"},
    {AT(chat.tools),         false, ON_ALL,         0,                         "tools"},
    {AT(chat.template_file), false, ON_ALL,         0,                         "template"},
    {AT(hold.grammar_file),  false, ON_ALL,         0,                         "grammar"},
    {AT(hold.schema_file),   false, ON_ALL,         0,                         "schema"},
    {AT(system_file),        false, ON_ALL,         0,                         "system message"},
    {AT(serve.key_file),     false, ON_SERVE,       0,                         "key"},
    {AT(serve.files),        false, 0,              ON_SERVE,                  NULL},
    {AT(what),               false, ON(DIVERGENCE), ON(LOGITS) | ON(IMATRIX),  "base"},
    {AT(output),             false, 0,              ON_ALL,                    NULL},
    {AT(plot),               false, 0,              ON_BENCH | ON(QUALITY),    NULL},
    {AT(eval.base),          false, 0,              ON(PERPLEXITY),            NULL},
};
enum { ACT_FILES = sizeof act_files / sizeof *act_files };

/* The names in the field of a row; *n: how many, of which some may be NULL. */
static const char *const *act__names(const config *c, const struct act_file *f, int *n) {
    const void     *field = (const char *)c + f->at;
    const cli_list *list = field;
    *n = f->list ? list->n : 1;
    return f->list ? list->v : field;
}

/* Whether it is none of the files that the options name as input. */
static bool act__apart_from_inputs(const config *c, const char *path, err_t *e) {
    for (int i = 0, n; i < ACT_FILES; i++) {
        const char *const *name = act__names(c, &act_files[i], &n);
        for (int k = 0; k < n && act_files[i].read >> c->action & 1; k++)
            if (!act__apart(path, name[k], act_files[i].what, e)) return false;
    }
    return true;
}

/* Opens a file for the answer; without a path it stays stdout. The file must not be one that is read, and keeps its old bytes
 * until out_begin(). */
static bool act__output(out_t *out, const char *path, const config *c, const gguf_file *g, err_t *e) {
    if (!path || strcmp(path, "-") == 0) return true;
    for (int i = 0; g && i < g->n_parts; i++)
        if (!act__apart(path, g->part[i].path, "model", e)) return false;
    if (!act__apart_from_inputs(c, path, e)) return false;
    const int fd = out_open(path);
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    *out = (out_t){fdopen(fd, "wb"), path, 0, false};
    if (out->f) return true;
    close(fd);
    *out = (out_t){stdout, "stdout", 0, false};
    return err_set(e, EXIT_RESOURCE, "%s: %s", path, strerror(errno));
}

/* --- actions on a model --- */

typedef struct {
    const config *c;
    gguf_file    *g;                                  /* the model, NULL for actions that open none */
    tok_vocab    *vocab;
    str           text;                               /* the prompt */
    tok_ids       ids;                                /* its tokens */
    chat         *chat;                               /* NULL: the prompt is raw */
    chat_input    input;                              /* the messages of a chat, */
    chat_prompt   asked;                              /* and the prompt for them, whose tokens are in ids */
    str           hold_text;                          /* of a file with a constraint */
    constrain_spec hold;                              /* what the options say of one */
    constrain_cache *holds;                           /* NULL: the action has none */
    constrain    *held;                               /* the constraint of the one answer */
    out_t         out;
    gguf_file     head;                               /* of the model's draft head; no path: it has none beside it */
    server       *server;                             /* of --serve; NULL: there is none */
    hub_set       models;                             /* of --models and --rm-model */
    double        t_start;                            /* clock_now() when the program began */
} act_job;

static bool act__json(const config *c) { return strcmp(c->format, "json") == 0; }

/* Writes a growing text when it has more than `most` bytes. */
static void act__flush(act_job *r, str *s, size_t most) {
    if (s->n <= most) return;
    out_put(&r->out, s->p, s->n);
    str_clear(s);
}

static bool act__tokenize_json(act_job *r, err_t *e) {
    str s = {0};
    jw  w = jw_tight(&s);
    if (!out_begin(&r->out, e)) return false;
    jw_open(&w, NULL, '{');
    jw_fmt(&w, "count", "%zu", r->ids.n);
    jw_open(&w, "ids", '[');
    for (size_t i = 0; i < r->ids.n; i++) {
        jw_fmt(&w, NULL, "%d", r->ids.id[i]);
        act__flush(r, &s, 65536);
    }
    jw_close(&w, ']');
    jw_open(&w, "pieces", '[');
    for (size_t i = 0; i < r->ids.n; i++) {
        jw_open(jw_line(&w), NULL, '{');
        tok_json(r->vocab, r->ids.id[i], &w);
        jw_close(&w, '}');
        act__flush(r, &s, 65536);
    }
    jw_close(&w, ']');
    jw_close(&w, '}');
    str_put(&s, "\n");
    act__flush(r, &s, 0);
    str_drop(&s);
    return true;
}

static bool act__tokenize(act_job *r, err_t *e) {
    str s = {0};
    if (act__json(r->c)) return act__tokenize_json(r, e);
    if (!out_begin(&r->out, e)) return false;
    for (size_t i = 0; i < r->ids.n; i++) {
        str_fmt(&s, i ? " %d" : "%d", r->ids.id[i]);
        act__flush(r, &s, 65536);
    }
    str_put(&s, "\n");
    act__flush(r, &s, 0);
    str_drop(&s);
    return true;
}

/* Reads token ids separated by blanks or commas. */
static bool act__read_ids(bytes text, int32_t n_vocab, tok_ids *out, err_t *e) {
    for (size_t i = 0; i < text.n;) {
        size_t  from = i;
        int64_t id = 0;
        if (isspace(text.p[i]) || text.p[i] == ',') {
            i++;
            continue;
        }
        for (; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++)
            if (id < INT32_MAX) id = id * 10 + (text.p[i] - '0');
        bool whole = i > from && (i == text.n || isspace(text.p[i]) || text.p[i] == ',');
        int  shown = (int)(text.n - from < 20 ? text.n - from : 20);
        if (!whole)
            return err_set(e, EXIT_INPUT, "--detokenize: expected a token id at byte %zu, found '%.*s'", from, shown,
                           (const char *)text.p + from);
        if (id >= n_vocab)
            return err_set(e, EXIT_INPUT, "--detokenize: id %.*s at byte %zu is out of range, expected 0 to %d",
                           (int)(i - from < 20 ? i - from : 20), (const char *)text.p + from, from, n_vocab - 1);
        tok_ids_add(out, (int32_t)id);
    }
    return true;
}

static bool act__detokenize(act_job *r, err_t *e) {
    str s = {0};
    if (!out_begin(&r->out, e)) return false;
    tok_decode(r->vocab, r->ids.id, r->ids.n, r->c->special == 1, &s);
    out_put(&r->out, s.p, s.n);
    str_drop(&s);
    return true;
}

/* The tensor with the most similar name, among the first 10,000. */
static bytes act__near_tensor(const gguf_file *g, bytes name) {
    bytes best = {0};
    int   least = bytes_slack(name) + 1;
    for (uint64_t i = 0; i < g->n_tensor && i < 10000; i++) {
        int d = bytes_distance(name, g->tensor[i].name);
        if (d < least) least = d, best = g->tensor[i].name;
    }
    return best;
}

/* Writes a tensor as little-endian float32. STEP weights are whole blocks of any type. */
static bool act__dump_tensor(act_job *r, err_t *e) {
    enum { STEP = 16384 };
    const gguf_file   *g = r->g;
    const char        *name = r->c->what;
    const gguf_tensor *t = gguf_tensor_find(g, name);
    if (!t) {
        bytes near = act__near_tensor(g, bytes_of(name));
        if (near.n)
            return err_set(e, EXIT_INPUT, "%s: no tensor %.100s (did you mean %.*s?)", g->path, name, (int)near.n, near.p);
        return err_set(e, EXIT_INPUT, "%s: no tensor %.100s, expected one that --inspect shows", g->path, name);
    }
    const uint64_t n = t->dim[0], rows = t->dim[1] * t->dim[2] * t->dim[3];
    if (!out_begin(&r->out, e)) return false;
    gguf_fill(g, t, 0, rows, NULL);
    float *buf = mem_aligned(STEP, sizeof *buf);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t at = 0, some; at < n && !r->out.why; at += some) {
            some = min_u64(n - at, STEP);
            gguf_floats(t, row, at, buf, some);
            out_put(&r->out, buf, (size_t)some * sizeof *buf);
        }
    mem_free(buf);
    return true;
}

/* The vocabulary for samp_breakers_text(): the bytes of a token, the tokens of a text. */
static bytes act__word_text(void *ctx, int32_t id) {
    const tok_vocab *v = ctx;
    return tok_is_control(v, id) ? tok_text(v, id) : tok_piece(v, id);
}

static int32_t act__word_encode(void *ctx, bytes text, int32_t *out, int32_t cap) {
    tok_ids ids = {0};
    err_t   none = {0};
    int32_t n = tok_encode(ctx, text, 0, &ids, &none) ? (int32_t)ids.n : 0;
    if (n) memcpy(out, ids.id, (size_t)min_int(n, cap) * sizeof *out);
    tok_ids_drop(&ids);
    return n;
}

static void act__breakers(const config *c, tok_vocab *v, samp_breakers *out) {
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const samp_words         words = {tok_count(v), v, act__word_text, act__word_encode};
    const char *const       *text = c->breakers.n ? (const char *const *)c->breakers.v : usual;
    int                      n = c->breakers.n ? c->breakers.n : (int)(sizeof usual / sizeof *usual);
    for (int i = 0; i < n; i++)
        if (strcmp(text[i], "none") != 0) samp_breakers_text(out, bytes_of(text[i]), &words);
    samp_breakers_seal(out);
}

/* The options of the sampler; with DRY also its breakers, which the caller drops. */
static samp_opts act__samp(const config *c, tok_vocab *v, int n_ctx, samp_breakers *breakers) {
    samp_opts so = c->samp;
    so.n_ctx = n_ctx;
    if (so.dry_multiplier <= 0) return so;
    act__breakers(c, v, breakers);
    so.dry_breakers = breakers;
    return so;
}

/* What the options say of a constraint, and the cache for it. */
static bool act__hold_begin(act_job *r, err_t *e) {
    r->holds = constrain_cache_new(r->vocab);
    return constrain_from(&r->c->hold, &r->hold_text, &r->hold, e);
}

/* Compiles the constraint, so that what is wrong with it is said before the model runs; r->held stays NULL
 * where there is none. */
static bool act__hold_end(act_job *r, err_t *e) {
    return r->hold.kind == CONSTRAIN_NONE || (r->held = constrain_get(r->holds, &r->hold, e));
}

static bool act__hold(act_job *r, err_t *e) { return act__hold_begin(r, e) && act__hold_end(r, e); }

/* The same for one answer: that to a message keeps to its tools, and its constraint begins after thinking. */
static bool act__hold_answer(act_job *r, err_t *e) {
    return act__hold_begin(r, e) && (!r->chat || chat_hold(r->chat, &r->input, &r->asked, &r->hold, e)) && act__hold_end(r, e);
}

/* How the run speculates: with a draft head where the file has one. */
static spec_opts act__spec(const act_job *r) {
    spec_opts o = r->c->spec;
    if (r->head.path) o.draft = NULL;                 /* it is the head */
    o.head = o.head && (r->head.path || arch_has_head(r->g));
    return o;
}

/* Opens the file of --model-draft if it holds a draft head alone. */
static bool act__open_head(act_job *r, err_t *e) {
    const char *path = r->c->spec.draft;
    if (!path || import_is_folder(path)) return true;
    if (!gguf_open(&r->head, path, e)) {
        r->head.path = NULL;
        return false;
    }
    if (arch_is_head(&r->head))
        return r->c->spec.head || err_set(e, EXIT_INPUT, "%s: a draft head, found --no-head, expected one of them", path);
    gguf_close(&r->head);
    r->head.path = NULL;
    return true;
}

/* The plan of a run that speculates so, or decodes by diffusion. */
static engine_plan act__with_head(const act_job *r, engine_plan p, const spec_opts *o) {
    const diffuse_opts *d = &r->c->gen.diffuse;
    const int64_t       n = r->c->gen.n_predict, most = n < 0 ? DIFFUSE_LENGTH : min_i64(max_i64(n, 1), INT_MAX);
    p.n_masks = (int)(d->block ? min_i64(d->block, most) : d->eps > 0 ? most : -most);
    p.head = o->head && spec_rows(o, 1) > 0;
    p.head_file = r->head.path ? &r->head : NULL;
    return p;
}

/* The speculative decoder for n_seqs sequences; NULL: none, or it failed and e is set. */
static spec *act__guesser(const act_job *r, const engine *en, int n_seqs, err_t *e) {
    const config   *c = r->c;
    const spec_opts o = act__spec(r);
    return spec_rows(&o, n_seqs) ? spec_open(en, &o, c->pre, &c->fwd, &c->kv, n_seqs, e) : NULL;
}

static bool act__use_generate(act_job *r, engine *en, err_t *e) {
    const config *c = r->c;
    samp_breakers   breakers = {0};
    const samp_opts so = act__samp(c, r->vocab, en->n_ctx, &breakers);
    gen_request     ask = gen_ask(&r->ids, &c->gen, &so, c->seed < 0 ? rng_fresh() : (uint64_t)c->seed);
    ask.constrain = r->held;
    spec           *guesser = act__guesser(r, en, 1, e);
    text_opts       o = c->text;
    if (act__json(c)) o.json = str_base_name(r->g->path);
    if (c->echo) o.echo = str_bytes(&r->text);
    if (r->chat) {
        chat_ask(r->chat, &r->asked, &ask);
        o.reader = chat_reader_new(&r->asked, val_get(r->input.vars, "tools"));
        o.think_show = c->chat.think_show;
        o.newline = true;
    }
    err_t      cut = {0};                             /* said last: the caches are saved all the same */
    const bool ok = !e->code && text_run(en, guesser, &ask, &o, &r->out, &cut, e);
    if (ok && spec_save(guesser, e) && engine_save(en, &c->kv, e)) *e = cut;
    spec_close(guesser);
    samp_breakers_drop(&breakers);
    chat_reader_free(o.reader);
    return !e->code;
}

/* --truncate: cuts the prompt to what the model takes. False: e is set. */
static bool act__truncate(act_job *r, const engine *en, err_t *e) {
    embed_opts   o = r->c->embed;
    const size_t whole = r->ids.n;
    if (!o.truncate) return true;
    o.limit = embed_limit(&en->m, en->n_ctx, e);
    if (embed_cut(&o, &r->ids, tok_add_eos(r->vocab)))
        log_warn("the text is cut from %zu to %zu tokens (--truncate)", whole, r->ids.n);
    return o.limit > 0;
}

/* Opens the model, runs it on the prompt and closes it. */
static bool act__with_engine(act_job *r, engine_plan plan, bool (*use)(act_job *, engine *, err_t *), err_t *e) {
    engine *en = engine_open(r->g, r->vocab, &r->c->fwd, &r->c->kv, plan, r->t_start, e);
    act__graceful = 1;
    const bool ok = en && act__truncate(r, en, e) && gen_fits(en, &r->ids, e) && use(r, en, e);
    engine_close(en);
    return ok;
}

static bool act__use_score(act_job *r, engine *en, err_t *e) {
    if (!out_begin(&r->out, e)) return false;
    return act__json(r->c) ? score_json(en, &r->ids, str_base_name(r->g->path), &r->out, e) : score_text(en, &r->ids, &r->out, e);
}

static bool act__use_logits(act_job *r, engine *en, err_t *e) {
    return out_begin(&r->out, e) && score_logits(en, &r->ids, &r->out, e);
}

/* Whether the model decodes by diffusion. */
static bool act__diffuses(const gguf_file *g) {
    arch_hparams hp;
    const bool   does = arch_load(&hp, g, &(err_t){0}) && arch_diffuses(&hp);
    arch_drop(&hp);
    return does;
}

static bool act__generate(act_job *r, err_t *e) {
    const config *c = r->c;
    const int64_t most = c->gen.n_predict >= 0 ? max_i64(c->gen.n_predict, 1) : act__diffuses(r->g) ? DIFFUSE_LENGTH : 0;
    const int64_t need = most ? (int64_t)r->ids.n + most : 0;         /* tokens in the context; 0: no limit */
    if (!act__open_head(r, e)) return false;
    const spec_opts o = act__spec(r);
    return act__hold_answer(r, e) &&
           act__with_engine(r, act__with_head(r, text_plan(&c->fwd, need, spec_rows(&o, 1)), &o), act__use_generate, e);
}

/* --- --render --- */

static bool act__render(act_job *r, err_t *e) {
    const config *c = r->c;
    const bool    has_model = c->model && *c->model;
    gguf_file     g = {0};
    str           json = {0};
    chat_input    in = {0};
    jinja_text    out = {0};
    const char   *name = c->files.n && strcmp(c->files.v[0], "-") != 0 ? c->files.v[0] : act_stdin;
    bool ok = act__prompt_exists(c, 0, e) && act__prompt(c, 0, true, &json, e) &&
              (!has_model || import_open(&g, c->model, IMPORT_FILE | IMPORT_LAZY, e));
    const double  t0 = clock_now();
    chat         *t = ok ? chat_open(has_model ? &g : NULL, NULL, &c->chat, e) : NULL;
    const double  t1 = clock_now();
    ok = t && chat_input_json(&in, str_bytes(&json), name, e);
    const double  t2 = clock_now();
    ok = ok && chat_render(t, &in, &out, e);
    if (ok)
        log_info("template parsed in %.3f ms, messages in %.3f ms; %zu bytes rendered in %.3f ms (%lld steps)", 1e3 * (t1 - t0),
                 1e3 * (t2 - t1), out.text.n, 1e3 * (clock_now() - t2), out.steps);
    ok = ok && out_begin(&r->out, e) && out_put(&r->out, out.text.p, out.text.n);
    jinja_text_drop(&out);
    chat_input_drop(&in);
    chat_free(t);
    if (g.path) gguf_close(&g);
    str_drop(&json);
    return ok;
}

static bool act__score(act_job *r, err_t *e) {
    return act__with_engine(r, score_plan(&r->c->fwd, (int64_t)r->ids.n), act__use_score, e);
}
static bool act__logits(act_job *r, err_t *e) {
    return act__with_engine(r, score_plan(&r->c->fwd, (int64_t)r->ids.n), act__use_logits, e);
}

/* Whether `path` can be written beside the answer: a name that is neither the prompt nor the answer. */
static bool act__spares(const act_job *r, const char *path, err_t *e) {
    if (strcmp(path, "-") == 0) return err_set(e, EXIT_INPUT, "-: found no name, expected a file to write");
    for (int i = 0; i < r->c->files.n; i++)
        if (!act__apart(path, r->c->files.v[i], "prompt", e)) return false;
    return !act__same_file(fileno(r->out.f), path) ||
           err_set(e, EXIT_INPUT, "%s: is the output itself, expected another file to write", path);
}

/* Perplexity of the text in windows; the default is a context of 512. */
static bool act__perplexity(act_job *r, err_t *e) {
    const config *c = r->c;
    const bool    json = act__json(c);
    engine_opts      fo = c->fwd;
    eval_plan     plan;
    if (c->eval.base && !act__spares(r, c->eval.base, e)) return false;
    if (fo.n_ctx < 0) fo.n_ctx = EVAL_CTX;
    engine *en = engine_open(r->g, r->vocab, &fo, &c->kv, (engine_plan){.n_need = (int64_t)r->ids.n}, r->t_start, e);
    if (!en) return false;
    act__graceful = 1;
    const int n_ctx = fo.n_ctx ? fo.n_ctx : en->m.hp.n_ctx_train;
    bool      ok = eval_plan_text(&plan, &r->ids, n_ctx, tok_start(r->vocab, c->bos), &c->eval, e) &&
              out_begin(&r->out, e) && eval_perplexity(en, &plan, &c->eval, json, &r->out, e);
    engine_close(en);
    return ok;
}

/* The base file has the tokens: text and vocabulary are not needed. */
static bool act__divergence(act_job *r, err_t *e) {
    const config *c = r->c;
    engine_opts      fo = c->fwd;
    eval_base     b;
    eval_plan     plan;
    if (!eval_base_open(&b, c->what, e)) return false;
    fo.n_ctx = b.n_ctx;
    engine *en = NULL;
    bool    ok = eval_plan_base(&plan, &b, &c->eval, e) &&
              (en = engine_open(r->g, NULL, &fo, &c->kv, (engine_plan){.n_need = (int64_t)b.ids.n}, r->t_start, e)) != NULL;
    act__graceful = 1;
    ok = ok && out_begin(&r->out, e) && eval_divergence(en, &b, &plan, act__json(c), &r->out, e);
    engine_close(en);
    eval_base_close(&b);
    return ok;
}

/* Runs the text in chunks and gathers its importance matrix. */
static bool act__gather(act_job *r, int chunk, calib_imatrix *im, err_t *e) {
    const config *c = r->c;
    engine_opts   fo = c->fwd;
    fo.n_ctx = chunk;
    fo.n_gpu_layers = 0;                              /* the inputs of products are read on the host */
    const engine_plan plan = {.n_need = chunk, .n_seqs = 1, .n_out = 1, .head = arch_has_head(r->g)};
    engine           *en = engine_open(r->g, r->vocab, &fo, &c->kv, plan, r->t_start, e);
    act__graceful = 1;
    const bool ok = en && calib_gather(en, &r->ids, chunk, &c->calib, c->files.n ? c->files.v[0] : "", im, e);
    engine_close(en);
    return ok;
}

/* The importance matrix of the text, plus those of --in-file. After an interrupt nothing is written. */
static bool act__imatrix(act_job *r, err_t *e) {
    const config *c = r->c;
    const int     chunk = c->fwd.n_ctx > 0 ? c->fwd.n_ctx : CALIB_CHUNK, n = c->in_files.n;
    calib_imatrix im = {0}, *more = mem_new((size_t)n, sizeof *more);
    bool          ok = act__spares(r, c->what, e) && gguf_write_could(c->what, r->g, e);
    int           common = 0;                         /* chunk of the files that are added, 0: they differ */
    for (int i = 0; ok && i < n; i++) ok = calib_imatrix_read(&more[i], c->in_files.v[i], e);
    for (int i = 0; ok && i < n; i++) common = !i || common == (int)more[i].chunk ? (int)more[i].chunk : 0;
    if (r->ids.n || !n) ok = ok && act__gather(r, chunk, &im, e);
    for (int i = 0; i < n; i++) {
        ok = ok && calib_imatrix_merge(&im, &more[i], (uint32_t)chunk, e);
        calib_imatrix_drop(&more[i]);
    }
    mem_free(more);
    im.chunk = (uint32_t)(r->ids.n || !n || c->fwd.n_ctx > 0 ? chunk : common);
    ok = ok && calib_imatrix_write(&im, c->what, r->g, e);
    if (ok)
        log_warn("%s: %zu tensors, %u chunks of %u tokens, %.1f s", c->what, im.n, im.n_chunk, im.chunk,
                 clock_now() - r->t_start);
    calib_imatrix_drop(&im);
    return ok;
}

/* --- how a prompt becomes tokens --- */

static bool act__read_text(act_job *r, bool alone, err_t *e) {
    return (r->vocab = tok_load(r->g, r->c->pre, e)) && act__prompt(r->c, 0, alone, &r->text, e);
}

/* Encodes the raw text. bos: as for tok_start(). */
static bool act__encode(act_job *r, bool special, int bos, err_t *e) {
    const unsigned flags = tok_raw_flags(r->vocab, str_bytes(&r->text), bos, special);
    const bytes    start = tok_text(r->vocab, tok_bos(r->vocab));
    if (flags & TOK_BEGUN)
        log_warn("the prompt begins with the start token %.*s, which is not added a second time", GGUF_SHOW(start));
    return tok_encode(r->vocab, str_bytes(&r->text), flags, &r->ids, e);
}

/* A prompt for the model. An empty one is the start token alone. */
static bool act__encode_prompt(act_job *r, err_t *e) {
    return act__encode(r, r->c->special != 0, r->c->bos, e);
}

static bool act__read_prompt(act_job *r, err_t *e) { return act__read_text(r, false, e) && act__encode_prompt(r, e); }

/* A text whose vector is wanted: the file says too whether it ends with an end token. */
static bool act__read_embed(act_job *r, err_t *e) {
    const char *prefix = r->c->embed.prefix;
    str         text = {0};
    if (!act__read_text(r, false, e)) return false;
    if (prefix) str_put(&text, prefix), str_cat(&text, str_bytes(&r->text)), str_drop(&r->text), r->text = text;
    if (!act__encode_prompt(r, e)) return false;
    if (tok_add_eos(r->vocab)) tok_ids_add(&r->ids, tok_eos(r->vocab));
    return true;
}

/* Whether an option of a chat is given. */
static bool act__chat_options(const config *c) {
    const chat_opts *o = &c->chat;
    return o->messages || o->system || o->tools || o->template_file || o->kwargs || o->think_words || o->think_budget >= 0;
}

/* Whether the options ask for a chat: --chat, or without --raw another option of a chat. */
static bool act__asks_chat(const config *c) { return c->chat.on == 1 || (c->chat.on < 0 && act__chat_options(c)); }

/* Whether a prompt is a message: as --chat and --raw say, else where the model has a chat template or an option of a chat is
 * given. */
static bool act__chats(const config *c, const gguf_file *g) {
    return act__asks_chat(c) || (c->chat.on < 0 && chat_has_template(g));
}

/* The messages of --messages and the tools of --tools. */
static bool act__read_files(act_job *r, err_t *e) {
    const config *c = r->c;
    str           json = {0}, tools = {0};
    bool          ok = true;
    if (!c->chat.messages) chat_input_begin(&r->input);
    else ok = act__read_file(c->chat.messages, &json, e) && chat_input_json(&r->input, str_bytes(&json), c->chat.messages, e);
    if (ok && c->chat.tools)
        ok = act__read_file(c->chat.tools, &tools, e) && chat_input_tools(&r->input, str_bytes(&tools), c->chat.tools, e);
    str_drop_all(&json, &tools);
    return ok;
}

/* The same, and the prompt as one more message. */
static bool act__read_messages(act_job *r, err_t *e) {
    const config *c = r->c;
    if (!act__read_files(r, e)) return false;
    if (!c->prompt && !c->files.n && c->chat.messages) return true;
    if (!act__prompt(c, 0, false, &r->text, e)) return false;
    chat_add(&r->input, "user", str_bytes(&r->text));
    return true;
}

/* Opens the template of a chat. Where no option asks for one, the error says what goes on without it. */
static bool act__open_chat(act_job *r, err_t *e) {
    err_t why = {0};
    if ((r->chat = chat_open(r->g, r->vocab, &r->c->chat, &why))) return true;
    return err_set(e, why.code, "%s%s", why.text, act__asks_chat(r->c) ? "" : " (--raw continues texts without the template)");
}

/* The prompt of one answer: raw, or of a chat. */
static bool act__read_question(act_job *r, err_t *e) {
    if (!act__chats(r->c, r->g)) return act__read_prompt(r, e);
    if (!(r->vocab = tok_load(r->g, r->c->pre, e)) || !act__open_chat(r, e)) return false;
    if (!act__read_messages(r, e) || !chat_input_check(&r->input, e) || !chat_make_prompt(r->chat, &r->input, &r->asked, e))
        return false;
    if (chat_warning(&r->asked)) log_warn("%s", chat_warning(&r->asked));
    r->ids = r->asked.ids;
    r->asked.ids = (tok_ids){0};
    str_drop(&r->text);
    r->text = r->asked.text;
    r->asked.text = (str){0};
    return true;
}

/* A text of --imatrix-out, which may be empty beside --in-file. */
static bool act__read_corpus(act_job *r, err_t *e) {
    return act__read_text(r, false, e) && act__encode(r, r->c->special == 1, r->text.n ? r->c->bos : max_int(r->c->bos, 0), e);
}

/* The tokens of the text alone. */
static bool act__read_exact(act_job *r, err_t *e) {
    return act__read_text(r, false, e) && act__encode(r, r->c->special == 1, max_int(r->c->bos, 0), e);
}

static bool act__read_numbers(act_job *r, err_t *e) {
    return act__read_text(r, true, e) && act__read_ids(str_bytes(&r->text), tok_count(r->vocab), &r->ids, e);
}

/* --- --match and --mask --- */

/* "no constraint given, expected --grammar, ... or --choice" */
static bool act__check_hold(config *c, err_t *e) {
    if (constrain_given(&c->hold)) return true;
    str all = {0};
    cli_or(cli_partners[BESIDE_HOLD].names, ' ', &all);
    err_set(e, EXIT_INPUT, "no constraint given, expected %s", all.p);
    str_drop(&all);
    return false;
}

/* Whether the text is a whole match; EXIT_NO: it is not. */
static bool act__match(act_job *r, err_t *e) {
    const config *c = r->c;
    constrain    *held = NULL;
    size_t        at = 0;
    if (!constrain_from(&c->hold, &r->hold_text, &r->hold, e)) return false;
    r->hold.form.loose = true;
    if (!act__prompt_exists(c, 0, e) || !(held = constrain_open(&r->hold, NULL, NULL, e))) return false;
    constrain_warn(held, r->hold.path);
    bool ok = act__prompt(c, 0, true, &r->text, e);
    if (ok && !constrain_match(held, str_bytes(&r->text), &at, e) && !e->code)
        err_set(e, EXIT_NO,
                at < r->text.n ? "no match: byte %zu does not fit" : "no match: the text ends at byte %zu, expected more", at);
    constrain_close(held);
    return !e->code;
}

/* The places of a text, one after the other, for --format csv. */
static bool act__mask_rows(act_job *r, constrain_seq *s, str *out) {
    size_t at = 0;
    bool   ok = true;
    str_put(out, "place,byte,id,allowed,complete,microseconds\n");
    for (size_t i = 0; ok && i <= r->ids.n; i++) {
        const double    t0 = clock_now();
        const bool      taken = !i || constrain_accept(s, r->ids.id[i - 1]);
        const uint32_t *bits = taken ? constrain_bits(s) : NULL;
        const double    us = (clock_now() - t0) * 1e6;
        if (i) at += tok_piece(r->vocab, r->ids.id[i - 1]).n;
        ok = bits != NULL;
        if (!ok) break;
        str_fmt(out, "%zu,%zu,", i, at);
        if (i < r->ids.n) str_fmt(out, "%d", r->ids.id[i]);
        str_fmt(out, ",%d,%d,%.1f\n", mask_count(bits, tok_count(r->vocab)), constrain_complete(s), us);
        act__flush(r, out, 65536);
    }
    return ok;
}

/* The ids of a mask, one on a line or as JSON. */
static void act__mask_ids(act_job *r, const uint32_t *bits, bool complete, str *out) {
    const bool json = act__json(r->c);
    jw         w = jw_tight(out);
    if (json) {
        jw_open(&w, NULL, '{');
        jw_bool(&w, "complete", complete);
        jw_fmt(&w, "count", "%d", mask_count(bits, tok_count(r->vocab)));
        jw_open(&w, "ids", '[');
    }
    for (int32_t id = 0; id < tok_count(r->vocab); id++) {
        if (!(bits[id >> 5] >> (id & 31) & 1)) continue;
        if (json) jw_fmt(&w, NULL, "%d", id);
        else str_fmt(out, "%d\n", id);
        act__flush(r, out, 65536);
    }
    if (json) str_put(out, "]}\n");
}

/* The first byte of the text that does not fit: as EXIT_NO, or the limit that was reached. */
static bool act__mask_refused(const act_job *r, err_t *e) {
    constrain_seq *s = constrain_seq_new(r->held, false, NULL, 1);
    const bytes    text = str_bytes(&r->text);
    size_t         at = 0;
    while (at < text.n && constrain_feed(s, (bytes){text.p + at, 1})) at++;
    constrain_seq_free(s);
    return at < text.n ? err_set(e, EXIT_NO, "the text does not fit the constraint at byte %zu", at)
                       : err_set(e, EXIT_RESOURCE, "the constraint takes too many steps or too much memory after this text");
}

/* Which tokens may follow the text. */
static bool act__mask(act_job *r, err_t *e) {
    str out = {0};
    if (!act__read_text(r, true, e) ||
        !tok_encode(r->vocab, str_bytes(&r->text), TOK_MIDDLE | (r->c->special == 1 ? TOK_SPECIAL : 0), &r->ids, e))
        return false;
    if (!act__hold(r, e) || !out_begin(&r->out, e)) return false;
    constrain_seq  *s = constrain_seq_new(r->held, false, NULL, 1);
    const uint32_t *bits = NULL;
    bool            ok = true;
    if (strcmp(r->c->format, "csv") == 0) ok = act__mask_rows(r, s, &out);
    else {
        for (size_t i = 0; ok && i < r->ids.n; i++) ok = constrain_accept(s, r->ids.id[i]);
        if ((ok = ok && (bits = constrain_bits(s)))) act__mask_ids(r, bits, constrain_complete(s), &out);
    }
    act__flush(r, &out, 0);
    str_drop(&out);
    constrain_seq_free(s);
    return ok || act__mask_refused(r, e);
}

/* --- a conversation --- */

/* What a conversation asks of the command line: its own options, which /set changes. */
typedef struct {
    act_job      *r;
    config        c;
    int           n_ctx;
    samp_breakers breakers;
    samp_opts     samp;                               /* of the options, with the breakers */
} act_talker;

static void act__talk_samp(act_talker *t) {
    samp_breakers_drop(&t->breakers);
    t->samp = act__samp(&t->c, t->r->vocab, t->n_ctx, &t->breakers);
}

/* Whether /set may change the option. */
static bool act__talk_may_set(const cli_opt *o) { return o->kind == OPT_SAMP || o->at == AT(seed) || o->at == AT(gen.n_predict); }

/* The name and the value of an option. */
static void act__talk_line(const act_talker *t, const cli_opt *o, str *out) {
    const bytes name = cli_long_name(o);
    str_fmt(out, "  %-20.*s ", (int)name.n - 2, name.p + 2);
    cli_value(o, &t->c, out);
}

static bool act__talk_set(void *ctx, const char *name, const char *value, gen_request *ask, str *out, err_t *e) {
    act_talker    *t = ctx;
    config         c = t->c;
    str            option = {0};
    str_fmt(&option, "--%s", name + strspn(name, "-"));
    for (char *p = option.p; *p; p++) *p = *p == '_' ? '-' : *p;
    const char    *use = cli_instead(str_bytes(&option));
    const cli_opt *o = cli_find(false, use ? (bytes){(const uint8_t *)use, strcspn(use, " ")} : str_bytes(&option));
    bool           ok =
        (o && act__talk_may_set(o)) ||
        err_set(e, EXIT_INPUT, "/set: %s parameter %.100s (/set alone lists those that may change in a conversation)",
                o ? "fixed" : "unknown", name);
    ok = ok && (!*value || cli_set(&c, o, option.p, value, e));
    samp_opts so = c.samp;
    so.n_ctx = t->n_ctx;
    ok = ok && samp_check(&so, INT32_MAX, e);
    str_drop(&option);
    if (!ok) return false;
    if (*value && o->at == AT(seed) && c.seed < 0) c.seed = (int64_t)rng_fresh();
    t->c = c;
    act__talk_line(t, o, out);
    act__talk_samp(t);
    ask->samp = t->samp;
    ask->gen.n_predict = c.gen.n_predict < 0 ? -1 : c.gen.n_predict;
    ask->seed = (uint64_t)c.seed;
    return true;
}

static void act__talk_list(void *ctx, str *out) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        if (!act__talk_may_set(&cli_opts[i])) continue;
        act__talk_line(ctx, &cli_opts[i], out);
        str_put(out, "\n");
    }
}

static bool act__talk_open(void *ctx, const char *path, out_t *out, err_t *e) {
    const act_talker *t = ctx;
    if (strcmp(path, "-") == 0) return err_set(e, EXIT_INPUT, "-: found no name, expected a file to write");
    return act__output(out, path, &t->c, t->r->g, e);
}

/* The conversation on a model that is open. */
static bool act__use_talk(act_job *r, engine *en, err_t *e) {
    const config *c = r->c;
    act_talker    t = {.r = r, .c = *c, .n_ctx = en->n_ctx};
    spec         *guesser = act__guesser(r, en, 1, e);
    talk_opts     o = {.text = c->text, .out = &r->out, .hold = &r->hold, .holds = r->holds,
                       .set = act__talk_set, .list = act__talk_list, .open = act__talk_open, .ctx = &t};
    act__talk_samp(&t);
    t.c.seed = c->seed < 0 ? (int64_t)rng_fresh() : c->seed;
    const gen_request ask = gen_ask(NULL, &c->gen, &t.samp, (uint64_t)t.c.seed);
    if (act__json(c)) o.text.json = str_base_name(r->g->path);
    if (r->text.n) o.first = str_bytes(&r->text);
    const bool ok =
        !e->code && talk_run(en, guesser, r->chat, &r->input, &ask, &o, e) && spec_save(guesser, e) && engine_save(en, &c->kv, e);
    spec_close(guesser);
    samp_breakers_drop(&t.breakers);
    return ok;
}

/* Opens the template, the messages to begin with and the model. */
static bool act__talk(act_job *r, err_t *e) {
    const config *c = r->c;
    if (!(r->vocab = tok_load(r->g, c->pre, e)) || !(r->chat = chat_open(r->g, r->vocab, &c->chat, e)) || !act__read_files(r, e))
        return false;
    if (((c->prompt || c->files.n) && !act__prompt(c, 0, true, &r->text, e)) || !act__hold(r, e)) return false;
    if (!act__open_head(r, e)) return false;
    const spec_opts   o = act__spec(r);
    const engine_plan plan = act__with_head(r, talk_plan(&c->fwd, spec_rows(&o, 1)), &o);
    engine           *en = engine_open(r->g, r->vocab, &c->fwd, &c->kv, plan, r->t_start, e);
    act__graceful = 1;
    const bool ok = en && act__use_talk(r, en, e);
    engine_close(en);
    return ok;
}

/* What guides --quantize: an importance matrix, a text for calibrated rounding. */
typedef struct {
    const config    *c;
    const gguf_file *g;
    calib_imatrix    im;
    float          **w;                               /* [n_tensor] importance of each channel, NULL: unknown */
    tok_ids          ids;                             /* the text */
    int32_t          bos;
    round_job       *rounded;
} act_guide;

static const float *act__weights(void *ctx, const gguf_tensor *t, uint64_t matrix) {
    const act_guide *k = ctx;
    const float     *w = k->w ? k->w[t - k->g->tensor] : NULL;
    return w ? w + matrix * t->dim[0] : NULL;
}

static bool act__guide_imatrix(act_guide *k, err_t *e) {
    if (!calib_imatrix_read(&k->im, k->c->imatrix, e)) return false;
    size_t known = 0;
    k->w = mem_new(k->g->n_tensor, sizeof *k->w);
    for (uint64_t i = 0; i < k->g->n_tensor && !e->code; i++) {
        const gguf_tensor *t = &k->g->tensor[i];
        k->w[i] = calib_weights(&k->im, t->name, t->dim[0], t->dim[2] * t->dim[3], e);
        known += k->w[i] != NULL;
    }
    if (!e->code && !known) log_warn("%s: has no tensor of this model", k->c->imatrix);
    return !e->code;
}

static bool act__guide_text(act_guide *k, err_t *e) {
    const config *c = k->c;
    str           text = {0};
    tok_vocab    *v = tok_load(k->g, c->pre, e);
    const bool    ok = v && act__read_file(c->calibrate, &text, e) &&
                    tok_encode(v, str_bytes(&text), tok_raw_flags(v, str_bytes(&text), c->bos, c->special == 1), &k->ids, e);
    k->bos = v ? tok_start(v, c->bos) : -1;
    tok_free(v);
    str_drop(&text);
    return ok;
}

static bool act__guide_prepare(void *ctx, const uint32_t *to, err_t *e) {
    act_guide       *k = ctx;
    const config    *c = k->c;
    const round_opts o = {.chunk = c->fwd.n_ctx > 0 ? c->fwd.n_ctx : CALIB_CHUNK,
                          .n_chunks = c->calib.n_chunks, .n_threads = c->fwd.n_threads, .damp = 0.01f,
                          .rope = c->fwd.rope, .kv = c->kv};
    round_free(k->rounded);
    k->rounded = NULL;
    if (c->calibrate) k->rounded = round_run(k->g, &k->ids, k->bos, to, &o, e);
    return !c->calibrate || k->rounded;
}

static const uint8_t *act__guide_bytes(void *ctx, uint64_t i) {
    const act_guide *k = ctx;
    return k->rounded ? round_bytes(k->rounded, i) : NULL;
}

/* Quantising as the options say, with an importance matrix or a text where they name one. */
static bool act__guided(act_job *r, bool (*use)(act_job *r, const quant_opts *o, err_t *e), err_t *e) {
    const config     *c = r->c;
    const gguf_file  *g = r->g;
    act_guide         know = {.c = c, .g = g};
    const quant_guide guide = {&know, act__weights, act__guide_prepare, act__guide_bytes};
    quant_opts        o = c->quant;
    o.tensor_type = c->tensor_types.v;
    o.n_tensor_type = c->tensor_types.n;
    o.n_threads = c->fwd.n_threads;
    if (c->imatrix || c->calibrate) o.guide = &guide;
    bool ok = (!c->imatrix || act__guide_imatrix(&know, e)) && (!c->calibrate || act__guide_text(&know, e));
    if (c->imatrix) o.imatrix.file = c->imatrix, o.imatrix.entries = (uint32_t)know.im.n, o.imatrix.chunks = know.im.n_chunk;
    if (know.im.n_dataset) o.imatrix.dataset = str_bytes(&know.im.dataset[0]);
    act__graceful = 1;
    ok = ok && use(r, &o, e);
    for (uint64_t i = 0; know.w && i < g->n_tensor; i++) mem_free(know.w[i]);
    mem_free(know.w);
    round_free(know.rounded);
    tok_ids_drop(&know.ids);
    calib_imatrix_drop(&know.im);
    return ok;
}

/* quant_run() with the adapters of the options merged into the weights, if there are any. */
static bool act__quant_merged(act_job *r, const char *type, const quant_opts *o, err_t *e) {
    const config *c = r->c;
    quant_opts    own = *o;
    model         m = {0};
    lora         *l = NULL;
    if (!c->fwd.lora.n) return quant_run(r->g, type, c->output, o, &r->out, e);
    lora_opts lo = c->fwd.lora;
    lo.merge = true;
    bool ok = model_open(&m, r->g, &rope_defaults, e) && (l = lora_open(&lo, &m, e)) && lora_can_merge(l, &m, e);
    const quant_merge merge = {&(lora_merge){l, &m}, lora_changes, lora_add};
    own.merge = &merge;
    ok = ok && quant_run(r->g, type, c->output, &own, &r->out, e);
    model_close(&m);
    lora_close(l);
    return ok;
}

static bool act__use_quantize(act_job *r, const quant_opts *o, err_t *e) { return act__quant_merged(r, r->c->what, o, e); }

static bool act__quantize(act_job *r, err_t *e) {
    return (r->c->quant.dry_run || act__apart_from_inputs(r->c, r->c->output, e)) && act__guided(r, act__use_quantize, e);
}

static bool act__lora_merge(act_job *r, err_t *e) {
    const quant_opts o = {.n_threads = r->c->fwd.n_threads};
    act__graceful = 1;
    return act__apart_from_inputs(r->c, r->c->output, e) && act__quant_merged(r, "COPY", &o, e);
}

/* The folder of temporary files of --quality. */
static const char *act__folder(void) {
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

static bool act__use_quality(act_job *r, const quant_opts *o, err_t *e) {
    const config *c = r->c;
    engine_opts   fo = c->fwd;
    out_t         svg = {stdout, "stdout", 0, false};
    str           source = {0};
    quality_job   j = {.g = r->g, .v = r->vocab, .ids = &r->ids, .types = c->what, .folder = act__folder(),
                       .fo = &fo, .ko = &c->kv, .eval = &c->eval, .quant = o};
    if (fo.n_ctx < 0) fo.n_ctx = EVAL_CTX;
    j.bos = tok_start(r->vocab, c->bos);
    str_fmt(&source, "llmrun, commit %s, text: %s", cli_commit(), c->files.n ? str_base_name(c->files.v[0]) : "the prompt");
    j.source = source.p;
    bool ok = !c->plot || (act__spares(r, c->plot, e) && act__output(&svg, c->plot, c, NULL, e));
    ok = ok && quality_run(&j, act__json(c) ? QUALITY_JSON : strcmp(c->format, "csv") == 0 ? QUALITY_CSV : QUALITY_MD, &r->out,
                           c->plot ? &svg : NULL, e);
    if (c->plot && svg.f != stdout) ok = out_end(&svg, e) && ok;
    str_drop(&source);
    return ok;
}

static bool act__quality(act_job *r, err_t *e) { return act__guided(r, act__use_quality, e); }

/* The sampling parameters that a model file recommends, where the command line gives none. */
static bool act__from_model(config *c, const gguf_file *g, err_t *e) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt    *o = &cli_opts[i];
        const samp_param *p = cli_param(o);
        void             *to = (char *)c + o->at;
        double            x = 0;
        if (!p || !p->gguf || c->given[i]) continue;
        const int got = gguf_get_number(g, p->gguf, p->lo, p->hi, &x, e);
        if (got < 0) return false;
        if (got && p->whole) *(int *)to = (int)x;
        else if (got) *(float *)to = (float)x;
        const bytes name = cli_long_name(o);
        if (got) log_info("%s: %s sets %.*s", g->path, p->gguf, (int)name.n, name.p);
    }
    return true;
}

/* The value of an option as a setting: texts as plain JSON, which earlier runs have written too; switches as words. */
static void act__setting(const cli_opt *o, const config *c, str *out) {
    const void *field = (const char *)c + o->at;
    const char *text = o->kind == OPT_STR ? *(const char *const *)field : NULL;
    if (o->kind == OPT_LIST) {
        const cli_list *l = field;
        for (int k = 0; k < l->n; k++) str_json_plain(out, bytes_of(l->v[k]));
    } else if (o->kind == OPT_ON) str_put(out, *(const bool *)field ? "on" : "off");
    else if (o->kind == OPT_SET) str_fmt(out, "%d", *(const int *)field);
    else if (o->kind == OPT_STR) str_json_plain(out, bytes_of(text ? text : ""));
    else cli_value(o, c, out);
}

/* A setting that stands for a file: its digest; the hash that earlier versions wrote, where --resume continues their records.
 * resumed: the file of these; NULL: there is none. */
static void act__put_digest(const char *resumed, const char *name, digest d, uint64_t was, str *out) {
    str        text = {0};
    err_t      none = {0};
    const bool there = resumed && results_setting(resumed, name, &text, &none);
    const bool old = there ? text.n == 16 : resumed && results_is_old(resumed);
    if (old) str_fmt(out, "%s=%016llx\n", name, (unsigned long long)was);
    else str_fmt(out, "%s=%016llx%016llx\n", name, (unsigned long long)d.a, (unsigned long long)d.b);
    str_drop(&text);
}

/* The settings that answers of a batch depend on, one on a line. --resume goes on only with equal settings. Of the options of a
 * chat those that are given; a template of the model is part of its fingerprint. resumed: as for act__put_digest(). */
static void act__settings(const act_job *r, const engine *en, const char *seed, int n_ctx, const char *resumed, str *out) {
    static const char *const more[] = {"-n",           "-ctk",      "-ctv",  "--pre",  "--stop",
                                       "--ignore-eos", "--special", "--bos", "--blas", "--shard"};
    const config            *c = r->c;
    str_fmt(out, "model=%016llx\nseed=%s\ncontext=%d\n", (unsigned long long)gguf_fingerprint(r->g), seed, n_ctx);
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *row = &cli_opts[i], *o = row->at == AT(system_file) ? cli_find(false, bytes_of("-sys")) : row;
        const bytes    name = cli_long_name(o);
        bool           want = o->group == GROUP_ROPE || (o->group == GROUP_SAMPLE && o != cli_find(false, bytes_of("--seed")));
        want = want || (o->group == GROUP_CHAT && c->given[i] && o->at != AT(chat.template_file));
        want = want || ((o->at == AT(embed.truncate) || o->at == AT(embed.prefix)) && c->given[i]);
        want = want || ((o->at == AT(batch.prompt) || o->at == AT(batch.id_column)) && c->given[i]);
        want = want || ((o->at == AT(fwd.same) || o->at == AT(fwd.as_bf16) || o->at == AT(gen.loop_stop)) && c->given[i]);
        want = want || (o->group == GROUP_HOLD && c->given[i] && o->at != AT(hold.grammar_file) && o->at != AT(hold.schema_file));
        for (size_t k = 0; k < sizeof more / sizeof *more; k++) want = want || o == cli_find(false, bytes_of(more[k]));
        if (o->at >= AT(gen.diffuse) && o->at < AT(gen.diffuse) + sizeof c->gen.diffuse) want = want && model_diffuses(&en->m);
        if (!want) continue;
        str_fmt(out, "%.*s=", (int)name.n - 2, name.p + 2);
        act__setting(o, c, out);
        str_put(out, "\n");
    }
    if (*en->m.rope_set) str_fmt(out, "rope-set=%s\n", en->m.rope_set);
    for (int i = 0; en->adapters && i < en->adapters->n; i++) {
        const lora_adapter *a = &en->adapters->of[i];
        str_fmt(out, "lora=%016llx %.9g %.9g\n", GGUF_U(bytes_hash(a->hash, bytes_of(a->name))), (double)a->scale,
                (double)a->named);
    }
    if (c->chat.template_file) act__put_digest(resumed, "chat-template", chat_digest(r->chat), chat_fingerprint(r->chat), out);
    if (r->hold_text.n)
        act__put_digest(resumed, "constraint-file", bytes_digest((bytes){0}, str_bytes(&r->hold_text)),
                        bytes_hash(0, str_bytes(&r->hold_text)), out);
    if (c->action == ACT_EMBED_LINES || (c->action == ACT_SERVE && (c->pooling || c->embed.norm != embed_defaults.norm)))
        str_fmt(out, "pooling=%s\nembd-normalize=%d\n", c->pooling ? c->pooling : "", c->embed.norm);
}

/* The seed of a batch: the one given, else that of the results that --resume continues, else a fresh one. *drawn: it was not
 * given. */
static bool act__batch_seed(const config *c, const char *records, uint64_t *seed, bool *drawn, str *text, err_t *e) {
    static const char mark[] = "drawn ";
    *drawn = c->seed < 0;
    *seed = *drawn ? rng_fresh() : (uint64_t)c->seed;
    if (*drawn && c->resume && records &&
        (results_setting(records, "seed", text, e) || (!e->code && results_seed(records, text))) &&
        strncmp(text->p, mark, sizeof mark - 2) == 0) /* in a fingerprint the blank is missing */
        *seed = strtoull(text->p + sizeof mark - 2, NULL, 10);
    str_clear(text);
    str_fmt(text, "%s%llu", *drawn ? mark : "", (unsigned long long)*seed);
    return !e->code;
}

/* The chat template of a batch, by which a plain line is a message. Where no option asks for a chat, a template that is missing
 * or cannot be read is an error of the lines that need it alone. */
static bool act__batch_chat(act_job *r, batch_job *job, err_t *e) {
    const config *c = r->c;
    r->chat = chat_open(r->g, r->vocab, &c->chat, act__asks_chat(c) ? e : &job->no_chat);
    job->chat = r->chat;
    job->wrap = act__chats(c, r->g);
    if (job->forms) job->forms->parts = r->chat != NULL;
    return !e->code;
}

/* What follows the last dot of -o; empty: nothing. */
static const char *act__extension(const config *c) {
    const char *dot = c->output ? strrchr(str_base_name(c->output), '.') : NULL;
    return dot ? dot + 1 : "";
}

/* --print0 ends texts; False: the answers have another form, and e is set. */
static bool act__check_print0(const config *c, bool texts, err_t *e) {
    return !c->print0 || texts || err_set(e, EXIT_INPUT, "--print0: the answers are no texts, expected --format text");
}

/* The form of the answers: as --format says, else as the name of the file does; another name is that of records. --json is the
 * form of the summary. A list needs a file, since its commas depend on the order. False: e is set. */
static bool act__batch_form(const config *c, batch_job *job, forms_spec *f, err_t *e) {
    static const struct {
        const char *name;
        batch_form  form;
    } of_vectors[] = {{"json", BATCH_FORMS}, {"f32", BATCH_FLOATS}, {"npy", BATCH_NPY}, {"txt", BATCH_NUMBERS},
                      {"text", BATCH_NUMBERS}};
    const bool  by_name = !cli_given(c, "--format") || act__json(c), vectors = c->action == ACT_EMBED_LINES;
    const char *name = by_name ? act__extension(c) : c->format, *numbers = NULL;
    forms_kind  kind = FORMS_LIST;
    batch_form  form = BATCH_FORMS;
    struct stat st;
    const bool  file = c->output && strcmp(c->output, "-") != 0 && (stat(c->output, &st) != 0 || S_ISREG(st.st_mode));
    job->form = BATCH_RECORDS;
    if (c->batch.dry) return true;
    const char *answers = forms_named(name, &kind);
    for (size_t i = 0; i < sizeof of_vectors / sizeof *of_vectors; i++)
        if (strcasecmp(name, of_vectors[i].name) == 0) {
            numbers = of_vectors[i].name;
            if (vectors) form = of_vectors[i].form;
        }
    const char *own = vectors ? numbers : answers, *other = vectors ? answers : numbers;
    if (other && !own)
        return err_set(e, EXIT_INPUT, "%s: .%s is a form of %s, expected %s", c->output ? c->output : "--format", other,
                       vectors ? "answers" : "vectors (--embed)", vectors ? ".jsonl, .json, .f32, .npy or .txt"
                                                                          : ".jsonl, .json, .csv, .tsv or .txt");
    if (own && (form != BATCH_FORMS || kind != FORMS_LIST || file)) job->form = form;
    if (job->form == BATCH_FORMS) f->kind = kind;
    if (job->form == BATCH_NPY && !file)
        return err_set(e, EXIT_INPUT, "%s: is no regular file, expected one for .npy", c->output);
    if (!act__check_print0(c, job->form == BATCH_FORMS && f->kind == FORMS_TEXT, e)) return false;
    f->zero = c->print0;
    if (job->form == BATCH_FORMS) job->forms = f;
    return true;
}

/* The file of the records: that of -o, unless this has another form and is made of them at the end. */
static bool act__batch_file(act_job *r, batch_job *job, str *records, err_t *e) {
    const config *c = r->c;
    struct stat   st, its;
    const bool    exists = c->output && stat(c->output, &st) == 0;
    if (c->output || c->batch.dry) str_put(records, c->batch.dry ? "/dev/null" : c->output);
    if (!job->forms || !c->output || strcmp(c->output, "-") == 0 || (exists && !S_ISREG(st.st_mode))) return true;
    str_put(records, ".jsonl");
    if (exists && st.st_size && !c->resume)
        return err_set(e, EXIT_INPUT, "%s: holds %llu bytes, expected a new file (--resume continues this one)", c->output,
                       (unsigned long long)st.st_size);
    if (exists && st.st_size && stat(records->p, &its) != 0)
        return err_set(e, EXIT_INPUT, "%s: not found, expected the records of %s, which --resume continues", records->p,
                       c->output);
    job->file = &r->out;
    return act__output(&r->out, c->output, c, r->g, e);
}

/* Columns of a table: the file, and the keys of the answers where the options give them a schema. */
static void act__batch_columns(const act_job *r, batch_job *job) {
    forms_spec *f = job->forms;
    if (!f) return;
    f->files = job->n_paths > 1;
    f->fields = job->fields;
    for (int i = 0; i < job->pass.n && !job->pass.all; i++) forms_add(f, job->pass.name[i]);
    if (r->hold.kind == CONSTRAIN_SCHEMA) forms_add_keys(f, r->hold.text);
}

/* The template of --prompt-template. */
static bool act__batch_template(const config *c, batch_job *job, err_t *e) {
    str text = {0};
    if (!c->batch.prompt) return true;
    if (c->escape) cli_unescape(c->batch.prompt, &text);
    const bool ok = table_template_read(&job->prompt, text.n ? text.p : c->batch.prompt, e);
    str_drop(&text);
    return ok;
}

/* What a batch needs beside its job. */
typedef struct {
    str      seed;                                    /* as a setting */
    str      records;                                 /* the file of the records; empty: stdout */
    str      report;                                  /* of a dry run */
    forms_spec forms;
} act_lines;

static void act__lines_drop(act_lines *l, batch_job *job) {
    table_template_drop(&job->prompt);
    forms_drop(&l->forms);
    str_drop_all(&l->seed, &l->records, &l->report);
}

/* What can be checked before the model is opened to run. */
static bool act__batch_prepare(act_job *r, batch_job *job, act_lines *l, err_t *e) {
    const config *c = r->c;
    *job = (batch_job){.model_name = str_base_name(r->g->path), .gen = &c->gen, .special = c->special != 0,
                       .bos = c->bos, .json = act__json(c)};
    if (!act__batch_form(c, job, &l->forms, e)) return false;
    if (job->form >= BATCH_NUMBERS && c->resume)
        return err_set(e, EXIT_INPUT, "--resume: vectors without records cannot go on, expected -o FILE.jsonl or FILE.json");
    r->vocab = tok_load(r->g, c->pre, e);
    bool ok = r->vocab && act__hold(r, e) && batch_fields(&c->batch, job, e) && act__batch_template(c, job, e) &&
              (c->action == ACT_EMBED_LINES || act__batch_chat(r, job, e));
    job->path = c->batch_files.v;
    job->n_paths = c->batch_files.n;
    ok = ok && batch_check(job, &c->batch, e) && (!c->output || act__apart_from_inputs(c, c->output, e)) &&
         act__batch_file(r, job, &l->records, e) && act__batch_seed(c, l->records.p, &job->seed, &job->own_seeds, &l->seed, e);
    job->hold = &r->hold;
    job->holds = r->holds;
    job->report = &l->report;
    act__batch_columns(r, job);
    return ok;
}

/* Answers the lines and saves the caches. Returns how many lines have an error, -1: e is set. *n_cut: answers that do not meet
 * their constraint. */
static long long act__batch_answer(act_job *r, engine *en, spec *guesser, batch_job *job, const act_lines *l, long long *n_cut,
                                   err_t *e) {
    const config *c = r->c;
    const bool    bound = c->kv.max_blocks || c->kv.mem_bytes;   /* a context that only free memory bounds is not a setting */
    samp_breakers breakers = {0};
    str           settings = {0};
    long long     bad = -1;
    act__settings(r, en, l->seed.p, bound ? en->n_ctx : c->fwd.n_ctx > 0 ? c->fwd.n_ctx : en->m.hp.n_ctx_train,
                  c->resume ? l->records.p : NULL, &settings);
    results *out = results_open(l->records.p, c->resume, job->form >= BATCH_NUMBERS ? (bytes){0} : str_bytes(&settings), e);
    if (out && (!c->retry_errors || results_forget_failed(out, e))) {
        const samp_opts so = act__samp(c, r->vocab, en->n_ctx, &breakers);
        job->samp = &so;
        bad = batch_run(en, guesser, out, &c->batch, job, n_cut, e);
        if (bad >= 0) bad += (long long)out->n_old_failed;
        if (!c->batch.dry) engine_save(en, &c->kv, e), spec_save(guesser, e);
    }
    if (out) results_close(out, e);
    samp_breakers_drop(&breakers);
    str_drop(&settings);
    return bad;
}

/* --- vectors --- */

/* How vectors are made: as the options say, else as the model file does. */
static bool act__embed_opts(const config *c, const engine *en, embed_opts *o, err_t *e) {
    *o = c->embed;
    o->pooling = c->pooling ? embed_pooling_of(c->pooling) : en->m.hp.pooling;
    return embed_check(&en->m, o, e) && (!o->truncate || (o->limit = embed_limit(&en->m, en->n_ctx, e)) > 0);
}

/* {"object":"list","data":[{"object":"embedding","index":0,"embedding":[...]}],"model":NAME,"usage":{...}} */
static void act__embed_json(const act_job *r, const gen_answer *a, bool several, str *out) {
    jw w = jw_tight(out);
    jw_open(&w, NULL, '{');
    jw_str(&w, "object", "list");
    jw_open(&w, "data", '[');
    embed_put_object(a->vec, a->n_vec, a->width, several, false, 0, &w);
    jw_close(&w, ']');
    jw_str(&w, "model", str_base_name(r->g->path));
    jw_open(&w, "usage", '{');
    jw_fmt(&w, "prompt_tokens", "%d", a->n_prompt);
    jw_fmt(&w, "total_tokens", "%d", a->n_prompt);
    jw_close(&w, '}');
    jw_close(&w, '}');
    str_put(out, "\n");
}

static bool act__put_vector(act_job *r, const gen_answer *a, bool several, err_t *e) {
    str  s = {0};
    bool ok = out_begin(&r->out, e);
    if (ok && r->c->raw) {
        if (strcasecmp(act__extension(r->c), "npy") == 0) embed_put_npy(a->n_vec, a->width, &s);
        ok = (!s.n || out_put(&r->out, s.p, s.n)) &&
             out_put(&r->out, a->vec, (size_t)a->n_vec * (size_t)a->width * sizeof *a->vec);
        str_drop(&s);
        return ok;
    }
    if (act__json(r->c)) act__embed_json(r, a, several, &s);
    else embed_put_text(a->vec, a->n_vec, a->width, &s);
    ok = ok && out_put(&r->out, s.p, s.n);
    str_drop(&s);
    return ok;
}

static bool act__use_embed(act_job *r, engine *en, err_t *e) {
    const config *c = r->c;
    gen_request   ask = gen_ask(&r->ids, &c->gen, &c->samp, 0);
    gen_answer    a = {0};
    engine_meter  meter;
    ask.embeds = true;
    if (!act__embed_opts(c, en, &ask.embed, e)) return false;
    sched *sc = sched_new(en, NULL, &(sched_opts){.n_seqs = 1}, e);
    bool   ok = sc && sched_add(sc, &ask, e);
    meter_start(&meter, en, "reading the text", (int64_t)r->ids.n, METER_QUIET_S);
    for (int64_t left = (int64_t)r->ids.n; ok && !g_interrupt; left -= meter.step) {
        meter_step(&meter, left < en->chunk ? left : en->chunk);
        if (!sched_step(sc, (int64_t)r->ids.n, e)) break;
    }
    meter_stop(&meter);
    ok = ok && !e->code && sched_take(sc, &a) && (a.finish == GEN_EMBEDDED || (*e = a.err, false));
    ok = ok && act__put_vector(r, &a, embed_each(&ask.embed), e);
    gen_answer_drop(&a);
    sched_free(sc);
    return ok;
}

static bool act__embed(act_job *r, err_t *e) {
    return act__with_engine(r, (engine_plan){.n_need = (int64_t)r->ids.n, .n_seqs = 1, .hidden = true}, act__use_embed, e);
}

/* --- lines --- */

/* The engine for so many sequences of a batch. */
static engine_plan act__batch_plan(const act_job *r, int n_seqs, const engine_needs *beside) {
    const config   *c = r->c;
    const spec_opts o = act__spec(r);
    if (c->action != ACT_EMBED_LINES) {
        engine_plan p = sched_plan(&c->fwd, n_seqs, spec_rows(&o, n_seqs), beside);
        p.vectors = true;
        return act__with_head(r, p, &o);
    }
    return (engine_plan){
        .n_seqs = n_seqs, .n_rows = c->fwd.n_batch, .hidden = true, .share = true, .pack = ENGINE_PACK_LATER, .beside = beside};
}

/* The exit code of a batch in which some lines have an error, or some answers do not meet their constraint. */
static void act__batch_negative(const char *name, bool others, long long bad, long long cut, err_t *e) {
    str s = {0};
    if (bad) str_fmt(&s, "%lld line%s answered with an error", bad, bad == 1 ? " is" : "s are");
    if (bad && cut) str_put(&s, ", ");
    if (cut) str_fmt(&s, "%lld answer%s unfinished: cut before the constraint was met", cut, cut == 1 ? " is" : "s are");
    if (bad || cut) err_set(e, EXIT_NO, "%s%s: %s", name, others ? " and others" : "", s.p);
    str_drop(&s);
}

static bool act__batch(act_job *r, err_t *e) {
    const config *c = r->c;
    const int     n_seqs = c->batch.n_parallel;
    batch_job     job;
    act_lines     lines = {0};
    engine       *en = NULL;
    engine_needs  beside = {0};
    embed_opts    embeds;
    err_t         none = {0};                         /* why lines of texts cannot ask for vectors */
    spec         *guesser = NULL;
    long long     bad = 0, cut = 0;
    const bool    ready = act__batch_prepare(r, &job, &lines, e) && act__open_head(r, e);
    const spec_opts so = act__spec(r);
    if (ready && spec_needs(&so, &c->fwd, &c->kv, n_seqs, &beside, e))
        en = engine_open(r->g, r->vocab, &c->fwd, &c->kv, act__batch_plan(r, n_seqs, &beside), r->t_start, e);
    if (en) guesser = act__guesser(r, en, n_seqs, e);
    job.vectors = c->action == ACT_EMBED_LINES;
    if (en && act__embed_opts(c, en, &embeds, job.vectors ? e : &none) && (job.vectors || embeds.pooling != POOLING_RANK))
        job.embed = &embeds;
    if (job.embed && job.form >= BATCH_NUMBERS && embed_each(&embeds))
        err_set(e, EXIT_INPUT, "--pooling none: a text has several vectors, expected --format json or -o FILE.jsonl");
    act__graceful = 1;
    if (!e->code) bad = act__batch_answer(r, en, guesser, &job, &lines, &cut, e);
    if (lines.report.n) out_put(&r->out, lines.report.p, lines.report.n), out_flush(&r->out);
    if (bad > 0 && c->batch.dry) err_set(e, EXIT_NO, "%s%s: %lld line%s wrong", c->inputs.v[0],
                                         c->batch_files.n > 1 ? " and others" : "", bad, bad == 1 ? " is" : "s are");
    else if (bad >= 0) act__batch_negative(c->inputs.v[0], c->batch_files.n > 1, bad, cut, e);
    if (job.file) out_end(job.file, e);
    act__lines_drop(&lines, &job);
    spec_close(guesser);
    engine_close(en);
    return !e->code;
}

/* --- a server --- */

/* The engine for n_seqs sequences; of an encoder for vectors alone. */
static engine_plan act__serve_plan(const act_job *r, bool answers, int n_seqs, const engine_needs *beside) {
    const config   *c = r->c;
    const spec_opts o = act__spec(r);
    engine_plan     p = sched_plan(&c->fwd, n_seqs, answers ? spec_rows(&o, n_seqs) : 0, beside);
    p.hidden = !answers;
    p.vectors = answers;
    p.pack = ENGINE_PACK_NOW;
    return answers ? act__with_head(r, p, &o) : p;
}

/* What the answers depend on beside the seed: as lines, and as one word. */
static void act__serve_settings(const act_job *r, const engine *en, str *settings, str *print) {
    str   all = {0};
    bytes rest, one;
    act__settings(r, en, "", en->n_ctx, NULL, &all);
    rest = str_bytes(&all);
    while (bytes_cut_line(&rest, &one))
        if (!bytes_begins(one, bytes_of("seed="))) str_cat(settings, one), str_put(settings, "\n");
    const uint64_t h = bytes_hash(0, str_bytes(settings));
    str_fmt(print, "llmrun-%016llx-%08x", (unsigned long long)gguf_fingerprint(r->g), (unsigned)(h ^ h >> 32));
    str_drop(&all);
}

/* Serves with an engine that is open. */
static bool act__serve_with(act_job *r, engine *en, spec *guesser, bool answers, int n_seqs, err_t *e) {
    const config *c = r->c;
    samp_breakers breakers = {0};
    str           settings = {0}, print = {0};
    embed_opts    embeds;
    err_t         no_chat = {0};
    if (!act__embed_opts(c, en, &embeds, e)) return false;
    r->chat = chat_open(r->g, r->vocab, &c->chat, act__asks_chat(c) || c->chat.template_file ? e : &no_chat);
    if (e->code) return false;
    act__serve_settings(r, en, &settings, &print);
    const samp_opts so = act__samp(c, r->vocab, en->n_ctx, &breakers);
    const serve_job job = {.env = {.eng = en, .chat = r->chat, .no_chat = &no_chat, .holds = r->holds, .embed = &embeds,
                                   .special = c->special != 0, .bos = c->bos},
                           .gen = &c->gen, .samp = &so, .hold = &r->hold, .seed = c->seed, .fingerprint = print.p,
                           .settings = str_bytes(&settings),
                           .model_name = c->serve.alias ? c->serve.alias : str_base_name(r->g->path), .n_parallel = n_seqs,
                           .answers = answers, .ranks = embeds.pooling == POOLING_RANK};
    const bool ok = !e->code && serve_run(r->server, en, guesser, &job, e);
    samp_breakers_drop(&breakers);
    str_drop_all(&settings, &print);
    return ok;
}

/* Whether the model makes texts; else vectors or scores alone. */
static bool act__makes_texts(const gguf_file *g, err_t *e) {
    arch_hparams hp;
    const bool   makes = arch_load(&hp, g, e) && (hp.causal || arch_diffuses(&hp)) && hp.pooling != POOLING_RANK;
    arch_drop(&hp);
    return makes;
}

/* Short texts fill a step of an encoder many at a time. */
static bool act__serve(act_job *r, err_t *e) {
    const config   *c = r->c;
    engine         *en = NULL;
    engine_needs    beside = {0};
    spec           *guesser = NULL;
    kv_opts         ko = c->kv;
    if (!serve_start(r->server, e) || !act__open_head(r, e)) return false;
    const bool      answers = act__makes_texts(r->g, e);
    const int       n_seqs = answers || cli_given(c, "--parallel") ? c->batch.n_parallel : c->fwd.n_batch;
    if (!answers && !cli_given(c, "-ctk")) ko.type_k = K_F32;
    if (!answers && !cli_given(c, "-ctv")) ko.type_v = K_F32;
    const spec_opts so = answers ? act__spec(r) : (spec_opts){0};
    r->vocab = e->code ? NULL : tok_load(r->g, c->pre, e);
    if (r->vocab && act__hold(r, e) && spec_needs(&so, &c->fwd, &ko, n_seqs, &beside, e))
        en = engine_open(r->g, r->vocab, &c->fwd, &ko, act__serve_plan(r, answers, n_seqs, &beside), r->t_start, e);
    if (en && answers) guesser = act__guesser(r, en, n_seqs, e);
    if (en && !e->code && act__serve_with(r, en, guesser, answers, n_seqs, e)) engine_save(en, &c->kv, e), spec_save(guesser, e);
    spec_close(guesser);
    engine_close(en);
    return !e->code;
}

/* --- actions with short functions --- */

/* Writes a text as the whole answer, and frees it. */
static bool act__answer(act_job *r, str *text, err_t *e) {
    const bool ok = !e->code && out_begin(&r->out, e) && out_put(&r->out, text->p, text->n);
    str_drop(text);
    return ok;
}

static bool act__inspect(act_job *r, err_t *e) {
    return out_begin(&r->out, e) && inspect_print(r->g, r->c->pre, act__json(r->c), &r->out, e);
}

static bool act__statistics(act_job *r, err_t *e) {
    const config *c = r->c;
    const bool    csv = strcmp(c->format, "csv") == 0;
    calib_imatrix im = {0};
    str           text = {0};
    if (calib_imatrix_read(&im, c->in_files.v[0], e))
        calib_show(&im, act__json(c) ? CALIB_JSON : csv ? CALIB_CSV : CALIB_TEXT, &text);
    calib_imatrix_drop(&im);
    return act__answer(r, &text, e);
}

/* What is known of records that are joined in another form. */
typedef struct {
    forms_spec forms;
    bool       texts;                                 /* some answer is no object */
} act_joined;

static bool act__learn(void *ctx, bytes record, err_t *e) {
    act_joined *m = ctx;
    (void)e;
    forms_learn(&m->forms, record, &m->texts);
    return true;
}

/* Joins files of results, as records or in the form that --format or the name of the file says. For another form the files are
 * read twice: to find errors and the columns of a table before anything is written. */
static bool act__merge(act_job *r, err_t *e) {
    const config    *c = r->c;
    const cli_list  *files = &c->inputs;
    const char      *name = cli_given(c, "--format") || c->json ? c->format : act__extension(c);
    act_joined       m = {.forms = {.zero = c->print0}};
    const bool       other = forms_named(name, &m.forms.kind);
    if (!act__check_print0(c, other && m.forms.kind == FORMS_TEXT, e)) return false;
    if (!other) return results_merge(files->v, files->n, &r->out, e);
    const bool ok = results_each(files->v, files->n, NULL, 0, act__learn, &m, e) &&
                    batch_export(&m.forms, files->v, files->n, NULL, 0, &r->out, e);
    forms_drop(&m.forms);
    return ok;
}

static bool act__bench(act_job *r, err_t *e) {
    static const char *const forms[] = {[BENCH_MD] = "md", [BENCH_CSV] = "csv", [BENCH_JSON] = "json", [BENCH_JSONL] = "jsonl"};
    const config      *c = r->c;
    const char *const *models = c->models.n ? c->models.v : &c->model;
    bench_form         form = BENCH_MD;
    out_t              svg = {stdout, "stdout", 0, false};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(c->format, forms[i]) == 0) form = (bench_form)i;
    if (c->plot && !(act__spares(r, c->plot, e) && act__output(&svg, c->plot, c, NULL, e))) return false;
    act__graceful = 1;
    const bool ok = bench_run(&c->bench, models, c->models.n ? c->models.n : 1, &c->fwd, &c->kv, form, cli_build(), cli_commit(),
                              &r->out, c->plot ? &svg : NULL, e);
    return (!c->plot || out_end(&svg, e)) && ok;
}

static bool act__devices(act_job *r, err_t *e) {
    enum { MOST = 64 };
    gpu_info  about[MOST];
    const int n = gpu_list(about, MOST, e);
    str       text = {0};
    for (int i = 0; i < n && i < MOST; i++) {
        const gpu_info *g = &about[i];
        str_fmt(&text, "%d  %s, compute capability %d.%d, %.1f GiB, %.1f GiB free\n", g->number, g->name, g->major, g->minor,
                (double)g->total / 0x1p30, (double)g->free / 0x1p30);
    }
    return act__answer(r, &text, e);
}

static bool act__help(act_job *r, err_t *e) {
    str text = {0};
    if (r->c->action == ACT_LIST) help_list(r->c, &text);
    else if (r->c->action == ACT_VERSION) help_version(&text);
    else help_print(r->c, &text, e);
    return act__answer(r, &text, e);
}

/* --- models by name --- */

/* What a listed file says of itself: its type and its architecture; false: it is no model, and e is set. */
static bool act__about(const hub_model *m, str *type, str *arch, err_t *e) {
    gguf_file g;
    bytes     name = {0};
    err_t     none = {0};
    if (!import_open(&g, m->path, IMPORT_FILE | IMPORT_LAZY, e)) return false;
    quant_type_of(&g, type);
    gguf_get_str(&g, "general.architecture", &name, &none);
    str_visible_line(arch, name);
    gguf_close(&g);
    return true;
}

/* A row of --models; width: of the column of names. */
static void act__model_row(const hub_model *m, int width, str *out) {
    str   size = {0}, type = {0}, arch = {0}, name = {0};
    err_t e = {0};
    str_size(&size, (double)m->bytes);
    str_visible_line(&name, bytes_of(m->name));
    const bool good = act__about(m, &type, &arch, &e);
    str_fmt(out, "%-*s  %9s  %-8s  %s\n", width, name.p, size.p, good ? type.p : "-", good ? arch.p : "-");
    if (!good) log_warn("%s", e.text);
    str_drop_all(&size, &type, &arch, &name);
}

static void act__model_json(const hub_model *m, jw *w) {
    str   type = {0}, arch = {0};
    err_t e = {0};
    const bool good = act__about(m, &type, &arch, &e);
    jw_open(jw_line(w), NULL, '{');
    jw_str(w, "name", m->name);
    jw_str(w, "path", m->path);
    jw_fmt(w, "bytes", "%llu", (unsigned long long)m->bytes);
    jw_maybe(w, "type", str_bytes(&type), good);
    jw_maybe(w, "architecture", str_bytes(&arch), good);
    jw_maybe(w, "problem", bytes_of(e.text), !good);
    jw_close(w, '}');
    str_drop_all(&type, &arch);
}

static bool act__models(act_job *r, err_t *e) {
    const hub_set *s = &r->models;
    str            text = {0};
    jw             w = jw_tight(&text);
    int            width = 0;
    str_put(&text, "");
    if (!s->n) log_warn("no models are here: -hf OWNER/NAME downloads one, LLMRUN_MODELS names a folder of others");
    for (size_t i = 0; i < s->n; i++) width = max_int(width, (int)min_size(strlen(s->at[i].name), 100));
    if (act__json(r->c)) jw_open(&w, NULL, '[');
    for (size_t i = 0; i < s->n; i++)
        if (act__json(r->c)) act__model_json(&s->at[i], &w);
        else act__model_row(&s->at[i], width, &text);
    if (act__json(r->c)) jw_close(&w, ']'), str_put(&text, "\n");
    return act__answer(r, &text, e);
}

/* The model that a person names: as it is listed, with .gguf, or by its repository alone where that has one. NULL: e is set. */
static const hub_model *act__listed(const act_job *r, err_t *e) {
    const char      *name = r->c->what;
    const size_t     n = strlen(name);
    const hub_model *found = NULL;
    str              all = {0};
    int              n_found = 0;
    for (size_t i = 0; i < r->models.n; i++)          /* a name as it is listed counts before one with .gguf behind it */
        if (strcmp(r->models.at[i].name, name) == 0) return &r->models.at[i];
    for (size_t i = 0; i < r->models.n; i++) {
        const hub_model *m = &r->models.at[i];
        const size_t     own = strlen(m->name);
        if (strncmp(m->name, name, own) == 0 && (!name[own] || strcmp(name + own, ".gguf") == 0)) {
            str_drop(&all);
            return m;
        }
        if (!m->repo || strncmp(m->name, name, n) != 0 || m->name[n] != ':') continue;
        str_fmt(&all, "%s%s", n_found++ ? ", " : "", m->name);
        found = m;
    }
    if (!n_found) err_set(e, EXIT_INPUT, "%s: no such model is here, expected a name that --models lists", name);
    if (n_found > 1) err_set(e, EXIT_INPUT, "%s: %d models are here, expected one of %.400s", name, n_found, all.p);
    str_drop(&all);
    return n_found == 1 ? found : NULL;
}

/* Asks on the terminal. False: no, and e is set. */
static bool act__confirm(const hub_model *m, err_t *e) {
    char line[16] = "";
    str  ask = {0}, size = {0};
    if (!isatty(STDIN_FILENO))
        return err_set(e, EXIT_INPUT, "--rm-model: standard input is no terminal to ask on, expected --yes");
    str_size(&size, (double)m->bytes);
    str_fmt(&ask, "Remove %s (%s)? [y/N] ", m->name, size.p);
    log_text(str_bytes(&ask));
    fflush(stderr);
    const bool yes = fgets(line, sizeof line, stdin) && (strcasecmp(line, "y\n") == 0 || strcasecmp(line, "yes\n") == 0);
    str_drop_all(&ask, &size);
    return yes || err_set(e, EXIT_NO, "%s stays", m->name);
}

static bool act__remove(act_job *r, err_t *e) {
    const hub_model *m = act__listed(r, e);
    if (!m || (!r->c->yes && !act__confirm(m, e)) || !hub_remove(m, e)) return false;
    str size = {0};
    str_size(&size, (double)m->bytes);
    log_warn("%s is removed: %s", m->name, size.p);
    str_drop(&size);
    return true;
}

/* --- checks of the options of an action --- */

static bool act__check_talk(config *c, err_t *e) {
    return c->chat.on != 0 || err_set(e, EXIT_INPUT, "--raw and --interactive disagree");
}

/* Whether -o names a file, which the action writes. */
static bool act__writes_file(const config *c, const char *action, err_t *e) {
    return (c->output && *c->output && strcmp(c->output, "-") != 0) ||
           err_set(e, EXIT_INPUT, "%s: no file to write, expected -o FILE", action);
}

static bool act__check_quantize(config *c, err_t *e) {
    if (c->calibrate && c->lora.n)
        return err_set(e, EXIT_INPUT, "--calibrate runs the model without --lora, expected a model with merged weights "
                       "(--lora-merge) or no --calibrate");
    return c->quant.dry_run || act__writes_file(c, "--quantize", e);
}

static bool act__check_lora_merge(config *c, err_t *e) {
    if (!c->lora.n) return err_set(e, EXIT_INPUT, "--lora-merge: no adapter given, expected --lora FILE");
    return act__writes_file(c, "--lora-merge", e);
}

static bool act__check_statistics(config *c, err_t *e) {
    return c->in_files.n == 1 ||
           err_set(e, EXIT_INPUT, "--show-statistics: found %d importance matrices, expected one (--in-file FILE)",
                   c->in_files.n);
}

static bool act__check_perplexity(config *c, err_t *e) {
    return !c->eval.base || !c->eval.stride ||
           err_set(e, EXIT_INPUT, "--kl-divergence-base: windows lie end to end, expected no --ppl-stride");
}

/* -o FORM means --format FORM, as in llama-bench; -o FILE.FORM sets the form too. */
static bool act__bench_output(config *c, err_t *e) {
    static const char *const forms[] = {"md", "csv", "json", "jsonl"};
    if (!c->output || c->format) return true;
    const char *extension = act__extension(c);
    if (strcmp(c->output, "sql") == 0)
        return err_set(e, EXIT_INPUT, "-o sql: found a form that llmrun does not write, expected md, csv, json, jsonl or a file");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const bool whole = strcmp(c->output, forms[i]) == 0;
        if (!whole && (c->json || strcmp(extension, forms[i]) != 0)) continue;
        c->format = forms[i];
        if (whole) c->output = NULL;
        return true;
    }
    return true;
}

/* A picture is SVG, whatever the name; a name of another kind of picture is a mistake. */
static bool act__check_plot(const config *c, err_t *e) {
    static const char *const others[] = {"png", "jpg", "jpeg", "pdf", "gif", "webp", "eps", "ps", "html", "bmp", "tiff"};
    const char *dot = c->plot ? strrchr(str_base_name(c->plot), '.') : NULL;
    for (size_t i = 0; dot && i < sizeof others / sizeof *others; i++)
        if (strcasecmp(dot + 1, others[i]) == 0)
            return err_set(e, EXIT_INPUT, "--plot: pictures are SVG, expected a name such as %.*s.svg, found %s",
                           (int)(dot - c->plot), c->plot, c->plot);
    return true;
}

static bool act__check_quality(config *c, err_t *e) {
    static const char *const forms[] = {"md", "csv", "json"};
    for (size_t i = 0; !c->format && !c->json && i < 3; i++)
        if (strcmp(act__extension(c), forms[i]) == 0) c->format = forms[i];
    return act__check_plot(c, e);
}

static bool act__check_bench(config *c, err_t *e) {
    if (!act__check_plot(c, e) || !act__bench_output(c, e)) return false;
    if (c->models.n) c->model = c->models.v[0];
    for (int i = 1; i < c->models.n; i++)
        if (!*c->models.v[i]) c->model = "";
    if (!bench_any(&c->bench)) return err_set(e, EXIT_INPUT, "--bench: nothing to measure, expected -p, -n or -pg with tokens");
    if (c->bench.draft && c->bench.head)
        return err_set(e, EXIT_INPUT, "--head: found --model-draft too, expected one of them");
    const char *asks = c->bench.draft ? "--model-draft" : c->bench.head ? "--head" : NULL;
    if (!asks && cli_given(c, "--acceptance")) asks = "--acceptance";
    for (int i = 0; i < c->bench.guess.n; i++)
        if (c->bench.guess.v[i]) asks = "--draft-max";
    return !asks || bench_guesses(&c->bench) ||
           err_set(e, EXIT_INPUT, "%s: no test has guesses, expected --draft-max and -n with numbers above 0", asks);
}

/* --- --shard auto: the part of this process, from the environment --- */

#define ACT_SHARDS "LLMRUN_SHARDS"                    /* the number of parts, where the scheduler gives none */

/* Schedulers that number tasks. An `outer` task may run several inner ones: part = outer part x inner parts + inner part. */
static const struct act_scheduler {
    const char *name, *part, *first, *step, *count;   /* environment variables; first, step: of the numbers, NULL: `base` and 1 */
    int         base;
    bool        outer;
} act_schedulers[] = {
    /* name                     part                    first                   step                     count base outer */
    {"Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_ARRAY_TASK_COUNT", 0, true},
    {"Kubernetes indexed job", "JOB_COMPLETION_INDEX", NULL, NULL, ACT_SHARDS, 0, true},
    {"GNU parallel", "PARALLEL_SEQ", NULL, NULL, ACT_SHARDS, 1, false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", NULL, NULL, "OMPI_COMM_WORLD_SIZE", 0, false},
    {"PMI", "PMI_RANK", NULL, NULL, "PMI_SIZE", 0, false},
    {"Slurm task", "SLURM_PROCID", NULL, NULL, "SLURM_STEP_NUM_TASKS", 0, false},
    {"PMIx", "PMIX_RANK", NULL, NULL, ACT_SHARDS, 0, false},
};
enum { ACT_SCHEDULERS = sizeof act_schedulers / sizeof *act_schedulers };

/* The number in an environment variable; `none` where it is not set. */
static bool act__env_number(const char *name, int64_t none, int64_t *n, err_t *e) {
    const char *v = name ? getenv(name) : NULL;
    char       *end = NULL;
    *n = none;
    if (!v) return true;
    *n = strtoll(v, &end, 10);
    return (isdigit((unsigned char)*v) && !*end && *n <= INT32_MAX) ||
           err_set(e, EXIT_INPUT, "--shard auto: %s is '%.100s', expected a number", name, v);
}

/* The part, from 0, and the number of parts of this scheduler. */
static bool act__scheduler_part(const struct act_scheduler *g, int64_t *part, int64_t *count, err_t *e) {
    int64_t at, first, step;
    if (!act__env_number(g->part, 0, &at, e) || !act__env_number(g->first, g->base, &first, e) ||
        !act__env_number(g->step, 1, &step, e) || !act__env_number(g->count, 0, count, e))
        return false;
    if (step < 1) step = 1;
    *part = (at - first) / step;
    return (at >= first && (at - first) % step == 0 && *part < *count) ||
           err_set(e, EXIT_INPUT, "--shard auto: %s is %lld with %s %lld, expected %lld numbers from %lld on in steps of %lld",
                   g->part, (long long)at, g->count, (long long)*count, (long long)*count, (long long)first, (long long)step);
}

static bool act__scheduler_set(const struct act_scheduler *g) { return getenv(g->part) && getenv(g->count); }

/* The first outer or inner scheduler whose variables are set; counted: the first one whose count is LLMRUN_SHARDS, which is then
 * the only level. NULL: none. */
static const struct act_scheduler *act__scheduler(bool counted, bool outer) {
    for (int i = 0; i < ACT_SCHEDULERS; i++) {
        const struct act_scheduler *g = &act_schedulers[i];
        if (act__scheduler_set(g) && (strcmp(g->count, ACT_SHARDS) == 0) == counted && (counted || g->outer == outer)) return g;
    }
    return NULL;
}

/* The error where there is none: a number without its count, or else all variables that were looked for. */
static bool act__no_scheduler(err_t *e) {
    str s = {0};
    str_put(&s, "");
    for (int i = 0; i < ACT_SCHEDULERS; i++)
        str_fmt(&s, "%s%s and %s", i ? ", " : "", act_schedulers[i].part, act_schedulers[i].count);
    for (int i = 0; i < ACT_SCHEDULERS; i++)
        if (getenv(act_schedulers[i].part))
            err_set(e, EXIT_INPUT, "--shard auto: %s is set without %s, expected both", act_schedulers[i].part,
                    act_schedulers[i].count);
    err_set(e, EXIT_INPUT, "--shard auto: nothing in the environment numbers this task, expected %s", s.p);
    str_drop(&s);
    return false;
}

/* Replaces "auto" by I/N. */
static bool act__shard_auto(config *c, err_t *e) {
    const struct act_scheduler *own = act__scheduler(true, false),
                               *levels[] = {own ? own : act__scheduler(false, true), own ? NULL : act__scheduler(false, false)};
    int64_t                  part = 0, all = 1;
    str                      said = {0};
    bool                     ok = levels[0] || levels[1] || act__no_scheduler(e);
    for (int i = 0; ok && i < 2; i++) {
        int64_t at = 0, n = 0;
        if (!levels[i]) continue;
        ok = act__scheduler_part(levels[i], &at, &n, e);
        part = part * n + at;
        all *= n;
        str_fmt(&said, "%s%s %lld of %lld", said.n ? ", " : "", levels[i]->name, (long long)at + 1, (long long)n);
    }
    if (ok && all > LINES_SHARDS)
        ok = err_set(e, EXIT_INPUT, "--shard auto: %lld parts, expected at most %d", (long long)all, LINES_SHARDS);
    if (ok) {
        snprintf(c->own_shard, sizeof c->own_shard, "%lld/%lld", (long long)part + 1, (long long)all);
        c->batch.shard = c->own_shard;
        log_warn("--shard auto: part %s (%s)", c->own_shard, said.p);
    }
    str_drop(&said);
    return ok;
}

/* Replaces {shard} in the name of the results by the number of the part, so that one command serves all parts. */
static bool act__check_shard(config *c, err_t *e) {
    static const char mark[] = "{shard}";
    if (c->batch.shard && strcmp(c->batch.shard, "auto") == 0 && !act__shard_auto(c, e)) return false;
    const char *at = (c->action == ACT_BATCH || c->action == ACT_EMBED_LINES) && c->output ? strstr(c->output, mark) : NULL;
    if (!at) return true;
    if (!c->batch.shard) return err_set(e, EXIT_INPUT, "--output: %s names a part, expected --shard beside it", mark);
    str_add(&c->own_output, c->output, (size_t)(at - c->output));
    str_add(&c->own_output, c->batch.shard, strcspn(c->batch.shard, "/"));
    str_put(&c->own_output, at + sizeof mark - 1);
    c->output = c->own_output.p;
    return true;
}

static int act__by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Appends the files whose names match, in sorted order. The caller frees the names. */
static bool act__match_files(const char *pattern, cli_list *files, err_t *e) {
    glob_t    found = {0};
    const int got = glob(pattern, 0, NULL, &found);
    for (size_t i = 0; !got && i < found.gl_pathc; i++) cli_push(files, str_dup(found.gl_pathv[i]));
    globfree(&found);
    if (got == GLOB_NOMATCH) return err_set(e, EXIT_INPUT, "%s: no file name matches", pattern);
    return !got || err_set(e, EXIT_RESOURCE, "%s: its files cannot be listed", pattern);
}

/* The files of --batch; a name of no file is tried as a pattern. */
static bool act__batch_files(config *c, err_t *e) {
    cli_list *files = &c->batch_files;
    for (int i = 0; !e->code && i < c->inputs.n; i++) {
        const char *name = c->inputs.v[i];
        if (!strpbrk(name, "*?[") || access(name, F_OK) == 0) cli_push(files, str_dup(name));
        else act__match_files(name, files, e);
    }
    files->n_own = files->n;
    if (e->code) return false;
    const char **sorted = mem_new((size_t)files->n, sizeof *sorted);
    memcpy(sorted, files->v, (size_t)files->n * sizeof *sorted);
    qsort(sorted, (size_t)files->n, sizeof *sorted, act__by_text);
    for (int i = 1; i < files->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            err_set(e, EXIT_INPUT, "%s: given twice to --batch, expected each file once", sorted[i]);
    mem_free(sorted);
    return !e->code;
}

enum { ACT_BLOCK = LLMRUN_STRESS ? 2 : 8 };           /* tokens: half of a sequence's last block is empty, and there are many */

static bool act__check_batch(config *c, err_t *e) {
    for (int i = 0; c->no_stdin && i < c->inputs.n; i++)
        if (strcmp(c->inputs.v[i], "-") == 0) return err_set(e, EXIT_INPUT, "--no-stdin and --batch - disagree");
    if (!c->kv.cache && !cli_given(c, "--kv-block-size")) c->kv.block = ACT_BLOCK;
    c->batch.dry = c->quant.dry_run;
    if (c->batch.dry && c->resume) return err_set(e, EXIT_INPUT, "--dry-run and --resume disagree: a dry run reads all lines");
    return act__check_shard(c, e) && act__batch_files(c, e);
}

static bool act__check_serve(config *c, err_t *e) {
    if (!c->kv.cache && !cli_given(c, "--kv-block-size")) c->kv.block = ACT_BLOCK;
    c->serve.where = c->what ? c->what : "";
    return !c->serve.no_key || (!c->serve.key && !c->serve.key_file) ||
           err_set(e, EXIT_INPUT, "--no-api-key and a key disagree, expected one of them");
}

/* A vector goes to a file as floats, unless a form is asked for. */
static bool act__check_embed(config *c, err_t *e) {
    (void)e;
    c->raw = c->output && strcmp(c->output, "-") != 0 && !c->format && !c->json;
    return true;
}

/* Short texts fill a step many at a time. */
static bool act__check_embed_lines(config *c, err_t *e) {
    if (!cli_given(c, "--parallel")) c->batch.n_parallel = c->fwd.n_batch;
    c->spec.lookup = c->spec.head = false;
    c->seed = 0;                                      /* nothing is drawn */
    return act__check_batch(c, e);
}

/* --- the table of actions --- */

enum {
    WITH_MODEL_NAME = 1,                              /* -m must be given */
    WITH_MODEL = 2 | WITH_MODEL_NAME,                 /* act_run() opens it */
    WITH_OUTPUT = 4,                                  /* act_run() opens the file of the answer, else the answer goes to stdout */
    WITH_BOTH = WITH_MODEL | WITH_OUTPUT,
    WITH_OWN_OUTPUT = 8,                              /* the action opens its output itself */
    WITH_FLOATS = 16,                                 /* the answer is raw floats, which would garble a terminal */
    WITH_EXACT_CACHE = 32,                            /* the default types of the cache are f32, for exact figures */
    WITH_MODEL_SAMPLING = 64,                         /* the model file may recommend sampling parameters */
};

typedef struct {
    unsigned    has;                                  /* the bits above */
    size_t      file;                                 /* offset in config of the name of the file with the result */
    const char *forms;                                /* what --format can be beside text */
    const char *interrupted;                          /* state of the result after an interrupt; NULL: the answer shows it */
    bool (*check)(config *c, err_t *e);               /* completes the options and checks them; NULL: nothing to do */
    bool (*read)(act_job *r, err_t *e);               /* the prompt to tokens; NULL: it has no prompt */
    bool (*run)(act_job *r, err_t *e);
} act_row;

static const act_row act_table[N_ACTS] = {
    [ACT_GENERATE] = {WITH_BOTH | WITH_MODEL_SAMPLING, AT(output), "json", NULL, NULL, act__read_question, act__generate},
    [ACT_TALK] = {WITH_BOTH | WITH_MODEL_SAMPLING, AT(output), "json", NULL, act__check_talk, NULL, act__talk},
    [ACT_TOKENIZE] = {WITH_BOTH, AT(output), "json", NULL, NULL, act__read_exact, act__tokenize},
    [ACT_DETOKENIZE] = {WITH_BOTH, AT(output), "", NULL, NULL, act__read_numbers, act__detokenize},
    [ACT_RENDER] = {WITH_OUTPUT, AT(output), "", NULL, NULL, NULL, act__render},
    [ACT_MATCH] = {WITH_OUTPUT, AT(output), "", NULL, act__check_hold, NULL, act__match},
    [ACT_MASK] = {WITH_BOTH, AT(output), "json csv", NULL, act__check_hold, NULL, act__mask},
    [ACT_SCORE] = {WITH_BOTH | WITH_EXACT_CACHE, AT(output), "json", "not complete", NULL, act__read_prompt, act__score},
    [ACT_LOGITS] = {WITH_BOTH | WITH_EXACT_CACHE | WITH_FLOATS, AT(what), "", "not complete", NULL,
                    act__read_prompt, act__logits},
    [ACT_PERPLEXITY] = {WITH_BOTH | WITH_EXACT_CACHE, AT(output), "json", "not written", act__check_perplexity,
                        act__read_prompt, act__perplexity},
    [ACT_IMATRIX] = {WITH_MODEL | WITH_EXACT_CACHE, AT(what), "", "not written", NULL, act__read_corpus, act__imatrix},
    [ACT_DIVERGENCE] = {WITH_BOTH | WITH_EXACT_CACHE, AT(output), "json", "not written", NULL, NULL, act__divergence},
    [ACT_INSPECT] = {WITH_BOTH, AT(output), "json", NULL, NULL, NULL, act__inspect},
    [ACT_DUMP] = {WITH_BOTH | WITH_FLOATS, AT(output), "", NULL, NULL, NULL, act__dump_tensor},
    [ACT_QUANTIZE] = {WITH_MODEL, AT(output), "", "not written", act__check_quantize, NULL, act__quantize},
    [ACT_LORA_MERGE] = {WITH_MODEL, AT(output), "", "not written", act__check_lora_merge, NULL, act__lora_merge},
    [ACT_BATCH] = {WITH_MODEL | WITH_OWN_OUTPUT | WITH_MODEL_SAMPLING, AT(output), "json jsonl csv tsv", NULL, act__check_batch,
                   NULL, act__batch},
    [ACT_EMBED] = {WITH_BOTH | WITH_EXACT_CACHE, AT(output), "json", "not written", act__check_embed,
                   act__read_embed, act__embed},
    [ACT_EMBED_LINES] = {WITH_MODEL | WITH_OWN_OUTPUT | WITH_EXACT_CACHE, AT(output), "json jsonl", NULL,
                         act__check_embed_lines, NULL, act__batch},
    [ACT_SERVE] = {WITH_MODEL | WITH_OWN_OUTPUT | WITH_MODEL_SAMPLING, AT(output), "", NULL, act__check_serve, NULL, act__serve},
    [ACT_BENCH] = {WITH_MODEL_NAME | WITH_OUTPUT, AT(output), "json jsonl csv md", NULL, act__check_bench, NULL, act__bench},
    [ACT_QUALITY] = {WITH_BOTH | WITH_EXACT_CACHE, AT(output), "json csv md", "not written", act__check_quality, act__read_prompt,
                     act__quality},
    [ACT_STATISTICS] = {WITH_OUTPUT, AT(output), "json csv", NULL, act__check_statistics, NULL, act__statistics},
    [ACT_MERGE] = {WITH_OUTPUT, AT(output), "json jsonl csv tsv", NULL, NULL, NULL, act__merge},
    [ACT_MODELS] = {WITH_OUTPUT, AT(output), "json", NULL, NULL, NULL, act__models},
    [ACT_REMOVE] = {WITH_OUTPUT, AT(output), "", NULL, NULL, NULL, act__remove},
    [ACT_LIST] = {WITH_OUTPUT, AT(output), "md", NULL, NULL, NULL, act__help},
    [ACT_DEVICES] = {WITH_OUTPUT, AT(output), "", NULL, NULL, NULL, act__devices},
    [ACT_VERSION] = {WITH_OUTPUT, AT(output), "", NULL, NULL, NULL, act__help},
    [ACT_USAGE] = {WITH_OUTPUT, AT(output), "md man bash zsh fish", NULL, NULL, NULL, act__help},
    [ACT_HELP] = {WITH_OUTPUT, AT(output), "md man bash zsh fish", NULL, NULL, NULL, act__help},
};

/* Sets the form of the answer, which the action must have. */
static bool act__check_form(config *c, const act_row *row, err_t *e) {
    const bytes act = cli_act_name(c->action);
    const char *forms = row->forms;
    if (c->json && c->format && strcmp(c->format, "json") != 0)
        return err_set(e, EXIT_INPUT, "--json and --format %s disagree", c->format);
    if (c->json) c->format = "json";
    if (!c->format) c->format = "text";
    if (c->echo && act__json(c)) return err_set(e, EXIT_INPUT, "--echo and --json disagree: an answer as JSON has no prompt");
    for (bytes w; cli_word(&forms, ' ', &w);)
        if (bytes_is(w, c->format)) return true;
    return strcmp(c->format, "text") == 0 ||
           err_set(e, EXIT_INPUT, "--format: %.*s has no form %s", (int)act.n, act.p, c->format);
}

/* Reads the system message of --system-prompt-file. One newline at its end, which editors write, is no part of it. */
static bool act__system_file(config *c, err_t *e) {
    str *s = &c->own_system;
    if (!c->system_file) return true;
    if (!str_read_file(s, c->system_file, 0, ACT_PROMPT_MAX, "a system message", e)) return false;
    str_add(s, "", 0);
    if (strlen(s->p) < s->n)
        return err_set(e, EXIT_INPUT, "%s: byte %zu is a NUL, expected text", c->system_file, strlen(s->p));
    if (s->n && s->p[s->n - 1] == '\n') s->p[--s->n] = 0;
    c->chat.system = s->p;
    return true;
}

/* Checks options against each other and completes them. After it c is ready for act_run(). */
static bool act_finish(config *c, err_t *e) {
    const act_row *row = &act_table[c->action];
    if (!cli_effective(c, e) || (row->check && !row->check(c, e)) || !act__check_form(c, row, e)) return false;
    if (c->hub.repo && (c->models.n || (c->action != ACT_BENCH && cli_given(c, "--model"))))
        return err_set(e, EXIT_INPUT, "--model and --hf-repo both name a model, expected one of them");
    if (c->hub.draft && c->spec.draft)
        return err_set(e, EXIT_INPUT, "--model-draft and --hf-repo-draft both name a draft model, expected one of them");
    if (row->has & WITH_MODEL_NAME && !c->hub.repo && (!c->model || !*c->model))
        return err_set(e, EXIT_INPUT,
                       "no model given, expected -m FILE, -hf OWNER/NAME or LLMRUN_MODEL in the environment (--help lists all "
                       "options)");
    return cli_finish(c, e) && act__system_file(c, e);
}

/* --- the run --- */

/* Whether no hub may be asked, by the option or as Hugging Face's tools have it. */
static bool act__is_offline(const config *c) {
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char              *v = getenv("HF_HUB_OFFLINE");
    for (size_t i = 0; v && i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(v, yes[i]) == 0) return true;
    return c->hub.offline;
}

/* Downloads a model that the cache lacks. Where the hub cannot be reached, OWNER/NAME alone is the best of its models that is
 * here. */
static bool act__download(const config *c, const hub_name *h, str *path, err_t *e) {
    str        spelled = {0}, root = {0};
    const bool offline = act__is_offline(c);
    err_t      none = {0};
    hub_spell(h, &spelled);
    if (offline && !hub_find(h, true, path)) {
        hub_cache(false, &root, &none);
        err_set(e, EXIT_INPUT, "%s: is not in the cache (%s), and --offline connects to nothing", spelled.p,
                root.p ? root.p : "");
    } else if (!offline && (!fetch_model(h, &c->hub, c->no_sandbox, e) || !hub_find(h, true, path))) {
        err_set(e, EXIT_RESOURCE, "%s: the download is not in the cache", spelled.p);
        if (e->code == EXIT_RESOURCE && !h->pick.n && hub_find(h, true, path)) {
            log_warn("%s", e->text);
            *e = (err_t){0};
            log_warn("%s: runs %s, which is here", spelled.p,
                     import_is_folder(path->p) ? "its safetensors" : str_base_name(path->p));
        }
    }
    str_drop_all(&spelled, &root);
    return !e->code;
}

/* Appends the path of a model of a hub. */
static bool act__from_hub(const config *c, const char *text, const char *file, str *path, err_t *e) {
    hub_name   h;
    const bool ok = hub_parse(text, file, &h, e) && (hub_find(&h, false, path) || act__download(c, &h, path, e));
    hub_name_drop(&h);
    return ok;
}

/* Replaces the name of a model by the path of its file, in memory of its own. A path stays as it is. */
static bool act__by_name(const config *c, const char **name, str *own, err_t *e) {
    const bool hub = *name && strncmp(*name, "hf:", 3) == 0;
    if (!*name || !**name || (!hub && access(*name, F_OK) == 0)) return true;
    if (hub ? !act__from_hub(c, *name, NULL, own, e) : !hub_by_name(*name, own)) return !e->code;
    *name = own->p;
    return true;
}

/* The same for all models that the options name. */
static bool act__find_models(config *c, err_t *e) {
    if (!(act_table[c->action].has & WITH_MODEL_NAME) && c->action != ACT_RENDER) return true;
    if (c->hub.repo) {
        if (!act__from_hub(c, c->hub.repo, c->hub.file, &c->own_model, e)) return false;
        c->model = c->own_model.p;
    }
    if (c->hub.draft) {
        if (!act__from_hub(c, c->hub.draft, NULL, &c->own_draft, e)) return false;
        c->spec.draft = c->own_draft.p;
    }
    for (int i = 0; i < c->models.n; i++) {
        str         own = {0};
        const char *name = c->models.v[i];
        if (!act__by_name(c, &name, &own, e)) return false;
        c->models.v[i] = own.p ? own.p : str_dup(name);
        c->models.n_own = i + 1;
    }
    if (c->models.n) c->model = c->models.v[0];
    return (c->hub.repo || act__by_name(c, &c->model, &c->own_model, e)) &&
           (c->hub.draft || act__by_name(c, &c->spec.draft, &c->own_draft, e)) &&
           act__by_name(c, &c->bench.draft, &c->own_bench, e);
}

static bool act__fit_for_floats(const act_job *r, const act_row *row, err_t *e) {
    if (!(row->has & WITH_FLOATS || r->c->raw) || !isatty(fileno(r->out.f))) return true;
    const bytes act = cli_act_name(r->c->action), option = row->file == AT(what) ? act : bytes_of("-o");
    return err_set(e, EXIT_INPUT,
                   "%.*s: raw floats are not written to a terminal, expected a file (%.*s FILE) or a redirection (> FILE)",
                   (int)act.n, act.p, (int)option.n, option.p);
}

/* Whether the command has neither an action nor a prompt and is in a terminal: it begins to talk if the model can. */
static bool act__may_talk(const config *c) {
    config talker = *c;
    err_t  none = {0};
    talker.action = ACT_TALK;
    return c->action == ACT_GENERATE && !c->prompt && !c->files.n && !c->chat.messages && c->chat.on && !c->no_stdin &&
           isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && cli_effective(&talker, &none);
}

/* Whether the model is asked what to do with no prompt, or there is one. */
static bool act__asked(config *c, const gguf_file *g, err_t *e) {
    const bool talks = act__may_talk(c);
    if (talks && chat_has_template(g)) c->action = ACT_TALK;
    else if (talks)
        return err_set(e, EXIT_INPUT,
                       "no prompt given: %s has no chat template and continues texts, expected -p TEXT, -f FILE or text on "
                       "standard input", str_base_name(g->path));
    return !act_table[c->action].read || act__prompt_exists(c, 0, e);
}

/* Refuses a model that is no file but a name, as programs with a store of models take it. */
static bool act__is_file(const char *path, err_t *e) {
    hub_name h;
    err_t    none = {0};
    if (access(path, F_OK) == 0 || errno != ENOENT || bytes_ends(bytes_of(path), bytes_of(".gguf"))) return true;
    const bool named = hub_parse(path, NULL, &h, &none);
    hub_name_drop(&h);
    if (named)
        return err_set(e, EXIT_INPUT, "%.200s: no such file and no model that is here; -hf %.200s downloads the one of a hub",
                       path, path);
    return err_set(e, EXIT_INPUT, "%.200s: no such file, expected the path of a GGUF file or a name that --models lists (--help "
                   "models says where they come from)", path);
}

/* How a checkpoint's folder is opened: see [import]. */
static unsigned act__import_flags(const config *c) {
    const bool merges = c->action == ACT_LORA_MERGE, quantises = merges || c->action == ACT_QUANTIZE;
    const bool keeps = merges || (quantises && (!strcasecmp(c->what, "auto") || !strcasecmp(c->what, "copy")));
    const bool reads = !(ON_STEPS >> c->action & 1) && !(quantises && c->calibrate);
    err_t      none = {0};
    const bool on_gpu = ON_STEPS >> c->action & 1 && c->fwd.n_gpu_layers && gpu_count(&none) > 0;
    return (quantises || reads || on_gpu ? IMPORT_FILE : 0) | (quantises && !keeps ? IMPORT_EXACT : 0) |
           (reads ? IMPORT_LAZY : 0);
}

/* Opens the file or the folder. A folder that is written as a file is checked as one that runs. */
static bool act__open_file(const config *c, gguf_file *g, err_t *e) {
    if (!act__is_file(c->model, e) || !import_open(g, c->model, act__import_flags(c), e)) return false;
    const bool adapter = ON_STEPS >> c->action & 1 && lora_is_adapter(g);
    if (adapter)
        err_set(e, EXIT_INPUT, "%s: an adapter (LoRA), expected a model; it goes with --lora beside the model that it is for",
                g->path);
    else if (c->action != ACT_QUANTIZE || !import_is_folder(c->model) || model_check(g, e)) return true;
    gguf_close(g);
    return false;
}

/* Opens the model, and completes the options from it. */
static bool act__open_model(config *c, const act_row *row, gguf_file *g, err_t *e) {
    if (row->read && !act__may_talk(c) && !act__prompt_exists(c, 0, e)) return false;
    if (!act__open_file(c, g, e)) return false;
    if (!act__asked(c, g, e)) {
        gguf_close(g);
        return false;
    }
    if (row->has & WITH_EXACT_CACHE && !cli_given(c, "-ctk")) c->kv.type_k = K_F32;
    if (row->has & WITH_EXACT_CACHE && !cli_given(c, "-ctv")) c->kv.type_v = K_F32;
    if ((!c->kv.cache || c->kv.cache_ro || gguf_write_could(c->kv.cache, g, e)) &&
        (!c->spec.cache || gguf_write_could(c->spec.cache, g, e)) &&
        (!(row->has & WITH_MODEL_SAMPLING) || act__from_model(c, g, e)))
        return true;
    gguf_close(g);
    return false;
}

/* The files of a checkpoint's folder, and those of its folders, which may be links to others. */
static void act__confine_folder(sandbox *s, const char *path, int deep) {
    str  name = {0};
    DIR *d = opendir(path);
    for (const struct dirent *at; d && (at = readdir(d));) {
        if (at->d_name[0] == '.') continue;
        str_clear(&name);
        str_fmt(&name, "%s/%s", path, at->d_name);
        sandbox_read(s, name.p);
        if (deep && import_is_folder(name.p)) act__confine_folder(s, name.p, deep - 1);
    }
    if (d) closedir(d);
    str_drop(&name);
}

/* A model may be in several files. */
static void act__confine_input(sandbox *s, const char *path) {
    str part = {0};
    sandbox_read(s, path);
    if (import_is_folder(path)) act__confine_folder(s, path, 1);
    for (uint64_t i = 1; gguf_other_part(path, i, &part); i++) sandbox_read(s, part.p);
    str_drop(&part);
}

/* What an action may do in the sandbox beside using the files of act_files, as bits of sandbox_need; most need nothing. */
static const uint8_t act_needs[N_ACTS] = {
    [ACT_TALK] = SANDBOX_FILES,                       /* /read, /load and /save name files */
    [ACT_SERVE] = SANDBOX_SERVE,
    [ACT_REMOVE] = SANDBOX_FILES,                     /* its folders are removed, too */
};

/* Gives up what the action does not need, before a model is read: act_needs says what it may do, act_files names its files.
 * Libraries and the driver of a GPU are opened before, the process that runs editors is begun, and a server listens. Models of
 * the cache are found before, too, for which the indexes of its checkpoints are read. */
static bool act__confine(act_job *r, err_t *e) {
    const config *c = r->c;
    const bool talks = c->action == ACT_TALK || act__may_talk(c);
    unsigned   needs = act_needs[talks ? ACT_TALK : c->action];
    sandbox    s;
    err_t      none = {0};
    str        more = {0};
    struct stat its;
    if (talks) talk_start_editor();                   /* a child of one thread: a GPU's driver starts others */
    if (c->action == ACT_SERVE && !(r->server = serve_open(&c->serve, e))) return false;
    if (c->no_sandbox) needs |= SANDBOX_ALL;
    if ((c->action == ACT_DEVICES || (ON_STEPS >> c->action & 1 && c->fwd.n_gpu_layers)) && gpu_count(&none) > 0)
        needs |= SANDBOX_DEVICES;
    if (c->action == ACT_VERSION) term_edits(), ops_blas_open(&none), fetch_library();      /* what it reports is found before */
    if (c->action == ACT_MODELS || c->action == ACT_REMOVE) r->models = hub_models();
    sandbox_begin(&s, needs);
    for (int i = 0, n; i < ACT_FILES; i++) {
        const struct act_file *f = &act_files[i];
        const char *const     *name = act__names(c, f, &n);
        const bool             keeps = f->written >> c->action & 1 && !(f->at == AT(kv.cache) && c->kv.cache_ro);
        for (int k = 0; k < n; k++) {
            if (!name[k] || strcmp(name[k], "-") == 0) continue;
            if (f->read >> c->action & 1) act__confine_input(&s, name[k]);
            if (keeps) sandbox_write(&s, name[k]);
        }
    }
    for (size_t i = 0; i < r->models.n && c->action == ACT_MODELS; i++) act__confine_input(&s, r->models.at[i].path);
    const bool lines = ON_LINES >> c->action & 1 && c->output && strcmp(c->output, "-") != 0;
    if (lines && (stat(c->output, &its) != 0 || S_ISREG(its.st_mode)))
        str_fmt(&more, "%s.jsonl", c->output);        /* records of a table or a list */
    if (c->action == ACT_QUALITY) str_fmt(&more, "%s/", act__folder());
    if (more.n) sandbox_write(&s, more.p);
    if (c->action == ACT_SERVE && strncmp(c->serve.where, "unix:", 5) == 0) sandbox_remove(&s, c->serve.where + 5);
    sandbox_enter(&s);
    log_info("sandbox     %s", sandbox_holds());
    str_drop(&more);
    return true;
}

/* The output, the prompt and the action, in this order. */
static bool act__work(act_job *r, const act_row *row, err_t *e) {
    const config *c = r->c;
    const char   *file = *(const char *const *)(const void *)((const char *)c + row->file);
    act__note_partners(c);
    if (row->interrupted && !c->quant.dry_run) act__may_lose(c->eval.base ? c->eval.base : file, row->interrupted);
    bool ok = (!(row->has & WITH_OUTPUT) || act__output(&r->out, file, c, r->g, e)) && act__fit_for_floats(r, row, e);
    ok = ok && (!row->read || row->read(r, e));
    if (!c->echo) str_drop(&r->text);
    ok = ok && row->run(r, e);
    if (!(row->has & WITH_OWN_OUTPUT)) ok = out_end(&r->out, e) && ok;
    if (ok) act__kept();
    chat_prompt_drop(&r->asked);
    chat_input_drop(&r->input);
    chat_free(r->chat);
    tok_ids_drop(&r->ids);
    str_drop(&r->text);
    constrain_close(r->held);
    constrain_cache_free(r->holds);
    str_drop(&r->hold_text);
    tok_free(r->vocab);
    if (r->head.path) gguf_close(&r->head);
    return ok;
}

/* Runs the action of a config that act_finish() has completed. */
static bool act_run(config *c, double t_start, err_t *e) {
    const act_row *row = &act_table[c->action];
    const bool     opens = (row->has & WITH_MODEL) == WITH_MODEL;
    gguf_file      g;
    act_job        r = {.c = c, .g = opens ? &g : NULL, .out = {.f = stdout, .name = "stdout"}, .t_start = t_start};
    if (!act__find_models(c, e) || !act__confine(&r, e)) return false;
    if (!opens) {
        const bool ok = act__work(&r, row, e);
        hub_models_drop(&r.models);
        return ok;
    }
    bool ok = act__open_model(c, row, &g, e);
    if (ok) {
        act__note_escapes(c);
        ok = act__work(&r, &act_table[c->action], e);
        gguf_close(&g);
    }
    serve_close(r.server);
    return ok;
}
