/* ===== [far] outliers of activations =====
 * In trained models single channels are a hundred times larger than the others. One scale for 256 activations then leaves almost
 * nothing of the other 255. So the values far above the mean of their block (k__peaked) leave it, and the others, with what
 * rounding took from the far ones, have a scale of their own. The product of the codes is one of [quant] or [packed]; then each
 * far value v of column k adds v * w[k] to each result, in the order of the columns, by one FMA with the dequantised weight. Far
 * values of many rows are in few columns, so a column is dequantised once for all rows of a product. Only the values of a row
 * decide, not its company. */

enum {
    K__FAR_SLOTS = 256,                               /* columns that are dequantised at a time */
    K__FAR_STEP  = 128                                /* rows of weights at a time */
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

typedef float k__far_cols[K__FAR_SLOTS][K__FAR_STEP];    /* dequantised columns */

/* y[rows] += v * col[slot[k]] of the far values, one after the other. */
static void k_far_add_ref(k__far_cols col, const uint8_t *slot, k__far_list far, int rows, float *y) {
    for (int i = 0; i < far.n; i++) {
        const float *w = col[slot[far.of[i].k]];
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
        k__unpack_block(type, p, ty->block, &u);
        return k__far_weight(ty, &u, i / (ty->kind == K_KIND_INT ? 16 : ty->group), u.q[i]);
    }
}

/* Code of k-line i, byte b, of the planes of 64 columns at p. */
K__BODY int k__far_code(int bits, const uint8_t *p, int i, int b) {
    int v = 0;
    if (bits == 8) return p[64 * i + b];
    if (bits & 4) v = p[k__plane4(bits, i) + b] >> i / 8 * 4 & 15;
    if (bits & 2) v |= (p[k__plane2(bits, i) + b] >> i % 4 * 2 & 3) << (bits & 4);
    if (bits & 1) v |= (p[k__plane1(i) + b] >> i % 8 & 1) << (bits & 6);
    return v;
}

/* Where column k of a strip is: its unit, the planes of its 64 columns and the head. */
typedef struct {
    const uint8_t *codes, *head;
    int            line, byte, in_unit;               /* k-line of 64 columns; byte in it; column in the unit */
} k__far_place;

K__BODY k__far_place k__far_find(const k__form *f, const uint8_t *strip, int k) {
    const int      width = 64 * f->segs;
    const uint8_t *unit = strip + (size_t)(k / width) * k__unit_bytes(f);
    return (k__far_place){.codes = unit + k__codes_at(f) + (size_t)(k % width / 64) * (size_t)(128 * f->bits),
                          .head = unit + k__head_at(f), .line = k % 64 / 4, .byte = k % 4, .in_unit = k % width};
}

/* Column k of `rows` packed rows; strip: bytes of 16 rows. May write up to the end of the last strip. */
static void k_far_column_ref(uint32_t type, const uint8_t *w, size_t strip, int rows, int k, float *to) {
    const k__form *f = &k__forms[type];
    const k_type  *ty = &k_types[type];
    for (int r = 0; r < rows; r++) {
        const k__far_place p = k__far_find(f, w + (size_t)(r / K_PACK_ROWS) * strip, k);
        const int          v = k__far_code(f->bits, p.codes, p.line, 4 * (r % K_PACK_ROWS) + p.byte);
        k__unpacked        u;
        k__head_get(f, p.head, 0, r % K_PACK_ROWS, &u);
        to[r] = k__far_weight(ty, &u, p.in_unit / (ty->kind == K_KIND_INT ? 16 : ty->group),
                              f->values ? f->values[v & 15] : v - f->off);
    }
}

#if K__X86
#define K__FAR_OF(target, l)                                                                                   \
    target void k_far_add_##l(k__far_cols col, const uint8_t *slot, k__far_list far, int rows, float *y);      \
    target void k_far_column_##l(uint32_t type, const uint8_t *w, size_t strip, int rows, int k, float *to);
K__FAR_OF(K__SHARED_AVX2, avx2)
K__FAR_OF(K__SHARED_512, avx512)

#if K__PART(2)
/* --- avx512 --- */

/* n vectors of sums from y on, of the rows from `from` on; the last has the rows of `last`. */
K__IN_512 void k__far_add512(int n, k__far_cols col, int from, const uint8_t *slot, k__far_list far, __mmask16 last, float *y) {
    __m512 s[8];
    K__UNROLL for (int i = 0; i < n; i++) s[i] = _mm512_maskz_loadu_ps(i + 1 < n ? 0xffff : last, y + from + 16 * i);
    for (const k__far *e = far.of; e < far.of + far.n; e++) {
        const float *w = col[slot[e->k]] + from;
        const __m512 x = _mm512_set1_ps(e->v);
        K__UNROLL for (int i = 0; i < n; i++) s[i] = _mm512_fmadd_ps(x, _mm512_load_ps(w + 16 * i), s[i]);
    }
    K__UNROLL for (int i = 0; i < n; i++) _mm512_mask_storeu_ps(y + from + 16 * i, i + 1 < n ? 0xffff : last, s[i]);
}

K__SHARED_512 void k_far_add_avx512(k__far_cols col, const uint8_t *slot, k__far_list far, int rows, float *y) {
    int r = 0;
    if (rows == K__FAR_STEP) {
        k__far_add512(K__FAR_STEP / 16, col, 0, slot, far, 0xffff, y);
        return;
    }
    for (; rows - r >= 64; r += 64) k__far_add512(4, col, r, slot, far, 0xffff, y);
    for (; r < rows; r += 16)
        k__far_add512(1, col, r, slot, far, (__mmask16)(rows - r >= 16 ? 0xffff : (1 << (rows - r)) - 1), y);
}

/* low + high * 2^by. */
K__IN_512 __m512i k__far_or512(__m512i low, __m512i high, unsigned by) {
    return _mm512_or_si512(low, _mm512_slli_epi32(high, by));
}

/* Bits `at` and above of the lanes of a line. */
K__IN_512 __m512i k__far_bits512(const uint8_t *p, int at, int mask) {
    return _mm512_and_si512(_mm512_srl_epi32(k__ld512(p), _mm_cvtsi32_si128(at)), _mm512_set1_epi32(mask));
}

/* The weights of INT formats with these codes. */
K__IN_512 __m512 k__far_int512(int head, float factor, const uint8_t *h, int in_unit, __m512 q) {
    const int g16 = in_unit / 16, g = in_unit / 32, last = 64 * (k__head_lines(head) - 1);
    __m512i   sc = _mm512_set1_epi32(1), mn = sc;
    __m512    d = _mm512_loadu_ps((const float *)(const void *)(h + last));
    bool      has_min = false;
    switch (head) {
    case K__HEAD_MIN6:
        sc = k__far_bits512(h + g / 4 * 64, g % 4 * 8, 63);
        if (g < 4) mn = k__far_bits512(h + 128, g * 8, 63);
        else mn = k__far_or512(k__far_or512(k__far_bits512(h, g % 4 * 8 + 6, 3), k__far_bits512(h + 64, g % 4 * 8 + 6, 3), 2),
                               k__far_bits512(h + 128, g % 4 * 8 + 6, 3), 4);
        has_min = true;
        break;
    case K__HEAD_MIN4:
        sc = k__far_bits512(h + g16 / 4 * 64, g16 % 4 * 8, 15);
        mn = k__far_bits512(h + g16 / 4 * 64, g16 % 4 * 8 + 4, 15);
        has_min = true;
        break;
    case K__HEAD_S8:
        sc = _mm512_sll_epi32(k__ld512(h + g16 / 4 * 64), _mm_cvtsi32_si128(24 - g16 % 4 * 8));
        sc = _mm512_srai_epi32(sc, 24);
        break;
    case K__HEAD_S6:
        sc = k__far_or512(k__far_bits512(h + g16 / 8 * 64, g16 % 8 * 4, 15), k__far_bits512(h + 128, 2 * g16, 3), 4);
        sc = _mm512_sub_epi32(sc, _mm512_set1_epi32(32));
        break;
    case K__HEAD_S6X2:
        sc = k__far_or512(k__far_bits512(h, 4 * g, 15), k__far_bits512(h + 64, 2 * g, 3), 4);
        sc = _mm512_sub_epi32(sc, _mm512_set1_epi32(32));
        d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(k__ld512(h + last), 16)));
        d = _mm512_mul_ps(d, _mm512_set1_ps(factor));
        break;
    default: break;
    }
    if (has_min) d = _mm512_cvtph_ps(k__ld256(h + last));
    __m512 w = _mm512_mul_ps(_mm512_mul_ps(d, _mm512_cvtepi32_ps(sc)), q);
    if (!has_min) return w;
    return _mm512_sub_ps(w, _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + last + 32)), _mm512_cvtepi32_ps(mn)));
}

