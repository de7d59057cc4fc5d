/* ===== [help] help, man page, completions, lists =====
 * What the program prints about itself, made from the option table and from the tables of the sections below.
 * Public: help_print, help_list, help_version. */

/* --- lists --- */

static void help__list_types(str *out, bool md) {
    static const char *const use[] = {
        [K_KIND_FLOAT] = "weights", [K_KIND_INT] = "weights", [K_KIND_SCALE] = "weights", [K_KIND_DATA] = "data"};
    str_put(out,
            md ? "| id | type | weights per block | bytes per block | bits per weight | may be |\n|---|---|---|---|---|---|\n"
               : "  id  type      block  bytes  bits per weight  may be\n");
    for (uint32_t i = 0; i < K_TYPE_MAX; i++) {
        const k_type *t = &k_types[i];
        if (!k_type_ok(i)) continue;
        str_fmt(out, md ? "| %u | %s | %u | %u | %.4g | %s" : "%4u  %-8s %6u %6u %16.4g  %s", i, t->name, t->block, t->bytes,
                8.0 * t->bytes / t->block, use[t->kind]);
        const size_t row = k_row_bytes(i, t->block) - t->bytes;
        if (row) str_fmt(out, ", %zu bytes more a row", row);
        str_put(out, md ? " |\n" : "\n");
    }
}

/* Memory nodes, their CPUs that this process may use, and the threads that a run has by default on each. */
static void help__list_nodes(str *out) {
    host_nodes on;
    err_t      e = {0};
    const int  threads = pool_default_threads();
    if (!host_nodes_here(&on, &e)) {
        str_fmt(out, "%d thread%s; memory nodes are not known: %s\n", threads, threads == 1 ? "" : "s", e.text);
        return;
    }
    int cpus = 0, seen = 0, from = 0;
    for (int k = 0; k < on.n; k++) cpus += on.node[k].n_cpus;
    for (int k = 0; k < on.n; k++) {
        const int end = (int)((int64_t)threads * (seen += on.node[k].n_cpus) / cpus);
        str_fmt(out, "node %-3d %d CPU%s, %d thread%s%s\n", k, on.node[k].n_cpus, on.node[k].n_cpus == 1 ? "" : "s", end - from,
                end - from == 1 ? "" : "s", on.node[k].memory < 0 ? ", no memory" : "");
        from = end;
    }
}

static void help__list_cpu(str *out) {
    const char *name[16];
    bool        can[16];
    int         n = k_levels_list(name, can);
    for (int i = 0; i < n; i++)
        str_fmt(out, "%-8s %s%s\n", name[i], can[i] ? "runs here" : "not on this machine",
                strcmp(name[i], k_level_name()) == 0 ? ", chosen" : "");
    if (k_tile_columns()) str_fmt(out, "tiles    %d columns, by a trial\n", k_tile_columns());
    help__list_nodes(out);
}

/* Appends a list of the sections below. False: it is none of theirs. */
static bool help__print_list(const char *name, bool md, str *out) {
    if (strcmp(name, "types") == 0) help__list_types(out, md);
    else if (strcmp(name, "quants") == 0) quant_list(out);
    else if (strcmp(name, "archs") == 0) arch_list(out);
    else if (strcmp(name, "checkpoints") == 0) import_list(out);
    else if (strcmp(name, "cpu") == 0) help__list_cpu(out);
    else if (strcmp(name, "pre") == 0) tok_list_pre(out);
    else if (strcmp(name, "tool-calls") == 0) calls_list(out);
    else return false;
    return true;
}

/* --- help --- */

enum { HELP_WIDTH = 80, HELP_NARROW = 40, HELP_WIDE = 120 };   /* columns: in a file; least and most in a terminal */

/* Length of the part of a long word that fits in so many columns and ends with a bar, a comma or a semicolon; 0: none. */
static size_t help__cut(bytes w, int columns) {
    for (int n = min_int(columns, (int)w.n); n > 0; n--)
        if (strchr("|,;", w.p[n - 1])) return (size_t)n;
    return 0;
}

/* Writes the words of `text` from column `col` on, the beginning of a line or cell. Lines end before `width`, the next ones
 * begin at `indent`. Returns the column at the end. */
static int help__flow(str *out, const char *text, int col, int indent, int width) {
    int start = col;
    for (bytes w; cli_word(&text, ' ', &w);) {
        if (col > start && col + 1 + (int)w.n > width) {
            str_fmt(out, "\n%*s", indent, "");
            col = start = indent;
        } else if (col > start) {
            str_put(out, " ");
            col++;
        }
        for (size_t n; (int)w.n > width - col && (n = help__cut(w, width - col)) && n < w.n; col = start = indent) {
            str_add(out, w.p, n);
            str_fmt(out, "\n%*s", indent, "");
            w = (bytes){w.p + n, w.n - n};
        }
        str_add(out, w.p, w.n);
        col += (int)w.n;
    }
    return col;
}

