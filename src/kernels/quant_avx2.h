/* ===== [quant_avx2] =====
 * And avx_vnni, which is avx2 with other tiles.
 * Codes of up to 6 bits are multiplied as u8 (q + 2^off), wider ones as |q| with the sign moved to the
 * activation. In both cases a pair sum of vpmaddubsw is at most 2*128*127 = 32512 and cannot saturate. */

/* Codes 32j .. 32j + 31 of the 256 at p, in order; signed when k__off says K__WIDE. */
K__IN_AVX2 __m256i k__nibbles_avx2(const uint8_t *p) {
    __m128i v = k__ld128(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

K__IN_AVX2 __m256i k__table_avx2(__m256i nibbles, const int8_t *table) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(k__ld128(table)), nibbles);
}

/* The bits of 32 bytes from bit `at` on, moved to bit `to`. */
K__IN_AVX2 __m256i k__bits_avx2(const uint8_t *p, int at, int to, int mask) {
    __m256i v = k__ld256(p);
    v = at < to ? _mm256_slli_epi16(v, to - at) : _mm256_srli_epi16(v, at - to);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Byte i = value where bit i is set, else 0. */
K__IN_AVX2 __m256i k__spread_avx2(uint32_t bits, int value) {
    __m256i v = _mm256_shuffle_epi8(
        _mm256_set1_epi32((int)bits),
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    __m256i one = _mm256_set1_epi64x((long long)0x8040201008040201u);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, one), one), _mm256_set1_epi8((char)value));
}

K__IN_AVX2 __m256i k__codes_avx2(uint32_t type, const uint8_t *p, int j) {
    int half = j / 4, part = j % 4;                   /* for the formats in halves of 128 */
    switch (type) {
    case K_Q4_K: return k__bits_avx2(p + 16 + 32 * (j / 2), j % 2 * 4, 0, 15);
    case K_Q5_K:
        return _mm256_or_si256(k__bits_avx2(p + 48 + 32 * (j / 2), j % 2 * 4, 0, 15),
                               k__bits_avx2(p + 16, j, 4, 16));
    case K_Q2_K: return k__bits_avx2(p + 16 + 32 * half, 2 * part, 0, 3);
    case K_TQ2_0: return k__bits_avx2(p + 32 * half, 2 * part, 0, 3);
    case K_Q3_K:
        return _mm256_or_si256(k__bits_avx2(p + 32 + 32 * half, 2 * part, 0, 3), k__bits_avx2(p, j, 2, 4));
    case K_Q6_K: {
        __m256i lo = k__bits_avx2(p + 64 * half + part % 2 * 32, part / 2 * 4, 0, 15);
        return _mm256_or_si256(lo, k__bits_avx2(p + 128 + 32 * half, 2 * part, 4, 0x30));
    }
    case K_Q4_0: return k__nibbles_avx2(p + 18 * j + 2);
    case K_Q4_1: return k__nibbles_avx2(p + 20 * j + 4);
    case K_Q5_0:
        return _mm256_or_si256(k__nibbles_avx2(p + 22 * j + 6), k__spread_avx2(k__u32(p + 22 * j + 2), 16));
    case K_Q5_1:
        return _mm256_or_si256(k__nibbles_avx2(p + 24 * j + 8), k__spread_avx2(k__u32(p + 24 * j + 4), 16));
    case K_Q1_0: return k__spread_avx2(k__u32(p + 18 * half + 2 + 4 * part), 2);
    case K_IQ4_NL: return k__table_avx2(k__nibbles_avx2(p + 18 * j + 2), k__iq4_values);
    case K_IQ4_XS: return k__table_avx2(k__nibbles_avx2(p + 8 + 16 * j), k__iq4_values);
    case K_MXFP4: return k__table_avx2(k__nibbles_avx2(p + 17 * j + 1), k__fp4_values);
    case K_NVFP4: {                                   /* every 8 bytes are 16 codes, low nibbles first */
        __m256i v = k__nibbles_avx2(p + 36 * (j / 2) + 4 + 16 * (j % 2));
        return k__table_avx2(_mm256_permute4x64_epi64(v, 0xd8), k__fp4_values);
    }
    case K_Q8_0: return k__ld256(p + 34 * j + 2);
    default: return k__ld256(p + 32 * j);             /* K__ANY */
    }
}

/* w.x in 16 pair sums */
K__IN_AVX2 __m256i k__pairs_avx2(bool wide, __m256i w, __m256i x) {
    return wide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                : _mm256_maddubs_epi16(w, x);
}

/* --- dot --- */

/* Partial isum and imin of a block and column; v: its products times their scales. */
K__IN_AVX2 void k__int_sums_avx2(uint32_t type, bool has_min, const k__heads *h, const int16_t *of16, __m256i v, __m256i *to) {
    const __m256i sum = k__ld256(of16);
    const int     off = k__off(type);
    if (off >= 0 && off != K__WIDE) v = _mm256_sub_epi32(v, _mm256_slli_epi32(_mm256_madd_epi16(h->sc, sum), off));
    to[0] = v;
    if (has_min) to[1] = _mm256_madd_epi16(h->mn, sum);
}

