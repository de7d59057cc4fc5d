/* ===== [far] outliers of activations =====
 * In trained models single channels are a hundred times larger than the others. One scale for 256 activations then leaves almost
 * nothing of the other 255. So the values far above the mean of their block (k__peaked) leave it, and the others, with what
 * rounding took from the far ones, have a scale of their own. The product of the codes is one of [quant] or [packed]; then each
 * far value v of column k adds v * w[k] to each result, in the order of the columns, by one FMA with the dequantised weight. Far
 * values of many rows are in few columns, so a column is dequantised once for all rows of a product: of 128 rows of weights after
 * the product of their codes, or, where rows of activations are few, of a strip while it is in the cache. Only values of a row
 * decide, not its company. */

enum {
    K__FAR_SLOTS = 256,                               /* columns that are dequantised at a time */
    K__FAR_STEP  = 128,                               /* rows of weights at a time */
    K__FAR_COLS  = 1024                               /* rows of activations whose place in their list is remembered */
};

/* A far value of column k. */
typedef struct {
    int32_t k;
    float   v;
} k__far;

typedef struct {
    const k__far *of;
    int           n;
} k__far_list;

/* The list of row `row` of a: an entry whose k is the number of far values, then these in rising order of columns, fewer than one
 * for 8 codes. It lies where the codes of row `row` + 2 rest would be. */
K__BODY k__far_list k__far_of(const k_acts *a, int row) {
    const k__far *head = (const k__far *)(const void *)(a->q + ((size_t)row + 2 * (size_t)a->rest) * a->ldq);
    return (k__far_list){head + 1, head->k};
}

/* Where a column of packed rows is. Its bits lie in lanes of up to three lines of the unit, its scales in lines of the head. */
typedef struct {
    size_t   unit;                                    /* bytes from the strip to the unit */
    uint16_t line[3];                                 /* bytes from the unit to the lines of 4 (or 8), 2 and 1 bits */
    uint16_t scale;                                   /* and to the line of the scale */
    int32_t  bit[3], at;                              /* and the first bit in a lane */
    int32_t  group;                                   /* of 16 columns in the unit */
} k__far_place;

/* Dequantises columns p[n] of `rows` packed rows at w. strip: bytes of 16 rows; to: ld floats from column to column, up to the
 * end of the last strip. next: from there a line is prefetched for each column of a strip. */
typedef void k__far_columns(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n, float *to,
                            size_t ld, const uint8_t *next);
/* y[16] += v * column, of the far values v and their columns p[n] of a strip, one after the other. */
typedef void k__far_values(uint32_t type, const uint8_t *w, const k__far_place *p, int n, const k__far *v, float *y,
                           const uint8_t *next);
/* y[rows] += v * the slot of column k, of the far values one after the other; ld floats from slot to slot. */
typedef void k__far_add(const float *col, size_t ld, const uint8_t *slot, k__far_list far, int rows, float *y);

/* The far values of a product: columns of the matrix that meet any, each with a slot. n weights are a row. */
struct k__far_mem {
    float           col[K__FAR_SLOTS * K__FAR_STEP];  /* dequantised columns, one for each slot */
    k__far_place    place[K__FAR_SLOTS];              /* of packed rows */
    int             at[K__FAR_SLOTS];                 /* column of each slot, in rising order */
    int             n_at;                             /* slots that are used */
    int             done[K__FAR_COLS];                /* far values of a row of activations that have been added */
    uint8_t        *slot;                             /* [n] slot of each column */
    uint64_t       *any;                              /* [(n + 63)/64] columns with far values of any row */
    k__far_columns *columns;                          /* the level's functions */
    k__far_values  *values;
    k__far_add     *add;
};

static void k_far_add_ref(const float *col, size_t ld, const uint8_t *slot, k__far_list far, int rows, float *y) {
    for (int i = 0; i < far.n; i++) {
        const float *w = col + slot[far.of[i].k] * ld;
        for (int r = 0; r < rows; r++) y[r] = fmaf(far.of[i].v, w[r], y[r]);
    }
}

