#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/attention.h"
#include "backend/cpu/hadamard.h"
#include "backend/cpu/highway_targets.h"
#include "backend/cpu/kv_layout.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/store_kv.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

constexpr hn::RebindToUnsigned<Floats> kBits;
constexpr hn::RebindToSigned<Floats> kIntegers;

// Each rounds a group of 32 floats. `scale` is q8's and q4's alone.
struct RoundF32 {
  using Code = float;
  HWY_INLINE void operator()(const float* x, float* codes, uint16_t&) const { std::copy_n(x, kKvGroup, codes); }
};

struct RoundBf16 {
  using Code = uint16_t;
  HWY_INLINE void operator()(const float* x, uint16_t* codes, uint16_t&) const {
    for (int64_t i = 0; i < kKvGroup; i += kLanes) {
      const Vec v = hn::LoadU(kFloats, x + i);
      const auto bits = hn::BitCast(kBits, v);
      const auto top = hn::ShiftRight<16>(bits);
      const auto even = hn::Add(hn::Set(kBits, 0x7FFF), hn::And(top, hn::Set(kBits, 1)));
      const auto rounded = hn::ShiftRight<16>(hn::Add(bits, even)), quiet = hn::Or(top, hn::Set(kBits, 0x40));
      const auto is_nan = hn::RebindMask(kBits, hn::IsNaN(v));
      const auto code = hn::BitCast(kIntegers, hn::IfThenElse(is_nan, quiet, rounded));
      hn::StoreU(hn::DemoteTo(hn::Rebind<uint16_t, Floats>(), code), hn::Rebind<uint16_t, Floats>(), codes + i);
    }
  }
};

struct RoundF16 {
  using Code = uint16_t;
  HWY_INLINE void operator()(const float* x, uint16_t* codes, uint16_t&) const {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    for (int64_t i = 0; i < kKvGroup; i += kLanes) {
      Vec v = hn::LoadU(kFloats, x + i);
      const Vec nan = hn::CopySignToAbs(set(std::numeric_limits<float>::quiet_NaN()), v);
      v = hn::IfThenElse(hn::IsNaN(v), nan, v);  // one NaN, whatever the bits of this one
      const auto halves = hn::DemoteTo(hn::Rebind<hwy::float16_t, Floats>(), v);
      hn::StoreU(hn::BitCast(hn::Rebind<uint16_t, Floats>(), halves), hn::Rebind<uint16_t, Floats>(), codes + i);
    }
#else
    for (int64_t i = 0; i < kKvGroup; ++i) codes[i] = f32_to_f16(x[i]);
#endif
  }
};

// The bits of the largest magnitude: above infinity's if there is a NaN.
HWY_INLINE uint32_t largest_bits(const float* x) {
  auto largest = hn::Zero(kIntegers);
  for (int64_t i = 0; i < kKvGroup; i += kLanes)
    largest = hn::Max(largest, hn::BitCast(kIntegers, hn::Abs(hn::LoadU(kFloats, x + i))));
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(kIntegers, largest)));
}

