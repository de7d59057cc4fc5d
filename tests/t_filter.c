/* [filter]: what templates call. data/golden/filter.jsonl has calls of every row and the answers of Jinja2 and Python, made by gen/filter_cases.py. */

/* A value of the file: JSON, and {"$": kind, "v": ...} for what JSON does not have. */
static val t_filter_value(val_env *env, val v) {
    const val kind = val_get(v, "$"), of = val_get(v, "v");
    val       out = v;
    if (v.kind == VAL_LIST || (kind.kind == VAL_STR && (of.kind == VAL_LIST) && !val_is_str(kind, "range"))) {
        out = val_list_new(env);
        const val_list *l = v.kind == VAL_LIST ? v.list : of.list;
        for (size_t i = 0; i < l->n; i++) val_list_add(env, out.list, t_filter_value(env, l->at[i]));
        if (val_is_str(kind, "tuple")) return val_of_tuple(out.list);
        if (val_is_str(kind, "once")) return val_iter_of(env, out.list, "generator");
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
        for (size_t i = 0; i < v.dict->n; i++) val_dict_set(env, out.dict, v.dict->at[i].key, t_filter_value(env, v.dict->at[i].value));
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
    val_repr(env, b, v.kind == VAL_ITER ? val_of_list(val_items(env, v)) : v);
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
    CHECKF(ok, "line %d, value %lld: got %s, afterwards %s%s%s", at, (long long)one->at[0].i, c.got.p ? c.got.p : "", c.after.p ? c.after.p : "", done ? "" : ", error ", e.text);
    str_drop(&c.got);
    str_drop(&c.after);
    val_env_drop(&env);
}

static void t_filter_answers(void) {
    val_env  env;
    val      values = val_none();
    size_t   n;
    int      at = 0;
    char    *text = t_read("tests/data/golden/filter.jsonl", &n), *rest = text;
    if (!CHECK(text != NULL)) return;
    val_env_init(&env, 0, 0, NULL);
    for (char *line; (line = strsep(&rest, "\n")) && *line; at++) {
        const val v = val_json_read(&env, bytes_of(line), 0);
        if (!at) values = v;
        for (size_t i = 0; at && i < v.list->at[4].list->n; i++) {
            const val_list *one = v.list->at[4].list->at[i].list;
            t_filter_one(v.list->at, values.list->at[one->at[0].i], one, at + 1);
        }
    }
    CHECK(at > 1000);
    val_env_drop(&env);
    mem_free(text);
}

static const t_case t_filter_cases[] = {
    {"filter answers", "each row answers as Jinja2 and Python do", t_filter_answers},
};
