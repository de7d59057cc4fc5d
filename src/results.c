/* ===== [results] files of results =====
 * A file of results holds one record a line and stays valid when a run ends at any moment. A record is
 *     {"id":"batch_req_LINE_DIGEST","custom_id":...,"line":LINE,"file":...,"response":...,"error":...}
 * without blanks. LINE is the number of its line in the input (1 is the first), DIGEST is bytes_digest() of that line in 32 hex
 * digits: the beginning of a record says what it answers. Nobody who writes lines of the input can make one that gets the answer
 * of another: a digest stands for one text. It has no secret key, since --merge compares records of shards, which are separate
 * runs, and of pipes, which have no header to keep a key in. Earlier versions wrote bytes_hash(0, line) in 16 digits; such a
 * record is read and answers the line that has this hash. `file` is there where the input is several files. An answer has
 * the run's system_fingerprint after its model. The header of FILE is FILE.llmrun: the settings of the run, one name=value a
 * line, written before the first record.
 *   A record answers the line of the input that has its digest: at any number where the line has a custom_id, else at its own
 * number. Once the input was read to its end, records that answer no line are moved to FILE.stale, and a record whose line
 * has another number gets that number.
 *   Invariants: memory is bounded by some 100 bytes for each record of a resumed file and by RESULTS_IDS custom_ids; a file
 * of results has one writer, which holds its lock; every line but the last is a complete record, and --resume removes an
 * incomplete last one, which a killed run leaves; a file is replaced as a whole, after the records that it loses are on disk.
 *   The header is on disk before the first record, and every record when the run has ended. After a loss of power what was not
 * on disk may be missing or read as zeros; --resume removes the lines that do.
 * Public: results_open, results_setting, results_is_old, results_seed, results_file, results_add_id, results_reset_ids,
 * results_use_old, results_move_stale, results_put, results_put_head, results_sort, results_each, results_forget_failed,
 * results_close, results_merge.
 * Opens: results_line, results.resumable, results.n_new, results.n_old, results.n_old_failed, results.why. */

enum {
    RESULTS_IDS = 4 << 20,                            /* custom_ids that are compared for duplicates */
    RESULTS_RECORD = 1 << 30,                         /* bytes of a record */
    RESULTS_HEADER = 1 << 20                          /* bytes of a header */
};

/* --- the beginning of a record --- */

/* Which line of the input it is. */
typedef struct {
    digest   is;                                      /* by records of this version */
    uint64_t was;                                     /* by those of earlier versions: bytes_hash() */
} results_line;

typedef struct {
    uint64_t line;                                    /* the line of the input that it answers, from 1 */
    digest   digest;                                  /* of that line; old: its hash and 0 */
    bool     old;                                     /* the record is of an earlier version */
    uint64_t file;                                    /* results_file() of its input's name; 0: none */
    bool     has_id;                                  /* it has a custom_id */
    bool     failed;                                  /* it is an error */
    bool     twice;                                   /* it is the error of a duplicate custom_id */
    bytes    name;                                    /* in the record: its input's name, a JSON string */
    bytes    place;                                   /* in the record: its line number after custom_id, if any */
    bytes    fingerprint;                             /* in the record; none in errors and in records of older versions */
    bytes    rest;                                    /* in the record: what follows; begins with the answer or the error */
} results__record;

static const char results__begin[] = "{\"id\":\"batch_req_", results__twice[] = "duplicate_custom_id";

static bool results__skip(bytes *b, const char *word) {
    const bytes w = bytes_of(word);
    if (!bytes_begins(*b, w)) return false;
    *b = bytes_slice(*b, w.n, b->n);
    return true;
}

/* Reads a line number. */
static bool results__read_number(bytes *b, uint64_t *out) {
    size_t   i = 0;
    uint64_t v = 0;
    for (; i < b->n && b->p[i] >= '0' && b->p[i] <= '9'; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(b->p[i] - '0'), &v)) return false;
    if (!i || b->p[0] == '0') return false;
    *b = (bytes){b->p + i, b->n - i};
    *out = v;
    return true;
}

/* Reads n hexadecimal digits as headers have them, in lower case. */
static bool results__hex(bytes *b, int n, uint64_t *out) {
    if (b->n < (size_t)n || !bytes_hex(b->p, n, out)) return false;
    for (int i = 0; i < n; i++)
        if (isupper(b->p[i])) return false;
    *b = (bytes){b->p + n, b->n - (size_t)n};
    return true;
}

/* Reads a JSON string with its quotes and appends its bytes; bytes beyond ASCII stay as they are. */
static bool results__string(bytes *b, str *s) { return b->n && *b->p == '"' && str_unquote(s, bytes_cut_json(b), true); }

/* The key of an input's name, never 0; 0 for NULL. It is of this run: nobody can choose names that have the same one. */
static uint64_t results_file(const char *name) {
    static uint64_t secret[2];
    while (!secret[0]) secret[0] = rng_secret(), secret[1] = rng_secret();
    return name ? max_u64(bytes_digest((bytes){(const uint8_t *)secret, sizeof secret}, bytes_of(name)).a, 1) : 0;
}

/* Reads ,"line":N and ,"file":NAME, if they are there. */
static bool results__read_place(bytes *b, results__record *h, str *name) {
    uint64_t line;
    h->place = (bytes){b->p, 0};
    if (results__skip(b, ",\"line\":") && (!results__read_number(b, &line) || line != h->line)) return false;
    h->place.n = (size_t)(b->p - h->place.p);
    if (!results__skip(b, ",\"file\":")) return true;
    h->name = (bytes){b->p, 0};
    str_clear(name);
    if (!results__string(b, name)) return false;
    h->name.n = (size_t)(b->p - h->name.p);
    h->file = results_file(name->n ? name->p : "");
    return true;
}

/* The fingerprint of an answer, whose keys have a fixed order. b is what follows "response": and moves to "choices". */
static bytes results__read_fingerprint(bytes *b) {
    static const char *const keys[] = {"{\"status_code\":", ",\"request_id\":", ",\"body\":{\"id\":", ",\"object\":",
                                       ",\"created\":",     ",\"model\":"};
    bytes at = *b, value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!results__skip(&at, keys[i]) || !bytes_cut_json(&at).n) return (bytes){0};
    if (!results__skip(&at, ",\"system_fingerprint\":")) value = (bytes){0};
    else value = bytes_cut_json(&at);
    if (results__skip(&at, ",")) *b = at;
    return value.n > 2 && value.p[0] == '"' ? (bytes){value.p + 1, value.n - 2} : (bytes){0};
}

/* Whether a part of a line was not on disk when the machine lost power: it reads as zeros, which no record holds. */
static bool results__damaged(bytes line) { return line.n && memchr(line.p, 0, line.n) != NULL; }

