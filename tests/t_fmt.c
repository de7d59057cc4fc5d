/* [fmt] [conv] [unpack] [ref] [types] of ggml_kernels.h, against golden data that gen/golden_blocks.py makes
 * with the `gguf` package and gen/golden_ik.py with ik_llama.cpp, and against slow formulas written here. */
#include "program.h"
#include "check.h"
#include <fenv.h>
#include <float.h>

#define FMT_GOLDEN "tests/data/golden/"

/* Reads a golden file. Its first line is the command that made it; *n gets the number of bytes after it. */
static uint8_t *fmt__golden(const char *name, char **whole, size_t *n) {
    char path[256];
    snprintf(path, sizeof path, FMT_GOLDEN "%s", name);
    *whole = t_read(path, n);
    char *line = *whole ? memchr(*whole, '\n', *n) : NULL;
    if (!CHECKF(line != NULL, "%s is missing; make it with tests/gen/golden_blocks.py", path)) return NULL;
    *n -= (size_t)(line + 1 - *whole);
    return (uint8_t *)line + 1;
}

static bool fmt__is_quant(int id) {
    return k_types[id].kind == K_KIND_INT || k_types[id].kind == K_KIND_SCALE;
}

/* Zeros of IQ3_KT have no sign there: a program may negate them or the others. */
static void fmt__plain_zeros(int id, float *x, int64_t n) {
    for (int64_t i = 0; id == K_IQ3_KT && i < n; i++) x[i] += 0.0f;
}

/* Golden data holds denormals; a thread that computes flushes them. This test does not: fesetenv ends it. */
static fenv_t fmt__denormals(void) {
    fenv_t was;
    fegetenv(&was);
    fesetenv(FE_DFL_ENV);
    return was;
}

static void t_fmt_golden(void) {
    fenv_t env = fmt__denormals();
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!fmt__is_quant(id)) continue;
        const k_type *t = &k_types[id];
        char          name[64], *whole;
        size_t        n;
        snprintf(name, sizeof name, "fmt_%s.bin", t->name);
        uint8_t     *p = fmt__golden(name, &whole, &n);
        const size_t row = k_row_bytes((uint32_t)id, t->block), weights = 6 * (size_t)t->block;
        if (p && EQ_INT(n, 6 * row + weights * 4)) {
            float *got = mem_new(weights + 1, sizeof *got);
            got[weights] = 77;
            for (int b = 0; b < 6; b++) t->dequant(p + (size_t)b * row, got + b * t->block, t->block);
            CHECKF(got[weights] == 77, "%s: wrote beyond the row", t->name);
            fmt__plain_zeros(id, got, (int64_t)weights);
            for (int b = 0; b < 6; b++) {
                const uint8_t *want = p + 6 * row + (size_t)(b * t->block) * 4;
                bool           same = memcmp(got + b * t->block, want, (size_t)t->block * 4) == 0;
                CHECKF(same, "%s: golden block %d differs", t->name, b);
            }
            mem_free(got);
        }
        mem_free(whole);
    }
    fesetenv(&env);
}

/* The finaliser of splitmix64, as in gen/golden_blocks.py. */
static uint64_t fmt__mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint8_t *fmt__random(uint64_t seed, size_t n) {
    uint64_t *p = mem_new((n + 7) / 8, 8);
    for (size_t i = 0; i < (n + 7) / 8; i++) p[i] = fmt__mix((seed << 32) + i);
    return (uint8_t *)p;
}

static uint64_t fmt__checksum(const float *x, int64_t n) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        if ((bits & 0x7fffffff) > 0x7f800000) bits = 0x7fc00000;
        sum += fmt__mix((uint64_t)i << 32 | bits);
    }
    return sum;
}

/* The sums of a file. Returns their number. */
static int fmt__check_sums(const char *file) {
    char *whole, *line;
    int   seen = 0;
    line = (char *)fmt__golden(file, &whole, &(size_t){0});
    for (; line && *line; line = strchr(line, '\n') + 1) {
        char               name[32];
        unsigned long long seed, weights, sum;
        bool               read = sscanf(line, "%31s %llu %llu %llx", name, &seed, &weights, &sum) == 4;
        if (!CHECKF(read, "bad line: %.60s", line)) break;
        int id = k_type_by_name(name);
        if (!CHECKF(id >= 0, "%s is not a type", name)) continue;
        uint8_t *src = fmt__random(seed, k_row_bytes((uint32_t)id, (int64_t)weights));
        float   *got = mem_new(weights, sizeof *got);
        k_types[id].dequant(src, got, (int64_t)weights);
        fmt__plain_zeros(id, got, (int64_t)weights);
        CHECKF(fmt__checksum(got, (int64_t)weights) == sum, "%s: random bytes mean something else", name);
        seen++;
        mem_free(src);
        mem_free(got);
    }
    mem_free(whole);
    return seen;
}

