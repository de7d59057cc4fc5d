/* ===== [packed_avx512] ===== */

/* Moves bit `from` of each byte to bit `to`, then applies the mask. */
K__IN_512 __m512i k__moved512(__m512i v, int from, int to, int mask) {
    if (from > to) v = _mm512_srli_epi16(v, (unsigned)(from - to));
    if (from < to) v = _mm512_slli_epi16(v, (unsigned)(to - from));
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* k-lines i and 8 + i of 64 columns at p. */
K__IN_512 void k__lines512(int bits, bool table, __m512i t, const uint8_t *p, int i, __m512i *lo,
                           __m512i *hi) {
    *lo = *hi = _mm512_setzero_si512();
    if (bits & 1) {
        *lo = k__moved512(k__ld512(p + k__plane1(i)), i, bits & 6, 1 << (bits & 6));
        *hi = k__moved512(k__ld512(p + k__plane1(8 + i)), i, bits & 6, 1 << (bits & 6));
    }
    if (bits & 2) {
        *lo = _mm512_or_si512(*lo, k__moved512(k__ld512(p + k__plane2(bits, i)), i % 4 * 2, bits & 4, 3 << (bits & 4)));
        *hi = _mm512_or_si512(*hi, k__moved512(k__ld512(p + k__plane2(bits, 8 + i)), i % 4 * 2, bits & 4, 3 << (bits & 4)));
    }
    if (bits & 4) {
        __m512i v = k__ld512(p + k__plane4(bits, i));
        *lo = _mm512_or_si512(*lo, k__moved512(v, 0, 0, 15));
        *hi = _mm512_or_si512(*hi, k__moved512(v, 4, 0, 15));
    }
    if (table) {
        *lo = _mm512_shuffle_epi8(t, *lo);
        *hi = _mm512_shuffle_epi8(t, *hi);
    }
}

/* sign: codes without the offset. */
K__IN_512 void k__codes_open512(int bits, bool table, bool sign, const k__form *f, const uint8_t *w, int segs,
                                k__panel *to, int at) {
    const __m512i off = _mm512_set1_epi8((char)f->off), less = _mm512_set1_epi8((char)-f->off);
    __m512i       t = _mm512_setzero_si512();
    if (table) t = _mm512_broadcast_i32x4(k__ld128(f->values));
    if (table && !sign) t = _mm512_add_epi8(t, off);
    for (int s = 0; s < segs; s++) {
        const uint8_t *p =
            w + (size_t)(s / f->segs) * k__unit_bytes(f) + k__codes_at(f) + (size_t)(s % f->segs) * (size_t)(128 * bits);
        uint8_t (*q)[K__STRIP][4] = &to->q[16 * s];
        K__UNROLL for (int i = 0; i < 8; i++) {
            __m512i lo, hi;
            if (bits == 8) {
                lo = k__ld512(p + 64 * i);
                hi = k__ld512(p + 64 * i + 512);
            } else {
                k__lines512(bits, table, t, p, i, &lo, &hi);
            }
            if (sign && !table) {
                lo = _mm512_add_epi8(lo, less);
                hi = _mm512_add_epi8(hi, less);
            }
            _mm512_store_si512(q[i][at], lo);
            _mm512_store_si512(q[8 + i][at], hi);
        }
    }
}

#define K__CODES_512(name, bits, table, sign)                                                               \
    K__512 void k__codes_##name##_512(const k__form *f, const uint8_t *w, int segs, k__panel *to, int at) { \
        k__codes_open512(bits, table, sign, f, w, segs, to, at);                                            \
    }
/*           name bits table sign */
K__CODES_512(1t, 1, true, false)
K__CODES_512(2, 2, false, false)
K__CODES_512(3, 3, false, false)
K__CODES_512(3t, 3, true, false)
K__CODES_512(4, 4, false, false)
K__CODES_512(4t, 4, true, false)
K__CODES_512(5, 5, false, false)
K__CODES_512(6, 6, false, false)
K__CODES_512(8, 8, false, false)
K__CODES_512(1ts, 1, true, true)
K__CODES_512(2s, 2, false, true)
K__CODES_512(4s, 4, false, true)
K__CODES_512(4ts, 4, true, true)
K__CODES_512(5s, 5, false, true)
K__CODES_512(8s, 8, false, true)

