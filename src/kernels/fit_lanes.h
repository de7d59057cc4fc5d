/* ===== [fit_lanes] the searches of super-blocks in vectors =====
 * The root includes this file once for each width: FL_N is 8 (avx2) or 16 (avx512). It has the operations of [fit] in the same
 * order on each value, so blocks have the bits of the scalar form (t_fit_levels). A lane is a group of the super-block. Where a
 * vector has more lanes than there are groups, its upper half has the same groups and other trials; where it has fewer, the
 * groups are passes one after the other. Eight trials t are eight vectors then, or four with t in the lower half and t + 4 in the
 * upper one. Without importances products by w are left out, and sums of codes and of their squares, which are whole numbers,
 * may be fused. */
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

/* k__rough_lines() and the best of its eight. lo, hi: the range of each group. */
FL_FN void FL(lines)(const float *x, const float *w, int n, float top, float sign, FL_F sw, FL_F sx, FL_F lo, FL_F hi, bool twice,
                     FL(line) *out) {
    enum { ROWS = 3 };
    static const float b[8] = {-0.9f, -0.65f, -0.4f, -0.15f, 0.1f, 0.35f, 0.6f, 0.85f};
    FL(eight)  all __attribute__((aligned(64))) = {0};
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
        for (int row = 0; row < ROWS; row++) {
            const float a = (float)row / (float)(ROWS - 1) - 0.5f;
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
            fl_store(all.scale[t0 + i], best[i].scale);
            fl_store(all.min[t0 + i], best[i].min);
            fl_store(all.gain[t0 + i], best[i].gain);
        }
    }
    *out = FL(best_line)(&all, twice);
}

