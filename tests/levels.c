/* The levels of this processor against each other, for one that an emulator plays: quick, and without the rest of the program.
 *     levels [NAME...]     the names that must run here
 * Products of every type of weights, packed and not, with outliers and scales that are no numbers; floats; attention. */
#include "ggml_kernels.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 37, COLS = 13, LD = 1024, BLOCKS = LD / K_SUPER, LEVELS = 8 };

static const char *level[LEVELS];
static bool        can[LEVELS];
static int         n_levels, passed, failed;

static uint64_t state = 1;
static uint32_t any(void) { return (uint32_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33); }
static float    unit(void) { return (float)any() * 0x1p-30f - 1; }

static void *memory(size_t bytes) {
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (!p) abort();
    return memset(p, 0, bytes);
}

/* n floats of the scalar level and another: the same bits, or NaN in both. */
static void same(const char *what, int l, const float *want, const float *got, int n) {
    for (int i = 0; i < n; i++) {
        if (!memcmp(want + i, got + i, sizeof *got) || (want[i] != want[i] && got[i] != got[i])) continue;
        printf("%s at %s: value %d of %d is %.9g, at scalar %.9g\n", what, level[l], i, n, (double)got[i], (double)want[i]);
        failed++;
        return;
    }
    passed++;
}

static float    x[COLS][LD], d[COLS * BLOCKS * 2], want[COLS * ROWS], got[COLS * ROWS];
static int8_t   q[3 * COLS][LD] __attribute__((aligned(64)));
static k_sums   sum[COLS * BLOCKS];
static uint8_t  split[COLS];
static uint16_t half[COLS][LD];

static k_acts acts(int nt) {
    return (k_acts){.x = x[0], .ldx = LD, .h = half[0], .q = q[0], .ldq = LD, .sum = sum, .d = d, .ldd = BLOCKS, .split = split,
                    .rest = COLS, .nt = nt};
}

/* Rows of a type: fitted to random values, or random bytes, whose scales may be anything. */
static void fill(uint32_t type, uint8_t *w, int n, bool fitted) {
    const size_t bytes = k_row_bytes(type, n);
    static float row[LD];
    for (int r = 0; r < ROWS; r++, w += bytes) {
        for (int i = 0; i < n; i++) row[i] = unit();
        if (fitted && k_fitters[type].fit) k_fitters[type].fit(row, NULL, w, n);
        else if (fitted && k_types[type].quant) k_types[type].quant(row, w, n);
        else for (size_t i = 0; i < bytes; i++) w[i] = (uint8_t)any();
    }
}

static void products(uint32_t type, int n, bool fitted) {
    static const int counts[] = {1, 2, 3, 4, 5, 7, 8, COLS};
    const uint32_t   file = type == K_F16_ROUND ? K_F16 : type;      /* as which the rows are stored */
    const size_t     bytes = k_row_bytes(file, n);
    const bool       packs = k_pack_bytes(type, ROWS, n) > 0;
    uint8_t         *w = memory(bytes * ROWS), *packed = packs ? memory(k_pack_bytes(type, ROWS, n)) : NULL;
    void            *scratch = memory(k_scratch_bytes(n));
    char             what[64];
    fill(file, w, n, fitted);
    if (packs) k_pack_rows(type, w, bytes, ROWS, n, packed);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const k_acts a = acts(counts[c]);
        for (int l = 0; l < n_levels; l++) {
            if (!can[l]) continue;
            k_init(level[l]);
            for (int t = 0; k_wants_q8(type) && t < a.nt; t++)
                split[t] = k_quant_act(x[t], n, false, q[t], sum + t * BLOCKS, d + t * BLOCKS, LD, COLS);
            snprintf(what, sizeof what, "%s, %d weights, %d columns", k_types[type].name, n, a.nt);
            k_mul_rows(type, w, bytes, ROWS, n, &a, l ? got : want, ROWS, scratch);
            if (l) same(what, l, want, got, a.nt * ROWS);
            if (!packs || !l) continue;
            k_mul_packed(type, packed, ROWS, n, &a, got, ROWS, scratch);
            snprintf(what, sizeof what, "packed %s, %d weights, %d columns", k_types[type].name, n, a.nt);
            same(what, l, want, got, a.nt * ROWS);
        }
    }
    free(w), free(packed), free(scratch);
}

