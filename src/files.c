/* ===== [files] files and batches of OpenAI's API, in a folder =====
 * What /v1/files and /v1/batches keep: files that clients send, batches that answer their lines, and the files of results. The
 * schedule and the sockets are others': files_answer() takes a whole request and gives the whole answer, files_next() gives the
 * next line of a batch to answer, files_put() takes its record. One batch is read at a time, in the order of creation.
 *   In the folder, each 0600: ID.json says what a file or a batch is, in the words of the API; ID.jsonl has a file's bytes. The
 * results of a batch, ID.jsonl with the header of [results] beside it, exist from its beginning, and become files of the API
 * when it ends: answers in one, errors in another one. So a server that was killed at any moment goes on where it was.
 *   Invariants: an ID.json is replaced as a whole, after what it names is on disk; a line is answered once; the files of the
 * folder together have files_opts.most bytes at most, where each counts for at least 4 KiB; one process uses the folder; no
 * answer names it. Any thread may call, and waits while another one's file is written.
 *   What cannot be read at a start is left out, and its bytes are kept. A batch that cannot begin or end, because the system has
 * no space or no descriptors, stays as it is and is tried again after FILES_PAUSE seconds.
 *   The body of an upload waits in a file without a name in the folder, so that memory holds none of it; such files are at most
 * as long as the caller lets bodies be, and do not count.
 * Public: files_open, files_close, files_takes, files_call_read, files_call_drop, files_upload, files_receive, files_upload_put,
 * files_upload_bytes, files_upload_drop, files_answer, files_answer_upload, files_answer_drop,
 * files_has_work, files_next, files_put, files_refuse, files_give_up.
 * Opens: files_answered, files_call, files_line, files_opts, FILES_PAUSE. */

enum {
    FILES_LEAST = 4096,                               /* bytes that a file or a batch counts for at least */
    FILES_NAME = 255,                                 /* bytes of a file's name */
    FILES_ID = 48,
    FILES_SLICE = 256,                                /* lines that one call of files_next() passes over at most */
    FILES_META = 1 << 20,                             /* bytes of an ID.json */
    FILES_PAIRS = 16,                                 /* members of a batch's metadata */
    FILES_PAIRS_BYTES = 64 << 10,                     /* bytes of all of it, as the request has it */
    FILES_WINDOW = 16,                                /* bytes of a completion_window */
    FILES_PAUSE = 10,                                 /* seconds until a batch that could not begin or end is tried again */
};

typedef struct {
    const char *folder;                               /* made if it is not there */
    uint64_t    most;                                 /* bytes of all files together */
    uint64_t    line_bytes;                           /* of the longest line of a batch */
    bytes       settings;                             /* as for results_open(): what answers depend on, but for the seed */
} files_opts;

/* A request, copied. */
typedef struct {
    http_method method;
    str         path;                                 /* without /v1 */
    str         type;                                 /* the field Content-Type */
    str         limit, after, order, purpose;         /* of the query; p NULL: it has none */
} files_call;

/* Its answer. */
typedef struct {
    int         status;
    const char *code;                                 /* of an error, as its object names it; NULL: it is none */
    const char *param;                                /* the key that is wrong; NULL: none */
    const char *allow;                                /* of 405: the methods */
    str         body;                                 /* JSON; of an error its message */
    int         fd;                                   /* a file in place of body, -1: none; to be closed */
    uint64_t    size;                                 /* bytes of it */
} files_answered;

typedef enum {
    FILES_WAITING,
    FILES_RUNNING,
    FILES_CANCELLING,
    FILES_COMPLETED,                                  /* from here on it is over */
    FILES_FAILED,
    FILES_CANCELLED,
    FILES_STATES
} files_state;

typedef struct {
    char     id[FILES_ID];
    char     purpose[32];
    str      name;
    uint64_t bytes, lines;
    int64_t  created;
} files__file;

typedef struct files_batch {
    char        id[FILES_ID], input[FILES_ID];
    char        good_id[FILES_ID], bad_id[FILES_ID];  /* files of results */
    str         endpoint, window;
    str         metadata;                             /* JSON; empty: none */
    files_state state;
    int64_t     created, begun, cancelled, ended;     /* seconds since 1970; 0: not yet */
    uint64_t    seed;                                 /* of lines that name none */
    long long   total, completed, failed;             /* lines */
    str         why;                                  /* of FILES_FAILED */
    str         in_path, good_path, bad_path;         /* in and the results keep pointers to them */
    str         fingerprint;                          /* of its answers; lines point to it; set when it begins */
    lines_in   *in;                                   /* while it runs, as good and bad */
    results    *good, *bad;
    int         n_asked;                              /* lines that are being answered */
    bool        read;                                 /* all lines were given */
    bool        torn;                                 /* this run does no more for it: the next one goes on */
    double      again;                                /* clock_now() before which it is not tried again; 0: it has not failed */
    uint64_t    counted;                              /* bytes of files_store.used that are its results' */
} files_batch;

/* A line of a batch that is to be answered. */
typedef struct {
    files_batch *batch;
    uint64_t     no;                                  /* from 1 */
    results_line is;
    bytes        text;                                /* valid until the next files_next() */
    uint64_t     seed;                                /* if the line has none */
    const char  *fingerprint;                         /* of model and settings; valid until files_close() */
} files_line;

typedef enum { FILES_LINE, FILES_NONE, FILES_AGAIN } files_got;

typedef struct {
    pthread_mutex_t lock;
    files_opts      o;
    str             folder;                           /* its links resolved, as errors of [results] name it; empty: it is / */
    str             settings;
    int             held;                             /* the descriptor of the folder's lock */
    files__file   **file;                             /* [n_files] in the order of creation; what an earlier run made in one */
    size_t          n_files;                          /* second is in the order of ids */
    files_batch   **batch;                            /* [n_batches], likewise */
    size_t          n_batches;
    uint64_t        used;                             /* bytes that count */
} files_store;

/* --- names, times --- */

static const char *const files__state_name[FILES_STATES] = {"validating", "in_progress", "cancelling",
                                                            "completed",  "failed",      "cancelled"};

/* Makes an id of random digits. */
static void files__new_id(const char *begin, char id[FILES_ID]) {
    snprintf(id, FILES_ID, "%s%016llx%016llx", begin, (unsigned long long)rng_secret(), (unsigned long long)rng_secret());
}

/* Whether a text is a name of such a form, and nothing that leads elsewhere as a path. */
static bool files__is_id(bytes b, const char *begin) {
    const size_t n = strlen(begin);
    uint64_t     v;
    return b.n == n + 32 && bytes_begins(b, bytes_of(begin)) && bytes_hex(b.p + n, 16, &v) && bytes_hex(b.p + n + 16, 16, &v);
}

/* Appends the path of ID.END. Returns it. */
static const char *files__path(const files_store *f, const char *id, const char *end, str *out) {
    str_clear(out);
    str_fmt(out, "%s/%s%s", f->folder.p, id, end);
    return out->p;
}

/* Takes the folder out of a message. */
static void files__hide(const files_store *f, err_t *e) {
    str folder = {0};
    files__path(f, "", "", &folder);
    for (char *at = e->text; f->folder.n && (at = strstr(at, folder.p));) memmove(at, at + folder.n, strlen(at + folder.n) + 1);
    str_drop(&folder);
}

