#include "text/unicode.h"

#include <algorithm>

namespace tenon::text {

void append_utf8(std::string& out, char32_t c) {
  auto put = [&](char32_t v) { out.push_back(static_cast<char>(v)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) append_utf8(out, c);
  return out;
}

std::u32string to_utf32(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    CodePoint c = decode_utf8(text.data() + at);
    out.push_back(c.value);
    at += c.bytes;
  }
  return out;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// The Unicode standard's table 3-7: which second bytes may follow a lead byte.
Utf8Step utf8_step(std::string_view text) {
  auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {1, true, false};
  uint32_t length = lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1;
  if (length == 1) return {1, false, false};
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (uint32_t i = 1; i < length; ++i, low = 0x80, high = 0xBF) {
    if (i == text.size()) return {i, false, true};
    auto b = static_cast<uint8_t>(text[i]);
    if (b < low || b > high) return {i, false, false};
  }
  return {length, true, false};
}

bool incomplete_utf8(std::string_view rest) {
  if (utf8_step(rest).cut) return true;
  return rest.size() == 2 && rest[0] == '\xED' && static_cast<uint8_t>(rest[1]) >= 0xA0 &&
         static_cast<uint8_t>(rest[1]) < 0xC0;
}

void append_lossy_utf8(std::string& out, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    Utf8Step step = utf8_step(bytes.substr(at));
    if (step.complete)
      out.append(bytes, at, step.bytes);
    else
      out += "\xEF\xBF\xBD";
    at += step.bytes;
  }
}

Mapped find_mapping(const unicode_tables::MappingTable& table, char32_t c) {
  const uint32_t* end = table.keys + table.count;
  const uint32_t* it = std::lower_bound(table.keys, end, static_cast<uint32_t>(c));
  if (it == end || *it != c) return {nullptr, 0};
  auto i = it - table.keys;
  return {table.data + table.offsets[i], static_cast<uint32_t>(table.offsets[i + 1] - table.offsets[i])};
}

char32_t simple_fold(char32_t c) {
  Mapped m = find_mapping(unicode_tables::kFold, c);
  return m.count ? m.data[0] : c;
}

}  // namespace tenon::text
