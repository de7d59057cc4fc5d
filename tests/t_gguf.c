/* [gguf] Files are written in a small language, one row a file, so that a table shows every byte:
 *   G3        magic and version 3; from here on counts have the width of that version
 *   #N        a count, length or dimension          'text     a string with its length ("\\0" is a NUL byte)
 *   bN hN iN qN fX dX   u8 u16 u32 u64 f32 f64      "text     bytes without a length
 *   zN        N zero bytes                          @N        zeros up to a multiple of N
 *   (N ... )  the inside N times                    %         the number of the innermost repetition, 8 hex digits, as a string
 * A pair is   'key iTYPE value   and a tensor   'name iNDIMS #DIM.. iTYPE qOFFSET. */
#include "program.h"
#include "check.h"

typedef struct {
    str  s;
    int  version;
    bool nul;                                         /* strings get a final NUL, as the C writer once did */
} tg_out;

static void tg_count(tg_out *o, uint64_t v) { str_add(&o->s, &v, o->version == 1 ? 4 : 8); }

static void tg_text(str *s, const char *t, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool nul = t[i] == '\\' && i + 1 < n && t[i + 1] == '0';
        str_add(s, nul ? "" : t + i, 1);
        i += nul;
    }
}

static void tg_string(tg_out *o, const char *t, size_t n) {
    str s = {0};
    tg_text(&s, t, n);
    tg_count(o, s.n + o->nul);
    str_add(&o->s, s.p ? s.p : "", s.n + o->nul);
    str_drop(&s);
}

static const char *tg_write(tg_out *o, const char *p, unsigned turn);

static const char *tg_token(tg_out *o, const char *p, size_t n, unsigned turn) {
    bool     real = *p == 'f' || *p == 'd';
    uint64_t u = n > 1 && !real ? strtoull(p + 1, NULL, 0) : 0;
    double   d = real ? strtod(p + 1, NULL) : 0;
    float    f = (float)d;
    char     hex[16];
    switch (*p) {
    case 'G':  str_put(&o->s, "GGUF"), str_add(&o->s, &u, 4), o->version = (int)u; break;
    case '#':  tg_count(o, u); break;
    case 'b':  str_add(&o->s, &u, 1); break;
    case 'h':  str_add(&o->s, &u, 2); break;
    case 'i':  str_add(&o->s, &u, 4); break;
    case 'q':  str_add(&o->s, &u, 8); break;
    case 'f':  str_add(&o->s, &f, 4); break;
    case 'd':  str_add(&o->s, &d, 8); break;
    case '\'': tg_string(o, p + 1, n - 1); break;
    case '"':  tg_text(&o->s, p + 1, n - 1); break;
    case '%':  snprintf(hex, sizeof hex, "%08x", turn), tg_string(o, hex, 8); break;
    case 'z':  while (u--) str_add(&o->s, "", 1); break;
    case '@':  while (o->s.n % u) str_add(&o->s, "", 1); break;
    default:   CHECKF(false, "bad token %.*s", (int)n, p);
    }
    return p + n;
}

static const char *tg_write(tg_out *o, const char *p, unsigned turn) {
    while (*p && *p != ')') {
        size_t n = strcspn(p, " ");
        if (*p == '(') {
            unsigned    times = (unsigned)strtoul(p + 1, NULL, 0);
            const char *end = p;
            for (unsigned i = 0; i < times; i++) end = tg_write(o, p + n + 1, i);
            p = end + 1;
        } else {
            p = tg_token(o, p, n, turn);
        }
        p += strspn(p, " ");
    }
    return p;
}

static str tg_file(const char *text) {
    tg_out o = {.version = 3};
    tg_write(&o, text, 0);
    return o.s;
}

/* One file in its own heap block, so that a read past its end is seen by the sanitizer. */
static bool tg_parse(gguf_file *g, const str *s, uint8_t **own, err_t *e) {
    *own = mem_new(s->n, 1);
    if (s->n) memcpy(*own, s->p, s->n);
    return gguf_parse(g, *own, s->n, "F", e);
}

/* --- what must be refused, and the words --- */

#define TG_KV1   "G3 #0 #1 "                          /* no tensors, one pair   */
#define TG_T1    "G3 #1 #0 "                          /* one tensor, no pairs   */
#define TG_T2    "G3 #2 #0 "
#define TG_ALIGN TG_KV1 "'general.alignment "

