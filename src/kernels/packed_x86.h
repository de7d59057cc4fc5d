/* ===== [packed_x86] what the vector levels share =====
 * Few columns, up to eight in a pass (cols), are multiplied with the packed block itself: the codes of a
 * line are unpacked in registers, once for all columns. For more, two strips are unpacked into panels,
 * which are multiplied by the tiles of [quant_x86]: a block of them at a time for up to 64 columns, a
 * whole strip at a time for many. The terms of offsets and minima come from sums of activations; `aux`
 * holds them ready, so that a dot starts with one broadcast load. A block is 16 rows by 256 columns. */

enum {
    K__PASSES = 8,                                    /* passes of few columns, at most */
    K__LANE_WHOLE, K__LANE_LOW, K__LANE_BOTH,         /* sc in a lane: as int32; in the low word; in both */
    K__LANE_PAIRS16, K__LANE_PAIRS32                  /* as LOW, and pairs of groups of 16; as WHOLE, and pairs of groups of 32 */
};

/* What a pass precomputes from k_sums: at most 16 int32 for each column and block. */
enum {
    K__AUX_NONE,
    K__AUX_OFF16, K__AUX_OFF32,                       /* -off * sum of 16 or 32: start value of a group's dot */
    K__AUX_OFF32X,                                    /* the same, times 16 for every second group */
    K__AUX_PAIRS16,                                   /* (0, 2) (1, 3) (4, 6) .. of the sums of 16 */
    K__AUX_FLOAT                                      /* the sums of 32 as float */
};

/* Columns that are computed together. */
typedef struct k__pass k__pass;
typedef void k__cols_fn(const k__panel *open, const uint8_t *w, const k__pass *x, int b,
                        float (*y)[K_PACK_ROWS]);
struct k__pass {
    const k__form *form;
    k__cols_fn    *fn;
    int32_t       *aux;                               /* [blocks][columns][16] */
    k__cols        c;
};

/* Opens so many times 64 columns of a block, or so many of its groups, to rows at .. at + 15 of a panel. */
typedef void k__open_fn(const k__form *f, const uint8_t *w, int n, k__panel *to, int at);

/* How a level multiplies packed rows of one format. */
typedef struct {
    k__open_fn *codes, *heads;                        /* of the codes of a block; of its scales */
    k__cols_fn *cols[K__COLS];                        /* index: columns - 1; NULL: the next one serves */
    bool opened;                                      /* cols needs the block in the panel */
    int  aux;                                         /* K__AUX_ */
    const k__tiles *tiles;
    int width;                                        /* columns of a pass of k__packed_few() */
    int panel_cols;                                   /* columns from which panels are faster with tiles of up to six; measured */
} k__packed_plan;

/* Prefetches one line for each line that is read: many at once would fill the buffers of the core and stall the
 * reads. The line may lie beyond the matrix. With one column some processors are faster without it (distance 0).
 * Into L1: on Zen 5 a loop that reads lines out of L2 runs at 0.7 of its rate at some physical addresses of its code. */
static inline __attribute__((always_inline)) size_t k__one_ahead(int bits) { return g_k_ahead[bits == 8]; }
static inline __attribute__((always_inline)) void k__line_ahead(int T, int bits, const uint8_t *p) {
    _mm_prefetch((const char *)((uintptr_t)p + (T == 1 ? k__one_ahead(bits) : K__AHEAD)), _MM_HINT_T0);
}
static inline __attribute__((always_inline)) void k__head_ahead(int T, int bits, const uint8_t *h, int lines) {
    K__UNROLL for (int i = 0; i < 5; i++)
        if (i < lines) k__line_ahead(T, bits, h + 64 * i);
}

/* Eight rows of a head's line. */
K__IN_AVX2 __m256i k__lane_bits(__m256i v, int at, int mask) {
    return _mm256_and_si256(_mm256_srli_epi32(v, at), _mm256_set1_epi32(mask));
}

