/* Files and batches of the API in a folder: requests and what is wrong with them, lines of batches, and servers that die between
 * any two steps. */
#include "program.h"
#include "check.h"

static char tfi_dir[64], tfi_folder[96];
static bool tfi_in_memory;                            /* bodies of uploads do not wait in a file */

static void tfi_clean(void) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", tfi_dir);
    if (tfi_dir[0] && system(command)) perror(tfi_dir);
    tfi_dir[0] = 0;
}

static const files_opts tfi_opts = {
    .folder = tfi_folder, .most = 1 << 20, .line_bytes = 2000, .settings = {(const uint8_t *)"model=m\n", 8}};

static files_store *tfi_open(files_opts o) {
    err_t        e = {0};
    files_store *f = files_open(&o, &e);
    CHECKF(f != NULL, "%s", e.text);
    return f;
}

/* An empty folder of this test. */
static files_store *tfi_new(void) {
    tfi_clean();
    strcpy(tfi_dir, "/tmp/llmrun-files-XXXXXX");
    if (!mkdtemp(tfi_dir)) abort();
    snprintf(tfi_folder, sizeof tfi_folder, "%s/files", tfi_dir);
    return tfi_open(tfi_opts);
}

/* Closes the folder as a server does that ends, and opens it again. */
static files_store *tfi_again(files_store *f) {
    files_close(f);
    return tfi_open(tfi_opts);
}

/* What the folder's files and batches count for; a batch's results are files once it has ended. */
static uint64_t tfi_used(const files_store *f) {
    uint64_t n = f->n_batches * FILES_LEAST;
    for (size_t i = 0; i < f->n_files; i++) n += files__counts(f->file[i]->bytes);
    return n;
}

/* Makes a folder at FOLDER/ID.END, which no file can replace; made false: removes it. */
static void tfi_block(const files_store *f, const char *id, const char *end, bool made) {
    str path = {0};
    files__path(f, id, end, &path);
    if (made ? mkdir(path.p, 0700) : rmdir(path.p)) abort();
    str_drop(&path);
}

