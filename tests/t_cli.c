/* Walks the option table and checks every column of its rows. Rules without a row (prompts, escapes, conflicts) have
 * tables here. */
#include "program.h"
#include "check.h"
#include "t_gguf.h"

enum { T_CLI_WORDS = 32 };

/* The words of `line`, which '|' separates, through the parser. The config keeps views of a static copy. */
static bool t_cli__parse(config *c, const char *line, err_t *e) {
    static char copy[8][4096];
    static int  turn;
    char       *word[T_CLI_WORDS], *p = copy[turn++ & 7];
    int         n = 0;
    snprintf(p, sizeof copy[0], "%s", line);
    for (char *at = p; at && n < T_CLI_WORDS; n++) {
        word[n] = at;
        at = strchr(at, '|');
        if (at) *at++ = 0;
    }
    *c = cli_defaults();
    *e = (err_t){0};
    return cli_parse(c, *line ? n : 0, word, e);
}

/* Whether a field has the same value in two configs. */
static bool t_cli__same(const cli_opt *o, const config *a, const config *b) {
    const char *x = (const char *)a + o->at, *y = (const char *)b + o->at;
    const char *s, *t;
    switch (cli_full(o).kind) {
    case OPT_ON:
    case OPT_OFF: return *(const bool *)x == *(const bool *)y;
    case OPT_SET:
    case OPT_BITS:
    case OPT_INT:
    case OPT_LAYERS: return *(const int *)x == *(const int *)y;
    case OPT_I64: return *(const int64_t *)x == *(const int64_t *)y;
    case OPT_SIZE: return *(const uint64_t *)x == *(const uint64_t *)y;
    case OPT_FLT: return *(const float *)x == *(const float *)y;
    case OPT_TYPE: return *(const uint32_t *)x == *(const uint32_t *)y;
    case OPT_STR:
    case OPT_WORD:
        s = *(const char *const *)x, t = *(const char *const *)y;
        return s == t || (s && t && strcmp(s, t) == 0);
    case OPT_LIST: {
        const cli_list *l = (const cli_list *)x, *m = (const cli_list *)y;
        return l->n == m->n && (!l->n || strcmp(l->v[0], m->v[0]) == 0);
    }
    case OPT_NUMS:
    case OPT_PAIR:
    case OPT_TYPES:
    case OPT_LEVELS:
    case OPT_WORDS: {
        const bench_list *l = (const bench_list *)(const void *)x, *m = (const bench_list *)(const void *)y;
        return l->n == m->n && memcmp(l->v, m->v, (size_t)l->n * sizeof *l->v) == 0;
    }
    case OPT_ACT: return a->action == b->action;
    case OPT_SAMP: break;
    }
    return false;
}

/* The words before an option that select the meaning of its row. */
static const char *t_cli__before(const cli_opt *o) { return o->group == GROUP_BENCH ? "--bench|" : ""; }

/* A value that the row accepts. */
static void t_cli__sample(const cli_opt *o, bool high, char *buf, size_t n) {
    const char *bar = strchr(o->arg, '|');
    switch (o->kind) {
    case OPT_INT:
    case OPT_LAYERS:
    case OPT_I64:
    case OPT_FLT:
    case OPT_SIZE: cli__number(high ? o->hi : o->lo, buf, n); break;
    case OPT_WORD:
    case OPT_BITS:
    case OPT_TYPES:
    case OPT_LEVELS:
    case OPT_WORDS:
    case OPT_TYPE: snprintf(buf, n, "%.*s", (int)strcspn(o->arg, "|"), o->arg); break;
    case OPT_NUMS: snprintf(buf, n, "%.0f,%.0f", o->hi, o->lo); break;
    case OPT_PAIR: snprintf(buf, n, "%.0f,%.0f", o->lo, o->hi); break;
    case OPT_ACT: snprintf(buf, n, "%.*s", bar ? (int)(bar - o->arg) : 4, bar ? o->arg : "name"); break;
    default: snprintf(buf, n, "some text, = and all");
    }
}

static bool t_cli__is_number(const cli_opt *o) {
    return o->kind == OPT_INT || o->kind == OPT_I64 || o->kind == OPT_FLT || o->kind == OPT_SIZE;
}

static void t_cli_table(void) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt  full = cli_full(&cli_opts[i]), *o = &full;
        const char    *names = o->names;
        bytes          w = cli_long_name(o);
        CHECKF(w.n > 2 && w.p[1] == '-', "%s has no long name", o->names);
        CHECKF(strlen(o->help) > 3 && o->help[strlen(o->help) - 1] != '.', "%s: help '%s'", o->names, o->help);
        CHECKF(o->group < N_GROUPS, "%s has no group", o->names);
        CHECKF(!t_cli__is_number(o) || o->lo < o->hi, "%s: an empty range", o->names);
        CHECKF(o->at < sizeof(config), "%s is outside of config", o->names);
        CHECKF((o->kind >= OPT_INT && o->kind <= OPT_LIST) == (o->arg != NULL) || o->kind == OPT_ACT, "%s: argument and kind disagree", o->names);
        while (cli_word(&names, ' ', &w)) {
            const bool     bench = o->group == GROUP_BENCH;
            const cli_opt *other = cli_find(!bench, w);
            CHECKF(cli_find(bench, w) == &cli_opts[i], "%.*s belongs to two options", (int)w.n, w.p);
            CHECKF(!other == !o || !other->arg == !o->arg, "%.*s takes a value only now and then", (int)w.n, w.p);
        }
    }
}

static void t_cli_spellings(void) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt  full = cli_full(&cli_opts[i]), *o = &full;
        const char    *names = o->names;
        for (bytes w; cli_word(&names, ' ', &w);) {
            char   line[512], value[128] = "";
            config a, b = cli_defaults();
            err_t  e;
            if (o->arg) t_cli__sample(o, true, value, sizeof value);
            const char *before = t_cli__before(o);
            snprintf(line, sizeof line, "%s%.*s%s%s", before, (int)w.n, (const char *)w.p, o->arg ? "|" : "", value);
            CHECKF(t_cli__parse(&a, line, &e), "%s: %s", line, e.text);
            if (o->arg) {
                snprintf(line, sizeof line, "%s%.*s=%s", before, (int)w.n, (const char *)w.p, value);
                CHECKF(t_cli__parse(&b, line, &e), "%s: %s", line, e.text);
                CHECKF(t_cli__same(o, &a, &b), "%.*s: the two spellings differ", (int)w.n, w.p);
                cli_drop(&b);
                snprintf(line, sizeof line, "%s%.*s", before, (int)w.n, (const char *)w.p);
                if (*o->arg == '[') CHECKF(t_cli__parse(&b, line, &e), "%s without a value: %s", line, e.text);
                else CHECKF(!t_cli__parse(&b, line, &e) && e.code == EXIT_INPUT && strstr(e.text, "found nothing"), "%s without a value: %s", line, e.text);
            } else {
                snprintf(line, sizeof line, "%s%.*s=1", before, (int)w.n, (const char *)w.p);
                CHECKF(!t_cli__parse(&b, line, &e) && strstr(e.text, "takes no value"), "%s: %s", line, e.text);
            }
            cli_drop(&a);
            cli_drop(&b);
        }
    }
}

/* Both ends are accepted and arrive; what lies beyond is refused, naming option, value and range. */
static void t_cli_ranges(void) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt  full = cli_full(&cli_opts[i]), *o = &full;
        if (!t_cli__is_number(o)) continue;
        bytes name = cli_long_name(o);
        for (int high = 0; high < 2; high++) {
            char   value[64], line[256], lo[32], hi[32], beyond[64];
            config c;
            err_t  e;
            t_cli__sample(o, high, value, sizeof value);
            snprintf(line, sizeof line, "%s%.*s=%s", t_cli__before(o), (int)name.n, (const char *)name.p, value);
            CHECKF(t_cli__parse(&c, line, &e), "%s: %s", line, e.text);
            double got = o->kind == OPT_INT ? *(int *)((char *)&c + o->at) : o->kind == OPT_FLT ? (double)*(float *)((char *)&c + o->at)
                       : o->kind == OPT_I64 ? (double)*(int64_t *)((char *)&c + o->at) : (double)*(uint64_t *)((char *)&c + o->at);
            double want = high ? o->hi : o->lo;
            CHECKF(got == (o->kind == OPT_FLT ? (double)(float)want : want), "%s: got %g", line, got);
            double out = high ? o->hi + fmax(1, fabs(o->hi) * 1e-3) : o->lo - 1;
            snprintf(beyond, sizeof beyond, "%.0f", out);
            if (o->kind == OPT_SIZE && out < 0) continue;     /* a size has no sign */
            snprintf(line, sizeof line, "%s%.*s=%s", t_cli__before(o), (int)name.n, (const char *)name.p, beyond);
            CHECKF(!t_cli__parse(&c, line, &e), "%s was accepted", line);
            cli__number(o->lo, lo, sizeof lo);
            cli__number(o->hi, hi, sizeof hi);
            snprintf(line, sizeof line, "%.*s: %s is out of range, expected %s to %s", (int)name.n, (const char *)name.p, beyond, lo, hi);
            EQ_STR(e.text, line);
            EQ_INT(e.code, EXIT_INPUT);
        }
    }
}

