/* What all suites of tests share. A failed check names the file, the line and both values, and the test goes on. */
#ifndef CHECK_H
#define CHECK_H
#include <sys/wait.h>

typedef struct {
    const char *name, *proves;
    void (*fn)(void);
} t_case;

/* The cases of one file. Its last line: static const t_suite t_kv_suite = SUITE(t_kv_cases); and the list of its program names it. */
typedef struct {
    const t_case *c;
    size_t        n;
} t_suite;
#define SUITE(cases) {cases, sizeof cases / sizeof cases[0]}

extern int         t_failed;                          /* failed checks of the running test */
extern const char *t_skipped;                         /* why the running test could not run */

/* Each returns whether the check holds. */
bool t__report(bool ok, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
bool t__eq_int(long long a, long long b, const char *what, const char *file, int line);
bool t__eq_str(const char *a, const char *b, const char *what, const char *file, int line);
bool t__eq_mem(const void *a, const void *b, size_t n, const char *what, const char *file, int line);
bool t__near(double a, double b, double tol, const char *what, const char *file, int line);

#define CHECK(c)           t__report((c), __FILE__, __LINE__, "%s does not hold", #c)
#define CHECKF(c, ...)     t__report((c), __FILE__, __LINE__, __VA_ARGS__)
#define EQ_INT(a, b)       t__eq_int((long long)(a), (long long)(b), #a, __FILE__, __LINE__)
#define EQ_STR(a, b)       t__eq_str((a), (b), #a, __FILE__, __LINE__)
#define EQ_MEM(a, b, n)    t__eq_mem((a), (b), (n), #a, __FILE__, __LINE__)
#define NEAR(a, b, tol)    t__near((a), (b), (tol), #a, __FILE__, __LINE__)
#define SKIP(why)          do { t_skipped = (why); return; } while (0)

/* Seconds of processor time of this process, for limits on run time: other programs do not add to it. A limit is many times the normal
 * time and finds work that grows faster than its input. */
double t_cpu(void);

/* A path in the shared data (variable SHARED, else ../shared beside the repository); NULL: it does not exist. */
const char *t_shared(const char *name);

/* A whole file, NUL-terminated; n may be NULL. NULL when it cannot be read. */
char *t_read(const char *path, size_t *n);

/* What the program does with its files from t_calls() to T_CALLED(), which compares it: "600>640 " a mode is set on an empty file ("+"
 * behind it: on one that has bytes); "file ", "folder " are flushed; "name " a file gets its name. */
void t_calls(void);
bool t__called(const char *want, const char *file, int line);
#define T_CALLED(want) t__called((want), __FILE__, __LINE__)

/* make stress: rare events become frequent, and the results stay the same. */
bool t_stress(void);

/* make test-all: every combination; make test takes some of them for each model. */
bool t_all(void);
#endif