/* The same of SCALE formats. */
K__IN_512 __m512 k__far_scale512(int head, int segs, const uint8_t *h, int in_unit, __m512 q) {
    const int g = in_unit / 32;
    if (head == K__HEAD_E8) {
        const __m512i   e = _mm512_cvtepu8_epi32(k__ld128(h + 16 * g)), one = _mm512_set1_epi32(1);
        const __mmask16 low = _mm512_cmple_epi32_mask(e, one);
        const __m512i   v = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
        return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_mask_sllv_epi32(v, low, _mm512_set1_epi32(0x00200000), e)), q);
    }
    if (head == K__HEAD_E4) {
        const __m256i v = _mm256_slli_epi16(_mm256_cvtepu8_epi16(k__ld128(h + in_unit / 16 * 16)), 7);
        return _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtph_ps(v), _mm512_set1_ps(0x1p7f)), q);
    }
    const __m512 w = _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + 32 * (g / segs))), q);
    return head == K__HEAD_F16M ? _mm512_add_ps(w, _mm512_cvtph_ps(k__ld256(h + 64 + 32 * g))) : w;
}

K__IN_512 void k__far_column512(int bits, int segs, int head, int off, float factor, const int8_t *table, k__far_place p,
                                size_t strip, int rows, float *to) {
    const int     i = p.line, byte = 8 * p.byte;
    const __m512i values = table ? _mm512_cvtepi8_epi32(k__ld128(table)) : _mm512_setzero_si512();
    for (int r = 0; r < rows; r += K_PACK_ROWS, p.codes += strip, p.head += strip) {
        __m512i u = _mm512_setzero_si512();
        if (bits == 8) u = k__far_bits512(p.codes + 64 * i, byte, 255);
        else {
            if (bits & 4) u = k__far_bits512(p.codes + k__plane4(bits, i), byte + i / 8 * 4, 15);
            if (bits & 2)
                u = k__far_or512(u, k__far_bits512(p.codes + k__plane2(bits, i), byte + i % 4 * 2, 3), (unsigned)bits & 4);
            if (bits & 1) u = k__far_or512(u, k__far_bits512(p.codes + k__plane1(i), byte + i % 8, 1), (unsigned)bits & 6);
        }
        if (table) u = _mm512_permutexvar_epi32(u, values);
        else if (off) u = _mm512_sub_epi32(u, _mm512_set1_epi32(off));
        const __m512 q = _mm512_cvtepi32_ps(u);
        _mm512_storeu_ps(to + r, head <= K__HEAD_ONE ? k__far_int512(head, factor, p.head, p.in_unit, q)
                                                     : k__far_scale512(head, segs, p.head, p.in_unit, q));
    }
}

