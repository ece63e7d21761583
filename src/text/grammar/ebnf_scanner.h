// What the readers of textual grammars share: a cursor that knows lines, names, escapes, left recursion.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

class EbnfScanner {
 public:
  explicit EbnfScanner(std::string_view text) : text_(text) {}

  bool more() const { return at_ < text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view s);
  void skip(size_t n) { at_ += n; }
  size_t offset() const { return at_; }
  void seek(size_t offset) { at_ = offset; }
  std::string_view text() const { return text_; }
  [[noreturn]] void bad(std::string_view what) const;          // Error{invalid_argument} with line and column
  [[noreturn]] void unsupported(std::string_view what) const;  // Error{unsupported}

  static bool name_byte(char c);
  std::string name();                         // "" where none begins
  char32_t character();                       // one character, as it stands
  char32_t escaped();                         // behind a backslash
  uint64_t number();                          // digits; throws where there are none
  void bounds(uint64_t& min, uint64_t& max);  // n} n,} n,m} behind an opening brace

 private:
  std::string where() const;
  std::string_view text_;
  size_t at_ = 0;
};

// Rules by name while a grammar is read: they may be used before they are defined.
class RuleNames {
 public:
  explicit RuleNames(Grammar& g) : g_(g) {}
  Grammar::Rule rule(const std::string& name);
  bool has(const std::string& name) const { return rules_.count(name) != 0; }
  // Alternatives of a rule, with direct left recursion written as repetition: a: a x | y -> a: y x*.
  void define(const std::string& name, std::vector<Grammar::Id> ways);

 private:
  Grammar& g_;
  std::unordered_map<std::string, Grammar::Rule> rules_;
};

}  // namespace tenon::text::grammar
