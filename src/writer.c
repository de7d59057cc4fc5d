/* ===== [writer] GGUF files that this program writes =====
 * Writes a file of version 3 under a temporary name beside its path and renames it when it is complete and on disk. A reader
 * finds the old file or the complete new one, which has the owner and the mode of the old one; a run that ends early removes the
 * temporary file.
 * In order: gguf_write_start; keys and tensors, in the order of the file; the bytes of the tensors, one after another, in
 * pieces of any size; gguf_write_finish. gguf_write_drop may follow any of them.
 *   Files of our own keep something between runs (prompt cache, lookup cache); each names its kind as general.architecture.
 * A file of another kind is never replaced.
 * Public: gguf_write_start, gguf_write_could, gguf_write_u32, gguf_write_i32, gguf_write_f32, gguf_write_bool, gguf_write_array,
 * gguf_write_str, gguf_write_strs, gguf_write_kv, gguf_write_tensor, gguf_write_head, gguf_write_data, gguf_write_finish,
 * gguf_write_drop; gguf_own_missing, gguf_own_is_kind,
 * gguf_own_may_replace.
 * Opens: gguf_writer.tight. */

typedef struct {
    char     *name;                  /* the path as given                                                 */
    char     *path;                  /* with links resolved                                               */
    char     *tmp;                   /* of the temporary file                                             */
    int       fd;                    /* of the temporary file, -1: closed                                 */
    uint64_t  align;                 /* bytes to a multiple of which tensor data begin                    */
    uint64_t  n_kv;                  /* keys                                                              */
    uint64_t  n_tensor;              /* tensors                                                           */
    str       kv;                    /* metadata as the file will have them                               */
    str       dir;                   /* tensor directory as the file will have it                         */
    uint64_t *size;                  /* [n_tensor] bytes                                                  */
    uint64_t  next;                  /* offset of the next tensor after the header                        */
    uint64_t  now;                   /* the tensor that is being written                                  */
    uint64_t  left;                  /* its missing bytes                                                 */
    uint64_t  n_bytes;               /* written so far                                                    */
    uint64_t  n_begun;               /* of them on their way to the disk                                  */
    bool      begun;                 /* the header is written: no more keys, no more tensors              */
    bool      tight;                 /* no padding at the end; to be set before the first data            */
} gguf_writer;

/* Gives the file up: the temporary one goes. After gguf_write_finish() it does nothing. */
static void gguf_write_drop(gguf_writer *w) {
    if (w->fd >= 0) close(w->fd);
    out_settle(w->tmp, false);
    mem_free(w->name);
    mem_free(w->path);
    mem_free(w->tmp);
    mem_free(w->size);
    str_drop(&w->kv);
    str_drop(&w->dir);
    *w = (gguf_writer){.fd = -1};
}

/* The error of a failed call on the open file. Always a resource: exit code 3. */
static bool gguf_write__unwritten(const gguf_writer *w, err_t *e) {
    return gguf_refuse(e, EXIT_RESOURCE, w->name, "cannot write: %s", strerror(errno));
}

/* Whether a file may be written under this path: it is free, or a regular file that is no part of `in`. */
static bool gguf_write__replaceable(const char *path, const gguf_file *in, err_t *e) {
    struct stat to, part;
    if (!*path) return err_set(e, EXIT_INPUT, "no name, expected a file to write");
    if (stat(path, &to)) {
        if (errno != ENOENT) return gguf_refuse(e, err_code_of(errno), path, "%s", strerror(errno));
        if (lstat(path, &to)) return true;
        if (S_ISLNK(to.st_mode)) return gguf_refuse(e, EXIT_INPUT, path, "is a link to nothing, expected a file to write");
    }                                                 /* else another run has made the file meanwhile */
    if (!S_ISREG(to.st_mode))
        return gguf_refuse(e, EXIT_INPUT, path, "is %s, expected a file to write", gguf_file_kind(to.st_mode));
    for (int i = 0; in && i < in->n_parts; i++)
        if (in->part[i].fd >= 0 && fstat(in->part[i].fd, &part) == 0 && part.st_dev == to.st_dev && part.st_ino == to.st_ino)
            return gguf_refuse(e, EXIT_INPUT, path, "is the model itself, expected another file to write");
    return true;
}

