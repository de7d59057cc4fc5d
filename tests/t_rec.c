/* t_rec.c - [dev]: operations of recurrent layers, against a plain reading in double and against themselves: however positions
 * are dealt into steps, whoever is beside a sequence, wherever its slot stands. */
#include "program.h"
#include "check.h"

enum { REC_TOKENS = 96, REC_ROWS = 64, REC_SEQS = 3, REC_SLOTS = 3 * REC_SEQS };

typedef struct {
    int  taps, n_k, n_v, d_k, d_v;                    /* n_v 0: a convolution of d_v channels */
    bool grouped;
    dev_rule rule;                                    /* other than RULE_DELTA and RULE_KDA: taps is 1 */
} rec_shape;

/* One layer with random weights; the inputs of a position are those of its token. */
typedef struct {
    rec_shape  s;
    int        n_out;
    dev_blocks mem;
    dev_state  st;
    dev_mat    raw, alpha, beta;
    float     *taps, *decay, *step, *skip, *rate, *key[2], *share;
    pool      *p;
    dev_plan   plan;
    dev_run    run;
    dev_batch  batch;
    dev_buf    out;
} rec_rig;

static uint64_t rec_turn;

static double rec_chance(void) { return rng_unit(rng_mix(++rec_turn)); }
static int    rec_number(int n) { return (int)(rec_chance() * n); }

static float *rec_random(int n, double low, double high) {
    float *x = mem_new((size_t)n + 1, sizeof *x);
    for (int i = 0; i < n; i++) x[i] = (float)(low + (high - low) * rec_chance());
    return x;
}

static dev_mat rec_matrix(int n) {
    return (dev_mat){.data = (const uint8_t *)rec_random(REC_TOKENS * n, -2, 2), .type = K_F32, .n_in = n,
                     .n_out = REC_TOKENS, .n_mat = 1,
                     .row_bytes = (size_t)n * sizeof(float)};
}

static const float *rec_input(const dev_mat *m, int token) {
    return (const float *)(const void *)(m->data + (size_t)token * m->row_bytes);
}

static bool rec_is_wkv(const rec_shape *s) { return s->rule == RULE_GLA || s->rule == RULE_WKV6 || s->rule == RULE_WKV7; }

/* Values of the inputs of a position. */
static int rec_width(const rec_shape *s) {
    if (rec_is_wkv(s)) return s->rule == RULE_WKV7 ? 5 * s->n_v * s->d_k : 2 * (s->n_v + s->n_k) * s->d_k;
    return s->n_v ? 2 * s->n_k * s->d_k + s->n_v * s->d_v : s->d_v;
}

/* Values of its gates: first ones, second ones. */
static int rec_gate(const rec_shape *s, int i) {
    switch (s->rule) {
    case RULE_SSD: return i ? 0 : s->n_v;
    case RULE_SCAN: return i ? 0 : s->n_v * s->d_v;
    case RULE_KDA: return i ? s->n_v : s->n_v * s->d_k;
    case RULE_GLA: case RULE_WKV6: case RULE_WKV7: return 0;
    default: return s->n_v;
    }
}

static dev_buf rec_embed(rec_rig *r, const char *name, const dev_mat *m) {
    const dev_buf b = dev_plan_buf(&r->plan, name, false);
    if (m->n_in)
        dev_plan_op(&r->plan, (dev_op){.kind = OPS_EMBED, .rows = DEV_ALL, .out = {b}, .embed = {.mat = m}, .n = m->n_in});
    return b;
}

