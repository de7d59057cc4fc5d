/* ===== [gguf] the model file =====
 * A bounds-checked, read-only view of a GGUF file: versions 1 to 3, little-endian, alone or split into parts.
 * Owns the mappings, the metadata table, the tensor directory and their hash indices. Trusts no byte: lengths
 * and counts are compared with what remains of the file before anything is allocated or read, sums and products
 * are checked in 64 bits, and an error is one line with the byte offset where it was found.
 * Invariants after a good open: keys and tensor names are unique, not empty, UTF-8 without NUL; every string of
 * an array lies inside the file; every tensor has 1 to 4 dimensions of at least 1, a type that k_type_ok accepts,
 * rows of whole blocks, and aligned data inside its file, in the order of the directory and without overlap.
 * Views (bytes, data) point into the mapping and live until gguf_close. Its beginning, up to the end of the directory, is a
 * private copy: names, numbers and strings stay what was checked, whatever others write to the file. Tensor data do not.
 * Format: docs/gguf.md of the ggml repository. Version 1 has 32-bit counts, lengths and dimensions. The C writer
 * of versions 1 and 2 counted a final NUL into every string for a while (llama.cpp issue 2836); the Python writer
 * never did. The first key of a file shows which of them wrote it.
 * Tensors that no file holds as they are (weights of a checkpoint that are converted) are made by a gguf_maker when their rows
 * are wanted.
 * Public: gguf_type_name, gguf_refuse, gguf_bad; gguf_index_build, gguf_index_find; gguf_strs_of, gguf_strs_next; gguf_find,
 * gguf_tensor_find, gguf_get_u64,
 * gguf_get_number, gguf_get_f32, gguf_get_bool, gguf_get_str, gguf_get_arr, gguf_arr_u64, gguf_arr_f32; gguf_file_kind,
 * gguf_fingerprint, gguf_other_part, gguf_open, gguf_parse, gguf_close, gguf_alive, gguf_drop_pages, gguf_scatter;
 * gguf_map_part, gguf_set_tensors, gguf_fill; gguf_tensor_bytes, gguf_scale, gguf_floats.
 * Opens: gguf_file, gguf_kv, gguf_strs, gguf_tensor, gguf_part, gguf_index, gguf_maker. */

enum { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STR, GGUF_ARR,
      GGUF_U64, GGUF_I64, GGUF_F64 };
enum {
    GGUF_KEY_MAX   = 65535,          /* bytes, the format's bound                                         */
    GGUF_NAME_MAX  = 63,             /* bytes of a tensor name, as ggml has it (the format says 64)       */
    GGUF_COUNT_MAX = 1 << 22,        /* keys or tensors: thousands of times more than any model has       */
    GGUF_ARR_MAX   = 1 << 30,        /* elements of an array                                              */
    GGUF_ALIGN_MAX = 1 << 20,        /* bytes                                                             */
    GGUF_HEAD_MAX  = 1 << 28,        /* bytes of keys and directory: ten times more than any model has    */
    GGUF_HEAD_STEP = 1 << 18,        /* bytes that are read at a time                                     */
    GGUF_PARTS_MAX = 512,            /* parts of a split file: each costs a file descriptor               */
    GGUF_MAPS_MAX  = 2 * GGUF_PARTS_MAX
};

typedef struct {
    bytes          key;              /* the name, which the index reads: the first field                  */
    uint32_t       type;             /* GGUF_U8 and its neighbours                                        */
    uint32_t       elem;             /* type of an array's elements, else equal to type                   */
    uint64_t       count;            /* elements of an array, bytes of a string, else 1                   */
    const uint8_t *data;             /* [n_bytes] first element, first byte of a string, the number       */
    uint64_t       n_bytes;          /* of the payload                                                    */
    uint64_t       at;               /* file offset of the value                                          */
    int            part;             /* always 0: the first part has the metadata                         */
} gguf_kv;

typedef struct {
    bytes          name;             /* which the index reads: the first field                            */
    uint32_t       type;             /* of k_types                                                        */
    uint32_t       n_dims;           /* 1 to 4                                                            */
    uint64_t       dim[4];           /* dim[0] is the row; 1 beyond n_dims                                */
    const uint8_t *data;             /* [n_bytes] in the mapping                                          */
    uint64_t       n_bytes;          /* of the data                                                       */
    uint64_t       at;               /* file offset of the data                                           */
    int            part;             /* of gguf_file.part                                                 */
    bool           made;             /* by the file's maker: data are in its room                         */
} gguf_tensor;

typedef struct {                     /* one file on disk, or one in memory (fd -1)                        */
    char          *path;             /* as given, or made from that of the first part                     */
    const uint8_t *p;                /* [n] the mapping                                                   */
    size_t         n;                /* bytes of the file when it was opened                              */
    size_t         own;              /* bytes at its beginning that are a private copy                    */
    int            fd;               /* stays open, for gguf_alive()                                      */
    int            map;              /* its place in gguf__maps, -1: none                                 */
    void          *own_memory;       /* that of p, if it goes with the part; else NULL                    */
} gguf_part;

typedef struct {                     /* open addressing                                                   */
    const uint8_t *base;             /* entries, each beginning with its name as `bytes`                  */
    size_t         stride;           /* bytes of an entry                                                 */
    uint32_t      *slot;             /* [mask + 1] an entry's number + 1; 0: empty                        */
    uint64_t       mask;             /* slots - 1, at least twice the entries                             */
    uint64_t       seed;             /* fresh for each file                                               */
} gguf_index;

/* What makes tensors when their rows are wanted. */
typedef struct gguf_maker {
    /* Makes rows [from, to) of all matrices of t, counted through. team: threads that may share the work (a pool), or NULL. */
    void   (*fill)(const struct gguf_maker *m, const gguf_tensor *t, uint64_t from, uint64_t to, void *team);
    void   (*drop)(struct gguf_maker *m);             /* frees it                                             */
    uint8_t *room;                   /* [room_bytes] where they are made, or NULL                         */
    size_t   room_bytes;             /* the system gives memory as rows are made                          */
    bool     again;                  /* gguf_drop_pages() gives rows back: they are made again if wanted  */
} gguf_maker;

typedef struct {
    const char  *path;               /* of the first part                                                 */
    uint32_t     version;            /* 1 to 3                                                            */
    bool         nul;                /* strings carry a final NUL                                         */
    uint64_t     n_kv;               /* keys                                                              */
    uint64_t     n_tensor;           /* tensors of all parts                                              */
    uint64_t     align;              /* bytes to a multiple of which tensor data begin, a power of two    */
    gguf_kv     *kv;                 /* [n_kv] in the order of the file                                   */
    gguf_tensor *tensor;             /* [n_tensor] in the order of the files                              */
    uint64_t     n_bytes;            /* of all parts                                                      */
    int          n_parts;            /* files; 1: not split                                               */
    gguf_part   *part;               /* [n_parts]                                                         */
    gguf_index   keys;               /* of kv                                                             */
    gguf_index   names;              /* of tensor                                                         */
    gguf_maker  *maker;              /* of tensors that are made; NULL: all are as the files hold them    */
} gguf_file;

static const struct {
    const char *name;
    uint8_t     bytes;               /* 0: no fixed size                                                  */
} gguf__types[] = {
    [GGUF_U8]  = {"u8", 1},  [GGUF_U16] = {"u16", 2}, [GGUF_U32] = {"u32", 4}, [GGUF_U64]  = {"u64", 8},
    [GGUF_I8]  = {"i8", 1},  [GGUF_I16] = {"i16", 2}, [GGUF_I32] = {"i32", 4}, [GGUF_I64]  = {"i64", 8},
    [GGUF_F32] = {"f32", 4}, [GGUF_F64] = {"f64", 8}, [GGUF_STR] = {"string", 0},
    [GGUF_ARR] = {"array", 0}, [GGUF_BOOL] = {"bool", 1},
};

