/* ===== [amx] products by tiles of int8 =====
 * AMX has eight registers of 16 rows x 64 bytes. One instruction adds the product of a tile of activations [16 columns][64 k]
 * and one of weights [64 k / 4][16 rows][4] to a tile of int32 sums: 16,384 products in 16 cycles, eight times what vpdpbusd
 * does. Sums of integers are exact in any order, so only the float part decides the bits, and that is the one of [quant]:
 *   INT    one conversion for a block of 256. So the scale of a group is multiplied into its codes while a block is opened, and
 *          the tiles sum over the whole block:
 *              SINGLE  |scale * code| fits in a byte: Q2_K, Q3_K, TQ1_0, TQ2_0
 *              DIGITS  scale = 8 * high + low, a byte each with a code of 5 bits: Q4_K, Q5_K
 *              SPLIT   scale * code = 256 * high byte + low byte: the others
 *          Two planes of bytes are two sums, which a shift and an addition join before the conversion.
 *   SCALE  one conversion for a group of 32 (or 16): a tile has as many k, and its sums are scaled as they come.
 * A block of 128 rows is opened, through the panels of [packed_avx512] and [quant_avx512], and multiplied with all columns,
 * then the next 256 k follow; y holds the sums between them. Up to 32 columns and 16 rows are a step. The float part of a step
 * is computed between the tiles of the next one, because the two use different units of the processor.
 * With fewer columns than K__AMX_FROM, opening costs more than tiles save: the functions of avx512 serve. So they do for weights
 * of floats: tdpbf16ps sums in another order than [vec].
 * Tiles are configured by each call and released by it, so that a thread has no such state between calls: the system would save
 * 8 KB of it at each switch, and a processor with tiles in use does not sleep as deeply. That costs some 200 cycles a call. */

enum {
    K__AMX_FROM   = 9,                                /* columns */
    K__AMX_PANELS = 4,                                /* panels of K__STRIP rows that are open at a time */
    K__AMX_COLS   = 32,                               /* columns of a step: two tiles of sums side by side */
    K__AMX_PASSES = 4                                 /* steps whose columns stay in the L1 cache while all rows pass */
};

/* A panel, whose codes become the first plane; and the second plane. */
typedef struct {
    k__panel w;
    uint8_t  high[K_SUPER / 4][K__STRIP][4];
} k__amx_panel;

/* The columns of a step, of one block. */
typedef struct {
    _Alignas(64) int8_t q[K_SUPER / 64][K__AMX_COLS][64];
    float         asum[K__AMX_COLS][8];               /* sums of 32, of SCALE with minima */
    float         d[K__AMX_COLS];
    const k_sums *sum[K__AMX_COLS];
    int           n, first;                           /* columns; the first one's number */
} k__amx_cols;

/* A step. */
typedef struct {
    const k__amx_panel *w;
    const k__amx_cols  *x;
    int                 at;                           /* rows at .. at + 15 of the panel */
    int                 m;                            /* columns of the first tile, and at most of the second */
    int32_t           (*c)[16];                       /* [planes or groups][2 m] sums of the tiles */
    float              *y;                            /* of the first row and the first column */
    size_t              ldy;
    __mmask16           rows, sums;                   /* rows that are there; those that y has sums of: none in the first block */
} k__amx_step;

/* Multiplies a step and finishes the one before it; either may be NULL. */
typedef void k__amx_fn(const k__amx_step *now, const k__amx_step *before);

typedef struct {
    void (*open)(k__amx_panel *w, int off);           /* codes u = q + off of a panel to planes; NULL: they are one */
    k__amx_fn *step;
    int        k;                                     /* k of a tile */
    int        cols;                                  /* columns of a step, at most */
} k__amx_plan;

/* What a call has in its scratch, aligned to 64. */
typedef struct {
    _Alignas(64) int32_t c[2][8 * K__AMX_COLS][16];
    k__amx_cols  x[K__AMX_PASSES];
    k__amx_panel w[K__AMX_PANELS];
} k__amx_mem;

_Static_assert(sizeof(k__amx_mem) + 64 <= K__AMX_BYTES, "k_scratch_bytes");

