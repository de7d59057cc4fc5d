/* The paged cache against a plain model of itself: what was stored is found again, nothing is lost, nothing leaks. */

static arch_hparams t_kv_shape(int n_layer, int heads, int hd, int window) {
    arch_hparams hp = {.n_layer = n_layer, .hd_k = hd, .hd_v = hd, .window = window};
    hp.layer = mem_new((size_t)n_layer, sizeof *hp.layer);
    for (int i = 0; i < n_layer; i++) hp.layer[i] = (arch_layer_hp){heads, heads, 1};
    return hp;
}

typedef struct {
    arch_hparams hp;
    kv_cache    *kv;
} t_kv_rig;

/* A cache of float32 whose layers have as many heads of 8; max_blocks 0: as many as `tokens` ask for. */
static t_kv_rig t_kv_open(int n_layer, int heads, int window, int block, int max_blocks, int tokens) {
    t_kv_rig      r = {.hp = t_kv_shape(n_layer, heads, 8, window)};
    err_t         e = {0};
    const kv_opts o = {.type_k = K_F32, .type_v = K_F32, .block = block, .max_blocks = max_blocks};
    r.kv = kv_new(&r.hp, &o, tokens, &e);
    return r;
}

/* When its sequences are gone nothing is left in it. */
static void t_kv_close(t_kv_rig *r) {
    EQ_INT(r->kv->group[0].n_used, 0);
    kv_free(r->kv);
    arch_drop(&r->hp);
}

/* A value that names (stream, position, layer, head, element); streams that share a past share the values of it. */
static float t_kv_value(uint64_t stream, int pos, int il, int i) {
    return (float)(rng_at(stream, (uint64_t)pos, (uint64_t)il, (uint64_t)i) >> 40) - 8e6f;
}

static void t_kv_write(kv_seq *s, uint64_t stream, int pos) {
    float k[64], v[64];
    for (int il = 0; il < s->kv->n_layer; il++) {
        int n = s->kv->layer[il].n_head * s->kv->hd_k;
        for (int i = 0; i < n; i++) k[i] = t_kv_value(stream, pos, il, i), v[i] = t_kv_value(stream, pos, il, 1000 + i);
        kv_store_at(s, il, pos, k, v);
    }
}

/* Every position from `from` on holds the values of stream_of[pos]. */
static void t_kv_verify(const kv_seq *s, const uint64_t *stream_of, int from) {
    const uint8_t *kb[512], *vb[512];
    const int      block = s->kv->opts.block, hd = s->kv->hd_k;
    for (int il = 0; il < s->kv->n_layer; il++)
        for (int h = 0; h < s->kv->layer[il].n_head; h++) {
            kv_blocks(s, il, h, kb, vb);
            for (int p = from; p < s->n; p++) {
                if (!CHECKF(kb[p / block] != NULL, "position %d has no block", p)) return;
                const float *k = (const float *)(const void *)(kb[p / block] + (size_t)(p % block) * s->kv->layer[il].k_stride);
                const float *v = (const float *)(const void *)(vb[p / block] + (size_t)(p % block) * s->kv->layer[il].v_stride);
                for (int i = 0; i < hd; i++)
                    if (!CHECKF(k[i] == t_kv_value(stream_of[p], p, il, h * hd + i) && v[i] == t_kv_value(stream_of[p], p, il, 1000 + h * hd + i),
                                "position %d layer %d head %d: another value", p, il, h))
                        return;
            }
        }
}

enum { T_KV_SEQS = 6, T_KV_CTX = 200 };

