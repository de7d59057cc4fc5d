/* ===== [attn] rows of the cache, attention =====
 * k_kv_store and k_attn at every level: _ref in plain C, _avx2, _avx512, _bf16. The rules of [vec] hold, and sums have an order:
 * Positions are taken in tiles of 32, at absolute multiples of 32. A tile of K and V is widened to f32 once (or to pairs of bf16)
 * for all rows. K is transposed, so that a lane is a position and no sum goes across lanes: s = fma(q[d], k[d], s).
 * Sixteen tiles are a segment: 512 positions, at absolute multiples of 512. In a segment each row has the largest score m so far,
 * the sum l of the weights, and the output o before the division by l. A tile updates them:
 *     m' = max(m, s);  c = exp(m - m');  p = exp(s - m');  l = l*c + sum(p);  o = o*c, then o = fma(p[i], v[i], o)
 * Segments are merged in rising order, each into the result (M, L, O) of those before it, which begins as that of the first:
 *     M' = max(M, m);  a = exp(M - M');  b = exp(m - M');  L = L*a + l*b;  O = O*a + o*b, every operation rounded
 * One of a and b is 1. So any thread can compute a segment, and up to 512 positions need no merge. The result is O / L.
 * Sums over dimensions (s) and positions (o) add pairs, the odd element first. Caches of bf16 and of quantised types
 * are multiplied as bf16: their values are rounded to bf16, and so are q and p (as in FlashAttention); these are the
 * sums of the instruction vdpbf16ps. Where K and V are both q8_0, a segment is computed in integers ("both caches q8_0"
 * below). A row adds only positions that it sees, so its result does not depend on the other rows of the call. */

/* --- what a GPU computes by the same code --- */

enum { K_TILE = 32, K_ATTN_GROUP = 8 };         /* positions in a tile; rows that a level computes together */
enum { K_ATTN8_Q = 16383, K_ATTN8_P = 32767 };  /* "both caches q8_0": the largest code of a query, of a weight */

/* For one row and some positions: m is the largest score, l the sum of the weights exp(score - m). */
typedef struct {
    float m, l;
} k__attn_sum;

/* A partial result: outputs [n_rows][hd_v rounded up to 32], then the sums of the rows. */
K__BODY int    k__round_up(int n, int to) { return (n + to - 1) / to * to; }
K__BODY size_t k__attn_part_floats(int n_rows, int hd_v) {
    return (size_t)n_rows * (size_t)k__round_up(hd_v, 32) + (size_t)k__round_up(2 * n_rows, 16);
}

/* Whether caches of the type are multiplied as bf16; whether both are multiplied as integers. */
K__BODY bool k__kv_rounds(uint32_t type) { return type != K_F32 && type != K_F16; }
K__BODY bool k__kv_codes(uint32_t type_k, uint32_t type_v) { return type_k == K_Q8_0 && type_v == K_Q8_0; }

K__BODY float k__bf16_round(float x) { return k_bf16_to_f32(k_f32_to_bf16(x)); }

/* A score, times the scale, with the cap and what ALiBi takes from
 * it: slope NULL: nothing; far: positions between key and query. */
K__BODY float k__attn_shape(float s, float cap, const float *slope, int far) {
    if (cap != 0) s = cap * k__tanh_ref(s / cap);
    return slope ? fmaf(-*slope, fabsf((float)far), s) : s;
}

/* The factors with which a segment (part) is merged into the result of those before it (all, which is updated). */
K__BODY void k__attn_factors(float (*decay)(float), k__attn_sum *all, const k__attn_sum *part, float *a, float *b) {
    const bool  less = all->m < part->m;
    const float top = less ? part->m : all->m, low = less ? all->m : part->m, c = decay(low - (top == -INFINITY ? 0 : top));
    *a = less ? c : 1, *b = less ? 1 : c;
    all->l = all->l * *a + part->l * *b;
    all->m = top;
}

/* The factor of a row's outputs at the end. A sink is one more weight without a value; NULL: there is none. */
K__BODY float k__attn_share(k__attn_sum all, const float *sink) {
    float c = 1;
    if (sink && *sink != -INFINITY) {
        const float top = all.m < *sink ? *sink : all.m;
        c = k__exp_ref(all.m - top);
        all.l = fmaf(all.l, c, k__exp_ref(*sink - top));
    }
    return k__share_of(all.l) * c;
}

/* The nearest integer, to even, of |x| < 2^22; anything of a NaN. */
K__BODY int32_t k__attn8_round(float x) { return (int32_t)(k__bits_of(x + K_ROUND) - k__bits_of(K_ROUND)); }

/* Codes of 1 in a query whose largest magnitude is top; bad: not all of it is finite. What a code of it stands for. */
K__BODY float k__attn8_codes(float top, bool bad) { return top < 0x1p-100f || bad ? 0 : K_ATTN8_Q / top; }
K__BODY float k__attn8_unit(float top, bool bad) { return bad ? NAN : top < 0x1p-100f ? 0 : top / K_ATTN8_Q; }

/* What one step of w stands for, and the steps in 1. */
K__BODY float k__attn8_step(float top) { return top < 0x1p-100f ? 0 : top < 0x1p17f ? top / K_ATTN8_P : NAN; }
K__BODY float k__attn8_steps(float top) { return top < 0x1p-100f ? 0 : K_ATTN8_P / top; }

/* The scale of a block of V. */
K__BODY float k__attn8_scale(float d) { return fabsf(d) < INFINITY ? d : 0x1p127f; }

#ifndef __CUDACC__

/* The bytes of the next tile that are not prefetched yet. A level prefetches a line of K with every dimension of the scores, and
 * two of V with every position of the sums. The hardware does not prefetch across blocks, and all lines at once would stall. */
typedef struct {
    const uint8_t *k, *k_end, *v, *v_end;
} k__attn_ahead;

/* Up to K_ATTN_GROUP rows: their spans [lo, hi) of the tile, their state (m, l, o) and the factor c of the tile.
 * The last four rows are filled up with empty spans, so that a level can compute weights of four rows at a time. */
typedef struct {
    int          n;                             /* rows of the group; each array below has one element per row */
    int          row[K_ATTN_GROUP];             /* number of the row in the call */
    int          lo[K_ATTN_GROUP], hi[K_ATTN_GROUP];
    const float *q[K_ATTN_GROUP];
    float       *o[K_ATTN_GROUP];
    float        m[K_ATTN_GROUP], l[K_ATTN_GROUP], c[K_ATTN_GROUP];
    float        slope[K_ATTN_GROUP];           /* where there are slopes */
    int          far[K_ATTN_GROUP];             /* the first position of the tile minus the row's own one */
} k__attn_rows;

/* Converts n_pos positions of n values, stride bytes apart, into rows ld floats apart. */
typedef void k__attn_widen(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld);

/* How a level multiplies keys: as f32, or as pairs of bf16 (a pair takes the place of a float). */
typedef struct {
    int            per;                         /* dimensions in 4 bytes */
    k__attn_widen *widen;
    /* kt[d*32 + i] = k[i*ld + d], ld a multiple of 16 */
    void (*transpose)(const float *k, int ld, float *kt);
    /* rounds a query to bf16, in the format of the keys */
    void (*round)(const float *q, int n, float *dst);
    /* s[r*32 + i] = q[r] . kt[., i], n times 4 bytes of each */
    void (*scores)(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s);
} k__attn_keys;

/* How a level multiplies values; pairs are of positions: [16][ld]. */
typedef struct {
    int            per;                         /* positions in 4 bytes */
    k__attn_widen *widen;
    /* rows of bf16 [32][ld] to pairs; NULL with f32 */
    void (*pair)(const float *v, int ld, float *pairs);
    /* o[r] = o[r]*c[r], then += s[r*32 + i] * v[i] for i = lo..hi-1; ld a multiple of 32 */
    void (*gather)(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld, int lo, int hi,
                   k__attn_ahead *ahead);
} k__attn_values;

/* --- both caches q8_0: integers ---
 * Where K and V are both q8_0, products are sums of integers, which
 * are exact in any order. For each row, with K and V in blocks of 32:
 *   q:      qi = round(q * (K_ATTN8_Q / max|q|)), to even; dq = max|q| / K_ATTN8_Q; both 0 where max|q| < 2^-100, and dq is NaN
 *           where max|q| is not finite or some q is NaN
 *   scores: s = the sum over blocks g of (float)(sum of qi * k) * dk[g], the first a product, the others by fma in rising order;
 *           then s * (dq * scale), the cap, the slope; positions that the row does not see have -inf
 *   m:      the largest s of the segment that is not NaN; p = exp(s - m), with m = 0 where all are -inf
 *   l:      the sum of p: 32 lanes, lane i the positions i, 32 + i, .. of the segment in this order; lanes are added as in [vec]
 *   V:      a weight contains its position's scale: x = p * dv[g]; top[g] = the largest |x| that is not NaN;
 *           w = round(x * (K_ATTN8_P / top)), to even; o = (float)(sum of w * v) * (top / K_ATTN8_P); 0 where top < 2^-100
 * A scale dv that is not finite counts as 2^127, and a top of 2^17 or more (finite ones stay below) makes o NaN. m, l and o are
 * the partial results of the segment, merged as those of other caches. Codes are -128 .. 127, so that no int32 sum overflows:
 * 32 * 16383 * 128 and 512 * 32767 * 128. Positions outside a row's span have w = 0; blocks before the window read as zeros. */

enum { K_ATTN8_ROWS = 8 };

/* What a call holds. Products add pairs of int16: K has pairs of dimensions, 16 positions side by side; V pairs of positions, 16
 * dimensions side by side; q and w lie in the same order. */
typedef struct {
    int      ld_k, ld_v;                        /* dimensions, multiples of 32 */
    int16_t *k;                                 /* [K_SEGMENT/16][ld_k/2][16][2], dimensions in the order of k__attn8_at() */
    int16_t *v;                                 /* [ld_v/16][K_SEGMENT/2][16][2] */
    float   *dk, *dv;                           /* [ld_k/32][K_SEGMENT], [ld_v/32][K_SEGMENT] */
    int16_t *q;                                 /* [n_rows][ld_k] in the same order */
    float   *dq;                                /* [n_rows] times the scale of scores */
    float   *s;                                 /* [K_ATTN8_ROWS][K_SEGMENT] scores, then weights p */
    int16_t *w;                                 /* [ld_v/32][K_ATTN8_ROWS][K_SEGMENT] */
    float   *step;                              /* [ld_v/32][K_ATTN8_ROWS] what one step of w stands for */
    uint8_t *zeros;                             /* a row of K or V without values */
} k__attn8;

/* Some rows: places [lo[r], hi[r]) of the segment that row r sees, all of them in [first, last), multiples of K_TILE. */
typedef struct {
    int n;
    int first, last;
    int row[K_ATTN8_ROWS];                      /* number of the row in the call */
    int lo[K_ATTN8_ROWS], hi[K_ATTN8_ROWS];
} k__attn8_rows;

/* How a level computes it. */
typedef struct {
    /* rows of 16 positions from `place` of the segment on, in their layouts */
    void (*pack_k)(const k__attn8 *c, const uint8_t *const *row, int place);
    void (*pack_v)(const k__attn8 *c, const uint8_t *const *row, int place);
    void (*scores)(const k__attn8 *c, const k__attn8_rows *g);
    /* the r-th row's scores to weights; part receives m and l */
    void (*weigh)(const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base, k__attn_sum *part);
    /* o[row][ld_v] of each row */
    void (*gather)(const k__attn8 *c, const k__attn8_rows *g, float *o);
} k__attn8_level;

typedef struct {
    const k__attn_keys   *keys;
    const k__attn_values *values;
    /* turns scores s[r*32 + i] into weights p, 0 outside the spans, rounded to bf16 where values are; updates m and l, sets c */
    void (*weigh)(const k_attn_args *a, k__attn_rows *g, float *s);
    /* merges the next segment (part, output from[n]) into the result of those before it (all, o[n]) */
    void (*join)(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n);
    const k__attn8_level *codes;                /* where K and V are q8_0; NULL: other caches */
} k__attn_level;

typedef struct {
    float        *k;                            /* [K_TILE][ld_k] a tile of keys */
    float        *kt;                           /* [ld_k][K_TILE] the same, transposed */
    float        *v;                            /* [K_TILE][ld_v] a tile of values */
    float        *s;                            /* [K_ATTN_GROUP][K_TILE] scores, then weights */
    float        *q;                            /* [n_rows][ld_k] padded queries */
    float        *o;                            /* [n_rows][ld_v] outputs of the current segment */
    k__attn_sum  *part;                         /* [n_rows] sums of the current segment, stored after o */
    k__attn_sum  *all;                          /* [n_rows] those of the segments before it */
    int           ld_k, ld_v;                   /* dimensions of a head, rounded up to multiples of 32 */
    k__attn_ahead ahead;
    k__attn8      codes;                        /* where K and V are q8_0 */
} k__attn_mem;

