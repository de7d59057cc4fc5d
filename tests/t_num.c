/* [num]: sets of decimal numbers against Python's fractions (tests/gen/num_cases.py). */
#include "program.h"
#include "check.h"

/* The set of one value. */
static const lang *t_num_equal(lang_pool *p, bytes b) { return num_values(p, &b, 1); }

/* The set of a condition as the golden file writes it. */
static const lang *t_num_set(lang_pool *p, const char *s, err_t *e) {
    const char *number = strchr(s, ' ');
    const bool  same = s[1] == '=';
    const bytes b = bytes_of(number ? number + 1 : "");
    switch (*s) {
    case '<': return num_bound(p, b, true, !same);
    case '>': return num_bound(p, b, false, !same);
    case '=': return t_num_equal(p, b);
    case 'm': return num_multiple(p, b, e);
    default: return num_integer(p, *s == 'p');
    }
}

static void t_num_python(void) {
    char      *file = t_read("tests/data/golden/num.txt", NULL), *rest = NULL, *condition = NULL;
    lang_pool *p = lang_pool_new(1 << 22);
    const lang *l = NULL;
    int        n = 0;
    if (!CHECK(file)) return;
    for (char *line = strtok_r(file, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        err_t e = {0};
        if (*line == '#') continue;
        if (*line == '+' || *line == '-') {
            const bytes text = bytes_of(line + 1);
            CHECKF(num_in(l, text) == (*line == '+'), "%s: %s: want %c", condition, line + 1, *line);
            if (!strpbrk(line, "eE")) CHECKF(lang_has(num_all(p), text), "%s is a number", line + 1);
            n++;
            continue;
        }
        condition = line;
        l = t_num_set(p, condition, &e);
        CHECKF(l && !e.code, "%s: %s", condition, e.text);
        CHECKF(lang_and(p, l, num_all(p)) == l, "%s: texts that are no numbers", condition);
    }
    CHECK(n >= 5000 && !lang_over(p));
    lang_pool_free(p);
    mem_free(file);
}

/* A bound and its complement, a value and what differs from it. */
static void t_num_algebra(void) {
    static const char *const bounds[] = {"0", "-0", "1", "-1.5", "0.001", "99", "100", "-1e3", "123.456", "1e-7"};
    lang_pool *p = lang_pool_new(1 << 20);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const bytes b = bytes_of(bounds[i]);
        const lang *below = num_bound(p, b, true, true), *up_to = num_bound(p, b, true, false),
                   *from = num_bound(p, b, false, false), *above = num_bound(p, b, false, true);
        CHECK(lang_and(p, num_all(p), lang_not(p, below)) == from && lang_and(p, num_all(p), lang_not(p, up_to)) == above);
        CHECK(lang_and(p, up_to, from) == t_num_equal(p, b) &&
              lang_or(p, below, above) == lang_and(p, num_all(p), lang_not(p, t_num_equal(p, b))));
    }
    err_t e = {0};
    CHECK(num_bound(p, bytes_of("0"), true, false) == num_bound(p, bytes_of("-0.0e5"), true, false) &&
          t_num_equal(p, bytes_of("1e2")) == t_num_equal(p, bytes_of("100.0")));
    CHECK(num_multiple(p, bytes_of("1"), &e) == num_integer(p, false) &&
          num_multiple(p, bytes_of("6"), &e) == lang_and(p, num_multiple(p, bytes_of("2"), &e),
                                                         num_multiple(p, bytes_of("3"), &e)));
    EQ_INT(lang_count(lang_and(p, num_integer(p, true),
                               lang_and(p, num_bound(p, bytes_of("-17"), false, false),
                                        num_bound(p, bytes_of("1000"), true, true))), 10000), 1017);
    CHECK(lang_empty(lang_and(p, num_bound(p, bytes_of("3"), true, true),
                              num_bound(p, bytes_of("3"), false, false))) && !lang_over(p));
    lang_pool_free(p);
}