/* --- opening --- */

/* Scales of a group of 16, of 16 rows, in both words of a lane. */
K__IN_512 __m512i k__amx_scale(const k__panel *w, int g, int at) {
    const __m512i s = k__ld512(&w->sc[g][at]);
    return _mm512_or_si512(_mm512_and_si512(s, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(s, 16));
}

/* Codes of up to 5 bits times three bits of a scale stay below 256, so that a word multiplies two of them. */
K__512 void k__amx_open_digits(k__amx_panel *w, int off) {
    (void)off;
    for (int g = 0; g < 16; g++)
        for (int at = 0; at < K__STRIP; at += 16) {
            const __m512i s = k__amx_scale(&w->w, g, at);
            const __m512i low = _mm512_and_si512(s, _mm512_set1_epi16(7)), high = _mm512_srli_epi16(s, 3);
            K__UNROLL for (int k = 4 * g; k < 4 * g + 4; k++) {
                const __m512i u = k__ld512(w->w.q[k][at]);
                _mm512_store_si512(w->w.q[k][at], _mm512_mullo_epi16(u, low));
                _mm512_store_si512(w->high[k][at], _mm512_mullo_epi16(u, high));
            }
        }
}

/* scale * (u - off) as words, of even and odd bytes, whose low bytes are the first plane and whose high bytes are the second. */
K__IN_512 void k__amx_open_words(bool minus, bool split, k__amx_panel *w, int off) {
    const __m512i low = _mm512_set1_epi16(0xff), high = _mm512_set1_epi16((short)0xff00);
    for (int g = 0; g < 16; g++)
        for (int at = 0; at < K__STRIP; at += 16) {
            __m512i s = k__amx_scale(&w->w, g, at);
            if (minus) s = _mm512_sub_epi16(_mm512_setzero_si512(), s);
            const __m512i even = _mm512_and_si512(s, low), odd = _mm512_slli_epi16(s, 8);
            const __m512i less = _mm512_mullo_epi16(s, _mm512_set1_epi16((short)-off));
            K__UNROLL for (int k = 4 * g; k < 4 * g + 4; k++) {
                const __m512i u = k__ld512(w->w.q[k][at]);
                const __m512i e = _mm512_add_epi16(_mm512_maddubs_epi16(u, even), less);
                const __m512i o = _mm512_add_epi16(_mm512_maddubs_epi16(u, odd), less);
                _mm512_store_si512(w->w.q[k][at], _mm512_or_si512(_mm512_and_si512(e, low), _mm512_slli_epi16(o, 8)));
                if (!split) continue;
                _mm512_store_si512(w->high[k][at], _mm512_or_si512(_mm512_srli_epi16(e, 8), _mm512_and_si512(o, high)));
            }
        }
}

K__512 void k__amx_open_split(k__amx_panel *w, int off) { k__amx_open_words(false, true, w, off); }
K__512 void k__amx_open_single(k__amx_panel *w, int off) { k__amx_open_words(false, false, w, off); }

/* Q3_K: -scale * code lies in -128 .. 124, and scale * code does not. */
K__512 void k__amx_open_minus(k__amx_panel *w, int off) {
    k__amx_open_words(true, false, w, off);
    for (int at = 0; at < K__STRIP; at += 16)
        _mm512_storeu_ps(&w->w.d[at], _mm512_xor_ps(_mm512_loadu_ps(&w->w.d[at]), _mm512_set1_ps(-0.0f)));
}

/* Signed codes. */
K__512 void k__amx_open_codes(k__amx_panel *w, int off) {
    const __m512i less = _mm512_set1_epi8((char)-off);
    for (int k = 0; k < K_SUPER / 4; k++)
        for (int at = 0; at < K__STRIP; at += 16)
            _mm512_store_si512(w->w.q[k][at], _mm512_add_epi8(k__ld512(w->w.q[k][at]), less));
}

/* --- the float part: columns from .. to - 1 of a step --- */

/* What a loop over columns reads, in variables of its own: the compiler must assume that a store to y changes the structs. */
typedef struct {
    const int32_t       (*c)[16];
    const float          *d;
    const k_sums *const  *sum;
    const float         (*asum)[8];
    float                *y;
    size_t                ldy;
    __mmask16             rows, sums;
} k__amx_end;

K__IN_512 k__amx_end k__amx_end_of(const k__amx_step *s, int from) {
    const k__amx_cols *x = s->x;
    return (k__amx_end){(const int32_t (*)[16])s->c + from, x->d + from, x->sum + from, (const float (*)[8])x->asum + from,
                        s->y + (size_t)(x->first + from) * s->ldy, s->ldy, s->rows, s->sums};
}

/* Adds the term of the current column to y and goes to the next one. */
K__IN_512 void k__amx_add(k__amx_end *e, __m512 u) {
    const __m512 was = _mm512_maskz_loadu_ps(e->sums, e->y);
    _mm512_mask_storeu_ps(e->y, e->rows, _mm512_add_ps(was, _mm512_mul_ps(u, _mm512_set1_ps(*e->d))));
    e->c++, e->d++, e->sum++, e->asum++, e->y += e->ldy;
}

/* shift: of the second plane. */
K__IN_512 void k__amx_int_end(int shift, int group, bool has_min, const k__amx_step *s, int from, int to) {
    const k__panel *w = &s->w->w;
    const __m512    d = _mm512_loadu_ps(&w->d[s->at]), dm = _mm512_loadu_ps(&w->dm[s->at]);
    const ptrdiff_t plane = 2 * s->m;
    k__amx_end      e = k__amx_end_of(s, from);
    __m512i         mn[8];
    const int       n = has_min ? k__mins512(group, w, s->at, mn) : 0;
    for (int c = from; c < to; c++) {
        __m512i v = k__ld512(e.c[plane]);
        if (shift) v = _mm512_slli_epi32(v, (unsigned)shift);
        __m512 u = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_add_epi32(v, k__ld512(*e.c))));
        if (has_min) {
            const int16_t *pairs = group == 16 ? (*e.sum)->of16 : (*e.sum)->of32;
            __m512i        m = _mm512_setzero_si512();
            K__UNROLL for (int i = 0; i < n; i++) m = _mm512_dpwssd_epi32(m, mn[i], k__bcast512(pairs + 2 * i));
            u = _mm512_sub_ps(u, _mm512_mul_ps(dm, _mm512_cvtepi32_ps(m)));
        }
        k__amx_add(&e, u);
    }
}

