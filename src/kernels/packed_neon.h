/* ===== [packed_neon] products of quantised weights at the levels of ARM =====
 * neon multiplies with sdot, i8mm with smmla. Both are written as assembly, in functions that are compiled for both
 * (K__NEON_DOTS): a constant says which one is used.
 *   one column    straight from the packed strip: an instruction multiplies four columns of four rows with four activations,
 *                 which are lanes of a register
 *   more          up to K__NEON_COLS columns and K__NEON_ROWS rows at a time, a block of 256 columns after the other: the codes
 *                 of a strip are opened into a panel, and tiles of eight rows multiply it with all columns. At i8mm a register
 *                 holds two rows of eight columns, and an instruction multiplies them with two columns of activations; at neon
 *                 it holds four rows of four columns
 * Codes are signed in panels, so dots need no offset. Where a block has integer scales, dots of groups are not begun anew: with D
 * the sum of the dots so far, sum of sc[g] * dot[g] = sum of (sc[g] - sc[g + 1]) * D[g], the scale after the last group being 0,
 * so panels hold the differences of scales. */

enum {
    K__NEON_ROWS = 128,                               /* rows whose sums are kept while blocks are taken one after the other */
    K__NEON_COLS = 132                                /* columns, a multiple of what a tile has */
};

#ifdef __clang__
#define K__NEON_DOTS static __attribute__((noinline, target("dotprod,i8mm")))
#else
#define K__NEON_DOTS static __attribute__((noinline, target("arch=armv8.2-a+dotprod+i8mm")))
#endif

/* acc += four dots of four products: w of four rows, those of lane `lane` of x; the same of unsigned w. */
#define K__SDOT(acc, w, x, lane)  __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(w), "w"(x))
#define K__USDOT(acc, w, x, lane) __asm__("usdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(w), "w"(x))
/* acc += the dots of two rows of eight with two others: lanes (0, 0) (0, 1) (1, 0) (1, 1). */
#define K__SMMLA(acc, w, x)       __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(w), "w"(x))

/* What is read at p from here on is read after a and b are computed: else compilers load so early that registers run out. */
#define K__NEON_DONE(p, a, b) __asm__("" : "+r"(p) : "w"(a), "w"(b))

/* k-line i of 64 columns, four rows; p points to the first of these in a line. t: the values of a table. */
K__NEON_IN uint8x16_t k__line_neon(const int bits, const bool table, uint8x16_t t, const uint8_t *p, const int i) {
    uint8x16_t v = vdupq_n_u8(0);
    if (bits == 8) return vld1q_u8(p + 64 * i);
    if (bits & 4) {
        v = vld1q_u8(p + k__plane4(bits, i));
        v = i / 8 ? v >> 4 : v & 15;
    }
    if (bits & 2) {
        const uint8x16_t two = vld1q_u8(p + k__plane2(bits, i));
        const int        at = i % 4 * 2, to = bits & 4;
        v |= (at < to ? two << (to - at) : two >> (at - to)) & (uint8_t)(3 << to);
    }
    if (bits & 1) {
        const uint8x16_t one = vld1q_u8(p + k__plane1(i));
        const int        at = i % 8, to = bits & 6;
        v |= (at < to ? one << (to - at) : one >> (at - to)) & (uint8_t)(1 << to);
    }
    return table ? vqtbl1q_u8(t, v) : v;
}

K__NEON_IN uint8x16_t k__values_neon(const bool table, const k__form *f) {
    return table ? vreinterpretq_u8_s8(vld1q_s8(f->values)) : vdupq_n_u8(0);
}

/* --- heads: scales of four rows --- */

K__NEON_IN uint32x4_t k__word_neon(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }

/* sc of group g of 16; h: the head, at the four rows. */
K__NEON_IN int32x4_t k__sc_neon(const int head, const uint8_t *h, const int g) {
    switch (head) {
    case K__HEAD_MIN6: return (int32x4_t)(k__word_neon(h + g / 8 * 64) >> g / 2 % 4 * 8 & 63);
    case K__HEAD_MIN4: return (int32x4_t)(k__word_neon(h + g / 4 * 64) >> g % 4 * 8 & 15);
    case K__HEAD_S8: return (int32x4_t)(k__word_neon(h + g / 4 * 64) << (24 - g % 4 * 8)) >> 24;
    case K__HEAD_S6: case K__HEAD_S6X2: {
        const int        i = head == K__HEAD_S6 ? g : g / 2;
        const uint32x4_t lo = k__word_neon(h + (head == K__HEAD_S6 ? g / 8 * 64 : 0)) >> i % 8 * 4 & 15,
                         hi = k__word_neon(h + (head == K__HEAD_S6 ? 128 : 64)) >> 2 * i & 3;
        return (int32x4_t)(lo | hi << 4) - 32;
    }
    default: return vdupq_n_s32(1);
    }
}

/* Minima of four groups in each lane: of groups 4j .. 4j + 3, of 32 with K__HEAD_MIN6, else of 16. */
K__NEON_IN int8x16_t k__mn_neon(const int head, const uint8_t *h, const int j) {
    if (head == K__HEAD_MIN4) return (int8x16_t)(vld1q_u8(h + 64 * j) >> 4);
    if (j == 0) return (int8x16_t)(vld1q_u8(h + 128) & 63);
    return (int8x16_t)(vld1q_u8(h) >> 6 | (vld1q_u8(h + 64) >> 6) << 2 | (vld1q_u8(h + 128) >> 6) << 4);
}

/* d of rows 4q .. 4q + 3, or dm where `second`; h: the head of an INT unit. */
K__NEON_IN float32x4_t k__d_neon(const int head, float factor, const uint8_t *h, const int q, const bool second) {
    const uint8_t *last = h + 64 * (k__head_lines(head) - 1);
    if (head == K__HEAD_MIN6 || head == K__HEAD_MIN4)
        return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(last + 32 * second + 8 * q)));
    if (head != K__HEAD_S6X2) return vreinterpretq_f32_u8(vld1q_u8(last + 16 * q));
    return vmulq_f32(vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(k__word_neon(last + 16 * q), 16))), k__set_neon(factor));
}

/* Scales of rows 4q .. 4q + 3 and group g of the unit of a SCALE format; fm where `second`. h: the head. */
K__NEON_IN float32x4_t k__fs_neon(const int head, const int segs, const uint8_t *h, const int g, const int q, const bool second) {
    if (head == K__HEAD_E8 || head == K__HEAD_E4) {
        uint32_t four;
        memcpy(&four, h + 16 * g + 4 * q, 4);
        const uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
        if (head == K__HEAD_E4)
            return vmulq_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(wide) << 7)), k__set_neon(0x1p7f));
        const uint32x4_t e = vmovl_u16(vget_low_u16(wide)), low = vshlq_u32(vdupq_n_u32(0x00200000), (int32x4_t)e);
        return vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, vdupq_n_u32(1)), (e - 1) << 23, low));
    }
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(h + 32 * (second ? 2 + g : g / segs) + 8 * q)));
}

/* --- activations --- */

/* Sums of 32 codes in their order, from those of 16. */
K__NEON_IN int16x8_t k__of32_neon(const k_sums *s) { return vpaddq_s16(vld1q_s16(s->of16), vld1q_s16(s->of16 + 8)); }

/* A sum s as 64 * hi + lo, with lo in 0 .. 63: both fit in a byte, as sdot and smmla want them. */
K__NEON_IN int8x8_t k__hi_neon(int16x8_t s) { return vmovn_s16(s >> 6); }
K__NEON_IN int8x8_t k__lo_neon(int16x8_t s) { return vmovn_s16(s & 63); }

/* start[g] = -off * the sum of codes of group g. */
K__NEON_IN void k__starts_neon(const bool by16, int off, const k_sums *s, int32_t start[16]) {
    const int16x8_t v[2] = {by16 ? vld1q_s16(s->of16) : k__of32_neon(s), vld1q_s16(s->of16 + 8)};
    for (int i = 0; i < (by16 ? 2 : 1); i++) {
        vst1q_s32(start + 8 * i, vmovl_s16(vget_low_s16(v[i])) * -off);
        vst1q_s32(start + 8 * i + 4, vmovl_s16(vget_high_s16(v[i])) * -off);
    }
}

/* --- one column --- */

/* How codes become an operand. */
enum { K__PLAIN_NEON, K__FLIP_NEON /* u - 128 as signed: by exclusive or */, K__UNSIGNED_NEON /* by usdot, i8mm alone */ };

#define K__DOT_NEON(how, acc, w, x, lane)                                                                                 \
    do {                                                                                                                  \
        if ((how) == K__UNSIGNED_NEON) K__USDOT(acc, w, x, lane);                                                         \
        else K__SDOT(acc, w, x, lane);                                                                                    \
    } while (0)

/* Sixteen rows of a line. */
K__NEON_IN void k__line4_neon(const uint8_t *p, uint8x16_t v[4]) {
    K__UNROLL for (int r = 0; r < 4; r++) v[r] = vld1q_u8(p + 16 * r);
}

/* Bits of a plane from `at` on to bit `to`; the others are undefined. */
K__NEON_IN uint8x16_t k__bits_neon(uint8x16_t v, const int at, const int to) { return at < to ? v << (to - at) : v >> (at - to); }

