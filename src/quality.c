/* ===== [quality] tool: what quantised types of a model cost =====
 * Makes a file of each type in turn and compares its distributions on a text with those of the model: perplexity, KL divergence,
 * how often the most likely token is the same. The distributions of the model and one file at a time lie in a folder for
 * temporary files; they are removed when they are not needed any more, and by a signal.
 * Public: quality_run.
 * Opens: quality_job. */

typedef enum { QUALITY_MD, QUALITY_CSV, QUALITY_JSON } quality_form;

/* What is compared, and how. */
typedef struct {
    const gguf_file   *g;
    const tok_vocab   *v;
    const tok_ids     *ids;                           /* the text */
    int32_t            bos;                           /* as eval_plan_text() takes it */
    const char        *types;                         /* with commas between them */
    const char        *folder;                        /* for temporary files */
    const char        *source;                        /* what the picture says of the text and the program */
    const engine_opts *fo;                            /* n_ctx: tokens of a window */
    const kv_opts     *ko;
    const eval_opts   *eval;
    const quant_opts  *quant;
} quality_job;

typedef struct {
    char        name[32];
    double      mib;                                  /* of the file */
    double      bits;                                 /* per weight */
    eval_result r;
} quality_row;

/* The next name of a list; false at its end. */
static bool quality__name(const char **list, char name[32]) {
    const size_t n = strcspn(*list, ",");
    if (!**list) return false;
    snprintf(name, 32, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ',');
    return true;
}

/* An empty file with a new name, which is removed if the run ends early. */
static bool quality__file(const quality_job *j, str *path, err_t *e) {
    str_fmt(path, "%s/llmrun-quality-XXXXXX", j->folder);
    const int fd = mkstemp(path->p);
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path->p, strerror(errno));
    close(fd);
    out_add_pending(path->p);
    return true;
}

static void quality__remove(str *path) {
    if (path->n) out_settle(path->p, false), unlink(path->p);
    str_drop(path);
}

/* Hides the figures of each window, unless the run is verbose. Returns the level that was. */
static int quality__hush(void) {
    const int level = g_log_level;
    if (level == LOG_NORMAL) g_log_level = LOG_QUIET;
    return level;
}

/* Writes the distributions of the model. */
static bool quality__base(const quality_job *j, const char *path, err_t *e) {
    const int   level = quality__hush();
    engine_opts fo = *j->fo;
    eval_opts   o = *j->eval;
    eval_plan   plan;
    engine     *en = engine_open(j->g, j->v, &fo, j->ko, (engine_plan){.n_need = (int64_t)j->ids->n}, clock_now(), e);
    o.base = path;
    const bool ok = en && eval_plan_text(&plan, j->ids, fo.n_ctx ? fo.n_ctx : en->m.hp.n_ctx_train, j->bos, &o, e) &&
                    eval_perplexity(en, &plan, &o, false, NULL, e);
    engine_close(en);
    g_log_level = level;
    return ok;
}

/* Size of a file and bits per weight. */
static void quality__size(const gguf_file *g, quality_row *row) {
    uint64_t kept = 0, weights = 0, all = 0;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        kept += t->n_bytes;
        weights += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    }
    for (int i = 0; i < g->n_parts; i++) all += g->part[i].n;
    row->mib = (double)all / 1048576;
    row->bits = weights ? 8.0 * (double)kept / (double)weights : 0;
}

/* Compares an open model with the base. */
static bool quality__compare(const quality_job *j, const gguf_file *g, const eval_base *b, quality_row *row, err_t *e) {
    engine_opts fo = *j->fo;
    eval_plan   plan;
    fo.n_ctx = b->n_ctx;
    if (!eval_plan_base(&plan, b, j->eval, e)) return false;
    const int  level = quality__hush();
    engine    *en = engine_open(g, NULL, &fo, j->ko, (engine_plan){.n_need = (int64_t)b->ids.n}, clock_now(), e);
    const bool ok = en && eval_measure(en, b, &plan, &row->r, e);
    engine_close(en);
    g_log_level = level;
    if (ok) log_warn("%s: perplexity %.4f, KL divergence %.5f", row->name, row->r.ppl, row->r.kld);
    return ok;
}

/* The row of a type: makes its file and removes it. */
static bool quality__type(const quality_job *j, const eval_base *b, quality_row *row, err_t *e) {
    str       path = {0};
    gguf_file g;
    bool      ok = quality__file(j, &path, e) && quant_run(j->g, row->name, path.p, j->quant, NULL, e);
    if (ok && (ok = gguf_open(&g, path.p, e))) {
        quality__size(&g, row);
        ok = quality__compare(j, &g, b, row, e);
        gguf_close(&g);
    }
    quality__remove(&path);
    return ok;
}

