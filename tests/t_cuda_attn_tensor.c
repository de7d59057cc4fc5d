/* Attention by tensor cores, run by emu_cuda.h: near the scalar level, and the same bits for a row whatever rows are beside
 * it. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"
#include "t_cuda_attn.h"

static void tat_run(const void *a) { k_cuda_attend_tensor(*(const k_cuda_attend_args *)a); }

/* Rows first, first + 1, ... of the set, n of them. False: the emulator found a fault. */
static bool tat_launch(const ta_case *c, ta_step *t, int first, int n) {
    t->a.first = first, t->a.n_rows = n;
    return ta_launch_by(c, t, tat_run, "k_cuda_attend_tensor", k_cuda_attend_rows(c->group), 1);
}

/* The largest difference to the scalar level; infinite where one is NaN or where something is written that the scalar level does
 * not write. */
static double tat_off(const ta_step *t) {
    double worst = 0;
    for (size_t i = 0; i < t->n_o; i++) {
        const double d = k__bits_of(t->o[i]) == k__bits_of(t->want[i]) ? 0 : fabs((double)t->o[i] - (double)t->want[i]);
        if (!(d <= worst)) worst = d == d ? d : (double)INFINITY;
    }
    return worst;
}

/* Values are in [-3, 3], so an output is off by 3 times what all weights together are. Parts of f32 and f16 caches keep 2^-16 of
 * a product: where scores sum magnitudes of 2^3, that is 2^-13 of a weight. Bf16 factors are rounded as on the CPU, and one that
 * falls to the other side is off by 2^-8: with a quarter of all weight. */
static double tat_most(const ta_case *c) { return 3 * (k__kv_rounds(c->type_k) || k__kv_rounds(c->type_v) ? 0x1p-10 : 0x1p-13); }

/* Near the scalar level; parts of the rows, down to one, give what all together do. */
static void tat_compare(const ta_case *c) {
    ta_step t;
    ta_new(c, &t);
    const int n = t.step.n[c->set] - c->first;
    ta_reference(c, &t);
    if (tat_launch(c, &t, c->first, n)) {
        CHECKF(tat_off(&t) <= tat_most(c), "%s/%s, heads of %d and %d, group %d, window %d%s: %g off",
               k_types[c->type_k].name, k_types[c->type_v].name, c->hd_k, c->hd_v,
               c->group, c->window, c->all ? ", all" : "", tat_off(&t));
        float *all = t.want;
        memcpy(all, t.o, t.n_o * 4);
        for (int first = c->first, step = 1; first < c->first + n; first += step, step = 1 + first % 4) {
            if (first + step > c->first + n) step = c->first + n - first;
            if (!tat_launch(c, &t, first, step)) break;
            for (int r = first; r < first + step; r++)
                CHECKF(!memcmp(t.o + (size_t)r * t.a.o.ld, all + (size_t)r * t.a.o.ld, t.a.o.ld * 4),
                       "%s/%s, heads of %d and %d, group %d: row %d of %d and %d more is another",
                       k_types[c->type_k].name, k_types[c->type_v].name, c->hd_k, c->hd_v, c->group, r, first, step);
        }
    }
    ta_drop(&t);
}

static void t_cuda_attn_tensor_types(void) {
    for (uint32_t k = 0; k < K_TYPE_MAX; k++)
        for (int i = 0; i < 5; i++) {
            const uint32_t v = ta_types[i];
            const char    *name = k_cuda_attend_tensor_of(k, v);
            CHECK(!name || !strcmp(name, "k_cuda_attend_tensor"));
            EQ_INT(name != NULL, k_cuda_attend_of(k, v, false) && (k != K_Q8_0 || v != K_Q8_0));
            if (name)
                tat_compare(&(ta_case){.type_k = k, .type_v = v, .hd_k = 64 + 16 * (i % 2), .hd_v = 64 + 16 * (i % 2),
                                       .group = 3, .n_head = 2, .block = 16, .seq = {37, 530}, .rows = {2, 1}});
        }
}

/* Heads of whole and half vectors, of several parts of 128, of one pair; groups of a part of a strip, of several strips, of more
 * heads than a block takes. */
