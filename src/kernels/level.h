/* ===== [level] CPU dispatch: the levels and the public functions =====
 * A level is a row of functions. All levels give the same bits and differ only in speed. */

/* The functions of a level. Arguments are those of the public functions that call them, below. */
typedef struct {
    const char *name;
    unsigned    needs;                                /* K_CPU_ bits */
    int   (*quant_act)(const float *, int, int8_t *, k_sums *, float *);   /* one block; returns the sum of magnitudes of codes */
    int   (*far_act)(const float *, int, bool, uint8_t *);                      /* places of the far values of one block */
    k__far_columns *far_columns;
    k__far_values  *far_values;
    k__far_add     *far_add;
    void  (*mul_quant)(uint32_t, const void *, size_t, int, int, const k_acts *, float *, size_t, void *);
    /* true: far values have been added, too */
    bool  (*mul_packed)(uint32_t, const void *, int, int, const k_acts *, float *, size_t, void *, k__far_mem *);
    void  (*mul_float)(uint32_t, const void *, size_t, int, int, const k_acts *, float *, size_t);
    void  (*f16_round)(const uint8_t *, int, uint16_t *);                  /* n values of f16 to bf16 */
    void  (*rms_norm)(const float *, const float *, float, int, float *);
    float (*dot)(const float *, const float *, int);
    void  (*layer_norm)(const float *, const float *, const float *, float, int, float *);
    void  (*l2_norm)(float *, float, int);
    void  (*add)(float *, const float *, const float *, int);
    void  (*mul)(float *, const float *, const float *, int);
    void  (*axpy)(float *, const float *, float, int);
    void  (*add_low)(uint32_t, const void *, int, const float *, int, int, float *);
    void  (*scale)(float *, float, int);
    void  (*activate)(k_act_fn, float *, const float *, int);
    void  (*swiglu_clip)(float *, const float *, float, float, int);
    void  (*cap)(float *, float, int);
    void  (*conv)(const float *const *, const float *, const float *, int, int, int, bool, float *, size_t);
    void  (*delta)(const k_delta_args *);
    void  (*outer)(const k_outer_args *);
    void  (*scan)(const k_scan_args *);
    void  (*softmax)(float *, int);
    float (*max)(const float *, int, int *);
    void  (*rope)(float *, int, int, int, int, const float *);
    void  (*hadamard)(float *, int, int);
    void  (*kv_store)(uint32_t, const float *, void *, int);
    k__attn_level (*attn)(const k_attn_args *);       /* the functions that attention over these caches uses */
    const k_probe *probe;
} k_level;

/* A level whose functions have one suffix. Quantised products, products of floats, attention and the probe may have others. */
#define K__LEVEL(l) K__LEVEL_OF(l, l, l, l, l)
#define K__LEVEL_OF(l, tiles, floats, attention, probes)                                                               \
    .quant_act = k_quant_act_##l, .far_act = k_far_act_##l, .far_columns = k_far_columns_##l,                          \
    .far_values = k_far_values_##l, .far_add = k_far_add_##l,                                                          \
    .mul_quant = k_mul_quant_##tiles, .mul_packed = k_mul_packed_##tiles,                                              \
    .mul_float = k_mul_float_##floats, .f16_round = k_f16_round_##floats, .attn = k_attn_##attention,                  \
    .rms_norm = k_rms_norm_##l, .layer_norm = k_layer_norm_##l, .l2_norm = k_l2_norm_##l, .dot = k_dot_##l,            \
    .add = k_add_##l, .mul = k_mul_##l, .axpy = k_axpy_##l, .scale = k_scale_##l, .cap = k_cap_##l,                    \
    .activate = k_activate_##l, .swiglu_clip = k_swiglu_clip_##l, .softmax = k_softmax_##l, .max = k_max_##l,          \
    .add_low = k_add_low_##l,                                                                                          \
    .conv = k_conv_##l, .delta = k_delta_##l, .outer = k_outer_##l, .scan = k_scan_##l, .rope = k_rope_##l,            \
    .hadamard = k_hadamard_##l, .kv_store = k_kv_store_##l, .probe = &k_probe_##probes