static void t_fmt_sums(void) {
    fenv_t env = fmt__denormals();
    int    want = 0;
    for (int id = 0; id < K_TYPE_MAX; id++) want += fmt__is_quant(id);
    EQ_INT(fmt__check_sums("fmt_sums.txt") + fmt__check_sums("fmt_sums_ik.txt"), want);
    fesetenv(&env);
}

/* --- unpack --- */

enum { FMT_ROW = 1024, FMT_PAD = 16 };

/* A row's arrays, each with a guard after the length that k_urow allots it. */
typedef struct {
    int8_t  q[FMT_ROW + FMT_PAD];
    int16_t sc[FMT_ROW / 16 + FMT_PAD], mn[FMT_ROW / 16 + FMT_PAD];
    float   d[FMT_ROW / 256 + FMT_PAD], dm[FMT_ROW / 256 + FMT_PAD];
    float   fs[FMT_ROW / 16 + FMT_PAD], fm[FMT_ROW / 16 + FMT_PAD];
} fmt_row;

static double fmt__weight(const k_type *t, const fmt_row *r, int i) {
    int g = i / 16, s = t->kind == K_KIND_SCALE ? i / t->group : 0;
    if (t->kind == K_KIND_SCALE) return (double)r->fs[s] * r->q[i] + (t->has_min ? (double)r->fm[s] : 0);
    return (double)r->d[i / 256] * r->sc[g] * r->q[i] - (t->has_min ? (double)r->dm[i / 256] * r->mn[g] : 0);
}

static bool fmt__untouched(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)p)[i] != 0x5a) return false;
    return true;
}
#define FMT_KEPT(a, from)                                                         \
    CHECKF(fmt__untouched((a) + (from), sizeof(a) - (size_t)(from) * sizeof *(a)), \
           "%s: wrote %s beyond %d", t->name, #a, (int)(from))

/* Arrays that the kind does not use stay as they were, the others within their length for n weights. */
static void fmt__check_extent(const k_type *t, const fmt_row *r, int n) {
    bool whole = t->kind == K_KIND_INT, min = t->has_min;
    int  groups = whole ? 0 : n / t->group;
    FMT_KEPT(r->q, n);
    FMT_KEPT(r->sc, whole ? n / 16 : 0);
    FMT_KEPT(r->d, whole ? n / 256 : 0);
    FMT_KEPT(r->mn, whole && min ? n / 16 : 0);
    FMT_KEPT(r->dm, whole && min ? n / 256 : 0);
    FMT_KEPT(r->fs, groups);
    FMT_KEPT(r->fm, min ? groups : 0);
}

/* 256 weights of blocks; a scale in front of their row would be 1. */
static void fmt__blocks(const k_type *t, const uint8_t *src, float *to) {
    uint8_t        row[4 + 512];
    const uint32_t id = (uint32_t)(t - k_types);
    const int      front = k__row_front(id);
    const float    one = 1;
    const uint16_t half = 0x3c00;
    memcpy(row, front == 2 ? (const void *)&half : (const void *)&one, 4 - (front == 2) * 2);
    memcpy(row + front, src, (size_t)(256 / t->block) * t->bytes);
    t->dequant(row, to, 256);
}

/* Blocks of random bytes whose weights are all finite, each 256 weights long. */
static int fmt__finite_rows(const k_type *t, uint8_t *src, float *want, int rows) {
    size_t row = (size_t)(256 / t->block) * t->bytes;
    int    kept = 0;
    for (int i = 0; i < rows; i++) {
        bool ok = true;
        memmove(src + (size_t)kept * row, src + (size_t)i * row, row);
        fmt__blocks(t, src + (size_t)kept * row, want + 256 * kept);
        for (int j = 0; j < 256; j++) ok = ok && isfinite(want[256 * kept + j]);
        kept += ok;
    }
    return kept;
}

/* Rows of 1 to 4 super-blocks at an odd address: exact algebra, and nothing outside what the kind uses. */
static void t_fmt_unpack(void) {
    fenv_t env = fmt__denormals();
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!fmt__is_quant(id)) continue;
        const k_type *t = &k_types[id];
        size_t        row = (size_t)(256 / t->block) * t->bytes;
        uint8_t      *src = fmt__random(7 + (uint64_t)id, 64 * row), odd[4 * 512 + 1];
        static float  want[64 * 256];
        int           rows = fmt__finite_rows(t, src, want, 64);
        if (!CHECKF(rows >= 24, "%s: only %d finite rows", t->name, rows)) rows = 0;
        for (int at = 0, k; at < rows; at += k) {
            k = rows - at < at % 4 + 1 ? rows - at : at % 4 + 1;
            memcpy(odd + 1, src + (size_t)at * row, (size_t)k * row);
            fmt_row r;
            memset(&r, 0x5a, sizeof r);
            k_urow u = {r.q, r.sc, r.mn, r.d, r.dm, r.fs, r.fm};
            t->unpack(odd + 1, 256 * k, &u);
            fmt__check_extent(t, &r, 256 * k);
            for (int b = 0; b < k; b++) {
                double top = 0;
                for (int j = 0; j < 256; j++) top = fmax(top, fabs((double)want[256 * (at + b) + j]));
                for (int j = 0; j < 256; j++)
                    if (!NEAR(fmt__weight(t, &r, 256 * b + j), (double)want[256 * (at + b) + j], 1e-6 * top)) {
                        CHECKF(false, "%s: weight %d of row %d", t->name, j, at + b);
                        break;
                    }
            }
        }
        mem_free(src);
    }
    fesetenv(&env);
}

