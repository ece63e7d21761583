#include "runtime/prefix_tree.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tenon::runtime {

using cpu::kKvBlock;

PrefixTree::PrefixTree(std::span<BlockPool> pools, std::vector<int64_t> windows, int64_t sequences, int64_t context)
    : pools_(pools), windows_(std::move(windows)), ends_(static_cast<size_t>(sequences)) {
  int64_t blocks = 0;  // a node holds at least one block, so there are never more nodes
  for (size_t g = 0; g < pools_.size(); ++g) {
    blocks += pools_[g].blocks();
    pools_[g].set_on_evict([this, g](int32_t node) { evicted(node, g); });
  }
  auto n = static_cast<size_t>(blocks);
  nodes_.resize(n);
  held_.assign(n * pools_.size(), -1);
  buckets_.assign(std::bit_ceil(n), -1);
  for (size_t i = n; i-- > 0;) {
    nodes_[i].next = free_;
    free_ = static_cast<int32_t>(i);
  }
  path_.reserve(static_cast<size_t>(context / kKvBlock));
}

uint64_t PrefixTree::bytes(int64_t blocks, size_t groups) {
  auto n = static_cast<uint64_t>(blocks);
  return n * (sizeof(Node) + groups * sizeof(int32_t)) + std::bit_ceil(n) * sizeof(int32_t);
}

size_t PrefixTree::bucket(uint64_t parent, const int32_t* tokens) const noexcept {
  uint64_t h = parent;
  for (int64_t i = 0; i < kKvBlock; ++i) h = (h ^ static_cast<uint32_t>(tokens[i])) * 0x9E3779B97F4A7C15u + (h >> 29);
  return static_cast<size_t>(h ^ h >> 32) & (buckets_.size() - 1);
}

int32_t PrefixTree::find(uint64_t parent, const int32_t* tokens) const noexcept {
  for (int32_t i = buckets_[bucket(parent, tokens)]; i >= 0; i = nodes_[static_cast<size_t>(i)].next) {
    const Node& n = nodes_[static_cast<size_t>(i)];
    if (n.parent == parent && std::equal(n.tokens, n.tokens + kKvBlock, tokens)) return i;
  }
  return -1;
}

int32_t PrefixTree::add(uint64_t parent, const int32_t* tokens) noexcept {
  int32_t i = free_;
  Node& n = nodes_[static_cast<size_t>(i)];
  free_ = n.next;
  n.serial = ++serial_;
  n.parent = parent;
  std::copy_n(tokens, kKvBlock, n.tokens);
  int32_t& head = buckets_[bucket(parent, tokens)];
  n.next = head;
  head = i;
  return i;
}

void PrefixTree::evicted(int32_t node, size_t group) noexcept {
  held(node, group) = -1;
  for (size_t g = 0; g < pools_.size(); ++g)
    if (held(node, g) >= 0) return;
  Node& n = nodes_[static_cast<size_t>(node)];
  int32_t* at = &buckets_[bucket(n.parent, n.tokens)];
  while (*at != node) at = &nodes_[static_cast<size_t>(*at)].next;
  *at = n.next;
  n.next = free_;
  free_ = node;
}

// The first block that position 32 n of a group still sees.
int64_t PrefixTree::first_seen(size_t group, int64_t n) const noexcept {
  if (windows_[group] == kState) return n - 1;
  return windows_[group] == 0 ? 0 : std::max<int64_t>(0, n * kKvBlock - windows_[group] + 1) / kKvBlock;
}

bool PrefixTree::whole(int32_t node) noexcept {
  for (size_t g = 0; g < pools_.size(); ++g)
    if (windows_[g] == 0 && held(node, g) < 0) return false;
  return true;
}

// Of the chain in path_, the longest beginning after which every window is there.
int64_t PrefixTree::longest(int64_t chain) noexcept {
  for (int64_t n = chain; n > 0; --n) {
    bool complete = true;
    for (size_t g = 0; g < pools_.size() && complete; ++g) {
      if (windows_[g] == 0) continue;  // see whole()
      for (int64_t j = n; j-- > first_seen(g, n) && complete;) complete = held(path_[static_cast<size_t>(j)], g) >= 0;
    }
    if (complete) return n;
  }
  return 0;
}

