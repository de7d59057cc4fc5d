/* ===== [cuda_attn] attention on NVIDIA GPUs ===== */

/* --- attention ---
 * A thread block computes one segment of one row and K/V head for up to K_CUDA_HEADS query heads of the group, which share the
 * loads of K and V. Scores: a thread takes a position, a warp a tile, so that no sum goes across threads. Weights: a warp
 * takes a tile (in integers: a query head). Outputs: a thread takes a dimension of some heads, and goes over the positions in
 * order; in integers, where the order is free, a warp takes every eighth pair of positions. Rows of f32, f16 and bf16 are aligned
 * to 4, those of blocks to 2; rows of 16-bit values that are aligned to 16 are read faster. Values that a row does not see are
 * not read. */

enum { K_CUDA_TILES = K_SEGMENT / K_TILE, K_CUDA_WARPS = K_CUDA_THREADS / 32 };
enum { K_CUDA_STAGE = K_CUDA_HEADS * K_CUDA_HEAD_K }; /* queries or values of V in shared memory */

typedef struct { float v[2]; } __attribute__((aligned(8))) k__cuda_two;
typedef struct { float v[4]; } __attribute__((aligned(16))) k__cuda_four;

/* Row `row` of the set, number i of those of the launch, asks with row `from` of q for K/V head `head`. It sees positions
 * [begin, end); of the segment that begins at `base` the places [lo, hi), all of them in [first, last), multiples of K_TILE. */
typedef struct {
    int            i, row, from, head, begin, end, at, base, lo, hi, first, last;
    const int32_t *table;
} k__cuda_view;

/* What row i of the launch sees; false: there is no such row. */
K_CUDA_FN bool k__cuda_see(const k_cuda_attend_args *a, int i, int head, k__cuda_view *v) {
    const k_cuda_step *s = a->step;
    v->i = i, v->head = head, v->row = a->first + i;
    if (v->i >= a->n_rows || v->row >= s->n[a->set]) return false;
    const int b = a->set ? s->row[1][v->row] : v->row, half = a->window / 2;
    v->from = a->gathers ? b : v->row;
    v->at = s->b.pos[b];
    v->end = a->all ? s->end[b] : v->at + 1;
    v->begin = a->window && v->end > a->window ? v->end - a->window : 0;
    if (a->chunks) v->begin = v->at / a->window * a->window;
    if (a->all) {
        if (a->window && v->at + half < v->end) v->end = v->at + half + 1;
        v->begin = a->window && v->at > half ? v->at - half : 0;
    }
    v->table = s->b.table + s->b.table_at[(size_t)s->b.seq[b] * (size_t)s->b.n_group + (size_t)a->kv.group];
    return true;
}

/* What it sees of the segment that begins at `base`; false: nothing. */
K_CUDA_FN bool k__cuda_segment(k__cuda_view *v, int base) {
    v->base = base;
    v->lo = v->begin > base ? v->begin - base : 0;
    v->hi = v->end - base < K_SEGMENT ? v->end - base : K_SEGMENT;
    v->first = v->lo / K_TILE * K_TILE;
    v->last = k__round_up(v->hi, K_TILE);
    return v->lo < v->hi;
}

/* The row, K/V head and segment of the block, and *h, the first of its query heads; false: there is nothing to do. */
K_CUDA_FN bool k__cuda_view_of_block(const k_cuda_attend_args *a, k__cuda_view *v, int *h) {
    const int deal = k__cuda_deal_of(a->group, false), x = K_CUDA_BLOCK_X / deal;
    *h = K_CUDA_BLOCK_X % deal * K_CUDA_HEADS;
    if (!k__cuda_see(a, x / a->kv.n_head, x % a->kv.n_head, v)) return false;
    return k__cuda_segment(v, (v->begin / K_SEGMENT + K_CUDA_BLOCK_Y) * K_SEGMENT);
}

/* Partial result of segment n. */
K_CUDA_FN float *k__cuda_part(const k_cuda_attend_args *a, const k__cuda_view *v, int n) {
    return a->parts + ((size_t)(v->i * a->kv.n_head + v->head) * (size_t)a->n_seg + (size_t)n)
           * k__attn_part_floats(a->group, a->kv.hd_v);
}

/* The sums of query head h in it. */
K_CUDA_FN k__attn_sum *k__cuda_part_sum(const k_cuda_attend_args *a, float *part, int h) {
    return (k__attn_sum *)(void *)(part + (size_t)a->group * (size_t)k__round_up(a->kv.hd_v, 32)) + h;
}

/* Where keys or values of a place are; NULL: the row does not see it. */
K_CUDA_FN const uint8_t *k__cuda_kv_row(const k_kv_place *kv, const k__cuda_view *v, bool values, int place) {
    if (place < v->lo || place >= v->hi) return NULL;
    const int p = v->base + place, block = p / kv->block;
    return kv->base + (size_t)v->table[block] * kv->block_bytes + (values ? kv->v_at : kv->k_at) +
           ((size_t)v->head * (size_t)kv->block + (size_t)(p - block * kv->block)) * (values ? kv->v_stride : kv->k_stride);
}

/* The values at .. at + 7 of a row of n, 0 after the last one; at is a multiple of 8. row NULL: zeros. */
K_CUDA_FN void k__cuda_widen(uint32_t type, const uint8_t *row, int at, int n, float x[8]) {
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) x[i] = 0.0f;
    if (!row) return;
    if (type == K_F32) {
        K_CUDA_UNROLL for (int i = 0; i < 8; i++)
            if (at + i < n) x[i] = k__f32_of(k__cuda_ld32(row + 4 * (at + i)));
    } else if (type == K_F16 || type == K_BF16) {
        k__cuda_words w = {{0, 0, 0, 0}};
        if (at + 8 <= n && (uintptr_t)row % 16 == 0) {
            k__cuda_ld128(row + 2 * at, w.v);
        } else {
            K_CUDA_UNROLL for (int i = 0; i < 4; i++)
                if (at + 2 * i < n) w.v[i] = k__cuda_ld32(row + 2 * (at + 2 * i));
        }
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
            const uint16_t h = (uint16_t)(w.v[i / 2] >> i % 2 * 16);
            x[i] = type == K_F16 ? k__cuda_half(h) : k_bf16_to_f32(h);
        }
    } else {
        const bool     wide = type == K_Q8_0;         /* else q4_0: the low nibbles of 16 bytes, then the high ones */
        const uint8_t *b = row + at / 32 * (int)(wide ? sizeof(block_q8_0) : sizeof(block_q4_0));
        const float    d = k__cuda_half(k__cuda_ld16(b));
        K_CUDA_UNROLL for (int i = 0; i < 8; i += 2) {
            const int      c = at % 32 + i, shift = c / 16 * 4;
            const uint16_t w = k__cuda_ld16(b + 2 + (wide ? c : c % 16));
            K_CUDA_UNROLL for (int k = 0; k < 2; k++) {
                const int q = wide ? (int8_t)(w >> 8 * k) : (w >> (8 * k + shift) & 15) - 8;
                if (at + i + k < n) x[i + k] = k__bf16_round(d * (float)q);
            }
        }
    }
}

/* The sum of the warp's values, in lane 0. */
K_CUDA_FN float k__cuda_add(float v) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) v = v + k__cuda_other(v, far);
    return v;
}

/* Query head h, counted in its group. */
K_CUDA_FN const float *k__cuda_query(const k_cuda_attend_args *a, const k__cuda_view *v, int h) {
    return a->q.x + (size_t)v->from * a->q.ld + (size_t)(v->head * a->group + h) * (size_t)a->kv.hd_k;
}

/* What ALiBi takes from the scores of query head h, counted in its group; NULL: nothing. */
K_CUDA_FN const float *k__cuda_slope(const k_cuda_attend_args *a, const k__cuda_view *v, int h) {
    return a->slopes ? a->slopes + v->head * a->group + h : NULL;
}

/* A score with all that makes it, -inf where the row does not look (there); returns the largest of the warp that is not NaN. */
K_CUDA_FN float k__cuda_shape(bool there, float scale, float cap, const float *slope, int far, float *s) {
    *s = there ? k__attn_shape(*s * scale, cap, slope, far) : -INFINITY;
    return k__cuda_most(*s > -INFINITY ? *s : -INFINITY);
}

/* Scores of a tile to weights, a lane's is s; top is the largest score so far. The sum of the tile's weights, in lane 0. */
K_CUDA_FN float k__cuda_tile_weights(uint32_t type, float top, float *s) {
    const float x = k__exp_ref(*s - (top == -INFINITY ? 0.0f : top));
    *s = k__kv_rounds(type) ? k__bf16_round(x) : x;
    return k__cuda_add(*s);
}

/* The factor of what was summed before the tile, where the largest score was `before`. */
K_CUDA_FN float k__cuda_tile_factor(float before, float top) {
    return top == before ? 1.0f : k__exp_ref(before - (top == -INFINITY ? 0.0f : top));
}

