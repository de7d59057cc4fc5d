/* Vocabularies in memory, for t_tok.c and fuzz_tok.c: a GGUF file of nothing but tokenizer keys. A value is
 * written as text: a list has a tab between its items (which therefore hold none). */
#ifndef TOK_MEM_H
#define TOK_MEM_H

typedef struct {
    const char *key;
    /* S string, A strings, I i32s, F f32s, B u8s, H u8s in hexadecimal, U u32, N i32, R f32, T bool, 0 no such key */
    char        kind;
    const char *value;
} tm_kv;

typedef struct {
    str      body;
    uint64_t n_kv;
} tm_file;

static void tm__num(str *s, uint64_t x, size_t n) { str_add(s, &x, n); }

static void tm__string(str *s, const char *p, size_t n) {
    tm__num(s, n, 8);
    str_add(s, p, n);
}

static void tm__item(str *s, char kind, const char *p, size_t n) {
    char  num[40] = "";
    float f;
    memcpy(num, p, n < sizeof num - 1 ? n : sizeof num - 1);
    if (kind == 'A') tm__string(s, p, n);
    else if (kind == 'F') f = strtof(num, NULL), str_add(s, &f, 4);
    else tm__num(s, (uint64_t)strtoll(num, NULL, 10), kind == 'B' ? 1 : 4);
}

/* n bytes of value: items may hold NUL. */
static void tm_add(tm_file *f, const char *key, char kind, const char *p, size_t n) {
    uint32_t elem = kind == 'A' ? GGUF_STR : kind == 'I' ? GGUF_I32 : kind == 'F' ? GGUF_F32 : GGUF_U8;
    f->n_kv++;
    tm__string(&f->body, key, strlen(key));
    if (kind == 'S') tm__num(&f->body, GGUF_STR, 4), tm__string(&f->body, p, n);
    else if (kind == 'U') tm__num(&f->body, GGUF_U32, 4), tm__num(&f->body, strtoull(p, NULL, 10), 4);
    else if (kind == 'N') tm__num(&f->body, GGUF_I32, 4), tm__num(&f->body, (uint64_t)strtoll(p, NULL, 10), 4);
    else if (kind == 'R') tm__num(&f->body, GGUF_F32, 4), tm__item(&f->body, 'F', p, n);
    else if (kind == 'T') tm__num(&f->body, GGUF_BOOL, 4), tm__num(&f->body, *p == '1', 1);
    else if (kind == 'H') {
        tm__num(&f->body, GGUF_ARR, 4), tm__num(&f->body, GGUF_U8, 4), tm__num(&f->body, n / 2, 8);
        for (size_t i = 0; i + 1 < n; i += 2) tm__num(&f->body, (uint64_t)strtol((const char[]){p[i], p[i + 1], 0}, NULL, 16), 1);
    }
    else {
        uint64_t count = 1;
        for (size_t i = 0; i < n; i++) count += p[i] == '\t';
        tm__num(&f->body, GGUF_ARR, 4), tm__num(&f->body, elem, 4), tm__num(&f->body, count, 8);
        for (size_t i = 0, from = 0; i <= n; i++)
            if (i == n || p[i] == '\t') tm__item(&f->body, kind, p + from, i - from), from = i + 1;
    }
}

/* The rows with the overriding ones in their place; both lists end with a NULL key. The caller drops the result. */
static str tm_build(const tm_kv *base, const tm_kv *over) {
    tm_file f = {0};
    for (int pass = 0; pass < 2; pass++)
        for (const tm_kv *k = pass ? over : base; k && k->key; k++) {
            bool hidden = false;
            for (const tm_kv *o = over; !pass && o && o->key; o++) hidden = hidden || !strcmp(o->key, k->key);
            if (!hidden && k->kind) tm_add(&f, k->key, k->kind, k->value, strlen(k->value));
        }
    str out = {0};
    str_put(&out, "GGUF");
    tm__num(&out, 3, 4), tm__num(&out, 0, 8), tm__num(&out, f.n_kv, 8);
    str_add(&out, f.body.p, f.body.n);
    while (out.n % 32) str_add(&out, "", 1);
    str_drop(&f.body);
    return out;
}

#define TM_TOKENS "tokenizer.ggml.tokens"
#define TM_TYPES  "tokenizer.ggml.token_type"
#define TM_SCORES "tokenizer.ggml.scores"
#define TM_MERGES "tokenizer.ggml.merges"
#define TM_MAP    "tokenizer.ggml.precompiled_charsmap"

/* --- a character map: keys and what they become --- */

static const char *const tm_pairs[][2] =
    {{"A", "a"}, {"e\xcc\x81", "é"}, {"ﬁ", "fi"}, {"\t", " "}, {"\n", " "}, {"\xe2\x80\x8b", ""}, {"…", "..."}};
