/* ===== [term] messages from a person or a pipe =====
 * Reads one message after the other from standard input. At a terminal a person types them: with line editing and
 * history where libedit is found (it is loaded when it is needed; the program runs without it), else as plain lines.
 * Lines that arrive at once, as when they are pasted, are one message; so are lines of which each but the last ends in
 * a backslash, and those from """ to """. Where standard input is no terminal each line is a message, and no prompt is
 * written.
 *   Signals are blocked while a message is read, except where the program waits for input: an interrupt is noticed at
 * once and never lost. The settings of the terminal are restored after every message, and by term_restore() where a
 * signal ends the program. Invariant: the bytes of a message are those that were typed, pasted or piped; but line ends
 * of a paste become newlines.
 * Public: term_words, term_open, term_close, term_read, term_person, term_restore, term_edits.
 * Opens: term_message. */

enum {
    TERM_AT_ONCE_MS = 20,                             /* lines that follow each other faster were not typed */
    TERM_HISTORY = 1000,                              /* entries of the history that are kept, */
    TERM_HISTORY_BYTES = 4 << 20,                     /* and bytes of its file that are read */
    TERM_MESSAGE_MAX = 64 << 20,                      /* bytes of one message */
    TERM_BYTE = 0x110000,                             /* in an edited line TERM_BYTE + b is a byte that belongs to no character */
};

typedef struct {
    str  text;
    bool literal;                                     /* from """ to """, or lines that arrived at once: not a command */
} term_message;

typedef enum {
    TERM_READ,                                        /* there is a message */
    TERM_END,                                         /* standard input has ended, or e is set */
    TERM_DROPPED,                                     /* Ctrl-C: what was typed so far is dropped */
    TERM_STOPPED,                                     /* a signal, see g_interrupt, and nothing had been typed */
} term_event;

/* Appends the words that the key Tab may put in the place of the last word of `line`, each with a newline after it. False: Tab is
 * a character of the message. */
typedef bool (*term_words)(void *ctx, bytes line, str *out);

/* --- libedit: its functions by name, and the numbers of its interface that are used (histedit.h) --- */

typedef struct editline term_edit;
typedef struct history  term_past;

typedef struct {
    int            num;
    const wchar_t *text;
} term_entry;

typedef struct {
    const wchar_t *from, *cursor, *to;
} term_line;

typedef struct {
    term_edit       *(*open)(const char *name, FILE *in, FILE *out, FILE *err);
    void            (*close)(term_edit *);
    const wchar_t  *(*read)(term_edit *, int *n);
    int             (*set)(term_edit *, int what, ...);
    int             (*insert)(term_edit *, const wchar_t *);
    const term_line *(*line)(term_edit *);
    void            (*resize)(term_edit *);
    int             (*source)(term_edit *, const char *file);
    term_past      *(*past_open)(void);
    void            (*past_close)(term_past *);
    int             (*past)(term_past *, term_entry *, int what, ...);
} term_lib;

static const struct {
    const char *name;
    size_t      at;
} term__lib_names[] = {
    {"el_init", offsetof(term_lib, open)},               {"el_end", offsetof(term_lib, close)},
    {"el_wgets", offsetof(term_lib, read)},              {"el_wset", offsetof(term_lib, set)},
    {"el_winsertstr", offsetof(term_lib, insert)},       {"el_wline", offsetof(term_lib, line)},
    {"el_resize", offsetof(term_lib, resize)},           {"el_source", offsetof(term_lib, source)},
    {"history_winit", offsetof(term_lib, past_open)},    {"history_wend", offsetof(term_lib, past_close)},
    {"history_w", offsetof(term_lib, past)},
};

enum {
    TERM_EL_PROMPT = 0, TERM_EL_EDITOR = 2, TERM_EL_BIND = 4, TERM_EL_TTY = 8, TERM_EL_ADD = 9, TERM_EL_HISTORY = 10,
    TERM_EL_GETC = 13, TERM_EL_MODE = 16, TERM_EL_REDRAW = 20
};
enum { TERM_PAST_SIZE = 1, TERM_PAST_GETSIZE = 2, TERM_PAST_ENTER = 10, TERM_PAST_UNIQUE = 20 };
enum { TERM_KEY_DONE = 0, TERM_KEY_REDRAW = 4, TERM_KEY_WRONG = 6, TERM_KEY_ANEW = 8 };     /* what a key has done */

static const wchar_t term__paste_key[] = L"\033[200~";   /* what terminals put before a paste; after it: */
static const char    term__paste_end[] = "\033[201~";

