/* ===== [hub] models by name: names and lists of a hub, its cache on this disk, a folder of models =====
 * A hub has repositories OWNER/NAME with files. OWNER/NAME:QUANT or OWNER/NAME:FILE is one model of them: a GGUF file, or the
 * first part of a split one. OWNER/NAME:safetensors is the checkpoint that the repository is: config.json, a tokenizer, and the
 * *.safetensors that the index names; OWNER/NAME alone means it where no file is GGUF. In lists its config.json stands for all of
 * it, on disk its folder. The cache has the layout of Hugging Face's own tools, which read what is written here and the other
 * way round:
 *     ROOT/models--OWNER--NAME/refs/main                  the commit of the branch, 40 digits
 *     ROOT/models--OWNER--NAME/snapshots/COMMIT/PATH      a relative link into
 *     ROOT/models--OWNER--NAME/blobs/SHA256               the bytes, of files that git has itself by its SHA-1;
 *                                                         SHA256.incomplete: the beginning of them
 * This section knows no network and writes no blobs ([fetch] does): it reads names, lists and folders.
 * Invariants: no path of a list or of a folder leaves its folder or holds a control character (hub__path_ok); a model has all of
 * its parts, a checkpoint all of its weights and a tokenizer; sizes have 64 bits.
 * Public: hub_parse, hub_name_drop, hub_spell, hub_list_add, hub_list_seal, hub_list_drop, hub_of_path, hub_choose, hub_parts,
 * hub_part, hub_is_checkpoint, hub_goes_beside, hub_shards, hub_cache, hub_repo_folder, hub_is_commit, hub_find, hub_name_of,
 * hub_models, hub_models_drop, hub_by_name, hub_remove.
 * Opens: hub_name, hub_file, hub_list, hub_model, hub_set. */

enum {
    HUB_ID_MOST = 96,                                 /* bytes of OWNER/NAME */
    HUB_PATH_MOST = 1024,                             /* bytes of a path in a repository */
    HUB_FILES_MOST = 1 << 17,                         /* files of a repository or of a folder */
    HUB_COMMIT = 40,                                  /* digits of a commit */
    HUB_DEEP = 8,                                     /* folders inside each other that are looked through */
};

/* What OWNER/NAME alone stands for: the first of these that exists. */
static const char *const hub_usual[] = {"Q4_K_M", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "F16"};
enum { HUB_USUAL = sizeof hub_usual / sizeof *hub_usual };

/* What stands for a checkpoint in place of a quant. */
static const char hub_safetensors[] = "safetensors";

/* --- names --- */

typedef struct {
    str repo;                                         /* OWNER/NAME */
    str pick;                                         /* the quant or the file; empty: the first of hub_usual, or a checkpoint */
} hub_name;

/* Frees what hub_parse() made. */
static void hub_name_drop(hub_name *h) { str_drop_all(&h->repo, &h->pick); }

static bool hub__is_part_of_id(bytes b) {
    for (size_t i = 0; i < b.n; i++)
        if (!isalnum(b.p[i]) && !memchr("._-", b.p[i], 3)) return false;
    return b.n && !memchr("-.", b.p[0], 2) && !memchr("-.", b.p[b.n - 1], 2);
}

/* Whether it is OWNER/NAME, as hubs allow it. "--" and ".." are in no name, so that folders of the cache have one meaning. */
static bool hub__is_id(bytes id) {
    const uint8_t *slash = id.n ? memchr(id.p, '/', id.n) : NULL;
    const size_t   at = slash ? (size_t)(slash - id.p) : 0;
    return slash && id.n <= HUB_ID_MOST && hub__is_part_of_id(bytes_slice(id, 0, at)) &&
           hub__is_part_of_id(bytes_slice(id, at + 1, id.n)) && bytes_find(id, 0, bytes_of("--")) == SIZE_MAX &&
           bytes_find(id, 0, bytes_of("..")) == SIZE_MAX;
}

/* Whether a path of a repository can be used: UTF-8 without control characters and what else acts on a terminal, relative, and no
 * part of it is empty, "." or "..". */
static bool hub__path_ok(bytes path) {
    char seen[4 * HUB_PATH_MOST];
    if (!path.n || path.n > HUB_PATH_MOST || utf8_visible(path.p, path.n, true, seen, sizeof seen) != path.n) return false;
    for (size_t from = 0, to; from <= path.n; from = to + 1) {
        for (to = from; to < path.n && path.p[to] != '/';) to++;
        const bytes part = bytes_slice(path, from, to);
        if (!part.n || bytes_is(part, ".") || bytes_is(part, "..")) return false;
    }
    return true;
}

/* Reads OWNER/NAME[:QUANT-OR-FILE], also behind hf:, hf.co/ or the address of the public hub. file: names the file apart, NULL:
 * not. False: e is set. */
static bool hub_parse(const char *text, const char *file, hub_name *out, err_t *e) {
    static const char *const before[] = {"hf://", "hf:", "https://", "huggingface.co/", "hf.co/"};
    bytes                    b = bytes_of(text);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (bytes_begins(b, bytes_of(before[i]))) b = bytes_slice(b, strlen(before[i]), b.n);
    const uint8_t *colon = b.n ? memchr(b.p, ':', b.n) : NULL;
    const size_t   at = colon ? (size_t)(colon - b.p) : b.n;
    const bytes    id = bytes_slice(b, 0, at), pick = colon ? bytes_slice(b, at + 1, b.n) : (bytes){0};
    *out = (hub_name){{0}, {0}};
    if (!hub__is_id(id) || (colon && !hub__path_ok(pick)))
        return err_set(e, EXIT_INPUT, "%.200s: no name of a hub, expected OWNER/NAME or OWNER/NAME:QUANT, as in "
                       "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", text);
    if (file && colon) return err_set(e, EXIT_INPUT, "%.200s: found --hf-file too, expected one of them", text);
    if (file && !hub__path_ok(bytes_of(file)))
        return err_set(e, EXIT_INPUT, "--hf-file: %.200s is no path in a repository, expected one such as m-Q4_K_M.gguf", file);
    str_cat(&out->repo, id);
    str_cat(&out->pick, file ? bytes_of(file) : pick);
    return true;
}

