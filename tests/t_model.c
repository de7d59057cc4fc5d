/* Hyper-parameters and tensors: errors are refused by name, unusual but valid models are accepted. */
#include "program.h"
#include "check.h"
#include "t_fwd.h"

/* A tiny model's bytes with one scalar key overwritten by `bits` (4 bytes). NULL when the key is not there. */
static uint8_t *t_model_patched(const char *file, const char *key, uint32_t bits, size_t *n) {
    uint8_t *p = (uint8_t *)t_read(t_tiny_path(file), n);
    uint8_t *at = p ? memmem(p, *n, key, strlen(key)) : NULL;
    if (!CHECKF(at != NULL, "%s has no key %s", file, key)) return p;
    memcpy(at + strlen(key) + 4, &bits, sizeof bits);   /* after the key: its type, then the value */
    return p;
}

static uint32_t t_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static void t_model_refusals(void) {
    const struct {
        const char *file, *key;
        uint32_t    bits;
        const char *word;                             /* in the message */
    } rows[] = {
        {"llama.gguf", "llama.block_count", 0, "block_count"},
        {"llama.gguf", "llama.block_count", 1, "not part of"},
        {"llama.gguf", "llama.block_count", 3, "missing"},
        {"llama.gguf", "llama.block_count", 513, "block_count"},
        {"llama.gguf", "llama.block_count", 0xffffffffu, "block_count"},
        {"llama.gguf", "llama.context_length", 0, "context_length"},
        {"llama.gguf", "llama.context_length", 0xffffffffu, "context_length"},
        {"llama.gguf", "llama.embedding_length", 0, "embedding_length"},
        {"llama.gguf", "llama.embedding_length", 63, "embedding length"},
        {"llama.gguf", "llama.embedding_length", 128, "token_embd.weight"},
        {"llama.gguf", "llama.feed_forward_length", 0, "feed_forward_length"},
        {"llama.gguf", "llama.feed_forward_length", 95, "ffn_gate"},
        {"llama.gguf", "llama.attention.head_count", 0, "head_count"},
        {"llama.gguf", "llama.attention.head_count", 3, "query heads"},
        {"llama.gguf", "llama.attention.head_count", 0x7fffffff, "head_count"},
        {"llama.gguf", "llama.attention.head_count_kv", 0, "head_count_kv"},
        {"llama.gguf", "llama.attention.head_count_kv", 3, "query heads"},
        {"llama.gguf", "llama.attention.head_count_kv", 64, "query heads"},
        {"llama.gguf", "llama.attention.layer_norm_rms_epsilon", t_bits(0), "epsilon"},
        {"llama.gguf", "llama.attention.layer_norm_rms_epsilon", t_bits(NAN), "epsilon"},
        {"llama.gguf", "llama.attention.layer_norm_rms_epsilon", t_bits(-1), "epsilon"},
        {"llama.gguf", "llama.rope.dimension_count", 7, "dimension_count"},
        {"llama.gguf", "llama.rope.dimension_count", 4096, "dimension_count"},
        {"llama.gguf", "llama.rope.freq_base", t_bits(0), "freq_base"},
        {"llama.gguf", "llama.rope.freq_base", t_bits(NAN), "freq_base"},
        {"llama.gguf", "llama.rope.freq_base", t_bits(-10000), "freq_base"},
        {"llama_linear.gguf", "llama.rope.scaling.factor", t_bits(NAN), "factor"},
        {"llama_linear.gguf", "llama.rope.scaling.factor", t_bits(-4), "factor"},
        {"llama_window.gguf", "llama.attention.sliding_window", 0x80000000u, "sliding_window"},
        {"llama_moe.gguf", "llama.expert_count", 1000000, "expert_count"},
        {"llama_moe.gguf", "llama.expert_used_count", 0, "expert_used_count"},
        {"llama_moe.gguf", "llama.expert_used_count", 5, "expert_used_count"},
        {"llama_moe.gguf", "llama.expert_count", 0, "expert_used_count"},
        {"qwen3moe.gguf", "qwen3moe.expert_count", 0, "expert_count"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t    n;
        err_t     e = {0};
        gguf_file g;
        uint8_t  *p = t_model_patched(rows[i].file, rows[i].key, rows[i].bits, &n);
        if (CHECKF(gguf_parse(&g, p, n, "patched", &e), "%s", e.text)) {
            CHECKF(!model_check(&g, &e), "%s = %#x is accepted", rows[i].key, rows[i].bits);
            EQ_INT(e.code, EXIT_INPUT);
            CHECKF(strstr(e.text, rows[i].word) != NULL, "%s = %#x: \"%s\" does not say %s", rows[i].key, rows[i].bits, e.text,
                   rows[i].word);
            gguf_close(&g);
        }
        mem_free(p);
    }
}

/* --- one key more or other --- */

enum { T_ALIGN = 32 };                                /* of the tiny models */

static void t_kv_record(str *s, const char *key, uint32_t type, const void *value, size_t n) {
    const uint64_t len = strlen(key);
    str_add(s, &len, sizeof len);
    str_add(s, key, (size_t)len);
    str_add(s, &type, sizeof type);
    str_add(s, value, n);
}

/* A tiny model's bytes with this key: a record in front of all others, and a filler after it, so that the tensors stay aligned. A
 * record that had the key has another name. value NULL: the key is only taken away. */
static str t_model_with(const char *file, const char *key, uint32_t type, const void *value, size_t n_value) {
    static const char zeros[T_ALIGN];
    size_t            n;
    uint8_t          *p = (uint8_t *)t_read(t_tiny_path(file), &n);
    str               s = {0}, look = {0};
    const uint64_t    len = strlen(key);
    str_add(&look, &len, sizeof len);
    str_put(&look, key);
    uint8_t *old = p ? memmem(p, n, look.p, look.n) : NULL;
    if (old) old[sizeof len] ^= 1;
    if (p) {
        uint64_t n_kv;
        str_add(&s, p, 24);
        if (value) t_kv_record(&s, key, type, value, n_value);
        const uint64_t pad = T_ALIGN - (s.n - 24 + sizeof len + 3 + sizeof type + sizeof len) % T_ALIGN;
        t_kv_record(&s, "pad", GGUF_STR, &pad, sizeof pad);
        str_add(&s, zeros, (size_t)pad);
        str_add(&s, p + 24, n - 24);
        memcpy(&n_kv, s.p + 16, sizeof n_kv);
        n_kv += value ? 2 : 1;
        memcpy(s.p + 16, &n_kv, sizeof n_kv);
    }
    str_drop(&look);
    mem_free(p);
    return s;
}

/* Whether the model would run with this key; if not, the message names the key and holds `word`. */
static bool t_model_takes(const char *file, const char *key, uint32_t type, const void *value, size_t n, const char *word) {
    str       s = t_model_with(file, key, type, value, n);
    err_t     e = {0};
    gguf_file g;
    bool      ok = false;
    if (CHECKF(s.n && gguf_parse(&g, (uint8_t *)s.p, s.n, "patched", &e), "%s: %s", file, e.text)) {
        model m;
        if (arch_assists(&g)) {                       /* lies beside a model: it is never opened alone */
            ok = model__load(&m, &g, &rope_defaults, true, &e);
            model_close(&m);
        } else ok = model_check(&g, &e);
        if (!ok) CHECKF(strstr(e.text, key) && strstr(e.text, word), "%s, %s: \"%s\" does not say %s", file, key, e.text, word);
        gguf_close(&g);
    }
    str_drop(&s);
    return ok;
}

static bool t_model_takes_f32(const char *file, const char *key, double x) {
    const float f = (float)x;
    return t_model_takes(file, key, GGUF_F32, &f, sizeof f, "expected");
}

static bool t_model_takes_u64(const char *file, const char *key, double x) {
    const uint64_t u = (uint64_t)x;
    return t_model_takes(file, key, GGUF_U64, &u, sizeof u, "expected");
}

/* An array of n numbers, i in place i. */
static bool t_model_takes_arr(const char *file, const char *key, int n) {
    str            s = {0};
    const uint32_t elem = GGUF_U32;
    const uint64_t count = (uint64_t)n;
    str_add(&s, &elem, sizeof elem);
    str_add(&s, &count, sizeof count);
    for (uint32_t i = 0; i < (uint32_t)n; i++) str_add(&s, &i, sizeof i);
    const bool ok = t_model_takes(file, key, GGUF_ARR, s.p, s.n, "expected");
    str_drop(&s);
    return ok;
}

/* One row of arch_keys against a model of an architecture that reads it: values out of range, of another type, arrays of
 * another length. */
static void t_model_key(const char *file, const arch_hparams *hp, const arch_key *k) {
    static const uint8_t text[] = {5, 0, 0, 0, 0, 0, 0, 0, 'm', 'a', 'g', 'i', 'c'};
    char                 key[ARCH_KEY];
    arch__key(hp, k->name, key);
    if (k->flags & H_NEED) CHECKF(!t_model_takes(file, key, 0, NULL, 0, "missing"), "%s: no %s", file, key);
    CHECKF(!t_model_takes(file, key, GGUF_STR, text, sizeof text, "expected"), "%s: %s is a text", file, key);
    CHECKF(!t_model_takes_arr(file, key, 1000), "%s: %s has 1000 values", file, key);
    if (k->type == H_ONLY) {
        CHECKF(t_model_takes_f32(file, key, k->lo) && t_model_takes_f32(file, key, k->hi), "%s: %s = %g or %g", file, key, k->lo,
               k->hi);
        CHECKF(!t_model_takes_f32(file, key, k->hi + 0.5), "%s: %s = %g is accepted", file, key, k->hi + 0.5);
    } else if (k->type == H_INT) {
        CHECKF(k->lo == 0 || !t_model_takes_u64(file, key, k->lo - 1), "%s: %s = %.0f is accepted", file, key, k->lo - 1);
        CHECKF(!t_model_takes_u64(file, key, k->hi + 1), "%s: %s = %.0f is accepted", file, key, k->hi + 1);
    } else if (k->type == H_FLT) {
        CHECKF(!t_model_takes_f32(file, key, k->lo - 1), "%s: %s = %g is accepted", file, key, k->lo - 1);
        CHECKF(!t_model_takes_f32(file, key, k->hi * 2), "%s: %s = %g is accepted", file, key, k->hi * 2);
        CHECKF(!t_model_takes_f32(file, key, (double)NAN), "%s: %s = nan is accepted", file, key);
    }
}

static void t_model_keys(void) {
    static const char *files[] =
        {"llama", "llama_moe", "qwen2", "qwen2moe", "qwen3moe", "mistral3", "granitemoe", "starcoder2", "qwen3vl",
         "../encoders/nomic-bert-moe", "../encoders/jina-bert-v2", "qwen35", "lfm2moe", "gemma4", "gemma3n",
         "bailingmoe", "minicpm", "olmo", "deepseek2-ocr", "mimo2", "step35", "beside/gemma4-assistant", "phimoe", "deci", "grok",
         "hunyuan_vl", "grovemoe", "nanbeige", "apertus", "mpt", "laguna", "deepseek2_v3",
         "mistral4", "command-r", "falcon", "gptneox", "llama4", "mamba2", "nemotron_h_moe_latent", "granitehybrid", "mamba",
         "rwkv7", "rwkv6", "kimi-linear", "minimax-m3", "deepseek32", "qwen4exp", "deepseek4", "../pairs/t5", "../diffuse/dream"};
    bool               met[ARCH_KEYS] = {false};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        gguf_file    g;
        arch_hparams hp = {0};
        err_t        e = {0};
        char         name[64];
        snprintf(name, sizeof name, "%s.gguf", files[f]);
        if (!CHECKF(gguf_open(&g, t_tiny_path(name), &e) && arch_load(&hp, &g, &e), "%s", e.text)) continue;
        for (int i = 0; i < ARCH_KEYS; i++) {
            if (!arch__reads(hp.desc, i) || (met[i] && !arch_keys[i].traits)) continue;
            t_model_key(name, &hp, &arch_keys[i]);
            met[i] = true;
        }
        arch_drop(&hp);
        gguf_close(&g);
    }
    for (int i = 0; i < ARCH_KEYS; i++) {
        bool read = false;
        for (int a = 0; a < ARCH_COUNT; a++) read |= arch__reads(&arch_table[a], i);
        CHECKF(met[i] || !read, "no model reads %s", arch_keys[i].name);
    }
}

