/* ===== [text] one answer, its text streamed =====
 * One request of a schedule, whose text is written as it comes: all of it that can no longer become a stop string. On a
 * terminal it is written so that it cannot steer the terminal; elsewhere it is the exact bytes.
 * Public: text_opts, text_plan, text_turn, text_tokens, text_finished, text_warn_loop, text_run.
 * Opens: text_opts, text_stats. */

typedef struct {
    bool        ids;                                  /* token ids are written in place of text */
    const char *json;                                 /* the model's name in an answer that is a JSON object, NULL: it is text */
    bytes       echo;                                 /* the prompt's text, written before the answer; p NULL: it is not */
    bool        newline;                              /* the answer ends with a newline wherever it goes; else on a terminal */
    chat_reader *reader;                              /* sorts the text, of which the content is the answer; NULL: all of it is */
    bool        think_show;                           /* its thinking is written to stderr */
} text_opts;

enum { TEXT_LONG = 100 };                             /* tokens from which a prompt is worth a progress line */

/* The engine for one request of at most n_need positions, 0: no limit, with n_guess rows of guesses. */
static engine_plan text_plan(const engine_opts *fo, int64_t n_need, int n_guess) {
    return (engine_plan){.n_need = n_need, .n_seqs = 1, .n_rows = max_int(fo->n_batch, n_guess + 1), .n_out = 1 + n_guess,
                         .pairs = true, .pack = ENGINE_PACK_LATER};
}

/* Where the text goes. Its end that may yet become a stop string is held back, and so are the tokens of that end. */
typedef struct {
    out_t             *out;
    const text_opts   *o;
    const gen_request *r;
    const gen_answer  *a;                             /* so far */
    size_t             certain;                       /* bytes of the text that can no longer become a stop string */
    str                content;                       /* with a reader: the part of that text which is the answer */
    str                thinking;                      /* with a reader: its thinking */
    size_t             written;                       /* bytes of the answer that are out */
    size_t             n_thinking;                    /* bytes of the thinking that are out */
    int                n_written;                     /* text_opts.ids: tokens that are out */
    bool               terminal;                      /* out is one */
    bool               any;                           /* something has been written */
    char               last;                          /* the last byte of it */
    screen_text        shown, aside;                  /* on a terminal: where lines of the answer end, and of its thinking */
    bool               dim;                           /* the last thing on stderr is thinking, without the end of its line */
} text_sink;

static bool text__write(text_sink *s, const void *p, size_t n) {
    if (!n) return true;
    s->any = true;
    s->last = ((const char *)p)[n - 1];
    return out_put(s->out, p, n) && out_flush(s->out);
}

/* The same for text that nobody here chose. Returns in *used the bytes that were taken: on a terminal the end of b may
 * be a character that is not whole yet. What a constraint has made keeps its lines, so that it can be copied. */
static bool text__show(text_sink *s, bytes b, bool ended, size_t *used) {
    str seen = {0}, lines = {0};
    *used = b.n;
    if (!s->terminal) return text__write(s, b.p, b.n);
    *used = str_visible(&seen, b, ended);
    screen_flow(&s->shown, str_bytes(&seen), ended, s->r->constrain ? 0 : screen_columns(fileno(s->out->f)), &lines);
    const bool ok = text__write(s, lines.p, lines.n);
    str_drop_all(&seen, &lines);
    return ok;
}

/* n token ids with blanks between them. */
static bool text__write_ids(text_sink *s, const int32_t *id, size_t n) {
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        char num[16];
        int  len = snprintf(num, sizeof num, s->any ? " %d" : "%d", id[i]);
        ok = text__write(s, num, (size_t)len);
    }
    return ok;
}

/* Gets the parts of the answer from its reader. Calls are written as content is, on lines of their own. */
static void text__take(void *ctx, chat_channel channel, bytes part) {
    text_sink *s = ctx;
    if (channel == CHAT_CALLS && s->content.n && s->content.p[s->content.n - 1] != '\n') str_put(&s->content, "\n");
    str_add(channel == CHAT_THINKING ? &s->thinking : &s->content, part.p, part.n);
}