/* The weight with code q in group g of 16, or for SCALE of the groups of its format, as dequantising computes it. */
K__BODY float k__far_weight(const k_type *ty, const k__unpacked *u, int g, int q) {
    float w;
    if (ty->kind != K_KIND_INT) {
        w = u->fs[g] * (float)q;
        return ty->has_min ? w + u->fm[g] : w;
    }
    w = u->d * (float)u->sc[g] * (float)q;
    return ty->has_min ? w - u->dm * (float)u->mn[g] : w;
}

/* Scale and minimum of group g of 32 of Q4_K and Q5_K. */
K__BODY void k__far_scale_q4_K(const uint8_t *s, int g, int *sc, int *mn) {
    *sc = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
    *mn = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
}

/* Weight k of a row in file order, at p; the frequent formats without the rest of their block. */
static float k__far_at(uint32_t type, const uint8_t *p, int k) {
    const k_type *ty = &k_types[type];
    const int     i = k % ty->block, nibble = i / 32 % 2 * 4;
    const uint8_t *row = p;
    k__unpacked   u;
    int           sc, mn;
    p += (size_t)(k / ty->block) * ty->bytes;
    switch (type) {
    case K_Q4_K: {
        const block_q4_K *b = (const block_q4_K *)p;
        k__far_scale_q4_K(b->scales, i / 32, &sc, &mn);
        const int q = b->qs[i / 64 * 32 + i % 32] >> nibble & 15;
        return k_f16_to_f32(b->d) * (float)sc * (float)q - k_f16_to_f32(b->dmin) * (float)mn;
    }
    case K_Q5_K: {
        const block_q5_K *b = (const block_q5_K *)p;
        const int         q = (b->qs[i / 64 * 32 + i % 32] >> nibble & 15) | (b->qh[i % 32] >> i / 32 & 1) << 4;
        k__far_scale_q4_K(b->scales, i / 32, &sc, &mn);
        return k_f16_to_f32(b->d) * (float)sc * (float)q - k_f16_to_f32(b->dmin) * (float)mn;
    }
    case K_Q6_K: {
        const block_q6_K *b = (const block_q6_K *)p;
        const int         h = i / 128, j = i % 128;
        const int q = ((b->ql[64 * h + j % 64] >> j / 64 * 4 & 15) | (b->qh[32 * h + j % 32] >> j / 32 * 2 & 3) << 4) - 32;
        return k_f16_to_f32(b->d) * (float)b->scales[i / 16] * (float)q;
    }
    case K_Q8_0: return k_f16_to_f32(((const block_q8_0 *)p)->d) * (float)((const block_q8_0 *)p)->qs[i];
    default:
        k__unpack_at(type, row, k - i, ty->block, &u);
        return k__far_weight(ty, &u, i / (ty->kind == K_KIND_INT ? 16 : ty->group), u.q[i]);
    }
}

/* The line of the scale of a group of 16, in bytes from the head on, and the bit in a lane. */
K__BODY void k__far_find_scale(int segs, int head, unsigned g16, unsigned *line, unsigned *at) {
    *line = *at = 0;
    switch (head) {
    case K__HEAD_MIN6: *line = g16 / 8 * 64, *at = g16 / 2 % 4 * 8; break;
    case K__HEAD_MIN4: case K__HEAD_S8: *line = g16 / 4 * 64, *at = g16 % 4 * 8; break;
    case K__HEAD_S6: *line = g16 / 8 * 64, *at = g16 % 8 * 4; break;
    case K__HEAD_S6X2: *at = g16 / 2 * 4; break;
    case K__HEAD_F16: case K__HEAD_F16M: *line = g16 / (2 * (unsigned)segs) * 32; break;
    case K__HEAD_E8: *line = g16 / 2 * 16; break;
    case K__HEAD_E4: *line = g16 * 16; break;
    default: break;
    }
}

