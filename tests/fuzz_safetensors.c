/* Fuzzes the header of safetensors files: what is accepted lies within the file, and a refusal has an error text. */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    st_folder f;
    err_t     e = {0};
    f = (st_folder){0};
    gguf__add_part(&f.files, data, n, "FILE");
    if (!st__read(&f, &e) || !st__index_names(&f, &e)) {
        ASSERT(e.code == EXIT_INPUT && !strncmp(e.text, "FILE: ", 6));
        st_close(&f);
        return 0;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < f.n; i++) {
        const st_tensor *t = &f.tensor[i];
        ASSERT(t->data >= data && t->n_bytes <= n - (size_t)(t->data - data) && st_find(&f, t->name) == t);
        for (uint64_t k = 0; k < t->n_bytes; k++) sum += t->data[k];
        dq_mat m = dq_plain(t);
        float  x;
        if (t->n_bytes) dq_floats(m.w, 0, 1, &x), sum += x == x;
    }
    st_close(&f);
    return sum == UINT64_MAX;
}
