/* [filter]: what templates call. data/golden/filter.jsonl has calls of every row and the answers of Jinja2 and Python,
 * made by gen/filter_cases.py. */
#include "program.h"
#include "check.h"

/* A value of the file: JSON, and {"$": kind, "v": ...} for what JSON does not have. */
static val t_filter_value(val_env *env, val v) {
    const val kind = val_get(v, "$"), of = val_get(v, "v");
    val       out = v;
    if (v.kind == VAL_LIST || (kind.kind == VAL_STR && (of.kind == VAL_LIST) && !val_is_str(kind, "range"))) {
        out = val_list_new(env);
        const val_list *l = v.kind == VAL_LIST ? v.list : of.list;
        for (size_t i = 0; i < l->n; i++) val_list_add(env, out.list, t_filter_value(env, l->at[i]));
        if (val_is_str(kind, "tuple")) return val__of_tuple(out.list);
        if (val_is_str(kind, "once")) return val_iter_of(env, out.list);
    }
    if (val_is_str(kind, "undefined")) return val_undef("'x'");
    if (val_is_str(kind, "safe")) out = of, out.safe = true;
    if (val_is_str(kind, "range")) out = val_range_of(of.list->at[0].i, of.list->at[1].i, of.list->at[2].i);
    if (val_is_str(kind, "dict")) {
        const val_list *pairs = out.list;
        out = val_dict_new(env);
        for (size_t i = 0; i < pairs->n; i++) val_dict_set(env, out.dict, pairs->at[i].list->at[0], pairs->at[i].list->at[1]);
    } else if (v.kind == VAL_DICT && kind.kind == VAL_UNDEF) {
        out = val_dict_new(env);
        for (size_t i = 0; i < v.dict->n; i++)
            val_dict_set(env, out.dict, v.dict->at[i].key, t_filter_value(env, v.dict->at[i].value));
    }
    return out;
}

typedef struct {
    const val        *line;                           /* table, row, arguments, arguments by name, cases */
    const filter_row *row;                            /* NULL: a method */
    val               coded, in;                      /* the value in front, in the file and made */
    str               got, after;
} t_filter_case;

static void t_filter_text(val_env *env, val v, str *out) {
    val_buf *b = val_buf_new(env);
    str_clear(out);
    str_add(out, "", 0);
    if (v.kind == VAL_OBJECT || v.kind == VAL_FUNC) {
        str_put(out, val_kind_name(v));
        return;
    }
    val__repr(env, b, v.kind == VAL_ITER ? val_of_list(val_items(env, v)) : v);
    val_utf8(val_buf_str(b), out);
}

static void t_filter_run(val_env *env, void *arg) {
    t_filter_case *c = arg;
    val            v, args = t_filter_value(env, c->line[2]), named = t_filter_value(env, c->line[3]);
    const val_args a = {args.list->at, args.list->n, named.dict->live ? named.dict : NULL};
    c->in = t_filter_value(env, c->coded);
    if (!c->row) {
        v = filter_getattr(env, c->in, c->line[1].s);
        if (v.kind == VAL_FUNC) v = v.func->call(env, v.func, *v.self, &a);
        else if (v.kind == VAL_UNDEF) val_fail(env, EXIT_INPUT, "no such method");
    } else {
        v = filter_call(env, c->row, c->in, &a);
    }
    t_filter_text(env, v, &c->got);
    if (c->in.kind != VAL_ITER) t_filter_text(env, c->in, &c->after);
}

/* The row that a line calls. */
static const filter_row *t_filter_row(const val *line) {
    str               name = {0};
    const filter_row *row = NULL;
    val_utf8(line[1].s, &name);
    if (val_is_str(line[0], "filter")) row = filter_find(str_bytes(&name));
    if (val_is_str(line[0], "test")) row = test_find(str_bytes(&name));
    if (val_is_str(line[0], "function")) row = function_find(str_bytes(&name));
    CHECKF(row || val_is_str(line[0], "method"), "no row '%s'", name.p);
    str_drop(&name);
    return row;
}

/* Whether the text is what the file says: a string, [a string], or 0 for an error. */
static bool t_filter_is(const char *got, bool done, val want) {
    str        text = {0};
    const bool fails = want.kind == VAL_INT;
    if (!fails) val_utf8(want.kind == VAL_LIST ? want.list->at[0].s : want.s, &text);
    const bool ok = fails ? !done : done && strcmp(got, text.p ? text.p : "") == 0;
    str_drop(&text);
    return ok;
}

