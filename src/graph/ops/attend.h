// attend(q [rows, heads, d], k [rows, kv_heads, d], v [rows, kv_heads, d]) -> [rows, heads, d]: causal attention of
// each row to its sequence's positions so far; k and v are stored in `state` (rounded to the KV type) before they are
// read.
#pragma once
#include <cstdint>

namespace tenon::graph {

struct Attend {
  static constexpr const char* kName = "attend";
  int32_t state = -1;  // index into Graph::states
  float scale = 1;     // scores are q.k * scale
  float softcap = 0;   // softcap * tanh(score / softcap); 0: none
  bool operator==(const Attend&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("state", state), f("scale", scale), f("softcap", softcap);
  }
};

}  // namespace tenon::graph