/* Queries of heads h .. h + n - 1 as they are multiplied, of R heads: [head][ld], zeros after the last value and head. */
K_CUDA_FN void k__cuda_ask(int R, const k_cuda_attend_args *a, const k__cuda_view *v, int h, int n, float *q) {
    const int ld = k__round_up(a->kv.hd_k, 8);
    for (int i = K_CUDA_THREAD; i < R * ld; i += K_CUDA_THREADS) {
        const int   r = i / ld, d = i % ld;
        const float x = r < n && d < a->kv.hd_k ? k__cuda_query(a, v, h + r)[d] : 0.0f;
        q[i] = k__kv_rounds(a->kv.type_k) ? k__bf16_round(x) : x;
    }
}

/* Scores of R heads: s[head][place]; most[head][tile]: the largest of a tile. */
K_CUDA_FN void k__cuda_scores(int R, const k_cuda_attend_args *a, const k__cuda_view *v, int h, int n, const float *q,
                              float *s, float *most) {
    const int lane = K_CUDA_THREAD % 32, ld = k__round_up(a->kv.hd_k, 8);
    for (int tile = v->first / K_TILE + K_CUDA_THREAD / 32; tile < v->last / K_TILE; tile += K_CUDA_WARPS) {
        const int      place = K_TILE * tile + lane;
        const uint8_t *row = k__cuda_kv_row(&a->kv, v, false, place);
        float          sum[K_CUDA_HEADS];
        K_CUDA_UNROLL for (int r = 0; r < R; r++) sum[r] = 0.0f;
        for (int d = 0; d < ld; d += 8) {
            float k[8];
            k__cuda_widen(a->kv.type_k, row, d, a->kv.hd_k, k);
            K_CUDA_UNROLL for (int j = 0; j < 8; j += 4)
                K_CUDA_UNROLL for (int r = 0; r < R; r++) {
                    const k__cuda_four x = *(const k__cuda_four *)(const void *)(q + r * ld + d + j);
                    K_CUDA_UNROLL for (int i = 0; i < 4; i++) sum[r] = fmaf(x.v[i ^ 1], k[j + (i ^ 1)], sum[r]);
                }
        }
        K_CUDA_UNROLL for (int r = 0; r < R; r++) s[r * K_SEGMENT + place] = sum[r];
        for (int r = 0; r < n; r++) {
            float      *x = s + r * K_SEGMENT + place;
            const bool  there = place >= v->lo && place < v->hi;
            const float top = k__cuda_shape(there, a->scale, a->cap, k__cuda_slope(a, v, h + r), v->base - v->at + place, x);
            if (lane == 0) most[r * K_CUDA_TILES + tile] = top;
        }
    }
}

/* Scores to weights. What each tile changes: c[head][tile], the factor of what was summed before it, l[head][tile], the sum of
 * its weights. */
K_CUDA_FN void k__cuda_weigh(const k_cuda_attend_args *a, const k__cuda_view *v, int n, const float *most, float *s,
                             float *c, float *l) {
    const int lane = K_CUDA_THREAD % 32, from = v->first / K_TILE, n_tiles = v->last / K_TILE - from;
    for (int i = K_CUDA_THREAD / 32; i < n * n_tiles; i += K_CUDA_WARPS) {
        const int r = i / n_tiles, tile = from + i % n_tiles, at = r * K_CUDA_TILES;
        float     before = -INFINITY, *p = s + r * K_SEGMENT + K_TILE * tile + lane;
        for (int t = from; t < tile; t++) before = most[at + t] > before ? most[at + t] : before;
        const float top = most[at + tile] > before ? most[at + tile] : before, sum = k__cuda_tile_weights(a->kv.type_v, top, p);
        if (lane) continue;
        c[at + tile] = k__cuda_tile_factor(before, top);
        l[at + tile] = sum;
    }
}

/* The sums of a head. */
K_CUDA_FN k__attn_sum k__cuda_sums(const k__cuda_view *v, const float *most, const float *c, const float *l) {
    k__attn_sum all = {-INFINITY, 0.0f};
    for (int t = v->first / K_TILE; t < v->last / K_TILE; t++) {
        all.m = most[t] > all.m ? most[t] : all.m;
        all.l = fmaf(all.l, c[t], l[t]);
    }
    return all;
}

/* Outputs of dimensions d0 .. d0 + width - 1 (at most 256) of n heads; a thread has J heads. x: K_CUDA_STAGE values;
 * o[head][ld_v]. */
K_CUDA_FN void k__cuda_gather(int J, const k_cuda_attend_args *a, const k__cuda_view *v, int n, int d0, int width,
                              const float *p, const float *c,
                              float *x, float *o) {
    const int n_pos = width <= 128 ? K_TILE : K_TILE / 2, each = width / 8, d = K_CUDA_THREAD % width,
              n_sub = K_CUDA_THREADS / width;
    const int sub = K_CUDA_THREAD / width, heads = sub < n_sub ? n : 0;
    float     acc[K_CUDA_HEADS];
    K_CUDA_UNROLL for (int j = 0; j < J; j++) acc[j] = 0.0f;
    for (int at = v->first; at < v->last; at += n_pos) {
        if (at > v->first || d0) k__cuda_sync();      /* the values before these are added */
        for (int i = K_CUDA_THREAD; i < n_pos * each; i += K_CUDA_THREADS) {
            const int place = i / each, from = i % each * 8;
            k__cuda_widen(a->kv.type_v, k__cuda_kv_row(&a->kv, v, true, at + place), d0 + from, a->kv.hd_v,
                          x + place * width + from);
        }
        k__cuda_sync();
        K_CUDA_UNROLL for (int j = 0; j < J; j++) {
            const int r = sub + j * n_sub;
            if (at % K_TILE == 0 && r < heads) acc[j] = acc[j] * c[r * K_CUDA_TILES + at / K_TILE];
        }
        for (int i = 0; i < n_pos; i += 2) {
            const float even = x[i * width + d], odd = x[(i + 1) * width + d];
            K_CUDA_UNROLL for (int j = 0; j < J; j++) {
                const int r = sub + j * n_sub;
                if (r >= heads) continue;
                const k__cuda_two w = *(const k__cuda_two *)(const void *)(p + r * K_SEGMENT + at + i);
                acc[j] = fmaf(w.v[0], even, fmaf(w.v[1], odd, acc[j]));
            }
        }
    }
    K_CUDA_UNROLL for (int j = 0; j < J; j++) {
        const int r = sub + j * n_sub;
        if (r < heads) o[(size_t)r * (size_t)k__round_up(a->kv.hd_v, 32) + (size_t)(d0 + d)] = acc[j];
    }
}

/* All dimensions. */
K_CUDA_FN void k__cuda_outputs(const k_cuda_attend_args *a, const k__cuda_view *v, int n, const float *p, const float *c,
                               float *x, float *o) {
    const int ld = k__round_up(a->kv.hd_v, 32);
    for (int d = 0; d < ld; d += 256) {
        const int width = ld - d < 256 ? ld - d : 256, n_sub = K_CUDA_THREADS / width;
        if (n <= n_sub) k__cuda_gather(1, a, v, n, d, width, p, c, x, o);
        else if (n <= 2 * n_sub) k__cuda_gather(2, a, v, n, d, width, p, c, x, o);
        else if (n <= 4 * n_sub) k__cuda_gather(4, a, v, n, d, width, p, c, x, o);
        else k__cuda_gather(8, a, v, n, d, width, p, c, x, o);
    }
}

K_CUDA_FN void k__cuda_attend(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_four, stage, K_CUDA_STAGE / 4);                    /* queries, then values */
    K_CUDA_SHARED(k__cuda_two, weights, K_CUDA_HEADS * K_SEGMENT / 2);
    K_CUDA_SHARED(float, most, K_CUDA_HEADS * K_CUDA_TILES);
    K_CUDA_SHARED(float, c, K_CUDA_HEADS * K_CUDA_TILES);
    K_CUDA_SHARED(float, l, K_CUDA_HEADS * K_CUDA_TILES);
    float       *x = (float *)(void *)stage, *s = (float *)(void *)weights;
    const int    me = K_CUDA_THREAD;
    k__cuda_view v;
    int          h;
    if (!k__cuda_view_of_block(a, &v, &h)) return;
    float    *part = k__cuda_part(a, &v, K_CUDA_BLOCK_Y);
    const int n = a->group - h < K_CUDA_HEADS ? a->group - h : K_CUDA_HEADS, R = n > 4 ? 8 : n > 1 ? 4 : 1;
    k__cuda_ask(R, a, &v, h, n, x);
    k__cuda_sync();
    if (R == 8) k__cuda_scores(8, a, &v, h, n, x, s, most);
    else if (R == 4) k__cuda_scores(4, a, &v, h, n, x, s, most);
    else k__cuda_scores(1, a, &v, h, n, x, s, most);
    k__cuda_sync();
    k__cuda_weigh(a, &v, n, most, s, c, l);
    k__cuda_sync();
    if (me < n)
        *k__cuda_part_sum(a, part, h + me) = k__cuda_sums(&v, most + me * K_CUDA_TILES, c + me * K_CUDA_TILES,
                                                          l + me * K_CUDA_TILES);
    k__cuda_outputs(a, &v, n, s, c, x, part + (size_t)h * (size_t)k__round_up(a->kv.hd_v, 32));
}

