/* [quant] The type of every tensor compared with llama.cpp's tool, the written blocks with direct calls of the fitters; errors and
 * their texts. */
#include "program.h"
#include "check.h"
#include "t_gguf.h"

/* Builds a model file in memory: keys of u32 or f32, tensors of f16 zeros. */
typedef struct {
    str      kv, dir, file;
    uint64_t n_kv, n_tensor, at;
} tz_model;

static void tz_string(str *s, const char *t, size_t n) {
    uint64_t len = n;
    str_add(s, &len, 8);
    str_add(s, t, n);
}

static void tz_key(tz_model *m, const char *key, uint32_t type, const void *v, size_t n) {
    tz_string(&m->kv, key, strlen(key));
    str_add(&m->kv, &type, 4);
    str_add(&m->kv, v, n);
    m->n_kv++;
}

static void tz_key_str(tz_model *m, const char *key, const char *v) {
    str s = {0};
    tz_string(&s, v, strlen(v));
    tz_key(m, key, GGUF_STR, s.p, s.n);
    str_drop(&s);
}

static void tz_key_u32(tz_model *m, const char *key, uint32_t v) { tz_key(m, key, GGUF_U32, &v, 4); }

static void tz_tensor(tz_model *m, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dim) {
    uint64_t n = 1;
    tz_string(&m->dir, name, strlen(name));
    str_add(&m->dir, &n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) str_add(&m->dir, &dim[i], 8), n *= dim[i];
    str_add(&m->dir, &type, 4);
    str_add(&m->dir, &m->at, 8);
    m->at += (k_row_bytes(type, (int64_t)n) + 31) & ~31ull;
    m->n_tensor++;
}

/* The whole file; returns where its data begins. */
static uint8_t *tz_make(tz_model *m) {
    str_put(&m->file, "GGUF");
    str_add(&m->file, &(uint32_t){3}, 4);
    str_add(&m->file, &m->n_tensor, 8);
    str_add(&m->file, &m->n_kv, 8);
    str_add(&m->file, m->kv.p, m->kv.n);
    str_add(&m->file, m->dir.p, m->dir.n);
    while (m->file.n % 32) str_add(&m->file, "", 1);
    str_reserve(&m->file, m->at);
    memset(m->file.p + m->file.n, 0, m->at);
    m->file.n += m->at;
    return (uint8_t *)m->file.p + m->file.n - m->at;
}

static void tz_drop(tz_model *m) {
    str_drop(&m->kv);
    str_drop(&m->dir);
    str_drop(&m->file);
    *m = (tz_model){0};
}

static const float *tz_no_weights(void *ctx, const gguf_tensor *t, uint64_t matrix) {
    (void)ctx, (void)t, (void)matrix;
    return NULL;
}

/* --- types, against the golden file; its form is told in tests/gen/quant_types.py --- */