/* Writes the thinking to stderr, dimmed on a terminal; and the end of its line where the answer begins. */
static void text__show_thinking(text_sink *s, bool over) {
    const bytes some = {(const uint8_t *)s->thinking.p + s->n_thinking, s->thinking.n - s->n_thinking};
    str         seen = {0}, lines = {0};
    if (!s->o->think_show || (!some.n && !(s->dim && over))) return;
    s->n_thinking += str_visible(&seen, some, over);
    screen_flow(&s->aside, str_bytes(&seen), over, screen_columns(STDERR_FILENO), &lines);
    if (lines.n) screen_aside(str_bytes(&lines));
    s->dim = s->dim || some.n;
    if (s->dim && over) {
        screen_aside(bytes_of("\n"));
        s->dim = false;
    }
    str_drop_all(&seen, &lines);
}

/* The answer as far as it is certain. */
static bytes text__answer(text_sink *s) {
    const gen_answer *a = s->a;
    const gen_opts   *go = &s->r->gen;
    const size_t      to = a->finish ? a->text.n : a->text.n - gen_may_stop(&a->text, s->certain, go->stop, go->n_stop);
    const bytes       all = {(const uint8_t *)a->text.p, s->certain = max_size(to, s->certain)};
    if (!s->o->reader) return all;
    chat_reader_feed(s->o->reader, all, a->finish != GEN_RUNNING, text__take, s);
    text__show_thinking(s, s->content.n || a->finish);
    return str_bytes(&s->content);
}

/* Writes what is certain by now, as text or as the tokens whose text ends there. False: it cannot be written. */
static bool text__report(text_sink *s) {
    const bytes t = text__answer(s);
    const bool  ended = s->a->finish != GEN_RUNNING;
    size_t      used = t.n - s->written;
    bool        ok = !s->out->why;
    if (!s->o->json && !s->o->ids && (used || (ended && t.n))) ok = text__show(s, (bytes){t.p + s->written, used}, ended, &used);
    s->written += used;
    if (!s->o->ids || s->o->json) return ok;          /* JSON is written in the end */
    for (; ok && s->n_written < s->a->n_tok && s->a->tok[s->n_written].end <= s->certain; s->n_written++)
        ok = text__write_ids(s, &s->a->tok[s->n_written].id, 1);
    return ok;
}

/* What is still held back, and the end of the line. */
static void text__finish(text_sink *s) {
    text__report(s);
    if (s->o->json) return;
    /* An empty answer is an empty line in a pipe and nothing on a terminal; -n 0 asks for none. */
    const bool line = s->terminal ? s->any : s->o->newline && s->r->gen.n_predict != 0;
    if (s->o->ids || (line && !(s->any && s->last == '\n'))) text__write(s, "\n", 1);
}

/* Counts the prompt's tokens until all are read. */
static void text__progress(const engine *eng, engine_meter *m, const gen_answer *a) {
    const int all = a->n_prompt - a->n_cached, left = a->n_prompt - a->n_read;
    if (left <= 0 || a->n_tok || a->finish) {
        meter_stop(m);
        return;
    }
    m->all = all;
    m->done = all - left;
    m->step = min_int(left, eng->chunk);
}

typedef struct {                                      /* for the summary */
    int    n_prompt;                                  /* tokens of the prompt that were read */
    double prompt_s;                                  /* seconds of reading it */
    double first_s;                                   /* seconds from the program's start to the first token */
    double gen_s;                                     /* seconds of the others after it */
} text_stats;