enum { TM_PAIRS = sizeof tm_pairs / sizeof *tm_pairs, TM_UNITS = 1024 };

typedef struct {
    uint32_t unit[TM_UNITS];
    bool     used[TM_UNITS], base[TM_UNITS];   /* units; bases: no two nodes share one */
    str      text;
} tm_map;

/* Places the children of node `i`, whose keys begin with the first `depth` bytes of key `first`. */
static void tm__map_node(tm_map *m, uint32_t i, size_t first, size_t depth) {
    bool child[256] = {0}, ends = false, fits = false;
    for (size_t k = 0; k < TM_PAIRS; k++) {
        const char *key = tm_pairs[k][0];
        if (strlen(key) < depth || memcmp(key, tm_pairs[first][0], depth)) continue;
        if (key[depth]) child[(uint8_t)key[depth]] = true;
        else ends = true, first = k;
    }
    uint32_t base = 0;
    while (!fits) {
        ++base;
        fits = !m->used[base] && !m->base[base];
        for (uint32_t c = 1; c < 256; c++)
            fits = fits && !(child[c] && ((base ^ c) >= TM_UNITS || m->used[base ^ c] || !(base ^ c)));
    }
    m->base[base] = true;
    m->unit[i] |= (i ^ base) << 10 | (ends ? 1u << 8 : 0);
    if (ends) {
        m->used[base] = true, m->unit[base] = 1u << 31 | (uint32_t)m->text.n;
        str_add(&m->text, tm_pairs[first][1], strlen(tm_pairs[first][1]) + 1);
    }
    for (uint32_t c = 1; c < 256; c++)
        if (child[c]) m->used[base ^ c] = true, m->unit[base ^ c] = c;
    for (uint32_t c = 1; c < 256; c++)
        for (size_t k = 0; child[c] && k < TM_PAIRS; k++)
            if (strlen(tm_pairs[k][0]) > depth && !memcmp(tm_pairs[k][0], tm_pairs[first][0], depth) &&
                (uint8_t)tm_pairs[k][0][depth] == c) {
                tm__map_node(m, base ^ c, k, depth + 1);
                break;
            }
}

/* The map as the file holds it. The caller drops it. */
static str tm_map_file(void) {
    static tm_map m;
    str           out = {0};
    m = (tm_map){.used = {true}};
    tm__map_node(&m, 0, 0, 0);
    tm__num(&out, sizeof m.unit, 4);
    str_add(&out, m.unit, sizeof m.unit);
    str_add(&out, m.text.p, m.text.n);
    str_drop(&m.text);
    return out;
}

static str tm_hex(bytes b) {
    str s = {0};
    str_put(&s, "");
    for (size_t i = 0; i < b.n; i++) str_fmt(&s, "%02x", b.p[i]);
    return s;
}

/* Lists for a vocabulary of `head` tokens (type 3, the first one 2), byte tokens, and `rest` (type 1, or 4 where the
 * text is led by \2; scores -1, -2, ...). */
typedef struct { str tokens, types, scores; } tm_lists;

static void tm__row(tm_lists *l, const char *p, size_t n, int type, int score) {
    if (l->tokens.n) str_put(&l->tokens, "\t"), str_put(&l->types, "\t"), str_put(&l->scores, "\t");
    str_add(&l->tokens, p, n);
    str_fmt(&l->types, "%d", type);
    str_fmt(&l->scores, "%d", score);
}

static void tm__rows(tm_lists *l, const char *items, int first, int type, int step) {
    for (int score = step; *items; score += step) {
        size_t n = strcspn(items, "\t"), user = *items == 2;
        tm__row(l, items + user, n - user, first ? first : user ? 4 : type, score);
        first = 0;
        items += n + (items[n] == '\t');
    }
}

/* bytes: 'x' for <0xHH>, 'c' for the characters of gpt2; lack: bytes without a token. */
static tm_lists tm_lists_of(const char *head, char bytes_as, const char *lack, const char *rest) {
    tm_lists l = {0};
    tm__rows(&l, head, 2, 3, 0);
    for (int b = 0; bytes_as && b < 256; b++) {
        char t[8];
        int  n = bytes_as == 'x' ? snprintf(t, sizeof t, "<0x%02X>", (unsigned)b) : (int)tok__put_char((uint8_t)b, (uint8_t *)t);
        if (!b || !strchr(lack, b)) tm__row(&l, t, (size_t)n, bytes_as == 'x' ? 6 : 1, 0);
    }
    tm__rows(&l, rest, 0, 1, -1);
    return l;
}

static void tm_lists_drop(tm_lists *l) { str_drop(&l->tokens), str_drop(&l->types), str_drop(&l->scores); }