/* --- attention for many rows ---
 * A thread block takes some rows of a sequence, up to K_CUDA_ASKS query heads of them at a time, through a segment, tile after
 * tile: K to shared memory, scores, weights, V to shared memory, outputs in registers. Heads above 128 values go there in
 * parts. */

enum { K_CUDA_KV = K_TILE / 4 * (K_CUDA_HEAD_K + 4) };   /* floats of a tile of K or V: keys are 4 floats apart, so that threads
                                                       * use all banks */
enum { K_CUDA_ASKED = K_TILE / 4 * K_CUDA_HEAD_K };   /* of queries */

/* A query head of a row: where its results go, NULL: it sees nothing; the places that it sees, and how far place 0 is from it. */
typedef struct {
    const float *q, *slope;
    float       *o;
    k__attn_sum *sum;
    int          lo, hi, far;
} k__cuda_asker;

typedef struct {
    float         c[K_CUDA_ASKS];                     /* the factor of what was summed before the tile */
    k__cuda_asker ask[K_CUDA_ASKS];
} k__cuda_heads;

typedef struct {
    k__cuda_four  q[K_CUDA_ASKED / 4];                /* [head][ld_k] */
    k__cuda_four  kv[K_CUDA_KV / 4];                  /* [position][ld_k + 4] or [position][ld_v] */
    k__cuda_two   s[K_CUDA_ASKS * K_TILE / 2];        /* [head][position] */
    k__cuda_heads of;
} k__cuda_asks;

/* Head v of those of rows i, i + 1, ... of the launch, in the segment of `run`. */
K_CUDA_FN void k__cuda_asker_of(const k_cuda_attend_args *a, const k__cuda_view *run, int i, int v, k__cuda_asker *to) {
    const int    h = v % a->group;
    k__cuda_view w = *run;
    k__cuda_see(a, i + v / a->group, run->head, &w);
    const bool there = k__cuda_segment(&w, run->base);
    float     *part = there ? k__cuda_part(a, &w, run->base / K_SEGMENT - w.begin / K_SEGMENT) : NULL;
    to->q = k__cuda_query(a, &w, h), to->slope = k__cuda_slope(a, &w, h);
    to->o = there ? part + (size_t)h * (size_t)k__round_up(a->kv.hd_v, 32) : NULL;
    to->sum = there ? k__cuda_part_sum(a, part, h) : NULL;
    to->lo = there ? w.lo : 0, to->hi = there ? w.hi : 0, to->far = w.base - w.at;
}

/* n_pos keys or values from `place` on, `apart` floats apart. */
K_CUDA_FN void k__cuda_fetch_kv(const k_cuda_attend_args *a, const k__cuda_view *v, bool values, int place, int n_pos,
                                int apart, k__cuda_four *to) {
    const int      hd = values ? a->kv.hd_v : a->kv.hd_k, each = k__round_up(hd, 8) / 8;
    const uint32_t type = values ? a->kv.type_v : a->kv.type_k;
    for (int i = K_CUDA_THREAD; i < n_pos * each; i += K_CUDA_THREADS) {
        const int p = i / each, at = i % each * 8;
        float     x[8];
        k__cuda_widen(type, k__cuda_kv_row(&a->kv, v, values, place + p), at, hd, x);
        K_CUDA_UNROLL for (int k = 0; k < 8; k += 4) {
            const k__cuda_four w = {{x[k], x[k + 1], x[k + 2], x[k + 3]}};
            to[(p * apart + at + k) / 4] = w;
        }
    }
}

/* Products of n heads with n_pos keys, which are places at .. of the tile; a thread has one key and H heads. */
K_CUDA_FN void k__cuda_products(int H, const k__cuda_asks *m, int n, int ld, int n_pos, int at, float *s) {
    const int p = K_CUDA_THREAD % n_pos, first = K_CUDA_THREAD / n_pos * H;
    float     sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first >= n) return;
    for (int d = 0; d < ld; d += 4) {
        const k__cuda_four k = m->kv[(p * (ld + 4) + d) / 4];
        K_CUDA_UNROLL for (int h = 0; h < H; h++) {
            const k__cuda_four q = m->q[((first + h) * ld + d) / 4];
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) sum[h] = fmaf(q.v[i ^ 1], k.v[i ^ 1], sum[h]);
        }
    }
    K_CUDA_UNROLL for (int h = 0; h < H; h++) s[(first + h) * K_TILE + at + p] = sum[h];
}

/* Products of the tile at `place` to weights, for every eighth head: all[j] are the sums of head warp + 8j. */
K_CUDA_FN void k__cuda_weigh_tile(const k_cuda_attend_args *a, k__cuda_heads *m, int n, int place, float *s, k__attn_sum all[4]) {
    const int warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32, at = place + lane;
    K_CUDA_UNROLL for (int j = 0; j < K_CUDA_ASKS / K_CUDA_WARPS; j++) {
        const int v = warp + j * K_CUDA_WARPS;
        if (v >= n) continue;
        const k__cuda_asker *ask = &m->ask[v];
        float               *p = s + v * K_TILE + lane, before = all[j].m, c = 1.0f;
        if (place < ask->hi && place + K_TILE > ask->lo) {
            const float most = k__cuda_shape(at >= ask->lo && at < ask->hi, a->scale, a->cap, ask->slope, ask->far + at, p);
            all[j].m = most > before ? most : before;
            c = k__cuda_tile_factor(before, all[j].m);
            all[j].l = fmaf(all[j].l, c, k__cuda_tile_weights(a->kv.type_v, all[j].m, p));
        } else {
            *p = 0.0f;
        }
        if (lane == 0) m->c[v] = c;
    }
}

/* Adds n_pos values, places at .. of the tile at `place`, to the outputs of the thread: 4 dimensions of up to 4 heads. whole: all
 * heads see all of the tile; else a head adds what it sees. */
K_CUDA_FN void k__cuda_add_values(bool whole, const k__cuda_asks *m, int n, int ld, int n_pos, int place, int at, float o[4][4]) {
    const int each = ld / 4, d = K_CUDA_THREAD % each, n_sub = K_CUDA_THREADS / each, sub = K_CUDA_THREAD / each,
              heads = sub < n_sub ? n : 0;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        const int v = sub + j * n_sub;
        K_CUDA_UNROLL for (int k = 0; k < 4; k++)
            if (at == 0 && v < heads) o[j][k] = o[j][k] * m->of.c[v];
    }
    for (int i = 0; i < n_pos; i += 2) {
        const k__cuda_four even = m->kv[i * each + d], odd = m->kv[(i + 1) * each + d];
        K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
            const int v = sub + j * n_sub, p = place + at + i;
            if (v >= heads) continue;
            const k__cuda_two w = m->s[(v * K_TILE + at + i) / 2];
            const bool        second = whole || (p + 1 >= m->of.ask[v].lo && p + 1 < m->of.ask[v].hi),
                              first = whole || (p >= m->of.ask[v].lo && p < m->of.ask[v].hi);
            K_CUDA_UNROLL for (int k = 0; k < 4; k++) {
                if (second) o[j][k] = fmaf(w.v[1], odd.v[k], o[j][k]);
                if (first) o[j][k] = fmaf(w.v[0], even.v[k], o[j][k]);
            }
        }
    }
}

/* One tile: n heads, n_pos keys and values at a time. */
K_CUDA_FN void k__cuda_tile_many(const k_cuda_attend_args *a, const k__cuda_view *v, k__cuda_asks *m, int n, int n_pos,
                                 int place, bool whole,
                                 k__attn_sum all[4], float o[4][4]) {
    const int ld_k = k__round_up(a->kv.hd_k, 8), ld_v = k__round_up(a->kv.hd_v, 32);
    float    *s = (float *)(void *)m->s;
    for (int at = 0; at < K_TILE; at += n_pos) {
        if (at || place > v->first) k__cuda_sync();   /* the values or keys before these are used */
        k__cuda_fetch_kv(a, v, false, place + at, n_pos, ld_k + 4, m->kv);
        k__cuda_sync();
        if (n_pos == K_TILE) k__cuda_products(4, m, n, ld_k, K_TILE, at, s);
        else k__cuda_products(1, m, n, ld_k, n_pos, at, s);
    }
    k__cuda_sync();
    k__cuda_weigh_tile(a, &m->of, n, place, s, all);
    for (int at = 0; at < K_TILE; at += n_pos) {
        if (at) k__cuda_sync();
        k__cuda_fetch_kv(a, v, true, place + at, n_pos, ld_v, m->kv);
        k__cuda_sync();
        if (whole) k__cuda_add_values(true, m, n, ld_v, n_pos, place, at, o);
        else k__cuda_add_values(false, m, n, ld_v, n_pos, place, at, o);
    }
}