/* k-lines i and 8 + i of sixteen rows at p. */
K__NEON_IN void k__pair_neon(const int bits, const bool table, uint8x16_t t, const uint8_t *p, const int i, uint8x16_t u[4],
                             uint8x16_t v[4]) {
    uint8x16_t raw[4], two[2][4], one[2][4];
    if (bits == 8) {
        k__line4_neon(p + 64 * i, u);
        k__line4_neon(p + 64 * (8 + i), v);
        return;
    }
    if (bits & 4) k__line4_neon(p + k__plane4(bits, i), raw);
    if (bits & 2) k__line4_neon(p + k__plane2(bits, i), two[0]), k__line4_neon(p + k__plane2(bits, 8 + i), two[1]);
    if (bits & 1) k__line4_neon(p + k__plane1(i), one[0]), k__line4_neon(p + k__plane1(8 + i), one[1]);
    K__UNROLL for (int r = 0; r < 4; r++) {
        uint8x16_t up[2];
        K__UNROLL for (int h = 0; h < 2; h++) {       /* bits above the nibble, or all */
            up[h] = vdupq_n_u8(0);
            if (bits & 2) up[h] = k__bits_neon(two[h][r], i % 4 * 2, bits & 4) & (uint8_t)(3 << (bits & 4));
            if (bits & 1) up[h] |= k__bits_neon(one[h][r], i % 8, bits & 6) & (uint8_t)(1 << (bits & 6));
        }
        u[r] = bits == 4 ? raw[r] & 15 : bits & 4 ? vbslq_u8(vdupq_n_u8(15), raw[r], up[0]) : up[0];
        v[r] = bits == 4 ? raw[r] >> 4 : bits & 4 ? vsriq_n_u8(up[1], raw[r], 4) : up[1];
        if (table) u[r] = vqtbl1q_u8(t, u[r]), v[r] = vqtbl1q_u8(t, v[r]);
    }
}

/* The dots of k-lines i and 8 + i with lane `lane` of x[i / 4] and x[2 + i / 4] to lo and hi. */
#define K__PAIR_NEON(i, lane)                                                                                             \
    {                                                                                                                     \
        uint8x16_t u[4], v[4];                                                                                            \
        k__pair_neon(bits, table, t, *p, i, u, v);                                                                        \
        K__UNROLL for (int r = 0; r < 4; r++) {                                                                           \
            if (how == K__FLIP_NEON) u[r] ^= 128, v[r] ^= 128;                                                            \
            K__DOT_NEON(how, lo[r], u[r], x[(i) / 4], lane);                                                              \
            K__DOT_NEON(how, hi[r], v[r], x[2 + (i) / 4], lane);                                                          \
        }                                                                                                                 \
        K__NEON_DONE(*p, lo[3], hi[3]);                                                                                   \
    }
#define K__PAIRS_NEON(from) K__PAIR_NEON(from, 0) K__PAIR_NEON(from + 1, 1) K__PAIR_NEON(from + 2, 2) K__PAIR_NEON(from + 3, 3)

/* Lines 4h .. 4h + 3 and 8 + 4h .. of 64 columns. */
K__NEON_IN void k__dots_neon(const int how, const int bits, const bool table, uint8x16_t t, const uint8_t **p,
                             const int8x16_t *x, const int h, int32x4_t lo[4], int32x4_t hi[4]) {
    if (h) { K__PAIRS_NEON(4) } else { K__PAIRS_NEON(0) }
}

K__NEON_IN void k__begin_neon(int32x4_t v[4], const int32_t *start) {
    const int32x4_t s = start ? vld1q_dup_s32(start) : vdupq_n_s32(0);
    K__UNROLL for (int r = 0; r < 4; r++) v[r] = s;
}

/* y[16] += a block of INT, one column. by16: scales of 16. */
K__NEON_IN void k__int_one_neon(const int bits, const bool table, const int head, const bool by16, const int off, float factor,
                                const int8_t *values, const uint8_t *w, const int8_t *q, const k_sums *sum, float da,
                                float32x4_t y[4]) {
    const bool       has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    const uint8x16_t t = table ? vreinterpretq_u8_s8(vld1q_s8(values)) : vdupq_n_u8(0);
    const uint8_t   *p = w + 64 * k__head_lines(head);
    const bool       starts = !table && off;
    int32_t          start[16];
    int32x4_t        isum[4];
    if (starts) k__starts_neon(by16, off, sum, start);
    K__UNROLL for (int r = 0; r < 4; r++) isum[r] = vdupq_n_s32(0);
    K__UNROLL for (int s = 0; s < 4; s++, p += 128 * bits) {
        int8x16_t x[4];
        int32x4_t lo[4], hi[4];
        K__UNROLL for (int i = 0; i < 4; i++) x[i] = vld1q_s8(q + 64 * s + 16 * i);
        K__UNROLL for (int h = 0; h < 2; h++) {
            const int g = 4 * s + h, at = by16 ? g : 2 * s;
            if (by16 || !h) {
                k__begin_neon(lo, starts ? start + at : NULL);
                k__begin_neon(hi, starts ? start + at + (by16 ? 2 : 1) : NULL);
            }
            k__dots_neon(bits == 8 ? K__FLIP_NEON : K__PLAIN_NEON, bits, table, t, &p, x, h, lo, hi);
            if (!by16 && !h) continue;
            K__UNROLL for (int r = 0; r < 4; r++) {
                if (head == K__HEAD_ONE) {
                    isum[r] = vaddq_s32(isum[r], vaddq_s32(lo[r], hi[r]));
                    continue;
                }
                isum[r] = vmlaq_s32(isum[r], lo[r], k__sc_neon(head, w + 16 * r, g));
                isum[r] = vmlaq_s32(isum[r], hi[r], k__sc_neon(head, w + 16 * r, g + 2));
            }
            K__NEON_DONE(w, isum[0], isum[3]);
            K__NEON_DONE(q, isum[0], isum[3]);
        }
    }
    const int16x8_t a = head == K__HEAD_MIN6 ? k__of32_neon(sum) : vld1q_s16(sum->of16), b = vld1q_s16(sum->of16 + 8);
    const int8x16_t hi = vcombine_s8(k__hi_neon(a), k__hi_neon(b)), lo = vcombine_s8(k__lo_neon(a), k__lo_neon(b));
    K__UNROLL for (int r = 0; r < 4; r++) {
        float32x4_t u = vmulq_f32(k__d_neon(head, factor, w, r, false), vcvtq_f32_s32(isum[r]));
        if (has_min) {
            const uint8_t  *at = w + 16 * r;
            const int8x16_t m0 = k__mn_neon(head, at, 0), m1 = k__mn_neon(head, at, 1);
            int32x4_t       m = vdupq_n_s32(0);
            K__SDOT(m, m0, hi, 0);
            K__SDOT(m, m1, hi, 1);
            if (head == K__HEAD_MIN4) {
                K__SDOT(m, k__mn_neon(head, at, 2), hi, 2);
                K__SDOT(m, k__mn_neon(head, at, 3), hi, 3);
            }
            m = vshlq_n_s32(m, 6);
            K__SDOT(m, m0, lo, 0);
            K__SDOT(m, m1, lo, 1);
            if (head == K__HEAD_MIN4) {
                K__SDOT(m, k__mn_neon(head, at, 2), lo, 2);
                K__SDOT(m, k__mn_neon(head, at, 3), lo, 3);
            }
            u = vsubq_f32(u, vmulq_f32(k__d_neon(head, factor, w, r, true), vcvtq_f32_s32(m)));
        }
        y[r] = vaddq_f32(y[r], vmulq_f32(u, k__set_neon(da)));
    }
}

/* f += the terms of a group, whose dots are v. */
K__NEON_IN void k__scale_terms_neon(const int head, const int segs, const uint8_t *h, const int g, const int32x4_t v[4],
                                    float sum, float32x4_t f[4]) {
    K__UNROLL for (int r = 0; r < 4; r++) {
        f[r] = vaddq_f32(f[r], vmulq_f32(k__fs_neon(head, segs, h, g, r, false), vcvtq_f32_s32(v[r])));
        if (head == K__HEAD_F16M) f[r] = vaddq_f32(f[r], vmulq_f32(k__fs_neon(head, segs, h, g, r, true), k__set_neon(sum)));
    }
}

/* y[16] += a block of SCALE, `len` columns. */
K__NEON_IN void k__scale_one_neon(const int how, const int bits, const bool table, const int head, const int segs, const int off,
                                  const int8_t *values, const uint8_t *w, int len, const int8_t *q, const k_sums *sum, float da,
                                  float32x4_t y[4]) {
    const int        by = head == K__HEAD_E4 ? 16 : 32;
    const bool       starts = !table && off && how != K__FLIP_NEON;
    const uint8x16_t t = table ? vreinterpretq_u8_s8(vld1q_s8(values)) : vdupq_n_u8(0);
    int32_t          start[16];
    float32x4_t      f[4];
    if (starts || head == K__HEAD_F16M) k__starts_neon(false, head == K__HEAD_F16M ? -1 : off, sum, start);
    K__UNROLL for (int r = 0; r < 4; r++) f[r] = k__set_neon(0);
    for (int at = 0; at < len; w += 64 * (2 * bits * segs + k__head_lines(head))) {
        const uint8_t *p = w, *h = w + 128 * bits * segs;
        K__UNROLL for (int s = 0; s < segs; s++, at += 64, p += 128 * bits, q += 64) {
            if (s && at >= len) break;
            const int32_t *from = start + at / 32;
            int8x16_t      x[4];
            int32x4_t      lo[4], hi[4], lo1[4], hi1[4];
            K__UNROLL for (int i = 0; i < 4; i++) x[i] = vld1q_s8(q + 16 * i);
            k__begin_neon(lo, starts ? from : NULL);
            k__begin_neon(hi, starts ? from + 1 : NULL);
            k__dots_neon(how, bits, table, t, &p, x, 0, lo, hi);
            if (by == 16) {
                k__begin_neon(lo1, NULL);
                k__begin_neon(hi1, NULL);
                k__dots_neon(how, bits, table, t, &p, x, 1, lo1, hi1);
                k__scale_terms_neon(head, segs, h, 4 * s, lo, 0, f);
                k__scale_terms_neon(head, segs, h, 4 * s + 1, lo1, 0, f);
                if (at + 32 >= len) continue;
                k__scale_terms_neon(head, segs, h, 4 * s + 2, hi, 0, f);
                k__scale_terms_neon(head, segs, h, 4 * s + 3, hi1, 0, f);
                continue;
            }
            k__dots_neon(how, bits, table, t, &p, x, 1, lo, hi);
            k__scale_terms_neon(head, segs, h, 2 * s, lo, head == K__HEAD_F16M ? (float)from[0] : 0, f);
            if (at + 32 >= len) continue;
            k__scale_terms_neon(head, segs, h, 2 * s + 1, hi, head == K__HEAD_F16M ? (float)from[1] : 0, f);
        }
    }
    K__UNROLL for (int r = 0; r < 4; r++) y[r] = vaddq_f32(y[r], vmulq_f32(f[r], k__set_neon(da)));
}

