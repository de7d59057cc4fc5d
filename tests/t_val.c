/* [val]: values against those of Python 3.11 (data/golden/val.txt, made by gen/val_oracle.py), origins of characters, limits. */

enum { TV_STEPS = 10000000 };

typedef struct {
    void (*fn)(val_env *env, void *arg);
    void *arg;
    err_t e;
    bool  done;
    uint64_t steps, used;
} tv_run;

/* Runs fn in an env of its own, with the limits of a rendering. */
static tv_run tv_go(void (*fn)(val_env *env, void *arg), void *arg) {
    val_env env;
    tv_run  r = {.fn = fn, .arg = arg};
    val_env_init(&env, 64 << 20, TV_STEPS, NULL);
    r.done = val_run(&env, fn, arg, &r.e);
    r.steps = env.steps;
    r.used = env.used;
    val_env_drop(&env);
    return r;
}

static val tv_json(val_env *env, const char *text) { return val_json_read(env, bytes_of(text), 0); }

/* str(v) or repr(v) as bytes, in a static buffer. */
static const char *tv_text(val_env *env, val v, bool repr) {
    static str out;
    val_buf   *b = val_buf_new(env);
    if (repr) val_repr(env, b, v);
    else val_print(env, b, v);
    str_clear(&out);
    str_add(&out, "", 0);
    val_utf8(val_buf_str(b), &out);
    return out.p;
}

/* --- operations against Python's --- */

static val tv_found(val_env *env, val v) {
    if (v.kind == VAL_UNDEF) val_fail(env, EXIT_INPUT, "nothing there");
    return v;
}
static val tv_add(val_env *env, const val *a) { return val_add(env, a[0], a[1]); }
static val tv_minus(val_env *env, const val *a) { return val_minus(env, a[0], a[1]); }
static val tv_mul(val_env *env, const val *a) { return val_mul(env, a[0], a[1]); }
static val tv_div(val_env *env, const val *a) { return val_div(env, a[0], a[1]); }
static val tv_floordiv(val_env *env, const val *a) { return val_floordiv(env, a[0], a[1]); }
static val tv_mod(val_env *env, const val *a) { return val_mod(env, a[0], a[1]); }
static val tv_pow(val_env *env, const val *a) { return val_pow(env, a[0], a[1]); }
static val tv_neg(val_env *env, const val *a) { return val_neg(env, a[0]); }
static val tv_pos(val_env *env, const val *a) { return val_pos(env, a[0]); }
static val tv_eq(val_env *env, const val *a) { return val_bool(val_eq(env, a[0], a[1])); }
static val tv_lt(val_env *env, const val *a) { return val_bool(val_order(env, a[0], a[1], "<") == -1); }
static val tv_gt(val_env *env, const val *a) { return val_bool(val_order(env, a[0], a[1], ">") == 1); }
static val tv_le(val_env *env, const val *a) {
    const int order = val_order(env, a[0], a[1], "<=");
    return val_bool(order == -1 || order == 0);
}
static val tv_in(val_env *env, const val *a) { return val_bool(val_in(env, a[0], a[1])); }
static val tv_index(val_env *env, const val *a) { return tv_found(env, val_index(env, a[0], a[1])); }
static val tv_slice(val_env *env, const val *a) { return tv_found(env, val_slice(env, a[0], a[1], a[2], a[3])); }
static val tv_same(val_env *env, const val *a) { return val_copy(env, a[0]); }
static val tv_str(val_env *env, const val *a) { return val_str_view(val_as_str(env, a[0])); }
static val tv_len(val_env *env, const val *a) { return val_int((int64_t)val_len(env, a[0])); }
static val tv_truth(val_env *env, const val *a) { return (void)env, val_bool(val_truth(a[0])); }
static val tv_trunc(val_env *env, const val *a) { return val_trunc(env, val_as_float(env, a[0])); }
static val tv_loads(val_env *env, const val *a) { return val_json_parse(env, a[0].s); }
static val tv_int(val_env *env, const val *a) {
    val v = val_none();
    if (!val_read_int(env, a[0].s, (uint32_t)a[1].i, &v)) val_fail(env, EXIT_INPUT, "no integer");
    return v;
}
static val tv_float(val_env *env, const val *a) {
    double f = 0;
    if (!val_read_float(env, a[0].s, &f)) val_fail(env, EXIT_INPUT, "no number");
    return val_float(f);
}
static val tv_dumps(val_env *env, const val *a) {
    const bool          seps = a[2].kind == VAL_LIST;
    const val_json_form form = {a[1], seps ? a[2].list->at[0] : val_none(), seps ? a[2].list->at[1] : val_none(), val_truth(a[3]), val_truth(a[4])};
    val_buf            *b = val_buf_new(env);
    val_json_write(env, b, a[0], &form);
    return val_str_view(val_buf_str(b));
}

