/* Runs a fuzzer's entry over the files and folders named on the command line: the corpus, without a fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return 0;
    long     n = ftell(f);
    uint8_t *p = malloc(n > 0 ? (size_t)n : 1);
    rewind(f);
    if (n < 0 || !p || fread(p, 1, (size_t)n, f) != (size_t)n) return 0;
    fclose(f);
    LLVMFuzzerTestOneInput(p, (size_t)n);
    free(p);
    return 1;
}

int main(int argc, char **argv) {
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            n += replay_file(argv[i]);
            continue;
        }
        for (struct dirent *e; (e = readdir(d));) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            n += replay_file(path);
        }
        closedir(d);
    }
    printf("replay: %d passed, %d failed\n", n, n ? 0 : 1);
    return n ? 0 : 1;
}