/* One operation on rows of n values, at every level. */
static void row(const char *what, int n, int which, const float *from, const float *beside) {
    float to[2][128];
    for (int l = 0; l < n_levels; l++) {
        float *y = to[l > 0];
        if (!can[l]) continue;
        k_init(level[l]);
        memcpy(y, from, sizeof to[0]);
        switch (which) {
        case 0: k_softmax(y, n); break;
        case 1: k_cap(y, 3, n); break;
        case 2: k_swiglu_clip(y, beside, 1.5f, 1.7f, n); break;
        case 3: k_layer_norm(from, beside, NULL, 1e-5f, n, y); break;
        case 4: k_rms_norm(from, beside, 1e-5f, n, y); break;
        case 5: y[0] = k_max(from, n, NULL); break;
        case 6: y[0] = k_dot(from, beside, n); break;
        case 7: k_hadamard(y, 64, 64); break;
        default: k_activate((k_act_fn)(which - 8), y, which % 2 ? beside : NULL, n);
        }
        if (l) same(what, l, to[0], y, n);
    }
}

static void rows(void) {
    static const char *const names[] = {"softmax", "cap", "swiglu", "layer norm", "rms norm", "max", "dot", "hadamard", "silu",
                                        "gelu", "gelu_erf", "sigmoid", "relu", "relu2", "exp", "softplus"};
    for (int n = 1; n < 128; n += 9) {
        float a[128], b[128];
        for (int i = 0; i < 128; i++) a[i] = unit() * (float)(i % 7 ? 8 : 90), b[i] = unit();
        if (n % 2) a[n / 2] = n % 4 > 1 ? NAN : INFINITY;
        for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) row(names[i], n, i, a, b);
    }
}

/* Adapters' products of a low rank: n rows from the 5th on. */
static void low(uint32_t type, int rank, int n) {
    const size_t size = type == K_F32 ? 4 : 2;
    uint8_t     *b = memory(256 * (size_t)rank * size);
    float        u[64], y[2][256];
    for (int i = 0; i < 64; i++) u[i] = unit();
    for (int i = 0; i < 256 * rank; i++) {
        const float v = unit();
        k_types[type].quant(&v, b + (size_t)i * size, 1);
    }
    for (int l = 0; l < n_levels; l++) {
        if (!can[l]) continue;
        k_init(level[l]);
        for (int i = 0; i < 256; i++) y[l > 0][i] = (float)i;
        k_add_low(type, b, rank, u, 5, n, y[l > 0]);
        if (l) same("an adapter", l, y[0], y[1], 256);
    }
    free(b);
}

/* Recurrent layers: `which` 0 a convolution, 1 the delta rule, 2 outer products, 3 a scan, 4 and 5 outer products without r, and
 * without p too. peek: the last position leaves the state. */
static void recurrent(int which, int n, int d_k, bool peek) {
    enum { POS = 5 };
    static float in[6][POS * 128], s[2][128 * 128], o[2][POS * 128];
    const float *taps[POS + 3];
    const char  *names[] = {"convolution", "delta rule", "outer products", "scan", "outer products without r", "without p"};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < POS * 128; k++) in[i][k] = unit() * 0.5f;
    for (int k = 0; k < 128 * 128; k++) s[0][k] = unit();
    float start[128 * 128];
    memcpy(start, s[0], sizeof start);
    for (int i = 0; i < POS + 3; i++) taps[i] = i ? in[0] + 128 * (i % POS) : NULL;
    for (int l = 0; l < n_levels; l++) {
        float *st = s[l > 0], *out = o[l > 0];
        if (!can[l]) continue;
        k_init(level[l]);
        memcpy(st, start, sizeof start);
        memset(out, 0, sizeof o[0]);
        if (which == 0) k_conv(taps, in[1], in[2], 4, n, POS, true, out, 128);
        if (which == 1)
            k_delta(&(k_delta_args){.q = in[0], .k = in[1], .v = in[2], .decay = in[3], .beta = in[4], .s = st, .o = out, .n = n,
                                    .d_k = d_k, .n_pos = POS, .fold = 1, .peek = peek, .ld_qk = 128, .ld_v = 128, .ld_gate = 1, .ld_o = 128,
                                    .ld_s = 128});
        if (which == 2 || which > 3)
            k_outer(&(k_outer_args){.q = in[0], .p = which == 5 ? NULL : in[1], .k = in[2], .w = in[3], .r = which == 2 ? in[4] : NULL,
                                    .v = in[5], .beta = in[0],
                                    .kq = in[1], .rq = in[2], .s = st, .o = out, .n = n, .d_k = d_k, .n_pos = POS, .fold = 1,
                                    .peek = peek, .ld = 128,
                                    .ld_v = 128, .ld_o = 128, .ld_s = 128});
        if (which == 3)
            k_scan(&(k_scan_args){.q = in[0], .k = in[1], .v = in[2], .dt = in[3], .a = in[4], .skip = in[5], .s = st, .o = out,
                                  .n = n, .d_k = d_k, .n_pos = POS, .fold = 1, .peek = peek, .ld = 128, .ld_v = 128, .ld_o = 128});
        if (!l) continue;
        same(names[which], l, o[0], out, POS * 128);
        same("its state", l, s[0], st, 128 * 128);
    }
}

