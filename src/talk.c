/* ===== [talk] a conversation =====
 * -i: reads a message, streams the answer, and again. Every turn is the whole conversation through the model's
 * template; one schedule with a shared cache answers all turns, so that tokens which are as before are not computed
 * again. Each turn draws with the seed of the run, so turn k is what the same messages give in one command; /regen
 * draws as the next completion of a batch line with n does.
 *   A line that begins with a slash is a command, a row of talk_commands. What commands and turns say goes to standard
 * error, an answer to the output. A message that gets no answer is taken back: the conversation goes on from the last
 * answer.
 * To add a command: 1 a function talk__NAME; 2 its row in talk_commands, of which /help and the man page are made; 3 its name
 * and what it does in the case talk_commands of tests/talk.py, which fails for a command that it does not list.
 * Public: talk_opts, talk_plan, talk_commands, TALK_COMMANDS, talk_describe, talk_start_editor, talk_run.
 * Opens: talk_opts, talk_command. */

typedef struct {
    text_opts   text;
    out_t      *out;
    bytes       first;                                /* the first message, p NULL: none */
    const constrain_spec *hold;                       /* the constraint of every answer */
    constrain_cache *holds;

    /* What [talk] asks of the command line; all get ctx. */
    /* sets one parameter of sampling, "": leaves it; appends its name and value */
    bool      (*set)(void *ctx, const char *name, const char *value, gen_request *ask, str *out, err_t *e);
    void      (*list)(void *ctx, str *out);           /* all of them, with their values */
    bool      (*open)(void *ctx, const char *path, out_t *out, err_t *e);   /* a file to write */
    void       *ctx;
} talk_opts;

typedef struct {
    long long turns;                                  /* answers */
    long long kept;                                   /* tokens of prompts that the cache had */
    long long read;                                   /* tokens of prompts that were read */
    double    read_s;                                 /* seconds of that */
    long long written;                                /* tokens of answers */
    double    write_s;                                /* seconds of that */
} talk_sums;

typedef struct {
    engine          *eng;
    spec            *guesser;
    chat            *chat;
    chat_input      *in;
    const talk_opts *o;
    gen_request      ask;                             /* of every turn, but for its prompt */
    sched           *sc;
    term_input      *term;
    str              ahead;                           /* text of /read that comes before the next message */
    str              unsent;                          /* the last message, taken back because the context was full; empty: none */
    bool             full;                            /* the last prompt had more tokens than the context */
    int              again;                           /* /regen since the last message */
    bool             warned;                          /* what a person should know of the prompts was said */
    long long        lost;                            /* messages without an answer */
    long long        cut;                             /* answers that do not meet their constraint */
    talk_sums        sums;
    bool             over;                            /* the conversation ends */
    err_t           *e;                               /* what ends the run */
} talk_job;

/* The engine for one conversation: a sequence that finds what earlier turns left in the cache. */
static engine_plan talk_plan(const engine_opts *fo, int n_guess) { return sched_plan(fo, 1, n_guess, NULL); }

/* --- what is said on standard error --- */

/* Appends a text in lines of the window's width less `indent` columns; one line where the window is narrow or there is none. */
static void talk__lines(bytes text, int indent, str *out) {
    screen_text flow = {0};
    const int   columns = screen_columns(STDERR_FILENO);
    screen_flow(&flow, text, true, columns > 2 * indent ? columns - indent : 0, out);
    screen_drop(&flow);
}

__attribute__((format(printf, 1, 2))) static void talk__say(const char *fmt, ...) {
    char    line[1024];
    str     lines = {0};
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    const size_t whole = (size_t)(n < (int)sizeof line ? n : utf8_head(bytes_of(line), sizeof line - 4));
    talk__lines((bytes){(const uint8_t *)line, whole}, 0, &lines);
    str_put(&lines, "\n");
    log_text(str_bytes(&lines));
    str_drop(&lines);
}

/* --- messages --- */

static val_list *talk__messages(const talk_job *k) { return val_get(k->in->vars, "messages").list; }

static bool talk__is(val message, const char *role) { return val_is_str(val_get(message, "role"), role); }

/* The content of a message where it is one text. */
static void talk__content(val message, str *out) {
    const val content = val_get(message, "content");
    str_put(out, "");
    if (content.kind == VAL_STR) val_utf8(content.s, out);
}

/* Number of messages before the last one of a user; -1: there is none. */
static int64_t talk__last_asked(const talk_job *k) {
    const val_list *l = talk__messages(k);
    int64_t         i = (int64_t)l->n - 1;
    while (i >= 0 && !talk__is(l->at[i], "user")) i--;
    return i;
}

