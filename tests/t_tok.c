/* Tests of [tok]. The six suites need ../shared/data/vocab; without it the round trips use the vocabulary in this repository. */
#include "program.h"
#include "check.h"
#include "tok_mem.h"

static const char *const tt_vocabs[] = {"llama-spm", "llama-bpe", "qwen2", "gpt-2", "starcoder", "deepseek-llm"};
enum { TT_VOCABS = sizeof tt_vocabs / sizeof *tt_vocabs };
static const char tt_shipped[] = "models/pip-q4_k_m.gguf";

typedef struct {
    gguf_file  g;
    str        mem;
    tok_vocab *v;
} tt_open;

static bool tt_open_file(tt_open *o, const char *path, const char *pre) {
    err_t e = {0};
    *o = (tt_open){0};
    if (!CHECKF(gguf_open(&o->g, path, &e), "%s: %s", path, e.text)) return false;
    o->v = tok_load(&o->g, pre, &e);
    return CHECKF(o->v != NULL, "%s: %s", path, e.text);
}

/* The path of a shared vocabulary; NULL: it does not exist. */
static const char *tt_shared(const char *name) {
    char path[80];
    snprintf(path, sizeof path, "data/vocab/%s.gguf", name);
    return t_shared(path);
}

static bool tt_open_shared(tt_open *o, const char *name, const char *pre) {
    const char *path = tt_shared(name);
    return path ? tt_open_file(o, path, pre) : (t_skipped = "no ../shared/data/vocab", false);
}

/* Fails silently with the error in e: the hostile table expects that. */
static bool tt_open_mem(tt_open *o, str file, const char *pre, err_t *e) {
    *o = (tt_open){.mem = file};
    if (gguf_parse(&o->g, (const uint8_t *)file.p, file.n, "mem", e)) o->v = tok_load(&o->g, pre, e);
    return o->v != NULL;
}

static void tt_close(tt_open *o) {
    tok_free(o->v);
    gguf_close(&o->g);
    str_drop(&o->mem);
}

static bool tt_open_tiny(tt_open *o, const tm_tiny *t, const tm_kv *over) {
    err_t e = {0};
    return CHECKF(tt_open_mem(o, tm_tiny_file(t, over), NULL, &e), "%s: %s", t->name, e.text);
}

static bytes tt_bytes(const char *s) { return bytes_of(s); }

/* The ids as a line, as the suites have them. */
static str tt_line(const tok_vocab *v, bytes text, unsigned flags) {
    tok_ids ids = {0};
    err_t   e = {0};
    str     s = {0};
    str_put(&s, "");
    if (!tok_encode(v, text, flags, &ids, &e)) str_put(&s, e.text);
    for (size_t i = 0; i < ids.n; i++) str_fmt(&s, "%s%d", i ? " " : "", ids.id[i]);
    tok_ids_drop(&ids);
    return s;
}

/* --- the suites --- */

static void tt_suite(const char *name) {
    static const char *const sep = "\n__ggml_vocab_test__\n";
    char    path[2][80];
    tt_open o;
    if (!tt_open_shared(&o, name, NULL)) return;
    snprintf(path[0], sizeof path[0], "data/vocab/%s.inp", name);
    snprintf(path[1], sizeof path[1], "data/vocab/%s.out", name);
    char *in = t_read(t_shared(path[0]), NULL), *out = t_read(t_shared(path[1]), NULL), *text = in, *line = out;
    int   n = 0;
    while (CHECK(in && out) && text) {
        char *end = strstr(text, sep), *eol = strchr(line, '\n');
        if (!end && !*text) break;                    /* the last separator ends the file */
        if (end) *end = 0;
        if (eol) *eol = 0;
        str got = tt_line(o.v, tt_bytes(text), 0);
        while (*line == ' ') line++;
        for (char *z = line + strlen(line); z > line && z[-1] == ' ';) *--z = 0;
        CHECKF(!strcmp(got.p, line), "%s, text %d: got %s, want %s", name, n, got.p, line);
        str_drop(&got);
        n++;
        text = end ? end + strlen(sep) : NULL;
        line = eol ? eol + 1 : line + strlen(line);
    }
    EQ_INT(n, 46);
    mem_free(in), mem_free(out);
    tt_close(&o);
}

static void tt_suites(void) {
    for (int i = 0; i < TT_VOCABS; i++) tt_suite(tt_vocabs[i]);
}

/* --- ids of the tokenizers library: for every kind of pattern and for gemma4, and of transformers for bert and t5. See the
 * heads of the files. --- */

static size_t tt_unhex(char *s) {
    size_t n = 0;
    for (; isxdigit((uint8_t)s[2 * n]); n++) {
        char two[3] = {s[2 * n], s[2 * n + 1], 0};
        s[n] = (char)strtol(two, NULL, 16);
    }
    return n;
}

/* Returns the number of texts whose ids are right. A vocabulary is a file of this repository or a name of
 * ../shared/data/vocab. */
static int tt_recorded(const char *path, int least) {
    enum { TEXTS = 64 };
    bytes   text[TEXTS];
    int     n = 0, at = 0, right = 0;
    tt_open o = {0};
    char    name[40] = "", pre[40] = "", *file = t_read(path, NULL), *rest = NULL;
    if (!CHECK(file)) return 0;
    for (char *s = strtok_r(file, "\n", &rest); s; s = strtok_r(NULL, "\n", &rest)) {
        if (*s == 'T' && n < TEXTS) text[n] = (bytes){(const uint8_t *)s + 2, tt_unhex(s + 2)}, n++;
        if (*s == 'V') {
            if (o.v) tt_close(&o);
            sscanf(s, "V %39s %39s", name, pre);
            if (!(strchr(name, '/') ? tt_open_file(&o, name, NULL) : tt_open_shared(&o, name, pre))) break;
            at = 0;
        }
        if (*s != 'I' || at >= n) continue;
        str got = tt_line(o.v, text[at], 0);
        right += CHECKF(!strcmp(got.p, s + 2), "%s %s, text %d: got %s, want %s", name, pre, at, got.p, s + 2);
        str_drop(&got);
        at++;
    }
    if (!t_skipped) CHECK(n >= least);
    if (o.v) tt_close(&o);
    mem_free(file);
    return right;
}

static void tt_oracle(void) {
    const int right = tt_recorded("tests/data/tok_oracle.txt", 20);
    if (!t_skipped) CHECK(right >= 16 * 20);
}

/* plamo2, and kimi-k2 without merges. */
static void tt_peer(void) { CHECK(tt_recorded("tests/data/tok_peer.txt", 60) == 2 * 60); }

static void tt_words(void) { CHECK(tt_recorded("tests/data/tok_words.txt", 60) == 5 * 60); }

/* Characters of golden/bert.txt. U+2581 stands for the beginning of a word in the file. */
static bool tt_in_golden(uint32_t c) { return (c < 0xd800 || c >= 0xe000) && c != 0x2581 && (c < 0x20000 || c % 61 == 0); }

static void tt_list_item(str *s, uint64_t *n, const char *lead, uint32_t c) {
    str item = {0};
    str_put(&item, lead);
    str_char(&item, c);
    tm__string(s, item.p, item.n);
    ++*n;
    str_drop(&item);
}

/* A bert vocabulary in which each character is a token, at the beginning of a word and after it. */
static str tt_all_characters(void) {
    str      list = {0}, out = {0};
    uint64_t n = 0;
    for (uint32_t c = 1; c < 0x110000; c++)
        if (tt_in_golden(c) || (c >= 0x20000 && c < 0x2fa20)) tt_list_item(&list, &n, "", c), tt_list_item(&list, &n, "▁", c);
    str_put(&out, "GGUF");
    tm__num(&out, 3, 4), tm__num(&out, 0, 8), tm__num(&out, 2, 8);
    tm__string(&out, "tokenizer.ggml.model", 20), tm__num(&out, GGUF_STR, 4), tm__string(&out, "bert", 4);
    tm__string(&out, TM_TOKENS, strlen(TM_TOKENS)), tm__num(&out, GGUF_ARR, 4), tm__num(&out, GGUF_STR, 4), tm__num(&out, n, 8);
    str_add(&out, list.p, list.n);
    str_drop(&list);
    return out;
}

