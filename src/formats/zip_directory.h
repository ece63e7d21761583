// Where the stored entries of a zip file lie, so that they can be used in the map. Compressed entries are refused:
// torch stores.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::formats {

struct ZipEntry {
  std::string name;
  uint64_t offset = 0, size = 0;  // of the data
  uint32_t crc = 0;
};

// Throws Error{invalid_file} naming `source` and what is wrong with the zip (APPNOTE 6.3.10 sections 4.3-4.5, zip64
// included).
std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file, std::string_view source);

uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace tenon::formats
