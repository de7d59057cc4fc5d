/* Fuzzes importance matrices in both forms. A file that is read has finite sums, sorted names, and weights for each of its
 * entries; a file that is refused has an error text. */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    calib_imatrix im;
    err_t         e = {0};
    g_log_level = LOG_QUIET;
    if (!calib__imatrix_parse(&im, data, n, "FILE", &e)) {
        ASSERT(e.code == EXIT_INPUT && !strncmp(e.text, "FILE: ", 6) && strstr(e.text, "expected "));
        return 0;
    }
    ASSERT(!e.code && im.n);
    for (size_t i = 0; i < im.n; i++) {
        const calib_entry *en = &im.e[i];
        ASSERT(i == 0 || strcmp(im.e[i - 1].name, en->name) < 0);
        float *w = calib_weights(&im, bytes_of(en->name), en->n_in, en->n_mat, &e);
        ASSERT(w && !e.code);
        for (uint64_t k = 0; k < en->n_in * en->n_mat; k++) ASSERT(w[k] >= 0 && en->sum2[k] >= 0 && isfinite(en->sum2[k]));
        mem_free(w);
    }
    str text = {0};
    for (int form = CALIB_TEXT; form <= CALIB_JSON; form++) calib_show(&im, (calib_form)form, &text);
    ASSERT(!strstr(text.p, "nan") || memmem(data, n, "nan", 3));
    str_drop(&text);
    calib_imatrix sum = {0};
    ASSERT(calib_imatrix_merge(&sum, &im, 512, &e) && sum.n == im.n);
    calib_imatrix_drop(&sum);
    calib_imatrix_drop(&im);
    return 0;
}