/* --- conversions --- */

/* A binary float of e exponent and m mantissa bits, from its definition. */
static double fmt__by_hand(unsigned bits, int e_bits, int m_bits, int bias) {
    int      e = (int)(bits >> m_bits) & ((1 << e_bits) - 1);
    unsigned m = bits & ((1u << m_bits) - 1);
    double   mag = e ? ldexp(1 + ldexp(m, -m_bits), e - bias) : ldexp(m, 1 - bias - m_bits);
    return bits >> (e_bits + m_bits) & 1 ? -mag : mag;
}

static uint32_t fmt__bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static float    fmt__float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

static void t_fmt_f16_all(void) {
    fenv_t env = fmt__denormals();
    for (unsigned h = 0; h < 65536; h++) {
        float    f = k_f16_to_f32((uint16_t)h);
        uint16_t back = k_f32_to_f16(f);
        bool     special = (h & 0x7c00) == 0x7c00, nan = special && (h & 0x3ff);
        double   want = special ? (h & 0x8000 ? -INFINITY : INFINITY) : fmt__by_hand(h, 5, 10, 15);
        uint32_t quiet = 0x7fc00000 | (h & 0x3ff) << 13;
        CHECKF(nan ? (fmt__bits(f) & 0x7fffffff) == quiet : (double)f == want, "%04x: %.9g", h, (double)f);
        CHECKF(!signbit(f) == !(h & 0x8000), "%04x: sign", h);
        CHECKF(back == (nan ? (h | 0x200) : h), "%04x: back %04x", h, back);
    }
    fesetenv(&env);
}

static void t_fmt_bf16_all(void) {
    fenv_t env = fmt__denormals();
    for (unsigned h = 0; h < 65536; h++) {
        float    f = k_bf16_to_f32((uint16_t)h);
        uint16_t back = k_f32_to_bf16(f);
        bool     nan = (h & 0x7fff) > 0x7f80;
        CHECKF(fmt__bits(f) == h << 16, "%04x: %08x", h, fmt__bits(f));
        CHECKF(back == (nan ? (h | 0x40) : h), "%04x: back %04x", h, back);
        if ((h & 0x7f80) == 0x7f80) continue;
        CHECKF((double)f == fmt__by_hand(h, 8, 7, 127), "%04x: %.9g", h, (double)f);
    }
    fesetenv(&env);
}

