/* ===== [http] requests of HTTP/1.1, as bytes =====
 * A strict parser of requests (RFC 9112), which knows no sockets. http_feed() takes bytes as they come, cut anywhere, and says
 * when the fields are there, when the request is whole and what is wrong with it. What two programs could read in two ways is
 * refused, as a proxy before this one may have read it in the other way: two lengths, a length beside a transfer coding, two
 * hosts, a line that ends with LF alone, folded fields, blanks before a colon, sizes of chunks with anything but digits.
 * Invariants: the result does not depend on how the bytes are cut; memory is bounded by HTTP_HEAD_MOST and in.max_body; after
 * HTTP_BAD the parser takes nothing more.
 *   Bodies of forms (multipart/form-data, RFC 7578) are read as strictly: nothing before the first part or after the last one, no
 * part without a name.
 * Public: http_init, http_drop, http_next, http_feed, http_value, http_query, http_reason, http_same,
 * http_is_type, http_host_is_address, http_parts_begin, http_parts_next, http_part_drop.
 * Opens: http_part, http_request, http_in.req, http_in.body, http_in.max_body, http_in.stage, http_in.begun, http_in.status,
 * http_in.why. */

enum {
    HTTP_LINE_MOST = 8 << 10,                         /* bytes of a request line */
    HTTP_HEAD_MOST = 64 << 10,                        /* of the request line and the fields together */
    HTTP_FIELDS = 100,                                /* fields of a request */
    HTTP_CHUNK_LINE = 256,                            /* bytes of the line before a chunk, extensions included */
    HTTP_TRAILER_MOST = 8 << 10,                      /* bytes of the fields after the last chunk */
    HTTP_BOUNDARY = 70,                               /* bytes of a boundary (RFC 2046) */
    HTTP_PARTS = 64,                                  /* parts of a form */
    HTTP_PART_HEAD = 8 << 10,                         /* bytes of the fields of a part */
};

typedef enum { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE, HTTP_OPTIONS, HTTP_METHODS } http_method;

typedef struct {
    uint32_t from, n;                                 /* bytes of http_request.head */
} http__span;

typedef struct {
    http__span name, value;
} http__field;

typedef struct {
    http_method method;
    int         minor;                                /* HTTP/1.minor: 0 or 1 */
    str         path;                                 /* decoded, UTF-8 without control characters: /..., or "*" */
    bytes       query;                                /* what stands after the question mark, as it was sent */
    bytes       host;                                 /* with its port; p NULL: none was named, as HTTP/1.0 allows */
    bool        keep;                                 /* the connection stays open after the answer */
    bool        expects;                              /* the body comes after an answer 100 */
    bool        chunked;                              /* the body's length is not known before its end */
    uint64_t    length;                               /* bytes of the body, where it is not chunked */
    str         head;                                 /* lines of the head, one after the other */
    int         n_fields;
    http__field field[HTTP_FIELDS];
} http_request;

typedef enum { HTTP_MORE, HTTP_HEADED, HTTP_WHOLE, HTTP_BAD } http_got;

typedef enum {
    HTTP_AT_HEAD,
    HTTP_AT_BODY,                                     /* the fields are read; the body's length is known */
    HTTP_AT_SIZE,                                     /* the line before a chunk */
    HTTP_AT_CHUNK,
    HTTP_AT_CHUNK_END,
    HTTP_AT_TRAILER,
    HTTP_AT_END,                                      /* the request is whole, until http_next() */
    HTTP_AT_ERROR,
} http_stage;

typedef struct {
    http_request req;
    str          body;                                /* what has come of it */
    uint64_t     max_body;                            /* bytes; may be changed when HTTP_HEADED was returned */
    http_stage   stage;
    bool         begun;                               /* a byte of the request has come */
    int          status;                              /* of HTTP_BAD: the answer's */
    char         why[200];                            /* of HTTP_BAD: a sentence for the client */
    uint64_t     most;                                /* max_body of the next request */
    uint64_t     left;                                /* bytes of the body or the chunk that are to come */
    size_t       from;                                /* where the line that is being read begins, in req.head or line */
    str          line;                                /* of a chunk, or of a trailer */
    size_t       n_trailer;                           /* bytes of trailers */
    int          n_lines;                             /* whole lines of the head */
    int          n_empty;                             /* empty lines before it */
    int          n_length, n_coding;                  /* fields of these names */
    http__span   target, authority;
} http_in;

