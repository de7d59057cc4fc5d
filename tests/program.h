/* The whole program without its main, for a test that looks inside. The Makefile sets LLMRUN_SOURCE to the declarations of a program that is
 * an object of its own (tests/export.awk), or to a copy with other devices; without it the test is in one piece with llmrun.c. With
 * GGML_KERNELS_DECLARE the kernels come from an object. */
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