/* What an array of two values makes of the layers of a model. */
static void t_model_each(const char *key, uint32_t a, uint32_t b, void (*check)(const arch_hparams *hp)) {
    const uint32_t value[] = {GGUF_U32, 2, 0, a, b};
    str            s = t_model_with("llama.gguf", key, GGUF_ARR, value, sizeof value);
    gguf_file      g;
    arch_hparams   hp = {0};
    err_t          e = {0};
    if (CHECKF(s.n && gguf_parse(&g, (uint8_t *)s.p, s.n, "patched", &e), "%s", e.text)) {
        if (CHECKF(arch_load(&hp, &g, &e), "%s", e.text)) check(&hp);
        arch_drop(&hp);
        gguf_close(&g);
    }
    str_drop(&s);
}

static void t_each_kv(const arch_hparams *hp) {
    EQ_INT(hp->layer[0].n_head_kv, 1);
    EQ_INT(hp->layer[1].n_head_kv, 4);
    EQ_INT(arch_dim(hp, D_K, 0), 12);
    EQ_INT(arch_dim(hp, D_K, 1), 48);
    EQ_INT(model_kv_bytes(hp, K_F16, K_F16), (12 + 48) * 2 * 2);
}

static void t_each_head(const arch_hparams *hp) {
    EQ_INT(hp->layer[0].hd_k, 32);
    EQ_INT(hp->layer[1].hd_v, 16);                    /* as wide as the keys unless the file says */
    NEAR((double)hp->layer[0].attn_scale, 1 / sqrt(32), 1e-7);
    NEAR((double)hp->layer[1].attn_scale, 1 / sqrt(16), 1e-7);
    EQ_INT(arch_dim(hp, D_Q, 0), 128);
}

