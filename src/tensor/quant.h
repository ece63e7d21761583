// Decoding of every float and block-quantised type to float32: the definition all fast kernels are compared with.
// Bit-equal to ggml's C code (multiplications in float32 in its order, nothing fused).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/dtype.h"

namespace tenon {

// Decodes `n` elements (a multiple of the block) at `src` (no alignment needed) to `dst`. Throws nothing:
// is_float(dtype) must hold.
void decode(DType dtype, const std::byte* src, float* dst, int64_t n) noexcept;

// Types that --weights names: f32, f16, bf16, q8 (q8_0), q5 (q5_1), q4 (q4_1), q8_0, q5_0, q5_1, q4_0, q4_1.
std::optional<DType> load_precision(std::string_view name);
constexpr std::string_view kLoadPrecisions = "f32, f16, bf16, q8, q5, q4, q8_0, q5_1, q5_0, q4_1, q4_0";

// Encodes `n` floats (a multiple of the block) to one of these; f16 and bf16 round to nearest even.
void encode(DType dtype, const float* src, std::byte* dst, int64_t n) noexcept;

}  // namespace tenon