/* One case: the value in front, the answer, and the value afterwards where the call changes it. */
static void t_filter_one(const val *line, val coded, const val_list *one, int at) {
    val_env       env;
    err_t         e = {0};
    t_filter_case c = {.line = line, .row = t_filter_row(line), .coded = coded};
    val_env_init(&env, 64 << 20, 10000000, NULL);
    const bool done = val_run(&env, t_filter_run, &c, &e);
    const bool ok = t_filter_is(c.got.p, done, one->at[1]) && (one->n < 3 || t_filter_is(c.after.p, done, one->at[2]));
    CHECKF(ok, "line %d, value %lld: got %s, afterwards %s%s%s", at, (long long)one->at[0].i, c.got.p ? c.got.p : "",
        c.after.p ? c.after.p : "", done ? "" : ", error ", e.text);
    str_drop(&c.got);
    str_drop(&c.after);
    val_env_drop(&env);
}

static void t_filter_answers(void) {
    val_env  env;
    val      values = val_none();
    size_t   n;
    int      at = 0, cases = 0;
    char    *text = t_read("tests/data/golden/filter.jsonl", &n), *rest = text;
    if (!CHECK(text != NULL)) return;
    val_env_init(&env, 0, 0, NULL);
    for (char *line; (line = strsep(&rest, "\n")) && *line; at++) {
        const val v = val_json_read(&env, bytes_of(line), 0);
        if (!at) values = v;
        for (size_t i = 0; at && i < v.list->at[4].list->n; i++, cases++) {
            const val_list *one = v.list->at[4].list->at[i].list;
            t_filter_one(v.list->at, values.list->at[one->at[0].i], one, at + 1);
        }
    }
    CHECK(at > 300 && cases > 2900);
    val_env_drop(&env);
    mem_free(text);
}

/* A row by its table and name. */
static const filter_row *t_filter_named(const char *table, const char *name) {
    for (size_t t = 0; t < sizeof filter__tables / sizeof *filter__tables; t++)
        for (size_t i = 0; i < filter__tables[t].n; i++)
            if (strcmp(filter__tables[t].what, table) == 0 && strcmp(filter__tables[t].rows[i].head.name, name) == 0)
                return &filter__tables[t].rows[i];
    CHECKF(false, "no %s '%s'", table, name);
    return NULL;
}

/* Every row has a call with an answer in the file, but those that have none that is the same each time. */
static void t_filter_rows_met(void) {
    static const char *const alone[] = {"raise_exception", "strftime_now"};
    char                    *text = t_read("tests/data/golden/filter.jsonl", NULL), wanted[128];
    if (!CHECK(text != NULL)) return;
    for (size_t t = 0; t < sizeof filter__tables / sizeof *filter__tables; t++)
        for (size_t i = 0; i < filter__tables[t].n; i++) {
            const filter_row *row = &filter__tables[t].rows[i];
            bool              met = false;
            snprintf(wanted, sizeof wanted, "\n[\"%s\", \"%s\", ", filter__tables[t].what, row->head.name);
            for (size_t k = 0; k < sizeof alone / sizeof *alone; k++) met = met || strcmp(row->head.name, alone[k]) == 0;
            CHECKF(met || strstr(text, wanted), "no case for the %s '%s'", filter__tables[t].what, row->head.name);
        }
    mem_free(text);
}

/* --- characters --- */

typedef struct {
    const filter_row *row;
    uint64_t          hash;
} t_filter_sum;

static void t_filter_hash(t_filter_sum *s, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) s->hash = (s->hash ^ (uint8_t)p[i]) * 0x100000001b3u;
}

static void t_filter_sum_one(val_env *env, t_filter_sum *s, const val_chr *text, uint32_t n) {
    static const val_args none;
    const val v = filter_call(env, s->row, val_str_view((val_str){text, n, NULL}), &none);
    char      utf8[4];
    if (v.kind == VAL_BOOL) t_filter_hash(s, v.b ? "1" : "0", 1);
    for (size_t i = 0; v.kind == VAL_STR && i < v.s.n; i++) t_filter_hash(s, utf8, val_encode(v.s.p[i], utf8));
}

