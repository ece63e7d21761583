// Moving values without arithmetic.
#pragma once
#include <cstdint>
#include <vector>

namespace tenon::graph {

// select_rows(x [rows, n], indices [outputs]) -> [outputs, n]
struct SelectRows {
  static constexpr const char* kName = "select_rows";
  bool operator==(const SelectRows&) const = default;
  template <class F>
  void fields(F&&) const {}
};

// slice(x [.., n]) -> [.., count]: columns begin .. begin + count of the last dimension
struct Slice {
  static constexpr const char* kName = "slice";
  int64_t begin = 0, count = 0;
  bool operator==(const Slice&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("begin", begin), f("count", count);
  }
};

// reshape(x [rows, ...]) -> [rows, rest...]: the same memory
struct Reshape {
  static constexpr const char* kName = "reshape";
  std::vector<int64_t> rest;
  bool operator==(const Reshape&) const = default;
  template <class F>
  void fields(F&&) const {}
};

}  // namespace tenon::graph
