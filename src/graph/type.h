// Types of values: a dtype and dimensions, some of them bounded symbols that get their size from each step's batch.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace tenon::graph {

enum class Symbol : uint8_t { none, rows, outputs };  // tokens in the step; rows whose logits are wanted

struct Dim {
  int64_t size = 0;  // when symbol is none
  Symbol symbol = Symbol::none;

  Dim() = default;
  Dim(int64_t n) : size(n) {}
  Dim(Symbol s) : symbol(s) {}
  bool operator==(const Dim&) const = default;
};

struct TensorType {
  DType dtype = DType::f32;
  std::vector<Dim> shape;  // outermost first

  bool operator==(const TensorType&) const = default;
  int64_t features() const;  // product of all but the first dimension
  int64_t last() const { return shape.empty() ? 1 : shape.back().size; }
};

// Sizes of the symbols: a step's, or the bounds buffers are planned for.
struct Sizes {
  int64_t rows = 0, outputs = 0;
  int64_t of(const Dim& d) const {
    return d.symbol == Symbol::none ? d.size : d.symbol == Symbol::rows ? rows : outputs;
  }
};

int64_t elements(const TensorType& type, const Sizes& sizes);
std::string to_string(const TensorType& type);  // "f32[rows, 576]"

}  // namespace tenon::graph