/* Reads a record without its newline; id gets its custom_id, if any. False: not a record of llmrun. */
static bool results__read(bytes b, results__record *h, str *id) {
    str name = {0};
    *h = (results__record){0};
    str_clear(id);
    if (!b.n || b.p[b.n - 1] != '}' || results__damaged(b)) return false;
    if (!results__skip(&b, results__begin) || !results__read_number(&b, &h->line) ||
        !results__skip(&b, "_") || !results__hex(&b, 16, &h->digest.a))
        return false;
    h->old = !results__hex(&b, 16, &h->digest.b);
    if (!results__skip(&b, "\",\"custom_id\":")) return false;
    h->has_id = !results__skip(&b, "null");
    if (h->has_id && !results__string(&b, id)) return false;
    const bool placed = results__read_place(&b, h, &name);
    str_drop(&name);
    if (!placed || !results__skip(&b, ",\"response\":")) return false;
    h->failed = results__skip(&b, "null,");
    h->rest = b;
    h->twice = h->failed && results__skip(&b, "\"error\":{\"code\":\"") && results__skip(&b, results__twice) &&
               results__skip(&b, "\"");
    if (!h->failed) h->fingerprint = results__read_fingerprint(&h->rest);
    return true;
}

/* The error for a line that is no record. */
static bool results__foreign(const lines_in *in, err_t *e) {
    return err_set(e, EXIT_INPUT, "%s: byte %llu: line %llu is no record, expected results of llmrun", in->name,
                   (unsigned long long)in->at, (unsigned long long)in->no);
}

/* --- the header --- */

static const char results__magic[] = "llmrun results 1\n";

/* The next line of a text whose lines all end with a newline. */
static bool results__next_line(bytes *text, bytes *line) {
    const uint8_t *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
    if (!end) return false;
    *line = (bytes){text->p, (size_t)(end - text->p)};
    *text = (bytes){end + 1, text->n - line->n - 1};
    return true;
}

/* Whether a line is the setting of this name, and its value. */
static bool results__is_setting(bytes line, bytes name, bytes *value) {
    if (line.n <= name.n || line.p[name.n] != '=' || memcmp(line.p, name.p, name.n) != 0) return false;
    *value = (bytes){line.p + name.n + 1, line.n - name.n - 1};
    return true;
}

static bytes results__name(bytes line) {
    const uint8_t *eq = line.n ? memchr(line.p, '=', line.n) : NULL;
    return (bytes){line.p, eq ? (size_t)(eq - line.p) : line.n};
}

static bool results__find(bytes settings, bytes name, bytes *value) {
    for (bytes line; results__next_line(&settings, &line);)
        if (results__is_setting(line, name, value)) return true;
    return false;
}

/* Checks a header: its first line, then settings, each with a name. On failure e is set. */
static bool results__header_read(bytes text, const char *name, bytes *settings, err_t *e) {
    bytes b = text;
    if (!results__skip(&b, results__magic))
        return err_set(e, EXIT_INPUT, "%s: byte 0: found no header of results, expected '%.*s'", name,
                       (int)sizeof results__magic - 2, results__magic);
    *settings = b;
    for (bytes line; b.n;) {
        size_t at = text.n - b.n;
        if (!results__next_line(&b, &line))
            return err_set(e, EXIT_INPUT, "%s: byte %zu: found an incomplete line, expected its end", name, at);
        if (!results__name(line).n || results__name(line).n == line.n)
            return err_set(e, EXIT_INPUT, "%s: byte %zu: found no setting, expected name=value", name, at);
    }
    return true;
}

/* Bytes of a setting that a message shows. */
static int results__shown(bytes b) { return (int)min_size(b.n, 100); }

static bool results__settings_differ(const char *file, bytes name, const bytes *was, const bytes *now, err_t *e) {
    static const bytes none = {(const uint8_t *)"nothing", 7};
    const bytes        w = was ? *was : none, n = now ? *now : none;
    return err_set(e, EXIT_INPUT, "%s: was made with %.*s %.*s, this run has %.*s, expected the same settings",
                   file, results__shown(name), (const char *)name.p, results__shown(w), (const char *)w.p,
                   results__shown(n), (const char *)n.p);
}

/* Whether two runs have the same settings. On failure e names the first that differs. */
static bool results__same_settings(const char *file, bytes was, bytes now, err_t *e) {
    bytes b = now, line, value;
    while (results__next_line(&b, &line)) {
        bytes name = results__name(line), mine = {0};
        results__is_setting(line, name, &mine);
        bool has = results__find(was, name, &value);
        if (!has || !bytes_eq(value, mine)) return results__settings_differ(file, name, has ? &value : NULL, &mine, e);
    }
    for (b = was; results__next_line(&b, &line);) {
        bytes name = results__name(line), theirs = {0};
        results__is_setting(line, name, &theirs);
        if (!results__find(now, name, &value)) return results__settings_differ(file, name, &theirs, NULL, e);
    }
    return true;
}

/* Appends the header's name: beside the file itself, with links resolved. */
static bool results__header_name(const char *path, str *out, err_t *e) {
    const bool ok = str_real(out, path, e);
    str_put(out, ".llmrun");
    return ok;
}

/* Reads a header and its settings, a part of its text; no text: there is none. On failure e is set. */
static bool results__header_load(const char *name, str *text, bytes *settings, err_t *e) {
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    str_add(text, "", 0);
    *settings = (bytes){0};
    if (fd < 0 && errno == ENOENT) return true;
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", name, strerror(errno));
    const bool ok = str_read_all(text, fd, name, RESULTS_HEADER, "a header of results", e);
    close(fd);
    return ok && results__header_read(str_bytes(text), name, settings, e);
}

static bool results__write(int fd, const void *p, size_t n, size_t *done) {
    for (*done = 0; *done < n;) {
        ssize_t got = write(fd, (const uint8_t *)p + *done, n - *done);
        if (got > 0) *done += (size_t)got;
        else if (got < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, LINES_PAUSE);
        else if (got == 0 || errno != EINTR) return false;
    }
    return true;
}

/* Writes the header under a temporary name, flushes it and renames it. Owner and mode are those of the results in fd. The caller
 * holds their lock, so an existing temporary file is left by a run that has ended. On failure e is set. */
static bool results__header_save(const char *name, int of, bytes settings, err_t *e) {
    struct stat like;
    str         tmp = {0}, text = {0};
    size_t      done;
    ASSERT(!settings.n || settings.p[settings.n - 1] == '\n');
    str_fmt(&tmp, "%s.tmp", name);
    str_put(&text, results__magic);
    str_add(&text, settings.p, settings.n);
    unlink(tmp.p);
    const int  fd = fstat(of, &like) == 0 ? out_create(tmp.p, O_WRONLY, &like) : -1;
    const bool ok = (fd >= 0 && results__write(fd, text.p, text.n, &done) && out_replace(fd, tmp.p, name)) ||
                    err_set(e, err_code_of(errno), "%s: cannot write: %s", name, strerror(errno));
    if (fd >= 0) close(fd);
    out_settle(tmp.p, false);
    str_drop_all(&tmp, &text);
    return ok;
}

/* Appends the settings of a run in one word: llmrun-MODEL-OTHERS-SEED, where OTHERS is a hash. The shard is left
 * out: it changes no answer. */
