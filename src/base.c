/* ===== [base] exit codes, log, memory, text, output files =====
 * What every section uses: exit codes, messages, memory, bytes and texts, JSON as text, output files, clock, random numbers,
 * the progress line. Owns the globals.
 * Invariants: every product of sizes is checked in 64 bits; out of memory ends the run with exit 3 and one line; after
 * mem_freeze() any allocation is a bug and dies naming the phase.
 * Public: die, log_warn, log_error, log_info, log_text, err_set, err_code_of, min_int, max_int, min_i64, max_i64, min_u64,
 * max_u64, min_size, max_size, max_f64, mem_freeze, mem_thaw, mem_stand_beside, mem_size, mem_new, mem_grow, mem_reserve,
 * MEM_PUSH, mem_reserved, mem_u32_find, mem_aligned, mem_free, mem_free_all, mem_pages, mem_pages_free, bytes_of, bytes_eq,
 * bytes_is, bytes_among, bytes_begins, bytes_ends, bytes_slice, bytes_find, bytes_distance, bytes_slack, bytes_unmarked,
 * bytes_hex_digit, bytes_hex, bytes_kind, bytes_hash, bytes_digest, digest_eq, str_reserve, str_add, str_dup, str_put,
 * str_cat, str_set, str_clear, str_drop, str_drop_all, str_bytes, str_fmt, str_size, str_base_name, str_real, str_read,
 * str_read_all, str_read_file, str_char, str_utf8, str_visible, str_visible_line, str_json, str_json_plain, str_json_exact,
 * str_json_copy, str_csv_quoted, str_csv, str_base64, str_unbase64, out_put, out_flush, out_sweep, out_add_pending,
 * out_settle, out_create, out_sync, out_cut, out_sync_folder, out_replace, out_open, out_begin, out_end, clock_now, rng_mix,
 * rng_at, rng_unit, rng_fresh, rng_secret, hmap_init, hmap_drop, hmap_find, hmap_add, utf8_len, utf8_get, utf8_put,
 * utf8_incomplete, utf8_visible, utf8_bad, utf8_head, utf8_whole, chars_unpack, chars_find, progress_clear, progress_yield,
 * progress_on, progress_due, progress_columns, progress_show, progress_left, bytes_is_blank, bytes_trim, bytes_cut_json,
 * bytes_cut_line, bytes_cut_member, bytes_cut_item, bytes_member, bytes_scan_number, bytes_scan_json, bytes_is_json,
 * bytes_utf16, str_unquote, jw_tight, jw_loose, jw_line, jw_key, jw_open, jw_close, jw_fmt, jw_bool, jw_number, jw_text,
 * jw_str, jw_member, jw_maybe, jw_base64, jw_bytes.
 * Opens: bytes, bytes_scan, chars_range, digest, err_t, hmap_entry, jw, out_t, str. */

enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_INPUT = 2, EXIT_RESOURCE = 3, EXIT_INT = 130, EXIT_TERM = 143 };
enum { LOG_QUIET = 0, LOG_NORMAL = 1, LOG_VERBOSE = 2 };

static int                   g_log_level = LOG_NORMAL;
static volatile sig_atomic_t g_interrupt;             /* the signal that asks the run to stop; 0: none */
static const char           *g_frozen;                /* the phase in which no allocation is allowed; NULL: none */
static _Thread_local bool    mem__beside;             /* this thread is none of the token loop's */

/* --- utf8: characters, and the one rule for what a terminal may show --- */

/* Length in bytes of the well-formed character at p (n bytes left), 0 when there is none (RFC 3629). */
static int utf8_len(const uint8_t *p, size_t n) {
    if (!n) return 0;
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    int len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || (size_t)len > n) return 0;
    for (int i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

/* The character of `len` bytes at p, as utf8_len() found it. */
static uint32_t utf8_get(const uint8_t *p, int len) {
    uint32_t c = len == 1 ? p[0] : p[0] & 0x7fu >> len;
    for (int i = 1; i < len; i++) c = c << 6 | (p[i] & 0x3f);
    return c;
}

/* Writes a character, at most 0x10ffff, and returns its bytes, 1 to 4. Half of a surrogate pair has three bytes,
 * which are not UTF-8. */
static int utf8_put(uint8_t *out, uint32_t c) {
    const int len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, c >>= 6) out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(len == 1 ? c : (0xf00u >> len & 0xff) | c);
    return len;
}

/* Whether the n bytes at p are a well-formed character whose last bytes are missing. */
static bool utf8_incomplete(const uint8_t *p, size_t n) {
    static const uint8_t fill[3] = {0xa0, 0x80, 0x80}, alt[3] = {0x80, 0x80, 0x80}, low[3] = {0x90, 0x80, 0x80};
    uint8_t              b[7];
    if (!n || n > 3 || utf8_len(p, n)) return false;
    const uint8_t *tail[3] = {fill, alt, low};
    for (int t = 0; t < 3; t++) {
        memcpy(b, p, n);
        memcpy(b + n, tail[t], 3);
        int len = utf8_len(b, n + 3);
        if (len > (int)n) return true;
    }
    return false;
}

/* Bytes at the end of a text that are the beginning of a character: 0 to 3. */
static size_t utf8__torn(const uint8_t *p, size_t n) {
    for (size_t k = n < 3 ? n : 3; k; k--)
        if (utf8_incomplete(p + n - k, k)) return k;
    return 0;
}

/* Whether the well-formed character at p, which is not ASCII, acts on a terminal or on the text around it where a reader sees
 * nothing: a control character (C1, U+0080 to U+009F), one with Unicode's property Bidi_Control, or U+FEFF. */
static bool utf8__acts(const uint8_t *p, size_t len) {
    if (len == 2) return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c);             /* U+061C */
    if (len != 3) return false;
    if (p[0] == 0xef) return p[1] == 0xbb && p[2] == 0xbf;                                            /* U+FEFF */
    if (p[0] != 0xe2) return false;
    return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) ||      /* U+200E, 200F, 202A-E */
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);                                            /* U+2066 to U+2069 */
}

/* Writes the n bytes at p as a terminal may show them, which is how all foreign bytes come to a terminal and to standard error:
 * \xHH replaces each byte of a control character (C0, DEL), of a character that utf8__acts(), and each byte of no character,
 * among which are those of C1. Newline and tab stay, and a carriage return before a newline is dropped; line: they are replaced.
 * out: a buffer of cap bytes, of which 4 * n are always enough; what does not fit is left out. Returns the number of bytes.
 * Async-signal-safe. */
static size_t utf8_visible(const uint8_t *p, size_t n, bool line, char *out, size_t cap) {
    static const char digit[] = "0123456789abcdef";
    size_t            to = 0;
    for (size_t i = 0, len; i < n; i += len) {
        const uint8_t c = p[i];
        const size_t  good = (size_t)utf8_len(p + i, n - i);
        const bool    plain = good > 1 ? !utf8__acts(p + i, good) : c < 0x20 ? !line && (c == '\n' || c == '\t') : c < 0x7f;
        len = good ? good : 1;
        if (!line && c == '\r' && i + 1 < n && p[i + 1] == '\n') continue;
        if (cap - to < (plain ? len : 4 * len)) break;
        for (size_t k = i; k < i + len; k++) {
            if (plain) out[to++] = (char)p[k];
            else out[to++] = '\\', out[to++] = 'x', out[to++] = digit[p[k] >> 4], out[to++] = digit[p[k] & 15];
        }
    }
    return to;
}

/* --- messages on standard error --- */

/* The progress line on the terminal (see progress_show). */
static struct {
    _Atomic int shown;
    double      last;                                 /* clock_now() of the last drawing */
} base__progress;

/* Removes the progress line; call it before any other write to the terminal. Async-signal-safe. */
static void progress_clear(void) {
    static const char erase[] = "\r\033[K";
    if (!base__progress.shown) return;
    base__progress.shown = 0;
    if (write(STDERR_FILENO, erase, sizeof erase - 1) < 0) {}
}

/* The same before a write to fd, if fd is a terminal. */
static void progress_yield(int fd) {
    if (base__progress.shown && isatty(fd)) progress_clear();
}

