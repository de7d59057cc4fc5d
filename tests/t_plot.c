/* [plot]: a picture shows every value, stays inside its borders and is XML, whatever the names hold. tests/cli.py (bench_plot) parses
 * it with an XML parser. */
#include "program.h"
#include "check.h"

static int t_plot__count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

static void t_plot_step(void) {
    static const struct { double most, step; } cases[] = {{1, 0.2}, {5, 1}, {5.1, 2}, {9.9, 2}, {11, 5}, {343, 100}, {0.037, 0.01}, {0, 1}, {INFINITY, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) NEAR(plot__step(cases[i].most), cases[i].step, 1e-9 * cases[i].step);
}

static void t_plot_escape(void) {
    static const struct { const char *text; int most; const char *want; } cases[] = {
        {"a<b>&\"c\"'", 99, "a&#60;b&#62;&#38;&#34;c&#34;&#39;"}, {"\x01\x1b[31m\x7f", 99, "??[31m?"}, {"\xff" "a\xe2\x82", 99, "\xef\xbf\xbd" "a\xef\xbf\xbd"},
        {"\xef\xbf\xbf\xef\xbf\xbe\xef\xbf\xbd", 99, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, {"\xc3\xa9\xc3\xa9\xc3\xa9", 2, "\xc3\xa9\xc3\xa9\xe2\x80\xa6"},
        {"abc", 3, "abc"}, {"", 3, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str s = {0};
        str_put(&s, "");
        plot__escape(&s, cases[i].text, cases[i].most);
        EQ_STR(s.p, cases[i].want);
        str_drop(&s);
    }
}

static void t_plot_bars(void) {
    plot g = {.title = "t", .below = "b", .caption = "c", .panel = {{0}, {.title = "p"}}};
    str  s = {0};
    plot_add(&g.panel[1], "pp512", 0, 325.67, 2.08);
    plot_add(&g.panel[1], "tg128", 0, 41.934, 0);
    plot_add(&g.panel[1], "x<y", 0, 0, 0);
    plot_svg(&g, &s);
    CHECK(strstr(s.p, ">325.7 \xc2\xb1 2.08<") && strstr(s.p, ">41.93<") && strstr(s.p, ">x&#60;y<"));
    EQ_INT(t_plot__count(s.p, "<rect"), 1 + 3);       /* the card, the bars */
    EQ_INT(t_plot__count(s.p, "<polyline"), 0);
    plot_drop(&g);
    str_drop(&s);
}

/* Names of many lines that end at the same height do not overlap and stay within the panel. */
static void t_plot_lines(void) {
    enum { LINES = 30 };
    plot g = {.title = "t", .below = "b", .caption = "c", .panel = {{.title = "p", .x_name = "x", .x_log = true}}};
    str  s = {0};
    for (int i = 0; i < LINES; i++) {
        char name[8];
        snprintf(name, sizeof name, "line%d", i);
        plot_add(&g.panel[0], name, 1, i, 0);
        plot_add(&g.panel[0], name, 32, 7, 0);
    }
    plot_svg(&g, &s);
    EQ_INT(t_plot__count(s.p, "<polyline"), LINES);
    EQ_INT(t_plot__count(s.p, "<circle"), 2 * LINES);
    const plot_frame f = plot__frame(&g.panel[0], 0);
    double           last = -INFINITY;
    int              n = 0;
    str_clear(&s);
    plot__line_names(&s, &g.panel[0], &f);
    for (const char *p = s.p; (p = strstr(p, " y=\"")); p++, n++) {
        const double y = strtod(p + 4, NULL);
        CHECKF(y - last >= PLOT_GAP - 0.2 && y <= f.bottom + PLOT_GAP, "name %d at %g, the one before at %g, the panel ends at %g", n, y, last, f.bottom);
        last = y;
    }
    EQ_INT(n, LINES);
    plot_drop(&g);
    str_drop(&s);
}

static const t_case t_plot_cases[] = {
    {"plot_step", "marks of an axis are 1, 2 or 5 times a power of ten apart", t_plot_step},
    {"plot_escape", "names become text of XML, cut at a character", t_plot_escape},
    {"plot_bars", "each bar has its name and its value with the deviation", t_plot_bars},
    {"plot_lines", "a line for each name with a dot for each value; names never overlap", t_plot_lines},
};
static const t_suite t_plot_suite = SUITE(t_plot_cases);