K__BODY void k__far_find(int bits, int segs, int head, const int *at, int n, k__far_place *p) {
    const unsigned lines = 64 * (unsigned)k__head_lines(head), width = 64 * (unsigned)segs, seg = 128 * (unsigned)bits;
    for (const int *end = at + n; at < end; at++, p++) {
        const unsigned k = (unsigned)*at, g16 = k % width / 16, byte = k % 4 * 8;
        const unsigned codes = (head <= K__HEAD_ONE ? lines : 0) + k % width / 64 * seg;
        const int      i = (int)(k % 64 / 4);
        unsigned       line, bit;
        p->unit = (size_t)(k / width) * (seg * (unsigned)segs + lines);
        k__far_find_scale(segs, head, g16, &line, &bit);
        p->scale = (uint16_t)(line + (head <= K__HEAD_ONE ? 0 : seg * (unsigned)segs));
        p->at = (int32_t)bit;
        p->group = (int32_t)g16;
        p->line[0] = (uint16_t)(codes + (unsigned)(bits == 8 ? 64 * i : k__plane4(bits, i)));
        p->bit[0] = (int32_t)(byte + (bits == 8 ? 0 : (unsigned)i / 8 * 4));
        if (bits & 2) {
            p->line[1] = (uint16_t)(codes + (unsigned)k__plane2(bits, i));
            p->bit[1] = (int32_t)(byte + (unsigned)i % 4 * 2);
        }
        if (bits & 1) {
            p->line[2] = (uint16_t)(codes + (unsigned)k__plane1(i));
            p->bit[2] = (int32_t)(byte + (unsigned)i % 8);
        }
    }
}

/* The places of n columns, at[n]. */
#define K__FAR_CASE(id, name, bits, segs, head, off, most, factor, values) \
    case K_##id: k__far_find(bits, segs, head, at, n, p); return;
static void k__far_places(uint32_t type, const int *at, int n, k__far_place *p) {
    switch (k__form_like(type)) { K__FORMS_OWN(K__FAR_CASE) }
}

/* Bits of the code of row r of a strip. */
K__BODY int k__far_bits(const uint8_t *unit, const k__far_place *p, int plane, int r, int mask) {
    return (int)(k__head_get32(unit + p->line[plane], 0, r) >> p->bit[plane]) & mask;
}

K__BODY int k__far_code(int bits, const uint8_t *unit, const k__far_place *p, int r) {
    if (bits == 8) return k__far_bits(unit, p, 0, r, 255);
    return (bits & 4 ? k__far_bits(unit, p, 0, r, 15) : 0) | (bits & 2 ? k__far_bits(unit, p, 1, r, 3) << (bits & 4) : 0) |
           (bits & 1 ? k__far_bits(unit, p, 2, r, 1) << (bits & 6) : 0);
}

/* The weight of row r of a strip. */
static float k__far_weight_at(uint32_t type, const uint8_t *w, int r, const k__far_place *p) {
    const k__form *f = &k__forms[type];
    const k_type  *ty = &k_types[type];
    const int      v = k__far_code(f->bits, w + p->unit, p, r);
    k__unpacked    u = {0};
    k__head_get(f, w + p->unit + k__head_at(f), 0, r, &u);
    return k__far_weight(ty, &u, p->group * 16 / (ty->kind == K_KIND_INT ? 16 : ty->group),
                         f->values ? f->values[v & 15] : v - f->off);
}

static void k_far_columns_ref(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n, float *to,
                              size_t ld, const uint8_t *next) {
    (void)next;
    for (int i = 0; i < n; i++, to += ld)
        for (int r = 0; r < rows; r++)
            to[r] = k__far_weight_at(type, w + (size_t)(r / K_PACK_ROWS) * strip, r % K_PACK_ROWS, p + i);
}

static void k_far_values_ref(uint32_t type, const uint8_t *w, const k__far_place *p, int n, const k__far *v, float *y,
                             const uint8_t *next) {
    (void)next;
    for (int i = 0; i < n; i++)
        for (int r = 0; r < K_PACK_ROWS; r++) y[r] = fmaf(v[i].v, k__far_weight_at(type, w, r, p + i), y[r]);
}