/* False: libedit is not on this machine, or was left out of the build. */
static bool term__load(term_lib *lib) {
    static const char *const files[] = {"libedit.so.2", "libedit.so.0", "libedit.so"};
    void                    *so = NULL;
    bool                     all = true;
    for (size_t i = 0; LLMRUN_EDIT && !so && i < sizeof files / sizeof *files; i++) so = sandbox_library(files[i]);
    for (size_t i = 0; so && i < sizeof term__lib_names / sizeof *term__lib_names; i++) {
        void *f = dlsym(so, term__lib_names[i].name);
        memcpy((char *)lib + term__lib_names[i].at, &f, sizeof f);
        all = all && f;
    }
    return so && all;
}

/* Whether lines can be edited, for --version. */
static const char *term_edits(void) {
    term_lib lib;
    if (term__load(&lib)) return "found, lines of -i are edited";
    return LLMRUN_EDIT ? "not found, lines of -i are plain" : "left out (EDIT=0)";
}

/* --- the terminal --- */

typedef struct {
    int            in;                                /* standard input */
    bool           person;                            /* it is a terminal */
    int            screen;                            /* where prompts go, -1: nowhere */
    uint8_t        buf[4096];                         /* [at, n) has been read and is to be taken */
    size_t         at, n;
    bool           begun;                             /* something was read, or a note says that it is waited for */
    bool           ended;                             /* standard input has ended */
    bool           stopped;                           /* a signal came */
    bool           at_once;                           /* the message has lines that arrived at once */
    sigset_t       waiting;                           /* signals that are blocked while it waits */
    bool           more;                              /* the line goes on with a message */
    term_edit     *edit;                              /* NULL: lines are plain */
    FILE          *drawn;                             /* the screen, for libedit */
    term_lib       lib;
    term_past     *past;
    int            past_fd;                           /* file of the history, -1: none */
    str            newest;                            /* entry of the history */
    locale_t       utf8;                              /* libedit asks the locale how characters are written */
    const wchar_t *keys;                              /* characters that come before those of the terminal */
    bool           unmarked;                          /* they begin a paste that the terminal did not mark as one */
    int            past_at;                           /* entry of the history that is shown, 1 the newest; 0: none */
    term_words     words;                             /* what Tab completes, with its ctx */
    void          *ctx;
    err_t         *e;
} term_input;

/* The terminal that is open. */
static struct {
    term_input           *one;                        /* NULL: none */
    struct termios        settings;
    int                   screen;
    volatile sig_atomic_t edits;                      /* its settings may be those of libedit */
    volatile sig_atomic_t bold;                       /* what a person types is shown in bold */
    volatile sig_atomic_t resized;                    /* SIGWINCH came */
    volatile sig_atomic_t resumed;                    /* SIGCONT came */
} term__tty;

static const struct {
    int signal, flags;
} term__signals[] = {{SIGWINCH, SA_RESTART}, {SIGCONT, SA_RESTART}, {SIGTSTP, SA_RESETHAND | SA_NODEFER},
                     {SIGQUIT, SA_RESETHAND}, {SIGHUP, SA_RESETHAND}};
enum { TERM_STOP = 2, TERM_SIGNALS = sizeof term__signals / sizeof *term__signals };

/* Ends the attributes of what is typed. Async-signal-safe. */
static void term__plain(void) {
    if (term__tty.bold && write(term__tty.screen, SCREEN_PLAIN, sizeof SCREEN_PLAIN - 1) < 0) {}
}

/* Restores the settings of the terminal. Async-signal-safe. */
static void term_restore(void) {
    static const char plain[] = "\033[?2004l\r\n";
    term__plain();
    term__tty.bold = 0;
    if (!term__tty.edits) return;
    term__tty.edits = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &term__tty.settings);
    if (write(term__tty.screen, plain, sizeof plain - 1) < 0) {}
}

static void term__listen(int i);                      /* announced: a handler that stops the program installs itself again */

static void term__on_signal(int sig) {
    if (sig == SIGWINCH) term__tty.resized = 1;
    else if (sig == SIGCONT) term__tty.resumed = 1;
    else if (sig == SIGTSTP) {
        term__plain();
        raise(sig);                                   /* SA_RESETHAND: it now stops the program */
        term__tty.resumed = 1;
        term__listen(TERM_STOP);
    } else {
        term_restore();
        raise(sig);                                   /* SA_RESETHAND: it now ends the program */
    }
}

static void term__listen(int i) {
    const struct sigaction a = {.sa_handler = term__on_signal, .sa_flags = term__signals[i].flags};
    sigaction(term__signals[i].signal, &a, NULL);
}