/* --- words --- */

static uint8_t http__lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

/* Whether a view holds the bytes of a C string in lower case, whatever its own case (ASCII). */
static bool http_same(bytes a, const char *lower) {
    if (strlen(lower) != a.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (http__lower(a.p[i]) != (uint8_t)lower[i]) return false;
    return true;
}

/* The words of a status of this program's answers. */
static const char *http_reason(int status) {
    static const struct {
        int         status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"}, {200, "OK"}, {201, "Created"}, {202, "Accepted"}, {204, "No Content"}, {400, "Bad Request"},
        {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"}, {408, "Request Timeout"},
        {409, "Conflict"}, {411, "Length Required"}, {413, "Content Too Large"}, {414, "URI Too Long"},
        {415, "Unsupported Media Type"}, {417, "Expectation Failed"}, {421, "Misdirected Request"},
        {422, "Unprocessable Content"}, {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"}, {501, "Not Implemented"}, {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"}, {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return status < 400 ? "OK" : "Error";
}

/* Characters of methods and names of fields (RFC 9110, 5.6.2). */
static bool http__is_token(bytes b) {
    for (size_t i = 0; i < b.n; i++) {
        const uint8_t c = b.p[i];
        const bool letter = (c >= '0' && c <= '9') || (http__lower(c) >= 'a' && http__lower(c) <= 'z');
        if (!letter && (!c || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return b.n > 0;
}

/* Appends a text in which %41 is written for A; plus: a + is a blank. False: a % without two digits after it. */
static bool http__unescape(bytes b, bool plus, str *out) {
    uint64_t c;
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] == '%') {
            if (b.n - i < 3 || !bytes_hex(b.p + i + 1, 2, &c)) return false;
            i += 2;
        } else c = plus && b.p[i] == '+' ? ' ' : b.p[i];
        str_add(out, &(uint8_t){(uint8_t)c}, 1);
    }
    return true;
}

static bytes http__view(const http_request *h, http__span s) { return (bytes){(const uint8_t *)h->head.p + s.from, s.n}; }

/* Where a part of the head stands in it. */
static http__span http__place(const http_request *h, bytes part) {
    return (http__span){(uint32_t)(part.p - (const uint8_t *)h->head.p), (uint32_t)part.n};
}

/* The value of the first field of a name, which is given in lower case, without blanks around it; p NULL: there is none. It is
 * valid until http_next(). */
static bytes http_value(const http_request *h, const char *name) {
    for (int i = 0; i < h->n_fields; i++)
        if (http_same(http__view(h, h->field[i].name), name)) return http__view(h, h->field[i].value);
    return (bytes){0};
}

/* Appends the value of a name of the query, decoded. False: the query has none, or one that is not written as it should. */
static bool http_query(const http_request *h, const char *name, str *out) {
    for (size_t at = 0; at < h->query.n;) {
        const uint8_t *end = memchr(h->query.p + at, '&', h->query.n - at);
        const bytes    one = bytes_slice(h->query, at, end ? (size_t)(end - h->query.p) : h->query.n);
        const uint8_t *is = one.n ? memchr(one.p, '=', one.n) : NULL;
        const size_t   n = is ? (size_t)(is - one.p) : one.n;
        at += one.n + 1;
        if (bytes_is(bytes_slice(one, 0, n), name)) return http__unescape(bytes_slice(one, is ? n + 1 : n, one.n), true, out);
    }
    return false;
}

/* Whether a Content-Type is of this media type, which is given in lower case, whatever its parameters. */
static bool http_is_type(bytes value, const char *type) {
    const uint8_t *end = value.n ? memchr(value.p, ';', value.n) : NULL;
    bytes          one = bytes_slice(value, 0, end ? (size_t)(end - value.p) : value.n);
    while (one.n && (one.p[one.n - 1] == ' ' || one.p[one.n - 1] == '\t')) one.n--;
    return http_same(one, type);
}

/* Whether a host, with or without its port, is an address or a name of this machine's loopback: no name that a stranger's name
 * server could have led here. */
static bool http_host_is_address(bytes host) {
    char           name[64];
    uint8_t        address[16];
    const bool     six = host.n && host.p[0] == '[';
    const uint8_t *end = host.n ? memrchr(host.p, six ? ']' : ':', host.n) : NULL;
    const bytes    plain = six ? bytes_slice(host, 1, end ? (size_t)(end - host.p) : host.n)
                               : bytes_slice(host, 0, end ? (size_t)(end - host.p) : host.n);
    if (!plain.n || plain.n >= sizeof name || (six && !end)) return false;
    memcpy(name, plain.p, plain.n);
    name[plain.n] = 0;
    if (six) return inet_pton(AF_INET6, name, address) == 1;
    return http_same(plain, "localhost") || inet_pton(AF_INET, name, address) == 1;
}

/* --- the parser --- */

/* max_body: bytes of the longest body. To be freed by http_drop(). */
static void http_init(http_in *in, uint64_t max_body) { *in = (http_in){.max_body = max_body, .most = max_body}; }

/* Frees what the parser holds. */
static void http_drop(http_in *in) { str_drop_all(&in->req.path, &in->req.head, &in->body, &in->line); }

/* Begins the next request of the connection. A body that was not taken is freed. */
static void http_next(http_in *in) {
    const uint64_t most = in->most;
    http_drop(in);
    http_init(in, most);
}

/* Always false. */
__attribute__((format(printf, 3, 4))) static bool http__bad(http_in *in, int status, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(in->why, sizeof in->why, fmt, ap);
    va_end(ap);
    in->status = status;
    in->stage = HTTP_AT_ERROR;
    return false;
}

/* Takes bytes of a line, up to its CR LF, which is left out. False: it is not whole yet, or it is wrong (HTTP_AT_ERROR). */
static bool http__take_line(http_in *in, str *to, bytes b, size_t *at) {
    while (*at < b.n) {
        const uint8_t c = b.p[(*at)++];
        const bool    after = to->n > in->from && to->p[to->n - 1] == '\r';
        if (after && c == '\n') return to->n--, true;
        if (after) return http__bad(in, 400, "a CR without LF after it");
        if (c == '\n') return http__bad(in, 400, "a line that ends with LF, expected CR LF");
        if (c == 0x7f || (c < 0x20 && c != '\t' && c != '\r')) {
            const bool tls = in->stage == HTTP_AT_HEAD && !in->n_lines && !(to->n - in->from) ? c == 0x16 : false;
            return http__bad(in, 400, tls ? "no request of HTTP: this looks like TLS, and the server speaks http:// alone"
                                          : "the control character 0x%02x in a line", c);
        }
        str_add(to, &c, 1);
        const size_t n = to->n - in->from;
        if (in->stage == HTTP_AT_HEAD && !in->n_lines && n > HTTP_LINE_MOST)
            return http__bad(in, 414, "a request line of more than %d bytes", HTTP_LINE_MOST);
        if (in->stage == HTTP_AT_HEAD && to->n > HTTP_HEAD_MOST)
            return http__bad(in, 431, "a head of more than %d bytes", HTTP_HEAD_MOST);
        if (in->stage == HTTP_AT_SIZE && n > HTTP_CHUNK_LINE)
            return http__bad(in, 400, "a line of more than %d bytes before a chunk", HTTP_CHUNK_LINE);
        if (in->stage == HTTP_AT_CHUNK_END && c != '\r') return http__bad(in, 400, "a chunk longer than its size");
        if (in->stage == HTTP_AT_TRAILER && ++in->n_trailer > HTTP_TRAILER_MOST)
            return http__bad(in, 431, "more than %d bytes of fields after the body", HTTP_TRAILER_MOST);
    }
    return false;
}

/* Whether a host is written with letters of names and addresses alone. */
static bool http__is_host(bytes b) {
    for (size_t i = 0; i < b.n; i++) {
        const uint8_t c = http__lower(b.p[i]);
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c && strchr(".-_~:[]", c)))) return false;
    }
    return true;
}

/* /path?query, http://host/path?query, or * with OPTIONS. `at`: where the target stands in the head. */
static bool http__target(http_in *in, bytes t, uint32_t at) {
    http_request *h = &in->req;
    size_t        from = 0;
    for (size_t i = 0; i < t.n; i++)
        if (t.p[i] <= 0x20 || t.p[i] >= 0x7f || t.p[i] == '#')
            return http__bad(in, 400, "the byte 0x%02x in the path, expected %%%02X", t.p[i], t.p[i]);
    for (int i = 0; i < 2 && t.n; i++) {
        const char *scheme = i ? "https://" : "http://";
        const size_t n = strlen(scheme);
        if (t.n < n || !http_same(bytes_slice(t, 0, n), scheme)) continue;
        for (from = n; from < t.n && t.p[from] != '/' && t.p[from] != '?';) from++;
        in->authority = (http__span){at + (uint32_t)n, (uint32_t)(from - n)};
        if (from == n || !http__is_host(bytes_slice(t, n, from)))
            return http__bad(in, 400, "no host in the target of the request");
    }
    const bytes    rest = bytes_slice(t, from, t.n);
    const uint8_t *mark = rest.n ? memchr(rest.p, '?', rest.n) : NULL;
    const bytes    path = bytes_slice(rest, 0, mark ? (size_t)(mark - rest.p) : rest.n);
    const bool     star = bytes_is(t, "*") && h->method == HTTP_OPTIONS;
    if (!star && !from && !(path.n && path.p[0] == '/'))
        return http__bad(in, 400, "the target of the request is no path, expected one that begins with /");
    if (from && !path.n) str_put(&h->path, "/");
    if (!http__unescape(path, false, &h->path)) return http__bad(in, 400, "a %% without two digits after it in the path");
    for (size_t i = 0; i < h->path.n; i++)
        if ((uint8_t)h->path.p[i] < 0x20 || h->path.p[i] == 0x7f) return http__bad(in, 400, "a control character in the path");
    if (!utf8_whole(str_bytes(&h->path))) return http__bad(in, 400, "the path is not UTF-8");
    in->target = (http__span){at + (uint32_t)(t.n - rest.n), (uint32_t)rest.n};
    return true;
}

/* METHOD TARGET HTTP/1.1 */
static bool http__request_line(http_in *in, bytes line) {
    static const char *const methods[HTTP_METHODS] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    const uint8_t *a = memchr(line.p, ' ', line.n), *end = line.p + line.n;
    const uint8_t *b = a ? memchr(a + 1, ' ', (size_t)(end - a - 1)) : NULL;
    if (!b) return http__bad(in, 400, "the first line is no request, expected METHOD PATH HTTP/1.1");
    const bytes method = {line.p, (size_t)(a - line.p)}, target = {a + 1, (size_t)(b - a - 1)};
    const bytes v = {b + 1, (size_t)(end - b - 1)};
    if (v.n != 8 || memcmp(v.p, "HTTP/", 5) || !isdigit(v.p[5]) || v.p[6] != '.' || !isdigit(v.p[7]) || !http__is_token(method))
        return http__bad(in, 400, "the first line is no request, expected METHOD PATH HTTP/1.1");
    if (v.p[5] != '1' || v.p[7] > '1') return http__bad(in, 505, "%.*s is not spoken here, expected HTTP/1.1", (int)v.n, v.p);
    in->req.minor = v.p[7] - '0';
    in->req.keep = in->req.minor > 0;
    int m = 0;
    while (m < HTTP_METHODS && !bytes_is(method, methods[m])) m++;
    if (m == HTTP_METHODS) return http__bad(in, 501, "the method %.*s", (int)min_size(method.n, 32), method.p);
    in->req.method = (http_method)m;
    return http__target(in, target, http__place(&in->req, target).from);
}

/* A part of a line without the blanks around it. */
static bytes http__trim(bytes b) {
    while (b.n && (b.p[0] == ' ' || b.p[0] == '\t')) b.p++, b.n--;
    while (b.n && (b.p[b.n - 1] == ' ' || b.p[b.n - 1] == '\t')) b.n--;
    return b;
}

/* Splits a line, which is not empty, into a field's name and value. NULL, or what is wrong with it. */
static const char *http__split(bytes line, bytes *name, bytes *value) {
    const uint8_t *colon = memchr(line.p, ':', line.n);
    if (line.p[0] == ' ' || line.p[0] == '\t') return "a field that goes on in the next line";
    if (!colon) return "a field without a colon";
    *name = (bytes){line.p, (size_t)(colon - line.p)};
    if (name->n && (name->p[name->n - 1] == ' ' || name->p[name->n - 1] == '\t')) return "a blank before the colon of a field";
    if (!http__is_token(*name)) return "a name of a field that is no word";
    *value = http__trim((bytes){colon + 1, line.n - name->n - 1});
    return NULL;
}

/* Whether a list of words, which commas part, has this one. */
static bool http__lists(bytes list, const char *word) {
    for (size_t at = 0; at < list.n;) {
        const uint8_t *comma = memchr(list.p + at, ',', list.n - at);
        const size_t   to = comma ? (size_t)(comma - list.p) : list.n;
        if (http_same(bytes_trim(bytes_slice(list, at, to)), word)) return true;
        at = to + 1;
    }
    return false;
}

static bool http__length(http_in *in, bytes v) {
    uint64_t n = 0;
    bool     over = false;
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9') return http__bad(in, 400, "a Content-Length that is no number");
        over |= __builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(v.p[i] - '0'), &n);
    }
    if (!v.n) return http__bad(in, 400, "a Content-Length that is no number");
    in->req.length = over ? UINT64_MAX : n;
    return true;
}

