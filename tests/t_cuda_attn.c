/* Attention by the kernels of [cuda], run by emu_cuda.h: the bits of the scalar level for every pair of cache types, whatever the
 * shape of the heads, what a row sees and where the blocks lie. Bytes that no row sees are all ones: NaN, where they are used. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"
#include "t_quant.h"

static void ta_run_floats(const void *a) { k_cuda_attend(*(const k_cuda_attend_args *)a); }
static void ta_run_many(const void *a) { k_cuda_attend_many(*(const k_cuda_attend_args *)a); }
static void ta_run_codes(const void *a) { k_cuda_attend_codes(*(const k_cuda_attend_args *)a); }
static void ta_run_codes_many(const void *a) { k_cuda_attend_codes_many(*(const k_cuda_attend_args *)a); }
static void ta_run_merge(const void *a) { k_cuda_attend_merge(*(const k_cuda_attend_args *)a); }

enum { TA_SEQ = 6, TA_ROWS = 96, TA_GUARD = 64 };

typedef struct {
    uint32_t type_k, type_v;
    int      hd_k, hd_v, group, n_head, block;        /* group: query heads of a K/V head */
    int      window;
    bool     all, sinks, slopes;
    float    cap;
    int      seq[TA_SEQ], rows[TA_SEQ];               /* positions of each sequence, of which the last `rows` ask; 0 ends the
                                                       * list */
    int      set, first, spare;                       /* set 1: every third row; rows in front of those that are asked for;
                                                       * segments and rows too many */
    bool     shared;                                  /* values are the first hd_v of a key */
    bool     gathers, bad_end;                        /* bad_end: the last value of a sequence is infinite; caches of f32 */
} ta_case;

/* A cache and a step of a case. */
typedef struct {
    k_cuda_attend_args a;
    k_cuda_step        step;
    int32_t            row[2][TA_ROWS], pos[TA_ROWS], seq[TA_ROWS], end[TA_ROWS], *table;
    size_t             table_at[2 * TA_SEQ];
    uint8_t           *mem;
    float             *q, *o, *want, *parts, sinks[128], slopes[128];
    size_t             n_o, n_parts;
    int                n_heads;
} ta_step;

static uint64_t ta_at;                                /* every test restarts the sequence */
static float    ta_unit(void) { return (float)(rng_unit(rng_at(11, 0, ta_at++, 0)) * 2 - 1); }

static void ta_fill(uint8_t *dst, uint32_t type, int hd) {
    float x[K_CUDA_HEAD_K];
    for (int i = 0; i < hd; i++) x[i] = ta_unit() * (i % 7 ? 1.0f : 3.0f);
    k_kv_store(type, x, dst, hd);
}

/* The first position that some row of sequence s sees. */
static int ta_begin(const ta_case *c, int s) {
    const int first = c->seq[s] - c->rows[s], begin = c->all ? first - c->window / 2 : first + 1 - c->window;
    return c->window && begin > 0 ? begin : 0;
}

/* Blocks of all sequences, scattered: number i stands at place i * 7 modulo the number of blocks, which is prime to 7. */
static void ta_cache(const ta_case *c, ta_step *t) {
    k_kv_place *kv = &t->a.kv;
    int        n = 0, n_mem = 1, used = 0;
    for (int s = 0; s < TA_SEQ && c->seq[s]; s++) n += (c->seq[s] + c->block - 1) / c->block;
    for (n_mem = n; n_mem % 7 == 0; n_mem++) {}
    *kv = (k_kv_place){.group = 1, .block = c->block, .n_head = c->n_head, .hd_k = c->hd_k, .hd_v = c->hd_v,
                       .hadamard_k = 1, .hadamard_v = 1,
                      .type_k = c->type_k, .type_v = c->type_v, .k_stride = k_kv_bytes(c->type_k, c->hd_k),
                      .v_stride = k_kv_bytes(c->type_v, c->hd_v)};
    kv->k_at = 32;
    kv->v_at = (kv->k_at + (size_t)(c->block * c->n_head) * kv->k_stride + 15) & ~(size_t)15;
    if (c->shared) kv->v_at = kv->k_at, kv->v_stride = kv->k_stride;
    kv->block_bytes = (kv->v_at + (size_t)(c->block * c->n_head) * kv->v_stride + 63) & ~(size_t)63;
    t->mem = mem_aligned((size_t)n_mem * kv->block_bytes, 1);
    memset(t->mem, 0xff, (size_t)n_mem * kv->block_bytes);
    kv->base = t->mem;
    t->table = mem_new((size_t)n + 1, sizeof *t->table);
    for (int s = 0; s < TA_SEQ && c->seq[s]; s++) {
        t->table_at[2 * s] = SIZE_MAX, t->table_at[2 * s + 1] = (size_t)used;         /* groups 0 and 1 of the cache */
        for (int p = 0; p < c->seq[s]; p++) {
            int32_t *number = &t->table[used + p / c->block];
            if (p % c->block == 0) *number = p + c->block <= ta_begin(c, s) ? -1 : (used + p / c->block) * 7 % n_mem;
            for (int h = 0; h < c->n_head && p >= ta_begin(c, s); h++) {
                uint8_t     *block = t->mem + (size_t)*number * kv->block_bytes;
                const size_t at = (size_t)(h * c->block + p % c->block);
                ta_fill(block + kv->k_at + at * kv->k_stride, c->type_k, c->hd_k);
                if (!c->shared) ta_fill(block + kv->v_at + at * kv->v_stride, c->type_v, c->hd_v);
                if (c->bad_end && p + 1 == c->seq[s]) memcpy(block + kv->v_at + at * kv->v_stride, &(float){INFINITY}, 4);
            }
        }
        used += (c->seq[s] + c->block - 1) / c->block;
    }
}