/* One column of a format: all rows. */
typedef void k__one_neon(const k__form *f, const uint8_t *w, int nr, int n, const int8_t *q, const k_sums *sum, const float *d,
                         float *y);

#define K__ONE_NEON(name, call)                                                                                           \
    K__NEON_DOTS void k__one_##name##_neon(const k__form *form, const uint8_t *w, int nr, int n, const int8_t *q,          \
                                     const k_sums *sum, const float *d, float *y) {                                       \
        for (int r = 0; r < nr; r += K_PACK_ROWS, y += K_PACK_ROWS) {                                                     \
            float32x4_t v[4];                                                                                             \
            K__UNROLL for (int i = 0; i < 4; i++) v[i] = k__set_neon(0);                                                  \
            for (int b = 0; b * K_SUPER < n; b++) {                                                                       \
                const int len = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : K_SUPER;                                    \
                call;                                                                                                     \
                w += (size_t)k__units(form, len) * k__unit_bytes(form);                                                   \
            }                                                                                                             \
            K__UNROLL for (int i = 0; i < 4; i++) k__put_neon(y + 4 * i, nr - r - 4 * i, v[i]);                           \
        }                                                                                                                 \
    }
#define K__INT_ONE_NEON(name, bits, table, head, by16, off)                                                               \
    K__ONE_NEON(name, k__int_one_neon(bits, table, head, by16, off, form->factor, form->values, w, q + b * K_SUPER,       \
                                      sum + b, d[b], v))
#define K__SCALE_ONE_NEON(name, how, bits, table, head, segs, off)                                                        \
    K__ONE_NEON(name, k__scale_one_neon(how, bits, table, head, segs, off, form->values, w, len, q + b * K_SUPER,         \
                                        sum + b, d[b], v))
/*              name     bits table  head         by16   off */
K__INT_ONE_NEON(q4_K,    4, false, K__HEAD_MIN6, false, 0)
K__INT_ONE_NEON(q5_K,    5, false, K__HEAD_MIN6, false, 0)
K__INT_ONE_NEON(q2_K,    2, false, K__HEAD_MIN4, true,  0)
K__INT_ONE_NEON(q6_K,    6, false, K__HEAD_S8,   true,  32)
K__INT_ONE_NEON(q3_K,    3, false, K__HEAD_S6,   true,  4)
K__INT_ONE_NEON(iq6_k,   8, false, K__HEAD_S8,   true,  0)
K__INT_ONE_NEON(tq2_0,   2, false, K__HEAD_ONE,  false, 1)
K__INT_ONE_NEON(iq4_xs,  4, true,  K__HEAD_S6X2, false, 0)
K__INT_ONE_NEON(iq2_xxs, 3, true,  K__HEAD_S6X2, false, 0)
K__INT_ONE_NEON(iq2_s,   3, true,  K__HEAD_S6,   true,  0)
/*                name      how              bits table  head        segs off */
K__SCALE_ONE_NEON(q4_0,    K__PLAIN_NEON,    4, false, K__HEAD_F16,  1, 8)
K__SCALE_ONE_NEON(q4_1,    K__PLAIN_NEON,    4, false, K__HEAD_F16M, 1, 0)
K__SCALE_ONE_NEON(q5_0,    K__PLAIN_NEON,    5, false, K__HEAD_F16,  1, 16)
K__SCALE_ONE_NEON(q5_1,    K__PLAIN_NEON,    5, false, K__HEAD_F16M, 1, 0)
K__SCALE_ONE_NEON(q8_0,    K__FLIP_NEON,     8, false, K__HEAD_F16,  1, 128)
K__SCALE_ONE_NEON(q8_0_mm, K__UNSIGNED_NEON, 8, false, K__HEAD_F16,  1, 128)
K__SCALE_ONE_NEON(q1_0,    K__PLAIN_NEON,    1, true,  K__HEAD_F16,  4, 0)
K__SCALE_ONE_NEON(q2_0,    K__PLAIN_NEON,    2, false, K__HEAD_F16,  2, 1)
K__SCALE_ONE_NEON(iq4_nl,  K__PLAIN_NEON,    4, true,  K__HEAD_F16,  1, 0)
K__SCALE_ONE_NEON(mxfp4,   K__PLAIN_NEON,    4, true,  K__HEAD_E8,   2, 0)
K__SCALE_ONE_NEON(nvfp4,   K__PLAIN_NEON,    4, true,  K__HEAD_E4,   1, 0)

/* --- panels --- */

/* 256 columns of sixteen rows, in halves of eight. A quad is four words of a half: at i8mm those of rows r r r+1 r+1, at neon of
 * rows r .. r + 3. */
typedef struct {
    int8_t q[2][K_SUPER * 8];                         /* i8mm: [k/8][4][2][8]; neon: [k/4][2][4][4] */
    union {
        struct {
            int32_t sc[2][16][4][4];                  /* differences of scales of groups, in quads */
            int8_t  mn[2][2][4][16];                  /* minima: i8mm [of 8 groups][rows 2i, 2i + 1][8]; neon: k__neon_min() */
            float   d[2][4][4], dm[2][4][4];          /* in quads */
        };
        struct {
            float fs[2][16][2][4][4];                 /* scales of groups, and -K__NEON_BIAS times them [1], in quads */
            float fm[2][16][4][4];                    /* minima of groups, in quads */
        };
    };
    bool wide __attribute__((aligned(64)));           /* of the products in fs[..][1] one is not finite */
} k__neon_panel;

/* A block of 256 of up to K__NEON_COLS columns, in tiles of T columns. Floats are quads: at i8mm of columns c c+1 c c+1, at neon
 * four times that of a column. */
typedef struct {
    int8_t  q[K_SUPER * K__NEON_COLS];                /* [tile] i8mm: [k/8][T/2][2][8]; neon: [k/16][T][16] */
    int8_t  hi[32 * K__NEON_COLS], lo[32 * K__NEON_COLS];    /* [tile] sums, i8mm: [of 8 groups][T/2][2][8]; neon: [T][16] */
    float   d[4 * K__NEON_COLS];                      /* [tile] i8mm: [T/2][4]; neon: [T][4] */
    float   sum[8 * 4 * K__NEON_COLS];                /* [tile][group of 32] sums, as d */
} k__neon_acts;

typedef struct {
    k__neon_panel panel;
    k__neon_acts  acts;
    float         y[K__NEON_ROWS / 8][8 * K__NEON_COLS];     /* sums of eight rows, in tiles */
} k__neon_mem;

#define K__MUL_BYTES (sizeof(k__neon_mem) + 64)

#define K__NEON_BIAS 0x1.8p23f                        /* + a dot: a float, exactly; times a scale of 11 bits: too */
static const int32_t k__bias_neon[16] = {
    0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000,
    0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000,
};

/* Four rows of one line of scales as quads 2r and 2r + 1 (i8mm), or as quad r (neon) of a half. */
K__NEON_IN void k__quads_neon(const bool mm, int32x4_t v, const int r, int32_t (*to)[4]) {
    if (mm) {
        vst1q_s32(to[2 * r], vzip1q_s32(v, v));
        vst1q_s32(to[2 * r + 1], vzip2q_s32(v, v));
    } else vst1q_s32(to[r], v);
}
K__NEON_IN void k__quadsf_neon(const bool mm, float32x4_t v, const int r, float (*to)[4]) {
    if (mm) {
        vst1q_f32(to[2 * r], vzip1q_f32(v, v));
        vst1q_f32(to[2 * r + 1], vzip2q_f32(v, v));
    } else vst1q_f32(to[r], v);
}

/* The codes of `segs` times 64 columns. */
K__NEON_IN void k__open_codes_neon(const bool mm, const int bits, const bool table, const int off, const k__form *f,
                                   const uint8_t *w, int segs, k__neon_panel *to) {
    const uint8x16_t t = k__values_neon(table, f);
    for (int s = 0; s < segs; s++) {
        const uint8_t *p = w + (size_t)(s / f->segs) * k__unit_bytes(f) + k__codes_at(f) + 128 * bits * (s % f->segs);
        for (int h = 0; h < 2; h++, p += 32) {
            int8_t *q = to->q[h] + 512 * s;
            K__UNROLL for (int i = 0; i < 8; i += 2) {
                int8x16_t v[4][2];                    /* k-lines i, i + 1, 8 + i, 9 + i */
                K__UNROLL for (int k = 0; k < 4; k++)
                    K__UNROLL for (int r = 0; r < 2; r++) {
                        v[k][r] = (int8x16_t)k__line_neon(bits, table, t, p + 16 * r, i + k % 2 + k / 2 * 8);
                        if (bits == 8) v[k][r] ^= -128;
                        else if (!table && off) v[k][r] -= (int8_t)off;
                    }
                K__UNROLL for (int k = 0; k < 4; k += 2)
                    K__UNROLL for (int r = 0; r < 2; r++) {
                        int8_t *at = q + 32 * (i + 4 * k);
                        if (mm) {
                            const int32x4_t a = (int32x4_t)v[k][r], b = (int32x4_t)v[k + 1][r];
                            vst1q_s8(at + 32 * r, (int8x16_t)vzip1q_s32(a, b));
                            vst1q_s8(at + 32 * r + 16, (int8x16_t)vzip2q_s32(a, b));
                        } else {
                            vst1q_s8(at + 16 * r, v[k][r]);
                            vst1q_s8(at + 32 + 16 * r, v[k + 1][r]);
                        }
                    }
            }
            if (h) p -= 64;
        }
    }
}