/* Why the answer ended. */
static void text__why(const gen_answer *a, const tok_vocab *v, str *s) {
    switch (a->finish) {
    case GEN_END_TOKEN:
        str_fmt(s, "end token %d ", a->end_token);
        str_json(s, tok_text(v, a->end_token));
        break;
    case GEN_STOP_TEXT: str_put(s, "a stop text"); break;
    case GEN_LENGTH: str_fmt(s, "%d tokens, as many as -n allows", a->n_tok); break;
    case GEN_CONTEXT: str_put(s, "the context is full"); break;
    case GEN_LOOPED: str_fmt(s, "a loop of %d token%s", a->period, a->period == 1 ? "" : "s"); break;
    case GEN_CLOSED: str_put(s, "the constraint, which lets nothing follow"); break;
    default: str_put(s, g_interrupt ? "interrupted" : "nobody reads it any more");
    }
}

/* An empty answer gets a warning with the reason, or a person would look for it. */
static void text__warn_empty(const engine *eng, const gen_request *r, const text_opts *o, const gen_answer *a) {
    const chat_answer *parts = o->reader ? chat_reader_answer(o->reader) : NULL;
    str                why = {0};
    if ((parts ? parts->content.n || parts->calls.n : a->text.n) || !r->gen.n_predict || a->finish == GEN_CANCELLED) return;
    text__why(a, eng->v, &why);
    log_warn("the answer is empty: %s came %s%s", why.p,
             parts && parts->thinking.n ? "inside its thinking (--think show shows it)" : "first",
             !parts && chat_has_template(eng->g) ? "; the model has a chat template, and the prompt was raw, without it" : "");
    str_drop(&why);
}

/* An answer that was cut before its constraint was met is an error, EXIT_NO, with the reason. Whether it is finished. */
static bool text_finished(const tok_vocab *v, const gen_answer *a, err_t *e) {
    str why = {0};
    if (!a->unfinished) return true;
    text__why(a, v, &why);
    err_set(e, EXIT_NO, "the answer is unfinished: %s; its constraint is not met", why.p);
    str_drop(&why);
    return false;
}

/* An answer that ended because it repeats itself gets a warning. */
static void text_warn_loop(const gen_request *r, const gen_answer *a) {
    if (a->finish == GEN_LOOPED)
        log_warn("the answer ends in a loop: its last %d tokens repeat with a period of %d (--loop-stop off goes on)",
                 gen_loop_stop(&r->gen), a->period);
}

/* "N tokens in S s (R tokens/s)"; without a time where nothing was timed. */
static void text__rate(str *s, int n, int timed, double seconds) {
    str_fmt(s, "%d token%s", n, n == 1 ? "" : "s");
    if (timed > 0 && seconds > 0) str_fmt(s, " in %.3f s (%.2f tokens/s)", seconds, timed / seconds);
}

/* The same as a line with a name. */
static void text_tokens(str *s, const char *name, int n, int timed, double seconds) {
    str_fmt(s, "llmrun: %-11s ", name);
    text__rate(s, n, timed, seconds);
    str_put(s, "\n");
}

/* What else is known of a run, for -v. */
static void text__details(const engine *eng, const spec *guesser, const gen_request *r, const gen_answer *a, str *s) {
    str_fmt(s, "llmrun: load        %.3f s, %s kernels, %d thread%s\n", eng->t_open, k_level_name(), eng->p->n,
            eng->p->n > 1 ? "s" : "");
    spec_report(guesser, s);
    spec_report_forced(guesser, a->n_tok, s);
    constrain_report(r->constrain, s);
    str_fmt(s, "llmrun: KV cache    %.1f MiB\n", (double)kv_bytes_peak(eng->kv) / 1048576);
    engine_put_layout(eng, s);
    str_put(s, "llmrun: ended by    ");
    text__why(a, eng->v, s);
    str_put(s, "\n");
}