/* T: the number of columns, or 0: more than four, nc of them. Up to four have their sums in registers. */
K__IN_AVX2 void k__int_row_avx2(uint32_t type, bool has_min, const uint8_t *p, int rows, uint32_t any,
                                const k__cols *x, int T, int nc, float *term, size_t ld) {
    const size_t  step = k__super_bytes(type == K__ANY ? any : type);
    const float   scale = type == K__ANY ? k__row_scale(any, p) : 1;  /* rows is 1 where it stands in front of them */
    const bool    wide = k__off(type) == K__WIDE;
    const __m256i even_odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    k__int_park   park;
    k__unpacked   u;
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
            __m256i  w[8], s[8], v[4];
            k__heads h = k__heads_of(type, src);
            __m256i  sides = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(h.sc, even_odd), 0xd8);
            K__UNROLL for (int j = 0; j < 8; j++) {   /* lower half: scale of group 2j, upper: 2j + 1 */
                w[j] = k__codes_avx2(type, src, j);
                s[j] = _mm256_shuffle_epi8(sides, _mm256_set1_epi16((short)(0x0100 + 0x0202 * j)));
                K__UNROLL for (int c = 0; c < T; c++) {
                    const __m256i q = k__ld256(x->q[c] + (size_t)b * K_SUPER + 32 * j);
                    v[c] = _mm256_add_epi32(j ? v[c] : _mm256_setzero_si256(),
                                            _mm256_madd_epi16(k__pairs_avx2(wide, w[j], q), s[j]));
                }
            }
            park.d[i] = h.d;
            K__UNROLL for (int c = 0; c < T; c++) k__int_sums_avx2(type, has_min, &h, x->sum[c][b].of16, v[c], park.sum[c][i]);
            for (int c = 0; !T && c < nc; c++) {
                const int8_t *q = x->q[c] + (size_t)b * K_SUPER;
                __m256i       all = _mm256_setzero_si256();
                K__UNROLL for (int j = 0; j < 8; j++) all = _mm256_add_epi32(
                    all, _mm256_madd_epi16(k__pairs_avx2(wide, w[j], k__ld256(q + 32 * j)), s[j]));
                k__int_sums_avx2(type, has_min, &h, x->sum[c][b].of16, all, park.sum[c][i]);
            }
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++)
            k__int_finish(&park, type != K__ANY, has_min, c, x->d[c] + first, term + (size_t)c * ld + b0);
    }
}

/* Sums of 16 groups of 16: v[j] holds group 2j in its lower half, 2j + 1 in its upper. */
K__IN_AVX2 __m256i k__sum4x2(const __m256i *v) {
    __m256i r = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(r, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

K__IN_AVX2 void k__group_sums_avx2(uint32_t type, int group, bool has_min, const __m256i *w, const int8_t *q,
                                   const int16_t *sum, __m256i *dot, __m256i *asum) {
    const bool    wide = k__off(type) == K__WIDE;
    const __m256i ones = _mm256_set1_epi16(1), pairs = _mm256_madd_epi16(k__ld256(sum), ones);
    __m256i       v[8];
    K__UNROLL for (int j = 0; j < 8; j++)
        v[j] = _mm256_madd_epi16(k__pairs_avx2(wide, w[j], k__ld256(q + 32 * j)), ones);
    if (group == 16) {                                /* NVFP4, wide */
        dot[0] = k__sum4x2(v);
        dot[1] = k__sum4x2(v + 4);
        return;
    }
    dot[0] = k__sum8(v, 1);
    if (!wide && k__off(type) >= 0) dot[0] = _mm256_sub_epi32(dot[0], _mm256_slli_epi32(pairs, k__off(type)));
    if (has_min) *asum = pairs;
}

K__IN_AVX2 void k__scale_row_avx2(uint32_t type, int group, bool has_min, const uint8_t *p, int rows,
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
            __m256i w[8];
            K__UNROLL for (int j = 0; j < 8; j++) w[j] = k__codes_avx2(type, src, j);
            k__park_scales(type, src, has_min, park.fs[i], park.hs[i], park.hm[i]);
            for (int c = 0; c < nc; c++)
                k__group_sums_avx2(type, group, has_min, w, k__cols_q(x, c, b),
                                   k__cols_sum(x, c, b), park.dot[c][i], &park.asum[c][i]);
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++) k__scale_finish(
            &park, k__has_halves(type), group, has_min, c, x->d[c] + first, term + (size_t)c * ld + b0);
    }
}

/* --- panel --- */

/* 8x8 transpose of dwords, row k to `to` + k * stride dwords. */
K__AVX2 void k__spill8(const __m256i *from, void *to, size_t stride) {
    __m256 r[8];
    K__UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_castsi256_ps(_mm256_load_si256(from + i));
    k__transpose8(r);
    K__UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_ps((float *)to + (size_t)i * stride, r[i]);
}

