/* [val]: values against those of Python 3.11 (data/golden/val.txt, made by gen/val_oracle.py), origins of characters, limits. */
#include "program.h"
#include "check.h"

enum { TV_STEPS = 1000000 };                          /* a tenth of those of a rendering */

typedef struct {
    err_t    e;
    bool     done;
    uint64_t used;
} tv_run;

/* Runs fn in an env of its own, with the memory of a rendering. */
static tv_run tv_go(void (*fn)(val_env *env, void *arg), void *arg) {
    val_env env;
    tv_run  r = {0};
    val_env_init(&env, 64 << 20, TV_STEPS, NULL);
    r.done = val_run(&env, fn, arg, &r.e);
    r.used = env.used;
    val_env_drop(&env);
    return r;
}

static val tv_json(val_env *env, const char *text) { return val_json_read(env, bytes_of(text), 0); }

/* str(v) or repr(v) as bytes, in a static buffer. */
static const char *tv_text(val_env *env, val v, bool repr) {
    static str out;
    val_buf   *b = val_buf_new(env);
    if (repr) val__repr(env, b, v);
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
static val tv_trunc(val_env *env, const val *a) { return val_trunc(env, val__as_float(env, a[0])); }
static val tv_loads(val_env *env, const val *a) { return val_json_parse(env, a[0].s); }
static val tv_int(val_env *env, const val *a) {       /* [filter] has int() and float() of a text */
    int64_t n = 0;
    if (!filter_read_int(env, a[0].s, a[1].i, &n)) val_fail(env, EXIT_INPUT, "no integer");
    return val_int(n);
}
static val tv_float(val_env *env, const val *a) {
    double f = 0;
    if (!filter_read_float(env, a[0].s, &f)) val_fail(env, EXIT_INPUT, "no number");
    return val_float(f);
}
static val tv_dumps(val_env *env, const val *a) {
    const bool          seps = a[2].kind == VAL_LIST;
    const val           item = seps ? a[2].list->at[0] : val_none(), key = seps ? a[2].list->at[1] : val_none();
    const val_json_form form = {a[1], item, key, val_truth(a[3]), val_truth(a[4])};
    val_buf            *b = val_buf_new(env);
    val_json_write(env, b, a[0], &form);
    return val_str_view(val_buf_str(b));
}

static const struct {
    const char *name;
    val (*fn)(val_env *env, const val *args);
} tv_ops[] = {
    {"add", tv_add}, {"minus", tv_minus}, {"mul", tv_mul}, {"div", tv_div}, {"floordiv", tv_floordiv},
    {"mod", tv_mod}, {"neg", tv_neg}, {"pos", tv_pos}, {"eq", tv_eq}, {"lt", tv_lt}, {"gt", tv_gt}, {"le", tv_le},
    {"in", tv_in}, {"index", tv_index}, {"slice", tv_slice}, {"repr", tv_same}, {"str", tv_str}, {"len", tv_len},
    {"truth", tv_truth}, {"trunc", tv_trunc}, {"loads", tv_loads}, {"int", tv_int}, {"float", tv_float},
    {"json", tv_dumps},
};

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
        const char *more = l.n > 3 ? l.field[2] : "";
        CHECKF(strcmp(l.got.p, want.got.p) == 0, "row %d: %.10s(%.120s, %.120s): got %.300s, want %.300s", rows + 1, l.field[0],
            l.field[1], more, l.got.p, want.got.p);
        str_drop(&l.got);
        str_drop(&want.got);
    }
    CHECK(rows > 3000);
    mem_free(text);
}

/* --- origins --- */

static val tv_input(val_env *env, const char *text) { return val_text(env, bytes_of(text), true); }

/* Origins of a string, a character for each: i of the message, t of the template. */
static const char *tv_origins(val_str s) {
    static char out[200];
    size_t      n = 0;
    for (; n < s.n && n < sizeof out - 1; n++) out[n] = s.p[n] & VAL_INPUT ? 'i' : 't';
    out[n] = 0;
    return out;
}

static val_str tv_printed(val_env *env, val v, bool repr) {
    val_buf *b = val_buf_new(env);
    if (repr) val__repr(env, b, v);
    else val_print(env, b, v);
    return val_buf_str(b);
}

