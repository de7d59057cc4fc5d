/* ===== [vocab] tokenizers of checkpoints =====
 * tokenizer.json (BPE, WordPiece, Unigram), tokenizer.model or spiece.model (SentencePiece, a protocol buffer), the list of RWKV
 * (rwkv_vocab_v20230424.txt) and that of PLaMo (tokenizer.jsonl) as keys of a GGUF file:
 * tokens, types, scores, merges, the pre-tokenizer by its rules, special tokens, chat template. What is written equals what
 * llama.cpp's converter writes, but for a SentencePiece vocabulary in tokenizer.json: its scores are the ranks of merges, so that
 * texts get the tokens that transformers gives them; the converter gives all tokens one score.
 * Trusts no byte: ids are checked against VOCAB_MAX before anything is allocated, and every field of the protocol buffer against
 * what is left of it.
 * Public: vocab_write. */

enum {
    VOCAB_MAX       = 1 << 22,       /* tokens                                                             */
    VOCAB_TEXT_MAX  = 4096,          /* bytes of a token                                                   */
    VOCAB_STEPS     = 8,             /* patterns of a pre-tokenizer                                        */
    VOCAB_FILE_MAX  = 256 << 20      /* bytes of tokenizer.model, of a list of tokens, of a chat template   */
};

/* token_type of a GGUF file */
enum { VOCAB_NORMAL = 1, VOCAB_UNKNOWN, VOCAB_CONTROL, VOCAB_USER, VOCAB_UNUSED, VOCAB_BYTE };

typedef struct {
    uint64_t at;                     /* its text in vocab__job.texts                                       */
    uint32_t n;                      /* bytes of it                                                        */
    int32_t  type;                   /* VOCAB_NORMAL and its neighbours; 0: no such id yet                 */
    float    score;
} vocab__token;

typedef struct {
    const family_config *c;
    gguf_writer  *w;
    err_t        *e;
    str           json, config, texts, scratch;       /* tokenizer.json, tokenizer_config.json             */
    bytes         root, model, added;                 /* parts of json                                     */
    vocab__token *token;             /* [n]                                                                */
    uint32_t      n;                 /* ids                                                                */
} vocab__job;

#define VOCAB_BAD(v, file, ...) (gguf_refuse((v)->e, EXIT_INPUT, (v)->c->dir, file ": " __VA_ARGS__))

/* Whether a JSON value is this text. */
static bool vocab__is(bytes value, const char *text) {
    return value.n == strlen(text) + 2 && value.p[0] == '"' && !memcmp(value.p + 1, text, value.n - 2);
}

static bytes vocab__member(bytes object, const char *name) { return bytes_trim(bytes_member(object, name)); }

/* A whole number from 0 to VOCAB_MAX - 1; -1: another value. */
static int64_t vocab__id(bytes v) {
    int64_t id = 0;
    v = bytes_trim(v);
    if (!v.n || v.n > 8) return -1;
    for (size_t i = 0; i < v.n; i++) {
        if (!isdigit(v.p[i])) return -1;
        id = 10 * id + (v.p[i] - '0');
    }
    return id < VOCAB_MAX ? id : -1;
}

static bytes vocab__text(const vocab__job *v, uint32_t id) {
    return (bytes){(const uint8_t *)v->texts.p + v->token[id].at, v->token[id].n};
}

/* Makes ids up to n. */
static void vocab__reach(vocab__job *v, uint32_t n) {
    if (n <= v->n) return;
    v->token = mem_grow(v->token, n, sizeof *v->token);
    memset(v->token + v->n, 0, (n - v->n) * sizeof *v->token);
    v->n = n;
}

/* Sets a token. False: its text is empty or too long, and e is set. */
static bool vocab__set(vocab__job *v, int64_t id, bytes text, int type, float score) {
    if (id < 0 || id >= VOCAB_MAX || text.n > VOCAB_TEXT_MAX)
        return gguf_refuse(v->e, EXIT_INPUT, v->c->dir,
                           "token %.*s has id %lld, expected a text of at most %d bytes and an id below %d",
                           GGUF_SHOW(text), (long long)id, VOCAB_TEXT_MAX, VOCAB_MAX);
    vocab__reach(v, (uint32_t)id + 1);
    v->token[id] = (vocab__token){v->texts.n, (uint32_t)text.n, type, score};
    str_cat(&v->texts, text);
    return true;
}

/* Ids without a token, up to n in all. */
static void vocab__pad(vocab__job *v, uint32_t n) {
    char name[24];
    vocab__reach(v, n);
    for (uint32_t i = 0; i < v->n; i++)
        if (!v->token[i].type) {
            snprintf(name, sizeof name, "[PAD%u]", i);
            vocab__set(v, i, bytes_of(name), VOCAB_UNUSED, -10000);
        }
}

