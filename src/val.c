/* ===== [val] values of templates and JSON =====
 * What a chat template computes with, as Python 3.11 has it: None, booleans, integers of 64 bits, floats, strings, lists,
 * tuples, dicts that keep their order, ranges; arithmetic, comparison, printed forms, JSON. An integer of JSON beyond 64
 * bits keeps its digits: it is printed and compared, and arithmetic refuses it. Each character of a string carries its
 * origin (VAL_INPUT).
 * Invariants: all memory of a rendering is in its val_env and ends with it; a string never changes; sizes are checked before
 * they are made; nothing recurses, so that nested values need no stack. An error leaves the function through val_fail
 * (longjmp to val_run); so no function here returns one, and a caller keeps no heap memory of its own across a call.
 * Public: val_env_init, val_env_drop, val_fail, val_run, val_step, val_step_chars, val_room, val_alloc, val_undef, val_none,
 * val_bool, val_int, val_float, val_str_view, val_of_list, val_of_dict, val_of_object, val_view_of, val_range_of, val_bind,
 * val_of_func, val_iter_of, val_buf_new, val_buf_reserve, val_buf_chr, val_buf_add, val_buf_put, val_buf_str, val_sub,
 * val_text, val_str_of, val_str_eq, val_str_is, val_is_str, val_find, val_encode, val_utf8, val_spans_drop, val_spans_add,
 * val_utf8_from, val_quote, val_list_new, val_tuple_new, val_list_add, val_chars_find, val_is, val_kind_name, val_truth,
 * val_has_len, val_len, val_is_negative, val_trunc, val_eq, val_dict_new, val_dict_set, val_dict_get, val_dict_del, val_get,
 * val_put, val_defined, val_order, val_entry, val_items, val_iterable, val_in, val_copy, val_index, val_slice, val_escape,
 * val_join, val_add, val_minus, val_mul, val_div, val_floordiv, val_mod, val_neg, val_pos, val_float_repr, val_put_int,
 * val_print, val_as_str, val_sort_pairs, val_json_write, val_json_parse, val_json_read.
 * Opens: val, val_str, val_buf, val_list, val_dict, val_pair, val_iter, val_func, val_class, val_object, val_args, val_env,
 * val_span, val_spans, val_json_form. */

/* One character: a Unicode code point; VAL_BYTE + b is a byte b that belongs to no UTF-8 character. VAL_INPUT says where
 * it comes from: set, a message wrote it; clear, the template. Operations move whole val_chr, so the origin passes through
 * each of them. Compare and hash under VAL_CHAR. */
typedef uint32_t val_chr;
#define VAL_INPUT 0x80000000u
#define VAL_CHAR(c) ((c) & ~VAL_INPUT)
enum { VAL_BYTE = 0x110000 };

enum {
    VAL_DEPTH_MAX  = 1000,           /* levels of values inside each other                                       */
    VAL_DIGITS_MAX = 4300            /* decimal digits of an integer in JSON: Python's limit                      */
};

typedef enum {
    VAL_UNDEF, VAL_NONE, VAL_BOOL, VAL_INT,
    VAL_BIG,                                          /* an integer beyond 64 bits */
    VAL_FLOAT, VAL_STR, VAL_LIST, VAL_TUPLE, VAL_DICT, VAL_VIEW, VAL_RANGE, VAL_ITER, VAL_FUNC, VAL_OBJECT, VAL_KINDS
} val_kind;
enum { VAL_KEYS, VAL_VALUES, VAL_ITEMS };             /* what a view of a dict shows: keys(), values(), items()  */

typedef struct val_env    val_env;
typedef struct val_list   val_list;
typedef struct val_dict   val_dict;
typedef struct val_iter   val_iter;
typedef struct val_func   val_func;
typedef struct val_object val_object;

/* A growing string. It only grows: views of its beginning stay valid. Once val_buf_str() gave it away it is no longer
 * written to, because the string may grow in place. */
typedef struct {
    val_chr *at;                                      /* [cap] */
    size_t   n;                                       /* characters that it holds */
    size_t   cap;                                     /* characters that fit */
} val_buf;

/* A string: a view that never changes. own: the buffer it was built in, NULL: none; a string that ends where its buffer
 * ends is appended to in place. */
typedef struct {
    const val_chr *p;
    uint32_t       n;
    val_buf       *own;
} val_str;

typedef struct {
    int64_t from;                                     /* the first item */
    int64_t to;                                       /* excluded */
    int64_t step;                                     /* not 0 */
} val_range;

typedef struct val {
    uint8_t kind;                                     /* val_kind */
    uint8_t view;                                     /* VAL_VIEW: which one */
    bool    safe;                                     /* VAL_STR: markup, which escape leaves alone */
    union {
        bool              b;
        int64_t           i;
        double            f;
        val_str           s;                          /* string; VAL_BIG: decimal digits, after a minus where it is negative */
        val_list         *list;                       /* list and tuple */
        val_dict         *dict;                       /* dict and view */
        val_range         range;
        val_iter         *iter;
        val_object       *object;
        const char       *name;                       /* VAL_UNDEF: what is undefined; NULL: unknown */
        struct {
            const val_func   *func;
            const struct val *self;                   /* the value it is bound to; NULL: none */
        };
    };
} val;

struct val_list {
    val   *at;                                        /* [cap] */
    size_t n;                                         /* items */
    size_t cap;                                       /* items that fit */
};

typedef struct {
    val      key;
    val      value;
    uint64_t hash;                                    /* of the key */
    bool     gone;                                    /* deleted: skip it */
} val_pair;

struct val_dict {
    val_env  *env;
    val_pair *at;                                     /* [cap], in order of insertion */
    size_t    n;                                      /* pairs in it, also deleted ones */
    size_t    cap;
    size_t    live;                                   /* pairs that are not gone: the length of the dict */
    uint32_t *slot;                                   /* [n_slots], a power of two: 1 + a place in at, 0: free; NULL: few pairs */
    size_t    n_slots;
};

/* What can be read once: items from `at` on are left. */
struct val_iter {
    val_list   *list;
    size_t      at;
};

/* Arguments of a call: by position, and by name (NULL: none). */
typedef struct {
    const val *at;
    size_t     n;
    val_dict  *named;
} val_args;

/* A maker's struct may begin with it. */
struct val_func {
    const char *name;
    val (*call)(val_env *env, const val_func *func, val self, const val_args *args);
};

/* Values that other sections make: namespace, loop, macro ... Their structs begin with a val_object. Each function may be
 * NULL. */
typedef struct {
    const char *name;                                 /* of the type, in messages */
    bool (*get)(val_env *env, val_object *o, val_str name, val *out);             /* false: no such attribute */
    bool (*set)(val_env *env, val_object *o, val_str name, val v);                /* false: cannot be set */
    val_dict *(*dict)(val_object *o);                                             /* printed after the name: <name {...}> */
} val_class;

struct val_object {
    const val_class *type;
};

/* Memory and limits of one rendering. */
struct val_env {
    struct val__chunk *chunks;
    uint8_t           *free;                          /* the unused end of the newest chunk */
    size_t             n_free;
    uint64_t           used;                          /* bytes of values */
    uint64_t           most;                          /* limit of `used`; 0: none */
    uint64_t           steps;                         /* units of work done, of about 100 ns */
    uint64_t           most_steps;                    /* limit of `steps`; 0: none */
    uint64_t           seed;                          /* of hashes: secret, so that an attacker cannot choose keys that collide */
    err_t             *e;
    jmp_buf           *back;                          /* of the running val_run() */
    const char        *file;                          /* in messages; NULL: none */
    int                line;                          /* of the file; 0: none */
};

/* --- memory, steps, errors --- */

struct val__chunk {
    struct val__chunk *next;
    max_align_t        at[];
};

enum { VAL__CHUNK_MIN = 4 << 10, VAL__CHUNK_MAX = 64 << 10, VAL__ALIGN = 16 };

/* most_bytes, most_steps: limits, 0: none. file: in messages, NULL: none; it must outlive the env. */
static void val_env_init(val_env *env, uint64_t most_bytes, uint64_t most_steps, const char *file) {
    *env = (val_env){.most = most_bytes, .most_steps = most_steps, .file = file, .seed = rng_secret()};
}

/* Frees all values of the env. */
static void val_env_drop(val_env *env) {
    while (env->chunks) {
        struct val__chunk *c = env->chunks;
        env->chunks = c->next;
        mem_free(c);
    }
}

/* Ends the running val_run() with an error: file and line, then the text. */
__attribute__((format(printf, 3, 4), noreturn)) static void val_fail(val_env *env, int code, const char *fmt, ...) {
    char    text[512], where[256] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (env->file && env->line) snprintf(where, sizeof where, "%s:%d: ", env->file, env->line);
    else if (env->file) snprintf(where, sizeof where, "%s: ", env->file);
    if (!env->back) die(code, "%s%s", where, text);
    err_set(env->e, code, "%s%s", where, text);
    longjmp(*env->back, 1);
}

/* Calls fn. False: it ended with val_fail, and e says why. One call may be inside another. Floats have their subnormal numbers
 * here, which k_thread_start turns off for the kernels. */
static bool val_run(val_env *env, void (*fn)(val_env *env, void *arg), void *arg, err_t *e) {
    jmp_buf        here;
    jmp_buf *const outer = env->back;
    err_t *const   outer_e = env->e;
    volatile bool  done = false;
    fenv_t         floats;
    fegetenv(&floats);
    fesetenv(FE_DFL_ENV);
    env->back = &here;
    env->e = e;
    if (setjmp(here) == 0) {
        fn(env, arg);
        done = true;
    }
    env->back = outer;
    env->e = outer_e;
    fesetenv(&floats);
    return done;
}

/* n units of work, about 100 ns each. */
static void val_step(val_env *env, uint64_t n) {
    env->steps += n;
    if (env->most_steps && env->steps > env->most_steps)
        val_fail(env, EXIT_RESOURCE, "the work of %llu steps is spent", (unsigned long long)env->most_steps);
}

/* Steps of an operation over n characters. */
static void val_step_chars(val_env *env, size_t n) { val_step(env, n / 64); }

/* Fails unless n elements of `each` bytes are within the limit. Returns their bytes. */
static uint64_t val_room(val_env *env, uint64_t n, uint64_t each) {
    uint64_t   size;
    const bool wraps = __builtin_mul_overflow(n, each, &size) || size > UINT64_MAX / 2;
    if (env->most && (wraps || size > env->most - env->used))
        val_fail(env, EXIT_RESOURCE, "the memory of %llu MiB for values is spent", (unsigned long long)(env->most >> 20));
    if (wraps) val_fail(env, EXIT_RESOURCE, "a value is too large for the memory of a machine");
    return size;
}

/* A new chunk that holds `size` bytes. */
static uint8_t *val__chunk_new(val_env *env, size_t size) {
    struct val__chunk *c = mem_new(size + sizeof *c, 1);
    c->next = env->chunks;
    env->chunks = c;
    return (uint8_t *)c->at;
}

/* n zeroed elements of `each` bytes. Chunks double up to VAL__CHUNK_MAX; what is large has a chunk of its own. */
static void *val_alloc(val_env *env, uint64_t n, uint64_t each) {
    const uint64_t want = (val_room(env, n, each) + VAL__ALIGN - 1) & ~(uint64_t)(VAL__ALIGN - 1);
    env->used += val_room(env, want, 1);
    if (want > env->n_free) {
        const size_t size = (size_t)max_u64(VAL__CHUNK_MIN, min_u64(VAL__CHUNK_MAX, env->used));
        if (want > size / 4) return val__chunk_new(env, want);
        env->free = val__chunk_new(env, size);
        env->n_free = size;
    }
    void *p = env->free;
    env->free += want;
    env->n_free -= want;
    return p;
}

/* The capacity of a growing array that must hold `want` elements. */
static uint64_t val__grown(size_t cap, uint64_t want) { return max_u64(2 * (uint64_t)cap, want); }

/* --- making values --- */

/* name: what is undefined, in messages; NULL: unknown. It must outlive the value. */
static val val_undef(const char *name) { return (val){.kind = VAL_UNDEF, .name = name}; }

/* Values of the simple kinds, which need no memory of an env. A string is a view: what it shows must outlive it. */
static val val_none(void) { return (val){.kind = VAL_NONE}; }
/* True or False. */
static val val_bool(bool b) { return (val){.kind = VAL_BOOL, .b = b}; }
/* An integer of 64 bits. */
static val val_int(int64_t i) { return (val){.kind = VAL_INT, .i = i}; }
/* A float, which may be infinite or NaN. */
static val val_float(double f) { return (val){.kind = VAL_FLOAT, .f = f}; }
/* A string that is no markup. */
static val val_str_view(val_str s) { return (val){.kind = VAL_STR, .s = s}; }

/* The list itself as a value: two values of one list see each other's changes, as in Python. */
static val val_of_list(val_list *l) { return (val){.kind = VAL_LIST, .list = l}; }
static val val__of_tuple(val_list *l) { return (val){.kind = VAL_TUPLE, .list = l}; }
/* The same of a dict. */
static val val_of_dict(val_dict *d) { return (val){.kind = VAL_DICT, .dict = d}; }
/* An object of another section. */
static val val_of_object(val_object *o) { return (val){.kind = VAL_OBJECT, .object = o}; }
/* view: VAL_KEYS, VAL_VALUES or VAL_ITEMS of the dict as it is when the view is read. */
static val val_view_of(val_dict *d, int view) { return (val){.kind = VAL_VIEW, .view = (uint8_t)view, .dict = d}; }

/* range(from, to, step); step is not 0. */
static val val_range_of(int64_t from, int64_t to, int64_t step) { return (val){.kind = VAL_RANGE, .range = {from, to, step}}; }

/* A function bound to a value, as `text.upper` is. */
static val val_bind(val_env *env, const val_func *func, val self) {
    val *kept = val_alloc(env, 1, sizeof *kept);
    *kept = self;
    return (val){.kind = VAL_FUNC, .func = func, .self = kept};
}

/* A function that is bound to nothing. */
static val val_of_func(const val_func *func) { return (val){.kind = VAL_FUNC, .func = func}; }

/* What gives the items of a list once. */
static val val_iter_of(val_env *env, val_list *items) {
    val_iter *it = val_alloc(env, 1, sizeof *it);
    *it = (val_iter){items, 0};
    return (val){.kind = VAL_ITER, .iter = it};
}

/* --- strings --- */

/* An empty buffer. */
static val_buf *val_buf_new(val_env *env) { return val_alloc(env, 1, sizeof(val_buf)); }