/* The first call of a tool in the last answer whose result is missing; undefined: there is none. */
static val talk__call(const talk_job *k) {
    const val_list *l = talk__messages(k);
    size_t          n = 0;
    while (n < l->n && talk__is(l->at[l->n - 1 - n], "tool")) n++;
    const val last = n < l->n ? l->at[l->n - 1 - n] : val_none(), calls = val_get(last, "tool_calls");
    return talk__is(last, "assistant") && calls.kind == VAL_LIST && n < calls.list->n ? calls.list->at[n] : val_undef(NULL);
}

static bool talk__calls(const talk_job *k) { return talk__call(k).kind != VAL_UNDEF; }

/* Whether the last message waits for an answer. */
static bool talk__asked(const talk_job *k) {
    const val_list *l = talk__messages(k);
    const val       last = l->n ? l->at[l->n - 1] : val_none();
    return talk__is(last, "user") || (talk__is(last, "tool") && !talk__calls(k));
}

/* --- a turn --- */

/* Messages from number n on are gone; e says why there is no answer to them. */
static void talk__take_back(talk_job *k, size_t n, const err_t *e) {
    val_list *l = talk__messages(k);
    str_clear(&k->unsent);
    if (k->full) talk__content(l->at[l->n - 1], &k->unsent);
    l->n = min_size(l->n, n);
    k->lost++;
    log_error("%s; the message is taken back", e->text);
}

/* Says how many tokens the turn took, and counts them. */
static void talk__count(talk_job *k, const gen_answer *a, const text_stats *st) {
    talk_sums *s = &k->sums;
    str        line = {0};
    s->turns++;
    s->kept += a->n_cached;
    s->read += st->n_prompt;
    s->read_s += st->prompt_s;
    s->written += a->n_tok;
    s->write_s += st->gen_s;
    str_fmt(&line, "llmrun: turn %lld: %d token%s kept, %d read in %.3f s, %d written", s->turns, a->n_cached,
            a->n_cached == 1 ? "" : "s", st->n_prompt, st->prompt_s, a->n_tok);
    if (a->n_tok > 1 && st->gen_s > 0) str_fmt(&line, " in %.3f s (%.2f tokens/s)", st->gen_s, (a->n_tok - 1) / st->gen_s);
    str_put(&line, "\n");
    if (g_log_level >= LOG_NORMAL) screen_aside(str_bytes(&line));
    str_drop(&line);
}

/* What helps where the context is full. */
static void talk__full(const talk_job *k, str *out) {
    const int most = k->eng->m.hp.n_ctx_train, now = k->eng->n_ctx;
    str_put(out, "/shift drops the oldest turns, /undo takes back the last one, /clear begins anew");
    if (now < most) str_fmt(out, ", -c %d gives all that the model was trained with", most);
}

/* The conversation as the tokens of a prompt, which the context may be too small for. */
static bool talk__encode(talk_job *k, chat_prompt *p, err_t *e) {
    return chat_input_check(k->in, e) && chat_make_prompt(k->chat, k->in, p, e);
}

/* The same where the context holds them. */
static bool talk__prompt(talk_job *k, chat_prompt *p, err_t *e) {
    str help = {0};
    k->full = false;
    if (!talk__encode(k, p, e)) return false;
    if (chat_warning(p) && !k->warned) log_warn("%s", chat_warning(p)), k->warned = true;
    if (p->ids.n <= (size_t)k->eng->n_ctx) return true;
    k->full = true;
    talk__full(k, &help);
    err_set(e, EXIT_INPUT, "the conversation has %zu tokens, the context holds %d: %s", p->ids.n, k->eng->n_ctx, help.p);
    str_drop(&help);
    return false;
}

/* What is said after an answer. */
static void talk__remark(talk_job *k, const gen_request *r, const gen_answer *a, const text_stats *st) {
    str   help = {0};
    err_t cut = {0};
    talk__count(k, a, st);
    if (!text_finished(k->eng->v, a, &cut)) log_error("%s", cut.text), k->cut++;
    text_warn_loop(r, a);
    if (a->finish != GEN_CONTEXT) return;
    talk__full(k, &help);
    log_warn("the context is full at %d tokens: %s", k->eng->n_ctx, help.p);
    str_drop(&help);
}

/* The constraint of the answer to a prompt. */
static bool talk__hold(const talk_job *k, chat_prompt *p, gen_request *r, err_t *e) {
    constrain_spec o = *k->o->hold;
    if (!chat_hold(k->chat, k->in, p, &o, e)) return false;
    return o.kind == CONSTRAIN_NONE || (r->constrain = constrain_get(k->o->holds, &o, e));
}

