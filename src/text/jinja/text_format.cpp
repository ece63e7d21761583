#include "text/jinja/text_format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/chars.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"

namespace tenon::text::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false, zero = false, no_negative_zero = false;
  Integer width = 0;
  int precision = -1;
};

Integer take_number(std::string_view& text, const char* what) {
  Integer n = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    n = n * 10 + (text[0] - '0');
    if (n > kMaxWidth) raise("a format's {} is beyond {}", what, static_cast<int64_t>(kMaxWidth));
    text.remove_prefix(1);
  }
  return n;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Spec parse_spec(std::string_view text, const Value& value) {
  Spec s;
  auto skip = [&](char c) {
    bool is = !text.empty() && text[0] == c;
    if (is) text.remove_prefix(1);
    return is;
  };
  if (!text.empty()) {
    size_t n = char_at(text, 0).bytes;
    if (text.size() > n && is_align(text[n])) {
      s.fill = text.substr(0, n);
      s.align = text[n];
      text.remove_prefix(n + 1);
    } else if (is_align(text[0])) {
      s.align = text[0];
      text.remove_prefix(1);
    }
  }
  for (char c : {'+', '-', ' '})
    if (skip(c)) {
      s.sign = c;
      break;
    }
  s.no_negative_zero = skip('z');
  s.alternate = skip('#');
  if (skip('0')) {
    s.zero = true;
    if (s.align == 0) {
      s.fill = "0";
      s.align = '=';
    }
  }
  s.width = take_number(text, "width");
  if (!text.empty() && (text[0] == ',' || text[0] == '_')) {
    s.grouping = text[0];
    text.remove_prefix(1);
  }
  if (skip('.')) {
    if (text.empty() || text[0] < '0' || text[0] > '9') raise("Format specifier missing precision");
    s.precision = static_cast<int>(take_number(text, "precision"));
  }
  if (!text.empty()) {
    s.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) raise("Invalid format specifier for object of type '{}'", type_name(value));
  return s;
}

std::string grouped(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out;
}

void upper(std::string& text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}

// A number's text from its parts, padded between sign and digits where '=' is asked for.
void put_number(Meter& meter, TextBuilder& out, const Spec& s, bool negative, std::string prefix, std::string digits,
                const std::string& rest, bool content, size_t every = 3) {
  std::string sign = negative ? "-" : s.sign == '-' ? "" : std::string(1, s.sign);
  if (s.grouping != 0) {
    if (s.align == '=' && s.fill == "0") {
      size_t taken = sign.size() + prefix.size() + rest.size();
      while (static_cast<Integer>(grouped(digits, s.grouping, every).size() + taken) < s.width)
        digits.insert(0, 1, '0');
    }
    digits = grouped(digits, s.grouping, every);
  }
  std::string head = sign + prefix, body = digits + rest;
  if (s.align == '=') {
    out.append(head, content);
    Integer pads = s.width - static_cast<Integer>(head.size() + body.size());
    for (Integer i = 0; i < pads; ++i) out.append(s.fill, false);
    out.append(body, content);
    return;
  }
  pad(meter, out, make_string(meter, head + body, content), s.width, s.fill, s.align ? s.align : '>');
}

void format_integer(Meter& meter, TextBuilder& out, const Value& v, Spec s) {
  if (s.precision >= 0) raise("Precision not allowed in integer format specifier");
  Integer i = v.integer();
  if (s.type == 'c') {
    if (i < 0 || i > 0x10FFFF) raise("%c arg not in range(0x110000)");
    std::string c;
    append_char(c, static_cast<char32_t>(i));
    return pad(meter, out, make_string(meter, c, v.content()), s.width, s.fill, s.align ? s.align : '>');
  }
  unsigned base = s.type == 'b' ? 2 : s.type == 'o' ? 8 : s.type == 'x' || s.type == 'X' ? 16 : 10;
  std::string digits = integer_text(i, base), prefix;
  if (i < 0) digits.erase(0, 1);
  if (s.alternate && base != 10) prefix = std::string("0") + s.type;
  if (s.type == 'X') upper(digits);
  if (base != 10 && s.grouping == ',') raise("Cannot specify ',' with '{}'.", s.type);
  put_number(meter, out, s, i < 0, prefix, digits, "", v.content(), base == 10 ? 3 : 4);
}

