/* ===== [conv] small floats =====
 * Widening is exact. Narrowing rounds to nearest, ties to even. A NaN becomes quiet and keeps its sign and upper bits, as the
 * F16C instructions do. The rounding mode must be the default. */

K_BOTH inline float    k__f32_of(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
K_BOTH inline uint32_t k__bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

K_BOTH inline float k_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag < 0x0400) return k__f32_of(sign | k__bits_of((float)mag * 0x1p-24f)); /* subnormal */
    if (mag < 0x7c00) return k__f32_of(sign | ((mag << 13) + (112u << 23)));      /* bias 15 to 127 */
    return k__f32_of(sign | 0x7f800000 | (mag & 0x3ff) << 13 | (mag > 0x7c00 ? 0x400000 : 0));
}

K_BOTH inline uint16_t k_f32_to_f16(float f) {
    uint32_t u = k__bits_of(f), mag = u & 0x7fffffff;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x477ff000) return (uint16_t)(sign | 0x7c00);      /* 65520, the tie above 65504 */
    /* Below 2^-14 the result is a multiple of 2^-24. Floats above 0.5 have that spacing, so the addition rounds. */
    if (mag < 0x38800000) return (uint16_t)(sign | (k__bits_of(k__f32_of(mag) + 0.5f) - 0x3f000000));
    mag -= 112u << 23;
    return (uint16_t)(sign | (mag + 0xfff + (mag >> 13 & 1)) >> 13);
}

K_BOTH inline float k_bf16_to_f32(uint16_t h) { return k__f32_of((uint32_t)h << 16); }

K_BOTH inline uint16_t k_f32_to_bf16(float f) {
    uint32_t u = k__bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

K_BOTH inline float k__f16_as_bf16(uint16_t h) { return k_bf16_to_f32(k_f32_to_bf16(k_f16_to_f32(h))); }

/* Half of the OCP E8M0 scale, 2^(e - 128): the values of the E2M1 table are doubled. Code 255 is NaN in the OCP document and
 * 2^127 here, as in ggml. */
K_BOTH inline float k_e8m0_half(uint8_t e) {
    return k__f32_of(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an E4M3 scale, for the same table. The sign bit is ignored; 0x7f, a NaN in the standard, is zero. */
K_BOTH inline float k_ue4m3_half(uint8_t x) {
    int e = x >> 3 & 15, m = x & 7;
    if (x == 0x7f) return 0;
    if (!e) return (float)m * 0x1p-10f;
    return k__f32_of((uint32_t)(e + 119) << 23 | (uint32_t)m << 20);  /* (1 + m/8) * 2^(e - 8) */
}
