/* tiles.h - the instructions of AMX on a processor that has AVX-512 and not these: it refuses them with SIGILL, and the handler
 * does what they do, with the functions of amx.h. So the machine code of the level avx512_amx runs as it is.
 * tiles_on() and tiles_off() set and remove the handler. tiles_steps(true) also counts the instructions of the thread. */
#ifndef TILES_EMULATED
#include <cpuid.h>
#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>
#ifdef EMU
#define TILES_EMULATED true                              /* by make levels, in C */
#else
#define TILES_EMULATED false
#endif
#include "amx.h"

static __thread uint64_t tiles_executed;                 /* instructions since tiles_steps(true) */

/* Whether the handler is needed and would do: AVX-512 with VNNI, no AMX. */
static bool tiles_missing(void) {
    unsigned a, b, c, d;
    if (TILES_EMULATED) return false;
    const bool wide = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    return wide && __get_cpuid_count(7, 0, &a, &b, &c, &d) && !(d >> 24 & 1);
}

/* Base + index * scale + displacement of a ModRM byte with SIB or without; *len: bytes from ModRM on. */
static uintptr_t tiles_address(const uint8_t *p, const greg_t *r, bool x, bool b, int *len) {
    static const int of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const int mod = p[0] >> 6, rm = p[0] & 7, sib = rm == 4, base = sib ? p[1] & 7 : rm;
    const int index = sib ? (p[1] >> 3 & 7) + 8 * x : 4;
    uintptr_t at = 0;
    int32_t   far = 0;
    *len = 1 + sib;
    const bool none = mod == 0 && base == 5;             /* a displacement alone, or one from the next instruction */
    if (mod == 1) far = (int8_t)p[*len], *len += 1;
    else if (mod == 2 || none) memcpy(&far, p + *len, 4), *len += 4;
    if (!none) at = (uintptr_t)r[of[base + 8 * b]];
    else if (!sib) at = (uintptr_t)(p + *len);
    if (index != 4) at += (uintptr_t)r[of[index]] << (p[1] >> 6);
    return at + (uintptr_t)(intptr_t)far;
}

static uintptr_t tiles_stride(const uint8_t *p, const greg_t *r, bool x) {
    static const int of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uintptr_t)r[of[(p[1] >> 3 & 7) + 8 * x]] << (p[1] >> 6);
}

/* VEX of three bytes, opcode map 0F38: C4, ~R ~X ~B map, W ~vvvv L pp, opcode, ModRM. */
static void tiles_illegal(int sig, siginfo_t *info, void *context) {
    greg_t        *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *p = (const uint8_t *)(uintptr_t)r[REG_RIP];
    const bool     x = !(p[1] & 0x40), b = !(p[1] & 0x20);
    const int      pp = p[2] & 3, of = ~p[2] >> 3 & 15, reg = p[4] >> 3 & 7, rm = p[4] & 7;
    int            len = 1;
    (void)sig, (void)info;
    if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84)) __builtin_trap();
    const bool      registers = p[4] >> 6 == 3;
    const uintptr_t at = registers ? 0 : tiles_address(p + 4, r, x, b, &len);
    if (p[3] == 0x49 && pp == 0 && !registers) emu_tile_loadconfig((const void *)at);
    else if (p[3] == 0x49 && pp == 0 && p[4] == 0xc0) emu_tile_release();
    else if (p[3] == 0x49 && pp == 3 && registers) emu_tile_zero(reg);
    else if (p[3] == 0x4b && pp == 3) {                  /* the index is the stride of rows, and no part of the address */
        const uintptr_t stride = tiles_stride(p + 4, r, x);
        emu_tile_loadd(reg, (const void *)(at - stride), stride);
    } else if (p[3] == 0x4b && pp == 2) {
        const uintptr_t stride = tiles_stride(p + 4, r, x);
        emu_tile_stored(reg, (void *)(at - stride), stride);
    } else if (p[3] == 0x5e && pp == 3) emu_tile_dpbssd(reg, rm, of);
    else if (p[3] == 0x5e && pp == 2) emu_tile_dpbsud(reg, rm, of);
    else if (p[3] == 0x5e && pp == 1) emu_tile_dpbusd(reg, rm, of);
    else __builtin_trap();
    r[REG_RIP] += 4 + len;
    tiles_executed++;
}

static void tiles_step(int sig, siginfo_t *info, void *context) { (void)sig, (void)info, (void)context, tiles_executed++; }

static struct sigaction tiles_was[2];

static void tiles_on(void) {
    struct sigaction ill = {.sa_flags = SA_SIGINFO}, trap = {.sa_flags = SA_SIGINFO};
    ill.sa_sigaction = tiles_illegal;
    trap.sa_sigaction = tiles_step;
    sigaction(SIGILL, &ill, &tiles_was[0]);
    sigaction(SIGTRAP, &trap, &tiles_was[1]);
}

static void tiles_off(void) {
    sigaction(SIGILL, &tiles_was[0], NULL);
    sigaction(SIGTRAP, &tiles_was[1], NULL);
}

/* The trap flag. */
static __attribute__((unused)) void tiles_steps(bool on) {
    if (on) {
        tiles_executed = 0;
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
    } else {
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
    }
}
#endif
