/* Fuzzes texts and vocabularies. First byte of the input below 0x80: the rest is a text for a tiny vocabulary and must decode
 * to the same bytes, in one piece and as a stream. Else: tokens, merges, types and keys of a vocabulary, and changes of the
 * character map of the tiny one (pairs of a place and what is added to the byte there), each line ended by FF, then a text; a
 * vocabulary that loads must encode it, and the ids must decode. */
#include "program.h"
#include "tok_mem.h"

static void fz_text(const tok_vocab *v, bytes text, unsigned flags, bool exact) {
    tok_ids    ids = {0};
    err_t      e = {0};
    str        whole = {0}, got = {0}, want = tm_back(v, text);
    tok_stream s;
    bool       ok = tok_encode(v, text, flags, &ids, &e);
    ASSERT(ok == !e.code && (!exact || ok) && (ok || !ids.n));
    tok_stream_init(&s, v, true);
    s.special = flags & TOK_SPECIAL;
    for (size_t i = 0; i < ids.n; i++) {
        ASSERT(ids.id[i] >= 0 && ids.id[i] < tok_count(v));
        ASSERT((flags & TOK_SPECIAL) || !tok_is_control(v, ids.id[i]) || !exact);
        tok_stream_push(&s, ids.id[i], &got);
        ASSERT(s.n_held < 4);
    }
    tok_stream_flush(&s, &got);
    tok_decode(v, ids.id, ids.n, flags & TOK_SPECIAL, &whole);
    ASSERT(bytes_eq(str_bytes(&got), str_bytes(&whole)));
    if (exact) ASSERT(bytes_eq(str_bytes(&whole), str_bytes(&want)));
    tok_ids_drop(&ids);
    str_drop_all(&whole, &got, &want);
}

static tok_vocab *fz_open(gguf_file *g, const str *file, const char *pre) {
    err_t      e = {0};
    bool       ok = gguf_parse(g, (const uint8_t *)file->p, file->n, "fuzz", &e);
    tok_vocab *v = ok ? tok_load(g, pre, &e) : NULL;
    ASSERT(v || (e.code == EXIT_INPUT && e.text[0]));
    return v;
}

/* The pre-tokenizers in turn on the byte vocabulary, and each other tiny vocabulary with its own. */
static void fz_tiny(bytes in) {
    enum { PRES = sizeof tok_pres / sizeof *tok_pres, KINDS = PRES + TM_TINIES };
    static gguf_file  file[KINDS];
    static str        mem[KINDS];
    static tok_vocab *vocab[KINDS];
    int  kind = in.p[0] % KINDS, tiny = kind < PRES ? (tok_pres[kind].flags & PRE_RAW ? 4 : 2) : kind - PRES;
    char name[40] = "";
    if (kind < PRES) memcpy(name, tok_pres[kind].names, strcspn(tok_pres[kind].names, " "));
    if (!vocab[kind]) {
        mem[kind] = tm_tiny_file(&tm_tinies[tiny], NULL);
        vocab[kind] = fz_open(&file[kind], &mem[kind], kind < PRES ? name : NULL);
        ASSERT(vocab[kind]);
    }
    bytes text = {in.p + 1, in.n - 1};
    fz_text(vocab[kind], text, 0, tm_tinies[tiny].whole_bytes);
    fz_text(vocab[kind], text, TOK_SPECIAL, tm_tinies[tiny].whole_bytes);
}

static bytes fz_line(bytes *in) {
    const uint8_t *end = memchr(in->p, 0xff, in->n);
    bytes          line = {in->p, end ? (size_t)(end - in->p) : in->n};
    in->p += line.n + (end != NULL), in->n -= line.n + (end != NULL);
    return line;
}

static void fz_add_map(tm_file *f, bytes changes) {
    str map = tm_map_file();
    for (size_t i = 0; i + 3 < changes.n; i += 3) map.p[(changes.p[i] | (size_t)changes.p[i + 1] << 8) % map.n] += (char)changes.p[i + 2];
    if (changes.n % 3 == 1) map.n = map.n * changes.p[changes.n - 1] / 256;
    str hex = tm_hex(str_bytes(&map));
    tm_add(f, TM_MAP, 'H', hex.p, hex.n);
    str_drop(&map), str_drop(&hex);
}

static void fz_tok_vocab(bytes in) {
    static const char *const models[] = {"llama", "gpt2", "gemma4", "bert", "t5"}, *const ids[] = {"bos", "eos", "unknown", "eot", "fim_pad"},
                      *const flags[] = {"add_bos_token", "add_eos_token", "add_space_prefix", "ignore_merges", "remove_extra_whitespaces", "normalizer.lowercase"};
    unsigned how = in.p[0];
    tm_file  f = {0};
    str      file = {0}, types = {0}, scores = {0};
    in.p++, in.n--;
    bytes tokens = fz_line(&in), merges = fz_line(&in), kinds = fz_line(&in), keys = fz_line(&in), changes = {0};
    if (how % 5 >= 3) changes = fz_line(&in);
    for (size_t i = 0; i < kinds.n; i++) str_fmt(&types, "%s%d", i ? "\t" : "", kinds.p[i] % 8);
    const char *name = how % 5 == 1 && how & 0x20 ? "whitespace" : models[how % 5];
    tm_add(&f, "tokenizer.ggml.model", 'S', name, strlen(name));
    if (how % 5 >= 3) fz_add_map(&f, changes);
    for (size_t i = 0, n = 1; how % 5 >= 3 && i < n; i++) {          /* as many scores as tokens */
        for (size_t k = 0; !i && k < tokens.n; k++) n += tokens.p[k] == '\t';
        str_fmt(&scores, "%s-%zu", i ? "\t" : "", i * 7 % 5);
    }
    if (scores.n) tm_add(&f, TM_SCORES, 'F', scores.p, scores.n);
    tm_add(&f, TM_TOKENS, 'A', (const char *)tokens.p, tokens.n);
    tm_add(&f, TM_MERGES, 'A', (const char *)merges.p, merges.n);
    if (types.n) tm_add(&f, TM_TYPES, 'I', types.p, types.n);
    for (size_t i = 0; i < keys.n && i < 11; i++) {
        char key[60], num[8];
        snprintf(key, sizeof key, i < 5 ? "tokenizer.ggml.%s_token_id" : "tokenizer.ggml.%s", i < 5 ? ids[i] : flags[i - 5]);
        snprintf(num, sizeof num, "%d", i < 5 ? keys.p[i] : keys.p[i] & 1);
        if (keys.p[i] < 0xf0) tm_add(&f, key, i < 5 ? 'U' : 'T', num, strlen(num));
    }
    str_put(&file, "GGUF");
    tm__num(&file, 3, 4), tm__num(&file, 0, 8), tm__num(&file, f.n_kv, 8);
    str_add(&file, f.body.p, f.body.n);
    gguf_file  g;
    tok_vocab *v = fz_open(&g, &file, how & 0x40 && how % 5 < 3 ? "default" : NULL);
    for (int32_t id = 0; v && id < tok_count(v); id++) ASSERT(tok_piece(v, id).n <= tok_text(v, id).n);
    if (v) fz_text(v, in, 0, false), fz_text(v, in, TOK_SPECIAL | TOK_BOS | TOK_EOS, false);
    tok_free(v);
    gguf_close(&g);
    str_drop(&f.body), str_drop(&file), str_drop(&types), str_drop(&scores);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    g_log_level = LOG_QUIET;
    if (!size) return 0;
    if (data[0] < 0x80) fz_tiny((bytes){data, size});
    else fz_tok_vocab((bytes){data, size});
    return 0;
}
