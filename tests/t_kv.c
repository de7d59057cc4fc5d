/* The paged cache compared with a plain model of it: stored values are found again, no block is lost or leaked. */
#include "program.h"
#include "check.h"

static arch_hparams t_kv_shape(int n_layer, int heads, int hd, int window) {
    arch_hparams hp = {.n_layer = n_layer};
    hp.layer = mem_new((size_t)n_layer, sizeof *hp.layer);
    for (int i = 0; i < n_layer; i++)
        hp.layer[i] = (arch_layer_hp){.n_head = heads, .n_head_kv = heads, .hd_k = hd, .hd_v = hd, .window = window};
    return hp;
}

typedef struct {
    arch_hparams hp;
    kv_cache    *kv;
} t_kv_rig;

enum { T_KV_SLOTS = 40 };                             /* of recurrent states */

static t_kv_rig t_kv_open_shape(arch_hparams hp, int block, int max_blocks, int tokens) {
    t_kv_rig      r = {.hp = hp};
    err_t         e = {0};
    const kv_opts o = {.type_k = K_F32, .type_v = K_F32, .block = block, .max_blocks = max_blocks,
                       .state_bytes = T_KV_SLOTS * kv_slot_bytes(&hp)};
    r.kv = kv_new(&r.hp, &o, (kv_load){.tokens = tokens}, &e);
    return r;
}

/* A cache of float32 whose layers have as many heads of 8; max_blocks 0: as many as `tokens` ask for. */
static t_kv_rig t_kv_open(int n_layer, int heads, int window, int block, int max_blocks, int tokens) {
    return t_kv_open_shape(t_kv_shape(n_layer, heads, 8, window), block, max_blocks, tokens);
}

enum { T_KV_MIXES = 5, T_KV_TAPS = 3 };

/* A toy recurrence whose inputs, gates and sums are numbers of 8 bytes, three sums each. */
static const arch_rec t_kv_rec = {.taps = T_KV_TAPS, .width = 2, .n_k = 1, .n_v = 1, .d_k = 2, .d_v = 3, .n_gate = {1, 1}};

/* Models of several groups: layers of other windows, heads and widths, and layers with a state. The window of mix 2 is the
 * least; mix 4 has chunks of 16 beside a window of 16. */
static arch_hparams t_kv_mix(int mix) {
    arch_hparams        hp = t_kv_shape(4, 2, 8, 0);
    const arch_layer_hp narrow = {.n_head = 2, .n_head_kv = 1, .hd_k = mix == 4 ? 24 : 16, .hd_v = 4,
                                  .window = mix == 2 ? 1 : 16, .view = mix == 4 ? VIEW_CHUNK : VIEW_PAST};
    const arch_layer_hp wide = {.n_head = 3, .n_head_kv = 3, .hd_k = 4, .hd_v = 12,
                                .window = mix == 2 ? 0 : mix == 4 ? 16 : 5};
    const arch_layer_hp state = {.n_head = 1, .rec = t_kv_rec};
    hp.layer[1] = narrow;
    if (mix != 3) hp.layer[2] = mix == 1 ? state : wide;
    if (mix == 3) hp.layer[0] = hp.layer[1] = state;
    return hp;
}

/* After all sequences are freed the cache holds only idle blocks. */
static void t_kv_close(t_kv_rig *r) {
    for (int g = 0; g < r->kv->n_group; g++) EQ_INT(r->kv->group[g].n_used, r->kv->group[g].n_idle);
    kv_free(r->kv);
    arch_drop(&r->hp);
}

/* A value that encodes (stream, position, layer, head, element); streams with a common beginning share its values. */
static float t_kv_value(uint64_t stream, int pos, int il, int i) {
    return (float)(rng_at(stream, (uint64_t)pos, (uint64_t)il, (uint64_t)i) >> 40) - 8e6f;
}

/* The toy recurrence, with the layout and the rules of a true one: an input of each position, which a convolution joins with
 * those before it, a gate, and sums in which every position and their order count. What a layer's slot holds is a t_toy. */
typedef struct {
    uint64_t ring[T_KV_TAPS - 1 + DEV_LOG], gate[DEV_LOG], sum[3];
} t_toy;

static uint64_t t_toy_input(uint64_t stream, int pos, int il) { return rng_at(stream, (uint64_t)pos, (uint64_t)il, 1); }
static uint64_t t_toy_gate(uint64_t stream, int pos, int il) { return rng_at(stream, (uint64_t)pos, (uint64_t)il, 2); }

static t_toy t_toy_read(const dev_state *l, const uint8_t *slot) {
    t_toy t;
    memcpy(t.ring, slot + l->ring_at, sizeof t.ring);
    memcpy(t.gate, slot + l->gate_at, sizeof t.gate);
    memcpy(t.sum, slot + l->sum_at, sizeof t.sum);
    return t;
}

static void t_toy_write(const dev_state *l, const t_toy *t, uint8_t *slot) {
    memcpy(slot + l->ring_at, t->ring, sizeof t->ring);
    memcpy(slot + l->gate_at, t->gate, sizeof t->gate);
    memcpy(slot + l->sum_at, t->sum, sizeof t->sum);
}

/* Takes position p into the sums of t: input and gate are those of its log. */
static void t_toy_fold(t_toy *t, int p) {
    uint64_t x = 0;
    for (int k = 0; k < T_KV_TAPS && k <= p; k++) x = 3 * x + t->ring[(p - k) % (T_KV_TAPS - 1 + DEV_LOG)];
    for (int i = 0; i < 3; i++) t->sum[i] = rng_mix(t->sum[i] ^ (x + t->gate[p % DEV_LOG] + (uint64_t)i));
}

/* What a layer's slot that stands at `at` holds, with a log up to `end`, of a text. */
static t_toy t_toy_of(const uint64_t *of, int il, int at, int end) {
    t_toy t = {0};
    for (int p = 0; p < at; p++) {
        t.ring[p % (T_KV_TAPS - 1 + DEV_LOG)] = t_toy_input(of[p], p, il);
        t.gate[p % DEV_LOG] = t_toy_gate(of[p], p, il);
        t_toy_fold(&t, p);
    }
    for (int p = at; p < end; p++) {
        t.ring[p % (T_KV_TAPS - 1 + DEV_LOG)] = t_toy_input(of[p], p, il);
        t.gate[p % DEV_LOG] = t_toy_gate(of[p], p, il);
    }
    return t;
}

/* The parts that a slot which stands at `at`, with a log up to `end`, has by its rules; the rest is noise. */
static void t_toy_keep(const t_toy *from, int at, int end, t_toy *to) {
    const int ring = T_KV_TAPS - 1 + DEV_LOG;
    for (int p = at - (T_KV_TAPS - 1) > 0 ? at - (T_KV_TAPS - 1) : 0; p < end; p++) to->ring[p % ring] = from->ring[p % ring];
    for (int p = at; p < end; p++) to->gate[p % DEV_LOG] = from->gate[p % DEV_LOG];
}

/* What a step with positions [p, end) does with one layer. `in` is read; out and snap (NULL: none) are written. */
static void t_toy_step(const k_turn *turn, const uint64_t *of, int il, int p, int end, t_toy in, t_toy *out, t_toy *snap) {
    t_toy now = in;
    for (int q = turn->at; q <= end; q++) {
        if (q == turn->to) memcpy(out->sum, now.sum, sizeof now.sum);
        if (snap && q == turn->snap_at) {
            memcpy(snap->sum, now.sum, sizeof now.sum);
            t_toy_keep(&now, q, q, snap);
        }
        if (q == end) break;
        if (q >= p) {
            now.ring[q % (T_KV_TAPS - 1 + DEV_LOG)] = t_toy_input(of[q], q, il);
            now.gate[q % DEV_LOG] = t_toy_gate(of[q], q, il);
        }
        t_toy_fold(&now, q);
    }
    t_toy_keep(&now, turn->to, end, out);
}

/* The states of a step with positions [p, end) of a text. */
static void t_kv_step_states(kv_seq *s, const uint64_t *of, int p, int end) {
    const kv_cache *kv = s->kv;
    if (!kv_has_states(kv)) return;
    const k_turn      turn = kv_advance(s, p, end);
    const dev_blocks *mem = &kv->group[kv->states].mem;
    const size_t      n = mem->block_bytes;
    uint8_t          *was = mem_new(1, n), *out = mem_new(1, n), *snap = mem_new(1, n);
    CHECKF(turn.at <= turn.to && turn.to <= end && turn.to + DEV_LOG >= end && (turn.to <= p || turn.to == end - DEV_LOG),
           "a step over [%d, %d) from %d stands at %d",
           p, end, turn.at, turn.to);
    CHECKF(turn.snap < 0 || (turn.snap_at > turn.at && turn.snap_at <= end && turn.snap != turn.in && turn.snap != turn.out),
           "a snapshot at %d in [%d, %d)",
           turn.snap_at, turn.at, end);
    CHECKF(turn.in >= 0 || (turn.at == 0 && p == 0), "zeros at %d", p);
    if (turn.in >= 0) dev_blocks_read(mem, turn.in, was);
    memset(out, 0xa5, n);
    memset(snap, 0x5a, n);
    for (int il = 0; il < kv->n_layer; il++) {
        const dev_state *l = &kv->state[il];
        t_toy            to, kept;
        if (!l->mem) continue;
        to = t_toy_read(l, turn.in == turn.out ? was : out);
        kept = t_toy_read(l, snap);
        t_toy_step(&turn, of, il, p, end, turn.in < 0 ? (t_toy){{0}, {0}, {0}} : t_toy_read(l, was), &to,
                   turn.snap < 0 ? NULL : &kept);
        t_toy_write(l, &to, out);
        t_toy_write(l, &kept, snap);
    }
    dev_blocks_write(mem, turn.out, out);
    if (turn.snap >= 0) dev_blocks_write(mem, turn.snap, snap);
    mem_free(was), mem_free(out), mem_free(snap);
}