static const struct {
    const char *what, *file, *says;
} tg_bad[] = {
    /* HOSTILE 1, 2: header */
    {"empty", "", "0 bytes are left of the file, expected 4 of the magic GGUF"},
    {"magic alone", "\"GGUF", "0 bytes are left of the file, expected 4 of the version"},
    {"swapped magic", "\"FUGG i3 #0 #0", "bytes swapped"},
    {"ggjt", "\"tjgg i3 z64", "ggjt, older than GGUF"},
    {"ggml", "\"lmgg i3 z64", "ggml, older than GGUF"},
    {"zip", "\"PK\x03\x04 z64", "is a zip file (or a PyTorch one, which is zip), expected a GGUF file (at byte 0)"},
    {"gzip", "\"\x1f\x8b\x08 z64", "is a gzip file, expected a GGUF file"},
    {"zstd", "\"\x28\xb5\x2f\xfd z64", "is a zstd file, expected a GGUF file"},
    {"a page", "\"<!DOCTYPE z64", "is an HTML page, expected a GGUF file"},
    {"text", "\"Once z64", "begins with 4f 6e 63 65 (not a GGUF file), expected the magic GGUF (at byte 0)"},
    {"zeros", "z64", "zeros"},
    /* 3: version */
    {"version 0", "G0 #0 #0", "version 0, expected 1, 2 or 3 (at byte 4)"},
    {"version 4", "G4 #0 #0", "version 4, expected 1, 2 or 3 (at byte 4)"},
    {"version -1", "G0xffffffff #0 #0", "version 4294967295, expected"},
    {"version 65536", "G65536 #0 #0", "version 65536, expected"},
    {"big-endian", "G0x03000000 #0 #0", "is big-endian (version 0x03000000), expected little-endian"},
    {"big-endian 2", "G0x02000000 #0 #0", "is big-endian"},
    {"v1 empty key", "G1 #0 #1 ' i4 i1", "a key of 0 bytes, expected 1 to 65535"},
    {"v1 key of one NUL", "G1 #0 #1 '\\0 i4 i1", "a key of 0 bytes"},
    {"v1 empty name", "G1 #1 #0 ' i1 #4 i0 q0 @32 z16", "a tensor name of 0 bytes"},
    /* 4, 5: counts */
    {"tensors 2^64-1", "G3 #-1 #0 z999", "the number of tensors is 18446744073709551615, expected at most 30"},
    {"tensors 2^63", "G3 #0x8000000000000000 #0 z999", "the number of tensors is 9223372036854775808"},
    {"tensors SIZE_MAX/88+1", "G3 #209622091746699451 #0 z999", "the number of tensors is 209622091746699451"},
    {"tensors one more", "G3 #2 #0 't i1 #4 i0 q0 @32 z99", "a tensor name of 0 bytes"},
    {"tensors too many to be true", "G3 #4194305 #0", "the number of tensors is 4194305, expected at most 0"},
    {"keys 2^64-1", "G3 #0 #-1 z999", "the number of keys is 18446744073709551615, expected at most 71"},
    {"keys 2^63", "G3 #0 #0x8000000000000000 z999", "the number of keys is 9223372036854775808"},
    {"keys one more", "G3 #0 #2 'abcdefghijklmnopqrst i4 i1", "0 bytes are left of the file, expected 8 of a key"},
    {"v1 keys 2^32-1", "G1 #0 #0xffffffff z99", "the number of keys is 4294967295, expected at most 9"},
    /* 6: keys */
    {"key length 2^64-1", TG_KV1 "#-1 \"abc z40", "expected 18446744073709551615 of a key"},
    {"key length 2^63", TG_KV1 "#0x8000000000000000 \"abc z40", "expected 9223372036854775808 of a key"},
    {"key length remaining + 1", TG_KV1 "#44 \"abc z40", "43 bytes are left of the file, expected 44 of a key"},
    {"key length 65536", TG_KV1 "#65536 (65536 \"k ) i4 i1", "a key of 65536 bytes, expected 1 to 65535 (at byte 24)"},
    {"key length 0", TG_KV1 "' i4 i1 z9", "a key of 0 bytes, expected 1 to 65535 (at byte 24)"},
    {"key with NUL", TG_KV1 "'ab\\0c i4 i1", "byte 0x00 in a key, expected UTF-8 without NUL (at byte 34)"},
    {"key ending in NUL", TG_KV1 "'abc\\0 i4 i1", "byte 0x00 in a key"},
    {"key not UTF-8", TG_KV1 "'ab\xff i4 i1", "byte 0xff in a key, expected UTF-8 without NUL (at byte 34)"},
    {"key with a cut character", TG_KV1 "'ab\xe2\x82 i4 i1", "byte 0xe2 in a key"},
    {"key with a surrogate", TG_KV1 "'ab\xed\xa0\x80 i4 i1", "byte 0xed in a key"},
    /* 7: strings */
    {"string length 2^64-1", TG_KV1 "'k i8 #-1 z40", "expected 18446744073709551615 of a string"},
    {"string length 2^63", TG_KV1 "'k i8 #0x8000000000000000 z40", "expected 9223372036854775808 of a string"},
    {"string length 2^32", TG_KV1 "'k i8 #0x100000000 z40", "expected 4294967296 of a string"},
    {"string length remaining + 1", TG_KV1 "'k i8 #41 z40",
     "40 bytes are left of the file, expected 41 of a string (at byte 45)"},
    {"array string 2^64-1", TG_KV1 "'k i9 i8 #2 'a #-1 z40", "string 1 of 2 of key k is longer than the file"},
    {"array string 2^64-8", TG_KV1 "'k i9 i8 #2 'a #-8 z40",
     "string 1 of 2 of key k is longer than the file, expected it inside (at byte 58)"},
    {"array string remaining + 1", TG_KV1 "'k i9 i8 #2 'a #41 z40", "string 1 of 2"},
    {"v1 array string 2^32-1", "G1 #0 #1 'k i9 i8 #1 #0xffffffff z40", "string 0 of 1"},
    /* 8: types */
    {"value type 13", TG_KV1 "'k i13 z40", "key k has value type 13, expected 0 to 12 (at byte 33)"},
    {"value type 255", TG_KV1 "'k i255 z40", "value type 255"},
    {"value type 2^32-1", TG_KV1 "'k i0xffffffff z40", "value type 4294967295"},
    {"array of arrays", TG_KV1 "'k i9 i9 #1 i4 #1 i7", "key k is an array of arrays, expected an array of numbers"},
    {"100000 arrays deep", TG_KV1 "'k i9 (100000 i9 #1 ) i4 #1 i7", "key k is an array of arrays"},
    {"element type 13", TG_KV1 "'k i9 i13 #1 z40", "key k has element type 13, expected 0 to 12"},
    {"element type 2^32-1", TG_KV1 "'k i9 i-1 #1 z40", "key k has element type 4294967295"},
    /* 9: array counts */
    {"2^61 x 8", TG_KV1 "'k i9 i10 #0x2000000000000000 z40",
     "key k has 2305843009213693952 elements, expected at most 1073741824"},
    {"2^62 x 4", TG_KV1 "'k i9 i4 #0x4000000000000000 z40", "key k has 4611686018427387904 elements"},
    {"2^60 strings", TG_KV1 "'k i9 i8 #0x1000000000000000 z40", "key k has 1152921504606846976 elements"},
    {"2^64-1 bytes", TG_KV1 "'k i9 i0 #-1 z40", "key k has 18446744073709551615 elements"},
    {"2^30+1 bytes", TG_KV1 "'k i9 i0 #0x40000001 z40", "key k has 1073741825 elements"},
    {"2^30 strings", TG_KV1 "'k i9 i8 #0x40000000 z40",
     "40 bytes are left of the file, expected 8589934592 of an array of strings"},
    {"remaining + 1 bytes", TG_KV1 "'k i9 i0 #41 z40", "40 bytes are left of the file, expected 41 of an array"},
    {"remaining + 1 u32", TG_KV1 "'k i9 i4 #11 z40", "40 bytes are left of the file, expected 44 of an array"},
    /* 10: names that come twice */
    {"key twice", "G3 #0 #3 'k i4 i1 'l i4 i1 'k i4 i1", "key k comes twice, expected once (at byte 66)"},
    {"tensor twice", TG_T2 "'t i1 #4 i0 q0 't i1 #4 i0 q32 @32 z48", "tensor t comes twice, expected once"},
    {"a duplicate among 100000 keys", "G3 #0 #100001 'last i0 b0 (99999 % i0 b0 ) 'last i0 b0", "key last comes twice"},
    /* 11: alignment */
    {"alignment 0", TG_ALIGN "i4 i0", "general.alignment is 0, expected a power of two from 8 to 1048576"},
    {"alignment 3", TG_ALIGN "i4 i3", "general.alignment is 3,"},
    {"alignment 4", TG_ALIGN "i4 i4", "general.alignment is 4,"},
    {"alignment 13", TG_ALIGN "i4 i13", "general.alignment is 13,"},
    {"alignment 24", TG_ALIGN "i4 i24", "general.alignment is 24,"},
    {"alignment 2^21", TG_ALIGN "i4 i0x200000", "general.alignment is 2097152,"},
    {"alignment 2^31", TG_ALIGN "i4 i0x80000000", "general.alignment is 2147483648,"},
    {"alignment 2^32-1", TG_ALIGN "i4 i0xffffffff", "general.alignment is 4294967295,"},
    {"alignment of i32", TG_ALIGN "i5 i32", "general.alignment is of type i32, expected u32"},
    {"alignment of u64", TG_ALIGN "i10 q32", "general.alignment is of type u64, expected u32"},
    {"alignment of string", TG_ALIGN "i8 '32", "general.alignment is of type string, expected u32"},
    {"alignment of array", TG_ALIGN "i9 i4 #1 i32", "general.alignment is of type array of u32, expected u32"},
    /* 12: bool */
    {"bool 2", TG_KV1 "'k i7 b2", "key k holds bool 2, expected 0 or 1 (at byte 37)"},
    {"bool 255", TG_KV1 "'k i7 b255", "key k holds bool 255"},
    {"bool 2 in an array", TG_KV1 "'k i9 i7 #3 b1 b0 b2", "key k holds bool 2, expected 0 or 1 (at byte 51)"},
    /* 13: number of dimensions */
    {"0 dimensions", TG_T1 "'t i0 i0 q0 @32 z32", "tensor t has 0 dimensions, expected 1 to 4 (at byte 33)"},
    {"5 dimensions", TG_T1 "'t i5 (5 #1 ) i0 q0 @32 z32", "tensor t has 5 dimensions"},
    {"9 dimensions", TG_T1 "'t i9 (9 #1 ) i0 q0 @32 z32", "tensor t has 9 dimensions"},
    {"10^6 dimensions", TG_T1 "'t i1000000 #1 i0 q0 @32 z32", "tensor t has 1000000 dimensions"},
    {"2^32-1 dimensions", TG_T1 "'t i-1 #1 i0 q0 @32 z32", "tensor t has 4294967295 dimensions"},
    /* 14: dimensions */
    {"dimension 0 first", TG_T1 "'t i4 #0 #1 #1 #1 i0 q0 @32 z32",
     "tensor t has dimension 0, expected 1 to 2^63 - 1 (at byte 37)"},
    {"dimension 0 second", TG_T1 "'t i4 #4 #0 #1 #1 i0 q0 @32 z32",
     "tensor t has dimension 0, expected 1 to 2^63 - 1 (at byte 45)"},
    {"dimension 0 third", TG_T1 "'t i4 #4 #1 #0 #1 i0 q0 @32 z32",
     "tensor t has dimension 0, expected 1 to 2^63 - 1 (at byte 53)"},
    {"dimension 0 fourth", TG_T1 "'t i4 #4 #1 #1 #0 i0 q0 @32 z32",
     "tensor t has dimension 0, expected 1 to 2^63 - 1 (at byte 61)"},
    {"dimension -1", TG_T1 "'t i2 #-1 #1 i0 q0 @32 z32", "tensor t has dimension 18446744073709551615"},
    {"dimension 2^63", TG_T1 "'t i2 #4 #0x8000000000000000 i0 q0 @32 z32", "tensor t has dimension 9223372036854775808"},
    /* 15, 16, 17: products and sums that wrap */
    {"elements = 4 mod 2^64", TG_T1 "'t i3 #4194305 #4194305 #211106198978564 i0 q0 @32 z32",
     "is 4194305 x 4194305 x 211106198978564 x 1, expected a size below 2^63"},
    {"INT64_MAX x 2", TG_T1 "'t i2 #0x7fffffffffffffff #2 i0 q0 @32 z32", "expected a size below 2^63"},
    {"bytes = 2^64 - 16", TG_T1 "'t i3 #4 #0x3fffffff #0x40000001 i0 q0 @32 z32", "expected a size below 2^63"},
    {"2^42 + 1 rows", TG_T1 "'t i2 #0x100000 #0x40000000001 i0 q0 @32 z32", "expected a size below 2^63"},
    {"2^40 rows that end nowhere", TG_T1 "'t i2 #1024 #0x10000000000 i0 q0 @32 z32",
     "the file ends at 128 bytes, its tensors need 4503599627370592, expected a whole file (at byte 128)"},
    {"I8 INT64_MAX bytes twice",
     TG_T2 "'t i1 #0x7fffffffffffffc0 i24 q0 'u i1 #0x7fffffffffffffc0 i24 q0x7fffffffffffffc0 @32 z32",
     "tensor t has 9223372036854775744 bytes at offset 0"},
    /* 18: types */
    {"type 4", TG_T1 "'t i1 #32 i4 q0 @32 z128", "tensor t has type 4 (q4_2)"},
    {"type 5", TG_T1 "'t i1 #32 i5 q0 @32 z128", "tensor t has type 5 (q4_3)"},
    {"type 31", TG_T1 "'t i1 #32 i31 q0 @32 z128", "tensor t has type 31 (q4_0_4_4)"},
    {"type 32", TG_T1 "'t i1 #32 i32 q0 @32 z128", "tensor t has type 32 (q4_0_4_8)"},
    {"type 33", TG_T1 "'t i1 #32 i33 q0 @32 z128", "tensor t has type 33 (q4_0_8_8)"},
    {"type 36", TG_T1 "'t i1 #128 i36 q0 @32 z128",
     "tensor t has type 36, which is iq4_nl_4_4 (removed) but for files of bitnet.cpp"},
    {"type 339", TG_T1 "'t i1 #256 i339 q0 @32 z256",
     "tensor t has type 339 (iq4_k_r4: rows interleaved for ik_llama.cpp), expected the plain type iq4_k"},
    {"type 134", TG_T1 "'t i1 #256 i134 q0 @32 z256", "tensor t has type 134 (iq1_bn)"},
    {"rows with scales", TG_T1 "'t i2 #256 #4 i144 q0 @32 z559",
     "the file ends at 655 bytes, its tensors need 656"},
    {"rows with scales beyond 2^63", TG_T1 "'t i3 #256 #0x100000000000 #4096 i144 q0 @32 z64", "expected a size below 2^63"},
    {"type 37", TG_T1 "'t i1 #32 i37 q0 @32 z128", "tensor t has type 37 (iq4_nl_4_8)"},
    {"type 38", TG_T1 "'t i1 #32 i38 q0 @32 z128", "tensor t has type 38 (iq4_nl_8_8)"},
    {"type 43", TG_T1 "'t i1 #32 i43 q0 @32 z128", "tensor t has type 43 (unknown)"},
    {"type 97", TG_T1 "'t i1 #32 i97 q0 @32 z128", "tensor t has type 97 (q8_0_x4)"},
    {"type 200", TG_T1 "'t i1 #32 i200 q0 @32 z128", "tensor t has type 200 (unknown)"},
    {"type 2^31-1", TG_T1 "'t i1 #32 i0x7fffffff q0 @32 z128", "tensor t has type 2147483647 (unknown)"},
    {"type -1", TG_T1 "'t i1 #32 i-1 q0 @32 z128",
     "tensor t has type 4294967295 (unknown), expected one that is defined and not removed (at byte 45)"},
    /* 19: rows */
    {"row of 33 in q4_0", TG_T1 "'t i1 #33 i2 q0 @32 z128", "tensor t has rows of 33, expected a multiple of 32 for type q4_0"},
    {"row of 32 in q6_K", TG_T1 "'t i2 #32 #8 i14 q0 @32 z999",
     "tensor t has rows of 32, expected a multiple of 256 for type q6_K"},
    /* 20: offsets */
    {"offset misaligned", TG_T1 "'t i1 #4 i0 q4 @32 z64", "tensor t has offset 4, expected a multiple of 32"},
    {"offset misaligned for 64", "G3 #1 #1 'general.alignment i4 i64 't i1 #4 i0 q32 @64 z128",
     "tensor t has offset 32, expected a multiple of 64"},
    {"offset 2^40", TG_T1 "'t i1 #4 i0 q0x10000000000 @32 z64",
     "the file ends at 128 bytes, its tensors need 1099511627856, expected a whole file (at byte 128)"},
    {"offset 2^64-32", TG_T1 "'t i1 #16 i0 q-32 @32 z64", "tensor t has 64 bytes at offset 18446744073709551584"},
    {"offset at the end", TG_T1 "'t i1 #4 i0 q64 @32 z64",
     "the file ends at 128 bytes, its tensors need 144, expected a whole file (at byte 128)"},
    {"no data, offset 2^64-64", TG_T2 "'t i1 #16 i0 q0 'u i1 #16 i0 q-64",
     "tensor t has 64 bytes at offset 0, expected them within 0 bytes"},
    {"overlap", TG_T2 "'t i1 #16 i0 q0 'u i1 #4 i0 q32 @32 z99",
     "tensor u has offset 32, expected at least 64, the end of the tensor before it"},
    {"same place", TG_T2 "'t i1 #4 i0 q0 'u i1 #4 i0 q0 @32 z99", "tensor u has offset 0, expected at least 16"},
    {"out of order", TG_T2 "'t i1 #4 i0 q32 'u i1 #4 i0 q0 @32 z99", "tensor u has offset 0, expected at least 48"},
    /* 21: length */
    {"one byte short", TG_T1 "'t i1 #4 i0 q0 @32 z15",
     "the file ends at 79 bytes, its tensors need 80, expected a whole file (at byte 79)"},
    {"data begins past the end", TG_T1 "'t i1 #4 i0 q0",
     "the file ends at 57 bytes, its tensors need 80, expected a whole file (at byte 57)"},
    /* 22: names */
    {"name length 0", TG_T1 "' i1 #4 i0 q0 @32 z16", "a tensor name of 0 bytes, expected 1 to 63 (at byte 24)"},
    {"name length 64", TG_T1 "#64 (64 \"n ) i1 #4 i0 q0 @32 z16", "a tensor name of 64 bytes, expected 1 to 63"},
    {"name length 65", TG_T1 "#65 (65 \"n ) i1 #4 i0 q0 @32 z16", "a tensor name of 65 bytes, expected 1 to 63"},
    {"name length 2^64-1", TG_T1 "#-1 \"nnn i1 #4 i0 q0 @32 z16", "expected 18446744073709551615 of a tensor name"},
    {"name with NUL", TG_T1 "'a\\0b i1 #4 i0 q0 @32 z16", "byte 0x00 in a tensor name, expected UTF-8 without NUL (at byte 33)"},
    {"name not UTF-8", TG_T1 "'a\xc0\x80 i1 #4 i0 q0 @32 z16", "byte 0xc0 in a tensor name"},
};

