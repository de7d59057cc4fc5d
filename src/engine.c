/* ===== [engine] a model opened to run =====
 * A model with its threads, its cache and the scratch of its steps, for one sequence or for many; a count of what a run
 * needs of memory, so that the cache gets the rest; steps, with a line of progress where they take long. Errors come
 * back in err_t. An interrupt ends a run early and is not an error here.
 * Public: engine_opts, engine_defaults, engine_plan, engine_open, engine_close, engine_save, engine_pack,
 * engine_put_layout, engine_gpu_layers, engine_need, engine_need_weights, engine_need_steps, engine_threads, engine_step,
 * engine_read, engine_alive, engine_finite, meter_start, meter_step, meter_stop.
 * Opens: engine, engine_meter, engine_needs, engine_opts, engine_plan, engine_reader. */

typedef struct {
    int         n_ctx;                                /* positions of a sequence; 0: the model's own, -1: as the request needs */
    int         n_batch;                              /* rows of prompts in a step */
    int         n_threads;                            /* 0: as many CPUs as the process may use */
    const char *repack;                               /* auto, on, off */
    const char *read_ahead;                           /* auto, on, off: of experts that are larger than memory */
    bool        as_bf16;                              /* f16 matrices are multiplied as bf16 */
    int         n_gpu_layers;                         /* last layers that run on GPUs; -1: as many as fit, INT_MAX: all */
    int         device;                               /* on this one; -1: on the first that holds them, or on several */
    const char *same;                                 /* on, off, auto: whether what GPUs compute must have the CPU's bits */
    lora_opts   lora;                                 /* adapters */
    rope_opts   rope;
} engine_opts;

static const engine_opts engine_defaults = {
    .n_ctx = -1, .n_batch = LLMRUN_STRESS ? 1 : 512, .repack = "auto", .read_ahead = "auto", .n_gpu_layers = -1, .device = -1,
    .same = "auto",
    .rope = {.yarn_ext = -1, .yarn_attn = -1, .yarn_fast = -1, .yarn_slow = -1},
};

typedef struct engine {
    const gguf_file *g;                               /* the model's file */
    const gguf_file *head_g;                          /* that of its draft head, where it is another one; else NULL */
    const tok_vocab *v;                               /* its vocabulary; NULL where no text is read or written */
    model     m;
    lora     *adapters;                               /* of m; NULL: none */
    pool     *p;                                      /* threads; those of another engine where shares_pool is set */
    bool      shares_pool;
    kv_cache *kv;
    store    *kept;                                   /* prompt cache on disk, NULL: none */
    fwd      *f;                                      /* steps and their scratch */
    fwd     **head;                                   /* [n_head] steps of each draft head */
    int       n_head;                                 /* draft heads; 0: there is none, or it is not used */
    float    *before;                                 /* [D] state, for a draft head, of the last row of engine_read() */
    bool      whole;                                  /* a text is computed in one step */
    int       extra;                                  /* tokens that a text for an encoder and its answer have beside their own */
    int       n_ctx;                                  /* positions of a sequence */
    int       n_batch;                                /* rows of a step */
    int       chunk;                                  /* rows of prompts in a step */
    int       max_out;                                /* rows of a step that may have logits */
    dev_gpus  assist_on;                              /* of an assistant: the GPU with the keys and values that it reads */
    int       gpu_slots;                              /* most recurrent states that the memory of its GPUs holds; 0: no bound */
    bool      may_pack;                               /* engine_pack() has something left to pack */
    int       pack_worth;                             /* tokens from which packing repays itself; 0: not computed yet */
    size_t    pack_bytes;                             /* bytes of weights packed after each token */
    double    t_start;                                /* clock_now() when the program started */
    double    t_open;                                 /* seconds until the model was open */
} engine;

/* Frees all of it but the file and the vocabulary, which are the caller's. */
static void engine_close(engine *eng) {
    if (!eng) return;
    fwd_free(eng->f);
    for (int k = 0; k < eng->n_head; k++) fwd_free(eng->head[k]);
    mem_free_all(eng->head, eng->before);
    store_close(eng->kept);
    kv_free(eng->kv);
    if (!eng->shares_pool) pool_free(eng->p);
    dev_gpus *on = eng->m.gpus;
    model_close(&eng->m);
    lora_close(eng->adapters);
    dev_gpus_close(on);
    mem_free(eng);
}

enum {
    ENGINE_SCRATCH = 256 << 20,                       /* most bytes of a step's scratch */
    ENGINE_PACK_WORTH = 160,                          /* tokens of an answer from which packing the weights repays itself */
    ENGINE_PACK_STEPS = 16,                           /* tokens over which packing is spread */
    ENGINE_SLOW_WORTH = 4,                            /* both where many weights are slow in the file's layout */
    ENGINE_SLOW_STEPS = 2,
    ENGINE_SLOW_SHARE = 4,                            /* many: this fraction of them or more, 1 / 4 */
    ENGINE_PACK_PIECE = 16 << 20,                     /* bytes of weights packed between two progress lines */
    ENGINE_SHARED = 4 << 20,                          /* bytes of weights from which a second engine uses more than one thread */
    ENGINE_GPU_SPARE = 64 << 20,                      /* bytes of a GPU that stay free */
    ENGINE_GPU_STATES = 4,                            /* snapshots of states may take 1 / 4 of what is left there */
    ENGINE_LOGIT_BYTES = 64 << 20,                    /* bytes of logits where a plan leaves their rows open */
};

