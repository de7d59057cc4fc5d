/* ===== [inspect] report of a model file =====
 * Checks a file as a run does (container, vocabulary, architecture, the shape of every tensor) and prints its content as text in
 * columns or as one JSON object. No step is run.
 * Strings come from the file: bytes that could steer a terminal are printed as \xNN.
 * JSON keys: file, version, parts, bytes, alignment, architecture, name, parameters, hyperparameters (keys as in the
 * metadata, without the architecture's name), vocabulary {model, pre, tokens, bos, eos, add_bos, add_eos} or null,
 * types [{type, tensors, weights, bytes}], memory {mapping, kv_per_1000_tokens_f16, state_per_sequence, state_per_snapshot; the
 * last three null for an unknown architecture}, metadata [{key, type, value}; an array also has of, count and, if longer than
 * INSPECT_JSON elements, cut: true, with the first ones in value],
 * metadata_by_key {key: value; a cut array is {of, count, first}}, tensors [{name, type,
 * shape, bytes, offset, part}], runs, vocabulary_only, problem (text or null). Keys may be added, never removed.
 * Public: inspect_print. */

enum { INSPECT_ARRAY = 6, INSPECT_JSON = 16, INSPECT_TEXT = 72 };   /* elements shown of an array; bytes of a string */

typedef struct {
    const gguf_file *g;
    tok_vocab       *vocab;                           /* NULL: none in the file, or not usable */
    arch_hparams     hp;
    bool             hp_ok, vocab_only;
    bytes            arch;                            /* general.architecture; "": none */
    bool             adapter;                         /* an adapter, which is checked beside a model alone */
    err_t            problem;                         /* why the file cannot run; code 0: it can */
} inspect_file;

/* --- values --- */

/* The fewest digits that read back as the same float. */
static void inspect__float(str *s, double x, bool single, bool json) {
    char buf[40];
    if (json && !isfinite(x)) {
        str_put(s, "null");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, x);
        if (single ? strtof(buf, NULL) == (float)x : strtod(buf, NULL) == x) break;
    }
    str_put(s, buf);
}

/* One number or bool of the file. */
static void inspect__number(str *s, uint32_t type, const uint8_t *p, bool json) {
    union {
        uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64;
        int8_t  i8; int16_t  i16; int32_t  i32; int64_t  i64;
        float  f32; double   f64;
    } v;
    static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    memcpy(&v, p, size[type]);
    switch (type) {
    case GGUF_U8: str_fmt(s, "%u", v.u8); break;
    case GGUF_I8: str_fmt(s, "%d", v.i8); break;
    case GGUF_U16: str_fmt(s, "%u", v.u16); break;
    case GGUF_I16: str_fmt(s, "%d", v.i16); break;
    case GGUF_U32: str_fmt(s, "%u", v.u32); break;
    case GGUF_I32: str_fmt(s, "%d", v.i32); break;
    case GGUF_U64: str_fmt(s, "%llu", GGUF_U(v.u64)); break;
    case GGUF_I64: str_fmt(s, "%lld", (long long)v.i64); break;
    case GGUF_BOOL: str_put(s, v.u8 ? "true" : "false"); break;
    case GGUF_F32: inspect__float(s, (double)v.f32, true, json); break;
    case GGUF_F64: inspect__float(s, v.f64, false, json); break;
    default: break;
    }
}

/* Appends about `max` bytes, up to the end of a character, on one line and as a terminal may show them; a newline is \n. False: b
 * has more. */
static bool inspect__escape(str *s, bytes b, size_t max) {
    size_t i = 0, len;
    for (; i < b.n && i < max; i += len) {
        len = max_size((size_t)utf8_len(b.p + i, b.n - i), 1);
        if (b.p[i] == '\n') str_put(s, "\\n");
        else str_visible_line(s, bytes_slice(b, i, i + len));
    }
    return i >= b.n;
}

static void inspect__text(str *s, bytes b, size_t max) {
    if (!inspect__escape(s, b, max)) str_put(s, "...");
}

static void inspect__string(str *s, bytes b, bool json) {
    if (json) {
        str_json(s, b);
        return;
    }
    str_put(s, "\"");
    const bool whole = inspect__escape(s, b, INSPECT_TEXT);
    str_put(s, "\"");
    if (!whole) str_fmt(s, "... (%zu bytes)", b.n);
}

