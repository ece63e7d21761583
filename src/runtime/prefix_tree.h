// Computed beginnings of sequences, shared: a tree whose nodes stand for one KV block of 32 tokens each. A node is
// found by its parent and its tokens, compared in full, so a hit is never another text. Groups with a sliding window
// need only the blocks their window still reaches, so a beginning is reusable wherever those are left. Groups with a
// state (BlockPool::advance) have checkpoints: where a turn ends, every 1,024 tokens, and behind a sequence's last
// block; a beginning is reusable where one is.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kv_blocks.h"

namespace tenon::runtime {

class PrefixTree {
 public:
  static constexpr int64_t kState = -1;  // a group's "window": it has a state
  static constexpr int64_t kCheckpointTokens = 1024;

  // Holds blocks of `pools`, whose windows are `windows` (0: all positions), for `sequences` sequences of up to
  // `context` tokens. The pools must not move or end before the tree. Not all may have states: a model without keys and
  // values has a pool of blocks that stand for tokens alone.
  PrefixTree(std::span<BlockPool> pools, std::vector<int64_t> windows, int64_t sequences, int64_t context);

  // The sequence, which holds nothing, reads the longest known beginning of `tokens` of at most `limit` tokens; its
  // length, a multiple of the block. `regime`: beginnings computed under another one are different ones.
  int64_t adopt(int64_t sequence, uint64_t regime, std::span<const int32_t> tokens, int64_t limit) noexcept;

  // The first `length` of `tokens` are computed in the sequence: its whole blocks become known. Call after every step,
  // while a window's ring still holds what the step wrote. The first `turn` tokens are a whole turn: the prompt's, say.
  void keep(int64_t sequence, uint64_t regime, std::span<const int32_t> tokens, int64_t length,
            int64_t turn = 0) noexcept;

  // Where a step from position `from` that could go on to `to` must end for keep() to find a state to checkpoint.
  static int64_t step_end(int64_t from, int64_t to, int64_t turn) noexcept;

  void forget(int64_t sequence) noexcept { ends_[static_cast<size_t>(sequence)] = {}; }

  // Heap that a tree over that many blocks takes.
  static uint64_t bytes(int64_t blocks, size_t groups);

 private:
  struct Node {
    uint64_t serial = 0, parent = 0;  // serials are never reused, so a child of an evicted node is never found
    int32_t next = -1;                // in the bucket or the list of free nodes
    int32_t tokens[cpu::kKvBlock];
  };
  // How far a sequence's blocks are in the tree.
  struct End {
    int64_t blocks = 0;
    uint64_t serial = 0;
    // The node behind the last block, whose checkpoints go when there is a later one; -1: none. It may have been
    // evicted since and be another's, which the serial tells.
    int32_t passing = -1;
    uint64_t passing_serial = 0;
  };
  static uint64_t root(uint64_t regime) { return regime | uint64_t{1} << 63; }
  size_t bucket(uint64_t parent, const int32_t* tokens) const noexcept;
  int32_t find(uint64_t parent, const int32_t* tokens) const noexcept;
  int32_t add(uint64_t parent, const int32_t* tokens) noexcept;
  int32_t& held(int32_t node, size_t group) { return held_[static_cast<size_t>(node) * pools_.size() + group]; }
  void evicted(int32_t node, size_t group) noexcept;
  int64_t first_seen(size_t group, int64_t n) const noexcept;
  bool whole(int32_t node) noexcept;  // has the blocks of all groups without a window
  int64_t longest(int64_t chain) noexcept;
  bool hold(int32_t node, size_t group, int32_t block) noexcept;
  void keep_states(int64_t sequence, int32_t node, bool stays) noexcept;

  std::span<BlockPool> pools_;
  std::vector<int64_t> windows_;
  std::vector<Node> nodes_;
  std::vector<int32_t> held_;     // [node][group] block, -1: none
  std::vector<int32_t> buckets_;  // heads of lists of nodes
  int32_t free_ = -1;
  uint64_t serial_ = 0;
  std::vector<End> ends_;      // by sequence
  std::vector<int32_t> path_;  // nodes of the beginning being looked for
};

}  // namespace tenon::runtime
