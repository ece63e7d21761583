// A second model that drafts: what it says is what it would generate, what comes out never depends on it.
#include "runtime/draft_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "runtime/scheduler.h"
#include "support/count_allocations.h"
#include "support/kit.h"

namespace tenon::runtime {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const models::Model> open(const std::string& name) {
  std::filesystem::path folder = test::golden("models/" + name);
  return models::Model::open(std::filesystem::exists(folder / "model.gguf") ? folder / "model.gguf" : folder);
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

TEST(DraftModel, SaysWhatItWouldGenerate) {
  for (const char* name : {"llama", "gemma3", "mistral_sliding", "qwen2_yarn"}) {
    SCOPED_TRACE(name);
    auto model = open(name);
    Engine target(open("llama"), options(model)), plain(model, options(nullptr));
    DraftModel draft(target);
    auto greedy = [](std::span<float> logits) { return likeliest(logits); };
    Ids tokens = some_prompt(70, target.vocab(), 1);
    tokens.reserve(200);
    EXPECT_TRUE(draft.draft(tokens, 7, greedy).empty()) << "what a step costs is not known yet";
    // A target that is slow, and always of the draft's opinion.
    draft.learn(0, 0, 1);
    int empty = 0;
    size_t longest = 0;
    for (int round = 0; round < 30; ++round) {
      const Ids before = tokens;
      const auto said = draft.draft(tokens, 7, greedy);
      EXPECT_EQ(tokens, before);
      const Ids want = generate(plain, tokens, 8);  // and the one behind a whole draft
      EXPECT_EQ(Ids(said.begin(), said.end()), Ids(want.begin(), want.begin() + static_cast<ptrdiff_t>(said.size())));
      empty += said.empty();
      longest = std::max(longest, said.size());
      // Some of it right, or all: the next draft begins before, at or behind the last one's end.
      const auto right = std::min(said.size(), static_cast<size_t>(round < 25 ? 7 : round % 3));
      tokens.insert(tokens.end(), want.begin(), want.begin() + static_cast<ptrdiff_t>(right));
      tokens.push_back(round % 4 ? want[right] : 5);
      const auto drafted = static_cast<int64_t>(said.size());
      draft.learn(drafted, static_cast<int64_t>(right), 1 + 0.02 * static_cast<double>(drafted));
      if (tokens.size() > 110) tokens = some_prompt(round % 2 ? 70 : 40, target.vocab(), round), tokens.reserve(200);
    }
    EXPECT_EQ(longest, 7u) << "it learns to be trusted";
    EXPECT_GE(empty, 2) << "70 tokens are three steps";
  }
}

TEST(DraftModel, StopsWhereItLoses) {
  Engine target(open("llama"), options(open("gpt2")));
  DraftModel draft(target);
  Ids tokens = some_prompt(20, target.vocab(), 2);
  tokens.reserve(100);
  // Its own steps cost nearly nothing beside one of a second; the target takes 1.3 with a draft, which is never right.
  draft.learn(0, 0, 1);
  double lost = 0;
  int drafts = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto n = static_cast<int64_t>(draft.draft(tokens, 7, [](std::span<float> l) { return likeliest(l); }).size());
    draft.learn(n, 0, n ? 1.3 : 1);
    lost += n ? 0.3 : 0;
    drafts += n > 0;
  }
  EXPECT_LT(lost, 0.02 * 1000 + 3);
  EXPECT_GT(drafts, 5) << "tried again now and then";
  EXPECT_LT(drafts, 100);
}

struct Recorder : Listener {
  Ids got;
  std::vector<float> chosen;
  bool token(int32_t t, const LogProbs* p) noexcept override {
    got.push_back(t);
    if (p) chosen.push_back(p->chosen);
    return true;
  }
  void finished(Finish) noexcept override {}
};

// Over its own twin, over other families, over vocabularies that are shorter and longer.
TEST(DraftModel, ChangesNothing) {
  const std::pair<const char*, const char*> pairs[] = {
      {"llama", "llama"},         {"gemma3", "gemma3"}, {"gemma3", "llama"},      {"phi3_longrope", "mistral_sliding"},
      {"llama", "phi3_longrope"}, {"gpt2", "qwen3"},    {"llama-s-q4_0", "gpt2"}, {"gpt2", "llama-s-q4_0"}};
  for (auto [name, draft_name] : pairs) {
    SCOPED_TRACE(std::string(name) + " by " + draft_name);
    Engine plain(open(name), options(nullptr)), drafted(open(name), options(open(draft_name)));
    DraftModel draft(drafted);
    Scheduler one(plain, 4), two(drafted, 4, &draft);
    const int64_t most = std::min<int64_t>(60, plain.context() - 30);
    for (int seed = 0; seed < 6; ++seed) {
      const Ids prompt = some_prompt(29, plain.vocab(), seed);
      SamplingOptions sampling;
      sampling.temperature = seed < 3 ? 0 : 0.7;
      sampling.repetition_penalty = seed % 2 ? 1.1 : 1;  // else random weights repeat themselves
      sampling.seed = static_cast<uint64_t>(seed);
      Recorder records[2];
      int i = 0;
      for (Scheduler* scheduler : {&one, &two}) {
        Engine& e = i ? drafted : plain;
        Sequence s;
        s.tokens.reserve(prompt.size() + static_cast<size_t>(most));
        s.tokens = prompt;
        s.prompt_length = static_cast<int64_t>(prompt.size());
        s.max_tokens = most;
        s.top_logprobs = seed % 2 ? 0 : -1;
        s.listener = &records[i++];
        s.sampler.emplace(sampling, e.vocab(), e.sampler_scratch());
        scheduler->submit(s, Clock::now());
        while (scheduler->step(Clock::now())) {
        }
      }
      EXPECT_EQ(records[0].got, records[1].got) << seed;
      EXPECT_EQ(records[0].chosen, records[1].chosen) << seed;
    }
    EXPECT_GT(two.totals().drafted_tokens, 0u);
    if (std::string(name) == draft_name) {
      EXPECT_GT(two.totals().accepted_tokens, 0u);
    }
  }
}

TEST(DraftModel, DraftingAllocatesNothing) {
  Engine target(open("llama"), options(open("gemma3")));
  DraftModel draft(target);
  Ids tokens = some_prompt(60, target.vocab(), 3);
  tokens.reserve(200);
  draft.learn(0, 0, 1);
  const int64_t before = test::allocations();
  size_t said = 0;
  for (int i = 0; i < 20; ++i) {
    const auto d = draft.draft(tokens, 7, [](std::span<float> l) { return likeliest(l); });
    said += d.size();
    tokens.push_back(d.empty() ? 1 : d[0]);
    draft.learn(static_cast<int64_t>(d.size()), static_cast<int64_t>(std::min<size_t>(1, d.size())), 1.01);
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