static bool http__field_line(http_in *in, bytes line) {
    /* A second field of these names could be read in place of the first. */
    static const char *const once[] = {"host", "content-length", "transfer-encoding", "content-type", "authorization",
                                       "x-api-key", "expect", "origin"};
    http_request *h = &in->req;
    bytes         name, value;
    const char   *why = http__split(line, &name, &value);
    if (why) return http__bad(in, 400, "%s", why);
    if (h->n_fields == HTTP_FIELDS) return http__bad(in, 431, "more than %d fields", HTTP_FIELDS);
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        if (http_same(name, once[i]) && http_value(h, once[i]).p) return http__bad(in, 400, "two fields %s", once[i]);
    h->field[h->n_fields++] = (http__field){http__place(h, name), http__place(h, value)};
    if (http_same(name, "content-length")) return in->n_length++, http__length(in, value);
    if (http_same(name, "transfer-encoding")) {
        in->n_coding++;
        h->chunked = http_same(value, "chunked");
        return h->chunked || http__bad(in, 501, "a Transfer-Encoding other than chunked");
    }
    if (http_same(name, "host") && !http__is_host(value))
        return http__bad(in, 400, "a Host that is neither a name nor an address");
    if (http_same(name, "expect")) {
        h->expects = http_same(value, "100-continue");
        return h->expects || http__bad(in, 417, "an Expect other than 100-continue");
    }
    return true;
}

