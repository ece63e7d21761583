// Which of Highway's targets are compiled: one per ISA level. Include before hwy/foreach_target.h and hwy/highway.h.
#pragma once

// AVX3_DL would be built for nothing; SSE4 adds nothing here to SSSE3 (and Highway wants AES with it); SVE's sizeless
// vectors can't be kept in arrays.
#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL)
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
