// Speculation without a second model: what followed where the sequence's last tokens stood before is a draft of what
// comes next (prompt lookup decoding). Whether drafts are tried at all is decided by what they have won so far; which
// tokens come out never depends on it.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/draft_account.h"

namespace tenon::runtime {

class PromptLookup {
 public:
  // At most `most` tokens, a part of `tokens`; empty: no such place, or drafts do not pay now.
  std::span<const int32_t> draft(std::span<const int32_t> tokens, int64_t most) const noexcept;
  // After a step: how many tokens of a draft it had, how many of them were right, how long the model took.
  void learn(int64_t drafted, int64_t right, double seconds) noexcept;

 private:
  DraftAccount account_;
  int64_t length_ = 3;
};

}  // namespace tenon::runtime