static uint64_t files__counts(uint64_t n) { return max_u64(n, FILES_LEAST); }

/* --- what is kept --- */

/* Writes ID.END: under another name first, and on disk before it gets this one. False: e is set, and errno. */
static bool files__write(const files_store *f, const char *id, const char *end, bytes b, err_t *e) {
    str         tmp = {0}, path = {0};
    size_t      done = 0;
    files__path(f, id, end, &path);
    str_fmt(&tmp, "%s.tmp", path.p);
    const int fd = open(tmp.p, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool      ok = fd >= 0;
    while (ok && done < b.n) {
        const ssize_t got = write(fd, b.p + done, b.n - done);
        if (got > 0) done += (size_t)got;
        else ok = got < 0 && errno == EINTR;
    }
    ok = ok && out_replace(fd, tmp.p, path.p);
    const int why = errno;
    if (!ok) {
        err_set(e, err_code_of(why), "%s%s: cannot write: %s", id, end, strerror(why));
        unlink(tmp.p);
    }
    if (fd >= 0) close(fd);
    str_drop_all(&tmp, &path);
    errno = why;
    return ok;
}

/* Writes an ID.json that files__load() takes, and frees its text. False: e is set, and errno. */
static bool files__write_meta(const files_store *f, const char *id, str *text, err_t *e) {
    str_put(text, "\n");
    const bool fits = text->n <= FILES_META;
    if (!fits) err_set(e, EXIT_INPUT, "%s.json: would have %zu bytes, expected at most %d", id, text->n, FILES_META);
    const bool ok = fits && files__write(f, id, ".json", str_bytes(text), e);
    const int  why = fits ? errno : EINVAL;
    str_drop(text);
    errno = why;
    return ok;
}

/* The object of a file; all: with what the API does not show. */
static void files__put_file(const files__file *x, bool all, jw *w) {
    jw_open(w, NULL, '{');
    jw_str(w, "id", x->id);
    jw_str(w, "object", "file");
    jw_fmt(w, "bytes", "%llu", (unsigned long long)x->bytes);
    jw_fmt(w, "created_at", "%lld", (long long)x->created);
    jw_text(w, "filename", str_bytes(&x->name));
    jw_str(w, "purpose", x->purpose);
    jw_str(w, "status", "processed");
    if (all) jw_fmt(w, "lines", "%llu", (unsigned long long)x->lines);
    jw_close(w, '}');
}

static void files__put_time(jw *w, const char *key, int64_t t, bool there) {
    if (there && t) jw_fmt(w, key, "%lld", (long long)t);
    else jw_fmt(w, key, "null");
}

static bool files__is_over(const files_batch *b) { return b->state >= FILES_COMPLETED; }

static files__file *files__find(const files_store *f, bytes id) {
    for (size_t i = 0; i < f->n_files; i++)
        if (bytes_is(id, f->file[i]->id)) return f->file[i];
    return NULL;
}

static void files__put_batch(const files_store *f, const files_batch *b, bool all, jw *w) {
    const bool good = files__find(f, bytes_of(b->good_id)) != NULL, bad = files__find(f, bytes_of(b->bad_id)) != NULL;
    jw_open(w, NULL, '{');
    jw_str(w, "id", b->id);
    jw_str(w, "object", "batch");
    jw_text(w, "endpoint", str_bytes(&b->endpoint));
    if (b->why.n) {
        jw_open(w, "errors", '{');
        jw_str(w, "object", "list");
        jw_open(w, "data", '[');
        jw_open(w, NULL, '{');
        jw_str(w, "code", "invalid_batch");
        jw_text(w, "message", str_bytes(&b->why));
        jw_fmt(w, "param", "null");
        jw_fmt(w, "line", "null");
        jw_close(w, '}');
        jw_close(w, ']');
        jw_close(w, '}');
    } else jw_fmt(w, "errors", "null");
    jw_str(w, "input_file_id", b->input);
    jw_text(w, "completion_window", str_bytes(&b->window));
    jw_str(w, "status", files__state_name[b->state]);
    jw_maybe(w, "output_file_id", bytes_of(b->good_id), good);
    jw_maybe(w, "error_file_id", bytes_of(b->bad_id), bad);
    files__put_time(w, "created_at", b->created, true);
    files__put_time(w, "in_progress_at", b->begun, true);
    jw_fmt(w, "expires_at", "null");
    files__put_time(w, "finalizing_at", b->ended, b->state == FILES_COMPLETED);
    files__put_time(w, "completed_at", b->ended, b->state == FILES_COMPLETED);
    files__put_time(w, "failed_at", b->ended, b->state == FILES_FAILED);
    jw_fmt(w, "expired_at", "null");
    files__put_time(w, "cancelling_at", b->cancelled, true);
    files__put_time(w, "cancelled_at", b->ended, b->state == FILES_CANCELLED);
    jw_open(w, "request_counts", '{');
    jw_fmt(w, "total", "%lld", b->total);
    jw_fmt(w, "completed", "%lld", b->completed);
    jw_fmt(w, "failed", "%lld", b->failed);
    jw_close(w, '}');
    jw_key(w, "metadata");
    str_cat(w->to, b->metadata.n ? str_bytes(&b->metadata) : bytes_of("null"));
    if (all) {
        jw_fmt(w, "seed", "%llu", (unsigned long long)b->seed);
        jw_str(w, "good", b->good_id);
        jw_str(w, "bad", b->bad_id);
    }
    jw_close(w, '}');
}

static bool files__save_batch(const files_store *f, const files_batch *b, err_t *e) {
    str text = {0};
    jw  w = jw_tight(&text);
    files__put_batch(f, b, true, &w);
    return files__write_meta(f, b->id, &text, e);
}

static bool files__save_file(const files_store *f, const files__file *x, err_t *e) {
    str text = {0};
    jw  w = jw_tight(&text);
    files__put_file(x, true, &w);
    return files__write_meta(f, x->id, &text, e);
}

static void files__file_free(files__file *x) {
    str_drop(&x->name);
    mem_free(x);
}

/* Ends the reading and the writing of a batch; its records are on disk then. */
static bool files__stop(files_batch *b, err_t *e) {
    lines_close(b->in);
    bool ok = results_close(b->good, e);
    ok = results_close(b->bad, e) && ok;
    b->in = NULL, b->good = b->bad = NULL;
    return ok;
}

static void files__batch_free(files_batch *b) {
    err_t e = {0};
    if (!files__stop(b, &e)) log_warn("%s: %s", b->id, e.text);
    str_drop_all(&b->endpoint, &b->window, &b->metadata, &b->why, &b->in_path, &b->good_path, &b->bad_path, &b->fingerprint);
    mem_free(b);
}

/* Counts a batch's results as they are on disk; those that are files of the API count as such. */
static void files__count(files_store *f, files_batch *b) {
    const char *const id[] = {b->good_id, b->bad_id};
    str         path = {0};
    struct stat st;
    f->used -= b->counted;
    b->counted = 0;
    for (int i = 0; i < 2; i++)
        if (!files__find(f, bytes_of(id[i])) && !stat(files__path(f, id[i], ".jsonl", &path), &st))
            b->counted += (uint64_t)st.st_size;
    f->used += b->counted;
    str_drop(&path);
}

/* --- reading it again --- */

/* A member that is a string; false: it is something else. */
static bool files__text(bytes object, const char *name, str *out) {
    str_clear(out);
    str_put(out, "");
    return str_unquote(out, bytes_member(object, name), true);
}

static bool files__copy_id(bytes object, const char *name, const char *begin, char id[FILES_ID]) {
    str        s = {0};
    const bool ok = files__text(object, name, &s) && files__is_id(str_bytes(&s), begin);
    if (ok) memcpy(id, s.p, s.n + 1);
    str_drop(&s);
    return ok;
}

/* A member that is a whole number of at most 18 digits; 0: it is null, or something else. */
static uint64_t files__number(bytes object, const char *name) {
    const bytes b = bytes_trim(bytes_member(object, name));
    uint64_t    v = 0;
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] < '0' || b.p[i] > '9' || b.n > 18) return 0;
        v = 10 * v + (uint64_t)(b.p[i] - '0');
    }
    return v;
}

