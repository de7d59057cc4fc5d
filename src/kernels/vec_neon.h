/* ===== [vec_neon] floats at the levels of ARM =====
 * The operations of [vec] with vectors of four: 16 lanes are four registers. Loops over elements are those of [vec], which
 * compilers turn into vectors. */

#define K__NEON_IN static inline __attribute__((always_inline))

K__NEON_IN float32x4_t k__set_neon(float x) { return vdupq_n_f32(x); }

/* a * b + c, rounded once. */
K__NEON_IN float32x4_t k__fma_neon(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }

K__NEON_IN float32x4_t k__exp_neon(float32x4_t x) {
    const float32x4_t t = k__fma_neon(x, k__set_neon(K_LOG2E), k__set_neon(K_ROUND)), n = vsubq_f32(t, k__set_neon(K_ROUND));
    const float32x4_t r = k__fma_neon(n, k__set_neon(-K_LN2_LO), k__fma_neon(n, k__set_neon(-K_LN2_HI), x));
    float32x4_t       p = k__fma_neon(k__set_neon(k__exp_c[4]), r, k__set_neon(k__exp_c[3]));
    p = k__fma_neon(p, r, k__set_neon(k__exp_c[2]));
    p = k__fma_neon(p, r, k__set_neon(k__exp_c[1]));
    p = k__fma_neon(p, r, k__set_neon(k__exp_c[0]));
    p = vaddq_f32(k__fma_neon(p, vmulq_f32(r, r), r), k__set_neon(1.0f));
    p = vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
    p = vbslq_f32(vcltq_f32(x, k__set_neon(K_EXP_LO)), k__set_neon(0), p);
    p = vbslq_f32(vcgtq_f32(x, k__set_neon(K_EXP_HI)), k__set_neon(INFINITY), p);
    return vbslq_f32(vceqq_f32(x, x), p, x);
}

K__NEON_IN float32x4_t k__tanh_neon(float32x4_t x) {
    const float32x4_t one = k__set_neon(1), two = k__set_neon(2), z = vmulq_f32(x, x), a = vabsq_f32(x);
    float32x4_t       p = k__fma_neon(k__set_neon(k__tanh_c[4]), z, k__set_neon(k__tanh_c[3]));
    p = k__fma_neon(p, z, k__set_neon(k__tanh_c[2]));
    p = k__fma_neon(p, z, k__set_neon(k__tanh_c[1]));
    p = k__fma_neon(p, z, k__set_neon(k__tanh_c[0]));
    p = k__fma_neon(vmulq_f32(x, z), p, x);
    const float32x4_t big = vsubq_f32(one, vdivq_f32(two, vaddq_f32(k__exp_neon(vmulq_f32(a, two)), one)));
    const float32x4_t far = vbslq_f32(vdupq_n_u32(0x80000000u), x, big);
    return vbslq_f32(vcltq_f32(a, k__set_neon(K_TANH_SMALL)), p, far);
}

/* Lanes 16 -> 8 -> 4. */
K__NEON_IN float32x4_t k__fold_neon(const float32x4_t *s) { return vaddq_f32(vaddq_f32(s[0], s[2]), vaddq_f32(s[1], s[3])); }

/* Lanes 4 -> 2 -> 1. */
K__NEON_IN float k__sum_neon(float32x4_t v) {
    const float32x2_t h = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(h, h), 0);
}

