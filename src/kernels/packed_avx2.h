/* ===== [packed_avx2] ===== */

/* k-line i of 64 columns, eight rows; p points to the first of these rows in a line. */
K__IN_AVX2 __m256i k__line_avx2(int bits, bool table, __m256i t, const uint8_t *p, int i) {
    __m256i v = _mm256_setzero_si256();
    if (bits & 4) v = k__bits_avx2(p + k__plane4(bits, i), i / 8 * 4, 0, 15);
    if (bits & 2)
        v = _mm256_or_si256(v, k__bits_avx2(p + k__plane2(bits, i), i % 4 * 2, bits & 4, 3 << (bits & 4)));
    if (bits & 1) v = _mm256_or_si256(v, k__bits_avx2(p + k__plane1(i), i % 8, bits & 6, 1 << (bits & 6)));
    return table ? _mm256_shuffle_epi8(t, v) : v;
}

/* is_signed: codes are q, else u. */
K__IN_AVX2 void k__codes_open_avx2(int bits, bool table, bool is_signed, const k__form *f, const uint8_t *w,
                                   int segs, k__panel *to, int at) {
    __m256i t = _mm256_setzero_si256();
    if (table) t = _mm256_broadcastsi128_si256(k__ld128(f->values));
    if (table && !is_signed) t = _mm256_add_epi8(t, _mm256_set1_epi8((char)f->off));
    for (int s = 0; s < segs; s++) {
        const uint8_t *p =
            w + (size_t)(s / f->segs) * k__unit_bytes(f) + k__codes_at(f) + (size_t)(s % f->segs) * (size_t)(128 * bits);
        uint8_t (*q)[K__STRIP][4] = &to->q[16 * s];
        K__UNROLL for (int i = 0; i < 16; i++)
            K__UNROLL for (int r = 0; r < 2; r++) {
            __m256i v = bits == 8 ? _mm256_xor_si256(k__ld256(p + 64 * i + 32 * r), _mm256_set1_epi8(-128))
                                  : k__line_avx2(bits, table, t, p + 32 * r, i);
            _mm256_store_si256((__m256i *)q[i][at + 8 * r], v);
            }
    }
}

#define K__CODES_AVX2(name, bits, table, is_signed)                                                 \
    K__AVX2 void k__codes_##name##_avx2(const k__form *f, const uint8_t *w, int segs, k__panel *to, \
                                        int at) {                                                   \
        k__codes_open_avx2(bits, table, is_signed, f, w, segs, to, at);                             \
    }
K__CODES_AVX2(1t, 1, true, false)
K__CODES_AVX2(2, 2, false, false)
K__CODES_AVX2(3, 3, false, false)
K__CODES_AVX2(3t, 3, true, false)
K__CODES_AVX2(3q, 3, true, true)
K__CODES_AVX2(4, 4, false, false)
K__CODES_AVX2(4t, 4, true, false)
K__CODES_AVX2(4q, 4, true, true)
K__CODES_AVX2(5, 5, false, false)
K__CODES_AVX2(6, 6, false, false)
K__CODES_AVX2(8, 8, false, true)

/* --- few columns, straight from the packed block, eight rows at a time --- */

K__IN_AVX2 __m256i k__direct_avx2(int bits, bool table, __m256i t, const uint8_t *p, int i) {
    if (bits == 8) return _mm256_xor_si256(k__ld256(p + 64 * i), _mm256_set1_epi8(-128));
    return k__line_avx2(bits, table, t, p, i);
}

/* acc[j] += products of count k-lines from `from` on of 64 columns, each pair
 * times its half of s; steps: see k__dots_avx2, and 8 for codes up to 15. */
K__IN_AVX2 void k__direct_dots_avx2(int T, int steps, int bits, bool table, __m256i t, const uint8_t *p,
                                    int from, int count, const int8_t *const *q, __m256i s, __m256i *acc) {
    K__UNROLL for (int i = from; i < from + count; i += steps) {
        __m256i v[K__COLS];
        K__UNROLL for (int k = i; k < i + steps; k++) {
            __m256i w = k__direct_avx2(bits, table, t, p, k);
            K__UNROLL for (int j = 0; j < T; j++) {
                __m256i x = k__pairs_avx2(steps == 1, w, k__bcast_avx2(q[j] + 4 * k));
                v[j] = k == i ? x : _mm256_add_epi16(v[j], x);
                if (T > 1) K__IN_ORDER(v[j]);
            }
        }
        K__UNROLL for (int j = 0; j < T; j++) acc[j] = _mm256_add_epi32(acc[j], _mm256_madd_epi16(v[j], s));
    }
}