/* Between every two neighbours: a tie rounds to the even code, the next float to either side rounds to that side. */
static void fmt__check_ties(uint16_t (*narrow)(float), float (*widen)(uint16_t), unsigned largest,
                            double first_inf) {
    for (unsigned h = 0; h <= largest; h++) {
        double lo = widen((uint16_t)h), hi = widen((uint16_t)(h + 1));
        float  tie = (float)(h < largest ? (lo + hi) / 2 : first_inf);
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1.0f : 1.0f;
            CHECKF(narrow(s * tie) == (sign | (h + (h & 1))), "tie above %04x: %04x", h, narrow(s * tie));
            CHECKF(narrow(s * nextafterf(tie, 0)) == (sign | h), "below the tie above %04x", h);
            CHECKF(narrow(s * nextafterf(tie, INFINITY)) == (sign | (h + 1)), "above the tie above %04x", h);
        }
    }
}

static uint16_t fmt__to_f16(float f) { return k_f32_to_f16(f); }
static uint16_t fmt__to_bf16(float f) { return k_f32_to_bf16(f); }
static float    fmt__of_f16(uint16_t h) { return k_f16_to_f32(h); }
static float    fmt__of_bf16(uint16_t h) { return k_bf16_to_f32(h); }

static void t_fmt_ties(void) {
    fenv_t env = fmt__denormals();
    fmt__check_ties(fmt__to_f16, fmt__of_f16, 0x7bff, 65520.0f);
    fmt__check_ties(fmt__to_bf16, fmt__of_bf16, 0x7f7f, fmt__float(0x7f7f8000));
    EQ_INT(k_f32_to_f16(FLT_MAX), 0x7c00);
    EQ_INT(k_f32_to_f16(-INFINITY), 0xfc00);
    EQ_INT(k_f32_to_f16(FLT_TRUE_MIN), 0);
    EQ_INT(k_f32_to_f16(fmt__float(0xff800001)), 0xfe00);   /* a NaN whose upper bits are clear stays one */
    EQ_INT(k_f32_to_f16(fmt__float(0x7fd55fff)), 0x7eaa);
    EQ_INT(k_f32_to_bf16(fmt__float(0xff800001)), 0xffc0);
    EQ_INT(k_f32_to_bf16(fmt__float(0x7fffffff)), 0x7fff);
    EQ_INT(k_f32_to_bf16(FLT_MAX), 0x7f80);
    fesetenv(&env);
}

static void t_fmt_fp8(void) {
    fenv_t env = fmt__denormals();
    for (unsigned x = 0; x < 256; x++) {
        double e8m0 = k_e8m0_half((uint8_t)x), e4m3 = k_ue4m3_half((uint8_t)x);
        CHECKF(e8m0 == ldexp(1, (int)x - 128), "e8m0 %02x: %g", x, e8m0);
        CHECKF(e4m3 == (x == 0x7f ? 0 : fmt__by_hand(x & 0x7f, 4, 3, 7) / 2), "ue4m3 %02x: %g", x, e4m3);
    }
    fesetenv(&env);
}

/* --- quantise --- */

static void t_fmt_quant(void) {
    fenv_t env = fmt__denormals();
    char    *whole, *out_whole;
    size_t   n, n_out;
    int      seen = 0;
    uint8_t *p = fmt__golden("fmt_quant.bin", &whole, &n);
    float   *x = mem_new(n, 1);
    if (p) memcpy(x, p, n);
    for (int id = 0; p && id < K_TYPE_MAX; id++) {
        const k_type *t = &k_types[id];
        if (!t->quant || id == K_F32) continue;
        char name[64];
        snprintf(name, sizeof name, "fmt_quant_%s.bin", t->name);
        uint8_t *want = fmt__golden(name, &out_whole, &n_out);
        uint8_t *got = mem_new(n_out + 1, 1);
        got[n_out] = 77;
        if (want && EQ_INT(n_out, k_row_bytes((uint32_t)id, (int64_t)(n / 4)))) {
            t->quant(x, got, (int64_t)(n / 4));
            CHECKF(got[n_out] == 77, "%s: wrote beyond the row", t->name);
            for (size_t i = 0; i < n_out / t->bytes; i++)
                CHECKF(memcmp(got + i * t->bytes, want + i * t->bytes, t->bytes) == 0,
                       "%s: block %zu differs", t->name, i);
            seen++;
        }
        mem_free(got);
        mem_free(out_whole);
    }
    EQ_INT(seen, 7);
    mem_free(x);
    mem_free(whole);
    fesetenv(&env);
}