/* --- few columns, straight from the packed block --- */

/* k-lines i and 8 + i of 64 columns; plain nibbles are not shifted: the second line is 16 times its codes. */
K__IN_512 void k__direct512(int bits, bool table, __m512i t, const uint8_t *p, int i, __m512i *lo,
                            __m512i *hi) {
    if (bits == 4 && !table) {
        __m512i v = k__ld512(p + 64 * i);
        *lo = _mm512_and_si512(v, _mm512_set1_epi8(15));
        *hi = _mm512_and_si512(v, _mm512_set1_epi8(-16));
    } else {
        k__lines512(bits, table, t, p, i, lo, hi);
    }
}

/* Adds to a the dots of count k-lines from `from` on, to c those of the k-lines 8 after, of 64 columns; q[j]: their
 * activations, row j. Codes of whole bytes are two runs of lines, which are read one after the other, as one stream. */
K__IN_512 void k__direct_dots512(int T, int bits, bool table, __m512i t, const uint8_t *p, int from,
                                 int count, const int8_t *const *q, __m512i *a, __m512i *c) {
    if (bits == 8) {
        K__UNROLL for (int i = from; i < from + count; i++) {
            k__line_ahead(T, bits, p + 64 * i);
            K__UNROLL for (int j = 0; j < T; j++)
                a[j] = _mm512_dpbusd_epi32(a[j], k__ld512(p + 64 * i), k__bcast512(q[j] + 4 * i));
        }
        K__UNROLL for (int i = 8 + from; i < 8 + from + count; i++) {
            k__line_ahead(T, bits, p + 64 * i);
            K__UNROLL for (int j = 0; j < T; j++)
                c[j] = _mm512_dpbusd_epi32(c[j], k__ld512(p + 64 * i), k__bcast512(q[j] + 4 * i));
        }
        return;
    }
    K__UNROLL for (int i = from; i < from + count; i++) {
        __m512i lo, hi;
        K__UNROLL for (int l = 0; l < 2; l++)
            if (i * bits / 4 + l < (i + 1) * bits / 4) k__line_ahead(T, bits, p + 64 * (i * bits / 4 + l));
        k__direct512(bits, table, t, p, i, &lo, &hi);
        K__UNROLL for (int j = 0; j < T; j++) {
            a[j] = _mm512_dpbusd_epi32(a[j], lo, k__bcast512(q[j] + 4 * i));
            c[j] = _mm512_dpbusd_epi32(c[j], hi, k__bcast512(q[j] + 4 * i + 32));
        }
    }
}

K__IN_512 __m512i k__values512(bool table, const k__form *f) {
    if (!table) return _mm512_setzero_si512();
    return _mm512_add_epi8(_mm512_broadcast_i32x4(k__ld128(f->values)), _mm512_set1_epi8((char)f->off));
}

/* Reads the lines of the head at their place in the stream, even if their values are used later. Returns their number. */
K__IN_512 int k__head_touch512(int T, int bits, int head, const uint8_t *h) {
    K__UNROLL for (int i = 0; i < k__head_lines(head); i++) {
        k__line_ahead(T, bits, h + 64 * i);
        __asm__ volatile("" : : "v"(k__ld512(h + 64 * i)));
    }
    return k__head_lines(head);
}

