/* ===== [fwd] one step over a batch of (sequence, position, token) rows =====
 * The only forward pass: prefill chunks, decode, batches and verification are different lists of rows. Rows of one
 * sequence are adjacent, in rising position. In a decoder the result of a row depends on the earlier rows of its sequence alone,
 * and not on the batch, to the last bit (ops_exact); in an encoder on all rows of its text.
 *   The pass is written once for a model, as a list of operations that [dev] runs for every batch: it reads from top to bottom
 *   below, by kinds of mixers and feed-forwards. A step is prepared with fwd_begin() and an fwd_add() for each row; fwd_step()
 *   writes down the block tables of its sequences and runs the list.
 *   A draft head (NextN) guesses the next token but one: its row of a position reads the token there and the state of the
 *   position before, which is its hidden values after the last norm (zeros before a text, and where they are not known). It is
 *   a list of its own, with one row for each sequence. The list of the model keeps the head's keys and values of all its rows,
 *   so that a guess reads a whole text. A further guess reads the state that the head's own row has left. Where each further
 *   guess has a head of its own (A_CHAIN), a state is the stream before the last norm. Head k then has a row for each guess so
 *   far, too: its first row reads the model's state, the others those that the heads before it have left.
 *   In the last layer that keeps K and V only rows that ask for something go on past them: for logits or, where the list ends
 *   there, for their hidden values after the last norm. For a draft head all rows go on. A watched step takes every row through
 *   every layer and the draft head, shows the last product too and leaves that one uncomputed: it has no logits.
 *   An encoder whose text a decoder answers (T5) is a list of its own, which runs before that of the model: its rows are the
 * positions below kv_seq.source, all of them in one step. It leaves each decoder layer keys and values of its output in that
 * layer's cache, at the positions of the text; those of the answer follow them there.
 * Public: fwd_bytes, fwd_n_heads, fwd_head_bytes, fwd_gpu_needs, fwd_row_bytes, fwd_new, fwd_new_head, fwd_free, fwd_trim,
 * fwd_watch, fwd_keep_hidden, fwd_begin, fwd_add, fwd_rows, fwd_before, fwd_gives, fwd_cost, fwd_step, fwd_ids, fwd_fetch,
 * fwd_hidden, fwd_state, fwd_part_names.
 * Opens: fwd.batch, fwd.logits, fwd.run, fwd.bytes. */

typedef enum { FWD_EMBED, FWD_NORM, FWD_QKV, FWD_CACHE, FWD_ATTN, FWD_STATE, FWD_WO, FWD_FFN, FWD_HEAD, FWD_PARTS } fwd_part;

/* What a row asks for. A plan gives logits or hidden values; the id of the largest logit alone is available with logits. */
enum { FWD_LOGITS = DEV_LOGITS, FWD_HIDDEN = DEV_HIDDEN, FWD_ID = DEV_ID };

/* More that a list may give. FWD_GUESS: logits of the draft head. FWD_KEEP: its keys and values; GPUs run the end of a list, so
 * with them this is a list of its own. FWD_ENCODE: keys and values of what an encoder makes of a text. */
enum { FWD_GUESS = 1 << 8, FWD_KEEP = 1 << 9, FWD_ENCODE = 1 << 10 };

#define FWD_L2_EPS 1e-6f                              /* of the norms of keys and queries in a gated delta net: no file has it */
_Static_assert((int)FWD_PARTS <= DEV_PARTS, "times have room for every part");
static const char *const fwd_part_names[FWD_PARTS] = {
    [FWD_EMBED] = "embed", [FWD_NORM] = "norm",      [FWD_QKV] = "qkv", [FWD_CACHE] = "rope, cache",
    [FWD_ATTN] = "attention", [FWD_STATE] = "recurrent", [FWD_WO] = "wo", [FWD_FFN] = "ffn", [FWD_HEAD] = "head",
};

/* The list of a model, the batch that it runs next, and their memory: allocated once, but for tables, which grow with the
 * sequences. */
typedef struct fwd {
    const model *m;
    const model *of;                                  /* the model that m assists; NULL: none */
    kv_cache    *kv;
    dev_plan     plan;
    dev_run      run;
    dev_batch    batch;
    kv_seq     **from;                                /* [n_seq of the batch] whose tables and states fwd_step() writes down */
    const dev_adapters **adapters;                    /* [n_seq of the batch] of each sequence */
    const float **before;                             /* [n_seq, in a head's list n] states [D] before a row; NULL: zeros */
    dev_before   prior;                               /* the same, and where GPUs run layers, those of the last step */
    struct fwd  *keep;                                /* runs after the list for the draft head, where GPUs run layers; or NULL */
    bool         apart;                               /* the list is written for that */
    struct fwd  *encode;                              /* the list of the encoder, with a batch of its own; NULL: there is none */
    size_t       table_cap;                           /* elements that batch.table has room for */
    size_t       table_at_cap;                        /* elements that batch.table_at has room for */
    int          max_rows;                            /* of a step */
    int          max_out;                             /* of these, rows that ask for something */
    int          head;                                /* FWD_GUESS: number of the draft head */
    bool         vectors;                             /* fwd_keep_hidden() */
    unsigned     gives;                               /* FWD_LOGITS or FWD_HIDDEN: with what the list ends; FWD_GUESS, FWD_KEEP */
    int          n_vocab;                             /* V, or fewer: logits of the first tokens alone */
    float       *logits;                              /* [n_out, n_vocab] of the last step */
    dev_buf      hidden;                              /* [n_out, D] what the output matrix reads; or [n, D] */
    dev_buf      state;                               /* [n, D] what a draft head reads; in a list of a head [n_out, D] */
    size_t       bytes;                               /* of the memory that is allocated once */
} fwd;

/* --- the forward pass: the code that writes the list --- */

/* Where the writing is: a layer, the rows that go on in it, and the buffers. */
typedef struct {
    dev_plan            *to;
    const model         *m;
    const kv_cache      *kv;                          /* NULL: the list is only measured */
    const model_tensors *l;
    const arch_layer_hp *lh;
    int                  il;
    fwd_part             part;
    dev_row_set          rows;                        /* the rows at this place */
    dev_row_set          past;                        /* those that go past keys and values in this layer */
    dev_row_set          after;                       /* those that go past the layer */
    bool                 beside;                      /* the next operation needs nothing of those before it in its phase */
    dev_buf x;                                        /* [B, D] residual stream */
    dev_buf next;                                     /* [B, D] where the next sum goes */
    dev_buf cs;                                       /* [B, n_rot] cos and sin of each pair of each RoPE table */
    dev_buf cs_block;                                 /* [B, n_rot] the same where a block that ends at the position begins */
    dev_buf heat;                                     /* [B] attention temperature: factor on the queries of a position */
    dev_buf xn;                                       /* [B, D] normed stream */
    dev_buf in;                                       /* [B, D] what the block reads: xn, or x where it has no norm */
    dev_buf q;                                        /* [B, H*HD] */
    dev_buf k;                                        /* [B, G*HD] */
    dev_buf ask;                                      /* [B, H * (rank + n_rot)] queries of latent attention */
    dev_buf index_q;                                  /* [B, indexer's heads * values] queries of the indexer */
    dev_buf index_k;                                  /* [B, values of one] its keys */
    dev_buf index_w;                                  /* [B, heads] weights of its heads */
    dev_buf index_mean;                               /* [B, values of one] the mean of its keys up to a position */
    dev_buf chosen;                                   /* [B, lists * top] what it chooses */
    dev_buf head;                                     /* [H*B] what matrices of heads read: rows of one head after another */
    dev_buf v;                                        /* [B, G*HD] */
    dev_buf att;                                      /* [B, H*HD] output of attention */
    dev_buf y;                                        /* [B, D] what a block adds to the stream */
    dev_buf ff, up;                                   /* [B*K, F] feed-forward */
    dev_buf score;                                    /* [B, E] router */
    dev_buf pick;                                     /* [B, K] chosen experts by falling weight */
    dev_buf weight;                                   /* [B, K] their weights */
    dev_buf slot_row;                                 /* [B*K] rows sorted by expert */
    dev_buf slot_of;                                  /* [B, K] slots of a row */
    dev_buf moe;                                      /* [B*K, D] outputs of experts */
    dev_buf gate;                                     /* [B] of the shared expert */
    dev_buf all;                                      /* a projection of several: q and gates, a recurrent layer's inputs */
    dev_buf raw;                                      /* [B, channels] of a recurrent layer: inputs of its convolution */
    dev_buf z;                                        /* gate of its output, which gated attention has too */
    dev_buf gates;                                    /* [B, 2 * heads] both gates of its state joined */
    dev_buf alpha;                                    /* [B, heads] one of them */
    dev_buf beta;                                     /* [B, heads] the other */
    dev_buf o;                                        /* its output */
    dev_buf mixed;                                    /* [B, channels] what its state reads, where that is not raw */
    dev_buf piece[6];                                 /* [B, D] of RWKV: what each projection reads */
    dev_buf low[4];                                   /* [B, rank] products in between */
    dev_buf before;                                   /* [B, D] inputs of the position before */
    dev_buf first;                                    /* [B, D] values of the first layer */
    dev_buf share;                                    /* [B, heads] */
    dev_buf rates;                                    /* [B, rank + ...] of Mamba: what makes steps, keys and queries */
    dev_buf by;                                       /* [B, layers * P] embeddings of each layer */
    dev_buf drawn;                                    /* [B, layers * P] what of them the stream gives */
    dev_buf side;                                     /* [B, D] a second part of a block, beside experts or attention */
    dev_buf cs_back;                                  /* as cs, of angles that turn back */
    dev_buf pool_kv, pool_gate;                       /* [B, 2 * HD or HD] what keys of groups of positions are made of */
    dev_buf index_kv, index_gate;                     /* the same of the indexer */
    dev_buf streams;                                  /* [B, A*D] */
    dev_buf ahead;                                    /* [B, A*D] prediction of the streams */
    dev_buf wide;                                     /* [B, A*D] of all streams: what a gate multiplies */
    dev_buf lift;                                     /* [B, A*D] of all streams: the gate */
    dev_buf token;                                    /* [B] the token, as a number */
    dev_buf grams;                                    /* [B, heads * P] rows of the table of n-grams */
    dev_buf mode;                                     /* [B, A] how they depend on each other */
    dev_buf coef;                                     /* [B, A*A] the same */
    dev_buf pair;                                     /* [B, 2*D] token and hidden values that a draft head reads */
    dev_buf pairs;                                    /* [B, heads * 2*D] those of all heads */
    dev_buf skip;                                     /* [B, D] embeddings that layers add again */
    dev_buf family;                                   /* [B, K] groups of the chosen experts */
    dev_buf guess;                                    /* [B, D] normed stream of a draft head, where xn stays */
    dev_buf state;                                    /* [B, D] the stream before the last norm, where heads read that */
    dev_buf logits;                                   /* [n_out, V] */
} fwd_draft;

static void fwd__op(fwd_draft *d, dev_op op) {
    op.layer = d->il;
    op.part = (int)d->part;
    op.rows = d->rows;
    op.beside = d->beside;
    d->beside = false;
    dev_plan_op(d->to, op);
}

/* The forms of a buffer that the products to come read, n values of each row. */
static void fwd__forms(fwd_draft *d, dev_buf b, int n, int each) {
    fwd__op(d, (dev_op){.kind = OPS_FORM, .out = {b}, .n = n, .each = each});
}

static void fwd__matmul(fwd_draft *d, fwd_part part) {
    d->part = part;
    fwd__op(d, (dev_op){.kind = OPS_MATMUL});
}

/* out = w . in: a phase of one product. */
static void fwd__product(fwd_draft *d, fwd_part part, const dev_mat *w, dev_buf in, dev_buf out) {
    fwd__forms(d, in, w->n_in, 0);
    fwd__matmul(d, part);
    dev_plan_product(d->to, w, d->rows, in, out);
}

/* to = a + b. */
static void fwd__sum(fwd_draft *d, dev_buf a, dev_buf b, dev_buf to, int n) {
    fwd__op(d, (dev_op){.kind = OPS_ADD, .in = {a, b}, .out = {to}, .n = n});
}

static void fwd__scale(fwd_draft *d, dev_buf b, int n, float scale) {
    fwd__op(d, (dev_op){.kind = OPS_SCALE, .out = {b}, .n = n, .scale = scale});
}

static void fwd__bias(fwd_draft *d, dev_buf b, const float *vec, int n) {
    if (vec) fwd__op(d, (dev_op){.kind = OPS_BIAS, .out = {b}, .vec = vec, .n = n});
}

static const float *const fwd_no_norm[2];             /* neither gain nor bias */

static void fwd__norm_of(fwd_draft *d, dev_buf b, dev_buf to, const float *const *norm, int n_head, int n, float eps) {
    const bool mean = d->m->hp.desc->traits & A_LAYER_NORM;
    fwd__op(d, (dev_op){.kind = OPS_NORM, .in = {b}, .out = {to}, .vec = norm[0], .scale = eps, .n = n, .n_head = n_head,
                        .norm = {mean ? K_NORM_LAYER : K_NORM_RMS, norm[1]}});
}

/* to = the norm of b, whose rows are n_head vectors of n values. norm: a gain and, after it, a bias. */
static void fwd__any_norm(fwd_draft *d, dev_buf b, dev_buf to, const float *const *norm, int n_head, int n) {
    fwd__norm_of(d, b, to, norm, n_head, n, d->m->hp.eps);
}

/* The same where there is a gain; else nothing. */
static void fwd__norm(fwd_draft *d, dev_buf b, dev_buf to, const float *const *norm, int n_head, int n) {
    if (norm[0]) fwd__any_norm(d, b, to, norm, n_head, n);
}

/* The stream becomes the input of a block. */
static void fwd__enter(fwd_draft *d, const float *const *norm) {
    const int  n = d->m->hp.n_embd;
    const bool normed = norm[0] || d->m->hp.desc->traits & A_BARE_NORM;
    d->part = FWD_NORM;
    d->in = normed ? d->xn : d->x;
    if (normed) fwd__any_norm(d, d->x, d->in, norm, 1, n);
    fwd__forms(d, d->in, n, 0);
}

/* The next sum of the stream is complete. */
static void fwd__turn(fwd_draft *d) {
    const dev_buf x = d->x;
    d->x = d->next;
    d->next = x;
}

/* What a block has computed, with its bias and norm, is added to the stream; the sum may have a norm too. */
static void fwd__residual(fwd_draft *d, const float *bias, const float *const *norm, const float *const *sum) {
    const int n = d->m->hp.n_embd;
    d->part = FWD_NORM;
    fwd__bias(d, d->y, bias, n);
    if (norm[0]) fwd__norm_of(d, d->y, d->y, norm, 1, n, d->m->hp.desc->quirks & Q_FINE_POST ? 1e-8f : d->m->hp.eps);
    fwd__op(d, (dev_op){.kind = OPS_ADD, .in = {d->x, d->y}, .out = {d->next}, .n = n, .scale = d->m->hp.residual_scale});
    fwd__turn(d);
    fwd__norm(d, d->x, d->x, sum, 1, n);
}

/* The stream as it was before the last sum, which fwd__turn() has left, is added once more. */
static void fwd__twice(fwd_draft *d, const float *const *norm) {
    const int n = d->m->hp.n_embd;
    if (!norm[0]) return;
    fwd__sum(d, d->x, d->next, d->x, n);
    fwd__norm(d, d->x, d->x, norm, 1, n);
}

/* to = cos and sin of each table of RoPE, for the row's position and `ahead` more; or such that turn back. */
static void fwd__angles(fwd_draft *d, dev_buf to, int ahead, bool back) {
    const arch_hparams *hp = &d->m->hp;
    for (int t = 0; t < hp->n_rope; t++) {
        const model_rope *r = &d->m->rope[t];
        fwd__op(d, (dev_op){.kind = OPS_ANGLES, .out = {to}, .angles = {r->freq, r->at, ahead, back}, .n = hp->rope[t].n_rot / 2,
                            .scale = r->mscale});
    }
}

/* out = of each of n_head parts of in, n values from `at` on; `to`: where they begin there. */
static void fwd__pick(fwd_draft *d, dev_buf in, dev_buf out, int n_head, int n, int stride, int at, int to) {
    fwd__op(d, (dev_op){.kind = OPS_PICK, .in = {in}, .out = {out}, .n = n, .n_head = n_head,
                        .pick = {.stride = stride, .at = at, .to = to}});
}

/* The stream begins with the embedding of the token, and of the position where these are learned. Every token of a text is of the
 * first type. */