/* sc of group g; v: the lines of the head. */
K__IN_AVX2 __m256i k__lane_sc(int head, const __m256i *v, int g) {
    switch (head) {
    case K__HEAD_MIN6: return k__lane_bits(v[g / 8], g / 2 % 4 * 8, 63);
    case K__HEAD_MIN4: return k__lane_bits(v[g / 4], g % 4 * 8, 15);
    case K__HEAD_S8: return _mm256_srai_epi32(_mm256_slli_epi32(v[g / 4], 24 - g % 4 * 8), 24);
    case K__HEAD_S6: case K__HEAD_S6X2: {
        int     i = head == K__HEAD_S6 ? g : g / 2;
        __m256i lo = k__lane_bits(v[head == K__HEAD_S6 ? g / 8 : 0], i % 8 * 4, 15),
                hi = v[head == K__HEAD_S6 ? 2 : 1];
        hi = i < 2 ? _mm256_slli_epi32(hi, 4 - 2 * i) : _mm256_srli_epi32(hi, 2 * i - 4);
        hi = _mm256_and_si256(hi, _mm256_set1_epi32(0x30));
        return _mm256_sub_epi32(_mm256_or_si256(lo, hi), _mm256_set1_epi32(32));
    }
    default: return _mm256_set1_epi32(1);             /* K__HEAD_ONE */
    }
}

K__IN_AVX2 __m256i k__lane_mn(int head, const __m256i *v, int g) {
    if (head == K__HEAD_MIN4) return k__lane_bits(v[g / 4], g % 4 * 8 + 4, 15);
    int at = g / 2 % 4 * 8;
    if (g < 8) return k__lane_bits(v[2], at, 63);
    __m256i lo = k__lane_bits(v[0], at + 6, 3), mid = k__lane_bits(v[1], at + 6, 3),
            hi = k__lane_bits(v[2], at + 6, 3);
    return _mm256_or_si256(lo, _mm256_or_si256(_mm256_slli_epi32(mid, 2), _mm256_slli_epi32(hi, 4)));
}

/* Two words in a lane. */
K__IN_AVX2 __m256i k__lane_pair(__m256i lo, __m256i hi) {
    return _mm256_blend_epi16(lo, _mm256_slli_epi32(hi, 16), 0xaa);
}

K__IN_AVX2 void k__store_pair(k__panel *to, int p, int at, __m256i first, __m256i second) {
    _mm256_store_si256((__m256i *)&to->pairs[p][at], k__lane_pair(second, first));
}

/* Unpacks the head at h of an INT block. The offset becomes a minimum: sc*(u - off) = sc*u + (-sc*off)*1. */
K__IN_AVX2 void k__open_int(int head, int lane, int lines, int off, float factor, const uint8_t *h,
                            k__panel *to, int at) {
    const bool has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    for (int r = 0; r < K_PACK_ROWS; r += 8, h += 32) {
        __m256i v[5], sc[2], mn[2], before = _mm256_setzero_si256();
        __m256  d;
        K__UNROLL for (int i = 0; i < 5; i++) v[i] = k__ld256(h + 64 * (i < lines ? i : 0));
        K__UNROLL for (int p = 0; p < 8; p++) {
            K__UNROLL for (int i = 0; i < 2; i++) {
                __m256i s = sc[i] = k__lane_sc(head, v, 2 * p + i);
                if (lane == K__LANE_LOW || lane == K__LANE_PAIRS16) s = _mm256_blend_epi16(s, _mm256_setzero_si256(), 0xaa);
                if (lane == K__LANE_BOTH) s = k__lane_pair(s, s);
                mn[i] = has_min ? k__lane_mn(head, v, 2 * p + i)
                                : _mm256_mullo_epi16(sc[i], _mm256_set1_epi32(-off & 0xffff));
                _mm256_store_si256((__m256i *)&to->sc[2 * p + i][at + r], s);
            }
            _mm256_store_si256((__m256i *)&to->mn[p][at + r], k__lane_pair(mn[0], mn[1]));
            if (lane == K__LANE_PAIRS16) k__store_pair(to, p, at + r, sc[0], sc[1]);
            if (lane == K__LANE_PAIRS32 && p % 2) k__store_pair(to, p / 2, at + r, before, sc[0]);
            before = sc[0];
        }
        if (has_min) {
            const uint8_t *halves = h - 2 * r + 64 * (lines - 1);
            d = k__lane_halves(halves);
            _mm256_store_ps(&to->dm[at + r], k__lane_halves(halves + 32));
        } else if (head == K__HEAD_S6X2) {
            __m256i f16 = _mm256_srli_epi32(v[1], 16);
            f16 = _mm256_permute4x64_epi64(_mm256_packus_epi32(f16, f16), 0xd8);
            d = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), _mm256_set1_ps(factor));
        } else {
            d = _mm256_castsi256_ps(v[lines - 1]);
        }
        _mm256_store_ps(&to->d[at + r], d);
    }
}