/* Values of a table: q where steps is 1, else u. */
K__IN_AVX2 __m256i k__values_avx2(bool table, int steps, const k__form *f) {
    if (!table) return _mm256_setzero_si256();
    __m256i t = _mm256_broadcastsi128_si256(k__ld128(f->values));
    return steps == 1 ? t : _mm256_add_epi8(t, _mm256_set1_epi8((char)f->off));
}

/* Returns n and hides it from the compiler, which otherwise makes two copies of a long loop of two iterations. */
static inline __attribute__((always_inline)) int k__opaque(int n) {
    __asm__("" : "+r"(n));
    return n;
}

/* d and dm of eight rows; v: their lines of the head; last: the last line. */
K__IN_AVX2 void k__direct_d_avx2(int head, const __m256i *v, const uint8_t *last, const k__form *f, __m256 *d,
                                 __m256 *dm) {
    *dm = _mm256_setzero_ps();
    switch (head) {
    case K__HEAD_MIN6: case K__HEAD_MIN4:
        *d = k__lane_halves(last);
        *dm = k__lane_halves(last + 32);
        return;
    case K__HEAD_S6X2: {
        __m256i f16 = _mm256_srli_epi32(v[1], 16);
        f16 = _mm256_permute4x64_epi64(_mm256_packus_epi32(f16, f16), 0xd8);
        *d = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), _mm256_set1_ps(f->factor));
        return;
    }
    default: *d = _mm256_castsi256_ps(v[k__head_lines(f->head) - 1]);
    }
}

/* Two words in a lane: bytes a and b of the lane, without a sign. */
K__IN_AVX2 __m256i k__lane_bytes(__m256i v, int a, int b) {
    const int two = (int)0x80008000 | a | b << 16;    /* 0x80: zero */
    return _mm256_shuffle_epi8(v, _mm256_setr_epi32(two, two + 0x040004, two + 0x080008, two + 0x0c000c, two, two + 0x040004,
                                                    two + 0x080008, two + 0x0c000c));
}

/* The same, with a sign. */
K__IN_AVX2 __m256i k__lane_signed(__m256i v, int a, int b) {
    const int two = 0x800080 | a << 8 | b << 24;
    v = _mm256_shuffle_epi8(v, _mm256_setr_epi32(two, two + 0x04000400, two + 0x08000800, two + 0x0c000c00, two,
                                                 two + 0x04000400, two + 0x08000800, two + 0x0c000c00));
    return _mm256_srai_epi16(v, 8);
}

/* Whether groups of 32 share a scale; their minima then are in the order of k_sums.of32. */
static inline __attribute__((always_inline)) bool k__head_by32(int head) { return head == K__HEAD_MIN6; }

/* The scales of eight rows, twice in a lane each, and their minima, two in a lane;
 * without minima, the scales are in their place. v: the lines of the head. */
K__IN_AVX2 void k__direct_head_avx2(int head, const __m256i *v, __m256i *sc, __m256i *mn) {
    const __m256i low4 = _mm256_set1_epi8(15), low6 = _mm256_set1_epi8(63);
    switch (head) {
    case K__HEAD_MIN6: {
        const __m256i up = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(v[0], 6), _mm256_set1_epi8(0x03)),
                                           _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(v[1], 4), _mm256_set1_epi8(0x0c)),
                                                           _mm256_and_si256(_mm256_srli_epi32(v[2], 2), _mm256_set1_epi8(0x30))));
        K__UNROLL for (int g = 0; g < 8; g++)
            sc[2 * g] = sc[2 * g + 1] = k__lane_bytes(_mm256_and_si256(v[g / 4], low6), g % 4, g % 4);
        K__UNROLL for (int i = 0; i < 4; i++) mn[i] = k__lane_bytes(i < 2 ? _mm256_and_si256(v[2], low6) : up, i % 2, i % 2 + 2);
        return;
    }
    case K__HEAD_MIN4:
        K__UNROLL for (int g = 0; g < 16; g++) sc[g] = k__lane_bytes(_mm256_and_si256(v[g / 4], low4), g % 4, g % 4);
        K__UNROLL for (int i = 0; i < 8; i++)
            mn[i] = k__lane_bytes(_mm256_and_si256(_mm256_srli_epi32(v[i / 2], 4), low4), i % 2 * 2, i % 2 * 2 + 1);
        return;
    case K__HEAD_S8:
        K__UNROLL for (int g = 0; g < 16; g++) sc[g] = k__lane_signed(v[g / 4], g % 4, g % 4);
        break;
    default:
        K__UNROLL for (int g = 0; g < 16; g++) {
            const __m256i s = k__lane_sc(head, v, g);
            sc[g] = k__lane_pair(s, s);
        }
    }
    K__UNROLL for (int i = 0; i < 8; i++) mn[i] = _mm256_blend_epi16(sc[2 * i], sc[2 * i + 1], 0xaa);
}