K_PUBLIC size_t k_attn_part(int n_rows, int hd_v) { return k__attn_part_floats(n_rows, hd_v); }

static size_t k__attn8_bytes(size_t n_rows, size_t ld_k, size_t ld_v) {
    const size_t floats = (ld_k + ld_v) / 32 * K_SEGMENT + (K_SEGMENT + ld_v / 32) * K_ATTN8_ROWS + n_rows;
    return floats * sizeof(float) +
           (K_SEGMENT * (ld_k + ld_v + ld_v / 32 * K_ATTN8_ROWS) + n_rows * ld_k) * sizeof(int16_t) +
           (ld_k + ld_v) / 32 * sizeof(block_q8_0);
}

/* Carves p, aligned to 64; what is read as vectors comes first. */
static k__attn8 k__attn8_carve(size_t n_rows, size_t ld_k, size_t ld_v, uint8_t *p) {
    k__attn8 c = {.ld_k = (int)ld_k, .ld_v = (int)ld_v};
    c.k = (int16_t *)(void *)p, p += K_SEGMENT * ld_k * sizeof *c.k;
    c.v = (int16_t *)(void *)p, p += K_SEGMENT * ld_v * sizeof *c.v;
    c.w = (int16_t *)(void *)p, p += ld_v / 32 * K_ATTN8_ROWS * K_SEGMENT * sizeof *c.w;
    c.dk = (float *)(void *)p, p += ld_k / 32 * K_SEGMENT * sizeof *c.dk;
    c.dv = (float *)(void *)p, p += ld_v / 32 * K_SEGMENT * sizeof *c.dv;
    c.s = (float *)(void *)p, p += K_ATTN8_ROWS * K_SEGMENT * sizeof *c.s;
    c.step = (float *)(void *)p, p += ld_v / 32 * K_ATTN8_ROWS * sizeof *c.step;
    c.dq = (float *)(void *)p, p += n_rows * sizeof *c.dq;
    c.q = (int16_t *)(void *)p, p += n_rows * ld_k * sizeof *c.q;
    c.zeros = p;
    return c;
}

K_PUBLIC size_t k_attn_scratch(int n_rows, int hd_k, int hd_v) {
    const size_t ld_k = (size_t)k__round_up(hd_k, 32), ld_v = (size_t)k__round_up(hd_v, 32), n = (size_t)n_rows;
    return (K_TILE * (2 * ld_k + ld_v + K_ATTN_GROUP) + n * (ld_k + 2) + k_attn_part(n_rows, hd_v)) * sizeof(float) + 128 +
           k__attn8_bytes(n, ld_k, ld_v);
}

/* The partial results of the current segment go to `part`. */
static void k__attn_part_to(k__attn_mem *w, const k_attn_args *a, float *part) {
    w->o = part;
    w->part = (k__attn_sum *)(void *)(part + (size_t)a->n_rows * (size_t)w->ld_v);
}

static k__attn_mem k__attn_carve(const k_attn_args *a, void *scratch) {
    k__attn_mem w = {.ld_k = k__round_up(a->hd_k, 32), .ld_v = k__round_up(a->hd_v, 32)};
    size_t      n = (size_t)a->n_rows;
    float      *p = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    w.k = p, p += (size_t)w.ld_k * K_TILE;
    w.kt = p, p += (size_t)w.ld_k * K_TILE;
    w.v = p, p += (size_t)w.ld_v * K_TILE;
    w.s = p, p += K_ATTN_GROUP * K_TILE;
    w.q = p, p += (size_t)w.ld_k * n;
    k__attn_part_to(&w, a, p);
    p += k_attn_part(a->n_rows, a->hd_v);
    w.all = (k__attn_sum *)(void *)p;
    p += 2 * n;
    w.codes = k__attn8_carve(n, (size_t)w.ld_k, (size_t)w.ld_v, (uint8_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63));
    return w;
}

static float *k__attn_o(const k__attn_mem *w, int r) { return w->o + (size_t)r * (size_t)w->ld_v; }

/* Prepares row r for a segment. */
static void k__attn_clear(const k__attn_mem *w, int r) {
    memset(k__attn_o(w, r), 0, (size_t)w->ld_v * sizeof(float));
    w->part[r] = (k__attn_sum){-INFINITY, 0};
}

/* Where dimension d lies: of four the order is 0, 2, 1, 3. */
K__BODY int k__attn8_at(int d) { return (d & ~3) | (d & 1) << 1 | (d >> 1 & 1); }

/* Quantises the query of row r. */
static void k__attn8_ask(const k_attn_args *a, const k__attn8 *c, int r) {
    const float *x = a->rows[r].q;
    int16_t     *q = c->q + (size_t)r * (size_t)c->ld_k;
    float        top = 0, bad = 0;
    for (int i = 0; i < a->hd_k; i++) {
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        bad += x[i] * 0;
    }
    const float f = k__attn8_codes(top, bad != 0);
    c->dq[r] = k__attn8_unit(top, bad != 0) * a->scale;
    memset(q, 0, (size_t)c->ld_k * sizeof *q);
    for (int i = 0; i < a->hd_k && f != 0; i++) q[k__attn8_at(i)] = (int16_t)k__attn8_round(x[i] * f);
}

static void k__attn8_start(const k_attn_args *a, const k__attn8 *c) {
    memset(c->zeros, 0, (size_t)(c->ld_k + c->ld_v) / 32 * sizeof(block_q8_0));
    for (int r = 0; r < a->n_rows; r++) k__attn8_ask(a, c, r);
}

/* Zeros the padding of tiles and queries; copies the queries in the format of the level. */
static void k__attn_start(const k__attn_level *lv, const k_attn_args *a, const k__attn_mem *w) {
    const size_t tile = (size_t)(2 * w->ld_k + w->ld_v + K_ATTN_GROUP) * K_TILE;
    if (lv->codes) {
        for (int r = 0; r < a->n_rows; r++) k__attn_clear(w, r);
        k__attn8_start(a, &w->codes);
        return;
    }
    memset(w->k, 0, (tile + (size_t)w->ld_k * (size_t)a->n_rows) * sizeof(float));
    for (int r = 0; r < a->n_rows; r++) {
        k__attn_clear(w, r);
        float *q = w->q + (size_t)r * (size_t)w->ld_k;
        if (k__kv_rounds(a->type_k)) lv->keys->round(a->rows[r].q, a->hd_k, q);
        else memcpy(q, a->rows[r].q, (size_t)a->hd_k * sizeof *q);
    }
}

/* Address of position p, and how many of the `want` positions from
 * there are in the same block. NULL: the block is before the window. */
static const uint8_t *k__attn_find(const uint8_t *const *blocks, size_t stride, int block, int64_t p, int want, int *run) {
    const uint8_t *at = blocks[p / block];
    int            off = (int)(p % block);
    *run = block - off < want ? block - off : want;
    return at ? at + (size_t)off * stride : NULL;
}

/* Widens positions [lo, hi) of the tile at base. It skips blocks before the window, since no row of the call sees them. A
 * head that ends inside a quantised block was padded with zeros up to the end of the block, and so is the tile up to ld. */
static void k__attn_fetch(k__attn_widen *widen, uint32_t type, const uint8_t *const *blocks, size_t stride, int block,
                          int n, int64_t base, int lo, int hi, float *dst, int ld) {
    n = k__round_up(n, k_types[type].block);
    for (int run; lo < hi; lo += run) {
        const uint8_t *src = k__attn_find(blocks, stride, block, base + lo, hi - lo, &run);
        if (src) widen(type, src, stride, run, n, dst + (size_t)lo * (size_t)ld, ld);
    }
}

/* The positions of the tile at base that row r sees, as [*lo, *hi) of 0..32; false: none. */
static bool k__attn_span(const k_attn_row *r, int64_t base, int *lo, int *hi) {
    int64_t b = r->begin - base, e = r->end - base;
    *lo = b < 0 ? 0 : b > K_TILE ? K_TILE : (int)b;
    *hi = e < 0 ? 0 : e > K_TILE ? K_TILE : (int)e;
    return *lo < *hi;
}

static int k__min_of(const int *v, int n) { int m = v[0]; for (int i = 1; i < n; i++) m = v[i] < m ? v[i] : m; return m; }
static int k__max_of(const int *v, int n) { int m = v[0]; for (int i = 1; i < n; i++) m = v[i] > m ? v[i] : m; return m; }

/* The t-th position in summation order, which takes the odd one of each pair first; false: it is not in the span. */
K__BODY bool k__pair_at(int t, int lo, int hi, int *i) {
    *i = t ^ 1;
    return *i >= lo && *i < hi;
}

/* Each row sums its own span in order. Whole pairs that all spans share are summed for all rows together. */
static void k__attn_gather(const k__attn_values *lv, k__attn_mem *w, k__attn_rows *g) {
    int lo = k__round_up(k__max_of(g->lo, g->n), 2), hi = k__min_of(g->hi, g->n) & ~1;
    if (lo > hi) hi = lo;
    for (int r = 0; r < g->n; r++)
        if (g->lo[r] < lo) {
            int stop = g->hi[r] < lo ? g->hi[r] : lo;
            lv->gather(&g->o[r], &g->c[r], 1, w->s + r * K_TILE, w->v, w->ld_v, g->lo[r], stop, &w->ahead);
            g->c[r] = 1;
        }
    if (lo < hi) lv->gather(g->o, g->c, g->n, w->s, w->v, w->ld_v, lo, hi, &w->ahead);
    for (int r = 0; r < g->n; r++) {
        int from = g->lo[r] > hi ? g->lo[r] : hi;
        if (lo < hi) g->c[r] = 1;
        if (from < g->hi[r]) lv->gather(&g->o[r], &g->c[r], 1, w->s + r * K_TILE, w->v, w->ld_v, from, g->hi[r], &w->ahead);
    }
}

/* What ALiBi takes from the scores of the tile at base. */
static void k__attn_lean(const k_attn_args *a, k__attn_rows *g, int64_t base) {
    for (int r = 0; r < K_ATTN_GROUP; r++) {
        g->slope[r] = r < g->n ? a->slopes[g->row[r]] : 0;
        g->far[r] = r < g->n ? (int)(base - a->rows[g->row[r]].at) : 0;
    }
}

/* Adds the biases of the tile at base to the products. It is the same at every level. */
static void k__attn_bias(const k_attn_args *a, const k__attn_rows *g, int64_t base, float *s) {
    for (int r = 0; r < g->n; r++, s += K_TILE) {
        const k_attn_row *row = &a->rows[g->row[r]];
        for (int i = g->lo[r]; i < g->hi[r]; i++) {
            const int64_t at = a->reach + (base + i - row->at);
            s[i] += row->bias[at < 0 ? 0 : at > 2 * a->reach ? 2 * a->reach : at];
        }
    }
}

static void k__attn_group(const k__attn_level *lv, const k_attn_args *a, k__attn_mem *w, k__attn_rows *g, int64_t base) {
    if (!g->n) return;
    if (a->slopes) k__attn_lean(a, g, base);
    for (int r = 0; r < k__round_up(g->n, 4); r++) {
        const bool there = r < g->n;
        g->m[r] = there ? w->part[g->row[r]].m : -INFINITY;
        g->l[r] = there ? w->part[g->row[r]].l : 0;
        if (!there) g->lo[r] = g->hi[r] = 0;
    }
    lv->keys->scores(g->q, g->n, w->kt, a->hd_k / lv->keys->per, &w->ahead, w->s);
    if (a->reach) k__attn_bias(a, g, base, w->s);
    lv->weigh(a, g, w->s);
    for (int r = 0; r < g->n; r++) w->part[g->row[r]] = (k__attn_sum){g->m[r], g->l[r]};
    k__attn_gather(lv->values, w, g);
    g->n = 0;
}

/* Start and end of the tile at p in memory; an empty range where the tile is not inside one block. */
static const uint8_t *k__attn_next(const k_attn_args *a, const uint8_t *const *blocks, size_t stride, int64_t p,
                                   const uint8_t **end) {
    int            run;
    const uint8_t *at = k__attn_find(blocks, stride, a->block, p, K_TILE, &run);
    *end = at && run == K_TILE ? at + K_TILE * stride : at;
    return at;
}