/* FNV-1a of the words of a text, a newline after each. */
static uint64_t tt_words_hash(const tok_vocab *v, bytes text) {
    tok_ids  ids = {0};
    err_t    e = {0};
    uint64_t h = 0xcbf29ce484222325u;
    CHECKF(tok_encode(v, text, 0, &ids, &e), "%s", e.text);
    for (size_t i = 0; i < ids.n; i++) {
        bytes t = tok_text(v, ids.id[i]);
        if (t.n > 3 && tok__is_space(t.p)) {
            t.p += 3, t.n -= 3;
            if (i) h = (h ^ '\n') * 0x100000001b3u;
        }
        for (size_t k = 0; k < t.n; k++) h = (h ^ t.p[k]) * 0x100000001b3u;
    }
    tok_ids_drop(&ids);
    return (h ^ '\n') * 0x100000001b3u;
}

static void tt_bert_characters(void) {
    static const struct { const char *name; bool lower, bare; } kinds[] = {
        {"uncased", true, true}, {"cased", false, false}, {"lower", true, false}, {"bare", false, true}};
    char   *golden = t_read("tests/data/golden/bert.txt", NULL);
    tt_open o;
    err_t   e = {0};
    str     text = {0};
    if (!CHECK(golden) || !CHECKF(tt_open_mem(&o, tt_all_characters(), NULL, &e), "%s", e.text)) return;
    for (uint32_t c = 0; c < 0x110000; c++)
        if (tt_in_golden(c)) str_put(&text, "A"), str_char(&text, c), str_put(&text, "É ");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char want[60];
        o.v->lower = kinds[k].lower, o.v->bare = kinds[k].bare;
        snprintf(want, sizeof want, "%s %016llx\n", kinds[k].name, (unsigned long long)tt_words_hash(o.v, str_bytes(&text)));
        CHECKF(strstr(golden, want) != NULL, "the words of %s are not those of golden/bert.txt", want);
    }
    str_drop(&text);
    tt_close(&o);
    mem_free(golden);
}

/* --- round trips --- */

static uint64_t tt_rand(uint64_t *s) { return rng_mix((*s)++); }

/* Bytes of all kinds, in runs: any, letters, spaces, characters of 2 to 4 bytes, pieces of such, marked-up words. */
static void tt_text(uint64_t *s, size_t n, str *out) {
    static const char *const words[] =
        {"Hello", " world", "▁", "▁▁", "  ", "\xff", "<s>", "</s>", "<tool>", "é", "中文", "😀", "\xf4", "\xf4\x90",
         "\xf4\xbf", "\xf0\x9f", "<0x41>", "Ġ", "ab", "\r\n", "12345", "'s", "ø", "\xf8", "\xf1\x80\x80\x80", "|"};
    str_clear(out);
    str_put(out, "");
    while (out->n < n) {
        int      kind = (int)(tt_rand(s) % 7);
        size_t   len = 1 + tt_rand(s) % 6;
        uint32_t base = (uint32_t[]){0x80, 0x400, 0x4e00, 0x2000, 0x1f600}[tt_rand(s) % 5];
        for (size_t i = 0; i < len; i++) {
            uint32_t c = base + (uint32_t)(tt_rand(s) % 256);
            uint8_t  b = kind == 1 ? 'a' + tt_rand(s) % 4 : kind == 2 ? (uint8_t)" \n\t\r "[tt_rand(s) % 5] : (uint8_t)tt_rand(s);
            const char *w = words[tt_rand(s) % (sizeof words / sizeof *words)];
            if (kind < 4) str_add(out, &b, 1);
            else if (kind == 4) str_put(out, w);
            else if (c < 0x800) str_fmt(out, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 63));
            else if (c < 0x10000) str_fmt(out, "%c%c%c", 0xe0 | c >> 12, 0x80 | (c >> 6 & 63), 0x80 | (c & 63));
            else str_fmt(out, "%c%c%c%c", 0xf0 | c >> 18, 0x80 | (c >> 12 & 63), 0x80 | (c >> 6 & 63), 0x80 | (c & 63));
        }
    }
}

static bool tt_back(const tok_vocab *v, bytes text, unsigned flags, const char *who) {
    tok_ids ids = {0};
    err_t   e = {0};
    str     s = {0}, want = tm_back(v, text);
    bool    ok = CHECKF(tok_encode(v, text, flags, &ids, &e), "%s: %s", who, e.text);
    tok_decode(v, ids.id, ids.n, flags & TOK_SPECIAL, &s);
    str shown = {0};
    if (ok && !bytes_eq(str_bytes(&s), str_bytes(&want)))
        for (size_t i = 0; i < text.n && i < 60; i++) str_fmt(&shown, "%02x", text.p[i]);
    ok = ok && CHECKF(bytes_eq(str_bytes(&s), str_bytes(&want)), "%s: %zu bytes %s came back as %zu", who, text.n, shown.p, s.n);
    tok_ids_drop(&ids);
    str_drop_all(&s, &shown, &want);
    return ok;
}

static void tt_back_many(const tok_vocab *v, const char *who, int rounds) {
    uint64_t seed = 1;
    str      s = {0};
    for (int b = 0; b < 256; b++) tt_back(v, (bytes){(const uint8_t[]){(uint8_t)b}, 1}, 0, who);
    tt_back(v, (bytes){0}, 0, who);
    for (int i = 0; i < rounds; i++) {
        tt_text(&seed, tt_rand(&seed) % (i % 50 ? 60 : 4000), &s);
        if (!tt_back(v, str_bytes(&s), i & 1 ? TOK_SPECIAL : 0, who)) break;
    }
    str_drop(&s);
}

static void tt_round_trip(void) {
    for (int i = -1; i < TT_VOCABS; i++) {
        const char *path = i < 0 ? tt_shipped : tt_shared(tt_vocabs[i]);
        tt_open     o;
        if (!path) continue;
        if (!tt_open_file(&o, path, NULL)) return;
        tt_back_many(o.v, path, 4000);
        tt_close(&o);
    }
}

static void tt_round_trip_tiny(void) {
    for (int i = 0; i < TM_TINIES; i++) {
        tt_open o;
        if (!tm_tinies[i].whole_bytes || !tt_open_tiny(&o, &tm_tinies[i], NULL)) continue;
        tt_back_many(o.v, tm_tinies[i].name, 4000);
        tt_close(&o);
    }
}

/* The pieces of every pre-tokenizer are the whole text, and invalid bytes are pieces of their own. */
static void tt_every_pre(void) {
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++) {
        char    name[40] = "";
        tt_open o;
        err_t   e = {0};
        memcpy(name, tok_pres[i].names, strcspn(tok_pres[i].names, " "));
        if (!CHECKF(tt_open_mem(&o, tm_tiny_file(&tm_tinies[tok_pres[i].flags & PRE_RAW ? 4 : 2], NULL), name, &e), "%s: %s",
                    name, e.text)) continue;
        tt_back_many(o.v, name, 500);
        EQ_STR(tok_pre_name(o.v), name);
        tt_close(&o);
    }
}

static void tt_pre_names(void) {               /* no name has two rows, none is longer than its field */
    str all = {0};
    tok_list_pre(&all);
    char *rest = NULL;
    int   n = 0;
    for (char *s = strtok_r(all.p, " \n", &rest); s; s = strtok_r(NULL, " \n", &rest), n++) {
        int rows = 0;
        for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++) rows += bytes_among(tt_bytes(s), tok_pres[i].names);
        CHECKF(rows == 1, "%s is in %d rows", s, rows);
        CHECKF(strlen(s) < sizeof ((tok_vocab *)0)->pre_name, "%s is too long", s);
    }
    CHECK(n > 60);
    CHECK(!tok__pre_find((bytes){0}) && !tok__pre_find(tt_bytes("gpt")) && !tok__pre_find(tt_bytes("llama-bpe llama3")));
    str_drop(&all);
}