/* Tokens that files mark as ordinary and that are control tokens all the same. */
static bool vocab__looks_special(bytes t) {
    static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    static const struct { const char *from, *to; } forms[] = {{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bytes_is(t, names[i])) return true;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (bytes_begins(t, bytes_of(forms[i].from)) && bytes_ends(t, bytes_of(forms[i].to))) return true;
    return false;
}

/* Appends a text with each U+2581 as a space. */
static void vocab__spaces(str *out, bytes t) {
    for (size_t i = 0; i < t.n; i++) {
        const bool space = t.n - i >= 3 && !memcmp(t.p + i, "\xe2\x96\x81", 3);
        str_add(out, space ? " " : (const char *)t.p + i, 1);
        i += space ? 2 : 0;
    }
}

/* --- tokenizer.json --- */

/* Tokens of a "vocab" that is an object: text to id. */
static bool vocab__read_object(vocab__job *v, bytes vocab) {
    bytes key = {0}, value;
    while (bytes_cut_member(&vocab, &key, &value)) {
        str_clear(&v->scratch);
        const int64_t id = vocab__id(value);
        if (id < 0 || !str_unquote(&v->scratch, key, false))
            return VOCAB_BAD(v, "tokenizer.json", "token %.*s has id %.*s, expected 0 to %d", GGUF_SHOW(key), GGUF_SHOW(value),
                             VOCAB_MAX - 1);
        if (id < v->n && v->token[id].type)
            return VOCAB_BAD(v, "tokenizer.json", "tokens %.*s and %.*s have the same id %lld",
                             GGUF_SHOW(vocab__text(v, (uint32_t)id)),
                             GGUF_SHOW(key), (long long)id);
        if (!vocab__set(v, id, str_bytes(&v->scratch), VOCAB_NORMAL, 0)) return false;
    }
    return true;
}

/* Tokens of a "vocab" that is a list of texts and scores. */
static bool vocab__read_list(vocab__job *v, bytes vocab) {
    bytes item;
    for (int64_t id = 0; bytes_cut_item(&vocab, &item); id++) {
        bytes text = {0}, score = {0};
        char  number[48];
        str_clear(&v->scratch);
        if (!bytes_cut_item(&item, &text) || !str_unquote(&v->scratch, text, false) || !bytes_cut_item(&item, &score) ||
            score.n >= sizeof number)
            return VOCAB_BAD(v, "tokenizer.json", "entry %lld of the vocabulary, expected a text and a score", (long long)id);
        memcpy(number, score.p, score.n);
        number[score.n] = 0;
        if (!vocab__set(v, id, str_bytes(&v->scratch), VOCAB_NORMAL, (float)strtod(number, NULL))) return false;
    }
    return true;
}

/* Added tokens: control tokens, and texts that are tokens wherever they stand. `spm`: their scores are those of SentencePiece. */
static bool vocab__read_added(vocab__job *v, float score) {
    bytes list = v->added, item;
    while (bytes_cut_item(&list, &item)) {
        const int64_t id = vocab__id(vocab__member(item, "id"));
        const bool    special = bytes_is(vocab__member(item, "special"), "true");
        str_clear(&v->scratch);
        if (id < 0 || !str_unquote(&v->scratch, vocab__member(item, "content"), false))
            return VOCAB_BAD(v, "tokenizer.json", "added token %.*s, expected an id and a content", GGUF_SHOW(item));
        const bool turn = family_is(v->c, "laguna") && bytes_is(str_bytes(&v->scratch), "</assistant>");
        if (special || turn || vocab__looks_special(str_bytes(&v->scratch))) {
            if (!vocab__set(v, id, str_bytes(&v->scratch), VOCAB_CONTROL, score)) return false;
        } else {
            str plain = {0};
            vocab__spaces(&plain, str_bytes(&v->scratch));
            const bool ok = vocab__set(v, id, str_bytes(&plain), VOCAB_USER, score);
            str_drop(&plain);
            if (!ok) return false;
        }
    }
    return true;
}

/* Ids of the config beyond the tokens are unused; a vocabulary that is larger than the config says is refused. */
static bool vocab__sized(vocab__job *v) {
    const int n = family_int(v->c, "padded_vocab_size vocab_size", (int)v->n);
    if (v->n > (uint32_t)n)
        return VOCAB_BAD(v, "config.json", "vocab_size %d, expected at least %u: the tokens of the folder", n, v->n);
    if (n > VOCAB_MAX) return VOCAB_BAD(v, "config.json", "vocab_size %d, expected at most %d", n, VOCAB_MAX);
    vocab__pad(v, (uint32_t)n);
    return true;
}

/* --- merges --- */

static void vocab__merge_part(str *out, bytes part) {
    for (size_t i = 0; i < part.n; i++) {
        if (part.p[i] == ' ') str_put(out, "\xc4\xa0");
        else str_add(out, part.p + i, 1);
    }
}

/* Appends merge i as the file has it, "left right". False: it is neither a text nor two. */
static bool vocab__merge(vocab__job *v, bytes item, str *out) {
    bytes part;
    int   n = 0;
    if (item.n && item.p[0] == '"') return str_unquote(out, item, false);
    while (bytes_cut_item(&item, &part)) {
        str_clear(&v->scratch);
        if (n++ == 2 || !str_unquote(&v->scratch, part, false)) return false;
        if (n == 2) str_put(out, " ");
        vocab__merge_part(out, str_bytes(&v->scratch));
    }
    return n == 2;
}

/* All merges, as texts in `all` from at[i] to at[i + 1]. Returns their number; -1: e is set. */
static int64_t vocab__merges(vocab__job *v, str *all, size_t **at) {
    bytes   list = vocab__member(v->model, "merges"), item;
    int64_t n = 0;
    *at = mem_reserve(NULL, 0, UINT64_MAX, sizeof **at);
    (*at)[0] = 0;
    while (bytes_cut_item(&list, &item)) {
        if (n >= 2 * VOCAB_MAX || !vocab__merge(v, item, all)) {
            VOCAB_BAD(v, "tokenizer.json", "merge %lld is %.*s, expected two texts", (long long)n, GGUF_SHOW(item));
            return -1;
        }
        n++;
        *at = mem_reserve(*at, (uint64_t)n, UINT64_MAX, sizeof **at);
        (*at)[n] = all->n;
    }
    return n;
}

static bool vocab__write_merges(vocab__job *v) {
    str           all = {0};
    size_t       *at = NULL;
    const int64_t n = vocab__merges(v, &all, &at);
    bytes        *text = mem_new((size_t)max_i64(n, 0), sizeof *text);
    for (int64_t i = 0; i < n; i++) text[i] = (bytes){(const uint8_t *)all.p + at[i], at[i + 1] - at[i]};
    if (n > 0) gguf_write_strs(v->w, "tokenizer.ggml.merges", text, (uint64_t)n);
    mem_free_all(text, at);
    str_drop(&all);
    return n >= 0;
}

typedef struct { bytes text; uint32_t id; } vocab__named;

/* Scores of a SentencePiece vocabulary that tokenizer.json has as merges: minus the first rank of a merge that gives the token. A
 * token that no merge gives is never merged; its score does not matter. */
static bool vocab__rank_scores(vocab__job *v) {
    str           all = {0}, joined = {0};
    size_t       *at = NULL;
    gguf_index    index = {0};
    const int64_t n = vocab__merges(v, &all, &at);
    vocab__named *name = mem_new(v->n, sizeof *name);
    uint32_t      named = 0;                          /* ids without a token have the text "" */
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->token[i].type) name[named++] = (vocab__named){vocab__text(v, i), i};
        if (v->token[i].type == VOCAB_NORMAL) v->token[i].score = -(float)(n + 1);
    }
    gguf_index_build(&index, name, sizeof *name, named);
    for (int64_t i = n - 1; i >= 0; i--) {
        const bytes    m = {(const uint8_t *)all.p + at[i], at[i + 1] - at[i]};
        const uint8_t *gap = memchr(m.p, ' ', m.n);
        str_clear(&joined);
        if (gap) str_add(&joined, m.p, (size_t)(gap - m.p)), str_add(&joined, gap + 1, m.n - (size_t)(gap - m.p) - 1);
        const vocab__named *t = gap ? gguf_index_find(&index, str_bytes(&joined)) : NULL;
        if (t && v->token[t->id].type == VOCAB_NORMAL) v->token[t->id].score = -(float)i;
    }
    mem_free_all(name, at, index.slot);
    str_drop_all(&all, &joined);
    return n >= 0;
}

/* --- pre-tokenizers --- */

typedef struct {
    str step[VOCAB_STEPS];           /* patterns                                                           */
    int n;
} vocab__steps;

#define VOCAB_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Patterns that [tok] writes in another way: the names of those whose steps hold these parts, in this order. */
static const struct { const char *name, *part[4]; } vocab_marked[] = {
    {"deepseek-v3", {"\\p{N}{1,3}", "一-龥", "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+", NULL}},
    {"deepseek-llm", {"[\r\n]", "µÀ-ÖØ", "가-퟿", NULL}},
    {"deepseek-coder", {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "가-퟿"}},
    {"falcon", {"`]+", " ?\\p{L}+", "[0-9][0-9][0-9]", NULL}},
    {"kimi-k2", {"[\\p{Han}]+|", "&&[^\\p{Han}]", NULL, NULL}},
    {"viking", {"…。，、।۔،", "\\p{N}", NULL, NULL}},
    {"bloom", {"…。，、।۔،", NULL, NULL, NULL}},
};

static const char *vocab__marked(const vocab__steps *s) {
    str all = {0};
    for (int i = 0; i < s->n; i++) str_cat(&all, str_bytes(&s->step[i])), str_put(&all, "\n");
    const char *found = NULL;
    for (size_t i = 0; i < sizeof vocab_marked / sizeof *vocab_marked && !found; i++) {
        size_t at = 0;
        found = vocab_marked[i].name;
        for (int k = 0; k < 4 && vocab_marked[i].part[k] && found; k++) {
            at = bytes_find(str_bytes(&all), at, bytes_of(vocab_marked[i].part[k]));
            if (at == SIZE_MAX) found = NULL;
            else at += strlen(vocab_marked[i].part[k]);
        }
    }
    str_drop(&all);
    return found;
}

