/* main() of a program of tests: runs the suites of its list, SUITES, or those of their cases whose names begin with one of the
 * arguments, and with none that follows a ^. */
#include "program.h"
#include "check.h"

#define RUNNER_KNOW(name) extern const t_suite name##_suite;
#define RUNNER_ROW(name)  &name##_suite,
SUITES(RUNNER_KNOW)
static const t_suite *const suites[] = {SUITES(RUNNER_ROW)};

static bool wanted(const char *name, int argc, char **argv) {
    bool asked = false, found = false;
    for (int i = 1; i < argc; i++) {
        const bool  out = argv[i][0] == '^';
        const char *word = argv[i] + out;
        if (*word == '-') continue;
        const bool same = strncmp(name, word, strlen(word)) == 0;
        if (out && same) return false;
        if (!out) asked = true, found |= same;
    }
    return !asked || found;
}

static struct { int passed, failed, skipped; } count;

static void run(const t_case *c, bool verbose) {
    t_failed = 0;
    t_skipped = NULL;
    k_init("auto");
    double t0 = clock_now();
    c->fn();
    if (t_failed) count.failed++, printf("FAIL  %s: %s\n", c->name, c->proves);
    else if (t_skipped) count.skipped++, printf("skip  %s: %s\n", c->name, t_skipped);
    else if (count.passed++, verbose) printf("ok    %s: %s (%.0f ms)\n", c->name, c->proves, (clock_now() - t0) * 1e3);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const bool verbose = strcmp(argv[argc - 1], "-v") == 0;
    g_log_level = LOG_QUIET;
    k_thread_start();
    for (size_t s = 0; s < sizeof suites / sizeof *suites; s++)
        for (size_t i = 0; i < suites[s]->n; i++)
            if (wanted(suites[s]->c[i].name, argc, argv)) run(&suites[s]->c[i], verbose);
    printf("unit: %d passed, %d failed, %d skipped\n", count.passed, count.failed, count.skipped);
    return count.failed != 0;
}