/* Answers the prompt: the answer joins the conversation. False: e says why there is none. */
static bool talk__answer(talk_job *k, chat_prompt *p, err_t *e) {
    gen_request  r = k->ask;
    text_opts    o = k->o->text;
    text_stats   st = {0};
    gen_answer   a;
    chat_answer  said = {0};
    r.prompt = &p->ids;
    r.index = k->again;
    chat_ask(k->chat, p, &r);
    if (!talk__hold(k, p, &r, e)) return false;
    o.reader = chat_reader_new(p, val_get(k->in->vars, "tools"));
    o.newline = true;
    o.think_show = k->chat->o.think_show;
    text_turn(k->sc, &r, &o, k->o->out, &st, &a, k->e);
    chat_reader_finish(o.reader, &said);
    const bool answered = !k->e->code && !a.err.code && (a.n_tok || a.finish != GEN_CANCELLED);
    if (answered) {
        chat_add_answer(k->in, &said);
        talk__remark(k, &r, &a, &st);
    } else if (a.err.code) *e = a.err;
    else err_set(e, EXIT_INPUT, "interrupted before the first token");
    chat_answer_drop(&said);
    gen_answer_drop(&a);
    constrain_close(r.constrain);
    return answered;
}

/* Ctrl-C ends an answer where a person reads it, every other signal the conversation. */
static void talk__heed(talk_job *k) {
    if (g_interrupt == SIGINT && term_person(k->term)) g_interrupt = 0;
    k->over = k->over || g_interrupt || k->e->code || k->o->out->why;
}

/* Asks the model. False: e says why there is no answer, or k->e is set. */
static bool talk__try(talk_job *k, err_t *e) {
    chat_prompt p = {0};
    const bool  ok = talk__prompt(k, &p, e) && talk__answer(k, &p, e);
    chat_prompt_drop(&p);
    return ok;
}

/* Answers the last message; messages from number n on are taken back where that fails. */
static void talk__turn(talk_job *k, size_t n) {
    err_t e = {0};
    if (!talk__try(k, &e) && !k->e->code) talk__take_back(k, n, &e);
    talk__heed(k);
}

/* Says which call of a tool the next message answers. */
static void talk__name_call(const talk_job *k) {
    const val name = val_get(val_get(talk__call(k), "function"), "name");
    str       text = {0};
    str_put(&text, "");
    if (name.kind == VAL_STR) val_utf8(name.s, &text);
    log_warn("the next message is what %.*s gives back", utf8_head(str_bytes(&text), 200), text.p);
    str_drop(&text);
}

/* Adds a message of the user, or the result of a tool that the last answer calls. */
static void talk__add(talk_job *k, bytes text) {
    const val  call = talk__call(k), name = val_get(val_get(call, "function"), "name"), id = val_get(call, "id");
    const bool result = call.kind != VAL_UNDEF;
    chat_add(k->in, result ? "tool" : "user", text);
    val_dict *m = talk__messages(k)->at[talk__messages(k)->n - 1].dict;
    if (result && name.kind == VAL_STR) val_put(&k->in->env, m, "name", name);
    if (result && id.kind == VAL_STR) val_put(&k->in->env, m, "tool_call_id", id);
}

/* A message and its answer. */
static void talk__ask(talk_job *k, bytes text) {
    const size_t n = talk__messages(k)->n;
    str_add(&k->ahead, text.p, text.n);
    talk__add(k, str_bytes(&k->ahead));
    str_clear(&k->ahead);
    str_clear(&k->unsent);
    k->again = 0;
    if (talk__asked(k)) talk__turn(k, n);
    if (talk__calls(k)) talk__name_call(k);
}

/* --- commands --- */

typedef struct {
    const char *name;                                 /* with its slash */
    const char *also[2];                              /* other names, or NULL */
    const char *args;                                 /* as /help shows them; "": it takes none */
    bool        needs;                                /* it does nothing without its argument */
    void      (*run)(talk_job *k, const char *arg);
    const char *help;
} talk_command;

static void talk__help(talk_job *k, const char *arg);   /* announced: it lists the table that names it */

static void talk__exit(talk_job *k, const char *arg) {
    (void)arg;
    k->over = true;
}

/* Messages of the system at the beginning. */
static size_t talk__heads(const talk_job *k) {
    const val_list *l = talk__messages(k);
    size_t          n = 0;
    while (n < l->n && (talk__is(l->at[n], "system") || talk__is(l->at[n], "developer"))) n++;
    return n;
}

/* Messages of the system at the beginning stay. */
static void talk__clear(talk_job *k, const char *arg) {
    const size_t n = talk__heads(k);
    (void)arg;
    talk__messages(k)->n = n;
    k->again = 0;
    str_clear(&k->ahead);
    str_clear(&k->unsent);
    talk__say(n ? "a new conversation; the system message stays" : "a new conversation");
}

/* Drops the oldest turn: all from behind the messages of the system to the next message of a user. False: it is the only one. */
static bool talk__drop_turn(talk_job *k) {
    val_list    *l = talk__messages(k);
    const size_t from = talk__heads(k);
    size_t       to = from + 1;
    while (to < l->n && !talk__is(l->at[to], "user")) to++;
    if (to >= l->n) return false;
    memmove(l->at + from, l->at + to, (l->n - to) * sizeof *l->at);
    l->n -= to - from;
    return true;
}

