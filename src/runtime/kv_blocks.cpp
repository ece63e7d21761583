#include "runtime/kv_blocks.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace tenon::runtime {

int64_t ring_blocks(int64_t window, int64_t context, int64_t chunk) {
  int64_t all = ceil_div(context, cpu::kKvBlock);
  if (window <= 0) return all;
  // A chunk's first row sees window - 1 positions before it; neither end needs to be block-aligned.
  return std::min(all, ceil_div(window + chunk, cpu::kKvBlock) + 1);
}

BlockPool::BlockPool(int64_t blocks, int64_t tables, int64_t ring)
    : ring_(ring), tables_(static_cast<size_t>(tables * ring), -1), next_(static_cast<size_t>(tables)) {
  auto n = static_cast<size_t>(blocks);
  free_.reserve(n);
  for (int64_t b = blocks; b-- > 0;) free_.push_back(static_cast<int32_t>(b));
  refs_.assign(n, 0);
  nodes_.assign(n, -1);
  newer_.assign(n, -1);
  older_.assign(n, -1);
}

bool BlockPool::grow(int64_t sequence, int64_t length) noexcept {
  int64_t want = ceil_div(length, cpu::kKvBlock);
  for (int64_t& j = next_[static_cast<size_t>(sequence)]; j < want; ++j) {
    int32_t& entry = tables_[slot(sequence, j)];
    if (entry >= 0) {  // the ring comes round
      if (refs_[static_cast<size_t>(entry)] == 1 && !kept(entry)) continue;
      drop(std::exchange(entry, -1));
    }
    entry = take();
    if (entry < 0) return false;
  }
  return true;
}

// Last blocks first: of a chain the end is the first to go, without which the beginning is still of use.
void BlockPool::release(int64_t sequence) noexcept {
  int64_t& next = next_[static_cast<size_t>(sequence)];
  for (int64_t j = next; j >= 0 && j > next - ring_ - 1; --j)  // grow() may have failed at `next`
    if (int32_t& entry = tables_[slot(sequence, j)]; entry >= 0) drop(std::exchange(entry, -1));
  next = 0;
}

std::span<const int32_t> BlockPool::table(int64_t sequence) const {
  return {tables_.data() + sequence * ring_, static_cast<size_t>(ring_)};
}

void BlockPool::adopt(int64_t sequence, int64_t j, int32_t block) noexcept {
  if (refs_[static_cast<size_t>(block)]++ == 0 && kept(block)) unlink(block);
  tables_[slot(sequence, j)] = block;
  next_[static_cast<size_t>(sequence)] = j + 1;
}

void BlockPool::keep(int32_t block, int32_t node) noexcept { nodes_[static_cast<size_t>(block)] = node; }

void BlockPool::unkeep(int32_t block) noexcept {
  nodes_[static_cast<size_t>(block)] = -1;
  if (refs_[static_cast<size_t>(block)] > 0) return;
  unlink(block);
  free_.push_back(block);
}

int32_t BlockPool::state(int64_t sequence) const noexcept {
  const int64_t next = next_[static_cast<size_t>(sequence)];
  return next == 0 ? -1 : tables_[slot(sequence, next - 1)];
}

BlockPool::Advance BlockPool::advance(int64_t sequence) noexcept {
  const int32_t from = state(sequence);
  if (from >= 0 && refs_[static_cast<size_t>(from)] == 1 && !kept(from)) return {from, from};
  int64_t& next = next_[static_cast<size_t>(sequence)];
  int32_t& to = tables_[slot(sequence, next)];
  if (to >= 0) drop(std::exchange(to, -1));  // what the step before read
  to = take();
  if (to >= 0) ++next;
  return {from, to};
}

int32_t BlockPool::take() noexcept {
  int32_t block = -1;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (oldest_ >= 0) {
    block = oldest_;
    unlink(block);
    on_evict_(std::exchange(nodes_[static_cast<size_t>(block)], -1));
  }
  if (block >= 0) refs_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::drop(int32_t block) noexcept {
  if (--refs_[static_cast<size_t>(block)] > 0) return;
  if (kept(block))
    link(block);
  else
    free_.push_back(block);
}

void BlockPool::link(int32_t block) noexcept {
  auto b = static_cast<size_t>(block);
  older_[b] = newest_;
  newer_[b] = -1;
  (newest_ >= 0 ? newer_[static_cast<size_t>(newest_)] : oldest_) = block;
  newest_ = block;
  ++cached_;
}

void BlockPool::unlink(int32_t block) noexcept {
  auto b = static_cast<size_t>(block);
  (older_[b] >= 0 ? newer_[static_cast<size_t>(older_[b])] : oldest_) = newer_[b];
  (newer_[b] >= 0 ? older_[static_cast<size_t>(newer_[b])] : newest_) = older_[b];
  --cached_;
}

}  // namespace tenon::runtime
