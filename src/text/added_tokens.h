// Tokens that are cut out of the text before anything else: special tokens and words added to a vocabulary.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/string_finder.h"
#include "text/tokenizer.h"

namespace tenon::text {

struct AddedToken {
  std::string content;
  std::string shown;  // what decoding writes: `content`, normalized where the token is
  int32_t id = 0;
  bool special = false;
  bool normalized = false;              // looked for in the normalized text
  bool single_word = false;             // only where no word character touches it
  bool lstrip = false, rstrip = false;  // swallows white space before, after
};

struct Segment {
  size_t begin, end;
  int32_t token;  // index of the added token, -1: ordinary text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  // `normalized_contents[i]` is what the tokenizer's normalizer makes of tokens()[i].content.
  void build(const std::vector<std::string>& normalized_contents);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* by_id(int32_t id) const;
  const AddedToken* by_content(std::string_view content) const;
  bool has_normalized() const { return !normalized_.empty(); }
  size_t memory_bytes() const;

  // Cuts `text` (raw, or normalized for the tokens that ask for it). Special tokens that touch `content`, or all when
  // `parse_special` is false, are ordinary text.
  void cut(std::string_view text, bool normalized, bool parse_special, std::span<const ContentSpan> content,
           std::vector<Segment>& out) const;

 private:
  std::vector<AddedToken> tokens_;
  std::vector<std::pair<int32_t, uint32_t>> by_id_;  // sorted
  StringFinder raw_, normalized_;
};

}  // namespace tenon::text