/* Removes the temporary file of a writer that was killed: a file of this user that begins as GGUF and that no process has locked.
 * A writer locks its file from the first byte to the end. A live one may have this temporary name: process numbers repeat
 * across containers. */
static bool gguf_write__clear(const char *tmp) {
    struct stat st;
    char        head[4];
    int         fd = open(tmp, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return false;
    bool left = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1 &&
                pread(fd, head, sizeof head, 0) == sizeof head && memcmp(head, "GGUF", sizeof head) == 0 &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;
    left = left && unlink(tmp) == 0;
    close(fd);
    return left;
}

/* Creates the temporary file: its name is w->path, the process number, and a counter where that name is taken. -1: see errno. */
static int gguf_write__create(gguf_writer *w, size_t tmp_bytes) {
    enum { NAMES = 100 };
    struct stat old;
    const bool  replaces = stat(w->path, &old) == 0;
    int         fd = -1;
    for (int i = 0; fd < 0 && i < NAMES; i++) {
        snprintf(w->tmp, tmp_bytes, i ? "%s.tmp.%ld.%d" : "%s.tmp.%ld", w->path, (long)getpid(), i);
        fd = out_create(w->tmp, O_WRONLY, replaces ? &old : NULL);
        if (fd < 0 && errno != EEXIST) break;
        if (fd < 0 && gguf_write__clear(w->tmp)) i--;       /* the name is free now: try it again */
    }
    if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);        /* without file locks gguf_write__clear() removes nothing */
    return fd;
}

/* Begins a file. in: the file that is read meanwhile, or NULL. A symbolic link is followed and stays. On failure e is set. */
static bool gguf_write_start(gguf_writer *w, const char *path, uint64_t align, const gguf_file *in, err_t *e) {
    *w = (gguf_writer){.fd = -1, .align = align};
    ASSERT(align && !(align & (align - 1)));
    if (!gguf_write__replaceable(path, in, e)) return false;
    str real = {0};
    if (!str_real(&real, path, e)) return false;
    w->name = str_dup(path);
    w->path = real.p;
    size_t n = strlen(w->path) + 48;
    w->tmp = mem_new(n, 1);
    w->fd = gguf_write__create(w, n);
    if (w->fd < 0) {
        gguf_refuse(e, err_code_of(errno), path, "cannot create: %s", strerror(errno));
        gguf_write_drop(w);
        return false;
    }
    return true;
}

/* Whether gguf_write_start() would succeed now: to be checked before a long run. On failure e is set. */
static bool gguf_write_could(const char *path, const gguf_file *in, err_t *e) {
    gguf_writer w;
    bool        ok = gguf_write_start(&w, path, 32, in, e);
    if (ok) gguf_write_drop(&w);
    return ok;
}

/* --- keys and tensors --- */

static void gguf_write__add_u32(str *s, uint32_t v) { str_add(s, &v, sizeof v); }
static void gguf_write__add_u64(str *s, uint64_t v) { str_add(s, &v, sizeof v); }

static void gguf_write__add_string(str *s, bytes b) {
    gguf_write__add_u64(s, b.n);
    str_add(s, b.p, b.n);
}

static void gguf_write__add_key(gguf_writer *w, bytes key, uint32_t type) {
    ASSERT(!w->begun && key.n);
    gguf_write__add_string(&w->kv, key);
    gguf_write__add_u32(&w->kv, type);
    w->n_kv++;
}

/* Adds a key with a number. */
static void gguf_write_u32(gguf_writer *w, const char *key, uint32_t v) {
    gguf_write__add_key(w, bytes_of(key), GGUF_U32);
    gguf_write__add_u32(&w->kv, v);
}

/* The same with a number that may be negative. */
static void gguf_write_i32(gguf_writer *w, const char *key, int32_t v) {
    gguf_write__add_key(w, bytes_of(key), GGUF_I32);
    gguf_write__add_u32(&w->kv, (uint32_t)v);
}

/* The same with a float. */
static void gguf_write_f32(gguf_writer *w, const char *key, float v) {
    gguf_write__add_key(w, bytes_of(key), GGUF_F32);
    str_add(&w->kv, &v, sizeof v);
}