/* What the fields say together. */
static bool http__headed(http_in *in) {
    http_request *h = &in->req;
    h->host = http_value(h, "host");
    if (!h->host.p && h->minor) return http__bad(in, 400, "no field Host");
    if (in->authority.n) {                            /* the target names the host, too */
        const bytes named = http__view(h, in->authority);
        bool        same = !h->host.p || h->host.n == named.n;
        for (size_t i = 0; same && h->host.p && i < named.n; i++) same = http__lower(named.p[i]) == http__lower(h->host.p[i]);
        if (!same) return http__bad(in, 400, "two hosts: one in the target of the request, another one in the field Host");
        h->host = named;
    }
    if (in->n_length && in->n_coding) return http__bad(in, 400, "a Content-Length beside a Transfer-Encoding");
    if (in->n_coding && !h->minor) return http__bad(in, 400, "a Transfer-Encoding in HTTP/1.0");
    h->expects = h->expects && h->minor;
    for (int i = 0; i < h->n_fields; i++) {
        if (!http_same(http__view(h, h->field[i].name), "connection")) continue;
        const bytes list = http__view(h, h->field[i].value);
        if (http__lists(list, "close")) { h->keep = false; break; }
        if (http__lists(list, "keep-alive")) h->keep = true;
    }
    const bytes    rest = http__view(h, in->target);
    const uint8_t *mark = rest.n ? memchr(rest.p, '?', rest.n) : NULL;
    if (mark) h->query = bytes_slice(rest, (size_t)(mark - rest.p) + 1, rest.n);
    in->left = h->length;
    in->from = 0;
    in->stage = h->chunked ? HTTP_AT_SIZE : HTTP_AT_BODY;
    return true;
}