/* Whether a model file with this value in the parameter's key is taken, and what arrives. */
static bool t_cli__from_file(const samp_param *p, double x, config *c) {
    char      text[200];
    gguf_file g;
    err_t     e = {0};
    uint8_t  *own;
    if (p->whole) snprintf(text, sizeof text, "G3 #0 #1 '%s i11 q%.0f", p->gguf, x);
    else snprintf(text, sizeof text, "G3 #0 #1 '%s i12 d%.17g", p->gguf, x);
    str  file = tg_file(text);
    bool ok = CHECK(tg_parse(&g, &file, &own, &e));
    *c = cli_defaults();
    ok = ok && act__from_model(c, &g, &e);
    CHECKF(ok || (e.code == EXIT_INPUT && strstr(e.text, p->gguf)), "%s", e.text);
    gguf_close(&g);
    mem_free(own);
    str_drop(&file);
    return ok;
}

static bool t_cli__from_body(const samp_param *p, double x, samp_opts *o) {
    char  line[200];
    req   q;
    err_t e = {0};
    snprintf(line, sizeof line, "{\"prompt\":\"\",\"%s\":%.17g}", p->json, x);
    const gen_request base = gen_ask(NULL, &gen_defaults, &samp_defaults, 0);
    const req_form form = {&base, 10, true, false, NULL, NULL};
    const bool     ok = req_read(&q, bytes_of(line), &form, &e);
    CHECKF(ok || (e.code == EXIT_INPUT && strstr(e.text, p->json)), "%s", e.text);
    *o = q.ask.samp;
    req_drop(&q);
    return ok;
}

static bool t_cli__from_line(const cli_opt *o, double x, config *c) {
    char        line[256];
    err_t       e;
    const bytes name = cli_long_name(o);
    snprintf(line, sizeof line, "-m|x|%.*s|%.*f", (int)name.n, (const char *)name.p, x == floor(x) ? 0 : 6, x);
    return t_cli__parse(c, line, &e) && act_finish(c, &e);
}

/* Options, keys of a body and keys of a model file take the same numbers, and the sampler takes what they take. */
static void t_cli_sampler_ranges(void) {
    int n_line = 0, n_body = 0, n_file = 0;
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const samp_param *p = cli_param(&cli_opts[i]);
        if (!p) continue;
        const double step = fmax(1, fabs(p->hi) * 1e-3), x[] = {p->lo, p->hi, p->lo - step, p->hi + step};
        for (int k = 0; k < 4; k++) {
            config      c, f;
            samp_opts   o;
            const char *at = (const char *)&c.samp + p->at;
            const bool  want = k < 2;
            CHECKF(t_cli__from_line(&cli_opts[i], x[k], &c) == want, "%s: %g as an option", p->name, x[k]);
            if (want) EQ_MEM(at, p->whole ? (const void *)&(int){(int)x[k]} : (const void *)&(float){(float)x[k]}, 4);
            if (p->json) CHECKF(t_cli__from_body(p, x[k], &o) == want, "%s: %g in a body", p->name, x[k]);
            if (p->json && want) EQ_MEM((const char *)&o + p->at, at, 4);
            if (p->gguf) CHECKF(t_cli__from_file(p, x[k], &f) == want, "%s: %g in a model file", p->name, x[k]);
            if (p->gguf && want) EQ_MEM((const char *)&f.samp + p->at, at, 4);
            cli_drop(&c);
        }
        n_line++;
        n_body += p->json != NULL;
        n_file += p->gguf != NULL;
    }
    EQ_INT(n_line, SAMP_PARAMS);
    CHECK(n_body >= 7 && n_file >= 11);
}

static int t_cli__count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n += p[strlen(what)] != '-';   /* --lookup is not --lookup-cache */
    return n;
}

/* Rows of the table that are spelled as row i is: an option may mean something of its own with --bench. */
static int t_cli__alike(int i) {
    int n = 0;
    for (int k = 0; k < N_CLI_OPTS; k++) n += strcmp(cli_opts[k].names, cli_opts[i].names) == 0;
    return n;
}

