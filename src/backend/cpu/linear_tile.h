// What every way to multiply shares: the rows of a weight in tiles, the tiles over workers, a tile's lanes as outputs.
#pragma once
#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/linear.h"
#include "base/checked.h"

namespace tenon::cpu {

// Rows [first_row, first_row + 32) fill a tile's lanes; `lanes` of them are outputs, y starting at row `row`. The last
// tile of a weight moves up so that it is whole: its lanes repeat rows of the tile before it, with the same bits.
struct TileRows {
  int64_t row, first_row;
  Lanes lanes;
  int count;  // fewer than 32 only where the weight has fewer

  bool whole() const { return count == kTileRows; }
};

inline TileRows tile_rows(int64_t index, int64_t out) {
  int64_t row = index * kTileRows;
  if (row + kTileRows <= out) return {row, row, {0, kTileRows}, kTileRows};
  int left = static_cast<int>(out - row);
  if (out >= kTileRows) return {row, out - kTileRows, {kTileRows - left, left}, kTileRows};
  return {row, row, {0, left}, left};
}

// Panels are padded: there the last tile stays where it is.
inline TileRows panel_rows(int64_t index, int64_t out) {
  int64_t row = index * kTileRows;
  int count = static_cast<int>(std::min<int64_t>(kTileRows, out - row));
  return {row, row, {0, count}, count};
}

// Bytes of weight that are worth another visit to the shared counter of a parallel loop.
constexpr int64_t kPieceBytes = 64 << 10;

// Tiles a worker takes at a time: few enough that the last ones spread over all workers.
inline int64_t tiles_per_piece(int64_t tiles, int64_t tile_bytes, int64_t m, int threads) {
  int64_t most = std::max<int64_t>(1, tiles / (8 * threads));
  return std::clamp<int64_t>(kPieceBytes / std::max<int64_t>(1, tile_bytes * m), 1, most);
}

// Rows of activations, `row_bytes` long as they are multiplied, that stay in the second-level cache while all tiles
// pass by.
inline int64_t rows_at_a_time(int64_t row_bytes) {
  constexpr int64_t kCachedBytes = 1 << 20;
  return std::max<int64_t>(48, kCachedBytes / row_bytes / 48 * 48);
}

inline Outputs outputs(const LinearCall& call, const TileRows& t, int64_t k) {
  return {call.y + t.row, call.ldy, t.lanes, k > 0};
}

// y: [m][32], of which the tile's lanes are outputs.
inline void store_lanes(const LinearCall& call, const TileRows& t, const float* y) {
  for (int64_t i = 0; i < call.m; ++i)
    std::memcpy(call.y + i * call.ldy + t.row, y + i * kTileRows + t.lanes.first,
                static_cast<size_t>(t.lanes.count) * 4);
}

inline void add_bias(const LinearCall& call, const TileRows& t) {
  if (!call.bias) return;
  for (int64_t i = 0; i < call.m; ++i)
    for (int64_t r = t.row; r < t.row + t.lanes.count; ++r) call.y[i * call.ldy + r] += call.bias[r];
}

}  // namespace tenon::cpu