static void rec_write_plan(rec_rig *r) {
    dev_plan_begin(&r->plan, ops_kinds);
    dev_op op = {.rows = DEV_ALL, .vec = r->taps, .scale = 1e-6f,
                 .state = {.st = &r->st, .d_k = r->s.d_k, .grouped = r->s.grouped, .rule = r->s.rule, .decay = r->decay,
                           .step = r->step, .skip = r->skip, .rate = r->rate, .key = {r->key[0], r->key[1]},
                           .share = r->share}};
    op.in[0] = rec_embed(r, "raw", &r->raw);
    if (r->alpha.n_in) op.in[1] = rec_embed(r, "alpha", &r->alpha);
    if (r->beta.n_in) op.in[2] = rec_embed(r, "beta", &r->beta);
    op.out[0] = r->out = dev_plan_buf(&r->plan, "out", false);
    op.kind = r->s.n_v ? OPS_DELTA : OPS_CONV;
    op.n = r->s.d_v;
    op.n_head = r->s.n_v;
    if (r->s.rule == RULE_WKV7) op.out[1] = dev_plan_buf(&r->plan, "share", false);
    dev_plan_op(&r->plan, op);
    op.kind = OPS_KEEP;
    op.out[0] = op.out[1] = 0;
    dev_plan_op(&r->plan, op);
    dev_plan_fill(&r->plan, r->p->n, REC_ROWS, REC_ROWS, false);
}

static void rec_open(rec_rig *r, rec_shape s, int threads) {
    const size_t gates = (size_t)(rec_gate(&s, 0) + rec_gate(&s, 1)), each = sizeof(float);
    const int    n_rate = s.rule == RULE_SCAN ? s.n_v * s.d_v * s.d_k : s.n_v;
    rec_turn = 1;
    *r = (rec_rig){.s = s, .n_out = s.n_v ? s.n_v * s.d_v : s.d_v, .p = pool_new(threads)};
    r->st = (dev_state){.mem = &r->mem, .taps = s.taps, .width = rec_width(&s),
                        .log = DEV_LOG, .n_k = s.n_k, .n_v = s.n_v, .d_k = s.d_k, .d_v = s.d_v, .n_gate = {rec_gate(&s, 0), rec_gate(&s, 1)}};
    r->st.gate_at = (size_t)(s.taps - 1 + DEV_LOG) * (size_t)r->st.width * each;
    r->st.sum_at = r->st.gate_at + DEV_LOG * gates * each;
    r->mem = dev_blocks_new(r->st.sum_at + (size_t)s.n_v * (size_t)s.d_k * (size_t)s.d_v * each, REC_SLOTS);
    while (dev_blocks_more(&r->mem)) {}
    for (int i = 0; i < REC_SLOTS; i++) memset(dev_block(&r->mem, i), 0xff, r->mem.block_bytes);   /* of another sequence: NaN */
    r->raw = rec_matrix(r->st.width);
    r->alpha = rec_matrix(rec_gate(&s, 0));
    r->beta = rec_matrix(rec_gate(&s, 1));
    r->taps = rec_random(r->st.width * s.taps, -1, 1);
    r->decay = rec_random(n_rate, -1, -0.01);
    r->step = rec_random(rec_is_wkv(&s) ? s.n_v * s.d_k : rec_gate(&s, 0), -3, 1);
    r->skip = rec_random(s.n_v * s.d_v, -1, 1);
    float **const more[] = {&r->rate, &r->key[0], &r->key[1], &r->share};
    for (int i = 0; i < 4; i++) *more[i] = rec_random(rec_is_wkv(&s) ? s.n_v * s.d_k : 0, -1, 1);
    rec_write_plan(r);
    r->run = (dev_run){.p = r->p, .plan = &r->plan, .batch = &r->batch};
    int32_t **const rows[] = {&r->batch.token, &r->batch.pos, &r->batch.seq};
    for (int i = 0; i < 3; i++) *rows[i] = mem_new(REC_ROWS, sizeof(int32_t));
    r->batch.turn = mem_new(REC_SEQS, sizeof *r->batch.turn);
    r->batch.want = mem_new(REC_ROWS, 1);
}

static void rec_close(rec_rig *r) {
    void *own[] = {(void *)(uintptr_t)r->raw.data, (void *)(uintptr_t)r->alpha.data, (void *)(uintptr_t)r->beta.data,
                   r->taps, r->decay, r->step, r->skip, r->rate, r->key[0], r->key[1], r->share, r->batch.token, r->batch.pos,
                   r->batch.seq, r->batch.want, r->batch.turn};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    dev_plan_free(&r->plan);
    dev_run_free(&r->run);
    dev_blocks_free(&r->mem);
    pool_free(r->p);
}

/* --- the plain reading --- */

