/* The unit tests: a suite for each section of the program, t_NAME.c; those of the kernels are in kernels.c. Each suite is an object of its own.
 *     build/test/tests            all of them
 *     build/test/tests kv fwd -v  those whose name begins with kv or fwd, one line each
 * The Makefile, too, reads the list; a suite that uses another one's functions stands after it. */
#define SUITES(S)                                                                                               \
    S(t_base) S(t_sandbox) S(t_host) S(t_pool) S(t_http) S(t_net) S(t_gguf) S(t_sha) S(t_hub) S(t_writer) S(t_tok) S(t_val) S(t_filter) S(t_jinja) \
    S(t_gram) S(t_snippets) S(t_lang) S(t_num) S(t_gbnf) S(t_kv) S(t_fwd) S(t_lora) S(t_model) S(t_gpu) S(t_dev) S(t_ops) S(t_rec) S(t_samp) \
    S(t_mask) S(t_constrain) S(t_embed) S(t_gen) S(t_calls) S(t_chat) S(t_engine) S(t_sched) S(t_store) S(t_gain) \
    S(t_spec) S(t_req) S(t_wire) S(t_forms) S(t_lines) S(t_files) S(t_table) S(t_results) S(t_calib) S(t_eval) S(t_quantize) S(t_kl) \
    S(t_cores) S(t_plot) S(t_bench) S(t_cli) S(t_json) S(t_schema) S(t_screen) S(t_serve)

#include "runner.h"
