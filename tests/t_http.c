/* Requests of HTTP/1.1: what is one, and what is refused with which status; the same however the bytes are cut. */
#include "program.h"
#include "check.h"

static const char *const th_method[HTTP_METHODS] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

/* Appends what a parser makes of the bytes, which come in pieces of `step`: "GET /path?query host keep|body; " for each request,
 * and "400 why" at the end if something is wrong, or "more" if a request is not whole. */
static void th_read(str *s, bytes b, size_t step, uint64_t max_body) {
    http_in in;
    size_t  at = 0, taken;
    bool    more = false;
    http_init(&in, max_body);
    while (!more) {
        const bytes    piece = bytes_slice(b, at, min_size(b.n, at + step));
        const http_got got = http_feed(&in, piece, &taken);
        at += taken;
        if (got == HTTP_MORE) more = at == b.n;
        if (got == HTTP_BAD) { str_fmt(s, "%d %s", in.status, in.why); break; }
        if (got != HTTP_WHOLE) continue;
        const http_request *h = &in.req;
        str_fmt(s, "%s %s", th_method[h->method], h->path.p);
        if (h->query.p) str_fmt(s, "?%.*s", (int)h->query.n, (const char *)h->query.p);
        str_put(s, " ");
        str_cat(s, h->host);
        str_fmt(s, "%s%s", h->keep ? " keep" : "", h->expects ? " expects" : "");
        if (in.body.n) str_fmt(s, "|%s", in.body.p);
        str_put(s, "; ");
        http_next(&in);
    }
    if (more && in.begun) str_put(s, "more");
    http_drop(&in);
}

typedef struct {
    const char *text, *want;
    size_t      n;                                    /* bytes of text with a NUL in it, else 0 */
} th_row;

#define H "Host: a\r\n"
#define BAD_LINE "400 the first line is no request, expected METHOD PATH HTTP/1.1"
#define BAD_SIZE "400 a chunk whose size is no hexadecimal number"
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

