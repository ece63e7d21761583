// The generated tables (tools/unicode_tables.py); read them through text/unicode.h.
#pragma once
#include <cstdint>

namespace tenon::text::unicode_tables {

struct CharRecord {
  uint8_t category;          // index into kCategoryNames
  uint8_t script;            // index into kScriptNames
  uint8_t reference_script;  // as the UnicodeScripts pre-tokenizer groups characters; 0 joins everything
  uint8_t combining;         // canonical combining class
  uint8_t grapheme_break;
  uint32_t flags;  // CharFlag
};

struct CharPair {
  uint32_t first, second, composed;
};

// Sorted keys; the mapping of keys[i] is data[offsets[i] .. offsets[i + 1]).
struct MappingTable {
  const uint32_t* keys;
  const uint16_t* offsets;
  const uint32_t* data;
  uint32_t count;
};

extern const CharRecord kRecords[];
extern const uint16_t kRecordStage1[], kRecordStage2[];
extern const uint8_t kScanStage1[], kScanStage2[];
extern const MappingTable kCanonical, kCompatible, kLower, kFold;
extern const CharPair kPairs[];
extern const uint32_t kPairCount;
extern const char* const kCategoryNames[];
extern const char* const kScriptNames[];
extern const uint32_t kScriptCount;

}  // namespace tenon::text::unicode_tables
