#include "backend/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/isa.h"
#include "base/checked.h"
#include "tensor/quant.h"
#include "tensor/quant/expand.h"

namespace tenon::cpu {

const GemmKernels& gemm_kernels() {
#if defined(__x86_64__)
  if (isa() == Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return kGemmAvx512Vnni;
  // Without VNNI the 512-bit level has nothing that AVX2 lacks but width, and the same bits.
  if (isa() >= Isa::avx2) return kGemmAvx2;
#endif
  return kGemmBaseline;
}

namespace {

// Elements of k unpacked at a time. Few rows of x: the tile stays in L1; many: in L2, and is paid for once per block of rows.
constexpr int64_t kShortChunk = 512, kCodeChunk = 2048, kFloatChunk = 512;
constexpr int64_t kFewRows = 8;

bool uses_codes(DType dtype, bool f32_activations) { return !f32_activations && quant::block_form(dtype) != nullptr; }

int64_t code_chunk(int64_t m, int64_t in) { return std::min(m <= kFewRows ? kShortChunk : kCodeChunk, in); }

struct TileSizes {
  size_t codes, scale;
};
TileSizes tile_sizes(int64_t chunk) {
  return {round_up(static_cast<size_t>(chunk) * kTileRows, 64), round_up(static_cast<size_t>(chunk) / 16 * kTileRows * 4, 64)};
}

size_t worker_bytes(DType dtype, int64_t in, bool f32_activations) {
  // Decoding a row's chunk of floats goes through a row buffer; both uses share the space.
  if (!uses_codes(dtype, f32_activations)) return static_cast<size_t>(kFloatChunk) * (kTileRows + 1) * 4;
  TileSizes s = tile_sizes(std::min(kCodeChunk, in));
  return s.codes + 2 * s.scale;
}

struct ActivationSizes {
  size_t codes, scale, sum;
};
ActivationSizes activation_sizes(int64_t m, int64_t in) {
  auto rows = static_cast<size_t>(m), n = static_cast<size_t>(in);
  return {round_up(rows * n, 64), round_up(rows * ((n + 31) / 32) * 4, 64), round_up(rows * (n / 16) * 4, 64)};
}

void start_rows(const LinearCall& call, int64_t row, int row_count) {
  for (int64_t i = 0; i < call.m; ++i) std::memset(call.y + i * call.ldy + row, 0, static_cast<size_t>(row_count) * 4);
}

void add_bias(const LinearCall& call, int64_t row, int row_count) {
  if (!call.bias) return;
  for (int64_t i = 0; i < call.m; ++i)
    for (int r = 0; r < row_count; ++r) call.y[i * call.ldy + row + r] += call.bias[row + r];
}

// ---- integer codes --------------------------------------------------------------------------------------------------------------

// Any block type, one block of one row at a time.
void expand_tile(const quant::BlockForm& form, int block, int block_bytes, const std::byte* rows, int64_t stride, int row_count,
                 int64_t blocks, const CodeTile& tile) {
  quant::Expanded e;
  if (row_count < kTileRows) {
    std::memset(tile.codes, 0, static_cast<size_t>(blocks * block) * kTileRows);
    std::memset(tile.scale, 0, static_cast<size_t>(blocks * block / form.group) * kTileRows * 4);
    std::memset(tile.minimum, 0, static_cast<size_t>(blocks * block / form.group) * kTileRows * 4);
  }
  for (int r = 0; r < row_count; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      form.expand(rows + r * stride + b * block_bytes, e);
      for (int k4 = 0; k4 < block / 4; ++k4) std::memcpy(tile.codes + ((b * block / 4 + k4) * kTileRows + r) * 4, e.codes + 4 * k4, 4);
      for (int g = 0; g < block / form.group; ++g) {
        int64_t at = (b * block / form.group + g) * kTileRows + r;
        tile.scale[at] = e.scale[g];
        if (form.has_minimum) tile.minimum[at] = e.minimum[g];
      }
    }
}

void linear_codes(const LinearWeight& w, const LinearCall& call, ThreadPool& pool) noexcept {
  const GemmKernels& kernels = gemm_kernels();
  const quant::BlockForm& form = *quant::block_form(w.dtype);
  const DTypeInfo& d = info(w.dtype);
  ActivationSizes sizes = activation_sizes(call.m, w.in);
  auto* codes = reinterpret_cast<int8_t*>(call.scratch);
  auto* scale = reinterpret_cast<float*>(call.scratch + sizes.codes);
  auto* sum = reinterpret_cast<int32_t*>(call.scratch + sizes.codes + sizes.scale);
  std::byte* workers = call.scratch + sizes.codes + sizes.scale + sizes.sum;
  pool.parallel_for(call.m, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      kernels.quantise(call.x + i * call.ldx, w.in, codes + i * w.in, scale + i * ((w.in + 31) / 32), sum + i * (w.in / 16));
  });

  const CodeRows x{codes, scale, sum, w.in};
  const int64_t chunk = std::max<int64_t>(d.block, code_chunk(call.m, w.in) / d.block * d.block);
  const int64_t stride = w.in / d.block * d.bytes, tiles = ceil_div(w.out, kTileRows);
  const size_t per_worker = round_up(worker_bytes(w.dtype, w.in, false), 64);
  pool.parallel_for(tiles, 1, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = workers + static_cast<size_t>(worker) * per_worker;
    TileSizes t = tile_sizes(std::min(kCodeChunk, w.in));
    CodeTile tile{reinterpret_cast<int8_t*>(memory), reinterpret_cast<float*>(memory + t.codes), reinterpret_cast<float*>(memory + t.codes + t.scale)};
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = i * kTileRows;
      int row_count = static_cast<int>(std::min<int64_t>(kTileRows, w.out - row));
      start_rows(call, row, row_count);
      for (int64_t k = 0; k < w.in; k += chunk) {
        int64_t blocks = std::min(chunk, w.in - k) / d.block;
        const std::byte* from = w.rows + row * stride + k / d.block * d.bytes;
        if (!kernels.unpack_codes(w.dtype, from, stride, row_count, blocks, tile))
          expand_tile(form, d.block, d.bytes, from, stride, row_count, blocks, tile);
        kernels.dot_codes(tile, form.group, form.has_minimum, blocks * d.block / form.group, x, k, call.m, call.y + row, call.ldy, row_count);
      }
      add_bias(call, row, row_count);
    }
  });
}