static void t_each_rot(const arch_hparams *hp) {
    EQ_INT(hp->n_rope, 2);
    EQ_INT(hp->rope[hp->layer[0].rope].n_rot, 4);
    EQ_INT(hp->rope[hp->layer[1].rope].n_rot, 12);
    NEAR((double)hp->rope[0].base, (double)hp->rope[1].base, 0);
}

static void t_each_still(const arch_hparams *hp) {
    EQ_INT(hp->n_rope, 1);
    EQ_INT(hp->layer[0].n_rot, 0);
    EQ_INT(hp->rope[hp->layer[1].rope].n_rot, 8);
}

static void t_each_window(const arch_hparams *hp) {
    EQ_INT(hp->layer[0].window, 7);
    EQ_INT(hp->layer[1].window, 0);
}

static void t_each_windows(const arch_hparams *hp) {
    EQ_INT(hp->layer[0].window, 7);
    EQ_INT(hp->layer[1].window, 9);
}

static void t_each_ff(const arch_hparams *hp) {
    EQ_INT(hp->layer[0].ffn, FFN_DENSE);
    EQ_INT(hp->layer[1].ffn, FFN_NONE);
    CHECK(arch_slot_of(hp, W_FFN_NORM, 0) && !arch_slot_of(hp, W_FFN_NORM, 1));
    CHECK(arch_slot_of(hp, W_GATE, 0) && !arch_slot_of(hp, W_GATE, 1));
    CHECK(arch_slot_of(hp, W_Q, 1) && !arch_slot_of(hp, W_Q, -1));
}

