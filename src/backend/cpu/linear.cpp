#include "backend/cpu/linear.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/bf16_panel.h"
#include "backend/cpu/gemm/kernels.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/linear_bf16.h"
#include "backend/cpu/linear_tile.h"
#include "base/checked.h"
#include "tensor/quant.h"
#include "tensor/quant/expand.h"

namespace tenon::cpu {

const GemmKernels& gemm_kernels() {
#if defined(__x86_64__)
  if (isa() >= Isa::avx512 && __builtin_cpu_supports("avx512vnni")) return kGemmAvx512Vnni;
  // Without VNNI the 512-bit level has nothing that AVX2 lacks but width, and the same bits.
  if (isa() >= Isa::avx2) return kGemmAvx2;
#endif
  return kGemmBaseline;
}

namespace {

// Elements of k of a tile: with its scales and the activations of a block of rows it stays in the first-level cache.
constexpr int64_t kCodeChunk = 768, kFloatChunk = 256;

bool uses_codes(DType dtype, bool f32_activations) { return !f32_activations && quant::block_form(dtype) != nullptr; }

// ---- integer codes --------------------------------------------------------------------------------------------------

struct TileSizes {
  size_t codes, scale;
};
TileSizes tile_sizes(int64_t in, int group) {
  // Blocks have at most kMaxBlock elements, so that one always fits.
  static_assert(kCodeChunk >= quant::kMaxBlock);
  auto chunk = static_cast<size_t>(std::min(kCodeChunk, in));
  return {chunk * kTileRows, chunk / static_cast<size_t>(group) * kTileRows * 4};
}

size_t code_worker_bytes(int64_t in, int group) {
  TileSizes s = tile_sizes(in, group);
  return round_up(s.codes + 2 * s.scale, 64);
}

struct ActivationSizes {
  size_t codes, groups;  // bytes of the codes, of one of the three arrays of a number a group
  size_t all() const { return codes + 3 * groups; }
};
ActivationSizes activation_sizes(int64_t m, int64_t in, int group) {
  auto rows = static_cast<size_t>(m), n = static_cast<size_t>(in);
  return {round_up(rows * n, 64), round_up(rows * (n / static_cast<size_t>(group)) * 4, 64)};
}

CodeRows code_rows(std::byte* memory, int64_t m, int64_t in, int group) {
  ActivationSizes s = activation_sizes(m, in, group);
  auto* groups = memory + s.codes;
  return {reinterpret_cast<int8_t*>(memory),
          reinterpret_cast<float*>(groups),
          reinterpret_cast<float*>(groups + s.groups),
          reinterpret_cast<int32_t*>(groups + 2 * s.groups),
          in,
          in / group};
}

// Any block type, one block of one row at a time.
void expand_tile(const quant::BlockForm& form, const DTypeInfo& d, int offset, const std::byte* rows, int64_t stride,
                 int row_count, int64_t blocks, const CodeTile& tile) {
  quant::Expanded e;
  const int groups = d.block / form.group;
  if (row_count < kTileRows) {
    std::memset(tile.codes, 0, static_cast<size_t>(blocks * d.block) * kTileRows);
    std::memset(tile.scale, 0, static_cast<size_t>(blocks * groups) * kTileRows * 4);
    if (form.has_minimum) std::memset(tile.minimum, 0, static_cast<size_t>(blocks * groups) * kTileRows * 4);
  }
  for (int r = 0; r < row_count; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      form.expand(rows + r * stride + b * d.bytes, e);
      for (int i = 0; i < d.block; ++i) e.codes[i] = static_cast<int8_t>(e.codes[i] + offset);  // modulo 256
      for (int k4 = 0; k4 < d.block / 4; ++k4)
        std::memcpy(tile.codes + ((b * d.block / 4 + k4) * kTileRows + r) * 4, e.codes + 4 * k4, 4);
      for (int g = 0; g < groups; ++g) {
        int64_t at = (b * groups + g) * kTileRows + r;
        tile.scale[at] = e.scale[g];
        if (form.has_minimum) tile.minimum[at] = e.minimum[g];
      }
    }
}

class CodeLinear {
 public:
  CodeLinear(const LinearWeight& w, const LinearCall& call, int threads)
      : weight_(w),
        call_(call),
        form_(*quant::block_form(w.dtype)),
        type_(info(w.dtype)),
        kernel_(gemm_kernels().codes(w.dtype)),
        x_(code_rows(call.scratch, call.m, w.in, form_.group)),
        workers_(call.scratch + activation_sizes(call.m, w.in, form_.group).all()),
        stride_(w.in / type_.block * type_.bytes),
        tiles_(ceil_div(w.out, kTileRows)),
        grain_(tiles_per_piece(tiles_, kTileRows * stride_, call.m, threads)),
        sizes_(tile_sizes(w.in, form_.group)),
        worker_bytes_(code_worker_bytes(w.in, form_.group)) {}