/* The larger of each pair; b where a is a NaN. */
K__NEON_IN float32x4_t k__larger_neon(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

/* The largest of four values without NaN. */
K__NEON_IN float k__top_neon(float32x4_t v) { return vmaxvq_f32(v); }

/* n <= 4 values of x, then zeros. */
K__NEON_IN float32x4_t k__load_neon(const float *x, int n) {
    float t[4] = {0};
    if (n >= 4) return vld1q_f32(x);
    for (int i = 0; i < n; i++) t[i] = x[i];
    return vld1q_f32(t);
}

K__NEON_IN void k__put_neon(float *x, int n, float32x4_t v) {
    float t[4];
    if (n >= 4) {
        vst1q_f32(x, v);
        return;
    }
    vst1q_f32(t, v);
    for (int i = 0; i < n; i++) x[i] = t[i];
}

/* 4 values of f16 from a vector of 8. */
K__NEON_IN float32x4_t k__half_neon(uint16x8_t v, bool high) {
    return vcvt_f32_f16(vreinterpret_f16_u16(high ? vget_high_u16(v) : vget_low_u16(v)));
}

/* Rounded as by k_f32_to_bf16; the low halves are zeros. */
K__NEON_IN float32x4_t k__rounded_neon(float32x4_t x) {
    const uint32x4_t u = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    uint32x4_t       r = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    r = vbslq_u32(vceqq_f32(x, x), r, vorrq_u32(u, vdupq_n_u32(0x400000)));
    return vreinterpretq_f32_u32(vandq_u32(r, vdupq_n_u32(0xffff0000u)));
}

/* --- products of floats --- */

/* Sixteen lanes of a step at p: 16 values, or of bf16 the odd (h 0) or the even ones (h 1) of 32. */
K__NEON_IN void k__part_neon(const uint32_t type, const uint8_t *p, const int h, float32x4_t v[4]) {
    if (type == K_F32) {
        K__UNROLL for (int j = 0; j < 4; j++) v[j] = vld1q_f32((const float *)(const void *)(p + 64 * h + 16 * j));
        return;
    }
    K__UNROLL for (int j = 0; j < 4; j++) {
        if (type == K_F16) {
            const uint16x8_t u = vreinterpretq_u16_u8(vld1q_u8(p + 32 * h + 16 * (j / 2)));
            v[j] = k__half_neon(u, j % 2);
            continue;
        }
        const uint16x8_t u = vreinterpretq_u16_u8(vld1q_u8(p + 16 * j));
        if (type == K_BF16) {
            const uint32x4_t w = vreinterpretq_u32_u16(u);
            v[j] = vreinterpretq_f32_u32(h ? vshlq_n_u32(w, 16) : vandq_u32(w, vdupq_n_u32(0xffff0000u)));
        } else {
            const float32x4_t lo = k__rounded_neon(k__half_neon(u, false)), hi = k__rounded_neon(k__half_neon(u, true));
            v[j] = h ? vuzp1q_f32(lo, hi) : vuzp2q_f32(lo, hi);
        }
    }
}

enum { K__FEW_NEON = 3 };                             /* columns of a tile */

/* R rows times C columns: a step of 32 values. */
K__NEON_IN void k__step_neon(const int R, const int C, const uint32_t type, const uint8_t *const *w, const uint8_t *const *x,
                             size_t at, size_t x_at, float32x4_t (*s)[K__FEW_NEON][4]) {
    const uint32_t xt = k__act_type(type);
    K__UNROLL for (int h = 0; h < 2; h++) {
        float32x4_t wv[2][4];
        K__UNROLL for (int r = 0; r < R; r++) k__part_neon(type, w[r] + at, h, wv[r]);
        K__UNROLL for (int c = 0; c < C; c++) {
            float32x4_t xv[4];
            k__part_neon(xt, x[c] + x_at, h, xv);
            K__UNROLL for (int r = 0; r < R; r++)
                K__UNROLL for (int j = 0; j < 4; j++) s[r][c][j] = k__fma_neon(wv[r][j], xv[j], s[r][c][j]);
        }
    }
}

K__NEON_IN void k__rows_neon(const int R, const int C, const uint32_t type, const uint8_t *w, size_t row_bytes,
                             const uint8_t *const *x, int n, float *y, size_t ldy) {
    const size_t   size = k__float_size(type), x_size = k__float_size(k__act_type(type));
    const uint8_t *row[2] = {w, w + (R > 1 ? row_bytes : 0)};
    float32x4_t    s[2][K__FEW_NEON][4];
    int            i = 0;
    K__UNROLL for (int r = 0; r < R; r++)
        K__UNROLL for (int c = 0; c < C; c++)
            K__UNROLL for (int j = 0; j < 4; j++) s[r][c][j] = k__set_neon(0);
    for (; i + 32 <= n; i += 32) k__step_neon(R, C, type, row, x, (size_t)i * size, (size_t)i * x_size, s);
    if (i < n) {
        uint8_t        wp[2][32 * sizeof(float)] = {{0}}, xp[K__FEW_NEON][32 * sizeof(float)] = {{0}};
        const uint8_t *ws[2] = {wp[0], wp[1]}, *xs[K__FEW_NEON];
        for (int r = 0; r < R; r++) memcpy(wp[r], row[r] + (size_t)i * size, (size_t)(n - i) * size);
        for (int c = 0; c < C; c++) {
            memcpy(xp[c], x[c] + (size_t)i * x_size, (size_t)(n - i) * x_size);
            xs[c] = xp[c];
        }
        k__step_neon(R, C, type, ws, xs, 0, 0, s);
    }
    K__UNROLL for (int r = 0; r < R; r++)
        K__UNROLL for (int c = 0; c < C; c++) y[(size_t)c * ldy + (size_t)r] = k__sum_neon(k__fold_neon(s[r][c]));
}

/* All rows times up to three columns; pairs of rows where there are several columns. */
K__NEON_IN void k__cols_neon(const uint32_t type, const uint8_t *w, size_t row_bytes, int nr, const uint8_t *const *x, int n_cols,
                             int n, float *y, size_t ldy) {
    int r = 0;
    for (; n_cols > 1 && r + 2 <= nr; r += 2) {
        if (n_cols == 2) k__rows_neon(2, 2, type, w + (size_t)r * row_bytes, row_bytes, x, n, y + r, ldy);
        else k__rows_neon(2, 3, type, w + (size_t)r * row_bytes, row_bytes, x, n, y + r, ldy);
    }
    for (; r < nr; r++)
        for (int c = 0; c < n_cols; c++)
            k__rows_neon(1, 1, type, w + (size_t)r * row_bytes, row_bytes, x + c, n, y + (size_t)c * ldy + r, ldy);
}

static void k_mul_float_neon(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,
                             size_t ldy) {
    for (int t = 0, cols; t < a->nt; t += cols) {
        const uint8_t *x[K__FEW_NEON];
        float         *to = y + (size_t)t * ldy;
        cols = a->nt - t == 4 ? 2 : a->nt - t < K__FEW_NEON ? a->nt - t : K__FEW_NEON;
        for (int c = 0; c < cols; c++) x[c] = k__act_row(a, type, t + c);
        if (type == K_F32) k__cols_neon(K_F32, w, row_bytes, nr, x, cols, n, to, ldy);
        else if (type == K_F16) k__cols_neon(K_F16, w, row_bytes, nr, x, cols, n, to, ldy);
        else if (type == K_BF16) k__cols_neon(K_BF16, w, row_bytes, nr, x, cols, n, to, ldy);
        else k__cols_neon(K_F16_ROUND, w, row_bytes, nr, x, cols, n, to, ldy);
    }
}

static void k_f16_round_neon(const uint8_t *w, int n, uint16_t *to) {
    int i = 0;
    for (; i + 8 <= n; i += 8, w += 16) {
        const uint16x8_t  u = vreinterpretq_u16_u8(vld1q_u8(w));
        const float32x4_t lo = k__rounded_neon(k__half_neon(u, false)), hi = k__rounded_neon(k__half_neon(u, true));
        vst1q_u16(to + i, vuzp2q_u16(vreinterpretq_u16_f32(lo), vreinterpretq_u16_f32(hi)));
    }
    k_f16_round_ref(w, n - i, to + i);
}

static float k_dot_neon(const float *a, const float *b, int n) {
    float y;
    k__rows_neon(1, 1, K_F32, (const uint8_t *)a, 0, &(const uint8_t *){(const uint8_t *)b}, n, &y, 0);
    return y;
}

/* --- rows --- */

K__LOOPS_LEVEL(neon, )

static void k_layer_norm_neon(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    float32x4_t s[4], d[4];
    for (int j = 0; j < 4; j++) s[j] = d[j] = k__set_neon(0);
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < 4; j++) s[j] = vaddq_f32(s[j], k__load_neon(x + i + 4 * j, n - i - 4 * j));
    const float mean = k__sum_neon(k__fold_neon(s)) / (float)n;
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < 4; j++) {
            float32x4_t v = vsubq_f32(k__load_neon(x + i + 4 * j, n - i - 4 * j), k__set_neon(mean));
            if (n - i - 4 * j < 4) {
                float t[4];
                vst1q_f32(t, v);
                for (int l = 0; l < 4; l++) t[l] = l < n - i - 4 * j ? t[l] : 0;
                v = vld1q_f32(t);
            }
            d[j] = k__fma_neon(v, v, d[j]);
        }
    k__shift(x, w, b, mean, 1.0f / sqrtf(k__sum_neon(k__fold_neon(d)) / (float)n + eps), n, y);
}

