/* What the C library of macOS has beyond POSIX, for a check without its SDK: the headers of glibc, without what only GNU has, stand
 * for the rest (make cross). */
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#undef EBADFD
#undef MADV_HUGEPAGE
#undef MADV_NOHUGEPAGE
#undef SOCK_CLOEXEC
#undef SOCK_NONBLOCK
#undef TCP_KEEPIDLE
#undef TCP_USER_TIMEOUT
#define st_mtimespec st_mtim
enum { TCP_KEEPALIVE = 0x10, TCP_RXT_CONNDROPTIME = 0x80 };
int   issetugid(void), mkostemps(char *, int, int), wcwidth(wchar_t), sysctlbyname(const char *, void *, size_t *, void *, size_t);
void *memmem(const void *, size_t, const void *, size_t);
void  qsort_r(void *, size_t, size_t, void *, int (*)(void *, const void *, const void *));