  void run(ThreadPool& pool) const {
    pool.parallel_for(call_.m, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        gemm_kernels().quantise(call_.x + i * call_.ldx, weight_.in, form_.group, kernel_.offset, x_.row(i));
    });
    const int64_t rows = rows_at_a_time(weight_.in);
    for (int64_t row = 0; row < call_.m; row += rows) {
      LinearCall part = call_;
      part.m = std::min(rows, call_.m - row);
      part.y += row * call_.ldy;
      multiply(part, x_.row(row), pool);
    }
  }

 private:
  void multiply(const LinearCall& call, const CodeRows& x, ThreadPool& pool) const {
    pool.parallel_for(tiles_, grain_, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) {
        TileRows t = tile_rows(i, weight_.out);
        if (weight_.panels && call.m <= kernel_.few_rows)
          few_rows(t, call, x);
        else if (call.m == 1 && t.whole() && kernel_.dot_row && !weight_.panels)
          one_row(t, call, x);
        else
          many_rows(t, call, x, workers_ + static_cast<size_t>(worker) * worker_bytes_);
        add_bias(call, t);
      }
    });
  }

  void one_row(const TileRows& t, const LinearCall& call, const CodeRows& x) const {
    float y[kTileRows];
    kernel_.dot_row(weight_.rows + t.first_row * stride_, stride_, weight_.in / type_.block, x, y);
    store_lanes(call, t, y);
  }

  const std::byte* panel(const TileRows& t) const {
    return weight_.panels + t.row / kTileRows * (weight_.in / type_.block) * 2 * kernel_.panel_bytes;
  }

  void few_rows(const TileRows& t, const LinearCall& call, const CodeRows& x) const {
    float y[kMostFewRows * kTileRows];
    kernel_.dot_panel(panel(t), weight_.in / type_.block, x, static_cast<int>(call.m), y);
    store_lanes(call, t, y);
  }

  void many_rows(const TileRows& t, const LinearCall& call, const CodeRows& x, std::byte* memory) const {
    CodeTile tile{reinterpret_cast<uint8_t*>(memory), reinterpret_cast<float*>(memory + sizes_.codes),
                  reinterpret_cast<float*>(memory + sizes_.codes + sizes_.scale)};
    const int64_t all = weight_.in / type_.block;
    const int64_t pieces = ceil_div(weight_.in, kCodeChunk / type_.block * type_.block), step = ceil_div(all, pieces);
    for (int64_t block = 0; block < all; block += step) {
      int64_t blocks = std::min(step, all - block);
      const std::byte* from = weight_.rows + t.first_row * stride_ + block * type_.bytes;
      if (weight_.panels)
        kernel_.unpack_panel(panel(t) + block * 2 * kernel_.panel_bytes, blocks, tile);
      else if (t.whole() && kernel_.unpack)
        kernel_.unpack(from, stride_, blocks, tile);
      else
        expand_tile(form_, type_, kernel_.offset, from, stride_, t.count, blocks, tile);
      kernel_.dot(tile, blocks * type_.block / form_.group, x, block * type_.block / form_.group, call.m,
                  outputs(call, t, block));
    }
  }

  const LinearWeight& weight_;
  const LinearCall& call_;
  const quant::BlockForm& form_;
  const DTypeInfo& type_;
  const CodeKernel& kernel_;
  CodeRows x_;
  std::byte* workers_;
  int64_t stride_, tiles_, grain_;
  TileSizes sizes_;
  size_t worker_bytes_;
};

// ---- floats ---------------------------------------------------------------------------------------------------------

// A tile of f32 and, behind it, what its values come from: a row buffer for decoding, the tile as codes or as BF16.
constexpr size_t kFloatTileBytes = static_cast<size_t>(kFloatChunk) * kTileRows * 4;
constexpr size_t kFloatCodeBytes = static_cast<size_t>(kFloatChunk) * kTileRows;
constexpr size_t kFloatScaleBytes = kFloatCodeBytes / 16 * 4;
constexpr size_t kFloatPairBytes = static_cast<size_t>(kFloatChunk) * kTileRows * 2;
constexpr size_t kFloatWorkerBytes =
    kFloatTileBytes + std::max(kFloatCodeBytes + 2 * kFloatScaleBytes, kFloatPairBytes);