static void vocab__step(vocab__steps *s, const char *pattern) {
    if (s->n < VOCAB_STEPS) str_put(&s->step[s->n], pattern);
    s->n++;
}

/* Adds the patterns of one pre-tokenizer of tokenizer.json. Sequences hold others; they do not nest deeper than JSON does. */
static void vocab__read_pre(bytes pre, vocab__steps *s, int deep) {
    const bytes type = vocab__member(pre, "type");
    bytes       list = vocab__member(pre, "pretokenizers"), item;
    if (vocab__is(type, "Sequence") && deep < 8)
        while (bytes_cut_item(&list, &item)) vocab__read_pre(item, s, deep + 1);
    else if (vocab__is(type, "ByteLevel")) {
        if (!bytes_is(vocab__member(pre, "use_regex"), "false")) vocab__step(s, VOCAB_GPT2);
    } else if (vocab__is(type, "Digits"))
        vocab__step(s, bytes_is(vocab__member(pre, "individual_digits"), "true") ? "\\p{N}" : "\\p{N}+");
    else if (vocab__is(type, "Punctuation")) vocab__step(s, "[\\p{P}$+<=>^~|`]+");
    else if (vocab__is(type, "Split") && s->n < VOCAB_STEPS) {
        if (!str_unquote(&s->step[s->n], vocab__member(vocab__member(pre, "pattern"), "Regex"), false))
            str_unquote(&s->step[s->n], vocab__member(vocab__member(pre, "pattern"), "String"), false);
        s->n++;
    } else vocab__step(s, "?");
}

static bool vocab__write_pre(vocab__job *v) {
    const bool   whole = bytes_is(vocab__member(v->model, "ignore_merges"), "true");
    vocab__steps s = {0};
    bytes        step[VOCAB_STEPS];
    char         name[32];
    const char  *found = NULL;
    const bytes  pre = vocab__member(v->root, "pre_tokenizer");
    if (pre.n && pre.p[0] == '{') vocab__read_pre(pre, &s, 0);
    for (int i = 0; i < s.n && i < VOCAB_STEPS; i++) step[i] = str_bytes(&s.step[i]);
    if (s.n && s.n <= VOCAB_STEPS) found = tok_pre_of(step, s.n, whole, name);
    if (!found && s.n) found = vocab__marked(&s);
    if (found) gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of(found));
    else
        VOCAB_BAD(v, "tokenizer.json", "a pre-tokenizer of %d patterns that llmrun does not know, the first %.60s", s.n,
                  s.n && s.step[0].p ? s.step[0].p : "(none)");
    for (int i = 0; i < VOCAB_STEPS; i++) str_drop(&s.step[i]);
    return found != NULL;
}

/* --- tokenizer.model: a protocol buffer --- */

typedef struct { bytes b; bool bad; } vocab__pb;

static uint64_t vocab__varint(vocab__pb *p) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (!p->b.n) break;
        const uint8_t c = *p->b.p;
        p->b = bytes_slice(p->b, 1, p->b.n);
        v |= (uint64_t)(c & 127) << shift;
        if (c < 128) return v;
    }
    p->bad = true;
    return 0;
}

/* The next field. Numbers are in *number, everything else in *data. False at the end, and where p->bad. */
static bool vocab__field(vocab__pb *p, uint64_t *field, uint64_t *number, bytes *data) {
    *number = 0;
    *data = (bytes){0};
    if (!p->b.n || p->bad) return false;
    const uint64_t tag = vocab__varint(p);
    uint64_t       n = 0;
    *field = tag >> 3;
    switch (tag & 7) {
    case 0: *number = vocab__varint(p); return !p->bad;
    case 1: n = 8; break;
    case 2: n = vocab__varint(p); break;
    case 5: n = 4; break;
    default: p->bad = true;
    }
    if (p->bad || n > p->b.n) return p->bad = true, false;
    *data = bytes_slice(p->b, 0, (size_t)n);
    p->b = bytes_slice(p->b, (size_t)n, p->b.n);
    if ((tag & 7) == 5) memcpy(number, data->p, 4);
    return true;
}

typedef struct {
    bytes charsmap;                  /* of the normalizer                                                  */
    bool  prefix, squeeze;           /* it puts a space in front; it takes runs of spaces for one          */
    int   model;                     /* 1: Unigram, 2: BPE                                                 */
} vocab__spm;

static bool vocab__piece(vocab__job *v, bytes message, uint32_t id) {
    vocab__pb p = {message, false};
    uint64_t  field, number, type = VOCAB_NORMAL;
    bytes     data, text = {(const uint8_t *)"", 0};
    float     score = 0;
    while (vocab__field(&p, &field, &number, &data)) {
        if (field == 1) text = data;
        if (field == 2 && data.n == 4) memcpy(&score, data.p, 4);
        if (field == 3) type = number;
    }
    if (p.bad || type < 1 || type > 6)
        return VOCAB_BAD(v, "tokenizer.model", "piece %u is broken, expected a text, a score and a type", id);
    if (type == VOCAB_USER) type = VOCAB_NORMAL;      /* as llama.cpp has it; added tokens follow */
    return vocab__set(v, id, text, (int)type, score);
}

/* Reads the pieces and what is wanted of the normalizer. */
static bool vocab__read_spm(vocab__job *v, bytes file, vocab__spm *out) {
    vocab__pb p = {file, false};
    uint64_t  field, number;
    bytes     data;
    uint32_t  n = 0;
    *out = (vocab__spm){.prefix = true, .squeeze = true, .model = 1};
    while (vocab__field(&p, &field, &number, &data)) {
        vocab__pb in = {data, false};
        if (field == 1 && (n == VOCAB_MAX || !vocab__piece(v, data, n++))) return v->e->code ? false
            : VOCAB_BAD(v, "tokenizer.model", "more than %d pieces", VOCAB_MAX);
        if (field == 2)
            while (vocab__field(&in, &field, &number, &data))
                if (field == 3) out->model = (int)min_u64(number, 9);
        if (field == 3)
            while (vocab__field(&in, &field, &number, &data)) {
                if (field == 2) out->charsmap = data;
                if (field == 3) out->prefix = number != 0;
                if (field == 4) out->squeeze = number != 0;
            }
        p.bad = p.bad || in.bad;
    }
    if (p.bad || !n) return VOCAB_BAD(v, "tokenizer.model", "is no SentencePiece model (%u pieces were read)", n);
    return true;
}

/* Arctic's tokenizer_config.json names tokens anew that tokenizer.model has. */
static void vocab__arctic(vocab__job *v, uint32_t limit) {
    bytes rest = vocab__member(str_bytes(&v->config), "added_tokens_decoder"), key = {0}, value;
    str   unk = {0};
    str_unquote(&unk, vocab__member(str_bytes(&v->config), "unk_token"), false);
    while (bytes_cut_member(&rest, &key, &value)) {
        const int64_t id = key.n > 2 ? vocab__id(bytes_slice(key, 1, key.n - 1)) : -1;
        const bool    special = bytes_is(vocab__member(value, "special"), "true");
        str_clear(&v->scratch);
        if (id < 0 || id >= limit || !str_unquote(&v->scratch, vocab__member(value, "content"), false)) continue;
        const bytes text = str_bytes(&v->scratch);
        const int   type = !special ? VOCAB_USER : bytes_eq(text, str_bytes(&unk)) ? VOCAB_UNKNOWN : VOCAB_CONTROL;
        vocab__set(v, id, text, type, special ? 0 : -10000);
    }
    str_drop(&unk);
}