/* Random growth, forks, rollbacks and ends; reference counts are recounted from the tables after each move. */
static void t_kv_random(void) {
    for (int round = 0; round < 12; round++) {
        static const int blocks[] = {1, 2, 3, 8, 32, 64};
        t_kv_rig         rig = t_kv_open(2, 2, 0, blocks[round % 6], 0, T_KV_CTX * 3);
        kv_cache        *kv = rig.kv;
        kv_seq          *s[T_KV_SEQS] = {0};
        uint64_t         of[T_KV_SEQS][T_KV_CTX] = {{0}}, next = 1;
        for (int move = 0; move < 600; move++) {
            uint64_t r = rng_at(7, (uint64_t)round, (uint64_t)move, 0);
            int      q = (int)(r % T_KV_SEQS), what = (int)((r >> 8) % 10), other = (int)((r >> 16) % T_KV_SEQS);
            if (!s[q]) {
                if (what < 4 && s[other] && other != q) {
                    s[q] = kv_fork(s[other]);
                    memcpy(of[q], of[other], sizeof of[q]);
                } else {
                    s[q] = kv_seq_new(kv);
                }
            } else if (what < 7) {
                int n = s[q]->n + 1 + (int)((r >> 24) % 20), from = s[q]->n;
                if (n > T_KV_CTX || !kv_reserve(s[q], n)) {
                    EQ_INT(s[q]->n, from);
                    if (what < 2) kv_truncate(s[q], from / 2);
                    continue;
                }
                next++;
                for (int p = from; p < n; p++) of[q][p] = next, t_kv_write(s[q], next, p);
            } else if (what < 9) {
                kv_truncate(s[q], (int)((r >> 24) % (uint64_t)(s[q]->n + 1)));
            } else {
                kv_seq_free(s[q]);
                s[q] = NULL;
            }
            uint32_t refs[T_KV_CTX * 3] = {0};
            int      used = 0;
            for (int i = 0; i < T_KV_SEQS; i++)
                for (int b = 0; s[i] && b < s[i]->n_blocks[0]; b++) refs[s[i]->table[0][b]]++;
            for (int b = 0; b < kv->group[0].max_blocks; b++) {
                used += refs[b] > 0;
                if (b < kv->group[0].n_slab * kv->group[0].slab_blocks) EQ_INT(kv->group[0].refs[b], refs[b]);
            }
            EQ_INT(kv->group[0].n_used, used);
            if (move % 20 == 0)
                for (int i = 0; i < T_KV_SEQS; i++)
                    if (s[i]) t_kv_verify(s[i], of[i], 0);
        }
        for (int i = 0; i < T_KV_SEQS; i++) kv_seq_free(s[i]);
        t_kv_close(&rig);
    }
}

/* Memory follows the tokens in use, up to the bound and not past it. */
static void t_kv_bound(void) {
    arch_hparams hp = t_kv_shape(4, 2, 32, 0);
    err_t        e = {0};
    kv_opts      o = {.type_k = K_F16, .type_v = K_F16, .block = 16};
    kv_cache    *kv = kv_new(&hp, &o, 1 << 28, &e);
    EQ_INT(model_kv_bytes(&hp, K_F16, K_F16), 4 * 2 * 2 * 32 * 2);
    EQ_INT(kv_bytes_peak(kv), 0);
    kv_seq *s = kv_seq_new(kv);
    CHECK(kv_reserve(s, 100));
    EQ_INT(kv_bytes_peak(kv), 7u * kv->group[0].block_bytes);
    EQ_INT(kv->group[0].block_bytes, 16 * 4 * 2 * 2 * 32 * 2);
    kv_seq_free(s);
    kv_free(kv);

    o.mem_bytes = 10 * 16 * 1024 + 100;               /* ten blocks of 16 KiB and a bit */
    kv = kv_new(&hp, &o, 4096, &e);
    s = kv_seq_new(kv);
    CHECK(kv_reserve(s, 160));
    CHECK(!kv_reserve(s, 161));
    kv_truncate(s, 150);
    CHECK(kv_reserve(s, 160));
    kv_seq_free(s);
    kv_free(kv);

    o.mem_bytes = 1000;                               /* not even one block */
    CHECK(kv_new(&hp, &o, 4096, &e) == NULL);
    EQ_INT(e.code, EXIT_RESOURCE);
    e = (err_t){0};
    o = (kv_opts){.type_k = K_Q8_0, .type_v = K_F16, .block = 32, .max_blocks = 3};           /* heads of 20 take whole blocks of 32 */
    arch_drop(&hp);
    hp = t_kv_shape(1, 1, 20, 0);
    EQ_INT(model_kv_bytes(&hp, K_Q8_0, K_F16), 34 + 40);
    kv = kv_new(&hp, &o, 4096, &e);
    s = kv_seq_new(kv);
    CHECK(kv_reserve(s, 96));
    CHECK(!kv_reserve(s, 97));
    kv_seq_free(s);
    kv_free(kv);
    arch_drop(&hp);
}

