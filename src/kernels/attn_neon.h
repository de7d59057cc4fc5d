/* ===== [attn_neon] attention at the levels of ARM ===== */

static void k_kv_store_neon(uint32_t type, const float *x, void *dst, int n) {
    uint8_t *out = (uint8_t *)dst;
    int      i = 0;
    for (; type == K_F16 && i + 4 <= n; i += 4)
        vst1_u8(out + 2 * (size_t)i, vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    k_kv_store_ref(type, x + i, out + 2 * (size_t)i, n - i);
}

/* 16 bytes of codes times a scale, rounded to bf16. */
K__NEON_IN void k__widen_codes_neon(int8x16_t q, float32x4_t d, float *dst) {
    const int16x8_t h[2] = {vmovl_s8(vget_low_s8(q)), vmovl_s8(vget_high_s8(q))};
    K__UNROLL for (int i = 0; i < 2; i++) {
        vst1q_f32(dst + 8 * i, k__rounded_neon(vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(h[i]))))));
        vst1q_f32(dst + 8 * i + 4, k__rounded_neon(vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_high_s16(h[i]))))));
    }
}

K__NEON_IN void k__widen_neon(const uint32_t type, const uint8_t *src, int n, float *dst) {
    int i = 0;
    for (; type == K_F32 && i + 4 <= n; i += 4) vst1q_f32(dst + i, vreinterpretq_f32_u8(vld1q_u8(src + 4 * (size_t)i)));
    for (; (type == K_F16 || type == K_BF16) && i + 8 <= n; i += 8) {
        const uint16x8_t v = vreinterpretq_u16_u8(vld1q_u8(src + 2 * (size_t)i));
        for (int h = 0; h < 2; h++) {
            const float32x4_t wide = vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(h ? vget_high_u16(v) : vget_low_u16(v)), 16));
            vst1q_f32(dst + i + 4 * h, type == K_F16 ? k__half_neon(v, h) : wide);
        }
    }
    for (; (type == K_Q8_0 || type == K_Q4_0) && i < n; i += 32, src += k_types[type].bytes) {
        uint16_t d;
        memcpy(&d, src, 2);
        const float32x4_t dv = k__set_neon(k_f16_to_f32(d));
        const uint8x16_t  v = vld1q_u8(src + 2);
        k__widen_codes_neon(type == K_Q8_0 ? (int8x16_t)v : (int8x16_t)(v & 15) - 8, dv, dst + i);
        k__widen_codes_neon(type == K_Q8_0 ? vld1q_s8((const int8_t *)src + 18) : (int8x16_t)(v >> 4) - 8, dv, dst + i + 16);
    }
    if (i < n) k_types[type].dequant(src + (size_t)i * (type == K_F32 ? 4 : 2), dst + i, n - i);
}

static void k__attn_widen_neon(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld) {
    for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
        if (type == K_F16) k__widen_neon(K_F16, src, n, dst);
        else if (type == K_BF16) k__widen_neon(K_BF16, src, n, dst);
        else if (type == K_F32) k__widen_neon(K_F32, src, n, dst);
        else if (type == K_Q8_0) k__widen_neon(K_Q8_0, src, n, dst);
        else k__widen_neon(K_Q4_0, src, n, dst);
    }
}

/* Transposes 4 x 4. */
K__NEON_IN void k__flip_neon(float32x4_t r[4]) {
    const float64x2_t a = (float64x2_t)vtrn1q_f32(r[0], r[1]), b = (float64x2_t)vtrn2q_f32(r[0], r[1]),
                      c = (float64x2_t)vtrn1q_f32(r[2], r[3]), d = (float64x2_t)vtrn2q_f32(r[2], r[3]);
    r[0] = (float32x4_t)vzip1q_f64(a, c), r[1] = (float32x4_t)vzip1q_f64(b, d);
    r[2] = (float32x4_t)vzip2q_f64(a, c), r[3] = (float32x4_t)vzip2q_f64(b, d);
}

static void k__attn_transpose_neon(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d += 4)
        for (int i = 0; i < K_TILE; i += 4) {
            float32x4_t r[4];
            K__UNROLL for (int j = 0; j < 4; j++) r[j] = vld1q_f32(k + (size_t)(i + j) * (size_t)ld + d);
            k__flip_neon(r);
            K__UNROLL for (int c = 0; c < 4; c++) vst1q_f32(kt + (size_t)(d + c) * K_TILE + i, r[c]);
        }
}