static void attention(uint32_t type, int hd, int n_rows, float cap, bool lean) {
    enum { T = 75, BLOCK = 32 };
    const size_t bytes = k_kv_bytes(type, hd);
    uint8_t     *kv[2] = {memory(bytes * 96), memory(bytes * 96)};
    const size_t size = (size_t)(n_rows * hd) * sizeof(float);
    float       *ask = memory(size), *o[2] = {memory(size), memory(size)};
    const float  biases[8] = {0.5f, -0.3f, 1.5f, 0.1f, -2.0f, 0.7f, 0.2f, -0.4f};
    const float  slopes[8] = {0.1f, 0.2f, 0.3f, 0.1f, 0.1f, 0.5f, 0.2f};
    const uint8_t *block[2][3];
    void        *scratch = memory(k_attn_scratch(n_rows, hd, hd));
    char         what[64];
    snprintf(what, sizeof what, "attention, %s, heads of %d, %d rows", k_types[type].name, hd, n_rows);
    k_init("scalar");
    for (int i = 0; i < 2; i++)
        for (int p = 0; p < T; p++) {
            float v[128];
            for (int j = 0; j < hd; j++) v[j] = unit() * (i ? 1 : 3);
            k_kv_store(type, v, kv[i] + (size_t)p * bytes, hd);
        }
    for (int i = 0; i < 6; i++) block[i / 3][i % 3] = kv[i / 3] + (size_t)(i % 3 * BLOCK) * bytes;
    for (int i = 0; i < n_rows * hd; i++) ask[i] = unit();
    for (int l = 0; l < n_levels; l++) {
        k_attn_row r[8];
        if (!can[l]) continue;
        for (int i = 0; i < n_rows; i++)
            r[i] = (k_attn_row){ask + i * hd, o[l > 0] + i * hd, i == 3 ? 5 : 0, i < 6 ? T - 6 + i : T, T - 7 + i,
                                biases + i % 2};
        k_init(level[l]);
        k_attn(&(k_attn_args){.rows = r, .n_rows = n_rows, .k_blocks = block[0], .v_blocks = block[1], .k_stride = bytes,
                              .v_stride = bytes, .block = BLOCK, .hd_k = hd, .hd_v = hd, .type_k = type, .type_v = type,
                              .scale = 0.125f, .softcap = cap, .slopes = lean ? slopes : NULL, .reach = n_rows == 3 ? 3 : 0},
               scratch);
        if (l) same(what, l, o[0], o[1], n_rows * hd);
    }
    free(kv[0]), free(kv[1]), free(ask), free(o[0]), free(o[1]), free(scratch);
}

int main(int argc, char **argv) {
    k_thread_start();
    setvbuf(stdout, NULL, _IOLBF, 0);
    n_levels = k_levels_list(level, can);
    for (int i = 1; i < argc; i++) {
        const bool there = k_init(argv[i]);
        there ? passed++ : failed++;
        if (!there) printf("level %s does not run here\n", argv[i]);
    }
    for (int t = 0; t < COLS; t++)
        for (int i = 0; i < LD; i++) {
            x[t][i] = unit() * (i % 400 == 77 ? (float)(t % 3) * 40 : 1);
            half[t][i] = k_f32_to_bf16(x[t][i]);
        }
    for (uint32_t type = 0; type <= K_F16_ROUND; type++) {
        if (type < K_TYPE_MAX && !k_type_weight(type)) continue;
        const int block = k_types[type].block;
        products(type, 256, false);
        products(type, block == 256 ? 768 : block > 1 ? 512 + block : 45, true);
    }
    rows();
    for (int i = 0; i < 12; i++) recurrent(i / 2, i / 2 % 2 ? 37 : 128, i / 2 % 2 ? 32 : 29, i % 2);
    recurrent(1, 128, 29, false);
    recurrent(3, 20, 13, false);
    low(K_F32, 8, 100);
    low(K_F16, 17, 230);
    attention(K_F16, 64, 7, 0, false);
    attention(K_F16, 34, 1, 0, false);
    attention(K_F32, 32, 4, 5, true);
    attention(K_BF16, 64, 7, 0, true);
    attention(K_Q8_0, 64, 7, 0, false);
    attention(K_Q8_0, 96, 2, 5, true);
    attention(K_Q4_0, 64, 3, 0, false);
    printf("levels: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
