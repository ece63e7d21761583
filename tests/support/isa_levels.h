// Runs a check at every ISA level of the machine.
#pragma once
#include <gtest/gtest.h>

#include "backend/cpu/isa.h"

namespace tenon::test {

template <class F>
void at_every_isa(F&& check) {
  const cpu::Isa before = cpu::isa();
  for (cpu::Isa level : cpu::available_isas()) {
    SCOPED_TRACE(cpu::name(level));
    cpu::force_isa(level);
    check(level);
  }
  cpu::force_isa(before);
}

// Levels that fuse multiply and add, as the plain references do: bit-equal to them.
inline bool is_fused(cpu::Isa level) { return level != cpu::Isa::baseline; }

}  // namespace tenon::test