/* A row of two cells: `what`, and its explanation from column `indent` on. */
static void help__row(str *out, const char *what, const char *help, int indent, int width) {
    str_put(out, "  ");
    int col = help__flow(out, what, 2, 6, width);
    if (col > indent - 2) str_fmt(out, "\n%*s", indent, "");
    else str_fmt(out, "%*s", indent - col, "");
    help__flow(out, help, indent, indent, width);
    str_put(out, "\n");
}

/* The explanation of an option, with its default and its environment variable. */
static void help__explain(const cli_opt *o, str *out) {
    str def = {0};
    cli_default(o, &def);
    str_put(out, cli_full(o).help);
    if (def.n) str_fmt(out, " [%s]", def.p);
    if (o->env) str_fmt(out, " (environment: %s)", o->env);
    str_drop(&def);
}

static int help__indent(int width) { return width >= 100 ? 34 : width >= 60 ? 28 : 8; }

static void help__row_of(const cli_opt *o, int width, str *out) {
    str names = {0}, help = {0};
    str_put(&names, "");
    cli_spell(o, ", ", &names);
    if (o->arg) str_fmt(&names, " %s", o->arg);
    help__explain(o, &help);
    help__row(out, names.p, help.p, help__indent(width), width);
    str_drop_all(&names, &help);
}

/* A paragraph from the first column on. */
static void help__paragraph(str *out, const char *text, int width) {
    help__flow(out, text, 0, 0, width);
    str_put(out, "\n");
}

static void help__title(int group, int width, str *out) {
    char title[128];
    snprintf(title, sizeof title, "%s:", cli_groups[group].title);
    help__paragraph(out, title, width);
}

static void help__group(int group, int width, str *out) {
    help__title(group, width, out);
    for (int i = 0; i < N_CLI_OPTS; i++)
        if ((int)cli_opts[i].group == group) help__row_of(&cli_opts[i], width, out);
}

/* Lines of a topic are of four kinds. */
typedef enum { HELP_TEXT, HELP_ROW, HELP_COMMAND, HELP_LIST } help_kind;

static help_kind help__kind(const char *line) {
    return *line == '@' ? HELP_LIST : *line == '$' ? HELP_COMMAND : strchr(line, '\t') ? HELP_ROW : HELP_TEXT;
}

/* The two cells of a row or of a command, whose second one may be empty. */
static void help__cells(const char *line, str *term, const char **text) {
    const size_t n = strcspn(line, "\t");
    str_set(term, (bytes){(const uint8_t *)line, n});
    *text = line + n + (line[n] == '\t');
}

static void help__topic_line(const char *line, int width, str *out) {
    str             term = {0};
    const char     *text;
    const help_kind kind = help__kind(line);
    help__cells(line, &term, &text);
    if (kind == HELP_TEXT) help__paragraph(out, line, width);
    else if (kind == HELP_LIST) help__print_list(line + 1, false, out);
    else if (*text) help__row(out, term.p, text, kind == HELP_ROW ? help__indent(width) : 8, width);
    else str_fmt(out, "  %s\n", line);
    str_drop(&term);
}

/* A topic: paragraphs and what stands between them are separated by empty lines. */
static void help__topic_text(const topic *t, int width, str *out) {
    help_kind before = HELP_TEXT;
    str_fmt(out, "%s:\n", t->title);
    for (int i = 0; t->line[i]; before = help__kind(t->line[i++])) {
        if (!i || before == HELP_TEXT || help__kind(t->line[i]) != before) str_put(out, "\n");
        help__topic_line(t->line[i], width, out);
    }
}

/* Options of llama.cpp that are accepted and change nothing. */
static void help__idle(int width, str *out) {
    str names = {0};
    for (int i = 0; i < N_CLI_FOREIGN; i++)
        if (cli_foreigners[i].fate == CLI_IDLE) str_fmt(&names, "%s ", cli_foreigners[i].names);
    const char *head = "Options of llama.cpp that change nothing here (accepted, so that scripts run, with one line on stderr):";
    help__paragraph(out, head, width);
    str_put(out, "  ");
    help__flow(out, names.p, 2, 2, width);
    str_put(out, "\n");
    str_drop(&names);
}

static const char help_about[] = "llmrun runs language models from GGUF files.";
static const char help_syntax[] =
    "--option VALUE and --option=VALUE are the same, and so are -n 5 and -n5; -- ends the options. Defaults are "
    "in [brackets]. An option that has no effect on the action is refused.";

