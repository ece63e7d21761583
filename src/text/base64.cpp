#include "text/base64.h"

#include <array>
#include <cstdint>

namespace tenon::text {
namespace {

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> v{};
  for (auto& x : v) x = -1;
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kAlphabet.size(); ++i) v[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  return v;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr auto kValues = make_values();
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0, held = 0;
  for (char c : text) {
    int8_t v = kValues[static_cast<uint8_t>(c)];
    if (v < 0) return std::nullopt;
    held = held << 6 | static_cast<uint32_t>(v);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out.push_back(static_cast<char>(held >> bits & 0xFF));
    }
  }
  return out;
}

}  // namespace tenon::text