/* Whether a person types the messages. */
static bool term_person(const term_input *t) { return t->person; }

/* Writes to the screen of a person, if there is one. */
static void term__screen(const term_input *t, const char *text) {
    if (!t->person || t->screen < 0) return;
    progress_yield(t->screen);
    if (write(t->screen, text, strlen(text)) < 0) {}
}

/* The window has another size, or the program goes on after Ctrl-Z: the line that is edited is drawn again. */
static void term__redraw(term_input *t) {
    if (t->edit && (term__tty.resized || term__tty.resumed)) {
        if (term__tty.resumed) t->lib.set(t->edit, TERM_EL_MODE, 0), t->lib.set(t->edit, TERM_EL_MODE, 1);
        if (term__tty.bold) fputs(SCREEN_BOLD, t->drawn);
        t->lib.resize(t->edit);
        fputs("\r\033[J", t->drawn);
        t->lib.set(t->edit, TERM_EL_REDRAW);
    }
    term__tty.resized = term__tty.resumed = 0;
}

/* Standard input ends. A call that failed is an error, but for a terminal that is gone (EIO) and a descriptor that is closed. */
static void term__failed(term_input *t) {
    t->ended = true;
    if (!t->person && errno != EBADF) err_set(t->e, err_code_of(errno), "standard input: cannot read: %s", strerror(errno));
}

/* Reads what there is, after what is still to be taken. */
static void term__fill(term_input *t) {
    memmove(t->buf, t->buf + t->at, t->n -= t->at);
    t->at = 0;
    t->begun = true;
    const ssize_t got = read(t->in, t->buf + t->n, sizeof t->buf - t->n);
    if (got > 0) t->n += (size_t)got;
    else if (got == 0) t->ended = true;
    else if (errno != EINTR && errno != EAGAIN) term__failed(t);
}

/* Waits, `ms` milliseconds at most, -1: however long, until more than `have` bytes are to be taken. False: they did not
 * come, standard input has ended, or a signal came. */
static bool term__wait(term_input *t, size_t have, int ms) {
    const struct timespec limit = {0, ms * 1000000L}, second = {1, 0};
    while (t->n - t->at <= have && !t->ended) {
        struct pollfd p = {.fd = t->in, .events = POLLIN};
        if (g_interrupt) return !(t->stopped = true);
        const bool first = ms < 0 && !t->person && !t->begun;
        const int  got = ppoll(&p, 1, first ? &second : ms < 0 ? NULL : &limit, &t->waiting);
        if (got > 0) term__fill(t);
        else if (got == 0 && first) t->begun = true, log_warn("waiting for a message on standard input");
        else if (got == 0) return false;
        else if (errno != EINTR) term__failed(t);
        term__redraw(t);
    }
    return t->n - t->at > have;
}

/* Moves bytes up to the next newline, without it, to `line`. False: no newline came. */
static bool term__take_line(term_input *t, int ms, str *line) {
    while (term__wait(t, 0, ms)) {
        const uint8_t *p = t->buf + t->at, *end = memchr(p, '\n', t->n - t->at);
        const size_t   n = end ? (size_t)(end - p) : t->n - t->at;
        str_add(line, p, n);
        t->at += n + (end != NULL);
        if (line->n > TERM_MESSAGE_MAX)
            return err_set(t->e, EXIT_INPUT, "standard input: more than %d bytes, expected a message", TERM_MESSAGE_MAX);
        if (end) return true;
    }
    return false;
}

/* --- plain lines --- */

/* Removes every `mark` from the line; true: there was one. */
static bool term__remove(str *line, const char *mark, size_t n) {
    bool found = false;
    for (char *p; line->n && (p = memmem(line->p, line->n, mark, n)); found = true) {
        memmove(p, p + n, line->n - (size_t)(p - line->p) - n + 1);
        line->n -= n;
    }
    return found;
}

/* One line as it comes, and from a terminal all lines that arrive with it: up to the mark that ends a paste, or as long
 * as they follow at once. False: there is none. */
static bool term__read_plain(term_input *t, str *line) {
    const size_t mark = sizeof term__paste_end - 1, had = line->n;
    bool         ok = term__take_line(t, -1, line), paste = false;
    if (ok && !t->person && line->n > had && line->p[line->n - 1] == '\r') line->p[--line->n] = 0;  /* a file of Windows */
    while (ok && t->person) {
        paste = (paste || term__remove(line, "\033[200~", mark)) && !term__remove(line, term__paste_end, mark);
        if (!paste && !term__wait(t, 0, TERM_AT_ONCE_MS)) break;
        t->at_once = true;
        str_put(line, "\n");
        ok = term__take_line(t, paste ? -1 : TERM_AT_ONCE_MS, line) || (!t->stopped && !t->ended && !t->e->code);
    }
    return !t->stopped && !t->e->code && (ok || line->n);
}

