/* [results]: files survive every cut, a full disk and a second writer; several of them become one. Helpers with tl_ stand in
 * t_lines.c. */
#include "program.h"
#include "check.h"
#include "t_base.h"
#include "t_lines.h"

static const char *tl_fingerprint, *tl_input;         /* of the records that are made, NULL: none; the file of their lines */
static bool        tl_old;                            /* they are of an earlier version */

/* The line whose hash and digest are made of this number. */
static results_line tl_which(uint64_t hash) { return (results_line){{hash, ~hash}, hash}; }

static void tl_add(str *s, uint64_t line, uint64_t hash, const char *id, const char *text) {
    str_fmt(s, "{\"id\":\"batch_req_%llu_%016llx", (unsigned long long)line, (unsigned long long)hash);
    if (!tl_old) str_fmt(s, "%016llx", (unsigned long long)~hash);
    str_put(s, "\",\"custom_id\":");
    if (id) str_json(s, bytes_of(id));
    else str_put(s, "null");
    if (tl_fingerprint) str_fmt(s, ",\"line\":%llu", (unsigned long long)line);
    if (tl_input) str_fmt(s, ",\"file\":\"%s\"", tl_input);
    if (text) {
        str_fmt(s, ",\"response\":{\"status_code\":200,\"request_id\":\"r\",\"body\":{\"id\":\"c\",\"object\":\"o\",\"created\":%d,\"model\":\"m\"", (int)(line % 7));
        if (tl_fingerprint) str_fmt(s, ",\"system_fingerprint\":\"%s\"", tl_fingerprint);
        str_fmt(s, ",\"choices\":[{\"text\":\"%s\"}],\"usage\":{}}},\"error\":null}\n", text);
    } else str_put(s, ",\"response\":null,\"error\":{\"code\":\"duplicate_custom_id\",\"message\":\"m\"}}\n");
}

#define TL_HEAD "{\"id\":\"batch_req_1_00000000000000ff\",\"custom_id\":"
static void t_results_record(void) {
    static const struct { const char *text; size_t n; const char *id; size_t n_id; } good[] = {
        {TL(TL_HEAD "null,\"response\":{}}"), NULL, 0},
        {TL(TL_HEAD "\"\",\"response\":{}}"), TL("")},
        {TL(TL_HEAD "\"a b\",\"response\":null}"), TL("a b")},
        {TL(TL_HEAD "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"response\":{}}"), TL("\"\\/\b\f\n\r\t")},
        {TL(TL_HEAD "\"\\u0000\\u0041\\u00e9\\u20aC\\ud83d\\uDE00\",\"response\":{}}"),
         TL("\0A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")},
        {TL(TL_HEAD "\"\xff\x80\xc3\xa9\x7f\",\"response\":{}}"), TL("\xff\x80\xc3\xa9\x7f")},
        {TL(TL_HEAD "null,\"line\":1,\"response\":{}}"), NULL, 0},
        {TL(TL_HEAD "\"x\",\"line\":1,\"file\":\"a\\\"b\",\"response\":{}}"), TL("x")},
    };
    static const struct { const char *text; size_t n; } bad[] = {
        {TL("")}, {TL("}")}, {TL("{}")}, {TL("\n")}, {TL(" " TL_HEAD "null,\"response\":{}}")},
        {TL(TL_HEAD "null,\"line\":2,\"response\":{}}")}, {TL(TL_HEAD "null,\"line\":,\"response\":{}}")},
        {TL(TL_HEAD "null,\"line\":1,\"file\":null,\"response\":{}}")}, {TL(TL_HEAD "null,\"line\":1,\"file\":\"a}")},
        {TL(TL_HEAD "null,\"response\":{")}, {TL(TL_HEAD "null}")}, {TL(TL_HEAD "}")}, {TL(TL_HEAD "\"}")},
        {TL(TL_HEAD "\"a}")}, {TL(TL_HEAD "\"a\"}")}, {TL(TL_HEAD "1,\"response\":{}}")},
        {TL(TL_HEAD "\"\\x\",\"response\":{}}")}, {TL(TL_HEAD "\"\\u12\",\"response\":{}}")},
        {TL(TL_HEAD "\"\\ud800\",\"response\":{}}")}, {TL(TL_HEAD "\"\\udc00\",\"response\":{}}")},
        {TL(TL_HEAD "\"\\ud800\\u0041\",\"response\":{}}")}, {TL(TL_HEAD "\"\x01\",\"response\":{}}")},
        {TL("{\"id\":\"batch_req_0_00000000000000ff\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_01_00000000000000ff\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req__00000000000000ff\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_18446744073709551616_00000000000000ff\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_1_00000000000000f\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_1_00000000000000FF\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_1_000000000000000ff\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_1_00000000000000ff0000000000000000f\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_1_00000000000000ff000000000000000\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_req_1_00000000000000ff00000000000000FF\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\":\"batch_abc\",\"custom_id\":null,\"response\":{}}")},
        {TL("{\"id\": \"batch_req_1_00000000000000ff\", \"custom_id\": null, \"response\": {}}")},
        {TL("{\"custom_id\":null,\"id\":\"batch_req_1_00000000000000ff\",\"response\":{}}")},
    };
    results__record h;
    str           id = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!CHECKF(results__read((bytes){(const uint8_t *)good[i].text, good[i].n}, &h, &id), "row %zu", i)) continue;
        CHECKF(h.line == 1 && h.old && digest_eq(h.digest, (digest){255, 0}) && h.has_id == (good[i].id != NULL) && !h.twice, "row %zu", i);
        CHECKF(id.n == good[i].n_id && (!id.n || !memcmp(id.p, good[i].id, id.n)), "row %zu: custom_id", i);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *exact = mem_new(bad[i].n, 1);           /* nothing behind the last byte */
        memcpy(exact, bad[i].text, bad[i].n);
        CHECKF(!results__read((bytes){(uint8_t *)exact, bad[i].n}, &h, &id), "row %zu: %s", i, bad[i].text);
        mem_free(exact);
    }
    str s = {0};
    tl_add(&s, UINT64_MAX, UINT64_MAX, "x", NULL);
    CHECK(results__read((bytes){(uint8_t *)s.p, s.n - 1}, &h, &id) && h.twice && h.line == UINT64_MAX &&
          !h.old && digest_eq(h.digest, (digest){UINT64_MAX, 0}));
    for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 997) {           /* characters by code, and as they are */
        char   text[128], want[8];
        bytes  b = {(uint8_t *)text, 0};
        if (c >= 0xd800 && c < 0xe000) continue;
        if (c < 0x10000) b.n = (size_t)snprintf(text, sizeof text, "\"\\u%04x\"", c);
        else b.n = (size_t)snprintf(text, sizeof text, "\"\\u%04x\\u%04x\"", 0xd800 + ((c - 0x10000) >> 10),
                                    0xdc00 + (c & 0x3ff));
        str_clear(&id);
        CHECK(results__string(&b, &id) && !b.n && utf8_len((uint8_t *)id.p, id.n) == (int)id.n);
        str_clear(&s);
        memcpy(want, id.p, id.n + 1);
        str_json(&s, str_bytes(&id));
        b = str_bytes(&s);
        str_clear(&id);
        CHECKF(results__string(&b, &id) && !b.n && !strcmp(id.p, want), "U+%04X", c);
    }
    str_drop(&s);
    str_drop(&id);
}