K_CUDA_FN void k__cuda_put_many(const k__cuda_asks *m, int n, int ld, const k__attn_sum all[4], float o[4][4]) {
    const int each = ld / 4, d = K_CUDA_THREAD % each, n_sub = K_CUDA_THREADS / each, sub = K_CUDA_THREAD / each,
              heads = sub < n_sub ? n : 0;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        const int v = sub + j * n_sub, h = K_CUDA_THREAD / 32 + j * K_CUDA_WARPS;
        K_CUDA_UNROLL for (int k = 0; k < 4; k++)
            if (v < heads && m->of.ask[v].o) m->of.ask[v].o[4 * d + k] = o[j][k];
        if (K_CUDA_THREAD % 32 == 0 && h < n && m->of.ask[h].sum) *m->of.ask[h].sum = all[j];
    }
}

/* Heads v0 .. v0 + n - 1 of rows i, i + 1, ..., which see parts of `run`; again: not the first ones of the block. */
K_CUDA_FN void k__cuda_some(const k_cuda_attend_args *a, const k__cuda_view *run, k__cuda_asks *m, int i, int v0, int n,
                            int n_pos, bool again) {
    const int   me = K_CUDA_THREAD, ld = k__round_up(a->kv.hd_k, 8);
    float       o[4][4], *q = (float *)(void *)m->q;
    k__attn_sum all[4];
    int         lo = 0, hi = K_SEGMENT;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        all[j].m = -INFINITY, all[j].l = 0.0f;
        K_CUDA_UNROLL for (int k = 0; k < 4; k++) o[j][k] = 0.0f;
    }
    if (again) k__cuda_sync();                        /* the heads before these are done */
    if (me < n) k__cuda_asker_of(a, run, i, v0 + me, &m->of.ask[me]);
    k__cuda_sync();
    for (int k = me; k < K_CUDA_ASKED && k / ld < K_CUDA_ASKS; k += K_CUDA_THREADS) {
        const int   v = k / ld, d = k % ld;
        const float x = v < n && d < a->kv.hd_k ? m->of.ask[v].q[d] : 0.0f;
        q[k] = k__kv_rounds(a->kv.type_k) ? k__bf16_round(x) : x;
    }
    for (int v = 0; v < n; v++)
        lo = m->of.ask[v].lo > lo ? m->of.ask[v].lo : lo, hi = m->of.ask[v].hi < hi ? m->of.ask[v].hi : hi;
    for (int place = run->first; place < run->last; place += K_TILE)
        k__cuda_tile_many(a, run, m, n, n_pos, place, place >= lo && place + K_TILE <= hi, all, o);
    k__cuda_put_many(m, n, k__round_up(a->kv.hd_v, 32), all, o);
}

/* Rows of one sequence, from row i of the launch on and before row `most`: what they see of the block's segment is in *run, which
 * begins where the first one's view does. The row after them; i: there is no such row. */
K_CUDA_FN int k__cuda_run(const k_cuda_attend_args *a, int i, int most, int head, k__cuda_view *run) {
    k__cuda_view v;
    int          end = i + 1;
    if (!k__cuda_see(a, i, head, run)) return i;
    for (; end < most && k__cuda_see(a, end, head, &v) && v.table == run->table; end++)
        run->end = v.end > run->end ? v.end : run->end;
    k__cuda_segment(run, (run->begin / K_SEGMENT + K_CUDA_BLOCK_Y) * K_SEGMENT);
    return end;
}

/* What a thread block takes of a launch: rows [first, last), and of their query heads those from `head` on, up to K_CUDA_ASKS. */
typedef struct { int first, last, kv_head, head; } k__cuda_lot;

K_CUDA_FN k__cuda_lot k__cuda_lot_of(const k_cuda_attend_args *a) {
    const int   rows = k__cuda_rows_of(a->group), deal = k__cuda_deal_of(a->group, true), x = K_CUDA_BLOCK_X / deal;
    k__cuda_lot lot;
    lot.first = x / a->kv.n_head * rows, lot.last = lot.first + rows;
    lot.kv_head = x % a->kv.n_head, lot.head = K_CUDA_BLOCK_X % deal * K_CUDA_ASKS;
    return lot;
}

/* The query head after the last one of n that belongs to the block. */
K_CUDA_FN int k__cuda_lot_end(const k__cuda_lot *lot, int n) { return n - lot->head < K_CUDA_ASKS ? n : lot->head + K_CUDA_ASKS; }

K_CUDA_FN void k__cuda_attend_many(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_asks, m, 1);
    const k__cuda_lot lot = k__cuda_lot_of(a);
    const int hd = a->kv.hd_k > a->kv.hd_v ? a->kv.hd_k : a->kv.hd_v,
              n_pos = hd <= 128 ? K_TILE : hd <= 256 ? K_TILE / 2 : K_TILE / 4;
    bool      again = false;
    k__cuda_view run;
    for (int i = lot.first, end; i < lot.last && (end = k__cuda_run(a, i, lot.last, lot.kv_head, &run)) > i; i = end) {
        if (run.lo >= run.hi) continue;
        const int n = k__cuda_lot_end(&lot, (end - i) * a->group);
        for (int v0 = lot.head; v0 < n; v0 += n_pos, again = true)
            k__cuda_some(a, &run, m, i, v0, n - v0 < n_pos ? n - v0 : n_pos, n_pos, again);
    }
}

/* --- attention by tensor cores ---
 * As for many rows, and for few: a row gives the same bits alone, since its sums take the same mma, tile after tile at absolute
 * multiples of K_TILE, and what it does not see it multiplies with 0. (A value that is infinite or NaN spoils rows of its own
 * sequence that do not see it, too.) Heads go through shared memory 128 dimensions at a time. A warp has 8 positions of a tile
 * for 16 query heads, and then every fourth 8 dimensions of their outputs. Where the CPU rounds factors to bf16 (k__kv_rounds),
 * so does this; factors of f32 and f16 caches are two bf16 each, as weights are. */

enum { K__CUDA_DIMS = 128, K__CUDA_HEAD_WORDS = 68, K__CUDA_POS_WORDS = 20 };    /* of a part; dwords between two rows of pairs of
                                                                                  * dimensions, of positions */
enum { K__CUDA_CHUNKS = K_CUDA_HEAD_V / K__CUDA_DIMS };

typedef struct {
    k__cuda_words q[2][K_CUDA_ASKS * K__CUDA_HEAD_WORDS / 4];                    /* [part][head][dimensions] */
    union {
        k__cuda_words k[2][K_TILE * K__CUDA_HEAD_WORDS / 4];                     /* [part][position][dimensions] */
        uint32_t      v[2][K__CUDA_DIMS * K__CUDA_POS_WORDS];                    /* [part][dimension][positions] */
    } kv;
    k__cuda_two   s[K_CUDA_ASKS * K_TILE / 2];                                   /* [head][position] */
} k__cuda_tensor_mem;

/* Two values in bf16, and what rounding took. */
K_CUDA_FN void k__cuda_two_of(bool split, float low, float high, uint32_t *hi, uint32_t *lo) {
    *hi = k__cuda_bf16x2(low, high);
    *lo = split ? k__cuda_bf16x2(low - k__f32_of(*hi << 16), high - k__f32_of(*hi & 0xffff0000u)) : 0;
}

/* Eight values of a row to both parts, from dword `at` on. */
K_CUDA_FN void k__cuda_put8(bool split, const float x[8], k__cuda_words *hi, k__cuda_words *lo) {
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
        uint32_t rest;
        k__cuda_two_of(split, x[2 * i], x[2 * i + 1], &hi->v[i], &rest);
        if (split) lo->v[i] = rest;
    }
}

/* Dimensions from d0 on that go to shared memory: to the next multiple of 16, zeros after the last one. */
K_CUDA_FN int k__cuda_dims(int hd, int d0) { return hd - d0 < K__CUDA_DIMS ? k__round_up(hd - d0, 16) : K__CUDA_DIMS; }

/* Dimensions from d0 on of all n queries; zeros after the last one. */
K_CUDA_FN void k__cuda_tensor_ask(bool split, const k_cuda_attend_args *a, const k__cuda_heads *m, int n, int d0,
                                  k__cuda_tensor_mem *t) {
    const int each = k__cuda_dims(a->kv.hd_k, d0) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_CUDA_ASKS; i += K_CUDA_THREADS) {
        const int v = i / each, d = d0 + i % each * 8, to = v * K__CUDA_HEAD_WORDS / 4 + i % each;
        float     x[8];
        K_CUDA_UNROLL for (int k = 0; k < 8; k++) x[k] = v < n && d + k < a->kv.hd_k ? m->ask[v].q[d + k] : 0.0f;
        k__cuda_put8(split, x, &t->q[0][to], &t->q[1][to]);
    }
}