// ---- floats -------------------------------------------------------------------------------------------------------------------

void decode_tile(const LinearWeight& w, int64_t row, int row_count, int64_t k, int64_t n, float* tile, float* line) {
  const DTypeInfo& d = info(w.dtype);
  if (row_count < kTileRows) std::memset(tile, 0, static_cast<size_t>(n) * kTileRows * 4);
  // Sub-byte elements of a row need not start at a byte: such rows are decoded from the block that holds them.
  for (int r = 0; r < row_count; ++r) {
    int64_t element = (row + r) * w.in + k, skip = element % d.block;
    int64_t whole = ceil_div(skip + n, d.block) * d.block;
    if (skip == 0 && whole == n) {
      decode(w.dtype, w.rows + element / d.block * d.bytes, line, n);
      for (int64_t i = 0; i < n; ++i) tile[i * kTileRows + r] = line[i];
    } else {
      float block[quant::kMaxBlock];
      for (int64_t i = -skip; i < n; i += d.block) {
        decode(w.dtype, w.rows + (element + i) / d.block * d.bytes, block, d.block);
        for (int64_t j = std::max<int64_t>(0, -i); j < d.block && i + j < n; ++j) tile[(i + j) * kTileRows + r] = block[j];
      }
    }
  }
}

void decode_columns(const LinearWeight& w, int64_t row, int row_count, int64_t k, int64_t n, float* tile) {
  const DTypeInfo& d = info(w.dtype);
  if (row_count < kTileRows) std::memset(tile, 0, static_cast<size_t>(n) * kTileRows * 4);
  for (int64_t i = 0; i < n; ++i) decode(w.dtype, w.rows + ((k + i) * w.out + row) * d.bytes, tile + i * kTileRows, row_count);
}

