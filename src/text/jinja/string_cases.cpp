#include "text/jinja/string_cases.h"

#include <algorithm>

#include "text/jinja/chars.h"
#include "text/jinja/text_format.h"

namespace tenon::text::jinja {
namespace {

void append_mapped(std::string& out, const CharMap& map, char32_t c) {
  const CharMapping* m = map.find(c);
  if (!m) return append_char(out, c);
  for (uint32_t to : m->to)
    if (to != 0) append_char(out, to);
}

bool is_cased(char32_t c) { return kLower.has(c) || kUpper.has(c) || kTitle.has(c); }

// A sigma at the end of a word.
bool is_final_sigma(std::string_view text, size_t at, size_t bytes) {
  size_t before = at;
  char32_t c = 0;
  while (before > 0) {
    before = char_start_before(text, before);
    c = char_at(text, before).code;
    if (!kCaseIgnorable.has(c)) break;
    c = 0;
  }
  if (c == 0 || !is_cased(c)) return false;
  for (size_t after = at + bytes; after < text.size();) {
    Char next = char_at(text, after);
    if (!kCaseIgnorable.has(next.code)) return !is_cased(next.code);
    after += next.bytes;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, size_t at, Char c) {
  if (c.code == 0x3A3)
    append_char(out, is_final_sigma(text, at, c.bytes) ? 0x3C2 : 0x3C3);
  else
    append_mapped(out, kToLower, c.code);
}

// `map(piece, at, char)` appends what a character becomes; marks go with it.
template <class Map>
Value mapped(Meter& meter, const Value& v, Map map) {
  const Str& s = v.str();
  std::string_view text = s.view();
  TextBuilder out(meter);
  out.set_markup(s.markup());
  std::string piece;
  bool piece_content = s.marks().all;
  bool uniform = s.marks().all || s.marks().none();
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    bool broken = c.bytes == 1 && c.code >= 0x80;
    if (!uniform) {
      bool content = s.content_at(at);
      if (content != piece_content) {
        out.append(piece, piece_content);
        piece.clear();
        piece_content = content;
      }
    }
    if (broken)
      piece.push_back(text[at]);
    else
      map(piece, at, c);
    at += c.bytes;
  }
  out.append(piece, piece_content);
  return out.finish();
}

bool ascii_letter(char32_t c, char32_t first) { return c >= first && c < first + 26; }

bool has_char_property(char32_t c, std::string_view method) {
  if (method == "isalpha") return kAlpha.has(c);
  if (method == "isdecimal") return kDecimal.has(c);
  if (method == "isdigit") return kDigit.has(c);
  if (method == "isnumeric") return kNumeric.has(c);
  if (method == "isalnum") return kAlpha.has(c) || kDecimal.has(c) || kDigit.has(c) || kNumeric.has(c);
  if (method == "isspace") return is_space(c);
  if (method == "isprintable") return !kUnprintable.has(c);
  return c < 0x80;  // isascii
}

template <class Predicate>
bool all_chars(std::string_view text, Predicate holds) {
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    if (!holds(c.code)) return false;
    at += c.bytes;
  }
  return true;
}

// islower, isupper: a cased character, and none of the other case.
bool is_of_case(std::string_view text, const CharSet& wanted, const CharSet& other) {
  bool any = false;
  bool none_other = all_chars(text, [&](char32_t c) {
    any |= wanted.has(c);
    return !other.has(c) && !kTitle.has(c);
  });
  return any && none_other;
}

bool is_title(std::string_view text) {
  bool in_word = false, any = false;
  bool fits = all_chars(text, [&](char32_t c) {
    bool starts = kUpper.has(c) || kTitle.has(c), goes_on = kLower.has(c);
    if ((starts && in_word) || (goes_on && !in_word)) return false;
    any |= starts || goes_on;
    in_word = starts || goes_on;
    return true;
  });
  return any && fits;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return all_chars(text, [](char32_t c) { return c == '_' || kAlpha.has(c) || kDecimal.has(c); });
}

}  // namespace