static void fwd__embed(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const float *const *vec = d->m->glob.vec;
    const dev_mat *w = &d->m->glob.mat[W_TOK_EMBD], *pos = &d->m->glob.mat[W_POS_EMBD];
    d->part = FWD_EMBED;
    fwd__op(d, (dev_op){.kind = OPS_EMBED, .out = {d->x}, .embed = {w, false}, .n = w->n_in, .scale = hp->embd_scale});
    if (pos->data) {
        fwd__op(d, (dev_op){.kind = OPS_EMBED, .in = {d->x}, .out = {d->next}, .embed = {pos, true}, .n = pos->n_in});
        fwd__turn(d);
    }
    fwd__bias(d, d->x, vec[W_TYPES], w->n_in);
    fwd__norm(d, d->x, d->x, &vec[W_EMBD_NORM], 1, w->n_in);
    if (hp->desc->quirks & Q_EMBD_BARE) fwd__any_norm(d, d->x, d->x, fwd_no_norm, 1, w->n_in);
    if (hp->desc->quirks & Q_SKIP) fwd__pick(d, d->x, d->skip, 1, w->n_in, w->n_in, 0, 0);
    fwd__angles(d, d->cs, 0, false);
    if (d->m->means) fwd__angles(d, d->cs_block, 1 - hp->index_block, false);
    if (hp->desc->quirks & Q_POOLED) fwd__angles(d, d->cs_back, 0, true);
    if (hp->temper != 0)
        fwd__op(d, (dev_op){.kind = OPS_TEMPER, .out = {d->heat}, .n = 1, .scale = hp->temper,
                            .temper = {(float)hp->temper_length, hp->temper_ahead}});
}

/* Bias of queries, keys or values, which may be cut to a range. */
static void fwd__offset(fwd_draft *d, dev_buf b, const float *bias, int n) {
    const float clamp = d->m->hp.clamp;
    fwd__bias(d, b, bias, n);
    if (clamp != 0) fwd__op(d, (dev_op){.kind = OPS_CLAMP, .out = {b}, .n = n, .scale = clamp});
}

/* The norm of queries or keys: of each head, or of all together. The gains are those of all heads, or each head has its own. */
static void fwd__head_norm(fwd_draft *d, dev_buf b, const float *const *norm, int n_head) {
    const int        n = d->lh->hd_k;
    const arch_desc *desc = d->m->hp.desc;
    const bool       wide = desc->traits & A_QK_WHOLE || desc->quirks & Q_MAY_ALIBI;
    if (!norm[0] || !(desc->quirks & Q_EACH_GAIN)) {
        fwd__norm(d, b, b, norm, wide ? 1 : n_head, wide ? n_head * n : n);
        return;
    }
    fwd__any_norm(d, b, b, fwd_no_norm, n_head, n);
    fwd__op(d, (dev_op){.kind = OPS_SCALE, .out = {b}, .vec = norm[0], .n = n_head * n});
}

/* RoPE of what follows the first `skip` values of each head. Where a file has pairs as halves (rope.halves),
 * whole heads are sorted after it, which gives the same bits; a part of a head stays in halves. */
static void fwd__rotate(fwd_draft *d, dev_buf b, int n_head, int skip) {
    const arch_layer_hp *lh = d->lh;
    const arch_hparams  *hp = &d->m->hp;
    const int            sorted = skip ? K_ROPE_HALVES : K_ROPE_TO_PAIRS;
    const int            form = hp->desc->rope == ROPE_HALVES ? K_ROPE_HALVES : hp->halves ? sorted : K_ROPE_PAIRS;
    const bool           turns = lh->n_rot && !lh->still;
    if (turns || form == K_ROPE_TO_PAIRS)
        fwd__op(d, (dev_op){.kind = OPS_ROPE, .in = {d->cs}, .out = {b}, .n = lh->hd_k, .n_head = n_head,
                            .rope = {.n_rot = lh->n_rot, .at = turns ? d->m->rope[lh->rope].at : 0, .skip = skip, .form = form}});
}

/* Bias, norm and RoPE of queries or keys. The norm may come last, and one without gain may follow. */
static void fwd__heads(fwd_draft *d, dev_buf b, const float *bias, const float *const *norm, int n_head) {
    const arch_layer_hp *lh = d->lh;
    const arch_desc     *desc = d->m->hp.desc;
    const bool           late = desc->quirks & Q_LATE_QK_NORM;
    fwd__offset(d, b, bias, n_head * lh->hd_k);
    if (!late) fwd__head_norm(d, b, norm, n_head);
    fwd__rotate(d, b, n_head, 0);
    if (late) fwd__norm(d, b, b, norm, n_head, lh->hd_k);
    if (lh->unit || desc->quirks & Q_SKIP) fwd__any_norm(d, b, b, fwd_no_norm, n_head, lh->hd_k);
}

/* Queries (0), keys (1) or values (2) of a product that has those of one head after the other. */
static void fwd__by_head(fwd_draft *d, dev_buf to, int which) {
    const int n = d->lh->hd_k;
    if (d->l->mat[W_QKV_HEADS].data) fwd__pick(d, d->all, to, d->lh->n_head, n, 3 * n, which * n, 0);
}

/* Bias, head norm and RoPE of queries. A gate that is beside each goes to z. */
static void fwd__queries(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const float *const  *vec = d->l->vec;
    fwd__by_head(d, d->q, 0);
    if (lh->gated) {
        const int hd = lh->hd_k;
        fwd__bias(d, d->all, vec[B_Q], 2 * lh->n_head * hd);
        fwd__pick(d, d->all, d->q, lh->n_head, hd, 2 * hd, 0, 0);
        fwd__pick(d, d->all, d->z, lh->n_head, hd, 2 * hd, hd, 0);
    }
    fwd__heads(d, d->q, lh->gated ? NULL : vec[B_Q], &vec[W_Q_NORM], lh->n_head);
    if (vec[W_HEAD_GAIN])
        fwd__op(d, (dev_op){.kind = OPS_SCALE_BY, .out = {d->q}, .vec = vec[W_HEAD_GAIN], .n = lh->hd_k, .n_head = lh->n_head});
}

/* What the block adds to the stream: the product of `in`. */
static void fwd__give(fwd_draft *d, const dev_mat *w, dev_buf in) { fwd__product(d, FWD_WO, w, in, d->y); }

/* Values, where they are not what a product gives: keys before their norm, each head normed. */
static void fwd__values(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const int            n = lh->n_head_kv * lh->hd_v;
    if (!d->l->mat[W_V].data && !d->l->mat[W_QKV_HEADS].data) fwd__pick(d, d->k, d->v, 1, n, n, 0, 0);
    fwd__offset(d, d->v, d->l->vec[B_V], n);
    if (d->m->hp.desc->traits & A_VALUE_NORM)
        fwd__op(d, (dev_op){.kind = OPS_NORM, .in = {d->v}, .out = {d->v}, .scale = d->m->hp.eps, .n = lh->hd_v,
                            .n_head = lh->n_head_kv});
}

/* Slots keep what every row brings. */
static void fwd__keep_all(fwd_draft *d, dev_op op) {
    op.kind = OPS_KEEP;
    op.out[0] = 0;
    op.vec = NULL;
    fwd__op(d, op);
}

/* --- the indexer of a layer: it chooses the positions that attention sees (DeepSeek-AI 2025, DeepSeek Sparse Attention) --- */

#define FWD_INDEX_EPS 1e-6f                           /* of the norm of its keys beside latent attention: no file has it */

/* The product of its keys. */
static void fwd__index_product(fwd_draft *d) {
    if (d->lh->indexed) dev_plan_product(d->to, &d->l->mat[W_INDEX_K], d->rows, d->in, d->index_k);
}

/* RoPE of the first values of each of its heads, by the angles cs. */
static void fwd__index_rotate(fwd_draft *d, dev_buf b, dev_buf cs, int n_head) {
    const arch_desc *desc = d->m->hp.desc;
    const int        form = desc->rope == ROPE_HALVES || desc->index_halves ? K_ROPE_HALVES : K_ROPE_PAIRS;
    if (d->lh->n_rot)
        fwd__op(d, (dev_op){.kind = OPS_ROPE, .in = {cs}, .out = {b}, .n = d->m->hp.hd_index, .n_head = n_head,
                            .rope = {.n_rot = d->lh->n_rot, .at = d->m->rope[d->lh->rope].at, .form = form}});
}

/* Where its keys lie; NULL: the list is only measured. */
static const dev_kv *fwd__index_kv(const fwd_draft *d) { return d->kv ? &d->kv->index[d->il] : NULL; }

/* Where keys of blocks are means: those of the positions up to the row's, as many as a block has. */
static void fwd__index_means(fwd_draft *d) {
    const arch_rec *c = &d->lh->conv[0];
    const dev_op    op = {.kind = OPS_CONV, .in = {d->index_k}, .out = {d->index_mean}, .n = c->width, .vec = d->m->means,
                          .state = {.st = d->kv ? &d->kv->conv[d->il * ARCH_CONVS] : NULL, .n_vec = c->width * c->taps}};
    fwd__op(d, op);
    fwd__keep_all(d, op);
}

/* Its keys go to the cache: of means, that of a block lies at its last position, and has the RoPE of the first. */
static void fwd__index_store(fwd_draft *d) {
    const float *const *norm = &d->l->vec[W_INDEX_K_NORM];
    const int           n = d->m->hp.hd_index;
    const dev_buf       key = d->m->means ? d->index_mean : d->index_k;
    if (!d->lh->indexed) return;
    if (d->m->means) fwd__index_means(d);
    if (d->lh->rank)
        fwd__op(d, (dev_op){.kind = OPS_NORM, .in = {d->index_k}, .out = {d->index_k}, .vec = norm[0], .scale = FWD_INDEX_EPS,
                            .n = n, .norm = {K_NORM_LAYER, norm[1]}});
    else fwd__norm(d, key, key, norm, 1, n);
    fwd__index_rotate(d, key, d->m->means ? d->cs_block : d->cs, 1);
    fwd__op(d, (dev_op){.kind = OPS_STORE, .in = {key}, .cache = {.kv = fwd__index_kv(d)}});
}

/* Its queries, from their product. */
static void fwd__index_queries(fwd_draft *d) {
    const int n = d->m->hp.hd_index, heads = d->m->hp.n_index;
    if (!d->lh->indexed) return;
    fwd__norm(d, d->index_q, d->index_q, &d->l->vec[W_INDEX_Q_NORM], heads, n);
    fwd__index_rotate(d, d->index_q, d->cs, heads);
    fwd__op(d, (dev_op){.kind = OPS_HADAMARD, .out = {d->index_q}, .n = n, .n_head = heads,
                        .hadamard = {fwd__index_kv(d), false}});
}

/* Rows choose. */
static void fwd__choose(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const int           n = hp->hd_index, heads = hp->n_index;
    const bool          by_head = hp->desc->quirks & Q_BLOCKS, ends = d->m->means != NULL;
    fwd__op(d, (dev_op){.kind = OPS_CHOOSE, .in = {d->index_q, by_head || ends ? 0 : d->index_w}, .out = {d->chosen}, .n = n,
                        .n_head = heads, .cache = {.kv = fwd__index_kv(d), .top = hp->n_top, .unit = hp->index_block,
                                                   .local = hp->index_local, .by_head = by_head, .ends = ends}});
}

/* The products of keys and values. */
static void fwd__kv_products(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    dev_plan_product(d->to, &w[W_K], d->rows, d->in, d->k);
    if (w[W_V].data) dev_plan_product(d->to, &w[W_V], d->rows, d->in, d->v);
    fwd__index_product(d);
}

/* Keys and values go to the cache. */
static void fwd__kv_store(fwd_draft *d, const dev_kv *kv) {
    const float *const *vec = d->l->vec;
    fwd__by_head(d, d->k, 1);
    fwd__by_head(d, d->v, 2);
    fwd__values(d);
    fwd__heads(d, d->k, vec[B_K], &vec[W_K_NORM], d->lh->n_head_kv);
    fwd__op(d, (dev_op){.kind = OPS_STORE, .in = {d->k, d->v}, .cache = {.kv = kv}});
    fwd__index_store(d);
}

/* The gate of what attention gives, a matrix of its own; NULL: there is none. */
static const dev_mat *fwd__out_gate(const fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    return w[W_OUT_GATE].data ? &w[W_OUT_GATE] : w[W_HEAD_GATE].data ? &w[W_HEAD_GATE] : NULL;
}

/* What attention gives is multiplied by its gate, where it has one. Returns the buffer that holds it. */
static dev_buf fwd__gate_out(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *gate = fwd__out_gate(d);
    const bool           by_head = d->l->mat[W_HEAD_GATE].data != NULL;
    const dev_act        act = d->m->hp.desc->quirks & Q_SOFT_GATE ? ACT_SOFTPLUS : ACT_SIGMOID;
    if (!lh->gated && !gate) return d->att;
    if (!by_head) {
        fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->att}, .out = {d->z}, .act = act, .n = lh->n_head * lh->hd_v});
        return d->z;
    }
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .out = {d->z}, .act = act, .n = gate->n_out});
    fwd__op(d, (dev_op){.kind = OPS_SCALE_BY, .in = {d->z}, .out = {d->att}, .n = lh->hd_v, .n_head = lh->n_head});
    return d->att;
}

/* Queries, and keys and values for the cache. After that, rows that are needed no more end. */
static void fwd__qkv(fwd_draft *d, const dev_kv *kv) {
    const arch_layer_hp *lh = d->lh;
    const bool           own = !lh->kv_back;
    const dev_mat       *joined = &d->l->mat[W_QKV_HEADS];
    fwd__matmul(d, FWD_QKV);
    if (joined->data) dev_plan_product(d->to, joined, d->rows, d->in, d->all);
    else dev_plan_product(d->to, &d->l->mat[W_Q], d->past, d->in, lh->gated ? d->all : d->q);
    if (own && !joined->data) fwd__kv_products(d);
    if (fwd__out_gate(d)) dev_plan_product(d->to, fwd__out_gate(d), d->past, d->in, d->z);
    if (lh->indexed) dev_plan_product(d->to, &d->l->mat[W_INDEX_Q], d->past, d->in, d->index_q);
    d->part = FWD_CACHE;
    if (own) fwd__kv_store(d, kv);
    d->rows = d->past;
    d->beside = own;
    fwd__queries(d);
    fwd__index_queries(d);
}

/* out = attention of q to the positions of the view. */
static void fwd__look(fwd_draft *d, const dev_kv *kv, dev_view view, dev_buf q, dev_buf out) {
    const arch_layer_hp *lh = d->lh;
    const float *const  *vec = d->l->vec;
    const arch_hparams  *hp = &d->m->hp;
    const bool           chosen = lh->chooses && view == lh->view;
    if (lh->tempered) fwd__op(d, (dev_op){.kind = OPS_SCALE_BY, .in = {d->heat}, .out = {q}, .n = lh->n_head * lh->hd_k});
    fwd__op(d, (dev_op){.kind = OPS_HADAMARD, .out = {q}, .hadamard = {kv, false}, .n = lh->hd_k, .n_head = lh->n_head});
    d->part = FWD_ATTN;
    if (chosen && lh->indexed) fwd__choose(d);
    fwd__op(d, (dev_op){.kind = chosen ? OPS_ATTEND_CHOSEN : OPS_ATTEND, .in = {q, chosen ? d->chosen : 0}, .out = {out},
                        .n = lh->hd_v, .n_head = lh->n_head, .scale = lh->attn_scale,
                        .cache = {.kv = kv, .window = lh->window, .hd_k = lh->hd_k, .group = lh->n_head / lh->n_head_kv,
                                  .most = lh->window ? lh->window + 1 : hp->n_ctx_train, .view = view, .cap = lh->cap,
                                  .sinks = vec[W_SINKS], .reach = MODEL_REACH,
                                  .bias = d->m->distance && view == lh->view ? d->m->distance[d->il] : NULL,
                                  .slope = d->m->slope ? d->m->slope + d->il * d->m->n_slope : NULL,
                                  .top = hp->n_top, .unit = hp->index_block, .by_head = hp->desc->quirks & Q_BLOCKS,
                                  .ends = d->m->means != NULL}});
    fwd__op(d, (dev_op){.kind = OPS_HADAMARD, .out = {out}, .hadamard = {kv, true}, .n = lh->hd_v, .n_head = lh->n_head});
}

static void fwd__attend(fwd_draft *d, const dev_kv *kv, dev_buf q, dev_buf out) { fwd__look(d, kv, d->lh->view, q, out); }

/* Where the layer keeps keys and values; NULL: the list is only measured. */
static const dev_kv *fwd__kv(const fwd_draft *d) {
    return d->kv ? &d->kv->layer[d->m->hp.desc->traits & A_ASSIST ? d->lh->kv_at : d->il] : NULL;
}

static void fwd__attention(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const dev_kv        *kv = fwd__kv(d);
    fwd__qkv(d, kv);
    fwd__attend(d, kv, d->q, d->att);
    const dev_buf out = fwd__gate_out(d);
    if (d->m->hp.value_scale != 0) fwd__scale(d, out, lh->n_head * lh->hd_v, d->m->hp.value_scale);
    fwd__norm(d, out, out, &d->l->vec[W_ATTN_SUB_NORM], 1, lh->n_head * lh->hd_v);
    fwd__give(d, &d->l->mat[W_O], out);
}