/* Channel c of the convolution at position t. */
static double rec_conv(const rec_rig *r, const int32_t *ids, int t, int c) {
    double sum = 0;
    for (int j = 0; j < r->s.taps; j++) {
        const int at = t - (r->s.taps - 1) + j;
        if (at >= 0) sum += (double)r->taps[c * r->s.taps + j] * (double)rec_input(&r->raw, ids[at])[c];
    }
    return r->s.n_v ? sum / (1 + exp(-sum)) : sum;
}

/* d_k channels from c on as a vector of length `size`. */
static void rec_unit(const rec_rig *r, const int32_t *ids, int t, int c, double size, double *to) {
    double sum = 0;
    for (int i = 0; i < r->s.d_k; i++) to[i] = rec_conv(r, ids, t, c + i), sum += to[i] * to[i];
    for (int i = 0; i < r->s.d_k; i++) to[i] *= size / sqrt(sum + 1e-6);
}

/* Delta nets: a decay of each head, or of each channel. */
static void rec_read_head(const rec_rig *r, const int32_t *ids, int n, int h, double *o) {
    const rec_shape *s = &r->s;
    const int        key = s->grouped ? h / (s->n_v / s->n_k) : h % s->n_k;
    double *S = mem_new((size_t)s->d_k * (size_t)s->d_v, sizeof *S), *q = mem_new((size_t)s->d_k, sizeof *q),
            *k = mem_new((size_t)s->d_k, sizeof *k), *fall = mem_new((size_t)s->d_k, sizeof *fall);
    for (int t = 0; t < n; t++) {
        for (int i = 0; i < s->d_k; i++) {
            const int    g = s->rule == RULE_KDA ? h * s->d_k + i : h;
            const double a = (double)rec_input(&r->alpha, ids[t])[g] + (double)r->step[g];
            fall[i] = exp((double)r->decay[h] * log1p(exp(a)));
        }
        const double beta = 1 / (1 + exp(-(double)rec_input(&r->beta, ids[t])[h]));
        rec_unit(r, ids, t, key * s->d_k, 1 / sqrt(s->d_k), q);
        rec_unit(r, ids, t, (s->n_k + key) * s->d_k, 1, k);
        for (int c = 0; c < s->d_v; c++) {
            double m = 0, out = 0;
            for (int i = 0; i < s->d_k; i++) m += fall[i] * S[i * s->d_v + c] * k[i];
            const double x = beta * (rec_conv(r, ids, t, 2 * s->n_k * s->d_k + h * s->d_v + c) - m);
            for (int i = 0; i < s->d_k; i++) out += (S[i * s->d_v + c] = fall[i] * S[i * s->d_v + c] + k[i] * x) * q[i];
            o[t * r->n_out + h * s->d_v + c] = out;
        }
    }
    mem_free(S), mem_free(q), mem_free(k), mem_free(fall);
}

/* Mamba and Mamba-2, as the recurrence is written: rows have values, keys, queries. */
static void rec_read_ssm(const rec_rig *r, const int32_t *ids, int n, int h, double *o) {
    const rec_shape *s = &r->s;
    const bool       scan = s->rule == RULE_SCAN;
    const int        inner = s->n_v * s->d_v, key = h / (s->n_v / s->n_k);
    double          *S = mem_new((size_t)s->d_k, sizeof *S);
    for (int c = h * s->d_v; c < (h + 1) * s->d_v; c++) {
        memset(S, 0, (size_t)s->d_k * sizeof *S);
        for (int t = 0; t < n; t++) {
            const float *x = rec_input(&r->raw, ids[t]), *k = x + inner + key * s->d_k, *q = k + s->n_k * s->d_k;
            const int    g = scan ? c : h;
            const double dt = log1p(exp((double)rec_input(&r->alpha, ids[t])[g] + (double)r->step[g]));
            double       y = (double)r->skip[g] * (double)x[c];
            for (int j = 0; j < s->d_k; j++) {
                S[j] = exp(dt * (double)r->decay[scan ? c * s->d_k + j : h]) * S[j] + (double)k[j] * dt * (double)x[c];
                y += S[j] * (double)q[j];
            }
            o[t * r->n_out + c] = y;
        }
    }
    mem_free(S);
}