static size_t tfi_n_entries(const files_store *f) {
    DIR   *d = opendir(f->folder.p);
    size_t n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

/* The answer's body; of a file its bytes. head: METHOD PATH. */
static int tfi_call(files_store *f, const char *head, const char *type, bytes body, str *out) {
    http_in        in;
    files_call     c;
    files_answered a;
    size_t         taken;
    str            text = {0};
    err_t          e = {0};
    str_fmt(&text, "%s HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\n\r\n", head, type);
    http_init(&in, 0);
    if (http_feed(&in, str_bytes(&text), &taken) != HTTP_HEADED || !files_takes(in.req.path.p)) abort();
    files_call_read(&c, &in.req);
    http_drop(&in);
    if (!tfi_in_memory && http_is_type(bytes_of(type), "multipart/form-data")) {        /* in two pieces, as it comes from a connection */
        files_upload *u = files_receive(f, &e);
        CHECKF(u && files_upload_put(u, bytes_slice(body, 0, body.n / 3)) && files_upload_put(u, bytes_slice(body, body.n / 3, body.n)) &&
               files_upload_bytes(u) == body.n, "%s", e.text);
        files_answer_upload(f, &c, u, &a);
        files_upload_drop(u);
    } else files_answer(f, &c, body, &a);
    str_clear(out);
    str_put(out, "");
    if (a.fd >= 0) str_read_all(out, a.fd, "content", SIZE_MAX, "less", &e);
    else str_cat(out, str_bytes(&a.body));
    if (a.fd >= 0) EQ_INT(out->n, a.size);
    const int status = a.status;
    CHECK((status >= 400) == (a.code != NULL) && (status >= 400 || a.fd >= 0 || bytes_is_json(str_bytes(out))));
    CHECKF(!strstr(out->p, tfi_dir), "a message names the folder: %s", out->p);
    files_answer_drop(&a);
    files_call_drop(&c);
    str_drop(&text);
    return status;
}

static int tfi_get(files_store *f, const char *head, str *out) { return tfi_call(f, head, "application/json", (bytes){0}, out); }

/* A member of the object that an answer is. */
static const char *tfi_member(const str *object, const char *name) {
    static char text[4][300];
    static int  at;
    const bytes b = bytes_trim(bytes_member(str_bytes(object), name));
    at = (at + 1) % 4;
    snprintf(text[at], sizeof text[at], "%.*s", (int)b.n, b.n ? (const char *)b.p : "");
    return text[at];
}

/* The id of an object, without its quotes. */
static void tfi_id(const str *object, const char *name, char id[FILES_ID]) {
    const bytes b = bytes_trim(bytes_member(str_bytes(object), name));
    const bool  is = b.n > 2 && b.p[0] == '"';        /* null is none */
    snprintf(id, FILES_ID, "%.*s", is ? (int)b.n - 2 : 0, is ? (const char *)b.p + 1 : "");
}

#define FORM_TYPE "multipart/form-data; boundary=X"
#define JSON_TYPE "application/json; charset=utf-8"
#define PART(s)   "--X\r\nContent-Disposition: form-data; name=" s
#define IN_FOR(s) "{\"input_file_id\":\"IN\",\"endpoint\":\"" s "\""

static int tfi_upload(files_store *f, const char *name, const char *purpose, const char *text, char id[FILES_ID]) {
    str form = {0}, out = {0};
    str_fmt(&form, "--X\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n%s\r\n"
            "--X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n\r\n", purpose, name);
    str_put(&form, text);
    str_put(&form, "\r\n--X--\r\n");
    const int status = tfi_call(f, "POST /v1/files", FORM_TYPE, str_bytes(&form), &out);
    tfi_id(&out, "id", id);
    str_drop_all(&form, &out);
    return status;
}

static int tfi_create(files_store *f, const char *input, const char *more, char id[FILES_ID]) {
    str       body = {0}, out = {0};
    str_fmt(&body, "{\"input_file_id\":\"%s\",\"endpoint\":\"/v1/completions\",\"completion_window\":\"24h\"%s}", input, more);
    const int status = tfi_call(f, "POST /v1/batches", "application/json", str_bytes(&body), &out);
    tfi_id(&out, "id", id);
    str_drop_all(&body, &out);
    return status;
}

/* GET PATH/ID, a member of it. */
static const char *tfi_ask(files_store *f, const char *path, const char *id, const char *member) {
    char        head[120];
    str         out = {0};
    snprintf(head, sizeof head, "GET %s/%s", path, id);
    EQ_INT(tfi_get(f, head, &out), 200);
    const char *is = tfi_member(&out, member);
    str_drop(&out);
    return is;
}

/* --- files --- */

static void t_files_keep(void) {
    files_store *f = tfi_new();
    char         a[FILES_ID], b[FILES_ID], head[120];
    str          out = {0}, path = {0};
    struct stat  st;
    if (!f) return;
    EQ_INT(tfi_upload(f, "C:\\dir/in put.jsonl", "batch", "{\"a\":1}\n\n  \nx\r\n", a), 200);
    EQ_INT(tfi_upload(f, "\xff", "user_data", "", b), 200);
    for (int i = 0; i < 2; i++) {                     /* also as the next server finds them */
        EQ_STR(tfi_ask(f, "/v1/files", a, "filename"), "\"in put.jsonl\"");
        EQ_STR(tfi_ask(f, "/files", a, "bytes"), "15");
        EQ_STR(tfi_ask(f, "/files", a, "purpose"), "\"batch\"");
        EQ_STR(tfi_ask(f, "/files", a, "object"), "\"file\"");
        EQ_STR(tfi_ask(f, "/files", b, "filename"), "\"file\"");
        snprintf(head, sizeof head, "GET /v1/files/%s/content", a);
        EQ_INT(tfi_get(f, head, &out), 200);
        EQ_STR(out.p, "{\"a\":1}\n\n  \nx\r\n");
        EQ_INT(tfi_get(f, "GET /v1/files?purpose=batch", &out), 200);
        EQ_STR(tfi_member(&out, "has_more"), "false");
        CHECK(strstr(out.p, a) && !strstr(out.p, b));
        f = tfi_again(f);
    }
    EQ_INT(f->file[0]->lines + f->file[1]->lines, 2);
    CHECK(!stat(tfi_folder, &st) && (st.st_mode & 0777) == 0700);
    CHECK(!stat(files__path(f, a, ".jsonl", &path), &st) && (st.st_mode & 0777) == 0600);
    CHECK(!stat(files__path(f, a, ".json", &path), &st) && (st.st_mode & 0777) == 0600);
    snprintf(head, sizeof head, "DELETE /v1/files/%s", a);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_STR(tfi_member(&out, "deleted"), "true");
    EQ_INT(tfi_get(f, head, &out), 404);
    CHECK(stat(files__path(f, a, ".jsonl", &path), &st) && stat(files__path(f, a, ".json", &path), &st));
    files_opts o = tfi_opts;
    err_t      e = {0};
    CHECK(!files_open(&o, &e) && strstr(e.text, "another server uses it"));
    f = tfi_again(f);
    EQ_INT(f->n_files, 1);
    EQ_INT(f->used, FILES_LEAST);
    files_close(f);
    str_drop_all(&out, &path);
    tfi_clean();
}

/* Lists: order, pages. */
static void t_files_lists(void) {
    files_store *f = tfi_new();
    char         id[5][FILES_ID], head[120];
    str          out = {0};
    if (!f) return;
    for (int i = 0; i < 5; i++) tfi_upload(f, "a", "batch", "x", id[i]);
    EQ_INT(tfi_get(f, "GET /v1/files?limit=2", &out), 200);
    EQ_STR(tfi_member(&out, "has_more"), "true");
    CHECK(strstr(tfi_member(&out, "first_id"), id[4]) && strstr(tfi_member(&out, "last_id"), id[3]));
    snprintf(head, sizeof head, "GET /v1/files?limit=3&after=%s", id[3]);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_STR(tfi_member(&out, "has_more"), "false");
    CHECK(strstr(tfi_member(&out, "first_id"), id[2]) && strstr(tfi_member(&out, "last_id"), id[0]));
    snprintf(head, sizeof head, "GET /v1/files?order=asc&limit=1&after=%s", id[0]);
    EQ_INT(tfi_get(f, head, &out), 200);
    CHECK(strstr(tfi_member(&out, "first_id"), id[1]) != NULL);
    EQ_INT(tfi_get(f, "GET /v1/batches", &out), 200);
    EQ_STR(out.p, "{\"object\":\"list\",\"data\":[],\"first_id\":null,\"last_id\":null,\"has_more\":false}");
    files_close(f);
    str_drop(&out);
    tfi_clean();
}

/* What is wrong with a request. IN, USED and DATA in it are files: lines for a batch, one that a batch reads, another purpose. */
static void t_files_refused(void) {
    static const struct {
        const char *head, *type, *body;
        int         status;
        const char *says;
    } rows[] = {
        {"PUT /v1/files", "", "", 405, "GET, POST"},
        {"POST /v1/files/IN", "", "", 405, "GET, DELETE"},
        {"POST /v1/files/IN/content", "", "", 405, "GET"},
        {"DELETE /v1/batches", "", "", 405, "GET, POST"},
        {"GET /v1/files/file-x", "", "", 404, "no file"},
        {"GET /v1/files/../lock", "", "", 404, "no file"},
        {"GET /v1/files/IN/other", "", "", 404, "no file"},
        {"GET /v1/batches/IN", "", "", 404, "no batch"},
        {"POST /v1/batches/x/cancel", "", "", 404, "no batch"},
        {"DELETE /v1/files/USED", "", "", 409, "is read by batch_"},
        {"GET /v1/files?limit=0", "", "", 400, "1 to 10000"},
        {"GET /v1/files?limit=x", "", "", 400, "1 to 10000"},
        {"GET /v1/files?order=up", "", "", 400, "asc or desc"},
        {"GET /v1/files?after=x", "", "", 400, "nothing has this id"},
        {"POST /v1/files", "application/json", "{}", 415, "found application/json, expected multipart/form-data"},
        {"POST /v1/batches", "text/plain", "{}", 415, "found text/plain, expected application/json"},
        {"POST /v1/files", FORM_TYPE, "--X--", 400, "no part 'file'"},
        {"POST /v1/files", FORM_TYPE, PART("file") "\r\n\r\nx\r\n--X--", 400, "no part 'file' with a file name"},
        {"POST /v1/files", FORM_TYPE, PART("file; filename=a") "\r\n\r\nx\r\n--X--", 400, "no part 'purpose'"},
        {"POST /v1/files", FORM_TYPE, PART("file; filename=a") "\r\n\r\nx\r\n"
                                      PART("purpose") "\r\n\r\nfun\r\n--X--", 400, "found 'fun'"},
        {"POST /v1/files", FORM_TYPE, PART("purpose") "\r\n\r\nbatch\r\n"
                                      PART("purpose") "\r\n\r\nbatch\r\n--X--", 400, "two parts named purpose"},
        {"POST /v1/files", FORM_TYPE, PART("file; filename=a") "\r\n\r\nx", 400, "a part without an end"},
        {"POST /v1/batches", JSON_TYPE, "[]", 400, "no JSON object"},
        {"POST /v1/batches", JSON_TYPE, "{", 400, "no JSON object"},
        {"POST /v1/batches", JSON_TYPE, "{\"model\":1}", 400, "the key \"model\""},
        {"POST /v1/batches", JSON_TYPE, "{}", 400, "input_file_id: is not given"},
        {"POST /v1/batches", JSON_TYPE, "{\"input_file_id\":1}", 400, "input_file_id: expected a string"},
        {"POST /v1/batches", JSON_TYPE, "{\"input_file_id\":\"IN\"}", 400, "endpoint: is not given"},
        {"POST /v1/batches", JSON_TYPE, "{\"input_file_id\":\"x\",\"endpoint\":\"/v1/completions\"}", 404,
         "no file"},
        {"POST /v1/batches", JSON_TYPE, "{\"input_file_id\":\"DATA\",\"endpoint\":\"/v1/completions\"}", 400,
         "expected the purpose batch"},
        {"POST /v1/batches", JSON_TYPE, IN_FOR("/v1/audio") "}", 400, "found '/v1/audio'"},
        {"POST /v1/batches", JSON_TYPE, IN_FOR("/v1/completions") ",\"completion_window\":\"12345678901234567\"}", 400,
         "completion_window: 17 bytes, expected at most 16"},
        {"POST /v1/batches", JSON_TYPE, IN_FOR("/v1/completions") ",\"metadata\":[]}", 400, "metadata"},
        {"POST /v1/batches", JSON_TYPE, IN_FOR("/v1/completions") ",\"metadata\":{\"a\":1}}", 400, "metadata"},
    };
    files_store *f = tfi_new();
    char         in[FILES_ID], used[FILES_ID], data[FILES_ID], id[FILES_ID];
    str          out = {0};
    if (!f) return;
    tfi_upload(f, "a", "batch", "x\n", in);
    tfi_upload(f, "a", "batch", "x\n", used);
    tfi_upload(f, "a", "user_data", "x\n", data);
    EQ_INT(tfi_create(f, used, "", id), 200);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str         text[2] = {{0}, {0}};
        const char *from[2] = {rows[i].head, rows[i].body};
        for (int k = 0; k < 2; k++) {
            str_put(&text[k], "");
            for (const char *p = from[k]; *p;) {
                const char *name = !strncmp(p, "IN", 2) ? in : !strncmp(p, "USED", 4) ? used
                                   : !strncmp(p, "DATA", 4) ? data : NULL;
                if (name) str_put(&text[k], name), p += name == in ? 2 : 4;
                else str_add(&text[k], p++, 1);
            }
        }
        const int status = tfi_call(f, text[0].p, rows[i].type, str_bytes(&text[1]), &out);
        CHECKF(status == rows[i].status && strstr(out.p, rows[i].says), "%s %s: %d %s", text[0].p, text[1].p, status, out.p);
        str_drop_all(&text[0], &text[1]);
    }
    EQ_INT(f->n_files, 3);
    EQ_INT(f->n_batches, 1);
    files_close(f);
    str_drop(&out);
    tfi_clean();
}