/* Unpacks the heads of the units of a SCALE block; missing groups get scale zero. */
K__IN_AVX2 void k__open_scale(int head, int segs, size_t unit, int bits, const uint8_t *w, int groups,
                              k__panel *to, int at) {
    const int per = head == K__HEAD_E4 ? 16 : 32, each = 64 * segs / per, all = K_SUPER / per;
    for (int r = 0; r < K_PACK_ROWS; r += 8) {
        const uint8_t *h = w + 128 * bits * segs;
        int            g = 0;
        for (; g < groups; h += unit)
            for (int i = 0; i < each; i++, g++) {
                const uint8_t *half = h + 32 * (i / segs) + 2 * r;
                __m256         s = head == K__HEAD_E8   ? k__lane_e8(h + 16 * i + r)
                                   : head == K__HEAD_E4 ? k__lane_e4(h + 16 * i + r)
                                                        : k__lane_halves(half);
                _mm256_store_ps(&to->fs[g][at + r], s);
                if (head == K__HEAD_F16M) _mm256_store_ps(&to->fs[8 + g][at + r], k__lane_halves(half + 64));
            }
        for (; g < all; g++) {
            _mm256_store_ps(&to->fs[g][at + r], _mm256_setzero_ps());
            if (head == K__HEAD_F16M) _mm256_store_ps(&to->fs[8 + g][at + r], _mm256_setzero_ps());
        }
    }
}

#define K__HEADS_INT(name, head, lines, lane)                                                            \
    K__AVX2 void k__heads_##name(const k__form *f, const uint8_t *w, int groups, k__panel *to, int at) { \
        (void)groups;                                                                                    \
        k__open_int(head, lane, lines, f->off, f->factor, w, to, at);                                    \
    }
#define K__HEADS_SCALE(name, head)                                                                       \
    K__AVX2 void k__heads_##name(const k__form *f, const uint8_t *w, int groups, k__panel *to, int at) { \
        k__open_scale(head, f->segs, k__unit_bytes(f), f->bits, w, groups, to, at);                      \
    }
K__HEADS_INT(min6_pairs, K__HEAD_MIN6, 4, K__LANE_PAIRS32)
K__HEADS_INT(min6_both, K__HEAD_MIN6, 4, K__LANE_BOTH)
K__HEADS_INT(min4_pairs, K__HEAD_MIN4, 5, K__LANE_PAIRS16)
K__HEADS_INT(min4_both, K__HEAD_MIN4, 5, K__LANE_BOTH)
K__HEADS_INT(s8_pairs, K__HEAD_S8, 5, K__LANE_PAIRS16)
K__HEADS_INT(s8_whole, K__HEAD_S8, 5, K__LANE_WHOLE)
K__HEADS_INT(s8_both, K__HEAD_S8, 5, K__LANE_BOTH)
K__HEADS_INT(s6_pairs, K__HEAD_S6, 4, K__LANE_PAIRS16)
K__HEADS_INT(s6_whole, K__HEAD_S6, 4, K__LANE_WHOLE)
K__HEADS_INT(s6_both, K__HEAD_S6, 4, K__LANE_BOTH)
K__HEADS_INT(s6x2_whole, K__HEAD_S6X2, 2, K__LANE_WHOLE)
K__HEADS_INT(s6x2_both, K__HEAD_S6X2, 2, K__LANE_BOTH)
K__HEADS_INT(one_pairs, K__HEAD_ONE, 1, K__LANE_PAIRS16)
K__HEADS_INT(one_both, K__HEAD_ONE, 1, K__LANE_BOTH)
K__HEADS_SCALE(f16, K__HEAD_F16)
K__HEADS_SCALE(f16m, K__HEAD_F16M)
K__HEADS_SCALE(e8, K__HEAD_E8)
K__HEADS_SCALE(e4, K__HEAD_E4)

