/* An engine: what it is for each plan, reading a text, packing its weights, what it needs of memory. */
#include "program.h"
#include "check.h"
#include "t_gen.h"
#include <malloc.h>

/* A plan's zeros are filled from the options and the model; what it says stands; memory and context bound the rest. The
 * model was trained with 256 tokens, and has 272 of them. */
static void t_engine_plans(void) {
    static const struct {
        const char *what;
        engine_plan plan;
        int         c, b;                             /* -c and -b */
        int         n_ctx, n_batch, max_out;          /* what becomes of them */
    } rows[] = {
        {"the model's context", {.n_seqs = 1, .n_out = 1}, -1, 64, 256, 64, 1},
        {"no more than is needed", {.n_need = 40, .n_seqs = 1, .n_out = 1}, -1, 64, 40, 40, 1},
        {"needed beyond the model's", {.n_need = 1000, .n_seqs = 1, .n_out = 1}, -1, 64, 256, 64, 1},
        {"-c stands above the need", {.n_need = 40, .n_seqs = 1, .n_out = 1}, 100, 64, 100, 40, 1},
        {"-c 0 is the model's", {.n_need = 40, .n_seqs = 2, .n_out = 1}, 0, 64, 256, 64, 1},
        {"the plan's context stands above -c", {.n_ctx = 300, .n_seqs = 1, .n_out = 1}, 100, 64, 300, 64, 1},
        {"a step no longer than the context", {.n_seqs = 1, .n_out = 1}, 20, 64, 20, 20, 1},
        {"many sequences in a step", {.n_seqs = 3, .n_out = 3}, 20, 64, 20, 64, 3},
        {"rows as planned", {.n_seqs = 3, .n_rows = 70, .n_out = 6}, 20, 64, 20, 70, 6},
        {"logits for no more rows than there are", {.n_seqs = 1, .n_rows = 8, .n_out = 100}, -1, 64, 256, 8, 8},
        {"as many logits as fit", {.n_rows = 32}, -1, 64, 256, 32, 32},
        {"sequences one after the other", {.n_need = 200}, 50, 128, 50, 128, 128},
        {"shared", {.n_seqs = 4, .n_rows = 68, .n_out = 4, .share = true}, -1, 64, 256, 68, 4},
    };
    gguf_file g;
    err_t     e = {0};
    if (t_stress()) SKIP("a stress build has a bounded cache");
    if (!CHECKF(gguf_open(&g, "tests/data/tiny/llama.gguf", &e), "%s", e.text)) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        engine_opts fo = engine_defaults;
        fo.n_ctx = rows[i].c;
        fo.n_batch = rows[i].b;
        engine *eng = engine_open(&g, NULL, &fo, &kv_defaults, rows[i].plan, clock_now(), &e);
        if (!CHECKF(eng != NULL, "%s: %s", rows[i].what, e.text)) break;
        CHECKF(eng->n_ctx == rows[i].n_ctx && eng->n_batch == rows[i].n_batch && eng->max_out == rows[i].max_out,
               "%s: %d positions, %d rows, %d with logits", rows[i].what, eng->n_ctx, eng->n_batch, eng->max_out);
        CHECKF(eng->chunk == (fo.n_batch < eng->n_batch ? fo.n_batch : eng->n_batch), "%s: chunks of %d", rows[i].what,
               eng->chunk);
        CHECKF((eng->kv->tree != NULL) == rows[i].plan.share, "%s: %s", rows[i].what, eng->kv->tree ? "shared" : "not shared");
        engine_close(eng);
    }
    gguf_close(&g);
}

