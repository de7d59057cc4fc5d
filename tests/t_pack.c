/* Packed rows: whatever the format, the level, the number of columns and the shape, their products are those of the file's rows
 * to the bit; packing writes its own bytes and no others. */
#include "program.h"
#include "check.h"
#include "t_quant.h"
#ifdef __x86_64__
#include "tiles.h"
#endif

enum { TP_GUARD = 128 };

typedef struct {
    tq_case  q;                                       /* weights and activations as the tests of [quant] make them */
    uint8_t *mem, *packed;                            /* packed has TP_GUARD bytes of 0x5a on either side */
    size_t   bytes;
    float   *again;                                   /* [TQ_COLS][TQ_ROWS] */
} tp_case;

static void tp_new(tp_case *c) {
    *c = (tp_case){0};
    tq_new(&c->q);
    c->again = mem_new(TQ_COLS * TQ_ROWS, 4);
}

static void tp_drop(tp_case *c) {
    tq_drop(&c->q);
    mem_free(c->mem);
    mem_free(c->again);
}

static bool tp_is_packed(uint32_t type) { return k_pack_bytes(type, 1, k_types[type].block ? k_types[type].block : 1) > 0; }

static bool tp_guarded(const tp_case *c) {
    for (int i = 0; i < TP_GUARD; i++)
        if (c->packed[-1 - i] != 0x5a || c->packed[c->bytes + (size_t)i] != 0x5a) return false;
    return true;
}

/* Scratch of exactly the bytes that a row of n asks for, so that a sanitizer sees one more. */
static void tp_scratch(tp_case *c, int n) {
    mem_free(c->q.scratch);
    c->q.scratch = mem_new(k_scratch_bytes(n), 1);
}

/* Packs c's weights, in parts of `part` rows: a multiple of 16, or all of them. */
static void tp_pack(tp_case *c, uint32_t type, int n, int nr, int part) {
    c->bytes = k_pack_bytes(type, nr, n);
    tp_scratch(c, n);
    mem_free(c->mem);
    c->mem = mem_aligned(c->bytes + 2 * TP_GUARD, 1);
    c->packed = c->mem + TP_GUARD;
    memset(c->mem, 0x5a, c->bytes + 2 * TP_GUARD);
    for (int r = 0; r < nr; r += part)
        k_pack_rows(type, c->q.w + (size_t)r * c->q.row_bytes, c->q.row_bytes, nr - r < part ? nr - r : part, n,
                    c->packed + (r ? k_pack_bytes(type, r, n) : 0));
    CHECKF(tp_guarded(c), "%s: n %d, rows %d: written outside", k_types[type].name, n, nr);
}

static void tp_mul(tp_case *c, const k_level *l, uint32_t type, int n, int nr, int nt, float *y, int ldy) {
    c->q.a.nt = nt;
    memset(y, 0xa5, (size_t)nt * (size_t)ldy * 4);
    l->mul_packed(type, c->packed, nr, n, &c->q.a, y, (size_t)ldy, c->q.scratch, NULL);
}

static void tp_against_file(tp_case *c, uint32_t type, int n, int nr, int nt) {
    tq_mul(&c->q, &k_levels[0], type, n, nr, nt, c->q.want, nr);
    for (int l = 0; l < K_LEVELS; l++) {
        if (!k__can(&k_levels[l])) continue;
        tp_mul(c, &k_levels[l], type, n, nr, nt, c->q.got, nr);
        CHECKF(tq_same(c->q.want, c->q.got, nr * nt), "%s at %s: n %d, rows %d, columns %d differ from the file's rows",
               k_types[type].name, k_levels[l].name, n, nr, nt);
    }
}

/* Every format, level, 1 to 17 columns and some more, rows that fill strips and rows that do not, rows that fill
 * units and those that do not. The weights have exactly nr rows: reading one more is seen by a sanitizer. */
