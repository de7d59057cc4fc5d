/* What the kernels use of Darwin's sys/sysctl.h, for a check without its SDK. */
#include <stddef.h>
int sysctlbyname(const char *, void *, size_t *, void *, size_t);