/* Tokens of added_tokens.json, and those that tokenizer_config.json and tokenizer.json add or replace. */
static bool vocab__spm_added(vocab__job *v, uint32_t limit) {
    str   file = {0};
    bytes rest, key = {0}, value;
    if (family_is(v->c, "arctic")) return vocab__arctic(v, limit), !v->e->code;
    if (st_read_json(v->c->dir, "added_tokens.json", &file, v->e) < 0) return false;
    rest = str_bytes(&file);
    while (bytes_cut_member(&rest, &key, &value)) {
        const int64_t id = vocab__id(value);
        str_clear(&v->scratch);
        if (id >= 0 && id < limit && str_unquote(&v->scratch, key, false))
            vocab__set(v, id, str_bytes(&v->scratch), VOCAB_USER, -1000);
    }
    str_drop(&file);
    if (family_is(v->c, T5)) return !v->e->code;
    rest = vocab__member(str_bytes(&v->config), "added_tokens_decoder");
    key = (bytes){0};
    while (bytes_cut_member(&rest, &key, &value)) {
        const int64_t id = key.n > 2 ? vocab__id(bytes_slice(key, 1, key.n - 1)) : -1;
        str           plain = {0};
        str_clear(&v->scratch);
        if (id < 0 || id >= limit || !str_unquote(&v->scratch, vocab__member(value, "content"), false)) continue;
        const bool exact = family_is(v->c, "phi3 internlm2");
        const bool control = bytes_is(vocab__member(value, "special"), "true") ||
                             (!exact && vocab__looks_special(str_bytes(&v->scratch)));
        if (control || exact) str_cat(&plain, str_bytes(&v->scratch));
        else vocab__spaces(&plain, str_bytes(&v->scratch));
        vocab__set(v, id, str_bytes(&plain), control ? VOCAB_CONTROL : VOCAB_USER, -1000);
        str_drop(&plain);
    }
    if (family_is(v->c, "phi3 internlm2")) {
        bytes list = v->added, item;
        while (bytes_cut_item(&list, &item)) {
            const int64_t id = vocab__id(vocab__member(item, "id"));
            str_clear(&v->scratch);
            if (id < 0 || id >= limit || !str_unquote(&v->scratch, vocab__member(item, "content"), false)) continue;
            vocab__set(v, id, str_bytes(&v->scratch), bytes_is(vocab__member(item, "special"), "true") ? VOCAB_CONTROL
                       : VOCAB_USER,
                       -1000);
        }
    }
    return !v->e->code;
}

/* --- special tokens --- */

typedef struct {
    const char *name, *key;          /* in the folder; tokenizer.ggml.KEY_token_id                         */
    str         text;                /* in tokenizer_config.json                                           */
    int64_t     id;                  /* -1: none                                                           */
    int         add;                 /* whether texts get it: 0, 1; -1: not said                           */
} vocab__special;

enum { VOCAB_BOS, VOCAB_EOS, VOCAB_UNK, VOCAB_SEP, VOCAB_PAD, VOCAB_CLS, VOCAB_MASK, VOCAB_EOT, VOCAB_SPECIALS };

/* The text of NAME_token, which is a text or an object with a content. */
static void vocab__special_text(const vocab__job *v, vocab__special *s) {
    char key[32];
    snprintf(key, sizeof key, "%s_token", s->name);
    bytes value = vocab__member(str_bytes(&v->config), key);
    if (value.n && value.p[0] == '{') value = vocab__member(value, "content");
    str_clear(&s->text);
    str_unquote(&s->text, value, false);
    snprintf(key, sizeof key, "add_%s_token", s->name);
    value = vocab__member(str_bytes(&v->config), key);
    s->add = bytes_is(value, "true") ? 1 : bytes_is(value, "false") ? 0 : -1;
}

/* Whether a special token has this text; an empty one has none. */
static bool vocab__same(const vocab__special *s, bytes text) { return s->text.n && bytes_eq(str_bytes(&s->text), text); }

/* The text of a special token in a template: {"SpecialToken": {"id": TEXT}}. */
static bool vocab__template_token(bytes item, str *out) {
    str_clear(out);
    return str_unquote(out, vocab__member(vocab__member(item, "SpecialToken"), "id"), false);
}

/* Item i of a list, from the end if negative. */
static bytes vocab__item(bytes list, int i) {
    bytes at = list, item = {0};
    int   n = 0;
    while (bytes_cut_item(&at, &item)) n++;
    i += i < 0 ? n : 0;
    at = list;
    item = (bytes){0};
    for (int k = 0; k <= i; k++)
        if (!bytes_cut_item(&at, &item)) return (bytes){0};
    return item;
}

static int vocab__count(bytes list) {
    bytes item;
    int   n = 0;
    while (bytes_cut_item(&list, &item)) n++;
    return n;
}

/* [cls] A [sep] B [sep]: whether something separates two texts. */
static void vocab__pair(vocab__special *s, bytes pair, bytes first, bytes last) {
    str  t = {0};
    int  from = 0, to = vocab__count(pair);
    bool sep = false;
    if (first.n && vocab__template_token(vocab__item(pair, 0), &t) && bytes_eq(str_bytes(&t), first)) from++;
    if (last.n && vocab__template_token(vocab__item(pair, -1), &t) && bytes_eq(str_bytes(&t), last)) to--;
    const bytes a = vocab__member(vocab__member(vocab__item(pair, from), "Sequence"), "id"),
                b = vocab__member(vocab__member(vocab__item(pair, to - 1), "Sequence"), "id");
    if (to - from > 2 && vocab__is(a, "A") && vocab__is(b, "B")) {
        for (int i = from + 1; i < min_int(to - 1, from + 3); i++)
            if (vocab__template_token(vocab__item(pair, i), &t) &&
                (vocab__same(&s[VOCAB_SEP], str_bytes(&t)) || vocab__same(&s[VOCAB_EOS], str_bytes(&t))) &&
                (i > from + 1 ? to - from == 4 : !last.n))
                sep = true;
        s[VOCAB_SEP].add = sep;
        if (sep && !s[VOCAB_SEP].text.n) str_set(&s[VOCAB_SEP].text, str_bytes(&s[VOCAB_EOS].text));
    }
    str_drop(&t);
}

/* What a template puts around a text. `known`: tokenizer_config.json exists. */
static void vocab__template(vocab__special *s, bytes processor, bool known, bool *eot) {
    const bytes single = vocab__member(processor, "single"), pair = vocab__member(processor, "pair");
    str         first = {0}, last = {0};
    if (vocab__count(single) > 1) {
        if (vocab__template_token(vocab__item(single, 0), &first)) {
            const bytes t = str_bytes(&first);
            if (!known || (!vocab__same(&s[VOCAB_BOS], t) && !vocab__same(&s[VOCAB_CLS], t))) {
                if (!known || !s[VOCAB_BOS].text.n) str_set(&s[VOCAB_BOS].text, t);
                if (known && !s[VOCAB_CLS].text.n) str_set(&s[VOCAB_CLS].text, t);
            }
            s[VOCAB_BOS].add = vocab__same(&s[VOCAB_BOS], t) || vocab__same(&s[VOCAB_CLS], t);
        }
        if (vocab__template_token(vocab__item(single, -1), &last)) {
            const bytes t = str_bytes(&last);
            if (known && !vocab__same(&s[VOCAB_EOS], t)) {
                str_set(&s[VOCAB_EOT].text, str_bytes(&s[VOCAB_EOS].text));
                *eot = true;
            }
            str_set(&s[VOCAB_EOS].text, t);
            s[VOCAB_EOS].add = 1;
        }
    }
    if (vocab__count(pair)) vocab__pair(s, pair, str_bytes(&first), str_bytes(&last));
    str_drop_all(&first, &last);
}