static void t_files_quota(void) {
    files_store *f = tfi_new();
    char         id[FILES_ID], head[120];
    str          text = {0}, out = {0};
    if (!f) return;
    for (int i = 0; i < 400 << 10; i++) str_put(&text, "x");
    EQ_INT(tfi_upload(f, "a", "user_data", text.p, id), 200);
    EQ_INT(tfi_upload(f, "a", "user_data", text.p, id), 200);
    EQ_INT(tfi_upload(f, "a", "user_data", text.p, head), 507);
    snprintf(head, sizeof head, "DELETE /files/%s", id);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_INT(tfi_upload(f, "a", "user_data", text.p, id), 200);
    int n = 0;
    while (n < 1000 && tfi_upload(f, "a", "user_data", "", id) == 200) n++;      /* each counts for 4 KiB */
    EQ_INT(n, ((1 << 20) - 2 * (400 << 10)) / FILES_LEAST);
    files_close(f);
    str_drop_all(&text, &out);
    tfi_clean();
}

/* --- batches --- */

/* Answers lines: each record says the line's number; a line that says "bad" is refused. most: lines at most. Returns how many. */
static int tfi_run(files_store *f, int most) {
    int       n = 0;
    files_got got;
    for (files_line l; n < most && (got = files_next(f, &l)) != FILES_NONE;) {
        if (got != FILES_LINE) continue;
        req q;
        str record = {0};
        req_read_id(&q, l.text);
        CHECKF(l.batch && !strncmp(l.fingerprint, "llmrun-m-", 9), "%s", l.fingerprint);
        if (memmem(l.text.p, l.text.n, "bad", 3)) files_refuse(f, &l, &q, "invalid_request", "it is bad");
        else {
            str_fmt(&record, "{\"id\":\"batch_req_%llu_%016llx%016llx\",\"custom_id\":", (unsigned long long)l.no,
                    (unsigned long long)l.is.is.a, (unsigned long long)l.is.is.b);
            if (q.has_id) str_json(&record, q.custom_id);
            else str_put(&record, "null");
            str_fmt(&record, ",\"line\":%llu,\"response\":{},\"error\":null}\n", (unsigned long long)l.no);
            files_put(f, &l, str_bytes(&record), false);
        }
        n++;
        str_drop(&record);
        req_drop(&q);
    }
    return n;
}

