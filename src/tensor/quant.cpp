#include "tensor/quant.h"

#include <cstring>

#include "tensor/half.h"
#include "tensor/quant/expand.h"

namespace tenon {
namespace {

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void decode_blocks(DType dtype, const std::byte* src, float* dst, int64_t n) noexcept {
  const quant::BlockForm& form = *quant::block_form(dtype);
  const DTypeInfo& d = info(dtype);
  quant::Expanded e;
  for (int64_t i = 0; i < n; i += d.block, src += d.bytes) {
    form.expand(src, e);
    for (int k = 0; k < d.block; ++k) {
      float v = e.scale[k / form.group] * static_cast<float>(e.codes[k]);
      dst[i + k] = form.has_minimum ? v + e.minimum[k / form.group] : v;
    }
  }
}

// `bits` wide codes, packed from the lowest bit up.
void decode_packed(SmallFloat f, int bits, const std::byte* src, float* dst, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    int64_t bit = i * bits;
    uint32_t window = static_cast<uint8_t>(src[bit / 8]);
    if (bit % 8 + bits > 8) window |= static_cast<uint32_t>(static_cast<uint8_t>(src[bit / 8 + 1])) << 8;
    dst[i] = small_to_f32(f, window >> (bit % 8) & ((1u << bits) - 1));
  }
}

}  // namespace

void decode(DType dtype, const std::byte* src, float* dst, int64_t n) noexcept {
  switch (dtype) {
    case DType::f32:
      std::memcpy(dst, src, static_cast<size_t>(n) * 4);
      return;
    case DType::bf16:
      for (int64_t i = 0; i < n; ++i) dst[i] = bf16_to_f32(load<uint16_t>(src + 2 * i));
      return;
    case DType::f16:
      for (int64_t i = 0; i < n; ++i) dst[i] = f16_to_f32(load<uint16_t>(src + 2 * i));
      return;
    case DType::f64:
      for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<float>(load<double>(src + 8 * i));
      return;
    case DType::f8_e8m0:
      for (int64_t i = 0; i < n; ++i) dst[i] = e8m0_to_f32(static_cast<uint8_t>(src[i]));
      return;
    case DType::f8_e4m3:
      decode_packed(kF8E4M3, 8, src, dst, n);
      return;
    case DType::f8_e5m2:
      decode_packed(kF8E5M2, 8, src, dst, n);
      return;
    case DType::f8_e4m3fnuz:
      decode_packed(kF8E4M3Fnuz, 8, src, dst, n);
      return;
    case DType::f8_e5m2fnuz:
      decode_packed(kF8E5M2Fnuz, 8, src, dst, n);
      return;
    case DType::f6_e2m3:
      decode_packed(kF6E2M3, 6, src, dst, n);
      return;
    case DType::f6_e3m2:
      decode_packed(kF6E3M2, 6, src, dst, n);
      return;
    case DType::f4_e2m1:
      decode_packed(kF4E2M1, 4, src, dst, n);
      return;
    default:
      decode_blocks(dtype, src, dst, n);
      return;
  }
}

}  // namespace tenon