static void tp_levels(void) {
    static const int nr[] = {1, 15, 16, 17, 32, 33, 50}, ns[] = {32, 64, 96, 128, 192, 224, 256, 288, 352, 512, 1184, 2304};
    static const int more[] = {24, 32, 33, 64, 65};   /* columns */
    tp_case          c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (size_t i = 0; tp_is_packed(type) && i < sizeof ns / sizeof *ns; i++) {
            if (ns[i] % k_types[type].block || (tq_is_like(type) && ns[i] != 256 && ns[i] != 1184 && ns[i] != 2304)) continue;
            for (size_t r = 0; r < 7; r += tq_is_like(type) ? 3 : 1) {
                if (ns[i] > 512 && r % 3 != i % 3) continue;
                tq_weights(&c.q, type, ns[i], nr[r], -1);
                tq_acts(&c.q, ns[i], false);
                tp_pack(&c, type, ns[i], nr[r], nr[r]);
                for (int nt = 1; nt <= 22; nt++)
                    if (ns[i] == 256 || ns[i] == 288 || nt == 1 || (nt + (int)(r + i)) % 5 == 0)
                        tp_against_file(&c, type, ns[i], nr[r], nt < 18 ? nt : more[nt - 18]);
            }
        }
    tp_drop(&c);
}
static void t_pack_levels(void) { tq_tiles(false, tp_levels); }
static void t_pack_levels_wide(void) { tq_tiles(true, tp_levels); }

/* The machine code of the tiles, on a processor with AVX-512 that lacks their instructions. */
static void t_pack_tiles(void) {
#ifdef __x86_64__
    static const int shape[][3] = {{512, 50, 9}, {256, 16, 33}, {288, 130, 20}, {96, 33, 65}};   /* n, rows, columns */
    const k_level   *l = &k_levels[K_LEVELS - 1];
    tp_case          c;
    if (!tiles_missing()) SKIP("the processor runs the instructions of tiles, or make levels does, or it has no AVX-512");
    EQ_STR(l->name, "avx512_amx");
    tp_new(&c);
    tiles_on();
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (size_t i = 0; tp_is_packed(type) && i < sizeof shape / sizeof *shape; i++) {
            const int n = shape[i][0], nr = shape[i][1], nt = shape[i][2];
            if (n % k_types[type].block) continue;
            tq_weights(&c.q, type, n, nr, -1);
            tq_acts(&c.q, n, false);
            tp_pack(&c, type, n, nr, nr);
            tq_mul(&c.q, &k_levels[0], type, n, nr, nt, c.q.want, nr);
            tp_mul(&c, l, type, n, nr, nt, c.q.got, nr);
            CHECKF(tq_same(c.q.want, c.q.got, nr * nt), "%s packed: n %d, rows %d, columns %d", k_types[type].name, n, nr, nt);
            tq_mul(&c.q, l, type, n, nr, nt, c.q.got, nr);
            CHECKF(tq_same(c.q.want, c.q.got, nr * nt), "%s: n %d, rows %d, columns %d", k_types[type].name, n, nr, nt);
        }
    tiles_off();
    tp_drop(&c);
#endif
}

/* The largest codes and scales against activations of +-127 everywhere: whatever can saturate does it here. */
static void tp_extremes(void) {
    static const int fill[] = {0xff, 0x00, 0x80, 0x7f, 0x88, 0x77, 0xf0, 0x0f}, nt[] = {1, 3, 8, 16, 17, 65};
    tp_case          c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (size_t f = 0; tp_is_packed(type) && f < sizeof fill / sizeof *fill; f++) {
            tq_weights(&c.q, type, 512, 17, fill[f]);
            tq_acts(&c.q, 512, true);
            tp_pack(&c, type, 512, 17, 17);
            for (size_t t = 0; t < sizeof nt / sizeof *nt; t++) tp_against_file(&c, type, 512, 17, nt[t]);
        }
    tp_drop(&c);
}
static void t_pack_extremes(void) { tq_tiles(false, tp_extremes); }
static void t_pack_extremes_wide(void) { tq_tiles(true, tp_extremes); }

