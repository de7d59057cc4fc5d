/* ===== [cuda_rows] operations on rows, experts, recurrent layers =====
 * ROWS, STATES and EXPERTS of [cuda]: kernels that take a row, or a sequence, from operation to operation. */

/* --- rows: a thread block takes one row --- */

enum { K__CUDA_ROW_TILE = 8192 };

typedef struct {
    k_row_op op[K_CUDA_ROW_OPS];
    float    tile[K__CUDA_ROW_TILE];
    float    sum;
    double   part[8];
    int      split[K_CUDA_THREADS / 32];              /* by warp: a row has outliers */
} k__cuda_rows_mem;

/* The row of input i that the operation's row r reads. */
K_CUDA_FN float *k__cuda_in(const k_cuda_step *step, const k_row_op *op, int i, int r) {
    const int row = op->gathers >> i & 1 ? step->row[1][r] : r;
    return op->in[i].x ? op->in[i].x + (size_t)row * op->in[i].ld : NULL;
}

/* What each thread does with values of its own. */
enum { K__MAP_ADD, K__MAP_AXPY, K__MAP_MUL, K__MAP_SCALE, K__MAP_CLAMP, K__MAP_CAP, K__MAP_ABOVE, K__MAP_ACT, K__MAP_CLIP };

K_CUDA_FN float k__cuda_map_one(int fn, int act, float a, float b, bool two, float s) {
    switch (fn) {
    case K__MAP_ADD: return a + b;
    case K__MAP_AXPY: return fmaf(s, b, a);
    case K__MAP_MUL: return a * b;
    case K__MAP_SCALE: return a * s;
    case K__MAP_CLAMP: return k__clamp_ref(a, s, false);
    case K__MAP_CAP: return s * k__tanh_ref(a / s);
    case K__MAP_ABOVE: return a > s ? a - s : 0.0f;
    case K__MAP_ACT: return two ? k__act_ref((k_act_fn)act, a) * b : k__act_ref((k_act_fn)act, a);
    default: return k__clip_ref(a, b, 7.0f, 1.702f);
    }
}

/* y = fn(a, b) for n values; b may be NULL. Several values are read before one is written: y may be a or b. */
K_CUDA_FN void k__cuda_map(int fn, int act, float *y, const float *a, const float *b, float s, int n) {
    const int many = fn >= K__MAP_CAP ? 2 : 8;
    for (int at = K_CUDA_THREAD; at < n; at += many * K_CUDA_THREADS) {
        float p[8], q[8];
        K_CUDA_UNROLL for (int k = 0; k < many; k++) {
            const int i = at + k * K_CUDA_THREADS;
            p[k] = i < n ? a[i] : 0.0f;
            q[k] = b && i < n ? b[i] : 0.0f;
        }
        K_CUDA_UNROLL for (int k = 0; k < many; k++) {
            const int i = at + k * K_CUDA_THREADS;
            if (i < n) y[i] = k__cuda_map_one(fn, act, p[k], q[k], b != NULL, s);
        }
    }
}

/* Sums in the 16 lanes of [vec]. */
enum { K__SUM_PLAIN, K__SUM_SQUARES, K__SUM_DOT };    /* of a; of (a - mean)^2; of a * b */

/* The sum s of a thread's lane, with elements [0, n) of a and b. */
K_CUDA_FN float k__cuda_lane(int how, const float *a, const float *b, int n, float mean, float s) {
    enum { MANY = 8 };
    for (int at = K_CUDA_THREAD % 16; at < n; at += 16 * MANY) {
        float p[MANY], q[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
            const int i = at + 16 * k;
            p[k] = i < n ? a[i] : 0.0f;
            q[k] = how == K__SUM_DOT && i < n ? b[i] : 0.0f;
        }
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
            const float d = p[k] - mean;
            if (at + 16 * k >= n) continue;
            s = how == K__SUM_PLAIN ? s + p[k] : how == K__SUM_SQUARES ? fmaf(d, d, s) : fmaf(p[k], q[k], s);
        }
    }
    return s;
}

/* The sum of the 16 lanes of each half warp. */
K_CUDA_FN float k__cuda_fold(float s) {
    K_CUDA_UNROLL for (int far = 8; far; far /= 2) s = s + k__cuda_other(s, far);
    return s;
}

/* Copies n values: to shared memory, or to a slot. */
K_CUDA_FN void k__cuda_tile(float *to, const float *x, int n) {
    enum { MANY = 8 };
    for (int at = K_CUDA_THREAD; at < n; at += MANY * K_CUDA_THREADS) {
        float p[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) p[k] = at + k * K_CUDA_THREADS < n ? x[at + k * K_CUDA_THREADS] : 0.0f;
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++)
            if (at + k * K_CUDA_THREADS < n) to[at + k * K_CUDA_THREADS] = p[k];
    }
}

/* A sum over one vector: all threads fetch it, a half warp adds. Every thread gets the result. */
K_CUDA_FN float k__cuda_sum_of(int how, const float *a, const float *b, int n, float mean, k__cuda_rows_mem *m) {
    const int most = how == K__SUM_DOT ? K__CUDA_ROW_TILE / 2 : K__CUDA_ROW_TILE;
    float     s = 0.0f;
    for (int at = 0; at < n; at += most) {
        const int len = n - at < most ? n - at : most;
        if (at) k__cuda_sync();                       /* the values before these are added */
        k__cuda_tile(m->tile, a + at, len);
        if (how == K__SUM_DOT) k__cuda_tile(m->tile + most, b + at, len);
        k__cuda_sync();
        if (K_CUDA_THREAD < 32) s = k__cuda_lane(how, m->tile, m->tile + most, len, mean, s);
    }
    if (K_CUDA_THREAD < 32) s = k__cuda_fold(s);
    if (K_CUDA_THREAD == 0) m->sum = s;
    k__cuda_sync();
    return m->sum;
}

/* --- norms --- */

K_CUDA_FN float k__cuda_norm_factor(k_norm_kind kind, float sum, int n, float eps) {
    return 1.0f / sqrtf((kind == K_NORM_L2 ? sum : sum / (float)n) + eps);
}

/* y = (x - mean) * r * w + b: elements from, from + step, ... of n. */
K_CUDA_FN void k__cuda_shift(const k_row_op *op, const float *x, float *y, float mean, float r, int n, int from, int step) {
    enum { MANY = 8 };
    const float *w = op->u.norm == K_NORM_L2 ? NULL : op->vec, *b = op->u.norm == K_NORM_LAYER ? op->bias : NULL;
    for (int at = from; at < n; at += MANY * step) {
        float p[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
            const int i = at + k * step;
            if (i >= n) continue;
            p[k] = (x[i] - mean) * r;
            if (w) p[k] = p[k] * w[i];
            if (b) p[k] = p[k] + b[i];
        }
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++)
            if (at + k * step < n) y[at + k * step] = p[k];
    }
}

K_CUDA_FN void k__cuda_norm(const k_row_op *op, const float *x, float *y, k__cuda_rows_mem *m) {
    const int   n = op->n;
    const float mean = op->u.norm == K_NORM_LAYER ? k__cuda_sum_of(K__SUM_PLAIN, x, x, n, 0.0f, m) / (float)n : 0.0f;
    const float sum = k__cuda_sum_of(K__SUM_SQUARES, x, x, n, mean, m);
    k__cuda_shift(op, x, y, mean, k__cuda_norm_factor(op->u.norm, sum, n, op->scale), n, K_CUDA_THREAD, K_CUDA_THREADS);
}

/* Each half warp takes a head. */
K_CUDA_FN void k__cuda_norm_heads(const k_row_op *op, const float *x, float *y) {
    const int mine = K_CUDA_THREAD / 16, n_head = op->n_head;
    for (int h = mine; h - mine < n_head; h += K_CUDA_THREADS / 16) {
        const int    n = h < n_head ? op->n : 0;
        const size_t at = (size_t)h * (size_t)op->n;
        float        mean = 0.0f;
        if (op->u.norm == K_NORM_LAYER) mean = k__cuda_fold(k__cuda_lane(K__SUM_PLAIN, x + at, x, n, 0.0f, 0.0f)) / (float)op->n;
        const float  sum = k__cuda_fold(k__cuda_lane(K__SUM_SQUARES, x + at, x, n, mean, 0.0f));
        k__cuda_shift(op, x + at, y + at, mean, k__cuda_norm_factor(op->u.norm, sum, op->n, op->scale), n,
                      K_CUDA_THREAD % 16, 16);
    }
}

/* y = x + (to - x) by; y may be one of them. */
K_CUDA_FN void k__cuda_lerp(const k_row_op *op, const float *x, const float *to, const float *by, float *y) {
    for (int i = K_CUDA_THREAD; i < op->n; i += K_CUDA_THREADS) y[i] = fmaf(to[i] - x[i], by[i], x[i]);
}

/* --- heads --- */

K_CUDA_FN void k__cuda_pick(const k_row_op *op, const float *x, float *y) {
    const int n = op->n, all = n * (op->n_head ? op->n_head : 0), step = op->u.pick.step ? op->u.pick.step : n;
    for (int i = K_CUDA_THREAD; i < all; i += K_CUDA_THREADS)
        y[op->u.pick.to + i / n * step + i % n] = x[op->u.pick.at + i / n * op->u.pick.stride + i % n];
}

/* Task r of a row: one of its heads. Rows of one head lie after those of the head before. */
K_CUDA_FN void k__cuda_deal(const k_cuda_step *step, const k_row_op *op, int r, float *y) {
    const int    n = step->n[op->set];
    const float *x = k__cuda_in(step, op, 0, r % n) + op->u.pick.at + r / n * op->u.pick.stride;
    k__cuda_tile(y, x, op->n);
}

/* y grows by x, each head times its number. */
K_CUDA_FN void k__cuda_add_heads(const k_row_op *op, const float *x, const float *by, float *y) {
    for (int i = K_CUDA_THREAD; i < op->n * op->n_head; i += K_CUDA_THREADS) y[i] = fmaf(by[i / op->n], x[i], y[i]);
}

