// The scheduler on tiny real checkpoints: the same tokens as alone whatever else runs, whatever is cancelled, preempted
// or shared; no block lost; no allocation in a step.
#include "runtime/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "support/count_allocations.h"
#include "support/kit.h"

namespace tenon::runtime {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

std::shared_ptr<const models::Model> open(const std::string& name) {
  return models::Model::open(test::golden_model(name));
}

RunOptions options(int64_t context, int64_t sequences) {
  RunOptions o;
  o.context = context;
  o.max_sequences = sequences;
  o.max_batch_tokens = 48;
  o.prefill_chunk = 24;
  o.prefix_cache = true;
  o.threads = 1;  // tests/runtime/engine_test.cpp has several
  return o;
}

struct Recorder : Listener {
  Ids got;
  std::vector<float> chosen, prompt;
  std::optional<Finish> finish;
  size_t stop_after = 1 << 20;
  bool token(int32_t t, const LogProbs* p) noexcept override {
    got.push_back(t);
    if (p) chosen.push_back(p->chosen);
    return got.size() < stop_after;
  }
  void prompt_token(int64_t, const LogProbs& p) noexcept override { prompt.push_back(p.chosen); }
  void finished(Finish f) noexcept override {
    EXPECT_FALSE(finish);
    finish = f;
  }
};

// What is asked: a prompt and how to sample.
struct Ask {
  Ids prompt;
  int64_t max_tokens = 8;
  SamplingOptions sampling;
  uint32_t choice = 0;
  int top_logprobs = -1;
};

struct Asked {
  Recorder recorder;
  Sequence sequence;
  Asked(Engine& e, const Ask& a) {
    sequence.tokens = a.prompt;
    sequence.prompt_length = static_cast<int64_t>(a.prompt.size());
    sequence.max_tokens = a.max_tokens;
    sequence.choice = a.choice;
    sequence.top_logprobs = a.top_logprobs;
    sequence.listener = &recorder;
    sequence.sampler.emplace(a.sampling, e.vocab(), e.sampler_scratch());
  }
};

Ids alone(Engine& e, const Ask& a) {
  Scheduler scheduler(e, 1);
  Asked asked(e, a);
  scheduler.submit(asked.sequence, Clock::now());
  while (scheduler.step(Clock::now())) {
  }
  EXPECT_TRUE(asked.recorder.finish);
  return asked.recorder.got;
}

std::vector<Ask> asks(int64_t vocab, int64_t longest, int count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Ask> out;
  Ids shared;
  for (int64_t i = 0; i < longest / 3; ++i)
    shared.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab)));
  for (int i = 0; i < count; ++i) {
    Ask a;
    if (rng() % 2) a.prompt.assign(shared.begin(), shared.begin() + static_cast<ptrdiff_t>(rng() % shared.size()));
    size_t more = 1 + rng() % static_cast<size_t>(longest / 4);
    for (size_t k = 0; k < more; ++k) a.prompt.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab)));
    a.max_tokens = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(longest / 3));
    a.sampling.temperature = rng() % 2 ? 0 : 0.9;
    a.sampling.seed = rng();
    a.sampling.repetition_penalty = rng() % 3 ? 1 : 1.2;
    a.choice = static_cast<uint32_t>(rng() % 3);
    a.top_logprobs = rng() % 4 ? -1 : 2;
    out.push_back(a);
  }
  return out;
}

class AnyModel : public testing::TestWithParam<const char*> {};