/* Dimensions from d0 on of the keys of the tile at `place`. */
K_CUDA_FN void k__cuda_tensor_keys(bool split, const k_cuda_attend_args *a, const k__cuda_view *v, int place, int d0,
                                   k__cuda_tensor_mem *t) {
    const int each = k__cuda_dims(a->kv.hd_k, d0) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_TILE; i += K_CUDA_THREADS) {
        const int p = i / each, to = p * K__CUDA_HEAD_WORDS / 4 + i % each;
        float     x[8];
        k__cuda_widen(a->kv.type_k, k__cuda_kv_row(&a->kv, v, false, place + p), d0 + i % each * 8, a->kv.hd_k, x);
        k__cuda_put8(split, x, &t->kv.k[0][to], &t->kv.k[1][to]);
    }
}

/* The same of values, two positions to a dword. */
K_CUDA_FN void k__cuda_tensor_values(bool split, const k_cuda_attend_args *a, const k__cuda_view *v, int place, int d0,
                                     k__cuda_tensor_mem *t) {
    const int each = k__cuda_dims(a->kv.hd_v, d0) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_TILE / 2; i += K_CUDA_THREADS) {
        const int p = i % (K_TILE / 2), d = i / (K_TILE / 2) * 8;
        float     x[2][8];
        K_CUDA_UNROLL for (int k = 0; k < 2; k++)
            k__cuda_widen(a->kv.type_v, k__cuda_kv_row(&a->kv, v, true, place + 2 * p + k), d0 + d, a->kv.hd_v, x[k]);
        K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
            const int to = (d + k) * K__CUDA_POS_WORDS + p;
            uint32_t  rest;
            k__cuda_two_of(split, x[0][k], x[1][k], &t->kv.v[0][to], &rest);
            if (split) t->kv.v[1][to] = rest;
        }
    }
}

/* c += a b for 16 elements, of both parts: b at word `from` of hi and lo. */
K_CUDA_FN void k__cuda_mma_parts(bool split, const uint32_t a[2][4], const uint32_t *hi, const uint32_t *lo, int from,
                                 float c[4]) {
    if (split) {
        k__cuda_mma_bf16(c, a[1][0], a[1][1], a[1][2], a[1][3], hi[from], hi[from + 4]);
        k__cuda_mma_bf16(c, a[0][0], a[0][1], a[0][2], a[0][3], lo[from], lo[from + 4]);
    }
    k__cuda_mma_bf16(c, a[0][0], a[0][1], a[0][2], a[0][3], hi[from], hi[from + 4]);
}

/* Adds to c the products of 16 queries with 8 keys, `steps` times 16 dimensions: rows `strip` and positions `col` on. */
K_CUDA_FN void k__cuda_tensor_scores(bool split, const k__cuda_tensor_mem *t, int strip, int col, int steps, int lane,
                                     float c[4]) {
    const uint32_t *k[2], *q[2];
    K_CUDA_UNROLL for (int part = 0; part < 2; part++)
        k[part] = (const uint32_t *)(const void *)t->kv.k[part], q[part] = (const uint32_t *)(const void *)t->q[part];
    for (int i = 0; i < steps; i++) {
        const int from = 8 * i + lane % 4, row = (strip + lane / 4) * K__CUDA_HEAD_WORDS + from;
        uint32_t  a[2][4];
        K_CUDA_UNROLL for (int part = 0; part < 2; part++)
            K_CUDA_UNROLL for (int j = 0; j < 4; j++)
                a[part][j] = part && !split ? 0 : q[part][row + j % 2 * 8 * K__CUDA_HEAD_WORDS + j / 2 * 4];
        k__cuda_mma_parts(split, a, k[0], k[1], (col + lane / 4) * K__CUDA_HEAD_WORDS + from, c);
    }
}

/* Scores of n heads for the tile at `place`, whose keys and, where they do not stay there, queries go to shared memory. */
K_CUDA_FN void k__cuda_tensor_tile(const k_cuda_attend_args *a, const k__cuda_view *v, const k__cuda_heads *m,
                                   k__cuda_tensor_mem *t, int n, int place) {
    const bool split = !k__kv_rounds(a->kv.type_k);
    const int  lane = K_CUDA_THREAD % 32, warp = K_CUDA_THREAD / 32, strip = warp % 2 * 16, col = warp / 2 * 8, hd = a->kv.hd_k;
    float      c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int d0 = 0; d0 < hd; d0 += K__CUDA_DIMS) {
        if (d0 || place > v->first) k__cuda_sync();   /* the values or keys before these are used */
        if (place == v->first || hd > K__CUDA_DIMS) k__cuda_tensor_ask(split, a, m, n, d0, t);
        k__cuda_tensor_keys(split, a, v, place, d0, t);
        k__cuda_sync();
        if (strip < n) k__cuda_tensor_scores(split, t, strip, col, k__cuda_dims(hd, d0) / 16, lane, c);
    }
    K_CUDA_UNROLL for (int i = 0; i < 2; i++) {
        const k__cuda_two w = {{c[2 * i], c[2 * i + 1]}};
        t->s[((strip + lane / 4 + 8 * i) * K_TILE + col) / 2 + lane % 4] = w;
    }
}

/* Weights of 16 heads and 16 positions, from position `from` on. */
K_CUDA_FN void k__cuda_tensor_weights(bool split, const k__cuda_tensor_mem *t, int strip, int from, int lane, uint32_t a[2][4]) {
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        const k__cuda_two w = t->s[((strip + lane / 4 + j % 2 * 8) * K_TILE + from) / 2 + lane % 4 + j / 2 * 4];
        k__cuda_two_of(split, w.v[0], w.v[1], &a[0][j], &a[1][j]);
    }
}

/* Adds the tile at `place` to the outputs: o[chunk][j] of a warp are dimensions 32j on after the warp's first ones. */
K_CUDA_FN void k__cuda_tensor_outputs(const k_cuda_attend_args *a, const k__cuda_view *v, const k__cuda_heads *m,
                                      k__cuda_tensor_mem *t, int n, int place,
                                      float o[K__CUDA_CHUNKS][4][4]) {
    const bool split = !k__kv_rounds(a->kv.type_v);
    const int  lane = K_CUDA_THREAD % 32, warp = K_CUDA_THREAD / 32, strip = warp % 2 * 16, first = warp / 2 * 8;
    K_CUDA_UNROLL for (int chunk = 0; chunk < K__CUDA_CHUNKS; chunk++) {
        const int dims = k__cuda_dims(a->kv.hd_v, chunk * K__CUDA_DIMS);
        if (dims <= 0) continue;
        if (chunk) k__cuda_sync();                    /* the values before these are used */
        k__cuda_tensor_values(split, a, v, place, chunk * K__CUDA_DIMS, t);
        k__cuda_sync();
        K_CUDA_UNROLL for (int j = 0; j < 4; j++)
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) o[chunk][j][i] = o[chunk][j][i] * m->c[strip + lane / 4 + i / 2 * 8];
        K_CUDA_UNROLL for (int at = 0; at < K_TILE; at += 16) {
            uint32_t w[2][4];
            if (strip >= n) continue;
            k__cuda_tensor_weights(split, t, strip, at, lane, w);
            K_CUDA_UNROLL for (int j = 0; j < 4; j++)
                if (first + 32 * j < dims)
                    k__cuda_mma_parts(split, w, t->kv.v[0], t->kv.v[1],
                                      (first + 32 * j + lane / 4) * K__CUDA_POS_WORDS + at / 2 + lane % 4, o[chunk][j]);
        }
    }
}

K_CUDA_FN void k__cuda_tensor_results(const k__cuda_heads *m, int n, int hd, const k__attn_sum all[4],
                                      float o[K__CUDA_CHUNKS][4][4]) {
    const int lane = K_CUDA_THREAD % 32, warp = K_CUDA_THREAD / 32, strip = warp % 2 * 16, first = warp / 2 * 8;
    K_CUDA_UNROLL for (int chunk = 0; chunk < K__CUDA_CHUNKS; chunk++)
        K_CUDA_UNROLL for (int j = 0; j < 4; j++)
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
                const int v = strip + lane / 4 + i / 2 * 8, d = chunk * K__CUDA_DIMS + first + 32 * j + lane % 4 * 2 + i % 2;
                if (v < n && d < hd && m->ask[v].o) m->ask[v].o[d] = o[chunk][j][i];
            }
    K_CUDA_UNROLL for (int j = 0; j < K_CUDA_ASKS / K_CUDA_WARPS; j++) {
        const int v = warp + j * K_CUDA_WARPS;
        if (lane == 0 && v < n && m->ask[v].sum) *m->ask[v].sum = all[j];
    }
}