static const struct {
    const char *name;
    val (*fn)(val_env *env, const val *args);
} tv_ops[] = {{"add", tv_add}, {"minus", tv_minus}, {"mul", tv_mul}, {"div", tv_div}, {"floordiv", tv_floordiv}, {"mod", tv_mod}, {"pow", tv_pow}, {"neg", tv_neg}, {"pos", tv_pos},
              {"eq", tv_eq}, {"lt", tv_lt}, {"gt", tv_gt}, {"le", tv_le}, {"in", tv_in}, {"index", tv_index}, {"slice", tv_slice}, {"repr", tv_same}, {"str", tv_str}, {"len", tv_len},
              {"truth", tv_truth}, {"trunc", tv_trunc}, {"loads", tv_loads}, {"int", tv_int}, {"float", tv_float}, {"json", tv_dumps}};

typedef struct {
    char *field[8];                                   /* operation, arguments, result */
    int   n;
    str   got;
} tv_line;

static void tv_apply(val_env *env, void *arg) {
    tv_line *l = arg;
    val      args[6];
    for (int i = 1; i < l->n - 1; i++) args[i - 1] = tv_json(env, l->field[i]);
    for (size_t op = 0; op < sizeof tv_ops / sizeof *tv_ops; op++)
        if (strcmp(l->field[0], tv_ops[op].name) == 0) str_put(&l->got, tv_text(env, tv_ops[op].fn(env, args), true));
}

static void tv_wanted(val_env *env, void *arg) {
    tv_line *l = arg;
    str_put(&l->got, tv_text(env, tv_json(env, l->field[l->n - 1]), false));
}

/* What the operation of a line gives, "!": it fails. */
static void tv_got(tv_line *l) {
    const tv_run r = tv_go(tv_apply, l);
    if (!r.done) str_clear(&l->got), str_put(&l->got, "!");
}

static void t_val_python(void) {
    char *text = t_read("tests/data/golden/val.txt", NULL), *next;
    int   rows = 0;
    if (!CHECK(text != NULL)) return;
    for (char *line = text; *line; line = next, rows++) {
        tv_line l = {0};
        next = strchr(line, '\n');
        *next++ = 0;
        for (char *p = line; p && l.n < 8; l.n++) l.field[l.n] = strsep(&p, "\t");
        tv_got(&l);
        tv_line want = l;
        want.got = (str){0};
        if (strcmp(l.field[l.n - 1], "!") == 0) str_put(&want.got, "!");
        else CHECK(tv_go(tv_wanted, &want).done);
        CHECKF(strcmp(l.got.p, want.got.p) == 0, "row %d: %.10s(%.120s%s%.120s): got %.300s, want %.300s", rows + 1, l.field[0], l.field[1], l.n > 3 ? ", " : "", l.n > 3 ? l.field[2] : "", l.got.p,
               want.got.p);
        str_drop(&l.got);
        str_drop(&want.got);
    }
    CHECK(rows > 3000);
    mem_free(text);
}

static const t_case t_val_cases[] = {
    {"val python", "operations on values give what Python gives: arithmetic, order, slices, printed forms, JSON", t_val_python},
};