/* The lines that the records of a file of the API answer, with e before those of errors: "1 e3 ". */
static void tfi_lines(files_store *f, const char *batch, const char *member, str *out) {
    char head[120], id[FILES_ID];
    str  text = {0};
    snprintf(head, sizeof head, "GET /batches/%s", batch);
    tfi_get(f, head, &text);
    tfi_id(&text, member, id);
    str_put(out, "");
    if (*id) {
        snprintf(head, sizeof head, "GET /files/%s/content", id);
        EQ_INT(tfi_get(f, head, &text), 200);
        bytes rest = str_bytes(&text), line;
        while (bytes_cut_line(&rest, &line)) {
            const bytes no = bytes_member(line, "line"), error = bytes_trim(bytes_member(line, "error"));
            const bytes code = bytes_trim(bytes_member(error, "code"));
            CHECK(bytes_is_json(line));
            str_fmt(out, "%.*s", (int)no.n, (const char *)no.p);
            if (code.n) str_fmt(out, "(%.*s)", (int)code.n - 2, (const char *)code.p + 1);
            str_put(out, " ");
        }
    }
    str_drop(&text);
}

static void tfi_expect(files_store *f, const char *batch, const char *good, const char *bad, const char *counts,
                       const char *state) {
    str a = {0}, b = {0};
    tfi_lines(f, batch, "output_file_id", &a);
    tfi_lines(f, batch, "error_file_id", &b);
    EQ_STR(a.p, good);
    EQ_STR(b.p, bad);
    EQ_STR(tfi_ask(f, "/batches", batch, "request_counts"), counts);
    EQ_STR(tfi_ask(f, "/batches", batch, "status"), state);
    str_drop_all(&a, &b);
}

static const char tfi_text[] = "{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"1\"}}\n"
                               "\n"
                               "{\"custom_id\":\"b\",\"url\":\"/v1/embeddings\",\"body\":{}}\n"
                               "{\"custom_id\":\"a\",\"body\":{}}\r\n"
                               "  \t\n"
                               "{\"prompt\":\"bad\"}\n"
                               "no JSON\n"
                               "{\"prompt\":\"%s\"}\n"
                               "{\"custom_id\":\"c\",\"body\":{\"prompt\":\"last\"}}";
#define TFI_GOOD "1 7 9 "
#define TFI_BAD  "3(invalid_request) 4(duplicate_custom_id) 6(invalid_request) 8(line_too_long) "
#define TFI_ALL  "{\"total\":7,\"completed\":3,\"failed\":4}"