static void t_gguf_bad(void) {
    for (size_t i = 0; i < sizeof tg_bad / sizeof *tg_bad; i++) {
        str       s = tg_file(tg_bad[i].file);
        gguf_file g;
        err_t     e = {0};
        uint8_t  *own;
        double    start = t_cpu();
        bool      ok = tg_parse(&g, &s, &own, &e);
        char     *at = strstr(e.text, " (at byte ");
        if (CHECKF(!ok, "%s: accepted", tg_bad[i].what)) {
            EQ_INT(e.code, EXIT_INPUT);
            CHECKF(strstr(e.text, tg_bad[i].says), "%s: got \"%s\", want \"%s\"", tg_bad[i].what, e.text, tg_bad[i].says);
            CHECKF(!strncmp(e.text, "F: ", 3) && strstr(e.text, ", expected "), "%s: form of \"%s\"", tg_bad[i].what, e.text);
            CHECKF(at && strtoull(at + 10, NULL, 10) <= s.n && at[strlen(at) - 1] == ')', "%s: place in \"%s\"", tg_bad[i].what,
                   e.text);
        }
        CHECKF(t_cpu() - start < 10, "%s: took %.3f s", tg_bad[i].what, t_cpu() - start);
        gguf_close(&g);
        mem_free(own);
        str_drop(&s);
    }
}