/* Writes a line of at most 2,047 bytes to standard error. Whatever a name in it holds, it is one line and steers no terminal. */
static void log__line(const char *fmt, va_list ap) {
    enum { MOST = 2048 };
    char line[MOST], seen[4 * MOST];
    int  n = vsnprintf(line, sizeof line, fmt, ap);
    if (n < 0) return;
    if ((size_t)n >= sizeof line) n = MOST - 1 - (int)utf8__torn((const uint8_t *)line, MOST - 1);
    const int shown = (int)utf8_visible((const uint8_t *)line, (size_t)n, true, seen, sizeof seen);
    progress_clear();
    fprintf(stderr, "llmrun: %.*s\n", shown, seen);
}

/* Prints one line and ends the run with the exit code. */
__attribute__((format(printf, 2, 3), noreturn)) static void die(int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
    exit(code);
}

/* What a user should know; silent under -q. */
__attribute__((format(printf, 1, 2))) static void log_warn(const char *fmt, ...) {
    if (g_log_level < LOG_NORMAL) return;
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
}

/* The error that ends a run with a non-zero code; printed even under -q. */
__attribute__((format(printf, 1, 2))) static void log_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
}

/* Detail, printed under -v alone. */
__attribute__((format(printf, 1, 2))) static void log_info(const char *fmt, ...) {
    if (g_log_level < LOG_VERBOSE) return;
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
}

/* On in every build. A failed ASSERT is a bug of this program, never a property of the input. */
#define ASSERT(c) ((c) ? (void)0 : base__assert(#c, __FILE__, __LINE__))
__attribute__((noreturn)) static void base__assert(const char *what, const char *file, int line) {
    progress_clear();
    fprintf(stderr, "llmrun: bug: %s:%d: %s does not hold\n", file, line, what);
    abort();
}

/* An error that is returned to the caller. Only the first err_set() counts. */
typedef struct {
    int  code;                                        /* 0: no error; else the exit code */
    char text[600];
} err_t;

/* Sets e unless it is set already. Always false. */
__attribute__((format(printf, 3, 4))) static bool err_set(err_t *e, int code, const char *fmt, ...) {
    if (e->code) return false;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof e->text) e->text[sizeof e->text - 1 - utf8__torn((uint8_t *)e->text, sizeof e->text - 1)] = 0;
    return false;                                     /* so that a parser can `return err_set(...)` */
}

/* The exit code for a failed call on a file: 3 where a resource of the system is exhausted, else 2. */
static int err_code_of(int no) {
    static const int resource[] = {ENOMEM, EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG, EIO, EAGAIN};
    for (size_t i = 0; i < sizeof resource / sizeof *resource; i++)
        if (no == resource[i]) return EXIT_RESOURCE;
    return EXIT_INPUT;
}

/* --- memory --- */

/* From here to mem_thaw() an allocation is a bug that ends the run: the token loop allocates nothing. */
static void mem_freeze(const char *phase) { g_frozen = phase; }

/* Allocations are allowed again. */
static void mem_thaw(void) { g_frozen = NULL; }

/* This thread may allocate at any time: the token loop does not wait for it. */
static void mem_stand_beside(void) { mem__beside = true; }

/* n * each, at least 1; ends the run where that overflows. */
static size_t mem_size(size_t n, size_t each) {
    size_t bytes;
    if (!mem__beside && g_frozen) die(EXIT_RESOURCE, "bug: allocation while frozen for %s", g_frozen);
    if (__builtin_mul_overflow(n, each, &bytes)) die(EXIT_RESOURCE, "out of memory: %zu x %zu bytes", n, each);
    return bytes ? bytes : 1;
}

/* The smaller and the larger of two; the second where the first is not a number. */
static inline int      min_int(int a, int b) { return a < b ? a : b; }
static inline int      max_int(int a, int b) { return a > b ? a : b; }
static inline int64_t  min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t  max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline size_t   min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t   max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline double   max_f64(double a, double b) { return a > b ? a : b; }

/* n zeroed elements of `each` bytes; never NULL. */
static void *mem_new(size_t n, size_t each) {
    size_t bytes = mem_size(n, each);
    void  *p = calloc(1, bytes);
    if (!p) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    return p;
}

/* Resizes an array to n elements; the new part is not zeroed. */
static void *mem_grow(void *old, size_t n, size_t each) {
    size_t bytes = mem_size(n, each);
    void  *p = realloc(old, bytes);
    if (!p) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    return p;
}

/* Makes space for entry i of an array of at most n entries: the array doubles, so its size follows the entries
 * that exist and not a count that a file claims. To be called for i = 0, 1, 2, ... in turn; i may go back, and an array that
 * begins again at 0 has the size of its beginning. */
static void *mem_reserve(void *p, uint64_t i, uint64_t n, size_t each) {
    if (i >= 64 ? (i & (i - 1)) != 0 : i != 0) return p;
    uint64_t cap = i ? 2 * i : 64;
    return mem_grow(p, min_u64(cap, n), each);
}

/* Puts a value after the n entries of an array that grows by mem_reserve(). The place that it has got. */
#define MEM_PUSH(array, n, ...) \
    ((array) = mem_reserve((array), (uint64_t)(n), UINT64_MAX, sizeof *(array)), (array)[n] = (__VA_ARGS__), (n)++)

/* The first of n numbers in order, each `stride` bytes after the one before, that is at least `least`; n: none is. */
static inline size_t mem_u32_find(const void *numbers, size_t n, size_t stride, uint32_t least) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (*(const uint32_t *)((const uint8_t *)numbers + mid * stride) < least) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Entries of an array to which mem_reserve() has added n without a bound. */
static size_t mem_reserved(size_t n) {
    size_t cap = n ? 64 : 0;
    while (cap < n) cap *= 2;
    return cap;
}

/* 64-byte aligned and not zeroed, for the kernels. */
static void *mem_aligned(size_t n, size_t each) {
    size_t bytes = mem_size(n, each);
    if (bytes > SIZE_MAX - 127) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!p) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    return p;
}

/* Frees what mem_new(), mem_grow(), mem_reserve() or mem_aligned() gave; NULL is none. */
static void mem_free(void *p) { free(p); }

/* The same of several. */
#define mem_free_all(...) mem__free_n((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
static void mem__free_n(void **p, size_t n) {
    for (size_t i = 0; i < n; i++) mem_free(p[i]);
}

enum { MEM_LARGE = 2 << 20 };                         /* bytes of a large page */

static size_t mem__large(size_t bytes) { return (bytes + MEM_LARGE - 1) & ~(size_t)(MEM_LARGE - 1); }

/* Zeroed memory, aligned to a large page and in large pages where the kernel gives them. The kernel provides each
 * page at its first write. */
