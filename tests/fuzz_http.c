/* Fuzzes requests of HTTP: the input is what a connection sends. What the parser makes of it is the same however the bytes are
 * cut; a refusal has a status and a sentence; a path is UTF-8 without control characters. */
#include "program.h"

static void fhttp_read(str *s, bytes b, uint64_t seed) {
    http_in in;
    size_t  at = 0, taken;
    bool    more = false;
    http_init(&in, 300);
    while (!more) {
        const size_t   step = seed ? 1 + rng_mix(seed + at) % 9 : b.n;
        const bytes    piece = bytes_slice(b, at, min_size(b.n, at + step));
        const http_got got = http_feed(&in, piece, &taken);
        ASSERT(taken <= piece.n && in.body.n <= 300 && in.req.head.n <= HTTP_HEAD_MOST && in.req.n_fields <= HTTP_FIELDS);
        at += taken;
        if (got == HTTP_MORE) {
            ASSERT(taken == piece.n);
            more = at == b.n;
            continue;
        }
        str_fmt(s, "%d at %zu: ", got, at);
        if (got == HTTP_BAD) {
            ASSERT(in.status >= 400 && in.why[0] && utf8_whole(bytes_of(in.why)));
            str_fmt(s, "%d %s", in.status, in.why);
            break;
        }
        ASSERT(utf8_whole(str_bytes(&in.req.path)) && in.req.path.n && strlen(in.req.path.p) == in.req.path.n);
        str_fmt(s, "%d %s %d %d %d %llu ", in.req.method, in.req.path.p, in.req.minor, in.req.keep, in.req.chunked,
                (unsigned long long)in.req.length);
        str_cat(s, in.req.query);
        str_cat(s, in.req.host);
        for (int i = 0; i < in.req.n_fields; i++) str_cat(s, http__view(&in.req, in.req.field[i].value));
        http_query(&in.req, "a", s);
        str_fmt(s, " %d", http_host_is_address(in.req.host));
        if (got == HTTP_HEADED) continue;
        ASSERT(in.req.chunked || in.body.n == in.req.length);
        str_cat(s, str_bytes(&in.body));
        http_next(&in);
    }
    http_drop(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    str whole = {0}, cut = {0};
    fhttp_read(&whole, (bytes){data, n}, 0);
    for (uint64_t seed = 1; seed <= 2; seed++) {
        str_clear(&cut);
        fhttp_read(&cut, (bytes){data, n}, seed);
        ASSERT(bytes_eq(str_bytes(&whole), str_bytes(&cut)));
    }
    str_drop_all(&whole, &cut);
    return 0;
}