K__NEON_IN float32x4_t k__poly_neon(const float *c, const int n, float32x4_t x) {
    float32x4_t p = k__set_neon(c[n - 1]);
    K__UNROLL for (int i = n - 2; i >= 0; i--) p = k__fma_neon(p, x, k__set_neon(c[i]));
    return p;
}

/* 1 + exp(x) */
K__NEON_IN float32x4_t k__exp1_neon(float32x4_t x) { return vaddq_f32(k__set_neon(1.0f), k__exp_neon(x)); }

K__NEON_IN float32x4_t k__phi_neon(float32x4_t x) {
    const float32x4_t one = k__set_neon(1), half = k__set_neon(-0.5f), size = vabsq_f32(x), most = k__set_neon(K_PHI_FAR);
    const float32x4_t a = vbslq_f32(vcgtq_f32(size, most), most, size), z = vmulq_f32(a, a);
    const float32x4_t lost = k__fma_neon(a, a, vnegq_f32(z)), e = k__exp_neon(vmulq_f32(half, z));
    const float32x4_t t = vdivq_f32(one, k__fma_neon(k__set_neon(0.3f), a, one));
    const float32x4_t tail = vmulq_f32(k__fma_neon(e, vmulq_f32(half, lost), e), k__poly_neon(k__tail_c, 9, t));
    const float32x4_t small = k__fma_neon(x, k__poly_neon(k__phi_c, 6, z), k__set_neon(0.5f));
    const float32x4_t far = vbslq_f32(vcgtq_f32(x, k__set_neon(0)), vsubq_f32(one, tail), tail);
    return vbslq_f32(vcltq_f32(a, k__set_neon(K_PHI_SMALL)), small, far);
}