/* Writes keys and values of one position. */
static void t_kv_write(kv_seq *s, uint64_t stream, int pos) {
    const int32_t *table;
    float          k[64], v[64];
    kv_flush(s->kv);
    for (int il = 0; il < s->kv->n_layer; il++) {
        const dev_kv *l = &s->kv->layer[il];
        if (s->kv->state[il].mem) continue;
        kv_table(s, l->group, &table);
        for (int i = 0; i < l->n_head * l->hd_k; i++) k[i] = t_kv_value(stream, pos, il, i);
        for (int i = 0; i < l->n_head * l->hd_v; i++) v[i] = t_kv_value(stream, pos, il, 1000 + i);
        ops__kv_store(l, table, pos, k, v);
    }
}

/* A step over positions [from, to) of a text, which are reserved. */
static void t_kv_step(kv_seq *s, const uint64_t *of, int from, int to) {
    kv_flush(s->kv);
    for (int p = from; p < to; p++) t_kv_write(s, of[p], p);
    t_kv_step_states(s, of, from, to);
}

/* The state of a layer after the sequence's last position. */
static bool t_kv_verify_state(const kv_seq *s, int il, const uint64_t *of) {
    const dev_state *l = &s->kv->state[il];
    if (!CHECKF(s->filled == s->n && s->state_at <= s->n && s->n - s->state_at <= DEV_LOG, "%d positions: a state at %d with %d",
                s->n, s->state_at, s->filled)) return false;
    if (s->state < 0) return CHECKF(!s->n, "no state at %d", s->n);
    uint8_t *slot = mem_new(1, l->mem->block_bytes);
    dev_blocks_read(l->mem, s->state, slot);
    t_toy got = t_toy_read(l, slot), want = t_toy_of(of, il, s->state_at, s->n);
    mem_free(slot);
    bool same = memcmp(got.sum, want.sum, sizeof got.sum) == 0;
    for (int p = s->state_at; p < s->n; p++) t_toy_fold(&got, p), t_toy_fold(&want, p);
    same = same && memcmp(got.sum, want.sum, sizeof got.sum) == 0;
    return CHECKF(same, "layer %d: another state at position %d, which stands at %d", il, s->n, s->state_at);
}

/* Keys and values of one head from position `from` on. */
static bool t_kv_verify_head(const kv_seq *s, int il, int h, const uint64_t *stream_of, int from) {
    const uint8_t *kb[512], *vb[512];
    const dev_kv  *l = &s->kv->layer[il];
    const int32_t *table;
    const int      n = kv_table(s, l->group, &table);
    ops__kv_views(l, table, n, h, kb, vb);
    for (int p = from; p < s->n; p++) {
        if (!CHECKF(kb[p / l->block] != NULL, "position %d has no block", p)) return false;
        const float *k = (const float *)(const void *)(kb[p / l->block] + (size_t)(p % l->block) * l->k_stride);
        const float *v = (const float *)(const void *)(vb[p / l->block] + (size_t)(p % l->block) * l->v_stride);
        bool         same = true;
        for (int i = 0; i < l->hd_k; i++) same = same && k[i] == t_kv_value(stream_of[p], p, il, h * l->hd_k + i);
        for (int i = 0; i < l->hd_v; i++) same = same && v[i] == t_kv_value(stream_of[p], p, il, 1000 + h * l->hd_v + i);
        if (!CHECKF(same, "position %d layer %d head %d: another value", p, il, h)) return false;
    }
    return true;
}

/* All that a row at position `at` sees holds the values of stream_of[pos], and the states are those after the last position. */
static void t_kv_verify(const kv_seq *s, const uint64_t *stream_of, int at) {
    bool ok = true;
    kv_flush(s->kv);
    for (int il = 0; ok && il < s->kv->n_layer; il++) {
        const dev_kv *l = &s->kv->layer[il];
        if (s->kv->state[il].mem) ok = t_kv_verify_state(s, il, stream_of);
        if (!l->n_head) continue;                     /* its group is none of K/V */
        const kv_group *gr = &s->kv->group[l->group];
        const int window = gr->window, from = gr->chunked ? at / window * window : window && at >= window ? at + 1 - window : 0;
        for (int h = 0; ok && h < l->n_head; h++)
            ok = t_kv_verify_head(s, il, h, stream_of, from);
    }
}

enum { T_KV_SEQS = 6, T_KV_CTX = 200 };

/* The reference counts of a group match its block tables. */
static void t_kv_recount(const kv_cache *kv, int g, kv_seq *const *s) {
    const kv_group *gr = &kv->group[g];
    uint32_t        refs[T_KV_CTX * 3] = {0};
    int             used = 0;
    for (int i = 0; i < T_KV_SEQS; i++)
        for (int b = 0; s[i] && b < s[i]->n_blocks[g]; b++)
            if (s[i]->table[g][b] >= 0) refs[s[i]->table[g][b]]++;
    for (int i = 0; i < T_KV_SEQS && g == kv->states; i++)
        if (s[i] && s[i]->state >= 0) refs[s[i]->state]++;
    for (int b = 0; b < dev_blocks_mapped(&gr->mem); b++) {
        used += refs[b] > 0;
        EQ_INT(gr->block[b].refs, refs[b]);
    }
    EQ_INT(gr->n_used, used);
}

/* Random growth, forks, rollbacks and frees, in caches of one group and of several. */
static void t_kv_random(void) {
    for (int round = 0; round < 6 * (2 + T_KV_MIXES); round++) {
        static const int blocks[] = {1, 2, 3, 8, 32, 64};
        t_kv_rig         rig =
            t_kv_open_shape(round < 12 ? t_kv_shape(2, 2, 8, 0) : t_kv_mix(round / 6 - 2), blocks[round % 6], 0, T_KV_CTX * 3);
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
                for (int p = from; p < n; p++) of[q][p] = next;
                t_kv_step(s[q], of[q], from, n);
            } else if (what < 9) {
                kv_truncate(s[q], (int)((r >> 24) % (uint64_t)(s[q]->n + 1)));
            } else {
                kv_seq_free(s[q]);
                s[q] = NULL;
            }
            for (int g = 0; g < kv->n_group; g++) t_kv_recount(kv, g, s);
            if (move % 20 == 0)
                for (int i = 0; i < T_KV_SEQS; i++)
                    if (s[i]) t_kv_verify(s[i], of[i], s[i]->n);
        }
        for (int i = 0; i < T_KV_SEQS; i++) kv_seq_free(s[i]);
        t_kv_close(&rig);
    }
}

/* Layers with the same rule share a group, whatever their heads are; each lies after the others in its blocks, and none
 * overlaps. */
static void t_kv_groups(void) {
    static const int want[T_KV_MIXES][4] = {{0, 1, 2, 0}, {0, 1, 2, 0}, {0, 1, 0, 0}, {0, 0, 1, 1}, {0, 1, 2, 0}};
    for (int mix = 0; mix < T_KV_MIXES; mix++) {
        t_kv_rig rig = t_kv_open_shape(t_kv_mix(mix), 3, 10, 100);
        size_t   end[4] = {0};
        for (int il = 0; il < rig.kv->n_layer; il++) {
            const dev_kv    *l = &rig.kv->layer[il];
            const dev_state *st = &rig.kv->state[il];
            const int        group = st->mem ? st->group : l->group;
            size_t          *at = &end[group];
            EQ_INT(group, want[mix][il]);
            CHECK((st->mem ? st->mem : l->mem) == &rig.kv->group[group].mem);
            if (st->mem) {
                CHECK(l->group < 0 && !l->mem && group == rig.kv->states && st->ring_at == *at && *at % 64 == 0);
                CHECK(st->gate_at >= st->ring_at + sizeof(uint64_t) * (T_KV_TAPS - 1 + DEV_LOG) &&
                      st->sum_at >= st->gate_at + sizeof(uint64_t) * DEV_LOG);
                *at = (st->sum_at + 3 * sizeof(uint64_t) + 63) / 64 * 64;
                continue;
            }
            CHECK(l->k_at == *at && l->v_at >= l->k_at + (size_t)l->n_head * 3 * l->k_stride);
            *at = (l->v_at + (size_t)l->n_head * 3 * l->v_stride + 63) / 64 * 64;
        }
        uint64_t all = 0;
        for (int g = 0; g < rig.kv->n_group; g++) {
            EQ_INT(rig.kv->group[g].mem.block_bytes, end[g]);
            all += end[g] * (g == rig.kv->states ? T_KV_SLOTS : 10);
        }
        EQ_INT(kv_bytes_most(rig.kv), all);
        if (kv_has_states(rig.kv)) EQ_INT(kv_slot_bytes(&rig.hp), end[rig.kv->states]);
        t_kv_close(&rig);
    }
}

/* Memory follows the tokens in use, up to the bound and not past it. */
static void t_kv_bound(void) {
    arch_hparams hp = t_kv_shape(4, 2, 32, 0);
    err_t        e = {0};
    kv_opts      o = {.type_k = K_F16, .type_v = K_F16, .block = 16};
    kv_cache    *kv = kv_new(&hp, &o, (kv_load){.tokens = 1 << 28}, &e);
    EQ_INT(model_kv_bytes(&hp, K_F16, K_F16), 4 * 2 * 2 * 32 * 2);
    EQ_INT(kv_bytes_peak(kv), 0);
    kv_seq *s = kv_seq_new(kv);
    CHECK(kv_reserve(s, 100));
    EQ_INT(kv_bytes_peak(kv), 7u * kv->group[0].mem.block_bytes);
    EQ_INT(kv->group[0].mem.block_bytes, 16 * 4 * 2 * 2 * 32 * 2);
    kv_seq_free(s);
    kv_free(kv);

    o.mem_bytes = 10 * 16 * 1024 + 100;               /* ten blocks of 16 KiB and a bit */
    kv = kv_new(&hp, &o, (kv_load){.tokens = 4096}, &e);
    s = kv_seq_new(kv);
    CHECK(kv_reserve(s, 160));
    CHECK(!kv_reserve(s, 161));
    kv_truncate(s, 150);
    CHECK(kv_reserve(s, 160));
    kv_seq_free(s);
    kv_free(kv);

    o.mem_bytes = 1000;                               /* not even one block */
    CHECK(kv_new(&hp, &o, (kv_load){.tokens = 4096}, &e) == NULL);
    EQ_INT(e.code, EXIT_RESOURCE);
    e = (err_t){0};
    /* heads of 20 take whole blocks of 32 */
    o = (kv_opts){.type_k = K_Q8_0, .type_v = K_F16, .block = 32, .max_blocks = 3};
    arch_drop(&hp);
    hp = t_kv_shape(1, 1, 20, 0);
    EQ_INT(model_kv_bytes(&hp, K_Q8_0, K_F16), 34 + 40);
    kv = kv_new(&hp, &o, (kv_load){.tokens = 4096}, &e);
    s = kv_seq_new(kv);
    CHECK(kv_reserve(s, 96));
    CHECK(!kv_reserve(s, 97));
    kv_seq_free(s);
    kv_free(kv);
    arch_drop(&hp);
}