/* Appends the name as a person writes it. */
static void hub_spell(const hub_name *h, str *out) {
    str_cat(out, str_bytes(&h->repo));
    if (h->pick.n) str_fmt(out, ":%s", h->pick.p);
}

/* --- what paths say: parts, quants --- */

enum { HUB_TAIL = 20 };                               /* bytes of -00001-of-00002.gguf */

/* The number of decimal digits at p; -1: others are there. */
static int hub__digits(const uint8_t *p, int n) {
    int v = 0;
    for (int i = 0; i < n; i++) {
        if (!isdigit(p[i])) return -1;
        v = 10 * v + (p[i] - '0');
    }
    return v;
}

/* Which part of a split file it is by its name, from 1; 0: none. *n: of how many. */
static int hub__part_no(bytes path, int *n) {
    const uint8_t *t = path.n > HUB_TAIL ? path.p + path.n - HUB_TAIL : NULL;
    *n = 1;
    if (!t || t[0] != '-' || memcmp(t + 6, "-of-", 4) != 0 || memcmp(t + 15, ".gguf", 5) != 0) return 0;
    const int no = hub__digits(t + 1, 5), of = hub__digits(t + 10, 5);
    if (no < 1 || of < no) return 0;
    *n = of;
    return no;
}

/* The path without its extension and the number of its part. */
static bytes hub__stem(bytes path) {
    int       n;
    const int no = hub__part_no(path, &n);
    if (no) return bytes_slice(path, 0, path.n - HUB_TAIL);
    return bytes_ends(path, bytes_of(".gguf")) ? bytes_slice(path, 0, path.n - 5) : path;
}

static bytes hub__base(bytes path) {
    const uint8_t *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
    return slash ? bytes_slice(path, (size_t)(slash - path.p) + 1, path.n) : path;
}

/* The first place from `at` on where `what` begins in either case; SIZE_MAX: there is none. */
static size_t hub__where(bytes b, size_t at, bytes what) {
    for (; what.n && at + what.n <= b.n; at++)
        if (strncasecmp((const char *)b.p + at, (const char *)what.p, what.n) == 0) return at;
    return SIZE_MAX;
}

/* Whether a file can be a model: GGUF, and neither a later part, nor a projector of images (mmproj), nor an importance matrix. */
static bool hub__is_model(bytes path) {
    int         n;
    const bytes base = hub__base(path), stem = hub__stem(base), im = bytes_of("imatrix");
    return bytes_ends(path, bytes_of(".gguf")) && stem.n && hub__part_no(path, &n) <= 1 &&
           hub__where(base, 0, bytes_of("mmproj")) == SIZE_MAX && hub__where(base, 0, im) != 0 &&
           (stem.n < im.n || hub__where(stem, stem.n - im.n, im) == SIZE_MAX);
}

/* Whether the path has this quant as a word: Q4_K is no word of model-Q4_K_M.gguf. */
static bool hub__has_quant(bytes path, bytes quant) {
    const bytes stem = hub__stem(path);
    for (size_t at = 0; (at = hub__where(stem, at, quant)) != SIZE_MAX; at++) {
        const size_t end = at + quant.n;
        if ((!at || memchr("-._/", stem.p[at - 1], 4)) && (end == stem.n || memchr("-./", stem.p[end], 3))) return true;
    }
    return false;
}

/* The last word of the path that is called as a quant, with UD- before it; empty: none is. */
static bytes hub__quant_of(bytes path) {
    static const char *const begins[] = {"Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q8", "IQ1", "IQ2", "IQ3", "IQ4", "TQ1", "TQ2",
                                         "F16", "F32", "BF16", "FP16", "FP32", "MXFP4", "NVFP4"};
    const bytes stem = hub__stem(path);
    bytes       found = {0};
    for (size_t from = 0, to; from < stem.n; from = to + 1) {
        for (to = from; to < stem.n && !memchr("-./", stem.p[to], 3);) to++;
        const bytes word = bytes_slice(stem, from, to);
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
            const bytes b = bytes_of(begins[i]);
            if (word.n < b.n || hub__where(bytes_slice(word, 0, b.n), 0, b) != 0) continue;
            if (word.n > b.n && word.p[b.n] != '_') continue;
            const size_t ud = from >= 3 && hub__where(bytes_slice(stem, from - 3, from), 0, bytes_of("UD-")) == 0 ? 3 : 0;
            found = bytes_slice(stem, from - ud, to);
        }
    }
    return found;
}

/* --- lists of files --- */

typedef struct {
    char    *path;                                    /* in the repository or the folder, as hub__path_ok() has it */
    uint64_t bytes;
    char     sha[SHA_HEX + 1];                        /* SHA-256 in lower case, or git's SHA-1, 40 digits; "": it has none */
} hub_file;

typedef struct {
    hub_file *file;                                   /* [n], in order of their paths after hub_list_seal() */
    size_t    n;
} hub_list;

/* Frees a list; a zeroed one is empty. */
static void hub_list_drop(hub_list *l) {
    for (size_t i = 0; i < l->n; i++) mem_free(l->file[i].path);
    mem_free(l->file);
    *l = (hub_list){0};
}

static bool hub__push(hub_list *l, bytes path, uint64_t n_bytes, const char *sum) {
    str copy = {0};
    if (l->n == HUB_FILES_MOST) return false;
    str_cat(&copy, path);
    MEM_PUSH(l->file, l->n, (hub_file){.path = copy.p, .bytes = n_bytes});
    snprintf(l->file[l->n - 1].sha, sizeof l->file->sha, "%s", sum);
    return true;
}

/* A size in JSON: digits below 2^63. */
static bool hub__size(bytes json, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < json.n; i++)
        if (!isdigit(json.p[i]) || __builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, json.p[i] - '0', out))
            return false;
    return json.n && *out <= INT64_MAX;
}

static bool hub__is_hex(bytes b, size_t n) {
    for (size_t i = 0; i < b.n; i++)
        if (!isdigit(b.p[i]) && (b.p[i] < 'a' || b.p[i] > 'f')) return false;
    return b.n == n;
}

/* Whether it is a commit: 40 hexadecimal digits in lower case. */
static bool hub_is_commit(bytes b) { return hub__is_hex(b, HUB_COMMIT); }