/* Minima as words for the pairs of of32 and of K__AUX_PAIRS16. Returns the number of vectors. */
K__IN_512 int k__mins_open512(int head, const uint8_t *h, __m512i *mn) {
    const __m512i even = _mm512_set1_epi32(0x00ff00ff);
    if (head == K__HEAD_MIN4) {
        K__UNROLL for (int l = 0; l < 4; l++) {
            __m512i v = k__moved512(k__ld512(h + 64 * l), 4, 0, 15);
            mn[2 * l] = _mm512_and_si512(v, even);
            mn[2 * l + 1] = _mm512_and_si512(_mm512_srli_epi32(v, 8), even);
        }
        return 8;
    }
    __m512i v2 = k__ld512(h + 128), m0 = _mm512_and_si512(v2, _mm512_set1_epi8(63));
    __m512i m1 = k__moved512(k__ld512(h), 6, 0, 3);
    m1 = _mm512_or_si512(m1, k__moved512(k__ld512(h + 64), 6, 2, 12));
    m1 = _mm512_or_si512(m1, k__moved512(v2, 6, 4, 48));
    mn[0] = _mm512_and_si512(m0, even);
    mn[1] = _mm512_and_si512(_mm512_srli_epi32(m0, 8), even);
    mn[2] = _mm512_and_si512(m1, even);
    mn[3] = _mm512_and_si512(_mm512_srli_epi32(m1, 8), even);
    return 4;
}

/* y[t] += u * d of the column; isum is the complete sum, as float. */
K__IN_512 void k__int_finish512(int T, int head, const uint8_t *h, const k__pass *x, int b,
                                const __m512 *isum, float (*y)[K_PACK_ROWS]) {
    const bool     has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
    const uint8_t *last = h + 64 * (k__head_lines(head) - 1);
    __m512i        mn[8];
    __m512         d, dm;
    int            n = 0;
    if (has_min) {
        n = k__mins_open512(head, h, mn);
        d = _mm512_cvtph_ps(k__ld256(last));
        dm = _mm512_cvtph_ps(k__ld256(last + 32));
    } else if (head == K__HEAD_S6X2) {
        d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(k__ld512(last), 16)));
        d = _mm512_mul_ps(d, _mm512_set1_ps(x->form->factor));
    } else {
        d = _mm512_castsi512_ps(k__ld512(last));
    }
    K__UNROLL for (int t = 0; t < T; t++) {
        __m512 u = _mm512_mul_ps(d, isum[t]);
        if (has_min) {
            const int16_t *pairs = head == K__HEAD_MIN6 ? x->c.sum[t][b].of32 : (const int16_t *)(aux + 16 * t);
            __m512i        m = _mm512_setzero_si512();
            K__UNROLL for (int i = 0; i < n; i++) m = _mm512_dpwssd_epi32(m, mn[i], k__bcast512(pairs + 2 * i));
            u = _mm512_sub_ps(u, _mm512_mul_ps(dm, _mm512_cvtepi32_ps(m)));
        }
        k__add_scaled512(y[t], u, x->c.d[t][b]);
    }
}

/* Q4_K. Scales are multiplied in float: 4 groups * 63 * 32 * 15 * 127 < 2^24, so the sum of half a block is exact. The sum of the
 * two halves is rounded once, like the conversion of an integer. */
K__IN_512 void k__q4_K_direct512(int T, const uint8_t *w, const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const uint8_t *h = w;
    const __m512i  six = _mm512_set1_epi32(63);
    const int8_t  *q[K__COLS];
    __m512i        v = k__ld512(h);
    __m512         f[K__COLS], half[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = x->c.q[t] + (size_t)b * K_SUPER;
        f[t] = half[t] = _mm512_setzero_ps();
    }
    w += 64 * k__head_touch512(T, 4, K__HEAD_MIN6, h);
    K__NO_UNROLL for (int s = 0; s < 4; s++, w += 512, v = _mm512_srli_epi32(v, 16)) {
        __m512i a[K__COLS], c[K__COLS];
        K__UNROLL for (int t = 0; t < T; t++) a[t] = c[t] = _mm512_setzero_si512();
        k__direct_dots512(T, 4, false, v, w, 0, 8, q, a, c);
        if (s == 2) {
            v = k__ld512(h + 64);
            K__UNROLL for (int t = 0; t < T; t++) {
                half[t] = f[t];
                f[t] = _mm512_setzero_ps();
            }
        }
        __m512 s0 = _mm512_cvtepi32_ps(_mm512_and_si512(v, six));
        __m512 s1 = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(v, 8), six));
        s1 = _mm512_mul_ps(s1, _mm512_set1_ps(0.0625f));
        K__UNROLL for (int t = 0; t < T; t++) {
            f[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(a[t]), s0, f[t]);
            f[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(c[t]), s1, f[t]);
            q[t] += 64;
        }
    }
    K__UNROLL for (int t = 0; t < T; t++) f[t] = _mm512_add_ps(half[t], f[t]);
    k__int_finish512(T, K__HEAD_MIN6, h, x, b, f, y);
}

