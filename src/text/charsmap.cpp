#include "text/charsmap.h"

#include <cstring>

#include "base/error.h"

namespace tenon::text {

Charsmap::Charsmap(std::string_view blob, std::string_view source) {
  uint32_t bytes = 0;
  if (blob.size() >= 4) std::memcpy(&bytes, blob.data(), 4);
  if (blob.size() < 4 || bytes > blob.size() - 4 || bytes % 4 != 0 || bytes == 0)
    fail(ErrorCode::invalid_file, "{}: precompiled_charsmap of {} bytes says its table has {}", source, blob.size(),
         bytes);
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), blob.data() + 4, bytes);
  strings_ = blob.substr(4 + bytes);
  strings_.push_back('\0');
}

// A unit holds its label (low byte, bit 31 set in leaves), whether a leaf follows (bit 8) and the offset to its
// children.
std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool first) const {
  auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); };
  size_t node = offset(units_[0]);
  std::optional<Match> found;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<uint8_t>(text[i]);
    node ^= c;
    if (c == 0 || node >= units_.size()) break;
    uint32_t unit = units_[node];
    if ((unit & 0x800000FFu) != c) break;
    node ^= offset(unit);
    if (node >= units_.size()) break;
    if (!(unit >> 8 & 1)) continue;
    size_t at = units_[node] & 0x7FFFFFFFu;
    if (at >= strings_.size()) break;
    found = Match{i + 1, std::string_view(strings_.c_str() + at)};
    if (first) break;
  }
  return found;
}

}  // namespace tenon::text