static void tp_bounds(void) {
    tp_case c;
    tp_new(&c);
    for (int i = 0; i < TQ_BOUND_TYPES; i++)
        for (int k = 0; k < TQ_BOUND_SUMS; k++) {
            const uint32_t type = tq_bound(&c.q, i, k);
            tp_pack(&c, type, 256, TQ_BOUND_ROWS, TQ_BOUND_ROWS);
            for (int nt = 1; nt <= TQ_BOUND_COLS; nt++) tp_against_file(&c, type, 256, TQ_BOUND_ROWS, nt);
        }
    tp_drop(&c);
}
static void t_pack_bounds(void) { tq_tiles(false, tp_bounds); }
static void t_pack_bounds_wide(void) { tq_tiles(true, tp_bounds); }

/* Scales that are infinite, NaN, subnormal, the ends of the 8-bit kinds: whatever bytes a file holds. */
static void tp_scales(void) {
    tp_case c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        if (!tp_is_packed(type)) continue;
        int n = k_types[type].block < 256 ? 4 * k_types[type].block : 512;
        for (int round = 0; round < 12; round++) {
            tq_weights(&c.q, type, n, 33, -1);
            for (size_t at = 0; at < 33 * c.q.row_bytes; at++)
                if (round % 3) c.q.w[at] = (uint8_t)(round % 3 == 1 ? tq_rand() : tq_rand() % 4 * 85 & 0xfe);
            tq_acts(&c.q, n, false);
            tp_pack(&c, type, n, 33, 33);
            tp_against_file(&c, type, n, 33, round % 4 * 5 + 1);
        }
    }
    tp_drop(&c);
}
static void t_pack_scales(void) { tq_tiles(false, tp_scales); }
static void t_pack_scales_wide(void) { tq_tiles(true, tp_scales); }

/* Unpacking gives back the packed codes, scales and minima of every row. */
static void t_pack_again(void) {
    tp_case c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        if (!tp_is_packed(type)) continue;
        const k_type *ty = &k_types[type];
        int           n = ty->block < 256 ? ty->block : 256, groups = ty->kind == K_KIND_SCALE ? n / ty->group : 0;
        tq_weights(&c.q, type, n, 16, -1);
        tp_pack(&c, type, n, 16, 16);
        k__unpacked got[K_PACK_ROWS];
        k__block_get(&k__forms[type], c.packed, (int)k__units(&k__forms[type], n), got);
        for (int r = 0; r < 16; r++) {
            k__unpacked want;
            k__unpack_at(type, c.q.w + (size_t)r * c.q.row_bytes, 0, n, &want);
            EQ_MEM(got[r].q, want.q, (size_t)n);
            EQ_MEM(got[r].fs, want.fs, (size_t)groups * sizeof *want.fs);
            if (groups && ty->has_min) EQ_MEM(got[r].fm, want.fm, (size_t)groups * sizeof *want.fm);
            if (groups) continue;
            EQ_MEM(got[r].sc, want.sc, sizeof want.sc);
            EQ_MEM(&got[r].d, &want.d, sizeof want.d);
            if (ty->has_min) EQ_MEM(got[r].mn, want.mn, sizeof want.mn);
            if (ty->has_min) EQ_MEM(&got[r].dm, &want.dm, sizeof want.dm);
        }
    }
    tp_drop(&c);
}

/* Threads pack and multiply parts: the bytes and the products are those of the whole. */
static void t_pack_parts(void) {
    static const int ns[] = {256, 384};
    tp_case          c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int i = 0; tp_is_packed(type) && i < 2; i++) {
            int n = ns[i], nr = 70;
            if (n % k_types[type].block) continue;
            tq_weights(&c.q, type, n, nr, -1);
            tq_acts(&c.q, n, false);
            tp_pack(&c, type, n, nr, nr);
            uint8_t *whole = mem_new(c.bytes, 1);
            memcpy(whole, c.packed, c.bytes);
            tp_pack(&c, type, n, nr, 32);
            EQ_MEM(c.packed, whole, c.bytes);
            mem_free(whole);
            for (int nt = 1; nt <= 21; nt += 10) {
                tp_mul(&c, g_k_level, type, n, nr, nt, c.q.want, nr);
                c.q.a.nt = nt;
                for (int r = 0; r < nr; r += 48)
                    k_mul_packed(type, c.packed + (r ? k_pack_bytes(type, r, n) : 0), nr - r < 48 ? nr - r : 48, n, &c.q.a,
                                 c.again + r, (size_t)nr, c.q.scratch);
                EQ_MEM(c.again, c.q.want, (size_t)nr * (size_t)nt * 4);
            }
        }
    tp_drop(&c);
}

