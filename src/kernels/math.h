/* ===== [math] functions of one value =====
 * What a CPU's scalar level and a GPU compute by the same code. Every operation
 * rounds once: fused where the source has fmaf(), and nowhere else. */

/* --- exp and tanh ---
 * exp: x = n ln2 + r with |r| <= 0.347, exp(r) = 1 + r + r^2 P(r), P minimax of degree 4 (relative error 3e-9).
 * n is added to the exponent bits. Below K_EXP_LO the result would be a denormal and is 0, above K_EXP_HI it is inf.
 * tanh: x + x^3 T(x^2) below 0.625 (minimax, 5e-9), 1 - 2/(exp(2x)+1) above. */
#define K_EXP_LO (-87.336f)
#define K_EXP_HI 0x1.62e42ep+6f
#define K_LOG2E 0x1.715476p+0f
#define K_LN2_HI 0x1.62e4p-1f
#define K_LN2_LO 0x1.7f7d1cp-20f
#define K_ROUND 0x1.8p+23f                      /* x + K_ROUND has the nearest integer in its low bits */
#define K_TANH_SMALL 0.625f
K_BOTH const float k__exp_c[5] = {0x1.fffffcp-2f, 0x1.555490p-3f, 0x1.5558f4p-5f, 0x1.123a6cp-7f, 0x1.6a234ap-10f};
K_BOTH const float k__tanh_c[5] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c58p-5f, 0x1.522692p-6f, -0x1.75e1a6p-8f};

K_BOTH inline float k__exp_ref(float x) {
    float    t = fmaf(x, K_LOG2E, K_ROUND), n = t - K_ROUND;
    float    r = fmaf(n, -K_LN2_LO, fmaf(n, -K_LN2_HI, x));
    float    p = fmaf(fmaf(k__exp_c[4], r, k__exp_c[3]), r, k__exp_c[2]);
    uint32_t bits, shift;
    p = fmaf(fmaf(p, r, k__exp_c[1]), r, k__exp_c[0]);
    p = fmaf(p, r * r, r) + 1.0f;
    memcpy(&bits, &p, 4);
    memcpy(&shift, &t, 4);
    bits += shift << 23;
    memcpy(&p, &bits, 4);
    return x != x ? x : x > K_EXP_HI ? INFINITY : x < K_EXP_LO ? 0.0f : p;
}

K_BOTH inline float k__tanh_ref(float x) {
    float z = x * x;
    float p = fmaf(fmaf(fmaf(fmaf(k__tanh_c[4], z, k__tanh_c[3]), z, k__tanh_c[2]), z, k__tanh_c[1]), z, k__tanh_c[0]);
    float big = 1.0f - 2.0f / (k__exp_ref(fabsf(x) * 2.0f) + 1.0f);
    return fabsf(x) < K_TANH_SMALL ? fmaf(x * z, p, x) : copysignf(big, x);
}

/* --- normal distribution function, logarithm ---
 * Phi: 1/2 + x S(x^2) up to 1 (minimax of degree 5, error 3e-10), 1 - tail(x) above, tail(-x) below -1. tail(a) = exp(-a^2/2)
 * T(t) with t = 1/(1 + 0.3a), T minimax of degree 8 (relative error 1e-8) up to a = 13.3. The rounding error of a^2 is taken
 * into account, so the result is within 4e-7 of its value even where it is 1e-37, and erf(x/sqrt(2)) = 2 Phi(x) - 1 within 1e-7.
 * log(1 + e) = s (2 + s^2 L(s^2)) with s = e/(2 + e), for 0 <= e <= 1 (minimax of degree 4, relative error 4e-10). */
#define K_PHI_SMALL 1.0f
#define K_PHI_FAR 14.0f                         /* exp(-98) is 0 here */
K_BOTH const float k__phi_c[6] = {0x1.988454p-2f,   -0x1.105832p-4f, 0x1.46ce5ep-7f,
                                  -0x1.36fecep-10f, 0x1.dc1b4ap-14f, -0x1.012f18p-17f};
K_BOTH const float k__tail_c[9] = {0x1.5aedf8p-17f, 0x1.e93054p-4f, 0x1.f512b2p-4f, 0x1.7d7facp-4f, 0x1.2a54f6p-3f,
                                   -0x1.46160p-4f,  0x1.d56f78p-3f, -0x1.579d1ep-3f, 0x1.33dbd4p-5f};
K_BOTH const float k__log_c[5] = {0x1.555556p-1f, 0x1.9998cep-2f, 0x1.24ca56p-2f, 0x1.bc6ab8p-3f, 0x1.dc3cc8p-3f};