static void tv_origin(val_env *env, void *arg) {
    (void)arg;
    const val in = tv_input(env, "a\n\xc3\xa9"), t = val_str_of(env, "xy");
    val_buf  *b = val_buf_new(env);
    EQ_STR(tv_origins(val_add(env, in, t).s), "iiitt");
    EQ_STR(tv_origins(val_add(env, t, in).s), "ttiii");
    EQ_STR(tv_origins(val_mul(env, val_add(env, t, in), val_int(2)).s), "ttiiittiii");
    EQ_STR(tv_origins(val_slice(env, val_add(env, t, in), val_none(), val_none(), val_int(-2)).s), "iit");
    EQ_STR(tv_origins(val_index(env, val_add(env, t, in), val_int(-1)).s), "i");
    EQ_STR(tv_origins(val_items(env, val_add(env, t, in))->at[1].s), "t");
    EQ_STR(tv_origins(tv_printed(env, in, true)), "tiiiit");
    EQ_STR(tv_origins(val_escape(env, val_add(env, tv_input(env, "<"), val_str_of(env, "<")).s)), "iiiitttt");
    val_json_write(env, b, val_copy(env, in), NULL);
    EQ_STR(tv_origins(val_buf_str(b)), "tiiiit");
    const val read = val_json_parse(env,
        val_add(env, val_add(env, val_str_of(env, "[\"a\\n"), tv_input(env, "b\\n\\u00e9")), val_str_of(env, "\"]")).s);
    EQ_STR(tv_origins(read.list->at[0].s), "ttiii");
    CHECK(val_eq(env, tv_input(env, "xy"), t));
    CHECK(val_truth(val_get(tv_json(env, "{\"xy\": 1}"), "xy")));
    val d = val_dict_new(env);
    val_dict_set(env, d.dict, tv_input(env, "k"), val_int(1));
    val_dict_set(env, d.dict, val_str_of(env, "k"), val_int(2));
    EQ_INT(d.dict->live, 1);
    EQ_STR(tv_text(env, d, true), "{'k': 2}");
}

/* The bytes of a string, and the origin of each of them. */
static void tv_bytes(val_env *env, void *arg) {
    (void)arg;
    str       out = {0};
    val_spans spans = {0};
    val       all = val_str_of(env, "");
    for (int c = 1; c < 256; c++) {                   /* bytes that are no UTF-8, and those that are */
        const char text[3] = {(char)c, c % 3 ? 'z' : 0};
        all = val_add(env, all, val_text(env, bytes_of(text), c & 1));
        str_put(&out, text);
    }
    const size_t whole = out.n;
    val_utf8_from(all.s, &out, &spans);
    CHECK(out.n == 2 * whole && memcmp(out.p, out.p + whole, whole) == 0);
    CHECK(spans.n > 200 && spans.at[spans.n - 1].end == out.n && spans.at[0].input && !spans.at[1].input);
    str_clear(&out);
    val_utf8_from(val_text(env, bytes_of("\xe6\x97\xa5\xf0\x9f\x98\x80\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80"), true).s, &out,
        &spans);
    EQ_STR(out.p, "\xe6\x97\xa5\xf0\x9f\x98\x80\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80");
    EQ_STR(tv_text(env, val_text(env, bytes_of("a\xff\xe6"), true), true), "'a\\udcff\\udce6'");
    EQ_INT(val_text(env, bytes_of("\xe6\x97\xe6\x97\xa5"), true).s.n, 3);
    str_drop(&out);
    val_spans_drop(&spans);
}

static void t_val_origin(void) {
    CHECK(tv_go(tv_origin, NULL).done);
    CHECK(tv_go(tv_bytes, NULL).done);
}

/* --- strings that grow in place --- */

static void tv_grow(val_env *env, void *arg) {
    (void)arg;
    val a = val_str_of(env, "ab"), first = a, s = val_str_of(env, "");
    const val b = val_add(env, a, val_str_of(env, "cd")), c = val_add(env, a, val_str_of(env, "ef"));
    EQ_STR(tv_text(env, b, false), "abcd");
    EQ_STR(tv_text(env, c, false), "abef");
    a = val_add(env, a, a);
    EQ_STR(tv_text(env, a, false), "abab");
    EQ_STR(tv_text(env, first, false), "ab");
    const val tail = val_slice(env, b, val_int(2), val_none(), val_none());
    EQ_STR(tv_text(env, val_add(env, tail, b), false), "cdabcd");
    EQ_STR(tv_text(env, b, false), "abcd");
    const val x = val_str_of(env, "x");
    for (int i = 0; i < 1000000; i++) s = val_add(env, s, x);      /* copies would take terabytes */
    EQ_INT(s.s.n, 1000000);
}