/* --- what must be read --- */

/* Every type once, an empty array and an empty string, two tensors with a gap; the same in each version. */
#define TG_ALL " #2 #19 'u8 i0 b200 'i8 i1 b-3 'u16 i2 h60000 'i16 i3 h-300 'u32 i4 i4000000000 'i32 i5 i-70000 'f32 i6 f1.5 " \
    "'bool i7 b1 'str i8 'hello 'empty i8 ' 'u64 i10 q-1 'i64 i11 q0x8000000000000000 'f64 i12 d-2.25 " \
    "'general.alignment i4 i64 'a.u8 i9 i0 #3 b1 b2 b255 'a.i16 i9 i3 #2 h-1 h7 'a.f32 i9 i6 #2 f0.5 f-1 " \
    "'a.str i9 i8 #4 'one ' 'three '\xff 'a.none i9 i10 #0 't i2 #4 #2 i0 q0 'u.w i1 #64 i8 q64 @64 (8 f3 ) @64 (68 b9 )"

static void tg_all_there(const gguf_file *g, int version) {
    static const char *const words[] = {"one", "", "three", "\xff"};
    uint64_t       u = 0;
    float          f = 0;
    bool           b = false;
    bytes          s = {0};
    const gguf_kv *kv = NULL;
    err_t          e = {0};
    EQ_INT(g->version, version);
    EQ_INT(g->n_kv, 19);
    EQ_INT(g->n_tensor, 2);
    EQ_INT(g->n_parts, 1);
    EQ_INT(g->align, 64);
    CHECK(gguf_get_u64(g, "u32", 0, UINT64_MAX, &u, &e) == 1 && u == 4000000000u);
    CHECK(gguf_get_f32(g, "f64", -3, 3, &f, &e) == 1 && f == -2.25f);
    CHECK(gguf_get_bool(g, "bool", &b, &e) == 1 && b);
    CHECK(gguf_get_str(g, "str", &s, &e) == 1 && bytes_is(s, "hello"));
    CHECK(gguf_get_str(g, "empty", &s, &e) == 1 && s.n == 0);
    if (CHECK(gguf_get_arr(g, "a.str", &kv, &e) == 1)) {
        gguf_strs it = gguf_strs_of(g, kv);
        for (int i = 0; i < 4; i++) CHECKF(gguf_strs_next(&it, &s) && bytes_is(s, words[i]), "string %d", i);
        CHECK(!gguf_strs_next(&it, &s) && it.left == 0);
    }
    const gguf_tensor *t = gguf_tensor_find(g, "t"), *w = gguf_tensor_find(g, "u.w");
    CHECK(!gguf_tensor_find(g, "u") && !gguf_find(g, "nothing") && !gguf_find(g, ""));
    if (!CHECK(t && w)) return;
    CHECK(t->n_dims == 2 && t->dim[0] == 4 && t->dim[1] == 2 && t->dim[2] == 1 && t->dim[3] == 1 && t->type == K_F32 &&
          t->n_bytes == 32);
    CHECK(w->n_dims == 1 && w->dim[0] == 64 && w->dim[1] == 1 && w->type == K_Q8_0 && w->n_bytes == 68 && w->at == t->at + 64);
    memcpy(&f, t->data + 28, 4);
    CHECK(f == 3 && w->data[67] == 9 && t->at % 64 == 0);
}

static void t_gguf_good(void) {
    for (int i = 0; i < 5; i++) {                     /* versions 1 2 3, then 1 and 2 as the C writer made them */
        char       *text = NULL;
        str         file = {0};
        gguf_file   g;
        err_t       e = {0};
        uint8_t    *own;
        int         version = i < 3 ? i + 1 : i - 2;
        tg_out      o = {.version = version, .nul = i >= 3};
        str_fmt(&file, "G%d%s", version, TG_ALL);
        text = file.p;
        tg_write(&o, text, 0);
        if (CHECKF(tg_parse(&g, &o.s, &own, &e), "%d: %s", i, e.text)) {
            EQ_INT(g.nul, i >= 3);
            EQ_INT(g.n_bytes, o.s.n);
            tg_all_there(&g, version);
        }
        gguf_close(&g);
        mem_free(own);
        str_drop(&file);
        str_drop(&o.s);
    }
}

