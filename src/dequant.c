/* ===== [dequant] (dq) matrices of checkpoints, plain and quantised =====
 * A dq_mat is a matrix, or a stack of them, as a checkpoint stores it: one tensor of floats, or several tensors of GPTQ, AWQ,
 * bitsandbytes, compressed-tensors, FP8, MXFP4 or NVFP4. dq_rows() gives rows of it as floats, to the bit as each library's
 * own formula has them when it computes in F32; dq_pack_rows() gives rows in the type of GGUF files that holds exactly the same
 * values, where there is one (dq_exact). W is [rows, cols] as it is used, whatever the order of the file.
 *   GPTQ           w = s[g[k]] (q - z); codes along K, a stream of bits; version 1 of the format stores z - 1
 *   AWQ            w = s (q - z); eight columns in a word, in the order 0 2 4 6 1 3 5 7
 *   bitsandbytes   w = map[q] absmax, two codes in a byte, the first in the high bits; absmax itself may be quantised; int8: SCB
 *   packed         compressed-tensors: w = s (q - z), codes along K
 *   scaled         one byte or float a weight, with a scale for the tensor, each row, each group or each block: FP8, int8
 *   FP4            e2m1 in groups of 16 or 32; scales e8m0 (MXFP4), or e4m3 and a factor for all (NVFP4)
 * The caller has checked the shapes with dq_check().
 * Public: dq_plain, dq_check, dq_rows, dq_exact, dq_pack_rows, dq_row_view, dq_floats.
 * Opens: dq_mat. */

typedef enum { DQ_PLAIN, DQ_SCALED, DQ_GPTQ, DQ_AWQ, DQ_PACKED, DQ_BNB4, DQ_BNB8, DQ_MXFP4, DQ_NVFP4 } dq_form;

typedef struct {
    dq_form          form;           /* how the values are stored                                          */
    uint64_t         n_mat;          /* matrices; 1 unless a stack                                         */
    uint64_t         rows;           /* of one                                                             */
    uint64_t         cols;           /* values of a row                                                    */
    const st_tensor *w;              /* codes, or plain values                                             */
    const st_tensor *scale;          /* scales; bnb: absmax; NULL: none                                    */
    const st_tensor *zero;           /* zero points; NULL: the middle of the codes                         */
    const st_tensor *order;          /* g_idx [cols]; NULL: k / group                                      */
    const st_tensor *map;            /* bnb4: [16] values of the codes                                     */
    const st_tensor *nested;         /* bnb4: [256] values of the codes of absmax; NULL: absmax are floats */
    const st_tensor *nested_scale;   /* bnb4: their scales                                                 */
    int              bits;           /* of a code                                                          */
    int              zero_add;       /* added to a stored zero point                                       */
    uint64_t         group;          /* columns that share a scale                                         */
    uint64_t         group_rows;     /* rows that share it                                                 */
    uint64_t         nested_group;   /* bnb4: blocks that share a nested scale                             */
    float            nested_offset;  /* bnb4: added to each absmax                                         */
    float            factor;         /* NVFP4: on all scales                                               */
    float            input;          /* NVFP4: the scale of activations, 0: none                           */
    bool             divide;         /* NVFP4: the factor divides                                          */
} dq_mat;

enum { DQ_TILE = 16 };               /* rows that dq_rows() takes at once                                  */

/* --- values of one type --- */