/* One entry of a list: a file is added, anything else is not. */
static bool hub__entry(hub_list *l, bytes entry, const char *label, err_t *e) {
    str         path = {0}, sum = {0};
    uint64_t    size = 0;
    const bytes type = bytes_trim(bytes_member(entry, "type")), lfs = bytes_trim(bytes_member(entry, "lfs"));
    const bytes at = bytes_trim(bytes_member(entry, "path"));
    const bool  large = lfs.n && lfs.p[0] == '{';
    if (!entry.n || entry.p[0] != '{') return err_set(e, EXIT_INPUT, "%s: an entry of the list is no object", label);
    if (!bytes_is(type, "\"file\"")) return true;
    const bytes n = bytes_trim(bytes_member(large ? lfs : entry, "size"));
    const bool  summed = str_unquote(&sum, bytes_trim(bytes_member(large ? lfs : entry, "oid")), true) &&
                         hub__is_hex(str_bytes(&sum), large ? SHA_HEX : SHA_1_HEX);
    if (!str_unquote(&path, at, true) || !hub__path_ok(str_bytes(&path)))
        err_set(e, EXIT_INPUT, "%s: the list of the hub names a file %.*s, expected a path inside the repository", label,
                (int)min_size(at.n, 120), (const char *)at.p);
    else if (!hub__size(n, &size))
        err_set(e, EXIT_INPUT, "%s: the list of the hub has no size of %.200s, expected a number of bytes", label, path.p);
    else if (large && !summed)
        err_set(e, EXIT_INPUT, "%s: the list of the hub has no SHA-256 of %.200s, expected 64 hexadecimal digits", label, path.p);
    else if (!hub__push(l, str_bytes(&path), size, summed ? sum.p : ""))
        err_set(e, EXIT_INPUT, "%s: more than %d files, expected fewer", label, HUB_FILES_MOST);
    str_drop_all(&path, &sum);
    return !e->code;
}

/* Adds the files of a page of a hub's list: JSON [{"type":"file","path":...,"size":...,"oid":...,"lfs":{"oid":...,...}}, ...].
 * Errors begin with `label`. False: e is set. */
static bool hub_list_add(hub_list *l, bytes json, const char *label, err_t *e) {
    bytes rest = bytes_trim(json), entry;
    if (!rest.n || rest.p[0] != '[' || !bytes_is_json(rest))
        return err_set(e, EXIT_INPUT, "%s: the answer of the hub is no list of files, expected JSON", label);
    while (!e->code && bytes_cut_item(&rest, &entry)) hub__entry(l, entry, label, e);
    return !e->code;
}

static int hub__by_path(const void *a, const void *b) { return strcmp(((const hub_file *)a)->path, ((const hub_file *)b)->path); }

/* Ends a list: hub_choose() and hub_part() search it. False: a path comes twice, and e is set. */
static bool hub_list_seal(hub_list *l, const char *label, err_t *e) {
    if (l->n) qsort(l->file, l->n, sizeof *l->file, hub__by_path);
    for (size_t i = 1; i < l->n; i++)
        if (strcmp(l->file[i - 1].path, l->file[i].path) == 0)
            return err_set(e, EXIT_INPUT, "%s: the list has %.200s twice, expected once", label, l->file[i].path);
    return true;
}

/* The file of a sealed list with this path; NULL: there is none. */
static const hub_file *hub_of_path(const hub_list *l, const char *path) {
    const hub_file key = {.path = (char *)(uintptr_t)path};
    return l->n ? bsearch(&key, l->file, l->n, sizeof *l->file, hub__by_path) : NULL;
}

/* Number of files that make up the model whose first one this is. */
static int hub_parts(const hub_file *first) {
    int       n;
    const int no = hub__part_no(bytes_of(first->path), &n);
    return no == 1 ? n : 1;
}

/* File number `no` (from 0) of the model; NULL: the list lacks it. */
static const hub_file *hub_part(const hub_list *l, const hub_file *first, int no) {
    str path = {0};
    if (!no) return first;
    const hub_file *f = gguf_other_part(first->path, (uint64_t)no, &path) ? hub_of_path(l, path.p) : NULL;
    str_drop(&path);
    return f;
}

/* Bytes of all parts; false: the list lacks one. */
static bool hub__whole(const hub_list *l, const hub_file *first, uint64_t *n_bytes) {
    *n_bytes = 0;
    for (int i = 0, n = hub_parts(first); i < n; i++) {
        const hub_file *f = hub_part(l, first, i);
        if (!f || __builtin_add_overflow(*n_bytes, f->bytes, n_bytes)) return false;
    }
    return true;
}

/* --- checkpoints --- */

/* Whether the file stands for a checkpoint: its config.json. */
static bool hub_is_checkpoint(const hub_file *f) { return strcmp(str_base_name(f->path), "config.json") == 0; }

/* Whether it is one of the files beside the weights of a checkpoint that [import] and [vocab] read; path: in its folder. */
static bool hub_goes_beside(const char *path) {
    const char *slash = strchr(path, '/');
    for (int i = 0; i < ST_TOKENIZERS; i++)
        if (strcmp(path, st_tokenizer[i]) == 0) return true;
    if (slash) return bytes_ends((bytes){(const uint8_t *)path, (size_t)(slash - path)}, bytes_of("_Pooling")) &&
                      strcmp(slash, "/config.json") == 0;
    return bytes_among(bytes_of(path), "config.json generation_config.json tokenizer_config.json added_tokens.json "
                       "chat_template.jinja modules.json README.md model.safetensors.index.json");
}

/* Whether it is such a file or has weights. */
static bool hub__of_checkpoint(const char *path) {
    return hub_goes_beside(path) || (!strchr(path, '/') && bytes_ends(bytes_of(path), bytes_of(".safetensors")));
}

/* The config.json of the checkpoint that a sealed list has, by the names of its files; NULL: it has none. */
static const hub_file *hub__checkpoint(const hub_list *l) {
    const hub_file *config = hub_of_path(l, "config.json");
    bool            tokens = false;
    for (int i = 0; i < ST_TOKENIZERS; i++) tokens = tokens || hub_of_path(l, st_tokenizer[i]);
    for (size_t i = 0; config && tokens && i < l->n; i++)
        if (!strchr(l->file[i].path, '/') && bytes_ends(bytes_of(l->file[i].path), bytes_of(".safetensors"))) return config;
    return NULL;
}

