/* ===== [safetensors] (st) tensors of a checkpoint's folder =====
 * Finds and maps the files *.safetensors of a folder and reads their headers: names, dtypes, shapes and places of tensors. A
 * file is 8 bytes with the length of the header, the header as JSON, and data. With model.safetensors.index.json the folder
 * has the files that it names; without one those whose names begin with model; else the only one.
 * Trusts no byte: a header is at most ST_HEAD_MAX bytes, and is a private copy; every number is checked in 64 bits; data of
 * tensors neither overlap nor leave gaps, as the library of Hugging Face has it, which refuses the same files. A name comes
 * once in all files, and the index lists exactly the tensors that are there, each in its file. Names of files in the index
 * have no folders; a link to another folder is followed, since caches of downloads consist of links.
 * Errors name file, tensor, what was found and what was expected.
 * Public: st_tokenizer, st_type_name, st_type_bytes, st_read_json, st_names_drop, st_shards_of_index, st_shards_of, st_shards,
 * st_open, st_close, st_find, st_bad.
 * Opens: st_tensor, st_folder, st_names. */

typedef enum {
    ST_F32, ST_F16, ST_BF16, ST_F64, ST_I64, ST_I32, ST_I16, ST_I8, ST_U64, ST_U32, ST_U16, ST_U8, ST_BOOL, ST_E4M3, ST_E5M2,
    ST_E8M0, ST_TYPES
} st_type;

enum {
    ST_HEAD_MAX  = 100 << 20,        /* bytes of a header: the limit of the library                        */
    ST_DIMS      = 6,                /* most dimensions of a tensor                                        */
    ST_COUNT_MAX = 1 << 20,          /* tensors of a folder                                                */
    ST_NAME_MAX  = 512,              /* bytes of a tensor's name                                           */
    ST_JSON_MAX  = 256 << 20         /* bytes of another JSON file of the folder                           */
};

/* Files of a folder that hold a tokenizer, each for some families ([vocab]). A checkpoint has at least one of them. */
enum { ST_TOK_JSON, ST_TOK_SPM, ST_TOK_SPIECE, ST_TOK_PLAMO, ST_TOK_RWKV, ST_TOKENIZERS };
static const char *const st_tokenizer[ST_TOKENIZERS] = {
    [ST_TOK_JSON] = "tokenizer.json",   [ST_TOK_SPM] = "tokenizer.model", [ST_TOK_SPIECE] = "spiece.model",
    [ST_TOK_PLAMO] = "tokenizer.jsonl", [ST_TOK_RWKV] = "rwkv_vocab_v20230424.txt"};

typedef struct {
    bytes          name;             /* which the index reads: the first field                             */
    st_type        type;             /* of its values                                                      */
    int            n_dims;           /* 0: one value                                                       */
    uint64_t       dim[ST_DIMS];     /* the outermost first; 1 beyond n_dims                               */
    const uint8_t *data;             /* [n_bytes] in the mapping, at any alignment                         */
    uint64_t       n_bytes;          /* of the data                                                        */
    uint64_t       at;               /* file offset of the data                                            */
    int            part;             /* of files.part                                                      */
} st_tensor;

typedef struct {
    gguf_file   files;               /* the mapped files, as parts                                         */
    str        *name;                /* [n_names] texts of names, apart from the headers                   */
    size_t      n_names;
    st_tensor  *tensor;              /* [n] in the order of the files, and of their headers                */
    size_t      n;                   /* tensors                                                            */
    gguf_index  names;               /* of tensor                                                          */
} st_folder;

static const struct {
    const char *name;
    uint8_t     bytes;
} st__types[ST_TYPES] = {
    [ST_F32] = {"F32", 4}, [ST_F16] = {"F16", 2}, [ST_BF16] = {"BF16", 2}, [ST_F64] = {"F64", 8}, [ST_I64] = {"I64", 8},
    [ST_I32] = {"I32", 4}, [ST_I16] = {"I16", 2}, [ST_I8] = {"I8", 1}, [ST_U64] = {"U64", 8}, [ST_U32] = {"U32", 4},
    [ST_U16] = {"U16", 2}, [ST_U8] = {"U8", 1}, [ST_BOOL] = {"BOOL", 1}, [ST_E4M3] = {"F8_E4M3", 1},
    [ST_E5M2] = {"F8_E5M2", 1}, [ST_E8M0] = {"F8_E8M0", 1},
};

/* The name of a dtype, as headers write it, and the bytes of a value. */
static const char *st_type_name(st_type type) { return st__types[type].name; }
static uint64_t    st_type_bytes(st_type type) { return st__types[type].bytes; }