static void k__attn_tile(const k__attn_level *lv, const k_attn_args *a, k__attn_mem *w, int64_t base, int64_t last) {
    const int    ld_k = w->ld_k / lv->keys->per, ld_v = w->ld_v / lv->values->per;
    float       *v = w->v + (size_t)(w->ld_v - ld_v) * K_TILE;      /* rows that will be paired are stored after the pairs */
    k__attn_rows g = {0};
    int          lo, hi, from = K_TILE, to = 0;
    for (int r = 0; r < a->n_rows; r++)
        if (k__attn_span(&a->rows[r], base, &lo, &hi)) from = lo < from ? lo : from, to = hi > to ? hi : to;
    k__attn_fetch(lv->keys->widen, a->type_k, a->k_blocks, a->k_stride, a->block, a->hd_k, base, from, to, w->k, ld_k);
    lv->keys->transpose(w->k, ld_k, w->kt);
    w->ahead = (k__attn_ahead){0};
    if (base + K_TILE < last) {
        w->ahead.k = k__attn_next(a, a->k_blocks, a->k_stride, base + K_TILE, &w->ahead.k_end);
        w->ahead.v = k__attn_next(a, a->v_blocks, a->v_stride, base + K_TILE, &w->ahead.v_end);
    }
    k__attn_fetch(lv->values->widen, a->type_v, a->v_blocks, a->v_stride, a->block, a->hd_v, base, from, to, v, ld_v);
    if (lv->values->pair) lv->values->pair(v, w->ld_v, w->v);
    for (int r = 0; r < a->n_rows; r++) {
        if (!k__attn_span(&a->rows[r], base, &g.lo[g.n], &g.hi[g.n])) continue;
        g.row[g.n] = r;
        g.q[g.n] = w->q + (size_t)r * (size_t)w->ld_k;
        g.o[g.n] = k__attn_o(w, r);
        if (++g.n == K_ATTN_GROUP) k__attn_group(lv, a, w, &g, base);
    }
    k__attn_group(lv, a, w, &g, base);
}

/* Positions [first, last) that some row of the call sees; [0, 0) when there are none. */
typedef struct {
    int64_t first, last;
} k__attn_reach;

static k__attn_reach k__attn_reach_of(const k_attn_args *a) {
    k__attn_reach all = {0, 0};
    for (int r = 0; r < a->n_rows; r++) {
        const k_attn_row *row = &a->rows[r];
        if (row->begin >= row->end) continue;
        all.first = !all.last || row->begin < all.first ? row->begin : all.first;
        all.last = row->end > all.last ? row->end : all.last;
    }
    return all;
}

/* Finds the rows of 16 positions from p on; those outside [from, to) and in blocks before the window are zeros. */
static void k__attn8_find(const k_attn_args *a, const uint8_t *const *blocks, size_t stride, int64_t p, int64_t from, int64_t to,
                          const uint8_t *zeros, const uint8_t **row) {
    int            run = 0;
    const uint8_t *at = NULL;
    for (int i = 0; i < 16; i++, p++, run--) {
        row[i] = zeros;
        if (p < from || p >= to) continue;
        if (run <= 0) at = k__attn_find(blocks, stride, a->block, p, 16, &run);
        if (!at) continue;
        row[i] = at;
        at += stride;
    }
}

/* Up to K_ATTN8_ROWS rows of a segment: scores, weights, sums of V. */
static void k__attn8_group(const k__attn8_level *lv, const k_attn_args *a, const k__attn_mem *w, k__attn8_rows *g, int64_t base) {
    if (!g->n) return;
    g->first = k__min_of(g->lo, g->n) / K_TILE * K_TILE, g->last = k__round_up(k__max_of(g->hi, g->n), K_TILE);
    lv->scores(&w->codes, g);
    for (int r = 0; r < g->n; r++) lv->weigh(a, &w->codes, g, r, base, &w->part[g->row[r]]);
    lv->gather(&w->codes, g, w->o);
    g->n = 0;
}

/* Segment s of rows, of positions [first, last). */
static void k__attn8_segment(const k__attn8_level *lv, const k_attn_args *a, const k__attn_mem *w, k__attn_reach all, int64_t s) {
    const int64_t base = s * K_SEGMENT, from = all.first > base ? all.first : base, end = base + K_SEGMENT,
                  to = all.last < end ? all.last : end;
    const uint8_t *row[16];
    k__attn8_rows  g = {0};
    for (int64_t p = from / K_TILE * K_TILE; p < (to + K_TILE - 1) / K_TILE * K_TILE; p += 16) {
        k__attn8_find(a, a->k_blocks, a->k_stride, p, from, to, w->codes.zeros, row);
        lv->pack_k(&w->codes, row, (int)(p - base));
        k__attn8_find(a, a->v_blocks, a->v_stride, p, from, to, w->codes.zeros, row);
        lv->pack_v(&w->codes, row, (int)(p - base));
    }
    for (int r = 0; r < a->n_rows; r++) {
        const k_attn_row *q = &a->rows[r];
        const int64_t     lo = q->begin > base ? q->begin : base, hi = q->end < end ? q->end : end;
        if (lo >= hi) continue;
        g.row[g.n] = r, g.lo[g.n] = (int)(lo - base), g.hi[g.n] = (int)(hi - base);
        if (++g.n == K_ATTN8_ROWS) k__attn8_group(lv, a, w, &g, base);
    }
    k__attn8_group(lv, a, w, &g, base);
}

/* Computes the partial results of segment s in w->o and w->part,
 * which are clear. Its last tile prefetches the next one of `all`. */
static void k__attn_partial(const k__attn_level *lv, const k_attn_args *a, k__attn_mem *w, k__attn_reach all, int64_t s) {
    const int64_t from = s * K_SEGMENT, to = from + K_SEGMENT < all.last ? from + K_SEGMENT : all.last;
    if (lv->codes) {
        k__attn8_segment(lv->codes, a, w, all, s);
        return;
    }
    for (int64_t base = from > all.first ? from : all.first / K_TILE * K_TILE; base < to; base += K_TILE)
        k__attn_tile(lv, a, w, base, all.last);
}

/* Merges a segment into the result of those before it. A segment without positions changes nothing. */
K__BODY void k__attn_join(float (*decay)(float), k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    float a, b;
    k__attn_factors(decay, all, part, &a, &b);
    for (int i = 0; i < n; i++) o[i] = o[i] * a + from[i] * b;
}

/* The same for row r, whose output is a->rows[r].o. The first segment is copied. */
static void k__attn_take(const k__attn_level *lv, const k_attn_args *a, int r, bool first, k__attn_sum *all,
                         const k__attn_sum *part, const float *from) {
    if (!first) {
        lv->join(all, a->rows[r].o, part, from, a->hd_v);
        return;
    }
    *all = *part;
    memcpy(a->rows[r].o, from, (size_t)a->hd_v * sizeof *from);
}

/* Divides row r's output by the sum of weights, in place. Where a row sees one position of
 * a pair, levels add + 0 for the other or skip it: only the sign of a zero can differ, and + 0 removes that. */
static void k__attn_finish(const k_attn_args *a, int r, k__attn_sum all) {
    float      *o = a->rows[r].o;
    const float s = k__attn_share(all, a->sinks ? a->sinks + r : NULL);
    for (int i = 0; i < a->hd_v; i++) o[i] = o[i] * s + 0.0f;
}

static void k__attn_run(const k__attn_level *lv, const k_attn_args *a, void *scratch) {
    const k__attn_reach all = k__attn_reach_of(a);
    k__attn_mem         w = k__attn_carve(a, scratch);
    k__attn_start(lv, a, &w);
    const int64_t first = all.first / K_SEGMENT;
    for (int64_t s = first; s == first || s * K_SEGMENT < all.last; s++) {
        k__attn_partial(lv, a, &w, all, s);
        for (int r = 0; r < a->n_rows; r++) {
            k__attn_take(lv, a, r, s == first, &w.all[r], &w.part[r], k__attn_o(&w, r));
            if ((s + 1) * K_SEGMENT < all.last) k__attn_clear(&w, r);
        }
    }
    for (int r = 0; r < a->n_rows; r++) k__attn_finish(a, r, w.all[r]);
}

/* --- scalar level --- */

/* A block of the cache (k__kv_aim). Sums are those of 32 lanes, as a warp has them. */
static void k__kv_q4_0(const float *x, block_q4_0 *b) {
    const float extreme = k__extreme(x, 32);
    float       kept = 0, d = k__scale_mid(extreme, 8);
    for (int t = 0; t < K_KV_TRIES; t++) {
        const float inv = k__inverse(extreme / -k__kv_aim(t));
        uint8_t     q[32];
        float       part[32];
        int         yy = 0;
        for (int j = 0; j < 32; j++) {
            q[j] = k__code_mid(x[j] * inv, 8);
            part[j] = k__kv_part(x[j], q[j] - 8);
            yy += (q[j] - 8) * (q[j] - 8);
        }
        const float xy = k__lanes_ref(part, 32), now = k__kv_kept(xy, yy);
        if (t && !(now > kept)) continue;
        kept = now;
        if (yy) d = xy / (float)yy;
        k__pack(q, b->qs, NULL);
    }
    b->d = k_f32_to_f16(d);
}

static void k_kv_store_ref(uint32_t type, const float *x, void *dst, int n) {
    if (type == K_Q4_0)
        for (int i = 0; i < n / 32; i++) k__kv_q4_0(x + 32 * i, (block_q4_0 *)dst + i);
    else k_types[type].quant(x, dst, n);
}

/* Values rounded to bf16, as f32. */
K__BODY void k__round_row(const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = k__bf16_round(x[i]);
}

static void k__attn_widen_ref(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld) {
    for (int i = 0; i < n_pos; i++, dst += ld) {
        k_types[type].dequant(src + (size_t)i * stride, dst, n);
        if (k__kv_rounds(type)) k__round_row(dst, n, dst);
    }
}

static void k__attn_transpose_ref(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d++)
        for (int i = 0; i < K_TILE; i++) kt[d * K_TILE + i] = k[(size_t)i * (size_t)ld + (size_t)d];
}

static void k__attn_scores_ref(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    (void)ahead;
    for (int r = 0; r < n_rows; r++, s += K_TILE) {
        memset(s, 0, K_TILE * sizeof *s);
        for (int i = 0; i < n; i++) k__axpy_each(s, kt + (size_t)(i ^ 1) * K_TILE, q[r][i ^ 1], K_TILE);
    }
}