void linear_floats(const LinearWeight& w, const LinearCall& call, ThreadPool& pool) noexcept {
  const GemmKernels& kernels = gemm_kernels();
  const DTypeInfo& d = info(w.dtype);
  const int64_t tiles = ceil_div(w.out, kTileRows);
  const size_t per_worker = round_up(worker_bytes(w.dtype, w.in, true), 64);
  const int64_t stride = w.in * d.bytes / d.block;
  pool.parallel_for(tiles, 1, [&](int64_t begin, int64_t end, int worker) {
    auto* tile = reinterpret_cast<float*>(call.scratch + static_cast<size_t>(worker) * per_worker);
    float* line = tile + kFloatChunk * kTileRows;
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = i * kTileRows;
      int row_count = static_cast<int>(std::min<int64_t>(kTileRows, w.out - row));
      start_rows(call, row, row_count);
      for (int64_t k = 0; k < w.in; k += kFloatChunk) {
        int64_t n = std::min(kFloatChunk, w.in - k);
        const float* values = tile;
        if (w.panels) {
          const std::byte* panel = w.panels + (row * w.in + k * kTileRows) * d.bytes;
          if (w.dtype == DType::f32) values = reinterpret_cast<const float*>(panel);
          else kernels.widen(w.dtype, panel, tile, n * kTileRows);
        } else if (w.in_out) {
          decode_columns(w, row, row_count, k, n, tile);
        } else if (d.block > 1 || !kernels.unpack_floats(w.dtype, w.rows + row * stride + k * d.bytes, stride, row_count, n, tile)) {
          decode_tile(w, row, row_count, k, n, tile, line);
        }
        kernels.dot_floats(values, kTileRows, n, call.x + k, call.ldx, call.m, call.y + row, call.ldy, row_count);
      }
      add_bias(call, row, row_count);
    }
  });
}

}  // namespace

size_t linear_scratch_bytes(DType dtype, int64_t m, int64_t in, int threads, bool f32_activations) {
  size_t workers = round_up(worker_bytes(dtype, in, f32_activations), 64) * static_cast<size_t>(threads);
  if (!uses_codes(dtype, f32_activations)) return workers;
  ActivationSizes s = activation_sizes(m, in);
  return s.codes + s.scale + s.sum + workers;
}

void linear(const LinearWeight& weight, const LinearCall& call, ThreadPool& pool) noexcept {
  if (call.m == 0) return;
  uses_codes(weight.dtype, call.f32_activations) ? linear_codes(weight, call, pool) : linear_floats(weight, call, pool);
}

uint64_t panel_bytes(DType dtype, int64_t out, int64_t in) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return 0;
  return static_cast<uint64_t>(ceil_div(out, kTileRows) * kTileRows * in) * static_cast<uint64_t>(info(dtype).bytes);
}

void pack(const LinearWeight& w, std::byte* panels, ThreadPool& pool) noexcept {
  const auto size = static_cast<size_t>(info(w.dtype).bytes);
  pool.parallel_for(ceil_div(w.out, kTileRows), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* panel = panels + static_cast<size_t>(i * kTileRows * w.in) * size;
      for (int r = 0; r < kTileRows; ++r) {
        int64_t row = i * kTileRows + r;
        for (int64_t k = 0; k < w.in; ++k) {
          std::byte* to = panel + static_cast<size_t>(k * kTileRows + r) * size;
          if (row < w.out) std::memcpy(to, w.rows + static_cast<size_t>(row * w.in + k) * size, size);
          else std::memset(to, 0, size);
        }
      }
    }
  });
}

}  // namespace tenon::cpu
