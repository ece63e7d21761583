// embedding(weight [vocab, n], ids [rows]) -> [rows, n]: rows of a table, decoded to f32.
#pragma once

namespace tenon::graph {

struct Embedding {
  static constexpr const char* kName = "embedding";
  bool operator==(const Embedding&) const = default;
  template <class F>
  void fields(F&&) const {}
};

}  // namespace tenon::graph