static void t_cuda_attn_tensor_shapes(void) {
    static const int hd[][2] = {{96, 96}, {128, 128}, {256, 256}, {66, 66}, {2, 2}, {512, 512}, {192, 128}, {34, 288}},
    groups[] = {1, 8, 3, 2, 9, 40, 16, 5};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++)
            tat_compare(&(ta_case){.type_k = ta_types[k], .type_v = ta_types[k == 2 ? 4 : k], .hd_k = hd[i][0],
                                   .hd_v = hd[i][1], .group = groups[(i + k) % 8],
                                   .n_head = groups[(i + k) % 8] < 32 ? 1 + i % 2 : 1,
                                   .block = 32, .seq = {19, 70}, .rows = {3, 1}});
}

/* Latent attention: keys that hold the values, of more values than other heads have, for many query heads. */
static void t_cuda_attn_tensor_latent(void) {
    static const int hd[][2] = {{576, 512}, {320, 256}, {24, 20}}, groups[] = {5, 4, 70};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            tat_compare(&(ta_case){.type_k = ta_types[k], .type_v = ta_types[k], .hd_k = hd[i][0], .hd_v = hd[i][1],
                                   .group = groups[(i + k) % 3], .n_head = 1, .block = 16, .shared = true,
                                   .seq = {19, i == 2 ? 520 : 50}, .rows = {9, 1}});
}

/* What a row sees, and what scores are made of; rows at the ends of segments, of several sequences, in sets; blocks of all
 * lengths. */
static void t_cuda_attn_tensor_views(void) {
    for (int i = 0; i < 10; i++) {
        const ta_case c = ta_view(i, (ta_case){.type_k = i % 2 ? K_BF16 : K_F16, .type_v = i % 3 ? K_F16 : K_Q4_0, .hd_k = 32,
                                               .hd_v = 64, .group = 1 + i % 4, .n_head = 1, .seq = {5, 1060, 520, 512},
                                               .rows = {5, 40, 2, 3}, .set = i % 3 == 1, .first = i % 3,
                                               .gathers = i % 3 == 1});
        tat_compare(&c);
    }
}

static bool tat_first(const ta_case *c, ta_step *t, bool many) {
    (void)many;
    return tat_launch(c, t, 0, 2);
}

/* Rows of two sequences, three parts of the dimensions of their heads, two tiles. */
static void t_cuda_attn_tensor_barriers(void) {
    const ta_case c = {.type_k = K_F16, .type_v = K_F16, .hd_k = 288, .hd_v = 288, .group = 6, .n_head = 1, .block = 16,
                       .seq = {60, 60}, .rows = {1, 1}};
    ta_step       t;
    ta_new(&c, &t);
    tc_seed = 1;
    CHECK(tat_first(&c, &t, true));
    memcpy(t.want, t.o, t.n_o * 4);
    emu_launch(tat_run, &t.a, 1, 1, K_CUDA_THREADS, tc_seed++);
    const int n = emu.fiber[0].n_sync;
    CHECKF(n > 40, "only %d barriers", n);
    for (int skip = 1; skip <= n; skip++)
        CHECKF(tc_seen_apart(skip, ta_kernel_differs, &(ta_kernel){&c, &t, tat_first, true}), "barrier %d of %d could go", skip,
               n);
    ta_drop(&t);
    emu_free();
}

static const t_case t_cuda_attn_tensor_cases[] = {
    {"cuda_attn_tensor types",
     "attention by tensor cores is near the scalar level, and a row has the same bits in any company", t_cuda_attn_tensor_types},
    {"cuda_attn_tensor shapes", "the same for heads of 2 to 512 values and groups of 1 to 40", t_cuda_attn_tensor_shapes},
    {"cuda_attn_tensor latent", "the same for latent attention", t_cuda_attn_tensor_latent},
    {"cuda_attn_tensor views", "the same for windows, rows that see what is after them, sinks, ALiBi, caps, segments",
     t_cuda_attn_tensor_views},
    {"cuda_attn_tensor barriers", "none of the barriers can be left out", t_cuda_attn_tensor_barriers},
};
static const t_suite t_cuda_attn_tensor_suite = SUITE(t_cuda_attn_tensor_cases);