/* Opens the prompt cache on disk. Its identity has all that changes keys and values beside the model. */
static void engine__keep(engine *eng, const engine_opts *fo, const kv_opts *ko) {
    const rope_opts *r = &fo->rope;
    str              about = {0};
    str_fmt(&about, "rope %s %.9g %.9g %d", r->scaling ? r->scaling : "-", (double)r->factor, (double)r->base, r->orig_ctx);
    str_fmt(&about, " %.9g %.9g", (double)r->yarn_ext, (double)r->yarn_attn);
    str_fmt(&about, " %.9g %.9g", (double)r->yarn_fast, (double)r->yarn_slow);
    str_fmt(&about, "%s%s", ops_exact() ? "" : " blas", model_has_bf16(&eng->m) ? " bf16" : "");
    if (*eng->m.rope_set) str_fmt(&about, " %s", eng->m.rope_set);
    if (eng->head_g) str_fmt(&about, " head %016llx", GGUF_U(gguf_fingerprint(eng->head_g)));
    dev_gpus_order(eng->m.gpus, &about);
    kv_share(eng->kv);
    eng->kept = store_open(eng->kv, ko->cache, gguf_fingerprint(eng->g), about.p, eng->m.hp.n_vocab);
    mem_free(about.p);
}

/* Writes what the cache holds to the prompt cache on disk. */
static bool engine_save(engine *eng, const kv_opts *ko, err_t *e) {
    return !eng->kept || ko->cache_ro || store_save(eng->kept, ko->cache_bytes, e);
}

/* Packs all matrices. */
static void engine__pack_all(engine *eng) {
    const uint64_t all = model_sizes(&eng->m).packed + 1;
    for (bool more = true; more && !g_interrupt; more = model_pack(&eng->m, eng->p, ENGINE_PACK_PIECE))
        progress_show("packing the weights: %.0f %%", 100.0 * (double)eng->m.packs_used / (double)all);
    progress_clear();
}

/* Layers that GPUs run; -1: none is used. */
static int engine_gpu_layers(const engine *eng) { return eng->m.gpus ? eng->m.hp.n_layer - eng->m.gpus->from[0] : -1; }

/* The layer after the last one that GPU number i of a model of n layers runs; on->from[i] is the first. */
static int engine__gpu_end(const dev_gpus *on, int i, int n) { return i + 1 < on->n ? on->from[i + 1] : n; }

/* Logs the engine's sizes, for -v. */
static void engine__log(const engine *eng, const engine_opts *fo) {
    const kv_opts *o = &eng->kv->opts;
    log_info("model       %s: %s, %d layers, a context of %d tokens (trained with %d)", eng->g->path, eng->m.hp.desc->name,
             eng->m.hp.n_layer, eng->n_ctx, eng->m.hp.n_ctx_train);
    log_info("cache       keys %s, values %s, blocks of %d tokens", k_types[o->type_k].name,
             eng->m.hp.layer[0].rank ? "a part of them" : k_types[o->type_v].name, o->block);
    if (kv_has_states(eng->kv)) {
        const dev_blocks *mem = &eng->kv->group[eng->kv->states].mem;
        log_info("states      up to %d recurrent states of %.1f MiB, snapshots among them", mem->max_blocks,
                 (double)mem->block_bytes / 1048576);
    }
    str nodes = {0};
    pool_says(eng->p, &nodes);
    char tiles[32] = "";
    if (k_tile_columns()) snprintf(tiles, sizeof tiles, ", tiles of %d columns", k_tile_columns());
    log_info("threads     %d%s%s%s, %s kernels%s, up to %d rows in a step", eng->p->n, nodes.n ? " (" : "",
             nodes.n ? nodes.p : "", nodes.n ? ")" : "", k_level_name(), tiles, eng->n_batch);
    str_drop(&nodes);
    const dev_gpus *on = eng->m.gpus;
    for (int i = 0; on && i < on->n; i++)
        log_info("GPU %-7d layers %d to %d of %d: %s, %s (--same %s)", dev_gpus_about(on, i)->number, on->from[i] + 1,
                 engine__gpu_end(on, i, eng->m.hp.n_layer), eng->m.hp.n_layer, dev_gpus_about(on, i)->name,
                 on->tensor ? "floats by tensor cores" : "the bits of the CPU", fo->same);
}

/* How many weights are packed, for -v. */
static void engine_put_layout(const engine *eng, str *s) {
    const double mib = (double)eng->m.packs_used / 1048576;
    if (eng->m.packs_used) str_fmt(s, "llmrun: layout      %.1f MiB of weights packed, the others as in the file\n", mib);
    else str_put(s, "llmrun: layout      all weights as in the file\n");
}

/* --repack auto, and not at the scalar level, which gains nothing by it. */
static bool engine__may_pack(const engine_opts *fo) {
    return strcmp(fo->repack, "auto") == 0 && strcmp(k_level_name(), "scalar") != 0;
}

/* Decides when packing repays itself and how much is packed between two tokens: nothing where memory is short, since
 * pages of the file can be dropped and read again, packed weights cannot. */
static void engine__plan_pack(engine *eng) {
    const model_bytes b = model_sizes(&eng->m);
    const bool        slow = b.slow > b.file / ENGINE_SLOW_SHARE;
    eng->pack_worth = slow ? ENGINE_SLOW_WORTH : ENGINE_PACK_WORTH;
    eng->pack_bytes = b.packed < host_memory() / 4 * 3 ? (size_t)b.file / (slow ? ENGINE_SLOW_STEPS : ENGINE_PACK_STEPS) + 1 : 0;
}

/* Packs some more matrices where the run is long enough to repay it. n: tokens of the whole run, -1: unknown, then
 * packing begins after half as many tokens as would repay it; passed: tokens so far; fresh: those of the last step,
 * after which this is called. True: the last matrix has been packed now. */
static bool engine_pack(engine *eng, int64_t n, int64_t passed, int64_t fresh) {
    if (!eng->may_pack) return false;
    if (!eng->pack_worth) engine__plan_pack(eng);
    if (n < 0 ? passed < eng->pack_worth / 2 : n < eng->pack_worth) return false;
    const size_t most = fresh > ENGINE_PACK_STEPS ? SIZE_MAX : fresh > 1 ? eng->pack_bytes * (size_t)fresh : eng->pack_bytes;
    eng->may_pack = eng->pack_bytes && model_pack(&eng->m, eng->p, most);
    return !eng->may_pack && eng->m.packs_used;
}

