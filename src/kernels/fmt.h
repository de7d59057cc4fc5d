/* ===== [fmt] blocks on disk =====
 * The ids are those of a GGUF tensor record, the structs are bytes of the file; both come from ggml's headers. A block has
 * alignment 1, since a row may begin at any byte. d is the scale, dmin or m the minimum; uint16_t scales are f16.
 * [unpack] defines the value of a code. */

enum {
    K_F32 = 0, K_F16 = 1, K_Q4_0 = 2, K_Q4_1 = 3, K_Q5_0 = 6, K_Q5_1 = 7, K_Q8_0 = 8, K_Q8_1 = 9,
    K_Q2_K = 10, K_Q3_K = 11, K_Q4_K = 12, K_Q5_K = 13, K_Q6_K = 14, K_Q8_K = 15,
    K_IQ2_XXS = 16, K_IQ2_XS = 17, K_IQ3_XXS = 18, K_IQ1_S = 19,
    K_IQ4_NL = 20, K_IQ3_S = 21, K_IQ2_S = 22, K_IQ4_XS = 23,
    K_I8 = 24, K_I16 = 25, K_I32 = 26, K_I64 = 27, K_F64 = 28, K_IQ1_M = 29, K_BF16 = 30,
    K_TQ1_0 = 34, K_TQ2_0 = 35, K_MXFP4 = 39, K_NVFP4 = 40, K_Q1_0 = 41, K_Q2_0 = 42,
    K_TYPE_MAX,                                          /* after the largest id */
    K_F16_ROUND = K_TYPE_MAX                             /* not a type of files: f16 weights that are rounded to bf16 when read */
};
#define K_SUPER 256                                      /* weights in a super-block */

#ifdef __cplusplus
#define FMT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "blocks of the file have this size")
#else
#define FMT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "blocks of the file have this size")
#endif
#define FMT_BLOCK struct __attribute__((packed))

/* Plain blocks: one scale for a few weights. */
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_q4_0;
typedef FMT_BLOCK { uint16_t d, m; uint8_t qs[16]; } block_q4_1;
typedef FMT_BLOCK { uint16_t d; uint8_t qh[4], qs[16]; } block_q5_0;
typedef FMT_BLOCK { uint16_t d, m; uint8_t qh[4], qs[16]; } block_q5_1;
typedef FMT_BLOCK { uint16_t d; int8_t qs[32]; } block_q8_0;
typedef FMT_BLOCK { uint16_t d, s; int8_t qs[32]; } block_q8_1;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_iq4_nl;
typedef FMT_BLOCK { uint8_t e, qs[16]; } block_mxfp4;
typedef FMT_BLOCK { uint8_t d[4], qs[32]; } block_nvfp4;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_q1_0;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_q2_0;
FMT_SIZE(block_q4_0, 18); FMT_SIZE(block_q4_1, 20); FMT_SIZE(block_q5_0, 22); FMT_SIZE(block_q5_1, 24);
FMT_SIZE(block_q8_0, 34); FMT_SIZE(block_q8_1, 36); FMT_SIZE(block_iq4_nl, 18); FMT_SIZE(block_mxfp4, 17);
FMT_SIZE(block_nvfp4, 36); FMT_SIZE(block_q1_0, 18); FMT_SIZE(block_q2_0, 18);

/* Super-blocks of 256: one float scale, and a small integer scale for each group. */
typedef FMT_BLOCK { uint8_t scales[16], qs[64]; uint16_t d, dmin; } block_q2_K;
typedef FMT_BLOCK { uint8_t hmask[32], qs[64], scales[12]; uint16_t d; } block_q3_K;
typedef FMT_BLOCK { uint16_t d, dmin; uint8_t scales[12], qs[128]; } block_q4_K;
typedef FMT_BLOCK { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; } block_q5_K;
typedef FMT_BLOCK { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; } block_q6_K;
typedef FMT_BLOCK { float d; int8_t qs[256]; int16_t bsums[16]; } block_q8_K;
typedef FMT_BLOCK { uint8_t qs[48], qh[4]; uint16_t d; } block_tq1_0;
typedef FMT_BLOCK { uint8_t qs[64]; uint16_t d; } block_tq2_0;
FMT_SIZE(block_q2_K, 84); FMT_SIZE(block_q3_K, 110); FMT_SIZE(block_q4_K, 144); FMT_SIZE(block_q5_K, 176);
FMT_SIZE(block_q6_K, 210); FMT_SIZE(block_q8_K, 292); FMT_SIZE(block_tq1_0, 54); FMT_SIZE(block_tq2_0, 66);

/* Super-blocks whose codes are points of a fixed grid of 4 or 8 weights. */
typedef FMT_BLOCK { uint16_t d; uint32_t qs[16]; } block_iq2_xxs;
typedef FMT_BLOCK { uint16_t d, qs[32]; uint8_t scales[8]; } block_iq2_xs;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[32], signs[32], qh[8], scales[8]; } block_iq2_s;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[64]; uint32_t aux[8]; } block_iq3_xxs;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[64], qh[8], signs[32], scales[4]; } block_iq3_s;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; } block_iq1_s;
typedef FMT_BLOCK { uint8_t qs[32], qh[16]; uint16_t scales[4]; } block_iq1_m;
typedef FMT_BLOCK { uint16_t d, scales_h; uint8_t scales_l[4], qs[128]; } block_iq4_xs;
FMT_SIZE(block_iq2_xxs, 66); FMT_SIZE(block_iq2_xs, 74); FMT_SIZE(block_iq2_s, 82);
FMT_SIZE(block_iq3_xxs, 98); FMT_SIZE(block_iq3_s, 110); FMT_SIZE(block_iq1_s, 50);
FMT_SIZE(block_iq1_m, 56); FMT_SIZE(block_iq4_xs, 136);