/* Unpacks one block of len columns into rows at .. at + 15 of the panel. */
static void k__open_block(const k__packed_plan *p, const k__form *f, const uint8_t *w, int len, k__panel *to,
                          int at) {
    p->codes(f, w, (len + 63) / 64, to, at);
    p->heads(f, w, f->head == K__HEAD_E4 ? len / 16 : len / 32, to, at);
}

/* The aux words of one block and column; in baseline vectors, since every task computes them again. */
K__BODY void k__aux_block(int kind, int off, const int16_t *sum, int32_t *to) {
    const __m128i v[2] = {_mm_loadu_si128((const __m128i *)(const void *)sum),
                          _mm_loadu_si128((const __m128i *)(const void *)(sum + 8))};
    const __m128i even = _mm_set1_epi16((short)-off), odd = _mm_set1_epi16((short)(kind == K__AUX_OFF32X ? -16 * off : -off));
    const __m128i by = kind == K__AUX_OFF32 || kind == K__AUX_OFF32X ? _mm_unpacklo_epi32(even, odd) : _mm_set1_epi16(1);
    const __m128i s[2] = {_mm_madd_epi16(v[0], by), _mm_madd_epi16(v[1], by)}, zero = _mm_setzero_si128();
    __m128i      *m = (__m128i *)(void *)to;
    for (int h = 0; h < 2; h++)
        switch (kind) {
        case K__AUX_OFF16:
            _mm_storeu_si128(m + 2 * h, _mm_madd_epi16(_mm_unpacklo_epi16(v[h], zero), even));
            _mm_storeu_si128(m + 2 * h + 1, _mm_madd_epi16(_mm_unpackhi_epi16(v[h], zero), even));
            break;
        case K__AUX_PAIRS16: _mm_storeu_si128(m + h, k__crossed(v[h])); break;
        case K__AUX_FLOAT:   _mm_storeu_ps((float *)to + 4 * h, _mm_cvtepi32_ps(s[h])); break;
        default:             _mm_storeu_si128(m + h, s[h]);
        }
}

/* mem: 64 bytes for each block and column; returns its unused rest. */
K__BODY int32_t *k__aux_set(k__pass *x, int kind, int off, int32_t *mem) {
    const int blocks = x->c.nb + (x->c.tail > 0);
    x->aux = mem;
    if (kind == K__AUX_NONE) return mem;
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < x->c.n; t++, mem += 16) k__aux_block(kind, off, k__cols_sum(&x->c, t, b), mem);
    return mem;
}

/* Columns t0 .. t0 + count - 1. Where no kernel has that number of columns, the last one is repeated. */
static void k__pass_set(k__pass *x, k__cols_fn *const *cols, const k__form *f, const k_acts *a, int t0, int count, int n) {
    int32_t idx[K__COLS];
    k_acts  some = *a;
    int     width = count;
    while (!cols[width - 1]) width++;
    for (int c = 0; c < width; c++) idx[c] = k__row_of(a, t0 + (c < count ? c : count - 1));
    some.idx = idx;
    k__cols_set(&x->c, &some, 0, width, n);
    x->c.offset = f->off;
    x->form = f;
    x->fn = cols[width - 1];
}

/* Dequantises the columns from slot `from` on and before column `end` of a strip whose lines have just been read; next: the
 * bytes to prefetch. Returns the next slot. */
K__BODY int k__far_open(k__far_mem *far, uint32_t type, const uint8_t *strip, int from, int end, const uint8_t *next) {
    int to = from;
    while (to < far->n_at && far->at[to] < end) to++;
    if (to > from)
        far->columns(type, strip, 0, K_PACK_ROWS, far->place + from, to - from, far->col + from * K_PACK_ROWS, K_PACK_ROWS, next);
    return to;
}

/* Adds the far values of columns t .. t + n of a product to their sums of a strip. Of a single column's, those from slot `from`
 * on have not been dequantised before. */
K__BODY void k__far_strip(const k__far_mem *far, uint32_t type, const uint8_t *strip, int from, const k_acts *a, int t, int n,
                          float (*sum)[K_PACK_ROWS], const uint8_t *next) {
    for (int i = 0; i < n; i++) {
        const int         row = k__row_of(a, t + i);
        const k__far_list all = a->split[row] ? k__far_of(a, row) : (k__far_list){NULL, 0};
        const k__far_list list = {all.of, a->nt == 1 ? from : all.n};
        if (list.n) far->add(far->col, K_PACK_ROWS, far->slot, list, K_PACK_ROWS, sum[i]);
        if (all.n > list.n) far->values(type, strip, far->place + from, all.n - from, all.of + from, sum[i], next);
    }
}

