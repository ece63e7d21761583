// Normalizers: what a tokenizer does to text before it is cut into pieces.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/normal_form.h"
#include "text/pattern.h"
#include "text/string_finder.h"

namespace tenon::text {

struct LowercaseRule {};
struct StripAccentsRule {};
struct NmtRule {};           // white space and control characters of neural translation corpora
struct ByteAlphabetRule {};  // every byte becomes a character of the byte alphabet
struct StripRule {
  bool left, right;
};
struct ReplaceRule {
  Pattern pattern;
  std::string by;
};
struct PrependRule {
  std::string text;
};
struct BertRule {
  bool clean_text = true, chinese = true, lowercase = true;
  std::optional<bool> strip_accents;  // nullopt: as lowercase
};
struct CharsmapRule {
  std::shared_ptr<const Charsmap> map;
};
// The whole of SentencePiece's normalizer, for its own model files.
struct SentencePieceRule {
  std::shared_ptr<const Charsmap> map;       // null: none
  std::shared_ptr<const StringFinder> kept;  // user-defined pieces
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true,
       whitespace_as_suffix = false;
};
using Normalizer = std::variant<NormalForm, LowercaseRule, StripAccentsRule, NmtRule, ByteAlphabetRule, StripRule,
                                ReplaceRule, PrependRule, BertRule, CharsmapRule, SentencePieceRule>;

// Applies `steps` in order to valid UTF-8; the result is `text` itself or lies in `buffer`.
std::string_view normalize(const std::vector<Normalizer>& steps, std::string_view text, std::string& buffer);

}  // namespace tenon::text