static uint64_t dq__load(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static uint32_t dq__word(const st_tensor *t, uint64_t i) { return (uint32_t)dq__load(t->data + 4 * i, 4); }

static float dq__f32(const uint8_t *p) {
    float f;
    memcpy(&f, p, 4);
    return f;
}

/* FP8 with `exp` exponent bits: e4m3fn (no infinity, 0x7f is NaN) or e5m2. Its bits, moved to those of F32, are too small by the
 * difference of the biases, a power of two. Subnormal values are counted instead: this program takes those of F32 for 0. */
static float dq__fp8(uint8_t x, int exp) {
    const int      bias = (1 << (exp - 1)) - 1;
    const uint32_t bits = (uint32_t)(x & 0x7f) << (16 + exp), unit = (uint32_t)(254 - bias) << 23;
    float          value, scale;
    if (exp == 4 && (x & 0x7f) == 0x7f) return NAN;
    if (exp == 5 && (x & 0x7c) == 0x7c) return x & 3 ? NAN : x & 0x80 ? -INFINITY : INFINITY;
    memcpy(&value, &bits, 4);
    memcpy(&scale, &unit, 4);
    if (!(bits >> 23)) value = (float)(bits >> (16 + exp)) * (exp == 4 ? 0x1p-9f : 0x1p-16f), scale = 1;
    return x & 0x80 ? -(value * scale) : value * scale;
}

/* 2^(x - 127); 255 is NaN. */
static float dq__e8m0(uint8_t x) { return x == 255 ? NAN : ldexpf(1.0f, (int)x - 127); }

/* Value i of a tensor as a float. */
static float dq__value(const st_tensor *t, uint64_t i) {
    const uint8_t *p = t->data + i * st_type_bytes(t->type);
    switch (t->type) {
    case ST_F32:  return dq__f32(p);
    case ST_F16:  return k_f16_to_f32((uint16_t)dq__load(p, 2));
    case ST_BF16: return k_bf16_to_f32((uint16_t)dq__load(p, 2));
    case ST_F64:  { double d; memcpy(&d, p, 8); return (float)d; }
    case ST_I64:  return (float)(int64_t)dq__load(p, 8);
    case ST_I32:  return (float)(int32_t)dq__load(p, 4);
    case ST_I16:  return (float)(int16_t)dq__load(p, 2);
    case ST_I8:   return (float)(int8_t)*p;
    case ST_U64:  return (float)dq__load(p, 8);
    case ST_U32:  return (float)(uint32_t)dq__load(p, 4);
    case ST_U16:  return (float)(uint16_t)dq__load(p, 2);
    case ST_U8: case ST_BOOL: return (float)*p;
    case ST_E4M3: return dq__fp8(*p, 4);
    case ST_E5M2: return dq__fp8(*p, 5);
    case ST_E8M0: return dq__e8m0(*p);
    case ST_TYPES: break;
    }
    return 0;
}

/* Values [from, from + n) of a tensor as floats. */
static void dq_floats(const st_tensor *t, uint64_t from, uint64_t n, float *out) {
    static const uint8_t plain[ST_TYPES] = {[ST_F16] = K_F16, [ST_BF16] = K_BF16};
    const uint8_t *p = t->data + from * st_type_bytes(t->type);
    if (t->type == ST_F32) memcpy(out, p, (size_t)n * 4);
    else if (plain[t->type]) k_types[plain[t->type]].dequant(p, out, (int64_t)n);
    else for (uint64_t i = 0; i < n; i++) out[i] = dq__value(t, from + i);
}

/* --- shapes --- */

static uint64_t dq__count(const st_tensor *t) { return t->n_bytes / st_type_bytes(t->type); }

/* A matrix that is one tensor of values: of 2 dimensions, or 3 for a stack; with fewer it is one row. */
static dq_mat dq_plain(const st_tensor *t) {
    dq_mat m = {.form = DQ_PLAIN, .w = t, .n_mat = 1, .rows = 1, .cols = 1, .bits = 8};
    if (t->n_dims) m.cols = t->dim[t->n_dims - 1];
    if (t->n_dims > 1) m.rows = t->dim[t->n_dims - 2];
    for (int i = 0; i + 2 < t->n_dims; i++) m.n_mat *= t->dim[i];
    return m;
}

/* Whether a tensor has this type and so many values. */
static bool dq__has(const st_folder *f, const st_tensor *t, uint64_t n, const char *types, err_t *e) {
    if (!bytes_among(bytes_of(st_type_name(t->type)), types))
        return st_bad(f, t, e, "has dtype %s, expected %s", st_type_name(t->type), types);
    return dq__count(t) == n || st_bad(f, t, e, "has %llu values, expected %llu", GGUF_U(dq__count(t)), GGUF_U(n));
}

static uint64_t dq__groups(uint64_t n, uint64_t group) { return (n + group - 1) / group; }

static const char dq__float_types[] = "F32 F16 BF16", dq__scale_types[] = "F32 F16 BF16 F8_E8M0";

/* g_idx names groups that exist. */
static bool dq__check_order(const st_folder *f, const dq_mat *m, uint64_t groups, err_t *e) {
    if (!m->order) return true;
    if (!dq__has(f, m->order, m->cols, "I32", e)) return false;
    for (uint64_t i = 0; i < m->cols; i++)
        if (dq__word(m->order, i) >= groups)
            return st_bad(f, m->order, e, "names group %d, expected 0 to %llu", (int32_t)dq__word(m->order, i),
                          GGUF_U(groups - 1));
    return true;
}

static bool dq__check_codes(const st_folder *f, const dq_mat *m, err_t *e) {
    const uint64_t groups = dq__groups(m->cols, m->group), bits = (uint64_t)m->bits, words = dq__groups(m->cols * bits, 32),
                   per = 32 / bits;
    if (m->form == DQ_GPTQ)
        return dq__has(f, m->w, words * m->rows, "I32", e) && dq__has(f, m->scale, groups * m->rows, dq__float_types, e) &&
               dq__has(f, m->zero, groups * dq__groups(m->rows * bits, 32), "I32", e) && dq__check_order(f, m, groups, e);
    if (m->form == DQ_AWQ && m->rows % 8)
        return st_bad(f, m->w, e, "packs %llu outputs in words of 8, expected a multiple of 8", GGUF_U(m->rows));
    if (m->form == DQ_AWQ)
        return dq__has(f, m->w, m->cols * m->rows / 8, "I32", e) && dq__has(f, m->scale, groups * m->rows, dq__float_types, e) &&
               dq__has(f, m->zero, groups * m->rows / 8, "I32", e);
    return dq__has(f, m->w, dq__groups(m->cols, per) * m->rows, "I32", e) &&
           dq__has(f, m->scale, groups * m->rows, dq__float_types, e) &&
           (!m->zero || dq__has(f, m->zero, groups * dq__groups(m->rows, per), "I32", e)) && dq__check_order(f, m, groups, e);
}

static bool dq__check_bnb(const st_folder *f, const dq_mat *m, err_t *e) {
    const uint64_t all = m->rows * m->cols, blocks = m->group ? dq__groups(all, m->group) : 0;
    if (m->form == DQ_BNB8)
        return dq__has(f, m->w, all, "I8", e) && dq__has(f, m->scale, m->rows, "F32", e);
    if (m->w->n_bytes != (all + 1) / 2)
        return st_bad(f, m->w, e, "has %llu bytes, expected %llu", GGUF_U(m->w->n_bytes), GGUF_U((all + 1) / 2));
    if (!dq__has(f, m->map, 16, "F32", e)) return false;
    if (!m->nested) return dq__has(f, m->scale, blocks, "F32", e);
    return dq__has(f, m->scale, blocks, "U8", e) && dq__has(f, m->nested, 256, "F32", e) &&
           dq__has(f, m->nested_scale, dq__groups(blocks, m->nested_group), "F32", e);
}

enum { DQ_MAT_MAX = 65536 };                          /* matrices of one tensor */

/* Whether all tensors of a matrix have the shapes that its form asks for. On failure e is set. */
static bool dq_check(const st_folder *f, const dq_mat *m, err_t *e) {
    const uint64_t all = m->n_mat * m->rows * m->cols;
    if (!m->rows || !m->cols || !m->n_mat) return st_bad(f, m->w, e, "has no values");
    if (m->n_mat > DQ_MAT_MAX)
        return st_bad(f, m->w, e, "holds %llu matrices, expected at most %d", GGUF_U(m->n_mat), DQ_MAT_MAX);
    if (m->rows > INT32_MAX || m->cols > INT32_MAX)
        return st_bad(f, m->w, e, "is %llu x %llu, expected at most 2^31 each", GGUF_U(m->rows), GGUF_U(m->cols));
    switch (m->form) {
    case DQ_PLAIN: return dq__has(f, m->w, all, "F32 F16 BF16 F64 F8_E4M3 F8_E5M2", e);
    case DQ_SCALED:
        return dq__has(f, m->w, all, "F8_E4M3 F8_E5M2 I8 F32 F16 BF16", e) &&
               dq__has(f, m->scale, m->n_mat * dq__groups(m->rows, m->group_rows) * dq__groups(m->cols, m->group),
                       dq__scale_types,
                       e) &&
               (!m->zero || dq__has(f, m->zero, dq__count(m->scale), "I8", e));
    case DQ_GPTQ: case DQ_AWQ: case DQ_PACKED: return dq__check_codes(f, m, e);
    case DQ_BNB4: case DQ_BNB8: return dq__check_bnb(f, m, e);
    case DQ_MXFP4:
        return m->cols % 32 ? st_bad(f, m->w, e, "has rows of %llu, expected a multiple of 32", GGUF_U(m->cols))
                            : dq__has(f, m->w, all / 2, "U8 I8", e) && dq__has(f, m->scale, all / 32, "U8 F8_E8M0", e);
    case DQ_NVFP4:
        return m->cols % 16 ? st_bad(f, m->w, e, "has rows of %llu, expected a multiple of 16", GGUF_U(m->cols))
                            : dq__has(f, m->w, all / 2, "U8", e) && dq__has(f, m->scale, all / 16, "F8_E4M3", e);
    }
    return false;
}

/* --- codes and scales of one place --- */

/* b bits at bit `at` of column `col` of words [.., ld]: they may go on in the next word. */
static uint32_t dq__bits(const st_tensor *t, uint64_t ld, uint64_t col, uint64_t at, int b) {
    const uint64_t i = at / 32, off = at % 32;
    uint64_t       v = dq__word(t, i * ld + col) >> off;
    if (off + (uint64_t)b > 32) v |= (uint64_t)dq__word(t, (i + 1) * ld + col) << (32 - off);
    return (uint32_t)v & ((1u << b) - 1);
}

static uint64_t dq__group(const dq_mat *m, uint64_t col) { return m->order ? dq__word(m->order, col) : col / m->group; }

/* Where the four bits of a column of AWQ begin in its word. */
static int dq__awq_at(uint64_t row) {
    static const uint8_t at[8] = {0, 16, 4, 20, 8, 24, 12, 28};
    return at[row % 8];
}

/* The code of row, col. */
static int dq__code(const dq_mat *m, uint64_t row, uint64_t col) {
    const uint64_t per = (uint64_t)(32 / m->bits);
    switch (m->form) {
    case DQ_GPTQ: return (int)dq__bits(m->w, m->rows, row, col * (uint64_t)m->bits, m->bits);
    case DQ_AWQ:  return (int)(dq__word(m->w, (col * m->rows + row) / 8) >> dq__awq_at(row) & 15);
    default:
        return (int)(dq__word(m->w, row * dq__groups(m->cols, per) + col / per) >> col % per * (uint64_t)m->bits &
                     ((1u << m->bits) - 1));
    }
}

/* The zero point of a row in group g. */
static int dq__zero(const dq_mat *m, uint64_t row, uint64_t g) {
    const uint64_t per = (uint64_t)(32 / m->bits), groups = dq__groups(m->cols, m->group);
    if (!m->zero) return 1 << (m->bits - 1);
    switch (m->form) {
    case DQ_GPTQ: {
        const uint64_t ld = dq__groups(m->rows * (uint64_t)m->bits, 32), at = row * (uint64_t)m->bits;
        const uint64_t w = dq__word(m->zero, g * ld + at / 32) |
                           (at / 32 + 1 < ld ? (uint64_t)dq__word(m->zero, g * ld + at / 32 + 1) << 32 : 0);
        return (int)(w >> at % 32 & ((1u << m->bits) - 1)) + m->zero_add;
    }
    case DQ_AWQ: return (int)(dq__word(m->zero, (g * m->rows + row) / 8) >> dq__awq_at(row) & 15);
    default:
        return (int)(dq__word(m->zero, row / per * groups + g) >> row % per * (uint64_t)m->bits & ((1u << m->bits) - 1));
    }
}

/* The scale of a row in group g. */
static float dq__code_scale(const dq_mat *m, uint64_t row, uint64_t g) {
    if (m->form == DQ_PACKED) return dq__value(m->scale, row * dq__groups(m->cols, m->group) + g);
    return dq__value(m->scale, g * m->rows + row);
}

/* --- rows --- */

static void dq__code_row(const dq_mat *m, uint64_t row, float *out) {
    uint64_t last = UINT64_MAX;
    float    s = 0;
    int      z = 0;
    for (uint64_t k = 0; k < m->cols; k++) {
        const uint64_t g = dq__group(m, k);
        if (g != last) s = dq__code_scale(m, row, g), z = dq__zero(m, row, g), last = g;
        out[k] = s * (float)(dq__code(m, row, k) - z);
    }
}

static void dq__scaled_row(const dq_mat *m, uint64_t mat, uint64_t row, float *out) {
    const uint64_t n = m->cols, per_row = dq__groups(n, m->group), per_mat = dq__groups(m->rows, m->group_rows) * per_row;
    const uint64_t at = mat * per_mat + row / m->group_rows * per_row;
    dq_floats(m->w, (mat * m->rows + row) * n, n, out);
    for (uint64_t k = 0, end; k < n; k = end) {
        const uint64_t g = at + k / m->group;
        const float    s = dq__value(m->scale, g), z = m->zero ? dq__value(m->zero, g) : 0;
        end = min_u64(n, (k / m->group + 1) * m->group);
        for (uint64_t i = k; i < end; i++) out[i] = (m->zero ? out[i] - z : out[i]) * s;
    }
}

static float dq__absmax(const dq_mat *m, uint64_t block) {
    if (!m->nested) return dq__value(m->scale, block);
    const float scaled = dq__value(m->nested, m->scale->data[block]) * dq__value(m->nested_scale, block / m->nested_group);
    return scaled + m->nested_offset;
}

static void dq__bnb_row(const dq_mat *m, uint64_t row, float *out) {
    const uint64_t at = row * m->cols;
    uint64_t       last = UINT64_MAX;
    float          map[16], s = 0;
    dq_floats(m->map, 0, 16, map);
    for (uint64_t k = 0; k < m->cols; k++) {
        const uint64_t i = at + k, block = i / m->group;
        if (block != last) s = dq__absmax(m, block), last = block;
        out[k] = map[i % 2 ? m->w->data[i / 2] & 15 : m->w->data[i / 2] >> 4] * s;
    }
}

static void dq__int8_row(const dq_mat *m, uint64_t row, float *out) {
    const float s = dq__value(m->scale, row);
    for (uint64_t k = 0; k < m->cols; k++) {
        const float scaled = (float)(int8_t)m->w->data[row * m->cols + k] * s;
        out[k] = scaled * (1.0f / 127.0f);
    }
}

static const float dq__e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* The scale of a group of FP4. */
static float dq__fp4_scale(const dq_mat *m, uint64_t group) {
    if (m->form == DQ_MXFP4) return dq__e8m0(m->scale->data[group]);
    const float s = dq__fp8(m->scale->data[group], 4);
    return m->divide ? s / m->factor : s * m->factor;
}

static void dq__fp4_row(const dq_mat *m, uint64_t mat, uint64_t row, float *out) {
    const uint64_t at = (mat * m->rows + row) * m->cols, group = m->form == DQ_MXFP4 ? 32 : 16;
    for (uint64_t k = 0; k < m->cols; k += group) {
        const float    s = dq__fp4_scale(m, (at + k) / group);
        const uint8_t *p = m->w->data + (at + k) / 2;
        for (uint64_t i = 0; i < group; i++) out[k + i] = dq__e2m1[i % 2 ? p[i / 2] >> 4 : p[i / 2] & 15] * s;
    }
}

/* Rows row[0..n) of matrix `mat` as floats, out [n, cols]; n is at most DQ_TILE. */
static void dq_rows(const dq_mat *m, uint64_t mat, const uint64_t *row, int n, float *out) {
    for (int i = 0; i < n; i++) {
        float *to = out + (size_t)i * (size_t)m->cols;
        switch (m->form) {
        case DQ_PLAIN: dq_floats(m->w, (mat * m->rows + row[i]) * m->cols, m->cols, to); break;
        case DQ_SCALED: dq__scaled_row(m, mat, row[i], to); break;
        case DQ_GPTQ: case DQ_AWQ: case DQ_PACKED: dq__code_row(m, row[i], to); break;
        case DQ_BNB4: dq__bnb_row(m, row[i], to); break;
        case DQ_BNB8: dq__int8_row(m, row[i], to); break;
        case DQ_MXFP4: case DQ_NVFP4: dq__fp4_row(m, mat, row[i], to); break;
        }
    }
}

/* The bytes of a row where they are those of a GGUF type, in the mapping; NULL: the matrix is not plain. */
static const uint8_t *dq_row_view(const dq_mat *m, uint64_t mat, uint64_t row) {
    if (m->form != DQ_PLAIN) return NULL;
    return m->w->data + (mat * m->rows + row) * m->cols * st_type_bytes(m->w->type);
}

/* --- the same values in a type of GGUF files --- */

/* Whether F16 holds the number. */
static bool dq__fits_f16(float x) { return k_f16_to_f32(k_f32_to_f16(x)) == x; }

/* Whether groups are whole blocks of 32, in the order of the columns. */
static bool dq__in_order(const dq_mat *m) {
    if (m->cols % 32 || (m->group % 32 && m->group < m->cols)) return false;
    for (uint64_t k = 0; m->order && k < m->cols; k++)
        if (dq__word(m->order, k) != k / m->group) return false;
    return true;
}

/* The type for codes with zero points: Q4_0 or Q8_0 where the zero is the middle, Q4_1 where scale and minimum fit. */
static uint32_t dq__exact_codes(const dq_mat *m) {
    const uint64_t groups = dq__groups(m->cols, m->group);
    const int      middle = 1 << (m->bits - 1);
    bool           even = true, low = m->bits <= 4;
    if (!dq__in_order(m)) return K_F16;
    for (uint64_t r = 0; r < m->rows && (even || low); r++)
        for (uint64_t g = 0; g < groups; g++) {
            const float s = dq__code_scale(m, r, g);
            const int   z = dq__zero(m, r, g);
            if (!dq__fits_f16(s)) return K_F16;
            even = even && z == middle;
            low = low && dq__fits_f16(-(float)z * s);
        }
    return even ? m->bits <= 4 ? K_Q4_0 : K_Q8_0 : low ? K_Q4_1 : K_F16;
}

/* int8 with scales by row or group. */
static uint32_t dq__exact_int8(const dq_mat *m) {
    if (m->zero || m->cols % 32 || (m->group % 32 && m->group < m->cols)) return K_F16;
    for (uint64_t i = 0, n = dq__count(m->scale); i < n; i++)
        if (!dq__fits_f16(dq__value(m->scale, i))) return K_F16;
    return K_Q8_0;
}

/* The type of GGUF files that keeps the precision of a matrix: the one that holds its values exactly, else F16 for codes of
 * whole numbers and BF16 for FP8 and FP4. A plain matrix keeps its floats; other numbers become F32. */
static uint32_t dq_exact(const dq_mat *m) {
    switch (m->form) {
    case DQ_PLAIN:
        if (m->w->type == ST_F16) return K_F16;
        return m->w->type == ST_BF16 || m->w->type == ST_E4M3 || m->w->type == ST_E5M2 ? K_BF16 : K_F32;
    case DQ_SCALED: return m->w->type == ST_I8 ? dq__exact_int8(m) : K_BF16;
    case DQ_GPTQ: case DQ_AWQ: case DQ_PACKED: return dq__exact_codes(m);
    case DQ_BNB4: case DQ_BNB8: return K_F16;
    case DQ_MXFP4: return K_MXFP4;
    case DQ_NVFP4: return m->cols % 64 ? K_BF16 : K_NVFP4;
    }
    return K_F32;
}

/* A block of 32 codes c as 4-bit codes, in the order of GGUF: the first half in the low bits. */
static void dq__nibbles(const uint8_t *c, uint8_t *qs, int half) {
    for (int j = 0; j < half; j++) qs[j] = (uint8_t)(c[j] | c[j + half] << 4);
}

static void dq__pack_codes(const dq_mat *m, uint32_t type, uint64_t row, uint8_t *out) {
    const int middle = 1 << (m->bits - 1);
    for (uint64_t k = 0; k < m->cols; k += 32) {
        const uint64_t g = dq__group(m, k);
        const float    s = dq__code_scale(m, row, g);
        const int      add = type == K_Q4_0 ? 8 - middle : 0;
        uint8_t        c[32];
        for (uint64_t i = 0; i < 32; i++) c[i] = (uint8_t)(dq__code(m, row, k + i) + add);
        if (type == K_Q8_0) {
            block_q8_0 *b = (block_q8_0 *)(void *)out + k / 32;
            b->d = k_f32_to_f16(s);
            for (int i = 0; i < 32; i++) b->qs[i] = (int8_t)((int)c[i] - middle);
        } else if (type == K_Q4_0) {
            block_q4_0 *b = (block_q4_0 *)(void *)out + k / 32;
            b->d = k_f32_to_f16(s);
            dq__nibbles(c, b->qs, 16);
        } else {
            block_q4_1 *b = (block_q4_1 *)(void *)out + k / 32;
            b->d = k_f32_to_f16(s);
            b->m = k_f32_to_f16(-(float)dq__zero(m, row, g) * s);
            dq__nibbles(c, b->qs, 16);
        }
    }
}

static void dq__pack_int8(const dq_mat *m, uint64_t mat, uint64_t row, uint8_t *out) {
    const uint64_t per_row = dq__groups(m->cols, m->group), per_mat = dq__groups(m->rows, m->group_rows) * per_row;
    for (uint64_t k = 0; k < m->cols; k += 32) {
        block_q8_0 *b = (block_q8_0 *)(void *)out + k / 32;
        b->d = k_f32_to_f16(dq__value(m->scale, mat * per_mat + row / m->group_rows * per_row + k / m->group));
        memcpy(b->qs, m->w->data + (mat * m->rows + row) * m->cols + k, 32);
    }
}

/* Codes of FP4: two neighbours in a byte become two that are half a group apart. */
static void dq__pack_fp4(const dq_mat *m, uint64_t mat, uint64_t row, uint8_t *out) {
    const uint64_t at = (mat * m->rows + row) * m->cols, n = m->form == DQ_MXFP4 ? 32 : 16;
    for (uint64_t k = 0; k < m->cols; k += n) {
        const uint8_t *p = m->w->data + (at + k) / 2, s = m->scale->data[(at + k) / n];
        uint8_t        c[32];
        for (uint64_t i = 0; i < n; i++) c[i] = i % 2 ? p[i / 2] >> 4 : p[i / 2] & 15;
        if (m->form == DQ_MXFP4) {
            block_mxfp4 *b = (block_mxfp4 *)(void *)out + k / 32;
            memcpy(b, &s, 1);                         /* the exponent stands first */
            dq__nibbles(c, b->qs, 16);
        } else {
            block_nvfp4 *b = (block_nvfp4 *)(void *)out + k / 64;
            b->d[k % 64 / 16] = s & 0x7f;
            dq__nibbles(c, b->qs + k % 64 / 2, 8);
        }
    }
}

/* A row in the type that dq_exact() gave, which is none of floats. The factor of NVFP4 is not in it. */
static void dq_pack_rows(const dq_mat *m, uint32_t type, uint64_t mat, uint64_t row, uint8_t *out) {
    if (m->form == DQ_MXFP4 || m->form == DQ_NVFP4) dq__pack_fp4(m, mat, row, out);
    else if (m->form == DQ_SCALED) dq__pack_int8(m, mat, row, out);
    else dq__pack_codes(m, type, row, out);
}