static void ta_rows(const ta_case *c, ta_step *t) {
    k_cuda_step *st = &t->step;
    for (int s = 0; s < TA_SEQ && c->seq[s]; s++)
        for (int i = c->rows[s]; i > 0; i--) {
            const int r = st->n[0]++;
            t->row[0][r] = r, t->pos[r] = c->seq[s] - i, t->seq[r] = s, t->end[r] = c->seq[s];
            if (r % 3 == 1) t->row[1][st->n[1]++] = r;
        }
    st->row[0] = t->row[0], st->row[1] = t->row[1], st->end = t->end;
    st->b = (k_batch){.pos = t->pos, .seq = t->seq, .table = t->table, .table_at = t->table_at, .n_group = 2};
}

/* Positions that row b of the batch sees, and the number of its segments. */
static k_attn_row ta_sees(const ta_case *c, const ta_step *t, int b) {
    const int  half = c->window / 2;
    k_attn_row r = {.begin = 0, .end = c->all ? t->end[b] : t->pos[b] + 1, .at = t->pos[b]};
    if (!c->window) return r;
    if (c->all && r.end > r.at + half + 1) r.end = r.at + half + 1;
    r.begin = c->all ? r.at - half : r.end - c->window;
    if (r.begin < 0) r.begin = 0;
    return r;
}

static void ta_new(const ta_case *c, ta_step *t) {
    *t = (ta_step){.n_heads = c->group * c->n_head};
    ta_at = 1000;
    ta_cache(c, t);
    ta_rows(c, t);
    k_cuda_attend_args *a = &t->a;
    const int           n = t->step.n[0];
    const size_t        ld_q = (size_t)(t->n_heads * c->hd_k + 3), ld_o = (size_t)(t->n_heads * c->hd_v + 5);
    a->step = &t->step, a->set = c->set, a->first = c->first, a->n_rows = t->step.n[c->set] - c->first + c->spare,
    a->gathers = c->gathers;
    a->q = (k_cuda_buf){t->q = mem_new((size_t)n * ld_q, 4), ld_q};
    t->n_o = (size_t)n * ld_o;
    a->o = (k_cuda_buf){t->o = mem_new(t->n_o, 4), ld_o};
    t->want = mem_new(t->n_o, 4);
    a->group = c->group, a->window = c->window, a->all = c->all, a->scale = 0.125f, a->cap = c->cap;
    for (size_t i = 0; i < (size_t)n * ld_q; i++) t->q[i] = i % ld_q < ld_q - 3 ? ta_unit() * 2 : NAN;
    for (int h = 0; h < t->n_heads; h++)
        t->sinks[h] = h % 4 == 3 ? -INFINITY : ta_unit() * 4, t->slopes[h] = 0.3f / (float)(h + 1);
    a->sinks = c->sinks ? t->sinks : NULL;
    a->slopes = c->slopes ? t->slopes : NULL;
    for (int b = 0; b < n; b++) {
        const k_attn_row r = ta_sees(c, t, b);
        const int        seg = (int)((r.end - 1) / K_SEGMENT - r.begin / K_SEGMENT) + 1;
        if (seg > a->n_seg) a->n_seg = seg;
    }
    a->n_seg += c->spare;
    t->n_parts = (size_t)(a->n_rows * c->n_head * a->n_seg) * k_attn_part(c->group, c->hd_v);
    a->parts = t->parts = mem_aligned(t->n_parts + TA_GUARD, 4);
}