// Elements of k that few rows are multiplied by between two looks at memory.
constexpr int64_t kPairChunk = 64;
static_assert(kFloatChunk * 4 <= kFloatCodeBytes && kFloatChunk % quant::kMaxBlock == 0);

class FloatLinear {
 public:
  FloatLinear(const LinearWeight& w, const LinearCall& call, int threads)
      : weight_(w),
        call_(call),
        type_(info(w.dtype)),
        kernels_(gemm_kernels()),
        kernel_(w.reader ? nullptr : kernels_.floats(w.dtype)),
        form_(quant::block_form(w.dtype)),
        panels_(form_ ? nullptr : w.panels),
        stride_(w.in * type_.bytes / type_.block),
        tiles_(ceil_div(w.out, kTileRows)),
        grain_(tiles_per_piece(tiles_, kTileRows * stride_, call.m, threads)) {}

  void run(ThreadPool& pool) const {
    pool.parallel_for(tiles_, grain_, [&](int64_t begin, int64_t end, int worker) {
      auto* tile = reinterpret_cast<float*>(call_.scratch + static_cast<size_t>(worker) * kFloatWorkerBytes);
      for (int64_t i = begin; i < end; ++i) {
        TileRows t = panels_ ? panel_rows(i, weight_.out) : tile_rows(i, weight_.out);
        if (panels_ && call_.m <= kernels_.few_rows)
          few_rows(t, tile);
        else if (call_.m == 1 && kernel_ && !weight_.in_out && t.whole() && !panels_)
          one_row(t, tile);
        else
          many_rows(t, 0, tile);
        add_bias(call_, t);
      }
    });
  }

 private:
  const std::byte* panel(const TileRows& t, int64_t k) const {
    return panels_ + (t.row * weight_.in + k * kTileRows) * type_.bytes;
  }
  const std::byte* rows(const TileRows& t, int64_t k) const {
    return weight_.rows + t.first_row * stride_ + k * type_.bytes;
  }

  // Of a panel of BF16, behind the tile.
  const std::byte* pairs(const TileRows& t, int64_t k, int64_t n, float* tile) const {
    auto* memory = reinterpret_cast<std::byte*>(tile) + kFloatTileBytes;
    kernels_.unpack_bf16(bf16_blocks(weight_, t.row / kTileRows, k), ceil_div(n, kBf16Step),
                         reinterpret_cast<uint32_t*>(memory));
    return memory;
  }

  void few_rows(const TileRows& t, float* tile) const {
    float y[kMostFewRows * kTileRows] = {};
    const auto m = static_cast<int>(call_.m);
    const bool bf16 = weight_.dtype == DType::bf16;
    const int64_t step = bf16 ? kPairChunk : weight_.in;
    for (int64_t k = 0; k < weight_.in; k += step) {
      const int64_t n = std::min(step, weight_.in - k);
      kernel_->dot_panel(bf16 ? pairs(t, k, n, tile) : panel(t, k), n, call_.x + k, call_.ldx, m, y);
    }
    store_lanes(call_, t, y);
  }

  void one_row(const TileRows& t, float* tile) const {
    float y[kTileRows] = {};
    int64_t whole = weight_.in / kernel_->step * kernel_->step;
    kernel_->dot_row(rows(t, 0), stride_, whole, call_.x, y);
    store_lanes(call_, t, y);
    many_rows(t, whole, tile);
  }

  // From element k_begin on.
  void many_rows(const TileRows& t, int64_t k_begin, float* tile) const {
    for (int64_t k = k_begin; k < weight_.in; k += kFloatChunk) {
      int64_t n = std::min(kFloatChunk, weight_.in - k);
      const float* values = tile;
      int64_t tile_stride = kTileRows;
      if (panels_ && weight_.dtype == DType::f32) {
        values = reinterpret_cast<const float*>(panel(t, k));
      } else if (weight_.in_out && weight_.dtype == DType::f32 && t.whole()) {
        values = reinterpret_cast<const float*>(weight_.rows) + k * weight_.out + t.first_row;
        tile_stride = weight_.out;
      } else {
        fill(t, k, n, tile);
      }
      kernels_.dot_floats(values, tile_stride, n, call_.x + k, call_.ldx, call_.m, outputs(call_, t, k));
    }
  }