static void t_val_grow(void) {
    const tv_run r = tv_go(tv_grow, NULL);
    CHECKF(r.done && r.used < 20 << 20, "%s", r.e.text);
}

/* --- kinds that JSON lacks --- */

static void tv_kinds(val_env *env, void *arg) {
    (void)arg;
    val_list *l = val_list_new(env).list;
    val       t = val_tuple_new(env), d = tv_json(env, "{\"a\": 1, \"b\": [2]}");
    val       loop = val_list_new(env), ring = val_dict_new(env);
    for (int i = 0; i < 3; i++) val_list_add(env, l, val_int(i));
    EQ_STR(tv_text(env, t, true), "()");
    val_list_add(env, t.list, val_int(1));
    EQ_STR(tv_text(env, t, true), "(1,)");
    CHECK(val__hashable(env, t));
    val_dict_set(env, d.dict, t, val_str_of(env, "tuple"));
    CHECK(val_is_str(val_dict_get(d.dict, val__pair_of(env, val_int(1), val_int(1)), NULL), "tuple") == false);
    CHECK(val_is_str(val_dict_get(d.dict, val_copy(env, t), NULL), "tuple"));
    val_list_add(env, t.list, val_of_list(l));
    CHECK(!val__hashable(env, t));
    EQ_STR(tv_text(env, t, true), "(1, [0, 1, 2])");
    EQ_STR(tv_text(env, val_view_of(tv_json(env, "{\"a\": 1, \"b\": [2]}").dict, VAL_ITEMS), true),
        "dict_items([('a', 1), ('b', [2])])");
    EQ_STR(tv_text(env, val_view_of(tv_json(env, "{\"a\": 1}").dict, VAL_KEYS), true), "dict_keys(['a'])");
    EQ_STR(tv_text(env, val_view_of(tv_json(env, "{\"a\": 1}").dict, VAL_VALUES), true), "dict_values([1])");
    EQ_STR(tv_text(env, val_range_of(0, 5, 1), true), "range(0, 5)");
    EQ_STR(tv_text(env, val_slice(env, val_range_of(0, 10, 3), val_none(), val_none(), val_int(-1)), true), "range(9, -3, -3)");
    EQ_STR(tv_text(env, val_of_list(val_items(env, val_range_of(9, -3, -3))), true), "[9, 6, 3, 0]");
    EQ_INT(val_len(env, val_range_of(INT64_MIN, INT64_MAX, 1)), -1);
    CHECK(val_in(env, val_int(6), val_range_of(0, 10, 3)) && !val_in(env, val_int(7), val_range_of(0, 10, 3)));
    CHECK(val_in(env, val_float(3), val_range_of(9, -3, -3)));
    CHECK(val_eq(env, val_range_of(0, 3, 2), val_range_of(0, 4, 2)));
    CHECK(!val_eq(env, val_range_of(0, 3, 1), val_range_of(0, 4, 1)));
    val it = val_iter_of(env, l), other = it;
    CHECK(val_truth(it) && val_in(env, val_int(1), it));
    EQ_STR(tv_text(env, val_of_list(val_items(env, other)), true), "[2]");
    EQ_INT(val_items(env, it)->n, 0);
    EQ_STR(tv_text(env, val_undef("x"), false), "");
    CHECK(!val_truth(val_undef("x")) && val_eq(env, val_undef("x"), val_undef(NULL)) && !val_eq(env, val_undef("x"), val_none()));
    val_list_add(env, loop.list, loop);
    EQ_STR(tv_text(env, loop, true), "[[...]]");
    val_put(env, ring.dict, "r", ring);
    EQ_STR(tv_text(env, ring, true), "{'r': {...}}");
}

