#include "backend/cpu/elementwise.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kSumLanes = 64;
constexpr int64_t kSumVectors = kSumLanes / kLanes;

// A value's last elements, fewer than a vector, in a vector of their own.
struct Tail {
  Tail(const float* x, int64_t n) { std::memcpy(values, x, static_cast<size_t>(n) * sizeof(float)); }
  Vec load() const { return hn::Load(kFloats, values); }
  alignas(64) float values[kLanes] = {};
};

HWY_INLINE void store_tail(Vec v, float* y, int64_t n) {
  alignas(64) float values[kLanes];
  hn::Store(v, kFloats, values);
  std::memcpy(y, values, static_cast<size_t>(n) * sizeof(float));
}

// y[i] = f(x[i])
template <class F>
HWY_INLINE void map(const float* x, float* y, int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(kFloats, x + i)), kFloats, y + i);
  if (i < n) store_tail(f(Tail(x + i, n - i).load()), y + i, n - i);
}

// y[i] = f(a[i], b[i])
template <class F>
HWY_INLINE void map(const float* a, const float* b, float* y, int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(f(hn::LoadU(kFloats, a + i), hn::LoadU(kFloats, b + i)), kFloats, y + i);
  if (i < n) store_tail(f(Tail(a + i, n - i).load(), Tail(b + i, n - i).load()), y + i, n - i);
}

// Lane l of 64 takes elements l, l + 64, ... in order, as far as they fill all lanes: accumulate(lane, x...). Returns
// how many were taken.
template <class F, class... Rows>
HWY_INLINE int64_t sum_whole(Vec* sums, int64_t n, const F& accumulate, const Rows*... x) {
  TENON_UNROLL
  for (int64_t v = 0; v < kSumVectors; ++v) sums[v] = hn::Zero(kFloats);
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    TENON_UNROLL
    for (int64_t v = 0; v < kSumVectors; ++v) sums[v] = accumulate(sums[v], hn::LoadU(kFloats, x + i + v * kLanes)...);
  }
  return i;
}

// The same with the elements that are left, missing ones as `fill`.
template <class F>
HWY_INLINE float sum_lanes(const float* x, int64_t n, float fill, const F& accumulate) {
  Vec sums[kSumVectors];
  const int64_t i = sum_whole(sums, n, accumulate, x);
  alignas(64) float lanes[kSumLanes];
  if (i < n) {
    for (int64_t k = 0; k < kSumLanes; ++k) lanes[k] = i + k < n ? x[i + k] : fill;
    TENON_UNROLL
    for (int64_t v = 0; v < kSumVectors; ++v) sums[v] = accumulate(sums[v], hn::Load(kFloats, lanes + v * kLanes));
  }
  TENON_UNROLL
  for (int64_t v = 0; v < kSumVectors; ++v) hn::Store(sums[v], kFloats, lanes + v * kLanes);
  return sum_by_halves<kSumLanes>(lanes);
}

struct AddSquare {
  HWY_INLINE Vec operator()(Vec lane, Vec x) const { return hn::MulAdd(x, x, lane); }
};
struct AddCentredSquare {
  Vec mean;
  HWY_INLINE Vec operator()(Vec lane, Vec x) const {
    const Vec centred = hn::Sub(x, mean);
    return hn::MulAdd(centred, centred, lane);
  }
};
struct AddValue {
  HWY_INLINE Vec operator()(Vec lane, Vec x) const { return hn::Add(lane, x); }
};

struct Scaled {
  Vec factor;
  HWY_INLINE Vec operator()(Vec x) const { return hn::Mul(x, factor); }
};
struct ScaledWeighted {
  Vec factor, offset;
  HWY_INLINE Vec operator()(Vec x, Vec weight) const { return hn::Mul(hn::Mul(x, factor), hn::Add(weight, offset)); }
};
struct Normalised {
  Vec mean, inverse;
  HWY_INLINE Vec operator()(Vec x) const { return hn::Mul(hn::Sub(x, mean), inverse); }
};
struct Product {
  HWY_INLINE Vec operator()(Vec a, Vec b) const { return hn::Mul(a, b); }
};
struct Sum {
  HWY_INLINE Vec operator()(Vec a, Vec b) const { return hn::Add(a, b); }
};

void rms_norm_rows(const float* x, const float* weight, float offset, float eps, float* y, int64_t n) {
  const float mean_square = sum_lanes(x, n, 0.0f, AddSquare{}) / static_cast<float>(n);
  const Vec inverse = set(1.0f / std::sqrt(mean_square + eps));
  if (weight)
    map(x, weight, y, n, ScaledWeighted{inverse, set(offset)});
  else
    map(x, y, n, Scaled{inverse});
}

void layer_norm_rows(const float* x, const float* weight, const float* bias, float eps, float* y, int64_t n) {
  const float mean = sum_lanes(x, n, 0.0f, AddValue{}) / static_cast<float>(n);
  const float variance = sum_lanes(x, n, mean, AddCentredSquare{set(mean)}) / static_cast<float>(n);
  map(x, y, n, Normalised{set(mean), set(1.0f / std::sqrt(variance + eps))});
  if (weight) map(y, weight, y, n, Product{});
  if (bias) map(y, bias, y, n, Sum{});
}

