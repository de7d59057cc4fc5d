/* ===== [plot] rates as a picture (SVG) =====
 * Panels below each other, each with bars (a row for each value) or with lines over a number (context depth, sequences). The
 * picture has a white background, is as wide as a README shows pictures, and is well-formed XML, whatever the names hold.
 * Public: plot_add, plot_svg, plot_drop.
 * Opens: plot, plot_panel, plot_point. */

enum {
    PLOT_WIDTH = 840,
    PLOT_EDGE = 24,                                   /* pixels of margin */
    PLOT_PANELS = 2,
    PLOT_ROW = 26, PLOT_BAR = 16,                     /* height of a bar with its gap; without */
    PLOT_LINES = 240,                                 /* height of a panel of lines, at least */
    PLOT_GAP = 18,                                    /* least distance between two names of lines */
    PLOT_NAME = 44,                                   /* most characters of a name */
    PLOT_TICKS = 5,
};
#define PLOT_INK  "#1c2128"
#define PLOT_SOFT "#57606a"
#define PLOT_GRID "#e1e4e8"

static const char *const plot_colors[] = {"#0969c8", "#e08600", "#2f9e6e", "#8250df", "#cf3a5b", "#0f7f8c"};
enum { PLOT_COLORS = sizeof plot_colors / sizeof *plot_colors };

typedef struct {
    char  *name;                                      /* of the bar or the line; owned */
    int    line;                                      /* points with the same name form a line; the first name is line 0 */
    double x, y;
    double spread;                                    /* standard deviation of y; 0: unknown */
} plot_point;

typedef struct {
    const char *title, *x_name;                       /* x_name NULL: bars */
    bool        x_log;                                /* logarithmic: x doubles from mark to mark */
    plot_point *p;
    int         n, n_lines;
} plot_panel;

typedef struct {
    const char *title, *below, *caption;
    plot_panel  panel[PLOT_PANELS];                   /* panels without points are not drawn */
} plot;

/* Adds a point; points of one name are one bar's or one line's. */
static void plot_add(plot_panel *a, const char *name, double x, double y, double spread) {
    const size_t n = strlen(name) + 1;
    int          line = a->n_lines;
    for (int i = 0; i < a->n && line == a->n_lines; i++)
        if (strcmp(a->p[i].name, name) == 0) line = a->p[i].line;
    a->p = mem_grow(a->p, (size_t)a->n + 1, sizeof *a->p);
    a->p[a->n] = (plot_point){.name = mem_new(n, 1), .line = line, .x = x, .y = y, .spread = spread};
    memcpy(a->p[a->n++].name, name, n);
    a->n_lines += line == a->n_lines;
}

/* Frees the points. */
static void plot_drop(plot *g) {
    for (int k = 0; k < PLOT_PANELS; k++) {
        for (int i = 0; i < g->panel[k].n; i++) mem_free(g->panel[k].p[i].name);
        mem_free(g->panel[k].p);
        g->panel[k] = (plot_panel){0};
    }
}

/* --- elements --- */

/* Appends at most `most` characters of a text for XML: markup escaped, control characters as ?, invalid bytes as U+FFFD. */
static void plot__escape(str *s, const char *text, int most) {
    const bytes b = bytes_of(text);
    for (size_t i = 0, len; i < b.n; i += len) {
        const uint8_t c = b.p[i];
        len = (size_t)utf8_len(b.p + i, b.n - i);
        if (most-- == 0) {
            str_put(s, "\xe2\x80\xa6");
            return;
        }
        if (!len) str_put(s, "\xef\xbf\xbd"), len = utf8_bad(b.p + i, b.n - i);
        else if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'') str_fmt(s, "&#%d;", c);
        else if (c < 0x20 || c == 0x7f) str_put(s, "?");
        else if (len == 3 && c == 0xef && b.p[i + 1] == 0xbf && b.p[i + 2] >= 0xbe)
            str_put(s, "\xef\xbf\xbd"); /* U+FFFE, U+FFFF */
        else str_add(s, b.p + i, len);
    }
}

