/* ===== [quant_avx512] =====
 * AVX-512 F BW DQ VL VNNI: vpdpbusd sums four products of u8 and s8 per lane, exactly. */

K__IN_512 __m512i k__ld512(const void *p) { return _mm512_loadu_si512(p); }
K__IN_512 __m512i k__twice512(const void *p) { return _mm512_broadcast_i64x4(k__ld256(p)); }
K__IN_512 __m512i k__pair512(__m256i a, __m256i b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* 64-bit lanes: lo in the lower 256 bits, hi in the upper. */
K__IN_512 __m512i k__halves512(int lo, int hi) { return _mm512_set_epi64(hi, hi, hi, hi, lo, lo, lo, lo); }

/* 32 bytes hold two planes of 32 codes: plane 0 after a right shift by lo, plane 1 by hi. */
K__IN_512 __m512i k__planes512(const uint8_t *p, int lo, int hi, int mask) {
    return _mm512_and_si512(_mm512_srlv_epi64(k__twice512(p), k__halves512(lo, hi)),
                            _mm512_set1_epi8((char)mask));
}

/* Bit g of byte j, for planes g = at (lower half) and at + 1 (upper half), moved to bit `to`. */
K__IN_512 __m512i k__bits512(const uint8_t *p, int at, int to) {
    __m512i by = k__halves512((to - at) & 63, (to - at - 1) & 63);
    return _mm512_and_si512(_mm512_rolv_epi64(k__twice512(p), by), _mm512_set1_epi8((char)(1 << to)));
}

/* Two blocks of 32 nibbles, 16 bytes each: low nibbles first. */
K__IN_512 __m512i k__nibbles512(const uint8_t *a, const uint8_t *b) {
    __m512i v = k__pair512(_mm256_broadcastsi128_si256(k__ld128(a)),
                           _mm256_broadcastsi128_si256(k__ld128(b)));
    v = _mm512_srlv_epi64(v, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0));
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

/* The same; a nibble is an index into a table of signed values, and the result is offset by 128. */
K__IN_512 __m512i k__table512(__m512i nibbles, const int8_t *table) {
    __m512i t = _mm512_xor_si512(_mm512_broadcast_i32x4(k__ld128(table)), _mm512_set1_epi8(-128));
    return _mm512_shuffle_epi8(t, nibbles);
}

/* Codes 64c .. 64c + 63 of the 256 at p, unsigned, in order. */
K__IN_512 __m512i k__codes512(uint32_t type, const uint8_t *p, int c) {
    const uint8_t *h = p + 32 * (c / 2);              /* for the formats in halves of 128 */
    int            plane = c % 2 * 4;
    switch (type) {
    case K_Q4_K: return k__planes512(p + 16 + 32 * c, 0, 4, 15);
    case K_Q5_K:
        return _mm512_or_si512(k__planes512(p + 48 + 32 * c, 0, 4, 15), k__bits512(p + 16, 2 * c, 4));
    case K_Q2_K: return k__planes512(h + 16, plane, plane + 2, 3);
    case K_TQ2_0: return k__planes512(h, plane, plane + 2, 3);
    case K_Q3_K: return _mm512_or_si512(k__planes512(h + 32, plane, plane + 2, 3), k__bits512(p, 2 * c, 2));
    case K_Q6_K: {
        __m512i lo = _mm512_srli_epi16(k__ld512(p + 64 * (c / 2)), c % 2 * 4), hi = k__twice512(h + 128);
        hi = c % 2 ? _mm512_srlv_epi64(hi, k__halves512(0, 2)) : _mm512_sllv_epi64(hi, k__halves512(4, 2));
        hi = _mm512_and_si512(hi, _mm512_set1_epi8(0x30));
        return _mm512_ternarylogic_epi64(lo, _mm512_set1_epi8(15), hi, 0xea);   /* (a & b) | c */
    }
    case K_Q4_0: return k__nibbles512(p + 36 * c + 2, p + 36 * c + 20);
    case K_Q4_1: return k__nibbles512(p + 40 * c + 4, p + 40 * c + 24);
    case K_Q5_0: {
        uint64_t bits = k__u32(p + 44 * c + 2) | (uint64_t)k__u32(p + 44 * c + 24) << 32;
        __m512i  lo = k__nibbles512(p + 44 * c + 6, p + 44 * c + 28);
        return _mm512_mask_add_epi8(lo, bits, lo, _mm512_set1_epi8(16));
    }
    case K_Q5_1: {
        uint64_t bits = k__u32(p + 48 * c + 4) | (uint64_t)k__u32(p + 48 * c + 28) << 32;
        __m512i  lo = k__nibbles512(p + 48 * c + 8, p + 48 * c + 32);
        return _mm512_mask_add_epi8(lo, bits, lo, _mm512_set1_epi8(16));
    }
    case K_Q1_0: {
        uint64_t bits;                                /* +-1 offset by 1: 0 or 2 */
        memcpy(&bits, p + 18 * (c / 2) + 2 + c % 2 * 8, 8);
        return _mm512_maskz_mov_epi8(bits, _mm512_set1_epi8(2));
    }
    case K_IQ4_NL: return k__table512(k__nibbles512(p + 36 * c + 2, p + 36 * c + 20), k__iq4_values);
    case K_IQ4_XS: return k__table512(k__nibbles512(p + 8 + 32 * c, p + 24 + 32 * c), k__iq4_values);
    case K_MXFP4: return k__table512(k__nibbles512(p + 34 * c + 1, p + 34 * c + 18), k__fp4_values);
    case K_NVFP4: {                                   /* every 8 bytes are 16 codes, low nibbles first */
        __m512i v = _mm512_castsi256_si512(k__ld256(p + 36 * c + 4));
        v = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0), v);
        v = _mm512_srlv_epi64(v, _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0));
        return k__table512(_mm512_and_si512(v, _mm512_set1_epi8(15)), k__fp4_values);
    }
    case K_Q8_0:
        return _mm512_xor_si512(k__pair512(k__ld256(p + 68 * c + 2), k__ld256(p + 68 * c + 36)),
                                _mm512_set1_epi8(-128));
    default: return _mm512_xor_si512(k__ld512(p + 64 * c), _mm512_set1_epi8(-128));   /* K__ANY */
    }
}

/* --- dot --- */

