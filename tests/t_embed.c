/* [embed]: rows of a text become its vector. */
#include "program.h"
#include "check.h"

/* A text of three rows of four values, added in two parts. */
static float *te__vector(embed_opts o, int *n, int *width) {
    static const float rows[3][4] = {{1, -2, 3, 0}, {3, 2, 0, 0}, {-1, 3, 0, 1}};
    const model        m = {.hp = {.n_embd = 4}};
    embed             *x = embed_new(&m, &o, 3);
    embed_add(x, rows[2]);
    embed_restart(x);
    for (int i = 0; i < 3; i++)
        if (embed_wants(x, i)) embed_add(x, rows[i]);
    float *v = embed_end(x, n, width);
    embed_free(x);
    return v;
}

static void t_embed_pooling(void) {
    static const struct {
        int   pooling, n;
        float v[4];
    } rows[] = {{POOLING_MEAN, 1, {1, 1, 1, 1 / 3.0f}}, {POOLING_CLS, 1, {1, -2, 3, 0}}, {POOLING_LAST, 1, {-1, 3, 0, 1}},
                {POOLING_NONE, 3, {1, -2, 3, 0}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int    n, width;
        float *v = te__vector((embed_opts){.pooling = rows[i].pooling, .norm = -1}, &n, &width);
        EQ_INT(n, rows[i].n);
        EQ_INT(width, 4);
        EQ_MEM(v, rows[i].v, sizeof rows[i].v);
        mem_free(v);
    }
}

/* No value is too large or too small for its norm, and zeros stay zeros. */
static void t_embed_norms(void) {
    static const int norms[] = {0, 1, 2, 3, 1000};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        for (int by = -120; by <= 127; by += 82) {
            float v[3] = {ldexpf(1, by), 0, -ldexpf(1, by)};
            embed__normalize(v, 3, norms[i]);
            const double want = norms[i] ? pow(0.5, 1.0 / norms[i]) : 32760;
            NEAR(v[0], want, 1e-6 * want);
            CHECK(v[1] == 0 && v[2] == -v[0]);
            float none[2] = {0, -0.0f};
            embed__normalize(none, 2, norms[i]);
            CHECK(none[0] == 0 && none[1] == 0);
        }
}

/* A text keeps its first tokens, and its end token if it has one. */
static void t_embed_cut(void) {
    static const struct {
        int    limit, n;
        bool   ends;
        size_t left;
        int    last;
    } rows[] = {{0, 5, true, 5, 14}, {5, 5, true, 5, 14}, {6, 5, false, 5, 14}, {4, 5, true, 4, 14}, {4, 5, false, 4, 13}, {1, 5, true, 1, 14}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const embed_opts o = {.limit = rows[i].limit};
        tok_ids          ids = {0};
        for (int k = 0; k < rows[i].n; k++) tok_ids_add(&ids, 10 + k);
        CHECKF(embed_cut(&o, &ids, rows[i].ends) == (rows[i].left < 5), "row %zu", i);
        EQ_INT(ids.n, rows[i].left);
        EQ_INT(ids.id[ids.n - 1], rows[i].last);
        tok_ids_drop(&ids);
    }
}

static void t_embed_npy(void) {
    static const char *const shapes[] = {"(0, 1), }", "(9223372036854775807, 2147483647), }"};
    for (int i = 0; i < 2; i++) {
        str s = {0};
        embed_put_npy(i ? INT64_MAX : 0, i ? INT32_MAX : 1, &s);
        EQ_INT(s.n, 128);
        EQ_MEM(s.p, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': ", 60);
        CHECK(strncmp(s.p + 60, shapes[i], strlen(shapes[i])) == 0 && s.p[127] == '\n');
        str_drop(&s);
    }
}

static const t_case t_embed_cases[] = {
    {"embed pooling", "a text's rows become their mean, the first, the last, or stay apart; what came before a restart is forgotten", t_embed_pooling},
    {"embed cut", "a text that is too long keeps its first tokens and its end token", t_embed_cut},
    {"embed npy", "the head of a NumPy file has 128 bytes, whatever the shape", t_embed_npy},
    {"embed norms", "norms of the largest and smallest values are exact, and zeros stay zeros", t_embed_norms},
};
static const t_suite t_embed_suite = SUITE(t_embed_cases);