/* A whole line of the head. */
static bool http__head_line(http_in *in) {
    http_request *h = &in->req;
    const bytes   line = bytes_slice(str_bytes(&h->head), in->from, h->head.n);
    if (!line.n && !in->n_lines) return !in->n_empty++ || http__bad(in, 400, "empty lines before the request");
    if (!line.n) return http__headed(in);
    in->from = h->head.n;
    return in->n_lines++ ? http__field_line(in, line) : http__request_line(in, line);
}

/* The line before a chunk: its size in hexadecimal digits, and extensions, which nothing reads. */
static bool http__size_line(http_in *in) {
    const bytes line = str_bytes(&in->line);
    size_t      n = 0;
    while (n < line.n && bytes_hex_digit(line.p[n]) >= 0) n++;
    if (!n || n > 15 || (n < line.n && line.p[n] != ';'))
        return http__bad(in, 400, "a chunk whose size is no hexadecimal number");
    bytes_hex(line.p, (int)n, &in->left);
    str_clear(&in->line);
    in->stage = in->left ? HTTP_AT_CHUNK : HTTP_AT_TRAILER;
    return true;
}

static bool http__trailer_line(http_in *in) {
    bytes       name, value;
    const bool  last = !in->line.n;
    const char *why = last ? NULL : http__split(str_bytes(&in->line), &name, &value);
    if (why) return http__bad(in, 400, "%s", why);
    str_clear(&in->line);
    if (last) in->stage = HTTP_AT_END;
    return true;
}