/* The head of a block of INT. */
K__NEON_IN void k__open_int_neon(const bool mm, const int head, const bool by16, const k__form *f, const uint8_t *w,
                                 k__neon_panel *to) {
    const int  step = by16 ? 1 : 2;
    const bool has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    for (int h = 0; h < 2; h++)
        for (int r = 0; r < 2; r++) {
            const int      q = 2 * h + r;
            const uint8_t *at = w + 16 * q;
            int32x4_t      sc = k__sc_neon(head, at, 0);
            K__UNROLL for (int g = 0; g < 16; g += step) {
                const int32x4_t next = g + step < 16 ? k__sc_neon(head, at, g + step) : vdupq_n_s32(0);
                k__quads_neon(mm, vsubq_s32(sc, next), r, to->sc[h][g / step]);
                sc = next;
            }
            k__quadsf_neon(mm, k__d_neon(head, f->factor, w, q, false), r, to->d[h]);
            if (!has_min) continue;
            k__quadsf_neon(mm, k__d_neon(head, f->factor, w, q, true), r, to->dm[h]);
            K__UNROLL for (int j = 0; j < 4; j += 2) {
                if (j && head != K__HEAD_MIN4) break;
                const int32x4_t a = (int32x4_t)k__mn_neon(head, at, j), b = (int32x4_t)k__mn_neon(head, at, j + 1);
                int8_t(*mn)[16] = to->mn[h][j / 2];
                vst1q_s8(mn[2 * r], (int8x16_t)(mm ? vzip1q_s32(a, b) : a));
                vst1q_s8(mn[2 * r + 1], (int8x16_t)(mm ? vzip2q_s32(a, b) : b));
            }
        }
}

/* The heads of a block of SCALE with so many groups. Scales may be infinite, or nearly (E8): to->wide. */
K__NEON_IN void k__open_scale_neon(const bool mm, const int bits, const int head, const int segs, const uint8_t *w, int groups,
                                   k__neon_panel *to) {
    const int   each = segs * (head == K__HEAD_E4 ? 4 : 2);
    float32x4_t wide = k__set_neon(0);                /* NaN once a product was not finite */
    for (int g = 0; g < groups; w += 64 * (2 * bits * segs + k__head_lines(head)))
        for (int i = 0; i < each && g < groups; i++, g++)
            K__UNROLL for (int q = 0; q < 4; q++) {
                const uint8_t    *h = w + 128 * bits * segs;
                const float32x4_t s = k__fs_neon(head, segs, h, i, q, false), less = vmulq_f32(s, k__set_neon(-K__NEON_BIAS));
                k__quadsf_neon(mm, s, q % 2, to->fs[q / 2][g][0]);
                k__quadsf_neon(mm, less, q % 2, to->fs[q / 2][g][1]);
                wide = k__fma_neon(less, k__set_neon(0), wide);
                if (head == K__HEAD_F16M) k__quadsf_neon(mm, k__fs_neon(head, segs, h, i, q, true), q % 2, to->fm[q / 2][g]);
            }
    to->wide = vaddvq_f32(wide) != 0;
}

/* Opens a block of `len` columns of a strip. */
typedef void k__open_neon(const k__form *f, const uint8_t *w, int len, k__neon_panel *to);

#define K__OPEN_NEON(name, mm, bits, table, off, heads)                                                                   \
    static void k__open_##name(const k__form *f, const uint8_t *w, int len, k__neon_panel *to) {                          \
        k__open_codes_neon(mm, bits, table, off, f, w, (len + 63) / 64, to);                                              \
        heads;                                                                                                            \
    }