/* Heads v0 .. v0 + n - 1 of rows i, i + 1, ..., which see parts of `run`; again: not the first ones of the block. */
K_CUDA_FN void k__cuda_tensor_some(const k_cuda_attend_args *a, const k__cuda_view *run, k__cuda_heads *m,
                                   k__cuda_tensor_mem *t, int i, int v0, int n, bool again) {
    k__attn_sum all[4];
    float       o[K__CUDA_CHUNKS][4][4];
    K_CUDA_UNROLL for (int k = 0; k < K__CUDA_CHUNKS * 16; k++) o[k / 16][k / 4 % 4][k % 4] = 0.0f;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) all[j].m = -INFINITY, all[j].l = 0.0f;
    if (again) k__cuda_sync();                        /* the heads before these are done */
    if (K_CUDA_THREAD < n) k__cuda_asker_of(a, run, i, v0 + K_CUDA_THREAD, &m->ask[K_CUDA_THREAD]);
    k__cuda_sync();
    for (int place = run->first; place < run->last; place += K_TILE) {
        k__cuda_tensor_tile(a, run, m, t, n, place);
        k__cuda_sync();
        k__cuda_weigh_tile(a, m, n, place, (float *)(void *)t->s, all);
        k__cuda_tensor_outputs(a, run, m, t, n, place, o);
    }
    k__cuda_tensor_results(m, n, a->kv.hd_v, all, o);
}

K_CUDA_FN void k__cuda_attend_tensor(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_tensor_mem, t, 1);
    K_CUDA_SHARED(k__cuda_heads, m, 1);
    const k__cuda_lot lot = k__cuda_lot_of(a);
    bool      again = false;
    k__cuda_view run;
    for (int i = lot.first, end; i < lot.last && (end = k__cuda_run(a, i, lot.last, lot.kv_head, &run)) > i; i = end) {
        if (run.lo >= run.hi) continue;
        k__cuda_tensor_some(a, &run, m, t, i, lot.head, k__cuda_lot_end(&lot, (end - i) * a->group) - lot.head, again);
        again = true;
    }
}

/* --- attention where both caches are q8_0 --- */

/* Codes of the query of head h, in pairs [ld / 2]; returns what a code stands for. The whole warp takes part. */
K_CUDA_FN float k__cuda_ask8(const k_cuda_attend_args *a, const float *x, int ld, uint32_t *q) {
    const int lane = K_CUDA_THREAD % 32, hd = a->kv.hd_k;
    float     top = 0.0f, bad = 0.0f;
    for (int d = lane; d < hd; d += 32) {
        const float m = fabsf(x[d]);
        top = m > top ? m : top;
        if (!(m < INFINITY)) bad = 1.0f;
    }
    top = k__cuda_most(top), bad = k__cuda_most(bad);
    const float f = k__attn8_codes(top, bad > 0.0f);
    for (int d = 2 * lane; d < ld; d += 64) {
        const int even = d < hd ? k__attn8_round(x[d] * f) : 0, odd = d < hd ? k__attn8_round(x[d + 1] * f) : 0;
        q[d / 2] = (uint32_t)(even & 0xffff) | (uint32_t)odd << 16;
    }
    return k__attn8_unit(top, bad > 0.0f);
}

/* Products of R heads, without the scale of the query; q[head][ld / 2]. */
K_CUDA_FN void k__cuda_scores8(int R, const k_cuda_attend_args *a, const k__cuda_view *v, const uint32_t *q, float *s) {
    const int ld = k__round_up(a->kv.hd_k, 32);
    for (int place = v->first + K_CUDA_THREAD; place < v->last; place += K_CUDA_THREADS) {
        const uint8_t *b = k__cuda_kv_row(&a->kv, v, false, place);
        float          x[K_CUDA_HEADS];
        K_CUDA_UNROLL for (int r = 0; r < R; r++) x[r] = 0.0f;
        for (int d = 0; b && d < ld; d += 32, b += sizeof(block_q8_0)) {
            const float scale = k__cuda_half(k__cuda_ld16(b));
            int         sum[K_CUDA_HEADS];
            K_CUDA_UNROLL for (int r = 0; r < R; r++) sum[r] = 0;
            K_CUDA_ROLL for (int j = 0; j < 16; j += 4) {
                uint32_t k[4];
                K_CUDA_UNROLL for (int i = 0; i < 4; i++) k[i] = k__cuda_ld16(b + 2 + 2 * (j + i));
                K_CUDA_UNROLL for (int r = 0; r < R; r++) {
                    const k__cuda_words w = *(const k__cuda_words *)(const void *)(q + (r * ld + d) / 2 + j);
                    K_CUDA_UNROLL for (int i = 0; i < 4; i++) sum[r] = k__cuda_dp2a(w.v[i], k[i], sum[r]);
                }
            }
            K_CUDA_UNROLL for (int r = 0; r < R; r++) x[r] = d ? fmaf((float)sum[r], scale, x[r]) : (float)sum[r] * scale;
        }
        K_CUDA_UNROLL for (int r = 0; r < R; r++) s[r * K_SEGMENT + place] = x[r];
    }
}

/* Products of head h to weights p; their sums. unit: what a code of the query stands for. The whole warp takes part. */
K_CUDA_FN k__attn_sum k__cuda_weigh8(const k_cuda_attend_args *a, const k__cuda_view *v, int h, float unit, float *s) {
    const int lane = K_CUDA_THREAD % 32;
    float     m = -INFINITY, l = 0.0f;
    for (int i = v->first + lane; i < v->last; i += 32) {
        const float top = k__cuda_shape(i >= v->lo && i < v->hi, unit * a->scale, a->cap, k__cuda_slope(a, v, h),
                                        v->base - v->at + i, s + i);
        m = top > m ? top : m;
    }
    for (int i = v->first + lane; i < v->last; i += 32) {
        s[i] = k__exp_ref(s[i] - (m == -INFINITY ? 0.0f : m));
        l = l + s[i];
    }
    l = k__cuda_add(l);
    const k__attn_sum all = {m, l};
    return all;
}

/* Weights of a head for a block of V, in pairs of positions, from p and the scales of the positions; returns what a step stands
 * for. */
K_CUDA_FN float k__cuda_round8(const k__cuda_view *v, const float *p, const float *dv, uint32_t *w) {
    const int lane = K_CUDA_THREAD % 32;
    float     top = 0.0f;
    for (int i = v->first + lane; i < v->last; i += 32) {
        const float x = fabsf(p[i] * dv[i]);
        top = x > top ? x : top;
    }
    top = k__cuda_most(top);
    const float f = k__attn8_steps(top);
    for (int i = v->first + 2 * lane; i < v->last; i += 64) {
        const int even = k__attn8_round(p[i] * dv[i] * f), odd = k__attn8_round(p[i + 1] * dv[i + 1] * f);
        w[i / 2] = (uint32_t)(even & 0xffff) | (uint32_t)odd << 16;
    }
    return k__attn8_step(top);
}

/* Sums of one dimension of V (the thread's lane) for R heads, over the warp's pairs of positions: sum[head][lane]. */
K_CUDA_FN void k__cuda_gather8(int R, const k__cuda_view *v, const uint8_t *const *row, size_t at, const uint32_t *w, int *sum) {
    const int lane = K_CUDA_THREAD % 32;
    int       acc[K_CUDA_HEADS];
    K_CUDA_UNROLL for (int r = 0; r < R; r++) acc[r] = 0;
    for (int i = v->first / 2 + K_CUDA_THREAD / 32; i < v->last / 2; i += K_CUDA_WARPS) {
        const uint8_t *a = row[2 * i], *b = row[2 * i + 1];
        const uint32_t k = (a ? a[at + (size_t)lane] : 0u) | (b ? b[at + (size_t)lane] : 0u) << 8;
        K_CUDA_UNROLL for (int r = 0; r < R; r++) acc[r] = k__cuda_dp2a(w[r * (K_SEGMENT / 2) + i], k, acc[r]);
    }
    K_CUDA_UNROLL for (int r = 0; r < R; r++) sum[32 * r + lane] = acc[r];
}

/* Shared memory of a block. */
typedef struct {
    uint32_t       *q;                                /* [head][ld_k / 2] codes of queries */
    int            *sum;                              /* [warp][head][32], in the same place */
    float          *s, *dv, *unit, *step;             /* [head][K_SEGMENT], [K_SEGMENT], [head], [head] */
    uint32_t       *w;                                /* [head][K_SEGMENT / 2] */
    const uint8_t **row;                              /* [K_SEGMENT] values */
} k__cuda_codes8;