struct Pair {
  Vec first, second;
};
HWY_INLINE Pair rotate(Vec a, Vec b, Vec cosine, Vec sine) {
  return {hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), hn::MulAdd(a, sine, hn::Mul(b, cosine))};
}

// Pairs (i, i + half) of one head.
HWY_INLINE void rotate_halves(const float* x, const float* cosine, const float* sine, int64_t half, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Pair p = rotate(hn::LoadU(kFloats, x + i), hn::LoadU(kFloats, x + half + i), hn::LoadU(kFloats, cosine + i),
                          hn::LoadU(kFloats, sine + i));
    hn::StoreU(p.first, kFloats, y + i);
    hn::StoreU(p.second, kFloats, y + half + i);
  }
  if (const int64_t left = half - i; left > 0) {
    const Pair p = rotate(Tail(x + i, left).load(), Tail(x + half + i, left).load(), Tail(cosine + i, left).load(),
                          Tail(sine + i, left).load());
    store_tail(p.first, y + i, left);
    store_tail(p.second, y + half + i, left);
  }
}

// Pairs (2i, 2i + 1) of one head.
HWY_INLINE void rotate_interleaved(const float* x, const float* cosine, const float* sine, int64_t half, float* y) {
  alignas(64) float pairs[2 * kLanes] = {};
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t count = half - i < kLanes ? half - i : kLanes;
    std::memcpy(pairs, x + 2 * i, static_cast<size_t>(2 * count) * sizeof(float));
    Vec a, b;
    hn::LoadInterleaved2(kFloats, pairs, a, b);
    const bool whole = count == kLanes;
    const Pair p = rotate(a, b, whole ? hn::LoadU(kFloats, cosine + i) : Tail(cosine + i, count).load(),
                          whole ? hn::LoadU(kFloats, sine + i) : Tail(sine + i, count).load());
    hn::StoreInterleaved2(p.first, p.second, kFloats, pairs);
    std::memcpy(y + 2 * i, pairs, static_cast<size_t>(2 * count) * sizeof(float));
  }
}

void rope_row(const float* x, const float* table, bool interleaved, int64_t rotary, int64_t heads, int64_t head_dim,
              float* y) {
  const int64_t half = rotary / 2;
  for (int64_t h = 0; h < heads; ++h, x += head_dim, y += head_dim) {
    if (interleaved)
      rotate_interleaved(x, table, table + half, half, y);
    else
      rotate_halves(x, table, table + half, half, y);
    if (x != y) std::memcpy(y + rotary, x + rotary, static_cast<size_t>(head_dim - rotary) * sizeof(float));
  }
}

struct Silu {
  HWY_INLINE Vec operator()(Vec x) const { return hn::Div(x, hn::Add(set(1.0f), exp(hn::Neg(x)))); }
};
struct Gelu {
  HWY_INLINE Vec operator()(Vec x) const {
    const Vec e = erfc(hn::Mul(hn::Abs(x), set(0.707106781186547524f)));
    return hn::Mul(hn::Mul(set(0.5f), x), hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), e, hn::Sub(set(2.0f), e)));
  }
};
struct GeluTanh {
  HWY_INLINE Vec operator()(Vec x) const {
    const Vec k2 = hn::Mul(hn::Mul(set(1.59576912160573071f), x), hn::MulAdd(hn::Mul(set(0.044715f), x), x, set(1.0f)));
    return hn::Div(x, hn::Add(set(1.0f), exp(hn::Neg(k2))));
  }
};
struct Relu {
  HWY_INLINE Vec operator()(Vec x) const { return at_least(0.0f, x); }
};
struct Relu2 {
  HWY_INLINE Vec operator()(Vec x) const {
    const Vec r = at_least(0.0f, x);
    return hn::Mul(r, r);
  }
};
struct QuickGelu {
  HWY_INLINE Vec operator()(Vec x) const {
    return hn::Div(x, hn::Add(set(1.0f), exp(hn::Neg(hn::Mul(set(1.702f), x)))));
  }
};
struct Sigmoid {
  HWY_INLINE Vec operator()(Vec x) const { return sigmoid(x); }
};
struct Tanh {
  HWY_INLINE Vec operator()(Vec x) const { return tanh(x); }
};
template <class F>
struct Gating {
  HWY_INLINE Vec operator()(Vec gate, Vec up) const { return hn::Mul(F{}(gate), up); }
};

template <class F>
HWY_INLINE void activate_or_gate(const float* x, const float* up, float* y, int64_t n) {
  if (up)
    map(x, up, y, n, Gating<F>{});
  else
    map(x, y, n, F{});
}