/* Blocks whose lines are in the L1 cache when their far columns are dequantised. */
enum { K__FAR_BLOCKS = 8 };

/* Lines that are read after the product (k_acts.soon). Some are prefetched with each block: all at once would be dropped. */
typedef struct {
    const k_run *run;
    int          n, at;                               /* runs that are left, lines of the first that are done */
    int          each;                                /* lines for a block */
} k__soon;

static inline k__soon k__soon_of(const k_acts *a, int blocks) {
    const k_soon *s = a->soon;
    return s && blocks > 0 ? (k__soon){s->run, s->n, 0, (s->lines + blocks - 1) / blocks} : (k__soon){0};
}

static inline void k__soon_ahead(k__soon *s) {
    for (int i = 0; s->n && i < s->each; i++) {
        _mm_prefetch((const char *)s->run->at + 64 * s->at, _MM_HINT_T1);
        if (++s->at >= s->run->lines) s->at = 0, s->n--, s->run++;
    }
}

/* Few columns: every strip is read once. block: one panel more than a row has blocks. The first panel holds the current block,
 * the others have space for the words of k__aux_set (4 KB a block). far: far values, added while a strip is in the cache. */
K__BODY void k__packed_few(const k__packed_plan *p, uint32_t type, const uint8_t *w, int nr, int n,
                           const k_acts *a, float *y, size_t ldy, k__panel *block, k__far_mem *far) {
    const k__form *f = &k__forms[type];
    const int      parts = (a->nt + p->width - 1) / p->width;
    const int      nb = n / K_SUPER, tail = n % K_SUPER;
    const size_t   whole = (size_t)k__units(f, K_SUPER) * k__unit_bytes(f), last = (size_t)k__units(f, tail) * k__unit_bytes(f);
    const size_t   ahead = a->nt == 1 ? k__one_ahead(f->bits) : K__AHEAD;
    int32_t       *mem = (int32_t *)(void *)(block + 1);
    int            first[K__PASSES + 1];
    k__pass        x[K__PASSES];
    k__soon        soon = k__soon_of(a, (nr + K_PACK_ROWS - 1) / K_PACK_ROWS * (nb + (tail > 0)));
    _Alignas(64) float acc[K__PASSES][K__COLS][K_PACK_ROWS];
    for (int i = 0; i <= parts; i++) first[i] = i < parts ? i * p->width : a->nt;
    for (int i = 0; i < parts; i++) {
        k__pass_set(&x[i], p->cols, f, a, first[i], first[i + 1] - first[i], n);
        mem = k__aux_set(&x[i], p->aux, f->off, mem);
    }
    for (int r = 0; r < nr; r += K_PACK_ROWS) {
        const int      rows = nr - r < K_PACK_ROWS ? nr - r : K_PACK_ROWS;
        const uint8_t *strip = w;
        int            opened = 0;
        for (int t = 0; t < a->nt; t++) k__sums_ahead(y + (size_t)t * ldy + r, rows);
        for (int i = 0; i < parts; i++)
            for (int t = 0; t < x[i].c.n; t++) *(k__v16 *)acc[i][t] = (k__v16){0};
        for (int b = 0; b < nb + (tail > 0); b++) {
            const size_t bytes = b < nb ? whole : last;
            const int    lines = (int)(bytes / 64);
            if (p->opened) k__open_block(p, f, w, b < nb ? K_SUPER : tail, block, 0);
            for (int i = 0; i < parts; i++) {
                for (int l = p->opened ? k__share(lines, parts, i) : lines; l < k__share(lines, parts, i + 1); l++)
                    k__line_ahead(K__COLS, f->bits, w + 64 * l);
                x[i].fn(block, w, &x[i], b, acc[i]);
            }
            k__soon_ahead(&soon);
            w += bytes;
            if (far && b % K__FAR_BLOCKS == K__FAR_BLOCKS - 1 && (a->nt > 1 || b + 1 < nb + (tail > 0)))
                opened = k__far_open(far, type, strip, opened, (b + 1) * K_SUPER, w + ahead);
        }
        if (far && a->nt > 1) k__far_open(far, type, strip, opened, n, w + ahead);
        for (int i = 0; i < parts && far; i++)
            k__far_strip(far, type, strip, opened, a, first[i], first[i + 1] - first[i], acc[i], w + ahead);
        for (int i = 0; i < parts; i++)
            for (int t = first[i]; t < first[i + 1]; t++)
                k__put_sums(y + (size_t)t * ldy + r, acc[i][t - first[i]], rows, K_PACK_ROWS);
    }
}

