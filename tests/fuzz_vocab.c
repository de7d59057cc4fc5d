/* Fuzzes tokenizers of checkpoints. The first byte says what the rest is: a SentencePiece model (m), RWKV's list of tokens (r),
 * that of PLaMo (p), or tokenizer.json, after it a line feed and tokenizer_config.json. */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const family_row row = {"", "llama", FAM_SPACE, NULL};
    family_config c = {.dir = "/nowhere/tokenizer", .row = &row};
    err_t         e = {0};
    gguf_writer   w = {.fd = -1};
    vocab__job    v = {.c = &c, .w = &w, .e = &e};
    vocab__spm    spm;
    if (!n) return 0;
    bytes rest = {data + 1, n - 1}, line;
    if (*data == 'm') {
        const bool ok = vocab__read_spm(&v, rest, &spm);
        ASSERT(ok == !e.code && (ok || e.code == EXIT_INPUT));
    } else if (*data == 'r' || *data == 'p') {
        const bool ok = *data == 'r' ? vocab__rwkv(&v, rest) : vocab__plamo(&v, rest);
        ASSERT(ok == !e.code && (ok || e.code == EXIT_INPUT));
    } else if (bytes_cut_line(&rest, &line) && bytes_is_json(line) && (!rest.n || bytes_is_json(rest))) {
        str_cat(&v.json, line);
        str_cat(&v.config, rest);
        const bool ok = vocab__all(&v);
        ASSERT(ok == !e.code && (ok || e.code == EXIT_INPUT));
    }
    vocab__drop(&v);
    gguf_write_drop(&w);
    return 0;
}