static void tt_alphabet(void) {                /* the characters of gpt2: 256 different ones, and back */
    for (int b = 0; b < 256; b++) {
        CHECK(tok__byte_of_char(tok__char_of((uint8_t)b)) == b);
        for (int c = 0; c < b; c++) CHECK(tok__char_of((uint8_t)b) != tok__char_of((uint8_t)c));
    }
    EQ_INT(tok__char_of(' '), 0x120);
    EQ_INT(tok__char_of('\n'), 0x10a);
    EQ_INT(tok__char_of(0xad), 0x143);
    EQ_INT(tok__byte_of_char(0x144), -1);
}

/* --- what the models do, on tiny vocabularies. Tokens by their texts, separated by a space (the token of byte HH: hHH) --- */

static str tt_spelled(const tok_vocab *v, bytes text, unsigned flags) {
    tok_ids ids = {0};
    err_t   e = {0};
    str     s = {0};
    str_put(&s, "");
    if (!tok_encode(v, text, flags, &ids, &e)) str_fmt(&s, "error: %s", e.text);
    for (size_t i = 0; i < ids.n; i++) {
        bytes t = tok_text(v, ids.id[i]);
        str_put(&s, i ? " " : "");
        if (tok__byte_of(t) >= 0) str_fmt(&s, "h%02X", (unsigned)tok__byte_of(t));
        else str_add(&s, t.p, t.n);
    }
    tok_ids_drop(&ids);
    return s;
}