K__NEON_IN float32x4_t k__softplus_neon(float32x4_t x) {
    const float32x4_t two = k__set_neon(2), e = k__exp_neon(vnegq_f32(vabsq_f32(x))), by = vaddq_f32(two, e);
    const float32x4_t s = vdivq_f32(e, by), z = vmulq_f32(s, s);
    const float32x4_t log = vmulq_f32(e, vdivq_f32(k__fma_neon(z, k__poly_neon(k__log_c, 5, z), two), by));
    return vbslq_f32(vcgtq_f32(x, k__set_neon(0)), vaddq_f32(x, log), log);
}

K__NEON_IN float32x4_t k__act_neon(const k_act_fn fn, float32x4_t x) {
    const float32x4_t relu = vbslq_f32(vcltq_f32(x, k__set_neon(0)), k__set_neon(0), x);
    switch (fn) {
    case K_SILU: return vdivq_f32(x, k__exp1_neon(vnegq_f32(x)));
    case K_GELU:
        return vdivq_f32(x, k__exp1_neon(vmulq_f32(vnegq_f32(x), k__fma_neon(vmulq_f32(x, x), k__set_neon(K_GELU_3),
                                                                             k__set_neon(K_GELU_1)))));
    case K_GELU_ERF: return vmulq_f32(x, k__phi_neon(x));
    case K_SIGMOID: return vdivq_f32(k__set_neon(1.0f), k__exp1_neon(vnegq_f32(x)));
    case K_RELU: return relu;
    case K_RELU2: return vbslq_f32(vcltq_f32(x, k__set_neon(0)), k__set_neon(0), vmulq_f32(x, x));
    case K_EXP: return k__exp_neon(x);
    case K_SOFTPLUS: return k__softplus_neon(x);
    }
    return x;
}

K__NEON_IN void k__apply_neon(const k_act_fn fn, float *x, const float *up, int n) {
    for (int i = 0; i < n; i += 4) {
        const float32x4_t v = k__act_neon(fn, k__load_neon(x + i, n - i));
        k__put_neon(x + i, n - i, up ? vmulq_f32(v, k__load_neon(up + i, n - i)) : v);
    }
}