/* What a position of RWKV has for a head, from its inputs: queries q, decays w, what is written (key), and in RWKV-7 the rates b and
 * the unit keys of the correction. */
typedef struct { double q[64], w[64], key[64], b[64], unit[64]; const float *v; } rec_wkv;

static void rec_wkv7(const rec_rig *r, const float *x, int h, rec_wkv *p) {
    const int d = r->s.d_k, all = r->s.n_v * d, off = h * d;
    double    size = 1e-6;
    p->v = x + 3 * all + off;
    for (int i = 0; i < d; i++) {
        p->unit[i] = (double)x[2 * all + off + i] * (double)r->key[0][off + i];
        size += p->unit[i] * p->unit[i];
    }
    for (int i = 0; i < d; i++) {
        p->unit[i] /= sqrt(size);
        p->q[i] = (double)x[off + i];
        p->w[i] = exp(-0.606531 / (1 + exp(-(double)x[all + off + i] - (double)r->step[off + i])));
        p->b[i] = 1 / (1 + exp(-(double)x[4 * all + off + i] - (double)r->rate[off + i]));
        p->key[i] = (double)x[2 * all + off + i] * (1 + (p->b[i] - 1) * (double)r->key[1][off + i]);
    }
}

static void rec_wkv6(const rec_rig *r, const float *x, int h, rec_wkv *p) {
    const int  d = r->s.d_k, all = r->s.n_v * d, off = h * d, key = h / (r->s.n_v / r->s.n_k) * d;
    const bool gla = r->s.rule == RULE_GLA;
    p->v = x + 2 * all + r->s.n_k * d + key;
    for (int i = 0; i < d; i++) {
        p->w[i] = exp(-exp((double)x[all + off + i] + (double)r->step[off + i]));
        p->q[i] = (double)x[off + i] / (gla ? sqrt(d) : 1);
        p->key[i] = (double)x[2 * all + key + i] * (gla ? 1 - p->w[i] : 1);
        p->b[i] = p->unit[i] = 0;
    }
}

/* RWKV-6 reads the state before the position, and of that itself a share; the others read the state after it. */
static void rec_read_wkv(const rec_rig *r, const int32_t *ids, int n, int h, double *o) {
    const int d = r->s.d_k;
    double   *S = mem_new((size_t)d, sizeof *S);
    rec_wkv   p;
    for (int c = 0; c < d; c++) {
        memset(S, 0, (size_t)d * sizeof *S);
        for (int t = 0; t < n; t++) {
            double u = 0, out = 0;
            (r->s.rule == RULE_WKV7 ? rec_wkv7 : rec_wkv6)(r, rec_input(&r->raw, ids[t]), h, &p);
            for (int i = 0; i < d; i++) u += S[i] * p.unit[i];
            for (int i = 0; i < d; i++) {
                const double was = S[i];
                S[i] = p.w[i] * was - p.b[i] * p.unit[i] * u + p.key[i] * (double)p.v[c];
                out += p.q[i] * (r->s.rule != RULE_WKV6 ? S[i] : was + (double)r->skip[h * d + i] * p.key[i] * (double)p.v[c]);
            }
            o[t * r->n_out + h * d + c] = out;
        }
    }
    mem_free(S);
}

/* Outputs of n positions. */
static double *rec_read(const rec_rig *r, const int32_t *ids, int n) {
    double *o = mem_new((size_t)n * (size_t)r->n_out, sizeof *o);
    const bool delta = r->s.rule == RULE_DELTA || r->s.rule == RULE_KDA;
    for (int h = 0; h < r->s.n_v; h++) (delta ? rec_read_head : rec_is_wkv(&r->s) ? rec_read_wkv : rec_read_ssm)(r, ids, n, h, o);
    for (int t = 0; t < n && !r->s.n_v; t++)
        for (int c = 0; c < r->n_out; c++) o[t * r->n_out + c] = rec_conv(r, ids, t, c);
    return o;
}

/* --- steps --- */

