/* ===== [thread] the start of every thread ===== */

/* A denormal costs hundreds of cycles and does not matter here. Every thread
 * must do this: a result must not depend on the thread that computes it. */
K_PUBLIC void k_thread_start(void) {
#if K__X86
    _mm_setcsr(_mm_getcsr() | 0x8040u);               /* FTZ and DAZ */
#elif K__NEON
    uint64_t v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    __asm__ volatile("msr fpcr, %0" : : "r"(v | 1u << 24));          /* FZ */
#endif
}