static void tt_models(void) {
    static const struct { int tiny; unsigned flags; const char *text, *want; } rows[] = {
        {0, 0, "", ""},
        {0, 0, "ab", "▁ab"},
        {0, 0, " ab", "▁ ▁ab"},
        {0, 0, "abc", "▁ab c"},                                  /* the best score first, not the longest */
        {0, 0, "éa\xcc\x81", "▁ é a hCC h81"},
        {0, 0, "\xff▁", "▁ hFF ▁"},
        {0, 0, "c▁ab▁▁▁▁ ▁a", "▁ c ▁ab ▁▁▁▁ ▁ ▁a"},             /* U+2581 is a space */
        {0, 0, "▁ab", "▁ ▁ab"},
        {0, 0, "\xe2\x96", "▁ hE2 h96"},
        {0, 0, "\xf0\x9f\x98", "▁ hF0 h9F h98"},
        {0, 0, "😀", "▁ 😀"},
        {0, 0, "<s>a", "▁ <s > a"},                             /* no control token out of merges */
        {0, TOK_SPECIAL, "<s>a", "<s> ▁a"},
        {0, TOK_SPECIAL, "a</s><s>", "▁a </s> <s>"},
        {0, TOK_BOS | TOK_EOS, "a", "<s> ▁a </s>"},
        {0, TOK_BOS, "", "<s>"},
        {0, 0, "a<tool>b", "▁a <tool> ▁ b"},                     /* the longest user token */
        {0, 0, "<toxyz", "<to xyz"},
        {0, 0, "<0x41>", "▁ < h30 h78 h34 h31 >"},
        {1, 0, "aéb", "▁a <unk> b"},
        {1, 0, "\xff", "▁ <unk>"},
        {2, 0, "ab abc aba ab", "ab Ġ abc Ġ ab a Ġab"},         /* a whole word needs no merges */
        {2, 0, "abc", "abc"},
        {2, 0, "aaaaaaa", "aaaa aa a"},
        {2, 0, "é\xc3", "Ã© Ã"},
        {2, 0, "a   b", "a     b"},                              /* three spaces are a user token */
        {2, 0, "<s>x", "<s > x"},
        {2, TOK_SPECIAL, "<s>x", "<s> x"},
        {2, 0, "\xff|\xf4", "ÿ | ô"},
        {3, 0, "\xc0|\xf4", "ô Ĳ | ô ¿"},                         /* a byte without a token: F4 90; a stray F4: F4 BF */
        {3, 0, "\xf4\x80\x80\x80", "ô Ģ Ģ Ģ"},                    /* no stray one */
        {3, 0, "ø", "ø"},                                         /* a user token, not byte F8 */
        {4, 0, "ab  a\n\n\nb", "ab ▁ ▁a \n\n\n b"},
        {4, 0, "\n\n\n\n", "\n\n \n\n"},
        {4, 0, "\xc3▁", "hC3 ▁"},
        {4, 0, "ab▁ab\n▁ a", "ab ▁ ab \n ▁ ▁a"},
        {TM_BERT, 0, "", ""},
        {TM_BERT, 0, "AB abc", "▁ab ▁ab c"},
        {TM_BERT, 0, "Ábc", "▁ab c"},                           /* the longest token at each place */
        {TM_BERT, 0, "a,bab  é", "▁a ▁, [UNK] ▁e"},             /* a word that tokens cannot make is unknown as a whole */
        {TM_BERT, 0, "a中b", "▁a ▁中 [UNK]"},
        {TM_BERT, 0, "a\x01\xe2\x80\x8b\xff" "b\tc\xc2\x85", "▁ab [UNK]"},  /* control characters and invalid bytes go */
        {TM_BERT, 0, "가", "▁ᄀ ᅡ"},                           /* a syllable of Hangul is its letters */
        {TM_BERT, 0, "İx", "▁i x"},
        {TM_BERT, 0, "▁ x▁", "▁▁ [UNK]"},                       /* U+2581 of a text begins no word of the file */
        {TM_BERT, 0, "[CLS] user", "[UNK] [UNK] [UNK] ▁user"},
        {TM_BERT, TOK_SPECIAL, "[CLS]a[SEP]", "[CLS] ▁a [SEP]"},
        {TM_BERT, TOK_BOS | TOK_EOS, "a", "[CLS] ▁a [SEP]"},
        {TM_T5, 0, "", ""},
        {TM_T5, 0, "  ", ""},
        {TM_T5, 0, "ab", "▁ab"},
        {TM_T5, 0, " ab \t\na ", "▁ab ▁a"},                     /* runs of spaces count as one, those around the text as none */
        {TM_T5, 0, "abc", "▁ab c"},                             /* the best sum, not the longest token */
        {TM_T5, 0, "abb", "▁a bb"},                             /* the first of two equal sums */
        {TM_T5, 0, "Afi…", "▁a f i . . ."},
        {TM_T5, 0, "xé", "▁ <unk> é"},
        {TM_T5, 0, "xyzé xy", "▁ <unk> é ▁ <unk>"},             /* several unknown characters are one */
        {TM_T5, 0, "xe\xcc\x81" "e\xcc\x82\xcc\x81", "▁ <unk> é <unk>"},
        {TM_T5, 0, "b\xe2\x80\x8b" "b", "▁ bb"},
        {TM_T5, 0, "a\xff" "a", "▁a <unk> a"},                   /* an invalid byte is U+FFFD */
        {TM_T5, 0, "a▁b▁", "▁a ▁ b ▁"},
        {TM_T5, 0, "a<user>b", "▁a <user> ▁ b"},
        {TM_T5, TOK_MIDDLE, "ab a", "ab ▁a"},
        {TM_T5, TOK_MIDDLE, " ab", "▁ab"},
        {TM_T5, TOK_SPECIAL | TOK_EOS, "<s>a", "<s> ▁a </s>"},
        {TM_T5_BYTES, 0, "a中", "▁a hE4 hB8 hAD"},
        {TM_WHITE, 0, "", ""},
        {TM_WHITE, 0, " \t　\n", ""},                           /* spaces part words and are no part of one */
        {TM_WHITE, 0, "ab a b 你好", "ab a b 你好"},
        {TM_WHITE, 0, "ab!! _1", "ab !! _1"},                     /* words are of letters or of signs: b! is none */
        {TM_WHITE, 0, "AaB x", "A a <unk> <unk>"},                /* each unknown character is one */
        {TM_WHITE, 0, "a\xff▁b", "a <unk> <unk> b"},              /* an invalid byte is U+FFFD, and U+2581 no space */
        {TM_WHITE, 0, "a<user>b<s>", "a <user> b <unk> <unk> <unk>"},
        {TM_WHITE, TOK_SPECIAL | TOK_BOS | TOK_EOS, "ab<s> a", "<s> ab <s> a </s>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_open o;
        if (!tt_open_tiny(&o, &tm_tinies[rows[i].tiny], NULL)) continue;
        str got = tt_spelled(o.v, tt_bytes(rows[i].text), rows[i].flags);
        CHECKF(!strcmp(got.p, rows[i].want), "%s, \"%s\" (%u): got \"%s\", want \"%s\"", tm_tinies[rows[i].tiny].name,
               rows[i].text, rows[i].flags,
               got.p, rows[i].want);
        str_drop(&got);
        tt_close(&o);
    }
}

static void tt_flags(void) {                   /* what the file says, and the tokenizer's own default */
    static const struct { int tiny; tm_kv over[4]; bool bos, eos; const char *text, *want; } rows[] = {
        {0, {{0}}, true, false, "a", "▁a"},
        {2, {{0}}, true, false, "a", "a"},
        {3, {{0}}, false, false, "a", "a"},
        {4, {{"tokenizer.ggml.add_bos_token", 'T', "0"}}, true, false, "a", "a"},
        {0, {{"tokenizer.ggml.add_bos_token", 'T', "0"}, {"tokenizer.ggml.add_eos_token", 'T', "1"}}, false, true, "a", "▁a"},
        {0, {{"tokenizer.ggml.add_space_prefix", 'T', "0"}}, true, false, "a", "a"},
        /* -1 is no id, as if the key were not there; another number that is no token is left out */
        {2, {{"tokenizer.ggml.bos_token_id", 'U', "4294967295"}}, false, false, "a", "a"},
        {0, {{"tokenizer.ggml.bos_token_id", 'U', "4294967295"}}, true, false, "a", "▁a"},
        {0, {{"tokenizer.ggml.eos_token_id", 'N', "-1"}, {"tokenizer.ggml.mask_token_id", 'N', "-1"}}, true, false, "a", "▁a"},
        {0, {{"tokenizer.ggml.unknown_token_id", 'U', "4294967295"}, {"tokenizer.ggml.fim_pad_token_id", 'U', "99999"},
             {"tokenizer.ggml.padding_token_id", 'N', "-7"}}, true, false, "a", "▁a"},
        {2, {{"tokenizer.ggml.ignore_merges", 'T', "0"}}, true, false, "ab ab", "ab Ġ ab"},
        {2, {{"tokenizer.ggml.bos_token_id", 0, ""}}, false, false, "a", "a"},
        {2, {{"tokenizer.ggml.pre", 0, ""}}, false, false, "ab", "ab"},
        {TM_BERT, {{0}}, true, true, "É", "▁e"},
        {TM_BERT, {{"tokenizer.ggml.normalizer.lowercase", 'T', "0"}}, true, true, "É A é", "[UNK] ▁A ▁é"},
        {TM_BERT, {{"tokenizer.ggml.normalizer.strip_accents", 'T', "0"}}, true, true, "É", "▁é"},
        {TM_BERT, {{"tokenizer.ggml.normalizer.lowercase", 'T', "0"}, {"tokenizer.ggml.normalizer.strip_accents", 'T', "1"}},
         true, true, "é", "▁e"},
        {TM_BERT, {{"tokenizer.ggml.add_sep_token", 'T', "0"}}, true, true, "a", "▁a"},
        {TM_BERT, {{"tokenizer.ggml.add_eos_token", 'T', "0"}}, true, false, "a", "▁a"},
        /* 101 and 102 are no tokens here */
        {TM_BERT, {{"tokenizer.ggml.bos_token_id", 0, ""}, {"tokenizer.ggml.eos_token_id", 0, ""}}, false, false, "a", "▁a"},
        {TM_BERT, {{"tokenizer.ggml.bos_token_id", 0, ""}, {"tokenizer.ggml.cls_token_id", 'U', "1"}}, true, true, "a", "▁a"},
        {TM_T5, {{0}}, false, true, "a  a", "▁a ▁a"},
        {TM_T5, {{"tokenizer.ggml.add_bos_token", 'T', "1"}, {"tokenizer.ggml.add_eos_token", 'T', "0"}}, true, false, "a", "▁a"},
        {TM_T5, {{"tokenizer.ggml.add_space_prefix", 'T', "0"}}, false, true, " a a", "a ▁a"},
        {TM_T5, {{"tokenizer.ggml.remove_extra_whitespaces", 'T', "0"}}, false, true, " a  a ", "▁ ▁a ▁ ▁a ▁"},
        {TM_T5, {{TM_MAP, 0, ""}}, false, true, "Aa", "▁ <unk> a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_open o;
        if (!tt_open_tiny(&o, &tm_tinies[rows[i].tiny], rows[i].over)) continue;
        str got = tt_spelled(o.v, tt_bytes(rows[i].text), 0);
        CHECKF(tok_add_bos(o.v) == rows[i].bos && tok_add_eos(o.v) == rows[i].eos, "row %zu: bos %d, eos %d", i, tok_add_bos(o.v),
               tok_add_eos(o.v));
        EQ_STR(got.p, rows[i].want);
        str_drop(&got);
        tt_close(&o);
    }
}

/* The start token of raw texts: none, one, and not a second one. */
static void tt_starts(void) {
    enum { NO = 0, YES = 1, FILE_SAYS = -1 };
    static const struct { int tiny, ask; bool special; const char *text; unsigned flags; const char *want; } rows[] = {
        {0, FILE_SAYS, true, "a", TOK_SPECIAL | TOK_BOS, "<s> ▁a"},
        {0, FILE_SAYS, true, "<s>a", TOK_SPECIAL | TOK_BEGUN, "<s> ▁a"},
        {0, FILE_SAYS, true, "<s><s>a", TOK_SPECIAL | TOK_BEGUN, "<s> <s> ▁a"},
        {0, FILE_SAYS, true, " <s>a", TOK_SPECIAL | TOK_BOS, "<s> ▁▁ <s> ▁a"},
        {0, FILE_SAYS, false, "<s>a", TOK_BOS, "<s> ▁ <s > a"},               /* there it is text */
        {0, FILE_SAYS, true, "", TOK_SPECIAL | TOK_BOS, "<s>"},
        {0, YES, true, "<s>a", TOK_SPECIAL | TOK_BEGUN, "<s> ▁a"},
        {0, NO, true, "a", TOK_SPECIAL, "▁a"},
        {0, NO, true, "<s>a", TOK_SPECIAL, "<s> ▁a"},
        {0, NO, true, "", TOK_SPECIAL, ""},
        {3, FILE_SAYS, true, "a", TOK_SPECIAL, "a"},                          /* the model wants none */
        {3, FILE_SAYS, true, "", TOK_SPECIAL | TOK_BOS, "<s>"},
        {3, FILE_SAYS, true, "<s>a", TOK_SPECIAL, "<s> a"},
        {3, YES, true, "a", TOK_SPECIAL | TOK_BOS, "<s> a"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_open o;
        if (!tt_open_tiny(&o, &tm_tinies[rows[i].tiny], NULL)) continue;
        const unsigned flags = tok_raw_flags(o.v, tt_bytes(rows[i].text), rows[i].ask, rows[i].special);
        str            got = tt_spelled(o.v, tt_bytes(rows[i].text), flags);
        CHECKF(flags == rows[i].flags && !strcmp(got.p, rows[i].want), "row %zu: flags %u, \"%s\"", i, flags, got.p);
        EQ_INT(tok_start(o.v, rows[i].ask), rows[i].ask == YES || (rows[i].ask == FILE_SAYS && rows[i].tiny == 0) ? 1 : -1);
        str_drop(&got);
        tt_close(&o);
    }
}

static void tt_ends(void) {                    /* tokens that end a generation, by id and by name */
    static const struct { const char *head, *eog, *not_eog; } rows[] = {
        {"<unk>\t<s>\t</s>", "</s>", "<s>"},
        {"<unk>\t<s>\t<|im_end|>\t<|endoftext|>", "<|im_end|>\t<|endoftext|>", "<s>\t<unk>"},
        {"<unk>\t<s>\tend\t<|return|>\t<|call|>\t<|end|>", "<|return|>\t<|call|>\tend", "<|end|>"},
        {"<unk>\t<s>\t<eos>\t</s>\t<|tool_response>", "<eos>\t<|tool_response>", "</s>"},
        {"<unk>\t<s>\tend\t<|fim_pad|>\t<|fim_middle|>", "<|fim_pad|>", "<|fim_middle|>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tm_tiny t = tm_tinies[3];
        tt_open o;
        t.head = rows[i].head;
        if (!tt_open_tiny(&o, &t, NULL)) continue;
        for (int want = 0; want < 2; want++) {
            char list[100], *rest = NULL;
            snprintf(list, sizeof list, "%s", want ? rows[i].eog : rows[i].not_eog);
            for (char *s = strtok_r(list, "\t", &rest); s; s = strtok_r(NULL, "\t", &rest)) {
                int32_t id = tok__find(o.v, tt_bytes(s));
                CHECKF(id >= 0 && tok_is_eog(o.v, id) == want, "%s: id %d, ends: %d, want %d", s, id, tok_is_eog(o.v, id), want);
            }
        }
        tt_close(&o);
    }
}

/* --- streaming --- */

static void tt_stream_one(const tok_vocab *v, bytes text, const char *who) {
    tok_ids    ids = {0};
    err_t      e = {0};
    tok_stream st;
    str        whole = {0}, got = {0}, want = tm_back(v, text);
    CHECK(tok_encode(v, text, 0, &ids, &e));
    tok_decode(v, ids.id, ids.n, false, &whole);
    tok_stream_init(&st, v, true);
    bool valid = true;
    for (size_t i = 0; i < text.n;) {
        int len = utf8_len(text.p + i, text.n - i);
        valid = valid && len;
        i += len ? (size_t)len : 1;
    }
    for (size_t i = 0; i < ids.n; i++) {
        size_t from = got.n;
        tok_stream_push(&st, ids.id[i], &got);
        for (size_t k = from; valid && k < got.n;) {  /* what leaves is whole characters */
            int len = utf8_len((uint8_t *)got.p + k, got.n - k);
            if (!CHECKF(len, "%s: a character is split", who)) goto out;
            k += (size_t)len;
        }
        CHECK(st.n_held < 4);
    }
    tok_stream_flush(&st, &got);
    CHECKF(bytes_eq(str_bytes(&got), str_bytes(&whole)), "%s: the stream differs from tok_decode", who);
    CHECKF(bytes_eq(str_bytes(&got), str_bytes(&want)), "%s: the stream differs from the text", who);
out:
    tok_ids_drop(&ids);
    str_drop_all(&whole, &got, &want);
}

static void tt_stream(void) {
    uint64_t seed = 5;
    str      s = {0};
    for (int t = 0; t < TM_TINIES; t++) {
        tt_open o;
        if (!tm_tinies[t].whole_bytes || !tt_open_tiny(&o, &tm_tinies[t], NULL)) continue;
        for (int i = 0; i < 1500; i++) tt_text(&seed, 40, &s), tt_stream_one(o.v, str_bytes(&s), tm_tinies[t].name);
        tt_stream_one(o.v, tt_bytes("é中😀 fin"), tm_tinies[t].name);
        tt_close(&o);
    }
    str_drop(&s);
}

static void tt_stream_start(void) {            /* only the beginning of a text loses the space that was added */
    tt_open    o;
    tok_stream st;
    str        s = {0};
    if (!tt_open_tiny(&o, &tm_tinies[0], NULL)) return;
    int32_t a = tok__find(o.v, tt_bytes("▁a")), bos = tok_bos(o.v), lead = o.v->byte_id[0xc3];
    tok_stream_init(&st, o.v, true);
    tok_stream_push(&st, bos, &s), tok_stream_push(&st, a, &s), tok_stream_push(&st, a, &s);
    EQ_STR(s.p, "a a");
    str_clear(&s);
    tok_stream_init(&st, o.v, false);
    tok_stream_push(&st, a, &s), tok_stream_push(&st, lead, &s);
    EQ_STR(s.p, " a");                          /* the lead byte waits */
    tok_stream_push(&st, a, &s);
    EQ_STR(s.p, " a\xc3 a");                    /* and leaves when it can be no character */
    tok_stream_push(&st, lead, &s), tok_stream_flush(&st, &s);
    EQ_STR(s.p, " a\xc3 a\xc3");
    tok_stream_push(&st, -1, &s), tok_stream_push(&st, tok_count(o.v), &s);
    EQ_STR(s.p, " a\xc3 a\xc3");
    EQ_INT(tok_piece(o.v, bos).n, 0);
    CHECK(tok_is_control(o.v, bos) && tok_is_control(o.v, 0) && !tok_is_control(o.v, a));
    CHECK(bytes_is(tok_text(o.v, bos), "<s>") && bytes_is(tok_piece(o.v, a), " a"));
    str_drop(&s);
    tt_close(&o);
}

/* --- time: near linear, so a megabyte of anything is a matter of tenths of a second --- */

static void tt_time_one(const tok_vocab *v, const char *who, const char *unit, size_t size) {
    str     s = {0};
    tok_ids ids = {0};
    err_t   e = {0};
    while (s.n < size) str_put(&s, unit);
    double t = t_cpu();
    CHECK(tok_encode(v, str_bytes(&s), 0, &ids, &e));
    t = t_cpu() - t;
    log_info("%s: %zu bytes of \"%s\": %zu tokens, %.0f ms", who, s.n, unit, ids.n, t * 1e3);
    CHECKF(t < 30, "%s: %zu bytes of \"%s\" took %.1f s", who, s.n, unit, t);      /* hours if it went over a run twice */
    CHECK(ids.n >= s.n / TOK_TEXT_MAX && ids.n <= 2 * s.n + 1);
    tok_ids_drop(&ids);
    str_drop(&s);
}

static void tt_time(void) {
    static const char *const units[] =
        {"a", " ", "😀", "abcdefghijklmnopqrstuvwxyz", "7", "\n", "\r\n", "é", "中", "\xff", "the quick ", "   1",
                                        " \n", "'", "A", "aA", "\xcc\x81", "▁", "<", "<|"};
    for (int i = -1; i < TT_VOCABS; i++) {
        const char *path = i < 0 ? tt_shipped : tt_shared(tt_vocabs[i]);
        tt_open     o;
        double      t = t_cpu();
        if (!path) continue;
        if (!tt_open_file(&o, path, NULL)) return;
        log_info("%s: %d tokens loaded in %.1f ms", path, tok_count(o.v), (t_cpu() - t) * 1e3);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++)
            tt_time_one(o.v, path, units[k], k < 4 && (i == 0 || i == 1) ? 1 << 20 : 100000);
        tt_close(&o);
    }
}

/* bert and t5: words of any length, runs of one thing, clusters without an end. */
static void tt_time_words(void) {
    static const char *const units[] = {"a", " ", "ab", "中", "가", "é", "e\xcc\x81", "\xcc\x81", "\xff", "a ", ",", "▁", "<user>",
                                        "\xf0\x9f\x87\xa9", "\xd8\x80", "x", "\r\n", "abb"};
    for (int t = TM_BERT; t <= TM_T5_BYTES; t++) {
        tt_open o;
        if (!tt_open_tiny(&o, &tm_tinies[t], NULL)) continue;
        for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
            str     s = {0};
            tok_ids ids = {0};
            err_t   e = {0};
            while (s.n < 60000) str_put(&s, units[k]);
            double at = t_cpu();
            CHECKF(tok_encode(o.v, str_bytes(&s), 0, &ids, &e), "%s", e.text);
            CHECKF(t_cpu() - at < 10, "%s: %zu bytes of \"%s\" took %.1f s", tm_tinies[t].name, s.n, units[k], t_cpu() - at);
            tok_ids_drop(&ids);
            str_drop(&s);
        }
        tt_close(&o);
    }
}

/* A text that is normalised already comes back. */
static void tt_back_normal(void) {
    static const struct { int tiny; const char *text; } rows[] =
        {{TM_BERT, "ab abc a"}, {TM_T5, "abc a bb é"}, {TM_T5, "a"}, {TM_T5_BYTES, "a中😀 ab"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_open o;
        if (!tt_open_tiny(&o, &tm_tinies[rows[i].tiny], NULL)) continue;
        tt_back(o.v, bytes_of(rows[i].text), 0, tm_tinies[rows[i].tiny].name);
        tt_close(&o);
    }
}

/* Long runs on which a pattern with quadratic backtracking would take minutes for 100 KB. */
static void tt_time_every_pre(void) {
    static const char *const runs[] = {" ", "A", "7", "\n", "\xcc\x81"}, *const ends[] = {"x", "1", "中"};
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++) {
        char    name[40] = "";
        tt_open o;
        err_t   e = {0};
        memcpy(name, tok_pres[i].names, strcspn(tok_pres[i].names, " "));
        if (!CHECK(tt_open_mem(&o, tm_tiny_file(&tm_tinies[tok_pres[i].flags & PRE_RAW ? 4 : 2], NULL), name, &e))) continue;
        for (size_t r = 0; r < sizeof runs / sizeof *runs; r++)
            for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
                str     s = {0};
                tok_ids ids = {0};
                while (s.n < 100000) str_put(&s, runs[r]);
                str_put(&s, ends[k]);
                double t = t_cpu();
                CHECK(tok_encode(o.v, str_bytes(&s), 0, &ids, &e));
                t = t_cpu() - t;
                CHECKF(t < 30, "%s: \"%s\" before \"%s\" took %.1f s", name, runs[r], ends[k], t);
                tok_ids_drop(&ids);
                str_drop(&s);
            }
        tt_close(&o);
    }
}

/* --- files that must not hurt (HOSTILE.md, vocabulary) --- */

static void tt_hostile(void) {
    static char big[2 * TOK_TEXT_MAX];
    memset(big, 'a', sizeof big - 1);
    static const struct { const char *name; int tiny; tm_kv over[5]; const char *says; } rows[] = {
        {"no model", 0, {{"tokenizer.ggml.model", 0, ""}}, "no tokenizer.ggml.model"},
        {"model of a wrong type", 0, {{"tokenizer.ggml.model", 'U', "3"}}, "expected a string"},
        {"plamo2 without scores", 0, {{"tokenizer.ggml.model", 'S', "plamo2"}, {TM_SCORES, 0, ""}}, "no tokenizer.ggml.scores"},
        {"plamo2 without bytes", 0, {{"tokenizer.ggml.model", 'S', "plamo2"}, {TM_TOKENS, 'A', "a\tb\tc"}, {TM_TYPES, 0, ""},
                                     {TM_SCORES, 'F', "0\t0\t0"}}, "no byte token <0x00>"},
        {"kimi-k2 with merges that are numbers", 2, {{"tokenizer.ggml.pre", 'S', "kimi-k2"}, {TM_MERGES, 'I', "1\t2"}},
         "expected array of string"},
        {"plamo3", 0, {{"tokenizer.ggml.model", 'S', "plamo3"}},
         "\"plamo3\", expected llama, gpt2, gemma4, bert, t5, whitespace, rwkv or plamo2"},
        {"whitespace with another pre-tokenizer", TM_WHITE, {{"tokenizer.ggml.pre", 'S', "qwen2"}},
         "tokenizer.ggml.pre is \"qwen2\", expected whitespace"},
        {"whitespace without merges", TM_WHITE, {{TM_MERGES, 0, ""}}, "no tokenizer.ggml.merges"},
        {"t5 without scores", TM_T5, {{TM_SCORES, 0, ""}}, "no tokenizer.ggml.scores"},
        {"a map of numbers", TM_T5, {{TM_MAP, 'I', "1\t2"}}, "expected array of u8"},
        {"a map of 8 bytes", TM_T5, {{TM_MAP, 'H', "0400000000000000"}}, "has 8 bytes, expected 9 to"},
        {"a map of no units", TM_T5, {{TM_MAP, 'H', "00000000" "0000000000000000"}}, "units of the character map are 0 bytes"},
        {"a map of half a unit", TM_T5, {{TM_MAP, 'H', "06000000" "0000000000000000"}},
         "are 6 bytes, expected a multiple of 4 below 8"},
        {"a map of units alone", TM_T5, {{TM_MAP, 'H', "08000000" "0000000000000000"}},
         "are 8 bytes, expected a multiple of 4 below 8"},
        {"a map of 4 GB", TM_T5, {{TM_MAP, 'H', "fcffffff" "0000000000000000"}}, "are 4294967292 bytes"},
        {"a map whose text does not end", TM_T5, {{TM_MAP, 'H', "04000000" "00000000" "006162"}}, "NUL after each"},
        {"a map whose text is not UTF-8", TM_T5, {{TM_MAP, 'H', "04000000" "00000000" "00ff00"}}, "expected UTF-8"},
        /* unit 1 is the child of itself */
        {"a map that is a cycle", TM_T5, {{TM_MAP, 'H', "08000000" "00000000" "01040000" "00"}}, "keys of the character map"},
        {"a map without a value", TM_T5, {{TM_MAP, 'H', "08000000" "00000000" "01010000" "00"}}, "keys of the character map"},
        {"a map with a wild value", TM_T5, {{TM_MAP, 'H', "10000000" "00000000" "010d0000" "07000080" "00000000" "00"}},
         "keys of the character map"},
        {"a map whose children are far", TM_T5, {{TM_MAP, 'H', "08000000" "00000000" "01fdff7f" "00"}},
         "keys of the character map"},
        {"unknown pre", 2, {{"tokenizer.ggml.pre", 'S', "nonesuch"}}, "\"nonesuch\", expected a name of --list pre; --pre NAME"},
        {"pre of a wrong type", 2, {{"tokenizer.ggml.pre", 'U', "1"}}, "expected a string"},
        {"no tokens", 0, {{TM_TOKENS, 0, ""}}, "no tokenizer.ggml.tokens"},
        {"tokens that are numbers", 0, {{TM_TOKENS, 'I', "1\t2"}}, "expected array of string"},
        {"tokens that are one string", 0, {{TM_TOKENS, 'S', "a"}}, "expected array of string"},
        {"few scores", 0, {{TM_SCORES, 'F', "0\t0"}}, "has 2 entries"},
        {"scores of u8", 0, {{TM_SCORES, 'B', "0\t0"}}, "expected array of f32"},
        {"few types", 0, {{TM_TYPES, 'I', "1"}}, "has 1 entries"},
        {"types of u8", 0, {{TM_TYPES, 'B', "1\t1"}}, "expected array of i32"},
        {"one score too many", 0, {{TM_TOKENS, 'A', "a\tb"}, {TM_TYPES, 0, ""}, {TM_SCORES, 'F', "0\t0\t0"},
                                   {"tokenizer.ggml.eos_token_id", 0, ""}}, "has 3 entries"},
        {"a type of 7", 0, {{TM_TOKENS, 'A', "a\tb"}, {TM_TYPES, 'I', "1\t7"}}, "is 7, expected 0 to 6"},
        {"a type below 0", 0, {{TM_TOKENS, 'A', "a\tb"}, {TM_TYPES, 'I', "1\t-1"}}, "expected 0 to 6"},
        {"a score that is no number", 0, {{TM_TOKENS, 'A', "a\tb\tc"}, {TM_TYPES, 0, ""}, {TM_SCORES, 'F', "0\tnan\t0"}}, "NaN"},
        {"start token = vocabulary", 1, {{"tokenizer.ggml.bos_token_id", 'U', "9"}}, "expected 0 to 8"},
        {"end token = 2^32-2", 1, {{"tokenizer.ggml.eos_token_id", 'U', "4294967294"}}, "expected 0 to 8"},
        {"unknown token that is a string", 1, {{"tokenizer.ggml.unknown_token_id", 'S', "x"}}, "expected an integer"},
        {"a fim token that is a float", 1, {{"tokenizer.ggml.fim_pad_token_id", 'R', "99"}}, "expected an integer"},
        {"add_bos_token that is a number", 1, {{"tokenizer.ggml.add_bos_token", 'U', "1"}}, "expected bool"},
        {"byte token <0x-1>", 0, {{TM_TOKENS, 'A', "a\t<0x-1>"}, {TM_TYPES, 'I', "1\t6"}}, "expected <0x00> to <0xFF>"},
        {"byte token <0xZZ>", 0, {{TM_TOKENS, 'A', "a\t<0xZZ>"}, {TM_TYPES, 'I', "1\t6"}}, "expected <0x00> to <0xFF>"},
        {"byte token <0x1", 0, {{TM_TOKENS, 'A', "a\t<0x1"}, {TM_TYPES, 'I', "1\t6"}}, "expected <0x00> to <0xFF>"},
        {"byte token <0x123>", 0, {{TM_TOKENS, 'A', "a\t<0x123>"}, {TM_TYPES, 'I', "1\t6"}}, "expected <0x00> to <0xFF>"},
        {"no merges", 2, {{TM_MERGES, 0, ""}}, "no tokenizer.ggml.merges"},
        {"merges that are numbers", 2, {{TM_MERGES, 'I', "1\t2"}}, "expected array of string"},
        {"a merge without space", 2, {{TM_MERGES, 'A', "a b\tab"}}, "merge 1 is \"ab\""},
        {"a merge of nothing", 2, {{TM_MERGES, 'A', "a b\t"}}, "merge 1 is \"\""},
        {"a merge without left", 2, {{TM_MERGES, 'A', " b"}}, "merge 0 is \" b\""},
        {"a merge without right", 2, {{TM_MERGES, 'A', "a "}}, "merge 0 is \"a \""},
        {"a merge of an unknown part", 2, {{TM_MERGES, 'A', "a zz"}}, "to be tokens"},
        {"a merge to no token", 2, {{TM_MERGES, 'A', "b b"}}, "to be tokens"},
        {"a merge of long parts", 2, {{TM_MERGES, 'A', big}}, "merge 0"},
        {"an empty token", 0, {{TM_TOKENS, 'A', "a\t\tb"}}, "token 1 of 0 bytes is empty"},
        {"a token twice", 0, {{TM_TOKENS, 'A', "a\tb\ta"}}, "token 2 is spelled as token 0"},
        {"a token that is not UTF-8", 0, {{TM_TOKENS, 'A', "a\tb\xff"}}, "not UTF-8"},
        {"half a character", 0, {{TM_TOKENS, 'A', "a\tb\xe2\x96"}}, "not UTF-8"},
        {"a token too long", 0, {{TM_TOKENS, 'A', big}}, "is too long"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_open o;
        err_t   e = {0};
        bool    ok = tt_open_mem(&o, tm_tiny_file(&tm_tinies[rows[i].tiny], rows[i].over), NULL, &e);
        CHECKF(!ok && e.code == EXIT_INPUT && strstr(e.text, rows[i].says) && !strncmp(e.text, "mem: ", 5),
               "%s: %s \"%s\", want \"%s\"", rows[i].name,
               ok ? "taken" : "refused", e.text, rows[i].says);
        tt_close(&o);
    }
}

static void tt_hostile_nul(void) {             /* NUL in a token; eight plain bytes around it */
    for (size_t at = 0; at < 20; at++) {
        char    tokens[] = "abcdefghijklmnopqrst";
        tm_file f = {0};
        tt_open o;
        err_t   e = {0};
        tokens[at] = 0;
        tm_add(&f, "tokenizer.ggml.model", 'S', "llama", 5);
        tm_add(&f, TM_TOKENS, 'A', tokens, 20);
        str file = {0};
        str_put(&file, "GGUF");
        tm__num(&file, 3, 4), tm__num(&file, 0, 8), tm__num(&file, f.n_kv, 8);
        str_add(&file, f.body.p, f.body.n);
        CHECK(!tt_open_mem(&o, file, NULL, &e) && strstr(e.text, "without NUL"));
        str_drop(&f.body);
        tt_close(&o);
    }
}

static void tt_poor(void) {                    /* vocabularies that can do little, and say so */
    static const struct { const char *model; tm_kv over[6]; const char *text, *want; unsigned flags; } rows[] = {
        /* token 0 is the unknown one: it stands for the space */
        {"llama", {{TM_TOKENS, 'A', "a"}, {TM_TYPES, 0, ""}, {TM_SCORES, 0, ""}}, "aa", "a a", 0},
        {"llama", {{TM_TOKENS, 'A', "a"}, {TM_TYPES, 0, ""}, {TM_SCORES, 0, ""}}, "a",
         "error: mem: the vocabulary has no start token", TOK_BOS},
        {"gpt2", {{TM_TOKENS, 'A', "a"}, {TM_TYPES, 0, ""}, {TM_SCORES, 0, ""}, {TM_MERGES, 'A', "a a"}}, NULL, "to be tokens",
         0},
        {"gpt2", {{TM_TOKENS, 'A', "a\taa"}, {TM_TYPES, 0, ""}, {TM_SCORES, 0, ""}, {TM_MERGES, 'A', "a a"}}, "aaa", "aa a", 0},
        {"gpt2", {{TM_TOKENS, 'A', "a\taa"}, {TM_TYPES, 0, ""}, {TM_SCORES, 0, ""}, {TM_MERGES, 'A', "a a"}}, "b",
         "no token for byte 0x62", 0},
        {"gpt2", {{TM_TOKENS, 'A', "a\taa"}, {TM_TYPES, 0, ""}, {TM_SCORES, 0, ""}, {TM_MERGES, 'A', "a a"}}, "a", "no end token",
         TOK_EOS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tm_kv base[] = {{"tokenizer.ggml.model", 'S', rows[i].model}, {0}};
        tt_open o;
        err_t   e = {0};
        str     got = {0};
        if (tt_open_mem(&o, tm_build(base, rows[i].over), NULL, &e)) got = tt_spelled(o.v, tt_bytes(rows[i].text), rows[i].flags);
        else str_put(&got, e.text);
        CHECKF(got.p && strstr(got.p, rows[i].want), "row %zu: got \"%s\", want \"%s\"", i, got.p, rows[i].want);
        str_drop(&got);
        tt_close(&o);
    }
}

/* Tokens chosen to be long: the longest that is taken, in each role. */
static void tt_long_tokens(void) {
    static char text[TOK_TEXT_MAX + 1], tokens[3 * TOK_TEXT_MAX];
    memset(text, 'x', TOK_TEXT_MAX);
    snprintf(tokens, sizeof tokens, "x\txx\t%s", text);
    const tm_kv base[] = {{"tokenizer.ggml.model", 'S', "llama"}, {TM_TOKENS, 'A', tokens}, {TM_TYPES, 'I', "1\t1\t4"}, {0}};
    tt_open o;
    err_t   e = {0};
    if (CHECKF(tt_open_mem(&o, tm_build(base, NULL), NULL, &e), "%s", e.text)) {
        tok_ids ids = {0};
        str     s = {0};
        str_put(&s, text), str_put(&s, text), str_put(&s, "x");
        CHECK(tok_encode(o.v, str_bytes(&s), 0, &ids, &e));
        EQ_INT(ids.n, 4);                       /* twice the user token, then a prefix that has no token, and x */
        CHECK(ids.n == 4 && ids.id[0] == 2 && ids.id[1] == 2 && ids.id[3] == 0);
        tok_ids_drop(&ids);
        str_drop(&s);
    }
    tt_close(&o);
}

/* --- spans --- */

/* Tokens of TEXT, the bytes from `from` to `to` being in a span. */
static tok_ids tt_spanned(const tok_vocab *v, bytes text, size_t from, size_t to) {
    const tok_span span = {from, to};
    tok_ids        ids = {0};
    err_t          e = {0};
    CHECKF(tok_encode_spans(v, text, &span, from < to, TOK_SPECIAL, &ids, &e), "%s", e.text);
    return ids;
}

/* Control tokens of one vocabulary, spelled in a span between the same ones outside of it: only these two are taken, and the
 * text is the same. */
static void tt_spans_of(const tok_vocab *v, const char *who) {
    int n = 0;
    for (int32_t id = 0; id < tok_count(v) && n < 300; id++) {
        if (!tok_is_control(v, id)) continue;
        const bytes t = tok_text(v, id);
        str         s = {0}, back = {0};
        str_add(&s, t.p, t.n);
        str_put(&s, "a");
        str_add(&s, t.p, t.n);
        str_put(&s, "b");
        str_add(&s, t.p, t.n);
        tok_ids ids = tt_spanned(v, str_bytes(&s), t.n, 2 * t.n + 2);
        int     times = 0;
        for (size_t i = 0; i < ids.n; i++) times += ids.id[i] == id;
        CHECKF(times == 2, "%s: token %d %.*s %d times, expected 2", who, id, (int)t.n, t.p, times);
        for (size_t cut = 1; cut <= t.n; cut++) {     /* one byte of it is enough */
            tok_ids one = tt_spanned(v, t, cut - 1, cut);
            CHECKF(!tok_ids_has(&one, id), "%s: token %d with byte %zu in a span", who, id, cut);
            tok_ids_drop(&one);
        }
        tok_decode(v, ids.id, ids.n, true, &back);
        CHECKF(bytes_eq(str_bytes(&back), str_bytes(&s)), "%s: %s came back as %s", who, s.p, back.p);
        tok_ids_drop(&ids);
        str_drop(&s), str_drop(&back);
        n++;
    }
    CHECKF(n > 0, "%s: no control token", who);
}

/* Texts that spell no control token: spans change nothing. */
static void tt_spans_ordinary(const tok_vocab *v, const char *who) {
    uint64_t seed = 5;
    str      s = {0};
    for (int i = 0; i < 300; i++) {
        tt_text(&seed, tt_rand(&seed) % 80, &s);
        tok_ids     all = tt_spanned(v, str_bytes(&s), 0, 0);
        bool        control = false;
        for (size_t k = 0; k < all.n; k++) control = control || tok_is_control(v, all.id[k]);
        for (size_t from = 0; !control && from < s.n; from += 1 + tt_rand(&seed) % 9) {
            tok_ids some = tt_spanned(v, str_bytes(&s), from, from + 1 + tt_rand(&seed) % (s.n - from));
            CHECKF(some.n == all.n && !memcmp(some.id, all.id, all.n * sizeof *all.id), "%s: a span from byte %zu of %s", who,
                   from, s.p);
            tok_ids_drop(&some);
        }
        tok_ids_drop(&all);
    }
    str_drop(&s);
}

static void tt_spans(void) {
    static const char *const tiny[] = {"tests/data/tiny/llama.gguf", "tests/data/tiny/qwen2.gguf"};
    for (int i = -3; i < TT_VOCABS; i++) {
        const char *path = i == -3 ? tt_shipped : i < 0 ? tiny[i + 2] : tt_shared(tt_vocabs[i]);
        tt_open     o;
        if (!path) continue;
        if (!tt_open_file(&o, path, NULL)) return;
        tt_spans_of(o.v, path);
        tt_spans_ordinary(o.v, path);
        tt_close(&o);
    }
}

/* A text that continues another one gets no space before it. */
static void tt_middle(void) {
    tt_open o;
    if (!tt_open_file(&o, "tests/data/tiny/llama.gguf", NULL)) return;
    str a = tt_line(o.v, bytes_of("x"), 0), b = tt_line(o.v, bytes_of("x"), TOK_MIDDLE),
        c = tt_line(o.v, bytes_of(" x"), TOK_MIDDLE);
    CHECKF(strcmp(a.p, b.p) != 0 && strcmp(a.p, c.p) == 0, "%s, %s, %s", a.p, b.p, c.p);
    str_drop(&a), str_drop(&b), str_drop(&c);
    tt_close(&o);
}

/* The longest token at each place; tokens are written as Python writes bytes. Any bytes come back. */
static void tt_rwkv(void) {
    static const char text[] = " thering\n\n's\\n\xc3\xa9\xe3\x81\x82\xff    and";
    tt_open o;
    str     back = {0};
    tok_ids ids = {0};
    err_t   e = {0};
    if (!tt_open_file(&o, "tests/data/tiny/rwkv7.gguf", NULL)) return;
    str line = tt_line(o.v, bytes_of(text), 0);
    EQ_STR(line.p, "260 115 266 261 262 263 264 270 131 256 269 271");
    CHECK(tok_encode(o.v, bytes_of(text), 0, &ids, &e));
    tok_decode(o.v, ids.id, ids.n, false, &back);
    EQ_STR(back.p, text);
    str_drop(&line), str_drop(&back), tok_ids_drop(&ids);
    tt_close(&o);
}

static const t_case t_tok_cases[] = {
    {"tok.spans", "a control token has no byte in a span, other tokens do not change", tt_spans},
    {"tok.middle", "a text that continues another one gets no space before it", tt_middle},
    {"tok.rwkv", "rwkv: the longest token at each place, and bytes come back", tt_rwkv},
    {"tok.suites", "46 of 46 texts in each of six vocabularies", tt_suites},
    {"tok.oracle", "ids equal those of the tokenizers library for each kind of pattern", tt_oracle},
    {"tok.words", "tokens of bert and t5 equal those of transformers, of gemma4 those of the tokenizers library", tt_words},
    {"tok.peer", "ids of plamo2 equal llama-tokenize's, those of ranks without merges tiktoken's order", tt_peer},
    {"tok.bert_characters", "BERT's words of every character equal those of the tokenizers library", tt_bert_characters},
    {"tok.back_normal", "a text that bert or t5 need not normalise comes back", tt_back_normal},
    {"tok.time_words", "bert and t5 are near linear in any text", tt_time_words},
    {"tok.alphabet", "256 characters stand for 256 bytes", tt_alphabet},
    {"tok.models", "merges, fallback, prefix and special tokens on tiny vocabularies", tt_models},
    {"tok.flags", "flags of the file win over the defaults", tt_flags},
    {"tok.starts", "a raw text has one start token, or none where none is wanted", tt_starts},
    {"tok.ends", "end tokens are found by id and by name", tt_ends},
    {"tok.pre_names", "each name of a pre-tokenizer has one row", tt_pre_names},
    {"tok.every_pre", "bytes come back through every pre-tokenizer", tt_every_pre},
    {"tok.round_trip", "bytes come back from the vocabulary that ships here and from six others", tt_round_trip},
    {"tok.round_trip_tiny", "bytes come back from vocabularies that lack some", tt_round_trip_tiny},
    {"tok.stream", "a stream gives the same bytes and splits no character", tt_stream},
    {"tok.stream_start", "the added space goes, a half character waits", tt_stream_start},
    {"tok.time", "1 MB of anything is near linear", tt_time},
    {"tok.time_every_pre", "no pattern goes over a long run twice", tt_time_every_pre},
    {"tok.hostile", "bad vocabularies are refused and named", tt_hostile},
    {"tok.hostile_nul", "NUL in a token is found wherever it stands", tt_hostile_nul},
    {"tok.poor", "what a vocabulary cannot say is an error or its unknown token", tt_poor},
    {"tok.long_tokens", "tokens of the greatest length work", tt_long_tokens},
};
static const t_suite t_tok_suite = SUITE(t_tok_cases);
