/* ===== [fit] weights to blocks, scales searched =====
 * [ref] takes a scale from the extreme values of a block. Here scales are searched: blocks get a small error sum w*(x - x^)^2.
 * Eight trials run in parallel: each rounds the weights to codes and solves for the scale (and minimum) with the least error for
 * these codes. In a super-block the f16 scales and the small integers depend on each other. For some
 * pairs of f16 scales every group tries the integers near its own best line, with the error of the
 * stored values; least squares over all groups proposes the next pair, and the best one is kept.
 *
 * Every machine writes the same bytes: four-lane arithmetic in plain GNU C, no fused multiply-adds. A block
 * is scaled by a power of two first, so that its largest weight is in [1, 2) and no sum of squares overflows
 * or underflows. A scale that f16 cannot hold becomes the largest f16. Weights are finite; importances w are
 * finite and not negative. NULL means that all are equal, as in a block where none exceeds 1e-30.
 * Searches have a form for the vectors of a CPU level, [fit_lanes]; those that end with _ref are the scalar ones.
 * Public: k_fitters[id].fit, k_fitters[id].recode. */

typedef float   k__v4 __attribute__((vector_size(16)));
typedef int32_t k__m4 __attribute__((vector_size(16)));
typedef union { k__v4 v[2]; float f[8]; } k__v8;         /* eight trials */

static inline k__v4 k__v4_all(float f) { return (k__v4){f, f, f, f}; }

static inline k__v4 k__v4_pick(k__m4 yes, k__v4 a, k__v4 b) {
    return (k__v4)(((k__m4)a & yes) | ((k__m4)b & ~yes));
}

/* a < b ? a : b and a > b ? a : b. The SSE intrinsics are there because gcc does not always find these instructions. */
#if K__X86
static inline k__v4 k__v4_min(k__v4 a, k__v4 b) { return (k__v4)_mm_min_ps((__m128)a, (__m128)b); }
static inline k__v4 k__v4_max(k__v4 a, k__v4 b) { return (k__v4)_mm_max_ps((__m128)a, (__m128)b); }
#else
static inline k__v4 k__v4_min(k__v4 a, k__v4 b) { return k__v4_pick(a < b, a, b); }
static inline k__v4 k__v4_max(k__v4 a, k__v4 b) { return k__v4_pick(a > b, a, b); }
#endif