/* Quantised K and V are transformed, each in runs that its width allows; floats are not. */
static void t_kv_latent(void) {
    static const struct { uint32_t type; int rank, rot, hadamard_v, hadamard_k; } rows[] = {
        {K_BF16, 512, 64, 1, 1}, {K_Q8_0, 512, 64, 256, 64}, {K_Q4_0, 512, 64, 256, 64}, {K_Q8_0, 20, 4, 4, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int     rank = rows[i].rank, key = rank + rows[i].rot;
        arch_hparams  hp = t_kv_shape(2, 1, 0, 0);
        err_t         e = {0};
        const kv_opts o = {.type_k = rows[i].type, .type_v = K_F32, .block = 32};
        for (int il = 0; il < 2; il++)
            hp.layer[il] = (arch_layer_hp){.mixer = MIX_LATENT, .n_head = 16, .n_head_kv = 1, .hd_k = key, .hd_v = rank, .rank = rank};
        kv_cache     *kv = kv_new(&hp, &o, (kv_load){.tokens = 64}, &e);
        const dev_kv *l = &kv->layer[1];
        const size_t  row = k_kv_bytes(rows[i].type, key), layer = (32 * row + 63) / 64 * 64;
        EQ_INT(l->shared, 1), EQ_INT(l->type_v, rows[i].type);
        EQ_INT(l->k_stride, row), EQ_INT(l->v_stride, row);
        EQ_INT(l->k_at, layer), EQ_INT(l->v_at, layer);
        EQ_INT(l->hadamard_v, rows[i].hadamard_v), EQ_INT(l->hadamard_k, rows[i].hadamard_k);
        EQ_INT(kv->group[0].mem.block_bytes, 2 * layer);
        EQ_INT(model_kv_bytes(&hp, o.type_k, o.type_v), 2 * row);
        kv_free(kv);
        arch_drop(&hp);
    }
}

/* Keys of an indexer lie behind those of their layer, and of layers that have one alone. */
static void t_kv_index(void) {
    static const struct { uint32_t type; int hd, hadamard; } rows[] = {
        {K_F32, 12, 1}, {K_BF16, 128, 1}, {K_Q8_0, 128, 128}, {K_Q4_0, 12, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arch_hparams  hp = t_kv_shape(2, 2, 16, 0);
        err_t         e = {0};
        const kv_opts o = {.type_k = rows[i].type, .type_v = K_F16, .block = 8};
        hp.layer[1].indexed = hp.layer[1].chooses = true, hp.hd_index = rows[i].hd;
        kv_cache     *kv = kv_new(&hp, &o, (kv_load){.tokens = 64}, &e);
        const dev_kv *l = &kv->index[1];
        const size_t  each = k_kv_bytes(rows[i].type, rows[i].hd), all = (8 * each + 63) / 64 * 64;
        EQ_INT(kv->index[0].n_head, 0), EQ_INT(l->n_head, 1), EQ_INT(l->shared, 1), EQ_INT(l->group, kv->layer[1].group);
        EQ_INT(l->k_stride, each), EQ_INT(l->type_k, rows[i].type), EQ_INT(l->hd_k, rows[i].hd);
        EQ_INT(l->hadamard_k, rows[i].hadamard);
        EQ_INT(l->k_at, kv->layer[1].v_at + 2 * 8 * kv->layer[1].v_stride);
        EQ_INT(kv->group[0].mem.block_bytes, l->k_at + all);
        const uint64_t with = model_kv_bytes(&hp, o.type_k, o.type_v);
        hp.layer[1].indexed = false;
        EQ_INT(with - model_kv_bytes(&hp, o.type_k, o.type_v), each);
        kv_free(kv);
        arch_drop(&hp);
    }
}

/* Transforms of keys are as long as the width allows, those of values have at most 64 values. */
static void t_kv_hadamard(void) {
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
        hp.layer[0].hd_k = cases[i].hd;
        hp.layer[0].hd_v = cases[j].hd;
        kv_cache *kv = kv_new(&hp, &o, (kv_load){.tokens = 64}, &e);
        EQ_INT(kv->layer[0].hadamard_k, cases[i].run);
        EQ_INT(kv->layer[0].hadamard_v, cases[j].run < 64 ? cases[j].run : 64);
        kv_free(kv);
        arch_drop(&hp);
    }
}

/* A window frees the blocks before it, and no others. */
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
                t_kv_verify(s, of, from);
                CHECKF(kv->group[0].n_used <= (24 + step) / block + 2, "%d blocks of %d for a window of 24", kv->group[0].n_used,
                       block);
            }
            kv_seq_free(s);
            t_kv_close(&rig);
        }
}

/* A step frees the blocks of chunks before that of the last position that was there, and no others. */
static void t_kv_chunks(void) {
    for (int block = 1; block <= 16; block *= 2)
        for (int step = 1; step <= 30; step += 7) {
            arch_hparams hp = t_kv_shape(1, 1, 8, 24);
            hp.layer[0].view = VIEW_CHUNK;
            t_kv_rig  rig = t_kv_open_shape(hp, block, 0, 400);
            kv_cache *kv = rig.kv;
            kv_seq   *s = kv_seq_new(kv);
            uint64_t  of[400];
            for (int i = 0; i < 400; i++) of[i] = 5;
            for (int n = step; n < 400; n += step) {
                const int from = s->n, first = from ? (from - 1) / 24 * 24 : 0;
                CHECK(kv_reserve(s, n));
                for (int p = from; p < n; p++) t_kv_write(s, 5, p);
                t_kv_verify(s, of, from);
                EQ_INT(kv->group[0].n_used, (n - 1) / block + 1 - first / block);
            }
            kv_seq_free(s);
            t_kv_close(&rig);
        }
}

/* How many blocks each group may have: few with a window, so that a bound in bytes is spent on layers that keep all positions. */
static void t_kv_bounds(void) {
    static const struct {
        /* blocks: as many bytes of all groups as one bound of so many blocks for all would be; 0: no bound */
        int     mix, block, max_blocks, blocks;
        kv_load load;
        int     want[3];
    } rows[] = {                                      /* mix 0: all positions, windows of 16 and of 5 */
        {0, 4, 0, 0, {4000, 0, 0, NULL, 0}, {1000, 1000, 1000}},
        {0, 4, 0, 0, {4000, 2, 8, NULL, 0}, {1000, 1018, 1012}},
        /* twice two sequences of (16 + 8) / 4 + 3 blocks; of (5 + 8) / 4 + 3 */
        {0, 4, 30, 0, {4000, 2, 8, NULL, 0}, {30, 30, 24}},
        {0, 4, 0, 100, {40000, 2, 8, NULL, 0}, {-1, 36, 24}},
        {0, 4, 0, 10, {40000, 2, 8, NULL, 0}, {10, 10, 10}},
        {0, 4, 0, 100, {120, 2, 8, NULL, 0}, {30, 48, 42}},
        {2, 4, 0, 50, {40000, 1, 4, NULL, 0}, {-1, 8, 0}},     /* a window of 1 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arch_hparams hp = t_kv_mix(rows[i].mix);
        err_t        e = {0};
        kv_opts      o = {.type_k = K_F32, .type_v = K_F32, .block = rows[i].block, .max_blocks = rows[i].max_blocks};
        kv_cache    *kv = kv_new(&hp, &o, rows[i].load, &e);
        uint64_t     each = 0;
        for (int g = 0; g < kv->n_group; g++) each += kv->group[g].mem.block_bytes;
        if (rows[i].blocks) {
            kv_free(kv);
            o.mem_bytes = each * (uint64_t)rows[i].blocks;
            kv = kv_new(&hp, &o, rows[i].load, &e);
            CHECKF(kv_bytes_most(kv) <= o.mem_bytes, "row %zu: %llu bytes of %llu", i, (unsigned long long)kv_bytes_most(kv),
                   (unsigned long long)o.mem_bytes);
        }
        for (int g = 0; g < kv->n_group; g++) {
            const int got = kv->group[g].mem.max_blocks;
            if (rows[i].want[g] >= 0)
                CHECKF(got == rows[i].want[g], "row %zu group %d: %d blocks, expected %d", i, g, got, rows[i].want[g]);
            else CHECKF(got > rows[i].blocks && kv_bytes_most(kv) + kv->group[g].mem.block_bytes > o.mem_bytes,
                        "row %zu group %d: %d blocks", i, g, got);
        }
        kv_seq   *s[2] = {kv_seq_new(kv), kv_seq_new(kv)};
        const int all = rows[i].load.seqs ? kv->max_blocks * rows[i].block / rows[i].load.seqs : 0;
        /* every group has blocks for all of them */
        for (int to = 0; all && to + rows[i].load.rows <= all && to < 400; to += rows[i].load.rows)
            for (int q = 0; q < rows[i].load.seqs; q++)
                CHECKF(kv_reserve(s[q], to + rows[i].load.rows), "row %zu: %d positions", i, to);
        kv_seq_free(s[0]);
        kv_seq_free(s[1]);
        kv_free(kv);
        arch_drop(&hp);
    }
}

/* Slots are bounded by what the options say and by what GPUs hold. */
static void t_kv_slots(void) {
    static const struct { int options, gpus, want; } rows[] = {{9, 0, 9}, {9, 4, 4}, {4, 9, 4}, {0, 3, 3}, {0, 0, 2 + 2}};
    for (int i = 0; i < 5; i++) {
        arch_hparams  hp = t_kv_mix(1);
        err_t         e = {0};
        const kv_opts o = {.type_k = K_F32, .type_v = K_F32, .block = 4, .max_blocks = 2,
                           .state_bytes = (uint64_t)rows[i].options * kv_slot_bytes(&hp)};
        kv_cache     *kv = kv_new(&hp, &o, (kv_load){.tokens = 8, .seqs = 2, .rows = 8, .slots = rows[i].gpus}, &e);
        EQ_INT(kv->group[kv->states].mem.max_blocks, rows[i].want);
        kv_free(kv);
        arch_drop(&hp);
    }
}

