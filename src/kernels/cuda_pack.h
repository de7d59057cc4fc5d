/* ===== [cuda_pack] packing, and the kernels by name ===== */

/* --- packing ---
 * A thread block packs a strip, or every so many columns of it, K_CUDA_PACK blocks of 256 columns at a time: a thread unpacks a
 * block of one row and writes its scales, then a thread writes the words of codes that a lane has of 64 columns. */

enum { K_CUDA_PACK = 4 };

K_CUDA_FN k__form k__cuda_form_of(uint32_t type) {
#define K__CUDA_FORM(id, name, ...) case K_##id: { const k__form f = {__VA_ARGS__}; return f; }
    switch (type) {
    K__FORMS(K__CUDA_FORM)
    default: break;
    }
    const k__form none = {0, 0, 0, 0, 0, 0, NULL};
    return none;
}

K_CUDA_FN void k__cuda_decode(uint32_t type, const void *src, int n, k_urow *u) {
#define K__CUDA_DECODE(id, name, ...) case K_##id: k_unpack_##name(src, n, u); break;
    switch (type) {
    K__FORMS(K__CUDA_DECODE)
    default: break;
    }
}

/* Row r of the strip in block b of the matrix. */
K_CUDA_FN void k__cuda_unpack(const k_cuda_pack_args *a, int r, int b, k__unpacked *u) {
    const int row = K_PACK_ROWS * K_CUDA_BLOCK_X + r, left = a->n - K_SUPER * b, len = left < K_SUPER ? left : K_SUPER;
    k_urow    to;
    to.q = u->q, to.sc = u->sc, to.mn = u->mn, to.d = &u->d, to.dm = &u->dm, to.fs = u->fs, to.fm = u->fm;
    if (row >= a->nr || len < K_SUPER) memset(u, 0, sizeof *u);
    if (row >= a->nr) return;
    const uint8_t *src = a->src + (size_t)row * a->row_bytes;
    k__cuda_decode(a->type, src + k__row_front(a->type) + (size_t)b * a->block_bytes, len, &to);
    if (k__row_front(a->type)) u->d = k__row_scale(a->type, src);
}

/* Units that block b of a row has. */
K_CUDA_FN int k__cuda_units(const k__form *f, const k_cuda_pack_args *a, int b) {
    const int left = a->n - K_SUPER * b;
    return (int)k__units(f, left < K_SUPER ? left : K_SUPER);
}

/* The scales of row r in block b, whose units are at `block`. */
K_CUDA_FN void k__cuda_put_heads(const k__form *f, const k_cuda_pack_args *a, const k__unpacked *u, int b, int r,
                                 uint8_t *block) {
    uint8_t *h = block + k__head_at(f);
    for (int i = 0; i < k__cuda_units(f, a, b); i++, h += k__unit_bytes(f)) {
        uint32_t v[5];
        k__head_row(f, u, 64 * f->segs * i, v);
        K_CUDA_UNROLL for (int k = 0; k < 5; k++)
            if (k < k__head_lines(f->head)) memcpy(h + k__cuda_head_at(f->head, r, k), &v[k], 4);
    }
}

/* A lane's words of 64 columns, number s of their unit, whose codes are at p. */
K_CUDA_FN void k__cuda_put_codes(const k__form *f, const k__cuda_line *line, int s, int lane, uint8_t *p) {
    for (int b = 1; b <= 8; b *= 2)
        for (int i = 0; f->bits & b && i < b; i++) {
            const uint32_t v = k__cuda_word(f->bits, b, i, lane, line);
            memcpy(p + k__cuda_word_at(f->bits, f->segs, b, b * s + i, lane), &v, 4);
        }
}

K_CUDA_FN void k__cuda_pack(const k_cuda_pack_args *a) {
    K_CUDA_SHARED(k__unpacked, u, K_CUDA_PACK * K_PACK_ROWS);
    K_CUDA_SHARED(k__cuda_line, line, K_CUDA_PACK * 4 * 16);    /* [block][64 columns][k-line][row] */
    K_CUDA_SHARED(uint8_t, code, 256);
    const k__form form = k__cuda_form_of(a->type), *f = &form;
    const int    me = K_CUDA_THREAD, nb = (a->n + K_SUPER - 1) / K_SUPER;
    const size_t unit = k__unit_bytes(f), block = unit * (size_t)(4 / f->segs);
    uint8_t     *strip = a->dst + (size_t)K_CUDA_BLOCK_X * ((size_t)k__units(f, a->n) * unit);
    if (me == 0) k__codes_of(f, code);
    for (int b0 = K_CUDA_PACK * K_CUDA_BLOCK_Y; b0 < nb; b0 += K_CUDA_PACK * K_CUDA_GRID_Y) {
        const int n = nb - b0 < K_CUDA_PACK ? nb - b0 : K_CUDA_PACK;
        if (me < n * K_PACK_ROWS) {
            const int b = b0 + me / K_PACK_ROWS, r = me % K_PACK_ROWS;
            k__cuda_unpack(a, r, b, u + me);
            k__cuda_put_heads(f, a, u + me, b, r, strip + (size_t)b * block);
        }
        k__cuda_sync();
        for (int i = me; i < n * 4 * 16 * K_PACK_ROWS; i += K_CUDA_THREADS) {
            const int     r = i % K_PACK_ROWS, k = i / K_PACK_ROWS, s = k / 16;
            const int8_t *q = u[s / 4 * K_PACK_ROWS + r].q + s % 4 * 64 + k % 16 * 4;
            uint32_t      v = 0;
            for (int j = 0; j < 4; j++) v |= (uint32_t)k__code_of(f, code, q[j]) << 8 * j;
            line[k][r] = v;
        }
        k__cuda_sync();
        for (int i = me; i < n * 4 * 32; i += K_CUDA_THREADS) {
            const int s = i / 32, b = b0 + s / 4, at = s % 4 / f->segs;
            if (at < k__cuda_units(f, a, b))
                k__cuda_put_codes(f, line + 16 * s, s % f->segs, i % 32,
                                  strip + (size_t)b * block + (size_t)at * unit + k__codes_at(f));
        }
    }
}