static void t_cli_help(void) {
    str plain = {0}, md = {0};
    help__text(110, &plain);
    help__md(&md);
    for (int i = 0; i < N_CLI_OPTS; i++) {
        str row = {0}, cell = {0};
        str_put(&row, "\n  ");
        cli_spell(&cli_opts[i], ", ", &row);
        str_put(&row, cli_opts[i].arg ? " " : "");
        CHECKF(t_cli__count(plain.p, row.p) == t_cli__alike(i), "--help has %d rows of %s", t_cli__count(plain.p, row.p), cli_opts[i].names);
        str_put(&cell, "| `");
        cli_spell(&cli_opts[i], "`, `", &cell);
        str_put(&cell, "`");
        CHECKF(t_cli__count(md.p, cell.p) == t_cli__alike(i), "--help --format md has %d rows of %s", t_cli__count(md.p, cell.p), cli_opts[i].names);
        str_drop(&row);
        str_drop(&cell);
    }
    for (int g = 0; g < N_GROUPS; g++) CHECK(t_cli__count(plain.p, cli_groups[g].title) == 1 && t_cli__count(md.p, cli_groups[g].title) == 1);
    for (int i = 0; i < N_HELP_EXITS; i++) {
        char row[64];
        snprintf(row, sizeof row, "\n  %s ", help_exits[i].code);
        CHECKF(strstr(plain.p, row) != NULL, "--help does not name exit code %s", help_exits[i].code);
    }
    for (char *line = md.p; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (*line == '|' && line[1] == ' ') {
            int bars = 0;
            for (const char *p = line; *p != '\n'; p++) bars += *p == '|' && (p == line || p[-1] != '\\');
            CHECKF(bars == 4, "a row of %d bars: %.60s", bars, line);
        }
    str_drop(&plain);
    str_drop(&md);
}

/* Lines of the text, and columns of its longest one. */
static int t_cli__lines(const char *text, size_t *widest) {
    int n = 0;
    for (const char *p = text; *p; n++) {
        const size_t len = strcspn(p, "\n");
        if (len > *widest) *widest = len;
        p += len + (p[len] == '\n');
    }
    return n;
}

static void t_cli_help_width(void) {
    for (int width = HELP_NARROW; width <= HELP_WIDE; width++) {
        str    full = {0}, usual = {0};
        size_t widest = 0;
        help__text(width, &full);
        help__usage(width, &usual);
        t_cli__lines(full.p, &widest);
        const int n = t_cli__lines(usual.p, &widest);
        CHECKF(widest <= (size_t)width, "%zu columns in a window of %d", widest, width);
        CHECKF(width < 80 || n <= 23, "-h has %d lines in a window of %d columns", n, width);
        str_drop(&full);
        str_drop(&usual);
    }
    for (int i = 0; i < N_HELP_USUAL; i++) CHECKF(cli_find(false, bytes_of(help_usual[i].name)), "-h names %s", help_usual[i].name);
}

/* Each topic prints the rows of its group and no others; the name of an option prints its rows; a slip gets a suggestion. */
static void t_cli_help_topics(void) {
    str   s = {0};
    err_t e = {0};
    for (int g = 0; g < N_GROUPS; g++) {
        CHECKF(help__about(cli_groups[g].topic, 80, &s, &e), "%s: %s", cli_groups[g].topic, e.text);
        for (int i = 0; i < N_CLI_OPTS; i++) {
            str row = {0};
            str_put(&row, "\n  ");
            cli_spell(&cli_opts[i], ", ", &row);
            int n = 0;
            for (int k = 0; k < N_CLI_OPTS; k++) n += (int)cli_opts[k].group == g && strcmp(cli_opts[k].names, cli_opts[i].names) == 0;
            CHECKF(n == 0 || t_cli__count(s.p, row.p) >= n, "%s lacks %s", cli_groups[g].topic, cli_opts[i].names);
            str_drop(&row);
        }
        str_clear(&s);
    }
    CHECK(help__about("temp", 80, &s, &e) && strstr(s.p, "Sampling:\n  --temp, --temperature X"));
    str_clear(&s);
    CHECK(help__about("--threads", 80, &s, &e) && strstr(s.p, "Running:") && strstr(s.p, "Benchmarks"));
    str_clear(&s);
    static const struct { const char *topic, *error; } wrong[] = {
        {"smapling", "--help: no topic smapling (did you mean sampling?)"}, {"quantise", "--help: no topic quantise (did you mean quantize?)"},
        {"tempp", "--help: no topic tempp (did you mean temp?)"},
        {"zebra", "--help: no topic zebra, expected an option or one of actions, prompt, hub, chat, run, sampling, structure, speculation, cache, rope, evaluation, "
                  "quantize, batch, serve, bench, output, models, checkpoints, types, templates, tool-calls, embeddings, gpu, guarantees, "
                  "performance, limits"},
        {"templats", "--help: no topic templats (did you mean templates?)"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e = (err_t){0};
        CHECK(!help__about(wrong[i].topic, 80, &s, &e) && e.code == EXIT_INPUT);
        EQ_STR(e.text, wrong[i].error);
    }
    str_drop(&s);
}

/* Whether every long option that a text names is one; `others`: names of other programs, each with a blank after it. */
static void t_cli__names_options(const char *text, const char *others) {
    for (const char *p = text; (p = strstr(p, "--")); p += 2) {
        const bytes name = {(const uint8_t *)p, 2 + strspn(p + 2, "abcdefghijklmnopqrstuvwxyz0123456789-")};
        char        word[64];
        snprintf(word, sizeof word, "%.*s ", (int)name.n, p);
        if (name.n > 2) CHECKF(cli_find(false, name) || cli_find(true, name) || strstr(others, word), "%s is no option", word);
    }
}

/* Texts of topics: they stand behind the options of a group with their name, name options that exist, and fit into 80 columns. */
static void t_cli_help_texts(void) {
    for (int t = 0; t < TOPICS; t++) {
        const topic *about = &topics_all[t];
        str          s = {0};
        err_t        e = {0};
        bool         lists = false;
        CHECKF(help__about(about->name, 80, &s, &e) && strstr(s.p, about->title), "%s: %s", about->name, e.text);
        CHECKF(help__topic(about->name) < 0 || strncmp(s.p, cli_groups[help__topic(about->name)].title, 10) == 0, "%s: no options", about->name);
        for (int i = 0; about->line[i]; i++) {
            str list = {0};
            t_cli__names_options(about->line[i], "--modelfile --array ");
            if (*about->line[i] == '@') {
                lists = true;
                CHECKF(help__print_list(about->line[i] + 1, false, &list) && strstr(s.p, list.p), "no list %s", about->line[i]);
            }
            str_drop(&list);
        }
        for (const char *p = s.p; !lists && *p; p += strcspn(p, "\n") + 1)
            CHECKF(strcspn(p, "\n") <= 80, "%s: a line of %zu columns: %.90s", about->name, strcspn(p, "\n"), p);
        str_drop(&s);
    }
}

/* The man page has its sections and every option; no line begins with a request that is none. */
static void t_cli_help_man(void) {
    static const char *const sections[] = {"NAME", "SYNOPSIS", "DESCRIPTION", "ACTIONS", "OPTIONS", "CONVERSATIONS", "TOPICS", "SERVER", "ENVIRONMENT", "FILES", "\"EXIT STATUS\"", "EXAMPLES"};
    static const char *const requests[] = {".TH", ".SH", ".SS", ".TP", ".PP", ".B ", ".nf", ".fi"};
    str man = {0};
    help__man(&man);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n.SH %s\n", sections[i]);
        CHECKF(strstr(man.p, line) != NULL, "no section %s", sections[i]);
    }
    for (int i = 0; i < METRICS_ROWS; i++) {
        char tag[96];
        snprintf(tag, sizeof tag, ".TP\n\\fBllmrun_%s\\fR\n", metrics_rows[i].name);
        CHECKF(strstr(man.p, tag) != NULL, "the man page lacks %s", metrics_rows[i].name);
    }
    for (const char *p = man.p; *p; p += strcspn(p, "\n") + 1) {
        bool known = *p != '.' && *p != '\'';
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) known = known || strncmp(p, requests[i], strlen(requests[i])) == 0;
        CHECKF(known, "an unknown request: %.40s", p);
    }
    for (int i = 0; i < N_CLI_OPTS; i++) {
        str names = {0}, row = {0};
        str_put(&names, "");
        cli_spell(&cli_opts[i], ", ", &names);
        str_put(&row, ".TP\n\\fB");
        help__roff(&row, names.p);
        str_put(&row, "\\fR");
        CHECKF(strstr(man.p, row.p) != NULL, "the man page lacks %s", names.p);
        str_drop(&names);
        str_drop(&row);
    }
    str_drop(&man);
}

/* The default that help prints, given as a value, changes nothing. */
static void t_cli_defaults(void) {
    config start = cli_defaults();
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt  full = cli_full(&cli_opts[i]), *o = &full;
        str            def = {0};
        config         c;
        err_t          e = {0};
        cli_default(o, &def);
        if (def.n) {
            char  line[512];
            bytes name = cli_long_name(o);
            snprintf(line, sizeof line, "%s%.*s=%s", t_cli__before(o), (int)name.n, (const char *)name.p, def.p);
            CHECKF(t_cli__parse(&c, line, &e), "%s: %s", line, e.text);
            CHECKF(t_cli__same(o, &c, &start), "%s is not the default", line);
        } else {
            CHECKF(!t_cli__is_number(o), "%s shows no default", o->names);
        }
        str_drop(&def);
    }
}

/* An action that the option has an effect on. */
static int t_cli__served(const cli_opt *o) { return o->kind == OPT_ACT ? ACT_GENERATE : __builtin_ctz(o->serves); }

static void t_cli_near(void) {
    static const struct { const char *typed, *meant; } cases[] = {
        {"--tempp", "--temp"}, {"--tmep", "--temp"}, {"-temp", "--temp"}, {"--top_k", "--top-k"}, {"--top-l", "--top-k"},
        {"--modle", "--model"}, {"--promt", "--prompt"}, {"--treads", "--threads"}, {"--tokenise", "--tokenize"},
        {"--detokenise", "--detokenize"}, {"--repeat-penality", "--repeat-penalty"}, {"--min_p", "--min-p"},
        {"--ignore-eso", "--ignore-eos"}, {"--cachetype-k", "--cache-type-k"}, {"--ctk", "-ctk"}, {"--versoin", "--version"},
        {"--temperat", "--temperature"}, {"--ctx", "--ctx-size"}, {"--max-tokens", ""}, {"-x", ""}, {"--zebra", ""}, {"-", ""}, {"--", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes near = cli__near(bytes_of(cases[i].typed), ACT_GENERATE);
        CHECKF(bytes_is(near, cases[i].meant), "%s: suggests %.*s, want %s", cases[i].typed, (int)near.n, (const char *)near.p, cases[i].meant);
    }
    /* any one slip in a long name leads back to a name at most one slip away */
    for (int i = 0; i < N_CLI_OPTS; i++) {
        bytes     name = cli_long_name(&cli_opts[i]);
        const int action = t_cli__served(&cli_opts[i]);
        for (size_t at = 2; name.n >= 7 && at < name.n; at++) {
            char slip[80];
            snprintf(slip, sizeof slip, "%.*s%.*s", (int)at, (const char *)name.p, (int)(name.n - at - 1), (const char *)name.p + at + 1);
            bytes near = cli__near(bytes_of(slip), action);
            CHECKF(cli_find(false, bytes_of(slip)) || (near.n && bytes_distance(bytes_of(slip), near) <= 1), "%s suggests %.*s", slip, (int)near.n, (const char *)near.p);
        }
    }
    config c;
    err_t  e;
    CHECK(!t_cli__parse(&c, "--tempp|1", &e));
    EQ_STR(e.text, "unknown option --tempp (did you mean --temp?)");
    CHECK(!t_cli__parse(&c, "--tempp=1", &e));
    EQ_STR(e.text, "unknown option --tempp (did you mean --temp?)");
    CHECK(!t_cli__parse(&c, "--zebra", &e));
    EQ_STR(e.text, "unknown option --zebra (--help lists them)");
}

/* Whether a text has the name of an option, alone or before a blank. */
static bool t_cli__has_option(const char *text) {
    for (bytes w; cli_word(&text, ' ', &w);)
        if (w.p[0] == '-' && cli_find(false, bytes_slice(w, 0, w.n - (w.p[w.n - 1] == ',')))) return true;
    return false;
}

static void t_cli_others(void) {
    static const struct { const char *line, *error; } cases[] = {
        {"-m|x|--max-tokens|5", "unknown option --max-tokens, expected -n N"},
        {"-m|x|--max_new_tokens=5", "unknown option --max_new_tokens, expected -n N"},
        {"-m|x|--schema|{}", "unknown option --schema, expected --json-schema JSON"},
        {"-m|x|--system|hi", "unknown option --system, expected -sys TEXT"},
        {"-m|x|--gpu", "unknown option --gpu, expected -ngl N, with --device N to choose a GPU"},
        {"chat|-m|x", "unexpected argument 'chat': llmrun has options in place of commands, llmrun -m FILE talks with a model in a terminal, "
                      "llmrun -m FILE -p TEXT answers once"},
        {"serve", "unexpected argument 'serve': llmrun has options in place of commands, llmrun -m FILE --serve PORT answers requests over HTTP"},
        {"-m|x|run", "unexpected argument 'run', expected an option (a prompt goes after -p)"},
        {"x.gguf", "unexpected argument 'x.gguf', expected an option (a model goes after -m)"},
    };
    config c;
    err_t  e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!t_cli__parse(&c, cases[i].line, &e));
        EQ_STR(e.text, cases[i].error);
    }
    for (int i = 0; i < N_CLI_OTHERS; i++) {
        const char *names = cli_others[i].names, *use = cli_others[i].use;
        CHECKF(cli_find(false, (bytes){(const uint8_t *)use, strcspn(use, " ")}), "%s: no such option", use);
        for (bytes w; cli_word(&names, ' ', &w);)
            CHECKF(!cli_find(false, w) && !cli_find(true, w) && !cli__foreign(w), "%.*s is an option", (int)w.n, (const char *)w.p);
    }
    for (int i = 0; i < N_CLI_SUBCOMMANDS; i++) CHECKF(t_cli__has_option(cli_subcommands[i].use), "%s: no option", cli_subcommands[i].use);
}