/* What a sequence lacks is counted for each group by itself: with a window few blocks, of states one slot. */
static void t_kv_demand(void) {
    arch_hparams  hp = t_kv_mix(1);                   /* all positions, a window of 16, states */
    err_t         e = {0};
    const kv_opts o = {.type_k = K_F32, .type_v = K_F32, .block = 4, .state_bytes = 3 * kv_slot_bytes(&hp)};
    kv_cache     *kv = kv_new(&hp, &o, (kv_load){.tokens = 400, .seqs = 2, .rows = 8}, &e);
    int32_t       ids[200];
    int64_t       need[3] = {0};
    for (int i = 0; i < 200; i++) ids[i] = i;
    kv_share(kv);
    kv_add_demand(kv, NULL, NULL, ids, 100, need);
    EQ_INT(need[0], 28);                              /* 25 for its tokens, one for the next, two that may be copies */
    EQ_INT(need[1], 1 + 9);
    EQ_INT(need[2], 1);
    kv_seq *s = kv_seq_new(kv);
    uint64_t of[200] = {0};
    CHECK(kv_reserve(s, 60));
    t_kv_step(s, of, 0, 60);
    memset(need, 0, sizeof need);
    kv_add_demand(kv, s, NULL, ids, 100, need);
    EQ_INT(need[0], 28 - 15);
    EQ_INT(need[1], 1);                               /* it has more now than it will ever need */
    EQ_INT(need[2], 0);
    CHECK(kv_meets(kv, need));
    need[1] = 1000;
    CHECK(!kv_meets(kv, need));
    memset(need, 0, sizeof need);
    kv_add_fork(kv, need);
    CHECK(need[0] == 3 && need[1] == 3 && need[2] == 1);
    need[2] = 3;
    CHECK(!kv_meets(kv, need));
    kv_seq_free(s);
    CHECK(kv_meets(kv, need));
    kv_free(kv);
    arch_drop(&hp);
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
            t_kv_verify(s, of, kept);
            CHECK(kv_reserve(s, kept + 1));
            t_kv_write(s, 9, kept);
            t_kv_verify(s, of, kept);
        }
        EQ_INT(s->n, kept + (kept > 0));
        kv_seq_free(s);
    }
    t_kv_close(&rig);
}

/* A reservation that fails changes nothing: a fork made after it shares no block that both would write. */
static void t_kv_failed(void) {
    t_kv_rig  rig = t_kv_open(1, 1, 0, 4, 6, 400);
    kv_cache *kv = rig.kv;
    kv_seq   *s = kv_seq_new(kv), *t;
    uint64_t  of_s[64], of_t[64];
    CHECK(kv_reserve(s, 8));
    for (int p = 0; p < 8; p++) of_s[p] = of_t[p] = 1, t_kv_write(s, 1, p);
    CHECK(!kv_reserve(s, 100));
    int peak;
    EQ_INT(kv_held(kv, &peak), 2);
    t = kv_fork(s);
    CHECK(kv_reserve(s, 12) && kv_reserve(t, 12));
    for (int p = 8; p < 12; p++) of_s[p] = 2, of_t[p] = 3, t_kv_write(s, 2, p), t_kv_write(t, 3, p);
    t_kv_verify(s, of_s, s->n);
    t_kv_verify(t, of_t, t->n);
    kv_seq_free(s);
    kv_seq_free(t);
    t_kv_close(&rig);
}

/* A group for whose blocks the system has no memory: the reservation fails, and the other group keeps no block of it. */
static void t_kv_unmapped(void) {
    arch_hparams hp = t_kv_shape(2, 1, 8, 0);
    hp.layer[1] = (arch_layer_hp){.n_head = 1, .n_head_kv = 1 << 12, .hd_k = 1 << 20, .hd_v = 1 << 20, .window = 9};
    t_kv_rig rig = t_kv_open_shape(hp, 1 << 14, 5, 1 << 20);
    kv_seq  *s = kv_seq_new(rig.kv);
    int      peak;
    EQ_INT(rig.kv->n_group, 2);
    CHECK(!kv_reserve(s, 3));
    EQ_INT(s->n, 0);
    EQ_INT(kv_held(rig.kv, &peak), 0);
    EQ_INT(kv__room(rig.kv, 1), 0);                   /* a schedule must not wait for blocks that the system does not give */
    for (int turn = 0; turn < 2; turn++) {            /* and the message does not say that an option bounds it */
        err_t e = {0};
        CHECK(!kv_require(s, 3, &e) && e.code == EXIT_RESOURCE);
        EQ_STR(e.text, "out of memory: the KV cache of 3 tokens");
    }
    kv_seq_free(s);
    t_kv_close(&rig);
}

static bool t_kv_fill(void *ctx, int group, int32_t stored, int32_t block) {
    const kv_cache *kv = ctx;
    (void)stored;
    dev_blocks_clear(&kv->group[group].mem, block);
    return true;
}

/* A copy that is due reads its source before anything else is written there: a block from disk, or zeros. */
static void t_kv_copies(void) {
    for (int disk = 0; disk < 2; disk++) {
        static const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        const int32_t        stored = 0;
        t_kv_rig             rig = t_kv_open(1, 1, 0, 8, 4, 400);
        uint64_t             of[8];
        bool                 wait;
        kv_share(rig.kv);
        kv_fetcher(rig.kv, t_kv_fill, rig.kv);
        kv_add_stored(rig.kv, 0, ids, &stored);
        kv_seq *s = kv_seq_new(rig.kv), *other = kv_seq_new(rig.kv);
        CHECK(kv_reserve(s, 5));
        for (int p = 0; p < 5; p++) t_kv_write(s, of[p] = 3, p);
        kv_seq       *t = kv_fork(s);
        const int32_t from = s->table[0][0];
        CHECK(kv_reserve(t, 6));
        EQ_INT(rig.kv->n_copy, 1);
        kv_seq_free(s);
        if (disk) EQ_INT(kv_match_prefix(other, ids, 8, &wait), 8);
        else CHECK(kv_reserve(other, 8));
        if (!disk) kv_prefault(other, 0);
        EQ_INT(other->table[0][0], from);             /* the source is another's by now */
        t_kv_write(t, of[5] = 4, 5);
        t_kv_verify(t, of, 6);
        kv_seq_free(t);
        kv_seq_free(other);
        t_kv_close(&rig);
    }
}

/* --- recurrent states --- */

enum { T_STATE_CTX = 96, T_STATE_BLOCK = 8 };

typedef struct {
    t_kv_rig rig;
    int32_t  ids[T_STATE_CTX];
    uint64_t of[T_STATE_CTX];                         /* the hash of all tokens up to each */
} t_state_rig;

static t_state_rig t_state_open(int mix, int blocks) {
    t_state_rig r = {.rig = t_kv_open_shape(t_kv_mix(mix), T_STATE_BLOCK, blocks, 1 << 20)};
    kv_share(r.rig.kv);
    for (int p = 0; p < T_STATE_CTX; p++) {
        r.ids[p] = p * 7 % 50;
        r.of[p] = rng_mix((p ? r.of[p - 1] : 1) + (uint64_t)r.ids[p]);
    }
    return r;
}

/* A step that brings the sequence to n positions and makes a snapshot at one of them; 0: none. */
static void t_state_snap(const t_state_rig *r, kv_seq *s, int n, int at, kv_staying staying) {
    const int from = s->n;
    if (!CHECK(kv_reserve(s, n))) return;
    kv_publish(s, r->ids);
    if (at) CHECKF(kv_snapshot(s, at, staying), "no snapshot at %d of %d", at, n);
    t_kv_step(s, r->of, from, n);
    kv_commit(r->rig.kv, true);
    t_kv_verify(s, r->of, n);
}

static void t_state_step(const t_state_rig *r, kv_seq *s, int n) { t_state_snap(r, s, n, 0, KV_KEPT); }

/* Snapshots that the tree has on the path of the rig's text, as a mask of their borders. */
static unsigned t_state_borders(const t_state_rig *r) {
    const kv_cache *kv = r->rig.kv;
    unsigned        mask = 0;
    int32_t         i = 0;
    for (int b = 0; b < T_STATE_CTX / T_STATE_BLOCK && (i = kv__find(kv, i, r->ids + b * T_STATE_BLOCK)) >= 0; b++)
        mask |= (unsigned)(kv_parts(kv, i)[kv->states].block >= 0) << (b + 1);
    return mask;
}

/* Two sequences with a common beginning continue independently, whether the first has reserved its next step or not. */
static void t_state_fork(void) {
    for (int mix = 1; mix <= 3; mix += 2)
        for (int n = 1; n < 40; n += 1 + n % 3)
            for (int how = 0; how < 4; how++) {
                t_state_rig r = t_state_open(mix, 20);
                kv_seq     *s = kv_seq_new(r.rig.kv);
                uint64_t    other[T_STATE_CTX];
                t_state_snap(&r, s, n, how & 2 ? n - n % T_STATE_BLOCK : 0, KV_KEPT);
                if (how & 2) kv_seq_free(s), s = kv_seq_new(r.rig.kv), kv_match_prefix(s, r.ids, n, &(bool){0});
                if (how & 1) CHECK(kv_reserve(s, s->n + 9));
                const int at = how & 1 ? s->n - 9 : s->n;
                kv_seq   *t = kv_fork(s);
                memcpy(other, r.of, sizeof other);
                EQ_INT(kv_truncate(t, at), at);
                if (how & 1) t_kv_step(s, r.of, at, at + 9);      /* in place, before the other one has a step */
                CHECK(kv_reserve(t, at + 5));
                for (int p = at; p < at + 5; p++) other[p] = 99;
                t_kv_step(t, other, at, at + 5);
                if (!(how & 1)) t_state_step(&r, s, at + 9);
                t_kv_verify(t, other, t->n);
                t_kv_verify(s, r.of, s->n);
                kv_seq_free(s);
                kv_seq_free(t);
                t_kv_close(&r.rig);
            }
}

