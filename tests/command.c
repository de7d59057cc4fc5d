/* The command, linked with the program as tests see it: one object serves it, the unit tests and the fuzzers. */
#include "program.h"

int main(int argc, char **argv) { return main__run(argc, argv); }