static const struct {
    const char *command, *does;
} help_examples[] = {
    {"llmrun -hf OWNER/NAME -p TEXT",                        "download a model once, and answer TEXT"},
    {"llmrun -m MODEL -p TEXT",                              "answer TEXT; a model without a chat template continues it"},
    {"llmrun -m MODEL --raw -p TEXT",                        "continue TEXT"},
    {"llmrun -m MODEL",                                      "talk with a model that has a chat template"},
    {"git diff | llmrun -m MODEL -p \"Explain this diff:\"", "the prompt, then standard input"},
    {"llmrun -m MODEL --batch IN.jsonl -o OUT.jsonl",        "answer every line of a file"},
    {"llmrun -m MODEL --quantize Q4_K_M -o SMALLER",         "write a smaller model"},
};
enum { N_HELP_EXAMPLES = sizeof help_examples / sizeof *help_examples };

static const struct {
    const char *code, *meaning;
} help_exits[] = {
    {"0", "done"},
    {"1", "a negative answer: a batch in which some line has an error, --match without a match, an answer that was cut before "
          "its constraint was met (in a batch too), -i in a pipe where a message got no answer"},
    {"2", "bad input or usage: an unknown option, a malformed or unsupported model, a file that cannot be read"},
    {"3", "a resource failed: memory or disk ran out, an I/O error, or a file became shorter while it was in use"},
    {"130, 143", "ended by SIGINT or SIGTERM; a second signal ends the program at once"},
};
enum { N_HELP_EXITS = sizeof help_exits / sizeof *help_exits };

static const char help_streams[] = "The answer is written to standard output, everything else to standard error.";

static void help__print_examples(int width, str *out) {
    for (int i = 0; i < N_HELP_EXAMPLES; i++)
        help__row(out, help_examples[i].command, help_examples[i].does, width >= 80 ? 52 : 8, width);
}

static int help__topic(const char *name) {
    for (int i = 0; i < N_GROUPS; i++)
        if (strcmp(cli_groups[i].topic, name) == 0) return i;
    return -1;
}

/* The text about a topic; NULL: there is none. */
static const topic *help__text_of(const char *name) {
    for (int i = 0; i < TOPICS; i++)
        if (strcmp(topics_all[i].name, name) == 0) return &topics_all[i];
    return NULL;
}

/* Topic number i: groups of options, then the texts that stand behind none. NULL: there are no more. */
static const char *help__topic_name(int i) {
    if (i < N_GROUPS) return cli_groups[i].topic;
    i -= N_GROUPS;
    for (int k = 0; k < TOPICS; k++)
        if (help__topic(topics_all[k].name) < 0 && !i--) return topics_all[k].name;
    return NULL;
}

/* The names of all topics, as a sentence. */
static void help__topics(const char *between, str *out) {
    const char *name;
    for (int i = 0; (name = help__topic_name(i)); i++) str_fmt(out, "%s%s", i ? between : "", name);
}

/* The topics that have a text, for the end of --help. */
static void help__list_topics(int width, str *out) {
    str names = {0}, line = {0};
    str_put(out, "Topics:\n");
    for (int i = 0; i < TOPICS; i++) help__row(out, topics_all[i].name, topics_all[i].title, width >= 60 ? 20 : 8, width);
    for (int i = 0; i < N_GROUPS; i++) str_fmt(&names, "%s%s", i ? ", " : "", cli_groups[i].topic);
    str_fmt(&line, "--help TOPIC prints one of them, or the options of one of these groups: %s.", names.p);
    help__paragraph(out, line.p, width);
    str_drop_all(&names, &line);
}

static void help__text(int width, str *out) {
    help__paragraph(out, help_about, width);
    str_put(out, "\n");
    help__print_examples(width, out);
    str_put(out, "\n");
    help__paragraph(out, help_syntax, width);
    for (int group = 0; group < N_GROUPS; group++) {
        str_put(out, "\n");
        help__group(group, width, out);
    }
    str_put(out, "\n");
    help__idle(width, out);
    str_put(out, "\nExit codes:\n");
    for (int i = 0; i < N_HELP_EXITS; i++) help__row(out, help_exits[i].code, help_exits[i].meaning, 12, width);
    help__paragraph(out, help_streams, width);
    str_put(out, "\n");
    help__list_topics(width, out);
}

/* The most used options, for -h: at most 23 lines of 80 columns. */
static const struct {
    const char *name, *help;
} help_usual[] = {
    {"-m",         "model file (GGUF) or name; -hf OWNER/NAME downloads one"},
    {"-p",         "message, or text to continue (--raw); stdin is appended"},
    {"-f",         "the same from a file, - is standard input"},
    {"-n",         "tokens to generate; -1: until the text ends"},
    {"-c",         "context in tokens; -1: as needed"},
    {"-t",         "threads; 0: OMP_NUM_THREADS, else all usable CPUs"},
    {"--temp",     "sampling temperature; 0: always the likeliest token"},
    {"--seed",     "equal seeds give equal text; -1: draw one"},
    {"-i",         "talk with the model; /help lists commands"},
    {"--batch",    "answer every prompt of a file"},
    {"--bench",    "measure the speed"},
    {"--quantize", "write the model in a smaller type (--list quants)"},
    {"-o",         "write the answer to a file"},
    {"-q",         "print nothing but the answer and errors (-v: more)"},
};
enum { N_HELP_USUAL = sizeof help_usual / sizeof *help_usual };