static void tfi_input(str *text) {
    str longer = {0};
    while (longer.n < 2000) str_put(&longer, "x");
    str_fmt(text, tfi_text, longer.p);
    str_drop(&longer);
}

static void t_files_batch(void) {
    files_store *f = tfi_new();
    char         in[FILES_ID], id[FILES_ID], other[FILES_ID];
    str          text = {0};
    if (!f) return;
    tfi_input(&text);
    tfi_upload(f, "in", "batch", text.p, in);
    CHECK(!files_has_work(f));
    EQ_INT(tfi_create(f, in, ",\"metadata\":{\"a\":\"\\u00e4\"}", id), 200);
    EQ_INT(tfi_create(f, in, "", other), 200);
    EQ_STR(tfi_ask(f, "/batches", id, "metadata"), "{\"a\":\"\\u00e4\"}");
    EQ_STR(tfi_ask(f, "/batches", id, "completion_window"), "\"24h\"");
    tfi_expect(f, id, "", "", "{\"total\":7,\"completed\":0,\"failed\":0}", "\"validating\"");
    CHECK(files_has_work(f));
    EQ_INT(tfi_run(f, 1), 1);
    tfi_expect(f, id, "", "", "{\"total\":7,\"completed\":1,\"failed\":0}", "\"in_progress\"");
    EQ_INT(tfi_run(f, 1000), 7);                      /* the last 3 of one and the 4 of the other that have to be asked for */
    CHECK(!files_has_work(f));
    for (int i = 0; i < 2; i++) {
        tfi_expect(f, id, TFI_GOOD, TFI_BAD, TFI_ALL, "\"completed\"");
        tfi_expect(f, other, TFI_GOOD, TFI_BAD, TFI_ALL, "\"completed\"");
        EQ_STR(tfi_ask(f, "/batches", id, "metadata"), "{\"a\":\"\\u00e4\"}");
        f = tfi_again(f);
    }
    EQ_INT(tfi_upload(f, "in", "batch", "\n \n", in), 200);
    EQ_INT(tfi_create(f, in, "", id), 200);
    EQ_STR(tfi_ask(f, "/batches", id, "status"), "\"failed\"");
    CHECK(strstr(tfi_ask(f, "/batches", id, "errors"), "the file has no lines") != NULL);
    f = tfi_again(f);
    CHECK(strstr(tfi_ask(f, "/batches", id, "errors"), "the file has no lines") != NULL);
    files_close(f);
    str_drop(&text);
    tfi_clean();
}

/* Lines that are asked for when the batch is cancelled are answered; the others are not. */
static void t_files_cancel(void) {
    files_store *f = tfi_new();
    char         in[FILES_ID], id[FILES_ID], head[120];
    str          out = {0};
    files_line   l;
    if (!f) return;
    tfi_upload(f, "in", "batch", "1\n2\n3\n", in);
    EQ_INT(tfi_create(f, in, "", id), 200);
    EQ_INT(tfi_run(f, 1), 1);
    EQ_INT(files_next(f, &l), FILES_LINE);
    snprintf(head, sizeof head, "POST /v1/batches/%s/cancel", id);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_STR(tfi_member(&out, "status"), "\"cancelling\"");
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_INT(tfi_run(f, 9), 0);
    req q = {0};
    files_refuse(f, &l, &q, "out_of_room", "none");
    tfi_expect(f, id, "1 ", "2(out_of_room) ", "{\"total\":3,\"completed\":1,\"failed\":1}", "\"cancelled\"");
    EQ_INT(tfi_get(f, head, &out), 409);
    EQ_INT(tfi_create(f, in, "", id), 200);           /* before its first line */
    snprintf(head, sizeof head, "POST /v1/batches/%s/cancel", id);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_STR(tfi_member(&out, "status"), "\"cancelled\"");
    CHECK(!files_has_work(f));
    files_close(f);
    str_drop(&out);
    tfi_clean();
}

/* A server ends after each number of records, with lines asked for, or with half a record written; the next one goes on. */
static void t_files_restart(void) {
    str text = {0}, out = {0};
    tfi_input(&text);
    for (int kind = 0; kind < 3; kind++)
        for (int n = 0; n <= 4; n++) {
            files_store *f = tfi_new();
            char         in[FILES_ID], id[FILES_ID];
            files_line   l;
            uint64_t     size[2] = {0, 0};
            str          path = {0};
            if (!f) return;
            tfi_upload(f, "in", "batch", text.p, in);
            EQ_INT(tfi_create(f, in, "", id), 200);
            EQ_INT(tfi_run(f, n), n);
            if (kind == 1 && files_next(f, &l) == FILES_LINE) {
                files_give_up(f, &l);
                CHECK(!files_has_work(f));
            }
            files__path(f, f->batch[0]->good_id, ".jsonl", &path);
            files_close(f);
            const int fd = kind == 2 && n ? open(path.p, O_WRONLY | O_APPEND) : -1;
            if (fd >= 0 && write(fd, "{\"id\":\"batch_req_9_0", 20) != 20) abort();
            if (fd >= 0) close(fd);
            f = tfi_open(tfi_opts);
            for (int i = 0; i < 2 && n < 4; i++) {    /* what an unfinished batch has counts before its turn */
                struct stat st;
                const char *const which = i ? f->batch[0]->bad_id : f->batch[0]->good_id;
                size[i] = stat(files__path(f, which, ".jsonl", &path), &st) ? 0 : (uint64_t)st.st_size;
            }
            if (n < 4) EQ_INT(f->used, tfi_used(f) + size[0] + size[1]);
            if (fd >= 0 && n == 4) EQ_INT(tfi_run(f, 100), 0);          /* it had ended */
            else {
                EQ_INT(tfi_run(f, 100), 4 - n);
                tfi_expect(f, id, TFI_GOOD, TFI_BAD, TFI_ALL, "\"completed\"");
                EQ_INT(f->n_files, 3);
                EQ_INT(f->used, tfi_used(f));
                while (f->n_files) {
                    char head[120];
                    snprintf(head, sizeof head, "DELETE /files/%s", f->file[0]->id);
                    if (tfi_get(f, head, &out) != 200) abort();
                }
                EQ_INT(f->used, FILES_LEAST);
            }
            files_close(f);
            str_drop(&path);
        }
    str_drop_all(&text, &out);
    tfi_clean();
}