static void ta_drop(ta_step *t) {
    void *all[] = {t->q, t->o, t->want, t->parts, t->mem, t->table};
    for (int i = 0; i < 6; i++) mem_free(all[i]);
}

/* One row and one K/V head on the CPU. */
static void ta_row_head(const ta_case *c, ta_step *t, int r, int head, const uint8_t **blocks, void *scratch) {
    const k_kv_place *kv = &t->a.kv;
    const int        b = t->row[c->set][r], n_blocks = (t->end[b] + c->block - 1) / c->block;
    k_attn_row       rows[128];
    for (int h = 0; h < c->group; h++) {
        const int at = head * c->group + h;
        rows[h] = ta_sees(c, t, b);
        rows[h].q = t->q + (size_t)(c->gathers ? b : r) * t->a.q.ld + (size_t)(at * c->hd_k);
        rows[h].o = t->want + (size_t)r * t->a.o.ld + (size_t)(at * c->hd_v);
    }
    for (int i = 0; i < n_blocks; i++) {
        const int32_t  number = t->table[t->table_at[2 * t->seq[b] + 1] + (size_t)i];
        const uint8_t *block = t->mem + (size_t)(number < 0 ? 0 : number) * kv->block_bytes;
        blocks[i] = number < 0 ? NULL : block + kv->k_at + (size_t)(head * c->block) * kv->k_stride;
        blocks[n_blocks + i] = number < 0 ? NULL : block + kv->v_at + (size_t)(head * c->block) * kv->v_stride;
    }
    k_attn_args a = {.n_rows = c->group, .rows = rows, .hd_k = c->hd_k, .hd_v = c->hd_v, .scale = t->a.scale, .softcap = c->cap,
                     .sinks = c->sinks ? t->sinks + head * c->group : NULL,
                     .slopes = c->slopes ? t->slopes + head * c->group : NULL,
                     .type_k = c->type_k, .type_v = c->type_v, .k_blocks = blocks, .v_blocks = blocks + n_blocks,
                     .block = c->block,
                     .k_stride = kv->k_stride, .v_stride = kv->v_stride};
    k_attn(&a, scratch);
}

static void ta_reference(const ta_case *c, ta_step *t) {
    const uint8_t **blocks = mem_new(2 * (4096 / (size_t)c->block + 1), sizeof *blocks);
    void           *scratch = mem_aligned(k_attn_scratch(c->group, c->hd_k, c->hd_v), 1);
    k_init("scalar");
    memset(t->want, 0xa5, t->n_o * 4);
    for (int r = c->first; r < t->step.n[c->set]; r++)
        for (int h = 0; h < c->n_head; h++) ta_row_head(c, t, r, h, blocks, scratch);
    mem_free(blocks), mem_free(scratch);
}

/* Segments by a kernel that takes `rows` rows at a time and `more` segments, and merge. False: the emulator found a fault. */
static bool ta_launch_by(const ta_case *c, ta_step *t, void (*run)(const void *), const char *name, int rows, int more) {
    const int   n = t->a.n_rows;
    const char *fault;
    memset(t->o, 0xa5, t->n_o * 4);
    memset(t->parts, 0xff, (t->n_parts + TA_GUARD) * 4);
    fault = emu_launch(run, &t->a, (n + rows - 1) / rows * c->n_head * k_cuda_attend_deal(c->group, more), t->a.n_seg + more,
                       K_CUDA_THREADS, tc_seed++);
    if (!fault) fault = emu_launch(ta_run_merge, &t->a, n * c->n_head, 1 + n % 3, K_CUDA_THREADS, tc_seed++);
    for (int i = 0; i < TA_GUARD; i++)
        CHECKF(k__bits_of(t->parts[t->n_parts + (size_t)i]) == 0xffffffff, "written after the partial results");
    return CHECKF(!fault, "%s: %s", name, fault);
}

