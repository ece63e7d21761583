// A second model that drafts: what it says is what it would generate. That what comes out does not depend on it is
// tests/runtime/scheduler_test.cpp's.
#include "runtime/draft_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "support/count_allocations.h"
#include "support/kit.h"

namespace tenon::runtime {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const models::Model> open(const std::string& name) {
  return models::Model::open(test::golden_model(name));
}

RunOptions options(std::shared_ptr<const models::Model> draft) {
  RunOptions o;
  o.max_batch_tokens = 48;
  o.prefill_chunk = 24;
  o.max_sequences = 2;
  o.threads = 1;
  o.speculate = true;
  o.draft = std::move(draft);
  return o;
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Ids some_prompt(int64_t n, int64_t vocab, int seed) {
  Ids prompt;
  for (int64_t i = 0; i < n; ++i) prompt.push_back(static_cast<int32_t>((i * i * 7 + seed + i % 5 * 3) % vocab));
  return prompt;
}

// Greedy, one step for each token.
Ids generate(Engine& e, Ids tokens, int64_t count) {
  const size_t prompt = tokens.size();
  e.reset(0);
  for (int64_t done = 0; static_cast<int64_t>(tokens.size() - prompt) < count;) {
    BatchItem item;
    item.tokens = std::span(tokens).subspan(static_cast<size_t>(done));
    item.tokens = item.tokens.first(std::min<size_t>(item.tokens.size(), 24));
    done += static_cast<int64_t>(item.tokens.size());
    int32_t next = -1;
    EXPECT_TRUE(e.step({&item, 1}, [&](const StepOutput& out) { next = likeliest(out.logits); }));
    if (done == static_cast<int64_t>(tokens.size())) tokens.push_back(next);
  }
  return {tokens.begin() + static_cast<ptrdiff_t>(prompt), tokens.end()};
}

// The draft `model` of a target that is called "llama", behind a prompt.
struct Drafting {
  Engine target;
  DraftModel draft{target};
  Ids tokens;

  Drafting(const std::string& model, int64_t prompt, int seed) : target(open("llama"), options(open(model))) {
    begin(prompt, seed);
  }
  void begin(int64_t prompt, int seed) {
    tokens = some_prompt(prompt, target.vocab(), seed);
    tokens.reserve(200);
  }
  std::span<const int32_t> say() {
    return draft.draft(tokens, 7, [](std::span<float> logits) { return likeliest(logits); });
  }
};

TEST(DraftModel, SaysWhatItWouldGenerate) {
  for (const char* name : {"llama", "gemma3", "mistral_sliding", "qwen2_yarn"}) {
    SCOPED_TRACE(name);
    Drafting d(name, 70, 1);
    Engine plain(open(name), options(nullptr));
    EXPECT_TRUE(d.say().empty()) << "what a step costs is not known yet";
    // A target that is slow, and always of the draft's opinion.
    d.draft.learn(0, 0, 1);
    int empty = 0;
    size_t longest = 0;
    for (int round = 0; round < 30; ++round) {
      const Ids before = d.tokens;
      const auto said = d.say();
      EXPECT_EQ(d.tokens, before);
      const Ids want = generate(plain, d.tokens, 8);  // and the one behind a whole draft
      EXPECT_EQ(Ids(said.begin(), said.end()), Ids(want.begin(), want.begin() + static_cast<ptrdiff_t>(said.size())));
      empty += said.empty();
      longest = std::max(longest, said.size());
      // Some of it right, or all: the next draft begins before, at or behind the last one's end.
      const auto right = std::min(said.size(), static_cast<size_t>(round < 25 ? 7 : round % 3));
      d.tokens.insert(d.tokens.end(), want.begin(), want.begin() + static_cast<ptrdiff_t>(right));
      d.tokens.push_back(round % 4 ? want[right] : 5);
      const auto drafted = static_cast<int64_t>(said.size());
      d.draft.learn(drafted, static_cast<int64_t>(right), 1 + 0.02 * static_cast<double>(drafted));
      if (d.tokens.size() > 110) d.begin(round % 2 ? 70 : 40, round);
    }
    EXPECT_EQ(longest, 7u) << "it learns to be trusted";
    EXPECT_GE(empty, 2) << "70 tokens are three steps";
  }
}

TEST(DraftModel, StopsWhereItLoses) {
  Drafting d("gpt2", 20, 2);
  // Its own steps cost nearly nothing beside one of a second; the target takes 1.3 with a draft, which is never right.
  d.draft.learn(0, 0, 1);
  double lost = 0;
  int drafts = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto n = static_cast<int64_t>(d.say().size());
    d.draft.learn(n, 0, n ? 1.3 : 1);
    lost += n ? 0.3 : 0;
    drafts += n > 0;
  }
  EXPECT_LT(lost, 0.02 * 1000 + 3);
  EXPECT_GT(drafts, 5) << "tried again now and then";
  EXPECT_LT(drafts, 100);
}

TEST(DraftModel, DraftingAllocatesNothing) {
  Drafting d("gemma3", 60, 3);
  d.draft.learn(0, 0, 1);
  const int64_t before = test::allocations();
  size_t said = 0;
  for (int i = 0; i < 20; ++i) {
    const auto next = d.say();
    said += next.size();
    d.tokens.push_back(next.empty() ? 1 : next[0]);
    d.draft.learn(static_cast<int64_t>(next.size()), static_cast<int64_t>(std::min<size_t>(1, next.size())), 1.01);
  }
  EXPECT_EQ(test::allocations(), before);
  EXPECT_GT(said, 0u);
}

TEST(DraftModel, ItsMemoryIsPartOfThePlan) {
  auto model = open("llama"), other = open("gemma3");
  const Layout with = plan_layout(*model, options(other)), without = plan_layout(*model, options(nullptr));
  ASSERT_TRUE(with.draft);
  EXPECT_EQ(with.memory.weights, without.memory.weights + with.draft->memory.weights);
  EXPECT_EQ(with.memory.state, without.memory.state + with.draft->memory.state);
  EXPECT_EQ(with.memory.mapped, without.memory.mapped + with.draft->memory.mapped);
  EXPECT_GT(with.draft->memory.state, 0u);
  const uint64_t before = Ledger::process().used();
  {
    Engine target(model, with);
    DraftModel draft(target);
    EXPECT_EQ(Ledger::process().used() - before, with.memory.total() - with.memory.overhead);
  }
  EXPECT_EQ(with.draft->options.context, std::min(with.options.context, other->dimensions().context));
  RunOptions tight = options(other);
  tight.memory = without.memory.peak;
  tight.context = with.options.context;
  tight.pack = Pack::off;
  EXPECT_THROW(plan_fitting(*model, tight), Error);
}

}  // namespace
}  // namespace tenon::runtime