/* The first elements of an array, separated by commas. */
static void inspect__elements(str *s, const gguf_file *g, const gguf_kv *kv, uint64_t max, bool json) {
    gguf_strs it = gguf_strs_of(g, kv);
    uint64_t  n = min_u64(kv->count, max);
    for (uint64_t i = 0; i < n; i++) {
        bytes one;
        if (i) str_put(s, ", ");
        if (kv->elem != GGUF_STR) inspect__number(s, kv->elem, kv->data + i * (kv->n_bytes / kv->count), json);
        else if (gguf_strs_next(&it, &one)) inspect__string(s, one, json);
    }
}

static void inspect__value(str *s, const gguf_file *g, const gguf_kv *kv, bool json) {
    if (kv->type == GGUF_STR) inspect__string(s, (bytes){kv->data, (size_t)kv->count}, json);
    else if (kv->type != GGUF_ARR) inspect__number(s, kv->type, kv->data, json);
    else {
        str_put(s, "[");
        inspect__elements(s, g, kv, json ? INSPECT_JSON : INSPECT_ARRAY, json);
        if (!json && kv->count > INSPECT_ARRAY) str_fmt(s, ", ... %llu more", GGUF_U(kv->count - INSPECT_ARRAY));
        str_put(s, "]");
    }
}

/* 1.10 G */
static void inspect__count(str *s, uint64_t n) {
    static const char unit[] = " kMGTPE";
    double x = (double)n;
    int    u = 0;
    while (x >= 1000 && u < 6) x /= 1000, u++;
    if (u) str_fmt(s, "%.*f %c", x < 10 ? 2 : x < 100 ? 1 : 0, x, unit[u]);
    else str_fmt(s, "%llu", GGUF_U(n));
}

static uint64_t inspect__weights(const gguf_tensor *t) { return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]; }

static void inspect__flush(str *s, out_t *out) {
    out_put(out, s->p, s->n);
    str_clear(s);
}

/* --- checks --- */

/* Checks what a run checks, in the same order. A file with a vocabulary alone is valid too. */
static void inspect__check(inspect_file *f, const char *pre) {
    err_t tok = {0}, arch = {0}, none = {0};
    if (gguf_get_str(f->g, "general.architecture", &f->arch, &none) != 1) f->arch = bytes_of("");
    f->adapter = lora_is_adapter(f->g);
    if (f->adapter) return;
    f->vocab = tok_load(f->g, pre, &tok);
    f->hp_ok = arch_load(&f->hp, f->g, &arch);
    f->vocab_only = !f->g->n_tensor && f->vocab;
    if (f->vocab_only) return;
    if (!f->hp_ok) f->problem = arch;
    else if (model_check(f->g, &f->problem) && !f->vocab) f->problem = tok;
}

/* --- hyper-parameters: keys after the architecture's name, printed if present --- */

static const struct {
    const char *key, *label;
} inspect_hparams[] = {
    {"context_length", "context"},                {"block_count", "layers"},
    {"embedding_length", "width"},                {"feed_forward_length", "feed-forward"},
    {"attention.head_count", "heads"},            {"attention.head_count_kv", "key/value heads"},
    {"attention.key_length", "key length"},       {"attention.value_length", "value length"},
    {"attention.sliding_window", "window"},       {"attention.layer_norm_rms_epsilon", "norm epsilon"},
    {"expert_count", "experts"},                  {"expert_used_count", "experts in use"},
    {"expert_feed_forward_length", "expert width"}, {"expert_shared_feed_forward_length", "shared expert"},
    {"rope.dimension_count", "rope dimensions"},  {"rope.freq_base", "rope base"},
    {"rope.scaling.type", "rope scaling"},        {"rope.scaling.factor", "rope factor"},
    {"rope.scale_linear", "rope factor"},         {"rope.scaling.original_context_length", "trained context"},
};
enum { N_INSPECT_HPARAMS = sizeof inspect_hparams / sizeof *inspect_hparams };

static const gguf_kv *inspect__hparam(const inspect_file *f, int i) {
    char key[160];
    if (!f->arch.n || f->arch.n > 60) return NULL;
    snprintf(key, sizeof key, "%.*s.%s", (int)f->arch.n, (const char *)f->arch.p, inspect_hparams[i].key);
    return gguf_find(f->g, key);
}

