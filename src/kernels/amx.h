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
    K__AMX_SUMS   = 8 * K__AMX_COLS,                  /* vectors of sums of a step */
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
    int32_t           (*c)[16];                       /* sums of the tiles: [2][K__AMX_COLS], or [groups][k__amx_plane()] */
    float              *y;                            /* of the first row and the first column */
    size_t              ldy;
    __mmask16           rows, sums;                   /* rows that are there; those that y has sums of: none in the first block */
} k__amx_step;

/* Columns that the sums of each group have in a step; not those of its columns, so that offsets are constants. */
K__IN_512 int k__amx_plane(int groups) { return K__AMX_SUMS / groups; }

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
    _Alignas(64) int32_t c[2][K__AMX_SUMS][16];
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

/* Signed codes, of rows in file order: those of packed rows are opened as such. */
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

/* Adds the term of the i-th column from the current one to y. */
K__IN_512 void k__amx_add(const k__amx_end *e, int i, __m512 u) {
    float       *y = e->y + (size_t)i * e->ldy;
    const __m512 was = _mm512_maskz_loadu_ps(e->sums, y);
    _mm512_mask_storeu_ps(y, e->rows, _mm512_add_ps(was, _mm512_mul_ps(u, _mm512_set1_ps(e->d[i]))));
}

/* Goes n columns on. Compilers do not see by how much, and so compute no end of a loop beforehand. */
K__IN_512 void k__amx_next(k__amx_end *e, int n) {
    e->c += n, e->d += n, e->sum += n, e->asum += n, e->y += (size_t)n * e->ldy;
    __asm__("" : "+r"(e->c), "+r"(e->d), "+r"(e->y));
}

/* shift: of the second plane. */
K__IN_512 void k__amx_int_end(int shift, int group, bool has_min, const k__amx_step *s, int from, int to) {
    const k__panel *w = &s->w->w;
    const __m512    d = _mm512_loadu_ps(&w->d[s->at]), dm = _mm512_loadu_ps(&w->dm[s->at]);
    k__amx_end      e = k__amx_end_of(s, from);
    __m512i         mn[8];
    const int       n = has_min ? k__mins512(group, w, s->at, mn) : 0;
    for (int c = from; c < to; c++) {
        __m512i v = k__ld512(e.c[K__AMX_COLS]);
        if (shift) v = _mm512_slli_epi32(v, (unsigned)shift);
        __m512 u = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_add_epi32(v, k__ld512(*e.c))));
        if (has_min) {
            const int16_t *pairs = group == 16 ? (*e.sum)->of16 : (*e.sum)->of32;
            __m512i        m = _mm512_setzero_si512();
            K__UNROLL for (int i = 0; i < n; i++) m = _mm512_dpwssd_epi32(m, mn[i], k__bcast512(pairs + 2 * i));
            u = _mm512_sub_ps(u, _mm512_mul_ps(dm, _mm512_cvtepi32_ps(m)));
        }
        k__amx_add(&e, 0, u);
        k__amx_next(&e, 1);
    }
}

/* The i-th column from the current one. The sum begins with the first group: a -0 in place of the +0 of 0 + -0 is not seen in y,
 * which began with +0. */
K__IN_512 void k__amx_scale_one(int groups, bool has_min, const k__amx_end *e, int i, const __m512 *fs, const __m512 *fm) {
    __m512 t = _mm512_setzero_ps();
    K__UNROLL for (int g = 0; g < groups; g++) {
        const __m512 u = _mm512_mul_ps(fs[g], _mm512_cvtepi32_ps(k__ld512(e->c[g * k__amx_plane(groups) + i])));
        t = g ? _mm512_add_ps(t, u) : u;
        if (has_min) t = _mm512_add_ps(t, _mm512_mul_ps(fm[g], _mm512_set1_ps(e->asum[i][g])));
    }
    k__amx_add(e, i, t);
}

/* Columns until so many are left; returns as many. */
K__IN_512 int k__amx_scale_end(int groups, bool has_min, k__amx_end *e, int n, int left, const __m512 *fs, const __m512 *fm) {
    for (; n >= left + 4; n -= 4) {
        K__UNROLL for (int i = 0; i < 4; i++) k__amx_scale_one(groups, has_min, e, i, fs, fm);
        k__amx_next(e, 4);
    }
    for (; n > left; n--) {
        k__amx_scale_one(groups, has_min, e, 0, fs, fm);
        k__amx_next(e, 1);
    }
    return n;
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
        _tile_stored(2, now->c[K__AMX_COLS], 64);
        _tile_stored(3, now->c[K__AMX_COLS + now->m], 64);
    }
    K__TILES_SEEN();
}