static void help__usage(int width, str *out) {
    str topics = {0}, head = {0};
    str_fmt(&head, "%s Usage: llmrun -m MODEL -p TEXT", help_about);
    help__paragraph(out, head.p, width);
    str_drop(&head);
    str_put(out, "\n");
    for (int i = 0; i < N_HELP_USUAL; i++) {
        const cli_opt *o = cli_find(false, bytes_of(help_usual[i].name));
        str            what = {0}, help = {0}, def = {0};
        str_fmt(&what, "%s%s%s", help_usual[i].name, o->arg ? " " : "", o->arg ? o->arg : "");
        str_put(&help, help_usual[i].help);
        cli_default(o, &def);
        if (def.n) str_fmt(&help, " [%s]", def.p);
        help__row(out, what.p, help.p, width >= 60 ? 20 : 8, width);
        str_drop_all(&def, &what, &help);
    }
    str_put(&topics, "--help prints all options, --help TOPIC one topic, --help NAME one option. Topics: ");
    help__topics(", ", &topics);
    str_put(out, "\n");
    help__paragraph(out, topics.p, width);
    str_drop(&topics);
}

/* A name without its dashes. */
static bytes help__bare(bytes name) {
    while (name.n && *name.p == '-') name = (bytes){name.p + 1, name.n - 1};
    return name;
}

/* Whether an option has this name, dashes aside. */
static bool help__named(const cli_opt *o, bytes bare) {
    const char *names = o->names;
    for (bytes w; cli_word(&names, ' ', &w);)
        if (bytes_eq(help__bare(w), bare)) return true;
    return false;
}

/* The most similar topic or option; n 0: none. */
static bytes help__near_topic(bytes name) {
    bytes best = {0};
    int   least = bytes_slack(name) + 1;
    for (int i = 0; help__topic_name(i); i++) {
        const bytes w = bytes_of(help__topic_name(i));
        const int   d = bytes_distance(name, w);
        if (d < least) least = d, best = w;
    }
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const bytes w = help__bare(cli_long_name(&cli_opts[i]));
        const int   d = bytes_distance(name, w);
        if (d < least) least = d, best = w;
    }
    return best;
}

/* The keys of a line of a batch file. */
static void help__keys(int width, str *out) {
    str keys = {0}, idle = {0}, text = {0};
    req_list_keys(false, &keys);
    req_list_keys(true, &idle);
    str_fmt(&text, "Keys in the body of a line: %s. Keys that change nothing, as far as they ask for what is done anyway: %s.",
            keys.p, idle.p);
    str_put(out, "\n");
    help__paragraph(out, text.p, width);
    str_drop_all(&keys, &idle, &text);
}

/* What constraints keep to. */
static void help__rules(int width, str *out) {
    str_put(out, "\n");
    help__paragraph(out, "What a constraint keeps to:", width);
    for (int i = 0; i < N_CONSTRAIN_RULES; i++)
        help__row(out, constrain_rules[i].what, constrain_rules[i].rule, help__indent(width), width);
}

typedef struct {
    str *out;
    int  width;
} help__to;

static void help__endpoint(void *ctx, const char *path, const char *what) {
    const help__to *to = ctx;
    help__row(to->out, path, what, help__indent(to->width), to->width);
}

/* What a server answers. */
static void help__endpoints(int width, str *out) {
    help__to to = {out, width};
    str_put(out, "\n");
    help__paragraph(out, "What it answers; /v1 may be left out or added:", width);
    serve_list(help__endpoint, &to);
    str_put(out, "\n");
    help__paragraph(out, "What GET /metrics has, for Prometheus:", width);
    metrics_list(help__endpoint, &to);
}

/* The options of a topic and its text, or all options with a name: it may have another meaning with --bench. */
static bool help__about(const char *name, int width, str *out, err_t *e) {
    const int    group = help__topic(name);
    const topic *text = help__text_of(name);
    const bytes  bare = help__bare(bytes_of(name));
    if (group >= 0) help__group(group, width, out);
    if (group == GROUP_BATCH) help__keys(width, out);
    if (group == GROUP_HOLD) help__rules(width, out);
    if (group == GROUP_SERVE) help__endpoints(width, out);
    if (group >= 0 && text) str_put(out, "\n");
    if (text) help__topic_text(text, width, out);
    for (int i = 0; group < 0 && !text && i < N_CLI_OPTS; i++)
        if (help__named(&cli_opts[i], bare)) {
            if (out->n) str_put(out, "\n");
            help__title((int)cli_opts[i].group, width, out);
            help__row_of(&cli_opts[i], width, out);
        }
    if (out->n) return true;
    const bytes near = help__near_topic(bare);
    str         all = {0};
    help__topics(", ", &all);
    if (near.n) err_set(e, EXIT_INPUT, "--help: no topic %.60s (did you mean %.*s?)", name, (int)near.n, near.p);
    else err_set(e, EXIT_INPUT, "--help: no topic %.60s, expected an option or one of %s", name, all.p);
    str_drop(&all);
    return false;
}