typedef struct {
    const char *name;                /* of the kind of vocabulary                */
    const char *model, *pre, *head;
    char        bytes_as;
    const char *lack, *rest, *merges;
    bool        whole_bytes;         /* every byte comes back: round trips hold  */
} tm_tiny;

static const tm_tiny tm_tinies[] = {
    {"llama with byte tokens", "llama", NULL, "<unk>\t<s>\t</s>", 'x', "",
     "▁\ta\tb\tc\te\té\tab\t▁a\t▁ab\tbc\tabc\t▁▁\t▁▁▁▁\t😀\t<\ts\t>\t<s\t\2<tool>\t\2<to\t\2xyz", NULL, true},
    {"llama without byte tokens", "llama", NULL, "<unk>\t<s>\t</s>", 0, "", "▁\ta\tb\tab\t▁a\t▁▁", NULL, false},
    {"gpt2", "gpt2", "llama-bpe", "<unk>\t<s>\t</s>", 'c', "",
     "ab\tabc\tĠa\tĠab\tĠĠ\tÃ©\taa\taaaa\t<s\t<s>x\t\2<tool>\t\2  \t\2   ",
     "a b\tab c\tĠ a\tĠa b\tĠ Ġ\tÃ ©\ta a\taa aa\t< s", true},
    {"gpt2 that lacks bytes", "gpt2", "gpt-2", "<unk>\t<s>\t</s>", 'c',
     "\xc0\xc1\xf1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff", "ab\tĠa\t\2ø",
     "a b\tĠ a", true},
    {"gemma4", "gemma4", NULL, "<unk>\t<s>\t</s>", 'x', "", "▁\ta\tb\té\tab\t▁a\t▁▁\t\n\t\n\n\t\n\n\n", "a b\t▁ a\t▁ ▁\t\n \n",
     true},
    {"bert", "bert", NULL, "[UNK]\t[CLS]\t[SEP]", 0, "", "▁a\t▁ab\tb\tc\tbc\t▁,\t▁中\t▁e\t▁ᄀ\tᅡ\t▁i\t▁x\tx\t▁▁\t\2▁user\t▁é\t▁A",
     NULL, false},
    {"t5", "t5", NULL, "<unk>\t<s>\t</s>", 0, "", "▁ab\t▁a\tbb\tb\tc\t▁\ta\tab\tabc\té\tf\ti\t.\t\2<user>", NULL, false},
    {"t5 with byte tokens", "t5", NULL, "<unk>\t<s>\t</s>", 'x', "", "▁\t▁a\ta\tb\tab\té", NULL, false},
    {"whitespace", "whitespace", NULL, "<unk>\t<s>\t</s>", 0, "",
     "a\tb\ti\té\t你\t好\t!\t_\t1\tab\t你好\tb!\t_1\t!!\tA\tIa\t\2<user>", "a b\t你 好\tb !\t_ 1\t! !", false},
};
enum { TM_TINIES = sizeof tm_tinies / sizeof *tm_tinies, TM_BERT = 5, TM_T5 = 6, TM_T5_BYTES = 7, TM_WHITE = 8 };

/* What a text is after tok_encode() and tok_decode(): U+2581 comes back as the space that it marks. */
static str tm_back(const tok_vocab *v, bytes text) {
    str s = {0};
    str_cat(&s, text);
    str_put(&s, "");
    if (v->raw) s.n = tok__restore_spaces(text, (uint8_t *)s.p);
    return s;
}

/* The file of a tiny vocabulary, its keys replaced by those of `over` (NULL: none). */
static str tm_tiny_file(const tm_tiny *t, const tm_kv *over) {
    tm_lists l = tm_lists_of(t->head, t->bytes_as, t->lack, t->rest);
    str      map = tm_map_file(), hex = tm_hex(str_bytes(&map));
    const tm_kv base[] = {
        {"tokenizer.ggml.model", 'S', t->model}, {"tokenizer.ggml.pre", t->pre ? 'S' : 0, t->pre}, {TM_TOKENS, 'A', l.tokens.p},
        {TM_TYPES, 'I', l.types.p}, {TM_SCORES, 'F', l.scores.p}, {TM_MERGES, t->merges ? 'A' : 0, t->merges},
        {"tokenizer.ggml.bos_token_id", 'U', "1"}, {"tokenizer.ggml.eos_token_id", 'U', "2"},
        {"tokenizer.ggml.unknown_token_id", 'U', "0"}, {TM_MAP, strcmp(t->model, "t5") ? 0 : 'H', hex.p}, {0}};
    str out = tm_build(base, over);
    tm_lists_drop(&l);
    str_drop(&map), str_drop(&hex);
    return out;
}
#endif
