#include "backend/cpu/isa.h"

#include <hwy/targets.h>

#include <atomic>

#include "base/error.h"
#include "base/settings.h"

namespace tenon::cpu {
namespace {

std::string list_of(const std::vector<Isa>& levels) {
  std::string out;
  for (Isa l : levels) out += (out.empty() ? "" : ", ") + name(l);
  return out;
}

Isa choose() {
  std::vector<Isa> available = available_isas();
  std::string forced = setting(Setting::isa);
  if (forced.empty()) return available.back();
  for (Isa l : available)
    if (name(l) == forced) return l;
  fail(ErrorCode::invalid_argument, "TENON_ISA={} is not available here; this build and machine have: {}",
       printable(forced), list_of(available));
}

std::atomic<int> g_forced{-1};

// Highway picks the best of the targets it is told of, so it is told of one per level: bits follow the level, not the
// machine. (The baseline's two, SSSE3 and scalar code, have the same bits; there is no SSE2 target.)
void tell_highway(Isa level) {
#if defined(__x86_64__)
  int64_t targets = HWY_STATIC_TARGET;
  if (__builtin_cpu_supports("ssse3")) targets |= HWY_SSSE3;
  if (level >= Isa::avx2) targets |= HWY_AVX2;
  if (level >= Isa::avx512) targets |= HWY_AVX3;
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(targets);  // it may have chosen already
#else
  (void)level;
#endif
}

}  // namespace

std::string name(Isa level) {
  const char* names[] = {"baseline", "avx2", "avx512", "avx512_bf16"};
  return names[static_cast<int>(level)];
}

std::vector<Isa> available_isas() {
  std::vector<Isa> out = {Isa::baseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back(Isa::avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      out.push_back(Isa::avx512);
      if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd")) out.push_back(Isa::avx512_bf16);
    }
  }
#endif
  return out;
}

Isa isa() {
  if (int forced = g_forced.load(std::memory_order_relaxed); forced >= 0) return static_cast<Isa>(forced);
  static const Isa chosen = [] {
    Isa level = choose();
    tell_highway(level);
    return level;
  }();
  return chosen;
}

void force_isa(Isa level) {
  for (Isa l : available_isas())
    if (l == level) {
      g_forced = static_cast<int>(level);
      tell_highway(level);
      return;
    }
  fail(ErrorCode::invalid_argument, "{} is not available here; this machine has: {}", name(level),
       list_of(available_isas()));
}

}  // namespace tenon::cpu
