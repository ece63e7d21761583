// Keys and values of a block as floats, for inclusion per Highway target.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/attention_task.h"
#include "backend/cpu/kv_layout.h"
#include "backend/cpu/math-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "tensor/half.h"

#if defined(TENON_BACKEND_CPU_KV_WIDEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_BACKEND_CPU_KV_WIDEN_INL_H
#undef TENON_BACKEND_CPU_KV_WIDEN_INL_H
#else
#define TENON_BACKEND_CPU_KV_WIDEN_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr int64_t kTile = kKvBlock;

// to[i] = one(from[i]); asks for the cache lines `ahead` bytes further on.
template <class Stored, class Widen>
HWY_INLINE void widen(const Stored* from, float* to, int64_t n, const Widen& one, int64_t ahead = 0) {
  const hn::Rebind<Stored, Floats> narrow;
  constexpr int64_t kLine = 64 / sizeof(Stored);
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    hwy::Prefetch(reinterpret_cast<const std::byte*>(from + i) + ahead);
    TENON_UNROLL
    for (int64_t j = 0; j < kLine; j += kLanes) hn::StoreU(one(hn::LoadU(narrow, from + i + j)), kFloats, to + i + j);
  }
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(one(hn::LoadU(narrow, from + i)), kFloats, to + i);
  if (i == n) return;
  alignas(64) Stored rest[kLanes] = {};
  alignas(64) float wide[kLanes];
  std::memcpy(rest, from + i, static_cast<size_t>(n - i) * sizeof(Stored));
  hn::Store(one(hn::Load(narrow, rest)), kFloats, wide);
  std::memcpy(to + i, wide, static_cast<size_t>(n - i) * sizeof(float));
}

struct WidenBf16 {
  template <class V>
  HWY_INLINE Vec operator()(V v) const {
    const hn::RebindToUnsigned<Floats> bits;
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(bits, v)));
  }
};
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
struct WidenF16 {
  template <class V>
  HWY_INLINE Vec operator()(V v) const {
    return hn::PromoteTo(kFloats, hn::BitCast(hn::Rebind<hwy::float16_t, Floats>(), v));
  }
};
#else
// Without the instruction: exponent and mantissa moved into place and scaled, which makes subnormals right; Highway's
// own loses NaN.
struct WidenF16 {
  template <class V>
  HWY_INLINE Vec operator()(V v) const {
    const hn::RebindToUnsigned<Floats> bits;
    const auto wide = hn::PromoteTo(bits, v);
    const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(bits, 0x7FFF)));
    const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(bits, 0x8000)));
    const Vec finite = hn::Mul(hn::BitCast(kFloats, magnitude), set(0x1p112f));
    const Vec special = hn::BitCast(kFloats, hn::Or(magnitude, hn::Set(bits, 0x7F800000)));
    const Vec value = hn::IfThenElse(hn::Ge(finite, set(65536.0f)), special, finite);
    return hn::Or(value, hn::BitCast(kFloats, sign));
  }
};
#endif
struct Same {
  HWY_INLINE Vec operator()(Vec v) const { return v; }
};
struct Dequantise {
  Vec scale;
  template <class V>
  HWY_INLINE Vec operator()(V v) const {
    const hn::RebindToSigned<Floats> integers;
    return hn::Mul(hn::ConvertTo(kFloats, hn::PromoteTo(integers, v)), scale);
  }
};

HWY_INLINE void widen(KvType type, const std::byte* from, float* to, int64_t n, int64_t ahead = 0) {
  if (type == KvType::bf16)
    widen(reinterpret_cast<const uint16_t*>(from), to, n, WidenBf16{}, ahead);
  else if (type == KvType::f16)
    widen(reinterpret_cast<const uint16_t*>(from), to, n, WidenF16{}, ahead);
  else
    widen(reinterpret_cast<const float*>(from), to, n, Same{}, ahead);
}

// Vectors of q4's codes. Element i of a row lies in byte i / 32 * 16 + i % 16, in the high bits if i % 32 >= 16.
HWY_INLINE Vec load_q4(const uint8_t* bytes, bool high, Vec scale) {
  const hn::RebindToSigned<Floats> integers;
  const hn::RebindToUnsigned<Floats> bits;
  const auto wide = hn::PromoteTo(bits, hn::LoadU(hn::Rebind<uint8_t, Floats>(), bytes));
  const auto code = hn::And(hn::ShiftRightSame(wide, high ? 4 : 0), hn::Set(bits, 15));
  return hn::Mul(hn::ConvertTo(kFloats, hn::Sub(hn::BitCast(integers, code), hn::Set(integers, 8))), scale);
}
constexpr int64_t q4_byte(int64_t i) { return i / kKvGroup * kKvPairs + i % kKvPairs; }
constexpr bool q4_high(int64_t i) { return i % kKvGroup >= kKvPairs; }

// [head_dim][32]
HWY_INLINE const float* load_keys(const KvShape& kv, const KvLayout& layout, const std::byte* head, float* to,
                                  int64_t ahead) {
  if (kv.type == KvType::f32) return reinterpret_cast<const float*>(head);
  if (layout.groups == 0) {
    widen(kv.type, head, to, kv.head_dim * kTile, ahead);
    return to;
  }
  alignas(64) float scales[kTile];
  for (int64_t d = 0; d < kv.head_dim; ++d) {
    if (d % kKvGroup == 0) widen(KvType::f16, head + layout.k_scales + d / kKvGroup * kTile * 2, scales, kTile);
    const auto* codes = reinterpret_cast<const int8_t*>(head) + d * kTile;
    const auto* pairs = reinterpret_cast<const uint8_t*>(head) + q4_byte(d) * kTile;
    for (int64_t j = 0; j < kTile; j += kLanes) {
      const Vec scale = hn::Load(kFloats, scales + j);
      if (kv.type == KvType::q8)
        widen(codes + j, to + d * kTile + j, kLanes, Dequantise{scale});
      else
        hn::StoreU(load_q4(pairs + j, q4_high(d), scale), kFloats, to + d * kTile + j);
    }
  }
  return to;
}