static const th_row th_rows[] = {
    /* requests */
    {"GET / HTTP/1.1\r\n" H "\r\n", "GET / a keep; ", 0},
    {"GET /v1/models?a=b&c HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", "GET /v1/models?a=b&c 127.0.0.1:8080 keep; ", 0},
    {"HEAD /x HTTP/1.1\r\nhOST:\ta \t\r\nX: y\r\n\r\n", "HEAD /x a keep; ", 0},
    {"\r\nDELETE /v1/files/a HTTP/1.1\r\n" H "\r\n", "DELETE /v1/files/a a keep; ", 0},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS * a keep; ", 0},
    {"PUT / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\nPATCH / HTTP/1.1\r\n" H "\r\n", "PUT / a keep; PATCH / a keep; ", 0},
    {"POST /a HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n" H "\r\n",
     "POST /a a keep|abc; GET /b a keep; ", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 003\r\n\r\nabc", "POST / a keep|abc; ", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nab", "more", 0},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET /  keep; ", 0},
    {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET / [::1]:80 keep; ", 0},
    {"GET / HTTP/1.1\r\n" H "X: \x80\xff\r\n\r\n", "GET / a keep; ", 0},
    {"GET / HTTP/1.1\r\n" H "A: 1\r\nA: 2\r\n\r\n", "GET / a keep; ", 0},
    /* connections */
    {"GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "GET / a; ", 0},
    {"GET / HTTP/1.1\r\n" H "Connection: TE, Close\r\n\r\n", "GET / a; ", 0},
    {"GET / HTTP/1.1\r\n" H "Connection: close\r\nConnection: keep-alive\r\n\r\n", "GET / a; ", 0},
    {"GET / HTTP/1.0\r\n\r\n", "GET / ; ", 0},
    {"GET / HTTP/1.0\r\n" H "Connection: Keep-Alive\r\n\r\n", "GET / a keep; ", 0},
    {"POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx", "POST / a keep expects|x; ", 0},
    {"POST / HTTP/1.0\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "POST / a|x; ", 0},
    {"POST / HTTP/1.1\r\n" H "Expect: tea\r\n\r\n", "417 an Expect other than 100-continue", 0},
    /* chunks */
    {CHUNKED "3\r\nabc\r\n0\r\n\r\n", "POST / a keep|abc; ", 0},
    {CHUNKED "00003;x=\"y z\"\r\nabc\r\nA\r\n0123456789\r\n0;q\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n",
     "POST / a keep|abc0123456789; GET / a keep; ", 0},
    {CHUNKED "0\r\n\r\n", "POST / a keep; ", 0},
    {CHUNKED "3\r\nabc\r\n", "more", 0},
    {CHUNKED "3\r\nabc", "more", 0},
    {CHUNKED "\r\nabc", BAD_SIZE, 0},
    {CHUNKED "0x3\r\nabc", BAD_SIZE, 0},
    {CHUNKED "+3\r\nabc", BAD_SIZE, 0},
    {CHUNKED " 3\r\nabc", BAD_SIZE, 0},
    {CHUNKED "3 \r\nabc", BAD_SIZE, 0},
    {CHUNKED "-1\r\nabc", BAD_SIZE, 0},
    {CHUNKED "g\r\nabc", BAD_SIZE, 0},
    {CHUNKED "3,x\r\nabc", BAD_SIZE, 0},
    {CHUNKED "0000000000000003\r\nabc", BAD_SIZE, 0},
    {CHUNKED "ffffffffffffffff\r\nabc", BAD_SIZE, 0},
    {CHUNKED "fffffffffffffff\r\nabc", "413 a body of more than 100 bytes", 0},
    {CHUNKED "65\r\nabc", "413 a body of more than 100 bytes", 0},
    {CHUNKED "3\nabc", "400 a line that ends with LF, expected CR LF", 0},
    {CHUNKED "3;\rx\r\nabc", "400 a CR without LF after it", 0},
    {CHUNKED "3\r\nabcd\r\n", "400 a chunk longer than its size", 0},
    {CHUNKED "3\r\nabc\n0\r\n", "400 a line that ends with LF, expected CR LF", 0},
    {CHUNKED "3\r\nabc0\r\n", "400 a chunk longer than its size", 0},
    {CHUNKED "0\r\nX : y\r\n\r\n", "400 a blank before the colon of a field", 0},
    {CHUNKED "0\r\n folded\r\n\r\n", "400 a field that goes on in the next line", 0},
    {CHUNKED "0\r\nX\r\n\r\n", "400 a field without a colon", 0},
    /* two readings of one body */
    {"POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "400 a Content-Length beside a Transfer-Encoding", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
     "400 a Content-Length beside a Transfer-Encoding", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", "400 two fields content-length", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\n", "400 a Content-Length that is no number", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\n", "400 a Content-Length that is no number", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: -3\r\n\r\n", "400 a Content-Length that is no number", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\n", "400 a Content-Length that is no number", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 3 3\r\n\r\n", "400 a Content-Length that is no number", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", "400 a Content-Length that is no number", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 101\r\n\r\n", "413 a body of more than 100 bytes", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551617\r\n\r\n", "413 a body of more than 100 bytes", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999\r\n\r\n", "413 a body of more than 100 bytes", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     "400 two fields transfer-encoding", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n", "501 a Transfer-Encoding other than chunked", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n", "501 a Transfer-Encoding other than chunked", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n", "501 a Transfer-Encoding other than chunked", 0},
    {"POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n", "400 a Transfer-Encoding in HTTP/1.0", 0},
    /* hosts */
    {"GET / HTTP/1.1\r\n\r\n", "400 no field Host", 0},
    {"GET / HTTP/1.1\r\n" H H "\r\n", "400 two fields host", 0},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 a Host that is neither a name nor an address", 0},
    {"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "400 a Host that is neither a name nor an address", 0},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400 a Host that is neither a name nor an address", 0},
    {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400 a Host that is neither a name nor an address", 0},
    {"GET http://a/p?q HTTP/1.1\r\n" H "\r\n", "GET /p?q a keep; ", 0},
    {"GET HTTP://A:80?q HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET /?q A:80 keep; ", 0},
    {"GET http://a HTTP/1.0\r\n\r\n", "GET / a; ", 0},
    {"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
     "400 two hosts: one in the target of the request, another one in the field Host", 0},
    {"GET http://a/ HTTP/1.1\r\n\r\n", "400 no field Host", 0},
    {"GET http:///x HTTP/1.1\r\n" H "\r\n", "400 no host in the target of the request", 0},
    {"GET http://u@a/x HTTP/1.1\r\n" H "\r\n", "400 no host in the target of the request", 0},
    /* lines */
    {"GET / HTTP/1.1\n" H "\r\n", "400 a line that ends with LF, expected CR LF", 0},
    {"GET / HTTP/1.1\r\nHost: a\n\r\n", "400 a line that ends with LF, expected CR LF", 0},
    {"GET / HTTP/1.1\r\n" H "\n", "400 a line that ends with LF, expected CR LF", 0},
    {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "400 a CR without LF after it", 0},
    {"GET / HTTP/1.1\r\r\n" H "\r\n", "400 a CR without LF after it", 0},
    {"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", "400 the control character 0x00 in a line", 29},
    {"GET /\0 HTTP/1.1\r\n", "400 the control character 0x00 in a line", 18},
    {"GET / HTTP/1.1\r\nX: \x1b\r\n\r\n", "400 the control character 0x1b in a line", 0},
    {"GET / HTTP/1.1\r\nX: \x7f\r\n\r\n", "400 the control character 0x7f in a line", 0},
    {"\x16\x03\x01", "400 no request of HTTP: this looks like TLS, and the server speaks http:// alone", 0},
    {"\r\n\r\nGET / HTTP/1.1\r\n", "400 empty lines before the request", 0},
    {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400 a field that goes on in the next line", 0},
    {"GET / HTTP/1.1\r\n" H "\tb\r\n\r\n", "400 a field that goes on in the next line", 0},
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 a blank before the colon of a field", 0},
    {"GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", "400 a blank before the colon of a field", 0},
    {"GET / HTTP/1.1\r\nHost\r\n\r\n", "400 a field without a colon", 0},
    {"GET / HTTP/1.1\r\n: a\r\n\r\n", "400 a name of a field that is no word", 0},
    {"GET / HTTP/1.1\r\nX(y): a\r\n\r\n", "400 a name of a field that is no word", 0},
    {"GET / HTTP/1.1\r\n\xc3\xa4: a\r\n\r\n", "400 a name of a field that is no word", 0},
    {"GET / HTTP/1.1\r\n" H "Authorization: a\r\nauthorization: b\r\n\r\n", "400 two fields authorization", 0},
    /* the first line */
    {"GET /\r\n", BAD_LINE, 0},
    {"GET  / HTTP/1.1\r\n", BAD_LINE, 0},
    {"GET / HTTP/1.1 \r\n", BAD_LINE, 0},
    {"GET\t/ HTTP/1.1\r\n", BAD_LINE, 0},
    {"GET / http/1.1\r\n", BAD_LINE, 0},
    {"GET / HTTP/1.10\r\n", BAD_LINE, 0},
    {"GET / HTTP/11\r\n", BAD_LINE, 0},
    {" GET / HTTP/1.1\r\n", BAD_LINE, 0},
    {"G(T / HTTP/1.1\r\n", BAD_LINE, 0},
    {"GET / HTTP/1.2\r\n", "505 HTTP/1.2 is not spoken here, expected HTTP/1.1", 0},
    {"GET / HTTP/0.9\r\n", "505 HTTP/0.9 is not spoken here, expected HTTP/1.1", 0},
    {"PRI * HTTP/2.0\r\n\r\n", "505 HTTP/2.0 is not spoken here, expected HTTP/1.1", 0},
    {"CONNECT a:1 HTTP/1.1\r\n", "501 the method CONNECT", 0},
    {"get / HTTP/1.1\r\n", "501 the method get", 0},
    {"GET a HTTP/1.1\r\n", "400 the target of the request is no path, expected one that begins with /", 0},
    {"GET * HTTP/1.1\r\n", "400 the target of the request is no path, expected one that begins with /", 0},
    {"GET ftp://a/ HTTP/1.1\r\n", "400 the target of the request is no path, expected one that begins with /", 0},
    {"GET /a#b HTTP/1.1\r\n", "400 the byte 0x23 in the path, expected %23", 0},
    {"GET /\xc3\xa4 HTTP/1.1\r\n", "400 the byte 0xc3 in the path, expected %C3", 0},
    /* paths */
    {"GET /%41%2fb%c3%a4?%41 HTTP/1.1\r\n" H "\r\n", "GET /A/b\xc3\xa4?%41 a keep; ", 0},
    {"GET /a+b/../c HTTP/1.1\r\n" H "\r\n", "GET /a+b/../c a keep; ", 0},
    {"GET /%4 HTTP/1.1\r\n", "400 a % without two digits after it in the path", 0},
    {"GET /%zz HTTP/1.1\r\n", "400 a % without two digits after it in the path", 0},
    {"GET /%00 HTTP/1.1\r\n", "400 a control character in the path", 0},
    {"GET /%0d%0a HTTP/1.1\r\n", "400 a control character in the path", 0},
    {"GET /%ff HTTP/1.1\r\n", "400 the path is not UTF-8", 0},
};

/* Each row whole, byte by byte, and in pieces of other lengths. */
static void t_http_rows(void) {
    static const size_t steps[] = {SIZE_MAX / 2, 1, 2, 3, 7};
    for (size_t i = 0; i < sizeof th_rows / sizeof *th_rows; i++) {
        const th_row *r = &th_rows[i];
        const bytes   b = {(const uint8_t *)r->text, r->n ? r->n : strlen(r->text)};
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            str s = {0};
            str_put(&s, "");
            th_read(&s, b, steps[k], 100);
            CHECKF(!strcmp(s.p, r->want), "row %zu (%.40s), pieces of %zu: \"%s\", expected \"%s\"", i, r->text, steps[k], s.p,
                   r->want);
            str_drop(&s);
        }
    }
}

static void th_expect(const str *text, const char *want) {
    str s = {0};
    th_read(&s, str_bytes(text), 4096, 100);
    CHECKF(!strcmp(s.p, want), "%zu bytes: \"%.60s\", expected \"%s\"", text->n, s.p, want);
    str_drop(&s);
}

static void th_repeat(str *s, const char *text, int n) {
    for (int i = 0; i < n; i++) str_put(s, text);
}

/* At each limit, and one beyond it. */
static void t_http_limits(void) {
    for (int over = 0; over < 2; over++) {
        str s = {0};
        str_put(&s, "GET /");
        th_repeat(&s, "a", HTTP_LINE_MOST - 15 + over);    /* CR counts, LF does not */
        str_put(&s, " HTTP/1.1\r\n");
        th_expect(&s, over ? "414 a request line of more than 8192 bytes" : "more");
        str_clear(&s);
        str_put(&s, "GET / HTTP/1.1\r\n" H);
        th_repeat(&s, "X: y\r\n", HTTP_FIELDS - 1 + over);
        str_put(&s, "\r\n");
        th_expect(&s, over ? "431 more than 100 fields" : "GET / a keep; ");
        str_clear(&s);
        str_put(&s, "GET / HTTP/1.1\r\n" H "X: ");
        th_repeat(&s, "y", HTTP_HEAD_MOST - 14 - 7 - 3 - 1 + over);
        str_put(&s, "\r\n");
        th_expect(&s, over ? "431 a head of more than 65536 bytes" : "more");
        str_clear(&s);
        str_put(&s, "POST / HTTP/1.1\r\n" H "Content-Length: ");
        str_fmt(&s, "%d\r\n\r\n", 100 + over);
        th_repeat(&s, "b", 100 + over);
        str want = {0};
        str_put(&want, "POST / a keep|");
        th_repeat(&want, "b", 100);
        str_put(&want, "; ");
        th_expect(&s, over ? "413 a body of more than 100 bytes" : want.p);
        str_drop(&want);
        str_clear(&s);
        str_put(&s, CHUNKED);
        th_repeat(&s, "1\r\nb\r\n", 100 + over);
        th_expect(&s, over ? "413 a body of more than 100 bytes" : "more");
        str_clear(&s);
        str_put(&s, CHUNKED "1;");
        th_repeat(&s, "x", HTTP_CHUNK_LINE - 3 + over);
        str_put(&s, "\r\n");
        th_expect(&s, over ? "400 a line of more than 256 bytes before a chunk" : "more");
        str_clear(&s);
        str_put(&s, CHUNKED "0\r\n");
        th_repeat(&s, "X: y\r\n", HTTP_TRAILER_MOST / 5 + over);      /* 5 of 6 bytes count */
        th_expect(&s, over ? "431 more than 8192 bytes of fields after the body" : "more");
        str_drop(&s);
    }
}

/* A request of which HTTP_HEADED has been returned: its fields, its query. */
static void t_http_fields(void) {
    static const char text[] = "GET /v1/files?limit=20&after=a%20b+c&x&bad=%g HTTP/1.1\r\nHost: localhost:1\r\n"
                               "X-Api-Key:  k y \t\r\nEmpty:\r\nA: 1\r\nA: 2\r\n\r\n";
    http_in in;
    size_t  taken;
    str     s = {0};
    http_init(&in, 0);
    EQ_INT(http_feed(&in, bytes_of(text), &taken), HTTP_HEADED);
    EQ_INT(taken, sizeof text - 1);
    CHECK(bytes_is(http_value(&in.req, "x-api-key"), "k y"));
    CHECK(bytes_is(http_value(&in.req, "a"), "1"));
    CHECK(http_value(&in.req, "empty").p && !http_value(&in.req, "empty").n && !http_value(&in.req, "none").p);
    CHECK(http_query(&in.req, "limit", &s) && !strcmp(s.p, "20"));
    str_clear(&s);
    CHECK(http_query(&in.req, "after", &s) && !strcmp(s.p, "a b c"));
    str_clear(&s);
    CHECK(http_query(&in.req, "x", &s) && !s.n);
    CHECK(!http_query(&in.req, "lim", &s) && !http_query(&in.req, "bad", &s));
    EQ_INT(http_feed(&in, (bytes){0}, &taken), HTTP_WHOLE);
    str_drop(&s);
    http_drop(&in);
}

static void t_http_hosts(void) {
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.1:8080", "10.1.2.3:1", "[::1]", "[::1]:8080", "localhost",
                                            "LocalHost:8080"};
    static const char *const names[] = {"", "example.org", "localhost.example.org", "127.0.0.1.example.org:80", "::1", "[::1",
                                        "1.2.3", "[127.0.0.1]", "[]", "127.0.0.1:80:80", "localhost.", ":80"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        CHECKF(http_host_is_address(bytes_of(addresses[i])), "%s", addresses[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECKF(!http_host_is_address(bytes_of(names[i])), "%s", names[i]);
}

/* --- forms --- */

typedef struct {
    const char *type, *body, *want;
} th_form;

#define TYPE "multipart/form-data; boundary=b"
#define NAMED(name) "Content-Disposition: form-data; name=\"" name "\"\r\n"

static const th_form th_forms[] = {
    {TYPE, "--b\r\n" NAMED("purpose") "\r\nbatch\r\n--b\r\n"
           "Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\nContent-Type: text/plain\r\n"
           "\r\n{}\r\n\r\n--b--\r\n",
     "purpose=batch file(a.jsonl)={}<0d><0a> ."},
    {"Multipart/Form-Data ; charset=x; BOUNDARY=\"b'()+_,-./:=? 1\"",
     "--b'()+_,-./:=? 1\r\n" NAMED("n") "\r\n\r\n--b'()+_,-./:=? 1--", "n= ."},
    {TYPE, "--b\r\n" NAMED("n") "\r\n--b--", "n= ."},
    {TYPE, "--b--\r\n", "."},
    {TYPE, "--b\r\ncontent-disposition:form-data;name=n;filename*=utf-8''%c3%a4%2f;filename=x\r\n\r\nx--b-\r\n-b\r\n--b--",
     "n(\xc3\xa4/)=x--b-<0d><0a>-b ."},
    {TYPE, "--b\r\nContent-Disposition: form-data; name=\"a\\\"b\\\\c\\d\"; filename=\"\"\r\n\r\nx\r\n--b--", "a\"b\\c\\d()=x ."},
    {TYPE, "", "a form that does not begin with its boundary"},
    {TYPE, "x\r\n--b--", "a form that does not begin with its boundary"},
    {TYPE, "--b", "a boundary within a line, or bytes after the last part"},
    {TYPE, "--b--x", "a boundary within a line, or bytes after the last part"},
    {TYPE, "--b \r\n", "a boundary within a line, or bytes after the last part"},
    {TYPE, "--b\n" NAMED("n") "\r\n\r\n--b--", "a boundary within a line, or bytes after the last part"},
    {TYPE, "--b\r\n" NAMED("n") "\r\nx\r\n--bc\r\n--b--", "n=x a boundary within a line, or bytes after the last part"},
    {TYPE, "--b\r\n" NAMED("n") "\r\nx", "a part without an end"},
    {TYPE, "--b\r\n" NAMED("n") "\r\nx--b--", "a part without an end"},
    {TYPE, "--b\r\n" NAMED("n"), "a part whose fields do not end"},
    {TYPE, "--b\r\n\r\nx\r\n--b--", "a part without a name"},
    {TYPE, "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--", "a part without a name"},
    {TYPE, "--b\r\nContent-Disposition: attachment; name=n\r\n\r\nx\r\n--b--", "a part that is no form-data"},
    {TYPE, "--b\r\n" NAMED("n") NAMED("m") "\r\nx\r\n--b--", "a part with two names"},
    {TYPE, "--b\r\nContent-Disposition: form-data; name=n; name=m\r\n\r\nx\r\n--b--", "a part with two names"},
    {TYPE, "--b\r\nContent-Disposition: form-data; name=\"n\r\n\r\nx\r\n--b--",
     "a field whose parameters are not written as ; name=value"},
    {TYPE, "--b\r\nContent-Disposition: form-data, name=n\r\n\r\nx\r\n--b--", "a part that is no form-data"},
    {TYPE, "--b\r\n" NAMED("n") "X : y\r\n\r\nx\r\n--b--", "a blank before the colon of a field"},
    {TYPE, "--b\r\n" NAMED("n") " y\r\n\r\nx\r\n--b--", "a field that goes on in the next line"},
    {TYPE, "--b\r\n" NAMED("n\n") "\r\nx\r\n--b--", "a control character in a field of a part"},
    {TYPE, "--b\r\n" NAMED("\xff") "\r\nx\r\n--b--", "a part without a name"},
    {TYPE, "--b\r\n" NAMED("n") "Content-Transfer-Encoding: base64\r\n\r\nx\r\n--b--", "a part that is encoded"},
    {TYPE, "--b\r\nContent-Disposition: form-data; name=n; filename*=latin1''x\r\n\r\nx\r\n--b--", "a bad name of a file"},
    {"multipart/form-data", "--\r\n", "a form without a good boundary"},
    {"multipart/form-data; boundary=\"\"", "--\r\n", "a form without a good boundary"},
    {"multipart/form-data; boundary=\"b \"", "--b \r\n", "a form without a good boundary"},
    {"multipart/form-data; boundary=\"b\\\"\"", "--b\"\r\n", "a form without a good boundary"},
    {"multipart/form-data; boundary=b; boundary=c", "--b--", "two boundaries"},
    {"multipart/form-data; boundary", "--b--", "a field whose parameters are not written as ; name=value"},
    {"multipart/mixed; boundary=b", "--b--", "expected the type multipart/form-data"},
    {"", "", "expected the type multipart/form-data"},
};

static void th_read_form(str *s, bytes type, bytes body) {
    http_parts  f;
    http_part   p;
    const char *why;
    bool        ok = http_parts_begin(&f, type, body, &why);
    while (ok && (ok = http_parts_next(&f, &p, &why))) {
        str_cat(s, str_bytes(&p.name));
        if (p.is_file) str_fmt(s, "(%s)", p.file.p);
        str_put(s, "=");
        for (size_t i = 0; i < p.body.n; i++) str_fmt(s, p.body.p[i] < 0x20 ? "<%02x>" : "%c", p.body.p[i]);
        str_put(s, " ");
        http_part_drop(&p);
    }
    if (f.n) http_part_drop(&p);
    str_put(s, why ? why : ".");
}

static void t_http_forms(void) {
    for (size_t i = 0; i < sizeof th_forms / sizeof *th_forms; i++) {
        str s = {0};
        th_read_form(&s, bytes_of(th_forms[i].type), bytes_of(th_forms[i].body));
        CHECKF(!strcmp(s.p, th_forms[i].want), "row %zu: \"%s\", expected \"%s\"", i, s.p, th_forms[i].want);
        str_drop(&s);
    }
    for (int over = 0; over < 2; over++) {            /* limits */
        str s = {0}, got = {0};
        for (int i = 0; i < HTTP_PARTS + over; i++) str_put(&s, "--b\r\n" NAMED("") "\r\n\r\n");
        str_put(&s, "--b--");
        th_read_form(&got, bytes_of(TYPE), str_bytes(&s));
        CHECK(strstr(got.p, over ? "a form of too many parts" : ".") != NULL);
        str_clear(&s);
        str_put(&s, "multipart/form-data; boundary=");
        th_repeat(&s, "b", HTTP_BOUNDARY + over);
        str_clear(&got);
        th_read_form(&got, str_bytes(&s), (bytes){0});
        EQ_STR(got.p, over ? "a form without a good boundary" : "a form that does not begin with its boundary");
        str_drop_all(&s, &got);
    }
}

static const t_case t_http_cases[] = {
    {"http rows", "requests, and every way to be none, with the status, however the bytes are cut", t_http_rows},
    {"http limits", "lines, heads, fields, bodies, chunks: the largest is taken, one more byte is not", t_http_limits},
    {"http fields", "values of fields and of the query", t_http_fields},
    {"http forms", "bodies of forms: parts, and every way to be wrong", t_http_forms},
    {"http hosts", "addresses and localhost, and names that a stranger's server may have led here", t_http_hosts},
};
static const t_suite t_http_suite = SUITE(t_http_cases);