/* Takes bytes of the body or of a chunk. */
static void http__take_body(http_in *in, bytes b, size_t *at) {
    const size_t n = (size_t)min_u64(in->left, b.n - *at);
    if (in->left > in->max_body || in->body.n > in->max_body - in->left) {
        http__bad(in, 413, "a body of more than %llu bytes", (unsigned long long)in->most);
        return;
    }
    if (n) str_add(&in->body, b.p + *at, n);
    *at += n;
    in->left -= n;
    if (!in->left) in->stage = in->stage == HTTP_AT_BODY ? HTTP_AT_END : HTTP_AT_CHUNK_END;
}

/* Takes bytes of a connection; *taken: how many. HTTP_MORE: all of them, and the request is not whole. HTTP_HEADED, once for
 * each request: the fields are read, and a call with the bytes after them goes on, also where there are none. HTTP_WHOLE: the
 * request is in in->req and in->body; what follows belongs to the next one, after http_next(). HTTP_BAD: in->status, in->why. */
static http_got http_feed(http_in *in, bytes b, size_t *taken) {
    size_t *at = taken;
    *at = 0;
    in->begun = in->begun || b.n;
    for (;;) {
        bool line = false;
        if (in->stage == HTTP_AT_HEAD) {
            if (http__take_line(in, &in->req.head, b, at) && http__head_line(in) && in->stage != HTTP_AT_HEAD) return HTTP_HEADED;
            line = true;
        } else if (in->stage == HTTP_AT_BODY || in->stage == HTTP_AT_CHUNK) http__take_body(in, b, at);
        else if (in->stage != HTTP_AT_END && in->stage != HTTP_AT_ERROR) {
            line = true;
            if (http__take_line(in, &in->line, b, at)) {
                if (in->stage == HTTP_AT_SIZE) http__size_line(in);
                else if (in->stage == HTTP_AT_TRAILER) http__trailer_line(in);
                else in->stage = HTTP_AT_SIZE;
            }
        }
        if (in->stage == HTTP_AT_END) return HTTP_WHOLE;
        if (in->stage == HTTP_AT_ERROR) return HTTP_BAD;
        if (*at == b.n && (line || in->left)) return HTTP_MORE;
    }
}