/* From the plainest to the fastest; k__pick() takes the last that runs.
 * TO ADD A LEVEL. The compiler or a test finds a place that was forgotten, but for those marked *.
 *  1  [cpu]      a K_CPU_ bit for each new feature, read in k__cpu_probe()
 *  2  [vec], [quant_x86]  macros with __attribute__((target(...))), like K_VEC_AVX512 and K__LIST512. Instructions that a
 *               target cannot name are inline assembly, like k__dot8_vnni
 *  3  Its functions. Of quantised products: K__PRODUCTS in [quant_x86], a section like [quant_avx2] and one like
 *               [packed_avx2], in a GGML_KERNELS_PART; k_far_act beside k_quant_act, k_far_columns and what stands beside it
 *               in [far]; of floats in [vec], of attention in [attn]; its k_probe in [probe]. Where it has no function of its
 *               own, that of a slower level serves: K__LEVEL_OF, or a designator after it
 *  4  [level]    a row below; k__pick() where it is not always faster than the row before it (*); k__tune_processor() (*)
 * Outside of the kernels:
 *  5  [api] K_LEVEL_NAMES, whose text is in tests/cli.py and tests/t_cli.c
 *  6  tests/avx512.h, avx512.sed, instructions.c  its instructions, emulated for make levels
 *     tests/t_quant.c t_quant_auto, tests/t_dev.c t_dev_reference, tests/t_fwd.c t_fwd_same_bits (*)  name levels
 *     tests/README.md (*)  what make levels emulates */
static const k_level k_levels[] = {
    {.name = "scalar", .needs = 0, K__LEVEL(ref)},
#if K__X86
    {.name = "avx2", .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C, K__LEVEL(avx2)},
    {.name = "avx_vnni",
     .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX_VNNI,
     K__LEVEL_OF(avx2, vnni, avx2, avx2, vnni)},
    {.name = "avx512",
     .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX512 | K_CPU_VNNI,
     K__LEVEL(avx512)},
    {.name = "avx512_bf16",
     .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX512 | K_CPU_VNNI | K_CPU_BF16,
     K__LEVEL_OF(avx512, avx512, bf16, bf16, bf16)},
    {.name = "avx512_amx",
     .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX512 | K_CPU_VNNI | K_CPU_AMX,
     K__LEVEL_OF(avx512, amx, avx512, amx, amx)},
#elif K__NEON
    {.name = "neon", .needs = K_CPU_DOTPROD, K__LEVEL(neon)},
    {.name = "i8mm", .needs = K_CPU_DOTPROD | K_CPU_I8MM, K__LEVEL_OF(neon, i8mm, neon, neon, i8mm)},
#endif
};
enum { K_LEVELS = sizeof k_levels / sizeof k_levels[0] };

static const k_level *g_k_level = &k_levels[0];
#if K__X86
static k_level g_k_tiles;                             /* avx512_amx with the floats of avx512_bf16 */
#endif

static bool k__can(const k_level *l) { return (k__cpu_probe() & l->needs) == l->needs; }

#if K__X86
/* The columns of a tile that take the least time on this processor, measured once, in 0.1 ms. Where additions and
 * conversions use the two ports of products, and loads and stores do not (Intel), these are eight with sums in memory; where
 * additions use other ports, and a store of 64 bytes takes the place of products (Zen 4, Zen 5), six with sums in registers. */
static int k__tile_trial(void) {
    static int best;
    const unsigned needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX512 | K_CPU_VNNI;
    if (!best && (k__cpu_probe() & needs) != needs) best = K__TILE_REGS;
    if (best) return best;
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 32; i++) {
        const uint64_t t0 = __rdtsc();
        k_tile_trial_avx512(i % 2 ? K__TILE : K__TILE_REGS);
        const uint64_t t = __rdtsc() - t0;
        if (t < least[i % 2]) least[i % 2] = t;
    }
    return best = least[1] < least[0] ? K__TILE : K__TILE_REGS;
}
#endif

#if K__X86
/* Distances of the prefetch of one packed column, the last row that fits; other processors keep K__AHEAD_ONE. Measured: the
 * hardware of Zen 4 reads a packed stream as fast as plain memory, and software prefetches make it slower; Zen 3 reads rows of
 * 8 bits as fast, and other rows a tenth to a fifth slower without them; Intel processors and Zen 5 (family 26) leave a third
 * of the bandwidth unused without them. */
static const struct {
    unsigned vendor, most, needs;                     /* the last family; K_CPU_ of the processor */
    size_t   ahead[2];                                /* g_k_ahead: codes of fewer than 8 bits, of 8 bits */
} k__ahead_rules[] = {
    {signature_AMD_ebx, 25, 0,            {K__AHEAD_ONE, 0}},   /* Zen 3 and before */
    {signature_AMD_ebx, 25, K_CPU_AVX512, {0, 0}},              /* Zen 4 */
};
#endif

