// SentencePiece's precompiled_charsmap: a double-array trie (darts-clone) from UTF-8 strings to replacements.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

class Charsmap {
 public:
  // The blob of a model file. Throws Error{invalid_file}.
  Charsmap(std::string_view blob, std::string_view source);

  struct Match {
    size_t bytes;
    std::string_view replacement;
  };
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }
  size_t memory_bytes() const { return units_.capacity() * sizeof(uint32_t) + strings_.capacity(); }

 private:
  std::optional<Match> find(std::string_view text, bool first) const;
  std::vector<uint32_t> units_;
  std::string strings_;  // replacements, each ends with NUL
};

}  // namespace tenon::text