K_CUDA_FN void k__cuda_rope(const k_row_op *op, float *x, const float *cs) {
    const int half = op->u.rope.n_rot / 2, far = op->u.rope.form ? half : 1, step = op->u.rope.form ? 1 : 2,
              all = half * op->n_head;
    for (int at = K_CUDA_THREAD; at < all; at += K_CUDA_THREADS) {
        const int   i = at % half;
        float      *p = x + (size_t)(at / half) * (size_t)op->n + op->u.rope.skip + i * step;
        const float a = p[0], b = p[far], c = cs[2 * i], s = cs[2 * i + 1];
        p[0] = a * c - b * s;
        p[far] = a * s + b * c;
    }
}

/* k_hadamard: a warp takes 256 values, which hold whole transforms, from `from` on, and those `step` values after them. Sums and
 * differences of values in one thread, then of two lanes. */
K_CUDA_FN void k__cuda_hadamard_by(float *x, int n, int size, int from, int step) {
    const int   lane = K_CUDA_THREAD % 32;
    const float unit = k__hadamard_unit(size);
    for (int at = from; size > 1 && at < n; at += step) {
        float v[8];
        K_CUDA_UNROLL for (int k = 0; k < 8; k++) v[k] = at + 32 * k + lane < n ? x[at + 32 * k + lane] : 0.0f;
        K_CUDA_UNROLL for (int far = 4; far; far /= 2)
            K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
                if (k & far || 32 * far >= size) continue;
                const float a = v[k], b = v[k + far];
                v[k] = a + b;
                v[k + far] = a - b;
            }
        K_CUDA_UNROLL for (int far = 16; far; far /= 2)
            K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
                if (far >= size) continue;
                const float b = k__cuda_other(v[k], far);
                v[k] = lane & far ? b - v[k] : v[k] + b;
            }
        K_CUDA_UNROLL for (int k = 0; k < 8; k++)
            if (at + 32 * k + lane < n) x[at + 32 * k + lane] = v[k] * unit;
    }
}

/* All warps take part. */
K_CUDA_FN void k__cuda_hadamard(float *x, int n, int size) {
    k__cuda_hadamard_by(x, n, size, K_CUDA_THREAD / 32 * 256, 8 * K_CUDA_THREADS);
}

/* Heads of n values whose first `at` have transforms of one size, the others of another; a warp takes a head. */
K_CUDA_FN void k__cuda_hadamard_heads(float *x, int n_head, int n, int at, int size, int tail) {
    for (int h = K_CUDA_THREAD / 32; h < n_head; h += K_CUDA_THREADS / 32) {
        k__cuda_hadamard_by(x + h * n, at, size, 0, 256);
        k__cuda_hadamard_by(x + h * n + at, n - at, tail, 0, 256);
    }
}

/* --- cache --- */

/* The value of largest magnitude in a warp, with its sign; the one of the lowest lane among equals. */
K_CUDA_FN float k__cuda_extreme(float v) {
    const int lane = K_CUDA_THREAD % 32;
    v = k__farther(0.0f, v);
    K_CUDA_UNROLL for (int far = 1; far < 32; far *= 2) {
        const float other = k__cuda_other(v, far);
        v = lane & far ? k__farther(other, v) : k__farther(v, other);
    }
    return v;
}

/* The code of v in a block of q4_0 whose extreme value is `at`, and the block's scale: k__kv_q4_0 by a warp. */
K_CUDA_FN int k__cuda_q4_0(float v, float at, float *d) {
    float kept = 0.0f;
    int   code = 8;
    *d = k__scale_mid(at, 8);
    K_CUDA_UNROLL for (int t = 0; t < K_KV_TRIES; t++) {
        const int q = k__code_mid(v * k__inverse(at / -k__kv_aim(t)), 8), y = q - 8;
        float     xy = k__kv_part(v, y), yy = (float)(y * y);
        K_CUDA_UNROLL for (int far = 16; far; far /= 2) {
            xy += k__cuda_other(xy, far);
            yy += k__cuda_other(yy, far);
        }
        const float now = k__kv_kept(xy, (int)yy);
        if (t && !(now > kept)) continue;
        kept = now, code = q;
        if (yy != 0) *d = xy / yy;
    }
    return code;
}

/* k_kv_store for each head; a warp takes a block of 32. `to`: of head 0, heads `apart` bytes apart. */
K_CUDA_FN void k__cuda_store_blocks(uint32_t type, const float *x, int n_head, int hd, uint8_t *to, size_t apart) {
    const int lane = K_CUDA_THREAD % 32, blocks = (hd + 31) / 32;
    for (int b = K_CUDA_THREAD / 32; b < n_head * blocks; b += K_CUDA_THREADS / 32) {
        const int   h = b / blocks, i = b % blocks * 32 + lane;
        const float v = i < hd ? x[h * hd + i] : 0.0f, at = k__cuda_extreme(v);
        uint8_t    *head = to + (size_t)h * apart;
        if (type == K_Q8_0) {
            const float d = k__scale127(at);
            block_q8_0 *p = (block_q8_0 *)(void *)head + b % blocks;
            p->qs[lane] = k__round8(v * k__inverse(d));
            if (!lane) p->d = k_f32_to_f16(d);
        } else {
            block_q4_0 *p = (block_q4_0 *)(void *)head + b % blocks;
            float       d;
            const int   code = k__cuda_q4_0(v, at, &d), upper = (int)k__cuda_other((float)code, 16);
            if (lane < 16) p->qs[lane] = (uint8_t)(code | upper << 4);
            if (!lane) p->d = k_f32_to_f16(d);
        }
    }
}

K_CUDA_FN void k__cuda_store_heads(uint32_t type, const float *x, int n_head, int hd, uint8_t *to, size_t apart) {
    if (type == K_Q8_0 || type == K_Q4_0) {
        k__cuda_store_blocks(type, x, n_head, hd, to, apart);
        return;
    }
    for (int i = K_CUDA_THREAD; i < n_head * hd; i += K_CUDA_THREADS) {
        uint8_t *p = to + (size_t)(i / hd) * apart;
        if (type == K_F32) ((float *)(void *)p)[i % hd] = x[i];
        else ((uint16_t *)(void *)p)[i % hd] = type == K_F16 ? k_f32_to_f16(x[i]) : k_f32_to_bf16(x[i]);
    }
}

K_CUDA_FN void k__cuda_store(const k_cuda_step *step, const k_row_op *op, int r, float *k, float *v) {
    const k_kv_place *kv = &op->u.kv;
    const int        row = op->set ? step->row[1][r] : r, pos = step->b.pos[row];
    const size_t     table = step->b.table_at[(size_t)step->b.seq[row] * (size_t)step->b.n_group + (size_t)kv->group];
    uint8_t         *block = kv->base + (size_t)step->b.table[table + (size_t)(pos / kv->block)] * kv->block_bytes;
    const size_t     at = (size_t)(pos % kv->block), len = (size_t)kv->block;
    if (kv->shared) k__cuda_hadamard_heads(k, kv->n_head, kv->hd_k, kv->hd_v, kv->hadamard_v, kv->hadamard_k);
    else k__cuda_hadamard(k, kv->n_head * kv->hd_k, kv->hadamard_k), k__cuda_hadamard(v, kv->n_head * kv->hd_v, kv->hadamard_v);
    if (kv->hadamard_k > 1 || kv->hadamard_v > 1) k__cuda_sync();
    k__cuda_store_heads(kv->type_k, k, kv->n_head, kv->hd_k, block + kv->k_at + at * kv->k_stride, len * kv->k_stride);
    if (kv->shared) return;                           /* values are a part of keys */
    k__cuda_store_heads(kv->type_v, v, kv->n_head, kv->hd_v, block + kv->v_at + at * kv->v_stride, len * kv->v_stride);
}

/* --- forms --- */

/* One of the reductions of a warp, in every lane. */
K_CUDA_FN float k__cuda_most(float v) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) {
        const float other = k__cuda_other(v, far);
        v = other > v ? other : v;
    }
    return v;
}
K_CUDA_FN int k__cuda_add_far(int v, int far) { return v + (int)k__cuda_other((float)v, far); }   /* |v| < 2^24 */
K_CUDA_FN int k__cuda_total(int v) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) v = k__cuda_add_far(v, far);
    return v;
}

/* Sum, or sum of magnitudes, of four codes. */
K_CUDA_FN int k__cuda_sum4(uint32_t codes, bool magnitudes) {
    int s = 0;
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
        const int q = (int8_t)(codes >> 8 * i);
        s += magnitudes && q < 0 ? -q : q;
    }
    return s;
}

/* One block of k_quant_act by a warp, 8 values in each lane; `in`: the lane has values. Returns the sum of the magnitudes of all
 * codes. */
K_CUDA_FN int k__cuda_quant(const float v[8], bool in, int8_t *q, k_sums *sum, float *d) {
    const int lane = K_CUDA_THREAD % 32;
    float     amax = 0.0f, nan = 0.0f;
    uint32_t  codes[2] = {0, 0};
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
        const float m = fabsf(v[i]);
        if (m > amax) amax = m;
        if (m != m) nan = 1.0f;
    }
    amax = k__cuda_most(amax);
    const bool  bad = k__cuda_most(nan) > 0.0f;
    const float inv = k__act_inverse(amax);
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) codes[i / 4] |= (uint32_t)(uint8_t)k__act_code(v[i], inv) << i % 4 * 8;
    K_CUDA_UNROLL for (int i = 0; in && i < 2; i++) ((uint32_t *)(void *)(q + 8 * lane))[i] = codes[i];
    const int of16 = k__cuda_add_far(k__cuda_sum4(codes[0], false) + k__cuda_sum4(codes[1], false), 1),
              of32 = k__cuda_add_far(of16, 2);
    if (lane % 2 == 0) sum->of16[lane / 2] = (int16_t)of16;
    if (lane % 4 == 0) sum->of32[k__sums_at(lane / 4)] = (int16_t)of32;
    const int size = k__cuda_sum4(codes[0], true) + k__cuda_sum4(codes[1], true), size16 = k__cuda_add_far(size, 1);
    const int size32 = k__cuda_add_far(size16, 2), most16 = (int)k__cuda_most((float)size16);
    const int most32 = (int)k__cuda_most((float)(size32 + (of32 < 0 ? -of32 : of32))) / 2;
    if (lane == 0) {
        sum->most16 = (int16_t)most16;
        sum->most32 = (int16_t)most32;
        *d = k__act_scale(amax, bad);
    }
    return k__cuda_total(size);
}

