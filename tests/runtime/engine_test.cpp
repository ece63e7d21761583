// The engine on tiny real checkpoints: reference logits, the same bits whatever the batch, chunk, threads, packing; no
// allocation.
#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "formats/checkpoint.h"
#include "runtime/sampler.h"
#include "support/count_allocations.h"
#include "support/kit.h"

namespace tenon::runtime {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

// Logits of all rows of each prompt, the prompts stepped together, `chunk` tokens of each per step.
std::vector<std::vector<float>> logits(Engine& e, const std::vector<Ids>& prompts, int64_t chunk) {
  std::vector<std::vector<float>> out(prompts.size());
  std::vector<int64_t> done(prompts.size(), 0);
  for (size_t i = 0; i < prompts.size(); ++i) e.reset(static_cast<int64_t>(i));
  for (;;) {
    std::vector<BatchItem> batch;
    int64_t rows = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      auto n = std::min({chunk, static_cast<int64_t>(prompts[i].size()) - done[i], e.max_rows() - rows});
      if (n <= 0) continue;
      batch.push_back({static_cast<int64_t>(i),
                       std::span(prompts[i]).subspan(static_cast<size_t>(done[i]), static_cast<size_t>(n)),
                       static_cast<int64_t>(prompts[i].size()), BatchItem::Outputs::all});
      done[i] += n;
      rows += n;
    }
    if (batch.empty()) return out;
    EXPECT_TRUE(e.step(batch, [&](const StepOutput& o) {
      auto& to = out[static_cast<size_t>(batch[o.item].sequence)];
      to.insert(to.end(), o.logits.begin(), o.logits.end());
    }));
  }
}

RunOptions options(int64_t context, int64_t sequences = 1) {
  RunOptions o;
  o.context = context;
  o.max_sequences = sequences;
  o.all_logits = true;
  o.threads = 2;
  return o;
}

std::vector<std::string> all_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test::golden("models")))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<float> tensor(const formats::Checkpoint& c, const std::string& name) {
  auto bytes = c.bytes(c.at(name));
  std::vector<float> v(bytes.size() / 4);
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}

class GoldenModel : public testing::TestWithParam<std::string> {};

void check_logits(const std::string& name, const std::string& device) {
  Json c = read_json(test::golden("models/" + name + "/case.json"));
  auto expected = formats::Checkpoint::open(test::golden("models/" + name + "/expected.safetensors"));
  auto model = models::Model::open(test::golden_model(name));
  RunOptions o = options(std::min<int64_t>(128, model->dimensions().context));
  o.compute_f32 = true;
  o.device = device;
  Engine e(model, o);
  double tolerance = c.value("tolerance", 2e-4);
  for (size_t i = 0; i < c["prompts"].size(); ++i) {
    Ids prompt = c["prompts"][i];
    auto want = tensor(expected, "logits." + std::to_string(i));
    auto got = logits(e, {prompt}, 512)[0];
    ASSERT_GE(got.size(), want.size());
    got.erase(got.begin(), got.end() - static_cast<std::ptrdiff_t>(want.size()));
    double worst = 0;
    for (size_t k = 0; k < want.size(); ++k) worst = std::max(worst, std::abs(static_cast<double>(got[k]) - want[k]));
    EXPECT_LE(worst, tolerance) << name << " prompt " << i;
  }
}

TEST_P(GoldenModel, LogitsAreTheReferences) { check_logits(GetParam(), "cpu"); }
TEST_P(GoldenModel, LogitsAreTheReferencesOnTheReferenceDevice) { check_logits(GetParam(), "reference"); }

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

