// Which blocks of the KV pools belong to which sequence. Layers with the same window share a table: a group. Blocks are
// counted: several sequences may read one block, and a block nobody reads may stay as part of the prefix tree until its
// room is needed.
#pragma once
#include <cstdint>
#include <functional>
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

  int64_t free_blocks() const {
    return static_cast<int64_t>(free_.size()) + cached_;
  }                                                  // kept ones that may go included
  int64_t cached_blocks() const { return cached_; }  // read by no sequence, kept by the prefix tree
  int64_t blocks() const { return static_cast<int64_t>(refs_.size()); }

  // Makes positions [0, length) of a sequence addressable; false: the pool is empty (what was taken stays). A block of
  // the ring that others may still read is replaced, not written over.
  bool grow(int64_t sequence, int64_t length) noexcept;
  void release(int64_t sequence) noexcept;
  std::span<const int32_t> table(int64_t sequence) const;  // the ring; -1: no block
  int64_t ring() const { return ring_; }

  // ---- For the prefix tree.
  // The block of the sequence's positions [32 j, 32 j + 32), as long as the ring holds it.
  int32_t block(int64_t sequence, int64_t j) const { return tables_[slot(sequence, j)]; }
  // The sequence, which holds nothing, reads `block` as its j-th; the next block to grow is j + 1.
  void adopt(int64_t sequence, int64_t j, int32_t block) noexcept;
  void skip(int64_t sequence, int64_t blocks) noexcept { next_[static_cast<size_t>(sequence)] = blocks; }
  void keep(int32_t block, int32_t node) noexcept;  // `node` of the tree holds the block: not freed when unread
  void unkeep(int32_t block) noexcept;
  bool kept(int32_t block) const { return nodes_[static_cast<size_t>(block)] >= 0; }
  // Called when a kept block's room is taken.
  void set_on_evict(std::function<void(int32_t node)> f) { on_evict_ = std::move(f); }
  static constexpr uint64_t kBytesPerBlock = 5 * sizeof(int32_t);

  // ---- For layers whose state is of one size (recurrent, convolution): a block is the state behind some token, the
  // ring is 2. With twice as many blocks as sequences advance() never fails.
  struct Advance {
    int32_t from, to;  // from -1: the sequence has no state yet; to -1: the pool is empty
  };
  // The blocks that a sequence's next step reads and writes. They differ where the tree or another sequence has the
  // first, which then stays as it is, and readable until the step after.
  Advance advance(int64_t sequence) noexcept;
  int32_t state(int64_t sequence) const noexcept;  // behind the last step; -1: none

 private:
  size_t slot(int64_t sequence, int64_t j) const { return static_cast<size_t>(sequence * ring_ + j % ring_); }
  int32_t take() noexcept;  // -1: none
  void drop(int32_t block) noexcept;
  void link(int32_t block) noexcept;
  void unlink(int32_t block) noexcept;

  int64_t ring_;
  std::vector<int32_t> free_;           // a stack; capacity is fixed at construction
  std::vector<int32_t> tables_;         // [sequence][ring], -1: none
  std::vector<int64_t> next_;           // blocks each sequence has had: one past the last
  std::vector<int32_t> refs_;           // sequences that read a block
  std::vector<int32_t> nodes_;          // the tree's node of a block; -1: none
  std::vector<int32_t> newer_, older_;  // list of kept, unread blocks
  int32_t oldest_ = -1, newest_ = -1;
  int64_t cached_ = 0;
  std::function<void(int32_t)> on_evict_;
};

}  // namespace tenon::runtime