/* Whether `list` ("0,2-4") holds n. */
static bool tz_listed(const char *list, size_t len, int n) {
    for (const char *p = list; p < list + len;) {
        char *end;
        long  a = strtol(p, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
        if (n >= a && n <= b) return true;
        p = end + 1;
    }
    return false;
}

/* Whether one of the words is the name or a pattern that matches it. */
static bool tz_named(const char *words, size_t n, bytes name) {
    for (const char *p = words, *end = words + n; p < end;) {
        size_t      w = strcspn(p, " \n");
        const char *brace = memmem(p, w, "}.", 2);
        int         layer = quant__layer(name), skip = 0;
        char        head[32];
        if (!brace && w == name.n && !memcmp(p, name.p, w)) return true;
        snprintf(head, sizeof head, "blk.%d.%n", layer, &skip);
        if (brace && layer >= 0 && name.n - (size_t)skip == w - (size_t)(brace + 2 - p) &&
            !memcmp(brace + 2, name.p + skip, name.n - (size_t)skip) && tz_listed(p + 5, (size_t)(brace - p - 5), layer))
            return true;
        p += w + 1;
    }
    return false;
}

/* The type of a name by the lines of one `file`. */
static int tz_want(const char *lines, const char *base, bytes name) {
    while (*lines && strncmp(lines, "file ", 5) && strncmp(lines, "model ", 6)) {
        size_t n = strcspn(lines, "\n"), w = strcspn(lines, " ");
        char   type[16];
        snprintf(type, sizeof type, "%.*s", (int)w, lines);
        if (tz_named(lines + w + 1, n - w - 1, name)) return k_type_by_name(type);
        lines += n + 1;
    }
    return k_type_by_name(base);
}

static void tz_add_line(tz_model *m, const char *arch, int layers, const char *line) {
    char     what[16], name[64], key[160], value[32];
    uint64_t dim[3] = {1, 1, 1};
    unsigned long long d[3] = {1, 1, 1};
    if (sscanf(line, "%15s %63s %31s", what, name, value) != 3) return;
    if (!strcmp(what, "key")) {
        snprintf(key, sizeof key, "%s.%s", arch, name);
        float f = strtof(value, NULL);
        if (strpbrk(value, ".e")) tz_key(m, key, GGUF_F32, &f, 4);
        else tz_key_u32(m, key, (uint32_t)atoi(value));
        return;
    }
    int n = sscanf(line, "%*s %*s %llu %llu %llu", &d[0], &d[1], &d[2]);
    for (int i = 0; i < 3; i++) dim[i] = d[i];
    bool each = strstr(name, "%d") != NULL;
    for (int l = 0; l < (each ? layers : 1); l++) {
        if (each) snprintf(key, sizeof key, "blk.%d.%s", l, name + 7);
        tz_tensor(m, each ? key : name, K_F16, (uint32_t)n, dim);
    }
}

/* Compares one `file` line with the plan. Returns the number of tensors compared. */
static int tz_check(const gguf_file *g, const char *which, const char *line) {
    char              name[32] = "", base[32] = "", guided[16] = "";
    const quant_guide guide = {.weights = tz_no_weights};
    char              first[128];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(line, "\n"), line);
    sscanf(first, "file %31s %31s %15s", name, base, guided);
    quant_opts  o = {.dry_run = true, .guide = *guided ? &guide : NULL};
    quant__plan p;
    err_t       e = {0};
    int         n = 0;
    if (CHECKF(quant__plan_make(&p, g, name, &o, &e), "%s %s: %s", which, name, e.text))
        for (uint64_t i = 0; i < g->n_tensor; i++, n++) {
            int want = tz_want(line + strlen(first) + 1, base, g->tensor[i].name);
            CHECKF((int)p.step[i].to == want, "%s %s %s: %.*s is %s, want %s", which, name, guided, GGUF_SHOW(g->tensor[i].name),
                   k_types[p.step[i].to].name, want < 0 ? "?" : k_types[want].name);
        }
    quant__plan_drop(&p);
    return n;
}

static void t_quantize_types(void) {
    char *text = t_read("tests/data/golden/quant_types.txt", NULL);
    if (!CHECK(text != NULL)) return;
    int       files = 0, tensors = 0, layers = 0;
    tz_model  m = {0};
    gguf_file g = {0};
    char      title[32] = "", arch[32] = "";
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        err_t e = {0};
        if (sscanf(line, "model %31s %31s", title, arch) == 2) {
            gguf_close(&g);
            tz_drop(&m);
            tz_key_str(&m, "general.architecture", arch);
        }
        sscanf(line, "key block_count %d", &layers);
        if (!strncmp(line, "key ", 4) || !strncmp(line, "tensor ", 7)) tz_add_line(&m, arch, layers, line);
        if (strncmp(line, "file ", 5)) continue;
        if (!g.n_tensor) {
            tz_make(&m);
            if (!CHECKF(gguf_parse(&g, (uint8_t *)m.file.p, m.file.n, title, &e), "%s", e.text)) break;
        }
        tensors += tz_check(&g, title, line);
        files++;
    }
    CHECKF(files > 250 && tensors > 20000, "%d files, %d tensors", files, tensors);
    gguf_close(&g);
    tz_drop(&m);
    mem_free(text);
}