static void results__fingerprint(bytes settings, str *out) {
    bytes    line, weights = {0}, seed = {0}, v;
    uint64_t h = 0;
    for (bytes b = settings; results__next_line(&b, &line);)
        if (results__is_setting(line, bytes_of("model"), &v)) weights = v;
        else if (results__is_setting(line, bytes_of("seed"), &v)) seed = v;
        else if (!results__is_setting(line, bytes_of("shard"), &v)) h = bytes_hash(h, line);
    str_fmt(out, "llmrun-%.*s-%08x-", (int)weights.n, weights.n ? (const char *)weights.p : "", (unsigned)(h ^ h >> 32));
    for (size_t i = 0; i < seed.n; i++)
        if (seed.p[i] != ' ') str_add(out, &seed.p[i], 1);
}

/* --- the results of a run --- */

typedef struct {                                      /* a record of a file that is resumed */
    uint64_t line;                                    /* of the input, when it was written */
    digest   digest;                                  /* of that line, as in results__record */
    uint64_t file;                                    /* results_file() of the input; 0: none */
    uint64_t at;                                      /* offset in the file */
    uint64_t n;                                       /* bytes without the newline */
    uint64_t now;                                     /* the line of the input that it answers; 0: none yet */
    uint32_t next;                                    /* the next one with its key, from 1; 0: none */
    bool     by_id;                                   /* found by its custom_id */
    bool     fits;                                    /* it is of this run's settings */
    bool     failed;                                  /* it is an error */
    bool     old;                                     /* of an earlier version */
    bool     bad_utf8;                                /* it is not UTF-8 */
    bool     dropped;                                 /* it leaves the file and is kept nowhere */
} results__old;

typedef struct {
    const char   *name;                               /* in errors: a path, or stdout */
    int           fd;
    bool          file;                               /* a regular file, locked by this run */
    int           why;                                /* errno of a failed write; EPIPE: the reader closed the pipe */
    uint64_t      n_old;                              /* records of the resumed file */
    uint64_t      n_new;                              /* records written since */
    uint64_t      n_old_failed;                       /* of the resumed file: with an error */
    uint64_t      n_stale;                            /* of the resumed file: moved to FILE.stale */
    str           fingerprint;                        /* of this run */
    bool          resumable;                          /* a file that --resume can continue */
    bool          strict;                             /* no header: every answer must have that fingerprint */
    uint64_t      seed;                               /* of hashes */
    results__old *old;                                /* [n_old] in the order of the file */
    uint64_t      old_end;                            /* where they end */
    hmap          by_key;                             /* key of a record -> its index in old, from 1 */
    hmap          ids;                                /* custom_ids of the input */
    uint64_t      n_ids;
    bool          warned;                             /* of more than RESULTS_IDS custom_ids */
} results;

static void results__free(results *r) {
    if (r->fd != STDOUT_FILENO && r->fd >= 0) close(r->fd);
    hmap_drop(&r->ids);
    hmap_drop(&r->by_key);
    mem_free(r->old);
    str_drop(&r->fingerprint);
    mem_free(r);
}

static uint64_t results__key(const results *r, uint64_t file, uint64_t line, digest d, bool by_id) {
    const uint64_t what[4] = {file, d.a, d.b, by_id ? 0 : line};
    return max_u64(bytes_hash(r->seed, (bytes){(const uint8_t *)what, sizeof what}), 1);
}

static bool results__use(results *r, uint64_t file, uint64_t line, digest d, bool old, bool by_id) {
    hmap_entry   *en = r->n_old ? hmap_find(&r->by_key, results__key(r, file, line, d, by_id), 0) : NULL;
    results__old *o = en && en->a && en->b ? &r->old[en->b - 1] : NULL;
    if (!o || !digest_eq(o->digest, d) || o->old != old || o->file != file || o->by_id != by_id || (!by_id && o->line != line))
        return false;
    en->b = o->next;
    o->now = line;
    return true;
}

/* Looks for the record of a resumed file that answers a line, and marks it as used. by_id: the line has a
 * custom_id that no line before it has. */
static bool results_use_old(results *r, uint64_t file, uint64_t line, results_line which, bool by_id) {
    return results__use(r, file, line, which.is, false, by_id) ||
           results__use(r, file, line, (digest){which.was, 0}, true, by_id);
}

/* Adds a custom_id of an input. False: an earlier line has it. Beyond RESULTS_IDS none is stored, and each counts as new. */
static bool results_add_id(results *r, uint64_t file, bytes id) {
    const digest   d = bytes_digest((bytes){(const uint8_t *)&file, sizeof file}, id);
    const uint64_t a = max_u64(d.a, 1), b = d.b;
    if (hmap_find(&r->ids, a, b)->a) return false;
    if (r->n_ids == RESULTS_IDS) {
        if (!r->warned) log_warn("more than %d custom_ids; duplicates after these are not found", RESULTS_IDS);
        r->warned = true;
        return true;
    }
    hmap_add(&r->ids, a, b);
    r->n_ids++;
    return true;
}

/* Forgets the custom_ids: the input is read again from its beginning. */
static void results_reset_ids(results *r) {
    hmap_drop(&r->ids);
    hmap_init(&r->ids, ~(uint64_t)0);
    r->n_ids = 0;
}

/* Builds the table of the records, all of them unused. The first record of a key is found first. */
static void results__index(results *r) {
    hmap_drop(&r->by_key);
    hmap_init(&r->by_key, 0);
    r->n_old_failed = 0;
    for (size_t i = r->n_old; i-- > 0;) {
        results__old *o = &r->old[i];
        o->now = 0;
        r->n_old_failed += o->failed;
        if (!o->fits) continue;
        hmap_entry *en = hmap_add(&r->by_key, results__key(r, o->file, o->line, o->digest, o->by_id), 0);
        o->next = (uint32_t)en->b;
        en->b = i + 1;
    }
}

/* Stores a record of the resumed file. Without a header its fingerprint must show that the settings were the same. */
static bool results__store(results *r, const lines_in *in, bytes record, str *id, err_t *e) {
    results__record h;
    if (!results__read(record, &h, id) || r->n_old == UINT32_MAX - 1) return results__foreign(in, e);
    const bool fits = h.failed || bytes_eq(h.fingerprint, str_bytes(&r->fingerprint)) || (!h.fingerprint.n && !r->strict);
    if (r->strict && !fits) {
        const bytes has = h.fingerprint.n ? h.fingerprint : bytes_of("none");
        return err_set(e, EXIT_INPUT,
                       "%s.llmrun: not found, and line %llu of the results has another system_fingerprint than this run: "
                       "%.*s, expected %s",
                       r->name, (unsigned long long)in->no, results__shown(has), (const char *)has.p, r->fingerprint.p);
    }
    MEM_PUSH(r->old, r->n_old,
             (results__old){.line = h.line, .digest = h.digest, .old = h.old, .file = h.file, .at = in->at, .n = record.n,
                            .by_id = h.has_id && !h.twice, .fits = fits, .failed = h.failed,
                            .bad_utf8 = !utf8_whole(record)});
    return true;
}