/* acc[r][16] += lane `lane` of x[r] times y. */
#define K__SUMS_NEON(lane, y)                                                                                             \
    do {                                                                                                                  \
        const float32x4x4_t yv = vld1q_f32_x4(y);                                                                         \
        K__UNROLL for (int r = 0; r < R; r++)                                                                             \
            K__UNROLL for (int j = 0; j < 4; j++) acc[r][j] = vfmaq_laneq_f32(acc[r][j], yv.val[j], x[r], lane);          \
    } while (0)

/* R rows and 16 positions. */
K__NEON_IN void k__scores_neon(const int R, const float *const *q, const float *kt, int n, float *s) {
    float32x4_t acc[4][4];
    K__UNROLL for (int r = 0; r < R; r++)
        K__UNROLL for (int j = 0; j < 4; j++) acc[r][j] = k__set_neon(0);
    for (int d = 0; d + 4 <= n; d += 4, kt += 4 * K_TILE) {
        float32x4_t x[4];
        K__UNROLL for (int r = 0; r < R; r++) x[r] = vld1q_f32(q[r] + d);
        K__SUMS_NEON(1, kt + K_TILE);
        K__SUMS_NEON(0, kt);
        K__SUMS_NEON(3, kt + 3 * K_TILE);
        K__SUMS_NEON(2, kt + 2 * K_TILE);
    }
    if (n % 4) {                                      /* two values more: the number is even */
        float32x4_t x[4];
        K__UNROLL for (int r = 0; r < R; r++) x[r] = k__load_neon(q[r] + n / 4 * 4, 2);
        K__SUMS_NEON(1, kt + K_TILE);
        K__SUMS_NEON(0, kt);
    }
    K__UNROLL for (int r = 0; r < R; r++)
        K__UNROLL for (int j = 0; j < 4; j++) vst1q_f32(s + r * K_TILE + 4 * j, acc[r][j]);
}

static void k__attn_scores_neon(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    (void)ahead;
    for (int r = 0; r < n_rows;) {
        const int some = n_rows - r;
        for (int at = 0; at < K_TILE; at += 16) {
            if (some >= 4) k__scores_neon(4, q + r, kt + at, n, s + r * K_TILE + at);
            else if (some >= 2) k__scores_neon(2, q + r, kt + at, n, s + r * K_TILE + at);
            else k__scores_neon(1, q + r, kt + at, n, s + r * K_TILE + at);
        }
        r += some >= 4 ? 4 : some >= 2 ? 2 : 1;
    }
}