#if K__X86
#define K__FAR_OF(target, l)                                                                                               \
    target void k_far_add_##l(const float *col, size_t ld, const uint8_t *slot, k__far_list far, int rows, float *y);       \
    target void k_far_columns_##l(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n,    \
                                  float *to, size_t ld, const uint8_t *next);                                               \
    target void k_far_values_##l(uint32_t type, const uint8_t *w, const k__far_place *p, int n, const k__far *v, float *y,  \
                                 const uint8_t *next);
K__FAR_OF(K__SHARED_AVX2, avx2)
K__FAR_OF(K__SHARED_512, avx512)

#if K__PART(2)
/* --- avx512 --- */

/* n vectors of sums from y on; the last has the rows of `last`. */
K__IN_512 void k__far_add512(int n, const float *col, size_t ld, const uint8_t *slot, k__far_list far, __mmask16 last, float *y) {
    __m512 s[8];
    K__UNROLL for (int i = 0; i < n; i++) s[i] = _mm512_maskz_loadu_ps(i + 1 < n ? 0xffff : last, y + 16 * i);
    for (const k__far *e = far.of; e < far.of + far.n; e++) {
        const float *w = col + slot[e->k] * ld;
        const __m512 x = _mm512_set1_ps(e->v);
        K__UNROLL for (int i = 0; i < n; i++) s[i] = _mm512_fmadd_ps(x, _mm512_load_ps(w + 16 * i), s[i]);
    }
    K__UNROLL for (int i = 0; i < n; i++) _mm512_mask_storeu_ps(y + 16 * i, i + 1 < n ? 0xffff : last, s[i]);
}

K__SHARED_512 void k_far_add_avx512(const float *col, size_t ld, const uint8_t *slot, k__far_list far, int rows, float *y) {
    int r = 0;
    if (rows == K_PACK_ROWS) {
        k__far_add512(1, col, ld, slot, far, 0xffff, y);
        return;
    }
    if (rows == K__FAR_STEP) {
        k__far_add512(K__FAR_STEP / 16, col, ld, slot, far, 0xffff, y);
        return;
    }
    for (; rows - r >= 64; r += 64) k__far_add512(4, col + r, ld, slot, far, 0xffff, y + r);
    for (; r < rows; r += 16)
        k__far_add512(1, col + r, ld, slot, far, (__mmask16)(rows - r >= 16 ? 0xffff : (1 << (rows - r)) - 1), y + r);
}

/* low + high * 2^by. */
K__IN_512 __m512i k__far_or512(__m512i low, __m512i high, unsigned by) {
    return _mm512_or_si512(low, _mm512_slli_epi32(high, by));
}

/* Bits `at` and above of the lanes of a line. */
K__IN_512 __m512i k__far_bits512(const uint8_t *p, int at, int mask) {
    return _mm512_and_si512(_mm512_srlv_epi32(k__ld512(p), _mm512_set1_epi32(at)), _mm512_set1_epi32(mask));
}

