// A published set of tensors, whatever its container: names -> dtype, shape and a span of a mapped file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace tenon::formats {

class Gguf;

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;    // outermost first; GGUF's dims reversed
  std::vector<int64_t> strides;  // in elements; empty: contiguous row-major (only PyTorch files have others)
  uint32_t file = 0;             // index into Checkpoint::files()
  uint64_t offset = 0;           // of the first element, in that file
  uint64_t bytes = 0;            // of the contiguous tensor

  int64_t elements() const;
};

enum class Container { safetensors, gguf, torch };

class Checkpoint {
 public:
  // A .safetensors, .gguf (first or only part of a split), .bin/.pth/.pt file, a *.index.json, or a directory that
  // holds one of model.safetensors[.index.json], pytorch_model.bin[.index.json], a single *.safetensors or *.gguf. The
  // kind of a file is decided by its first bytes, but a name that ends in .safetensors is held to it. Everything is
  // checked here: a tensor returned lies inside its file. Throws Error naming file, field and offset. Reads headers
  // only.
  static Checkpoint open(const std::filesystem::path& path);

  Container container() const { return container_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in file order
  const TensorInfo* find(std::string_view name) const;
  const TensorInfo& at(std::string_view name) const;  // throws Error{not_found} that names the nearest names

  // The tensor's bytes in the map; strided tensors have none (use contiguous()).
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;
  // Row-major bytes in `out` (tensor.bytes long), gathered when the tensor is strided.
  void contiguous(const TensorInfo& tensor, std::span<std::byte> out) const;

  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }
  const Gguf* gguf() const { return gguf_.get(); }  // metadata, when the container is GGUF
  const std::vector<std::pair<std::string, std::string>>& metadata() const {
    return metadata_;
  }  // safetensors __metadata__

  // For the readers: adds a checked tensor; throws Error{invalid_file} on a duplicate name.
  void add(TensorInfo tensor);
  uint32_t add_file(std::shared_ptr<const MappedFile> file);
  void set_gguf(std::shared_ptr<const Gguf> gguf) { gguf_ = std::move(gguf); }
  void add_metadata(std::vector<std::pair<std::string, std::string>> entries) {
    for (auto& e : entries) metadata_.push_back(std::move(e));
  }

 private:
  Container container_ = Container::safetensors;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::shared_ptr<const Gguf> gguf_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace tenon::formats