static void t_each_expert(const arch_hparams *hp) {
    EQ_INT(hp->layer[0].ffn, FFN_DENSE);
    EQ_INT(hp->layer[0].n_ff_exp, 0);
}

/* RoPE of as many widths as there are tables for, and of one more. */
static void t_model_tables(void) {
    uint32_t     value[] = {GGUF_U32, ARCH_ROPES + 1, 0, 2, 4, 6, 8, 10}, n_layer = ARCH_ROPES + 1;
    const char  *count = "llama.block_count";
    _Static_assert(ARCH_ROPES == 4, "one width more than there are tables");
    for (int more = 0; more < 2; more++) {
        value[7] = more ? 10 : 2;
        str          s = t_model_with("llama.gguf", "llama.rope.dimension_count", GGUF_ARR, value, sizeof value);
        char        *at = memmem(s.p, s.n, count, strlen(count));
        gguf_file    g;
        arch_hparams hp = {0};
        err_t        e = {0};
        if (CHECK(at != NULL)) memcpy(at + strlen(count) + 4, &n_layer, sizeof n_layer);
        if (CHECKF(gguf_parse(&g, (uint8_t *)s.p, s.n, "patched", &e), "%s", e.text)) {
            EQ_INT(arch_load(&hp, &g, &e), !more);
            EQ_INT(hp.n_rope, ARCH_ROPES);
            if (more) CHECKF(strstr(e.text, "rope.dimension_count") != NULL, "%s", e.text);
            else EQ_INT(hp.layer[4].rope, 0);
            arch_drop(&hp);
            gguf_close(&g);
        }
        str_drop(&s);
    }
}