/* Attention to the answer so far, then to what the encoder has made of the text. */
static void fwd__cross(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    fwd__attention(d);
    fwd__residual(d, NULL, fwd_no_norm, fwd_no_norm);
    fwd__enter(d, &d->l->vec[W_CROSS_NORM]);
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_CROSS_Q], d->rows, d->in, d->q);
    fwd__look(d, fwd__kv(d), VIEW_SOURCE, d->q, d->att);
    fwd__give(d, &w[W_CROSS_O], d->att);
}

/* Keys and values of what the encoder has made of the text, for a decoder layer. */
static void fwd__cross_store(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_CROSS_K], d->rows, d->in, d->k);
    dev_plan_product(d->to, &w[W_CROSS_V], d->rows, d->in, d->v);
    d->part = FWD_CACHE;
    fwd__op(d, (dev_op){.kind = OPS_STORE, .in = {d->k, d->v}, .cache = {.kv = fwd__kv(d)}});
}

/* A product in place of attention. */
static void fwd__linear(fwd_draft *d) {
    d->rows = d->past;
    fwd__matmul(d, FWD_WO);
    dev_plan_product(d->to, &d->l->mat[W_O], d->rows, d->in, d->y);
}

/* --- latent attention (MLA; DeepSeek-AI 2024). Of each head, a query takes in its part of the keys' matrix and the output goes
 * through its part of the values' matrix, so that all heads read the same row of each position --- */

/* A row of each position goes to the cache, from k: `rank` values with a norm, then those with RoPE. */
static void fwd__latent_store(fwd_draft *d) {
    fwd__norm(d, d->k, d->k, &d->l->vec[W_KV_A_NORM], 1, d->lh->rank);
    fwd__rotate(d, d->k, 1, d->lh->rank);
    fwd__op(d, (dev_op){.kind = OPS_STORE, .in = {d->k}, .cache = {.kv = fwd__kv(d)}});
    fwd__index_store(d);
}

/* out = of each head, its matrix of the stack w times the values from its place on in `in`. Heads lie `stride` values apart
 * there, `step` in out. */
static void fwd__by_heads(fwd_draft *d, fwd_part part, const dev_mat *w, dev_buf in, int stride, dev_buf out, int step) {
    const int heads = d->lh->n_head;
    fwd__op(d, (dev_op){.kind = OPS_DEAL, .in = {in}, .out = {d->head}, .n = w->n_in, .each = heads, .pick = {.stride = stride}});
    fwd__forms(d, d->head, w->n_in, heads);
    fwd__matmul(d, part);
    dev_plan_heads(d->to, w, d->rows, d->head, out, step);
}

/* The queries of all heads, each with its part of the keys' matrix. */
static void fwd__latent_queries(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *w = d->l->mat;
    if (lh->q_rank) {
        fwd__norm(d, d->all, d->all, &d->l->vec[W_Q_A_NORM], 1, lh->q_rank);
        fwd__product(d, FWD_QKV, &w[W_Q_B], d->all, d->q);
        if (lh->indexed) dev_plan_product(d->to, &w[W_INDEX_Q], d->rows, d->all, d->index_q);
        d->part = FWD_CACHE;
        fwd__index_queries(d);
    }
    fwd__op(d, (dev_op){.kind = OPS_PICK, .in = {d->q}, .out = {d->ask}, .n = lh->n_rot, .n_head = lh->n_head,
                        .pick = {.stride = lh->hd_q, .at = lh->hd_q - lh->n_rot, .to = lh->rank, .step = lh->hd_k}});
    fwd__rotate(d, d->ask, lh->n_head, lh->rank);
    fwd__by_heads(d, FWD_QKV, &w[W_K_B], d->q, lh->hd_q, d->ask, lh->hd_k);
}

static void fwd__latent(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *w = d->l->mat;
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_KV_A], d->rows, d->in, d->k);
    fwd__index_product(d);
    if (lh->indexed) dev_plan_product(d->to, &w[W_INDEX_SHARE], d->past, d->in, d->index_w);
    if (lh->q_rank) dev_plan_product(d->to, &w[W_Q_A], d->past, d->in, d->all);
    else dev_plan_product(d->to, &w[W_Q], d->past, d->in, d->q);
    d->part = FWD_CACHE;
    fwd__latent_store(d);
    d->rows = d->past;
    d->beside = true;
    fwd__latent_queries(d);
    d->part = FWD_CACHE;
    fwd__attend(d, fwd__kv(d), d->ask, d->o);
    fwd__by_heads(d, FWD_WO, &w[W_V_B], d->o, lh->rank, d->att, lh->hd_o);
    if (d->m->hp.value_scale != 0) fwd__scale(d, d->att, lh->n_head * lh->hd_o, d->m->hp.value_scale);
    fwd__give(d, &w[W_O], d->att);
}

/* --- attention to a window and to groups of positions, whose keys are values (DeepSeek-AI 2026) --- */

/* Keys of groups: of attention (0), of the indexer (1); NULL: the list is only measured. */
static const dev_kv *fwd__pooled(const fwd_draft *d, int i) { return d->kv ? &d->kv->pool[2 * d->il + i] : NULL; }

/* What they are made of goes to the cache, and the key of each group that is complete. n: values of one. */
static void fwd__pool(fwd_draft *d, int i, dev_buf values, dev_buf gates, int n, const float *place, const float *norm) {
    const arch_layer_hp *lh = d->lh;
    const model_rope    *ro = &d->m->rope[lh->rope];
    const dev_kv        *raw = d->kv ? &d->kv->raw[2 * d->il + i] : NULL;
    fwd__op(d, (dev_op){.kind = OPS_STORE, .in = {values, gates}, .cache = {.kv = raw}});
    fwd__op(d, (dev_op){.kind = OPS_POOL, .vec = norm, .scale = d->m->hp.eps, .n = n,
                        .pool = {.raw = raw, .to = fwd__pooled(d, i), .place = place, .size = lh->ratio, .span = lh->pool_span,
                                 .freq = ro->freq, .n_rot = lh->n_rot, .mscale = ro->mscale}});
}

/* Rows choose among the groups. */
static void fwd__choose_pooled(fwd_draft *d) {
    const arch_hparams  *hp = &d->m->hp;
    const arch_layer_hp *lh = d->lh;
    const int            n = hp->hd_index;
    fwd__op(d, (dev_op){.kind = OPS_ROPE, .in = {d->cs}, .out = {d->index_q}, .n = n, .n_head = hp->n_index,
                        .rope = {.n_rot = lh->n_rot, .at = d->m->rope[lh->rope].at, .skip = n - lh->n_rot,
                                 .form = K_ROPE_PAIRS}});
    fwd__op(d, (dev_op){.kind = OPS_HADAMARD, .out = {d->index_q}, .n = n, .n_head = hp->n_index,
                        .hadamard = {fwd__pooled(d, 1), false}});
    fwd__op(d, (dev_op){.kind = OPS_CHOOSE, .in = {d->index_q, d->index_w}, .out = {d->chosen}, .n = n, .n_head = hp->n_index,
                        .cache = {.kv = fwd__pooled(d, 1), .top = hp->n_top, .unit = 1, .pool = lh->ratio}});
}

/* y = the outputs of each group of heads times a matrix of its own, then that of all. RoPE is turned back first, since keys are
 * values. */
static void fwd__give_groups(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *w = &d->l->mat[W_OUT_A];
    fwd__op(d, (dev_op){.kind = OPS_ROPE, .in = {d->cs_back}, .out = {d->att}, .n = lh->hd_v, .n_head = lh->n_head,
                        .rope = {.n_rot = lh->n_rot, .at = d->m->rope[lh->rope].at, .skip = lh->hd_v - lh->n_rot,
                                 .form = K_ROPE_PAIRS}});
    fwd__op(d, (dev_op){.kind = OPS_DEAL, .in = {d->att}, .out = {d->head}, .n = w->n_in, .each = w->n_mat,
                        .pick = {.stride = w->n_in}});
    fwd__forms(d, d->head, w->n_in, w->n_mat);
    fwd__matmul(d, FWD_WO);
    dev_plan_heads(d->to, w, d->rows, d->head, d->o, w->n_out);
    fwd__give(d, &d->l->mat[W_O], d->o);
}

static void fwd__pooled_attention(fwd_draft *d) {
    const arch_hparams  *hp = &d->m->hp;
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *w = d->l->mat;
    const float *const  *vec = d->l->vec;
    const dev_kv        *kv = fwd__kv(d);
    const int            hd = lh->hd_k, skip = hd - lh->n_rot;
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_KV_A], d->rows, d->in, d->k);
    if (lh->ratio) {
        dev_plan_product(d->to, &w[W_POOL_KV], d->rows, d->in, d->pool_kv);
        dev_plan_product(d->to, &w[W_POOL_GATE], d->rows, d->in, d->pool_gate);
    }
    if (lh->indexed) {
        dev_plan_product(d->to, &w[W_POOL_INDEX_KV], d->rows, d->in, d->index_kv);
        dev_plan_product(d->to, &w[W_POOL_INDEX_GATE], d->rows, d->in, d->index_gate);
        dev_plan_product(d->to, &w[W_INDEX_SHARE], d->past, d->in, d->index_w);
    }
    dev_plan_product(d->to, &w[W_Q_A], d->past, d->in, d->all);
    d->part = FWD_CACHE;
    fwd__norm(d, d->k, d->k, &vec[W_KV_A_NORM], 1, hd);
    fwd__rotate(d, d->k, 1, skip);
    fwd__op(d, (dev_op){.kind = OPS_STORE, .in = {d->k}, .cache = {.kv = kv}});
    if (lh->ratio) fwd__pool(d, 0, d->pool_kv, d->pool_gate, hd, vec[W_POOL_PLACE], vec[W_POOL_NORM]);
    if (lh->indexed)
        fwd__pool(d, 1, d->index_kv, d->index_gate, hp->hd_index, vec[W_POOL_INDEX_PLACE], vec[W_POOL_INDEX_NORM]);
    d->rows = d->past;
    fwd__norm(d, d->all, d->all, &vec[W_Q_A_NORM], 1, lh->q_rank);
    fwd__product(d, FWD_QKV, &w[W_Q_B], d->all, d->q);
    if (lh->indexed) dev_plan_product(d->to, &w[W_INDEX_Q], d->rows, d->all, d->index_q);
    d->part = FWD_CACHE;
    fwd__any_norm(d, d->q, d->q, fwd_no_norm, lh->n_head, hd);
    fwd__rotate(d, d->q, lh->n_head, skip);
    fwd__op(d, (dev_op){.kind = OPS_HADAMARD, .out = {d->q}, .hadamard = {kv, false}, .n = hd, .n_head = lh->n_head});
    d->part = FWD_ATTN;
    if (lh->indexed) fwd__choose_pooled(d);
    fwd__op(d, (dev_op){.kind = OPS_ATTEND_POOLED, .in = {d->q, lh->indexed ? d->chosen : 0}, .out = {d->att}, .n = lh->hd_v,
                        .n_head = lh->n_head, .scale = lh->attn_scale,
                        .cache = {.kv = kv, .window = lh->window, .hd_k = hd, .group = lh->n_head, .sinks = vec[W_SINKS],
                                  .top = lh->indexed ? hp->n_top : 0, .unit = 1, .pool = lh->ratio,
                                  .pooled = lh->ratio ? fwd__pooled(d, 0) : NULL}});
    fwd__op(d, (dev_op){.kind = OPS_HADAMARD, .out = {d->att}, .hadamard = {kv, true}, .n = lh->hd_v, .n_head = lh->n_head});
    fwd__give_groups(d);
}

/* --- recurrent layers --- */

/* Slots keep what every row brings, and after it rows that are needed no more end. */
static void fwd__keep(fwd_draft *d, dev_op op) {
    fwd__keep_all(d, op);
    d->rows = d->past;
    d->beside = true;
}

/* The inputs of a gated delta net. Joined projections hold one part for each key head: q, k, v and z, and the gates beta and
 * alpha. */
static void fwd__delta_in(fwd_draft *d) {
    const arch_rec *r = &d->lh->rec;
    const dev_mat  *w = d->l->mat;
    const int       share = r->n_v / r->n_k, v = share * r->d_v, all = 2 * r->d_k + 2 * v;
    const bool      joined = w[W_REC_ALL].data != NULL;
    fwd__matmul(d, FWD_QKV);
    if (joined) dev_plan_product(d->to, &w[W_REC_ALL], d->rows, d->in, d->all);
    else dev_plan_product(d->to, &w[W_REC_IN], d->rows, d->in, d->raw),
    dev_plan_product(d->to, &w[W_REC_Z], d->past, d->in, d->z);
    if (w[W_REC_GATES].data) dev_plan_product(d->to, &w[W_REC_GATES], d->rows, d->in, d->gates);
    else dev_plan_product(d->to, &w[W_REC_ALPHA], d->rows, d->in, d->alpha),
    dev_plan_product(d->to, &w[W_REC_BETA], d->rows, d->in, d->beta);
    d->part = FWD_STATE;
    if (joined) {
        fwd__pick(d, d->all, d->raw, r->n_k, r->d_k, all, 0, 0);
        fwd__pick(d, d->all, d->raw, r->n_k, r->d_k, all, r->d_k, r->n_k * r->d_k);
        fwd__pick(d, d->all, d->raw, r->n_k, v, all, 2 * r->d_k, 2 * r->n_k * r->d_k);
    }
    if (!w[W_REC_GATES].data) return;
    fwd__pick(d, d->gates, d->beta, r->n_k, share, 2 * share, 0, 0);
    fwd__pick(d, d->gates, d->alpha, r->n_k, share, 2 * share, share, 0);
}

/* Gated delta net: the state, then the norm of each head times silu(z), or the sigmoid. */
static void fwd__delta(fwd_draft *d) {
    const arch_rec     *r = &d->lh->rec;
    const float *const *vec = d->l->vec;
    const int           n = r->n_v * r->d_v, v = r->n_v / r->n_k * r->d_v;
    const bool          grouped = d->m->hp.desc->traits & A_DELTA_GROUPED;
    dev_op              op = {.kind = OPS_DELTA, .in = {d->raw, d->alpha, d->beta}, .out = {d->o}, .n = r->d_v,
                              .n_head = r->n_v, .vec = vec[W_REC_TAPS], .scale = FWD_L2_EPS,
                              .state = {.st = d->kv ? &d->kv->state[d->il] : NULL, .d_k = r->d_k,
                                        .n_vec = r->width * r->taps, .grouped = grouped, .decay = vec[W_REC_DECAY],
                                        .step = vec[B_REC_STEP]}};
    fwd__delta_in(d);
    fwd__op(d, op);
    fwd__keep(d, op);
    fwd__norm(d, d->o, d->att, &vec[W_REC_NORM], r->n_v, r->d_v);
    if (d->l->mat[W_REC_ALL].data) fwd__pick(d, d->all, d->z, r->n_k, v, 2 * r->d_k + 2 * v, 2 * r->d_k + v, 0);
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->att}, .out = {d->z}, .n = n,
                        .act = d->m->hp.desc->quirks & Q_STREAMS ? ACT_SIGMOID : ACT_SILU});
    fwd__give(d, &d->l->mat[W_REC_OUT], d->z);
}

/* Kimi delta attention (Kimi Team 2025): the state, then the norm of each head times the sigmoid of a gate. Decays and gates are
 * made by two matrices each. */
static void fwd__kda(fwd_draft *d) {
    const arch_rec     *r = &d->lh->rec;
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = r->n_v * r->d_v;
    const dev_buf       parts[3] = {d->q, d->k, d->v};
    dev_op              op = {.kind = OPS_DELTA, .in = {d->raw, d->alpha, d->beta}, .out = {d->o}, .n = r->d_v,
                              .n_head = r->n_v, .vec = vec[W_REC_TAPS], .scale = FWD_L2_EPS,
                              .state = {.st = d->kv ? &d->kv->state[d->il] : NULL, .d_k = r->d_k, .n_vec = r->width * r->taps,
                                        .grouped = true, .rule = RULE_KDA, .decay = vec[W_REC_DECAY], .step = vec[B_REC_STEP]}};
    fwd__matmul(d, FWD_QKV);
    for (int i = 0; i < 3; i++) dev_plan_product(d->to, &w[W_Q + i], d->rows, d->in, parts[i]);
    dev_plan_product(d->to, &w[W_REC_BETA], d->rows, d->in, d->beta);
    dev_plan_product(d->to, &w[W_WKV_DECAY_1], d->rows, d->in, d->low[0]);
    dev_plan_product(d->to, &w[W_WKV_GATE_1], d->past, d->in, d->low[1]);
    d->part = FWD_STATE;
    for (int i = 0; i < 3; i++) fwd__pick(d, parts[i], d->raw, 1, n, n, 0, i * n);
    fwd__product(d, FWD_QKV, &w[W_WKV_DECAY_2], d->low[0], d->alpha);
    d->part = FWD_STATE;
    fwd__op(d, op);
    fwd__keep(d, op);
    fwd__product(d, FWD_QKV, &w[W_WKV_GATE_2], d->low[1], d->z);
    d->part = FWD_STATE;
    fwd__norm(d, d->o, d->att, &vec[W_REC_NORM], r->n_v, r->d_v);
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->att}, .out = {d->z}, .act = ACT_SIGMOID, .n = n});
    fwd__give(d, &w[W_REC_OUT], d->z);
}