/* What the run took: two lines for stderr. */
static void text__summary(const engine *eng, const spec *guesser, const gen_request *r, const gen_answer *a,
                          const text_stats *st) {
    struct rusage ru;
    str           s = {0};
    if (g_log_level < LOG_NORMAL) return;
    getrusage(RUSAGE_SELF, &ru);
    str_put(&s, "llmrun: prompt ");
    text__rate(&s, st->n_prompt, st->n_prompt, st->prompt_s);
    if (a->n_cached) str_fmt(&s, " after %d from %s", a->n_cached, eng->kv->opts.cache);
    str_put(&s, ", generated ");
    text__rate(&s, a->n_tok, a->n_tok - 1, st->gen_s);
    str_fmt(&s, "\nllmrun: seed %llu, ", (unsigned long long)r->seed);
    if (a->n_tok) str_fmt(&s, "first token after %.3f s, ", st->first_s);
    str_fmt(&s, "%.1f MiB at the peak with the mapped model\n", (double)ru.ru_maxrss / 1024);
    if (g_log_level >= LOG_VERBOSE) text__details(eng, guesser, r, a, &s);
    screen_aside(str_bytes(&s));
    str_drop(&s);
}

/* ,"NAME_s":S,"NAME_tokens_per_s":R for n tokens, null where nothing was timed. */
static void text__json_rate(jw *w, const char *name, int n, double seconds) {
    const bool timed = n > 0 && seconds > 0;
    char       key[64];
    snprintf(key, sizeof key, "%s_s", name);
    jw_number(w, key, 6, timed ? seconds : (double)NAN);
    snprintf(key, sizeof key, "%s_tokens_per_s", name);
    jw_number(w, key, 6, timed ? n / seconds : (double)NAN);
}

/* "text":"...", and what an answer of a chat has beside its content. */
static void text__json_parts(const text_sink *sink, jw *w) {
    const chat_answer *parts = sink->o->reader ? chat_reader_answer(sink->o->reader) : NULL;
    const bytes        text = str_bytes(parts ? &parts->content : &sink->a->text);
    jw_text(w, "text", text);
    jw_bytes(w, text);
    if (parts && parts->thinking.n) jw_text(w, "reasoning_content", str_bytes(&parts->thinking));
    if (parts && parts->calls.n) chat_put_calls(&parts->calls, "tool_calls", w);
}

/* The answer as one JSON object on a line. */
static void text__json(const engine *eng, const text_sink *sink, const text_stats *st) {
    const gen_answer *a = sink->a;
    chat_reader      *reader = sink->o->reader;
    const char       *finish = reader ? chat_finish_name(chat_reader_answer(reader), a->finish) : gen_finish_names[a->finish];
    str               s = {0};
    jw                w = jw_tight(&s);
    jw_open(&w, NULL, '{');
    jw_str(&w, "model", sink->o->json);
    text__json_parts(sink, &w);
    jw_maybe(&w, "finish_reason", bytes_of(finish ? finish : ""), finish != NULL);
    jw_open(&w, "tokens", '[');
    for (int i = 0; i < a->n_tok && a->tok[i].end <= a->text.n; i++) jw_fmt(&w, NULL, "%d", a->tok[i].id);
    jw_close(&w, ']');
    jw_fmt(&w, "prompt_tokens", "%d", a->n_prompt);
    jw_fmt(&w, "cached_tokens", "%d", a->n_cached);
    jw_fmt(&w, "completion_tokens", "%d", a->n_tok);
    jw_fmt(&w, "seed", "%llu", (unsigned long long)sink->r->seed);
    jw_open(&w, "times", '{');
    jw_number(&w, "load_s", 6, eng->t_open);
    jw_number(&w, "first_token_s", 6, a->n_tok ? st->first_s : (double)NAN);
    text__json_rate(&w, "prompt", st->n_prompt, st->prompt_s);
    text__json_rate(&w, "generation", a->n_tok - 1, st->gen_s);
    jw_close(&w, '}');
    jw_close(&w, '}');
    str_put(&s, "\n");
    out_put(sink->out, s.p, s.n);
    str_drop(&s);
}