/* The weights of INT formats with these codes; h: the head. */
K__IN_512 __m512 k__far_int512(int head, float factor, const uint8_t *h, const k__far_place *p, __m512 q) {
    const int     last = 64 * (k__head_lines(head) - 1);
    const __m512i three = _mm512_set1_epi32(3), at = _mm512_set1_epi32(p->at);
    __m512i       sc, mn;
    __m512        d;
    bool          has_min = false;
    if (head == K__HEAD_ONE) return _mm512_mul_ps(_mm512_loadu_ps((const float *)(const void *)h), q);
    sc = _mm512_srlv_epi32(k__ld512(h + p->scale), at);
    switch (head) {
    case K__HEAD_MIN6:
        mn = _mm512_srlv_epi32(k__ld512(h + 128), at);
        if (p->scale) {
            const __m512i low = _mm512_and_si512(_mm512_srli_epi32(_mm512_srlv_epi32(k__ld512(h), at), 6), three);
            const __m512i mid = _mm512_and_si512(_mm512_srli_epi32(sc, 4), _mm512_set1_epi32(12));
            mn = _mm512_or_si512(_mm512_or_si512(low, mid), _mm512_and_si512(_mm512_srli_epi32(mn, 2), _mm512_set1_epi32(48)));
        } else {
            mn = _mm512_and_si512(mn, _mm512_set1_epi32(63));
        }
        sc = _mm512_and_si512(sc, _mm512_set1_epi32(63));
        has_min = true;
        break;
    case K__HEAD_MIN4:
        mn = _mm512_and_si512(_mm512_srli_epi32(sc, 4), _mm512_set1_epi32(15));
        sc = _mm512_and_si512(sc, _mm512_set1_epi32(15));
        has_min = true;
        break;
    case K__HEAD_S8: sc = _mm512_srai_epi32(_mm512_slli_epi32(sc, 24), 24); break;
    case K__HEAD_S6: case K__HEAD_S6X2: {
        const bool    each16 = head == K__HEAD_S6;
        const __m512i up = _mm512_set1_epi32(each16 ? 2 * p->group : p->group & ~1);
        const __m512i high = _mm512_and_si512(_mm512_srlv_epi32(k__ld512(h + (each16 ? 128 : 64)), up), three);
        sc = _mm512_or_si512(_mm512_and_si512(sc, _mm512_set1_epi32(15)), _mm512_slli_epi32(high, 4));
        sc = _mm512_sub_epi32(sc, _mm512_set1_epi32(32));
        break;
    }
    default: break;
    }
    if (has_min) d = _mm512_cvtph_ps(k__ld256(h + last));
    else if (head != K__HEAD_S6X2) d = _mm512_loadu_ps((const float *)(const void *)(h + last));
    else d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(k__ld512(h + last), 16)));
    if (head == K__HEAD_S6X2) d = _mm512_mul_ps(d, _mm512_set1_ps(factor));
    const __m512 w = _mm512_mul_ps(_mm512_mul_ps(d, _mm512_cvtepi32_ps(sc)), q);
    if (!has_min) return w;
    return _mm512_sub_ps(w, _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + last + 32)), _mm512_cvtepi32_ps(mn)));
}

/* The same of SCALE formats; s: the line of the scale. */
K__IN_512 __m512 k__far_scale512(int head, const uint8_t *s, __m512 q) {
    if (head == K__HEAD_E8) {
        const __m512i   e = _mm512_cvtepu8_epi32(k__ld128(s)), one = _mm512_set1_epi32(1);
        const __mmask16 low = _mm512_cmple_epi32_mask(e, one);
        const __m512i   v = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_mask_sllv_epi32(v, low, _mm512_set1_epi32(0x00200000), e)), q);
    }
    if (head == K__HEAD_E4) {
        const __m256i v = _mm256_slli_epi16(_mm256_cvtepu8_epi16(k__ld128(s)), 7);
        return _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtph_ps(v), _mm512_set1_ps(0x1p7f)), q);
    }
    const __m512 w = _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(s)), q);
    return head == K__HEAD_F16M ? _mm512_add_ps(w, _mm512_cvtph_ps(k__ld256(s + 64))) : w;
}

/* A column of a strip; values: those of a table, or the offset of the codes. */
K__IN_512 __m512 k__far_column512(int bits, int head, int off, float factor, bool table, __m512i values,
                                  const uint8_t *unit, const k__far_place *p) {
    __m512i u = _mm512_setzero_si512();
    if (bits == 8) u = k__far_bits512(unit + p->line[0], p->bit[0], 255);
    else {
        if (bits & 4) u = k__far_bits512(unit + p->line[0], p->bit[0], 15);
        if (bits & 2) u = k__far_or512(u, k__far_bits512(unit + p->line[1], p->bit[1], 3), (unsigned)bits & 4);
        if (bits & 1) u = k__far_or512(u, k__far_bits512(unit + p->line[2], p->bit[2], 1), (unsigned)bits & 6);
    }
    if (table) u = _mm512_permutexvar_epi32(u, values);
    else if (off) u = _mm512_sub_epi32(u, values);
    const __m512 q = _mm512_cvtepi32_ps(u);
    return head <= K__HEAD_ONE ? k__far_int512(head, factor, unit, p, q) : k__far_scale512(head, unit + p->scale, q);
}

