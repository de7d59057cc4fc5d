/* ===== [fit_lanes] the searches of blocks and super-blocks in vectors =====
 * The root includes this file once for each width: FL_N is 8 (avx2) or 16 (avx512). It has the operations of [fit] in the same
 * order on each value, so blocks have the bits of the scalar form (t_fit_levels). A lane is a plain block, or a group of the
 * super-block. Where a vector has more lanes than there are groups, its upper half has the same groups and other trials; where it
 * has fewer, the groups are passes one after the other. Eight trials t are eight vectors then, or four with t in the lower half
 * and t + 4 in the upper one. Without importances products by w are left out, and sums of codes and of their squares, which are
 * whole numbers, may be fused. */
#if FL_N == 8
#define FL(name)          k__fl_##name##_avx2
#define FL_IN             K__IN_AVX2
#define FL_FN             K__AVX2
#define FL_F              __m256
#define FL_M              __m256
#define fl_load(p)        _mm256_load_ps(p)
#define fl_near(p)        _mm256_loadu_ps(p)
#define fl_store(p, v)    _mm256_store_ps(p, v)
#define fl_all(x)         _mm256_set1_ps(x)
#define fl_max(a, b)      _mm256_max_ps(a, b)
#define fl_min(a, b)      _mm256_min_ps(a, b)
#define fl_fma(a, b, c)   _mm256_fmadd_ps(a, b, c)
#define fl_floor(a)       _mm256_floor_ps(a)
#define fl_round(a)       _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define fl_is(a, op, b)   _mm256_cmp_ps(a, b, op)
#define fl_and(m, n)      _mm256_and_ps(m, n)
#define fl_or(m, n)       _mm256_or_ps(m, n)
#define fl_any(m)         (_mm256_movemask_ps(m) != 0)
#define fl_pick(m, a, b)  _mm256_blendv_ps(b, a, m)
#define FL_H              __m128i
#define fl_halves(a)      _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)
#define fl_of_halves(h)   _mm256_cvtph_ps(h)
#define fl_store_h(p, h)  _mm_storeu_si128((__m128i *)(void *)(p), h)
#else
#define FL(name)          k__fl_##name##_avx512
#define FL_IN             K__IN_512
#define FL_FN             K__512
#define FL_F              __m512
#define FL_M              __mmask16
#define fl_load(p)        _mm512_load_ps(p)
#define fl_near(p)        _mm512_loadu_ps(p)
#define fl_store(p, v)    _mm512_storeu_ps(p, v)
#define fl_all(x)         _mm512_set1_ps(x)
#define fl_max(a, b)      _mm512_max_ps(a, b)
#define fl_min(a, b)      _mm512_min_ps(a, b)
#define fl_fma(a, b, c)   _mm512_fmadd_ps(a, b, c)
#define fl_floor(a)       _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define fl_round(a)       _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define fl_is(a, op, b)   _mm512_cmp_ps_mask(a, b, op)
#define fl_and(m, n)      ((__mmask16)((m) & (n)))
#define fl_or(m, n)       ((__mmask16)((m) | (n)))
#define fl_any(m)         ((m) != 0)
#define fl_pick(m, a, b)  _mm512_mask_mov_ps(b, m, a)
#define FL_H              __m256i
#define fl_halves(a)      _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)
#define fl_of_halves(h)   _mm512_cvtph_ps(h)
#define fl_store_h(p, h)  _mm256_storeu_si256((__m256i *)(void *)(p), h)
#endif

/* The least of what differs: a super-block of 8 groups in 16 lanes has each of them twice. */
#define FL_TWICE(p) (FL_N > 256 / (p)->group)

typedef struct { FL_F q, qq, xq; } FL(sums);

/* 1/d where d is no zero, else 0. */
FL_IN FL_F FL(inverse)(FL_F d) {
    const FL_M some = fl_or(fl_is(d, _CMP_GT_OQ, fl_all(K_FIT_TINY)), fl_is(d, _CMP_LT_OQ, fl_all(-K_FIT_TINY)));
    return fl_pick(some, fl_all(1) / fl_pick(some, d, fl_all(1)), fl_all(0));
}

/* k__sum_codes() of four vectors of trials. x: [n][FL_N]; w: NULL where all importances are equal. off NULL: no offsets. */
FL_IN void FL(sum)(const float *x, const float *w, int n, const FL_F inv[4], const FL_F off[4], float lo, float hi,
                   FL(sums) s[4]) {
    FL_F       q[4], qq[4], xq[4];
    const FL_F least = fl_all(lo), most = fl_all(hi);
    K__UNROLL for (int i = 0; i < 4; i++) q[i] = qq[i] = xq[i] = fl_all(0);
    K__NO_UNROLL for (int j = 0; j < n; j++) {
        const FL_F xj = fl_load(x + FL_N * j);
        K__UNROLL for (int i = 0; i < 4; i++) {
            FL_F v = off ? (xj - off[i]) * inv[i] : xj * inv[i];
            v = fl_round(fl_min(fl_max(v, least), most));
            if (w) {
                const FL_F wv = v * fl_load(w + FL_N * j);
                if (off) q[i] += wv;
                qq[i] += wv * v;
                xq[i] += wv * xj;
            } else {
                if (off) q[i] += v;
                qq[i] = fl_fma(v, v, qq[i]);
                xq[i] += v * xj;
            }
        }
    }
    K__UNROLL for (int i = 0; i < 4; i++) s[i] = (FL(sums)){q[i], qq[i], xq[i]};
}

/* The four forms, each a function of its own: inlined in every search they would be 20 copies. */
FL_FN void FL(sum_line)(const float *x, const float *w, int n, const FL_F *inv, const FL_F *off, float hi, FL(sums) *s) {
    if (w) FL(sum)(x, w, n, inv, off, 0, hi, s);
    else FL(sum)(x, NULL, n, inv, off, 0, hi, s);
}

FL_FN void FL(sum_scale)(const float *x, const float *w, int n, const FL_F *inv, float lo, float hi, FL(sums) *s) {
    if (w) FL(sum)(x, w, n, inv, NULL, lo, hi, s);
    else FL(sum)(x, NULL, n, inv, NULL, lo, hi, s);
}

/* --- lines with any floats --- */

typedef struct { FL_F scale, min, gain; } FL(line);

/* k__solve_lines(). */
FL_IN FL(line) FL(solve)(const FL(sums) *s, FL_F sw, FL_F sx, float sign) {
    const FL_F tiny = fl_all(K_FIT_TINY), zero = fl_all(0), det = sw * s->qq - s->q * s->q;
    const FL_M flat = fl_is(det, _CMP_LE_OQ, fl_all(1e-6f) * sw * s->qq);
    FL_F       a = fl_pick(flat, zero, (sw * s->xq - sx * s->q) / fl_max(det, tiny)), m = (sx - a * s->q) / sw;
    const FL_M wrong = fl_is(m * fl_all(sign), _CMP_GT_OQ, zero);
    if (fl_any(wrong)) {
        a = fl_pick(wrong, fl_max(s->xq / fl_max(s->qq, tiny), zero), a);
        m = fl_pick(wrong, zero, m);
    }
    const FL_F two = fl_all(2);
    return (FL(line)){a, m, a * (two * s->xq - a * s->qq - two * m * s->q) + m * (two * sx - m * sw)};
}

/* Trials t and, where vectors have groups twice, t + 4. */
FL_IN FL_F FL(trials)(const float v[8], int t, bool twice) {
#if FL_N == 16
    if (twice) return _mm512_insertf32x8(fl_all(v[t]), _mm256_set1_ps(v[t + 4]), 1);
#endif
    (void)twice;
    return fl_all(v[t]);
}

