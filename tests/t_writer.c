/* Files of our own: the writer of GGUF files. Helpers with tg_ stand in t_gguf.c. */
#include "program.h"
#include "check.h"
#include "t_base.h"
#include "t_gguf.h"

/* The same pairs and tensors in the words of each version; what is written from any of them are the bytes of the last. */
#define TG_PAIRS(nul) "'general.alignment" nul " i4 i64 'u8 i0 b200 'i16 i3 h65535 'f32 i6 f1.5 'bool i7 b1 " \
    "'text i8 'one" nul " 'none i8 '" nul " 'arr i9 i8 #3 'a" nul " '" nul " 'ccc" nul \
    " 'nums i9 i5 #2 i1 i-1 'empty i9 i8 #0 'd i12 d2.5 'u64 i10 q-1 "
#define TG_DATA "@64 \"AAAABBBB @64 \"CCCC @64 "

static const char *const tg_same[] = {
    "G1 #2 #12 " TG_PAIRS("") "'t i2 #2 #1 i0 q0 's i1 #1 i0 q64 " TG_DATA,
    "G2 #2 #12 " TG_PAIRS("") "'t i2 #2 #1 i0 q0 's i1 #1 i0 q64 " TG_DATA,
    "G3 #2 #12 " TG_PAIRS("") "'t i2 #2 #1 i0 q0 's i1 #1 i0 q64 " TG_DATA,
};

static bool tg_copy(const gguf_file *g, const char *path, size_t step, err_t *e) {
    gguf_writer w;
    if (!gguf_write_start(&w, path, g->align, g, e)) return false;
    for (uint64_t i = 0; i < g->n_kv; i++) gguf_write_kv(&w, g, &g->kv[i]);
    for (uint64_t i = 0; i < g->n_tensor; i++)
        EQ_INT(gguf_write_tensor(&w, g->tensor[i].name, g->tensor[i].type, g->tensor[i].n_dims, g->tensor[i].dim),
               g->tensor[i].n_bytes);
    str all = {0};
    for (uint64_t i = 0; i < g->n_tensor; i++) str_add(&all, g->tensor[i].data, g->tensor[i].n_bytes);
    bool ok = true;
    for (size_t at = 0; ok && at < all.n; at += step)
        ok = gguf_write_data(&w, all.p + at, all.n - at < step ? all.n - at : step, e);
    str_drop(&all);
    if (ok) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

static void tw_f32(gguf_writer *w, const char *key, float v) {
    gguf_write__add_key(w, bytes_of(key), GGUF_F32);
    str_add(&w->kv, &v, sizeof v);
}

static void t_writer_same(void) {
    static const char *const names[] = {"in.gguf", "out.gguf", "link", "pipe", NULL};
    if (!tg_dir_new()) return;
    str want = tg_file(tg_same[2]);
    for (size_t i = 0; i < 6; i++) {
        gguf_file g;
        err_t     e = {0};
        size_t    n = 0;
        tg_put("in.gguf", tg_same[i % 3]);
        if (!CHECKF(gguf_open(&g, tg_path("in.gguf"), &e), "%s", e.text)) continue;
        CHECKF(tg_copy(&g, tg_path("out.gguf"), i < 3 ? 5 : 1000, &e), "%s", e.text);
        gguf_close(&g);
        char *got = t_read(tg_path("out.gguf"), &n);
        EQ_INT(n, want.n);
        if (got && n == want.n) EQ_MEM(got, want.p, n);
        mem_free(got);
    }
    gguf_writer w;
    gguf_file   g;
    err_t       e = {0};
    CHECK(symlink("out.gguf", tg_path("link")) == 0 && mkfifo(tg_path("pipe"), 0600) == 0);
    CHECKF(gguf_write_start(&w, tg_path("link"), 32, NULL, &e), "%s", e.text);
    const bytes list[2] = {bytes_of("x"), bytes_of("")};
    gguf_write_str(&w, "s", bytes_of("text"));
    tw_f32(&w, "f", 0.5f);
    gguf_write_u32(&w, "u", 7);
    gguf_write_strs(&w, "l", list, 2);
    CHECKF(gguf_write_finish(&w, &e), "%s", e.text);
    str    none = tg_file("G3 #0 #4 's i8 'text 'f i6 f0.5 'u i4 i7 'l i9 i8 #2 'x ' @32");
    size_t n = 0;
    char  *got = t_read(tg_path("out.gguf"), &n);     /* the link is still one */
    if (CHECK(got && n == none.n)) EQ_MEM(got, none.p, n);
    CHECK(readlink(tg_path("link"), (char[8]){0}, 8) == 8);
    mem_free(got);
    str_drop(&none);
    str_drop(&want);

    static const struct {
        const char *name, *says;
        int         code;
    } bad[] = {
        {"in.gguf", "is the model itself, expected another file", EXIT_INPUT},
        {"pipe", "is a pipe, expected a file to write", EXIT_INPUT},
        {"", "is a directory, expected a file to write", EXIT_INPUT},
        {"none/out.gguf", "cannot create: No such file", EXIT_INPUT},
    };
    if (CHECK(gguf_open(&g, tg_path("in.gguf"), &e))) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            e = (err_t){0};
            CHECK(!tg_copy(&g, tg_path(bad[i].name), 1000, &e));
            CHECKF(e.code == bad[i].code && strstr(e.text, bad[i].says), "%s: %d %s", bad[i].name, e.code, e.text);
        }
        gguf_close(&g);
    }
    tg_dir_drop(names);                               /* and nothing else is left in it */
}

