/* Names of models, lists of hubs, and which file of a list a name stands for; folders are tested by hub.py. */
#include "program.h"
#include "check.h"

static void t_hub_names(void) {
    static const struct {
        const char *text, *file, *repo, *pick;        /* repo NULL: refused */
    } rows[] = {
        {"a/b", NULL, "a/b", ""},
        {"hf:a/b:Q4_K_M", NULL, "a/b", "Q4_K_M"},
        {"hf://a.c/b-d_e:x/y.gguf", NULL, "a.c/b-d_e", "x/y.gguf"},
        {"https://huggingface.co/a/b", NULL, "a/b", ""},
        {"hf.co/a/b:q8_0", NULL, "a/b", "q8_0"},
        {"a/b", "x.gguf", "a/b", "x.gguf"},
        {"a/b:Q4_0", "x.gguf", NULL, NULL},
        {"a/b", "../x.gguf", NULL, NULL},
        {"a", NULL, NULL, NULL}, {"", NULL, NULL, NULL}, {"a/b/c", NULL, NULL, NULL}, {"/a", NULL, NULL, NULL},
        {"a/", NULL, NULL, NULL}, {"a--b/c", NULL, NULL, NULL}, {"a/b..c", NULL, NULL, NULL}, {".a/b", NULL, NULL, NULL},
        {"a/b-", NULL, NULL, NULL}, {"a/b:", NULL, NULL, NULL}, {"a/b:/x", NULL, NULL, NULL}, {"a/b:x/../y", NULL, NULL, NULL},
        {"a/b:x\n", NULL, NULL, NULL}, {"a/b:\xff", NULL, NULL, NULL}, {"a/\xc3\xa9", NULL, NULL, NULL}, {"a b/c", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hub_name   h;
        err_t      e = {0};
        const bool good = hub_parse(rows[i].text, rows[i].file, &h, &e);
        CHECKF(good == (rows[i].repo != NULL) && good == !e.code, "%s: %s", rows[i].text, e.text);
        if (good) {
            EQ_STR(h.repo.p, rows[i].repo);
            EQ_STR(h.pick.p, rows[i].pick);
        }
        hub_name_drop(&h);
    }
}

static void t_hub_quants(void) {
    static const struct {
        const char *path, *quant;
        bool        has;
    } rows[] = {
        {"m-Q4_K_M.gguf", "Q4_K_M", true},      {"m-Q4_K_M.gguf", "q4_k_m", true},    {"m-q4_k_m.gguf", "Q4_K_M", true},
        {"m-Q4_K_M.gguf", "Q4_K", false},       {"m-Q4_0_4_4.gguf", "Q4_0", false},   {"m-BF16.gguf", "F16", false},
        {"m.Q8_0.gguf", "Q8_0", true},          {"m_q8_0.gguf", "Q8_0", true},        {"Q8_0/m.gguf", "Q8_0", true},
        {"m-IQ4_XS.gguf", "Q4_XS", false},      {"m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", true}, {"m-UD-Q4_K_XL.gguf", "Q4_K_XL", true},
        {"m-Q6_K-00001-of-00002.gguf", "Q6_K", true}, {"m-Q6_K-imat.gguf", "Q6_K", true}, {"Q6_K.gguf", "Q6_K", true},
        {"m-Q6_KK-Q6_K.gguf", "Q6_K", true},
    };
    static const struct {
        const char *path, *quant;
    } own[] = {
        {"m-Q4_K_M.gguf", "Q4_K_M"}, {"Llama-3.2-1B-q8_0.gguf", "q8_0"}, {"m-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"}, {"m.gguf", ""},
        {"BF16/m-BF16-00001-of-00003.gguf", "BF16"}, {"Q8_0/m.gguf", "Q8_0"}, {"Qwen-Q.gguf", ""}, {"m-F160.gguf", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECKF(hub__has_quant(bytes_of(rows[i].path), bytes_of(rows[i].quant)) == rows[i].has, "%s %s", rows[i].path, rows[i].quant);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const bytes q = hub__quant_of(bytes_of(own[i].path));
        CHECKF(bytes_is(q, own[i].quant), "%s: %.*s", own[i].path, (int)q.n, (const char *)q.p);
    }
}

static void t_hub_models(void) {
    static const struct {
        const char *path;
        bool        is;
    } rows[] = {
        {"m.gguf", true}, {"a/m-00001-of-00002.gguf", true}, {"a/m-00002-of-00002.gguf", false}, {"mmproj-m-f16.gguf", false},
        {"m.mmproj-F16.gguf", false}, {"MMPROJ.gguf", false}, {"imatrix.gguf", false}, {"m-imatrix.gguf", false},
        {"m-imatrix-Q4_0.gguf", true}, {"m.safetensors", false}, {"m.gguf.part", false}, {".gguf", false},
        {"mmproj/m.gguf", true}, {"m-00000-of-00002.gguf", true}, {"m-00003-of-00002.gguf", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECKF(hub__is_model(bytes_of(rows[i].path)) == rows[i].is, "%s", rows[i].path);
}

/* The list of these paths, sealed. */
static hub_list thu_list(const char *const *paths, size_t n) {
    hub_list l = {0};
    err_t    e = {0};
    str      json = {0};
    str_put(&json, "[");
    for (size_t i = 0; i < n; i++)
        str_fmt(&json, "%s{\"type\":\"file\",\"path\":\"%s\",\"size\":%zu}", i ? "," : "", paths[i], i);
    str_put(&json, "]");
    CHECKF(hub_list_add(&l, str_bytes(&json), "a/b", &e) && hub_list_seal(&l, "a/b", &e), "%s", e.text);
    str_drop(&json);
    return l;
}

static void t_hub_choice(void) {
    static const char *const paths[] = {
        "README.md", "m-Q8_0.gguf", "m-UD-Q6_K.gguf", "m-Q6_K.gguf", "mmproj-Q4_K_M.gguf", "big/m-F16-00001-of-00002.gguf",
        "big/m-F16-00002-of-00002.gguf", "bad-Q4_1-00001-of-00002.gguf", "x/n.gguf", "y/n.gguf", "z/o.gguf"};
    static const struct {
        const char *pick, *file, *error;
    } rows[] = {
        {"", "m-Q6_K.gguf", NULL}, {"Q8_0", "m-Q8_0.gguf", NULL}, {"q8_0", "m-Q8_0.gguf", NULL}, {"UD-Q6_K", "m-UD-Q6_K.gguf", NULL},
        {"F16", "big/m-F16-00001-of-00002.gguf", NULL}, {"o.gguf", "z/o.gguf", NULL}, {"x/n.gguf", "x/n.gguf", NULL},
        {"mmproj-Q4_K_M.gguf", "mmproj-Q4_K_M.gguf", NULL},
        {"n.gguf", NULL, "a/b: 2 files are called n.gguf, expected its path in the repository"},
        {"Q4_K_M", NULL, "a/b: no model Q4_K_M, expected one of bad-Q4_1"},
        {"Q4_1", NULL, "a/b: bad-Q4_1-00001-of-00002.gguf is the first of 2 parts, and the list lacks one of them"},
        {"m-F16-00002-of-00002.gguf", NULL, "a/b: big/m-F16-00002-of-00002.gguf is a later part"},
        {"README.md", NULL, "a/b: no model README.md"},
    };
    hub_list l = thu_list(paths, sizeof paths / sizeof *paths);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str             repo = {0}, pick = {0};
        err_t           e = {0};
        str_put(&repo, "a/b");
        str_put(&pick, rows[i].pick);
        const hub_name  h = {repo, pick};
        const hub_file *f = hub_choose(&l, &h, &e);
        CHECKF((f != NULL) == (rows[i].file != NULL), "%s: %s", rows[i].pick, e.text);
        if (f) EQ_STR(f->path, rows[i].file);
        else if (rows[i].error) CHECKF(strncmp(e.text, rows[i].error, strlen(rows[i].error)) == 0 || rows[i].pick[0] == 'Q', "%s", e.text);
        if (f && strcmp(rows[i].pick, "F16") == 0) {
            EQ_INT(hub_parts(f), 2);
            EQ_STR(hub_part(&l, f, 1)->path, "big/m-F16-00002-of-00002.gguf");
        }
        str_drop_all(&repo, &pick);
    }
    hub_list_drop(&l);
}

/* Which lists have a checkpoint, what a name stands for then, and the weights that come without an index. */
static void t_hub_checkpoints(void) {
    static const struct {
        const char *paths[6], *pick, *chosen, *shards, *error;       /* shards: names with a blank between them */
    } rows[] = {
        {{"config.json", "tokenizer.json", "model.safetensors"}, "", "config.json", "model.safetensors", NULL},
        {{"config.json", "tokenizer.model", "x.safetensors"}, "", "config.json", "x.safetensors", NULL},
        {{"config.json", "tokenizer.json", "model.safetensors", "consolidated.safetensors"}, "safetensors", "config.json",
         "model.safetensors", NULL},
        {{"config.json", "tokenizer.json", "model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"}, "", "config.json",
         "model-00001-of-00002.safetensors model-00002-of-00002.safetensors", NULL},
        {{"config.json", "tokenizer.json", "model-00002-of-00002.safetensors"}, "", "config.json", NULL,
         "a/b: 1 files of 2, expected model-00001-of-00002.safetensors too"},
        {{"config.json", "tokenizer.json", "x.safetensors", "y.safetensors"}, "", "config.json", NULL,
         "a/b: 2 safetensors files, expected model.safetensors or an index"},
        {{"config.json", "tokenizer.json", "model.safetensors", "m-Q8_0.gguf"}, "", "m-Q8_0.gguf", NULL, NULL},
        {{"config.json", "tokenizer.json", "model.safetensors", "m-Q8_0.gguf"}, "safetensors", "config.json", "model.safetensors", NULL},
        {{"config.json", "tokenizer.json", "model.safetensors", "m-Q3_K.gguf"}, "", NULL, NULL,
         "a/b: none of its models is Q4_K_M, Q4_0, Q5_K_M, Q6_K, Q8_0 or F16, expected :NAME after it, one of Q3_K or safetensors"},
        {{"config.json", "tokenizer.json", "model.safetensors", "m-Q8_0.gguf"}, "Q2_K", NULL, NULL,
         "a/b: no model Q2_K, expected one of Q8_0 or safetensors"},
        {{"config.json", "spiece.model", "model.safetensors"}, "", "config.json", "model.safetensors", NULL},
        {{"config.json", "tokenizer.jsonl", "model.safetensors"}, "", "config.json", "model.safetensors", NULL},
        {{"config.json", "rwkv_vocab_v20230424.txt", "model.safetensors"}, "", "config.json", "model.safetensors", NULL},
        {{"config.json", "a/spiece.model", "model.safetensors"}, "", NULL, NULL, NULL},
        {{"config.json", "tokenizer.json", "a/model.safetensors"}, "", NULL, NULL, NULL},
        {{"a/config.json", "tokenizer.json", "model.safetensors"}, "", NULL, NULL, NULL},
        {{"config.json", "model.safetensors"}, "", NULL, NULL, NULL},
        {{"config.json", "tokenizer.json", "model.safetensors"}, "Q4_K_M", NULL, NULL, NULL},
        {{"m-Q8_0.gguf", "model.safetensors"}, "safetensors", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = 0;
        while (n < 6 && rows[i].paths[n]) n++;
        hub_list l = thu_list(rows[i].paths, n);
        str      repo = {0}, pick = {0}, all = {0};
        err_t    e = {0};
        st_names shards = {0};
        str_put(&repo, "a/b");
        str_put(&pick, rows[i].pick);
        str_put(&all, "");
        const hub_name  h = {repo, pick};
        const hub_file *f = hub_choose(&l, &h, &e);
        CHECKF((f != NULL) == (rows[i].chosen != NULL) && (!f || !strcmp(f->path, rows[i].chosen)), "row %zu: %s %s", i, f ? f->path : "", e.text);
        if (f && hub_is_checkpoint(f)) {
            CHECKF(hub_shards(&l, "a/b", "/none", &shards, &e) == (rows[i].shards != NULL), "row %zu: %s", i, e.text);
            for (size_t k = 0; k < shards.n; k++) str_fmt(&all, "%s%s", k ? " " : "", shards.at[k]);
            if (rows[i].shards) EQ_STR(all.p, rows[i].shards);
        }
        if (rows[i].error) EQ_STR(e.text, rows[i].error);
        st_names_drop(&shards);
        hub_list_drop(&l);
        str_drop_all(&repo, &pick, &all);
    }
    CHECK(hub_goes_beside("tokenizer.json") && hub_goes_beside("1_Pooling/config.json") && hub_goes_beside("README.md") &&
          hub_goes_beside("spiece.model") && hub_goes_beside("tokenizer.jsonl") && hub_goes_beside("rwkv_vocab_v20230424.txt"));
    CHECK(!hub_goes_beside("a/tokenizer.json") && !hub_goes_beside("a/1_Pooling/config.json") && !hub_goes_beside("model.safetensors") &&
          !hub_goes_beside("onnx/config.json") && !hub_goes_beside("1_Pooling/config.jsonx"));
}

/* The name of a repository in the path of its snapshot. */
static void t_hub_snapshots(void) {
    static const char commit[] = "0123456789abcdef0123456789abcdef01234567";
    static const struct {
        const char *front, *name;
    } rows[] = {
        {"/x/models--a--b.c/snapshots/", "b.c"}, {"models--a--b/snapshots/", "b"}, {"/x/datasets--a--b/snapshots/", NULL},
        {"/x/models--a--b/", NULL}, {"/snapshots/", NULL}, {"/x/models--a/snapshots/", NULL}, {"", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str path = {0}, name = {0};
        str_fmt(&path, "%s%s", rows[i].front, commit);
        CHECKF(hub_name_of(path.p, &name) == (rows[i].name != NULL), "%s", path.p);
        if (rows[i].name) EQ_STR(name.p, rows[i].name);
        str_drop_all(&path, &name);
    }
}

static void t_hub_lists(void) {
    static const char good[] =
        " [ {\"type\":\"file\", \"size\":7, \"path\":\"a\\u00e9 b.gguf\", \"extra\":[{\"path\":\"../x\"}], "
        "\"lfs\":{\"size\":12,\"oid\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}},"
        "{\"type\":\"directory\",\"path\":\"../..\"}, {\"type\":\"file\",\"path\":\"c\",\"size\":9223372036854775807,\"lfs\":null},"
        "{\"type\":\"file\",\"path\":\"d\",\"size\":3,\"oid\":\"0123456789abcdef0123456789abcdef01234567\"},"
        "{\"type\":\"file\",\"path\":\"e\",\"size\":3,\"oid\":\"0123456789abcdef0123456789abcdef0123456/\"} ] ";
    hub_list l = {0};
    err_t    e = {0};
    CHECKF(hub_list_add(&l, bytes_of(good), "a/b", &e) && hub_list_seal(&l, "a/b", &e), "%s", e.text);
    EQ_INT(l.n, 4);
    CHECK(strlen(l.file[2].sha) == SHA_1_HEX && !l.file[3].sha[0]);
    EQ_STR(l.file[0].path, "a\xc3\xa9 b.gguf");
    CHECK(l.file[0].bytes == 12 && l.file[1].bytes == INT64_MAX && !l.file[1].sha[0] && strlen(l.file[0].sha) == SHA_HEX);
    CHECK(hub_list_add(&l, bytes_of("[]"), "a/b", &e) && l.n == 4);
    CHECK(hub_list_add(&l, bytes_of("[{\"type\":\"file\",\"path\":\"c\",\"size\":1}]"), "a/b", &e));
    CHECK(!hub_list_seal(&l, "a/b", &e));
    EQ_STR(e.text, "a/b: the list has c twice, expected once");
    hub_list_drop(&l);
}

/* Every answer about an address: only that of the hub gets the token. */
static void t_hub_origins(void) {
    static const char *const other[] = {"https://h.co.evil/x", "https://h.co@evil/x", "http://h.co/x", "https://h.co:444/x", "https://evil/h.co",
                                        "//h.co/x", "https://", "h.co", "https://h.co\\@evil/", "https://h.co\\x", "https:/h.co/x", ""};
    static const char *const same[] = {"https://h.co/x", "https://H.CO", "HTTPS://h.co?x", "https://h.co#x"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        CHECKF(!fetch__same_origin(bytes_of(other[i]), bytes_of("https://h.co")), "%s", other[i]);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        CHECKF(fetch__same_origin(bytes_of(same[i]), bytes_of("https://h.co")), "%s", same[i]);
}

/* The lines of an answer's head. */
static void t_hub_heads(void) {
    static const char commit[] = "X-Repo-Commit: 0123456789abcdef0123456789abcdef01234567";
    fetch__client c = {.at_hub = false};
    fetch__read_head(&c, bytes_of("HTTP/1.1 206 Partial Content"));
    fetch__read_head(&c, bytes_of(commit));
    EQ_INT(c.status, 206);
    EQ_INT(c.commit.n, 0);                            /* another host names no commit */
    c.at_hub = true;
    fetch__read_head(&c, bytes_of("x-repo-commit: 0123456789abcdef0123456789abcdef0123456/"));
    fetch__read_head(&c, bytes_of(commit));
    EQ_STR(c.commit.p, commit + strlen("X-Repo-Commit: "));
    fetch__read_head(&c, bytes_of("Content-Range: bytes 5-9/10"));
    CHECK(c.range_from == 5 && c.range_all == 10);
    fetch__read_head(&c, bytes_of("content-range: bytes 18446744073709551616-9/*"));
    CHECK(c.range_from == UINT64_MAX && c.range_all == UINT64_MAX);
    fetch__read_head(&c, bytes_of("Retry-After: 30"));
    EQ_INT(c.retry_s, 30);
    fetch__read_head(&c, bytes_of("Link: <http://a/1>; rel=\"last\", <http://a/2?b=,c>; title=x; rel=\"next\""));
    EQ_STR(c.next.p, "http://a/2?b=,c");
    fetch__read_head(&c, bytes_of("HTTP/2 99999999999999999999"));
    CHECK(c.status == 0 && !c.next.n && c.retry_s == -1 && c.range_all == UINT64_MAX);
    fetch__read_head(&c, bytes_of("Link: <"));
    fetch__read_head(&c, bytes_of("Link: <http://a/3"));
    CHECK(!c.next.n);
    str_drop_all(&c.commit, &c.next);
}

static const t_case t_hub_cases[] = {
    {"hub names", "OWNER/NAME:FILE-OR-QUANT in every spelling, and what is none", t_hub_names},
    {"hub quants", "a quant is a word of a path", t_hub_quants},
    {"hub models", "later parts, projectors and importance matrices are no models", t_hub_models},
    {"hub choice", "the file of a list that a name stands for, or what exists", t_hub_choice},
    {"hub checkpoints", "which lists have a checkpoint, and its weights", t_hub_checkpoints},
    {"hub snapshots", "the name of a repository in a path", t_hub_snapshots},
    {"hub lists", "pages of a list, and a path that comes twice", t_hub_lists},
    {"hub origins", "which addresses are the hub's", t_hub_origins},
    {"hub heads", "fields of an answer: commit, range, next page, time to wait", t_hub_heads},
};
static const t_suite t_hub_suite = SUITE(t_hub_cases);