/* What the post-processor adds to a text. */
static void vocab__processors(const vocab__job *v, vocab__special *s, bool *eot) {
    const bytes post = vocab__member(v->root, "post_processor");
    bytes       list = vocab__member(post, "processors"), item = post;
    const bool  several = list.n > 0;
    for (bool more = post.n && (!several || bytes_cut_item(&list, &item)); more; more = several && bytes_cut_item(&list, &item)) {
        const bytes type = vocab__member(item, "type");
        if (vocab__is(type, "RobertaProcessing")) {
            s[VOCAB_BOS].add = s[VOCAB_EOS].add = s[VOCAB_SEP].add = 1;
            if (!s[VOCAB_CLS].text.n) str_unquote(&s[VOCAB_CLS].text, vocab__item(vocab__member(item, "cls"), 0), false);
            if (!s[VOCAB_SEP].text.n) str_unquote(&s[VOCAB_SEP].text, vocab__item(vocab__member(item, "sep"), 0), false);
        }
        if (vocab__is(type, "TemplateProcessing")) vocab__template(s, item, v->config.n > 0, eot);
    }
}

/* The id of an added token; -1: none has this text. */
static int64_t vocab__added_id(const vocab__job *v, bytes text) {
    bytes   list = v->added, item;
    str     s = {0};
    int64_t id = -1;
    while (id < 0 && text.n && bytes_cut_item(&list, &item)) {
        str_clear(&s);
        if (str_unquote(&s, vocab__member(item, "content"), false) && bytes_eq(str_bytes(&s), text))
            id = vocab__id(vocab__member(item, "id"));
    }
    str_drop(&s);
    return id;
}

/* The id of a token with this text; -1: none has it. */
static int64_t vocab__token_id(const vocab__job *v, bytes text) {
    for (uint32_t i = 0; i < v->n; i++)
        if (text.n && bytes_eq(vocab__text(v, i), text)) return i;
    return -1;
}

/* Special tokens that a family has wherever its files say something else, or nothing. Returns whether one ends a turn. */
static bool vocab__own_specials(const vocab__job *v, vocab__special *s) {
    bytes list = family_get(v->c, "eos_token_id"), item;
    if (family_is(v->c, "rwkv7 rwkv6")) {             /* an empty line ends a turn */
        s[VOCAB_BOS].id = s[VOCAB_EOS].id = 0;
        s[VOCAB_EOT].id = 261;
        return true;
    }
    if (family_is(v->c, "plamo2 plamo3")) return s[VOCAB_EOT].id = 4, true;
    if (family_is(v->c, "llada-moe") && v->n > 156895) s[VOCAB_MASK].id = 156895;       /* no file says so */
    if (family_is(v->c, "llada")) s[VOCAB_BOS].add = 1;
    while (family_is(v->c, "laguna") && list.n && list.p[0] == '[' && bytes_cut_item(&list, &item)) {
        if (vocab__id(item) == s[VOCAB_BOS].id) continue;
        s[VOCAB_EOT].id = vocab__id(item);
        return s[VOCAB_EOT].id >= 0;
    }
    return false;
}

/* Ids of special tokens and whether texts get them: tokenizer_config.json counts before config.json. */
static void vocab__write_specials(vocab__job *v) {
    vocab__special s[VOCAB_SPECIALS] = {
        {.name = "bos", .key = "bos"}, {.name = "eos", .key = "eos"}, {.name = "unk", .key = "unknown"},
            {.name = "sep", .key = "seperator"},
        {.name = "pad", .key = "padding"}, {.name = "cls"}, {.name = "mask", .key = "mask"}, {.name = "eot", .key = "eot"}};
    bool eot = false;
    char key[64];
    int  said[VOCAB_SPECIALS];
    for (int i = 0; i < VOCAB_SPECIALS; i++) {
        vocab__special_text(v, &s[i]);
        said[i] = s[i].add;
        s[i].id = s[i].add = -1;
    }
    if (v->root.n) {
        if (!s[VOCAB_BOS].text.n) str_cat(&s[VOCAB_BOS].text, str_bytes(&s[VOCAB_CLS].text));
        if (!s[VOCAB_EOS].text.n) str_cat(&s[VOCAB_EOS].text, str_bytes(&s[VOCAB_SEP].text));
        vocab__processors(v, s, &eot);
    }
    for (int i = 0; i < (eot ? VOCAB_SPECIALS : VOCAB_EOT); i++) {
        double id = -1;
        if (said[i] >= 0) s[i].add = said[i];
        if (v->config.n) s[i].id = vocab__added_id(v, str_bytes(&s[i].text));
        if (v->config.n && family_is(v->c, "plamo2 plamo3")) s[i].id = vocab__token_id(v, str_bytes(&s[i].text));
        snprintf(key, sizeof key, "%s_token_id", s[i].name);
        if (s[i].id < 0 && family_number(v->c, key, &id) && id >= 0 && id < VOCAB_MAX) s[i].id = (int64_t)id;
    }
    eot |= vocab__own_specials(v, s);
    for (int i = 0; i < (eot ? VOCAB_SPECIALS : VOCAB_EOT); i++) {
        if (s[i].key && s[i].id >= 0 && s[i].id < v->n) {
            snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", s[i].key);
            gguf_write_u32(v->w, key, (uint32_t)s[i].id);
        }
        snprintf(key, sizeof key, "tokenizer.ggml.add_%s_token", s[i].name);
        if (s[i].add >= 0 && (i == VOCAB_BOS || i == VOCAB_EOS || i == VOCAB_SEP)) gguf_write_bool(v->w, key, s[i].add);
    }
    for (int i = 0; i < VOCAB_SPECIALS; i++) str_drop(&s[i].text);
}

/* --- chat templates --- */

/* How the RWKV World models were taught to talk. */
static const char vocab_rwkv_chat[] =
    "{% for m in messages %}{% if m.role == 'user' %}User: {{ m.content | trim }}\n\n{% elif m.role == 'assistant' %}"
    "Assistant: {{ m.content | trim }}\n\n{% else %}System: {{ m.content | trim }}\n\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}";

/* Several templates: each has a name. */
static void vocab__templates(vocab__job *v, bytes list) {
    bytes item, names[32];
    str   text[32] = {{0}}, body = {0};
    int   n = 0;
    char  key[128];
    while (n < 32 && bytes_cut_item(&list, &item)) {
        str_clear(&body), str_clear(&text[n]);
        if (!str_unquote(&text[n], vocab__member(item, "name"), false) || !text[n].n || text[n].n > 64 ||
            !str_unquote(&body, vocab__member(item, "template"), false))
            continue;
        if (bytes_is(str_bytes(&text[n]), "default")) {
            gguf_write_str(v->w, "tokenizer.chat_template", str_bytes(&body));
            str_drop(&text[n]);
            continue;
        }
        snprintf(key, sizeof key, "tokenizer.chat_template.%s", text[n].p);
        gguf_write_str(v->w, key, str_bytes(&body));
        names[n] = str_bytes(&text[n]);
        n++;
    }
    if (n) gguf_write_strs(v->w, "tokenizer.chat_templates", names, (uint64_t)n);
    for (int i = 0; i < 32; i++) str_drop(&text[i]);
    str_drop(&body);
}