static void *mem_pages(size_t bytes) {
    const size_t whole = bytes < SIZE_MAX / 2 ? mem__large(bytes) : SIZE_MAX / 2;
    uint8_t     *all = mmap(NULL, whole + MEM_LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    const size_t before = mem__large((uintptr_t)all) - (uintptr_t)all;
    if (before) munmap(all, before);
    if (before < MEM_LARGE) munmap(all + before + whole, MEM_LARGE - before);
    madvise(all + before, whole, MADV_HUGEPAGE);
    return all + before;
}

/* Frees what mem_pages() gave for as many bytes. */
static void mem_pages_free(void *p, size_t bytes) {
    if (p) munmap(p, mem__large(bytes));
}

/* --- bytes: a view, never owned --- */

typedef struct {
    const uint8_t *p;
    size_t         n;
} bytes;

/* The bytes of a C string, without its NUL. */
static bytes bytes_of(const char *s) { return (bytes){(const uint8_t *)s, strlen(s)}; }

/* Whether two views hold the same bytes; p may be NULL where n is 0. */
static bool bytes_eq(bytes a, bytes b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }

/* Whether a view holds the bytes of a C string. */
static bool bytes_is(bytes a, const char *s) { return bytes_eq(a, bytes_of(s)); }

/* Whether b is one of the words of a list, which spaces part. */
static bool bytes_among(bytes b, const char *words) {
    for (size_t n; b.n && *words; words += n + strspn(words + n, " ")) {
        n = strcspn(words, " ");
        if (bytes_eq((bytes){(const uint8_t *)words, n}, b)) return true;
    }
    return false;
}

/* Whether a begins with b. */
static bool bytes_begins(bytes a, bytes b) { return a.n >= b.n && (!b.n || memcmp(a.p, b.p, b.n) == 0); }

/* Whether a ends with b. */
static bool bytes_ends(bytes a, bytes b) { return a.n >= b.n && (!b.n || memcmp(a.p + a.n - b.n, b.p, b.n) == 0); }

/* The bytes from place `from` up to `to`, which is not before it; of a view without a place, which is empty, that view. */
static bytes bytes_slice(bytes b, size_t from, size_t to) { return b.p ? (bytes){b.p + from, to - from} : b; }

/* The first place from `at` on where `what` begins; SIZE_MAX: there is none, or `what` is empty. */
static size_t bytes_find(bytes b, size_t at, bytes what) {
    const uint8_t *p = at < b.n && what.n ? memmem(b.p + at, b.n - at, what.p, what.n) : NULL;
    return p ? (size_t)(p - b.p) : SIZE_MAX;
}

/* Number of edits (insert, delete, replace, swap two neighbours) that turn a into b. A name of more than 63 bytes: 64. */
static int bytes_distance(bytes a, bytes b) {
    uint8_t row[3][65];
    if (a.n > 63 || b.n > 63) return 64;
    uint8_t *before = row[0], *prev = row[1], *cur = row[2];
    for (size_t j = 0; j <= b.n; j++) prev[j] = (uint8_t)j;
    for (size_t i = 1; i <= a.n; i++) {
        cur[0] = (uint8_t)i;
        for (size_t j = 1; j <= b.n; j++) {
            int best = prev[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            if (prev[j] + 1 < best) best = prev[j] + 1;
            if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            cur[j] = (uint8_t)best;
        }
        uint8_t *t = before;
        before = prev, prev = cur, cur = t;
    }
    return prev[b.n];
}

/* The largest distance at which a name is suggested for a mistyped one: about a third of its letters, at most three. */
static int bytes_slack(bytes name) { return name.n < 4 ? 0 : name.n < 8 ? 1 + (name.n > 5) : 3; }

/* A text without the byte order mark that some editors put before it. */
static bytes bytes_unmarked(bytes b) {
    return b.n >= 3 && memcmp(b.p, "\xef\xbb\xbf", 3) == 0 ? (bytes){b.p + 3, b.n - 3} : b;
}

/* The value of a hexadecimal digit; -1: c is none. */
static int bytes_hex_digit(uint32_t c) {
    if (c >= '0' && c <= '9') return (int)c - '0';
    if (c >= 'a' && c <= 'f') return (int)c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? (int)c - 'A' + 10 : -1;
}

/* Reads the number of n hexadecimal digits at p, 16 at most. False: others are there. */
static bool bytes_hex(const uint8_t *p, int n, uint64_t *out) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) {
        const int d = bytes_hex_digit(p[i]);
        if (d < 0) return false;
        v = v << 4 | (uint64_t)d;
    }
    *out = v;
    return true;
}

/* Names the kind of a file by its first bytes; NULL: unknown. No text begins with any of these. */
static const char *bytes_kind(bytes b) {
    static const struct {
        const char *magic;
        size_t      n;
        const char *kind;
    } kinds[] = {
        {"GGUF\1\0\0", 8, "a GGUF file"}, {"GGUF\2\0\0", 8, "a GGUF file"}, {"GGUF\3\0\0", 8, "a GGUF file"},
        {"\x1f\x8b", 2, "a gzip file"},    {"PK\3\4", 4, "a zip file (or a PyTorch one, which is zip)"},
        {"\xfd" "7zXZ", 5, "an xz file"},  {"\x28\xb5\x2f\xfd", 4, "a zstd file"}, {"BZh91AY&SY", 10, "a bzip2 file"},
        {"7z\xbc\xaf", 4, "a 7z file"},    {"\x93NUMPY", 6, "a NumPy file"},      {"\x7f" "ELF", 4, "a program"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (b.n >= kinds[i].n && memcmp(b.p, kinds[i].magic, kinds[i].n) == 0) return kinds[i].kind;
    return NULL;
}

/* --- str: a growable byte string, always followed by a NUL that n does not count --- */

typedef struct {
    char  *p;
    size_t n, cap;
} str;

/* Makes space for `more` bytes and the NUL. */
static void str_reserve(str *s, size_t more) {
    if (s->cap - s->n > more) return;
    size_t want = s->n + more + 1;
    if (want < s->n) die(EXIT_RESOURCE, "out of memory: a text of %zu bytes", s->n);
    size_t cap = s->cap ? s->cap : 64;
    while (cap < want) cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    s->p = mem_grow(s->p, cap, 1);
    s->cap = cap;
}

/* Appends n bytes; with none, an empty text gets its NUL. */
static void str_add(str *s, const void *p, size_t n) {
    str_reserve(s, n);
    if (n) memcpy(s->p + s->n, p, n);
    s->n += n;
    s->p[s->n] = 0;
}

/* A copy; mem_free() it. */
static char *str_dup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(mem_new(n, 1), s, n);
}

/* Appends a C string. */
static void str_put(str *s, const char *text) { str_add(s, text, strlen(text)); }

/* Empties the text and keeps its memory. */
static void str_clear(str *s) {
    s->n = 0;
    if (s->p) s->p[0] = 0;
}

/* Frees the text, which is then an empty one. */
static void str_drop(str *s) {
    mem_free(s->p);
    *s = (str){0};
}

/* The same of several. */
#define str_drop_all(...) str__drop_n((str *[]){__VA_ARGS__}, sizeof((str *[]){__VA_ARGS__}) / sizeof(str *))
static void str__drop_n(str **s, size_t n) {
    for (size_t i = 0; i < n; i++) str_drop(s[i]);
}

/* Appends a view. */
static void str_cat(str *s, bytes b) { str_add(s, b.p, b.n); }

/* Replaces the text by a view of another. */
static void str_set(str *s, bytes b) {
    str_clear(s);
    str_cat(s, b);
}

/* A view of the text, valid until it grows. */
static bytes str_bytes(const str *s) { return (bytes){(const uint8_t *)s->p, s->n}; }

static void str__vfmt(str *s, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        str_reserve(s, (size_t)n);
        vsnprintf(s->p + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

/* Appends as printf() writes. */
__attribute__((format(printf, 2, 3), nonnull(2))) static void str_fmt(str *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    str__vfmt(s, fmt, ap);
    va_end(ap);
}

/* Appends a number of bytes, such as 1.25 MiB. */
static void str_size(str *s, double n) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int                      u = 0;
    while (n >= 1024 && u < 6) n /= 1024, u++;
    str_fmt(s, u && n < 100 ? "%.2f %s" : "%.0f %s", n, unit[u]);
}

/* The last part of a path. */
static const char *str_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Appends a path with its links resolved; one that names nothing is appended as it is. False: e is set. */
static bool str_real(str *s, const char *path, err_t *e) {
    char *real = realpath(path, NULL);
    if (!real && errno != ENOENT) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    str_put(s, real ? real : path);
    mem_free(real);
    return true;
}

/* Appends what one read of fd gives, `step` bytes at most. Returns their number; 0: the end, or a descriptor that
 * is not open; -1: it failed, and e is set. */
static ssize_t str_read(str *s, int fd, size_t step, const char *name, err_t *e) {
    ssize_t got;
    str_reserve(s, step);
    do got = read(fd, s->p + s->n, step);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EBADF) got = 0;
    if (got < 0) return err_set(e, err_code_of(errno), "%s: cannot read: %s", name, strerror(errno)), -1;
    s->n += (size_t)got;
    s->p[s->n] = 0;
    return got;
}

/* Appends all that fd gives. s may hold `most` bytes in all; expected: what the message says of a longer one.
 * False: e is set. */
static bool str_read_all(str *s, int fd, const char *name, size_t most, const char *expected, err_t *e) {
    struct stat st;
    const bool  huge = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most;
    for (ssize_t got = 1; got > 0;) {
        if (huge || s->n > most) return err_set(e, EXIT_INPUT, "%s: more than %zu bytes, expected %s", name, most, expected);
        got = str_read(s, fd, 65536, name, e);
    }
    return !e->code;
}

/* The same of a file; flags: of open(), beside those for reading. */
static bool str_read_file(str *s, const char *path, int flags, size_t most, const char *expected, err_t *e) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    const bool ok = str_read_all(s, fd, path, most, expected, e);
    close(fd);
    return ok;
}

static void str__put_visible(str *s, bytes b, bool line) {
    const size_t most = mem_size(b.n, 4);
    str_reserve(s, most);
    s->n += utf8_visible(b.p, b.n, line, s->p + s->n, most);
    s->p[s->n] = 0;
}

/* Appends the text as utf8_visible() writes it. Returns the bytes of b that it took: all, but those of a character that may yet
 * become whole where more is to come. */
