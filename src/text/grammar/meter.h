// The budget of a compilation: work counted in steps, not in time, so that what is refused does not depend on the
// machine.
#pragma once
#include <cstdint>

#include "base/error.h"

namespace tenon::text::grammar {

class Meter {
 public:
  explicit Meter(uint64_t steps) : left_(steps) {}
  // Throws Error{invalid_argument} when the budget is spent.
  void spend(uint64_t steps) {
    if (steps > left_)
      fail(ErrorCode::invalid_argument, "the grammar is too complex: its compilation ran out of budget");
    left_ -= steps;
  }

 private:
  uint64_t left_;
};

}  // namespace tenon::text::grammar