static void t_cli_distance(void) {
    static const struct { const char *a, *b; int d; } cases[] = {
        {"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "xabc", 1},
        {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"top-k", "top_k", 1}, {"abcd", "badc", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EQ_INT(bytes_distance(bytes_of(cases[i].a), bytes_of(cases[i].b)), cases[i].d);
        EQ_INT(bytes_distance(bytes_of(cases[i].b), bytes_of(cases[i].a)), cases[i].d);
    }
    char long_name[100];
    memset(long_name, 'x', sizeof long_name);
    EQ_INT(bytes_distance((bytes){(uint8_t *)long_name, 63}, (bytes){(uint8_t *)long_name, 63}), 0);
    EQ_INT(bytes_distance((bytes){(uint8_t *)long_name, 64}, (bytes){(uint8_t *)long_name, 64}), 64);
}

static void t_cli_numbers(void) {
    static const char *const bad_int[] = {"", "-", "+", "0x10", " 1", "1 ", "1.0", "1e3", "1,000", "--1", "9223372036854775808", "-9223372036854775809", "\xd9\xa1"};
    static const struct { const char *text; int64_t v; } good_int[] = {{"0", 0}, {"-0", 0}, {"+7", 7}, {"007", 7}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}};
    static const char *const bad_flt[] = {"", ".", "-", "+.", "0x1p3", "nan", "inf", "-inf", "1,5", "1e", "1e+", " 1", "1 ", "1.5.2", "1f", "1e999", "infinity"};
    static const struct { const char *text; double v; } good_flt[] = {{"1", 1}, {"-1.5", -1.5}, {".5", .5}, {"2.", 2}, {"+2e-3", 2e-3}, {"1E2", 100}, {"0.1", 0.1}};
    static const char *const bad_size[] = {"", "K", "-1", "1Q", "1KK", "1iB", "1Kb", "1 K", "1.2.3M", "M1", "1e3"};
    static const struct { const char *text; double v; } good_size[] = {{"0", 0}, {"512", 512}, {"512B", 512}, {"64k", 65536}, {"64KiB", 65536}, {"1.5M", 1572864}, {"2GB", 2147483648.0}, {"1T", 0x1p40}};
    int64_t i;
    double  x;
    for (size_t k = 0; k < sizeof bad_int / sizeof *bad_int; k++) CHECKF(!cli__i64(bad_int[k], &i), "'%s' passed as a whole number", bad_int[k]);
    for (size_t k = 0; k < sizeof bad_flt / sizeof *bad_flt; k++) CHECKF(!cli__f64(bad_flt[k], &x), "'%s' passed as a number", bad_flt[k]);
    for (size_t k = 0; k < sizeof bad_size / sizeof *bad_size; k++) CHECKF(!cli__size(bad_size[k], &x), "'%s' passed as a size", bad_size[k]);
    for (size_t k = 0; k < sizeof good_int / sizeof *good_int; k++) CHECKF(cli__i64(good_int[k].text, &i) && i == good_int[k].v, "%s: got %lld", good_int[k].text, (long long)i);
    for (size_t k = 0; k < sizeof good_flt / sizeof *good_flt; k++) CHECKF(cli__f64(good_flt[k].text, &x) && x == good_flt[k].v, "%s: got %g", good_flt[k].text, x);
    for (size_t k = 0; k < sizeof good_size / sizeof *good_size; k++) CHECKF(cli__size(good_size[k].text, &x) && x == good_size[k].v, "%s: got %g", good_size[k].text, x);
}

/* Command lines, and what they come to: NULL is no error. */
static void t_cli_lines(void) {
    static const struct { const char *line, *error; } cases[] = {
        {"-m|x|-p|hi", NULL},
        {"-m|x|-p|--temp", NULL},                     /* what follows an option is its value, whatever it looks like */
        {"-m|x|-p|", NULL},
        {"-m|x|--temp=0|-n|-1|-p=a=b", NULL},
        {"-p|hi", "no model given, expected -m FILE, -hf OWNER/NAME or LLMRUN_MODEL in the environment (--help lists all options)"},
        {"-m||-p|hi", "no model given, expected -m FILE, -hf OWNER/NAME or LLMRUN_MODEL in the environment (--help lists all options)"},
        {"--help", NULL},
        {"--inspect|--help", NULL},
        {"--help|--inspect", NULL},
        {"--list|types|--format|md", NULL},
        {"-m|x|--inspect|--inspect", NULL},
        {"-m|x|--inspect|--json", NULL},
        {"-m|x|--inspect|--score", "--inspect and --score are two actions, expected one"},
        {"--version|--list|cpu", "--version and --list are two actions, expected one"},
        {"-m|x|-p|a|-f|b|-f|c|-f|-", NULL},
        {"-m|x|-f|-|-p|a|-f|-", "--file -: given 2 times, standard input can be read once"},
        {"-m|x|-p|a|-sys|b|-sysf|c", "--system-prompt and --system-prompt-file both give a system message, expected one"},
        {"-m|x|-i|-no-cnv", "--raw and --interactive disagree"},
        {"-m|x|-cnv|-i", NULL},
        {"-m|x|--score|-p|a|--raw", NULL},
        {"-m|x|--score|-p|a|--jinja", "--jinja has no effect on --score, only on generation, --interactive, --batch and --serve"},
        {"-m|x|--quantize|q8_0|-o|y|--keep-split", "--keep-split is an option of llama.cpp that llmrun does not have"},
        {"-m|x|--ppl|-f|a", "--ppl is an option of llama.cpp that llmrun does not have (--perplexity)"},
        {"-m|x|hello", "unexpected argument 'hello', expected an option (a prompt goes after -p)"},
        {"-m|x|-", "unexpected argument '-', expected an option (a prompt goes after -p)"},
        {"", "no model given, expected -m FILE, -hf OWNER/NAME or LLMRUN_MODEL in the environment (--help lists all options)"},
        {"-m|x|--inspect|--format|md", "--format: --inspect has no form md"},
        {"-m|x|-p|a|--logits|f|--json", "--format: --logits has no form json"},
        {"-m|x|--inspect|--json|--format|text", "--json and --format text disagree"},
        {"-m|x|--logits|a|-o|b|-p|c", "-o has no effect on --logits"},
        {"-m|x|--rope-scale|2|--rope-freq-scale|0.5|-p|a", "--rope-scale and --rope-freq-scale both give a scale, expected one"},
        {"-m|x|-p|a|-l|12+1|-l|13-inf|-l|14-2.5", NULL},
        {"-m|x|-p|a|-l|12", "--logit-bias: expected a token id and a signed number such as 15043+1, found '12'"},
        {"-m|x|-p|a|-l|-1+1", "--logit-bias: expected a token id and a signed number such as 15043+1, found '-1+1'"},
        {"-m|x|-p|a|-l|12+", "--logit-bias: expected a token id and a signed number such as 15043+1, found '12+'"},
        {"-m|x|-p|a|-l|99999999999+1", "--logit-bias: expected a token id and a signed number such as 15043+1, found '99999999999+1'"},
        {"-m|x|-e|--stop|a\\x00b", "--stop: \\x00 cannot be part of it"},
        {"-ctk|q9_9", "-ctk: expected f32, f16, bf16, q8_0 or q4_0, found 'q9_9'"},
        {"--batsh|x", "unknown option --batsh (did you mean --batch?)"},
        {"-m|x|--bench", NULL},
        {"--bench|-m|x|-m|y|-p|1,2|-n|4|-r|2|-o|csv", NULL},
        {"-m|x|-r|stop|-p|text|-n|5", NULL},          /* without --bench the same names mean what they mean */
        {"-m|x|-p|--bench|-t|2", NULL},               /* a value is not an option */
        {"-m|x|-p|a|-d|4096", "-d has no effect on generation, only on --bench"},
        {"-m|x|-p|a|-npl|4", "-npl has no effect on generation, only on --bench"},
        {"--bench", "no model given, expected -m FILE, -hf OWNER/NAME or LLMRUN_MODEL in the environment (--help lists all options)"},
        {"--bench|-m|x|-m|", "no model given, expected -m FILE, -hf OWNER/NAME or LLMRUN_MODEL in the environment (--help lists all options)"},
        {"--bench|-m|x|-p|0|-n|0", "--bench: nothing to measure, expected -p, -n or -pg with tokens"},
        {"--bench|-m|x|-p|hello", "-p: expected a whole number, found 'hello'"},
        {"--bench|-m|x|--json|-o|csv", "--json and --format csv disagree"},
        {"--bench|--score|-m|x", "--bench and --score are two actions, expected one"},
        {"-m|x|--score|-p|a|--format|csv", "--format: --score has no form csv"},
        {"-m|x|-p|a|--resume", "--resume has no effect on generation, only on --batch and --embed --batch"},
        {"-m|x|--score|-p|a|--temp=0.5", "--temp has no effect on --score, only on generation, --interactive, --batch and --serve"},
        {"-m|x|--batch|f|-p|a", "-p has no effect on --batch"},
        {"-m|x|--bench|--top-k|4", "--top-k has no effect on --bench, only on generation, --interactive, --batch and --serve"},
        {"--merge|a|-n5", "-n5 has no effect on --merge, only on generation, --interactive, --batch and --serve"},
        {"--help|--resume|-p|a|-d|5", NULL},          /* help is given whatever else stands there */
        {"-m|x|--version|-t|2|--cpu|scalar|-q", NULL},
        {"--merge|a|b|--|-c|--", NULL},               /* behind -- nothing is an option */
        {"-m|x|-p|a|--|-n|5", "unexpected argument '-n', expected an option (a prompt goes after -p)"},
        {"-m|x|-p|--|-n|5", NULL},                    /* nor is the value of one */
        {"-m|x|-p|a|-n5|-c512|-s-1|-ctkq8_0", NULL},
        {"-mx|-pa b=c", NULL},
        {"-m|x|-p|a|-n5x", "-n: expected a whole number, found '5x'"},
        {"-m|x|-modle|y", "unknown option -modle (did you mean --model?)"},
        {"-m|x|-p|a|--resum", "unknown option --resum (--help lists them)"},
        {"-m|x|--batch|f|--resum", "unknown option --resum (did you mean --resume?)"},
        {"--resum|-m|x|--batch|f", "unknown option --resum (did you mean --resume?)"},
        {"-m|x|-p|a|--repetition|3", "unknown option --repetition (--help lists them)"},
        {"-m|x|--bench|--repetition|3", "unknown option --repetition (did you mean --repetitions?)"},
        {"-m|x|-p|a|-fa|-n|5", NULL},
        {"-m|x|-p|a|-fa|on|--no-mmap|--mlock|-tb|4|--no-warmup|--simple-io|--no-display-prompt|--log-file|f|-ngl|99|--color", NULL},
        {"-m|x|-p|a|--log-file=f", NULL},
        {"-m|x|-p|a|-tb", "-tb: expected N after it, found nothing"},
        {"-m|x|-p|a|--simple-io=1", "--simple-io takes no value, found '1'"},
        {"-m|x|--bench|-fa|0|-mmp|1|--no-warmup", NULL},
        {"-m|x|-p|a|--lora|f", "--lora is an option of llama.cpp that llmrun does not have"},
        {"-m|x|-bf|f", "-bf is an option of llama.cpp that llmrun does not have (-f FILE takes any bytes)"},
        {"-m|x|-p|a|--format|jsonl", "--format: generation has no form jsonl"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config c;
        err_t  e;
        bool   ok = t_cli__parse(&c, cases[i].line, &e) && act_finish(&c, &e);
        if (cases[i].error) {
            CHECKF(!ok && e.code == EXIT_INPUT, "%s was accepted", cases[i].line);
            EQ_STR(e.text, cases[i].error);
        } else {
            CHECKF(ok, "%s: %s", cases[i].line, e.text);
        }
        cli_drop(&c);
    }
}

/* Lists of --bench: values, ranges and repetition; -1 closes what is wanted. */
static void t_cli_bench_lists(void) {
    static const struct { const char *line; size_t at; int want[10]; const char *error; } cases[] = {
        {"", AT(bench.prompt), {512, -1}, NULL},                       /* the default */
        {"-p|16", AT(bench.prompt), {16, -1}, NULL},                   /* gives way */
        {"-p|16,32|-p|64", AT(bench.prompt), {16, 32, 64, -1}, NULL},
        {"-n|0,007", AT(bench.gen), {0, 7, -1}, NULL},
        {"-d|2-5", AT(bench.depth), {2, 3, 4, 5, -1}, NULL},
        {"-d|0-9+4,100", AT(bench.depth), {0, 4, 8, 100, -1}, NULL},
        {"-npl|1-32*2", AT(bench.seqs), {1, 2, 4, 8, 16, 32, -1}, NULL},
        {"-t|3-3", AT(bench.threads), {3, -1}, NULL},
        {"-pg|512,128|-pg|16,0", AT(bench.pair), {512, 128, 16, 0, -1}, NULL},
        {"-b|1,65536", AT(bench.batch), {1, 65536, -1}, NULL},
        {"-ctk|q8_0,f16|-ctk|f32", AT(bench.type_k), {K_Q8_0, K_F16, K_F32, -1}, NULL},
        {"--cpu|scalar", AT(bench.level), {0, -1}, NULL},
        {"--repack|off,on|--repack|auto", AT(bench.repack), {2, 1, 0, -1}, NULL},
        {"--repack|no", 0, {0}, "--repack: expected auto, on or off, found 'no'"},
        {"-p|", 0, {0}, "-p: expected a whole number, found ''"},
        {"-p|1,", 0, {0}, "-p: expected a whole number, found ''"},
        {"-p|,1", 0, {0}, "-p: expected a whole number, found ''"},
        {"-p|-5", 0, {0}, "-p: -5 is out of range, expected 0 to 16777216"},
        {"-p|16777217", 0, {0}, "-p: 16777217 is out of range, expected 0 to 16777216"},
        {"-p|1-99999999999999999999", 0, {0}, "-p: 99999999999999999999 is out of range, expected 0 to 16777216"},
        {"-npl|0", 0, {0}, "-npl: 0 is out of range, expected 1 to 512"},
        {"-p|8-4", 0, {0}, "-p: 8-4 is an empty range"},
        {"-p|1-", 0, {0}, "-p: expected a whole number, found '1-'"},
        {"-p|1-8*1", 0, {0}, "-p: expected a range such as 1-8, 1-8+2 or 1-8*2, found '1-8*1'"},
        {"-p|0-8*2", 0, {0}, "-p: expected a range such as 1-8, 1-8+2 or 1-8*2, found '0-8*2'"},
        {"-p|1-8+0", 0, {0}, "-p: expected a range such as 1-8, 1-8+2 or 1-8*2, found '1-8+0'"},
        {"-p|1-8x", 0, {0}, "-p: expected a range such as 1-8, 1-8+2 or 1-8*2, found '1-8x'"},
        {"-p|1-65", 0, {0}, "-p: more than 64 values"},
        {"-pg|512", 0, {0}, "-pg: expected two numbers such as 512,128, found '512'"},
        {"-pg|1,2,3", 0, {0}, "-pg: expected two numbers such as 512,128, found '1,2,3'"},
        {"-ctk|f16,q9", 0, {0}, "-ctk: expected f32, f16, bf16, q8_0 or q4_0, found 'q9'"},
        {"--cpu|avx2,sse", 0, {0}, "--cpu: expected auto, scalar, avx2, avx_vnni, avx512, avx512_bf16 or avx512_amx, found 'sse'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char   line[256];
        config c;
        err_t  e;
        snprintf(line, sizeof line, "--bench|-m|x%s%s", *cases[i].line ? "|" : "", cases[i].line);
        bool ok = t_cli__parse(&c, line, &e) && act_finish(&c, &e);
        CHECKF(ok == !cases[i].error, "%s: %s", line, e.text);
        if (cases[i].error) EQ_STR(e.text, cases[i].error);
        const bench_list *l = (const bench_list *)(const void *)((const char *)&c + cases[i].at);
        int               n = 0;
        while (ok && cases[i].want[n] >= 0) n++;
        if (ok && CHECKF(l->n == n, "%s: %d values, want %d", line, l->n, n))
            for (int k = 0; k < n; k++) EQ_INT(l->v[k], cases[i].want[k]);
        cli_drop(&c);
    }
}

/* -o names a form, as in llama-bench, or a file. */
static void t_cli_bench_output(void) {
    static const struct { const char *line, *format, *output; } cases[] = {
        {"-r|7", "text", NULL}, {"-o|md", "md", NULL}, {"-o|jsonl", "jsonl", NULL}, {"-o|out.json", "json", "out.json"}, {"-o|./json", "text", "./json"},
        {"-o|a.b/x.csv", "csv", "a.b/x.csv"}, {"-o|x.md", "md", "x.md"}, {"-o|x.csv|--json", "json", "x.csv"}, {"-o|x.csv|--format|jsonl", "jsonl", "x.csv"}, {"-o|x.txt", "text", "x.txt"},
        {"-o|json|--format|csv", "csv", "json"}, {"--json", "json", NULL}, {"--format|jsonl", "jsonl", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char   line[256];
        config c;
        err_t  e;
        snprintf(line, sizeof line, "-m|x|%s|--bench", cases[i].line);
        CHECKF(t_cli__parse(&c, line, &e) && act_finish(&c, &e), "%s: %s", line, e.text);
        EQ_STR(c.format, cases[i].format);
        EQ_STR(c.output ? c.output : "none", cases[i].output ? cases[i].output : "none");
        EQ_INT(c.bench.reps, i ? 5 : 7);
        EQ_INT(c.models.n, 1);
        cli_drop(&c);
    }
}

static void t_cli_meaning(void) {
    config c;
    err_t  e;
    CHECK(t_cli__parse(&c, "-m|x|-n|-2|--rope-freq-scale|0.25|-e|--stop|a\\nb|-r|c\\x41|-l|7-inf|-sp|-ctv|q8_0|-q|--keep|-1", &e) && act_finish(&c, &e));
    EQ_INT(c.gen.n_predict, -1);
    EQ_INT(c.gen.n_keep, -1);
    NEAR(c.fwd.rope.factor, 4, 0);
    EQ_INT(c.gen.n_stop, 2);
    CHECK(bytes_is(c.gen.stop[0], "a\nb"));
    CHECK(bytes_is(c.gen.stop[1], "cA"));
    EQ_INT(c.samp.n_bias, 1);
    EQ_INT(c.samp.bias[0].id, 7);
    CHECK(isinf(c.samp.bias[0].bias) && c.samp.bias[0].bias < 0);
    EQ_INT(c.special, 1);
    CHECK(c.gen.special_out);
    EQ_INT(c.kv.type_v, K_Q8_0);
    EQ_INT(c.kv.type_k, kv_defaults.type_k);
    EQ_INT(c.log_level, LOG_QUIET);
    cli_drop(&c);
    CHECK(t_cli__parse(&c, "--temp|1|--temp|0.5|--ids|--context-shift|--no-context-shift", &e));
    NEAR(c.samp.temp, 0.5, 0);                        /* the last one holds */
    CHECK(c.text.ids && !c.gen.context_shift);
    cli_drop(&c);
}

static void t_cli_environment(void) {
    config c;
    err_t  e = {0};
    char  *old = getenv("LLMRUN_MODEL") ? strdup(getenv("LLMRUN_MODEL")) : NULL;
    setenv("LLMRUN_MODEL", "from-env.gguf", 1);
    c = cli_defaults();
    CHECK(cli_environment(&c, &e));
    EQ_STR(c.model, "from-env.gguf");
    char *arg[] = {(char *)(uintptr_t)"-m", (char *)(uintptr_t)"from-line.gguf"};
    CHECK(cli_parse(&c, 2, arg, &e));
    EQ_STR(c.model, "from-line.gguf");
    setenv("LLMRUN_MODEL", "", 1);
    c = cli_defaults();
    CHECK(cli_environment(&c, &e) && !c.model);
    unsetenv("LLMRUN_MODEL");
    if (old) setenv("LLMRUN_MODEL", old, 1);
    free(old);
}

static void t_cli_escapes(void) {
    static const struct { const char *in; const char *out; size_t n; } cases[] = {
        {"a\\nb", "a\nb", 3}, {"\\t\\r\\\\\\'\\\"", "\t\r\\'\"", 5}, {"\\x41\\x00z", "A\0z", 3}, {"\\xZZ\\q\\", "\\xZZ\\q\\", 7},
        {"\\x4", "\\x4", 3}, {"", "", 0}, {"\\\\n", "\\n", 2}, {"\\xfF", "\xff", 1}, {"\xc3\xa9", "\xc3\xa9", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str s = {0};
        cli_unescape(cases[i].in, &s);
        CHECKF(s.n == cases[i].n && (!s.n || !memcmp(s.p, cases[i].out, s.n)), "%s: %zu bytes, want %zu", cases[i].in, s.n, cases[i].n);
        str_drop(&s);
    }
}

/* A descriptor from which `text` can be read: NULL is one that is not open for reading, "" one that is empty. */
static int t_cli__input(const char *text, size_t n) {
    int fd[2];
    if (!text) return open("/dev/null", O_WRONLY);
    if (!n) return open("/dev/null", O_RDONLY);
    if (pipe(fd) != 0 || write(fd[1], text, n) != (ssize_t)n) return -1;
    close(fd[1]);
    return fd[0];
}

static void t_cli_prompt(void) {
    static const struct { const char *p, *in; size_t n_in; bool escape, alone; const char *want; size_t n; } cases[] = {
        {NULL, "hi\n", 3, false, false, "hi\n", 3},           /* byte for byte, the last newline too */
        {NULL, "a\0b\xff", 4, false, false, "a\0b\xff", 4},
        {NULL, "", 0, false, false, "", 0},
        {"hi", "", 0, false, false, "hi", 2},                 /* nothing on stdin appends nothing, no newline either */
        {"hi", NULL, 0, false, false, "hi", 2},               /* closed */
        {"", "", 0, false, false, "", 0},
        {"", "x", 1, false, false, "\nx", 2},
        {"Explain:", "diff\n", 5, false, false, "Explain:\ndiff\n", 14},
        {"a\\n", "b\\n", 3, false, false, "a\\n\nb\\n", 7},
        {"a\\n", "b\\n", 3, true, false, "a\n\nb\\n", 6},     /* escapes are read in -p alone */
        {"1 2", "3", 1, false, true, "1 2", 3},               /* --detokenize: ids in -p or on stdin */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config c = cli_defaults();
        str    s = {0};
        err_t  e = {0};
        int    fd = t_cli__input(cases[i].in, cases[i].n_in);
        c.prompt = cases[i].p;
        c.escape = cases[i].escape;
        CHECK(act__prompt(&c, fd, cases[i].alone, &s, &e));
        CHECKF(s.n == cases[i].n && !memcmp(s.p, cases[i].want, s.n), "case %zu: '%.*s'", i, (int)s.n, s.p);
        close(fd);
        str_drop(&s);
    }
}

static void t_cli_no_stdin(void) {
    config c = cli_defaults();
    str    s = {0};
    err_t  e = {0};
    char   byte;
    int    fd = t_cli__input("x", 1);
    c.prompt = "hi";
    c.no_stdin = true;
    CHECK(act__prompt(&c, fd, false, &s, &e));
    EQ_STR(s.p, "hi");
    CHECK(read(fd, &byte, 1) == 1 && byte == 'x');
    close(fd);
    str_drop(&s);
}

static void t_cli_prompt_file(void) {
    char   path[] = "/tmp/llmrun-t-cli-XXXXXX";
    int    fd = mkstemp(path);
    config c = cli_defaults();
    str    s = {0};
    err_t  e = {0};
    CHECK(fd >= 0 && write(fd, "\n one \0\r\n", 9) == 9);
    close(fd);
    int in = t_cli__input("not this", 8);
    cli_push(&c.files, path);
    CHECK(act__prompt(&c, in, false, &s, &e) && s.n == 9);
    if (s.n == 9) EQ_MEM(s.p, "\n one \0\r\n", 9);
    str_clear(&s);
    c.files.v[0] = "-";
    CHECK(act__prompt(&c, in, false, &s, &e));
    EQ_STR(s.p, "not this");
    unlink(path);
    c.files.v[0] = path;
    CHECK(!act__prompt(&c, in, false, &s, &e) && e.code == EXIT_INPUT && strstr(e.text, path));
    close(in);
    str_drop(&s);
    cli_drop(&c);
}

static void t_cli_chat_words(void) {
    static const struct { const char *line; int on; } cases[] = {
        {"-p|a", -1}, {"-p|a|--chat", 1}, {"-p|a|-cnv", 1}, {"-p|a|--conversation", 1}, {"-p|a|-st", 1}, {"-p|a|--single-turn", 1},
        {"-p|a|--jinja", 1}, {"-p|a|--raw", 0}, {"-p|a|--no-chat", 0}, {"-p|a|-no-cnv", 0}, {"-p|a|--no-conversation", 0},
        {"-p|a|--raw|--jinja", 1}, {"-p|a|--jinja|-no-cnv", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config c;
        err_t  e;
        CHECK(t_cli__parse(&c, cases[i].line, &e));
        CHECKF(c.chat.on == cases[i].on && c.action == ACT_GENERATE && !c.idle.n, "%s: %d", cases[i].line, c.chat.on);
        cli_drop(&c);
    }
}

/* -p, several -f and standard input. */
static void t_cli_prompt_files(void) {
    static const struct { const char *p, *file[3], *in, *want; bool alone; } cases[] = {
        {NULL,   {"A", "B"},         "in", "A\n\nB",              false},      /* without -p standard input is left alone */
        {NULL,   {"A\n", "B\n\n", "C"}, "", "A\n\nB\n\nC",         false},      /* one blank line, whatever a file ends with */
        {"ask:", {"A\n"},            "",   "ask:\n\nA\n",         false},
        {"ask:", {"A\n", "B"},       "in", "ask:\n\nA\n\nB\n\nin", false},
        {"ask:", {"A", "-", "B"},    "in", "ask:\n\nA\n\nin\n\nB", false},    /* - is standard input, which is read once */
        {"ask:", {"A", "B"},         "in", "ask:\n\nA\n\nB",      true},
        {"",     {"", "A"},          "",   "A",                   false},      /* nothing, no blank line after it */
        {"ask:", {"A"},              NULL, "ask:\n\nA",           false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char   path[3][32];
        config c = cli_defaults();
        str    s = {0};
        err_t  e = {0};
        int    in = t_cli__input(cases[i].in, cases[i].in ? strlen(cases[i].in) : 0);
        c.prompt = cases[i].p;
        for (int k = 0; k < 3 && cases[i].file[k]; k++) {
            const char *text = cases[i].file[k];
            snprintf(path[k], sizeof path[k], "/tmp/llmrun-t-cli-XXXXXX");
            const int fd = mkstemp(path[k]);
            CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
            close(fd);
            cli_push(&c.files, strcmp(text, "-") == 0 ? "-" : path[k]);
        }
        CHECK(act__prompt(&c, in, cases[i].alone, &s, &e));
        EQ_STR(s.p, cases[i].want);
        for (int k = 0; k < c.files.n; k++) unlink(path[k]);
        close(in);
        str_drop(&s);
        cli_drop(&c);
    }
}

static void t_cli_prompt_exists(void) {
    config c = cli_defaults();
    err_t  e = {0};
    int    shut = t_cli__input(NULL, 0), empty = t_cli__input("", 0);
    CHECK(act__prompt_exists(&c, empty, &e));
    CHECK(!act__prompt_exists(&c, shut, &e) && e.code == EXIT_INPUT);
    e = (err_t){0};
    CHECK(!act__prompt_exists(&c, -1, &e));
    c.prompt = "";
    e = (err_t){0};
    CHECK(act__prompt_exists(&c, shut, &e));
    close(shut);
    close(empty);
}

static void t_cli_ids(void) {
    static const struct { const char *text; int n; int32_t last; const char *error; } cases[] = {
        {"", 0, 0, NULL}, {"  \n", 0, 0, NULL}, {"5", 1, 5, NULL}, {"1 2,3\n4\t99", 5, 99, NULL}, {",,7,", 1, 7, NULL}, {"007", 1, 7, NULL},
        {"100", 0, 0, "--detokenize: id 100 at byte 0 is out of range, expected 0 to 99"},
        {"1 -1", 0, 0, "--detokenize: expected a token id at byte 2, found '-1'"},
        {"1x", 0, 0, "--detokenize: expected a token id at byte 0, found '1x'"},
        {"abc", 0, 0, "--detokenize: expected a token id at byte 0, found 'abc'"},
        {"99999999999999999999999999", 0, 0, "--detokenize: id 99999999999999999999 at byte 0 is out of range, expected 0 to 99"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tok_ids ids = {0};
        err_t   e = {0};
        bool    ok = act__read_ids(bytes_of(cases[i].text), 100, &ids, &e);
        CHECKF(ok == !cases[i].error, "'%s': %s", cases[i].text, e.text);
        if (!ok && cases[i].error) EQ_STR(e.text, cases[i].error);
        if (ok) {
            EQ_INT(ids.n, cases[i].n);
            if (ids.n) EQ_INT(ids.id[ids.n - 1], cases[i].last);
        }
        tok_ids_drop(&ids);
    }
}

/* Strings of a file cannot steer a terminal. */
static void t_cli_inspect_text(void) {
    static const struct { const char *in; size_t n, max; const char *want; } cases[] = {
        {"plain", 5, 72, "plain"}, {"\x1b[31m", 5, 72, "\\x1b[31m"}, {"a\nb\tc", 5, 72, "a\\nb\\x09c"}, {"\xff\xc3", 2, 72, "\\xff\\xc3"},
        {"\xc2\x9b" "1m", 4, 72, "\\xc2\\x9b1m"}, {"\xc3\xa9\xe2\x82\xac", 5, 72, "\xc3\xa9\xe2\x82\xac"}, {"abcdef", 6, 3, "abc..."},
        {"a\"b\\c", 5, 72, "a\"b\\c"}, {"\x7f\0", 2, 72, "\\x7f\\x00"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str s = {0};
        inspect__text(&s, (bytes){(const uint8_t *)cases[i].in, cases[i].n}, cases[i].max);
        EQ_STR(s.p, cases[i].want);
        str_drop(&s);
    }
}

static void t_cli_inspect_numbers(void) {
    static const struct { double x; bool single, json; const char *want; } cases[] = {
        {1e-5, true, false, "1e-05"}, {0.1, true, false, "0.1"}, {0.1, false, false, "0.1"}, {10000, true, false, "1e+04"}, {1.0 / 3, false, true, "0.3333333333333333"},
        {NAN, true, true, "null"}, {INFINITY, false, true, "null"}, {INFINITY, true, false, "inf"}, {-0.5, true, true, "-0.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str s = {0};
        inspect__float(&s, cases[i].single ? (double)(float)cases[i].x : cases[i].x, cases[i].single, cases[i].json);
        EQ_STR(s.p, cases[i].want);
        str_drop(&s);
    }
    static const struct { double n; const char *want; } sizes[] = {{0, "0 bytes"}, {1023, "1023 bytes"}, {1024, "1.00 KiB"}, {1536, "1.50 KiB"}, {640000, "625 KiB"}, {1185344, "1.13 MiB"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        str s = {0};
        str_size(&s, sizes[i].n);
        EQ_STR(s.p, sizes[i].want);
        str_drop(&s);
    }
}

/* Names of llama.cpp's options: one row each, none that llmrun uses itself except for --bench, and the right number of values. */
static void t_cli_foreign(void) {
    for (int i = 0; i < N_CLI_FOREIGN; i++) {
        const cli_foreign *f = &cli_foreigners[i];
        const char        *names = f->names;
        for (bytes w; cli_word(&names, ' ', &w);) {
            char           line[256];
            config         c;
            err_t          e;
            const cli_opt *own = cli_find(false, w);
            CHECKF(cli__foreign(w) == f, "%.*s stands in two rows", (int)w.n, w.p);
            CHECKF(!own || own->group == GROUP_BENCH, "%.*s is an option of llmrun", (int)w.n, w.p);
            snprintf(line, sizeof line, "-m|x|%.*s|%s-p|a", (int)w.n, (const char *)w.p,
                     !f->arg || *f->arg == '[' ? "" : strchr(f->arg, ' ') ? "1|2|" : "1|");
            const bool ok = t_cli__parse(&c, line, &e) && act_finish(&c, &e);
            CHECKF(ok == (f->fate == CLI_IDLE), "%s: %s", line, e.text);
            CHECKF(!ok || (c.idle.n == 1 && strcmp(c.prompt, "a") == 0), "%s: values are counted wrong", line);
            CHECKF(ok || strstr(e.text, "is an option of llama.cpp that llmrun does not have"), "%s: %s", line, e.text);
            cli_drop(&c);
        }
    }
}

/* An option is refused by exactly the actions that its row leaves out. */
static void t_cli_effect(void) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        CHECKF(o->serves && !(o->serves & ~(uint32_t)ON_ALL), "%s has an effect on nothing", o->names);
        for (int action = 0; action < N_ACTS; action++) {
            config c = cli_defaults();
            err_t  e = {0};
            c.action = action;
            c.given[i] = "--given";
            const bool want = (o->serves >> action & 1) || action >= ACT_USAGE, got = cli_effective(&c, &e);
            CHECKF(got == want, "%s on action %d: %s", o->names, action, e.text);
            CHECKF(got || (e.code == EXIT_INPUT && strstr(e.text, "--given has no effect on ")), "%s: %s", o->names, e.text);
        }
    }
}

/* Row i without its partner: named; beside each of its partners: not. */
static void t_cli__partner(int i) {
    const cli_opt *o = &cli_opts[i];
    const char    *names = cli_partners[o->beside].names;
    const uint32_t on = cli_partners[o->beside].on & o->serves;
    config         c = cli_defaults();
    str            lacks = {0};
    CHECKF(on && !(on & ~o->serves), "%s: its partner is wanted nowhere", o->names);
    c.given[i] = "--given";
    c.action = __builtin_ctz(on);
    c.spec.lookup = c.spec.head = false;              /* the partners that are on by default */
    CHECKF(cli_lacks(&c, i, &lacks), "%s: nothing is missing", o->names);
    for (bytes w; cli_word(&names, ' ', &w);) {
        const cli_opt *partner = cli_find(c.action == ACT_BENCH, w);
        char           line[200], value[128] = "";
        config         both;
        err_t          e;
        str            none = {0};
        if (!CHECKF(partner != NULL, "%s wants %.*s, which is no option", o->names, (int)w.n, w.p)) continue;
        CHECKF(memmem(lacks.p, lacks.n, w.p, w.n) != NULL, "%s: %s does not name %.*s", o->names, lacks.p, (int)w.n, w.p);
        const cli_opt full = cli_full(partner);
        if (full.arg) t_cli__sample(&full, true, value, sizeof value);
        snprintf(line, sizeof line, "%s%.*s%s%s", c.action == ACT_BENCH ? "--bench|" : "", (int)w.n, (const char *)w.p, full.arg ? "|" : "", value);
        CHECKF(t_cli__parse(&both, line, &e), "%s: %s", line, e.text);
        both.action = c.action;
        both.given[i] = "--given";
        CHECKF(!cli_lacks(&both, i, &none), "%s beside %s lacks something", o->names, line);
        cli_drop(&both);
        str_drop(&none);
    }
    str_drop(&lacks);
}

static void t_cli_partners(void) {
    int n = 0;
    for (int i = 0; i < N_CLI_OPTS; i++)
        if (cli_opts[i].beside) t_cli__partner(i), n++;
    CHECK(n >= 36);
}

/* Each action runs, has a result's file, and its forms are words of --format; what needs no model has no prompt. */
static void t_cli_actions(void) {
    const cli_opt *format = cli_find(false, bytes_of("--format"));
    for (int i = 0; i < N_ACTS; i++) {
        const act_row *row = &act_table[i];
        const char    *forms = row->forms;
        CHECKF(row->run && forms && (row->file == AT(output) || row->file == AT(what)), "action %d has no row", i);
        CHECKF(!row->read || (row->has & WITH_MODEL) == WITH_MODEL, "action %d reads a prompt without a vocabulary", i);
        CHECKF(!i == !cli__action_opt(i), "action %d has no option", i);
        for (bytes w; cli_word(&forms, ' ', &w);) {
            char  word[16];
            err_t e = {0};
            snprintf(word, sizeof word, "%.*s", (int)w.n, (const char *)w.p);
            CHECKF(cli__choose(format, "--format", word, &e), "%s", e.text);
        }
    }
}

static const t_case t_cli_cases[] = {
    {"cli_partners", "an option that has an effect only beside another one is named without it, and not with it", t_cli_partners},
    {"cli_actions", "every action has a complete row", t_cli_actions},
    {"cli_foreign", "options of llama.cpp are taken where they change nothing, and named where they are missing", t_cli_foreign},
    {"cli_effect", "an option without an effect on the action is refused", t_cli_effect},
    {"cli_table", "every row of the option table is whole, and no spelling is taken twice", t_cli_table},
    {"cli_spellings", "every spelling parses, as --opt value and as --opt=value, to the same", t_cli_spellings},
    {"cli_ranges", "the ends of every range pass; beyond them the error names option, value and range", t_cli_ranges},
    {"cli_sampler_ranges", "options, keys of a body and keys of a model file have the same bounds, which the sampler takes", t_cli_sampler_ranges},
    {"help__text", "help mentions each option once, in text and in Markdown", t_cli_help},
    {"cli_help_width", "help fits every width, and -h a screen of 24 lines", t_cli_help_width},
    {"cli_help_topics", "--help TOPIC prints a group or an option", t_cli_help_topics},
    {"cli_help_texts", "texts of topics name options that exist and fit the width", t_cli_help_texts},
    {"help__man", "the man page is whole", t_cli_help_man},
    {"cli_defaults", "the defaults that help prints are the defaults", t_cli_defaults},
    {"cli_near", "a slip of the finger gets the option that was meant", t_cli_near},
    {"cli_others", "options and sub-commands of other programs get what llmrun has in their place, which exists", t_cli_others},
    {"cli_distance", "edits between two names are counted right", t_cli_distance},
    {"cli_numbers", "numbers are read strictly", t_cli_numbers},
    {"cli_lines", "command lines that are wrong as a whole are refused in words", t_cli_lines},
    {"cli_bench_lists", "values, ranges and repetition make a list of --bench, and what is none is told", t_cli_bench_lists},
    {"cli_bench_output", "-o of --bench is a form or a file", t_cli_bench_output},
    {"cli_meaning", "options arrive in the rooms that use them", t_cli_meaning},
    {"cli_environment", "LLMRUN_MODEL is read, and -m wins", t_cli_environment},
    {"cli_escapes", "-e reads escapes", t_cli_escapes},
    {"act__prompt", "-p and standard input make a prompt as the contract says", t_cli_prompt},
    {"cli_no_stdin", "--no-stdin leaves standard input to others", t_cli_no_stdin},
    {"cli_prompt_file", "-f is read byte for byte, and leaves standard input alone", t_cli_prompt_file},
    {"cli_prompt_files", "-p, the files of -f and standard input stand in this order, a blank line between", t_cli_prompt_files},
    {"cli_chat_words", "--raw and --chat under each of their names, of which the last one counts", t_cli_chat_words},
    {"cli_prompt_exists", "a closed standard input is no prompt", t_cli_prompt_exists},
    {"cli_ids", "token ids are read strictly", t_cli_ids},
    {"cli_inspect_text", "strings of a file cannot steer a terminal", t_cli_inspect_text},
    {"cli_inspect_numbers", "numbers of a file print short and exact", t_cli_inspect_numbers},
};
static const t_suite t_cli_suite = SUITE(t_cli_cases);
