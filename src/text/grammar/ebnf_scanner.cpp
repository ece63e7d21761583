#include "text/grammar/ebnf_scanner.h"

#include <algorithm>

#include "text/unicode.h"

namespace tenon::text::grammar {

bool EbnfScanner::take(std::string_view s) {
  if (!text_.substr(at_).starts_with(s)) return false;
  at_ += s.size();
  return true;
}

std::string EbnfScanner::where() const {
  std::string_view before = text_.substr(0, at_);
  size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  size_t begin = before.rfind('\n');
  return fmt::format("line {}, column {}", line, begin == std::string_view::npos ? at_ + 1 : at_ - begin);
}

void EbnfScanner::bad(std::string_view what) const {
  fail(ErrorCode::invalid_argument, "grammar: {}: {}", where(), what);
}

void EbnfScanner::unsupported(std::string_view what) const {
  fail(ErrorCode::unsupported, "grammar: {}: {} cannot be enforced", where(), what);
}

bool EbnfScanner::name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::string EbnfScanner::name() {
  std::string out;
  while (more() && name_byte(peek())) out.push_back(text_[at_++]);
  return out;
}

char32_t EbnfScanner::character() {
  if (!more()) bad("the text ends too early");
  if (!utf8_step(text_.substr(at_)).complete) bad("invalid UTF-8");
  CodePoint c = decode_utf8(text_.data() + at_);
  at_ += c.bytes;
  return c.value;
}

char32_t EbnfScanner::escaped() {
  auto hex = [&](int digits) {
    char32_t v = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      char c = peek();
      int d = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : -1;
      if (d < 0) bad("a hexadecimal digit is missing");
      v = v * 16 + static_cast<char32_t>(d);
    }
    if (v > CharRanges::kLast) bad("a code point out of range");
    return v;
  };
  switch (char32_t c = character()) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'f':
      return '\f';
    case 'b':
      return '\b';
    case 'v':
      return '\v';
    case '0':
      return 0;
    case 'x':
      return hex(2);
    case 'u':
      return hex(4);
    case 'U':
      return hex(8);
    default:
      return c;
  }
}

uint64_t EbnfScanner::number() {
  uint64_t v = 0;
  if (peek() < '0' || peek() > '9') bad("a number is missing");
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    v = v * 10 + static_cast<uint64_t>(peek() - '0');
    if (v > 1'000'000'000'000u) bad("a bound out of range");
  }
  return v;
}

void EbnfScanner::bounds(uint64_t& min, uint64_t& max) {
  auto blank = [&] {
    while (peek() == ' ') ++at_;
  };
  blank();
  min = peek() == ',' ? 0 : number();
  max = min;
  blank();
  if (take(",")) {
    blank();
    max = peek() == '}' ? kUnbounded : number();
    blank();
  }
  if (!take("}")) bad("a '}' is missing");
  if (max < min) bad("bounds in the wrong order");
}

Grammar::Rule RuleNames::rule(const std::string& name) {
  auto it = rules_.find(name);
  if (it == rules_.end()) it = rules_.emplace(name, g_.add_rule(name)).first;
  return it->second;
}

void RuleNames::define(const std::string& name, std::vector<Grammar::Id> ways) {
  const Grammar::Rule self = rule(name);
  if (g_.body(self) != Grammar::kUndefined)
    fail(ErrorCode::invalid_argument, "grammar: the rule \"{}\" is defined twice", printable(name));
  std::vector<Grammar::Id> starts, steps;
  for (Grammar::Id way : ways) {
    const Grammar::Expr& e = g_.at(way);
    const bool recursive = e.kind == Grammar::Kind::sequence && e.parts.size() > 1 &&
                           g_.at(e.parts[0]).kind == Grammar::Kind::call && g_.at(e.parts[0]).rule == self;
    if (recursive) {
      std::vector<Grammar::Id> rest(e.parts.begin() + 1, e.parts.end());
      steps.push_back(g_.sequence(std::move(rest)));
    } else {
      starts.push_back(way);
    }
  }
  Grammar::Id body = g_.choice(std::move(starts));
  if (!steps.empty()) body = g_.sequence({body, g_.repeat(g_.choice(std::move(steps)), 0)});
  g_.define(self, body);
}

}  // namespace tenon::text::grammar