/* --- kernels --- */

K_CUDA_KERNEL(k_cuda_sort)(const k_cuda_sort_args a) {
    K_CUDA_SHARED(k__cuda_sort_mem, m, 1);
    const int n = a.step->n[a.set] * a.used;
    for (int i = K_CUDA_THREAD; i < K__CUDA_WARPS * a.n_expert; i += K_CUDA_THREADS) m->at[i / a.n_expert][i % a.n_expert] = 0;
    k__cuda_sync();
    k__cuda_slots(&a, n, false, m);
    k__cuda_sync();
    k__cuda_begins(&a, m);
    k__cuda_sync();
    k__cuda_slots(&a, n, true, m);
}

K_CUDA_KERNEL(k_cuda_best)(const k_cuda_best_args a) {
    K_CUDA_SHARED(k__cuda_score, of, K__CUDA_WARPS);
    const int     r = K_CUDA_BLOCK_X;
    k__cuda_score best = {-INFINITY, 0.0f, -1};
    if (r >= a.step->n[a.set]) return;
    const float *x = a.x.x + (size_t)r * a.x.ld;
    for (int i = K_CUDA_THREAD; i < a.n; i += K_CUDA_THREADS) {
        const k__cuda_score s = {fabsf(x[i]) < INFINITY ? x[i] : INFINITY, 0.0f, i};
        best = k__cuda_better(best, s);
    }
    best = k__cuda_best_of(best);
    if (K_CUDA_THREAD % 32 == 0) of[K_CUDA_THREAD / 32] = best;
    k__cuda_sync();
    if (K_CUDA_THREAD) return;
    for (int i = 1; i < K__CUDA_WARPS; i++) best = k__cuda_better(best, of[i]);
    a.out[r] = best.v < INFINITY ? best.at : -1;
}

K_CUDA_KERNEL(k_cuda_rows)(const k_cuda_rows_args a) {
    K_CUDA_SHARED(k__cuda_rows_mem, m, 1);
    int i = 0, r = K_CUDA_BLOCK_X;
    if (K_CUDA_THREAD < a.n) m->op[K_CUDA_THREAD] = a.op[K_CUDA_THREAD];
    k__cuda_sync();
    for (int n; i < a.n && r >= (n = a.step->n[m->op[i].set] * (m->op[i].each > 1 ? m->op[i].each : 1)); r -= n)
        do i++;
        while (i < a.n && !m->op[i].beside);
    for (const int first = i; i < a.n && (i == first || !m->op[i].beside); i++) {
        if (i > first) k__cuda_sync();                /* the operation before is done */
        k__cuda_row_op(a.step, &m->op[i], r, m);
    }
}

K_CUDA_KERNEL(k_cuda_delta)(const k_cuda_delta_args a) { k__cuda_delta_run(&a); }
K_CUDA_KERNEL(k_cuda_outer)(const k_cuda_delta_args a) { k__cuda_outer_run(K_CUDA_DELTA_KEYS / 4, &a); }
K_CUDA_WIDE(k_cuda_outer_wide)(const k_cuda_delta_args a) { k__cuda_outer_run(K_CUDA_WIDE_KEYS / 4, &a); }
K_CUDA_KERNEL(k_cuda_scan)(const k_cuda_delta_args a) { k__cuda_scan_run(&a); }

#define K__CUDA_MUL(name, bits, segs, head, table) \
    K_CUDA_KERNEL(k_cuda_mul_##name)(const k_cuda_mul m) { k__cuda_mul(bits, segs, head, table, &m); } \
    K_CUDA_WIDE(k_cuda_many_##name)(const k_cuda_mul m) { k__cuda_many(bits, segs, head, table, &m); }
K_CUDA_MULS(K__CUDA_MUL)

#define K__CUDA_FLOAT(name, type) \
    K_CUDA_KERNEL(k_cuda_mul_##name)(const k_cuda_mul m) { k__cuda_mul_floats(type, &m); } \
    K_CUDA_KERNEL(k_cuda_tensor_##name)(const k_cuda_mul m) { k__cuda_tensor(type, &m); } \
    K_CUDA_WIDE(k_cuda_tensor_many_##name)(const k_cuda_mul m) { k__cuda_tensor_many(type, &m); }
K_CUDA_FLOATS(K__CUDA_FLOAT)

K_CUDA_KERNEL(k_cuda_attend)(const k_cuda_attend_args a) { k__cuda_attend(&a); }
K_CUDA_KERNEL(k_cuda_attend_many)(const k_cuda_attend_args a) { k__cuda_attend_many(&a); }
K_CUDA_WIDE(k_cuda_attend_tensor)(const k_cuda_attend_args a) { k__cuda_attend_tensor(&a); }
K_CUDA_KERNEL(k_cuda_attend_codes)(const k_cuda_attend_args a) { k__cuda_attend_codes(&a); }
K_CUDA_WIDE(k_cuda_attend_codes_many)(const k_cuda_attend_args a) { k__cuda_attend_codes_many(&a); }
K_CUDA_KERNEL(k_cuda_attend_merge)(const k_cuda_attend_args a) { k__cuda_attend_merge(&a); }

K_CUDA_KERNEL(k_cuda_pack)(const k_cuda_pack_args a) { k__cuda_pack(&a); }