/* dword i of lane l of the result is the sum over lane l of v[i] */
K__IN_512 __m512i k__sum4x4(const __m512i *v) {
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Factors of four products each, in the format of k__scaled512. Narrow: words, s[0] for codes 0..127 and s[1]
 * for the rest; lane l holds groups l and 4 + l of its eight. Else dwords: s[j] for codes 64j .. 64j + 63. */
K__IN_512 void k__factors512(uint32_t type, const uint8_t *p, __m256i sc, __m512i *s) {
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    if (k__off(type) == K__WIDE) {
        __m512i v = _mm512_cvtepi16_epi32(sc);
        K__UNROLL for (int j = 0; j < 4; j++)
            s[j] = _mm512_permutexvar_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(4 * j)), v);
    } else if (type == K_Q4_K || type == K_Q5_K) {    /* byte g is groups 2g and 2g + 1 */
        uint64_t bytes = k__q4_K_sc(p);
        __asm__("" : "+m"(bytes));
        __m512i v = _mm512_set1_epi64((long long)bytes);
        const long long b0 = (long long)0x8000800080008000u, b1 = b0 + 0x0001000100010001;
        const long long b2 = b1 + 0x0001000100010001, b3 = b2 + 0x0001000100010001;   /* byte b to words */
        const __m512i   first = _mm512_set_epi64(b3, b1, b3, b1, b2, b0, b2, b0);
        s[0] = _mm512_shuffle_epi8(v, first);
        s[1] = _mm512_shuffle_epi8(v, _mm512_add_epi8(first, _mm512_set1_epi16(4)));
    } else { /* words l and 4 + l of sixteen */
        __m512i v = _mm512_castsi256_si512(sc),
                at = _mm512_set_epi64(0x0007000700070007, 0x0003000300030003, 0x0006000600060006,
                                      0x0002000200020002, 0x0005000500050005, 0x0001000100010001,
                                      0x0004000400040004, 0);
        s[0] = _mm512_permutexvar_epi16(at, v);
        s[1] = _mm512_permutexvar_epi16(_mm512_add_epi16(at, _mm512_set1_epi16(8)), v);
    }
}

/* Sum of factor times dot over a block, as 8 partial sums. Narrow: u <= 63, so that four products fit in a word. */
K__IN_512 __m256i k__scaled512(bool narrow, const __m512i *w, const __m512i *s, const int8_t *q) {
    __m512i e[4], v;
    K__UNROLL for (int j = 0; j < 4; j++)
        e[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[j], k__ld512(q + 64 * j));
    if (narrow) {
        v = _mm512_madd_epi16(_mm512_packs_epi32(e[0], e[1]), s[0]);
        v = _mm512_dpwssd_epi32(v, _mm512_packs_epi32(e[2], e[3]), s[1]);
    } else {
        v = _mm512_add_epi32(_mm512_mullo_epi32(e[0], s[0]), _mm512_mullo_epi32(e[1], s[1]));
        v = _mm512_add_epi32(
            v, _mm512_add_epi32(_mm512_mullo_epi32(e[2], s[2]), _mm512_mullo_epi32(e[3], s[3])));
    }
    return _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
}

/* The upper half of each vector holds the minima: one tree of sums, one conversion and one product for both. */
K__IN_512 void k__min_finish512(const k__int_park *k, int c, const float *da, float *term) {
    __m512i a[8];
    K__UNROLL for (int i = 0; i < 8; i++) a[i] = _mm512_load_si512(k->sum[c][i]);
    a[0] = k__sum4x4(a);
    a[4] = k__sum4x4(a + 4);                          /* lanes: isum, isum, imin, imin of four blocks each */
    a[0] = _mm512_add_epi32(_mm512_shuffle_i32x4(a[0], a[4], 0x88), _mm512_shuffle_i32x4(a[0], a[4], 0xdd));
    __m256  d = k__park_d(k, true, false), dm = k__park_d(k, true, true);
    __m512  f = _mm512_insertf32x8(_mm512_castps256_ps512(d), dm, 1);
    f = _mm512_mul_ps(_mm512_shuffle_f32x4(f, f, 0xd8), _mm512_cvtepi32_ps(a[0]));   /* isum imin isum imin */
    f = _mm512_shuffle_f32x4(f, f, 0xd8);
    __m256 u = _mm256_sub_ps(_mm512_castps512_ps256(f), _mm512_extractf32x8_ps(f, 1));
    _mm256_storeu_ps(term, _mm256_mul_ps(u, _mm256_loadu_ps(da)));
}

/* The terms of the rows at p times the columns of x: term[c*ld + block]. */
K__IN_512 void k__int_row512(uint32_t type, bool has_min, const uint8_t *p, int rows, uint32_t any,
                             const k__cols *x, int nc, float *term, size_t ld) {
    const size_t step = k__super_bytes(type == K__ANY ? any : type);
    const float  scale = type == K__ANY ? k__row_scale(any, p) : 1;   /* rows is 1 where it stands in front of them */
    const bool   narrow = k__off(type) != K__WIDE;
    k__int_park  park;
    k__unpacked  u;
    if (type == K__ANY) p += k__row_front(any);
    for (int b0 = 0, b = 0; b0 < rows * x->nb; b0 += 8) {
        const int m = rows * x->nb - b0 < 8 ? rows * x->nb - b0 : 8, first = b;
        if (m < 8) k__int_blank(&park, nc, m);
        for (int i = 0; i < m; i++, p += step, b = b + 1 < x->nb ? b + 1 : 0) {
            const uint8_t *src = p;
            k__fetch_ahead(p, step);
            if (type == K__ANY) {
                k__unpack_block(any, p, K_SUPER, &u);
                u.d *= scale;
                src = (const uint8_t *)&u;            /* the codes are its first member */
            }
            __m512i  w[4], s[4];
            k__heads h = k__heads_of(type, src);
            K__UNROLL for (int j = 0; j < 4; j++) w[j] = k__codes512(type, src, j);
            k__factors512(type, src, h.sc, s);
            park.d[i] = h.d;
            K__NO_UNROLL for (int c = 0; c < nc; c++) {
                __m256i sum = k__ld256(x->sum[c][b].of16);
                __m256i r = k__scaled512(narrow, w, s, x->q[c] + (size_t)b * K_SUPER);
                if (k__off(type) >= 0)
                    r = _mm256_sub_epi32(r, _mm256_slli_epi32(_mm256_madd_epi16(h.sc, sum), k__off(type)));
                park.sum[c][i][0] = r;
                if (has_min) park.sum[c][i][1] = _mm256_madd_epi16(h.mn, sum);
            }
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++) {
            float *to = term + (size_t)c * ld + b0;
            if (has_min) k__min_finish512(&park, c, x->d[c] + first, to);
            else k__int_finish(&park, type != K__ANY, false, c, x->d[c] + first, to);
        }
    }
}

