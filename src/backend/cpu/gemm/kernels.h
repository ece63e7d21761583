// The inner loops of linear(), one table per ISA level. Lanes are outputs: a tile is 32 rows of the weight, k by k.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace tenon::cpu {

constexpr int kTileRows = 32;

// 32 weight rows of integer codes over some groups of k. Rows past the weight's end hold zeros.
struct CodeTile {
  int8_t* codes;    // [k / 4][32][4]
  float* scale;     // [groups][32]
  float* minimum;   // [groups][32], only where the encoding has minima
};

// Activations rounded to int8 in groups of 32: x ~ scale * code.
struct CodeRows {
  const int8_t* codes;    // [m][in]
  const float* scale;     // [m][in / 32]
  const int32_t* sum;     // [m][in / 16]: sums of the codes of each 16
  int64_t in;
};

struct GemmKernels {
  // n is a multiple of 16; a last group of 16 has a scale of its own.
  void (*quantise)(const float* x, int64_t n, int8_t* codes, float* scale, int32_t* sum) noexcept;
  // `blocks` blocks of up to 32 rows (row r at rows + r * stride) into a tile. False: this type has no vector form here.
  bool (*unpack_codes)(DType dtype, const std::byte* rows, int64_t stride, int row_count, int64_t blocks, const CodeTile& tile) noexcept;
  // y[m][0..row_count) += tile . activations over `groups` groups of `group` elements, of which `k_begin` is the first element.
  void (*dot_codes)(const CodeTile& tile, int group, bool has_minimum, int64_t groups, const CodeRows& x, int64_t k_begin, int64_t m,
                    float* y, int64_t ldy, int row_count) noexcept;
  // k elements of up to 32 rows as f32 [k][32]. False: no vector form for this type.
  bool (*unpack_floats)(DType dtype, const std::byte* rows, int64_t stride, int row_count, int64_t k, float* tile) noexcept;
  // n panel elements (f16 or bf16) to f32.
  void (*widen)(DType dtype, const std::byte* from, float* to, int64_t n) noexcept;
  // y[m][0..row_count) += tile [k][32] . x [m][k], one fused multiply-add per k (the baseline multiplies, then adds).
  void (*dot_floats)(const float* tile, int64_t tile_stride, int64_t k, const float* x, int64_t ldx, int64_t m, float* y, int64_t ldy,
                     int row_count) noexcept;
};

extern const GemmKernels kGemmBaseline;
#if defined(__x86_64__)
extern const GemmKernels kGemmAvx2, kGemmAvx512Vnni;
#endif

const GemmKernels& gemm_kernels();  // for isa()

}  // namespace tenon::cpu
