/* ===== [quant] quantised products, scalar =====
 * The plain form of the products. Integers are summed exactly inside a block of 256 weights; the
 * float terms of blocks are added in one fixed order. Every other level must give the same bits. */

/* Codes q, their sums and the scale of one block of n activations, n % 32 == 0, n <= 256. A NaN makes the scale NaN, an infinity
 * makes it infinite; their codes are 0, so the result shows the fault without undefined behaviour. Returns the sum of the
 * magnitudes of the codes. */
static int k_quant_act_ref(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    float amax = 0;
    bool  nan = false;
    int   all = 0;
    for (int i = 0; i < n; i++) {
        float m = fabsf(x[i]);
        if (m > amax) amax = m;
        if (m != m) nan = true;
    }
    const float inv = k__act_inverse(amax);
    *d = k__act_scale(amax, nan);
    for (int i = 0; i < n; i++) {
        q[i] = k__act_code(x[i], inv);
        all += q[i] < 0 ? -q[i] : q[i];
    }
    memset(sum, 0, sizeof *sum);
    for (int i = 0; i < n; i++) sum->of16[i / 16] = (int16_t)(sum->of16[i / 16] + q[i]);
    for (int i = 0; i < 8; i++) {
        const int g = k__sums_at(i);
        sum->of32[i] = (int16_t)(sum->of16[2 * g] + sum->of16[2 * g + 1]);
    }
    for (int i = 0; i < n; i += 32) {
        int one[2] = {0, 0}, each[2] = {0, 0};        /* sums of each sign; of magnitudes, of each 16 */
        for (int k = 0; k < 32; k++) {
            const int size = q[i + k] < 0 ? -q[i + k] : q[i + k];
            one[q[i + k] < 0] += size;
            each[k / 16] += size;
        }
        for (int h = 0; h < 2; h++) {
            if (one[h] > sum->most32) sum->most32 = (int16_t)one[h];
            if (each[h] > sum->most16) sum->most16 = (int16_t)each[h];
        }
    }
    return all;
}

/* The places of the far values of a block of n values (k__peaked), in rising order. Returns how many there are. */
static int k_far_act_ref(const float *x, int n, bool fine, uint8_t at[K_SUPER]) {
    float amax = 0;
    int   all = 0, some = 0, count = 0;
    for (int i = 0; i < n; i++) amax = k__farther(amax, fabsf(x[i]));
    const float by = (float)K_FAR_UNITS / amax;
    for (int i = 0; i < n; i++) all += k__far_units(x[i], by);
    const int most = k__far_mean_of(all, n);
    for (int i = 0; i < n; i++) {
        const int units = k__far_units(x[i], by);
        if (units <= most) some += units, count++;
    }
    const int above = k__far_above(some, count, fine);
    count = 0;
    for (int i = 0; i < n; i++)
        if (k__far_units(x[i], by) > above) at[count++] = (uint8_t)i;
    return count;
}

K__SHARED void k__unpack_block(uint32_t type, const void *src, int n, k__unpacked *u);
#if K__PART(3)
K__SHARED void k__unpack_block(uint32_t type, const void *src, int n, k__unpacked *u) {
    k_urow row = {.q = u->q, .sc = u->sc, .mn = u->mn, .d = &u->d, .dm = &u->dm, .fs = u->fs, .fm = u->fm};
    k_types[type].unpack(src, n, &row);
}
#endif

/* The block of n weights that begins with weight k of a row. */
static inline void k__unpack_at(uint32_t type, const void *row, int k, int n, k__unpacked *u) {
    const k_type *ty = &k_types[type];
    k__unpack_block(type, (const uint8_t *)row + k__row_front(type) + (size_t)(k / ty->block) * ty->bytes, n, u);
    if (k__row_front(type)) u->d = k__row_scale(type, row);
}

typedef struct k__far_mem k__far_mem;                /* [far] */

static int k__row_of(const k_acts *a, int t) { return a->idx ? a->idx[t] : t; }

static int k__dot8_ref(const int8_t *w, const int8_t *x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += w[i] * x[i];
    return s;
}

static float k__int_block_ref(const k__unpacked *u, bool has_min, const int8_t *q, const int16_t *sum) {
    int isum = 0, imin = 0;
    for (int g = 0; g < 16; g++) {
        isum += u->sc[g] * k__dot8_ref(u->q + 16 * g, q + 16 * g, 16);
        if (has_min) imin += u->mn[g] * sum[g];
    }
    float r = u->d * (float)isum;
    if (has_min) r = r - u->dm * (float)imin;
    return r;
}

static float k__scale_block_ref(const k__unpacked *u, int group, bool has_min, const int8_t *q,
                                const int16_t *sum, int n) {
    float t = 0;
    for (int g = 0; g * group < n; g++) {
        t = t + u->fs[g] * (float)k__dot8_ref(u->q + g * group, q + g * group, group);
        if (!has_min) continue;
        int asum = 0;
        for (int i = 0; i < group / 16; i++) asum += sum[g * group / 16 + i];
        t = t + u->fm[g] * (float)asum;
    }
    return t;
}

static void k_mul_quant_ref(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                            float *y, size_t ldy, void *scratch) {
    const k_type *ty = &k_types[type];
    (void)scratch;
    for (int r = 0; r < nr; r++) {
        const uint8_t *p = (const uint8_t *)w + (size_t)r * row_bytes;
        for (int t = 0; t < a->nt; t++) y[(size_t)t * ldy + r] = 0;
        for (int k = 0; k < n; k += K_SUPER) {
            k__unpacked u;
            int         len = n - k < K_SUPER ? n - k : K_SUPER;
            k__unpack_at(type, p, k, len, &u);
            for (int t = 0; t < a->nt; t++) {
                size_t         row = (size_t)k__row_of(a, t);
                const int8_t  *q = a->q + row * a->ldq + k;
                const int16_t *sum = a->sum[row * a->ldd + (size_t)k / K_SUPER].of16;
                float          v = ty->kind == K_KIND_INT
                                       ? k__int_block_ref(&u, ty->has_min, q, sum)
                                       : k__scale_block_ref(&u, ty->group, ty->has_min, q, sum, len);
                float         *out = &y[(size_t)t * ldy + r];
                *out = *out + v * a->d[row * a->ldd + k / K_SUPER];
            }
        }
    }
}