/* Files at the edge of what is allowed. */
static void t_gguf_edges(void) {
    static const struct {
        const char *what, *file;
    } rows[] = {
        {"nothing in it", "G3 #0 #0"},
        {"bytes after the end", "G3 #0 #0 z99"},
        {"no tensors", TG_KV1 "'k i4 i1"},
        {"no keys", TG_T1 "'t i1 #4 i0 q0 @32 z16"},
        {"key of 65535 bytes", TG_KV1 "#65535 (65535 \"k ) i4 i1"},
        {"name of 63 bytes", TG_T1 "#63 (63 \"n ) i1 #4 i0 q0 @32 z16"},
        {"key of UTF-8", TG_KV1 "'\xce\xba\xce\xbb\xce\xb5\xce\xaf\xce\xb4\xce\xb9 i4 i1"},
        {"alignment 8", "G3 #2 #1 'general.alignment i4 i8 't i1 #1 i0 q0 'u i1 #1 i0 q8 @8 z12"},
        {"alignment 2^20", TG_ALIGN "i4 i0x100000"},
        {"a gap between tensors", TG_T2 "'t i1 #4 i0 q0 'u i1 #4 i0 q96 @32 z112"},
        {"array that fills the file", TG_KV1 "'k i9 i0 #40 z40"},
        {"a value with NUL and bad UTF-8", TG_KV1 "'k i8 'a\\0\xff"},
        {"v2 token of one NUL", "G2 #0 #1 'k i9 i8 #1 '\\0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str       s = tg_file(rows[i].file);
        gguf_file g;
        err_t     e = {0};
        uint8_t  *own;
        CHECKF(tg_parse(&g, &s, &own, &e), "%s: %s", rows[i].what, e.text);
        gguf_close(&g);
        mem_free(own);
        str_drop(&s);
    }
}

/* A NUL belongs to the text unless the first key shows that this file's writer added one to every string. */
static void t_gguf_nul(void) {
    str            s = tg_file("G2 #0 #1 'k i9 i8 #1 '\\0");
    gguf_file      g;
    err_t          e = {0};
    bytes          b = {0};
    const gguf_kv *kv = NULL;
    if (CHECK(gguf_parse(&g, (uint8_t *)s.p, s.n, "F", &e)) && CHECK(gguf_get_arr(&g, "k", &kv, &e) == 1)) {
        gguf_strs it = gguf_strs_of(&g, kv);
        CHECK(gguf_strs_next(&it, &b) && b.n == 1);
    }
    gguf_close(&g);
    str_drop(&s);
}

/* A valid file that is cut anywhere is not valid. */
static void t_gguf_prefixes(void) {
    for (int version = 1; version <= 3; version++) {
        str  text = {0};
        str_fmt(&text, "G%d%s", version, TG_ALL);
        tg_out o = {.version = version};
        tg_write(&o, text.p, 0);
        for (size_t n = 0; n < o.s.n; n++) {
            str       part = {o.s.p, n, n};
            gguf_file g;
            err_t     e = {0};
            uint8_t  *own;
            CHECKF(!tg_parse(&g, &part, &own, &e), "version %d: %zu of %zu bytes accepted", version, n, o.s.n);
            CHECKF(e.code == EXIT_INPUT && strstr(e.text, ", expected ") && strstr(e.text, "(at byte "), "%zu bytes: \"%s\"", n,
                   e.text);
            gguf_close(&g);
            mem_free(own);
        }
        str_drop(&text);
        str_drop(&o.s);
    }
}

/* Every byte of a valid file inverted, one at a time: the file is refused or read, and nothing crashes. */
static void t_gguf_flips(void) {
    str s = tg_file("G3" TG_ALL);
    for (size_t i = 0; i < s.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            gguf_file g;
            err_t     e = {0};
            uint8_t  *own;
            s.p[i] ^= (char)(1 << bit);
            bool ok = tg_parse(&g, &s, &own, &e);
            CHECKF(ok == !e.code && (ok || strstr(e.text, ", expected ")), "byte %zu bit %d: %s", i, bit, e.text);
            gguf_close(&g);
            mem_free(own);
            s.p[i] ^= (char)(1 << bit);
        }
    str_drop(&s);
}

/* A million keys, many tensors: no lookup scans all of them. */
static void t_gguf_many(void) {
    static const char *const rows[] = {"G3 #0 #1000000 (1000000 % i0 b7 )", "G3 #200000 #0 (200000 % i1 #1 i24 q0 )"};
    for (int i = 0; i < 2; i++) {
        str       s = tg_file(rows[i]);
        gguf_file g;
        err_t     e = {0};
        if (i) {                                      /* tensors of one byte, 32 apart */
            for (uint64_t t = 0; t < 200000; t++) {
                uint64_t at = t * 32;
                memcpy(s.p + 24 + t * 40 + 32, &at, 8);
            }
            while (s.n % 32) str_add(&s, "", 1);
            str_reserve(&s, 200000 * 32);
            memset(s.p + s.n, 0, 200000 * 32);
            s.n += 200000 * 32;
        }
        double start = t_cpu();
        if (CHECKF(gguf_parse(&g, (uint8_t *)s.p, s.n, "F", &e), "%s", e.text)) {
            CHECK(i ? gguf_tensor_find(&g, "00030d3f") != NULL : gguf_find(&g, "000f423f") != NULL);
            CHECK(i ? !gguf_tensor_find(&g, "00030d40") : !gguf_find(&g, "000f4240"));
        }
        CHECKF(t_cpu() - start < 60, "%.3f s", t_cpu() - start);  /* 0.2 s; hours when it looks at all pairs */
        gguf_close(&g);
        str_drop(&s);
    }
}

/* --- typed lookups --- */

#define TG_TYPES "G3 #0 #17 'u8 i0 b200 'i8 i1 b-3 'u16 i2 h60000 'i16 i3 h300 'u32 i4 i4000000000 'i32 i5 i70000 'bool i7 b1 " \
    "'str i8 '12 'u64 i10 q-1 'i64 i11 q0x8000000000000000 'f32 i6 f1.5 'f64 i12 d0.1 'nan i6 fnan 'inf i6 finf " \
    "'big i12 d1e300 'arr i9 i5 #2 i-5 i6 'arrs i9 i8 #1 'x"

static void t_gguf_lookups(void) {
    static const struct {
        const char *key;
        uint64_t    lo, hi;
        int         got;
        uint64_t    is;
        const char *says;
    } ints[] = {
        {"u8", 0, 255, 1, 200, ""},          {"u16", 0, 65535, 1, 60000, ""},       {"i16", 0, 300, 1, 300, ""},
        {"u32", 0, UINT64_MAX, 1, 4000000000u, ""}, {"i32", 70000, 70000, 1, 70000, ""},
        {"u64", 0, UINT64_MAX, 1, UINT64_MAX, ""},
        {"none", 0, 9, 0, 77, ""},
        {"u8", 0, 199, -1, 77, "F: u8 is 200, expected 0 to 199 (at byte "},
        {"u8", 201, 255, -1, 77, "F: u8 is 200, expected 201 to 255 (at byte "},
        {"i8", 0, UINT64_MAX, -1, 77, "F: i8 is -3, expected 0 to 18446744073709551615"},
        {"i64", 0, UINT64_MAX, -1, 77, "F: i64 is -9223372036854775808, expected"},
        {"bool", 0, 1, -1, 77, "F: bool is of type bool, expected an integer"},
        {"str", 0, 99, -1, 77, "F: str is of type string, expected an integer"},
        {"f32", 0, 99, -1, 77, "F: f32 is of type f32, expected an integer"},
        {"arr", 0, 99, -1, 77, "F: arr is of type array of i32, expected an integer"},
    };
    static const struct {
        const char *key;
        float       lo, hi;
        int         got;
        float       is;
        const char *says;
    } floats[] = {
        {"f32", 0, 2, 1, 1.5f, ""},
        {"f64", 0, 2, 1, 0.1f, ""},
        {"inf", 0, INFINITY, 1, INFINITY, ""},
        {"none", 0, 2, 0, 77, ""},
        {"f32", 0, 1, -1, 77, "F: f32 is 1.5, expected 0 to 1 (at byte "},
        {"nan", -INFINITY, INFINITY, -1, 77, "F: nan is nan, expected -inf to inf"},
        {"inf", 0, 1e30f, -1, 77, "F: inf is inf, expected 0 to"},
        {"big", 0, 1e30f, -1, 77, "F: big is inf, expected 0 to"},
        {"u32", 0, 2, -1, 77, "F: u32 is of type u32, expected f32"},
    };
    str       s = tg_file(TG_TYPES);
    gguf_file g;
    err_t     bad = {0};
    uint8_t  *own;
    if (!CHECKF(tg_parse(&g, &s, &own, &bad), "%s", bad.text)) return;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        err_t    e = {0};
        uint64_t v = 77;
        CHECKF(gguf_get_u64(&g, ints[i].key, ints[i].lo, ints[i].hi, &v, &e) == ints[i].got, "row %zu, %s: %s", i, ints[i].key,
               e.text);
        CHECKF(v == ints[i].is, "row %zu, %s: %llu", i, ints[i].key, GGUF_U(v));
        CHECKF(strstr(e.text, ints[i].says) == e.text && (e.code == EXIT_INPUT) == (ints[i].got < 0), "row %zu: \"%s\"", i,
               e.text);
    }
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        err_t e = {0};
        float v = 77;
        CHECKF(gguf_get_f32(&g, floats[i].key, floats[i].lo, floats[i].hi, &v, &e) == floats[i].got, "row %zu, %s: %s", i,
               floats[i].key, e.text);
        CHECKF(v == floats[i].is, "row %zu, %s: %.9g", i, floats[i].key, (double)v);
        CHECKF(strstr(e.text, floats[i].says) == e.text && (e.code == EXIT_INPUT) == (floats[i].got < 0), "row %zu: \"%s\"", i,
               e.text);
    }
    err_t e = {0};
    bool  b = false;
    bytes text = {0};
    CHECK(gguf_get_bool(&g, "u8", &b, &e) == -1 && strstr(e.text, "u8 is of type u8, expected bool"));
    e = (err_t){0};
    CHECK(gguf_get_str(&g, "u8", &text, &e) == -1 && strstr(e.text, "u8 is of type u8, expected a string"));
    e = (err_t){0};
    const gguf_kv *kv = NULL;
    CHECK(gguf_get_arr(&g, "u8", &kv, &e) == -1 && strstr(e.text, "u8 is of type u8, expected an array"));
    CHECK(gguf_get_bool(&g, "none", &b, &e) == 0 && gguf_get_str(&g, "none", &text, &e) == 0 &&
          gguf_get_arr(&g, "none", &kv, &e) == 0);
    uint64_t u = 77;
    kv = gguf_find(&g, "arr");
    CHECK(!gguf_arr_u64(kv, 0, &u) && u == 77 && gguf_arr_u64(kv, 1, &u) && u == 6 && !gguf_arr_u64(kv, 2, &u) &&
          !gguf_arr_u64(kv, UINT64_MAX, &u));
    kv = gguf_find(&g, "u64");
    CHECK(!gguf_arr_u64(kv, 0, &u) && gguf_strs_of(&g, kv).left == 0);
    kv = gguf_find(&g, "arrs");
    CHECK(!gguf_arr_u64(kv, 0, &u) && gguf_strs_of(&g, kv).left == 1);
    gguf_close(&g);
    mem_free(own);
    str_drop(&s);
}