/* Sets the prefetch of one column by vendor and family of the processor, and the columns of a tile by a trial. */
static void k__tune_processor(void) {
#if K__X86
    unsigned a, vendor, b, c, d;
    if (!__get_cpuid(0, &a, &vendor, &c, &d) || !__get_cpuid(1, &a, &b, &c, &d)) return;
    const unsigned family = (a >> 8 & 15) + (a >> 20 & 255);
    for (size_t i = 0; i < sizeof k__ahead_rules / sizeof k__ahead_rules[0]; i++)
        if (vendor == k__ahead_rules[i].vendor && family <= k__ahead_rules[i].most &&
            (k__cpu_probe() & k__ahead_rules[i].needs) == k__ahead_rules[i].needs)
            memcpy(g_k_ahead, k__ahead_rules[i].ahead, sizeof g_k_ahead);
    if (g_k_level->needs & K_CPU_AVX512) g_k_tile_cols = k__tile_trial();
#endif
}

/* Clock ticks for 128000 products, the fewest of three runs: by FMA of floats, by vdpbf16ps. */
typedef struct { uint64_t f32, bf16; } k__trial;

/* Zeros on other processors than x86-64. */
static k__trial k__trial_dots(void) {
    k__trial best = {0, 0};
#if K__X86
    float    x[K_PROBE_BYTES / sizeof(float)] __attribute__((aligned(64))) = {0};
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 6; i++) {
        const uint64_t t0 = __rdtsc();
        if (k_probe_bf16.mul[i % 2](x, 500 / (1 + i % 2))) return best;          /* always 0: the loop is not removed */
        const uint64_t t = __rdtsc() - t0;
        least[i % 2] = t < least[i % 2] ? t : least[i % 2];
    }
    best.f32 = least[K_ACT_F32], best.bf16 = least[K_ACT_BF16];
#endif
    return best;
}

/* The level of "auto" on a processor with these K_CPU_ features: the last one that it supports. avx512_bf16 is only chosen where
 * vdpbf16ps was faster than FMA in the trial: some processors run it at half the rate. */
static int k__pick(unsigned have, k__trial trial) {
    int best = 0;
    for (int i = 1; i < K_LEVELS; i++) {
        if ((have & k_levels[i].needs) != k_levels[i].needs) continue;
        if (k_levels[i].needs & K_CPU_BF16 && trial.bf16 >= trial.f32) continue;
        best = i;
    }
    return best;
}

static int k__level_auto(void) {
    const unsigned have = k__cpu_probe();
    return k__pick(have, have & K_CPU_BF16 ? k__trial_dots() : (k__trial){0, 0});
}

/* -1: an unknown name, or not supported by this CPU. */
static int k__level_by_name(const char *name) {
    for (int i = 0; i < K_LEVELS; i++)
        if (!strcmp(name, k_levels[i].name)) return k__can(&k_levels[i]) ? i : -1;
    return -1;
}

/* Floats of avx512_amx are those of the level that the processor would have without tiles. */
static void k__take_floats(void) {
#if K__X86
    const unsigned have = k__cpu_probe() & ~(unsigned)K_CPU_AMX;
    if (!(g_k_level->needs & K_CPU_AMX) || !(have & K_CPU_BF16)) return;
    const k_level *floats = &k_levels[k__pick(have, k__trial_dots())];
    if (!(floats->needs & K_CPU_BF16)) return;
    g_k_tiles = *g_k_level;
    g_k_tiles.mul_float = floats->mul_float;
    g_k_tiles.f16_round = floats->f16_round;
    g_k_tiles.attn = k__attn_amx_bf16;
    g_k_tiles.probe = &k_probe_amx_bf16;
    g_k_level = &g_k_tiles;
#endif
}

K_PUBLIC bool k_init(const char *level) {
    const int i = !level || !strcmp(level, "auto") ? k__level_auto() : k__level_by_name(level);
    if (i < 0) return false;
    g_k_level = &k_levels[i];
    k__take_floats();
    k__tune_processor();
    return true;
}

K_PUBLIC const char *k_level_name(void) { return g_k_level->name; }

K_PUBLIC int k_tile_columns(void) {
#if K__X86
    return (g_k_level->needs & (K_CPU_AVX512 | K_CPU_AMX)) == K_CPU_AVX512 ? g_k_tile_cols : 0;
#else
    return 0;
#endif
}