/* Grows the buffer until `more` characters fit. */
static void val_buf_reserve(val_env *env, val_buf *b, uint64_t more) {
    if (more <= b->cap - b->n) return;
    if (more > UINT32_MAX - b->n) val_fail(env, EXIT_RESOURCE, "a string is longer than %u characters", UINT32_MAX);
    const uint64_t cap = val__grown(b->cap, max_u64(16, b->n + more));
    val_chr       *at = val_alloc(env, cap, sizeof *at);
    val_step_chars(env, b->n);
    if (b->n) memcpy(at, b->at, b->n * sizeof *at);
    b->at = at;
    b->cap = cap;
}

/* Appends a character with its origin. */
static void val_buf_chr(val_env *env, val_buf *b, val_chr c) {
    val_buf_reserve(env, b, 1);
    b->at[b->n++] = c;
}

/* Appends a string; its characters keep their origin. */
static void val_buf_add(val_env *env, val_buf *b, val_str s) {
    val_buf_reserve(env, b, s.n);
    val_step_chars(env, s.n);
    if (s.n) memcpy(b->at + b->n, s.p, s.n * sizeof *s.p);
    b->n += s.n;
}

/* ASCII text; origin: VAL_INPUT or 0. */
static void val__buf_ascii(val_env *env, val_buf *b, const char *ascii, val_chr origin) {
    const size_t n = strlen(ascii);
    val_buf_reserve(env, b, n);
    for (size_t i = 0; i < n; i++) b->at[b->n++] = (uint8_t)ascii[i] | origin;
}

/* ASCII text, as the template's. */
static void val_buf_put(val_env *env, val_buf *b, const char *ascii) { val__buf_ascii(env, b, ascii, 0); }

/* What the buffer holds. */
static val_str val_buf_str(val_buf *b) { return (val_str){b->at, (uint32_t)b->n, b}; }

/* Characters from .. to (excluded) of a string; a view. Both are within it. */
static val_str val_sub(val_str s, size_t from, size_t to) {
    return (val_str){s.n ? s.p + from : s.p, (uint32_t)(to - from), s.own};
}

/* The character at p, which has `len` bytes of UTF-8. */
static val_chr val__decode(const uint8_t *p, int len) { return len ? utf8_get(p, len) : (val_chr)VAL_BYTE + p[0]; }

/* A string of UTF-8; input: a message wrote it. */
static val val_text(val_env *env, bytes text, bool input) {
    val_buf *b = val_buf_new(env);
    size_t   n = 0;
    for (size_t i = 0; i < text.n; i++) n += (text.p[i] & 0xc0) != 0x80;
    val_step_chars(env, text.n);
    val_buf_reserve(env, b, n);
    for (size_t i = 0; i < text.n;) {
        const int len = utf8_len(text.p + i, text.n - i);
        val_buf_chr(env, b, val__decode(text.p + i, len) | (input ? VAL_INPUT : 0));
        i += len ? (size_t)len : 1;
    }
    return val_str_view(val_buf_str(b));
}

/* A string of the program's own, as the template's. */
static val val_str_of(val_env *env, const char *text) { return val_text(env, bytes_of(text), false); }

/* Whether two strings have the same characters, whatever their origin. */
static bool val_str_eq(val_str a, val_str b) {
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (VAL_CHAR(a.p[i]) != VAL_CHAR(b.p[i])) return false;
    return true;
}

/* Whether the string is this ASCII text. */
static bool val_str_is(val_str s, const char *ascii) {
    for (size_t i = 0; i < s.n; i++)
        if (!ascii[i] || VAL_CHAR(s.p[i]) != (uint8_t)ascii[i]) return false;
    return !ascii[s.n];
}

/* Whether the value is a string, and this ASCII text. */
static bool val_is_str(val v, const char *ascii) { return v.kind == VAL_STR && val_str_is(v.s, ascii); }

/* -1, 0, 1: by code points. */
static int val__str_order(val_str a, val_str b) {
    const size_t n = min_size(a.n, b.n);
    for (size_t i = 0; i < n; i++)
        if (VAL_CHAR(a.p[i]) != VAL_CHAR(b.p[i])) return VAL_CHAR(a.p[i]) < VAL_CHAR(b.p[i]) ? -1 : 1;
    return a.n < b.n ? -1 : a.n > b.n;
}

enum { VAL_NOWHERE = -1 };

/* Where `what` appears first in s[from .. to), VAL_NOWHERE: it does not. */
static int64_t val_find(val_env *env, val_str s, val_str what, size_t from, size_t to) {
    uint64_t work = 0;
    int64_t  found = VAL_NOWHERE;
    if (from > to || what.n > to - from) return VAL_NOWHERE;
    for (size_t i = from, k; found < 0 && i + what.n <= to; i++) {
        for (k = 0; k < what.n && VAL_CHAR(s.p[i + k]) == VAL_CHAR(what.p[k]); k++) {}
        if (k == what.n) found = (int64_t)i;
        if ((work += k + 1) >= 1 << 16) val_step_chars(env, work), work = 0;
    }
    val_step_chars(env, work);
    return found;
}

/* A character without its origin as UTF-8, or the byte that it stands for; the number of bytes. */
static size_t val_encode(val_chr c, char out[4]) {
    if (c >= VAL_BYTE) return out[0] = (char)(c - VAL_BYTE), 1;
    return (size_t)utf8_put((uint8_t *)out, c);
}

/* Appends a string as bytes, as it came in. */
static void val_utf8(val_str s, str *out) {
    char text[4];
    str_reserve(out, s.n);
    for (size_t i = 0; i < s.n; i++) str_add(out, text, val_encode(VAL_CHAR(s.p[i]), text));
}

/* Runs of bytes of one origin: run i ends before byte `end` of the text. */
typedef struct {
    size_t end;
    bool   input;
} val_span;

typedef struct {
    val_span *at;                                     /* [n], by `end` */
    size_t    n;                                      /* runs */
} val_spans;

/* Frees the runs; they are empty then. */
static void val_spans_drop(val_spans *r) {
    mem_free(r->at);
    *r = (val_spans){0};
}

/* The text now ends at byte `end`, and its last bytes are of this origin. */
static void val_spans_add(val_spans *r, size_t end, bool input) {
    if (r->n && r->at[r->n - 1].input == input) r->at[r->n - 1].end = end;
    else MEM_PUSH(r->at, r->n, (val_span){end, input});
}

/* The same, and the origin of each byte. */
static void val_utf8_from(val_str s, str *out, val_spans *from) {
    for (size_t i = 0, k; i < s.n; i = k) {
        for (k = i + 1; k < s.n && !((s.p[k] ^ s.p[i]) & VAL_INPUT); k++) {}
        val_utf8(val_sub(s, i, k), out);
        val_spans_add(from, out->n, (s.p[i] & VAL_INPUT) != 0);
    }
}

/* A string for a message, cut to a few characters. */
typedef struct {
    char p[96];
} val_quoted;

/* The first characters of the string, and an ellipsis where more follow. */
static val_quoted val_quote(val_str s) {
    val_quoted q;
    size_t     n = 0;
    for (size_t i = 0; i < s.n && n < sizeof q.p - 8; i++) n += val_encode(VAL_CHAR(s.p[i]), q.p + n);
    if (s.n && n >= sizeof q.p - 8) memcpy(q.p + n, "...", 3), n += 3;
    q.p[n] = 0;
    return q;
}

/* --- lists and dicts --- */

static val_list *val__list_room(val_env *env, size_t n) {
    val_list *l = val_alloc(env, 1, sizeof *l);
    l->at = val_alloc(env, n, sizeof *l->at);
    l->cap = n;
    return l;
}

/* An empty list. */
static val val_list_new(val_env *env) { return val_of_list(val_alloc(env, 1, sizeof(val_list))); }
/* An empty tuple; its maker may add items until others see it. */
static val val_tuple_new(val_env *env) { return val__of_tuple(val_alloc(env, 1, sizeof(val_list))); }