/* The sum begins with the first group: a -0 in place of the +0 of 0 + -0 is not seen in y, which began with +0. */
K__IN_512 void k__amx_scale_end(int groups, bool has_min, const k__amx_step *s, int from, int to) {
    const k__panel *w = &s->w->w;
    const ptrdiff_t plane = 2 * s->m;
    const int       at = s->at;
    k__amx_end      e = k__amx_end_of(s, from);
    for (int c = from; c < to; c++) {
        const int32_t (*v)[16] = e.c;
        __m512 t = _mm512_setzero_ps();
        K__UNROLL for (int g = 0; g < groups; g++, v += plane) {
            const __m512 u = _mm512_mul_ps(_mm512_loadu_ps(&w->fs[g][at]), _mm512_cvtepi32_ps(k__ld512(*v)));
            t = g ? _mm512_add_ps(t, u) : u;
            if (!has_min) continue;
            t = _mm512_add_ps(t, _mm512_mul_ps(_mm512_loadu_ps(&w->fs[8 + g][at]), _mm512_set1_ps((*e.asum)[g])));
        }
        k__amx_add(&e, t);
    }
}

/* --- tiles: 0 .. 3 are sums, 4 and 5 activations, 6 and 7 weights --- */

/* DIGITS: both planes are unsigned; SPLIT: the second is signed; SINGLE: the halves of the one plane, which is
 * signed, have a sum each, since four sums side by side hide how long one takes. */
enum { K__AMX_DIGITS, K__AMX_SPLIT, K__AMX_SINGLE };

