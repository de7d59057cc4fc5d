/* Fuzzes what becomes of a checkpoint: a line of config.json, then a safetensors file. Tensors that are taken are made, in F32 and in
 * their own precision, and every value is read; a refusal has an error text. */
#include "program.h"

enum { FUZZ_IMPORT_ROOM = 1 << 16 };                  /* bytes of the largest tensor that is made */

/* Makes each tensor that is small enough. Returns the sum of all bytes. */
static uint64_t fuzz_import_make(import_job *j) {
    static uint8_t room[FUZZ_IMPORT_ROOM + 64];
    uint64_t       sum = 0;
    for (size_t i = 0; i < j->made->n; i++) {
        gguf_tensor t;
        if (!import__dims(j, &j->made->t[i], &t)) return sum;
        const uint8_t *view = import__view(&j->made->t[i]);
        if (view) for (uint64_t k = 0; k < t.n_bytes; k++) sum += view[k];
        if (view || t.n_bytes > FUZZ_IMPORT_ROOM) continue;
        t.data = room;
        import__fill(&j->made->maker, &t, 0, t.dim[1] * t.dim[2] * t.dim[3], NULL);
        for (uint64_t k = 0; k < t.n_bytes; k++) sum += room[k];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const uint8_t *end = memchr(data, '\n', n);
    uint64_t       sum = 0;
    if (!end) return 0;
    const bytes head = {data, (size_t)(end - data)};
    for (unsigned flags = IMPORT_FILE; flags <= (IMPORT_FILE | IMPORT_EXACT); flags += IMPORT_EXACT) {
        err_t      e = {0};
        import_job j = {.flags = flags, .e = &e, .made = mem_new(1, sizeof *j.made), .c = {.dir = "FILE"}};
        st_folder *f = &j.made->files;
        str_cat(&j.c.json, head);
        gguf__add_part(&f->files, end + 1, n - head.n - 1, "FILE");
        const bool ok = bytes_is_json(head) && family__parse(&j.c, &e) && st__read(f, &e) && st__index_names(f, &e) && import__collect(&j);
        ASSERT(ok || e.code || !bytes_is_json(head));
        if (ok) sum += fuzz_import_make(&j);
        mem_free(j.used);
        family_drop(&j.c);
        import__drop(&j.made->maker);
    }
    return sum == UINT64_MAX;
}