/* Appends an item, also to a tuple that is being made. */
static void val_list_add(val_env *env, val_list *l, val v) {
    if (l->n == l->cap) {
        const uint64_t cap = val__grown(l->cap, max_size(4, l->n + 1));
        val           *at = val_alloc(env, cap, sizeof *at);
        val_step(env, l->n / 16);
        if (l->n) memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
}

static val val__pair_of(val_env *env, val a, val b) {
    val_list *l = val__list_room(env, 2);
    l->at[l->n++] = a;
    l->at[l->n++] = b;
    return val__of_tuple(l);
}

/* --- characters: what Python's str methods ask of them. ASCII is answered by hand, the rest by tables of ranges. --- */

enum val_set {
    VAL_IS_ALPHA, VAL_IS_LOWER, VAL_IS_UPPER, VAL_IS_TITLE, VAL_IS_SPACE, VAL_IS_DECIMAL, VAL_IS_DIGIT, VAL_IS_NUMERIC,
    VAL_IS_IGNORABLE, VAL_IS_HIDDEN,
    VAL_TO_UPPER, VAL_TO_LOWER, VAL_TO_TITLE,                                     /* one character becomes one */
    VAL_UPPER_LONG, VAL_LOWER_LONG, VAL_TITLE_LONG,                               /* one character becomes two or three */
    VAL_SETS
};

/* Made by `python3 tests/gen/unicode.py` from Python 3.11 (Unicode 14.0), which also describes the form. IS_DIGIT has
 * digits that are no decimals, IS_NUMERIC numbers that are no digits, IS_TITLE what is neither upper nor lower, IS_HIDDEN
 * what repr() escapes. TITLE has what differs from UPPER. */
static const char *const val__packed[VAL_SETS] = {
    [VAL_IS_ALPHA] =
        "hCyBHyBwBALAFAGsBC8BCycFWPIIDiEICCDGCAHDBCCDBkBCkFC0IJqKCqCDAHwCoC0BFGuB0CkBCCkGCAQCICLEDARDB4BewFMAZgCKCFAGqBFAKAEAYwB"
        "IUGuBCKSyC7BqDEATAISQeFODCDqBCMCAEGEARAOCCEPCLAJKFCDqBCMCCCCCCgBGCAUERQCECqBCMCCCIEATAQCYAMODCDqBCMCCCIEAfCCEQASDBIEECG"
        "ECCDBAECEEEWXA1BOCECsBCeEAbEDADCfAFOCECsBCSCIEAgBCCCQCSQCECwCDARAGEJEZKGiBEuBCQCADM7B+CCCNM7BCCDBGCuBCDBQCCKADICAWGhBAg"
        "COCmCcI0D0CVARKFGEAECIEFYNASqCCAGAD0CC4UCGDMCDBEDwCCGDgCCGDMCDBEDcCwDCGDkEmBeRqFDKE2mBDgBCyBG0EHOIiBOkBPiBPYCEQmDkBAFAk"
        "CwFIIDiCCAGqEL8ByB6BDIM2CFyB3BsBKoDzCA+C8CSO3B6BOCL2CbmCqBELmCDQI0CDEqBGCKCCEAG+LhCqRDKDqCDKDOCHB6BDoDCMCAEECMEGDKFYGEC"
        "M1DAOARYmDAFADSCAEIHHBECUDGGIFA1BC8zCoOHGECNqCCAGADuDIARsBKMCMCMCMCMCMCMCMxCA2OCrBIGCFqFHECyFCGG0CC6FS+BxBehQ+7MhC4orBk"
        "C6CD4QEeLCV8CR8BDqEyBQDsGD+DGCCDBGZeCECGCsBemDPiD/BKEDBAM2BLsBa4BI8CdARICSLICwCYECOVsBEAEiDCAECDIDDZEDUIENKDKDKKMCMC0CC"
        "aHkHem6VNsBFgDloI6WDyGnBMNIGDBQCYCICDBDBDB0GiB0WT+DDqDpBW1DICsIlByBHyBMwFEKDKDKDEkBWCyBCkBCCCcDajB0HmM4BEgDwB+BOmBCOHqC"
        "L6BDmCFOxB6JTmCFmCFuCJmDNUCcCMCCCUCcCMCCkCsTKqBLOZKCyCCQmCKDDB0CCCEADsBLsBK8BiCkBCCLqBLyBnCuDHChCAQGCEC4BrB4BE4BkBOC2Bc"
        "qDLqBLkBOiBvDwE4BkDOkDOmC9KyCHCvC4BLAJqBrBiBvBoBcsBNoD6BCDAO4ChBwBbmCeADAJkCEAN+CPGWDkBiBCwB1CMCDBECcCSI8CnBODCDqBCMCCC"
        "IEATANI/EoDTGVEf+CVCCA5F8CqBGlB+CVA8B0COAoC0BmBM6F2C1D+DgBODADOCCCuBQD/CODsCRDdALuCIAWAM6CUATwEoIQCoCSAyB6BxDMCCCqCWAaK"
        "CCC+BPAoKkB+FAwCy5BnHmMtyCgGQ8iCy+DskB6tIwjBI8BS8ES6BT+CRGgBoBGkBxV+DhE0EGAjCYhCCCAdu/LJqtCrBQo3IGCMCCCkSuBESGJ2YloC0GG"
        "YEQISn7FoFCsECCDADCDGCWCDBKCgECGDOCMC2BCGCICAEMCmVDwBCwBC8BCwBC8BCwBC8BCwBC8BCwBCO15B8BiP4CLMRAiK6BT2C1nBMCGCCCcCoM8BmE"
        "IA1lBGC0BCCCADDBQCGCDHAFHBCCCCADLBDDGCMCGCGCDBQCgBGECICgBlqE+tzChBwjII6NDioLPgzOghD6hBjvB00J",
    [VAL_IS_LOWER] =
        "hDyBwBALAFAlBuBCOC3BBRBvBDFBCDDDAECFADAEEDADFDDBDDAEDDCDEHADADRBTBADDE7BBKDADCCAFJBmECmCICfIhDAsBDEADGTAckCCCEECXBGCADA"
        "DC0B+CChBK1BDNBhDxBwCo6C0CDE5XKjkCQ4D+LiC1EBOChDBOJKLOJOJKLOJOJaDOJOJOJICCHAEECCJGDCJOLECC6DAOARYuDAECEAcAFAFADCJGFAiBe"
        "FAsayBn6B+CCAECCFFDBDBMEjDBAIDFANqCCAGA0oetBUbBCmENBCC9BBQCDDJFDDDBCCTGAGPFDHJdDBC2Z0CCYI+Eh6TMNIqhByBumBuCpEmC8EUCcCMC"
        "CkOADECyCCQmoBkDu+C+BhsV+B7sZyBbMCiBbyBbGCDBKCUbyBbyBbyBbyBbyBbyBbyBbyBb2BdwBCKbwBCKbwBCKbwBCKbwBCKCA15BSCmBkwCiC",
    [VAL_IS_UPPER] =
        "hCyBmDsBCMiB3BDPDvBBFECCDBDBCDGCCCEECCCCFBDDDBDBCCDBAEAIADADADPDRDADDBCC5BICCCDDBECHiJDEAJAHDBCCDBDBeCQkBADEEXGADDBADkD"
        "xBhBK3BBND/CDqCq6CqCCAGAzWqF7kC0CDEhK1EKhDKOJKLOJOJKMHJOpCGNGNGNIMGnIAFAEEDEDAEIHHBEDGLCGAbeUAzZyBx5B+CxBDBCDHBECADAJEC"
        "hDJDFAuqetBUboENE9BLFBJFDDDEVBGCICPBECAHAGDdAs5VyBmmBuCpEmC9EUCcCMCCr3BkDu/C+BhsV+BhtZyBbyBbyBbDBADADCDGCObyBbCCGDOCMcC"
        "CGCICAEMcyBbyBbyBbyBbyBbyBfwBiBwBiBwBiBwBiBwBiBA2pEiCvgCyBHyBHyB",
    [VAL_IS_TITLE] = "lOADADAnBA2sHOJOJONAQAwBA",
    [VAL_IS_SPACE] = "JIPIlDAbAgvFAgsCUeCGAwBAh9DA",
    [VAL_IS_DECIMAL] =
        "wBSnxBSnESnGS9MS3DS3DS3DS3DS3DS3DS3DS3DS3DShDS3DSnCS3ISnCSn6BSnBStJShESnFSHS3FS3CSnESHSnuiBSnVSnBSnGSXS3CS3MS34USnsBSnk"
        "CStZShES9BSxES3IS3KS3DS3LSnDSnDSnNSnDS3XS3HSnCS3lTS3CSnES1jbiDhqCSnNS3yBS30ES",
    [VAL_IS_DIGIT] = "yFCGAw1EQpzBA20BAEKHS3eQMQMQ6CALQCA3TQCQCQu14BG9gBQqPQml4BU",
    [VAL_IS_NUMERIC] =
        "8FE2pCK5LK5DEmEM6GMSQyNS/hBUybEgIS3qCkDDIgXUKUKUwCSKAhUAKAKAqrBAqYAaQPE4KGrESfOCchBSoBcmKA+DAndAjZAz1EADAED0CAvBAIDpBCf"
        "AJAlBAjDA0MAiCAjBF0ODBCHA1DG3YA2QAIAhsBAkECNECAufAuCAmkBA05BAwkBAoXAowCAmdAikCAFA9DAxnCAlBAGAsBA+DAw/DShKK2pUAIAFA6BAfD"
        "qBAq4B4CNwDSC2K0BlBGeAJAnEIjkBOaMoBQsCIXKhFCDeD6ClCI1BCfEsCIpDOZOqBMrKKqLqB/ESrBGxDMwEU8LmBmqBCvNQobkB0aoBshB8Gt3RM/YsB"
        "qiZmBtDwBvqFQid0DCECGtC4CCcueC13DAjDA+DA/BApgCA5CAJAQAuKATAcA3jGAowBAjsEAy6JAjxlBA",
    [VAL_IS_IGNORABLE] =
        "nBAHAMAkBDoCAFDFADC4P+LFCFAKCCA8HMwGAGAyB4CCDBDBDtBAMKLUCAkBALoBRAmDOCSCGiBDf0B8CU7BUFADAZuBsBEtBAICHOqByD4BDFOFAEMLCOA"
        "QA7BAFGJAVCbADC6BAFCFCDEEAfCEAMC6BAFICCFAVCXKCA7BADDBEJAICMCfA+BANAzBAEA4BDBCGECGICMCeA7BADAHAGCVCdC6BCFGJAVCeApCAIECA7"
        "CADMMQjDADQKDBIrCCcF4BaCICCGUCmCKAnDGCKCCDCaCFERGOADCHAQA/CAhTEzdEeCfCfChCCCMJADUEAGAuBI0BAiCCjBA3DEFCKAHE8GCDA7BDBKCDD"
        "OHSDAoBAJ8ByBGxBDBGCAGApBQNChBGDCCE5BDBAEDBC7BODChCKzCECYCMFAHAECzB8DOAjBoG+NDBCMEOEOEOCNIJCLADADIyBICSCAOARY0BgCs8CCyD"
        "E+DAQAhD+BwBA2OAlBGEIGA+CK+CE34bAjnBKvIAjDGCSCAdGxCCPiCvCAYEoDEECJAEAFAaCGA4ECbiBOAnBOaUvBExBADGDCSAWCjCKDCDCNAJAkBAMA0"
        "BDBCDCGCCAcAPCGCCAlDIKE6DADAFAx5TA0EgB+ReEANejBADAqFAIAHAMAkBDwBAuBCkCAWEiQAjHA2EImgBKCyCCQnSECCGGpBEFAmFC+RGkMC6EUyBG8"
        "DA3BcqBADCLEyBGDCDAFALAzBElBICO/BANC1BQLGDAgDEDDBAHAhFAEOWC6BCEAmBMEIkGODECAYA1CKCAFCCCvHGHCCCcC2CODDBArDDDKCAmDEDGCIkI"
        "QCChICCAFAxEGDCFAhBSpBKDGJAKKDEvBYCC3MMCKCAzCqBDMCCCC7DKEDBDBKCApCCED8KC8pFQ41NI8BMKGsgBAgCgBhCCCCsgQGCMCC/kDCCG9yE6CDs"
        "BhREKeDMfG1EE89BsDFiDJAPAXICcxqBMCgBDMCCCImIaxLA+BGhvBMuDOw1CIigjYAf+FhE+O",
    [VAL_IS_HIDDEN] =
        "A+BgDiCNArWCHGIDVAuMAnBCzBCEA4BOcGHgBXAhGAxBC8BCmDa8BCyBCQAdCCAMIgBQrCAiFAJCDCXAIDBCFCKCDCFOCGDAGCaCEAHGDCXAIADADADCCAG"
        "GDCEECMFDBKSSEAKAEAXAIADAGCLAEAECCcFCNMIAEAJCDCXAIADAGCKCDCEMEGDAGCTSDAHEEAFEDDDEDEEENGGEEAFCCKCaWIOAEAYARCKAEAFMDAECCC"
        "FCLMXAEAYALAGCKAEAFMDKDAFCLADYOAEA0BAEAHGRCbAEATEZAKDBAIECGHDJKLCEW7BGeoCDDGAZDYCGDHCLCF+BpCAlBGoBAlBAQAOoCnGDBGCC6LAFC"
        "IDFCqBAFCiBAFCIDFCQA6BAFCkCChBEbK3CCHChUAdE6CMXQZQVWOAEADW/CCLKLKPAMK6CMsBInCSgBANGNGCErBCGUtBGbKME/BCiCAeCMKLKPCgBgDuC"
        "EwBA1DO9BEQE9BMsBCMOsBI3QCHCnBCHCJHgBC2BAQAPCHAUCEAKgBZOwBgBDCcAOEiBciBctEG4UwBMoB14BChBA+KIuBDBGCC5BMDaZQIAIAIAIAIAIAI"
        "AIA/DiCbA6CW3GyBNIgCA3CCoDIsBA/CA1CWwBAuzcE4BQ9KmB5FOsGIDDGuB8BELK5BOnCONK1DUfEvCAMGiBA4BQPCLCoDuBdSHCHCHQIAIA9BG/DCLKl"
        "9KWYGyBmwQvLCrDqCIWGIbAGDDADA+De+NC3BMC+BrBK0BAUAFGGAoEG/FEHCHCHCEEIAIYDCNAbAUADAQCPiC8DIEGuBE5CAOEC8CvBiIeEyBcdGlBQfIs"
        "BIfAmBGPyC/ECLKlBGlBGpBO1BUNAQAIADAMAQAIADkE4JQXSJuBHArBAKoEHCCAtBADECCYApCOK+CUADIiBEcIC+D5BGVCzBADIJAEAeCEGLMKMhC+BoB"
        "GNQ3BEeCcIbMFWI+EqCsD0BY0BMvBOLqSgBArBAECD6EpBOrBqBbqCdmBYQvCGlBQ/BAGYaMLK2BATOoBQhDAVUTAtBgEIDFAQAMK8BILKFAJCDCXAIADAG"
        "ALCDCECCKCIICIEG0I9CAG6BpCOLqK3BCnBiCmCULKOkB7BKLqDcCQGYwL9BmG0CWJCCCJADAfADCNQLqEJCvBCM0BpCO0CYqCsQKAuBAPSeEhBCXAPwEIA"
        "DAtBECADAKOLKHADAmBADAHMLqTasLCczBY8cqGwDAGUlG2kFkDYwhBg9HoSw7Q6RMgBALGyCALKfCHSnCSLAIAWIU+qB8CoGsCG6BMS+DGUDa5/FO3mByC"
        "KsuRFAIADAkJ4CEgBFOtMmwEsDIOEKMLCF+lJvBCYQ1D2D3HSoBCrCOxDoBnCyJVW4CQasI2CAoCADCCCDCFANDIAiCAFCJAIAdAFAGDBCIA1KClJC/VcGA"
        "Q+kCgBgOIASCIADAGoNuBEPCLGD+TgBgB7BIC+tCIAFADAQAmGCRwCtCGLGDgxBlC2E+BiMFAcADDBDLAFFBICGCFEADDBLDDBAFAIAFAFDLASIEAGASmDD"
        "6QtBGlDWQCQAQAmBSvFuDeYtBGKMDaHyJ5eIREOE1DW6CMNGCcNG5BOLKpBOfCD6E1KWPCGEGEIQeEMIHSLKJOIQ0EA4BoCLqgCh3pB+B6hEM/GCj0FaypH"
        "8hG/Qi+Cs6Eo72rBxH+g/L",
    [VAL_TO_UPPER] =
        "hDyBhC7BAuuBrBsBhCCMhCBAyHCvBDCAxOCFDDPDDtBDDFDBA5SBAmMDDDDADEADGADDAiGEADBAmKEAkIDFDDADFADDADEDDDADEADCAwDGADBAFCADBAF"
        "CADBAFCPDBA/ECRDDADBAFCADEnBDERDJADDC+jVCADFJDBA+hVBA4hVBA8hVBAlNBA9MCC7MCA1MCA3MBA+0yCEA7MBA20yCCA/MCAwyyCBAo0yCCAjNBA"
        "nNBAo0yCBAu/UBAi0yCDAnNCA6/UBArNDAtNIAu+UDA1NCAm0yCBA1NEA0yyCBA1NBArEBCzNBAvEGA3NLAqxyCBAkxyCnFAoFsBDDEADEEkIvBAtCBErCC"
        "gBhCBA/BBQhCBAhEBC/DCA9DBAzDEA/CBAtDBARCXDBAtFBAhFBAOBApHCAhGDADDAD1B+BhCBehFChBDK1BDDNDBAfC/CDyBqChDq6C0Cg8FDEg8F5XKRj"
        "kCA9mMBA7mMBApmMBClmMBAnmMBA5lMBAriMBAk8kCxHAoglCEAsuHRAwjlCzD1EDGA3DG/CDBOQJKQLOQJOQJKQMHQJOQJC0EBGsFBCoGBCgIBCgHBC8Hz"
        "BCQNAriOSCQPCQEAOpLA5BiBehBFADsayB1Bn6B+ChDCADEA3iVBAxiVCFDHADDADLjDDJDDFADNqChmOCAhmOGAhmO0oetBDUbDoENDE9BDLDDDJDFADFD"
        "DBAgDDTDMPDFDDHADGDDdAD9aAh6Bd+Eh9rCi8UyBhCumBuCxCpEmCxC8EUvCCcvCCMvCCCvCk4BkDhEu+C+BhChsV+BhCj1eiClC",
    [VAL_TO_LOWER] =
        "hCyBgCmDsBgCCMgCiBvBCEFCDPCDtBCCAzHBFCEAkNBDCCA8MBACCC6MBACDA+EBA0MBA2MBACCA6MBA+MCAmNBAiNBACEAmNBAqNCAsNBFCCA0NBACCA0N"
        "DACCA0NBACCCyNBDCCA2NBACEACIAEBACCAEBACCAEBRCDRCDAEBDCCAjGBAxDBnBCCAlICRCIA2iVBACCAnKBAwiVDACCAnMBAqEBAuEBJCiJDCEACJAoH"
        "HAsCCEqCCAgECC+DCgBgCCQgCkBAQJXCGA5DDACCAPBACDElIBegFB+BgCxBhBCK1BCCAeBNCD/CCDqCgDq6CqCgmOCAgmOGAgmOzW+Eg9rCBKQ7kC0Ch8F"
        "DEh8FhK1ECKA/7OC/CCKORJKRLORJORJKRMHRJORZORJORJORJCRBC1EBATMGtFBATMCRBCpGNCRBChHBAPMChIBC9HBATqJA71OEA/rQBAtkQHA4BuBegB"
        "UACzZyB0Bx5B+CgDxBACCAv/UBAtuHBAv+UDFCCA5hVBA7/UBA/hVBA9hVCACDACJC/jVBjDCJDCFACuqetBCUbCoENCE9BCLDCCApglCBJCFACCAxyyCDD"
        "CETCCAp0yCBA/0yCBA30yCBAj0yCBAp0yCCAlxyCBA1yyCBArxyCBAg6BBPCCAhDBAn0yCBAxjlCBDCHACGDCdACs5VyBgCmmBuCwCpEmCwC9EUuCCcuCCM"
        "uCCCuCr3BkDgEu/C+BgChsV+BgCh1eiCkC",
    [VAL_TO_TITLE] = "kOACBAABADBACBAABADBACBAABADlBACBAABAD92D0CADEAh0DOQBOABOQBOABOQBOAEASJAAHASJAAnBASJAA",
    [VAL_UPPER_LONG] =
        "/GCzCzCqDC8VuCnFCqCsYgND5coYhYgBDldoYhY3OC1pByqBvoGCoCxZBC0CoYBC3CqYBC5CqYBChC+V2FCldzYCDldzYgYCDldzYhYCDldzYiaqBCo4H5c"
        "BCp4H5cBCq4H5cBCr4H5cBCs4H5cBCt4H5cBCu4H5cBCv4H5cBCo4H5cBCp4H5cBCq4H5cBCr4H5cBCs4H5cBCt4H5cBCu4H5cBCv4H5cBCo5H5cBCp5H5c"
        "BCq5H5cBCr5H5cBCs5H5cBCt5H5cBCu5H5cBCv5H5cBCo5H5cBCp5H5cBCq5H5cBCr5H5cBCs5H5cBCt5H5cBCu5H5cBCv5H5cBCo7H5cBCp7H5cBCq7H5c"
        "BCr7H5cBCs7H5cBCt7H5cBCu7H5cBCv7H5cBCo7H5cBCp7H5cBCq7H5cBCr7H5cBCs7H5cBCt7H5cBCu7H5cBCv7H5cDC69H5cBCxc5cBCmc5cCCxciaBDx"
        "cia5cFCxc5cGCq+H5cBC3c5cBCpc5cCC3ciaBD3cia5cFC3c5cGD5coYgYBD5coYhYDC5ciaBD5coYiaLDldoYgYBDldoYhYBChdzYCCldiaBDldoYiaLC6"
        "/H5cBCpd5cBCvc5cCCpdiaBDpdia5cFCpd5ck42BCmCmCBCmCpCBCmCsCBDmCmCpCBDmCmCsCBCzC0CBCzC0CNCkqBmqBBCkqB1pBBCkqB7pBBCuqBmqBBC"
        "kqB9pB",
    [VAL_LOWER_LONG] = "wJCpDnY",
    [VAL_TITLE_LONG] =
        "/GCzCzDolBC1pBisBrxGC69HlaCCmclaDDxcialaLCq+HlaCCpclaDD3cialarBC6/HlaCCvclaDDpdialap42BCmCmDBCmCpDBCmCsDBDmCmDpDBDmCmDs"
        "DBCzC0DBCzC0DNCkqB2rBBCkqBlrBBCkqBrrBBCuqB2rBBCkqBtrB",
};

static chars_range    val__pool[2900];
static chars_table    val__set[VAL_SETS];
static pthread_once_t val__unpacked = PTHREAD_ONCE_INIT;

static void val__unpack(void) {
    chars_unpack(val__set, val__packed, VAL_SETS, VAL_TO_UPPER, VAL_UPPER_LONG, val__pool, sizeof val__pool / sizeof *val__pool);
}

/* The entry that the character is in, NULL: none. */
static const chars_range *val_chars_find(int set, val_chr c) {
    pthread_once(&val__unpacked, val__unpack);
    return chars_find(&val__set[set], c);
}

/* Whether a character, with or without its origin, is in a set. */
static bool val_is(int set, val_chr chr) {
    const val_chr c = VAL_CHAR(chr);
    if (c >= 128) return val_chars_find(set, c) != NULL;
    switch (set) {
    case VAL_IS_ALPHA: return (c | 32) >= 'a' && (c | 32) <= 'z';
    case VAL_IS_LOWER: return c >= 'a' && c <= 'z';
    case VAL_IS_UPPER: return c >= 'A' && c <= 'Z';
    case VAL_IS_SPACE: return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    case VAL_IS_DECIMAL: return c >= '0' && c <= '9';
    default: return val_chars_find(set, c) != NULL;
    }
}

/* Whether repr() prints the character as it is: Python's str.isprintable(). */
static bool val__printable(val_chr c) { return c < 0x7f ? c >= 0x20 : c < VAL_BYTE && !val_is(VAL_IS_HIDDEN, c); }

/* --- kinds, truth, length --- */

/* The type's name in Python. */
static const char *val_kind_name(val v) {
    static const char *const names[VAL_KINDS] = {
        "Undefined", "NoneType", "bool", "int", "int", "float", "str", "list", "tuple", "dict",
        "dict_keys", "range", "generator", "function", "object",
    };
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    if (v.kind == VAL_OBJECT) return v.object->type->name;
    if (v.kind == VAL_VIEW) return views[v.view];
    return v.kind == VAL_STR && v.safe ? "Markup" : names[v.kind];
}

/* Number of items of a range. */
static uint64_t val__range_n(val_range r) {
    if (r.step > 0) return r.from < r.to ? ((uint64_t)r.to - (uint64_t)r.from - 1) / (uint64_t)r.step + 1 : 0;
    return r.from > r.to ? ((uint64_t)r.from - (uint64_t)r.to - 1) / (0 - (uint64_t)r.step) + 1 : 0;
}

/* Whether `if` takes the value as true: not empty, not zero. */
static bool val_truth(val v) {
    switch ((val_kind)v.kind) {
    case VAL_UNDEF:
    case VAL_NONE:   return false;
    case VAL_BOOL:   return v.b;
    case VAL_INT:    return v.i != 0;
    case VAL_FLOAT:  return v.f != 0;
    case VAL_STR:    return v.s.n != 0;
    case VAL_LIST:
    case VAL_TUPLE:  return v.list->n != 0;
    case VAL_DICT:
    case VAL_VIEW:   return v.dict->live != 0;
    case VAL_RANGE:  return val__range_n(v.range) != 0;
    case VAL_BIG: case VAL_ITER: case VAL_FUNC: case VAL_OBJECT: case VAL_KINDS: break;
    }
    return true;
}

/* Whether val_len() has an answer. */
static bool val_has_len(val v) {
    const unsigned lists = 1u << VAL_LIST | 1u << VAL_TUPLE | 1u << VAL_RANGE, dicts = 1u << VAL_DICT | 1u << VAL_VIEW;
    const unsigned sized = 1u << VAL_UNDEF | 1u << VAL_STR | lists | dicts;
    return sized >> v.kind & 1;
}

/* Number of items or characters, as Python's len(). */
static uint64_t val_len(val_env *env, val v) {
    switch ((val_kind)v.kind) {
    case VAL_UNDEF: return 0;
    case VAL_STR:   return v.s.n;
    case VAL_LIST:
    case VAL_TUPLE: return v.list->n;
    case VAL_DICT:
    case VAL_VIEW:  return v.dict->live;
    case VAL_RANGE: return val__range_n(v.range);
    case VAL_NONE: case VAL_BOOL: case VAL_INT: case VAL_BIG: case VAL_FLOAT:
    case VAL_ITER: case VAL_FUNC: case VAL_OBJECT: case VAL_KINDS: break;
    }
    val_fail(env, EXIT_INPUT, "found %s, which has no length", val_kind_name(v));
}

/* --- numbers --- */

static bool val__is_int(val v) { return v.kind == VAL_INT || v.kind == VAL_BOOL || v.kind == VAL_BIG; }
static bool val__is_number(val v) { return val__is_int(v) || v.kind == VAL_FLOAT; }
static int64_t val__small(val v) { return v.kind == VAL_BOOL ? v.b : v.i; }

/* Whether a number is below 0. */
static bool val_is_negative(val v) {
    if (v.kind == VAL_BIG) return VAL_CHAR(v.s.p[0]) == '-';
    return v.kind == VAL_FLOAT ? v.f < 0 : val__small(v) < 0;
}

/* The number as a float. Fails where v is no number, or an integer beyond 64 bits. */
static double val__as_float(val_env *env, val v) {
    if (v.kind == VAL_FLOAT) return v.f;
    if (!val__is_int(v)) val_fail(env, EXIT_INPUT, "found %s, expected a number", val_kind_name(v));
    if (v.kind == VAL_BIG) val_fail(env, EXIT_INPUT, "found an integer beyond 64 bits, expected a smaller one or a float");
    return (double)val__small(v);
}

/* The integer part of a float, as Python's int(). Fails where it does not fit in 64 bits. */
static val val_trunc(val_env *env, double f) {
    if (!isfinite(f)) val_fail(env, EXIT_INPUT, "cannot make an integer of the float %s", isnan(f) ? "nan" : "infinity");
    f = trunc(f);
    if (f < -0x1p63 || f >= 0x1p63) val_fail(env, EXIT_INPUT, "found the float %.17g, whose integer is beyond 64 bits", f);
    return val_int((int64_t)f);
}

enum { VAL_UNORDERED = 2 };                           /* neither smaller, equal nor larger: a NaN is there */
enum { VAL__WHOLE = 320 };                            /* more characters than the largest float has, written out */

/* -1, 0, 1: integers in decimal digits without leading zeros, after a minus where they are negative. */
static int val__order_digits(val_str a, val_str b) {
    const bool neg = VAL_CHAR(a.p[0]) == '-';
    if (neg != (VAL_CHAR(b.p[0]) == '-')) return neg ? -1 : 1;
    const int order = a.n == b.n ? val__str_order(a, b) : a.n < b.n ? -1 : 1;
    return neg ? -order : order;
}

/* An integer beyond 64 bits against a number of another kind, which is no NaN. A float that large has no fraction: its
 * digits are compared. */
static int val__order_big(val big, val other) {
    char    text[VAL__WHOLE];
    val_chr digits[VAL__WHOLE];
    if (other.kind != VAL_FLOAT || fabs(other.f) < 0x1p63) return val_is_negative(big) ? -1 : 1;
    if (isinf(other.f)) return other.f > 0 ? -1 : 1;
    const int n = snprintf(text, sizeof text, "%.0f", other.f);
    for (int i = 0; i < n; i++) digits[i] = (uint8_t)text[i];
    return val__order_digits(big.s, (val_str){digits, (uint32_t)n, NULL});
}

/* An integer against a float that is no NaN, exactly. */
static int val__order_mixed(int64_t i, double f) {
    if (f >= 0x1p63) return -1;
    if (f < -0x1p63) return 1;
    const int64_t whole = (int64_t)floor(f);
    if (i != whole) return i < whole ? -1 : 1;
    return f > floor(f) ? -1 : 0;
}

static bool val__is_nan(val v) { return v.kind == VAL_FLOAT && isnan(v.f); }

/* -1, 0, 1 or VAL_UNORDERED. Both are numbers. */
static int val__order_numbers(val a, val b) {
    if (val__is_nan(a) || val__is_nan(b)) return VAL_UNORDERED;
    if (a.kind == VAL_BIG && b.kind == VAL_BIG) return val__order_digits(a.s, b.s);
    if (a.kind == VAL_BIG) return val__order_big(a, b);
    if (b.kind == VAL_BIG) return -val__order_big(b, a);
    if (a.kind == VAL_FLOAT && b.kind == VAL_FLOAT) return a.f < b.f ? -1 : a.f > b.f;
    if (b.kind == VAL_FLOAT) return val__order_mixed(val__small(a), b.f);
    if (a.kind == VAL_FLOAT) return -val__order_mixed(val__small(b), a.f);
    const int64_t x = val__small(a), y = val__small(b);
    return x < y ? -1 : x > y;
}

/* --- walking nested values with a stack of its own --- */

/* A value whose parts are visited one after another. */
typedef struct {
    const val      *items;                            /* [n]; NULL: pairs */
    const val_pair *pairs;                            /* [n], key and value in turn, without the deleted ones */
    const void     *id;                               /* what it is, to find a value that holds itself */
    const char     *shut;                             /* printed after it */
    size_t          n;                                /* parts; of pairs: keys and values together */
    size_t          i;                                /* the next part: item i; of pairs: the key of i / 2, or its value */
    size_t          seen;                             /* parts that were visited */
} val__level;

typedef struct {
    val__level *at;                                   /* [cap], the innermost last */
    size_t      n;                                    /* levels that are open */
    size_t      cap;                                  /* levels that fit */
} val__walk;

static void val__push(val_env *env, val__walk *w, val__level level) {
    if (w->n == VAL_DEPTH_MAX) val_fail(env, EXIT_RESOURCE, "values are more than %d levels deep", VAL_DEPTH_MAX);
    if (w->n == w->cap) {
        const size_t cap = w->cap ? 4 * w->cap : 16;
        val__level  *at = val_alloc(env, cap, sizeof *at);
        if (w->n) memcpy(at, w->at, w->n * sizeof *at);
        w->at = at;
        w->cap = cap;
    }
    w->at[w->n++] = level;
}

/* Pushes a list, a tuple or a dict; other kinds have no parts. */
static void val__push_value(val_env *env, val__walk *w, val v, const char *shut) {
    if (v.kind == VAL_DICT) val__push(env, w, (val__level){.pairs = v.dict->at, .id = v.dict, .n = 2 * v.dict->n, .shut = shut});
    else val__push(env, w, (val__level){.items = v.list->at, .id = v.list, .n = v.list->n, .shut = shut});
}

/* The next part of the innermost value; false: there is none. */
static bool val__next(val_env *env, val__walk *w, val *out) {
    val__level *l = &w->at[w->n - 1];
    while (l->pairs && l->i < l->n && l->pairs[l->i / 2].gone) l->i += 2;
    if (l->i >= l->n) return false;
    val_step(env, 1);
    *out = l->pairs ? l->i % 2 ? l->pairs[l->i / 2].value : l->pairs[l->i / 2].key : l->items[l->i];
    l->i++;
    l->seen++;
    return true;
}

/* Whether a value is among those that are open. */
static bool val__open(val_env *env, const val__walk *w, const void *id) {
    val_step(env, w->n / 64);
    for (size_t i = 0; i < w->n; i++)
        if (w->at[i].id == id) return true;
    return false;
}

/* --- equality and hashes --- */

/* Whether two ranges have the same items. */
static bool val__range_eq(val_range a, val_range b) {
    const uint64_t n = val__range_n(a);
    if (n != val__range_n(b)) return false;
    return n == 0 || (a.from == b.from && (n == 1 || a.step == b.step));
}

/* Compares two values of which at least one has no parts. */
static bool val__eq_leaf(val_env *env, val a, val b) {
    if (val__is_number(a) && val__is_number(b)) return val__order_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    switch ((val_kind)a.kind) {
    case VAL_UNDEF:
    case VAL_NONE:   return true;
    case VAL_STR:    val_step_chars(env, a.s.n); return val_str_eq(a.s, b.s);
    case VAL_RANGE:  return val__range_eq(a.range, b.range);
    case VAL_FUNC:   return a.func == b.func && a.self == b.self;
    case VAL_VIEW:   return a.dict == b.dict && a.view == b.view;
    case VAL_ITER:   return a.iter == b.iter;
    case VAL_OBJECT: return a.object == b.object;
    case VAL_BOOL: case VAL_INT: case VAL_BIG: case VAL_FLOAT: case VAL_LIST: case VAL_TUPLE: case VAL_DICT: case VAL_KINDS:
        break;
    }
    return false;
}

static bool val__has_parts(val v) { return v.kind == VAL_LIST || v.kind == VAL_TUPLE || v.kind == VAL_DICT; }

static val *val__dict_at(val_dict *d, val key);       /* the keys of a dict are compared with val_eq, and val_eq compares dicts */

/* Two values with parts: whether their kind and length allow them to be equal, and then pushes both, unless they are the same. */
static bool val__eq_begin(val_env *env, val__walk *x, val__walk *y, val a, val b) {
    if (a.kind != b.kind) return false;
    if (val_len(env, a) != val_len(env, b)) return false;
    if (a.kind == VAL_DICT ? a.dict == b.dict : a.list == b.list) return true;
    val__push_value(env, x, a, NULL);
    val__push_value(env, y, b, NULL);
    return true;
}

/* The next two parts to compare; false: none are left. *same false: a key of one dict is not in the other. */
static bool val__eq_next(val_env *env, val__walk *x, val__walk *y, val *a, val *b, bool *same) {
    if (!val__next(env, x, a)) return false;
    if (x->at[x->n - 1].items) return val__next(env, y, b);
    val_dict  *other = (val_dict *)(uintptr_t)y->at[y->n - 1].id;
    const val *found = val__dict_at(other, *a);
    *same = found != NULL;
    return found && (*b = *found, val__next(env, x, a));
}

/* Whether a == b, as in Python. */
static bool val_eq(val_env *env, val a, val b) {
    val__walk x = {0}, y = {0};
    if (!val__has_parts(a) || !val__has_parts(b)) return val__eq_leaf(env, a, b);
    if (!val__eq_begin(env, &x, &y, a, b)) return false;
    while (x.n) {
        bool same = true;
        if (!val__eq_next(env, &x, &y, &a, &b, &same)) {
            if (!same) return false;
            x.n--, y.n--;
            continue;
        }
        if (val__has_parts(a) && val__has_parts(b) ? !val__eq_begin(env, &x, &y, a, b) : !val__eq_leaf(env, a, b)) return false;
    }
    return true;
}

/* The float nearest to a number; infinite where its digits are more than any float has. */
static double val__nearest(val v) {
    char text[VAL__WHOLE];
    if (v.kind == VAL_FLOAT) return v.f;
    if (v.kind != VAL_BIG) return (double)val__small(v);
    if (v.s.n >= sizeof text) return val_is_negative(v) ? -INFINITY : INFINITY;
    for (size_t i = 0; i < v.s.n; i++) text[i] = (char)VAL_CHAR(v.s.p[i]);
    text[v.s.n] = 0;
    return strtod(text, NULL);
}

/* Numbers that are equal have the same nearest float. */
static uint64_t val__hash_number(uint64_t seed, val v) {
    const double f = val__nearest(v), plain = f == 0 ? 0 : f;
    uint64_t     bits;
    memcpy(&bits, &plain, sizeof bits);
    return rng_mix(seed ^ bits);
}

static uint64_t val__hash_str(uint64_t seed, val_str s) {
    uint64_t h = rng_mix(seed + s.n);
    size_t   i = 0;
    for (; i + 2 <= s.n; i += 2) h = rng_mix(h ^ (VAL_CHAR(s.p[i]) | (uint64_t)VAL_CHAR(s.p[i + 1]) << 32));
    return i < s.n ? rng_mix(h ^ VAL_CHAR(s.p[i])) : h;
}

/* The hash of a value without parts. */
static uint64_t val__hash_leaf(val_env *env, val v) {
    switch ((val_kind)v.kind) {
    case VAL_BOOL: case VAL_INT: case VAL_BIG:
    case VAL_FLOAT:  return val__hash_number(env->seed, v);
    case VAL_STR:    val_step_chars(env, v.s.n); return val__hash_str(env->seed, v.s);
    case VAL_RANGE:  return rng_mix(env->seed ^ val__range_n(v.range));
    case VAL_FUNC:   return rng_mix(env->seed ^ (uintptr_t)v.func ^ (uintptr_t)v.self);
    case VAL_ITER:   return rng_mix(env->seed ^ (uintptr_t)v.iter);
    case VAL_OBJECT: return rng_mix(env->seed ^ (uintptr_t)v.object);
    case VAL_UNDEF: case VAL_NONE: case VAL_TUPLE: break;
    case VAL_LIST: case VAL_DICT: case VAL_VIEW: case VAL_KINDS:
        val_fail(env, EXIT_INPUT, "found %s as a key, expected a value that cannot change", val_kind_name(v));
    }
    return rng_mix(env->seed + v.kind);
}

/* Equal values have equal hashes. Fails where the value can change: lists and dicts. */
static uint64_t val__hash(val_env *env, val v) {
    val__walk w = {0};
    uint64_t  h = env->seed;
    if (v.kind != VAL_TUPLE) return val__hash_leaf(env, v);
    val__push_value(env, &w, v, NULL);
    while (w.n) {
        if (!val__next(env, &w, &v)) w.n--, h = rng_mix(h + 1);
        else if (v.kind == VAL_TUPLE) val__push_value(env, &w, v, NULL), h = rng_mix(h + 2);
        else h = rng_mix(h ^ val__hash_leaf(env, v));
    }
    return h;
}

/* Whether the value can be a key: lists and dicts cannot, nor tuples that hold them. */
static bool val__hashable(val_env *env, val v) {
    val__walk w = {0};
    if (v.kind != VAL_TUPLE) return v.kind != VAL_LIST && v.kind != VAL_DICT && v.kind != VAL_VIEW;
    val__push_value(env, &w, v, NULL);
    while (w.n) {
        if (!val__next(env, &w, &v)) w.n--;
        else if (v.kind == VAL_TUPLE) val__push_value(env, &w, v, NULL);
        else if (v.kind == VAL_LIST || v.kind == VAL_DICT || v.kind == VAL_VIEW) return false;
    }
    return true;
}

/* --- dicts --- */

enum { VAL__FEW = 8 };                                /* pairs up to which a dict has no index */

/* An empty dict. */
static val val_dict_new(val_env *env) {
    val_dict *d = val_alloc(env, 1, sizeof *d);
    d->env = env;
    return val_of_dict(d);
}

/* Whether the pair has this key. */
static bool val__pair_is(val_env *env, const val_pair *p, uint64_t hash, val key) {
    return !p->gone && p->hash == hash && val_eq(env, p->key, key);
}

/* The place of a key in d->at, d->n: it is not there. */
static size_t val__dict_find(val_dict *d, uint64_t hash, val key) {
    if (!d->slot) {
        for (size_t i = 0; i < d->n; i++)
            if (val__pair_is(d->env, &d->at[i], hash, key)) return i;
        return d->n;
    }
    for (size_t i = hash & (d->n_slots - 1); d->slot[i]; i = (i + 1) & (d->n_slots - 1)) {
        const size_t at = d->slot[i] - 1;
        if (at < d->n && val__pair_is(d->env, &d->at[at], hash, key)) return at;
    }
    return d->n;
}

static val *val__dict_at(val_dict *d, val key) {
    const size_t i = d->n ? val__dict_find(d, val__hash(d->env, key), key) : 0;
    return i < d->n ? &d->at[i].value : NULL;
}

static void val__dict_link(val_dict *d, size_t place) {
    size_t i = d->at[place].hash & (d->n_slots - 1);
    while (d->slot[i]) i = (i + 1) & (d->n_slots - 1);
    d->slot[i] = (uint32_t)place + 1;
}

/* Grows the dict for one more pair: drops deleted ones, doubles the array, and builds the index anew. */
static void val__dict_grow(val_env *env, val_dict *d) {
    const uint64_t cap = d->live >= d->cap / 2 ? val__grown(d->cap, VAL__FEW) : d->cap;
    if (cap > UINT32_MAX / 4) val_room(env, UINT64_MAX, 1);
    val_pair *at = val_alloc(env, cap, sizeof *at);
    size_t    n = 0;
    val_step(env, d->n / 4);
    for (size_t i = 0; i < d->n; i++)
        if (!d->at[i].gone) at[n++] = d->at[i];
    d->at = at;
    d->n = n;
    d->cap = cap;
    if (cap <= VAL__FEW) return;
    for (d->n_slots = 32; d->n_slots < 2 * cap;) d->n_slots *= 2;
    d->slot = val_alloc(env, d->n_slots, sizeof *d->slot);
    for (size_t i = 0; i < n; i++) val__dict_link(d, i);
}

/* d[key] = v. A key that is there keeps its place. */
static void val_dict_set(val_env *env, val_dict *d, val key, val v) {
    const uint64_t hash = val__hash(env, key);
    size_t         i = val__dict_find(d, hash, key);
    if (i < d->n) {
        d->at[i].value = v;
        return;
    }
    if (d->n == d->cap) val__dict_grow(env, d);
    d->at[d->n++] = (val_pair){key, v, hash, false};
    d->live++;
    if (d->slot) val__dict_link(d, d->n - 1);
}

/* d[key]; undefined and *found false where it is not there. found may be NULL. Fails where the key cannot be one. */
static val val_dict_get(val_dict *d, val key, bool *found) {
    const uint64_t hash = val__hash(d->env, key);
    const size_t   i = val__dict_find(d, hash, key);
    if (found) *found = i < d->n;
    return i < d->n ? d->at[i].value : val_undef(NULL);
}

/* Deletes a key; false: it was not there. */
static bool val_dict_del(val_dict *d, val key) {
    const size_t i = val__dict_find(d, val__hash(d->env, key), key);
    if (i == d->n) return false;
    d->at[i].gone = true;
    d->live--;
    return true;
}

/* An entry of a dict by its name, ASCII of at most 63 letters; undefined where v is no dict or has none. */
static val val_get(val v, const char *name) {
    val_chr      text[64];
    const size_t n = strlen(name);
    ASSERT(n < sizeof text / sizeof *text);
    if (v.kind != VAL_DICT) return val_undef(name);
    for (size_t i = 0; i < n; i++) text[i] = (uint8_t)name[i];
    const val *found = val__dict_at(v.dict, val_str_view((val_str){text, (uint32_t)n, NULL}));
    return found ? *found : val_undef(name);
}

/* d[name] = v. */
static void val_put(val_env *env, val_dict *d, const char *name, val v) { val_dict_set(env, d, val_str_of(env, name), v); }

/* --- order, membership, items --- */

__attribute__((noreturn)) static void val__no_order(val_env *env, val a, val b, const char *op) {
    val_fail(env, EXIT_INPUT, "'%s' is not supported between %s and %s", op, val_kind_name(a), val_kind_name(b));
}

/* Fails where one of them is undefined. */
static void val_defined(val_env *env, val v) {
    if (v.kind == VAL_UNDEF) val_fail(env, EXIT_INPUT, "%s is undefined", v.name ? v.name : "a value");
}

/* -1, 0, 1; VAL_UNORDERED: a NaN is there, and each comparison is false. op, in the message: what cannot be compared. */
static int val_order(val_env *env, val a, val b, const char *op) {
    for (int depth = 0;; depth++) {
        size_t i = 0;
        val_defined(env, a);
        val_defined(env, b);
        if (val__is_number(a) && val__is_number(b)) return val__order_numbers(a, b);
        if (a.kind != b.kind) val__no_order(env, a, b, op);
        if (a.kind == VAL_STR) return val_step_chars(env, min_size(a.s.n, b.s.n)), val__str_order(a.s, b.s);
        if (a.kind != VAL_LIST && a.kind != VAL_TUPLE) val__no_order(env, a, b, op);
        const val_list *x = a.list, *y = b.list;
        if (depth == VAL_DEPTH_MAX) val_fail(env, EXIT_RESOURCE, "values are more than %d levels deep", VAL_DEPTH_MAX);
        while (i < x->n && i < y->n && val_eq(env, x->at[i], y->at[i])) val_step(env, 1), i++;
        if (i == x->n || i == y->n) return x->n < y->n ? -1 : x->n > y->n;
        a = x->at[i];
        b = y->at[i];
    }
}

static val val__range_at(val_range r, uint64_t i) { return val_int((int64_t)((uint64_t)r.from + i * (uint64_t)r.step)); }

/* What a dict or a view shows of a pair of its dict. */
static val val_entry(val_env *env, val v, const val_pair *p) {
    if (v.kind == VAL_DICT || v.view == VAL_KEYS) return p->key;
    return v.view == VAL_VALUES ? p->value : val__pair_of(env, p->key, p->value);
}

/* Any iterable as a list. Of a list or tuple it is the list itself: do not change it. An iterator is spent by it. */
static val_list *val_items(val_env *env, val v) {
    if (v.kind == VAL_LIST || v.kind == VAL_TUPLE) return v.list;
    if (v.kind == VAL_ITER) {
        val_list *l = val_alloc(env, 1, sizeof *l);
        const size_t n = v.iter->list->n - v.iter->at;
        if (n) *l = (val_list){v.iter->list->at + v.iter->at, n, n};
        v.iter->at += n;
        return l;
    }
    if (!val_has_len(v)) val_fail(env, EXIT_INPUT, "found %s, which has no items", val_kind_name(v));
    const uint64_t n = val_len(env, v);
    val_step(env, n / 8);
    val_list *l = val__list_room(env, n);
    if (v.kind == VAL_STR)
        for (size_t i = 0; i < n; i++) l->at[l->n++] = val_str_view(val_sub(v.s, i, i + 1));
    else if (v.kind == VAL_RANGE)
        for (uint64_t i = 0; i < n; i++) l->at[l->n++] = val__range_at(v.range, i);
    else if (v.kind == VAL_DICT || v.kind == VAL_VIEW)
        for (size_t i = 0; i < v.dict->n; i++) {
            if (!v.dict->at[i].gone) l->at[l->n++] = val_entry(env, v, &v.dict->at[i]);
        }
    return l;
}

/* Whether val_items() has an answer. */
static bool val_iterable(val v) { return val_has_len(v) || v.kind == VAL_ITER; }

static bool val__among(val_env *env, val item, const val_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        val_step(env, 1);
        if (val_eq(env, l->at[i], item)) return true;
    }
    return false;
}