/* Rows with logits of models that decode by diffusion: one answer or one block of each sequence, at least those of one. */
static void t_engine_masks(void) {
    static const struct { const char *model; int n_seqs, n_masks, max_out; bool vectors; } rows[] = {
        {"dream", 1, -9, 48, true}, {"dream", 6, -9, 54, true}, {"llada", 1, 50, 50, true},
        {"dream", 1, -9, 9, false}, {"dream", 3, -9, 27, false}, {"dream", 1, -1000, 64, false}, {"dream", 1, 0, 64, false},
        {"dream", 2, 5, 10, false}, {"llada", 1, -9, 32, false}, {"llada", 1, 7, 7, false}, {"llada", 2, 0, 128, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const engine_plan plan = {.n_seqs = rows[i].n_seqs, .n_rows = 256, .pairs = true, .n_masks = rows[i].n_masks,
                                  .vectors = rows[i].vectors};
        gguf_file         g;
        err_t             e = {0};
        engine_opts       fo = engine_defaults;
        char              path[64];
        fo.n_ctx = 64;
        fo.n_batch = 48;
        snprintf(path, sizeof path, "tests/data/diffuse/%s.gguf", rows[i].model);
        if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
        engine *eng = engine_open(&g, NULL, &fo, &kv_defaults, plan, clock_now(), &e);
        if (CHECKF(eng != NULL, "%s: %s", path, e.text)) EQ_INT(eng->max_out, rows[i].max_out);
        engine_close(eng);
        gguf_close(&g);
    }
}

/* A second engine uses the first one's threads where its model is big enough, else one of its own; --repack auto packs
 * at once, later or not at all, as the plan says. */
static void t_engine_hosts(void) {
    static const struct {
        const char *model;
        bool        shares, packs;
    } rows[] = {{"tests/data/tiny/llama_q4_k_m.gguf", false, true}, {"models/pip-f16.gguf", true, false}};
    if (strcmp(k_level_name(), "scalar") == 0) SKIP("the scalar level packs nothing");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t_run       r;
        err_t       e = {0};
        engine_opts fo = engine_defaults;
        fo.n_threads = 2;
        if (!t_run_open(&r, rows[i].model, &fo, &kv_defaults, 50, false)) return;
        engine_plan plan = {.n_ctx = 77, .n_seqs = 2, .n_rows = 9, .n_out = 2, .share = true, .host = r.eng,
                            .pack = ENGINE_PACK_NOW};
        engine     *with = engine_open(&r.g, r.v, &fo, &kv_defaults, plan, clock_now(), &e);
        if (!CHECKF(with != NULL, "%s", e.text)) return;
        CHECKF(with->shares_pool == rows[i].shares && (with->p == r.eng->p) == rows[i].shares, "%s", rows[i].model);
        if (!rows[i].shares) EQ_INT(with->p->n, 1);
        EQ_INT(with->n_ctx, 77);
        CHECKF(!with->may_pack && (with->m.packs_used > 0) == rows[i].packs, "%s: %zu bytes packed", rows[i].model,
               with->m.packs_used);
        CHECK(r.eng->m.packs_used == 0);
        engine_close(with);
        t_run_close(&r);
    }
}

/* Behind a window a single sequence reads in whole steps: the blocks of the window do not bound them. */
static void t_engine_window(void) {
    t_run       r;
    engine_opts fo = engine_defaults;
    kv_opts     ko = kv_defaults;
    fo.n_batch = 128;
    ko.block = 8;
    if (t_stress()) SKIP("a stress build has steps of one row");
    if (!t_run_open(&r, "tests/data/tiny/llama_window.gguf", &fo, &ko, 128, false)) return;
    EQ_INT(r.eng->n_batch, 128);
    t_run_close(&r);
}

/* A state that no memory holds ends the run before the cache is made, whatever bound is asked for. */
static void t_engine_states(void) {
    t_run       r;
    err_t       e = {0};
    engine_opts fo = engine_defaults;
    if (!t_run_open(&r, "tests/data/tiny/qwen35.gguf", &fo, &kv_defaults, 50, true)) return;
    const arch_hparams *hp = &r.eng->m.hp;
    arch_rec           *rec = &hp->layer[0].rec;
    EQ_INT(r.eng->kv->group[r.eng->kv->states].mem.block_bytes, kv_slot_bytes(hp));
    CHECK(engine__holds_state(r.eng, &e));
    const arch_rec was = *rec;
    rec->n_v = 1 << 12, rec->d_k = rec->d_v = 1 << 20;
    if (host_memory() == UINT64_MAX) SKIP("the memory of this machine is not known");
    CHECKF(!engine__holds_state(r.eng, &e) && e.code == EXIT_RESOURCE && strstr(e.text, "recurrent state"), "\"%s\"", e.text);
    *rec = was;
    t_run_close(&r);
}

/* What a reader of a text was given: positions in order, each once, and how often it was called. */
typedef struct {
    int next, calls, last;                            /* last: the position after which it ends the reading */
} t_reader;

static bool t_reader_each(void *ctx, int from, int to, float *logits) {
    t_reader *r = ctx;
    EQ_INT(from, r->next);
    CHECK(to > from && logits != NULL);
    r->next = to;
    r->calls++;
    return to <= r->last;
}