static void k_activate_neon(k_act_fn fn, float *x, const float *up, int n) { K__BY_ACT(k__apply_neon, fn, x, up, n) }

static void k_swiglu_clip_neon(float *gate, const float *up, float limit, float alpha, int n) {
    const float32x4_t top = k__set_neon(limit), low = k__set_neon(-limit);
    for (int i = 0; i < n; i += 4) {
        float32x4_t g = k__load_neon(gate + i, n - i), u = k__load_neon(up + i, n - i);
        g = vbslq_f32(vcgtq_f32(g, top), top, g);
        u = vbslq_f32(vcgtq_f32(u, top), top, vbslq_f32(vcltq_f32(u, low), low, u));
        const float32x4_t v = vdivq_f32(g, k__exp1_neon(vmulq_f32(k__set_neon(-alpha), g)));
        k__put_neon(gate + i, n - i, vmulq_f32(v, vaddq_f32(u, k__set_neon(1.0f))));
    }
}

static void k_cap_neon(float *x, float cap, int n) {
    const float32x4_t c = k__set_neon(cap);
    for (int i = 0; i < n; i += 4)
        k__put_neon(x + i, n - i, vmulq_f32(c, k__tanh_neon(vdivq_f32(k__load_neon(x + i, n - i), c))));
}

static float k_max_neon(const float *x, int n, int *arg) {
    float32x4_t a = k__set_neon(-INFINITY), b = a;
    int         i = 0, at = 0;
    for (; i + 8 <= n; i += 8) {
        a = k__larger_neon(vld1q_f32(x + i), a);
        b = k__larger_neon(vld1q_f32(x + i + 4), b);
    }
    float m = k__top_neon(k__larger_neon(a, b));
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    for (i = 0; i + 4 <= n; i += 4)
        if (vmaxvq_u32(vceqq_f32(vld1q_f32(x + i), k__set_neon(m)))) break;
    at = k__find(x + i, n - i, m);
    if (i + at < n && x[i + at] == m) at += i;
    else at = 0;
    if (arg) *arg = at;
    return n > 0 && x[at] == m ? x[at] : m;
}

static void k_softmax_neon(float *x, int n) {
    const float       m = k_max_neon(x, n, NULL);
    const float32x4_t base = k__set_neon(m == -INFINITY ? 0 : m);
    float32x4_t       sum[8];
    for (int h = 0; h < 8; h++) sum[h] = k__set_neon(0);
    for (int i = 0; i < n; i += 32)
        for (int h = 0; h < 8 && i + 4 * h < n; h++) {
            const int   left = n - i - 4 * h;
            float32x4_t e = k__exp_neon(vsubq_f32(k__load_neon(x + i + 4 * h, left), base));
            k__put_neon(x + i + 4 * h, left, e);
            sum[h] = vaddq_f32(sum[h], k__load_neon(x + i + 4 * h, left));
        }
    for (int h = 0; h < 4; h++) sum[h] = vaddq_f32(sum[h], sum[h + 4]);
    k__scale_each(x, k__share_of(k__sum_neon(k__fold_neon(sum))), n);
}

/* y += B u of T tiles of rows. */
K__NEON_IN void k__low_tiles_neon(const uint32_t type, const int T, const uint8_t *b, int rank, const float *u, float *y) {
    enum { V = K_LOW_TILE / 4 };
    const size_t step = K_LOW_TILE * k__float_size(type);
    float32x4_t  s[2][V], w[V];
    K__UNROLL for (int t = 0; t < T; t++)
        K__UNROLL for (int j = 0; j < V; j++) s[t][j] = vld1q_f32(y + K_LOW_TILE * t + 4 * j);
    for (int k = 0; k < rank; k++, b += step)
        K__UNROLL for (int t = 0; t < T; t++) {
            K__UNROLL for (int h = 0; h < V / 4; h++) k__part_neon(type, b + (size_t)t * (size_t)rank * step, h, w + 4 * h);
            K__UNROLL for (int j = 0; j < V; j++) s[t][j] = k__fma_neon(k__set_neon(u[k]), w[j], s[t][j]);
        }
    K__UNROLL for (int t = 0; t < T; t++)
        K__UNROLL for (int j = 0; j < V; j++) vst1q_f32(y + K_LOW_TILE * t + 4 * j, s[t][j]);
}
K__LOW_LEVEL(neon, )