/* Sums of the groups of one block and column without the offset, in order: 8 groups of 32 or 16 of 16. */
K__IN_512 void k__group_sums512(uint32_t type, int group, bool has_min, const __m512i *w, const int8_t *q,
                                const int16_t *sum, __m256i *dot, __m256i *asum) {
    __m512i v[4];
    K__UNROLL for (int j = 0; j < 4; j++)
        v[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[j], k__ld512(q + 64 * j));
    __m512i r = k__sum4x4(v);                         /* lane l: groups of 16 l, 4 + l, 8 + l, 12 + l */
    __m256i s = k__ld256(sum);
    if (group == 16) {
        r = _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0),
                                     r);
        if (k__off(type) >= 0)
            r = _mm512_sub_epi32(r, _mm512_slli_epi32(_mm512_cvtepi16_epi32(s), (unsigned)k__off(type)));
        dot[0] = _mm512_castsi512_si256(r);
        dot[1] = _mm512_extracti64x4_epi64(r, 1);
        return;
    }
    r = _mm512_add_epi32(r, _mm512_shuffle_i32x4(r, r, 0xb1));
    r = _mm512_permutexvar_epi32(_mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 11, 3, 10, 2, 9, 1, 8, 0), r);
    __m256i g = _mm512_castsi512_si256(r), pairs = _mm256_madd_epi16(s, _mm256_set1_epi16(1));
    if (k__off(type) >= 0) g = _mm256_sub_epi32(g, _mm256_slli_epi32(pairs, k__off(type)));
    dot[0] = g;
    if (has_min) *asum = pairs;
}

K__IN_512 void k__scale_row512(uint32_t type, int group, bool has_min, const uint8_t *p, int rows,
                               uint32_t any, const k__cols *x, int nc, float *term, size_t ld) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    const int      nb = x->nb + (x->tail > 0);
    uint8_t        last[K__PAD];
    k__scale_park  park;
    k__unpacked    u;
    for (int b0 = 0, b = 0; b0 < rows * nb; b0 += 8) {
        const int m = rows * nb - b0 < 8 ? rows * nb - b0 : 8, first = b;
        if (m < 8) k__scale_blank(&park, nc, m);
        for (int i = 0; i < m; i++, p += step, b = b + 1 < nb ? b + 1 : 0) {
            const uint8_t *src = b < x->nb ? p : k__pad_tail(real, p, x->tail, last);
            k__fetch_ahead(p, step);
            if (type == K__ANY) {
                k__unpack_block(any, src, K_SUPER, &u);
                src = (const uint8_t *)&u;
            }
            __m512i w[4];
            K__UNROLL for (int j = 0; j < 4; j++) w[j] = k__codes512(type, src, j);
            k__park_scales(type, src, has_min, park.fs[i], park.hs[i], park.hm[i]);
            for (int c = 0; c < nc; c++)
                k__group_sums512(type, group, has_min, w, k__cols_q(x, c, b), k__cols_sum(x, c, b),
                                 park.dot[c][i], &park.asum[c][i]);
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++) k__scale_finish(
            &park, k__has_halves(type), group, has_min, c, x->d[c] + first, term + (size_t)c * ld + b0);
    }
}

/* --- panel --- */

/* 16x16 transpose of dwords. */
K__IN_512 void k__transpose16(__m512i *r) {
    __m512i t[16];
    K__UNROLL for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        r[4 * i + 0] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* The same from memory to memory; row k goes to `to` + k strips. */
K__512 void k__spill16(const __m512i *from, void *to) {
    __m512i r[16];
    K__UNROLL for (int i = 0; i < 16; i++) r[i] = _mm512_load_si512(from + i);
    k__transpose16(r);
    K__UNROLL for (int i = 0; i < 16; i++) _mm512_storeu_si512((int32_t *)to + (size_t)i * K__STRIP, r[i]);
}

/* Stores the scales of 16 rows, sc in the lower and mn in the upper halves, in columns at .. at + 15 of an INT panel. pairs: the
 * size of the groups whose scales are stored as pairs, too, or 0. */
K__IN_512 void k__int_heads512(const __m512i *heads, bool narrow, int pairs, int at, k__panel *panel) {
    __m512i r[16];
    K__UNROLL for (int i = 0; i < 16; i++) r[i] = _mm512_load_si512(heads + i);
    k__transpose16(r);                                /* r[p]: sc of groups 2p, 2p + 1; r[8 + p]: mn */
    K__UNROLL for (int p = 0; p < 8; p++) {
        __m512i odd = narrow ? _mm512_srli_epi32(r[p], 16) : _mm512_srai_epi32(r[p], 16),
                even = _mm512_slli_epi32(r[p], 16);
        even = narrow ? _mm512_srli_epi32(even, 16) : _mm512_srai_epi32(even, 16);
        _mm512_storeu_si512(&panel->sc[2 * p][at], even);
        _mm512_storeu_si512(&panel->sc[2 * p + 1][at], odd);
        _mm512_storeu_si512(&panel->mn[p][at], r[8 + p]);
        if (pairs == 16) _mm512_storeu_si512(&panel->pairs[p][at], _mm512_rol_epi32(r[p], 16));
        if (pairs == 32 && p % 2)
            _mm512_storeu_si512(&panel->pairs[p / 2][at], _mm512_mask_blend_epi16(0xaaaaaaaa, r[p], r[p - 1]));
    }
}

/* The offset is a minimum in integers, sc*(u - 2^o) = sc*u + (-sc*2^o)*1, and like one it is multiplied with the sums of 16. */
K__IN_512 __m512i k__int_head512(uint32_t type, const uint8_t *src, float *d, float *dm) {
    k__heads h = k__heads_of(type, src);
    if (k__off(type) >= 0)
        h.mn = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(h.sc, k__off(type)));
    *d = k__head_d(type, h.d, false);
    *dm = k__head_d(type, h.d, true);
    return k__pair512(h.sc, h.mn);
}

/* fs of 16 groups, or fs and fm of 8 */
K__IN_512 __m512i k__scale_head512(uint32_t type, bool has_min, const uint8_t *src) {
    float    fs[16] = {0};
    uint16_t hs[8] = {0}, hm[8] = {0};
    k__park_scales(type, src, has_min, fs, hs, hm);
    return _mm512_castps_si512(k__has_halves(type)
                                   ? _mm512_cvtph_ps(_mm256_set_m128i(k__ld128(hm), k__ld128(hs)))
                                   : _mm512_loadu_ps(fs));
}

