// Highway's dynamic dispatch, made to follow isa(). Include after hwy/highway.h, in the part compiled once.
#pragma once
#include <atomic>

#include "backend/cpu/isa.h"
#include "hwy/targets.h"

namespace tenon::cpu {

inline void follow_isa() {
  static std::atomic<int> followed{-1};
  const Isa level = isa();
  if (followed.load(std::memory_order_relaxed) == static_cast<int>(level)) return;
  int64_t targets = hwy::SupportedTargets();
#if HWY_ARCH_X86
  if (level < Isa::avx512) targets &= ~int64_t{HWY_AVX3 | HWY_AVX3_DL};
  if (level < Isa::avx2) targets &= ~int64_t{HWY_AVX2};
#endif
  hwy::GetChosenTarget().Update(targets);
  followed.store(static_cast<int>(level), std::memory_order_relaxed);
}

}  // namespace tenon::cpu

// The current level's version of a function named by HWY_EXPORT.
#define TENON_DISPATCH(function) (::tenon::cpu::follow_isa(), HWY_DYNAMIC_DISPATCH(function))