/* --- what a run needs of memory, so that the cache gets the rest --- */

enum {
    ENGINE_NEEDS = 14,
    ENGINE_SPARE = 256 << 20,                         /* bytes that a cache without a bound leaves free, */
    ENGINE_SHARE = 8,                                 /* at most 1 / 8 of memory; the cache takes at least as much */
};

/* Memory that a run takes beside the cache. */
typedef struct {
    struct {
        const char *what;                             /* for the table under -v */
        uint64_t    bytes;
    }        row[ENGINE_NEEDS];
    int      n;                                       /* rows */
    uint64_t token_bytes;                             /* beside the cache, for each token in it */
} engine_needs;

/* Adds a row; what: its name in the table, which is kept. */
static void engine_need(engine_needs *t, const char *what, uint64_t n_bytes) {
    ASSERT(t->n < ENGINE_NEEDS);
    t->row[t->n].what = what;
    t->row[t->n++].bytes = n_bytes;
}

static uint64_t engine__need_all(const engine_needs *t) {
    uint64_t sum = 0;
    for (int i = 0; i < t->n; i++) sum += t->row[i].bytes;
    return sum;
}

/* Whether the weights may be packed in this run. */
static bool engine__packs(const model *m, const engine_opts *fo) {
    return strcmp(fo->repack, "on") == 0 || (engine__may_pack(fo) && model_sizes(m).packed < host_memory() / 4 * 3);
}

/* Adds what a model keeps in memory: pages of its file that stay in use, and packed weights. */
static void engine_need_weights(engine_needs *t, const model *m, const engine_opts *fo, const char *kept, const char *packed) {
    const model_bytes b = model_sizes(m);
    const bool        packs = engine__packs(m, fo);
    const uint64_t    file = m->g->n_bytes + (m->head_g ? m->head_g->n_bytes : 0);
    engine_need(t, kept, file - (packs ? min_u64(b.given, file) : 0));
    engine_need(t, packed, packs ? max_u64(b.packed, b.given) : 0);
}

/* Adds what its steps of n_rows rows take, n_out of them with logits, and a sampler with a row of logits for each of
 * n_seqs sequences. what: names of the three rows. */
static void engine_need_steps(engine_needs *t, const model *m, int n_threads, int n_rows, int n_out, int n_seqs,
                              const char *const what[3]) {
    const uint64_t logit = sizeof(float) * (uint64_t)m->hp.n_vocab, logits = logit * (uint64_t)n_out;
    engine_need(t, what[0], fwd_bytes(m, n_threads, n_rows, n_out, FWD_LOGITS) - logits);
    engine_need(t, what[1], logits);
    engine_need(t, what[2], (samp_bytes(m->hp.n_vocab, samp_defaults.repeat_last_n) + logit) * (uint64_t)n_seqs);
}

/* Bytes for the keys and values of a cache without a bound, at `token` bytes for each token, where `all` bytes of
 * memory are free: what the other needs and a reserve leave, at least all / ENGINE_SHARE; 0: no bound. */
static uint64_t engine__cache_bytes(const engine_needs *t, uint64_t all, uint64_t token) {
    if (all == UINT64_MAX) return 0;
    const uint64_t taken = engine__need_all(t) + min_u64(all / ENGINE_SHARE, ENGINE_SPARE), left = all > taken ? all - taken : 0;
    const uint64_t each = max_u64(token + t->token_bytes, 1);         /* 0: all layers have states */
    return max_u64(left / each * token, all / ENGINE_SHARE);
}

/* Logs the table of a run's memory, for -v. */
static void engine__log_needs(const engine *eng, const engine_needs *t, uint64_t all) {
    str s = {0};
    if (g_log_level < LOG_VERBOSE) return;
    str_put(&s, "llmrun: memory      ");
    if (all == UINT64_MAX) str_put(&s, "no limit known");
    else str_fmt(&s, "%.1f MiB left", (double)all / 1048576);
    for (int i = 0; i < t->n; i++)
        if (t->row[i].bytes) str_fmt(&s, ", %s %.1f", t->row[i].what, (double)t->row[i].bytes / 1048576);
    str_fmt(&s, ", cache up to %.1f\n", (double)kv_bytes_most(eng->kv) / 1048576);
    log_text(str_bytes(&s));
    str_drop(&s);
}

/* --- opening --- */

typedef enum {
    ENGINE_PACK_ON,                                   /* weights are packed where --repack on asks for it */
    ENGINE_PACK_NOW,                                  /* --repack auto: all of them now, for a run that will be long */
    ENGINE_PACK_LATER,                                /* --repack auto: between tokens, once that repays itself: engine_pack() */
} engine_packing;

/* What a run asks of its engine; the options of the command say the rest. Memory may cut n_ctx and n_rows. */
typedef struct {
    int                 n_ctx;                        /* positions of a sequence, whatever the options say; 0: as they say */
    int64_t             n_need;                       /* positions that one takes at most; 0: unknown */
    int                 n_seqs;                       /* sequences at once; 0: as many as a step covers, one after the other */
    int                 n_rows;                       /* rows of a step; 0: as the options say */
    int                 n_out;                        /* rows of a step with logits; 0: as many as ENGINE_LOGIT_BYTES hold */
    bool                hidden;                       /* rows ask for hidden values, not for logits; every row of a step may */
    bool                pairs;                        /* models that read texts as a whole may answer them; else none may */
    int                 n_masks;                      /* decoding by diffusion: masks of a sequence that get a token in a step; 0:
                                                       * all of its context; below 0: all of an answer of -n_masks tokens, or one
                                                       * block, as the model was trained */
    bool                vectors;                      /* the same: texts of up to -b tokens may ask for vectors beside answers */
    bool                head;                         /* the draft head, if the model has one, guesses for each sequence */
    const gguf_file    *head_file;                    /* a file with its draft head alone; NULL: it is in the model's */
    bool                share;                        /* of equal blocks; the cache may take what memory the run leaves */
    engine_packing      pack;
    const engine       *host;                         /* the engine whose threads it uses, NULL: it has its own */
    const engine_needs *beside;                       /* what others of this run need of memory, NULL: nothing */
} engine_plan;

