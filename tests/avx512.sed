# A copy of ggml_kernels.h whose AVX-512 and AVX-VNNI instructions are those of tests/avx512.h:
#     awk -v lines=1 -f tests/single.awk ggml_kernels.h | sed -E -f tests/avx512.sed
s/\b_mm512_/emu_mm512_/g
s/\b(_mm(256)?_maskz?_(loadu|storeu|mov)_[a-z0-9]+|_mm(256)?_cmp_[a-z0-9]+_mask)\b/emu\1/g
s/\b(_mm256_(cvtepi32_epi16|dpbusd_epi32|dpwssd_epi32))\b/emu\1/g
s/"avx512f,[a-z0-9,]*"/"avx2,fma,f16c"/g
s/ ",amx-tile,amx-int8"//
s/\b_tile_/emu_tile_/g
s/__asm__\("%\{vex%\} vp(dp[a-z]+) %2, %1, %0" : .* : "x"\((.)\), "x"\((.)\)\)/*acc = emu_mm256_\1_epi32(*acc, \2, \3)/
# A register of 512 bits is an array in memory.
s/__asm__ ?(volatile)?\("" : "\+x"\((.)\)\)/__asm__ volatile("" : "+m"(\2))/
s/"v"\(k__ld512\((.*)\)\)\);/"r"(\1));/
# The processor and the system, as k__cpu_probe sees them.
s/__get_cpuid_count\(/emu_cpuid_count(/g
s/__asm__ volatile\("xgetbv".*/lo = 0x600e6, hi = 0, (void)hi;/
s/\bsyscall\(SYS_arch_prctl, .*\) == 0;/1;/