static void k__attn_round_ref(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

static void k__attn_weigh_ref(const k_attn_args *a, k__attn_rows *g, float *s) {
    for (int r = 0; r < g->n; r++, s += K_TILE) {
        float top = g->m[r], lane[K_TILE];
        for (int i = 0; i < K_TILE; i++) {
            const float v = k__attn_shape(s[i] * a->scale, a->softcap, a->slopes ? &g->slope[r] : NULL, g->far[r] + i);
            s[i] = i >= g->lo[r] && i < g->hi[r] ? v : -INFINITY;
            if (s[i] > top) top = s[i];
        }
        const float base = top == -INFINITY ? 0 : top;
        g->c[r] = top == g->m[r] ? 1.0f : k__exp_ref(g->m[r] - base);
        for (int i = 0; i < K_TILE; i++) s[i] = k__exp_ref(s[i] - base);
        if (k__kv_rounds(a->type_v)) k__round_row(s, K_TILE, s);
        memcpy(lane, s, sizeof lane);
        g->l[r] = fmaf(g->l[r], g->c[r], k__lanes_ref(lane, 32));
        g->m[r] = top;
    }
}

static void k__attn_gather_ref(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld, int lo,
                               int hi, k__attn_ahead *ahead) {
    (void)ahead;
    for (int r = 0; r < n_rows; r++) {
        k__scale_each(o[r], c[r], ld);
        for (int t = lo & ~1, i; t <= hi; t++)
            if (k__pair_at(t, lo, hi, &i)) k__axpy_each(o[r], v + (size_t)i * (size_t)ld, s[r * K_TILE + i], ld);
    }
}

static void k__attn8_pack_k_ref(const k__attn8 *c, const uint8_t *const *row, int place) {
    int16_t *to = c->k + (size_t)place * (size_t)c->ld_k;
    for (int i = 0; i < 16; i++)
        for (int g = 0; g < c->ld_k / 32; g++) {
            block_q8_0 b;
            memcpy(&b, row[i] + (size_t)g * sizeof b, sizeof b);
            c->dk[g * K_SEGMENT + place + i] = k_f16_to_f32(b.d);
            for (int d = 0; d < 32; d++) to[(16 * g + k__attn8_at(d) / 2) * 32 + 2 * i + k__attn8_at(d) % 2] = b.qs[d];
        }
}

static void k__attn8_pack_v_ref(const k__attn8 *c, const uint8_t *const *row, int place) {
    for (int i = 0; i < 16; i++)
        for (int g = 0; g < c->ld_v / 32; g++) {
            block_q8_0 b;
            memcpy(&b, row[i] + (size_t)g * sizeof b, sizeof b);
            c->dv[g * K_SEGMENT + place + i] = k__attn8_scale(k_f16_to_f32(b.d));
            for (int j = 0; j < 32; j++)
                c->v[((size_t)(2 * g + j / 16) * (K_SEGMENT / 2) + (size_t)(place + i) / 2) * 32 +
                     (size_t)(j % 16 * 2 + i % 2)] = b.qs[j];
        }
}

static void k__attn8_scores_ref(const k__attn8 *c, const k__attn8_rows *g) {
    for (int r = 0; r < g->n; r++) {
        const int16_t *q = c->q + (size_t)g->row[r] * (size_t)c->ld_k;
        for (int i = g->first; i < g->last; i++) {
            const int16_t *k = c->k + (size_t)(i / 16 * 16) * (size_t)c->ld_k + i % 16 * 2;
            float          s = 0;
            for (int b = 0; b < c->ld_k / 32; b++) {
                int32_t sum = 0;
                for (int d = 32 * b; d < 32 * b + 32; d++) sum += q[d] * k[d / 2 * 32 + d % 2];
                s = b ? fmaf((float)sum, c->dk[b * K_SEGMENT + i], s) : (float)sum * c->dk[i];
            }
            c->s[r * K_SEGMENT + i] = s;
        }
    }
}

static void k__attn8_weigh_ref(const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base,
                               k__attn_sum *part) {
    const int row = g->row[r], far = a->slopes ? (int)(base - a->rows[row].at) : 0;
    float    *s = c->s + r * K_SEGMENT, lane[K_TILE] = {0}, m = -INFINITY;
    for (int i = g->first; i < g->last; i++) {
        const float v = k__attn_shape(s[i] * c->dq[row], a->softcap, a->slopes ? &a->slopes[row] : NULL, far + i);
        s[i] = i >= g->lo[r] && i < g->hi[r] ? v : -INFINITY;
        m = s[i] > m ? s[i] : m;
    }
    for (int i = g->first; i < g->last; i++) {
        s[i] = k__exp_ref(s[i] - (m == -INFINITY ? 0 : m));
        lane[i % K_TILE] += s[i];
    }
    *part = (k__attn_sum){m, k__lanes_ref(lane, K_TILE)};
    for (int b = 0; b < c->ld_v / 32; b++) {
        const float *dv = c->dv + b * K_SEGMENT;
        int16_t     *w = c->w + (b * K_ATTN8_ROWS + r) * K_SEGMENT;
        float        top = 0;
        for (int i = g->first; i < g->last; i++) top = fabsf(s[i] * dv[i]) > top ? fabsf(s[i] * dv[i]) : top;
        c->step[b * K_ATTN8_ROWS + r] = k__attn8_step(top);
        for (int i = g->first; i < g->last; i++) w[i] = (int16_t)k__attn8_round(s[i] * dv[i] * k__attn8_steps(top));
    }
}

static void k__attn8_gather_ref(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    for (int r = 0; r < g->n; r++)
        for (int d = 0; d < c->ld_v; d++) {
            const int16_t *w = c->w + (d / 32 * K_ATTN8_ROWS + r) * K_SEGMENT,
                          *v = c->v + (size_t)(d / 16) * (K_SEGMENT * 16) + d % 16 * 2;
            int32_t        sum = 0;
            for (int i = g->first; i < g->last; i++) sum = (int32_t)((uint32_t)sum + (uint32_t)(w[i] * v[i / 2 * 32 + i % 2]));
            o[(size_t)g->row[r] * (size_t)c->ld_v + (size_t)d] = (float)sum * c->step[d / 32 * K_ATTN8_ROWS + r];
        }
}

static const k__attn8_level k__attn8_level_ref = {
    .pack_k = k__attn8_pack_k_ref, .pack_v = k__attn8_pack_v_ref, .scores = k__attn8_scores_ref,
    .weigh = k__attn8_weigh_ref, .gather = k__attn8_gather_ref};

static void k__attn_join_ref(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__exp_ref, all, o, part, from, n);
}

static k__attn_level k_attn_ref(const k_attn_args *a) {
    static const k__attn_keys keys = {
        .per = 1, .widen = k__attn_widen_ref, .transpose = k__attn_transpose_ref, .round = k__attn_round_ref,
        .scores = k__attn_scores_ref};
    static const k__attn_values values = {1, k__attn_widen_ref, NULL, k__attn_gather_ref};
    return (k__attn_level){
        .keys = &keys, .values = &values, .weigh = k__attn_weigh_ref, .join = k__attn_join_ref,
        .codes = k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_ref : NULL};
}

#if K__X86
/* Prefetches the line at *next and advances, up to `end`. */
static inline __attribute__((always_inline)) void k__fetch(const uint8_t **next, const uint8_t *end) {
    _mm_prefetch((const char *)*next, _MM_HINT_T1);
    if (*next < end) *next += 64;
}

/* --- avx2 level --- */

/* k__kv_q4_0 with the same bits. */
static K_VEC_AVX2 void k__kv_q4_0_avx2(const float *x, block_q4_0 *b) {
    const __m256 half = _mm256_set1_ps(8.5f), last = _mm256_set1_ps(15.0f), none = _mm256_setzero_ps();
    const float  extreme = k__extreme(x, 32);
    float        kept = 0, d = k__scale_mid(extreme, 8);
    for (int t = 0; t < K_KV_TRIES; t++) {
        const __m256 inv = _mm256_set1_ps(k__inverse(extreme / -k__kv_aim(t)));
        __m256i      q[4], squares = _mm256_setzero_si256();
        __m256       part[4];
        for (int j = 0; j < 4; j++) {
            const __m256 v = _mm256_loadu_ps(x + 8 * j), at = _mm256_mul_ps(v, inv),
                         up = _mm256_blendv_ps(_mm256_add_ps(at, half), half, _mm256_cmp_ps(at, at, _CMP_UNORD_Q));
            q[j] = _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(up, none), last));
            const __m256i y = _mm256_sub_epi32(q[j], _mm256_set1_epi32(8));
            squares = _mm256_add_epi32(squares, _mm256_mullo_epi32(y, y));
            part[j] = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(y, _mm256_setzero_si256())),
                                       _mm256_mul_ps(v, _mm256_cvtepi32_ps(y)));
        }
        const int   yy = (int)k__sum_avx2(_mm256_cvtepi32_ps(squares));         /* exact: at most 2048 */
        const float xy = k__sum_avx2(k__fold_avx2(part)), now = k__kv_kept(xy, yy);
        if (t && !(now > kept)) continue;
        kept = now;
        if (yy) d = xy / (float)yy;
        const __m256i first = _mm256_or_si256(q[0], _mm256_slli_epi32(q[2], 4)),
                      second = _mm256_or_si256(q[1], _mm256_slli_epi32(q[3], 4)),
                      words = _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xd8);
        _mm_storeu_si128((__m128i *)b->qs, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
    b->d = k_f32_to_f16(d);
}

static K_VEC_AVX2 void k_kv_store_avx2(uint32_t type, const float *x, void *dst, int n) {
    uint8_t *out = (uint8_t *)dst;
    int      i = 0;
    for (; type == K_Q4_0 && i < n; i += 32) k__kv_q4_0_avx2(x + i, (block_q4_0 *)dst + i / 32);
    for (; type == K_F16 && i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + 2 * (size_t)i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    if (i < n) k_types[type].quant(x + i, out + 2 * (size_t)i, n - i);
}

K__V256 void k__widen_float_avx2(const uint32_t type, const uint8_t *src, int n, float *dst) {
    int i = 0, size = type == K_F32 ? 4 : 2;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, k__load_avx2(type, src + (size_t)i * (size_t)size));
    if (i < n) k_types[type].dequant(src + (size_t)i * (size_t)size, dst + i, n - i);
}

K__V256 void k__widen_q8_0_avx2(const uint8_t *src, int n, float *dst) {
    for (int i = 0; i < n; i += 32, src += sizeof(block_q8_0)) {
        uint16_t d;
        memcpy(&d, src, 2);
        __m256 dv = _mm256_set1_ps(_cvtsh_ss(d));
        for (int h = 0; h < 4; h++) {
            __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(src + 2 + 8 * h)));
            _mm256_storeu_ps(dst + i + 8 * h, k__rounded_avx2(_mm256_mul_ps(dv, _mm256_cvtepi32_ps(q))));
        }
    }
}

K__V256 void k__widen_q4_0_avx2(const uint8_t *src, int n, float *dst) {
    for (int i = 0; i < n; i += 32, src += sizeof(block_q4_0)) {
        uint16_t d;
        memcpy(&d, src, 2);
        __m256 dv = _mm256_set1_ps(_cvtsh_ss(d));
        for (int h = 0; h < 4; h++) {
            __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(src + 2 + 8 * (h & 1))));
            __m256i q = h < 2 ? _mm256_and_si256(b, _mm256_set1_epi32(15)) : _mm256_srli_epi32(b, 4);
            q = _mm256_sub_epi32(q, _mm256_set1_epi32(8));
            _mm256_storeu_ps(dst + i + 8 * h, k__rounded_avx2(_mm256_mul_ps(dv, _mm256_cvtepi32_ps(q))));
        }
    }
}

static K_VEC_AVX2 void k__attn_widen_avx2(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst,
                                          int ld) {
    for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
        if (type == K_F16) k__widen_float_avx2(K_F16, src, n, dst);
        else if (type == K_BF16) k__widen_float_avx2(K_BF16, src, n, dst);
        else if (type == K_F32) k__widen_float_avx2(K_F32, src, n, dst);
        else if (type == K_Q8_0) k__widen_q8_0_avx2(src, n, dst);
        else k__widen_q4_0_avx2(src, n, dst);
    }
}

/* Transposes 8 x 8. */
K__V256 void k__flip_avx2(__m256 *r) {
    __m256 t[8];
    for (int j = 0; j < 8; j += 2) {
        t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
        t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
    }
    for (int j = 0; j < 8; j += 4)                                  /* r[j + c]: columns c and c + 4 of rows j .. j + 3 */
        for (int c = 0; c < 4; c++)
            r[j + c] = c & 1 ? _mm256_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0xee)
                             : _mm256_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0x44);
    for (int c = 0; c < 4; c++) {
        const __m256 a = r[c], b = r[c + 4];
        r[c] = _mm256_permute2f128_ps(a, b, 0x20);
        r[c + 4] = _mm256_permute2f128_ps(a, b, 0x31);
    }
}

static K_VEC_AVX2 void k__attn_transpose_avx2(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d += 8)
        for (int i = 0; i < K_TILE; i += 8) {
            __m256 r[8];
            for (int j = 0; j < 8; j++) r[j] = _mm256_loadu_ps(k + (size_t)(i + j) * (size_t)ld + d);
            k__flip_avx2(r);
            for (int c = 0; c < 8; c++) _mm256_storeu_ps(kt + (size_t)(d + c) * K_TILE + i, r[c]);
        }
}