static bool val__in_range(val item, val_range r) {
    if (item.kind == VAL_FLOAT && item.f == floor(item.f) && fabs(item.f) < 0x1p62) item = val_int((int64_t)item.f);
    if (item.kind != VAL_INT && item.kind != VAL_BOOL) return false;
    const int64_t i = val__small(item);
    if (r.step > 0 ? i < r.from || i >= r.to : i > r.from || i <= r.to) return false;
    const uint64_t from = (uint64_t)r.from, step = (uint64_t)r.step, at = (uint64_t)i;
    return r.step > 0 ? (at - from) % step == 0 : (from - at) % (0 - step) == 0;
}

/* item in container, as Python's. */
static bool val_in(val_env *env, val item, val container) {
    if (container.kind == VAL_STR) {
        val_defined(env, item);
        if (item.kind != VAL_STR)
            val_fail(env, EXIT_INPUT, "found %s before 'in' and a str after it, expected a str", val_kind_name(item));
        return val_find(env, container.s, item.s, 0, container.s.n) != VAL_NOWHERE;
    }
    if (container.kind == VAL_DICT || (container.kind == VAL_VIEW && container.view == VAL_KEYS)) {
        bool found;
        val_dict_get(container.dict, item, &found);
        return found;
    }
    if (container.kind == VAL_RANGE) return val__in_range(item, container.range);
    if (container.kind == VAL_ITER) {
        val_iter *it = container.iter;
        while (it->at < it->list->n) {
            val_step(env, 1);
            if (val_eq(env, it->list->at[it->at++], item)) return true;
        }
        return false;
    }
    if (!val_iterable(container))
        val_fail(env, EXIT_INPUT, "found %s after 'in', expected something with items", val_kind_name(container));
    return val__among(env, item, val_items(env, container));
}