typedef struct {
    uint64_t tensors, weights, bytes;
} inspect_sum;

/* Counts tensors, weights and bytes of each type, sum [K_TYPE_MAX], and returns those of all. */
static inspect_sum inspect__types(const gguf_file *g, inspect_sum *sum) {
    inspect_sum all = {0};
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        inspect_sum       *to[2] = {&sum[t->type], &all};
        for (int k = 0; k < 2; k++) {
            to[k]->tensors++;
            to[k]->weights += inspect__weights(t);
            to[k]->bytes += t->n_bytes;
        }
    }
    return all;
}

/* Bytes of K and V for 1000 tokens at f16; 0: unknown architecture. */
static uint64_t inspect__kv_bytes(const inspect_file *f) { return f->hp_ok ? 1000 * model_kv_bytes(&f->hp, K_F16, K_F16) : 0; }

/* --- text --- */

static void inspect__row(str *s, const char *label) { str_fmt(s, "%-16s ", label); }

static void inspect__print_vocab(str *s, const inspect_file *f) {
    const tok_vocab *v = f->vocab;
    if (!v) return;
    inspect__row(s, "vocabulary");
    str_fmt(s, "%d tokens, model %s", tok_count(v), tok_model_name(v));
    if (tok_pre_name(v) && *tok_pre_name(v)) str_fmt(s, ", pre-tokenizer %s", tok_pre_name(v));
    str_put(s, "\n");
    const struct { const char *name; int32_t id; } special[] = {{"start token", tok_bos(v)}, {"end token", tok_eos(v)}};
    for (int i = 0; i < 2; i++) {
        if (special[i].id < 0) continue;
        inspect__row(s, special[i].name);
        str_fmt(s, "%d ", special[i].id);
        inspect__string(s, tok_text(v, special[i].id), false);
        str_fmt(s, "%s\n", (i ? tok_add_eos(v) : tok_add_bos(v)) ? ", added to a prompt" : "");
    }
}

static void inspect__print_types(str *s, const inspect_sum *sum, const inspect_sum *all) {
    for (int i = 0; i < K_TYPE_MAX; i++) {
        if (!sum[i].tensors) continue;
        inspect__row(s, "type");
        str_fmt(s, "%-8s %5llu tensors  ", k_types[i].name, GGUF_U(sum[i].tensors));
        size_t at = s->n;
        inspect__count(s, sum[i].weights);
        str_fmt(s, " weights%*s", (int)(18 - (s->n - at + 8)), "");
        at = s->n;
        str_size(s, (double)sum[i].bytes);
        str_fmt(s, "%*s %5.1f %%\n", (int)(12 - (s->n - at)), "", 100.0 * (double)sum[i].bytes / (double)all->bytes);
    }
}

/* A snapshot is as large as the state that a sequence has: both are one slot. */
static void inspect__print_state(str *s, size_t n_bytes) {
    if (!n_bytes) return;
    str_put(s, "; recurrent state ");
    str_size(s, (double)n_bytes);
    str_put(s, " per sequence, ");
    str_size(s, (double)n_bytes);
    str_put(s, " per snapshot");
}

