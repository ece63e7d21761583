// Adapters per row: each the model with its matrices merged, none the model without any, whoever else is in the step.
#include "models/adapters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "runtime/scheduler.h"
#include "support/adapters.h"
#include "support/kit.h"

namespace tenon::runtime {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using test::AdaptedLayer;

constexpr double kAlpha = 6;
const Ids kPrompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2,
                     3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 2, 8};

class Adapters : public testing::Test {
 protected:
  // The golden llama is stored as f32: hidden 64, intermediate 72.
  const fs::path model_ = test::golden("models/llama"),
                 folder_ = fs::temp_directory_path() / ("tenon_adapters_" + std::to_string(getpid()));
  std::vector<std::vector<AdaptedLayer>> layers_ = {
      {{"model.layers.0.self_attn.q_proj", 64, 64, 4},
       {"model.layers.1.mlp.down_proj", 72, 64, 4},
       {"model.layers.1.mlp.gate_proj", 64, 72, 4}},
      {{"model.layers.0.self_attn.q_proj", 64, 64, 9}, {"model.layers.0.self_attn.v_proj", 64, 64, 9}}};
  std::vector<models::AdapterFile> files_;

  void SetUp() override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      files_.push_back({std::string(1, static_cast<char>('a' + i)), folder_ / std::to_string(i)});
      test::write_adapter(files_[i].path, layers_[i], kAlpha, static_cast<uint32_t>(i));
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  RunOptions options(const std::string& device = "cpu") const {
    RunOptions o;
    o.context = 128;
    o.max_sequences = 3;
    o.all_logits = true;
    o.compute_f32 = true;
    o.threads = 2;
    o.device = device;
    return o;
  }

