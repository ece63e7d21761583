// low_rank(y [rows, out], x [rows, in], a [adapters, rank, in], b [adapters, rank, out], adapter i32 [rows])
//   -> [rows, out]: y + x * a[i]^T * b[i], i the row's adapter; y where that is -1. (LoRA, arXiv:2106.09685,
//   section 4.1;
// b is stored transposed and scaled.)
#pragma once

namespace tenon::graph {

struct LowRank {
  static constexpr const char* kName = "low_rank";
  bool operator==(const LowRank&) const = default;
  template <class F>
  void fields(F&&) const {}
};

}  // namespace tenon::graph