static void tv_markup(val_env *env, void *arg) {
    (void)arg;
    val safe = val_str_of(env, "<b>"), plain = val_str_of(env, "<&>'\"");
    safe.safe = true;
    EQ_STR(tv_text(env, val_add(env, safe, plain), false), "<b>&lt;&amp;&gt;&#39;&#34;");
    EQ_STR(tv_text(env, val_add(env, plain, safe), true), "Markup('&lt;&amp;&gt;&#39;&#34;<b>')");
    CHECK(val_add(env, plain, safe).safe && val_mul(env, safe, val_int(2)).safe && val_index(env, safe, val_int(0)).safe);
    CHECK(!val_add(env, plain, plain).safe);
    CHECK(val_slice(env, safe, val_int(1), val_none(), val_none()).safe && val_eq(env, safe, val_str_of(env, "<b>")));
}

static void t_val_kinds(void) {
    CHECK(tv_go(tv_kinds, NULL).done);
    CHECK(tv_go(tv_markup, NULL).done);
}

/* --- dicts --- */

static void tv_dict(val_env *env, void *arg) {
    (void)arg;
    enum { N = 5000 };
    val  d = val_dict_new(env);
    bool found;
    for (int i = 0; i < N; i++) val_dict_set(env, d.dict, val_int(i * 7 % N), val_int(i));
    for (int i = 0; i < N; i += 2) CHECK(val_dict_del(d.dict, val_int(i)));
    CHECK(!val_dict_del(d.dict, val_int(0)));
    EQ_INT(d.dict->live, N / 2);
    for (int i = 0; i < N; i++) {
        const val v = val_dict_get(d.dict, i % 3 ? val_int(i) : val_float(i), &found);
        CHECK(found == (i % 2 == 1) && (!found || v.i * 7 % N == i));
    }
    for (int i = 0; i < N; i += 2) val_dict_set(env, d.dict, val_int(i), val_int(-i));
    EQ_INT(d.dict->live, N);
    size_t  seen = 0;
    int64_t last = -1;
    for (size_t i = 0; i < d.dict->n; i++) {          /* the odd keys first, in their old order, then the even ones */
        const val_pair *p = &d.dict->at[i];
        if (p->gone) continue;
        if (++seen <= N / 2) CHECK(p->key.i % 2 == 1);
        else CHECK(p->key.i % 2 == 0 && p->key.i > last), last = p->key.i;
    }
    EQ_INT(seen, N);
    d = val_dict_new(env);
    EQ_STR(tv_text(env, d, true), "{}");
    val_dict_set(env, d.dict, val_bool(true), val_int(1));
    val_dict_set(env, d.dict, val_float(1), val_int(2));
    val_dict_set(env, d.dict, val_none(), val_int(3));
    val_dict_set(env, d.dict, tv_json(env, "1180591620717411303424"), val_int(4));
    val_dict_set(env, d.dict, val_float(0x1p70), val_int(5));
    EQ_STR(tv_text(env, d, true), "{True: 2, None: 3, 1180591620717411303424: 5}");
}

static void t_val_dict(void) {
    const tv_run r = tv_go(tv_dict, NULL);
    CHECKF(r.done, "%s", r.e.text);
}

/* --- limits --- */

static val tv_nested(val_env *env, int levels, bool dicts) {
    val v = val_list_new(env);
    for (int i = 1; i < levels; i++) {
        val outer = dicts && i % 2 ? val_dict_new(env) : val_list_new(env);
        if (outer.kind == VAL_DICT) val_put(env, outer.dict, "k", v);
        else val_list_add(env, outer.list, v);
        v = outer;
    }
    return v;
}

static void tv_deep(val_env *env, void *arg) {
    const int levels = *(int *)arg;
    val_buf  *b = val_buf_new(env), *json = val_buf_new(env);
    const val v = tv_nested(env, levels, true);
    val_json_write(env, json, v, NULL);
    const val again = val_json_parse(env, val_buf_str(json));
    CHECK(val_eq(env, v, again) && val_eq(env, val_copy(env, v), again));
    CHECK(val_order(env, tv_nested(env, levels, false), tv_nested(env, levels, false), "<") == 0);
    val__repr(env, b, v);
}

static void tv_json_deep(val_env *env, void *arg) {
    val_buf *b = val_buf_new(env);
    for (int i = 0; i < *(int *)arg; i++) val_buf_put(env, b, "[");
    for (int i = 0; i < *(int *)arg; i++) val_buf_put(env, b, "]");
    val_json_parse(env, val_buf_str(b));
}