/* --- forms --- */

typedef struct {
    str   name;
    str   file;                                       /* the name of a file, as the client has it */
    bool  is_file;                                    /* it has one */
    bytes body;
} http_part;

typedef struct {
    bytes rest;                                       /* what follows the last boundary */
    char  line[HTTP_BOUNDARY + 5];                    /* CR LF, two dashes, the boundary */
    int   n;                                          /* parts */
    bool  ended;
} http_parts;

/* Frees the names of a part. */
static void http_part_drop(http_part *p) { str_drop_all(&p->name, &p->file); }

/* Cuts a parameter, ; name=value or ; name="value", off *rest. False: none is left, or *why is set. Of a backslash before another
 * character than a quote or a backslash both stay: browsers write such paths. */
static bool http__param(bytes *rest, bytes *name, str *value, const char **why) {
    bytes  b = http__trim(*rest);
    size_t n = 0;
    str_clear(value);
    str_put(value, "");
    if (!b.n) return false;
    *why = "a field whose parameters are not written as ; name=value";
    if (b.p[0] != ';') return false;
    b = http__trim(bytes_slice(b, 1, b.n));
    while (n < b.n && b.p[n] != '=') n++;
    *name = bytes_slice(b, 0, n);
    if (n == b.n || !http__is_token(*name)) return false;
    b = bytes_slice(b, n + 1, b.n);
    if (b.n && b.p[0] == '"') {
        for (n = 1; n < b.n && b.p[n] != '"'; n++) {
            n += b.p[n] == '\\' && n + 1 < b.n && (b.p[n + 1] == '"' || b.p[n + 1] == '\\');
            str_add(value, &b.p[n], 1);
        }
        if (n++ >= b.n) return false;
    } else {
        for (n = 0; n < b.n && b.p[n] != ';' && b.p[n] != ' ' && b.p[n] != '\t';) n++;
        if (!http__is_token(bytes_slice(b, 0, n))) return false;
        str_cat(value, bytes_slice(b, 0, n));
    }
    *rest = bytes_slice(b, n, b.n);
    *why = NULL;
    return true;
}

/* The parameters of a field after its first word. */
static bytes http__params(bytes value) {
    const uint8_t *semicolon = value.n ? memchr(value.p, ';', value.n) : NULL;
    return semicolon ? bytes_slice(value, (size_t)(semicolon - value.p), value.n) : (bytes){0};
}

/* Begins to read a form. type: the field Content-Type. False: *why says what is wrong. */
static bool http_parts_begin(http_parts *f, bytes type, bytes body, const char **why) {
    bytes rest = http__params(type), name;
    str   value = {0}, boundary = {0};
    *f = (http_parts){0};
    *why = http_is_type(type, "multipart/form-data") ? NULL : "expected the type multipart/form-data";
    while (!*why && http__param(&rest, &name, &value, why)) {
        if (!http_same(name, "boundary")) continue;
        if (boundary.n) *why = "two boundaries";
        else str_cat(&boundary, str_bytes(&value));
    }
    bool ok = boundary.n && boundary.n <= HTTP_BOUNDARY && boundary.p[boundary.n - 1] != ' ';
    for (size_t i = 0; ok && i < boundary.n; i++)
        ok = isalnum((uint8_t)boundary.p[i]) || strchr("'()+_,-./:=? ", boundary.p[i]);
    if (!*why && !ok) *why = "a form without a good boundary";
    if (!*why) {
        snprintf(f->line, sizeof f->line, "\r\n--%s", boundary.p);
        const bytes first = bytes_of(f->line + 2);
        if (bytes_begins(body, first)) f->rest = bytes_slice(body, first.n, body.n);
        else *why = "a form that does not begin with its boundary";
    }
    str_drop_all(&value, &boundary);
    return !*why;
}