typedef struct {
    int32_t ids[REC_TOKENS];
    int     n, slot, at;                              /* positions that it has; its slot, -1: none yet; where that stands */
    int     own[3];                                   /* its slots: two that take turns, one for a snapshot */
    int     snap_at;                                  /* where that stands, 0: there is none */
    int     rows, guesses, snap, to;                  /* of the step at hand: rows; the last ones are wrong; position of a
                                                       * snapshot, 0: none; where its slot then stands */
    float  *want;                                     /* [REC_TOKENS][n_out] */
} rec_seq;

static void rec_begin(rec_seq *s, int i) {
    *s = (rec_seq){.slot = -1, .own = {3 * i, 3 * i + 1, 3 * i + 2}};
    for (int t = 0; t < REC_TOKENS; t++) s->ids[t] = (t * (2 * i + 1) + 17 * i + t * t) % REC_TOKENS;
}

/* The rows of a sequence join the batch. */
static void rec_add(rec_rig *r, rec_seq *s, bool move) {
    dev_batch *b = &r->batch;
    const int  i = b->n_seq++;
    for (int k = 0; k < s->rows; k++, b->n++) {
        const int t = s->n + k;
        b->token[b->n] = k < s->rows - s->guesses ? s->ids[t] : (s->ids[t] + 1) % REC_TOKENS;
        b->pos[b->n] = t;
        b->seq[b->n] = i;
        b->want[b->n] = 0;
    }
    const int other = s->slot < 0 || s->slot == s->own[2] ? s->own[0] : move ? s->own[s->slot == s->own[0]] : s->slot;
    b->turn[i] = (k_turn){.in = s->slot, .out = other, .at = s->at, .to = s->to, .snap = s->snap ? s->own[2] : -1,
                          .snap_at = s->snap};
}

/* What the batch's sequence number i is after the step, whose rows must be as wanted. */
static void rec_check(rec_rig *r, rec_seq *s, int i) {
    const int end = s->n + s->rows;
    for (int t = s->n, row = r->plan.seq_at[i]; t < end - s->guesses; t++, row++)
        CHECKF(memcmp(r->plan.buf[r->out].a.x + (size_t)row * r->plan.buf[r->out].a.ldx,
                      s->want + (size_t)t * (size_t)r->n_out, (size_t)r->n_out * sizeof(float)) == 0,
               "%d taps, %d heads, %d threads: position %d of sequence %d has other bits", r->s.taps, r->s.n_v, r->p->n, t, i);
    s->slot = r->batch.turn[i].out;
    s->at = s->to;
    if (s->snap) s->snap_at = s->snap;
    s->n = end - s->guesses;
    if (s->snap_at > s->n) s->snap_at = 0;
}

/* Chooses what the sequence does in the next step. False: it has come to its end. */
static bool rec_choose(rec_seq *s) {
    if (rec_chance() < 0.2 && s->snap_at) s->slot = s->own[2], s->n = s->at = s->snap_at;
    else if (rec_chance() < 0.2) s->n -= rec_number(s->n - s->at + 1);
    const int left = REC_TOKENS - s->n, most = left < REC_ROWS / REC_SEQS ? left : REC_ROWS / REC_SEQS;
    if (!left) return false;
    s->rows = rec_chance() < 0.6 ? 1 : 1 + rec_number(most);
    s->guesses = rec_chance() < 0.3 ? rec_number(s->rows < DEV_LOG ? s->rows : DEV_LOG) : 0;
    s->snap = rec_chance() < 0.3 && s->slot != s->own[2] ? s->at + 1 + rec_number(s->n + s->rows - s->guesses - s->at) : 0;
    if (s->snap <= s->at) s->snap = 0;
    const int end = s->n + s->rows, low = end - DEV_LOG > s->at ? end - DEV_LOG : s->at,
              high = end - DEV_LOG > s->n ? end - DEV_LOG : s->n;
    s->to = rec_chance() < 0.7 ? high : low + rec_number(high - low + 1);
    return true;
}

static void rec_walk(rec_rig *r, rec_seq *seqs) {
    for (bool more = true; more && t_failed < 10;) {
        int in[REC_SEQS];
        more = false;
        r->batch.n = r->batch.n_seq = 0;
        for (int i = 0; i < REC_SEQS; i++) {
            in[i] = r->batch.n_seq;
            if (rec_choose(&seqs[i])) rec_add(r, &seqs[i], rec_chance() < 0.2), more = true;
            else in[i] = -1;
        }
        if (!more || !CHECK(dev_step(&r->run))) return;
        for (int i = 0; i < REC_SEQS; i++)
            if (in[i] >= 0) rec_check(r, &seqs[i], in[i]);
    }
}

