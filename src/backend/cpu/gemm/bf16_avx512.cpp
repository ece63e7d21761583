// AVX-512 BF16: two products a lane and instruction, odd k before even k, denormals as zeros.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "backend/cpu/gemm/kernels.h"

#define TENON_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma"
#include "backend/cpu/target-begin.h"

namespace tenon::cpu {
namespace {

#include "backend/cpu/gemm/unrolled-inl.h"

#include "backend/cpu/gemm/transpose_avx512-inl.h"

constexpr int kMostRows = 12;  // that the registers hold at a time

TENON_INLINE __m512 dot2(__m512 acc, __m512i x, __m512i w) { return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)w); }

TENON_INLINE __m512i pair_of(const uint16_t* x) {
  int32_t two;
  std::memcpy(&two, x, 4);
  return _mm512_set1_epi32(two);
}

void round(const float* x, int64_t n, uint16_t* out) noexcept {
  for (int64_t i = 0; i < n; i += 16) {
    const auto some = static_cast<__mmask16>(n - i < 16 ? (1u << (n - i)) - 1 : 0xFFFFu);
    const auto pairs = static_cast<__mmask16>(n - i < 16 ? (1u << (n - i + 1) / 2 * 2) - 1 : 0xFFFFu);
    __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));
    _mm256_mask_storeu_epi16(out + i, pairs, rounded);
  }
}

void dot_row(const std::byte* rows, int64_t stride, int64_t k, const uint16_t* x, float* y) noexcept {
  // Both halves together: one chain of sums would wait for itself.
  __m512 acc[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  const std::byte* next = rows + 32 * stride;
  for (int64_t i = 0; i < k; i += 8) {
    unrolled<8>([&](int j) TENON_LAMBDA { __builtin_prefetch(next + 64 * i + 64 * j, 0, 2); });
    __m512i v[2][4];
    unrolled<2>([&](int half) TENON_LAMBDA { transpose_rows(rows + 16 * half * stride + 2 * i, stride, v[half]); });
    unrolled<4>([&](int j) TENON_LAMBDA {
      unrolled<2>([&](int half) TENON_LAMBDA { acc[half] = dot2(acc[half], pair_of(x + i + 2 * j), v[half][j]); });
    });
  }
  _mm512_storeu_ps(y, acc[0]);
  _mm512_storeu_ps(y + 16, acc[1]);
}

// The lanes of `half` that are outputs. Whole vectors are no matter of masks: a masked store would not be forwarded to
// the load that follows it.
TENON_INLINE __mmask16 mask_of(const Lanes& lanes, int half) {
  const uint64_t all = ((uint64_t{1} << lanes.count) - 1) << lanes.first;
  return static_cast<__mmask16>(all >> 16 * half);
}
TENON_INLINE __m512 load(const Outputs& o, int64_t row, int half) {
  if (!o.add) return _mm512_setzero_ps();
  const float* y = o.y + row * o.ldy + 16 * half;
  if (o.lanes.count == kTileRows) return _mm512_loadu_ps(y);
  return _mm512_maskz_loadu_ps(mask_of(o.lanes, half), y - o.lanes.first);
}
TENON_INLINE void store(const Outputs& o, int64_t row, int half, __m512 v) {
  float* y = o.y + row * o.ldy + 16 * half;
  if (o.lanes.count == kTileRows)
    _mm512_storeu_ps(y, v);
  else
    _mm512_mask_storeu_ps(y - o.lanes.first, mask_of(o.lanes, half), v);
}

// Lines of `next` are asked for meanwhile, `step` bytes a pair of k.
template <int kRows>
void dot_rows(const uint32_t* tile, int64_t pairs, const uint16_t* x, int64_t ldx, int64_t row, const Outputs& out,
              const std::byte* next, int64_t step) {
  __m512 acc[kRows][2];
  unrolled<kRows>([&](int r) TENON_LAMBDA {
    unrolled<2>([&](int half) TENON_LAMBDA { acc[r][half] = load(out, row + r, half); });
  });
  const uint16_t* a = x + row * ldx;
  for (int64_t i = 0; i < pairs; ++i, tile += kTileRows, next += step) {
    __builtin_prefetch(next, 0, 2);
    __builtin_prefetch(next + 64, 0, 2);
    const __m512i w[2] = {_mm512_loadu_si512(tile), _mm512_loadu_si512(tile + 16)};
    unrolled<kRows>([&](int r) TENON_LAMBDA {
      __m512i two = pair_of(a + r * ldx + 2 * i);
      unrolled<2>([&](int half) TENON_LAMBDA { acc[r][half] = dot2(acc[r][half], two, w[half]); });
    });
  }
  unrolled<kRows>([&](int r) TENON_LAMBDA {
    unrolled<2>([&](int half) TENON_LAMBDA { store(out, row + r, half, acc[r][half]); });
  });
}

template <int kRows = kMostRows>
void dot_some(int64_t rows, const uint32_t* tile, int64_t pairs, const uint16_t* x, int64_t ldx, int64_t row,
              const Outputs& out, const std::byte* next, int64_t step) {
  if constexpr (kRows > 1)
    if (rows < kRows) return dot_some<kRows - 1>(rows, tile, pairs, x, ldx, row, out, next, step);
  dot_rows<kRows>(tile, pairs, x, ldx, row, out, next, step);
}

void dot(const uint32_t* tile, int64_t pairs, const uint16_t* x, int64_t ldx, int64_t m, const Outputs& out,
         const std::byte* next, int64_t bytes) noexcept {
  const int64_t groups = (m + kMostRows - 1) / kMostRows, step = bytes / (groups * pairs);
  for (int64_t g = 0, row = 0; g < groups; ++g) {
    const int64_t rows = (m - row + groups - g - 1) / (groups - g);  // about as many in each
    dot_some(rows, tile, pairs, x, ldx, row, out, next + g * pairs * step, step);
    row += rows;
  }
}

}  // namespace

extern const Bf16Kernel kBf16Avx512{round, dot_row, dot};

}  // namespace tenon::cpu

#include "backend/cpu/target-end.h"
#endif