static const bytes tl_settings = {(const uint8_t *)"model=m\nseed=7\ntemp=0.5\n", 24};

static results *tl_open(const char *path, bool resume, err_t *e) {
    *e = (err_t){0};
    return results_open(path, resume, tl_settings, e);
}

/* A file of n records, lines 1 to n, and its header; those whose number is even have a custom_id. */
static str tl_whole(const char *path, int n) {
    str      s = {0};
    char     id[32];
    err_t    e;
    unlink(path);
    results *r = tl_open(path, false, &e);
    if (!CHECKF(r != NULL, "%s", e.text)) return s;
    for (int i = 1; i <= n; i++) {
        size_t from = s.n;
        snprintf(id, sizeof id, "id \"%d\"", i);
        tl_add(&s, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? NULL : id, "a text");
        CHECK(results_put(r, (bytes){(uint8_t *)s.p + from, s.n - from}, &e));
    }
    CHECK(results_close(r, &e));
    return s;
}

static bool tl_has(results *r, int i) {
    return results_use_old(r, 0, (uint64_t)i, tl_which(rng_mix((uint64_t)i)), i % 2 == 0);
}

static bool tl_is(const char *path, str want) {
    size_t n = 0;
    char  *got = t_read(path, &n);
    bool   same = got && n == want.n && (!n || !memcmp(got, want.p, n));
    mem_free(got);
    return same;
}

/* Cut at every byte, a file keeps its whole records, and the next run adds what is missing. */
static void t_results_torn(void) {
    enum { N = 3 };
    const char *path = tl_path("torn.jsonl");
    str         all = tl_whole(path, N);
    for (size_t cut = 0; cut <= all.n; cut++) {
        err_t e;
        if (truncate(tl_file("torn.jsonl", all.p, all.n), (off_t)cut)) abort();
        results *r = tl_open(path, true, &e);
        if (!CHECKF(r != NULL, "cut at %zu: %s", cut, e.text)) break;
        int    whole = 0;
        size_t at = 0;
        for (size_t i = 0; i < cut; i++)
            if (all.p[i] == '\n') whole++, at = i + 1;
        EQ_INT(r->n_old, whole);
        for (int i = 1; i <= N; i++) CHECKF(tl_has(r, i) == (i <= whole), "cut at %zu, line %d", cut, i);
        CHECK(!tl_has(r, N + 1) && !tl_has(r, 2));    /* asked for once, line 2 is not answered twice */
        CHECK(tl_is(path, (str){all.p, at, 0}));
        if (at < all.n) CHECK(results_put(r, (bytes){(uint8_t *)all.p + at, all.n - at}, &e));
        if (cut % 64) results__free(r);               /* without waiting for the disk */
        else CHECK(results_close(r, &e));
        CHECK(tl_is(path, all));
    }
    str_drop(&all);
}

/* Of each part of a file that reads as zeros, the records that it touches are removed, and no other ones. Without a header it may
 * be a file of someone else, which stays as it is; to merge it is an error. */
static void t_results_damaged(void) {
    enum { N = 5 };
    const char *path = tl_path("damaged.jsonl");
    str         all = tl_whole(path, N), want = {0}, id = {0};
    for (size_t from = 0; from < all.n; from += 7)
        for (size_t to = from + 1; to <= all.n; to += 1 + 4 * (to - from)) {
            err_t e;
            char *p = (char *)mem_new(all.n, 1);
            memcpy(p, all.p, all.n);
            memset(p + from, 0, to - from);
            tl_file("damaged.jsonl", p, all.n);
            results *r = tl_open(path, true, &e);
            if (!CHECKF(r != NULL, "zeros in [%zu, %zu): %s", from, to, e.text)) return;
            str_clear(&want);
            uint64_t whole = 0;
            int      i = 1;
            for (size_t at = 0, n; at < all.n; at += n, i++) {
                n = (size_t)(strchr(all.p + at, '\n') - all.p) - at + 1;
                const bool there = at + n <= from || at > to;    /* a newline that is gone joins two */
                if (there) str_add(&want, all.p + at, n), whole++;
                CHECKF(tl_has(r, i) == there, "zeros in [%zu, %zu): line %d", from, to, i);
            }
            EQ_INT(r->n_old, whole);
            CHECKF(tl_is(path, want), "zeros in [%zu, %zu)", from, to);
            CHECK(access(tl_path("damaged.jsonl.stale"), F_OK) != 0);
            results__free(r);
            mem_free(p);
        }
    err_t e = {0};
    all.p[all.n - 20] = 0;
    tl_file("damaged.jsonl", all.p, all.n);
    str_fmt(&id, "%s.llmrun", path);
    CHECK(unlink(id.p) == 0 && !tl_open(path, true, &e) && tl_is(path, all));
    e = (err_t){0};
    CHECK(!results_merge(&path, 1, &(out_t){stdout, "stdout", 0, false}, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "line 5 holds NUL bytes"), "\"%s\"", e.text);
    str_drop_all(&all, &want, &id);
}

/* The lines of a file as the batch asks for them: number, hash, whether a custom_id of theirs is the first. */
typedef struct {
    uint64_t line, hash;
    bool     by_id, want;
} tl_ask;

static void tl_ask_all(results *r, const tl_ask *ask, size_t n) {
    for (size_t i = 0; i < n; i++)
        CHECKF(results_use_old(r, 0, ask[i].line, tl_which(ask[i].hash), ask[i].by_id) == ask[i].want, "line %llu, hash %llu",
               (unsigned long long)ask[i].line,
               (unsigned long long)ask[i].hash);
}
#define TL_ASK(r, rows) tl_ask_all(r, rows, sizeof rows / sizeof *rows)