/* Every file type has a name of its own, a number as llama.cpp has it, and a base whose fallbacks end in a type of small blocks. */
static void t_quantize_tables(void) {
    for (int i = 0; i < N_FT; i++) {
        EQ_INT(quant__find(quant_files[i].name), i);
        if (quant_files[i].also) EQ_INT(quant__find(quant_files[i].also), i);
        for (int j = 0; j < i; j++)
            CHECKF(quant_files[i].number != quant_files[j].number || quant_files[i].base == quant_files[j].base || i == FT_COPY,
                   "%s and %s have one number", quant_files[i].name, quant_files[j].name);
    }
    EQ_INT(quant__find("q4_k_m"), FT_Q4_K_M);
    EQ_INT(quant__find("q4"), -1);
    for (int i = 0; i < K_TYPE_MAX; i++) {
        const uint8_t next = quant_fallback[i];
        if (k_type_weight((uint32_t)i) && k_types[i].block > 32) CHECKF(next && k_types[next].block == 32, "%s", k_types[i].name);
    }
    static const struct {
        const char *name;
        uint64_t    dim[3];
        uint32_t    type;
        bool        moves;
    } rows[] = {
        {"blk.0.attn_q.weight", {64, 64, 1}, K_F32, true},       {"blk.0.ffn_up_exps.weight", {64, 1, 8}, K_BF16, true},
        {"blk.0.attn_q.bias", {64, 64, 1}, K_F32, false},        {"blk.0.attn_q.weight", {64, 1, 1}, K_F32, false},
        {"blk.0.attn_norm.weight", {64, 64, 1}, K_F32, false},   {"blk.0.ffn_gate_inp.weight", {64, 8, 1}, K_F32, false},
        {"blk.3.ssm_conv1d.weight", {64, 4, 1}, K_F32, false},   {"position_embd.weight", {64, 64, 1}, K_F32, false},
        {"x.position_embd.weight", {64, 64, 1}, K_F32, false},   {"blk.0.attn_q.weight", {64, 64, 1}, K_I32, false},
        {"blk.0.attn_q.weight", {64, 64, 1}, K_Q4_0, true},      {"blk.0.time_mix_w1.weight", {64, 64, 1}, K_F32, false},
        {"blk.0.time_mix_key.weight", {64, 64, 1}, K_F32, true}, {"weight", {64, 64, 1}, K_F32, true},
        {"eight", {64, 64, 1}, K_F32, false},                    {"rope_freqs.weight", {64, 1, 1}, K_F32, false},
    };
    quant_opts        o = {.leave_output = true};
    const quant__plan p = {.o = &o};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gguf_tensor t = {.name = bytes_of(rows[i].name), .type = rows[i].type, .n_dims = 3,
                         .dim = {rows[i].dim[0], rows[i].dim[1], rows[i].dim[2], 1}};
        CHECKF(quant__allowed(&p, &t) == rows[i].moves, "%s", rows[i].name);
    }
    CHECK(!quant__allowed(&p, &(gguf_tensor){.name = bytes_of("output.weight"), .n_dims = 2, .dim = {64, 64, 1, 1}}));
}

/* --- what a person asks for --- */