/* idx picks activation rows; ldy is respected, nothing is written past the rows; the packed bytes are only read. */
static void tp_gather(void) {
    static const int32_t idx[] = {5, 0, 5, 31, 2, 2, 7, 19, 1, 30, 11, 4, 3, 8, 8, 6, 9, 32};
    enum { N = 512, NR = 35, LDY = 41 };
    tp_case c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        if (!tp_is_packed(type)) continue;
        tq_weights(&c.q, type, N, NR, -1);
        tq_acts(&c.q, N, false);
        tp_pack(&c, type, N, NR, NR);
        uint64_t sum = 0, after = 0;
        for (size_t i = 0; i < c.bytes; i++) sum = sum * 31 + c.packed[i];
        for (int l = 0; l < K_LEVELS; l++) {
            if (!k__can(&k_levels[l])) continue;
            tp_mul(&c, &k_levels[l], type, N, NR, 33, c.q.want, NR);
            for (int nt = 2; nt <= 18; nt += 16) {
                c.q.a.idx = idx;
                tp_mul(&c, &k_levels[l], type, N, NR, nt, c.q.got, LDY);
                c.q.a.idx = NULL;
                for (int t = 0; t < nt; t++) {
                    CHECKF(!memcmp(c.q.got + t * LDY, c.q.want + idx[t] * NR, NR * 4), "%s at %s: gathered column %d of %d",
                           k_types[type].name, k_levels[l].name, t, nt);
                    for (int r = NR; r < LDY; r++)
                        CHECKF(k__bits_of(c.q.got[t * LDY + r]) == 0xa5a5a5a5, "written past the rows");
                }
            }
        }
        for (size_t i = 0; i < c.bytes; i++) after = after * 31 + c.packed[i];
        CHECK(sum == after && tp_guarded(&c));
    }
    tp_drop(&c);
}
static void t_pack_gather(void) { tq_tiles(false, tp_gather); }
static void t_pack_gather_wide(void) { tq_tiles(true, tp_gather); }

/* Rows with outliers, few and many: what k_mul_rows makes of them. */
static void tp_split(void) {
    static const uint32_t types[] = {K_Q4_K, K_Q6_K, K_Q8_0, K_Q5_1, K_IQ3_S, K_MXFP4, K_NVFP4, K_Q6_0, K_I2_S, K_IQ4_K, K_IQ3_KT};
    static const int      ns[] = {256, 320, 2304, 4096}, nts[] = {1, 1, 1, 3, 5, 9, 33, 64};
    const char           *was = k_level_name();
    uint8_t               split[TQ_COLS];
    tp_case               c;
    tp_new(&c);
    c.q.q = mem_grow(c.q.q, 3 * TQ_COLS * TQ_N, 1);
    c.q.sum = mem_grow(c.q.sum, 2 * TQ_COLS * TQ_N / 256, sizeof(k_sums));
    c.q.d = mem_grow(c.q.d, 2 * TQ_COLS * TQ_N / 256, 4);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int k = 0; k < 4; k++) {
            const uint32_t type = types[i];
            const int      n = ns[k], nr = 37;
            if (n % k_types[type].block) continue;
            tq_weights(&c.q, type, n, nr, -1);
            tp_pack(&c, type, n, nr, nr);
            for (int l = 0; l < K_LEVELS; l++) {
                if (!tq_init(&k_levels[l])) continue;
                tq_peaked_acts(&c.q, n, split);
                CHECK(memchr(split, 1, sizeof split));
                for (int j = 0; j < 8; j++) {
                    c.q.a.nt = nts[j];
                    c.q.a.idx = nts[j] == 1 ? &(int32_t){3 + 2 * j} : NULL;    /* far values in other blocks each */
                    memset(c.q.got, 0xa5, (size_t)nts[j] * (size_t)nr * 4);
                    k_mul_rows(type, c.q.w, c.q.row_bytes, nr, n, &c.q.a, c.q.want, (size_t)nr, c.q.scratch);
                    k_mul_packed(type, c.packed, nr, n, &c.q.a, c.q.got, (size_t)nr, c.q.scratch);
                    CHECKF(!memcmp(c.q.want, c.q.got, (size_t)nts[j] * (size_t)nr * 4), "%s at %s: n %d, columns %d differ",
                           k_types[type].name, k_levels[l].name, n, nts[j]);
                }
            }
        }
    k_init(was);
    tp_drop(&c);
}
static void t_pack_split(void) { tq_tiles(false, tp_split); }
static void t_pack_split_wide(void) { tq_tiles(true, tp_split); }

