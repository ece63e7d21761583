// Matrices that Hugging Face checkpoints keep in several tensors: integers with a scale per group (GPTQ, AWQ,
// compressed-tensors, MLX, bitsandbytes), FP8 and FP4 with scales.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/config.h"
#include "tensor/matrix_reader.h"

namespace tenon::formats {

// A matrix [out, in] and the tensors that make it up.
class PackedWeight : public MatrixReader {
 public:
  int64_t out = 0, in = 0;
  // The block type that holds exactly the same values; f32: none does, and read() serves it from where it lies.
  DType held = DType::f32;
  std::vector<const TensorInfo*> parts;

  uint64_t bytes() const;  // of all parts
  // Rows [row, row + rows) as blocks of `held`; up to kRowsAtATime.
  virtual void hold(int64_t row, int64_t rows, std::byte* to) const noexcept;
  static constexpr int64_t kRowsAtATime = 16;
};

class PackedWeights {
 public:
  PackedWeights() = default;
  // By the tensors' names and config.json's quantization_config. Throws Error{unsupported} for a method that is not
  // known, Error{invalid_file} naming the tensor whose shape or type does not fit the others.
  PackedWeights(const Checkpoint& checkpoint, const Config& config);

  const PackedWeight* find(std::string_view name) const;  // "....weight"; null: there is none

 private:
  std::unordered_map<std::string, std::unique_ptr<PackedWeight>> weights_;
};

}  // namespace tenon::formats