static const struct {
    const char *what, *type, *list[3];
    quant_opts  o;
    const char *up, *down, *out, *embd, *says;        /* types, or the words of the refusal */
} tz_asked[] = {
    {"plain", "Q8_0", {NULL}, {0}, "q8_0", "q8_0", "q8_0", "q8_0", NULL},
    {"one pattern", "Q8_0", {"ffn_down=q6_K"}, {0}, "q8_0", "q6_K", "q8_0", "q8_0", NULL},
    {"the first wins", "Q8_0", {"blk\\.0\\.ffn_up=q4_0", "ffn=q6_K"}, {0}, "q4_0", "q6_K", "q8_0", "q8_0", NULL},
    {"a type that stays", "Q8_0", {"ffn_norm=f32"}, {0}, "q8_0", "q8_0", "q8_0", "q8_0", NULL},
    {"behind another pattern", "Q8_0", {"blk\\.0\\.ffn=q4_0", "ffn_down=q6_K"}, {0}, NULL, NULL, NULL, NULL, "'ffn_down=q6_K' has no effect: "},
    {"a norm alone", "Q8_0", {"ffn_norm=q4_0"}, {0}, NULL, NULL, NULL, NULL, "'ffn_norm=q4_0' has no effect: "},
    {"behind another option", "Q8_0", {"output=q4_0"}, {.output_type = "f16"}, NULL, NULL, NULL, NULL, "'output=q4_0' has no effect: "},
    {"any case", "Q8_0", {"FFN_Down=Q6_k"}, {0}, "q8_0", "q6_K", "q8_0", "q8_0", NULL},
    {"a float type too", "F16", {"ffn_(up|gate)=f32"}, {0}, "f32", "f16", "f16", "f16", NULL},
    {"on a copy", "COPY", {"ffn_up=q4_0"}, {0}, "q4_0", "f32", "f32", "f32", NULL},
    {"an = in the pattern", "Q8_0", {"(?=ffn_up)=q5_0"}, {0}, "q5_0", "q8_0", "q8_0", "q8_0", NULL},
    {"norms never", "Q8_0", {".=q4_0"}, {0}, "q4_0", "q4_0", "q4_0", "q4_0", NULL},
    {"output", "Q4_0", {NULL}, {.output_type = "f16"}, "q4_0", "q4_0", "f16", "q4_0", NULL},
    {"embeddings", "Q4_0", {NULL}, {.embd_type = "q8_0"}, "q4_0", "q4_0", "q6_K", "q8_0", NULL},
    {"output stays", "Q4_0", {NULL}, {.leave_output = true}, "q4_0", "q4_0", "f32", "q4_0", NULL},
    {"pure", "Q4_0", {NULL}, {.pure = true}, "q4_0", "q4_0", "q4_0", "q4_0", NULL},
    {"pure K", "Q2_K", {NULL}, {.pure = true}, "q2_K", "q2_K", "q2_K", "q2_K", NULL},
    {"unknown file type", "Q4_K_X", {NULL}, {0}, NULL, NULL, NULL, NULL, "--quantize: unknown type 'Q4_K_X' (did you mean Q4_K_M?)"},
    {"a type without its lines", "Q4KM", {NULL}, {0}, NULL, NULL, NULL, NULL, "--quantize: unknown type 'Q4KM' (did you mean Q4_K_M?)"},
    {"a type like no other", "zebra", {NULL}, {0}, NULL, NULL, NULL, NULL, "--quantize: unknown type 'zebra' (--list quants)"},
    {"a pattern that matches nothing", "Q8_0", {"no_such_tensor=q4_0"}, {0}, NULL, NULL, NULL, NULL, "--tensor-type: 'no_such_tensor=q4_0' matches no tensor of "},
    {"unknown type", "Q8_0", {"up=q9"}, {0}, NULL, NULL, NULL, NULL, "--tensor-type: unknown type 'q9'"},
    {"no weight type", "Q8_0", {"up=i32"}, {0}, NULL, NULL, NULL, NULL, "--tensor-type: unknown type 'i32'"},
    {"no type", "Q8_0", {"ffn_up"}, {0}, NULL, NULL, NULL, NULL, "expected PATTERN=TYPE, found 'ffn_up'"},
    {"no pattern", "Q8_0", {"=q8_0"}, {0}, NULL, NULL, NULL, NULL, "expected PATTERN=TYPE, found '=q8_0'"},
    {"bad pattern", "Q8_0", {"a(b=q8_0"}, {0}, NULL, NULL, NULL, NULL, "at byte 3 of 'a(b=q8_0'"},
    {"endless pattern", "Q8_0", {"^([a-z._0]+[a-z._0]*)+[!#]=q8_0"}, {0}, NULL, NULL, NULL, NULL, "takes too many steps or too much memory to match"},
    {"output type", "Q8_0", {NULL}, {.output_type = "x"}, NULL, NULL, NULL, NULL, "--output-tensor-type: unknown type 'x'"},
    {"embedding type", "Q8_0", {NULL}, {.embd_type = "q8_K"}, NULL, NULL, NULL, NULL, "--token-embedding-type: unknown type 'q8_K'"},
};

static void tz_small(tz_model *m, uint32_t type) {
    tz_key_str(m, "general.architecture", "llama");
    tz_key_u32(m, "llama.block_count", 1);
    static const char *const names[] = {"token_embd.weight", "output.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight",
                                        "blk.0.ffn_norm.weight"};
    for (int i = 0; i < 5; i++) tz_tensor(m, names[i], type, 2, (uint64_t[]){256, 4});
}

static void tz_is(const quant__plan *p, const char *what, const char *name, const char *want) {
    const gguf_tensor *t = gguf_tensor_find(p->g, name);
    uint32_t           got = p->step[t - p->g->tensor].to;
    CHECKF(!strcmp(k_types[got].name, want), "%s: %s is %s, want %s", what, name, k_types[got].name, want);
}