/* The context: what the plan or the options ask for, else what the run needs, up to the model's own. */
static int engine__context(const engine *eng, const engine_opts *fo, const engine_plan *plan) {
    const int train = eng->m.hp.n_ctx_train;
    if (plan->n_ctx) return plan->n_ctx;
    if (fo->n_ctx > train && model_holds(&eng->m, fo->n_ctx, &(err_t){0}))
        log_warn("a context of %d tokens; the model was trained with %d", fo->n_ctx, train);
    if (fo->n_ctx > 0) return fo->n_ctx;
    return fo->n_ctx < 0 && plan->n_need > 0 ? (int)min_i64(plan->n_need + eng->extra, train) : train;
}

/* Sizes of context and step, and what the plan left open. */
static void engine__size(engine *eng, const engine_opts *fo, engine_plan *plan) {
    const size_t out = ENGINE_LOGIT_BYTES / sizeof(float) / (size_t)eng->m.hp.n_vocab;
    eng->whole = model_whole(&eng->m);
    eng->extra = eng->m.hp.n_enc ? 2 : 0;
    eng->n_ctx = engine__context(eng, fo, plan);
    eng->n_batch = plan->n_rows ? plan->n_rows : fo->n_batch;
    if (plan->n_seqs <= 1 && plan->n_need > 0) eng->n_batch = (int)min_i64(eng->n_batch, plan->n_need);
    if (eng->whole) eng->n_batch = max_int(eng->n_batch, eng->n_ctx + (eng->m.hp.n_enc ? plan->n_seqs : 0));
    const size_t rows = eng->whole ? SIZE_MAX : max_size(ENGINE_SCRATCH / fwd_row_bytes(&eng->m), 1);
    while ((size_t)eng->n_batch > rows) eng->n_batch /= 2;
    if (!plan->n_seqs) plan->n_seqs = eng->n_batch / eng->n_ctx + 2;
    if (plan->n_masks < 0) plan->n_masks = eng->m.hp.shifts ? -plan->n_masks : DIFFUSE_BLOCK;
    if (!plan->n_masks || plan->n_masks > eng->n_ctx) plan->n_masks = eng->n_ctx;
    if (model_diffuses(&eng->m))                      /* of one sequence; of more, as many as ENGINE_LOGIT_BYTES hold */
        plan->n_out = (int)max_i64(max_i64(plan->n_masks, plan->vectors ? min_int(fo->n_batch, eng->n_ctx) : 0),
                                   min_i64((int64_t)plan->n_seqs * plan->n_masks, (int64_t)out));
    if (plan->hidden) plan->n_out = eng->n_batch;
    if (!plan->n_out) plan->n_out = (int)max_size(out, 1);
}

/* Threads of a run. */
static int engine_threads(const engine_opts *fo) { return fo->n_threads > 0 ? fo->n_threads : pool_default_threads(); }

/* All that the run needs of memory beside its cache. */
static engine_needs engine__needs(const engine *eng, const engine_opts *fo, const engine_plan *plan) {
    static const char *const steps[] = {"steps", "logits", "samplers"};
    engine_needs             t = {0};
    uint64_t                 heads = 0;
    const engine_needs      *beside = plan->beside;
    const int                n_threads = engine_threads(fo);
    engine_need_weights(&t, &eng->m, fo, "weights in the file", "packed weights");
    if (eng->adapters) engine_need(&t, "adapters", lora_bytes(eng->adapters));
    if (plan->hidden) engine_need(&t, steps[0], fwd_bytes(&eng->m, n_threads, eng->n_batch, eng->n_batch, FWD_HIDDEN));
    else engine_need_steps(&t, &eng->m, n_threads, eng->n_batch, min_int(plan->n_out, eng->n_batch), plan->n_seqs, steps);
    for (int k = 0; k < fwd_n_heads(&eng->m); k++) heads += fwd_head_bytes(&eng->m, n_threads, plan->n_seqs, k);
    if (heads) engine_need(&t, "draft head's steps", heads);
    for (int i = 0; beside && i < beside->n; i++) engine_need(&t, beside->row[i].what, beside->row[i].bytes);
    t.token_bytes = beside ? beside->token_bytes : 0;
    return t;
}

/* Whether memory can hold the recurrent state of one sequence. */
static bool engine__holds_state(const engine *eng, err_t *e) {
    const uint64_t need = kv_slot_bytes(&eng->m.hp), all = host_memory();
    return need <= all ||
           err_set(e, EXIT_RESOURCE, "%s: the recurrent state of a sequence takes %llu bytes, and %llu bytes of memory are left",
                   eng->g->path, (unsigned long long)need, (unsigned long long)all);
}

/* A cache for n_seqs sequences. Its own bound may cut the context and the rows. */
static bool engine__open_cache(engine *eng, const engine_opts *fo, const kv_opts *ko, const engine_plan *plan, err_t *e) {
    const int64_t each = ((int64_t)eng->n_ctx + ko->block - 1) / ko->block * ko->block;   /* positions, in whole blocks */
    const kv_load load = {.tokens = plan->n_seqs * each,
                          .seqs = plan->n_seqs,
                          .rows = eng->n_batch,
                          .gpus = eng->m.gpus,
                          .slots = eng->gpu_slots};
    int           rows;
    if (!engine__holds_state(eng, e) || !(eng->kv = kv_new(&eng->m.hp, ko, load, e))) return false;
    if (eng->adapters) eng->kv->adapters = eng->adapters->all;
    if (ko->cache) engine__keep(eng, fo, ko);
    if (plan->share && !eng->kept) kv_share(eng->kv);
    const int most = kv_most(eng->kv, &rows);
    if (most < eng->n_ctx) {
        log_info("the cache is bounded to %d tokens, the context with it", most);
        eng->n_ctx = most;
    }
    eng->n_batch = min_int(eng->n_batch, rows);
    if (plan->n_seqs == 1) eng->n_batch = min_int(eng->n_batch, eng->n_ctx);
    if (!eng->m.hp.causal) eng->n_ctx = min_int(eng->n_ctx, eng->n_batch);
    return true;
}