#define K__FAR_CASE_512(id, name, bits, segs, head, off, most, factor, values) \
    case K_##id: k__far_column512(bits, segs, head, off, factor, values, p, strip, rows, to); return;
K__SHARED_512 void k_far_column_avx512(uint32_t type, const uint8_t *w, size_t strip, int rows, int k, float *to) {
    const k__far_place p = k__far_find(&k__forms[type], w, k);
    switch (type) { K__FORMS(K__FAR_CASE_512) }
}
#endif

#if K__PART(1)
/* --- avx2 --- */

K__SHARED_AVX2 void k_far_add_avx2(k__far_cols col, const uint8_t *slot, k__far_list far, int rows, float *y) {
    const k__far *end = far.of + far.n;
    int           r = 0;
    for (; rows - r >= 64; r += 64) {
        __m256 s[8];
        K__UNROLL for (int i = 0; i < 8; i++) s[i] = _mm256_loadu_ps(y + r + 8 * i);
        for (const k__far *e = far.of; e < end; e++) {
            const float *w = col[slot[e->k]] + r;
            K__UNROLL for (int i = 0; i < 8; i++) s[i] = _mm256_fmadd_ps(_mm256_set1_ps(e->v), _mm256_load_ps(w + 8 * i), s[i]);
        }
        K__UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_ps(y + r + 8 * i, s[i]);
    }
    for (; rows - r >= 8; r += 8) {
        __m256 s = _mm256_loadu_ps(y + r);
        for (const k__far *e = far.of; e < end; e++)
            s = _mm256_fmadd_ps(_mm256_set1_ps(e->v), _mm256_load_ps(col[slot[e->k]] + r), s);
        _mm256_storeu_ps(y + r, s);
    }
    for (; r < rows; r++) {
        __m128 s = _mm_set_ss(y[r]);
        for (const k__far *e = far.of; e < end; e++) s = _mm_fmadd_ss(_mm_set_ss(e->v), _mm_set_ss(col[slot[e->k]][r]), s);
        y[r] = _mm_cvtss_f32(s);
    }
}