static void t_results_ids(void) {
    static const tl_ask asked[] = {
        {1, 55, true, true}, {1, 55, true, false},    /* with a custom_id the content counts, not the place; once */
        {2, 98, true, false},                         /* the custom_id stayed, the content was edited */
        {4, 66, true, false},                         /* that record is an error of another line */
        {6, 66, false, true}, {6, 66, false, false}, {9, 99, false, false}, {7, 77, false, false}, {8, 77, false, true},
    };
    const char *path = tl_path("ids.jsonl");
    str         s = {0};
    err_t       e;
    str         none = tl_whole(path, 0);
    tl_add(&s, 5, 55, "one", "first");
    tl_add(&s, 9, 99, "two", "second");
    tl_add(&s, 6, 66, "late", NULL);                  /* says that an earlier line has its custom_id */
    tl_add(&s, 8, 77, NULL, "no id");
    tl_file("ids.jsonl", s.p, s.n);
    results *r = tl_open(path, true, &e);
    if (!CHECKF(r != NULL, "%s", e.text)) return;
    EQ_INT(r->n_old, 4);
    EQ_INT(r->n_old_failed, 1);
    TL_ASK(r, asked);
    const bytes one = bytes_of("one");
    CHECK(results_add_id(r, 0, one) && !results_add_id(r, 0, one) && results_add_id(r, 0, bytes_of("late")));
    CHECK(results_add_id(r, 1, one) && !results_add_id(r, 1, one));              /* another file may have the same */
    CHECK(results_add_id(r, 0, bytes_of("")) && !results_add_id(r, 0, bytes_of("")));
    for (int i = 0; i < 20000; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        if (!CHECKF(results_add_id(r, 0, bytes_of(id)) && !results_add_id(r, 0, bytes_of(id)), "id %d", i)) break;
    }
    r->n_ids = RESULTS_IDS;                             /* as many as are remembered: known ones are, others are taken */
    CHECK(!results_add_id(r, 0, one) && results_add_id(r, 0, bytes_of("new")) && results_add_id(r, 0, bytes_of("new")));
    results_reset_ids(r);
    CHECK(results_add_id(r, 0, one) && !results_add_id(r, 0, one));
    results_close(r, &e);
    str_drop(&s);
    str_drop(&none);
}

/* Records that answer no line leave the file for FILE.stale, those whose line has moved get its number; what was put since
 * stays behind them. */
static void t_results_stale(void) {
    static const tl_ask lines[] = {{1, 11, false, true}, {2, 20, false, false}, {4, 33, true, true}};
    const char *path = tl_path("stale.jsonl"), *stale = tl_path("stale.jsonl.stale");
    str         s = {0}, want = {0}, gone = {0}, none = tl_whole(path, 0);
    err_t       e;
    unlink(stale);
    tl_fingerprint = "llmrun-m-00000000-7";
    str right = {0};
    results__fingerprint(tl_settings, &right);
    tl_fingerprint = right.p;
    tl_add(&s, 1, 11, NULL, "stays");
    tl_add(&s, 2, 22, NULL, "edited");
    tl_add(&s, 3, 33, "c", "moves");
    tl_add(&s, 1, 11, NULL, "twice");
    tl_fingerprint = "llmrun-other-00000000-7";
    tl_add(&s, 2, 20, NULL, "of another model");
    tl_fingerprint = right.p;
    str_put(&s, "{\"id\":\"batch_req_9_0000000000000063\",\"custom_id\":\"\xff\",\"response\":{\"x\":\"\xe2\x82\"}}\n");
    tl_file("stale.jsonl", s.p, s.n);
    for (int turn = 0; turn < 2; turn++) {            /* the second run finds nothing to move */
        results *r = tl_open(path, true, &e);
        if (!CHECKF(r != NULL, "%s", e.text)) return;
        EQ_INT(r->n_old, turn ? 4 : 6);
        if (!turn) TL_ASK(r, lines);
        else CHECK(results_use_old(r, 0, 1, tl_which(11), false) && results_use_old(r, 0, 2, tl_which(20), false) &&
                   results_use_old(r, 0, 4, tl_which(33), true));
        CHECK(results_use_old(r, 0, 9, tl_which(99), true));
        str_clear(&want);
        tl_add(&want, 2, 20, NULL, "anew");
        if (!turn) CHECK(results_put(r, str_bytes(&want), &e));
        CHECKF(results_move_stale(r, &e), "%s", e.text);
        EQ_INT(r->n_stale, turn ? 0 : 3);
        EQ_INT(r->n_old, turn ? 4 : 3);
        CHECK(results_close(r, &e));
    }
    str_clear(&want);
    tl_add(&want, 1, 11, NULL, "stays");
    size_t moved = want.n;
    tl_add(&want, 3, 33, "c", "moves");               /* of that record only the number changes */
    memcpy(strstr(want.p + moved, "req_3") + 4, "4", 1);
    memcpy(strstr(want.p + moved, "\"line\":3") + 7, "4", 1);
    str_put(&want, "{\"id\":\"batch_req_9_0000000000000063\",\"custom_id\":\"\xef\xbf\xbd\",\"response\":{\"x\":\"\xef\xbf\xbd\"}}\n");
    tl_add(&want, 2, 20, NULL, "anew");
    CHECK(tl_is(path, want));
    tl_add(&gone, 2, 22, NULL, "edited");
    tl_add(&gone, 1, 11, NULL, "twice");
    tl_fingerprint = "llmrun-other-00000000-7";
    tl_add(&gone, 2, 20, NULL, "of another model");
    str_put(&gone, "{\"id\":\"batch_req_9_0000000000000063\",\"custom_id\":\"\xff\",\"response\":{\"x\":\"\xe2\x82\"}}\n");
    CHECK(tl_is(stale, gone));
    CHECK(access(tl_path("stale.jsonl.llmrun.new"), F_OK) != 0);
    tl_fingerprint = NULL;
    str_drop(&right);
    str_drop(&s);
    str_drop(&want);
    str_drop(&gone);
    str_drop(&none);
}

/* Two records, of which the second answers no line. */
static void tl_two(const char *name) {
    str s = {0};
    tl_add(&s, 1, 11, NULL, "stays");
    tl_add(&s, 2, 22, NULL, "goes");
    tl_file(name, s.p, s.n);
    str_drop(&s);
}

/* Resumes it. False: e says why not. */
static bool tl_two_move(const char *path, err_t *e) {
    results *r = tl_open(path, true, e);
    if (!CHECKF(r != NULL, "%s", e->text)) return false;
    CHECK(results_use_old(r, 0, 1, tl_which(11), false));
    const bool ok = results_move_stale(r, e);
    return results_close(r, &(err_t){0}) && ok;
}

