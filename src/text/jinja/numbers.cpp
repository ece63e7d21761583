#include "text/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/chars.h"

namespace tenon::text::jinja {
namespace {

[[noreturn]] void too_large() { raise("an integer needs more than 127 bits"); }

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Other scripts' decimal digits become ASCII's.
std::string ascii_digits(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    const CharRange* r = std::find_if(kDecimal.ranges, kDecimal.ranges + kDecimal.count,
                                      [&](const CharRange& x) { return x.last >= c.code; });
    bool decimal = c.code >= 0x80 && r != kDecimal.ranges + kDecimal.count && r->first <= c.code;
    if (decimal)
      out.push_back(static_cast<char>('0' + (c.code - r->first) % 10));
    else
      out.append(text.substr(at, c.bytes));
    at += c.bytes;
  }
  return out;
}

// Underscores may stand between digits only.
std::optional<std::string> without_underscores(std::string_view given) {
  std::string text = is_ascii(given) ? std::string(given) : ascii_digits(given);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    bool between = i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 36 && digit_value(text[i + 1]) < 36;
    if (!between) return std::nullopt;
  }
  return out;
}

bool drop_prefix(std::string_view& digits, int& base) {
  if (digits.size() < 2 || digits[0] != '0') return base != 0;
  char c = static_cast<char>(digits[1] | 0x20);
  int found = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
  if (found != 0 && (base == 0 || base == found)) {
    base = found;
    digits.remove_prefix(2);
    if (!digits.empty() && digits[0] == '_') digits.remove_prefix(1);
  }
  return true;
}

}  // namespace

std::string integer_text(Integer i) { return integer_text(i, 10); }

std::string integer_text(Integer i, unsigned base) {
  UnsignedInteger u = i < 0 ? -static_cast<UnsignedInteger>(i) : static_cast<UnsignedInteger>(i);
  std::string out;
  do {
    out.push_back("0123456789abcdef"[static_cast<unsigned>(u % base)]);
    u /= base;
  } while (u != 0);
  if (i < 0) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  size_t e = text.find('e');
  int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string out(std::signbit(d) ? "-" : ""), digits;
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits.push_back(c);
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  out += digits.substr(0, whole) + ".";
  return out + (digits.size() > whole ? digits.substr(whole) : "0");
}

std::string fixed_text(double d, int precision, char type) {
  if (std::isnan(d)) return type < 'a' ? "NAN" : "nan";
  if (precision < 0 || precision > kMaxPrecision) raise("precision is not within 0 and {}", kMaxPrecision);
  char format[] = {'%', '.', '*', type, 0};
  std::string out(static_cast<size_t>(precision) + 340, 0);
  int n = std::snprintf(out.data(), out.size(), format, precision, d);
  out.resize(static_cast<size_t>(n));
  return out;
}

std::optional<Integer> parse_integer(std::string_view text, int base) {
  text = strip_left(strip_right(text));
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  if (!drop_prefix(digits, base)) base = 10;
  if (base == 0) base = 10;
  if (digits.empty()) return std::nullopt;
  Integer value = 0;
  for (char c : digits) {
    int v = digit_value(c);
    if (v >= base) return std::nullopt;
    value = checked_add(checked_multiply(value, base), v);
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip_left(strip_right(text));
  auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  std::string lower = *plain;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  std::string_view body = lower;
  if (body[0] == '-' || body[0] == '+') body.remove_prefix(1);
  bool named = body == "inf" || body == "infinity" || body == "nan";
  if (!named && (body.empty() || body.find_first_not_of("0123456789.e+-") != std::string_view::npos))
    return std::nullopt;
  bool negative = lower[0] == '-';
  double value = 0;
  auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (end != body.data() + body.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    value = std::strtod(std::string(body).c_str(), nullptr);
  else if (error != std::errc())
    return std::nullopt;
  return negative ? -value : value;
}

double to_double(const Value& v) { return v.is(Kind::real) ? v.real() : static_cast<double>(v.integer()); }

Integer truncated(double d) {
  if (std::isnan(d)) raise("cannot convert float NaN to integer");
  if (std::isinf(d)) raise("cannot convert float infinity to integer");
  if (std::abs(d) >= 0x1p126) too_large();
  return static_cast<Integer>(d);
}

Integer checked_add(Integer a, Integer b) {
  Integer r;
  if (__builtin_add_overflow(a, b, &r)) too_large();
  return r;
}

Integer checked_subtract(Integer a, Integer b) {
  Integer r;
  if (__builtin_sub_overflow(a, b, &r)) too_large();
  return r;
}

Integer checked_multiply(Integer a, Integer b) {
  // by hand: Clang's overflow check of 128 bits needs a library that GCC's runtime lacks
  if (a == 0 || b == 0) return 0;
  UnsignedInteger ua = a < 0 ? -static_cast<UnsignedInteger>(a) : static_cast<UnsignedInteger>(a);
  UnsignedInteger ub = b < 0 ? -static_cast<UnsignedInteger>(b) : static_cast<UnsignedInteger>(b);
  constexpr UnsignedInteger kMost = ~UnsignedInteger{0} >> 1;
  if (ua > kMost / ub) too_large();
  Integer r = static_cast<Integer>(ua * ub);
  return (a < 0) == (b < 0) ? r : -r;
}

double round_half_even(double d, int digits) {
  if (!std::isfinite(d) || digits > 320) return d;
  if (digits < 0) {
    double scale = std::pow(10.0, -digits);
    return std::isinf(scale) ? 0.0 : std::nearbyint(d / scale) * scale;
  }
  // printf rounds the exact binary value half to even, which is what Python does
  std::string text = fixed_text(d, digits, 'f');
  return std::strtod(text.c_str(), nullptr);
}

}  // namespace tenon::text::jinja