  // A copy of the model in which W is W + alpha / rank * B A.
  fs::path merged(size_t adapter) const {
    const fs::path to = folder_ / ("merged" + std::to_string(adapter));
    fs::create_directories(to);
    for (const char* f : {"config.json", "model.safetensors"})
      fs::copy_file(model_ / f, to / f, fs::copy_options::overwrite_existing);
    const auto c = formats::Checkpoint::open(to);
    std::fstream file(to / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    for (const AdaptedLayer& l : layers_[adapter]) {
      const formats::TensorInfo& t = c.at(l.name + ".weight");
      std::vector<float> w(static_cast<size_t>(t.elements()));
      std::memcpy(w.data(), c.bytes(t).data(), t.bytes);
      for (int64_t o = 0; o < l.out; ++o)
        for (int64_t i = 0; i < l.in; ++i) {
          double sum = 0;
          for (int64_t r = 0; r < l.rank; ++r)
            sum +=
                static_cast<double>(l.b[static_cast<size_t>(o * l.rank + r)]) * l.a[static_cast<size_t>(r * l.in + i)];
          w[static_cast<size_t>(o * l.in + i)] += static_cast<float>(kAlpha / static_cast<double>(l.rank) * sum);
        }
      file.seekp(static_cast<std::streamoff>(t.offset));
      file.write(reinterpret_cast<const char*>(w.data()), static_cast<std::streamsize>(t.bytes));
    }
    return to;
  }
};

// All rows' logits of the prompt under each adapter, all sequences in one step.
std::vector<std::vector<float>> logits(Engine& e, const std::vector<int32_t>& adapters) {
  std::vector<BatchItem> batch;
  for (size_t i = 0; i < adapters.size(); ++i) {
    e.reset(static_cast<int64_t>(i));
    batch.push_back(
        {static_cast<int64_t>(i), kPrompt, static_cast<int64_t>(kPrompt.size()), BatchItem::Outputs::all, adapters[i]});
  }
  std::vector<std::vector<float>> out(adapters.size());
  EXPECT_TRUE(e.step(
      batch, [&](const StepOutput& o) { out[o.item].insert(out[o.item].end(), o.logits.begin(), o.logits.end()); }));
  return out;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
  return worst;
}

TEST_F(Adapters, AreTheMergedModels) {
  for (const char* device : {"cpu", "reference"}) {
    SCOPED_TRACE(device);
    Engine e(models::Model::open(model_, files_), options(device));
    Engine plain(models::Model::open(model_), options(device));
    const auto together = logits(e, {1, -1, 0});
    EXPECT_EQ(together[1], logits(plain, {-1})[0]) << "no adapter, the model's own bits";
    for (size_t i : {size_t{0}, size_t{1}}) {
      const auto& got = together[i == 0 ? 2 : 0];
      Engine want(models::Model::open(merged(i)), options(device));
      EXPECT_LT(distance(got, logits(want, {-1})[0]), 2e-4);
      EXPECT_GT(distance(got, together[1]), 0.05) << "an adapter that changes nothing proves nothing";
      EXPECT_EQ(got, logits(e, {static_cast<int32_t>(i)})[0]) << "the bits it has alone";
      // Loaded alone it has the same bits too.
      Engine one(models::Model::open(model_, std::span(files_).subspan(i, 1)), options(device));
      EXPECT_EQ(got, logits(one, {0})[0]);
    }
  }
}

TEST_F(Adapters, AreInThePlan) {
  const RunOptions o = options();
  const Layout with = plan_fitting(*models::Model::open(model_, files_), o),
               without = plan_fitting(*models::Model::open(model_), o);
  // Two stacks of the largest rank for each of four layers, f32, rounded up to cache lines.
  const uint64_t floats = 2 * (9 * (64 + 64) + 4 * (72 + 64) + 4 * (64 + 72) + 9 * (64 + 64));
  EXPECT_GE(with.memory.weights - without.memory.weights, floats * 4);
  EXPECT_LE(with.memory.weights - without.memory.weights, floats * 4 + 8 * 64);
}

struct Collect : Listener {
  Ids got;
  bool token(int32_t t, const LogProbs*) noexcept override {
    got.push_back(t);
    return true;
  }
  void finished(Finish) noexcept override {}
};

TEST_F(Adapters, SharePrefixesAmongTheirOwnAlone) {
  RunOptions o = options();
  o.prefix_cache = true;
  Engine e(models::Model::open(model_, files_), o);
  Scheduler scheduler(e, 8);
  std::vector<Ids> first;
  for (int round = 0; round < 2; ++round)
    for (int32_t adapter : {-1, 0, 1}) {
      Collect collect;
      Sequence s;
      s.tokens = kPrompt;
      s.tokens.reserve(64);
      s.prompt_length = static_cast<int64_t>(kPrompt.size());
      s.max_tokens = 12;
      s.adapter = adapter;
      s.listener = &collect;
      s.sampler.emplace(SamplingOptions{.temperature = 0}, e.vocab(), e.sampler_scratch());
      scheduler.submit(s, Clock::now());
      while (scheduler.step(Clock::now())) {
      }
      EXPECT_EQ(s.reused, round * 32) << "adapter " << adapter;
      if (round == 0)
        first.push_back(collect.got);
      else
        EXPECT_EQ(collect.got, first[static_cast<size_t>(adapter + 1)]);
    }
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
}

TEST_F(Adapters, WhatCannotBeHonouredIsRefusedByName) {
  auto refused = [&](const std::string& name, std::vector<AdaptedLayer> layers, const Json& config) {
    const fs::path to = folder_ / "bad";
    test::write_adapter(to, layers, 1, 3, config);
    const models::AdapterFile file{"bad", to};
    try {
      models::Model::open(model_, {&file, 1});
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  };
  const AdaptedLayer good{"model.layers.0.self_attn.q_proj", 64, 64, 2};
  refused("peft_type", {good}, {{"peft_type", "IA3"}});
  refused("use_dora", {good}, {{"use_dora", true}});
  refused("bias", {good}, {{"bias", "all"}});
  refused("modules_to_save", {good}, {{"modules_to_save", {"lm_head"}}});
  refused("alpha_pattern", {good}, {{"alpha_pattern", {{"q_proj", 3}}}});
  refused("lora_alpha", {good}, {{"lora_alpha", "much"}});
  refused("layers.7", {{"model.layers.7.self_attn.q_proj", 64, 64, 2}}, Json::object());
  refused("low_rank", {{"model.layers.0.self_attn.q_proj", 32, 64, 2}}, Json::object());
  refused("rank", {{"model.layers.0.self_attn.q_proj", 64, 64, 2000}}, Json::object());
  refused("head", {{"lm_head", 64, 112, 2}}, Json::object());
  for (const char* half : {".lora_A", ".lora_B"}) {
    const std::string name = "base_model.model." + good.name + half + ".weight";
    const fs::path to = folder_ / "half";
    std::vector<AdaptedLayer> layers{good};
    test::write_adapter(to, layers, 1, 3);
    {
      formats::SafetensorsWriter file(to / "adapter_model.safetensors", {{name, DType::f32, {64, 64}}});
      const std::vector<float> zeros(64 * 64);
      file.write(0, 0, std::as_bytes(std::span(zeros)));
    }
    const models::AdapterFile file{"half", to};
    EXPECT_THROW(models::Model::open(model_, {&file, 1}), Error) << half << " alone";
  }
  const models::AdapterFile missing{"none", folder_ / "none"};
  EXPECT_THROW(models::Model::open(model_, {&missing, 1}), Error);
  // llama's GGUF files permute the rows of q_proj and k_proj.
  EXPECT_THROW(models::Model::open(test::golden("models/llama-s-q4_0/model.gguf"), files_), Error);
}

TEST_F(Adapters, ScaleByTheRootWhereTheySaySo) {
  const fs::path to = folder_ / "root";
  std::vector<AdaptedLayer> layers = {{"model.layers.0.self_attn.v_proj", 64, 64, 4}};
  test::write_adapter(to, layers, kAlpha, 5, {{"use_rslora", true}});
  const models::AdapterFile file{"root", to};
  const auto model = models::Model::open(model_, {&file, 1});
  std::vector<float> b(4 * 64);
  model->adapted().fill("model.layers.0.self_attn.v_proj.lora_B", b);
  EXPECT_FLOAT_EQ(b[64], static_cast<float>(kAlpha / 2) * layers[0].b[1]);  // [1][0] is B's [0][1]
}

}  // namespace
}  // namespace tenon::runtime