static size_t str_visible(str *s, bytes b, bool ended) {
    if (!ended) b.n -= b.n && b.p[b.n - 1] == '\r' ? 1 : utf8__torn(b.p, b.n);
    str__put_visible(s, b, false);
    return b.n;
}

/* Appends it on one line: newlines and tabs are replaced as well. */
static void str_visible_line(str *s, bytes b) { str__put_visible(s, b, true); }

/* Writes lines of text to standard error, so that they steer no terminal. */
static void log_text(bytes text) {
    str seen = {0};
    str_visible(&seen, text, true);
    progress_clear();
    fwrite(seen.p, 1, seen.n, stderr);
    str_drop(&seen);
}

/* --- out: an output file. The first failed write is remembered. A pipe whose reader has closed it is no error. --- */

typedef struct {
    FILE       *f;
    const char *name;                                 /* in errors: a path, or stdout */
    int         why;                                  /* errno of the first failed write, 0: none failed */
    bool        begun;                                /* out_begin() has emptied it */
} out_t;

/* Writes whole characters: exact bytes, which a terminal is shown by utf8_visible(). False: this or an earlier write has failed,
 * o->why is the errno. */
static bool out_put(out_t *o, const void *p, size_t n) {
    str seen = {0};
    if (o->why || !n) return !o->why;
    progress_yield(fileno(o->f));
    if (isatty(fileno(o->f))) {
        str_visible(&seen, (bytes){p, n}, true);
        p = seen.p, n = seen.n;
    }
    errno = 0;
    if (fwrite(p, 1, n, o->f) != n) o->why = errno ? errno : EIO;
    str_drop(&seen);
    return !o->why;
}

/* The same for what the C library still holds. */
static bool out_flush(out_t *o) {
    errno = 0;
    if (!o->why && fflush(o->f) != 0) o->why = errno ? errno : EIO;
    return !o->why;
}

/* Files to remove if the run ends early: new files that are still empty, and a temporary file that is not
 * complete. "": free. */
enum { OUT_PENDING = 7 };
static char out__pending[OUT_PENDING][PATH_MAX];

/* Removes them. Async-signal-safe. */
static void out_sweep(void) {
    for (int i = 0; i < OUT_PENDING; i++) {
        if (out__pending[i][0]) unlink(out__pending[i]);
        out__pending[i][0] = 0;
    }
}

/* Adds a file to them, until out_settle(). Its first byte is written last: a signal handler finds the whole path or none. */
static void out_add_pending(const char *path) {
    static bool sweeps;
    if (!sweeps) sweeps = atexit(out_sweep) == 0;
    for (int i = 0; i < OUT_PENDING && strlen(path) < PATH_MAX; i++) {
        if (out__pending[i][0]) continue;
        strcpy(out__pending[i] + 1, path + 1);
        atomic_signal_fence(memory_order_seq_cst);
        out__pending[i][0] = path[0];
        return;
    }
}

/* Takes a file off the list; keep false: and deletes it, if it was on the list. */
static void out_settle(const char *path, bool keep) {
    for (int i = 0; i < OUT_PENDING && path; i++) {
        if (!out__pending[i][0] || strcmp(path, out__pending[i]) != 0) continue;
        if (!keep) unlink(path);
        out__pending[i][0] = 0;
    }
}

/* Gives an empty file of this process the owner, the group and the mode of another one. Who may not give files away keeps
 * the file; a group that cannot be given leaves its members what all others have. False: see errno. */
static bool out__same_mode(int fd, const struct stat *like) {
    const mode_t mode = like->st_mode & 0777, others = mode & 0707, group = mode & (mode & 07) << 3;
    struct stat  st;
    if (fstat(fd, &st)) return false;
    const bool given = (st.st_uid == like->st_uid && st.st_gid == like->st_gid) || fchown(fd, like->st_uid, like->st_gid) == 0
                    || st.st_gid == like->st_gid || fchown(fd, (uid_t)-1, like->st_gid) == 0;
    const mode_t want = given ? mode : others | group;
    return (st.st_mode & 0777) == want || fchmod(fd, want) == 0;
}

/* Creates a file that must not exist yet and adds it to those of out_sweep(). like: the file that it replaces or belongs to,
 * whose owner and mode it has before anyone else can open it; NULL: those of any new file. flags: of open(). -1: see
 * errno. */
static int out_create(const char *path, int flags, const struct stat *like) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);         /* a signal finds no file, or one that is on the list */
    const int fd = open(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, like ? 0600 : 0666);
    int       why = errno;
    if (fd >= 0) out_add_pending(path);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = why;
    if (fd < 0 || !like || out__same_mode(fd, like)) return fd;
    why = errno;
    close(fd);
    out_settle(path, false);
    errno = why;
    return -1;
}

/* Puts a file or a folder on disk, where its kind can be. False: see errno. */
static bool out_sync(int fd) {
    while (fsync(fd))
        if (errno != EINTR) return errno == EINVAL || errno == ENOSYS;
    return true;
}

/* Makes a file n bytes long. False: see errno. */
static bool out_cut(int fd, off_t n) {
    while (ftruncate(fd, n))
        if (errno != EINTR) return false;
    return true;
}

/* Flushes the folder of a file that has just got its name. Not all file systems can: only a failed write is false. */
static bool out_sync_folder(const char *path) {
    char *folder = str_dup(path), *slash = strrchr(folder, '/');
    if (slash) slash[1] = 0;
    const int  fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd < 0 || out_sync(fd) || errno != EIO;
    if (fd >= 0) close(fd);
    mem_free(folder);
    return ok;
}

/* Gives a complete file of out_create() the name `path`, where it replaces what is there: all of it is on disk before, the
 * name is afterwards. fd stays open. False: see errno. */
static bool out_replace(int fd, const char *tmp, const char *path) {
    if (!out_sync(fd) || rename(tmp, path)) return false;
    out_settle(tmp, true);
    return out_sync_folder(path);
}

/* Opens a file for writing; -1 and errno on failure. Its old content stays until out_begin(). */
static int out_open(const char *path) {
    int fd = out_create(path, O_WRONLY, NULL);
    if (fd < 0 && errno == EEXIST) fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return fd;
}

/* Empties the file, once. To be called right before the first write: a run that fails earlier leaves the old content. */
static bool out_begin(out_t *o, err_t *e) {
    struct stat st;
    if (o->begun) return true;
    o->begun = true;
    out_settle(o->name, true);
    if (o->f == stdout || fstat(fileno(o->f), &st) != 0 || !S_ISREG(st.st_mode) || out_cut(fileno(o->f), 0))
        return true;
    return err_set(e, err_code_of(errno), "%s: cannot write: %s", o->name, strerror(errno));
}

/* Puts the file on disk, its name too. */
static void out__keep(out_t *o) {
    struct stat st;
    if (o->why || !o->begun || o->f == stdout || fstat(fileno(o->f), &st) != 0 || !S_ISREG(st.st_mode)) return;
    if (!out_sync(fileno(o->f)) || !out_sync_folder(o->name)) o->why = errno;
}

/* Closes the file, which is on disk then. On failure e is set; a closed pipe is no failure. */
static bool out_end(out_t *o, err_t *e) {
    out_flush(o);
    out__keep(o);
    out_settle(o->name, false);
    errno = 0;
    if (fclose(o->f) != 0 && !o->why) o->why = errno ? errno : EIO;
    return !o->why || o->why == EPIPE || err_set(e, EXIT_RESOURCE, "%s: cannot write: %s", o->name, strerror(o->why));
}

/* --- clock --- */

/* Seconds since an arbitrary start; never goes back. */
static double clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- rng: a value is a pure function of (seed, sequence, position, draw), so a text does not depend on other
 * sequences. splitmix64's finaliser (Steele, Lea, Flood 2014) over a mixed key. --- */

/* 64 bits to 64 bits, one to one; each bit of x moves about half of them. */
static uint64_t rng_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The random number of a place: draw number `draw` of a position of a sequence. */
static uint64_t rng_at(uint64_t seed, uint64_t seq, uint64_t pos, uint64_t draw) {
    return rng_mix(rng_mix(rng_mix(rng_mix(seed) ^ seq) ^ pos) ^ draw);
}

/* A number in [0, 1) from the upper 53 bits. */
static double rng_unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

