// A kernel runs one op. Attributes arrive typed; operands are contiguous rows.
#pragma once
#include <cstdint>
#include <span>

#include "backend/step.h"
#include "graph/graph.h"
#include "tensor/matrix_reader.h"
#include "tensor/quant.h"

namespace tenon::backend {

// A value or a weight. Values: `rows` x `features` contiguous elements; weights as they lie in the file.
struct Operand {
  DType dtype = DType::f32;
  std::byte* data = nullptr;
  const std::byte* panels = nullptr;     // a packed weight; data may then be dropped pages
  int64_t rows = 0, features = 0;        // features: elements per row
  int64_t last = 0;                      // size of the last dimension
  const MatrixReader* reader = nullptr;  // reads rows of a matrix that is stored in a form of its own

  float* f32() const { return reinterpret_cast<float*>(data); }
  const int32_t* i32() const { return reinterpret_cast<const int32_t*>(data); }
};

// A row of a weight that is a matrix, as f32.
inline void read_row(const Operand& m, int64_t row, float* out) noexcept {
  if (m.reader) return m.reader->read(row, 0, m.last, out);
  const DTypeInfo& type = info(m.dtype);
  decode(m.dtype, m.data + row * (m.last / type.block * type.bytes), out, m.last);
}

struct KernelArgs {
  std::span<const Operand> inputs;
  Operand output;
  const Step* step = nullptr;
};

using KernelFn = void (*)(const graph::Op& op, const KernelArgs& args) noexcept;

struct Kernel {
  size_t op;  // index in the Op variant
  KernelFn run;
};

template <class T, size_t I = 0>
constexpr size_t index_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, graph::Op>, T>)
    return I;
  else
    return index_of<T, I + 1>();
}

template <class T, void (*Fn)(const T&, const KernelArgs&) noexcept>
constexpr Kernel on() {
  return {index_of<T>(), [](const graph::Op& op, const KernelArgs& a) noexcept { Fn(*std::get_if<T>(&op), a); }};
}

// The kernel of an op in a device's table, or null.
inline KernelFn find_kernel(std::span<const Kernel> table, const graph::Op& op) {
  for (const Kernel& k : table)
    if (k.op == op.index()) return k.run;
  return nullptr;
}

}  // namespace tenon::backend
