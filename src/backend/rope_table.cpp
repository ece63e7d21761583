#include "backend/rope_table.h"

#include <algorithm>
#include <cmath>

namespace tenon::backend {

int64_t rope_length(const Step& step, int64_t row, int64_t position) noexcept {
  for (const SequenceRows& s : step.sequences)
    if (row >= s.row_begin && row < s.row_begin + s.row_count) return std::max(s.prompt_length, position + 1);
  return position + 1;
}

void fill_rope_row(const graph::RopeSpec& spec, int64_t position, int64_t length, float* row) noexcept {
  using Kind = graph::RopeSpec::Kind;
  const int64_t half = spec.rotary / 2;
  const bool beyond = length > spec.original_length;
  const std::vector<float>& inv_freq = spec.kind == Kind::longrope && beyond ? spec.long_inv_freq : spec.inv_freq;
  float theta = 0;
  if (spec.kind == Kind::dynamic && beyond) {
    auto dim = static_cast<double>(spec.rotary);
    double growth =
        spec.factor * static_cast<double>(length) / static_cast<double>(spec.original_length) - (spec.factor - 1);
    theta = static_cast<float>(spec.theta * std::pow(growth, dim / (dim - 2)));
  }
  for (int64_t i = 0; i < half; ++i) {
    float f = inv_freq[static_cast<size_t>(i)];
    if (theta != 0) f = 1.0f / std::pow(theta, static_cast<float>(2 * i) / static_cast<float>(spec.rotary));
    auto angle = static_cast<double>(static_cast<float>(position) * f);
    row[i] = static_cast<float>(std::cos(angle)) * spec.scale;
    row[half + i] = static_cast<float>(std::sin(angle)) * spec.scale;
  }
}

}  // namespace tenon::backend