/* A random seed for runs that name none; 32 bits, so that it is easy to type. */
static uint64_t rng_fresh(void) {
    uint32_t s;
    if (getrandom(&s, sizeof s, 0) != (ssize_t)sizeof s) s = (uint32_t)rng_mix((uint64_t)time(NULL) ^ (uint64_t)getpid());
    return s;
}

/* 64 random bits of the system, for hash tables. */
static uint64_t rng_secret(void) { return rng_mix(rng_fresh() << 32 ^ rng_fresh()); }

/* A hash of bytes, for tables and against damage. It can be computed backwards: who knows the seed finds other bytes with the
 * same hash at once. With a secret seed an attacker cannot choose inputs that collide. */
static uint64_t bytes_hash(uint64_t seed, bytes b) {
    uint64_t h = rng_mix(seed ^ b.n), word;
    size_t   i = 0;
    for (; i + 8 <= b.n; i += 8) {
        memcpy(&word, b.p + i, 8);
        h = rng_mix(h ^ word);
    }
    word = 0;
    if (i < b.n) memcpy(&word, b.p + i, b.n - i);
    return rng_mix(h ^ word);
}

/* --- digest: 128 bits that identify bytes, also where an attacker chooses them --- */

typedef struct {
    uint64_t a, b;                                    /* 8 bytes each; %016llx%016llx writes them as b2sum does */
} digest;

enum { BYTES_BLAKE2B = 128 };                         /* bytes of a block */

static const uint64_t bytes__blake2b_start[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static inline uint64_t bytes__rotate(uint64_t x, int n) { return x >> n | x << (64 - n); }

static inline void bytes__blake2b_mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x, v[d] = bytes__rotate(v[d] ^ v[a], 32);
    v[c] += v[d], v[b] = bytes__rotate(v[b] ^ v[c], 24);
    v[a] += v[b] + y, v[d] = bytes__rotate(v[d] ^ v[a], 16);
    v[c] += v[d], v[b] = bytes__rotate(v[b] ^ v[c], 63);
}