/* Short convolution: of the parts b, c and x of a projection, c times the convolution of b times x. */
static void fwd__conv(fwd_draft *d) {
    const int n = d->lh->rec.width;
    dev_op    op = {.kind = OPS_CONV, .in = {d->all}, .out = {d->o}, .n = n, .vec = d->l->vec[W_REC_TAPS],
                    .state = {.st = d->kv ? &d->kv->state[d->il] : NULL, .at = 2 * n, .n_vec = n * d->lh->rec.taps}};
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &d->l->mat[W_REC_ALL], d->rows, d->in, d->all);
    d->part = FWD_STATE;
    fwd__op(d, (dev_op){.kind = OPS_MUL, .in = {d->all, d->all}, .out = {d->all}, .n = n,
                        .mul = {.a = 0, .b = 2 * n, .to = 2 * n}});
    fwd__op(d, op);
    fwd__keep(d, op);
    fwd__op(d, (dev_op){.kind = OPS_MUL, .in = {d->o, d->all}, .out = {d->att}, .n = n, .mul = {.a = 0, .b = n, .to = 0}});
    fwd__give(d, &d->l->mat[W_REC_OUT], d->att);
}

/* --- Mamba: Gu and Dao 2023, Dao and Gu 2024 --- */

/* mixed = silu of the convolution of the inputs, the values of the state; raw is what they are. */
static void fwd__ssm_conv(fwd_draft *d) {
    const arch_rec     *c = &d->lh->conv[0];
    const float *const *vec = d->l->vec;
    dev_op              op = {.kind = OPS_CONV, .in = {d->raw}, .out = {d->mixed}, .n = c->width, .vec = vec[W_REC_TAPS],
                              .state = {.st = d->kv ? &d->kv->conv[d->il * ARCH_CONVS] : NULL, .n_vec = c->width * c->taps,
                                        .silu = true, .bias = vec[B_CONV]}};
    d->part = FWD_STATE;
    fwd__op(d, op);
    fwd__keep_all(d, op);
}

/* z = y silu(z), from the values, keys and queries `mixed` and the steps alpha. */
static void fwd__ssm_state(fwd_draft *d, dev_rule rule) {
    const arch_rec     *r = &d->lh->rec;
    const float *const *vec = d->l->vec;
    const dev_op        op = {.kind = OPS_DELTA, .in = {d->mixed, d->alpha}, .out = {d->o}, .n = r->d_v, .n_head = r->n_v,
                              .state = {.st = d->kv ? &d->kv->state[d->il] : NULL, .d_k = r->d_k, .grouped = true, .rule = rule,
                                        .decay = vec[W_REC_DECAY], .step = vec[B_REC_STEP], .skip = vec[W_SKIP]}};
    fwd__op(d, op);
    fwd__keep(d, op);
    if (d->l->mat[W_REC_ALL].data) fwd__pick(d, d->all, d->z, r->n_v, r->d_v, 2 * r->d_v, 0, 0);
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->o}, .out = {d->z}, .act = ACT_SILU, .n = r->n_v * r->d_v});
}

/* Mamba-2: the norm of y silu(z) is by groups of heads, which share keys and queries. */
static void fwd__ssd(fwd_draft *d) {
    const arch_rec     *r = &d->lh->rec;
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = r->n_v * r->d_v;
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_REC_IN], d->rows, d->in, d->raw);
    dev_plan_product(d->to, &w[W_REC_Z], d->past, d->in, d->z);
    dev_plan_product(d->to, &w[W_REC_ALPHA], d->rows, d->in, d->alpha);
    fwd__ssm_conv(d);
    fwd__ssm_state(d, RULE_SSD);
    if (vec[W_REC_NORM]) {
        fwd__any_norm(d, d->z, d->z, fwd_no_norm, r->n_k, n / r->n_k);
        fwd__op(d, (dev_op){.kind = OPS_SCALE, .out = {d->z}, .vec = vec[W_REC_NORM], .n = n});
    }
    fwd__give(d, &w[W_REC_OUT], d->z);
}

/* Attention and Mamba-2 of the same rows. */
static void fwd__attn_ssd(fwd_draft *d) {
    const int         n = d->m->hp.n_embd;
    const dev_row_set all = d->rows;
    fwd__ssd(d);
    fwd__pick(d, d->y, d->side, 1, n, n, 0, 0);
    d->rows = all;
    fwd__attention(d);
    fwd__sum(d, d->y, d->side, d->y, n);
}

/* `to` = n values of the rates from `at` on, with their norm. */
static void fwd__rate(fwd_draft *d, dev_buf to, int to_at, const float *gain, int at, int n) {
    fwd__pick(d, d->rates, d->gates, 1, n, n, at, 0);
    if (gain || d->lh->rec_normed)
        fwd__op(d, (dev_op){.kind = OPS_NORM, .in = {d->gates}, .out = {d->gates}, .vec = gain, .scale = d->m->hp.eps, .n = n});
    fwd__pick(d, d->gates, to, 1, n, n, 0, to_at);
}

/* Mamba: steps, keys and queries are made from the values. heads: one step for each head, after keys and queries. */
static void fwd__scan_of(fwd_draft *d, bool heads) {
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *w = d->l->mat;
    const float *const  *vec = d->l->vec;
    const int            n = lh->rec.n_v * lh->rec.d_v, d_k = lh->rec.d_k, rank = lh->n_rank, b = heads ? 0 : rank;
    fwd__ssm_conv(d);
    fwd__product(d, FWD_STATE, &w[W_STEP_IN], d->mixed, d->rates);
    fwd__rate(d, d->mixed, n, vec[W_KEY_NORM], b, d_k);
    fwd__rate(d, d->mixed, n + d_k, vec[W_QUERY_NORM], b + d_k, d_k);
    fwd__rate(d, d->beta, 0, vec[W_STEP_NORM], heads ? 2 * d_k : 0, rank);
    fwd__product(d, FWD_STATE, &w[W_STEP], d->beta, d->alpha);
    fwd__ssm_state(d, heads ? RULE_SSD : RULE_SCAN);
    fwd__give(d, &w[W_REC_OUT], d->z);
}

static void fwd__scan(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_REC_IN], d->rows, d->in, d->raw);
    dev_plan_product(d->to, &w[W_REC_Z], d->past, d->in, d->z);
    fwd__scan_of(d, false);
}

/* The projection has z and the inputs of one head, then those of the next. */
static void fwd__scan_heads(fwd_draft *d) {
    const arch_rec *r = &d->lh->rec;
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &d->l->mat[W_REC_ALL], d->rows, d->in, d->all);
    d->part = FWD_STATE;
    fwd__pick(d, d->all, d->raw, r->n_v, r->d_v, 2 * r->d_v, r->d_v, 0);
    fwd__scan_of(d, true);
}

/* --- RWKV: Peng et al. 2024, 2025 --- */

/* The product of matrix `stack` of several. */
static void fwd__stacked(fwd_draft *d, const dev_mat *w, int stack, dev_buf in, dev_buf out) {
    fwd__matmul(d, FWD_EMBED);
    dev_plan_product(d->to, w, d->rows, in, out);
    d->to->product[d->to->n_product - 1].stack = stack;
}

enum { FWD_WKV_EPS = 64 };                            /* of the norm of heads, in units of 1e-5 */

/* before = what each row's position before it has in `in`, which slots keep. */
static void fwd__shift(fwd_draft *d, int which) {
    const dev_op op = {.kind = OPS_SHIFT, .in = {d->in}, .out = {d->before}, .n = d->m->hp.n_embd,
                       .state = {.st = d->kv ? &d->kv->conv[d->il * ARCH_CONVS + which] : NULL}};
    d->part = FWD_STATE;
    fwd__op(d, op);
    fwd__keep_all(d, op);
}

/* to = between `in` and `before`, by vec or by the values of `by`. */
static void fwd__lerp(fwd_draft *d, dev_buf to, const float *vec, dev_buf by) {
    const int n = d->m->hp.n_embd;
    fwd__op(d, (dev_op){.kind = OPS_LERP, .in = {d->in, d->before, by}, .out = {to}, .vec = vec, .n = n});
}

/* Forms of the first `count` pieces. */
static void fwd__piece_forms(fwd_draft *d, int count) {
    for (int i = 0; i < count; i++) fwd__forms(d, d->piece[i], d->m->hp.n_embd, 0);
}

static void fwd__act(fwd_draft *d, dev_buf b, dev_act act, int n) {
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .out = {b}, .act = act, .n = n});
}

static void fwd__tanh(fwd_draft *d, dev_buf b, int n) { fwd__op(d, (dev_op){.kind = OPS_CAP, .out = {b}, .n = n, .scale = 1}); }

/* The state, then the norm of each head: att. */
static void fwd__wkv_state(fwd_draft *d, dev_op op) {
    const arch_rec     *r = &d->lh->rec;
    const float *const *vec = d->l->vec;
    const int           n = d->m->hp.n_embd;
    op.kind = OPS_DELTA, op.in[0] = d->raw, op.out[0] = d->o, op.n = r->d_v, op.n_head = r->n_v;
    op.state.st = d->kv ? &d->kv->state[d->il] : NULL, op.state.d_k = r->d_k, op.state.grouped = true;
    op.state.step = vec[B_WKV_DECAY];
    fwd__op(d, op);
    op.out[1] = 0;
    fwd__keep(d, op);
    if (!vec[W_WKV_NORM]) {
        fwd__pick(d, d->o, d->att, 1, n, n, 0, 0);
        return;
    }
    fwd__op(d, (dev_op){.kind = OPS_NORM, .in = {d->o}, .out = {d->att}, .scale = FWD_WKV_EPS * 1e-5f, .n = r->d_v,
                        .n_head = r->n_v, .norm = {K_NORM_LAYER, NULL}});
    fwd__op(d, (dev_op){.kind = OPS_SCALE, .out = {d->att}, .vec = vec[W_WKV_NORM], .n = n});
    fwd__bias(d, d->att, vec[B_WKV_NORM], n);
}

/* Values: those of the first layer are mixed into those of later ones. */
static void fwd__wkv_values(fwd_draft *d) {
    const int n = d->m->hp.n_embd;
    if (!d->il) {
        fwd__pick(d, d->v, d->first, 1, n, n, 0, 0);
        return;
    }
    fwd__bias(d, d->piece[2], d->l->vec[B_WKV_VALUE], n);
    fwd__act(d, d->piece[2], ACT_SIGMOID, n);
    fwd__op(d, (dev_op){.kind = OPS_LERP, .in = {d->v, d->first, d->piece[2]}, .out = {d->v}, .n = n});
}

static void fwd__wkv7(fwd_draft *d) {
    enum { R, DECAY, K, V, RATE, GATE };
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = d->m->hp.n_embd;
    const bool          gate = w[W_WKV_GATE_1].data != NULL, later = d->il > 0;
    fwd__shift(d, 0);
    for (int i = 0; i < 5 + gate; i++) fwd__lerp(d, d->piece[i], vec[W_WKV_LERP] + i * n, 0);
    fwd__piece_forms(d, 5 + gate);
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_WKV_R], d->rows, d->piece[R], d->q);
    dev_plan_product(d->to, &w[W_WKV_K], d->rows, d->piece[K], d->k);
    dev_plan_product(d->to, &w[W_WKV_V], d->rows, d->piece[V], d->v);
    dev_plan_product(d->to, &w[W_WKV_DECAY_1], d->rows, d->piece[DECAY], d->low[0]);
    dev_plan_product(d->to, &w[W_WKV_RATE_1], d->rows, d->piece[RATE], d->low[1]);
    if (later) dev_plan_product(d->to, &w[W_WKV_VALUE_1], d->rows, d->piece[V], d->low[2]);
    if (gate) dev_plan_product(d->to, &w[W_WKV_GATE_1], d->rows, d->piece[GATE], d->low[3]);
    d->part = FWD_STATE;
    fwd__tanh(d, d->low[0], w[W_WKV_DECAY_1].n_out);
    if (gate) fwd__act(d, d->low[3], ACT_SIGMOID, w[W_WKV_GATE_1].n_out);
    fwd__forms(d, d->low[0], w[W_WKV_DECAY_1].n_out, 0);
    fwd__forms(d, d->low[1], w[W_WKV_RATE_1].n_out, 0);
    if (later) fwd__forms(d, d->low[2], w[W_WKV_VALUE_1].n_out, 0);
    if (gate) fwd__forms(d, d->low[3], w[W_WKV_GATE_1].n_out, 0);
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_WKV_DECAY_2], d->rows, d->low[0], d->piece[0]);
    dev_plan_product(d->to, &w[W_WKV_RATE_2], d->rows, d->low[1], d->piece[1]);
    if (later) dev_plan_product(d->to, &w[W_WKV_VALUE_2], d->rows, d->low[2], d->piece[2]);
    if (gate) dev_plan_product(d->to, &w[W_WKV_GATE_2], d->past, d->low[3], d->z);
    d->part = FWD_STATE;
    fwd__wkv_values(d);
    const dev_buf parts[5] = {d->q, d->piece[0], d->k, d->v, d->piece[1]};
    for (int i = 0; i < 5; i++) fwd__pick(d, parts[i], d->raw, 1, n, n, 0, i * n);
    fwd__wkv_state(d, (dev_op){.out = {0, d->share}, .scale = 1e-12f,
                               .state = {.rule = RULE_WKV7, .rate = vec[B_WKV_RATE], .key = {vec[W_WKV_KEY], vec[W_WKV_KEY_RATE]},
                                         .share = vec[W_WKV_SHARE]}});
    fwd__op(d, (dev_op){.kind = OPS_ADD_HEADS, .in = {d->v, d->share}, .out = {d->att}, .n = d->lh->rec.d_v,
                        .n_head = d->lh->rec.n_v});
    if (gate) fwd__op(d, (dev_op){.kind = OPS_MUL, .in = {d->att, d->z}, .out = {d->att}, .n = n});
    fwd__give(d, &w[W_WKV_OUT], d->att);
}

/* What each of five projections reads is mixed by the token itself. */
static void fwd__wkv6_parts(fwd_draft *d) {
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = d->m->hp.n_embd, rank = w[W_WKV_MIX_2].n_in;
    fwd__lerp(d, d->piece[5], vec[W_WKV_LERP_X], 0);
    fwd__product(d, FWD_QKV, &w[W_WKV_MIX_1], d->piece[5], d->all);
    fwd__tanh(d, d->all, 5 * rank);
    for (int i = 0; i < 5; i++) {
        fwd__pick(d, d->all, d->low[0], 1, rank, rank, i * rank, 0);
        fwd__forms(d, d->low[0], rank, 0);
        fwd__stacked(d, &w[W_WKV_MIX_2], i, d->low[0], d->side);
        fwd__bias(d, d->side, vec[W_WKV_LERP] + i * n, n);
        fwd__lerp(d, d->piece[i], NULL, d->side);
    }
}

/* RWKV-6; without a bonus for the position itself, gated linear attention. */
static void fwd__wkv6(fwd_draft *d) {
    enum { DECAY, K, V, R, GATE };
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = d->m->hp.n_embd, keys = w[W_WKV_K].n_out;
    const bool          own = vec[W_WKV_FIRST] != NULL;
    fwd__shift(d, 0);
    fwd__wkv6_parts(d);
    fwd__piece_forms(d, 5);
    fwd__matmul(d, FWD_QKV);
    dev_plan_product(d->to, &w[W_WKV_R], d->rows, d->piece[R], d->q);
    dev_plan_product(d->to, &w[W_WKV_K], d->rows, d->piece[K], d->k);
    dev_plan_product(d->to, &w[W_WKV_V], d->rows, d->piece[V], d->v);
    dev_plan_product(d->to, &w[W_WKV_DECAY_1], d->rows, d->piece[DECAY], d->low[0]);
    dev_plan_product(d->to, &w[W_WKV_GATE], d->past, d->piece[GATE], d->z);
    d->part = FWD_STATE;
    fwd__bias(d, d->q, vec[B_WKV_R], n);
    fwd__bias(d, d->k, vec[B_WKV_K], keys);
    fwd__bias(d, d->v, vec[B_WKV_V], keys);
    fwd__tanh(d, d->low[0], w[W_WKV_DECAY_1].n_out);
    fwd__product(d, FWD_QKV, &w[W_WKV_DECAY_2], d->low[0], d->piece[0]);
    d->part = FWD_STATE;
    fwd__pick(d, d->q, d->raw, 1, n, n, 0, 0);
    fwd__pick(d, d->piece[0], d->raw, 1, n, n, 0, n);
    fwd__pick(d, d->k, d->raw, 1, keys, keys, 0, 2 * n);
    fwd__pick(d, d->v, d->raw, 1, keys, keys, 0, 2 * n + keys);
    fwd__wkv_state(d, (dev_op){.state = {.rule = own ? RULE_WKV6 : RULE_GLA, .skip = vec[W_WKV_FIRST]}});
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->att}, .out = {d->z}, .act = own ? ACT_SILU : ACT_SIGMOID, .n = n});
    fwd__give(d, &w[W_WKV_OUT], d->z);
}