/* An error in a tensor of the folder. Always false. */
__attribute__((format(printf, 4, 5)))
static bool st_bad(const st_folder *f, const st_tensor *t, err_t *e, const char *fmt, ...) {
    char    what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return gguf_bad(&f->files, t->part, t->at, e, "tensor %.*s %s", GGUF_SHOW(t->name), what);
}

/* The tensor of this name; NULL: there is none. */
static const st_tensor *st_find(const st_folder *f, bytes name) { return gguf_index_find(&f->names, name); }

/* --- numbers and lists of a header --- */

/* A whole number without sign. False: the text is none, or it is larger than most. */
static bool st__number(bytes text, uint64_t most, uint64_t *out) {
    uint64_t v = 0;
    text = bytes_trim(text);
    for (size_t i = 0; i < text.n; i++) {
        if (!isdigit(text.p[i]) || __builtin_mul_overflow(v, (uint64_t)10, &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(text.p[i] - '0'), &v)) return false;
    }
    *out = v;
    return text.n && v <= most;
}

/* A list of up to `most` numbers; -1: the text is no such list. */
static int st__list(bytes text, int most, uint64_t *out) {
    int   n = 0;
    bytes item;
    if (!text.n || text.p[0] != '[') return -1;
    while (bytes_cut_item(&text, &item))
        if (n == most || !st__number(item, INT64_MAX, &out[n++])) return -1;
    return n;
}

/* --- a header --- */

typedef struct {
    st_folder *f;
    int        part;                 /* whose header it is                                                 */
    uint64_t   base;                 /* file offset of the data                                            */
    uint64_t   n_data;               /* bytes of data                                                      */
    err_t     *e;
} st__head;

__attribute__((format(printf, 3, 4))) static bool st__refuse(const st__head *h, bytes name, const char *fmt, ...) {
    char    what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return gguf_refuse(h->e, EXIT_INPUT, h->f->files.part[h->part].path, "tensor %.*s: %s", GGUF_SHOW(name), what);
}

static int st__type_of(bytes dtype) {
    for (int i = 0; i < ST_TYPES; i++)
        if (dtype.n == strlen(st__types[i].name) + 2 && !memcmp(dtype.p + 1, st__types[i].name, dtype.n - 2)) return i;
    return -1;
}

static bool st__shape(const st__head *h, st_tensor *t, bytes shape) {
    t->n_dims = st__list(shape, ST_DIMS, t->dim);
    if (t->n_dims < 0)
        return st__refuse(h, t->name, "shape %.*s, expected a list of at most %d whole numbers", GGUF_SHOW(shape), ST_DIMS);
    t->n_bytes = st__types[t->type].bytes;
    for (int i = 0; i < ST_DIMS; i++) {
        if (i >= t->n_dims) t->dim[i] = 1;
        if (__builtin_mul_overflow(t->n_bytes, t->dim[i], &t->n_bytes) || t->n_bytes > INT64_MAX)
            return st__refuse(h, t->name, "shape %.*s, expected a size below 2^63", GGUF_SHOW(shape));
    }
    return true;
}

/* One member of the header. */
static bool st__entry(const st__head *h, bytes value, st_tensor *t) {
    uint64_t    at[2] = {0, 0};
    const bytes dtype = bytes_member(value, "dtype"), offsets = bytes_member(value, "data_offsets");
    const int   type = dtype.n > 2 && dtype.p[0] == '"' ? st__type_of(dtype) : -1;
    if (type < 0) return st__refuse(h, t->name, "dtype %.*s, expected one that is known (F32, F16, BF16, ...)", GGUF_SHOW(dtype));
    t->type = (st_type)type;
    if (!st__shape(h, t, bytes_trim(bytes_member(value, "shape")))) return false;
    if (st__list(bytes_trim(offsets), 2, at) != 2 || at[0] > at[1] || at[1] > h->n_data)
        return st__refuse(h, t->name, "data_offsets %.*s, expected a range within %llu bytes of data", GGUF_SHOW(offsets),
                          GGUF_U(h->n_data));
    if (at[1] - at[0] != t->n_bytes)
        return st__refuse(h, t->name, "%llu bytes of data, expected %llu for its shape and dtype", GGUF_U(at[1] - at[0]),
                          GGUF_U(t->n_bytes));
    t->part = h->part;
    t->at = h->base + at[0];
    t->data = h->f->files.part[h->part].p + t->at;
    return true;
}