/* The same by the kernel for many rows where `many`, or for few. */
static bool ta_launch(const ta_case *c, ta_step *t, bool many) {
    static void (*const run[])(const void *) = {ta_run_floats, ta_run_codes, ta_run_many, ta_run_codes_many};
    static const char *const names[] = {"k_cuda_attend", "k_cuda_attend_codes", "k_cuda_attend_many", "k_cuda_attend_codes_many"};
    const char *name = k_cuda_attend_of(c->type_k, c->type_v, many);
    int         k = 0;
    while (k < 4 && (!name || strcmp(name, names[k]))) k++;
    if (!CHECKF(k < 4 && (k >= 2) == many, "no kernel")) return false;
    return ta_launch_by(c, t, run[k], name, many ? k_cuda_attend_rows(c->group) : 1, many);
}

/* The first value that differs, -1: none. */
static int ta_differ(const ta_step *t) {
    for (size_t i = 0; i < t->n_o; i++)
        if (!tq_same(t->o + i, t->want + i, 1)) return (int)i;
    return -1;
}

static void ta_compare(const ta_case *c) {
    ta_step t;
    ta_new(c, &t);
    ta_reference(c, &t);
    for (int many = 0; many < 2; many++) {
        if (!k_cuda_attend_of(c->type_k, c->type_v, many) || !ta_launch(c, &t, many)) continue;
        const int at = ta_differ(&t), ld = (int)t.a.o.ld;
        CHECKF(at < 0, "%s%s/%s, heads of %d and %d, group %d, block %d, window %d%s: row %d, value %d is %g, not %g",
               many ? "many rows, " : "", k_types[c->type_k].name,
               k_types[c->type_v].name, c->hd_k, c->hd_v, c->group, c->block, c->window, c->all ? ", all" : "", at / ld,
               at % ld, (double)t.o[at < 0 ? 0 : at],
               (double)t.want[at < 0 ? 0 : at]);
    }
    ta_drop(&t);
}

static const uint32_t ta_types[] = {K_F32, K_F16, K_BF16, K_Q8_0, K_Q4_0};

static void t_cuda_attn_types(void) {
    for (int i = 0; i < 25; i++)
        for (int hd = 64; hd <= 80; hd += 16)
            ta_compare(&(ta_case){.type_k = ta_types[i % 5], .type_v = ta_types[i / 5], .hd_k = hd, .hd_v = hd,
                                  .group = 3, .n_head = 2, .block = 16,
                                  .seq = {37, 530}, .rows = {2, 1}});
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        bool is = false;
        for (int i = 0; i < 5; i++) is |= type == ta_types[i];
        EQ_INT(k_cuda_attend_of(type, K_F16, false) != NULL, is);
        EQ_INT(k_cuda_attend_of(K_Q8_0, type, false) != NULL, is);
        EQ_INT(k_cuda_attend_of(K_Q8_0, type, true) != NULL, is);
    }
}

/* Heads of whole and half vectors, of one pair, of all that is allowed; keys and values of different lengths; groups that are
 * computed in one part and in several. */
static void t_cuda_attn_shapes(void) {
    static const int hd[][2] = {{96, 96}, {128, 128}, {256, 256}, {66, 66}, {2, 2}, {512, 512}, {192, 128}, {34, 288}},
    groups[] = {1, 8, 3, 2, 9, 4, 16, 5};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 5; k++)
            ta_compare(&(ta_case){.type_k = ta_types[k], .type_v = ta_types[k == 2 ? 0 : k], .hd_k = hd[i][0],
                                  .hd_v = hd[i][1], .group = groups[(i + k) % 8],
                                  .n_head = 1 + i % 2, .block = 32, .seq = {19, 70}, .rows = {1, 1}});
}

/* Latent attention: one head whose keys hold the values, of more values than other heads have, for many query heads. */
static void t_cuda_attn_latent(void) {
    static const int hd[][2] = {{576, 512}, {320, 256}, {40, 32}}, groups[] = {5, 20, 70};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 5; k++)
            ta_compare(&(ta_case){.type_k = ta_types[k], .type_v = ta_types[k], .hd_k = hd[i][0], .hd_v = hd[i][1],
                                  .group = groups[(i + k) % (k ? 2 : 3)], .n_head = 1, .block = 16, .shared = true,
                                  .seq = {19, i == 2 ? 520 : 50}, .rows = {2, 1}});
}