/* engine_read() goes through a text in steps of n_batch rows, from the place it is told to, and ends where its reader says so. */
static void t_engine_reads(void) {
    int32_t ids[50];
    for (int i = 0; i < 50; i++) ids[i] = 5 + i;
    for (int chunk = 1; chunk <= 64; chunk = 3 * chunk + 1) {
        t_run       r;
        err_t       e = {0};
        engine_opts fo = engine_defaults;
        fo.n_batch = chunk;
        if (!t_run_open(&r, "tests/data/tiny/llama.gguf", &fo, &kv_defaults, 50, true)) return;
        const int step = r.eng->n_batch;
        kv_seq   *seq = kv_seq_new(r.eng->kv);
        t_reader  all = {.last = 50}, some = {.last = 0}, rest = {.next = 20, .last = 50};
        CHECK(engine_read(r.eng, seq, ids, 0, 50, (engine_reader){.each = t_reader_each, .ctx = &all}, &e));
        EQ_INT(all.next, 50);
        EQ_INT(all.calls, (50 + step - 1) / step);
        EQ_INT(seq->n, 50);
        kv_truncate(seq, 20);
        CHECK(engine_read(r.eng, seq, ids, 20, 50, (engine_reader){.each = t_reader_each, .ctx = &rest}, &e));
        EQ_INT(rest.next, 50);
        kv_truncate(seq, 0);
        CHECK(!engine_read(r.eng, seq, ids, 0, 50, (engine_reader){.each = t_reader_each, .ctx = &some}, &e) && !e.code);
        EQ_INT(some.calls, 1);
        kv_seq_free(seq);
        t_run_close(&r);
    }
}

/* engine_pack() says once that the last matrices were packed, and never where there are none to pack. */
static void t_engine_packs(void) {
    static const struct {
        const char *model;
        int         says;
    } rows[] = {{"models/pip-q4_k_m.gguf", 1}, {"tests/data/tiny/llama_q4_k_m.gguf", 1}, {"models/pip-f16.gguf", 0},
                {"tests/data/tiny/llama.gguf", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t_run r;
        int   said = 0;
        if (!t_run_open(&r, rows[i].model, &engine_defaults, &kv_defaults, 100, false)) return;
        const bool packs = r.eng->may_pack;
        for (int n = 1; n < 40; n++) said += engine_pack(r.eng, 1000, n, 1);
        CHECKF(said == (packs ? rows[i].says : 0), "%s: said %d times that it is packed", rows[i].model, said);
        CHECKF(!r.eng->may_pack && (r.eng->m.packs_used > 0) == (said > 0), "%s: %zu bytes packed", rows[i].model,
               r.eng->m.packs_used);
        t_run_close(&r);
    }
}

/* Bytes that malloc has given away; 0 where it does not say. */
static size_t t_engine_malloced(void) {
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* What was counted is what was taken, but for what malloc adds to each piece. */
static void t_engine_counted(const char *what, size_t taken, size_t counted, size_t pieces) {
    CHECKF(taken >= counted && taken - counted <= pieces * 4300, "%s: %zu bytes taken, %zu counted", what, taken, counted);
}

/* Bytes of a file that stay needed once its matrices are packed, from its list of tensors. */
static uint64_t t_engine_kept(const gguf_file *g) {
    uint64_t kept = g->n_bytes;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        if (t->n_dims < 2 || !k_pack_bytes(t->type, (int)t->dim[1], (int)t->dim[0])) continue;
        if (!bytes_is(t->name, "token_embd.weight")) kept -= k_row_bytes(t->type, (int64_t)t->dim[0]) * t->dim[1] * t->dim[2];
    }
    return kept;
}

/* The table of what a run needs: steps, logits and samplers to the byte, weights packed and not, and a cache that gets
 * the rest. */
static void t_engine_memory(void) {
    static const char *const models[] = {"tests/data/tiny/llama.gguf", "tests/data/tiny/llama_f16.gguf",
                                         "tests/data/tiny/qwen2_bf16.gguf", "models/pip-f16.gguf",
                                         "models/pip-q4_k_m.gguf", "models/pip-draft-q8_0.gguf",
                                         "tests/data/tiny/qwen3moe_q8_0.gguf"};
    enum { SEQS = 4, GUESSES = 8 };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        err_t     e = {0};
        gguf_file g;
        engine_opts  fo = engine_defaults;
        fo.n_threads = 2;
        if (!CHECKF(gguf_open(&g, models[i], &e), "%s", e.text)) return;
        tok_vocab *v = tok_load(&g, NULL, &e);
        const engine_plan plan = sched_plan(&fo, SEQS, GUESSES, NULL);
        engine           *eng = engine_open(&g, v, &fo, &kv_defaults, plan, clock_now(), &e);
        if (!CHECKF(eng != NULL, "%s", e.text)) return;
        const engine_needs t = engine__needs(eng, &fo, &plan);
        EQ_INT(t.n, 5);
        EQ_INT(t.row[2].bytes + t.row[3].bytes, eng->f->bytes);
        EQ_INT(t.row[3].bytes, sizeof(float) * (size_t)eng->max_out * (size_t)eng->m.hp.n_vocab);

        size_t     before = t_engine_malloced();
        fwd       *f = fwd_new(&eng->m, eng->kv, eng->p, eng->n_batch, eng->max_out, FWD_LOGITS);
        const bool says = before > 0;
        if (says) t_engine_counted("steps", t_engine_malloced() - before, f->bytes, 64);
        fwd_free(f);
        before = t_engine_malloced();
        samp *sm = samp_new(&samp_defaults, eng->m.hp.n_vocab, 1, 0, &e);
        if (says) t_engine_counted("a sampler", t_engine_malloced() - before, samp_bytes(eng->m.hp.n_vocab, sm->n_past), 16);
        samp_free(sm);

        const bool packs = engine__packs(&eng->m, &fo);
        while (packs && model_pack(&eng->m, eng->p, SIZE_MAX)) continue;
        CHECKF(t.row[1].bytes >= eng->m.packs_used && t.row[0].bytes + t.row[1].bytes >= g.n_bytes,
               "%s: %zu bytes packed, %llu counted", models[i],
               eng->m.packs_used, (unsigned long long)t.row[1].bytes);
        if (packs) EQ_INT(t.row[0].bytes, t_engine_kept(&g));
        if (!eng->m.packs_used) EQ_INT(t.row[0].bytes, g.n_bytes);

        for (uint64_t all = 1 << 20; all < 1ull << 40; all += all / 3) {
            engine_needs   with = t;
            const uint64_t token = model_kv_bytes(&eng->m.hp, K_BF16, K_BF16), need = engine__need_all(&t);
            with.token_bytes = 24;
            const uint64_t cache = engine__cache_bytes(&with, all, token);
            CHECKF(cache == all / ENGINE_SHARE || need + cache + cache / token * 24 < all,
                   "%s: a cache of %llu where %llu are left", models[i],
                   (unsigned long long)cache, (unsigned long long)all);
            CHECKF(all < 8 * need || cache > all / 2, "%s: a cache of only %llu where %llu are left", models[i],
                   (unsigned long long)cache, (unsigned long long)all);
        }
        EQ_INT(engine__cache_bytes(&t, UINT64_MAX, 1), 0);
        engine_close(eng);
        tok_free(v);
        gguf_close(&g);
    }
}