K__V256 void k__scores_avx2(const int R, const float *const *q, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    const uint8_t *next = ahead->k;
    __m256         acc[3][4];
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 4; h++) acc[r][h] = _mm256_setzero_ps();
    for (int i = 0; i < n; i++) {
        const int    d = i ^ 1;
        const float *kd = kt + (size_t)d * K_TILE;
        __m256       qv[3];
        k__fetch(&next, ahead->k_end);
        for (int r = 0; r < R; r++) qv[r] = _mm256_set1_ps(q[r][d]);
        for (int h = 0; h < 4; h++) {
            const __m256 kv = _mm256_loadu_ps(kd + 8 * h);
            for (int r = 0; r < R; r++) acc[r][h] = _mm256_fmadd_ps(qv[r], kv, acc[r][h]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 4; h++) _mm256_storeu_ps(s + r * K_TILE + 8 * h, acc[r][h]);
    ahead->k = next;
}

static K_VEC_AVX2 void k__attn_scores_avx2(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead,
                                           float *s) {
    for (; n_rows >= 3; n_rows -= 3, q += 3, s += 3 * K_TILE) k__scores_avx2(3, q, kt, n, ahead, s);
    if (n_rows == 2) k__scores_avx2(2, q, kt, n, ahead, s);
    else if (n_rows) k__scores_avx2(1, q, kt, n, ahead, s);
}

static K_VEC_AVX2 void k__attn_round_avx2(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

/* Distances of eight positions. */
K__V256 __m256 k__far_avx2(int far) {
    return _mm256_cvtepi32_ps(
        _mm256_abs_epi32(_mm256_add_epi32(_mm256_set1_epi32(far), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))));
}

static K_VEC_AVX2 void k__attn_weigh_avx2(const k_attn_args *a, k__attn_rows *g, float *s) {
    const __m256 low = _mm256_set1_ps(-INFINITY), cap = _mm256_set1_ps(a->softcap);
    for (int r = 0; r < g->n; r++, s += K_TILE) {
        __m256 v[4], old = _mm256_set1_ps(g->m[r]), max = old;
        for (int h = 0; h < 4; h++) {
            v[h] = _mm256_mul_ps(_mm256_loadu_ps(s + 8 * h), _mm256_set1_ps(a->scale));
            if (a->softcap != 0) v[h] = _mm256_mul_ps(cap, k__tanh_avx2(_mm256_div_ps(v[h], cap)));
            if (a->slopes) v[h] = _mm256_fnmadd_ps(_mm256_set1_ps(g->slope[r]), k__far_avx2(g->far[r] + 8 * h), v[h]);
            __m256i in = _mm256_andnot_si256(k__mask_avx2(g->lo[r] - 8 * h), k__mask_avx2(g->hi[r] - 8 * h));
            v[h] = _mm256_blendv_ps(low, v[h], _mm256_castsi256_ps(in));
            max = _mm256_max_ps(v[h], max);
        }
        const float  top = k__top_avx2(max);
        const __m256 base = _mm256_set1_ps(top == -INFINITY ? 0 : top);
        g->c[r] = top == g->m[r] ? 1 : _mm256_cvtss_f32(k__exp_avx2(_mm256_sub_ps(old, base)));
        for (int h = 0; h < 4; h++) {
            v[h] = k__exp_avx2(_mm256_sub_ps(v[h], base));
            if (k__kv_rounds(a->type_v)) v[h] = k__rounded_avx2(v[h]);
            _mm256_storeu_ps(s + 8 * h, v[h]);
        }
        g->l[r] = fmaf(g->l[r], g->c[r], k__sum_avx2(k__fold_avx2(v)));
        g->m[r] = top;
    }
}

/* D registers of o for each of R rows stay in place while the loop goes over positions. */
K__V256 void k__gather_avx2(const int R, const int D, float *const *o, int at, const float *c, const float *s, const float *v,
                            int ld, int lo, int hi, k__attn_ahead *ahead) {
    const uint8_t *next = ahead->v;
    __m256         acc[2][4];
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) acc[r][d] = _mm256_mul_ps(_mm256_loadu_ps(o[r] + at + 8 * d), _mm256_set1_ps(c[r]));
    for (int t = lo & ~1, i; t <= hi; t++) {
        if (!k__pair_at(t, lo, hi, &i)) continue;
        for (int k = 0; k < 2; k++) k__fetch(&next, ahead->v_end);
        const float *vi = v + (size_t)i * (size_t)ld + at;
        __m256       vv[4];
        for (int d = 0; d < D; d++) vv[d] = _mm256_loadu_ps(vi + 8 * d);
        for (int r = 0; r < R; r++)
            for (int d = 0; d < D; d++) acc[r][d] = _mm256_fmadd_ps(_mm256_set1_ps(s[r * K_TILE + i]), vv[d], acc[r][d]);
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) _mm256_storeu_ps(o[r] + at + 8 * d, acc[r][d]);
    ahead->v = next;
}

static K_VEC_AVX2 void k__attn_gather_avx2(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld,
                                           int lo, int hi, k__attn_ahead *ahead) {
    int r = 0;
    for (; r + 2 <= n_rows; r += 2)
        for (int at = 0; at < ld; at += 32) k__gather_avx2(2, 4, o + r, at, c + r, s + r * K_TILE, v, ld, lo, hi, ahead);
    for (int at = 0; r < n_rows && at < ld; at += 32)
        k__gather_avx2(1, 4, o + r, at, c + r, s + r * K_TILE, v, ld, lo, hi, ahead);
}

static const k__attn_keys k__attn_keys_avx2 = {
    .per = 1, .widen = k__attn_widen_avx2, .transpose = k__attn_transpose_avx2, .round = k__attn_round_avx2,
    .scores = k__attn_scores_avx2};
static const k__attn_values k__attn_values_avx2 = {1, k__attn_widen_avx2, NULL, k__attn_gather_avx2};

/* --- both caches q8_0 --- */

K__V256 __m256 k__attn8_scales_avx2(const uint8_t *const *row, int g) {
    uint16_t d[8];
    for (int i = 0; i < 8; i++) memcpy(&d[i], row[i] + (size_t)g * sizeof(block_q8_0), 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)d));
}

/* The scales of V: k__attn8_scale(). */
K__V256 __m256 k__attn8_finite_avx2(const uint8_t *const *row, int g) {
    const __m256 d = k__attn8_scales_avx2(row, g), size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), d);
    return _mm256_blendv_ps(_mm256_set1_ps(0x1p127f), d, _mm256_cmp_ps(size, _mm256_set1_ps(INFINITY), _CMP_LT_OQ));
}

static K_VEC_AVX2 void k__attn8_pack_k_avx2(const k__attn8 *c, const uint8_t *const *row, int place) {
    int16_t *to = c->k + (size_t)place * (size_t)c->ld_k;
    for (int g = 0; g < c->ld_k / 32; g++)
        for (int h = 0; h < 16; h += 8) {
            __m256 r[8];
            for (int j = 0; j < 8; j++)
                r[j] = _mm256_loadu_ps((const float *)(const void *)(row[h + j] + (size_t)g * sizeof(block_q8_0) + 2));
            k__flip_avx2(r);                                        /* four dimensions of eight positions */
            for (int j = 0; j < 8; j++) {
                const __m256i x = _mm256_castps_si256(r[j]);
                int16_t      *at = to + (8 * g + j) * 64 + 2 * h;
                _mm256_store_si256((__m256i *)at, _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
                _mm256_store_si256((__m256i *)(at + 32), _mm256_srai_epi16(x, 8));
            }
            _mm256_storeu_ps(c->dk + g * K_SEGMENT + place + h, k__attn8_scales_avx2(row + h, g));
        }
}

static K_VEC_AVX2 void k__attn8_pack_v_avx2(const k__attn8 *c, const uint8_t *const *row, int place) {
    for (int g = 0; g < c->ld_v / 32; g++) {
        for (int h = 0; h < 16; h += 8) _mm256_storeu_ps(c->dv + g * K_SEGMENT + place + h, k__attn8_finite_avx2(row + h, g));
        for (int h = 0; h < 2; h++) {
            int16_t *to = c->v + ((size_t)(2 * g + h) * (K_SEGMENT / 2) + (size_t)place / 2) * 32;
            for (int i = 0; i < 16; i += 2, to += 32) {
                const size_t  at = (size_t)g * sizeof(block_q8_0) + 2 + 16 * (size_t)h;
                const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(row[i] + at)));
                const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(row[i + 1] + at)));
                const __m256i x = _mm256_unpacklo_epi16(a, b), y = _mm256_unpackhi_epi16(a, b);
                _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(x, y, 0x20));
                _mm256_storeu_si256((__m256i *)(to + 16), _mm256_permute2x128_si256(x, y, 0x31));
            }
        }
    }
}

/* acc[r][16] = the sums over n_pairs pairs of x[r] times y[n_pairs][16][2]. */
K__V256 void k__attn8_sums_avx2(const int R, const int16_t *const *x, const int16_t *y, int n_pairs, __m256i acc[4][2]) {
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (int i = 0; i < n_pairs; i++, y += 32) {
        const __m256i lo = _mm256_load_si256((const __m256i *)y), hi = _mm256_load_si256((const __m256i *)(y + 16));
        for (int r = 0; r < R; r++) {
            int32_t pair;
            memcpy(&pair, x[r] + 2 * i, 4);
            const __m256i v = _mm256_set1_epi32(pair);
            acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(v, lo));
            acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(v, hi));
        }
    }
}

/* R rows and 16 positions. */
K__V256 void k__attn8_scores_of_avx2(const int R, const k__attn8 *c, const int *row, int place, float *s) {
    for (int g = 0; g < c->ld_k / 32; g++) {
        const int16_t *q[4];
        __m256i        acc[4][2];
        for (int r = 0; r < R; r++) q[r] = c->q + (size_t)row[r] * (size_t)c->ld_k + 32 * g;
        k__attn8_sums_avx2(R, q, c->k + (size_t)place * (size_t)c->ld_k + 512 * g, 16, acc);
        for (int r = 0; r < R; r++)
            for (int h = 0; h < 2; h++) {
                float       *to = s + r * K_SEGMENT + place + 8 * h;
                const __m256 v = _mm256_cvtepi32_ps(acc[r][h]), d = _mm256_loadu_ps(c->dk + g * K_SEGMENT + place + 8 * h);
                _mm256_storeu_ps(to, g ? _mm256_fmadd_ps(v, d, _mm256_loadu_ps(to)) : _mm256_mul_ps(v, d));
            }
    }
}

static K_VEC_AVX2 void k__attn8_scores_avx2(const k__attn8 *c, const k__attn8_rows *g) {
    for (int p = g->first; p < g->last; p += 16) {
        int r = 0;
        for (; r + 4 <= g->n; r += 4) k__attn8_scores_of_avx2(4, c, g->row + r, p, c->s + r * K_SEGMENT);
        for (; r + 2 <= g->n; r += 2) k__attn8_scores_of_avx2(2, c, g->row + r, p, c->s + r * K_SEGMENT);
        if (r < g->n) k__attn8_scores_of_avx2(1, c, g->row + r, p, c->s + r * K_SEGMENT);
    }
}

K__V256 __m256 k__attn8_shaped_avx2(const k_attn_args *a, int row, int far, __m256 v) {
    const __m256 cap = _mm256_set1_ps(a->softcap);
    if (a->softcap != 0) v = _mm256_mul_ps(cap, k__tanh_avx2(_mm256_div_ps(v, cap)));
    if (a->slopes) v = _mm256_fnmadd_ps(_mm256_set1_ps(a->slopes[row]), k__far_avx2(far), v);
    return v;
}

/* Scores with all that makes them, -inf where the row does not look; the largest. shaped: with a cap or slopes. */
K__V256 float k__attn8_mask_avx2(const bool shaped, const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r,
                                 int64_t base) {
    const int    row = g->row[r], far = shaped && a->slopes ? (int)(base - a->rows[row].at) : 0;
    const __m256 f = _mm256_set1_ps(c->dq[row]), low = _mm256_set1_ps(-INFINITY);
    __m256       m = low;
    float       *s = c->s + r * K_SEGMENT;
    for (int i = g->first; i < g->last; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(s + i), f);
        if (shaped) v = k__attn8_shaped_avx2(a, row, far + i, v);
        if (i < g->lo[r] || i + 8 > g->hi[r])
            v = _mm256_blendv_ps(
                low, v, _mm256_castsi256_ps(_mm256_andnot_si256(k__mask_avx2(g->lo[r] - i), k__mask_avx2(g->hi[r] - i))));
        m = _mm256_max_ps(v, m);
        _mm256_storeu_ps(s + i, v);
    }
    return k__top_avx2(m);
}

/* p of the scores; their sum. */
K__V256 float k__attn8_exp_avx2(float *s, int first, int last, float m) {
    const __m256 from = _mm256_set1_ps(m == -INFINITY ? 0 : m);
    __m256       sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int i = first; i < last; i += K_TILE)
        for (int h = 0; h < 4; h++) {
            const __m256 p = k__exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s + i + 8 * h), from));
            _mm256_storeu_ps(s + i + 8 * h, p);
            sum[h] = _mm256_add_ps(sum[h], p);
        }
    return k__sum_avx2(k__fold_avx2(sum));
}

/* Weights of one block of V from p; returns the largest p * dv. */
K__V256 float k__attn8_round_avx2(const float *p, const float *dv, int first, int last, int16_t *w) {
    __m256 most = _mm256_setzero_ps();
    for (int i = first; i < last; i += 8)
        most = _mm256_max_ps(
            _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_mul_ps(_mm256_loadu_ps(p + i), _mm256_loadu_ps(dv + i))), most);
    const float  top = k__top_avx2(most);
    const __m256 f = _mm256_set1_ps(k__attn8_steps(top));
    for (int i = first; i < last; i += 16) {
        __m256i x[2];
        for (int h = 0; h < 2; h++)
            x[h] = _mm256_cvtps_epi32(
                _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(p + i + 8 * h), _mm256_loadu_ps(dv + i + 8 * h)), f));
        _mm256_storeu_si256((__m256i *)(w + i), _mm256_permute4x64_epi64(_mm256_packs_epi32(x[0], x[1]), 0xd8));
    }
    return top;
}

static K_VEC_AVX2 void k__attn8_weigh_avx2(const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base,
                                           k__attn_sum *part) {
    float      *s = c->s + r * K_SEGMENT;
    const float m = a->softcap != 0 || a->slopes ? k__attn8_mask_avx2(true, a, c, g, r, base)
                                                 : k__attn8_mask_avx2(false, a, c, g, r, base);
    *part = (k__attn_sum){m, k__attn8_exp_avx2(s, g->first, g->last, m)};
    for (int b = 0; b < c->ld_v / 32; b++)
        c->step[b * K_ATTN8_ROWS + r] = k__attn8_step(
            k__attn8_round_avx2(s, c->dv + b * K_SEGMENT, g->first, g->last, c->w + (b * K_ATTN8_ROWS + r) * K_SEGMENT));
}

