// What a Replace or Split looks for: a plain string or a regular expression.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "text/regex.h"
#include "text/scan.h"

namespace tenon::text {

class Pattern {
 public:
  static Pattern literal(std::string text);
  static Pattern regex(std::string_view pattern, RegexDialect dialect, std::string_view source);

  // The text cut at the matches, in order: matches (true) and what lies between them (false). An empty text is one
  // stretch that does not match.
  void cut(std::string_view text, FunctionRef<void(size_t begin, size_t end, bool match)> stretch) const;
  // Not `none`: every stretch is a match, and scan() finds the same ones.
  Scanner scanner() const { return scanner_; }
  // Appends `text` with every match replaced.
  void replace(std::string_view text, std::string_view by, std::string& out) const;

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;
  Scanner scanner_ = Scanner::none;
};

}  // namespace tenon::text
