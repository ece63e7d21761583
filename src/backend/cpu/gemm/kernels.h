// The inner loops of linear(), one table per ISA level. Lanes are outputs: a tile is 32 rows of the weight, k by k.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace tenon::cpu {

constexpr int kTileRows = 32, kMostFewRows = 16;

// 32 weight rows of integer codes over some groups of k. A type's codes are stored with an offset that makes them
// unsigned.
struct CodeTile {
  uint8_t* codes;  // [k / 4][32][4]
  float* scale;    // [groups][32]
  float* minimum;  // [groups][32], only where the encoding has minima
};

// Activations rounded to int8 in groups of 32, x ~ scale * code; what follows from them is kept per group of the weight
// (16 or 32).
struct CodeRows {
  int8_t* codes;   // [m][in]
  float* scale;    // [m][groups]
  float* sum;      // [m][groups]: scale * float(sum of the codes), what a minimum is multiplied by
  int32_t* start;  // [m][groups]: -offset * sum of the codes: a dot product with offset codes starts here
  int64_t in, groups;

  CodeRows row(int64_t i) const {
    return {codes + i * in, scale + i * groups, sum + i * groups, start + i * groups, in, groups};
  }
};

// The part of a tile's 32 lanes that are outputs: column 0 is lane `first`.
struct Lanes {
  int first = 0, count = kTileRows;
};

// y[m][lanes], rows ldy floats apart; `add`: it holds the sums over smaller k, else it is written anew.
struct Outputs {
  float* y;
  int64_t ldy;
  Lanes lanes;
  bool add;
};

struct CodeKernel {
  int offset = 0;
  int few_rows = 0;     // up to so many rows a panel is multiplied as it is, more take a tile; at most kMostFewRows
  int panel_bytes = 0;  // of 16 rows of one block in a packed panel; 0: no vector form, the members below dot are null
  // out = or += tile . activations over `groups` groups, of which `first_group` is the first in x.
  void (*dot)(const CodeTile& tile, int64_t groups, const CodeRows& x, int64_t first_group, int64_t m,
              const Outputs& out) noexcept = nullptr;
  // The tile's values, scale * code + minimum as decode() rounds them, as f32 [groups * group][32].
  void (*values)(const CodeTile& tile, int64_t groups, float* out) noexcept = nullptr;

  // `blocks` blocks of 32 rows (row r at rows + r * stride) into a tile.
  void (*unpack)(const std::byte* rows, int64_t stride, int64_t blocks, const CodeTile& tile) noexcept = nullptr;
  // y[0..32) = 32 whole rows . the first row of x, without a tile in between.
  void (*dot_row)(const std::byte* rows, int64_t stride, int64_t blocks, const CodeRows& x,
                  float* y) noexcept = nullptr;
  // 32 whole rows as a panel, block by block: of 16 rows, of the other 16.
  void (*pack)(const std::byte* rows, int64_t stride, int64_t blocks, std::byte* panel) noexcept = nullptr;
  // Like unpack and dot_row; y is [m][32] for m up to few_rows.
  void (*unpack_panel)(const std::byte* panel, int64_t blocks, const CodeTile& tile) noexcept = nullptr;
  void (*dot_panel)(const std::byte* panel, int64_t blocks, const CodeRows& x, int m, float* y) noexcept = nullptr;
};

struct FloatKernel {
  int step;  // unpack and dot_row take multiples of this many k
  void (*unpack)(const std::byte* rows, int64_t stride, int64_t k, float* tile) noexcept;  // 32 rows as f32 [k][32]
  void (*dot_row)(const std::byte* rows, int64_t stride, int64_t k, const float* x,
                  float* y) noexcept;                                       // y[0..32) += rows . x
  void (*widen)(const std::byte* from, int64_t count, float* to) noexcept;  // a multiple of 16
  // A panel is [k][32]; of BF16, once unpack_bf16() has made pairs of it, [k / 2][32][2] with a zero where k is odd.
  void (*unpack_panel)(const std::byte* panel, int64_t k, float* tile) noexcept;  // as f32 [k][32]
  // y [m][32] += panel . x [m][k], m up to few_rows.
  void (*dot_panel)(const std::byte* panel, int64_t k, const float* x, int64_t ldx, int m, float* y) noexcept;
};

// BF16 in 12 bits (backend/cpu/bf16_panel.h), in blocks of 32 k of a tile.
constexpr int64_t kBf16Step = 32, kBf16BlockBytes = kTileRows * kBf16Step * 3 / 2;
constexpr int kBf16Distances = 7;     // below the block's top, from 0 on; the next code stands for 0
constexpr int64_t kBf16Ahead = 4096;  // how far ahead of their use lines of codes are asked for
struct Bf16Block {
  uint8_t top;          // of the exponents without their last bit
  uint16_t exceptions;  // how many it has
  uint32_t first;       // in the list
};
struct Bf16Exception {
  uint16_t at, value;  // its place in the block's part of a tile
};
struct Bf16Blocks {
  const Bf16Block* heads;
  const Bf16Exception* list;
  const std::byte* codes;
};

// The machine's dot product of BF16 pairs (docs/numerics.md). A tile is [k / 2][32] of them.
struct Bf16Kernel {
  void (*round)(const float* x, int64_t n, uint16_t* out) noexcept;  // an odd n is filled up with a zero
  // y[0..32) = 32 rows . x, k a multiple of 8.
  void (*dot_row)(const std::byte* rows, int64_t stride, int64_t k, const uint16_t* x, float* y) noexcept;
  // out = or += tile . x [m][2 * pairs]; meanwhile `bytes` from `next` on are brought nearer.
  void (*dot)(const uint32_t* tile, int64_t pairs, const uint16_t* x, int64_t ldx, int64_t m, const Outputs& out,
              const std::byte* next, int64_t bytes) noexcept;
};

struct GemmKernels {
  int few_rows;  // of floats, as CodeKernel's
  // n (a multiple of 32) activations to one row of codes.
  void (*quantise)(const float* x, int64_t n, int group, int offset, const CodeRows& row) noexcept;
  const CodeKernel& (*codes)(DType dtype) noexcept;    // of any block type
  const FloatKernel* (*floats)(DType dtype) noexcept;  // null: decoded by tensor/quant.h
  // Blocks as pairs of BF16, [k / 2][32].
  void (*unpack_bf16)(const Bf16Blocks& from, int64_t blocks, uint32_t* tile) noexcept;
  // out = or += tile [k][32] (rows of the tile tile_stride floats apart) . x [m][k], one fused multiply-add per k
  // (the baseline multiplies, then adds).
  void (*dot_floats)(const float* tile, int64_t tile_stride, int64_t k, const float* x, int64_t ldx, int64_t m,
                     const Outputs& out) noexcept;
};

extern const GemmKernels kGemmBaseline;
#if defined(__x86_64__)
extern const GemmKernels kGemmAvx2, kGemmAvx512Vnni;
extern const Bf16Kernel kBf16Avx512;
#endif

const GemmKernels& gemm_kernels();  // for isa()

}  // namespace tenon::cpu