/* An empty copy of a value with parts, else the value. */
static val val__shell(val_env *env, val v) {
    if (v.kind == VAL_LIST) return val_list_new(env);
    if (v.kind == VAL_TUPLE) return v.list = val_tuple_new(env).list, v;
    if (v.kind == VAL_STR) v.s.own = NULL;            /* the buffer may be another val_env's */
    return v.kind == VAL_DICT ? val_dict_new(env) : v;
}

/* A copy: lists, tuples and dicts are new on every level; characters and tuples that are keys are shared, since they never
 * change. */
static val val_copy(val_env *env, val v) {
    val__walk from = {0};
    const val root = val__shell(env, v);
    val_list *shells = val_list_new(env).list;        /* copies of the values that are open in `from` */
    val       part, key = val_none();
    if (!val__has_parts(v)) return root;
    val__push_value(env, &from, v, NULL);
    val_list_add(env, shells, root);
    while (from.n) {
        const val  into = shells->at[from.n - 1];
        const bool more = val__next(env, &from, into.kind == VAL_DICT ? &key : &part);
        if (!more) {
            from.n--, shells->n--;
            continue;
        }
        if (into.kind == VAL_DICT) val__next(env, &from, &part);
        const val copy = val__shell(env, part);
        if (into.kind == VAL_DICT) val_dict_set(env, into.dict, key.kind == VAL_TUPLE ? key : val__shell(env, key), copy);
        else val_list_add(env, into.list, copy);
        if (!val__has_parts(part)) continue;
        val__push_value(env, &from, part, NULL);
        val_list_add(env, shells, copy);
    }
    return root;
}