/* sc of the groups of the s-th 64 columns; narrow: only in the lower word. */
K__IN_512 void k__direct_sc512(int head, bool narrow, const uint8_t *h, int s, __m512i *sc) {
    const __m512i minus = narrow ? _mm512_set1_epi32(32) : _mm512_set1_epi16(0);
    switch (head) {
    case K__HEAD_MIN6: {
        __m512i v = _mm512_srl_epi32(k__ld512(h + 64 * (s / 2)), _mm_cvtsi32_si128(s % 2 * 16));
        sc[0] = _mm512_and_si512(v, _mm512_set1_epi32(63));
        sc[1] = _mm512_and_si512(_mm512_srli_epi32(v, 8), _mm512_set1_epi32(63));
        return;
    }
    case K__HEAD_MIN4:
        K__UNROLL for (unsigned i = 0; i < 4; i++)
            sc[i] = _mm512_and_si512(_mm512_srli_epi32(k__ld512(h + 64 * s), 8 * i), _mm512_set1_epi32(15));
        return;
    case K__HEAD_S8:
        K__UNROLL for (unsigned i = 0; i < 4; i++) {
            sc[i] = _mm512_srai_epi32(_mm512_slli_epi32(k__ld512(h + 64 * s), 24 - 8 * i), 24);
            if (narrow) sc[i] = _mm512_and_si512(sc[i], _mm512_set1_epi32(0xffff));
        }
        return;
    case K__HEAD_S6: case K__HEAD_S6X2: {
        const bool each16 = head == K__HEAD_S6;
        __m512i    lo = k__ld512(each16 ? h + 64 * (s / 2) : h), hi = k__ld512(each16 ? h + 128 : h + 64);
        lo = _mm512_srl_epi32(lo, _mm_cvtsi32_si128(each16 ? s % 2 * 16 : s * 8));
        hi = _mm512_srl_epi32(hi, _mm_cvtsi32_si128(each16 ? s * 8 : s * 4));
        K__UNROLL for (unsigned i = 0; i < 4; i++) {
            if (!each16 && i == 2) break;
            __m512i low = _mm512_and_si512(_mm512_srli_epi32(lo, 4 * i), _mm512_set1_epi32(15));
            __m512i up = i < 2 ? _mm512_slli_epi32(hi, 4 - 2 * i) : _mm512_srli_epi32(hi, 2 * i - 4);
            low = _mm512_or_si512(low, _mm512_and_si512(up, _mm512_set1_epi32(0x30)));
            sc[i] = narrow ? _mm512_sub_epi16(low, minus) : _mm512_sub_epi32(low, _mm512_set1_epi32(32));
        }
        return;
    }
    }
}

/* Group g of both halves of 64 columns at w: sum[t] += sc * dot. The start value of a dot subtracts the offset. */
K__IN_512 void k__int_group512(int T, int bits, bool table, int head, bool narrow, int group, int g,
                               __m512i values, const uint8_t *w, const int32_t *start, const int8_t *const *q,
                               const __m512i *sc, __m512i *sum) {
    const bool has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    const int  other = g + 32 / group;
    __m512i    a[K__COLS], c[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        a[t] = has_min ? _mm512_setzero_si512() : k__bcast512(start + 16 * t + g);
        c[t] = has_min ? _mm512_setzero_si512() : k__bcast512(start + 16 * t + other);
    }
    k__direct_dots512(T, bits, table, values, w, g * group / 4, group / 4, q, a, c);
    K__UNROLL for (int t = 0; t < T; t++) {
        if (head == K__HEAD_ONE) {
            sum[t] = _mm512_add_epi32(sum[t], _mm512_add_epi32(a[t], c[t]));
        } else if (narrow) {
            sum[t] = _mm512_dpwssd_epi32(sum[t], a[t], sc[g]);
            sum[t] = _mm512_dpwssd_epi32(sum[t], c[t], sc[other]);
        } else {
            __m512i v = _mm512_mullo_epi32(a[t], sc[g]);
            sum[t] = _mm512_add_epi32(sum[t], _mm512_add_epi32(v, _mm512_mullo_epi32(c[t], sc[other])));
        }
    }
}