// [32][padded head_dim]; what lies between head_dim and the padding is never used.
HWY_INLINE const float* load_values(const KvShape& kv, const KvLayout& layout, const std::byte* head, float* to,
                                    int64_t ahead) {
  const int64_t dim = kv.head_dim, stride = padded(dim);
  const std::byte* codes = head + layout.v;
  if (kv.type == KvType::f32 && stride == dim) return reinterpret_cast<const float*>(codes);
  if (layout.groups == 0) {
    if (stride == dim)
      widen(kv.type, codes, to, dim * kTile, ahead);
    else
      for (int64_t j = 0; j < kTile; ++j) widen(kv.type, codes + j * dim * layout.element, to + j * stride, dim, ahead);
    return to;
  }
  for (int64_t j = 0; j < kTile; ++j)
    for (int64_t g = 0; g < layout.groups; ++g) {
      uint16_t scale;
      std::memcpy(&scale, head + layout.v_scales + (j * layout.groups + g) * 2, sizeof scale);
      const int64_t begin = g * kKvGroup, count = std::min(kKvGroup, dim - begin);
      if (kv.type == KvType::q8) {
        widen(reinterpret_cast<const int8_t*>(codes) + j * dim + begin, to + j * stride + begin, count,
              Dequantise{set(f16_to_f32(scale))});
        continue;
      }
      const auto* pairs = reinterpret_cast<const uint8_t*>(codes) + j * layout.codes;
      for (int64_t i = begin; i < std::min(begin + kKvGroup, stride); i += kLanes)
        hn::StoreU(load_q4(pairs + q4_byte(i), q4_high(i), set(f16_to_f32(scale))), kFloats, to + j * stride + i);
    }
  return to;
}

// A matrix as it is stored, widened on its way into registers. `next` is one of the same shape that will be wanted
// soon.
template <class T, class Widen>
struct StoredMatrix {
  const T* at;
  const T* next;

  HWY_INLINE Vec load(int64_t i) const { return Widen{}(hn::LoadU(hn::Rebind<T, Floats>(), at + i)); }
  HWY_INLINE void prefetch(int64_t i) const {
    if (i % static_cast<int64_t>(64 / sizeof(T)) == 0) hwy::Prefetch(next + i);
  }
  HWY_INLINE StoredMatrix from(int64_t i) const { return {at + i, next + i}; }
};
using Bf16Matrix = StoredMatrix<uint16_t, WidenBf16>;
using F16Matrix = StoredMatrix<uint16_t, WidenF16>;

// q8 with scales as floats. Both kinds have 32 codes a row of scales, as a tile has 32 positions: K's groups of 32 rows
// share a row of 32 scales, V's 32 consecutive codes (head_dim a multiple of 32) share one.
struct Q8Keys {
  const int8_t* at;
  const int8_t* next;
  const float* scales;  // [groups][32]

  HWY_INLINE Vec load(int64_t i) const {
    const Vec scale = hn::LoadU(kFloats, scales + i / (kKvGroup * kTile) * kTile + i % kTile);
    return Dequantise{scale}(hn::LoadU(hn::Rebind<int8_t, Floats>(), at + i));
  }
  HWY_INLINE void prefetch(int64_t i) const {
    if (i % 64 == 0) hwy::Prefetch(next + i);
  }
  HWY_INLINE Q8Keys from(int64_t i) const { return {at + i, next + i, scales + i}; }
};
struct Q8Values {
  const int8_t* at;
  const int8_t* next;
  const float* scales;  // [32][groups]

  HWY_INLINE Vec load(int64_t i) const {
    return Dequantise{set(scales[i / kKvGroup])}(hn::LoadU(hn::Rebind<int8_t, Floats>(), at + i));
  }
  HWY_INLINE void prefetch(int64_t i) const {
    if (i % 64 == 0) hwy::Prefetch(next + i);
  }
};

// q4, the same with half the bytes.
struct Q4Keys {
  const uint8_t* at;
  const uint8_t* next;
  const float* scales;  // [groups][32]

  HWY_INLINE Vec load(int64_t i) const {
    const int64_t d = i / kTile, j = i % kTile;
    return load_q4(at + q4_byte(d) * kTile + j, q4_high(d), hn::LoadU(kFloats, scales + d / kKvGroup * kTile + j));
  }
  HWY_INLINE void prefetch(int64_t i) const {
    if (i % 128 == 0) hwy::Prefetch(next + i / 2);
  }
  HWY_INLINE Q4Keys from(int64_t i) const { return {at + i, next + i, scales + i}; }
};
struct Q4Values {
  const uint8_t* at;
  const uint8_t* next;
  const float* scales;  // [32][groups]

  HWY_INLINE Vec load(int64_t i) const { return load_q4(at + q4_byte(i), q4_high(i), set(scales[i / kKvGroup])); }
  HWY_INLINE void prefetch(int64_t i) const {
    if (i % 128 == 0) hwy::Prefetch(next + i / 2);
  }
};

struct FloatMatrix {
  const float* at;

  HWY_INLINE Vec load(int64_t i) const { return hn::LoadU(kFloats, at + i); }
  HWY_INLINE void prefetch(int64_t) const {}
  HWY_INLINE FloatMatrix from(int64_t i) const { return {at + i}; }
};

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