static void inspect__print_head(str *s, const inspect_file *f) {
    const gguf_file *g = f->g;
    inspect_sum      sum[K_TYPE_MAX] = {{0}}, all = inspect__types(g, sum);
    const gguf_kv   *name = gguf_find(g, "general.name");
    inspect__row(s, "file");
    inspect__text(s, bytes_of(g->path), 400);
    str_fmt(s, "\n%-16s GGUF version %u, ", "format", g->version);
    str_size(s, (double)g->n_bytes);
    if (g->n_parts > 1) str_fmt(s, " in %d parts", g->n_parts);
    str_fmt(s, "\n%-16s ", "architecture");
    inspect__text(s, f->arch.n ? f->arch : bytes_of("(not named)"), INSPECT_TEXT);
    str_put(s, "\n");
    if (name && name->type == GGUF_STR) {
        inspect__row(s, "name");
        inspect__text(s, (bytes){name->data, (size_t)name->count}, INSPECT_TEXT);
        str_put(s, "\n");
    }
    if (f->adapter) {
        inspect__row(s, "adapter");
        lora_describe(g, s);
        str_put(s, ": --lora FILE beside its model\n");
    }
    inspect__row(s, "parameters");
    inspect__count(s, all.weights);
    str_fmt(s, " (%llu)\n", GGUF_U(all.weights));
    inspect__print_types(s, sum, &all);
    for (int i = 0; i < N_INSPECT_HPARAMS; i++) {
        const gguf_kv *kv = inspect__hparam(f, i);
        if (!kv) continue;
        inspect__row(s, inspect_hparams[i].label);
        inspect__value(s, g, kv, false);
        str_put(s, "\n");
    }
    for (int il = 0; f->hp_ok && il < f->hp.n_layer; il++) {
        const arch_layer_hp *l = &f->hp.layer[il];
        if (il && l->hd_k == l[-1].hd_k && l->hd_v == l[-1].hd_v) continue;
        if (l->rank)
            str_fmt(s, "%-16s query %d, value %d; latent attention: %d of a position", "head size", l->hd_q, l->hd_o, l->hd_k);
        else str_fmt(s, "%-16s key %d, value %d", "head size", l->hd_k, l->hd_v);
        str_fmt(s, il ? ", from layer %d on\n" : "\n", il);
    }
    if (f->hp_ok && f->hp.n_top) {
        str_fmt(s, "%-16s %d heads of %d values; attention to %d ", "indexer", f->hp.n_index, f->hp.hd_index, f->hp.n_top);
        if (f->hp.index_block > 1) str_fmt(s, "blocks of %d ", f->hp.index_block);
        str_put(s, "positions\n");
    }
    if (f->hp_ok && f->hp.n_nextn == 1) str_fmt(s, "%-16s layer %d (NextN)\n", "draft head", f->hp.n_layer);
    if (f->hp_ok && f->hp.n_nextn > 1)
        str_fmt(s, "%-16s layers %d to %d (NextN), %s\n", "draft heads", f->hp.n_layer, f->hp.n_layer + f->hp.n_nextn - 1,
                f->hp.desc->traits & A_CHAIN ? "one for each guess" : "of which the first is used");
    inspect__print_vocab(s, f);
    str_fmt(s, "%-16s mapping ", "memory");
    str_size(s, (double)g->n_bytes);
    if (f->hp_ok) {
        str_put(s, "; KV cache ");
        str_size(s, (double)inspect__kv_bytes(f));
        str_put(s, " per 1000 tokens at f16");
        inspect__print_state(s, kv_slot_bytes(&f->hp));
    }
    str_put(s, "\n");
}

static void inspect__print_metadata(str *s, const gguf_file *g, out_t *out) {
    str_fmt(s, "\nmetadata: %llu keys\n", GGUF_U(g->n_kv));
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        char           type[48];
        if (kv->type == GGUF_ARR) snprintf(type, sizeof type, "%s x %llu", gguf_type_name(kv->elem), GGUF_U(kv->count));
        else snprintf(type, sizeof type, "%s", gguf_type_name(kv->type));
        size_t at = s->n;
        str_put(s, "  ");
        inspect__text(s, kv->key, 80);
        str_fmt(s, "%*s  %-16s ", (int)(s->n - at < 44 ? 44 - (s->n - at) : 0), "", type);
        inspect__value(s, g, kv, false);
        str_put(s, "\n");
        inspect__flush(s, out);
    }
}

static void inspect__shape(str *s, const gguf_tensor *t, const char *between) {
    for (uint32_t d = 0; d < t->n_dims; d++) str_fmt(s, "%s%llu", d ? between : "", GGUF_U(t->dim[d]));
}

static void inspect__print_tensors(str *s, const gguf_file *g, out_t *out) {
    size_t wide = 4;
    for (uint64_t i = 0; i < g->n_tensor; i++)
        if (g->tensor[i].name.n > wide) wide = g->tensor[i].name.n;
    str_fmt(s, "\ntensors: %llu\n", GGUF_U(g->n_tensor));
    if (g->n_tensor)
        str_fmt(s, "  %-*s  %-8s %-22s %14s %14s%s\n", (int)wide, "name", "type", "shape", "bytes", "offset",
                g->n_parts > 1 ? "  part" : "");
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        size_t             at = s->n;
        str_put(s, "  ");
        inspect__text(s, t->name, 80);
        str_fmt(s, "%*s  %-8s ", (int)(s->n - at < wide + 2 ? wide + 2 - (s->n - at) : 0), "", k_types[t->type].name);
        at = s->n;
        inspect__shape(s, t, " x ");
        str_fmt(s, "%*s %14llu %14llu", (int)(s->n - at < 22 ? 22 - (s->n - at) : 0), "", GGUF_U(t->n_bytes), GGUF_U(t->at));
        if (g->n_parts > 1) str_fmt(s, "  %4d", t->part + 1);
        str_put(s, "\n");
        inspect__flush(s, out);
    }
}

