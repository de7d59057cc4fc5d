/* ===== [diffuse] decoding by diffusion =====
 * An answer begins as masks. In each step the model sees all of it, a token is picked for every mask of the current block, and
 * some of the masks become their tokens, which then stay: those with the greatest confidence. Two schedules say how many:
 *   - by time (Dream): the answer is one block; of the masks that are left a step turns 1 - s / t, whole ones, where t and s are
 *     its beginning and end and time falls from 1 to eps; the last step turns all.
 *   - by blocks (LLaDA): blocks of `block` tokens from left to right, each with its share of the steps, which turn equally many.
 * A step that turns none is left out, since the model would see the same again.
 *   The confidence of a token comes from the model's own probabilities, before the sampler. What is drawn depends on the seed,
 * the step and the place alone. The tokens of a block are final when it has no mask left.
 * Public: diffuse_opts, diffuse_new, diffuse_free, diffuse_wants, diffuse_place, diffuse_take, diffuse_turn,
 * diffuse_done.
 * Opens: diffuse, diffuse_opts. */

/* Which masks become tokens first, numbered as in llama.cpp: 0 each mask at random; 1 the smallest entropy of the probabilities;
 * 2 the largest difference between the best two probabilities; 3 a random order; 4 the largest probability of the token. */
typedef enum {
    DIFFUSE_ORIGIN, DIFFUSE_ENTROPY, DIFFUSE_MARGIN, DIFFUSE_RANDOM, DIFFUSE_CONFIDENCE, DIFFUSE_ALGORITHMS
} diffuse_algorithm;

typedef struct {
    int   steps;                                      /* of an answer, at most as many as it has tokens */
    int   block;                                      /* tokens of a block; 0: by time */
    float eps;                                        /* by time: when it ends; 0: by blocks. Both 0: as the model was trained */
    int   algorithm;                                  /* diffuse_algorithm */
    float alg_temp;                                   /* above 0: which masks turn is drawn, by confidence / alg_temp */
} diffuse_opts;

enum { DIFFUSE_LENGTH = 128, DIFFUSE_BLOCK = 32 };    /* tokens of an answer and of a block by default */

typedef struct {
    diffuse_opts o;
    uint64_t     seed;
    int          n;                                   /* tokens of the answer */
    int32_t     *token;                               /* [n] masks among them */
    bool        *masked;                              /* [n] */
    int32_t     *pick;                                /* [n] what a mask becomes if it turns in this step */
    float       *sure;                                /* [n] confidence in it */
    int          block;                               /* number of the current block */
    int          step;                                /* of the block */
    int          passed;                              /* steps of the model so far */
} diffuse;

/* An answer of n masks, at least one. by_time: the model was trained for that schedule. To be freed by diffuse_free(). */
static diffuse *diffuse_new(const diffuse_opts *o, int n, int32_t mask, bool by_time, uint64_t seed) {
    diffuse *d = mem_new(1, sizeof *d);
    *d = (diffuse){.o = *o, .seed = seed, .n = n};
    if (!o->block && o->eps <= 0) d->o.block = by_time ? 0 : DIFFUSE_BLOCK, d->o.eps = by_time ? 1e-3f : 0;
    d->token = mem_new((size_t)n, sizeof *d->token);
    d->masked = mem_new((size_t)n, sizeof *d->masked);
    d->pick = mem_new((size_t)n, sizeof *d->pick);
    d->sure = mem_new((size_t)n, sizeof *d->sure);
    for (int i = 0; i < n; i++) d->token[i] = mask, d->masked[i] = true;
    return d;
}

/* NULL is fine. */
static void diffuse_free(diffuse *d) {
    if (d) mem_free_all(d->token, d->masked, d->pick, d->sure, d);
}

static int diffuse__size(const diffuse *d) { return d->o.block ? min_int(d->o.block, d->n) : d->n; }

/* Where the current block begins, and ends. */
static int diffuse__from(const diffuse *d) { return min_int(d->block * diffuse__size(d), d->n); }
static int diffuse__to(const diffuse *d) { return min_int(diffuse__from(d) + diffuse__size(d), d->n); }

/* Whether token i of the answer is a mask for which this step needs a pick. */
static bool diffuse_wants(const diffuse *d, int i) { return i >= diffuse__from(d) && i < diffuse__to(d) && d->masked[i]; }

