/* ===== [fitters] one row per format that can be made =====
 * The index is the id in the file, as in k_types. To add a format: its fit in [fit] or [fit_grid], a row here, error bounds from
 * tests/gen. */

/* Codes of formats that have gaps between them, in rising order. */
static const int8_t k__fp4_levels[15] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
static const int8_t k__sign_levels[2] = {-1, 1};

K_PUBLIC const k_fitter k_fitters[K_TYPE_MAX] = {
    /*             fit            recode            lo     hi    levels */
    [K_F16]     = {k_fit_f16,     NULL,             0,     0,    NULL},
    [K_BF16]    = {k_fit_bf16,    NULL,             0,     0,    NULL},
    [K_Q4_0]    = {k_fit_q4_0,    k_recode_q4_0,    -8,    7,    NULL},
    [K_Q4_1]    = {k_fit_q4_1,    k_recode_q4_1,    0,     15,   NULL},
    [K_Q5_0]    = {k_fit_q5_0,    k_recode_q5_0,    -16,   15,   NULL},
    [K_Q5_1]    = {k_fit_q5_1,    k_recode_q5_1,    0,     31,   NULL},
    [K_Q8_0]    = {k_fit_q8_0,    k_recode_q8_0,    -127,  127,  NULL},
    [K_Q2_K]    = {k_fit_q2_K,    k_recode_q2_K,    0,     3,    NULL},
    [K_Q3_K]    = {k_fit_q3_K,    k_recode_q3_K,    -4,    3,    NULL},
    [K_Q4_K]    = {k_fit_q4_K,    k_recode_q4_K,    0,     15,   NULL},
    [K_Q5_K]    = {k_fit_q5_K,    k_recode_q5_K,    0,     31,   NULL},
    [K_Q6_K]    = {k_fit_q6_K,    k_recode_q6_K,    -32,   31,   NULL},
    [K_IQ4_NL]  = {k_fit_iq4_nl,  k_recode_iq4_nl,  -127,  113,  k__iq4_values},
    [K_IQ4_XS]  = {k_fit_iq4_xs,  k_recode_iq4_xs,  -127,  113,  k__iq4_values},
    [K_MXFP4]   = {k_fit_mxfp4,   k_recode_mxfp4,   -12,   12,   k__fp4_levels},
    [K_NVFP4]   = {k_fit_nvfp4,   k_recode_nvfp4,   -12,   12,   k__fp4_levels},
    [K_TQ1_0]   = {k_fit_tq1_0,   k_recode_tq1_0,   -1,    1,    NULL},
    [K_TQ2_0]   = {k_fit_tq2_0,   k_recode_tq2_0,   -1,    1,    NULL},
    [K_Q1_0]    = {k_fit_q1_0,    k_recode_q1_0,    -1,    1,    k__sign_levels},
    [K_Q2_0]    = {k_fit_q2_0,    k_recode_q2_0,    -1,    2,    NULL},
    [K_IQ2_XXS] = {k_fit_iq2_xxs, NULL,             0,     0,    NULL},
    [K_IQ2_XS]  = {k_fit_iq2_xs,  NULL,             0,     0,    NULL},
    [K_IQ2_S]   = {k_fit_iq2_s,   NULL,             0,     0,    NULL},
    [K_IQ3_XXS] = {k_fit_iq3_xxs, NULL,             0,     0,    NULL},
    [K_IQ3_S]   = {k_fit_iq3_s,   NULL,             0,     0,    NULL},
    [K_IQ1_S]   = {k_fit_iq1_s,   NULL,             0,     0,    NULL},
    [K_IQ1_M]   = {k_fit_iq1_m,   NULL,             0,     0,    NULL},
};

/* Quantises a block of 2^30, which no f16 scale reaches, or of the largest float. */
K_PUBLIC float k_most(uint32_t id) {
    float   x[K_SUPER], most = 0;
    uint8_t blocks[K_SUPER * sizeof(float)];
    if (!k_fitters[id].fit) return FLT_MAX;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < K_SUPER; i++) x[i] = t ? FLT_MAX : 0x1p30f;
        k_fitters[id].fit(x, NULL, blocks, K_SUPER);
        k_types[id].dequant(blocks, x, K_SUPER);
        for (int i = 0; i < K_SUPER; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    return most;
}
