// GGUF v2/v3 (ggml docs/gguf.md): key/values and the tensor table. Arrays and strings stay in the map and are read on
// demand.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"

namespace tenon::formats {

enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

class GgufValue {
 public:
  GgufType type;
  GgufType item = GgufType::u8;    // of an array
  uint64_t count = 0;              // of an array
  std::span<const std::byte> raw;  // scalar bytes; a string's characters; an array's items as they lie in the file

  // Conversions; nullopt when the type does not fit (integers widen, a float may be read from any number).
  std::optional<int64_t> integer() const;
  std::optional<double> real() const;
  std::optional<bool> flag() const;
  std::optional<std::string_view> string() const;
  // Arrays of numbers, converted; nullopt for other items.
  std::optional<std::vector<int64_t>> integers() const;
  std::optional<std::vector<double>> reals() const;
  // Arrays of strings, as views into the map (one pass; bounds were checked on open).
  std::optional<std::vector<std::string_view>> strings() const;
};

struct GgufKey {
  std::string_view name;
  GgufValue value;
};

// The parsed header of one file (for a split: of its first part).
class Gguf {
 public:
  const std::vector<GgufKey>& keys() const { return keys_; }  // in file order
  const GgufValue* find(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  uint32_t version() const { return version_; }
  const MappedFile& file() const { return *file_; }

 private:
  friend struct GgufParser;
  std::shared_ptr<const MappedFile> file_;  // keeps the views above alive
  std::vector<GgufKey> keys_;
  uint32_t version_ = 0;
};

std::optional<DType> dtype_of_ggml(uint32_t type);  // ggml's type number
bool looks_like_gguf(std::span<const std::byte> file);

}  // namespace tenon::formats