/* The files with the weights of a list's checkpoint, in order. folder: where its index lies if the list has one. False: the list
 * lacks one of them, and e is set. */
static bool hub_shards(const hub_list *l, const char *repo, const char *folder, st_names *out, err_t *e) {
    static const char index[] = "model.safetensors.index.json";
    str               text = {0};
    const bool        indexed = hub_of_path(l, index) != NULL;
    if (indexed && st_read_json(folder, index, &text, e) == 1)
        st_shards_of_index(bytes_member(str_bytes(&text), "weight_map"), index, out, e);
    else if (indexed && !e->code) err_set(e, EXIT_INPUT, "%s: no %s in %s", repo, index, folder);
    for (size_t i = 0; i < l->n && !indexed; i++)
        if (!strchr(l->file[i].path, '/') && bytes_ends(bytes_of(l->file[i].path), bytes_of(".safetensors")))
            MEM_PUSH(out->at, out->n, str_dup(l->file[i].path));
    if (!indexed) st_shards_of(repo, out, e);
    for (size_t i = 0; i < out->n && !e->code; i++)
        if (!hub_of_path(l, out->at[i]))
            err_set(e, EXIT_INPUT, "%s: its index names %.200s, which its list lacks", repo, out->at[i]);
    str_drop(&text);
    return !e->code;
}

/* Adds the bytes of a file of a folder. False: it is not there. */
static bool hub__add_bytes(const char *dir, const char *name, uint64_t *n_bytes) {
    str         path = {0};
    struct stat its;
    str_fmt(&path, "%s/%s", dir, name);
    const bool ok = stat(path.p, &its) == 0 && S_ISREG(its.st_mode);
    if (ok) *n_bytes += (uint64_t)its.st_size;
    str_drop(&path);
    return ok;
}

/* Whether a folder on this disk has all of a checkpoint; *n_bytes: of its weights and its tokenizer. Other tools may have left a
 * part of one. */
static bool hub__is_whole(const char *dir, uint64_t *n_bytes) {
    st_names names = {0};
    err_t    none = {0};
    str      text = {0};
    bool     ok = false, weights = st_shards(dir, &text, &names, &none);
    *n_bytes = 0;
    for (int i = 0; i < ST_TOKENIZERS && !ok; i++) ok = hub__add_bytes(dir, st_tokenizer[i], n_bytes);
    for (size_t i = 0; ok && weights && i < names.n; i++) ok = hub__add_bytes(dir, names.at[i], n_bytes);
    st_names_drop(&names);
    str_drop(&text);
    return ok && weights;
}

/* --- which file of a list a name stands for --- */

/* The model with this quant; of several the one with the shortest path, which has no other words. NULL: there is none. */
static const hub_file *hub__of_quant(const hub_list *l, bytes quant) {
    const hub_file *best = NULL;
    for (size_t i = 0; i < l->n; i++) {
        const bytes path = bytes_of(l->file[i].path);
        if (!hub__is_model(path) || !hub__has_quant(path, quant)) continue;
        if (!best || path.n < strlen(best->path)) best = &l->file[i];
    }
    return best;
}

/* The file with this path, or the only one with this last part of a path; *n: how many have that. */
static const hub_file *hub__of_name(const hub_list *l, bytes name, int *n) {
    const hub_file *found = NULL;
    *n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const bytes path = bytes_of(l->file[i].path);
        if (bytes_eq(path, name)) return *n = 1, &l->file[i];
        if (bytes_eq(hub__base(path), name)) found = &l->file[i], ++*n;
    }
    return *n == 1 ? found : NULL;
}

/* What a person writes behind the colon for this model of the list: its quant, or its path. */
static bytes hub__pick_of(const hub_list *l, const hub_file *f) {
    const bytes path = bytes_of(f->path), quant = hub__quant_of(path);
    if (hub_is_checkpoint(f)) return bytes_of(hub_safetensors);
    return quant.n && hub__of_quant(l, quant) == f ? quant : path;
}

/* Whether a list has a GGUF file that can be a model. */
static bool hub__any_model(const hub_list *l) {
    for (size_t i = 0; i < l->n; i++)
        if (hub__is_model(bytes_of(l->file[i].path))) return true;
    return false;
}

/* The models of a list, for an error. */
static void hub__say_models(const hub_list *l, str *out) {
    enum { MOST = 300, NAMED = 64 };                  /* bytes; models that are looked at: each costs a look at the whole list */
    size_t left = 0, n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (!hub__is_model(bytes_of(l->file[i].path))) continue;
        if (n++ >= NAMED) {
            left++;
            continue;
        }
        const bytes pick = hub__pick_of(l, &l->file[i]);
        if (out->n + pick.n > MOST) left++;
        else str_fmt(out, "%s%.*s", out->n ? ", " : "", (int)pick.n, (const char *)pick.p);
    }
    if (left) str_fmt(out, "%s%zu %s", out->n ? " and " : "", left, out->n ? "more" : "files with long names");
}

static const hub_file *hub__none(const hub_list *l, const hub_name *h, err_t *e) {
    str         all = {0};
    const char *also = hub__checkpoint(l) ? " or safetensors" : "";
    hub__say_models(l, &all);
    if (!all.n && hub__checkpoint(l))
        err_set(e, EXIT_INPUT, "%s: no GGUF file, expected %s alone, which runs its safetensors (--quantize makes a GGUF file of "
                "them)", h->repo.p, h->repo.p);
    else if (!all.n)
        err_set(e, EXIT_INPUT, "%s: neither a GGUF file nor config.json, a tokenizer and safetensors among its %zu files, "
                "expected a repository with one of them, such as OWNER/NAME-GGUF", h->repo.p, l->n);
    else if (h->pick.n)
        err_set(e, EXIT_INPUT, "%s: no model %.120s, expected one of %s%s", h->repo.p, h->pick.p, all.p, also);
    else
        err_set(e, EXIT_INPUT, "%s: none of its models is Q4_K_M, Q4_0, Q5_K_M, Q6_K, Q8_0 or F16, expected :NAME after it, one "
                "of %s%s", h->repo.p, all.p, also);
    str_drop(&all);
    return NULL;
}

/* The file of a sealed list that a name stands for, all of whose parts are there; of a checkpoint its config.json. NULL: e is
 * set. */