/* A cell of a Markdown table. */
static void help__cell(str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|' || *text == '\\' || *text == '<') str_put(out, "\\");
        str_add(out, text, 1);
    }
}

/* The options as Markdown tables. */
static void help__md(str *out) {
    for (int group = 0; group < N_GROUPS; group++) {
        str_fmt(out, "%s**%s**\n\n| option | default | meaning |\n|---|---|---|\n", group ? "\n" : "", cli_groups[group].title);
        for (int i = 0; i < N_CLI_OPTS; i++) {
            const cli_opt *o = &cli_opts[i];
            if ((int)o->group != group) continue;
            str def = {0};
            str_put(out, "| `");
            cli_spell(o, "`, `", out);
            str_put(out, "`");
            if (o->arg) str_put(out, " "), help__cell(out, o->arg);
            cli_default(o, &def);
            str_put(out, " | ");
            help__cell(out, def.n ? def.p : "");
            str_put(out, " | ");
            help__cell(out, cli_full(o).help);
            if (o->env) str_fmt(out, "; environment: `%s`", o->env);
            str_put(out, " |\n");
            str_drop(&def);
        }
    }
}

/* --- man page --- */

/* Text for roff: dashes as ASCII, backslashes escaped, no line that begins like a request, other characters by number. */
static void help__roff(str *out, const char *text) {
    if (*text == '.' || *text == '\'') str_put(out, "\\&");
    for (; *text; text++) {
        const int n = utf8_len((const uint8_t *)text, strlen(text));
        if (n > 1) {
            str_fmt(out, "\\[u%04X]", utf8_get((const uint8_t *)text, n));
            text += n - 1;
        } else if (*text == '-') str_put(out, "\\-");
        else if (*text == '\\') str_put(out, "\\e");
        else if (*text == '\'') str_put(out, "\\(aq");
        else if (*text == '`') str_put(out, "\\(ga");
        else if (*text == '"') str_put(out, "\\(dq");
        else str_add(out, text, 1);
    }
}

/* A tagged paragraph: the tag in bold, a value in italics after it. */
static void help__man_item(str *out, const char *tag, const char *value, const char *text) {
    str_put(out, ".TP\n\\fB");
    help__roff(out, tag);
    str_put(out, "\\fR");
    if (value) {
        str_put(out, " \\fI");
        help__roff(out, value);
        str_put(out, "\\fR");
    }
    str_put(out, "\n");
    help__roff(out, text);
    str_put(out, "\n");
}

static void help__man_group(int group, str *out) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        str            names = {0}, help = {0};
        if ((int)o->group != group) continue;
        str_put(&names, "");
        cli_spell(o, ", ", &names);
        help__explain(o, &help);
        help__man_item(out, names.p, o->arg, help.p);
        str_drop_all(&names, &help);
    }
}

static void help__man_options(str *out) {
    str_put(out, ".SH OPTIONS\n");
    help__roff(out, help_syntax);
    str_put(out, "\n");
    for (int group = GROUP_ACT + 1; group < N_GROUPS; group++) {
        str_put(out, ".SS \"");
        help__roff(out, cli_groups[group].title);
        str_put(out, "\"\n");
        help__man_group(group, out);
    }
}

/* Files that the program writes. */
static const struct {
    const char *name, *holds;
} help_files[] = {
    {"OUT", "the file that -o names: an answer, the results of --batch, the model that --quantize writes, a table of --bench"},
    {"OUT.llmrun", "the settings of the results in OUT, one on a line; --resume goes on only with equal ones"},
    {"OUT.stale", "records that --resume moved out of OUT because they answer no line of the input; as private as OUT"},
    {"CACHE", "the file of --prompt-cache: blocks of the KV cache, as GGUF, within --prompt-cache-size"},
    {"LOOKUP", "the file of --lookup-cache: tokens of earlier answers, as GGUF"},
    {"~/.local/state/llmrun/history",
     "what was typed in conversations (-i), for the arrow keys: 1000 entries, mode 0600; below XDG_STATE_HOME where that is set"},
    {"BASE, MATRIX, PLOT", "the files of --kl-divergence-base, --imatrix-out and --plot"},
    {"OUT.llmrun.new, OUT.stale.llmrun.new, OUT.llmrun.tmp, FILE.tmp.N",
     "files that are being written; each takes the name, the mode and, if it may, the owner of the old file when it is complete. "
     "What a killed run leaves of them can be removed"},
};
enum { N_HELP_FILES = sizeof help_files / sizeof *help_files };