/* A quarter of what memory leaves to the cache is for states, more where the sequences that run need more, but no more
 * than half. */
static void engine__split_cache(const engine *eng, const engine_plan *plan, uint64_t all, kv_opts *o) {
    const uint64_t slot = kv_slot_bytes(&eng->m.hp), need = slot * ((uint64_t)plan->n_seqs + 2), half = all / 2;
    uint64_t       states = max_u64(need, all / 4);
    if (states > half) states = max_u64(half, slot);
    o->mem_bytes = all;
    if (!slot || !all || o->state_bytes) return;
    o->state_bytes = states;
    o->mem_bytes = all > states ? all - states : 1;
}

/* The same where the plan shares it: bounded by the memory that is left, unless the options bound it. */
static bool engine__open_shared(engine *eng, const engine_opts *fo, const kv_opts *ko, const engine_plan *plan, err_t *e) {
    const engine_needs needs = engine__needs(eng, fo, plan);
    const uint64_t     all = host_memory();
    const uint64_t     token = model_kv_bytes(&eng->m.hp, ko->type_k, ko->type_v);
    kv_opts            own = *ko;
    if (!own.mem_bytes) engine__split_cache(eng, plan, engine__cache_bytes(&needs, all, token), &own);
    if (LLMRUN_STRESS && !own.max_blocks) own.max_blocks = eng->n_ctx / own.block + 4;
    if (!engine__open_cache(eng, fo, &own, plan, e)) return false;
    engine__log_needs(eng, &needs, all);
    return true;
}

/* --- which layers GPUs run --- */

typedef struct {
    int       first;                                  /* layers [first, n_layer) are wanted there */
    int       n_layer;                                /* layers of the model */
    int       slots;                                  /* recurrent states of each layer that are counted */
    dev_gpu_needs needs;                              /* .layer with what the cache takes */
    bool     *begins;                                 /* [n_layer] whether a run of layers may begin there */
    bool      head;                                   /* there are kernels for the draft head, which goes with the last layer */
    uint64_t  has[DEV_GPUS];                          /* bytes of memory of each GPU that are free */
} engine_gpu_plan;

/* What layers [from, end) take on one GPU. */
static uint64_t engine__gpu_bytes(const engine_gpu_plan *f, int from, int end) {
    uint64_t n = from < end ? f->needs.each + ENGINE_GPU_SPARE : 0;
    for (int il = from; il < end; il++) n += f->needs.layer[il];
    return n;
}

/* Whether a layer from il on reads keys and values of one before it, or has its weights. */
static bool engine__shares(const engine *eng, int il) {
    if (eng->m.hp.n_loops > 1 && il && il < eng->m.hp.n_layer) return true;
    for (int i = il; i < eng->m.hp.n_layer; i++)
        if (i - eng->m.hp.layer[i].kv_back < il) return true;
    return false;
}

/* Whether an assistant reads keys and values of layers before il and from il on: it runs where all of them are. */
static bool engine__lends(const engine *eng, int il) {
    int first, last;
    if (!eng->m.assist) return false;
    model_lent(&eng->m, &first, &last);
    return first < il && il <= last;
}

/* An assistant runs where the keys and values are that it reads. */
static void engine__place_assistant(engine *eng) {
    const dev_gpus *on = eng->m.gpus;
    int             first, last;
    model_lent(&eng->m, &first, &last);
    const int i = dev_gpus_of(on, first);
    if (i < 0) return;
    eng->assist_on = (dev_gpus){.g = {on->g[i]}, .n = 1, .tensor = on->tensor};
    eng->m.assist->gpus = &eng->assist_on;
}

/* Recurrent states that a run needs: one for each sequence and two snapshots, or what the options allow. */
static int engine__gpu_slots(const engine *eng, const kv_opts *ko, const engine_plan *plan) {
    const size_t slot = kv_slot_bytes(&eng->m.hp);
    const int    n = plan->n_seqs + 2;
    return slot && ko->state_bytes ? (int)min_u64(ko->state_bytes / slot, (uint64_t)n) : n;
}

/* What n of the last layers would take, or -1: all of them; as many of these as GPUs have kernels for. */
static engine_gpu_plan engine__gpu_new(const engine *eng, const kv_opts *ko, const engine_plan *plan, int n) {
    const int     all = eng->m.hp.n_layer, n_out = min_int(plan->n_out, eng->n_batch);
    const int64_t positions = (int64_t)eng->n_ctx + ko->block;
    engine_gpu_plan    f = {.n_layer = all, .slots = engine__gpu_slots(eng, ko, plan)};
    f.needs.layer = mem_new((size_t)all, sizeof *f.needs.layer);
    f.begins = mem_new((size_t)all, sizeof *f.begins);
    f.head = fwd_gpu_needs(&eng->m, eng->n_batch, n_out, plan->hidden ? FWD_HIDDEN : FWD_LOGITS, &f.needs);
    for (int il = 0; il < all; il++) {
        f.needs.layer[il] += (uint64_t)f.slots * kv_state_bytes(&eng->m.hp.layer[il]);
        f.needs.layer[il] += (uint64_t)plan->n_seqs *
                             model_kv_bytes_of(&eng->m, il, ko->type_k, ko->type_v, positions, eng->n_batch);
        f.begins[il] = !engine__shares(eng, il) && !engine__lends(eng, il);
    }
    for (int k = 0; f.head && k < eng->m.hp.n_nextn; k++)
        f.needs.layer[all - 1] += (uint64_t)plan->n_seqs * model_kv_bytes_of(&eng->m, all + k, ko->type_k, ko->type_v, positions,
                                                                             eng->n_batch);
    f.first = n < 0 || n > all ? 0 : all - n;
    f.first = max_int(f.first, f.needs.first);
    while (f.first < all && !f.begins[f.first]) f.first++;
    return f;
}