static const hub_file *hub_choose(const hub_list *l, const hub_name *h, err_t *e) {
    const bytes     pick = str_bytes(&h->pick);
    const hub_file *f = NULL;
    uint64_t        n_bytes;
    int             n;
    for (int i = 0; !pick.n && !f && i < HUB_USUAL; i++) f = hub__of_quant(l, bytes_of(hub_usual[i]));
    if (bytes_is(pick, hub_safetensors) || (!pick.n && !f && !hub__any_model(l))) {
        f = hub__checkpoint(l);
        return f ? f : hub__none(l, h, e);
    }
    if (bytes_ends(pick, bytes_of(".gguf"))) {
        f = hub__of_name(l, pick, &n);
        if (n > 1)
            return err_set(e, EXIT_INPUT, "%s: %d files are called %s, expected its path in the repository", h->repo.p, n,
                           h->pick.p), NULL;
        if (f && hub__part_no(bytes_of(f->path), &n) > 1)
            return err_set(e, EXIT_INPUT, "%s: %s is a later part of a split file, expected the first one", h->repo.p,
                           f->path), NULL;
    } else if (pick.n) f = hub__of_quant(l, pick);
    if (!f) return hub__none(l, h, e);
    if (hub__whole(l, f, &n_bytes)) return f;
    return err_set(e, EXIT_INPUT, "%s: %s is the first of %d parts, and the list lacks one of them", h->repo.p, f->path,
                   hub_parts(f)), NULL;
}

/* --- folders --- */

/* The value of a variable that is set and not empty, else NULL. */
static const char *hub__env(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* Appends a path; ~ at its beginning is the home folder. */
static void hub__put_path(str *out, const char *path) {
    const char *home = hub__env("HOME");
    if (path[0] == '~' && (path[1] == '/' || !path[1]) && home) str_put(out, home), path++;
    str_put(out, path);
}

/* Appends the folder of Hugging Face's tools, in which the token lies. False: nothing says where that is. */
static bool hub__home(str *out) {
    const char *own = hub__env("HF_HOME"), *cache = hub__env("XDG_CACHE_HOME"), *home = hub__env("HOME");
    if (own) hub__put_path(out, own);
    else if (cache) hub__put_path(out, cache), str_put(out, "/huggingface");
    else if (home) str_fmt(out, "%s/.cache/huggingface", home);
    return own || cache || home;
}

/* Appends the folder of the cache, or with `token` the file with the token, as Hugging Face's tools find them. False: e is
 * set. */
static bool hub_cache(bool token, str *out, err_t *e) {
    static const char *const names[2][2] = {{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}, {"HF_TOKEN_PATH", "HF_TOKEN_PATH"}};
    for (int i = 0; i < 2; i++) {
        const char *v = hub__env(names[token][i]);
        if (v) return hub__put_path(out, v), true;
    }
    if (!hub__home(out)) return err_set(e, EXIT_INPUT, "no folder for models: HOME is not set, expected it or HF_HOME");
    str_put(out, token ? "/token" : "/hub");
    return true;
}

/* Appends the folder of a repository in the cache `root`. */
static void hub_repo_folder(const char *root, const char *repo, str *out) {
    const int owner = (int)strcspn(repo, "/");
    str_fmt(out, "%s/models--%.*s--%s", root, owner, repo, repo + owner + 1);
}

/* Adds the GGUF files and those of checkpoints of a folder and of those in it, whose paths begin with `under`. Links to files are
 * followed, links to folders are not. What cannot be read is left out. */
static void hub__walk(const char *folder, const char *under, int deep, hub_list *l) {
    str            at = {0}, path = {0};
    DIR           *d = deep <= HUB_DEEP ? opendir(folder) : NULL;
    struct dirent *en;
    struct stat    st;
    while (d && (en = readdir(d)) != NULL && l->n < HUB_FILES_MOST) {
        if (!hub__path_ok(bytes_of(en->d_name))) continue;
        str_clear(&at), str_clear(&path);
        str_fmt(&at, "%s/%s", folder, en->d_name);
        str_fmt(&path, "%s%s%s", under, *under ? "/" : "", en->d_name);
        if (lstat(at.p, &st) || path.n > HUB_PATH_MOST) continue;
        if (S_ISDIR(st.st_mode)) hub__walk(at.p, path.p, deep + 1, l);
        else if ((bytes_ends(str_bytes(&path), bytes_of(".gguf")) || hub__of_checkpoint(path.p) ||
                  hub__of_checkpoint(en->d_name)) && !stat(at.p, &st) && S_ISREG(st.st_mode))
            hub__push(l, str_bytes(&path), (uint64_t)st.st_size, "");
    }
    if (d) closedir(d);
    str_drop_all(&at, &path);
}

/* The files of models of a folder, sealed. */
static hub_list hub__files(const char *folder) {
    hub_list l = {0};
    err_t    none = {0};
    hub__walk(folder, "", 0, &l);
    hub_list_seal(&l, folder, &none);                 /* a folder has no name twice */
    return l;
}

typedef struct {
    char   *path;                                     /* of its folder */
    bool    main;                                     /* it is that of refs/main */
    int64_t time;                                     /* of its last change */
} hub__snapshot;

typedef struct {
    hub__snapshot *at;
    size_t         n;
} hub__snapshots;

static int hub__newer(const void *a, const void *b) {
    const hub__snapshot *x = a, *y = b;
    if (x->main != y->main) return x->main ? -1 : 1;
    if (x->time != y->time) return x->time > y->time ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* The snapshots of a repository's folder: that of the branch main first, then the newest. */
static hub__snapshots hub__snapshots_of(const char *folder) {
    hub__snapshots s = {0};
    str            main = {0}, all = {0}, path = {0};
    err_t          none = {0};
    struct stat    st;
    str_fmt(&path, "%s/refs/main", folder);
    str_fmt(&all, "%s/snapshots", folder);
    str_read_file(&main, path.p, O_NOFOLLOW | O_NONBLOCK, 256, "a commit", &none);
    DIR *d = opendir(all.p);
    for (struct dirent *en; d && (en = readdir(d)) != NULL && s.n < HUB_FILES_MOST;) {
        if (!hub_is_commit(bytes_of(en->d_name))) continue;
        str_clear(&path);
        str_fmt(&path, "%s/%s", all.p, en->d_name);
        if (lstat(path.p, &st) || !S_ISDIR(st.st_mode)) continue;
        const bool is_main = main.n && bytes_eq(bytes_trim(str_bytes(&main)), bytes_of(en->d_name));
        MEM_PUSH(s.at, s.n, (hub__snapshot){str_dup(path.p), is_main, st.st_mtim.tv_sec});
    }
    if (d) closedir(d);
    if (s.n) qsort(s.at, s.n, sizeof *s.at, hub__newer);
    str_drop_all(&main, &all, &path);
    return s;
}

static void hub__snapshots_drop(hub__snapshots *s) {
    for (size_t i = 0; i < s->n; i++) mem_free(s->at[i].path);
    mem_free(s->at);
}

/* Appends the path of a model of a list of the folder's files: of its file, or of a checkpoint of its folder. */
static void hub__put_model(str *path, const char *folder, const hub_file *f) {
    const size_t n = hub_is_checkpoint(f) ? (size_t)(str_base_name(f->path) - f->path) : strlen(f->path);
    str_put(path, folder);
    if (n) str_fmt(path, "/%.*s", (int)(n - hub_is_checkpoint(f)), f->path);
}

/* Whether all of a model of a list of the folder's files is there; *n_bytes: of its files. */
static bool hub__is_there(const hub_list *l, const char *folder, const hub_file *f, uint64_t *n_bytes) {
    str path = {0};
    hub__put_model(&path, folder, f);
    const bool ok = hub_is_checkpoint(f) ? hub__is_whole(path.p, n_bytes) : hub__whole(l, f, n_bytes);
    str_drop(&path);
    return ok;
}

/* Appends the path of a model in the cache; of a checkpoint, of its folder. any: a name without a quant is the best that is
 * there, else the first of hub_usual, or a checkpoint where the cache has no GGUF file of the repository: else the hub's list
 * decides. False: the cache has it not. */
static bool hub_find(const hub_name *h, bool any, str *path) {
    err_t none = {0};
    str   root = {0}, folder = {0};
    bool  found = false, gguf = false;
    if (hub_cache(false, &root, &none)) hub_repo_folder(root.p, h->repo.p, &folder);
    hub__snapshots s = folder.n ? hub__snapshots_of(folder.p) : (hub__snapshots){0};
    for (int k = 0; k < (h->pick.n ? 1 : HUB_USUAL + 1) && !found; k++) {
        const char *pick = k < HUB_USUAL ? hub_usual[k] : hub_safetensors;
        hub_name    one = {h->repo, h->pick};
        if (!any && k > 0 && (k < HUB_USUAL || gguf)) continue;
        if (!h->pick.n) one.pick = (str){.p = (char *)(uintptr_t)pick, .n = strlen(pick)};
        for (size_t i = 0; i < s.n && !found; i++) {
            hub_list        l = hub__files(s.at[i].path);
            err_t           no = {0};
            const hub_file *f = hub_choose(&l, &one, &no);
            uint64_t        n_bytes;
            gguf = gguf || hub__any_model(&l);
            found = f && hub__is_there(&l, s.at[i].path, f, &n_bytes);
            if (found) hub__put_model(path, s.at[i].path, f);
            hub_list_drop(&l);
        }
    }
    hub__snapshots_drop(&s);
    str_drop_all(&root, &folder);
    return found;
}

/* --- models that are here --- */

typedef struct {
    char    *name;                                    /* what -m takes: OWNER/NAME:QUANT, or the path in the folder of models */
    char    *path;                                    /* of its first file; of a checkpoint, of its folder */
    char    *repo;                                    /* its folder in the cache; NULL: it is in the folder of models */
    uint64_t bytes;                                   /* of all its files; of a checkpoint, of its weights and tokenizer */
} hub_model;

typedef struct {
    hub_model *at;
    size_t     n;
} hub_set;

/* Frees the set. */
static void hub_models_drop(hub_set *s) {
    for (size_t i = 0; i < s->n; i++) mem_free_all(s->at[i].name, s->at[i].path, s->at[i].repo);
    mem_free(s->at);
    *s = (hub_set){0};
}

static void hub__add_model(hub_set *s, const str *name, const char *folder, const hub_file *f, const char *repo,
                           uint64_t n_bytes) {
    str path = {0};
    hub__put_model(&path, folder, f);
    MEM_PUSH(s->at, s->n, (hub_model){str_dup(name->p), path.p, repo ? str_dup(repo) : NULL, n_bytes});
}

static bool hub__has_name(const hub_set *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->at[i].name, name) == 0) return true;
    return false;
}