/* Rows at the ends of segments and one far after; rows of several sequences; some of the rows, in sets and in parts. */
static void t_cuda_attn_rows(void) {
    for (int i = 0; i < 6; i++) {
        const uint32_t type = i % 2 ? K_Q8_0 : i == 2 ? K_F32 : K_BF16;
        ta_compare(&(ta_case){.type_k = type, .type_v = type, .hd_k = 32, .hd_v = 32, .group = 2, .n_head = 2,
                              .block = i < 2 ? 16 : 32,
                              .seq = {1, 2, 512, 513, 514, 1601}, .rows = {1, 1, 1, 2, 1, 3}, .set = i / 2 % 2,
                              .first = i == 3 ? 1 : i > 3 ? 4 : 0,
                              .spare = i % 3, .gathers = i > 1});
    }
}

/* What a row sees, what scores are made of, and lengths of blocks. */
static const struct { int window; bool all, sinks, slopes; float cap; } ta_views[] = {
    {0, false, true, false, 0}, {0, false, false, true, 0}, {0, false, false, false, 5}, {40, false, true, true, 3},
    {600, false, false, false, 0},
    {1, false, false, false, 0}, {0, true, false, false, 0}, {64, true, true, true, 0}, {9, true, false, false, 2},
    {700, true, true, false, 0}};
static const int ta_blocks[] = {16, 32, 5, 48};

/* View i of them in a case. */
static ta_case ta_view(int i, ta_case c) {
    c.window = ta_views[i].window, c.all = ta_views[i].all, c.sinks = ta_views[i].sinks, c.slopes = ta_views[i].slopes;
    c.cap = ta_views[i].cap, c.block = ta_blocks[i % 4];
    return c;
}

static void t_cuda_attn_views(void) {
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 2; k++) {
            const ta_case c = ta_view(i, (ta_case){.type_k = k ? K_Q8_0 : K_F16, .type_v = k ? K_Q8_0 : K_F16, .hd_k = 32,
                                                   .hd_v = 64, .group = 3, .n_head = 1, .seq = {5, 1060, 520},
                                                   .rows = {5, 3, 2}});
            ta_compare(&c);
        }
}

/* Queries, scales of the cache and sinks that are infinite, NaN or 0; a row that sees nothing. */
static void t_cuda_attn_extremes(void) {
    static const float odd[] = {INFINITY, NAN, 0, -INFINITY, 1e30f, 1e-38f};
    for (int i = 0; i < 6 * 3 * 2; i++) {
        const uint32_t type = (uint32_t[]){K_F32, K_Q8_0, K_Q4_0}[i / 6 % 3];
        const ta_case  c = {.type_k = type, .type_v = type, .hd_k = 64, .hd_v = 64, .group = 4, .n_head = 1, .block = 16,
                            .all = i % 2, .sinks = i >= 18, .seq = {600, 3}, .rows = {3, 2}};
        ta_step        t;
        ta_new(&c, &t);
        for (int r = 0; r < 5; r += 2) t.q[(size_t)r * t.a.q.ld + (size_t)(64 * r / 2 + 64)] = odd[i % 6];
        for (int k = 0; k < 64 && i % 6 == 2; k++) t.q[k] = 0;
        uint8_t        *block = t.mem + (size_t)t.table[3] * t.a.kv.block_bytes,
                        *last = t.mem + (size_t)t.table[38] * t.a.kv.block_bytes;
        const uint16_t  h = k_f32_to_f16(odd[i % 6]);
        if (type == K_F32) memcpy(block + t.a.kv.k_at, &odd[i % 6], 4), memcpy(last + t.a.kv.v_at, &odd[(i + 1) % 6], 4);
        else memcpy(block + t.a.kv.v_at, &h, 2), memcpy(last + t.a.kv.k_at, &h, 2);
        for (int p = 0; p < K_TILE && i % 6 == 3 && type == K_F32; p++) {       /* a tile that row 0 sees as -inf */
            const float far = t.q[0] > 0 ? -INFINITY : INFINITY;
            memcpy(t.mem + (size_t)t.table[p / 16] * t.a.kv.block_bytes + t.a.kv.k_at + (size_t)(p % 16)
                   * t.a.kv.k_stride, &far, 4);
        }
        t.sinks[0] = odd[(i + 3) % 6 == 1 ? 0 : (i + 3) % 6];
        if (c.all) t.end[1] = 0;
        ta_reference(&c, &t);
        for (int many = 0; many < 2; many++)
            if (ta_launch(&c, &t, many))
                CHECKF(ta_differ(&t) < 0, "%s, case %d: value %d differs", k_types[type].name, i, ta_differ(&t));
        for (int d = 64; d < 256 && c.all; d++) CHECK(t.o[t.a.o.ld + (size_t)d] == 0);   /* head 0 may have a sink of NaN */
        ta_drop(&t);
    }
}