/* The name of a type of metadata, as messages write it. */
static const char *gguf_type_name(uint32_t type) { return type <= GGUF_F64 ? gguf__types[type].name : "unknown"; }

/* --- errors --- */

enum { GGUF_SHOWN = 80 };                             /* a key or a name in an error is cut to this */
#define GGUF_SHOW(b) (int)min_size((b).n, GGUF_SHOWN), (const char *)(b).p

#define GGUF_NOWHERE UINT64_MAX                       /* an error without a byte offset */

/* `PATH: what (at byte N)`. A long path loses its beginning: its end names the file. */
static bool gguf__set_error(err_t *e, int code, const char *path, uint64_t at, const char *fmt, va_list ap) {
    char   what[360], where[40] = "";
    size_t n = strlen(path), cut = n > 180 ? n - 177 : 0;
    while (cut && cut < n && ((uint8_t)path[cut] & 0xc0) == 0x80) cut++;
    vsnprintf(what, sizeof what, fmt, ap);
    if (at != GGUF_NOWHERE) snprintf(where, sizeof where, " (at byte %llu)", (unsigned long long)at);
    return err_set(e, code, "%s%s: %s%s", cut ? "..." : "", path + cut, what, where);
}

/* Sets an error without a byte offset. Always false. */
__attribute__((format(printf, 4, 5)))
static bool gguf_refuse(err_t *e, int code, const char *path, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    gguf__set_error(e, code, path, GGUF_NOWHERE, fmt, ap);
    va_end(ap);
    return false;
}

/* An error in what a file holds, at a byte of one of its parts. Used by every section that checks a file. Always false. */
__attribute__((format(printf, 5, 6)))
static bool gguf_bad(const gguf_file *g, int part, uint64_t at, err_t *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    gguf__set_error(e, EXIT_INPUT, g->part[part].path, at, fmt, ap);
    va_end(ap);
    return false;
}

/* --- index: names to entries in O(1), with a fresh hash seed for each file --- */

/* The slot that holds the name, or the empty one where it would go. */
static uint64_t gguf__slot(const gguf_index *ix, bytes name) {
    uint64_t at = bytes_hash(ix->seed, name) & ix->mask;
    for (; ix->slot[at]; at = (at + 1) & ix->mask)
        if (bytes_eq(*(const bytes *)(const void *)(ix->base + (ix->slot[at] - 1) * ix->stride), name)) break;
    return at;
}

/* The entry of this name; NULL: there is none. */
static const void *gguf_index_find(const gguf_index *ix, bytes name) {
    uint32_t found = ix->slot ? ix->slot[gguf__slot(ix, name)] : 0;
    return found ? ix->base + (found - 1) * ix->stride : NULL;
}

/* Builds the index. Returns the first entry whose name an earlier entry has; NULL: all differ. */
static const void *gguf_index_build(gguf_index *ix, const void *base, size_t stride, uint64_t n) {
    uint64_t size = 8;
    while (size < 2 * n) size *= 2;
    *ix = (gguf_index){.base = base, .stride = stride, .slot = mem_new(size, sizeof *ix->slot), .mask = size - 1,
                       .seed = rng_fresh()};
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *entry = ix->base + i * stride;
        uint64_t       at = gguf__slot(ix, *(const bytes *)(const void *)entry);
        if (ix->slot[at]) return entry;
        ix->slot[at] = (uint32_t)i + 1;
    }
    return NULL;
}

/* --- strings of an array: an iterator that never leaves the file --- */

typedef struct {
    const uint8_t *p;                /* the next string                                                   */
    const uint8_t *end;              /* of the array; while it is read, of the file                       */
    uint64_t       left;             /* strings not yet seen                                              */
    bool           v1;               /* lengths have 32 bits                                              */
    bool           nul;              /* strings carry a final NUL                                         */
} gguf_strs;

/* False at the end, and where the next string is longer than the file (left is above 0 then, and p points to that string). */
static bool gguf_strs_next(gguf_strs *it, bytes *out) {
    uint64_t head = it->v1 ? 4 : 8, have = (uint64_t)(it->end - it->p), n = 0;
    if (!it->left || have < head) return false;
    memcpy(&n, it->p, it->v1 ? 4 : 8);                /* little-endian, as this machine is */
    if (n > have - head) return false;
    *out = (bytes){it->p + head, (size_t)n};
    it->p += head + n;
    it->left--;
    if (it->nul && out->n && !out->p[out->n - 1]) out->n--;
    return true;
}

/* --- cursor: after the first failure (e->code) every read yields 0 --- */

typedef struct {
    const uint8_t *p;                /* [n] the file                                                      */
    uint64_t       n;                /* its bytes                                                         */
    uint64_t       at;               /* offset of the next read                                           */
    bool           v1;               /* counts, lengths and dimensions have 32 bits                       */
    bool           nul;              /* strings carry a final NUL                                         */
    gguf_part     *part;             /* whose bytes they are                                              */
    err_t         *e;                /* the first failure                                                 */
} gguf_cur;

__attribute__((format(printf, 3, 4))) static bool gguf__fail(gguf_cur *c, uint64_t at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    gguf__set_error(c->e, EXIT_INPUT, c->part->path, at, fmt, ap);
    va_end(ap);
    return false;
}

#define GGUF_U(x) ((unsigned long long)(x))

/* The error of a failed call on a file. */
static bool gguf__failed(const char *path, const char *call, err_t *e) {
    int no = errno;
    return gguf_refuse(e, err_code_of(no), path, "cannot %s: %s, expected a readable GGUF file", call, strerror(no));
}

