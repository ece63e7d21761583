// Regular expressions of tokenizer files: a backtracking matcher over UTF-8 with the reference's own character classes.
//
// Goals: the syntax that published tokenizers use, in the dialect of the library that the reference runs (they differ
// in
// `{n,m}+`, `$` and `^`), the reference's Unicode tables, bounded work. Non-goals: captures, back references.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

enum class RegexDialect {
  oniguruma,  // tokenizers: `{n,m}+` repeats a repetition, `^` and `$` are line anchors
  fancy       // tiktoken, mistral-common: `{n,m}+` is possessive, `^` and `$` are the text's ends
};

// A set of characters; ASCII is answered from a bitmap.
class CharSet {
 public:
  bool contains(char32_t c) const { return c < 128 ? ascii_[c >> 6] >> (c & 63) & 1 : slow_contains(c); }

 private:
  friend class RegexParser;
  enum class Kind : uint8_t { range, categories, script, flag, space, set };
  struct Item {
    Kind kind;
    bool negated;
    uint32_t low, high;  // a range's ends; low: the mask of categories, the script, the flag, the index into sets_
  };
  bool slow_contains(char32_t c) const;
  bool item_contains(const Item& item, char32_t c) const;
  void seal();  // after the last change: fills the bitmap
  void add_case_pairs();

  std::vector<Item> items_;
  std::vector<CharSet> sets_;      // nested, for items of kind set
  std::vector<CharSet> and_with_;  // intersection
  bool negated_ = false;
  uint64_t ascii_[2] = {0, 0};
};

class Regex {
 public:
  // Throws Error{invalid_file} with the place in the pattern, Error{unsupported} for syntax outside the goals.
  Regex(std::string_view pattern, RegexDialect dialect, std::string_view source);
  ~Regex();

  struct Match {
    size_t begin, end;
  };
  // The leftmost match that begins at or after `from` of valid UTF-8. Throws Error{invalid_argument} when the pattern
  // needs more steps than the bound on this text.
  bool find(std::string_view text, size_t from, Match& match) const;

  // All matches in order. An empty match right behind the last match is passed over.
  template <class F>
  void for_each(std::string_view text, F&& f) const {
    size_t from = 0, last_end = ~size_t{0};
    Match m;
    while (from <= text.size() && find(text, from, m)) {
      if (m.begin == m.end && m.end == last_end) {
        from = next_character(text, from);
        continue;
      }
      from = last_end = m.end;
      f(m);
    }
  }

  size_t memory_bytes() const;

 private:
  static size_t next_character(std::string_view text, size_t at);
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace tenon::text