static bool files__load_file(files_store *f, bytes text) {
    files__file *x = mem_new(1, sizeof *x);
    str          purpose = {0}, path = {0};
    struct stat  st;
    bool         ok = files__copy_id(text, "id", "file-", x->id) && files__text(text, "filename", &x->name) &&
                      files__text(text, "purpose", &purpose) && purpose.n < sizeof x->purpose;
    x->bytes = files__number(text, "bytes");
    x->lines = files__number(text, "lines");
    x->created = (int64_t)files__number(text, "created_at");
    ok = ok && !stat(files__path(f, x->id, ".jsonl", &path), &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == x->bytes;
    if (ok) {
        memcpy(x->purpose, purpose.p, purpose.n + 1);
        f->used += files__counts(x->bytes);
        MEM_PUSH(f->file, f->n_files, x);
    } else files__file_free(x);
    str_drop_all(&purpose, &path);
    return ok;
}

static bool files__load_batch(files_store *f, bytes text) {
    files_batch *b = mem_new(1, sizeof *b);
    const bytes  counts = bytes_member(text, "request_counts"), metadata = bytes_trim(bytes_member(text, "metadata"));
    const bytes  errors = bytes_member(text, "errors");
    str          state = {0};
    bool         ok = files__copy_id(text, "id", "batch_", b->id) && files__copy_id(text, "input_file_id", "file-", b->input) &&
                      files__copy_id(text, "good", "file-", b->good_id) && files__copy_id(text, "bad", "file-", b->bad_id) &&
                      files__text(text, "endpoint", &b->endpoint) && files__text(text, "completion_window", &b->window) &&
                      files__text(text, "status", &state);
    int s = 0;
    while (s < FILES_STATES && ok && strcmp(state.p, files__state_name[s])) s++;
    ok = ok && s < FILES_STATES;
    if (ok) {
        const size_t at = bytes_find(errors, 0, bytes_of("\"message\":"));
        bytes        why = at == SIZE_MAX ? (bytes){0} : bytes_slice(errors, at + 10, errors.n);
        str_unquote(&b->why, bytes_cut_json(&why), true);
        b->state = (files_state)s;
        b->created = (int64_t)files__number(text, "created_at");
        b->begun = (int64_t)files__number(text, "in_progress_at");
        b->cancelled = (int64_t)files__number(text, "cancelling_at");
        b->ended = (int64_t)max_u64(max_u64(files__number(text, "completed_at"), files__number(text, "failed_at")),
                                    files__number(text, "cancelled_at"));
        b->total = (long long)files__number(counts, "total");
        b->completed = (long long)files__number(counts, "completed");
        b->failed = (long long)files__number(counts, "failed");
        b->seed = files__number(text, "seed");
        if (metadata.n && metadata.p[0] == '{') str_cat(&b->metadata, metadata);
        f->used += FILES_LEAST;
        MEM_PUSH(f->batch, f->n_batches, b);
    } else files__batch_free(b);
    str_drop(&state);
    return ok;
}

static int files__file_order(const void *pa, const void *pb) {
    const files__file *a = *(files__file *const *)pa, *b = *(files__file *const *)pb;
    return a->created != b->created ? (a->created > b->created) - (a->created < b->created) : strcmp(a->id, b->id);
}

static int files__batch_order(const void *pa, const void *pb) {
    const files_batch *a = *(files_batch *const *)pa, *b = *(files_batch *const *)pb;
    return a->created != b->created ? (a->created > b->created) - (a->created < b->created) : strcmp(a->id, b->id);
}

/* The batch that has not ended and whose results are in this file; NULL: none. */
static const files_batch *files__writer(const files_store *f, bytes id) {
    for (size_t i = 0; i < f->n_batches; i++)
        if (!files__is_over(f->batch[i]) && (bytes_is(id, f->batch[i]->good_id) || bytes_is(id, f->batch[i]->bad_id)))
            return f->batch[i];
    return NULL;
}

/* Removes what a killed server has left: files that were not complete, and data that no ID.json names. To be called if all
 * batches were read: one that was left out names its results. */
static void files__tidy(const files_store *f, const char *name) {
    const bytes b = bytes_of(name), id = bytes_slice(b, 0, min_size(b.n, 37)), end = bytes_slice(b, id.n, b.n);
    const bool  file = files__is_id(id, "file-"), data = file && bytes_among(end, ".jsonl .jsonl.llmrun");
    str         path = {0}, word = {0};
    struct stat st;
    if (!file && !files__is_id(bytes_slice(b, 0, min_size(b.n, 38)), "batch_")) return;
    str_add(&word, id.p, id.n);
    const bool named = !data || files__writer(f, id) || !lstat(files__path(f, word.p, ".json", &path), &st) || errno != ENOENT;
    if (!named || bytes_ends(b, bytes_of(".tmp"))) unlink(files__path(f, name, "", &path));
    str_drop_all(&path, &word);
}

static bool files__load(files_store *f, err_t *e) {
    str  path = {0}, text = {0};
    DIR *d = opendir(files__path(f, "", "", &path));
    bool all = true;                                  /* no batch was left out */
    if (!d) {
        err_set(e, err_code_of(errno), "%s: %s", path.p, strerror(errno));
        str_drop(&path);
        return false;
    }
    for (struct dirent *at; (at = readdir(d));) {
        const bytes b = bytes_of(at->d_name);
        const bool  file = b.n == 42 && files__is_id(bytes_slice(b, 0, 37), "file-");
        const bool  batch = b.n == 43 && files__is_id(bytes_slice(b, 0, 38), "batch_");
        if (!bytes_ends(b, bytes_of(".json")) || (!file && !batch)) continue;
        str_clear(&text);
        files__path(f, at->d_name, "", &path);
        err_t      why = {0};
        const bool ok = str_read_file(&text, path.p, O_NOFOLLOW, FILES_META, "what a file is", &why) &&
                        bytes_is_json(str_bytes(&text)) && (file ? files__load_file : files__load_batch)(f, str_bytes(&text));
        if (!ok && why.code) log_warn("%s; it is left out", why.text);
        else if (!ok)
            log_warn("%s: is damaged%s; it is left out", path.p, file ? ", or its file is not there or has another size" : "");
        all = all && (ok || file);
    }
    if (f->n_files) qsort(f->file, f->n_files, sizeof *f->file, files__file_order);
    if (f->n_batches) qsort(f->batch, f->n_batches, sizeof *f->batch, files__batch_order);
    for (size_t i = 0; i < f->n_batches; i++)
        if (!files__is_over(f->batch[i])) files__count(f, f->batch[i]);
    rewinddir(d);
    for (struct dirent *at; all && (at = readdir(d));) files__tidy(f, at->d_name);
    closedir(d);
    str_drop_all(&path, &text);
    return true;
}

/* Ends all batches where they are; the next files_open() of the folder goes on. NULL is none. */
static void files_close(files_store *f) {
    if (!f) return;
    for (size_t i = 0; i < f->n_batches; i++) {
        err_t e = {0};
        if (f->batch[i]->good && !files__save_batch(f, f->batch[i], &e)) log_warn("%s: %s", f->batch[i]->id, e.text);
        files__batch_free(f->batch[i]);
    }
    for (size_t i = 0; i < f->n_files; i++) files__file_free(f->file[i]);
    mem_free_all(f->file, f->batch);
    str_drop_all(&f->folder, &f->settings);
    if (f->held >= 0) close(f->held);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

/* Opens the folder and reads what it holds. On failure NULL, and e is set. */
static files_store *files_open(const files_opts *o, err_t *e) {
    files_store *f = mem_new(1, sizeof *f);
    str    path = {0};
    f->o = *o;
    pthread_mutex_init(&f->lock, NULL);
    f->held = -1;
    str_put(&f->settings, "");
    str_cat(&f->settings, o->settings);
    const bool made = !mkdir(o->folder, 0700) || errno == EEXIST;
    if (made && str_real(&f->folder, o->folder, e)) {
        if (!strcmp(f->folder.p, "/")) str_clear(&f->folder);
        f->held = open(files__path(f, "lock", "", &path), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (f->held < 0) err_set(e, err_code_of(errno), "%s: %s", o->folder, strerror(errno));
    else if (flock(f->held, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        err_set(e, EXIT_INPUT, "%s: another server uses it, expected a folder of this one alone", o->folder);
    str_drop(&path);
    if (!e->code && files__load(f, e)) return f;
    files_close(f);
    return NULL;
}

/* --- requests --- */

/* The path without /v1. */
static const char *files__below(const char *path) { return strncmp(path, "/v1/", 4) ? path : path + 3; }

/* Whether a path, with or without /v1 before it, is of this section. */
static bool files_takes(const char *path) {
    static const char *const begin[] = {"/files", "/batches"};
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(begin[i]);
        const char  *p = files__below(path);
        if (!strncmp(p, begin[i], n) && (!p[n] || p[n] == '/')) return true;
    }
    return false;
}

static void files__copy_query(const http_request *h, const char *name, str *out) {
    str_put(out, "");
    if (!http_query(h, name, out)) str_drop(out);
}

/* Copies what files_answer() needs of a request, whose body it is given later. */
static void files_call_read(files_call *c, const http_request *h) {
    *c = (files_call){.method = h->method};
    str_put(&c->path, files__below(h->path.p));
    str_cat(&c->type, http_value(h, "content-type"));
    files__copy_query(h, "limit", &c->limit);
    files__copy_query(h, "after", &c->after);
    files__copy_query(h, "order", &c->order);
    files__copy_query(h, "purpose", &c->purpose);
}

/* Frees what files_call_read() has copied. */
static void files_call_drop(files_call *c) { str_drop_all(&c->path, &c->type, &c->limit, &c->after, &c->order, &c->purpose); }

/* Frees the answer, and closes its file if the caller has not taken that (fd -1). */
static void files_answer_drop(files_answered *a) {
    str_drop(&a->body);
    if (a->fd >= 0) close(a->fd);
    a->fd = -1;
}

/* An error in place of the answer. Always false. */
__attribute__((format(printf, 5, 6))) static bool files__error(files_answered *a, int status, const char *code, const char *param,
                                                               const char *fmt, ...) {
    err_t   e = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    a->status = status, a->code = code, a->param = param;
    str_set(&a->body, bytes_of(e.text));
    return false;
}

/* A failed write or the like; no: its errno. */
static bool files__broken(const files_store *f, files_answered *a, int no, err_t *e) {
    const bool full = no == ENOSPC || no == EDQUOT || no == EFBIG;
    files__hide(f, e);
    return files__error(a, full ? 507 : 500, full ? "quota" : "server_error", NULL, "%s", e->text);
}

/* Whether there is space for so many bytes. */
static bool files__has_space(const files_store *f, files_answered *a, uint64_t n) {
    const uint64_t more = files__counts(n);
    return (more <= f->o.most && f->used <= f->o.most - more) ||
           files__error(a, 507, "quota", NULL, "no space for %llu bytes: %llu of %llu are used (--files-max)",
                         (unsigned long long)n, (unsigned long long)f->used, (unsigned long long)f->o.most);
}

static bool files__is_blank(bytes line) {
    for (size_t i = 0; i < line.n; i++)
        if (!strchr(" \t\r\v\f", line.p[i]) || !line.p[i]) return false;
    return true;
}

/* What the form of an upload has. False: it is refused. */
static bool files__read_form(const files_call *c, bytes body, http_part *purpose, http_part *file, files_answered *a) {
    http_parts  form;
    http_part   p;
    const char *why;
    bool        ok = http_parts_begin(&form, str_bytes(&c->type), body, &why);
    while (ok && http_parts_next(&form, &p, &why)) {
        http_part *to = bytes_is(str_bytes(&p.name), "purpose") ? purpose : bytes_is(str_bytes(&p.name), "file") ? file : NULL;
        if (to && to->name.n) ok = files__error(a, 400, "invalid_request", "file", "two parts named %s", p.name.p);
        if (!to || !ok) http_part_drop(&p);
        else *to = p;
    }
    if (ok && why) http_part_drop(&p);
    if (why) ok = files__error(a, 400, "invalid_request", "file", "%s", why);
    if (ok && !file->is_file) ok = files__error(a, 400, "invalid_request", "file", "no part 'file' with a file name");
    if (ok && !purpose->name.n) ok = files__error(a, 400, "invalid_request", "purpose", "no part 'purpose'");
    if (ok && !bytes_among(purpose->body, "assistants batch evals fine-tune user_data vision"))
        ok = files__error(a, 400, "invalid_request", "purpose", "purpose: found '%.*s', expected batch",
                          utf8_head(purpose->body, 40), (const char *)purpose->body.p);
    return ok;
}

/* The last part of a client's path, as a name to show. */
static void files__name(bytes path, str *out) {
    size_t from = path.n;
    while (from && path.p[from - 1] != '/' && path.p[from - 1] != '\\') from--;
    const bytes name = bytes_slice(path, from, path.n);
    str_put(out, "");
    str_cat(out, (bytes){name.p, name.n > FILES_NAME ? (size_t)utf8_head(name, FILES_NAME) : name.n});
    bool ok = out->n && utf8_whole(str_bytes(out));
    for (size_t i = 0; i < out->n; i++) ok = ok && (uint8_t)out->p[i] >= 0x20 && out->p[i] != 0x7f;
    if (!ok) str_set(out, bytes_of("file"));
}

/* Removes what there is of a file or a batch, its data last. False: e is set, and errno. */
static bool files__remove(const files_store *f, const char *id, err_t *e) {
    static const char *const ends[] = {".json", ".jsonl", ".jsonl.llmrun"};
    str  path = {0};
    bool ok = true;
    for (int i = 0; ok && i < 3; i++) ok = !unlink(files__path(f, id, ends[i], &path)) || errno == ENOENT;
    ok = ok && out_sync_folder(path.p);
    const int why = errno;
    if (!ok) err_set(e, err_code_of(why), "%s: cannot remove: %s", id, strerror(why));
    str_drop(&path);
    errno = why;
    return ok;
}

/* POST /files */
static bool files__upload(files_store *f, const files_call *c, bytes body, files_answered *a) {
    http_part    purpose = {0}, file = {0};
    files__file *x = mem_new(1, sizeof *x);
    err_t        e = {0};
    jw           w = jw_tight(&a->body);
    bool         ok = files__read_form(c, body, &purpose, &file, a) && files__has_space(f, a, file.body.n);
    if (ok) {
        bytes rest = file.body, line;
        while (bytes_cut_line(&rest, &line)) x->lines += !files__is_blank(line);
        files__new_id("file-", x->id);
        files__name(str_bytes(&file.file), &x->name);
        memcpy(x->purpose, purpose.body.p, purpose.body.n);
        x->bytes = file.body.n;
        x->created = (int64_t)time(NULL);
        ok = files__write(f, x->id, ".jsonl", file.body, &e) && files__save_file(f, x, &e);
        if (!ok) {
            files__broken(f, a, errno, &e);
            files__remove(f, x->id, &e);
        }
    }
    if (ok) {
        f->used += files__counts(x->bytes);
        files__put_file(x, false, &w);
        MEM_PUSH(f->file, f->n_files, x);
        x = NULL;
    }
    if (x) files__file_free(x);
    http_part_drop(&purpose);
    http_part_drop(&file);
    return ok;
}

/* What a list shows: at most `most` of n, beginning after `from`. */
typedef struct {
    size_t from, most;
    bool   up;                                        /* the oldest first */
} files__page;

/* Reads limit and order. `after` is the place of the one named so in the order of creation, n: none was named. */
static bool files__page_read(const files_call *c, size_t most, files__page *p, files_answered *a) {
    const bytes limit = str_bytes(&c->limit);
    *p = (files__page){.most = most, .up = c->order.p && !strcmp(c->order.p, "asc")};
    if (c->order.p && !p->up && strcmp(c->order.p, "desc"))
        return files__error(a, 400, "invalid_request", "order", "order: expected asc or desc");
    if (!limit.p) return true;
    p->most = 0;
    for (size_t i = 0; i < limit.n && i < 6; i++)
        p->most = limit.p[i] >= '0' && limit.p[i] <= '9' ? 10 * p->most + (size_t)(limit.p[i] - '0') : 99999;
    if (!p->most || p->most > 10000) return files__error(a, 400, "invalid_request", "limit", "limit: expected 1 to 10000");
    return true;
}

/* GET /files and GET /batches */
static bool files__list(const files_store *f, const files_call *c, bool batches, files_answered *a) {
    const size_t n = batches ? f->n_batches : f->n_files;
    files__page  p;
    jw           w = jw_tight(&a->body);
    size_t       shown = 0;
    bool         begun = !c->after.p, more = false;
    str          first = {0}, last = {0};
    if (!files__page_read(c, batches ? 20 : 10000, &p, a)) return false;
    jw_open(&w, NULL, '{');
    jw_str(&w, "object", "list");
    jw_open(&w, "data", '[');
    for (size_t i = 0; i < n && !more; i++) {
        const size_t at = p.up ? i : n - 1 - i;
        const char  *id = batches ? f->batch[at]->id : f->file[at]->id;
        const bool   fits = batches || !c->purpose.p || !strcmp(c->purpose.p, f->file[at]->purpose);
        if (begun && fits && shown == p.most) more = true;
        else if (begun && fits) {
            if (batches) files__put_batch(f, f->batch[at], false, &w);
            else files__put_file(f->file[at], false, &w);
            if (!shown++) str_put(&first, id);
            str_set(&last, bytes_of(id));
        }
        if (!begun && !strcmp(c->after.p, id)) begun = true;
    }
    jw_close(&w, ']');
    jw_maybe(&w, "first_id", str_bytes(&first), shown);
    jw_maybe(&w, "last_id", str_bytes(&last), shown);
    jw_bool(&w, "has_more", more);
    jw_close(&w, '}');
    str_drop_all(&first, &last);
    return begun || files__error(a, 400, "invalid_request", "after", "after: nothing has this id");
}

/* DELETE /files/ID */
static bool files__delete(files_store *f, files__file *x, files_answered *a) {
    const files_batch *by = files__writer(f, bytes_of(x->id));
    err_t  e = {0};
    jw     w = jw_tight(&a->body);
    size_t at = 0;
    if (by)
        return files__error(a, 409, "conflict", NULL, "%s is written by %s, expected a file that no batch writes", x->id, by->id);
    for (size_t i = 0; i < f->n_batches; i++)
        if (!files__is_over(f->batch[i]) && !strcmp(f->batch[i]->input, x->id))
            return files__error(a, 409, "conflict", NULL, "%s is read by %s, expected a file that no batch reads", x->id,
                                f->batch[i]->id);
    if (!files__remove(f, x->id, &e)) return files__broken(f, a, errno, &e);
    f->used -= files__counts(x->bytes);
    jw_open(&w, NULL, '{');
    jw_str(&w, "id", x->id);
    jw_str(&w, "object", "file");
    jw_bool(&w, "deleted", true);
    jw_close(&w, '}');
    while (f->file[at] != x) at++;
    memmove(&f->file[at], &f->file[at + 1], (f->n_files - at - 1) * sizeof *f->file);
    f->n_files--;
    files__file_free(x);
    return true;
}

/* GET /files/ID/content */
static bool files__content(const files_store *f, const files__file *x, files_answered *a) {
    str path = {0};
    a->fd = open(files__path(f, x->id, ".jsonl", &path), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    a->size = x->bytes;
    str_drop(&path);
    return a->fd >= 0 || files__error(a, 500, "server_error", NULL, "%s: %s", x->id, strerror(errno));
}

/* --- batches --- */

/* A member of a body that is a string; empty where it may be left out and is. */
static bool files__string(bytes body, const char *key, bool needed, str *out, files_answered *a) {
    const bytes v = bytes_trim(bytes_member(body, key));
    str_put(out, "");
    if (!needed && (!v.n || bytes_is(v, "null"))) return true;
    if (!v.n) return files__error(a, 400, "invalid_request", key, "%s: is not given", key);
    return (str_unquote(out, v, true) && utf8_whole(str_bytes(out)) && !memchr(out->p, 0, out->n)) ||
           files__error(a, 400, "invalid_request", key, "%s: expected a string", key);
}

/* The metadata: an object of strings. */
static bool files__metadata(bytes body, str *out, files_answered *a) {
    const bytes v = bytes_trim(bytes_member(body, "metadata"));
    bytes       rest = v, key = {0}, value;
    int         n = 0;
    bool        ok = !v.n || (v.p[0] == '{' && v.n <= FILES_PAIRS_BYTES) || bytes_is(v, "null");
    while (ok && v.n && v.p[0] == '{' && bytes_cut_member(&rest, &key, &value))
        ok = value.n && value.p[0] == '"' && value.n < 4096 && key.n < 512 && ++n <= FILES_PAIRS;
    if (ok && v.n && v.p[0] == '{') str_json_copy(out, v, false);
    return ok || files__error(a, 400, "invalid_request", "metadata", "metadata: expected an object of at most %d short strings",
                              FILES_PAIRS);
}

/* What a body says of a batch. output_expires_after has no effect: nothing expires, and the batch has no expires_at. */
static bool files__read_batch(const files_store *f, bytes body, files_batch *b, files_answered *a) {
    static const char keys[] = "input_file_id endpoint completion_window metadata output_expires_after";
    str   input = {0};
    bytes rest = body, key = {0}, value;
    bool  ok = (bytes_is_json(body) && bytes_trim(body).p[0] == '{') ||
               files__error(a, 400, "invalid_request", NULL, "the body is no JSON object");
    while (ok && bytes_cut_member(&rest, &key, &value))
        if (!bytes_among(bytes_slice(key, 1, key.n - 1), keys))
            ok = files__error(a, 400, "unsupported", NULL, "the key %.*s is not known", utf8_head(key, 60), (const char *)key.p);
    ok = ok && files__string(body, "input_file_id", true, &input, a) && files__string(body, "endpoint", true, &b->endpoint, a) &&
         files__string(body, "completion_window", false, &b->window, a) && files__metadata(body, &b->metadata, a);
    const files__file *x = ok ? files__find(f, str_bytes(&input)) : NULL;
    if (ok && !x) ok = files__error(a, 404, "not_found", "input_file_id", "no file has this id");
    if (ok && strcmp(x->purpose, "batch"))
        ok = files__error(a, 400, "invalid_request", "input_file_id", "the file was sent for %s, expected the purpose batch",
                          x->purpose);
    if (ok && b->window.n > FILES_WINDOW)
        ok = files__error(a, 400, "invalid_request", "completion_window", "completion_window: %zu bytes, expected at most %d",
                          b->window.n, FILES_WINDOW);
    if (ok && !b->window.n) str_put(&b->window, "24h");
    if (ok && strcmp(b->endpoint.p, req_url) && strcmp(b->endpoint.p, req_chat_url) && strcmp(b->endpoint.p, req_embed_url))
        ok = files__error(a, 400, "invalid_request", "endpoint", "endpoint: found '%.*s', expected %s, %s or %s",
                          utf8_head(str_bytes(&b->endpoint), 60), b->endpoint.p, req_chat_url, req_url, req_embed_url);
    if (ok) memcpy(b->input, x->id, sizeof b->input), b->total = (long long)x->lines;
    str_drop(&input);
    return ok;
}

/* POST /batches */
static bool files__create(files_store *f, bytes body, files_answered *a) {
    files_batch *b = mem_new(1, sizeof *b);
    err_t        e = {0};
    jw           w = jw_tight(&a->body);
    bool         ok = files__read_batch(f, body, b, a) && files__has_space(f, a, 0);
    if (ok) {
        files__new_id("batch_", b->id);
        files__new_id("file-", b->good_id);
        files__new_id("file-", b->bad_id);
        b->seed = rng_fresh();
        b->created = (int64_t)time(NULL);
        if (!b->total) {
            b->state = FILES_FAILED;
            b->ended = b->created;
            str_put(&b->why, "the file has no lines, expected a request on each");
        }
        ok = files__save_batch(f, b, &e);
        if (!ok) {
            files__broken(f, a, errno, &e);
            files__remove(f, b->id, &e);
        }
    }
    if (ok) {
        f->used += FILES_LEAST;
        files__put_batch(f, b, false, &w);
        MEM_PUSH(f->batch, f->n_batches, b);
    } else files__batch_free(b);
    return ok;
}

/* Makes a file of results one of the API, if it holds anything; if it is one already, its size is that on disk. */
static bool files__publish(files_store *f, const char *id, const char *of, const char *what, err_t *e) {
    str            path = {0};
    struct stat    st = {0};
    const bool     there = !stat(files__path(f, id, ".jsonl", &path), &st), ok = there || errno == ENOENT;
    files__file   *x = files__find(f, bytes_of(id)), *fresh = NULL;
    const uint64_t was = x ? x->bytes : 0, size = there ? (uint64_t)st.st_size : 0;
    str_drop(&path);
    if (!ok) return err_set(e, err_code_of(errno), "%s: %s", id, strerror(errno));
    if (size == was) return true;
    if (!x) {
        x = fresh = mem_new(1, sizeof *x);
        memcpy(x->id, id, sizeof x->id);
        strcpy(x->purpose, "batch_output");
        str_fmt(&x->name, "%s_%s.jsonl", of, what);
        x->created = (int64_t)time(NULL);
    }
    x->bytes = size;
    if (!files__save_file(f, x, e)) {
        x->bytes = was;
        if (fresh) files__file_free(fresh);
        return false;
    }
    if (fresh) MEM_PUSH(f->file, f->n_files, fresh);
    else f->used -= files__counts(was);
    f->used += files__counts(size);
    return true;
}

/* The batch stays as it is, for this reason, and is begun again later. */
static void files__later(const files_store *f, files_batch *b, err_t *why) {
    files__hide(f, why);
    if (!b->again) log_warn("%s: %s; tried again every %d seconds", b->id, why->text, FILES_PAUSE);
    b->again = clock_now() + FILES_PAUSE;
    b->read = false;
}

/* The batch has ended. Where that cannot be put on disk it has not: it is tried again, after a failure by the next run. */
static void files__end(files_store *f, files_batch *b, files_state state, const char *why) {
    const files_state was = b->state;
    err_t             lost = {0}, e = {0};
    if (!files__stop(b, &lost)) {
        files__hide(f, &lost);
        state = FILES_FAILED, why = lost.text;
    }
    bool ok = files__publish(f, b->good_id, b->id, "output", &e) && files__publish(f, b->bad_id, b->id, "error", &e);
    files__count(f, b);
    if (ok) {
        b->state = state;
        b->ended = (int64_t)time(NULL);
        if (why) str_set(&b->why, bytes_of(why));
        ok = files__save_batch(f, b, &e);
    }
    if (ok) return;
    b->state = was;
    b->ended = 0;
    str_clear(&b->why);
    if (state != FILES_FAILED) {
        files__later(f, b, &e);
        return;
    }
    b->torn = true;
    files__hide(f, &e);
    log_warn("%s: %s; the next run goes on", b->id, e.text);
}

/* Ends a batch for this reason. */
static void files__fail(files_store *f, files_batch *b, err_t *why) {
    files__hide(f, why);
    log_warn("%s: %s", b->id, why->text);
    files__end(f, b, FILES_FAILED, why->text);
}

/* A file of results, made by this server or by the one before it. */
static results *files__open_results(const files_store *f, const char *id, const char *settings, str *path, err_t *e) {
    const int fd = open(files__path(f, id, ".jsonl", path), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", id, strerror(errno)), NULL;
    close(fd);
    return results_open(path->p, true, bytes_of(settings), e);
}

/* Opens what the batch reads and writes. False: it has failed, it is tried again later, or a signal asks to stop. */
static bool files__begin(files_store *f, files_batch *b) {
    str   settings = {0};
    bytes rest = str_bytes(&f->settings), line;
    err_t e = {0}, lost = {0};
    while (bytes_cut_line(&rest, &line))
        if (!bytes_begins(line, bytes_of("seed="))) str_fmt(&settings, "%.*s\n", (int)line.n, (const char *)line.p);
    str_fmt(&settings, "seed=%llu\n", (unsigned long long)b->seed);
    b->good = files__open_results(f, b->good_id, settings.p, &b->good_path, &e);
    b->bad = b->good ? files__open_results(f, b->bad_id, settings.p, &b->bad_path, &e) : NULL;
    b->in = b->bad ? lines_open(files__path(f, b->input, ".jsonl", &b->in_path), f->o.line_bytes, &e) : NULL;
    const bool ok = b->in != NULL;
    str_drop(&settings);
    if (ok) {
        b->completed = (long long)b->good->n_old, b->failed = (long long)b->bad->n_old;
        if (!b->fingerprint.n) str_cat(&b->fingerprint, str_bytes(&b->good->fingerprint));
        files__count(f, b);                           /* an incomplete last record is gone */
    }
    if (ok && b->state == FILES_WAITING) {
        b->state = FILES_RUNNING, b->begun = (int64_t)time(NULL);
        if (!files__save_batch(f, b, &e)) b->state = FILES_WAITING, b->begun = 0;
    }
    if (ok && !e.code) return true;
    if (e.code && e.code != EXIT_RESOURCE) files__fail(f, b, &e);
    else {
        files__stop(b, &lost);                        /* it has written nothing */
        if (e.code) files__later(f, b, &e);
        else b->torn = true;
    }
    return false;
}

/* Ends a batch of which nothing is left to do. One that an earlier run has begun is begun first: its last record may be
 * incomplete. */
static void files__settle(files_store *f, files_batch *b) {
    if (files__is_over(b) || b->n_asked || b->torn) return;
    if (b->state == FILES_CANCELLING) {
        if (!b->begun || b->in || files__begin(f, b)) files__end(f, b, FILES_CANCELLED, NULL);
    } else if (b->read) files__end(f, b, FILES_COMPLETED, NULL);
}

/* POST /batches/ID/cancel */
static bool files__cancel(files_store *f, files_batch *b, files_answered *a) {
    jw    w = jw_tight(&a->body);
    err_t e = {0};
    if (files__is_over(b)) return files__error(a, 409, "conflict", NULL, "the batch is %s", files__state_name[b->state]);
    if (b->state != FILES_CANCELLING) {
        const files_state was = b->state;
        b->state = FILES_CANCELLING;
        b->cancelled = (int64_t)time(NULL);
        if (!files__save_batch(f, b, &e)) {
            const int no = errno;
            b->state = was;
            b->cancelled = 0;
            return files__broken(f, a, no, &e);
        }
        files__settle(f, b);
    }
    files__put_batch(f, b, false, &w);
    return true;
}

static files_batch *files__find_batch(const files_store *f, bytes id) {
    for (size_t i = 0; i < f->n_batches; i++)
        if (bytes_is(id, f->batch[i]->id)) return f->batch[i];
    return NULL;
}

/* --- which function answers --- */

/* Refuses a method. */
static bool files__only(files_answered *a, const char *methods) {
    a->allow = methods;
    return files__error(a, 405, "method_not_allowed", NULL, "the method is not for this path, expected %s", methods);
}

static bool files__one_file(files_store *f, const files_call *c, bytes id, bytes rest, files_answered *a) {
    files__file *x = files__find(f, id);
    jw           w = jw_tight(&a->body);
    const bool   content = bytes_is(rest, "/content"), get = c->method == HTTP_GET || c->method == HTTP_HEAD;
    if (!x || (rest.n && !content)) return files__error(a, 404, "not_found", "id", "no file has this id");
    if (content) return get ? files__content(f, x, a) : files__only(a, "GET");
    if (c->method == HTTP_DELETE) return files__delete(f, x, a);
    if (!get) return files__only(a, "GET, DELETE");
    files__put_file(x, false, &w);
    return true;
}

static bool files__one_batch(files_store *f, const files_call *c, bytes id, bytes rest, files_answered *a) {
    files_batch *b = files__find_batch(f, id);
    jw           w = jw_tight(&a->body);
    const bool   cancel = bytes_is(rest, "/cancel"), get = c->method == HTTP_GET || c->method == HTTP_HEAD;
    if (!b || (rest.n && !cancel)) return files__error(a, 404, "not_found", "id", "no batch has this id");
    if (cancel) return c->method == HTTP_POST ? files__cancel(f, b, a) : files__only(a, "POST");
    if (!get) return files__only(a, "GET");
    files__put_batch(f, b, false, &w);
    return true;
}

/* Answers a request whose path files_takes(). The answer is to be dropped. */
static void files_answer(files_store *f, const files_call *c, bytes body, files_answered *a) {
    const bool     batches = !strncmp(c->path.p, "/batches", 8);
    const bytes    below = bytes_of(c->path.p + (batches ? 8 : 6));
    const bytes    name = below.n ? bytes_slice(below, 1, below.n) : (bytes){0};
    const uint8_t *slash = name.n ? memchr(name.p, '/', name.n) : NULL;
    const size_t   n = slash ? (size_t)(slash - name.p) : name.n;
    const bytes    id = bytes_slice(name, 0, n), rest = bytes_slice(name, n, name.n);
    const char    *type = batches ? "application/json" : "multipart/form-data";
    *a = (files_answered){.status = 200, .fd = -1};
    pthread_mutex_lock(&f->lock);
    if (name.n) (batches ? files__one_batch : files__one_file)(f, c, id, rest, a);
    else if (c->method == HTTP_GET || c->method == HTTP_HEAD) files__list(f, c, batches, a);
    else if (c->method != HTTP_POST) files__only(a, "GET, POST");
    else if (!http_is_type(str_bytes(&c->type), type))
        files__error(a, 415, "media_type", NULL, "Content-Type: found %.100s, expected %s", c->type.n ? c->type.p : "nothing",
                     type);
    else if (batches) files__create(f, body, a);
    else files__upload(f, c, body, a);
    pthread_mutex_unlock(&f->lock);
}

/* --- bodies of uploads, which come in pieces --- */

typedef struct {
    int      fd;                                      /* of a file that has no name any more */
    uint64_t n;                                       /* bytes */
} files_upload;

/* Begins a body. It waits for no other thread. NULL: e is set, and errno. */
static files_upload *files_receive(const files_store *f, err_t *e) {
    char id[FILES_ID];
    str  path = {0};
    files__new_id("file-", id);
    const int fd = open(files__path(f, id, ".form.tmp", &path), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    const int no = errno;
    if (fd < 0) err_set(e, err_code_of(no), "the body of an upload: %s", strerror(no));
    else unlink(path.p);
    str_drop(&path);
    errno = no;
    if (fd < 0) return NULL;
    files_upload *u = mem_new(1, sizeof *u);
    u->fd = fd;
    return u;
}

/* More of it. False: there is no space. */
static bool files_upload_put(files_upload *u, bytes b) {
    while (b.n) {
        const ssize_t got = pwrite(u->fd, b.p, b.n, (off_t)u->n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        u->n += (uint64_t)got;
        b = bytes_slice(b, (size_t)got, b.n);
    }
    return true;
}

/* Bytes of it. */
static uint64_t files_upload_bytes(const files_upload *u) { return u->n; }

/* Frees it; NULL is none. */
static void files_upload_drop(files_upload *u) {
    if (!u) return;
    close(u->fd);
    mem_free(u);
}

/* files_answer() of a request whose body was received so. */
static void files_answer_upload(files_store *f, const files_call *c, const files_upload *u, files_answered *a) {
    const size_t n = (size_t)u->n;
    void        *p = n ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, u->fd, 0) : NULL;
    if (p == MAP_FAILED) {
        *a = (files_answered){.fd = -1};
        files__error(a, 500, "server_error", NULL, "the body of an upload: %s", strerror(errno));
        return;
    }
    files_answer(f, c, (bytes){p, n}, a);
    if (n) munmap(p, n);
}

/* --- lines of batches --- */

/* The first batch that has not ended and may give lines. */
static files_batch *files__current(const files_store *f) {
    const double now = clock_now();
    for (size_t i = 0; i < f->n_batches; i++) {
        files_batch *b = f->batch[i];
        const bool   waits = b->n_asked && (!b->in || b->read || b->state == FILES_CANCELLING);
        if (!files__is_over(b) && !b->torn && !waits && b->again <= now) return b;
    }
    return NULL;
}

/* Whether files_next() may give a line. */
static bool files_has_work(files_store *f) {
    pthread_mutex_lock(&f->lock);
    const bool has = files__current(f) != NULL;
    pthread_mutex_unlock(&f->lock);
    return has;
}

/* Writes a record. */
static void files__record(files_store *f, files_batch *b, bytes record, bool failed) {
    err_t e = {0};
    if (!b->good) return;                             /* the batch has failed in the meantime */
    if (f->used > f->o.most)
        err_set(&e, EXIT_RESOURCE, "no space for more results: %llu bytes are used (--files-max)", (unsigned long long)f->used);
    else if (results_put(failed ? b->bad : b->good, record, &e)) {
        f->used += record.n;
        b->counted += record.n;
        ++*(failed ? &b->failed : &b->completed);
    }
    if (e.code) files__fail(f, b, &e);
}

/* Writes the error of a line. q: with its custom_id. */
static void files__record_error(files_store *f, const files_line *l, const req *q, const char *code, const char *why) {
    str record = {0};
    req_print_error(q, &(req_origin){.line = l->no, .digest = l->is.is}, code, why, &record);
    files__record(f, l->batch, str_bytes(&record), true);
    str_drop(&record);
}

/* Whether a line has to be answered: it is not answered yet, and nothing is wrong with it that is seen without its body. */
static bool files__wants(files_store *f, files_line *l, bool is_long) {
    files_batch *b = l->batch;
    req          q;
    char         why[200];
    const char  *code = NULL;
    const bytes  url = is_long ? (bytes){0} : bytes_trim(bytes_member(l->text, "url"));
    str          named = {0};
    req_read_id(&q, l->text);
    const bool twice = q.has_id && !results_add_id(b->good, 0, q.custom_id), by_id = q.has_id && !twice;
    if (twice) {
        code = "duplicate_custom_id";
        snprintf(why, sizeof why, "an earlier line has the same custom_id");
    } else if (is_long) {
        code = "line_too_long";
        snprintf(why, sizeof why, "a line of more than %llu bytes", (unsigned long long)f->o.line_bytes);
    } else if (str_unquote(&named, url, true) && !bytes_is(str_bytes(&named), b->endpoint.p)) {
        code = req_invalid;
        snprintf(why, sizeof why, "url: found '%.*s', expected the batch's endpoint, %s", utf8_head(str_bytes(&named), 60),
                 named.p, b->endpoint.p);
    }
    const bool done = results_use_old(b->good, 0, l->no, l->is, by_id) || results_use_old(b->bad, 0, l->no, l->is, by_id);
    if (!done && code) files__record_error(f, l, &q, code, why);
    str_drop(&named);
    req_drop(&q);
    return !done && !code;
}

/* Reads on in a batch. */
static files_got files__read(files_store *f, files_batch *b, files_line *l) {
    for (int i = 0; i < FILES_SLICE; i++) {
        err_t           e = {0};
        const lines_got got = lines_next(b->in, true, &l->text, &l->no, &e);
        if (got == LINES_LATER) return FILES_NONE;
        if (got == LINES_FAILED) return files__fail(f, b, &e), FILES_AGAIN;
        if (got == LINES_END) {
            b->read = true;
            files__settle(f, b);
            return FILES_AGAIN;
        }
        if (got == LINES_LINE && files__is_blank(l->text)) continue;
        l->batch = b;
        l->is = (results_line){bytes_digest((bytes){0}, l->text), bytes_hash(0, l->text)};
        if (files__wants(f, l, got == LINES_LONG)) {
            l->seed = rng_mix(b->seed ^ l->no) >> 1;
            l->fingerprint = b->fingerprint.p;
            b->n_asked++;
            return FILES_LINE;
        }
        if (!b->good) return FILES_AGAIN;             /* it has failed */
    }
    return FILES_AGAIN;
}

/* The next line to answer. FILES_AGAIN: there may be one at the next call, which keeps each call short. A line that was given is
 * ended by files_put(), files_refuse() or files_give_up(). */
static files_got files_next(files_store *f, files_line *l) {
    files_got got = FILES_AGAIN;
    pthread_mutex_lock(&f->lock);
    files_batch *b = files__current(f);
    if (!b) got = FILES_NONE;
    else if (b->in || files__begin(f, b)) {
        if (b->state == FILES_CANCELLING) files__settle(f, b);
        else got = files__read(f, b, l);
    }
    pthread_mutex_unlock(&f->lock);
    return got;
}

/* The record of a line, as req_print() writes it; failed: it is an error. */
static void files_put(files_store *f, const files_line *l, bytes record, bool failed) {
    pthread_mutex_lock(&f->lock);
    files__record(f, l->batch, record, failed);
    l->batch->n_asked--;
    files__settle(f, l->batch);
    pthread_mutex_unlock(&f->lock);
}

/* The same for a line that is refused. q: as req_read() has left it. */
static void files_refuse(files_store *f, const files_line *l, const req *q, const char *code, const char *why) {
    str record = {0};
    req_print_error(q, &(req_origin){.line = l->no, .digest = l->is.is}, code, why, &record);
    files_put(f, l, str_bytes(&record), true);
    str_drop(&record);
}

/* The line is not answered in this run; the batch goes on in the next one. */
static void files_give_up(files_store *f, const files_line *l) {
    pthread_mutex_lock(&f->lock);
    l->batch->torn = true;
    l->batch->n_asked--;
    pthread_mutex_unlock(&f->lock);
}