/* Copies bytes [own, to) of a mapped file, in place of their pages: views of them stay where they are. */
static bool gguf__copy(gguf_part *part, size_t to, err_t *e) {
    uint8_t     *p = (uint8_t *)(uintptr_t)part->p;
    const size_t from = part->own, end = min_size(to, part->n);
    if (mmap(p + from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return gguf__failed(part->path, "copy the header", e);
    for (size_t at = from; at < end;) {
        const ssize_t got = pread(part->fd, p + at, end - at, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gguf__failed(part->path, "read", e);
        if (!got) return gguf_refuse(e, EXIT_RESOURCE, part->path, "the file became shorter while it was read");
        at += (size_t)got;
    }
    mprotect(p + from, to - from, PROT_READ);
    part->own = to;
    return true;
}

/* n up to a multiple of the page. */
static size_t gguf__pages(size_t n) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) & ~(page - 1);
}

/* Makes the first n bytes of the file, and some after them, private. What is in memory already is. */
static bool gguf__own(gguf_cur *c, uint64_t n) {
    if (c->part->fd < 0 || n <= c->part->own) return true;
    if (n > GGUF_HEAD_MAX)
        return gguf__fail(c, c->at, "keys and directory of more than %d bytes, expected a smaller header", GGUF_HEAD_MAX);
    const size_t to = max_size(gguf__pages((size_t)n), c->part->own + GGUF_HEAD_STEP);
    return gguf__copy(c->part, min_size(to, gguf__pages(c->part->n)), c->e);
}

/* Maps the file again behind the pages of its first n bytes: of tensor data there is no copy. */
static bool gguf__disown(gguf_part *part, size_t n, err_t *e) {
    const size_t from = gguf__pages(n);
    if (part->fd < 0 || from >= part->own) return true;
    uint8_t *p = (uint8_t *)(uintptr_t)part->p + from;
    if (mmap(p, part->own - from, PROT_READ, MAP_SHARED | MAP_FIXED, part->fd, (off_t)from) == MAP_FAILED)
        return gguf__failed(part->path, "map", e);
    part->own = from;
    return true;
}

static bool gguf__need(gguf_cur *c, uint64_t n, const char *what) {
    if (c->e->code) return false;
    uint64_t left = c->n - c->at;
    if (n <= left) return gguf__own(c, c->at + n);
    return gguf__fail(c, c->at, "%llu bytes are left of the file, expected %llu of %s", GGUF_U(left), GGUF_U(n), what);
}

static const uint8_t *gguf__take(gguf_cur *c, uint64_t n, const char *what) {
    if (!gguf__need(c, n, what)) return NULL;
    c->at += n;
    return c->p + (c->at - n);
}

/* A number of n bytes, 8 at most; little-endian, as this machine is. */
static uint64_t gguf__number(gguf_cur *c, size_t n, const char *what) {
    uint64_t       v = 0;
    const uint8_t *p = gguf__take(c, n, what);
    if (p) memcpy(&v, p, n);
    return v;
}

static uint32_t gguf__u32(gguf_cur *c, const char *what) { return (uint32_t)gguf__number(c, 4, what); }

/* A count, length or dimension. */
static uint64_t gguf__count(gguf_cur *c, const char *what) { return gguf__number(c, c->v1 ? 4 : 8, what); }

static bytes gguf__string(gguf_cur *c, const char *what) {
    uint64_t       n = gguf__count(c, what);
    const uint8_t *p = gguf__take(c, n, what);
    if (!p) return (bytes){(const uint8_t *)"", 0};
    if (c->nul && n && !p[n - 1]) n--;
    return (bytes){p, (size_t)n};
}

/* A key or a tensor name. */
static bytes gguf__name(gguf_cur *c, const char *what, uint64_t max) {
    uint64_t where = c->at;
    bytes    b = gguf__string(c, what);
    if (c->e->code) return b;
    if (!b.n || b.n > max) gguf__fail(c, where, "%s of %zu bytes, expected 1 to %llu", what, b.n, GGUF_U(max));
    for (size_t i = 0; i < b.n && !c->e->code;) {
        int len = utf8_len(b.p + i, b.n - i);
        if (!len || !b.p[i])
            gguf__fail(c, GGUF_U(b.p + i - c->p), "byte 0x%02x in %s, expected UTF-8 without NUL", b.p[i], what);
        i += (size_t)len;
    }
    return b;
}

/* --- metadata --- */

static void gguf__bools(gguf_cur *c, const gguf_kv *kv) {
    for (uint64_t i = 0; i < kv->n_bytes; i++)
        if (kv->data[i] > 1) {
            gguf__fail(c, GGUF_U(kv->data + i - c->p), "key %.*s holds bool %u, expected 0 or 1",
                       GGUF_SHOW(kv->key), kv->data[i]);
            return;
        }
}

/* Walks over strings and makes them private. False: one is longer than the file, or c->e is set. */
static bool gguf__walk(gguf_cur *c, gguf_strs *it) {
    bytes s;
    for (uint64_t end = c->at; it->left; end = min_u64(end + GGUF_HEAD_STEP, c->n)) {
        if (!gguf__own(c, end)) return false;
        it->end = c->p + end;
        while (gguf_strs_next(it, &s)) {}
        if (end == c->n) break;
    }
    return !it->left;
}

static void gguf__str_array(gguf_cur *c, gguf_kv *kv) {
    gguf_strs it = {.p = c->p + c->at, .left = kv->count, .v1 = c->v1, .nul = c->nul};
    if (!gguf__need(c, kv->count * (c->v1 ? 4 : 8), "an array of strings")) return;
    if (!gguf__walk(c, &it) && !c->e->code)
        gguf__fail(c, GGUF_U(it.p - c->p), "string %llu of %llu of key %.*s is longer than the file, expected it inside",
                   GGUF_U(kv->count - it.left), GGUF_U(kv->count), GGUF_SHOW(kv->key));
    kv->n_bytes = (uint64_t)(it.p - kv->data);
    c->at += kv->n_bytes;
}

static void gguf__array(gguf_cur *c, gguf_kv *kv) {
    uint64_t where = c->at;
    kv->elem = gguf__u32(c, "an element type");
    kv->count = gguf__count(c, "an array length");
    if (c->e->code) return;
    if (kv->elem == GGUF_ARR)
        gguf__fail(c, where, "key %.*s is an array of arrays, expected an array of numbers, bools or strings",
                   GGUF_SHOW(kv->key));
    else if (kv->elem > GGUF_F64)
        gguf__fail(c, where, "key %.*s has element type %u, expected 0 to 12", GGUF_SHOW(kv->key), kv->elem);
    else if (kv->count > GGUF_ARR_MAX)
        gguf__fail(c, where + 4, "key %.*s has %llu elements, expected at most %u", GGUF_SHOW(kv->key), GGUF_U(kv->count),
                   GGUF_ARR_MAX);
    kv->data = c->p + c->at;
    if (c->e->code) return;
    kv->n_bytes = kv->count * gguf__types[kv->elem].bytes;
    if (kv->elem == GGUF_STR) gguf__str_array(c, kv);
    else gguf__take(c, kv->n_bytes, "an array");
}

static void gguf__value(gguf_cur *c, gguf_kv *kv) {
    uint64_t where = c->at;
    kv->type = kv->elem = gguf__u32(c, "a value type");
    kv->at = c->at;
    kv->count = 1;
    if (kv->type > GGUF_F64) {
        gguf__fail(c, where, "key %.*s has value type %u, expected 0 to 12", GGUF_SHOW(kv->key), kv->type);
    } else if (kv->type == GGUF_ARR) {
        gguf__array(c, kv);
    } else if (kv->type == GGUF_STR) {
        bytes s = gguf__string(c, "a string");
        kv->data = s.p;
        kv->count = kv->n_bytes = s.n;
    } else {
        kv->n_bytes = gguf__types[kv->type].bytes;
        kv->data = gguf__take(c, kv->n_bytes, "a value");
    }
    if (!c->e->code && kv->elem == GGUF_BOOL) gguf__bools(c, kv);
}

/* Whether the strings of this file carry a final NUL, judged by its first key, which is next. */
static bool gguf__nul_ended(gguf_cur c) {
    err_t none = {0};
    c.e = &none;
    bytes first = gguf__string(&c, "a key");
    return first.n && !first.p[first.n - 1];
}

static void gguf__kvs(gguf_cur *c, gguf_file *g, uint64_t n) {
    g->nul = c->nul = n && g->version < 3 && gguf__nul_ended(*c);
    for (uint64_t i = 0; i < n && !c->e->code; i++) {
        g->kv = mem_reserve(g->kv, i, n, sizeof *g->kv);
        gguf_kv *kv = &g->kv[i];
        *kv = (gguf_kv){.key = gguf__name(c, "a key", GGUF_KEY_MAX)};
        gguf__value(c, kv);
        g->n_kv = i + 1;
    }
    if (c->e->code) return;
    const gguf_kv *dup = gguf_index_build(&g->keys, g->kv, sizeof *g->kv, g->n_kv);
    if (dup) gguf__fail(c, GGUF_U(dup->key.p - c->p), "key %.*s comes twice, expected once", GGUF_SHOW(dup->key));
}

/* --- lookups --- */

/* The metadata of this key; NULL: the file has none. */
static const gguf_kv *gguf_find(const gguf_file *g, const char *key) { return gguf_index_find(&g->keys, bytes_of(key)); }

/* The tensor of this name; NULL: the file has none. */
static const gguf_tensor *gguf_tensor_find(const gguf_file *g, const char *name) {
    return gguf_index_find(&g->names, bytes_of(name));
}

typedef struct {
    uint64_t mag;                    /* its magnitude                                                     */
    bool     neg;                    /* it is below zero                                                  */
} gguf__int;

/* An integer of any type; if `bools`, also a bool, as 0 or 1. */
static bool gguf__int_at(uint32_t type, const uint8_t *p, bool bools, gguf__int *out) {
    int64_t  s = 0;
    uint64_t u = 0;
    switch (type) {
    case GGUF_BOOL: if (!bools) return false; u = *p; break;
    case GGUF_U8:   u = *p; break;
    case GGUF_I8:   s = (int8_t)*p; break;
    case GGUF_U16:  memcpy(&u, p, 2); break;
    case GGUF_I16:  { int16_t v; memcpy(&v, p, 2); s = v; break; }
    case GGUF_U32:  memcpy(&u, p, 4); break;
    case GGUF_I32:  { int32_t v; memcpy(&v, p, 4); s = v; break; }
    case GGUF_U64:  memcpy(&u, p, 8); break;
    case GGUF_I64:  memcpy(&s, p, 8); break;
    default:        return false;
    }
    *out = (gguf__int){s < 0 ? -(uint64_t)s : u + (uint64_t)s, s < 0};
    return true;
}

/* F32 or F64; a double is rounded to the nearest float. */
static bool gguf__float_at(uint32_t type, const uint8_t *p, float *out) {
    double d;
    if (type == GGUF_F32) memcpy(out, p, 4);
    else if (type == GGUF_F64) memcpy(&d, p, 8), *out = (float)d;
    else return false;
    return true;
}

static int gguf__wrong_type(const gguf_file *g, const gguf_kv *kv, const char *want, err_t *e) {
    const char *of = kv->type == GGUF_ARR ? " of " : "", *elem = kv->type == GGUF_ARR ? gguf_type_name(kv->elem) : "";
    gguf_bad(g, kv->part, kv->at, e, "%.*s is of type %s%s%s, expected %s", GGUF_SHOW(kv->key),
             gguf_type_name(kv->type), of, elem, want);
    return -1;
}

/* Whether a number is in lo..hi: 1, else -1, and e is set. */
static int gguf__in_range(const gguf_file *g, const gguf_kv *kv, double v, double lo, double hi, err_t *e) {
    if (v >= lo && v <= hi) return 1;
    gguf_bad(g, kv->part, kv->at, e, "%.*s is %.9g, expected %.9g to %.9g", (int)kv->key.n, (const char *)kv->key.p, v, lo, hi);
    return -1;
}

/* Typed lookups. 1: found; 0: no such key, *out unchanged; -1: wrong type or out of lo..hi, and e is set. An integer of any
 * type. */
static int gguf_get_u64(const gguf_file *g, const char *key, uint64_t lo, uint64_t hi, uint64_t *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    gguf__int      v;
    if (!kv) return 0;
    if (!gguf__int_at(kv->type, kv->data, false, &v)) return gguf__wrong_type(g, kv, "an integer", e);
    if (v.neg || v.mag < lo || v.mag > hi) {
        gguf_bad(g, kv->part, kv->at, e, "%s is %s%llu, expected %llu to %llu", key, v.neg ? "-" : "",
                 GGUF_U(v.mag), GGUF_U(lo), GGUF_U(hi));
        return -1;
    }
    *out = v.mag;
    return 1;
}

/* Any integer or float as a double; an f64 is rounded to f32 first. Out of lo..hi *out is set all the same. */
static int gguf_get_number(const gguf_file *g, const char *key, double lo, double hi, double *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    gguf__int      v;
    float          f;
    if (!kv) return 0;
    if (gguf__int_at(kv->type, kv->data, false, &v)) *out = v.neg ? -(double)v.mag : (double)v.mag;
    else if (gguf__float_at(kv->type, kv->data, &f)) *out = (double)f;
    else return gguf__wrong_type(g, kv, "a number", e);
    return gguf__in_range(g, kv, *out, lo, hi, e);
}

/* F32, or F64 rounded to it; NaN is out of every range. */
static int gguf_get_f32(const gguf_file *g, const char *key, float lo, float hi, float *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    float          v;
    if (!kv) return 0;
    if (!gguf__float_at(kv->type, kv->data, &v)) return gguf__wrong_type(g, kv, "f32", e);
    const int got = gguf__in_range(g, kv, (double)v, (double)lo, (double)hi, e);
    if (got > 0) *out = v;
    return got;
}

/* A bool and nothing else. */
static int gguf_get_bool(const gguf_file *g, const char *key, bool *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_BOOL) return gguf__wrong_type(g, kv, "bool", e);
    *out = kv->data[0] != 0;
    return 1;
}

