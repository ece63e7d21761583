// A matrix that is kept in a form of its own.
#pragma once
#include <cstdint>

namespace tenon {

class MatrixReader {
 public:
  virtual ~MatrixReader() = default;
  // Elements [first, first + n) of a row.
  virtual void read(int64_t row, int64_t first, int64_t n, float* out) const noexcept = 0;
};

}  // namespace tenon
