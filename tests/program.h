/* The whole program without its main, for a test that looks inside; LLMRUN_SOURCE: a copy of it with more rows in its tables. With GGML_KERNELS_DECLARE the kernels come from an object. */
#ifndef PROGRAM_H
#define PROGRAM_H
#ifndef LLMRUN_NO_MAIN
#define LLMRUN_NO_MAIN
#endif
#ifndef LLMRUN_SOURCE
#define LLMRUN_SOURCE "../llmrun.c"
#endif
#include LLMRUN_SOURCE
#endif