/* Tokens of the conversation as a prompt. False: it has none, and e says why. */
static bool talk__size(talk_job *k, size_t *n, err_t *e) {
    chat_prompt p = {0};
    const bool  ok = talk__encode(k, &p, e);
    *n = p.ids.n;
    chat_prompt_drop(&p);
    return ok;
}

/* Drops turns, but not the last one, until the rest takes half of the context at most, then sends the message that was taken back
 * because the context was full. */
static void talk__shift(talk_job *k, const char *arg) {
    const bool   send = k->unsent.n;
    const size_t most = (size_t)k->eng->n_ctx / 2;
    size_t       n = 0;
    int          dropped = 0;
    err_t        e = {0};
    (void)arg;
    if (send) talk__add(k, str_bytes(&k->unsent));
    while (talk__size(k, &n, &e) && n > most && talk__drop_turn(k)) dropped++;
    str_clear(&k->unsent);
    if (e.code) talk__say("%s", talk__heads(k) < talk__messages(k)->n ? e.text : "there is no turn to drop");
    else
        talk__say("%d turn%s dropped%s; the conversation has %zu tokens, the context holds %d", dropped, dropped == 1 ? "" : "s",
                  n > most ? ", the last one stays" : "", n, k->eng->n_ctx);
    if (!send) return;
    k->lost--;
    talk__turn(k, talk__messages(k)->n - 1);
}

static void talk__undo(talk_job *k, const char *arg) {
    const int64_t at = talk__last_asked(k);
    str           text = {0};
    (void)arg;
    str_clear(&k->unsent);
    if (at < 0) {
        talk__say("there is no message to take back");
        return;
    }
    talk__content(talk__messages(k)->at[at], &text);
    talk__messages(k)->n = (size_t)at;
    k->again = 0;
    talk__say("taken back: %.*s%s", utf8_head(str_bytes(&text), 200), text.p, text.n > 200 ? " ..." : "");
    str_drop(&text);
}

static void talk__regen(talk_job *k, const char *arg) {
    const int64_t at = talk__last_asked(k);
    (void)arg;
    if (at < 0) {
        talk__say("there is no message to answer");
        return;
    }
    val_list    *l = talk__messages(k);
    const size_t n = l->n;
    err_t        e = {0};
    l->n = (size_t)at + 1;
    k->again++;
    if (!talk__try(k, &e) && !k->e->code) {
        l->n = n, k->again--;                         /* what was cut off is still there: only an answer takes its place */
        log_error("%s; the conversation is as before", e.text);
    }
    talk__heed(k);
}

/* Appends a file. False: said why not. */
static bool talk__read_file(const char *path, str *out) {
    err_t e = {0};
    return str_read_file(out, path, O_NONBLOCK, TERM_MESSAGE_MAX, "a text", &e) || (talk__say("%s", e.text), false);
}

/* --- The editor. No program can be started in the sandbox. So a process begun before it runs the editor, and takes only paths
 * that begin as talk__editor_file() says. --- */

static int talk__editor = -1;                         /* socket to that process, -1: there is none */

/* The beginning of the name of a text that is edited. */
static void talk__editor_file(str *path) {
    const char *folder = getenv("TMPDIR");
    str_fmt(path, "%s/llmrun-", folder && *folder ? folder : "/tmp");
}

/* Runs the editor of the environment on a file. False: it cannot be run or says that it failed. */
static bool talk__edit_file(const char *path) {
    int         status = 0;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
        execl("/bin/sh", "sh", "-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$1\"", "sh", path, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The process: a path comes, a byte goes back that is 1 where the editor has done its work. It ends with the program. */
__attribute__((noreturn)) static void talk__serve_editor(int fd) {
    char    path[PATH_MAX];
    str     begin = {0};
    ssize_t n;
    talk__editor_file(&begin);
    signal(SIGINT, SIG_IGN);                          /* Ctrl-C is the editor's */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);                          /* also where the program was begun with nohup */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);               /* no process of this user traces it */
    while ((n = read(fd, path, sizeof path - 1)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0) continue;
        path[n] = 0;
        const bool    ours = strncmp(path, begin.p, begin.n) == 0 && !strchr(path + begin.n, '/');
        const uint8_t done = ours && talk__edit_file(path);
        if (write(fd, &done, 1) != 1) break;
    }
    _exit(0);
}

/* Begins the process that runs editors, where a person may ask for one. To be called before the sandbox is entered, once. */
static void talk_start_editor(void) {
    int pair[2];
    ASSERT(talk__editor < 0);
    if (!isatty(STDIN_FILENO) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return;
    const pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        talk__serve_editor(pair[1]);
    }
    close(pair[1]);
    if (child > 0) talk__editor = pair[0];
    else close(pair[0]);
}