/* What belongs to a file of results is open to nobody who may not read that, from its first byte. */
static void t_results_mode(void) {
    static const struct { unsigned mode; const char *header, *move; } rows[] = {
        {0600, "file name folder ", "file name folder file name folder file "},
        {0640, "600>640 file name folder ", "600>640 600>640 file name folder file name folder file "},
        {0644, "600>644 file name folder ", "600>644 600>644 file name folder file name folder file "},
    };
    const char  *path = tl_path("mode.jsonl"), *stale = tl_path("mode.jsonl.stale"), *header = tl_path("mode.jsonl.llmrun");
    const mode_t was = umask(022);
    err_t        e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unlink(stale), unlink(header);
        tl_file("mode.jsonl", "", 0);
        CHECK(chmod(path, rows[i].mode) == 0);
        t_calls();
        results *r = tl_open(path, false, &e);
        T_CALLED(rows[i].header);
        CHECK(r && results_close(r, &e));
        EQ_INT(t_base_mode(header), rows[i].mode);
        tl_two("mode.jsonl");
        t_calls();
        CHECKF(tl_two_move(path, &e), "%s", e.text);
        T_CALLED(rows[i].move);
        EQ_INT(t_base_mode(path), rows[i].mode);
        EQ_INT(t_base_mode(stale), rows[i].mode);
        CHECK(chmod(stale, 0664) == 0);               /* as an older version left it */
        tl_two("mode.jsonl");
        CHECKF(tl_two_move(path, &e), "%s", e.text);
        EQ_INT(t_base_mode(stale), 0664 & rows[i].mode);
    }
    umask(was);
}

/* FILE.stale grows only where earlier runs wrote it; what else has its name stays as it is, byte for byte. */
/* A file that cannot be read is not taken for one of something else. */
static void t_results_unread(void) {
    struct stat own;
    off_t       end = 0;
    str         old = {0};
    tl_add(&old, 7, 77, NULL, "moved before");
    tl_file("unread.jsonl", old.p, old.n);
    const int fd[2] = {open(tl_path("unread.jsonl"), O_WRONLY), open(tl_path("unread.jsonl"), O_RDONLY)};
    CHECK(fstat(fd[0], &own) == 0 && !results__earlier(fd[0], &own, &end) && errno == EBADF);
    CHECK(results__earlier(fd[1], &own, &end) && end == (off_t)old.n);
    own.st_nlink = 2;
    CHECK(!results__earlier(fd[1], &own, &end) && errno == 0);
    close(fd[0]), close(fd[1]);
    str_drop(&old);
}

static void t_results_not_stale(void) {
    const char *path = tl_path("own.jsonl"), *stale = tl_path("own.jsonl.stale"), *victim = tl_path("victim");
    str         old = {0}, torn = {0}, none = tl_whole(path, 0);
    tl_add(&old, 7, 77, NULL, "moved before");
    for (size_t cut = 1; cut <= old.n; cut++) {       /* a run that was killed there */
        err_t e = {0};
        str_clear(&torn);
        str_add(&torn, old.p, old.n);
        str_add(&torn, old.p, cut);
        tl_file("own.jsonl.stale", torn.p, torn.n);
        tl_two("own.jsonl");
        CHECKF(tl_two_move(path, &e), "%s", e.text);
        str_clear(&torn);
        for (int i = 0; i < 1 + (cut == old.n); i++) str_add(&torn, old.p, old.n);
        tl_add(&torn, 2, 22, NULL, "goes");
        CHECK(tl_is(stale, torn));
    }
    static const char *const texts[] = {"my notes\n", "my notes", "{\"id\":\"other\"}\n", "\n"};
    for (int how = 0; how < 8; how++) {
        err_t e = {0};
        unlink(stale), unlink(victim);
        str_set(&torn, str_bytes(&old));
        if (how < 4) str_set(&torn, bytes_of(texts[how]));
        if (how == 7) str_put(&torn, "and my notes");
        tl_file(how == 4 || how == 5 ? "victim" : "own.jsonl.stale", torn.p, torn.n);
        if (how == 4) CHECK(symlink(victim, stale) == 0);
        if (how == 5) CHECK(link(victim, stale) == 0);
        if (how == 6) CHECK(unlink(stale) == 0 && mkfifo(stale, 0600) == 0);
        tl_two("own.jsonl");
        char *was = t_read(path, NULL), *all;
        CHECK(!tl_two_move(path, &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, ".stale: is no file of earlier results"), "case %d: %s", how, e.text);
        if (how != 6) CHECKF(tl_is(stale, torn), "case %d", how);
        all = t_read(path, NULL);                     /* and no record is lost */
        EQ_STR(all, was);
        CHECK(access(tl_path("own.jsonl.llmrun.new"), F_OK) != 0);
        mem_free(all);
        mem_free(was);
    }
    unlink(stale);
    str_drop_all(&old, &torn, &none);
}

/* Without a header the answers have to carry the fingerprint of this run; its seed can be read from them. */
static void t_results_fingerprint(void) {
    static const char *const same[] = {"model=m\nseed=7\ntemp=0.5\n", "seed=7\nmodel=m\ntemp=0.5\n",
                                       "model=m\nseed=7\ntemp=0.5\nshard=\"1/2\"\n"};
    static const char *const other[] = {"model=n\nseed=7\ntemp=0.5\n", "model=m\nseed=8\ntemp=0.5\n",
                                        "model=m\nseed=7\ntemp=0.6\n", "model=m\nseed=drawn 7\ntemp=0.5\n"};
    const char *path = tl_path("print.jsonl"), *side = tl_path("print.jsonl.llmrun");
    str         right = {0}, s = {0}, got = {0}, none = tl_whole(path, 0);
    err_t       e;
    results__fingerprint(tl_settings, &right);
    for (size_t i = 0; i < sizeof same / sizeof *same + sizeof other / sizeof *other; i++) {
        const size_t n_same = sizeof same / sizeof *same;
        str_clear(&got);
        results__fingerprint(bytes_of(i < n_same ? same[i] : other[i - n_same]), &got);
        CHECKF((strcmp(got.p, right.p) == 0) == (i < n_same), "row %zu: %s beside %s", i, got.p, right.p);
    }
    tl_fingerprint = right.p;
    tl_add(&s, 1, 1, NULL, "a");
    tl_add(&s, 2, 2, "x", NULL);
    tl_file("print.jsonl", s.p, s.n);
    unlink(side);
    CHECK(results_seed(path, &got) && !strcmp(got.p, "7"));
    results *r = tl_open(path, true, &e);
    CHECKF(r && r->n_old == 2 && access(side, F_OK) == 0, "%s", e.text);      /* and the header is there again */
    results_close(r, &e);
    unlink(side);
    CHECK(!results_open(path, true, bytes_of(other[2]), &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, right.p) && strstr(e.text, "line 1 of the results") &&
           access(side, F_OK) != 0, "\"%s\"", e.text);
    tl_fingerprint = NULL;
    str_clear(&s);
    tl_add(&s, 1, 1, NULL, "a");                      /* of an older version */
    tl_file("print.jsonl", s.p, s.n);
    CHECK(!results_seed(path, &got) && !tl_open(path, true, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "none, expected llmrun-m-"), "\"%s\"", e.text);
    str_drop(&right);
    str_drop(&s);
    str_drop(&got);
    str_drop(&none);
}