/* The channel mix of RWKV: a feed-forward that reads the position before, too; in RWKV-6 with a gate for what it adds. */
static void fwd__channels(fwd_draft *d) {
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = d->m->hp.n_embd, F = w[W_MIX_KEY].n_out;
    const bool          gated = w[W_MIX_R].data != NULL;
    fwd__shift(d, 1);
    d->rows = d->after;
    d->beside = true;
    fwd__lerp(d, d->piece[0], vec[W_MIX_LERP_K], 0);
    if (gated) fwd__lerp(d, d->piece[1], vec[W_MIX_LERP_R], 0);
    fwd__piece_forms(d, 1 + gated);
    fwd__matmul(d, FWD_FFN);
    dev_plan_product(d->to, &w[W_MIX_KEY], d->rows, d->piece[0], d->ff);
    if (gated) dev_plan_product(d->to, &w[W_MIX_R], d->rows, d->piece[1], d->z);
    fwd__act(d, d->ff, d->m->hp.act, F);
    if (!gated) {
        fwd__product(d, FWD_FFN, &w[W_MIX_VALUE], d->ff, d->y);
        return;
    }
    fwd__product(d, FWD_FFN, &w[W_MIX_VALUE], d->ff, d->side);
    fwd__act(d, d->z, ACT_SIGMOID, n);
    fwd__op(d, (dev_op){.kind = OPS_MUL, .in = {d->side, d->z}, .out = {d->y}, .n = n});
}

/* ff = act(ff) * up, n values of each of `each` rows; 0: one. up 0: act(ff) alone. Both factors are cut to [-cut, cut], 0: they
 * stay; or ff is cut to values up to `cut` before its activation. */
static void fwd__activate(fwd_draft *d, dev_buf up, int n, int each, float cut) {
    if (cut != 0 && d->m->hp.desc->quirks & Q_POOLED) {
        fwd__op(d, (dev_op){.kind = OPS_CLAMP, .out = {d->ff}, .n = n, .each = each, .scale = cut, .above = true});
        fwd__op(d, (dev_op){.kind = OPS_CLAMP, .out = {up}, .n = n, .each = each, .scale = cut});
        cut = 0;
    }
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {cut != 0 ? 0 : up}, .out = {d->ff}, .act = d->m->hp.act, .n = n,
                        .each = each});
    if (cut == 0) return;
    fwd__op(d, (dev_op){.kind = OPS_CLAMP, .out = {d->ff}, .n = n, .each = each, .scale = cut});
    fwd__op(d, (dev_op){.kind = OPS_CLAMP, .out = {up}, .n = n, .each = each, .scale = cut});
    fwd__op(d, (dev_op){.kind = OPS_MUL, .in = {d->ff, up}, .out = {d->ff}, .n = n, .each = each});
}

/* down(act(gate) * up), for one matrix of each; down(act(up)) without a gate. */
static void fwd__gated(fwd_draft *d, const dev_mat *gate, const dev_mat *up, const dev_mat *down, const float *b_gate,
                       const float *b_up, dev_buf out) {
    const int     n = up->n_out;
    const dev_buf wide = gate->data ? d->up : d->ff;
    fwd__matmul(d, FWD_FFN);
    if (gate->data) dev_plan_product(d->to, gate, d->rows, d->in, d->ff);
    dev_plan_product(d->to, up, d->rows, d->in, wide);
    fwd__bias(d, d->ff, b_gate, n);
    fwd__bias(d, wide, b_up, n);
    if (d->lh->sparse > -INFINITY) fwd__op(d, (dev_op){.kind = OPS_SPARSE, .out = {d->ff}, .scale = d->lh->sparse, .n = n});
    if (d->m->hp.desc->quirks & Q_XIELU) {
        const arch_layer_hp *lh = d->lh;
        fwd__op(d, (dev_op){.kind = OPS_XIELU, .out = {d->ff}, .n = n,
                            .xielu = {lh->xielu_beta + k_softplus(lh->xielu_n), k_softplus(lh->xielu_p), lh->xielu_beta,
                                      lh->xielu_eps}});
    } else
        fwd__activate(d, gate->data ? d->up : 0, n, 0, d->lh->cut_always);
    fwd__norm(d, d->ff, d->ff, &d->l->vec[W_FFN_SUB_NORM], 1, n);
    fwd__product(d, FWD_FFN, down, d->ff, out);
}

static void fwd__dense(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    fwd__gated(d, &w[W_GATE], &w[W_UP], &w[W_DOWN], d->l->vec[B_GATE], d->l->vec[B_UP], d->y);
}

/* Adds to the slots of E experts the bias of each one, a row of n values of vec. */
static void fwd__expert_bias(fwd_draft *d, dev_buf b, const float *vec, int n, int E) {
    if (vec)
        fwd__op(d, (dev_op){.kind = OPS_BIAS, .out = {b}, .vec = vec, .n = n, .each = d->lh->n_expert_used, .experts = {.n = E}});
}

/* The slots of E experts by their weights: as if the inputs had been multiplied, since products are linear. */
static void fwd__weigh(fwd_draft *d, dev_buf b, int n, int E) {
    const int K = d->lh->n_expert_used;
    fwd__op(d, (dev_op){.kind = OPS_WEIGH, .in = {d->weight, d->slot_of, d->slot_row}, .out = {b}, .n = n, .each = K,
                        .experts = {.n = E, .used = K}});
}

/* The products of those of E experts that rows have chosen, from `at` on in the list that OPS_GROUP makes. */
static void fwd__expert_matmul(fwd_draft *d, int E, int at) {
    const int K = d->lh->n_expert_used;
    fwd__op(d, (dev_op){.kind = OPS_MATMUL, .each = K, .products = {.n_expert = E, .used = K, .at = at}});
}

/* The experts of each row, and their weights. */
static void fwd__route(fwd_draft *d) {
    const arch_hparams  *hp = &d->m->hp;
    const arch_layer_hp *lh = d->lh;
    const dev_router     router = hp->desc->quirks & Q_MIXER               ? ROUTE_MIXER
                                  : hp->expert_gate == GATE_SIGMOID       ? ROUTE_SIGMOID
                                  : hp->expert_gate == GATE_ROOT_SOFTPLUS ? ROUTE_ROOT_SOFTPLUS
                                                                          : ROUTE_SOFTMAX;
    if (!(hp->desc->quirks & Q_ROUTE_FIRST)) {
        fwd__matmul(d, FWD_FFN);
        dev_plan_product(d->to, &d->l->mat[W_ROUTER], d->rows, d->in, d->score);
    }
    fwd__bias(d, d->score, d->l->vec[B_ROUTER], lh->n_expert);
    if (hp->router_cap != 0) fwd__op(d, (dev_op){.kind = OPS_CAP, .out = {d->score}, .n = lh->n_expert, .scale = hp->router_cap});
    fwd__op(d, (dev_op){.kind = OPS_ROUTE, .in = {d->score}, .out = {d->pick, d->weight},
                        .vec = d->l->vec[B_ROUTER_CHOICE], .scale = hp->expert_scale,
                        .experts = {.n = lh->n_expert, .used = lh->n_expert_used, .norm = hp->topk_norm, .router = router,
                                    .groups = hp->n_group, .groups_used = hp->n_group_used,
                                    .alone = (hp->desc->traits & A_GROUP_BEST) && !d->l->vec[B_ROUTER_CHOICE],
                                    .listed = d->l->listed}});
}

/* The expert that runs for every row is added to y, after its gate if it has one; or y becomes the mean of both. */
static void fwd__shared(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    const bool     gated = d->l->vec[W_SHEXP_GATE] != NULL;
    fwd__gated(d, &w[W_GATE_SHEXP], &w[W_UP_SHEXP], &w[W_DOWN_SHEXP], NULL, NULL, d->moe);
    if (gated) fwd__op(d, (dev_op){.kind = OPS_ADD_SCALED, .in = {d->moe, d->gate}, .out = {d->y}, .n = d->m->hp.n_embd});
    else fwd__sum(d, d->y, d->moe, d->y, d->m->hp.n_embd);
    if (d->m->hp.desc->average) fwd__scale(d, d->y, d->m->hp.n_embd, 0.5f);
}

/* Experts of a layer: their matrices, and biases, NULL: none. */
typedef struct {
    const dev_mat *gate, *up, *down;
    const float   *b_gate, *b_up, *b_down;
} fwd_experts;

/* out = the sum of the chosen ones of E experts of width F, of `in`, by their weights. pick: [B, K] their numbers. */
static void fwd__mix(fwd_draft *d, const fwd_experts *of, dev_buf pick, int E, int F, dev_buf in, dev_buf out) {
    const int     K = d->lh->n_expert_used;
    const bool    gated = of->gate->data != NULL, first = d->m->hp.desc->weigh_first;
    const dev_buf wide = gated ? d->up : d->ff;
    fwd__op(d, (dev_op){.kind = OPS_GROUP, .in = {pick}, .out = {d->slot_row, d->slot_of},
                        .experts = {.n = E, .used = K, .wide = gated ? 2 : 1}});
    fwd__expert_matmul(d, E, 0);
    if (gated) dev_plan_product(d->to, of->gate, d->rows, in, d->ff);
    dev_plan_product(d->to, of->up, d->rows, in, wide);
    if (first) fwd__weigh(d, wide, F, E);
    if (first && gated) fwd__weigh(d, d->ff, F, E);
    fwd__expert_bias(d, d->ff, of->b_gate, F, E);
    fwd__expert_bias(d, wide, of->b_up, F, E);
    fwd__activate(d, gated ? d->up : 0, F, K, d->lh->cut);
    fwd__forms(d, d->ff, F, K);
    fwd__expert_matmul(d, E, gated ? 2 * E : E);
    dev_plan_product(d->to, of->down, d->rows, d->ff, d->moe);
    fwd__op(d, (dev_op){.kind = OPS_MIX, .in = {d->moe, first ? 0 : d->weight, d->slot_of}, .out = {out}, .vec = of->b_down,
                        .n = of->down->n_out, .experts = {.n = E, .used = K}});
}

/* The small experts that groups share are added to y: that of each chosen expert's group, with its weight. */
static void fwd__adjugate(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const dev_mat      *w = d->l->mat;
    const int           K = d->lh->n_expert_used, n = hp->n_embd;
    const fwd_experts   of = {&w[W_GATE_ADJ], &w[W_UP_ADJ], &w[W_DOWN_ADJ], NULL, NULL, NULL};
    if (!of.up->data || hp->adjugate_scale == 0) return;
    fwd__op(d, (dev_op){.kind = OPS_FAMILY, .in = {d->pick}, .out = {d->family}, .n = K, .share = hp->n_adjugate});
    fwd__mix(d, &of, d->family, d->lh->n_expert / hp->n_adjugate, d->lh->n_ff_adj, d->in, d->side);
    fwd__op(d, (dev_op){.kind = OPS_ADD, .in = {d->y, d->side}, .out = {d->y}, .n = n, .scale = hp->adjugate_scale});
}

/* y = the experts that fwd__route() has chosen, of `in`. */
static void fwd__chosen(fwd_draft *d) {
    const arch_layer_hp *lh = d->lh;
    const dev_mat       *w = d->l->mat;
    const float *const  *vec = d->l->vec;
    const fwd_experts    of = {&w[W_GATE_EXPS],  &w[W_UP_EXPS],  &w[W_DOWN_EXPS],
                               vec[B_GATE_EXPS], vec[B_UP_EXPS], vec[B_DOWN_EXPS]};
    const bool           apart = w[W_EXPS_IN].data != NULL;
    const dev_buf        in = apart ? d->side : d->in, y = apart ? d->o : d->y;
    if (vec[W_SHEXP_GATE])
        fwd__op(d, (dev_op){.kind = OPS_GATE, .in = {d->in}, .out = {d->gate}, .vec = vec[W_SHEXP_GATE], .n = d->m->hp.n_embd});
    if (apart) {
        fwd__matmul(d, FWD_FFN);
        dev_plan_product(d->to, &w[W_EXPS_IN], d->rows, d->in, in);
        fwd__forms(d, in, w[W_EXPS_IN].n_out, 0);
    }
    fwd__mix(d, &of, d->pick, lh->n_expert, lh->n_ff_exp, in, y);
    if (apart) fwd__product(d, FWD_FFN, &w[W_EXPS_OUT], y, d->y);
    if (w[W_UP_SHEXP].data) fwd__shared(d);
    fwd__adjugate(d);
}

static void fwd__experts(fwd_draft *d) {
    fwd__route(d);
    fwd__chosen(d);
}

/* A dense feed-forward and experts, each with norms of its own before and after it. The router reads the stream with a third
 * norm. */
static void fwd__beside(fwd_draft *d) {
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           n = d->m->hp.n_embd;
    fwd__gated(d, &w[W_GATE], &w[W_UP], &w[W_DOWN], NULL, NULL, d->side);
    d->part = FWD_NORM;
    fwd__norm(d, d->side, d->side, &vec[W_DENSE_POST_NORM], 1, n);
    fwd__norm(d, d->x, d->xn, &vec[W_ROUTER_NORM], 1, n);
    fwd__scale(d, d->xn, n, 1 / sqrtf((float)n));
    fwd__forms(d, d->xn, n, 0);
    fwd__route(d);
    fwd__enter(d, &vec[W_EXPS_NORM]);
    fwd__chosen(d);
    fwd__norm(d, d->y, d->y, &vec[W_EXPS_POST_NORM], 1, n);
    fwd__sum(d, d->y, d->side, d->y, n);
}

/* A dense feed-forward, and experts that read the stream as attention found it, which fwd__turn() has left. */
static void fwd__aside(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    const dev_buf  x = d->x;
    fwd__gated(d, &w[W_GATE], &w[W_UP], &w[W_DOWN], NULL, NULL, d->side);
    d->x = d->next;
    fwd__enter(d, &d->l->vec[W_EXPS_NORM]);
    d->x = x;
    fwd__experts(d);
    fwd__sum(d, d->y, d->side, d->y, d->m->hp.n_embd);
}

/* A dense feed-forward and experts of one input; their sum keeps the power of one. */
static void fwd__both(fwd_draft *d) {
    const dev_mat *w = d->l->mat;
    const int      n = d->m->hp.n_embd;
    fwd__gated(d, &w[W_GATE], &w[W_UP], &w[W_DOWN], NULL, NULL, d->side);
    fwd__experts(d);
    fwd__sum(d, d->y, d->side, d->y, n);
    fwd__scale(d, d->y, n, (float)M_SQRT1_2);
}

/* Kinds of layers: from the normed stream to what the block adds to it, y. */
typedef void fwd_block(fwd_draft *d);
static fwd_block *const fwd_mixers[] = {[MIX_ATTN] = fwd__attention, [MIX_DELTA] = fwd__delta, [MIX_CONV] = fwd__conv,
                                        [MIX_LATENT] = fwd__latent, [MIX_LINEAR] = fwd__linear, [MIX_NONE] = NULL,
                                        [MIX_SSD] = fwd__ssd, [MIX_BOTH] = fwd__attn_ssd,
                                        [MIX_SCAN] = fwd__scan, [MIX_SCAN_HEADS] = fwd__scan_heads,
                                        [MIX_WKV7] = fwd__wkv7, [MIX_WKV6] = fwd__wkv6, [MIX_KDA] = fwd__kda,
                                        [MIX_CROSS] = fwd__cross, [MIX_POOLED] = fwd__pooled_attention};
static fwd_block *const fwd_ffns[] = {[FFN_NONE] = NULL, [FFN_DENSE] = fwd__dense, [FFN_EXPERTS] = fwd__experts,
                                      [FFN_CHANNELS] = fwd__channels, [FFN_BESIDE] = fwd__beside, [FFN_BOTH] = fwd__both,
                                      [FFN_ASIDE] = fwd__aside};

/* --- embeddings for each layer --- */