/* A cut within the log costs nothing; before it, it goes back to the last snapshot, and says which. */
static void t_state_truncate(void) {
    static const struct { int to, kept; } cuts[] =
        {{60, 60}, {59, 59}, {50, 50}, {44, 44}, {43, 32}, {32, 32}, {31, 16}, {16, 16}, {15, 0}, {7, 0}, {0, 0}};
    for (int mix = 1; mix <= 3; mix += 2)
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            t_state_rig r = t_state_open(mix, 20);
            kv_seq     *s = kv_seq_new(r.rig.kv);
            const bool  window = mix == 1 && cuts[i].to < 43;   /* whose blocks are gone: nothing is kept */
            t_state_snap(&r, s, 21, 16, KV_KEPT);
            t_state_snap(&r, s, 37, 32, KV_KEPT);
            t_state_step(&r, s, 60);
            EQ_INT(s->state_at, 60 - DEV_LOG);
            const int kept = kv_truncate(s, cuts[i].to);
            CHECKF(kept == cuts[i].kept || (window && !kept), "mix %d: cut to %d, %d kept", mix, cuts[i].to, kept);
            EQ_INT(s->n, kept);
            t_kv_verify(s, r.of, s->n);
            t_state_step(&r, s, 70);
            kv_seq_free(s);
            t_kv_close(&r.rig);
        }
}

/* A snapshot anywhere in a step, or among the positions that the step takes in first, is the state there. */
static void t_state_snapshot(void) {
    for (int from = 0; from < 40; from++)
        for (int more = 1; more < 45; more += 4)
            for (int at = T_STATE_BLOCK; at <= from + more; at += T_STATE_BLOCK) {
                t_state_rig r = t_state_open(3, 20);
                kv_seq     *s = kv_seq_new(r.rig.kv), *t = kv_seq_new(r.rig.kv);
                bool        wait;
                if (from) t_state_step(&r, s, from);
                CHECK(kv_reserve(s, from + more));
                kv_publish(s, r.ids);
                const bool can = at > s->state_at;
                EQ_INT(kv_snapshot(s, at, KV_KEPT), can);
                CHECK(!kv_snapshot(s, at, KV_KEPT));
                t_kv_step(s, r.of, from, from + more);
                kv_commit(r.rig.kv, true);
                t_kv_verify(s, r.of, s->n);
                EQ_INT(kv_match_prefix(t, r.ids, from + more, &wait), can ? at : 0);
                t_kv_verify(t, r.of, t->n);
                kv_seq_free(s);
                kv_seq_free(t);
                t_kv_close(&r.rig);
            }
}

/* Another sequence, and the same one after preemption, begins at the last snapshot of what they share. */
static void t_state_match(void) {
    for (int mix = 1; mix <= 3; mix += 2)
        for (int preempted = 0; preempted < 2; preempted++)
            for (int n = 0; n <= 45; n++) {
                t_state_rig r = t_state_open(mix, 20);
                kv_seq     *s = kv_seq_new(r.rig.kv);
                bool        wait;
                t_state_snap(&r, s, 20, 16, KV_KEPT);
                t_state_snap(&r, s, 33, 32, KV_WEAK);
                t_state_snap(&r, s, 45, 40, KV_KEPT);
                if (preempted) kv_seq_free(s);
                kv_seq *t = kv_seq_new(r.rig.kv);
                EQ_INT(kv_match_prefix(t, r.ids, n, &wait), n < 16 ? 0 : n < 32 ? 16 : n < 40 ? 32 : 40);
                t_kv_verify(t, r.of, t->n);
                t_state_step(&r, t, 50);
                if (!preempted) t_state_step(&r, s, 50);
                kv_seq_free(t);
                if (!preempted) kv_seq_free(s);
                t_kv_close(&r.rig);
            }
}

/* Sequences that go on from one snapshot in the same step read the same slot, and each writes one of its own. */
static void t_state_shared(void) {
    t_state_rig r = t_state_open(3, 20);
    kv_seq     *s[3];
    uint64_t    of[3][T_STATE_CTX];
    bool        wait;
    s[0] = kv_seq_new(r.rig.kv);
    t_state_snap(&r, s[0], 20, 16, KV_KEPT);
    kv_seq_free(s[0]);
    for (int i = 0; i < 3; i++) {
        s[i] = kv_seq_new(r.rig.kv);
        EQ_INT(kv_match_prefix(s[i], r.ids, 17, &wait), 16);
        EQ_INT(s[i]->state, s[0]->state);
        CHECK(kv_reserve(s[i], 26));
        CHECK(s[i]->own != s[i]->state && (!i || s[i]->own != s[i - 1]->own));
        memcpy(of[i], r.of, sizeof r.of);
        for (int p = 16; p < 26; p++) of[i][p] += (uint64_t)i;
    }
    for (int i = 0; i < 3; i++) t_kv_step(s[i], of[i], 16, 26);
    for (int i = 0; i < 3; i++) t_kv_verify(s[i], of[i], 26), kv_seq_free(s[i]);
    EQ_INT(t_state_borders(&r), 1u << 2);
    t_kv_close(&r.rig);
}

/* Rejected guesses leave no trace and cost nothing, as many as the log takes back. */
static void t_state_guess(void) {
    for (int mix = 1; mix <= 3; mix += 2)
        for (int right = 0; right < DEV_LOG; right++) {
            t_state_rig r = t_state_open(mix, 20);
            kv_seq     *s = kv_seq_new(r.rig.kv);
            t_state_step(&r, s, 12);
            for (int n = 12; n + DEV_LOG < T_STATE_CTX;) {
                uint64_t of[T_STATE_CTX];
                memcpy(of, r.of, sizeof of);
                for (int p = n + 1 + right; p < n + DEV_LOG; p++) of[p] = 666;
                CHECK(kv_reserve(s, n + 1));
                kv_publish(s, r.ids);
                CHECK(kv_reserve(s, n + DEV_LOG));
                kv_snapshot(s, (n + 1) - (n + 1) % T_STATE_BLOCK, KV_ROLLING);
                t_kv_step(s, of, n, n + DEV_LOG);
                kv_commit(r.rig.kv, true);
                EQ_INT(kv_truncate(s, n + 1 + right), n + 1 + right);
                t_kv_verify(s, r.of, s->n);
                n += 1 + right;
            }
            kv_seq_free(s);
            t_kv_close(&r.rig);
        }
}

/* A draft guesses by steps of one row. Its state is held at the end of the text, so that all of them can be taken back. */
static void t_state_hold(void) {
    for (int right = 0; right < DEV_LOG; right++) {
        t_state_rig r = t_state_open(3, 20);
        kv_seq     *s = kv_seq_new(r.rig.kv);
        for (int n = 5; n + DEV_LOG < T_STATE_CTX; n += 1 + right) {     /* n: tokens of the text */
            uint64_t of[T_STATE_CTX];
            memcpy(of, r.of, sizeof of);
            for (int p = n + right; p < n + DEV_LOG; p++) of[p] = 666;
            const int had = s->n < n - 1 ? s->n : n - 1;
            EQ_INT(kv_truncate(s, had), had);
            t_kv_verify(s, r.of, s->n);
            kv_hold(s, n);
            for (int next = n; next < n + DEV_LOG; next++) {
                const int from = s->n;
                CHECK(kv_reserve(s, next));
                t_kv_step(s, of, from, next);
            }
            CHECKF(s->state_at <= n, "the state stands at %d after a text of %d", s->state_at, n);
            const int to = n + right < s->n ? n + right : s->n;
            EQ_INT(kv_truncate(s, to), to);
            t_kv_verify(s, r.of, s->n);
        }
        kv_seq_free(s);
        t_kv_close(&r.rig);
    }
}

/* A step that failed: the state that it overwrote is not used again, nor are its snapshots. */
static void t_state_failed(void) {
    for (int shared = 0; shared < 2; shared++)
        for (int n = 1; n < 30; n++) {
            t_state_rig r = t_state_open(1, 20);
            kv_seq     *s = kv_seq_new(r.rig.kv);
            uint64_t    bad[T_STATE_CTX] = {0};
            const int   last = n - n % T_STATE_BLOCK;
            t_state_snap(&r, s, n, last, KV_KEPT);
            if (shared) kv_seq_free(s), s = kv_seq_new(r.rig.kv), kv_match_prefix(s, r.ids, n, &(bool){0});
            const int from = s->n;
            CHECK(kv_reserve(s, n + 9));
            kv_publish(s, r.ids);
            CHECK(kv_snapshot(s, (n + 9) - (n + 9) % T_STATE_BLOCK, KV_KEPT));
            t_kv_step(s, bad, from, n + 9);
            kv_spoil(s);
            kv_commit(r.rig.kv, false);
            EQ_INT(kv_truncate(s, n), last);
            t_kv_verify(s, r.of, s->n);
            t_state_step(&r, s, n + 9);
            EQ_INT(t_state_borders(&r), last ? 1u << last / T_STATE_BLOCK : 0);
            kv_seq_free(s);
            t_kv_close(&r.rig);
        }
}

/* Snapshots within so many slots: weak ones take no place of others, a rolling one takes that of the one before, and
 * sequences take those of all. */
static void t_state_bound(void) {
    static const struct { kv_staying staying; int slots; unsigned left; } rows[] = {
        {KV_KEPT, 40, 0xfe}, {KV_KEPT, 4, 0xe0}, {KV_WEAK, 40, 0xfe}, {KV_WEAK, 4, 0x86}, {KV_ROLLING, 40, 0x80}, {KV_KEPT, 1, 0},
        {KV_WEAK, 2, 0x80},
    };
    if (KV_STATE_EVERY < 512) SKIP("a stress build has more borders where snapshots stay");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arch_hparams hp = t_kv_mix(3);
        err_t        e = {0};
        t_state_rig  r = t_state_open(3, 20);
        const kv_opts o = {.type_k = K_F32, .type_v = K_F32, .block = T_STATE_BLOCK, .max_blocks = 20,
                           .state_bytes = (uint64_t)rows[i].slots * kv_slot_bytes(&hp) + 5};
        kv_free(r.rig.kv);
        r.rig.kv = kv_new(&r.rig.hp, &o, (kv_load){.tokens = 1 << 20}, &e);
        kv_share(r.rig.kv);
        kv_seq *s = kv_seq_new(r.rig.kv), *t = kv_seq_new(r.rig.kv);
        for (int n = T_STATE_BLOCK; n <= 7 * T_STATE_BLOCK; n += T_STATE_BLOCK) {
            const int from = s->n;
            CHECK(kv_reserve(s, n));
            kv_publish(s, r.ids);
            kv_snapshot(s, n, rows[i].staying);
            t_kv_step(s, r.of, from, n);
            kv_commit(r.rig.kv, true);
        }
        const unsigned left = t_state_borders(&r);
        CHECKF(left == rows[i].left, "row %zu: borders %02x, expected %02x", i, left, rows[i].left);
        EQ_INT(kv_reserve(t, 3), rows[i].slots > 1);
        if (rows[i].slots == 1) CHECK(!kv_full(r.rig.kv, 3, &e) && e.code == EXIT_RESOURCE && strstr(e.text, "--state-mem"));
        kv_seq_free(s);
        kv_seq_free(t);
        t_kv_close(&r.rig);
        arch_drop(&hp);
    }
}