/* --- files on disk --- */

static char tg_dir[64];

static const char *tg_path(const char *name) {
    static char path[4][512];
    static int  turn;
    char       *p = path[turn++ & 3];
    snprintf(p, sizeof path[0], "%s/%s", tg_dir, name);
    return p;
}

static void tg_put(const char *name, const char *text) {
    str   s = tg_file(text);
    FILE *f = fopen(tg_path(name), "wb");
    if (CHECKF(f != NULL, "cannot write %s", tg_path(name))) {
        fwrite(s.p ? s.p : "", 1, s.n, f);
        fclose(f);
    }
    str_drop(&s);
}

static bool tg_dir_new(void) {
    snprintf(tg_dir, sizeof tg_dir, "/tmp/t_gguf.XXXXXX");
    return CHECK(mkdtemp(tg_dir) != NULL);
}

static void tg_dir_drop(const char *const *names) {
    for (; *names; names++) unlink(tg_path(*names));
    CHECK(rmdir(tg_dir) == 0);
}

/* says NULL: must open */
static void tg_open(const char *path, int code, const char *says) {
    gguf_file g;
    err_t     e = {0};
    bool      ok = gguf_open(&g, path, &e);
    CHECKF(ok == !says && e.code == code, "%s: code %d, want %d: %s", path, e.code, code, e.text);
    if (says) CHECKF(strstr(e.text, says) && !strncmp(e.text, path, strlen(path)), "got \"%s\", want \"%s\"", e.text, says);
    gguf_close(&g);
}

#define TG_PART(no, n, all) "'split.no i2 h" #no " 'split.count i2 h" #n " 'split.tensors.count i5 i" #all " "
#define TG_P1 "G3 #1 #4 'k i4 i1 " TG_PART(0, 3, 4) "'a i1 #4 i0 q0 @32 z16"
#define TG_P2 "G3 #2 #3 " TG_PART(1, 3, 4) "'b i1 #4 i0 q0 'c i1 #4 i0 q32 @32 (12 f2 )"
#define TG_P3 "G3 #1 #3 " TG_PART(2, 3, 4) "'d i1 #4 i0 q0 @32 z16"

static const char *const tg_parts[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};

/* The same three valid parts with one thing changed, and the expected error. */
static void t_gguf_split(void) {
    static const struct {
        const char *what;
        int         part;
        const char *file, *says;
    } rows[] = {
        {"part missing", 1, NULL, "m-00002-of-00003.gguf: cannot open: No such file or directory"},
        {"wrong number", 1, "G3 #2 #3 " TG_PART(2, 3, 4) "'b i1 #4 i0 q0 'c i1 #4 i0 q32 @32 z48",
         "m-00002-of-00003.gguf: says it is part 3 of 3, expected part 2 of 3"},
        {"wrong count", 2, "G3 #1 #3 " TG_PART(2, 4, 4) "'d i1 #4 i0 q0 @32 z16",
         "m-00003-of-00003.gguf: says it is part 3 of 4, expected part 3 of 3"},
        {"no split keys", 2, "G3 #1 #0 'd i1 #4 i0 q0 @32 z16",
         "m-00003-of-00003.gguf: says it is part 1 of 1, expected part 3 of 3"},
        {"wrong total", 1, "G3 #2 #3 " TG_PART(1, 3, 5) "'b i1 #4 i0 q0 'c i1 #4 i0 q32 @32 z48",
         "m-00002-of-00003.gguf: says there are 5 tensors in all, expected 4 as in the first part"},
        {"a tensor less", 1, "G3 #1 #3 " TG_PART(1, 3, 4) "'b i1 #4 i0 q0 @32 z16",
         "m-00001-of-00003.gguf: 3 tensors in 3 parts, expected 4 as split.tensors.count says"},
        {"duplicate in another part", 2, "G3 #1 #3 " TG_PART(2, 3, 4) "'a i1 #4 i0 q0 @32 z16",
         "m-00003-of-00003.gguf: tensor a comes twice, expected once (at byte "},
        {"duplicate in one part", 1, "G3 #2 #3 " TG_PART(1, 3, 4) "'b i1 #4 i0 q0 'b i1 #4 i0 q32 @32 z48",
         "m-00002-of-00003.gguf: tensor b comes twice"},
        {"broken part", 2, "\"GGUF",
         "m-00003-of-00003.gguf: 0 bytes are left of the file, expected 4 of the version (at byte 4)"},
        {"count 2^16", 0, "G3 #1 #2 'split.no i2 h0 'split.count i4 i65536 'a i1 #4 i0 q0 @32 z16",
         "m-00001-of-00003.gguf: split.count is 65536, expected 1 to 512 (at byte "},
        {"count 0", 0, "G3 #1 #2 'split.no i2 h0 'split.count i4 i0 'a i1 #4 i0 q0 @32 z16",
         "m-00001-of-00003.gguf: split.count is 0, expected 1 to 512"},
        {"count -1", 0, "G3 #1 #2 'split.no i2 h0 'split.count i5 i-1 'a i1 #4 i0 q0 @32 z16", "split.count is -1, expected"},
        {"count of text", 0, "G3 #1 #2 'split.no i2 h0 'split.count i8 '../3 'a i1 #4 i0 q0 @32 z16",
         "split.count is of type string, expected an integer"},
        {"number past count", 0, "G3 #1 #3 " TG_PART(3, 3, 4) "'a i1 #4 i0 q0 @32 z16", "split.no is 3, expected 0 to 2"},
        {"name says otherwise", 0, "G3 #1 #3 " TG_PART(0, 2, 4) "'a i1 #4 i0 q0 @32 z16",
         "is the first of 2 parts, expected a name that ends in -00001-of-00002.gguf"},
    };
    static const char *const good[] = {TG_P1, TG_P2, TG_P3};
    static const char *const names[] =
        {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf", "other.gguf", NULL};
    if (!tg_dir_new()) return;
    for (int i = 0; i < 3; i++) tg_put(tg_parts[i], good[i]);
    gguf_file g;
    err_t     e = {0};
    if (CHECKF(gguf_open(&g, tg_path(tg_parts[0]), &e), "%s", e.text)) {
        EQ_INT(g.n_parts, 3);
        EQ_INT(g.n_tensor, 4);
        EQ_INT(g.n_kv, 4);
        EQ_INT(g.n_bytes, g.part[0].n + g.part[1].n + g.part[2].n);
        const gguf_tensor *c = gguf_tensor_find(&g, "c"), *d = gguf_tensor_find(&g, "d");
        float              two = 0;
        if (CHECK(c && d && c->part == 1 && d->part == 2)) {
            memcpy(&two, c->data + 12, 4);
            CHECK(two == 2 && c->data == g.part[1].p + c->at);
        }
        CHECK(gguf_alive(&g, &(err_t){0}));
        CHECK(truncate(tg_path(tg_parts[2]), 8) == 0 && !gguf_alive(&g, &(err_t){0}));
    }
    gguf_close(&g);
    tg_open(tg_path(tg_parts[1]), EXIT_INPUT, "is part 2 of 3, expected ");
    tg_put("other.gguf", TG_P2);
    tg_open(tg_path("other.gguf"), EXIT_INPUT, "is part 2 of 3, expected the first one");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int p = 0; p < 3; p++)
            if (p != rows[i].part) tg_put(tg_parts[p], good[p]);
            else if (rows[i].file) tg_put(tg_parts[p], rows[i].file);
            else unlink(tg_path(tg_parts[p]));
        e = (err_t){0};
        bool ok = gguf_open(&g, tg_path(tg_parts[0]), &e);
        CHECKF(!ok && e.code == EXIT_INPUT && strstr(e.text, rows[i].says), "%s: got %d \"%s\", want \"%s\"", rows[i].what,
               e.code, e.text, rows[i].says);
        gguf_close(&g);
    }
    str s = tg_file(TG_P1);
    e = (err_t){0};
    CHECK(!gguf_parse(&g, (uint8_t *)s.p, s.n, "F", &e) && strstr(e.text, "F: is the first of 3 parts, expected all of them"));
    str_drop(&s);
    tg_dir_drop(names);
}