static bool vocab__write_template(vocab__job *v) {
    const bytes own = vocab__member(str_bytes(&v->config), "chat_template");
    str         path = {0}, text = {0};
    struct stat its;
    bool        ok = true;
    str_fmt(&path, "%s/chat_template.jinja", v->c->dir);
    const bool found = stat(path.p, &its) == 0,       /* of these two it counts before the config's, which may include it */
               file = found && family_is(v->c, "laguna plamo3");
    if (family_is(v->c, "rwkv7 rwkv6") && !own.n && !found)
        gguf_write_str(v->w, "tokenizer.chat_template", bytes_of(vocab_rwkv_chat));
    else if (!file && own.n && own.p[0] == '[') vocab__templates(v, own);
    else if (!file && own.n && str_unquote(&text, own, false)) gguf_write_str(v->w, "tokenizer.chat_template", str_bytes(&text));
    else if (found) {
        ok = str_read_file(&text, path.p, O_NONBLOCK | O_NOCTTY, VOCAB_FILE_MAX, "a smaller template", v->e);
        if (ok) gguf_write_str(v->w, "tokenizer.chat_template", str_bytes(&text));
    }
    str_drop_all(&path, &text);
    return ok;
}

/* --- the whole --- */

static void vocab__write_tokens(vocab__job *v, const char *model, bool scores) {
    bytes   *text = mem_new(v->n, sizeof *text);
    int32_t *type = mem_new(v->n, sizeof *type);
    float   *score = mem_new(v->n, sizeof *score);
    for (uint32_t i = 0; i < v->n; i++) {
        text[i] = vocab__text(v, i);
        type[i] = v->token[i].type;
        score[i] = v->token[i].score;
    }
    gguf_write_str(v->w, "tokenizer.ggml.model", bytes_of(model));
    gguf_write_strs(v->w, "tokenizer.ggml.tokens", text, v->n);
    if (scores) gguf_write_array(v->w, "tokenizer.ggml.scores", GGUF_F32, score, v->n);
    gguf_write_array(v->w, "tokenizer.ggml.token_type", GGUF_I32, type, v->n);
    mem_free_all(text, type, score);
}

/* BPE over bytes. */
static bool vocab__gpt2(vocab__job *v) {
    if (!vocab__read_object(v, vocab__member(v->model, "vocab")) || !vocab__read_added(v, 0) || !vocab__sized(v)) return false;
    vocab__write_tokens(v, "gpt2", false);
    return vocab__write_pre(v) && vocab__write_merges(v);
}

/* Pieces within a word begin with ## there, words with U+2581 here. */
static bool vocab__wordpiece(vocab__job *v) {
    if (!vocab__read_object(v, vocab__member(v->model, "vocab")) || !vocab__read_added(v, 0) || !vocab__sized(v)) return false;
    for (uint32_t i = 0; i < v->n; i++) {
        const bytes t = vocab__text(v, i);
        const int   type = v->token[i].type;
        str_clear(&v->scratch);
        if (type == VOCAB_CONTROL) continue;
        if (bytes_begins(t, bytes_of("##"))) str_cat(&v->scratch, bytes_slice(t, 2, t.n));
        else str_put(&v->scratch, "\xe2\x96\x81"), str_cat(&v->scratch, t);
        if (!vocab__set(v, i, str_bytes(&v->scratch), type, 0)) return false;
    }
    vocab__write_tokens(v, "bert", false);
    gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of("jina-v2-en"));
    return true;
}

/* <0x00> to <0xFF>. */
static bool vocab__is_byte(bytes t) {
    uint64_t b;
    return t.n == 6 && !memcmp(t.p, "<0x", 3) && t.p[5] == '>' && bytes_hex(t.p + 3, 2, &b);
}

/* SentencePiece in tokenizer.json: BPE with tokens for bytes. */
static bool vocab__spm_json(vocab__job *v) {
    static const char visible[] = "<|channel> <channel|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|\"|>";
    const bool gemma4 = family_is(v->c, "gemma4");
    if (!vocab__read_object(v, vocab__member(v->model, "vocab")) || !vocab__rank_scores(v)) return false;
    if (!vocab__read_added(v, -1000) || !vocab__sized(v)) return false;
    str unk = {0};
    str_unquote(&unk, vocab__member(v->model, "unk_token"), false);
    for (uint32_t i = 0; i < v->n; i++) {
        const bytes t = vocab__text(v, i);
        if (v->token[i].type == VOCAB_NORMAL && vocab__is_byte(t)) v->token[i].type = VOCAB_BYTE;
        if (gemma4 && bytes_among(t, visible)) v->token[i].type = VOCAB_USER;
        if (v->token[i].type != VOCAB_BYTE && unk.n && bytes_eq(t, str_bytes(&unk))) v->token[i].type = VOCAB_UNKNOWN;
    }
    str_drop(&unk);
    vocab__write_tokens(v, gemma4 ? "gemma4" : "llama", true);
    if (gemma4) return gguf_write_bool(v->w, "tokenizer.ggml.add_bos_token", true), vocab__write_merges(v);
    gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of("default"));
    return true;
}

/* The character map of a normalizer in tokenizer.json, alone or in a sequence. */
static bytes vocab__charsmap(bytes normalizer) {
    bytes list = vocab__member(normalizer, "normalizers"), item, map = vocab__member(normalizer, "precompiled_charsmap");
    while (!map.n && bytes_cut_item(&list, &item)) map = vocab__member(item, "precompiled_charsmap");
    return map;
}

static void vocab__write_map(vocab__job *v, bytes map) {
    if (map.n) gguf_write_array(v->w, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, map.p, map.n);
}

static bool vocab__unigram(vocab__job *v) {
    const int64_t unk = vocab__id(vocab__member(v->model, "unk_id"));
    const bytes   map = vocab__charsmap(vocab__member(v->root, "normalizer"));
    str           base64 = {0}, bin = {0};
    bytes         list = v->added, item;
    if (!vocab__read_list(v, vocab__member(v->model, "vocab"))) return false;
    while (bytes_cut_item(&list, &item)) {            /* a token that the vocabulary has keeps its score */
        const int64_t id = vocab__id(vocab__member(item, "id"));
        const float   score = id >= 0 && id < v->n ? v->token[id].score : 0;
        str_clear(&v->scratch);
        if (id < 0 || !str_unquote(&v->scratch, vocab__member(item, "content"), false)) continue;
        if (!vocab__set(v, id, str_bytes(&v->scratch), bytes_is(vocab__member(item, "special"), "true") ? VOCAB_CONTROL
                        : VOCAB_USER,
                        score))
            return false;
    }
    if (unk >= 0 && unk < v->n) v->token[unk].type = VOCAB_UNKNOWN;
    if (!vocab__sized(v)) return false;
    vocab__write_tokens(v, "t5", true);
    gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of("default"));
    gguf_write_bool(v->w, "tokenizer.ggml.add_space_prefix", true);
    /* patterns of texts: a pre-tokenizer that splits at spaces, a normalizer that replaces runs of them */
    gguf_write_bool(v->w, "tokenizer.ggml.remove_extra_whitespaces",
                    bytes_find(vocab__member(v->root, "pre_tokenizer"), 0, bytes_of("\"WhitespaceSplit\"")) != SIZE_MAX ||
                    bytes_find(vocab__member(v->root, "normalizer"), 0, bytes_of("\"Replace\"")) != SIZE_MAX);
    if (str_unquote(&base64, map, false)) str_unbase64(&bin, str_bytes(&base64));
    vocab__write_map(v, str_bytes(&bin));
    str_drop_all(&base64, &bin);
    return true;
}