static void tv_tuple_deep(val_env *env, void *arg) {
    val v = val_tuple_new(env), d = val_dict_new(env);
    for (int i = 1; i < *(int *)arg; i++) {
        const val inner = v;
        v = val_tuple_new(env);
        val_list_add(env, v.list, inner);
    }
    val_dict_set(env, d.dict, v, val_int(1));
    CHECK(val_dict_get(d.dict, val_copy(env, v), NULL).i == 1);
}

typedef struct {
    val_object base;
    val_dict  *at;
} tv_box;

static val_dict *tv_box_dict(val_object *o) { return ((tv_box *)o)->at; }

/* Objects inside each other, and one that holds itself. */
static void tv_object_deep(val_env *env, void *arg) {
    static const val_class type = {.name = "box", .dict = tv_box_dict};
    val                    inner = val_int(7);
    for (int i = 1; i < *(int *)arg; i++) {
        tv_box *box = val_alloc(env, 1, sizeof *box);
        *box = (tv_box){{&type}, val_dict_new(env).dict};
        val_put(env, box->at, "in", inner);
        inner = val_of_object(&box->base);
        if (i == 2) EQ_STR(tv_text(env, inner, true), "<box {'in': <box {'in': 7}>}>");
    }
    tv_box round = {{&type}, val_dict_new(env).dict};
    val_put(env, round.at, "in", val_of_object(&round.base));
    EQ_STR(tv_text(env, val_of_object(&round.base), true), "<box {'in': <box {...}>}>");
    val_put(env, round.at, "in", inner);
    tv_text(env, val_of_object(&round.base), true);
}

static void *tv_small_stack(void *arg) {
    (void)arg;
    int levels = VAL_DEPTH_MAX, more = VAL_DEPTH_MAX + 1;
    static void (*const all[])(val_env *env, void *arg) = {tv_deep, tv_json_deep, tv_tuple_deep, tv_object_deep};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tv_run r = tv_go(all[i], &levels);
        CHECKF(r.done, "row %zu: %s", i, r.e.text);
        r = tv_go(all[i], &more);
        CHECKF(!r.done && r.e.code == EXIT_RESOURCE && strstr(r.e.text, "1000 levels"), "row %zu: %s", i, r.e.text);
    }
    return NULL;
}

static void t_val_deep(void) {
    pthread_attr_t a;
    pthread_t      t;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 128 << 10);
    if (CHECK(pthread_create(&t, &a, tv_small_stack, NULL) == 0)) pthread_join(t, NULL);
    pthread_attr_destroy(&a);
}