K_PUBLIC int k_levels_list(const char **names, bool *can) {
    for (int i = 0; i < K_LEVELS; i++) {
        if (names) names[i] = k_levels[i].name;
        if (can) can[i] = k__can(&k_levels[i]);
    }
    return K_LEVELS;
}

K_PUBLIC bool k_slow_unpacked(uint32_t type) {
#if K__X86
    return type < K_TYPE_MAX && k__decoded_avx2(type);
#else
    return (void)type, false;
#endif
}

K_PUBLIC k_act_kind k_act_of(uint32_t type) {
    if (type < K_TYPE_MAX && (k_types[type].kind == K_KIND_INT || k_types[type].kind == K_KIND_SCALE)) return K_ACT_I8;
    return k__is_bf16(type) ? K_ACT_BF16 : K_ACT_F32;
}

K_PUBLIC k_act_kind k_kv_act(uint32_t type, uint32_t other) {
    return k__kv_codes(type, other) ? K_ACT_I8 : k__kv_rounds(type) ? K_ACT_BF16 : K_ACT_F32;
}

K_PUBLIC bool k_wants_q8(uint32_t type) { return k_act_of(type) == K_ACT_I8; }

K_PUBLIC unsigned k_forms_of(uint32_t type) {
    const bool fine = type == K_Q8_0 || type == K_Q5_0 || type == K_Q5_1 || type == K_Q4_1;
    return 1u << k_act_of(type) | (fine ? K_FORM_FINE : 0);
}

/* Rows of f16 that are rounded to bf16 together: the rows of a group of tiles. From this number of columns on that is faster than
 * rounding in each tile; with fewer, an even stream from memory is faster. */
enum { K__ROUND_ROWS = 16, K__ROUND_COLS = 17 };

#if !K__X86
#define K__PANEL_BYTES 0                               /* no panels */
#endif
#if !K__X86
#define K__AMX_BYTES 0
#endif
#if !K__NEON
#define K__MUL_BYTES 0                                 /* what products need besides, whatever the length of rows */
#endif

/* What k__mul_far has in front of a product's scratch, with 64 bytes for its alignment. */
static size_t k__far_bytes(int n) { return 64 + sizeof(k__far_mem) + ((size_t)n + 63) / 64 * sizeof(uint64_t) + (size_t)n; }

/* k__packed_few wants one panel more than a row has blocks. */
K_PUBLIC size_t k_scratch_bytes(int n_max) {
    const size_t panels = (((size_t)n_max + K_SUPER - 1) / K_SUPER + 1) * K__PANEL_BYTES + 64;
    const size_t rounded = K__ROUND_ROWS * sizeof(uint16_t) * (size_t)n_max, most = panels > rounded ? panels : rounded;
    return k__far_bytes(n_max) + (most > K__AMX_BYTES ? most : K__AMX_BYTES) + K__MUL_BYTES;
}

/* Whole strips, several of them, so that a strip is prefetched while the one
 * before it is multiplied; for few columns, a stream that is long enough. */
K_PUBLIC int k_rows_step(uint32_t type, int nt) {
    (void)nt;
    return k_wants_q8(type) ? 128 : 32;
}

/* --- rows with outliers: [far] --- */

/* Where the far values of a row go: codes and scales of the row, zeros so far, which GPUs and tests read, and the list. */
typedef struct {
    int8_t *q;                                        /* [n] */
    float  *d;                                        /* [(n + 255)/256] */
    k__far *list;                                     /* [n/8], the first is their number */
    bool    fine;
} k__far_to;

/* Quantises the block that begins at column k again without its far values; what rounding took from these stays in it. Where one
 * value in 8 or more is far, nothing changes. */
static void k__quant_apart(const float *x, int k, int len, int8_t *q, k_sums *sum, float *d, const k__far_to *to) {
    float     near[K_SUPER], amax = 0;
    uint8_t   at[K_SUPER];
    const int count = g_k_level->far_act(x, len, to->fine, at);
    if (count >= len / 8) return;
    memcpy(near, x, (size_t)len * sizeof *near);
    for (int i = 0; i < count; i++) amax = k__farther(amax, fabsf(x[at[i]]));
    const float inv = k__act_inverse(amax), scale = k__act_scale(amax, false);
    to->d[k / K_SUPER] = scale;
    for (int i = 0; i < count; i++) {
        const int8_t code = k__act_code(x[at[i]], inv);
        const float  v = scale * (float)code;
        near[at[i]] = x[at[i]] - v;
        to->q[k + at[i]] = code;
        to->list[++to->list->k] = (k__far){k + at[i], v};
    }
    g_k_level->quant_act(near, len, q, sum, d);
}