/* Another model goes on with nothing: the batch fails, and what it had is kept. What a killed server has left is removed. */
static void t_files_other(void) {
    files_store *f = tfi_new();
    files_opts   o = tfi_opts;
    const int    here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char         in[FILES_ID], id[FILES_ID], good[FILES_ID], data[160], tmp[160], mine[160], says[200];
    struct stat  st;
    if (!f) return;
    tfi_upload(f, "in", "batch", "1\n2\n", in);
    EQ_INT(tfi_create(f, in, "", id), 200);
    EQ_INT(tfi_run(f, 1), 1);
    files_close(f);
    snprintf(data, sizeof data, "%s/file-%032d.jsonl", tfi_folder, 7);
    snprintf(tmp, sizeof tmp, "%s/%s.json.tmp", tfi_folder, id);
    snprintf(mine, sizeof mine, "%s/notes.jsonl", tfi_folder);
    close(open(data, O_WRONLY | O_CREAT, 0600));
    close(open(tmp, O_WRONLY | O_CREAT, 0600));
    close(open(mine, O_WRONLY | O_CREAT, 0600));
    o.settings = bytes_of("model=n\n");
    o.folder = "d";                                   /* a link, and a letter of the message */
    if (chdir(tfi_dir) || symlink("files", "d")) abort();
    f = tfi_open(o);
    if (!f || fchdir(here)) abort();
    close(here);
    strcpy(good, f->batch[0]->good_id);
    CHECK(stat(data, &st) && stat(tmp, &st) && !stat(mine, &st));
    EQ_INT(tfi_run(f, 9), 0);
    tfi_expect(f, id, "1 ", "", "{\"total\":2,\"completed\":1,\"failed\":0}", "\"failed\"");
    snprintf(says, sizeof says,
             "\"message\":\"%s.jsonl: was made with model m, this run has n, expected the same settings\"", good);
    CHECKF(strstr(tfi_ask(f, "/batches", id, "errors"), says) != NULL, "%s", tfi_ask(f, "/batches", id, "errors"));
    CHECK(!strstr(tfi_ask(f, "/batches", id, "errors"), tfi_dir));
    files_close(f);
    tfi_clean();
}

/* --- what goes wrong --- */

/* The system has few descriptors when a batch begins: it begins later, whichever of its files could not be opened. */
static void t_files_shortage(void) {
    files_store  *f = tfi_new();
    char          in[FILES_ID], id[FILES_ID];
    struct rlimit was, few;
    files_line    l;
    files_got     got = FILES_AGAIN;
    req           q = {0};
    int           n = 0;
    if (!f) return;
    tfi_upload(f, "in", "batch", "1\n2\n", in);
    EQ_INT(tfi_create(f, in, "", id), 200);
    const int first = dup(f->held);
    close(first);
    if (first < 0 || getrlimit(RLIMIT_NOFILE, &was)) abort();
    for (; n < 20 && got == FILES_AGAIN; n++) {
        few = (struct rlimit){(rlim_t)(first + n), was.rlim_max};
        f->batch[0]->again = 0;
        CHECK(files_has_work(f));
        if (setrlimit(RLIMIT_NOFILE, &few)) abort();
        got = files_next(f, &l);
        if (setrlimit(RLIMIT_NOFILE, &was)) abort();
        if (got != FILES_AGAIN) break;
        CHECK(f->batch[0]->again > 0 && !f->batch[0]->in && !f->batch[0]->good && !f->batch[0]->torn);
        EQ_STR(tfi_ask(f, "/batches", id, "status"), "\"validating\"");
    }
    CHECKF(n >= 4, "%d descriptors were enough", n);
    EQ_INT(got, FILES_LINE);
    files_refuse(f, &l, &q, "out_of_room", "none");
    EQ_INT(tfi_run(f, 9), 1);
    tfi_expect(f, id, "2 ", "1(out_of_room) ", "{\"total\":2,\"completed\":1,\"failed\":1}", "\"completed\"");
    EQ_INT(f->used, tfi_used(f));
    files_close(f);
    tfi_clean();
}