/* --- subscripts and slices --- */

/* v[key]; undefined where there is none, or where v has no items of this kind. */
static val val_index(val_env *env, val v, val key) {
    val_defined(env, v);
    if (v.kind == VAL_DICT) return val__hashable(env, key) ? val_dict_get(v.dict, key, NULL) : val_undef(NULL);
    if (v.kind != VAL_STR && v.kind != VAL_LIST && v.kind != VAL_TUPLE && v.kind != VAL_RANGE) return val_undef(NULL);
    if (key.kind != VAL_INT && key.kind != VAL_BOOL) return val_undef(NULL);
    const uint64_t n = val_len(env, v);
    int64_t        i = val__small(key);
    if (i < 0 && 0 - (uint64_t)i > n) return val_undef(NULL);
    const uint64_t at = i < 0 ? n - (0 - (uint64_t)i) : (uint64_t)i;
    if (at >= n) return val_undef(NULL);
    if (v.kind == VAL_RANGE) return val__range_at(v.range, at);
    if (v.kind != VAL_STR) return v.list->at[at];
    val c = val_str_view(val_sub(v.s, at, at + 1));
    c.safe = v.safe;
    return c;
}

/* One bound of a slice over n items, from least to most; `left` where it is None. An integer of any size is brought into
 * the bounds. */
static bool val__bound(val v, int64_t n, int64_t least, int64_t most, int64_t left, int64_t *out) {
    if (v.kind == VAL_NONE) return *out = left, true;
    if (!val__is_int(v)) return false;
    if (v.kind == VAL_BIG) return *out = val_is_negative(v) ? least : most, true;
    int64_t i = val__small(v);
    if (i < 0) i += n;
    *out = max_i64(least, min_i64(i, most));
    return true;
}

/* The bounds of v[from:to:step] over n items; false: one of them is no integer. */
static bool val__bounds(val_env *env, uint64_t n, val from, val to, val step, int64_t *lo, int64_t *hi, int64_t *by) {
    const int64_t len = (int64_t)min_u64(n, INT64_MAX);
    if (!val__bound(step, 0, -INT64_MAX, INT64_MAX, 1, by)) return false;
    if (*by == 0) val_fail(env, EXIT_INPUT, "the step of a slice is 0");
    const int64_t least = *by < 0 ? -1 : 0, most = *by < 0 ? len - 1 : len;
    return val__bound(from, len, least, most, *by < 0 ? most : 0, lo) && val__bound(to, len, least, most, *by < 0 ? -1 : len, hi);
}

/* Items lo .. hi of a range, each by-th of them: a range too. */
static val val__range_slice(val_env *env, val_range r, int64_t lo, int64_t hi, int64_t by) {
    int64_t    from, to, step;
    const bool wraps = __builtin_mul_overflow(lo, r.step, &from) || __builtin_add_overflow(r.from, from, &from) ||
                       __builtin_mul_overflow(hi, r.step, &to) || __builtin_add_overflow(r.from, to, &to) ||
                       __builtin_mul_overflow(by, r.step, &step);
    if (wraps) val_fail(env, EXIT_INPUT, "the bounds of a range do not fit in 64 bits");
    return val_range_of(from, to, step);
}

/* v[from:to:step], each of them None or an integer; undefined where v has no slices or a bound is something else. */
static val val_slice(val_env *env, val v, val from, val to, val step) {
    int64_t lo, hi, by;
    val_defined(env, v);
    if (v.kind != VAL_STR && v.kind != VAL_LIST && v.kind != VAL_TUPLE && v.kind != VAL_RANGE) return val_undef(NULL);
    if (!val__bounds(env, val_len(env, v), from, to, step, &lo, &hi, &by)) return val_undef(NULL);
    const uint64_t n = val__range_n((val_range){lo, hi, by});
    if (v.kind == VAL_RANGE) return val__range_slice(env, v.range, lo, hi, by);
    if (v.kind == VAL_STR && by == 1) {
        v.s = n ? val_sub(v.s, (size_t)lo, (size_t)lo + n) : (val_str){0};
        return v;
    }
    val_step(env, n / 32);
    if (v.kind == VAL_STR) {
        val_buf *b = val_buf_new(env);
        val_buf_reserve(env, b, n);
        for (uint64_t i = 0; i < n; i++) b->at[b->n++] = v.s.p[lo + (int64_t)i * by];
        v.s = val_buf_str(b);
        return v;
    }
    val_list *l = val__list_room(env, n);
    for (uint64_t i = 0; i < n; i++) l->at[l->n++] = v.list->at[lo + (int64_t)i * by];
    v.list = l;
    return v;
}

/* --- arithmetic --- */

/* The operands of an operator: both are numbers, or it fails. */
static void val__numbers(val_env *env, val a, val b, const char *op) {
    val_defined(env, a);
    val_defined(env, b);
    if (!val__is_number(a) || !val__is_number(b)) val__no_order(env, a, b, op);
}

/* Integers have 64 bits in every operation. */
__attribute__((noreturn)) static void val__beyond(val_env *env, const char *op) {
    val_fail(env, EXIT_INPUT, "'%s' takes or makes an integer beyond 64 bits", op);
}

static bool val__has_big(val a, val b) { return a.kind == VAL_BIG || b.kind == VAL_BIG; }
static bool val__has_float(val a, val b) { return a.kind == VAL_FLOAT || b.kind == VAL_FLOAT; }

/* Escapes the characters that HTML gives a meaning: & < > ' ". */
static val_str val_escape(val_env *env, val_str s) {
    static const struct {
        char        c;
        const char *as;
    } rows[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    val_buf *b = val_buf_new(env);
    val_buf_reserve(env, b, s.n);
    for (size_t i = 0; i < s.n; i++) {
        const char *as = NULL;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            if (VAL_CHAR(s.p[i]) == (uint8_t)rows[r].c) as = rows[r].as;
        if (as) val__buf_ascii(env, b, as, s.p[i] & VAL_INPUT);
        else val_buf_chr(env, b, s.p[i]);
    }
    val_step_chars(env, b->n);
    return val_buf_str(b);
}

/* a + b, in place where a ends its buffer. */
static val_str val_join(val_env *env, val_str a, val_str b) {
    if (!a.n) return b;
    if (!b.n) return a;
    if (a.own && a.p + a.n == a.own->at + a.own->n) {
        const size_t begin = (size_t)(a.p - a.own->at);
        val_buf_add(env, a.own, b);
        return (val_str){a.own->at + begin, a.n + b.n, a.own};
    }
    val_buf *r = val_buf_new(env);
    val_buf_reserve(env, r, (uint64_t)a.n + b.n);
    val_buf_add(env, r, a);
    val_buf_add(env, r, b);
    return val_buf_str(r);
}

/* Two strings: where one of them is markup, the other one is escaped. */
static val val__add_str(val_env *env, val a, val b) {
    const bool safe = a.safe || b.safe;
    if (safe && !a.safe) a.s = val_escape(env, a.s);
    if (safe && !b.safe) b.s = val_escape(env, b.s);
    val r = val_str_view(val_join(env, a.s, b.s));
    r.safe = safe;
    return r;
}

static val val__add_list(val_env *env, val a, val b) {
    val_list *l = val__list_room(env, (uint64_t)a.list->n + b.list->n);
    val_step(env, (a.list->n + b.list->n) / 16);
    for (size_t i = 0; i < a.list->n; i++) l->at[l->n++] = a.list->at[i];
    for (size_t i = 0; i < b.list->n; i++) l->at[l->n++] = b.list->at[i];
    a.list = l;
    return a;
}

/* a + b of numbers, strings, lists or tuples. */
static val val_add(val_env *env, val a, val b) {
    int64_t r;
    if (a.kind == VAL_STR && b.kind == VAL_STR) return val__add_str(env, a, b);
    if ((a.kind == VAL_LIST || a.kind == VAL_TUPLE) && a.kind == b.kind) return val__add_list(env, a, b);
    val__numbers(env, a, b, "+");
    if (val__has_float(a, b)) return val_float(val__as_float(env, a) + val__as_float(env, b));
    if (val__has_big(a, b) || __builtin_add_overflow(val__small(a), val__small(b), &r)) val__beyond(env, "+");
    return val_int(r);
}

/* a - b of numbers. */
static val val_minus(val_env *env, val a, val b) {
    int64_t r;
    val__numbers(env, a, b, "-");
    if (val__has_float(a, b)) return val_float(val__as_float(env, a) - val__as_float(env, b));
    if (val__has_big(a, b) || __builtin_sub_overflow(val__small(a), val__small(b), &r)) val__beyond(env, "-");
    return val_int(r);
}

/* How often a sequence of n elements is repeated: v is an int; negative: 0 times. Fails where the result is beyond the limit. */
static uint64_t val__times(val_env *env, val v, uint64_t n, uint64_t each) {
    uint64_t total;
    if (!val__is_int(v)) val_fail(env, EXIT_INPUT, "found %s times a sequence, expected an int", val_kind_name(v));
    if (v.kind == VAL_BIG) val_room(env, UINT64_MAX, 1);
    if (!n || val__small(v) <= 0) return 0;
    if (__builtin_mul_overflow((uint64_t)val__small(v), n, &total)) total = UINT64_MAX;
    val_room(env, total, each);
    return (uint64_t)val__small(v);
}

static val val__repeat(val_env *env, val v, val times) {
    if (v.kind == VAL_STR) {
        const uint64_t n = val__times(env, times, v.s.n, sizeof(val_chr));
        val_buf       *b = val_buf_new(env);
        val_buf_reserve(env, b, n * v.s.n);
        val_step(env, n / 16);
        for (uint64_t i = 0; i < n; i++) val_buf_add(env, b, v.s);
        v.s = val_buf_str(b);
        return v;
    }
    const uint64_t n = val__times(env, times, v.list->n, sizeof(val));
    val_list      *l = val__list_room(env, n * v.list->n);
    val_step(env, n * v.list->n / 16 + n / 16);
    for (uint64_t i = 0; i < n; i++)
        for (size_t k = 0; k < v.list->n; k++) l->at[l->n++] = v.list->at[k];
    v.list = l;
    return v;
}

static bool val__is_sequence(val v) { return v.kind == VAL_STR || v.kind == VAL_LIST || v.kind == VAL_TUPLE; }

/* a * b of numbers, or of a sequence and an int. */
static val val_mul(val_env *env, val a, val b) {
    int64_t r;
    if (val__is_sequence(a) && val__is_int(b)) return val__repeat(env, a, b);
    if (val__is_sequence(b) && val__is_int(a)) return val__repeat(env, b, a);
    val__numbers(env, a, b, "*");
    if (val__has_float(a, b)) return val_float(val__as_float(env, a) * val__as_float(env, b));
    if (val__has_big(a, b) || __builtin_mul_overflow(val__small(a), val__small(b), &r)) val__beyond(env, "*");
    return val_int(r);
}

/* Whether a float holds every integer between 0 and this one. */
static bool val__exact(val v) { return val__small(v) <= 1ll << 53 && val__small(v) >= -(1ll << 53); }

/* Fails where b is 0. */
static void val__not_zero(val_env *env, val b) {
    if (!val_truth(b)) val_fail(env, EXIT_INPUT, "division by zero");
}

/* a / b, always a float. Fails where an integer may not be one. */
static val val_div(val_env *env, val a, val b) {
    val__numbers(env, a, b, "/");
    val__not_zero(env, b);
    const bool rough = !val__has_float(a, b) && (val__has_big(a, b) || !val__exact(a) || !val__exact(b));
    if (rough) val_fail(env, EXIT_INPUT, "'/' takes an integer that needs more than 53 bits");
    return val_float(val__as_float(env, a) / val__as_float(env, b));
}

/* Floor division of floats: the quotient, or the rest with b's sign. */
static double val__float_div(double a, double b, bool quotient) {
    double rest = fmod(a, b), whole = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) rest += b, whole -= 1;
    if (!quotient) return rest != 0 ? rest : copysign(0, b);
    return whole == 0 ? copysign(0, a / b) : floor(whole) + (whole - floor(whole) > 0.5);
}

