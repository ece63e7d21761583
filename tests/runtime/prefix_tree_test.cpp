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

// Layers with a state: a double whose state is a hash over all tokens, in slots that the pool hands out.
struct Recurrent {
  static constexpr int64_t kSequences = 4, kContext = 2560, kSlots = 14;
  std::vector<BlockPool> pools;
  std::vector<int64_t> windows{0, PrefixTree::kState};
  PrefixTree tree;
  std::vector<uint64_t> slots = std::vector<uint64_t>(kSlots, 0xDEAD);

  Recurrent() : pools(make_pools()), tree(pools, windows, kSequences, kContext) {}
  static std::vector<BlockPool> make_pools() {
    std::vector<BlockPool> p;
    p.emplace_back(300, kSequences, kContext / kKvBlock);
    p.emplace_back(kSlots, kSequences, 2);
    return p;
  }
  static uint64_t fold(uint64_t state, std::span<const int32_t> tokens) {
    for (int32_t t : tokens) state = (state ^ static_cast<uint32_t>(t)) * 0x100000001B3u + 1;
    return state;
  }
  // tokens[from, to) go through the layer; false: no room.
  bool run(int64_t s, const Ids& tokens, int64_t from, int64_t to, int64_t turn) {
    if (!pools[0].grow(s, to)) return false;
    const BlockPool::Advance a = pools[1].advance(s);
    EXPECT_GE(a.to, 0) << "with two blocks a sequence there is always one";
    EXPECT_EQ(a.from < 0, from == 0);
    slots[static_cast<size_t>(a.to)] =
        fold(a.from < 0 ? 1 : slots[static_cast<size_t>(a.from)],
             std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from)));
    tree.keep(s, 0, tokens, to, turn);
    return true;
  }
  uint64_t state(int64_t s) const { return slots[static_cast<size_t>(pools[1].state(s))]; }
  void end(int64_t s) {
    for (BlockPool& p : pools) p.release(s);
    tree.forget(s);
  }
  // As a scheduler would: chunks that end where a checkpoint is due, then a token at a time.
  void run_all(int64_t s, const Ids& tokens, int64_t from, int64_t turn) {
    const auto total = static_cast<int64_t>(tokens.size());
    for (int64_t to; from < total; from = to) {
      to = from < turn ? PrefixTree::step_end(from, std::min(turn, from + 500), turn) : from + 1;
      ASSERT_TRUE(run(s, tokens, from, to, turn));
    }
  }
};

TEST(PrefixTree, StatesAreTakenUpWhereTurnsEndAndEvery1024Tokens) {
  Recurrent r;
  Ids text(2500);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i % 977);
  r.run_all(0, text, 0, 2300);  // a prompt of 2,300 and 200 tokens of answer
  r.end(0);
  EXPECT_EQ(r.tree.adopt(1, 0, text, 2500), 2496) << "behind the last block";
  r.run_all(1, text, 2496, 2500);
  EXPECT_EQ(r.state(1), Recurrent::fold(1, text));
  Ids other = text;
  other[2400] = -1;
  EXPECT_EQ(r.tree.adopt(2, 0, other, 2500), 2272) << "behind the prompt: 71 blocks";
  r.run_all(2, other, 2272, 2300);
  EXPECT_EQ(r.state(2), Recurrent::fold(1, other));
  other[2250] = -1;
  EXPECT_EQ(r.tree.adopt(3, 0, other, 2500), 2048);
  r.end(3);
  other[2000] = -1;
  EXPECT_EQ(r.tree.adopt(3, 0, other, 2500), 1024);
  r.end(3);
  other[1000] = -1;
  EXPECT_EQ(r.tree.adopt(3, 0, other, 2500), 0);
}

TEST(PrefixTree, RandomSequencesHaveTheStatesOfTheirTokens) {
  Recurrent r;
  std::mt19937 rng(9);
  std::vector<Ids> tokens(Recurrent::kSequences);
  std::vector<int64_t> length(Recurrent::kSequences, 0), turn(Recurrent::kSequences, 0);
  int64_t reused = 0, adopted = 0;
  for (int step = 0; step < 20000; ++step) {
    const auto i = static_cast<size_t>(rng() % Recurrent::kSequences);
    const auto s = static_cast<int64_t>(i);
    if (tokens[i].empty()) {
      const size_t n = 1 + rng() % Recurrent::kContext;
      for (size_t k = 0; k < n; ++k) tokens[i].push_back(k % 300 == 0 ? static_cast<int32_t>(rng() % 2) : 7);
      turn[i] = 1 + static_cast<int64_t>(rng() % n);
      length[i] = r.tree.adopt(s, 0, tokens[i], static_cast<int64_t>(n) - 1);
      reused += length[i];
      adopted += length[i] > 0;
    } else if (length[i] == static_cast<int64_t>(tokens[i].size()) || rng() % 32 == 0) {
      r.end(s);
      tokens[i].clear();
    } else {
      const auto total = static_cast<int64_t>(tokens[i].size());
      const int64_t to =
          PrefixTree::step_end(length[i], std::min(total, length[i] + 1 + static_cast<int64_t>(rng() % 400)), turn[i]);
      if (!r.run(s, tokens[i], length[i], to, turn[i])) {
        r.end(s);
        tokens[i].clear();
        continue;
      }
      length[i] = to;
      ASSERT_EQ(r.state(s), Recurrent::fold(1, std::span(tokens[i]).first(static_cast<size_t>(to))));
    }
  }
  EXPECT_GT(adopted, 100);
  EXPECT_GT(reused, 50000);
  for (int64_t s = 0; s < Recurrent::kSequences; ++s) r.end(s);
  for (BlockPool& p : r.pools) EXPECT_EQ(p.free_blocks(), p.blocks());
}

}  // namespace
}  // namespace tenon::runtime
