/* What one pick of a token costs, by the chain of samplers and the shape of the logits, for a vocabulary of 151936
 * tokens, as CSV on stdout:
 *     make bench-samp Each figure is the best of eight picks. Timings decide nothing. */
#include "../program.h"
#include "../check.c"
#include "../t_samp.c"

int main(void) {
    enum { N = 151936, RUNS = 8 };
    static const struct {
        const char *what, *opts;
        int         family;
    } rows[] = {
        {"defaults", "top_k=40 top_p=0.95 min_p=0.05 temp=0.8", 0},
        {"greedy", "temp=0", 0},
        {"defaults and penalties", "top_k=40 top_p=0.95 min_p=0.05 temp=0.8 repeat_penalty=1.1 dry_multiplier=0.8", 0},
        {"top_k 0, top_p 0.95, peaked", "top_p=0.95 min_p=0.05 temp=0.8", 2},
        {"top_k 0, top_p 0.95, normal", "top_p=0.95 min_p=0.05 temp=0.8", 0},
        {"top_k 0, top_p 0.95, flat", "top_p=0.95 temp=0.8", 4},
        {"temperature alone, flat", "temp=0.8", 4},
        {"top_k 1000", "top_k=1000 temp=0.8", 0},
        {"top_k 20000", "top_k=20000 temp=0.8", 0},
        {"min_p alone", "min_p=0.05 temp=0.8", 0},
        {"typical 0.9", "typical_p=0.9", 0},
        {"top_n_sigma 2", "top_nsigma=2", 0},
        {"mirostat 2", "mirostat=2", 0},
        {"all equal, top_p 0.9", "top_p=0.9", 6},
    };
    printf("chain,microseconds\n");
    float *l = mem_aligned(N, sizeof *l), *work = mem_aligned(N, sizeof *l);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t  state = 100 + i;
        samp_opts o = t_samp__off();
        double    best = 1e9;
        t_samp__set(&o, rows[i].opts);
        t_samp__logits(l, N, rows[i].family, &state);
        samp *s = t_samp__new(&o, N, 1);
        for (int r = 0; r < RUNS; r++) {
            memcpy(work, l, N * sizeof *l);
            samp_accept(s, r * 37 % 11, true);
            double t = clock_now();
            mem_freeze("a pick");
            int32_t got = samp_pick(s, work, (uint64_t)r);
            mem_thaw();
            t = clock_now() - t;
            best = t < best ? t : best;
            if (got < 0 || got >= N) return 1;
        }
        printf("\"%s\",%.0f\n", rows[i].what, best * 1e6);
        samp_free(s);
    }
    mem_free(l);
    mem_free(work);
    return 0;
}