Value upper_case(Meter& meter, const Value& text) {
  return mapped(meter, text, [](std::string& out, size_t, Char c) {
    if (c.code < 0x80)
      out.push_back(static_cast<char>(ascii_letter(c.code, 'a') ? c.code - 32 : c.code));
    else
      append_mapped(out, kToUpper, c.code);
  });
}

Value lower_case(Meter& meter, const Value& v) {
  std::string_view text = v.str().view();
  return mapped(meter, v, [text](std::string& out, size_t at, Char c) {
    if (c.code < 0x80)
      out.push_back(static_cast<char>(ascii_letter(c.code, 'A') ? c.code + 32 : c.code));
    else
      append_lower(out, text, at, c);
  });
}

Value fold_case(Meter& meter, const Value& v) {
  return mapped(meter, v, [](std::string& out, size_t, Char c) { append_mapped(out, kToFold, c.code); });
}

Value title_case(Meter& meter, const Value& v) {
  std::string_view text = v.str().view();
  return mapped(meter, v, [text, in_word = false](std::string& out, size_t at, Char c) mutable {
    if (in_word)
      append_lower(out, text, at, c);
    else
      append_mapped(out, kToTitle, c.code);
    in_word = is_cased(c.code);
  });
}

Value capitalized(Meter& meter, const Value& v) {
  std::string_view text = v.str().view();
  return mapped(meter, v, [text](std::string& out, size_t at, Char c) {
    if (at == 0)
      append_mapped(out, kToTitle, c.code);
    else
      append_lower(out, text, at, c);
  });
}

Value swapped_case(Meter& meter, const Value& v) {
  std::string_view text = v.str().view();
  return mapped(meter, v, [text](std::string& out, size_t at, Char c) {
    if (kUpper.has(c.code))
      append_lower(out, text, at, c);
    else if (kLower.has(c.code))
      append_mapped(out, kToUpper, c.code);
    else
      append_char(out, c.code);
  });
}

bool has_property(std::string_view text, std::string_view method) {
  if (method == "islower") return is_of_case(text, kLower, kUpper);
  if (method == "isupper") return is_of_case(text, kUpper, kLower);
  if (method == "istitle") return is_title(text);
  if (method == "isidentifier") return is_identifier(text);
  if (text.empty()) return method == "isascii" || method == "isprintable";
  return all_chars(text, [&](char32_t c) { return has_char_property(c, method); });
}

Value replace_text(Meter& meter, const Value& v, const Str& from, const Str& to, Integer count) {
  const Str& s = v.str();
  std::string_view text = s.view();
  TextBuilder out(meter);
  out.set_markup(s.markup());
  meter.step(text.size() / 16);
  size_t done = 0;
  if (from.size() == 0) {  // before each character, and at the end
    bool ended = false;
    for (; count != 0 && !ended; --count) {
      out.append(to);
      meter.step();
      ended = done == text.size();
      size_t n = ended ? 0 : char_at(text, done).bytes;
      out.append(s, done, done + n);
      done += n;
    }
  } else {
    for (size_t at = text.find(from.view()); at != std::string_view::npos && count != 0; --count) {
      meter.step();
      out.append(s, done, at);
      out.append(to);
      done = at + from.size();
      at = text.find(from.view(), done);
    }
    if (done == 0) return v;
  }
  out.append(s, done, text.size());
  return out.finish();
}

void center_text(Meter& meter, TextBuilder& out, const Value& text, Integer width, std::string_view fill,
                 bool fill_content) {
  if (width > kMaxWidth) raise("a width is beyond {}", static_cast<int64_t>(kMaxWidth));
  Integer pads = std::max<Integer>(width - static_cast<Integer>(text.str().length()), 0);
  Integer left = pads / 2 + (pads & width & 1);
  meter.step(static_cast<uint64_t>(pads));
  for (Integer i = 0; i < left; ++i) out.append(fill, fill_content);
  out.append(text.str());
  for (Integer i = left; i < pads; ++i) out.append(fill, fill_content);
}

}  // namespace tenon::text::jinja
