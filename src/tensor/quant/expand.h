// The common form of every block type: integer codes and, per group of consecutive elements, a scale and perhaps a
// minimum: value = scale * code + minimum (two roundings; types without a minimum have one). decode() and the integer
// kernels share it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace tenon::quant {

constexpr int kMaxBlock = 256;

struct Expanded {
  alignas(64) int8_t codes[kMaxBlock];
  float scale[kMaxBlock / 16];
  float minimum[kMaxBlock / 16];  // only where has_minimum
};

struct BlockForm {
  int group;  // elements per scale: 16 or 32
  bool has_minimum;
  void (*expand)(const std::byte* block, Expanded& out) noexcept;
};

// Null for types that are no blocks.
const BlockForm* block_form(DType dtype);

// ggml's signed 4-bit codebooks.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kE2M1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace tenon::quant
