// BF16 weights as machines with a BF16 dot product multiply them: activations rounded to BF16, two k a step.
#pragma once
#include "backend/cpu/linear.h"

namespace tenon::cpu {

// Whether isa() multiplies weights of this type so.
bool uses_bf16_dot(DType dtype, bool in_out, bool f32_activations);
size_t bf16_scratch_bytes(int64_t m, int64_t in, int threads);
void linear_bf16(const LinearWeight& weight, const LinearCall& call, ThreadPool& pool) noexcept;

}  // namespace tenon::cpu