int64_t PrefixTree::adopt(int64_t sequence, uint64_t regime, std::span<const int32_t> tokens, int64_t limit) noexcept {
  path_.clear();
  uint64_t parent = root(regime);
  int64_t most = std::min(limit, static_cast<int64_t>(tokens.size())) / kKvBlock;
  while (static_cast<int64_t>(path_.size()) < most) {
    int32_t node = find(parent, tokens.data() + static_cast<int64_t>(path_.size()) * kKvBlock);
    if (node < 0 || !whole(node)) break;
    path_.push_back(node);
    parent = nodes_[static_cast<size_t>(node)].serial;
  }
  const int64_t n = longest(static_cast<int64_t>(path_.size()));
  for (size_t g = 0; g < pools_.size() && n > 0; ++g) {
    pools_[g].skip(sequence, n);
    for (int64_t j = first_seen(g, n); j < n; ++j) pools_[g].adopt(sequence, j, held(path_[static_cast<size_t>(j)], g));
  }
  ends_[static_cast<size_t>(sequence)] = {
      n, n > 0 ? nodes_[static_cast<size_t>(path_[static_cast<size_t>(n - 1)])].serial : 0};
  return n * kKvBlock;
}

int64_t PrefixTree::step_end(int64_t from, int64_t to, int64_t turn) noexcept {
  const int64_t turn_end = turn / kKvBlock * kKvBlock, next = (from / kCheckpointTokens + 1) * kCheckpointTokens;
  if (turn_end > from && turn_end < next) return std::min(to, turn_end);
  return std::min(to, next);
}

// False: another sequence's block is there already, or this one is held elsewhere.
bool PrefixTree::hold(int32_t node, size_t group, int32_t block) noexcept {
  if (held(node, group) >= 0 || pools_[group].kept(block)) return false;
  held(node, group) = block;
  pools_[group].keep(block, node);
  return true;
}

// The sequence's states are those behind the node's tokens.
void PrefixTree::keep_states(int64_t sequence, int32_t node, bool stays) noexcept {
  End& end = ends_[static_cast<size_t>(sequence)];
  const int32_t before = end.passing;
  const bool there = before >= 0 && nodes_[static_cast<size_t>(before)].serial == end.passing_serial;
  end.passing = -1;
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (windows_[g] != kState) continue;
    if (hold(node, g, pools_[g].state(sequence)) && !stays)
      end.passing = node, end.passing_serial = nodes_[static_cast<size_t>(node)].serial;
  }
  for (size_t g = 0; g < pools_.size() && there; ++g)
    if (windows_[g] == kState && held(before, g) >= 0) {
      pools_[g].unkeep(held(before, g));
      held(before, g) = -1;
    }
}

void PrefixTree::keep(int64_t sequence, uint64_t regime, std::span<const int32_t> tokens, int64_t length,
                      int64_t turn) noexcept {
  End& end = ends_[static_cast<size_t>(sequence)];
  for (; (end.blocks + 1) * kKvBlock <= length; ++end.blocks) {
    const int32_t* block_tokens = tokens.data() + end.blocks * kKvBlock;
    uint64_t parent = end.blocks == 0 ? root(regime) : end.serial;
    int32_t node = find(parent, block_tokens);
    if (node < 0) node = add(parent, block_tokens);
    for (size_t g = 0; g < pools_.size(); ++g) {
      if (windows_[g] == kState) continue;
      hold(node, g, pools_[g].block(sequence, end.blocks));
    }
    end.serial = nodes_[static_cast<size_t>(node)].serial;
    if (const int64_t at = (end.blocks + 1) * kKvBlock; at == length)
      keep_states(sequence, node, at % kCheckpointTokens == 0 || at == turn / kKvBlock * kKvBlock);
  }
}

}  // namespace tenon::runtime