/* R rows and 16 dimensions. */
K__V256 void k__attn8_gather_of_avx2(const int R, const k__attn8 *c, const k__attn8_rows *g, int from, int b, float *o) {
    const int16_t *w[4];
    __m256i        acc[4][2];
    for (int r = 0; r < R; r++) w[r] = c->w + (b / 2 * K_ATTN8_ROWS + from + r) * K_SEGMENT + g->first;
    k__attn8_sums_avx2(R, w, c->v + ((size_t)b * (K_SEGMENT / 2) + (size_t)g->first / 2) * 32, (g->last - g->first) / 2, acc);
    for (int r = 0; r < R; r++) {
        const __m256 step = _mm256_set1_ps(c->step[b / 2 * K_ATTN8_ROWS + from + r]);
        for (int h = 0; h < 2; h++)
            _mm256_storeu_ps(o + (size_t)g->row[from + r] * (size_t)c->ld_v + 16 * b + 8 * h,
                             _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][h]), step));
    }
}

static K_VEC_AVX2 void k__attn8_gather_avx2(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    for (int b = 0; b < c->ld_v / 16; b++) {
        int r = 0;
        for (; r + 4 <= g->n; r += 4) k__attn8_gather_of_avx2(4, c, g, r, b, o);
        for (; r + 2 <= g->n; r += 2) k__attn8_gather_of_avx2(2, c, g, r, b, o);
        if (r < g->n) k__attn8_gather_of_avx2(1, c, g, r, b, o);
    }
}

static const k__attn8_level k__attn8_level_avx2 = {
    .pack_k = k__attn8_pack_k_avx2, .pack_v = k__attn8_pack_v_avx2, .scores = k__attn8_scores_avx2,
    .weigh = k__attn8_weigh_avx2, .gather = k__attn8_gather_avx2};

static K_VEC_AVX2 float k__attn_decay_avx2(float x) { return _mm256_cvtss_f32(k__exp_avx2(_mm256_set1_ps(x))); }

static K_VEC_AVX2 void k__attn_join_avx2(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__attn_decay_avx2, all, o, part, from, n);
}

static k__attn_level k_attn_avx2(const k_attn_args *a) {
    return (k__attn_level){
        .keys = &k__attn_keys_avx2, .values = &k__attn_values_avx2, .weigh = k__attn_weigh_avx2,
        .join = k__attn_join_avx2, .codes = k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_avx2 : NULL};
}

/* --- avx512 level --- */

static K_VEC_AVX512 void k_kv_store_avx512(uint32_t type, const float *x, void *dst, int n) {
    uint8_t *out = (uint8_t *)dst;
    if (type == K_BF16) {
        k__narrow_bf16(x, dst, n);
        return;
    }
    if (type != K_F16) {
        k_kv_store_avx2(type, x, dst, n);
        return;
    }
    for (int i = 0; i < n; i += 16) {
        __mmask16 m = k__mask_avx512(n - i);
        _mm256_mask_storeu_epi16(out + 2 * (size_t)i, m,
                                 _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, x + i), _MM_FROUND_TO_NEAREST_INT));
    }
}

K__V512 void k__widen_float_avx512(const uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld) {
    const size_t    size = type == K_F32 ? 4 : 2;
    const __mmask16 m = k__mask_avx512(n & 15);
    for (; n_pos > 0; n_pos--, src += stride, dst += ld) {
        int i = 0;
        for (; i + 64 <= n; i += 64)
            for (int h = 0; h < 64; h += 16)
                _mm512_storeu_ps(dst + i + h, k__load_avx512(type, src + (size_t)(i + h) * size, true, 0xffff));
        for (; i + 16 <= n; i += 16) _mm512_storeu_ps(dst + i, k__load_avx512(type, src + (size_t)i * size, true, 0xffff));
        if (m) _mm512_mask_storeu_ps(dst + i, m, k__load_avx512(type, src + (size_t)i * size, false, m));
    }
}

/* The 32 values of a block, not rounded. */
K__V512 void k__kv_q8_0_avx512(const uint8_t *src, __m512 *v) {
    uint16_t d;
    memcpy(&d, src, 2);
    for (int h = 0; h < 2; h++) {
        const __m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(src + 2 + 16 * h)));
        v[h] = _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(d)), _mm512_cvtepi32_ps(q));
    }
}

K__V512 void k__kv_q4_0_avx512(const uint8_t *src, __m512 *v) {
    uint16_t d;
    memcpy(&d, src, 2);
    const __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(src + 2)));
    for (int h = 0; h < 2; h++) {
        const __m512i q = h ? _mm512_srli_epi32(b, 4) : _mm512_and_si512(b, _mm512_set1_epi32(15));
        v[h] = _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(d)), _mm512_cvtepi32_ps(_mm512_sub_epi32(q, _mm512_set1_epi32(8))));
    }
}
K__V512 const uint8_t *k__kv_values_avx512(const uint32_t type, const uint8_t *src, __m512 *v) {
    if (type == K_Q8_0) k__kv_q8_0_avx512(src, v);
    else k__kv_q4_0_avx512(src, v);
    return src + (type == K_Q8_0 ? sizeof(block_q8_0) : sizeof(block_q4_0));
}

K__V512 void k__widen_blocks_avx512(const uint32_t type, const uint8_t *src, int n, float *dst) {
    __m512 v[2];
    for (int i = 0; i < n; i += 32) {
        src = k__kv_values_avx512(type, src, v);
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(dst + i + 16 * h, k__rounded_avx512(v[h]));
    }
}

static K_VEC_AVX512 void k__attn_widen_avx512(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst,
                                              int ld) {
    if (type == K_F16) k__widen_float_avx512(K_F16, src, stride, n_pos, n, dst, ld);
    else if (type == K_BF16) k__widen_float_avx512(K_BF16, src, stride, n_pos, n, dst, ld);
    else if (type == K_F32) k__widen_float_avx512(K_F32, src, stride, n_pos, n, dst, ld);
    else
        for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
            if (type == K_Q8_0) k__widen_blocks_avx512(K_Q8_0, src, n, dst);
            else k__widen_blocks_avx512(K_Q4_0, src, n, dst);
        }
}

/* Blocks of 16 x 16: 4 x 4 inside 128 bits, then the 128 bits. */
static K_VEC_AVX512 void k__attn_transpose_avx512(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d += 16)
        for (int i = 0; i < K_TILE; i += 16) {
            __m512 r[16], t[16];
            for (int j = 0; j < 16; j++) r[j] = _mm512_loadu_ps(k + (size_t)(i + j) * (size_t)ld + d);
            for (int j = 0; j < 16; j += 2) {
                t[j] = _mm512_unpacklo_ps(r[j], r[j + 1]);
                t[j + 1] = _mm512_unpackhi_ps(r[j], r[j + 1]);
            }
            for (int j = 0; j < 16; j += 4)                         /* r[j + c]: columns c, c + 4, .. of rows j .. j + 3 */
                for (int c = 0; c < 4; c++)
                    r[j + c] = c & 1 ? _mm512_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0xee)
                                     : _mm512_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0x44);
            for (int c = 0; c < 4; c++) {
                const __m512 even[2] = {_mm512_shuffle_f32x4(r[c], r[c + 4], 0x88),
                                        _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88)};
                const __m512 odd[2] = {_mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd),
                                       _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd)};
                float       *to = kt + (size_t)(d + c) * K_TILE + i;
                _mm512_storeu_ps(to, _mm512_shuffle_f32x4(even[0], even[1], 0x88));
                _mm512_storeu_ps(to + 4 * K_TILE, _mm512_shuffle_f32x4(odd[0], odd[1], 0x88));
                _mm512_storeu_ps(to + 8 * K_TILE, _mm512_shuffle_f32x4(even[0], even[1], 0xdd));
                _mm512_storeu_ps(to + 12 * K_TILE, _mm512_shuffle_f32x4(odd[0], odd[1], 0xdd));
            }
        }
}

/* Splits the rows of a group into eights, fours, twos and ones; at
 * most fours for the sums of values, which need more registers. */
#define K__SCORES_BY_ROWS(fn)                                                           \
    for (; n_rows >= 8; n_rows -= 8, q += 8, s += 8 * K_TILE) fn(8, q, kt, n, ahead, s); \
    for (; n_rows >= 4; n_rows -= 4, q += 4, s += 4 * K_TILE) fn(4, q, kt, n, ahead, s); \
    for (; n_rows >= 2; n_rows -= 2, q += 2, s += 2 * K_TILE) fn(2, q, kt, n, ahead, s); \
    if (n_rows) fn(1, q, kt, n, ahead, s);
#define K__GATHER_BY_ROWS(fn)                                                                 \
    int r = 0;                                                                                \
    for (; r + 4 <= n_rows; r += 4) fn(4, o + r, c + r, s + r * K_TILE, v, ld, lo, hi, ahead); \
    for (; r + 2 <= n_rows; r += 2) fn(2, o + r, c + r, s + r * K_TILE, v, ld, lo, hi, ahead); \
    for (; r < n_rows; r++) fn(1, o + r, c + r, s + r * K_TILE, v, ld, lo, hi, ahead);

