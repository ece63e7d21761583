// linear() in plain loops: the definition of its bits on levels with fused multiply-add (docs/numerics.md).
#pragma once
#include "backend/cpu/linear.h"

namespace tenon::reference {

// How a level multiplies and adds: baseline rounds twice, others once; bf16_dot is fused but for weights in BF16.
enum class Arithmetic { rounded, fused, bf16_dot };

// As cpu::linear, one thread, no scratch. Allocates.
void linear(const cpu::LinearWeight& weight, const cpu::LinearCall& call, Arithmetic arithmetic = Arithmetic::fused);

}  // namespace tenon::reference
