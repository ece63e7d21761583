// UTF-8 and character properties, as the reference tokenizers see them (tools/unicode_tables.py).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/unicode_tables.h"

namespace tenon::text {

// Bits of scan_class: the classes that split patterns are made of.
enum ScanClass : uint8_t {
  kLetter = 1,          // \p{L}
  kNumber = 2,          // \p{N}
  kSpace = 4,           // \s
  kMark = 8,            // \p{M}
  kUpper = 16,          // \p{Lu} \p{Lt}
  kLower = 32,          // \p{Ll}
  kOtherLetter = 64,    // \p{Lm} \p{Lo}
  kPunctOrSymbol = 128  // \p{P} \p{S}
};

// Bits of CharRecord::flags; the sets come from different parts of the reference and of Unicode versions.
enum CharFlag : uint32_t {
  kWhite = 1 << 0,        // white space outside of regular expressions
  kNumeric = 1 << 1,      // what the Digits pre-tokenizer splits off
  kPunctuation = 1 << 2,  // what the Punctuation and Bert pre-tokenizers split off
  kBertDropped = 1 << 3,  // clean_text removes it
  kBertBlank = 1 << 4,    // clean_text writes a space
  kChinese = 1 << 5,      // handle_chinese_chars puts spaces round it
  kAccent = 1 << 6,       // StripAccents removes it
  kWord = 1 << 7,         // \w
  kPosixAlpha = 1 << 8,   // [[:alpha:]]
  kPosixPunct = 1 << 9,   // [[:punct:]]
  kPosixGraph = 1 << 10,  // [[:graph:]]
  kPosixPrint = 1 << 11,  // [[:print:]]
  kNfcActive = 1 << 12,   // a text without such characters is in NFC
  kNfkcActive = 1 << 13,  // a text without such characters is in NFKC
  kPictographic = 1 << 14,
  kBertAccent = 1 << 15,     // BertNormalizer's strip_accents removes it
  kWordAndJoiner = 1 << 16,  // \w in the reference's own patterns (joiners belong to it)
  kPosixUpper = 1 << 17,     // [[:upper:]]
  kPosixLower = 1 << 18      // [[:lower:]]
};

struct CodePoint {
  char32_t value;
  uint32_t bytes;
};

// The character at `p` of valid UTF-8.
inline CodePoint decode_utf8(const char* p) {
  auto b = [&](int i) { return static_cast<uint8_t>(p[i]); };
  uint8_t c = b(0);
  if (c < 0x80) return {c, 1};
  if (c < 0xE0) return {static_cast<char32_t>((c & 0x1Fu) << 6 | (b(1) & 0x3Fu)), 2};
  if (c < 0xF0) return {static_cast<char32_t>((c & 0x0Fu) << 12 | (b(1) & 0x3Fu) << 6 | (b(2) & 0x3Fu)), 3};
  return {static_cast<char32_t>((c & 0x07u) << 18 | (b(1) & 0x3Fu) << 12 | (b(2) & 0x3Fu) << 6 | (b(3) & 0x3Fu)), 4};
}

// The character that ends before `p` (not at the start of the text) of valid UTF-8.
inline CodePoint decode_utf8_before(const char* p) {
  const char* q = p - 1;
  while ((static_cast<uint8_t>(*q) & 0xC0) == 0x80) --q;
  return decode_utf8(q);
}

// Whether U+4E00 to U+9F7F begins at `p` of valid UTF-8 (two bytes are readable): ideographs of three bytes, all of
// them letters that no normal form changes.
inline bool starts_ideograph(const char* p) {
  const int start = static_cast<uint8_t>(p[0]) << 8 | static_cast<uint8_t>(p[1]);
  return start >= 0xE4B8 && start < 0xE9BE;
}

void append_utf8(std::string& out, char32_t c);
std::string to_utf8(std::u32string_view text);
std::u32string to_utf32(std::string_view valid_utf8);
size_t count_characters(std::string_view valid_utf8);

// Length of the well-formed character at the start of `text`, or of the longest prefix that could still become one
// (the "maximal subpart", at least 1) when it is broken. `complete` says which; `cut` that `text` ended inside of it.
struct Utf8Step {
  uint32_t bytes;
  bool complete;
  bool cut;
};
Utf8Step utf8_step(std::string_view text);

// Whether text that arrives in parts is held back at `rest`, which is not empty: a character may still become whole, or
// it is the start of a surrogate, whose three bytes are broken together.
bool incomplete_utf8(std::string_view rest);

// Each maximal broken part becomes one U+FFFD.
void append_lossy_utf8(std::string& out, std::string_view bytes);

inline uint8_t scan_class(char32_t c) {
  using namespace unicode_tables;
  return kScanStage2[kScanStage1[c >> 7] * 128u + (c & 127)];
}

inline const unicode_tables::CharRecord& char_record(char32_t c) {
  using namespace unicode_tables;
  return kRecords[kRecordStage2[kRecordStage1[c >> 7] * 128u + (c & 127)]];
}

inline bool has_flag(char32_t c, CharFlag flag) { return (char_record(c).flags & flag) != 0; }

// Mappings; nullptr with *count 0 when the character maps to itself.
struct Mapped {
  const uint32_t* data;
  uint32_t count;
};
Mapped find_mapping(const unicode_tables::MappingTable& table, char32_t c);
char32_t simple_fold(char32_t c);  // the smallest character that case-insensitive matching takes as the same

}  // namespace tenon::text
