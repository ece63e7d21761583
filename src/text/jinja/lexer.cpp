#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include "text/jinja/chars.h"

namespace tenon::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<uint8_t>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(TokenKind::end, source_.size(), source_.substr(source_.size()));
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_at(size_t offset, std::string message) const {
    throw SyntaxFailure{offset, std::move(message)};
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts(std::string_view s) const { return source_.substr(at_).starts_with(s); }
  void add(TokenKind kind, size_t offset, std::string_view text) { tokens_.push_back({kind, offset, text}); }

  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string_view::npos; i = source_.find('{', i + 1)) {
      char c = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return source_.size();
  }

  // Text up to a tag, cut as the tag's sign and lstrip_blocks want.
  void emit_data(size_t begin, size_t end, char sign, bool block) {
    std::string_view data = source_.substr(begin, end - begin);
    if (sign == '-') {
      data = strip_right(data);
    } else if (sign != '+' && block) {
      size_t newline = data.rfind('\n');
      size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || at_line_start_) && strip_left(data.substr(line)).empty()) data = data.substr(0, line);
    }
    if (!data.empty()) add(TokenKind::data, begin, data);
  }

  char take_sign() {
    char c = peek();
    if (c != '-' && c != '+') return '\0';
    ++at_;
    return c;
  }

  void consumed_to(size_t position) {
    at_ = position;
    at_line_start_ = position > 0 && source_[position - 1] == '\n';
  }

  void skip_space() { at_ = source_.size() - strip_left(source_.substr(at_)).size(); }

  void text() {
    size_t begin = at_, tag = find_tag(at_);
    if (tag == source_.size()) {
      add(TokenKind::data, begin, source_.substr(begin));
      at_ = tag;
      return;
    }
    at_ = tag + 2;
    char kind = source_[tag + 1];
    if (kind == '%' && raw(begin, tag)) return;
    char sign = take_sign();
    emit_data(begin, tag, sign, kind != '{');
    if (kind == '#') return comment(tag);
    consumed_to(at_);
    add(kind == '{' ? TokenKind::print_begin : TokenKind::block_begin, tag, source_.substr(tag, at_ - tag));
    inside(kind == '{', tag);
  }

  // After a tag's end: "-" eats white space, a newline is trimmed after blocks and comments.
  void finish_tag(size_t end, char sign, bool trim) {
    at_ = end;
    if (sign == '-')
      skip_space();
    else if (sign != '+' && trim && peek() == '\n')
      ++at_;
    consumed_to(at_);
  }

  void comment(size_t tag) {
    size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail_at(tag, "missing end of comment tag");
    char sign = end > at_ ? source_[end - 1] : '\0';
    finish_tag(end + 2, sign, true);
  }

  // `{% raw %} ... {% endraw %}`; false if the tag at `tag` is another one.
  bool raw(size_t begin, size_t tag) {
    size_t start = at_;
    char sign = take_sign();
    skip_space();
    bool is_raw = starts("raw") && !is_name(peek(3));
    if (is_raw) {
      at_ += 3;
      skip_space();
      is_raw = starts("%}") || starts("-%}");
    }
    if (!is_raw) {
      at_ = start;
      return false;
    }
    emit_data(begin, tag, sign, true);
    bool minus = peek() == '-';
    finish_tag(at_ + (minus ? 3 : 2), minus ? '-' : '+', false);
    raw_body(tag);
    return true;
  }

  void raw_body(size_t tag) {
    size_t begin = at_;
    if (begin == source_.size()) return;  // which Jinja lets pass
    for (size_t end = source_.find("{%", at_); end != std::string_view::npos; end = source_.find("{%", end + 2)) {
      at_ = end + 2;
      char sign = take_sign();
      skip_space();
      if (!starts("endraw")) continue;
      at_ += 6;
      skip_space();
      char close = take_sign();
      if (!starts("%}")) continue;
      emit_data(begin, end, sign, true);
      finish_tag(at_ + 2, close, true);
      return;
    }
    fail_at(tag, "missing end of raw directive");
  }

  void inside(bool print, size_t tag) {
    std::string_view close = print ? "}}" : "%}";
    size_t open_brackets = brackets_.size();
    while (true) {
      skip_space();
      if (at_ >= source_.size()) fail_at(tag, fmt::format("this tag is not closed by '{}'", close));
      if (brackets_.size() == open_brackets && end_of_tag(close, print)) return;
      token();
    }
  }

  bool end_of_tag(std::string_view close, bool print) {
    char sign = '\0';
    size_t start = at_;
    if ((peek() == '-' || (!print && peek() == '+')) && source_.substr(at_ + 1).starts_with(close))
      sign = source_[at_++];
    if (!starts(close)) return false;
    add(print ? TokenKind::print_end : TokenKind::block_end, start, source_.substr(start, at_ + 2 - start));
    finish_tag(at_ + 2, sign, !print);
    return true;
  }

  void token() {
    char c = peek();
    size_t begin = at_;
    if (is_digit(c)) return number();
    if (is_name(c)) {
      while (at_ < source_.size() && is_name(source_[at_])) ++at_;
      return add(TokenKind::name, begin, source_.substr(begin, at_ - begin));
    }
    if (c == '"' || c == '\'') return string(c);
    op();
  }

  void string(char quote) {
    size_t begin = at_++;
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    if (at_ >= source_.size()) fail_at(begin, "this string is not closed");
    add(TokenKind::string, begin, source_.substr(begin + 1, at_ - begin - 1));
    ++at_;
  }

  size_t digits(size_t from, auto accepts) const {
    size_t i = from;
    while (i < source_.size() && (accepts(source_[i]) ||
                                  (source_[i] == '_' && i > from && i + 1 < source_.size() && accepts(source_[i + 1]))))
      ++i;
    return i;
  }

  void number() {
    size_t begin = at_;
    char marker = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (marker == 'x' || marker == 'o' || marker == 'b')) {
      auto accepts = [marker](char c) {
        if (marker == 'b') return c == '0' || c == '1';
        if (marker == 'o') return c >= '0' && c <= '7';
        return is_digit(c) || (static_cast<char>(c | 0x20) >= 'a' && static_cast<char>(c | 0x20) <= 'f');
      };
      size_t first = begin + 2 < source_.size() && source_[begin + 2] == '_' ? begin + 3 : begin + 2;
      at_ = digits(first, accepts);
      if (at_ > first) return add(TokenKind::integer, begin, source_.substr(begin, at_ - begin));
    }
    at_ = digits(begin, is_digit);
    bool real = begin == 0 || source_[begin - 1] != '.' ? fraction_and_exponent() : false;
    if (!real && source_[begin] == '0') at_ = digits(begin, [](char c) { return c == '0'; });  // 012 is two numbers
    add(real ? TokenKind::real : TokenKind::integer, begin, source_.substr(begin, at_ - begin));
  }

  bool fraction_and_exponent() {
    bool real = false;
    if (peek() == '.' && is_digit(peek(1))) {
      at_ = digits(at_ + 1, is_digit);
      real = true;
    }
    size_t sign = (peek(1) == '+' || peek(1) == '-') ? 2 : 1;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
      at_ = digits(at_ + sign, is_digit);
      real = true;
    }
    return real;
  }

  void op() {
    static constexpr std::string_view kTwo[] = {"==", "!=", ">=", "<=", "//", "**"};
    size_t length = 1;
    for (std::string_view two : kTwo)
      if (starts(two)) length = 2;
    std::string_view text = source_.substr(at_, length);
    if (length == 1 && std::string_view("+-/*%~[](){}=><.:|,;").find(text[0]) == std::string_view::npos)
      fail_at(at_, fmt::format("unexpected character '{}'", static_cast<uint8_t>(text[0]) < 0x20 ? "?" : text));
    if (text == "(" || text == "[" || text == "{") {
      brackets_.push_back(text == "(" ? ')' : text == "[" ? ']' : '}');
    } else if (text == ")" || text == "]" || text == "}") {
      if (brackets_.empty()) fail_at(at_, fmt::format("unexpected '{}'", text));
      if (brackets_.back() != text[0])
        fail_at(at_, fmt::format("unexpected '{}', expected '{}'", text, brackets_.back()));
      brackets_.pop_back();
    }
    add(TokenKind::op, at_, text);
    at_ += length;
  }

  std::string_view source_;
  size_t at_ = 0;
  bool at_line_start_ = true;
  std::vector<char> brackets_;  // the closing ones that are due
  std::vector<Token> tokens_;
};