/* A view of the string's bytes, which gguf_open() has not checked to be UTF-8. */
static int gguf_get_str(const gguf_file *g, const char *key, bytes *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_STR) return gguf__wrong_type(g, kv, "a string", e);
    *out = (bytes){kv->data, (size_t)kv->count};
    return 1;
}

/* An array of any type: *out is the key, whose elements gguf_arr_u64(), gguf_arr_f32() and gguf_strs_of() read. */
static int gguf_get_arr(const gguf_file *g, const char *key, const gguf_kv **out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_ARR) return gguf__wrong_type(g, kv, "an array", e);
    *out = kv;
    return 1;
}

/* Element i of an array of integers or bools. False: no such array, no such element, or a negative one. */
static bool gguf_arr_u64(const gguf_kv *kv, uint64_t i, uint64_t *out) {
    gguf__int v;
    if (kv->type != GGUF_ARR || i >= kv->count) return false;
    if (!gguf__int_at(kv->elem, kv->data + i * gguf__types[kv->elem].bytes, true, &v) || v.neg) return false;
    *out = v.mag;
    return true;
}

/* Element i of an array of floats. False: no such array, no such element, or NaN. */
static bool gguf_arr_f32(const gguf_kv *kv, uint64_t i, float *out) {
    if (kv->type != GGUF_ARR || i >= kv->count) return false;
    return gguf__float_at(kv->elem, kv->data + i * gguf__types[kv->elem].bytes, out) && !isnan(*out);
}

/* The strings of an array of strings; none if it holds something else. */
static gguf_strs gguf_strs_of(const gguf_file *g, const gguf_kv *kv) {
    const bool strs = kv->type == GGUF_ARR && kv->elem == GGUF_STR;
    return (gguf_strs){.p = kv->data, .end = kv->data + (strs ? kv->n_bytes : 0), .left = strs ? kv->count : 0,
                       .v1 = g->version == 1, .nul = g->nul};
}

/* --- tensor directory --- */

/* Length of the name of the plain type whose rows an interleaved one holds, like iq4_k of iq4_k_r4; 0: it is none. */
static int gguf__plain(const char *name) {
    const char *end = name ? strrchr(name, '_') : NULL;
    return end && end[1] == 'r' && isdigit((unsigned char)end[2]) ? (int)(end - name) : 0;
}

/* The error for an unreadable type, with the name that a program has given to its number. */
static bool gguf__type_refused(gguf_cur *c, uint64_t at, const gguf_tensor *t) {
    const char *gone = t->type < K_TYPE_MAX ? k_types[t->type].name : NULL, *name = gone ? gone : k_type_foreign(t->type);
    if (gguf__plain(name))
        return gguf__fail(c, at, "tensor %.*s has type %u (%s: rows interleaved for ik_llama.cpp), expected the plain type %.*s",
                          GGUF_SHOW(t->name), t->type, name, gguf__plain(name), name);
    return gguf__fail(c, at, "tensor %.*s has type %u (%s), expected one that is defined and not removed", GGUF_SHOW(t->name),
                      t->type, name ? name : "unknown");
}