/* A file that was written in any order is put into that of its inputs and lines; a lock stays with it. */
static void t_results_sort(void) {
    static const char *const names[] = {"b.jsonl", "a.jsonl"};
    const char *path = tl_path("sort.jsonl");
    str         want = {0}, none = tl_whole(path, 0);
    err_t       e, no = {0};
    results    *r = tl_open(path, false, &e);
    unlink(path);
    results_close(r, &e);
    unlink(tl_path("sort.jsonl.llmrun"));
    r = tl_open(path, false, &e);
    if (!CHECKF(r != NULL, "%s", e.text)) return;
    for (int i = 0; i < 20; i++) {
        str one = {0};
        tl_input = names[i * 7 % 20 / 10];
        tl_add(&one, (uint64_t)(i * 7 % 10 + 1), 5, NULL, "x");
        CHECK(results_put(r, str_bytes(&one), &e));
        str_drop(&one);
    }
    for (int i = 0; i < 20; i++) tl_input = names[i / 10], tl_add(&want, (uint64_t)(i % 10 + 1), 5, NULL, "x");
    tl_input = NULL;
    CHECKF(results_sort(r, names, 2, &e), "%s", e.text);
    CHECK(tl_is(path, want));
    CHECK(!results_open(path, true, tl_settings, &no) && strstr(no.text, "another run"));
    tl_add(&want, 11, 6, NULL, "behind");
    CHECK(results_put(r, (bytes){(uint8_t *)strstr(want.p, "{\"id\":\"batch_req_11"),
                                 strlen(strstr(want.p, "{\"id\":\"batch_req_11"))}, &e));
    CHECK(tl_is(path, want));
    results_close(r, &e);
    str_drop(&want);
    str_drop(&none);
}

static void t_results_refuse(void) {
    static const struct { const char *settings, *word; } unlike[] = {
        {"model=m\nseed=7\ntemp=0.6\n", "temp 0.5, this run has 0.6"},
        {"model=other\nseed=8\ntemp=0.6\n", "model m, this run has other"},
        {"model=m\nseed=7\n", "temp 0.5, this run has nothing"},
        {"model=m\nseed=7\ntemp=0.5\nn=1\n", "n nothing, this run has 1"},
        {"model=\nseed=7\ntemp=0.5\n", "model m, this run has ,"},
        {"temp=0.5\nmodel=m\nseed=77\n", "seed 7, this run has 77"},
    };
    static const struct { const char *text, *word; } header[] = {
        {"", "byte 0"}, {"llmrun results 2\nmodel=m\n", "byte 0"}, {"llmrun results 1", "byte 0"},
        {"llmrun results 1\nmodel=m", "byte 17: found an incomplete line"},
        {"llmrun results 1\nmodel=m\nseed\n", "byte 25: found no setting"},
        {"llmrun results 1\n=m\n", "byte 17"}, {"llmrun results 1\n\n", "byte 17"},
    };
    const char *path = tl_path("refuse.jsonl"), *side = tl_path("refuse.jsonl.llmrun");
    str         all = tl_whole(path, 3), s = {0};
    err_t       e;
    CHECK(!tl_open(path, false, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "--resume"), "\"%s\"", e.text);
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        e = (err_t){0};
        CHECK(!results_open(path, true, bytes_of(unlike[i].settings), &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, unlike[i].word), "row %zu: \"%s\"", i, e.text);
    }
    for (size_t i = 0; i < sizeof header / sizeof *header; i++) {
        tl_file("refuse.jsonl.llmrun", header[i].text, strlen(header[i].text));
        CHECK(!tl_open(path, true, &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, header[i].word) &&
               strstr(e.text, side), "header %zu: \"%s\"", i, e.text);
        e = (err_t){0};
        CHECK(!results_setting(path, "seed", &s, &e) && e.code == EXIT_INPUT);
    }
    unlink(side);
    CHECK(!tl_open(path, true, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, side) && strstr(e.text, "not found"), "\"%s\"", e.text);
    e = (err_t){0};
    CHECK(!results_seed(path, &s) && !results_setting(path, "seed", &s, &e) && !e.code && s.n == 0);
    CHECK(tl_is(path, all));                          /* whoever was refused changed nothing */

    str_drop(&all);
    all = tl_whole(path, 1);
    size_t one = all.n;
    str_put(&all, "a line that somebody wrote\n");
    tl_file("refuse.jsonl", all.p, all.n);
    CHECK(!tl_open(path, true, &e));
    char want[64];
    snprintf(want, sizeof want, "byte %zu: line 2 is no record", one);
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, want), "\"%s\"", e.text);
    CHECK(tl_is(path, all));
    static const struct { const char *path; bool resume; const char *word; } where[] = {
        {NULL, true, "stdout"}, {"-", true, "stdout"}, {"/dev/null", true, "no regular file"}, {"", false, "No such file"},
        {"/tmp/", false, "irectory"}, {"/nowhere/out.jsonl", false, "No such file"},
        {"/nowhere/out.jsonl", true, "No such file"},
    };
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        CHECK(!tl_open(where[i].path, where[i].resume, &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, where[i].word), "where %zu: \"%s\"", i, e.text);
    }
    str_drop(&all);
    str_drop(&s);
}

/* A header of a run that ended before its first record; of one that left half a header; behind a link. */
static void t_results_header(void) {
    const char *path = tl_path("head.jsonl"), *side = tl_path("head.jsonl.llmrun"), *link = tl_path("head.link");
    str         s = {0}, all = tl_whole(path, 0);
    err_t       e = {0};
    CHECK(results_setting(path, "seed", &s, &e) && !strcmp(s.p, "7") && !results_setting(path, "see", &s, &e) && !e.code);
    CHECK(!results_setting(path, "", &s, &e) && !e.code);
    tl_file("head.jsonl.llmrun.tmp", "llmrun res", 10);
    for (int resume = 0; resume < 2; resume++) {      /* no results yet: no settings to keep */
        results *r = results_open(path, resume, bytes_of("model=m\nseed=8\n"), &e);
        if (!CHECKF(r != NULL, "%s", e.text)) return;
        CHECK(results_close(r, &e) && results_setting(path, "seed", &s, &e) && !strcmp(s.p, "8"));
    }
    CHECK(access(tl_path("head.jsonl.llmrun.tmp"), F_OK) != 0);
    str_drop(&all);
    all = tl_whole(path, 2);
    unlink(link);
    if (symlink("head.jsonl", link)) abort();
    results *r = tl_open(link, true, &e);             /* the same header through a link */
    if (!CHECKF(r != NULL, "%s", e.text)) return;
    EQ_INT(r->n_old, 2);
    results_close(r, &e);
    char *text = t_read(side, NULL);
    EQ_STR(text ? text : "", "llmrun results 1\nmodel=m\nseed=7\ntemp=0.5\n");
    mem_free(text);
    str_drop(&s);
    str_drop(&all);
}