/* Quantised K and V lie spread, each by its own type and head; floats lie as they are. */
static void t_kv_spread(void) {
    static const struct {
        uint32_t type;
        int      hd, run;
    } cases[] = {
        {K_F32, 64, 1},   {K_F16, 64, 1},  {K_BF16, 128, 1}, {K_Q8_0, 64, 64}, {K_Q4_0, 64, 64},
        {K_Q4_0, 80, 16}, {K_Q8_0, 20, 4}, {K_Q4_0, 128, 128}, {K_Q8_0, 512, 256},
    };
    enum { N = sizeof cases / sizeof *cases };
    for (int i = 0; i < N; i++) {
        const int     j = (i * 5 + 3) % N;
        err_t         e = {0};
        const kv_opts o = {.type_k = cases[i].type, .type_v = cases[j].type, .block = 32};
        arch_hparams  hp = t_kv_shape(1, 1, 0, 0);
        hp.hd_k = cases[i].hd;
        hp.hd_v = cases[j].hd;
        kv_cache *kv = kv_new(&hp, &o, 64, &e);
        EQ_INT(kv->spread_k, cases[i].run);
        EQ_INT(kv->spread_v, cases[j].run);
        kv_free(kv);
        arch_drop(&hp);
    }
}

/* A window gives back what it has left behind, and no more. */
static void t_kv_window(void) {
    for (int block = 1; block <= 16; block *= 2)
        for (int step = 1; step <= 30; step += 7) {
            t_kv_rig  rig = t_kv_open(1, 1, 24, block, 0, 400);
            kv_cache *kv = rig.kv;
            kv_seq   *s = kv_seq_new(kv);
            uint64_t  of[400];
            for (int i = 0; i < 400; i++) of[i] = 5;
            for (int n = step; n < 400; n += step) {
                int from = s->n;
                CHECK(kv_reserve(s, n));
                for (int p = from; p < n; p++) t_kv_write(s, 5, p);
                t_kv_verify(s, of, from - 23 > 0 ? from - 23 : 0);
                CHECKF(kv->group[0].n_used <= (24 + step) / block + 2, "%d blocks of %d for a window of 24", kv->group[0].n_used, block);
            }
            kv_seq_free(s);
            t_kv_close(&rig);
        }
}

/* A rollback into what a window gave back keeps nothing and says so; one that stays inside keeps what it says. */
static void t_kv_rollback(void) {
    t_kv_rig  rig = t_kv_open(1, 1, 8, 4, 0, 400);
    kv_cache *kv = rig.kv;
    uint64_t  of[400];
    for (int i = 0; i < 400; i++) of[i] = 9;
    for (int to = 1; to <= 100; to++) {
        kv_seq *s = kv_seq_new(kv);
        for (int n = 1; n <= 100; n++) {
            CHECK(kv_reserve(s, n));
            t_kv_write(s, 9, n - 1);
        }
        int kept = kv_truncate(s, to);
        CHECKF(kept == to || kept == 0, "%d kept of %d", kept, to);
        CHECKF(kept == to || to < 95, "nothing kept at %d", to);
        if (kept) {
            t_kv_verify(s, of, kept - 7);
            CHECK(kv_reserve(s, kept + 1));
            t_kv_write(s, 9, kept);
            t_kv_verify(s, of, kept - 7);
        }
        EQ_INT(s->n, kept + (kept > 0));
        kv_seq_free(s);
    }
    t_kv_close(&rig);
}

/* A reservation that fails leaves nothing behind: a fork made after it shares no block that both would write. */
static void t_kv_failed(void) {
    t_kv_rig  rig = t_kv_open(1, 1, 0, 4, 6, 400);
    kv_cache *kv = rig.kv;
    kv_seq   *s = kv_seq_new(kv), *t;
    uint64_t  of_s[64], of_t[64];
    CHECK(kv_reserve(s, 8));
    for (int p = 0; p < 8; p++) of_s[p] = of_t[p] = 1, t_kv_write(s, 1, p);
    CHECK(!kv_reserve(s, 100));
    EQ_INT(kv->group[0].n_used, 2);
    t = kv_fork(s);
    CHECK(kv_reserve(s, 12) && kv_reserve(t, 12));
    for (int p = 8; p < 12; p++) of_s[p] = 2, of_t[p] = 3, t_kv_write(s, 2, p), t_kv_write(t, 3, p);
    t_kv_verify(s, of_s, 0);
    t_kv_verify(t, of_t, 0);
    kv_seq_free(s);
    kv_seq_free(t);
    t_kv_close(&rig);
}

static const t_case t_kv_cases[] = {
    {"kv random", "values and reference counts through random growth, forks and rollbacks", t_kv_random},
    {"kv bound", "memory follows the tokens, up to the bound", t_kv_bound},
    {"kv spread", "which caches hold K and V spread, and in which runs", t_kv_spread},
    {"kv rollback", "a rollback past a window's memory keeps nothing and says so", t_kv_rollback},
    {"kv failed", "a failed reservation changes nothing", t_kv_failed},
    {"kv window", "a window gives back its past", t_kv_window},
};
