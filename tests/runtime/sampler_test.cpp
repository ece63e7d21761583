#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "base/rng.h"

namespace tenon::runtime {
namespace {

std::map<int32_t, int> draws(const SamplingOptions& base, std::vector<float> logits, int n) {
  std::vector<uint64_t> scratch(4 * logits.size());
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) {
    SamplingOptions o = base;
    o.seed = static_cast<uint64_t>(i);
    std::vector<float> copy = logits;
    counts[Sampler(o, static_cast<int64_t>(logits.size()), scratch).next(copy, {}, {})]++;
  }
  return counts;
}

// Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Sampler, GreedyTakesTheLowestIdOfATie) {
  SamplingOptions o;
  o.temperature = 0;
  EXPECT_EQ(draws(o, {1, 5, 5, 2}, 1).begin()->first, 1);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  std::vector<float> logits = {0, 1, 2, 3, -INFINITY};
  constexpr int kDraws = 20000;
  auto counts = draws({}, logits, kDraws);
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += std::exp(logits[static_cast<size_t>(i)]);
  double chi2 = 0;
  for (int i = 0; i < 4; ++i) {
    double expected = kDraws * std::exp(logits[static_cast<size_t>(i)]) / sum;
    chi2 += std::pow(counts[i] - expected, 2) / expected;
  }
  EXPECT_LT(chi2, 16.27);  // 3 degrees of freedom, p = 0.001
  EXPECT_EQ(counts.count(4), 0u);
}

TEST(Sampler, FiltersKeepTheirSupport) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = std::log(static_cast<float>(100 - i));  // p(i) = (100 - i) / 5050
  auto most = [&](const SamplingOptions& o) { return draws(o, logits, 3000).rbegin()->first; };
  SamplingOptions k;
  k.top_k = 5;
  EXPECT_EQ(most(k), 4);
  SamplingOptions p;
  p.top_p = 0.0975;  // 100 + 99 + 98 + 97 + 96 = 490 of 5050 is 0.09703: the sixth crosses
  EXPECT_EQ(most(p), 5);
  SamplingOptions m;
  m.min_p = 0.955;
  EXPECT_EQ(most(m), 4);
  SamplingOptions both = k;
  both.top_p = 0.21;  // of the five left (490): 100 is 0.204, so two
  EXPECT_EQ(most(both), 1);
}

TEST(Sampler, TypicalDropsTheTooLikelyFirst) {
  SamplingOptions o;
  o.typical_p = 0.3;
  // One outcome of p = 0.36, the others 0.04 each: the entropy is nearer to the small ones' information.
  std::vector<float> logits(17, std::log(0.04f));
  logits[3] = std::log(0.36f);
  EXPECT_EQ(draws(o, logits, 500).count(3), 0u);
}

TEST(Sampler, PenaltiesAndBias) {
  std::vector<uint64_t> scratch(16);
  SamplingOptions o;
  o.temperature = 0;
  o.repetition_penalty = 2;
  std::vector<int32_t> prompt = {0}, output = {1, 1};
  std::vector<float> logits = {4, 3, 1.9f, -1};
  EXPECT_EQ(Sampler(o, 4, scratch).next(logits, prompt, output), 0);  // 2, 1.5, 1.9, -1
  EXPECT_FLOAT_EQ(logits[0], 2);
  EXPECT_FLOAT_EQ(logits[1], 1.5);
  SamplingOptions f;
  f.temperature = 0;
  f.presence_penalty = 0.5;
  f.frequency_penalty = 1;
  logits = {4, 3, 1, -1};
  Sampler(f, 4, scratch).next(logits, prompt, output);
  EXPECT_FLOAT_EQ(logits[0], 4);  // output only
  EXPECT_FLOAT_EQ(logits[1], 0.5);
  SamplingOptions b;
  b.temperature = 0;
  b.logit_bias = {{3, 100.0f}};
  logits = {4, 3, 1, -1};
  EXPECT_EQ(Sampler(b, 4, scratch).next(logits, prompt, output), 3);
  b.logit_bias = {{4, 1.0f}};
  EXPECT_THROW(Sampler(b, 4, scratch), Error);
}

// The radix sort of large vocabularies and the partial sort of small k give the same order.
TEST(Sampler, BothSortsAgree) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  std::vector<float> logits(5000);
  for (float& x : logits) x = std::round(normal(rng) * 8) / 8;  // many ties
  SamplingOptions narrow, wide;
  narrow.top_k = 40;
  wide.top_k = 0;
  wide.top_p = 1e-9;  // the first candidate only
  SamplingOptions one;
  one.top_k = 1;
  EXPECT_EQ(draws(wide, logits, 3), draws(one, logits, 3));
}

TEST(SamplingOptions, RefusesWhatIsOutOfRange) {
  auto bad = [](auto set) {
    SamplingOptions o;
    set(o);
    EXPECT_THROW(o.check(), Error);
  };
  bad([](SamplingOptions& o) { o.temperature = -1; });
  bad([](SamplingOptions& o) { o.temperature = NAN; });
  bad([](SamplingOptions& o) { o.top_p = 0; });
  bad([](SamplingOptions& o) { o.top_k = -2; });
  bad([](SamplingOptions& o) { o.min_p = 1.5; });
  bad([](SamplingOptions& o) { o.repetition_penalty = 0; });
}

}  // namespace
}  // namespace tenon::runtime
