#include "backend/cpu/linear_bf16.h"

#include "backend/cpu/bf16_panel.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/linear_tile.h"

namespace tenon::cpu {
namespace {

// Elements of k of a tile that is multiplied by many rows: it stays in the first-level cache.
constexpr int64_t kChunk = 256;
// Few rows are multiplied faster than memory brings the next weights: short turns keep it busy.
constexpr int64_t kFewRows = 16, kShortChunk = 128;
constexpr size_t kTileBytes = static_cast<size_t>(kChunk) * kTileRows * 2;

const Bf16Kernel* kernel() {
#if defined(__x86_64__)
  if (isa() == Isa::avx512_bf16) return &kBf16Avx512;
#endif
  return nullptr;
}

int64_t padded(int64_t in) { return (in + 1) / 2 * 2; }
size_t activation_bytes(int64_t m, int64_t in) {
  const int64_t row = 2 * padded(in);
  return round_up(static_cast<size_t>(std::min(m, rows_at_a_time(row)) * row), 64);
}

class Bf16Linear {
 public:
  Bf16Linear(const LinearWeight& w, const LinearCall& call, int threads)
      : weight_(w),
        call_(call),
        kernel_(*kernel()),
        x_(reinterpret_cast<uint16_t*>(call.scratch)),
        workers_(call.scratch + activation_bytes(call.m, w.in)),
        ldx_(padded(w.in)),
        tiles_(ceil_div(w.out, kTileRows)),
        grain_(tiles_per_piece(tiles_, kTileRows * 2 * w.in, call.m, threads)) {}

  void run(ThreadPool& pool) const {
    const int64_t rows = rows_at_a_time(2 * ldx_);
    for (int64_t row = 0; row < call_.m; row += rows) {
      LinearCall part = call_;
      part.m = std::min(rows, call_.m - row);
      part.x += row * call_.ldx;
      part.y += row * call_.ldy;
      pool.parallel_for(part.m, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) kernel_.round(part.x + i * part.ldx, weight_.in, x_ + i * ldx_);
      });
      multiply(part, pool);
    }
  }

 private:
  void multiply(const LinearCall& call, ThreadPool& pool) const {
    pool.parallel_for(tiles_, grain_, [&](int64_t begin, int64_t end, int worker) {
      auto* tile = reinterpret_cast<uint32_t*>(workers_ + static_cast<size_t>(worker) * kTileBytes);
      for (int64_t i = begin; i < end; ++i) {
        TileRows t = weight_.panels ? panel_rows(i, weight_.out) : tile_rows(i, weight_.out);
        if (call.m == 1 && t.whole() && !weight_.panels)
          one_row(t, call, tile);
        else
          many_rows(t, 0, call, tile);
        add_bias(call, t);
      }
    });
  }

  void one_row(const TileRows& t, const LinearCall& call, uint32_t* tile) const {
    float y[kTileRows];
    const int64_t whole = weight_.in / 8 * 8;
    kernel_.dot_row(weight_.rows + t.first_row * weight_.in * 2, weight_.in * 2, whole, x_, y);
    store_lanes(call, t, y);
    many_rows(t, whole, call, tile);
  }

  // From element k_begin on.
  void many_rows(const TileRows& t, int64_t k_begin, const LinearCall& call, uint32_t* tile) const {
    const int64_t step = call.m <= kFewRows ? kShortChunk : kChunk;
    for (int64_t k = k_begin; k < weight_.in; k += step) {
      const int64_t n = std::min(step, weight_.in - k);
      const std::byte* next = weight_.rows;
      int64_t bytes = 0;
      if (weight_.panels) {
        const Bf16Blocks blocks = bf16_blocks(weight_, t.row / kTileRows, k);
        bytes = ceil_div(n, kBf16Step) * kBf16BlockBytes;
        next = blocks.codes + bytes + kBf16Ahead;
        gemm_kernels().unpack_bf16(blocks, ceil_div(n, kBf16Step), tile);
      } else {
        fill(t, k, n, tile);
      }
      kernel_.dot(tile, (n + 1) / 2, x_ + k, ldx_, call.m, outputs(call, t, k), next, bytes);
    }
  }

  void fill(const TileRows& t, int64_t k, int64_t n, uint32_t* tile) const {
    const std::byte* rows = weight_.rows + (t.first_row * weight_.in + k) * 2;
    const int64_t stride = weight_.in * 2, whole = t.whole() ? n / 8 * 8 : 0;
    // Pairs are dwords, and so are the f32 that this brings into a tile's order.
    if (whole > 0) gemm_kernels().floats(DType::f32)->unpack(rows, stride, whole / 2, reinterpret_cast<float*>(tile));
    for (int64_t i = whole; i < n; i += 2)
      for (int r = 0; r < kTileRows; ++r) {
        uint32_t pair = 0;
        if (r < t.count) std::memcpy(&pair, rows + r * stride + 2 * i, i + 1 < n ? 4 : 2);
        tile[i / 2 * kTileRows + r] = pair;
      }
  }

  const LinearWeight& weight_;
  const LinearCall& call_;
  const Bf16Kernel& kernel_;
  uint16_t* x_;  // [rows at a time][ldx_]
  std::byte* workers_;
  int64_t ldx_, tiles_, grain_;
};

}  // namespace

bool uses_bf16_dot(DType dtype, bool in_out, bool f32_activations) {
  return dtype == DType::bf16 && !in_out && !f32_activations && kernel() != nullptr;
}

size_t bf16_scratch_bytes(int64_t m, int64_t in, int threads) {
  return activation_bytes(m, in) + static_cast<size_t>(threads) * kTileBytes;
}

void linear_bf16(const LinearWeight& weight, const LinearCall& call, ThreadPool& pool) noexcept {
  Bf16Linear(weight, call, pool.size()).run(pool);
}

}  // namespace tenon::cpu