K__IN_AMX void k__amx_int_dots(int how, const k__amx_step *s, int k) {
    _tile_loadd(4, s->x->q[k][0], 64);
    _tile_loadd(5, s->x->q[k][s->m], 64);
    _tile_loadd(6, s->w->w.q[16 * k][s->at], 4 * K__STRIP);
    if (how == K__AMX_SINGLE) {
        if (k < 2) {
            _tile_dpbssd(0, 4, 6);
            _tile_dpbssd(1, 5, 6);
        } else {
            _tile_dpbssd(2, 4, 6);
            _tile_dpbssd(3, 5, 6);
        }
        return;
    }
    _tile_loadd(7, s->w->high[16 * k][s->at], 4 * K__STRIP);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 5, 6);
    if (how == K__AMX_DIGITS) {
        _tile_dpbsud(2, 4, 7);
        _tile_dpbsud(3, 5, 7);
    } else {
        _tile_dpbssd(2, 4, 7);
        _tile_dpbssd(3, 5, 7);
    }
}

K__IN_AMX void k__amx_int_step(int how, int group, bool has_min, const k__amx_step *now, const k__amx_step *before) {
    const int shift = how == K__AMX_DIGITS ? 3 : how == K__AMX_SPLIT ? 8 : 0;
    K__TILES_SEEN();
    if (now) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    K__UNROLL for (int k = 0; k < K_SUPER / 64; k++) {
        if (now) k__amx_int_dots(how, now, k);
        if (before) k__amx_int_end(shift, group, has_min, before, before->x->n * k / 4, before->x->n * (k + 1) / 4);
    }
    if (now) {
        _tile_stored(0, now->c[0], 64);
        _tile_stored(1, now->c[now->m], 64);
        _tile_stored(2, now->c[2 * now->m], 64);
        _tile_stored(3, now->c[3 * now->m], 64);
    }
    K__TILES_SEEN();
}

/* A group of each of two tiles of columns; its sums. */
#define K__AMX_GROUP(c0, c1, b, per, s, g)                                                                       \
    do {                                                                                                         \
        _tile_loadd(4, (s)->x->q[(g) * (per) / 64][0] + (g) * (per) % 64, 64);                                   \
        _tile_loadd(5, (s)->x->q[(g) * (per) / 64][(s)->m] + (g) * (per) % 64, 64);                              \
        _tile_loadd(b, (s)->w->w.q[(g) * (per) / 4][(s)->at], 4 * K__STRIP);                                     \
        _tile_zero(c0);                                                                                          \
        _tile_zero(c1);                                                                                          \
        _tile_dpbssd(c0, 4, b);                                                                                  \
        _tile_dpbssd(c1, 5, b);                                                                                  \
        _tile_stored(c0, (s)->c[2 * (s)->m * (g)], 64);                                                          \
        _tile_stored(c1, (s)->c[2 * (s)->m * (g) + (s)->m], 64);                                                 \
    } while (0)

K__IN_AMX void k__amx_scale_step(int per, bool has_min, const k__amx_step *now, const k__amx_step *before) {
    const int groups = K_SUPER / per;
    K__TILES_SEEN();
    K__NO_UNROLL for (int g = 0; g < groups; g += 2) {
        if (now) {
            K__AMX_GROUP(0, 1, 6, per, now, g);
            K__AMX_GROUP(2, 3, 7, per, now, g + 1);
        }
        if (before)
            k__amx_scale_end(groups, has_min, before, before->x->n * g / groups, before->x->n * (g + 2) / groups);
    }
    K__TILES_SEEN();
}

#define K__AMX_STEP(name, call) \
    K__AMX void k__amx_##name(const k__amx_step *now, const k__amx_step *before) { call; }
/*                                      how            group has_min */
K__AMX_STEP(digits, k__amx_int_step(K__AMX_DIGITS, 32, true, now, before))
K__AMX_STEP(split, k__amx_int_step(K__AMX_SPLIT, 16, false, now, before))
K__AMX_STEP(single, k__amx_int_step(K__AMX_SINGLE, 16, false, now, before))
K__AMX_STEP(single_min, k__amx_int_step(K__AMX_SINGLE, 16, true, now, before))
/*                                       group has_min */
K__AMX_STEP(scale32, k__amx_scale_step(32, false, now, before))
K__AMX_STEP(scale32_min, k__amx_scale_step(32, true, now, before))
K__AMX_STEP(scale16, k__amx_scale_step(16, false, now, before))