/* A sequence whose snapshot is the last slot that is not another's makes it its own. */
static void t_state_last(void) {
    t_state_rig   r = t_state_open(3, 20);
    err_t         e = {0};
    bool          wait;
    const kv_opts o =
        {.type_k = K_F32, .type_v = K_F32, .block = T_STATE_BLOCK, .max_blocks = 20, .state_bytes = 2 * kv_slot_bytes(&r.rig.hp)};
    kv_free(r.rig.kv);
    r.rig.kv = kv_new(&r.rig.hp, &o, (kv_load){.tokens = 1 << 20}, &e);
    kv_share(r.rig.kv);
    kv_seq *s = kv_seq_new(r.rig.kv), *t = kv_seq_new(r.rig.kv), *other = kv_seq_new(r.rig.kv);
    t_state_snap(&r, s, 9, 8, KV_KEPT);
    kv_seq_free(s);
    EQ_INT(kv_match_prefix(t, r.ids, 60, &wait), 8);
    CHECK(kv_reserve(other, 3));
    t_state_step(&r, t, 30);
    EQ_INT(t_state_borders(&r), 0);
    kv_seq_free(other);
    kv_seq_free(t);
    t_kv_close(&r.rig);
}

/* Where snapshots of a text are due: every so many tokens, and at the last border before its last token. */
static void t_state_marks(void) {
    static const struct { int at, n, next; } rows[] =
        {{0, 100, 96}, {0, 97, 96}, {0, 96, 88}, {96, 100, INT_MAX}, {90, 100, 96}, {0, 8, INT_MAX}, {0, 9, 8}, {0, 1, INT_MAX},
         {0, 2000, 512}, {511, 2000, 512}, {512, 2000, 1024}, {1536, 2000, 1992}, {0, 513, 512}, {INT_MAX, 2000, INT_MAX}};
    if (KV_STATE_EVERY < 512) SKIP("a stress build has more of them");
    t_state_rig r = t_state_open(3, 20);
    t_kv_rig    plain = t_kv_open(1, 1, 0, 8, 4, 400);
    kv_share(plain.kv);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        EQ_INT(kv_next_mark(r.rig.kv, rows[i].at, rows[i].n), rows[i].next);
        EQ_INT(kv_next_mark(plain.kv, rows[i].at, rows[i].n), INT_MAX);
    }
    t_kv_close(&plain);
    t_kv_close(&r.rig);
}

/* --- the prefix tree --- */

enum { T_TREE_SEQS = 7, T_TREE_CTX = 72, T_TREE_KEPT = 4096 };

typedef struct {
    kv_seq  *s;
    int32_t  ids[T_TREE_CTX];                         /* what it reads, s->n of them by now */
    uint64_t of[T_TREE_CTX];                          /* the values of each position: the hash of all tokens up to it */
    int      from;                                    /* in a step: what was there before */
    bool     stepping;
} t_tree_seq;

/* What is stored on disk: the values of a block, by the hashes of all positions up to its last one. */
typedef struct {
    const kv_cache *kv;
    int             n, first[T_TREE_KEPT];            /* position of the block's first token */
    uint64_t        of[T_TREE_KEPT][T_TREE_CTX];
    uint64_t        turn, fails;                      /* one fetch of so many fails, 0: none */
} t_tree_kept;

typedef struct {
    t_kv_rig    rig;
    t_tree_seq  q[T_TREE_SEQS];
    t_tree_kept *kept;
    bool        one_slot;                             /* all nodes hang in one chain */
} t_tree;

static struct {
    long long adopted, waited, failed, fetched, snapped;       /* how often, over all runs of a test */
} t_tree_n;

/* The bytes of a layer in a stored block. */
static void t_tree_layer(const t_tree_kept *k, int il, int32_t stored, uint8_t *block) {
    const dev_kv *l = &k->kv->layer[il];
    const int     first = k->first[stored], end = first + k->kv->opts.block;
    if (k->kv->state[il].mem) {
        const t_toy toy = t_toy_of(k->of[stored], il, end, end);
        t_toy_write(&k->kv->state[il], &toy, block);
        return;
    }
    for (int h = 0; h < l->n_head; h++)
        for (int p = 0; p < l->block; p++) {
            const size_t   at = (size_t)(h * l->block + p);
            const uint64_t of = k->of[stored][first + p];
            float         *key = (float *)(void *)(block + l->k_at + at * l->k_stride);
            float         *v = (float *)(void *)(block + l->v_at + at * l->v_stride);
            for (int i = 0; i < l->hd_k; i++) key[i] = t_kv_value(of, first + p, il, h * l->hd_k + i);
            for (int i = 0; i < l->hd_v; i++) v[i] = t_kv_value(of, first + p, il, 1000 + h * l->hd_v + i);
        }
}

static bool t_tree_fetch(void *ctx, int group, int32_t stored, int32_t to) {
    t_tree_kept      *k = ctx;
    const dev_blocks *mem = &k->kv->group[group].mem;
    if (k->fails && rng_mix(++k->turn) % k->fails == 0) return false;
    t_tree_n.fetched++;
    uint8_t *block = mem_new(1, mem->block_bytes);
    for (int il = 0; il < k->kv->n_layer; il++)
        if ((k->kv->state[il].mem ? k->kv->state[il].group : k->kv->layer[il].group) == group) t_tree_layer(k, il, stored, block);
    dev_blocks_write(mem, to, block);
    mem_free(block);
    return true;
}

/* Tokens from `from` on: those of another sequence for a while, then some of two. */
static void t_tree_ids(t_tree *t, int q, int from, uint64_t r) {
    t_tree_seq *s = &t->q[q];
    const int   other = (int)(r % T_TREE_SEQS);
    int         same = (int)((r >> 8) % T_TREE_CTX);
    if (from || (r >> 20) % 5 == 0) same = 0;
    for (int p = from; p < T_TREE_CTX; p++) {
        s->ids[p] = p < same ? t->q[other].ids[p] : (int32_t)(rng_at(3, r, (uint64_t)p, 0) % 2);
        s->of[p] = rng_mix((p ? s->of[p - 1] : 77) + (uint64_t)s->ids[p]);
    }
}

/* Every node into one chain, so that nothing but its tokens and its parent tells it from others. */
static void t_tree_one_slot(kv_cache *kv) {
    kv_tree *t = kv->tree;
    t->n_slot = 1;
    t->slot[0] = -1;
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i)) {
        t->node[i].chain = t->slot[0];
        t->slot[0] = i;
    }
}

/* The nodes: how they hang together, and in which chains they are. Returns how many there are. */
static int t_tree_nodes(const kv_cache *kv, bool *live) {
    const kv_tree *t = kv->tree;
    int            n = 0, chained = 0, unused = 0;
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i)) {
        const kv_node *nd = &t->node[i];
        if (!CHECKF(!live[i] && ++n < t->cap, "node %d comes twice", i)) return n;
        live[i] = true;
        const bool led = nd->left < 0 ? t->node[nd->parent].child == i : t->node[nd->left].right == i;
        CHECKF(led, "node %d: its left neighbour does not know it", i);
        CHECKF(nd->right < 0 || t->node[nd->right].left == i, "node %d: its right neighbour does not know it", i);
        CHECKF(nd->right < 0 || t->node[nd->right].parent == nd->parent, "node %d: its right neighbour has another parent", i);
        CHECKF(nd->child < 0 || t->node[nd->child].parent == i, "node %d: its child has another parent", i);
        bool needed = nd->child >= 0 || nd->pins;
        for (int g = 0; g < kv->n_group; g++) needed = needed || kv_parts(kv, i)[g].block >= 0 || kv_parts(kv, i)[g].stored >= 0;
        CHECKF(needed, "node %d serves nobody", i);
        CHECKF(kv__find(kv, nd->parent, kv_node_tokens(kv, i)) == i, "node %d is not found", i);
    }
    for (int k = 0; k < t->n_slot; k++)
        for (int32_t i = t->slot[k]; i >= 0; i = t->node[i].chain) {
            if (!CHECKF(i > 0 && live[i] && ++chained <= n, "chain %d: node %d", k, i)) return n;
            CHECK(kv__slot(kv, t->node[i].parent, kv_node_tokens(kv, i)) == &t->slot[k]);
        }
    EQ_INT(chained, n);
    for (int32_t i = t->unused; i >= 0 && unused <= t->cap; i = t->node[i].chain)
        unused += CHECKF(!live[i], "node %d is used and not", i);
    EQ_INT(unused, t->cap - 1 - n);
    return n;
}

/* Blocks of a group: references recounted from tables and tree, the idle ones, the spare ones. Returns how many can still be
 * had; *held: by sequences. */