/* Factors of frequencies are positive, and there is one table for them. */
static void t_model_factors(void) {
    gguf_file g;
    model     m;
    err_t     e = {0};
    float     f[6] = {1, 1, 1, 1, 1, 1};
    if (!CHECKF(gguf_open(&g, t_tiny_path("llama.gguf"), &e) && model_open(&m, &g, &rope_defaults, &e), "%s", e.text)) return;
    EQ_INT(arch_dim(&m.hp, D_ROT, -1), 6);
    m.glob.vec[W_ROPE_FREQS] = f;
    CHECK(model__check_freqs(&m, &e));
    f[5] = 1e30f;                                     /* a pair that does not rotate */
    CHECK(model__check_freqs(&m, &e));
    f[5] = 1e29f;
    CHECK(!model__check_freqs(&m, &e) && strstr(e.text, "value 5"));
    e = (err_t){0};
    f[5] = 1;
    m.hp.n_rope = 2;
    CHECK(!model__check_freqs(&m, &e) && strstr(e.text, "2 tables"));
    model_close(&m);
    gguf_close(&g);
}

/* Names of arch_peers are those of keys and of architectures, and a key is there once. */
static void t_model_peers(void) {
    CHECK(ARCH_PEERS <= 32);                          /* bits of own_keys */
    for (size_t i = 0; i < ARCH_PEERS; i++) {
        bool known = false;
        for (int k = 0; k < ARCH_KEYS; k++) known |= !strcmp(arch_keys[k].name, arch_peers[i].key);
        for (size_t j = 0; j < i; j++) known &= strcmp(arch_peers[j].key, arch_peers[i].key) != 0;
        CHECKF(known, "%s is no key, or there twice", arch_peers[i].key);
        for (const char *s = arch_peers[i].archs; *s; s += strspn(s, " ")) {
            const bytes w = {(const uint8_t *)s, strcspn(s, " ")};
            bool        is = false;
            for (int a = 0; a < ARCH_COUNT; a++) is |= bytes_is(w, arch_table[a].name);
            CHECKF(is, "%s: %.*s is no architecture", arch_peers[i].key, (int)w.n, w.p);
            s += w.n;
        }
    }
}