/* A full disk, and a writer that is dropped half way: the old file stays, nothing new is left. */
static void t_writer_fails(void) {
    static const char *const names[] = {"out.gguf", NULL};
    if (!tg_dir_new()) return;
    tg_put("out.gguf", "\"old");
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        gguf_writer w;
        err_t       e = {0};
        char        buf[8192] = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
        bool ok = gguf_write_start(&w, tg_path("out.gguf"), 32, NULL, &e);
        gguf_write_tensor(&w, bytes_of("t"), K_F32, 1, (uint64_t[]){2048});
        ok = ok && !gguf_write_data(&w, buf, sizeof buf, &e) && e.code == EXIT_RESOURCE &&
             strstr(e.text, "cannot write: File too large");
        gguf_write_drop(&w);
        _exit(ok ? 0 : 1);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    gguf_writer w;
    err_t       e = {0};
    CHECK(gguf_write_start(&w, tg_path("out.gguf"), 32, NULL, &e));
    CHECK(access(w.tmp, F_OK) == 0);
    out_sweep();
    CHECK(access(w.tmp, F_OK) != 0);
    gguf_write_drop(&w);
    gguf_write_drop(&w);
    char *got = t_read(tg_path("out.gguf"), NULL);
    if (CHECK(got != NULL)) EQ_STR(got, "old");
    mem_free(got);
    tg_dir_drop(names);
}

