// y[m, out] = x[m, in] * W^T (+ bias) for every weight encoding. The order of every sum is fixed by the encoding and
// the ISA level alone (docs/numerics.md): m, threads and packing never change a bit.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/dtype.h"
#include "tensor/matrix_reader.h"

namespace tenon::cpu {

// A matrix as it lies in the file, and optionally its packed panels.
struct LinearWeight {
  DType dtype = DType::f32;
  int64_t out = 0, in = 0;
  const std::byte* rows = nullptr;    // row-major [out, in], no padding, any alignment; null when only panels are kept
  const std::byte* panels = nullptr;  // pack()'s layout, 64-byte aligned; null: in place
  bool in_out = false;                // rows are [in, out] instead (GPT-2's Conv1D); float types only, never packed
  const MatrixReader* reader = nullptr;  // instead of rows, with f32 as dtype; never packed
};

struct LinearCall {
  const float* x = nullptr;  // [m, in], row stride ldx floats
  int64_t m = 0, ldx = 0;
  float* y = nullptr;  // [m, out], row stride ldy floats
  int64_t ldy = 0;
  const float* bias = nullptr;   // [out] or null
  std::byte* scratch = nullptr;  // scratch_bytes() long, 64-byte aligned
  bool f32_activations = false;  // --compute f32: weights decoded to f32, activations not rounded
};

// Bytes of scratch one call needs with up to `m` rows on `threads` threads.
size_t linear_scratch_bytes(DType dtype, int64_t m, int64_t in, int threads, bool f32_activations);

void linear(const LinearWeight& weight, const LinearCall& call, ThreadPool& pool) noexcept;

// Packed panels: 0 when the encoding has no packed form yet.
uint64_t panel_bytes(DType dtype, int64_t out, int64_t in);
// False: this weight's numbers do not fit into them, it stays in place.
bool pack(const LinearWeight& weight, std::byte* panels, ThreadPool& pool) noexcept;

// The same for rows that are nowhere yet; not of BF16.
void pack(DType dtype, int64_t out, int64_t in, MakeRows rows, std::byte* panels, ThreadPool& pool);

}  // namespace tenon::cpu