static bool vocab__spm_file(vocab__job *v, const char *path) {
    str        file = {0};
    vocab__spm spm = {0};
    bool       ok = str_read_file(&file, path, O_NONBLOCK | O_NOCTTY, VOCAB_FILE_MAX, "a smaller file", v->e) &&
              vocab__read_spm(v, str_bytes(&file), &spm);
    const uint32_t limit = ok ? (uint32_t)family_int(v->c, "vocab_size", (int)v->n) : 0;
    if (ok && limit > VOCAB_MAX) ok = VOCAB_BAD(v, "config.json", "vocab_size %u, expected at most %d", limit, VOCAB_MAX);
    if (ok && limit < v->n) v->n = limit;             /* the model has no rows for the last pieces */
    ok = ok && vocab__spm_added(v, limit);
    if (ok && family_is(v->c, T5) && spm.model != 2) {
        vocab__pad(v, limit);
        vocab__write_tokens(v, "t5", true);
        gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of("default"));
        gguf_write_bool(v->w, "tokenizer.ggml.add_space_prefix", spm.prefix);
        gguf_write_bool(v->w, "tokenizer.ggml.remove_extra_whitespaces", spm.squeeze);
        vocab__write_map(v, spm.charsmap);
    } else if (ok) {
        vocab__pad(v, limit);
        vocab__write_tokens(v, "llama", true);
        gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of("default"));
        if (family_is(v->c, "internlm2")) gguf_write_bool(v->w, "tokenizer.ggml.add_space_prefix", spm.prefix);
    }
    str_drop(&file);
    return ok;
}

/* Flags of the normalizer that lower case or strip accents, alone or in sequences. */
static void vocab__normalizer(vocab__job *v, bytes n, int deep, bytes flag[2]) {
    const bytes type = vocab__member(n, "type");
    bytes       list = vocab__member(n, "normalizers"), item;
    if (vocab__is(type, "Lowercase")) flag[0] = bytes_of("true");
    if (vocab__is(type, "StripAccents")) flag[1] = bytes_of("true");
    if (vocab__is(type, "BertNormalizer")) {
        if (vocab__member(n, "lowercase").n) flag[0] = vocab__member(n, "lowercase");
        if (vocab__member(n, "strip_accents").n) flag[1] = vocab__member(n, "strip_accents");
    }
    while (deep < 8 && bytes_cut_item(&list, &item)) vocab__normalizer(v, item, deep + 1, flag);
}

static void vocab__write_normalizer(vocab__job *v) {
    static const char *const keys[2] = {"tokenizer.ggml.normalizer.lowercase", "tokenizer.ggml.normalizer.strip_accents"};
    bytes flag[2] = {{0}};
    vocab__normalizer(v, vocab__member(v->root, "normalizer"), 0, flag);
    for (int i = 0; i < 2; i++)
        if (bytes_is(flag[i], "true") || bytes_is(flag[i], "false")) gguf_write_bool(v->w, keys[i], bytes_is(flag[i], "true"));
}

/* --- other lists of tokens --- */

/* The character or byte behind a backslash of a literal of Python, p behind it. Returns the bytes taken; 0: it is none. */
static size_t vocab__escape(bytes t, uint32_t *c) {
    static const char from[] = "nrt0abfv\\'\"", to[] = "\n\r\t\0\a\b\f\v\\'\"";
    const char *known = t.n ? memchr(from, t.p[0], sizeof from - 1) : NULL;
    uint64_t    v = 0;
    const size_t n = !t.n ? 0 : t.p[0] == 'x' ? 2 : t.p[0] == 'u' ? 4 : t.p[0] == 'U' ? 8 : 0;
    if (n && t.n > n && bytes_hex(t.p + 1, n, &v) && v < 0x110000) return *c = (uint32_t)v, n + 1;
    if (n || !known) return 0;
    *c = (uint8_t)to[known - from];
    return 1;
}

/* Appends the bytes of a literal of Python, 'text' or b'bytes'. False: it is none. */
static bool vocab__literal(bytes t, str *out) {
    const bool raw = t.n && t.p[0] == 'b';
    t = bytes_slice(t, raw, t.n);
    if (t.n < 2 || (t.p[0] != '\'' && t.p[0] != '"') || t.p[t.n - 1] != t.p[0]) return false;
    t = bytes_slice(t, 1, t.n - 1);
    for (size_t i = 0; i < t.n;) {
        uint8_t  utf[4];
        uint32_t c = 0;
        if (t.p[i] != '\\') {
            str_add(out, t.p + i++, 1);
            continue;
        }
        const size_t n = vocab__escape(bytes_slice(t, i + 1, t.n), &c);
        if (!n || (raw && c > 255)) return false;
        utf[0] = (uint8_t)c;
        str_add(out, utf, raw ? 1 : (size_t)utf8_put(utf, c));
        i += n + 1;
    }
    return true;
}