/* Has the editor run on a file. */
static bool talk__run_editor(const char *path) {
    uint8_t done = 0;
    ssize_t got = talk__editor < 0 ? -1 : write(talk__editor, path, strlen(path));
    if (got > 0)
        do got = read(talk__editor, &done, 1);
        while (got < 0 && errno == EINTR);
    return got == 1 && done;
}

/* The text that a person makes of `text` in an editor. False: there is none. */
static bool talk__edit_text(const char *text, str *out) {
    str path = {0};
    talk__editor_file(&path);
    str_put(&path, "XXXXXX.txt");
    const int  fd = mkostemps(path.p, 4, O_CLOEXEC);
    if (fd >= 0) out_add_pending(path.p);
    const bool made = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!made) talk__say("%s: %s", path.p, strerror(errno));
    if (fd >= 0) close(fd);
    const bool edited = made && talk__run_editor(path.p);
    if (made && !edited) talk__say("the editor failed (VISUAL and EDITOR name it): nothing is sent");
    const bool ok = edited && talk__read_file(path.p, out);
    if (fd >= 0) out_settle(path.p, false);
    str_drop(&path);
    while (ok && out->n && out->p[out->n - 1] == '\n') out->p[--out->n] = 0;
    return ok && out->n;
}

static void talk__edit(talk_job *k, const char *arg) {
    str text = {0};
    if (!term_person(k->term)) talk__say("/edit needs a terminal");
    else if (talk__edit_text(arg, &text)) {
        if (g_interrupt == SIGINT) g_interrupt = 0;   /* Ctrl-C in the editor */
        log_text(str_bytes(&text));
        log_text(bytes_of("\n"));
        talk__ask(k, str_bytes(&text));
    }
    talk__heed(k);
    str_drop(&text);
}

/* Sets the system message, or shows it. */
static void talk__system(talk_job *k, const char *arg) {
    val_env   *env = &k->in->env;
    val_list  *l = talk__messages(k);
    const bool has = l->n && talk__is(l->at[0], "system");
    str        text = {0};
    if (!*arg && has) talk__content(l->at[0], &text);
    if (!*arg) talk__say("%s", has ? "the system message:" : "there is no system message in the conversation (-sys gives one)");
    if (text.n) log_text(str_bytes(&text)), log_text(bytes_of("\n"));
    str_drop(&text);
    if (!*arg) return;
    if (!has) {
        chat_add(k->in, "system", bytes_of(""));
        const val m = l->at[l->n - 1];
        memmove(l->at + 1, l->at, (l->n - 1) * sizeof *l->at);
        l->at[0] = m;
    }
    val_put(env, l->at[0].dict, "content", val_text(env, bytes_of(arg), true));
    talk__say("the system message is set");
}

/* The first word of a text, and in *rest what follows it. */
static bytes talk__word(const char *text, const char **rest) {
    const size_t n = strcspn(text, " =\t\n");
    *rest = text + n + strspn(text + n, " =\t\n");
    return (bytes){(const uint8_t *)text, n};
}

/* /set, /set NAME, /set NAME VALUE; ollama's /set parameter NAME VALUE and /set system TEXT mean the same as here. */
static void talk__set(talk_job *k, const char *arg) {
    err_t       e = {0};
    str         out = {0}, name = {0};
    const char *rest;
    if (bytes_is(talk__word(arg, &rest), "parameter")) arg = rest;
    if (bytes_is(talk__word(arg, &rest), "system")) {
        talk__system(k, rest);
        return;
    }
    if (*arg) {
        str_cat(&name, talk__word(arg, &rest));
        if (!k->o->set(k->o->ctx, name.p, rest, &k->ask, &out, &e)) str_put(&out, e.text);
        str_put(&out, "\n");
    } else k->o->list(k->o->ctx, &out);
    log_text(str_bytes(&out));
    str_drop_all(&out, &name);
}

static void talk__show_messages(const talk_job *k, str *out) {
    const val_list *l = talk__messages(k);
    for (size_t i = 0; i < l->n; i++) {
        const val role = val_get(l->at[i], "role"), content = val_get(l->at[i], "content");
        str_put(out, "[");
        if (role.kind == VAL_STR) val_utf8(role.s, out);
        str_put(out, "] ");
        val_utf8(content.kind == VAL_STR ? content.s : val_as_str(&k->in->env, content), out);
        str_put(out, "\n");
    }
    if (!l->n) str_put(out, "the conversation has no message yet\n");
}

