// Matrices in several tensors: their values are the reference's, blocks hold the same ones, what does not fit together
// is refused.
#include "formats/packed_weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "base/error.h"
#include "support/kit.h"
#include "tensor/quant.h"

namespace tenon::formats {
namespace {

namespace fs = std::filesystem;

std::vector<float> all_values(const PackedWeight& w) {
  std::vector<float> v(static_cast<size_t>(w.out * w.in));
  for (int64_t r = 0; r < w.out; ++r)
    for (int64_t k = 0; k < w.in; k += 100)  // pieces that begin anywhere
      w.read(r, k, std::min<int64_t>(100, w.in - k), v.data() + r * w.in + k);
  return v;
}

std::vector<float> held_values(const PackedWeight& w) {
  std::vector<float> v(static_cast<size_t>(w.out * w.in));
  const uint64_t row = bytes_for(w.held, w.in, "row");
  std::vector<std::byte> blocks(row * PackedWeight::kRowsAtATime);
  for (int64_t r = 0; r < w.out; r += PackedWeight::kRowsAtATime) {
    const int64_t rows = std::min(PackedWeight::kRowsAtATime, w.out - r);
    w.hold(r, rows, blocks.data());
    decode(w.held, blocks.data(), v.data() + r * w.in, rows * w.in);
  }
  return v;
}

// How many matrices of the case were compared.
int check_case(const fs::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder), expected = Checkpoint::open(folder / "expected.safetensors");
  const PackedWeights weights(checkpoint, Config::from_file(folder / "config.json"));
  const Json sums = read_json(folder / "case.json")["dequantised_sum_and_abs_sum"];
  int compared = 0;
  for (const TensorInfo& t : expected.tensors()) {
    if (!t.name.starts_with("w.")) continue;
    const std::string name = t.name.substr(2);
    const PackedWeight* w = weights.find(name);
    if (!w) continue;  // experts
    SCOPED_TRACE(name);
    ++compared;
    const std::vector<float> got = all_values(*w);
    std::vector<float> want(static_cast<size_t>(t.elements()));
    decode(t.dtype, expected.bytes(t).data(), want.data(), t.elements());
    EXPECT_EQ(w->in, t.shape[1]);
    float most = 0;
    for (float x : want) most = std::max(most, std::abs(x));
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6f * most) << i;
    double sum = 0, sum_of_absolutes = 0;
    for (float x : got) sum += x, sum_of_absolutes += std::abs(x);
    EXPECT_NEAR(sum, sums[name][0].get<double>(), 1e-6 * sum_of_absolutes);
    EXPECT_NEAR(sum_of_absolutes, sums[name][1].get<double>(), 1e-6 * sum_of_absolutes);
    if (w->held == DType::f32) continue;
    const std::vector<float> held = held_values(*w);
    // Eight bits and a bias of their own: the codes are less 128, which costs a rounding.
    const float slack = w->held == DType::affine8_32 ? 1e-6f * most : 0;
    for (size_t i = 0; i < got.size(); ++i)
      if (!(std::abs(held[i] - got[i]) <= slack)) {
        ADD_FAILURE() << "element " << i << " is held as " << held[i] << ", not " << got[i];
        break;
      }
  }
  return compared;
}

bool is_packed(const fs::path& folder) {
  std::ifstream config(folder / "config.json");
  const std::string text((std::istreambuf_iterator<char>(config)), {});
  return text.find("quantization_config") != std::string::npos && text.find("gpt_oss") == std::string::npos;
}

TEST(PackedWeights, AreTheReferences) {
  int cases = 0;
  for (auto root : {std::optional(test::golden("models")), test::kit("formats/hf_quant")}) {
    if (!root) continue;
    for (const auto& entry : fs::directory_iterator(*root)) {
      if (!is_packed(entry.path())) continue;
      SCOPED_TRACE(entry.path().filename().string());
      ++cases;
      EXPECT_GE(check_case(entry.path()), 7);
    }
  }
  EXPECT_GE(cases, 10);
}

TEST(PackedWeights, AreHeldInBlocks) {
  auto held = [](const char* name) {
    const fs::path folder = test::golden(std::string("models/") + name);
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const PackedWeights weights(checkpoint, Config::from_file(folder / "config.json"));
    return weights.find("model.layers.0.mlp.down_proj.weight")->held;
  };
  EXPECT_EQ(held("gptq-4bit-g128-sym"), DType::int4_128);
  EXPECT_EQ(held("gptq-8bit-g128-sym"), DType::int8_32);
  EXPECT_EQ(held("gptq-4bit-g128-asym-actorder"), DType::f32);
  EXPECT_EQ(held("awq-4bit-g128"), DType::int4_128);
  EXPECT_EQ(held("ct-w4a16-g128"), DType::int4_128);
  EXPECT_EQ(held("mlx-4bit-g64"), DType::affine4_32);
  EXPECT_EQ(held("mlx-8bit-g64"), DType::affine8_32);
  EXPECT_EQ(held("mlx-mxfp4"), DType::mxfp4);
  EXPECT_EQ(held("fp8-block128"), DType::f32);
}