static void k__attn_round_neon(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

/* Distances of four positions. */
K__NEON_IN float32x4_t k__far_neon(int far) {
    return vcvtq_f32_s32(vabsq_s32(vaddq_s32(vdupq_n_s32(far), (int32x4_t){0, 1, 2, 3})));
}

/* Scores with a cap and a slope; far: of the first of four positions. */
K__NEON_IN float32x4_t k__shape_neon(const k_attn_args *a, const float *slope, int far, float32x4_t v) {
    const float32x4_t cap = k__set_neon(a->softcap);
    if (a->softcap != 0) v = vmulq_f32(cap, k__tanh_neon(vdivq_f32(v, cap)));
    return slope ? k__fma_neon(k__set_neon(-*slope), k__far_neon(far), v) : v;
}

/* v where lo <= i + lane < hi, else -inf. */
K__NEON_IN float32x4_t k__inside_neon(float32x4_t v, int i, int lo, int hi) {
    const int32x4_t at = vaddq_s32(vdupq_n_s32(i), (int32x4_t){0, 1, 2, 3});
    const uint32x4_t in = vandq_u32(vcgeq_s32(at, vdupq_n_s32(lo)), vcltq_s32(at, vdupq_n_s32(hi)));
    return vbslq_f32(in, v, k__set_neon(-INFINITY));
}

static void k__attn_weigh_neon(const k_attn_args *a, k__attn_rows *g, float *s) {
    const bool shaped = a->softcap != 0 || a->slopes, round = k__kv_rounds(a->type_v);
    for (int r = 0; r < g->n; r++, s += K_TILE) {
        const float32x4_t old = k__set_neon(g->m[r]);
        float32x4_t       v[8], max = old;
        K__UNROLL for (int h = 0; h < 8; h++) {
            v[h] = vmulq_f32(vld1q_f32(s + 4 * h), k__set_neon(a->scale));
            if (shaped) v[h] = k__shape_neon(a, a->slopes ? &g->slope[r] : NULL, g->far[r] + 4 * h, v[h]);
            if (g->lo[r] > 4 * h || g->hi[r] < 4 * h + 4) v[h] = k__inside_neon(v[h], 4 * h, g->lo[r], g->hi[r]);
            max = k__larger_neon(v[h], max);
        }
        const float       top = k__top_neon(max);
        const float32x4_t base = k__set_neon(top == -INFINITY ? 0 : top);
        g->c[r] = top == g->m[r] ? 1 : vgetq_lane_f32(k__exp_neon(vsubq_f32(old, base)), 0);
        K__UNROLL for (int h = 0; h < 8; h++) {
            v[h] = k__exp_neon(vsubq_f32(v[h], base));
            if (round) v[h] = k__rounded_neon(v[h]);
            vst1q_f32(s + 4 * h, v[h]);
        }
        K__UNROLL for (int h = 0; h < 4; h++) v[h] = vaddq_f32(v[h], v[h + 4]);
        g->l[r] = fmaf(g->l[r], g->c[r], k__sum_neon(k__fold_neon(v)));
        g->m[r] = top;
    }
}

/* Sixteen dimensions of R rows stay in registers while the loop goes over positions. */
K__NEON_IN void k__gather_neon(const int R, float *const *o, int at, const float *c, const float *s, const float *v, int ld,
                               int lo, int hi) {
    const size_t n = (size_t)ld;
    float32x4_t  acc[4][4], x[4];
    int          i = lo & ~1;
    K__UNROLL for (int r = 0; r < R; r++)
        K__UNROLL for (int j = 0; j < 4; j++) acc[r][j] = vmulq_f32(vld1q_f32(o[r] + at + 4 * j), k__set_neon(c[r]));
    v += at;
    while (i < hi)
        if (i % 4 == 0 && i >= lo && i + 4 <= hi) {
            const float *p = v + (size_t)i * n;
            K__UNROLL for (int r = 0; r < R; r++) x[r] = vld1q_f32(s + r * K_TILE + i);
            K__SUMS_NEON(1, p + n);
            K__SUMS_NEON(0, p);
            K__SUMS_NEON(3, p + 3 * n);
            K__SUMS_NEON(2, p + 2 * n);
            i += 4;
        } else {
            for (int k = 1; k >= 0; k--) {            /* the odd one of a pair first */
                if (i + k < lo || i + k >= hi) continue;
                K__UNROLL for (int r = 0; r < R; r++) x[r] = k__set_neon(s[r * K_TILE + i + k]);
                K__SUMS_NEON(0, v + (size_t)(i + k) * n);
            }
            i += 2;
        }
    K__UNROLL for (int r = 0; r < R; r++)
        K__UNROLL for (int j = 0; j < 4; j++) vst1q_f32(o[r] + at + 4 * j, acc[r][j]);
}

static void k__attn_gather_neon(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld, int lo,
                                int hi, k__attn_ahead *ahead) {
    (void)ahead;
    for (int r = 0; r < n_rows;) {
        const int    some = n_rows - r;
        const float *from = s + r * K_TILE;
        for (int at = 0; at < ld; at += 16) {
            if (some >= 4) k__gather_neon(4, o + r, at, c + r, from, v, ld, lo, hi);
            else if (some >= 2) k__gather_neon(2, o + r, at, c + r, from, v, ld, lo, hi);
            else k__gather_neon(1, o + r, at, c + r, from, v, ld, lo, hi);
        }
        r += some >= 4 ? 4 : some >= 2 ? 2 : 1;
    }
}

static float k__attn_decay_neon(float x) { return vgetq_lane_f32(k__exp_neon(k__set_neon(x)), 0); }

static void k__attn_join_neon(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__attn_decay_neon, all, o, part, from, n);
}

static k__attn_level k_attn_neon(const k_attn_args *a) {
    static const k__attn_keys keys = {
        .per = 1, .widen = k__attn_widen_neon, .transpose = k__attn_transpose_neon, .round = k__attn_round_neon,
        .scores = k__attn_scores_neon};
    static const k__attn_values values = {1, k__attn_widen_neon, NULL, k__attn_gather_neon};
    return (k__attn_level){
        .keys = &keys, .values = &values, .weigh = k__attn_weigh_neon, .join = k__attn_join_neon,
        .codes = k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_ref : NULL};
}