/* One bad value in a block of ones: a NaN is as a zero, an infinity shows in the scale. A block of values
 * so small that its scale has no inverse gets the codes of ones. */
static void t_fmt_quant_bad(void) {
    fenv_t env = fmt__denormals();
    float x[32], y[32], z[32];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        const k_type *t = &k_types[id];
        if (!t->quant || t->kind == K_KIND_FLOAT) continue;
        uint8_t a[40] = {0}, b[40] = {0};
        for (int j = 0; j < 32; j++) x[j] = j % 3 ? 1 : -1;
        memcpy(y, x, sizeof x);
        x[5] = NAN, y[5] = 0;
        t->quant(x, a, 32), t->quant(y, b, 32);
        if (!t->has_min) CHECKF(memcmp(a, b, sizeof a) == 0, "%s: NaN is not as zero", t->name);
        x[5] = id % 2 ? INFINITY : -INFINITY;
        t->quant(x, a, 32);
        t->dequant(a, z, 32);
        CHECKF(!isfinite(z[5]), "%s: infinity became %g", t->name, (double)z[5]);
        for (int j = 0; j < 32; j++) x[j] = j % 2 ? 1e-38f : -1e-38f, y[j] = j % 2 ? 1 : -1;
        t->quant(x, a, 32), t->quant(y, b, 32);
        size_t at = t->has_min ? 4 : 2;
        CHECKF(memcmp(a + at, b + at, t->bytes - at) == 0, "%s: codes of tiny values", t->name);
        CHECKF(a[0] == 0 && (a[1] & 0x7f) == 0, "%s: scale of tiny values", t->name);
    }
    fesetenv(&env);
}