/* Every line of a strip is read: bits of it flipped change a product, at every level. */
static void t_pack_lines(void) {
    tp_case c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        if (!tp_is_packed(type)) continue;
        tq_weights(&c.q, type, 256, 16, -1);
        tq_acts(&c.q, 256, false);
        tp_pack(&c, type, 256, 16, 16);
        for (int l = 0; l < K_LEVELS; l++) {
            if (!k__can(&k_levels[l])) continue;
            for (int nt = 1; nt <= 17; nt += 16) {
                tp_mul(&c, &k_levels[l], type, 256, 16, nt, c.q.want, 16);
                for (size_t line = 0; line < c.bytes / 64; line++) {
                    bool seen = false;
                    for (int i = 0; i < 48 && !seen; i++) {
                        uint8_t *p = c.packed + 64 * line + tq_rand() % 64, bit = (uint8_t)(1 << tq_rand() % 8);
                        *p ^= bit;
                        tp_mul(&c, &k_levels[l], type, 256, 16, nt, c.q.got, 16);
                        *p ^= bit;
                        seen = memcmp(c.q.want, c.q.got, 16 * 4 * (size_t)nt) != 0;
                    }
                    CHECKF(seen, "%s at %s, %d columns: line %zu is not read", k_types[type].name, k_levels[l].name, nt, line);
                }
            }
        }
    }
    tp_drop(&c);
}

/* What the vector levels' tables must hold: as many columns as are multiplied few at a time fit their passes. */
static void t_pack_plans(void) {
#if defined(__x86_64__)
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int l = 0; tp_is_packed(type) && l < 2; l++) {
            const k__packed_plan *p = l ? &k__packed_512[type] : &k__packed_avx2[type];
            CHECK(p->codes && p->heads && p->cols[0] && p->cols[p->width - 1]);
            for (int t = K__TILE_MIN; t <= (l ? K__TILE : K__TILE_REGS); t++)
                CHECK(p->tiles->of[t] && k__swap_vnni(p->tiles)->of[t]);
            CHECK(l || k__swap_vnni(p->tiles) != p->tiles);
            CHECK(p->panel_cols >= K__PANEL_COLS && p->panel_cols <= p->width * K__PASSES + 1);
        }
#endif
}

