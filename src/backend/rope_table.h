// One row of a rope table: the same numbers on every device, computed in double from f32 angles as torch multiplies
// them.
#pragma once
#include <cstdint>

#include "backend/step.h"
#include "graph/ops/rope.h"

namespace tenon::backend {

// The length that decides a token's regime: max(its sequence's prompt length, position + 1).
int64_t rope_length(const Step& step, int64_t row, int64_t position) noexcept;

// cos[rotary / 2], sin[rotary / 2] of `position`.
void fill_rope_row(const graph::RopeSpec& spec, int64_t position, int64_t length, float* row) noexcept;

}  // namespace tenon::backend