static void t_gguf_not_files(void) {
    static const char *const names[] = {"empty", "pipe", "sparse", "one.gguf", NULL};
    if (!tg_dir_new()) return;
    tg_put("empty", "");
    CHECK(mkfifo(tg_path("pipe"), 0600) == 0);
    tg_put("sparse", "");
    CHECK(truncate(tg_path("sparse"), (off_t)8 << 30) == 0);
    tg_put("one.gguf", "G3 #0 #3 " TG_PART(0, 1, 0));
    tg_open(tg_path("none"), EXIT_INPUT, "cannot open: No such file or directory, expected a readable GGUF file");
    tg_open(tg_dir, EXIT_INPUT, "is a directory, expected a GGUF file");
    tg_open(tg_path("pipe"), EXIT_INPUT, "is a pipe, expected a GGUF file");
    tg_open("/dev/zero", EXIT_INPUT, "is a device, expected a GGUF file");
    tg_open("/dev/null", EXIT_INPUT, "is a device, expected a GGUF file");
    tg_open(tg_path("empty"), EXIT_INPUT, "is empty, expected a GGUF file");
    tg_open(tg_path("sparse"), EXIT_INPUT, "(zeros), expected the magic GGUF (at byte 0)");
    tg_open(tg_path("one.gguf"), 0, NULL);
    if (geteuid() != 0) {
        CHECK(chmod(tg_path("one.gguf"), 0) == 0);
        tg_open(tg_path("one.gguf"), EXIT_INPUT, "cannot open: Permission denied");
    }
    tg_dir_drop(names);
}

/* Of a path that would fill the line only the end is shown, so that the reason fits. */
static void t_gguf_long_path(void) {
    char      label[4000];
    gguf_file g;
    err_t     e = {0};
    memset(label, 'd', sizeof label);
    memcpy(label + sizeof label - 8, "/m.gguf", 8);
    CHECK(!gguf_parse(&g, (const uint8_t *)"GGUF", 4, label, &e));
    CHECKF(!strncmp(e.text, "...ddd", 6) &&
           strstr(e.text, "/m.gguf: 0 bytes are left of the file, expected 4 of the version (at byte 4)"), "%s", e.text);
}

/* How a page of a mapped file is lost, and what reads it. */
enum { TG_CUT = 1, TG_DISK = 2, TG_COPY = 4 };

/* Loses the pages of a tensor and reads them; in a child. A disk that fails is an empty file mapped there. */
static void tg_lose(const char *path, int how) {
    gguf_file   g;
    gguf_writer w;
    err_t       e = {0};
    if (!gguf_open(&g, path, &e)) _exit(99);
    const gguf_tensor *t = gguf_tensor_find(&g, "t");
    uint8_t           *p = (uint8_t *)(uintptr_t)t->data + 65536 - 4096;
    const int          none = memfd_create("none", 0);
    p -= (uintptr_t)p % 4096;
    if (how & TG_CUT && (truncate(path, 0) || gguf_alive(&g, &(err_t){0}))) _exit(96);
    if (how & TG_DISK && (mmap(p, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, none, 0) != p || !gguf_alive(&g, &e))) _exit(95);
    if (!(how & TG_COPY)) _exit(*(volatile const uint8_t *)p ? 97 : 98);
    if (!gguf_write_start(&w, tg_path("copy.gguf"), 32, &g, &e)) _exit(94);
    gguf_write_tensor(&w, t->name, t->type, t->n_dims, t->dim);
    gguf_write_data(&w, t->data, (size_t)t->n_bytes, &e);
    _exit(93);
}

/* A page of a mapped file that cannot be had: one line that tells a shorter file from a disk that fails, exit 3, no temporary
 * file. */
static void t_gguf_sigbus(void) {
    static const char *const names[] = {"lost.gguf", NULL};
    static const char *const why[] = {
        [TG_CUT] = "became shorter while it was mapped, expected it to stay as it was",
        [TG_DISK] = "I/O error while it was read, expected a readable file (at byte 61440)",
    };
    char said[512], want[600];
    if (!tg_dir_new()) return;
    for (int copy = 0; copy <= TG_COPY; copy += TG_COPY)
        for (int how = TG_CUT; how <= TG_DISK; how++) {
            int fd[2], status = 0;
            tg_put("lost.gguf", "G3 #1 #0 't i1 #65536 i24 q0 @32 z65536");
            snprintf(want, sizeof want, "llmrun: %s: %s\n", tg_path("lost.gguf"), why[how]);
            if (!CHECK(pipe(fd) == 0)) return;
            fflush(NULL);
            const pid_t pid = fork();
            if (pid == 0) {
                dup2(fd[1], STDERR_FILENO);
                tg_lose(tg_path("lost.gguf"), how | copy);
            }
            close(fd[1]);
            CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
            const ssize_t n = read(fd[0], said, sizeof said - 1);
            close(fd[0]);
            CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_RESOURCE, "%d: status %x", how | copy, status);
            said[max_i64(n, 0)] = 0;
            EQ_STR(said, want);
        }
    tg_dir_drop(names);                               /* nothing else is there */
}

/* --- files that change while they are used --- */

/* Every byte of an open file from `at` on becomes 0x7f, in place; for at > 0 in the copied pages too, the last of which may hold
 * data. */
static void tg_overwrite(const gguf_file *g, uint64_t at) {
    for (int i = 0; i < g->n_parts; i++) {
        const gguf_part *part = &g->part[i];
        uint8_t         *all = mem_new(part->n, 1), *p = (uint8_t *)(uintptr_t)part->p;
        const int        fd = open(part->path, O_WRONLY);
        memset(all, 0x7f, part->n);
        CHECKF(fd >= 0 && pwrite(fd, all, part->n - at, (off_t)at) == (ssize_t)(part->n - at), "%s", part->path);
        mprotect(p, part->own, PROT_READ | PROT_WRITE);
        if (at && at < part->own) memset(p + at, 0x7f, min_size(part->own, part->n) - (size_t)at);
        mprotect(p, part->own, PROT_READ);
        close(fd);
        mem_free(all);
    }
}

/* Memory that is 0x7f for good after so many reads of it: two pages, of which one at a time can be read. A part of data that
 * spans both is seen to be read again. And floats with pages behind them that nobody may read. */
enum { TG_TRAP_WHEN = 40, TG_TRAP_FENCE = 256 << 10 };
static struct {
    uint8_t *p, *fence;                               /* [2 * page]; [TG_TRAP_FENCE] */
    size_t   page;
    int      reads, when;
    bool     beyond;                                  /* the fence was read */
} tg_trap;

static void tg_trap_fault(int sig, siginfo_t *info, void *context) {
    const uintptr_t at = (uintptr_t)info->si_addr, p = (uintptr_t)tg_trap.p, fence = (uintptr_t)tg_trap.fence;
    const size_t    page = tg_trap.page;
    (void)context;
    if (at >= fence && at < fence + TG_TRAP_FENCE) {
        tg_trap.beyond = mprotect(tg_trap.fence, TG_TRAP_FENCE, PROT_READ) == 0;
        return;
    }
    if (at < p || at >= p + 2 * page) {
        signal(sig, SIG_DFL);                         /* a fault of another kind */
        return;
    }
    if (++tg_trap.reads >= tg_trap.when) {
        mprotect(tg_trap.p, 2 * page, PROT_READ | PROT_WRITE);
        memset(tg_trap.p, 0x7f, 2 * page);
        return;
    }
    mprotect(tg_trap.p, 2 * page, PROT_NONE);
    mprotect(at < p + page ? tg_trap.p : tg_trap.p + page, page, PROT_READ);
}

/* Sets the trap: n bytes, of which `before` stand in the first page, change at read number `when`; *x, one page, has the fence
 * behind it. tg_trap_end() follows. */