/* k__far_columns, and, where v is given, k__far_values. */
K__IN_512 void k__far_columns512(int bits, int head, int off, float factor, const int8_t *table, const uint8_t *w, size_t strip,
                                 int rows, const k__far_place *p, int n, const k__far *v, float *to, size_t ld,
                                 const uint8_t *next) {
    const __m512i values = table ? _mm512_cvtepi8_epi32(k__ld128(table)) : _mm512_set1_epi32(off);
    __m512        s = v ? _mm512_loadu_ps(to) : _mm512_setzero_ps();
    for (int r = 0; r < rows; r += K_PACK_ROWS, w += strip)
        for (int i = 0; i < n; i++, next += 64) {
            const __m512 x = k__far_column512(bits, head, off, factor, table != NULL, values, w + p[i].unit, p + i);
            _mm_prefetch((const char *)next, _MM_HINT_T0);
            if (v) s = _mm512_fmadd_ps(_mm512_set1_ps(v[i].v), x, s);
            else _mm512_storeu_ps(to + (size_t)i * ld + r, x);
        }
    if (v) _mm512_storeu_ps(to, s);
}

#define K__FAR_CASE_512(id, name, bits, segs, head, off, most, factor, values) \
    case K_##id: k__far_columns512(bits, head, off, factor, values, w, strip, rows, p, n, v, to, ld, next); return;
K__512 void k__far_columns_512(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n,
                               const k__far *v, float *to, size_t ld, const uint8_t *next) {
    switch (k__form_like(type)) { K__FORMS_OWN(K__FAR_CASE_512) }
}

K__SHARED_512 void k_far_columns_avx512(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n,
                                        float *to, size_t ld, const uint8_t *next) {
    k__far_columns_512(type, w, strip, rows, p, n, NULL, to, ld, next);
}

K__SHARED_512 void k_far_values_avx512(uint32_t type, const uint8_t *w, const k__far_place *p, int n, const k__far *v, float *y,
                                       const uint8_t *next) {
    k__far_columns_512(type, w, 0, K_PACK_ROWS, p, n, v, y, 0, next);
}
#endif

#if K__PART(1)
/* --- avx2 --- */

K__SHARED_AVX2 void k_far_add_avx2(const float *col, size_t ld, const uint8_t *slot, k__far_list far, int rows, float *y) {
    const k__far *end = far.of + far.n;
    int           r = 0;
    for (; rows - r >= 64; r += 64) {
        __m256 s[8];
        K__UNROLL for (int i = 0; i < 8; i++) s[i] = _mm256_loadu_ps(y + r + 8 * i);
        for (const k__far *e = far.of; e < end; e++) {
            const float *w = col + slot[e->k] * ld + r;
            K__UNROLL for (int i = 0; i < 8; i++) s[i] = _mm256_fmadd_ps(_mm256_set1_ps(e->v), _mm256_load_ps(w + 8 * i), s[i]);
        }
        K__UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_ps(y + r + 8 * i, s[i]);
    }
    for (; rows - r >= 16; r += 16) {
        __m256 s[2] = {_mm256_loadu_ps(y + r), _mm256_loadu_ps(y + r + 8)};
        for (const k__far *e = far.of; e < end; e++)
            K__UNROLL for (int i = 0; i < 2; i++)
                s[i] = _mm256_fmadd_ps(_mm256_set1_ps(e->v), _mm256_load_ps(col + slot[e->k] * ld + r + 8 * i), s[i]);
        K__UNROLL for (int i = 0; i < 2; i++) _mm256_storeu_ps(y + r + 8 * i, s[i]);
    }
    for (; r < rows; r++) {
        __m128 s = _mm_set_ss(y[r]);
        for (const k__far *e = far.of; e < end; e++)
            s = _mm_fmadd_ss(_mm_set_ss(e->v), _mm_set_ss(col[slot[e->k] * ld + (size_t)r]), s);
        y[r] = _mm_cvtss_f32(s);
    }
}