  void fill(const TileRows& t, int64_t k, int64_t n, float* tile) const {
    if (panels_) {
      kernel_->unpack_panel(weight_.dtype == DType::bf16 ? pairs(t, k, n, tile) : panel(t, k), n, tile);
    } else if (weight_.in_out) {
      decode_columns(t, k, n, tile);
    } else {
      int64_t whole = 0;
      if (kernel_ && t.whole()) {
        whole = n / kernel_->step * kernel_->step;
        kernel_->unpack(rows(t, k), stride_, whole, tile);
      } else if (form_ && t.whole()) {
        whole = n;
        expand(t, k, n, tile);
      }
      if (whole < n) decode_rows(t, k + whole, n - whole, tile + whole * kTileRows, tile + kFloatChunk * kTileRows);
    }
  }

  // Rows of a block type are whole blocks, and so are chunks.
  void expand(const TileRows& t, int64_t k, int64_t n, float* tile) const {
    const CodeKernel& codes = kernels_.codes(weight_.dtype);
    auto* memory = reinterpret_cast<std::byte*>(tile) + kFloatTileBytes;
    auto* scale = memory + kFloatCodeBytes;
    CodeTile from{reinterpret_cast<uint8_t*>(memory), reinterpret_cast<float*>(scale),
                  reinterpret_cast<float*>(scale + kFloatScaleBytes)};
    const int64_t first_block = t.row / kTileRows * (weight_.in / type_.block) + k / type_.block;
    const std::byte* at = weight_.rows + t.first_row * stride_ + k / type_.block * type_.bytes;
    if (weight_.panels)
      codes.unpack_panel(weight_.panels + first_block * 2 * codes.panel_bytes, n / type_.block, from);
    else if (codes.unpack)
      codes.unpack(at, stride_, n / type_.block, from);
    else
      expand_tile(*form_, type_, codes.offset, at, stride_, t.count, n / type_.block, from);
    codes.values(from, n / form_->group, tile);
  }

  void decode_rows(const TileRows& t, int64_t k, int64_t n, float* tile, float* line) const {
    if (!t.whole()) std::memset(tile, 0, static_cast<size_t>(n) * kTileRows * 4);
    for (int r = 0; r < t.count; ++r) {
      if (weight_.reader) {
        weight_.reader->read(t.first_row + r, k, n, line);
        for (int64_t i = 0; i < n; ++i) tile[i * kTileRows + r] = line[i];
        continue;
      }
      int64_t element = (t.first_row + r) * weight_.in + k, skip = element % type_.block;
      if (skip == 0 && n % type_.block == 0) {
        decode(weight_.dtype, weight_.rows + element / type_.block * type_.bytes, line, n);
        for (int64_t i = 0; i < n; ++i) tile[i * kTileRows + r] = line[i];
        continue;
      }
      // Sub-byte elements of a row need not start at a byte: decoded from the blocks that hold them.
      float block[quant::kMaxBlock];
      for (int64_t i = -skip; i < n; i += type_.block) {
        decode(weight_.dtype, weight_.rows + (element + i) / type_.block * type_.bytes, block, type_.block);
        for (int64_t j = std::max<int64_t>(0, -i); j < type_.block && i + j < n; ++j)
          tile[(i + j) * kTileRows + r] = block[j];
      }
    }
  }

  void decode_columns(const TileRows& t, int64_t k, int64_t n, float* tile) const {
    if (!t.whole()) std::memset(tile, 0, static_cast<size_t>(n) * kTileRows * 4);
    for (int64_t i = 0; i < n; ++i) {
      const std::byte* from = weight_.rows + ((k + i) * weight_.out + t.first_row) * type_.bytes;
      if (kernel_ && t.whole())
        kernel_->widen(from, kTileRows, tile + i * kTileRows);
      else
        decode(weight_.dtype, from, tile + i * kTileRows, t.count);
    }
  }

  const LinearWeight& weight_;
  const LinearCall& call_;
  const DTypeInfo& type_;
  const GemmKernels& kernels_;
  const FloatKernel* kernel_;
  const quant::BlockForm* form_;  // null for types that are no blocks
  const std::byte* panels_;       // of floats
  int64_t stride_, tiles_, grain_;
};

