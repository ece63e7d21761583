#include "graph/type.h"

#include <fmt/format.h>

namespace tenon::graph {

int64_t TensorType::features() const {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i].size;
  return n;
}

int64_t elements(const TensorType& type, const Sizes& sizes) {
  int64_t n = 1;
  for (const Dim& d : type.shape) n *= sizes.of(d);
  return n;
}

std::string to_string(const TensorType& type) {
  std::string out = fmt::format("{}[", name(type.dtype));
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i) out += ", ";
    const Dim& d = type.shape[i];
    out += d.symbol == Symbol::rows ? "rows" : d.symbol == Symbol::outputs ? "outputs" : std::to_string(d.size);
  }
  return out + "]";
}

}  // namespace tenon::graph
