// Files: read-only maps, whole small files, atomic writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// A read-only map of a whole file. If the file shrinks under the map, the process ends with one line that names it (the
// SIGBUS handler installed by the first map) instead of a bare signal.
class MappedFile {
 public:
  // Throws Error{not_found|io}. An empty file maps to an empty span.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  std::string name() const { return path_.string(); }  // for messages

  // Drops the resident pages of a range (it is read again from the page cache when touched).
  void drop(std::span<const std::byte> range) const noexcept;

 private:
  MappedFile() = default;
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;
};

// Throws Error{invalid_file} when the file is larger than `limit` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t limit = 256 << 20);

// Writes to a temporary file beside `path` and renames it over.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tenon