K__V512 void k__scores_avx512(const int R, const float *const *q, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    const uint8_t *next = ahead->k;
    __m512         acc[K_ATTN_GROUP][2];
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (int i = 0; i < n; i++) {
        const int    d = i ^ 1;
        const __m512 lo = _mm512_loadu_ps(kt + (size_t)d * K_TILE), hi = _mm512_loadu_ps(kt + (size_t)d * K_TILE + 16);
        k__fetch(&next, ahead->k_end);
        for (int r = 0; r < R; r++) {
            const __m512 qv = _mm512_set1_ps(q[r][d]);
            acc[r][0] = _mm512_fmadd_ps(qv, lo, acc[r][0]);
            acc[r][1] = _mm512_fmadd_ps(qv, hi, acc[r][1]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(s + r * K_TILE + 16 * h, acc[r][h]);
    ahead->k = next;
}

static K_VEC_AVX512 void k__attn_scores_avx512(const float *const *q, int n_rows, const float *kt, int n,
                                               k__attn_ahead *ahead, float *s) {
    K__SCORES_BY_ROWS(k__scores_avx512)
}

static K_VEC_AVX512 void k__attn_round_avx512(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

/* Reduces the four lanes of each of four rows: lane r of v[0] is the result of row r, in the order of k__sum_avx512. */
#define K__ACROSS_FOUR(op, v)                                                                        \
    do {                                                                                             \
        const __m128 ab = op(_mm_unpacklo_ps(v[0], v[1]), _mm_unpackhi_ps(v[0], v[1]));              \
        const __m128 cd = op(_mm_unpacklo_ps(v[2], v[3]), _mm_unpackhi_ps(v[2], v[3]));              \
        v[0] = op(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));                                     \
    } while (0)

K__V512 __m128 k__max4_avx512(__m512 v) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* Scores with their cap and slope; h: which 16 positions of the tile. */
K__V512 __m512 k__shape_avx512(const k_attn_args *a, const k__attn_rows *g, int r, int h, __m512 s) {
    const __m512  cap = _mm512_set1_ps(a->softcap);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (a->softcap != 0) s = _mm512_mul_ps(cap, k__tanh_avx512(_mm512_div_ps(s, cap)));
    if (!a->slopes) return s;
    const __m512i far = _mm512_abs_epi32(_mm512_add_epi32(_mm512_set1_epi32(g->far[r] + 16 * h), lane));
    return _mm512_fnmadd_ps(_mm512_set1_ps(g->slope[r]), _mm512_cvtepi32_ps(far), s);
}

/* Four rows at a time: a lane holds the m, l and c of a row. shaped: with a cap or slopes. */
K__V512 void k__weigh_avx512(const bool shaped, const bool round, const k_attn_args *a, k__attn_rows *g, float *s) {
    const __m512 scale = _mm512_set1_ps(a->scale), low = _mm512_set1_ps(-INFINITY);
    for (int at = 0; at < g->n; at += 4, s += 4 * K_TILE) {
        const __m128 old = _mm_loadu_ps(g->m + at);
        __m512       v[4][2];
        __m128       f[4];
        float        base[4];
        for (int r = 0; r < 4; r++) {
            const uint64_t in = ((uint64_t)1 << g->hi[at + r]) - ((uint64_t)1 << g->lo[at + r]);
            const __m512   m = _mm512_set1_ps(g->m[at + r]);
            for (int h = 0; h < 2; h++) {
                v[r][h] = _mm512_mul_ps(_mm512_loadu_ps(s + r * K_TILE + 16 * h), scale);
                if (shaped) v[r][h] = k__shape_avx512(a, g, at + r, h, v[r][h]);
                v[r][h] = _mm512_mask_mov_ps(low, (__mmask16)(in >> (16 * h)), v[r][h]);
            }
            f[r] = k__max4_avx512(_mm512_max_ps(_mm512_max_ps(v[r][0], m), _mm512_max_ps(v[r][1], m)));
        }
        K__ACROSS_FOUR(_mm_max_ps, f);
        const __m128   top = f[0], from = _mm_maskz_mov_ps(_mm_cmp_ps_mask(top, _mm_set1_ps(-INFINITY), _CMP_NEQ_UQ), top);
        const __mmask8 same = _mm_cmp_ps_mask(top, old, _CMP_EQ_OQ);
        __m128         c = _mm512_castps512_ps128(k__decay_avx512(_mm512_castps128_ps512(_mm_sub_ps(old, from))));
        c = _mm_mask_mov_ps(c, same, _mm_set1_ps(1));
        _mm_storeu_ps(base, from);
        for (int r = 0; r < 4; r++) {
            for (int h = 0; h < 2; h++) {
                v[r][h] = k__decay_avx512(_mm512_sub_ps(v[r][h], _mm512_set1_ps(base[r])));
                if (round) v[r][h] = k__rounded_avx512(v[r][h]);
                _mm512_storeu_ps(s + r * K_TILE + 16 * h, v[r][h]);
            }
            f[r] = k__add4_avx512(_mm512_add_ps(v[r][0], v[r][1]));
        }
        K__ACROSS_FOUR(_mm_add_ps, f);
        _mm_storeu_ps(g->l + at, _mm_fmadd_ps(_mm_loadu_ps(g->l + at), c, f[0]));
        _mm_storeu_ps(g->c + at, c);
        _mm_storeu_ps(g->m + at, top);
    }
}

static K_VEC_AVX512 void k__attn_weigh_avx512(const k_attn_args *a, k__attn_rows *g, float *s) {
    if (a->softcap != 0 || a->slopes) k__weigh_avx512(true, k__kv_rounds(a->type_v), a, g, s);
    else if (k__kv_rounds(a->type_v)) k__weigh_avx512(false, true, a, g, s);
    else k__weigh_avx512(false, false, a, g, s);
}

/* D registers of o for each of R rows stay in place while the loop goes over positions. */
K__V512 void k__gather_avx512(const int R, const int D, float *const *o, int at, const float *c, const float *s, const float *v,
                              int ld, int lo, int hi, k__attn_ahead *ahead) {
    const uint8_t *next = ahead->v;
    __m512         acc[4][4];
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) acc[r][d] = _mm512_mul_ps(_mm512_loadu_ps(o[r] + at + 16 * d), _mm512_set1_ps(c[r]));
    for (int t = lo & ~1, i; t <= hi; t++) {
        if (!k__pair_at(t, lo, hi, &i)) continue;
        for (int k = 0; k < 2; k++) k__fetch(&next, ahead->v_end);
        const float *vi = v + (size_t)i * (size_t)ld + at;
        __m512       vv[4];
        for (int d = 0; d < D; d++) vv[d] = _mm512_loadu_ps(vi + 16 * d);
        for (int r = 0; r < R; r++)
            for (int d = 0; d < D; d++) acc[r][d] = _mm512_fmadd_ps(_mm512_set1_ps(s[r * K_TILE + i]), vv[d], acc[r][d]);
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) _mm512_storeu_ps(o[r] + at + 16 * d, acc[r][d]);
    ahead->v = next;
}

K__V512 void k__gather_rows_avx512(const int R, float *const *o, const float *c, const float *s, const float *v, int ld, int lo,
                                   int hi, k__attn_ahead *ahead) {
    int at = 0;
    for (; at + 64 <= ld; at += 64) k__gather_avx512(R, 4, o, at, c, s, v, ld, lo, hi, ahead);
    for (; at < ld; at += 32) k__gather_avx512(R, 2, o, at, c, s, v, ld, lo, hi, ahead);
}

static K_VEC_AVX512 void k__attn_gather_avx512(float *const *o, const float *c, int n_rows, const float *s, const float *v,
                                               int ld, int lo, int hi, k__attn_ahead *ahead) {
    K__GATHER_BY_ROWS(k__gather_rows_avx512)
}

static const k__attn_keys k__attn_keys_avx512 = {
    .per = 1, .widen = k__attn_widen_avx512, .transpose = k__attn_transpose_avx512,
    .round = k__attn_round_avx512, .scores = k__attn_scores_avx512};
static const k__attn_values k__attn_values_avx512 = {1, k__attn_widen_avx512, NULL, k__attn_gather_avx512};

/* --- both caches q8_0: the rest is the avx2 level's --- */

#define K_VEC_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))
#define K__VVNNI static inline __attribute__((always_inline)) K_VEC_VNNI

/* acc[r] = the 16 sums over n_pairs pairs of x[r] times y[n_pairs][16][2]. */
K__VVNNI void k__attn8_sums_avx512(const int R, const int16_t *const *x, const int16_t *y, int n_pairs,
                                   __m512i acc[K_ATTN8_ROWS]) {
    for (int r = 0; r < R; r++) acc[r] = _mm512_setzero_si512();
    for (int i = 0; i < n_pairs; i++, y += 32) {
        const __m512i v = _mm512_loadu_si512(y);
        for (int r = 0; r < R; r++) {
            int32_t pair;
            memcpy(&pair, x[r] + 2 * i, 4);
            acc[r] = _mm512_dpwssd_epi32(acc[r], v, _mm512_set1_epi32(pair));
        }
    }
}

/* R rows and 16 positions. */
K__VVNNI void k__attn8_scores_of_avx512(const int R, const k__attn8 *c, const int *row, int place, float *s) {
    for (int g = 0; g < c->ld_k / 32; g++) {
        const __m512   d = _mm512_loadu_ps(c->dk + g * K_SEGMENT + place);
        const int16_t *q[K_ATTN8_ROWS];
        __m512i        acc[K_ATTN8_ROWS];
        for (int r = 0; r < R; r++) q[r] = c->q + (size_t)row[r] * (size_t)c->ld_k + 32 * g;
        k__attn8_sums_avx512(R, q, c->k + (size_t)place * (size_t)c->ld_k + 512 * g, 16, acc);
        for (int r = 0; r < R; r++) {
            float       *to = s + r * K_SEGMENT + place;
            const __m512 v = _mm512_cvtepi32_ps(acc[r]);
            _mm512_storeu_ps(to, g ? _mm512_fmadd_ps(v, d, _mm512_loadu_ps(to)) : _mm512_mul_ps(v, d));
        }
    }
}

static K_VEC_VNNI void k__attn8_scores_avx512(const k__attn8 *c, const k__attn8_rows *g) {
    for (int p = g->first; p < g->last; p += 16) {
        int r = 0;
        for (; r + 8 <= g->n; r += 8) k__attn8_scores_of_avx512(8, c, g->row + r, p, c->s + r * K_SEGMENT);
        for (; r + 4 <= g->n; r += 4) k__attn8_scores_of_avx512(4, c, g->row + r, p, c->s + r * K_SEGMENT);
        for (; r < g->n; r++) k__attn8_scores_of_avx512(1, c, g->row + r, p, c->s + r * K_SEGMENT);
    }
}

/* R rows and 16 dimensions. */
K__VVNNI void k__attn8_gather_of_avx512(const int R, const k__attn8 *c, const k__attn8_rows *g, int from, int b, float *o) {
    const int16_t *w[K_ATTN8_ROWS];
    __m512i        acc[K_ATTN8_ROWS];
    for (int r = 0; r < R; r++) w[r] = c->w + (b / 2 * K_ATTN8_ROWS + from + r) * K_SEGMENT + g->first;
    k__attn8_sums_avx512(R, w, c->v + ((size_t)b * (K_SEGMENT / 2) + (size_t)g->first / 2) * 32, (g->last - g->first) / 2, acc);
    for (int r = 0; r < R; r++)
        _mm512_storeu_ps(o + (size_t)g->row[from + r] * (size_t)c->ld_v + 16 * b,
                         _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r]), _mm512_set1_ps(c->step[b / 2 * K_ATTN8_ROWS + from + r])));
}

static K_VEC_VNNI void k__attn8_gather_avx512(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    for (int b = 0; b < c->ld_v / 16; b++) {
        int r = 0;
        for (; r + 8 <= g->n; r += 8) k__attn8_gather_of_avx512(8, c, g, r, b, o);
        for (; r + 4 <= g->n; r += 4) k__attn8_gather_of_avx512(4, c, g, r, b, o);
        for (; r < g->n; r++) k__attn8_gather_of_avx512(1, c, g, r, b, o);
    }
}

static const k__attn8_level k__attn8_level_avx512 = {
    .pack_k = k__attn8_pack_k_avx2, .pack_v = k__attn8_pack_v_avx2, .scores = k__attn8_scores_avx512,
    .weigh = k__attn8_weigh_avx2, .gather = k__attn8_gather_avx512};

static K_VEC_AVX512 float k__attn_decay_avx512(float x) { return _mm512_cvtss_f32(k__decay_avx512(_mm512_set1_ps(x))); }

static K_VEC_AVX512 void k__attn_join_avx512(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__attn_decay_avx512, all, o, part, from, n);
}

static k__attn_level k_attn_avx512(const k_attn_args *a) {
    return (k__attn_level){
        .keys = &k__attn_keys_avx512, .values = &k__attn_values_avx512, .weigh = k__attn_weigh_avx512,
        .join = k__attn_join_avx512,
        .codes = k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_avx512 : NULL};
}

/* --- avx512_bf16 level: caches that are multiplied as bf16, tiles as pairs --- */

K__VBF16 void k__round_blocks_bf16(const uint32_t type, const uint8_t *src, int n, float *dst) {
    __m512 v[2];
    for (int i = 0; i < n; i += 32) {
        src = k__kv_values_avx512(type, src, v);
        _mm512_storeu_si512(dst + i / 2, (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]));
    }
}

static K_VEC_BF16 void k__attn_widen_bf16(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst,
                                          int ld) {
    for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
        if (type == K_BF16) memcpy(dst, src, 2 * (size_t)n);
        else if (type == K_Q8_0) k__round_blocks_bf16(K_Q8_0, src, n, dst);
        else k__round_blocks_bf16(K_Q4_0, src, n, dst);
    }
}

static K_VEC_BF16 void k__attn_round_bf16(const float *q, int n, float *dst) { k_kv_store_avx512(K_BF16, q, dst, n); }

K__VBF16 void k__scores_bf16(const int R, const float *const *q, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    const uint8_t *next = ahead->k;
    __m512         acc[K_ATTN_GROUP][2];
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (int d = 0; d < n; d++, kt += K_TILE) {
        const __m512i lo = _mm512_loadu_si512(kt), hi = _mm512_loadu_si512(kt + 16);
        for (int i = 0; i < 2; i++) k__fetch(&next, ahead->k_end);
        for (int r = 0; r < R; r++) {
            const __m512i qv = _mm512_castps_si512(_mm512_set1_ps(q[r][d]));
            acc[r][0] = k__dots_add(acc[r][0], lo, qv);
            acc[r][1] = k__dots_add(acc[r][1], hi, qv);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(s + r * K_TILE + 16 * h, acc[r][h]);
    ahead->k = next;
}

static K_VEC_BF16 void k__attn_scores_bf16(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead,
                                           float *s) {
    K__SCORES_BY_ROWS(k__scores_bf16)
}

/* Lane l holds value l of the even position in its low half, of the odd position in its high half. */
static K_VEC_BF16 void k__attn_pair_bf16(const float *v, int ld, float *pairs) {
    for (int i = 0; i < K_TILE / 2; i++, v += ld, pairs += ld)      /* two rows of ld values are ld floats */
        for (int d = 0; d < ld; d += 16) {
            const __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(v + d / 2)));
            const __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(v + (ld + d) / 2)));
            _mm512_storeu_si512(pairs + d, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
        }
}

/* D registers of o for each of R rows stay in place while the loop goes over pairs; p: 16 pairs for
 * each row. The first and the last pair of the span may have a position outside it, which is masked. */