static void t_filter_all_characters(val_env *env, void *arg) {
    for (val_chr c = 0; c < 0x110000; c++) {
        const val_chr between[] = {'1', c, '1'}, behind[] = {'A', c};
        if ((c >= 0xd800 && c < 0xe000) || (c >= 0x20000 && c % 61)) continue;
        t_filter_sum_one(env, arg, between, 3);
        t_filter_sum_one(env, arg, &c, 1);
        t_filter_sum_one(env, arg, behind, 2);
    }
}

static void t_filter_characters(void) {
    char *text = t_read("tests/data/golden/unicode.txt", NULL), *rest = text, name[32];
    int   n = 0;
    if (!CHECK(text != NULL)) return;
    for (char *line; (line = strsep(&rest, "\n")) && *line; n++) {
        unsigned long long want;
        val_env            env;
        err_t              e = {0};
        if (!CHECK(sscanf(line, "%31s %llx", name, &want) == 2)) continue;
        t_filter_sum s = {t_filter_named("method", name), 0xcbf29ce484222325u};
        val_env_init(&env, 0, 0, NULL);
        CHECK(val_run(&env, t_filter_all_characters, &s, &e));
        CHECKF(s.hash == want, "%s(): some character differs from Python", name);
        val_env_drop(&env);
    }
    EQ_INT(n, 4);
    mem_free(text);
}

/* --- origins --- */

/* A call whose value and arguments are the message's where they stand between « and »; the answer is written in the same way. */
typedef struct {
    const char *table, *row, *in, *args;              /* arguments: JSON */
    const char *want;
} t_filter_origin;

static val t_filter_marked(val_env *env, val v) {
    if (v.kind == VAL_LIST)
        for (size_t i = 0; i < v.list->n; i++) v.list->at[i] = t_filter_marked(env, v.list->at[i]);
    if (v.kind != VAL_STR) return v;
    val_buf *b = val_buf_new(env);
    val_chr  origin = 0;
    for (size_t i = 0; i < v.s.n; i++) {
        if (v.s.p[i] == 0xab) origin = VAL_INPUT;
        else if (v.s.p[i] == 0xbb) origin = 0;
        else val_buf_chr(env, b, v.s.p[i] | origin);
    }
    return val_str_view(val_buf_str(b));
}

static void t_filter_show(val_env *env, val v, str *out) {
    if (v.kind == VAL_LIST || v.kind == VAL_TUPLE || v.kind == VAL_ITER) {
        const val_list *l = val_items(env, v);
        for (size_t i = 0; i < l->n; i++) t_filter_show(env, l->at[i], out), str_put(out, i + 1 < l->n ? "," : "");
        return;
    }
    const val_str s = val_as_str(env, v);
    for (size_t i = 0; i < s.n; i++) {
        const bool input = s.p[i] & VAL_INPUT, before = i && (s.p[i - 1] & VAL_INPUT);
        const bool after = i + 1 < s.n && (s.p[i + 1] & VAL_INPUT);
        if (input && !before) str_put(out, "«");
        val_utf8(val_sub(s, i, i + 1), out);
        if (input && !after) str_put(out, "»");
    }
}

typedef struct {
    const t_filter_origin *o;
    str                    got;
} t_filter_origin_run;

static void t_filter_origin_one(val_env *env, void *arg) {
    t_filter_origin_run *r = arg;
    const val            in = t_filter_marked(env, val_json_read(env, bytes_of(r->o->in), 0));
    const val            args = t_filter_marked(env, val_json_read(env, bytes_of(r->o->args), 0));
    const val_args       a = {args.list->at, args.list->n, NULL};
    t_filter_show(env, filter_call(env, t_filter_named(r->o->table, r->o->row), in, &a), &r->got);
}

