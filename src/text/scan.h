// Hand-written scanners for the split patterns of well-known tokenizers: the same pieces as the regular expressions,
// faster. Every character of a text belongs to a piece.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "text/regex.h"

namespace tenon::text {

enum class Scanner {
  none,               // not a known pattern
  gpt2,               // 's|'t|...| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  qwen2,              // case-insensitive contractions, one digit at a time
  qwen35,             // qwen2 with marks as letters
  llama3,             // qwen2 with up to three digits
  llama3_all_digits,  // qwen2 with runs of digits
  cl100k,             // llama3 where white space at the end of the text is one piece
  o200k,              // words split at case changes, contractions at their end
  tekken              // o200k without contractions, one digit at a time
};

Scanner find_scanner(std::string_view pattern, RegexDialect dialect);

void scan(Scanner scanner, std::string_view valid_utf8, FunctionRef<void(std::string_view)> piece);
// The same, a few pieces at a time: writes the lengths of the first pieces of `text` and takes them off; how many.
// The scanner is not `none`, the text shorter than 4 GiB.
size_t scan_some(Scanner scanner, std::string_view& text, std::span<uint32_t> lengths);

}  // namespace tenon::text
