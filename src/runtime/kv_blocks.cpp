#include "runtime/kv_blocks.h"

#include <algorithm>

#include "base/checked.h"

namespace tenon::runtime {

int64_t ring_blocks(int64_t window, int64_t context, int64_t chunk) {
  int64_t all = ceil_div(context, cpu::kKvBlock);
  if (window <= 0) return all;
  // A chunk's first row sees window - 1 positions before it; neither end needs to be block-aligned.
  return std::min(all, ceil_div(window + chunk, cpu::kKvBlock) + 1);
}

BlockPool::BlockPool(int64_t blocks, int64_t tables, int64_t ring)
    : ring_(ring), tables_(static_cast<size_t>(tables * ring)), used_(static_cast<size_t>(tables)) {
  free_.reserve(static_cast<size_t>(blocks));
  for (int64_t b = blocks; b-- > 0;) free_.push_back(static_cast<int32_t>(b));
}

bool BlockPool::grow(int64_t sequence, int64_t length) noexcept {
  int64_t want = std::min(ring_, ceil_div(length, cpu::kKvBlock));
  int64_t& used = used_[static_cast<size_t>(sequence)];
  for (; used < want; ++used) {
    if (free_.empty()) return false;
    tables_[static_cast<size_t>(sequence * ring_ + used)] = free_.back();
    free_.pop_back();
  }
  return true;
}

void BlockPool::release(int64_t sequence) noexcept {
  int64_t& used = used_[static_cast<size_t>(sequence)];
  while (used > 0) free_.push_back(tables_[static_cast<size_t>(sequence * ring_ + --used)]);
}

std::span<const int32_t> BlockPool::table(int64_t sequence) const {
  return {tables_.data() + sequence * ring_, static_cast<size_t>(used_[static_cast<size_t>(sequence)])};
}

}  // namespace tenon::runtime