/* The models of a repository; of a file that several snapshots have, the one that hub_find() finds. */
static void hub__add_repo(hub_set *s, const char *folder, const char *id) {
    hub__snapshots all = hub__snapshots_of(folder);
    hub_set        own = {0};
    str            name = {0}, by_path = {0};
    for (size_t i = 0; i < all.n; i++) {
        hub_list l = hub__files(all.at[i].path);
        for (size_t k = 0; k < l.n; k++) {
            const hub_file *f = &l.file[k];
            uint64_t        n_bytes;
            if (!hub__is_model(bytes_of(f->path)) && strcmp(f->path, "config.json") != 0) continue;
            if (!hub__is_there(&l, all.at[i].path, f, &n_bytes)) continue;
            const bytes pick = hub__pick_of(&l, f);
            str_clear(&name), str_clear(&by_path);
            str_fmt(&name, "%s:%.*s", id, (int)pick.n, (const char *)pick.p);
            str_fmt(&by_path, "%s:%s", id, f->path);
            const size_t under = strlen(all.at[i].path);       /* all of the snapshots' paths are as long */
            const char  *in = hub_is_checkpoint(f) ? "" : f->path;
            bool         seen = false;
            for (size_t m = 0; m < own.n && !seen; m++) {
                const char *at = own.at[m].path + under;
                seen = strcmp(at + (*at == '/'), in) == 0;
            }
            if (seen) continue;
            hub__add_model(&own, hub__has_name(&own, name.p) ? &by_path : &name, all.at[i].path, f, folder, n_bytes);
        }
        hub_list_drop(&l);
    }
    for (size_t i = 0; i < own.n; i++) MEM_PUSH(s->at, s->n, own.at[i]);
    mem_free(own.at);
    hub__snapshots_drop(&all);
    str_drop_all(&name, &by_path);
}