/* low + high * 2^by. */
K__IN_AVX2 __m256i k__far_or8(__m256i low, __m256i high, int by) {
    return _mm256_or_si256(low, _mm256_sll_epi32(high, _mm_cvtsi32_si128(by)));
}

/* Bits `at` and above of eight lanes of a line. */
K__IN_AVX2 __m256i k__far_bits8(const uint8_t *p, int at, int mask) {
    return _mm256_and_si256(_mm256_srl_epi32(k__ld256(p), _mm_cvtsi32_si128(at)), _mm256_set1_epi32(mask));
}

/* The weights of INT formats with these codes: rows r .. r + 7 of a strip. */
K__IN_AVX2 __m256 k__far_int8(const k__form *f, const uint8_t *h, int in_unit, int r, __m256 q) {
    const int g16 = in_unit / 16, g = in_unit / 32, last = 64 * (k__head_lines(f->head) - 1);
    __m256i   sc = _mm256_set1_epi32(1), mn = sc;
    h += 4 * r;
    __m256 d = _mm256_loadu_ps((const float *)(const void *)(h + last));
    bool   has_min = false;
    switch (f->head) {
    case K__HEAD_MIN6:
        sc = k__far_bits8(h + g / 4 * 64, g % 4 * 8, 63);
        if (g < 4) mn = k__far_bits8(h + 128, g * 8, 63);
        else mn = k__far_or8(k__far_or8(k__far_bits8(h, g % 4 * 8 + 6, 3), k__far_bits8(h + 64, g % 4 * 8 + 6, 3), 2),
                             k__far_bits8(h + 128, g % 4 * 8 + 6, 3), 4);
        has_min = true;
        break;
    case K__HEAD_MIN4:
        sc = k__far_bits8(h + g16 / 4 * 64, g16 % 4 * 8, 15);
        mn = k__far_bits8(h + g16 / 4 * 64, g16 % 4 * 8 + 4, 15);
        has_min = true;
        break;
    case K__HEAD_S8:
        sc = _mm256_srai_epi32(_mm256_sll_epi32(k__ld256(h + g16 / 4 * 64), _mm_cvtsi32_si128(24 - g16 % 4 * 8)), 24);
        break;
    case K__HEAD_S6:
        sc = k__far_or8(k__far_bits8(h + g16 / 8 * 64, g16 % 8 * 4, 15), k__far_bits8(h + 128, 2 * g16, 3), 4);
        sc = _mm256_sub_epi32(sc, _mm256_set1_epi32(32));
        break;
    case K__HEAD_S6X2: {
        sc = k__far_or8(k__far_bits8(h, 4 * g, 15), k__far_bits8(h + 64, 2 * g, 3), 4);
        sc = _mm256_sub_epi32(sc, _mm256_set1_epi32(32));
        __m256i f16 = _mm256_srli_epi32(k__ld256(h + last), 16);
        f16 = _mm256_permute4x64_epi64(_mm256_packus_epi32(f16, f16), 0xd8);
        d = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), _mm256_set1_ps(f->factor));
        break;
    }
    default: break;
    }
    const uint8_t *halves = h - 2 * r + last;
    if (has_min) d = k__lane_halves(halves);
    __m256 w = _mm256_mul_ps(_mm256_mul_ps(d, _mm256_cvtepi32_ps(sc)), q);
    return has_min ? _mm256_sub_ps(w, _mm256_mul_ps(k__lane_halves(halves + 32), _mm256_cvtepi32_ps(mn))) : w;
}