static void inspect__print_text(const inspect_file *f, out_t *out) {
    str s = {0};
    inspect__print_head(&s, f);
    inspect__print_metadata(&s, f->g, out);
    inspect__print_tensors(&s, f->g, out);
    if (f->vocab_only) str_put(&s, "\nverdict: a vocabulary alone: it tokenises, there is nothing to run\n");
    else if (!f->problem.code) str_put(&s, "\nverdict: every check passed, this model runs\n");
    else {
        str_put(&s, "\nverdict: does not run: ");
        inspect__text(&s, bytes_of(f->problem.text), sizeof f->problem.text);
        str_put(&s, "\n");
    }
    inspect__flush(&s, out);
    str_drop(&s);
}

/* --- JSON --- */

static void inspect__json_vocab(jw *w, const inspect_file *f) {
    const tok_vocab *v = f->vocab;
    if (!v) {
        jw_fmt(w, "vocabulary", "null");
        return;
    }
    jw_open(w, "vocabulary", '{');
    jw_str(w, "model", tok_model_name(v));
    jw_str(w, "pre", tok_pre_name(v) ? tok_pre_name(v) : "");
    jw_fmt(w, "tokens", "%d", tok_count(v));
    jw_fmt(w, "bos", "%d", tok_bos(v));
    jw_fmt(w, "eos", "%d", tok_eos(v));
    jw_bool(w, "add_bos", tok_add_bos(v));
    jw_bool(w, "add_eos", tok_add_eos(v));
    jw_close(w, '}');
}

static void inspect__json_types(jw *w, const inspect_sum *sum) {
    jw_open(w, "types", '[');
    for (int i = 0; i < K_TYPE_MAX; i++) {
        if (!sum[i].tensors) continue;
        jw_open(w, NULL, '{');
        jw_str(w, "type", k_types[i].name);
        jw_fmt(w, "tensors", "%llu", GGUF_U(sum[i].tensors));
        jw_fmt(w, "weights", "%llu", GGUF_U(sum[i].weights));
        jw_fmt(w, "bytes", "%llu", GGUF_U(sum[i].bytes));
        jw_close(w, '}');
    }
    jw_close(w, ']');
}

/* A number, or null where the model does not run. */
static void inspect__json_bytes(jw *w, const char *key, const inspect_file *f, uint64_t n) {
    if (f->hp_ok) jw_fmt(w, key, "%llu", GGUF_U(n));
    else jw_fmt(w, key, "null");
}

static void inspect__json_head(jw *w, const inspect_file *f) {
    const gguf_file *g = f->g;
    inspect_sum      sum[K_TYPE_MAX] = {{0}}, all = inspect__types(g, sum);
    const gguf_kv   *name = gguf_find(g, "general.name");
    const uint64_t   state = f->hp_ok ? kv_slot_bytes(&f->hp) : 0;
    jw_open(w, NULL, '{');
    jw_str(w, "file", g->path);
    jw_fmt(w, "version", "%u", g->version);
    jw_fmt(w, "parts", "%d", g->n_parts);
    jw_fmt(w, "bytes", "%llu", GGUF_U(g->n_bytes));
    jw_fmt(w, "alignment", "%llu", GGUF_U(g->align));
    jw_text(jw_line(w), "architecture", f->arch);
    if (name && name->type == GGUF_STR) jw_key(w, "name"), inspect__value(w->to, g, name, true);
    else jw_fmt(w, "name", "null");
    jw_fmt(w, "parameters", "%llu", GGUF_U(all.weights));
    jw_open(jw_line(w), "hyperparameters", '{');
    for (int i = 0; i < N_INSPECT_HPARAMS; i++) {
        const gguf_kv *kv = inspect__hparam(f, i);
        if (kv) jw_key(w, inspect_hparams[i].key), inspect__value(w->to, g, kv, true);
    }
    jw_close(w, '}');
    inspect__json_vocab(jw_line(w), f);
    inspect__json_types(jw_line(w), sum);
    jw_open(jw_line(w), "memory", '{');
    jw_fmt(w, "mapping", "%llu", GGUF_U(g->n_bytes));
    inspect__json_bytes(w, "kv_per_1000_tokens_f16", f, f->hp_ok ? inspect__kv_bytes(f) : 0);
    inspect__json_bytes(w, "state_per_sequence", f, state);
    inspect__json_bytes(w, "state_per_snapshot", f, state);
    jw_close(w, '}');
}