/* What a row gets in each layer, from its token and from the stream as it begins: P values of each layer. */
static void fwd__draw_by_layer(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const dev_mat      *glob = d->m->glob.mat;
    const int           P = hp->n_embd_layer, n = hp->n_layer * P;
    if (!P) return;
    d->part = FWD_EMBED;
    fwd__op(d, (dev_op){.kind = OPS_EMBED, .out = {d->by}, .embed = {&glob[W_BY_TOKEN], false}, .n = n,
                        .scale = sqrtf((float)P)});
    fwd__product(d, FWD_EMBED, &glob[W_BY_STREAM], d->x, d->drawn);
    fwd__scale(d, d->drawn, n, 1 / sqrtf((float)hp->n_embd));
    fwd__norm(d, d->drawn, d->drawn, &d->m->glob.vec[W_BY_NORM], hp->n_layer, P);
    fwd__sum(d, d->drawn, d->by, d->by, n);
    fwd__scale(d, d->by, n, (float)M_SQRT1_2);
}

/* y = the embedding of this layer, gated by b. */
static void fwd__by_layer(fwd_draft *d, dev_buf b) {
    const dev_mat *w = d->l->mat;
    const int      P = d->m->hp.n_embd_layer;
    fwd__product(d, FWD_EMBED, &w[W_BY_GATE], b, d->ff);
    fwd__pick(d, d->by, d->up, 1, P, P, d->il * P, 0);
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->up}, .out = {d->ff}, .act = d->m->hp.act, .n = P});
    fwd__product(d, FWD_EMBED, &w[W_BY_PROJ], d->ff, d->y);
}

/* --- several streams --- */

/* The stream becomes the first of several, the others are products of it, as long as it is. */
static void fwd__spread(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const int           n = hp->n_embd;
    fwd__pick(d, d->x, d->streams, 1, n, n, 0, 0);
    fwd__forms(d, d->x, n, 0);
    for (int i = 1; i < hp->n_stream; i++) {
        fwd__stacked(d, &d->m->glob.mat[W_STREAM_IN], i - 1, d->x, d->y);
        fwd__op(d, (dev_op){.kind = OPS_LEVEL, .in = {d->y, d->x}, .out = {d->streams}, .n = n, .to = i * n});
    }
}

/* The mean of all streams; those after the first are products, as long as the first is. */
static void fwd__gather(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const int           n = hp->n_embd;
    fwd__pick(d, d->streams, d->side, 1, n, n, 0, 0);
    fwd__pick(d, d->side, d->x, 1, n, n, 0, 0);
    for (int i = 1; i < hp->n_stream; i++) {
        fwd__pick(d, d->streams, d->xn, 1, n, n, i * n, 0);
        fwd__forms(d, d->xn, n, 0);
        fwd__stacked(d, &d->m->glob.mat[W_STREAM_OUT], i - 1, d->xn, d->y);
        fwd__op(d, (dev_op){.kind = OPS_LEVEL, .in = {d->y, d->side}, .out = {d->y}, .n = n});
        fwd__sum(d, d->x, d->y, d->x, n);
    }
    fwd__scale(d, d->x, n, 1 / (float)hp->n_stream);
}

/* coef = w . tanh(router . norm(b) / D). */
static void fwd__mode(fwd_draft *d, dev_buf b, const dev_mat *w) {
    const int n = d->m->hp.n_embd, A = d->m->hp.n_stream;
    d->part = FWD_NORM;
    fwd__norm(d, b, d->xn, &d->l->vec[W_ALT_NORM], 1, n);
    fwd__scale(d, d->xn, n, 1 / (float)n);
    fwd__product(d, FWD_NORM, &d->l->mat[W_ALT_ROUTER], d->xn, d->mode);
    fwd__op(d, (dev_op){.kind = OPS_CAP, .out = {d->mode}, .n = A, .scale = 1});
    fwd__product(d, FWD_NORM, w, d->mode, d->coef);
}

/* side = in + norm(r . l . in): a low-rank layer beside attention (LAuReL: Menghani et al. 2024). */
static void fwd__laurel(fwd_draft *d) {
    const int n = d->m->hp.n_embd;
    fwd__matmul(d, FWD_WO);
    dev_plan_product(d->to, &d->l->mat[W_LAUREL_IN], d->rows, d->in, d->ff);
    fwd__product(d, FWD_WO, &d->l->mat[W_LAUREL_OUT], d->ff, d->side);
    fwd__norm(d, d->side, d->side, &d->l->vec[W_LAUREL_NORM], 1, n);
    fwd__sum(d, d->in, d->side, d->side, n);
}

/* A layer over several streams (AltUp): all are predicted, blocks read the active one, and what they change corrects the
 * predictions. */
static void fwd__altup_layer(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const float *const *vec = d->l->vec;
    const int           n = hp->n_embd, A = hp->n_stream, at = hp->active * n;
    fwd__pick(d, d->streams, d->x, 1, n, n, at, 0);
    fwd__mode(d, d->x, &d->l->mat[W_ALT_PREDICT]);
    fwd__op(d, (dev_op){.kind = OPS_BLEND, .in = {d->streams, d->coef}, .out = {d->ahead}, .n = n, .n_head = A});
    fwd__pick(d, d->ahead, d->x, 1, n, n, at, 0);
    fwd__enter(d, &vec[W_ATTN_NORM]);
    fwd__laurel(d);
    fwd_mixers[d->lh->mixer](d);
    fwd__residual(d, vec[B_O], &vec[W_ATTN_POST_NORM], fwd_no_norm);
    fwd__sum(d, d->x, d->side, d->next, n);
    fwd__turn(d);
    fwd__scale(d, d->x, n, (float)M_SQRT1_2);
    fwd__enter(d, &vec[W_FFN_NORM]);
    fwd__dense(d);
    fwd__residual(d, NULL, &vec[W_FFN_POST_NORM], fwd_no_norm);
    fwd__mode(d, d->x, &d->l->mat[W_ALT_CORRECT]);
    fwd__op(d, (dev_op){.kind = OPS_CORRECT, .in = {d->ahead, d->x, d->coef}, .out = {d->streams}, .n = n, .n_head = A,
                        .active = hp->active});
    fwd__pick(d, d->streams, d->xn, 1, n, n, at, 0);
    fwd__op(d, (dev_op){.kind = OPS_SCALE, .out = {d->xn}, .vec = vec[W_ALT_SCALE], .n = n});
    fwd__by_layer(d, d->xn);
    fwd__norm(d, d->y, d->y, &vec[W_BY_POST_NORM], 1, n);
    fwd__op(d, (dev_op){.kind = OPS_RAISE, .in = {d->y}, .out = {d->streams}, .n = n, .n_head = A});
}

/* --- streams with hyper-connections of a low rank: what a block reads is the mean of all, each value with a gate, and what it
 * computes is added to each with a weight. Both depend on all streams (Qwen 4) --- */

/* to = the norm of each stream of b. */
static void fwd__norm_streams(fwd_draft *d, dev_buf b, dev_buf to, const float *gain) {
    const int A = d->m->hp.n_stream, n = d->m->hp.n_embd;
    fwd__any_norm(d, b, to, fwd_no_norm, A, n);
    fwd__op(d, (dev_op){.kind = OPS_SCALE, .out = {to}, .vec = gain, .n = A * n});
}

/* The streams become the input of a block. `inject` makes the weights of what it will add; NULL: nothing follows. */
static void fwd__enter_streams(fwd_draft *d, const float *gain, const dev_mat *down, const dev_mat *up, const dev_mat *inject) {
    const int A = d->m->hp.n_stream, n = d->m->hp.n_embd;
    d->part = FWD_NORM;
    fwd__norm_streams(d, d->streams, d->wide, gain);
    fwd__forms(d, d->wide, A * n, 0);
    fwd__matmul(d, FWD_NORM);
    dev_plan_product(d->to, down, d->rows, d->wide, d->mode);
    if (inject) dev_plan_product(d->to, inject, d->rows, d->wide, d->coef);
    fwd__scale(d, d->mode, down->n_out, 1 / (float)A);
    fwd__act(d, d->mode, ACT_SILU, down->n_out);
    fwd__product(d, FWD_NORM, up, d->mode, d->lift);
    fwd__op(d, (dev_op){.kind = OPS_ACTIVATE, .in = {d->wide}, .out = {d->lift}, .act = ACT_SIGMOID, .n = A * n});
    fwd__op(d, (dev_op){.kind = OPS_MEAN, .in = {d->lift}, .out = {d->xn}, .n = n, .n_head = A});
    d->in = d->xn;
    fwd__forms(d, d->in, n, 0);
}

/* The next streams are complete. */
static void fwd__turn_streams(fwd_draft *d) {
    const dev_buf b = d->streams;
    d->streams = d->ahead;
    d->ahead = b;
}

/* What a block has computed is added to all streams. */
static void fwd__inject(fwd_draft *d) {
    const int A = d->m->hp.n_stream, n = d->m->hp.n_embd;
    d->part = FWD_NORM;
    fwd__op(d, (dev_op){.kind = OPS_INJECT, .in = {d->streams, d->y, d->coef}, .out = {d->ahead}, .n = n, .n_head = A,
                        .scale = 1 / (float)A});
    fwd__turn_streams(d);
}

/* The stream becomes several, all alike. */
static void fwd__repeat(fwd_draft *d) {
    const int n = d->m->hp.n_embd;
    fwd__pick(d, d->x, d->streams, d->m->hp.n_stream, n, 0, 0, 0);
}

#define FWD_RECALL_LEAST 1e-6f                        /* the least product of which a gate has the root: no file has it */

/* What the table has for the last tokens is added to the streams: a value, with a gate of each stream, and a convolution of it.
 * Slots keep tokens too, so that a text goes on after any of its positions. */
static void fwd__recall(fwd_draft *d) {
    const arch_hparams *hp = &d->m->hp;
    const dev_grams    *gr = &hp->grams;
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    const int           A = hp->n_stream, n = hp->n_embd, heads = (gr->n - 1) * gr->each;
    const dev_state    *st = d->kv ? &d->kv->conv[d->il * ARCH_CONVS] : NULL;
    const dev_op        find = {.kind = OPS_GRAMS, .in = {d->token}, .out = {d->grams}, .n = hp->gram_row, .n_head = heads,
                                .state = {.st = st ? st + 1 : NULL, .grams = gr, .table = &d->m->glob.mat[W_GRAMS]}};
    const dev_op        conv = {.kind = OPS_CONV, .in = {d->lift}, .out = {d->mixed}, .n = A * n, .vec = vec[W_GRAM_TAPS],
                                .state = {.st = st, .n_vec = A * n * d->lh->conv[0].taps, .silu = true}};
    d->part = FWD_EMBED;
    fwd__op(d, (dev_op){.kind = OPS_TOKEN, .out = {d->token}, .n = 1});
    fwd__op(d, find);
    fwd__keep_all(d, find);
    fwd__forms(d, d->grams, heads * hp->gram_row, 0);
    fwd__matmul(d, FWD_EMBED);
    dev_plan_product(d->to, &w[W_GRAM_KEY], d->rows, d->grams, d->lift);
    dev_plan_product(d->to, &w[W_GRAM_VALUE], d->rows, d->grams, d->y);
    fwd__norm_streams(d, d->lift, d->lift, vec[W_GRAM_KEY_NORM]);
    fwd__norm_streams(d, d->streams, d->wide, vec[W_GRAM_QUERY_NORM]);
    fwd__op(d, (dev_op){.kind = OPS_RECALL, .in = {d->lift, d->wide, d->y}, .out = {d->ahead}, .n = n, .n_head = A,
                        .scale = FWD_RECALL_LEAST});
    fwd__norm_streams(d, d->ahead, d->lift, vec[W_GRAM_CONV_NORM]);
    fwd__op(d, conv);
    fwd__keep_all(d, conv);
    fwd__sum(d, d->ahead, d->mixed, d->ahead, A * n);
    fwd__sum(d, d->streams, d->ahead, d->ahead, A * n);
    fwd__turn_streams(d);
}

static void fwd__streams_layer(fwd_draft *d) {
    const dev_mat      *w = d->l->mat;
    const float *const *vec = d->l->vec;
    if (d->il == d->m->hp.gram_layer) fwd__recall(d);
    fwd__enter_streams(d, vec[W_HC_ATTN_NORM], &w[W_HC_ATTN_DOWN], &w[W_HC_ATTN_UP], &w[W_HC_ATTN_INJECT]);
    fwd_mixers[d->lh->mixer](d);
    fwd__inject(d);
    fwd__enter_streams(d, vec[W_HC_FFN_NORM], &w[W_HC_FFN_DOWN], &w[W_HC_FFN_UP], &w[W_HC_FFN_INJECT]);
    fwd_ffns[d->lh->ffn](d);
    fwd__inject(d);
}

/* --- hyper-connections: each block reads one mixture of all streams and is added to all, which are mixed --- */

/* coef = the coefficients, from the streams; x = what a block, or the output, reads. turns 0: the output. */
static void fwd__hyper_in(fwd_draft *d, const dev_mat *w, const float *base, const float *scale, int turns) {
    const arch_hparams *hp = &d->m->hp;
    const int           n = hp->n_embd, A = hp->n_stream;
    d->part = FWD_NORM;
    fwd__any_norm(d, d->streams, d->ahead, fwd_no_norm, 1, A * n);
    fwd__product(d, FWD_NORM, w, d->ahead, d->mode);
    fwd__op(d, (dev_op){.kind = OPS_HYPER, .in = {d->mode}, .out = {d->coef}, .vec = base, .scale = hp->hyper_eps, .n_head = A,
                        .hyper = {scale, turns}});
    fwd__op(d, (dev_op){.kind = OPS_COLLAPSE, .in = {d->streams, d->coef}, .out = {d->x}, .n = n, .n_head = A});
}

/* The streams take in what the block gives. */
static void fwd__hyper_out(fwd_draft *d) {
    const dev_buf was = d->streams;
    d->part = FWD_NORM;
    fwd__op(d, (dev_op){.kind = OPS_EXPAND, .in = {d->y, d->streams, d->coef}, .out = {d->ahead}, .n = d->m->hp.n_embd,
                        .n_head = d->m->hp.n_stream});
    d->streams = d->ahead;
    d->ahead = was;
}

static void fwd__hyper_layer(fwd_draft *d) {
    const float *const *vec = d->l->vec;
    const int           turns = d->m->hp.hyper_turns;
    fwd__hyper_in(d, &d->l->mat[W_HYPER_ATTN], vec[B_HYPER_ATTN], vec[W_HYPER_ATTN_SCALE], turns);
    fwd__enter(d, &vec[W_ATTN_NORM]);
    fwd_mixers[d->lh->mixer](d);
    d->rows = d->past;
    fwd__hyper_out(d);
    fwd__hyper_in(d, &d->l->mat[W_HYPER_FFN], vec[B_HYPER_FFN], vec[W_HYPER_FFN_SCALE], turns);
    fwd__enter(d, &vec[W_FFN_NORM]);
    fwd_ffns[d->lh->ffn](d);
    fwd__hyper_out(d);
}

/* Attention and feed-forward side by side: both read the stream as it is, with one norm or with one of each. A norm is taken anew
 * where experts follow for some of the rows alone: they do not look for rows among all. */
static void fwd__side_by_side(fwd_draft *d) {
    const float *const *vec = d->l->vec;
    const dev_row_set   before = d->rows;
    const dev_buf       attn = d->y;
    fwd__enter(d, &vec[W_ATTN_NORM]);
    fwd_mixers[d->lh->mixer](d);
    d->part = FWD_NORM;
    fwd__bias(d, attn, vec[B_O], d->m->hp.n_embd);
    d->y = d->side;
    if (vec[W_FFN_NORM]) fwd__enter(d, &vec[W_FFN_NORM]);
    else if (d->lh->n_expert && d->rows != before) fwd__enter(d, &vec[W_ATTN_NORM]);
    fwd_ffns[d->lh->ffn](d);
    d->part = FWD_NORM;
    fwd__sum(d, d->y, attn, d->y, d->m->hp.n_embd);
    fwd__residual(d, vec[B_DOWN], fwd_no_norm, fwd_no_norm);
    d->side = d->y;
    d->y = attn;
}

/* The logits of experts, from the stream that attention reads. */
static void fwd__route_first(fwd_draft *d) {
    fwd__forms(d, d->x, d->m->hp.n_embd, 0);
    fwd__matmul(d, FWD_FFN);
    dev_plan_product(d->to, &d->l->mat[W_ROUTER], d->past, d->x, d->score);
}

/* The block that reads earlier positions. After it, rows that are needed no more have ended. */
static void fwd__mixer(fwd_draft *d) {
    const float *const *vec = d->l->vec;
    if (fwd_mixers[d->lh->mixer]) {
        fwd__enter(d, &vec[W_ATTN_NORM]);
        fwd_mixers[d->lh->mixer](d);
        fwd__residual(d, vec[B_O], &vec[W_ATTN_POST_NORM], &vec[W_ATTN_SUM_NORM]);
        fwd__twice(d, &vec[W_ATTN_TWICE_NORM]);
    }
    d->rows = d->past;
}

