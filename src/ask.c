/* ===== [ask] a request made ready to run =====
 * From what [req] has read to what [sched] runs: messages become tokens by the chat template, prompts by the tokenizer, a
 * constraint becomes masks; or there is a reason why the request is refused. Files of requests and the server use it alike, so
 * that equal bodies have equal texts. It may run on a thread of its own beside the steps: what it shares with them it only reads,
 * but for the cache of constraints, which one thread uses.
 *   In order: req_read() or req_read_text() into .q; ask_make; ask_hold; ask_request for each prompt; ask_parts for the answers
 * of a chat.
 * Invariant: no message of a refused request names a file by its folders.
 * Public: ask_make, ask_scales, ask_hold, ask_request, ask_tools, ask_parts, ask_error_code, ask_hide_paths, ask_drop.
 * Opens: ask_env, ask_ready. */

/* What all requests of a run share. */
typedef struct {
    const engine     *eng;
    const chat       *chat;                           /* the model's template; NULL: there is none, as no_chat says */
    const err_t      *no_chat;
    constrain_cache  *holds;
    const embed_opts *embed;                          /* how vectors are made; NULL: none are */
    bool              special;                        /* control tokens in raw prompts count */
    int               bos;                            /* whether raw prompts get a start token, as for tok_start() */
    bool              keep_text;                      /* what a template has rendered stays as the text of the prompt */
    const float      *scales;                         /* [adapters of the run] of requests that name none; NULL: the command's */
} ask_env;

typedef struct {
    req         q;                                    /* as it was read */
    tok_ids    *ids;                                  /* [q.n_prompt] tokens of its prompts */
    size_t      n_ids;                                /* tokens of all prompts */
    chat_prompt chat;                                 /* of a chat, without its ids */
    dev_adapters *adapters;                           /* NULL: those of the run */
    constrain  *held;                                 /* NULL: it has no constraint, or it is not compiled yet */
    bytes       query;                                /* the text that its texts are held against; p NULL: none */
    int         n_cut;                                /* texts to embed that were cut to the model's limit */
    int         n_begun;                              /* raw prompts that begin with the start token themselves */
} ask_ready;

/* Frees all that it owns. */
static void ask_drop(ask_ready *a) {
    for (int i = 0; a->ids && i < a->q.n_prompt; i++) tok_ids_drop(&a->ids[i]);
    mem_free(a->ids);
    chat_prompt_drop(&a->chat);
    mem_free(a->adapters);
    constrain_close(a->held);
    req_drop(&a->q);
    *a = (ask_ready){0};
}

/* The tools that the answer to a chat may call; undefined: none. */
static val ask_tools(const req *q) {
    return q->input.choice == CHAT_CALL_NONE ? val_undef("tools") : val_get(q->input.vars, "tools");
}

/* Replaces a path in the message by its last part. NULL: nothing. */
static void ask__hide_path(const char *path, err_t *e) {
    const char *base = path ? str_base_name(path) : NULL;
    for (char *at = e->text; base > path && (at = strstr(at, path));) {
        memmove(at, at + (base - path), strlen(at + (base - path)) + 1);
        at += strlen(base);
    }
}

/* Takes the folders of the files of this run out of a message. */
static void ask_hide_paths(const ask_env *env, err_t *e) {
    const engine *eng = env->eng;
    for (int i = 0; i < eng->g->n_parts; i++) ask__hide_path(eng->g->part[i].path, e);
    ask__hide_path(eng->g->path, e);
    if (env->chat) ask__hide_path(env->chat->o.template_file, e);
}

/* How a record or an answer names an error that ended a request. */
static const char *ask_error_code(const err_t *e) { return e->code == EXIT_RESOURCE ? "out_of_room" : req_invalid; }

/* Tokens of a chat's prompt, and what its answers need of the request. What the template read is kept for its tools alone. */
static bool ask__encode_chat(const ask_env *env, ask_ready *a, tok_ids *ids, err_t *e) {
    req *q = &a->q;
    if (!env->chat) return *e = *env->no_chat, false;
    if (!chat_make_prompt(env->chat, &q->input, &a->chat, e)) return false;
    chat_ask(env->chat, &a->chat, &q->ask);
    if (chat_warning(&a->chat)) str_fmt(&q->warnings, "%s\n", chat_warning(&a->chat));
    if (ask_tools(q).kind == VAL_UNDEF) req_drop_input(q);
    *ids = a->chat.ids;
    a->chat.ids = (tok_ids){0};
    if (env->keep_text) q->prompt->text = str_bytes(&a->chat.text), a->chat.text = (str){0};
    str_drop(&a->chat.text);
    return true;
}