static void t_quantize_asked(void) {
    tz_model  m = {0};
    gguf_file g;
    err_t     e = {0};
    tz_small(&m, K_F32);
    tz_make(&m);
    if (!CHECK(gguf_parse(&g, (uint8_t *)m.file.p, m.file.n, "F", &e))) return;
    for (size_t i = 0; i < sizeof tz_asked / sizeof *tz_asked; i++) {
        quant_opts  o = tz_asked[i].o;
        const char *list[3];
        quant__plan p;
        memcpy(list, tz_asked[i].list, sizeof list);
        o.tensor_type = list;
        while (o.n_tensor_type < 3 && list[o.n_tensor_type]) o.n_tensor_type++;
        e = (err_t){0};
        bool ok = quant__plan_make(&p, &g, tz_asked[i].type, &o, &e);
        if (tz_asked[i].says)
            CHECKF(!ok && e.code == EXIT_INPUT && strstr(e.text, tz_asked[i].says), "%s: %d %s", tz_asked[i].what, e.code, e.text);
        else if (CHECKF(ok, "%s: %s", tz_asked[i].what, e.text)) {
            tz_is(&p, tz_asked[i].what, "blk.0.ffn_up.weight", tz_asked[i].up);
            tz_is(&p, tz_asked[i].what, "blk.0.ffn_down.weight", tz_asked[i].down);
            tz_is(&p, tz_asked[i].what, "output.weight", tz_asked[i].out);
            tz_is(&p, tz_asked[i].what, "token_embd.weight", tz_asked[i].embd);
            tz_is(&p, tz_asked[i].what, "blk.0.ffn_norm.weight", "f32");
        }
        quant__plan_drop(&p);
    }
    gguf_close(&g);
    tz_drop(&m);
}

/* --- what is written --- */

static float tz_value(uint64_t i) { return (float)(rng_unit(rng_mix(i)) + rng_unit(rng_mix(~i)) - 1); }

/* Importance that differs by matrix and column; none for matrix 1. */
static float tz_guide_w[3][40000];
static const float *tz_weights(void *ctx, const gguf_tensor *t, uint64_t matrix) {
    CHECK(ctx == tz_guide_w && t->dim[0] <= 40000 && matrix < 3);
    return matrix == 1 ? NULL : tz_guide_w[matrix];
}

/* Shapes: rows of many pieces, a slice that ends inside a tensor, many short rows, experts. */
static const struct {
    const char *name;
    uint64_t    dim[3];
    uint32_t    from, to;
} tz_written[] = {
    {"long.weight", {19968, 1, 2}, K_F32, K_Q4_0},    {"short.weight", {32, 600, 3}, K_F16, K_Q8_0},
    {"big.weight", {512, 9000, 1}, K_BF16, K_F16},   {"again.weight", {256, 5, 1}, K_Q8_0, K_Q6_K},
    {"float.weight", {100, 7, 1}, K_F32, K_F16},      {"brain.weight", {77, 3, 1}, K_F16, K_BF16},
    {"same.weight", {64, 64, 1}, K_F32, K_F32},       {"one_norm.weight", {64, 1, 1}, K_F32, K_F32},
};
enum { TZ_WRITTEN = sizeof tz_written / sizeof *tz_written };

static void tz_fill(uint8_t *data, const gguf_file *g) {
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        uint64_t           n = t->dim[0] * t->dim[1] * t->dim[2];
        float             *x = mem_new(n, sizeof *x);
        for (uint64_t k = 0; k < n; k++) x[k] = tz_value(k + (i << 32));
        k_types[t->type].quant(x, data + (t->data - g->tensor[0].data), (int64_t)n);
        mem_free(x);
    }
}

/* Each row of the tensor as the fitter makes it when it is called for the row. */
static void tz_expect(const gguf_tensor *from, const gguf_tensor *got, bool guided) {
    const uint64_t n = from->dim[0];
    size_t         in = k_row_bytes(from->type, (int64_t)n), out = k_row_bytes(got->type, (int64_t)n);
    float         *x = mem_new(n, sizeof *x), *room = mem_new(n, sizeof *room);
    uint8_t       *want = mem_new(out, 1);
    for (uint64_t r = 0; r < from->dim[1] * from->dim[2]; r++) {
        const float *w = guided && r / from->dim[1] != 1 ? tz_guide_w[r / from->dim[1]] : NULL;
        k_types[from->type].dequant(from->data + r * in, x, (int64_t)n);
        if (from->type == got->type) memcpy(want, from->data + r * in, in);
        else quant__fit(got->type, x, w, room, want, n);
        if (!EQ_MEM(got->data + r * out, want, out)) break;
    }
    mem_free(x), mem_free(room);
    mem_free(want);
}