/* Alone, in steps of many rows: what all other ways must give. It is near the plain reading. */
static void rec_plain(rec_rig *r, rec_seq *s) {
    double *want = rec_read(r, s->ids, REC_TOKENS), worst = 0;
    s->want = mem_new((size_t)REC_TOKENS * (size_t)r->n_out, sizeof *s->want);
    for (rec_seq one = *s; one.n < REC_TOKENS;) {
        one.rows = REC_TOKENS - one.n < 50 ? REC_TOKENS - one.n : 50;
        one.to = one.n + one.rows - DEV_LOG;
        r->batch.n = r->batch.n_seq = 0;
        rec_add(r, &one, false);
        if (!CHECK(dev_step(&r->run))) break;
        for (int t = 0; t < one.rows; t++)
            memcpy(s->want + (size_t)(one.n + t) * (size_t)r->n_out,
                   r->plan.buf[r->out].a.x + (size_t)t * r->plan.buf[r->out].a.ldx, (size_t)r->n_out * sizeof(float));
        one.slot = r->batch.turn[0].out;
        one.n += one.rows;
        one.at = one.to;
    }
    for (int i = 0; i < REC_TOKENS * r->n_out; i++) {
        const double off = fabs((double)s->want[i] - want[i]);
        worst = off > worst || isnan(off) ? off : worst;
    }
    CHECKF(worst < (r->s.rule ? 1e-4 : 1e-5), "%d taps, %d heads: %g from the plain reading", r->s.taps, r->s.n_v, worst);
    mem_free(want);
}

static void t_rec_steps(void) {
    static const rec_shape shapes[] = {{4, 2, 4, 16, 40, false, RULE_DELTA}, {4, 2, 4, 16, 40, true, RULE_DELTA},
                                       {2, 3, 3, 8, 72, false, RULE_DELTA}, {3, 0, 0, 0, 33, false, RULE_DELTA},
                                       {5, 1, 2, 20, 7, true, RULE_DELTA},
                                       {1, 2, 4, 16, 40, true, RULE_SSD}, {1, 1, 3, 6, 72, true, RULE_SSD},
                                       {1, 1, 2, 16, 64, true, RULE_SCAN}, {1, 1, 3, 6, 33, true, RULE_SCAN},
                                       {4, 3, 3, 20, 20, true, RULE_KDA}, {2, 2, 2, 40, 40, true, RULE_KDA},
                                       {1, 2, 2, 40, 40, true, RULE_WKV7}, {1, 3, 3, 6, 6, true, RULE_WKV7},
                                       {1, 2, 4, 33, 33, true, RULE_GLA}, {1, 3, 3, 40, 40, true, RULE_WKV6}};
    static const struct { const char *level; int threads; } hows[] = {{"scalar", 1}, {"avx2", 2}, {"avx512", 3}, {"avx2", 5}};
    rec_rig r;
    rec_seq seqs[REC_SEQS], begun[REC_SEQS];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
            if (!k_init(hows[h].level)) continue;
            rec_open(&r, shapes[i], hows[h].threads);
            for (int s = 0; s < REC_SEQS && !h; s++) rec_begin(&begun[s], s), rec_plain(&r, &begun[s]);
            rec_turn = 1000 * h;
            memcpy(seqs, begun, sizeof seqs);
            for (int turn = 0; turn < 1 + 2 * t_all(); turn++) rec_walk(&r, seqs), memcpy(seqs, begun, sizeof seqs);
            rec_close(&r);
        }
        for (int s = 0; s < REC_SEQS; s++) mem_free(begun[s].want);
    }
}

static const t_case t_rec_cases[] = {
    {"dev recurrent",
     "recurrent operations equal a plain reading, and themselves for any steps, company, guesses taken back, slots and snapshots",
     t_rec_steps},
};
static const t_suite t_rec_suite = SUITE(t_rec_cases);