/* /show, /show prompt */
static void talk__show(talk_job *k, const char *arg) {
    jinja_text text = {0};
    err_t      e = {0};
    str        out = {0};
    str_put(&out, "");
    if (strcmp(arg, "prompt") == 0) {
        if (chat_input_check(k->in, &e) && chat_render(k->chat, k->in, &text, &e)) str_add(&out, text.text.p, text.text.n);
        else str_put(&out, e.text);
        str_put(&out, "\n");
        jinja_text_drop(&text);
    } else if (!*arg) talk__show_messages(k, &out);
    else str_put(&out, "/show: expected nothing or prompt\n");
    log_text(str_bytes(&out));
    str_drop(&out);
}

static void talk__think(talk_job *k, const char *arg) {
    err_t e = {0};
    if (!chat_think(k->chat, arg, &e)) talk__say("%s", e.text);
}

/* ~/ at the beginning of a name is the home folder; the caller frees. */
static char *talk__path(const char *arg) {
    const char *home = getenv("HOME");
    str         s = {0};
    if (home && arg[0] == '~' && arg[1] == '/') str_put(&s, home), arg++;
    str_put(&s, arg);
    return s.p;
}

/* The text of a file comes before the next message. */
static void talk__read(talk_job *k, const char *arg) {
    char *path = talk__path(arg);
    str   text = {0};
    if (talk__read_file(path, &text)) {
        str_add(&k->ahead, text.p, text.n);
        if (text.n && text.p[text.n - 1] != '\n') str_put(&k->ahead, "\n");
        talk__say("%zu byte%s of %s come before the next message", text.n, text.n == 1 ? "" : "s", path);
    }
    str_drop(&text);
    mem_free(path);
}

/* A value as JSON, with the escapes of str_json(); bytes of messages that are not UTF-8 stay, so that they are read back. */
static void talk__json(talk_job *k, val v, const val_json_form *form, str *out) {
    val_buf *b = val_buf_new(&k->in->env);
    str      text = {0};
    val_json_write(&k->in->env, b, v, form);
    val_utf8(val_buf_str(b), &text);
    str_json_copy(out, str_bytes(&text), true);
    str_drop(&text);
}

static void talk__save(talk_job *k, const char *arg) {
    char          *path = talk__path(arg);
    err_t          e = {0};
    out_t          out = {0};
    str            s = {0};
    val_json_form  form = {.indent = val_int(2)};
    talk__json(k, k->in->vars, &form, &s);
    str_put(&s, "\n");
    if (k->o->open(k->o->ctx, path, &out, &e) && out_begin(&out, &e)) out_put(&out, s.p, s.n);
    if (out.f && out.f != stdout) out_end(&out, &e);
    const size_t n = talk__messages(k)->n;
    if (e.code) talk__say("%s", e.text);
    else talk__say("%zu message%s saved to %s (--messages reads it)", n, n == 1 ? "" : "s", path);
    str_drop(&s);
    mem_free(path);
}

/* The conversation becomes that of a file; tools stay where the file has none. False: the file has no conversation, and
 * e says why. */
static bool talk__replace(talk_job *k, bytes json, const char *path, err_t *e) {
    const val  tools = val_get(k->in->vars, "tools");
    str        kept = {0};
    chat_input check;
    const bool ok = chat_input_json(&check, json, path, e) && chat_input_check(&check, e);
    if (ok && tools.kind == VAL_LIST && val_get(check.vars, "tools").kind == VAL_UNDEF) talk__json(k, tools, NULL, &kept);
    chat_input_drop(&check);
    if (!ok) return false;
    chat_input_drop(k->in);
    const bool again = chat_input_json(k->in, json, path, e) && chat_input_check(k->in, e) &&
                       (!kept.n || chat_input_tools(k->in, str_bytes(&kept), path, e));
    str_drop(&kept);
    return again;
}

static void talk__load(talk_job *k, const char *arg) {
    char *path = talk__path(arg);
    str   text = {0};
    err_t e = {0};
    if (talk__read_file(path, &text)) {
        const bool   ok = talk__replace(k, str_bytes(&text), path, &e);
        const size_t n = talk__messages(k)->n;
        if (ok) talk__say("%zu message%s of %s", n, n == 1 ? "" : "s", path);
        else talk__say("%s", e.text);
        if (ok) k->again = 0, str_clear(&k->unsent);
        if (ok && talk__asked(k)) talk__turn(k, n - 1);
    }
    str_drop(&text);
    mem_free(path);
}