std::string general_text(double d, const Spec& s) {
  if (s.type != 0) {
    char type = s.type == 'n' ? 'g' : s.type == '%' ? 'f' : s.type;
    int precision = s.precision < 0 ? 6 : s.precision;
    if ((type == 'g' || type == 'G') && precision == 0) precision = 1;
    std::string text = fixed_text(s.type == '%' ? d * 100 : d, precision, type);
    return s.type == '%' ? text + "%" : text;
  }
  if (s.precision < 0) return float_text(d);
  // like 'g', but with at least one digit after the point, so that exponents start one digit earlier
  int precision = std::max(s.precision, 1);
  std::string text = fixed_text(d, precision, 'g');
  if (!std::isfinite(d) || text.find_first_of("e.") != std::string::npos) return text;
  if (static_cast<int>(text.size()) < precision) return text + ".0";
  text = fixed_text(d, precision - 1, 'e');
  size_t e = text.find('e'), end = e;
  while (text.find('.') < e && text[end - 1] == '0') --end;
  if (text[end - 1] == '.') --end;
  text.erase(end, e - end);
  return text;
}

void format_real(Meter& meter, TextBuilder& out, const Value& v, const Spec& s) {
  double d = to_double(v);
  std::string text = general_text(std::abs(d), s);
  bool negative = std::signbit(d) && !std::isnan(d);
  if (s.no_negative_zero && text.find_first_of("123456789") == std::string::npos && std::isfinite(d)) negative = false;
  size_t whole = 0;
  while (whole < text.size() && text[whole] >= '0' && text[whole] <= '9') ++whole;
  if (whole == 0) whole = text.size();  // inf, nan
  Spec plain = s;
  if (!std::isfinite(d)) plain.grouping = 0;
  put_number(meter, out, plain, negative, "", text.substr(0, whole), text.substr(whole), v.content());
}

void format_string(Meter& meter, TextBuilder& out, const Value& v, const Spec& s) {
  if (s.type != 0 && s.type != 's') raise("Unknown format code '{}' for object of type 'str'", s.type);
  if (s.align == '=' && !s.zero) raise("'=' alignment not allowed in string format specifier");
  if (s.sign != '-') raise("Sign not allowed in string format specifier");
  Value text = v;
  if (s.precision >= 0) text = slice(meter, v, Value::of(0), Value::of(s.precision), Value::none());
  pad(meter, out, text, s.width, s.fill, s.align && s.align != '=' ? s.align : '<');
}

class Formatter {
 public:
  Formatter(Meter& meter, const Value& format, const Args& args)
      : meter_(meter), format_(format.str()), text_(format_.view()), args_(args) {}

  Value run() {
    TextBuilder out(meter_);
    out.set_markup(format_.markup());
    for (size_t at = 0; at < text_.size();) {
      size_t brace = text_.find_first_of("{}", at);
      if (brace == std::string_view::npos) brace = text_.size();
      out.append(format_, at, brace);
      if (brace == text_.size()) break;
      if (brace + 1 < text_.size() && text_[brace + 1] == text_[brace]) {
        out.append(format_, brace, brace + 1);
        at = brace + 2;
      } else if (text_[brace] == '}') {
        raise("Single '}}' encountered in format string");
      } else {
        at = field(out, brace + 1);
      }
    }
    return out.finish();
  }

 private:
  size_t end_of_field(size_t at) const {
    int depth = 1;
    for (; at < text_.size(); ++at) {
      if (text_[at] == '{') ++depth;
      if (text_[at] == '}' && --depth == 0) return at;
    }
    raise("expected '}}' before end of string");
  }