K_PUBLIC bool k_quant_act(const float *x, int n, bool fine, int8_t *q, k_sums *sum, float *d, size_t ldq, int rest) {
    const size_t at = (size_t)rest * ldq;
    const k__far_to to = {q + at, d + at / K_SUPER, (k__far *)(void *)(q + 2 * at), fine};
    bool         split = false;
    for (int k = 0, b = 0; k < n; k += K_SUPER, b++) {
        const int len = n - k < K_SUPER ? n - k : K_SUPER, all = g_k_level->quant_act(x + k, len, q + k, sum + b, d + b);
        if (!k__peaked(all, len, d[b], fine)) continue;
        if (!split) {
            memset(to.q, 0, (size_t)n);
            memset(to.d, 0, ((size_t)n + K_SUPER - 1) / K_SUPER * sizeof *to.d);
            to.list->k = 0;
            split = true;
        }
        k__quant_apart(x + k, k, len, q + k, sum + b, d + b, &to);
    }
    return split;
}

/* Rows of one matrix, in file order or packed. */
typedef struct {
    uint32_t       type;
    const uint8_t *data;
    size_t         row_bytes;                         /* 0: packed */
    int            n;
} k__weights;

/* The product of the codes. True: far values have been added, too. */
static bool k__mul_codes(const k__weights *w, int nr, const k_acts *a, float *y, size_t ldy, void *scratch, k__far_mem *far) {
    if (!w->row_bytes) return g_k_level->mul_packed(w->type, w->data, nr, w->n, a, y, ldy, scratch, far);
    g_k_level->mul_quant(w->type, w->data, w->row_bytes, nr, w->n, a, y, ldy, scratch);
    return false;
}

/* The part of a list from column `from` on and before column `end`. before: entries that are before `from` for certain. */
static k__far_list k__far_cut(k__far_list far, int before, int from, int end) {
    while (before < far.n && far.of[before].k < from) before++;
    int last = before;
    while (last < far.n && far.of[last].k < end) last++;
    return (k__far_list){far.of + before, last - before};
}

/* Gives slots to the columns with far values from column k on, as far as they go. Returns the column that comes next; n: none. */
static int k__far_slots(const k__weights *w, int k, k__far_mem *m) {
    int next = w->n;
    m->n_at = 0;
    for (int i = k / 64; i < (w->n + 63) / 64 && next == w->n; i++, k = 64 * i)
        for (uint64_t bits = m->any[i] & ~0ull << k % 64; bits; bits &= bits - 1) {
            const int at = 64 * i + __builtin_ctzll(bits);
            if (m->n_at == K__FAR_SLOTS) {
                next = at;
                break;
            }
            m->slot[at] = (uint8_t)m->n_at;
            m->at[m->n_at++] = at;
        }
    if (!w->row_bytes) k__far_places(w->type, m->at, m->n_at, m->place);
    return next;
}

/* The columns that have slots, of rows r .. r + nr. */
static void k__far_open_rows(const k__weights *w, int r, int nr, k__far_mem *m) {
    if (!w->row_bytes) {
        const size_t   strip = k_pack_bytes(w->type, K_PACK_ROWS, w->n);
        const uint8_t *data = w->data + (size_t)(r / K_PACK_ROWS) * strip;
        m->columns(w->type, data, strip, nr, m->place, m->n_at, m->col, K__FAR_STEP, data);
        return;
    }
    for (int s = 0; s < m->n_at; s++)
        for (int i = 0; i < nr; i++)
            m->col[s * K__FAR_STEP + i] = k__far_at(w->type, w->data + (size_t)(r + i) * w->row_bytes, m->at[s]);
}

/* Adds the far values of the columns that have slots to the products. */
static void k__far_window(const k__weights *w, int nr, const k_acts *a, k__far_mem *m, float *y, size_t ldy) {
    const int from = m->at[0], end = m->at[m->n_at - 1] + 1;
    for (int r = 0, rows; r < nr; r += rows) {
        rows = nr - r < K__FAR_STEP ? nr - r : K__FAR_STEP;
        k__far_open_rows(w, r, rows, m);
        for (int t = 0; t < a->nt; t++) {
            const int row = k__row_of(a, t);
            if (!a->split[row]) continue;
            const k__far_list all = k__far_of(a, row);
            const k__far_list some = k__far_cut(all, t < K__FAR_COLS ? m->done[t] : 0, from, end);
            if (some.n) m->add(m->col, K__FAR_STEP, m->slot, some, rows, y + (size_t)t * ldy + r);
            if (t < K__FAR_COLS && r + rows == nr) m->done[t] = (int)(some.of - all.of) + some.n;
        }
    }
}