// Of a group whose largest magnitude has these bits and becomes the code `most`; NaN where a value is not finite.
HWY_INLINE float group_scale(uint32_t largest, float most) {
  constexpr uint32_t kInfinityBits = 0x7F800000;
  constexpr float kLargestF16 = 65504;
  if (largest >= kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
  return std::min(std::bit_cast<float>(largest) / most, kLargestF16);
}

HWY_INLINE uint16_t q4_scale(const float* x) {
  const uint32_t largest = largest_bits(x);
  const float scale = group_scale(largest, 8);
  if (std::isnan(scale)) return f32_to_f16(scale);
  int64_t first = 0;
  while ((std::bit_cast<uint32_t>(x[first]) & 0x7FFFFFFF) != largest) ++first;
  return f32_to_f16(x[first] > 0 ? -scale : scale);
}

struct RoundQ8 {
  using Code = int8_t;
  HWY_INLINE void operator()(const float* x, int8_t* codes, uint16_t& scale) const {
    scale = f32_to_f16(group_scale(largest_bits(x), 127));
    const float step = f16_to_f32(scale);
    if (!(step > 0)) {
      std::fill_n(codes, kKvGroup, int8_t{0});
      return;
    }
    for (int64_t i = 0; i < kKvGroup; i += kLanes) {
      const Vec steps = hn::Div(hn::LoadU(kFloats, x + i), set(step));
      const auto code = hn::NearestInt(hn::Min(hn::Max(steps, set(-127.0f)), set(127.0f)));
      hn::StoreU(hn::DemoteTo(hn::Rebind<int8_t, Floats>(), code), hn::Rebind<int8_t, Floats>(), codes + i);
    }
  }
};

// The value of largest magnitude, which of two the first, becomes -8: one side has a code more than the other.
struct RoundQ4 {
  using Code = uint8_t;
  HWY_INLINE void operator()(const float* x, uint8_t* codes, uint16_t& scale) const {
    scale = q4_scale(x);
    const float step = f16_to_f32(scale);
    if (step == 0 || step != step) {
      std::fill_n(codes, kKvPairs, uint8_t{0x88});
      return;
    }
    int32_t wide[kKvGroup];
    for (int64_t i = 0; i < kKvGroup; i += kLanes) {
      const Vec steps = hn::Div(hn::LoadU(kFloats, x + i), set(step));
      const auto code = hn::NearestInt(hn::Min(hn::Max(steps, set(-8.0f)), set(7.0f)));
      hn::StoreU(hn::Add(code, hn::Set(kIntegers, 8)), kIntegers, wide + i);
    }
    for (int64_t i = 0; i < kKvPairs; ++i) codes[i] = static_cast<uint8_t>(wide[i] | wide[i + kKvPairs] << 4);
  }
};

// Where one token's keys or values of one head go: element i at i * stride codes, group g's scale at g * scale_stride
// scales.
struct Place {
  std::byte* codes;
  int64_t stride;
  std::byte* scales;
  int64_t scale_stride;
};

template <class T>
HWY_INLINE void put(std::byte* at, int64_t index, T value) {
  std::memcpy(at + index * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

template <class Round>
HWY_INLINE void store_head(const float* x, int64_t dim, const Place& to) {
  using Code = typename Round::Code;
  constexpr bool kPairs = std::is_same_v<Round, RoundQ4>;
  for (int64_t begin = 0; begin < dim; begin += kKvGroup) {
    const int64_t count = std::min(kKvGroup, dim - begin);
    float group[kKvGroup] = {};
    if (count < kKvGroup) std::copy_n(x + begin, count, group);
    Code codes[kKvGroup];
    uint16_t scale = 0;
    Round{}(count < kKvGroup ? group : x + begin, codes, scale);
    if constexpr (sizeof(Code) == 1) put(to.scales, begin / kKvGroup * to.scale_stride, scale);
    const int64_t first = kPairs ? begin / 2 : begin, n = kPairs ? kKvPairs : count;
    if (to.stride == 1)
      std::memcpy(to.codes + first * static_cast<int64_t>(sizeof(Code)), codes, static_cast<size_t>(n) * sizeof(Code));
    else
      for (int64_t i = 0; i < n; ++i) put(to.codes, (first + i) * to.stride, codes[i]);
  }
}

HWY_INLINE void store_rotated(const float* x, int64_t dim, const Place& to) {
  alignas(64) float rotated[kMostRotated];
  for (int64_t begin = 0; begin < dim; begin += kMostRotated) {
    const int64_t n = std::min(kMostRotated, dim - begin);
    std::copy_n(x + begin, n, rotated);
    hadamard(rotated, n, hadamard_size(dim));
    store_head<RoundQ4>(rotated, n,
                        {to.codes + begin / 2 * to.stride, to.stride,
                         to.scales + begin / kKvGroup * to.scale_stride * 2, to.scale_stride});
  }
}

template <class Round>
HWY_INLINE void store_heads(const KvShape& kv, const KvLayout& layout, std::byte* block, int64_t slot, const float* k,
                            const float* v) {
  for (int64_t h = 0; h < kv.kv_heads; ++h, k += kv.head_dim, v += kv.head_dim, block += layout.head_bytes) {
    const Place keys{block + slot * layout.element, kKvBlock, block + layout.k_scales + slot * 2, kKvBlock};
    if constexpr (std::is_same_v<Round, RoundQ4>)
      store_rotated(k, kv.head_dim, keys);
    else
      store_head<Round>(k, kv.head_dim, keys);
    store_head<Round>(v, kv.head_dim,
                      {block + layout.v + slot * layout.codes * layout.element, 1,
                       block + layout.v_scales + slot * layout.groups * 2, 1});
  }
}

// One token's keys and values of all heads into its slot of a block.
void store_token(const KvShape& kv, const KvLayout& layout, std::byte* block, int64_t slot, const float* k,
                 const float* v) {
  switch (kv.type) {
    case KvType::f32:
      return store_heads<RoundF32>(kv, layout, block, slot, k, v);
    case KvType::f16:
      return store_heads<RoundF16>(kv, layout, block, slot, k, v);
    case KvType::bf16:
      return store_heads<RoundBf16>(kv, layout, block, slot, k, v);
    case KvType::q8:
      return store_heads<RoundQ8>(kv, layout, block, slot, k, v);
    case KvType::q4:
      return store_heads<RoundQ4>(kv, layout, block, slot, k, v);
  }
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {

HWY_EXPORT(store_token);

void store_kv(const KvShape& kv, std::byte* pool, const float* k, int64_t ldk, const float* v, int64_t ldv,
              std::span<const AttendSequence> sequences, ThreadPool& pool_threads) noexcept {
  const KvLayout layout = kv_layout(kv);
  for (const AttendSequence& s : sequences)
    pool_threads.parallel_for(s.row_count, kKvBlock, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t position = s.position + r, row = s.row_begin + r;
        std::byte* block =
            pool + static_cast<uint64_t>(s.blocks[position / kKvBlock % s.block_count]) * kv_block_stride(kv);
        HWY_DYNAMIC_DISPATCH(store_token)(kv, layout, block, position % kKvBlock, k + row * ldk, v + row * ldv);
      }
    });
}

}  // namespace tenon::cpu
#endif  // HWY_ONCE
