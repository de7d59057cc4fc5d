/* The whole program without its main, for a test that looks inside. With GGML_KERNELS_DECLARE the kernels come from an object. */
#ifndef PROGRAM_H
#define PROGRAM_H
#ifndef LLMRUN_NO_MAIN
#define LLMRUN_NO_MAIN
#endif
#include "../llmrun.c"
#endif