K__IN_AVX2 void k__int_direct_avx2(int T, int steps, int bits, bool table, int head, const uint8_t *w,
                                   const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const bool     has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4, by32 = k__head_by32(head);
    const int      each = steps > 4 ? steps : 4;      /* k-lines with one scale that are summed together */
    const int      n_min = by32 ? 4 : 8;
    const k__form *form = x->form;
    const __m256i  t = k__values_avx2(table, steps, form);
    K__NO_UNROLL for (int r = 0; r < k__opaque(K_PACK_ROWS); r += 8) {
        const uint8_t *h = w + 4 * r, *p = h + 64 * k__head_lines(head);
        const int8_t  *q[K__COLS];
        __m256i        v[5], sc[16], mn[8], sum[K__COLS];
        __m256         d, dm;
        K__UNROLL for (int i = 0; i < 5; i++) v[i] = k__ld256(h + 64 * (i < k__head_lines(head) ? i : 0));
        k__direct_head_avx2(head, v, sc, mn);
        K__UNROLL for (int j = 0; j < T; j++) {
            q[j] = x->c.q[j] + (size_t)b * K_SUPER;
            sum[j] = _mm256_setzero_si256();
        }
        if (!r) k__head_ahead(T, bits, w, k__head_lines(head));
        K__NO_UNROLL for (int s = 0; s < 4; s++, p += 128 * bits) {
            if (!r) K__UNROLL for (int l = 0; l < 2 * bits; l++) k__line_ahead(T, bits, p + 64 * l);
            K__UNROLL for (int i = 0; i < 16; i += each)
                k__direct_dots_avx2(T, steps, bits, table, t, p, i, each, q, sc[4 * s + i / 4], sum);
            K__UNROLL for (int j = 0; j < T; j++) q[j] += 64;
        }
        k__direct_d_avx2(head, v, w + 64 * (k__head_lines(head) - 1) + 2 * r, form, &d, &dm);
        K__UNROLL for (int j = 0; j < T; j++) {
            const int16_t *xs = by32 ? x->c.sum[j][b].of32 : x->c.sum[j][b].of16;
            __m256i        m = _mm256_setzero_si256();
            if (has_min || steps > 1)
                K__UNROLL for (int i = 0; i < n_min; i++)
                    m = _mm256_add_epi32(m, _mm256_madd_epi16(mn[i], k__bcast_avx2(xs + 2 * i)));
            if (!has_min && steps > 1)                /* the offset */
                sum[j] = _mm256_sub_epi32(sum[j], _mm256_mullo_epi32(m, _mm256_set1_epi32(form->off)));
            __m256 u = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum[j]));
            if (has_min) u = _mm256_sub_ps(u, _mm256_mul_ps(dm, _mm256_cvtepi32_ps(m)));
            k__add_scaled_avx2(y[j] + r, u, x->c.d[j][b]);
        }
    }
}

/* Group i of the s-th 64 columns of a unit, rows r .. r + 7; their codes are at p, the head
 * at h: f[j] += fs * dot + fm * sum. The start value of a dot subtracts the offset. */