/* Bytes of I2_S after the rows: the scale of the tensor, and what pads it. */
enum { GGUF_I2S_TAIL = 32 };

/* Bytes of the data of a tensor of rows of whole blocks; false: beyond 63 bits. */
static bool gguf_tensor_bytes(uint32_t type, const uint64_t dim[4], uint64_t *n_bytes) {
    uint64_t       n = dim[0], rows = 1;
    bool           wraps = n > INT64_MAX;
    const uint64_t row = wraps ? 0 : k_row_bytes(type, (int64_t)n);
    for (int i = 1; i < 4; i++) wraps |= __builtin_mul_overflow(rows, dim[i], &rows);
    wraps |= !row || __builtin_mul_overflow(n, rows, &n) || n > INT64_MAX || __builtin_mul_overflow(rows, row, n_bytes);
    wraps |= __builtin_add_overflow(*n_bytes, type == K_I2_S ? GGUF_I2S_TAIL : 0, n_bytes);
    return !wraps && *n_bytes <= INT64_MAX;
}

/* Sets a tensor's bytes. False: rows of partial blocks, or a size beyond 63 bits. */
static bool gguf__size(gguf_cur *c, uint64_t where, gguf_tensor *t) {
    const k_type *k = &k_types[t->type];
    if (t->dim[0] % k->block)
        return gguf__fail(c, where, "tensor %.*s has rows of %llu, expected a multiple of %u for type %s",
                          GGUF_SHOW(t->name), GGUF_U(t->dim[0]), k->block, k->name);
    if (!gguf_tensor_bytes(t->type, t->dim, &t->n_bytes))
        return gguf__fail(c, where, "tensor %.*s is %llu x %llu x %llu x %llu, expected a size below 2^63",
                          GGUF_SHOW(t->name), GGUF_U(t->dim[0]), GGUF_U(t->dim[1]), GGUF_U(t->dim[2]), GGUF_U(t->dim[3]));
    return true;
}

/* The factor on all values of a tensor that stands after its rows; 1: there is none. */
static float gguf_scale(const gguf_tensor *t) {
    float scale = 1;
    if (t->type == K_I2_S) memcpy(&scale, t->data + t->n_bytes - GGUF_I2S_TAIL, sizeof scale);
    return scale;
}

/* x = n values of row `row`, from value `at` on: whole blocks of a tensor of any type. The data are filled (gguf_fill). */
static void gguf_floats(const gguf_tensor *t, uint64_t row, uint64_t at, float *x, uint64_t n) {
    k_dequant_part(t->type, t->data + row * k_row_bytes(t->type, (int64_t)t->dim[0]), (int64_t)at, x, (int64_t)n);
    const float scale = gguf_scale(t);
    for (uint64_t i = 0; scale != 1 && i < n; i++) x[i] *= scale;
}

static void gguf__dims(gguf_cur *c, gguf_tensor *t) {
    uint64_t where = c->at;
    t->n_dims = gguf__u32(c, "a number of dimensions");
    if (!c->e->code && (t->n_dims < 1 || t->n_dims > 4))
        gguf__fail(c, where, "tensor %.*s has %u dimensions, expected 1 to 4", GGUF_SHOW(t->name), t->n_dims);
    for (uint32_t i = 0; i < 4; i++) t->dim[i] = 1;
    for (uint32_t i = 0; i < t->n_dims && !c->e->code; i++) {
        where = c->at;
        t->dim[i] = gguf__count(c, "a dimension");
        if (!c->e->code && (t->dim[i] < 1 || t->dim[i] > INT64_MAX))
            gguf__fail(c, where, "tensor %.*s has dimension %llu, expected 1 to 2^63 - 1", GGUF_SHOW(t->name),
                       GGUF_U(t->dim[i]));
    }
}

/* Reads one entry. `at` holds the offset into the tensor data until gguf__place makes it an offset into the file. */
static void gguf__tensor(gguf_cur *c, gguf_tensor *t) {
    *t = (gguf_tensor){.name = gguf__name(c, "a tensor name", GGUF_NAME_MAX)};
    uint64_t where = c->at;
    if (!c->e->code) gguf__dims(c, t);
    uint64_t type_at = c->at;
    t->type = gguf__u32(c, "a tensor type");
    if (c->e->code) return;
    if (!k_type_ok(t->type)) gguf__type_refused(c, type_at, t);
    t->at = gguf__number(c, 8, "a tensor offset");
    if (!c->e->code) gguf__size(c, where, t);
}

/* File offset of the end of the tensor data, which begin at `start`; UINT64_MAX: beyond 63 bits. */
static uint64_t gguf__data_end(const gguf_file *g, uint64_t start) {
    uint64_t last = 0, end;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        const bool wraps = __builtin_add_overflow(start, t->at, &end) || __builtin_add_overflow(end, t->n_bytes, &end);
        if (wraps || end > INT64_MAX) return UINT64_MAX;
        last = max_u64(end, last);
    }
    return last;
}

/* Checks and places the data of all tensors: they begin at the next multiple of the alignment, in the order of the directory. */
static void gguf__place(gguf_cur *c, gguf_file *g) {
    uint64_t start = (c->at + g->align - 1) & ~(g->align - 1), free_at = 0;
    uint64_t need = gguf__data_end(g, start);
    if (need > c->n && need < UINT64_MAX)
        gguf__fail(c, c->n, "the file ends at %llu bytes, its tensors need %llu, expected a whole file", GGUF_U(c->n),
                   GGUF_U(need));
    for (uint64_t i = 0; i < g->n_tensor && !c->e->code; i++) {
        gguf_tensor *t = &g->tensor[i];
        uint64_t     where = GGUF_U(t->name.p - c->p), data_bytes = c->n > start ? c->n - start : 0, off = t->at;
        if (off % g->align)
            gguf__fail(c, where, "tensor %.*s has offset %llu, expected a multiple of %llu", GGUF_SHOW(t->name),
                       GGUF_U(off), GGUF_U(g->align));
        else if (off > data_bytes || t->n_bytes > data_bytes - off)
            gguf__fail(c, where, "tensor %.*s has %llu bytes at offset %llu, expected them within %llu bytes of tensor data",
                       GGUF_SHOW(t->name), GGUF_U(t->n_bytes), GGUF_U(off), GGUF_U(data_bytes));
        else if (off < free_at)
            gguf__fail(c, where, "tensor %.*s has offset %llu, expected at least %llu, the end of the tensor before it",
                       GGUF_SHOW(t->name), GGUF_U(off), GGUF_U(free_at));
        if (c->e->code) return;
        free_at = off + t->n_bytes;
        t->at = start + off;
        t->data = c->p + t->at;
    }
}

/* Whether the file is one of bitnet.cpp, where 36 is I2_S: elsewhere it was IQ4_NL_4_4, which is removed. */
static bool gguf__is_bitnet(const gguf_file *g) {
    enum { MOSTLY_I2_S = 40 };
    const gguf_kv *arch = gguf_find(g, "general.architecture"), *kind = gguf_find(g, "general.file_type");
    uint32_t       v = 0;
    if (kind && kind->type == GGUF_U32) memcpy(&v, kind->data, sizeof v);
    return v == MOSTLY_I2_S ||
           (arch && arch->type == GGUF_STR && bytes_begins((bytes){arch->data, arch->n_bytes}, bytes_of("bitnet")));
}

