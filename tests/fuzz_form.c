/* Fuzzes bodies of forms: the input up to the first newline is the field Content-Type, the rest the body. A form is read, or
 * refused with a sentence; what was read, written again with another boundary, is read as the same. */
#include "program.h"

typedef struct {
    str text;                                         /* what the parts are, each with its lengths */
    str again;                                        /* the same parts as a form */
    const char *why;                                  /* NULL: all of it was read */
} fform;

static const char fform_line[] = "\r\n--again-0123456789abcdef";

static void fform_read(fform *r, bytes type, bytes body) {
    http_parts f;
    http_part  p = {0};
    bool       ok = http_parts_begin(&f, type, body, &r->why);
    while (ok && (ok = http_parts_next(&f, &p, &r->why))) {
        ASSERT(utf8_whole(str_bytes(&p.name)) && p.body.p >= body.p && p.body.p + p.body.n <= body.p + body.n);
        str_fmt(&r->text, "%zu %d %zu %zu:", p.name.n, p.is_file, p.file.n, p.body.n);
        str_cat(&r->text, str_bytes(&p.name));
        str_cat(&r->text, str_bytes(&p.file));
        str_cat(&r->text, p.body);
        str_fmt(&r->again, "%s\r\nContent-Disposition: form-data; name=\"", fform_line + (r->again.n ? 0 : 2));
        for (size_t i = 0; i < p.name.n; i++) str_fmt(&r->again, strchr("\"\\", p.name.p[i]) ? "\\%c" : "%c", p.name.p[i]);
        str_put(&r->again, "\"");
        if (p.is_file) str_put(&r->again, "; filename*=UTF-8''");
        for (size_t i = 0; i < p.file.n; i++) str_fmt(&r->again, "%%%02x", (uint8_t)p.file.p[i]);
        str_put(&r->again, "\r\n\r\n");
        str_cat(&r->again, p.body);
        http_part_drop(&p);
    }
    http_part_drop(&p);
    str_fmt(&r->again, "%s--", fform_line + (r->again.n ? 0 : 2));
    ASSERT(!r->why || r->why[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fform one = {0}, two = {0};
    bytes body = {data, n}, type;
    if (!bytes_cut_line(&body, &type)) return 0;
    fform_read(&one, type, body);
    const bool inside = bytes_find(body, 0, bytes_of(fform_line)) != SIZE_MAX;
    const bool empty = bytes_find(str_bytes(&one.text), 0, bytes_of(" 1 0 ")) != SIZE_MAX;          /* filename*= has no empty names */
    if (!one.why && !inside && !empty) {
        char again[128];
        snprintf(again, sizeof again, "multipart/form-data; boundary=%s", fform_line + 4);
        fform_read(&two, bytes_of(again), str_bytes(&one.again));
        ASSERT(!two.why && bytes_eq(str_bytes(&one.text), str_bytes(&two.text)));
    }
    str_drop_all(&one.text, &one.again, &two.text, &two.again);
    return 0;
}