/* One column of a format that is multiplied without unpacking: k__packed_few without what parts and several columns need. */
K__BODY void k__packed_one(const k__packed_plan *p, uint32_t type, const uint8_t *w, int nr, int n, const k_acts *a, float *y,
                           int32_t *mem, k__far_mem *far) {
    const k__form    *f = &k__forms[type];
    const int         blocks = (n + K_SUPER - 1) / K_SUPER;
    const size_t      whole = (size_t)k__units(f, K_SUPER) * k__unit_bytes(f), strip = k_pack_bytes(type, K_PACK_ROWS, n);
    const size_t      ahead = k__one_ahead(f->bits);
    const k__far_list all = far ? k__far_of(a, k__row_of(a, 0)) : (k__far_list){NULL, 0};
    k__soon           soon = k__soon_of(a, (nr + K_PACK_ROWS - 1) / K_PACK_ROWS * blocks);
    k__pass           x;
    _Alignas(64) float acc[1][K_PACK_ROWS];
    k__pass_set(&x, p->cols, f, a, 0, 1, n);
    k__aux_set(&x, p->aux, f->off, mem);
    for (int r = 0; r < nr; r += K_PACK_ROWS, w += strip) {
        const int rows = nr - r < K_PACK_ROWS ? nr - r : K_PACK_ROWS;
        int       opened = 0;
        *(k__v16 *)acc[0] = (k__v16){0};
        for (int b = 0; b < blocks; b++) {
            const uint8_t *block = w + (size_t)b * whole;
            x.fn(NULL, block, &x, b, acc);
            k__soon_ahead(&soon);
            if (all.n && b % K__FAR_BLOCKS == K__FAR_BLOCKS - 1 && b + 1 < blocks)
                opened = k__far_open(far, type, w, opened, (b + 1) * K_SUPER, block + whole + ahead);
        }
        const uint8_t *next = w + strip + ahead;
        if (opened) far->add(far->col, K_PACK_ROWS, far->slot, (k__far_list){all.of, opened}, K_PACK_ROWS, acc[0]);
        if (all.n > opened) far->values(type, w, far->place + opened, all.n - opened, all.of + opened, acc[0], next);
        k__put_sums(y + r, acc[0], rows, K_PACK_ROWS);
    }
}

/* Unpacks block b of two strips, or of the last one twice, into a panel. */
static void k__open_pair(const k__packed_plan *p, const k__form *f, const uint8_t *w, size_t strip, int rows, int n, int b,
                         k__panel *to) {
    const int      len = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : K_SUPER;
    const uint8_t *src = w + (size_t)b * (size_t)k__units(f, K_SUPER) * k__unit_bytes(f);
    k__open_block(p, f, src, len, to, 0);
    k__open_block(p, f, rows > K_PACK_ROWS ? src + strip : src, len, to, K_PACK_ROWS);
}

/* The same of all blocks. */
static void k__packed_panels(const k__packed_plan *p, const k__form *f, const uint8_t *w, size_t strip,
                             int rows, int n, k__panel *to) {
    for (int b = 0; b * K_SUPER < n; b++, to++) k__open_pair(p, f, w, strip, rows, n, b, to);
}

/* Up to this number of columns one panel, of a block of two strips, is multiplied with all columns before the
 * next block is unpacked: the panel stays in the L1 cache, and so do most of the columns' codes and sums. */
enum { K__BLOCK_COLS = 64 };

/* Multiplies nr packed rows at w with the columns of a, block by block;
 * a->nt <= K__BLOCK_COLS. panel: space for one. y: [nt][ldy]. */