/* Cuts the file to n bytes: the rest is an incomplete record. On failure e is set. */
static bool results__truncate(const results *r, uint64_t n, uint64_t torn, err_t *e) {
    if (!out_cut(r->fd, (off_t)n))
        return err_set(e, err_code_of(errno), "%s: cannot remove an incomplete last line: %s", r->name, strerror(errno));
    log_warn("%s: %llu bytes of an incomplete last line are removed", r->name, (unsigned long long)torn);
    return true;
}

/* Reads n bytes of a file, fewer at its end. -1: see errno. */
static ssize_t results__pread(int fd, void *p, size_t n, off_t at) {
    size_t  has = 0;
    ssize_t got = 1;
    while (has < n && got) {
        got = pread(fd, (uint8_t *)p + has, n - has, at + (off_t)has);
        if (got < 0 && errno != EINTR) return -1;
        if (got > 0) has += (size_t)got;
    }
    return (ssize_t)has;
}

/* Whether the line at this place of a file begins as a record; a run may have been killed after any of its bytes. */
static bool results__begins(int fd, off_t at) {
    char          head[sizeof results__begin - 1];
    const ssize_t got = at < 0 ? -1 : results__pread(fd, head, sizeof head, at);
    return got >= 0 && memcmp(head, results__begin, (size_t)got) == 0;
}

static bool results__forget_damaged(results *r, uint64_t damaged, err_t *e);   /* which reads the new file by this one */

/* Stores the records of a resumed file. Lines that are damaged are removed where the header shows that the file is of llmrun.
 * False: e is set, or a signal asks to stop. */
static bool results__resume(results *r, err_t *e) {
    lines_in *in = lseek(r->fd, 0, SEEK_SET) == 0 ? lines_from_fd(r->fd, true, r->name, RESULTS_RECORD, e) : NULL;
    str       id = {0};
    bytes     line;
    uint64_t  no, damaged = 0;
    lines_got got;
    if (!in) return err_set(e, err_code_of(errno), "%s: cannot read: %s", r->name, strerror(errno));
    while ((got = lines_next(in, true, &line, &no, e)) == LINES_LINE) {
        const bool bad = !r->strict && results__damaged(line);
        damaged += bad;
        if (!bad && (!in->complete || !results__store(r, in, line, &id, e))) break;
    }
    const bool torn = got == LINES_LINE && !in->complete && !e->code;
    if (torn && results__begins(r->fd, (off_t)in->at)) results__truncate(r, in->at, in->next - in->at, e);
    else if (torn || got == LINES_LONG) results__foreign(in, e);
    r->old_end = torn ? in->at : in->next;
    results__index(r);
    lines_close(in);
    str_drop(&id);
    return got != LINES_LATER && !e->code && (!damaged || results__forget_damaged(r, damaged, e));
}

/* Locks the file: one run writes it. The lock ends with the process. On failure e is set. */
static bool results__lock(const results *r, err_t *e) {
    while (flock(r->fd, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK)
            return err_set(e, EXIT_INPUT, "%s: another run is writing it, expected a file that no other run writes",
                           r->name);
        log_warn("%s: cannot be locked (%s); make sure that no other run writes it", r->name, strerror(errno));
        return true;
    }
    return true;
}

/* Compares the header before the file is changed, and writes it before the first record. */
static bool results__prepare(results *r, uint64_t size, bool resume, bytes settings, err_t *e) {
    str   name = {0}, text = {0};
    bytes was;
    bool  ok = results__header_name(r->name, &name, e);
    if (ok && !size) ok = !r->resumable || results__header_save(name.p, r->fd, settings, e);
    else if (ok && !resume)
        ok = err_set(e, EXIT_INPUT, "%s: holds %llu bytes, expected a new file%s", r->name, (unsigned long long)size,
                     r->resumable ? " (--resume continues this one)" : "");
    else if (ok) {
        ok = results__header_load(name.p, &text, &was, e);
        r->strict = !text.n;
        ok = ok && (r->strict || results__same_settings(r->name, was, settings, e)) && results__resume(r, e) &&
             (!r->strict || results__header_save(name.p, r->fd, settings, e));
    }
    str_drop_all(&name, &text);
    return ok;
}