static inline k__v4 k__v4_at(const float *p) { k__v4 v; memcpy(&v, p, sizeof v); return v; }
static inline float k__v4_sum(k__v4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
static inline k__v4 k__v4_if(k__m4 mask, k__v4 v) { return (k__v4)((k__m4)v & mask); }
static inline k__v4 k__v4_abs(k__v4 v) { return (k__v4)((k__m4)v & 0x7fffffff); }

/* Nearest integer, ties to even; |v| below 2^22. */
static inline k__v4 k__v4_round(k__v4 v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

/* (v + K_FIT_ROUND) - K_FIT_ROUND is the nearest integer, ties to even, for |v| < 2^22. */
#define K_FIT_ROUND 12582912.f
/* A later line must be better than the first by more than rounding, so that equal groups get equal lines. */
#define K_FIT_TIE   1.000001f
#define K_FIT_TINY  1e-30f                               /* smaller divisors count as zero */

static inline float k__fit_inverse(float d) { return fabsf(d) > K_FIT_TINY ? 1 / d : 0; }

static inline k__v8 k__fit_inverses(const k__v8 *d) {
    k__v8 r;
    for (int h = 0; h < 2; h++) {
        k__v4 v = d->v[h];
        k__m4 some = (v > K_FIT_TINY) | (v < -K_FIT_TINY);
        r.v[h] = k__v4_pick(some, 1 / k__v4_pick(some, v, k__v4_all(1)), k__v4_all(0));
    }
    return r;
}

/* Sums over the codes q of eight trials: w*q, w*q*q, w*x*q. */
typedef struct { k__v8 q, qq, xq; } k__code_sums;

/* q = (x - off) * inv, rounded and limited to lo..hi. off NULL: no offset, and the inlined code has none. */
static inline __attribute__((always_inline)) void k__sum_codes(const float *x, const float *w, int n,
                                                               const k__v8 *inv, const k__v8 *off, float lo,
                                                               float hi, k__code_sums *s) {
    k__v4 q[2] = {{0}}, qq[2] = {{0}}, xq[2] = {{0}}, lo4 = k__v4_all(lo), hi4 = k__v4_all(hi);
    for (int j = 0; j < n; j++)
        for (int h = 0; h < 2; h++) {
            k__v4 v = (off ? x[j] - off->v[h] : k__v4_all(x[j])) * inv->v[h];
            v = k__v4_min(k__v4_max(v, lo4), hi4) + K_FIT_ROUND - K_FIT_ROUND;
            k__v4 wv = v * w[j];
            if (off) q[h] += wv;
            qq[h] += wv * v;
            xq[h] += wv * x[j];
        }
    memcpy(&s->q, q, sizeof q);
    memcpy(&s->qq, qq, sizeof qq);
    memcpy(&s->xq, xq, sizeof xq);
}

/* sum w*(x - d*q - off)^2 of the same codes. Computed directly: from the sums above it would cancel where a fit is nearly
 * exact. */
static inline void k__sum_errors(const float *x, const float *w, int n, const k__v8 *d, const k__v8 *off,
                                 float lo, float hi, k__v8 *err) {
    k__v8 inv = k__fit_inverses(d);
    k__v4 e[2] = {{0}}, lo4 = k__v4_all(lo), hi4 = k__v4_all(hi);
    for (int j = 0; j < n; j++)
        for (int h = 0; h < 2; h++) {
            k__v4 v = x[j] - off->v[h], q = v * inv.v[h];
            q = k__v4_min(k__v4_max(q, lo4), hi4) + K_FIT_ROUND - K_FIT_ROUND;
            v = v - q * d->v[h];
            e[h] += v * v * w[j];
        }
    memcpy(err, e, sizeof e);
}

/* The same codes of one trial, stored. */
static inline void k__fit_codes(const float *x, int n, float d, float off, float lo, float hi, int8_t *q) {
    float inv = k__fit_inverse(d);
    for (int j = 0; j < n; j++) {
        float v = (x[j] - off) * inv;
        v = v > lo ? v : lo;
        v = v < hi ? v : hi;
        q[j] = (int8_t)(v + K_FIT_ROUND - K_FIT_ROUND);
    }
}

/* --- a block scaled by a power of two, with its importances --- */

typedef struct {
    float  x[256], w[256];                               /* w at most 1 */
    double up, down;                                     /* 2^e and 2^-e: the weights are x * up */
    bool   even;                                         /* all importances are 1 */
} k__scaled;

/* False where all weights are too small for any f16 scale: zeros are the best block. */
static bool k__scaled_load(k__scaled *b, const float *x, const float *w, int n) {
    float top = 0, most = 0;
    k__v4 tops = k__v4_all(0);
    for (int j = 0; j < n; j += 4) tops = k__v4_max(k__v4_abs(k__v4_at(x + j)), tops);
    for (int l = 0; l < 4; l++) top = tops[l] > top ? tops[l] : top;
    if (top < 0x1p-25f) return false;
    for (int j = 0; w && j < n; j++) most = w[j] > most ? w[j] : most;
    int e = (int)(k__bits_of(top) >> 23) - 127;
    if (e > 126) e = 126;                                /* 2^-127 is a denormal */
    b->up = k__f32_of((uint32_t)(e + 127) << 23);
    b->down = k__f32_of((uint32_t)(127 - e) << 23);
    for (int j = 0; j < n; j++) b->x[j] = x[j] * (float)b->down;
    /* No importance becomes 0: the codes of unimportant weights should still be close to them. */
    float share = most > K_FIT_TINY ? 1 / most : 0;
    b->even = !(share > 0);
    for (int j = 0; j < n; j++) b->w[j] = b->even ? 1 : w[j] * share + 1e-9f;
    return true;
}

/* The finite f16 nearest to a scale of the scaled block; its value there; the same for eight trials. */
static uint16_t k__scaled_half(const k__scaled *b, float d) {
    double v = d * b->up;
    return k_f32_to_f16((float)(v > 65504 ? 65504 : v < -65504 ? -65504 : v));
}

static float k__scaled_round(const k__scaled *b, float d) {
    return (float)(k_f16_to_f32(k__scaled_half(b, d)) * b->down);
}

static void k__scaled_rounds(const k__scaled *b, k__v8 *d) {
    for (int l = 0; l < 8; l++) d->f[l] = k__scaled_round(b, d->f[l]);
}

/* --- one scale --- */

/* Weights with an importance above this one are in the range of the codes at first. Where others lie outside it, the search is
 * made a second time with all in range: of many weights that matter little, each outside, the error can be the larger part. */
static float k__fit_least(const float *w, int n) {
    float sum = 0;
    for (int j = 0; j < n; j++) sum += w[j];
    return sum * 1e-3f / (float)n;
}

/* The value of largest magnitude, of those that matter and of all. How many of the two a search has to try: 0 where all are
 * zero, 1 where they are equal. */
static int k__fit_extremes(const float *x, const float *w, int n, float ext[2]) {
    float least = k__fit_least(w, n);
    ext[0] = ext[1] = 0;
    for (int j = 0; j < n; j++) {
        if (fabsf(x[j]) > fabsf(ext[1])) ext[1] = x[j];
        if (w[j] > least && fabsf(x[j]) > fabsf(ext[0])) ext[0] = x[j];
    }
    if (ext[0] == 0) ext[0] = ext[1];
    return ext[1] == 0 ? 0 : ext[0] == ext[1] ? 1 : 2;
}

/* Eight trial scales, t in [0, 1): with six of them the extreme value gets about the code `far`, with two about `close`. */
static inline void k__try_scales(float far, float close, float ext, float t, k__v8 *inv) {
    static const float more[8] = {-1.0f, -0.6f, -0.2f, 0.2f, 0.6f, 1.0f, -0.5f, 0.3f};
    for (int l = 0; l < 8; l++) {
        float end = l < 6 ? far : close, add = more[l] + (l < 6 ? 0.4f : 0.8f) * t;
        inv->f[l] = (end + (end < 0 ? -add : add)) / ext;
    }
}

/* The best scale of each lane in `rounds` rounds, any float, and its gain: how much less the error is than with zeros. */
static inline void k__rough_scales(const float *x, const float *w, int n, float lo, float hi, float ext,
                                   int rounds, k__v8 *scale, k__v8 *gain) {
    k__v8   inv;
    k__code_sums s;
    memset(scale, 0, sizeof *scale);
    memset(gain, 0, sizeof *gain);
    for (int t = 0; t < rounds; t++) {
        k__try_scales(lo < 0 ? lo : hi, hi, ext, (float)t / (float)rounds, &inv);
        k__sum_codes(x, w, n, &inv, NULL, lo, hi, &s);
        for (int h = 0; h < 2; h++) {
            k__v4 d = s.xq.v[h] / k__v4_max(s.qq.v[h], k__v4_all(K_FIT_TINY)), g = d * s.xq.v[h];
            k__m4 better = g > gain->v[h] * K_FIT_TIE;
            gain->v[h] = k__v4_pick(better, g, gain->v[h]);
            scale->v[h] = k__v4_pick(better, d, scale->v[h]);
        }
    }
}

/* The scale with the least error for n values and codes lo..hi. ext: the extreme values that k__fit_extremes() has found, whose
 * first `ends` are tried. b: an f16 scale of that block; NULL: any float. */
static float k__fit_scale(const float *x, const float *w, int n, const float ext[2], int ends, float lo, float hi, int rounds,
                          const k__scaled *b) {
    static const k__v8 none = {.f = {0}};
    float              best = 0, least = FLT_MAX;
    k__v8              scale, gain, inv, err;
    k__code_sums       s;
    for (int i = 0; i < ends; i++) {
        k__rough_scales(x, w, n, lo, hi, ext[i], rounds, &scale, &gain);
        for (int t = 0;; t++) {
            if (b) k__scaled_rounds(b, &scale);
            k__sum_errors(x, w, n, &scale, &none, lo, hi, &err);
            for (int l = 0; l < 8; l++)
                if (err.f[l] < least) least = err.f[l], best = scale.f[l];
            if (t == 1) break;
            inv = k__fit_inverses(&scale);
            k__sum_codes(x, w, n, &inv, NULL, lo, hi, &s);
            for (int h = 0; h < 2; h++) scale.v[h] = s.xq.v[h] / k__v4_max(s.qq.v[h], k__v4_all(K_FIT_TINY));
        }
    }
    return best;
}

/* --- one line: a scale and a minimum --- */

typedef struct {
    float sw, sx;                                        /* sums of w and of w*x */
    float lo[2], hi[2];                                  /* extremes of the x that matter, and of all */
    float s, m;                                          /* the line s*q + m */
    float c;                                             /* the mean of the codes q */
} k__group;

static void k__group_load(k__group *u, const float *x, const float *w, int n) {
    float least = k__fit_least(w, n);
    *u = (k__group){.lo = {FLT_MAX, FLT_MAX}, .hi = {-FLT_MAX, -FLT_MAX}};
    for (int j = 0; j < n; j++) {
        u->sw += w[j];
        u->sx += w[j] * x[j];
        for (int i = w[j] > least ? 0 : 1; i < 2; i++) {
            u->lo[i] = x[j] < u->lo[i] ? x[j] : u->lo[i];
            u->hi[i] = x[j] > u->hi[i] ? x[j] : u->hi[i];
        }
    }
}

/* How many of its two ranges a search has to try. */
static int k__group_ranges(const k__group *u) {
    return u->lo[0] == u->lo[1] && u->hi[0] == u->hi[1] ? 1 : 2;
}

typedef struct { k__v8 scale, min, gain; } k__lines;

/* The lines of least error for the codes of eight trials, and their gain over
 * zeros. sign 1: the minimum is not above zero, -1: not below, 0: any. */
static inline void k__solve_lines(const k__code_sums *s, float sw, float sx, float sign, k__lines *o) {
    k__v4 tiny = k__v4_all(K_FIT_TINY), zero = k__v4_all(0);
    for (int h = 0; h < 2; h++) {
        k__v4 q = s->q.v[h], qq = s->qq.v[h], xq = s->xq.v[h], det = sw * qq - q * q;
        k__m4 flat = det <= 1e-6f * sw * qq;             /* all codes are equal: the minimum alone */
        k__v4 a = k__v4_pick(flat, zero, (sw * xq - sx * q) / k__v4_max(det, tiny)), m = (sx - a * q) / sw;
        k__m4 wrong = m * sign > 0;
        a = k__v4_pick(wrong, k__v4_max(xq / k__v4_max(qq, tiny), zero), a);
        m = k__v4_pick(wrong, zero, m);
        o->scale.v[h] = a;
        o->min.v[h] = m;
        o->gain.v[h] = a * (2 * xq - a * qq - 2 * m * q) + m * (2 * sx - m * sw);
    }
}

/* The best line of each lane for codes 0..top. A trial puts the least weight of a range at code a and the
 * largest at top + b, for a grid of `rows` values of a and eight of b; every line is solved twice. */
static inline void k__rough_lines(const float *x, const float *w, int n, float top, float sign, int rows,
                                  const k__group *u, int which, k__lines *best) {
    static const float b[8] = {-0.9f, -0.65f, -0.4f, -0.15f, 0.1f, 0.35f, 0.6f, 0.85f};
    float              lo = u->lo[which] * sign > 0 ? 0 : u->lo[which], range = u->hi[which] - lo;
    k__v8              inv;
    k__code_sums            s;
    k__lines           now;
    memset(best, 0, sizeof *best);
    for (int h = 0; h < 2 && !(range > 0); h++) {        /* all values are equal: the minimum alone */
        best->min.v[h] = k__v4_all(lo);
        best->gain.v[h] = k__v4_all(lo * (2 * u->sx - lo * u->sw));
    }
    for (int t = 0; t < rows && range > 0; t++) {
        float a = (float)t / (float)(rows - 1) - 0.5f;
        for (int l = 0; l < 8; l++) {
            inv.f[l] = (top + b[l] - a) / range;
            now.min.f[l] = lo - a / inv.f[l];
        }
        for (int i = 0; i < 2; i++) {
            if (i) inv = k__fit_inverses(&now.scale);
            k__sum_codes(x, w, n, &inv, &now.min, 0, top, &s);
            k__solve_lines(&s, u->sw, u->sx, sign, &now);
        }
        for (int h = 0; h < 2; h++) {
            k__m4 better = now.gain.v[h] > best->gain.v[h] * K_FIT_TIE;
            best->gain.v[h] = k__v4_pick(better, now.gain.v[h], best->gain.v[h]);
            best->scale.v[h] = k__v4_pick(better, now.scale.v[h], best->scale.v[h]);
            best->min.v[h] = k__v4_pick(better, now.min.v[h], best->min.v[h]);
        }
    }
}

/* --- plain blocks of 32 --- */

/* The codes lo..hi of a format, whether blocks have a minimum (then lo is 0), and how many rounds of eight trials there are. */
typedef struct {
    float lo, hi;
    bool  min;
    int   rounds;
} k__plain;

static uint16_t k__fit_plain_scale(const k__plain *p, const float *x, const float *w, int8_t q[32]) {
    k__scaled b;
    float     ext[2];
    memset(q, 0, 32);
    if (!k__scaled_load(&b, x, w, 32)) return 0;
    const int ends = k__fit_extremes(b.x, b.w, 32, ext);
    float     d = k__fit_scale(b.x, b.w, 32, ext, ends, p->lo, p->hi, p->rounds, &b);
    k__fit_codes(b.x, 32, d, 0, p->lo, p->hi, q);
    return k__scaled_half(&b, d);
}

static void k__fit_plain_line(const k__plain *p, const float *x, const float *w, uint16_t *hd, uint16_t *hm, int8_t q[32]) {
    k__scaled b;
    k__group u;
    k__lines line;
    k__v8    inv, err;
    k__code_sums  s;
    float    least = FLT_MAX, d = 0, m = 0;
    memset(q, 0, 32);
    *hd = *hm = 0;
    if (!k__scaled_load(&b, x, w, 32)) return;
    k__group_load(&u, b.x, b.w, 32);
    for (int i = 0; i < k__group_ranges(&u); i++) {
        k__rough_lines(b.x, b.w, 32, p->hi, 0, p->rounds, &u, i, &line);
        for (int l = 0; l < 8; l++)
            if (line.gain.f[l] <= 0) line.min.f[l] = u.sx / u.sw;
        for (int t = 0;; t++) {
            k__scaled_rounds(&b, &line.scale);
            k__scaled_rounds(&b, &line.min);
            k__sum_errors(b.x, b.w, 32, &line.scale, &line.min, 0, p->hi, &err);
            for (int l = 0; l < 8; l++)
                if (err.f[l] < least) least = err.f[l], d = line.scale.f[l], m = line.min.f[l];
            if (t == 1) break;
            inv = k__fit_inverses(&line.scale);
            k__sum_codes(b.x, b.w, 32, &inv, &line.min, 0, p->hi, &s);
            k__solve_lines(&s, u.sw, u.sx, 0, &line);
        }
    }
    *hd = k__scaled_half(&b, d);
    *hm = k__scaled_half(&b, m);
    k__fit_codes(b.x, 32, d, m, 0, p->hi, q);
}

/* Fits n blocks: their f16 scales d, minima m where the format has them, and codes q. */
static void k__fit_plain_ref(const k__plain *p, const float *x, const float *w, int n, uint16_t *d, uint16_t *m, int8_t *q) {
    for (int i = 0; i < n; i++, x += 32, w += w ? 32 : 0, q += 32)
        if (p->min) k__fit_plain_line(p, x, w, &d[i], &m[i], q);
        else d[i] = k__fit_plain_scale(p, x, w, q);
}

/* --- super-blocks --- */

/* The ranges of a kind of super-block, and the effort of the search. */
typedef struct {
    float lo, hi;                                        /* codes */
    float sc_lo, sc_hi;                                  /* integer scales; minima: 0..sc_hi */
    int   group;                                         /* weights of a group */
    bool  min;                                           /* whether groups have minima */
    int   starts, batches;                               /* pairs of f16 scales, batches of trials for each */
    int   rounds, polish, again;                         /* the same for the pairs that least squares proposes */
    int   minima;                                        /* per scale, in the last batches: 4 or 8 */
} k__super;

enum { K_FIT_COMMON = 4 };                               /* rounds of trials for a scale of all groups */

/* A finished super-block. */
typedef struct {
    uint16_t d, dmin;                                    /* f16 */
    int16_t  sc[16], mn[16];                             /* integers of each group */
    int8_t   q[256];                                     /* codes */
} k__fitted;

/* The best trial of each lane: its gain over zeros, its integers, the sums of its codes. */
typedef struct { k__v8 gain, sc, mn; k__code_sums sum; } k__trials;

/* One of them: q, qq and xq are those of k__code_sums. */
typedef struct { float gain, sc, mn, q, qq, xq; } k__place;

static inline void k__keep_trials(k__trials *best, const k__trials *now) {
    const k__v4 *from = (const k__v4 *)(const void *)now;
    k__v4       *to = (k__v4 *)(void *)best;
    for (int h = 0; h < 2; h++) {
        k__m4 better = from[h] > to[h];
        for (size_t i = (size_t)h; i < sizeof *best / sizeof *to; i += 2)
            to[i] = k__v4_pick(better, from[i], to[i]);
    }
}

static inline k__place k__best_place(const k__trials *p) {
    int l = 0;
    for (int i = 1; i < 8; i++)
        if (p->gain.f[i] > p->gain.f[l]) l = i;
    return (k__place){p->gain.f[l], p->sc.f[l], p->mn.f[l], p->sum.q.f[l], p->sum.qq.f[l], p->sum.xq.f[l]};
}

/* Distances to the nearest integers, in rising magnitude. */
static const k__v4 k__around[8] = {
    {0, 1, -1, 2},   {-2, 3, -3, 4},     {-4, 5, -5, 6},     {-6, 7, -7, 8},
    {-8, 9, -9, 10}, {-10, 11, -11, 12}, {-12, 13, -13, 14}, {-14, 15, -15, 16},
};

/* The best integer scale of a group near u->s/d. With two batches or more, of the other sign too. */
static k__place k__place_scale(const k__super *p, const float *x, const float *w, float d, const k__group *u,
                               int batches) {
    k__trials best, now;
    k__v8     step, inv;
    float     mid = floorf(u->s * k__fit_inverse(d));
    memset(&now, 0, sizeof now);
    for (int t = 0; t < (batches > 1 ? 2 * batches : 1); t++) {
        for (int h = 0; h < 2; h++) {
            k__v4 k = (t < batches ? mid : -mid) + k__around[t % batches * 2 + h];
            now.sc.v[h] = k__v4_min(k__v4_max(k, k__v4_all(p->sc_lo)), k__v4_all(p->sc_hi));
            step.v[h] = d * now.sc.v[h];
        }
        inv = k__fit_inverses(&step);
        k__sum_codes(x, w, p->group, &inv, NULL, p->lo, p->hi, &now.sum);
        for (int h = 0; h < 2; h++)
            now.gain.v[h] = step.v[h] * (2 * now.sum.xq.v[h] - step.v[h] * now.sum.qq.v[h]);
        if (t == 0) best = now;
        else k__keep_trials(&best, &now);
    }
    return k__best_place(&best);
}

/* The best integer scale and minimum near the line of a group. The best minimum
 * changes with the scale, so that the line keeps its value at the mean code. */
static k__place k__place_line(const k__super *p, const float *x, const float *w, float d, float dm,
                              const k__group *u, int batches, int minima) {
    k__trials best, now;
    k__v8     step, min, inv;
    float     mid = floorf(u->s * k__fit_inverse(d)), idm = k__fit_inverse(dm);
    for (int t = 0; t < batches; t++) {
        for (int h = 0; h < 2; h++) {
            int   i = minima == 8 ? t : 2 * t + h;
            float k = mid + k__around[i / 4][i % 4];
            k = k < 0 ? 0 : k > p->sc_hi ? p->sc_hi : k;
            float at = floorf((u->c * (d * k - u->s) - u->m) * idm);
            k__v4 mn = at + k__around[minima == 8 ? h : 0];
            now.sc.v[h] = k__v4_all(k);
            now.mn.v[h] = k__v4_min(k__v4_max(mn, k__v4_all(0)), k__v4_all(p->sc_hi));
            step.v[h] = d * now.sc.v[h];
            min.v[h] = -dm * now.mn.v[h];
        }
        inv = k__fit_inverses(&step);
        k__sum_codes(x, w, p->group, &inv, &min, 0, p->hi, &now.sum);
        for (int h = 0; h < 2; h++) {
            k__v4 a = step.v[h], m = min.v[h], q = now.sum.q.v[h], qq = now.sum.qq.v[h], xq = now.sum.xq.v[h];
            now.gain.v[h] = a * (2 * xq - a * qq - 2 * m * q) + m * (2 * u->sx - m * u->sw);
        }
        if (t == 0) best = now;
        else k__keep_trials(&best, &now);
    }
    return k__best_place(&best);
}

/* The line of least error for the codes of a group. */
static void k__refit_line(k__group *u, const k__place *at, float sign) {
    float det = u->sw * at->qq - at->q * at->q;
    if (det <= 1e-6f * u->sw * at->qq) return;
    u->s = (u->sw * at->xq - u->sx * at->q) / det;
    u->m = (u->sx - u->s * at->q) / u->sw;
    if (u->m * sign > 0) u->m = 0, u->s = at->xq / at->qq;
    if (u->s < 0) u->s = 0;
    u->c = at->q / u->sw;
}

/* The lines of the groups of a super-block: s*q + m, and the mean of the codes. */
typedef struct { float s[16], m[16], c[16]; } __attribute__((aligned(64))) k__slopes;

/* What every group gets: k__place by columns. */
typedef struct { float gain[16], sc[16], mn[16], q[16], qq[16], xq[16]; } __attribute__((aligned(64))) k__places;

/* A search in a super-block. sign: see k__solve_lines. */
typedef struct {
    float           sw[16], sx[16];                      /* sums of w and of w*x of each group */
    float           x[512], w[512];                      /* for [fit_lanes]: values and importances by lane */
    const k__scaled *b;
    const k__super *p;
    float           sign;
} __attribute__((aligned(64))) k__search;

/* A choice for a super-block. */
typedef struct {
    float    d, dm;                                      /* f16 scales */
    float    gain;                                       /* over zeros */
    float    next_d, next_dm;                            /* the pair that least squares proposes next */
    k__places at;                                        /* integers of each group */
    k__slopes u;                                         /* the groups with these */
} k__settled;

/* The best integers of all groups near their lines, which become those of least error for the codes. */
static void k__fit_place_one(const k__search *k, float d, float dm, int batches, int minima, k__slopes *lines, k__places *all) {
    const k__super *p = k->p;
    for (int g = 0; g < 256 / p->group; g++) {
        const float *x = k->b->x + p->group * g, *w = k->b->w + p->group * g;
        k__group     u = {.sw = k->sw[g], .sx = k->sx[g], .s = lines->s[g], .m = lines->m[g], .c = lines->c[g]};
        k__place     at = p->min ? k__place_line(p, x, w, d, dm, &u, batches, minima) : k__place_scale(p, x, w, d, &u, batches);
        if (p->min) k__refit_line(&u, &at, k->sign);
        else if (at.qq > 0) u.s = at.xq / at.qq;
        lines->s[g] = u.s, lines->m[g] = u.m, lines->c[g] = u.c;
        all->gain[g] = at.gain, all->sc[g] = at.sc, all->mn[g] = at.mn, all->q[g] = at.q, all->qq[g] = at.qq, all->xq[g] = at.xq;
    }
}

/* The same for n choices, at most two, with their scales d and dm. */
static void k__fit_place_ref(const k__search *k, int n, int batches, int minima, k__settled *const *s) {
    for (int i = 0; i < n; i++) k__fit_place_one(k, s[i]->d, s[i]->dm, batches, minima, &s[i]->u, &s[i]->at);
}

/* sum w*(x - s*q - m)^2 of a group. */
static float k__line_error(const k__super *p, const float *x, const float *w, float s, float m) {
    int8_t q[32];
    float  e = 0;
    k__fit_codes(x, p->group, s, m, p->lo, p->hi, q);
    for (int j = 0; j < p->group; j++) {
        float v = x[j] - m - s * (float)q[j];
        e += v * v * w[j];
    }
    return e;
}

/* The best line of a group with any float as scale, and how much its error depends on the scale. */
static void k__rough_group(const k__super *p, const float *x, const float *w, float sign, k__group *u, float *weight) {
    k__lines  line;
    float     ext[2], least = FLT_MAX;
    const int ends = k__fit_extremes(x, w, p->group, ext);
    k__group_load(u, x, w, p->group);
    *weight = p->min ? u->sw : 0;
    for (int i = 0; i < (p->min ? k__group_ranges(u) : ends); i++) {
        int l = 0;
        memset(&line, 0, sizeof line);
        if (p->min) k__rough_lines(x, w, p->group, p->hi, sign, 3, u, i, &line);
        else k__rough_scales(x, w, p->group, p->lo, p->hi, ext[i], 2, &line.scale, &line.gain);
        for (int k = 1; k < 8; k++)
            if (line.gain.f[k] > line.gain.f[l] * K_FIT_TIE) l = k;
        float error = k__line_error(p, x, w, line.scale.f[l], line.min.f[l]), inv = k__fit_inverse(line.scale.f[l]);
        if (error >= least) continue;
        least = error;
        u->s = line.scale.f[l];
        u->m = line.min.f[l];
        u->c = (u->sx / u->sw - u->m) * inv;
        if (!p->min) *weight = line.gain.f[l] * inv * inv;
    }
}

/* The same of all groups. */
static void k__fit_rough_ref(k__search *k, k__slopes *lines, float *weight) {
    const k__super *p = k->p;
    k__group        u;
    for (int g = 0; g < 256 / p->group; g++) {
        k__rough_group(p, k->b->x + p->group * g, k->b->w + p->group * g, k->sign, &u, &weight[g]);
        k->sw[g] = u.sw, k->sx[g] = u.sx;
        lines->s[g] = u.s, lines->m[g] = u.m, lines->c[g] = u.c;
    }
}

/* What codes q give of values x with importances w: b = sum w*x*q, c = sum w*q*q; see [fit_grid]. */
typedef struct { float b, c; } k__fg_sums;

/* Integers that a group may have: first + step*l for l = 0..count-1. */
typedef struct { int first, step, count; } k__fg_ints;

static void k__fg_iq4_scales_ref(const float *x, const float *w, int n, float *s, k__fg_sums *t);
static void k__fg_iq4_sums_ref(const float *x, const float *w, const float s[2][8], int n, k__fg_sums t[2][8]);
static void k__fg_iq4_codes_ref(const float *x, const float s[8], int8_t *q);
static float k__fg_common_ref(const k__fg_ints *ints, int groups, const float *s, const k__fg_sums *t);

/* The scale of least error for the scales of all groups and, with p->min, for their minima, as integers; ext: their extremes. */
static void k__fit_common_ref(const k__super *p, const float v[2][16], const float *weight, const float ext[2][2], float out[2]) {
    for (int i = 0; i < 1 + p->min; i++) {
        const int ends = ext[i][1] == 0 ? 0 : ext[i][0] == ext[i][1] ? 1 : 2;
        out[i] = k__fit_scale(v[i], weight, 256 / p->group, ext[i], ends, i ? 0 : p->sc_lo, p->sc_hi, K_FIT_COMMON, NULL);
    }
}

/* The searches for the vectors of a CPU level, with the same bits. */
typedef struct {
    unsigned needs;                                      /* K_CPU_ bits of the level */
    void (*plain)(const k__plain *p, const float *x, const float *w, int n, uint16_t *d, uint16_t *m, int8_t *q);
    void (*iq4)(const float *x, const float *w, int n, float *s, k__fg_sums *t);
    void (*rough)(k__search *k, k__slopes *lines, float *weight);
    void (*place)(const k__search *k, int n, int batches, int minima, k__settled *const *s);
    void (*common)(const k__super *p, const float v[2][16], const float *weight, const float ext[2][2], float out[2]);
    void (*iq4_sums)(const float *x, const float *w, const float s[2][8], int n, k__fg_sums t[2][8]);
    void (*iq4_codes)(const float *x, const float s[8], int8_t *q);
    float (*grid_common)(const k__fg_ints *ints, int groups, const float *s, const k__fg_sums *t);
} k__fit_form;

#if K__X86
#define K__FIT_FORM(target, l)                                                                                                  \
    target void k__fl_plain_##l(const k__plain *p, const float *x, const float *w, int n, uint16_t *d, uint16_t *m, int8_t *q); \
    target void k__fl_iq4_scales_##l(const float *x, const float *w, int n, float *s, k__fg_sums *t);                           \
    target void k__fl_rough_groups_##l(k__search *k, k__slopes *lines, float *weight);                                          \
    target void k__fl_place_groups_##l(const k__search *k, int n, int batches, int minima, k__settled *const *s);               \
    target void k__fl_common_##l(const k__super *p, const float v[2][16], const float *weight, const float ext[2][2],           \
                                 float out[2]);                                                                                 \
    target void k__fl_iq4_groups_##l(const float *x, const float *w, const float s[2][8], int n, k__fg_sums t[2][8]);           \
    target void k__fl_iq4_codes_##l(const float *x, const float s[8], int8_t *q);                                               \
    target float k__fl_grid_common_##l(const k__fg_ints *ints, int groups, const float *s, const k__fg_sums *t);
K__FIT_FORM(K__AVX2, avx2)
K__FIT_FORM(K__512, avx512)
#endif

static const k__fit_form k__fit_forms[] = {
#if K__X86
    {K_CPU_AVX512, k__fl_plain_avx512, k__fl_iq4_scales_avx512, k__fl_rough_groups_avx512, k__fl_place_groups_avx512,
     k__fl_common_avx512, k__fl_iq4_groups_avx512, k__fl_iq4_codes_avx512, k__fl_grid_common_avx512},
    {K_CPU_AVX2, k__fl_plain_avx2, k__fl_iq4_scales_avx2, k__fl_rough_groups_avx2, k__fl_place_groups_avx2,
     k__fl_common_avx2, k__fl_iq4_groups_avx2, k__fl_iq4_codes_avx2, k__fl_grid_common_avx2},
#endif
    {0, k__fit_plain_ref, k__fg_iq4_scales_ref, k__fit_rough_ref, k__fit_place_ref, k__fit_common_ref, k__fg_iq4_sums_ref,
     k__fg_iq4_codes_ref, k__fg_common_ref},
};

static const k__fit_form *k__fit_form_of_level(void) {
    const k__fit_form *f = k__fit_forms;
    while ((g_k_level->needs & f->needs) != f->needs) f++;
    return f;
}

/* What a choice with these integers gains, and the pair that least squares proposes. */
static void k__settle_one(const k__search *k, k__settled *s) {
    float dd = 0, dm2 = 0, mm = 0, xd = 0, xm = 0;
    s->next_d = s->d, s->next_dm = s->dm;
    s->gain = 0;
    for (int g = 0; g < 256 / k->p->group; g++) {
        const k__places *at = &s->at;
        s->gain += at->gain[g];
        dd += at->sc[g] * at->sc[g] * at->qq[g];
        dm2 -= at->sc[g] * at->mn[g] * at->q[g];
        mm += at->mn[g] * at->mn[g] * k->sw[g];
        xd += at->sc[g] * at->xq[g];
        xm -= at->mn[g] * k->sx[g];
    }
    float det = dd * mm - dm2 * dm2;
    if (det > 1e-6f * dd * mm) {
        s->next_d = (xd * mm - xm * dm2) / det;
        s->next_dm = (xm * dd - xd * dm2) / det;
    } else if (dd > 0) {
        s->next_d = xd / dd;
    }
    if (k->p->min && s->next_d < 0) s->next_d = 0;
}

/* Settles n choices, at most two, whose scales d and dm become the nearest f16. */
static void k__settle(const k__search *k, const k__fit_form *form, int n, int batches, int minima, k__settled *const *s) {
    for (int i = 0; i < n; i++) s[i]->d = k__scaled_round(k->b, s[i]->d), s[i]->dm = k__scaled_round(k->b, s[i]->dm);
    form->place(k, n, batches, minima, s);
    for (int i = 0; i < n; i++) k__settle_one(k, s[i]);
}

/* Whether some groups are much larger than the others. Then clipping them can reduce the error. */
static bool k__scales_uneven(const float *s, int n) {
    float sum = 0, most = 0;
    for (int i = 0; i < n; i++) {
        sum += fabsf(s[i]);
        most = fabsf(s[i]) > most ? fabsf(s[i]) : most;
    }
    return sum < 0.5f * most * (float)n;
}

enum { K_FIT_LADDER = 30 };                              /* additional starts for an uneven block */

/* Start t: f16 scales as multiples of the pair of least error for the lines of all groups; 0: the pair that gives the
 * largest line the largest integer. The additional starts go down from there, with different steps for d and dm. */
static void k__start(const k__super *p, int t, float *d, float *dm) {
    static const float near[8][2] = {{1, 1},     {0, 0},         {0, 1},     {1, 0},
                                     {0.95f, 1}, {1.05f, 1.04f}, {1, 1.05f}, {1, 0.95f}};
    bool first = t < p->starts;
    int  rung = t - p->starts;
    *d = first ? near[t][0] : 1;
    *dm = first ? near[t][1] : 1;
    for (int i = 0; !first && i < (p->min ? rung / 6 : rung + 1); i++) *d *= p->min ? 0.75f : 0.955f;
    for (int i = 0; !first && i < rung % 6; i++) *dm *= 0.65f;
}

static inline void k__settled_swap(k__settled **a, k__settled **b) {
    k__settled *t = *a;
    *a = *b;
    *b = t;
}

/* What a search of f16 scales starts from: pairs d, dmin. */
typedef struct {
    float fit[2];                                        /* starts are multiples of this one */
    float top[2];                                        /* no line of a group that matters is clipped */
    float all[2];                                        /* no line is clipped */
    int   starts;                                        /* how many are tried of k__start */
} k__pairs;

static void k__super_scales(const k__super *p, const k__fit_form *form, const k__slopes *u, const float *weight, k__pairs *o) {
    int   groups = 256 / p->group;
    float v[2][16] = {{0}}, ext[2][2] = {{0}};
    *o = (k__pairs){.starts = p->starts};
    for (int i = 0; i < 1 + p->min; i++) {
        float end = !i && p->sc_lo < 0 ? p->sc_lo : p->sc_hi;
        for (int g = 0; g < groups; g++) v[i][g] = i ? -u->m[g] : u->s[g];
        k__fit_extremes(v[i], weight, groups, ext[i]);
        o->top[i] = ext[i][0] / end;
        o->all[i] = ext[i][1] / end;
    }
    form->common(p, v, weight, ext, o->fit);
    if (k__scales_uneven(v[0], groups)) o->starts += K_FIT_LADDER;
}

#if defined(__clang__)
#define K__ONE_COPY
#else
/* Without it gcc makes a copy for each constant argument, which takes long to compile. */
#define K__ONE_COPY __attribute__((noclone))
#endif

/* The best choice for a super-block and its gain over zeros. sign: see k__solve_lines. A copy for each p is no faster. */
static K__ONE_COPY float k__fit_super(const k__scaled *b, const k__super *p, float sign, k__fitted *out) {
    float              weight[16] __attribute__((aligned(64))) = {0}, at[2];
    const k__fit_form *form = k__fit_form_of_level();
    k__search          k;
    k__pairs           pair;
    k__slopes          rough = {.s = {0}};
    k__settled         three[3] = {{.gain = -FLT_MAX}}, *best = three, *now[2] = {three + 1, three + 2};
    k.b = b, k.p = p, k.sign = sign;
    form->rough(&k, &rough, weight);
    k__super_scales(p, form, &rough, weight, &pair);
    bool      other = pair.all[0] != pair.top[0] || pair.all[1] != pair.top[1];     /* one more start */
    const int starts = pair.starts + other;
    for (int t = 0; t < starts; t += 2) {
        const int n = starts - t < 2 ? 1 : 2;
        for (int k2 = 0; k2 < n; k2++) {
            k__start(p, t + k2, &at[0], &at[1]);
            for (int i = 0; i < 2; i++)
                at[i] = t + k2 == pair.starts ? pair.all[i] : at[i] > 0 ? pair.fit[i] * at[i] : pair.top[i];
            now[k2]->u = rough, now[k2]->d = at[0], now[k2]->dm = at[1];
        }
        k__settle(&k, form, n, p->batches, 4, now);
        for (int k2 = 0; k2 < n; k2++)
            if (now[k2]->gain > best->gain) k__settled_swap(&best, &now[k2]);
    }
    for (int t = 0; t < p->rounds + (pair.starts > p->starts ? 2 : 0); t++) {
        now[0]->u = best->u, now[0]->d = best->next_d, now[0]->dm = best->next_dm;
        k__settle(&k, form, 1, t ? p->again : p->polish, t ? 4 : p->minima, now);
        if (now[0]->gain <= best->gain) break;
        k__settled_swap(&best, &now[0]);
    }
    out->d = k__scaled_half(b, best->d);
    out->dmin = k__scaled_half(b, best->dm);
    for (int g = 0; g < 256 / p->group; g++) {
        float s = best->d * best->at.sc[g], m = -best->dm * best->at.mn[g];
        out->sc[g] = (int16_t)best->at.sc[g];
        out->mn[g] = (int16_t)best->at.mn[g];
        k__fit_codes(b->x + p->group * g, p->group, s, m, p->lo, p->hi, out->q + p->group * g);
    }
    return best->gain;
}

/* Minima below zero are best, except where all groups lie above zero; with half of the groups above, both signs are tried. */
static void k__fit_block(const k__scaled *b, const k__super *p, k__fitted *out) {
    int above = 0;
    for (int g = 0; p->min && g < 16; g++) {
        k__v4 lo = k__v4_at(b->x + 16 * g);
        for (int j = 4; j < 16; j += 4) lo = k__v4_min(k__v4_at(b->x + 16 * g + j), lo);
        above += lo[0] > 0 && lo[1] > 0 && lo[2] > 0 && lo[3] > 0;
    }
    if (above == 16) {
        k__fit_super(b, p, -1, out);
        return;
    }
    k__fitted other;
    float     gain = k__fit_super(b, p, 1, out);
    if (above >= 8 && k__fit_super(b, p, -1, &other) > gain) *out = other;
}

/* --- codes to bytes: the inverses of [unpack] --- */

static inline void k__put_nibbles(const int8_t *q, int half, int off, uint8_t *p) {
    for (int j = 0; j < half; j++) p[j] = (uint8_t)(((q[j] - off) & 15) | ((q[half + j] - off) & 15) << 4);
}

static void k_recode_q4_0(const int8_t *q, void *dst, int64_t n) {
    block_q4_0 *b = (block_q4_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_nibbles(q + 32 * i, 16, -8, b[i].qs);
}

static void k_recode_q4_1(const int8_t *q, void *dst, int64_t n) {
    block_q4_1 *b = (block_q4_1 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_nibbles(q + 32 * i, 16, 0, b[i].qs);
}

/* Codes of five bits: nibbles, and the fifth bits in qh. */
static inline void k__put_fifth(const int8_t *q, int off, uint8_t qs[16], uint8_t qh[4]) {
    uint8_t u[32];
    for (int j = 0; j < 32; j++) u[j] = (uint8_t)(q[j] - off);
    k__pack(u, qs, qh);
}

static void k_recode_q5_0(const int8_t *q, void *dst, int64_t n) {
    block_q5_0 *b = (block_q5_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_fifth(q + 32 * i, -16, b[i].qs, b[i].qh);
}

static void k_recode_q5_1(const int8_t *q, void *dst, int64_t n) {
    block_q5_1 *b = (block_q5_1 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_fifth(q + 32 * i, 0, b[i].qs, b[i].qh);
}

static void k_recode_q8_0(const int8_t *q, void *dst, int64_t n) {
    block_q8_0 *b = (block_q8_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++) memcpy(b[i].qs, q + 32 * i, 32);
}

/* Four planes of 32 two-bit codes, as k__crumbs reads them. */
static inline void k__put_crumbs(const int8_t *q, int off, int shift, uint8_t p[32]) {
    for (int j = 0; j < 32; j++) {
        int v = 0;
        for (int k = 0; k < 4; k++) v |= ((q[32 * k + j] - off) >> shift & 3) << 2 * k;
        p[j] = (uint8_t)v;
    }
}

/* Bit `shift` of eight planes of 32 codes, as k__add_bits reads them. */
static inline void k__put_bits(const int8_t *q, int off, int shift, uint8_t p[32]) {
    for (int j = 0; j < 32; j++) {
        int v = 0;
        for (int k = 0; k < 8; k++) v |= ((q[32 * k + j] - off) >> shift & 1) << k;
        p[j] = (uint8_t)v;
    }
}

static void k_recode_q2_K(const int8_t *q, void *dst, int64_t n) {
    block_q2_K *b = (block_q2_K *)dst;
    for (int64_t i = 0; i < n / 256; i++)
        for (int h = 0; h < 2; h++) k__put_crumbs(q + 256 * i + 128 * h, 0, 0, b[i].qs + 32 * h);
}

static void k_recode_q3_K(const int8_t *q, void *dst, int64_t n) {
    block_q3_K *b = (block_q3_K *)dst;
    for (int64_t i = 0; i < n / 256; i++) {
        for (int h = 0; h < 2; h++) k__put_crumbs(q + 256 * i + 128 * h, -4, 0, b[i].qs + 32 * h);
        k__put_bits(q + 256 * i, -4, 2, b[i].hmask);
    }
}

static void k_recode_q4_K(const int8_t *q, void *dst, int64_t n) {
    block_q4_K *b = (block_q4_K *)dst;
    for (int64_t i = 0; i < n / 256; i++)
        for (int h = 0; h < 4; h++) k__put_nibbles(q + 256 * i + 64 * h, 32, 0, b[i].qs + 32 * h);
}

static void k_recode_q5_K(const int8_t *q, void *dst, int64_t n) {
    block_q5_K *b = (block_q5_K *)dst;
    for (int64_t i = 0; i < n / 256; i++) {
        for (int h = 0; h < 4; h++) k__put_nibbles(q + 256 * i + 64 * h, 32, 0, b[i].qs + 32 * h);
        k__put_bits(q + 256 * i, 0, 4, b[i].qh);
    }
}

static void k_recode_q6_K(const int8_t *q, void *dst, int64_t n) {
    block_q6_K *b = (block_q6_K *)dst;
    for (int64_t i = 0; i < n / 256; i++)
        for (int h = 0; h < 2; h++) {
            k__put_nibbles(q + 256 * i + 128 * h, 64, -32, b[i].ql + 64 * h);
            k__put_crumbs(q + 256 * i + 128 * h, -32, 4, b[i].qh + 32 * h);
        }
}

static void k__put_scales_q4_K(const int16_t *sc, const int16_t *mn, uint8_t s[12]) {
    for (int g = 0; g < 4; g++) {
        s[g] = (uint8_t)(sc[g] | sc[g + 4] >> 4 << 6);
        s[g + 4] = (uint8_t)(mn[g] | mn[g + 4] >> 4 << 6);
        s[g + 8] = (uint8_t)((sc[g + 4] & 15) | (mn[g + 4] & 15) << 4);
    }
}

/* --- one function per format --- */

enum { K_FIT_BLOCKS = 64 };                               /* plain blocks at a time */

#define K_FIT_PLAIN(type, put_min, ...)                                                                       \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {                          \
        static const k__plain kind = {__VA_ARGS__};                                                           \
        block_##type *b = (block_##type *)dst;                                                                \
        int8_t        q[32 * K_FIT_BLOCKS];                                                                   \
        uint16_t      d[K_FIT_BLOCKS], m[K_FIT_BLOCKS];                                                       \
        for (int64_t left = n / 32; left > 0; left -= K_FIT_BLOCKS) {                                         \
            const int some = left < K_FIT_BLOCKS ? (int)left : K_FIT_BLOCKS;                                  \
            k__fit_form_of_level()->plain(&kind, x, w, some, d, m, q);                                        \
            for (int i = 0; i < some; i++, b++) {                                                             \
                b->d = d[i];                                                                                  \
                put_min;                                                                                      \
                k_recode_##type(q + 32 * i, b, 32);                                                           \
            }                                                                                                 \
            x += 32 * some;                                                                                   \
            if (w) w += 32 * some;                                                                            \
        }                                                                                                     \
    }
/*                          lo    hi   min    rounds */
K_FIT_PLAIN(q4_0, (void)0,  -8,   7,   false, 8)
K_FIT_PLAIN(q5_0, (void)0,  -16,  15,  false, 8)
K_FIT_PLAIN(q8_0, (void)0,  -127, 127, false, 4)
K_FIT_PLAIN(q4_1, b->m = m[i], 0, 15,  true,  5)
K_FIT_PLAIN(q5_1, b->m = m[i], 0, 31,  true,  5)

static void k__store_q2_K(const k__fitted *f, block_q2_K *b) {
    b->d = f->d;
    b->dmin = f->dmin;
    for (int g = 0; g < 16; g++) b->scales[g] = (uint8_t)(f->sc[g] | f->mn[g] << 4);
    k_recode_q2_K(f->q, b, 256);
}

static void k__store_q3_K(const k__fitted *f, block_q3_K *b) {
    b->d = f->d;
    for (int g = 0; g < 16; g++) {
        int v = f->sc[g] + 32;
        b->scales[g % 8] = (uint8_t)(b->scales[g % 8] | (v & 15) << g / 8 * 4);
        b->scales[8 + g % 4] = (uint8_t)(b->scales[8 + g % 4] | v >> 4 << g / 4 * 2);
    }
    k_recode_q3_K(f->q, b, 256);
}

static void k__store_q4_K(const k__fitted *f, block_q4_K *b) {
    b->d = f->d;
    b->dmin = f->dmin;
    k__put_scales_q4_K(f->sc, f->mn, b->scales);
    k_recode_q4_K(f->q, b, 256);
}

static void k__store_q5_K(const k__fitted *f, block_q5_K *b) {
    b->d = f->d;
    b->dmin = f->dmin;
    k__put_scales_q4_K(f->sc, f->mn, b->scales);
    k_recode_q5_K(f->q, b, 256);
}

static void k__store_q6_K(const k__fitted *f, block_q6_K *b) {
    b->d = f->d;
    for (int g = 0; g < 16; g++) b->scales[g] = (int8_t)f->sc[g];
    k_recode_q6_K(f->q, b, 256);
}

#define K_FIT_SUPER(type, ...)                                                                \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {          \
        static const k__super kind = {__VA_ARGS__};                                           \
        block_##type         *b = (block_##type *)dst;                                        \
        k__scaled              bench;                                                          \
        k__fitted             f;                                                              \
        memset(b, 0, (size_t)(n / 256) * sizeof *b);                                          \
        for (int64_t i = 0; i < n / 256; i++) {                                               \
            if (!k__scaled_load(&bench, x + 256 * i, w ? w + 256 * i : NULL, 256)) continue;   \
            k__fit_block(&bench, &kind, &f);                                                  \
            k__store_##type(&f, b + i);                                                       \
        }                                                                                     \
    }
/*                lo   hi  sc_lo sc_hi group min    starts batches rounds polish again minima */
K_FIT_SUPER(q2_K, 0,   3,  0,    15,   16,   true,  8,     1,      2,     3,     3,    4)
K_FIT_SUPER(q3_K, -4,  3,  -32,  31,   16,   false, 2,     1,      2,     2,     1,    4)
K_FIT_SUPER(q4_K, 0,   15, 0,    63,   32,   true,  8,     1,      2,     3,     3,    4)
K_FIT_SUPER(q5_K, 0,   31, 0,    63,   32,   true,  8,     1,      2,     6,     3,    8)
K_FIT_SUPER(q6_K, -32, 31, -128, 127,  16,   false, 2,     1,      2,     4,     1,    4)

/* Plain floats need no search. Values beyond their range become the largest one, as in all fits. */
static void k_fit_f16(const float *x, const float *w, void *dst, int64_t n) {
    float own[256];
    (void)w;
    for (int64_t at = 0; at < n; at += 256) {
        const int some = n - at < 256 ? (int)(n - at) : 256;
        for (int i = 0; i < some; i++) {
            const float v = x[at + i] > 65504 ? 65504 : x[at + i];
            own[i] = v < -65504 ? -65504 : v;
        }
        g_k_level->kv_store(K_F16, own, (uint8_t *)dst + 2 * at, some);
    }
}

static void k_fit_bf16(const float *x, const float *w, void *dst, int64_t n) {
    uint16_t own[256];
    (void)w;
    for (int64_t at = 0; at < n; at += 256) {
        const int some = n - at < 256 ? (int)(n - at) : 256;
        for (int i = 0; i < some; i++) {
            const uint32_t u = k__bits_of(x[at + i]), h = (u + 0x7fff + (u >> 16 & 1)) >> 16;
            own[i] = (uint16_t)(h - ((h & 0x7fff) == 0x7f80));   /* rounded up to infinity */
        }
        memcpy((uint8_t *)dst + 2 * at, own, 2 * (size_t)some);
    }
}