static void k_hadamard_neon(float *x, int n, int size) {
    const float32x4_t unit = k__set_neon(k__hadamard_unit(size));
    const uint32x4_t  odd = vreinterpretq_u32_u64(vdupq_n_u64(0xffffffff00000000u));
    if (size < 4) {
        k_hadamard_ref(x, n, size);
        return;
    }
    for (int h = size / 2; h >= 4; h /= 2)
        for (int i = 0; i < n; i += 2 * h)
            for (int j = i; j < i + h; j += 4) {
                const float32x4_t a = vld1q_f32(x + j), b = vld1q_f32(x + j + h);
                vst1q_f32(x + j, vaddq_f32(a, b));
                vst1q_f32(x + j + h, vsubq_f32(a, b));
            }
    for (int i = 0; i < n; i += 4) {
        float32x4_t v = vld1q_f32(x + i), p = vextq_f32(v, v, 2);
        v = vcombine_f32(vget_low_f32(vaddq_f32(p, v)), vget_high_f32(vsubq_f32(p, v)));
        p = vrev64q_f32(v);
        v = vbslq_f32(odd, vsubq_f32(p, v), vaddq_f32(p, v));
        vst1q_f32(x + i, vmulq_f32(v, unit));
    }
}

/* --- recurrent layers --- */

/* Four channels at a time, whose filters are transposed once for all rows. */
static void k_conv_neon(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu,
                        float *y, size_t ldy) {
    for (int c = 0; c < n; c += 4) {
        const int         left = n - c;
        const float32x4_t base = bias ? k__load_neon(bias + c, left) : k__set_neon(0);
        float32x4_t       filter[K_CONV_TAPS];
        for (int j = 0; j < taps; j++) {
            float four[4] = {0};
            for (int i = 0; i < 4 && i < left; i++) four[i] = w[(size_t)(c + i) * (size_t)taps + (size_t)j];
            filter[j] = vld1q_f32(four);
        }
        for (int t = 0; t < n_rows; t++) {
            float32x4_t sum = base;
            for (int j = 0; j < taps; j++)
                sum = k__fma_neon(filter[j], x[t + j] ? k__load_neon(x[t + j] + c, left) : k__set_neon(0), sum);
            k__put_neon(y + (size_t)t * ldy + c, left, silu ? k__act_neon(K_SILU, sum) : sum);
        }
    }
}

/* --- states: eight columns at a time; sums over rows are four interleaved ones --- */

/* The sums over rows of eight columns. */
typedef struct { float32x4_t of[2][4]; } k__sums_neon;

K__NEON_IN void k__clear_neon(k__sums_neon *s) {
    K__UNROLL for (int h = 0; h < 2; h++)
        K__UNROLL for (int i = 0; i < 4; i++) s->of[h][i] = k__set_neon(0);
}

/* Rows [j, j + 4), or those before d_k, of eight columns: changes them by x where `change`, then adds their products with k and
 * q of `next` to u and w where there is one. */
K__NEON_IN void k__delta_rows_neon(const bool change, const bool dots, const bool whole, float *s, size_t ld, int j, int d_k,
                                   const k__delta_at *at, const float32x4_t *x, const k__delta_at *next, k__sums_neon *u,
                                   k__sums_neon *w) {
    const float32x4_t k = change ? k__load_neon(at->k + j, whole ? 4 : d_k - j) : k__set_neon(0);
    const float32x4_t nk = dots ? k__load_neon(next->k + j, whole ? 4 : d_k - j) : k;
    const float32x4_t nq = dots ? k__load_neon(next->q + j, whole ? 4 : d_k - j) : k;
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        K__UNROLL for (int h = 0; h < 2; h++) {
            float      *to = s + (size_t)(j + i) * ld + 4 * h;
            float32x4_t v = vld1q_f32(to);
            if (change) {
                v = vfmaq_n_f32(vmulq_n_f32(v, at->decay), x[h], k[i]);
                vst1q_f32(to, v);
            }
            if (!dots) continue;
            u->of[h][i] = vfmaq_n_f32(u->of[h][i], v, nk[i]);
            w->of[h][i] = vfmaq_n_f32(w->of[h][i], v, nq[i]);
        }
    }
}

