#include "formats/zip_directory.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"

namespace tenon::formats {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50, kCentral = 0x02014b50,
                   kLocal = 0x04034b50;

struct Directory {
  uint64_t offset = 0, count = 0;
};

// The end record is within the last 64 KiB (a comment may follow it).
uint64_t find_end(std::span<const std::byte> file, std::string_view source) {
  constexpr uint64_t kRecord = 22;
  if (file.size() < kRecord)
    fail(ErrorCode::invalid_file, "{}: not a zip file (no end record in {} bytes)", source, file.size());
  uint64_t low = file.size() > kRecord + 65535 ? file.size() - kRecord - 65535 : 0;
  for (uint64_t at = file.size() - kRecord + 1; at-- > low;) {
    ByteReader r(file.subspan(at), source);
    if (r.read<uint32_t>("signature") == kEnd) return at;
  }
  fail(ErrorCode::invalid_file, "{}: not a zip file, or a truncated one (no end record)", source);
}

Directory find_directory(std::span<const std::byte> file, std::string_view source) {
  uint64_t end = find_end(file, source);
  ByteReader r(file, source);
  r.seek(end + 10, "end record");
  Directory d;
  d.count = r.read<uint16_t>("zip entry count");
  r.read<uint32_t>("zip directory size");
  d.offset = r.read<uint32_t>("zip directory offset");
  if (d.count != 0xFFFF && d.offset != 0xFFFFFFFF) return d;
  if (end < 20) return d;
  r.seek(end - 20, "zip64 locator");
  if (r.read<uint32_t>("zip64 locator") != kEnd64Locator) return d;
  r.read<uint32_t>("zip64 disk");
  r.seek(r.read<uint64_t>("zip64 end offset"), "zip64 end record");
  if (r.read<uint32_t>("zip64 end record") != kEnd64) r.fail_at("zip64 end record", "has a wrong signature (bad zip)");
  r.take(28, "zip64 end record");
  d.count = r.read<uint64_t>("zip64 entry count");
  r.read<uint64_t>("zip64 directory size");
  d.offset = r.read<uint64_t>("zip64 directory offset");
  return d;
}

// Sizes of 0xFFFFFFFF are in the extra field 0x0001, in this order.
void read_zip64_extra(std::span<const std::byte> extra, std::string_view source, uint64_t& size, uint64_t& packed,
                      uint64_t& offset) {
  ByteReader r(extra, source);
  while (r.remaining() >= 4) {
    auto id = r.read<uint16_t>("extra field id");
    auto n = r.read<uint16_t>("extra field size");
    ByteReader field(r.take(n, "extra field"), source);
    if (id != 1) continue;
    for (uint64_t* v : {&size, &packed, &offset})
      if (*v == 0xFFFFFFFF) *v = field.read<uint64_t>("zip64 extra field");
  }
}

struct Placed {
  uint64_t begin, end;  // local header to the end of the data
};

// Entries that share bytes can claim far more than the file holds, and mean different things to different readers.
void check_overlaps(std::vector<Placed> places, std::string_view source) {
  std::sort(places.begin(), places.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].begin < places[i - 1].end)
      fail(ErrorCode::invalid_file, "{}: zip entries overlap at offset {} (bad zip)", source, places[i].begin);
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file, std::string_view source) {
  Directory d = find_directory(file, source);
  ByteReader r(file, source);
  r.seek(d.offset, "zip directory offset");
  if (d.count > r.remaining() / 46) r.fail_at("zip entry count", "is larger than the directory (bad zip)");
  std::vector<ZipEntry> out;
  std::vector<Placed> places;
  for (uint64_t i = 0; i < d.count; ++i) {
    if (r.read<uint32_t>("zip directory entry") != kCentral)
      r.fail_at("zip directory entry", "has a wrong signature (bad zip)");
    r.take(4, "versions");
    auto flags = r.read<uint16_t>("flags");
    auto method = r.read<uint16_t>("method");
    r.take(4, "time");
    ZipEntry e;
    e.crc = r.read<uint32_t>("crc");
    uint64_t packed = r.read<uint32_t>("compressed size");
    e.size = r.read<uint32_t>("size");
    auto name = r.read<uint16_t>("name length"), extra = r.read<uint16_t>("extra length"),
         comment = r.read<uint16_t>("comment length");
    r.take(8, "attributes");
    uint64_t local = r.read<uint32_t>("local offset");
    e.name = r.chars(name, "entry name");
    read_zip64_extra(r.take(extra, "extra field"), source, e.size, packed, local);
    r.take(comment, "comment");
    if (flags & 1) fail(ErrorCode::invalid_file, "{}: zip entry {} is encrypted", source, printable(e.name));
    if (method != 0 || packed != e.size)
      fail(ErrorCode::invalid_file, "{}: zip entry {} is compressed; torch stores its entries (bad zip)", source,
           printable(e.name));
    ByteReader l(file, source);
    l.seek(local, "local header offset");
    if (l.read<uint32_t>("local header") != kLocal) l.fail_at("local header", "has a wrong signature (bad zip)");
    l.take(22, "local header");
    auto local_name = l.read<uint16_t>("local name length"), local_extra = l.read<uint16_t>("local extra length");
    l.take(uint64_t{local_name} + local_extra, "local name");
    e.offset = l.offset();
    l.take(e.size, "zip entry data");
    places.push_back({local, l.offset()});
    out.push_back(std::move(e));
  }
  check_overlaps(std::move(places), source);
  return out;
}

uint32_t crc32_of(std::span<const std::byte> bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t c = 0xFFFFFFFF;
  for (std::byte b : bytes) c = table[(c ^ static_cast<uint8_t>(b)) & 255] ^ c >> 8;
  return ~c;
}

}  // namespace tenon::formats