#define K__OPENS_NEON(name, bits, table, off, heads)                                                                      \
    K__OPEN_NEON(name##_neon, false, bits, table, off, heads(false))                                                      \
    K__OPEN_NEON(name##_i8mm, true, bits, table, off, heads(true))
#define K__MIN6_NEON(mm)   k__open_int_neon(mm, K__HEAD_MIN6, false, f, w, to)
#define K__MIN4_NEON(mm)   k__open_int_neon(mm, K__HEAD_MIN4, true, f, w, to)
#define K__S8_NEON(mm)     k__open_int_neon(mm, K__HEAD_S8, true, f, w, to)
#define K__S6_NEON(mm)     k__open_int_neon(mm, K__HEAD_S6, true, f, w, to)
#define K__S6X2_NEON(mm)   k__open_int_neon(mm, K__HEAD_S6X2, false, f, w, to)
#define K__BARE_NEON(mm)   k__open_int_neon(mm, K__HEAD_ONE, false, f, w, to)
#define K__F16_NEON(mm)    k__open_scale_neon(mm, f->bits, K__HEAD_F16, f->segs, w, len / 32, to)
#define K__F16M_NEON(mm)   k__open_scale_neon(mm, f->bits, K__HEAD_F16M, f->segs, w, len / 32, to)
#define K__E8_NEON(mm)     k__open_scale_neon(mm, f->bits, K__HEAD_E8, f->segs, w, len / 32, to)
#define K__E4_NEON(mm)     k__open_scale_neon(mm, f->bits, K__HEAD_E4, f->segs, w, len / 16, to)
/*            name     bits table off heads */
K__OPENS_NEON(q4_K,    4, false, 0,  K__MIN6_NEON)
K__OPENS_NEON(q5_K,    5, false, 0,  K__MIN6_NEON)
K__OPENS_NEON(q2_K,    2, false, 0,  K__MIN4_NEON)
K__OPENS_NEON(q6_K,    6, false, 32, K__S8_NEON)
K__OPENS_NEON(q3_K,    3, false, 4,  K__S6_NEON)
K__OPENS_NEON(iq6_k,   8, false, 0,  K__S8_NEON)
K__OPENS_NEON(tq2_0,   2, false, 1,  K__BARE_NEON)
K__OPENS_NEON(iq4_xs,  4, true,  0,  K__S6X2_NEON)
K__OPENS_NEON(iq2_xxs, 3, true,  0,  K__S6X2_NEON)
K__OPENS_NEON(iq2_s,   3, true,  0,  K__S6_NEON)
K__OPENS_NEON(q4_0,    4, false, 8,  K__F16_NEON)
K__OPENS_NEON(q4_1,    4, false, 0,  K__F16M_NEON)
K__OPENS_NEON(q5_0,    5, false, 16, K__F16_NEON)
K__OPENS_NEON(q5_1,    5, false, 0,  K__F16M_NEON)
K__OPENS_NEON(q8_0,    8, false, 0,  K__F16_NEON)
K__OPENS_NEON(q1_0,    1, true,  0,  K__F16_NEON)
K__OPENS_NEON(q2_0,    2, false, 1,  K__F16_NEON)
K__OPENS_NEON(iq4_nl,  4, true,  0,  K__F16_NEON)
K__OPENS_NEON(mxfp4,   4, true,  0,  K__E8_NEON)
K__OPENS_NEON(nvfp4,   4, true,  0,  K__E4_NEON)

/* --- tiles --- */

/* A tile: its columns (neon) or pairs (i8mm), where its operands begin, and its sums, in floats from those of eight rows on. */
typedef struct {
    int           n;
    const int8_t *q, *hi, *lo;
    const float  *d, *sum;
    size_t        y;
} k__neon_at;

/* Products of eight rows with a tile of N columns (neon) or N pairs (i8mm): D[i][v] is of column or pair i and of quad v. Here of
 * eight columns of weights. */
enum { K__NEON_N = 4 };

K__NEON_IN void k__load3_neon(const int N, const int8_t *p, int8x16_t *v) {
    if (N == 3) {
        const int8x16x3_t all = vld1q_s8_x3(p);
        v[0] = all.val[0], v[1] = all.val[1], v[2] = all.val[2];
    } else K__UNROLL for (int i = 0; i < N; i++) v[i] = vld1q_s8(p + 16 * i);
}

K__NEON_IN void k__mm_neon(const int N, const int8_t *w, const int8_t *x, int32x4_t (*D)[4]) {
    const int8x16x4_t wv = vld1q_s8_x4(w);
    int8x16_t         xv[3];
    k__load3_neon(N, x, xv);
    K__UNROLL for (int i = 0; i < N; i++)
        K__UNROLL for (int v = 0; v < 4; v++) K__SMMLA(D[i][v], wv.val[v], xv[i]);
}

/* Four k-lines, for sixteen columns of weights. */
#define K__LANE_NEON(lane)                                                                                                \
    {                                                                                                                     \
        const int8x16x2_t wv = vld1q_s8_x2(w + 32 * lane);                                                                \
        K__UNROLL for (int i = 0; i < N; i++)                                                                             \
            K__UNROLL for (int v = 0; v < 2; v++) K__SDOT(D[i][v], wv.val[v], xv[i], lane);                               \
    }
K__NEON_IN void k__lanes_neon(const int N, const int8_t *w, const int8_t *x, int32x4_t (*D)[4]) {
    int8x16_t xv[K__NEON_N];
    K__UNROLL for (int i = 0; i < N; i++) xv[i] = vld1q_s8(x + 16 * i);
    K__LANE_NEON(0) K__LANE_NEON(1) K__LANE_NEON(2) K__LANE_NEON(3)
}

/* D += a group of `by` columns; w and x move on. */
K__NEON_IN void k__group_neon(const bool mm, const int N, const int by, const int8_t **w, const int8_t **x, int32x4_t (*D)[4]) {
    K__UNROLL for (int k = 0; k < by; k += mm ? 8 : 16) {
        if (mm) k__mm_neon(N, *w, *x, D);
        else k__lanes_neon(N, *w, *x, D);
        *w += mm ? 64 : 128, *x += 16 * N;
        __asm__("" : "+r"(*w), "+r"(*x));             /* one pointer each, which the loads move */
    }
}

/* The integer sums of minima of quad v and column or pair i, whose sums are hi and lo: [2] where minima are of 16. */
K__NEON_IN int32x4_t k__imin_neon(const bool mm, const int mins, const int8_t (*mn)[4][16], const int v, const int8x16_t *hi,
                                  const int8x16_t *lo) {
    int32x4_t m = vdupq_n_s32(0);
    if (mm) {
        K__UNROLL for (int j = 0; j < 32 / mins; j++) K__SMMLA(m, vld1q_s8(mn[j][v]), hi[j]);
        m = vshlq_n_s32(m, 6);
        K__UNROLL for (int j = 0; j < 32 / mins; j++) K__SMMLA(m, vld1q_s8(mn[j][v]), lo[j]);
        return m;
    }
    K__SDOT(m, vld1q_s8(mn[0][2 * v]), hi[0], 0);
    K__SDOT(m, vld1q_s8(mn[0][2 * v + 1]), hi[0], 1);
    if (mins == 16) {
        K__SDOT(m, vld1q_s8(mn[1][2 * v]), hi[0], 2);
        K__SDOT(m, vld1q_s8(mn[1][2 * v + 1]), hi[0], 3);
    }
    m = vshlq_n_s32(m, 6);
    K__SDOT(m, vld1q_s8(mn[0][2 * v]), lo[0], 0);
    K__SDOT(m, vld1q_s8(mn[0][2 * v + 1]), lo[0], 1);
    if (mins == 16) {
        K__SDOT(m, vld1q_s8(mn[1][2 * v]), lo[0], 2);
        K__SDOT(m, vld1q_s8(mn[1][2 * v + 1]), lo[0], 3);
    }
    return m;
}

/* Adds N quads to y. */
K__NEON_IN void k__add_quads_neon(const int N, const float32x4_t *v, float *y) {
    if (N == 3) {
        float32x4x3_t all = vld1q_f32_x3(y);
        K__UNROLL for (int i = 0; i < 3; i++) all.val[i] = vaddq_f32(all.val[i], v[i]);
        vst1q_f32_x3(y, all);
    } else K__UNROLL for (int i = 0; i < N; i++) vst1q_f32(y + 4 * i, vaddq_f32(vld1q_f32(y + 4 * i), v[i]));
}

/* by: columns with one scale; mins: with one minimum, 0: none. */
K__NEON_IN void k__int_tile_neon(const bool mm, const int N, const int by, const int mins, const k__neon_panel *w, const int h,
                                 const k__neon_at *x, float *y) {
    const int      V = mm ? 4 : 2, J = mm && mins == 16 ? 2 : 1;
    const int8_t  *wq = w->q[h], *xq = x->q;
    const int32_t *sc = w->sc[h][0][0], *end = sc + 16 * (K_SUPER / by);
    int32x4_t      D[K__NEON_N][4], S[K__NEON_N][4];
    float32x4_t    da[K__NEON_N];
    int8x16_t      hi[K__NEON_N][2], lo[K__NEON_N][2];
    K__UNROLL for (int i = 0; i < N; i++)
        K__UNROLL for (int v = 0; v < V; v++) D[i][v] = S[i][v] = vdupq_n_s32(0);
    K__NO_UNROLL for (; sc < end; sc += 16) {
        k__group_neon(mm, N, by, &wq, &xq, D);
        K__NEON_DONE(sc, D[N - 1][V - 1], D[0][V - 1]);
        K__UNROLL for (int v = 0; v < V; v++) {
            const int32x4_t s = vld1q_s32(sc + 4 * v);
            K__UNROLL for (int i = 0; i < N; i++) S[i][v] = vmlaq_s32(S[i][v], D[i][v], s);
        }
    }
    K__UNROLL for (int i = 0; i < N; i++) {
        da[i] = vld1q_f32(x->d + 4 * i);
        K__UNROLL for (int j = 0; j < J && mins; j++)
            hi[i][j] = vld1q_s8(x->hi + 16 * (N * j + i)), lo[i][j] = vld1q_s8(x->lo + 16 * (N * j + i));
    }
    K__UNROLL for (int v = 0; v < V; v++) {
        const float32x4_t d = vld1q_f32(w->d[h][v]), dm = vld1q_f32(w->dm[h][v]);
        float32x4_t       u[K__NEON_N];
        K__UNROLL for (int i = 0; i < N; i++) {
            u[i] = vmulq_f32(d, vcvtq_f32_s32(S[i][v]));
            if (mins)
                u[i] = vsubq_f32(u[i], vmulq_f32(dm, vcvtq_f32_s32(k__imin_neon(mm, mins, w->mn[h], v, hi[i], lo[i]))));
            u[i] = vmulq_f32(u[i], da[i]);
        }
        k__add_quads_neon(N, u, y + x->y + 4 * N * v);
    }
}

/* A group of SCALE: f += scales times dots. Dots begin with the bits of K__NEON_BIAS, so that what they add up to is the float
 * K__NEON_BIAS + dot, and the fused s * that - s * K__NEON_BIAS is s * dot, rounded once, as a conversion and a product are.
 * Both are loaded, beside multiplications. first: f is what they give, since 0 + -0 and -0 are the same in y, which begins with
 * +0. */
K__NEON_IN void k__scale_group_neon(const bool mm, const int N, const int by, const bool has_min, const bool first,
                                    const int8_t **w, const int8_t **x, const float **scales, const float *fm,
                                    const float *sum, float32x4_t (*f)[4]) {
    const int      V = mm ? 4 : 2;
    const int32_t *bias = k__bias_neon;
    const float   *fs = *scales;
    int32x4_t      D[K__NEON_N][4];
    float32x4_t    s[4];
    K__UNROLL for (int i = 0; i < N; i++) {
        __asm__("" : "+r"(bias));                     /* loaded anew, not copied */
        K__UNROLL for (int v = 0; v < V; v++) D[i][v] = vld1q_s32(bias + 4 * v);
    }
    k__group_neon(mm, N, by, w, x, D);
    K__NEON_DONE(fs, D[N - 1][V - 1], D[0][V - 1]);
    K__UNROLL for (int v = 0; v < V; v++) s[v] = vld1q_f32(fs + 4 * v);
    K__UNROLL for (int i = 0; i < N; i++) {
        float32x4_t u[4];
        K__UNROLL for (int v = 0; v < V; v++) u[v] = vld1q_f32(fs + 16 + 4 * v);
        if (V == 4) __asm__("" : "+w"(u[0]), "+w"(u[1]), "+w"(u[2]), "+w"(u[3]));            /* loaded in pairs */
        K__UNROLL for (int v = 0; v < V; v++) {
            u[v] = k__fma_neon(s[v], vreinterpretq_f32_s32(D[i][v]), u[v]);
            f[i][v] = first ? u[v] : vaddq_f32(f[i][v], u[v]);
        }
        K__NEON_DONE(fs, f[i][0], f[i][V - 1]);
    }
    *scales = fs + 32;
    K__UNROLL for (int v = 0; v < V && has_min; v++) {
        const float32x4_t m = vld1q_f32(fm + 4 * v);
        K__UNROLL for (int i = 0; i < N; i++) f[i][v] = vaddq_f32(f[i][v], vmulq_f32(m, vld1q_f32(sum + 4 * i)));
    }
}

/* What the other tiles of SCALE do, with scales of any size, one value after the other. */
static void k__wide_tile_neon(bool mm, int N, int by, bool has_min, const k__neon_panel *w, int h, const k__neon_at *x,
                              int groups, float *y) {
    const int per = mm ? 2 : 1, each = mm ? 8 : 16;
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < per * N; c++) {
            const int i = c / per, v = mm ? r / 2 : r / 4, lane = mm ? r % 2 * 2 + c % 2 : r % 4;
            float     f = 0;
            for (int g = 0; g < groups; g++) {
                int32_t dot = 0;
                for (int k = by * g; k < by * (g + 1); k++)
                    dot += w->q[h][mm ? k / 8 * 64 + 8 * r + k % 8 : k / 4 * 32 + 4 * r + k % 4] *
                           x->q[k / each * 16 * N + each * c + k % each];
                f += w->fs[h][g][0][v][lane] * (float)dot;
                if (has_min) f += w->fm[h][g][v][lane] * x->sum[4 * (N * g + i) + lane];
            }
            y[x->y + (size_t)(4 * (N * v + i) + lane)] += f * x->d[4 * i + lane];
        }
}

K__NEON_IN void k__scale_tile_neon(const bool mm, const int N, const int by, const bool has_min, const k__neon_panel *w,
                                   const int h, const k__neon_at *x, int groups, float *y) {
    const int     V = mm ? 4 : 2;
    const int8_t *wq = w->q[h], *xq = x->q;
    const float  *fs = w->fs[h][0][0][0], *fm = w->fm[h][0][0], *sum = x->sum, *end = fs + 32 * groups, *d = x->d;
    float        *to = y + x->y;
    float32x4_t   f[K__NEON_N][4], da[K__NEON_N];
    k__scale_group_neon(mm, N, by, has_min, true, &wq, &xq, &fs, fm, sum, f);
    K__NO_UNROLL while (fm += 16, sum += 4 * N, fs < end)
        k__scale_group_neon(mm, N, by, has_min, false, &wq, &xq, &fs, fm, sum, f);
    K__UNROLL for (int i = 0; i < N; i++) da[i] = vld1q_f32(d + 4 * i);
    K__UNROLL for (int v = 0; v < V; v++) {
        float32x4_t u[K__NEON_N];
        K__UNROLL for (int i = 0; i < N; i++) u[i] = vmulq_f32(f[i][v], da[i]);
        k__add_quads_neon(N, u, to + 4 * N * v);
    }
}

/* Half h of a panel times one tile of activations, added to y; groups: those that exist, of SCALE. */
typedef void k__tile_neon(const k__neon_panel *w, int h, const k__neon_at *x, int groups, float *y);

#define K__TILE_NEON(name, call)                                                                                          \
    K__NEON_DOTS void k__tile_##name(const k__neon_panel *w, int h, const k__neon_at *x, int groups, float *y) {          \
        (void)groups;                                                                                                     \
        call;                                                                                                             \
    }