static void t_results_lock(void) {
    const char *path = tl_path("lock.jsonl");
    str         all = tl_whole(path, 2);
    int         up[2], down[2], status;
    char        c;
    err_t       e;
    if (pipe(up) || pipe(down)) abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        results *r = tl_open(path, true, &e);
        if (write(up[1], r ? "y" : "n", 1) != 1 || read(down[0], &c, 1) != 1) _exit(1);
        kill(getpid(), SIGKILL);
    }
    CHECK(read(up[0], &c, 1) == 1 && c == 'y');
    for (int resume = 0; resume < 2; resume++) {
        CHECK(!tl_open(path, resume, &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, "another run"), "\"%s\"", e.text);
    }
    CHECK(write(down[1], "x", 1) == 1 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    results *r = tl_open(path, true, &e);             /* the lock of a dead run is gone */
    CHECKF(r != NULL, "%s", e.text);
    if (r) results_close(r, &e);
    results *a = tl_open("/dev/null", false, &e), *b = tl_open("/dev/null", false, &e);
    CHECKF(a && b, "%s", e.text);                     /* what is no file has no single writer */
    results_close(a, &e);
    results_close(b, &e);
    for (int i = 0; i < 2; i++) close(up[i]), close(down[i]);
    str_drop(&all);
}

/* In a child: answers what is not answered yet, and writes a byte to a pipe when it has begun. At record `stop` it waits to be killed (0: never). */
static void tl_work(const char *path, int n, int stop, int up) {
    str      s = {0};
    char     id[32];
    err_t    e;
    results *r = tl_open(path, true, &e);
    if (!r || write(up, "y", 1) != 1) _exit(90);
    for (int i = 1; i <= n; i++) {
        if (tl_has(r, i)) continue;
        snprintf(id, sizeof id, "id \"%d\"", i);
        str_clear(&s);
        tl_add(&s, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? NULL : id, "a text");
        if (!results_put(r, str_bytes(&s), &e)) _exit(91);
        if (i % 8 == 0) usleep(20);
        if (i == stop) pause();
    }
    _exit(results_close(r, &e) ? 0 : 92);
}

/* Killed again and again, a run ends with one whole record for each line, as if nothing had been. */
static void t_results_killed(void) {
    enum { N = 4000 };
    const char *path = tl_path("killed.jsonl");
    str         all = tl_whole(path, N), none = tl_whole(path, 0);
    int         status = 0, kills = 0;
    for (int turn = 0; turn < 1000; turn++) {
        int  up[2];
        char c;
        if (pipe(up)) abort();
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) tl_work(path, N, turn == 0 ? N / 2 : 0, up[1]);    /* the first one is killed for certain */
        close(up[1]);
        bool begun = read(up[0], &c, 1) == 1;
        close(up[0]);
        usleep((useconds_t)(rng_at(1, 2, 3, (uint64_t)turn) % 3000));
        if (turn < 20) kill(pid, SIGKILL);
        if (!CHECK(begun && waitpid(pid, &status, 0) == pid)) break;
        if (WIFEXITED(status)) break;
        kills++;
    }
    CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d after %d kills", status, kills);
    CHECK(kills > 0 && tl_is(path, all));             /* one after the other, each run goes on where the last was cut */
    str_drop(&all);
    str_drop(&none);
}

/* In a child: a bound on the size of its files, so that record 4 is cut within. */
static void tl_full(int cut) {
    const char   *path = tl_path("full.jsonl");
    struct rlimit bound = {(rlim_t)cut, (rlim_t)cut};
    str           s = {0};
    err_t         e;
    static results *r;                                /* not lost where the process ends */
    signal(SIGXFSZ, SIG_IGN);
    r = tl_open(path, false, &e);
    if (!r || setrlimit(RLIMIT_FSIZE, &bound)) _exit(90);
    for (int i = 1; i <= 10; i++) {
        str_clear(&s);
        tl_add(&s, (uint64_t)i, rng_mix((uint64_t)i), NULL, "of some length");
        if (results_put(r, str_bytes(&s), &e)) continue;
        err_t again = {0};
        if (results_put(r, str_bytes(&s), &again) || again.code) _exit(91);
        die(e.code, "%s", e.text);
    }
}

static void tl_gone(int fd) {
    err_t e = {0};
    int   p[2];
    str   s = {0};
    signal(SIGPIPE, SIG_IGN);
    if (pipe(p) || close(p[0]) || dup2(p[1], STDOUT_FILENO) < 0 || fd) _exit(90);
    results *r = tl_open(NULL, false, &e);
    tl_add(&s, 1, 1, NULL, "x");
    if (!r || results_put(r, str_bytes(&s), &e) || e.code || r->why != EPIPE) _exit(91);
    _exit(results_close(r, &e) && !e.code ? 0 : 92);
}

static void t_results_disk(void) {
    const char *path = tl_path("full.jsonl");
    char        said[1000];
    err_t       e;
    str         one = {0};
    tl_add(&one, 1, rng_mix(1), NULL, "of some length");
    for (size_t cut = 3 * one.n; cut < 4 * one.n; cut += 13) {
        unlink(path);
        EQ_INT(t_base_child(tl_full, (int)cut, said, sizeof said), EXIT_RESOURCE);
        CHECKF(t_base_one_line(said) && strstr(said, "File too large; 3 results are complete, --resume"), "\"%s\"", said);
        struct stat st;
        CHECKF(stat(path, &st) == 0 && (size_t)st.st_size == 3 * one.n, "%lld bytes", (long long)st.st_size);
        results *r = tl_open(path, true, &e);
        if (!CHECKF(r != NULL, "%s", e.text)) break;
        EQ_INT(r->n_old, 3);
        results_close(r, &e);
    }
    EQ_INT(t_base_child(tl_gone, 0, said, sizeof said), 0);
    results *r = tl_open("/dev/full", false, &e);
    if (r) {
        CHECK(!results_put(r, str_bytes(&one), &e) && e.code == EXIT_RESOURCE);
        CHECKF(strstr(e.text, "No space left") && !strstr(e.text, "--resume"), "\"%s\"", e.text);
        results_close(r, &e);
    }
    str_drop(&one);
}

/* --- several files as one --- */

static bool tl_merge(const char *const *path, int n, const char *to, err_t *e) {
    FILE *f = fopen(to, "wb");
    out_t out = {f, to, 0, false};
    bool  ok = results_merge(path, n, &out, e);
    return out_end(&out, e) && ok;
}