/* A number for the draw of token i in this step, that no other draw of the answer has. */
static uint64_t diffuse_place(const diffuse *d, int i) { return (uint64_t)d->passed * (uint64_t)d->n + (uint64_t)i; }

/* Tokens from the first on that are final. */
static int diffuse_done(const diffuse *d) { return diffuse__from(d); }

/* Steps of the current block: all blocks have as many, or one more. */
static int diffuse__steps(const diffuse *d) {
    const int blocks = (d->n - 1) / diffuse__size(d) + 1, each = d->o.steps / blocks, more = d->o.steps % blocks;
    return max_int(each + (d->block < more), 1);
}

/* Masks of n that turn in this step. */
static int diffuse__turns(const diffuse *d, int n) {
    const int all = diffuse__steps(d), s = d->step;
    if (s >= all - 1) return n;
    if (d->o.block) return n / (all - s) + (n % (all - s) != 0);
    const float t = 1 - (float)s / (float)all * (1 - d->o.eps), end = 1 - (float)(s + 1) / (float)all * (1 - d->o.eps);
    return (int)((float)n * (1 - end / t));
}

/* A random number in (0, 1) for token i in this step. */
static double diffuse__draw(const diffuse *d, int i) {
    return rng_unit(rng_at(d->seed, 0x6d61736b, diffuse_place(d, i), 0)) + 0x1p-54;
}

/* The pick for a mask, and the n logits that it was made from, before the sampler. Allocates nothing. */
static void diffuse_take(diffuse *d, int i, int32_t id, const float *logits, int n) {
    double top = (double)logits[0], sum = 0, mean = 0, second = -INFINITY;
    for (int k = 1; k < n; k++) top = fmax(top, (double)logits[k]);
    for (int k = 0, seen = 0; k < n; k++) {
        const double x = (double)logits[k] - top, e = exp(x);
        sum += e;
        if (e > 0) mean += e * x;
        if (x == 0 && !seen++) continue;
        second = fmax(second, x);
    }
    d->pick[i] = id;
    switch ((diffuse_algorithm)d->o.algorithm) {
    case DIFFUSE_ENTROPY: d->sure[i] = (float)(mean / sum - log(sum)); break;
    case DIFFUSE_MARGIN: d->sure[i] = (float)((1 - exp(second)) / sum); break;
    case DIFFUSE_ORIGIN: case DIFFUSE_RANDOM: d->sure[i] = (float)diffuse__draw(d, i); break;
    default: d->sure[i] = (float)(exp((double)logits[id] - top) / sum);
    }
    if (d->o.alg_temp > 0 && d->o.algorithm != DIFFUSE_ORIGIN)         /* the largest of these are drawn by softmax */
        d->sure[i] = d->sure[i] / d->o.alg_temp - (float)log(-log(diffuse__draw(d, i)));
}

/* The mask of the block with the greatest confidence, of equals the first; -1: there is none. */
static int diffuse__surest(const diffuse *d) {
    int best = -1;
    for (int i = diffuse__from(d); i < diffuse__to(d); i++)
        if (d->masked[i] && (best < 0 || d->sure[i] > d->sure[best])) best = i;
    return best;
}

static void diffuse__unmask(diffuse *d, int i) {
    d->token[i] = d->pick[i];
    d->masked[i] = false;
}

static int diffuse__left(const diffuse *d) {
    int n = 0;
    for (int i = diffuse__from(d); i < diffuse__to(d); i++) n += d->masked[i];
    return n;
}

/* Ends a step, in which every mask that diffuse_wants() named has a pick: some of them turn. Allocates nothing. */
static void diffuse_turn(diffuse *d) {
    const int left = diffuse__left(d), from = diffuse__from(d), to = diffuse__to(d);
    int       n = diffuse__turns(d, left);
    while (!n) d->step++, n = diffuse__turns(d, left);
    if (d->o.algorithm == DIFFUSE_ORIGIN && n < left) {
        for (int i = from; i < to; i++)
            if (d->masked[i] && (double)d->sure[i] * left < n) diffuse__unmask(d, i);
    } else
        while (n--) diffuse__unmask(d, diffuse__surest(d));
    d->step++;
    d->passed++;
    if (!diffuse__left(d)) d->block++, d->step = 0;
}