/* The other INT formats. narrow: dots of groups fit in words. */
K__IN_512 void k__int_direct512(int T, int bits, bool table, int head, bool narrow, const uint8_t *w,
                                const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const int      group = head == K__HEAD_MIN4 || head == K__HEAD_S8 || head == K__HEAD_S6 ? 16 : 32;
    const uint8_t *h = w;
    const int32_t *start = x->aux + (size_t)b * (size_t)T * 16;
    const __m512i  values = k__values512(table, x->form);
    const int8_t  *q[K__COLS];
    __m512i        sum[K__COLS];
    __m512         f[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = x->c.q[t] + (size_t)b * K_SUPER;
        sum[t] = _mm512_setzero_si512();
    }
    w += 64 * k__head_touch512(T, bits, head, h);
    K__NO_UNROLL for (int s = 0; s < 4; s++, w += 128 * bits, start += 64 / group) {
        __m512i sc[4];
        k__direct_sc512(head, narrow, h, s, sc);
        k__int_group512(T, bits, table, head, narrow, group, 0, values, w, start, q, sc, sum);
        if (group == 16)
            k__int_group512(T, bits, table, head, narrow, group, 1, values, w, start, q, sc, sum);
        K__UNROLL for (int t = 0; t < T; t++) q[t] += 64;
    }
    K__UNROLL for (int t = 0; t < T; t++) f[t] = _mm512_cvtepi32_ps(sum[t]);
    k__int_finish512(T, head, h, x, b, f, y);
}

/* Formats whose dots of groups fit in int16 where the bounds of all columns allow it. */
K__IN_512 void k__bound_direct512(int T, int bits, int head, int bound, const uint8_t *w, const k__pass *x, int b,
                                  float (*y)[K_PACK_ROWS]) {
    if (k__fits512(T, head == K__HEAD_S8 ? 16 : 32, bound, &x->c, b)) k__int_direct512(T, bits, false, head, true, w, x, b, y);
    else k__int_direct512(T, bits, false, head, false, w, x, b, y);
}

/* fs of a group of 32, the i-th of the s-th 64 columns of a unit. */
K__IN_512 __m512 k__direct_fs512(int head, int segs, const uint8_t *h, int s, int i) {
    if (head != K__HEAD_E8) return _mm512_cvtph_ps(k__ld256(h + 32 * ((2 * s + i) / segs)));
    __m512i   e = _mm512_cvtepu8_epi32(k__ld128(h + 16 * (2 * s + i))), one = _mm512_set1_epi32(1);
    __mmask16 low = _mm512_cmple_epi32_mask(e, one);
    __m512i   v = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(v, low, _mm512_set1_epi32(0x00200000), e));
}