/* A batch whose end cannot be written goes on later, in this run or the next; its results stay, and grow by what was missing. */
static void t_files_end(void) {
    str text = {0}, out = {0};
    tfi_input(&text);
    for (int kind = 0; kind < 6; kind++) {            /* what is not written: kind / 2; then the next run ends it, or this one */
        files_store *f = tfi_new();
        char         in[FILES_ID], id[FILES_ID], bad[FILES_ID], head[120];
        if (!f) return;
        tfi_upload(f, "in", "batch", text.p, in);
        EQ_INT(tfi_create(f, in, "", id), 200);
        EQ_INT(tfi_run(f, 1), 1);
        strcpy(bad, f->batch[0]->bad_id);
        const char *const which = kind < 2 ? bad : id;
        tfi_block(f, which, ".json.tmp", true);
        if (kind >= 4) f->o.most = 0;                 /* no space for the second record: it ends with one and cannot say so */
        EQ_INT(tfi_run(f, 100), kind >= 4 ? 0 : 3);
        CHECK(!files_has_work(f));
        EQ_STR(tfi_ask(f, "/batches", id, "status"), "\"in_progress\"");
        snprintf(head, sizeof head, "DELETE /files/%s", f->batch[0]->good_id);
        EQ_INT(tfi_get(f, head, &out), 409);
        CHECK(strstr(out.p, "is written by batch_") != NULL);
        tfi_block(f, which, ".json.tmp", false);
        if (kind % 2 || kind >= 4) f = tfi_again(f);
        else f->batch[0]->again = 0;
        EQ_INT(tfi_run(f, 100), kind >= 4 ? 3 : 0);
        tfi_expect(f, id, TFI_GOOD, TFI_BAD, TFI_ALL, "\"completed\"");
        EQ_INT(f->used, tfi_used(f));
        f = tfi_again(f);
        tfi_expect(f, id, TFI_GOOD, TFI_BAD, TFI_ALL, "\"completed\"");
        files_close(f);
    }
    str_drop_all(&text, &out);
    tfi_clean();
}

/* What is kept of a file or a batch is bounded; one whose ID.json is damaged or too long is left out and loses nothing. */
static void t_files_damaged(void) {
    files_store *f = tfi_new();
    char         in[FILES_ID], id[FILES_ID];
    str          text = {0}, meta = {0}, kept = {0}, good = {0}, data = {0};
    struct stat  st;
    err_t        e = {0};
    if (!f) return;
    str_put(&text, ",\"metadata\":{");
    while (text.n < 70000) str_put(&text, " ");
    str_put(&text, "}");
    tfi_upload(f, "in", "batch", "1\n2\n", in);
    EQ_INT(tfi_create(f, in, text.p, id), 400);
    EQ_INT(tfi_create(f, in, "", id), 200);
    EQ_INT(tfi_run(f, 1), 1);
    while (f->batch[0]->window.n < FILES_META) str_put(&f->batch[0]->window, "xxxxxxxxxxxxxxxx");
    CHECK(!files__save_batch(f, f->batch[0], &e) && strstr(e.text, "expected at most 1048576"));
    str_set(&f->batch[0]->window, bytes_of("24h"));
    for (int kind = 0; kind < 4; kind++) {            /* of the file, of the batch; too long, no JSON */
        files__path(f, f->batch[0]->good_id, ".jsonl", &good);
        files__path(f, in, ".jsonl", &data);
        files__path(f, kind & 1 ? id : in, ".json", &meta);
        str_clear(&kept);
        str_fmt(&kept, "%s.kept", meta.p);
        files_close(f);
        if (rename(meta.p, kept.p)) abort();
        const int fd = open(meta.p, O_WRONLY | O_CREAT, 0600);
        if (fd < 0 || ftruncate(fd, kind & 2 ? 9 : FILES_META + 1)) abort();
        close(fd);
        f = tfi_open(tfi_opts);
        if (!f) abort();
        EQ_INT(f->n_files, kind & 1);
        EQ_INT(f->n_batches, !(kind & 1));
        CHECK(!stat(good.p, &st) && st.st_size > 0 && !stat(data.p, &st) && st.st_size == 4);
        files_close(f);
        if (rename(kept.p, meta.p)) abort();
        f = tfi_open(tfi_opts);
        if (!f) abort();
    }
    EQ_INT(tfi_run(f, 9), 1);
    tfi_expect(f, id, "1 2 ", "", "{\"total\":2,\"completed\":2,\"failed\":0}", "\"completed\"");
    EQ_INT(f->used, tfi_used(f));
    files_close(f);
    str_drop_all(&text, &meta, &kept, &good, &data);
    tfi_clean();
}

