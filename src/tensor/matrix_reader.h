// Rows of a matrix that does not lie in memory row by row.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"

namespace tenon {

// A matrix that is kept in a form of its own.
class MatrixReader {
 public:
  virtual ~MatrixReader() = default;
  // Elements [first, first + n) of a row.
  virtual void read(int64_t row, int64_t first, int64_t n, float* out) const noexcept = 0;
};

// Makes rows [row, row + rows) in the encoding that is wanted, on any thread.
using MakeRows = FunctionRef<void(int64_t row, int64_t rows, std::byte* to)>;

}  // namespace tenon