/* Those of the folder that LLMRUN_MODELS names, by their paths in it. */
static void hub__add_folder(hub_set *s) {
    const char *folder = hub__env("LLMRUN_MODELS");
    if (!folder) return;
    hub_list l = hub__files(folder);
    str      name = {0};
    for (size_t i = 0; i < l.n; i++) {
        uint64_t    n_bytes;
        const bytes path = bytes_of(l.file[i].path);
        const bool  checkpoint = hub_is_checkpoint(&l.file[i]) && bytes_find(path, 0, bytes_of("/")) != SIZE_MAX;
        if ((!hub__is_model(path) && !checkpoint) || !hub__is_there(&l, folder, &l.file[i], &n_bytes)) continue;
        str_set(&name, checkpoint ? bytes_slice(path, 0, path.n - strlen("/config.json")) : hub__stem(path));
        if (hub__has_name(s, name.p)) str_set(&name, path);
        hub__add_model(s, &name, folder, &l.file[i], NULL, n_bytes);
    }
    hub_list_drop(&l);
    str_drop(&name);
}

static int hub__by_name_order(const void *a, const void *b) {
    return strcmp(((const hub_model *)a)->name, ((const hub_model *)b)->name);
}

/* OWNER/NAME of a folder models--OWNER--NAME; false: it is none. */
static bool hub__id_of(const char *folder, str *id) {
    static const char prefix[] = "models--";
    const bytes  b = bytes_of(folder);
    const size_t n = sizeof prefix - 1, at = bytes_begins(b, bytes_of(prefix)) ? bytes_find(b, n, bytes_of("--")) : SIZE_MAX;
    if (at == SIZE_MAX) return false;
    str_set(id, bytes_slice(b, n, at));
    str_put(id, "/");
    str_cat(id, bytes_slice(b, at + 2, b.n));
    return hub__is_id(str_bytes(id));
}

/* Appends the name of the repository whose snapshot a folder is, without its owner. False: it is none. real: without links. */
static bool hub_name_of(const char *real, str *out) {
    const char *commit = str_base_name(real);
    const int   n = (int)(commit - real) - (int)strlen("/snapshots/");
    str         folder = {0}, id = {0};
    if (n > 0 && hub_is_commit(bytes_of(commit)) && strncmp(real + n, "/snapshots/", strlen("/snapshots/")) == 0)
        str_fmt(&folder, "%.*s", n, real);
    const bool ok = folder.n && hub__id_of(str_base_name(folder.p), &id);
    if (ok) str_put(out, strchr(id.p, '/') + 1);
    str_drop_all(&folder, &id);
    return ok;
}

/* The models that are here, of the folder of models and of the cache, each in the order of their names. */
static hub_set hub_models(void) {
    hub_set s = {0}, cached = {0};
    str     root = {0}, folder = {0}, id = {0};
    err_t   none = {0};
    hub__add_folder(&s);
    DIR *d = hub_cache(false, &root, &none) ? opendir(root.p) : NULL;
    for (struct dirent *en; d && (en = readdir(d)) != NULL;) {
        if (!hub__id_of(en->d_name, &id)) continue;
        str_clear(&folder);
        str_fmt(&folder, "%s/%s", root.p, en->d_name);
        hub__add_repo(&cached, folder.p, id.p);
    }
    if (d) closedir(d);
    if (cached.n) qsort(cached.at, cached.n, sizeof *cached.at, hub__by_name_order);
    for (size_t i = 0; i < cached.n; i++) MEM_PUSH(s.at, s.n, cached.at[i]);
    mem_free(cached.at);
    str_drop_all(&root, &folder, &id);
    return s;
}

/* Appends the path of the model with this name: one of the folder of models, with or without .gguf, or of the cache, where
 * OWNER/NAME alone is the best that is there. False: there is none. */
static bool hub_by_name(const char *name, str *path) {
    hub_set     s = {0};
    hub_name    h;
    err_t       none = {0};
    const bytes bare = hub__stem(bytes_of(name));
    bool        found = false;
    hub__add_folder(&s);
    for (size_t i = 0; i < 2 * s.n && !found; i++) {  /* as it is listed, then without .gguf */
        const hub_model *m = &s.at[i % s.n];
        found = i < s.n ? strcmp(name, m->name) == 0 : bytes_is(bare, m->name);
        if (found) str_put(path, m->path);
    }
    hub_models_drop(&s);
    if (found) return true;
    found = hub_parse(name, NULL, &h, &none) && hub_find(&h, true, path);
    hub_name_drop(&h);
    return found;
}

/* --- removing --- */

/* Removes a folder with all in it, whose links are not followed. */
static bool hub__remove_tree(const char *path, int deep) {
    DIR *d = opendir(path);
    str  at = {0};
    bool ok = d && deep <= 2 * HUB_DEEP;
    for (struct dirent *en; ok && (en = readdir(d)) != NULL;) {
        struct stat st;
        if (strcmp(en->d_name, ".") == 0 || strcmp(en->d_name, "..") == 0) continue;
        str_clear(&at);
        str_fmt(&at, "%s/%s", path, en->d_name);
        ok = !lstat(at.p, &st) && (S_ISDIR(st.st_mode) ? hub__remove_tree(at.p, deep + 1) : !unlink(at.p));
    }
    if (d) closedir(d);
    str_drop(&at);
    return ok && (!rmdir(path) || (errno == ENOTDIR && !unlink(path)));   /* the folder of a repository may be a link */
}

/* Whether a file is somewhere in the folder; what: its last part must be where this link leads, NULL: any. */
static bool hub__holds(const char *folder, const char *what, int deep) {
    DIR *d = deep <= HUB_DEEP ? opendir(folder) : NULL;
    str  at = {0};
    bool found = false;
    for (struct dirent *en; d && !found && (en = readdir(d)) != NULL;) {
        char        to[PATH_MAX];
        struct stat st;
        if (strcmp(en->d_name, ".") == 0 || strcmp(en->d_name, "..") == 0) continue;
        str_clear(&at);
        str_fmt(&at, "%s/%s", folder, en->d_name);
        if (lstat(at.p, &st)) continue;
        const ssize_t n = what && S_ISLNK(st.st_mode) ? readlink(at.p, to, sizeof to - 1) : -1;
        if (n >= 0) to[n] = 0;
        if (S_ISDIR(st.st_mode)) found = hub__holds(at.p, what, deep + 1);
        else found = !what || (n >= 0 && strcmp(str_base_name(to), what) == 0);
    }
    if (d) closedir(d);
    str_drop(&at);
    return found;
}