/* --- tables and the picture --- */

static void quality__put(const quality_row *r, int n, quality_form form, str *s) {
    jw w = jw_loose(s);
    if (form == QUALITY_MD) str_put(s, "| type | MiB | bits | PPL | \xc2\xb1 | KLD | \xc2\xb1 | KLD 99 % | same top % |\n"
                                       "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    if (form == QUALITY_CSV) str_put(s, "type,mib,bits,ppl,ppl_error,kld,kld_error,kld_p99,same_top\n");
    if (form == QUALITY_JSON) jw_open(&w, NULL, '[');
    for (int i = 0; i < n; i++) {
        const eval_result *x = &r[i].r;
        if (form == QUALITY_MD)
            str_fmt(s, "| %s | %.2f | %.2f | %.4f | %.4f | %.5f | %.5f | %.5f | %.2f |\n", r[i].name, r[i].mib, r[i].bits, x->ppl,
                    x->ppl_error, x->kld, x->kld_error, x->kld_p99, 100 * x->same);
        else if (form == QUALITY_CSV)
            str_fmt(s, "%s,%.6g,%.6g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", r[i].name, r[i].mib, r[i].bits, x->ppl, x->ppl_error,
                    x->kld, x->kld_error, x->kld_p99, x->same);
        else {
            jw_open(jw_line(&w), NULL, '{');
            jw_str(&w, "type", r[i].name);
            jw_number(&w, "mib", 6, r[i].mib);
            jw_number(&w, "bits", 6, r[i].bits);
            jw_number(&w, "ppl", 9, x->ppl);
            jw_number(&w, "ppl_error", 9, x->ppl_error);
            jw_number(&w, "kld", 9, x->kld);
            jw_number(&w, "kld_error", 9, x->kld_error);
            jw_number(&w, "kld_p99", 9, x->kld_p99);
            jw_number(&w, "same_top", 9, x->same);
            jw_close(&w, '}');
        }
    }
    if (form == QUALITY_JSON) str_put(s, "\n]\n");
}

/* Bars: sizes and divergences. */
static void quality__picture(const quality_job *j, const quality_row *r, int n, str *s) {
    plot g = {.title = "llmrun --quality: what each type costs", .below = str_base_name(j->g->path), .caption = j->source};
    g.panel[0].title = "Size, MiB";
    g.panel[1].title = "KL divergence from the model, mean over the text (less is better)";
    for (int i = 0; i < n; i++) {
        plot_add(&g.panel[0], r[i].name, 0, r[i].mib, 0);
        if (i) plot_add(&g.panel[1], r[i].name, 0, r[i].r.kld, r[i].r.kld_error);
    }
    plot_svg(&g, s);
    plot_drop(&g);
}

/* Compares the types with the model, whose row is the first, and writes a table to `out` and a picture to svg, unless it is NULL.
 * False: e is set, or an interrupt; nothing is written then. */
static bool quality_run(const quality_job *j, quality_form form, out_t *out, out_t *svg, err_t *e) {
    quality_row *row = NULL, one = {.name = "model"};
    int          n = 0;
    str          base = {0}, text = {0}, picture = {0};
    eval_base    b = {0};
    MEM_PUSH(row, n, one);
    for (const char *list = j->types; quality__name(&list, one.name);) {
        if (!quant_knows("--quality", one.name, e)) goto done;
        MEM_PUSH(row, n, one);
    }
    if (n < 2) {
        err_set(e, EXIT_INPUT, "--quality: found no type, expected some with commas between them (--list quants)");
        goto done;
    }
    if (!quality__file(j, &base, e) || !quality__base(j, base.p, e) || !eval_base_open(&b, base.p, e)) goto done;
    bool ok = true;
    for (int i = 1; ok && i < n && !g_interrupt; i++) ok = quality__type(j, &b, &row[i], e);
    if (!ok || g_interrupt) goto done;
    quality__size(j->g, &row[0]);
    row[0].r = (eval_result){.ppl = row[1].r.base, .ppl_error = row[1].r.base_error, .same = 1};
    quality__put(row, n, form, &text);
    if (svg) quality__picture(j, row, n, &picture);
    if (out_begin(out, e)) out_put(out, text.p, text.n);
    if (svg && out_begin(svg, e)) out_put(svg, picture.p, picture.n);
done:
    eval_base_close(&b);
    quality__remove(&base);
    str_drop_all(&text, &picture);
    mem_free(row);
    return !e->code && !g_interrupt;
}