/* Stores the scales of 8 rows in columns at .. at + 7 of an INT panel, each twice for vpmaddwd. */
K__AVX2 void k__int_heads_avx2(const __m256i *sc, const __m256i *mn, int at, k__panel *panel) {
    int32_t pairs[8][8];
    k__spill8(mn, &panel->mn[0][at], K__STRIP);
    k__spill8(sc, pairs, 8);
    K__UNROLL for (int p = 0; p < 8; p++) {
        __m256i v = k__ld256(pairs[p]);
        _mm256_storeu_si256((__m256i *)&panel->sc[2 * p][at],
                            _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa));
        _mm256_storeu_si256((__m256i *)&panel->sc[2 * p + 1][at],
                            _mm256_blend_epi16(_mm256_srli_epi32(v, 16), v, 0xaa));
    }
}

/* The offset becomes a minimum, as at the avx512 level; wide codes have no offset here. */
K__IN_AVX2 void k__int_head_avx2(uint32_t type, const uint8_t *src, __m256i *sc, __m256i *mn, float *d,
                                 float *dm) {
    k__heads h = k__heads_of(type, src);
    *sc = h.sc;
    *mn = k__off(type) < 0 ? h.mn
                           : _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(h.sc, k__off(type)));
    *d = k__head_d(type, h.d, false);
    *dm = k__head_d(type, h.d, true);
}

/* lo: fs of 8 groups; hi: fs of 8 more, or fm */
K__IN_AVX2 void k__scale_head_avx2(uint32_t type, bool has_min, const uint8_t *src, __m256i *lo,
                                   __m256i *hi) {
    float    fs[16] = {0};
    uint16_t hs[8] = {0}, hm[8] = {0};
    k__park_scales(type, src, has_min, fs, hs, hm);
    *lo = _mm256_castps_si256(k__has_halves(type) ? _mm256_cvtph_ps(k__ld128(hs)) : _mm256_loadu_ps(fs));
    *hi = _mm256_castps_si256(k__has_halves(type) ? _mm256_cvtph_ps(k__ld128(hm)) : _mm256_loadu_ps(fs + 8));
}

/* Like k__pack512. */
K__IN_AVX2 void k__pack_avx2(uint32_t type, bool is_int, bool has_min, uint32_t any, const uint8_t *w,
                             size_t row_bytes, int rows, int n, k__panel *panel) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    __m256i        codes[8][8], lo[8], hi[8];
    for (int b = 0; b * K_SUPER < n; b++, panel++) {
        int tail = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : 0;
        for (int at = 0; at < K__STRIP; at += 8) {
            K__NO_UNROLL for (int i = 0; i < 8; i++) {
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
                K__UNROLL for (int j = 0; j < 8; j++) codes[j][i] = k__codes_avx2(type, src, j);
                if (is_int)
                    k__int_head_avx2(type, src, &lo[i], &hi[i], &panel->d[at + i], &panel->dm[at + i]);
                else k__scale_head_avx2(type, has_min, src, &lo[i], &hi[i]);
            }
            for (int j = 0; j < 8; j++) k__spill8(codes[j], panel->q[8 * j][at], K__STRIP);
            if (is_int) {
                k__int_heads_avx2(lo, hi, at, panel);
            } else {
                k__spill8(lo, &panel->fs[0][at], K__STRIP);
                k__spill8(hi, &panel->fs[8][at], K__STRIP);
            }
        }
    }
}

K__IN_AVX2 __m256i k__bcast_avx2(const void *p) { return _mm256_set1_epi32(k__i32(p)); }

/* Stops the compiler from turning a chain of additions into a tree, which would hold all products at once and spill them. */
#define K__IN_ORDER(v) __asm__("" : "+x"(v))

/* How the products of a group are summed. 1, 2, 4: that many pair sums are added in 16 bits
 * (4: codes up to 31, 2: up to 63, 1: signed codes). From K__VNNI on: four products at once
 * in 32 bits, at the avx_vnni level. NARROW: the sum of a group fits in 16 bits; WIDE:
 * any; SIGNED: signed codes. */
enum { K__VNNI = 16, K__VNNI_NARROW = 16, K__VNNI_WIDE, K__VNNI_SIGNED };
K__IN_AVX2 bool k__signed_codes(int steps) { return steps == 1 || steps == K__VNNI_SIGNED; }

/* Like k__dots_avx2. scaled: s holds one scale for the whole group, twice; else all ones. */
K__IN_AVX2 void k__dots_vnni(int T, int how, bool scaled, const k__panel *w, int at, int k4, int count, const int8_t *const *q,
                             __m256i s, __m256i *acc) {
    __m256i dot[K__TILE];
    K__UNROLL for (int t = 0; t < T; t++) dot[t] = scaled ? _mm256_setzero_si256() : acc[t];
    K__UNROLL for (int k = k4; k < k4 + count; k++) {
        const __m256i wk = k__ld256(w->q[k][at]), u = how == K__VNNI_SIGNED ? _mm256_abs_epi8(wk) : wk;
        K__UNROLL for (int t = 0; t < T; t++) {
            const __m256i x = k__bcast_avx2(q[t] + 4 * k);
            k__dot8_vnni(&dot[t], u, how == K__VNNI_SIGNED ? _mm256_sign_epi8(x, wk) : x);
        }
    }
    s = how == K__VNNI_NARROW ? _mm256_srli_epi32(s, 16) : _mm256_srai_epi32(s, 16);
    K__UNROLL for (int t = 0; t < T; t++) {
        if (!scaled) acc[t] = dot[t];
        else if (how == K__VNNI_NARROW) k__dot16_vnni(&acc[t], dot[t], s);
        else acc[t] = _mm256_add_epi32(acc[t], _mm256_mullo_epi32(dot[t], s));
    }
}