/* Whether JSON holds only the first elements of an array. */
static bool inspect__cut(const gguf_kv *kv) { return kv->type == GGUF_ARR && kv->count > INSPECT_JSON; }

static void inspect__json_metadata(jw *w, const gguf_file *g, out_t *out) {
    jw_open(jw_line(w), "metadata", '[');
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        jw_open(jw_line(w), NULL, '{');
        jw_text(w, "key", kv->key);
        jw_str(w, "type", gguf_type_name(kv->type));
        if (kv->type == GGUF_ARR) {
            jw_str(w, "of", gguf_type_name(kv->elem));
            jw_fmt(w, "count", "%llu", GGUF_U(kv->count));
        }
        if (inspect__cut(kv)) jw_bool(w, "cut", true);
        jw_key(w, "value");
        inspect__value(w->to, g, kv, true);
        jw_close(w, '}');
        inspect__flush(w->to, out);
    }
    jw_close(w, ']');
}

/* Metadata by key. A cut array is an object, so that it cannot be taken for the complete one. */
static void inspect__json_by_key(jw *w, const gguf_file *g, out_t *out) {
    jw_open(jw_line(w), "metadata_by_key", '{');
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        jw_member(jw_line(w), kv->key);
        if (inspect__cut(kv)) {
            jw_open(w, NULL, '{');
            jw_str(w, "of", gguf_type_name(kv->elem));
            jw_fmt(w, "count", "%llu", GGUF_U(kv->count));
        }
        jw_key(w, inspect__cut(kv) ? "first" : NULL);
        inspect__value(w->to, g, kv, true);
        if (inspect__cut(kv)) jw_close(w, '}');
        inspect__flush(w->to, out);
    }
    jw_close(w, '}');
}

static void inspect__json_tensors(jw *w, const gguf_file *g, out_t *out) {
    jw_open(jw_line(w), "tensors", '[');
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        jw_open(jw_line(w), NULL, '{');
        jw_text(w, "name", t->name);
        jw_str(w, "type", k_types[t->type].name);
        jw_open(w, "shape", '[');
        inspect__shape(w->to, t, ",");
        jw_close(w, ']');
        jw_fmt(w, "bytes", "%llu", GGUF_U(t->n_bytes));
        jw_fmt(w, "offset", "%llu", GGUF_U(t->at));
        jw_fmt(w, "part", "%d", t->part);
        jw_close(w, '}');
        inspect__flush(w->to, out);
    }
    jw_close(w, ']');
}

static void inspect__print_json(const inspect_file *f, out_t *out) {
    str s = {0};
    jw  w = jw_tight(&s);
    inspect__json_head(&w, f);
    inspect__json_metadata(&w, f->g, out);
    inspect__json_by_key(&w, f->g, out);
    inspect__json_tensors(&w, f->g, out);
    jw_bool(jw_line(&w), "runs", !f->vocab_only && !f->adapter && !f->problem.code);
    jw_bool(&w, "vocabulary_only", f->vocab_only);
    jw_maybe(&w, "problem", bytes_of(f->problem.text), f->problem.code != 0);
    str_put(&s, "}\n");
    inspect__flush(&s, out);
    str_drop(&s);
}

/* Checks and prints a file. pre: as in tok_load(). False: e says why the file cannot run; its content is printed in any case. */
static bool inspect_print(const gguf_file *g, const char *pre, bool json, out_t *out, err_t *e) {
    inspect_file f = {.g = g};
    inspect__check(&f, pre);
    if (json) inspect__print_json(&f, out);
    else inspect__print_text(&f, out);
    *e = f.problem;
    tok_free(f.vocab);
    arch_drop(&f.hp);
    return !e->code;
}
