// peer_products.cpp TYPE K N T TIMES - the product of products.c in ggml, with its repacked weights.
#include "ggml.h"
#include "ggml-cpu.h"
#include "ggml-backend.h"
#include <cstdlib>
#include <cstring>
#include <vector>

static ggml_type type_of(const char * name) {
    for (int t = 0; t < GGML_TYPE_COUNT; t++)
        if (ggml_type_name((ggml_type) t) && !strcasecmp(ggml_type_name((ggml_type) t), name)) return (ggml_type) t;
    exit(2);
}

int main(int argc, char ** argv) {
    if (argc < 6) return 2;
    const int K = atoi(argv[2]), N = atoi(argv[3]), T = atoi(argv[4]);
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 1);
    ggml_backend_dev_t dev = ggml_backend_get_device(cpu);
    auto bufts = (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t repack = ggml_backend_cpu_buffer_type();
    for (auto * b = bufts ? bufts(dev) : nullptr; b && *b; b++)
        if (strstr(ggml_backend_buft_name(*b), "REPACK")) repack = *b;
    const ggml_init_params params = {1 << 20, nullptr, true};
    ggml_context * weights = ggml_init(params), * rest = ggml_init(params);
    ggml_tensor * w = ggml_new_tensor_2d(weights, type_of(argv[1]), K, N);
    ggml_backend_alloc_ctx_tensors_from_buft(weights, repack);
    std::vector<char> bytes(ggml_nbytes(w));
    for (size_t i = 0; i < bytes.size(); i++) bytes[i] = (char) (i * 2654435761u >> 13 & 63);
    ggml_backend_tensor_set(w, bytes.data(), 0, bytes.size());
    ggml_tensor * x = ggml_new_tensor_2d(rest, GGML_TYPE_F32, K, T), * y = ggml_mul_mat(rest, w, x);
    ggml_cgraph * graph = ggml_new_graph(rest);
    ggml_build_forward_expand(graph, y);
    ggml_backend_alloc_ctx_tensors(rest, cpu);
    std::vector<float> values((size_t) K * T);
    for (size_t i = 0; i < values.size(); i++) values[i] = (float) (i * 2654435761u >> 8 & 1023) / 512 - 1;
    ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
    for (int i = 0; i < atoi(argv[5]); i++) ggml_backend_graph_compute(cpu, graph);
    return 0;
}