/* acc[t] += sum over count dwords of k from k4, each pair of products times its half of s. */
K__IN_AVX2 void k__dots_avx2(int T, int steps, bool scaled, const k__panel *w, int at, int k4, int count,
                             const int8_t *const *q, __m256i s, __m256i *acc) {
    if (steps >= K__VNNI) {
        k__dots_vnni(T, steps, scaled, w, at, k4, count, q, s, acc);
        return;
    }
    K__UNROLL for (int k = k4; k < k4 + count; k += steps) {
        __m256i p[K__TILE];
        K__UNROLL for (int i = k; i < k + steps; i++) {
            __m256i wi = k__ld256(w->q[i][at]);
            K__UNROLL for (int t = 0; t < T; t++) {
                __m256i v = k__pairs_avx2(steps == 1, wi, k__bcast_avx2(q[t] + 4 * i));
                p[t] = i == k ? v : _mm256_add_epi16(p[t], v);
                K__IN_ORDER(p[t]);
                if (steps > 1) continue;
                acc[t] = _mm256_add_epi32(acc[t], _mm256_madd_epi16(p[t], s));
                K__IN_ORDER(acc[t]);
            }
        }
        if (steps == 1) continue;
        K__UNROLL for (int t = 0; t < T; t++) acc[t] = _mm256_add_epi32(acc[t], _mm256_madd_epi16(p[t], s));
    }
}

K__IN_AVX2 __m256i k__mins_avx2(const k__panel *w, int at, const int16_t *sum, __m256i i) {
    K__UNROLL for (int p = 0; p < 8; p++)
        i = _mm256_add_epi32(i, _mm256_madd_epi16(k__ld256(&w->mn[p][at]), k__bcast_avx2(sum + 2 * p)));
    return i;
}

/* The same for groups of 32, with half the products: of32 pairs groups
 * 0 and 2, 1 and 3, and so on, and so does a blend of their mn. */
K__IN_AVX2 __m256i k__mins32_avx2(const k__panel *w, int at, const int16_t *of32) {
    __m256i i = _mm256_setzero_si256();
    K__UNROLL for (int p = 0; p < 4; p++) {
        const int     g = p / 2 * 4 + p % 2;
        const __m256i mn = _mm256_blend_epi16(k__ld256(&w->mn[g][at]), k__ld256(&w->mn[g + 2][at]), 0xaa);
        i = _mm256_add_epi32(i, _mm256_madd_epi16(mn, k__bcast_avx2(of32 + 2 * p)));
    }
    return i;
}

K__IN_AVX2 void k__add_scaled_avx2(float *y, __m256 u, float d) {
    _mm256_storeu_ps(y, _mm256_add_ps(_mm256_loadu_ps(y), _mm256_mul_ps(u, _mm256_set1_ps(d))));
}

/* The integer sums of eight rows and block b, times the scales, to y. min_group: 16, 32: groups of the minima; 0: none. */
K__IN_AVX2 void k__int_terms_avx2(int T, int steps, int min_group, const k__panel *w, int at, const k__cols *x, int b,
                                  __m256i *isum, float (*y)[K__STRIP]) {
    const __m256 d = _mm256_loadu_ps(w->d + at), dm = _mm256_loadu_ps(w->dm + at);
    K__UNROLL for (int t = 0; t < T; t++) {
        const k_sums *sum = &x->sum[t][b];
        if (!min_group && !k__signed_codes(steps)) isum[t] = k__mins_avx2(w, at, sum->of16, isum[t]);
        __m256 u = _mm256_mul_ps(d, _mm256_cvtepi32_ps(isum[t]));
        if (min_group) {
            __m256i imin = min_group == 32 ? k__mins32_avx2(w, at, sum->of32)
                                           : k__mins_avx2(w, at, sum->of16, _mm256_setzero_si256());
            u = _mm256_sub_ps(u, _mm256_mul_ps(dm, _mm256_cvtepi32_ps(imin)));
        }
        k__add_scaled_avx2(y[t] + at, u, x->d[t][b]);
    }
}

/* One tile, 8 rows from `at`. */
K__IN_AVX2 void k__int_rows_avx2(int T, int steps, int min_group, const k__panel *w, int at, const k__cols *x, int first, int end,
                                 float (*y)[K__STRIP]) {
    for (int b = first; b < end; b++, w++) {
        __m256i       isum[K__TILE];
        const int8_t *q[K__TILE];
        K__UNROLL for (int t = 0; t < T; t++) {
            q[t] = x->q[t] + (size_t)b * K_SUPER;
            isum[t] = _mm256_setzero_si256();
        }
        for (int g = 0; g < 16; g++)
            k__dots_avx2(T, steps, true, w, at, 4 * g, 4, q, k__ld256(&w->sc[g][at]), isum);
        k__int_terms_avx2(T, steps, min_group, w, at, x, b, isum, y);
    }
}