/* Gives each GPU, from the last one on, as many of the wanted layers as that share of its memory holds. True: they hold all. */
static bool engine__fill_gpus(dev_gpus *on, const engine_gpu_plan *f, double share) {
    int end = f->n_layer;
    for (int i = on->n - 1; i >= 0; i--) {
        int from = end;
        for (int il = end - 1; il >= f->first && (double)engine__gpu_bytes(f, il, end) <= share * (double)f->has[i]; il--)
            if (f->begins[il]) from = il;
        on->from[i] = end = from;
    }
    return end <= f->first;
}

/* Spreads the wanted layers so that each GPU gives the same share of its memory, and the cache of each has space to
 * grow; where all of it does not hold them, as many as it does: false. */
static bool engine__spread(dev_gpus *on, const engine_gpu_plan *f) {
    double low = 0, high = 1;
    if (!engine__fill_gpus(on, f, 1)) return false;
    for (int i = 0; i < 20; i++) {
        const double share = (low + high) / 2;
        *(engine__fill_gpus(on, f, share) ? &high : &low) = share;
    }
    return engine__fill_gpus(on, f, high);
}

/* Opens GPUs in their order until one of them holds the wanted layers, which is then the only one, since several are no
 * faster; or all so far hold them together. False: they do not, or, why, there are none. */
static bool engine__find_gpus(const engine *eng, engine_gpu_plan *f, int device, err_t *why) {
    dev_gpus *on = eng->m.gpus;
    const int end = device < 0 ? dev_gpus_count(why) : device + 1;
    for (int i = max_int(device, 0); i < end && on->n < DEV_GPUS; i++) {
        err_t e = {0};
        if (!dev_gpus_add(on, i, &e)) {
            if (device < 0 && end > 1) log_info("GPU         passed over: %s", e.text);
            if (!why->code) *why = e;
            continue;
        }
        f->has[on->n - 1] = dev_gpus_memory(on, on->n - 1);
        if (engine__gpu_bytes(f, f->first, f->n_layer) <= f->has[on->n - 1]) {
            f->has[0] = f->has[on->n - 1];
            dev_gpus_only(on, on->n - 1);
            on->from[0] = f->first;
            return true;
        }
        if (engine__spread(on, f)) return true;
    }
    return false;
}

/* The wanted layers do not fit: by how much. The first GPU would have to run those that are left. */
static bool engine__short(const dev_gpus *on, const engine_gpu_plan *f, err_t *e) {
    char      name[32] = "the GPU";
    uint64_t  all = engine__gpu_bytes(f, f->first, engine__gpu_end(on, 0, f->n_layer));
    const double more = (double)all - (double)f->has[0];
    for (int i = 1; i < on->n; i++) all += engine__gpu_bytes(f, on->from[i], engine__gpu_end(on, i, f->n_layer));
    if (on->n > 1) snprintf(name, sizeof name, "%d GPUs", on->n);
    return err_set(e, EXIT_RESOURCE, "--gpu-layers: memory of %s is short by %.1f MiB: %d layers and their cache take %.1f", name,
                   more / 1048576, f->n_layer - f->first, (double)all / 1048576);
}

/* Recurrent states that all GPUs hold: those that are counted, and snapshots. 0: they run no layer that has one. */
static int engine__slots(const engine *eng, const engine_gpu_plan *f) {
    const dev_gpus *on = eng->m.gpus;
    uint64_t        most = UINT64_MAX;
    for (int i = 0; i < on->n; i++) {
        const int      end = engine__gpu_end(on, i, f->n_layer);
        const uint64_t taken = engine__gpu_bytes(f, on->from[i], end), left = f->has[i] > taken ? f->has[i] - taken : 0;
        uint64_t       slot = 0;
        for (int il = on->from[i]; il < end; il++) slot += kv_state_bytes(&eng->m.hp.layer[il]);
        if (slot) most = min_u64(most, left / ENGINE_GPU_STATES / slot);
    }
    if (most == UINT64_MAX) return 0;
    return most < (uint64_t)(INT_MAX - f->slots) ? f->slots + (int)most : INT_MAX;
}

/* GPUs without a layer are closed. */
static void engine__drop_gpus(engine *eng) {
    dev_gpus *on = eng->m.gpus;
    for (int i = on->n - 1; i >= 0; i--)
        if (on->from[i] == engine__gpu_end(on, i, eng->m.hp.n_layer)) dev_gpus_drop(on, i);
    if (on->n) return;
    dev_gpus_close(on);
    eng->m.gpus = NULL;
}

/* Which layers run on GPUs, n of them or, -1, as many as fit. False: they do not. */
static bool engine__choose_layers(engine *eng, engine_gpu_plan *f, int device, int n, err_t *e) {
    err_t      why = {0};
    const bool fits = engine__find_gpus(eng, f, device, &why);
    if (!eng->m.gpus->n && n < 0) log_info("GPU         none: %s", why.text);
    if (!eng->m.gpus->n) return n < 0 || err_set(e, EXIT_RESOURCE, "--gpu-layers: %s", why.text);
    if (f->needs.lacks) log_info("GPU         layers before an operation without a kernel stay on the CPU: %s", f->needs.lacks);
    if (!fits && n > 0) return engine__short(eng->m.gpus, f, e);
    if (f->first == f->n_layer)
        log_info("GPU         no layer can run there%s", f->needs.lacks ? "" : ": they share keys and values with earlier ones");
    else if (eng->m.gpus->from[0] == f->n_layer) log_info("GPU         no layer: its memory is too small");
    return true;
}