static val val__floor_div(val_env *env, val a, val b, bool quotient) {
    const char *op = quotient ? "//" : "%";
    val__numbers(env, a, b, op);
    val__not_zero(env, b);
    if (val__has_float(a, b)) return val_float(val__float_div(val__as_float(env, a), val__as_float(env, b), quotient));
    if (val__has_big(a, b) || (quotient && val__small(a) == INT64_MIN && val__small(b) == -1)) val__beyond(env, op);
    const int64_t n = val__small(a), by = val__small(b), rest = by == -1 ? 0 : n % by;
    const bool    floors = rest != 0 && (rest < 0) != (by < 0);
    return val_int(quotient ? n / by - floors : floors ? rest + by : rest);
}

/* a // b: the largest whole number that is not above the quotient. */
static val val_floordiv(val_env *env, val a, val b) { return val__floor_div(env, a, b, true); }
/* a % b of numbers: the rest of a // b, with b's sign. */
static val val_mod(val_env *env, val a, val b) { return val__floor_div(env, a, b, false); }

/* -v of a number. */
static val val_neg(val_env *env, val v) {
    val_defined(env, v);
    if (v.kind == VAL_FLOAT) return val_float(-v.f);
    if (!val__is_int(v)) val_fail(env, EXIT_INPUT, "found - before %s, expected a number", val_kind_name(v));
    if (v.kind == VAL_BIG || val__small(v) == INT64_MIN) val__beyond(env, "-");
    return val_int(-val__small(v));
}

/* +v of a number: True becomes 1. */
static val val_pos(val_env *env, val v) {
    val_defined(env, v);
    if (!val__is_number(v)) val_fail(env, EXIT_INPUT, "found + before %s, expected a number", val_kind_name(v));
    return v.kind == VAL_BOOL ? val_int(v.b) : v;
}

/* --- numbers as text and back --- */

/* The shortest decimal that reads back as f, in Python's form; f may be infinite or NaN. */
typedef struct {
    char p[32];
} val_float_text;

/* The digits of f > 0 in scientific form with `digits` digits: "d.ddde+xx". True: they read back as f. A power of two has
 * a narrower neighbourhood below than above, so the decimal above is tried too. */
static bool val__digits(double f, int digits, char *out, size_t size) {
    int exp;
    snprintf(out, size, "%.*e", digits - 1, f);
    if (strtod(out, NULL) == f) return true;
    if (frexp(f, &exp) != 0.5) return false;
    char *last = strchr(out, 'e') - 1;
    if (*last == '9' || *last == '.') return false;
    ++*last;
    return strtod(out, NULL) == f;
}

/* Python's repr(f): the shortest digits that are read back as f. */
static val_float_text val_float_repr(double f) {
    val_float_text t;
    char           sci[40], digits[24];
    int            n = 0;
    if (isnan(f)) return (val_float_text){"nan"};
    if (isinf(f)) return f > 0 ? (val_float_text){"inf"} : (val_float_text){"-inf"};
    if (f == 0) return signbit(f) ? (val_float_text){"-0.0"} : (val_float_text){"0.0"};
    const char *sign = f < 0 ? "-" : "";
    for (int d = fabs(f) < DBL_MIN ? 1 : 15; !val__digits(fabs(f), d, sci, sizeof sci) && d < 17; d++) {}
    for (const char *c = sci; *c != 'e'; c++)
        if (*c != '.') digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    const int exp = atoi(strchr(sci, 'e') + 1);
    if (exp < -4 || exp >= 16)
        snprintf(t.p, sizeof t.p, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "", n - 1, digits + 1,
            exp < 0 ? '-' : '+', abs(exp));
    else if (exp < 0) snprintf(t.p, sizeof t.p, "%s0.%.*s%.*s", sign, -exp - 1, "000", n, digits);
    else if (n <= exp + 1) snprintf(t.p, sizeof t.p, "%s%.*s%.*s.0", sign, n, digits, exp + 1 - n, "0000000000000000");
    else snprintf(t.p, sizeof t.p, "%s%.*s.%s", sign, exp + 1, digits, digits + exp + 1);
    return t;
}

/* Appends an integer in decimal digits. */
static void val_put_int(val_env *env, val_buf *b, val v) {
    char text[24];
    if (v.kind == VAL_BIG) {
        val_step_chars(env, v.s.n);
        for (size_t i = 0; i < v.s.n; i++) val_buf_chr(env, b, VAL_CHAR(v.s.p[i]));
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)val__small(v));
    val_buf_put(env, b, text);
}

/* --- printed forms: str() and repr() --- */

/* Appends a character of a printed string: printable as it is, else as an escape. */
static void val__repr_chr(val_env *env, val_buf *b, val_chr c, char quote) {
    const val_chr u = VAL_CHAR(c);
    char          text[16];
    if (u == (uint8_t)quote || u == '\\') snprintf(text, sizeof text, "\\%c", (char)u);
    else if (u == '\n') strcpy(text, "\\n");
    else if (u == '\r') strcpy(text, "\\r");
    else if (u == '\t') strcpy(text, "\\t");
    else if (u >= VAL_BYTE) snprintf(text, sizeof text, "\\udc%02x", u - VAL_BYTE);
    else if (val__printable(u)) {
        val_buf_chr(env, b, c);
        return;
    } else if (u < 0x100) snprintf(text, sizeof text, "\\x%02x", u);
    else if (u < 0x10000) snprintf(text, sizeof text, "\\u%04x", u);
    else snprintf(text, sizeof text, "\\U%08x", u);
    val__buf_ascii(env, b, text, c & VAL_INPUT);
}

static void val__repr_str(val_env *env, val_buf *b, val v) {
    bool single = false, twice = false;
    for (size_t i = 0; i < v.s.n; i++) {
        single = single || VAL_CHAR(v.s.p[i]) == '\'';
        twice = twice || VAL_CHAR(v.s.p[i]) == '"';
    }
    const char quote = single && !twice ? '"' : '\'';
    val_step_chars(env, 2 * (uint64_t)v.s.n);
    if (v.safe) val_buf_put(env, b, "Markup(");
    val_buf_chr(env, b, (uint8_t)quote);
    for (size_t i = 0; i < v.s.n; i++) val__repr_chr(env, b, v.s.p[i], quote);
    val_buf_chr(env, b, (uint8_t)quote);
    if (v.safe) val_buf_put(env, b, ")");
}

static void val__repr_range(val_env *env, val_buf *b, val_range r) {
    char text[80];
    snprintf(text, sizeof text, r.step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)r.from,
        (long long)r.to, (long long)r.step);
    val_buf_put(env, b, text);
}

/* A float is printed and read back up to three times, a subnormal one up to seventeen. */
static void val__repr_float(val_env *env, val_buf *b, double f) {
    val_step(env, fabs(f) < DBL_MIN && f != 0 ? 200 : 10);
    val_buf_put(env, b, val_float_repr(f).p);
}

/* repr() of a value without parts. */
static void val__repr_leaf(val_env *env, val_buf *b, val v) {
    switch ((val_kind)v.kind) {
    case VAL_UNDEF:  val_buf_put(env, b, "Undefined"); break;
    case VAL_NONE:   val_buf_put(env, b, "None"); break;
    case VAL_BOOL:   val_buf_put(env, b, v.b ? "True" : "False"); break;
    case VAL_INT:
    case VAL_BIG:    val_put_int(env, b, v); break;
    case VAL_FLOAT:  val__repr_float(env, b, v.f); break;
    case VAL_STR:    val__repr_str(env, b, v); break;
    case VAL_RANGE:  val__repr_range(env, b, v.range); break;
    case VAL_OBJECT: case VAL_ITER: case VAL_FUNC: case VAL_LIST: case VAL_TUPLE: case VAL_DICT: case VAL_VIEW: case VAL_KINDS:
        val_buf_put(env, b, "<");
        val_buf_put(env, b, v.kind == VAL_FUNC ? "function " : val_kind_name(v));
        if (v.kind == VAL_FUNC) val_buf_put(env, b, v.func->name);
        val_buf_put(env, b, ">");
        break;
    }
}

/* What is around the parts of a value, and in their place where the value holds itself. */
static const struct {
    const char *open;                                 /* before the parts */
    const char *shut;                                 /* after them */
    const char *itself;                               /* in their place */
} val__brackets[VAL_KINDS] = {
    [VAL_LIST] = {"[", "]", "[...]"},
    [VAL_TUPLE] = {"(", ")", "(...)"},
    [VAL_DICT] = {"{", "}", "{...}"},
    [VAL_OBJECT] = {"{", "}>", "{...}>"},
};

/* Begins a value: opens and pushes it, or prints it where it has no parts. */
static void val__repr_begin(val_env *env, val_buf *b, val__walk *w, val v) {
    const val_kind kind = v.kind;
    if (kind == VAL_VIEW) {
        val_buf_put(env, b, val_kind_name(v));
        val_buf_put(env, b, "([");
        val__push_value(env, w, val_of_list(val_items(env, v)), "])");
        return;
    }
    if (kind == VAL_OBJECT && v.object->type->dict) {
        val_buf_put(env, b, "<");
        val_buf_put(env, b, v.object->type->name);
        val_buf_put(env, b, " ");
        v = val_of_dict(v.object->type->dict(v.object));
    }
    if (!val__has_parts(v)) val__repr_leaf(env, b, v);
    else if (val__open(env, w, v.kind == VAL_DICT ? (const void *)v.dict : v.list))
        val_buf_put(env, b, val__brackets[kind].itself);
    else {
        val_buf_put(env, b, val__brackets[kind].open);
        val__push_value(env, w, v, kind == VAL_TUPLE && v.list->n == 1 ? ",)" : val__brackets[kind].shut);
    }
}

/* Appends repr(v). */
static void val__repr(val_env *env, val_buf *b, val v) {
    val__walk w = {0};
    val__repr_begin(env, b, &w, v);
    while (w.n) {
        val__level *l = &w.at[w.n - 1];
        const bool first = l->seen == 0, is_pairs = l->pairs != NULL;
        if (!val__next(env, &w, &v)) {
            val_buf_put(env, b, l->shut);
            w.n--;
            continue;
        }
        const bool value = is_pairs && l->seen % 2 == 0;
        if (!first) val_buf_put(env, b, value ? ": " : ", ");
        val__repr_begin(env, b, &w, v);
    }
}

/* Appends str(v): of a string its characters, of an undefined value nothing, else repr(v). */
static void val_print(val_env *env, val_buf *b, val v) {
    if (v.kind == VAL_STR) val_buf_add(env, b, v.s);
    else if (v.kind != VAL_UNDEF) val__repr(env, b, v);
}

/* str(v) as a string; of a string the same one. */
static val_str val_as_str(val_env *env, val v) {
    if (v.kind == VAL_STR) return v.s;
    val_buf *b = val_buf_new(env);
    val_print(env, b, v);
    return val_buf_str(b);
}

/* --- JSON as text --- */

/* Options of json.dumps. */
typedef struct {
    val  indent;                                      /* None: one line; an int: spaces; a str */
    val  item_sep;                                    /* str; None: Python's default */
    val  key_sep;                                     /* str; None: Python's default */
    bool sort_keys;                                   /* pairs in the order of their keys */
    bool ensure_ascii;                                /* other characters as escapes */
} val_json_form;

typedef struct {
    val_env             *env;
    val_buf             *b;
    const val_json_form *form;
    val_str              indent;                      /* of one level */
    val_str              item_sep;
    val_str              key_sep;
    bool                 lines;                       /* with an indent */
} val__json_out;

static void val__json_chr(val_env *env, val_buf *b, val_chr c, bool ascii) {
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    const val_chr     u = VAL_CHAR(c);
    char              text[16];
    for (size_t i = 0; i + 1 < sizeof named; i += 2) {
        if (u != (uint8_t)named[i]) continue;
        val_buf_chr(env, b, '\\' | (c & VAL_INPUT));
        val_buf_chr(env, b, (uint8_t)named[i + 1] | (c & VAL_INPUT));
        return;
    }
    if (u >= 0x20 && (!ascii || u < 0x7f)) {
        val_buf_chr(env, b, c);
        return;
    }
    if (u >= VAL_BYTE) snprintf(text, sizeof text, "\\udc%02x", u - VAL_BYTE);
    else if (u < 0x10000) snprintf(text, sizeof text, "\\u%04x", u);
    else snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((u - 0x10000) >> 10), 0xdc00 + (u & 0x3ff));
    val__buf_ascii(env, b, text, c & VAL_INPUT);
}

static void val__json_str(val_env *env, val_buf *b, val_str s, bool ascii) {
    val_buf_put(env, b, "\"");
    val_step_chars(env, 2 * (uint64_t)s.n);
    for (size_t i = 0; i < s.n; i++) val__json_chr(env, b, s.p[i], ascii);
    val_buf_put(env, b, "\"");
}

/* A value without parts; quoted: as a key, in quotes. */
static void val__json_leaf(val__json_out *o, val v, bool key) {
    val_env *env = o->env;
    if (v.kind == VAL_STR) {
        val__json_str(env, o->b, v.s, o->form->ensure_ascii);
        return;
    }
    if (v.kind != VAL_NONE && v.kind != VAL_BOOL && !val__is_number(v))
        val_fail(env, EXIT_INPUT,
            key ? "found %s as a key for JSON, expected str, int, float, bool or None" : "found %s, which JSON does not have",
            val_kind_name(v));
    if (key) val_buf_put(env, o->b, "\"");
    if (v.kind == VAL_NONE) val_buf_put(env, o->b, "null");
    else if (v.kind == VAL_BOOL) val_buf_put(env, o->b, v.b ? "true" : "false");
    else if (v.kind == VAL_FLOAT && !isfinite(v.f))
        val_buf_put(env, o->b, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
    else val__repr_leaf(env, o->b, v);
    if (key) val_buf_put(env, o->b, "\"");
}

/* A new line of this depth. */
static void val__json_line(val__json_out *o, size_t depth) {
    if (!o->lines) return;
    val_buf_put(o->env, o->b, "\n");
    for (size_t i = 0; i < depth; i++) val_buf_add(o->env, o->b, o->indent);
}

/* Sorts n pairs by their keys, stably also in reverse: a merge sort with as much space in `to`. Returns where the result is. */
static val_pair *val_sort_pairs(val_env *env, val_pair *from, val_pair *to, size_t n, bool reverse) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            const size_t mid = min_size(lo + width, n), hi = min_size(lo + 2 * width, n);
            size_t       i = lo, k = mid;
            for (size_t at = lo; at < hi; at++) {
                const bool both = i < mid && k < hi;
                const val *a = &from[reverse ? i : k].key, *b = &from[reverse ? k : i].key;
                const bool right = i == mid || (both && val_order(env, *a, *b, "<") == -1);
                val_step(env, both);
                to[at] = from[right ? k++ : i++];
            }
        }
        val_pair *t = from;
        from = to, to = t;
    }
    return from;
}