/* --- lines that are edited --- */

static void term__wide_add(wchar_t **w, size_t *n, wchar_t c) {
    *w = mem_reserve(*w, *n, SIZE_MAX / sizeof **w, sizeof **w);
    (*w)[(*n)++] = c;
}

/* The next character of b, of at least one byte, and in *len its bytes. */
static wchar_t term__char(bytes b, size_t *len) {
    const int n = utf8_len(b.p, b.n);
    *len = n > 1 ? (size_t)n : 1;
    if (n < 1) return TERM_BYTE + b.p[0];
    return (wchar_t)utf8_get(b.p, n);
}

/* Text as characters for libedit; the caller frees. */
static wchar_t *term__wide(bytes b) {
    wchar_t *w = NULL;
    size_t   n = 0;
    for (size_t i = 0, len; i < b.n; i += len) {
        const wchar_t c = term__char((bytes){b.p + i, b.n - i}, &len);
        term__wide_add(&w, &n, c ? c : TERM_BYTE);
    }
    term__wide_add(&w, &n, 0);
    return w;
}

/* Appends a character as UTF-8, or the byte that it stands for. */
static void term__put_char(str *s, uint32_t c) {
    if (c < TERM_BYTE) str_char(s, c);
    else str_add(s, &(uint8_t){(uint8_t)(c - TERM_BYTE)}, 1);
}

/* Whether the buffer begins with a newline that more input follows at once. */
static bool term__goes_on(term_input *t) {
    return (t->buf[t->at] == '\n' || t->buf[t->at] == '\r') && term__wait(t, 1, TERM_AT_ONCE_MS);
}

/* For libedit: the next character that was typed. 1: there is one, 0: standard input has ended, -1: a signal came. A
 * newline inside of text that arrives at once becomes the key that begins a paste. */
static int term__getc(term_edit *el, wchar_t *c) {
    term_input *t = term__tty.one;
    size_t len;
    (void)el;
    if (!t->keys || !*t->keys) {
        if (!term__wait(t, 0, -1)) return t->stopped ? -1 : 0;
        if ((t->unmarked = term__goes_on(t))) t->keys = term__paste_key;
    }
    if (t->keys && *t->keys) {
        *c = *t->keys++;
        return 1;
    }
    while (utf8_incomplete(t->buf + t->at, t->n - t->at) && term__wait(t, t->n - t->at, TERM_AT_ONCE_MS)) {}
    *c = term__char((bytes){t->buf + t->at, t->n - t->at}, &len);
    t->at += len;
    return 1;
}

/* Moves the bytes of a paste to *s: up to the mark after it, or, where it has none, as long as they arrive at once. */
static void term__take_paste(term_input *t, str *s) {
    const bool   marked = !t->unmarked;
    const size_t mark = sizeof term__paste_end - 1;
    while (s->n < TERM_MESSAGE_MAX && term__wait(t, 0, marked ? -1 : TERM_AT_ONCE_MS)) {
        str_add(s, t->buf + t->at++, 1);
        if (marked && s->n >= mark && memcmp(s->p + s->n - mark, term__paste_end, mark) == 0) break;
    }
    term__remove(s, "\033[200~", mark);
    term__remove(s, term__paste_end, mark);
    t->unmarked = false;
}

/* Line ends of a paste become newlines, in place: a terminal sends a carriage return for each. */
static void term__newlines(str *s) {
    size_t to = 0;
    char   last = 0;
    for (size_t i = 0; i < s->n; i++) {
        const bool second = s->p[i] == '\n' && last == '\r';
        last = s->p[i];
        if (!second) s->p[to++] = last == '\r' ? '\n' : last;
    }
    s->n = to;
    str_add(s, "", 0);
}

/* For libedit: what a paste does. Its last newline ends the message where the terminal has not marked the paste, else
 * it is dropped. */
static unsigned char term__on_paste(term_edit *el, wint_t key) {
    term_input *t = term__tty.one;
    const bool enter = t->unmarked;
    str        s = {0};
    (void)key;
    str_put(&s, "");
    term__take_paste(t, &s);
    term__newlines(&s);
    const bool last = s.n && s.p[s.n - 1] == '\n';
    if (last) s.p[--s.n] = 0;
    if (last && enter) t->keys = L"\n";
    t->at_once = t->at_once || (s.n && memchr(s.p, '\n', s.n));
    wchar_t   *w = term__wide(str_bytes(&s));
    const bool ok = !w[0] || t->lib.insert(el, w) == 0;
    mem_free(w);
    str_drop(&s);
    return ok ? TERM_KEY_REDRAW : TERM_KEY_WRONG;
}