#define K__INT_TILES_NEON(name, by, mins)                                                                                 \
    K__TILE_NEON(name##_neon_1, k__int_tile_neon(false, 1, by, mins, w, h, x, y))                                         \
    K__TILE_NEON(name##_neon_2, k__int_tile_neon(false, 2, by, mins, w, h, x, y))                                         \
    K__TILE_NEON(name##_neon_3, k__int_tile_neon(false, 3, by, mins, w, h, x, y))                                         \
    K__TILE_NEON(name##_neon_4, k__int_tile_neon(false, 4, by, mins, w, h, x, y))                                         \
    K__TILE_NEON(name##_i8mm_1, k__int_tile_neon(true, 1, by, mins, w, h, x, y))                                          \
    K__TILE_NEON(name##_i8mm_2, k__int_tile_neon(true, 2, by, mins, w, h, x, y))                                          \
    K__TILE_NEON(name##_i8mm_3, k__int_tile_neon(true, 3, by, mins, w, h, x, y))
#define K__SCALE_TILES_NEON(name, by, min)                                                                                \
    K__TILE_NEON(name##_neon_1, k__scale_tile_neon(false, 1, by, min, w, h, x, groups, y))                                \
    K__TILE_NEON(name##_neon_2, k__scale_tile_neon(false, 2, by, min, w, h, x, groups, y))                                \
    K__TILE_NEON(name##_neon_3, k__scale_tile_neon(false, 3, by, min, w, h, x, groups, y))                                \
    K__TILE_NEON(name##_neon_4, k__scale_tile_neon(false, 4, by, min, w, h, x, groups, y))                                \
    K__TILE_NEON(name##_i8mm_1, k__scale_tile_neon(true, 1, by, min, w, h, x, groups, y))                                 \
    K__TILE_NEON(name##_i8mm_2, k__scale_tile_neon(true, 2, by, min, w, h, x, groups, y))                                 \
    K__TILE_NEON(name##_i8mm_3, k__scale_tile_neon(true, 3, by, min, w, h, x, groups, y))
K__INT_TILES_NEON(int32, 32, 0)
K__INT_TILES_NEON(int16, 16, 0)
K__INT_TILES_NEON(min32, 32, 32)
K__INT_TILES_NEON(min16, 16, 16)
K__SCALE_TILES_NEON(scale32, 32, false)
K__SCALE_TILES_NEON(scale16, 16, false)
K__SCALE_TILES_NEON(scale_min, 32, true)

/* How a format is multiplied. */
typedef struct {
    k__one_neon  *one, *one_mm;                       /* at neon, at i8mm */
    k__open_neon *open, *open_mm;
    k__tile_neon *tile[K__NEON_N], *tile_mm[3];       /* index: columns - 1; pairs - 1 */
    int           mins;                               /* columns with one minimum, INT; 0: none */
    bool          sums;                               /* tiles read the sums of 32 as floats */
} k__neon_plan;

#define K__PLAN_OF_NEON(one_neon, mm, type, tiles, min, sum)                                                              \
    {k__one_##one_neon##_neon, k__one_##mm##_neon, k__open_##type##_neon, k__open_##type##_i8mm,                          \
     {k__tile_##tiles##_neon_1, k__tile_##tiles##_neon_2, k__tile_##tiles##_neon_3, k__tile_##tiles##_neon_4},            \
     {k__tile_##tiles##_i8mm_1, k__tile_##tiles##_i8mm_2, k__tile_##tiles##_i8mm_3}, min, sum}
#define K__PLAN_NEON(type, tiles, min, sum) K__PLAN_OF_NEON(type, type, type, tiles, min, sum)
static const k__neon_plan k__plans_neon[K_TYPE_MAX] = {
    [K_Q4_K]    = K__PLAN_NEON(q4_K, min32, 32, false),
    [K_Q5_K]    = K__PLAN_NEON(q5_K, min32, 32, false),
    [K_Q2_K]    = K__PLAN_NEON(q2_K, min16, 16, false),
    [K_Q6_K]    = K__PLAN_NEON(q6_K, int16, 0, false),
    [K_Q3_K]    = K__PLAN_NEON(q3_K, int16, 0, false),
    [K_TQ1_0]   = K__PLAN_NEON(tq2_0, int32, 0, false),
    [K_TQ2_0]   = K__PLAN_NEON(tq2_0, int32, 0, false),
    [K_IQ4_XS]  = K__PLAN_NEON(iq4_xs, int32, 0, false),
    [K_IQ3_XXS] = K__PLAN_NEON(iq4_xs, int32, 0, false),
    [K_IQ3_S]   = K__PLAN_NEON(iq4_xs, int32, 0, false),
    [K_IQ2_XXS] = K__PLAN_NEON(iq2_xxs, int32, 0, false),
    [K_IQ2_XS]  = K__PLAN_NEON(iq2_s, int16, 0, false),
    [K_IQ2_S]   = K__PLAN_NEON(iq2_s, int16, 0, false),
    [K_IQ1_S]   = K__PLAN_NEON(iq2_xxs, int32, 0, false),
    [K_IQ1_M]   = K__PLAN_NEON(iq2_s, int16, 0, false),
    [K_Q4_0]    = K__PLAN_NEON(q4_0, scale32, 0, false),
    [K_Q4_1]    = K__PLAN_NEON(q4_1, scale_min, 0, true),
    [K_Q5_0]    = K__PLAN_NEON(q5_0, scale32, 0, false),
    [K_Q5_1]    = K__PLAN_NEON(q5_1, scale_min, 0, true),
    [K_Q8_0]    = K__PLAN_OF_NEON(q8_0, q8_0_mm, q8_0, scale32, 0, false),
    [K_Q1_0]    = K__PLAN_NEON(q1_0, scale32, 0, false),
    [K_Q2_0]    = K__PLAN_NEON(q2_0, scale32, 0, false),
    [K_IQ4_NL]  = K__PLAN_NEON(iq4_nl, scale32, 0, false),
    [K_MXFP4]   = K__PLAN_NEON(mxfp4, scale32, 0, false),
    [K_NVFP4]   = K__PLAN_NEON(nvfp4, scale16, 0, false),
    [K_IQ2_K]   = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ3_K]   = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ4_K]   = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ5_K]   = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ6_K]   = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ2_KS]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ2_KL]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ3_KS]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ4_KS]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ4_KSS] = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ5_KS]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ1_KT]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ2_KT]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ3_KT]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_IQ4_KT]  = K__PLAN_NEON(iq6_k, int16, 0, false),
    [K_Q6_0]    = K__PLAN_OF_NEON(q8_0, q8_0_mm, q8_0, scale32, 0, false),
    [K_I2_S]    = K__PLAN_NEON(q2_0, scale32, 0, false),
};

/* Units of T columns (neon: 1, i8mm: 2) in tile i where there are `units`: as many as a tile takes, the last two alike. */
static int k__neon_units(bool mm, int units, int at) {
    const int most = mm ? 3 : K__NEON_N, left = units - at;
    if (left >= 2 * most || left == most) return most;
    return left > most ? (left + 1) / 2 : left;
}

/* 256 codes of two columns (i8mm; two NULL: zeros) or of one as column or pair i of a tile of N. */
K__NEON_IN void k__take_codes_neon(const bool mm, const int N, const int8_t *one, const int8_t *two, int8_t *to) {
    for (int k = 0; k < K_SUPER; k += 64, one += 64, to += 64 * (mm ? 2 : 1) * N)
        K__UNROLL for (int j = 0; j < 4; j++) {
            const int64x2_t u = (int64x2_t)vld1q_s8(one + 16 * j);
            if (!mm) {
                vst1q_s8(to + 16 * N * j, (int8x16_t)u);
                continue;
            }
            const int64x2_t v = two ? (int64x2_t)vld1q_s8(two + k + 16 * j) : vdupq_n_s64(0);
            vst1q_s8(to + 32 * N * j, (int8x16_t)vzip1q_s64(u, v));
            vst1q_s8(to + 32 * N * j + 16 * N, (int8x16_t)vzip2q_s64(u, v));
        }
}
static void k__take_neon(bool mm, int N, const int8_t *one, const int8_t *two, int8_t *to) {
    if (!mm) k__take_codes_neon(false, N, one, NULL, to);
    else if (!two) k__take_codes_neon(true, N, one, NULL, to);
    else if (N == 3) k__take_codes_neon(true, 3, one, two, to);
    else k__take_codes_neon(true, N, one, two, to);
}

/* Block b of columns t .. t + 2 N (i8mm) or N of a; rows: their rows, -1: none. to: where the tile begins, in columns. */
static void k__neon_take(const k__neon_plan *p, bool mm, const k_acts *a, int b, const int *rows, int N, int at,
                         k__neon_acts *to) {
    int8_t *q = to->q + K_SUPER * at;
    float  *d = to->d + (mm ? 2 : 4) * at;
    static const k_sums none;
    for (int i = 0; i < N; i++) {
        const int   c = mm ? 2 * i : i, one = rows[c], two = mm ? rows[c + 1] : one;
        const k_sums *s = a->sum + (size_t)one * a->ldd + b, *s2 = two < 0 ? &none : a->sum + (size_t)two * a->ldd + b;
        const float da[2] = {a->d[(size_t)one * a->ldd + (size_t)b], two < 0 ? 0 : a->d[(size_t)two * a->ldd + (size_t)b]};
        const int8_t *codes = a->q + (size_t)b * K_SUPER;
        k__take_neon(mm, N, codes + (size_t)one * a->ldq, two < 0 ? NULL : codes + (size_t)two * a->ldq, q + 16 * i);
        for (int l = 0; l < 4; l++) d[4 * i + l] = da[l % 2];
        if (p->mins) {
            const int16x8_t v[2] = {p->mins == 32 ? k__of32_neon(s) : vld1q_s16(s->of16), vld1q_s16(s->of16 + 8)};
            const int16x8_t u[2] = {p->mins == 32 ? k__of32_neon(s2) : vld1q_s16(s2->of16), vld1q_s16(s2->of16 + 8)};
            for (int j = 0; j < 32 / p->mins; j++) {
                const size_t place = mm ? (size_t)(16 * at + 16 * (N * j + i)) : (size_t)(16 * at + 16 * i + 8 * j);
                vst1_s8(to->hi + place, k__hi_neon(v[j]));
                vst1_s8(to->lo + place, k__lo_neon(v[j]));
                if (!mm) continue;
                vst1_s8(to->hi + place + 8, k__hi_neon(u[j]));
                vst1_s8(to->lo + place + 8, k__lo_neon(u[j]));
            }
        }
        for (int g = 0; p->sums && g < 8; g++) {
            const float x = (float)(s->of16[2 * g] + s->of16[2 * g + 1]), y = (float)(s2->of16[2 * g] + s2->of16[2 * g + 1]);
            for (int l = 0; l < 4; l++) to->sum[(mm ? 16 : 32) * at + 4 * (N * g + i) + l] = l % 2 ? y : x;
        }
    }
}

/* The sums of eight rows and a tile, [quad][N], to y; rows: of them, those that exist, cols: of the tile. */
K__NEON_IN void k__put_tile_neon(const bool mm, const bool whole, const float *from, int N, int rows, int cols, float *y,
                                 size_t ldy) {
    for (int i = 0; i < cols; i += mm ? 2 : 1)
        for (int h = 0; h < 2; h++) {
            const float      *at = mm ? from + 4 * (2 * N * h + i / 2) : from + 4 * (N * h + i);
            const float32x4_t a = vld1q_f32(at), b = mm ? vld1q_f32(at + 4 * N) : a;
            const int         left = whole ? 4 : rows - 4 * h;
            k__put_neon(y + (size_t)i * ldy + 4 * h, left, mm ? vuzp1q_f32(a, b) : a);
            if (mm && i + 1 < cols) k__put_neon(y + (size_t)(i + 1) * ldy + 4 * h, left, vuzp2q_f32(a, b));
        }
}
static void k__neon_put(bool mm, const float *from, int N, int rows, int cols, float *y, size_t ldy) {
    if (!mm) k__put_tile_neon(false, false, from, N, rows, cols, y, ldy);
    else if (rows >= 8) k__put_tile_neon(true, true, from, N, 8, cols, y, ldy);
    else k__put_tile_neon(true, false, from, N, rows, cols, y, ldy);
}

/* The tiles of so many columns or pairs; returns their number. */
static int k__neon_tiles(bool mm, int units, const k__neon_acts *x, k__neon_at *tile) {
    const int per = mm ? 2 : 1;
    int       n = 0;
    for (int u = 0; u < units; u += tile[n++].n) {
        const int at = u * per;
        tile[n] = (k__neon_at){k__neon_units(mm, units, u), x->q + K_SUPER * at, x->hi + 16 * at, x->lo + 16 * at,
                               x->d + (mm ? 2 : 4) * at, x->sum + (mm ? 16 : 32) * at, 8 * (size_t)at};
    }
    return n;
}

static __attribute__((noinline, cold)) void k__wide_tiles_neon(const k__neon_plan *p, bool mm, int by, const k__neon_panel *w,
                                                               int h, const k__neon_at *tile, int n, int groups, float *y) {
    for (int i = 0; i < n; i++) k__wide_tile_neon(mm, tile[i].n, by, p->sums, w, h, &tile[i], groups, y);
}

/* Up to K__NEON_ROWS rows, w, times columns t0 .. t0 + cols - 1, at most K__NEON_COLS. */
static void k__neon_many(const k__neon_plan *p, bool mm, const k__form *f, size_t strip, const uint8_t *w, int nr, int n,
                         const k_acts *a, int t0, int cols, float *y, size_t ldy, k__neon_mem *m) {
    const int           per = mm ? 2 : 1, units = (cols + per - 1) / per, by = f->head == K__HEAD_E4 ? 16 : 32;
    k__tile_neon *const *tiles = mm ? p->tile_mm : p->tile;
    int                 row[K__NEON_COLS];
    k__neon_at          tile[K__NEON_COLS / 2 + 1];
    const int           n_tiles = k__neon_tiles(mm, units, &m->acts, tile);
    for (int c = 0; c < units * per; c++) row[c] = c < cols ? k__row_of(a, t0 + c) : -1;
    for (int r = 0; r < nr; r += 8) memset(m->y[r / 8], 0, (size_t)(8 * units * per) * sizeof(float));
    for (int b = 0; b * K_SUPER < n; b++) {
        const int len = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : K_SUPER, groups = len / by;
        for (int i = 0, at = 0; i < n_tiles; at += tile[i++].n * per)
            k__neon_take(p, mm, a, b, row + at, tile[i].n, at, &m->acts);
        for (int r = 0; r < nr; r += K_PACK_ROWS) {
            m->panel.wide = false;
            (mm ? p->open_mm : p->open)(f, w + (size_t)(r / K_PACK_ROWS) * strip, len, &m->panel);
            for (int h = 0; h < 2 && r + 8 * h < nr; h++)
                if (m->panel.wide) k__wide_tiles_neon(p, mm, by, &m->panel, h, tile, n_tiles, groups, m->y[r / 8 + h]);
                else for (int i = 0; i < n_tiles; i++) tiles[tile[i].n - 1](&m->panel, h, &tile[i], groups, m->y[r / 8 + h]);
        }
        w += (size_t)k__units(f, len) * k__unit_bytes(f);
    }
    for (int r = 0; r < nr; r += 8)
        for (int i = 0, at = 0; i < n_tiles; at += tile[i++].n * per) {
            const int left = cols - at, have = tile[i].n * per;
            k__neon_put(mm, m->y[r / 8] + 8 * at, tile[i].n, nr - r, left < have ? left : have, y + (size_t)at * ldy + r, ldy);
        }
}

static bool k__multiply_neon(bool mm, uint32_t type, const uint8_t *w, int nr, int n, const k_acts *a, float *y, size_t ldy,
                             void *scratch) {
    const k__neon_plan *p = &k__plans_neon[type];
    const k__form      *f = &k__forms[type];
    const size_t        strip = k_pack_bytes(type, K_PACK_ROWS, n);
    k__neon_mem        *m = (k__neon_mem *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    if (a->nt == 1) {
        const size_t row = (size_t)k__row_of(a, 0);
        (mm ? p->one_mm : p->one)(f, w, nr, n, a->q + row * a->ldq, a->sum + row * a->ldd, a->d + row * a->ldd, y);
        return false;
    }
    for (int r = 0, rows; r < nr; r += rows, w += (K__NEON_ROWS / K_PACK_ROWS) * strip) {
        rows = nr - r < K__NEON_ROWS ? nr - r : K__NEON_ROWS;
        for (int t = 0, cols; t < a->nt; t += cols) {
            cols = a->nt - t < K__NEON_COLS ? a->nt - t : K__NEON_COLS;
            k__neon_many(p, mm, f, strip, w, rows, n, a, t, cols, y + (size_t)t * ldy + r, ldy, m);
        }
    }
    return false;
}

static bool k_mul_packed_neon(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch,
                              k__far_mem *far) {
    (void)far;
    return k__multiply_neon(false, type, w, nr, n, a, y, ldy, scratch);
}

static bool k_mul_packed_i8mm(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch,
                              k__far_mem *far) {
    (void)far;
    return k__multiply_neon(true, type, w, nr, n, a, y, ldy, scratch);
}

/* --- rows in file order --- */

/* The dots of 16 or 32 codes, in four lanes. */
K__NEON_IN int32x4_t k__dot16_neon(const int8_t *w, const int8_t *x) {
    const int8x16_t a = vld1q_s8(w), b = vld1q_s8(x);
    const int16x8_t lo = vmull_s8(vget_low_s8(a), vget_low_s8(b)), hi = vmull_high_s8(a, b);
    return vpadalq_s16(vpaddlq_s16(lo), hi);
}

static float k__int_block_neon(const k__unpacked *u, bool has_min, const int8_t *q, const int16_t *sum) {
    int32x4_t isum = vdupq_n_s32(0), imin = isum;
    for (int g = 0; g < 16; g++) isum = vmlaq_n_s32(isum, k__dot16_neon(u->q + 16 * g, q + 16 * g), u->sc[g]);
    float r = u->d * (float)vaddvq_s32(isum);
    if (!has_min) return r;
    for (int g = 0; g < 16; g += 4) imin = vmlal_s16(imin, vld1_s16(u->mn + g), vld1_s16(sum + g));
    return r - u->dm * (float)vaddvq_s32(imin);
}

static float k__scale_block_neon(const k__unpacked *u, int group, bool has_min, const int8_t *q, const int16_t *sum, int n) {
    float t = 0;
    for (int g = 0; g * group < n; g++) {
        int32x4_t v = k__dot16_neon(u->q + g * group, q + g * group);
        if (group == 32) v = vaddq_s32(v, k__dot16_neon(u->q + g * group + 16, q + g * group + 16));
        t = t + u->fs[g] * (float)vaddvq_s32(v);
        if (has_min) t = t + u->fm[g] * (float)(sum[2 * g] + sum[2 * g + 1]);
    }
    return t;
}

static void k_mul_quant_neon(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy,
                             void *scratch) {
    const k_type *ty = &k_types[type];
    (void)scratch;
    for (int r = 0; r < nr; r++) {
        const uint8_t *p = (const uint8_t *)w + (size_t)r * row_bytes;
        for (int k = 0, b = 0; k < n; k += K_SUPER, b++) {
            k__unpacked u;
            const int   len = n - k < K_SUPER ? n - k : K_SUPER;
            k__unpack_at(type, p, k, len, &u);
            for (int t = 0; t < a->nt; t++) {
                const size_t   row = (size_t)k__row_of(a, t);
                const int8_t  *q = a->q + row * a->ldq + k;
                const int16_t *sum = a->sum[row * a->ldd + (size_t)b].of16;
                const float    v = ty->kind == K_KIND_INT ? k__int_block_neon(&u, ty->has_min, q, sum)
                                                          : k__scale_block_neon(&u, ty->group, ty->has_min, q, sum, len);
                float         *out = &y[(size_t)t * ldy + (size_t)r];
                *out = (k ? *out : 0.0f) + v * a->d[row * a->ldd + (size_t)b];
            }
        }
    }
}

/* --- quantised activations --- */

static int k_quant_act_neon(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    uint32x4_t most[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};      /* bits of magnitudes */
    for (int i = 0; i < n; i += 16)
        K__UNROLL for (int k = 0; k < 4; k++)
            most[k] = vmaxq_u32(most[k], vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i + 4 * k))));
    const uint32_t bits = vmaxvq_u32(vmaxq_u32(vmaxq_u32(most[0], most[1]), vmaxq_u32(most[2], most[3])));
    const float    amax = k__f32_of(bits), inv = amax > 0 ? 127.0f / amax : 0.0f;
    if (!(amax <= FLT_MAX && inv <= FLT_MAX)) return k_quant_act_ref(x, n, q, sum, d);
    *d = amax / 127.0f;
    memset(sum, 0, sizeof *sum);
    int16_t sizes[16] = {0};
    for (int i = 0; i < n; i += 16) {
        int32x4_t v[4];
        K__UNROLL for (int k = 0; k < 4; k++) v[k] = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + i + 4 * k), k__set_neon(inv)));
        const int16x8_t a = vuzp1q_s16((int16x8_t)v[0], (int16x8_t)v[1]), b = vuzp1q_s16((int16x8_t)v[2], (int16x8_t)v[3]);
        const int8x16_t c = vuzp1q_s8((int8x16_t)a, (int8x16_t)b);        /* low bytes: no code is beyond 127 */
        vst1q_s8(q + i, c);
        sum->of16[i / 16] = vaddlvq_s8(c);
        sizes[i / 16] = (int16_t)vaddlvq_u8((uint8x16_t)vabsq_s8(c));
    }
    const int16x8_t of32 = k__of32_neon(sum), size[2] = {vld1q_s16(sizes), vld1q_s16(sizes + 8)};
    const int16x8_t size32 = vpaddq_s16(size[0], size[1]);
    const uint32x4_t words = (uint32x4_t)of32;                      /* 0 1 2 3 to 0 2 1 3 */
    const uint16x4_t even = vmovn_u32(words), odd = vshrn_n_u32(words, 16);
    const uint32x2x2_t mixed = vzip_u32((uint32x2_t)even, (uint32x2_t)odd);
    vst1q_s16(sum->of32, (int16x8_t)vcombine_u32(mixed.val[0], mixed.val[1]));
    sum->most16 = vmaxvq_s16(vmaxq_s16(size[0], size[1]));
    sum->most32 = (int16_t)(vmaxvq_s16(vaddq_s16(size32, vabsq_s16(of32))) / 2);
    return vaddlvq_s16(size32);
}