/* The pairs of a dict in the order of its keys. */
static val_dict *val__sorted(val_env *env, const val_dict *d) {
    val_dict *r = val_alloc(env, 1, sizeof *r);
    val_pair *from = val_alloc(env, d->live, sizeof *from), *to = val_alloc(env, d->live, sizeof *to);
    for (size_t i = 0; i < d->n; i++)
        if (!d->at[i].gone) from[r->n++] = d->at[i];
    *r = (val_dict){.env = env, .at = val_sort_pairs(env, from, to, r->n, false), .n = r->n, .cap = r->n, .live = r->n};
    return r;
}

static void val__json_begin(val__json_out *o, val__walk *w, val v) {
    if (!val__has_parts(v)) {
        val__json_leaf(o, v, false);
        return;
    }
    if (val__open(o->env, w, v.kind == VAL_DICT ? (const void *)v.dict : v.list))
        val_fail(o->env, EXIT_INPUT, "a value holds itself, which JSON does not have");
    const bool pairs = v.kind == VAL_DICT;
    if (!val_len(o->env, v)) {
        val_buf_put(o->env, o->b, pairs ? "{}" : "[]");
        return;
    }
    val_buf_put(o->env, o->b, pairs ? "{" : "[");
    const void *id = pairs ? (const void *)v.dict : v.list;
    if (pairs && o->form->sort_keys) v.dict = val__sorted(o->env, v.dict);
    val__push_value(o->env, w, v, pairs ? "}" : "]");
    w->at[w->n - 1].id = id;
}

static void val__json_walk(val__json_out *o, val v) {
    val__walk w = {0};
    val__json_begin(o, &w, v);
    while (w.n) {
        val__level *l = &w.at[w.n - 1];
        const size_t seen = l->seen;
        const bool   value = l->pairs && seen % 2;
        if (!val__next(o->env, &w, &v)) {
            w.n--;
            val__json_line(o, w.n);
            val_buf_put(o->env, o->b, l->shut);
            continue;
        }
        if (seen && !value) val_buf_add(o->env, o->b, o->item_sep);
        if (value) val_buf_add(o->env, o->b, o->key_sep);
        else val__json_line(o, w.n);
        if (l->pairs && !value) val__json_leaf(o, v, true);
        else val__json_begin(o, &w, v);
    }
}

/* Appends json.dumps(v). form NULL: one line, ensure_ascii off. */
static void val_json_write(val_env *env, val_buf *b, val v, const val_json_form *form) {
    static const val_json_form plain = {
        .indent = {.kind = VAL_NONE}, .item_sep = {.kind = VAL_NONE}, .key_sep = {.kind = VAL_NONE}};
    val__json_out o = {.env = env, .b = b, .form = form ? form : &plain};
    o.lines = o.form->indent.kind != VAL_NONE;
    if (o.lines)
        o.indent = o.form->indent.kind == VAL_STR ? o.form->indent.s : val_mul(env, val_str_of(env, " "), o.form->indent).s;
    o.item_sep = o.form->item_sep.kind == VAL_STR ? o.form->item_sep.s : val_str_of(env, o.lines ? "," : ", ").s;
    o.key_sep = o.form->key_sep.kind == VAL_STR ? o.form->key_sep.s : val_str_of(env, ": ").s;
    val__json_walk(&o, v);
}

/* --- JSON read --- */

/* A text of JSON and the place in it. */
typedef struct {
    val_env *env;
    val_str  s;
    size_t   at;
    bool     strict;                                  /* as RFC 8259 has it, and each key of an object once */
} val__json;

/* The character at the place; 0 at the end. */
static val_chr val__peek(const val__json *j) { return j->at < j->s.n ? VAL_CHAR(j->s.p[j->at]) : 0; }

/* Bytes before a place of the text. */
static size_t val__bytes_before(val_str s, size_t at) {
    char   text[4];
    size_t n = 0;
    for (size_t i = 0; i < at; i++) n += val_encode(VAL_CHAR(s.p[i]), text);
    return n;
}

__attribute__((noreturn)) static void val__json_bad(val__json *j, const char *expected) {
    char          found[40];
    const val_chr c = val__peek(j);
    if (j->at >= j->s.n) snprintf(found, sizeof found, "the end");
    else if (c > 0x20 && c < 0x7f) snprintf(found, sizeof found, "'%c'", (char)c);
    else if (c >= VAL_BYTE) snprintf(found, sizeof found, "the byte 0x%02x", c - VAL_BYTE);
    else snprintf(found, sizeof found, "the character U+%04X", c);
    val_fail(j->env, EXIT_INPUT, "JSON, byte %zu: found %s, expected %s", val__bytes_before(j->s, j->at) + 1, found, expected);
}

static void val__json_blank(val__json *j) {
    while (j->at < j->s.n && (val__peek(j) == ' ' || val__peek(j) == '\t' || val__peek(j) == '\n' || val__peek(j) == '\r'))
        j->at++;
}

static bool val__json_word(val__json *j, const char *word) {
    const size_t n = strlen(word);
    if (j->s.n - j->at < n || !val_str_is(val_sub(j->s, j->at, j->at + n), word)) return false;
    j->at += n;
    return true;
}

/* Four hexadecimal digits at place `at` of the text; -1: they are not there. */
static int32_t val__hex4(val_str s, size_t at) {
    int32_t u = 0;
    if (at + 4 > s.n) return -1;
    for (size_t i = at; i < at + 4; i++) {
        const int d = bytes_hex_digit(VAL_CHAR(s.p[i]));
        if (d < 0) return -1;
        u = u << 4 | d;
    }
    return u;
}

/* \uXXXX, or a pair of them for one character; half a pair is U+FFFD, or an error. The place is after the u. */
static val_chr val__json_unicode(val__json *j) {
    const int32_t high = val__hex4(j->s, j->at);
    if (high < 0) val__json_bad(j, "four hexadecimal digits");
    j->at += 4;
    if (high < 0xd800 || high > 0xdfff) return (val_chr)high;
    const bool    more = high < 0xdc00 && val__peek(j) == '\\' && j->at + 1 < j->s.n && VAL_CHAR(j->s.p[j->at + 1]) == 'u';
    const int32_t low = more ? val__hex4(j->s, j->at + 2) : -1;
    if ((low < 0xdc00 || low > 0xdfff) && j->strict)
        val__json_bad(j,
            high < 0xdc00 ? "the second half of a surrogate pair" : "a surrogate pair, which begins with its first half");
    if (low < 0xdc00 || low > 0xdfff) return 0xfffd;
    j->at += 6;
    return 0x10000 + (((val_chr)high - 0xd800) << 10) + ((val_chr)low - 0xdc00);
}

static val_chr val__json_escape(val__json *j) {
    static const char named[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    const val_chr     c = val__peek(j);
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if (c == (uint8_t)named[i]) return j->at++, (uint8_t)named[i + 1];
    if (c != 'u') val__json_bad(j, "one of \"\\/bfnrtu after a backslash");
    j->at++;
    return val__json_unicode(j);
}

/* A string; the place is after its first quote. Without escapes it is a view of the text. */
static val val__json_string(val__json *j) {
    val_buf     *b = NULL;
    size_t       from = j->at;
    for (;; j->at++) {
        const val_chr c = val__peek(j);
        if (j->at >= j->s.n || c < 0x20)
            val__json_bad(j, j->at >= j->s.n ? "a quote that ends the string" : "an escape in place of a control character");
        if (c != '"' && c != '\\') continue;
        if (!b && c == '"') break;
        if (!b) b = val_buf_new(j->env);
        val_buf_add(j->env, b, val_sub(j->s, from, j->at));
        if (c == '"') break;
        const val_chr origin = j->s.p[j->at++] & VAL_INPUT;
        val_buf_chr(j->env, b, val__json_escape(j) | origin);
        from = j->at--;
    }
    const val_str plain = val_sub(j->s, from, j->at++);
    val_step_chars(j->env, plain.n);
    return val_str_view(b ? val_buf_str(b) : plain);
}

static size_t val__json_digits(val__json *j) {
    const size_t from = j->at;
    while (val__peek(j) >= '0' && val__peek(j) <= '9') j->at++;
    return j->at - from;
}

/* Characters from .. to of the text, which are ASCII, as a C string. */
static char *val__ascii(val__json *j, size_t from, size_t to) {
    char *p = val_alloc(j->env, to - from + 1, 1);
    for (size_t i = from; i < to; i++) p[i - from] = (char)VAL_CHAR(j->s.p[i]);
    return p;
}

/* The integer that ends at the place. One beyond 64 bits keeps its digits; Python's limit holds for their number. */
static val val__json_integer(val__json *j, size_t from) {
    const bool neg = VAL_CHAR(j->s.p[from]) == '-';
    int64_t    n = 0;
    if (j->at - from - neg > VAL_DIGITS_MAX)
        val_fail(j->env, EXIT_INPUT, "an integer has more than %d digits, which is the limit", VAL_DIGITS_MAX);
    for (size_t i = from + neg; i < j->at; i++) {
        const int64_t d = VAL_CHAR(j->s.p[i]) - '0';
        const bool    beyond = __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, neg ? -d : d, &n);
        if (beyond) return (val){.kind = VAL_BIG, .s = {j->s.p + from, (uint32_t)(j->at - from), NULL}};
    }
    return val_int(n);
}

static val val__json_number(val__json *j) {
    const size_t from = j->at;
    const bool   neg = val__peek(j) == '-';
    bool         whole = true;
    if (neg) j->at++;
    if (neg && !j->strict && val__json_word(j, "Infinity")) return val_float(-INFINITY);
    if (val__peek(j) == '0') j->at++;
    else if (!val__json_digits(j)) val__json_bad(j, neg ? "a digit" : "a value");
    const size_t end = j->at;
    if (val__peek(j) == '.') {
        j->at++;
        if (val__json_digits(j)) whole = false;
        else j->at = end;
    }
    const size_t before_exp = j->at;
    if ((val__peek(j) | 32) == 'e') {
        j->at++;
        if (val__peek(j) == '+' || val__peek(j) == '-') j->at++;
        if (val__json_digits(j)) whole = false;
        else j->at = before_exp;
    }
    val_step_chars(j->env, 8 * (uint64_t)(j->at - from));
    return whole ? val__json_integer(j, from) : val_float(strtod(val__ascii(j, from, j->at), NULL));
}

/* A value without parts. */
static val val__json_scalar(val__json *j) {
    if (val__json_word(j, "\"")) return val__json_string(j);
    if (val__json_word(j, "null")) return val_none();
    if (val__json_word(j, "true")) return val_bool(true);
    if (val__json_word(j, "false")) return val_bool(false);
    if (!j->strict && val__json_word(j, "NaN")) return val_float(NAN);
    if (!j->strict && val__json_word(j, "Infinity")) return val_float(INFINITY);
    return val__json_number(j);
}

/* The key of the next pair of d, up to after its colon. */
static val val__json_key(val__json *j, val_dict *d) {
    bool twice;
    val__json_blank(j);
    if (!val__json_word(j, "\"")) val__json_bad(j, "a key in quotes");
    const val key = val__json_string(j);
    if (j->strict && (val_dict_get(d, key, &twice), twice))
        val_fail(j->env, EXIT_INPUT, "JSON, byte %zu: the key '%s' stands twice in one object",
            val__bytes_before(j->s, j->at), val_quote(key.s).p);
    val__json_blank(j);
    if (!val__json_word(j, ":")) val__json_bad(j, "a colon after the key");
    return key;
}

/* What is after a value: ends the lists and dicts that end there. False: a further value follows, for the innermost one. */
static bool val__json_shut(val__json *j, val_list *open) {
    for (; open->n; open->n--) {
        const bool dict = open->at[open->n - 1].kind == VAL_DICT;
        val__json_blank(j);
        if (val__json_word(j, ",")) return false;
        if (!val__json_word(j, dict ? "}" : "]")) val__json_bad(j, dict ? "a comma or }" : "a comma or ]");
    }
    return true;
}

/* A value, or the beginning of one that has parts: that is then the innermost of `open`. True: it is complete. */
static bool val__json_value(val__json *j, val_list *open, val *out) {
    const bool dict = val__peek(j) == '{', list = val__peek(j) == '[';
    if (!dict && !list) return *out = val__json_scalar(j), true;
    if (open->n == VAL_DEPTH_MAX)
        val_fail(j->env, EXIT_RESOURCE, "JSON, byte %zu: more than %d levels", val__bytes_before(j->s, j->at) + 1, VAL_DEPTH_MAX);
    j->at++;
    *out = dict ? val_dict_new(j->env) : val_list_new(j->env);
    val__json_blank(j);
    return val__json_word(j, dict ? "}" : "]");
}

static val val__json_root(val__json *j) {
    val_list *open = val_list_new(j->env).list;
    val       root = val_none(), v, key = val_none();
    for (bool done = false, first = true; !done; first = false) {
        const val into = open->n ? open->at[open->n - 1] : val_none();
        if (into.kind == VAL_DICT) key = val__json_key(j, into.dict);
        val__json_blank(j);
        const bool complete = val__json_value(j, open, &v);
        val_step(j->env, 1);
        if (first) root = v;
        else if (into.kind == VAL_DICT) val_dict_set(j->env, into.dict, key, v);
        else val_list_add(j->env, into.list, v);
        if (complete) done = val__json_shut(j, open);
        else val_list_add(j->env, open, v);
    }
    return root;
}

/* A text that is one value. Strings are views of s, so each character keeps its origin. */
static val val__json_whole(val_env *env, val_str s, bool strict) {
    val__json j = {env, s, 0, strict};
    val_step_chars(env, 4 * (uint64_t)s.n);
    val__json_blank(&j);
    const val v = val__json_root(&j);
    val__json_blank(&j);
    if (j.at < s.n) val__json_bad(&j, "the end");
    return v;
}

/* Reads a JSON text as Python's json.loads() does; an error ends the rendering. */
static val val_json_parse(val_env *env, val_str s) { return val__json_whole(env, s, false); }

/* Flags: a message wrote the text; it is JSON as RFC 8259 has it, without NaN, Infinity and halves of surrogate pairs, and
 * a key appears once in an object. */
enum { VAL_JSON_INPUT = 1, VAL_JSON_STRICT = 2 };

/* The same of UTF-8; bytes that are none go through. */
static val val_json_read(val_env *env, bytes text, unsigned flags) {
    return val__json_whole(env, val_text(env, text, flags & VAL_JSON_INPUT).s, flags & VAL_JSON_STRICT);
}