/* A pass over eight columns: u and w become S^T k and S^T q. */
K__NEON_IN void k__delta_pass_neon(const bool change, const bool dots, float *s, size_t ld, int d_k, const k__delta_at *at,
                                   const float32x4_t *x, const k__delta_at *next, float32x4_t *u, float32x4_t *w) {
    k__sums_neon su, sw;
    int          j = 0;
    k__clear_neon(&su), k__clear_neon(&sw);
    for (; j + 4 <= d_k; j += 4) k__delta_rows_neon(change, dots, true, s, ld, j, d_k, at, x, next, &su, &sw);
    if (j < d_k) k__delta_rows_neon(change, dots, false, s, ld, j, d_k, at, x, next, &su, &sw);
    K__UNROLL for (int h = 0; h < 2; h++) u[h] = k__fold_neon(su.of[h]), w[h] = k__fold_neon(sw.of[h]);
}

static void k__delta_strip_neon(const k_delta_args *a, int c) {
    k__delta_at at = k__delta_position(a, 0, k_dot_neon);
    float      *s = a->s + c;
    float32x4_t x[2], u[2], w[2];
    x[0] = x[1] = k__set_neon(0);
    k__delta_pass_neon(false, true, s, a->ld_s, a->d_k, &at, x, &at, u, w);
    for (int p = 0; p < a->n_pos; p++) {
        const k__delta_at now = at;
        const bool        last = p == a->n_pos - 1;
        if (!last) at = k__delta_position(a, p + 1, k_dot_neon);
        K__UNROLL for (int h = 0; h < 2; h++) {
            x[h] = vmulq_n_f32(vfmsq_n_f32(vld1q_f32(now.v + c + 4 * h), u[h], now.decay), now.beta);
            if (now.out)
                vst1q_f32(a->o + (size_t)(p - a->fold) * a->ld_o + c + 4 * h,
                          vfmaq_n_f32(vmulq_n_f32(w[h], now.decay), x[h], now.kq));
        }
        if (!last) k__delta_pass_neon(true, true, s, a->ld_s, a->d_k, &now, x, &at, u, w);
        else if (!a->peek) k__delta_pass_neon(true, false, s, a->ld_s, a->d_k, &now, x, NULL, u, w);
    }
}

static void k_delta_neon(const k_delta_args *a) {
    int c = 0;
    for (; c + 8 <= a->n; c += 8) k__delta_strip_neon(a, c);
    k__delta_from_ref(a, c);
}

/* Rows [j, j + 4), or those before d_k, of eight columns: their products with q are added to w; where `change` they become those
 * of the next position, written with x and, with r, with v. */
K__NEON_IN void k__outer_rows_neon(const bool change, const bool second, const bool whole, float *s, size_t ld, int j, int d_k,
                                   const k__outer_at *at, const float32x4_t *x, const float32x4_t *v, k__sums_neon *w) {
    const int         left = whole ? 4 : d_k - j;
    const float32x4_t q = k__load_neon(at->q + j, left), k = change ? k__load_neon(at->k + j, left) : q;
    const float32x4_t decay = change ? k__load_neon(at->w + j, left) : q, r = second ? k__load_neon(at->r + j, left) : q;
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && i >= left) break;
        K__UNROLL for (int h = 0; h < 2; h++) {
            float      *to = s + (size_t)(j + i) * ld + 4 * h;
            float32x4_t y = vld1q_f32(to);
            w->of[h][i] = vfmaq_n_f32(w->of[h][i], y, q[i]);
            if (!change) continue;
            y = vfmaq_n_f32(vmulq_n_f32(y, decay[i]), x[h], k[i]);
            if (second) y = vfmaq_n_f32(y, v[h], r[i]);
            vst1q_f32(to, y);
        }
    }
}

