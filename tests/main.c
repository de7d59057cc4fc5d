/* The unit tests: the whole program without its main, then a file of tests for each room.
 *     build/test/tests            all of them
 *     build/test/tests kv fwd -v  those whose name begins with kv or fwd, told one by one */
#include "../llmrun.c"
#include "check.h"

#include "t_fmt.c"
#include "t_float.c"
#include "t_fit.c"
#include "t_quant.c"
#include "t_pack.c"
#include "t_base.c"
#include "t_pool.c"
#include "t_gguf.c"
#include "t_tok.c"
#include "t_kv.c"
#include "t_fwd.c"
#include "t_model.c"
#include "t_samp.c"
#include "t_gen.c"
#include "t_sched.c"
#include "t_store.c"
#include "t_spec.c"
#include "t_lines.c"
#include "t_req.c"
#include "t_calib.c"
#include "t_eval.c"
#include "t_quantize.c"
#include "t_bench.c"
#include "t_cli.c"

#define SUITE(cases) {cases, sizeof cases / sizeof cases[0]}
static const struct {
    const t_case *c;
    size_t        n;
} suites[] = {SUITE(t_fmt_cases), SUITE(t_fit_cases), SUITE(t_float_cases),
              SUITE(t_quant_cases), SUITE(t_pack_cases), SUITE(t_base_cases), SUITE(t_pool_cases),
              SUITE(t_gguf_cases), SUITE(t_tok_cases), SUITE(t_model_cases), SUITE(t_kv_cases), SUITE(t_fwd_cases),
              SUITE(t_samp_cases), SUITE(t_gen_cases), SUITE(t_sched_cases), SUITE(t_store_cases), SUITE(t_spec_cases),
              SUITE(t_req_cases), SUITE(t_lines_cases),
              SUITE(t_calib_cases), SUITE(t_eval_cases), SUITE(t_quantize_cases),
              SUITE(t_bench_cases), SUITE(t_cli_cases)};

static bool wanted(const char *name, int argc, char **argv) {
    int asked = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') continue;
        asked++;
        if (strncmp(name, argv[i], strlen(argv[i])) == 0) return true;
    }
    return asked == 0;
}

int main(int argc, char **argv) {
    int  passed = 0, failed = 0, skipped = 0;
    bool verbose = argc > 1 && strcmp(argv[argc - 1], "-v") == 0;
    g_log_level = LOG_QUIET;
    k_thread_start();
    for (size_t s = 0; s < sizeof suites / sizeof *suites; s++)
        for (size_t i = 0; i < suites[s].n; i++) {
            const t_case *c = &suites[s].c[i];
            if (!wanted(c->name, argc, argv)) continue;
            t_failed = 0;
            t_skipped = NULL;
            k_init("auto");
            double t0 = clock_now();
            c->fn();
            if (t_failed) failed++, printf("FAIL  %s: %s\n", c->name, c->proves);
            else if (t_skipped) skipped++, printf("skip  %s: %s\n", c->name, t_skipped);
            else if (passed++, verbose) printf("ok    %s: %s (%.0f ms)\n", c->name, c->proves, (clock_now() - t0) * 1e3);
            fflush(stdout);
        }
    printf("unit: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