/* Estimated width of a text in pixels, rather too large: fonts differ between viewers. */
static double plot__width(const char *text, double size) {
    int n = 0;
    for (const char *p = text; *p && n <= PLOT_NAME; p++) n += ((uint8_t)*p & 0xc0) != 0x80;
    return 0.64 * size * n;
}

typedef struct {
    double      size;
    const char *anchor, *color;                       /* start, middle or end */
    bool        bold;
} plot_style;

static const plot_style plot_head = {18, "start", PLOT_INK, true}, plot_plain = {13, "start", PLOT_INK, false},
                        plot_soft = {12.5, "start", PLOT_SOFT, false}, plot_name = {13, "start", PLOT_INK, true},
                        plot_left = {13, "end", PLOT_INK, false}, plot_tick = {12.5, "middle", PLOT_SOFT, false},
                        plot_side = {12.5, "end", PLOT_SOFT, false};

static void plot__text(str *s, double x, double y, const plot_style *t, const char *text, int most) {
    str_fmt(s, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\" fill=\"%s\"%s>", x, y, t->size, t->anchor,
            t->color, t->bold ? " font-weight=\"bold\"" : "");
    plot__escape(s, text, most);
    str_put(s, "</text>\n");
}

static void plot__line(str *s, double x1, double y1, double x2, double y2, const char *color, double width) {
    str_fmt(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%g\"/>\n", x1, y1, x2, y2,
            color, width);
}

/* --- scales --- */

/* Distance of marks on an axis up to `most`: 1, 2 or 5 times a power of ten, for at most PLOT_TICKS marks. */
static double plot__step(double most) {
    static const double of[] = {1, 2, 5, 10};
    const double        raw = most > 0 && isfinite(most) ? most / PLOT_TICKS : 1;
    const double        power = pow(10, floor(log10(raw)));
    int                 i = 0;
    while (i < 3 && of[i] * power < raw * 0.999) i++;
    return of[i] * power;
}

/* The highest mark of the y axis: at least every y of the panel. */
static double plot__top(const plot_panel *a) {
    double most = 0;
    for (int i = 0; i < a->n; i++) most = fmax(most, a->p[i].y + a->p[i].spread);
    const double step = plot__step(most);
    return step * fmax(1, ceil(most / step - 1e-9));
}

/* --- bars --- */

static double plot__names(const plot_panel *a) {
    double widest = 0;
    for (int i = 0; i < a->n; i++) widest = fmax(widest, plot__width(a->p[i].name, plot_left.size));
    return widest;
}

static int plot__bars_height(const plot_panel *a) { return a->n * PLOT_ROW + 34; }

/* A value with a useful number of digits: 0.0012, 4.10, 325.7, 1234. */
static void plot__number(str *s, double v) {
    str_fmt(s, v > 0 && v < 0.1 ? "%.2g" : v < 100 ? "%.2f" : v < 1000 ? "%.1f" : "%.0f", v);
}

static void plot__bar(str *s, const plot_point *p, const char *color, double left, double scale, double y) {
    const double end = left + p->y * scale, side = p->spread * scale, middle = y + PLOT_BAR / 2.0;
    str          value = {0};
    plot__number(&value, p->y);
    if (p->spread > 0) str_put(&value, " \xc2\xb1 "), plot__number(&value, p->spread);
    plot__text(s, left - 8, middle + 4.5, &plot_left, p->name, PLOT_NAME);
    str_fmt(s, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"1\" fill=\"%s\"/>\n", left, y, end - left, PLOT_BAR,
            color);
    if (side > 0) plot__line(s, fmax(left, end - side), middle, end + side, middle, PLOT_INK, 1.2);
    plot__text(s, end + side + 7, middle + 4.5, &plot_plain, value.p, PLOT_NAME);
    str_drop(&value);
}

