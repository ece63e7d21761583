#include "runtime/kv_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tenon::runtime {
namespace {

TEST(RingBlocks, CoversWindowAndChunkWhereverTheyBegin) {
  EXPECT_EQ(ring_blocks(0, 100, 64), 4);
  EXPECT_EQ(ring_blocks(16, 1 << 20, 1), 2);
  for (int64_t window : {1, 8, 31, 32, 33, 512})
    for (int64_t chunk : {1, 7, 64, 512}) {
      int64_t ring = ring_blocks(window, 1 << 20, chunk);
      // The blocks a chunk touches, from the first position its first row sees to its last row, must all differ in the
      // ring.
      for (int64_t begin = 0; begin < 4 * cpu::kKvBlock; ++begin) {
        int64_t low = std::max<int64_t>(0, begin - (window - 1)), high = begin + chunk - 1;
        EXPECT_LE(high / cpu::kKvBlock - low / cpu::kKvBlock + 1, ring) << window << " " << chunk << " " << begin;
      }
    }
}

// Random growth and release against a naive twin: no block belongs to two sequences, none is lost.
TEST(BlockPool, RandomOperationsKeepBlocksApart) {
  std::mt19937 rng(11);
  constexpr int64_t kBlocks = 40, kSequences = 6, kRing = 12;
  BlockPool pool(kBlocks, kSequences, kRing);
  std::vector<int64_t> length(kSequences, 0);
  for (int step = 0; step < 5000; ++step) {
    auto s = static_cast<int64_t>(rng() % kSequences);
    if (rng() % 4 == 0) {
      pool.release(s);
      length[static_cast<size_t>(s)] = 0;
    } else {
      int64_t want = length[static_cast<size_t>(s)] + static_cast<int64_t>(rng() % 100);
      int64_t before = pool.free_blocks();
      if (pool.grow(s, want))
        length[static_cast<size_t>(s)] = want;
      else
        EXPECT_EQ(pool.free_blocks(), 0) << before;
    }
    std::set<int32_t> seen;
    int64_t used = 0;
    for (int64_t i = 0; i < kSequences; ++i) {
      auto table = pool.table(i);
      int64_t held = table.size() - std::count(table.begin(), table.end(), -1);
      used += held;
      EXPECT_GE(held, std::min(kRing, (length[static_cast<size_t>(i)] + 31) / 32));
      for (int32_t b : table) {
        if (b < 0) continue;
        EXPECT_TRUE(seen.insert(b).second);
        EXPECT_TRUE(b >= 0 && b < kBlocks);
      }
    }
    EXPECT_EQ(used + pool.free_blocks(), kBlocks);
  }
}

}  // namespace
}  // namespace tenon::runtime