static void gguf__tensors(gguf_cur *c, gguf_file *g, uint64_t n) {
    for (uint64_t i = 0; i < n && !c->e->code; i++) {
        g->tensor = mem_reserve(g->tensor, i, n, sizeof *g->tensor);
        gguf__tensor(c, &g->tensor[i]);
        g->n_tensor = i + 1;
        const gguf_tensor *t = &g->tensor[i];
        if (!c->e->code && t->type == K_I2_S && !gguf__is_bitnet(g))
            gguf__fail(c, (uint64_t)(t->name.p - c->p),
                       "tensor %.*s has type 36, which is iq4_nl_4_4 (removed) but for files of bitnet.cpp, expected "
                       "general.architecture bitnet, or general.file_type 40, for i2_s", GGUF_SHOW(t->name));
    }
    if (!c->e->code) gguf__place(c, g);
}

/* --- one file --- */

/* Names the kind of a file that is known not to be GGUF by its first bytes; NULL: not known. */
static const char *gguf__known_kind(bytes b) {
    static const struct { const char *begins, *kind; } texts[] = {
        {"version https://git-lfs", "a Git LFS pointer to a file that was not fetched"},
        {"<!DOCTYPE", "an HTML page"}, {"<!doctype", "an HTML page"}, {"<html", "an HTML page"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (b.n >= strlen(texts[i].begins) && !memcmp(b.p, texts[i].begins, strlen(texts[i].begins))) return texts[i].kind;
    return bytes_kind(b);
}

/* Names the format of a wrong magic. */
static const char *gguf__magic_name(const uint8_t *p) {
    static const struct { const char *magic, *name; } others[] = {
        {"FUGG", "GGUF with its bytes swapped"}, {"tjgg", "ggjt, older than GGUF"},
        {"fmgg", "ggmf, older than GGUF"},       {"lmgg", "ggml, older than GGUF"},
        {"algg", "a ggla adapter"},              {"\0\0\0\0", "zeros"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!memcmp(p, others[i].magic, 4)) return others[i].name;
    return "not a GGUF file";
}

static void gguf__version(gguf_cur *c, gguf_file *g) {
    const uint8_t *magic = gguf__take(c, 4, "the magic GGUF");
    const char    *kind = magic ? gguf__known_kind((bytes){c->p, min_size((size_t)c->n, GGUF_HEAD_STEP)}) : NULL;
    const bool     other = magic && memcmp(magic, "GGUF", 4);
    if (other && kind) gguf__fail(c, 0, "is %s, expected a GGUF file", kind);
    else if (other)
        gguf__fail(c, 0, "begins with %02x %02x %02x %02x (%s), expected the magic GGUF", magic[0], magic[1],
                   magic[2], magic[3], gguf__magic_name(magic));
    g->version = gguf__u32(c, "the version");
    if (c->e->code || (g->version >= 1 && g->version <= 3)) return;
    if (__builtin_bswap32(g->version) <= 3 && g->version)
        gguf__fail(c, 4, "is big-endian (version 0x%08x), expected little-endian", g->version);
    else gguf__fail(c, 4, "version %u, expected 1, 2 or 3", g->version);
}

/* A number of entries of at least `each` bytes. */
static uint64_t gguf__entries(gguf_cur *c, const char *what, uint64_t each) {
    uint64_t where = c->at, n = gguf__count(c, what);
    if (c->e->code) return 0;
    const uint64_t most = min_u64((c->n - c->at) / each, GGUF_COUNT_MAX);
    if (n > most)
        gguf__fail(c, where, "%s is %llu, expected at most %llu in what is left of the file", what, GGUF_U(n), GGUF_U(most));
    return n;
}

static void gguf__alignment(gguf_cur *c, gguf_file *g) {
    const gguf_kv *kv = gguf_find(g, "general.alignment");
    uint32_t       v = 32;
    if (kv && kv->type != GGUF_U32) {
        gguf__wrong_type(g, kv, "u32", c->e);
        return;
    }
    if (kv) memcpy(&v, kv->data, 4);
    if (v < 8 || v > GGUF_ALIGN_MAX || (v & (v - 1)))
        gguf__fail(c, kv->at, "general.alignment is %u, expected a power of two from 8 to %u", v, GGUF_ALIGN_MAX);
    g->align = v;
}

/* Reads the first part, g->part[0]; the index of tensor names is built later. */
static bool gguf__read(gguf_file *g, err_t *e) {
    gguf_part *part = &g->part[0];
    gguf_cur   c = {.p = part->p, .n = part->n, .part = part, .e = e};
    gguf__version(&c, g);
    c.v1 = g->version == 1;
    uint64_t n_tensor = gguf__entries(&c, "the number of tensors", c.v1 ? 25 : 33);
    uint64_t n_kv = gguf__entries(&c, "the number of keys", c.v1 ? 10 : 14);
    if (!e->code) gguf__kvs(&c, g, n_kv);
    if (!e->code) gguf__alignment(&c, g);
    if (!e->code) gguf__tensors(&c, g, n_tensor);
    return !e->code && gguf__disown(part, (size_t)c.at, e);
}

static bool gguf__name_index(gguf_file *g, err_t *e) {
    const gguf_tensor *dup = gguf_index_build(&g->names, g->tensor, sizeof *g->tensor, g->n_tensor);
    if (!dup) return true;
    uint64_t at = (uint64_t)(dup->name.p - g->part[dup->part].p);
    return gguf_bad(g, dup->part, at, e, "tensor %.*s comes twice, expected once", GGUF_SHOW(dup->name));
}

/* --- mappings, and the signal when a page of one cannot be had --- */

static struct {
    _Atomic uintptr_t from;          /* its first byte; 0: free                                           */
    size_t            n;             /* bytes                                                             */
    int               fd;            /* of the file                                                       */
    const char       *path;          /* for the message                                                   */
} gguf__maps[GGUF_MAPS_MAX];
static size_t gguf__page;            /* bytes of a page of memory */

/* Appends a text, or its first bytes, to a line of `most` bytes. Async-signal-safe. */
static void gguf__say(char *line, size_t *n, size_t most, const char *text) {
    while (*text && *n < most) line[(*n)++] = *text++;
}

/* Why a page of a file that begins at byte `at` cannot be read: the file has no such byte, or the disk failed.
 * Async-signal-safe. */
static void gguf__say_why(char *line, size_t *n, size_t most, int fd, size_t at) {
    struct stat st;
    char        digits[24], *d = digits + sizeof digits - 1;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size <= at) {
        gguf__say(line, n, most, ": became shorter while it was mapped, expected it to stay as it was\n");
        return;
    }
    *d = 0;
    do *--d = (char)('0' + at % 10);
    while (at /= 10);
    gguf__say(line, n, most, ": I/O error while it was read, expected a readable file (at byte ");
    gguf__say(line, n, most, d);
    gguf__say(line, n, most, ")\n");
}

/* SIGBUS: a page of a mapping cannot be had, since the file became shorter or the disk failed. Async-signal-safe. */
static void gguf__sigbus(int sig, siginfo_t *info, void *context) {
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < GGUF_MAPS_MAX; i++) {
        uintptr_t from = atomic_load(&gguf__maps[i].from);
        if (!from || at < from || at - from >= gguf__maps[i].n) continue;
        while (atomic_flag_test_and_set(&reported)) pause();   /* several threads may fault: the first one reports */
        char   line[PATH_MAX + 256] = "llmrun: ";
        size_t n = strlen(line);
        n += utf8_visible((const uint8_t *)gguf__maps[i].path, strlen(gguf__maps[i].path), true, line + n, PATH_MAX);
        gguf__say_why(line, &n, sizeof line, gguf__maps[i].fd, (at - from) & ~(gguf__page - 1));
        progress_clear();
        if (write(STDERR_FILENO, line, n) < 0) {}
        out_sweep();
        _exit(EXIT_RESOURCE);
    }
    signal(sig, SIG_DFL);                             /* no mapping of ours: the default action */
    raise(sig);
}

static int gguf__register_map(const gguf_part *part) {
    static bool installed;
    if (!installed) {
        struct sigaction act = {.sa_sigaction = gguf__sigbus, .sa_flags = SA_SIGINFO};
        sigemptyset(&act.sa_mask);
        gguf__page = gguf__pages(1);
        installed = sigaction(SIGBUS, &act, NULL) == 0;
    }
    for (int i = 0; i < GGUF_MAPS_MAX; i++) {
        if (atomic_load(&gguf__maps[i].from)) continue;
        gguf__maps[i].n = part->n;
        gguf__maps[i].fd = part->fd;
        gguf__maps[i].path = part->path;
        atomic_store(&gguf__maps[i].from, (uintptr_t)part->p);
        return i;
    }
    return -1;
}

/* What a path names that is no regular file. */
static const char *gguf_file_kind(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "not a file";
}

/* Maps a part; `what` it is, for errors. O_NONBLOCK: a pipe without a writer does not block. */
static bool gguf__map(gguf_part *part, const char *what, err_t *e) {
    struct stat st;
    part->fd = open(part->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (part->fd < 0) return gguf__failed(part->path, "open", e);
    if (fstat(part->fd, &st)) return gguf__failed(part->path, "stat", e);
    if (!S_ISREG(st.st_mode))
        return gguf_refuse(e, EXIT_INPUT, part->path, "is %s, expected %s", gguf_file_kind(st.st_mode), what);
    if (st.st_size == 0) return gguf_refuse(e, EXIT_INPUT, part->path, "is empty, expected %s", what);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, part->fd, 0);
    if (p == MAP_FAILED) return gguf__failed(part->path, "map", e);
    part->p = p;
    part->n = (size_t)st.st_size;
    madvise(p, part->n, MADV_WILLNEED);
    part->map = gguf__register_map(part);
    if (part->map < 0)
        return gguf_refuse(e, EXIT_RESOURCE, part->path, "cannot be mapped, expected at most %d mapped files", GGUF_MAPS_MAX);
    return true;
}

static void gguf__unmap(gguf_part *part) {
    if (part->map >= 0) atomic_store(&gguf__maps[part->map].from, (uintptr_t)0);
    if (part->fd >= 0) {
        if (part->p) munmap((void *)(uintptr_t)part->p, part->n);
        close(part->fd);
    }
    mem_free_all(part->path, part->own_memory);
}

/* --- files --- */

enum { GGUF_SAMPLE = 4096 };                          /* bytes of a tensor's beginning, middle and end */

/* A hash that identifies a model: of all metadata, of the directory, and of three samples of GGUF_SAMPLE bytes of every
 * tensor. Copies and splits of a file have the same fingerprint. A change of weights between the samples is not noticed, so it
 * does not protect against models that are made to have the same fingerprint. */
static uint64_t gguf_fingerprint(const gguf_file *g) {
    uint64_t h = rng_mix(g->n_tensor);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        if (kv->key.n > 6 && memcmp(kv->key.p, "split.", 6) == 0) continue;
        h = bytes_hash(bytes_hash(h, kv->key), (bytes){kv->data, (size_t)kv->n_bytes});
    }
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        const size_t       n = (size_t)t->n_bytes, some = min_size(n, GGUF_SAMPLE);
        h = rng_mix(bytes_hash(h, t->name) ^ t->type);
        h = bytes_hash(h, (bytes){(const uint8_t *)t->dim, sizeof t->dim});
        for (int k = 0; k < 3; k++) h = bytes_hash(h, (bytes){t->data + (n - some) / 2 * (size_t)k, some});
    }
    return h;
}

