#include "base/error.h"

#include <cstring>

namespace tenon {
namespace {

// Length of the well-formed UTF-8 sequence at `p`, 0 if there is none (Unicode 15, table 3-7).
size_t utf8_length(const unsigned char* p, size_t n) {
  auto tail = [&](size_t i) { return i < n && (p[i] & 0xC0) == 0x80; };
  if (p[0] < 0x80) return 1;
  if (p[0] >= 0xC2 && p[0] <= 0xDF) return tail(1) ? 2 : 0;
  if (p[0] >= 0xE0 && p[0] <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (p[0] == 0xE0 && p[1] < 0xA0) return 0;
    if (p[0] == 0xED && p[1] > 0x9F) return 0;
    return 3;
  }
  if (p[0] >= 0xF0 && p[0] <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (p[0] == 0xF0 && p[1] < 0x90) return 0;
    if (p[0] == 0xF4 && p[1] > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  auto p = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= limit) return out + "...";
    size_t n = utf8_length(p + i, text.size() - i);
    if (n == 0 || p[i] < 0x20 || p[i] == 0x7F) {
      out += fmt::format("\\x{:02x}", p[i]);
      i += 1;
    } else {
      out.append(text.substr(i, n));
      i += n;
    }
  }
  return out;
}

void check_failed(const char* condition, const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  throw Error(ErrorCode::internal, fmt::format("internal error: {} does not hold ({}:{}); please report it", condition,
                                               slash ? slash + 1 : file, line));
}

}  // namespace tenon
