// Characters as Python's str methods see them: properties and case mappings (tools/jinja_char_tables.py), UTF-8 steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace tenon::text::jinja {

struct CharRange {
  uint32_t first, last;
};
struct CharSet {
  const CharRange* ranges;
  size_t count;
  bool has(char32_t c) const;
};
struct CharMapping {
  uint32_t from;
  uint32_t to[3];  // zero ends it
};
struct CharMap {
  const CharMapping* mappings;
  size_t count;
  const CharMapping* find(char32_t c) const;  // nullptr: maps to itself
};

extern const CharSet kAlpha, kDecimal, kDigit, kNumeric, kLower, kUpper, kTitle, kUnprintable, kCaseIgnorable;
extern const CharMap kToUpper, kToLower, kToTitle, kToFold;

bool is_space(char32_t c);  // str.isspace and what strip() drops

struct Char {
  char32_t code;
  uint32_t bytes;
};
// The character at `at`; a byte that starts no valid sequence stands for itself.
Char char_at(std::string_view text, size_t at);
size_t char_start_before(std::string_view text, size_t end);  // where the character that ends at `end` > 0 starts
void append_char(std::string& out, char32_t c);

bool is_ascii(std::string_view text);
size_t count_chars(std::string_view text);

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

}  // namespace tenon::text::jinja