static void help__man_files(str *out) {
    str_put(out, ".SH FILES\n");
    for (int i = 0; i < N_HELP_FILES; i++) help__man_item(out, help_files[i].name, NULL, help_files[i].holds);
}

static void help__man_environment(str *out) {
    str_put(out, ".SH ENVIRONMENT\n");
    for (int i = 0; i < N_CLI_OPTS; i++)
        if (cli_opts[i].env) help__man_item(out, cli_opts[i].env, NULL, cli_opts[i].help);
    help__man_item(out, "LLMRUN_SHARDS", NULL,
                   "number of parts for --shard auto, where a scheduler numbers its tasks and does not count them");
    help__man_item(out, "LLMRUN_LIBCUDA", NULL,
                   "absolute path of the library of NVIDIA's driver, in place of libcuda.so.1 as the system finds it");
    help__man_item(out, "VISUAL, EDITOR", NULL, "the editor of /edit in a conversation; vi without them");
    help__man_item(out, "XDG_STATE_HOME", NULL, "folder of llmrun/history; $HOME/.local/state without it");
    help__man_item(out, "COLUMNS", NULL, "width of --help on a terminal that does not say its own");
}

static void help__man_talk(str *out) {
    str_put(out, ".SH CONVERSATIONS\n");
    help__roff(out, "In a conversation (-i) a line that begins with a slash is a command:");
    str_put(out, "\n");
    for (int i = 0; i < TALK_COMMANDS; i++) {
        str help = {0};
        talk_describe(&talk_commands[i], &help);
        help__man_item(out, talk_commands[i].name, *talk_commands[i].args ? talk_commands[i].args : NULL, help.p);
        str_drop(&help);
    }
}

/* Lines that are not filled. */
static void help__man_block(const char *lines, str *out) {
    str_put(out, ".nf\n");
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        str          line = {0};
        str_add(&line, lines, n);
        help__roff(out, line.p);
        str_put(out, "\n");
        str_drop(&line);
        lines += n + (lines[n] == '\n');
    }
    str_put(out, ".fi\n");
}

static void help__man_topic_line(const char *line, bool first, str *out) {
    str             term = {0}, list = {0};
    const char     *text;
    const help_kind kind = help__kind(line);
    help__cells(line, &term, &text);
    if (!first && (kind == HELP_TEXT || kind == HELP_LIST || !*text)) str_put(out, ".PP\n");
    if (kind == HELP_TEXT) {
        help__roff(out, line);
        str_put(out, "\n");
    } else if (kind == HELP_LIST) {
        help__print_list(line + 1, false, &list);
        help__man_block(list.p, out);
    } else if (*text) help__man_item(out, term.p, NULL, text);
    else help__man_block(line, out);
    str_drop_all(&term, &list);
}

static void help__man_topics(str *out) {
    str_put(out, ".SH TOPICS\n");
    for (int t = 0; t < TOPICS; t++) {
        str_put(out, ".SS \"");
        help__roff(out, topics_all[t].title);
        str_put(out, "\"\n");
        for (int i = 0; topics_all[t].line[i]; i++) help__man_topic_line(topics_all[t].line[i], !i, out);
    }
}

static void help__man_row(void *ctx, const char *tag, const char *text) { help__man_item(ctx, tag, NULL, text); }

/* What a server answers, and its figures. */
static void help__man_server(str *out) {
    str_put(out, ".SH SERVER\nWhat\n.B \\-\\-serve\nanswers; /v1 may be left out or added:\n");
    serve_list(help__man_row, out);
    str_put(out, ".PP\nWhat GET /metrics has, for Prometheus:\n");
    metrics_list(help__man_row, out);
}

static void help__man_examples(str *out) {
    str_put(out, ".SH EXAMPLES\n");
    for (int i = 0; i < N_HELP_EXAMPLES; i++) help__man_item(out, help_examples[i].command, NULL, help_examples[i].does);
}

/* The man page, for section 1, with the macros of man(7). */
static void help__man(str *out) {
    str_fmt(out, ".TH LLMRUN 1 \"%s\" \"llmrun %s\" \"User Commands\"\n.SH NAME\n", cli_released, CLI_VERSION);
    str_put(out, "llmrun \\- run language models from GGUF files\n");
    str_put(out, ".SH SYNOPSIS\n.B llmrun\n\\fB\\-m\\fR \\fIMODEL\\fR [\\fIACTION\\fR] [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n");
    help__roff(out, help_about);
    str_put(out, " Without an action it continues the prompt.\n.PP\n");
    help__roff(out, help_streams);
    str_put(out, "\n.SH ACTIONS\nAt most one of these.\n");
    help__man_group(GROUP_ACT, out);
    help__man_options(out);
    help__man_talk(out);
    help__man_topics(out);
    help__man_server(out);
    help__man_environment(out);
    help__man_files(out);
    str_put(out, ".SH \"EXIT STATUS\"\n");
    for (int i = 0; i < N_HELP_EXITS; i++) help__man_item(out, help_exits[i].code, NULL, help_exits[i].meaning);
    help__man_examples(out);
}