/* The embeddings are added once more. */
static void fwd__skip(fwd_draft *d) {
    const float *scale = d->l->vec[W_SKIP_SCALE];
    if (!scale || scale[0] == 0) return;
    fwd__op(d, (dev_op){.kind = OPS_ADD, .in = {d->x, d->skip}, .out = {d->next}, .n = d->m->hp.n_embd, .scale = scale[0]});
    fwd__turn(d);
}

static void fwd__layer(fwd_draft *d) {
    const float *const *vec = d->l->vec;
    if (d->m->hp.parallel) {
        fwd__side_by_side(d);
        return;
    }
    if (d->m->hp.desc->quirks & Q_ROUTE_FIRST) fwd__route_first(d);
    fwd__mixer(d);
    if (!fwd_ffns[d->lh->ffn]) return;
    fwd__enter(d, &vec[W_FFN_NORM]);
    fwd_ffns[d->lh->ffn](d);
    fwd__residual(d, vec[B_DOWN], &vec[W_FFN_POST_NORM], &vec[W_FFN_SUM_NORM]);
    if (d->m->hp.n_embd_layer) {
        fwd__by_layer(d, d->x);
        fwd__residual(d, NULL, &vec[W_BY_POST_NORM], fwd_no_norm);
    }
    if (vec[W_LAYER_SCALE]) fwd__scale(d, d->x, d->m->hp.n_embd, vec[W_LAYER_SCALE][0]);
    fwd__skip(d);
}

static void fwd__buffers(fwd_draft *d) {
#define FWD_BUF(name) {#name, &d->name}
    const struct {
        const char *name;
        dev_buf    *buf;
    } all[] = {
        FWD_BUF(x), FWD_BUF(next), FWD_BUF(cs), FWD_BUF(heat), FWD_BUF(xn), FWD_BUF(q), FWD_BUF(k), FWD_BUF(v), FWD_BUF(ask),
        FWD_BUF(index_q), FWD_BUF(index_k), FWD_BUF(index_w), FWD_BUF(index_mean), FWD_BUF(cs_block), FWD_BUF(chosen),
        FWD_BUF(head), FWD_BUF(att), FWD_BUF(y), FWD_BUF(ff), FWD_BUF(up), FWD_BUF(score), FWD_BUF(pick), FWD_BUF(weight),
        FWD_BUF(slot_of), FWD_BUF(moe), FWD_BUF(gate), FWD_BUF(all), FWD_BUF(raw), FWD_BUF(z), FWD_BUF(gates), FWD_BUF(alpha),
        FWD_BUF(beta), FWD_BUF(o), FWD_BUF(mixed), FWD_BUF(rates), FWD_BUF(piece[0]), FWD_BUF(piece[1]), FWD_BUF(piece[2]),
        FWD_BUF(piece[3]), FWD_BUF(piece[4]), FWD_BUF(piece[5]), FWD_BUF(low[0]), FWD_BUF(low[1]), FWD_BUF(low[2]),
        FWD_BUF(low[3]), FWD_BUF(before), FWD_BUF(first), FWD_BUF(share), FWD_BUF(by), FWD_BUF(drawn), FWD_BUF(side),
        FWD_BUF(wide), FWD_BUF(lift), FWD_BUF(token), FWD_BUF(grams), FWD_BUF(streams), FWD_BUF(ahead), FWD_BUF(mode),
        FWD_BUF(coef), FWD_BUF(pair), FWD_BUF(pairs), FWD_BUF(skip), FWD_BUF(family), FWD_BUF(guess), FWD_BUF(state),
        FWD_BUF(cs_back), FWD_BUF(pool_kv), FWD_BUF(pool_gate), FWD_BUF(index_kv), FWD_BUF(index_gate)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i].buf = dev_plan_buf(d->to, all[i].name, false);
    d->slot_row = dev_plan_buf(d->to, "slot_row", true);
    d->logits = dev_plan_buf(d->to, "logits", true);
}

/* Logits of the first n tokens, of the rows that ask for them. A watched product is not computed. */
static void fwd__head(fwd_draft *d, const dev_mat *w, int n, bool watched) {
    const arch_hparams *hp = &d->m->hp;
    d->part = FWD_HEAD;
    fwd__op(d, (dev_op){.kind = watched ? OPS_WATCH : OPS_MATMUL});
    dev_plan_rows(d->to, w, n, d->rows, d->in, watched ? 0 : d->logits);
    if (watched) return;
    fwd__bias(d, d->logits, w == &d->m->glob.mat[W_OUTPUT] ? d->m->glob.vec[B_OUTPUT] : NULL, n);
    if (hp->logit_scale != 0) fwd__scale(d, d->logits, n, hp->logit_scale);
    if (hp->final_cap != 0) fwd__op(d, (dev_op){.kind = OPS_CAP, .out = {d->logits}, .n = n, .scale = hp->final_cap});
}

/* The last layer that keeps something of each row for later ones. */
static int fwd__last_keeper(const arch_hparams *hp) {
    int il = hp->n_layer - 1;
    while (il > 0 && (hp->layer[il].kv_back || hp->layer[il].mixer == MIX_LINEAR || hp->layer[il].mixer == MIX_NONE)) il--;
    return il;
}

/* --- draft heads (NextN; DeepSeek-AI 2024, multi-token prediction): layers from hp.n_layer on --- */

static void fwd__at_layer(fwd_draft *d, int il) {
    d->il = il;
    d->l = &d->m->layer[arch_own(&d->m->hp, il)];
    d->lh = &d->m->hp.layer[il];
}

/* The tensors of draft head k. */
static const model_tensors *fwd__draft_head(const fwd_draft *d, int k) { return &d->m->layer[d->m->hp.n_layer + k]; }

/* Whether each further guess has a head of its own, which reads the stream before the last norm. */
static bool fwd__chains(const arch_hparams *hp) { return (hp->desc->traits & A_CHAIN) != 0; }

/* pair = the normed embedding of the token for head k, and space after it. fresh: the stream holds the embedding and no more. */
static void fwd__pair_token(fwd_draft *d, int k, bool fresh) {
    const model_tensors *l = fwd__draft_head(d, k);
    const dev_mat       *own = l->mat[W_NEXTN_EMBD].data ? &l->mat[W_NEXTN_EMBD] : fresh ? NULL : &d->m->glob.mat[W_TOK_EMBD];
    const int            n = d->m->hp.n_embd;
    d->part = FWD_EMBED;
    if (own)
        fwd__op(d, (dev_op){.kind = OPS_EMBED, .out = {d->next}, .embed = {own, false}, .n = n, .scale = d->m->hp.embd_scale});
    fwd__norm(d, own ? d->next : d->x, d->pair, &l->vec[W_NEXTN_TOKEN_NORM], 1, n);
}

/* After the token in pair: the normed state h of the position before. h 0: `before` has those of all rows. */
static void fwd__pair_before(fwd_draft *d, int k, dev_buf h, const dev_before *before) {
    const int n = d->m->hp.n_embd;
    d->part = FWD_EMBED;
    fwd__op(d, (dev_op){.kind = OPS_BEFORE, .in = {h}, .out = {d->y}, .n = n, .before = before});
    fwd__norm(d, d->y, d->y, &fwd__draft_head(d, k)->vec[W_NEXTN_STATE_NORM], 1, n);
    fwd__pick(d, d->y, d->pair, 1, n, n, 0, n);
}

/* The layer of head k begins: its stream is the product of pair. */
static void fwd__pair_enter(fwd_draft *d, int k) {
    fwd__at_layer(d, d->m->hp.n_layer + k);
    fwd__product(d, FWD_EMBED, &fwd__draft_head(d, k)->mat[W_NEXTN_PROJ], d->pair, d->x);
}

static void fwd__pair_state(fwd_draft *d, int k, dev_buf h, const dev_before *before) {
    fwd__pair_before(d, k, h, before);
    fwd__pair_enter(d, k);
}

/* The layer's keys and values of all rows. */
static void fwd__keep_pairs(fwd_draft *d) {
    fwd__enter(d, &d->l->vec[W_ATTN_NORM]);
    fwd__matmul(d, FWD_QKV);
    if (d->lh->mixer != MIX_LATENT) fwd__kv_products(d);
    else dev_plan_product(d->to, &d->l->mat[W_KV_A], d->rows, d->in, d->k), fwd__index_product(d);
    d->part = FWD_CACHE;
    if (d->lh->mixer == MIX_LATENT) fwd__latent_store(d);
    else fwd__kv_store(d, fwd__kv(d));
}

/* Head k from its pairs on, for the rows of `past` beyond keys and values. Only an output matrix of its own is watched. */
static void fwd__guess(fwd_draft *d, int k, dev_row_set past, int n_vocab, bool watched) {
    const model_tensors *glob = &d->m->glob, *l = fwd__draft_head(d, k);
    const bool           own = l->mat[W_NEXTN_OUTPUT].data != NULL;
    const arch_slot_id   late = l->vec[W_NEXTN_NORM] ? W_NEXTN_NORM : W_NEXTN_LATE_NORM;
    d->past = past;
    fwd__layer(d);
    fwd__enter(d, l->vec[late] ? &l->vec[late] : &glob->vec[W_OUTPUT_NORM]);
    if (own || !watched) fwd__head(d, own ? &l->mat[W_NEXTN_OUTPUT] : &glob->mat[W_OUTPUT], n_vocab, watched);
}

/* The list of a draft head of another architecture. Its rows read the token and the state of the position before it, and keys and
 * values of the model up to there: a row has that position, and turns as at the one of the token. Further guesses have the same
 * position, since the model has no keys and values beyond it. */
static void fwd__plan_assist(fwd *f, fwd_draft *d) {
    const model_tensors *glob = &f->m->glob;
    const dev_mat       *embd = &f->of->glob.mat[W_TOK_EMBD];
    const int            n = f->m->hp.n_state;
    d->part = FWD_EMBED;
    fwd__op(d, (dev_op){.kind = OPS_EMBED, .out = {d->next}, .embed = {embd, false}, .n = n, .scale = f->of->hp.embd_scale});
    fwd__pick(d, d->next, d->pair, 1, n, n, 0, 0);
    fwd__op(d, (dev_op){.kind = OPS_BEFORE, .out = {d->y}, .n = n, .before = &f->prior});
    fwd__pick(d, d->y, d->pair, 1, n, n, 0, n);
    fwd__angles(d, d->cs, 1, false);
    fwd__at_layer(d, 0);
    fwd__product(d, FWD_EMBED, &f->m->layer[0].mat[W_ASSIST_IN], d->pair, d->x);
    for (int il = 0; il < f->m->hp.n_layer; il++) {
        fwd__at_layer(d, il);
        d->past = DEV_ALL;
        fwd__layer(d);
    }
    fwd__enter(d, &glob->vec[W_OUTPUT_NORM]);
    fwd__matmul(d, FWD_HEAD);
    dev_plan_product(d->to, &glob->mat[W_ASSIST_OUT], d->rows, d->in, d->y);
    fwd__head(d, &glob->mat[W_OUTPUT], f->n_vocab, false);
    f->hidden = f->state = f->plan.kept[0] = d->y;
    f->plan.kept_rows = DEV_ALL;
}

/* The list of a draft head. */
static void fwd__plan_guess(fwd *f, fwd_draft *d) {
    if (f->of) {
        fwd__plan_assist(f, d);
        return;
    }
    const bool        chain = fwd__chains(&f->m->hp);
    const dev_row_set past = chain ? DEV_OUT : DEV_ALL;
    fwd__embed(d);
    fwd__pair_token(d, f->head, true);
    fwd__pair_state(d, f->head, 0, &f->prior);
    fwd__guess(d, f->head, past, f->n_vocab, false);
    f->hidden = f->state = f->plan.kept[0] = chain ? d->x : d->in;
    f->plan.kept_rows = past;
}

/* The list of keys and values of all heads alone, for the rows of the model's step. What GPUs have no kernels for, pairs, comes
 * before the layers. */
static void fwd__plan_keep(fwd *f, fwd_draft *d) {
    const int heads = f->m->hp.n_nextn, n = 2 * f->m->hp.n_embd;
    fwd__embed(d);
    for (int k = 0; k < heads; k++) {
        fwd__pair_token(d, k, true);
        fwd__pair_before(d, k, 0, &f->prior);
        if (heads > 1) fwd__pick(d, d->pair, d->pairs, 1, n, n, 0, k * n);
    }
    for (int k = 0; k < heads; k++) {
        fwd__at_layer(d, f->m->hp.n_layer + k);
        if (heads > 1) fwd__pick(d, d->pairs, d->pair, 1, n, n, k * n, 0);
        fwd__pair_enter(d, k);
        fwd__keep_pairs(d);
    }
}

/* The draft heads in the list of the model, behind its last norm: their keys and values of all rows, or, where the tap watches,
 * all of them. */
static void fwd__heads_behind(fwd *f, fwd_draft *d, bool watched) {
    const bool chain = fwd__chains(&f->m->hp);
    d->rows = DEV_ALL;
    if (!chain) d->xn = watched ? d->guess : d->next;
    else d->xn = d->guess;
    for (int k = 0; k < f->m->hp.n_nextn; k++) {
        if (chain) fwd__pair_token(d, k, false);
        fwd__pair_state(d, k, f->state, &f->prior);
        if (watched) fwd__guess(d, k, DEV_ALL, f->n_vocab, true);
        else fwd__keep_pairs(d);
    }
}

/* The layers of the encoder, and its last norm. */
static void fwd__encoder(fwd_draft *d, bool keeps) {
    const arch_hparams *hp = &d->m->hp;
    fwd__embed(d);
    for (int il = 0; il < hp->n_enc; il++) {
        fwd__at_layer(d, il);
        d->past = d->after = keeps || il < hp->n_enc - 1 ? DEV_ALL : DEV_OUT;
        fwd__layer(d);
    }
    fwd__enter(d, &d->m->glob.vec[W_ENC_NORM]);
}

/* The list of the encoder: for vectors of texts, or for the decoder. */
static void fwd__plan_encoder(fwd *f, fwd_draft *d) {
    const bool keeps = f->gives == FWD_ENCODE;
    fwd__encoder(d, keeps);
    f->hidden = f->state = d->in;
    for (int il = f->m->hp.n_enc; keeps && il < f->m->hp.n_layer; il++) {
        fwd__at_layer(d, il);
        fwd__cross_store(d);
    }
}

/* The list of the model. */
static void fwd__plan_model(fwd *f, fwd_draft *d) {
    const arch_hparams *hp = &f->m->hp;
    const bool          watched = f->run.tap != NULL, ahead = hp->n_nextn && f->gives == FWD_LOGITS, here = ahead && !f->apart;
    const bool          chain = ahead && fwd__chains(hp), low = hp->desc->quirks & Q_STREAMS,
                        pooled = hp->desc->quirks & Q_POOLED, altup = hp->n_stream && !low && !pooled;
    const int           keeper = fwd__last_keeper(hp);
    const model_tensors *glob = &f->m->glob;
    ASSERT(!watched || !f->m->gpus);
    fwd__embed(d);
    if (here && !chain) fwd__pair_token(d, 0, true);
    fwd__draw_by_layer(d);
    if (hp->n_stream) (altup ? fwd__spread : fwd__repeat)(d);
    for (int il = hp->n_enc; il < hp->n_layer; il++) {
        fwd__at_layer(d, il);
        d->after = il >= keeper && !watched && !ahead ? DEV_OUT : DEV_ALL;
        d->past = d->lh->ffn == FFN_CHANNELS ? DEV_ALL : d->after;
        (low ? fwd__streams_layer : pooled ? fwd__hyper_layer : altup ? fwd__altup_layer : fwd__layer)(d);
        if (!hp->loop_skip && il + 1 < hp->n_layer && arch_own(hp, il + 1) == 0)
            fwd__norm(d, d->x, d->x, &glob->vec[W_OUTPUT_NORM], 1, hp->n_embd);
        if (hp->rescale_every && (il + 1) % hp->rescale_every == 0) fwd__scale(d, d->x, hp->n_embd, 0.5f);
    }
    if (altup) fwd__gather(d);
    if (pooled) fwd__hyper_in(d, &glob->mat[W_HYPER_HEAD], glob->vec[B_HYPER_HEAD], glob->vec[W_HYPER_HEAD_SCALE], 0);
    if (chain) fwd__pick(d, d->x, d->state, 1, hp->n_embd, hp->n_embd, 0, 0);
    if (low) fwd__enter_streams(d, glob->vec[W_HC_OUT_NORM], &glob->mat[W_HC_OUT_DOWN], &glob->mat[W_HC_OUT_UP], NULL);
    else fwd__enter(d, &glob->vec[W_OUTPUT_NORM]);
    f->hidden = d->in;
    f->state = chain ? d->state : f->hidden;
    if (ahead && !watched) d->rows = DEV_OUT;
    if (f->gives == FWD_LOGITS) fwd__head(d, &glob->mat[W_OUTPUT], f->n_vocab, watched);
    if (here) fwd__heads_behind(f, d, watched);
    else if (ahead || f->vectors) {
        f->plan.kept[0] = ahead ? f->state : f->hidden;
        f->plan.kept[1] = chain && f->vectors ? f->hidden : 0;
        f->plan.kept_rows = ahead ? DEV_ALL : DEV_OUT;
    }
}