/* SCALE formats with groups of 32. */
K__IN_512 void k__scale_direct512(int T, int bits, bool table, int head, int segs, const uint8_t *w,
                                  const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const bool     has_min = head == K__HEAD_F16M;
    const int      groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 32;
    const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
    const __m512i  values = k__values512(table, x->form);
    const int8_t  *q[K__COLS];
    __m512         f[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = k__cols_q(&x->c, t, b);
        f[t] = _mm512_setzero_ps();
    }
    K__NO_UNROLL for (int g = 0, s = 0; g < groups; g += 2, w += 128 * bits, aux += 2) {
        const uint8_t *h = w + 128 * bits * (segs - s);
        __m512i        a[K__COLS], c[K__COLS];
        K__UNROLL for (int t = 0; t < T; t++) {
            a[t] = has_min ? _mm512_setzero_si512() : k__bcast512(aux + 16 * t);
            c[t] = has_min ? _mm512_setzero_si512() : k__bcast512(aux + 16 * t + 1);
        }
        k__direct_dots512(T, bits, table, values, w, 0, 8, q, a, c);
        __m512 s0 = k__direct_fs512(head, segs, h, s, 0), s1 = k__direct_fs512(head, segs, h, s, 1);
        if (bits == 4 && !table) s1 = _mm512_mul_ps(s1, _mm512_set1_ps(0.0625f));
        K__UNROLL for (int t = 0; t < T; t++) {
            f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(s0, _mm512_cvtepi32_ps(a[t])));
            if (has_min)
                f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + 64)),
                                                         _mm512_castsi512_ps(k__bcast512(aux + 16 * t))));
            q[t] += 64;
        }
        if (g + 1 == groups) break;
        K__UNROLL for (int t = 0; t < T; t++) {
            f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(s1, _mm512_cvtepi32_ps(c[t])));
            if (has_min)
                f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + 96)),
                                                         _mm512_castsi512_ps(k__bcast512(aux + 16 * t + 1))));
        }
        if (++s == segs) {                            /* skips the head of the next unit */
            k__head_ahead(T, bits, h, k__head_lines(head));
            s = 0;
            w += 64 * k__head_lines(head);
        }
    }
    K__UNROLL for (int t = 0; t < T; t++) k__add_scaled512(y[t], f[t], x->c.d[t][b]);
}

/* --- few columns of an unpacked block: formats with float scales for
 * 16 weights, whose groups are not in the order of the nibbles --- */

K__IN_512 void k__scale16_cols512(int T, const k__panel *w, const k__pass *x, int b,
                                  float (*y)[K_PACK_ROWS]) {
    const int      groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 16;
    const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
    __m512         f[K__COLS];
    const int8_t  *q[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = k__cols_q(&x->c, t, b);
        f[t] = _mm512_setzero_ps();
    }
    K__NO_UNROLL for (int g = 0; g < groups; g++) {
        __m512i a[K__COLS];
        K__UNROLL for (int t = 0; t < T; t++) a[t] = k__bcast512(aux + 16 * t + g);
        K__UNROLL for (int k = 4 * g; k < 4 * g + 4; k++) {
            __m512i v = k__ld512(w->q[k][0]);
            K__UNROLL for (int t = 0; t < T; t++)
                a[t] = _mm512_dpbusd_epi32(a[t], v, k__bcast512(q[t] + 4 * k));
        }
        __m512 s = _mm512_loadu_ps(&w->fs[g][0]);
        K__UNROLL for (int t = 0; t < T; t++)
            f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(s, _mm512_cvtepi32_ps(a[t])));
    }
    K__UNROLL for (int t = 0; t < T; t++) k__add_scaled512(y[t], f[t], x->c.d[t][b]);
}

#define K__COLS_N512(name, T_, call)                                                                         \
    K__512 void k__cols_##name##_##T_##_512(const k__panel *open, const uint8_t *w, const k__pass *x, int b, \
                                            float(*y)[K_PACK_ROWS]) {                                        \
        const int T = T_;                                                                                    \
        (void)open, (void)w;                                                                                 \
        call;                                                                                                \
    }
#define K__COLS4_512(name, call)                                                          \
    K__COLS_N512(name, 1, call) K__COLS_N512(name, 2, call) K__COLS_N512(name, 4, call)   \
    K__COLS_N512(name, 8, call)
#define K__COLS8_512(name, call)                                                          \
    K__COLS4_512(name, call) K__COLS_N512(name, 3, call) K__COLS_N512(name, 5, call)      \
    K__COLS_N512(name, 6, call) K__COLS_N512(name, 7, call)