/* Where a row's quantised form lies. */
typedef struct {
    int8_t *q;
    k_sums *sum;
    float  *d;
} k__cuda_form_row;

K_CUDA_FN k__cuda_form_row k__cuda_form_at(const k_acts *a, int r) {
    k__cuda_form_row f;
    f.q = (int8_t *)a->q + (size_t)r * a->ldq;
    f.sum = (k_sums *)a->sum + (size_t)r * a->ldd;
    f.d = (float *)a->d + (size_t)r * a->ldd;
    return f;
}

/* The far values of a block, zeros for the others; 8 in each lane (k_far_act_ref). */
K_CUDA_FN void k__cuda_far(const float v[8], int n, bool fine, float far[8]) {
    const int in = n - K_CUDA_THREAD % 32 * 8 > 0;
    float     amax = 0.0f;
    int       units[8], all = 0, some = 0, count = 0;
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) amax = k__farther(amax, fabsf(v[i]));
    const float by = (float)K_FAR_UNITS / k__cuda_most(amax);
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) all += units[i] = k__far_units(v[i], by);
    const int most = k__far_mean_of(k__cuda_total(all), n);
    K_CUDA_UNROLL for (int i = 0; i < 8; i++)
        if (units[i] <= most) some += units[i], count += in;
    some = k__cuda_total(some);
    const int above = k__far_above(some, k__cuda_total(count), fine);
    count = 0;
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) count += units[i] > above;
    const bool few = k__cuda_total(count) < n / 8;
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) far[i] = few && units[i] > above ? v[i] : 0.0f;
}

/* Far values of a block go to row r + rest, and the others are quantised again; blocks without far values are zeros there. A lane
 * reads what it wrote, but for the scales. */
K_CUDA_FN void k__cuda_form_rest(const k_acts *a, const float *x, int r, int n, bool fine) {
    const int              lane = K_CUDA_THREAD % 32;
    const k__cuda_form_row own = k__cuda_form_at(a, r), rest = k__cuda_form_at(a, r + a->rest);
    for (int b = K_CUDA_THREAD / 32; 256 * b < n; b += K_CUDA_THREADS / 32) {
        const int   at = 256 * b + 8 * lane, len = n - 256 * b < 256 ? n - 256 * b : 256;
        const float d = own.d[b];
        float       v[8], far[8] = {0}, d_far;
        int         all = 0;
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
            const int q = at < n ? own.q[at + i] : 0;
            v[i] = at < n ? x[at + i] : 0.0f;
            all += q < 0 ? -q : q;
        }
        const bool peaked = k__peaked(k__cuda_total(all), len, d, fine);
        if (peaked) k__cuda_far(v, len, fine, far);
        k__cuda_quant(far, at < n, rest.q + 256 * b, rest.sum + b, rest.d + b);
        if (!peaked) continue;
        d_far = k__cuda_most(lane == 0 ? rest.d[b] : 0.0f);
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) v[i] = v[i] - d_far * (float)(at < n ? rest.q[at + i] : 0);
        k__cuda_quant(v, at < n, own.q + 256 * b, own.sum + b, own.d + b);
    }
}

/* k_quant_act. */
K_CUDA_FN void k__cuda_form_i8(const k_acts *a, const float *x, int r, int n, bool fine, k__cuda_rows_mem *m) {
    const int              lane = K_CUDA_THREAD % 32;
    const k__cuda_form_row own = k__cuda_form_at(a, r);
    bool                   split = false;
    for (int b = K_CUDA_THREAD / 32; 256 * b < n; b += K_CUDA_THREADS / 32) {
        const int at = 256 * b + 8 * lane, len = n - 256 * b < 256 ? n - 256 * b : 256;
        float     v[8], d = 0.0f;
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) v[i] = at < n ? x[at + i] : 0.0f;
        const int all = k__cuda_quant(v, at < n, own.q + 256 * b, own.sum + b, &d);
        if (lane == 0) own.d[b] = d, split = k__peaked(all, len, d, fine) || split;
    }
    if (lane == 0) m->split[K_CUDA_THREAD / 32] = split;
    k__cuda_sync();
    split = false;
    K_CUDA_UNROLL for (int i = 0; i < K_CUDA_THREADS / 32; i++) split = m->split[i] != 0 || split;
    if (K_CUDA_THREAD == 0) ((uint8_t *)a->split)[r] = split;
    if (split) k__cuda_form_rest(a, x, r, n, fine);
}

K_CUDA_FN void k__cuda_form(const k_row_op *op, const float *x, int r, k__cuda_rows_mem *m) {
    const k_acts  *a = &op->u.form.a;
    const unsigned forms = op->u.form.forms;
    for (int i = K_CUDA_THREAD; forms & 1u << K_ACT_BF16 && i < op->n; i += K_CUDA_THREADS)
        ((uint16_t *)a->h)[(size_t)r * a->ldx + (size_t)i] = k_f32_to_bf16(x[i]);
    if (forms & 1u << K_ACT_I8) k__cuda_form_i8(a, x, r, op->n, (forms & K_FORM_FINE) != 0, m);
}

/* --- several streams --- */

K_CUDA_FN void k__cuda_blend(const k_row_op *op, const float *x, const float *c, float *y) {
    const int n = op->n, n_head = op->n_head;
    for (int i = K_CUDA_THREAD; i < n * n_head; i += K_CUDA_THREADS) {
        float v = x[i];
        for (int k = 0; k < n_head; k++) v = fmaf(c[i / n * n_head + k], x[k * n + i % n], v);
        y[i] = v;
    }
}

K_CUDA_FN void k__cuda_correct(const k_row_op *op, const float *x, const float *active, const float *c, float *y) {
    const int n = op->n, a = op->u.active;
    for (int i = K_CUDA_THREAD; i < n * op->n_head; i += K_CUDA_THREADS) {
        const float old = x[a * n + i % n], more = fmaf(-1.0f, old, active[i % n]), s = c[i / n] + 1.0f;
        y[i] = i / n == a ? more * s + old : fmaf(s, more, x[i]);
    }
}

K_CUDA_FN void k__cuda_raise(const k_row_op *op, const float *x, float *y) {
    for (int i = op->n + K_CUDA_THREAD; i < op->n * op->n_head; i += K_CUDA_THREADS) y[i] = y[i] + x[i % op->n];
}

/* The sum of n doubles or of their squared distances from the mean, in eight lanes. */
K_CUDA_FN double k__cuda_sum8(bool squares, const float *x, int n, double mean, k__cuda_rows_mem *m) {
    double s = 0;
    for (int at = 0; at < n; at += K__CUDA_ROW_TILE) {
        const int len = n - at < K__CUDA_ROW_TILE ? n - at : K__CUDA_ROW_TILE;
        if (at) k__cuda_sync();
        k__cuda_tile(m->tile, x + at, len);
        k__cuda_sync();
        for (int i = K_CUDA_THREAD; K_CUDA_THREAD < 8 && i < len; i += 8) {
            const double v = (double)m->tile[i];
            s += squares ? (v - mean) * (v - mean) : v;
        }
    }
    if (K_CUDA_THREAD < 8) m->part[K_CUDA_THREAD] = s;
    k__cuda_sync();
    return ((m->part[0] + m->part[1]) + (m->part[2] + m->part[3])) + ((m->part[4] + m->part[5]) + (m->part[6] + m->part[7]));
}

K_CUDA_FN void k__cuda_sparse(const k_row_op *op, float *y, k__cuda_rows_mem *m) {
    const double mean = k__cuda_sum8(false, y, op->n, 0, m) / op->n,
                 deviation = sqrt(k__cuda_sum8(true, y, op->n, mean, m) / op->n);
    k__cuda_map(K__MAP_ABOVE, 0, y, y, NULL, (float)(mean + (double)op->scale * deviation), op->n);
}

K_CUDA_FN void k__cuda_level(const k_row_op *op, const float *x, const float *like, float *y, k__cuda_rows_mem *m) {
    const float now = k__cuda_sum_of(K__SUM_SQUARES, x, x, op->n, 0.0f, m) / (float)op->n;
    const float want = k__cuda_sum_of(K__SUM_SQUARES, like, like, op->n, 0.0f, m) / (float)op->n;
    k__cuda_map(K__MAP_SCALE, 0, y + op->u.to, x, NULL, sqrtf(want) / sqrtf(now > 1e-5f ? now : 1e-5f), op->n);
}

/* --- experts --- */

/* A score, or none: at < 0. */
typedef struct { float v, p; int at; } k__cuda_score;

/* The larger one by v, the one of the lower number among equals. */
K_CUDA_FN k__cuda_score k__cuda_better(k__cuda_score a, k__cuda_score b) {
    return b.at >= 0 && (a.at < 0 || b.v > a.v || (b.v == a.v && b.at < a.at)) ? b : a;
}

/* The best of a warp's, in every lane. Numbers are below 2^24. */
K_CUDA_FN k__cuda_score k__cuda_best_of(k__cuda_score best) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) {
        k__cuda_score other;
        other.v = k__cuda_other(best.v, far);
        other.p = k__cuda_other(best.p, far);
        other.at = (int)k__cuda_other((float)best.at, far);
        best = k__cuda_better(best, other);
    }
    return best;
}

/* The best of a warp's n scores p, in every lane; `bias`, if any, is added for the comparison, where a NaN in front is taken, as
 * on the CPU. */