/* Keys that go through the history, the last character of each, what it becomes for libedit, and the number of entries
 * that it moves by; 0: any. libedit keeps EL_BUFSIZ characters of the line that is left, and brings back as many as
 * that had: with a longer line the key is refused. So is a step after the newest entry, for which libedit would bring
 * back a line that was left earlier. */
enum { TERM_EDIT_CHARS = 1024 };
static const struct {
    const wchar_t *keys;
    wchar_t        last;
    const wchar_t *to, *function;
    int            step;
} term__past_keys[] = {
    {L"\033[A", 'A', L"\033[200p", L"ed-prev-history", 1},        {L"\033OA", 'A', L"\033[200p", L"ed-prev-history", 1},
    {L"^P", 16, L"\033[200p", L"ed-prev-history", 1},             {L"\033[B", 'B', L"\033[200n", L"ed-next-history", -1},
    {L"\033OB", 'B', L"\033[200n", L"ed-next-history", -1},       {L"^N", 14, L"\033[200n", L"ed-next-history", -1},
    {L"^R", 18, L"\033[200r", L"em-inc-search-prev", 0},          {L"^S", 19, L"\033[200s", L"em-inc-search-next", 0},
    {L"\033p", 'p', L"\033[200q", L"ed-search-prev-history", 0},  {L"\033n", 'n', L"\033[200t", L"ed-search-next-history", 0},
};
enum { TERM_PAST_KEYS = sizeof term__past_keys / sizeof *term__past_keys };

static unsigned char term__on_past(term_edit *el, wint_t key) {
    term_input      *t = term__tty.one;
    const term_line *line = t->lib.line(el);
    term_entry       entries = {0};
    int              i = 0;
    while (i < TERM_PAST_KEYS - 1 && (wint_t)term__past_keys[i].last != key) i++;
    const int step = term__past_keys[i].step;
    if (!t->past_at && (step < 0 || line->to - line->from >= TERM_EDIT_CHARS)) return TERM_KEY_WRONG;
    t->lib.past(t->past, &entries, TERM_PAST_GETSIZE);
    t->past_at = step ? t->past_at + step : entries.num;
    t->past_at = min_int(t->past_at, entries.num);
    t->keys = term__past_keys[i].to;
    return TERM_KEY_DONE;
}

/* What the words that begin with `begun` have in common goes to *common, all of them to *all, on a line. Returns their number. */
static int term__matches(bytes begun, bytes words, str *common, str *all) {
    int n = 0;
    while (words.n) {
        const uint8_t *end = memchr(words.p, '\n', words.n);
        const bytes    word = {words.p, end ? (size_t)(end - words.p) : words.n};
        size_t         same = 0;
        words = bytes_slice(words, word.n + (end != NULL), words.n);
        if (!bytes_begins(word, begun)) continue;
        if (!n++) str_cat(common, word);
        while (same < min_size(common->n, word.n) && common->p[same] == (char)word.p[same]) same++;
        common->p[common->n = same] = 0;
        str_fmt(all, "%s%.*s", all->n ? "  " : "", (int)word.n, (const char *)word.p);
    }
    return n;
}

/* For libedit: the key Tab. It completes the word before the cursor as far as all that it can become are alike, and shows them
 * where there is nothing to add. */
static unsigned char term__on_tab(term_edit *el, wint_t key) {
    term_input      *t = term__tty.one;
    const term_line *at = t->lib.line(el);
    str              line = {0}, words = {0}, common = {0}, all = {0};
    unsigned char    did = TERM_KEY_REDRAW;
    (void)key;
    str_put(&line, "");
    str_put(&common, "");
    for (const wchar_t *w = at->from; w < at->cursor; w++) term__put_char(&line, (uint32_t)*w);
    const bool completes = t->words && !t->more && t->words(t->ctx, str_bytes(&line), &words);
    const char  *blank = strrchr(line.p, ' ');
    const bytes  begun = bytes_of(blank ? blank + 1 : line.p);
    const int    n = term__matches(begun, str_bytes(&words), &common, &all);
    if (!completes) str_set(&common, bytes_of("\t"));
    else if (n == 1) str_put(&common, " ");
    wchar_t *w = term__wide(bytes_slice(str_bytes(&common), completes ? min_size(begun.n, common.n) : 0, common.n));
    if (completes && !n) did = TERM_KEY_WRONG;
    else if (w[0]) did = t->lib.insert(el, w) == 0 ? TERM_KEY_REDRAW : TERM_KEY_WRONG;
    else {
        fprintf(t->drawn, "\n%s\n", all.p);
        did = TERM_KEY_ANEW;
    }
    mem_free(w);
    str_drop_all(&line, &words, &common, &all);
    return did;
}