TEST_P(AnyModel, RandomLoadGivesTheTokensOfSoloRuns) {
  auto model = open(GetParam());
  const int64_t context = std::min<int64_t>(160, model->dimensions().context);
  RunOptions solo_options = options(context, 1);
  solo_options.prefix_cache = false;
  Engine solo(model, solo_options);
  RunOptions o = options(context, 6);
  o.kv_tokens = context + 64;  // too few for six: some are preempted
  Engine e(model, o);
  Scheduler scheduler(e, 64);

  std::vector<Ask> list = asks(e.vocab(), context, 40, 17);
  std::mt19937 rng(4);
  std::vector<std::unique_ptr<Asked>> running(list.size());
  std::vector<bool> cancelled(list.size());
  size_t next = 0;
  auto any_left = [&] { return next < list.size() || !scheduler.idle(); };
  while (any_left()) {
    while (next < list.size() && rng() % 3) {
      running[next] = std::make_unique<Asked>(e, list[next]);
      running[next]->sequence.priority = static_cast<int>(rng() % 3);
      scheduler.submit(running[next]->sequence, Clock::now());
      ++next;
    }
    if (next > 0 && rng() % 8 == 0) {
      size_t i = rng() % next;
      if (!running[i]->recorder.finish) {
        cancelled[i] = true;
        EXPECT_TRUE(scheduler.cancel(running[i]->sequence.id));
        EXPECT_EQ(running[i]->recorder.finish, Finish::cancelled);
      }
    }
    scheduler.step(Clock::now());
  }
  int whole = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    Ids want = alone(solo, list[i]);
    const Recorder& r = running[i]->recorder;
    ASSERT_TRUE(r.finish);
    if (cancelled[i]) {
      ASSERT_LE(r.got.size(), want.size());
      want.resize(r.got.size());
    } else {
      ++whole;
    }
    EXPECT_EQ(r.got, want) << "request " << i;
  }
  EXPECT_GT(whole, 10);
  EXPECT_EQ(e.kv_usage().used, 0);
  if (std::string(GetParam()) == "llama-s-q4_0") {
    EXPECT_GT(scheduler.totals().preemptions, 0u);
    EXPECT_GT(scheduler.totals().reused_tokens, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnyModel,
                         testing::Values("llama-s-q4_0", "mistral_sliding", "gemma3", "phi3_longrope", "qwen2_yarn"),
                         [](const auto& i) {
                           std::string name = i.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Scheduler, DecodesGoBeforePrompts) {
  Engine e(open("llama-s-q4_0"), options(160, 4));
  Scheduler scheduler(e, 8);
  Asked talking(e, {{1, 2, 3}, 40, {}, 0, -1});
  scheduler.submit(talking.sequence, Clock::now());
  scheduler.step(Clock::now());
  Ids prompt(110, 5);
  Asked reading(e, {prompt, 4, {}, 0, -1});
  scheduler.submit(reading.sequence, Clock::now());
  for (int step = 0; reading.recorder.got.empty(); ++step) {
    size_t before = talking.recorder.got.size();
    ASSERT_TRUE(scheduler.step(Clock::now()));
    EXPECT_EQ(talking.recorder.got.size(), before + 1);
    ASSERT_LT(step, 6) << "110 tokens in pieces of 24";
  }
}

// While an answer runs, prompts come in slices; alone, in steps as large as they may be. The tokens are the same.
TEST(Scheduler, PromptsAreSlicedWhileAnswersRun) {
  auto model = open("llama-s-q4_0");
  RunOptions o = options(256, 3);
  o.max_batch_tokens = o.prefill_chunk = 128;
  o.prefix_cache = false;
  o.prefill_slice_s = 1e-9;  // the least: 32 rows
  Engine e(model, o);
  Ask first, second;
  for (int32_t i = 0; i < 128; ++i) first.prompt.push_back(i % 100), second.prompt.push_back((i * 7 + 1) % 100);
  first.max_tokens = second.max_tokens = 12;
  const Ids alone_first = alone(e, first), alone_second = alone(e, second);
  Scheduler s(e, 4);
  Asked a(e, first), b(e, second);
  auto now = Clock::now();
  s.submit(a.sequence, now);
  s.step(now);
  EXPECT_EQ(a.recorder.got.size(), 1u) << "nobody waits: the prompt is one step";
  s.submit(b.sequence, now);
  for (size_t k = 0; k < 4; ++k) {
    EXPECT_TRUE(b.recorder.got.empty()) << k;
    s.step(now);
    EXPECT_EQ(a.recorder.got.size(), 2 + k) << "a token each step";
  }
  EXPECT_EQ(b.recorder.got.size(), 1u) << "four slices of 32";
  while (s.step(now)) {
  }
  EXPECT_EQ(a.recorder.got, alone_first);
  EXPECT_EQ(b.recorder.got, alone_second);
}

TEST(Scheduler, SamplesOfOnePromptShareItsBlocks) {
  Engine e(open("llama-s-q4_0"), options(160, 4));
  Scheduler scheduler(e, 8);
  Ids prompt(100, 9);
  SamplingOptions warm;
  warm.seed = 3;
  std::vector<std::unique_ptr<Asked>> four;
  for (uint32_t c = 0; c < 4; ++c) {
    four.push_back(std::make_unique<Asked>(e, Ask{prompt, 8, warm, c, -1}));
    if (c) four[c]->sequence.after = four[0]->sequence.id;
    scheduler.submit(four[c]->sequence, Clock::now());
  }
  while (scheduler.step(Clock::now())) {
  }
  for (uint32_t c = 1; c < 4; ++c) {
    EXPECT_EQ(four[c]->sequence.reused, 96);
    EXPECT_NE(four[c]->recorder.got, four[0]->recorder.got);
  }
}

TEST(Scheduler, DeadlinesStopsAndLengths) {
  Engine e(open("llama-s-q4_0"), options(160, 2));
  Scheduler scheduler(e, 8);
  Asked late(e, {{1, 2, 3}, 50, {}, 0, -1}), stopped(e, {{1, 2, 3}, 50, {}, 0, -1}), shorter(e, {{4}, 2, {}, 0, -1});
  auto now = Clock::now();
  late.sequence.deadline = now + std::chrono::seconds(5);
  stopped.recorder.stop_after = 3;
  for (Asked* a : {&late, &stopped, &shorter}) scheduler.submit(a->sequence, now);
  for (int i = 0; i < 10; ++i) scheduler.step(now);
  EXPECT_FALSE(late.recorder.finish);
  EXPECT_EQ(stopped.recorder.finish, Finish::stop);
  EXPECT_EQ(stopped.recorder.got.size(), 3u);
  EXPECT_EQ(shorter.recorder.finish, Finish::length);
  scheduler.step(now + std::chrono::seconds(6));
  EXPECT_EQ(late.recorder.finish, Finish::deadline);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(e.kv_usage().used, 0);
}

// Bit for bit, log probabilities included.
void expect_same_answers(Scheduler& one, Engine& of_one, Scheduler& two, Engine& of_two, const Ask& ask,
                         size_t stop_after = 1 << 20) {
  Asked a(of_one, ask), b(of_two, ask);
  a.recorder.stop_after = b.recorder.stop_after = stop_after;
  for (auto [scheduler, asked] : {std::pair{&one, &a}, {&two, &b}}) {
    scheduler->submit(asked->sequence, Clock::now());
    while (scheduler->step(Clock::now())) {
    }
  }
  EXPECT_EQ(a.recorder.got, b.recorder.got) << ask.sampling.seed;
  EXPECT_EQ(a.recorder.chosen, b.recorder.chosen) << ask.sampling.seed;
  EXPECT_EQ(a.recorder.finish, b.recorder.finish) << ask.sampling.seed;
}

// What a run with drafts generates is what one without generates, bit for bit, log probabilities included; over
// windows that slide, through stops in the middle of a draft.
TEST(Scheduler, DraftsChangeNothing) {
  for (const char* name : {"llama-s-q4_0", "mistral_sliding", "gemma3", "gpt2", "phi3_longrope", "qwen2_yarn"}) {
    SCOPED_TRACE(name);
    RunOptions o = options(0, 2);
    RunOptions drafts = o;
    drafts.speculate = true;
    auto model = open(name);
    Engine plain(model, o), fast(model, drafts);
    Scheduler one(plain, 4), two(fast, 4);
    const int32_t vocab = static_cast<int32_t>(plain.vocab());
    const int64_t most = std::min<int64_t>(120, plain.context() - 40);
    for (uint32_t seed = 0; seed < 6; ++seed) {
      Ask ask{{}, most, {}, 0, seed % 2 ? 2 : -1};
      for (int32_t i = 0; i < 36; ++i) ask.prompt.push_back((i % 9 * 5 + static_cast<int32_t>(seed)) % vocab);
      ask.sampling.temperature = seed < 3 ? 0 : 0.3;
      ask.sampling.top_k = 3;  // random weights repeat themselves then
      ask.sampling.seed = seed;
      expect_same_answers(one, plain, two, fast, ask, seed == 2 ? 33 : 1 << 20);
    }
    EXPECT_EQ(one.totals().drafted_tokens, 0u);
    if (std::string(name) != "phi3_longrope") {  // a short context
      EXPECT_GT(two.totals().drafted_tokens, 0u);
      EXPECT_LT(two.totals().steps, one.totals().steps);
    }
    EXPECT_EQ(fast.kv_usage().used, 0);
  }
}

// The same with a second model that drafts: its own twin, other families, vocabularies that are shorter and longer.
TEST(Scheduler, ADraftModelChangesNothing) {
  const std::pair<const char*, const char*> pairs[] = {
      {"llama", "llama"},         {"gemma3", "gemma3"}, {"gemma3", "llama"},      {"phi3_longrope", "mistral_sliding"},
      {"llama", "phi3_longrope"}, {"gpt2", "qwen3"},    {"llama-s-q4_0", "gpt2"}, {"gpt2", "llama-s-q4_0"}};
  for (auto [name, draft_name] : pairs) {
    SCOPED_TRACE(std::string(name) + " by " + draft_name);
    RunOptions o = options(0, 2), with = o;
    with.speculate = true;
    with.draft = open(draft_name);
    auto model = open(name);
    Engine plain(model, o), drafted(model, with);
    DraftModel draft(drafted);
    Scheduler one(plain, 4), two(drafted, 4, &draft);
    for (int seed = 0; seed < 6; ++seed) {
      Ask ask{{}, std::min<int64_t>(60, plain.context() - 30), {}, 0, seed % 2 ? 0 : -1};
      for (int64_t i = 0; i < 29; ++i)
        ask.prompt.push_back(static_cast<int32_t>((i * i * 7 + seed + i % 5 * 3) % plain.vocab()));
      ask.sampling.temperature = seed < 3 ? 0 : 0.7;
      ask.sampling.repetition_penalty = seed % 2 ? 1.1 : 1;  // else random weights repeat themselves
      ask.sampling.seed = static_cast<uint64_t>(seed);
      expect_same_answers(one, plain, two, drafted, ask);
    }
    EXPECT_GT(two.totals().drafted_tokens, 0u);
    if (std::string(name) == draft_name) {
      EXPECT_GT(two.totals().accepted_tokens, 0u);
    }
  }
}

// A mask that lets even tokens through, and takes only every other one of them; fifteen are enough.
struct Even : TokenMask {
  int accepted = 0;
  void allow(std::span<uint32_t> bits) noexcept override {
    for (uint32_t& w : bits) w = 0x55555555u;
  }
  Taken accept(int32_t token, int64_t left) noexcept override {
    if (token % 4) return Taken::no;
    EXPECT_EQ(left, 19 - accepted);
    return ++accepted == 15 ? Taken::last : Taken::yes;
  }
};

TEST(Scheduler, MasksAndLists) {
  Engine e(open("llama-s-q4_0"), options(160, 4));
  Scheduler scheduler(e, 8);
  Even even;
  Asked masked(e, {{1, 2, 3}, 20, {}, 0, 3}), listed(e, {{1, 2, 3}, 20, {}, 0, -1}),
      least(e, {{1, 2, 3}, 20, {}, 0, -1});
  masked.sequence.mask = &even;
  listed.sequence.allowed = {7, 8};
  listed.sequence.forbidden = {8};
  for (int32_t t = 0; t < e.vocab(); ++t) least.sequence.end_tokens.push_back(t);  // any token would end it
  least.sequence.end_tokens.erase(least.sequence.end_tokens.begin() + 5);
  least.sequence.min_tokens = 4;
  for (Asked* a : {&masked, &listed, &least}) scheduler.submit(a->sequence, Clock::now());
  while (scheduler.step(Clock::now())) {
  }
  for (int32_t t : masked.recorder.got) EXPECT_EQ(t % 4, 0);
  EXPECT_EQ(masked.recorder.got.size(), 15u);
  EXPECT_EQ(masked.recorder.finish, Finish::stop);
  for (float p : masked.recorder.chosen) EXPECT_LT(p, 0);
  EXPECT_EQ(listed.recorder.got, Ids(20, 7));
  ASSERT_GE(least.recorder.got.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(least.recorder.got[static_cast<size_t>(i)], 5);
}

TEST(Scheduler, PromptLogProbsAreThoseOfTheAnswer) {
  Engine e(open("llama-s-q4_0"), options(160, 2));
  SamplingOptions greedy;
  greedy.temperature = 0;
  Scheduler scheduler(e, 2);
  Asked first(e, {{5, 6, 7}, 40, greedy, 0, 0});
  scheduler.submit(first.sequence, Clock::now());
  while (scheduler.step(Clock::now())) {
  }
  Asked again(e, {first.sequence.tokens, 1, greedy, 0, 0});
  again.sequence.prompt_logprobs = true;
  scheduler.submit(again.sequence, Clock::now());
  while (scheduler.step(Clock::now())) {
  }
  ASSERT_EQ(again.recorder.prompt.size(), 42u);
  EXPECT_EQ(std::vector<float>(again.recorder.prompt.begin() + 2, again.recorder.prompt.end()), first.recorder.chosen);
}

TEST(Scheduler, StepsAllocateNothing) {
  RunOptions o = options(256, 4);
  o.kv_tokens = 400;
  Engine e(open("llama-s-q4_0"), o);
  Scheduler scheduler(e, 8);
  std::vector<std::unique_ptr<Asked>> list;
  for (int i = 0; i < 6; ++i) {
    SamplingOptions s;
    s.seed = static_cast<uint64_t>(i);
    s.top_k = i % 2 ? 20 : 0;
    s.repetition_penalty = 1.1;
    list.push_back(std::make_unique<Asked>(e, Ask{Ids(static_cast<size_t>(20 + i), 3), 150, s, 0, i % 3 - 1}));
    list.back()->recorder.got.reserve(1000);
    list.back()->recorder.chosen.reserve(1000);
    scheduler.submit(list.back()->sequence, Clock::now());
  }
  int64_t before = test::allocations();
  while (scheduler.step(Clock::now())) {
  }
  EXPECT_EQ(test::allocations() - before, 0);
  EXPECT_GT(scheduler.totals().preemptions, 0u);
}

}  // namespace
}  // namespace tenon::runtime