static void t_fmt_plain(void) {
    uint8_t  raw[1 + 8 * 4];
    float    got[4];
    int8_t   i8[4] = {0, -128, 127, 3};
    int16_t  i16[4] = {0, -32768, 32767, 3};
    int32_t  i32[4] = {0, INT32_MIN, INT32_MAX, 16777217};           /* 2^24 + 1 rounds to even */
    int64_t  i64[4] = {0, INT64_MIN, INT64_MAX, -3};
    double   f64[4] = {0.1, -1e-300, 65504, -3};
    float    w32[4] = {0, -2147483648.0f, 2147483648.0f, 16777216.0f};
    struct { int id; const void *in; size_t n; float want[4]; } rows[] = {
        {K_I8, i8, sizeof i8, {0, -128, 127, 3}}, {K_I16, i16, sizeof i16, {0, -32768, 32767, 3}},
        {K_I32, i32, sizeof i32, {w32[0], w32[1], w32[2], w32[3]}},
        {K_I64, i64, sizeof i64, {0, -0x1p63f, 0x1p63f, -3}},
        {K_F64, f64, sizeof f64, {0.1f, -0.0f, 65504, -3}},
        {K_F32, w32, sizeof w32, {w32[0], w32[1], w32[2], w32[3]}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        memcpy(raw + 1, rows[r].in, rows[r].n);
        k_types[rows[r].id].dequant(raw + 1, got, 4);
        EQ_MEM(got, rows[r].want, sizeof got);
    }
}

static void t_fmt_acts(void) {
    static block_q8_1 q81[2];
    static block_q8_K q8k[2];
    static float      out[512];
    for (int j = 0; j < 512; j++) q8k[j / 256].qs[j % 256] = (int8_t)(j % 251 - 125);
    for (int j = 0; j < 64; j++) q81[j / 32].qs[j % 32] = (int8_t)(2 * j - 64);
    for (int b = 0; b < 2; b++) q81[b].d = b ? 0xb800 : 0x3400, q8k[b].d = b ? -0.5f : 0.25f;
    k_types[K_Q8_K].dequant(q8k, out, 512);
    for (int j = 0; j < 512; j++) NEAR(out[j], q8k[j / 256].d * (j % 251 - 125), 0);
    k_types[K_Q8_1].dequant(q81, out, 64);
    for (int j = 0; j < 64; j++) NEAR(out[j], (j < 32 ? 0.25f : -0.5f) * (float)(2 * j - 64), 0);
}

/* --- the table --- */

/* Ids, blocks and sizes as published, written down apart from the header. */
static const struct { int id, block, bytes; const char *name; } fmt__published[] = {
    {0, 1, 4, "F32"}, {1, 1, 2, "F16"}, {2, 32, 18, "Q4_0"}, {3, 32, 20, "Q4_1"},
    {6, 32, 22, "Q5_0"}, {7, 32, 24, "Q5_1"}, {8, 32, 34, "Q8_0"}, {9, 32, 36, "Q8_1"},
    {10, 256, 84, "Q2_K"}, {11, 256, 110, "Q3_K"}, {12, 256, 144, "Q4_K"}, {13, 256, 176, "Q5_K"},
    {14, 256, 210, "Q6_K"}, {15, 256, 292, "Q8_K"}, {16, 256, 66, "IQ2_XXS"}, {17, 256, 74, "IQ2_XS"},
    {18, 256, 98, "IQ3_XXS"}, {19, 256, 50, "IQ1_S"}, {20, 32, 18, "IQ4_NL"}, {21, 256, 110, "IQ3_S"},
    {22, 256, 82, "IQ2_S"}, {23, 256, 136, "IQ4_XS"}, {24, 1, 1, "I8"}, {25, 1, 2, "I16"},
    {26, 1, 4, "I32"}, {27, 1, 8, "I64"}, {28, 1, 8, "F64"}, {29, 256, 56, "IQ1_M"},
    {30, 1, 2, "BF16"}, {34, 256, 54, "TQ1_0"}, {35, 256, 66, "TQ2_0"}, {39, 32, 17, "MXFP4"},
    {40, 64, 36, "NVFP4"}, {41, 128, 18, "Q1_0"}, {42, 64, 18, "Q2_0"},
    {36, 128, 32, "I2_S"}, {133, 32, 26, "Q6_0"}, {137, 256, 76, "IQ2_K"}, {138, 256, 110, "IQ3_K"}, {139, 256, 144, "IQ4_K"},
    {140, 256, 176, "IQ5_K"}, {141, 256, 212, "IQ6_K"}, {144, 256, 136, "IQ4_KS"}, {145, 256, 70, "IQ2_KS"},
    {146, 256, 128, "IQ4_KSS"}, {152, 256, 168, "IQ5_KS"}, {153, 256, 68, "IQ2_KT"}, {154, 256, 100, "IQ3_KT"},
    {155, 256, 128, "IQ4_KT"}, {156, 256, 102, "IQ3_KS"}, {157, 256, 86, "IQ2_KL"}, {158, 256, 56, "IQ1_KT"},
};
enum { FMT_LAST_GGML = 42 };                          /* each id up to it is a type or was one */

static void t_fmt_types(void) {
    int live = 0;
    for (size_t i = 0; i < sizeof fmt__published / sizeof *fmt__published; i++) {
        int id = fmt__published[i].id;
        EQ_INT(k_type_by_name(fmt__published[i].name), id);
        EQ_INT(k_types[id].block, fmt__published[i].block);
        EQ_INT(k_types[id].bytes, fmt__published[i].bytes);
    }
    for (int id = 0; id < K_TYPE_MAX; id++) {
        const k_type *t = &k_types[id];
        bool          quant = fmt__is_quant(id);
        CHECKF((t->name && t->name[0]) || (id > FMT_LAST_GGML && !k_type_ok((uint32_t)id)), "id %d has no name", id);
        if (!t->name) continue;
        for (int other = 0; other < id; other++)
            CHECKF(!k_types[other].name || strcasecmp(t->name, k_types[other].name), "%s twice", t->name);
        EQ_INT(k_type_by_name(t->name), k_type_ok((uint32_t)id) ? id : -1);
        if (k_type_ok((uint32_t)id)) {
            live++;
            CHECKF(t->block && t->bytes && t->dequant, "%s is not whole", t->name);
            CHECKF(!quant == !t->unpack, "%s: unpack", t->name);
            if (t->kind == K_KIND_SCALE) CHECKF(t->group == 16 || t->group == 32, "%s: group", t->name);
            else EQ_INT(t->group, 0);
            EQ_INT(k_type_weight((uint32_t)id), quant || t->kind == K_KIND_FLOAT);
        } else {
            CHECKF(!t->block && !t->dequant && !t->unpack, "%s is removed", t->name);
            CHECK(!k_type_weight((uint32_t)id));
        }
    }
    EQ_INT(live, sizeof fmt__published / sizeof *fmt__published);
    EQ_INT(k_type_by_name("q9_9"), -1);
    EQ_INT(k_type_by_name(""), -1);
    CHECK(!k_type_ok(K_TYPE_MAX) && !k_type_ok(UINT32_MAX) && !k_type_weight(K_TYPE_MAX));
    CHECK(!k_type_weight(K_Q8_1) && !k_type_weight(K_Q8_K) && !k_type_weight(K_I32) && k_type_weight(K_BF16));
}

static void t_fmt_foreign(void) {
    const struct { uint32_t id; const char *name; } known[] = {
        {97, "q8_0_x4"}, {134, "iq1_bn"}, {202, "q4_0_r8"}, {339, "iq4_k_r4"}, {399, "q8_K_r8"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *name = k_type_foreign(known[i].id);
        EQ_STR(name ? name : "none", known[i].name);
    }
    for (uint32_t id = 0; id < 1000; id++) CHECKF(!k_type_foreign(id) || !k_type_ok(id), "%u is ours", id);
    CHECK(!k_type_foreign(400) && !k_type_foreign(K_TYPE_MAX) && !k_type_foreign(UINT32_MAX));
}

/* Parts of a row are those of the whole. */
static void t_fmt_parts(void) {
    static float whole[1024], part[1024];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!k_type_weight((uint32_t)id)) continue;
        uint8_t *row = fmt__random(400 + (uint64_t)id, k_row_bytes((uint32_t)id, 1024));
        k_types[id].dequant(row, whole, 1024);
        for (int at = 0; at < 1024; at += 256) k_dequant_part((uint32_t)id, row, at, part + at, 256);
        CHECKF(!memcmp(part, whole, sizeof part), "%s: parts differ", k_types[id].name);
        mem_free(row);
    }
}