/* Uploads and deletions that fail halfway leave nothing, or all that is known of. */
static void t_files_half(void) {
    files_store  *f = tfi_new();
    char          id[FILES_ID], none[FILES_ID], head[120];
    struct rlimit was, few;
    str           out = {0};
    if (!f) return;
    void (*const before)(int) = signal(SIGXFSZ, SIG_IGN);
    EQ_INT(tfi_upload(f, "a", "batch", "x\n", id), 200);
    const size_t n = tfi_n_entries(f);
    tfi_in_memory = true;
    if (getrlimit(RLIMIT_FSIZE, &was)) abort();
    few = (struct rlimit){10, was.rlim_max};          /* enough for the data, too few for what it is */
    if (setrlimit(RLIMIT_FSIZE, &few)) abort();
    const int full = tfi_upload(f, "a", "batch", "x\n", none), full_batch = tfi_create(f, id, "", none);
    if (setrlimit(RLIMIT_FSIZE, &was)) abort();
    signal(SIGXFSZ, before);
    EQ_INT(full, 507);
    EQ_INT(full_batch, 507);
    const int first = dup(f->held);
    close(first);
    if (first < 0 || getrlimit(RLIMIT_NOFILE, &was)) abort();
    few = (struct rlimit){(rlim_t)first, was.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &few)) abort();
    const int busy = tfi_upload(f, "a", "batch", "x\n", none);
    if (setrlimit(RLIMIT_NOFILE, &was)) abort();
    tfi_in_memory = false;
    EQ_INT(busy, 500);
    EQ_INT(tfi_n_entries(f), n);
    EQ_INT(f->n_files, 1);
    EQ_INT(f->n_batches, 0);
    tfi_block(f, id, ".jsonl.llmrun", true);
    snprintf(head, sizeof head, "DELETE /files/%s", id);
    EQ_INT(tfi_get(f, head, &out), 500);
    CHECK(strstr(out.p, "cannot remove") != NULL);
    EQ_INT(f->n_files, 1);
    tfi_block(f, id, ".jsonl.llmrun", false);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_INT(tfi_get(f, head, &out), 404);
    EQ_INT(f->used, 0);
    files_close(f);
    str_drop(&out);
    tfi_clean();
}

/* A batch fails while another line of it is being answered: what that line points to stays, and its record is dropped. */
static void t_files_in_flight(void) {
    files_store *f = tfi_new();
    char         in[FILES_ID], id[FILES_ID];
    files_line   l[2];
    req          q = {0};
    if (!f) return;
    tfi_upload(f, "in", "batch", "1\n2\n3\n", in);
    EQ_INT(tfi_create(f, in, "", id), 200);
    EQ_INT(files_next(f, &l[0]), FILES_LINE);
    EQ_INT(files_next(f, &l[1]), FILES_LINE);
    f->o.most = 0;
    files_refuse(f, &l[0], &q, "out_of_room", "none");
    CHECK(!strncmp(l[1].fingerprint, "llmrun-m-", 9));
    files_refuse(f, &l[1], &q, "out_of_room", "none");
    tfi_expect(f, id, "", "", "{\"total\":3,\"completed\":0,\"failed\":0}", "\"failed\"");
    CHECK(!files_has_work(f));
    EQ_INT(f->used, tfi_used(f));
    files_close(f);
    tfi_clean();
}

/* A batch that a killed server had begun is cancelled before its turn: half a record is no part of its results. */
static void t_files_cancel_torn(void) {
    files_store *f = tfi_new();
    char         in[FILES_ID], id[FILES_ID], head[120];
    str          out = {0}, path = {0};
    if (!f) return;
    tfi_upload(f, "in", "batch", "1\n2\n", in);
    EQ_INT(tfi_create(f, in, "", id), 200);
    EQ_INT(tfi_run(f, 1), 1);
    files__path(f, f->batch[0]->good_id, ".jsonl", &path);
    files_close(f);
    const int fd = open(path.p, O_WRONLY | O_APPEND);
    if (fd < 0 || write(fd, "{\"id\":\"batch_req_9_0", 20) != 20) abort();
    close(fd);
    f = tfi_open(tfi_opts);
    if (!f) abort();
    f->batch[0]->completed = 0;                       /* the killed server's last ID.json had no counts */
    snprintf(head, sizeof head, "POST /v1/batches/%s/cancel", id);
    EQ_INT(tfi_get(f, head, &out), 200);
    EQ_STR(tfi_member(&out, "status"), "\"cancelled\"");
    tfi_expect(f, id, "1 ", "", "{\"total\":2,\"completed\":1,\"failed\":0}", "\"cancelled\"");
    EQ_INT(f->used, tfi_used(f));
    files_close(f);
    str_drop_all(&out, &path);
    tfi_clean();
}

static const t_case t_files_cases[] = {
    {"files keep", "files: kept with their names, sizes and bytes, also for the next server; modes; one server", t_files_keep},
    {"files lists", "pages of lists", t_files_lists},
    {"files refused", "requests that are wrong, each with its status", t_files_refused},
    {"files quota", "no more bytes than were allowed", t_files_quota},
    {"files batch", "a batch: each line is answered once, errors apart, in the order of the batches", t_files_batch},
    {"files cancel", "a cancelled batch ends with what it has", t_files_cancel},
    {"files restart", "a server that ends anywhere is continued by the next one", t_files_restart},
    {"files other", "a server with another model ends a batch; leftovers are removed, other files are not", t_files_other},
    {"files shortage", "a batch that cannot open its files begins later", t_files_shortage},
    {"files end", "a batch whose end cannot be written ends later and loses nothing", t_files_end},
    {"files damaged", "what is damaged or too long is left out and kept", t_files_damaged},
    {"files half", "uploads and deletions that fail halfway", t_files_half},
    {"files in flight", "a batch that fails while a line is being answered", t_files_in_flight},
    {"files cancel torn", "a batch with half a record is cancelled without it", t_files_cancel_torn},
};
static const t_suite t_files_suite = SUITE(t_files_cases);