/* Block g of V: outputs of n heads. */
K_CUDA_FN void k__cuda_values8(const k_cuda_attend_args *a, const k__cuda_view *v, const k__cuda_codes8 *c, int R, int n,
                               int g, float *o) {
    const int    me = K_CUDA_THREAD, warp = me / 32;
    const size_t at = (size_t)g * sizeof(block_q8_0), ld = (size_t)k__round_up(a->kv.hd_v, 32);
    for (int i = v->first + me; i < v->last; i += K_CUDA_THREADS)
        c->dv[i] = c->row[i] ? k__attn8_scale(k__cuda_half(k__cuda_ld16(c->row[i] + at))) : 0.0f;
    k__cuda_sync();
    if (warp < n) c->step[warp] = k__cuda_round8(v, c->s + warp * K_SEGMENT, c->dv, c->w + warp * (K_SEGMENT / 2));
    k__cuda_sync();
    int *sum = c->sum + warp * 32 * K_CUDA_HEADS;
    if (R == 8) k__cuda_gather8(8, v, c->row, at + 2, c->w, sum);
    else if (R == 4) k__cuda_gather8(4, v, c->row, at + 2, c->w, sum);
    else k__cuda_gather8(1, v, c->row, at + 2, c->w, sum);
    k__cuda_sync();
    if (warp >= n) return;
    int all = 0;
    for (int i = 0; i < K_CUDA_WARPS; i++) all += c->sum[i * 32 * K_CUDA_HEADS + me];
    o[(size_t)warp * ld + (size_t)(32 * g + me % 32)] = (float)all * c->step[warp];
}

K_CUDA_FN void k__cuda_attend_codes(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_words, both, K_CUDA_HEADS * K_CUDA_HEAD_K / 8);    /* or K_CUDA_WARPS * K_CUDA_HEADS * 32 sums */
    K_CUDA_SHARED(float, s, K_CUDA_HEADS * K_SEGMENT);
    K_CUDA_SHARED(uint32_t, w, K_CUDA_HEADS * K_SEGMENT / 2);
    K_CUDA_SHARED(const uint8_t *, row, K_SEGMENT);
    K_CUDA_SHARED(float, dv, K_SEGMENT);
    K_CUDA_SHARED(float, unit, K_CUDA_HEADS);
    K_CUDA_SHARED(float, step, K_CUDA_HEADS);
    const k__cuda_codes8 c = {(uint32_t *)(void *)both, (int *)(void *)both, s, dv, unit, step, w, row};
    const int           me = K_CUDA_THREAD, warp = me / 32, ld = k__round_up(a->kv.hd_k, 32), ld_v = k__round_up(a->kv.hd_v, 32);
    k__cuda_view        v;
    int                 h;
    if (!k__cuda_view_of_block(a, &v, &h)) return;
    float    *part = k__cuda_part(a, &v, K_CUDA_BLOCK_Y);
    const int n = a->group - h < K_CUDA_HEADS ? a->group - h : K_CUDA_HEADS, R = n > 4 ? 8 : n > 1 ? 4 : 1;
    for (int i = v.first + me; i < v.last; i += K_CUDA_THREADS) row[i] = k__cuda_kv_row(&a->kv, &v, true, i);
    if (warp < n) unit[warp] = k__cuda_ask8(a, k__cuda_query(a, &v, h + warp), ld, c.q + warp * ld / 2);
    k__cuda_sync();
    if (R == 8) k__cuda_scores8(8, a, &v, c.q, s);
    else if (R == 4) k__cuda_scores8(4, a, &v, c.q, s);
    else k__cuda_scores8(1, a, &v, c.q, s);
    k__cuda_sync();
    if (warp < n) {
        const k__attn_sum all = k__cuda_weigh8(a, &v, h + warp, unit[warp], s + warp * K_SEGMENT);
        if (me % 32 == 0) *k__cuda_part_sum(a, part, h + warp) = all;
    }
    for (int g = 0; g < ld_v / 32; g++) k__cuda_values8(a, &v, &c, R, n, g, part + (size_t)h * (size_t)ld_v);
}

/* --- the same for many rows ---
 * Up to K_CUDA_ASKS query heads of some rows of a sequence go through a segment together, 4 to a warp. A lane has one position of
 * each tile, and keeps the scores of all tiles in registers, since the steps of weights are known after the last one. Blocks of V
 * come one by one: a lane has one dimension. */

enum { K_CUDA_EACH = K_CUDA_ASKS / K_CUDA_WARPS };    /* query heads of a warp */

typedef struct {
    k__cuda_words q[K_CUDA_ASKS / 2 * K_CUDA_HEAD_K / 8];     /* [head][ld_k / 8] codes of queries, in pairs */
    uint32_t      code[K_TILE * (K_CUDA_HEAD_K / 4 + 1)]; /* [position][ld_k / 4 + 1] a tile of keys: threads use all banks */
    float         scale[K_TILE * K_CUDA_HEAD_K / 32];  /* [block of the key][position] */
} k__cuda_keys8;

typedef struct {
    uint16_t      code[K_SEGMENT / 2][32];            /* a block of V, in pairs of positions */
    float         scale[K_SEGMENT];
    k__cuda_words w[K_CUDA_WARPS][K_CUDA_EACH][4];    /* weights of a tile, in pairs */
} k__cuda_block8;

typedef struct {
    union { k__cuda_keys8 k; k__cuda_block8 v; };
    const uint8_t *row[K_SEGMENT];                    /* values */
    k__cuda_asker  ask[K_CUDA_ASKS];
    float          unit[K_CUDA_ASKS];                 /* what a code of the query stands for, times the scale of scores */
} k__cuda_asks8;

/* Heads first .. first + n - 1 of a warp, and what its lane has of them: scores, then weights; a lane's position in each tile. */
typedef struct {
    int   first, n;
    float p[K_CUDA_TILES][K_CUDA_EACH];
} k__cuda_warp8;

/* Keys of the tile at `place`. */
K_CUDA_FN void k__cuda_fetch_keys8(const k_cuda_attend_args *a, const k__cuda_view *v, int ld, int place, k__cuda_keys8 *to) {
    const int each = ld / 8;
    for (int i = K_CUDA_THREAD; i < K_TILE * each; i += K_CUDA_THREADS) {
        const int      p = i / each, d = i % each * 8;
        const uint8_t *row = k__cuda_kv_row(&a->kv, v, false, place + p),
                       *b = row ? row + d / 32 * (int)sizeof(block_q8_0) : NULL;
        uint32_t       w[2] = {0, 0};
        K_CUDA_UNROLL for (int k = 0; k < 4; k++)
            if (b) w[k / 2] |= (uint32_t)k__cuda_ld16(b + 2 + d % 32 + 2 * k) << k % 2 * 16;
        K_CUDA_UNROLL for (int k = 0; k < 2; k++) to->code[p * (ld / 4 + 1) + d / 4 + k] = w[k];
        if (d % 32 == 0) to->scale[d + p] = b ? k__cuda_half(k__cuda_ld16(b)) : 0.0f;
    }
}

/* Products of the warp's heads with the lane's key, without the scale of the query. */
K_CUDA_FN void k__cuda_products8(const k__cuda_keys8 *m, int ld, int first, float x[K_CUDA_EACH]) {
    const int       lane = K_CUDA_THREAD % 32;
    const uint32_t *code = m->code + lane * (ld / 4 + 1);
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) x[r] = 0.0f;
    for (int d = 0; d < ld; d += 32) {
        int sum[K_CUDA_EACH];
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) sum[r] = 0;
        K_CUDA_UNROLL for (int j = 0; j < 32; j += 8) {
            const uint32_t low = code[(d + j) / 4], high = code[(d + j) / 4 + 1];
            K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
                const k__cuda_words q = m->q[((first + r) * ld + d + j) / 8];
                sum[r] = k__cuda_dp2a(q.v[0], low, sum[r]), sum[r] = k__cuda_dp2a(q.v[1], low >> 16, sum[r]);
                sum[r] = k__cuda_dp2a(q.v[2], high, sum[r]), sum[r] = k__cuda_dp2a(q.v[3], high >> 16, sum[r]);
            }
        }
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) x[r] = d ? fmaf((float)sum[r], m->scale[d + lane], x[r])
                                   : (float)sum[r] * m->scale[d + lane];
    }
}

/* Scores of the warp's heads for a tile. */
K_CUDA_FN void k__cuda_score8(const k_cuda_attend_args *a, const k__cuda_asks8 *m, int ld, int tile, k__cuda_warp8 *me) {
    const int place = K_TILE * tile + K_CUDA_THREAD % 32;
    float     x[K_CUDA_EACH];
    k__cuda_products8(&m->k, ld, me->first, x);
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
        if (r >= me->n) continue;
        const k__cuda_asker *ask = &m->ask[me->first + r];
        const bool           there = place >= ask->lo && place < ask->hi;
        const float          s = there
                                 ? k__attn_shape(x[r] * m->unit[me->first + r], a->cap, ask->slope, ask->far + place) : -INFINITY;
        /* registers have no index */
        K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) me->p[t][r] = t == tile ? s : me->p[t][r];
    }
}