static bool results__open_file(results *r, const char *path, bool resume, bytes settings, err_t *e) {
    struct stat st;
    r->name = path;
    r->file = stat(path, &st) != 0 || S_ISREG(st.st_mode);
    r->resumable = r->file && settings.p;
    if (!r->file && resume) return err_set(e, EXIT_INPUT, "%s: is no regular file, expected one to --resume", path);
    r->fd = open(path, (r->file ? O_RDWR | O_CREAT | O_APPEND : O_WRONLY) | O_NOCTTY | O_CLOEXEC, 0666);
    if (r->fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    if (!r->file) return true;
    if (!results__lock(r, e)) return false;
    struct stat now;
    if (fstat(r->fd, &st)) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    if (stat(path, &now) || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
        return err_set(e, EXIT_INPUT, "%s: another run has just replaced it, expected a file that no other run writes", path);
    return results__prepare(r, (uint64_t)st.st_size, resume, settings, e);
}

/* path NULL or "-": stdout, which has neither header nor lock. settings: one name=value a line, no newline in a
 * value; p NULL: the file is new, has no header, and what is written to it is no record. On failure NULL; e is
 * set unless a signal asks to stop. */
static results *results_open(const char *path, bool resume, bytes settings, err_t *e) {
    results *r = mem_new(1, sizeof *r);
    bool     out = !path || strcmp(path, "-") == 0;
    *r = (results){.name = "stdout", .fd = STDOUT_FILENO, .seed = rng_secret()};
    hmap_init(&r->ids, ~(uint64_t)0);
    results__fingerprint(settings, &r->fingerprint);
    if (out ? !resume || err_set(e, EXIT_INPUT, "--resume: results go to stdout, expected -o FILE")
            : results__open_file(r, path, resume, settings, e)) return r;
    results__free(r);
    return NULL;
}

/* A setting in the header of `path`. False: there is none; e is set where the header cannot be read. */
static bool results_setting(const char *path, const char *name, str *value, err_t *e) {
    str   file = {0}, text = {0};
    bytes settings, v;
    bool found = results__header_name(path, &file, e) && results__header_load(file.p, &text, &settings, e) && text.n &&
                 results__find(settings, bytes_of(name), &v);
    str_clear(value);
    if (found) str_add(value, v.p, v.n);
    str_drop_all(&file, &text);
    return found;
}

/* The seed in the fingerprint of a file's first answer. False: there is none. */
static bool results_seed(const char *path, str *value) {
    err_t     e = {0};
    lines_in *in = lines_open(path, RESULTS_RECORD, &e);
    str       id = {0};
    bytes     line;
    uint64_t  no;
    str_clear(value);
    while (in && !in->stream && !value->n && lines_next(in, true, &line, &no, &e) == LINES_LINE) {
        results__record h;
        if (!results__read(line, &h, &id)) break;
        size_t n = h.fingerprint.n;
        while (n && h.fingerprint.p[n - 1] != '-') n--;
        if (n) str_add(value, h.fingerprint.p + n, h.fingerprint.n - n);
    }
    lines_close(in);
    str_drop(&id);
    return value->n > 0;
}

/* Whether a file begins with a record of an earlier version. */
static bool results_is_old(const char *path) {
    err_t           e = {0};
    lines_in       *in = lines_open(path, RESULTS_RECORD, &e);
    results__record h = {0};
    str             id = {0};
    bytes           line;
    uint64_t        no;
    const bool      old = in && !in->stream && lines_next(in, true, &line, &no, &e) == LINES_LINE && results__read(line, &h, &id);
    lines_close(in);
    str_drop(&id);
    return old && h.old;
}

/* Removes the `done` bytes of a record whose rest could not be written, if they are the file's last. */
static void results__undo_write(const results *r, size_t done) {
    struct stat st;
    off_t       end = lseek(r->fd, 0, SEEK_CUR);
    if (!done || end < (off_t)done || fstat(r->fd, &st) || !S_ISREG(st.st_mode) || st.st_size != end) return;
    if (out_cut(r->fd, end - (off_t)done)) lseek(r->fd, end - (off_t)done, SEEK_SET);
}

/* Writes one record with its newline; a terminal is shown it by utf8_visible(). On failure e is set, unless the reader has closed
 * the pipe. */
static bool results_put(results *r, bytes record, err_t *e) {
    str    seen = {0};
    size_t done;
    ASSERT(record.n);
    if (r->why) return false;
    progress_yield(r->fd);
    if (!r->file && isatty(r->fd)) {
        str_visible(&seen, record, true);
        record = str_bytes(&seen);
    }
    const bool ok = results__write(r->fd, record.p, record.n, &done);
    const int  why = errno;
    str_drop(&seen);
    if (ok) {
        r->n_new++;
        return true;
    }
    errno = why;
    r->why = errno ? errno : EIO;
    results__undo_write(r, done);
    if (r->why == EPIPE) return false;
    return err_set(e, EXIT_RESOURCE, "%s: cannot write: %s; %llu results are complete%s", r->name, strerror(r->why),
                   (unsigned long long)(r->n_old + r->n_new), r->resumable ? ", --resume continues from there" : "");
}

/* Writes the first bytes of a regular file, which may be there already. On failure e is set. */
static bool results_put_head(results *r, bytes head, err_t *e) {
    const int flags = fcntl(r->fd, F_GETFL);
    const bool ok = flags >= 0 && fcntl(r->fd, F_SETFL, flags & ~O_APPEND) == 0 &&
                    pwrite(r->fd, head.p, head.n, 0) == (ssize_t)head.n && fcntl(r->fd, F_SETFL, flags) == 0;
    return ok || err_set(e, err_code_of(errno), "%s: cannot write: %s", r->name, strerror(errno));
}

/* Puts the records on disk, also those before a write that failed. The name of a file with a header is there already. On
 * failure e is set: some records may not be on disk. */
static bool results_close(results *r, err_t *e) {
    if (!r) return true;
    bool ok = !r->file || out_sync(r->fd);
    if (ok && r->file && !r->resumable) {
        str real = {0};
        ok = str_real(&real, r->name, e) && out_sync_folder(real.p);
        str_drop(&real);
    }
    ok = ok || r->why || err_set(e, EXIT_RESOURCE, "%s: cannot write: %s", r->name, strerror(errno));
    results__free(r);
    return ok;
}

/* --- merging several files of results --- */

typedef struct {
    uint64_t line;                                    /* of the input, from 1 */
    digest   digest;                                  /* of that line, as in results__record */
    uint64_t at;                                      /* offset in its file */
    uint64_t input;                                   /* results_file() of its input's name; replaced by that name's rank */
    uint32_t n;                                       /* bytes without the newline */
    uint32_t file;                                    /* index of the file */
    bool     failed;
    bool     old;                                     /* of an earlier version */
} results__item;

typedef struct {                                      /* a file of requests that records name */
    uint64_t key;                                     /* results_file() of its name */
    str      name;
} results__input;

typedef struct {
    const char *const *path;
    int               *fd;                            /* [files] */
    results__item     *place;                         /* [n] where the records are */
    size_t             n;                             /* records of all files */
    results__input    *input;                         /* [n_inputs] names of inputs, in order of appearance */
    size_t             n_inputs;
    hmap               seen;                          /* of those: key -> index, from 1 */
    str                one;                           /* a record */
    str                two;                           /* the record that it is compared with */
    uint64_t           n_repaired;
} results__set;

static int results__by_line(const void *pa, const void *pb) {
    const results__item *a = pa, *b = pb;
    if (a->input != b->input) return a->input < b->input ? -1 : 1;
    if (a->line != b->line) return a->line < b->line ? -1 : 1;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int results__by_name(const void *pa, const void *pb) {
    const results__input *a = pa, *b = pb;
    return strcmp(a->name.p, b->name.p);
}

/* Ranks the inputs by `names`, the others after these by their own names, and gives each record its input's rank. */
static void results__rank(results__set *p, const char *const *names, int n_names) {
    hmap rank;
    hmap_init(&rank, 0);
    if (p->n_inputs) qsort(p->input, p->n_inputs, sizeof *p->input, results__by_name);
    for (int i = 0; i < n_names; i++) hmap_add(&rank, results_file(names[i]), 0)->b = (uint64_t)i + 1;
    for (size_t i = 0; i < p->n_inputs; i++) {
        hmap_entry *en = hmap_add(&rank, p->input[i].key, 0);
        if (!en->b) en->b = (uint64_t)n_names + i + 1;
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->place[i].input) p->place[i].input = hmap_find(&rank, p->place[i].input, 0)->b;
    hmap_drop(&rank);
}

static void results__store_input(results__set *p, const results__record *h) {
    hmap_entry *en = h->file ? hmap_add(&p->seen, h->file, 0) : NULL;
    bytes         literal = h->name;
    if (!en || en->b) return;
    p->input = mem_grow(p->input, p->n_inputs + 1, sizeof *p->input);
    results__input *in = &p->input[p->n_inputs++];
    *in = (results__input){.key = h->file};
    results__string(&literal, &in->name);
    str_add(&in->name, "", 0);
    en->b = p->n_inputs;
}

static bool results__read_file(results__set *p, uint32_t file, str *id, err_t *e) {
    lines_in     *in = lines_open(p->path[file], RESULTS_RECORD, e);
    results__record h;
    bytes         line;
    uint64_t      no;
    lines_got     got;
    if (!in) return false;
    if (in->stream || in->borrowed) err_set(e, EXIT_INPUT, "%s: is no regular file, expected one with results", in->name);
    else p->fd[file] = in->fd, in->borrowed = true;
    while (!e->code && (got = lines_next(in, true, &line, &no, e)) != LINES_END && got != LINES_FAILED &&
           got != LINES_LATER) {
        if (got == LINES_LINE && results__damaged(line))
            err_set(e, EXIT_INPUT, "%s: byte %llu: line %llu holds NUL bytes, expected a record; --resume removes damaged lines",
                    in->name, (unsigned long long)in->at, (unsigned long long)in->no);
        else if (got == LINES_LINE && !in->complete) log_warn("%s: its last line is incomplete and left out", in->name);
        else if (got == LINES_LONG || !results__read(line, &h, id)) results__foreign(in, e);
        else {
            MEM_PUSH(p->place, p->n, (results__item){.line = h.line, .digest = h.digest, .at = in->at, .input = h.file,
                                                     .n = (uint32_t)line.n, .file = file, .failed = h.failed, .old = h.old});
            results__store_input(p, &h);
        }
    }
    lines_close(in);
    return !e->code && !g_interrupt;
}

/* Reads n bytes of a file again. On failure e is set. */
static bool results__fetch(int fd, const char *name, uint64_t at, size_t n, str *to, err_t *e) {
    str_clear(to);
    str_reserve(to, n);
    while (to->n < n) {
        ssize_t got = pread(fd, to->p + to->n, n - to->n, (off_t)(at + to->n));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_set(e, err_code_of(errno), "%s: cannot read: %s", name, strerror(errno));
        if (got == 0)
            return err_set(e, EXIT_RESOURCE, "%s: shrank while it was read, expected it to stay as it was", name);
        to->n += (size_t)got;
    }
    return true;
}

static bool results__load(const results__set *p, const results__item *w, str *to, err_t *e) {
    return results__fetch(p->fd[w->file], p->path[w->file], w->at, w->n, to, e);
}

/* Makes a record valid UTF-8; records of older versions may not be. True: it was changed. */
static bool results__repair(str *record) {
    str good = {0};
    if (utf8_whole(str_bytes(record))) return false;
    str_utf8(&good, str_bytes(record));
    str_drop(record);
    *record = good;
    return true;
}

/* The choices of a record's answer; the whole answer where its keys have another order. */
static bytes results__choices(const str *record, str *id) {
    results__record h;
    if (!results__read(str_bytes(record), &h, id) || h.failed) return (bytes){0};
    return results__skip(&h.rest, "\"choices\":") ? bytes_cut_json(&h.rest) : h.rest;
}

/* The end of a record's id. */
static const char *results__which(const results__item *w, char text[33]) {
    const unsigned long long a = w->digest.a, b = w->digest.b;
    if (w->old) snprintf(text, 33, "%016llx", a);
    else snprintf(text, 33, "%016llx%016llx", a, b);
    return text;
}

/* Checks that two records of one line have the same request, as far as records of two versions tell, and the same answer. An
 * answer replaces an error. On failure e is set. */
static bool results__agree(results__set *p, results__item *first, const results__item *w, str *id, err_t *e) {
    const char *why = NULL;
    char        x[33], y[33];
    if (first->old == w->old && !digest_eq(first->digest, w->digest)) why = "answer different texts";
    else if (first->failed || w->failed) {
        if (first->failed && !w->failed) *first = *w;
    } else {
        if (!results__load(p, first, &p->one, e) || !results__load(p, w, &p->two, e)) return false;
        results__repair(&p->one);                     /* one copy may be repaired already */
        results__repair(&p->two);
        if (!bytes_eq(results__choices(&p->one, id), results__choices(&p->two, id))) why = "have different answers";
    }
    if (!why) return true;
    return err_set(e, EXIT_INPUT,
                   "%s: byte %llu and %s: byte %llu: two records of line %llu %s "
                   "(batch_req_%llu_%s, batch_req_%llu_%s), expected one",
                   p->path[first->file], (unsigned long long)first->at, p->path[w->file], (unsigned long long)w->at,
                   (unsigned long long)w->line, why, (unsigned long long)first->line, results__which(first, x),
                   (unsigned long long)w->line, results__which(w, y));
}

/* Sorts the records and keeps one for each line. False: e is set, or a signal asks to stop. */
static bool results__keep_one(results__set *p, const char *const *names, int n_names, str *id, err_t *e) {
    size_t n = 0;
    results__rank(p, names, n_names);
    if (p->n) qsort(p->place, p->n, sizeof *p->place, results__by_line);
    for (size_t i = 0; i < p->n; i++) {
        if (g_interrupt) return false;
        results__item *last = n ? &p->place[n - 1] : NULL, *w = &p->place[i];
        if (!last || last->line != w->line || last->input != w->input) p->place[n++] = *w;
        else if (!results__agree(p, last, w, id, e)) return false;
    }
    p->n = n;
    return true;
}

static bool results__put_all(results__set *p, out_t *out, err_t *e) {
    for (size_t i = 0; i < p->n; i++) {
        if (g_interrupt || !results__load(p, &p->place[i], &p->one, e)) return false;
        p->n_repaired += results__repair(&p->one);
        if (!out_put(out, p->one.p, p->one.n) || !out_put(out, "\n", 1)) return false;
    }
    return true;
}

/* Warns about missing and repaired records. */
static void results__report(const results__set *p) {
    uint64_t missing = 0, last = 0;
    for (size_t i = 0; i < p->n; i++) {
        const results__item *w = &p->place[i];
        if (i && w->input != w[-1].input) last = 0;
        missing += w->line - last - 1;
        last = w->line;
    }
    if (missing && p->n_inputs < 2)
        log_warn("%llu of the lines 1 to %llu have no result (empty lines have none)", (unsigned long long)missing,
                 (unsigned long long)last);
    else if (missing)
        log_warn("%llu lines of %zu files have no result (empty lines have none)", (unsigned long long)missing, p->n_inputs);
    if (p->n_repaired)
        log_warn("%llu records held bytes that are not UTF-8; U+FFFD replaces them", (unsigned long long)p->n_repaired);
}

static void results__set_init(results__set *p, const char *const *path, int n) {
    *p = (results__set){.path = path, .fd = mem_new((size_t)n, sizeof *p->fd)};
    hmap_init(&p->seen, 0);
    for (int i = 0; i < n; i++) p->fd[i] = -1;
}

static void results__set_drop(results__set *p, int n) {
    for (int i = 0; i < n; i++)
        if (p->fd[i] >= 0) close(p->fd[i]);
    for (size_t i = 0; i < p->n_inputs; i++) str_drop(&p->input[i].name);
    mem_free_all(p->fd, p->place, p->input);
    hmap_drop(&p->seen);
    str_drop_all(&p->one, &p->two);
}

/* Reads the records of n files: one for each line, in the order of their inputs, which `names` begins, and lines. Two that differ
 * are an error. False: e is set, or a signal asks to stop; in either case results__set_drop() is still to be called. */
static bool results__gather(results__set *p, const char *const *path, int n, const char *const *names, int n_names, err_t *e) {
    struct rlimit most;
    str           id = {0};
    bool          ok = true;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;                /* all files are open at once */
        setrlimit(RLIMIT_NOFILE, &most);
    }
    results__set_init(p, path, n);
    for (int i = 0; ok && i < n; i++) ok = results__read_file(p, (uint32_t)i, &id, e);
    ok = ok && results__keep_one(p, names, n_names, &id, e);
    str_drop(&id);
    return ok;
}

/* Writes the records of n files in the order of their inputs' names and lines, one for each line. Two that differ are an
 * error before anything is written. False: e is set, unless the reader has closed the pipe or a signal asks to stop. */
static bool results_merge(const char *const *path, int n, out_t *out, err_t *e) {
    results__set p;
    const bool   ok = results__gather(&p, path, n, NULL, 0, e) && out_begin(out, e) && results__put_all(&p, out, e);
    if (ok) results__report(&p);
    results__set_drop(&p, n);
    return ok;
}

/* Gives the records of n files to put(), in the order of results_merge(), where `names` are the first of the inputs. False: e is
 * set, put() has said so, or a signal asks to stop. */
static bool results_each(const char *const *path, int n, const char *const *names, int n_names,
                         bool (*put)(void *ctx, bytes record, err_t *e), void *ctx, err_t *e) {
    results__set p;
    bool         ok = results__gather(&p, path, n, names, n_names, e);
    for (size_t i = 0; ok && i < p.n; i++)
        ok = !g_interrupt && results__load(&p, &p.place[i], &p.one, e) &&
             (results__repair(&p.one), put(ctx, str_bytes(&p.one), e));
    results__set_drop(&p, n);
    return ok;
}

/* --- replacing a file of results --- */

typedef struct {
    str   path;                                       /* of the file itself, with links resolved */
    str   tmp;                                        /* of the new file until it is complete */
    int   fd;
    out_t out;
} results__new;

/* Begins a new file in place of `path`, whose links are resolved. name: in errors, kept until results__new_end(); like: whose
 * owner and mode it gets, NULL: see errno. It is locked before it has the name of the old one, so that no other run can write it.
 * On failure e is set. */
static bool results__new_begin(results__new *w, const char *path, const char *name, const struct stat *like, err_t *e) {
    *w = (results__new){.fd = -1};
    str_put(&w->path, path);
    str_fmt(&w->tmp, "%s.llmrun.new", path);
    if (like) {
        unlink(w->tmp.p);
        w->fd = out_create(w->tmp.p, O_RDWR | O_APPEND, like);
    }
    const int copy = w->fd >= 0 ? fcntl(w->fd, F_DUPFD_CLOEXEC, 3) : -1;
    FILE     *f = copy >= 0 ? fdopen(copy, "ab") : NULL;
    w->out = (out_t){f, name, 0, false};
    if (f) return flock(w->fd, LOCK_EX | LOCK_NB), true;
    err_set(e, err_code_of(errno), "%s: cannot write: %s", name, strerror(errno));
    if (copy >= 0) close(copy);
    return false;
}

/* ok: the new file replaces the old one, and its descriptor is returned. -1: it is removed and the old one is unchanged. */
static int results__new_end(results__new *w, bool ok, err_t *e) {
    const bool flushed = !w->out.f || out_end(&w->out, e);
    ok = ok && flushed;
    if (ok && !out_replace(w->fd, w->tmp.p, w->path.p))
        ok = err_set(e, err_code_of(errno), "%s: cannot write: %s", w->out.name, strerror(errno));
    if (!ok && w->fd >= 0) {
        close(w->fd);
        out_settle(w->tmp.p, false);
    }
    str_drop_all(&w->path, &w->tmp);
    return ok ? w->fd : -1;
}

/* The same for the results themselves, which the run goes on writing. */
static bool results__renew_begin(const results *r, results__new *w, err_t *e) {
    struct stat like;
    str         real = {0};
    *w = (results__new){.fd = -1};
    const bool ok = str_real(&real, r->name, e) &&
                    results__new_begin(w, real.p, r->name, fstat(r->fd, &like) == 0 ? &like : NULL, e);
    str_drop(&real);
    return ok;
}

static bool results__renew_end(results *r, results__new *w, bool ok, err_t *e) {
    const int fd = results__new_end(w, ok, e);
    if (fd < 0) return false;
    close(r->fd);
    r->fd = fd;
    return true;
}

/* Bytes of a file up to its last newline: a killed run may leave an incomplete line. -1: it cannot be read. */
static off_t results__whole_lines(int fd) {
    char  buf[4096];
    off_t end = lseek(fd, 0, SEEK_END);
    while (end > 0) {
        const off_t   from = end > (off_t)sizeof buf ? end - (off_t)sizeof buf : 0;
        const ssize_t got = results__pread(fd, buf, (size_t)(end - from), from);
        if (got != end - from) return -1;
        for (ssize_t i = got; i > 0; i--)
            if (buf[i - 1] == '\n') return from + i;
        end = from;
    }
    return end;
}

/* Whether these are records of earlier runs, and where their whole lines end. False: they are not, errno 0; or they cannot be
 * read, see errno. */
static bool results__earlier(int fd, const struct stat *own, off_t *end) {
    errno = 0;
    if (fd >= 0 && S_ISREG(own->st_mode) && own->st_nlink == 1 && (*end = results__whole_lines(fd)) >= 0 &&
        results__begins(fd, 0) && results__begins(fd, *end)) return true;
    if (errno == EINTR) errno = 0;                    /* of a read that was repeated */
    return false;
}

/* Opens the FILE.stale of earlier runs and finds the end of its whole lines. *like: owner and mode of a new one, no more of the
 * mode than the results have. What earlier runs have not written is left alone: a link, a pipe, a file of another kind. -1: there
 * is none, or e is set. */
static int results__open_stale(const results *r, const char *to, struct stat *like, off_t *end, err_t *e) {
    struct stat own;
    const int   fd = open(to, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), why = errno;
    *end = 0;
    if (fstat(r->fd, like)) err_set(e, err_code_of(errno), "%s: %s", r->name, strerror(errno));
    else if (fd < 0 && why == ENOENT) return -1;
    else if ((fd < 0 && why != ELOOP && why != ENXIO) || (fd >= 0 && fstat(fd, &own)))
        err_set(e, err_code_of(fd < 0 ? why : errno), "%s: cannot read: %s", to, strerror(fd < 0 ? why : errno));
    else if (results__earlier(fd, &own, end)) {
        own.st_mode &= like->st_mode;
        *like = own;
        return fd;
    } else if (errno) err_set(e, err_code_of(errno), "%s: cannot read: %s", to, strerror(errno));
    else
        err_set(e, EXIT_INPUT, "%s: is no file of earlier results, expected one, or none: records of %s move there", to, r->name);
    if (fd >= 0) close(fd);
    return -1;
}

/* Copies bytes [at, end) of a file. False: e is set, or the output has failed. */
static bool results__copy(int fd, const char *name, uint64_t at, uint64_t end, out_t *out, str *buf, err_t *e) {
    for (; at < end; at += buf->n)
        if (!results__fetch(fd, name, at, min_u64(end - at, LINES_CHUNK), buf, e) || !out_put(out, buf->p, buf->n)) return false;
    return true;
}

/* Adds the stale records to the file `to`, FILE.stale, which is replaced as a whole before FILE loses them. A failure adds
 * nothing; a run that is killed between the two adds them twice. */
static bool results__append_stale(const results *r, const char *to, str *record, err_t *e) {
    results__new w = {.fd = -1};
    struct stat  like;
    off_t        end;
    const int    old = results__open_stale(r, to, &like, &end, e);
    if (e->code) return false;
    bool ok = results__new_begin(&w, to, to, &like, e) && results__copy(old, to, 0, (uint64_t)end, &w.out, record, e);
    for (size_t i = 0; ok && i < r->n_old; i++) {
        const results__old *o = &r->old[i];
        if (o->dropped || (o->now && !o->bad_utf8)) continue;
        ok = results__fetch(r->fd, r->name, o->at, o->n, record, e);
        if (ok) str_put(record, "\n");
        ok = ok && out_put(&w.out, record->p, record->n);
    }
    const int fd = results__new_end(&w, ok, e);
    if (fd >= 0) close(fd);
    if (old >= 0) close(old);
    return fd >= 0;
}

/* Changes the line number of a record. */
static void results__renumber(str *record, uint64_t line, str *id) {
    str           s = {0};
    results__record h;
    const uint8_t *p = (const uint8_t *)record->p, *end = p + record->n;
    if (!results__read(str_bytes(record), &h, id)) return;
    const uint8_t *hash = memchr(p + sizeof results__begin - 1, '_', record->n - (sizeof results__begin - 1));
    str_fmt(&s, "%s%llu", results__begin, (unsigned long long)line);
    str_add(&s, hash, (size_t)(h.place.p - hash));
    if (h.place.n) str_fmt(&s, ",\"line\":%llu", (unsigned long long)line);
    str_add(&s, h.place.p + h.place.n, (size_t)(end - h.place.p) - h.place.n);
    str_drop(record);
    *record = s;
}

/* Copies the records that were written since the file was opened. */
static bool results__copy_rest(const results *r, out_t *out, str *buf, err_t *e) {
    struct stat st;
    if (fstat(r->fd, &st)) return err_set(e, err_code_of(errno), "%s: %s", r->name, strerror(errno));
    return results__copy(r->fd, r->name, r->old_end, (uint64_t)st.st_size, out, buf, e);
}

/* Number of records that go to FILE.stale: those without a line, and the originals of repaired ones. */
static uint64_t results__n_stale(const results *r) {
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_old; i++) n += !r->old[i].dropped && (!r->old[i].now || r->old[i].bad_utf8);
    return n;
}

/* Rewrites the file with the records that answer a line, each with that line's number. */
static bool results__rewrite(results *r, err_t *e) {
    results__new w;
    str          record = {0}, id = {0}, stale = {0};
    bool         ok = results__renew_begin(r, &w, e);
    if (ok) str_fmt(&stale, "%s.stale", w.path.p);
    ok = ok && (!results__n_stale(r) || results__append_stale(r, stale.p, &record, e));
    for (size_t i = 0; ok && i < r->n_old; i++) {
        const results__old *o = &r->old[i];
        if (!o->now) continue;
        ok = results__fetch(r->fd, r->name, o->at, o->n, &record, e);
        if (ok && o->now != o->line) results__renumber(&record, o->now, &id);
        results__repair(&record);
        if (ok) str_put(&record, "\n");
        ok = ok && out_put(&w.out, record.p, record.n);
    }
    ok = ok && results__copy_rest(r, &w.out, &record, e);
    ok = results__renew_end(r, &w, ok, e);
    str_drop_all(&record, &stale, &id);
    return ok;
}

/* Keeps the records that answer a line, as if the file had been opened now. Newer records follow them. */
static void results__forget_stale(results *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_old; i++)
        if (r->old[i].now) {
            r->old[n] = r->old[i];
            r->old[n].line = r->old[n].now;
            r->old[n++].bad_utf8 = false;
        }
    r->n_old = n;
    results__index(r);
}