K_CUDA_FN k__cuda_score k__cuda_best_score(const float *p, const float *bias, int n) {
    k__cuda_score best = {-INFINITY, 0.0f, -1};
    for (int i = K_CUDA_THREAD % 32; i < n; i += 32) {
        k__cuda_score s = {bias ? p[i] + bias[i] : p[i], p[i], i};
        if (s.v != s.v) {
            if (!bias || i) continue;
            s.v = INFINITY;
        }
        best = k__cuda_better(best, s);
    }
    return k__cuda_best_of(best);
}

/* The scores of a warp's n logits: a lane changes its own. */
K_CUDA_FN void k__cuda_route_scores(bool sigmoid, float *p, int n) {
    const int lane = K_CUDA_THREAD % 32;
    float     most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < n; i += 32) most = p[i] > most ? p[i] : most;
    most = k__cuda_most(most);
    if (most == -INFINITY) most = 0.0f;
    for (int i = lane; i < n; i += 32) {
        p[i] = sigmoid ? k__act_ref(K_SIGMOID, p[i]) : k__exp_ref(p[i] - most);
        sum += p[i];
    }
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) sum = sum + k__cuda_other(sum, far);
    sum = k__share_of(sum);
    for (int i = lane; !sigmoid && i < n; i += 32) p[i] *= sum;
}

/* The score of a group of n experts: that of the best, or the sum of the two best, with the bias. */
K_CUDA_FN float k__cuda_group_score(const float *p, const float *bias, int n, bool alone) {
    float best = -INFINITY, next = -INFINITY;
    for (int i = 0; i < n; i++) {
        const float s = p[i] + (bias ? bias[i] : 0.0f);
        if (s > best) next = best, best = s;
        else if (s > next) next = s;
    }
    return n == 1 || alone ? best : best + next;
}

/* A warp takes the experts of all but the best groups out of the choice by p; among equal groups the lowest number stays. A lane
 * takes a group. score: space for a number of each. */
K_CUDA_FN void k__cuda_leave_groups(const k_row_op *op, float *p, float *score) {
    const int n = op->u.route.groups, each = op->n / n, lane = K_CUDA_THREAD % 32;
    k__cuda_sync_warp();                              /* all scores of experts are there */
    for (int g = lane; g < n; g += 32)
        score[g] = k__cuda_group_score(p + g * each, op->vec ? op->vec + g * each : NULL, each, op->u.route.alone != 0);
    k__cuda_sync_warp();
    for (int g = lane; g < n; g += 32) {
        int before = 0;
        for (int k = 0; k < n; k++) before += score[k] > score[g] || (k < g && score[k] == score[g]);
        for (int i = 0; i < each && before >= op->u.route.groups_used; i++) p[g * each + i] = -INFINITY;
    }
    k__cuda_sync_warp();
}

/* K_ROUTE_TWO, by one thread: such models have few experts. */
K_CUDA_FN void k__cuda_route_two(const float *p, int n, float scale, int32_t *pick, float *w) {
    for (int i = 0; i < 2; i++) {
        int best = -1;
        for (int k = 0; k < n; k++)
            if ((!i || k != pick[0]) && (best < 0 || p[k] > p[best])) best = k;
        const float top = p[best];
        float       sum = 0.0f;
        for (int k = 0; k < n; k++) {
            const float size = fabsf(p[k]) > top ? fabsf(p[k]) : top;
            if ((!i || k != pick[0]) && !((top - p[k]) / size > 2 * K_ROUTE_JITTER)) sum += k__exp_ref(p[k] - top);
        }
        pick[i] = best;
        w[i] = 1 / sum * scale;
    }
}

/* The experts with the largest scores, from the logits p. The first warp does it: the others wait at the next barrier. */
K_CUDA_FN void k__cuda_route(const k_row_op *op, float *p, int32_t *pick, float *w, float *score) {
    const int lane = K_CUDA_THREAD % 32;
    float     sum = 0.0f;
    if (K_CUDA_THREAD >= 32) return;
    if (op->u.route.router == K_ROUTE_TWO) {
        if (lane == 0) k__cuda_route_two(p, op->n, op->scale, pick, w);
        return;
    }
    k__cuda_route_scores(op->u.route.router == K_ROUTE_SIGMOID, p, op->n);
    if (op->u.route.groups > 1) k__cuda_leave_groups(op, p, score);
    for (int i = 0; i < op->u.route.used; i++) {
        k__cuda_score best = k__cuda_best_score(p, op->vec, op->n);
        if (best.at < 0) best.at = 0, best.p = NAN;   /* all are NaN */
        sum += best.p;
        if (lane == best.at % 32) p[best.at] = -INFINITY;
        if (lane == 0) pick[i] = best.at, w[i] = best.p;
    }
    for (int i = 0; lane == 0 && i < op->u.route.used; i++) w[i] = w[i] / (op->u.route.norm && sum > 0 ? sum : 1.0f) * op->scale;
}

/* y, slot r of an expert, by the weight of that expert for the slot's row. */
K_CUDA_FN void k__cuda_by_weight(const k_row_op *op, int r, float *y) {
    const int      row = ((const int32_t *)(const void *)op->in[2].x)[r];
    const int32_t *slot = (const int32_t *)(const void *)(op->in[1].x + (size_t)row * op->in[1].ld);
    int            i = 0;
    while (i + 1 < op->u.experts.used && slot[i] != r) i++;
    k__cuda_map(K__MAP_SCALE, 0, y, y, NULL, (op->in[0].x + (size_t)row * op->in[0].ld)[i], op->n);
}

/* y = the sum of the row's slots of x by their weights (NULL: 1), each with the bias of its expert, in the order of the ranks. */
K_CUDA_FN void k__cuda_mix(const k_row_op *op, const k_cuda_buf *x, const float *w, const int32_t *slot, float *y) {
    enum { MANY = 8 };
    const int n = op->n;
    for (int at = K_CUDA_THREAD; at < n; at += MANY * K_CUDA_THREADS) {
        float v[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) v[k] = 0.0f;
        for (int i = 0; i < op->u.experts.used; i++) {
            const float *from = x->x + (size_t)slot[i] * x->ld,
                         *bias = op->vec ? op->vec + (size_t)op->u.experts.of[slot[i]] * (size_t)n : NULL;
            const float by = w ? w[i] : 1.0f;
            K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
                if (at + k * K_CUDA_THREADS >= n) continue;
                v[k] = fmaf(by, from[at + k * K_CUDA_THREADS], v[k]);
                if (bias) v[k] = fmaf(by, bias[at + k * K_CUDA_THREADS], v[k]);
            }
        }
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++)
            if (at + k * K_CUDA_THREADS < n) y[at + k * K_CUDA_THREADS] = v[k];
    }
}

/* --- recurrent layers --- */

/* The way of one sequence through a step: positions [at, p) are in the log of its slot, [p, end) are rows of the batch from
 * `first` on. */
typedef struct {
    const k_state_place *st;
    int      first, at, p, end;                       /* at: where the slot is that is read */
    int      to, snap_at;                             /* where the slot will be that is written; the same of the snapshot */
    uint8_t *in, *out, *snap;                         /* slots; in NULL: zeros; snap NULL: none is made */
} k__cuda_walk;

K_CUDA_FN k__cuda_walk k__cuda_walk_of(const k_cuda_step *s, const k_state_place *st, int seq) {
    const k_turn t = s->b.turn[seq];
    k__cuda_walk w;
    w.st = st;
    w.first = s->seq_at[seq];
    w.at = t.at;
    w.p = s->b.pos[w.first];
    w.end = w.p + s->seq_at[seq + 1] - w.first;
    w.to = t.to;
    w.in = t.in < 0 ? NULL : st->base + (size_t)t.in * st->slot_bytes;
    w.out = st->base + (size_t)t.out * st->slot_bytes;
    w.snap = t.snap < 0 ? NULL : st->base + (size_t)t.snap * st->slot_bytes;
    w.snap_at = t.snap < 0 ? -1 : t.snap_at;
    return w;
}

/* Where a slot keeps the inputs of position t; its gates. */
K_CUDA_FN float *k__cuda_ring(const k_state_place *st, uint8_t *slot, int t) {
    return (float *)(void *)(slot + st->ring_at) + (size_t)(t % (st->taps - 1 + st->log)) * (size_t)st->width;
}
K_CUDA_FN float *k__cuda_log(const k_state_place *st, uint8_t *slot, int t) {
    return (float *)(void *)(slot + st->gate_at) + (size_t)(t % st->log) * (size_t)(st->n_gate[0] + st->n_gate[1]);
}

/* Position t >= p among the rows of the batch. */
K_CUDA_FN const float *k__cuda_at(const k__cuda_walk *w, const k_cuda_buf *x, int t) {
    return x->x + (size_t)(w->first + t - w->p) * x->ld;
}

/* The inputs x of position t; NULL: zeros. */
K_CUDA_FN const float *k__cuda_raw(const k__cuda_walk *w, const k_cuda_buf *x, int t) {
    if (t >= w->p) return k__cuda_at(w, x, t);
    return t < 0 || !w->in ? NULL : k__cuda_ring(w->st, w->in, t);
}

/* The gates of position t, x: alpha, i = 0, or beta, i = 1. */
K_CUDA_FN const float *k__cuda_gates(const k__cuda_walk *w, const k_cuda_buf *x, int i, int t) {
    return t >= w->p ? k__cuda_at(w, x, t) : k__cuda_log(w->st, w->in, t) + i * w->st->n_gate[0];
}

/* k_conv for channel ch of position t, from a bias on. */
K_CUDA_FN float k__cuda_convolve(const k__cuda_walk *w, const k_cuda_buf *x, const float *filter, int t, int ch, float sum) {
    const int taps = w->st->taps;
    for (int j = 0; j < taps; j++) {
        const float *raw = k__cuda_raw(w, x, t - taps + 1 + j);
        sum = fmaf(filter[(size_t)ch * (size_t)taps + (size_t)j], raw ? raw[ch] : 0.0f, sum);
    }
    return sum;
}

