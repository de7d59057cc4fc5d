/* ===== [cpu] what this machine can run =====
 * The only place that reads features from the processor and the system (cpuid, xgetbv; getauxval, sysctl); other code uses
 * levels. */

#if K__X86
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif K__NEON && defined(__linux__)
#include <sys/auxv.h>
#elif K__NEON && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

enum { K_CPU_AVX2 = 1, K_CPU_FMA = 2, K_CPU_F16C = 4, K_CPU_AVX512 = 8 /* F BW DQ VL */, K_CPU_VNNI = 16, K_CPU_AVX_VNNI = 32,
       K_CPU_BF16 = 64 /* AVX512_BF16, in our summation order */, K_CPU_AMX = 128 /* TILE and INT8 */,
       K_CPU_DOTPROD = 256 /* sdot, of ARM */, K_CPU_I8MM = 512 /* smmla, usdot */ };

#if K__NEON
/* The kernel's word for a feature: a bit of AT_HWCAP (high 0) or AT_HWCAP2, or on Darwin the name of a value. */
static bool k__cpu_says(bool high, int bit, const char *name) {
#if defined(__linux__)
    (void)name;
    return getauxval(high ? AT_HWCAP2 : AT_HWCAP) >> bit & 1;
#elif defined(__APPLE__)
    int    v = 0;
    size_t size = sizeof v;
    (void)high, (void)bit;
    return sysctlbyname(name, &v, &size, NULL, 0) == 0 && v;
#else
    return (void)high, (void)bit, (void)name, false;
#endif
}
#endif

#if K__X86
/* Linux keeps the registers of tiles, 8 KB a thread, only for a process that asks for them; later threads inherit the answer.
 * Asked once: a sandbox may have closed the call by the next time. False: the system refuses, or does not know tiles. */
static bool k__tiles_allowed(void) {
    static int answer = -1;
#ifdef __linux__
    enum { REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };      /* asm/prctl.h, since Linux 5.16 */
    if (answer < 0) answer = syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#endif
    return answer > 0;
}
#endif

/* Features that the processor has and whose registers the system saves across task switches. */
static unsigned k__cpu_probe(void) {
    unsigned have = 0;
#if K__X86
    unsigned a, b, c, d, lo, hi;
    const unsigned tiles = 1u << 24 | 1u << 25;       /* of edx: AMX-TILE, AMX-INT8 */
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    unsigned c1 = c;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    bool ymm = (lo & 0x06) == 0x06;                   /* XCR0: xmm and ymm registers */
    bool zmm = (lo & 0xe6) == 0xe6;                   /* and masks and both parts of zmm */
    bool tmm = (lo & 0x60000) == 0x60000;             /* the configuration and the data of tiles */
    if (!ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (b & bit_AVX2) have |= K_CPU_AVX2;
    if (c1 & bit_FMA) have |= K_CPU_FMA;
    if (c1 & bit_F16C) have |= K_CPU_F16C;
    unsigned all = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (zmm && (b & all) == all) have |= K_CPU_AVX512;
    if (zmm && (c & bit_AVX512VNNI)) have |= K_CPU_VNNI;
    if (tmm && (d & tiles) == tiles && k__tiles_allowed()) have |= K_CPU_AMX;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return have;
    if (a & 1 << 4) have |= K_CPU_AVX_VNNI;
    if (have & K_CPU_AVX512 && a & 1 << 5 && k__dots_in_order()) have |= K_CPU_BF16;
#elif K__NEON
    if (k__cpu_says(false, 20, "hw.optional.arm.FEAT_DotProd")) have |= K_CPU_DOTPROD;
    if (k__cpu_says(true, 13, "hw.optional.arm.FEAT_I8MM")) have |= K_CPU_I8MM;
#endif
    return have;
}