/* Removes the folders above a file that are empty, up to `top`, which stays. */
static void hub__prune(const char *file, const char *top) {
    char *at = str_dup(file);
    for (char *slash; (slash = strrchr(at, '/')) != NULL && (size_t)(slash - at) > strlen(top);) {
        *slash = 0;
        if (rmdir(at)) break;
    }
    mem_free(at);
}

/* Removes one file of a snapshot, and its blob where nothing else of the repository links to it. */
static bool hub__remove_link(const char *repo, const char *path, err_t *e) {
    char          to[PATH_MAX];
    str           all = {0}, blob = {0};
    const ssize_t n = readlink(path, to, sizeof to - 1);
    if (unlink(path)) return err_set(e, err_code_of(errno), "%s: cannot remove: %s", path, strerror(errno));
    if (n >= 0) to[n] = 0;
    str_fmt(&all, "%s/snapshots", repo);
    const char *name = n >= 0 ? str_base_name(to) : "";
    str_fmt(&blob, "%s/blobs/%s", repo, name);
    const bool hash = hub__is_hex(bytes_of(name), SHA_HEX) || hub_is_commit(bytes_of(name));
    if (hash && !hub__holds(all.p, name, 0) && unlink(blob.p) && errno != ENOENT)
        err_set(e, err_code_of(errno), "%s: cannot remove: %s", blob.p, strerror(errno));
    str_fmt(&all, "/%.*s", HUB_COMMIT, path + all.n + 1);      /* the snapshot's folder stays: a ref may name it */
    hub__prune(path, all.p);
    str_drop_all(&all, &blob);
    return !e->code;
}

/* Whether a run downloads a file of the repository: it holds the lock of one. */
static bool hub__is_busy(const char *repo) {
    const char *base = str_base_name(repo);
    str         folder = {0}, at = {0};
    bool        busy = false;
    str_fmt(&folder, "%.*s.locks/%s", (int)(base - repo), repo, base);
    DIR *d = opendir(folder.p);
    for (struct dirent *en; d && !busy && (en = readdir(d)) != NULL;) {
        if (en->d_name[0] == '.') continue;
        str_clear(&at);
        str_fmt(&at, "%s/%s", folder.p, en->d_name);
        const int fd = open(at.p, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
        if (fd >= 0) close(fd);
    }
    if (d) closedir(d);
    str_drop_all(&folder, &at);
    return busy;
}

static void hub__remove_file(const char *path, err_t *e) {
    if (unlink(path)) err_set(e, err_code_of(errno), "%s: cannot remove: %s", path, strerror(errno));
}

/* Removes the files of a checkpoint from a folder; repo: from a snapshot of it. */
static void hub__remove_checkpoint(const char *repo, const char *folder, err_t *e) {
    hub_list l = hub__files(folder);
    str      path = {0};
    for (size_t i = 0; i < l.n && !e->code; i++) {
        if (!hub__of_checkpoint(l.file[i].path)) continue;
        str_clear(&path);
        str_fmt(&path, "%s/%s", folder, l.file[i].path);
        if (repo) hub__remove_link(repo, path.p, e);
        else hub__remove_file(path.p, e), hub__prune(path.p, folder);
    }
    hub_list_drop(&l);
    str_drop(&path);
}

/* Removes the files of a model of the cache from every snapshot, and the repository's folder when no file is left in it. */
static bool hub__remove_cached(const hub_model *m, err_t *e) {
    hub__snapshots s = hub__snapshots_of(m->repo);
    str            path = {0}, all = {0}, part = {0};
    const bool     checkpoint = s.n && strlen(m->path) == strlen(s.at[0].path);
    const char    *under = s.n && !checkpoint ? m->path + strlen(s.at[0].path) + 1 : m->path;
    const hub_file first = {.path = (char *)(uintptr_t)under};
    struct stat    st;
    if (hub__is_busy(m->repo))
        err_set(e, EXIT_RESOURCE, "%s: another run downloads a file of its repository: run the command again later", m->name);
    for (size_t i = 0; i < s.n && checkpoint && !e->code; i++) hub__remove_checkpoint(m->repo, s.at[i].path, e);
    for (size_t i = 0; i < s.n && !checkpoint && !e->code; i++)
        for (int k = hub_parts(&first) - 1; k >= 0 && !e->code; k--) {         /* the first part last: a model begins with it */
            str_clear(&path), str_clear(&part);
            if (!k || !gguf_other_part(under, (uint64_t)k, &part)) str_set(&part, bytes_of(under));
            str_fmt(&path, "%s/%s", s.at[i].path, part.p);
            if (!lstat(path.p, &st)) hub__remove_link(m->repo, path.p, e);
        }
    str_fmt(&all, "%s/snapshots", m->repo);
    if (!e->code && !hub__holds(all.p, NULL, 0) && !hub__remove_tree(m->repo, 0))
        err_set(e, err_code_of(errno), "%s: cannot remove: %s", m->repo, strerror(errno));
    hub__snapshots_drop(&s);
    str_drop_all(&path, &all, &part);
    return !e->code;
}

/* Removes a model that hub_models() has found. False: e is set. */
static bool hub_remove(const hub_model *m, err_t *e) {
    const hub_file first = {.path = m->path};
    str            part = {0};
    struct stat    its;
    if (m->repo) return hub__remove_cached(m, e);
    if (!stat(m->path, &its) && S_ISDIR(its.st_mode)) {
        hub__remove_checkpoint(NULL, m->path, e);
        if (!e->code) rmdir(m->path);                 /* other files of it stay */
        return !e->code;
    }
    for (int k = hub_parts(&first) - 1; k >= 0 && !e->code; k--) {
        if (!k || !gguf_other_part(m->path, (uint64_t)k, &part)) str_set(&part, bytes_of(m->path));
        hub__remove_file(part.p, e);
    }
    str_drop(&part);
    return !e->code;
}