K__IN_AVX2 void k__scale_group_avx2(int T, int steps, int bits, bool table, int head, int segs, __m256i t,
                                    const uint8_t *p, const uint8_t *h, int r, int s, int i,
                                    const int32_t *aux, const int8_t *const *q, __m256 *f) {
    const bool has_min = head == K__HEAD_F16M;
    __m256i    a[K__COLS];
    K__UNROLL for (int j = 0; j < T; j++)
        a[j] = has_min || steps == 1 ? _mm256_setzero_si256() : k__bcast_avx2(aux + 16 * j + i);
    k__direct_dots_avx2(T, steps, bits, table, t, p, 8 * i, 8, q, _mm256_set1_epi16(1), a);
    __m256 fs = head == K__HEAD_E8 ? k__lane_e8(h + 16 * (2 * s + i) + r)
                                   : k__lane_halves(h + 32 * ((2 * s + i) / segs) + 2 * r);
    K__UNROLL for (int j = 0; j < T; j++) {
        f[j] = _mm256_add_ps(f[j], _mm256_mul_ps(fs, _mm256_cvtepi32_ps(a[j])));
        if (!has_min) continue;
        __m256 fm = k__lane_halves(h + 64 + 32 * i + 2 * r),
               sum = _mm256_castsi256_ps(k__bcast_avx2(aux + 16 * j + i));
        f[j] = _mm256_add_ps(f[j], _mm256_mul_ps(fm, sum));
    }
}

/* SCALE formats with groups of 32. */
K__IN_AVX2 void k__scale_direct_avx2(int T, int steps, int bits, bool table, int head, int segs,
                                     const uint8_t *w, const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const int     groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 32, tail = head == K__HEAD_F16M ? 128 : 64;
    const __m256i t = k__values_avx2(table, steps, x->form);
    K__NO_UNROLL for (int r = 0; r < k__opaque(K_PACK_ROWS); r += 8) {
        const uint8_t *p = w + 4 * r, *h = w + 128 * bits * segs;
        const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
        const int8_t  *q[K__COLS];
        __m256         f[K__COLS];
        K__UNROLL for (int j = 0; j < T; j++) {
            q[j] = k__cols_q(&x->c, j, b);
            f[j] = _mm256_setzero_ps();
        }
        K__NO_UNROLL for (int g = 0, s = 0; g < groups; g += 2, p += 128 * bits, aux += 2) {
            if (!r) K__UNROLL for (int l = 0; l < 2 * bits + 1; l++) k__line_ahead(T, bits, p + 64 * l);
            k__scale_group_avx2(T, steps, bits, table, head, segs, t, p, h, r, s, 0, aux, q, f);
            if (g + 1 == groups) break;
            k__scale_group_avx2(T, steps, bits, table, head, segs, t, p, h, r, s, 1, aux, q, f);
            K__UNROLL for (int j = 0; j < T; j++) q[j] += 64;
            if (++s == segs) {                        /* skips the head of the next unit */
                s = 0;
                p += tail;
                h += 128 * bits * segs + tail;
            }
        }
        K__UNROLL for (int j = 0; j < T; j++) k__add_scaled_avx2(y[j] + r, f[j], x->c.d[j][b]);
    }
}

/* --- few columns of an unpacked block --- */

/* Groups of 16 with float scales. */
K__IN_AVX2 void k__scale16_cols_avx2(int T, const k__panel *w, const k__pass *x, int b,
                                     float (*y)[K_PACK_ROWS]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const int     groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 16;
    for (int r = 0; r < K_PACK_ROWS; r += 8) {
        __m256        f[K__COLS];
        const int8_t *q[K__COLS];
        K__UNROLL for (int j = 0; j < T; j++) {
            q[j] = k__cols_q(&x->c, j, b);
            f[j] = _mm256_setzero_ps();
        }
        K__NO_UNROLL for (int g = 0; g < groups; g++) {
            __m256i a[K__COLS];
            K__UNROLL for (int j = 0; j < T; j++) a[j] = _mm256_setzero_si256();
            for (int k = 4 * g; k < 4 * g + 4; k++) {
                const __m256i wk = k__ld256(w->q[k][r]);
                K__UNROLL for (int j = 0; j < T; j++)
                    a[j] = _mm256_add_epi32(a[j], _mm256_madd_epi16(k__pairs_avx2(true, wk, k__bcast_avx2(q[j] + 4 * k)), ones));
            }
            __m256 s = _mm256_loadu_ps(&w->fs[g][r]);
            K__UNROLL for (int j = 0; j < T; j++)
                f[j] = _mm256_add_ps(f[j], _mm256_mul_ps(s, _mm256_cvtepi32_ps(a[j])));
        }
        K__UNROLL for (int j = 0; j < T; j++) k__add_scaled_avx2(y[j] + r, f[j], x->c.d[j][b]);
    }
}