K__BODY void k__packed_blocks(const k__packed_plan *p, const k__tiles *tiles, uint32_t type, const uint8_t *w, int nr,
                              int n, const k_acts *a, float *y, size_t ldy, k__panel *panel) {
    const k__form *f = &k__forms[type];
    const int      parts = k__tile_parts(tiles, a->nt), blocks = (n + K_SUPER - 1) / K_SUPER;
    const size_t   strip = k_pack_bytes(type, K_PACK_ROWS, n);
    k__cols        x[(K__BLOCK_COLS + K__TILE_REGS - 1) / K__TILE_REGS];
    _Alignas(64) float out[K__BLOCK_COLS][K__STRIP];
    for (int i = 0; i < parts; i++) {
        const int t0 = k__share(a->nt, parts, i);
        k__cols_set(&x[i], a, t0, k__share(a->nt, parts, i + 1) - t0, n);
        x[i].offset = f->off;
        x[i].bound = tiles->bound;
    }
    for (int r = 0; r < nr; r += K__STRIP, w += 2 * strip) {
        const int      rows = nr - r < K__STRIP ? nr - r : K__STRIP, next = nr - r - rows;
        const uint8_t *end = w + 2 * strip + (next <= 0 ? 0 : next <= K_PACK_ROWS ? strip : 2 * strip);
        const int      steps = parts * blocks, lines = (int)((end - (w + 2 * strip)) / 64);
        k__ahead       ahead = {w + 2 * strip, (lines + steps - 1) / steps};
        memset(out, 0, (size_t)a->nt * sizeof *out);
        for (int t = 0; t < a->nt; t++) k__sums_ahead(y + (size_t)t * ldy + r, rows);
        for (int b = 0; b < blocks; b++) {
            k__open_pair(p, f, w, strip, rows, n, b, panel);
            k__panels_ready(tiles, a->nt, parts, panel, 1);
            for (int i = 0, t = 0; i < parts; t += x[i++].n) {
                if (ahead.next >= end) ahead.lines = 0;
                tiles->of[x[i].n](panel, &x[i], b, b + 1, &ahead, out + t);
            }
        }
        for (int t = 0; t < a->nt; t++) k__put_sums(y + (size_t)t * ldy + r, out[t], rows, K__STRIP);
    }
}

/* Few columns: from the packed blocks. Up to 64: a block at a time, where that is faster: with tiles of eight
 * columns, and at the levels that have tiles of up to six alone. More: whole strips, unpacked into panels. Whether far values
 * have been added: few columns. */
K__BODY bool k__packed_by_cols(const k__packed_plan *plans, k__swap *swap, uint32_t type, const void *packed, int nr, int n,
                           const k_acts *a, float *y, size_t ldy, void *scratch, k__far_mem *far) {
    const k__packed_plan *p = &plans[type];
    const k__form        *f = &k__forms[type];
    const uint8_t        *w = packed;
    const size_t          strip = k_pack_bytes(type, K_PACK_ROWS, n);
    k__panel             *panel = (k__panel *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    const k__tiles       *tiles = swap ? swap(p->tiles) : p->tiles;
    const bool            eight = k__tile_cols(tiles) == K__TILE;   /* then panels are faster from two tiles on */
    if (a->nt == 1 && !p->opened) {
        k__packed_one(p, type, w, nr, n, a, y, (int32_t *)(void *)panel, far);
        return far != NULL;
    }
    if (a->nt < (eight ? K__PANEL_COLS + 1 : p->panel_cols)) {
        k__packed_few(p, type, w, nr, n, a, y, ldy, panel, far);
        return far != NULL;
    }
    if (a->nt <= K__BLOCK_COLS && (eight || !tiles->of[K__TILE])) {
        k__packed_blocks(p, tiles, type, w, nr, n, a, y, ldy, panel);
        return false;
    }
    for (int r = 0; r < nr; r += K__STRIP, w += 2 * strip) {
        int rows = nr - r < K__STRIP ? nr - r : K__STRIP, next = nr - r - rows;
        k__packed_panels(p, f, w, strip, rows, n, panel);
        k__mul_strip(tiles, panel, f->off, rows, n, a, y + r, ldy, w + 2 * strip,
                     next <= 0 ? 0 : next <= K_PACK_ROWS ? strip : 2 * strip);
    }
    return false;
}