/* Whether GPUs may have sums of their own; auto: where more than half of the bytes of matrices are floats, since sums
 * of quantised weights are exact whatever multiplies them. */
static bool engine__tensor(const engine *eng, const engine_opts *fo) {
    const model_bytes b = model_sizes(&eng->m);
    return strcmp(fo->same, "auto") == 0 ? b.floats > b.file / 2 : strcmp(fo->same, "off") == 0;
}

/* Opens the GPUs that the options ask for. False: they cannot be used as they say. The last one runs the draft head too; where it
 * lacks a kernel for that, none is used. */
static bool engine__open_gpus(engine *eng, const engine_opts *fo, const kv_opts *ko, const engine_plan *plan, err_t *e) {
    if (!fo->n_gpu_layers || plan->host) return true;
    engine_gpu_plan f = engine__gpu_new(eng, ko, plan, fo->n_gpu_layers);
    eng->m.gpus = dev_gpus_new();
    eng->m.gpus->tensor = engine__tensor(eng, fo);
    const bool ok = engine__choose_layers(eng, &f, fo->device, fo->n_gpu_layers, e);
    eng->gpu_slots = engine__slots(eng, &f);
    mem_free_all(f.needs.layer, f.begins);
    engine__drop_gpus(eng);
    if (eng->m.gpus && !f.head) {
        log_info("draft head  not used: the GPU has no kernel for it");
        model_use_head(&eng->m, false);
    }
    if (eng->m.gpus && eng->m.assist) engine__place_assistant(eng);
    return ok;
}

/* The host's threads, or, where waiting for each other would take longer than a step of so small a model, one of its own. */
static void engine__open_threads(engine *eng, const engine_opts *fo, const engine *host) {
    eng->shares_pool = host && model_sizes(&eng->m).file >= ENGINE_SHARED;
    if (eng->shares_pool) eng->p = host->p;
    else eng->p = pool_new(host ? 1 : engine_threads(fo));
}

/* Experts are read ahead where the weights exceed the memory that is left. */
static void engine__plan_read(engine *eng, const engine_opts *fo) {
    const uint64_t have = host_memory(), need = model_sizes(&eng->m).file;
    if (strcmp(fo->read_ahead, "off") == 0 || (strcmp(fo->read_ahead, "on") != 0 && need <= have)) return;
    if (model_read_ahead(&eng->m, (size_t)max_u64(min_u64(have, need) / 4, 1)) && need > have)
        log_info("experts     %.0f MiB of weights, %.0f of memory: those that are chosen are read when they are",
                 (double)need / 0x1p20, (double)have / 0x1p20);
}

/* A model without cache, threads and steps. head: as in engine_plan.head_file. */
static engine *engine__new(const gguf_file *g, const gguf_file *head, const tok_vocab *v, const engine_opts *fo, double t_start,
                           err_t *e) {
    engine   *eng = mem_new(1, sizeof *eng);
    rope_opts rope = fo->rope;
    *eng = (engine){.g = g, .head_g = head, .v = v, .t_start = t_start};
    rope.n_ctx = max_int(fo->n_ctx, 0);
    if (!model_open(&eng->m, g, &rope, e) || (head && !model_add_head(&eng->m, head, e))) {
        engine_close(eng);
        return NULL;
    }
    if (fo->as_bf16) model_as_bf16(&eng->m);
    if (fo->lora.n && !(eng->adapters = lora_open(&fo->lora, &eng->m, e))) {
        engine_close(eng);
        return NULL;
    }
    engine__plan_read(eng, fo);
    return eng;
}

/* The GPUs and the cache of the plan, whose sizes are known by now. */
static bool engine__open_memory(engine *eng, const engine_opts *fo, const kv_opts *ko, const engine_plan *plan, err_t *e) {
    if (!plan->hidden && !model_writes(&eng->m, e)) return false;
    if (eng->whole && !plan->hidden && !plan->pairs)
        return err_set(e, EXIT_INPUT, "%s: a %s model answers a text as a whole and has no logits of its tokens in turn, "
                       "expected -p, --batch, --serve, -i or --embed", eng->g->path, eng->m.hp.desc->name);
    if (eng->whole && !plan->hidden && ko->cache)
        return err_set(e, EXIT_INPUT, "--prompt-cache: keys and values of a %s model depend on all of a text, expected none",
                       eng->m.hp.desc->name);
    if (!model_holds(&eng->m, eng->n_ctx, e) || !engine__open_gpus(eng, fo, ko, plan, e)) return false;
    return (plan->share && !plan->host ? engine__open_shared : engine__open_cache)(eng, fo, ko, plan, e);
}

/* Opens the model in g with all that the plan asks for. v: its vocabulary, NULL where no text is read or written. NULL:
 * why not is in e. */
static engine *engine_open(const gguf_file *g, const tok_vocab *v, const engine_opts *fo, const kv_opts *ko,
                           engine_plan plan, double t_start, err_t *e) {
    engine *eng = engine__new(g, plan.head ? plan.head_file : NULL, v, fo, t_start, e);
    if (!eng) return NULL;
    model_use_head(&eng->m, plan.head);
    engine__size(eng, fo, &plan);
    if (!engine__open_memory(eng, fo, ko, &plan, e)) {
        engine_close(eng);
        return NULL;
    }
    eng->max_out = min_int(plan.n_out, eng->n_batch);
    eng->chunk = min_int(fo->n_batch, eng->n_batch);
    engine__open_threads(eng, fo, plan.host);
    kv_place(eng->kv, eng->p);
    if (strcmp(fo->repack, "on") == 0) engine__pack_all(eng);
    eng->f = fwd_new(&eng->m, eng->kv, eng->p, eng->n_batch, eng->max_out, plan.hidden ? FWD_HIDDEN : FWD_LOGITS);
    if (eng->m.assist) fwd_keep_hidden(eng->f);
    eng->n_head = fwd_n_heads(&eng->m);
    eng->head = mem_new((size_t)eng->n_head, sizeof *eng->head);
    for (int k = 0; k < eng->n_head; k++) eng->head[k] = fwd_new_head(&eng->m, eng->kv, eng->p, plan.n_seqs, k);
    if (eng->m.hp.n_nextn) eng->before = mem_aligned((size_t)eng->m.hp.n_embd, sizeof *eng->before);
    model_release(&eng->m);
    eng->t_open = clock_now() - eng->t_start;
    model_say_own_keys(&eng->m);
    engine__log(eng, fo);
    if (plan.pack == ENGINE_PACK_NOW) engine__plan_pack(eng);
    if (plan.pack == ENGINE_PACK_NOW && engine__may_pack(fo) && eng->pack_bytes) engine__pack_all(eng);
    eng->may_pack = plan.pack == ENGINE_PACK_LATER && engine__may_pack(fo);
    return eng;
}