/* Where the operands and the sums of a step of SCALE begin, for its two tiles of columns; of its groups, a constant away. */
typedef struct {
    const uint8_t *w;
    const int8_t  *x[2];
    int32_t       *c[2];
} k__amx_at;

K__IN_AMX k__amx_at k__amx_at_of(const k__amx_step *s) {
    const int8_t *x = s->x->q[0][0];
    return (k__amx_at){s->w->w.q[0][s->at], {x, x + 64 * s->m}, {s->c[0], s->c[s->m]}};
}

/* A group of each of two tiles of columns; its sums. */
#define K__AMX_GROUP(c0, c1, b, per, at, g)                                                                       \
    do {                                                                                                          \
        const int x_at = (g) * (per) / 64 * (64 * K__AMX_COLS) + (g) * (per) % 64;                                \
        const int c_at = 16 * k__amx_plane(K_SUPER / (per)) * (g);                                                \
        _tile_loadd(4, (at).x[0] + x_at, 64);                                                                     \
        _tile_loadd(5, (at).x[1] + x_at, 64);                                                                     \
        _tile_loadd(b, (at).w + (g) * (per) * K__STRIP, 4 * K__STRIP);                                            \
        _tile_zero(c0);                                                                                           \
        _tile_zero(c1);                                                                                           \
        _tile_dpbssd(c0, 4, b);                                                                                   \
        _tile_dpbssd(c1, 5, b);                                                                                   \
        _tile_stored(c0, (at).c[0] + c_at, 64);                                                                   \
        _tile_stored(c1, (at).c[1] + c_at, 64);                                                                   \
    } while (0)

