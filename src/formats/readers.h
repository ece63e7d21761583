// One reader per container; Checkpoint::open picks by the file's first bytes. Each adds its checked tensors.
#pragma once
#include <filesystem>

#include "formats/checkpoint.h"

namespace tenon::formats {

void read_safetensors(std::shared_ptr<const MappedFile> file, Checkpoint& out);
void read_safetensors_index(const std::filesystem::path& index, Checkpoint& out);
void read_gguf(std::shared_ptr<const MappedFile> file, Checkpoint& out);
void read_torch(std::shared_ptr<const MappedFile> file, Checkpoint& out);

// Files an index.json names, each below the index's folder, with the tensors it promises in each.
// Throws Error{invalid_file} for a path that leaves the folder.
struct ShardIndex {
  std::vector<std::string> files;                            // in order of first mention
  std::vector<std::pair<std::string, std::string>> tensors;  // (tensor, file)
};
ShardIndex read_shard_index(const std::filesystem::path& index);

}  // namespace tenon::formats