/* A RoPE factor of 0 stands for 1, also where the older key says another one. */
static void t_model_unset(void) {
    static const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const float  zero = 0;
        str          s = t_model_with("llama_linear.gguf", keys[i], GGUF_F32, &zero, sizeof zero);
        gguf_file    g;
        arch_hparams hp = {0};
        err_t        e = {0};
        if (CHECKF(gguf_parse(&g, (uint8_t *)s.p, s.n, "patched", &e) && arch_load(&hp, &g, &e), "%s", e.text))
            NEAR((double)hp.rope[0].factor, i ? 4 : 1, 0);
        arch_drop(&hp);
        gguf_close(&g);
        str_drop(&s);
    }
}

/* Layers may differ: a key with an array gives each its own number. */
static void t_model_layers(void) {
    t_model_each("llama.attention.head_count_kv", 1, 4, t_each_kv);
    t_model_each("llama.attention.key_length", 32, 16, t_each_head);
    t_model_each("llama.rope.dimension_count", 4, 12, t_each_rot);
    t_model_each("llama.rope.dimension_count", 0, 8, t_each_still);
    t_model_each("llama.attention.sliding_window", 7, 0, t_each_window);
    t_model_each("llama.attention.sliding_window", 7, 9, t_each_windows);
    t_model_each("llama.feed_forward_length", 80, 0, t_each_ff);
    t_model_each("llama.expert_count", 0, 0, t_each_expert);
}

/* Each tensor in turn gets another name: the model reports a missing or unknown tensor. */
static void t_model_tensors(void) {
    static const char *files[] =
        {"llama.gguf", "qwen2.gguf", "qwen3.gguf", "llama_bias.gguf", "qwen2moe.gguf", "llama_rope3.gguf"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        size_t    n;
        uint8_t  *p = (uint8_t *)t_read(t_tiny_path(files[f]), &n);
        gguf_file g;
        err_t     e = {0};
        if (!CHECKF(p && gguf_parse(&g, p, n, files[f], &e), "%s", e.text)) continue;
        CHECKF(model_check(&g, &e), "%s", e.text);
        for (uint64_t i = 0; i < g.n_tensor; i++) {
            char      name[80];
            gguf_file bad;
            uint8_t  *at;
            e = (err_t){0};
            snprintf(name, sizeof name, "%.*s", (int)g.tensor[i].name.n, (const char *)g.tensor[i].name.p);
            at = p + (g.tensor[i].name.p - p);
            *at ^= 1;                                 /* another first letter: this tensor is missing, an unknown one is there */
            if (CHECKF(gguf_parse(&bad, p, n, files[f], &e), "%s", e.text)) {
                CHECKF(!model_check(&bad, &e), "%s without %s is accepted", files[f], name);
                CHECKF(strstr(e.text, "missing") || strstr(e.text, "not part of") || strstr(e.text, "expected"), "%s: \"%s\"",
                       name, e.text);
                gguf_close(&bad);
            }
            *at ^= 1;
        }
        gguf_close(&g);
        mem_free(p);
    }
}

/* The frequencies that the tables of the RoPE variants promise, spot-checked by their formulas. */
static void t_model_rope(void) {
    gguf_file g;
    model     m;
    err_t     e = {0};
    rope_opts o = rope_defaults;
    if (!CHECKF(gguf_open(&g, t_tiny_path("llama.gguf"), &e), "%s", e.text)) return;
    CHECKF(model_open(&m, &g, &o, &e), "%s", e.text);
    for (int i = 0; i < m.hp.rope[0].n_rot / 2; i++)
        NEAR(m.rope[0].freq[i], pow((double)m.hp.rope[0].base, -2.0 * i / m.hp.rope[0].n_rot), 1e-15);
    double last = m.rope[0].freq[m.hp.rope[0].n_rot / 2 - 1], first = m.rope[0].freq[0];
    model_close(&m);
    o.factor = 4;
    CHECK(model_open(&m, &g, &o, &e));
    NEAR(m.rope[0].freq[0], first / 4, 1e-15);
    model_close(&m);
    o.scaling = "yarn";                               /* the fastest pair stays, the slowest is stretched */
    o.orig_ctx = 16;
    CHECK(model_open(&m, &g, &o, &e));
    NEAR(m.rope[0].freq[m.hp.rope[0].n_rot / 2 - 1], last / 4, 1e-15);
    NEAR((double)m.rope[0].mscale, 1 + 0.1 * log(4), 1e-6);
    model_close(&m);
    o.scaling = "none";
    CHECK(model_open(&m, &g, &o, &e));
    NEAR(m.rope[0].freq[0], first, 1e-15);
    model_close(&m);
    o.scaling = "magic";
    CHECK(!model_open(&m, &g, &o, &e));
    CHECK(strstr(e.text, "magic") != NULL);
    model_close(&m);
    gguf_close(&g);
}