  size_t field(TextBuilder& out, size_t begin) {
    size_t end = end_of_field(begin);
    std::string_view body = text_.substr(begin, end - begin);
    size_t split = 0;
    while (split < body.size() && body[split] != '!' && body[split] != ':')
      split = body[split] == '[' ? std::min(body.find(']', split), body.size() - 1) + 1 : split + 1;
    std::string_view name = body.substr(0, split), rest = body.substr(split);
    Value value = look_up(name);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) raise("end of string while looking for conversion specifier");
      value = convert(value, rest[1]);
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') raise("expected ':' after conversion specifier");
    }
    std::string spec = rest.empty() ? "" : expand(rest.substr(1));
    if (format_.markup()) {
      if (!spec.empty()) raise("format specifiers are not supported on Markup strings here");
      print_escaped(meter_, out, value);
    } else {
      format_value(meter_, out, value, spec);
    }
    return end + 1;
  }

  Value convert(const Value& v, char how) {
    if (how == 's') return to_text(meter_, v);
    if (how != 'r' && how != 'a') raise("Unknown conversion specifier '{}'", how);
    TextBuilder out(meter_);
    print_repr(meter_, out, v);
    return out.finish();
  }

  // Fields inside of a specification: "{:>{width}}".
  std::string expand(std::string_view spec) {
    std::string out;
    for (size_t at = 0; at < spec.size();) {
      if (spec[at] != '{') {
        out.push_back(spec[at++]);
        continue;
      }
      size_t end = spec.find('}', at);
      if (end == std::string_view::npos) raise("expected '}}' before end of string");
      Value v = to_text(meter_, look_up(spec.substr(at + 1, end - at - 1)));
      out += v.str().view();
      at = end + 1;
    }
    return out;
  }

  Value look_up(std::string_view name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      bool bracket = name[0] == '[';
      size_t stop = bracket ? name.find(']') : std::min(name.find_first_of(".[", 1), name.size());
      if (stop == std::string_view::npos) raise("Missing ']' in format string");
      std::string_view key = name.substr(1, stop - 1);
      if (key.empty()) raise("Empty attribute in format string");
      auto number =
          bracket && key.find_first_not_of("0123456789") == std::string_view::npos ? parse_integer(key) : std::nullopt;
      Value key_value = number ? Value::of(*number) : make_string(meter_, std::string(key), false);
      v = bracket ? item(meter_, v, key_value) : attribute(meter_, v, key_value);
      refuse_undefined(v);
      name.remove_prefix(bracket ? stop + 1 : stop);
    }
    return v;
  }

  Value first(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos) {
      if (name.empty() == manual_ && (manual_ || automatic_))
        raise("cannot switch between manual and automatic field numbering");
      (name.empty() ? automatic_ : manual_) = true;
      Integer i = name.empty() ? static_cast<Integer>(next_++) : parse_integer(name).value_or(0);
      if (i >= static_cast<Integer>(args_.positional.size()))
        raise("Replacement index {} out of range for positional args tuple", static_cast<int64_t>(i));
      return args_.positional[static_cast<size_t>(i)];
    }
    for (const auto& [key, value] : args_.named)
      if (key.str().view() == name) return value;
    raise("there is no argument '{}' for the format", name);
  }

  Meter& meter_;
  const Str& format_;
  std::string_view text_;
  const Args& args_;
  size_t next_ = 0;
  bool manual_ = false, automatic_ = false;
};

}  // namespace

Value format_text(Meter& meter, const Value& format, const Args& args) { return Formatter(meter, format, args).run(); }

void format_value(Meter& meter, TextBuilder& out, const Value& value, std::string_view spec) {
  if (spec.empty()) return print(meter, out, value);
  Spec s = parse_spec(spec, value);
  if (value.is(Kind::string)) return format_string(meter, out, value, s);
  bool integral = value.is(Kind::integer) || (value.is(Kind::boolean) && s.type != 0 && s.type != 's');
  static constexpr std::string_view kInteger = "bcdoxXn", kReal = "eEfFgG%n";
  if (integral && (s.type == 0 || kInteger.find(s.type) != std::string_view::npos))
    return format_integer(meter, out, value, s);
  bool number = integral || value.is(Kind::real);
  if (number && ((s.type == 0 && value.is(Kind::real)) || kReal.find(s.type) != std::string_view::npos))
    return format_real(meter, out, value, s);
  if (value.is(Kind::boolean)) return format_integer(meter, out, value, s);
  if (number) raise("Unknown format code '{}' for object of type '{}'", s.type, type_name(value));
  raise("unsupported format string passed to {}.__format__", type_name(value));
}

void pad(Meter& meter, TextBuilder& out, const Value& text, Integer width, std::string_view fill, char align,
         bool fill_content) {
  if (width > kMaxWidth) raise("a width is beyond {}", static_cast<int64_t>(kMaxWidth));
  Integer pads = std::max<Integer>(width - static_cast<Integer>(text.str().length()), 0);
  meter.step(static_cast<uint64_t>(pads));
  Integer left = align == '<' ? 0 : align == '>' ? pads : pads / 2;
  for (Integer i = 0; i < left; ++i) out.append(fill, fill_content);
  out.append(text.str());
  for (Integer i = left; i < pads; ++i) out.append(fill, fill_content);
}

}  // namespace tenon::text::jinja