K_CUDA_FN void k__cuda_conv(const k_cuda_step *step, const k_row_op *op, int r, float *y) {
    const int          row = op->set ? step->row[1][r] : r;
    const k__cuda_walk w = k__cuda_walk_of(step, &op->u.state.at, step->b.seq[row]);
    for (int i = K_CUDA_THREAD; i < op->n; i += K_CUDA_THREADS) {
        const float v = k__cuda_convolve(&w, &op->in[0], op->vec, step->b.pos[row], i, op->bias ? op->bias[i] : 0.0f);
        y[i] = op->u.state.silu ? k__act_ref(K_SILU, v) : v;
    }
}

/* y = the inputs of the position before, zeros before a text. */
K_CUDA_FN void k__cuda_shift_row(const k_cuda_step *step, const k_row_op *op, int r, float *y) {
    const int          row = op->set ? step->row[1][r] : r;
    const k__cuda_walk w = k__cuda_walk_of(step, &op->u.state.at, step->b.seq[row]);
    const float       *x = k__cuda_raw(&w, &op->in[0], step->b.pos[row] - 1);
    for (int i = K_CUDA_THREAD; i < op->n; i += K_CUDA_THREADS) y[i] = x ? x[i] : 0.0f;
}

/* The inputs of positions [from, end) go into a slot. */
K_CUDA_FN void k__cuda_keep_inputs(const k__cuda_walk *w, const k_cuda_buf *x, uint8_t *slot, int from, int end) {
    for (int t = from < 0 ? 0 : from; t < end; t++) {
        const float *raw = k__cuda_raw(w, x, t);
        float       *to = k__cuda_ring(w->st, slot, t);
        if (raw != to) k__cuda_tile(to, raw, w->st->width);
    }
}

/* The first row of each sequence: what later steps need of inputs and gates goes into its slot, and before that, since it may be
 * the one that is read, into the snapshot. A thread has the same channels in both. */
K_CUDA_FN void k__cuda_keep(const k_cuda_step *step, const k_row_op *op, int r) {
    const k_state_place *st = &op->u.state.at;
    const k__cuda_walk  w = k__cuda_walk_of(step, st, step->b.seq[r]);
    if (r != w.first) return;
    if (w.snap) k__cuda_keep_inputs(&w, &op->in[0], w.snap, w.snap_at - (st->taps - 1), w.snap_at);
    k__cuda_keep_inputs(&w, &op->in[0], w.out, w.to - (st->taps - 1), w.end);
    for (int t = w.to; t < w.end; t++)
        for (int i = 0; i < 2; i++) {
            if (!st->n_gate[i]) continue;
            const float *from = k__cuda_gates(&w, &op->in[1 + i], i, t);
            float       *to = k__cuda_log(st, w.out, t) + i * st->n_gate[0];
            if (from != to) k__cuda_tile(to, from, st->n_gate[i]);
        }
}

/* --- the gated delta rule --- */

enum { K__CUDA_DELTA_ROWS = 8, K__CUDA_DELTA_SUMS = K_CUDA_DELTA_KEYS / 4 };   /* positions whose vectors are computed together;
                                                                                * rows of a thread, of up to S */

/* Vectors and numbers of some positions. */
typedef struct {
    float q[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_KEYS];
    float k[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_KEYS];
    float v[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_COLS];
    float decay[K__CUDA_DELTA_ROWS], beta[K__CUDA_DELTA_ROWS], kq[K__CUDA_DELTA_ROWS];   /* kq: k . q */
} k__cuda_delta_mem;

/* What the thread block works on: columns [col, col + cols) of a value head. Of the thread: its column, l, and how many rows it
 * has; 0: there is no such column. */
typedef struct { int head, key, col, cols, mine, l, rows; } k__cuda_delta_task;

K_CUDA_FN k__cuda_delta_task k__cuda_delta_of(const k_cuda_delta_args *a) {
    const k_state_place *st = &a->st;
    k__cuda_delta_task  d;
    d.head = K_CUDA_BLOCK_X % st->n_v;
    d.key = a->grouped ? d.head / (st->n_v / st->n_k) : d.head % st->n_k;
    d.col = K_CUDA_BLOCK_Y * K_CUDA_DELTA_COLS;
    d.cols = st->d_v - d.col < K_CUDA_DELTA_COLS ? st->d_v - d.col : K_CUDA_DELTA_COLS;
    d.mine = K_CUDA_THREAD / 4;
    d.l = K_CUDA_THREAD % 4;
    d.rows = d.mine < d.cols ? (st->d_k - d.l + 3) / 4 : 0;
    return d;
}

/* y = silu(the convolution) of `len` channels from ch on, for n positions from t on, ld values apart. */
K_CUDA_FN void k__cuda_delta_conv(const k_cuda_delta_args *a, const k__cuda_walk *w, int t, int n, int ch, int len,
                                  float *y, int ld) {
    for (int i = K_CUDA_THREAD; i < n * len; i += K_CUDA_THREADS)
        y[i / len * ld + i % len] = k__act_ref(K_SILU, k__cuda_convolve(w, &a->in[0], a->taps, t + i / len, ch + i % len, 0.0f));
}

/* k_l2_norm of a half warp's vector, then times s. */
K_CUDA_FN void k__cuda_delta_norm(float *x, int n, float eps, float s) {
    const float r = 1.0f / sqrtf(k__cuda_fold(k__cuda_lane(K__SUM_SQUARES, x, x, n, 0.0f, 0.0f)) + eps);
    for (int i = K_CUDA_THREAD % 16; i < n; i += 16) x[i] = x[i] * r * s;
}

/* Queries, keys, values and gates of n positions from t on. Positions of the log have no queries. Half warps norm a key or a
 * query each. */
K_CUDA_FN void k__cuda_delta_vectors(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                     int t, int n, k__cuda_delta_mem *m) {
    enum { ROWS = K__CUDA_DELTA_ROWS, LD = K_CUDA_DELTA_KEYS };
    const k_state_place *st = &a->st;
    const int           d_k = st->d_k, ask = t < w->p ? (w->p - t < n ? w->p - t : n) : 0, half = K_CUDA_THREAD / 16,
                        i = half % ROWS;
    k__cuda_delta_conv(a, w, t + ask, n - ask, d->key * d_k, d_k, m->q + ask * LD, LD);
    k__cuda_delta_conv(a, w, t, n, (st->n_k + d->key) * d_k, d_k, m->k, LD);
    k__cuda_delta_conv(a, w, t, n, 2 * st->n_k * d_k + d->head * st->d_v + d->col, d->cols, m->v, K_CUDA_DELTA_COLS);
    if (K_CUDA_THREAD < n) {
        const float alpha = k__cuda_gates(w, &a->in[1], 0, t + K_CUDA_THREAD)[d->head],
                    beta = k__cuda_gates(w, &a->in[2], 1, t + K_CUDA_THREAD)[d->head];
        m->decay[K_CUDA_THREAD] = k__exp_ref(a->decay[d->head] * k__softplus_ref(alpha + a->gate[d->head]));
        m->beta[K_CUDA_THREAD] = k__act_ref(K_SIGMOID, beta);
    }
    k__cuda_sync();
    if (half < ROWS) k__cuda_delta_norm(m->k + i * LD, i < n ? d_k : 0, a->eps, 1.0f);
    else k__cuda_delta_norm(m->q + i * LD, i >= ask && i < n ? d_k : 0, a->eps, 1.0f / sqrtf((float)d_k));
    k__cuda_sync();
    if (half < ROWS) {
        const float kq = k__cuda_fold(k__cuda_lane(K__SUM_DOT, m->k + i * LD, m->q + i * LD, i >= ask && i < n ? d_k : 0,
                                                   0.0f, 0.0f));
        if (K_CUDA_THREAD % 16 == 0) m->kq[i] = kq;
    }
    k__cuda_sync();
}

/* Where a slot keeps the first of the thread's sums; *ld: values between two rows. */
K_CUDA_FN float *k__cuda_delta_column(const k_state_place *st, uint8_t *slot, const k__cuda_delta_task *d, size_t *ld) {
    const int c = d->col + d->mine, first = c / K_DELTA_COLS * K_DELTA_COLS;
    *ld = (size_t)(st->d_v - first < K_DELTA_COLS ? st->d_v - first : K_DELTA_COLS);
    return (float *)(void *)(slot + st->sum_at) + ((size_t)d->head * (size_t)st->d_v + (size_t)first) * (size_t)st->d_k
           + (c - first) + (size_t)d->l * *ld;
}

/* Rows 4i + l of a column, s[i], by the thread with number l of its four: from a slot, NULL: zeros. */
K_CUDA_FN void k__cuda_delta_load(int S, const k_state_place *st, uint8_t *slot, const k__cuda_delta_task *d, float *s) {
    const int    rows = slot ? d->rows : 0;
    size_t       ld = 0;
    const float *from = rows ? k__cuda_delta_column(st, slot, d, &ld) : NULL;
    K_CUDA_UNROLL for (int i = 0; i < S; i++) {
        s[i] = i < rows ? *from : 0.0f;
        from += 4 * ld;
    }
}

K_CUDA_FN void k__cuda_delta_save(int S, const k_state_place *st, uint8_t *slot, const k__cuda_delta_task *d, const float *s) {
    size_t ld = 0;
    float *to = d->rows ? k__cuda_delta_column(st, slot, d, &ld) : NULL;
    K_CUDA_UNROLL for (int i = 0; i < S; i++) {
        if (i < d->rows) *to = s[i];
        to += 4 * ld;
    }
}

/* The column times x, in its four threads. */
K_CUDA_FN float k__cuda_delta_dot(int S, const k__cuda_delta_task *d, const float *s, const float *x) {
    float sum = 0.0f;
    x += d->l;
    K_CUDA_UNROLL for (int i = 0; i < S; i++)
        if (i < d->rows) sum = fmaf(s[i], x[4 * i], sum);
    sum = sum + k__cuda_other(sum, 2);
    return sum + k__cuda_other(sum, 1);
}