/* Some values at once are what each of them is. */
static void t_num_values(void) {
    static const char *const of[] = {"1", "1.5", "-0.0", "105e-2", "1.0500", "-3", "10", "0.001", "1e3", "1.05e400"};
    enum { N = sizeof of / sizeof *of };
    lang_pool  *p = lang_pool_new(1 << 20);
    const lang *each = lang_none(p);
    bytes       value[N];
    for (size_t i = 0; i < N; i++) {
        value[i] = bytes_of(of[i]);
        each = lang_or(p, each, t_num_equal(p, value[i]));
        CHECK(t_num_equal(p, value[i]) == lang_and(p, num_bound(p, value[i], true, false), num_bound(p, value[i], false, false)));
    }
    CHECK(each && num_values(p, value, N) == each && lang_empty(num_values(p, value, 0)));
    enum { MANY = 100000 };
    char (*room)[8] = mem_new(MANY, sizeof *room);
    bytes *many = mem_new(MANY, sizeof *many);
    for (int i = 0; i < MANY; i++) snprintf(room[i], sizeof room[i], "%d", i), many[i] = bytes_of(room[i]);
    const lang *l = num_values(p, many, MANY);
    CHECK(l == lang_and(p, num_integer(p, false),
                        lang_and(p, num_bound(p, bytes_of("0"), false, false), num_bound(p, bytes_of("99999"), true, false))));
    mem_free(room), mem_free(many);
    lang_pool_free(p);
}

/* Exponents and digits of any size are judged at once, or refused. */
static void t_num_large(void) {
    lang_pool   *p = lang_pool_new(1 << 20);
    err_t        e = {0};
    const double from = t_cpu();
    const lang  *three = num_multiple(p, bytes_of("3"), &e), *small = num_bound(p, bytes_of("1000"), true, false),
                *whole = num_integer(p, false), *seven = num_multiple(p, bytes_of("7"), &e);
    CHECK(num_in(three, bytes_of("3e999999999999999999")) && !num_in(three, bytes_of("2e999999999999999999")) &&
          num_in(small, bytes_of("-1e999999999999999999")));
    CHECK(num_in(whole, bytes_of("1e999999999999999999")) && !num_in(whole, bytes_of("1e-999999999999999999")) &&
          num_in(small, bytes_of("5e-999999999999999999")) && !num_in(small, bytes_of("1e999999999999999999")));
    CHECK(num_in(seven, bytes_of("0.0000000000000000049e19")) && num_in(whole, bytes_of("0e999999999999999999")) &&
          !num_in(seven, bytes_of("1e600000000000000000")) && num_in(seven, bytes_of("21e600000000000000000")));
    CHECK(!num_in(whole, bytes_of("1e1000000000000000000000")) && !num_in(whole, bytes_of("1e")) &&
          !num_in(whole, bytes_of("")) && !num_in(whole, bytes_of("01")) && !num_in(whole, bytes_of("1e5x")) &&
          !num_in(NULL, bytes_of("1")));
    CHECK(num_bound(p, bytes_of("1.7976931348623157e308"), true, false) && !e.code);
    CHECK(!num_multiple(p, bytes_of("1234567.1"), &e) && e.code == EXIT_RESOURCE);
    e = (err_t){0};
    CHECK(!num_multiple(p, bytes_of("0"), &e) && e.code == EXIT_INPUT);
    CHECK(!num_bound(p, bytes_of("1e999999999"), true, false) &&
          !num_bound(p, bytes_of("1e-999999999"), true, false) && !lang_over(p));
    CHECK(t_cpu() - from < 10);
    lang_pool_free(p);
}

static const t_case t_num_cases[] = {
    {"num python",
     "bounds, values, multiples and integers hold the numbers that Python's fractions hold, in every spelling", t_num_python},
    {"num algebra", "a bound's complement is the other bound; values have one set however they are written", t_num_algebra},
    {"num values", "a hundred thousand values are one set, and what each of them is", t_num_values},
    {"num large", "exponents of 18 digits are judged exactly; what is larger is refused", t_num_large},
};
static const t_suite t_num_suite = SUITE(t_num_cases);