/* Prompts: rows that share a thread block, those of one sequence and of several. What a row does not see, it does not feel. */
static void t_cuda_attn_many(void) {
    static const struct { int hd_k, hd_v, group, window; bool all; } v[] = {
        {32, 32, 4, 0, false}, {64, 64, 1, 0, false}, {128, 128, 8, 70, false}, {80, 96, 3, 0, true},
        {256, 256, 2, 40, true}, {144, 64, 16, 520, false}, {512, 288, 2, 0, false}};
    static const uint32_t types[][2] = {{K_BF16, K_Q4_0}, {K_F32, K_F32}, {K_Q8_0, K_Q8_0}};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 3; k++)
            ta_compare(&(ta_case){.type_k = types[k][0], .type_v = types[k][1], .hd_k = v[i].hd_k, .hd_v = v[i].hd_v,
                                  .group = v[i].group, .n_head = 1, .block = 16,
                                  .window = v[i].window, .all = v[i].all, .sinks = i == 1, .slopes = i == 3,
                                  .seq = {33, 524, 32}, .rows = {i ? 5 : 33, i == 2 ? 17 : 9, 2}, .first = i % 3,
                                  .spare = i % 2, .set = i == 2, .gathers = i == 2, .bad_end = k == 1});
}

/* A kernel that is run with a barrier left out, and what it is run on: t->want is what it gives with all of them. */
typedef struct {
    const ta_case *c;
    ta_step       *t;
    bool         (*launch)(const ta_case *c, ta_step *t, bool many);
    bool           many;
} ta_kernel;

static bool ta_kernel_differs(const void *of) {
    const ta_kernel *k = of;
    return !k->launch(k->c, k->t, k->many) || ta_differ(k->t) >= 0;
}

/* No kernel does without any one of its barriers. */
static void t_cuda_attn_barriers(void) {
    static void (*const run[])(const void *) = {ta_run_floats, ta_run_codes, ta_run_many, ta_run_codes_many};
    for (int k = 0; k < 4; k++) {
        const uint32_t type = k % 2 ? K_Q8_0 : K_F16;
        const bool     many = k >= 2;
        const ta_case  c = {.type_k = type, .type_v = type, .hd_k = k == 3 ? 288 : 128, .hd_v = k % 2 ? 64 : 288,
                            .group = many ? 6 : 11, .n_head = 1, .block = 16, .seq = {60}, .rows = {many ? 3 : 1}};
        ta_step        t;
        ta_new(&c, &t);
        ta_reference(&c, &t);
        CHECK(ta_launch(&c, &t, many) && ta_differ(&t) < 0);
        tc_seed = 1;
        emu_launch(run[k], &t.a, 1, 1, K_CUDA_THREADS, tc_seed++);
        const int n = emu.fiber[0].n_sync;
        CHECKF(n > 7, "only %d barriers", n);
        for (int skip = 1; skip <= n; skip++)
            CHECKF(tc_seen_apart(skip, ta_kernel_differs, &(ta_kernel){&c, &t, ta_launch, many}), "%s: barrier %d of %d could go",
                   k_cuda_attend_of(type, type, many), skip, n);
        ta_drop(&t);
    }
    emu_free();
}

static const t_case t_cuda_attn_cases[] = {
    {"cuda_attn types", "attention on a GPU has the bits of the scalar level, for every pair of cache types", t_cuda_attn_types},
    {"cuda_attn shapes", "heads of 2 to 512 values, groups of 1 to 16", t_cuda_attn_shapes},
    {"cuda_attn latent", "latent attention: heads of up to 576 values, groups that several thread blocks share", t_cuda_attn_latent},
    {"cuda_attn rows", "rows at the ends of segments, of several sequences, in sets and in parts", t_cuda_attn_rows},
    {"cuda_attn views", "windows, rows that see what is after them, sinks, ALiBi, caps, blocks of all lengths",
     t_cuda_attn_views},
    {"cuda_attn extremes", "the same where queries, caches and sinks are infinite, NaN or 0; nothing seen gives zeros",
     t_cuda_attn_extremes},
    {"cuda_attn many", "rows of prompts share a thread block, with the same bits; a row is untouched by what it does not see",
     t_cuda_attn_many},
    {"cuda_attn barriers", "none of the barriers can be left out", t_cuda_attn_barriers},
};
static const t_suite t_cuda_attn_suite = SUITE(t_cuda_attn_cases);