static void t_results_merge(void) {
    enum { N = 300, FILES = 3 };
    static const char *const name[FILES] = {"m0", "m1", "m2"};
    const char              *path[FILES + 1] = {0};
    str                      part[FILES] = {0}, want = {0}, big = {0}, extra = {0};
    err_t                    e = {0};
    const char              *to = tl_path("merged");
    str_reserve(&big, 3 * LINES_CHUNK);                  /* a record of several reads */
    for (int i = 0; i < 2 * LINES_CHUNK + 100; i++) big.p[big.n++] = (char)('a' + i % 26);
    big.p[big.n] = 0;
    for (int i = 1; i <= N; i++) tl_add(&want, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? "id" : NULL, i == 77 ? big.p : "t");
    for (int i = 0; i < N; i++) {                     /* in an order of its own, each in a file of its own */
        int k = i * 7 % N + 1, f = (int)(rng_mix((uint64_t)k) % FILES);
        tl_add(&part[f], (uint64_t)k, rng_mix((uint64_t)k), k % 2 ? "id" : NULL, k == 77 ? big.p : "t");
    }
    for (int f = 0; f < FILES; f++) path[f] = tl_file(name[f], part[f].p, part[f].n);
    CHECKF(tl_merge(path, FILES, to, &e), "%s", e.text);
    CHECK(tl_is(to, want));
    path[FILES] = path[1];
    CHECKF(tl_merge(path, FILES + 1, to, &e) && tl_is(to, want), "the same records twice: %s", e.text);

    tl_add(&extra, 78, rng_mix(78), NULL, "t");
    tl_add(&extra, 80, rng_mix(80), NULL, NULL);      /* an error beside an answer */
    size_t whole = extra.n;
    tl_add(&extra, 79, rng_mix(79), "id", "t");
    path[FILES] = tl_file("m3", extra.p, extra.n - 1);                 /* torn: a newline short */
    CHECKF(tl_merge(path, FILES + 1, to, &e) && tl_is(to, want), "the answer stays: %s", e.text);
    const char *turned[] = {path[FILES], path[0], path[1], path[2]};
    CHECKF(tl_merge(turned, 4, to, &e) && tl_is(to, want), "the answer stays: %s", e.text);
    CHECKF(tl_merge(turned, 1, to, &e) && tl_is(to, (str){extra.p, whole, 0}), "two records and a torn one");

    static const struct { uint64_t line, hash; const char *text, *word; } unlike[] = {
        {77, 7, "t", "two records of line 77 answer different texts (batch_req_77_"},
        {77, 0, "another text", "two records of line 77 have different answers (batch_req_77_"},
        {78, 5, NULL, "two records of line 78 answer different texts"},
    };
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        str_clear(&extra);
        tl_add(&extra, unlike[i].line, unlike[i].hash ? unlike[i].hash : rng_mix(unlike[i].line), NULL, unlike[i].text);
        path[FILES] = tl_file("m6", extra.p, extra.n);
        e = (err_t){0};
        tl_file("merged", "old", 3);
        CHECK(!tl_merge(path, FILES + 1, to, &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, unlike[i].word) && strstr(e.text, path[FILES]), "row %zu: \"%s\"", i,
               e.text);
    }
    e = (err_t){0};
    str_clear(&extra);
    str_put(&extra, "{\"id\":\"batch_req_9_0000000000000063\",\"custom_id\":null,\"response\":{\"x\":\"\xe2\x82\xff\"}}\n");
    path[FILES] = tl_file("m7", extra.p, extra.n);
    CHECKF(tl_merge(&path[FILES], 1, to, &e), "%s", e.text);           /* of an older version, raw bytes in it */
    str_clear(&extra);
    str_put(&extra, "{\"id\":\"batch_req_9_0000000000000063\",\"custom_id\":null,\"response\":{\"x\":\"\xef\xbf\xbd\xef\xbf\xbd\"}}\n");
    CHECK(tl_is(to, extra));

    const char *empty[] = {tl_file("m4", "", 0)};
    CHECK(tl_merge(empty, 1, to, &e) && tl_is(to, (str){0}));
    const struct { const char *path, *word; } bad[] = {
        {tl_path("absent"), "No such file"}, {tl_path("."), "is a directory"}, {"/dev/null", "no regular file"},
        {"-", "stdin"},
        {tl_file("m5", "no record\n", 10), "byte 0: line 1 is no record"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (err_t){0};
        CHECK(!tl_merge(&bad[i].path, 1, to, &e));
        CHECKF(e.code == EXIT_INPUT && (strstr(e.text, bad[i].word) || strstr(e.text, "standard input")),
               "row %zu: \"%s\"", i, e.text);
    }
    for (int f = 0; f < FILES; f++) str_drop(&part[f]);
    str_drop(&want);
    str_drop(&big);
    str_drop(&extra);
}

/* What a merge says of lines without a result and of results that differ. */
static void tl_notes(int which) {
    str   s = {0}, other = {0};
    err_t e = {0};
    for (int i = 2; i <= 10; i += 2) tl_add(&s, (uint64_t)i, 1, NULL, "t");
    tl_add(&other, 4, 1, NULL, "t");
    str_put(&other, "{\"id\":\"batch_req_9_0000000000000063\",\"custom_id\":null,\"response\":{\"x\":\"\xff\"}}\n");
    const char *path[2] = {tl_file("n0", s.p, which == 2 ? s.n - 5 : s.n), tl_file("n1", other.p, other.n)};
    g_log_level = LOG_NORMAL;
    _exit(tl_merge(path, which == 1 ? 2 : 1, tl_path("noted"), &e) ? 0 : e.code);
}

static void t_results_merge_notes(void) {
    static const char *const want[] = {"5 of the lines 1 to 10 have no result", "1 records held bytes that are not UTF-8",
                                       "incomplete"};
    char said[1000];
    for (int i = 0; i < 3; i++) {
        EQ_INT(t_base_child(tl_notes, i, said, sizeof said), 0);
        CHECKF(strstr(said, want[i]) != NULL, "note %d: \"%s\"", i, said);
    }
}

static bool tl_collect(void *ctx, bytes record, err_t *e) {
    (void)e;
    str_cat(ctx, record);
    str_put(ctx, "\n");
    return true;
}

/* Records come in the order of their lines, and a callback that fails ends it. */
static bool tl_stop(void *ctx, bytes record, err_t *e) {
    (void)record;
    return err_set(e, EXIT_RESOURCE, "stop %d", ++*(int *)ctx);
}