/* c[n - 1] x^(n-1) + ... + c[0]. */
K_BOTH inline float k__poly_ref(const float *c, int n, float x) {
    float p = c[n - 1];
    for (int i = n - 2; i >= 0; i--) p = fmaf(p, x, c[i]);
    return p;
}

K_BOTH inline float k__phi_ref(float x) {
    const float a = fabsf(x) > K_PHI_FAR ? K_PHI_FAR : fabsf(x), z = a * a, lost = fmaf(a, a, -z), e = k__exp_ref(-0.5f * z);
    const float tail = fmaf(e, -0.5f * lost, e) * k__poly_ref(k__tail_c, 9, 1.0f / fmaf(0.3f, a, 1.0f));
    if (a < K_PHI_SMALL) return fmaf(x, k__poly_ref(k__phi_c, 6, z), 0.5f);
    return x > 0 ? 1.0f - tail : tail;
}

/* log(1 + exp(x)) */
K_BOTH inline float k__softplus_ref(float x) {
    const float e = k__exp_ref(-fabsf(x)), s = e / (2.0f + e), z = s * s;
    const float log = e * (fmaf(z, k__poly_ref(k__log_c, 5, z), 2.0f) / (2.0f + e));    /* s may be a denormal where e is none */
    return x > 0 ? x + log : log;
}

/* exp(x) - 1 - x, for x <= 0 without cancellation, from x and e = exp(x). */
K_BOTH inline float k__past_line_ref(float x, float e) {
    const float near = x * x * (0.5f + x * (1 / 6.0f + x * (1 / 24.0f + x * (1 / 120.0f + x * (1 / 720.0f)))));
    return x < -0.25f ? e - 1.0f - x : near;
}

/* xIELU(x), from x and e = exp(min(x, eps)). */
K_BOTH inline float k__xielu_low(float x, const k_row_xielu *of) { return x < of->eps ? x : of->eps; }
K_BOTH inline float k__xielu_ref(float x, float e, const k_row_xielu *of) {
    const float low = k__xielu_low(x, of), bent = k__past_line_ref(low, e) + (low - x);
    return (x > 0 ? of->p * x * x : of->n * bent) + of->beta * x;
}

/* 1/sum, or the sum itself where it is 0 (everything is masked) or NaN. */
K_BOTH inline float k__share_of(float sum) { return sum > 0 ? 1.0f / sum : sum; }

/* --- activations ---
 * (1 + tanh(z))/2 = sigmoid(2z), so the tanh form of GELU needs one exp. */
#define K_GELU_1 0x1.988454p+0f                 /* 2 sqrt(2/pi), and that times 0.044715 */
#define K_GELU_3 0x1.2444f2p-4f

K_BOTH inline float k__act_ref(k_act_fn fn, float x) {
    switch (fn) {
    case K_SILU: return x / (1.0f + k__exp_ref(-x));
    case K_GELU: return x / (1.0f + k__exp_ref(-x * fmaf(x * x, K_GELU_3, K_GELU_1)));
    case K_GELU_ERF: return x * k__phi_ref(x);
    case K_SIGMOID: return 1.0f / (1.0f + k__exp_ref(-x));
    case K_RELU: return x < 0 ? 0 : x;
    case K_RELU2: return x < 0 ? 0 : x * x;
    case K_EXP: return k__exp_ref(x);
    case K_SOFTPLUS: return k__softplus_ref(x);
    }
    return x;
}

/* k_swiglu_clip for one value. */
K_BOTH inline float k__clip_ref(float gate, float up, float limit, float alpha) {
    const float g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up;
    return g / (1.0f + k__exp_ref(-alpha * g)) * (u + 1.0f);
}

/* k_clamp for one value, by its bits: modes that take tiny values for 0 then change none, however a compiler arranges it. */
K_BOTH inline float k__clamp_ref(float x, float limit, bool above) {
    const uint32_t bits = k__bits_of(x), far = bits & 0x7fffffff, sign = bits ^ far, most = k__bits_of(limit);
    return far > most && far <= 0x7f800000 && !(above && sign) ? k__f32_of(sign | most) : x;
}

/* The factor of a Walsh-Hadamard transform of `size` values. */
K_BOTH inline float k__hadamard_unit(int size) { return 1.0f / sqrtf((float)size); }

/* --- rounding to the blocks of the cache --- */

/* v where its magnitude is larger, so that the first among equals stays; never a NaN. */
K_BOTH inline float k__farther(float at, float v) { return fabsf(v) > fabsf(at) ? v : at; }