/* attn_kv_b has, head by head, rows of keys and then of values. Keys are turned, in the type of the file or in bf16. */
static void t_model_latent(void) {
    static const char *const names[] = {"deepseek2_old", "deepseek2_q8_0"};
    for (int f = 0; f < 2; f++) {
        gguf_file g;
        model     m;
        err_t     e = {0};
        char      name[64];
        snprintf(name, sizeof name, "%s.gguf", names[f]);
        if (!CHECKF(gguf_open(&g, t_tiny_path(name), &e) && model_open(&m, &g, &rope_defaults, &e), "%s", e.text)) continue;
        const arch_layer_hp *l = &m.hp.layer[1];
        const gguf_tensor   *t = gguf_tensor_find(&g, "blk.1.attn_kv_b.weight");
        const dev_mat       *k = &m.layer[1].mat[W_K_B], *v = &m.layer[1].mat[W_V_B];
        const int            nope = l->hd_q - l->n_rot, rank = l->rank;
        const size_t         row = k_row_bytes(t->type, rank);
        float               *want = mem_new((size_t)rank, sizeof *want), *got = mem_new((size_t)(nope + rank), sizeof *got);
        EQ_INT(k->type, t->type == K_F32 ? K_F32 : K_BF16);
        EQ_INT(k->n_in, nope), EQ_INT(k->n_out, rank), EQ_INT(k->n_mat, l->n_head);
        EQ_INT(v->n_in, rank), EQ_INT(v->n_out, l->hd_o), EQ_INT(v->n_mat, l->n_head);
        for (int h = 0; h < l->n_head; h++)
            for (int i = 0; i < nope + l->hd_o; i++) {
                const uint8_t *from = t->data + (size_t)(h * (nope + l->hd_o) + i) * row;
                k_types[t->type].dequant(from, want, rank);
                if (i >= nope) {
                    CHECK(from == v->data + (size_t)h * v->mat_bytes + (size_t)(i - nope) * v->row_bytes);
                    continue;
                }
                for (int d = 0; d < rank; d++) {
                    k_types[k->type].dequant(k->data + (size_t)h * k->mat_bytes + (size_t)d * k->row_bytes, got, nope);
                    CHECK(got[i] == (t->type == K_F32 ? want[d] : k_bf16_to_f32(k_f32_to_bf16(want[d]))));
                }
            }
        mem_free_all(want, got);
        model_close(&m);
        gguf_close(&g);
    }
}

static const t_case t_model_cases[] = {
    {"model refusals", "hyper-parameters out of range are refused by name", t_model_refusals},
    {"model keys", "each row of the table of hyper-parameters refuses what is out of its range, by name", t_model_keys},
    {"model latent", "keys' and values' matrices of all heads in one become those of each head", t_model_latent},
    {"model layers", "an array gives each layer its own sizes", t_model_layers},
    {"model peers", "keys that llama.cpp does not read are those of the table of hyper-parameters", t_model_peers},
    {"model unset", "a RoPE factor of 0 is none", t_model_unset},
    {"model tables", "layers with RoPE of different widths have tables of their own, four at most", t_model_tables},
    {"model factors", "factors of RoPE frequencies are checked", t_model_factors},
    {"model tensors", "no tensor may be missing, none is ignored", t_model_tensors},
    {"model rope", "frequencies of the scalings", t_model_rope},
};
static const t_suite t_model_suite = SUITE(t_model_cases);