static void t_filter_origins(void) {
    static const t_filter_origin rows[] = {
        {"filter", "upper", "\"a«ß»b\"", "[]", "A«SS»B"},
        {"filter", "capitalize", "\"«ab»cd\"", "[]", "«Ab»cd"},
        {"filter", "title", "\"x«y z»\"", "[]", "X«y Z»"},
        {"filter", "trim", "\" « a »b \"", "[]", "«a »b"},
        {"filter", "replace", "\"«a-b»-\"", "[\"-\", \"+\"]", "«a»+«b»+"},
        {"filter", "replace", "\"a.b\"", "[\".\", \"«|»\"]", "a«|»b"},
        {"filter", "join", "[\"«a»\", \"b\", \"«c»\"]", "[\", \"]", "«a», b, «c»"},
        {"filter", "indent", "\"«a\\nb»\"", "[2]", "«a»\n  «b»"},
        {"filter", "tojson", "[\"«a\\\"»\"]", "[]", "[\"«a\\\"»\"]"},
        {"filter", "list", "\"a«b»\"", "[]", "a,«b»"},
        {"method", "split", "\"«a,b»\"", "[\",\"]", "«a»,«b»"},
        {"filter", "string", "[\"«a»\"]", "[]", "['«a»']"},
        {"filter", "sort", "[\"«b»\", \"a\"]", "[]", "a,«b»"},
        {"filter", "map", "[\"«b»\", \"a\"]", "[\"upper\"]", "«B»,A"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        val_env             env;
        err_t               e = {0};
        t_filter_origin_run r = {.o = &rows[i]};
        val_env_init(&env, 1 << 20, 100000, NULL);
        str_put(&r.got, "");
        CHECKF(val_run(&env, t_filter_origin_one, &r, &e), "%s: %s", rows[i].row, e.text);
        CHECKF(strcmp(r.got.p, rows[i].want) == 0, "%s: got %s, want %s", rows[i].row, r.got.p, rows[i].want);
        str_drop(&r.got);
        val_env_drop(&env);
    }
}

/* --- limits and errors --- */

/* A call that must fail within the limits of a rendering, with this exit code and these words. */
typedef struct {
    const char *table, *row, *in, *args;
    int         code;
    const char *says;
} t_filter_refusal;

typedef struct {
    const t_filter_refusal *r;
} t_filter_refusal_run;

static void t_filter_refusal_one(val_env *env, void *arg) {
    const t_filter_refusal *r = ((t_filter_refusal_run *)arg)->r;
    val                     in = val_json_read(env, bytes_of(r->in), 0);
    const val               args = val_json_read(env, bytes_of(r->args), 0), times = val_get(in, "times"), of = val_get(in, "of");
    const val_args          a = {args.list->at, args.list->n, NULL};
    if (times.kind == VAL_INT) in = val_mul(env, of, times);
    if (strcmp(r->table, "name") == 0) filter_call(env, filter__row_of(env, FILTER_OF_FILTERS, in), val_none(), &a);
    else filter_call(env, t_filter_named(r->table, r->row), in, &a);
}

static void t_filter_limits(void) {
    static const t_filter_refusal rows[] = {
        {"filter", "indent", "\"a\"", "[1000000000000]", EXIT_RESOURCE, "memory"},
        {"filter", "indent", "{\"of\": \"a\\n\", \"times\": 100000}", "[1000]", EXIT_RESOURCE, "memory"},
        {"filter", "replace", "{\"of\": \"a\", \"times\": 100000}",
         "[\"a\", \"012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
         "0123456789012345678901234567890123456789\"]",
         EXIT_RESOURCE, "memory"},
        {"filter", "trim", "{\"of\": \"a\", \"times\": 3000000}",
         "[\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
         "7890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
         "78901234567890123456789012345678901234567890123456789012345678901234567890123456789b0123456789012345"
         "6789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
         "678901234567890123456789a\"]",
         EXIT_RESOURCE, "spent"},
        {"function", "range", "null", "[100001]", EXIT_INPUT, "100000"},
        {"filter", "tojson", "[1]", "[false, 1000000000000]", EXIT_RESOURCE, "memory"},
        {"filter", "from_json", "{\"of\": \"[\", \"times\": 2000}", "[]", EXIT_RESOURCE, "levels"},
        {"filter", "replace", "\"a\"", "[\"b\"]", EXIT_INPUT, "replace() lacks its argument 'new'"},
        {"filter", "upper", "\"a\"", "[\"b\"]", EXIT_INPUT, "upper() takes 0 arguments at most, 1 are given"},
        {"filter", "dictsort", "[]", "[]", EXIT_INPUT, "dictsort(): its value is list, expected dict"},
        {"function", "raise_exception", "null", "[\"no such role\"]", EXIT_INPUT, "no such role"},
        {"name", "", "\"uper\"", "[]", EXIT_INPUT, "found 'uper', which is no filter here (is 'upper' meant?)"},
        {"name", "", "\"zzzzzzzz\"", "[]", EXIT_INPUT, "found 'zzzzzzzz', which is no filter here"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        val_env              env;
        err_t                e = {0};
        t_filter_refusal_run r = {&rows[i]};
        const double         start = t_cpu();
        val_env_init(&env, 64 << 20, 10000000, NULL);
        const bool done = val_run(&env, t_filter_refusal_one, &r, &e);
        EQ_INT(e.code, rows[i].code);
        CHECKF(done == !rows[i].code && strstr(e.text, rows[i].says), "%s %s: \"%s\", want \"%s\"", rows[i].row, rows[i].in,
            e.text, rows[i].says);
        CHECKF(t_cpu() - start < 10, "%s %s: %.1f s", rows[i].row, rows[i].in, t_cpu() - start);
        val_env_drop(&env);
    }
}

/* The clock: local time in the form of strftime. */
static void t_filter_time_one(val_env *env, void *arg) {
    str           *out = arg;
    const val      format = val_str_of(env, "%Y|%d %B|%%|%f|%z%Z|%q|%-d|%");
    const val_args a = {&format, 1, NULL};
    val_utf8(filter_call(env, t_filter_named("function", "strftime_now"), val_none(), &a).s, out);
}

static void t_filter_clock(void) {
    val_env    env;
    err_t      e = {0};
    str        got = {0};
    char       head[64], tail[64], micro[8] = "";
    time_t     now;
    struct tm  day, then;
    const char *rest;
    val_env_init(&env, 0, 0, NULL);
    do {                                              /* again where midnight falls between the two clocks */
        now = time(NULL);
        localtime_r(&now, &day);
        str_clear(&got);
        CHECK(val_run(&env, t_filter_time_one, &got, &e));
        now = time(NULL);
        localtime_r(&now, &then);
    } while (day.tm_mday != then.tm_mday);
    strftime(head, sizeof head, "%Y|%d %B|%%|", &day);
    strftime(tail, sizeof tail, "||%%q|%-d|%%", &day);
    if (CHECKF(strncmp(got.p, head, strlen(head)) == 0, "got %s, want %s...", got.p, head)) {
        rest = got.p + strlen(head);
        snprintf(micro, sizeof micro, "%.6s", rest);
        EQ_INT(strspn(micro, "0123456789"), 6);
        EQ_STR(rest + strlen(micro), tail);
    }
    str_drop(&got);
    val_env_drop(&env);
}

/* Rows that look at the class of each character take about eight of them in a step of 100 ns. */
static void t_filter_costs_one(val_env *env, void *arg) {
    static const struct { const char *table, *row, *args; } rows[] = {
        {"filter", "trim", "[\"<\"]"}, {"method", "strip", "[\"<\"]"}, {"method", "rstrip", "[\"<\"]"},
    };
    (void)arg;
    const val text = val_mul(env, val_str_of(env, "<"), val_int(80000));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint64_t before = env->steps;
        const val      args = val_json_read(env, bytes_of(rows[i].args), 0);
        const val_args a = {args.list->at, args.list->n, NULL};
        filter_call(env, t_filter_named(rows[i].table, rows[i].row), text, &a);
        CHECKF(env->steps - before >= 10000, "%s: %llu steps", rows[i].row, (unsigned long long)(env->steps - before));
    }
}

static void t_filter_costs(void) {
    val_env env;
    err_t   e = {0};
    val_env_init(&env, 0, 0, NULL);
    CHECKF(val_run(&env, t_filter_costs_one, NULL, &e), "%s", e.text);
    val_env_drop(&env);
}

static const t_case t_filter_cases[] = {
    {"filter answers", "each row answers as Jinja2 and Python do", t_filter_answers},
    {"filter rows met", "each row has a call in that file", t_filter_rows_met},
    {"filter characters", "case and classes of all characters are Python's", t_filter_characters},
    {"filter costs", "rows that look at each character count their work", t_filter_costs},
    {"filter origins", "characters keep their origin through each kind of row", t_filter_origins},
    {"filter limits", "sizes are checked before they are made; wrong calls name what was found", t_filter_limits},
    {"filter clock", "strftime_now has the forms of strftime, and Python's %f, %z and %Z", t_filter_clock},
};
static const t_suite t_filter_suite = SUITE(t_filter_cases);