static void t_quantize_written(void) {
    static const char *const names[] = {"out.gguf", "in.gguf", NULL};
    tz_model    m = {0};
    gguf_file   g, q;
    err_t       e = {0};
    const char *list[TZ_WRITTEN];
    char        text[TZ_WRITTEN][64];
    quant_guide guide = {.ctx = tz_guide_w, .weights = tz_weights};
    uint64_t    hash[4];
    if (!tg_dir_new()) return;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 40000; k++) tz_guide_w[i][k] = 0.01f + fabsf(tz_value((uint64_t)(i * 40000 + k)));
    tz_key_str(&m, "general.architecture", "llama");
    for (int i = 0; i < TZ_WRITTEN; i++) {
        tz_tensor(&m, tz_written[i].name, tz_written[i].from, 3, tz_written[i].dim);
        snprintf(text[i], sizeof text[i], "^%s=%s", tz_written[i].name, k_types[tz_written[i].to].name);
        list[i] = text[i];
    }
    uint8_t *data = tz_make(&m);
    if (!CHECKF(gguf_parse(&g, (uint8_t *)m.file.p, m.file.n, "F", &e), "%s", e.text)) return;
    tz_fill(data, &g);
    for (int run = 0; run < 4; run++) {
        quant_opts o = {.tensor_type = list, .n_tensor_type = TZ_WRITTEN, .requantize = true, .n_threads = 1 + (run & 1) * 2,
                        .guide = run & 2 ? &guide : NULL};
        if (!CHECKF(quant_run(&g, "COPY", tg_path("out.gguf"), &o, NULL, &e), "%s", e.text) ||
            !CHECKF(gguf_open(&q, tg_path("out.gguf"), &e), "%s", e.text))
            break;
        EQ_INT(q.n_tensor, TZ_WRITTEN);
        for (int i = 0; i < TZ_WRITTEN; i++) {
            CHECKF(q.tensor[i].type == tz_written[i].to && bytes_is(q.tensor[i].name, tz_written[i].name), "%s", tz_written[i].name);
            if (!(run & 1)) tz_expect(&g.tensor[i], &q.tensor[i], o.guide);
        }
        hash[run] = bytes_hash(1, (bytes){q.part[0].p, q.part[0].n});
        gguf_close(&q);
    }
    CHECK(hash[0] == hash[1] && hash[2] == hash[3] && hash[0] != hash[2]);
    gguf_close(&g);
    tz_drop(&m);
    tg_dir_drop(names);
}