/* The sums go through position t, number i of the vectors. */
K_CUDA_FN void k__cuda_delta_position(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                      int t, int i, const k__cuda_delta_mem *m, float *s) {
    enum { S = K__CUDA_DELTA_SUMS };
    const float *k = m->k + i * K_CUDA_DELTA_KEYS, decay = m->decay[i];
    const float  u = k__cuda_delta_dot(S, d, s, k),
                 x = m->beta[i] * fmaf(-decay, u, d->rows ? m->v[i * K_CUDA_DELTA_COLS + d->mine] : 0.0f);
    if (t >= w->p) {
        const float o = fmaf(x, m->kq[i], decay * k__cuda_delta_dot(S, d, s, m->q + i * K_CUDA_DELTA_KEYS));
        if (d->rows && d->l == 0)
            a->out.x[(size_t)(w->first + t - w->p) * a->out.ld + (size_t)(d->head * a->st.d_v + d->col + d->mine)] = o;
    }
    if (t + 1 == w->end && w->snap_at != w->end) return;   /* no slot keeps what would come */
    K_CUDA_UNROLL for (int j = 0; j < S; j++)
        if (j < d->rows) s[j] = fmaf(k[4 * j + d->l], x, decay * s[j]);
}

/* Whether the sums before position t go to the slot that is written, or, snap, to the snapshot. */
K_CUDA_FN bool k__cuda_keeps(const k__cuda_walk *w, int t, int snap) {
    return t == (snap ? w->snap_at : w->to) && (snap || t > w->at || w->in != w->out);
}

/* Before position t: the slots that keep these sums. */
K_CUDA_FN void k__cuda_delta_keep(int S, const k__cuda_walk *w, const k__cuda_delta_task *d, int t, const float *s) {
    K_CUDA_ROLL for (int snap = 0; snap < 2; snap++)
        if (k__cuda_keeps(w, t, snap)) k__cuda_delta_save(S, w->st, snap ? w->snap : w->out, d, s);
}

K_CUDA_FN void k__cuda_delta_run(const k_cuda_delta_args *a) {
    K_CUDA_SHARED(k__cuda_delta_mem, m, 1);
    const int                seq = K_CUDA_BLOCK_X / a->st.n_v;
    const k__cuda_delta_task d = k__cuda_delta_of(a);
    const bool               any = d.mine - K_CUDA_THREAD % 32 / 4 < d.cols;   /* the warp has a column */
    float                    s[K__CUDA_DELTA_SUMS];
    if (seq >= a->step->b.n_seq) return;
    const k__cuda_walk w = k__cuda_walk_of(a->step, &a->st, seq);
    k__cuda_delta_load(K__CUDA_DELTA_SUMS, w.st, w.in, &d, s);
    for (int t = w.at, i = 0;; t++, i = (i + 1) % K__CUDA_DELTA_ROWS) {
        k__cuda_delta_keep(K__CUDA_DELTA_SUMS, &w, &d, t, s);
        if (t == w.end) break;
        if (i == 0 && t > w.at) k__cuda_sync();       /* the vectors before these have been used */
        if (i == 0) k__cuda_delta_vectors(a, &w, &d, t, w.end - t < K__CUDA_DELTA_ROWS ? w.end - t : K__CUDA_DELTA_ROWS, m);
        if (any) k__cuda_delta_position(a, &w, &d, t, i, m, s);
    }
}

/* --- states with a decay for each row, or with two keys: k_outer --- */

enum { K__CUDA_OUTER_VALUES = 8 * K_CUDA_DELTA_KEYS };   /* of positions whose vectors are computed together: 8, of long keys 4 */

/* Vectors and numbers of some positions, as k_outer has them; vectors are LD values apart. */
typedef struct {
    float q[K__CUDA_OUTER_VALUES], p[K__CUDA_OUTER_VALUES], k[K__CUDA_OUTER_VALUES], w[K__CUDA_OUTER_VALUES],
          r[K__CUDA_OUTER_VALUES];
    float v[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_COLS];
    float beta[K__CUDA_DELTA_ROWS], kq[K__CUDA_DELTA_ROWS], rq[K__CUDA_DELTA_ROWS];
} k__cuda_outer_mem;

/* Where a half warp works: on the vectors of position t, number i, which is a row of the batch where `out`. n: their values, 0:
 * it has no position. */
typedef struct { int i, t, n, at; bool out; } k__cuda_vector;

/* The sum of n products, in the summation order of [vec], for a half warp. */
K_CUDA_FN float k__cuda_half_dot(const float *a, const float *b, int n) {
    return k__cuda_fold(k__cuda_lane(K__SUM_DOT, a, b, n, 0.0f, 0.0f));
}

/* Numbers of a position. */
K_CUDA_FN void k__cuda_outer_numbers(k__cuda_outer_mem *m, const k__cuda_vector *h, float beta, float kq, float rq) {
    if (K_CUDA_THREAD % 16 || !h->n) return;
    m->beta[h->i] = beta, m->kq[h->i] = kq, m->rq[h->i] = rq;
}

/* Mamba-2: a row has values, keys, queries; the gate is the step of a head. */
K_CUDA_FN void k__cuda_ssd_vectors(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                   const k__cuda_vector *h, k__cuda_outer_mem *m) {
    const int    n = h->n, n_k = a->st.n_k * a->st.d_k, l = K_CUDA_THREAD % 16;
    const float *k = n ? k__cuda_raw(w, &a->in[0], h->t) + a->st.n_v * a->st.d_v + d->key * a->st.d_k : NULL,
                *q = n ? k + n_k : NULL;
    const float  dt = n ? k__softplus_ref(k__cuda_gates(w, &a->in[1], 0, h->t)[d->head] + a->gate[d->head]) : 0.0f,
                 fall = k__exp_ref(a->decay[d->head] * dt), kq = k__cuda_half_dot(k, q, h->out ? n : 0);
    for (int j = l; j < n; j += 16) {
        m->k[h->at + j] = k[j];
        m->w[h->at + j] = fall;
        if (h->out) m->q[h->at + j] = fall * q[j];
    }
    k__cuda_outer_numbers(m, h, dt, kq, a->skip[d->head]);
}

/* RWKV-7: a row has queries, decays, keys, values, rates, each of all heads. */
K_CUDA_FN void k__cuda_wkv7_vectors(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                    const k__cuda_vector *h, k__cuda_outer_mem *m) {
    const int    n = h->n, off = d->head * a->st.d_k, all = a->st.n_v * a->st.d_k, l = K_CUDA_THREAD % 16;
    const float *row = n ? k__cuda_raw(w, &a->in[0], h->t) + off : NULL, *k = n ? row + 2 * all : NULL;
    float       *q = m->q + h->at, *fix = m->p + h->at, *b = m->k + h->at, *fall = m->w + h->at, *key = m->r + h->at;
    for (int j = l; j < n; j += 16) {
        fall[j] = k__exp_ref(-0.606531f * k__act_ref(K_SIGMOID, row[all + j] + a->gate[off + j]));
        b[j] = k__act_ref(K_SIGMOID, row[4 * all + j] + a->rate[off + j]);
        fix[j] = k[j] * a->key[0][off + j];
        key[j] = k[j] * fmaf(b[j] - 1, a->key[1][off + j], 1);
        q[j] = row[j] * a->shares[off + j];
    }
    k__cuda_sync_warp();
    const float length = 1.0f / sqrtf(k__cuda_fold(k__cuda_lane(K__SUM_SQUARES, fix, fix, n, 0.0f, 0.0f)) + a->eps);
    for (int j = l; j < n; j += 16) {
        fix[j] = fix[j] * length;
        b[j] = b[j] * fix[j];
    }
    k__cuda_sync_warp();
    const int   some = h->out ? n : 0;
    const float share = k__cuda_half_dot(q, key, some), kq = k__cuda_half_dot(row, b, some),
                rq = k__cuda_half_dot(row, key, some);
    if (h->out && l == 0 && d->col == 0) *(a->share.x + (size_t)(w->first + h->t - w->p) * a->share.ld + (size_t)d->head) = share;
    k__cuda_sync_warp();                              /* the query for it has been used */
    for (int j = l; j < some; j += 16) q[j] = row[j] * fall[j];
    k__cuda_outer_numbers(m, h, 1.0f, kq, rq);
}

/* RWKV-6 and gated linear attention: a row has queries, decays, keys, values, the last two of key heads. */
K_CUDA_FN void k__cuda_wkv6_vectors(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                    const k__cuda_vector *h, k__cuda_outer_mem *m) {
    const int    n = h->n, off = d->head * a->st.d_k, all = a->st.n_v * a->st.d_k, some = h->out ? n : 0, l = K_CUDA_THREAD % 16;
    const bool   gla = a->rule == K_STATE_GLA;
    const float *row = n ? k__cuda_raw(w, &a->in[0], h->t) : NULL, *r = n ? row + off : NULL,
                *k = n ? row + 2 * all + d->key * a->st.d_k : NULL, by = 1 / sqrtf((float)a->st.d_k);
    for (int j = l; j < n; j += 16) {
        const float fall = k__exp_ref(-k__exp_ref(row[all + off + j] + a->gate[off + j])), own = gla ? k[j] * (1 - fall) : k[j];
        m->w[h->at + j] = fall;
        m->k[h->at + j] = own;
        if (h->out) m->q[h->at + j] = gla ? r[j] * by : own * a->skip[off + j];
    }
    k__cuda_sync_warp();
    const float kq = k__cuda_half_dot(m->q + h->at, gla ? m->k + h->at : r, some);
    k__cuda_sync_warp();                              /* the query for it has been used */
    for (int j = l; j < some; j += 16) m->q[h->at + j] = gla ? m->q[h->at + j] * m->w[h->at + j] : r[j];
    k__cuda_outer_numbers(m, h, 1.0f, kq, 0.0f);
}

