/* The unit tests: the whole program without its main, then a file of tests for each of its sections; those of the kernels are
 * in kernels.c, a program of its own.
 *     build/test/tests            all of them
 *     build/test/tests kv fwd -v  those whose name begins with kv or fwd, one line each */
#include "program.h"
#include "check.h"

#include "t_base.c"
#include "t_host.c"
#include "t_pool.c"
#include "t_gguf.c"
#include "t_writer.c"
#include "t_tok.c"
#include "t_val.c"
#include "t_filter.c"
#include "t_jinja.c"
#include "t_gram.c"
#include "t_snippets.c"
#include "t_json.c"
#include "t_lang.c"
#include "t_schema.c"
#include "t_num.c"
#include "t_gbnf.c"
#include "t_kv.c"
#include "t_fwd.c"
#include "t_gpu.c"
#include "t_dev.c"
#include "t_ops.c"
#include "t_rec.c"
#include "t_model.c"
#include "t_samp.c"
#include "t_mask.c"
#include "t_constrain.c"
#include "t_embed.c"
#include "t_gen.c"
#include "t_calls.c"
#include "t_chat.c"
#include "t_engine.c"
#include "t_sched.c"
#include "t_store.c"
#include "t_spec.c"
#include "t_lines.c"
#include "t_results.c"
#include "t_req.c"
#include "t_calib.c"
#include "t_eval.c"
#include "t_quantize.c"
#include "t_plot.c"
#include "t_bench.c"
#include "t_cli.c"

static const t_suite suites[] = {SUITE(t_base_cases),  SUITE(t_host_cases),  SUITE(t_pool_cases),  SUITE(t_gguf_cases),  SUITE(t_writer_cases),  SUITE(t_tok_cases),  SUITE(t_val_cases), SUITE(t_filter_cases), SUITE(t_jinja_cases), SUITE(t_gram_cases), SUITE(t_snippets_cases), SUITE(t_lang_cases), SUITE(t_num_cases), SUITE(t_gbnf_cases),  SUITE(t_model_cases),
                                 SUITE(t_kv_cases),    SUITE(t_fwd_cases), SUITE(t_gpu_cases), SUITE(t_dev_cases), SUITE(t_ops_cases), SUITE(t_rec_cases), SUITE(t_samp_cases), SUITE(t_mask_cases), SUITE(t_constrain_cases),  SUITE(t_embed_cases), SUITE(t_gen_cases), SUITE(t_chat_cases), SUITE(t_engine_cases),   SUITE(t_sched_cases),
                                 SUITE(t_store_cases), SUITE(t_spec_cases),  SUITE(t_req_cases),   SUITE(t_lines_cases), SUITE(t_results_cases), SUITE(t_calib_cases),
                                 SUITE(t_eval_cases),  SUITE(t_quantize_cases), SUITE(t_plot_cases), SUITE(t_bench_cases), SUITE(t_cli_cases),
                                 SUITE(t_calls_cases), SUITE(t_json_cases), SUITE(t_schema_cases)};

#include "runner.h"