/* low + high * 2^by. */
K__IN_AVX2 __m256i k__far_or8(__m256i low, __m256i high, int by) {
    return _mm256_or_si256(low, _mm256_sll_epi32(high, _mm_cvtsi32_si128(by)));
}

/* Bits `at` and above of eight lanes of a line. */
K__IN_AVX2 __m256i k__far_bits8(const uint8_t *p, int at, int mask) {
    return _mm256_and_si256(_mm256_srlv_epi32(k__ld256(p), _mm256_set1_epi32(at)), _mm256_set1_epi32(mask));
}

/* The weights of INT formats with these codes: rows r .. r + 7 of a strip. */
K__IN_AVX2 __m256 k__far_int8(int head, float factor, const uint8_t *h, const k__far_place *p, int r, __m256 q) {
    const int      last = 64 * (k__head_lines(head) - 1);
    const uint8_t *halves = h + 2 * r + last;
    const __m256i  three = _mm256_set1_epi32(3), at = _mm256_set1_epi32(p->at);
    __m256i        sc, mn;
    __m256         d;
    bool           has_min = false;
    h += 4 * r;
    if (head == K__HEAD_ONE) return _mm256_mul_ps(_mm256_loadu_ps((const float *)(const void *)h), q);
    sc = _mm256_srlv_epi32(k__ld256(h + p->scale), at);
    switch (head) {
    case K__HEAD_MIN6:
        mn = _mm256_srlv_epi32(k__ld256(h + 128), at);
        if (p->scale) {
            const __m256i low = _mm256_and_si256(_mm256_srli_epi32(_mm256_srlv_epi32(k__ld256(h), at), 6), three);
            const __m256i mid = _mm256_and_si256(_mm256_srli_epi32(sc, 4), _mm256_set1_epi32(12));
            mn = _mm256_or_si256(_mm256_or_si256(low, mid), _mm256_and_si256(_mm256_srli_epi32(mn, 2), _mm256_set1_epi32(48)));
        } else {
            mn = _mm256_and_si256(mn, _mm256_set1_epi32(63));
        }
        sc = _mm256_and_si256(sc, _mm256_set1_epi32(63));
        has_min = true;
        break;
    case K__HEAD_MIN4:
        mn = _mm256_and_si256(_mm256_srli_epi32(sc, 4), _mm256_set1_epi32(15));
        sc = _mm256_and_si256(sc, _mm256_set1_epi32(15));
        has_min = true;
        break;
    case K__HEAD_S8: sc = _mm256_srai_epi32(_mm256_slli_epi32(sc, 24), 24); break;
    case K__HEAD_S6: case K__HEAD_S6X2: {
        const bool    each16 = head == K__HEAD_S6;
        const __m256i up = _mm256_set1_epi32(each16 ? 2 * p->group : p->group & ~1);
        const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(k__ld256(h + (each16 ? 128 : 64)), up), three);
        sc = _mm256_or_si256(_mm256_and_si256(sc, _mm256_set1_epi32(15)), _mm256_slli_epi32(high, 4));
        sc = _mm256_sub_epi32(sc, _mm256_set1_epi32(32));
        break;
    }
    default: break;
    }
    if (has_min) d = k__lane_halves(halves);
    else if (head != K__HEAD_S6X2) d = _mm256_loadu_ps((const float *)(const void *)(h + last));
    else {
        __m256i f16 = _mm256_srli_epi32(k__ld256(h + last), 16);
        f16 = _mm256_permute4x64_epi64(_mm256_packus_epi32(f16, f16), 0xd8);
        d = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), _mm256_set1_ps(factor));
    }
    const __m256 w = _mm256_mul_ps(_mm256_mul_ps(d, _mm256_cvtepi32_ps(sc)), q);
    return has_min ? _mm256_sub_ps(w, _mm256_mul_ps(k__lane_halves(halves + 32), _mm256_cvtepi32_ps(mn))) : w;
}

