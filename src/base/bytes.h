// Bounds-checked little-endian reader over bytes that are not trusted. Every failure names the source and the offset.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tenon {

class ByteReader {
 public:
  // `source` names the file in messages and must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, std::string_view source) : bytes_(bytes), source_(source) {}

  uint64_t offset() const { return at_; }
  uint64_t remaining() const { return bytes_.size() - at_; }
  std::string_view source() const { return source_; }

  void seek(uint64_t offset, std::string_view field) {
    if (offset > bytes_.size()) fail_at(field, "offset is past the end of the file");
    at_ = offset;
  }

  std::span<const std::byte> take(uint64_t n, std::string_view field) {
    if (n > remaining())
      fail(ErrorCode::invalid_file, "{}: {} needs {} bytes at offset {}, the file has {} left (truncated or corrupt)",
           source_, field, n, at_, remaining());
    auto r = bytes_.subspan(at_, n);
    at_ += n;
    return r;
  }

  // An integer or float, byte-swapped when the file is big-endian.
  template <class T>
  T read(std::string_view field, bool big_endian = false) {
    auto raw = take(sizeof(T), field);
    unsigned char b[sizeof(T)];
    std::memcpy(b, raw.data(), sizeof(T));
    if (big_endian)
      for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(b[i], b[sizeof(T) - 1 - i]);
    T v;
    std::memcpy(&v, b, sizeof(T));
    return v;
  }

  std::string_view chars(uint64_t n, std::string_view field) {
    auto raw = take(n, field);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  [[noreturn]] void fail_at(std::string_view field, std::string_view why) const {
    fail(ErrorCode::invalid_file, "{}: {} at offset {}: {}", source_, field, at_, why);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view source_;
  uint64_t at_ = 0;
};

}  // namespace tenon