/* The text of a name, kept in f. False: it is no name. */
static bool st__name(const st__head *h, bytes key, bytes *out) {
    st_folder *f = h->f;
    str        s = {0};
    const bool ok = str_unquote(&s, key, true) && s.n && s.n <= ST_NAME_MAX && utf8_whole(str_bytes(&s)) && !memchr(s.p, 0, s.n);
    if (!ok) {
        str_drop(&s);
        return gguf_refuse(h->e, EXIT_INPUT, f->files.part[h->part].path, "a tensor named %.*s, expected 1 to %d bytes of text",
                           GGUF_SHOW(key), ST_NAME_MAX);
    }
    f->name = mem_reserve(f->name, f->n_names, ST_COUNT_MAX, sizeof *f->name);
    f->name[f->n_names++] = s;
    *out = str_bytes(&s);
    return true;
}

static int st__by_place(const void *a, const void *b) {
    const st_tensor *x = *(const st_tensor *const *)a, *y = *(const st_tensor *const *)b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* Whether the data of the tensors from `from` on fill the file, one after the other. */
static bool st__check_places(const st__head *h, size_t from) {
    const st_folder  *f = h->f;
    const size_t      n = f->n - from;
    const st_tensor **by = mem_new(n, sizeof *by);
    uint64_t          end = h->base;
    bool              ok = true;
    for (size_t i = 0; i < n; i++) by[i] = &f->tensor[from + i];
    qsort(by, n, sizeof *by, st__by_place);
    for (size_t i = 0; ok && i < n; end = by[i]->at + by[i]->n_bytes, i++) {
        if (by[i]->at < end)
            ok = st__refuse(h, by[i]->name, "its data begin at byte %llu, expected %llu: they overlap those of %.*s",
                            GGUF_U(by[i]->at), GGUF_U(end), GGUF_SHOW(by[i - (i > 0)]->name));
        else if (by[i]->at > end)
            ok = st__refuse(h, by[i]->name, "its data begin at byte %llu, expected %llu: there is a gap", GGUF_U(by[i]->at),
                            GGUF_U(end));
    }
    mem_free(by);
    if (ok && end != h->base + h->n_data)
        return gguf_refuse(h->e, EXIT_INPUT, f->files.part[h->part].path, "%llu bytes, expected %llu as its header says",
                           GGUF_U(h->base + h->n_data), GGUF_U(end));
    return ok;
}

/* Reads the header of a part, whose data begin at byte `base` and are n_data bytes, and adds its tensors to f. */
static bool st__header(st_folder *f, int part, bytes json, uint64_t base, uint64_t n_data, err_t *e) {
    const st__head h = {f, part, base, n_data, e};
    const size_t   from = f->n;
    const char    *path = f->files.part[part].path;
    bytes          rest = bytes_trim(json), key = {0}, value;
    if (!bytes_is_json(rest) || rest.p[0] != '{') return gguf_refuse(e, EXIT_INPUT, path, "the header is no JSON object");
    while (bytes_cut_member(&rest, &key, &value)) {
        st_tensor t = {0};
        if (bytes_is(key, "\"__metadata__\"")) continue;
        if (f->n == ST_COUNT_MAX) return gguf_refuse(e, EXIT_INPUT, path, "more than %d tensors", ST_COUNT_MAX);
        if (!st__name(&h, key, &t.name) || !st__entry(&h, value, &t)) return false;
        f->tensor = mem_reserve(f->tensor, f->n, ST_COUNT_MAX, sizeof *f->tensor);
        f->tensor[f->n++] = t;
    }
    return st__check_places(&h, from);
}

/* Whether no name comes twice, once all tensors are there. Builds the index. */
static bool st__index_names(st_folder *f, err_t *e) {
    const st_tensor *twice = gguf_index_build(&f->names, f->tensor, sizeof *f->tensor, f->n);
    return !twice || st_bad(f, twice, e, "comes twice, expected once");
}

/* --- files --- */

/* Frees and unmaps; a zeroed folder is closed. */
static void st_close(st_folder *f) {
    for (size_t i = 0; i < f->n_names; i++) str_drop(&f->name[i]);
    mem_free_all(f->name, f->tensor, f->names.slot);
    gguf_close(&f->files);
    *f = (st_folder){0};
}

/* Reads the header of the last part, which is mapped. */
static bool st__read(st_folder *f, err_t *e) {
    const int        part = f->files.n_parts - 1;
    const gguf_part *p = &f->files.part[part];
    uint64_t         n = 0;
    str              head = {0};
    const char      *kind = bytes_kind((bytes){p->p, min_size(p->n, 4096)});
    if (p->n >= 8) memcpy(&n, p->p, 8);
    if (p->n >= 8 && n > ST_HEAD_MAX && kind)
        return gguf_refuse(e, EXIT_INPUT, p->path, "is %s, expected a safetensors file", kind);
    if (p->n < 8 || n > p->n - 8 || n > ST_HEAD_MAX)
        return gguf_refuse(e, EXIT_INPUT, p->path, "a header of %llu bytes in a file of %zu, expected one of at most %llu",
                           GGUF_U(n),
                           p->n, GGUF_U(min_u64(p->n < 8 ? 0 : p->n - 8, ST_HEAD_MAX)));
    str_add(&head, p->p + 8, (size_t)n);              /* a copy: others may write to the file */
    const bool ok = st__header(f, part, str_bytes(&head), 8 + n, p->n - 8 - n, e);
    str_drop(&head);
    return ok;
}

static int st__by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names of files. */
typedef struct {
    char  **at;                      /* [n] in order                                                       */
    size_t  n;
} st_names;

/* Frees the names. */
static void st_names_drop(st_names *names) {
    for (size_t i = 0; i < names->n; i++) mem_free(names->at[i]);
    mem_free(names->at);
    *names = (st_names){0};
}

/* Reads a JSON object of the folder. 1; 0: there is no such file; -1: e is set. */
static int st_read_json(const char *dir, const char *name, str *out, err_t *e) {
    str         path = {0};
    struct stat its;
    int         got = -1;
    str_clear(out);
    str_fmt(&path, "%s/%s", dir, name);
    if (stat(path.p, &its) && errno == ENOENT) got = 0;
    else if (str_read_file(out, path.p, O_NONBLOCK | O_NOCTTY, ST_JSON_MAX, "a smaller file", e)) {
        const bytes b = bytes_trim(str_bytes(out));
        if (bytes_is_json(b) && (b.p[0] == '{' || b.p[0] == '[')) got = 1;
        else gguf_refuse(e, EXIT_INPUT, path.p, "is not JSON, expected a JSON object");
    }
    str_drop(&path);
    return got;
}

/* The name of a file in the index: without folders. */
static bool st__file_name(bytes value, str *out, const char *index, err_t *e) {
    str_clear(out);
    const bool text = str_unquote(out, value, true);
    const bool ok = text && out->n > 12 && bytes_ends(str_bytes(out), bytes_of(".safetensors")) && !memchr(out->p, '/', out->n) &&
                    !memchr(out->p, 0, out->n) && out->p[0] != '.';
    return ok || gguf_refuse(e, EXIT_INPUT, index, "names the file %.*s, expected one of its folder, NAME.safetensors",
                             GGUF_SHOW(value));
}

/* The files that weight_map of an index names, in order. On failure e is set. */
static bool st_shards_of_index(bytes map, const char *index, st_names *out, err_t *e) {
    bytes key = {0}, value;
    str   name = {0};
    bool  ok = true;
    while (ok && bytes_cut_member(&map, &key, &value)) {
        ok = st__file_name(bytes_trim(value), &name, index, e);
        if (!ok || (out->n && !strcmp(out->at[out->n - 1], name.p))) continue;      /* most neighbours are in one file */
        if (out->n == ST_COUNT_MAX) ok = gguf_refuse(e, EXIT_INPUT, index, "more than %d tensors", ST_COUNT_MAX);
        else MEM_PUSH(out->at, out->n, str_dup(name.p));
    }
    str_drop(&name);
    if (out->n) qsort(out->at, out->n, sizeof *out->at, st__by_name);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (n && !strcmp(out->at[n - 1], out->at[i])) mem_free(out->at[i]);
        else out->at[n++] = out->at[i];
    out->n = n;
    if (ok && !n) return gguf_refuse(e, EXIT_INPUT, index, "names no file, expected weight_map with the file of each tensor");
    if (ok && n > GGUF_PARTS_MAX) return gguf_refuse(e, EXIT_INPUT, index, "%zu files, expected at most %d", n, GGUF_PARTS_MAX);
    return ok;
}

/* Whether the index lists the tensors that are there, and each in its file. */
static bool st__check_index(const st_folder *f, bytes map, const char *index, err_t *e) {
    bytes  key = {0}, value;
    size_t n = 0;
    str    name = {0}, file = {0};
    while (!e->code && bytes_cut_member(&map, &key, &value)) {
        str_clear(&name);
        str_clear(&file);
        if (!str_unquote(&name, key, true) || !str_unquote(&file, bytes_trim(value), true)) break;
        const st_tensor *t = st_find(f, str_bytes(&name));
        if (!t) gguf_refuse(e, EXIT_INPUT, index, "tensor %.*s is missing in %s", GGUF_SHOW(str_bytes(&name)), file.p);
        else if (strcmp(str_base_name(f->files.part[t->part].path), file.p))
            gguf_refuse(e, EXIT_INPUT, index, "tensor %.*s is said to be in %s, found in %s", GGUF_SHOW(t->name), file.p,
                        str_base_name(f->files.part[t->part].path));
        n++;
    }
    str_drop_all(&name, &file);
    if (!e->code && n != f->n)
        gguf_refuse(e, EXIT_INPUT, index, "%zu tensors, expected %zu as the files hold", n, f->n);
    return !e->code;
}

/* A file NAME-00001-of-00003 without an index comes with all others. */
static bool st__all_shards(const char *dir, const st_names *names, err_t *e) {
    const size_t tail = strlen("-00001-of-00003.safetensors");
    for (size_t i = 0; i < names->n; i++) {
        const size_t n = strlen(names->at[i]);
        unsigned     no = 0, of = 0;
        if (n <= tail || sscanf(names->at[i] + n - tail, "-%5u-of-%5u.safetensors", &no, &of) != 2) continue;
        if (names->n != of || no != i + 1)
            return err_set(e, EXIT_INPUT, "%s: %zu files of %u, expected %.*s-%05zu-of-%05u.safetensors too", dir, names->n, of,
                           (int)(n - tail), names->at[i], no != i + 1 ? i + 1 : names->n + 1, of);
    }
    return true;
}

/* Of the safetensors files of a folder without an index, those with its weights, in order: those whose names begin with model,
 * else the only one. dir: its name in errors. On failure e is set. */
static bool st_shards_of(const char *dir, st_names *names, err_t *e) {
    size_t n = 0, all = names->n;
    if (all) qsort(names->at, all, sizeof *names->at, st__by_name);
    for (size_t i = 0; i < all; i++) n += bytes_begins(bytes_of(names->at[i]), bytes_of("model"));
    for (size_t i = names->n = 0; n && i < all; i++)
        if (bytes_begins(bytes_of(names->at[i]), bytes_of("model"))) names->at[names->n++] = names->at[i];
        else mem_free(names->at[i]);
    if (n) return st__all_shards(dir, names, e);
    names->n = all;
    if (all == 1) return true;
    if (all) return err_set(e, EXIT_INPUT, "%s: %zu safetensors files, expected model.safetensors or an index", dir, all);
    return err_set(e, EXIT_INPUT, "%s: no *.safetensors, expected the folder of a checkpoint", dir);
}

static bool st__plain_files(const char *dir, st_names *names, err_t *e) {
    DIR *d = opendir(dir);
    if (!d) return err_set(e, err_code_of(errno), "%s: %s", dir, strerror(errno));
    for (const struct dirent *at; (at = readdir(d));)
        if (bytes_ends(bytes_of(at->d_name), bytes_of(".safetensors"))) MEM_PUSH(names->at, names->n, str_dup(at->d_name));
    closedir(d);
    return st_shards_of(dir, names, e);
}

static const char st__index_name[] = "model.safetensors.index.json";

/* The files with the weights of a folder, in order, and where it has one the text of its index. On failure e is set. */
static bool st_shards(const char *dir, str *index, st_names *out, err_t *e) {
    str        path = {0};
    const int  indexed = st_read_json(dir, st__index_name, index, e);
    str_fmt(&path, "%s/%s", dir, st__index_name);
    const bool ok = indexed == 1 ? st_shards_of_index(bytes_member(str_bytes(index), "weight_map"), path.p, out, e)
                                 : indexed == 0 && st__plain_files(dir, out, e);
    str_drop(&path);
    return ok;
}

/* Opens the folder. On failure e is set and nothing stays open. */
static bool st_open(st_folder *f, const char *dir, err_t *e) {
    str      text = {0}, path = {0};
    st_names names = {0};
    *f = (st_folder){0};
    bool ok = st_shards(dir, &text, &names, e);
    for (size_t i = 0; ok && i < names.n; i++) {
        str_clear(&path);
        str_fmt(&path, "%s/%s", dir, names.at[i]);
        ok = gguf_map_part(&f->files, path.p, "a safetensors file", e) && st__read(f, e);
    }
    str_clear(&path);
    str_fmt(&path, "%s/%s", dir, st__index_name);
    ok = ok && st__index_names(f, e) && (!text.n || st__check_index(f, bytes_member(str_bytes(&text), "weight_map"), path.p, e));
    st_names_drop(&names);
    str_drop_all(&text, &path);
    if (!ok) st_close(f);
    return ok;
}
