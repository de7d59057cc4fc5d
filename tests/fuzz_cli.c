/* Fuzzes the command line: the input is its words, each ended by a NUL. The parser always returns. */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char  *word[64], *copy = mem_new(size + 1, 1);
    int    n = 0;
    config c = cli_defaults();
    err_t  e = {0};
    str    s = {0};
    memcpy(copy, data, size);
    for (size_t at = 0; at < size && n < 64; at += strlen(copy + at) + 1) word[n++] = copy + at;
    bool ok = cli_parse(&c, n, word, &e) && act_finish(&c, &e);
    ASSERT(ok == !e.code && (ok || (e.code == EXIT_INPUT && e.text[0])));
    if (ok && c.prompt) cli_unescape(c.prompt, &s);
    if (ok && c.action >= ACT_USAGE && c.what) {       /* a topic is a word from outside too */
        str   text = {0};
        err_t none = {0};
        help__about(c.what, HELP_NARROW, &text, &none);
        str_drop(&text);
    }
    if (c.model) {                                    /* the rest of the room that reads bytes from outside */
        tok_ids ids = {0};
        err_t   none = {0};
        act__read_ids(bytes_of(c.model), 1000, &ids, &none);
        tok_ids_drop(&ids);
        ASSERT(pool__thread_count(c.model) <= POOL_OMP_MOST);
    }
    str_drop(&s);
    cli_drop(&c);
    mem_free(copy);
    return 0;
}