/* The same with a bool. */
static void gguf_write_bool(gguf_writer *w, const char *key, bool v) {
    gguf_write__add_key(w, bytes_of(key), GGUF_BOOL);
    str_add(&w->kv, &(uint8_t){v}, 1);
}

/* Adds a key with an array of n numbers or bools of this type, of 1, 4 or 8 bytes. */
static void gguf_write_array(gguf_writer *w, const char *key, uint32_t elem, const void *v, uint64_t n) {
    gguf_write__add_key(w, bytes_of(key), GGUF_ARR);
    gguf_write__add_u32(&w->kv, elem);
    gguf_write__add_u64(&w->kv, n);
    const size_t each = elem == GGUF_U64 ? 8 : elem == GGUF_BOOL || elem == GGUF_U8 || elem == GGUF_I8 ? 1 : 4;
    str_add(&w->kv, v, (size_t)n * each);
}

/* Adds a key with a string, whose bytes are not checked. */
static void gguf_write_str(gguf_writer *w, const char *key, bytes v) {
    gguf_write__add_key(w, bytes_of(key), GGUF_STR);
    gguf_write__add_string(&w->kv, v);
}

/* Adds a key with an array of n strings. */
static void gguf_write_strs(gguf_writer *w, const char *key, const bytes *v, uint64_t n) {
    gguf_write__add_key(w, bytes_of(key), GGUF_ARR);
    gguf_write__add_u32(&w->kv, GGUF_STR);
    gguf_write__add_u64(&w->kv, n);
    for (uint64_t i = 0; i < n; i++) gguf_write__add_string(&w->kv, v[i]);
}

/* Copies a key and its value from another file, bit for bit. */
static void gguf_write_kv(gguf_writer *w, const gguf_file *g, const gguf_kv *kv) {
    gguf_write__add_key(w, kv->key, kv->type);
    if (kv->type == GGUF_STR) gguf_write__add_u64(&w->kv, kv->count);
    if (kv->type == GGUF_ARR) {
        gguf_write__add_u32(&w->kv, kv->elem);
        gguf_write__add_u64(&w->kv, kv->count);
    }
    if (kv->type == GGUF_ARR && kv->elem == GGUF_STR) {  /* lengths of version 1 are narrower */
        gguf_strs it = gguf_strs_of(g, kv);
        for (bytes s; gguf_strs_next(&it, &s);) gguf_write__add_string(&w->kv, s);
    } else {
        str_add(&w->kv, kv->data, kv->n_bytes);
    }
}

/* Adds a tensor of rows of whole blocks. Returns its bytes. */
static uint64_t gguf_write_tensor(gguf_writer *w, bytes name, uint32_t type, uint32_t n_dims, const uint64_t *dim) {
    ASSERT(!w->begun && k_type_ok(type) && dim[0] % k_types[type].block == 0);
    uint64_t all[4] = {1, 1, 1, 1}, n_bytes, next;
    gguf_write__add_string(&w->dir, name);
    gguf_write__add_u32(&w->dir, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        gguf_write__add_u64(&w->dir, dim[i]);
        all[i] = dim[i];
    }
    gguf_write__add_u32(&w->dir, type);
    gguf_write__add_u64(&w->dir, w->next);
    if (!gguf_tensor_bytes(type, all, &n_bytes) || __builtin_add_overflow(w->next, n_bytes, &next) || next > INT64_MAX)
        die(EXIT_RESOURCE, "%s: tensor %.*s would make it larger than 2^63 bytes", w->name, GGUF_SHOW(name));
    w->next = (next + w->align - 1) & ~(w->align - 1);
    MEM_PUSH(w->size, w->n_tensor, n_bytes);
    return n_bytes;
}

/* Reads a byte of each page. Where the system cannot read a mapped file for a write, the signal of this read names the file. */
static void gguf_write__touch(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i += 4096) (void)*(const volatile uint8_t *)(p + i);
    if (n) (void)*(const volatile uint8_t *)(p + n - 1);
}

/* The system begins to write to the disk at once, in pieces of EARLY bytes: else it does so when much has come together, and the
 * end of the run waits for all of it. */
