#include "text/jinja/chars.h"

#include <algorithm>
#include <cstring>

namespace tenon::text::jinja {

bool CharSet::has(char32_t c) const {
  const CharRange* end = ranges + count;
  const CharRange* r = std::lower_bound(ranges, end, c, [](const CharRange& a, char32_t v) { return a.last < v; });
  return r != end && r->first <= c;
}

const CharMapping* CharMap::find(char32_t c) const {
  const CharMapping* end = mappings + count;
  const CharMapping* m =
      std::lower_bound(mappings, end, c, [](const CharMapping& a, char32_t v) { return a.from < v; });
  return m != end && m->from == c ? m : nullptr;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

Char char_at(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  uint8_t lead = byte(0);
  size_t n = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (n <= 1 || n > text.size() - at) return {lead, 1};
  char32_t c = n == 2 ? lead & 0x1Fu : n == 3 ? lead & 0x0Fu : lead & 0x07u;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {lead, 1};
    c = c << 6 | (byte(i) & 0x3Fu);
  }
  return {c, static_cast<uint32_t>(n)};
}

size_t char_start_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at + char_at(text, at).bytes == end ? at : end - 1;
}

void append_char(std::string& out, char32_t c) {
  auto put = [&](uint32_t v) { out.push_back(static_cast<char>(v)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) return false;
  }
  for (; i < text.size(); ++i)
    if (static_cast<uint8_t>(text[i]) >= 0x80) return false;
  return true;
}

size_t count_chars(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t n = 0;
  for (size_t i = 0; i < text.size(); ++n) i += char_at(text, i).bytes;
  return n;
}

std::string_view strip_left(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    Char c = char_at(text, i);
    if (!is_space(c.code)) break;
    i += c.bytes;
  }
  return text.substr(i);
}

std::string_view strip_right(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = char_start_before(text, end);
    if (!is_space(char_at(text, start).code)) break;
    end = start;
  }
  return text.substr(0, end);
}

}  // namespace tenon::text::jinja
