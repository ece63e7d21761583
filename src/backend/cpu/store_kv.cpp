#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/attention.h"
#include "backend/cpu/kv_layout.h"
#include "tensor/half.h"

namespace tenon::cpu {
namespace {

template <class T>
void put(std::byte* at, int64_t index, T value) {
  std::memcpy(at + index * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

// codes[i * stride] of n values.
void narrow(KvType type, const float* x, int64_t n, std::byte* codes, int64_t stride) {
  if (type == KvType::f32) {
    for (int64_t i = 0; i < n; ++i) put(codes, i * stride, x[i]);
  } else if (type == KvType::f16) {
    for (int64_t i = 0; i < n; ++i) put(codes, i * stride, f32_to_f16(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) put(codes, i * stride, f32_to_bf16(x[i]));
  }
}

// A group with a value that is not finite gets a NaN for a scale.
uint16_t q8_scale(const float* x, int64_t n) {
  constexpr float kLargestF16 = 65504;
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return f32_to_f16(std::numeric_limits<float>::quiet_NaN());
    largest = std::max(largest, std::fabs(x[i]));
  }
  return f32_to_f16(std::min(largest / 127.0f, kLargestF16));
}

void quantise(const float* x, int64_t n, std::byte* codes, int64_t stride, std::byte* scales, int64_t scale_stride) {
  for (int64_t begin = 0; begin < n; begin += kKvGroup) {
    const int64_t end = std::min(n, begin + kKvGroup);
    const uint16_t f16 = q8_scale(x + begin, end - begin);
    const float scale = f16_to_f32(f16);
    put(scales, begin / kKvGroup * scale_stride, f16);
    for (int64_t i = begin; i < end; ++i)
      put(codes, i * stride,
          static_cast<int8_t>(scale > 0 ? std::clamp(std::nearbyint(x[i] / scale), -127.0f, 127.0f) : 0.0f));
  }
}

void store_token(const KvShape& kv, const KvLayout& layout, std::byte* block, int64_t slot, const float* k,
                 const float* v) {
  for (int64_t h = 0; h < kv.kv_heads; ++h, k += kv.head_dim, v += kv.head_dim, block += layout.head_bytes) {
    std::byte* k_codes = block + slot * layout.element;
    std::byte* v_codes = block + layout.v + slot * kv.head_dim * layout.element;
    if (kv.type == KvType::q8) {
      quantise(k, kv.head_dim, k_codes, kKvBlock, block + layout.k_scales + slot * 2, kKvBlock);
      quantise(v, kv.head_dim, v_codes, 1, block + layout.v_scales + slot * layout.groups * 2, 1);
    } else {
      narrow(kv.type, k, kv.head_dim, k_codes, kKvBlock);
      narrow(kv.type, v, kv.head_dim, v_codes, 1);
    }
  }
}

}  // namespace

void store_kv(const KvShape& kv, std::byte* pool, const float* k, int64_t ldk, const float* v, int64_t ldv,
              std::span<const AttendSequence> sequences, ThreadPool& pool_threads) noexcept {
  const KvLayout layout = kv_layout(kv);
  for (const AttendSequence& s : sequences)
    pool_threads.parallel_for(s.row_count, kKvBlock, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t position = s.position + r, row = s.row_begin + r;
        std::byte* block =
            pool + static_cast<uint64_t>(s.blocks[position / kKvBlock % s.block_count]) * kv_block_bytes(kv);
        store_token(kv, layout, block, position % kKvBlock, k + row * ldk, v + row * ldv);
      }
    });
}

}  // namespace tenon::cpu
