// Rotary position embedding (Su et al. 2021). The table of a step is computed once per frequency set and shared by all
// layers.
#pragma once
#include <cstdint>
#include <vector>

namespace tenon::graph {

// Frequencies by regime. A token's length is max(its prompt's length, its position + 1):
// plain: inv_freq; longrope: inv_freq up to original_length, long_inv_freq beyond;
// dynamic: up to original_length inv_freq, beyond it theta grows with the length (NTK).
struct RopeSpec {
  enum class Kind : uint8_t { plain, longrope, dynamic };
  Kind kind = Kind::plain;
  int64_t rotary = 0;                // values rotated per head (2 * frequencies)
  std::vector<float> inv_freq;       // [rotary / 2]
  std::vector<float> long_inv_freq;  // longrope only
  float scale = 1;                   // cos and sin are multiplied by it (yarn's and longrope's attention factor)
  int64_t original_length = 0;
  double theta = 0, factor = 1;  // dynamic only
  bool operator==(const RopeSpec&) const = default;
};

// rope_table(positions [rows]) -> [rows, rotary]: cos[rotary/2], then sin[rotary/2].
struct RopeTable {
  static constexpr const char* kName = "rope_table";
  RopeSpec spec;
  bool operator==(const RopeTable&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("rotary", spec.rotary), f("scale", spec.scale);
  }
};

// rope(x [rows, heads, head_dim], table [rows, rotary]) -> same: the first `rotary` values of each head are rotated.
struct Rope {
  static constexpr const char* kName = "rope";
  bool interleaved = false;  // pairs are neighbours (2i, 2i+1), else halves (i, i + rotary/2)
  bool operator==(const Rope&) const = default;
  template <class F>
  void fields(F&& f) const {
    f("interleaved", interleaved);
  }
};

}  // namespace tenon::graph
