/* driver.h - the driver that fake_cuda.c plays, for a test program: build/test/fake/libcuda.so.1, or the one beside the
 * program. */
#ifndef DRIVER_H
#define DRIVER_H

/* Makes that driver the one that [gpu] opens, with `memory` bytes. False: it is not there. */
static bool driver_find(const char *memory) {
    static const char *const places[] = {"/fake/libcuda.so.1", "/../test/fake/libcuda.so.1"};
    char          path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    if (n <= 0) return false;
    path[n] = 0;
    char *const end = strrchr(path, '/');
    setenv("FAKE_CUDA_MEMORY", memory, 1);
    for (int i = 0; i < 2; i++) {
        strcpy(end, places[i]);
        if (access(path, R_OK) == 0) return setenv("LLMRUN_LIBCUDA", path, 1) == 0;
    }
    return false;
}
#endif
