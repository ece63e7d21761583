// Low-rank adapters (LoRA) beside a model's weights: several of them stacked per linear layer, so that every row of a
// step may have another one.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/config.h"
#include "graph/builder.h"

namespace tenon::models {

struct AdapterFile {
  std::string name;
  std::filesystem::path path;  // a folder as PEFT writes it: adapter_config.json, adapter_model.safetensors
};

// The model's weights and, for a layer NAME that some adapter changes, two more:
//   NAME.lora_A  F32 [adapters, rank, in]
//   NAME.lora_B  F32 [adapters, rank, out], transposed and scaled
// rank is the largest of the adapters'; what lies beyond one's own is zero.
class AdaptedSource final : public graph::WeightSource {
 public:
  // Throws Error naming file and field or tensor: no LoRA, DoRA, other trained parts, shapes that do not fit.
  AdaptedSource(const graph::WeightSource& base, std::span<const AdapterFile> files);

  std::optional<graph::TensorType> find(std::string_view name) const override;
  graph::TensorType require(std::string_view name) const override;
  std::vector<float> values(std::string_view name) const override { return base_.values(name); }

  const std::vector<AdapterFile>& adapters() const { return files_; }
  size_t tensors() const;  // in the adapters' files
  bool has(std::string_view weight) const;
  // The values of a weight that has().
  void fill(std::string_view weight, std::span<float> out) const;
  // Throws Error{invalid_file} for a layer of an adapter that no node of the network reads.
  void require_used(const graph::Graph& graph) const;

 private:
  struct Part {
    size_t adapter;
    const formats::TensorInfo *a, *b;  // [rank, in], [out, rank]
    float scale;
  };
  struct Layer {
    int64_t rank = 0, in = 0, out = 0;
    std::vector<Part> parts;
  };
  void add(size_t adapter);
  const Layer* layer(std::string_view weight, bool& is_b) const;

  const graph::WeightSource& base_;
  std::vector<AdapterFile> files_;
  std::vector<formats::Checkpoint> checkpoints_;
  std::map<std::string, Layer, std::less<>> layers_;
};

}  // namespace tenon::models