/* The best of eight lines, as k__rough_group() takes it: a later one must be better by more than rounding. line: [8][FL_N], or
 * [4][FL_N] with trials t + 4 in the upper half. The upper half of the result has the groups again. */
typedef struct { float scale[9][FL_N], min[9][FL_N], gain[9][FL_N]; } FL(eight);

FL_IN FL_F FL(row)(const float v[9][FL_N], int t, bool twice) {
    return twice && t >= 4 ? fl_near(&v[t - 4][FL_N / 2]) : fl_load(v[t]);
}

FL_IN FL_F FL(again)(FL_F v, bool twice) {
#if FL_N == 16
    if (twice) return _mm512_insertf32x8(v, _mm512_castps512_ps256(v), 1);
#endif
    (void)twice;
    return v;
}

FL_IN FL(line) FL(best_line)(const FL(eight) *e, bool twice) {
    FL(line) best = {FL(row)(e->scale, 0, twice), FL(row)(e->min, 0, twice), FL(row)(e->gain, 0, twice)};
    for (int t = 1; t < 8; t++) {
        const FL_F gain = FL(row)(e->gain, t, twice);
        const FL_M more = fl_is(gain, _CMP_GT_OQ, best.gain * fl_all(K_FIT_TIE));
        best.gain = fl_pick(more, gain, best.gain);
        best.scale = fl_pick(more, FL(row)(e->scale, t, twice), best.scale);
        best.min = fl_pick(more, FL(row)(e->min, t, twice), best.min);
    }
    return (FL(line)){FL(again)(best.scale, twice), FL(again)(best.min, twice), FL(again)(best.gain, twice)};
}

/* k__rough_lines(). lo, hi: the range of each group. */
FL_FN void FL(lines)(const float *x, const float *w, int n, float top, float sign, int rows, FL_F sw, FL_F sx, FL_F lo, FL_F hi,
                     bool twice, FL(eight) *all) {
    static const float b[8] = {-0.9f, -0.65f, -0.4f, -0.15f, 0.1f, 0.35f, 0.6f, 0.85f};
    FL_F       inv[4], off[4];
    FL(line)   best[4], now;
    FL(sums)   s[4];
    const FL_F zero = fl_all(0);
    lo = fl_pick(fl_is(lo * fl_all(sign), _CMP_GT_OQ, zero), zero, lo);
    const FL_F range = hi - lo;
    const FL_M some = fl_is(range, _CMP_GT_OQ, zero);
    for (int t0 = 0; t0 < (twice ? 4 : 8); t0 += 4) {
        for (int i = 0; i < 4; i++)
            best[i] = (FL(line)){zero, fl_pick(some, zero, lo), fl_pick(some, zero, lo * (fl_all(2) * sx - lo * sw))};
        for (int row = 0; row < rows; row++) {
            const float a = (float)row / (float)(rows - 1) - 0.5f;
            float       end[8];
            for (int i = 0; i < 8; i++) end[i] = top + b[i] - a;
            for (int i = 0; i < 4; i++) {
                inv[i] = FL(trials)(end, t0 + i, twice) / range;
                off[i] = lo - fl_all(a) / inv[i];
            }
            FL(sum_line)(x, w, n, inv, off, top, s);
            for (int i = 0; i < 4; i++) {
                now = FL(solve)(&s[i], sw, sx, sign);
                inv[i] = FL(inverse)(now.scale), off[i] = now.min;
            }
            FL(sum_line)(x, w, n, inv, off, top, s);
            for (int i = 0; i < 4; i++) {
                now = FL(solve)(&s[i], sw, sx, sign);
                const FL_M more = fl_and(some, fl_is(now.gain, _CMP_GT_OQ, best[i].gain * fl_all(K_FIT_TIE)));
                best[i].gain = fl_pick(more, now.gain, best[i].gain);
                best[i].scale = fl_pick(more, now.scale, best[i].scale);
                best[i].min = fl_pick(more, now.min, best[i].min);
            }
        }
        for (int i = 0; i < 4; i++) {
            fl_store(all->scale[t0 + i], best[i].scale);
            fl_store(all->min[t0 + i], best[i].min);
            fl_store(all->gain[t0 + i], best[i].gain);
        }
    }
}

/* k__rough_scales(). ext: the extreme value of each group. */
FL_FN void FL(scales)(const float *x, const float *w, int n, float lo, float hi, int rounds, FL_F ext, FL(eight) *all) {
    FL_F       inv[4], scale[4], gain[4];
    FL(sums)   s[4];
    for (int t0 = 0; t0 < 8; t0 += 4) {
        for (int i = 0; i < 4; i++) scale[i] = gain[i] = fl_all(0);
        for (int row = 0; row < rounds; row++) {
            k__v8 end;
            k__try_scales(lo < 0 ? lo : hi, hi, 1, (float)row / (float)rounds, &end);
            for (int i = 0; i < 4; i++) inv[i] = fl_all(end.f[t0 + i]) / ext;
            FL(sum_scale)(x, w, n, inv, lo, hi, s);
            for (int i = 0; i < 4; i++) {
                const FL_F d = s[i].xq / fl_max(s[i].qq, fl_all(K_FIT_TINY)), g = d * s[i].xq;
                const FL_M more = fl_is(g, _CMP_GT_OQ, gain[i] * fl_all(K_FIT_TIE));
                gain[i] = fl_pick(more, g, gain[i]);
                scale[i] = fl_pick(more, d, scale[i]);
            }
        }
        for (int i = 0; i < 4; i++) {
            fl_store(all->scale[t0 + i], scale[i]);
            fl_store(all->min[t0 + i], fl_all(0));
            fl_store(all->gain[t0 + i], gain[i]);
        }
    }
}

/* k__line_error(). */
FL_FN FL_F FL(error)(const float *x, const float *w, int n, float lo, float hi, FL_F scale, FL_F min) {
    const FL_F inv = FL(inverse)(scale), least = fl_all(lo), most = fl_all(hi);
    FL_F       e = fl_all(0);
    for (int j = 0; j < n; j++) {
        const FL_F v = fl_load(x + FL_N * j) - min, q = fl_round(fl_min(fl_max(v * inv, least), most));
        const FL_F off = v - scale * q;
        e += w ? off * off * fl_load(w + FL_N * j) : off * off;
    }
    return e;
}