/* The nearest integer, halves away from zero, limited to the range of codes; a NaN gives 0. */
K_BOTH inline int8_t k__round8(float v) {
    v = roundf(v);
    return (int8_t)(v >= 127 ? 127 : v <= -127 ? -127 : v == v ? (int)v : 0);
}

/* trunc(v + half), limited to 0..top; a NaN gives trunc(half), the code of 0. */
K_BOTH inline int k__trunc_code(float v, float half, int top) {
    v = v == v ? v + half : half;
    return v >= (float)top ? top : v > 0 ? (int)v : 0;
}

/* Codes come from the scale in f32, before it is rounded to f16. 0 where d is 0. */
K_BOTH inline float k__inverse(float d) { return d != 0 ? 1 / d : 0; }

/* Scales by the extreme value: of codes +-127, and of codes around `mid`,
 * where the extreme gets code 0, whether it is positive or negative. */
K_BOTH inline float   k__scale127(float extreme) { return fabsf(extreme) / 127; }
K_BOTH inline float   k__scale_mid(float extreme, int mid) { return extreme / (float)-mid; }
K_BOTH inline uint8_t k__code_mid(float v, int mid) { return (uint8_t)k__trunc_code(v, (float)mid + 0.5f, 2 * mid - 1); }

/* The scale of q4_0 in a cache has the least squared error for its codes y - 8: sum(x*y) / sum(y*y). Codes are tried with
 * the extreme value at each of these; those that keep the most are taken, and the first of equals. */
enum { K_KV_TRIES = 3 };
K_BOTH inline float k__kv_aim(int i) { return i == 0 ? 8.0f : i == 1 ? 7.3f : 8.6f; }
K_BOTH inline float k__kv_part(float x, int y) { return y ? x * (float)y : 0.0f; }   /* a NaN has code 0 */

/* What codes keep of the squares of a block. */
K_BOTH inline float k__kv_kept(float xy, int yy) { return yy ? xy * xy / (float)yy : 0.0f; }

/* --- rounding of activations: blocks of up to 256 codes with one scale, +-127 for the largest magnitude amax --- */

K_BOTH inline float  k__act_inverse(float amax) { return amax > 0 ? 127.0f / amax : 0.0f; }
K_BOTH inline float  k__act_scale(float amax, bool nan) { return nan ? NAN : amax / 127.0f; }
K_BOTH inline int8_t k__act_code(float x, float inv) {
    const float v = rintf(x * inv);
    return (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v == v ? (int)v : 0);
}

/* The group of 32 whose sum is of32[i], and the place of group i's: bits 0 and 1 are swapped. */
K_BOTH inline int k__sums_at(int i) { return (i & 4) | (i & 1) << 1 | (i & 2) >> 1; }

/* In a block whose largest value is more than `peak` times the mean magnitude of the others, values above `near` times the mean
 * are far, if they are fewer than one in 8: they are multiplied apart ([far]). Values above 8 times the mean do not count for it.
 * Integers decide, so that all levels decide alike. K_FAR_UNITS: the unit is 1/32767 of the largest value; up to 129 units have
 * the code 0, so they must not be far. */
enum { K_FAR_UNITS = 32767, K_NEAR_LEAST = 130 };
K_BOTH inline int k__peak(bool fine) { return fine ? 9 : 12; }
K_BOTH inline int k__near(bool fine) { return fine ? 7 : 10; }

/* Whether a block of n with scale d, where the largest code is 127 or -127, may have far values; all: the sum of the magnitudes
 * of its codes. Not where 127 d or K_FAR_UNITS / (127 d) is infinite. */
K_BOTH inline bool k__peaked(int all, int n, float d, bool fine) {
    return d > 0 && d < FLT_MAX / 127 && (K_FAR_UNITS / 127 + 1) / d <= FLT_MAX && (all - 127) * k__peak(fine) < 127 * (n - 1);
}

/* A magnitude in units; by = K_FAR_UNITS / the largest magnitude. */
K_BOTH inline int k__far_units(float x, float by) { return (int)rintf(fabsf(x) * by); }

/* Magnitudes up to here, in units, count for the mean; all: the sum of n magnitudes, of which the largest does not count. */
K_BOTH inline int k__far_mean_of(int all, int n) { return 8 * (all - K_FAR_UNITS) / (n - 1); }

/* Magnitudes above these units are far; all: the sum of the `count` magnitudes that count. */
K_BOTH inline int k__far_above(int all, int count, bool fine) {
    const int most = count > 0 ? k__near(fine) * all / count : 0;
    return most > K_NEAR_LEAST ? most : K_NEAR_LEAST;
}