static void tv_repeat(val_env *env, void *arg) { (void)arg; val_mul(env, val_str_of(env, "ab"), val_int(INT64_MAX)); }
static void tv_repeat_list(val_env *env, void *arg) { (void)arg; val_mul(env, tv_json(env, "[1, 2]"), val_int(INT64_MAX / 2)); }
static void tv_repeat_wraps(val_env *env, void *arg) {
    (void)arg; val_mul(env, tv_json(env, "[1, 2, 3, 4]"), val_int(INT64_MAX / 2 + 2));
}
static void tv_range_items(val_env *env, void *arg) { (void)arg; val_items(env, val_range_of(INT64_MIN, INT64_MAX, 1)); }
static void tv_double_str(val_env *env, void *arg) {
    (void)arg;
    for (val s = val_str_of(env, "ab");; s = val_add(env, s, s)) val_step(env, 1);
}
static void tv_double_list(val_env *env, void *arg) {
    (void)arg;
    for (val s = tv_json(env, "[0]");; s = val_add(env, s, s)) val_step(env, 1);
}
/* A list of a list twice, 60 times over: 2^60 paths through 60 lists. */
static val tv_doubled(val_env *env) {
    val v = tv_json(env, "[1]");
    for (int i = 0; i < 60; i++) {
        val outer = val_list_new(env);
        val_list_add(env, outer.list, v);
        val_list_add(env, outer.list, v);
        v = outer;
    }
    return v;
}
static void tv_paths_eq(val_env *env, void *arg) { (void)arg; val_eq(env, tv_doubled(env), tv_doubled(env)); }
static void tv_paths_repr(val_env *env, void *arg) { (void)arg; val__repr(env, val_buf_new(env), tv_doubled(env)); }
static void tv_paths_json(val_env *env, void *arg) { (void)arg; val_json_write(env, val_buf_new(env), tv_doubled(env), NULL); }
static void tv_paths_copy(val_env *env, void *arg) { (void)arg; val_copy(env, tv_doubled(env)); }
static void tv_search(val_env *env, void *arg) {
    (void)arg;
    const val a = val_str_of(env, "a"), hay = val_mul(env, a, val_int(2000000));
    const val needle = val_add(env, val_mul(env, a, val_int(1000000)), val_str_of(env, "b"));
    for (;;) val_in(env, needle, hay);
}
static void tv_compare(val_env *env, void *arg) {
    (void)arg;
    const val a = val_mul(env, val_str_of(env, "a"), val_int(2000000)), b = val_mul(env, val_str_of(env, "aa"), val_int(1000000));
    for (;;) val_eq(env, a, b), val_order(env, a, b, "<");
}
static void tv_among(val_env *env, void *arg) {
    (void)arg;
    const val l = val_mul(env, tv_json(env, "[1, \"a\", 2.5]"), val_int(100000));
    for (;;) val_in(env, val_int(7), l);
}
static void tv_sort_keys(val_env *env, void *arg) {
    (void)arg;
    val                 d = val_dict_new(env);
    const val_json_form form = {val_none(), val_none(), val_none(), true, false};
    for (int i = 0; i < 20000; i++)
        val_dict_set(env, d.dict, val_str_view(tv_printed(env, val_int(i * 7919 % 20000), false)), val_none());
    for (;;) val_json_write(env, val_buf_new(env), d, &form);
}
static void tv_text_long(val_env *env, void *arg) {
    (void)arg;
    const val s = val_mul(env, val_str_of(env, "\n\xc3\xa9"), val_int(500000));
    for (;;) {
        val__hashable(env, s);
        val_escape(env, s.s);
    }
}
static void tv_print_big(val_env *env, void *arg) {
    (void)arg;
    const val s = val_mul(env, val_str_of(env, "9"), val_int(4300)), v = val_json_parse(env, s.s);
    for (;;) val_print(env, val_buf_new(env), v);
}
static void tv_print_tiny(val_env *env, void *arg) {
    (void)arg;
    for (;;) val_print(env, val_buf_new(env), val_float(1.1e-310));
}
static void tv_indent(val_env *env, void *arg) {
    (void)arg;
    const val_json_form form = {val_int(INT64_MAX), val_none(), val_none(), false, false};
    val_json_write(env, val_buf_new(env), tv_json(env, "[[]]"), &form);
}
static void t_val_limits(void) {
    static void (*const all[])(val_env *env, void *arg) = {
        tv_repeat,    tv_repeat_list, tv_repeat_wraps, tv_range_items, tv_double_str, tv_double_list,
        tv_paths_eq,  tv_paths_repr,  tv_paths_json,   tv_paths_copy,  tv_search,     tv_compare,
        tv_among,     tv_sort_keys,   tv_text_long,    tv_print_big,   tv_print_tiny, tv_indent,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const tv_run r = tv_go(all[i], NULL);
        CHECKF(!r.done && r.e.code == EXIT_RESOURCE && strstr(r.e.text, "spent"), "row %zu: code %d, %s", i, r.e.code, r.e.text);
        CHECKF(r.used <= 64 << 20, "row %zu: %llu bytes", i, (unsigned long long)r.used);
    }
}

/* --- errors --- */

static void tv_bad_json(val_env *env, void *arg) { tv_json(env, arg); }

static void tv_nine(val_env *env, void *arg) {
    const val s = val_mul(env, val_str_of(env, "9"), *(val *)arg);
    const val v = val_json_parse(env, s.s);
    EQ_INT(v.kind, VAL_BIG);
    CHECK(val_eq(env, val_str_view(tv_printed(env, v, true)), s));
}

static void tv_bad_sum(val_env *env, void *arg) { (void)arg; val_add(env, val_int(INT64_MAX), val_int(1)); }
static void tv_bad_big(val_env *env, void *arg) { (void)arg; val_mul(env, tv_json(env, "9223372036854775808"), val_int(1)); }
static void tv_bad_half(val_env *env, void *arg) { (void)arg; val_div(env, val_int((1ll << 53) + 1), val_int(2)); }
static void tv_bad_key(val_env *env, void *arg) {
    (void)arg; val_dict_set(env, val_dict_new(env).dict, val_list_new(env), val_none());
}
static void tv_bad_add(val_env *env, void *arg) { (void)arg; val_add(env, val_int(1), val_str_of(env, "a")); }
static void tv_bad_undef(val_env *env, void *arg) { (void)arg; val_minus(env, val_int(1), val_undef("who")); }
static void tv_bad_zero(val_env *env, void *arg) { (void)arg; val_mod(env, val_int(1), val_float(0)); }
static void tv_bad_json_kind(val_env *env, void *arg) { (void)arg; val_json_write(env, val_buf_new(env), val_undef(NULL), NULL); }