/* One position of eight columns: the state's products with q, *w, and where `change` its next value. */
K__NEON_IN void k__outer_pass_neon(const bool change, const bool second, float *s, size_t ld, int d_k, const k__outer_at *at,
                                   const float32x4_t *x, const float32x4_t *v, float32x4_t *w) {
    k__sums_neon sum;
    int          j = 0;
    k__clear_neon(&sum);
    for (; j + 4 <= d_k; j += 4) k__outer_rows_neon(change, second, true, s, ld, j, d_k, at, x, v, &sum);
    if (j < d_k) k__outer_rows_neon(change, second, false, s, ld, j, d_k, at, x, v, &sum);
    K__UNROLL for (int h = 0; h < 2; h++) w[h] = k__fold_neon(sum.of[h]);
}

/* Eight columns go through all positions. */
K__NEON_IN void k__outer_strip_neon(const bool fix, const bool second, const k_outer_args *a, int c) {
    float *s = a->s + c;
    for (int i = 0; i < a->n_pos; i++) {
        const k__outer_at at = k__outer_position(a, i);
        float32x4_t       x[2], v[2], u[2], w[2];
        K__UNROLL for (int h = 0; h < 2; h++) x[h] = v[h] = u[h] = k__set_neon(0);
        if (fix) k__outer_pass_neon(false, false, s, a->ld_s, a->d_k, &(k__outer_at){.q = at.p}, x, v, u);
        K__UNROLL for (int h = 0; h < 2; h++) {
            v[h] = vld1q_f32(at.v + c + 4 * h);
            x[h] = vmulq_n_f32(vsubq_f32(second ? k__set_neon(0) : v[h], u[h]), at.beta);
        }
        if (a->peek && i == a->n_pos - 1) k__outer_pass_neon(false, false, s, a->ld_s, a->d_k, &at, x, v, w);
        else k__outer_pass_neon(true, second, s, a->ld_s, a->d_k, &at, x, v, w);
        K__UNROLL for (int h = 0; h < 2; h++) {
            float *o = a->o + (size_t)(i - a->fold) * a->ld_o + c + 4 * h;
            if (at.out) vst1q_f32(o, vfmaq_n_f32(vfmaq_n_f32(w[h], x[h], at.kq), v[h], at.rq));
        }
    }
}

static void k_outer_neon(const k_outer_args *a) {
    int c = 0;
    for (; c + 8 <= a->n; c += 8) {
        if (a->r) k__outer_strip_neon(true, true, a, c);
        else if (a->p) k__outer_strip_neon(true, false, a, c);
        else k__outer_strip_neon(false, false, a, c);
    }
    k__outer_from_ref(a, c);
}

static void k_scan_neon(const k_scan_args *a) {
    const size_t d_k = (size_t)a->d_k;
    if (d_k % 8) {
        k_scan_ref(a);
        return;
    }
    for (int i = 0; i < a->n_pos; i++) {
        const float *k = a->k + (size_t)i * a->ld, *q = (i < a->fold ? a->k : a->q) + (size_t)i * a->ld;
        const bool   stays = a->peek && i == a->n_pos - 1;
        for (int c = 0; c < a->n; c++) {
            const float  dt = a->dt[(size_t)i * a->ld_v + (size_t)c], v = a->v[(size_t)i * a->ld_v + (size_t)c], x = dt * v;
            const float *of = a->a + (size_t)c * d_k;
            float       *s = a->s + (size_t)c * d_k;
            float32x4_t  sum[2] = {k__set_neon(0), k__set_neon(0)};
            for (size_t j = 0; j < d_k; j += 8)
                K__UNROLL for (size_t h = 0; h < 2; h++) {
                    const size_t      at = j + 4 * h;
                    const float32x4_t e = k__exp_neon(vmulq_n_f32(vld1q_f32(of + at), dt));
                    const float32x4_t now = vfmaq_n_f32(vmulq_f32(e, vld1q_f32(s + at)), vld1q_f32(k + at), x);
                    sum[h] = vfmaq_f32(sum[h], now, vld1q_f32(q + at));
                    if (!stays) vst1q_f32(s + at, now);
                }
            if (i >= a->fold)
                a->o[(size_t)(i - a->fold) * a->ld_o + (size_t)c] = fmaf(a->skip[c], v, k__sum_neon(vaddq_f32(sum[0], sum[1])));
        }
    }
}