static void plot__bars(str *s, const plot_panel *a, const char *color, double y) {
    const double left = PLOT_EDGE + 8 + plot__names(a), right = PLOT_WIDTH - 136, most = plot__top(a), step = plot__step(most);
    const double scale = (right - left) / most, bottom = y + a->n * PLOT_ROW + 2;
    for (int i = 0; i * step <= most * 1.001; i++) {
        char word[32];
        snprintf(word, sizeof word, "%g", i * step);
        plot__line(s, left + i * step * scale, y - 4, left + i * step * scale, bottom, i ? PLOT_GRID : "#8c959f", 1);
        plot__text(s, left + i * step * scale, bottom + 17, &plot_tick, word, PLOT_NAME);
    }
    for (int i = 0; i < a->n; i++) plot__bar(s, &a->p[i], color, left, scale, y + i * PLOT_ROW + 3);
}

/* --- lines --- */

static double plot__field(const plot_panel *a) {
    const int names = a->n_lines * PLOT_GAP;
    return max_int(names, PLOT_LINES);
}

static int plot__lines_height(const plot_panel *a) { return (int)plot__field(a) + 62; }

typedef struct {
    double left, right, top, bottom;                  /* pixels of the field of the lines */
    double x_least, x_most, y_most;                   /* values at its edges; y begins at 0 */
    bool   x_log;                                     /* x grows by factors */
} plot_frame;

static double plot__x(const plot_frame *f, double x) {
    const double all = f->x_log ? log(f->x_most / f->x_least) : f->x_most - f->x_least;
    const double at = f->x_log ? log(x / f->x_least) : x - f->x_least;
    return f->left + (all > 0 ? at / all : 0.5) * (f->right - f->left);
}

static double plot__y(const plot_frame *f, double y) { return f->bottom - y / f->y_most * (f->bottom - f->top); }

static plot_frame plot__frame(const plot_panel *a, double y) {
    plot_frame f = {.left = PLOT_EDGE + 44,
                    .right = PLOT_WIDTH - PLOT_EDGE - 16 - plot__names(a),
                    .top = y,
                    .bottom = y + plot__field(a),
                    .x_least = INFINITY,
                    .y_most = plot__top(a),
                    .x_log = a->x_log};
    for (int i = 0; i < a->n; i++) f.x_least = fmin(f.x_least, a->p[i].x), f.x_most = fmax(f.x_most, a->p[i].x);
    return f;
}

/* Draws marks of the x axis at the points; those whose labels would overlap are left out. */
static void plot__x_marks(str *s, const plot_panel *a, const plot_frame *f) {
    double last = -INFINITY;
    plot__line(s, f->left, f->bottom, f->right, f->bottom, "#8c959f", 1);
    for (double x = f->x_least;;) {
        char   word[32];
        double next = INFINITY, at = plot__x(f, x);
        snprintf(word, sizeof word, "%g", x);
        if (at - last >= plot__width(word, plot_tick.size) + 10) {
            plot__line(s, at, f->bottom, at, f->bottom + 5, "#8c959f", 1);
            plot__text(s, at, f->bottom + 19, &plot_tick, word, PLOT_NAME);
            last = at;
        }
        for (int i = 0; i < a->n; i++) next = a->p[i].x > x ? fmin(next, a->p[i].x) : next;
        if (next == INFINITY) break;
        x = next;
    }
    plot__text(s, (f->left + f->right) / 2, f->bottom + 39, &plot_tick, a->x_name, PLOT_WIDTH);
}

static void plot__y_marks(str *s, const plot_frame *f) {
    const double step = plot__step(f->y_most);
    for (int i = 0; i * step <= f->y_most * 1.001; i++) {
        char word[32];
        snprintf(word, sizeof word, "%g", i * step);
        plot__line(s, f->left, plot__y(f, i * step), f->right, plot__y(f, i * step), PLOT_GRID, 1);
        plot__text(s, f->left - 8, plot__y(f, i * step) + 4.5, &plot_side, word, PLOT_NAME);
    }
}