/* Keys: file type and version are replaced in place or added at the end, the importance matrix is named, the rest is unchanged. */
static void t_quantize_metadata(void) {
    static const char *const names[] = {"out.gguf", NULL};
    static const struct {
        const char *type, *keys;                      /* what comes out, in order */
        bool        have, guided;
    } rows[] = {
        {"Q8_0", "general.architecture llama.block_count general.quantization_version general.file_type", false, false},
        {"Q8_0", "general.architecture general.file_type general.quantization_version quantize.imatrix.file llama.block_count", true, false},
        {"COPY", "general.architecture llama.block_count", false, false},
        {"Q8_0", "general.architecture general.file_type general.quantization_version llama.block_count quantize.imatrix.file"
                 " quantize.imatrix.dataset quantize.imatrix.entries_count quantize.imatrix.chunks_count", true, true},
    };
    if (!tg_dir_new()) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tz_model   m = {0};
        gguf_file  g;
        err_t      e = {0};
        quant_opts o = {0};
        str        keys = {0};
        uint64_t   v = 0;
        tz_key_str(&m, "general.architecture", "llama");
        if (rows[i].have) tz_key_u32(&m, "general.file_type", 1), tz_key_u32(&m, "general.quantization_version", 1);
        if (rows[i].have) tz_key_str(&m, "quantize.imatrix.file", "old");
        tz_key_u32(&m, "llama.block_count", 1);
        tz_tensor(&m, "t.weight", K_F32, 2, (uint64_t[]){32, 2});
        tz_make(&m);
        if (rows[i].guided) {
            o.imatrix.file = "new";
            o.imatrix.dataset = bytes_of("text");
            o.imatrix.entries = 3;
            o.imatrix.chunks = 4;
        }
        CHECK(gguf_parse(&g, (uint8_t *)m.file.p, m.file.n, "F", &e));
        CHECKF(quant_run(&g, rows[i].type, tg_path("out.gguf"), &o, NULL, &e), "%s", e.text);
        gguf_close(&g);
        if (CHECKF(gguf_open(&g, tg_path("out.gguf"), &e), "%s", e.text)) {
            for (uint64_t k = 0; k < g.n_kv; k++) str_fmt(&keys, "%s%.*s", k ? " " : "", GGUF_SHOW(g.kv[k].key));
            EQ_STR(keys.p, rows[i].keys);
            bool named = strcmp(rows[i].type, "COPY") != 0;
            EQ_INT(gguf_get_u64(&g, "general.file_type", 0, 99, &v, &e), named);
            if (named) EQ_INT(v, 7);
            if (named) CHECK(gguf_get_u64(&g, "general.quantization_version", 0, 99, &v, &e) == 1 && v == 2);
            EQ_INT(g.tensor[0].type, named ? K_Q8_0 : K_F32);
        }
        gguf_close(&g);
        str_drop(&keys);
        tz_drop(&m);
    }
    tg_dir_drop(names);
}

/* --- what is refused: nothing is left, the words name the tensor and the row --- */

static const struct {
    const char *what, *type;
    uint32_t    from;
    uint64_t    dim[3], at;                           /* at: weight that gets the value */
    float       value;
    bool        requantize;
    const char *says;                                 /* NULL: is written */
} tz_refused[] = {
    {"clean", "Q4_K", K_F32, {256, 8, 1}, 0, 1, false, NULL},
    {"NaN", "Q4_K", K_F32, {256, 8, 1}, 256 * 5 + 3, NAN, false, "tensor t.weight holds nan in row 5, expected weights of at most"},
    {"-NaN in f16", "Q8_0", K_F16, {256, 8, 1}, 256 * 7 + 255, -NAN, false, "in row 7, expected weights"},
    {"Inf", "Q2_K", K_F32, {256, 8, 1}, 0, INFINITY, false, "tensor t.weight holds inf in row 0"},
    {"-Inf", "F16", K_F32, {256, 8, 1}, 256, -INFINITY, false, "tensor t.weight holds -inf in row 1"},
    {"Inf in bf16", "Q8_0", K_BF16, {256, 8, 1}, 256, INFINITY, false, "holds inf in row 1"},
    {"beyond f16", "F16", K_F32, {256, 8, 1}, 512, 70000, false, "holds 70000 in row 2, expected weights of at most 65504"},
    {"below f16", "F16", K_F32, {256, 8, 1}, 512, -65504, false, NULL},
    {"beyond bf16", "BF16", K_F32, {256, 8, 1}, 512, 3.4e38f, false, "holds 3.4e+38 in row 2"},
    {"large", "Q4_0", K_F32, {256, 8, 1}, 512, 5e5f, false, NULL},
    {"beyond q4_0", "Q4_0", K_F32, {256, 8, 1}, 512, 1e30f, false, "holds 1e+30 in row 2, expected weights of at most 524032"},
    {"large in f32", "F32", K_F16, {256, 8, 1}, 512, 65504, false, NULL},
    {"a long row", "Q8_0", K_F32, {40960, 3, 1}, 40960 * 2 + 40000, NAN, false, "holds nan in row 2"},
    {"an expert", "Q8_0", K_F32, {256, 4, 3}, 256 * 9 + 17, NAN, false, "holds nan in row 9"},
    {"quantised", "Q4_0", K_Q8_0, {256, 8, 1}, 0, 1, false, "tensor t.weight is q8_0 already, expected a float type (--allow-requantize"},
    {"quantised, asked", "Q4_0", K_Q8_0, {256, 8, 1}, 0, 1, true, NULL},
    {"quantised, the same", "Q8_0", K_Q8_0, {256, 8, 1}, 0, 1, false, NULL},
};