/* --- completions --- */

/* Whether an option's value is a file. */
static bool help__takes_file(const cli_opt *o) { return o->arg && (strcmp(o->arg, "FILE") == 0 || strcmp(o->arg, "BASE") == 0); }

/* Whether it is a model file. */
static bool help__takes_model(const cli_opt *o) {
    return o->at == AT(model) || o->at == AT(models) || o->at == AT(spec.draft) || o->at == AT(bench.draft);
}

/* The first word of each line. */
static void help__first_words(const str *lines, str *out) {
    for (const char *p = lines->p; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        if (out->n) str_put(out, " ");
        str_add(out, p, strcspn(p, " \n"));
    }
}

/* The words that an option takes, separated by spaces; "": any text. */
static void help__choices(const cli_opt *o, str *out) {
    str lines = {0};
    str_put(out, "");
    if (o->kind == OPT_ACT && o->lo >= ACT_USAGE) {
        help__topics(" ", out);
    } else if (o->kind == OPT_ACT && (int)o->lo == ACT_QUANTIZE) {
        quant_list(&lines);
    } else if (o->at == AT(pre)) {
        tok_list_pre(&lines);
    } else if (o->arg && strchr(o->arg, '|') && o->kind != OPT_LIST) {
        const char *words = o->arg;
        for (bytes w; cli_word(&words, '|', &w);) {
            if (isupper(*w.p)) continue;              /* the name of a number, as in N|auto */
            if (out->n) str_put(out, " ");
            str_add(out, w.p, w.n);
        }
    }
    help__first_words(&lines, out);
    str_drop(&lines);
}

/* Each spelling is completed once: by its row outside of --bench. */
static bool help__completes(const cli_opt *o, bytes name) { return cli_find(false, name) == o; }

/* The spellings of a row that are completed, separated by `between`; false: none. */
static bool help__spellings(const cli_opt *o, const char *between, str *out) {
    const char  *names = o->names;
    const size_t start = out->n;
    for (bytes w; cli_word(&names, ' ', &w);) {
        if (!help__completes(o, w)) continue;
        if (out->n > start) str_put(out, between);
        str_add(out, w.p, w.n);
    }
    return out->n > start;
}

/* The case of an option that is the previous word: how its value is completed. */
static void help__bash_case(const cli_opt *o, str *out) {
    str names = {0}, words = {0};
    str_put(&names, "");
    help__choices(o, &words);
    if (o->arg && help__spellings(o, "|", &names)) {
        str_fmt(out, "    %s) ", names.p);
        if (words.n) str_fmt(out, "words='%s' ;;\n", words.p);
        else str_put(out, help__takes_model(o) ? "files='*.gguf' ;;\n" : help__takes_file(o) ? "files='*' ;;\n" : "return ;;\n");
    }
    str_drop_all(&names, &words);
}

static void help__bash(str *out) {
    str_put(out, "# bash completion for llmrun, made by: llmrun --help --format bash\n"
                 "_llmrun() {\n"
                 "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= files=\n"
                 "  if [ \"$cur\" = = ]; then cur=\n"
                 "  elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                 "  COMPREPLY=()\n"
                 "  case $prev in\n");
    for (int i = 0; i < N_CLI_OPTS; i++) help__bash_case(&cli_opts[i], out);
    str_put(out, "    *) words='");
    for (int i = 0; i < N_CLI_OPTS; i++) {
        if (help__spellings(&cli_opts[i], " ", out)) str_put(out, " ");
    }
    str_put(out, "' ;;\n  esac\n"
                 "  if [ -n \"$words\" ]; then mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"); return; fi\n"
                 "  compopt -o filenames 2>/dev/null\n"
                 "  mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"; compgen -f -X \"!$files\" -- \"$cur\")\n"
                 "}\n"
                 "complete -F _llmrun llmrun\n");
}

/* Text inside single quotes of a shell. */
static void help__quoted(str *out, const char *text, const char *also) {
    for (; *text; text++) {
        if (*text == '\'') str_put(out, "'\\''");
        else {
            if (strchr(also, *text)) str_put(out, "\\");
            str_add(out, text, 1);
        }
    }
}

static void help__zsh_value(const cli_opt *o, str *out) {
    str words = {0}, what = {0};
    help__choices(o, &words);
    str_add(&what, o->arg, strcspn(o->arg, "|"));
    str_put(out, *o->arg == '[' ? "::" : ":");
    help__quoted(out, what.p, ":\\");
    if (words.n) str_fmt(out, ":(%s)", words.p);
    else str_put(out, help__takes_model(o) ? ":_files -g \"*.gguf\"" : help__takes_file(o) ? ":_files" : ": ");
    str_drop_all(&words, &what);
}

