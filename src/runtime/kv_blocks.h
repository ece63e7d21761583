// Which blocks of the KV pools belong to which sequence. Layers with the same window share a table: a group.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/attention.h"

namespace tenon::runtime {

// Blocks one sequence can hold in a group: all of its context, or for a window a ring that covers window + chunk.
int64_t ring_blocks(int64_t window, int64_t context, int64_t chunk);

class BlockPool {
 public:
  // `blocks` blocks, handed out lowest first; `tables` sequences of up to `ring` blocks each.
  BlockPool(int64_t blocks, int64_t tables, int64_t ring);

  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }
  // Makes positions [0, length) of a sequence addressable; false: the pool is empty (what was taken stays).
  bool grow(int64_t sequence, int64_t length) noexcept;
  void release(int64_t sequence) noexcept;
  std::span<const int32_t> table(int64_t sequence) const;
  int64_t ring() const { return ring_; }

 private:
  int64_t ring_;
  std::vector<int32_t> free_;    // a stack; capacity is fixed at construction
  std::vector<int32_t> tables_;  // [sequence][ring]
  std::vector<int64_t> used_;    // blocks of each sequence
};

}  // namespace tenon::runtime