static int64_t t_tree_blocks(const t_tree *t, int g, const bool *live, int *held) {
    const kv_cache *kv = t->rig.kv;
    const kv_group *gr = &kv->group[g];
    const kv_tree  *tr = kv->tree;
    const int       mapped = dev_blocks_mapped(&gr->mem);
    uint32_t        refs[512] = {0};
    bool            spare[512] = {0};
    int             used = 0, idle = 0, walked = 0;
    for (int q = 0; q < T_TREE_SEQS; q++)
        for (int b = 0; t->q[q].s && b < t->q[q].s->n_blocks[g]; b++) {
            const int32_t at = t->q[q].s->table[g][b];
            CHECKF(at >= 0 || b < t->q[q].s->first[g], "sequence %d lacks block %d, its first is %d", q, b, t->q[q].s->first[g]);
            if (at >= 0) refs[at]++;
        }
    for (int q = 0; q < T_TREE_SEQS && g == kv->states; q++)
        if (t->q[q].s && t->q[q].s->state >= 0) refs[t->q[q].s->state]++;
    for (int b = 0; b < mapped; b++) {
        const int32_t i = gr->block[b].node;
        if (i >= 0) CHECKF(live[i] && kv_parts(kv, i)[g].block == b, "block %d: node %d is not its own", b, i);
        refs[b] += i >= 0;
        EQ_INT(gr->block[b].refs, refs[b]);
        used += refs[b] > 0;
        idle += i >= 0 && refs[b] == 1;
    }
    for (int32_t i = 1; i < tr->cap; i++)
        if (live[i] && kv_parts(kv, i)[g].block >= 0)
            CHECKF(gr->block[kv_parts(kv, i)[g].block].node == i, "node %d: its block is another's", i);
    for (int32_t b = gr->oldest, last = -1; b >= 0 && walked <= idle; last = b, b = gr->block[b].newer, walked++) {
        CHECKF(refs[b] == 1 && gr->block[b].node >= 0 && !gr->block[b].fresh, "block %d is no idle one", b);
        CHECKF(gr->block[b].older == last && (gr->block[b].newer >= 0 || gr->newest == b),
               "block %d: its neighbours among the idle", b);
    }
    EQ_INT(walked, idle);
    EQ_INT(gr->n_idle, idle);
    if (!idle) CHECK(gr->oldest < 0 && gr->newest < 0);
    EQ_INT(gr->n_used, used);
    EQ_INT(gr->n_spare, mapped - used);
    for (int k = 0; k < gr->n_spare; k++) {
        CHECKF(!refs[gr->spare[k]] && !spare[gr->spare[k]], "block %d is not spare", gr->spare[k]);
        spare[gr->spare[k]] = true;
    }
    *held = used - idle;
    return gr->mem.max_blocks - used + idle;
}

/* Sequences: the nodes they stand at, who holds them there, and the values that their next row sees. */
static void t_tree_held(const t_tree *t) {
    const kv_cache *kv = t->rig.kv;
    const kv_tree  *tr = kv->tree;
    const int       block = kv->opts.block;
    int            *pins = mem_new((size_t)tr->cap, sizeof *pins);
    for (int q = 0; q < T_TREE_SEQS; q++) {
        const kv_seq *s = t->q[q].s;
        if (!s) continue;
        pins[s->tip]++;
        int32_t at = s->tip;
        for (int b = s->n_known - 1; b >= 0 && at > 0; at = tr->node[at].parent, b--)
            CHECKF(memcmp(kv_node_tokens(kv, at), t->q[q].ids + b * block, (size_t)block * sizeof(int32_t)) == 0,
                   "sequence %d: block %d is known as another", q, b);
        CHECKF(at == 0 && s->n_known * block <= s->n, "sequence %d of %d: %d known", q, s->n, s->n_known);
        t_kv_verify(s, t->q[q].of, s->n);
    }
    for (int32_t i = 0; i < tr->cap; i = kv_next(tr, i)) {
        EQ_INT(tr->node[i].pins, pins[i]);
        if (!kv_next(tr, i)) break;
    }
    mem_free(pins);
}

static void t_tree_check(t_tree *t) {
    const kv_cache *kv = t->rig.kv;
    bool           *live = mem_new((size_t)kv->tree->cap, sizeof *live);
    int             held = 0, most = 0, peak;
    t_tree_nodes(kv, live);
    for (int g = 0; g < kv->n_group; g++) {
        EQ_INT(kv__room(kv, g), t_tree_blocks(t, g, live, &held));
        most = held > most && g != kv->states ? held : most;
    }
    EQ_INT(kv_held(kv, &peak), most);
    t_tree_held(t);
    EQ_INT(kv->tree->n_fresh, 0);
    mem_free(live);
}

/* Whether block k of group g must be there for a sequence of n positions. */
static bool t_tree_needs(const kv_group *gr, int block, int k, int n) {
    if (gr->rule == KV_STATE) return (k + 1) * block == n;
    if (gr->chunked) return (k + 1) * block > (n - 1) / gr->window * gr->window;
    return gr->rule == KV_ALL || (k + 1) * block > n - gr->window;
}

/* Whole blocks of ids[0, n) that a sequence can have by what lies in memory, all that its next row looks at among them. */
static int t_tree_most(const kv_seq *s, const int32_t *ids, int n) {
    const kv_cache *kv = s->kv;
    const int       block = kv->opts.block;
    bool            there[4][T_TREE_CTX] = {{false}};
    int             most = s->n_known;
    int32_t         tip = s->tip;
    for (int b = s->n_known; (b + 1) * block <= n; b++) {
        if ((tip = kv__find(kv, tip, ids + b * block)) < 0 || !kv__ready(kv, tip)) break;
        bool all = true;
        for (int g = 0; g < kv->n_group; g++) {
            there[g][b] = kv_parts(kv, tip)[g].block >= 0;
            for (int k = s->n_known; k <= b; k++)
                all = all && (there[g][k] || !t_tree_needs(&kv->group[g], block, k, (b + 1) * block));
        }
        if (all) most = b + 1;
    }
    return most;
}

/* One step of some of them: each takes over what is known, reserves and says what it is going to fill; then all is filled, or
 * nothing. */
static void t_tree_step(t_tree *t, uint64_t r, bool done) {
    kv_cache *kv = t->rig.kv;
    const int block = kv->opts.block;
    for (int q = 0; q < T_TREE_SEQS; q++) {
        t_tree_seq    *x = &t->q[q];
        const uint64_t own = rng_mix(r + (uint64_t)q);
        const int      most = 1 + (int)((own >> 8) % (uint64_t)(T_TREE_CTX - 1));
        bool           wait = false;
        x->stepping = false;
        if (own % 3 == 0 || !x->s) continue;
        if ((own >> 4) % 4) {
            const bool whole = x->s->n == x->s->n_known * block;
            const int  had = x->s->n, can = t_tree_most(x->s, x->ids, most);
            int64_t    cost[4], room[4];
            const int  known = kv__count_prefix(kv, NULL, x->ids, most, cost);
            for (int g = 0; g < kv->n_group; g++) room[g] = kv__room(kv, g);
            const int  got = kv_match_prefix(x->s, x->ids, most, &wait);
            EQ_INT(got, x->s->n);
            /* what was asked before is what it takes; one more where a part of a block is taken too */
            if (!had && !t->kept) {
                EQ_INT(got / block, known);
                for (int g = 0; g < kv->n_group; g++) {
                    const int64_t more = room[g] - kv__room(kv, g) - cost[g];
                    CHECKF(more == 0 || (more == 1 && got % block), "group %d: %d blocks adopted cost %lld more than %lld", g,
                           known, (long long)more, (long long)cost[g]);
                }
            }
            if (whole && !t->kept) EQ_INT(got / block, can);
            CHECKF(got <= (most > had ? most : had), "%d adopted of %d", got, most);
            t_tree_n.adopted += got > had;
            if (wait) {                               /* only for a block that this very step fills */
                const int32_t i = kv__find(kv, x->s->tip, x->ids + got);
                CHECKF(got == x->s->n_known * block && i >= 0 && !kv__ready(kv, i), "waits for nobody at %d", got);
                t_tree_n.waited++;
                continue;
            }
        }
        x->from = x->s->n;
        if (x->from >= T_TREE_CTX) continue;
        const int n = x->from + 1 + (int)((own >> 24) % (uint64_t)(T_TREE_CTX - x->from));
        if (!kv_reserve(x->s, n)) {
            EQ_INT(x->s->n, x->from);
            t_tree_n.failed++;
            continue;
        }
        x->stepping = true;
        kv_publish(x->s, x->ids);
    }
    static const uint64_t bad[T_TREE_CTX];
    for (int q = 0; q < T_TREE_SEQS; q++) {           /* a border after `from` or, within its log, before */
        const int at = (int)(rng_mix(r ^ (uint64_t)(q + 99)) % (T_TREE_CTX / (uint64_t)block + 1)) * block;
        if (t->q[q].stepping && at && at <= t->q[q].s->n)
            t_tree_n.snapped += kv_snapshot(t->q[q].s, at, (kv_staying)(r >> 7 & 1 ? KV_KEPT : r >> 8 & 1 ? KV_WEAK
                                                                        : KV_ROLLING));
    }
    for (int q = 0; q < T_TREE_SEQS; q++)
        if (t->q[q].stepping) t_kv_step(t->q[q].s, done ? t->q[q].of : bad, t->q[q].from, t->q[q].s->n);
    for (int q = 0; q < T_TREE_SEQS && !done; q++)
        if (t->q[q].stepping) kv_spoil(t->q[q].s);
    kv_commit(kv, done);
    for (int q = 0; q < T_TREE_SEQS; q++)
        if (t->q[q].stepping && !done) kv_truncate(t->q[q].s, t->q[q].from);
}

/* Marks a block of the tree as stored on disk, or no longer. */
static void t_tree_keep(t_tree *t, uint64_t r) {
    kv_cache *kv = t->rig.kv;
    kv_tree  *tr = kv->tree;
    int       n = 0;
    for (int32_t i = kv_next(tr, 0); i > 0; i = kv_next(tr, i)) n++;
    if (!n || t->kept->n == T_TREE_KEPT) return;
    int     at = (int)(r % (uint64_t)n), depth = 0;
    int32_t i = kv_next(tr, 0), path[T_TREE_CTX];
    while (at--) i = kv_next(tr, i);
    for (int32_t k = i; k > 0; k = tr->node[k].parent) path[depth++] = k;
    uint64_t h = 77;
    int32_t  stored[4];
    for (int d = depth - 1, at_pos = 0; d >= 0; d--)
        for (int p = 0; p < kv->opts.block; p++)
            t->kept->of[t->kept->n][at_pos++] = h = rng_mix(h + (uint64_t)kv_node_tokens(kv, path[d])[p]);
    t->kept->first[t->kept->n] = (depth - 1) * kv->opts.block;
    for (int g = 0; g < kv->n_group; g++) stored[g] = kv->n_group > 1 && (r >> (20 + 2 * g)) % 4 == 0 ? -1 : t->kept->n;
    EQ_INT(kv_add_stored(kv, tr->node[i].parent, kv_node_tokens(kv, i), stored), i);
    t->kept->n++;
}