static void help__zsh(str *out) {
    str_put(out, "#compdef llmrun\n# zsh completion for llmrun, made by: llmrun --help --format zsh\n_arguments \\\n");
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        const char    *names = o->names;
        for (bytes w; cli_word(&names, ' ', &w);) {
            if (!help__completes(o, w)) continue;
            str_fmt(out, "  '*%.*s%s[", (int)w.n, (const char *)w.p, o->arg && w.p[1] == '-' ? "=" : "");
            help__quoted(out, cli_full(o).help, "[]:\\");
            str_put(out, "]");
            if (o->arg) help__zsh_value(o, out);
            str_put(out, "' \\\n");
        }
    }
    str_put(out, "  '*:file:_files'\n");
}

/* -s x, -l long or -o old: one letter, two dashes, or several letters after one dash. */
static void help__fish_names(const cli_opt *o, str *out) {
    const char *names = o->names;
    for (bytes w; cli_word(&names, ' ', &w);) {
        if (!help__completes(o, w)) continue;
        const bytes bare = help__bare(w);
        str_fmt(out, " -%c %.*s", w.p[1] == '-' ? 'l' : bare.n == 1 ? 's' : 'o', (int)bare.n, (const char *)bare.p);
    }
}

static void help__fish_row(const cli_opt *o, str *out) {
    str words = {0};
    help__choices(o, &words);
    str_put(out, "complete -c llmrun");
    help__fish_names(o, out);
    if (o->arg) str_put(out, help__takes_file(o) && !help__takes_model(o) ? " -r -F" : " -x");
    if (words.n) str_fmt(out, " -a '%s'", words.p);
    else if (o->arg && help__takes_model(o)) str_put(out, " -a '(__fish_complete_suffix .gguf)'");
    str_put(out, " -d '");
    help__quoted(out, cli_full(o).help, "\\");
    str_put(out, "'\n");
    str_drop(&words);
}

static void help__fish(str *out) {
    str_put(out, "# fish completion for llmrun, made by: llmrun --help --format fish\ncomplete -c llmrun -f\n");
    for (int i = 0; i < N_CLI_OPTS; i++) {
        str names = {0};
        if (help__spellings(&cli_opts[i], " ", &names)) help__fish_row(&cli_opts[i], out);
        str_drop(&names);
    }
}

static int help__width(const config *c) {
    const int w = c->output ? HELP_WIDTH : progress_columns(STDOUT_FILENO);
    return w < HELP_NARROW ? HELP_NARROW : w > HELP_WIDE ? HELP_WIDE : w;
}

/* Help in the form of --format, about the topic that is given. */
static bool help_print(const config *c, str *out, err_t *e) {
    static const struct {
        const char *format;
        void (*print)(str *);
    } forms[] = {{"md", help__md}, {"man", help__man}, {"bash", help__bash}, {"zsh", help__zsh}, {"fish", help__fish}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(c->format, forms[i].format) == 0) {
            if (c->what)
                return err_set(e, EXIT_INPUT, "--help: a topic has no form %s, expected --help --format %s or a topic alone",
                               c->format, c->format);
            forms[i].print(out);
            return true;
        }
    if (c->what) return help__about(c->what, help__width(c), out, e);
    if (c->action == ACT_USAGE) help__usage(help__width(c), out);
    else help__text(help__width(c), out);
    return true;
}

/* --- lists and the version --- */

/* Every spelling once, those of an option on one line. */
static void help__list_options(str *out) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        if (help__spellings(&cli_opts[i], " ", out)) str_put(out, "\n");
    }
}

/* Appends the list that --list asks for, as text or Markdown. */
static void help_list(const config *c, str *out) {
    const bool md = strcmp(c->format, "md") == 0;
    if (help__print_list(c->what, md, out)) return;
    if (md) help__md(out);
    else help__list_options(out);
}

/* Appends what --version prints. */
static void help_version(str *out) {
    char pcre[64] = "?";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    err_t none = {0};
    str_fmt(out, "llmrun %s\n", cli_build());
    str_fmt(out, "compiler  %s%s\n", strstr(__VERSION__, "lang") ? "" : "gcc ", __VERSION__);
    str_fmt(out, "kernels   %s\nPCRE2     %s\n", k_level_name(), pcre);
    str_fmt(out, "libedit   %s\n", term_edits());
    str_fmt(out, "libcurl   %s\n", fetch_library());
    str_fmt(out, "OpenBLAS  %s\n", ops_blas_open(&none) ? "found, runs with --blas" : LLMRUN_BLAS ? "not found"
            : "left out (BLAS=0)");
    str_fmt(out, "sandbox   %s\n", sandbox_holds());
}