TEST_P(GoldenModel, SameInputSameBits) {
  auto model = models::Model::open(test::golden_model(GetParam()));
  int64_t vocab = model->dimensions().vocab, context = std::min<int64_t>(64, model->dimensions().context);
  std::mt19937 rng(3);
  std::vector<Ids> prompts;
  // Below longrope's boundary: the regime is a part of the input.
  int64_t longest = GetParam() == "phi3_longrope" ? 22 : 50;
  for (int64_t n : {longest, int64_t{1}, int64_t{17}, longest / 2, int64_t{20}, int64_t{7}, longest, int64_t{16}}) {
    Ids p;
    for (int64_t i = 0; i < n; ++i) p.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(vocab)));
    prompts.push_back(p);
  }
  for (auto kv : {cpu::KvType::bf16, cpu::KvType::f32, cpu::KvType::f16, cpu::KvType::q8}) {
    RunOptions base = options(context);
    base.kv = kv;
    Engine one(model, base);
    std::vector<std::vector<float>> want;
    for (const Ids& p : prompts) want.push_back(logits(one, {p}, 512)[0]);
    for (int64_t chunk : {1, 7, 13})
      EXPECT_TRUE(same(logits(one, {prompts[0]}, chunk)[0], want[0])) << "chunks of " << chunk;
    RunOptions single = base;
    single.threads = 1;
    Engine one_thread(model, single);
    EXPECT_TRUE(same(logits(one_thread, {prompts[0]}, 512)[0], want[0])) << "one thread";
    for (Pack pack : {Pack::off, Pack::load}) {
      RunOptions packed = base;
      packed.pack = pack;
      Engine e(model, packed);
      EXPECT_TRUE(same(logits(e, {prompts[0]}, 512)[0], want[0])) << "pack " << static_cast<int>(pack);
    }
    RunOptions many = base;
    many.max_sequences = static_cast<int64_t>(prompts.size());
    Engine batch(model, many);
    for (int64_t chunk : {512, 9}) {
      auto got = logits(batch, prompts, chunk);
      for (size_t i = 0; i < prompts.size(); ++i)
        EXPECT_TRUE(same(got[i], want[i])) << "in a batch, prompt " << i << " chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, testing::ValuesIn(all_models()), [](const auto& i) {
  std::string name = i.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Engine, AThousandDecodeStepsAllocateNothing) {
  RunOptions o = options(0);
  o.all_logits = false;
  Engine e(models::Model::open(test::golden_model("llama-s-q4_0")), o);
  SamplingOptions sampling;
  sampling.top_k = 50;
  sampling.top_p = 0.9;
  sampling.repetition_penalty = 1.1;
  Sampler sampler(sampling, e.vocab(), e.sampler_scratch());
  Ids prompt = {1, 2, 3}, output;
  output.reserve(2000);
  int32_t token = 5;
  int64_t before = 0;
  for (int i = 0; i < 1010; ++i) {
    if (e.length(0) == e.context()) e.reset(0);
    if (i == 10) before = test::allocations();
    BatchItem item{0, {&token, 1}, 0, BatchItem::Outputs::last};
    e.step({&item, 1}, [&](const StepOutput& s) { token = sampler.next(s.logits, prompt, output); });
    output.push_back(token);
  }
  EXPECT_EQ(test::allocations() - before, 0);
}

TEST(Engine, AnEmptyPoolChangesNothing) {
  RunOptions o = options(128, 2);
  o.kv_tokens = 64;
  Engine e(models::Model::open(test::golden_model("llama-s-q4_0")), o);
  Ids sixty(60, 7), ten(10, 7);
  BatchItem first{0, sixty, 60, BatchItem::Outputs::last}, second{1, ten, 10, BatchItem::Outputs::last};
  auto nothing = [](const StepOutput&) {};
  EXPECT_TRUE(e.step({&first, 1}, nothing));
  EXPECT_FALSE(e.step({&second, 1}, nothing));
  EXPECT_EQ(e.length(1), 0);
  e.reset(0);
  EXPECT_TRUE(e.step({&second, 1}, nothing));
}

TEST(Engine, WeightsAtAnotherPrecision) {
  auto model = models::Model::open(test::golden_model("llama"));  // stored as f32
  Ids prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  RunOptions o = options(64);
  o.compute_f32 = true;
  Engine stored(model, o);
  auto want = logits(stored, {prompt}, 512)[0];
  for (DType t : {DType::f32, DType::f16, DType::bf16}) {
    RunOptions converted = o;
    converted.weights = t;
    Engine e(model, converted);
    auto got = logits(e, {prompt}, 512)[0];
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
    EXPECT_LE(worst, t == DType::f32 ? 0 : t == DType::f16 ? 0.02 : 0.2) << name(t);
    if (t != DType::f32) {
      EXPECT_GT(worst, 0) << name(t);
      EXPECT_GT(e.memory().weights, 0u);
      EXPECT_LT(e.memory().mapped, stored.memory().mapped + stored.memory().weights);
    }
  }
}

// Converted weights are packed as they are made: that changes their place and no bit.
TEST(Engine, ConvertedWeightsInPanelsHaveTheSameBits) {
  for (const char* name : {"llama", "qwen3", "gpt2", "awq-4bit-g128", "mlx-8bit-g64", "gptq-4bit-g128-asym-actorder"})
    for (DType t : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_1}) {
      auto model = models::Model::open(test::golden_model(name));
      Ids prompt;
      for (int i = 0; i < 21; ++i) prompt.push_back(static_cast<int32_t>((i * 37 + 5) % model->dimensions().vocab));
      RunOptions o = options(32);
      o.weights = t;
      o.pack = Pack::off;
      Engine rows(model, o);
      o.pack = Pack::load;
      Engine panels(model, o);
      for (int64_t chunk : {1, 512})
        EXPECT_TRUE(same(logits(rows, {prompt}, chunk)[0], logits(panels, {prompt}, 512)[0]))
            << name << " as " << tenon::name(t) << ", chunk " << chunk;
    }
}

TEST(Plan, AddsUpAndRefusesWhatDoesNotFit) {
  auto model = models::Model::open(test::golden_model("gemma3"));
  RunOptions o;
  Layout l = plan_layout(*model, o);
  const MemoryPlan& m = l.memory;
  EXPECT_EQ(m.total(), m.weights + m.state + m.activations + m.io + m.temporary + m.overhead);
  EXPECT_TRUE(m.fits());
  EXPECT_EQ(l.options.context, model->dimensions().context);
  RunOptions tight = o;
  tight.memory = m.peak - (m.state / 2);
  tight.context = l.options.context;
  Layout refused = plan_layout(*model, tight);
  EXPECT_FALSE(refused.memory.fits());
  try {
    Engine e(model, tight);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::does_not_fit);
    EXPECT_NE(std::string(e.what()).find("limit"), std::string::npos);
  }
  // Without a fixed context the largest one that fits is taken.
  tight.context = 0;
  Layout smaller = plan_layout(*model, tight);
  EXPECT_TRUE(smaller.memory.fits());
  EXPECT_LT(smaller.options.context, l.options.context);
  EXPECT_EQ(smaller.options.context, max_context(*model, tight));
}

TEST(Plan, AContextBeyondTheModelsIsRefused) {
  auto model = models::Model::open(test::golden_model("gpt2"));
  RunOptions o;
  o.context = model->dimensions().context + 1;
  EXPECT_THROW(plan_layout(*model, o), Error);
}

TEST(Models, WhatIsNotAModelIsRefusedByName) {
  for (const auto& entry : fs::directory_iterator(test::golden("formats/gguf_edge/bad_model"))) {
    try {
      models::Model::open(entry.path());
      ADD_FAILURE() << entry.path() << " was accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(entry.path().filename().string()), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tenon::runtime