/* The values of filename*=UTF-8''NAME (RFC 8187), in which %41 stands for A. */
static bool http__extended(const str *value, str *out) {
    const bytes v = str_bytes(value);
    return v.n >= 7 && http_same(bytes_slice(v, 0, 7), "utf-8''") && http__unescape(bytes_slice(v, 7, v.n), false, out);
}

/* Reads the field Content-Disposition of a part. NULL, or what is wrong with it. */
static const char *http__disposition(http_part *p, bytes value) {
    bytes       rest = http__params(value), name;
    str         text = {0}, extended = {0};
    const char *why = http_is_type(value, "form-data") ? NULL : "a part that is no form-data";
    bool        named = false;
    while (!why && http__param(&rest, &name, &text, &why)) {
        const bool is_name = http_same(name, "name"), is_file = http_same(name, "filename");
        if ((is_name && named) || (is_file && p->is_file)) why = "a part with two names";
        else if (is_name) named = true, str_set(&p->name, str_bytes(&text));
        else if (is_file) p->is_file = true, str_set(&p->file, str_bytes(&text));
        else if (http_same(name, "filename*") && (extended.n || !http__extended(&text, &extended))) why = "a bad name of a file";
    }
    if (extended.n) p->is_file = true, str_set(&p->file, str_bytes(&extended));
    if (!why && (!named || !utf8_whole(str_bytes(&p->name)) || memchr(p->name.p, 0, p->name.n))) why = "a part without a name";
    str_drop_all(&text, &extended);
    return why;
}

/* Reads the fields of a part and moves *b behind them. NULL, or what is wrong. */
static const char *http__part_head(http_part *p, bytes *b) {
    bool disposed = false;
    for (size_t used = 0;;) {
        const size_t n = bytes_find(*b, 0, bytes_of("\r\n"));
        bytes        name, value, line = bytes_slice(*b, 0, n == SIZE_MAX ? 0 : n);
        if (n == SIZE_MAX || (used += n + 2) > HTTP_PART_HEAD) return "a part whose fields do not end";
        *b = bytes_slice(*b, n + 2, b->n);
        if (!n) return disposed ? NULL : "a part without a name";
        for (size_t i = 0; i < line.n; i++)
            if ((line.p[i] < 0x20 && line.p[i] != '\t') || line.p[i] == 0x7f) return "a control character in a field of a part";
        const char *why = http__split(line, &name, &value);
        if (why) return why;
        if (http_same(name, "content-disposition")) {
            if (disposed) return "a part with two names";
            if ((why = http__disposition(p, value))) return why;
            disposed = true;
        }
        if (http_same(name, "content-transfer-encoding") && !http_same(value, "binary") && !http_same(value, "8bit") &&
            !http_same(value, "7bit"))
            return "a part that is encoded";
    }
}

/* The next part, whose body is a view into the form's; p is dropped by the caller. False: there is none, or *why says what is
 * wrong. */
static bool http_parts_next(http_parts *f, http_part *p, const char **why) {
    const bytes line = bytes_of(f->line);
    *p = (http_part){0};
    *why = NULL;
    if (f->ended) return false;
    if (bytes_is(f->rest, "--") || bytes_is(f->rest, "--\r\n")) {
        f->ended = true;
        return false;
    }
    if (!bytes_begins(f->rest, bytes_of("\r\n"))) return *why = "a boundary within a line, or bytes after the last part", false;
    if (f->n++ == HTTP_PARTS) return *why = "a form of too many parts", false;
    bytes b = bytes_slice(f->rest, 2, f->rest.n);
    if ((*why = http__part_head(p, &b))) return false;
    /* The line before a boundary may be the one that ends the fields: then the body is empty. */
    b = (bytes){b.p - 2, b.n + 2};
    const size_t end = bytes_find(b, 0, line);
    if (end == SIZE_MAX) return *why = "a part without an end", false;
    p->body = end ? bytes_slice(b, 2, end) : bytes_slice(b, 2, 2);
    f->rest = bytes_slice(b, end + line.n, b.n);
    return true;
}