// A safetensors file with another header over the same data.
void rewrite(const fs::path& from, const fs::path& to, const std::function<void(Json&)>& change) {
  std::ifstream in(from, std::ios::binary);
  uint64_t n = 0;
  in.read(reinterpret_cast<char*>(&n), 8);
  std::string header(n, ' ');
  in.read(header.data(), static_cast<std::streamsize>(n));
  const std::string data((std::istreambuf_iterator<char>(in)), {});
  Json j = Json::parse(header);
  change(j);
  header = j.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  n = header.size();
  std::ofstream out(to, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&n), 8);
  out << header << data;
}

// Whatever the header and the configuration say, it is refused or read without a step outside (the address sanitizer
// looks on).
TEST(PackedWeights, WhatDoesNotFitIsRefused) {
  std::mt19937 rng(5);
  int refused = 0, read = 0;
  const fs::path file = fs::temp_directory_path() / ("tenon_packed_" + std::to_string(getpid()) + ".safetensors");
  for (const auto& entry : fs::directory_iterator(test::golden("models"))) {
    if (!is_packed(entry.path())) continue;
    const Json config = read_json(entry.path() / "config.json");
    for (int i = 0; i < 50; ++i) {
      rewrite(entry.path() / "model.safetensors", file, [&](Json& header) {
        std::vector<std::string> names;
        for (const auto& [name, t] : header.items())
          if (name.find("layers.0.mlp") != std::string::npos) names.push_back(name);
        for (int changes = i % 3; changes-- > 0;) {
          const std::string name = names[rng() % names.size()];
          if (!header.contains(name)) continue;
          Json& shape = header[name]["shape"];
          const auto axis = rng() % shape.size();
          const int64_t size = shape[axis];
          switch (rng() % 5) {
            case 0:
              header.erase(name);
              break;
            case 1:
              if (size % 2 == 0) shape[axis] = size / 2, shape.push_back(2);
              break;
            case 2:
              if (size % 4 == 0) shape[axis] = size / 4, shape[0] = shape[0].get<int64_t>() * 4;
              break;
            case 3:
              std::reverse(shape.begin(), shape.end());
              break;
            default:
              for (auto [was, is] :
                   {std::pair{"I32", "F32"}, {"F32", "I32"}, {"F16", "BF16"}, {"BF16", "F16"}, {"U8", "I8"}})
                if (header[name]["dtype"] == was) {
                  header[name]["dtype"] = is;
                  break;
                }
          }
        }
      });
      Json changed = config;
      for (const char* key : {"quantization_config", "quantization"})
        if (changed.contains(key) && i % 2) {
          const std::pair<const char*, std::vector<Json>> fields[] = {
              {"bits", {2, 3, 4, 5, 8, 16, 0, -4, "4"}},
              {"group_size", {-1, 0, 1, 7, 32, 96, 1000000, int64_t{1} << 40, -2}},
              {"weight_block_size", {{0, 128}, {1, 1}, {128}, {3, 1000000}, "x"}},
              {"mode", {"affine", "mxfp4", "nvfp4", "other"}},
              {"quant_method", {"gptq", "awq", "fp8", "quipper"}}};
          const auto& [field, values] = fields[rng() % 5];
          changed[key][field] = values[rng() % values.size()];
        }
      try {
        const Checkpoint checkpoint = Checkpoint::open(file);
        const PackedWeights weights(checkpoint, Config(changed, "config.json"));
        for (const TensorInfo& t : checkpoint.tensors())
          for (const char* suffix : {".qweight", ".weight_packed", ".weight"})
            if (t.name.ends_with(suffix) && t.name.find("layers.0.mlp.down") != std::string::npos)
              if (const PackedWeight* w =
                      weights.find(t.name.substr(0, t.name.size() - std::strlen(suffix)) + ".weight")) {
                all_values(*w);
                if (w->held != DType::f32) held_values(*w);
                ++read;
              }
      } catch (const Error& e) {
        ++refused;
        EXPECT_FALSE(std::string(e.what()).empty());
      }
    }
  }
  fs::remove(file);
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

TEST(PackedWeights, RefusalsNameWhatIsWrong) {
  const fs::path folder = test::golden("models/gptq-4bit-g128-sym");
  const Checkpoint checkpoint = Checkpoint::open(folder);
  auto message = [&](const char* key, const Json& value) -> std::string {
    Json config = read_json(folder / "config.json");
    config["quantization_config"][key] = value;
    try {
      PackedWeights(checkpoint, Config(config, "config.json"));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("quant_method", "hqq").find("'hqq' is not supported; gptq, awq"), std::string::npos);
  EXPECT_NE(message("bits", 7).find("bits 7"), std::string::npos);
  EXPECT_NE(message("group_size", 64).find(".scales has shape"), std::string::npos) << message("group_size", 64);
  EXPECT_EQ(message("bits", 4), "");
}

}  // namespace
}  // namespace tenon::formats
