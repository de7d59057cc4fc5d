/* ===== [screen] text on a terminal =====
 * What makes a text pleasant to read for a person: lines that end between words, and attributes that tell the person's line, the
 * answer and what is said about it apart. Nothing here is for a pipe or a file, which gets exact bytes.
 *   Text comes in parts. The end of a part that is the beginning of a word is held back until it is known whether the
 * word fits into its line. The width is asked for each part, so that a window of another size is noticed.
 * Public: screen_text, screen_columns, screen_flow, screen_drop, screen_colours, screen_aside. */

#define SCREEN_BOLD  "\033[1m"
#define SCREEN_DIM   "\033[2m"
#define SCREEN_PLAIN "\033[0m"

enum { SCREEN_LEAST = 20, SCREEN_TAB = 8 };           /* columns of a window below which words are not wrapped; of a tab */

typedef struct {
    int  col;                                         /* columns of the line that are written */
    str  gap, word;                                   /* held back: the blanks after them, and the word after those */
    int  gap_cols, word_cols;
    int  ticks;                                       /* grave accents at the beginning of the line; -1: that is behind */
    bool through;                                     /* a word is longer than a line: it is written as it comes */
    bool as_is;                                       /* so is this line: of a table, or a fence around code */
    bool fence;                                       /* it is a fence */
    bool code;                                        /* lines between two fences, too */
} screen_text;

/* Columns of the window of a terminal; 0: fd is none, or does not say, or the window is too narrow for words. */
static int screen_columns(int fd) {
    struct winsize w;
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col >= SCREEN_LEAST ? w.ws_col : 0;
}

/* Columns of a character: 2 of East Asian ones and emoji, 0 of marks that combine with the one before. */
static int screen__width(uint32_t c) {
    static locale_t utf8;
    if (c < 0x80) return 1;
    if (!utf8 && !(utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0))) return 1;
    const locale_t before = uselocale(utf8);
    const int      n = wcwidth((wchar_t)c);
    uselocale(before);
    return n < 0 ? 1 : n;
}

/* Writes the word that is held back, on a new line where it does not fit into this one and that may end before it. */
static void screen__flush(screen_text *s, bool may_end, int columns, str *out) {
    if (may_end && s->word.n && s->col && s->col + s->gap_cols + s->word_cols >= columns) {
        str_put(out, "\n");
        s->col = 0;
    } else {
        str_cat(out, str_bytes(&s->gap));
        s->col += s->gap_cols;
    }
    str_cat(out, str_bytes(&s->word));
    s->col += s->word_cols;
    if (columns && s->col >= columns) s->col %= columns;
    str_clear(&s->gap);
    str_clear(&s->word);
    s->gap_cols = s->word_cols = 0;
}

/* Whether the line is of a table or of a fence is seen at its first characters. */
static void screen__begin(screen_text *s, uint32_t c) {
    if (s->ticks < 0 || c == ' ') return;
    s->as_is = s->as_is || (c == '|' && !s->ticks);
    s->ticks = c == '`' ? s->ticks + 1 : -1;
    if (s->ticks == 3) s->fence = s->as_is = true;
}

/* Whether the line may end before the word that is held back. */
static bool screen__wraps(const screen_text *s, int columns) { return columns && !s->through && !s->as_is && !s->code; }

static void screen__newline(screen_text *s, int columns, str *out) {
    screen__flush(s, screen__wraps(s, columns), columns, out);
    str_put(out, "\n");
    s->code ^= s->fence;
    s->col = s->ticks = 0;
    s->fence = s->as_is = s->through = false;
}

/* A character that is neither a newline nor white space. */
static void screen__char(screen_text *s, bytes c, uint32_t code, int columns, str *out) {
    const int width = screen__width(code);
    screen__begin(s, code);
    const bool wraps = screen__wraps(s, columns);
    if (width == 2) screen__flush(s, wraps, columns, out);   /* lines may end at each side of it */
    str_cat(&s->word, c);
    s->word_cols += width;
    if (width < 2 && wraps && s->word_cols < columns) return;
    screen__flush(s, wraps, columns, out);
    s->through = s->through || width < 2;
}

/* Appends a part of a text, valid UTF-8, in lines of less than so many columns; 0: as it is. ended: nothing is held back.
 * Lines of tables and of code are left to the terminal, so that what is copied of them is whole. */
static void screen_flow(screen_text *s, bytes text, bool ended, int columns, str *out) {
    str_put(out, "");
    for (size_t i = 0, len; i < text.n; i += len) {
        const uint8_t c = text.p[i];
        len = max_size((size_t)utf8_len(text.p + i, text.n - i), 1);
        if (c == '\n') screen__newline(s, columns, out);
        else if (c == ' ' || c == '\t') {
            if (s->word.n) screen__flush(s, screen__wraps(s, columns), columns, out);
            s->through = false;
            str_cat(&s->gap, bytes_slice(text, i, i + 1));
            s->gap_cols += c == ' ' ? 1 : SCREEN_TAB - (s->col + s->gap_cols) % SCREEN_TAB;
        } else screen__char(s, bytes_slice(text, i, i + len), utf8_get(text.p + i, (int)len), columns, out);
    }
    if (ended || !columns) screen__flush(s, screen__wraps(s, columns), columns, out);
}

/* Frees what is held back. */
static void screen_drop(screen_text *s) { str_drop_all(&s->gap, &s->word); }

/* Whether a terminal shows attributes, and its person wants them (no-color.org). */
static bool screen_colours(int fd) {
    const char *type = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(fd) && type && *type && strcmp(type, "dumb") != 0 && !(no && *no);
}

/* Writes whole characters beside the answer to standard error: dim where a terminal can show that. */
static void screen_aside(bytes text) {
    const bool dim = screen_colours(STDERR_FILENO);
    progress_clear();
    if (dim) fputs(SCREEN_DIM, stderr);
    log_text(text);
    if (dim) fputs(SCREEN_PLAIN, stderr);
    fflush(stderr);
}