K__VBF16 void k__gather_bf16(const int R, const int D, float *const *o, int at, const float *c, const uint32_t *p,
                             const float *v, int ld, int lo, int hi, k__attn_ahead *ahead) {
    const uint8_t *next = ahead->v;
    __m512         acc[4][4];
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) acc[r][d] = _mm512_mul_ps(_mm512_loadu_ps(o[r] + at + 16 * d), _mm512_set1_ps(c[r]));
    for (int i = lo / 2; i < (hi + 1) / 2; i++) {
        for (int k = 0; k < 4; k++) k__fetch(&next, ahead->v_end);
        const float   *vi = v + (size_t)i * (size_t)ld + at;
        const uint32_t in = (2 * i < lo ? 0 : 0xffff) | (2 * i + 1 < hi ? 0xffff0000u : 0);
        __m512i        vv[4];
        for (int d = 0; d < D; d++) vv[d] = _mm512_and_si512(_mm512_loadu_si512(vi + 16 * d), _mm512_set1_epi32((int)in));
        for (int r = 0; r < R; r++)
            for (int d = 0; d < D; d++) acc[r][d] = k__dots_add(acc[r][d], vv[d], _mm512_set1_epi32((int)p[16 * r + i]));
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) _mm512_storeu_ps(o[r] + at + 16 * d, acc[r][d]);
    ahead->v = next;
}

K__VBF16 void k__gather_rows_bf16(const int R, float *const *o, const float *c, const float *s, const float *v, int ld,
                                  int lo, int hi, k__attn_ahead *ahead) {
    uint32_t p[16 * 4];
    for (int r = 0; r < R; r++, s += K_TILE)
        _mm512_storeu_si512(p + 16 * r, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(s + 16), _mm512_loadu_ps(s)));
    int at = 0;
    for (; at + 64 <= ld; at += 64) k__gather_bf16(R, 4, o, at, c, p, v, ld, lo, hi, ahead);
    for (; at < ld; at += 32) k__gather_bf16(R, 2, o, at, c, p, v, ld, lo, hi, ahead);
}

static K_VEC_BF16 void k__attn_gather_bf16(float *const *o, const float *c, int n_rows, const float *s, const float *v,
                                           int ld, int lo, int hi, k__attn_ahead *ahead) {
    K__GATHER_BY_ROWS(k__gather_rows_bf16)
}

static k__attn_level k_attn_bf16(const k_attn_args *a) {
    static const k__attn_keys keys = {
        .per = 2, .widen = k__attn_widen_bf16, .transpose = k__attn_transpose_avx512,
        .round = k__attn_round_bf16, .scores = k__attn_scores_bf16};
    static const k__attn_values values = {2, k__attn_widen_bf16, k__attn_pair_bf16, k__attn_gather_bf16};
    k__attn_level lv = k_attn_avx512(a);
    if (k__kv_rounds(a->type_k)) lv.keys = &keys;
    if (k__kv_rounds(a->type_v)) lv.values = &values;
    return lv;
}

/* --- avx512_amx level: both caches q8_0, by tiles ([amx]); the other caches are those of the levels before it ---
 * Codes of queries and weights are 256 * high + low: two planes of bytes, whose sums are joined before the conversion. K lies as
 * tiles of 32 dimensions and 16 positions [8][16][4], V as tiles of 64 positions and 16 dimensions [16][16][4]. */

#define K__LIST_TILES "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c" ",amx-tile,amx-int8"
#define K_VEC_AMX __attribute__((target(K__LIST_TILES)))
#define K__VAMX static inline __attribute__((always_inline)) K_VEC_AMX

/* The compiler does not know what memory the instructions of tiles read and write. */
#define K__TILES_SEEN() __asm__ volatile("" : : : "memory")

/* Intel SDM, vol. 1, 18.3: palette 1. */
typedef struct {
    uint8_t  palette, start_row, none[14];
    uint16_t bytes[16];                         /* of a row */
    uint8_t  rows[16];
} k__tile_config;

/* Tiles 0 .. 3: m rows of 16 sums; 4 and 5: m rows of k bytes; 6 and 7: k/4 rows of 16 times 4 bytes. To be released. */
K__VAMX void k__tiles_start(int m, int k) {
    k__tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = (uint8_t)(i < 6 ? m : k / 4);
        c.bytes[i] = (uint16_t)(i == 4 || i == 5 ? k : 64);
    }
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

static K_VEC_AVX2 void k__attn8_pack_k_amx(const k__attn8 *c, const uint8_t *const *row, int place) {
    float *to = (float *)(void *)c->k + (size_t)place * (size_t)c->ld_k / 4;
    for (int g = 0; g < c->ld_k / 32; g++)
        for (int h = 0; h < 16; h += 8) {
            __m256 r[8];
            for (int j = 0; j < 8; j++)
                r[j] = _mm256_loadu_ps((const float *)(const void *)(row[h + j] + (size_t)g * sizeof(block_q8_0) + 2));
            k__flip_avx2(r);                                        /* four dimensions of eight positions */
            for (int j = 0; j < 8; j++) _mm256_store_ps(to + (8 * g + j) * 16 + h, r[j]);
            _mm256_storeu_ps(c->dk + g * K_SEGMENT + place + h, k__attn8_scales_avx2(row + h, g));
        }
}

static K_VEC_AVX2 void k__attn8_pack_v_amx(const k__attn8 *c, const uint8_t *const *row, int place) {
    for (int g = 0; g < c->ld_v / 32; g++) {
        for (int h = 0; h < 16; h += 8) _mm256_storeu_ps(c->dv + g * K_SEGMENT + place + h, k__attn8_finite_avx2(row + h, g));
        for (int h = 0; h < 2; h++) {
            __m128i *to = (__m128i *)(void *)c->v + (size_t)(2 * g + h) * K_SEGMENT + (size_t)place;
            for (int i = 0; i < 16; i += 4, to += 4) {
                __m128i r[4], t[4];
                for (int j = 0; j < 4; j++)
                    r[j] = _mm_loadu_si128((const __m128i *)(row[i + j] + (size_t)g * sizeof(block_q8_0) + 2 + 16 * (size_t)h));
                t[0] = _mm_unpacklo_epi8(r[0], r[1]), t[1] = _mm_unpackhi_epi8(r[0], r[1]);
                t[2] = _mm_unpacklo_epi8(r[2], r[3]), t[3] = _mm_unpackhi_epi8(r[2], r[3]);
                for (int j = 0; j < 2; j++) {
                    _mm_store_si128(to + 2 * j, _mm_unpacklo_epi16(t[j], t[j + 2]));
                    _mm_store_si128(to + 2 * j + 1, _mm_unpackhi_epi16(t[j], t[j + 2]));
                }
            }
        }
    }
}

/* 32 words to the planes of low and high bytes. */
K__VAMX void k__attn8_planes(__m512i v, uint8_t *low, int8_t *high) {
    _mm256_storeu_si256((__m256i *)(void *)low, _mm512_cvtepi16_epi8(v));
    _mm256_storeu_si256((__m256i *)(void *)high, _mm512_cvtepi16_epi8(_mm512_srli_epi16(v, 8)));
}

/* Sums of the planes. */
K__VAMX __m512 k__attn8_joined(const int32_t *low, const int32_t *high) {
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_load_si512(low), _mm512_slli_epi32(_mm512_load_si512(high), 8)));
}

/* Tiles 0 .. 3 are the sums of the planes in tiles 4 and 5, low and high, times tile 6, then times tile 7. */
K__VAMX void k__attn8_clear(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

K__VAMX void k__attn8_multiply(void) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    _tile_dpbusd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
}

K__VAMX void k__attn8_store(int32_t (*sum)[K_ATTN8_ROWS][16]) {
    _tile_stored(0, sum[0], 64);
    _tile_stored(1, sum[1], 64);
    _tile_stored(2, sum[2], 64);
    _tile_stored(3, sum[3], 64);
    K__TILES_SEEN();
}

/* The scores of 32 dimensions, 32 positions at a time, as the tiles of these are multiplied. */
static K_VEC_AMX void k__attn8_scores_amx(const k__attn8 *c, const k__attn8_rows *g) {
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    _Alignas(64) int32_t sum[4][K_ATTN8_ROWS][16];
    uint8_t low[K_ATTN8_ROWS][32];
    int8_t  high[K_ATTN8_ROWS][32];
    k__tiles_start(g->n, 32);
    for (int b = 0; b < c->ld_k / 32; b++) {
        const int8_t *k = (const int8_t *)c->k + 512 * (size_t)b;
        for (int r = 0; r < g->n; r++)                              /* dimensions in the order of K: k__attn8_at() */
            k__attn8_planes(_mm512_shuffle_epi8(_mm512_loadu_si512(c->q + (size_t)g->row[r] * (size_t)c->ld_k + 32 * b), order),
                            low[r], high[r]);
        __asm__ volatile("" : : "r"(low), "r"(high), "r"(sum) : "memory");
        _tile_loadd(4, low, 32);
        _tile_loadd(5, high, 32);
        for (int p = g->first; p < g->last; p += 32) {
            _tile_loadd(6, k + (size_t)p * (size_t)c->ld_k, 64);
            _tile_loadd(7, k + (size_t)(p + 16) * (size_t)c->ld_k, 64);
            k__attn8_clear();
            k__attn8_multiply();
            k__attn8_store(sum);
            for (int h = 0; h < 2; h++) {
                const __m512 d = _mm512_loadu_ps(c->dk + b * K_SEGMENT + p + 16 * h);
                for (int r = 0; r < g->n; r++) {
                    float       *to = c->s + r * K_SEGMENT + p + 16 * h;
                    const __m512 v = k__attn8_joined(sum[2 * h][r], sum[2 * h + 1][r]);
                    _mm512_storeu_ps(to, b ? _mm512_fmadd_ps(v, d, _mm512_loadu_ps(to)) : _mm512_mul_ps(v, d));
                }
            }
        }
    }
    _tile_release();
}

/* The planes of the weights of rows for 32 dimensions, in whole tiles of 64 positions; those outside the segment's part are 0. */
K__VAMX void k__attn8_weights_amx(const k__attn8 *c, const k__attn8_rows *g, int b, uint8_t (*low)[K_SEGMENT],
                                  int8_t (*high)[K_SEGMENT]) {
    for (int r = 0; r < g->n; r++)
        for (int p = g->first & ~63; p < ((g->last + 63) & ~63); p += 32) {
            const int16_t *w = c->w + (b * K_ATTN8_ROWS + r) * K_SEGMENT + p;
            const bool     in = p >= g->first && p < g->last;
            k__attn8_planes(in ? _mm512_loadu_si512(w) : _mm512_setzero_si512(), low[r] + p, high[r] + p);
        }
}

static K_VEC_AMX void k__attn8_gather_amx(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    _Alignas(64) int32_t sum[4][K_ATTN8_ROWS][16];
    uint8_t low[K_ATTN8_ROWS][K_SEGMENT];
    int8_t  high[K_ATTN8_ROWS][K_SEGMENT];
    k__tiles_start(g->n, 64);
    for (int b = 0; b < c->ld_v / 32; b++) {
        const int8_t *v = (const int8_t *)c->v + 32 * (size_t)K_SEGMENT * (size_t)b;
        k__attn8_weights_amx(c, g, b, low, high);
        __asm__ volatile("" : : "r"(low), "r"(high), "r"(sum) : "memory");
        k__attn8_clear();
        for (int p = g->first & ~63; p < g->last; p += 64) {
            _tile_loadd(4, low[0] + p, K_SEGMENT);
            _tile_loadd(5, high[0] + p, K_SEGMENT);
            _tile_loadd(6, v + 16 * (size_t)p, 64);
            _tile_loadd(7, v + 16 * (size_t)(K_SEGMENT + p), 64);
            k__attn8_multiply();
        }
        k__attn8_store(sum);
        for (int r = 0; r < g->n; r++) {
            const __m512 step = _mm512_set1_ps(c->step[b * K_ATTN8_ROWS + r]);
            float       *to = o + (size_t)g->row[r] * (size_t)c->ld_v + 32 * b;
            _mm512_storeu_ps(to, _mm512_mul_ps(k__attn8_joined(sum[0][r], sum[1][r]), step));
            _mm512_storeu_ps(to + 16, _mm512_mul_ps(k__attn8_joined(sum[2][r], sum[3][r]), step));
        }
    }
    _tile_release();
}

static const k__attn8_level k__attn8_level_amx = {
    .pack_k = k__attn8_pack_k_amx, .pack_v = k__attn8_pack_v_amx, .scores = k__attn8_scores_amx,
    .weigh = k__attn8_weigh_avx2, .gather = k__attn8_gather_amx};

/* With few rows tiles are mostly empty. */
static k__attn_level k__attn_tiles(const k_attn_args *a, k__attn_level lv) {
    if (lv.codes && a->n_rows >= 4) lv.codes = &k__attn8_level_amx;
    return lv;
}

static k__attn_level k_attn_amx(const k_attn_args *a) { return k__attn_tiles(a, k_attn_avx512(a)); }
static k__attn_level k__attn_amx_bf16(const k_attn_args *a) { return k__attn_tiles(a, k_attn_bf16(a)); }
#endif
#endif /* __CUDACC__ */