/* The same of SCALE formats; s: the line of the scale. */
K__IN_AVX2 __m256 k__far_scale8(int head, const uint8_t *s, int r, __m256 q) {
    if (head == K__HEAD_E8) return _mm256_mul_ps(k__lane_e8(s + r), q);
    if (head == K__HEAD_E4) return _mm256_mul_ps(k__lane_e4(s + r), q);
    const __m256 w = _mm256_mul_ps(k__lane_halves(s + 2 * r), q);
    return head == K__HEAD_F16M ? _mm256_add_ps(w, k__lane_halves(s + 64 + 2 * r)) : w;
}

/* Rows r .. r + 7 of a column of a strip; values: bytes of a table, or the offset of the codes. */
K__IN_AVX2 __m256 k__far_column8(int bits, int head, int off, float factor, bool table, __m256i values, const uint8_t *unit,
                                 const k__far_place *p, int r) {
    const uint8_t *codes = unit + 4 * r;
    __m256i        u = _mm256_setzero_si256();
    if (bits == 8) u = k__far_bits8(codes + p->line[0], p->bit[0], 255);
    else {
        if (bits & 4) u = k__far_bits8(codes + p->line[0], p->bit[0], 15);
        if (bits & 2) u = k__far_or8(u, k__far_bits8(codes + p->line[1], p->bit[1], 3), bits & 4);
        if (bits & 1) u = k__far_or8(u, k__far_bits8(codes + p->line[2], p->bit[2], 1), bits & 6);
    }
    if (table) u = _mm256_srai_epi32(_mm256_slli_epi32(_mm256_shuffle_epi8(values, u), 24), 24);
    else if (off) u = _mm256_sub_epi32(u, values);
    const __m256 q = _mm256_cvtepi32_ps(u);
    return head <= K__HEAD_ONE ? k__far_int8(head, factor, unit, p, r, q) : k__far_scale8(head, unit + p->scale, r, q);
}

K__IN_AVX2 void k__far_columns8(int bits, int head, int off, float factor, const int8_t *table, const uint8_t *w, size_t strip,
                                int rows, const k__far_place *p, int n, const k__far *v, float *to, size_t ld,
                                const uint8_t *next) {
    const __m256i values = table ? _mm256_broadcastsi128_si256(k__ld128(table)) : _mm256_set1_epi32(off);
    __m256        s[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    if (v) s[0] = _mm256_loadu_ps(to), s[1] = _mm256_loadu_ps(to + 8);
    for (int r = 0; r < rows; r += K_PACK_ROWS, w += strip)
        for (int i = 0; i < n; i++, next += 64) {
            _mm_prefetch((const char *)next, _MM_HINT_T0);
            K__UNROLL for (int h = 0; h < 2; h++) {
                const __m256 x = k__far_column8(bits, head, off, factor, table != NULL, values, w + p[i].unit, p + i, 8 * h);
                if (v) s[h] = _mm256_fmadd_ps(_mm256_set1_ps(v[i].v), x, s[h]);
                else _mm256_store_ps(to + (size_t)i * ld + r + 8 * h, x);
            }
        }
    if (v) _mm256_storeu_ps(to, s[0]), _mm256_storeu_ps(to + 8, s[1]);
}

#define K__FAR_CASE_AVX2(id, name, bits, segs, head, off, most, factor, values) \
    case K_##id: k__far_columns8(bits, head, off, factor, values, w, strip, rows, p, n, v, to, ld, next); return;
K__AVX2 void k__far_columns_avx2(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n,
                                 const k__far *v, float *to, size_t ld, const uint8_t *next) {
    switch (k__form_like(type)) { K__FORMS_OWN(K__FAR_CASE_AVX2) }
}

K__SHARED_AVX2 void k_far_columns_avx2(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n,
                                       float *to, size_t ld, const uint8_t *next) {
    k__far_columns_avx2(type, w, strip, rows, p, n, NULL, to, ld, next);
}

K__SHARED_AVX2 void k_far_values_avx2(uint32_t type, const uint8_t *w, const k__far_place *p, int n, const k__far *v, float *y,
                                      const uint8_t *next) {
    k__far_columns_avx2(type, w, 0, K_PACK_ROWS, p, n, v, y, 0, next);
}
#endif
#endif