/* Draws one line through its points in the order of plot_add(), with a dot on each. */
static void plot__curve(str *s, const plot_panel *a, const plot_frame *f, int line) {
    const char *color = plot_colors[line % PLOT_COLORS];
    str_put(s, "<polyline points=\"");
    for (int i = 0; i < a->n; i++)
        if (a->p[i].line == line) str_fmt(s, "%.1f,%.1f ", plot__x(f, a->p[i].x), plot__y(f, a->p[i].y));
    str_fmt(s, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.4\"%s/>\n", color,
            line >= PLOT_COLORS ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < a->n; i++) {
        if (a->p[i].line != line) continue;
        str_fmt(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"1.2\"><title>",
                plot__x(f, a->p[i].x), plot__y(f, a->p[i].y), color);
        plot__escape(s, a->p[i].name, PLOT_NAME);
        str_fmt(s, ", %g: %.2f</title></circle>\n", a->p[i].x, a->p[i].y);
    }
}

/* The last point of a line: its name is drawn there. */
static const plot_point *plot__end(const plot_panel *a, int line) {
    const plot_point *last = NULL;
    for (int i = 0; i < a->n; i++)
        if (a->p[i].line == line && (!last || a->p[i].x >= last->x)) last = &a->p[i];
    return last;
}

/* Number of lines that end above this line; of lines that end at the same height the first counts as the highest. */
static int plot__rank(const plot_panel *a, int line) {
    const double y = plot__end(a, line)->y;
    int          above = 0;
    for (int k = 0; k < a->n_lines; k++) {
        const double other = plot__end(a, k)->y;
        above += other > y || (other == y && k < line);
    }
    return above;
}

/* Draws names at the ends of the lines, from the top down, at least PLOT_GAP apart. */
static void plot__line_names(str *s, const plot_panel *a, const plot_frame *f) {
    int   *line = mem_new((size_t)a->n_lines, sizeof *line);
    double y = f->top - PLOT_GAP;
    for (int k = 0; k < a->n_lines; k++) line[plot__rank(a, k)] = k;
    for (int rank = 0; rank < a->n_lines; rank++) {
        const plot_point *p = plot__end(a, line[rank]);
        const plot_style  name = {13, "start", plot_colors[line[rank] % PLOT_COLORS], true};
        y = fmax(y + PLOT_GAP, fmin(plot__y(f, p->y), f->bottom - (a->n_lines - 1 - rank) * PLOT_GAP));
        plot__text(s, f->right + 10, y + 4.5, &name, p->name, PLOT_NAME);
    }
    mem_free(line);
}

static void plot__lines(str *s, const plot_panel *a, double y) {
    const plot_frame f = plot__frame(a, y);
    plot__y_marks(s, &f);
    plot__x_marks(s, a, &f);
    for (int line = 0; line < a->n_lines; line++) plot__curve(s, a, &f, line);
    plot__line_names(s, a, &f);
}

/* --- the picture --- */

/* Appends the picture as SVG. */
static void plot_svg(const plot *g, str *s) {
    int height = 76 + 38;
    for (int k = 0; k < PLOT_PANELS; k++)
        if (g->panel[k].n) height += 38 + (g->panel[k].x_name ? plot__lines_height : plot__bars_height)(&g->panel[k]);
    str_fmt(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\" role=\"img\">\n<title>",
            PLOT_WIDTH, height, PLOT_WIDTH, height);
    plot__escape(s, g->title, PLOT_WIDTH);
    str_fmt(s, "</title>\n<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>\n",
            PLOT_WIDTH - 1, height - 1);
    plot__text(s, PLOT_EDGE, 34, &plot_head, g->title, 2 * PLOT_NAME);
    plot__text(s, PLOT_EDGE, 56, &plot_soft, g->below, 3 * PLOT_NAME);
    double y = 76;
    for (int k = 0; k < PLOT_PANELS; k++) {
        const plot_panel *a = &g->panel[k];
        if (!a->n) continue;
        plot__text(s, PLOT_EDGE, y + 18, &plot_name, a->title, 2 * PLOT_NAME);
        if (a->x_name) plot__lines(s, a, y + 38);
        else plot__bars(s, a, plot_colors[0], y + 32);
        y += 38 + (a->x_name ? plot__lines_height : plot__bars_height)(a);
    }
    plot__text(s, PLOT_EDGE, height - 16, &plot_soft, g->caption, 3 * PLOT_NAME);
    str_put(s, "</svg>\n");
}
