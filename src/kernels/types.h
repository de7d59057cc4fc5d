/* ===== [types] one row per format =====
 * The index is the id in the file; an unused id has no name.
 *
 * TO ADD A WEIGHT TYPE. The compiler or a test finds a place that was forgotten, but for those marked *.
 * Kernels:
 *  1  [fmt]     its id, its block, FMT_SIZE of the block
 *  2  [unpack]  k_unpack_NAME: the layout of the block, as a comment and as code. SCALE: up to 128 weights in up to 8 groups
 *              of 16 or 32; INT: 256 weights with integer scales of 16. A scale in front of a row: a row of K__ROW_TYPES
 *  3  [ref]     a line in K__SCALE_TYPES or K__INT_TYPES: its row here, and k_dequant_NAME. k_quant_NAME where [ref] can write
 *              it
 *  4  [quant_avx2], [quant_avx512]  rows in k__plans_avx2 and k__plans_512. any_int and any_scale multiply what the decoder
 *              returns, where it has no minima and no groups of 16. Others, and those for which a benchmark asks: lines of
 *              K__INT_AVX2 or K__SCALE_AVX2 and of K__INT_512 or K__SCALE_512, and their cases in k__codes_avx2, k__codes512
 *              and, in [quant_x86], k__off (*), k__heads_of (INT), k__park_scales (SCALE that does not begin with the f16
 *              scale)
 *  5  [packed]  a line in K__FORMS. With K__HEAD_F16 and _F16M a scale is for half a unit: with groups of 32 segs is 1. Other
 *              kinds of scales are a new K__HEAD_: then every function with a switch over them, here, in [packed_x86] and in
 *              [cuda]
 *     [packed_avx2], [packed_avx512]  rows in k__packed_avx2 and k__packed_512; for bits, table, head and segs that have none
 *              yet, a line of K__COLS8_AVX2, and of K__COLS8_512 or K__COLS4_512. New tiles of [quant_avx2] have a row in
 *              k__tiles_vnni
 *     [cuda]    a row of K_CUDA_MULS, where none has the form's bits, segs, head and table. k__cuda_codes and tests/t_cuda.c
 *              tc_far_unit do not know planes whose bits times segs is 2
 *  6  [fit] or [fit_grid], [fitters] (*)  k_fit_NAME, k_recode_NAME and a row of k_fitters, where files of the type can be
 *              made
 * Program, where files of the type can be made:
 *  7  src/quant.c (*)  FT_NAME, a row of quant_files, rows of quant_rules, a row of quant_fallback where blocks are longer
 *              than 32
 *     src/round.c (*)  a row of round__scales, for --calibrate: where the f16 scale of a block is
 * Tests and tables:
 *  8  tests/gen/golden_blocks.py  FORMATS, and dequant() where the `gguf` package does not know the type; it writes
 *              tests/data/golden/fmt_NAME.bin and fmt_sums.txt
 *     tests/t_fmt.c fmt__published; tests/t_pack.c t_pack_sizes (*); tests/t_gguf.c, where a row has the first unused id;
 *              tests/t_quant.c tq_fields, tq_put_odd and tq_put_scales where the block does not begin with the f16 scale
 *  9  with a fitter: tests/gen/fit_grid.py (*), or golden_fit.py where [ref] writes the type, too; tests/t_fit.c
 *              t_fit_monotone (*)
 * 10  tests/gen/tiny_blocks.py and tiny_llama.py (*)  a tiny model with the type
 *     tests/gen/quant_types.py (*)  what llama-quantize makes of a file type
 * 11  README.md  the table of `llmrun --list types`: python3 tests/readme.py --write
 *     tests/bench/quality.py, fidelity.py, measure.py, plots.py (*)  lists of types to measure */