static void t_results_each(void) {
    str   s = {0}, want = {0}, got = {0};
    err_t e = {0};
    int   n = 0;
    for (uint64_t i = 5; i > 0; i--) tl_add(&s, i, rng_mix(i), NULL, "a text");
    for (uint64_t i = 1; i <= 5; i++) tl_add(&want, i, rng_mix(i), NULL, "a text");
    const char *path = tl_file("each.jsonl", s.p, s.n);
    CHECK(results_each(&path, 1, NULL, 0, tl_collect, &got, &e) && !e.code);
    EQ_STR(got.p, want.p);
    CHECK(!results_each(&path, 1, NULL, 0, tl_stop, &n, &e) && n == 1);
    EQ_STR(e.text, "stop 1");
    str_drop_all(&s, &want, &got);
}

/* Errors leave the file before the run, and nothing else: answers are found, and can be moved. */
static void t_results_forget(void) {
    const char *path = tl_path("forget.jsonl");
    str         all = tl_whole(path, 3), s = {0};
    err_t       e = {0};
    const bytes whole = str_bytes(&all), first = bytes_slice(whole, 0, bytes_find(whole, 0, bytes_of("\n")) + 1);
    tl_add(&s, 9, rng_mix(9), NULL, NULL);
    str_cat(&s, whole);
    tl_add(&s, 8, rng_mix(8), "x", NULL);
    tl_file("forget.jsonl", s.p, s.n);
    results *r = tl_open(path, true, &e);
    if (!CHECKF(r != NULL, "%s", e.text)) return;
    EQ_INT(r->n_old_failed, 2);
    CHECK(results_forget_failed(r, &e) && r->n_old == 3 && !r->n_old_failed && tl_is(path, all));
    CHECK(access(tl_path("forget.jsonl.stale"), F_OK) != 0);
    CHECK(tl_has(r, 1) && !results_use_old(r, 0, 9, tl_which(rng_mix(9)), false));
    CHECK(results_forget_failed(r, &e) && results_move_stale(r, &e));
    CHECK(tl_is(path, (str){(char *)(uintptr_t)first.p, first.n, 0}));
    CHECK(results_put(r, first, &e) && results_put_head(r, bytes_of("{"), &e) && results_close(r, &e));
    str twice = {0};
    str_cat(&twice, first);
    str_cat(&twice, first);
    CHECK(tl_is(path, twice));
    str_drop_all(&all, &s, &twice);
}

/* Records of earlier versions, which have a hash of 64 bits, and files in which records of both versions stand. */
static void t_results_old(void) {
    const char *path[2] = {tl_path("old0"), tl_path("old1")}, *to = tl_path("old.merged");
    str         s = {0}, both = {0};
    err_t       e = {0};
    tl_old = true;
    t_results_ids();
    t_results_stale();
    t_results_merge();
    for (int i = 1; i <= 4; i++) {                    /* lines 1, 2 and 4 old, 2, 3 and 4 new */
        tl_old = true;
        if (i != 3) tl_add(&s, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? NULL : "id", i == 4 ? NULL : "t");
        if (i < 3) tl_add(&both, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? NULL : "id", "t");
    }
    tl_old = false;
    tl_file("old0", s.p, s.n);
    CHECK(results_is_old(path[0]));
    str_clear(&s);
    for (int i = 2; i <= 4; i++) {
        tl_add(&s, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? NULL : "id", "t");
        if (i > 2) tl_add(&both, (uint64_t)i, rng_mix((uint64_t)i), i % 2 ? NULL : "id", "t");
    }
    tl_file("old1", s.p, s.n);
    CHECK(!results_is_old(path[1]) && !results_is_old(tl_path("absent")));
    CHECKF(tl_merge(path, 2, to, &e) && tl_is(to, both), "%s", e.text);
    str_clear(&s);
    tl_add(&s, 1, 0, NULL, "u");
    tl_file("old1", s.p, s.n);
    CHECK(!tl_merge(path, 2, to, &e) && strstr(e.text, "two records of line 1 have different answers (batch_req_1_"));

    unlink(tl_path("old.jsonl"));
    results *r = tl_open(tl_path("old.jsonl"), false, &e);   /* writes the header */
    CHECK(results_close(r, &e));
    tl_file("old.jsonl", both.p, both.n);
    r = tl_open(tl_path("old.jsonl"), true, &e);
    if (!CHECKF(r != NULL, "%s", e.text)) return;
    const results_line one = tl_which(rng_mix(1)), three = tl_which(rng_mix(3));
    CHECK(!results_use_old(r, 0, 3, (results_line){{0}, three.was}, false));      /* a hash answers no record of this version */
    CHECK(!results_use_old(r, 0, 1, (results_line){one.is, 0}, false));
    CHECK(results_use_old(r, 0, 1, one, false) && results_use_old(r, 0, 3, three, false));
    CHECK(results_close(r, &e));
    str_drop_all(&s, &both);
}

static const t_case t_results_cases[] = {
    {"results record", "the beginning of a record is read back, of another shape refused", t_results_record},
    {"results damaged", "of a file that reads as zeros in part, the records that these touch are removed", t_results_damaged},
    {"results torn", "a file that is cut at any byte keeps its complete records and can be resumed", t_results_torn},
    {"results ids", "a record is found by its line's content, without a custom_id also by its number; a duplicate id is found", t_results_ids},
    {"results old", "records of earlier versions are found by their hash, merged, and never taken for others", t_results_old},
    {"results stale", "records that answer no line move to FILE.stale, those whose line moved get its number",
     t_results_stale},
    {"results mode", "header, new file and FILE.stale are open to nobody who may not read the results", t_results_mode},
    {"results unread", "where FILE.stale cannot be read, the message says why", t_results_unread},
    {"results not stale", "FILE.stale is changed only where earlier runs wrote it", t_results_not_stale},
    {"results fingerprint", "results without a header are resumed when their fingerprint fits", t_results_fingerprint},
    {"results sort", "a file of results is put into the order of its inputs and their lines, and stays locked",
     t_results_sort},
    {"results refuse", "other settings, no header, foreign lines: refused with a text, nothing is changed", t_results_refuse},
    {"results header", "written before the first record, found through links, read back alone", t_results_header},
    {"results lock", "a file has one writer; a killed one leaves no lock", t_results_lock},
    {"results killed", "kill -9 at any moment loses no result and repeats none", t_results_killed},
    {"results disk", "a full disk leaves complete records; a closed pipe is no error", t_results_disk},
    {"results merge", "shuffled files get the order of the input, duplicates become one, records that differ are refused",
     t_results_merge},
    {"results each", "records of a file in the order of its lines, until a callback fails", t_results_each},
    {"results forget", "errors leave a file that is resumed, answers stay; the first bytes can be written again", t_results_forget},
    {"results merge notes", "missing, repaired and torn results are reported", t_results_merge_notes},
};
static const t_suite t_results_suite = SUITE(t_results_cases);