/* Tokens of a prompt, as for -p. */
static bool ask__encode(const ask_env *env, ask_ready *a, req_prompt *p, tok_ids *ids, err_t *e) {
    const tok_vocab  *v = env->eng->v;
    const embed_opts *o = a->q.ask.embeds ? env->embed : NULL;
    str               own = {0};
    bytes             text = p->text;
    const bool        given = p->ids.n > 0;
    bool              ok = true;
    const size_t      before = o && o->prefix ? strlen(o->prefix) : 0;
    if (given) *ids = p->ids, p->ids = (tok_ids){0};
    if (!given && before) str_put(&own, o->prefix), str_cat(&own, p->text), text = str_bytes(&own);
    for (size_t i = 0; i < p->n_data; i++) p->data[i].from += before, p->data[i].to += before;
    if (!given) {
        unsigned flags = tok_raw_flags(v, text, env->bos, env->special) | (o && tok_add_eos(v) ? TOK_EOS : 0);
        if (flags & TOK_BEGUN && p->n_data && !p->data[0].from) flags ^= TOK_BEGUN | TOK_BOS;    /* data is no start token */
        a->n_begun += (flags & TOK_BEGUN) != 0;
        ok = tok_encode_spans(v, text, p->data, p->n_data, flags, ids, e);
    }
    if (ok && o && embed_cut(o, ids, !given && tok_add_eos(v))) a->n_cut++;
    str_drop(&own);
    return ok;
}

/* Tokens of a query and a document, as the model reads pairs: by its template of that name, else one after the other. */
static bool ask__encode_pair(const ask_env *env, const ask_ready *a, bytes document, tok_ids *ids, err_t *e) {
    const engine    *eng = env->eng;
    const tok_vocab *v = eng->v;
    const bytes      marks[2] = {bytes_of("{query}"), bytes_of("{document}")}, texts[2] = {a->query, document};
    bytes            form = {0};
    str              text = {0};
    tok_span         span[2];
    size_t           at = 0, n = 0;
    if (gguf_get_str(eng->g, "tokenizer.chat_template.rerank", &form, e) != 1) {
        const bool twice = strcmp(tok_model_name(v), "t5") == 0;      /* XLM-RoBERTa has two tokens between the texts */
        const unsigned begin = tok_bos(v) >= 0 ? TOK_BOS : 0, end = tok_eos(v) >= 0 ? TOK_EOS : 0;
        if (e->code || !tok_encode(v, a->query, begin | end, ids, e)) return false;
        if (twice && tok_eos(v) >= 0) tok_ids_add(ids, tok_eos(v));
        return tok_encode(v, document, end, ids, e);
    }
    while (at < form.n) {
        int which = 0;
        while (which < 2 && !bytes_begins(bytes_slice(form, at, form.n), marks[which])) which++;
        if (which == 2 || n == 2) {
            str_add(&text, form.p + at++, 1);
            continue;
        }
        span[n].from = text.n;
        str_cat(&text, texts[which]);
        span[n++].to = text.n;
        at += marks[which].n;
    }
    const bool ok = tok_encode_spans(v, str_bytes(&text), span, n, TOK_SPECIAL | (tok_add_bos(v) ? TOK_BOS : 0), ids, e);
    str_drop(&text);
    return ok;
}

/* Makes prompt i ready: NULL, or as ask_make(). */
static const char *ask__make_one(const ask_env *env, ask_ready *a, int i, err_t *why) {
    err_t       one = {0};
    const bool  known = a->q.chat    ? ask__encode_chat(env, a, &a->ids[i], &one)
                        : a->query.p ? ask__encode_pair(env, a, a->q.prompt[i].text, &a->ids[i], &one)
                                     : ask__encode(env, a, &a->q.prompt[i], &a->ids[i], &one);
    const bool  fits = known && gen_fits(env->eng, &a->ids[i], &one);
    const char *what = known && a->ids[i].n ? "context_length_exceeded" : req_invalid;
    a->n_ids += a->ids[i].n;
    if (fits) return NULL;
    if (a->q.n_prompt == 1) *why = one;
    else err_set(why, one.code, "prompt %d of %d: %.500s", i + 1, a->q.n_prompt, one.text);
    return what;
}

/* The width of vectors is the model's. */
static bool ask__fits_width(const ask_env *env, const req *q, err_t *why) {
    const int width = embed_width(&env->eng->m, &q->ask.embed);
    return !q->dims || q->dims == width ||
           err_set(why, EXIT_INPUT, "dimensions: found %d, expected the %d of the model, or no such key", q->dims, width);
}