/* For libedit: the prompt. */
static const wchar_t *term__prompt(term_edit *el) {
    (void)el;
    return term__tty.one->more ? L"| " : L"> ";
}

/* One line, edited; lines that were pasted are one. False: there is none. */
static bool term__read_edited(term_input *t, str *line) {
    const locale_t before = uselocale(t->utf8);
    int            n = 0;
    t->keys = NULL;
    t->unmarked = false;
    t->past_at = 0;
    term__tty.resumed = 0;
    term__tty.edits = 1;
    t->lib.set(t->edit, TERM_EL_MODE, 1);             /* before the prompt: what is typed from then on is not echoed twice */
    term__screen(t, "\033[?2004h");
    const wchar_t   *w = t->lib.read(t->edit, &n);
    const term_line *left = w ? NULL : t->lib.line(t->edit);
    if (left) w = left->from, n = t->stopped ? (int)(left->to - left->from) : 0;
    if (n && w[n - 1] == L'\n') n--;
    for (int i = 0; i < n; i++) term__put_char(line, (uint32_t)w[i]);
    term__screen(t, "\033[?2004l");
    term__tty.edits = 0;
    uselocale(before);
    return !left;
}

/* --- the history: a file of mode 0600, an entry a line, in which \\ and \n stand for a backslash and a newline --- */

/* The file's path: where the XDG specification puts state. False: there is no such place. */
static bool term__history_path(str *path) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/') str_put(path, state);
    else if (home && home[0] == '/') str_fmt(path, "%s/.local/state", home);
    else return false;
    str_put(path, "/llmrun/history");
    return true;
}

/* Opens it, makes the folders that are missing; -1: that is not possible. */
static int term__open_history(void) {
    str         path = {0};
    struct stat st;
    int         fd = -1;
    if (term__history_path(&path)) {
        for (char *p = path.p + 1; (p = strchr(p, '/')); *p++ = '/') *p = 0, mkdir(path.p, 0700);
        fd = open(path.p, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
        if (fd < 0) log_info("no history: %s: %s", path.p, strerror(errno));
    }
    str_drop(&path);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (!(st.st_mode & 077) || fchmod(fd, 0600) == 0)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static void term__escape(bytes b, str *out) {
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] == '\\') str_put(out, "\\\\");
        else if (b.p[i] == '\n') str_put(out, "\\n");
        else str_add(out, b.p + i, 1);
    }
}

static void term__unescape(bytes b, str *out) {
    str_put(out, "");
    for (size_t i = 0; i < b.n; i++) {
        const bool two = b.p[i] == '\\' && i + 1 < b.n && (b.p[i + 1] == '\\' || b.p[i + 1] == 'n');
        if (two) i++;
        str_add(out, two && b.p[i] == 'n' ? "\n" : (const char *)b.p + i, 1);
    }
}

/* libedit gets an entry. */
static void term__enter(term_input *t, bytes text) {
    term_entry entry;
    wchar_t   *w = term__wide(text);
    if (t->past) t->lib.past(t->past, &entry, TERM_PAST_ENTER, w);
    mem_free(w);
}

/* Reads the end of the file, and shortens a file that has grown to twice what is read. */
static void term__load_history(term_input *t) {
    str         all = {0}, entry = {0};
    struct stat st;
    err_t       none = {0};
    flock(t->past_fd, LOCK_EX);
    if (fstat(t->past_fd, &st) == 0) {
        lseek(t->past_fd, st.st_size > TERM_HISTORY_BYTES ? st.st_size - TERM_HISTORY_BYTES : 0, SEEK_SET);
        while (all.n < TERM_HISTORY_BYTES && str_read(&all, t->past_fd, 65536, "history", &none) > 0) {}
    }
    const bool cut = all.n && all.p[all.n - 1] != '\n';   /* such an entry does not take in the next one */
    if (cut && write(t->past_fd, "\n", 1) == 1) str_put(&all, "\n");
    size_t from = all.n, n = 0;
    while (from && (all.p[from - 1] != '\n' || n++ < TERM_HISTORY)) from--;
    const bool grown = all.n && st.st_size > 2 * TERM_HISTORY_BYTES;
    if (grown && ftruncate(t->past_fd, 0) == 0 && write(t->past_fd, all.p + from, all.n - from) < 0) {}
    flock(t->past_fd, LOCK_UN);
    for (char *end; from < all.n && (end = memchr(all.p + from, '\n', all.n - from)); from = (size_t)(end - all.p) + 1) {
        str_clear(&entry);
        term__unescape((bytes){(uint8_t *)all.p + from, (size_t)(end - all.p) - from}, &entry);
        term__enter(t, str_bytes(&entry));
    }
    str_drop(&all);
    str_drop(&t->newest);
    t->newest = entry;
}