static void t_quantize_refused(void) {
    static const char *const names[] = {"out.gguf", NULL};
    if (!tg_dir_new()) return;
    for (size_t i = 0; i < sizeof tz_refused / sizeof *tz_refused; i++) {
        tz_model   m = {0};
        gguf_file  g;
        err_t      e = {0};
        quant_opts o = {.requantize = tz_refused[i].requantize, .n_threads = 2, .pure = true};
        uint64_t   n = tz_refused[i].dim[0] * tz_refused[i].dim[1] * tz_refused[i].dim[2];
        float     *x = mem_new(n, sizeof *x);
        for (uint64_t k = 0; k < n; k++) x[k] = tz_value(k);
        x[tz_refused[i].at] = tz_refused[i].value;
        tz_tensor(&m, "a.weight", K_F32, 2, (uint64_t[]){32, 2});
        tz_tensor(&m, "t.weight", tz_refused[i].from, 3, tz_refused[i].dim);
        uint8_t *data = tz_make(&m);
        CHECKF(gguf_parse(&g, (uint8_t *)m.file.p, m.file.n, "F", &e), "%s", e.text);
        k_types[tz_refused[i].from].quant(x, data + (g.tensor[1].data - g.tensor[0].data), (int64_t)n);
        bool        ok = quant_run(&g, tz_refused[i].type, tg_path("out.gguf"), &o, NULL, &e);
        const char *says = tz_refused[i].says;
        CHECKF(ok == !says && (ok || (e.code == EXIT_INPUT && strstr(e.text, says))), "%s: %d %s", tz_refused[i].what, e.code, e.text);
        CHECKF((unlink(tg_path("out.gguf")) == 0) == ok, "%s: a file where none should be, or none", tz_refused[i].what);
        gguf_close(&g);
        tz_drop(&m);
        mem_free(x);
    }
    tg_dir_drop(names);
}

/* Bits per weight of Llama 3.1 8B, as llama.cpp lists them in tools/quantize/README.md. That of IQ3_XXS, 3.2548, is with an
 * importance matrix; without one more tensors have more bits. */
static void t_quantize_listed(void) {
    static const struct {
        const char *name, *bits;
    } rows[] = {
        {"IQ1_S", "2.00"},  {"IQ1_M", "2.15"},  {"IQ2_XXS", "2.38"}, {"IQ2_XS", "2.59"}, {"IQ2_S", "2.74"},  {"IQ2_M", "2.93"},
        {"IQ3_XS", "3.50"}, {"IQ3_S", "3.66"},  {"IQ3_M", "3.76"},   {"IQ4_XS", "4.46"}, {"IQ4_NL", "4.68"}, {"Q2_K_S", "2.97"},
        {"Q2_K", "3.16"},   {"Q3_K_S", "3.64"}, {"Q3_K_L", "4.30"},  {"Q4_K_S", "4.67"}, {"Q4_K_M", "4.89"}, {"Q5_K_S", "5.57"},
        {"Q5_K_M", "5.70"}, {"Q6_K", "6.56"},   {"Q8_0", "8.50"},    {"F16", "16.00"}};
    str list = {0};
    quant_list(&list);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char begin[40];
        snprintf(begin, sizeof begin, "%-10s %7s  ", rows[i].name, rows[i].bits);
        CHECKF(strstr(list.p, begin) != NULL, "%s in %s", begin, list.p);
    }
    str_drop(&list);
}

static const t_case t_quantize_cases[] = {
    {"quantize/types",    "every tensor of seven models gets the type that llama.cpp gives it",          t_quantize_types},
    {"quantize/listed",   "bits per weight of the list are those of llama.cpp's list for the same model",          t_quantize_listed},
    {"quantize/tables",   "names, numbers and fallbacks are complete; kept tensors are unchanged",           t_quantize_tables},
    {"quantize/asked",    "patterns and types on the command line, valid and invalid",             t_quantize_asked},
    {"quantize/written",  "the written blocks are those of each row, for any number of threads and importance", t_quantize_written},
    {"quantize/metadata", "file type, version and importance matrix are written, everything else is unchanged",      t_quantize_metadata},
    {"quantize/refused",  "a tensor with a NaN, with too large weights or already quantised is refused by name",        t_quantize_refused},
};
static const t_suite t_quantize_suite = SUITE(t_quantize_cases);