/* Scores of the warp's heads to weights; their sums go where `ask` says. */
K_CUDA_FN void k__cuda_weigh_warp8(const k__cuda_asker *ask, k__cuda_warp8 *me) {
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
        k__attn_sum all = {-INFINITY, 0.0f};
        K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) all.m = me->p[t][r] > all.m ? me->p[t][r] : all.m;
        all.m = k__cuda_most(all.m);
        K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) {
            me->p[t][r] = k__exp_ref(me->p[t][r] - (all.m == -INFINITY ? 0.0f : all.m));
            all.l = all.l + me->p[t][r];
        }
        all.l = k__cuda_add(all.l);
        if (K_CUDA_THREAD % 32 == 0 && r < me->n && ask[me->first + r].sum) *ask[me->first + r].sum = all;
    }
}

/* Values whose codes begin at byte `at` of their rows, and their scales. */
K_CUDA_FN void k__cuda_fetch_block8(const k__cuda_view *v, size_t at, const uint8_t *const *row, k__cuda_block8 *to) {
    const int me = K_CUDA_THREAD;
    for (int i = v->first * 8 + me; i < v->last * 8; i += K_CUDA_THREADS) {
        const int      pair = i / 16, d = i % 16 * 2;
        const uint8_t *a = row[2 * pair], *b = row[2 * pair + 1];
        const uint32_t even = a ? k__cuda_ld16(a + at + d) : 0u, odd = b ? k__cuda_ld16(b + at + d) : 0u;
        to->code[pair][d] = (uint16_t)((even & 255) | (odd & 255) << 8);
        to->code[pair][d + 1] = (uint16_t)(even >> 8 | (odd >> 8) << 8);
    }
    for (int i = v->first + me; i < v->last; i += K_CUDA_THREADS)
        to->scale[i] = row[i] ? k__attn8_scale(k__cuda_half(k__cuda_ld16(row[i] + at - 2))) : 0.0f;
}

/* The largest weight of head r that contains the scale of its position. */
K_CUDA_FN float k__cuda_top8(const k__cuda_view *v, const float *scale, const k__cuda_warp8 *me, int r) {
    float top = 0.0f;
    K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) {
        const int   place = K_TILE * t + K_CUDA_THREAD % 32;
        const float x = place >= v->first && place < v->last ? fabsf(me->p[t][r] * scale[place]) : 0.0f;
        top = x > top ? x : top;
    }
    return k__cuda_most(top);
}

/* Adds a tile's values, of which a lane has one dimension, to the sums of the warp's heads. */
K_CUDA_FN void k__cuda_add8(const k__cuda_block8 *m, int tile, int acc[K_CUDA_EACH]) {
    const k__cuda_words (*w)[4] = m->w[K_CUDA_THREAD / 32];
    K_CUDA_ROLL for (int i = 0; i < 4; i++) {
        const uint16_t *code = m->code[K_TILE / 2 * tile + 4 * i] + K_CUDA_THREAD % 32;
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
            const k__cuda_words four = w[r][i];
            K_CUDA_UNROLL for (int k = 0; k < 4; k++) acc[r] = k__cuda_dp2a(four.v[k], code[32 * k], acc[r]);
        }
    }
}

/* Outputs of the warp's heads for block g of V. */
K_CUDA_FN void k__cuda_outputs8(const k__cuda_view *v, k__cuda_asks8 *m, const k__cuda_warp8 *me, int g) {
    const int      lane = K_CUDA_THREAD % 32;
    k__cuda_words (*w)[4] = m->v.w[K_CUDA_THREAD / 32];
    float          top[K_CUDA_EACH];
    int            acc[K_CUDA_EACH];
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) top[r] = k__cuda_top8(v, m->v.scale, me, r), acc[r] = 0;
    K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) {
        if (K_TILE * t < v->first || K_TILE * t >= v->last) continue;
        k__cuda_sync_warp();                          /* the weights before these are used */
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
            const int own = k__attn8_round(me->p[t][r] * m->v.scale[K_TILE * t + lane] * k__attn8_steps(top[r]));
            const int other = (int)k__cuda_other((float)own, 1);
            if (lane % 2 == 0) w[r][lane / 8].v[lane % 8 / 2] = (uint32_t)(own & 0xffff) | (uint32_t)other << 16;
        }
        k__cuda_sync_warp();
        k__cuda_add8(&m->v, t, acc);
    }
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++)
        if (r < me->n && m->ask[me->first + r].o) m->ask[me->first + r].o[32 * g + lane] = (float)acc[r] * k__attn8_step(top[r]);
}

/* Heads v0 .. v0 + n - 1 of rows i, i + 1, ..., which see parts of `run`; again: not the first ones of the block. */
K_CUDA_FN void k__cuda_some8(const k_cuda_attend_args *a, const k__cuda_view *run, k__cuda_asks8 *m, int i, int v0, int n,
                             bool again) {
    const int     me = K_CUDA_THREAD, ld = k__round_up(a->kv.hd_k, 32), first = me / 32 * K_CUDA_EACH;
    k__cuda_warp8 w;
    w.first = first, w.n = n - first;
    K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++)
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) w.p[t][r] = -INFINITY;
    if (again) k__cuda_sync();                        /* the heads before these are done */
    if (me < n) k__cuda_asker_of(a, run, i, v0 + me, &m->ask[me]);
    for (int p = run->first + me; p < run->last; p += K_CUDA_THREADS) m->row[p] = k__cuda_kv_row(&a->kv, run, true, p);
    k__cuda_sync();
    for (int h = first; h < n && h < first + K_CUDA_EACH; h++) {
        const float unit = k__cuda_ask8(a, m->ask[h].q, ld, (uint32_t *)(void *)m->k.q + h * ld / 2);
        if (me % 32 == 0) m->unit[h] = unit * a->scale;
    }
    for (int tile = run->first / K_TILE; tile < run->last / K_TILE; tile++) {
        if (tile > run->first / K_TILE) k__cuda_sync();   /* the keys before these are used */
        k__cuda_fetch_keys8(a, run, ld, K_TILE * tile, &m->k);
        k__cuda_sync();
        if (w.n > 0) k__cuda_score8(a, m, ld, tile, &w);
    }
    k__cuda_weigh_warp8(m->ask, &w);
    for (int g = 0; g < k__round_up(a->kv.hd_v, 32) / 32; g++) {
        k__cuda_sync();                               /* the keys, or the values before these, are used */
        k__cuda_fetch_block8(run, (size_t)g * sizeof(block_q8_0) + 2, m->row, &m->v);
        k__cuda_sync();
        if (w.n > 0) k__cuda_outputs8(run, m, &w, g);
    }
}

K_CUDA_FN void k__cuda_attend_codes_many(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_asks8, m, 1);
    const k__cuda_lot lot = k__cuda_lot_of(a);
    const int most = a->kv.hd_k <= 256 ? K_CUDA_ASKS : K_CUDA_ASKS / 2;   /* queries in shared memory */
    bool         again = false;
    k__cuda_view run;
    for (int i = lot.first, end; i < lot.last && (end = k__cuda_run(a, i, lot.last, lot.kv_head, &run)) > i; i = end) {
        if (run.lo >= run.hi) continue;
        const int n = k__cuda_lot_end(&lot, (end - i) * a->group);
        for (int v0 = lot.head; v0 < n; v0 += most, again = true)
            k__cuda_some8(a, &run, m, i, v0, n - v0 < most ? n - v0 : most, again);
    }
}

/* --- segments to results --- */

/* The values of a row and K/V head are dealt to the blocks of a column of the grid. */
K_CUDA_FN void k__cuda_attend_merge(const k_cuda_attend_args *a) {
    const int    hd = a->kv.hd_v;
    k__cuda_view v;
    if (!k__cuda_see(a, K_CUDA_BLOCK_X / a->kv.n_head, K_CUDA_BLOCK_X % a->kv.n_head, &v)) return;
    const int n = v.begin < v.end ? (v.end - 1) / K_SEGMENT - v.begin / K_SEGMENT + 1 : 0;
    for (int i = K_CUDA_THREADS * K_CUDA_BLOCK_Y + K_CUDA_THREAD; i < a->group * hd; i += K_CUDA_THREADS * K_CUDA_GRID_Y) {
        const int   h = i / hd, d = i % hd, head = v.head * a->group + h;
        k__attn_sum all = {-INFINITY, 0.0f};
        float       o = 0.0f, *part = k__cuda_part(a, &v, 0);
        for (int s = 0; s < n; s++, part += k__attn_part_floats(a->group, hd)) {
            const float        x = part[(size_t)h * (size_t)k__round_up(hd, 32) + (size_t)d];
            const k__attn_sum *sum = k__cuda_part_sum(a, part, h);
            float              f, g;
            if (s) {
                k__attn_factors(k__exp_ref, &all, sum, &f, &g);
                o = o * f + x * g;
            } else {
                all = *sum, o = x;
            }
        }
        a->o.x[(size_t)v.row * a->o.ld + (size_t)head * (size_t)hd + (size_t)d] = o
            * k__attn_share(all, a->sinks ? a->sinks + head : NULL) + 0.0f;
    }
}