/* A name that is taken: what a dead writer of our number left goes, whatever else has the name stays and another is found. */
static void t_writer_taken(void) {
    static const struct {
        const char *text;                             /* as tg_put has it */
        int         held, links, number;              /* by a lock; names beside this one; what is found: -1 the name itself */
    } rows[] = {{"\"GGUFrest", 0, 0, -1}, {"\"GGUFrest", 1, 0, 1}, {"\"GGUFrest", 0, 1, 1}, {"\"notes", 0, 0, 1},
                {"\"GG", 0, 0, 1}, {"", 0, 0, 1}};
    static const char *const names[] = {"out.gguf", "twin", "link", NULL};
    char                     taken[64], next[64];
    if (!tg_dir_new()) return;
    snprintf(taken, sizeof taken, "out.gguf.tmp.%ld", (long)getpid());
    snprintf(next, sizeof next, "out.gguf.tmp.%ld.1", (long)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gguf_writer w;
        err_t       e = {0};
        tg_put(taken, rows[i].text);
        int fd = rows[i].held ? open(tg_path(taken), O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) CHECK(flock(fd, LOCK_EX) == 0);
        if (rows[i].links) CHECK(link(tg_path(taken), tg_path("twin")) == 0);
        if (!CHECKF(gguf_write_start(&w, tg_path("out.gguf"), 32, NULL, &e), "row %zu: %s", i, e.text)) continue;
        CHECKF(!strcmp(strrchr(w.tmp, '/') + 1, rows[i].number < 0 ? taken : next), "row %zu: %s", i, w.tmp);
        CHECKF(gguf_write_finish(&w, &e), "%s", e.text);
        CHECKF(access(tg_path(taken), F_OK) == (rows[i].number < 0 ? -1 : 0), "row %zu", i);
        if (fd >= 0) close(fd);
        unlink(tg_path(taken));
    }
    gguf_writer w;
    err_t       e = {0};
    CHECK(symlink("twin", tg_path(taken)) == 0);      /* a link is not followed */
    CHECK(gguf_write_could(tg_path("out.gguf"), NULL, &e) && access(tg_path("twin"), F_OK) == 0 && unlink(tg_path(taken)) == 0);
    for (int i = 0; i < 100; i++) {
        snprintf(next, sizeof next, i ? "%s.%d" : "%s", taken, i);
        tg_put(next, "\"notes");
    }
    CHECK(!gguf_write_start(&w, tg_path("out.gguf"), 32, NULL, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "cannot create: File exists"), "%s", e.text);
    for (int i = 0; i < 100; i++) {
        snprintf(next, sizeof next, i ? "%s.%d" : "%s", taken, i);
        CHECK(unlink(tg_path(next)) == 0);
    }
    e = (err_t){0};
    CHECK(symlink("nothing", tg_path("link")) == 0 && !gguf_write_start(&w, tg_path("link"), 32, NULL, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "link: is a link to nothing, expected a file"), "%s", e.text);
    CHECK(readlink(tg_path("link"), (char[8]){0}, 8) == 7);
    tg_dir_drop(names);
}

/* A new file has the mode of any new file; one that is replaced keeps its own, through a link too, and the bytes of the new one were
 * never open to more. Names are on disk at the end. */
static void t_writer_mode(void) {
    static const char *const names[] = {"mode.gguf", "link", NULL};
    static const struct { unsigned mode; const char *calls; } rows[] = {
        {0, "file name folder "}, {0600, "file name folder "}, {0640, "600>640 file name folder "}, {0444, "600>444 file name folder "},
    };
    if (!tg_dir_new()) return;
    const mode_t was = umask(022);
    CHECK(symlink("mode.gguf", tg_path("link")) == 0);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const unsigned mode = rows[i / 2].mode;
        const char    *path = tg_path(i % 2 && mode ? "link" : "mode.gguf");
        gguf_writer    w;
        err_t          e = {0};
        if (mode) CHECK(chmod(tg_path("mode.gguf"), mode) == 0);
        else unlink(tg_path("mode.gguf"));
        t_calls();
        CHECKF(gguf_write_start(&w, path, 32, NULL, &e), "%s", e.text);
        EQ_INT(t_base_mode(w.tmp), mode ? mode : 0644);
        gguf_write_u32(&w, "u", 7);
        CHECKF(gguf_write_finish(&w, &e), "%s", e.text);
        T_CALLED(rows[i / 2].calls);
        EQ_INT(t_base_mode(tg_path("mode.gguf")), mode ? mode : 0644);
        CHECK(readlink(tg_path("link"), (char[12]){0}, 12) == 9);
    }
    umask(was);
    tg_dir_drop(names);
}

static const t_case t_writer_cases[] = {
    {"writer/same",      "a file written from any version has the same bytes",                          t_writer_same},
    {"writer/fails",     "a writer that fails or is dropped leaves the old file as it was",             t_writer_fails},
    {"writer/mode",      "a file that is replaced keeps its mode, and its folder is flushed",           t_writer_mode},
    {"writer/taken",     "a temporary name in use: removed if its writer is dead and ours, else another name", t_writer_taken},
};
static const t_suite t_writer_suite = SUITE(t_writer_cases);
