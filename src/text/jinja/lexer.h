// Template source -> tokens, with Jinja's whitespace control (trim_blocks and lstrip_blocks on, the last newline
// dropped).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text::jinja {

enum class TokenKind : unsigned char {
  data,
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind;
  size_t offset;  // in the normalised source
  std::string_view
      text;  // data, a name, an operator's spelling, a number; of strings without quotes, escapes as written
};

// Newlines become "\n"; one at the end is dropped. Raises unless valid UTF-8.
std::string normalise_source(std::string_view source);

// A malformed template; `offset` is into the normalised source.
struct SyntaxFailure {
  size_t offset;
  std::string message;
};

// The tokens point into `source`, which is normalised. The last one is `end`. Throws SyntaxFailure.
std::vector<Token> lex(std::string_view source);

// A string literal's value. Throws SyntaxFailure.
std::string unescape(const Token& token);

}  // namespace tenon::text::jinja
