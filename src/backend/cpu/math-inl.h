// Vector exp, tanh, erfc and sums in fixed order, for inclusion per Highway target. Definitions and coefficients:
// reference/math.h.
#include "backend/reference/math.h"
#include "hwy/highway.h"

#if defined(TENON_BACKEND_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_BACKEND_CPU_MATH_INL_H
#undef TENON_BACKEND_CPU_MATH_INL_H
#else
#define TENON_BACKEND_CPU_MATH_INL_H
#endif

// Loops over register arrays must vanish, whatever the optimisation level.
#undef TENON_UNROLL
#if defined(__clang__)
#define TENON_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TENON_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr int64_t kLanes = HWY_LANES(float);

HWY_INLINE Vec set(float x) { return hn::Set(kFloats, x); }

// The larger, the smaller; `x` where it is NaN. x86's instructions do just that.
HWY_INLINE Vec at_least(float bound, Vec x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  return hn::Max(set(bound), x);
#else
  return hn::IfThenElse(hn::Gt(set(bound), x), set(bound), x);
#endif
}
HWY_INLINE Vec at_most(float bound, Vec x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  return hn::Min(set(bound), x);
#else
  return hn::IfThenElse(hn::Lt(set(bound), x), set(bound), x);
#endif
}

struct ExpParts {
  Vec r, p, scale;
};

HWY_INLINE ExpParts exp_parts(Vec x) {
  const hn::RebindToUnsigned<Floats> bits;
  const Vec bias = set(reference::kRoundBias);
  const Vec t = hn::MulAdd(x, set(reference::kLog2e), bias);
  const Vec n = hn::Sub(t, bias);
  const Vec r = hn::MulAdd(n, set(-reference::kLn2Low), hn::MulAdd(n, set(-reference::kLn2High), x));
  Vec p = set(reference::kExp[4]);
  p = hn::MulAdd(p, r, set(reference::kExp[3]));
  p = hn::MulAdd(p, r, set(reference::kExp[2]));
  p = hn::MulAdd(p, r, set(reference::kExp[1]));
  p = hn::MulAdd(p, r, set(reference::kExp[0]));
  return {r, p, hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::BitCast(bits, t)))};
}

HWY_INLINE Vec exp(Vec x) {
  const ExpParts e = exp_parts(at_most(reference::kExpHighest, at_least(reference::kExpLowest, x)));
  return hn::Mul(hn::MulAdd(hn::MulAdd(e.p, e.r, set(1.0f)), e.r, set(1.0f)), e.scale);
}

HWY_INLINE Vec tanh(Vec x) {
  const Vec a = at_most(reference::kTanhHighest, hn::Abs(x));
  const ExpParts e = exp_parts(hn::Add(a, a));
  const Vec m = hn::MulAdd(e.scale, hn::MulAdd(hn::Mul(e.p, e.r), e.r, e.r), hn::Sub(e.scale, set(1.0f)));
  return hn::CopySignToAbs(hn::Div(m, hn::Add(m, set(2.0f))), x);
}

HWY_INLINE Vec erfc(Vec a) {
  Vec q = set(reference::kErfc[9]);
  TENON_UNROLL
  for (int i = 8; i >= 0; --i) q = hn::MulAdd(q, a, set(reference::kErfc[i]));
  return exp(hn::Neg(hn::Mul(q, a)));
}

HWY_INLINE Vec sigmoid(Vec x) { return hn::Div(set(1.0f), hn::Add(set(1.0f), exp(hn::Neg(x)))); }

// The upper half is added to the lower until one is left: the same order at every vector width. Overwrites `lanes`.
template <int kCount>
HWY_INLINE float sum_by_halves(float* lanes) {
  for (int width = kCount / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
