// Row kernels in vector code: norms, rope, activations. Rows are independent; a row's order of sums is fixed by the ISA
// level. x and y may be the same memory. Callers split rows over threads.
#pragma once
#include <cstdint>

#include "graph/ops/activation.h"

namespace tenon::cpu {

using graph::Activation;

// y = x / sqrt(mean(x^2) + eps) * (weight + offset); weight may be null (1). offset is 1 where norms are stored minus
// one.
void rms_norm(const float* x, const float* weight, float offset, float eps, float* y, int64_t n) noexcept;
// y = (x - mean) / sqrt(var + eps) * weight + bias; weight and bias may be null.
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y, int64_t n) noexcept;
// Rotates the first `rotary` of each head's head_dim values by the row's table: cos[rotary/2] then sin[rotary/2].
// interleaved: pairs (2i, 2i+1), else halves (i, i + rotary/2).
void rope(const float* x, const float* table, bool interleaved, int64_t rotary, int64_t heads, int64_t head_dim,
          float* y) noexcept;
void activate(Activation f, const float* x, float* y, int64_t n) noexcept;
void gated(Activation f, const float* gate, const float* up, float* y, int64_t n) noexcept;  // f(gate) * up
void add(const float* a, const float* b, float* y, int64_t n) noexcept;
void multiply(const float* a, const float* b, float* y, int64_t n) noexcept;
void scale(const float* x, float factor, float* y, int64_t n) noexcept;
void softcap(const float* x, float cap, float* y, int64_t n) noexcept;  // cap * tanh(x / cap)
// y += x * a^T * b, a [rank, in], b [rank, out].
void add_low_rank(const float* x, const float* a, const float* b, int64_t rank, int64_t in, int64_t out,
                  float* y) noexcept;
int64_t argmax(const float* x, int64_t n) noexcept;  // ties: the lowest index; NaN never wins

}  // namespace tenon::cpu