static const k__amx_plan k__amx_plans[K_TYPE_MAX] = {
    [K_Q2_K]    = {k__amx_open_single, k__amx_single_min, 64, 32},
    [K_Q3_K]    = {k__amx_open_minus, k__amx_single, 64, 32},
    [K_Q4_K]    = {k__amx_open_digits, k__amx_digits, 64, 32},
    [K_Q5_K]    = {k__amx_open_digits, k__amx_digits, 64, 32},
    [K_Q6_K]    = {k__amx_open_split, k__amx_split, 64, 32},
    [K_TQ1_0]   = {k__amx_open_single, k__amx_single, 64, 32},
    [K_TQ2_0]   = {k__amx_open_single, k__amx_single, 64, 32},
    [K_IQ1_S]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ1_M]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ2_XXS] = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ2_XS]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ2_S]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ3_XXS] = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ3_S]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ4_XS]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_Q4_0]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_Q4_1]    = {NULL, k__amx_scale32_min, 32, 32},
    [K_Q5_0]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_Q5_1]    = {NULL, k__amx_scale32_min, 32, 32},
    [K_Q8_0]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_Q1_0]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_Q2_0]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_IQ4_NL]  = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_MXFP4]   = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_IQ2_K]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ3_K]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ4_K]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ5_K]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ6_K]   = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ2_KS]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ2_KL]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ3_KS]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ4_KS]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ4_KSS] = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ5_KS]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ1_KT]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ2_KT]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ3_KT]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_IQ4_KT]  = {k__amx_open_split, k__amx_split, 64, 32},
    [K_Q6_0]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_I2_S]    = {k__amx_open_codes, k__amx_scale32, 32, 32},
    [K_NVFP4]   = {k__amx_open_codes, k__amx_scale16, 16, 16},
};

/* --- matrices --- */

/* Rows of a matrix, packed or in file order. */
typedef struct {
    uint32_t              type;
    const uint8_t        *w;
    size_t                step;                       /* bytes of a strip, or of a row */
    int                   nr, n, off;                 /* rows, columns, offset of the codes in panels */
    const k__packed_plan *packed;                     /* NULL: in file order */
} k__amx_rows;

/* Opens block b of rows r .. r + 31. */
static void k__amx_open(const k__amx_rows *m, int r, int b, const k__amx_plan *p, k__amx_panel *to) {
    const int rows = m->nr - r < K__STRIP ? m->nr - r : K__STRIP, left = m->n - b * K_SUPER;
    if (m->packed)
        k__open_pair(m->packed, &k__forms[m->type], m->w + (size_t)(r / K_PACK_ROWS) * m->step, m->step, rows, m->n, b, &to->w);
    else
        k__plans_512[m->type].pack(m->type, m->w + (size_t)r * m->step + (size_t)b * k__super_bytes(m->type), m->step, rows,
                                   left < K_SUPER ? left : K_SUPER, &to->w);
    if (p->open) p->open(to, m->off);
}

/* Block b of columns t .. t + n - 1; a tail is padded with zeros, and so are columns up to 2 m. */
K__512 void k__amx_take(const k_acts *a, int t, int n, int m, int b, int len, k__amx_cols *x) {
    x->n = n;
    x->first = t;
    for (int c = 0; c < 2 * m; c++) {
        const size_t  row = (size_t)k__row_of(a, t + (c < n ? c : 0));
        const int8_t *q = a->q + row * a->ldq + (size_t)b * K_SUPER;
        for (int k = 0; k < K_SUPER / 64; k++) {
            const int       left = c < n ? len - 64 * k : 0;
            const __mmask64 there = left >= 64 ? ~0ull : left > 0 ? (1ull << left) - 1 : 0;
            _mm512_store_si512(x->q[k][c], _mm512_maskz_loadu_epi8(there, q + 64 * k));
        }
        if (c >= n) continue;
        x->d[c] = a->d[row * a->ldd + (size_t)b];
        x->sum[c] = a->sum + row * a->ldd + b;
        k__sums512(x->sum[c]->of16, x->asum[c]);
    }
}

