/* Tests of the kernels. They look inside ggml_kernels.h, so this program holds all of it in one piece. Called like main.c's. */
#include "emu_cuda.h"
#include "program.h"
#include "check.h"

#include "t_fmt.c"
#include "t_float.c"
#include "t_fit.c"
#include "t_quant.c"
#include "t_pack.c"
#include "t_cuda.c"
#include "t_cuda_tensor.c"
#include "t_cuda_rows.c"
#include "t_cuda_experts.c"
#include "t_cuda_state.c"
#include "t_cuda_attn.c"
#include "t_cuda_attn_tensor.c"
#include "t_cuda_pack.c"
#include "t_ops.c"

static const t_suite suites[] = {SUITE(t_fmt_cases), SUITE(t_fit_cases), SUITE(t_float_cases), SUITE(t_quant_cases), SUITE(t_pack_cases),
                                 SUITE(t_cuda_cases), SUITE(t_cuda_tensor_cases), SUITE(t_cuda_rows_cases), SUITE(t_cuda_experts_cases),
                                 SUITE(t_cuda_state_cases), SUITE(t_cuda_attn_cases), SUITE(t_cuda_attn_tensor_cases), SUITE(t_cuda_pack_cases), SUITE(t_ops_cases)};

#include "runner.h"