static void talk__stats(talk_job *k, const char *arg) {
    const talk_sums *s = &k->sums;
    str              out = {0};
    (void)arg;
    str_fmt(&out, "llmrun: turns       %lld, %zu messages, a context of %d tokens\n", s->turns, talk__messages(k)->n,
            k->eng->n_ctx);
    str_fmt(&out, "llmrun: kept        %lld tokens from the cache\n", s->kept);
    text_tokens(&out, "read", (int)s->read, (int)s->read, s->read_s);
    text_tokens(&out, "written", (int)s->written, (int)(s->written - s->turns), s->write_s);
    spec_report(k->guesser, &out);
    str_fmt(&out, "llmrun: memory      %.1f MiB of KV cache\n", (double)kv_bytes_peak(k->eng->kv) / 1048576);
    str_fmt(&out, "llmrun: seed        %llu\n", (unsigned long long)k->ask.seed);
    log_text(str_bytes(&out));
    str_drop(&out);
}

static const talk_command talk_commands[] = {
    /* name     other names        arguments            needed run            help */
    {"/help",   {"/?"},            "",                  false, talk__help,    "lists the commands"},
    {"/exit",   {"/bye", "/quit"}, "",                  false, talk__exit,    "ends the conversation, as Ctrl-D does"},
    {"/clear",  {NULL},            "",                  false, talk__clear,
     "begins a new conversation; the system message stays"},
    {"/undo",   {NULL},            "",                  false, talk__undo,    "takes back the last message and its answer"},
    {"/shift",  {NULL},            "",                  false, talk__shift,
     "drops the oldest turns until half of the context is free, then sends the message that did not fit"},
    {"/regen",  {NULL},            "",                  false, talk__regen,
     "answers the last message again, with the next seed"},
    {"/edit",   {NULL},            "[TEXT]",            false, talk__edit,
     "opens VISUAL or EDITOR (vi) on TEXT and sends what is saved"},
    {"/system", {NULL},            "[TEXT]",            false, talk__system,  "sets the system message, or shows it"},
    {"/set",    {NULL},            "[NAME [VALUE]]",    false, talk__set,
     "sets a sampling parameter, as the option of that name does, or shows it; alone: lists them"},
    {"/show",   {NULL},            "[prompt]",          false, talk__show,
     "shows the conversation, or the text that the template makes of it"},
    {"/think",  {NULL},            "on|off|show|hide",  true,  talk__think,
     "whether the model thinks, and whether that is shown"},
    {"/read",   {NULL},            "FILE",              true,  talk__read,    "puts the text of FILE before the next message"},
    {"/save",   {NULL},            "FILE",              true,  talk__save,
     "writes the conversation to FILE, for /load and --messages"},
    {"/load",   {NULL},            "FILE",              true,  talk__load,    "goes on with the conversation of FILE"},
    {"/stats",  {NULL},            "",                  false, talk__stats,   "tokens, rates and memory so far"},
};
enum { TALK_COMMANDS = sizeof talk_commands / sizeof *talk_commands };

/* What a command does, with its other names: "ends the conversation (also /bye, /quit)". */
static void talk_describe(const talk_command *c, str *out) {
    str_put(out, c->help);
    if (c->also[0]) str_fmt(out, " (also %s%s%s)", c->also[0], c->also[1] ? " and " : "", c->also[1] ? c->also[1] : "");
}

static void talk__help(talk_job *k, const char *arg) {
    enum { INDENT = 27 };
    (void)k, (void)arg;
    for (int i = 0; i < TALK_COMMANDS; i++) {
        char usage[64];
        str  help = {0}, lines = {0};
        talk_describe(&talk_commands[i], &help);
        snprintf(usage, sizeof usage, "%s %s", talk_commands[i].name, talk_commands[i].args);
        talk__lines(str_bytes(&help), INDENT, &lines);
        for (char *p = lines.p, *end; p; p = end, *usage = 0) {
            if ((end = strchr(p, '\n'))) *end++ = 0;
            talk__say("  %-*s%s", INDENT - 2, usage, p);
        }
        str_drop_all(&help, &lines);
    }
    talk__say("Pasted lines are one message. A backslash at the end of a line, or \"\"\" before the first and after the last, "
              "does the same for typed ones.\n"
              "Ctrl-C ends an answer; at an empty prompt it ends the program, as Ctrl-D does.");
}

/* The command with this name; NULL: none. *near: the most similar one. */
static const talk_command *talk__find(bytes name, const talk_command **near) {
    int least = bytes_slack(name) + 1;
    *near = NULL;
    for (int i = 0; i < TALK_COMMANDS; i++) {
        const talk_command *c = &talk_commands[i];
        const int           d = bytes_distance(name, bytes_of(c->name));
        if (d == 0) return c;
        for (int a = 0; a < 2 && c->also[a]; a++)
            if (bytes_is(name, c->also[a])) return c;
        if (d < least) least = d, *near = &talk_commands[i];
    }
    return NULL;
}

/* Names of parameters, a line each: the first words of their list. */
static void talk__parameters(const talk_job *k, str *out) {
    str all = {0};
    k->o->list(k->o->ctx, &all);
    for (const char *p = all.p; p; p = strchr(p, '\n')) {
        p += strspn(p, " \n");
        if (*p) str_fmt(out, "%.*s\n", (int)strcspn(p, " "), p);
    }
    str_drop(&all);
}

