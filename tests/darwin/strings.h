/* What the kernels use of Darwin's strings.h, for a check without its SDK. */
int strcasecmp(const char *, const char *);