/* Appends bytes as Python writes them. */
static void vocab__repr(bytes t, str *out) {
    const bool twice = t.n && memchr(t.p, '\'', t.n) && !memchr(t.p, '"', t.n);   /* between quotes of the other kind */
    for (size_t i = 0; i < t.n; i++) {
        const uint8_t c = t.p[i];
        if (c == '\\' || (c == '\'' && !twice)) str_fmt(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t') str_put(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else if (c < 0x20 || c >= 0x7f) str_fmt(out, "\\x%02x", c);
        else str_add(out, &c, 1);
    }
}

/* RWKV: a line for each token with its id, a literal of Python and the number of its bytes. Id 0 ends a text. */
static bool vocab__rwkv(vocab__job *v, bytes rest) {
    str   text = {0};
    bytes line;
    bool  ok = vocab__set(v, 0, bytes_of("<s>"), VOCAB_CONTROL, 0);
    for (int64_t id = 1; ok && bytes_cut_line(&rest, &line); id++) {
        line = bytes_trim(line);
        size_t from = 0, to = line.n;
        while (from < line.n && line.p[from] != ' ') from++;
        while (to > from && line.p[to - 1] != ' ') to--;
        str_clear(&text);
        str_clear(&v->scratch);
        if (id == VOCAB_MAX || to <= from + 1 || vocab__id(bytes_slice(line, 0, from)) != id ||
            !vocab__literal(bytes_slice(line, from + 1, to - 1), &text) ||
            vocab__id(bytes_slice(line, to, line.n)) != (int64_t)text.n) {
            ok = VOCAB_BAD(v, "%s", "line %lld is %.*s, expected an id, a text and its number of bytes",
                           st_tokenizer[ST_TOK_RWKV], (long long)id, GGUF_SHOW(line));
            break;
        }
        vocab__repr(str_bytes(&text), &v->scratch);
        ok = vocab__set(v, id, str_bytes(&v->scratch), VOCAB_NORMAL, 0);
    }
    str_drop(&text);
    if (!ok || !vocab__sized(v)) return false;
    vocab__write_tokens(v, "rwkv", false);
    return true;
}

/* PLaMo: a line for each token, a list of its text, score and type. */
static bool vocab__plamo(vocab__job *v, bytes rest) {
    str      type = {0};
    bytes    line, item;
    uint32_t id = 0;
    bool     ok = true;
    while (ok && bytes_cut_line(&rest, &line)) {
        bytes  list = line = bytes_trim(line);
        char   number[48] = "";
        if (!line.n) continue;
        str_clear(&v->scratch);
        str_clear(&type);
        ok = bytes_is_json(line) && bytes_cut_item(&list, &item) && str_unquote(&v->scratch, item, false) &&
            bytes_cut_item(&list, &item) && item.n < sizeof number;
        if (!ok) {
            VOCAB_BAD(v, "%s", "line %u is %.*s, expected a text, a score and a type", st_tokenizer[ST_TOK_PLAMO], id + 1,
                      GGUF_SHOW(line));
            break;
        }
        memcpy(number, item.p, item.n);
        if (bytes_cut_item(&list, &item)) str_unquote(&type, item, true);
        const bytes t = str_bytes(&v->scratch), kind = str_bytes(&type);
        const bool  named = bytes_begins(t, bytes_of("<|plamo:")) && bytes_ends(t, bytes_of("|>"));
        const int   as = bytes_is(kind, "UNKNOWN") ? VOCAB_UNKNOWN : bytes_is(kind, "BYTE") ? VOCAB_BYTE
            : named || bytes_is(kind, "CONTROL") ? VOCAB_CONTROL : VOCAB_NORMAL;
        ok = vocab__set(v, id++, t, as, (float)strtod(number, NULL));
    }
    str_drop(&type);
    const uint32_t limit = (uint32_t)family_int(v->c, "vocab_size", (int)v->n);
    for (uint32_t i = v->n, n = 1; ok && i < limit && i < VOCAB_MAX; i++, n++) {       /* numbered from the first of them */
        char name[24];
        snprintf(name, sizeof name, "[PAD%u]", n);
        ok = vocab__set(v, i, bytes_of(name), VOCAB_UNUSED, -1000);
    }
    if (!ok || !vocab__sized(v)) return false;
    vocab__write_tokens(v, "plamo2", true);
    gguf_write_str(v->w, "tokenizer.ggml.pre", bytes_of("default"));
    gguf_write_bool(v->w, "tokenizer.ggml.add_space_prefix", false);
    return true;
}

/* Reads a file of tokens with one of the functions above. */
static bool vocab__listed(vocab__job *v, const char *path, bool (*read)(vocab__job *v, bytes file)) {
    str        file = {0};
    const bool ok = str_read_file(&file, path, O_NONBLOCK | O_NOCTTY, VOCAB_FILE_MAX, "a smaller file", v->e) &&
                    read(v, str_bytes(&file));
    str_drop(&file);
    return ok;
}

/* Whether the folder has the file; its path then is in `path`. */
static bool vocab__has(const vocab__job *v, str *path, const char *name) {
    struct stat its;
    str_clear(path);
    str_fmt(path, "%s/%s", v->c->dir, name);
    return stat(path->p, &its) == 0;
}

static bool vocab__choose(vocab__job *v) {
    const bytes type = vocab__member(v->model, "type");
    str         path = {0};
    bool        ok;
    if (family_is(v->c, "rwkv7 rwkv6") && vocab__has(v, &path, st_tokenizer[ST_TOK_RWKV]))
        ok = vocab__listed(v, path.p, vocab__rwkv);
    else if (family_is(v->c, "plamo2 plamo3") && vocab__has(v, &path, st_tokenizer[ST_TOK_PLAMO]))
        ok = vocab__listed(v, path.p, vocab__plamo);
    else if ((v->c->row->flags & FAM_SPM || !v->root.n) &&
             (vocab__has(v, &path, st_tokenizer[ST_TOK_SPM]) ||
              (family_is(v->c, T5) && vocab__has(v, &path, st_tokenizer[ST_TOK_SPIECE]))))
        ok = vocab__spm_file(v, path.p);
    else if (!v->root.n)
        ok = gguf_refuse(v->e, EXIT_INPUT, v->c->dir, "no %s, expected the file of tokens", family_is(v->c, "rwkv7 rwkv6")
                         ? st_tokenizer[ST_TOK_RWKV] : family_is(v->c, "plamo2 plamo3") ? st_tokenizer[ST_TOK_PLAMO]
                         : family_is(v->c, T5) ? "tokenizer.json, tokenizer.model or spiece.model"
                         : "tokenizer.json or tokenizer.model");
    else if (vocab__is(type, "WordPiece")) ok = vocab__wordpiece(v);
    else if (vocab__is(type, "Unigram")) ok = vocab__unigram(v);
    else if (type.n && !vocab__is(type, "BPE"))
        ok = VOCAB_BAD(v, "tokenizer.json", "model of type %.*s, expected BPE, WordPiece or Unigram", GGUF_SHOW(type));
    else if (bytes_is(vocab__member(v->model, "byte_fallback"), "true")) ok = vocab__spm_json(v);
    else ok = vocab__gpt2(v);
    str_drop(&path);
    return ok;
}

/* Whether texts get a space in front, and other keys of a family. */
static void vocab__family_keys(vocab__job *v) {
    const bytes space = vocab__member(str_bytes(&v->config), "add_prefix_space");
    if (v->c->row->flags & FAM_NO_SPACE) gguf_write_bool(v->w, "tokenizer.ggml.add_space_prefix", false);
    if (v->c->row->flags & FAM_SPACE && (bytes_is(space, "true") || bytes_is(space, "false")))
        gguf_write_bool(v->w, "tokenizer.ggml.add_space_prefix", bytes_is(space, "true"));
    if (family_is(v->c, "bert nomic-bert nomic-bert-moe jina-bert-v2 modern-bert neo-bert"))
        gguf_write_u32(v->w, "tokenizer.ggml.token_type_count", (uint32_t)family_int(v->c, "type_vocab_size", 1));
}

static bool vocab__all(vocab__job *v) {
    v->root = bytes_trim(str_bytes(&v->json));
    v->model = vocab__member(v->root, "model");
    v->added = vocab__member(v->root, "added_tokens");
    if (!vocab__choose(v)) return false;
    vocab__write_normalizer(v);
    vocab__family_keys(v);
    vocab__write_specials(v);
    return vocab__write_template(v);
}

static void vocab__drop(vocab__job *v) {
    mem_free(v->token);
    str_drop_all(&v->json, &v->config, &v->texts, &v->scratch);
}

/* Writes the keys of the folder's tokenizer; *n: its tokens. On failure e is set. */
static bool vocab_write(const family_config *c, gguf_writer *w, uint32_t *n, err_t *e) {
    vocab__job v = {.c = c, .w = w, .e = e};
    bool       ok = st_read_json(c->dir, st_tokenizer[ST_TOK_JSON], &v.json, e) >= 0 &&
        st_read_json(c->dir, "tokenizer_config.json", &v.config, e) >= 0;
    ok = ok && vocab__all(&v);
    *n = v.n;
    vocab__drop(&v);
    return ok;
}
