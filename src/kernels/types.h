/* ===== [types] one row per format =====
 * The index is the id in the file; an unused id has no name. To add a format: its id and block in [fmt], a decoder in [unpack], a
 * line of K_DEQUANT_* in [ref], a row here, a row in k__plans_512 and in k__plans_avx2 (any_int or any_scale multiply what the
 * decoder returns; kernels of its own come when a benchmark asks for them), golden blocks from tests/gen/golden_blocks.py. */

/* Parts 1 and 2 ([api]) need the numbers of a row; its functions are those of part 3. */
#if K__PART(3)
#define K__ROW_OF(...) __VA_ARGS__
#else
#define K__ROW_OF(...) NULL, NULL, NULL
#endif
#define K_ROW_PLAIN(type, bytes, kind, quant) {#type, 1, bytes, kind, 0, 0, K__ROW_OF(k_dequant_##type, NULL, quant)}
#define K_ROW_DATA(type, block) \
    {#type, block, sizeof(block_##type), K_KIND_DATA, 0, 0, K__ROW_OF(k_dequant_##type, NULL, NULL)}
#define K_ROW_INT(type, min) \
    {#type, 256, sizeof(block_##type), K_KIND_INT, 0, min, K__ROW_OF(k_dequant_##type, k_unpack_##type, NULL)}
#define K_ROW_SCALE(type, block, group, min, quant) \
    {#type, block, sizeof(block_##type), K_KIND_SCALE, group, min, K__ROW_OF(k_dequant_##type, k_unpack_##type, quant)}
#define K_ROW_GONE(name) {name, 0, 0, K_KIND_NONE, 0, 0, NULL, NULL, NULL}

K_PUBLIC const k_type k_types[K_TYPE_MAX + 1] = {
    [K_F32]     = K_ROW_PLAIN(f32, 4, K_KIND_FLOAT, k_quant_f32),
    [K_F16]     = K_ROW_PLAIN(f16, 2, K_KIND_FLOAT, k_quant_f16),
    [K_BF16]    = K_ROW_PLAIN(bf16, 2, K_KIND_FLOAT, k_quant_bf16),
    [K_F64]     = K_ROW_PLAIN(f64, 8, K_KIND_DATA, NULL),
    [K_I8]      = K_ROW_PLAIN(i8, 1, K_KIND_DATA, NULL),
    [K_I16]     = K_ROW_PLAIN(i16, 2, K_KIND_DATA, NULL),
    [K_I32]     = K_ROW_PLAIN(i32, 4, K_KIND_DATA, NULL),
    [K_I64]     = K_ROW_PLAIN(i64, 8, K_KIND_DATA, NULL),
    [K_Q8_1]    = K_ROW_DATA(q8_1, 32),
    [K_Q8_K]    = K_ROW_DATA(q8_K, 256),
    /*                        type    block group  min    quant */
    [K_Q4_0]    = K_ROW_SCALE(q4_0,   32,   32,    false, k_quant_q4_0),
    [K_Q4_1]    = K_ROW_SCALE(q4_1,   32,   32,    true,  k_quant_q4_1),
    [K_Q5_0]    = K_ROW_SCALE(q5_0,   32,   32,    false, k_quant_q5_0),
    [K_Q5_1]    = K_ROW_SCALE(q5_1,   32,   32,    true,  k_quant_q5_1),
    [K_Q8_0]    = K_ROW_SCALE(q8_0,   32,   32,    false, k_quant_q8_0),
    [K_IQ4_NL]  = K_ROW_SCALE(iq4_nl, 32,   32,    false, NULL),
    [K_MXFP4]   = K_ROW_SCALE(mxfp4,  32,   32,    false, NULL),
    [K_NVFP4]   = K_ROW_SCALE(nvfp4,  64,   16,    false, NULL),
    [K_Q1_0]    = K_ROW_SCALE(q1_0,   128,  32,    false, NULL),
    [K_Q2_0]    = K_ROW_SCALE(q2_0,   64,   32,    false, NULL),
    [K_Q2_K]    = K_ROW_INT(q2_K, true),
    [K_Q3_K]    = K_ROW_INT(q3_K, false),
    [K_Q4_K]    = K_ROW_INT(q4_K, true),
    [K_Q5_K]    = K_ROW_INT(q5_K, true),
    [K_Q6_K]    = K_ROW_INT(q6_K, false),
    [K_TQ1_0]   = K_ROW_INT(tq1_0, false),
    [K_TQ2_0]   = K_ROW_INT(tq2_0, false),
    [K_IQ2_XXS] = K_ROW_INT(iq2_xxs, false),
    [K_IQ2_XS]  = K_ROW_INT(iq2_xs, false),
    [K_IQ2_S]   = K_ROW_INT(iq2_s, false),
    [K_IQ3_XXS] = K_ROW_INT(iq3_xxs, false),
    [K_IQ3_S]   = K_ROW_INT(iq3_s, false),
    [K_IQ1_S]   = K_ROW_INT(iq1_s, false),
    [K_IQ1_M]   = K_ROW_INT(iq1_m, false),
    [K_IQ4_XS]  = K_ROW_INT(iq4_xs, false),
    [K_F16_ROUND] = {"f16 as bf16", 1, 2, K_KIND_FLOAT, 0, 0, K__ROW_OF(k_dequant_f16_round, NULL, NULL)},
    [4]  = K_ROW_GONE("q4_2"),
    [5]  = K_ROW_GONE("q4_3"),
    [31] = K_ROW_GONE("q4_0_4_4"),
    [32] = K_ROW_GONE("q4_0_4_8"),
    [33] = K_ROW_GONE("q4_0_8_8"),
    [36] = K_ROW_GONE("iq4_nl_4_4"),
    [37] = K_ROW_GONE("iq4_nl_4_8"),
    [38] = K_ROW_GONE("iq4_nl_8_8"),
};

/* Ids of formats that only ik_llama.cpp has; it also writes 36 for BitNet's i2_s. */
static const struct {
    uint16_t    id;
    const char *name;
} k__foreign[] = {
    {36, "i2_s"}, {97, "q8_0_x4"}, {98, "q8_1_x4"}, {99, "q8_2_x4"}, {133, "q6_0"},
    {134, "iq1_bn"}, {135, "iq2_bn"}, {136, "q8_K64"}, {137, "iq2_k"}, {138, "iq3_k"},
    {139, "iq4_k"}, {140, "iq5_k"}, {141, "iq6_k"}, {142, "iq2_tn"}, {143, "iq1_tn"},
    {144, "iq4_ks"}, {145, "iq2_ks"}, {146, "iq4_kss"}, {147, "q8_K16"}, {148, "q8_K32"},
    {149, "q8_KR8"}, {150, "q8_K128"}, {151, "q8_KV"}, {152, "iq5_ks"}, {153, "iq2_kt"},
    {154, "iq3_kt"}, {155, "iq4_kt"}, {156, "iq3_ks"}, {157, "iq2_kl"}, {158, "iq1_kt"},
    {202, "q4_0_r8"}, {206, "q5_0_r4"}, {208, "q8_0_r8"}, {210, "q2_k_r4"}, {211, "q3_k_r4"},
    {212, "q4_k_r4"}, {213, "q5_k_r4"}, {214, "q6_k_r4"}, {216, "iq2_xxs_r4"}, {217, "iq2_xs_r4"},
    {218, "iq3_xxs_r4"}, {219, "iq1_s_r4"}, {220, "iq4_nl_r4"}, {221, "iq3_s_r4"}, {222, "iq2_s_r4"},
    {223, "iq4_xs_r8"}, {229, "iq1_m_r4"}, {230, "bf16_r16"}, {233, "q6_0_r4"}, {335, "iq2_bn_r4"},
    {337, "iq2_k_r4"}, {338, "iq3_k_r4"}, {339, "iq4_k_r4"}, {340, "iq5_k_r4"}, {344, "iq4_ks_r4"},
    {352, "iq5_ks_r4"}, {353, "mxfp4_r8"}, {397, "q8_k_r16"}, {398, "q8_KV_r8"}, {399, "q8_k_r8"},
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
    return __builtin_mul_overflow(n / k_types[id].block, k_types[id].bytes, &bytes) ? 0 : bytes;
}