static void t_val_errors(void) {
    static const struct {
        void (*fn)(val_env *env, void *arg);
        const char *arg, *says;
    } rows[] = {
        {tv_bad_json, "[1, 2", "JSON, byte 6: found the end, expected a comma or ]"},
        {tv_bad_json, "{\"a\": tru}", "JSON, byte 7: found 't', expected a value"},
        {tv_bad_json, "{\"\xc3\xa9\": \x01}", "JSON, byte 8: found the character U+0001, expected a value"},
        {tv_bad_json, "[\"a\nb\"]",
         "JSON, byte 4: found the character U+000A, expected an escape in place of a control character"},
        {tv_bad_json, "[\xff]", "JSON, byte 2: found the byte 0xff, expected a value"},
        {tv_bad_json, "[1] x", "JSON, byte 5: found 'x', expected the end"},
        {tv_bad_json, "{a: 1}", "JSON, byte 2: found 'a', expected a key in quotes"},
        {tv_bad_json, "\"\\ud8\"", "expected four hexadecimal digits"},
        {tv_bad_sum, NULL, "'+' takes or makes an integer beyond 64 bits"},
        {tv_bad_big, NULL, "'*' takes or makes an integer beyond 64 bits"},
        {tv_bad_half, NULL, "'/' takes an integer that needs more than 53 bits"},
        {tv_bad_key, NULL, "found list as a key"},
        {tv_bad_add, NULL, "'+' is not supported between int and str"},
        {tv_bad_undef, NULL, "who is undefined"},
        {tv_bad_zero, NULL, "division by zero"},
        {tv_bad_json_kind, NULL, "found Undefined"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tv_run r = tv_go(rows[i].fn, (void *)(uintptr_t)rows[i].arg);
        CHECKF(!r.done && r.e.code == EXIT_INPUT && strstr(r.e.text, rows[i].says), "row %zu: %s", i, r.e.text);
    }
    val digits = val_int(4300);
    CHECK(tv_go(tv_nine, &digits).done);
    digits.i++;
    CHECK(strstr(tv_go(tv_nine, &digits).e.text, "more than 4300 digits") != NULL);
}

static void tv_inner(val_env *env, void *arg) {
    err_t e = {0};
    env->line = 7;
    CHECK(!val_run(env, tv_bad_zero, NULL, &e));
    EQ_STR(e.text, "file:7: division by zero");
    *(int *)arg = 1;
    val_fail(env, EXIT_INPUT, "outer");
}

static void t_val_run(void) {
    val_env env;
    err_t   e = {0};
    int     reached = 0;
    val_env_init(&env, 1 << 20, 100, "file");
    CHECK(!val_run(&env, tv_inner, &reached, &e));
    EQ_STR(e.text, "file:7: outer");
    CHECK(reached);
    val_env_drop(&env);
}

static const t_case t_val_cases[] = {
    {"val python", "operations on values give what Python gives: arithmetic, order, slices, printed forms, JSON", t_val_python},
    {"val origin", "each character keeps its origin through every operation, and bytes come out as they went in", t_val_origin},
    {"val grow", "a string that is appended to in place changes no other string", t_val_grow},
    {"val kinds",
     "tuples, views, ranges, iterators, undefined values, markup, values that hold themselves: as in Jinja", t_val_kinds},
    {"val dict", "a dict keeps its order over deletions, and equal numbers are one key", t_val_dict},
    {"val deep", "a thousand levels need no stack, one more is refused", t_val_deep},
    {"val limits", "work and memory without end are stopped by their limits", t_val_limits},
    {"val errors", "an error says what was found and what was expected", t_val_errors},
    {"val run", "an error inside a run inside a run ends the inner one", t_val_run},
};
static const t_suite t_val_suite = SUITE(t_val_cases);