/* Four values each of four groups, which begin at from[i]: value j of group i goes to to[j * FL_N + i]. */
FL_IN void FL(turn)(const float *const from[4], float *to) {
    __m128 a = _mm_loadu_ps(from[0]), b = _mm_loadu_ps(from[1]), c = _mm_loadu_ps(from[2]), d = _mm_loadu_ps(from[3]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_store_ps(to, a);
    _mm_store_ps(to + FL_N, b);
    _mm_store_ps(to + 2 * FL_N, c);
    _mm_store_ps(to + 3 * FL_N, d);
}

/* Values or importances of the super-block as [pass][j][lane]. */
FL_IN void FL(spread)(const k__super *p, const float *from, float *to) {
    const int n = p->group, lanes = FL_TWICE(p) ? FL_N / 2 : FL_N;
    for (int g = 0; g < 256 / n; g += 4)
        for (int j = 0; j < n; j += 4) {
            const float *at = from + g * n + j, *const four[4] = {at, at + n, at + 2 * n, at + 3 * n};
            FL(turn)(four, to + g / lanes * n * FL_N + j * FL_N + g % lanes);
        }
    for (int j = 0; j < n && FL_TWICE(p); j++) fl_store(to + j * FL_N, FL(again)(fl_load(to + j * FL_N), true));
}

/* What k__group_load() and k__fit_extremes() find of the values that matter and of all: their range if there is a minimum, else
 * the extreme value; and sums of w and of w*x. */
typedef struct { FL_F lo[2], hi[2], ext[2], sw, sx; } FL(range);

/* Of values without importances, which all matter. */
FL_FN void FL(range_even)(const float *x, int n, bool min, FL(range) *r) {
    FL_F lo = fl_all(FLT_MAX), hi = -lo, ext = fl_all(0), top = ext, sx = ext;
    for (int j = 0; j < n && min; j++) {
        const FL_F xj = fl_load(x + FL_N * j);
        sx += xj;
        lo = fl_min(xj, lo);
        hi = fl_max(xj, hi);
    }
    for (int j = 0; j < n && !min; j++) {
        const FL_F xj = fl_load(x + FL_N * j), size = fl_max(xj, -xj);
        sx += xj;
        ext = fl_pick(fl_is(size, _CMP_GT_OQ, top), xj, ext);
        top = fl_max(size, top);
    }
    for (int i = 0; i < 2; i++) r->lo[i] = lo, r->hi[i] = hi, r->ext[i] = ext;
    r->sw = fl_all((float)n);
    r->sx = sx;
}

FL_FN void FL(range_of)(const float *x, const float *w, int n, FL(range) *r) {
    FL_F sum = fl_all(0), sx = sum, top[2] = {sum, sum};
    for (int i = 0; i < 2; i++) r->lo[i] = fl_all(FLT_MAX), r->hi[i] = fl_all(-FLT_MAX), r->ext[i] = fl_all(0);
    for (int j = 0; j < n; j++) sum += fl_load(w + FL_N * j);
    const FL_F least = sum * fl_all(1e-3f) / fl_all((float)n);
    for (int j = 0; j < n; j++) {
        const FL_F xj = fl_load(x + FL_N * j), wj = fl_load(w + FL_N * j), size = fl_max(xj, -xj);
        const FL_M matters = fl_is(wj, _CMP_GT_OQ, least);
        sx += wj * xj;
        r->lo[1] = fl_min(xj, r->lo[1]);
        r->hi[1] = fl_max(xj, r->hi[1]);
        r->lo[0] = fl_pick(matters, fl_min(xj, r->lo[0]), r->lo[0]);
        r->hi[0] = fl_pick(matters, fl_max(xj, r->hi[0]), r->hi[0]);
        r->ext[1] = fl_pick(fl_is(size, _CMP_GT_OQ, top[1]), xj, r->ext[1]);
        top[1] = fl_max(size, top[1]);
        const FL_M more = fl_and(matters, fl_is(size, _CMP_GT_OQ, top[0]));
        r->ext[0] = fl_pick(more, xj, r->ext[0]);
        top[0] = fl_pick(more, size, top[0]);
    }
    r->ext[0] = fl_pick(fl_is(r->ext[0], _CMP_EQ_OQ, fl_all(0)), r->ext[1], r->ext[0]);
    r->sw = sum;
    r->sx = sx;
}

/* Whether a search has to try more than one of them. */
FL_IN bool FL(two_ends)(const FL(range) *r, bool min) {
    return min ? fl_any(fl_or(fl_is(r->lo[0], _CMP_NEQ_UQ, r->lo[1]), fl_is(r->hi[0], _CMP_NEQ_UQ, r->hi[1])))
               : fl_any(fl_is(r->ext[0], _CMP_NEQ_UQ, r->ext[1]));
}

/* k__fit_rough_ref(). */
FL_FN void FL(rough_groups)(k__search *k, k__slopes *u, float *weight) {
    const k__super *p = k->p;
    const int       n = p->group;
    const bool      twice = FL_TWICE(p);
    FL(spread)(p, k->b->x, k->x);
    if (!k->b->even) FL(spread)(p, k->b->w, k->w);
    for (int g = 0; g < 256 / n; g += FL_N) {
        const float *x = k->x + n * g, *w = k->b->even ? NULL : k->w + n * g;
        FL(range)    r;
        if (w) FL(range_of)(x, w, n, &r);
        else FL(range_even)(x, n, p->min, &r);
        const FL_F sum = r.sw, sx = r.sx;
        const FL_M any = p->min ? fl_is(sum, _CMP_EQ_OQ, sum) : fl_is(r.ext[1], _CMP_NEQ_UQ, fl_all(0));
        FL_F       s = fl_all(0), m = s, c = s, share = p->min ? sum : s, low = fl_all(FLT_MAX);
        for (int i = 0; i < 1 + FL(two_ends)(&r, p->min); i++) {
            FL(eight) all __attribute__((aligned(64)));
            if (p->min) FL(lines)(x, w, n, p->hi, k->sign, 3, sum, sx, r.lo[i], r.hi[i], twice, &all);
            else FL(scales)(x, w, n, p->lo, p->hi, 2, r.ext[i], &all);
            const FL(line) line = FL(best_line)(&all, p->min && twice);
            const FL_F error = FL(error)(x, w, n, p->lo, p->hi, line.scale, line.min), inv = FL(inverse)(line.scale);
            const FL_M less = fl_and(any, fl_is(error, _CMP_NGE_UQ, low));
            low = fl_pick(less, error, low);
            s = fl_pick(less, line.scale, s);
            m = fl_pick(less, line.min, m);
            c = fl_pick(less, (sx / sum - line.min) * inv, c);
            if (!p->min) share = fl_pick(less, line.gain * inv * inv, share);
        }
        fl_store(k->sw + g, sum);
        fl_store(k->sx + g, sx);
        fl_store(u->s + g, s);
        fl_store(u->m + g, m);
        fl_store(u->c + g, c);
        fl_store(weight + g, share);
    }
}

/* --- integers near the lines --- */

typedef struct { FL_F gain, trial, sc, mn; FL(sums) sum; } FL(place);

/* Takes the trial where its gain is larger, or as large and its number lower: so k__best_place() chooses. */
FL_IN void FL(keep)(FL(place) *best, FL_F gain, FL_F trial, FL_F sc, FL_F mn, const FL(sums) *s) {
    const FL_M more = fl_or(fl_is(gain, _CMP_GT_OQ, best->gain),
                            fl_and(fl_is(gain, _CMP_EQ_OQ, best->gain), fl_is(trial, _CMP_LT_OQ, best->trial)));
    best->gain = fl_pick(more, gain, best->gain);
    best->trial = fl_pick(more, trial, best->trial);
    best->sc = fl_pick(more, sc, best->sc);
    best->mn = fl_pick(more, mn, best->mn);
    best->sum.q = fl_pick(more, s->q, best->sum.q);
    best->sum.qq = fl_pick(more, s->qq, best->sum.qq);
    best->sum.xq = fl_pick(more, s->xq, best->sum.xq);
}

/* The lines of the groups of a pass for one choice of scales. */
typedef struct { FL_F s, m, c; } FL(slope);

/* k__place_scale() for n choices. Their steps stand side by side, so that the waits of one are filled by the other. */
FL_IN void FL(place_scales)(const k__search *k, const int n, const float *x, const float *w, k__settled *const *of,
                            const FL(slope) *u, int batches, FL(place) *best) {
    const k__super *p = k->p;
    const FL_F      zero = fl_all(0);
    FL_F            mid[2], inv[2][4], step[2][4], sc[2][4];
    FL(sums)        sum[2][4];
    K__UNROLL for (int o = 0; o < n; o++) mid[o] = fl_floor(u[o].s * fl_all(k__fit_inverse(of[o]->d)));
    for (int t = 0; t < (batches > 1 ? 2 * batches : 1); t++)
        for (int h = 0; h < 2; h++) {
            K__UNROLL for (int o = 0; o < n; o++)
                K__UNROLL for (int i = 0; i < 4; i++) {
                    const FL_F at = (t < batches ? mid[o] : -mid[o]) + fl_all(k__around[t % batches * 2 + h][i]);
                    sc[o][i] = fl_min(fl_max(at, fl_all(p->sc_lo)), fl_all(p->sc_hi));
                    step[o][i] = fl_all(of[o]->d) * sc[o][i];
                    inv[o][i] = FL(inverse)(step[o][i]);
                }
            K__UNROLL for (int o = 0; o < n; o++) FL(sum_scale)(x, w, p->group, inv[o], p->lo, p->hi, sum[o]);
            K__UNROLL for (int o = 0; o < n; o++)
                K__UNROLL for (int i = 0; i < 4; i++)
                    FL(keep)(&best[o], step[o][i] * (fl_all(2) * sum[o][i].xq - step[o][i] * sum[o][i].qq),
                             fl_all((float)(4 * h + i)), sc[o][i], zero, &sum[o][i]);
        }
}

/* k__place_line() for n choices. */
FL_IN void FL(place_lines)(const k__search *k, const int n, const float *x, const float *w, k__settled *const *of, FL_F sw,
                           FL_F sx, const FL(slope) *u, int batches, int minima, FL(place) *best) {
    const k__super *p = k->p;
    const bool      twice = FL_TWICE(p);
    const FL_F      zero = fl_all(0), most = fl_all(p->sc_hi), two = fl_all(2);
    FL_F            mid[2], step[2], at[2], inv[2][4], min[2][4], mn[2][4];
    FL(sums)        sum[2][4];
    K__UNROLL for (int o = 0; o < n; o++) mid[o] = fl_floor(u[o].s * fl_all(k__fit_inverse(of[o]->d)));
    for (int t = 0; t < batches; t++)
        for (int h = 0; h < (twice ? 1 : 2); h++) {
            float to[8] = {0};
            for (int half = 0; half < 2; half++) {
                const int i = minima == 8 ? t : 2 * t + half;
                to[4 * half] = k__around[i / 4][i % 4];
            }
            K__UNROLL for (int o = 0; o < n; o++) {
                at[o] = fl_min(fl_max(mid[o] + FL(trials)(to, 4 * h, twice), zero), most);
                step[o] = fl_all(of[o]->d) * at[o];
                const FL_F low = fl_floor((u[o].c * (step[o] - u[o].s) - u[o].m) * fl_all(k__fit_inverse(of[o]->dm))),
                           each = FL(inverse)(step[o]);
                K__UNROLL for (int i = 0; i < 4; i++) {
                    const FL_F near = minima == 8 ? FL(trials)((const float *)k__around, 4 * h + i, twice)
                                                  : fl_all(k__around[0][i]);
                    mn[o][i] = fl_min(fl_max(low + near, zero), most);
                    min[o][i] = fl_all(-of[o]->dm) * mn[o][i];
                    inv[o][i] = each;
                }
            }
            K__UNROLL for (int o = 0; o < n; o++) FL(sum_line)(x, w, p->group, inv[o], min[o], p->hi, sum[o]);
            K__UNROLL for (int o = 0; o < n; o++)
                K__UNROLL for (int i = 0; i < 4; i++) {
                    const FL(sums) *v = &sum[o][i];
                    const FL_F gain = step[o] * (two * v->xq - step[o] * v->qq - two * min[o][i] * v->q) +
                                      min[o][i] * (two * sx - min[o][i] * sw);
                    FL(keep)(&best[o], gain, fl_all((float)(4 * h + i)), at[o], mn[o][i], v);
                }
        }
#if FL_N == 16
    K__UNROLL for (int o = 0; twice && o < n; o++) {      /* trials of the lower half come first */
        FL(place) other = best[o];
        FL_F     *v = (FL_F *)(void *)&other, *b = (FL_F *)(void *)&best[o];
        K__UNROLL for (size_t i = 0; i < sizeof other / sizeof *v; i++) v[i] = _mm512_shuffle_f32x4(v[i], v[i], 0x4e);
        const FL_M more = (FL_M)((fl_is(other.gain, _CMP_GT_OQ, best[o].gain) & 0xff) |
                                 (fl_is(other.gain, _CMP_GE_OQ, best[o].gain) & 0xff00));
        K__UNROLL for (size_t i = 0; i < sizeof other / sizeof *v; i++) b[i] = fl_pick(more, v[i], b[i]);
    }
#endif
}

/* k__refit_line(), or the scale of least error. */
FL_IN void FL(refit)(const k__search *k, const FL(sums) *b, FL_F sw, FL_F sx, FL(slope) *u) {
    const FL_F zero = fl_all(0);
    if (!k->p->min) {
        u->s = fl_pick(fl_is(b->qq, _CMP_GT_OQ, zero), b->xq / b->qq, u->s);
        return;
    }
    const FL_F det = sw * b->qq - b->q * b->q;
    const FL_M fits = fl_is(det, _CMP_NLE_UQ, fl_all(1e-6f) * sw * b->qq);
    FL_F       s1 = (sw * b->xq - sx * b->q) / det, m1 = (sx - s1 * b->q) / sw;
    const FL_M wrong = fl_is(m1 * fl_all(k->sign), _CMP_GT_OQ, zero);
    m1 = fl_pick(wrong, zero, m1);
    if (fl_any(wrong)) s1 = fl_pick(wrong, b->xq / b->qq, s1);
    s1 = fl_pick(fl_is(s1, _CMP_LT_OQ, zero), zero, s1);
    u->s = fl_pick(fits, s1, u->s);
    u->m = fl_pick(fits, m1, u->m);
    u->c = fl_pick(fits, b->q / sw, u->c);
}

FL_IN void FL(place_all)(const k__search *k, const int n, int batches, int minima, k__settled *const *of) {
    const k__super *p = k->p;
    for (int g = 0; g < 256 / p->group; g += FL_N) {
        const float *x = k->x + p->group * g, *w = k->b->even ? NULL : k->w + p->group * g;
        const FL_F   sw = fl_load(k->sw + g), sx = fl_load(k->sx + g), zero = fl_all(0);
        FL(slope)    u[2];
        FL(place)    best[2];
        K__UNROLL for (int o = 0; o < n; o++) {
            u[o] = (FL(slope)){fl_load(of[o]->u.s + g), fl_load(of[o]->u.m + g), fl_load(of[o]->u.c + g)};
            best[o] = (FL(place)){fl_all(-INFINITY), fl_all(8), zero, zero, {zero, zero, zero}};
        }
        if (p->min) FL(place_lines)(k, n, x, w, of, sw, sx, u, batches, minima, best);
        else FL(place_scales)(k, n, x, w, of, u, batches, best);
        K__UNROLL for (int o = 0; o < n; o++) FL(refit)(k, &best[o].sum, sw, sx, &u[o]);
        K__UNROLL for (int o = 0; o < n; o++) {
            fl_store(of[o]->u.s + g, u[o].s);
            fl_store(of[o]->u.m + g, u[o].m);
            fl_store(of[o]->u.c + g, u[o].c);
            fl_store(of[o]->at.gain + g, best[o].gain);
            fl_store(of[o]->at.sc + g, best[o].sc);
            fl_store(of[o]->at.mn + g, best[o].mn);
            fl_store(of[o]->at.q + g, best[o].sum.q);
            fl_store(of[o]->at.qq + g, best[o].sum.qq);
            fl_store(of[o]->at.xq + g, best[o].sum.xq);
        }
    }
}

/* k__fit_place_ref(). */
FL_FN void FL(place_groups)(const k__search *k, int n, int batches, int minima, k__settled *const *of) {
    if (n == 2) FL(place_all)(k, 2, batches, minima, of);
    else FL(place_all)(k, 1, batches, minima, of);
}

/* --- scales of all groups: a lane is one of eight trials, in 16 lanes of both problems --- */

/* Value j of the problem that a lane is of. */
FL_IN FL_F FL(of_both)(const float v[2][16], int j, int only) {
#if FL_N == 16
    (void)only;
    return _mm512_insertf32x8(fl_all(v[0][j]), _mm256_set1_ps(v[1][j]), 1);
#else
    return fl_all(v[only][j]);
#endif
}

/* k__sum_codes() and, of the scales d, k__sum_errors(), of all lanes. */
FL_IN void FL(common_sums)(const float v[2][16], const float *weight, int n, int only, FL_F inv, FL_F lo, FL_F hi, FL_F *qq,
                           FL_F *xq) {
    *qq = *xq = fl_all(0);
    for (int j = 0; j < n; j++) {
        const FL_F x = FL(of_both)(v, j, only), q = fl_round(fl_min(fl_max(x * inv, lo), hi)), wq = q * fl_all(weight[j]);
        *qq += wq * q;
        *xq += wq * x;
    }
}

FL_IN FL_F FL(common_error)(const float v[2][16], const float *weight, int n, int only, FL_F d, FL_F lo, FL_F hi) {
    const FL_F inv = FL(inverse)(d);
    FL_F       e = fl_all(0);
    for (int j = 0; j < n; j++) {
        const FL_F x = FL(of_both)(v, j, only), off = x - fl_round(fl_min(fl_max(x * inv, lo), hi)) * d;
        e += off * off * fl_all(weight[j]);
    }
    return e;
}

/* Keeps the scales with smaller errors, of each problem those of its eight lanes in order. */
FL_IN void FL(common_keep)(FL_F error, FL_F scale, int only, float least[2], float out[2]) {
    float e[FL_N] __attribute__((aligned(64))), s[FL_N] __attribute__((aligned(64)));
    fl_store(e, error);
    fl_store(s, scale);
    for (int l = 0; l < FL_N; l++) {
        const int i = FL_N == 16 ? l / 8 : only;
        if (e[l] < least[i]) least[i] = e[l], out[i] = s[l];
    }
}

/* k__fit_common_ref(). */
FL_FN void FL(common)(const k__super *p, const float v[2][16], const float *weight, const float ext[2][2], float out[2]) {
    const float end[2][16] = {{p->sc_lo}, {0}}, top[2][16] = {{p->sc_hi}, {p->sc_hi}};
    const int   n = 256 / p->group, both = 1 + p->min;
    float       least[2] = {FLT_MAX, FLT_MAX};
    bool        two = false;
    out[0] = out[1] = 0;
    for (int i = 0; i < both; i++) two = two || ext[i][0] != ext[i][1];
    for (int only = 0; only < (FL_N == 16 ? 1 : both); only++)
        for (int i = 0; i < 1 + two; i++) {
            const float at[2][16] = {{ext[0][i]}, {ext[1][i]}};
            const FL_F  lo = FL(of_both)(end, 0, only), hi = FL(of_both)(top, 0, only), peak = FL(of_both)(at, 0, only);
            FL_F        scale = fl_all(0), gain = scale, qq, xq;
            for (int row = 0; row < K_FIT_COMMON; row++) {
                k__v8 far[2];
                float trial[16];
                for (int o = 0; o < 2; o++)
                    k__try_scales(end[o][0] < 0 ? end[o][0] : p->sc_hi, p->sc_hi, 1, (float)row / (float)K_FIT_COMMON, &far[o]);
                for (int l = 0; l < 8; l++) trial[l] = far[FL_N == 16 ? 0 : only].f[l], trial[8 + l] = far[1].f[l];
                FL(common_sums)(v, weight, n, only, fl_near(trial) / peak, lo, hi, &qq, &xq);
                const FL_F d = xq / fl_max(qq, fl_all(K_FIT_TINY)), g = d * xq;
                const FL_M more = fl_is(g, _CMP_GT_OQ, gain * fl_all(K_FIT_TIE));
                gain = fl_pick(more, g, gain);
                scale = fl_pick(more, d, scale);
            }
            FL(common_keep)(FL(common_error)(v, weight, n, only, scale, lo, hi), scale, only, least, out);
            FL(common_sums)(v, weight, n, only, FL(inverse)(scale), lo, hi, &qq, &xq);
            scale = xq / fl_max(qq, fl_all(K_FIT_TINY));
            FL(common_keep)(FL(common_error)(v, weight, n, only, scale, lo, hi), scale, only, least, out);
        }
    for (int i = 0; i < both; i++)
        if (ext[i][1] == 0) out[i] = 0;
}

/* --- plain blocks of 32, FL_N at a time --- */

typedef struct {
    float  x[32 * FL_N], w[32 * FL_N];                   /* [j][lane] as k__scaled has them */
    float  up[FL_N], down[FL_N];
    bool   even;                                         /* all importances are 1 */
    bool   live[FL_N];                                   /* not all weights are too small */
} __attribute__((aligned(64))) FL(blocks);

/* k__scaled_load() of n blocks. The lanes behind them have the last one again. */
FL_FN void FL(load)(const float *x, const float *w, int n, FL(blocks) *b) {
    FL_F top = fl_all(0), most = top;
    for (int l = 0; l < FL_N; l += 4)
        for (int j = 0; j < 32; j += 4) {
            const float *four[4];
            for (int i = 0; i < 4; i++) four[i] = x + 32 * (l + i < n ? l + i : n - 1) + j;
            FL(turn)(four, b->x + j * FL_N + l);
            for (int i = 0; w && i < 4; i++) four[i] = w + (four[i] - x);
            if (w) FL(turn)(four, b->w + j * FL_N + l);
        }
    for (int j = 0; j < 32; j++) {
        const FL_F v = fl_load(b->x + FL_N * j);
        top = fl_max(fl_max(v, -v), top);
        if (w) most = fl_max(fl_load(b->w + FL_N * j), most);
    }
    fl_store(b->up, top);
    for (int l = 0; l < FL_N; l++) {
        int e = (int)(k__bits_of(b->up[l]) >> 23) - 127;
        if (e > 126) e = 126;                            /* 2^-127 is a denormal */
        b->live[l] = !(b->up[l] < 0x1p-25f);
        b->up[l] = b->live[l] ? k__f32_of((uint32_t)(e + 127) << 23) : 0;
        b->down[l] = b->live[l] ? k__f32_of((uint32_t)(127 - e) << 23) : 0;
    }
    const FL_F down = fl_load(b->down);
    for (int j = 0; j < 32; j++) fl_store(b->x + FL_N * j, fl_load(b->x + FL_N * j) * down);
    b->even = !w;
    if (!w) return;
    const FL_M some = fl_is(most, _CMP_GT_OQ, fl_all(K_FIT_TINY));
    const FL_F share = fl_all(1) / fl_pick(some, most, fl_all(1));
    for (int j = 0; j < 32; j++)
        fl_store(b->w + FL_N * j, fl_pick(some, fl_load(b->w + FL_N * j) * share + fl_all(1e-9f), fl_all(1)));
}

/* The finite f16 nearest to scales of the scaled blocks; *value: what they are there. */
FL_IN FL_H FL(half)(const FL(blocks) *b, FL_F d, FL_F *value) {
    const FL_H h = fl_halves(fl_max(fl_min(d * fl_load(b->up), fl_all(65504)), fl_all(-65504)));
    *value = fl_of_halves(h) * fl_load(b->down);
    return h;
}

/* k__sum_errors() of four vectors of trials. off NULL: no offsets. */
FL_IN void FL(sum_error)(const float *x, const float *w, const FL_F d[4], const FL_F off[4], float lo, float hi, FL_F err[4]) {
    FL_F       inv[4], e[4];
    const FL_F least = fl_all(lo), most = fl_all(hi);
    K__UNROLL for (int i = 0; i < 4; i++) inv[i] = FL(inverse)(d[i]), e[i] = fl_all(0);
    K__NO_UNROLL for (int j = 0; j < 32; j++) {
        const FL_F xj = fl_load(x + FL_N * j);
        K__UNROLL for (int i = 0; i < 4; i++) {
            FL_F v = xj;
            if (off) v -= off[i];
            v = v - fl_round(fl_min(fl_max(v * inv[i], least), most)) * d[i];
            e[i] += w ? v * v * fl_load(w + FL_N * j) : v * v;
        }
    }
    K__UNROLL for (int i = 0; i < 4; i++) err[i] = e[i];
}

FL_FN void FL(error_line)(const float *x, const float *w, const FL_F *d, const FL_F *off, float hi, FL_F *e) {
    if (w) FL(sum_error)(x, w, d, off, 0, hi, e);
    else FL(sum_error)(x, NULL, d, off, 0, hi, e);
}

FL_FN void FL(error_scale)(const float *x, const float *w, const FL_F *d, float lo, float hi, FL_F *e) {
    if (w) FL(sum_error)(x, w, d, NULL, lo, hi, e);
    else FL(sum_error)(x, NULL, d, NULL, lo, hi, e);
}

/* What a search keeps of each block. */
typedef struct { FL_F least, d, m; } FL(kept);

/* Rounds eight lines to f16 and keeps those with a smaller error. */
FL_FN void FL(keep_lines)(const FL(blocks) *b, bool min, float lo, float hi, FL(eight) *all, FL(kept) *best) {
    const float *w = b->even ? NULL : b->w;
    for (int t = 0; t < 8; t += 4) {
        FL_F d[4], m[4], e[4];
        for (int i = 0; i < 4; i++) {
            FL(half)(b, fl_load(all->scale[t + i]), &d[i]);
            FL(half)(b, fl_load(all->min[t + i]), &m[i]);
            fl_store(all->scale[t + i], d[i]);
            fl_store(all->min[t + i], m[i]);
        }
        if (min) FL(error_line)(b->x, w, d, m, hi, e);
        else FL(error_scale)(b->x, w, d, lo, hi, e);
        for (int i = 0; i < 4; i++) {
            const FL_M less = fl_is(e[i], _CMP_LT_OQ, best->least);
            best->least = fl_pick(less, e[i], best->least);
            best->d = fl_pick(less, d[i], best->d);
            best->m = fl_pick(less, m[i], best->m);
        }
    }
}

/* The lines of least error for the codes of eight lines. */
FL_FN void FL(solve_again)(const FL(blocks) *b, bool min, float lo, float hi, FL_F sw, FL_F sx, FL(eight) *all) {
    const float *w = b->even ? NULL : b->w;
    for (int t = 0; t < 8; t += 4) {
        FL_F     inv[4], off[4];
        FL(sums) s[4];
        for (int i = 0; i < 4; i++) inv[i] = FL(inverse)(fl_load(all->scale[t + i])), off[i] = fl_load(all->min[t + i]);
        if (min) FL(sum_line)(b->x, w, 32, inv, off, hi, s);
        else FL(sum_scale)(b->x, w, 32, inv, lo, hi, s);
        for (int i = 0; i < 4; i++) {
            const FL(line) line = min ? FL(solve)(&s[i], sw, sx, 0)
                                      : (FL(line)){s[i].xq / fl_max(s[i].qq, fl_all(K_FIT_TINY)), fl_all(0), fl_all(0)};
            fl_store(all->scale[t + i], line.scale);
            fl_store(all->min[t + i], line.min);
        }
    }
}

/* k__fit_codes() of 32 weights that are not scaled. */
FL_IN void FL(codes)(const float *x, float down, float d, float off, float lo, float hi, int8_t *q) {
    const FL_F inv = fl_all(k__fit_inverse(d)), by = fl_all(down), sub = fl_all(off), least = fl_all(lo), most = fl_all(hi);
#if FL_N == 16
    for (int j = 0; j < 32; j += 16) {
        const FL_F v = fl_min(fl_max((fl_near(x + j) * by - sub) * inv, least), most);
        _mm_storeu_si128((__m128i *)(void *)(q + j), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
    }
#else
    __m256i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_cvtps_epi32(fl_min(fl_max((fl_near(x + 8 * i) * by - sub) * inv, least), most));
    const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    _mm256_storeu_si256((__m256i *)(void *)q, _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
#endif
}

/* The f16 scales and minima that were kept, and the codes with them. d, m: [n]. */
FL_FN void FL(put)(const float *x, int n, const FL(blocks) *b, const FL(kept) *best, float lo, float hi, uint16_t *d, uint16_t *m,
                   int8_t *q) {
    float    at[FL_N] __attribute__((aligned(64))), off[FL_N] __attribute__((aligned(64)));
    uint16_t h[2][FL_N];
    FL_F     none;
    fl_store(at, best->d);
    fl_store(off, best->m);
    fl_store_h(h[0], FL(half)(b, best->d, &none));
    fl_store_h(h[1], FL(half)(b, best->m, &none));
    for (int l = 0; l < n; l++) {
        d[l] = b->live[l] ? h[0][l] : 0;
        m[l] = b->live[l] ? h[1][l] : 0;
        if (b->live[l]) FL(codes)(x + 32 * l, b->down[l], at[l], off[l], lo, hi, q + 32 * l);
        else memset(q + 32 * l, 0, 32);
    }
}

/* k__fit_plain_ref(). */
FL_FN void FL(plain)(const k__plain *p, const float *x, const float *w, int n, uint16_t *d, uint16_t *m, int8_t *q) {
    FL(blocks) b;
    FL(eight)  all __attribute__((aligned(64)));
    for (int at = 0; at < n; at += FL_N) {
        FL(range) r;
        FL(load)(x + 32 * at, w ? w + 32 * at : NULL, n - at, &b);
        const float *own = b.even ? NULL : b.w;
        if (own) FL(range_of)(b.x, own, 32, &r);
        else FL(range_even)(b.x, 32, p->min, &r);
        FL(kept) best = {fl_all(FLT_MAX), fl_all(0), fl_all(0)};
        for (int i = 0; i < 1 + FL(two_ends)(&r, p->min); i++) {
            if (p->min) FL(lines)(b.x, own, 32, p->hi, 0, p->rounds, r.sw, r.sx, r.lo[i], r.hi[i], false, &all);
            else FL(scales)(b.x, own, 32, p->lo, p->hi, p->rounds, r.ext[i], &all);
            for (int t = 0; t < 8 && p->min; t++) {
                const FL_M worse = fl_is(fl_load(all.gain[t]), _CMP_LE_OQ, fl_all(0));
                fl_store(all.min[t], fl_pick(worse, r.sx / r.sw, fl_load(all.min[t])));
            }
            FL(keep_lines)(&b, p->min, p->lo, p->hi, &all, &best);
            FL(solve_again)(&b, p->min, p->lo, p->hi, r.sw, r.sx, &all);
            FL(keep_lines)(&b, p->min, p->lo, p->hi, &all, &best);
        }
        FL(put)(x + 32 * at, n - at < FL_N ? n - at : FL_N, &b, &best, p->lo, p->hi, d + at, m + at, q + 32 * at);
    }
}

/* --- IQ4: a lane is a group of 32 --- */

/* k__fg_near_iq4(). No step of the table is nearer than half to an end of the pieces of 8 that index it, so that the index may be
 * rounded. */
#if FL_N == 16
typedef struct { __m512 at[2], below[2], above[2]; } FL(iq4_table);

FL_IN void FL(iq4_open)(FL(iq4_table) *t) {
    float at[32], below[32], above[32];
    for (int i = 0, k = 0; i < 32; i++) {                /* from -132 + 8 i on */
        const float mid = k < 15 ? ((float)k__iq4_values[k] + (float)k__iq4_values[k + 1]) * 0.5f : INFINITY;
        const bool  here = mid < (float)(8 * i - 124);
        at[i] = here ? mid : INFINITY;
        below[i] = k__iq4_values[k];
        if (here) k++;
        above[i] = k__iq4_values[k];
    }
    for (int h = 0; h < 2; h++) {
        t->at[h] = fl_near(at + 16 * h);
        t->below[h] = fl_near(below + 16 * h);
        t->above[h] = fl_near(above + 16 * h);
    }
}

FL_IN FL_F FL(iq4_near)(const FL(iq4_table) *t, FL_F v) {
    const FL_F    in = fl_min(fl_max(v, fl_all(-130)), fl_all(114));
    const __m512i i = _mm512_cvttps_epi32(fl_fma(in, fl_all(0.125f), fl_all(16.5f)));
    const FL_F    high = _mm512_permutex2var_ps(t->above[0], i, t->above[1]);
    return fl_pick(fl_is(v, _CMP_GT_OQ, _mm512_permutex2var_ps(t->at[0], i, t->at[1])), high,
                   _mm512_permutex2var_ps(t->below[0], i, t->below[1]));
}
#else
typedef struct { __m256 last, third, low, high; float mid[15]; } FL(iq4_table);

FL_IN void FL(iq4_open)(FL(iq4_table) *t) {
    float at[8], low[8], high[8];
    for (int k = 0; k < 15; k++) t->mid[k] = ((float)k__iq4_values[k] + (float)k__iq4_values[k + 1]) * 0.5f;
    for (int k = 0; k < 8; k++) at[k] = t->mid[2 * k], low[k] = k__iq4_values[k], high[k] = k__iq4_values[8 + k];
    t->last = fl_near(at), t->low = fl_near(low), t->high = fl_near(high);
    t->third = _mm256_setr_ps(t->mid[1], t->mid[5], t->mid[9], t->mid[13], 0, 0, 0, 0);
}

/* The number of steps below v by halves, from the bits of four comparisons. */
FL_IN FL_F FL(iq4_near)(const FL(iq4_table) *t, FL_F v) {
    const FL_F one = fl_is(v, _CMP_GT_OQ, fl_all(t->mid[7]));
    const FL_F two = fl_is(v, _CMP_GT_OQ, fl_pick(one, fl_all(t->mid[11]), fl_all(t->mid[3])));
    __m256i    i = _mm256_add_epi32(_mm256_castps_si256(one), _mm256_castps_si256(one));     /* minus the number so far */
    i = _mm256_add_epi32(i, _mm256_castps_si256(two));
    __m256i    at = _mm256_sub_epi32(_mm256_setzero_si256(), i);
    const FL_F three = fl_is(v, _CMP_GT_OQ, _mm256_permutevar8x32_ps(t->third, at));
    at = _mm256_sub_epi32(_mm256_add_epi32(at, at), _mm256_castps_si256(three));
    const FL_F four = fl_is(v, _CMP_GT_OQ, _mm256_permutevar8x32_ps(t->last, at));
    at = _mm256_sub_epi32(_mm256_add_epi32(at, at), _mm256_castps_si256(four));
    return fl_pick(one, _mm256_permutevar8x32_ps(t->high, at), _mm256_permutevar8x32_ps(t->low, at));
}
#endif

/* k__fg_try(), whose sums are four of every fourth value, of n trials. w NULL: all importances are 1. */
FL_IN void FL(iq4_sums)(const FL(iq4_table) *t, const float *x, const float *w, const int n, const FL_F *inv, FL_F *b, FL_F *c) {
    FL_F sb[4][2], sc[4][2];
    K__UNROLL for (int k = 0; k < 4; k++)
        K__UNROLL for (int i = 0; i < n; i++) sb[k][i] = sc[k][i] = fl_all(0);
    K__NO_UNROLL for (int j = 0; j < 32; j += 4)
        K__UNROLL for (int k = 0; k < 4; k++) {
            const FL_F xj = fl_load(x + FL_N * (j + k));
            K__UNROLL for (int i = 0; i < n; i++) {
                const FL_F q = FL(iq4_near)(t, xj * inv[i]);
                if (w) {
                    const FL_F wq = fl_load(w + FL_N * (j + k)) * q;
                    sb[k][i] += wq * xj;
                    sc[k][i] += wq * q;
                } else {
                    sb[k][i] += q * xj;
                    sc[0][i] = fl_fma(q, q, sc[0][i]);   /* whole numbers */
                }
            }
        }
    K__UNROLL for (int i = 0; i < n; i++) {
        b[i] = (sb[0][i] + sb[2][i]) + (sb[1][i] + sb[3][i]);
        c[i] = sc[0][i];
        if (w) c[i] = (sc[0][i] + sc[2][i]) + (sc[1][i] + sc[3][i]);
    }
}

FL_FN void FL(iq4_try)(const FL(iq4_table) *t, const float *x, const float *w, const FL_F *inv, FL_F *b, FL_F *c) {
    if (w) FL(iq4_sums)(t, x, w, 2, inv, b, c);
    else FL(iq4_sums)(t, x, NULL, 2, inv, b, c);
}

/* k__fg_iq4_scales_ref(). */
FL_FN void FL(iq4_scales)(const float *x, const float *w, int n, float *s, k__fg_sums *t) {
    float         xs[32 * FL_N] __attribute__((aligned(64))), ws[32 * FL_N] __attribute__((aligned(64)));
    float         step[FL_N] __attribute__((aligned(64))), out[3][FL_N] __attribute__((aligned(64)));
    FL(iq4_table) table;
    FL(iq4_open)(&table);
    for (int at = 0; at < n; at += FL_N) {
        const int some = n - at < FL_N ? n - at : FL_N;
        bool      even = true;
        for (int l = 0; l < FL_N; l += 4)
            for (int j = 0; j < 32; j += 4) {
                const float *four[4];
                for (int i = 0; i < 4; i++) four[i] = x + 32 * (at + (l + i < some ? l + i : some - 1)) + j;
                FL(turn)(four, xs + j * FL_N + l);
                for (int i = 0; i < 4; i++) four[i] = w + (four[i] - x);
                FL(turn)(four, ws + j * FL_N + l);
            }
        FL_F ext = fl_all(0);
        for (int j = 0; j < 32; j++) {
            const FL_F v = fl_load(xs + FL_N * j);
            ext = fl_pick(fl_is(fl_max(v, -v), _CMP_GT_OQ, fl_max(ext, -ext)), v, ext);
            even = even && !fl_any(fl_is(fl_load(ws + FL_N * j), _CMP_NEQ_UQ, fl_all(1)));
        }
        const FL_M some_x = fl_is(ext, _CMP_NEQ_OQ, fl_all(0));
        fl_store(step, fl_pick(some_x, fl_all(1) / fl_pick(some_x, ext, fl_all(1)), fl_all(0)));
        FL_F best = fl_all(0), scale = best, kb = best, kc = best;
        for (int i = 0; i < K__IQ4_STARTS; i += 2) {
            FL_F inv[2], b[2], c[2];
            for (int k = 0; k < 2; k++) inv[k] = fl_all(k__fg_iq4_start(i + k < K__IQ4_STARTS ? i + k : i)) * fl_load(step);
            FL(iq4_try)(&table, xs, even ? NULL : ws, inv, b, c);
            for (int k = 0; k < 2; k++) {
                const FL_F gain = fl_pick(fl_is(c[k], _CMP_GT_OQ, fl_all(0)), b[k] * b[k] / c[k], fl_all(0));
                const FL_M more = fl_is(gain, _CMP_GT_OQ, best * fl_all(1.0000005f));
                best = fl_pick(more, gain, best);
                scale = fl_pick(more, b[k] / c[k], scale);
                kb = fl_pick(more, b[k], kb);
                kc = fl_pick(more, c[k], kc);
            }
        }
        FL_M going = fl_is(scale, _CMP_NEQ_OQ, fl_all(0));
        for (int i = 0; i < 6 && fl_any(going); i++) {
            FL_F inv[2], b[2], c[2];
            inv[0] = inv[1] = fl_all(1) / scale;
            FL(iq4_try)(&table, xs, even ? NULL : ws, inv, b, c);
            const FL_F gain = fl_pick(fl_is(c[0], _CMP_GT_OQ, fl_all(0)), b[0] * b[0] / c[0], fl_all(0));
            going = fl_and(going, fl_is(gain, _CMP_GT_OQ, best));
            best = fl_pick(going, gain, best);
            scale = fl_pick(going, b[0] / c[0], scale);
            kb = fl_pick(going, b[0], kb);
            kc = fl_pick(going, c[0], kc);
            going = fl_and(going, fl_is(scale, _CMP_NEQ_OQ, fl_all(0)));
        }
        fl_store(out[0], scale);
        fl_store(out[1], kb);
        fl_store(out[2], kc);
        for (int l = 0; l < some; l++) s[at + l] = out[0][l], t[at + l] = (k__fg_sums){out[1][l], out[2][l]};
    }
}

/* --- IQ4_XS: four lanes are a group, which has the sums of every fourth value --- */

enum { FL(GROUPS) = FL_N / 4 };

/* Four values of each group, of GROUPS groups: those at p, p + n, p + 2 n, ... */
FL_IN FL_F FL(fours)(const float *p, int n) {
#if FL_N == 16
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu2_m128(p + n, p)), _mm256_loadu2_m128(p + 3 * n, p + 2 * n), 1);
#else
    return _mm256_loadu2_m128(p + n, p);
#endif
}

/* 1 / the scales of these groups, each in four lanes. */
FL_IN FL_F FL(four_inverses)(const float *s) {
    float inv[FL_N] __attribute__((aligned(64)));
    for (int l = 0; l < FL_N; l++) inv[l] = k__fg_inverse(s[l / 4]);
    return fl_load(inv);
}

/* k__fg_iq4_sums_ref(). */
FL_FN void FL(iq4_groups)(const float *x, const float *w, const float s[2][8], int n, k__fg_sums t[2][8]) {
    FL(iq4_table) table;
    FL(iq4_open)(&table);
    for (int i = 0; i < n; i++)
        for (int g = 0; g < 8; g += 2 * FL(GROUPS)) {
            FL_F b[2] = {fl_all(0), fl_all(0)}, c[2] = {b[0], b[0]}, inv[2];
            for (int k = 0; k < 2; k++) inv[k] = FL(four_inverses)(s[i] + g + k * FL(GROUPS));
            K__NO_UNROLL for (int j = 0; j < 32; j += 4)
                K__UNROLL for (int k = 0; k < 2; k++) {
                    const int  at = 32 * (g + k * FL(GROUPS)) + j;
                    const FL_F v = FL(fours)(x + at, 32), q = FL(iq4_near)(&table, v * inv[k]), wq = FL(fours)(w + at, 32) * q;
                    b[k] += wq * v;
                    c[k] += wq * q;
                }
            for (int k = 0; k < 2; k++) {
                float bs[FL_N] __attribute__((aligned(64))), cs[FL_N] __attribute__((aligned(64)));
                fl_store(bs, b[k]);
                fl_store(cs, c[k]);
                for (int l = 0; l < FL(GROUPS); l++)
                    t[i][g + k * FL(GROUPS) + l] = (k__fg_sums){k__v4_sum(k__v4_at(bs + 4 * l)), k__v4_sum(k__v4_at(cs + 4 * l))};
            }
        }
}

/* k__fg_iq4_codes_ref(). */
FL_FN void FL(iq4_codes)(const float *x, const float s[8], int8_t *q) {
    FL(iq4_table) table;
    FL(iq4_open)(&table);
    for (int g = 0; g < 8; g++) {
        const FL_F inv = fl_all(k__fg_inverse(s[g]));
        for (int j = 0; j < 32; j += FL_N) {
            const FL_F v = FL(iq4_near)(&table, fl_near(x + 32 * g + j) * inv);
#if FL_N == 16
            _mm_storeu_si128((__m128i *)(void *)(q + 32 * g + j), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
#else
            const __m256i i = _mm256_cvttps_epi32(v), h = _mm256_packs_epi16(_mm256_packs_epi32(i, i), i);
            const int     low = _mm256_cvtsi256_si32(h), high = _mm256_extract_epi32(h, 4);
            memcpy(q + 32 * g + j, &low, 4);
            memcpy(q + 32 * g + j + 4, &high, 4);
#endif
        }
    }
}

/* --- the scale of all groups of a super-block: a lane is a start --- */

/* k__fg_common_ref(). The first of equal costs counts, in the order of starts. */
FL_FN float FL(grid_common)(const k__fg_ints *ints, int groups, const float *s, const k__fg_sums *t) {
    float      start[2 * K__GRID_ENDS + FL_N], best = FLT_MAX, d = 0;
    const int  n = k__fg_starts(ints, groups, s, start);
    const FL_F first = fl_all((float)ints->first), step = fl_all((float)ints->step), last = fl_all((float)(ints->count - 1));
    for (int l = 0; l < FL_N; l++) start[n + l] = n ? start[n - 1] : 0;
    for (int i = 0; i < n; i += FL_N) {
        FL_F next = fl_near(start + i), least = fl_all(FLT_MAX), kept = fl_all(0);
        for (int k = 0; k < K__GRID_ROUNDS; k++) {
            const FL_F at = next, inv = fl_all(1) / at;
            FL_F       cost = fl_all(0), up = cost, down = cost;
            for (int g = 0; g < groups; g++) {
                const FL_F sg = fl_all(s[g]), c = fl_all(t[g].c), l = (sg * inv - first) / step + fl_all(0.5f);
                const FL_F some = fl_pick(fl_is(l, _CMP_GE_OQ, fl_all(1)), fl_min(fl_floor(l), last), fl_all(0));
                const FL_F m = first + step * some, off = sg - at * m;
                cost += c * off * off;
                up += c * sg * m;
                down += c * m * m;
            }
            const FL_M less = fl_is(cost, _CMP_LT_OQ, least);
            least = fl_pick(less, cost, least);
            kept = fl_pick(less, at, kept);
            next = fl_pick(fl_is(down, _CMP_GT_OQ, fl_all(0)), up / down, at);
        }
        float cost[FL_N] __attribute__((aligned(64))), at[FL_N] __attribute__((aligned(64)));
        fl_store(cost, least);
        fl_store(at, kept);
        for (int l = 0; l < FL_N; l++)
            if (cost[l] < best) best = cost[l], d = at[l];
    }
    return d;
}

#undef FL
#undef FL_IN
#undef FL_FN
#undef FL_F
#undef FL_M
#undef FL_N
#undef FL_TWICE
#undef fl_load
#undef fl_near
#undef fl_store
#undef fl_all
#undef fl_max
#undef fl_min
#undef fl_fma
#undef fl_floor
#undef fl_round
#undef fl_is
#undef fl_and
#undef fl_or
#undef fl_any
#undef fl_pick
#undef FL_H
#undef fl_halves
#undef fl_of_halves
#undef fl_store_h
