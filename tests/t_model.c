/* Hyper-parameters and tensors: what is wrong is refused by name, what is odd but right is understood. */

/* A tiny model's bytes with one scalar key overwritten by `bits` (4 bytes). NULL when the key is not there. */
static uint8_t *t_model_patched(const char *file, const char *key, uint32_t bits, size_t *n) {
    uint8_t *p = (uint8_t *)t_read(t_tiny_path(file), n);
    uint8_t *at = p ? memmem(p, *n, key, strlen(key)) : NULL;
    if (!CHECKF(at != NULL, "%s has no key %s", file, key)) return p;
    memcpy(at + strlen(key) + 4, &bits, sizeof bits);   /* behind the key: its type, then the value */
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
            CHECKF(strstr(e.text, rows[i].word) != NULL, "%s = %#x: \"%s\" does not say %s", rows[i].key, rows[i].bits, e.text, rows[i].word);
            gguf_close(&g);
        }
        mem_free(p);
    }
}

/* Each tensor in turn renamed away: missing or foreign, but never silently ignored. */
static void t_model_tensors(void) {
    static const char *files[] = {"llama.gguf", "qwen2.gguf", "qwen3.gguf", "llama_bias.gguf", "qwen2moe.gguf", "llama_rope3.gguf"};
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
                CHECKF(strstr(e.text, "missing") || strstr(e.text, "not part of") || strstr(e.text, "expected"), "%s: \"%s\"", name, e.text);
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
    for (int i = 0; i < m.hp.rope[0].n_rot / 2; i++) NEAR(m.rope[0].freq[i], pow((double)m.hp.rope[0].base, -2.0 * i / m.hp.rope[0].n_rot), 1e-15);
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

static const t_case t_model_cases[] = {
    {"model refusals", "hyper-parameters out of range are refused by name", t_model_refusals},
    {"model tensors", "no tensor may be missing, none is ignored", t_model_tensors},
    {"model rope", "frequencies of the scalings", t_model_rope},
};