/* To be called when every line of the input was looked up: moves records that answer no line to FILE.stale, and
 * renumbers those whose line has moved. On failure e is set. */
static bool results_move_stale(results *r, err_t *e) {
    uint64_t stale = 0, moved = 0, bad = 0;
    for (size_t i = 0; i < r->n_old; i++) {
        const results__old *o = &r->old[i];
        stale += !o->now;
        moved += o->now && o->now != o->line;
        bad += o->now && o->bad_utf8;
    }
    if ((stale || moved || bad) && !results__rewrite(r, e)) return false;
    if (stale)
        log_warn("%s: %llu of %llu records answer no line of the input as it is now; moved to %s.stale", r->name,
                 (unsigned long long)stale, (unsigned long long)r->n_old, r->name);
    if (bad)
        log_warn("%s: %llu records held bytes that are not UTF-8; U+FFFD replaces them, %s.stale holds the old records", r->name,
                 (unsigned long long)bad, r->name);
    r->n_stale += stale;
    results__forget_stale(r);
    return true;
}

/* Sorts the file by its inputs and their lines. */
static bool results_sort(results *r, const char *const *names, int n_names, err_t *e) {
    results__set p;
    results__new  w;
    str           id = {0};
    results__set_init(&p, &r->name, 1);
    bool ok = results__read_file(&p, 0, &id, e) && results__keep_one(&p, names, n_names, &id, e);
    if (ok) {
        ok = results__renew_begin(r, &w, e) && results__put_all(&p, &w.out, e);
        ok = results__renew_end(r, &w, ok, e);
    }
    results__set_drop(&p, 1);
    str_drop(&id);
    return ok;
}