#define K__COLS_NAVX2(name, T_, call)                                                                   \
    K__AVX2 void k__cols_##name##_##T_##_avx2(const k__panel *open, const uint8_t *w, const k__pass *x, \
                                              int b, float(*y)[K_PACK_ROWS]) {                          \
        const int T = T_;                                                                               \
        (void)open, (void)w;                                                                            \
        call;                                                                                           \
    }
#define K__COLS8_AVX2(name, call)                                                          \
    K__COLS_NAVX2(name, 1, call) K__COLS_NAVX2(name, 2, call) K__COLS_NAVX2(name, 3, call) \
    K__COLS_NAVX2(name, 4, call) K__COLS_NAVX2(name, 5, call) K__COLS_NAVX2(name, 6, call) \
    K__COLS_NAVX2(name, 7, call) K__COLS_NAVX2(name, 8, call)
/*                                        steps bits table head */
K__COLS8_AVX2(q4_K, k__int_direct_avx2(T, 8, 4, false, K__HEAD_MIN6, w, x, b, y))
K__COLS8_AVX2(q5_K, k__int_direct_avx2(T, 4, 5, false, K__HEAD_MIN6, w, x, b, y))
K__COLS8_AVX2(q6_K, k__int_direct_avx2(T, 2, 6, false, K__HEAD_S8, w, x, b, y))
K__COLS8_AVX2(iq6_k, k__int_direct_avx2(T, 1, 8, false, K__HEAD_S8, w, x, b, y))
K__COLS8_AVX2(q3_K, k__int_direct_avx2(T, 4, 3, false, K__HEAD_S6, w, x, b, y))
K__COLS8_AVX2(q2_K, k__int_direct_avx2(T, 4, 2, false, K__HEAD_MIN4, w, x, b, y))
K__COLS8_AVX2(tq2_0, k__int_direct_avx2(T, 8, 2, false, K__HEAD_ONE, w, x, b, y))
K__COLS8_AVX2(iq4_xs, k__int_direct_avx2(T, 1, 4, true, K__HEAD_S6X2, w, x, b, y))
K__COLS8_AVX2(iq3_s, k__int_direct_avx2(T, 4, 4, true, K__HEAD_S6X2, w, x, b, y))
K__COLS8_AVX2(iq2_s, k__int_direct_avx2(T, 1, 3, true, K__HEAD_S6, w, x, b, y))
K__COLS8_AVX2(iq2_xxs, k__int_direct_avx2(T, 1, 3, true, K__HEAD_S6X2, w, x, b, y))
/*                                          steps bits table head    segs */
K__COLS8_AVX2(q4_0, k__scale_direct_avx2(T, 8, 4, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(q4_1, k__scale_direct_avx2(T, 8, 4, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS8_AVX2(q5_0, k__scale_direct_avx2(T, 4, 5, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(q5_1, k__scale_direct_avx2(T, 4, 5, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS8_AVX2(q8_0, k__scale_direct_avx2(T, 1, 8, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(q1_0, k__scale_direct_avx2(T, 8, 1, true, K__HEAD_F16, 4, w, x, b, y))
K__COLS8_AVX2(q2_0, k__scale_direct_avx2(T, 8, 2, false, K__HEAD_F16, 2, w, x, b, y))
K__COLS8_AVX2(iq4_nl, k__scale_direct_avx2(T, 1, 4, true, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(mxfp4, k__scale_direct_avx2(T, 4, 4, true, K__HEAD_E8, 2, w, x, b, y))
K__COLS8_AVX2(scale16_wide, k__scale16_cols_avx2(T, open, x, b, y))

#define K__PACKED_AVX2(code, head, family, sums, from)                                                      \
    .codes = k__codes_##code##_avx2, .heads = k__heads_##head, .width = 8, .aux = sums, .panel_cols = from, \
    .tiles = &k__tiles_##family##_avx2
#define K__BY8_AVX2(name)                                                                                        \
    .cols = {k__cols_##name##_1_avx2, k__cols_##name##_2_avx2, k__cols_##name##_3_avx2, k__cols_##name##_4_avx2, \
             k__cols_##name##_5_avx2, k__cols_##name##_6_avx2, k__cols_##name##_7_avx2, k__cols_##name##_8_avx2}
static const k__packed_plan k__packed_avx2[K_TYPE_MAX] = {
    /*                                codes head      tiles   (sums)  panels from */
    [K_Q2_K]    = {K__PACKED_AVX2(2, min4_both, int4_min, K__AUX_NONE, 9), K__BY8_AVX2(q2_K)},
    [K_Q3_K]    = {K__PACKED_AVX2(3, s6_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(q3_K)},
    [K_Q4_K]    = {K__PACKED_AVX2(4, min6_both, int4_min32, K__AUX_NONE, 33), K__BY8_AVX2(q4_K)},
    [K_Q5_K]    = {K__PACKED_AVX2(5, min6_both, int5_min, K__AUX_NONE, 13), K__BY8_AVX2(q5_K)},
    [K_Q6_K]    = {K__PACKED_AVX2(6, s8_both, int2_off, K__AUX_NONE, 9), K__BY8_AVX2(q6_K)},
    [K_TQ1_0]   = {K__PACKED_AVX2(2, one_both, int4_off, K__AUX_NONE, 17), K__BY8_AVX2(tq2_0)},
    [K_TQ2_0]   = {K__PACKED_AVX2(2, one_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(tq2_0)},
    [K_IQ1_S]   = {K__PACKED_AVX2(3t, s6x2_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(iq2_xxs)},
    [K_IQ1_M]   = {K__PACKED_AVX2(3t, s6_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(iq2_s)},
    [K_IQ2_XXS] = {K__PACKED_AVX2(3q, s6x2_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq2_xxs)},
    [K_IQ2_XS]  = {K__PACKED_AVX2(3q, s6_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq2_s)},
    [K_IQ2_S]   = {K__PACKED_AVX2(3q, s6_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq2_s)},
    [K_IQ3_XXS] = {K__PACKED_AVX2(4q, s6x2_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq4_xs)},
    [K_IQ3_S]   = {K__PACKED_AVX2(4t, s6x2_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(iq3_s)},
    [K_IQ4_XS]  = {K__PACKED_AVX2(4q, s6x2_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq4_xs)},
    [K_Q4_0]    = {K__PACKED_AVX2(4, f16, scale4_off, K__AUX_OFF32, 65), K__BY8_AVX2(q4_0)},
    [K_Q4_1]    = {K__PACKED_AVX2(4, f16m, scale4_min, K__AUX_FLOAT, 65), K__BY8_AVX2(q4_1)},
    [K_Q5_0]    = {K__PACKED_AVX2(5, f16, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(q5_0)},
    [K_Q5_1]    = {K__PACKED_AVX2(5, f16m, scale4_min, K__AUX_FLOAT, 33), K__BY8_AVX2(q5_1)},
    [K_Q8_0]    = {K__PACKED_AVX2(8, f16, scale_wide, K__AUX_NONE, 17), K__BY8_AVX2(q8_0)},
    [K_Q1_0]    = {K__PACKED_AVX2(1t, f16, scale4_off, K__AUX_OFF32, 49), K__BY8_AVX2(q1_0)},
    [K_Q2_0]    = {K__PACKED_AVX2(2, f16, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(q2_0)},
    [K_IQ4_NL]  = {K__PACKED_AVX2(4q, f16, scale_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq4_nl)},
    [K_MXFP4]   = {K__PACKED_AVX2(4t, e8, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(mxfp4)},
    [K_IQ2_K]   = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ3_K]   = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ4_K]   = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ5_K]   = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ6_K]   = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ2_KS]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ2_KL]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ3_KS]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ4_KS]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ4_KSS] = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ5_KS]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ1_KT]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ2_KT]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ3_KT]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_IQ4_KT]  = {K__PACKED_AVX2(8, s8_both, int_wide, K__AUX_NONE, 17), K__BY8_AVX2(iq6_k)},
    [K_Q6_0]    = {K__PACKED_AVX2(8, f16, scale_wide, K__AUX_NONE, 17), K__BY8_AVX2(q8_0)},
    [K_I2_S]    = {K__PACKED_AVX2(2, f16, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(q2_0)},
    [K_NVFP4]   = {K__PACKED_AVX2(4q, e4, scale16_wide, K__AUX_NONE, 17), K__BY8_AVX2(scale16_wide),
                   .opened = true},
};

K__SHARED_AVX2 bool k_mul_packed_avx2(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y,
                                      size_t ldy, void *scratch, k__far_mem *far) {
    return k__packed_by_cols(k__packed_avx2, NULL, type, w, nr, n, a, y, ldy, scratch, far);
}

K__SHARED_AVX2 bool k_mul_packed_vnni(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy,
                                      void *scratch, k__far_mem *far) {
    return k__packed_by_cols(k__packed_avx2, k__swap_vnni, type, w, nr, n, a, y, ldy, scratch, far);
}