/* The words of "on|off" or "[prompt]", a line each. */
static void talk__choices(const char *args, str *out) {
    while (*(args += strspn(args, "[]|"))) {
        const size_t n = strcspn(args, "[]|");
        str_fmt(out, "%.*s\n", (int)n, args);
        args += n;
    }
}

/* What Tab completes: names of commands, and the words and parameters that may follow them. */
static bool talk__words(void *ctx, bytes line, str *out) {
    const talk_job *k = ctx;
    const uint8_t  *blank = line.n ? memchr(line.p, ' ', line.n) : NULL;
    if (!line.n || line.p[0] != '/') return false;
    for (int i = 0; i < TALK_COMMANDS; i++) {
        const talk_command *c = &talk_commands[i], *near;
        if (!blank) {
            str_fmt(out, "%s\n", c->name);
            for (int a = 0; a < 2 && c->also[a]; a++) str_fmt(out, "%s\n", c->also[a]);
        } else if (c == talk__find((bytes){line.p, (size_t)(blank - line.p)}, &near)) {
            if (c->run == talk__set) talk__parameters(k, out);
            else if (islower((unsigned char)c->args[strspn(c->args, "[")])) talk__choices(c->args, out);
        }
    }
    return true;
}

static void talk__command(talk_job *k, char *line) {
    const size_t        n = strcspn(line, " \t\n");
    const talk_command *near, *c = talk__find((bytes){(uint8_t *)line, n}, &near);
    char               *arg = line + n + strspn(line + n, " \t\n");
    for (size_t end = strlen(arg); end && strchr(" \t\n", arg[end - 1]); end--) arg[end - 1] = 0;
    if (c && (*arg || !c->needs) && (!*arg || *c->args)) c->run(k, arg);
    else if (c) talk__say("%s: expected %s after it", c->name, *c->args ? c->args : "nothing");
    else
        talk__say("unknown command %.*s (%s%s/help lists them; a message that begins with a slash is put between \"\"\" and "
                  "\"\"\")",
                  utf8_head((bytes){(const uint8_t *)line, n}, 100), line, near ? near->name : "", near ? "?; " : "");
}

/* --- the conversation --- */

static void talk__message(talk_job *k, term_message *m) {
    if (!m->literal && m->text.n && m->text.p[0] == '/') talk__command(k, m->text.p);
    else if (m->text.n) talk__ask(k, str_bytes(&m->text));
}

/* Messages until standard input ends, a signal comes, or /exit. */
static void talk__loop(talk_job *k) {
    while (!k->over) {
        term_message     m;
        const term_event ev = term_read(k->term, &m, k->e);
        if (ev == TERM_READ) talk__message(k, &m);
        k->over = k->over || ev == TERM_END || ev == TERM_STOPPED;
        str_drop(&m.text);
    }
}

/* What is said before the first message. */
static void talk__greet(const talk_job *k) {
    if (term_person(k->term))
        log_warn("%s, a context of %d tokens; /help lists commands, Ctrl-D ends", str_base_name(k->eng->g->path), k->eng->n_ctx);
}

/* The messages of `in` go on with those of standard input. False: e says what ended the run; EXIT_NO: some message got
 * no answer, or some answer does not meet its constraint. */
static bool talk_run(engine *eng, spec *guesser, chat *ch, chat_input *in, const gen_request *ask, const talk_opts *o, err_t *e) {
    const sched_opts alone = {.n_seqs = 1};
    str              seed = {0};
    talk_job         k = {.eng = eng, .guesser = guesser, .chat = ch, .in = in, .o = o, .ask = *ask, .e = e};
    if (!(k.sc = sched_new(eng, guesser, &alone, e))) return false;
    k.term = term_open(talk__words, &k);
    str_put(&k.ahead, "");
    talk__greet(&k);
    if (o->first.p) talk__ask(&k, o->first);
    else if (talk__asked(&k)) talk__turn(&k, talk__messages(&k)->n - 1);
    talk__loop(&k);
    str_fmt(&seed, "llmrun: seed %llu\n", (unsigned long long)k.ask.seed);
    if (g_log_level >= LOG_NORMAL) screen_aside(str_bytes(&seed));
    const bool piped = !term_person(k.term) && !g_interrupt;
    if (k.lost && piped) err_set(e, EXIT_NO, "%lld message%s got no answer", k.lost, k.lost == 1 ? "" : "s");
    if (k.cut && piped) err_set(e, EXIT_NO, "%lld answer%s not meet the constraint", k.cut, k.cut == 1 ? " does" : "s do");
    term_close(k.term);
    sched_free(k.sc);
    str_drop_all(&k.ahead, &k.unsent, &seed);
    return !e->code;
}
