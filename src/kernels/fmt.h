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
    /* Numbers of bitnet.cpp and of ik_llama.cpp. */
    K_I2_S = 36, K_Q6_0 = 133, K_IQ2_K = 137, K_IQ3_K = 138, K_IQ4_K = 139, K_IQ5_K = 140, K_IQ6_K = 141,
    K_IQ4_KS = 144, K_IQ2_KS = 145, K_IQ4_KSS = 146, K_IQ5_KS = 152, K_IQ2_KT = 153, K_IQ3_KT = 154, K_IQ4_KT = 155,
    K_IQ3_KS = 156, K_IQ2_KL = 157, K_IQ1_KT = 158,
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
typedef FMT_BLOCK { uint16_t d; uint8_t qh[8], qs[16]; } block_q6_0;
typedef FMT_BLOCK { uint8_t qs[32]; } block_i2_s;         /* one f32 scale after all rows of a tensor, in 32 bytes */
FMT_SIZE(block_q6_0, 26); FMT_SIZE(block_i2_s, 32);

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

/* Super-blocks of ik_llama.cpp: codes are indices into a table of values, which a bit of `extra` shifts for each group. */
typedef FMT_BLOCK { uint16_t d, extra; uint8_t scales[8], qs[64]; } block_iq2_k;
typedef FMT_BLOCK { uint16_t d, extra, scales_h; uint8_t scales_l[8], qs[64], qh[32]; } block_iq3_k;
typedef FMT_BLOCK { uint16_t d, extra; uint8_t scales_h[4], scales_l[8], qs[128]; } block_iq4_k;
typedef FMT_BLOCK { uint16_t d, extra; uint8_t scales_h[4], scales_l[8], qs[128], qh[32]; } block_iq5_k;
typedef FMT_BLOCK { uint16_t d, extra; int8_t scales[16]; uint8_t qs[128], qh[64]; } block_iq6_k;
FMT_SIZE(block_iq2_k, 76); FMT_SIZE(block_iq3_k, 110); FMT_SIZE(block_iq4_k, 144); FMT_SIZE(block_iq5_k, 176);
FMT_SIZE(block_iq6_k, 212);

/* The same where the float scale stands once, in front of the blocks of a row: f16 (2 bytes) or f32 (4 bytes). */
typedef FMT_BLOCK { uint16_t extra; uint8_t scales[4], qs[64]; } block_iq2_ks;                 /* f16 */
typedef FMT_BLOCK { uint16_t scales_h; uint8_t scales_l[4], qs[64], qh[16]; } block_iq2_kl;    /* f16 */
typedef FMT_BLOCK { uint16_t extra; uint8_t scales[4], qs[64], qh[32]; } block_iq3_ks;         /* f16 */
typedef FMT_BLOCK { uint8_t scales[8], qs[128]; } block_iq4_ks;                                /* f32, as those below */
typedef FMT_BLOCK { uint16_t qs[64]; } block_iq4_kss;
typedef FMT_BLOCK { uint8_t scales[8], qs[128], qh[32]; } block_iq5_ks;
typedef FMT_BLOCK { uint8_t sh[8], ql[32], qh[16]; } block_iq1_kt;
typedef FMT_BLOCK { uint8_t scales[4]; uint16_t ql[32]; } block_iq2_kt;
typedef FMT_BLOCK { uint8_t scales[4]; uint16_t ql[32]; uint8_t qh[32]; } block_iq3_kt;
typedef FMT_BLOCK { uint32_t sh[8]; uint8_t ql[64], qh[32]; } block_iq4_kt;
FMT_SIZE(block_iq2_ks, 70); FMT_SIZE(block_iq2_kl, 86); FMT_SIZE(block_iq3_ks, 102); FMT_SIZE(block_iq4_ks, 136);
FMT_SIZE(block_iq4_kss, 128); FMT_SIZE(block_iq5_ks, 168); FMT_SIZE(block_iq1_kt, 56); FMT_SIZE(block_iq2_kt, 68);
FMT_SIZE(block_iq3_kt, 100); FMT_SIZE(block_iq4_kt, 128);

/* The types with such rows, and the bytes in front of a row. */
#define K__ROW_TYPES(X) \
    X(IQ2_KS, 2) X(IQ2_KL, 2) X(IQ3_KS, 2) X(IQ4_KS, 4) X(IQ4_KSS, 4) X(IQ5_KS, 4) X(IQ1_KT, 4) X(IQ2_KT, 4) X(IQ3_KT, 4) \
    X(IQ4_KT, 4)
