// A checkpoint as the builder sees it: Hugging Face names over any container, and the model it belongs to.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "formats/checkpoint.h"
#include "formats/packed_weights.h"
#include "models/adapters.h"
#include "models/family.h"

namespace tenon::models {

class CheckpointSource final : public graph::WeightSource {
 public:
  CheckpointSource(const formats::Checkpoint& checkpoint, const Config& config);

  std::optional<graph::TensorType> find(std::string_view name) const override;
  graph::TensorType require(std::string_view name) const override;
  std::vector<float> values(std::string_view name) const override;

  // The stored tensor behind a Hugging Face name; null when there is none. Checkpoints saved from the bare model leave
  // out its prefix ("transformer.", "model."): both spellings are found.
  const formats::TensorInfo* locate(std::string_view name) const;
  // A matrix that is stored in several tensors, by its Hugging Face name; it goes before locate()'s.
  const formats::PackedWeight* packed(std::string_view name) const;

 private:
  const formats::Checkpoint& checkpoint_;
  formats::PackedWeights packed_;
  std::string architecture_;  // GGUF only
};

// What a model or adapter is called by where it lies: the folder's or file's name without ending.
std::string id_of(const std::filesystem::path& path);

// A model on disk: headers read, network known, no weight touched.
class Model {
 public:
  // A directory, a .gguf file, a weights file with config.json beside it. Throws Error.
  static std::shared_ptr<const Model> open(const std::filesystem::path& path,
                                           std::span<const AdapterFile> adapters = {});

  const std::filesystem::path& path() const { return path_; }
  const formats::Checkpoint& checkpoint() const { return checkpoint_; }
  const Config& config() const { return config_; }
  const Family& family() const { return *family_; }
  const CheckpointSource& source() const { return *source_; }
  const AdaptedSource& adapted() const { return *adapted_; }  // the source with the adapters
  Dimensions dimensions() const { return dimensions_; }       // vocab is the head's

  // The network of a step. `hidden_states`: every layer's output is an output too.
  graph::Graph build(bool hidden_states) const;
  // Exact number of parameters the network uses (a tied table counts once).
  int64_t parameters() const;
  std::string id() const { return id_of(path_); }

 private:
  Model(std::filesystem::path path, formats::Checkpoint checkpoint, Config config);
  std::filesystem::path path_;
  formats::Checkpoint checkpoint_;
  Config config_;
  const Family* family_;
  std::unique_ptr<CheckpointSource> source_;
  std::unique_ptr<AdaptedSource> adapted_;
  Dimensions dimensions_;
};

// config.json of the model at `path` (a directory or a file in it), or GGUF metadata.
Config read_config(const std::filesystem::path& path, const formats::Checkpoint& checkpoint);

}  // namespace tenon::models