/* Kimi delta attention, after the convolution: norms of key and query, a decay for each channel. */
K_CUDA_FN void k__cuda_kda_vectors(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                   const k__cuda_vector *h, k__cuda_outer_mem *m) {
    const int    n = h->n, off = d->head * a->st.d_k, some = h->out ? n : 0, l = K_CUDA_THREAD % 16;
    const float *gate = n ? k__cuda_gates(w, &a->in[1], 0, h->t) + off : NULL,
                 beta = n ? k__act_ref(K_SIGMOID, k__cuda_gates(w, &a->in[2], 1, h->t)[d->head]) : 0.0f;
    k__cuda_delta_norm(m->k + h->at, n, a->eps, 1.0f);
    k__cuda_delta_norm(m->q + h->at, some, a->eps, 1.0f / sqrtf((float)a->st.d_k));
    k__cuda_sync_warp();
    const float kq = k__cuda_half_dot(m->k + h->at, m->q + h->at, some);
    k__cuda_sync_warp();                              /* the query for it has been used */
    for (int j = l; j < n; j += 16) {
        const float fall = k__exp_ref(a->decay[d->head] * k__softplus_ref(gate[j] + a->gate[off + j]));
        m->w[h->at + j] = fall;
        m->p[h->at + j] = m->k[h->at + j] * fall;
        if (h->out) m->q[h->at + j] = m->q[h->at + j] * fall;
    }
    k__cuda_outer_numbers(m, h, beta, kq, 0.0f);
}

/* Values of n positions from t on, where they are a part of the inputs, `at` values from their beginning. */
K_CUDA_FN void k__cuda_outer_values(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d, int t, int n,
                                    int at, float *v) {
    for (int i = K_CUDA_THREAD; i < n * d->cols; i += K_CUDA_THREADS)
        v[i / d->cols * K_CUDA_DELTA_COLS + i % d->cols] = k__cuda_raw(w, &a->in[0], t + i / d->cols)[at + d->col + i % d->cols];
}

/* Vectors, values and numbers of n positions from t on; vectors are LD values apart. A half warp has a position. Positions of the
 * log have no queries. */
K_CUDA_FN void k__cuda_outer_vectors(int LD, const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                     int t, int n, k__cuda_outer_mem *m) {
    const k_state_place *st = &a->st;
    const int           d_k = st->d_k, d_v = st->d_v, ask = t < w->p ? (w->p - t < n ? w->p - t : n) : 0,
                        half = K_CUDA_THREAD / 16;
    k__cuda_vector      h;
    h.i = half, h.t = t + half, h.n = half < n ? d_k : 0, h.at = half < n ? half * LD : 0, h.out = half >= ask && half < n;
    if (a->rule == K_STATE_KDA) {
        k__cuda_delta_conv(a, w, t + ask, n - ask, d->key * d_k, d_k, m->q + ask * LD, LD);
        k__cuda_delta_conv(a, w, t, n, (st->n_k + d->key) * d_k, d_k, m->k, LD);
        k__cuda_delta_conv(a, w, t, n, 2 * st->n_k * d_k + d->head * d_v + d->col, d->cols, m->v, K_CUDA_DELTA_COLS);
        k__cuda_sync();
        k__cuda_kda_vectors(a, w, d, &h, m);
    } else if (a->rule == K_STATE_SSD) {
        k__cuda_outer_values(a, w, d, t, n, d->head * d_v, m->v);
        k__cuda_ssd_vectors(a, w, d, &h, m);
    } else if (a->rule == K_STATE_WKV7) {
        k__cuda_outer_values(a, w, d, t, n, (3 * st->n_v + d->head) * d_k, m->v);
        k__cuda_wkv7_vectors(a, w, d, &h, m);
    } else {
        k__cuda_outer_values(a, w, d, t, n, (2 * st->n_v + st->n_k + d->key) * d_k, m->v);
        k__cuda_wkv6_vectors(a, w, d, &h, m);
    }
    k__cuda_sync();
}

/* The sums go through position t, number i of the vectors. fix: there is a correction; second: a second key. */
K_CUDA_FN void k__cuda_outer_position(int S, const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d,
                                      int t, int i, const k__cuda_outer_mem *m, float *s) {
    const bool   second = a->rule == K_STATE_WKV7, fix = second || a->rule == K_STATE_KDA;
    const int    at = i * 4 * S;
    const float  v = d->rows ? m->v[i * K_CUDA_DELTA_COLS + d->mine] : 0.0f,
                 u = fix ? k__cuda_delta_dot(S, d, s, m->p + at) : 0.0f, x = m->beta[i] * ((second ? 0.0f : v) - u);
    if (t >= w->p) {
        const float o = fmaf(m->rq[i], v, fmaf(m->kq[i], x, k__cuda_delta_dot(S, d, s, m->q + at)));
        if (d->rows && d->l == 0)
            a->out.x[(size_t)(w->first + t - w->p) * a->out.ld + (size_t)(d->head * a->st.d_v + d->col + d->mine)] = o;
    }
    if (t + 1 == w->end && w->snap_at != w->end) return;   /* no slot keeps what would come */
    K_CUDA_UNROLL for (int j = 0; j < S; j++) {
        const int row = at + 4 * j + d->l;
        if (j >= d->rows) continue;
        s[j] = fmaf(m->k[row], x, m->w[row] * s[j]);
        if (second) s[j] = fmaf(m->r[row], v, s[j]);
    }
}

/* Keys have up to 4 * S values. */
K_CUDA_FN void k__cuda_outer_run(int S, const k_cuda_delta_args *a) {
    K_CUDA_SHARED(k__cuda_outer_mem, m, 1);
    const int                rows = K__CUDA_OUTER_VALUES / (4 * S), seq = K_CUDA_BLOCK_X / a->st.n_v;
    const k__cuda_delta_task d = k__cuda_delta_of(a);
    const bool               any = d.mine - K_CUDA_THREAD % 32 / 4 < d.cols;   /* the warp has a column */
    float                    s[K_CUDA_WIDE_KEYS / 4];
    if (seq >= a->step->b.n_seq) return;
    const k__cuda_walk w = k__cuda_walk_of(a->step, &a->st, seq);
    k__cuda_delta_load(S, w.st, w.in, &d, s);
    for (int t = w.at, i = 0;; t++, i = (i + 1) % rows) {
        k__cuda_delta_keep(S, &w, &d, t, s);
        if (t == w.end) break;
        if (i == 0 && t > w.at) k__cuda_sync();       /* the vectors before these have been used */
        if (i == 0) k__cuda_outer_vectors(4 * S, a, &w, &d, t, w.end - t < rows ? w.end - t : rows, m);
        if (any) k__cuda_outer_position(S, a, &w, &d, t, i, m, s);
    }
}

/* --- the scan of Mamba: eight threads have a channel, thread l values l, l + 8, ... of its state, as the lanes of k_scan --- */

enum { K__CUDA_SCAN_SUMS = K_CUDA_SCAN_KEYS / 8 };

/* The sums go through position t, of channel ch: a thread has n of them. */
K_CUDA_FN void k__cuda_scan_position(const k_cuda_delta_args *a, const k__cuda_walk *w, int ch, int l, int n, const float *decay,
                                     int t, float *s) {
    const int    d_k = a->st.d_k;
    const float *row = k__cuda_raw(w, &a->in[0], t), *k = row + a->st.n_v * a->st.d_v + l, *q = k + d_k;
    const float  v = n ? row[ch] : 0.0f,
                 dt = n ? k__softplus_ref(k__cuda_gates(w, &a->in[1], 0, t)[ch] + a->gate[ch]) : 0.0f, x = dt * v;
    const bool   stays = t + 1 == w->end && w->snap_at != w->end;   /* no slot keeps what would come */
    float        sum = 0.0f;
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_SCAN_SUMS; j++) {
        if (j >= n) continue;
        const float now = fmaf(k[8 * j], x, k__exp_ref(dt * decay[j]) * s[j]);
        if (t >= w->p) sum = fmaf(now, q[8 * j], sum);
        if (!stays) s[j] = now;
    }
    if (t < w->p) return;
    K_CUDA_UNROLL for (int far = 4; far; far /= 2) sum = sum + k__cuda_other(sum, far);
    if (n && l == 0) a->out.x[(size_t)(w->first + t - w->p) * a->out.ld + (size_t)ch] = fmaf(a->skip[ch], v, sum);
}

K_CUDA_FN void k__cuda_scan_run(const k_cuda_delta_args *a) {
    const k_state_place *st = &a->st;
    const int           seq = K_CUDA_BLOCK_X / st->n_v, c = K_CUDA_BLOCK_Y * K_CUDA_SCAN_COLS + K_CUDA_THREAD / 8,
                        ch = K_CUDA_BLOCK_X % st->n_v * st->d_v + c, l = K_CUDA_THREAD % 8,
                        n = c < st->d_v ? (st->d_k - l + 7) / 8 : 0;
    const size_t        at = (size_t)ch * (size_t)st->d_k + (size_t)l;
    float               s[K__CUDA_SCAN_SUMS], decay[K__CUDA_SCAN_SUMS];
    if (seq >= a->step->b.n_seq) return;
    const k__cuda_walk w = k__cuda_walk_of(a->step, st, seq);
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_SCAN_SUMS; j++) {
        s[j] = w.in && j < n ? ((const float *)(const void *)(w.in + st->sum_at))[at + 8 * (size_t)j] : 0.0f;
        decay[j] = j < n ? a->decay[at + 8 * (size_t)j] : 0.0f;
    }
    for (int t = w.at;; t++) {
        K_CUDA_ROLL for (int snap = 0; snap < 2; snap++) {
            float *to = (float *)(void *)((snap && w.snap ? w.snap : w.out) + st->sum_at) + at;
            K_CUDA_UNROLL for (int j = 0; j < K__CUDA_SCAN_SUMS; j++)
                if (j < n && k__cuda_keeps(&w, t, snap)) to[8 * j] = s[j];
        }
        if (t == w.end) break;
        k__cuda_scan_position(a, &w, ch, l, n, decay, t, s);
    }
}