/* --- rows with outliers: [far] --- */

/* k_far_act_ref. */
static int k_far_act_neon(const float *x, int n, bool fine, uint8_t at[K_SUPER]) {
    int32x4_t   units[K_SUPER / 4], all = vdupq_n_s32(0), some = all, count = all;
    float32x4_t amax = k__set_neon(0);
    int         n_far = 0;
    for (int i = 0; i < n; i += 4) amax = k__larger_neon(vabsq_f32(vld1q_f32(x + i)), amax);
    const float32x4_t by = k__set_neon((float)K_FAR_UNITS / k__top_neon(amax));
    for (int i = 0; i < n; i += 4) {
        units[i / 4] = vcvtnq_s32_f32(vmulq_f32(vabsq_f32(vld1q_f32(x + i)), by));
        all = vaddq_s32(all, units[i / 4]);
    }
    const int32x4_t most = vdupq_n_s32(k__far_mean_of(vaddvq_s32(all), n));
    for (int i = 0; i < n; i += 4) {
        const uint32x4_t in = vcleq_s32(units[i / 4], most);
        some = vaddq_s32(some, vandq_s32(units[i / 4], (int32x4_t)in));
        count = vsubq_s32(count, (int32x4_t)in);
    }
    const int above = k__far_above(vaddvq_s32(some), vaddvq_s32(count), fine);
    for (int i = 0; i < n; i += 4) {
        if (vmaxvq_s32(units[i / 4]) <= above) continue;
        for (int l = 0; l < 4; l++)
            if (units[i / 4][l] > above) at[n_far++] = (uint8_t)(i + l);
    }
    return n_far;
}