/* Unmaps the files and frees the directory; a zeroed g is closed. */
static void gguf_close(gguf_file *g) {
    for (int i = 0; i < g->n_parts; i++) gguf__unmap(&g->part[i]);
    if (g->maker) g->maker->drop(g->maker);
    mem_free_all(g->part, g->kv, g->tensor, g->keys.slot, g->names.slot);
    *g = (gguf_file){0};
}

static void gguf__init(gguf_file *g, const char *path) {
    *g = (gguf_file){.part = mem_new(1, sizeof *g->part), .n_parts = 1};
    g->part[0] = (gguf_part){.path = str_dup(path), .fd = -1, .map = -1};
    g->path = g->part[0].path;
}

static bool gguf__load(gguf_file *g, const char *path, err_t *e) {
    gguf__init(g, path);
    if (!gguf__map(&g->part[0], "a GGUF file", e)) return false;
    g->n_bytes = g->part[0].n;
    return gguf__read(g, e);
}

/* --- split files: NAME-00001-of-0000N.gguf and so on. The first part has the metadata, the others only the split
 * keys; each has its own tensors (tools/gguf-split of llama.cpp). --- */

typedef struct {
    uint64_t no;                     /* of this part, from 0                                              */
    uint64_t count;                  /* parts                                                             */
    uint64_t tensors;                /* of all parts, UINT64_MAX: not given                               */
} gguf_split;

static bool gguf__split_keys(const gguf_file *g, gguf_split *s, err_t *e) {
    const uint64_t most = (uint64_t)GGUF_COUNT_MAX * GGUF_PARTS_MAX;
    *s = (gguf_split){0, 1, UINT64_MAX};
    return gguf_get_u64(g, "split.count", 1, GGUF_PARTS_MAX, &s->count, e) >= 0
        && gguf_get_u64(g, "split.no", 0, s->count - 1, &s->no, e) >= 0
        && gguf_get_u64(g, "split.tensors.count", 0, most, &s->tensors, e) >= 0;
}

/* The path of part `no` (from 0), from the path of part `of`. False: that path does not have the form of a part's. */
static bool gguf__part_path(const char *path, uint64_t of, uint64_t no, uint64_t count, str *out) {
    char   tail[2][48];
    size_t n = strlen(path);
    for (int i = 0; i < 2; i++)
        snprintf(tail[i], sizeof tail[i], "-%05llu-of-%05llu.gguf", GGUF_U((i ? no : of) + 1), GGUF_U(count));
    size_t cut = strlen(tail[0]);
    if (n <= cut || strcmp(path + n - cut, tail[0])) return false;
    str_clear(out);
    str_add(out, path, n - cut);
    str_put(out, tail[1]);
    return true;
}

/* The path of part `no` (from 0) of the split file whose first part has this path. False: by its name it is none, or has not so
 * many. */
static bool gguf_other_part(const char *path, uint64_t no, str *out) {
    unsigned long count = 0;
    const size_t  n = strlen(path), tail = strlen("00001.gguf");
    if (n > tail) count = strtoul(path + n - tail, NULL, 10);
    return no < count && count <= GGUF_PARTS_MAX && gguf__part_path(path, 0, no, count, out);
}

static bool gguf__not_first(const gguf_file *g, const gguf_split *s, err_t *e) {
    str first = {0};
    if (!gguf__part_path(g->path, s->no, 0, s->count, &first)) str_put(&first, "the first one");
    gguf_refuse(e, EXIT_INPUT, g->path, "is part %llu of %llu, expected %.180s", GGUF_U(s->no + 1), GGUF_U(s->count), first.p);
    str_drop(&first);
    return false;
}