/* The same of SCALE formats. */
K__IN_AVX2 __m256 k__far_scale8(const k__form *f, const uint8_t *h, int in_unit, int r, __m256 q) {
    const int g = in_unit / 32;
    if (f->head == K__HEAD_E8) return _mm256_mul_ps(k__lane_e8(h + 16 * g + r), q);
    if (f->head == K__HEAD_E4) return _mm256_mul_ps(k__lane_e4(h + in_unit / 16 * 16 + r), q);
    const __m256 w = _mm256_mul_ps(k__lane_halves(h + 32 * (g / f->segs) + 2 * r), q);
    return f->head == K__HEAD_F16M ? _mm256_add_ps(w, k__lane_halves(h + 64 + 32 * g + 2 * r)) : w;
}

K__SHARED_AVX2 void k_far_column_avx2(uint32_t type, const uint8_t *w, size_t strip, int rows, int k, float *to) {
    const k__form *f = &k__forms[type];
    const int      bits = f->bits;
    int32_t        values[16];
    for (int i = 0; i < 16; i++) values[i] = f->values ? f->values[i] : 0;
    const k__far_place p = k__far_find(f, w, k);
    const int          i = p.line, byte = 8 * p.byte;
    for (int r = 0; r < rows; r += 8) {
        const size_t   to_strip = (size_t)(r / K_PACK_ROWS) * strip;
        const int      at = r % K_PACK_ROWS;
        const uint8_t *codes = p.codes + to_strip + 4 * at, *head = p.head + to_strip;
        __m256i        u = _mm256_setzero_si256();
        if (bits == 8) u = k__far_bits8(codes + 64 * i, byte, 255);
        else {
            if (bits & 4) u = k__far_bits8(codes + k__plane4(bits, i), byte + i / 8 * 4, 15);
            if (bits & 2) u = k__far_or8(u, k__far_bits8(codes + k__plane2(bits, i), byte + i % 4 * 2, 3), bits & 4);
            if (bits & 1) u = k__far_or8(u, k__far_bits8(codes + k__plane1(i), byte + i % 8, 1), bits & 6);
        }
        u = f->values ? _mm256_i32gather_epi32(values, u, 4) : _mm256_sub_epi32(u, _mm256_set1_epi32(f->off));
        const __m256 q = _mm256_cvtepi32_ps(u);
        _mm256_storeu_ps(to + r, f->head <= K__HEAD_ONE ? k__far_int8(f, head, p.in_unit, at, q)
                                                        : k__far_scale8(f, head, p.in_unit, at, q));
    }
}
#endif
#endif