static const uint8_t *tg_trap_new(const void *data, size_t n, size_t before, int when, float **x) {
    struct sigaction act = {.sa_sigaction = tg_trap_fault, .sa_flags = SA_SIGINFO};
    const size_t     page = (size_t)sysconf(_SC_PAGESIZE), all = 3 * page + TG_TRAP_FENCE;
    uint8_t         *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(p != MAP_FAILED)) exit(1);
    tg_trap.p = p, tg_trap.page = page, tg_trap.fence = p + 3 * page, tg_trap.when = when, tg_trap.reads = 0, tg_trap.beyond = false;
    memcpy(p + page - before, data, n);
    mprotect(p, 2 * page, PROT_NONE);
    mprotect(tg_trap.fence, TG_TRAP_FENCE, PROT_NONE);
    sigaction(SIGSEGV, &act, NULL);
    if (x) *x = (float *)(void *)(p + 2 * page);
    return p + page - before;
}

static void tg_trap_end(void) {
    signal(SIGSEGV, SIG_DFL);
    munmap(tg_trap.p, 3 * tg_trap.page + TG_TRAP_FENCE);
}

/* An open file is overwritten: keys, names, shapes and strings stay as they were checked, in all parts. Pages that are given back
 * lose nothing of it. */
static void t_gguf_overwritten(void) {
    static const char *const names[] = {"w-00001-of-00002.gguf", "w-00002-of-00002.gguf", NULL};
    static const char first[] = "G3 #2 #6 'n i10 q77 's i8 'text " TG_PART(0, 2, 3) "'list i9 i8 #60000 (60000 % ) "
                                "'a i1 #8192 i0 q0 'c i1 #4 i0 q32768 @32 z32784 @32 ";
    gguf_file g;
    err_t     e = {0};
    bytes     s, t;
    uint64_t  v = 0;
    if (!tg_dir_new()) return;
    str text = tg_file(first);
    tg_put(names[0], first);
    tg_put(names[1], "G3 #1 #3 " TG_PART(1, 2, 3) "'b i2 #2 #2 i0 q0 @32 z16");
    CHECKF(gguf_open(&g, tg_path(names[0]), &e), "%s", e.text);
    CHECK(text.n > 3 * GGUF_HEAD_STEP && g.part[0].own == gguf__pages(text.n - 32784 - 16));   /* not the tensors' data */
    tg_overwrite(&g, 0);
    for (uint64_t i = 0; i < g.n_tensor; i++) gguf_drop_pages(&g, g.tensor[i].data, g.tensor[i].n_bytes);
    EQ_INT(g.n_kv, 6);
    EQ_INT(g.n_tensor, 3);
    CHECK(gguf_get_u64(&g, "n", 0, 100, &v, &e) == 1 && v == 77);
    CHECK(gguf_get_str(&g, "s", &s, &e) == 1 && bytes_is(s, "text"));
    const gguf_tensor *b = gguf_tensor_find(&g, "b");
    CHECK(gguf_tensor_find(&g, "a") && gguf_tensor_find(&g, "c") && b && b->n_dims == 2 && b->part == 1);
    const gguf_kv *kv = gguf_find(&g, "list");
    if (CHECK(kv && kv->count == 60000)) {
        EQ_MEM(kv->data, text.p + (kv->data - g.part[0].p), kv->n_bytes);
        gguf_strs it = gguf_strs_of(&g, kv);
        for (unsigned i = 0; i < 60000 && CHECK(gguf_strs_next(&it, &t)); i++) {
            char want[16];
            snprintf(want, sizeof want, "%08x", i);
            if (!CHECK(bytes_is(t, want))) break;
        }
    }
    gguf_close(&g);
    str_drop(&text);
    tg_dir_drop(names);
}

/* A header that no model has is refused before it fills the memory. */
static void t_gguf_head(void) {
    static const char *const names[] = {"head.gguf", NULL};
    if (!tg_dir_new()) return;
    tg_put("head.gguf", "G3 #0 #1 'k i9 i0 #1000000000 ");
    CHECK(truncate(tg_path("head.gguf"), 1000000100) == 0);
    tg_open(tg_path("head.gguf"), EXIT_INPUT, "keys and directory of more than 268435456 bytes, expected a smaller header");
    tg_put("head.gguf", "G3 #0 #1 'k i9 i8 #40000000 ");
    CHECK(truncate(tg_path("head.gguf"), 1000000100) == 0);
    tg_open(tg_path("head.gguf"), EXIT_INPUT, "keys and directory of more than 268435456 bytes, expected a smaller header");
    tg_dir_drop(names);
}

/* Real files: their content, and the time to open them. Without the shared data, the models in this repository. */
static void t_gguf_real(void) {
    static const struct {
        bool        shared;
        const char *path, *pre;
        uint64_t    n_tokens, n_tensors, embd[2];
        uint32_t    type;
    } files[] = {{true, "data/vocab/llama-bpe.gguf", "llama-bpe", 128256, 0, {0}, 0},
                 {true, "data/stories260K.gguf", NULL, 512, 48, {64, 512}, K_F32},
                 {false, "models/pip-f16.gguf", "qwen2", 3072, 68, {256, 3072}, K_F16}};
    double start = t_cpu();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char    *path = files[i].shared ? t_shared(files[i].path) : files[i].path;
        gguf_file      g;
        err_t          e = {0};
        bytes          s = {0};
        const gguf_kv *kv = NULL;
        if (!path) continue;
        for (int again = 0; again < 5; again++) {
            CHECKF(gguf_open(&g, path, &e), "%s", e.text);
            if (again < 4) gguf_close(&g);
        }
        if (files[i].pre) CHECK(gguf_get_str(&g, "tokenizer.ggml.pre", &s, &e) == 1 && bytes_is(s, files[i].pre));
        if (CHECK(gguf_get_arr(&g, "tokenizer.ggml.tokens", &kv, &e) == 1)) {
            gguf_strs it = gguf_strs_of(&g, kv);
            uint64_t  n = 0;
            while (gguf_strs_next(&it, &s)) n++;
            EQ_INT(n, files[i].n_tokens);
        }
        EQ_INT(g.n_tensor, files[i].n_tensors);
        const gguf_tensor *t = gguf_tensor_find(&g, "token_embd.weight");
        CHECK(!files[i].n_tensors == !t);
        if (t)
            CHECK(t->n_dims == 2 && t->dim[0] == files[i].embd[0] && t->dim[1] == files[i].embd[1] && t->type == files[i].type &&
                  gguf_alive(&g, &(err_t){0}));
        gguf_close(&g);
    }
    CHECKF(t_cpu() - start < 20, "opening took %.1f s of processor time", t_cpu() - start);   /* 5 to 10 ms for each file */
}

static const t_case t_gguf_cases[] = {
    {"gguf/bad",       "every malformed container and tensor is refused with a text and a byte offset", t_gguf_bad},
    {"gguf/good",      "versions 1, 2 and 3 with every type; strings with a final NUL",               t_gguf_good},
    {"gguf/edges",     "files at the limits of what is allowed are read",
     t_gguf_edges},
    {"gguf/nul",       "a NUL in a clean file stays",                                                 t_gguf_nul},
    {"gguf/prefixes",  "no cut file is accepted",                                          t_gguf_prefixes},
    {"gguf/flips",     "one wrong bit is refused or harmless",                                        t_gguf_flips},
    {"gguf/many",      "a million keys, 200,000 tensors: linear time",                                t_gguf_many},
    {"gguf/lookups",   "typed lookups: found, absent, wrong type, out of range",                      t_gguf_lookups},
    {"gguf/split",     "parts are found and checked against each other",                              t_gguf_split},
    {"gguf/not-files", "directory, pipe, device, empty and sparse files get a clear error",                   t_gguf_not_files},
    {"gguf/long-path", "a long path leaves space for the reason",                                    t_gguf_long_path},
    {"gguf/sigbus",    "a page that cannot be had: one line tells a shorter file from a failed disk, exit 3",                  t_gguf_sigbus},
    {"gguf/overwritten", "keys, names, shapes and strings of an open file stay, whatever is written to it", t_gguf_overwritten},
    {"gguf/head",      "a header of more than 256 MiB is refused",                                    t_gguf_head},
    {"gguf/real",      "a real vocabulary and a real model",                                          t_gguf_real},
};
static const t_suite t_gguf_suite = SUITE(t_gguf_cases);