/* One tile, 16 rows from `at`: a broadcast of activations serves two vectors of codes, since loads limit a tile of
 * eight rows. The pair sums of `steps` dwords of k are added in 16 bits: 8 where codes are at most 15 and groups
 * have 32, 4 where they are at most 31, 2 up to 63. They fill the registers; isum stays in the L1 cache. */
K__IN_AVX2 void k__int_rows16_avx2(int T, int steps, int min_group, const k__panel *w, int at, const k__cols *x, int first,
                                   int end, float (*y)[K__STRIP]) {
    for (int b = first; b < end; b++, w++) {
        __m256i       isum[2][K__TILE];
        const int8_t *q[K__TILE];
        K__UNROLL for (int t = 0; t < T; t++) {
            q[t] = x->q[t] + (size_t)b * K_SUPER;
            isum[0][t] = isum[1][t] = _mm256_setzero_si256();
        }
        K__NO_UNROLL for (int k = 0; k < K_SUPER / 4; k += steps) {
            __m256i p[2][K__TILE];
            K__UNROLL for (int i = 0; i < steps; i++) {
                const __m256i w0 = k__ld256(w->q[k + i][at]), w1 = k__ld256(w->q[k + i][at + 8]);
                K__UNROLL for (int t = 0; t < T; t++) {
                    const __m256i v = k__bcast_avx2(q[t] + 4 * (k + i));
                    const __m256i v0 = _mm256_maddubs_epi16(w0, v), v1 = _mm256_maddubs_epi16(w1, v);
                    p[0][t] = i ? _mm256_add_epi16(p[0][t], v0) : v0;
                    K__IN_ORDER(p[0][t]);
                    p[1][t] = i ? _mm256_add_epi16(p[1][t], v1) : v1;
                    K__IN_ORDER(p[1][t]);
                }
            }
            K__UNROLL for (int h = 0; h < 2; h++) {
                const __m256i sc = k__ld256(&w->sc[k / 4][at + 8 * h]);
                K__UNROLL for (int t = 0; t < T; t++)
                    isum[h][t] = _mm256_add_epi32(isum[h][t], _mm256_madd_epi16(p[h][t], sc));
            }
        }
        K__UNROLL for (int h = 0; h < 2; h++)
            k__int_terms_avx2(T, steps, min_group, w, at + 8 * h, x, b, isum[h], y);
    }
}

K__IN_AVX2 void k__scale_rows_avx2(int T, int steps, int group, bool has_min, const k__panel *w, int at,
                                   const k__cols *x, int first, int end, float (*y)[K__STRIP]) {
    const __m256i ones = _mm256_set1_epi16(1), minus = _mm256_set1_epi16((short)-x->offset);
    for (int b = first; b < end; b++, w++) {
        __m256         f[K__TILE];
        const int8_t  *q[K__TILE];
        const int16_t *sum[K__TILE];
        K__UNROLL for (int t = 0; t < T; t++) {
            q[t] = k__cols_q(x, t, b);
            sum[t] = k__cols_sum(x, t, b);
            f[t] = _mm256_setzero_ps();
        }
        for (int g = 0; g < K_SUPER / group; g++) {
            __m256i dot[K__TILE];
            K__UNROLL for (int t = 0; t < T; t++) {
                dot[t] = _mm256_setzero_si256();
                if (!has_min && !k__signed_codes(steps)) dot[t] = _mm256_madd_epi16(minus, k__bcast_avx2(sum[t] + 2 * g));
            }
            k__dots_avx2(T, steps, false, w, at, g * group / 4, group / 4, q, ones, dot);
            K__UNROLL for (int t = 0; t < T; t++) {
                f[t] = _mm256_add_ps(
                    f[t], _mm256_mul_ps(_mm256_loadu_ps(&w->fs[g][at]), _mm256_cvtepi32_ps(dot[t])));
                if (!has_min) continue;
                __m256 s = _mm256_cvtepi32_ps(_mm256_madd_epi16(ones, k__bcast_avx2(sum[t] + 2 * g)));
                f[t] = _mm256_add_ps(f[t], _mm256_mul_ps(_mm256_loadu_ps(&w->fs[8 + g][at]), s));
            }
        }
        K__UNROLL for (int t = 0; t < T; t++) k__add_scaled_avx2(y[t] + at, f[t], x->d[t][b]);
    }
}

K__IN_AVX2 void k__ahead_avx2(k__ahead *a, int blocks) {
    for (int i = 0; i < a->lines * blocks; i++, a->next += 64)
        _mm_prefetch((const char *)a->next, _MM_HINT_T1);
}