K__COLS8_512(q4_K, k__q4_K_direct512(T, w, x, b, y))
/*                                     bits head */
K__COLS8_512(q5_K, k__bound_direct512(T, 5, K__HEAD_MIN6, K__BOUND_5, w, x, b, y))
K__COLS8_512(q6_K, k__bound_direct512(T, 6, K__HEAD_S8, K__BOUND_6, w, x, b, y))
/*                                     bits table  head          narrow */
K__COLS8_512(q3_K, k__int_direct512(T, 3, false, K__HEAD_S6, true, w, x, b, y))
K__COLS8_512(q2_K, k__int_direct512(T, 2, false, K__HEAD_MIN4, true, w, x, b, y))
K__COLS8_512(iq4_xs, k__int_direct512(T, 4, true, K__HEAD_S6X2, false, w, x, b, y))
K__COLS4_512(iq6_k, k__int_direct512(T, 8, false, K__HEAD_S8, false, w, x, b, y))
K__COLS4_512(iq2_s, k__int_direct512(T, 3, true, K__HEAD_S6, false, w, x, b, y))
K__COLS4_512(iq2_xxs, k__int_direct512(T, 3, true, K__HEAD_S6X2, false, w, x, b, y))
K__COLS4_512(tq2_0, k__int_direct512(T, 2, false, K__HEAD_ONE, false, w, x, b, y))
/*                                       bits table  head       segs */
K__COLS8_512(q4_0, k__scale_direct512(T, 4, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_512(q8_0, k__scale_direct512(T, 8, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_512(iq4_nl, k__scale_direct512(T, 4, true, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_512(mxfp4, k__scale_direct512(T, 4, true, K__HEAD_E8, 2, w, x, b, y))
K__COLS4_512(q4_1, k__scale_direct512(T, 4, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS4_512(q5_0, k__scale_direct512(T, 5, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS4_512(q5_1, k__scale_direct512(T, 5, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS4_512(q1_0, k__scale_direct512(T, 1, true, K__HEAD_F16, 4, w, x, b, y))
K__COLS4_512(q2_0, k__scale_direct512(T, 2, false, K__HEAD_F16, 2, w, x, b, y))
K__COLS4_512(nvfp4, k__scale16_cols512(T, open, x, b, y))

#define K__PACKED_512(code, head, family, sums, from)                                                      \
    .codes = k__codes_##code##_512, .heads = k__heads_##head, .width = 8, .aux = sums, .panel_cols = from, \
    .tiles = &k__tiles_##family##_512
#define K__BY8_512(name)                                                                                     \
    .cols = {k__cols_##name##_1_512, k__cols_##name##_2_512, k__cols_##name##_3_512, k__cols_##name##_4_512, \
             k__cols_##name##_5_512, k__cols_##name##_6_512, k__cols_##name##_7_512, k__cols_##name##_8_512}
#define K__BY4_512(name)                   \
    .cols = {[0] = k__cols_##name##_1_512, \
             [1] = k__cols_##name##_2_512, \
             [3] = k__cols_##name##_4_512, \
             [7] = k__cols_##name##_8_512}
static const k__packed_plan k__packed_512[K_TYPE_MAX] = {
    /*                            codes head      tiles     sums beforehand   panels from */
    [K_Q2_K]    = {K__PACKED_512(2, min4_pairs, int16_min, K__AUX_PAIRS16, 33), K__BY8_512(q2_K)},
    [K_Q3_K]    = {K__PACKED_512(3, s6_pairs, int16_off, K__AUX_OFF16, 25), K__BY8_512(q3_K)},
    [K_Q4_K]    = {K__PACKED_512(4, min6_pairs, int32_four, K__AUX_NONE, 33), K__BY8_512(q4_K)},
    [K_Q5_K]    = {K__PACKED_512(5, min6_pairs, int32_five, K__AUX_NONE, 33), K__BY8_512(q5_K)},
    [K_Q6_K]    = {K__PACKED_512(6, s8_pairs, int16_six, K__AUX_OFF16, 33), K__BY8_512(q6_K)},
    [K_TQ1_0]   = {K__PACKED_512(2, one_pairs, int16_off, K__AUX_OFF32, 33), K__BY4_512(tq2_0)},
    [K_TQ2_0]   = {K__PACKED_512(2, one_pairs, int16_off, K__AUX_OFF32, 33), K__BY4_512(tq2_0)},
    [K_IQ1_S]   = {K__PACKED_512(3t, s6x2_whole, int32_wide, K__AUX_OFF32, 17), K__BY4_512(iq2_xxs)},
    [K_IQ1_M]   = {K__PACKED_512(3t, s6_whole, int16_wide, K__AUX_OFF16, 17), K__BY4_512(iq2_s)},
    [K_IQ2_XXS] = {K__PACKED_512(3t, s6x2_whole, int32_wide, K__AUX_OFF32, 17), K__BY4_512(iq2_xxs)},
    [K_IQ2_XS]  = {K__PACKED_512(3t, s6_whole, int16_wide, K__AUX_OFF16, 17), K__BY4_512(iq2_s)},
    [K_IQ2_S]   = {K__PACKED_512(3t, s6_whole, int16_wide, K__AUX_OFF16, 17), K__BY4_512(iq2_s)},
    [K_IQ3_XXS] = {K__PACKED_512(4t, s6x2_whole, int32_wide, K__AUX_OFF32, 33), K__BY8_512(iq4_xs)},
    [K_IQ3_S]   = {K__PACKED_512(4t, s6x2_whole, int32_wide, K__AUX_OFF32, 33), K__BY8_512(iq4_xs)},
    [K_IQ4_XS]  = {K__PACKED_512(4t, s6x2_whole, int32_wide, K__AUX_OFF32, 33), K__BY8_512(iq4_xs)},
    [K_Q4_0]    = {K__PACKED_512(4, f16, scale32, K__AUX_OFF32X, 33), K__BY8_512(q4_0)},
    [K_Q4_1]    = {K__PACKED_512(4, f16m, scale32_min, K__AUX_FLOAT, 33), K__BY4_512(q4_1)},
    [K_Q5_0]    = {K__PACKED_512(5, f16, scale32, K__AUX_OFF32, 24), K__BY4_512(q5_0)},
    [K_Q5_1]    = {K__PACKED_512(5, f16m, scale32_min, K__AUX_FLOAT, 24), K__BY4_512(q5_1)},
    [K_Q8_0]    = {K__PACKED_512(8, f16, scale32, K__AUX_OFF32, 33), K__BY8_512(q8_0)},
    [K_Q1_0]    = {K__PACKED_512(1t, f16, scale32, K__AUX_OFF32, 33), K__BY4_512(q1_0)},
    [K_Q2_0]    = {K__PACKED_512(2, f16, scale32, K__AUX_OFF32, 33), K__BY4_512(q2_0)},
    [K_IQ4_NL]  = {K__PACKED_512(4t, f16, scale32, K__AUX_OFF32, 25), K__BY8_512(iq4_nl)},
    [K_MXFP4]   = {K__PACKED_512(4t, e8, scale32, K__AUX_OFF32, 24), K__BY8_512(mxfp4)},
    [K_IQ2_K]   = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ3_K]   = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ4_K]   = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ5_K]   = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ6_K]   = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ2_KS]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ2_KL]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ3_KS]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ4_KS]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ4_KSS] = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ5_KS]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ1_KT]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ2_KT]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ3_KT]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_IQ4_KT]  = {K__PACKED_512(8, s8_whole, int16_wide, K__AUX_OFF16, 33), K__BY4_512(iq6_k)},
    [K_Q6_0]    = {K__PACKED_512(8, f16, scale32, K__AUX_OFF32, 33), K__BY8_512(q8_0)},
    [K_I2_S]    = {K__PACKED_512(2, f16, scale32, K__AUX_OFF32, 33), K__BY4_512(q2_0)},
    [K_NVFP4]   = {K__PACKED_512(4t, e4, scale16, K__AUX_OFF16, 17), K__BY4_512(nvfp4), .opened = true},
};

K__SHARED_512 bool k_mul_packed_avx512(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y,
                                       size_t ldy, void *scratch, k__far_mem *far) {
    return k__packed_by_cols(k__packed_512, NULL, type, w, nr, n, a, y, ldy, scratch, far);
}