/* k__rough_scales() of two rounds and the best of its eight. ext: the extreme value of each group. */
FL_FN void FL(scales)(const float *x, const float *w, int n, float lo, float hi, FL_F ext, FL(line) *out) {
    enum { ROUNDS = 2 };
    FL(eight)  all __attribute__((aligned(64))) = {0};
    FL_F       inv[4], scale[4], gain[4];
    FL(sums)   s[4];
    for (int t0 = 0; t0 < 8; t0 += 4) {
        for (int i = 0; i < 4; i++) scale[i] = gain[i] = fl_all(0);
        for (int row = 0; row < ROUNDS; row++) {
            k__v8 end;
            k__try_scales(lo < 0 ? lo : hi, hi, 1, (float)row / ROUNDS, &end);
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
            fl_store(all.scale[t0 + i], scale[i]);
            fl_store(all.gain[t0 + i], gain[i]);
        }
    }
    *out = FL(best_line)(&all, false);
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

/* Values or importances of the super-block as [pass][j][lane]. */
FL_IN void FL(spread)(const k__super *p, const float *from, float *to) {
    const int n = p->group, lanes = FL_TWICE(p) ? FL_N / 2 : FL_N;
    for (int g = 0; g < 256 / n; g++)
        for (int j = 0; j < n; j++) to[g / lanes * n * FL_N + j * FL_N + g % lanes] = from[g * n + j];
    for (int j = 0; j < n && FL_TWICE(p); j++) fl_store(to + j * FL_N, FL(again)(fl_load(to + j * FL_N), true));
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
        FL_F         lo[2], hi[2], ext[2], sum = fl_all(0), sx = sum;
        for (int i = 0; i < 2; i++) lo[i] = fl_all(FLT_MAX), hi[i] = fl_all(-FLT_MAX), ext[i] = fl_all(0);
        for (int j = 0; j < n; j++) sum += w ? fl_load(w + FL_N * j) : fl_all(1);
        const FL_F least = sum * fl_all(1e-3f) / fl_all((float)n);
        for (int j = 0; j < n; j++) {
            const FL_F xj = fl_load(x + FL_N * j), wj = w ? fl_load(w + FL_N * j) : fl_all(1), size = fl_max(xj, -xj);
            const FL_M matters = fl_is(wj, _CMP_GT_OQ, least);
            sx += wj * xj;
            lo[1] = fl_min(xj, lo[1]);
            hi[1] = fl_max(xj, hi[1]);
            lo[0] = fl_pick(matters, fl_min(xj, lo[0]), lo[0]);
            hi[0] = fl_pick(matters, fl_max(xj, hi[0]), hi[0]);
            ext[1] = fl_pick(fl_is(size, _CMP_GT_OQ, fl_max(ext[1], -ext[1])), xj, ext[1]);
            ext[0] = fl_pick(fl_and(matters, fl_is(size, _CMP_GT_OQ, fl_max(ext[0], -ext[0]))), xj, ext[0]);
        }
        ext[0] = fl_pick(fl_is(ext[0], _CMP_EQ_OQ, fl_all(0)), ext[1], ext[0]);
        const FL_M any = p->min ? fl_is(sum, _CMP_EQ_OQ, sum) : fl_is(ext[1], _CMP_NEQ_UQ, fl_all(0)),
                   differ = p->min ? fl_or(fl_is(lo[0], _CMP_NEQ_UQ, lo[1]), fl_is(hi[0], _CMP_NEQ_UQ, hi[1]))
                                   : fl_is(ext[0], _CMP_NEQ_UQ, ext[1]);
        FL_F s = fl_all(0), m = s, c = s, share = p->min ? sum : s, low = fl_all(FLT_MAX);
        for (int i = 0; i < 1 + fl_any(differ); i++) {
            FL(line) line;
            if (p->min) FL(lines)(x, w, n, p->hi, k->sign, sum, sx, lo[i], hi[i], twice, &line);
            else FL(scales)(x, w, n, p->lo, p->hi, ext[i], &line);
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

/* k__place_scale(). */
FL_IN void FL(place_scales)(const k__search *k, const float *x, const float *w, float d, FL_F s, int batches, FL(place) *best) {
    const k__super *p = k->p;
    const FL_F      mid = fl_floor(s * fl_all(k__fit_inverse(d))), zero = fl_all(0);
    FL_F            inv[4], step[4], sc[4];
    FL(sums)        sum[4];
    for (int t = 0; t < (batches > 1 ? 2 * batches : 1); t++)
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i < 4; i++) {
                const FL_F at = (t < batches ? mid : -mid) + fl_all(k__around[t % batches * 2 + h][i]);
                sc[i] = fl_min(fl_max(at, fl_all(p->sc_lo)), fl_all(p->sc_hi));
                step[i] = fl_all(d) * sc[i];
                inv[i] = FL(inverse)(step[i]);
            }
            FL(sum_scale)(x, w, p->group, inv, p->lo, p->hi, sum);
            for (int i = 0; i < 4; i++)
                FL(keep)(best, step[i] * (fl_all(2) * sum[i].xq - step[i] * sum[i].qq), fl_all((float)(4 * h + i)), sc[i], zero,
                         &sum[i]);
        }
}

/* k__place_line(). */
FL_IN void FL(place_lines)(const k__search *k, const float *x, const float *w, float d, float dm, FL_F sw, FL_F sx, FL_F s,
                           FL_F m, FL_F c, int batches, int minima, FL(place) *best) {
    const k__super *p = k->p;
    const bool      twice = FL_TWICE(p);
    const FL_F      mid = fl_floor(s * fl_all(k__fit_inverse(d))), idm = fl_all(k__fit_inverse(dm)), zero = fl_all(0),
                    most = fl_all(p->sc_hi), two = fl_all(2);
    FL_F            inv[4], min[4], mn[4];
    FL(sums)        sum[4];
    for (int t = 0; t < batches; t++)
        for (int h = 0; h < (twice ? 1 : 2); h++) {
            float to[8] = {0};
            for (int half = 0; half < 2; half++) {
                const int i = minima == 8 ? t : 2 * t + half;
                to[4 * half] = k__around[i / 4][i % 4];
            }
            const FL_F at = fl_min(fl_max(mid + FL(trials)(to, 4 * h, twice), zero), most), step = fl_all(d) * at,
                       low = fl_floor((c * (step - s) - m) * idm), each = FL(inverse)(step);
            for (int i = 0; i < 4; i++) {
                const FL_F near = minima == 8 ? FL(trials)((const float *)k__around, 4 * h + i, twice) : fl_all(k__around[0][i]);
                mn[i] = fl_min(fl_max(low + near, zero), most);
                min[i] = fl_all(-dm) * mn[i];
                inv[i] = each;
            }
            FL(sum_line)(x, w, p->group, inv, min, p->hi, sum);
            for (int i = 0; i < 4; i++) {
                const FL_F gain = step * (two * sum[i].xq - step * sum[i].qq - two * min[i] * sum[i].q) +
                                 min[i] * (two * sx - min[i] * sw);
                FL(keep)(best, gain, fl_all((float)(4 * h + i)), at, mn[i], &sum[i]);
            }
        }
#if FL_N == 16
    if (twice) {                                      /* trials of the lower half come first */
        FL(place) other = *best;
        FL_F     *v = (FL_F *)(void *)&other, *b = (FL_F *)(void *)best;
        K__UNROLL for (size_t i = 0; i < sizeof other / sizeof *v; i++) v[i] = _mm512_shuffle_f32x4(v[i], v[i], 0x4e);
        const FL_M more = (FL_M)((fl_is(other.gain, _CMP_GT_OQ, best->gain) & 0xff) |
                                 (fl_is(other.gain, _CMP_GE_OQ, best->gain) & 0xff00));
        K__UNROLL for (size_t i = 0; i < sizeof other / sizeof *v; i++) b[i] = fl_pick(more, v[i], b[i]);
    }
#endif
}

/* k__fit_place_ref(). */
FL_FN void FL(place_groups)(const k__search *k, float d, float dm, int batches, int minima, k__slopes *u, k__places *at) {
    const k__super *p = k->p;
    for (int g = 0; g < 256 / p->group; g += FL_N) {
        const float *x = k->x + p->group * g, *w = k->b->even ? NULL : k->w + p->group * g;
        const FL_F   sw = fl_load(k->sw + g), sx = fl_load(k->sx + g), zero = fl_all(0);
        FL_F         s = fl_load(u->s + g), m = fl_load(u->m + g), c = fl_load(u->c + g);
        FL(place)    best = {fl_all(-INFINITY), fl_all(8), zero, zero, {zero, zero, zero}};
        if (p->min) FL(place_lines)(k, x, w, d, dm, sw, sx, s, m, c, batches, minima, &best);
        else FL(place_scales)(k, x, w, d, s, batches, &best);
        const FL(sums) *b = &best.sum;
        if (p->min) {                                 /* k__refit_line() */
            const FL_F det = sw * b->qq - b->q * b->q;
            const FL_M fits = fl_is(det, _CMP_NLE_UQ, fl_all(1e-6f) * sw * b->qq);
            FL_F       s1 = (sw * b->xq - sx * b->q) / det, m1 = (sx - s1 * b->q) / sw;
            const FL_M wrong = fl_is(m1 * fl_all(k->sign), _CMP_GT_OQ, zero);
            m1 = fl_pick(wrong, zero, m1);
            s1 = fl_pick(wrong, b->xq / b->qq, s1);
            s1 = fl_pick(fl_is(s1, _CMP_LT_OQ, zero), zero, s1);
            s = fl_pick(fits, s1, s);
            m = fl_pick(fits, m1, m);
            c = fl_pick(fits, b->q / sw, c);
        } else {
            s = fl_pick(fl_is(b->qq, _CMP_GT_OQ, zero), b->xq / b->qq, s);
        }
        fl_store(u->s + g, s);
        fl_store(u->m + g, m);
        fl_store(u->c + g, c);
        fl_store(at->gain + g, best.gain);
        fl_store(at->sc + g, best.sc);
        fl_store(at->mn + g, best.mn);
        fl_store(at->q + g, b->q);
        fl_store(at->qq + g, b->qq);
        fl_store(at->xq + g, b->xq);
    }
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