/* Takes a block into the state h; taken: bytes up to its end, without those that fill it up. */
static void bytes__blake2b_block(uint64_t h[8], const uint8_t *block, uint64_t taken, bool last) {
    static const uint8_t order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
        {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
        {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
        {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
        {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    };
    uint64_t v[16], m[16];
    memcpy(m, block, sizeof m);
    for (int i = 0; i < 8; i++) v[i] = h[i], v[8 + i] = bytes__blake2b_start[i];
    v[12] ^= taken;
    v[14] ^= last ? UINT64_MAX : 0;
    for (int round = 0; round < 12; round++) {
        const uint8_t *o = order[round % 10];
        for (int i = 0; i < 4; i++) bytes__blake2b_mix(v, i, 4 + i, 8 + i, 12 + i, m[o[2 * i]], m[o[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            bytes__blake2b_mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[o[8 + 2 * i]], m[o[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[8 + i];
}

/* BLAKE2b (RFC 7693) of b under a key of at most 64 bytes, which may be empty: n bytes, 1 to 64. */
static void bytes__blake2b(bytes key, bytes b, uint8_t *out, size_t n) {
    uint8_t  block[BYTES_BLAKE2B];
    uint64_t h[8], taken = 0;
    bool     keyed = key.n > 0, last = false;
    memcpy(h, bytes__blake2b_start, sizeof h);
    h[0] ^= 0x01010000 ^ key.n << 8 ^ n;
    while (!last) {
        const bytes part = keyed ? key : (bytes){b.p, min_size(b.n, sizeof block)};
        memset(block, 0, sizeof block);
        if (part.n) memcpy(block, part.p, part.n);
        if (!keyed) b = (bytes){b.p + part.n, b.n - part.n};
        taken += keyed ? sizeof block : part.n;
        last = !b.n;
        bytes__blake2b_block(h, block, taken, last);
        keyed = false;
    }
    memcpy(out, h, n);
}

/* BLAKE2b of 128 bits. Two texts with the same digest take about 2^64 tries to find, one for a given text 2^128. With an empty
 * key it is what `b2sum -l 128` prints. */
static digest bytes_digest(bytes key, bytes b) {
    uint8_t out[16];
    digest  d = {0};
    bytes__blake2b(key, b, out, sizeof out);
    for (int i = 0; i < 8; i++) d.a = d.a << 8 | out[i], d.b = d.b << 8 | out[8 + i];
    return d;
}

/* Whether they are the same. */
static bool digest_eq(digest x, digest y) { return x.a == y.a && x.b == y.b; }

/* --- hmap: a hash map of 16 bytes an entry, with open addressing. An entry keeps 128 bits: a hash, and the value
 * in those bits of b that are not in `mask`. --- */

typedef struct {
    uint64_t a, b;                                    /* a 0: free */
} hmap_entry;

typedef struct {
    hmap_entry *at;                                   /* [cap], a power of two */
    size_t      cap, n;
    uint64_t    seed;                                 /* secret: an attacker cannot choose entries that collide */
    uint64_t    mask;                                 /* bits of b that belong to the hash */
} hmap;

/* mask: hmap.mask. To be freed by hmap_drop(). */
static void hmap_init(hmap *t, uint64_t mask) {
    *t = (hmap){.at = mem_new(256, sizeof *t->at), .cap = 256, .seed = rng_secret(), .mask = mask};
}

/* Frees the entries; to be used again it needs hmap_init(). */
static void hmap_drop(hmap *t) { mem_free(t->at); }

/* The entry of this hash, or the free one where it would go. a is not 0. */
static hmap_entry *hmap_find(const hmap *t, uint64_t a, uint64_t b) {
    size_t i = rng_mix(a ^ t->seed) & (t->cap - 1);
    while (t->at[i].a && (t->at[i].a != a || ((t->at[i].b ^ b) & t->mask))) i = (i + 1) & (t->cap - 1);
    return &t->at[i];
}

/* The entry of this hash, added with the value 0 if it is new. Earlier pointers to entries are invalid afterwards. */
static hmap_entry *hmap_add(hmap *t, uint64_t a, uint64_t b) {
    if (t->n >= t->cap / 4 * 3) {
        hmap old = *t;
        t->cap *= 2;
        t->at = mem_new(t->cap, sizeof *t->at);
        for (size_t i = 0; i < old.cap; i++)
            if (old.at[i].a) *hmap_find(t, old.at[i].a, old.at[i].b) = old.at[i];
        mem_free(old.at);
    }
    hmap_entry *en = hmap_find(t, a, b);
    if (!en->a) *en = (hmap_entry){a, b & t->mask}, t->n++;
    return en;
}

/* Appends a character as UTF-8. */
static void str_char(str *s, uint32_t c) {
    uint8_t b[4];
    str_add(s, b, (size_t)utf8_put(b, c));
}

/* --- sets and maps of characters, packed as text by tests/gen/unicode.py, which describes the form --- */

typedef enum { CHARS_SET, CHARS_MAP, CHARS_LONG } chars_kind;

/* Of a set: {first, last, step}; of a map: {first, last, step, delta modulo 2^32}; of longer forms: {from, to,
 * to, to}, 0: none. */
typedef struct {
    uint32_t at[4];
} chars_range;

typedef struct {
    const chars_range *at;                            /* [n] sorted */
    size_t             n;
    chars_kind         kind;
} chars_table;

static uint32_t chars__vlq(const char **p) {
    uint32_t n = 0;
    for (int shift = 0;; shift += 5) {
        const char c = *(*p)++;
        const uint32_t d = (uint32_t)(c >= 'a' ? c - 'a' + 26 : c >= 'A' ? c - 'A' : c >= '0' ? c - '0' + 52
                                      : c == '+' ? 62 : 63);
        n |= (d & 31) << shift;
        if (d < 32) return n;
    }
}

/* Reads one entry of a table; `last` is the last character of the entry before it. */
static chars_range chars__unpack_one(chars_kind kind, const char **p, uint32_t *last) {
    chars_range    r = {{*last + chars__vlq(p)}};
    const uint32_t n = chars__vlq(p);
    if (kind == CHARS_LONG) {
        for (uint32_t i = 0; i < n; i++) r.at[1 + i] = chars__vlq(p);
        *last = r.at[0];
        return r;
    }
    r.at[2] = 1 + (n & 1);
    *last = r.at[1] = r.at[0] + (n >> 1) * r.at[2];
    if (kind == CHARS_MAP) {
        const uint32_t d = chars__vlq(p);
        r.at[3] = d & 1 ? 0u - (d >> 1) : d >> 1;
    }
    return r;
}

/* Unpacks n tables into `pool`, an array of `cap` entries: first sets, then maps, then those of kind CHARS_LONG. */
static void chars_unpack(chars_table *to, const char *const *packed, int n, int first_map, int first_long, chars_range *pool,
                         size_t cap) {
    for (int i = 0; i < n; i++) {
        const char *p = packed[i];
        uint32_t    last = 0;
        to[i] = (chars_table){pool, 0, i >= first_long ? CHARS_LONG : i >= first_map ? CHARS_MAP : CHARS_SET};
        for (; *p; cap--, to[i].n++) {
            ASSERT(cap > 0);
            *pool++ = chars__unpack_one(to[i].kind, &p, &last);
        }
    }
}

/* The entry that the character is in, NULL: none. */
static const chars_range *chars_find(const chars_table *t, uint32_t c) {
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (t->at[mid].at[0] > c) hi = mid;
        else lo = mid + 1;
    }
    if (!lo) return NULL;
    const chars_range *r = &t->at[lo - 1];
    if (t->kind == CHARS_LONG) return r->at[0] == c ? r : NULL;
    return c <= r->at[1] && (c - r->at[0]) % r->at[2] == 0 ? r : NULL;
}

/* --- progress: one line on the terminal, redrawn in place and cut to the window's width. None under -q, and none
 * where standard error is no terminal. --- */

#define PROGRESS_PAUSE_S 0.1                          /* seconds between two drawings */

/* Whether there is a progress line. */
static bool progress_on(void) { return g_log_level >= LOG_NORMAL && isatty(STDERR_FILENO); }

/* Whether it is time to draw. */
static bool progress_due(void) {
    return progress_on() && (!base__progress.shown || clock_now() - base__progress.last >= PROGRESS_PAUSE_S);
}

/* Columns of the terminal fd: its own report, else the variable COLUMNS, else 80; 80 too where fd is no terminal. */
static int progress_columns(int fd) {
    struct winsize w;
    const char    *env = getenv("COLUMNS");
    if (!isatty(fd)) return 80;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col) return w.ws_col;
    return env && atoi(env) > 0 ? atoi(env) : 80;
}

/* Number of bytes of the text that fit into the columns. A character beyond ASCII counts as two columns. */
static size_t progress__fit(const char *text, int columns) {
    const size_t n = strlen(text);
    size_t       i = 0;
    while (i < n) {
        const int len = utf8_len((const uint8_t *)text + i, n - i);
        if ((columns -= len > 1 ? 2 : 1) < 0) break;
        i += len ? (size_t)len : 1;
    }
    return i;
}

/* Draws the line if it is time to. The last column stays free, since some terminals wrap after it. Allocates nothing. */
__attribute__((format(printf, 1, 2))) static void progress_show(const char *fmt, ...) {
    char    text[512], seen[4 * sizeof text + 1], line[sizeof seen + 8];
    va_list ap;
    if (!progress_due()) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    seen[utf8_visible((const uint8_t *)text, strlen(text), true, seen, sizeof seen - 1)] = 0;
    const int fits = (int)progress__fit(seen, progress_columns(STDERR_FILENO) - 1);
    const int n = snprintf(line, sizeof line, "\r%.*s\033[K", fits, seen);
    base__progress.shown = 1;
    base__progress.last = clock_now();
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {}
}

typedef struct {
    char p[32];
} progress_time;

/* ", 1:02:03 left" or ", 2:03 left", estimated from what is done since then; "" in the first second. */
static progress_time progress_left(double since, double done, double all) {
    progress_time t = {""};
    const double  gone = clock_now() - since, left = done > 0 ? gone / done * (all - done) : 1e9;
    if (gone < 1 || left > 1e6) return t;
    const int s = (int)left;
    if (s >= 3600) snprintf(t.p, sizeof t.p, ", %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
    else snprintf(t.p, sizeof t.p, ", %d:%02d left", s / 60, s % 60);
    return t;
}

/* --- text as UTF-8, JSON, CSV and base64 --- */

/* Where no well-formed character begins at p: number of bytes, at least one, that one U+FFFD replaces. These are
 * the longest beginning of a well-formed character (Unicode's maximal subpart, as in Python's errors="replace"). */
static size_t utf8_bad(const uint8_t *p, size_t n) {
    size_t len = min_size(n, 3);
    while (len > 1 && !utf8_incomplete(p, len)) len--;
    return len;
}

/* Bytes of the beginning of a text, at most `most`, that do not end inside of a character. */
static int utf8_head(bytes b, size_t most) {
    size_t n = min_size(b.n, most);
    for (int i = 0; i < 3 && n && n < b.n && (b.p[n] & 0xc0) == 0x80; i++) n--;
    return (int)n;
}

/* Whether all of the bytes are UTF-8. */
static bool utf8_whole(bytes b) {
    for (size_t i = 0, len; i < b.n; i += len)
        if (!(len = (size_t)utf8_len(b.p + i, b.n - i))) return false;
    return true;
}

/* Appends the text as valid UTF-8; U+FFFD replaces invalid bytes. */
static void str_utf8(str *s, bytes b) {
    for (size_t i = 0, len; i < b.n; i += len) {
        len = (size_t)utf8_len(b.p + i, b.n - i);
        if (len) str_add(s, b.p + i, len);
        else str_put(s, "\xef\xbf\xbd"), len = utf8_bad(b.p + i, b.n - i);
    }
}

typedef enum {
    STR_JSON_SAFE,                                    /* valid UTF-8, in which nothing acts unseen */
    STR_JSON_PLAIN,                                   /* valid UTF-8 */
    STR_JSON_EXACT,                                   /* bytes that are not UTF-8 stay, and \r is \u000d */
} str__json_kind;

/* Whether \uXXXX stands for the well-formed character at p, which is not ASCII, in the JSON that this program writes, since other
 * programs show that on terminals. U+2028 and U+2029 end a line in JavaScript. */
static bool str__json_hides(const uint8_t *p, size_t len) {
    return utf8__acts(p, len) || (len == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9));
}

/* Appends the character at p of a JSON string. Returns the bytes that it takes. */
static size_t str__json_char(str *s, const uint8_t *p, size_t n, str__json_kind kind) {
    const uint8_t c = p[0];
    const size_t  len = kind == STR_JSON_EXACT ? 1 : (size_t)utf8_len(p, n);
    if (c == '\n') str_put(s, "\\n");
    else if (c == '\t') str_put(s, "\\t");
    else if (c == '\r' && kind != STR_JSON_EXACT) str_put(s, "\\r");
    else if (c < 0x20 || c == 0x7f) str_fmt(s, "\\u%04x", c);
    else if (!len) return str_put(s, "\xef\xbf\xbd"), utf8_bad(p, n);
    else if (len > 1 && kind == STR_JSON_SAFE && str__json_hides(p, len)) str_fmt(s, "\\u%04x", utf8_get(p, (int)len));
    else str_add(s, p, len);
    return len;
}

static void str__json_as(str *s, bytes b, str__json_kind kind) {
    str_put(s, "\"");
    for (size_t i = 0; i < b.n; i += str__json_char(s, b.p + i, b.n - i, kind))
        if (b.p[i] == '"' || b.p[i] == '\\') str_put(s, "\\");
    str_put(s, "\"");
}

/* Appends a JSON string with its quotes, always valid UTF-8. What acts unseen (utf8__acts()) is escaped. */
static void str_json(str *s, bytes b) { str__json_as(s, b, STR_JSON_SAFE); }

/* The same without those escapes, for a text that is compared with what others write. */
static void str_json_plain(str *s, bytes b) { str__json_as(s, b, STR_JSON_PLAIN); }

/* The same with all bytes as they are, for a text that goes back to where it came from. */
static void str_json_exact(str *s, bytes b) { str__json_as(s, b, STR_JSON_EXACT); }

/* Appends JSON of others, as bytes_is_json() takes it, with its strings as str_json() writes their characters; exact: bytes that
 * are not UTF-8 stay. */
static void str_json_copy(str *s, bytes json, bool exact) {
    bool in_string = false;
    for (size_t i = 0, n; i < json.n; i += n) {
        const bool pair = in_string && json.p[i] == '\\' && i + 1 < json.n;
        const bool bad = exact && !utf8_len(json.p + i, json.n - i);
        if (json.p[i] == '"') in_string = !in_string;
        if (pair || bad) str_add(s, json.p + i, n = pair ? 2 : 1);
        else if (in_string) n = str__json_char(s, json.p + i, json.n - i, STR_JSON_SAFE);
        else str_add(s, json.p + i, n = 1);
    }
}

/* A field of CSV in quotes, valid UTF-8. */
static void str_csv_quoted(str *s, bytes b) {
    str_put(s, "\"");
    for (size_t i = 0, n; i < b.n; i += n) {          /* pieces end at quotes: no character is cut */
        const uint8_t *end = memchr(b.p + i, '"', b.n - i);
        n = end ? (size_t)(end - b.p) - i + 1 : b.n - i;
        str_utf8(s, (bytes){b.p + i, n});
        if (end) str_put(s, "\"");
    }
    str_put(s, "\"");
}

/* The same, quoted only where it must be. */
static void str_csv(str *s, bytes b) {
    bool quote = false;
    str_add(s, "", 0);
    for (size_t i = 0; i < b.n; i++) quote = quote || memchr(",\"\r\n", b.p[i], 4) != NULL;
    if (quote) str_csv_quoted(s, b);
    else str_utf8(s, b);
}

/* Appends base64 with padding (RFC 4648), without quotes. */
static void str_base64(str *s, bytes b) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b.n; i += 3) {
        const size_t   n = min_size(b.n - i, 3);
        const uint32_t v = (uint32_t)b.p[i] << 16 | (n > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) | (n > 2 ? b.p[i + 2] : 0);
        char           four[4] = {digit[v >> 18], digit[v >> 12 & 63], '=', '='};
        if (n > 1) four[2] = digit[v >> 6 & 63];
        if (n > 2) four[3] = digit[v & 63];
        str_add(s, four, 4);
    }
}

/* Appends the bytes that base64 stands for; what is no digit of it is left out. */
static void str_unbase64(str *s, bytes b) {
    uint32_t v = 0;
    for (size_t i = 0, n = 0; i < b.n; i++) {
        const uint8_t c = b.p[i];
        const int     d = isupper(c) ? c - 'A' : islower(c) ? c - 'a' + 26 : isdigit(c) ? c - '0' + 52 : c == '+' ? 62 : 63;
        if (!isalnum(c) && c != '+' && c != '/') continue;
        v = v << 6 | (uint32_t)d;
        const uint8_t byte = (uint8_t)(v >> (6 - 2 * (n % 4)) % 8);
        if (n++ % 4) str_add(s, &byte, 1);
    }
}

/* --- JSON as text: read without building values --- */

/* Whether it is white space of JSON. */
static bool bytes_is_blank(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* The text after the white space of JSON. */
static bytes bytes__skip_blanks(bytes b) {
    while (b.n && bytes_is_blank(b.p[0])) b.p++, b.n--;
    return b;
}

/* The text without that at both ends. */
static bytes bytes_trim(bytes b) {
    b = bytes__skip_blanks(b);
    while (b.n && bytes_is_blank(b.p[b.n - 1])) b.n--;
    return b;
}

/* Removes the JSON value at the beginning of b and returns it: a string with its quotes, a list or an object up to its last
 * bracket, else everything up to the next comma, colon or bracket. Empty: there is none. The value is not checked. */
static bytes bytes_cut_json(bytes *b) {
    size_t n = 0, deep = 0;
    bool   in_string = false;
    for (; n < b->n; n++) {
        const uint8_t c = b->p[n];
        if (in_string && c == '\\') n++;
        else if (c == '"') in_string = !in_string;
        else if (in_string) continue;
        else if (c == '[' || c == '{') deep++;
        else if (!deep && memchr(",:]}", c, 4)) break;
        else if (c == ']' || c == '}') deep--;
        if (!deep && !in_string && memchr("\"]}", c, 3)) {
            n++;
            break;
        }
    }
    if (n > b->n) n = b->n;
    const bytes value = {b->p, n};
    *b = bytes_slice(*b, n, b->n);
    return value;
}

/* Removes this byte and the white space before it. False: another one is there. */
static bool bytes__cut(bytes *b, uint8_t c) {
    *b = bytes__skip_blanks(*b);
    if (!b->n || b->p[0] != c) return false;
    *b = (bytes){b->p + 1, b->n - 1};
    return true;
}

/* Cuts the first line off *rest, into *line without its newline. False: nothing is left. */
static bool bytes_cut_line(bytes *rest, bytes *line) {
    const uint8_t *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    const size_t   n = end ? (size_t)(end - rest->p) : rest->n, used = n + (end != NULL);
    *line = (bytes){rest->p, n};
    if (!rest->n) return false;
    *rest = (bytes){rest->p + used, rest->n - used};
    return true;
}

/* Removes the next member of an object: the key with its quotes, and the value with the white space after a
 * number or a word. *rest is the object at first, and *key empty. False: there is none, as far as the text has
 * the shape of an object. Neither is checked. */
static bool bytes_cut_member(bytes *rest, bytes *key, bytes *value) {
    if (!bytes__cut(rest, key->p ? ',' : '{')) return false;
    *rest = bytes__skip_blanks(*rest);
    *key = bytes_cut_json(rest);
    if (!bytes__cut(rest, ':')) return false;
    *rest = bytes__skip_blanks(*rest);
    *value = bytes_cut_json(rest);
    return true;
}

/* Removes the next item of a list, without white space around it. *rest is the list at first. False: there is none, as far as
 * the text has the shape of a list. It is not checked. */
static bool bytes_cut_item(bytes *rest, bytes *item) {
    *rest = bytes__skip_blanks(*rest);
    if (!rest->n || (rest->p[0] != '[' && rest->p[0] != ',')) return false;
    *rest = bytes__skip_blanks((bytes){rest->p + 1, rest->n - 1});
    *item = bytes_trim(bytes_cut_json(rest));
    return item->n > 0;
}

enum { BYTES_DEEP = 200 };                            /* lists and objects inside each other that a scan takes */

/* A strict reading of JSON (RFC 8259), but for control characters in strings, which models write. The text may go
 * on later. On success `at` is after what was read. */
typedef struct {
    bytes  t;
    size_t at;                                        /* the next byte of t */
    bool   more;                                      /* t ended where a byte was needed or could belong to the value */
    size_t work;                                      /* values and bytes of strings that were read */
    size_t most;                                      /* of work, then nothing else is read */
} bytes_scan;

static bool bytes__has(bytes_scan *s, size_t at) {
    if (at < s->t.n) return true;
    s->more = true;
    return false;
}

static bool bytes__worked(bytes_scan *s, size_t n) { return (s->work += n) <= s->most; }

static bool bytes__scan_string(bytes_scan *s) {
    size_t i = s->at + 1;
    for (; bytes__has(s, i) && s->t.p[i] != '"'; i++) {
        if (s->t.p[i] != '\\') continue;
        if (!bytes__has(s, ++i) || !memchr("\"\\/bfnrtu", s->t.p[i], 9)) return false;
        for (int left = s->t.p[i] == 'u' ? 4 : 0; left; left--)
            if (!bytes__has(s, ++i) || bytes_hex_digit(s->t.p[i]) < 0) return false;
    }
    if (i >= s->t.n || !bytes__worked(s, i - s->at)) return false;
    s->at = i + 1;
    return true;
}

/* At least one digit. */
static bool bytes__scan_digits(bytes_scan *s) {
    const size_t from = s->at;
    while (s->at < s->t.n && isdigit(s->t.p[s->at])) s->at++;
    return s->at > from || (bytes__has(s, s->at) && false);
}

/* Skips a number as JSON has it; false where none begins here. */
static bool bytes_scan_number(bytes_scan *s) {
    s->at += bytes__has(s, s->at) && s->t.p[s->at] == '-';
    const size_t from = s->at;
    if (!bytes__scan_digits(s) || (s->t.p[from] == '0' && s->at > from + 1)) return false;
    if (s->at < s->t.n && s->t.p[s->at] == '.') {
        s->at++;
        if (!bytes__scan_digits(s)) return false;
    }
    if (s->at < s->t.n && (s->t.p[s->at] | 32) == 'e') {
        s->at++;
        if (s->at < s->t.n && (s->t.p[s->at] == '+' || s->t.p[s->at] == '-')) s->at++;
        if (!bytes__scan_digits(s)) return false;
    }
    if (s->at == s->t.n) s->more = true;
    return bytes__worked(s, 1);
}

static bool bytes__scan_word(bytes_scan *s, const char *word) {
    for (; *word; word++, s->at++)
        if (!bytes__has(s, s->at) || s->t.p[s->at] != (uint8_t)*word) return false;
    return true;
}

static bool bytes__scan_scalar(bytes_scan *s) {
    switch (s->t.p[s->at]) {
    case '"': return bytes__scan_string(s);
    case 't': return bytes__scan_word(s, "true");
    case 'f': return bytes__scan_word(s, "false");
    case 'n': return bytes__scan_word(s, "null");
    default: return bytes_scan_number(s);
    }
}

/* One value after white space, without recursion; s->at is after it. False: there is none, or the text or the work ended.
 * `want` says what may come: v value, i value or ], k key, e key or }, c colon, a comma or the closing bracket. */
static bool bytes_scan_json(bytes_scan *s) {
    char open[BYTES_DEEP], want = 'v';
    int  deep = 0;
    do {
        while (s->at < s->t.n && bytes_is_blank(s->t.p[s->at])) s->at++;
        if (!bytes__has(s, s->at) || !bytes__worked(s, 1)) return false;
        const uint8_t b = s->t.p[s->at];
        const bool    value = want == 'v' || want == 'i';
        if (value && (b == '{' || b == '[')) {
            if (deep == BYTES_DEEP) return false;
            open[deep++] = b == '{' ? '}' : ']';
            want = b == '{' ? 'e' : 'i';
            s->at++;
        } else if (deep && b == (uint8_t)open[deep - 1] && !strchr("vkc", want)) deep--, want = 'a', s->at++;
        else if (want == 'c' && b == ':') want = 'v', s->at++;
        else if (want == 'a' && b == ',') want = open[deep - 1] == '}' ? 'k' : 'v', s->at++;
        else if ((want == 'k' || want == 'e') && b == '"' && bytes__scan_string(s)) want = 'c';
        else if (value && bytes__scan_scalar(s)) want = 'a';
        else return false;
    } while (deep || want != 'a');
    return true;
}

/* Whether the text is one JSON value and white space. */
static bool bytes_is_json(bytes b) {
    bytes_scan s = {.t = bytes_trim(b), .most = SIZE_MAX};
    return bytes_scan_json(&s) && s.at == s.t.n;
}

/* The character of a \u escape whose four digits are at b.p[*at], or of a pair of them; *at is then after it.
 * Half a pair is U+FFFD; strict: UINT32_MAX. */
static uint32_t bytes_utf16(bytes b, size_t *at, bool strict) {
    uint64_t high = 0, low = 0;
    bytes_hex(b.p + *at, 4, &high);
    *at += 4;
    if (high < 0xd800 || high > 0xdfff) return (uint32_t)high;
    const bool pair = high < 0xdc00 && b.n - *at >= 6 && memcmp(b.p + *at, "\\u", 2) == 0 &&
                      bytes_hex(b.p + *at + 2, 4, &low);
    if (!pair || low < 0xdc00 || low > 0xdfff) return strict ? UINT32_MAX : 0xfffd;
    *at += 6;
    return (uint32_t)(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
}

/* Appends what a JSON string, given with its quotes, stands for; bytes that are not UTF-8 go through. False, and
 * nothing is appended: it is no string, or strict and it has a control character or half of a surrogate pair. */
static bool str_unquote(str *s, bytes json, bool strict) {
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    bytes_scan        scan = {.t = json, .most = SIZE_MAX};
    const size_t      had = s->n;
    bool              ok = json.n && *json.p == '"' && bytes__scan_string(&scan) && scan.at == json.n;
    for (size_t i = 1; ok && i + 1 < json.n;) {
        const uint8_t b = json.p[i++];
        ok = !strict || b >= 0x20;
        if (b != '\\') str_add(s, &b, 1);
        else {
            const uint8_t  kind = json.p[i++];
            const char    *p = memchr(from, kind, sizeof from - 1);
            const uint32_t c = kind == 'u' ? bytes_utf16(json, &i, strict) : p ? (uint8_t)to[p - from] : kind;
            ok = c != UINT32_MAX;
            if (ok) str_char(s, c);
        }
    }
    if (!ok && s->n > had) s->p[s->n = had] = 0;
    return ok;
}

/* Whether a key, given with its quotes, is this name. */
static bool bytes__is_key(bytes key, const char *name) {
    const size_t n = strlen(name);
    if (key.n == n + 2 && key.p[0] == '"' && memcmp(key.p + 1, name, n) == 0) return true;
    if (!key.n || !memchr(key.p, '\\', key.n) || key.n > 6 * n + 2) return false;
    str        text = {0};
    const bool is = str_unquote(&text, key, true) && bytes_is(str_bytes(&text), name);
    str_drop(&text);
    return is;
}

/* The value of a member of an object as bytes_cut_member() cuts it; empty: there is none. The last of several
 * counts, as in other readers of JSON. */
static bytes bytes_member(bytes object, const char *name) {
    bytes value = {0}, key = {0}, v;
    while (bytes_cut_member(&object, &key, &v))
        if (v.n && bytes__is_key(key, name)) value = v;
    return value;
}

/* --- jw: a writer of JSON, which puts the commas. key NULL: an item of a list, or the one value of the text --- */

typedef struct {
    str        *to;
    const char *comma;                                /* between two members or items */
    const char *colon;                                /* after a key */
    bool        more;                                 /* the next one follows another in its list or object */
    bool        line;                                 /* it begins a line */
} jw;

/* A writer that puts no blanks. */
static jw jw_tight(str *to) { return (jw){.to = to, .comma = ",", .colon = ":"}; }

/* A writer that puts a blank after each comma and colon. */
static jw jw_loose(str *to) { return (jw){.to = to, .comma = ", ", .colon = ": "}; }

/* The next member or item begins a line. */
static jw *jw_line(jw *w) {
    w->line = true;
    return w;
}

/* All that is before a value. The caller writes the value, or the functions below do. */
static void jw_key(jw *w, const char *key) {
    if (w->more) str_put(w->to, w->line ? "," : w->comma);
    if (w->line) str_put(w->to, "\n");
    if (key) str_fmt(w->to, "\"%s\"%s", key, w->colon);
    w->more = true;
    w->line = false;
}

/* Begins a list or an object; bracket: [ or {. */
static void jw_open(jw *w, const char *key, char bracket) {
    jw_key(w, key);
    str_add(w->to, &bracket, 1);
    w->more = false;
}

/* Ends it; bracket: ] or }. */
static void jw_close(jw *w, char bracket) {
    str_add(w->to, &bracket, 1);
    w->more = true;
}

/* A number or a word, as printf() writes it. */
__attribute__((format(printf, 3, 4))) static void jw_fmt(jw *w, const char *key, const char *fmt, ...) {
    va_list ap;
    jw_key(w, key);
    va_start(ap, fmt);
    str__vfmt(w->to, fmt, ap);
    va_end(ap);
}

/* true or false. */
static void jw_bool(jw *w, const char *key, bool b) { jw_fmt(w, key, "%s", b ? "true" : "false"); }

/* A number with so many significant digits. JSON has no infinity and no NaN: these are null. */
static void jw_number(jw *w, const char *key, int digits, double x) {
    if (isfinite(x)) jw_fmt(w, key, "%.*g", digits, x);
    else jw_fmt(w, key, "null");
}

/* Bytes as a string, valid UTF-8. */
static void jw_text(jw *w, const char *key, bytes b) {
    jw_key(w, key);
    str_json(w->to, b);
}

/* The same of a C string. */
static void jw_str(jw *w, const char *key, const char *text) { jw_text(w, key, bytes_of(text)); }

/* A key that may be any text; its value follows as an item. */
static void jw_member(jw *w, bytes key) {
    jw_text(w, NULL, key);
    str_put(w->to, w->colon);
    w->more = false;
}

/* A string where it is there, else null. */
static void jw_maybe(jw *w, const char *key, bytes b, bool there) {
    if (there) jw_text(w, key, b);
    else jw_fmt(w, key, "null");
}

/* Bytes as a string of base64. */
static void jw_base64(jw *w, const char *key, bytes b) {
    jw_key(w, key);
    str_put(w->to, "\"");
    str_base64(w->to, b);
    str_put(w->to, "\"");
}

/* The exact bytes of a text where they are not UTF-8: `"bytes":"BASE64"`. */
static void jw_bytes(jw *w, bytes text) {
    if (!utf8_whole(text)) jw_base64(w, "bytes", text);
}
