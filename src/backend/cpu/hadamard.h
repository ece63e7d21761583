// The rotation that q4 keys and the queries that meet them go through: it spreads a head's few large values over all of
// its elements, and leaves products as they are (QuaRot, arXiv 2404.00456).
#pragma once
#include <cstdint>

namespace tenon::cpu {

constexpr int64_t kMostRotated = 1024;

// Of a head: the largest power of two that divides its size, up to kMostRotated.
constexpr int64_t hadamard_size(int64_t head_dim) {
  const int64_t n = head_dim & -head_dim;
  return n < kMostRotated ? n : kMostRotated;
}

// x <- H x / sqrt(n) for each `n` elements of `count`; n is a power of two. Halves first: no lane waits for another.
inline void hadamard(float* x, int64_t count, int64_t n) {
  float scale = 1;
  for (int64_t i = n; i > 1; i /= 4) scale *= i >= 4 ? 0.5f : 0.70710678118654752440f;
  for (float* end = x + count; x < end; x += n) {
    for (int64_t half = n / 2; half > 0; half /= 2)
      for (int64_t begin = 0; begin < n; begin += 2 * half)
        for (int64_t i = begin; i < begin + half; ++i) {
          const float a = x[i], b = x[i + half];
          x[i] = a + b;
          x[i + half] = a - b;
        }
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  }
}

}  // namespace tenon::cpu
