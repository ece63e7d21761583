// Decoding of every float and block-quantised type to float32: the definition all fast kernels are compared with.
// Bit-equal to ggml's C code (multiplications in float32 in its order, nothing fused).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace tenon {

// Decodes `n` elements (a multiple of the block) at `src` (no alignment needed) to `dst`. Throws nothing:
// is_float(dtype) must hold.
void decode(DType dtype, const std::byte* src, float* dst, int64_t n) noexcept;

// Encodes `n` floats to f32, f16 or bf16 (round to nearest even; the only targets `--weights` has so far).
void encode(DType dtype, const float* src, std::byte* dst, int64_t n) noexcept;

}  // namespace tenon