/* Moves a part's file and tensors to g; its metadata are no longer needed. */
static void gguf__join(gguf_file *g, gguf_file *one) {
    g->part = mem_grow(g->part, (size_t)g->n_parts + 1, sizeof *g->part);
    g->part[g->n_parts] = one->part[0];
    one->n_parts = 0;
    g->tensor = mem_grow(g->tensor, g->n_tensor + one->n_tensor, sizeof *g->tensor);
    for (uint64_t i = 0; i < one->n_tensor; i++) {
        one->tensor[i].part = g->n_parts;
        g->tensor[g->n_tensor + i] = one->tensor[i];
    }
    g->n_tensor += one->n_tensor;
    g->n_bytes += one->n_bytes;
    g->n_parts++;
}

static bool gguf__part_fits(const gguf_file *one, const gguf_split *want, uint64_t no, err_t *e) {
    gguf_split s;
    if (!gguf__split_keys(one, &s, e)) return false;
    if (s.count != want->count || s.no != no)
        return gguf_refuse(e, EXIT_INPUT, one->path, "says it is part %llu of %llu, expected part %llu of %llu",
                            GGUF_U(s.no + 1), GGUF_U(s.count), GGUF_U(no + 1), GGUF_U(want->count));
    if (s.tensors != want->tensors)
        return gguf_refuse(e, EXIT_INPUT, one->path, "says there are %llu tensors in all, expected %llu as in the first part",
                           GGUF_U(s.tensors), GGUF_U(want->tensors));
    return true;
}

static bool gguf__other_parts(gguf_file *g, const gguf_split *s, err_t *e) {
    str path = {0};
    for (uint64_t no = 1; no < s->count && !e->code; no++) {
        gguf_file one = {0};
        if (!gguf__part_path(g->path, 0, no, s->count, &path))
            gguf_refuse(e, EXIT_INPUT, g->path, "is the first of %llu parts, expected a name that ends in -00001-of-%05llu.gguf",
                        GGUF_U(s->count), GGUF_U(s->count));
        else if (gguf__load(&one, path.p, e) && gguf__part_fits(&one, s, no, e)) gguf__join(g, &one);
        gguf_close(&one);
    }
    str_drop(&path);
    return !e->code;
}

/* After the first part: opens the others, if there are any, and checks what concerns all of them. */
static bool gguf__open_rest(gguf_file *g, bool on_disk, err_t *e) {
    gguf_split s;
    if (!gguf__split_keys(g, &s, e)) return false;
    if (s.no) return gguf__not_first(g, &s, e);
    if (s.count > 1 && !on_disk)
        return gguf_refuse(e, EXIT_INPUT, g->path, "is the first of %llu parts, expected all of them", GGUF_U(s.count));
    if (!gguf__other_parts(g, &s, e) || !gguf__name_index(g, e)) return false;
    if (s.tensors != UINT64_MAX && s.tensors != g->n_tensor)
        return gguf_refuse(e, EXIT_INPUT, g->path, "%llu tensors in %d parts, expected %llu as split.tensors.count says",
                           GGUF_U(g->n_tensor), g->n_parts, GGUF_U(s.tensors));
    return true;
}

/* Maps and checks a model file and, if it is the first of several, its other parts. On failure e is set and nothing
 * stays open. */
static bool gguf_open(gguf_file *g, const char *path, err_t *e) {
    if (gguf__load(g, path, e) && gguf__open_rest(g, true, e)) return true;
    gguf_close(g);
    return false;
}

/* The same for n bytes in memory, which must outlive g: for tests and fuzzers. `label` is the path in errors. */
static bool gguf_parse(gguf_file *g, const uint8_t *p, size_t n, const char *label, err_t *e) {
    gguf__init(g, label);
    g->part[0].p = p;
    g->part[0].n = g->n_bytes = n;
    if (gguf__read(g, e) && gguf__open_rest(g, false, e)) return true;
    gguf_close(g);
    return false;
}

/* Adds a part of n bytes in memory, which outlive g. `label` is its path in errors. */
static gguf_part *gguf__add_part(gguf_file *g, const uint8_t *p, size_t n, const char *label) {
    g->part = mem_grow(g->part, (size_t)g->n_parts + 1, sizeof *g->part);
    g->part[g->n_parts] = (gguf_part){.path = str_dup(label), .p = p, .n = n, .fd = -1, .map = -1};
    g->n_bytes += n;
    g->path = g->part[0].path;
    return &g->part[g->n_parts++];
}

/* Maps a file as a further part of g; `what` is expected of it. On failure e is set, and gguf_close() frees what there is. */
static bool gguf_map_part(gguf_file *g, const char *path, const char *what, err_t *e) {
    gguf_part *part = gguf__add_part(g, NULL, 0, path);
    if (!gguf__map(part, what, e)) return false;
    g->n_bytes += part->n;
    return true;
}

/* Gives a file without tensors these ones, which it owns; data lie in its parts or in the maker's room. On failure e is set. */
static bool gguf_set_tensors(gguf_file *g, gguf_tensor *tensor, uint64_t n, err_t *e) {
    mem_free_all(g->tensor, g->names.slot);
    g->tensor = tensor;
    g->n_tensor = n;
    const gguf_tensor *dup = gguf_index_build(&g->names, tensor, sizeof *tensor, n);
    return !dup || gguf_bad(g, dup->part, dup->at, e, "tensor %.*s comes twice, expected once", GGUF_SHOW(dup->name));
}

/* Rows [from, to) of all matrices of t, counted through, are wanted; team: a pool that may make them, or NULL. */
static void gguf_fill(const gguf_file *g, const gguf_tensor *t, uint64_t from, uint64_t to, void *team) {
    if (t->made && from < to) g->maker->fill(g->maker, t, from, to, team);
}

/* Whether every mapped file still has its size; e names one that has not. One fstat for each part: cheap enough for every
 * step. */
static bool gguf_alive(const gguf_file *g, err_t *e) {
    struct stat st;
    for (int i = 0; i < g->n_parts; i++) {
        const gguf_part *p = &g->part[i];
        if (p->fd >= 0 && fstat(p->fd, &st)) return gguf__failed(p->path, "stat", e);
        if (p->fd >= 0 && (uint64_t)st.st_size < p->n)
            return err_set(e, EXIT_RESOURCE, "%s: the file became shorter while it was in use", p->path);
    }
    return true;
}

/* Gives the pages of n bytes of the mapping back to the kernel, unless they are a copy. A later read loads them again. */
static void gguf_drop_pages(const gguf_file *g, const uint8_t *p, size_t n) {
    const uintptr_t page = gguf__pages(1), to = ((uintptr_t)p + n) & ~(page - 1), up = gguf__pages((uintptr_t)p);
    for (int i = 0; i < g->n_parts; i++) {
        const gguf_part *part = &g->part[i];
        const uintptr_t  own = (uintptr_t)part->p + part->own, from = up > own ? up : own;
        if (part->fd >= 0 && p >= part->p && p < part->p + part->n && from < to) madvise((void *)from, to - from, MADV_DONTNEED);
    }
    const gguf_maker *m = g->maker;
    if (m && m->again && m->room && p >= m->room && p < m->room + m->room_bytes && up < to)
        madvise((void *)up, to - up, MADV_DONTNEED);
}

/* Of n bytes of the mapping, pages are read alone and not before they are wanted: of them all few ever are. */
static void gguf_scatter(const gguf_file *g, const uint8_t *p, size_t n) {
    const uintptr_t page = gguf__pages(1), from = gguf__pages((uintptr_t)p), to = ((uintptr_t)p + n) & ~(page - 1);
    for (int i = 0; i < g->n_parts; i++) {
        const gguf_part *part = &g->part[i];
        if (part->fd >= 0 && p >= part->p && p < part->p + part->n && from < to) madvise((void *)from, to - from, MADV_RANDOM);
    }
}