#define K__INT_AVX2(name, type, min)                                                               \
    K__AVX2 void k__row_##name##_avx2(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                      float *term, size_t ld) {                                    \
        switch (x->n) {                                                                            \
        case 1: k__int_row_avx2(type, min, p, rows, any, x, 1, 1, term, ld); break;                \
        case 2: k__int_row_avx2(type, min, p, rows, any, x, 2, 2, term, ld); break;                \
        case 3: k__int_row_avx2(type, min, p, rows, any, x, 3, 3, term, ld); break;                \
        case 4: k__int_row_avx2(type, min, p, rows, any, x, 4, 4, term, ld); break;                \
        default: k__int_row_avx2(type, min, p, rows, any, x, 0, x->n, term, ld);                   \
        }                                                                                          \
    }                                                                                              \
    K__AVX2 void k__pack_##name##_avx2(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                       int n, k__panel *to) {                                      \
        k__pack_avx2(type, true, min, any, w, row_bytes, rows, n, to);                             \
    }
#define K__SCALE_AVX2(name, type, group, min)                                                      \
    K__AVX2 void k__row_##name##_avx2(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                      float *term, size_t ld) {                                    \
        if (x->n == 1) k__scale_row_avx2(type, group, min, p, rows, any, x, 1, term, ld);          \
        else k__scale_row_avx2(type, group, min, p, rows, any, x, x->n, term, ld);                 \
    }                                                                                              \
    K__AVX2 void k__pack_##name##_avx2(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                       int n, k__panel *to) {                                      \
        k__pack_avx2(type, false, min, any, w, row_bytes, rows, n, to);                            \
    }
K__INT_AVX2(q2_K, K_Q2_K, true)
K__INT_AVX2(q3_K, K_Q3_K, false)
K__INT_AVX2(q4_K, K_Q4_K, true)
K__INT_AVX2(q5_K, K_Q5_K, true)
K__INT_AVX2(q6_K, K_Q6_K, false)
K__INT_AVX2(tq2_0, K_TQ2_0, false)
K__INT_AVX2(iq4_xs, K_IQ4_XS, false)
K__INT_AVX2(any_int, K__ANY, false)
K__SCALE_AVX2(q4_0, K_Q4_0, 32, false)
K__SCALE_AVX2(q4_1, K_Q4_1, 32, true)
K__SCALE_AVX2(q5_0, K_Q5_0, 32, false)
K__SCALE_AVX2(q5_1, K_Q5_1, 32, true)
K__SCALE_AVX2(q8_0, K_Q8_0, 32, false)
K__SCALE_AVX2(q1_0, K_Q1_0, 32, false)
K__SCALE_AVX2(iq4_nl, K_IQ4_NL, 32, false)
K__SCALE_AVX2(mxfp4, K_MXFP4, 32, false)
K__SCALE_AVX2(nvfp4, K_NVFP4, 16, false)
K__SCALE_AVX2(any_scale, K__ANY, 32, false)

#define K__TILE_AVX2(name, columns, rows, call)                                                      \
    K__AVX2 void k__tile_##name##_##columns##_avx2(const k__panel *w, const k__cols *x, int first, int end, k__ahead *a, \
                                                   float(*y)[K__STRIP]) {                            \
        const int T = columns;                                                                       \
        k__ahead_avx2(a, end - first);                                                               \
        for (int at = 0; at < K__STRIP; at += rows) call;                                            \
    }
#define K__TILES_OF_AVX2(name, rows, call)                                                                       \
    K__TILE_AVX2(name, 4, rows, call) K__TILE_AVX2(name, 5, rows, call) K__TILE_AVX2(name, 6, rows, call)        \
    static const k__tiles k__tiles_##name##_avx2 = {                                                             \
        .of = {[4] = k__tile_##name##_4_avx2, k__tile_##name##_5_avx2, k__tile_##name##_6_avx2}};
#define K__TILES_AVX2(name, call)   K__TILES_OF_AVX2(name, 8, call)
#define K__TILES16_AVX2(name, call) K__TILES_OF_AVX2(name, 16, call)
/*                                               steps, group of minima */
K__TILES16_AVX2(int4_min32, k__int_rows16_avx2(T, 8, 32, w, at, x, first, end, y))
K__TILES16_AVX2(int4_min, k__int_rows16_avx2(T, 4, 16, w, at, x, first, end, y))
K__TILES16_AVX2(int5_min, k__int_rows16_avx2(T, 4, 32, w, at, x, first, end, y))
K__TILES16_AVX2(int4_off, k__int_rows16_avx2(T, 4, 0, w, at, x, first, end, y))
K__TILES16_AVX2(int2_off, k__int_rows16_avx2(T, 2, 0, w, at, x, first, end, y))
K__TILES_AVX2(int_wide, k__int_rows_avx2(T, 1, 0, w, at, x, first, end, y))
K__TILES_AVX2(scale4_off, k__scale_rows_avx2(T, 4, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale4_min, k__scale_rows_avx2(T, 4, 32, true, w, at, x, first, end, y))
K__TILES_AVX2(scale_wide, k__scale_rows_avx2(T, 1, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale16_wide, k__scale_rows_avx2(T, 1, 16, false, w, at, x, first, end, y))

#define K__PLAN_AVX2(name, tiles) {k__row_##name##_avx2, k__pack_##name##_avx2, &k__tiles_##tiles##_avx2}
static const k__plan k__plans_avx2[K_TYPE_MAX] = {
    [K_Q2_K]    = K__PLAN_AVX2(q2_K, int4_min),
    [K_Q3_K]    = K__PLAN_AVX2(q3_K, int4_off),
    [K_Q4_K]    = K__PLAN_AVX2(q4_K, int4_min32),
    [K_Q5_K]    = K__PLAN_AVX2(q5_K, int5_min),
    [K_Q6_K]    = K__PLAN_AVX2(q6_K, int2_off),
    [K_TQ1_0]   = K__PLAN_AVX2(any_int, int_wide),
    [K_TQ2_0]   = K__PLAN_AVX2(tq2_0, int4_off),
    [K_IQ1_S]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ1_M]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_XXS] = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_XS]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_S]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_XXS] = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_S]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ4_XS]  = K__PLAN_AVX2(iq4_xs, int_wide),
    [K_Q4_0]    = K__PLAN_AVX2(q4_0, scale4_off),
    [K_Q4_1]    = K__PLAN_AVX2(q4_1, scale4_min),
    [K_Q5_0]    = K__PLAN_AVX2(q5_0, scale4_off),
    [K_Q5_1]    = K__PLAN_AVX2(q5_1, scale4_min),
    [K_Q8_0]    = K__PLAN_AVX2(q8_0, scale_wide),
    [K_Q1_0]    = K__PLAN_AVX2(q1_0, scale4_off),
    [K_Q2_0]    = K__PLAN_AVX2(any_scale, scale_wide),
    [K_IQ4_NL]  = K__PLAN_AVX2(iq4_nl, scale_wide),
    [K_MXFP4]   = K__PLAN_AVX2(mxfp4, scale_wide),
    [K_NVFP4]   = K__PLAN_AVX2(nvfp4, scale16_wide),
    [K_IQ2_K]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_K]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ4_K]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ5_K]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ6_K]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_KS]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_KL]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_KS]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ4_KS]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ4_KSS] = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ5_KS]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ1_KT]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_KT]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_KT]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ4_KT]  = K__PLAN_AVX2(any_int, int_wide),
    [K_Q6_0]    = K__PLAN_AVX2(any_scale, scale_wide),
    [K_I2_S]    = K__PLAN_AVX2(any_scale, scale_wide),
};