static bool gguf_write__put(gguf_writer *w, const void *p, size_t n, err_t *e) {
    enum { EARLY = 8 << 20 };
    for (size_t done = 0; done < n;) {
        size_t  some = min_size(n - done, (size_t)1 << 30);
        ssize_t got = write(w->fd, (const uint8_t *)p + done, some);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EFAULT) gguf_write__touch((const uint8_t *)p + done, some), errno = EFAULT;
        if (got <= 0) return gguf_write__unwritten(w, e);
        done += (size_t)got;
    }
    w->n_bytes += n;
    if (w->n_bytes - w->n_begun < EARLY) return true;
    sync_file_range(w->fd, (off_t)w->n_begun, (off_t)(w->n_bytes - w->n_begun), SYNC_FILE_RANGE_WRITE);
    w->n_begun = w->n_bytes;
    return true;
}

/* Pads the file with zeros to the alignment. The header ends on it too, so offsets in the file and in the data agree. */
static bool gguf_write__pad(gguf_writer *w, err_t *e) {
    static const uint8_t zero[4096];
    uint64_t             n = -w->n_bytes & (w->align - 1);
    for (uint64_t some; n; n -= some) {
        some = min_u64(n, sizeof zero);
        if (!gguf_write__put(w, zero, (size_t)some, e)) return false;
    }
    return true;
}

/* Appends the header, keys and directory of the file: for a writer that no file belongs to, too. */
static void gguf_write_head(const gguf_writer *w, str *s) {
    str_put(s, "GGUF");
    gguf_write__add_u32(s, 3);
    gguf_write__add_u64(s, w->n_tensor);
    gguf_write__add_u64(s, w->n_kv);
    str_cat(s, str_bytes(&w->kv));
    str_cat(s, str_bytes(&w->dir));
}

static bool gguf_write__header(gguf_writer *w, err_t *e) {
    str s = {0};
    gguf_write_head(w, &s);
    bool ok = gguf_write__put(w, s.p, s.n, e) && ((w->tight && !w->n_tensor) || gguf_write__pad(w, e));
    str_drop(&s);
    w->begun = true;
    w->left = w->n_tensor ? w->size[0] : 0;
    return ok;
}

/* Writes the next n bytes of tensor data. */
static bool gguf_write_data(gguf_writer *w, const void *p, size_t n, err_t *e) {
    if (!w->begun && !gguf_write__header(w, e)) return false;
    for (const uint8_t *at = p; n;) {
        ASSERT(w->now < w->n_tensor);
        size_t some = (size_t)min_u64(n, w->left);
        if (!gguf_write__put(w, at, some, e)) return false;
        at += some;
        n -= some;
        w->left -= some;
        if (w->left) continue;
        bool last = ++w->now == w->n_tensor;
        if (!(last && w->tight) && !gguf_write__pad(w, e)) return false;
        w->left = last ? 0 : w->size[w->now];
    }
    return true;
}

/* Flushes the complete file to disk and gives it its name. On failure e is set and the file is removed. */
static bool gguf_write_finish(gguf_writer *w, err_t *e) {
    bool ok = w->begun || gguf_write__header(w, e);
    ASSERT(!ok || w->now == w->n_tensor);
    if (ok && !out_replace(w->fd, w->tmp, w->path)) ok = gguf_write__unwritten(w, e);
    gguf_write_drop(w);
    return ok;
}

/* --- files of our own --- */

/* Whether there is no file, or an empty one. */
static bool gguf_own_missing(const char *path) {
    struct stat st;
    return stat(path, &st) ? errno == ENOENT : S_ISREG(st.st_mode) && !st.st_size;
}

/* Whether the file is of this kind. what: its name in errors. On failure e is set. */
static bool gguf_own_is_kind(const gguf_file *g, const char *kind, const char *what, err_t *e) {
    bytes arch = {0};
    return (gguf_get_str(g, "general.architecture", &arch, e) == 1 && bytes_is(arch, kind)) ||
           err_set(e, EXIT_INPUT, "%s: is no %s", g->path, what);
}

/* Whether a file of this kind may be written there: one of another kind is never replaced. */
static bool gguf_own_may_replace(const char *path, const char *kind, const char *what) {
    gguf_file g;
    err_t     why = {0};
    bool      may = gguf_own_missing(path);
    if (!may && gguf_open(&g, path, &why)) {
        may = gguf_own_is_kind(&g, kind, what, &why);
        gguf_close(&g);
    }
    if (!may) log_warn("%s; it is left as it is", why.text);
    return may;
}