/* Writes the list of f->m. */
static void fwd__plan(fwd *f) {
    fwd_draft d = {.to = &f->plan, .m = f->m, .kv = f->kv, .rows = DEV_ALL, .il = -1};
    dev_plan_begin(&f->plan, ops_kinds);
    f->plan.low_kind = OPS_LOW;
    f->plan.on = f->m->gpus;
    fwd__buffers(&d);
    const bool encodes = f->gives == FWD_ENCODE || (f->m->hp.n_enc && f->gives == FWD_HIDDEN);
    (f->gives == FWD_GUESS ? fwd__plan_guess : f->gives == FWD_KEEP ? fwd__plan_keep : encodes ? fwd__plan_encoder
                                                                                                 : fwd__plan_model)(f, &d);
    f->plan.result = f->gives == FWD_HIDDEN ? f->hidden : f->gives & (FWD_KEEP | FWD_ENCODE) ? 0 : d.logits;
}

/* --- a model's list with its memory --- */

/* Of a row in a batch. */
enum { FWD_ROW_BYTES = 4 * sizeof(int32_t) + sizeof(k_turn) + 1 + 2 * sizeof(void *) + sizeof(float *) };

/* The list and its memory go. */
static void fwd__drop(fwd *f) {
    dev_gpu_free(&f->plan);
    dev_plan_free(&f->plan);
}

/* The list and its memory, allocated or counted. */
static void fwd__fill(fwd *f, int n_threads, bool counting) {
    fwd__drop(f);
    fwd__plan(f);
    dev_plan_fill(&f->plan, n_threads, f->max_rows, f->max_out, counting);
    dev_gpu_fill(&f->plan);
    f->logits = f->plan.buf[f->plan.n_buf - 1].a.x;
    f->bytes = f->plan.n_bytes + (size_t)f->max_rows * FWD_ROW_BYTES + (f->keep ? f->keep->bytes : 0) +
               (f->encode ? f->encode->bytes : 0);
}

/* Bytes that fwd_new() allocates, of which the logits are max_out x V floats. */
static size_t fwd_bytes(const model *m, int n_threads, int max_rows, int max_out, unsigned gives) {
    fwd f = {.m = m, .max_rows = max_rows, .max_out = max_out, .gives = gives, .n_vocab = m->hp.n_vocab,
             .apart = m->hp.n_nextn && m->gpus};
    fwd__fill(&f, n_threads, true);
    fwd__drop(&f);
    if (f.apart && gives == FWD_LOGITS) f.bytes += fwd_bytes(m, n_threads, max_rows, max_out, FWD_KEEP);
    if (m->hp.n_enc && gives == FWD_LOGITS) f.bytes += fwd_bytes(m, n_threads, max_rows, 1, FWD_ENCODE);
    return f.bytes;
}

/* The list of draft head k of m, or of the one that assists it, before it has memory. */
static fwd fwd__head_of(const model *m, int n_seqs, int k) {
    return (fwd){.m = m->assist ? m->assist : m, .of = m->assist ? m : NULL, .max_rows = n_seqs * (k + 1), .max_out = n_seqs,
                 .gives = FWD_GUESS, .head = k, .n_vocab = m->hp.n_vocab};
}

/* Draft heads of m that guess. */
static int fwd_n_heads(const model *m) { return m->assist ? 1 : m->hp.n_nextn; }

/* Bytes that fwd_new_head() allocates. */
static size_t fwd_head_bytes(const model *m, int n_threads, int n_seqs, int k) {
    fwd f = fwd__head_of(m, n_seqs, k);
    fwd__fill(&f, n_threads, true);
    fwd__drop(&f);
    return f.bytes;
}

static void fwd__gpu_needs_of(fwd f, dev_gpu_needs *to) {
    fwd__fill(&f, 1, true);
    dev_gpu_needs_of(&f.plan, to);
    fwd__drop(&f);
}

/* Adds what list f of a draft head would take on GPUs, its layers and the output matrix to `weights`; false: they have no kernels
 * for it. */
static bool fwd__head_needs(fwd f, uint64_t *each, uint64_t *weights) {
    const int     layers = f.m->hp.n_layer + f.m->hp.n_nextn;
    dev_gpu_needs of = {.layer = mem_new((size_t)layers, sizeof *of.layer)};
    fwd__gpu_needs_of(f, &of);
    *each += of.each;
    for (int il = 0; il < layers; il++) *weights += of.layer[il];
    mem_free(of.layer);
    return of.first == 0;
}

/* What GPUs would take beside the cache; to->layer has space for each layer. Draft heads count as a part of the last layer, an
 * assistant as a part of the last one whose keys and values it reads. False: they have no kernels for them, and they are left
 * out. */
static bool fwd_gpu_needs(const model *m, int max_rows, int max_out, unsigned gives, dev_gpu_needs *to) {
    const fwd f = {.m = m, .max_rows = max_rows, .max_out = max_out, .gives = gives, .n_vocab = m->hp.n_vocab, .apart = true};
    const int n_seqs = min_int(max_rows, max_out), n = fwd_n_heads(m);
    int       first, last = m->hp.n_layer - 1;
    uint64_t  each = 0, weights = 0, none = 0;
    bool      can = true;
    fwd__gpu_needs_of(f, to);
    if (m->assist) model_lent(m, &first, &last);
    for (int k = 0; k < n; k++) {
        can = fwd__head_needs(fwd__head_of(m, n_seqs, k), &each, &weights) && can;
        if (!m->assist && !m->layer[m->hp.n_layer + k].mat[W_NEXTN_OUTPUT].data)   /* the model's, which is counted */
            weights -= dev_gpu_mat_bytes(&m->glob.mat[W_OUTPUT]);
    }
    if (m->hp.n_nextn) {
        fwd keep = f;
        keep.gives = FWD_KEEP;
        can = fwd__head_needs(keep, &each, &none) && can;
    }
    if (can) to->each += each, to->layer[last] += weights;
    return can;
}

/* Bytes for each row of a step. */
static size_t fwd_row_bytes(const model *m) { return fwd_bytes(m, 1, 2, 1, FWD_HIDDEN) - fwd_bytes(m, 1, 1, 1, FWD_HIDDEN); }

/* The list that keeps keys and values of the draft head for the rows of f. */
static fwd *fwd__keep_new(const fwd *f) {
    fwd *k = mem_new(1, sizeof *k);
    *k = (fwd){.m = f->m, .kv = f->kv, .max_rows = f->max_rows, .max_out = f->max_out, .gives = FWD_KEEP, .n_vocab = f->n_vocab,
               .run = {.p = f->run.p, .plan = &k->plan, .batch = &f->batch, .adapters = f->adapters}};
    fwd__fill(k, f->run.p->n, false);
    return k;
}

/* Memory for a list of this kind. */
static fwd *fwd__make(fwd kind, kv_cache *kv, pool *p) {
    fwd         *f = mem_new(1, sizeof *f);
    const model *m = kind.m;
    const int    max_rows = kind.max_rows;
    *f = kind;
    f->kv = kv;
    f->run = (dev_run){.p = p, .plan = &f->plan, .batch = &f->batch};
    f->batch.token = mem_new((size_t)max_rows, sizeof *f->batch.token);
    f->batch.pos = mem_new((size_t)max_rows, sizeof *f->batch.pos);
    f->batch.seq = mem_new((size_t)max_rows, sizeof *f->batch.seq);
    f->batch.want = mem_new((size_t)max_rows, sizeof *f->batch.want);
    f->batch.turn = mem_new((size_t)max_rows, sizeof *f->batch.turn);
    f->batch.source = mem_new((size_t)max_rows, sizeof *f->batch.source);
    f->from = mem_new((size_t)max_rows, sizeof *f->from);
    f->run.adapters = f->adapters = mem_new((size_t)max_rows, sizeof *f->adapters);
    f->before = mem_new((size_t)max_rows, sizeof *f->before);
    f->prior = (dev_before){.first = f->before, .by_row = f->gives == FWD_GUESS};
    f->apart = m->hp.n_nextn && m->gpus;
    fwd__fill(f, p->n, false);
    if (f->apart && f->gives == FWD_LOGITS) f->bytes += (f->keep = fwd__keep_new(f))->bytes;
    if (m->hp.n_enc && f->gives == FWD_LOGITS) {
        const fwd of = {.m = m, .max_rows = max_rows, .max_out = 1, .gives = FWD_ENCODE, .n_vocab = f->n_vocab};
        f->encode = fwd__make(of, kv, p);
        f->bytes += f->encode->bytes;
    }
    return f;
}

/* max_rows: most rows of a step; max_out: most of them that ask for what the list gives, FWD_LOGITS or FWD_HIDDEN. */
static fwd *fwd_new(const model *m, kv_cache *kv, pool *p, int max_rows, int max_out, unsigned gives) {
    return fwd__make((fwd){.m = m, .max_rows = max_rows, .max_out = max_out, .gives = gives, .n_vocab = m->hp.n_vocab}, kv, p);
}

/* The list of draft head k of m, which gives its logits: guess k + 1 of up to n_seqs sequences, or with one head every guess. */
static fwd *fwd_new_head(const model *m, kv_cache *kv, pool *p, int n_seqs, int k) {
    return fwd__make(fwd__head_of(m, n_seqs, k), kv, p);
}

/* f may be NULL. */
static void fwd_free(fwd *f) {
    if (!f) return;
    fwd_free(f->keep);
    fwd_free(f->encode);
    const dev_batch *b = &f->batch;
    fwd__drop(f);
    dev_run_free(&f->run);
    mem_free_all(b->token, b->pos, b->seq, b->want, b->table, b->table_at, b->turn, b->source, f->from, f->adapters, f->before,
                 f);
}

/* From now on only the first n tokens have logits. */
static void fwd_trim(fwd *f, int n) {
    if (n >= f->n_vocab) return;
    f->n_vocab = n;
    fwd__fill(f, f->run.p->n, false);
}

/* From now on rows that ask for logits have hidden values after a step, too. A CPU keeps them anyway. */
static void fwd_keep_hidden(fwd *f) {
    if (f->vectors || f->gives != FWD_LOGITS || !f->m->gpus) return;
    f->vectors = true;
    fwd__fill(f, f->run.p->n, false);
}

/* From now on the tap, which must stay, sees the products of every step; NULL: nobody does. */
static void fwd_watch(fwd *f, const dev_tap *tap) {
    f->run.tap = tap;
    fwd__fill(f, f->run.p->n, false);
}

/* --- a step --- */

/* The batch of the next step is empty. */
static void fwd_begin(fwd *f) {
    f->batch.n = f->batch.n_out = f->batch.n_seq = 0;
    if (f->encode) fwd_begin(f->encode);
}

/* Its rows so far, those of the encoder among them. */
static int fwd_rows(const fwd *f) { return f->batch.n + (f->encode ? f->encode->batch.n : 0); }

/* One more row; `want` is what the list gives, or 0, which it is for rows of an encoder; where that is logits, FWD_ID too. The
 * sequence stays until the step has run, its positions up to pos are reserved by then. */
static void fwd_add(fwd *f, kv_seq *seq, int32_t token, int pos, unsigned want) {
    if (f->encode && pos < seq->source) f = f->encode, want = 0;
    dev_batch     *b = &f->batch;
    const unsigned gives = f->gives == FWD_GUESS ? FWD_LOGITS : f->gives | (f->gives == FWD_LOGITS ? FWD_ID : 0);
    ASSERT(b->n < f->max_rows && token >= 0 && token < f->m->hp.n_vocab && !(want & ~gives));
    if (!b->n_seq || f->from[b->n_seq - 1] != seq) {
        f->before[b->n_seq] = NULL;
        f->adapters[b->n_seq] = seq->adapters;
        f->from[b->n_seq++] = seq;
    }
    if (f->gives == FWD_GUESS) f->before[b->n] = NULL;
    b->token[b->n] = token;
    b->pos[b->n] = pos;
    b->seq[b->n] = b->n_seq - 1;
    b->source[b->n_seq - 1] = seq->source;
    b->want[b->n++] = (uint8_t)want;
    b->n_out += want != 0;
}

/* Where a draft head is used: h [D], which stays until the step has run, is the state of the position before the first row of the
 * sequence that was added last, in a list of a head of the row that was added last. Without it such a row reads zeros. */
static void fwd_before(fwd *f, const float *h) {
    f->before[(f->gives == FWD_GUESS ? f->batch.n : f->batch.n_seq) - 1] = h;
}

/* What the list gives: FWD_LOGITS, FWD_HIDDEN or FWD_GUESS. */
static unsigned fwd_gives(const fwd *f) { return f->gives; }

/* Adds what a step with this batch costs. */
static void fwd_cost(const fwd *f, dev_cost *c) { dev_plan_cost(&f->plan, &f->batch, c); }

/* The block tables of the batch's sequences. */
static void fwd__write_tables(fwd *f) {
    dev_batch   *b = &f->batch;
    const size_t n_tables = (size_t)b->n_seq * (size_t)f->kv->n_group;
    size_t       at = 0;
    b->n_group = f->kv->n_group;
    if (n_tables >= f->table_at_cap) b->table_at = mem_grow(b->table_at, f->table_at_cap = 2 * n_tables + 2, sizeof *b->table_at);
    for (size_t i = 0; i < n_tables; i++) {
        const int32_t *table;
        const size_t   n = (size_t)kv_table(f->from[i / (size_t)b->n_group], (int)(i % (size_t)b->n_group), &table);
        if (at + n > f->table_cap) b->table = mem_grow(b->table, f->table_cap = 2 * (at + n), sizeof *b->table);
        if (n) memcpy(b->table + at, table, n * sizeof *table);
        b->table_at[i] = at;
        at += n;
    }
    b->table_at[n_tables] = at;
}

/* Which states the step reads and writes. */
static void fwd__write_states(fwd *f) {
    dev_batch *b = &f->batch;
    for (int i = 0, r = 0; kv_has_states(f->kv) && f->gives != FWD_GUESS && i < b->n_seq; i++) {
        const int first = r;
        for (; r < b->n && b->seq[r] == i; r++) ASSERT(b->pos[r] == b->pos[first] + r - first);
        b->turn[i] = kv_advance(f->from[i], b->pos[first], b->pos[first] + r - first);
    }
}

/* After a step of the model. False: an interrupt came. */
static bool fwd__keep_step(fwd *f) {
    const dev_acts *h = &f->plan.buf[f->state].a;
    f->keep->prior = (dev_before){.first = f->before, .rows = h->x, .ld = h->ldx};
    const bool ok = dev_step(&f->keep->run);
    if (ok) dev_gpu_step(&f->keep->run);
    return ok;
}

/* Runs the batch: f->logits [n_out, n_vocab], fwd_ids() or the rows of fwd_hidden() are then those of the rows that asked, in
 * their order, valid until the next step. False: an interrupt came. */
static bool fwd_step(fwd *f) {
    if (f->encode && f->encode->batch.n && !fwd_step(f->encode)) return false;
    if (!f->batch.n) return true;
    for (int i = 0; i < f->batch.n; i++) ASSERT(f->batch.pos[i] < f->from[f->batch.seq[i]]->n);
    fwd__write_tables(f);
    fwd__write_states(f);
    kv_flush(f->kv);
    bool ok = dev_step(&f->run);
    if (ok) dev_gpu_step(&f->run);
    if (ok && f->keep) ok = fwd__keep_step(f);
    for (int i = 0; !ok && f->gives != FWD_GUESS && i < f->batch.n_seq; i++) kv_spoil(f->from[i]);
    return ok;
}

/* The id of the largest logit of each row that asked, [n_out]; -1: a logit is not finite. NULL unless every row asked for FWD_ID
 * and a GPU computed the head: then f->logits holds the logits. */
static const int32_t *fwd_ids(const fwd *f) { return f->run.ids; }

/* After a step that gave numbers alone: f->logits now hold theirs. */
static void fwd_fetch(fwd *f) { dev_gpu_fetch(&f->run); }

static const float *fwd__kept_row(const fwd *f, dev_buf b, int i) {
    return f->plan.buf[b].a.x + (size_t)i * f->plan.buf[b].a.ldx;
}

/* The hidden values [D] of the row that was number i among those that asked; where a draft head is used, of row i of the step. */
static const float *fwd_hidden(const fwd *f, int i) { return fwd__kept_row(f, f->hidden, i); }

/* What a draft head reads of row i of the step of a model that has one, or of the row that was number i among those that asked in
 * the step of a head: [D]. */
static const float *fwd_state(const fwd *f, int i) { return fwd__kept_row(f, f->state, i); }
