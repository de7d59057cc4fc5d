/* Runs every fuzzer's entry over the files of its corpus, without a fuzzer.
 *     build/test/replay                        all of them, from tests/corpus
 *     build/test/replay gguf FILE|FOLDER ...   one entry over these */
#include "program.h"
#include <dirent.h>

#define LLVMFuzzerTestOneInput replay_calib
#include "fuzz_calib.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_calls
#include "fuzz_calls.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_cli
#include "fuzz_cli.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_eval
#include "fuzz_eval.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_form
#include "fuzz_form.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_gbnf
#include "fuzz_gbnf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_gguf
#include "fuzz_gguf.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_http
#include "fuzz_http.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_hub
#include "fuzz_hub.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_import
#include "fuzz_import.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_jinja
#include "fuzz_jinja.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_lines
#include "fuzz_lines.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_lora
#include "fuzz_lora.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_regex
#include "fuzz_regex.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_req
#include "fuzz_req.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_safetensors
#include "fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_schema
#include "fuzz_schema.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_spec
#include "fuzz_spec.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_store
#include "fuzz_store.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_table
#include "fuzz_table.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_tok
#include "fuzz_tok.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_vocab
#include "fuzz_vocab.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_weights
#include "fuzz_weights.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput replay_wire
#include "fuzz_wire.c"
#undef LLVMFuzzerTestOneInput

static const struct {
    const char *name;                                 /* of the folder under tests/corpus, and of fuzz_NAME.c */
    int (*one)(const uint8_t *data, size_t size);
} replay_entries[] = {
    {"calib", replay_calib}, {"calls", replay_calls}, {"cli", replay_cli},     {"eval", replay_eval},   {"form", replay_form},
    {"gbnf", replay_gbnf},   {"gguf", replay_gguf},   {"http", replay_http},   {"hub", replay_hub},     {"import", replay_import},
    {"jinja", replay_jinja}, {"lines", replay_lines}, {"lora", replay_lora},   {"regex", replay_regex}, {"req", replay_req},
    {"safetensors", replay_safetensors}, {"schema", replay_schema}, {"spec", replay_spec}, {"store", replay_store},
    {"table", replay_table}, {"tok", replay_tok}, {"vocab", replay_vocab}, {"weights", replay_weights}, {"wire", replay_wire},
};
enum { REPLAY_ENTRIES = sizeof replay_entries / sizeof *replay_entries };

static int replay__entry(const char *name) {
    int i = 0;
    while (i < REPLAY_ENTRIES && strcmp(replay_entries[i].name, name)) i++;
    return i;
}

static int replay__file(int entry, const char *path) {
    size_t   n;
    uint8_t *p = NULL;
    FILE    *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return 0;
    n = (size_t)ftell(f);
    p = malloc(n ? n : 1);                            /* of this size, so that a sanitizer sees a read beyond */
    rewind(f);
    if (!p || fread(p, 1, n, f) != n) return 0;
    fclose(f);
    replay_entries[entry].one(p, n);
    free(p);
    return 1;
}

/* Files replayed: one, or those of a folder. */
static int replay__path(int entry, const char *path) {
    DIR *d = opendir(path);
    int  n = 0;
    if (!d) return replay__file(entry, path);
    for (struct dirent *e; (e = readdir(d));) {
        char one[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(one, sizeof one, "%s/%s", path, e->d_name);
        n += replay__file(entry, one);
    }
    closedir(d);
    return n;
}

/* Runs every folder of tests/corpus with the entry of its name. A folder without an entry, an empty folder and an entry without a
 * folder are failures. */
static int replay__all(int *failed) {
    bool seen[REPLAY_ENTRIES + 1] = {0};
    int  total = 0;
    DIR *d = opendir("tests/corpus");
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        int  n = 0, entry = replay__entry(e->d_name);
        if (strchr(e->d_name, '.')) continue;         /* README.md, . and .. */
        snprintf(path, sizeof path, "tests/corpus/%s", e->d_name);
        if (entry < REPLAY_ENTRIES) n = replay__path(entry, path);
        if (!n) ++*failed, printf("FAIL  %s: %s\n", path, entry < REPLAY_ENTRIES ? "no file" : "no entry of this name");
        seen[entry] = true;
        total += n;
    }
    if (d) closedir(d);
    for (int i = 0; i < REPLAY_ENTRIES; i++)
        if (!seen[i]) ++*failed, printf("FAIL  tests/corpus/%s: no such folder\n", replay_entries[i].name);
    return total;
}

int main(int argc, char **argv) {
    int failed = 0, passed = 0, entry = argc > 1 ? replay__entry(argv[1]) : 0;
    if (entry == REPLAY_ENTRIES) return fprintf(stderr, "replay: no entry \"%s\"\n", argv[1]), 2;
    if (argc == 1) passed = replay__all(&failed);
    for (int i = 2; i < argc; i++) passed += replay__path(entry, argv[i]);
    if (!passed && !failed) failed = 1;
    printf("replay: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
