#include "text/scan.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "text/unicode.h"

namespace tenon::text {
namespace {

struct Char {
  uint8_t klass;  // ScanClass bits
  uint8_t bytes;
};

// The character at `p` < `end`.
inline Char char_at(const char* p) {
  auto b = static_cast<uint8_t>(*p);
  if (b < 0x80) return {unicode_tables::kScanStage2[b], 1};  // the first block is ASCII
  CodePoint c = decode_utf8(p);
  return {scan_class(c.value), static_cast<uint8_t>(c.bytes)};
}

inline const char* run_of(const char* p, const char* end, uint8_t classes) {
  while (p < end) {
    Char c = char_at(p);
    if (!(c.klass & classes)) break;
    p += c.bytes;
  }
  return p;
}

static_assert(std::endian::native == std::endian::little);
constexpr uint64_t kOnes = 0x0101010101010101, kHighBits = 0x80 * kOnes;

inline bool is_ascii_letter(char c) { return static_cast<uint8_t>((c | 0x20) - 'a') < 26; }

// Behind the ASCII letters at `p`, eight at a time: adding carries into the high bit of the bytes from 'a' on, and of
// those beyond 'z'.
inline const char* ascii_letters(const char* p, const char* end) {
  for (; end - p >= 8; p += 8) {
    uint64_t w;
    std::memcpy(&w, p, 8);
    const uint64_t low = (w | 0x20 * kOnes) & ~kHighBits;
    const uint64_t letters = (low + (0x80 - 'a') * kOnes) & ~(low + (0x7F - 'z') * kOnes) & ~w & kHighBits;
    if (letters != kHighBits) return p + std::countr_zero(~letters & kHighBits) / 8;
  }
  while (p < end && is_ascii_letter(*p)) ++p;
  return p;
}

inline const char* spaces(const char* p, const char* end) {
  for (; end - p >= 8; p += 8) {
    uint64_t w;
    std::memcpy(&w, p, 8);
    if (w != ' ' * kOnes) break;
  }
  while (p < end && *p == ' ') ++p;
  return p;
}

// run_of() for classes that have all letters.
template <uint8_t kClasses>
inline const char* word_run(const char* p, const char* end) {
  static_assert(kClasses & kLetter);
  for (;;) {
    p = ascii_letters(p, end);
    if (p == end || static_cast<uint8_t>(*p) < 0x80) return p;  // in ASCII only letters are in these classes
    while (p < end && static_cast<uint8_t>(*p) >= 0x80) {
      if (starts_ideograph(p)) {
        p += 3;
        continue;
      }
      Char c = char_at(p);
      if (!(c.klass & kClasses)) return p;
      p += c.bytes;
    }
  }
}

inline const char* run_without(const char* p, const char* end, uint8_t classes) {
  while (p < end) {
    Char c = char_at(p);
    if (c.klass & classes) break;
    p += c.bytes;
  }
  return p;
}

inline bool is_newline(char c) { return c == '\r' || c == '\n'; }

// `p` is at a white space character. \s+(?!\S)|\s+
inline const char* white_space(const char* p, const char* end) {
  const char *at = p, *last = p;
  while (at < end) {
    if (const char* q = spaces(at, end); q > at) {
      last = q - 1;
      at = q;
      continue;
    }
    Char c = char_at(at);
    if (!(c.klass & kSpace)) break;
    last = at;
    at += c.bytes;
  }
  return at == end || last == p ? at : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
inline const char* white_space_lines(const char* p, const char* end, bool tail_is_one) {
  const char *at = p, *last = p, *line = nullptr;
  while (at < end) {
    if (const char* q = spaces(at, end); q > at) {
      last = q - 1;
      at = q;
      continue;
    }
    Char c = char_at(at);
    if (!(c.klass & kSpace)) break;
    last = at;
    if (is_newline(*at)) line = at + 1;
    at += c.bytes;
  }
  if (tail_is_one && at == end) return at;
  if (line) return line;
  return at == end || last == p ? at : last;
}

// Length of 's 't 're 've 'm 'll 'd at the apostrophe `p`; 0: none. Case-insensitive: U+017F folds to s.
inline int contraction(const char* p, const char* end, bool ignore_case) {
  auto n = end - p;
  auto fold = [&](char c) { return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  if (n < 2) return 0;
  char a = fold(p[1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (n < 3) return 0;
  if (ignore_case && p[1] == '\xC5' && p[2] == '\xBF') return 3;
  char b = fold(p[2]);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

struct Gpt2 {
  static const char* next(const char* p, const char* end) {
    if (*p == '\'')
      if (int n = contraction(p, end, false)) return p + n;
    const char* q = *p == ' ' && p + 1 < end ? p + 1 : p;
    Char c = char_at(q);
    if (c.klass & kLetter) return word_run<kLetter>(q + c.bytes, end);
    if (c.klass & kNumber) return run_of(q + c.bytes, end, kNumber);
    if (!(c.klass & kSpace)) return run_without(q + c.bytes, end, kSpace | kLetter | kNumber);
    return white_space(p, end);
  }
};

inline const char* digits(const char* p, const char* end, int most) {
  for (int i = 0; i < most && p < end; ++i) {
    Char c = char_at(p);
    if (!(c.klass & kNumber)) break;
    p += c.bytes;
  }
  return p;
}

// `kMostDigits` 0: a run of any length. `kLetters`: what counts as a letter inside of words.
template <int kMostDigits, uint8_t kLetters, bool kTailIsOne>
struct LlamaLike {
  static const char* next(const char* p, const char* end) {
    // Most pieces are words.
    if (*p == ' ' && p + 1 < end && is_ascii_letter(p[1])) return word_run<kLetters>(p + 2, end);
    if (*p == '\'')
      if (int n = contraction(p, end, true)) return p + n;
    Char c = char_at(p);
    const char* q = p + c.bytes;
    if (c.klass & kLetters) return word_run<kLetters>(q, end);
    if (c.klass & kNumber) return kMostDigits ? digits(p, end, kMostDigits) : run_of(q, end, kNumber);
    Char d = q < end ? char_at(q) : Char{kSpace, 0};
    if (!is_newline(*p) && (d.klass & kLetters)) return word_run<kLetters>(q + d.bytes, end);
    constexpr uint8_t kNotSymbol = kSpace | kNumber | kLetters;
    if (*p == ' ' && !(d.klass & kNotSymbol)) return lines_after(run_without(q + d.bytes, end, kNotSymbol), end);
    if (!(c.klass & kSpace)) return lines_after(run_without(q, end, kNotSymbol), end);
    return white_space_lines(p, end, kTailIsOne);
  }
  static const char* lines_after(const char* p, const char* end) {
    while (p < end && is_newline(*p)) ++p;
    return p;
  }
};

template <bool kContractions, int kMostDigits>
struct CaseSplit {
  static constexpr uint8_t kHead = kUpper | kOtherLetter | kMark, kTail = kLower | kOtherLetter | kMark;

  // [head]*[tail]+ from `p`; nullptr: no match.
  static const char* capitalised(const char* p, const char* end) {
    const char *at = p, *both = nullptr;  // `both`: behind the last character of the head that may also be tail
    while (at < end) {
      Char c = char_at(at);
      if (!(c.klass & kHead)) break;
      at += c.bytes;
      if (c.klass & kTail) both = at;
    }
    if (at < end && (char_at(at).klass & kTail)) return run_of(at, end, kTail);
    return both;
  }
  // [head]+[tail]*
  static const char* capitals(const char* p, const char* end) {
    const char* at = run_of(p, end, kHead);
    return at == p ? nullptr : run_of(at, end, kTail);
  }
  static const char* word(const char* p, const char* with_prefix, const char* end) {
    for (auto* rule : {&capitalised, &capitals}) {
      const char* q = with_prefix ? rule(with_prefix, end) : nullptr;
      if (!q) q = rule(p, end);
      if (!q) continue;
      if (kContractions && q < end && *q == '\'') q += contraction(q, end, true);
      return q;
    }
    return nullptr;
  }

  static const char* next(const char* p, const char* end) {
    Char c = char_at(p);
    const char* q = p + c.bytes;
    const bool prefix = !(c.klass & (kLetter | kNumber)) && !is_newline(*p) && q < end;
    if (const char* w = word(p, prefix ? q : nullptr, end)) return w;
    if (c.klass & kNumber) return digits(p, end, kMostDigits);
    constexpr uint8_t kNotSymbol = kSpace | kNumber | kLetter;
    Char d = q < end ? char_at(q) : Char{kSpace, 0};
    if (*p == ' ' && !(d.klass & kNotSymbol)) return lines_after(run_without(q + d.bytes, end, kNotSymbol), end);
    if (!(c.klass & kNotSymbol)) return lines_after(run_without(q, end, kNotSymbol), end);
    return white_space_lines(p, end, false);
  }
  static const char* lines_after(const char* p, const char* end) {
    while (p < end && (is_newline(*p) || *p == '/')) ++p;
    return p;
  }
};

template <class Rule>
size_t scan_with(std::string_view& text, std::span<uint32_t> lengths) {
  const char *p = text.data(), *end = p + text.size();
  size_t n = 0;
  while (p < end && n < lengths.size()) {
    const char* q = Rule::next(p, end);
    lengths[n++] = static_cast<uint32_t>(q - p);
    p = q;
  }
  text.remove_prefix(static_cast<size_t>(p - text.data()));
  return n;
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED_HEAD "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_TAIL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// A possessive or spelled-out form may mean the same; only the forms listed here are taken as known.
struct Known {
  std::string_view pattern;
  Scanner scanner;
  bool fancy_only;
};
constexpr Known kKnown[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", Scanner::gpt2, false},
    {CONTRACTIONS WORD "\\p{N}" REST, Scanner::qwen2, false},
    {CONTRACTIONS WORD "\\p{N}{1,3}" REST, Scanner::llama3, false},
    {CONTRACTIONS WORD "\\p{N}+" REST, Scanner::llama3_all_digits, false},
    {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                  "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     Scanner::qwen35, false},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     Scanner::cl100k, true},
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     Scanner::llama3, false},
    {CASED_HEAD "*" CASED_TAIL "+" CONTRACTIONS "?|" CASED_HEAD "+" CASED_TAIL "*" CONTRACTIONS
                "?|\\p{N}{1,3}" CASED_REST,
     Scanner::o200k, false},
    {CASED_HEAD "*" CASED_TAIL "+|" CASED_HEAD "+" CASED_TAIL "*|\\p{N}" CASED_REST, Scanner::tekken, false},
};

}  // namespace

Scanner find_scanner(std::string_view pattern, RegexDialect dialect) {
  for (const Known& k : kKnown)
    if (k.pattern == pattern && !(k.fancy_only && dialect != RegexDialect::fancy)) return k.scanner;
  return Scanner::none;
}

size_t scan_some(Scanner scanner, std::string_view& text, std::span<uint32_t> lengths) {
  switch (scanner) {
    case Scanner::none:
      break;
    case Scanner::gpt2:
      return scan_with<Gpt2>(text, lengths);
    case Scanner::qwen2:
      return scan_with<LlamaLike<1, kLetter, false>>(text, lengths);
    case Scanner::qwen35:
      return scan_with<LlamaLike<1, kLetter | kMark, false>>(text, lengths);
    case Scanner::llama3:
      return scan_with<LlamaLike<3, kLetter, false>>(text, lengths);
    case Scanner::llama3_all_digits:
      return scan_with<LlamaLike<0, kLetter, false>>(text, lengths);
    case Scanner::cl100k:
      return scan_with<LlamaLike<3, kLetter, true>>(text, lengths);
    case Scanner::o200k:
      return scan_with<CaseSplit<true, 3>>(text, lengths);
    case Scanner::tekken:
      return scan_with<CaseSplit<false, 1>>(text, lengths);
  }
  return 0;
}

void scan(Scanner scanner, std::string_view text, FunctionRef<void(std::string_view)> piece) {
  if (scanner == Scanner::none) return piece(text);
  uint32_t lengths[64];
  while (!text.empty()) {
    const char* p = text.data();
    size_t n = scan_some(scanner, text, lengths);
    for (size_t i = 0; i < n; p += lengths[i++]) piece({p, lengths[i]});
  }
}

}  // namespace tenon::text