static void t_pack_sizes(void) {
    static const struct { uint32_t type; int n, lines; } want[] = {   /* 64-byte lines of a strip */
        {K_Q4_K, 256, 36}, {K_Q5_K, 512, 88}, {K_Q6_K, 256, 53}, {K_Q2_K, 256, 21}, {K_Q3_K, 256, 28}, {K_TQ1_0, 256, 17},
        {K_IQ4_XS, 256, 34}, {K_IQ3_S, 256, 34}, {K_IQ2_XXS, 256, 26}, {K_IQ2_S, 256, 28}, {K_Q4_0, 32, 9}, {K_Q4_0, 256, 36},
        {K_Q8_0, 64, 17}, {K_Q8_0, 96, 34}, {K_Q5_1, 64, 12}, {K_MXFP4, 32, 17}, {K_MXFP4, 2880, 391}, {K_NVFP4, 64, 9},
        {K_Q1_0, 128, 9}, {K_Q1_0, 512, 18}, {K_Q2_0, 128, 9}, {K_I2_S, 128, 9}, {K_Q6_0, 64, 17}, {K_IQ2_KS, 256, 69},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        EQ_INT(k_pack_bytes(want[i].type, 16, want[i].n), want[i].lines * 64);
        EQ_INT(k_pack_bytes(want[i].type, 1, want[i].n), want[i].lines * 64);
        EQ_INT(k_pack_bytes(want[i].type, 33, want[i].n), want[i].lines * 64 * 3);
    }
    EQ_INT(k_pack_bytes(K_F16, 16, 256), 0);
    EQ_INT(k_pack_bytes(K_Q8_K, 16, 256), 0);
    EQ_INT(k_pack_bytes(K_TYPE_MAX, 16, 256), 0);
    EQ_INT(k_pack_bytes(UINT32_MAX, 16, 256), 0);
    EQ_INT(k_pack_bytes(4, 16, 256), 0);              /* a removed type */
    EQ_INT(k_pack_bytes(K_Q4_K, 16, 128), 0);
    EQ_INT(k_pack_bytes(K_Q4_0, 16, 48), 0);
    EQ_INT(k_pack_bytes(K_Q4_K, 0, 256), 0);
    EQ_INT(k_pack_bytes(K_Q4_K, 16, 0), 0);
    EQ_INT(k_pack_bytes(K_Q4_K, -1, 256), 0);
    EQ_INT(k_pack_bytes(K_Q8_0, INT64_MAX, 32), 0);
    EQ_INT(k_pack_bytes(K_Q8_0, 1, INT64_MAX - 31), 0);
    EQ_INT(k_pack_bytes(K_Q8_0, (int64_t)1 << 40, (int64_t)1 << 40), 0);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) EQ_INT(tp_is_packed(type), tq_is_quant(type));
    static const uint32_t slow[] = {K_IQ1_S, K_IQ1_M, K_IQ2_XXS, K_IQ2_XS, K_IQ2_S, K_IQ3_XXS, K_IQ3_S},
                          quick[] = {K_F16,    K_Q2_K,   K_Q4_K,  K_Q6_K,     K_Q8_0,    K_Q4_0,
                                     K_IQ4_XS, K_IQ4_NL, K_MXFP4, K_TYPE_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) CHECK(k_slow_unpacked(slow[i]) && tp_is_packed(slow[i]));
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++) CHECK(!k_slow_unpacked(quick[i]));
}

static const t_case t_pack_cases[] = {
    {"pack_levels", "packed rows give the bits of the file's rows: every format, level, shape, 1 to 17 columns", t_pack_levels},
    {"pack_levels_wide", "the same with tiles of eight columns", t_pack_levels_wide},
    {"pack_tiles", "the machine code of avx512_amx gives the same bits, its instructions done by a handler", t_pack_tiles},
    {"pack_extremes", "nothing saturates at the largest codes and activations", t_pack_extremes},
    {"pack_extremes_wide", "the same with tiles of eight columns", t_pack_extremes_wide},
    {"pack_bounds", "dots at the ends of a word keep their bits", t_pack_bounds},
    {"pack_bounds_wide", "the same with tiles of eight columns", t_pack_bounds_wide},
    {"pack_scales", "infinite, NaN and subnormal scales go through unchanged", t_pack_scales},
    {"pack_scales_wide", "the same with tiles of eight columns", t_pack_scales_wide},
    {"pack_again", "codes and scales come out as they went in", t_pack_again},
    {"pack_parts", "parts packed and multiplied on their own are parts of the whole", t_pack_parts},
    {"pack_gather", "idx and ldy are respected, nothing is written outside", t_pack_gather},
    {"pack_gather_wide", "the same with tiles of eight columns", t_pack_gather_wide},
    {"pack_split", "rows with outliers give the bits that the file's rows give", t_pack_split},
    {"pack_split_wide", "the same with tiles of eight columns", t_pack_split_wide},
    {"pack_lines", "every line of a strip has a say in the products", t_pack_lines},
    {"pack_plans", "the tables of the vector levels are whole", t_pack_plans},
    {"pack_sizes", "bytes as the layout says, 0 for what is not packed or too large", t_pack_sizes},
};
static const t_suite t_pack_suite = SUITE(t_pack_cases);