/* Bits `at` and above of the lanes of a line, four rows. */
K__NEON_IN uint32x4_t k__far_bits_neon(const uint8_t *p, int at, uint32_t mask) {
    return vandq_u32(vshlq_u32(k__word_neon(p), vdupq_n_s32(-at)), vdupq_n_u32(mask));
}

/* Rows 4 q .. 4 q + 3 of a column of a strip; t: the values of a table. */
K__NEON_IN float32x4_t k__far_column_neon(const int bits, const int segs, const int head, const int off, float factor,
                                          const bool table, uint8x16_t t, const uint8_t *unit, const k__far_place *p,
                                          const int q) {
    const uint8_t *codes = unit + 16 * q, *h = unit + (head <= K__HEAD_ONE ? 0 : 128 * bits * segs);
    uint32x4_t     u = vdupq_n_u32(0);
    if (bits & 12) u = k__far_bits_neon(codes + p->line[0], p->bit[0], bits == 8 ? 255 : 15);
    if (bits & 2) u |= k__far_bits_neon(codes + p->line[1], p->bit[1], 3) << (bits & 4);
    if (bits & 1) u |= k__far_bits_neon(codes + p->line[2], p->bit[2], 1) << (bits & 6);
    const int32x4_t   v = table ? (int32x4_t)((uint32x4_t)vqtbl1q_u8(t, (uint8x16_t)u) << 24) >> 24 : (int32x4_t)u - off;
    const float32x4_t w = vcvtq_f32_s32(v);
    if (head > K__HEAD_ONE) {
        const int         g = head == K__HEAD_E4 ? p->group : p->group / 2;
        const float32x4_t x = vmulq_f32(k__fs_neon(head, segs, h, g, q, false), w);
        return head == K__HEAD_F16M ? vaddq_f32(x, k__fs_neon(head, segs, h, g, q, true)) : x;
    }
    const float32x4_t d = k__d_neon(head, factor, h, q, false);
    if (head == K__HEAD_ONE) return vmulq_f32(d, w);
    const float32x4_t x = vmulq_f32(vmulq_f32(d, vcvtq_f32_s32(k__sc_neon(head, h + 16 * q, p->group))), w);
    if (head != K__HEAD_MIN6 && head != K__HEAD_MIN4) return x;
    const int        group = head == K__HEAD_MIN6 ? p->group / 2 : p->group;
    const uint32x4_t four = (uint32x4_t)k__mn_neon(head, h + 16 * q, group / 4);
    const int32x4_t  mn = (int32x4_t)(vshlq_u32(four, vdupq_n_s32(-(group % 4 * 8))) & 255);
    return vsubq_f32(x, vmulq_f32(k__d_neon(head, factor, h, q, true), vcvtq_f32_s32(mn)));
}

/* k__far_columns, and, where v is given, k__far_values. */
K__NEON_IN void k__far_columns_of_neon(const int bits, const int segs, const int head, const int off, float factor,
                                       const int8_t *table, const uint8_t *w, size_t strip, int rows, const k__far_place *p,
                                       int n, const k__far *v, float *to, size_t ld) {
    const uint8x16_t t = table ? vreinterpretq_u8_s8(vld1q_s8(table)) : vdupq_n_u8(0);
    for (int r = 0; r < rows; r += K_PACK_ROWS, w += strip)
        for (int i = 0; i < n; i++)
            for (int q = 0; q < 4; q++) {
                const uint8_t    *unit = w + p[i].unit;
                const float32x4_t x = k__far_column_neon(bits, segs, head, off, factor, table != NULL, t, unit, p + i, q);
                float            *at = v ? to + 4 * q : to + (size_t)i * ld + r + 4 * q;
                vst1q_f32(at, v ? k__fma_neon(k__set_neon(v[i].v), x, vld1q_f32(at)) : x);
            }
}

#define K__FAR_CASE_NEON(id, name, bits, segs, head, off, most, factor, values) \
    case K_##id: k__far_columns_of_neon(bits, segs, head, off, factor, values, w, strip, rows, p, n, v, to, ld); return;
static void k__far_of_neon(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n, const k__far *v,
                           float *to, size_t ld) {
    switch (k__form_like(type)) { K__FORMS_OWN(K__FAR_CASE_NEON) }
}

static void k_far_columns_neon(uint32_t type, const uint8_t *w, size_t strip, int rows, const k__far_place *p, int n, float *to,
                               size_t ld, const uint8_t *next) {
    (void)next;
    k__far_of_neon(type, w, strip, rows, p, n, NULL, to, ld);
}

static void k_far_values_neon(uint32_t type, const uint8_t *w, const k__far_place *p, int n, const k__far *v, float *y,
                              const uint8_t *next) {
    (void)next;
    k__far_of_neon(type, w, 0, K_PACK_ROWS, p, n, v, y, 0);
}

static void k_far_add_neon(const float *col, size_t ld, const uint8_t *slot, k__far_list far, int rows, float *y) {
    int r = 0;
    for (; r + 16 <= rows; r += 16) {
        float32x4_t s[4];
        K__UNROLL for (int i = 0; i < 4; i++) s[i] = vld1q_f32(y + r + 4 * i);
        for (int e = 0; e < far.n; e++) {
            const float *w = col + slot[far.of[e].k] * ld + r;
            K__UNROLL for (int i = 0; i < 4; i++) s[i] = k__fma_neon(k__set_neon(far.of[e].v), vld1q_f32(w + 4 * i), s[i]);
        }
        K__UNROLL for (int i = 0; i < 4; i++) vst1q_f32(y + r + 4 * i, s[i]);
    }
    k_far_add_ref(col + r, ld, slot, far, rows - r, y + r);
}

static void k_mul_quant_i8mm(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy,
                             void *scratch) {
    k_mul_quant_neon(type, w, row_bytes, nr, n, a, y, ldy, scratch);
}