/* Writes a file anew that has been opened to be resumed, without the lines that are damaged; their requests run again. */
static bool results__forget_damaged(results *r, uint64_t damaged, err_t *e) {
    for (size_t i = 0; i < r->n_old; i++) r->old[i].now = r->old[i].line;
    if (!results__rewrite(r, e)) return false;
    log_warn("%s: %llu damaged line%s removed: part of the file was not on disk when the machine stopped", r->name,
             (unsigned long long)damaged, damaged == 1 ? " is" : "s are");
    r->n_old = 0;
    return results__resume(r, e);
}

/* Takes the errors out of a file that has been opened to be resumed, so that their lines run again. On failure e is set. */
static bool results_forget_failed(results *r, err_t *e) {
    const uint64_t failed = r->n_old_failed;
    if (!failed) return true;
    for (size_t i = 0; i < r->n_old; i++) {
        r->old[i].now = r->old[i].failed ? 0 : r->old[i].line;
        r->old[i].dropped = r->old[i].failed;
    }
    if (!results__rewrite(r, e)) return false;
    log_warn("%s: %llu line%s with an error run%s again", r->name, (unsigned long long)failed, failed == 1 ? "" : "s",
             failed == 1 ? "s" : "");
    r->n_old = 0;
    return results__resume(r, e);                     /* the records have moved */
}