/* An entry of the history, unless it is the newest one already. */
static void term__remember(term_input *t, bytes text) {
    str line = {0};
    if (!t->edit || !text.n || bytes_eq(text, str_bytes(&t->newest))) return;
    str_clear(&t->newest);
    str_add(&t->newest, text.p, text.n);
    term__enter(t, text);
    term__escape(text, &line);
    str_put(&line, "\n");
    if (t->past_fd >= 0) {
        flock(t->past_fd, LOCK_EX);
        if (write(t->past_fd, line.p, line.n) < 0) log_info("history: %s", strerror(errno));
        flock(t->past_fd, LOCK_UN);
    }
    str_drop(&line);
}

/* --- opening and closing --- */

/* Lines are edited from now on. False: they stay plain, because libedit or what it needs is missing. */
static bool term__open_edit(term_input *t) {
    const char *type = getenv("TERM");
    term_entry  entry;
    const bool  able = t->screen >= 0 && type && *type && strcmp(type, "dumb") != 0;
    const int   screen = able ? fcntl(t->screen, F_DUPFD_CLOEXEC, 3) : -1;
    if (screen < 0 || !(t->drawn = fdopen(screen, "w"))) return false;
    t->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!t->utf8 || !term__load(&t->lib)) return false;
    const locale_t before = uselocale(t->utf8);
    t->edit = t->lib.open("llmrun", stdin, t->drawn, t->drawn);
    if (t->edit && (t->past = t->lib.past_open())) {
        t->lib.past(t->past, &entry, TERM_PAST_SIZE, TERM_HISTORY);
        t->lib.set(t->edit, TERM_EL_PROMPT, term__prompt);
        t->lib.set(t->edit, TERM_EL_EDITOR, L"emacs");
        t->lib.set(t->edit, TERM_EL_GETC, term__getc);
        t->lib.set(t->edit, TERM_EL_HISTORY, t->lib.past, t->past);
        t->lib.set(t->edit, TERM_EL_ADD, L"llmrun-paste", L"takes a paste as it is", term__on_paste);
        t->lib.set(t->edit, TERM_EL_BIND, term__paste_key, L"llmrun-paste", NULL);
        t->lib.set(t->edit, TERM_EL_ADD, L"llmrun-past", L"goes through the history where no text is lost", term__on_past);
        for (int i = 0; i < TERM_PAST_KEYS; i++) {
            t->lib.set(t->edit, TERM_EL_BIND, term__past_keys[i].keys, L"llmrun-past", NULL);
            t->lib.set(t->edit, TERM_EL_BIND, term__past_keys[i].to, term__past_keys[i].function, NULL);
        }
        t->lib.set(t->edit, TERM_EL_ADD, L"llmrun-tab", L"completes a command", term__on_tab);
        t->lib.set(t->edit, TERM_EL_BIND, L"^I", L"llmrun-tab", NULL);
        /* libedit's own commands: an open quote in one ends the program */
        t->lib.set(t->edit, TERM_EL_BIND, L"\033x", L"ed-unassigned", NULL);
        t->lib.set(t->edit, TERM_EL_BIND, L"\033X", L"ed-unassigned", NULL);
        t->lib.set(t->edit, TERM_EL_TTY, L"-d", L"-icrnl", L"-inlcr", NULL);   /* or a line end of two bytes were two newlines */
        t->lib.source(t->edit, NULL);                 /* ~/.editrc: a person's own keys */
    }
    uselocale(before);
    return t->edit && t->past;
}

/* The terminal is as before term_open(). */
static void term_close(term_input *t) {
    if (!t) return;
    if (t->edit) t->lib.close(t->edit);
    if (t->past) t->lib.past_close(t->past);
    if (t->drawn) fclose(t->drawn);
    if (t->utf8) freelocale(t->utf8);
    if (t->past_fd >= 0) close(t->past_fd);
    if (t->in != STDIN_FILENO) close(t->in);
    for (int i = 0; t->person && i < TERM_SIGNALS; i++) signal(term__signals[i].signal, SIG_DFL);
    str_drop(&t->newest);
    term__tty.one = NULL;
    mem_free(t);
}