template <class Element>
void pack_floats(const std::byte* rows, int64_t in, int count, std::byte* panel) {
  constexpr int64_t size = sizeof(Element);
  for (int64_t k = 0; k < in; ++k)
    for (int r = 0; r < kTileRows; ++r, panel += size) {
      Element e = 0;
      if (r < count) std::memcpy(&e, rows + (r * in + k) * size, sizeof e);
      std::memcpy(panel, &e, sizeof e);
    }
}

TileRows packed_rows(DType dtype, int64_t tile, int64_t out) {
  return quant::block_form(dtype) ? tile_rows(tile, out) : panel_rows(tile, out);
}

// `rows` are packed_rows().
void pack_tile(DType dtype, int64_t tile, int64_t out, int64_t in, const std::byte* rows, std::byte* panels) {
  const DTypeInfo& d = info(dtype);
  const int64_t blocks = in / d.block;
  if (quant::block_form(dtype)) {
    const CodeKernel& kernel = gemm_kernels().codes(dtype);
    kernel.pack(rows, blocks * d.bytes, blocks, panels + tile * 2 * blocks * kernel.panel_bytes);
  } else {
    std::byte* panel = panels + tile * kTileRows * in * d.bytes;
    const int count = packed_rows(dtype, tile, out).count;
    dtype == DType::f16 ? pack_floats<uint16_t>(rows, in, count, panel) : pack_floats<uint32_t>(rows, in, count, panel);
  }
}

}  // namespace

size_t linear_scratch_bytes(DType dtype, int64_t m, int64_t in, int threads, bool f32_activations) {
  auto workers = static_cast<size_t>(threads);
  if (uses_bf16_dot(dtype, false, f32_activations))  // or, where it is stored by columns, as a float
    return std::max(bf16_scratch_bytes(m, in, threads), workers * kFloatWorkerBytes);
  if (!uses_codes(dtype, f32_activations)) return workers * kFloatWorkerBytes;
  int group = quant::block_form(dtype)->group;
  return activation_sizes(m, in, group).all() + workers * code_worker_bytes(in, group);
}

void linear(const LinearWeight& weight, const LinearCall& call, ThreadPool& pool) noexcept {
  if (call.m == 0) return;
  if (uses_codes(weight.dtype, call.f32_activations))
    CodeLinear(weight, call, pool.size()).run(pool);
  else if (uses_bf16_dot(weight.dtype, weight.in_out, call.f32_activations))
    linear_bf16(weight, call, pool);
  else
    FloatLinear(weight, call, pool.size()).run(pool);
}

uint64_t panel_bytes(DType dtype, int64_t out, int64_t in) {
  const DTypeInfo& d = info(dtype);
  if (quant::block_form(dtype)) {
    const int bytes = gemm_kernels().codes(dtype).panel_bytes;
    if (bytes == 0 || out < kTileRows) return 0;
    return static_cast<uint64_t>(ceil_div(out, kTileRows) * 2 * (in / d.block)) * static_cast<uint64_t>(bytes);
  }
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return 0;
  if (dtype == DType::bf16) return bf16_panel_bytes(out, in);
  return static_cast<uint64_t>(ceil_div(out, kTileRows) * kTileRows * in) * static_cast<uint64_t>(d.bytes);
}

bool pack(const LinearWeight& w, std::byte* panels, ThreadPool& pool) noexcept {
  if (w.dtype == DType::bf16) return pack_bf16(w, panels, pool);
  const int64_t stride = w.in / info(w.dtype).block * info(w.dtype).bytes;
  pool.parallel_for(ceil_div(w.out, kTileRows), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      pack_tile(w.dtype, i, w.out, w.in, w.rows + packed_rows(w.dtype, i, w.out).first_row * stride, panels);
  });
  return true;
}

void pack(DType dtype, int64_t out, int64_t in, MakeRows rows, std::byte* panels, ThreadPool& pool) {
  const auto stride = static_cast<size_t>(in / info(dtype).block * info(dtype).bytes);
  pool.parallel_for(ceil_div(out, kTileRows), 4, [&](int64_t begin, int64_t end, int) {
    std::vector<std::byte> made(kTileRows * stride);
    for (int64_t i = begin; i < end; ++i) {
      const TileRows t = packed_rows(dtype, i, out);
      rows(t.first_row, t.count, made.data());
      pack_tile(dtype, i, out, in, made.data(), panels);
    }
  });
}

}  // namespace tenon::cpu