/* Weights of a draft head in a file of its own are counted with that file. */
static void t_engine_head_file(void) {
    enum { N = 256, MODEL = 100, HEAD = 50 };
    const size_t   row = k_row_bytes(K_Q8_0, N), own = row * N;
    gguf_file      g = {.n_bytes = MODEL}, head = {.n_bytes = own + HEAD};
    uint8_t       *data = mem_new(own, 1);
    model_tensors *layer = mem_new(1, sizeof *layer);
    model          m = {.g = &g, .head_g = &head, .layer = layer, .hp = {.n_nextn = 1}};
    engine_opts    fo = engine_defaults;
    engine_needs   packed = {0}, plain = {0}, none = {0};
    layer->mat[W_Q] = (dev_mat){.data = data, .type = K_Q8_0, .n_in = N, .n_out = N, .n_mat = 1, .row_bytes = row,
                                   .mat_bytes = own};
    fo.repack = "on";
    engine_need_weights(&packed, &m, &fo, "file", "packed");
    fo.repack = "off";
    engine_need_weights(&plain, &m, &fo, "file", "packed");
    m.hp.n_nextn = 0;
    engine_need_weights(&none, &m, &fo, "file", "packed");
    EQ_INT(packed.row[0].bytes, MODEL + HEAD);
    CHECK(packed.row[1].bytes >= own);
    EQ_INT(plain.row[0].bytes, own + MODEL + HEAD);
    EQ_INT(plain.row[1].bytes, 0);
    EQ_INT(none.row[0].bytes, own + MODEL + HEAD);
    mem_free_all(data, layer);
}

static const t_case t_engine_cases[] = {
    {"engine plans", "sizes of an engine are the plan's, and where it says nothing the options' and the model's", t_engine_plans},
    {"engine masks", "decoding by diffusion reserves logits for an answer or a block, not for the context", t_engine_masks},
    {"engine hosts", "a second engine's threads, and when weights are packed", t_engine_hosts},
    {"engine window", "a window does not cut the rows of a step", t_engine_window},
    {"engine states", "a recurrent state that no memory holds is refused", t_engine_states},
    {"engine reads", "a text is read in steps of n_batch rows, from any place", t_engine_reads},
    {"engine packs", "the end of packing is said once, where there was something to pack", t_engine_packs},
    {"engine memory", "what is counted of a run's memory is what it takes, and the cache gets the rest", t_engine_memory},
    {"engine head file", "the file of a draft head counts with the weights in it", t_engine_head_file},
};
static const t_suite t_engine_suite = SUITE(t_engine_cases);
