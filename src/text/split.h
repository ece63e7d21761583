// Pre-tokenizers: how normalized text is cut into the pieces that the model encodes one by one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "text/pattern.h"

namespace tenon::text {

// What becomes of the matches of a pattern.
enum class MatchBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
// Where Metaspace puts its mark before the text.
enum class PrependScheme { always, first, never };

struct SplitRule {
  Pattern pattern;
  MatchBehavior behavior = MatchBehavior::isolated;
  bool invert = false;
};
struct ByteLevelRule {
  bool add_prefix_space = false, use_regex = true;
};
struct MetaspaceRule {
  std::string mark = "\xE2\x96\x81";
  PrependScheme scheme = PrependScheme::always;
  bool split = true;
};
struct WordsRule {};  // \w+|[^\w\s]+
struct WhitespaceSplitRule {};
struct BertSplitRule {};  // at white space and punctuation
struct PunctuationRule {
  MatchBehavior behavior = MatchBehavior::isolated;
};
struct DigitsRule {
  bool individual = false;
};
struct DelimiterRule {
  char32_t delimiter = U' ';
};
struct ScriptsRule {};
struct FixedLengthRule {
  size_t characters = 5;
};
using Splitter = std::variant<SplitRule, ByteLevelRule, MetaspaceRule, WordsRule, WhitespaceSplitRule, BertSplitRule,
                              PunctuationRule, DigitsRule, DelimiterRule, ScriptsRule, FixedLengthRule>;

class PreTokenizer {
 public:
  PreTokenizer() = default;
  // `bytes`: the model takes the bytes themselves, not their spelling in the byte alphabet.
  PreTokenizer(std::vector<Splitter> steps, bool bytes);

  // Calls `piece` for every piece of `text` (valid UTF-8), none of them empty. `at_start`: the text begins where the
  // whole input begins. The view is valid during the call.
  void run(std::string_view text, bool at_start, FunctionRef<void(std::string_view)> piece) const;

  // Not `none`: every piece of a text is one that this scanner finds, and nothing more is done to it.
  Scanner scanner() const;

 private:
  void run_from(size_t step, std::string_view text, bool at_start, FunctionRef<void(std::string_view)> piece) const;
  void byte_level(const ByteLevelRule& rule, size_t step, std::string_view text, bool at_start,
                  FunctionRef<void(std::string_view)> piece) const;
  void metaspace(const MetaspaceRule& rule, size_t step, std::string_view text, bool at_start,
                 FunctionRef<void(std::string_view)> piece) const;
  bool last_byte_level(size_t step) const { return bytes_ && step + 1 == steps_.size(); }

  std::vector<Splitter> steps_;
  bool bytes_ = false;
  bool spells_ = false;  // some step before the last writes the byte alphabet, so pieces arrive spelled
};

// One step on its own, its pieces as the reference shows them (byte-level pieces spelled).
std::vector<std::string> split_pieces(const std::vector<Splitter>& steps, std::string_view text);

}  // namespace tenon::text