static void t_fmt_row_bytes(void) {
    EQ_INT(k_row_bytes(K_Q4_K, 4096), 16 * 144);
    EQ_INT(k_row_bytes(K_IQ4_KS, 512), 4 + 2 * 136);  /* a scale in front of the row */
    EQ_INT(k_row_bytes(K_IQ2_KL, 256), 2 + 86);
    EQ_INT(k_row_bytes(K_IQ4_KS, 0), 0);
    EQ_INT(k_row_bytes(K_Q8_0, 0), 0);
    EQ_INT(k_row_bytes(K_Q8_0, 33), 0);
    EQ_INT(k_row_bytes(K_Q8_0, -32), 0);
    EQ_INT(k_row_bytes(4, 32), 0);
    EQ_INT(k_row_bytes(99, 32), 0);
    EQ_INT(k_row_bytes(K_F64, INT64_MAX), 0);
    CHECK(k_row_bytes(K_I16, INT64_MAX) == (size_t)INT64_MAX * 2);
}

static const t_case t_fmt_cases[] = {
    {"fmt_golden",    "every format dequantises its golden blocks to the bit",                 t_fmt_golden},
    {"fmt_sums",      "half a million weights of random bytes per format mean what gguf says", t_fmt_sums},
    {"fmt_parts",     "parts of a row mean what the whole row says",                           t_fmt_parts},
    {"fmt_unpack",    "codes and scales are the weights, at odd addresses, in bounds",         t_fmt_unpack},
    {"fmt_f16_all",   "all 65536 f16 widen by definition and come back",                       t_fmt_f16_all},
    {"fmt_bf16_all",  "all 65536 bf16 widen by definition and come back",                      t_fmt_bf16_all},
    {"fmt_ties",      "narrowing rounds to nearest, ties to even, between all neighbours",     t_fmt_ties},
    {"fmt_fp8",       "all 256 codes of both 8-bit scales",                                    t_fmt_fp8},
    {"fmt_quant",     "quantising gives the golden bytes",                                     t_fmt_quant},
    {"fmt_quant_bad", "NaN, infinity and tiny scales are defined",                             t_fmt_quant_bad},
    {"fmt_plain",     "integers and F64 read as floats",                                       t_fmt_plain},
    {"fmt_acts",      "the activation formats read as floats",                                 t_fmt_acts},
    {"fmt_types",     "the table of formats agrees with the published one and with itself",    t_fmt_types},
    {"fmt_foreign",   "private ids have names and none is a live one",                         t_fmt_foreign},
    {"fmt_row_bytes", "row sizes, 0 for what cannot be",                                       t_fmt_row_bytes},
};
static const t_suite t_fmt_suite = SUITE(t_fmt_cases);