/* Parts 1 and 2 ([api]) need the numbers of a row; its functions are those of part 3. */
#if K__PART(3)
#define K__ROW_OF(...) __VA_ARGS__
#else
#define K__ROW_OF(...) NULL, NULL, NULL
#endif
/* name, block, bytes, kind, group, has_min; dequant, unpack, quant */
#define K__ROW_PLAIN(type, bytes, kind, quant) {#type, 1, bytes, kind, 0, 0, K__ROW_OF(k_dequant_##type, NULL, quant)}
#define K__ROW_DATA(type, block) \
    {#type, block, sizeof(block_##type), K_KIND_DATA, 0, 0, K__ROW_OF(k_dequant_##type, NULL, NULL)}
#define K__ROW_INT(id, type, min) \
    [K_##id] = {#type, 256, sizeof(block_##type), K_KIND_INT, 0, min, K__ROW_OF(k_dequant_##type, k_unpack_##type, NULL)},
#define K__ROW_SCALE(id, type, block, group, min, quant)                     \
    [K_##id] = {#type, block, sizeof(block_##type), K_KIND_SCALE, group, min, \
                K__ROW_OF(k_dequant_##type, k_unpack_##type, quant)},
#define K__ROW_GONE(name) {name, 0, 0, K_KIND_NONE, 0, 0, NULL, NULL, NULL}

K_PUBLIC const k_type k_types[K_TYPE_MAX + 1] = {
    [K_F32]     = K__ROW_PLAIN(f32, 4, K_KIND_FLOAT, k_quant_f32),
    [K_F16]     = K__ROW_PLAIN(f16, 2, K_KIND_FLOAT, k_quant_f16),
    [K_BF16]    = K__ROW_PLAIN(bf16, 2, K_KIND_FLOAT, k_quant_bf16),
    [K_F64]     = K__ROW_PLAIN(f64, 8, K_KIND_DATA, NULL),
    [K_I8]      = K__ROW_PLAIN(i8, 1, K_KIND_DATA, NULL),
    [K_I16]     = K__ROW_PLAIN(i16, 2, K_KIND_DATA, NULL),
    [K_I32]     = K__ROW_PLAIN(i32, 4, K_KIND_DATA, NULL),
    [K_I64]     = K__ROW_PLAIN(i64, 8, K_KIND_DATA, NULL),
    [K_Q8_1]    = K__ROW_DATA(q8_1, 32),
    [K_Q8_K]    = K__ROW_DATA(q8_K, 256),
    K__SCALE_TYPES(K__ROW_SCALE)
    K__INT_TYPES(K__ROW_INT)
    [K_F16_ROUND] = {"f16 as bf16", 1, 2, K_KIND_FLOAT, 0, 0, K__ROW_OF(k_dequant_f16_round, NULL, NULL)},
    [4]  = K__ROW_GONE("q4_2"),
    [5]  = K__ROW_GONE("q4_3"),
    [31] = K__ROW_GONE("q4_0_4_4"),
    [32] = K__ROW_GONE("q4_0_4_8"),
    [33] = K__ROW_GONE("q4_0_8_8"),
    [37] = K__ROW_GONE("iq4_nl_4_8"),
    [38] = K__ROW_GONE("iq4_nl_8_8"),
};

/* Other ids of ik_llama.cpp. Those from 200 on are rows of a type interleaved for its kernels, _rN, and 97 to 99 activations. */
static const struct {
    uint16_t    id;
    const char *name;
} k__foreign[] = {
    {97, "q8_0_x4"}, {98, "q8_1_x4"}, {99, "q8_2_x4"}, {134, "iq1_bn"}, {135, "iq2_bn"}, {136, "q8_K64"}, {142, "iq2_tn"},
    {143, "iq1_tn"}, {147, "q8_K16"}, {148, "q8_K32"}, {149, "q8_KR8"}, {150, "q8_K128"}, {151, "q8_KV"},
    {202, "q4_0_r8"}, {206, "q5_0_r4"}, {208, "q8_0_r8"}, {210, "q2_K_r4"}, {211, "q3_K_r4"},
    {212, "q4_K_r4"}, {213, "q5_K_r4"}, {214, "q6_K_r4"}, {216, "iq2_xxs_r4"}, {217, "iq2_xs_r4"},
    {218, "iq3_xxs_r4"}, {219, "iq1_s_r4"}, {220, "iq4_nl_r4"}, {221, "iq3_s_r4"}, {222, "iq2_s_r4"},
    {223, "iq4_xs_r8"}, {229, "iq1_m_r4"}, {230, "bf16_r16"}, {233, "q6_0_r4"}, {335, "iq2_bn_r4"},
    {337, "iq2_k_r4"}, {338, "iq3_k_r4"}, {339, "iq4_k_r4"}, {340, "iq5_k_r4"}, {344, "iq4_ks_r4"},
    {352, "iq5_ks_r4"}, {353, "mxfp4_r8"}, {397, "q8_K_r16"}, {398, "q8_KV_r8"}, {399, "q8_K_r8"},
};

K_PUBLIC const char *k_type_foreign(uint32_t id) {
    for (size_t i = 0; i < sizeof k__foreign / sizeof *k__foreign; i++)
        if (k__foreign[i].id == id) return k__foreign[i].name;
    return NULL;
}

K_PUBLIC bool k_type_weight(uint32_t id) { return k_type_ok(id) && k_types[id].kind != K_KIND_DATA; }

K_PUBLIC int k_type_by_name(const char *name) {
    for (int id = 0; id < K_TYPE_MAX; id++)
        if (k_type_ok((uint32_t)id) && strcasecmp(k_types[id].name, name) == 0) return id;
    return -1;
}

K_PUBLIC size_t k_row_bytes(uint32_t id, int64_t n) {
    size_t bytes;
    if (!k_type_ok(id) || n < 0 || n % k_types[id].block) return 0;
    if (__builtin_mul_overflow(n / k_types[id].block, k_types[id].bytes, &bytes)) return 0;
    return __builtin_add_overflow(bytes, n ? (size_t)k__row_front(id) : 0, &bytes) ? 0 : bytes;
}
