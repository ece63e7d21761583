#include "runtime/prompt_lookup.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon::runtime {
namespace {

using Ids = std::vector<int32_t>;

Ids draft(const PromptLookup& p, const Ids& tokens, int64_t most) {
  auto d = p.draft(tokens, most);
  return {d.begin(), d.end()};
}

TEST(PromptLookup, FindsWhatFollowedBefore) {
  PromptLookup p;
  EXPECT_EQ(draft(p, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 7), (Ids{4, 5, 6}));
  EXPECT_EQ(draft(p, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 1), Ids{4});
  EXPECT_EQ(draft(p, {1, 2, 3, 4, 5, 6, 1, 2, 3}, 0), Ids{});
  EXPECT_EQ(draft(p, {1, 2, 3, 4, 5, 6, 1, 2, 9}, 7), Ids{}) << "two tokens are no place";
  EXPECT_EQ(draft(p, {7, 7, 7}, 7), Ids{});
  EXPECT_EQ(draft(p, {7, 7, 7, 7, 7}, 7), Ids{7}) << "the place itself is none";
  EXPECT_EQ(draft(p, {9, 1, 2, 3, 4, 8, 1, 2, 3, 5, 9, 1, 2, 3}, 2), (Ids{4, 8})) << "the longer match wins";
  EXPECT_EQ(draft(p, {1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3}, 1), Ids{5}) << "of equal ones the latest";
}

TEST(PromptLookup, StopsWhereItLosesAndComesBack) {
  PromptLookup p;
  const Ids tokens{1, 2, 3, 4, 5, 6, 1, 2, 3};
  double lost = 0;
  int plain = 0;
  p.learn(0, 0, 1);
  for (int i = 0; i < 10000; ++i) {
    const auto n = static_cast<int64_t>(draft(p, tokens, 7).size());
    p.learn(n, 0, 1 + 0.25 * static_cast<double>(n));
    lost += 0.25 * static_cast<double>(n);
    plain += n == 0;
  }
  EXPECT_LT(lost, 0.02 * 10000 + 3);
  EXPECT_LT(plain, 10000) << "tried again now and then";
  PromptLookup good;
  good.learn(0, 0, 1);
  int64_t drafted = 0;
  for (int i = 0; i < 100; ++i) {
    const auto n = static_cast<int64_t>(draft(good, tokens, 7).size());
    good.learn(n, n, 1 + 0.25 * static_cast<double>(n));
    drafted += n;
  }
  EXPECT_EQ(drafted, 3 + 99 * 6) << "as long as the text has it";
}

}  // namespace
}  // namespace tenon::runtime
