// LoRA adapters of random values in folders as PEFT writes them.
#pragma once
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/safetensors_writer.h"

namespace tenon::test {

struct AdaptedLayer {
  std::string name;
  int64_t in, out, rank;
  std::vector<float> a, b;  // [rank, in], [out, rank]
};

// Fills the layers' values and writes them.
inline void write_adapter(const std::filesystem::path& folder, std::vector<AdaptedLayer>& layers, double alpha,
                          uint32_t seed, const Json& config = Json::object()) {
  std::filesystem::create_directories(folder);
  Json all = {{"peft_type", "LORA"}, {"lora_alpha", alpha}, {"r", layers[0].rank}, {"bias", "none"}};
  all.update(config);
  std::ofstream(folder / "adapter_config.json") << all.dump();
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<formats::SafetensorsWriter::Tensor> tensors;
  for (AdaptedLayer& l : layers) {
    l.a.resize(static_cast<size_t>(l.rank * l.in));
    l.b.resize(static_cast<size_t>(l.out * l.rank));
    for (std::vector<float>* v : {&l.a, &l.b})
      for (float& x : *v) x = normal(rng);
    tensors.push_back({"base_model.model." + l.name + ".lora_A.weight", DType::f32, {l.rank, l.in}});
    tensors.push_back({"base_model.model." + l.name + ".lora_B.weight", DType::f32, {l.out, l.rank}});
  }
  formats::SafetensorsWriter file(folder / "adapter_model.safetensors", tensors);
  for (size_t i = 0; i < layers.size(); ++i) {
    file.write(2 * i, 0, std::as_bytes(std::span(layers[i].a)));
    file.write(2 * i + 1, 0, std::as_bytes(std::span(layers[i].b)));
  }
}

}  // namespace tenon::test