size_t escape_digits(char c) { return c == 'x' ? 2 : c == 'u' ? 4 : 8; }

bool hex_value(std::string_view digits, uint32_t& value) {
  value = 0;
  for (char c : digits) {
    char lower = static_cast<char>(c | 0x20);
    if (is_digit(c))
      value = value * 16 + static_cast<uint32_t>(c - '0');
    else if (lower >= 'a' && lower <= 'f')
      value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    else
      return false;
  }
  return true;
}

class Unescaper {
 public:
  explicit Unescaper(const Token& token) : token_(token), text_(token.text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size())
        escape();
      else
        out_.push_back(text_[at_++]);
    }
    return std::move(out_);
  }

 private:
  void escape() {
    char c = text_[at_ + 1];
    static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    size_t simple = kFrom.find(c);
    if (simple != std::string_view::npos) {
      out_.push_back(kTo[simple]);
      at_ += 2;
    } else if (c == '\n') {
      at_ += 2;
    } else if (c >= '0' && c <= '7') {
      octal();
    } else if (c == 'x' || c == 'u' || c == 'U') {
      hex(c);
    } else {
      out_.push_back('\\');
      ++at_;
    }
  }

  void octal() {
    uint32_t value = 0;
    size_t n = 1;
    for (; n <= 3 && at_ + n < text_.size() && text_[at_ + n] >= '0' && text_[at_ + n] <= '7'; ++n)
      value = value * 8 + static_cast<uint32_t>(text_[at_ + n] - '0');
    append_char(out_, value);
    at_ += n;
  }

  void hex(char kind) {
    uint32_t value = take(kind);
    if (value >= 0xD800 && value < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      uint32_t low = take('u');
      if (low >= 0xDC00 && low < 0xE000) value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail_here("this escape is not a character");
    append_char(out_, value);
  }

  uint32_t take(char kind) {
    size_t n = escape_digits(kind);
    uint32_t value = 0;
    if (text_.size() - at_ < n + 2 || !hex_value(text_.substr(at_ + 2, n), value))
      fail_here(fmt::format("\\{} needs {} hexadecimal digits", kind, n));
    at_ += n + 2;
    return value;
  }

  [[noreturn]] void fail_here(std::string message) const {
    throw SyntaxFailure{token_.offset + 1 + at_, std::move(message)};
  }

  const Token& token_;
  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string normalise_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  for (size_t i = 0; i < out.size();) {
    Char c = char_at(out, i);
    if (c.bytes == 1 && c.code >= 0x80) throw SyntaxFailure{i, "the template is not valid UTF-8"};
    i += c.bytes;
  }
  return out;
}

std::vector<Token> lex(std::string_view source) { return Lexer(source).run(); }

std::string unescape(const Token& token) { return Unescaper(token).run(); }

}  // namespace tenon::text::jinja