/* Unpacks up to 32 rows of nb blocks, and their tail if there is one, into panels. The last row stands in for missing ones. */
K__IN_512 void k__pack512(uint32_t type, bool is_int, bool has_min, bool narrow, uint32_t any,
                          const uint8_t *w, size_t row_bytes, int rows, int n, k__panel *panel) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    const int      pairs = type == K_Q4_K || type == K_Q5_K ? 32 : narrow ? 16 : 0;
    __m512i        codes[4][16], heads[16];
    for (int b = 0; b * K_SUPER < n; b++, panel++) {
        int tail = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : 0;
        for (int at = 0; at < K__STRIP; at += 16) {
            K__NO_UNROLL for (int i = 0; i < 16; i++) {
                const uint8_t *row = w + (size_t)(at + i < rows ? at + i : rows - 1) * row_bytes;
                const uint8_t *src = row + (type == K__ANY ? k__row_front(any) : 0) + (size_t)b * step;
                uint8_t        last[K__PAD];
                k__unpacked    u;
                if (tail) src = k__pad_tail(real, src, tail, last);
                if (type == K__ANY) {
                    k__unpack_block(any, src, K_SUPER, &u);
                    if (is_int) u.d *= k__row_scale(any, row);
                    src = (const uint8_t *)&u;
                }
                K__UNROLL for (int c = 0; c < 4; c++) codes[c][i] = k__codes512(type, src, c);
                heads[i] = is_int ? k__int_head512(type, src, &panel->d[at + i], &panel->dm[at + i])
                                  : k__scale_head512(type, has_min, src);
            }
            for (int c = 0; c < 4; c++) k__spill16(codes[c], panel->q[16 * c][at]);
            if (is_int) k__int_heads512(heads, narrow, pairs, at, panel);
            else k__spill16(heads, &panel->fs[0][at]);
        }
    }
}

K__IN_512 void k__ahead512(k__ahead *a) {
    for (int i = 0; i < a->lines; i++, a->next += 64) _mm_prefetch((const char *)a->next, _MM_HINT_T1);
}

K__IN_512 __m512i k__bcast512(const void *p) { return _mm512_set1_epi32(k__i32(p)); }

/* acc += W * x over count dwords of k from k4; a0: rows 0..15, a1: rows 16..31 */
K__IN_512 void k__dots512(int T, const k__panel *w, int k4, int count, const int8_t *const *q, __m512i *a0,
                          __m512i *a1) {
    K__UNROLL for (int k = k4; k < k4 + count; k++) {
        __m512i w0 = k__ld512(w->q[k][0]), w1 = k__ld512(w->q[k][16]);
        K__UNROLL for (int t = 0; t < T; t++) {
            __m512i x = k__bcast512(q[t] + 4 * k);
            a0[t] = _mm512_dpbusd_epi32(a0[t], w0, x);
            a1[t] = _mm512_dpbusd_epi32(a1[t], w1, x);
        }
    }
}

/* How the dots of groups are scaled: as int16 by vpdpwssd, where every dot fits (K__BY_WORDS); by
 * multiplications of int32 (K__BY_INTS); or one or the other for each block, by the bounds of the
 * activations (K__BY_BOUND): a dot is at most the bound times the largest magnitude of a code. */
enum { K__BY_WORDS, K__BY_INTS, K__BY_BOUND };
enum { K__BOUND_4 = 32767 / 15, K__BOUND_5 = 32767 / 31, K__BOUND_6 = 32767 / 32 };    /* codes of 4, 5 and 6 bits */

/* Whether the bounds of block b of all T columns are at most `bound`: one of the differences would set the sign. */
K__IN_512 bool k__fits512(int T, int group, int bound, const k__cols *x, int b) {
    int signs = 0;
    K__UNROLL for (int t = 0; t < T; t++) signs |= bound - (group == 16 ? x->sum[t][b].most16 : x->sum[t][b].most32);
    return signs >= 0;
}

/* A tile of up to six columns keeps its sums in registers. With seven or eight only the 2 T dots stay there,
 * which are enough independent chains for two units with a latency of five. The sums are in memory, in the L1
 * cache: the empty assembly keeps the compiler from moving them to registers, of which there are too few. */
#define K__IN_MEMORY(T, p)                                                        \
    do {                                                                          \
        if ((T) > K__TILE_REGS) __asm__ volatile("" : "+r"(p) : : "memory"); \
    } while (0)

/* The bits of 1.5 * 2^23 as a float, plus an integer below 2^22 in magnitude, are the float 1.5 * 2^23
 * + integer. So sums that start here need no conversion: fma(s, sum, -1.5 * 2^23 * s) rounds s *
 * integer once, like the product, where the last operand is exact and finite. That operand is exact
 * for scales of up to 22 bits. A product of -0 becomes +0, which sums that start at +0 do not show. */
enum { K__BIAS_BITS = 0x4b400000 };
#define K__BIAS 0x1.8p23f

/* Start values of the dots of groups, so that they become u.x - off*sum(x) + bias. */
K__IN_512 void k__starts512(int group, int off, int bias, const int16_t *sum, int32_t *to) {
    const __m256i v = k__ld256(sum);
    if (group == 16) {
        const __m512i start = _mm512_mullo_epi32(_mm512_cvtepi16_epi32(v), _mm512_set1_epi32(-off));
        _mm512_store_si512(to, _mm512_add_epi32(start, _mm512_set1_epi32(bias)));
    } else {
        const __m256i start = _mm256_madd_epi16(v, _mm256_set1_epi16((int16_t)-off));
        _mm256_store_si256((__m256i *)to, _mm256_add_epi32(start, _mm256_set1_epi32(bias)));
    }
}

K__IN_512 void k__sums512(const int16_t *sum, float *to) {
    _mm256_store_ps(to, _mm256_cvtepi32_ps(_mm256_madd_epi16(k__ld256(sum), _mm256_set1_epi16(1))));
}

/* Minima of 16 rows of a panel, a pair of words in each lane, in the order of of16 or of32, which depends on the size of groups.
 * Returns the number of vectors. For groups of 32 both words in the panel are equal. */
K__IN_512 int k__mins512(int group, const k__panel *w, int at, __m512i *mn) {
    const int n = 256 / group / 2;
    K__UNROLL for (int i = 0; i < n; i++) {
        const int p = i / 2 * 4 + i % 2;
        if (group == 16) mn[i] = k__ld512(&w->mn[i][at]);
        else mn[i] = _mm512_mask_blend_epi16(0xaaaaaaaa, k__ld512(&w->mn[p][at]), k__ld512(&w->mn[p + 2][at]));
    }
    return n;
}

K__IN_512 void k__add_scaled512(float *y, __m512 u, float d) {
    _mm512_storeu_ps(y, _mm512_add_ps(_mm512_loadu_ps(y), _mm512_mul_ps(u, _mm512_set1_ps(d))));
}