K__SHARED_AVX2 void k_mul_quant_avx2(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                                     float *y, size_t ldy, void *scratch) {
    k__mul_quant(k__plans_avx2, NULL, type, w, row_bytes, nr, n, a, y, ldy, scratch);
}

/* Whether the decoder of a type has no vector form. */
K__SHARED bool k__decoded_avx2(uint32_t type) {
    const k__plan *p = &k__plans_avx2[type];
    return p->row == k__row_any_int_avx2 || p->row == k__row_any_scale_avx2;
}

/* --- avx_vnni: the avx2 level with other tiles --- */

K__TILES_AVX2(int4_min32_vnni, k__int_rows_avx2(T, K__VNNI_NARROW, 32, w, at, x, first, end, y))
K__TILES_AVX2(int4_min_vnni, k__int_rows_avx2(T, K__VNNI_NARROW, 16, w, at, x, first, end, y))
K__TILES_AVX2(int5_min_vnni, k__int_rows_avx2(T, K__VNNI_WIDE, 32, w, at, x, first, end, y))
K__TILES_AVX2(int4_off_vnni, k__int_rows_avx2(T, K__VNNI_WIDE, 0, w, at, x, first, end, y))
K__TILES_AVX2(int_wide_vnni, k__int_rows_avx2(T, K__VNNI_SIGNED, 0, w, at, x, first, end, y))
K__TILES_AVX2(scale4_off_vnni, k__scale_rows_avx2(T, K__VNNI_WIDE, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale4_min_vnni, k__scale_rows_avx2(T, K__VNNI_WIDE, 32, true, w, at, x, first, end, y))
K__TILES_AVX2(scale_wide_vnni, k__scale_rows_avx2(T, K__VNNI_SIGNED, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale16_wide_vnni, k__scale_rows_avx2(T, K__VNNI_SIGNED, 16, false, w, at, x, first, end, y))

static const k__tiles *const k__tiles_vnni[][2] = {   /* in place of the one, the other */
    {&k__tiles_int4_min32_avx2, &k__tiles_int4_min32_vnni_avx2},
    {&k__tiles_int4_min_avx2, &k__tiles_int4_min_vnni_avx2},
    {&k__tiles_int5_min_avx2, &k__tiles_int5_min_vnni_avx2},
    {&k__tiles_int4_off_avx2, &k__tiles_int4_off_vnni_avx2},
    {&k__tiles_int2_off_avx2, &k__tiles_int4_off_vnni_avx2},
    {&k__tiles_int_wide_avx2, &k__tiles_int_wide_vnni_avx2},
    {&k__tiles_scale4_off_avx2, &k__tiles_scale4_off_vnni_avx2},
    {&k__tiles_scale4_min_avx2, &k__tiles_scale4_min_vnni_avx2},
    {&k__tiles_scale_wide_avx2, &k__tiles_scale_wide_vnni_avx2},
    {&k__tiles_scale16_wide_avx2, &k__tiles_scale16_wide_vnni_avx2},
};

static const k__tiles *k__swap_vnni(const k__tiles *tiles) {
    for (size_t i = 0; i < sizeof k__tiles_vnni / sizeof k__tiles_vnni[0]; i++)
        if (tiles == k__tiles_vnni[i][0]) return k__tiles_vnni[i][1];
    return tiles;
}

K__SHARED_AVX2 void k_mul_quant_vnni(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                                     float *y, size_t ldy, void *scratch) {
    k__mul_quant(k__plans_avx2, k__swap_vnni, type, w, row_bytes, nr, n, a, y, ldy, scratch);
}

/* Like k_quant_act_avx512. */
K__SHARED_AVX2 int k_quant_act_avx2(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi16(1);
    __m256i       most = zero;
    for (int i = 0; i < n; i += 8)
        most = _mm256_max_epi32(most, _mm256_and_si256(k__ld256(x + i), _mm256_set1_epi32(0x7fffffff)));
    const float amax = k__f32_of((uint32_t)k__most8(most)), inv = amax > 0 ? 127.0f / amax : 0.0f;
    if (!(amax <= FLT_MAX && inv <= FLT_MAX)) return k_quant_act_ref(x, n, q, sum, d);
    *d = amax / 127.0f;
    memset(sum, 0, sizeof *sum);
    _Alignas(32) int16_t sizes[16] = {0};
    for (int i = 0; i < n; i += 32) {
        __m256i v[4];
        K__UNROLL for (int k = 0; k < 4; k++)
            v[k] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * k), _mm256_set1_ps(inv)));
        __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);    /* a fourth in each lane */
        __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        __m256i s = _mm256_hadd_epi32(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
        __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
        _mm256_storeu_si256((__m256i *)(void *)(q + i), codes);
        sum->of16[i / 16] = (int16_t)(_mm_extract_epi32(t, 0) + _mm_extract_epi32(t, 1));
        sum->of16[i / 16 + 1] = (int16_t)(_mm_extract_epi32(t, 2) + _mm_extract_epi32(t, 3));
        __m256i size = _mm256_sad_epu8(_mm256_abs_epi8(codes), zero);
        size = _mm256_add_epi32(size, _mm256_shuffle_epi32(size, 0x4e));
        sizes[i / 16] = (int16_t)_mm256_extract_epi16(size, 0);
        sizes[i / 16 + 1] = (int16_t)_mm256_extract_epi16(size, 8);
    }
    const __m256i of32 = _mm256_madd_epi16(k__ld256(sum->of16), one), size16 = k__ld256(sizes),
                  size32 = _mm256_madd_epi16(size16, one);
    const __m128i lo = _mm256_castsi256_si128(of32), hi = _mm256_extracti128_si256(of32, 1);
    _mm_storeu_si128((__m128i *)(void *)sum->of32, k__crossed(_mm_packs_epi32(lo, hi)));
    sum->most16 = (int16_t)k__most8(
        _mm256_max_epi32(_mm256_srli_epi32(size16, 16), _mm256_and_si256(size16, _mm256_set1_epi32(0xffff))));
    sum->most32 = (int16_t)k__most_one_sign(size32, of32);
    const __m128i all = _mm_add_epi32(_mm256_castsi256_si128(size32), _mm256_extracti128_si256(size32, 1));
    return _mm_cvtsi128_si32(_mm_hadd_epi32(_mm_hadd_epi32(all, all), all));
}

