/* The tests of the kernels, which look inside ggml_kernels.h. Called like the program of main.c. */
#define SUITES(S)                                                                                                 \
    S(t_fmt) S(t_fit) S(t_float) S(t_quant) S(t_pack) S(t_cuda) S(t_cuda_tensor) S(t_cuda_rows) S(t_cuda_experts) \
    S(t_cuda_state) S(t_cuda_attn) S(t_cuda_attn_tensor) S(t_cuda_pack) S(t_ops)

#include "runner.h"
