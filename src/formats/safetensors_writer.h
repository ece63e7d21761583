// Writing a safetensors file whose tensors arrive piece by piece: the header goes first, data is placed by offset.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace tenon::formats {

class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
  };
  // Creates `path` (truncating it). Throws Error{io}.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<Tensor> tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Writes bytes of tensor `index` from byte `offset` on. Throws Error{io}.
  void write(size_t index, uint64_t offset, std::span<const std::byte> bytes);

 private:
  std::string path_;
  int fd_ = -1;
  std::vector<uint64_t> begin_, size_;
};

}  // namespace tenon::formats
