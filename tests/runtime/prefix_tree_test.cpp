// The prefix tree against a naive twin that remembers every token and regime of every block.
#include "runtime/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace tenon::runtime {
namespace {

using cpu::kKvBlock;
using Ids = std::vector<int32_t>;

// What a block's positions hold: everything before them and themselves.
using Content = std::pair<uint64_t, Ids>;  // regime, tokens up to the block's end

struct World {
  static constexpr int64_t kSequences = 5, kContext = 32 * 12, kWindow = 40, kChunk = 64;
  std::vector<BlockPool> pools;
  std::vector<int64_t> windows{0, kWindow};
  std::vector<std::map<int32_t, Content>> written{2};  // what the model would have left in a block
  PrefixTree tree;

  World() : pools(make_pools()), tree(pools, windows, kSequences, kContext) {}
  static std::vector<BlockPool> make_pools() {
    std::vector<BlockPool> p;
    p.emplace_back(30, kSequences, kContext / kKvBlock);
    int64_t ring = ring_blocks(kWindow, kContext, kChunk);
    p.emplace_back(ring * kSequences, kSequences, ring);
    return p;
  }
};

TEST(PrefixTree, RandomSequencesReadOnlyWhatIsTheirs) {
  World w;
  std::mt19937 rng(5);
  std::vector<Ids> tokens(World::kSequences);
  std::vector<int64_t> length(World::kSequences, 0);
  std::vector<uint64_t> regime(World::kSequences, 0);
  int64_t hits = 0, misses = 0, window_blocks = 0;
  for (int step = 0; step < 20000; ++step) {
    auto i = static_cast<size_t>(rng() % World::kSequences);
    auto s = static_cast<int64_t>(i);
    if (tokens[i].empty()) {  // few different beginnings, so that they are met again
      size_t n = 1 + rng() % World::kContext;
      for (size_t k = 0; k < n; ++k) tokens[i].push_back(k % 70 == 0 ? static_cast<int32_t>(rng() % 2) : 7);
      regime[i] = rng() % 2;
      length[i] = w.tree.adopt(s, regime[i], tokens[i], static_cast<int64_t>(n) - 1);
      EXPECT_EQ(length[i] % kKvBlock, 0);
      EXPECT_LT(length[i], static_cast<int64_t>(n));
      (length[i] ? hits : misses)++;
    } else if (length[i] == static_cast<int64_t>(tokens[i].size()) || rng() % 16 == 0) {
      for (BlockPool& p : w.pools) p.release(s);
      w.tree.forget(s);
      tokens[i].clear();
    } else {
      auto n = std::min<int64_t>(1 + static_cast<int64_t>(rng() % World::kChunk),
                                 static_cast<int64_t>(tokens[i].size()) - length[i]);
      bool room = true;
      for (BlockPool& p : w.pools) room &= p.grow(s, length[i] + n);
      if (!room) {
        for (BlockPool& p : w.pools) p.release(s);
        w.tree.forget(s);
        tokens[i].clear();
        continue;
      }
      // The step reads every position that its rows see: whole blocks before it must hold this very beginning.
      for (size_t g = 0; g < 2; ++g) {
        int64_t low = w.windows[g] ? std::max<int64_t>(0, length[i] - w.windows[g] + 1) / kKvBlock : 0;
        for (int64_t j = low; (j + 1) * kKvBlock <= length[i]; ++j) {
          int32_t b = w.pools[g].block(s, j);
          ASSERT_GE(b, 0);
          Content want{regime[i], Ids(tokens[i].begin(), tokens[i].begin() + (j + 1) * kKvBlock)};
          ASSERT_EQ(w.written[g][b], want) << "group " << g << " block " << j;
          window_blocks += w.windows[g] != 0;
        }
        // And writes its own: blocks that became whole.
        for (int64_t j = length[i] / kKvBlock; (j + 1) * kKvBlock <= length[i] + n; ++j)
          w.written[g][w.pools[g].block(s, j)] = {regime[i],
                                                  Ids(tokens[i].begin(), tokens[i].begin() + (j + 1) * kKvBlock)};
        // A block that is only begun must be nobody else's.
        if ((length[i] + n) % kKvBlock) w.written[g].erase(w.pools[g].block(s, (length[i] + n) / kKvBlock));
      }
      length[i] += n;
      w.tree.keep(s, regime[i], tokens[i], length[i]);
    }
  }
  EXPECT_GT(hits, 100);
  EXPECT_GT(misses, 10);
  EXPECT_GT(window_blocks, 100);
  for (int64_t s = 0; s < World::kSequences; ++s)
    for (BlockPool& p : w.pools) p.release(s);
  for (BlockPool& p : w.pools) EXPECT_EQ(p.free_blocks(), p.blocks());
}

TEST(PrefixTree, ABeginningIsTheLongestOfWholeBlocks) {
  World w;
  Ids text(200);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i);
  EXPECT_EQ(w.tree.adopt(0, 0, text, 199), 0);
  for (int64_t n = 0; n < 200; n += 50) {
    for (BlockPool& p : w.pools) ASSERT_TRUE(p.grow(0, n + 50));
    w.tree.keep(0, 0, text, n + 50);
  }
  EXPECT_EQ(w.tree.adopt(1, 0, text, 199), 192);
  EXPECT_EQ(w.pools[0].block(1, 3), w.pools[0].block(0, 3));
  EXPECT_EQ(w.tree.adopt(2, 0, text, 191), 160) << "the limit";
  EXPECT_EQ(w.tree.adopt(3, 1, text, 199), 0) << "another regime";
  text[100] = -1;
  EXPECT_EQ(w.tree.adopt(4, 0, text, 199), 96) << "tokens differ in the fourth block";
}

}  // namespace
}  // namespace tenon::runtime