/* Adds complete sums to the columns of y. fused: sums of minima start at K__BIAS_BITS. */
K__IN_512 void k__int_end512(int T, int group, bool has_min, bool fused, const k__panel *w, __m512i (*sum)[2], const k__cols *x,
                             int b, float (*y)[K__STRIP]) {
    const __m512 d[2] = {_mm512_loadu_ps(w->d), _mm512_loadu_ps(w->d + 16)}, bias = _mm512_set1_ps(-K__BIAS);
    const __m512 c[2] = {_mm512_mul_ps(_mm512_loadu_ps(w->dm), bias), _mm512_mul_ps(_mm512_loadu_ps(w->dm + 16), bias)};
    __m512i      mn[2][8];
    const int    n = has_min ? k__mins512(group, w, 0, mn[0]) : 0;
    if (has_min) k__mins512(group, w, 16, mn[1]);
    K__UNROLL for (int t = 0; t < T; t++) {
        const int16_t *pairs = group == 16 ? x->sum[t][b].of16 : x->sum[t][b].of32;
        __m512i        m[2];
        m[0] = m[1] = fused ? _mm512_set1_epi32(K__BIAS_BITS) : _mm512_setzero_si512();
        K__UNROLL for (int p = 0; p < n; p++) {
            const __m512i s = k__bcast512(pairs + 2 * p);
            m[0] = _mm512_dpwssd_epi32(m[0], mn[0][p], s);
            m[1] = _mm512_dpwssd_epi32(m[1], mn[1][p], s);
        }
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512 u = _mm512_mul_ps(d[h], _mm512_cvtepi32_ps(sum[t][h])), dm = _mm512_loadu_ps(w->dm + 16 * h);
            if (fused) u = _mm512_sub_ps(u, _mm512_fmadd_ps(dm, _mm512_castsi512_ps(m[h]), c[h]));
            else if (has_min) u = _mm512_sub_ps(u, _mm512_mul_ps(dm, _mm512_cvtepi32_ps(m[h])));
            k__add_scaled512(y[t] + 16 * h, u, x->d[t][b]);
        }
    }
}

/* Whether K__BIAS times each of 32 scales is finite. */
K__IN_512 bool k__fusible512(const float *scale) {
    const __m512 c0 = _mm512_mul_ps(_mm512_loadu_ps(scale), _mm512_set1_ps(K__BIAS));
    const __m512 c1 = _mm512_mul_ps(_mm512_loadu_ps(scale + 16), _mm512_set1_ps(K__BIAS));
    return !_mm512_cmp_ps_mask(_mm512_sub_ps(c0, c0), _mm512_sub_ps(c1, c1), _CMP_UNORD_Q);   /* inf - inf is NaN */
}

/* The dots of group g; without minima they begin with start. */
K__IN_512 void k__group_dots512(int T, int group, int g, bool has_min, const k__panel *w, const int8_t *const *q,
                                const int32_t (*start)[16], __m512i (*a)[K__TILE]) {
    K__UNROLL for (int t = 0; t < T; t++) a[0][t] = a[1][t] = has_min ? _mm512_setzero_si512() : k__bcast512(&start[t][g]);
    k__dots512(T, w, g * group / 4, group / 4, q, a[0], a[1]);
}

/* sum[t] = scale * dot over the groups of a block. words: dots fit in words. low: sc lies in the lower word alone. */
K__IN_512 void k__int_sums512(int T, int group, bool has_min, bool words, bool low, const k__panel *w, const int8_t *const *q,
                              const int32_t (*start)[16], __m512i (*sum)[2]) {
    K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm512_setzero_si512();
    K__NO_UNROLL for (int g = 0; g < K_SUPER / group; g++) {
        __m512i a[2][K__TILE];
        k__group_dots512(T, group, g, has_min, w, q, start, a);
        K__IN_MEMORY(T, sum);
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512i sc = k__ld512(&w->sc[g * group / 16][16 * h]);
            if (low && !words) sc = _mm512_srai_epi32(_mm512_slli_epi32(sc, 16), 16);
            K__UNROLL for (int t = 0; t < T; t++)
                sum[t][h] = words ? _mm512_dpwssd_epi32(sum[t][h], a[h][t], sc)
                                  : _mm512_add_epi32(sum[t][h], _mm512_mullo_epi32(a[h][t], sc));
        }
    }
    K__IN_MEMORY(T, sum);
}

/* Start values of the two dots of each pair of groups of 16. */
K__IN_512 void k__pair_starts512(int off, const int16_t *sum, int32_t (*to)[16]) {
    const __m512i v = _mm512_mullo_epi32(_mm512_cvtepi16_epi32(k__ld256(sum)), _mm512_set1_epi32(-off));
    _mm512_store_si512(to, _mm512_mask_add_epi32(v, 0xaaaa, v, _mm512_set1_epi32(1 << 15)));
}

/* sum[t] = scale * dot over the groups of a block, where dots fit in words. Two groups share a sum: the dot of the first, made as
 * 32 bits, is moved to the upper half, then that of the second is made in the lower half, and one product scales both. To the
 * lower half 2^15 is added, so that it ends at 0 .. 2^16 - 1 and has then neither carried nor borrowed, whatever it was on the
 * way; without that bit it is the signed word.
 * A shift and two additions take no place of a multiplication on processors that add on other ports. */
K__IN_512 void k__pair_sums512(int T, int group, bool has_min, const k__panel *w, const int8_t *const *q,
                               const int32_t (*start)[16], __m512i (*sum)[2]) {
    const __m512i half = _mm512_set1_epi32(1 << 15);
    K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm512_setzero_si512();
    K__NO_UNROLL for (int p = 0; p < K_SUPER / group / 2; p++) {
        const int k4 = p * group / 2;
        __m512i   a[2][K__TILE];
        K__UNROLL for (int t = 0; t < T; t++)
            a[0][t] = a[1][t] = has_min ? _mm512_setzero_si512() : k__bcast512(&start[t][2 * p]);
        k__dots512(T, w, k4, group / 4, q, a[0], a[1]);
        K__UNROLL for (int t = 0; t < T; t++) {
            const __m512i second = has_min ? half : k__bcast512(&start[t][2 * p + 1]);
            a[0][t] = _mm512_add_epi32(_mm512_slli_epi32(a[0][t], 16), second);
            a[1][t] = _mm512_add_epi32(_mm512_slli_epi32(a[1][t], 16), second);
        }
        k__dots512(T, w, k4 + group / 4, group / 4, q, a[0], a[1]);
        K__UNROLL for (int h = 0; h < 2; h++) {
            const __m512i sc = k__ld512(&w->pairs[p][16 * h]);
            K__UNROLL for (int t = 0; t < T; t++) sum[t][h] = _mm512_dpwssd_epi32(sum[t][h], _mm512_xor_si512(a[h][t], half), sc);
        }
    }
}

/* Four columns whose dots do not all fit in int16, of the types with a bound: groups of 16 and an offset, or of 32 and minima.
 * A tile of seven or eight columns calls it twice and computes one again, so that this rare case is compiled once. */
K__512 void k__int_sums4_512(int group, const k__panel *w, const int8_t *const *q, const int32_t (*start)[16],
                             __m512i (*sum)[2]) {
    if (group == 16) k__int_sums512(4, 16, false, false, true, w, q, start, sum);
    else k__int_sums512(4, 32, true, false, false, w, q, start, sum);
}