/* Steps until the answer ends, nothing can be written, or an interrupt comes. */
static void text__loop(sched *sc, text_sink *s, text_stats *st, err_t *e) {
    const gen_answer *a = s->a;
    const double      t0 = clock_now();
    double            t_first = 0;
    engine_meter      meter;
    meter_start(&meter, sc->eng, "reading the prompt", a->n_prompt, a->n_prompt < TEXT_LONG ? METER_QUIET_S : 0);
    text__progress(sc->eng, &meter, a);
    while (!g_interrupt && !a->finish && sched_step(sc, a->n_tok ? s->r->gen.n_predict : 0, e)) {
        text__progress(sc->eng, &meter, a);
        if (!t_first && (a->n_tok || a->finish)) {
            t_first = clock_now();
            st->prompt_s = t_first - t0;
        }
        if (!text__report(s)) break;
    }
    meter_stop(&meter);
    const double now = clock_now();
    st->n_prompt = (a->n_tok || a->finish ? a->n_prompt : a->n_read) - a->n_cached;
    if (!t_first) st->prompt_s = now - t0;
    if (!a->n_tok) return;
    st->first_s = t_first - sc->eng->t_start;
    st->gen_s = now - t_first;
}

/* The sampler chain, for -v. */
static void text__show_chain(const engine *eng, const gen_request *r) {
    str   s = {0};
    err_t none = {0};
    samp *sm = g_log_level < LOG_VERBOSE ? NULL : samp_new(&r->samp, eng->m.hp.n_vocab, r->seed, 0, &none);
    if (!sm) return;
    samp_describe(sm, &s);
    log_info("sampling    %s", s.p);
    str_drop(&s);
    samp_free(sm);
}

/* The prompt, before the answer: its bytes, or its token ids. False: it cannot be written. */
static bool text__echo(text_sink *s) {
    if (!s->o->echo.p) return true;
    size_t used;
    return s->o->ids ? text__write_ids(s, s->r->prompt->id, s->r->prompt->n) : text__show(s, s->o->echo, true, &used);
}

/* Adds r, one completion, to a schedule with nothing to do, streams its answer to out and moves it to *a, which the
 * caller drops. False: e says why there is none, or what ended all answers; what ended this one alone is in a->err. */
static bool text_turn(sched *sc, const gen_request *r, const text_opts *o, out_t *out, text_stats *st, gen_answer *a, err_t *e) {
    text_sink s = {.out = out, .o = o, .r = r, .terminal = isatty(fileno(out->f))};
    ASSERT(r->n == 1 && sched_idle(sc));
    *a = (gen_answer){0};
    if (!(s.a = sched_add(sc, r, e)) || !out_begin(out, e)) return false;
    if (text__echo(&s)) text__loop(sc, &s, st, e);
    if (!s.a->finish) sched_cancel(sc);
    sched_take(sc, a);
    s.a = a;
    text__finish(&s);
    if (!e->code && !a->err.code && o->json) text__json(sc->eng, &s, st);
    screen_drop(&s.shown);
    screen_drop(&s.aside);
    str_drop_all(&s.content, &s.thinking);
    return !e->code;
}

/* Streams the answer to r, one completion, to out; guesser: NULL, or one for a single sequence. False: e says what went wrong.
 * An answer that does not meet its constraint sets cut, as text_finished() does. */
static bool text_run(engine *eng, spec *guesser, const gen_request *r, const text_opts *o, out_t *out, err_t *cut, err_t *e) {
    const sched_opts alone = {.n_seqs = 1};
    sched           *sc = sched_new(eng, guesser, &alone, e);
    text_stats       st = {0};
    gen_answer       a = {0};
    if (sc) text__show_chain(eng, r);
    const bool ok = sc && text_turn(sc, r, o, out, &st, &a, e);
    if (ok) *e = a.err;
    text_warn_loop(r, &a);
    if (a.finish == GEN_CONTEXT)
        log_warn("the context is full at %d tokens (-c, --kv-mem and --kv-blocks bound it%s)", eng->n_ctx,
                 r->gen.context_shift ? "" : "; --context-shift goes on without the oldest");
    if (ok && !e->code && !out->why) text__warn_empty(eng, r, o, &a);
    if (ok && !e->code && !out->why) text__summary(eng, guesser, r, &a, &st);
    if (ok && !e->code && !out->why) text_finished(eng->v, &a, cut);
    gen_answer_drop(&a);
    sched_free(sc);
    return !e->code;
}