/* The columns with far values of any row. */
static void k__far_any(const k_acts *a, int words, uint64_t *any) {
    memset(any, 0, (size_t)words * sizeof *any);
    for (int t = 0; t < a->nt; t++) {
        const int         row = k__row_of(a, t);
        const k__far_list far = a->split[row] ? k__far_of(a, row) : (k__far_list){NULL, 0};
        for (int i = 0; i < far.n; i++) any[far.of[i].k / 64] |= 1ull << far.of[i].k % 64;
    }
}

/* Slots from column 0 on. The columns of a single row are in its list. */
static int k__far_first(const k__weights *w, const k_acts *a, k__far_mem *m) {
    const k__far_list one = a->nt == 1 ? k__far_of(a, k__row_of(a, 0)) : (k__far_list){NULL, 0};
    if (a->nt > 1 || one.n > K__FAR_SLOTS) {
        k__far_any(a, (w->n + 63) / 64, m->any);
        return k__far_slots(w, 0, m);
    }
    m->n_at = one.n;
    for (int i = 0; i < one.n; i++) {
        m->at[i] = one.of[i].k;
        m->slot[one.of[i].k] = (uint8_t)i;
    }
    if (!w->row_bytes) k__far_places(w->type, m->at, m->n_at, m->place);
    return w->n;
}