/* Seven or eight columns with minima of groups of 16 or 32, whose scales are not fusible. */
K__512 void k__int_end_plain512(int T, int group, const k__panel *w, __m512i (*sum)[2], const k__cols *x, int b,
                                float (*y)[K__STRIP]) {
    if (group == 16 && T == 7) k__int_end512(7, 16, true, false, w, sum, x, b, y);
    else if (group == 16) k__int_end512(8, 16, true, false, w, sum, x, b, y);
    else if (T == 7) k__int_end512(7, 32, true, false, w, sum, x, b, y);
    else k__int_end512(8, 32, true, false, w, sum, x, b, y);
}

K__IN_512 void k__int_tile512(int T, int group, bool has_min, int by, const k__panel *w, const k__cols *x, int first, int end,
                              k__ahead *ahead, float (*y)[K__STRIP]) {
    const bool low = by == K__BY_BOUND && !has_min;     /* signed scales in lower words */
    const bool pairs = by != K__BY_INTS && T <= K__TILE_REGS;
    for (int b = first; b < end; b++, w++) {
        _Alignas(64) int32_t start[K__TILE][16];
        __m512i       sums[K__TILE][2];
        __m512i     (*sum)[2] = sums;
        const int8_t *q[K__TILE];
        K__IN_MEMORY(T, sum);
        k__ahead512(ahead);
        K__UNROLL for (int t = 0; t < T; t++) {
            if (!has_min && pairs) k__pair_starts512(x->offset, x->sum[t][b].of16, &start[t]);
            if (!has_min && !pairs) k__starts512(group, x->offset, 0, x->sum[t][b].of16, start[t]);
            q[t] = x->q[t] + (size_t)b * K_SUPER;
        }
        const int32_t (*from)[16] = (const int32_t (*)[16])start;
        if (by != K__BY_BOUND || k__fits512(T, group, x->bound, x, b)) {
            if (pairs) k__pair_sums512(T, group, has_min, w, q, from, sum);
            else k__int_sums512(T, group, has_min, by != K__BY_INTS, low, w, q, from, sum);
        } else if (pairs) {
            K__UNROLL for (int t = 0; t < T; t++)
                if (!has_min) k__starts512(group, x->offset, 0, x->sum[t][b].of16, start[t]);
            k__int_sums512(T, group, has_min, false, low, w, q, from, sum);
        } else {
            __m512i wide[K__TILE][2];
            k__int_sums4_512(group, w, q, from, wide);
            k__int_sums4_512(group, w, q + T - 4, from + T - 4, wide + T - 4);
            K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = wide[t][0], sum[t][1] = wide[t][1];
        }
        if (T <= K__TILE_REGS || !has_min) k__int_end512(T, group, has_min, false, w, sum, x, b, y);
        else if (k__fusible512(w->dm)) k__int_end512(T, group, has_min, true, w, sum, x, b, y);
        else k__int_end_plain512(T, group, w, sum, x, b, y);
    }
}

/* Completes panels with 8 groups and no minima: fs[8 + g] = -K__BIAS *
 * fs[g], and fused = all scales are fusible. Other formats need neither. */
K__512 void k__ready512(k__panel *panel, int blocks) {
    for (; blocks > 0; blocks--, panel++) {
        panel->fused = true;
        for (int g = 0; g < 8; g++) {
            panel->fused &= k__fusible512(panel->fs[g]);
            for (int r = 0; r < K__STRIP; r += 16)
                _mm512_storeu_ps(&panel->fs[8 + g][r],
                                 _mm512_mul_ps(_mm512_loadu_ps(&panel->fs[g][r]), _mm512_set1_ps(-K__BIAS)));
        }
    }
}

/* sum[t] = scale * dot over the groups of a block, and the minima. fused: see k__ready512. */
K__IN_512 void k__scale_sums512(int T, int group, bool has_min, bool fused, const k__panel *w, const int8_t *const *q,
                                const int32_t (*start)[16], const float (*asum)[8], __m512 (*sum)[2]) {
    K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm512_setzero_ps();
    K__NO_UNROLL for (int g = 0; g < K_SUPER / group; g++) {
        __m512i a[2][K__TILE];
        k__group_dots512(T, group, g, has_min, w, q, start, a);
        K__IN_MEMORY(T, sum);
        K__UNROLL for (int h = 0; h < 2; h++) {
            const __m512 s = _mm512_loadu_ps(&w->fs[g][16 * h]), more = _mm512_loadu_ps(&w->fs[(8 + g) % 16][16 * h]);
            K__UNROLL for (int t = 0; t < T; t++) {
                const __m512 v = fused ? _mm512_fmadd_ps(s, _mm512_castsi512_ps(a[h][t]), more)
                                       : _mm512_mul_ps(s, _mm512_cvtepi32_ps(a[h][t]));
                sum[t][h] = _mm512_add_ps(sum[t][h], v);
                if (has_min) sum[t][h] = _mm512_add_ps(sum[t][h], _mm512_mul_ps(more, _mm512_set1_ps(asum[t][g])));
            }
        }
    }
    K__IN_MEMORY(T, sum);
}

/* Four columns of panels that are not fused. */
K__512 void k__scale_sums4_512(const k__panel *w, const int8_t *const *q, const int32_t (*start)[16], __m512 (*sum)[2]) {
    k__scale_sums512(4, 32, false, false, w, q, start, NULL, sum);
}

K__IN_512 void k__scale_tile512(int T, int group, bool has_min, const k__panel *w, const k__cols *x, int first, int end,
                                k__ahead *ahead, float (*y)[K__STRIP]) {
    const bool can = T > K__TILE_REGS && group == 32 && !has_min;
    for (int b = first; b < end; b++, w++) {
        _Alignas(64) int32_t start[K__TILE][16];
        _Alignas(32) float   asum[K__TILE][8];
        __m512        sums[K__TILE][2];
        __m512      (*sum)[2] = sums;
        const int8_t *q[K__TILE];
        const bool    fused = can && w->fused;
        K__IN_MEMORY(T, sum);
        k__ahead512(ahead);
        K__UNROLL for (int t = 0; t < T; t++) {
            if (has_min) k__sums512(k__cols_sum(x, t, b), asum[t]);
            else k__starts512(group, x->offset, fused ? K__BIAS_BITS : 0, k__cols_sum(x, t, b), start[t]);
            q[t] = k__cols_q(x, t, b);
        }
        const int32_t (*from)[16] = (const int32_t (*)[16])start;
        const float (*minima)[8] = (const float (*)[8])asum;
        if (!can || fused) k__scale_sums512(T, group, has_min, can, w, q, from, minima, sum);
        else k__scale_sums4_512(w, q, from, sum), k__scale_sums4_512(w, q + T - 4, from + T - 4, sum + T - 4);
        K__UNROLL for (int t = 0; t < T; t++) {
            k__add_scaled512(y[t], sum[t][0], x->d[t][b]);
            k__add_scaled512(y[t] + 16, sum[t][1], x->d[t][b]);
        }
    }
}