/* One half of the groups, then the float part of one half of the columns, and again. */
K__IN_AMX void k__amx_scale_step(int per, bool has_min, const k__amx_step *now, const k__amx_step *before) {
    const int groups = K_SUPER / per;
    int       left = 0;
    __m512    fs[16], fm[8];
    k__amx_end e = {0};
    K__UNROLL for (int g = 0; g < 16; g++) fs[g] = fm[g / 2] = _mm512_setzero_ps();
    if (before) {
        left = before->x->n;
        e = k__amx_end_of(before, 0);
        K__UNROLL for (int g = 0; g < groups; g++) fs[g] = _mm512_loadu_ps(&before->w->w.fs[g][before->at]);
        K__UNROLL for (int g = 0; g < 8 && has_min; g++) fm[g] = _mm512_loadu_ps(&before->w->w.fs[8 + g][before->at]);
    }
    K__TILES_SEEN();
    K__UNROLL for (int h = 0; h < 2; h++) {
        if (now) {
            const k__amx_at at = k__amx_at_of(now);
            K__UNROLL for (int g = h * groups / 2; g < (h + 1) * groups / 2; g += 2) {
                K__AMX_GROUP(0, 1, 6, per, at, g);
                K__AMX_GROUP(2, 3, 7, per, at, g + 1);
            }
        }
        left = k__amx_scale_end(groups, has_min, &e, left, h ? 0 : left / 8 * 4, fs, fm);
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

/* How a type is multiplied. Those that are not named are of the frequent kinds: signed codes without minima. */
static const k__amx_plan *k__amx_plan_of(uint32_t type) {
    static const k__amx_plan digits = {k__amx_open_digits, k__amx_digits, 64, 32};
    static const k__amx_plan split = {k__amx_open_split, k__amx_split, 64, 32};
    static const k__amx_plan single = {k__amx_open_single, k__amx_single, 64, 32};
    static const k__amx_plan single_min = {k__amx_open_single, k__amx_single_min, 64, 32};
    static const k__amx_plan minus = {k__amx_open_minus, k__amx_single, 64, 32};
    static const k__amx_plan scale32 = {k__amx_open_codes, k__amx_scale32, 32, 32};
    static const k__amx_plan scale32_min = {NULL, k__amx_scale32_min, 32, 32};
    static const k__amx_plan scale16 = {k__amx_open_codes, k__amx_scale16, 16, 16};
    switch (type) {
    case K_Q4_K: case K_Q5_K: return &digits;
    case K_Q2_K: return &single_min;
    case K_Q3_K: return &minus;
    case K_TQ1_0: case K_TQ2_0: return &single;
    case K_Q4_1: case K_Q5_1: return &scale32_min;
    default: return k_types[type].kind == K_KIND_INT ? &split : k_types[type].group == 16 ? &scale16 : &scale32;
    }
}

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
    if (p->open && !(m->packed && p->open == k__amx_open_codes)) p->open(to, m->off);
}

/* How the codes of a packed format are opened as signed ones. */
static k__open_fn *k__amx_codes(const k__form *f) {
    switch (f->bits) {
    case 1: return k__codes_1ts_512;
    case 2: return k__codes_2s_512;
    case 4: return f->values ? k__codes_4ts_512 : k__codes_4s_512;
    case 5: return k__codes_5s_512;
    default: return k__codes_8s_512;
    }
}

/* Block b of columns t .. t + n - 1, len of it; the rest is zeros. minima: their products with scales need sums of 32. Tiles have
 * up to two columns more. These hold old values, and their sums are not used. */
K__512 void k__amx_take(const k_acts *acts, int t, int n, int b, int len, bool minima, k__amx_cols *x) {
    const k_acts a = *acts;                           /* which no store changes */
    __mmask64    there[K_SUPER / 64];
    K__UNROLL for (int k = 0; k < K_SUPER / 64; k++) {
        const int left = len - 64 * k;
        there[k] = left >= 64 ? ~0ull : left > 0 ? (1ull << left) - 1 : 0;
    }
    x->n = n;
    x->first = t;
    for (int c = 0; c < n; c++) {
        const size_t  row = a.idx ? (size_t)a.idx[t + c] : (size_t)(t + c), at = row * a.ldd + (size_t)b;
        const int8_t *q = a.q + row * a.ldq + (size_t)b * K_SUPER;
        K__UNROLL for (int k = 0; k < K_SUPER / 64; k++)
            _mm512_store_si512(x->q[k][c], _mm512_maskz_loadu_epi8(there[k], q + 64 * k));
        x->d[c] = a.d[at];
        x->sum[c] = a.sum + at;
        if (minima) k__sums512(a.sum[at].of16, x->asum[c]);
    }
}

/* Block b of the open rows r .. r + rows - 1 times all columns. */
static void k__amx_block(const k__amx_rows *w, const k__amx_plan *p, int r, int rows, int b, int m, int parts, const k_acts *a,
                         float *y, size_t ldy, k__amx_mem *mem) {
    const int   len = w->n - b * K_SUPER < K_SUPER ? w->n - b * K_SUPER : K_SUPER;
    const bool  minima = k_types[w->type].kind == K_KIND_SCALE && k_types[w->type].has_min;
    k__amx_step step[2];
    int         steps = 0;
    for (int p0 = 0, count; p0 < parts; p0 += count) {
        count = parts - p0 < K__AMX_PASSES ? parts - p0 : K__AMX_PASSES;
        for (int i = 0; i < count; i++) {
            const int t = k__share(a->nt, parts, p0 + i);
            k__amx_take(a, t, k__share(a->nt, parts, p0 + i + 1) - t, b, len, minima, &mem->x[i]);
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
    const k__amx_plan *p = k__amx_plan_of(w->type);
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
    k__packed_plan packed = k__packed_512[type];
    if (k__amx_plan_of(type)->open == k__amx_open_codes) packed.codes = k__amx_codes(&k__forms[type]);
    const k__amx_rows m = {type, w, k_pack_bytes(type, K_PACK_ROWS, n), nr, n, k__forms[type].off, &packed};
    k__amx_mul(&m, a, y, ldy, scratch);
    return false;
}

K__SHARED_AMX void k_mul_quant_amx(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,
                                   size_t ldy, void *scratch) {
    const int off = k__off(type) < 0 ? 0 : 1 << k__off(type), some = nr % K__STRIP < K__PANEL_ROWS ? nr - nr % K__STRIP : nr;
    const bool few = a->nt < K__AMX_FROM || k__row_front(type);      /* a block is opened without the front of its row */
    const k__amx_rows m = {type, w, row_bytes, few ? 0 : some, n, off, NULL};
    const uint8_t    *rest = (const uint8_t *)w + (size_t)m.nr * row_bytes;
    if (m.nr) k__amx_mul(&m, a, y, ldy, scratch);
    if (m.nr < nr) k_mul_quant_avx512(type, rest, row_bytes, nr - m.nr, n, a, y + m.nr, ldy, scratch);
}
