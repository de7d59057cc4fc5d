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

/* Each row is cut, moved to its place, and normalised as it then is. */
static void t_embed_dims(void) {
    int    n, width;
    float *v = te__vector((embed_opts){.pooling = POOLING_NONE, .norm = 1, .dims = 2}, &n, &width);
    EQ_INT(n, 3);
    EQ_INT(width, 2);
    EQ_MEM(v, ((const float[]){1 / 3.0f, -2 / 3.0f, 0.6f, 0.4f, -0.25f, 0.75f}), 6 * sizeof *v);
    mem_free(v);
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

static const t_case t_embed_cases[] = {
    {"embed pooling", "a text's rows become their mean, the first, the last, or stay apart; what came before a restart is forgotten", t_embed_pooling},
    {"embed dims", "vectors are cut to their first values and normalised again", t_embed_dims},
    {"embed norms", "norms of the largest and smallest values are exact, and zeros stay zeros", t_embed_norms},
};
static const t_suite t_embed_suite = SUITE(t_embed_cases);