/* One row function and one packer for each format, a few tiles. Narrow panels: sc in the lower word, for vpdpwssd. */
#define K__INT_512(name, type, min, narrow)                                                      \
    K__512 void k__row_##name##_512(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                    float *term, size_t ld) {                                    \
        if (x->n == 1) k__int_row512(type, min, p, rows, any, x, 1, term, ld);                   \
        else k__int_row512(type, min, p, rows, any, x, x->n, term, ld);                          \
    }                                                                                            \
    K__512 void k__pack_##name##_512(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                     int n, k__panel *to) {                                      \
        k__pack512(type, true, min, narrow, any, w, row_bytes, rows, n, to);                     \
    }
#define K__SCALE_512(name, type, group, min)                                                     \
    K__512 void k__row_##name##_512(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                    float *term, size_t ld) {                                    \
        if (x->n == 1) k__scale_row512(type, group, min, p, rows, any, x, 1, term, ld);          \
        else k__scale_row512(type, group, min, p, rows, any, x, x->n, term, ld);                 \
    }                                                                                            \
    K__512 void k__pack_##name##_512(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                     int n, k__panel *to) {                                      \
        k__pack512(type, false, min, false, any, w, row_bytes, rows, n, to);                     \
    }
K__INT_512(q2_K, K_Q2_K, true, true)
K__INT_512(q3_K, K_Q3_K, false, true)
K__INT_512(q4_K, K_Q4_K, true, false)
K__INT_512(q5_K, K_Q5_K, true, false)
K__INT_512(q6_K, K_Q6_K, false, true)
K__INT_512(tq2_0, K_TQ2_0, false, true)
K__INT_512(iq4_xs, K_IQ4_XS, false, false)
K__INT_512(any_int, K__ANY, false, false)
K__SCALE_512(q4_0, K_Q4_0, 32, false)
K__SCALE_512(q4_1, K_Q4_1, 32, true)
K__SCALE_512(q5_0, K_Q5_0, 32, false)
K__SCALE_512(q5_1, K_Q5_1, 32, true)
K__SCALE_512(q8_0, K_Q8_0, 32, false)
K__SCALE_512(q1_0, K_Q1_0, 32, false)
K__SCALE_512(iq4_nl, K_IQ4_NL, 32, false)
K__SCALE_512(mxfp4, K_MXFP4, 32, false)
K__SCALE_512(nvfp4, K_NVFP4, 16, false)
K__SCALE_512(any_scale, K__ANY, 32, false)

#define K__TILE_512(name, columns, call)                                                                                 \
    K__512 void k__tile_##name##_##columns##_512(const k__panel *w, const k__cols *x, int first, int end, k__ahead *ahead, \
                                                 float(*y)[K__STRIP]) {                                                  \
        const int T = columns;                                                                                           \
        call;                                                                                                            \
    }
#define K__TILES_512(name, call)                                                                                \
    K__TILE_512(name, 4, call) K__TILE_512(name, 5, call) K__TILE_512(name, 6, call) K__TILE_512(name, 7, call) \
    K__TILE_512(name, 8, call)
/*                                      group has_min by */
K__TILES_512(int16_min, k__int_tile512(T, 16, true, K__BY_WORDS, w, x, first, end, ahead, y))
K__TILES_512(int16_off, k__int_tile512(T, 16, false, K__BY_WORDS, w, x, first, end, ahead, y))
K__TILES_512(int16_bound, k__int_tile512(T, 16, false, K__BY_BOUND, w, x, first, end, ahead, y))
K__TILES_512(int16_wide, k__int_tile512(T, 16, false, K__BY_INTS, w, x, first, end, ahead, y))
K__TILES_512(int32_bound, k__int_tile512(T, 32, true, K__BY_BOUND, w, x, first, end, ahead, y))
K__TILES_512(int32_wide, k__int_tile512(T, 32, false, K__BY_INTS, w, x, first, end, ahead, y))
K__TILES_512(scale32, k__scale_tile512(T, 32, false, w, x, first, end, ahead, y))
K__TILES_512(scale32_min, k__scale_tile512(T, 32, true, w, x, first, end, ahead, y))
K__TILES_512(scale16, k__scale_tile512(T, 16, false, w, x, first, end, ahead, y))

#define K__FAMILY_512(name, tile, ready_, bound_)                                                                \
    static const k__tiles k__tiles_##name##_512 = {                                                              \
        .of = {[4] = k__tile_##tile##_4_512, k__tile_##tile##_5_512, k__tile_##tile##_6_512, k__tile_##tile##_7_512, \
               k__tile_##tile##_8_512},                                                                          \
        .ready = ready_, .bound = bound_};
K__FAMILY_512(int16_min, int16_min, NULL, 0)
K__FAMILY_512(int16_off, int16_off, NULL, 0)
K__FAMILY_512(int16_six, int16_bound, NULL, K__BOUND_6)
K__FAMILY_512(int16_wide, int16_wide, NULL, 0)
K__FAMILY_512(int32_four, int32_bound, NULL, K__BOUND_4)
K__FAMILY_512(int32_five, int32_bound, NULL, K__BOUND_5)
K__FAMILY_512(int32_wide, int32_wide, NULL, 0)
K__FAMILY_512(scale32, scale32, k__ready512, 0)
K__FAMILY_512(scale32_min, scale32_min, NULL, 0)
K__FAMILY_512(scale16, scale16, NULL, 0)