/* --- progress within a step, layer by layer: a step of many rows may take minutes --- */

#define METER_QUIET_S 1.0                             /* seconds before the first progress line, where the work is likely short */

typedef struct {
    fwd        *f;                                    /* NULL: stopped */
    const char *what;                                 /* "reading the text" */
    char        more[64];                             /* text between the count and the time left */
    int64_t     done;                                 /* tokens before this step */
    int64_t     step;                                 /* tokens of this step */
    int64_t     all;                                  /* tokens of all steps */
    double      since;                                /* clock_now() of the beginning */
    double      from;                                 /* no line before this time */
} engine_meter;

static void meter__show(void *ctx, int il) {
    const engine_meter *m = ctx;
    if (clock_now() < m->from || !progress_due()) return;
    const double done = (double)m->done + (double)m->step * il / m->f->m->hp.n_layer;
    progress_show("%s: %.0f of %lld tokens%s%s", m->what, floor(done), (long long)m->all, m->more,
                  progress_left(m->since, done, (double)m->all).p);
}

/* From now on steps show their progress. `after`: seconds before the first line. */
static void meter_start(engine_meter *m, engine *eng, const char *what, int64_t all, double after) {
    const double now = clock_now();
    *m = (engine_meter){.f = eng->f, .what = what, .all = all, .since = now, .from = now + after};
    eng->f->run.on_layer = meter__show;
    eng->f->run.on_layer_ctx = m;
}

/* The next step has n tokens; the one before it has been computed. */
static void meter_step(engine_meter *m, int64_t n) {
    m->done += m->step;
    m->step = n;
}

/* No step shows progress any more; the line is cleared. A meter that was stopped may be stopped again. */
static void meter_stop(engine_meter *m) {
    if (!m->f) return;
    m->f->run.on_layer = NULL;
    m->f = NULL;
    progress_clear();
}

/* A file that became shorter under the mapping reads as zeros up to the end of its last page: checked after every step. */
static bool engine_alive(const engine *eng, err_t *e) {
    return gguf_alive(eng->g, e) && (!eng->head_g || gguf_alive(eng->head_g, e));
}

/* True when every one of n floats is finite. */
static bool engine_finite(const float *x, size_t n) {
    uint32_t bad = 0, u;
    for (size_t i = 0; i < n; i++) {
        memcpy(&u, x + i, sizeof u);
        bad |= (uint32_t)((u & 0x7f800000u) == 0x7f800000u);
    }
    return !bad;
}

/* Runs the engine's batch. False: e is set, or an interrupt came. last: index of the last token, for the message. */
static bool engine_step(engine *eng, long long last, float **logits, err_t *e) {
    *logits = eng->f->logits;
    if (!fwd_step(eng->f) || !engine_alive(eng, e)) return false;
    return engine_finite(*logits, (size_t)eng->f->n_vocab * (size_t)eng->f->batch.n_out) ||
           err_set(e, EXIT_INPUT,
                   "%s: the logits after token %lld hold a NaN or an infinity: damaged weights, or a model out of range",
                   eng->g->path, last);
}

/* What is asked of a text that is read, beside the keys and values that the cache keeps. */
typedef struct {
    engine_meter *meter;                              /* counts the tokens; NULL: nothing does */
    /* After a step: logits [to - from, V] of positions [from, to); false ends the reading. NULL: no row asks for logits. */
    bool        (*each)(void *ctx, int from, int to, float *logits);
    void         *ctx;
} engine_reader;

/* Reads ids[from, to) after the `from` positions that the sequence holds, in steps of up to eng->n_batch rows. False:
 * an error in e, an interrupt, or the reader ended it. */
static bool engine_read(engine *eng, kv_seq *seq, const int32_t *ids, int from, int to, engine_reader r, err_t *e) {
    const kv_cache *kv = eng->kv;
    bool            ok = true;
    for (int at = from, next; ok && at < to; at = next) {
        const int mark = kv_next_mark(kv, at, to);
        float    *logits;
        next = at + min_int(to - at, eng->n_batch);
        if (mark < next && kv_next_mark(kv, mark, to) <= next) next = mark;
        if (!kv_require(seq, next, e)) return false;
        if (r.meter) meter_step(r.meter, next - at);
        fwd_begin(eng->f);
        for (int i = at; i < next; i++) fwd_add(eng->f, seq, ids[i], i, r.each ? FWD_LOGITS : 0);
        if (at > from && eng->before) fwd_before(eng->f, eng->before);
        kv_publish(seq, ids);
        if (mark <= next) kv_snapshot(seq, mark, mark == kv_last_mark(kv, to) ? KV_KEPT : KV_WEAK);
        ok = engine_step(eng, next - 1, &logits, e);
        if (eng->before) memcpy(eng->before, fwd_state(eng->f, next - 1 - at), (size_t)eng->m.hp.n_embd * sizeof *eng->before);
        kv_commit(eng->kv, ok);
        ok = ok && (!r.each || r.each(r.ctx, at, next, logits));
    }
    return ok;
}