/* Block b of the open rows r .. r + rows - 1 times all columns. */
static void k__amx_block(const k__amx_rows *w, const k__amx_plan *p, int r, int rows, int b, int m, int parts, const k_acts *a,
                         float *y, size_t ldy, k__amx_mem *mem) {
    const int   len = w->n - b * K_SUPER < K_SUPER ? w->n - b * K_SUPER : K_SUPER;
    k__amx_step step[2];
    int         steps = 0;
    for (int p0 = 0, count; p0 < parts; p0 += count) {
        count = parts - p0 < K__AMX_PASSES ? parts - p0 : K__AMX_PASSES;
        for (int i = 0; i < count; i++) {
            const int t = k__share(a->nt, parts, p0 + i);
            k__amx_take(a, t, k__share(a->nt, parts, p0 + i + 1) - t, m, b, len, &mem->x[i]);
        }
        for (int at = 0; at < rows; at += 16)
            for (int i = 0; i < count; i++, steps++) {
                const unsigned there = rows - at < 16 ? (1u << (rows - at)) - 1 : 0xffff;
                step[steps % 2] = (k__amx_step){
                    .w = &mem->w[at / K__STRIP], .x = &mem->x[i], .at = at % K__STRIP, .m = m, .c = mem->c[steps % 2],
                    .y = y + r + at, .ldy = ldy, .rows = (__mmask16)there, .sums = (__mmask16)(b ? there : 0)};
                p->step(&step[steps % 2], steps ? &step[(steps + 1) % 2] : NULL);
            }
        if (p0 + count == parts) continue;
        p->step(NULL, &step[(steps + 1) % 2]);        /* its columns are overwritten next */
        steps = 0;
    }
    p->step(NULL, &step[(steps + 1) % 2]);
}

K__AMX void k__amx_mul(const k__amx_rows *w, const k_acts *a, float *y, size_t ldy, void *scratch) {
    const k__amx_plan *p = &k__amx_plans[w->type];
    k__amx_mem        *mem = (k__amx_mem *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    const int          parts = (a->nt + p->cols - 1) / p->cols, m = ((a->nt + parts - 1) / parts + 1) / 2;
    k__tiles_start(m, p->k);
    for (int r = 0, rows; r < w->nr; r += rows) {
        rows = w->nr - r < K__AMX_PANELS * K__STRIP ? w->nr - r : K__AMX_PANELS * K__STRIP;
        for (int b = 0; b * K_SUPER < w->n; b++) {
            for (int i = 0; i * K__STRIP < rows; i++) k__amx_open(w, r + i * K__STRIP, b, p, &mem->w[i]);
            k__amx_block(w, p, r, rows, b, m, parts, a, y, ldy, mem);
        }
    }
    _tile_release();
}

K__SHARED_AMX bool k_mul_packed_amx(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy,
                                    void *scratch, k__far_mem *far) {
    if (a->nt < K__AMX_FROM) return k_mul_packed_avx512(type, w, nr, n, a, y, ldy, scratch, far);
    const k__amx_rows m = {type, w, k_pack_bytes(type, K_PACK_ROWS, n), nr, n, k__forms[type].off, &k__packed_512[type]};
    k__amx_mul(&m, a, y, ldy, scratch);
    return false;
}

K__SHARED_AMX void k_mul_quant_amx(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,
                                   size_t ldy, void *scratch) {
    const int off = k__off(type) < 0 ? 0 : 1 << k__off(type), some = nr % K__STRIP < K__PANEL_ROWS ? nr - nr % K__STRIP : nr;
    /* a panel is made of one block, which does not show a scale in front of its row */
    const bool        few = a->nt < K__AMX_FROM || k__row_front(type);
    const k__amx_rows m = {type, w, row_bytes, few ? 0 : some, n, off, NULL};
    const uint8_t    *rest = (const uint8_t *)w + (size_t)m.nr * row_bytes;
    if (m.nr) k__amx_mul(&m, a, y, ldy, scratch);
    if (m.nr < nr) k_mul_quant_avx512(type, rest, row_bytes, nr - m.nr, n, a, y + m.nr, ldy, scratch);
}