#define K__PLAN_512(name, tiles) {k__row_##name##_512, k__pack_##name##_512, &k__tiles_##tiles##_512}
static const k__plan k__plans_512[K_TYPE_MAX] = {
    [K_Q2_K]    = K__PLAN_512(q2_K, int16_min),
    [K_Q3_K]    = K__PLAN_512(q3_K, int16_off),
    [K_Q4_K]    = K__PLAN_512(q4_K, int32_four),
    [K_Q5_K]    = K__PLAN_512(q5_K, int32_five),
    [K_Q6_K]    = K__PLAN_512(q6_K, int16_six),
    [K_TQ1_0]   = K__PLAN_512(any_int, int32_wide),
    [K_TQ2_0]   = K__PLAN_512(tq2_0, int16_off),
    [K_IQ1_S]   = K__PLAN_512(any_int, int32_wide),
    [K_IQ1_M]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ2_XXS] = K__PLAN_512(any_int, int32_wide),
    [K_IQ2_XS]  = K__PLAN_512(any_int, int16_wide),
    [K_IQ2_S]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ3_XXS] = K__PLAN_512(any_int, int32_wide),
    [K_IQ3_S]   = K__PLAN_512(any_int, int32_wide),
    [K_IQ4_XS]  = K__PLAN_512(iq4_xs, int32_wide),
    [K_Q4_0]    = K__PLAN_512(q4_0, scale32),
    [K_Q4_1]    = K__PLAN_512(q4_1, scale32_min),
    [K_Q5_0]    = K__PLAN_512(q5_0, scale32),
    [K_Q5_1]    = K__PLAN_512(q5_1, scale32_min),
    [K_Q8_0]    = K__PLAN_512(q8_0, scale32),
    [K_Q1_0]    = K__PLAN_512(q1_0, scale32),
    [K_Q2_0]    = K__PLAN_512(any_scale, scale32),
    [K_IQ4_NL]  = K__PLAN_512(iq4_nl, scale32),
    [K_MXFP4]   = K__PLAN_512(mxfp4, scale32),
    [K_NVFP4]   = K__PLAN_512(nvfp4, scale16),
    [K_IQ2_K]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ3_K]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ4_K]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ5_K]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ6_K]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ2_KS]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ2_KL]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ3_KS]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ4_KS]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ4_KSS] = K__PLAN_512(any_int, int32_wide),
    [K_IQ5_KS]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ1_KT]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ2_KT]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ3_KT]  = K__PLAN_512(any_int, int32_wide),
    [K_IQ4_KT]  = K__PLAN_512(any_int, int32_wide),
    [K_Q6_0]    = K__PLAN_512(any_scale, scale32),
    [K_I2_S]    = K__PLAN_512(any_scale, scale32),
};

K__SHARED_512 void k_mul_quant_avx512(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                                      float *y, size_t ldy, void *scratch) {
    k__mul_quant(k__plans_512, NULL, type, w, row_bytes, nr, n, a, y, ldy, scratch);
}

/* Multiplies 32 rows of zeros with 96 columns by tiles of `cols` columns, 6 or 8, of Q4_K. */
K__SHARED_512 void k_tile_trial_avx512(int cols) {
    static _Alignas(64) const k__panel panel;
    static const int8_t   q[K_SUPER];
    static const k_sums   sum;
    static const float    d = 1;
    float    y[K__TILE][K__STRIP];
    k__ahead ahead = {NULL, 0};
    k__cols  x;
    memset(y, 0, sizeof y);
    x.n = cols;
    x.nb = 1;
    x.tail = x.offset = 0;
    x.bound = k__tiles_int32_four_512.bound;
    for (int c = 0; c < cols; c++) x.q[c] = q, x.sum[c] = &sum, x.d[c] = &d;
    for (int t = 0; t < 96; t += cols) k__tiles_int32_four_512.of[cols](&panel, &x, 0, 1, &ahead, y);
}

/* Magnitudes of floats are compared as integers, so that a NaN is the largest. The
 * reference handles blocks with NaN or infinity, or with values whose inverse overflows. */
K__SHARED_512 int k_quant_act_avx512(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), zero = _mm512_setzero_si512();
    __m512i       most = zero, fours[4], sizes[4], all = zero;
    for (int i = 0; i < n; i += 16)
        most = _mm512_max_epi32(most, _mm512_and_si512(k__ld512(x + i), _mm512_set1_epi32(0x7fffffff)));
    const float amax = k__f32_of((uint32_t)_mm512_reduce_max_epi32(most)), inv = amax > 0 ? 127.0f / amax : 0.0f;
    if (!(amax <= FLT_MAX && inv <= FLT_MAX)) return k_quant_act_ref(x, n, q, sum, d);
    *d = amax / 127.0f;
    for (int i = 0; i < n; i += 16) {
        const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inv));
        _mm_storeu_si128((__m128i *)(q + i), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        const int     left = n - 64 * i;
        const __m512i v = _mm512_maskz_loadu_epi8(left >= 64 ? ~0ull : left > 0 ? (1ull << left) - 1 : 0, q + 64 * i);
        fours[i] = _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(1), v);
        sizes[i] = _mm512_dpbusd_epi32(zero, _mm512_abs_epi8(v), _mm512_set1_epi8(1));
        all = _mm512_add_epi32(all, sizes[i]);
    }
    const __m256i of16 = _mm512_cvtepi32_epi16(_mm512_permutexvar_epi32(order, k__sum4x4(fours))), one = _mm256_set1_epi16(1);
    const __m512i size16 = _mm512_permutexvar_epi32(order, k__sum4x4(sizes));
    const __m256i of32 = _mm256_madd_epi16(of16, one), size32 = _mm256_madd_epi16(_mm512_cvtepi32_epi16(size16), one);
    _mm256_storeu_si256((__m256i *)(void *)sum->of16, of16);
    _mm_storeu_si128((__m128i *)(void *)sum->of32, k__crossed(_mm256_cvtepi32_epi16(of32)));
    sum->most16 = (int16_t)_mm512_reduce_max_epi32(size16);
    sum->most32 = (int16_t)k__most_one_sign(size32, of32);
    return _mm512_reduce_add_epi32(all);
}

/* k_far_act_ref. */
K__SHARED_512 int k_far_act_avx512(const float *x, int n, bool fine, uint8_t at[K_SUPER]) {
    const __m512i sign = _mm512_set1_epi32(0x7fffffff);
    __m512i       units[K_SUPER / 16], most_bits = _mm512_setzero_si512(), all = most_bits, some = most_bits;
    int           count = 0;
    for (int i = 0; i < n; i += 16) most_bits = _mm512_max_epi32(most_bits, _mm512_and_si512(k__ld512(x + i), sign));
    const __m512 by = _mm512_set1_ps((float)K_FAR_UNITS / k__f32_of((uint32_t)_mm512_reduce_max_epi32(most_bits)));
    for (int i = 0; i < n; i += 16) {
        const __m512 size = _mm512_castsi512_ps(_mm512_and_si512(k__ld512(x + i), sign));
        units[i / 16] = _mm512_cvtps_epi32(_mm512_mul_ps(size, by));
        all = _mm512_add_epi32(all, units[i / 16]);
    }
    const __m512i most = _mm512_set1_epi32(k__far_mean_of(_mm512_reduce_add_epi32(all), n));
    for (int i = 0; i < n; i += 16) {
        const __mmask16 in = _mm512_cmple_epi32_mask(units[i / 16], most);
        some = _mm512_mask_add_epi32(some, in, some, units[i / 16]);
        count += __builtin_popcount(in);
    }
    const __m512i above = _mm512_set1_epi32(k__far_above(_mm512_reduce_add_epi32(some), count, fine));
    count = 0;
    for (int i = 0; i < n; i += 16)
        for (unsigned far = _mm512_cmpgt_epi32_mask(units[i / 16], above); far; far &= far - 1)
            at[count++] = (uint8_t)(i + __builtin_ctz(far));
    return count;
}
