/* What the kernels use of Darwin's string.h, for a check without its SDK. */
#include <stddef.h>
void  *memcpy(void *, const void *, size_t), *memset(void *, int, size_t), *memmove(void *, const void *, size_t);
int    memcmp(const void *, const void *, size_t), strcmp(const char *, const char *), strncmp(const char *, const char *, size_t);
size_t strlen(const char *);