/* Standard input, once at a time. `words`, with its ctx: what Tab completes; NULL: nothing. */
static term_input *term_open(term_words words, void *ctx) {
    term_input *t = mem_new(1, sizeof *t);
    ASSERT(!term__tty.one);
    term__tty.one = t;
    t->words = words;
    t->ctx = ctx;
    t->in = STDIN_FILENO;
    t->person = isatty(t->in) && tcgetattr(t->in, &term__tty.settings) == 0;
    t->screen = term__tty.screen = isatty(STDERR_FILENO) ? STDERR_FILENO : isatty(STDOUT_FILENO) ? STDOUT_FILENO : -1;
    t->past_fd = -1;
    if (!t->person) return t;
    /* Ctrl-C may empty the terminal's buffer between ppoll() and read(), which then must not wait. */
    const int own = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) t->in = own;
    for (int i = 0; i < TERM_SIGNALS; i++) term__listen(i);
    if (term__open_edit(t) && (t->past_fd = term__open_history()) >= 0) term__load_history(t);
    log_info("terminal    %s", t->edit ? "lines are edited (libedit)" : "plain lines (without libedit)");
    return t;
}

/* --- messages --- */

static const char term__quote[] = "\"\"\"";

static bool term__quoted(const str *s) { return s->n >= 3 && memcmp(s->p, term__quote, 3) == 0; }
static bool term__unquoted(const str *s) { return s->n >= 6 && memcmp(s->p + s->n - 3, term__quote, 3) == 0; }

/* Whether the message goes on after what has been typed; a backslash that says so is removed. */
static bool term__continues(str *typed) {
    if (term__quoted(typed)) return !term__unquoted(typed);
    if (!typed->n || typed->p[typed->n - 1] != '\\') return false;
    typed->p[--typed->n] = 0;
    return true;
}

/* The message that was typed: without its quotes, and without the newlines next to them. */
static void term__finish(const term_input *t, const str *typed, term_message *m) {
    size_t from = 0, to = typed->n;
    m->literal = t->at_once || term__quoted(typed);
    if (term__quoted(typed)) {
        from = 3;
        if (term__unquoted(typed)) to -= 3;
        if (from < to && typed->p[from] == '\n') from++;
        if (from < to && typed->p[to - 1] == '\n') to--;
    }
    str_add(&m->text, typed->p + from, to - from);
}

/* What the end of a message's lines means. */
static term_event term__without(term_input *t, const str *typed) {
    term__screen(t, "\n");
    if (!t->stopped) return TERM_END;
    if (g_interrupt != SIGINT || !t->person || !typed->n) return TERM_STOPPED;
    g_interrupt = 0;
    return TERM_DROPPED;
}

static bool term__read_line(term_input *t, bool more, str *line) {
    t->more = more;
    term__tty.bold = t->person && t->screen >= 0 && screen_colours(t->screen);
    if (term__tty.bold) term__screen(t, SCREEN_BOLD);
    if (!t->edit) term__screen(t, more ? "| " : "> ");
    const bool there = t->edit ? term__read_edited(t, line) : term__read_plain(t, line);
    term__plain();
    term__tty.bold = 0;
    return there;
}

/* The lines of one message, as they were typed. */
static term_event term__read_lines(term_input *t, str *typed) {
    bool more = false;
    do {
        if (more) str_put(typed, "\n");
        const bool there = term__read_line(t, more, typed);
        if (!there && (t->stopped || t->e->code || !typed->n)) return term__without(t, typed);
        if (!there) break;
    } while ((more = term__continues(typed)));
    return TERM_READ;
}

/* The next message goes to *m, which its caller drops. */
static term_event term_read(term_input *t, term_message *m, err_t *e) {
    sigset_t ours, before;
    str      typed = {0};
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGWINCH);
    sigaddset(&ours, SIGCONT);
    sigaddset(&ours, SIGTSTP);
    *m = (term_message){0};
    str_put(&m->text, "");
    str_put(&typed, "");
    t->stopped = t->at_once = false;
    t->e = e;
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    t->waiting = before;
    const term_event ev = term__read_lines(t, &typed);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ev == TERM_READ) {
        term__finish(t, &typed, m);
        term__remember(t, str_bytes(&typed));
    }
    str_drop(&typed);
    return ev;
}