/* --- the operations --- */

/* Those that work on values one by one. */
K_CUDA_FN void k__cuda_row_map(const k_row_op *op, int r, float *y, const float *a, const float *b) {
    const int n = op->n, expert = op->kind == K_ROW_BIAS && op->u.experts.of ? op->u.experts.of[r] : 0;
    switch (op->kind) {
    case K_ROW_BIAS: k__cuda_map(K__MAP_ADD, 0, y, y, op->vec + (size_t)expert * (size_t)n, 0.0f, n); break;
    case K_ROW_ADD:
        if (op->scale == 0.0f) k__cuda_map(K__MAP_ADD, 0, y, a, b, 0.0f, n);
        else k__cuda_map(K__MAP_AXPY, 0, y, a, b, op->scale, n);
        break;
    case K_ROW_SCALE:
        if (op->vec) k__cuda_map(K__MAP_MUL, 0, y, y, op->vec, 0.0f, n);
        else k__cuda_map(K__MAP_SCALE, 0, y, y, NULL, op->scale, n);
        break;
    case K_ROW_CAP: k__cuda_map(K__MAP_CAP, 0, y, y, NULL, op->scale, n); break;
    case K_ROW_CLAMP: k__cuda_map(K__MAP_CLAMP, 0, y, y, NULL, op->scale, n); break;
    case K_ROW_ACTIVATE:
        if (op->u.act == K_ROW_CLIP) k__cuda_map(K__MAP_CLIP, 0, y, y, a, 0.0f, n);
        else k__cuda_map(K__MAP_ACT, op->u.act, y, y, a, 0.0f, n);
        break;
    case K_ROW_ADD_SCALED: k__cuda_map(K__MAP_AXPY, 0, y, y, a, *b, n); break;
    case K_ROW_SCALE_BY:
        a = op->in[0].x ? a : op->vec;
        for (int h = 0; h == 0 || h < op->n_head; h++) k__cuda_map(K__MAP_SCALE, 0, y + h * n, y + h * n, NULL, a[h], n);
        break;
    case K_ROW_XIELU:
        for (int i = K_CUDA_THREAD; i < n; i += K_CUDA_THREADS)
            y[i] = k__xielu_ref(y[i], k__exp_ref(k__xielu_low(y[i], &op->u.xielu)), &op->u.xielu);
        break;
    case K_ROW_MUL: k__cuda_map(K__MAP_MUL, 0, y + op->u.mul.to, a + op->u.mul.a, b + op->u.mul.b, 0.0f, n); break;
    default: break;
    }
}

/* Operation `op` for its row r. */
K_CUDA_FN void k__cuda_row_op(const k_cuda_step *step, const k_row_op *op, int r, k__cuda_rows_mem *m) {
    const int row = op->kind == K_ROW_DEAL ? 0 : r;   /* its tasks are more than rows */
    float    *a = k__cuda_in(step, op, 0, row), *b = k__cuda_in(step, op, 1, row), *y = op->out.x + (size_t)r * op->out.ld;
    switch (op->kind) {
    case K_ROW_NORM:
        if (op->n_head > 1) k__cuda_norm_heads(op, a, y);
        else k__cuda_norm(op, a, y, m);
        break;
    case K_ROW_PICK: k__cuda_pick(op, a, y); break;
    case K_ROW_ROPE: k__cuda_rope(op, y, a + op->u.rope.at); break;
    case K_ROW_HADAMARD:
        if (!op->u.hadamard.at) k__cuda_hadamard(y, op->n * op->n_head, op->u.hadamard.size);
        else k__cuda_hadamard_heads(y, op->n_head, op->n, op->u.hadamard.at, op->u.hadamard.size, op->u.hadamard.tail);
        break;
    case K_ROW_STORE: k__cuda_store(step, op, r, a, b); break;
    case K_ROW_FORM: k__cuda_form(op, y, r, m); break;
    case K_ROW_GATE: {
        const float s = k__cuda_sum_of(K__SUM_DOT, a, op->vec, op->n, 0.0f, m);
        if (K_CUDA_THREAD == K_CUDA_THREADS - 1) *y = k__act_ref(K_SIGMOID, s);   /* any of them */
        break;
    }
    case K_ROW_SPARSE: k__cuda_sparse(op, y, m); break;
    case K_ROW_BLEND: k__cuda_blend(op, a, b, y); break;
    case K_ROW_CORRECT: k__cuda_correct(op, a, b, k__cuda_in(step, op, 2, r), y); break;
    case K_ROW_RAISE: k__cuda_raise(op, a, y); break;
    case K_ROW_LEVEL: k__cuda_level(op, a, b, y, m); break;
    case K_ROW_ROUTE:
        k__cuda_route(op, a, (int32_t *)(void *)y, op->u.route.weight.x + (size_t)r * op->u.route.weight.ld, m->tile);
        break;
    case K_ROW_FAMILY:
        for (int i = K_CUDA_THREAD; i < op->n; i += K_CUDA_THREADS)
            ((int32_t *)(void *)y)[i] = ((const int32_t *)(const void *)a)[i] / op->u.share;
        break;
    case K_ROW_DEAL: k__cuda_deal(step, op, r, y); break;
    case K_ROW_LERP: k__cuda_lerp(op, a, b, op->vec ? op->vec : k__cuda_in(step, op, 2, r), y); break;
    case K_ROW_ADD_HEADS: k__cuda_add_heads(op, a, b, y); break;
    case K_ROW_CONV: k__cuda_conv(step, op, r, y); break;
    case K_ROW_SHIFT: k__cuda_shift_row(step, op, r, y); break;
    case K_ROW_KEEP: k__cuda_keep(step, op, r); break;
    case K_ROW_WEIGH: k__cuda_by_weight(op, r, y); break;
    case K_ROW_MIX: k__cuda_mix(op, &op->in[0], b, (const int32_t *)(const void *)k__cuda_in(step, op, 2, r), y); break;
    default: k__cuda_row_map(op, r, y, a, b);
    }
}

/* --- the sort of slots: each warp takes a run of them, 32 at a time --- */

enum { K__CUDA_WARPS = K_CUDA_THREADS / 32 };

typedef struct {
    int32_t at[K__CUDA_WARPS][K_CUDA_EXPERTS];        /* slots of each run; then the next one of each run */
    int32_t all[K_CUDA_EXPERTS];                      /* slots of each expert */
} k__cuda_sort_mem;

/* Lanes with the same number: those in front of this one; all of them. */
K_CUDA_FN void k__cuda_alike(int e, int *rank, int *all) {
    const int lane = K_CUDA_THREAD % 32;
    *rank = 0, *all = 1;
    for (int far = 1; far < 32; far++) {
        const bool same = (int)k__cuda_other((float)e, far) == e;
        *all += same;
        *rank += same && (lane ^ far) < lane;
    }
}

/* Every slot in order: counted, or written to its place. */
K_CUDA_FN void k__cuda_slots(const k_cuda_sort_args *a, int n, bool place, k__cuda_sort_mem *m) {
    const int warp = K_CUDA_THREAD / 32, turns = (n + K_CUDA_THREADS - 1) / K_CUDA_THREADS;
    for (int i = 0; i < turns; i++) {
        const int j = (warp * turns + i) * 32 + K_CUDA_THREAD % 32, r = j / a->used, k = j % a->used;
        const int e = j < n ? ((const int32_t *)(const void *)(a->pick.x + (size_t)r * a->pick.ld))[k] : -1;
        int       rank, all;
        k__cuda_alike(e, &rank, &all);
        k__cuda_sync_warp();                          /* the run's slots before these are counted */
        const int at = e >= 0 ? m->at[warp][e] : 0;
        k__cuda_sync_warp();                          /* all know where their experts are */
        if (e < 0) continue;
        if (rank == all - 1) m->at[warp][e] = at + all;
        if (!place) continue;
        a->row[at + rank] = r;
        a->expert[at + rank] = e;
        ((int32_t *)(void *)(a->slot_of.x + (size_t)r * a->slot_of.ld))[k] = at + rank;
    }
}

/* Tiles of expert e, whose slots begin at `first`; `before`: tiles of the experts before it. */
K_CUDA_FN void k__cuda_put_tiles(int32_t *to, int e, int first, int n, int before, int cols, bool last) {
    if (!to) return;
    for (int i = 0; i < n; i += cols, before++) {
        int32_t *tile = to + 1 + 3 * before;
        tile[0] = e;
        tile[1] = first + i;
        tile[2] = n - i < cols ? n - i : cols;
    }
    if (last) to[0] = before;
}

/* Where each expert's slots begin, and those of each run; tiles. */
K_CUDA_FN void k__cuda_begins(const k_cuda_sort_args *a, k__cuda_sort_mem *m) {
    const int E = a->n_expert;
    for (int e = K_CUDA_THREAD; e < E; e += K_CUDA_THREADS) {
        int n = 0;
        for (int w = 0; w < K__CUDA_WARPS; w++) n += m->at[w][e];
        m->all[e] = n;
    }
    k__cuda_sync();
    for (int e = K_CUDA_THREAD; e < E; e += K_CUDA_THREADS) {
        int first = 0, few = 0, many = 0, at;
        for (int i = 0; i < e; i++) {
            first += m->all[i];
            few += (m->all[i] + K_CUDA_COLS - 1) / K_CUDA_COLS;
            many += (m->all[i] + K_CUDA_MANY_COLS - 1) / K_CUDA_MANY_COLS;
        }
        k__cuda_put_tiles(a->tiles[0], e, first, m->all[e], few, K_CUDA_COLS, e == E - 1);
        k__cuda_put_tiles(a->tiles[1], e, first, m->all[e], many, K_CUDA_MANY_COLS, e == E - 1);
        at = first;
        for (int w = 0; w < K__CUDA_WARPS; w++) {
            const int n = m->at[w][e];
            m->at[w][e] = at;
            at += n;
        }
    }
}