void activate_elements(Activation f, const float* x, const float* up, float* y, int64_t n) {
  switch (f) {
    case Activation::silu:
      return activate_or_gate<Silu>(x, up, y, n);
    case Activation::gelu:
      return activate_or_gate<Gelu>(x, up, y, n);
    case Activation::gelu_tanh:
      return activate_or_gate<GeluTanh>(x, up, y, n);
    case Activation::relu:
      return activate_or_gate<Relu>(x, up, y, n);
    case Activation::relu2:
      return activate_or_gate<Relu2>(x, up, y, n);
    case Activation::quick_gelu:
      return activate_or_gate<QuickGelu>(x, up, y, n);
    case Activation::sigmoid:
      return activate_or_gate<Sigmoid>(x, up, y, n);
    case Activation::tanh:
      return activate_or_gate<Tanh>(x, up, y, n);
  }
}

void add_elements(const float* a, const float* b, float* y, int64_t n) { map(a, b, y, n, Sum{}); }
void multiply_elements(const float* a, const float* b, float* y, int64_t n) { map(a, b, y, n, Product{}); }
void scale_elements(const float* x, float factor, float* y, int64_t n) { map(x, y, n, Scaled{set(factor)}); }

struct Softcapped {
  Vec cap;
  HWY_INLINE Vec operator()(Vec x) const { return hn::Mul(cap, tanh(hn::Div(x, cap))); }
};
void softcap_elements(const float* x, float cap, float* y, int64_t n) { map(x, y, n, Softcapped{set(cap)}); }

struct AddProduct {
  HWY_INLINE Vec operator()(Vec lane, Vec x, Vec w) const { return hn::MulAdd(x, w, lane); }
};
HWY_INLINE float dot_lanes(const float* x, const float* w, int64_t n) {
  Vec sums[kSumVectors];
  const int64_t i = sum_whole(sums, n, AddProduct{}, x, w);
  alignas(64) float lanes[kSumLanes];
  TENON_UNROLL
  for (int64_t v = 0; v < kSumVectors; ++v) hn::Store(sums[v], kFloats, lanes + v * kLanes);
  for (int64_t k = 0; i + k < n; ++k) lanes[k] += x[i + k] * w[i + k];
  return sum_by_halves<kSumLanes>(lanes);
}

struct AddScaled {
  Vec factor;
  HWY_INLINE Vec operator()(Vec b, Vec y) const { return hn::MulAdd(factor, b, y); }
};
void add_low_rank_row(const float* x, const float* a, const float* b, int64_t rank, int64_t in, int64_t out, float* y) {
  for (int64_t k = 0; k < rank; ++k) map(b + k * out, y, y, out, AddScaled{set(dot_lanes(x, a + k * in, in))});
}

// The largest value that is not NaN; -infinity if there is none.
float largest(const float* x, int64_t n) {
  float best = -std::numeric_limits<float>::infinity();
  Vec top = set(best);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = hn::LoadU(kFloats, x + i);
    top = hn::IfThenElse(hn::Gt(v, top), v, top);
  }
  alignas(64) float lanes[kLanes];
  hn::Store(top, kFloats, lanes);
  for (int64_t k = 0; k < kLanes; ++k) best = lanes[k] > best ? lanes[k] : best;
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

int64_t argmax_elements(const float* x, int64_t n) {
  const float best = largest(x, n);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (!hn::AllFalse(kFloats, hn::Eq(hn::LoadU(kFloats, x + i), set(best)))) break;
  }
  for (; i < n; ++i)
    if (x[i] == best) return i;
  return 0;
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(rope_row);
HWY_EXPORT(activate_elements);
HWY_EXPORT(add_elements);
HWY_EXPORT(multiply_elements);
HWY_EXPORT(scale_elements);
HWY_EXPORT(softcap_elements);
HWY_EXPORT(add_low_rank_row);
HWY_EXPORT(argmax_elements);

void rms_norm(const float* x, const float* weight, float offset, float eps, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(rms_norm_rows)(x, weight, offset, eps, y, n);
}
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(layer_norm_rows)(x, weight, bias, eps, y, n);
}
void rope(const float* x, const float* table, bool interleaved, int64_t rotary, int64_t heads, int64_t head_dim,
          float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(rope_row)(x, table, interleaved, rotary, heads, head_dim, y);
}
void activate(Activation f, const float* x, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(activate_elements)(f, x, nullptr, y, n);
}
void gated(Activation f, const float* gate, const float* up, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(activate_elements)(f, gate, up, y, n);
}
void add(const float* a, const float* b, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(add_elements)(a, b, y, n);
}
void multiply(const float* a, const float* b, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply_elements)(a, b, y, n);
}
void scale(const float* x, float factor, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(scale_elements)(x, factor, y, n);
}
void softcap(const float* x, float cap, float* y, int64_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(softcap_elements)(x, cap, y, n);
}
void add_low_rank(const float* x, const float* a, const float* b, int64_t rank, int64_t in, int64_t out,
                  float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(add_low_rank_row)(x, a, b, rank, in, out, y);
}
int64_t argmax(const float* x, int64_t n) noexcept { return HWY_DYNAMIC_DISPATCH(argmax_elements)(x, n); }

}  // namespace tenon::cpu
#endif  // HWY_ONCE