/* The number of an adapter that a request names; -1: there is none, and why is set. */
static int ask__adapter(const lora *l, const req_adapter *want, err_t *why) {
    const int n = l ? l->n : 0, i = !n ? -1 : want->name.p ? lora_find(l, want->name) : want->id < n ? want->id : -1;
    char      name[120];
    if (i >= 0) return i;
    if (want->name.p) snprintf(name, sizeof name, "\"%.*s\"", (int)min_size(want->name.n, 100), (const char *)want->name.p);
    else snprintf(name, sizeof name, "number %d", want->id);
    if (!n) err_set(why, EXIT_INPUT, "lora: found %s, but no adapter is loaded (--lora)", name);
    else if (n == 1) err_set(why, EXIT_INPUT, "lora: found %s, expected the one adapter, \"%s\"", name, l->of[0].name);
    else err_set(why, EXIT_INPUT, "lora: found %s, expected one of %d adapters, \"%s\" to \"%s\"", name, n, l->of[0].name,
                 l->of[n - 1].name);
    return -1;
}

/* scale [adapters of l] becomes that of the adapters that a request names, 0 of the others. One that is named without a scale
 * has that of --lora, or 1 where that is 0. False: it names one that is not there, and why is set. */
static bool ask_scales(const lora *l, const req *q, float *scale, err_t *why) {
    for (int i = 0; l && i < l->n; i++) scale[i] = 0;
    for (int k = 0; k < q->n_adapter; k++) {
        const req_adapter *want = &q->adapter[k];
        const int          i = ask__adapter(l, want, why);
        if (i < 0) return false;
        scale[i] = !isnan(want->scale) ? want->scale : l->of[i].named != 0 ? l->of[i].named : 1;
    }
    return true;
}

/* The adapters that a request names, in place of those of the run. */
static bool ask__adapters(const ask_env *env, ask_ready *a, err_t *why) {
    const lora  *l = env->eng->adapters;
    const size_t n = l ? (size_t)l->n : 0;
    if (!a->q.adapts && !(l && env->scales)) return true;
    float *scale = mem_new(n, sizeof *scale);
    bool   ok = true;
    if (a->q.adapts) ok = ask_scales(l, &a->q, scale, why);
    else memcpy(scale, env->scales, n * sizeof *scale);
    if (ok && l) a->q.ask.adapters = a->adapters = lora_use(l, scale);
    mem_free(scale);
    return ok;
}

/* Tokens of all prompts of a request that was read, and its checks that need the model. NULL: it can run; else the error's name,
 * and why is set. */
static const char *ask_make(const ask_env *env, ask_ready *a, err_t *why) {
    const char *what = ask__adapters(env, a, why) ? NULL : req_invalid;
    a->ids = mem_new((size_t)a->q.n_prompt, sizeof *a->ids);
    for (int i = 0; !what && i < a->q.n_prompt; i++) what = ask__make_one(env, a, i, why);
    if (!what && a->q.ask.embeds && (!embed_check(&env->eng->m, &a->q.ask.embed, why) || !ask__fits_width(env, &a->q, why)))
        what = req_invalid;
    if (!what && !samp_check(&a->q.ask.samp, env->eng->m.hp.n_vocab, why)) what = req_invalid;
    if (what) ask_hide_paths(env, why);
    return what;
}

/* Compiles the constraint of a request, if it has one. False: it is refused, or an interrupt came. */
static bool ask_hold(const ask_env *env, ask_ready *a, err_t *why) {
    req *q = &a->q;
    bool ok = !q->chat || chat_hold(env->chat, &q->input, &a->chat, &q->hold, why);
    if (ok && q->hold.kind != CONSTRAIN_NONE) {
        q->ask.constrain = a->held = constrain_get(env->holds, &q->hold, why);
        ok = a->held != NULL;
        if (q->hold.kind == CONSTRAIN_CALLS || q->hold_text.n) str_cat(&q->warnings, constrain_notes(a->held));
    }
    if (!ok) ask_hide_paths(env, why);
    return ok;
}

/* The completions of prompt i, as [sched] takes them. */
static gen_request ask_request(const ask_ready *a, int i, void *owner) {
    gen_request r = a->q.ask;
    r.prompt = &a->ids[i];
    r.index = i * r.n;
    r.owner = owner;
    r.share = a->q.n;
    return r;
}

/* Sorts the n texts of a chat's answers into their parts, [n], which the caller drops and frees. NULL: it is no chat. */
static chat_answer *ask_parts(const ask_ready *a, const gen_answer *answer) {
    if (!a->q.chat) return NULL;
    chat_answer *said = mem_new((size_t)a->q.n, sizeof *said);
    for (int i = 0; i < a->q.n; i++) {
        chat_reader *r = chat_reader_new(&a->chat, ask_tools(&a->q));
        chat_reader_feed(r, str_bytes(&answer[i].text), true, NULL, NULL);
        chat_reader_finish(r, &said[i]);
    }
    return said;
}