/* k_far_act_ref. */
K__SHARED_AVX2 int k_far_act_avx2(const float *x, int n, bool fine, uint8_t at[K_SUPER]) {
    const __m256i sign = _mm256_set1_epi32(0x7fffffff);
    __m256i       units[K_SUPER / 8], most_bits = _mm256_setzero_si256(), all = most_bits, some = all, count = all;
    int           n_far = 0;
    for (int i = 0; i < n; i += 8) most_bits = _mm256_max_epi32(most_bits, _mm256_and_si256(k__ld256(x + i), sign));
    const __m256 by = _mm256_set1_ps((float)K_FAR_UNITS / k__f32_of((uint32_t)k__most8(most_bits)));
    for (int i = 0; i < n; i += 8) {
        const __m256 size = _mm256_castsi256_ps(_mm256_and_si256(k__ld256(x + i), sign));
        units[i / 8] = _mm256_cvtps_epi32(_mm256_mul_ps(size, by));
        all = _mm256_add_epi32(all, units[i / 8]);
    }
    const __m256i most = _mm256_set1_epi32(k__far_mean_of(k__total8(all), n));
    for (int i = 0; i < n; i += 8) {
        const __m256i out = _mm256_cmpgt_epi32(units[i / 8], most);
        some = _mm256_add_epi32(some, _mm256_andnot_si256(out, units[i / 8]));
        count = _mm256_add_epi32(count, out);
    }
    const __m256i above = _mm256_set1_epi32(k__far_above(k__total8(some), n + k__total8(count), fine));
    for (int i = 0; i < n; i += 8) {
        unsigned far = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(units[i / 8], above)));
        for (; far; far &= far - 1) at[n_far++] = (uint8_t)(i + __builtin_ctz(far));
    }
    return n_far;
}