static void t_tree_move(t_tree *t, uint64_t r) {
    const int   q = (int)(r % T_TREE_SEQS), other = (int)((r >> 8) % T_TREE_SEQS), what = (int)((r >> 16) % 16);
    t_tree_seq *x = &t->q[q];
    if (what < 6) {
        t_tree_step(t, r, what > 0);
    } else if (t->kept && what < 8) {
        t_tree_keep(t, r >> 24);
    } else if (!x->s && what < 11 && t->q[other].s) {
        *x = t->q[other];
        x->s = kv_fork(t->q[other].s);
        t_tree_ids(t, q, x->s->n, r >> 24);
    } else if (!x->s) {
        t_tree_ids(t, q, 0, r >> 24);
        x->s = kv_seq_new(t->rig.kv);
        if ((r >> 60) % 3 == 0) x->s->keep = (int)((r >> 50) % T_TREE_CTX);
    } else if (what < 11) {
        kv_truncate(x->s, (int)((r >> 24) % (uint64_t)(x->s->n + 1)));
        if ((r >> 40) % 2) t_tree_ids(t, q, x->s->n, r >> 41);
    } else if (what < 15) {
        kv_seq_free(x->s);
        x->s = NULL;
    } else {
        for (int i = 0; i < T_TREE_SEQS; i++) kv_seq_free(t->q[i].s), t->q[i].s = NULL;
    }
}

/* Frees everything: sequences, idle blocks, nodes. */
static void t_tree_end(t_tree *t) {
    kv_cache *kv = t->rig.kv;
    for (int q = 0; q < T_TREE_SEQS; q++) kv_seq_free(t->q[q].s), t->q[q].s = NULL;
    t_tree_check(t);
    for (int g = 0; g < kv->n_group; g++) EQ_INT(kv__room(kv, g), kv->group[g].mem.max_blocks);
    kv_seq *s = kv_seq_new(kv);
    CHECK(kv_reserve(s, kv->max_blocks * kv->opts.block));
    int32_t slot[T_KV_SLOTS];
    int     n_slot = 0;
    while (kv_has_states(kv) && (slot[n_slot] = kv__take(kv, kv->states)) >= 0) n_slot++;
    EQ_INT(n_slot, kv_has_states(kv) ? T_KV_SLOTS - 1 : 0);
    while (n_slot) kv__release(kv, kv->states, slot[--n_slot], false);
    for (int g = 0; g < kv->n_group; g++) EQ_INT(kv->group[g].n_idle, 0);
    int left = 0;
    for (int32_t i = kv_next(kv->tree, 0); i > 0; i = kv_next(kv->tree, i)) left++;
    if (!t->kept) EQ_INT(left, 0);
    for (int p = 0; p < s->n; p++) t_kv_write(s, 1, p);   /* the blocks are there to be written */
    kv_seq_free(s);
    t_tree_check(t);
    t_kv_close(&t->rig);
}

/* fails: one fetch of this many fails; -1: nothing is stored on disk. */
static void t_tree_run_shape(arch_hparams hp, int block, int blocks, int fails, bool one_slot, int moves) {
    t_tree   *t = mem_new(1, sizeof *t);
    const int window = hp.layer[1].window;
    t->rig = t_kv_open_shape(hp, block, blocks, 1 << 20);
    t->one_slot = one_slot;
    kv_share(t->rig.kv);
    t->rig.kv->tree->seed = 5;
    if (fails >= 0) {
        t->kept = mem_new(1, sizeof *t->kept);
        t->kept->kv = t->rig.kv;
        t->kept->fails = (uint64_t)fails;
        kv_fetcher(t->rig.kv, t_tree_fetch, t->kept);
    }
    const int before = t_failed;
    for (int move = 0; move < moves && t_failed == before; move++) {
        if (one_slot && t->rig.kv->tree->n_slot > 1) t_tree_one_slot(t->rig.kv);
        t_tree_move(t, rng_at(11, (uint64_t)(block * 1000 + window), (uint64_t)(blocks * 10 + fails), (uint64_t)move));
        t_tree_check(t);
        CHECKF(t_failed == before, "blocks of %d, a window of %d, %d blocks, fetches %d: move %d", block, window, blocks, fails,
               move);
    }
    if (blocks > 256) CHECKF(t->rig.kv->tree->cap > 256, "the tree has not grown");
    t_tree_end(t);
    mem_free(t->kept);
    mem_free(t);
}

static void t_tree_run(int block, int window, int blocks, int fails, bool one_slot, int moves) {
    t_tree_run_shape(t_kv_shape(2, 2, 8, window), block, blocks, fails, one_slot, moves);
}

/* Checks that each event that the runs should cover has happened often. */
static void t_tree_met(bool kept) {
    CHECKF(t_tree_n.adopted > 300 && t_tree_n.waited > 20 && t_tree_n.failed > 300, "%lld adopted, %lld waited, %lld failed",
           t_tree_n.adopted, t_tree_n.waited, t_tree_n.failed);
    if (kept) CHECKF(t_tree_n.fetched > 30, "%lld fetched", t_tree_n.fetched);
    memset(&t_tree_n, 0, sizeof t_tree_n);
}

static void t_kv_tree(void) {
    static const int blocks[] = {1, 2, 3, 8};
    for (int b = 0; b < 4; b++)
        for (int most = 12; most <= 60; most *= 2) t_tree_run(blocks[b], 0, most, -1, false, 400);
    t_tree_run(1, 0, 400, -1, false, 300);            /* more nodes than the tree has room for at first */
    t_tree_met(false);
}

static void t_kv_tree_window(void) {
    static const int blocks[] = {1, 2, 3, 8}, windows[] = {1, 5, 16};
    for (int b = 0; b < 4; b++)
        for (int w = 0; w < 3; w++) {
            t_tree_run(blocks[b], windows[w], 40, -1, false, 500);
            t_tree_run(blocks[b], windows[w], 40, w, false, 500);
        }
    t_tree_met(true);
}

static void t_kv_tree_kept(void) {
    static const int blocks[] = {1, 2, 3, 8};
    for (int b = 0; b < 4; b++)
        for (int fails = 0; fails <= 3; fails += 3) t_tree_run(blocks[b], 0, 24, fails, false, 500);
    t_tree_met(true);
}

static void t_kv_tree_collide(void) {
    for (int block = 1; block <= 3; block++) t_tree_run(block, block == 2 ? 6 : 0, 30, 4, true, 1000);
    t_tree_met(true);
}

/* Groups of other windows and geometries, and of states, in one cache. */
static void t_kv_tree_groups(void) {
    static const int blocks[] = {1, 2, 3, 8};
    for (int mix = 0; mix < T_KV_MIXES; mix++)
        for (int b = 0; b < 4; b++) {
            t_tree_run_shape(t_kv_mix(mix), blocks[b], 40, -1, false, 500);
            t_tree_run_shape(t_kv_mix(mix), blocks[b], 24, b, false, 500);
        }
    t_tree_met(true);
}

static const t_case t_kv_cases[] = {
    {"kv random", "values and reference counts through random growth, forks and rollbacks", t_kv_random},
    {"kv groups", "layers with the same rule share a group and its blocks", t_kv_groups},
    {"kv bound", "memory follows the tokens, up to the bound", t_kv_bound},
    {"kv slots", "how many recurrent states there may be", t_kv_slots},
    {"kv bounds", "how many blocks each group may have: few with a window", t_kv_bounds},
    {"kv demand", "what a sequence lacks, counted for each group", t_kv_demand},
    {"kv index", "keys of an indexer follow the keys and values of their layer, and are counted", t_kv_index},
    {"kv latent", "latent attention keeps one row of each position, whose beginning is the value, transformed in two parts", t_kv_latent},
    {"kv hadamard", "which caches transform K and V, and in runs of which size", t_kv_hadamard},
    {"kv rollback", "a rollback past a window's memory keeps nothing and says so", t_kv_rollback},
    {"kv failed", "a failed reservation changes nothing", t_kv_failed},
    {"kv unmapped", "memory that the system refuses in one group leaves nothing in another", t_kv_unmapped},
    {"kv copies", "a copy that is due reads its source before that is written to", t_kv_copies},
    {"kv state fork", "forked sequences with states go on apart", t_state_fork},
    {"kv state truncate", "a cut within the log is free; one before it goes to the last snapshot and says which",
     t_state_truncate},
    {"kv state snapshot", "a snapshot anywhere in a step is the state there", t_state_snapshot},
    {"kv state match", "another sequence, or a preempted one, begins at the last snapshot they share", t_state_match},
    {"kv state shared", "sequences that go on from one snapshot in one step", t_state_shared},
    {"kv state guess", "wrong guesses leave no trace in a state and cost nothing", t_state_guess},
    {"kv state hold", "a draft takes back guesses of many steps", t_state_hold},
    {"kv state failed", "a state that a failed step spoilt is not used", t_state_failed},
    {"kv state bound", "which snapshots stay within so many bytes", t_state_bound},
    {"kv state last", "the last slot is that of the snapshot itself", t_state_last},
    {"kv state marks", "where snapshots of a text are due", t_state_marks},
    {"kv window", "a window gives back its past", t_kv_window},
    {"kv chunks", "chunks give back all of those before, and nothing of their own", t_kv_chunks},
    {"kv tree", "blocks shared by content: values, references, idle blocks, nodes through random steps", t_kv_tree},
    {"kv tree_window", "the same with a window", t_kv_tree_window},
    {"kv tree_groups", "the same in caches of several groups: other windows, widths, heads, and states", t_kv_tree_groups},
    {"kv tree_kept", "the same with blocks that are fetched, or cannot be", t_kv_tree_kept},
    {"kv tree_collide", "the same with every hash alike: tokens tell blocks apart", t_kv_tree_collide},
};
static const t_suite t_kv_suite = SUITE(t_kv_cases);