/* The product of the codes, then the far values; in one pass where all their columns have slots and the level has such a pass. */
static void k__mul_far(const k__weights *w, int nr, const k_acts *a, float *y, size_t ldy, void *scratch) {
    k__far_mem *m = (k__far_mem *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    const int   words = (w->n + 63) / 64;
    bool        split = false;
    for (int t = 0; a->split && t < a->nt && !split; t++) split = a->split[k__row_of(a, t)];
    if (!split) {
        k__mul_codes(w, nr, a, y, ldy, scratch, NULL);
        return;
    }
    m->columns = g_k_level->far_columns;
    m->values = g_k_level->far_values;
    m->add = g_k_level->far_add;
    m->any = (uint64_t *)(m + 1);
    m->slot = (uint8_t *)(m->any + words);
    int k = k__far_first(w, a, m);
    if (k__mul_codes(w, nr, a, y, ldy, m->slot + w->n, k == w->n ? m : NULL)) return;
    memset(m->done, 0, sizeof *m->done * (size_t)(a->nt < K__FAR_COLS ? a->nt : K__FAR_COLS));
    for (; m->n_at; k = k__far_slots(w, k, m)) {
        k__far_window(w, nr, a, m, y, ldy);
        if (k == w->n) return;
    }
}

/* Rows of f16 as bf16: each is rounded once for all columns. */
static void k__mul_rounded(const uint8_t *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy,
                           uint16_t *rows) {
    for (int r = 0, some; r < nr; r += some) {
        some = nr - r < K__ROUND_ROWS ? nr - r : K__ROUND_ROWS;
        for (int i = 0; i < some; i++) g_k_level->f16_round(w + (size_t)(r + i) * row_bytes, n, rows + (size_t)i * (size_t)n);
        g_k_level->mul_float(K_BF16, rows, sizeof *rows * (size_t)n, some, n, a, y + r, ldy);
    }
}

/* Prefetches what is read after a product at once, where the product does not do it line by line. */
static void k__soon_all(const k_acts *a) {
    for (int i = 0; a->soon && i < a->soon->n; i++)
        for (int l = 0; l < a->soon->run[i].lines; l++) __builtin_prefetch(a->soon->run[i].at + 64 * l);
}

K_PUBLIC void k_mul_rows(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                       float *y, size_t ldy, void *scratch) {
    k__soon_all(a);
    for (int t = 0; n <= 0 && t < a->nt; t++) memset(y + (size_t)t * ldy, 0, (size_t)nr * sizeof *y);   /* empty sums */
    if (n <= 0) return;
    if (k_wants_q8(type)) k__mul_far(&(k__weights){type, w, row_bytes, n}, nr, a, y, ldy, scratch);
    else if (type == K_F16_ROUND && a->nt >= K__ROUND_COLS) k__mul_rounded(w, row_bytes, nr, n, a, y, ldy, scratch);
    else g_k_level->mul_float(type, w, row_bytes, nr, n, a, y, ldy);
}

K_PUBLIC void k_mul_packed(uint32_t type, const void *packed, int nr, int n, const k_acts *a, float *y, size_t ldy,
                         void *scratch) {
    if (!K__X86) k__soon_all(a);
    k__mul_far(&(k__weights){type, packed, 0, n}, nr, a, y, ldy, scratch);
}

K_PUBLIC void k_rms_norm(const float *x, const float *w, float eps, int n, float *y) {
    g_k_level->rms_norm(x, w, eps, n, y);
}
K_PUBLIC void k_layer_norm(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    g_k_level->layer_norm(x, w, b, eps, n, y);
}
K_PUBLIC void  k_l2_norm(float *x, float eps, int n) { g_k_level->l2_norm(x, eps, n); }
K_PUBLIC float k_dot(const float *a, const float *b, int n) { return g_k_level->dot(a, b, n); }
K_PUBLIC void  k_add(float *y, const float *a, const float *b, int n) { g_k_level->add(y, a, b, n); }
K_PUBLIC void  k_mul(float *y, const float *a, const float *b, int n) { g_k_level->mul(y, a, b, n); }
K_PUBLIC void  k_axpy(float *y, const float *x, float s, int n) { g_k_level->axpy(y, x, s, n); }
K_PUBLIC void  k_add_low(uint32_t type, const void *b, int rank, const float *u, int first, int n, float *y) {
    g_k_level->add_low(type, b, rank, u, first, n, y);
}
K_PUBLIC float k_sigmoid(float x) { return k__act_ref(K_SIGMOID, x); }
K_PUBLIC float k_softplus(float x) { return k__softplus_ref(x); }
K_PUBLIC float k_expf(float x) { return k__exp_ref(x); }
K_PUBLIC void  k_scale(float *y, float s, int n) { g_k_level->scale(y, s, n); }
K_PUBLIC void  k_activate(k_act_fn fn, float *x, const float *up, int n) { g_k_level->activate(fn, x, up, n); }
K_PUBLIC void  k_xielu(float *x, const k_row_xielu *of, int n) {
    enum { EACH = 256 };
    float e[EACH];
    for (int m; n > 0; n -= m, x += m) {
        m = n < EACH ? n : EACH;
        for (int i = 0; i < m; i++) e[i] = k__xielu_low(x[i], of);
        g_k_level->activate(K_EXP, e, NULL, m);
        for (int i = 0; i < m; i++) x[i] = k__xielu_ref(x[i], e[i], of);
    }
}
K_PUBLIC void  k_swiglu_clip(float *gate, const float *up, float limit, float alpha, int n) {
    g_k_level->swiglu_clip(gate, up, limit, alpha, n);
}
K_PUBLIC void  k_cap(float *x, float cap, int n) { g_k_level->cap(x, cap, n); }
K_PUBLIC void  k_clamp(float *x, float limit, bool above, int n) {
    for (int i = 0; i < n; i++) x[i] = k__clamp_ref(x[i], limit, above);
}
K_PUBLIC void  k_conv(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu,
                      float *y, size_t ldy) {
    g_k_level->conv(x, w, bias, taps, n, n_rows, silu, y, ldy);
}
K_PUBLIC void  k_delta(const k_delta_args *a) { g_k_level->delta(a); }
K_PUBLIC void  k_outer(const k_outer_args *a) { g_k_level->outer(a); }
K_PUBLIC void  k_scan(const k_scan_args *a) { g_k_level->scan(a); }
K_PUBLIC void  k_softmax(float *x, int n) { g_k_level->softmax(x, n); }
K_PUBLIC float k_max(const float *x, int n, int *arg) { return g_k_level->max(x, n, arg); }
K_PUBLIC void  k_rope(float *x, int n_heads, int hd, int n_rot, int form, const float *cs) {
    g_k_level->rope(x, n_heads, hd, n_rot, form, cs);
}

K_PUBLIC void k_hadamard(float *x, int n, int size) {
    if (size > 1) g_k_level->hadamard(x, n, size);
}

K_PUBLIC size_t k_kv_bytes(uint32_t type, int n) { return k_row_bytes(type, k__round_up(n, k_types[type].block)); }

K_PUBLIC void k_kv_store(uint32_t type, const float *x, void *dst, int n) {
    const int block = k_types[type].block, whole = n - n % block;
    float     rest[32] = {0};                        /* no cache type has longer blocks */
    if (whole) g_k_level->kv_store(type, x, dst, whole);
    if (whole == n) return;
    memcpy(rest, x + whole, (size_t)(n - whole) * sizeof *rest);
    g_k_level->kv_store(type, rest, (uint8_t *)dst + k_row_bytes(type, whole), block);
}

/* How the current level computes the call. */
static k__attn_level k__attn_of(const k_attn_args *a) {
    k__attn_level lv = g_k_level->attn(a);
    if (a->reach) lv.codes = NULL;
    return lv;
}

K_PUBLIC void k_attn(const k_attn_args *a, void *scratch) {
    const k__attn_level lv = k__attn_of(a);
    k__attn_run(&lv, a, scratch);
}

K_PUBLIC void k_attn_ask(const k_attn_args *a, void *scratch) {
    k__attn_level     lv = k__attn_of(a);
    const k__attn_mem w = k__attn_carve(a, scratch);
    lv.codes = NULL;
    k__attn_start(&lv, a, &w);
}

K_PUBLIC void k_attn_products(const k_attn_args *a, int64_t base, float *s, void *scratch) {
    const k__attn_keys *keys = k__attn_of(a).keys;
    k__attn_mem         w = k__attn_carve(a, scratch);
    const int           ld = w.ld_k / keys->per;
    const int64_t       left = k__attn_reach_of(a).last - base;
    const int           n_pos = left < K_TILE ? (int)left : K_TILE;
    k__attn_fetch(keys->widen, a->type_k, a->k_blocks, a->k_stride, a->block, a->hd_k, base, 0, n_pos, w.k, ld);
    keys->transpose(w.k, ld, w.kt);
    for (int r = 0; r < a->n_rows; r += K_ATTN_GROUP) {
        const int    n = a->n_rows - r < K_ATTN_GROUP ? a->n_rows - r : K_ATTN_GROUP;
        const float *q[K_ATTN_GROUP];
        for (int i = 0; i < n; i++) q[i] = w.q + (size_t)(r + i) * (size_t)w.ld_k;
        keys->scores(q, n, w.kt, a->hd_k / keys->per, &w.ahead, s + r * K_TILE);
    }
}

K_PUBLIC void k_attn_segment(const k_attn_args *a, int64_t s, float *part, void *scratch) {
    const k__attn_level lv = k__attn_of(a);
    k__attn_reach       all = k__attn_reach_of(a);
    k__attn_mem         w = k__attn_carve(a, scratch);
    k__attn_part_to(&w, a, part);
    if (all.last > (s + 1) * K_SEGMENT) all.last = (s + 1) * K_SEGMENT;
    k__attn_start(&lv, a, &w);
    k__attn_partial(&lv, a, &w, all, s);
}

K_PUBLIC void k_attn_merge(const k_attn_args *a, int r, const float *parts, int n) {
    const k__attn_level lv = k__attn_of(a);
    const size_t        ld_v = (size_t)k__round_up(a->hd_v, 32), n_rows = (size_t)a->n_rows;
    k__attn_sum         all = {-INFINITY, 0};
    for (int i = 0; i < n; i++, parts += k_attn_part(a->n_rows, a->hd_v)) {
        const k__attn_sum *part = (const k__attn_sum *)(const void *)(parts + n_rows * ld_v);
        k__attn_take(&lv, a, r, i == 0, &all, part + r, parts + (size_t)r * ld_v);
    }
    k__attn_finish(a, r, all);
}

K_PUBLIC const k_probe *k_probe_get(void) { return g_k_level->probe; }

#if K__PART(3)
#if K__X86
/* f16 to f32, n % 8 == 0. */
static __attribute__((target("avx,f16c"))) void k__widen_f16(const uint8_t *src, float *dst, int64_t n) {
    for (int64_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i))));
}
#endif

K_PUBLIC void k_dequant_part(uint32_t id, const void *row, int64_t at, float *dst, int64_t n) {
    const k_type  *t = &k_types[id];
    const uint8_t *src = (const uint8_t *)row + (size_t)(at / t->block) * t->bytes;
#if K__X86
    if (id == K_F16 && g_k_level->needs & K_CPU_F16C) {
        const int64_t most = n & ~(int64_t)7;
        k__widen_f16(src, dst, most);
        src += 2 * most, dst += most, n -= most;
    }
#endif
    if (!k__row_front(id)) t->dequant(src, dst, n);
    else k__dequant_int(src + k__row_front(id), k__row_scale(id, row), dst, n, t->bytes, t->has_min, t->unpack);
}
#endif
