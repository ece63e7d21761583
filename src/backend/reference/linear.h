// linear() in plain loops: the definition of its bits on levels with fused multiply-add (docs/numerics.md).
#pragma once
#include "backend/cpu/linear.h"

namespace tenon::reference {

// As cpu::linear, one thread, no scratch. `fused` false: multiply, then add (the baseline level's bits). Allocates.
void linear(const cpu::LinearWeight& weight, const cpu::LinearCall& call, bool fused = true);

}  // namespace tenon::reference
